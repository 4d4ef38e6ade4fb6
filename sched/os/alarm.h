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
  Alarm();
  ~Alarm();
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

  /// Takes the place of the time before. `steady`: a time to come of RealClock().Steady().
  void Set(Duration steady);
  /// False where the user may have no timers (RLIMIT_SIGPENDING): it wakes nobody.
  bool works() const { return timers_.front().has_value(); }

 private:
  std::array<std::optional<timer_t>, 4> timers_;
};

}  // namespace harrow::os
