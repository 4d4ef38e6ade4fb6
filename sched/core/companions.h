#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/lanes.h"
#include "core/task_table.h"
#include "graph/graph.h"

namespace harrow::core {

/// Ready tasks whose outputs will be read together with what a node has made or makes: of equal tasks in the
/// remote queue a node takes these first (companions.cc).
class Companions {
 public:
  Companions(const graph::Graph& graph, const TaskTable* tasks, const Lanes* lanes)
      : graph_(graph), tasks_(*tasks), lanes_(*lanes) {}

  /// The task was given to the node.
  void Given(TaskId id, NodeId node);
  /// Instead of a task that it was about to take from the remote queue: that one, or one that stands there,
  /// too, fits, and has the same level and urgency.
  TaskId Prefer(TaskId first, NodeId node, const order::Room& room);
  size_t memory() const;

 private:
  // And how many tasks read it together with what the node has.
  using Known = std::vector<std::pair<TaskId, uint32_t>>;

  /// In the remote queue.
  bool Stands(TaskId id) const;

  const graph::Graph& graph_;
  const TaskTable& tasks_;
  const Lanes& lanes_;
  std::vector<Known> of_node_;
};

}  // namespace harrow::core
