#pragma once

#include <string>
#include <vector>

#include "core/ahead.h"
#include "core/backups.h"
#include "core/companions.h"
#include "core/copies.h"
#include "core/event.h"
#include "core/gangs.h"
#include "core/holds.h"
#include "core/lanes.h"
#include "core/node_table.h"
#include "core/queues.h"
#include "core/scheduler.h"
#include "core/suspects.h"
#include "core/task_table.h"
#include "graph/graph.h"
#include "order/level_times.h"
#include "place/replicas.h"

namespace harrow::core {

/// All that the scheduler knows. Each part guards what is inside of it, and can tell what of it is broken;
/// what concerns several is done by the layers above, of which each knows those below it: Parts, Moves,
/// Fates, Dispatch, Scheduler::Impl.
struct Parts {
  Parts(const graph::Graph& the_graph, const Options& the_options, order::Draws* draws)
      : graph(the_graph),
        options(the_options),
        replicas(the_graph, the_options.local_files),
        queues(options, &level_times, draws, &tasks, &lanes),
        ahead(options, &tasks),
        companions(the_graph, &tasks, &lanes) {}

  /// As many tasks are at nodes as may be at once.
  bool full() const { return options.max_running > 0 && tasks.in_flight() >= options.max_running; }
  /// What a node makes stays there; and the order is not one of the paper's.
  bool PrefersCompanions() const {
    return options.local_files && options.locality && options.policy == order::Policy::kAuto;
  }
  bool IsGang(TaskId id) const { return lanes.gang(tasks[id].lane()); }
  /// The node is kept for somebody, or waits as a suspect: it is not free for all.
  bool Kept(NodeId id) const {
    return gangs.Keeps(id) || holds.lane(id) != order::kNoLane || suspects.Waits(id);
  }
  order::Room RoomIn(NodeId id) const { return nodes[id].RoomIn(lanes.table(), holds.lane(id)); }
  /// As far as nodes are known: others may come yet, and not fail their tasks.
  bool AllSuspect() const { return suspects.any() && nodes_known && suspects.size() >= nodes.open_nodes(); }
  /// There are nodes enough for gangs of that lane, were they idle.
  bool EnoughNodes(order::LaneId gang) const;
  size_t memory() const;
  /// What is broken, or nothing: in the parts, and between them. `stopped`: nothing more is started.
  std::string FindBroken(bool stopped) const;

  const graph::Graph& graph;
  const Options options;
  order::LevelTimes level_times;
  place::Replicas replicas;
  TaskTable tasks;
  NodeTable nodes;
  Lanes lanes;
  Queues queues;
  Holds holds;
  Gangs gangs;
  Ahead ahead;
  Suspects suspects;
  Companions companions;
  // No node is expected but those that are expected now.
  bool nodes_known = false;
  Copies copies;
  Backups backups;
  // Of the instant that is being handled.
  Time now{};
  std::vector<Action>* actions = nullptr;
};

}  // namespace harrow::core
