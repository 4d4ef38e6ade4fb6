#pragma once

#include <algorithm>
#include <vector>

#include "base/ids.h"
#include "base/time.h"

namespace harrow::order {

/// Mean run times of the finished tasks of each level.
class LevelTimes {
 public:
  void Add(Level level, Duration run_time) {
    if (static_cast<size_t>(level) >= levels_.size()) levels_.resize(static_cast<size_t>(level) + 1);
    Sum& sum = levels_[static_cast<size_t>(level)];
    sum.total += Seconds(run_time);
    sum.count += 1;
    sum.weight = 0;
  }
  bool measured(Level level) const {
    return static_cast<size_t>(level) < levels_.size() && levels_[static_cast<size_t>(level)].count > 0;
  }
  /// The mean run time in seconds; only of a level that is measured.
  double mean(Level level) const {
    const Sum& sum = levels_[static_cast<size_t>(level)];
    return sum.total / sum.count;
  }
  /// 1 / mean; only of a level that is measured. Times below a microsecond count as one: clocks say little
  /// there.
  double weight(Level level) const {
    const Sum& sum = levels_[static_cast<size_t>(level)];
    if (sum.weight == 0) sum.weight = 1 / std::max(sum.total / sum.count, 1e-6);
    return sum.weight;
  }
  size_t memory() const { return levels_.capacity() * sizeof(Sum); }

 private:
  struct Sum {
    double total = 0;
    double count = 0;
    // What weight() answers; 0: it is to be found anew.
    mutable double weight = 0;
  };
  std::vector<Sum> levels_;
};

}  // namespace harrow::order
