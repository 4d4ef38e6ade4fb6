// A node with a free slot takes from its own queue, else from the remote queue, else steals. Nodes ask in
// this order: those where a task ended that made others ready, newest first, one slot each (so a chain stays
// where it is under lifo, as when a worker asks by itself); all others that something happened to; idle ones
// while there is something for them.
//
// Holds. A task that does not fit is passed over: what fits may start. The cores so given while such a task
// was first are counted; when they come to as many as the node has, the node keeps what gets free for that
// lane until one of its tasks has come. So a large task waits for at most about one node's worth of small
// ones, and costs at most the slots that are empty while its own are collected. No more nodes keep room for a
// lane than it has tasks.
//
// Tasks of several nodes have a queue of their own, and come after these (gathering.cc). Where a node keeps
// room for one, others get what is beyond it, or end before that is needed.
//
// Where only so many tasks may run at once (Options::max_running), each at a node counts, nodes take turns,
// and nothing is sent ahead: an agent with a free slot would start it. Where a node was refused a task for
// that reason alone, all are asked when there is room again, the one after that which was given the last task
// first: else tasks that fit only where nothing ends would wait for all others.

#include "core/dispatch.h"

#include <algorithm>
#include <utility>

namespace harrow::core {

void Dispatch::GiveWork() {
  const std::vector<NodeId>& touched = nodes.touched();
  if (!stopped()) {
    if (gangs.to_look()) CheckGathering();
    if (gangs.keeps()) ExpectParts();
    SendSuccessors();
    for (size_t i = first_to_ask.size(); i-- > 0;) {
      nodes.Touch(first_to_ask[i]);
      GiveOne(first_to_ask[i]);
    }
    if (options.max_running > 0) {
      if (!refused_) TakeTurns(touched);
    } else {
      for (size_t i = 0; i < touched.size(); ++i) GiveAll(touched[i]);
    }
    if (gangs.to_look()) LetGangsGo();
    ServeIdle();
  }
  while (holds.TakeTrim()) TrimHolds();
  if (gangs.to_look() && !stopped()) LetGangsGo();
  if (!stopped()) {
    for (size_t i = 0; i < touched.size(); ++i) SendAhead(touched[i]);
    FeedHungry();
  }
  for (NodeId id : touched) UpdateFree(id);
  ahead.ForgetAgain();
  if (!stopped()) RecallForIdle();
  nodes.ForgetTouched();
  queues.ForgetPushed();
  first_to_ask.clear();
}

void Dispatch::LetGangsGo() {
  if (!SendGangs()) return;
  if (options.max_running > 0) {
    TakeTurns(std::vector<NodeId>(nodes.touched()));
  } else {
    for (size_t i = 0; i < nodes.touched().size(); ++i) GiveAll(nodes.touched()[i]);
  }
}

void Dispatch::GiveAll(NodeId id) {
  while (GiveOne(id)) {
  }
  UpdateFree(id);
}

void Dispatch::TakeTurns(const std::vector<NodeId>& ids) {
  for (bool given = true; given;) {
    given = false;
    for (size_t i = 0; i < ids.size() && !(full() && refused_); ++i) {
      if (!GiveOne(ids[i])) continue;
      given = true;
      last_given_ = ids[i].value;
    }
  }
  for (NodeId id : ids) UpdateFree(id);
}

/// Where files are local, what goes with the node's others rather than the first (regions.cc).
order::Pick Dispatch::TakeFromRemote(NodeId id, const order::Room& room, bool* first) {
  order::Pick pick = queues.TakeFromRemote(room);
  *first = true;
  if (!pick.task || !HasRegions()) return pick;
  const TaskId preferred = regions.Prefer(pick.task, id);
  if (preferred == pick.task) return pick;
  queues.Return(pick.task);
  *first = false;
  pick.task = preferred;
  return pick;
}

/// One task for a node, if it has room for one that may run there.
bool Dispatch::GiveOne(NodeId id) {
  if (stopped() || !nodes[id].open() || suspects.Waits(id) || nodes[id].free_slots() == 0) return false;
  if (full()) {
    refused_ = true;
    return false;
  }
  const order::Room room = RoomIn(id);
  TakenFrom from = TakenFrom::kNodeQueue;
  order::Pick pick = queues.TakeFromNode(id, room);
  // What was overtaken in the first queue that has such a task.
  order::LaneId overtaken = pick.overtaken;
  if (!pick.task) {
    from = TakenFrom::kRemoteQueue;
    bool first;
    pick = TakeFromRemote(id, room, &first);
    if (overtaken == order::kNoLane) overtaken = pick.overtaken;
  }
  if (!pick.task && options.steal) {
    from = TakenFrom::kSteal;
    pick = queues.Steal(id, room);
  }

  const order::LaneId hold = holds.lane(id);
  if (hold == order::kNoLane) {
    NoteOvertaken(id, overtaken, pick.task);
  } else if (!pick.task && !queues.Reachable(hold, id)) {
    // Nothing of the lane it waits for can be had any more: back to all.
    DropHold(id);
    return GiveOne(id);
  }
  if (!pick.task && gangs.keeps() && gangs.Keeps(id) && hold == order::kNoLane) pick = TakeForGap(id, &from);
  if (!pick.task) return false;
  if (holds.lane(id) == tasks[pick.task].lane()) DropHold(id);
  if (from == TakenFrom::kSteal) tasks.CountStolen();
  Send(pick.task, id, from, false);
  if (suspects.Has(id)) {
    suspects.Given(id, now);
    nodes.Touch(id);
  }
  return true;
}

/// The node was given a task, or none, where the order would have put one of that lane first, if any.
void Dispatch::NoteOvertaken(NodeId id, order::LaneId overtaken, TaskId given) {
  if (overtaken == order::kNoLane) {
    holds.ForgetOvertaken(id);
    return;
  }
  const uint32_t cores = holds.CountOvertaken(id, given ? lanes[tasks[given].lane()].cores : 0);
  if (cores >= nodes[id].total().slots && holds.holders(overtaken) < queues.ready(overtaken) &&
      (!gangs.keeps() || FitsBesideKept(overtaken, id)))
    Keep(id, overtaken);
}

/// Nodes with free slots that nothing happened to are asked for what has become ready, the emptiest first.
void Dispatch::ServeIdle() {
  if (refused_ && !full()) {
    refused_ = false;
    std::vector<NodeId> all;
    for (uint32_t n = 1; n <= nodes.size(); ++n) all.emplace_back((last_given_ + n) % nodes.size());
    TakeTurns(all);
  }
  const place::FreeNodes& free = nodes.free();
  for (size_t p = 0; p < queues.pushed().size(); ++p) {
    const order::LaneId lane = queues.pushed()[p];
    if (lanes.gang(lane) || queues.stuck(lane, nodes.room_version())) continue;
    for (uint32_t slots = free.largest(); slots >= lanes[lane].cores && queues.Reachable(lane); --slots) {
      for (size_t i = 0; i < free.With(slots).size() && queues.Reachable(lane);) {
        const NodeId id = free.With(slots)[i];
        if (GiveOne(id)) {
          UpdateFree(id);  // moves it to the list of the next lower number
        } else {
          ++i;
        }
      }
    }
    // Until some node has more room, all have been asked for this lane.
    if (queues.Reachable(lane) && !full()) queues.SetStuck(lane, nodes.room_version());
  }
  if (!gangs.keeps() || queues.pushed().empty()) return;
  std::vector<NodeId> keep;  // what is free there may be lent
  for (const Gangs::Gathered& gang : gangs.gathered())
    keep.insert(keep.end(), gang.nodes.begin(), gang.nodes.end());
  for (NodeId id : keep) {
    if (nodes[id].free_slots() > 0) GiveAll(id);
  }
}

/// Some lanes have fewer tasks than nodes that keep room for them.
void Dispatch::TrimHolds() {
  for (uint32_t n = 0; n < nodes.size(); ++n) {
    const order::LaneId lane = holds.lane(NodeId(n));
    if (lane == order::kNoLane || holds.holders(lane) <= queues.ready(lane)) continue;
    DropHold(NodeId(n));
    GiveAll(NodeId(n));
  }
}

/// The node has fewer ahead than it may have at most.
bool Dispatch::MaySendAhead(TaskId id, NodeId node, TakenFrom from) const {
  if (!lanes[tasks[id].lane()].plain()) return false;
  const uint32_t slots = nodes[node].total().slots;
  if (ahead.at(node).size() < ahead.DepthOfFetching(node, slots, now)) {
    // Were what it has left to others, each would take what it has not.
    if (from == TakenFrom::kRemoteQueue ? !graph.inputs(id).empty() : !HasInputs(id, node)) return true;
  }
  const Level level = tasks[id].level();
  return ahead.at(node).size() < ahead.Depth(node, slots) && level_times.measured(level) &&
         level_times.mean(level) <= Seconds(options.ahead_limit);
}

void Dispatch::SendAhead(NodeId id) {
  const Node& node = nodes[id];
  if (!ahead.possible(id) || !node.open() || Kept(id) || node.free_slots() > 0 || options.max_running > 0)
    return;
  if (gangs.keeps() && gangs.Keeps(id)) return;
  const uint32_t slots = node.total().slots;
  const uint32_t depth = std::max(ahead.Depth(id, slots), ahead.DepthOfFetching(id, slots, now));
  const order::Room room(lanes.table(), node.total(), {.slots = 1, .devices = 0, .memory = 0, .idle = false});
  while (ahead.at(id).size() < depth && ahead.undisturbed(id)) {
    TakenFrom from = TakenFrom::kNodeQueue;
    bool first = true;
    order::Pick pick = queues.TakeFromNode(id, room);
    if (!pick.task && pick.overtaken == order::kNoLane) {
      // The last tasks of all are better shared out when slots are free.
      if (nodes.open_nodes() > 1 && queues.remote().live() <= nodes.open_slots()) {
        ahead.NoteHungry(id);
        return;
      }
      from = TakenFrom::kRemoteQueue;
      pick = TakeFromRemote(id, room, &first);
    }
    if (!pick.task) {
      if (queues.remote().live() == 0) ahead.NoteHungry(id);
      return;
    }
    if (pick.overtaken != order::kNoLane || !MaySendAhead(pick.task, id, from)) {
      if (first) queues.Return(pick.task, from == TakenFrom::kNodeQueue ? id : NodeId());
      return;
    }
    Send(pick.task, id, from, true);
  }
}

/// Nodes that could have been sent more, when there is more in the remote queue.
void Dispatch::FeedHungry() {
  while (queues.remote().live() > (nodes.open_nodes() > 1 ? nodes.open_slots() : 0)) {
    const NodeId id = ahead.TakeHungry();
    if (!id) return;
    SendAhead(id);
  }
}

/// For slots that have nothing to do; as long as asking back takes less time than the task would wait.
void Dispatch::RecallForIdle() {
  if (!ahead.some() || nodes.open_nodes() < 2) return;
  while (ahead.recalled() < nodes.free_slots()) {
    const NodeId longest = ahead.LongestRow(nodes, now);
    if (!longest) return;
    const std::vector<TaskId>& row = ahead.at(longest);
    const auto last = std::find_if(row.rbegin(), row.rend(),
                                   [&](TaskId id) { return tasks[id].state() == TaskState::kAhead; });
    if (last == row.rend() || (!options.steal && !tasks.candidates(*last).empty())) return;
    Recall(*last);
  }
}

}  // namespace harrow::core
