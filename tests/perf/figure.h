#pragma once

#include <algorithm>
#include <cstdio>
#include <string>
#include <time.h>
#include <vector>

/// What the C++ programs of tests/perf share (perf_support.py is the same for those in Python).
namespace harrow::perf {

inline bool all_hold = true;

/// Prints a figure that is for reading only: "NAME: FIGURE UNIT".
inline void Figure(const std::string& name, double value, const char* unit) {
  std::printf("%s: %.4g %s\n", name.c_str(), value, unit);
  std::fflush(stdout);
}

enum class Bound { kAtMost, kAtLeast };

/// Prints "NAME: FIGURE UNIT (bound B, holds|falls short)".
inline void Figure(const std::string& name, double value, const char* unit, double bound,
                   Bound kind = Bound::kAtMost) {
  const bool holds = kind == Bound::kAtLeast ? value >= bound : value <= bound;
  all_hold &= holds;
  std::printf("%s: %.4g %s (bound %.4g, %s)\n", name.c_str(), value, unit, bound,
              holds ? "holds" : "falls short");
  std::fflush(stdout);
}

/// Processor time of this thread in seconds: what others do on the machine meanwhile is not counted.
inline double ThreadSeconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// The program's exit status: 1 when a figure fell short.
inline int Status() {
  return all_hold ? 0 : 1;
}

inline double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace harrow::perf
