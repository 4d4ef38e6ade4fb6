#pragma once

#include <cstdint>

#include "agent/steps/step.h"

namespace harrow::agent {

/// Whom the kernel ends first when a node has no memory left: a task that declares how much it needs, rather
/// than the agent. How much each holds is watched by memory_watch.h.
class Memory : public Step {
 public:
  Status Prepare(Launch* launch, TaskResult* result) override;
};

/// What is known of a task's peak when the kernel counts `counted_kib`, that of its starter (os/spawn.cc)
/// included: the number, or, where the starter's may hide it, less than minus the result.
int64_t OwnPeak(int64_t counted_kib, int64_t starter_kib);

}  // namespace harrow::agent
