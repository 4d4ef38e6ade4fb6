// What nodes have, what is on them, and nodes that come, go and are put aside.

#include <algorithm>
#include <cmath>

#include "core/impl.h"

namespace harrow::core {

order::Room Scheduler::Impl::RoomOf(const Node& node) const {
  order::Room::Free left;
  left.slots = node.free_slots();
  left.gpus = node.total.gpus > node.used_gpus ? node.total.gpus - node.used_gpus : 0;
  left.memory = node.total.memory > node.used_memory ? node.total.memory - node.used_memory : 0;
  left.idle = node.occupants == 0;
  return {lanes, node.total, left, node.hold};
}

void Scheduler::Impl::Occupy(Node& node, order::LaneId id) {
  const order::Lane& lane = lanes[id];
  node.used_slots += lane.whole_node ? std::max(lane.cores, node.total.slots) : lane.cores;
  node.used_gpus += lane.gpus;
  node.used_memory += lane.memory;
  ++node.occupants;
}

/// What was sent ahead moves up: the agent has begun it by now.
void Scheduler::Impl::Release(Node& node, order::LaneId id) {
  const order::Lane& lane = lanes[id];
  node.used_slots -= lane.whole_node ? std::max(lane.cores, node.total.slots) : lane.cores;
  node.used_gpus -= lane.gpus;
  node.used_memory -= lane.memory;
  if (--node.occupants == 0) gang_look = true;
  while (node.joined() && !node.ahead.empty() && node.free_slots() > 0) Begins(node.ahead.front());
}

/// An in-flight task is on its node no longer.
void Scheduler::Impl::Vacate(TaskId id) {
  Task& task = tasks[id.value];
  Node& node = nodes[task.node.value];
  Touch(task.node);
  const auto place = std::find(node.in_flight.begin(), node.in_flight.end(), id);
  *place = node.in_flight.back();
  node.in_flight.pop_back();
  if (task.state() == TaskState::kRecalled) {
    --node.recalls;
    --recalled_total;
  }
  if (task.has(Task::kReleases)) {
    task.flags &= static_cast<uint8_t>(~Task::kReleases);
    --node.releasers;
  }
  if (task.has(Task::kAhead)) {
    LeaveAhead(task);
    return;
  }
  if (IsGang(task.card.lane)) {
    EndGang(id);
    return;
  }
  Release(node, task.card.lane);
}

/// A task sent ahead has a slot now.
void Scheduler::Impl::Begins(TaskId id) {
  Task& task = tasks[id.value];
  Node& node = nodes[task.node.value];
  LeaveAhead(task);
  Occupy(node, task.card.lane);
}

void Scheduler::Impl::UpdateFree(NodeId id) {
  const Node& node = nodes[id.value];
  const bool serves = node.access == Node::Access::kOpen && !node.gang && node.hold == order::kNoLane;
  const uint32_t slots = serves ? node.free_slots() : 0;
  const uint32_t before = free.free_slots(id);
  if (slots == before) return;
  if (slots > before) ++room_version;
  free_slots += slots;
  free_slots -= before;
  free.Set(id, slots);
}

/// An open node is counted, or no longer.
void Scheduler::Impl::CountOpen(const Node& node, bool open) {
  if (node.access != Node::Access::kOpen) return;
  open_nodes = open ? open_nodes + 1 : open_nodes - 1;
  open_slots = open ? open_slots + node.total.slots : open_slots - node.total.slots;
  remote.set_slots(static_cast<uint32_t>(std::min<uint64_t>(open_slots, UINT32_MAX)));
  gangs.set_slots(remote.slots());
}

void Scheduler::Impl::On(const NodeJoined& e) {
  if (!e.node) return;
  if (e.node.value >= nodes.size()) {
    const size_t known = nodes.size();
    nodes.resize(e.node.value + 1);
    for (size_t n = known; n < nodes.size(); ++n) nodes[n].queue = order::ReadyQueue(order->by_level());
  }
  Node& node = nodes[e.node.value];
  // Said again of a node that is here: nothing on it has changed but what it has to give, and only when it is
  // empty.
  if (node.joined()) {
    AskAgain(node);
    if (node.access == Node::Access::kSilent) {
      node.access = Node::Access::kOpen;
      CountOpen(node, true);
      capacity_changed = true;
      gang_look = true;
      ++room_version;
      Touch(e.node);
    }
    if (node.occupants > 0 || node.access == Node::Access::kClosed) return;
  }
  CountOpen(node, false);
  node.access = Node::Access::kOpen;
  node.expected = true;
  node.put_aside = false;
  node.total = e.capacity;
  node.failures_in_row = 0;
  node.mean_run = 0;
  node.overtaken_cores = 0;
  CountOpen(node, true);
  node.queue.set_slots(e.capacity.slots);
  replicas.NodeJoined(e.node);
  capacity_changed = true;
  gang_look = true;
  ++room_version;
  Touch(e.node);
}

/// What was asked of it may have been lost on the way. (A StartTask that was is told as TaskReturned.)
void Scheduler::Impl::AskAgain(const Node& node) {
  for (TaskId id : node.in_flight) {
    const Task& task = tasks[id.value];
    if (task.state() == TaskState::kRecalled) {
      actions->push_back(TakeBack{Latest(id), task.node});
    } else if (task.has(Task::kCancel)) {
      actions->push_back(CancelAt(id));
    }
  }
}

void Scheduler::Impl::On(const NodeSilent& e) {
  Node* node = Find(e.node);
  if (node == nullptr || node->access != Node::Access::kOpen) return;
  CountOpen(*node, false);
  node->access = Node::Access::kSilent;
  MoveQueueAway(e.node);
}

void Scheduler::Impl::On(const NodeLost& e) {
  Node* node = Find(e.node);
  if (node == nullptr || !node->joined()) return;
  CountOpen(*node, false);
  node->access = Node::Access::kGone;
  replicas.NodeLost(e.node);
  MoveQueueAway(e.node);
  std::vector<TaskId> here = node->in_flight;
  for (const auto& [lead, members] : gang_members) {
    if (members.front() != e.node && std::find(members.begin(), members.end(), e.node) != members.end()) {
      here.emplace_back(lead);
      actions->push_back(CancelAt(TaskId(lead)));
    }
  }
  std::sort(here.begin(), here.end());
  for (TaskId id : here) {
    const bool ahead = tasks[id.value].has(Task::kAhead);
    Vacate(id);
    tasks[id.value].flags |= Task::kLost;
    // Without a slot there next to nothing was lost.
    if (ahead) {
      LostAhead(id);
    } else {
      AfterLoss(id);
    }
  }
  node->round_trip = Duration(0);
}

void Scheduler::Impl::On(const NodeClosed& e) {
  Node* node = Find(e.node);
  if (node != nullptr && node->access == Node::Access::kOpen) CloseNode(e.node);
}

void Scheduler::Impl::CloseNode(NodeId id) {
  CountOpen(nodes[id.value], false);
  nodes[id.value].access = Node::Access::kClosed;
  nodes[id.value].expected = false;
  MoveQueueAway(id);
  RecallAll(id);
  capacity_changed = true;
}

/// Its queued tasks go to their other candidates or the remote queue; nothing is kept for anybody there.
void Scheduler::Impl::MoveQueueAway(NodeId id) {
  Node& node = nodes[id.value];
  Touch(id);
  DropHold(id);
  if (node.gang) GiveUpGang(true);
  gang_look = true;
  for (TaskId queued : node.queue.Tasks(cards())) {
    Unqueue(queued);
    put_back.push_back(queued);
  }
}

/// A node where tasks fail one after the other, at once, is put aside; but not when they fail everywhere, and
/// never the last one.
void Scheduler::Impl::RowOfFailures(NodeId id, bool failed, Duration run_time) {
  Node& node = nodes[id.value];
  const double seconds = std::max(Seconds(run_time), 1e-9);
  if (!failed) {
    node.mean_run = node.mean_run > 0 ? node.mean_run + (seconds - node.mean_run) / 8 : seconds;
    node.failures_in_row = 0;
    return;
  }
  if (options.bad_node_failures == 0 || run_time > options.bad_node_time) {
    node.failures_in_row = 0;
    return;
  }
  if (node.failures_in_row++ == 0) node.done_before_row = counts.done;
  if (node.failures_in_row < options.bad_node_failures || node.access != Node::Access::kOpen) return;
  if (open_nodes <= 1 || counts.done == node.done_before_row) return;
  node.put_aside = true;
  actions->push_back(NodePutAside{id, node.failures_in_row});
  CloseNode(id);
}

/// Tasks that ask for what no node has. One that was lost counts until all that are expected are said to be
/// there; from then on the tasks are not failed, as another run may have it again.
void Scheduler::Impl::FindImpossibleLanes() {
  bool some = false;
  for (size_t lane = 0; lane < lanes.size(); ++lane) {
    uint32_t fitting = 0, gone = 0;
    for (const Node& node : nodes) {
      if (!order::Room::FitsCapacity(lanes[lane], node.total)) continue;
      fitting += node.expected ? 1 : 0;
      gone += !node.expected && !node.joined() ? 1 : 0;
    }
    lane_states[lane].impossible = fitting < lanes[lane].nodes;
    lane_states[lane].gone = fitting + gone >= lanes[lane].nodes;
    some |= lane_states[lane].impossible;
  }
  if (!some || stopped) return;
  for (uint32_t n = 0; n < tasks.size() && !stopped; ++n) {
    const TaskState state = tasks[n].state();
    if (state != TaskState::kWaiting && state != TaskState::kReady) continue;
    if (!lane_states[tasks[n].card.lane].impossible) continue;
    SettleImpossible(TaskId(n));
  }
}

}  // namespace harrow::core
