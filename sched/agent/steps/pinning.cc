#include "agent/steps/pinning.h"

namespace harrow::agent {

Status Pinning::Prepare(Launch* launch, TaskResult* result) {
  const std::vector<uint32_t>& given = launch->given.slots;
  for (const uint32_t slot : given)
    result->pus.insert(result->pus.end(), slots_[slot].pus.begin(), slots_[slot].pus.end());
  const bool inherits = given.size() == 1 && given.front() == own_;
  mask_ = inherits ? os::CpuMask() : os::CpuMask(result->pus);
  launch->request.cpus = mask_.empty() ? nullptr : &mask_;
  return {};
}

}  // namespace harrow::agent
