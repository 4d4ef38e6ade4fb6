#include "agent/steps/devices.h"

#include "base/text.h"

namespace harrow::agent {

Status Devices::Prepare(Launch* launch, TaskResult* result) {
  cuda_.clear();
  rocr_.clear();
  for (const uint32_t number : launch->given.devices) {
    const topology::Device& device = devices_[number];
    std::string& list = device.kind == topology::DeviceKind::kNvidia ? cuda_ : rocr_;
    list += StrCat(list.empty() ? "" : ",", device.id);
  }
  launch->variables.cuda_devices = cuda_;
  launch->variables.rocr_devices = rocr_;
  result->devices = StrCat(cuda_, cuda_.empty() || rocr_.empty() ? "" : ",", rocr_);
  return {};
}

}  // namespace harrow::agent
