#pragma once

#include <cstdint>
#include <vector>

#include "agent/steps/step.h"
#include "topology/slots.h"

namespace harrow::agent {

/// The PUs of the slots that a process was given. One that was given just its thread's slot inherits its
/// mask.
class Pinning : public Step {
 public:
  /// `own`: the slot whose thread this is.
  Pinning(const std::vector<topology::Slot>& slots, uint32_t own) : slots_(slots), own_(own) {}
  Status Prepare(Launch* launch, TaskResult* result) override;

 private:
  const std::vector<topology::Slot>& slots_;  // of the node
  const uint32_t own_;
  os::CpuMask mask_;
};

}  // namespace harrow::agent
