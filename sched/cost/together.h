#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "cost/net.h"

namespace harrow::cost {

/// The number of the first task of each meta-task, and of all.
inline std::vector<uint32_t> FirstOf(const Net& net) {
  std::vector<uint32_t> first(net.tasks.size() + 1, 0);
  for (size_t t = 0; t < net.tasks.size(); ++t) first[t + 1] = first[t] + net.tasks[t].count;
  return first;
}

/// Which tasks are together; the representative is the least.
class Together {
 public:
  explicit Together(size_t count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), 0u); }
  uint32_t Find(uint32_t task) {
    while (parent_[task] != task) task = parent_[task] = parent_[parent_[task]];
    return task;
  }
  /// Returns the change in the number of groups and tasks without one.
  int Join(uint32_t a, uint32_t b) {
    a = Find(a);
    b = Find(b);
    if (a == b) return 0;
    parent_[std::max(a, b)] = std::min(a, b);
    return -1;
  }

 private:
  std::vector<uint32_t> parent_;
};

}  // namespace harrow::cost
