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
  NodeCapacity& operator+=(const NodeCapacity& more) {
    slots += more.slots;
    devices += more.devices;
    memory += more.memory;
    return *this;
  }
  NodeCapacity& operator-=(const NodeCapacity& less) {
    slots -= less.slots;
    devices -= less.devices;
    memory -= less.memory;
    return *this;
  }
  /// Of a node's total: so much is in use, and there is room for `more`.
  bool HasRoom(const NodeCapacity& used, const NodeCapacity& more) const {
    return uint64_t{used.slots} + more.slots <= slots && uint64_t{used.devices} + more.devices <= devices &&
           (memory == 0 || used.memory + more.memory <= memory);
  }
};

/// How many ranks of an MPI task of several nodes are on the `index`th of them: as many on each, one more on
/// the first ones where that does not come out even. They are numbered node by node.
constexpr uint32_t RanksOn(uint32_t ranks, uint32_t nodes, uint32_t index) {
  return ranks / nodes + (index < ranks % nodes ? 1 : 0);
}

}  // namespace harrow
