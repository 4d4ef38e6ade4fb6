#pragma once

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "base/time.h"

namespace harrow::core {

/// Tasks that have used up their retries, on a node that may be to blame for that: they have failed if it is
/// not. Each is delayed until that is known.
class Verdicts {
 public:
  bool any() const { return !nodes_.empty(); }
  size_t size() const { return nodes_.size(); }
  bool Has(TaskId id) const { return any() && nodes_.contains(id); }
  /// Where it has failed; of one that is here.
  NodeId node(TaskId id) const { return nodes_.at(id); }
  /// Nothing more is to be learnt after `until`, if nothing else fails there.
  void Add(TaskId id, NodeId node, Time until) {
    nodes_[id] = node;
    until_[node] = until;
  }
  Time until(NodeId node) const { return until_.at(node); }
  void Forget(TaskId id) {
    if (any()) nodes_.erase(id);
    if (!any()) until_.clear();
  }
  std::vector<TaskId> All() const {
    return Those([](NodeId) { return true; });
  }
  std::vector<TaskId> Of(NodeId node) const {
    return Those([node](NodeId n) { return n == node; });
  }

 private:
  template <class Wanted>
  std::vector<TaskId> Those(const Wanted& wanted) const {
    std::vector<TaskId> found;
    for (const auto& [id, node] : nodes_) {
      if (wanted(node)) found.push_back(id);
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  std::unordered_map<TaskId, NodeId> nodes_;
  std::unordered_map<NodeId, Time> until_;
};

}  // namespace harrow::core
