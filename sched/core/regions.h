#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "core/node_table.h"
#include "core/queues.h"
#include "core/task_table.h"
#include "graph/graph.h"

namespace harrow::core {

/// Which of equal tasks in the remote queue a node takes first: each node has a stretch of their nearby order
/// (regions.cc).
class Regions {
 public:
  Regions(const graph::Graph& graph, const TaskTable* tasks, const NodeTable* nodes, const Queues* queues)
      : graph_(graph), tasks_(*tasks), nodes_(*nodes), queues_(*queues) {}

  /// Instead of a task that the node was about to take from the remote queue: that one, or one that stands
  /// there, too, of the same lane, level and urgency. It need not be taken: nobody else's turn changes by that.
  TaskId Prefer(TaskId first, NodeId node);
  /// One was taken from the remote queue.
  void NoteTaken() { rest_ -= rest_ > 0 ? 1 : 0; }
  /// It has a new place in the queue, or it is known anew what it is related to.
  void Forget(TaskId id) {
    if (Arranged(id)) arranged_[id.value] = false;
  }
  size_t memory() const;

 private:
  using Kind = std::tuple<Level, order::Urgency, order::LaneId>;
  /// [begin, end) of an order: what is left of it.
  struct Stretch {
    uint32_t begin = 0, end = 0;
    NodeId node;
    uint32_t size() const { return end - begin; }
  };
  /// Tasks of one kind.
  struct Region {
    std::vector<TaskId> order;
    uint32_t unit = 1;  // as of place::NearbyOrder
    std::vector<Stretch> stretches;
    uint32_t left = 0;  // in all of them, and some that stand there no more
    // By node: which one is its own, or was.
    std::vector<uint32_t> of_node;
    // A heap of sizes and stretches; sizes have become less, and what was said first of a stretch counts.
    std::vector<std::pair<uint32_t, uint32_t>> by_size;

    void Add(const Stretch& stretch);
    void NoteSize(uint32_t stretch);
    void GiveTo(NodeId node, uint32_t stretch);
  };

  Kind KindOf(TaskId id) const;
  /// In the remote queue, as of that kind.
  bool Stands(TaskId id, const Kind& kind) const;
  bool Arranged(TaskId id) const { return id.value < arranged_.size() && arranged_[id.value]; }
  /// Those in the remote queue, and one that was taken out of it.
  void Arrange(TaskId taken_out);
  /// Returns how many were to be put into an order.
  size_t ArrangeKind(const Kind& kind, std::vector<TaskId> standing);
  /// Its first one stands, unless it is empty.
  void Trim(const Kind& kind, Region* region, Stretch* stretch);
  Stretch* Longest(const Kind& kind, Region* region);
  Stretch* StretchOf(const Kind& kind, Region* region, NodeId node);
  uint32_t PartFor(const Region& region, NodeId node, const Stretch& others) const;

  const graph::Graph& graph_;
  const TaskTable& tasks_;
  const NodeTable& nodes_;
  const Queues& queues_;
  std::map<Kind, Region> regions_;
  std::vector<bool> arranged_;  // a task is, or was, in a region, or there were too few of its kind
  uint64_t rest_ = 0;           // so many are taken before those that have come are arranged
};

}  // namespace harrow::core
