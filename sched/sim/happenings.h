#pragma once

#include <cstdint>
#include <limits>
#include <queue>
#include <tuple>

namespace harrow::sim {

/// A message that arrives, or what becomes of a node, at a time. What a, b and c are is the kind's.
struct Happening {
  enum class Kind : uint8_t {
    kStartArrives,
    kPartArrives,
    kTakeBackArrives,
    kCancelArrives,
    kSignalled,
    kStartReported,
    kEndReported,
    kReturnReported,
    kCopyArrives,
    kDropArrives,
    kRefuseArrives,
    kFileReported,
    kFails,
    kRepaired,
    kRewound,
    kSpeed,
    kComes
  };
  double time;
  uint8_t order;  // of what happens at one instant
  Kind kind;
  uint32_t a, b, c;
  uint64_t number;
  bool operator<(const Happening& o) const {
    return std::tie(o.time, o.order, o.number) < std::tie(time, order, number);
  }
};

/// All that happens later but ends of runs (RunEnds) and of transfers (Transfers): by time, at one instant by
/// `order`, then as it was added.
class Happenings {
 public:
  void Add(double time, uint8_t order, Happening::Kind kind, uint32_t a, uint32_t b = 0, uint32_t c = 0) {
    queue_.push({time, order, kind, a, b, c, number_++});
  }
  /// Infinity where nothing is to come.
  double Next() const { return queue_.empty() ? std::numeric_limits<double>::infinity() : queue_.top().time; }
  Happening Pop() {
    const Happening next = queue_.top();
    queue_.pop();
    return next;
  }

 private:
  std::priority_queue<Happening> queue_;
  uint64_t number_ = 0;
};

}  // namespace harrow::sim
