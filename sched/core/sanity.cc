#include <algorithm>
#include <array>

#include "base/text.h"
#include "core/impl.h"

namespace harrow::core {

/// What is broken, or nothing. Holds between events.
std::string Scheduler::Impl::FindBroken() const {
  Counts found;
  std::vector<uint64_t> lane_ready(lanes.size()), lane_holders(lanes.size());
  std::vector<uint32_t> queued_at(nodes.size()), ahead_at(nodes.size()), in_flight_at(nodes.size()),
      recalls_at(nodes.size()), releasers_at(nodes.size());
  uint64_t remote_ready = 0, gangs_ready = 0;

  for (uint32_t n = 0; n < tasks.size(); ++n) {
    const TaskId id(n);
    const Task& task = tasks[n];
    const std::string who = StrCat("task ", n, ": ");
    ++found.total;
    switch (task.state()) {
      case TaskState::kWaiting:
        ++found.waiting;
        break;
      case TaskState::kReady:
        ++found.ready;
        break;
      case TaskState::kSent:
      case TaskState::kRecalled:
        ++found.sent;
        break;
      case TaskState::kRunning:
        ++found.running;
        break;
      case TaskState::kDone:
        ++found.done;
        break;
      case TaskState::kFailed:
        ++found.failed;
        break;
      case TaskState::kSkipped:
        ++found.skipped;
        break;
      case TaskState::kCancelled:
        ++found.cancelled;
        break;
    }
    if (!task.settled()) {
      uint32_t waits = 0;
      for (TaskId before : graph.predecessors(id)) {
        const TaskState state =
            before.value < tasks.size() ? tasks[before.value].state() : TaskState::kWaiting;
        if (state != TaskState::kDone) ++waits;
        if (state > TaskState::kDone && task.state() == TaskState::kWaiting)
          return who + "waits for what will not be done";
      }
      if (waits != task.waits) return StrCat(who, "waits for ", waits, " tasks, is said to for ", task.waits);
      if (task.state() == TaskState::kWaiting && waits == 0 && !delayed.contains(id.value))
        return who + "waits for nothing and is not ready";
      if (task.state() == TaskState::kReady && waits > 0) return who + "is ready and waits";
    }
    if (delayed.contains(id.value) && (task.state() != TaskState::kWaiting || task.waits > 0))
      return who + "is delayed and does not wait";
    if (lost_ahead.contains(id.value) && !task.has(Task::kLost)) return who + "lost ahead, and not lost";
    if (task.has(Task::kLost) && task.in_flight()) return who + "is lost and in flight";
    if (task.card.queued != (task.state() == TaskState::kReady)) return who + "queued and ready do not agree";
    const auto [candidate, count] = CandidatesOf(task);
    if (task.state() == TaskState::kReady) {
      ++lane_ready[task.card.lane];
      if (IsGang(task.card.lane)) {
        ++gangs_ready;
      } else if (count == 0) {
        ++remote_ready;
      }
      for (uint32_t i = 0; i < count; ++i) {
        ++queued_at[candidate[i]];
        if (nodes[candidate[i]].access != Node::Access::kOpen)
          return who + "stands in the queue of a closed node";
      }
    } else if (count > 0 && !task.has(Task::kAhead)) {
      return who + "has candidates and is not queued";
    }
    if (task.has(Task::kAhead) && !task.in_flight()) return who + "is ahead and not in flight";
    if (task.state() == TaskState::kRecalled && !task.has(Task::kAhead) && !task.in_flight())
      return who + "recalled";
    if (task.in_flight()) {
      if (!task.node || task.node.value >= nodes.size()) return who + "is in flight nowhere";
      const Node& node = nodes[task.node.value];
      if (!node.joined()) return who + "is in flight at a node that is gone";
      ++in_flight_at[task.node.value];
      if (std::count(node.in_flight.begin(), node.in_flight.end(), id) != 1)
        return who + "not among its node's tasks";
      const auto listed = std::count(node.ahead.begin(), node.ahead.end(), id);
      if (listed != (task.has(Task::kAhead) ? 1 : 0))
        return who + "is ahead, or not, against its node's list";
      if (task.has(Task::kAhead)) ++ahead_at[task.node.value];
      if (task.has(Task::kReleases)) ++releasers_at[task.node.value];
      if (task.state() == TaskState::kRecalled) ++recalls_at[task.node.value];
      if (task.attempts == 0) return who + "is in flight in no attempt";
    } else if (task.has(Task::kReleases)) {
      return who + "releases and is not in flight";
    }
  }
  const auto counted = [](const Counts& c) {
    return std::array<uint64_t, 9>{c.total, c.waiting, c.ready,   c.sent,     c.running,
                                   c.done,  c.failed,  c.skipped, c.cancelled};
  };
  if (counted(found) != counted(counts)) return "counts of states";

  std::vector<uint32_t> used_slots(nodes.size()), used_gpus(nodes.size()), occupants(nodes.size());
  std::vector<uint64_t> used_memory(nodes.size());
  const auto occupy = [&](uint32_t n, const order::Lane& lane) {
    used_slots[n] += lane.whole_node ? std::max(lane.cores, nodes[n].total.slots) : lane.cores;
    used_gpus[n] += lane.gpus;
    used_memory[n] += lane.memory;
    ++occupants[n];
  };
  uint64_t ahead = 0, recalled = 0, free_found = 0, slots = 0;
  uint32_t open = 0;
  for (const auto& [lead, members] : gang_members) {
    for (NodeId member : members) occupy(member.value, lanes[tasks[lead].card.lane]);
  }
  for (uint32_t n = 0; n < nodes.size(); ++n) {
    const Node& node = nodes[n];
    const std::string who = StrCat("node ", n, ": ");
    if (in_flight_at[n] != node.in_flight.size()) return who + "tasks in flight";
    if (ahead_at[n] != node.ahead.size()) return who + "tasks ahead";
    if (recalls_at[n] != node.recalls)
      return StrCat(who, "recalls: ", recalls_at[n], " tasks, said ", node.recalls);
    if (releasers_at[n] != node.releasers) return who + "releasers";
    if (queued_at[n] != node.queue.live())
      return StrCat(who, queued_at[n], " queued, said ", node.queue.live());
    if (const std::string broken = node.queue.FindBroken(cards()); !broken.empty()) return who + broken;
    ahead += node.ahead.size();
    recalled += node.recalls;
    for (TaskId id : node.in_flight) {
      const Task& task = tasks[id.value];
      if (!task.has(Task::kAhead) && !IsGang(task.card.lane)) occupy(n, lanes[task.card.lane]);
    }
    if (used_slots[n] != node.used_slots)
      return StrCat(who, used_slots[n], " slots used, said ", node.used_slots);
    if (used_gpus[n] != node.used_gpus || used_memory[n] != node.used_memory)
      return who + "devices or memory used";
    if (occupants[n] != node.occupants) return who + "occupants";
    if (node.hold != order::kNoLane) ++lane_holders[node.hold];
    if (!node.ahead.empty() && node.free_slots() > 0) return who + "tasks are ahead of a free slot";
    const bool held = node.gang || node.hold != order::kNoLane;
    if (node.access == Node::Access::kOpen) {
      ++open;
      slots += node.total.slots;
      const uint32_t free_here = held ? 0 : node.free_slots();
      free_found += free_here;
      if (free.free_slots(NodeId(n)) != free_here) return who + "free slots in the index";
    } else {
      if (held) return who + "is closed and keeps room";
      if (free.free_slots(NodeId(n)) != 0) return who + "is closed and in the index";
    }
    if (node.gang && node.gang != gathering) return who + "kept for a gang that is not gathered";
    if (node.touched) return who + "touched between events";
    // No slot is idle while there is something for it.
    if (node.access != Node::Access::kOpen || held || node.free_slots() == 0 || stopped) continue;
    const order::Room room = RoomOf(node);
    for (order::LaneId lane = 0; lane < lanes.size(); ++lane) {
      if (IsGang(lane) || !room.Possible(lane) || !room.Fits(lane)) continue;
      if (node.queue.HasLive(lane) || remote.HasLive(lane) || (options.steal && lane_ready[lane] > 0)) {
        return StrCat(who, "has room for a task of lane ", uint32_t{lane}, " that is ready; free slots ",
                      node.free_slots(), ", in its own queue ", node.queue.HasLive(lane),
                      ", in the remote queue ", remote.HasLive(lane));
      }
    }
  }
  if (ahead != ahead_total || recalled != recalled_total) return "sums of tasks ahead and recalled";
  if (free_found != free_slots || open != open_nodes || slots != open_slots) return "sums of slots";
  if (remote_ready != remote.live() || gangs_ready != gangs.live())
    return "tasks in the remote queue or of gangs";
  if (const std::string broken = remote.FindBroken(cards()); !broken.empty())
    return "remote queue: " + broken;
  for (size_t lane = 0; lane < lanes.size(); ++lane) {
    if (lane_ready[lane] != lane_states[lane].ready) return StrCat("lane ", lane, ": ready tasks");
    if (lane_holders[lane] != lane_states[lane].holders)
      return StrCat("lane ", lane, ": nodes that keep room");
    if (lane_holders[lane] > lane_ready[lane])
      return StrCat("lane ", lane, ": more nodes keep room than it has tasks");
  }
  if (gathering && tasks[gathering.value].state() != TaskState::kReady)
    return "a gang is gathered that is not ready";
  for (order::LaneId lane = 0; lane < lanes.size() && !gathering && !stopped; ++lane) {
    if (!IsGang(lane) || lane_ready[lane] == 0 || lanes.closed(lane) || !EnoughNodes(lane)) continue;
    return StrCat("tasks of ", lanes[lane].nodes, " nodes are ready, and none is gathered");
  }
  const bool over = counts.waiting + counts.ready + counts.sent + counts.running == 0;
  if (complete && !over) return "said to be complete";
  return {};
}

}  // namespace harrow::core
