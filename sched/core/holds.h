#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "order/lane.h"

namespace harrow::core {

/// Nodes that keep what gets free for tasks of one lane, as these were overtaken for too long by tasks that
/// fit.
class Holds {
 public:
  void Grow(size_t nodes) { nodes_.resize(nodes); }
  /// The lane that the node keeps room for, or kNoLane.
  order::LaneId lane(NodeId id) const { return nodes_[id.value].lane; }
  /// Nodes that keep room for it.
  uint32_t holders(order::LaneId lane) const { return lane < holders_.size() ? holders_[lane] : 0; }

  /// So many cores were given while a task was first that did not fit. Returns them all.
  uint32_t CountOvertaken(NodeId id, uint32_t cores) { return nodes_[id.value].overtaken_cores += cores; }
  void ForgetOvertaken(NodeId id) { nodes_[id.value].overtaken_cores = 0; }
  void Keep(NodeId id, order::LaneId lane);
  /// Returns whether it kept something.
  bool Drop(NodeId id);

  /// The lane has so many tasks now: no more nodes are to keep room for it.
  void Bound(order::LaneId lane, uint64_t tasks) { trim_ |= holders(lane) > tasks; }
  /// Returns whether a lane came to have more nodes than tasks since it was asked last.
  bool TakeTrim() { return std::exchange(trim_, false); }

  size_t memory() const { return nodes_.capacity() * sizeof(Node) + holders_.capacity() * sizeof(uint32_t); }
  /// What is broken, or nothing.
  std::string FindBroken() const;

 private:
  struct Node {
    order::LaneId lane = order::kNoLane;
    uint32_t overtaken_cores = 0;
  };
  std::vector<Node> nodes_;
  std::vector<uint32_t> holders_;
  bool trim_ = false;
};

}  // namespace harrow::core
