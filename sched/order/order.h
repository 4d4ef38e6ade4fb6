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
  // The level that was drawn. It stays when the entry found there does not count.
  std::optional<Level> drawn;
};

/// One of the policies; shared by all queues of a scheduler.
class Order {
 public:
  virtual ~Order() = default;
  /// Whether queues keep levels apart for this order.
  virtual bool by_level() const = 0;
  /// Whether a task that becomes ready later may come before one that waits.
  virtual bool NewcomerFirst(Level newcomer, Level waiting) const = 0;
  /// Chooses a bucket. `before` is the previous choice of the same Take(), which found an entry that does not
  /// count.
  virtual Choice Choose(const ReadyQueue& queue, const Room& room, const Choice& before) = 0;
};

/// Makes the order of a policy. `draws` and `times` must outlive it; only rank+hrf uses them.
std::unique_ptr<Order> MakeOrder(Policy policy, Draws* draws, const LevelTimes* times);

}  // namespace harrow::order
