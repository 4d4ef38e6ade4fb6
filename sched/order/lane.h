#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/resources.h"
#include "base/time.h"

namespace harrow::order {

using LaneId = uint16_t;
constexpr LaneId kNoLane = std::numeric_limits<LaneId>::max();

/// What the tasks of a lane have in common: they can take each other's place. Queues keep lanes apart, so
/// that a task that does not fit now is never in the way of one that does.
struct Lane {
  uint32_t cores = 1;
  uint32_t devices = 0;
  // Bytes a node; 0: not declared.
  uint64_t memory = 0;
  // More than 1: a gang, which asks for all that of each of so many nodes.
  uint32_t nodes = 1;
  bool whole_node = false;
  Duration time_limit{0};
  // What is left of the allocation's time has to be so much for a task of it to start: the time limit, or, where it writes checkpoints,
  // what makes one worth while.
  Duration least_time{0};

  bool operator==(const Lane&) const = default;
  /// It asks for one core and nothing else: its tasks may be sent ahead.
  bool plain() const { return cores == 1 && devices == 0 && memory == 0 && !whole_node && nodes == 1; }
};

/// All lanes, and sets of the first 64 of them as bits, so that which of them fit a node is known at once.
class LaneTable {
 public:
  static constexpr size_t kInSets = 64;
  size_t size() const { return lanes_.size(); }
  const Lane& operator[](size_t id) const { return lanes_[id]; }
  LaneId Add(const Lane& lane);
  /// Whether the lane's tasks may not start now, as their time does not fit.
  bool barred(LaneId id) const { return barred_[id] != 0; }
  void SetBarred(LaneId id, bool barred);
  /// The lane that asks for exactly that, or kNoLane.
  LaneId Find(const Lane& lane) const;
  /// Makes the last lane ask for as much as `lane`, too.
  void WidenLast(const Lane& lane);

  /// The lanes that ask for cores only, and for at most so many.
  uint64_t plain_up_to(uint32_t cores) const { return up_to_[cores < kCores ? cores : kCores]; }
  uint64_t special() const { return special_; }
  uint64_t barred_set() const { return barred_set_; }
  size_t memory() const { return lanes_.capacity() * sizeof(Lane) + barred_.capacity(); }

 private:
  static constexpr uint32_t kCores = 256;
  void Enter(LaneId id);
  std::vector<Lane> lanes_;
  std::vector<uint8_t> barred_;
  std::array<uint64_t, kCores + 1> up_to_{};
  // The lanes that ask for more than cores.
  uint64_t special_ = 0;
  uint64_t barred_set_ = 0;
};

/// What is free on a node at a moment, and so which lanes' tasks may start there.
class Room {
 public:
  struct Free {
    uint32_t slots = 0;
    uint32_t devices = 0;
    uint64_t memory = 0;
    // Nothing at all runs on the node.
    bool idle = false;
  };
  /// `only`: the lane that what gets free is kept for, if any.
  Room(const LaneTable& lanes, const NodeCapacity& total, const Free& free, LaneId only = kNoLane)
      : lanes_(lanes), total_(total), free_(free), only_(only) {
    fits_ = lanes.plain_up_to(free.slots);
    possible_ = lanes.plain_up_to(total.slots);
    for (uint64_t left = lanes.special(); left != 0; left &= left - 1) {
      const auto lane = static_cast<LaneId>(std::countr_zero(left));
      fits_ |= uint64_t{ComputeFits(lane)} << lane;
      possible_ |= uint64_t{FitsCapacity(lanes[lane], total)} << lane;
    }
    possible_ &= ~lanes.barred_set();
    if (only != kNoLane) fits_ &= only < LaneTable::kInSets ? uint64_t{1} << only : 0;
  }
  /// Of all lanes only those among the first ones that are in the set can fit from now on.
  void Only(uint64_t lanes) {
    fits_ &= lanes;
    free_.slots = 0;  // no other asks for less
  }
  bool Fits(LaneId id) const { return id < LaneTable::kInSets ? (fits_ >> id & 1) != 0 : ComputeFits(id); }
  /// Whether the lane's tasks fit when the node is empty.
  bool Possible(LaneId id) const {
    return id < LaneTable::kInSets ? (possible_ >> id & 1) != 0
                                   : !lanes_.barred(id) && FitsCapacity(lanes_[id], total_);
  }
  const Lane& lane(LaneId id) const { return lanes_[id]; }

  /// Whether what is free is enough for a task of the lane.
  static bool FitsFree(const Lane& lane, const NodeCapacity& total, const Free& free) {
    return lane.cores <= free.slots && lane.devices <= free.devices &&
           (total.memory == 0 || lane.memory <= free.memory) &&
           (!lane.whole_node || free.idle);
  }
  static bool FitsCapacity(const Lane& lane, const NodeCapacity& total) {
    return lane.cores <= total.slots && lane.devices <= total.devices &&
           (total.memory == 0 || lane.memory <= total.memory);
  }

 private:
  bool ComputeFits(LaneId id) const {
    return FitsFree(lanes_[id], total_, free_) && (only_ == kNoLane || only_ == id);
  }

  const LaneTable& lanes_;
  NodeCapacity total_;
  Free free_;
  LaneId only_;
  // Of the first lanes, those that fit an empty node, and those that fit now.
  uint64_t possible_ = 0, fits_ = 0;
};

}  // namespace harrow::order
