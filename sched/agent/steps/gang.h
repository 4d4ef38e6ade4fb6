#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace harrow::agent {

/// The nodes of an attempt of several, each of which has a part of it: the lead node first. Ranks are
/// numbered in this order. Either all nodes have ranks, or the task has none and its command runs on the lead
/// node alone; then the others only keep their cores for it.
struct Gang {
  struct Node {
    NodeId id{};
    std::string name{};
    uint32_t ranks = 0;
  };
  std::vector<Node> nodes{};
  uint32_t here = 0;    // which of them this one is
  std::string space{};  // the name of this try, which nobody else can guess
  // It has outputs, which the lead node looks for when the processes of all parts have ended.
  bool ends_together = false;

  bool leads() const { return here == 0; }
  /// Of all nodes.
  uint32_t ranks() const;
  /// The first one of this node; the others follow it.
  uint32_t first_rank() const;
  uint32_t ranks_here() const { return nodes[here].ranks; }
  /// Does this node have processes of it?
  bool has_processes() const { return leads() || ranks_here() > 0; }
  /// Which of the nodes has the rank; their number: none.
  uint32_t NodeOf(uint32_t rank) const;
  /// Those that have one of `ranks`, both ascending; where none is named, those that have processes.
  std::vector<uint32_t> NodesOf(const std::vector<uint32_t>& ranks) const;
  std::string Names(std::string_view between) const;
};

}  // namespace harrow::agent
