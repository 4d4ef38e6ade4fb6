#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/ids.h"

namespace harrow::place {

/// Which nodes' queues may hold tasks of one lane. A node is entered when a task comes into its queue, and
/// taken out when somebody who wants to steal finds nothing there: so finding a victim is O(1) amortised.
class Victims {
 public:
  /// A task of the lane has come into the node's queue.
  void Note(NodeId node) {
    if (node.value >= listed_.size()) listed_.resize(node.value + 1, 0);
    if (std::exchange(listed_[node.value], 1) != 0) return;
    nodes_.push_back(node);
  }
  size_t size() const { return nodes_.size(); }
  NodeId operator[](size_t i) const { return nodes_[i]; }
  void Drop(size_t i) {
    listed_[nodes_[i].value] = 0;
    nodes_[i] = nodes_.back();
    nodes_.pop_back();
  }
  size_t memory() const { return nodes_.capacity() * sizeof(NodeId) + listed_.capacity(); }

 private:
  std::vector<NodeId> nodes_;
  std::vector<uint8_t> listed_;
};

/// Nodes by their number of free slots.
class FreeNodes {
 public:
  /// A node with 0 free slots is taken out.
  void Set(NodeId node, uint32_t free_slots);
  uint32_t free_slots(NodeId node) const {
    return node.value < where_.size() ? where_[node.value].free_slots : 0;
  }
  uint32_t largest() const { return largest_; }
  bool empty() const { return largest_ == 0; }
  /// The nodes with exactly that many free slots.
  const std::vector<NodeId>& With(uint32_t free_slots) const { return by_free_[free_slots]; }
  size_t memory() const;

 private:
  struct Where {
    uint32_t free_slots = 0;
    uint32_t index = 0;
  };
  std::vector<std::vector<NodeId>> by_free_ = std::vector<std::vector<NodeId>>(1);
  std::vector<Where> where_;
  uint32_t largest_ = 0;
};

}  // namespace harrow::place
