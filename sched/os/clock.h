#pragma once

#include <time.h>

#include "base/time.h"

namespace harrow::os {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual WallTime Now() const = 0;       // calendar time
  virtual Duration Steady() const = 0;    // CLOCK_MONOTONIC, equal over all processes of one machine since its boot
};

Clock& RealClock();

/// For the kernel; not negative.
inline timespec TimespecOf(Duration d) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(d);
  return {.tv_sec = seconds.count(), .tv_nsec = (d - seconds).count()};
}

class FakeClock : public Clock {
 public:
  WallTime Now() const override { return WallTime(now_); }
  Duration Steady() const override { return now_; }
  void Advance(Duration d) { now_ += d; }

 private:
  Duration now_{0};
};

}  // namespace harrow::os
