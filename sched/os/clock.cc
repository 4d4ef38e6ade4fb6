#include "os/clock.h"

#include <ctime>

namespace harrow::os {
namespace {

Duration Read(clockid_t id) {
  timespec t{};
  clock_gettime(id, &t);
  return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
}

class PosixClock : public Clock {
 public:
  WallTime Now() const override { return WallTime(Read(CLOCK_REALTIME)); }
  Duration Steady() const override { return Read(CLOCK_MONOTONIC); }
};

}  // namespace

Clock& RealClock() {
  static PosixClock clock;
  return clock;
}

}  // namespace harrow::os
