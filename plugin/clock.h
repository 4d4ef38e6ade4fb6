#pragma once

#include <time.h>

namespace harrow::plugin {

/// Milliseconds of a clock that only goes forward.
inline long Milliseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<long>(now.tv_sec) * 1000 + now.tv_nsec / 1'000'000;
}

inline void Pause(long milliseconds) {
  timespec pause = {milliseconds / 1000, milliseconds % 1000 * 1'000'000};
  nanosleep(&pause, nullptr);
}

}  // namespace harrow::plugin
