#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "base/ids.h"

namespace harrow::core {

/// The bounds of open tasks of this server, against the best value that is known (branch and bound): a task is pointless
/// when nothing that comes of it can be better by more than the gap. Which tasks are open the caller knows; those that
/// are not any more leave with the next look.
class Bounds {
 public:
  /// `gap`: relative to the best value.
  explicit Bounds(double gap) : gap_(gap) {}

  /// The task is open here, with a bound.
  void Add(TaskId id, double bound) {
    least_.emplace_back(bound, id);
    std::push_heap(least_.begin(), least_.end(), LeastFirst);
    most_.emplace_back(bound, id);
    std::push_heap(most_.begin(), most_.end(), MostFirst);
  }
  /// Returns whether it is better than what was known.
  bool Improve(double value) {
    if (best_ && *best_ <= value) return false;
    best_ = value;
    return true;
  }
  std::optional<double> best() const { return best_; }
  /// -infinity never is.
  bool Pointless(double bound) const { return best_ && bound >= *best_ - gap_ * std::abs(*best_); }
  /// Takes out those that are pointless now.
  std::vector<TaskId> TakePointless() {
    std::vector<TaskId> tasks;
    while (!most_.empty() && Pointless(most_.front().first)) {
      tasks.push_back(most_.front().second);
      std::pop_heap(most_.begin(), most_.end(), MostFirst);
      most_.pop_back();
    }
    std::sort(tasks.begin(), tasks.end());
    return tasks;
  }
  /// The least bound of those that are open; none: no open one has a bound. Forgets those that are not.
  template <class IsOpen>
  std::optional<double> Least(const IsOpen& is_open) {
    while (!least_.empty() && !is_open(least_.front().second)) {
      std::pop_heap(least_.begin(), least_.end(), LeastFirst);
      least_.pop_back();
    }
    if (least_.empty()) return std::nullopt;
    return least_.front().first;
  }
  size_t memory() const { return (least_.capacity() + most_.capacity()) * sizeof(Bound); }

 private:
  using Bound = std::pair<double, TaskId>;
  static bool LeastFirst(const Bound& a, const Bound& b) { return a > b; }
  static bool MostFirst(const Bound& a, const Bound& b) { return a < b; }

  const double gap_;
  std::optional<double> best_;
  // Heaps.
  std::vector<Bound> least_, most_;
};

}  // namespace harrow::core
