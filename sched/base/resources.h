#pragma once

#include <compare>
#include <cstdint>

namespace harrow {

/// What a task asks of a node. Equal shapes are kept together in the queues.
struct Shape {
  uint32_t cores = 1;    // cores of one node; of each node when nodes > 1
  uint32_t devices = 0;  // GPUs and the like
  uint32_t nodes = 1;
  bool whole_node = false;
  uint64_t memory = 0;  // bytes of one node; 0: not declared
  auto operator<=>(const Shape&) const = default;
};

/// What a node has to give.
struct NodeCapacity {
  uint32_t slots = 0;
  uint32_t devices = 0;
  uint64_t memory = 0;  // bytes; 0: unknown, never limits
  auto operator<=>(const NodeCapacity&) const = default;
};

/// How many ranks of an MPI task of several nodes are on the `index`th of them: as many on each, one more on
/// the first ones where that does not come out even. They are numbered node by node.
constexpr uint32_t RanksOn(uint32_t ranks, uint32_t nodes, uint32_t index) {
  return ranks / nodes + (index < ranks % nodes ? 1 : 0);
}

}  // namespace harrow
