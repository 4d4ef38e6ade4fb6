#pragma once

#include <algorithm>
#include <set>
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
    Row& row = rows_[node];
    row.tasks.insert(id);
    row.until = until;
  }
  /// Something else has failed there.
  void Extend(NodeId node, Time until) {
    if (const auto row = rows_.find(node); row != rows_.end()) row->second.until = until;
  }
  Time until(NodeId node) const { return rows_.at(node).until; }
  void Forget(TaskId id) {
    const auto found = any() ? nodes_.find(id) : nodes_.end();
    if (found == nodes_.end()) return;
    const auto row = rows_.find(found->second);
    row->second.tasks.erase(id);
    if (row->second.tasks.empty()) rows_.erase(row);
    nodes_.erase(found);
  }
  /// All, and those of one node; by task.
  std::vector<TaskId> All() const {
    std::vector<TaskId> found;
    for (const auto& [id, node] : nodes_) found.push_back(id);
    std::sort(found.begin(), found.end());
    return found;
  }
  std::vector<TaskId> Of(NodeId node) const {
    const auto row = rows_.find(node);
    if (row == rows_.end()) return {};
    return {row->second.tasks.begin(), row->second.tasks.end()};
  }
  /// Those of which each(node) says so.
  template <class Wanted>
  std::vector<TaskId> OfThose(const Wanted& wanted) const {
    std::vector<TaskId> found;
    for (const auto& [node, row] : rows_) {
      if (wanted(node)) found.insert(found.end(), row.tasks.begin(), row.tasks.end());
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  /// A node was to blame for its failure. That is believed a few times, lest a task is tried for ever that harms its nodes.
  void Acquit(TaskId id) { ++acquittals_[id]; }
  bool MayAcquit(TaskId id) const {
    const auto found = acquittals_.find(id);
    return found == acquittals_.end() || found->second < kMostAcquittals;
  }
  bool acquitted(TaskId id) const { return !acquittals_.empty() && acquittals_.contains(id); }

 private:
  static constexpr uint32_t kMostAcquittals = 5;
  struct Row {
    std::set<TaskId> tasks;
    Time until;
  };
  std::unordered_map<TaskId, NodeId> nodes_;
  std::unordered_map<NodeId, Row> rows_;
  std::unordered_map<TaskId, uint32_t> acquittals_;
};

}  // namespace harrow::core
