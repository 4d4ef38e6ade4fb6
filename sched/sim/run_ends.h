#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace harrow::sim {

/// When attempts end their runs, the next first; those of one instant by task. Two parts, because a large cluster has more
/// of them than a heap can hold near the processor: a heap of those up to a horizon, and the rest in no order. When the
/// heap is empty, a sixteenth of the rest moves in.
class RunEnds {
 public:
  struct Entry {
    double time;
    uint32_t task;
    uint32_t attempt;
    bool operator<(const Entry& o) const { return time != o.time ? time < o.time : task < o.task; }
  };

  bool empty() const { return near_.empty(); }
  const Entry& top() const { return near_.front(); }
  /// One that is among the next few to come.
  const Entry& soon(size_t i) const { return near_[std::min(i, near_.size() - 1)]; }

  void Push(const Entry& entry) {
    if (!(entry < horizon_)) {
      far_.push_back(entry);
      if (near_.empty()) Refill();
      return;
    }
    size_t at = near_.size();
    near_.push_back(entry);
    while (at > 0 && entry < near_[(at - 1) / 4]) {
      near_[at] = near_[(at - 1) / 4];
      at = (at - 1) / 4;
    }
    near_[at] = entry;
  }

  void Pop() {
    const Entry last = near_.back();
    near_.pop_back();
    if (!near_.empty()) SiftDown(last);
    if (near_.empty() && !far_.empty()) Refill();
  }

 private:
  static constexpr size_t kLeast = 1024;

  void SiftDown(const Entry& entry) {
    size_t at = 0;
    for (;;) {
      const size_t first = at * 4 + 1;
      if (first >= near_.size()) break;
      size_t least = first;
      for (size_t child = first + 1, end = std::min(first + 4, near_.size()); child < end; ++child) {
        if (near_[child] < near_[least]) least = child;
      }
      if (!(near_[least] < entry)) break;
      near_[at] = near_[least];
      at = least;
    }
    near_[at] = entry;
  }

  void Refill() {
    const size_t count = std::min(far_.size(), std::max(kLeast, far_.size() / 16));
    const auto middle = far_.end() - static_cast<ptrdiff_t>(count);
    // The soonest to the end, so that taking them leaves the others where they are.
    std::nth_element(far_.begin(), middle, far_.end(), [](const Entry& a, const Entry& b) { return b < a; });
    near_.assign(middle, far_.end());
    far_.erase(middle, far_.end());
    std::sort(near_.begin(), near_.end());  // a sorted list is a heap
    horizon_ = near_.back();
  }

  std::vector<Entry> near_, far_;
  Entry horizon_{-std::numeric_limits<double>::infinity(), 0, 0};
};

}  // namespace harrow::sim
