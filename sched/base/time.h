#pragma once

#include <chrono>
#include <cstdint>

namespace harrow {

using Duration = std::chrono::nanoseconds;

/// Time since the start of a run. It has no now(): who needs the time is handed it, real or simulated.
struct RunClock {
  using rep = int64_t;
  using period = std::nano;
  using duration = Duration;
  using time_point = std::chrono::time_point<RunClock>;
  static constexpr bool is_steady = true;
};
using Time = RunClock::time_point;

/// Calendar time (UTC), for records and people only; never for decisions.
using WallTime = std::chrono::sys_time<Duration>;

constexpr double Seconds(Duration d) { return std::chrono::duration<double>(d).count(); }
/// To the nearest nanosecond, so that Seconds() of a decimal fraction with up to nine digits gives it back.
constexpr Duration FromSeconds(double s) { return Duration(static_cast<int64_t>(s * 1e9 + (s < 0 ? -0.5 : 0.5))); }

}  // namespace harrow
