// Who gets what. A node with a free slot takes from its own queue, else from the remote queue, else steals.
// Nodes ask in this order: those where a task ended that made others ready, newest first, one slot each (so a
// chain stays where it is under lifo, as when a worker asks by itself); all others that something happened
// to; idle ones while there is something for them.
//
// Reservation. A task that does not fit is passed over: what fits may start. The cores so started while such
// a task was first are counted; when they come to as many as the node has, the node keeps what gets free for
// that lane until one of its tasks has started. So a large task waits for at most about one node's worth of
// small ones, and costs at most the slots that are empty while its own are collected. No more nodes keep room
// for a lane than it has tasks.

#include <algorithm>

#include "core/impl.h"
#include "core/in_steps.h"

namespace harrow::core {

void Scheduler::Impl::Dispatch() {
  if (!stopped) {
    if (gang_look) CheckGathering();
    for (size_t i = asks.size(); i-- > 0;) {
      Touch(asks[i]);
      StartOne(asks[i]);
    }
    const auto asked = [this](size_t i) {
      const Node& node = nodes[touched[i].value];
      return node.free_slots() > 0 ? &node.queue : nullptr;
    };
    InSteps([this] { return touched.size(); },
            [&](size_t i) {
              if (const order::ReadyQueue* queue = asked(i)) queue->PrefetchBuckets();
            },
            [&](size_t i) {
              if (const order::ReadyQueue* queue = asked(i)) queue->PrefetchEnds(ends);
            },
            [&](size_t i) {
              if (const order::ReadyQueue* queue = asked(i)) queue->PrefetchCards(ends, cards());
            },
            [&](size_t i) {
              while (StartOne(touched[i])) {
              }
              UpdateFree(touched[i]);
            });
    if (gang_look) StartGangs();
    ServeIdle();
  }
  while (trim_holds) TrimHolds();
  if (!stopped) {
    for (size_t i = 0; i < touched.size(); ++i) SendAhead(touched[i]);
    FeedHungry();
    RecallForIdle();
  }
  for (NodeId id : touched) {
    UpdateFree(id);
    nodes[id.value].touched = false;
  }
  for (order::LaneId lane : pushed) lane_states[lane].pushed = false;
  asks.clear();
  touched.clear();
  pushed.clear();
}

/// Those that the next tasks of this one will leave, too.
void Scheduler::Impl::PrefetchOtherQueues(const order::ReadyQueue& queue) const {
  queue.ForEachLikely(ends, [this](TaskId id) {
    const Task& task = tasks[id.value];
    if (!task.card.queued || task.has(Task::kMany)) return;
    for (uint32_t node : task.candidate) {
      if (node != NodeId::kNone) nodes[node].queue.PrefetchBuckets();
    }
  });
}

/// One task for a node, if it has room for one that may run there.
bool Scheduler::Impl::StartOne(NodeId id) {
  Node& node = nodes[id.value];
  if (stopped || node.access != Node::Access::kOpen || node.gang || node.free_slots() == 0) return false;
  const order::Room room = RoomOf(node);
  order::LaneId overtaken = order::kNoLane;
  TakenFrom from = TakenFrom::kNodeQueue;
  NodeId victim;
  order::Pick pick = node.queue.Take(*order, cards(), room);
  if (!pick.task) {
    overtaken = pick.overtaken;
    from = TakenFrom::kRemoteQueue;
    pick = remote.Take(*order, cards(), room);
  }
  if (!pick.task && options.steal) {
    if (overtaken == order::kNoLane) overtaken = pick.overtaken;
    from = TakenFrom::kSteal;
    pick = Steal(id, room, &victim);
  }
  if (overtaken == order::kNoLane) overtaken = pick.overtaken;

  if (node.hold != order::kNoLane) {
    // Nothing of the lane it waits for can be had any more: back to all.
    if (!pick.task && !Reachable(node, node.hold)) {
      DropHold(id);
      return StartOne(id);
    }
  } else if (overtaken != order::kNoLane) {
    if (pick.task) node.overtaken_cores += lanes[tasks[pick.task.value].card.lane].cores;
    if (node.overtaken_cores >= node.total.slots &&
        lane_states[overtaken].holders < lane_states[overtaken].ready) {
      Hold(id, overtaken);
    }
  } else {
    node.overtaken_cores = 0;
  }
  if (!pick.task) return false;
  if (node.hold != order::kNoLane && node.hold == tasks[pick.task.value].card.lane) DropHold(id);
  if (from == TakenFrom::kSteal) ++counts.stolen;
  Start(pick.task, id, from, false);
  return true;
}

/// A task from the longer of two queues that are drawn among those with tasks of a lane that fits; of the lane whose
/// queue so found has the task of the highest priority.
order::Pick Scheduler::Impl::Steal(NodeId thief, const order::Room& room, NodeId* victim) {
  order::LaneId best = order::kNoLane;
  int32_t priority = 0;
  for (size_t i = 0; i < lanes.size(); ++i) {
    const auto lane = static_cast<order::LaneId>(i);
    LaneState& state = lane_states[i];
    if (state.ready == 0 || state.victims.size() == 0 || !room.Possible(lane) || !room.Fits(lane)) continue;
    if (best != order::kNoLane && priorities.empty()) break;
    place::Victims& victims = state.victims;
    NodeId found;
    for (int tries = 0; tries < 2 && victims.size() > 0;) {
      const size_t at = victims.size() == 1 ? 0 : side_draws.Below(static_cast<uint32_t>(victims.size()));
      const NodeId node = victims[at];
      if (!nodes[node.value].queue.HasLive(lane)) {
        victims.Drop(at);
        continue;
      }
      ++tries;
      if (!found || nodes[node.value].queue.live() > nodes[found.value].queue.live()) found = node;
      if (victims.size() == 1) break;
    }
    if (!found || found == thief) continue;
    const int32_t highest = nodes[found.value].queue.Priority(lane);
    if (best != order::kNoLane && highest <= priority) continue;
    best = lane;
    priority = highest;
    *victim = found;
  }
  if (best == order::kNoLane) return {};
  order::Pick pick = nodes[victim->value].queue.Take(*order, cards(), room);
  pick.overtaken = order::kNoLane;
  return pick;
}

/// Sends a ready task to a node.
void Scheduler::Impl::Start(TaskId id, NodeId node_id, TakenFrom from, bool ahead) {
  Task& task = tasks[id.value];
  LeaveQueues(id, ahead);
  if (!ahead) ClearCandidates(task);
  if (task.has(Task::kLost)) ForgetLoss(id, false);
  if (task.attempts < UINT16_MAX) ++task.attempts;
  ++counts.attempts;
  Started(id, node_id, from, ahead);
  if (gathering && gathering != id) CountForGang(lanes[task.card.lane].cores);
  started.push_back(actions->size());
  actions->push_back(StartTask{Latest(id), node_id, ahead});
}

/// Enters a task that is at a node now.
void Scheduler::Impl::Started(TaskId id, NodeId node_id, TakenFrom from, bool ahead) {
  Task& task = tasks[id.value];
  Node& node = nodes[node_id.value];
  SetState(task, TaskState::kSent);
  task.node = node_id;
  task.set_taken_from(from);
  node.in_flight.push_back(id);
  if (ahead) {
    task.flags |= Task::kAhead;
    node.ahead.push_back(id);
    if (ahead_total++ == 0 || node.ahead.size() == 1) ListAhead(node_id);
  } else {
    Occupy(node, task.card.lane);
    if (IsGang(task.card.lane)) gang_members.try_emplace(id.value, std::vector<NodeId>{node_id});
  }
  if (node.round_trip.count() > 0 && WouldRelease(id, node)) {
    task.flags |= Task::kReleases;
    ++node.releasers;
  }
  Touch(node_id);
}

/// Input bytes of what was started, all at the end: what they are does not change meanwhile.
void Scheduler::Impl::CountBytes() {
  const auto start_of = [this](size_t i) -> StartTask& {
    return std::get<StartTask>((*actions)[started[i]]);
  };
  InSteps([this] { return started.size(); }, [&](size_t i) { graph.PrefetchLinks(start_of(i).attempt.task); },
          [&](size_t i) { graph.PrefetchInputs(start_of(i).attempt.task); },
          [&](size_t i) { replicas.PrefetchInputs(start_of(i).attempt.task); },
          [&](size_t i) {
            StartTask& start = start_of(i);
            const place::InputBytes bytes = replicas.BytesAt(start.attempt.task, start.node);
            start.local_bytes = bytes.local;
            start.remote_bytes = bytes.remote;
            counts.local_bytes += static_cast<uint64_t>(bytes.local);
            counts.remote_bytes += static_cast<uint64_t>(bytes.remote);
          });
  started.clear();
}

/// Whether a node that nothing happened to could be given a task of that lane.
bool Scheduler::Impl::AnyFor(order::LaneId lane) const {
  const LaneState& state = lane_states[lane];
  return !lanes.closed(lane) && state.ready > 0 && (options.steal || remote.HasLive(lane));
}

/// Nodes with free slots that nothing happened to are asked for what has become ready, the emptiest first.
void Scheduler::Impl::ServeIdle() {
  for (size_t p = 0; p < pushed.size(); ++p) {
    const order::LaneId lane = pushed[p];
    if (IsGang(lane) || lane_states[lane].stuck_at == room_version) continue;
    for (uint32_t slots = free.largest(); slots >= lanes[lane].cores && AnyFor(lane); --slots) {
      for (size_t i = 0; i < free.With(slots).size() && AnyFor(lane);) {
        const NodeId id = free.With(slots)[i];
        if (StartOne(id)) {
          UpdateFree(id);  // moves it to the list of the next lower number
        } else {
          ++i;
        }
      }
    }
    // Until some node has more room, all have been asked for this lane.
    if (AnyFor(lane)) lane_states[lane].stuck_at = room_version;
  }
}

bool Scheduler::Impl::Reachable(const Node& node, order::LaneId lane) const {
  if (lanes.closed(lane) || lane_states[lane].ready == 0) return false;
  return options.steal || remote.HasLive(lane) || node.queue.HasLive(lane);
}

void Scheduler::Impl::Hold(NodeId id, order::LaneId lane) {
  Node& node = nodes[id.value];
  Touch(id);
  RecallAll(id);
  node.hold = lane;
  node.overtaken_cores = 0;
  ++lane_states[lane].holders;
}

void Scheduler::Impl::DropHold(NodeId id) {
  Node& node = nodes[id.value];
  if (node.hold == order::kNoLane) return;
  Touch(id);
  --lane_states[node.hold].holders;
  node.hold = order::kNoLane;
  node.overtaken_cores = 0;
}

/// Some lanes have fewer tasks than nodes that keep room for them.
void Scheduler::Impl::TrimHolds() {
  trim_holds = false;
  for (uint32_t n = 0; n < nodes.size(); ++n) {
    Node& node = nodes[n];
    if (node.hold == order::kNoLane || lane_states[node.hold].holders <= lane_states[node.hold].ready)
      continue;
    DropHold(NodeId(n));
    while (StartOne(NodeId(n))) {
    }
    UpdateFree(NodeId(n));
  }
}

}  // namespace harrow::core
