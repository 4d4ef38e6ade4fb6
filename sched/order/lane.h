#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "base/resources.h"
#include "base/time.h"

namespace harrow::order {

using LaneId = uint16_t;
constexpr LaneId kNoLane = std::numeric_limits<LaneId>::max();

/// What the tasks of a lane have in common: they can take each other's place. Queues keep lanes apart, so that a
/// task that does not fit now is never in the way of one that does.
struct Lane {
  uint32_t cores = 1;
  uint32_t gpus = 0;
  uint64_t memory = 0;  // bytes; 0: not declared
  uint32_t nodes = 1;   // > 1: a gang of whole nodes
  bool whole_node = false;
  int32_t priority = 0;
  Duration time_limit{0};

  bool operator==(const Lane&) const = default;
  /// One core and nothing else: what may be sent ahead.
  bool plain() const { return cores == 1 && gpus == 0 && memory == 0 && !whole_node && nodes == 1; }
};

/// What is free on a node at a moment.
struct Room {
  std::span<const Lane> lanes;
  const uint8_t* closed = nullptr;  // one a lane, nonzero: nothing of it may start now (its time does not fit)
  uint32_t slots = 0;               // free
  uint32_t gpus = 0;
  uint64_t memory = 0;
  bool idle = false;  // nothing at all runs there
  NodeCapacity total;
  LaneId only = kNoLane;  // what gets free is kept for this lane

  bool Fits(LaneId id) const {
    const Lane& lane = lanes[id];
    return lane.cores <= slots && lane.gpus <= gpus && (lane.memory == 0 || total.memory == 0 || lane.memory <= memory) &&
           (!lane.whole_node || idle) && (only == kNoLane || only == id);
  }
  /// Fits when the node is empty.
  bool Possible(LaneId id) const {
    const Lane& lane = lanes[id];
    return closed[id] == 0 && FitsCapacity(lane, total);
  }
  static bool FitsCapacity(const Lane& lane, const NodeCapacity& total) {
    return lane.cores <= total.slots && lane.gpus <= total.gpus &&
           (lane.memory == 0 || total.memory == 0 || lane.memory <= total.memory);
  }
};

}  // namespace harrow::order
