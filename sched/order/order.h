#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "base/ids.h"
#include "order/draws.h"
#include "order/level_times.h"
#include "order/policy.h"
#include "order/ready_queue.h"

namespace harrow::order {

/// Which bucket of a queue is next, and from which end.
struct Choice {
  static constexpr size_t kNothing = static_cast<size_t>(-1);
  size_t bucket = kNothing;
  bool newest = false;
  LaneId overtaken = kNoLane;
  std::optional<Level> drawn;  // the draw that led here: stays when the entry found does not count
};

/// One of the five policies; shared by all queues of a scheduler.
class Order {
 public:
  virtual ~Order() = default;
  /// Whether queues keep levels apart.
  virtual bool by_level() const = 0;
  /// Whether a task that becomes ready later may come before one that waits.
  virtual bool NewcomerFirst(Level newcomer, Level waiting) const = 0;
  /// `before`: the previous choice of the same Take(), which found an entry that does not count.
  virtual Choice Choose(const ReadyQueue& queue, const Room& room, const Choice& before) = 0;
};

/// `draws` and `times` must outlive it; only rank+hrf uses them.
std::unique_ptr<Order> MakeOrder(Policy policy, Draws* draws, const LevelTimes* times);

}  // namespace harrow::order
