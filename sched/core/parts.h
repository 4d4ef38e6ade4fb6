#pragma once

#include <string>
#include <vector>

#include "core/ahead.h"
#include "core/backups.h"
#include "core/bounds.h"
#include "core/checkpoints.h"
#include "core/copies.h"
#include "core/event.h"
#include "core/gangs.h"
#include "core/holds.h"
#include "core/lanes.h"
#include "core/node_table.h"
#include "core/path_order.h"
#include "core/placing.h"
#include "core/queues.h"
#include "core/regions.h"
#include "core/run_times.h"
#include "core/scheduler.h"
#include "core/streams.h"
#include "core/suspects.h"
#include "core/task_table.h"
#include "core/verdicts.h"
#include "graph/graph.h"
#include "order/level_times.h"
#include "place/replicas.h"

namespace harrow::core {

/// All that the scheduler knows. Each part guards what is inside of it, and can tell what of it is broken;
/// what concerns several is done by the layers above, of which each knows those below it: Parts, Moves,
/// Fates, Gathering, Dispatch, Scheduler::Impl.
struct Parts {
  Parts(const graph::Graph& the_graph, const Options& the_options, order::Draws* draws)
      : graph(the_graph),
        options(Adapted(the_options)),
        run_times(&level_times),
        replicas(the_graph, the_options.local_files),
        queues(options, &level_times, draws, &tasks, &lanes),
        ahead(options, &tasks),
        regions(the_graph, &tasks, &nodes, &queues),
        bounds(options.stop_gap),
        placing(the_graph, options),
        paths(the_graph, options) {}
  /// Of tasks that are placed by what they cost none is stolen.
  static Options Adapted(Options options);

  /// As many tasks are at nodes as may be at once.
  bool full() const { return options.max_running > 0 && tasks.in_flight() >= options.max_running; }
  /// What a node makes stays there; and the order is not one of the paper's.
  bool HasRegions() const {
    return options.local_files && options.locality && options.policy == order::Policy::kAuto;
  }
  bool IsGang(TaskId id) const { return lanes.gang(tasks[id].lane()); }
  /// The node is kept for tasks of some lane, or waits as a suspect: it is not free for all.
  bool Kept(NodeId id) const { return holds.lane(id) != order::kNoLane || suspects.Waits(id); }
  /// Slots that any task may have now.
  uint32_t FreeForAll(NodeId id) const {
    if (!nodes[id].open() || Kept(id)) return 0;
    return gangs.keeps() ? gangs.Beyond(id, nodes[id].left()).slots : nodes[id].free_slots();
  }
  /// What a task could be given now, beyond what is kept for gangs; of a node that is kept for a lane only
  /// one of that.
  order::Room RoomIn(NodeId id) const {
    order::Room::Free left = nodes[id].left();
    if (gangs.keeps()) left = gangs.Beyond(id, left);
    return {lanes.table(), nodes[id].total(), left, holds.lane(id)};
  }
  /// A task of the lane fits on the node once all is gone that runs there, beside what is kept for gangs and
  /// `more`.
  bool FitsBesideKept(order::LaneId lane, NodeId id, const NodeCapacity& more = {}) const;
  /// As far as nodes are known: others may come yet, and not fail their tasks.
  /// Each(reader, stream) of all that read what the task writes; each(writer, stream) of all that write what it reads.
  template <class Each>
  void EachReader(TaskId writer, const Each& each) const {
    for (const auto& [_, stream] : graph.streams_written(writer)) {
      for (const TaskId reader : graph.streams()[stream.value].readers) {
        if (tasks.Has(reader)) each(reader, stream);
      }
    }
  }
  template <class Each>
  void EachWriter(TaskId reader, const Each& each) const {
    for (const auto& [_, stream] : graph.streams_read(reader)) {
      for (const TaskId writer : graph.streams()[stream.value].writers) each(writer, stream);
    }
  }
  bool AllSuspect() const { return suspects.any() && nodes_known && suspects.size() >= nodes.open_nodes(); }
  /// There are nodes enough for gangs of that lane, were they idle.
  bool EnoughNodes(order::LaneId gang) const;
  size_t memory() const;
  /// What is broken, or nothing: in the parts, and between them. `stopped`: nothing more is started.
  std::string FindBroken(bool stopped) const;

  const graph::Graph& graph;
  const Options options;
  order::LevelTimes level_times;
  RunTimes run_times;
  place::Replicas replicas;
  TaskTable tasks;
  NodeTable nodes;
  Lanes lanes;
  Queues queues;
  Holds holds;
  Gangs gangs;
  Ahead ahead;
  Suspects suspects;
  Verdicts verdicts;
  Regions regions;
  Bounds bounds;
  Streams streams;
  Placing placing;
  PathOrder paths;
  Checkpoints checkpoints;
  // No node is expected but those that are expected now.
  bool nodes_known = false;
  // So are other servers, which may have such as are asked for.
  bool others_there = false;
  Copies copies;
  Backups backups;
  // Of the instant that is being handled.
  Time now{};
  std::vector<Action>* actions = nullptr;
};

}  // namespace harrow::core
