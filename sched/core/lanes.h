#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/node_table.h"
#include "graph/graph.h"
#include "order/lane.h"

namespace harrow::core {

/// The kinds of tasks by what they ask for, and which of them no node can give.
class Lanes {
 public:
  const order::LaneTable& table() const { return table_; }
  size_t size() const { return table_.size(); }
  const order::Lane& operator[](order::LaneId id) const { return table_[id]; }
  /// Whether tasks of that lane ask for several nodes.
  bool gang(order::LaneId id) const { return table_[id].nodes > 1; }
  /// Whether there is such a lane.
  bool gangs() const { return gangs_; }
  /// The lane of a task; makes it when there is none.
  order::LaneId Of(const graph::Graph& graph, TaskId task);
  /// The same, were it on so many nodes: of one whose ranks may be spread.
  order::LaneId OfSpread(const graph::Graph& graph, TaskId task, uint32_t nodes);
  /// Its ranks may lie on several nodes, and nothing is said of how many.
  static bool MaySpread(const graph::Profile& profile) {
    return profile.ranks > 1 && profile.shape.nodes <= 1 && !profile.shape.whole_node;
  }

  /// Whether tasks of some lane write checkpoints, and the longest that one of these may take.
  bool checkpointed() const { return most_checkpoint_time_ > Duration(0); }
  Duration most_checkpoint_time() const { return most_checkpoint_time_; }
  /// Whether some lane has a time limit.
  bool timed() const { return timed_; }
  /// Whether the lane's tasks may not start, as their time limit does not fit any more.
  bool barred(order::LaneId id) const { return table_.barred(id); }
  void SetBarred(order::LaneId id, bool barred) { table_.SetBarred(id, barred); }
  /// Whether a task of that lane may stand in the node's queue.
  bool FitsOpen(order::LaneId id, const Node& node) const {
    return node.open() && order::Room::FitsCapacity(table_[id], node.total());
  }

  /// Whether no node that is there or expected can give what the lane asks for.
  bool impossible(order::LaneId id) const { return kinds_[id].impossible; }
  /// Whether nodes that were lost could give it.
  bool gone(order::LaneId id) const { return kinds_[id].gone; }
  /// The same of one lane, by what nodes are like now.
  bool CanHold(order::LaneId id, const NodeTable& nodes) const { return CountAble(table_[id], nodes).expected >= table_[id].nodes; }
  /// Looks at all nodes anew. Returns whether some lane is impossible.
  bool FindImpossible(const NodeTable& nodes);
  /// After that: tasks whose ranks may be spread, and whose lane is impossible, are of one of several nodes
  /// from now on, as few as can hold them, where there are such nodes.
  void Spread(const graph::Graph& graph, const NodeTable& nodes);

  /// What is broken, or nothing.
  std::string FindBroken() const;
  size_t memory() const { return of_profile_.capacity() * sizeof(order::LaneId) + table_.memory(); }

 private:
  struct Kind {
    bool impossible = false, gone = false;
  };
  static order::Lane LaneOf(const graph::Profile& profile, uint32_t nodes);
  order::LaneId FindOrAdd(order::Lane lane);
  void Look(order::LaneId lane, const NodeTable& nodes);
  /// How many nodes could give what the lane asks for: those that are expected, and those that are gone.
  struct Able {
    uint32_t expected = 0, gone = 0;
  };
  Able CountAble(const order::Lane& lane, const NodeTable& nodes) const;

  order::LaneTable table_;
  std::vector<Kind> kinds_;
  std::vector<order::LaneId> of_profile_;
  bool timed_ = false, gangs_ = false;
  Duration most_checkpoint_time_{0};
};

}  // namespace harrow::core
