#include "core/parts.h"

#include <algorithm>

#include "base/text.h"

namespace harrow::core {

Options Parts::Adapted(Options options) {
  if (options.costs.how == cost::Place::kFiles && !options.make_placer) return options;
  options.steal = false;
  if (options.policy == order::Policy::kAuto) options.policy = order::Policy::kFifo;
  return options;
}

bool Parts::EnoughNodes(order::LaneId gang) const {
  uint32_t found = 0;
  for (uint32_t n = 0; n < nodes.size() && found < lanes[gang].nodes; ++n)
    found += lanes.FitsOpen(gang, nodes[NodeId(n)]) ? 1 : 0;
  return found == lanes[gang].nodes;
}

bool Parts::FitsBesideKept(order::LaneId lane, NodeId id, const NodeCapacity& more) const {
  const NodeCapacity& total = nodes[id].total();
  NodeCapacity kept = gangs.kept(id);
  kept += more;
  return total.HasRoom(kept, NodeTable::PartOf(lanes[lane], total));
}

size_t Parts::memory() const {
  return graph.MemoryWithoutText() + tasks.memory() + nodes.memory() + lanes.memory() + queues.memory() +
         holds.memory() + gangs.memory() + run_times.memory() + ahead.memory() + copies.memory() +
         regions.memory() + bounds.memory() + placing.memory() + paths.memory() + backups.memory() + replicas.memory() + level_times.memory();
}

std::string Parts::FindBroken(bool stopped) const {
  for (const std::string& broken :
       {tasks.FindBroken(graph), nodes.FindBroken(), lanes.FindBroken(), queues.FindBroken(),
        holds.FindBroken(), gangs.FindBroken(), ahead.FindBroken(nodes), checkpoints.FindBroken()}) {
    if (!broken.empty()) return broken;
  }
  std::vector<uint32_t> in_flight(nodes.size());
  for (uint32_t n = 0; n < tasks.size(); ++n) {
    const TaskId id(n);
    const Task& task = tasks[id];
    if (task.state() == TaskState::kReady) {
      for (NodeId node : tasks.candidates(task)) {
        if (!nodes[node].open())
          return StrCat("task ", n, ": stands in the queue of a node that is not open");
      }
    }
    if (verdicts.Has(id)) {
      if (task.state() != TaskState::kDelayed) return StrCat("task ", n, ": waits for a verdict, and is not delayed");
      if (stopped || nodes[verdicts.node(id)].blamed()) return StrCat("task ", n, ": waits for a verdict that is known");
    }
    if (!task.in_flight()) continue;
    if (!nodes.Joined(task.node())) return StrCat("task ", n, ": is in flight at a node that is gone");
    const std::span<const TaskId> there = nodes[task.node()].in_flight();
    if (std::count(there.begin(), there.end(), id) != 1)
      return StrCat("task ", n, ": not among its node's tasks");
    ++in_flight[task.node().value];
  }

  NodeTable used = nodes;  // with all tasks taken off, nothing is left on it
  const auto release = [&](NodeId node, TaskId task) {
    if (used[node].occupants() == 0) return false;
    used.Release(node, lanes[tasks[task].lane()]);
    return true;
  };
  bool fitting = true;
  gangs.ForEachMember([&](TaskId task, NodeId member) { fitting &= release(member, task); });
  for (uint32_t n = 0; n < nodes.size(); ++n) {
    const NodeId id(n);
    const Node& node = nodes[id];
    const auto broken = [n](const auto&... what) { return StrCat("node ", n, ": ", what...); };
    if (in_flight[n] != node.in_flight().size()) return broken("tasks in flight");
    for (TaskId task : node.in_flight()) fitting &= tasks[task].ahead() || IsGang(task) || release(id, task);
    if (!fitting || !used[id].unused()) return broken("what its tasks use");
    if (!node.open() && Kept(id)) return broken("is closed and keeps room");
    if (nodes.free().free_slots(id) != FreeForAll(id)) return broken("free slots in the index");
    if (gangs.Keeps(id)) {
      if (!node.open()) return broken("is closed and keeps room for a gang");
      const order::LaneId hold = holds.lane(id);
      if (hold != order::kNoLane ? !FitsBesideKept(hold, id) : gangs.kept(id).slots > node.total().slots)
        return broken("keeps more than it has");
      for (TaskId task : ahead.at(id)) {
        if (!tasks[task].recalled()) return broken("has tasks ahead of what it keeps for a gang");
      }
    }
    if (!node.open() || Kept(id) || node.free_slots() == 0 || stopped || full()) continue;
    // No slot is idle while there is something for it.
    const order::Room room = RoomIn(id);
    for (order::LaneId lane = 0; lane < lanes.size(); ++lane) {
      if (lanes.gang(lane) || !room.Possible(lane) || !room.Fits(lane) || !queues.Reachable(lane, id))
        continue;
      return broken("has room for a task of lane ", uint32_t{lane}, " that is ready; free slots ",
                    node.free_slots(), ", in its own queue ", queues.of_node(id).HasLive(lane),
                    ", in the remote queue ", queues.remote().HasLive(lane));
    }
  }
  for (order::LaneId lane = 0; lane < lanes.size(); ++lane) {
    if (holds.holders(lane) > queues.ready(lane))
      return StrCat("lane ", lane, ": more nodes keep room than it has tasks");
    if (stopped || full() || !lanes.gang(lane) || queues.ready(lane) == 0 || lanes.barred(lane)) continue;
    if (!gangs.waiting() && EnoughNodes(lane))
      return StrCat("tasks of ", lanes[lane].nodes, " nodes are ready, and none is next");
    uint32_t room = 0;
    for (uint32_t n = 0; n < nodes.size(); ++n) {
      const NodeId id(n);
      room +=
          nodes[id].open() && !Kept(id) &&
                  order::Room::FitsFree(lanes[lane], nodes[id].total(), gangs.Beyond(id, nodes[id].left()))
              ? 1
              : 0;
    }
    if (room >= lanes[lane].nodes)
      return StrCat("a task of ", lanes[lane].nodes, " nodes is ready, and ", room, " have room");
  }
  for (NodeId id : suspects.All()) {
    if (!nodes[id].open()) return StrCat("node ", id.value, ": is suspect and not open");
  }
  if (AllSuspect()) return "all open nodes are suspect";
  std::vector<TaskId> apart;
  if (gangs.first()) apart.push_back(gangs.first());
  for (const Gangs::Gathered& gang : gangs.gathered()) {
    apart.push_back(gang.task);
    if (!gang.nodes.empty() && gang.nodes.size() != lanes[tasks[gang.task].lane()].nodes)
      return StrCat("task ", gang.task.value, ": so many nodes do not keep room for it");
  }
  for (TaskId id : apart) {
    if (tasks[id].state() != TaskState::kReady || !IsGang(id) || !queues.IsApart(id))
      return StrCat("task ", id.value, ": a gang is gathered that is not ready");
  }
  if (apart.size() != queues.apart().size()) return "gangs stand apart that are not gathered";
  return {};
}

}  // namespace harrow::core
