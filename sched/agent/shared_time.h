#pragma once

#include <chrono>
#include <cstdint>

namespace harrow::agent {

/// How long each of several things took that were done at the same time, each without the time that the others had: of n at once each has an n-th of it.
/// The sum is the time in which any was done.
class SharedTime {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// For End.
  double Begin(Time now) {
    Advance(now);
    ++count_;
    return each_;
  }
  std::chrono::nanoseconds End(Time now, double begun) {
    Advance(now);
    --count_;
    return std::chrono::nanoseconds(static_cast<int64_t>((each_ - begun) * 1e9 + 0.5));
  }

 private:
  void Advance(Time now) {
    if (count_ > 0) each_ += std::chrono::duration<double>(now - last_).count() / count_;
    last_ = now;
  }

  Time last_{};
  double each_ = 0;  // s, that one would have had which was done all the while
  uint32_t count_ = 0;
};

}  // namespace harrow::agent
