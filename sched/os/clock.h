#pragma once

#include "base/time.h"

namespace harrow::os {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual WallTime Now() const = 0;       // calendar time
  virtual Duration Steady() const = 0;    // CLOCK_MONOTONIC, equal over all processes of one machine since its boot
};

Clock& RealClock();

class FakeClock : public Clock {
 public:
  WallTime Now() const override { return WallTime(now_); }
  Duration Steady() const override { return now_; }
  void Advance(Duration d) { now_ += d; }

 private:
  Duration now_{0};
};

}  // namespace harrow::os
