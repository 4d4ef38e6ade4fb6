#pragma once

#include <array>
#include <optional>
#include <time.h>

#include "base/time.h"

namespace harrow::os {

/// Wakes this process at a time, also one that has been stopped: the kernel sends it a SIGCONT, and nobody
/// else has to run for that. A caller that blocks SIGCONT may wait for it. Not inherited by a child. Of one
/// thread.
class Alarm {
 public:
  Alarm();  // where the kernel has no timers left (RLIMIT_SIGPENDING) it wakes nobody
  ~Alarm();
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

  /// Takes the place of the time before. `steady`: a time to come of RealClock().Steady().
  void Set(Duration steady);

 private:
  std::array<std::optional<timer_t>, 2> timers_;
};

}  // namespace harrow::os
