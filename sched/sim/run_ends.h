#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace harrow::sim {

/// When attempts end their runs, the next first; those of one instant by task. A large cluster has more of them than a
/// heap can hold near the processor, so most lie in no order until they come within the horizon; then an eighth of them is
/// sorted. What comes within the horizon later is in a small heap. So it is known what comes after the next ones, too.
class RunEnds {
 public:
  struct Entry {
    double time;
    uint32_t task;
    uint32_t attempt;
    bool operator<(const Entry& o) const { return time != o.time ? time < o.time : task < o.task; }
  };

  bool empty() const { return first_ == sorted_.size() && late_.empty(); }
  const Entry& top() const { return SortedIsNext() ? sorted_[first_] : late_.front(); }
  /// One that comes after about `count` others, where that is known.
  const Entry* After(size_t count) const { return count < sorted_.size() - first_ ? &sorted_[first_ + count] : nullptr; }

  void Push(const Entry& entry) {
    if (entry < horizon_) {
      late_.push_back(entry);
      std::push_heap(late_.begin(), late_.end(), Later());
      return;
    }
    far_.push_back(entry);
    if (empty()) Refill();
  }

  void Pop() {
    if (SortedIsNext()) {
      ++first_;
    } else {
      std::pop_heap(late_.begin(), late_.end(), Later());
      late_.pop_back();
    }
    if (empty() && !far_.empty()) Refill();
  }

 private:
  static constexpr size_t kLeast = 1024;
  struct Later {  // no function, as those that compare by it would call it
    bool operator()(const Entry& a, const Entry& b) const { return b < a; }
  };
  bool SortedIsNext() const { return first_ < sorted_.size() && (late_.empty() || sorted_[first_] < late_.front()); }

  void Refill() {
    const size_t count = std::min(far_.size(), std::max(kLeast, far_.size() / 8));
    const auto middle = far_.end() - static_cast<ptrdiff_t>(count);
    // The soonest to the end, so that taking them leaves the others where they are.
    std::nth_element(far_.begin(), middle, far_.end(), Later());
    sorted_.assign(middle, far_.end());
    far_.erase(middle, far_.end());
    std::sort(sorted_.begin(), sorted_.end());
    first_ = 0;
    horizon_ = sorted_.back();
  }

  std::vector<Entry> sorted_, late_, far_;
  size_t first_ = 0;  // of sorted_ that is not taken
  Entry horizon_{-std::numeric_limits<double>::infinity(), 0, 0};
};

}  // namespace harrow::sim
