// Which queues a ready task stands in: those of its candidate nodes, else the remote queue; tasks of several
// nodes have a queue of their own. Without locality all stand in the remote queue: then there is one queue,
// as in the paper.

#include <algorithm>
#include <bit>

#include "core/impl.h"
#include "core/in_steps.h"

namespace harrow::core {
namespace {

constexpr size_t kManyLanes = 128;

/// `value` with all but its upper five bits rounded up.
uint64_t RoundUp(uint64_t value) {
  const int drop = std::max(0, static_cast<int>(std::bit_width(value)) - 5);
  const uint64_t step = uint64_t{1} << drop;
  return (value + step - 1) / step * step;
}

}  // namespace

order::LaneId Scheduler::Impl::LaneOf(TaskId id) {
  const ProfileId profile = graph.profile_id(id);
  if (profile.value >= lane_of_profile.size()) lane_of_profile.resize(graph.profile_count(), order::kNoLane);
  order::LaneId& lane = lane_of_profile[profile.value];
  if (lane == order::kNoLane) {
    const graph::Profile& p = graph.profile(profile);
    const bool gang = p.shape.nodes > 1;
    lane = FindOrAddLane({std::max(1u, p.shape.cores), p.shape.gpus, p.shape.memory,
                          std::max(1u, p.shape.nodes), p.shape.whole_node || gang, p.time_limit});
  }
  return lane;
}

void Scheduler::Impl::NotePriority(TaskId id) {
  const int32_t priority = ProfileOf(id).priority;
  if (priority == 0 && priorities.empty()) return;
  priorities.resize(tasks.size());
  priorities[id.value] = priority;
}

order::LaneId Scheduler::Impl::FindOrAddLane(order::Lane lane) {
  // A flow may give each task its own time and memory; queues with thousands of lanes would be slow to
  // search.
  if (lanes.size() >= kManyLanes) {
    lane.time_limit = Duration(static_cast<int64_t>(RoundUp(static_cast<uint64_t>(lane.time_limit.count()))));
    lane.memory = RoundUp(lane.memory);
  }
  if (const order::LaneId known = lanes.Find(lane); known != order::kNoLane) return known;
  if (lanes.size() == order::kNoLane) {
    lanes.WidenLast(lane);
    return static_cast<order::LaneId>(lanes.size() - 1);
  }
  lane_states.emplace_back();
  timed_lanes |= lane.time_limit.count() > 0;
  const order::LaneId id = lanes.Add(lane);
  FindClosedLanes();
  return id;
}

void Scheduler::Impl::EnqueueReady() {
  for (TaskId id : put_back) {
    const Task& task = tasks[id.value];
    if (task.state() != TaskState::kWaiting || task.waits > 0) continue;
    FindCandidates(id);
    Enqueue(id, NodeId(), true);
  }
  put_back.clear();
  if (newly_ready.empty()) return;
  if (!std::is_sorted(newly_ready.begin(), newly_ready.end()))
    std::sort(newly_ready.begin(), newly_ready.end());
  const auto task_of = [](uint64_t each) { return TaskId(static_cast<uint32_t>(each >> 32)); };
  std::erase_if(newly_ready, [&](uint64_t each) {
    const Task& task = tasks[task_of(each).value];
    return task.state() != TaskState::kWaiting || task.waits > 0;
  });
  const size_t count = newly_ready.size();
  const auto size = [count] { return count; };
  const auto each = [&](size_t i) { return task_of(newly_ready[i]); };
  InSteps(
      size, [&](size_t i) { graph.PrefetchLinks(each(i)); }, [&](size_t i) { graph.PrefetchInputs(each(i)); },
      [&](size_t i) { replicas.PrefetchInputs(each(i)); }, [&](size_t i) { FindCandidates(each(i)); });
  InSteps(
      size, [&](size_t i) { PrefetchQueues(each(i), false); },
      [&](size_t i) { PrefetchQueues(each(i), true); },
      [&](size_t i) {
        // A task may be there twice.
        if (tasks[each(i).value].state() != TaskState::kWaiting) return;
        Enqueue(each(i), NodeId(static_cast<uint32_t>(newly_ready[i])), false);
      });
  newly_ready.clear();
}

void Scheduler::Impl::FindCandidates(TaskId id) {
  Task& task = tasks[id.value];
  const order::LaneId lane = task.card.lane;
  if (!options.locality || IsGang(lane) || task.has(Task::kMany)) return;
  SetCandidates(task, replicas.Candidates(id, [&](NodeId node) { return MayQueueAt(node, lane); }));
}

void Scheduler::Impl::PrefetchQueues(TaskId id, bool rings) const {
  const Task& task = tasks[id.value];
  if (task.has(Task::kMany)) return;
  for (uint32_t node : task.candidate) {
    if (node == NodeId::kNone) return;
    if (rings) {
      nodes[node].queue.PrefetchPush(task.card);
    } else {
      nodes[node].queue.PrefetchBuckets();
    }
  }
}

bool Scheduler::Impl::MayQueueAt(NodeId id, order::LaneId lane) const {
  const Node& node = nodes[id.value];
  return node.access == Node::Access::kOpen && order::Room::FitsCapacity(lanes[lane], node.total);
}

void Scheduler::Impl::Enqueue(TaskId id, NodeId released_at, bool keep_place) {
  Task& task = tasks[id.value];
  const order::LaneId lane = task.card.lane;
  if (!keep_place) task.card.ticket = next_ticket++;
  task.card.queued = true;
  SetState(task, TaskState::kReady);
  LaneState& state = lane_states[lane];
  ++state.ready;
  if (!std::exchange(state.pushed, true)) pushed.push_back(lane);
  PutIntoQueues(id, keep_place);
  if (IsGang(lane)) {
    gang_look = true;
    return;
  }
  const auto [candidate, count] = CandidatesOf(task);
  for (uint32_t i = 0; i < count; ++i) {
    // A full node has no use for it, but to be sent it ahead.
    const Node& node = nodes[candidate[i]];
    if (node.free_slots() > 0 || node.round_trip.count() > 0) Touch(NodeId(candidate[i]));
    if (options.steal) state.victims.Note(NodeId(candidate[i]));
  }
  if (!released_at) return;
  if (count == 0) asks.push_back(released_at);
  RecallForOrder(id, released_at);
}

void Scheduler::Impl::PutIntoQueues(TaskId id, bool keep_place) {
  const Task& task = tasks[id.value];
  const auto put = [&](order::ReadyQueue& queue) {
    if (keep_place) {
      queue.PutBack(id, task.card, cards());
    } else {
      queue.Push(id, task.card, cards());
    }
  };
  if (IsGang(task.card.lane)) {
    put(gangs);
    return;
  }
  const auto [candidate, count] = CandidatesOf(task);
  if (count == 0) put(remote);
  for (uint32_t i = 0; i < count; ++i) put(nodes[candidate[i]].queue);
}

std::pair<const uint32_t*, uint32_t> Scheduler::Impl::CandidatesOf(const Task& task) const {
  if (task.has(Task::kMany)) return {lists[task.candidate[0]].data(), task.candidate[1]};
  const uint32_t count = task.candidate[0] == NodeId::kNone ? 0 : task.candidate[1] == NodeId::kNone ? 1 : 2;
  return {task.candidate, count};
}

void Scheduler::Impl::SetCandidates(Task& task, std::span<const NodeId> list) {
  if (list.size() <= 2) {
    for (size_t i = 0; i < list.size(); ++i) task.candidate[i] = list[i].value;
    return;
  }
  if (free_lists.empty()) {
    free_lists.push_back(static_cast<uint32_t>(lists.size()));
    lists.emplace_back();
  }
  std::vector<uint32_t>& place = lists[free_lists.back()];
  place.clear();
  for (NodeId node : list) place.push_back(node.value);
  task.flags |= Task::kMany;
  task.candidate[0] = free_lists.back();
  task.candidate[1] = static_cast<uint32_t>(list.size());
  free_lists.pop_back();
}

void Scheduler::Impl::ClearCandidates(Task& task) {
  if (task.has(Task::kMany)) {
    free_lists.push_back(task.candidate[0]);
    task.flags &= static_cast<uint8_t>(~Task::kMany);
  }
  task.candidate[0] = task.candidate[1] = NodeId::kNone;
}

/// A ready task is taken out of all queues; its candidates stay known. `ahead`: it counts there still.
void Scheduler::Impl::LeaveQueues(TaskId id, bool ahead) {
  Task& task = tasks[id.value];
  const order::LaneId lane = task.card.lane;
  task.card.queued = false;
  LaneState& state = lane_states[lane];
  --state.ready;
  if (state.holders > state.ready) trim_holds = true;
  if (IsGang(lane)) {
    gangs.Leave(task.card, false);
    if (gathering == id) GiveUpGang(false);
    return;
  }
  const auto [candidate, count] = CandidatesOf(task);
  if (count == 0) remote.Leave(task.card, ahead);
  for (uint32_t i = 0; i < count; ++i) nodes[candidate[i]].queue.Leave(task.card, ahead);
}

/// Out of all queues, if it stands in any; to wait, or to be what it was found to be.
void Scheduler::Impl::Unqueue(TaskId id) {
  Task& task = tasks[id.value];
  if (!delayed.empty()) delayed.erase(id.value);
  if (task.state() != TaskState::kReady) return;
  LeaveQueues(id, false);
  ClearCandidates(task);
  SetState(task, TaskState::kWaiting);
}

/// A task sent ahead has begun or comes back: it counts in queues no more.
void Scheduler::Impl::LeaveAhead(Task& task) {
  Node& node = nodes[task.node.value];
  const TaskId id(static_cast<uint32_t>(&task - tasks.data()));
  node.ahead.erase(std::find(node.ahead.begin(), node.ahead.end(), id));
  --ahead_total;
  task.flags &= static_cast<uint8_t>(~Task::kAhead);
  const auto [candidate, count] = CandidatesOf(task);
  if (count == 0) remote.LeaveAhead(task.card);
  for (uint32_t i = 0; i < count; ++i) nodes[candidate[i]].queue.LeaveAhead(task.card);
  ClearCandidates(task);
}

/// Takes over the levels that the graph has raised; queued tasks move to their new level, at their place.
void Scheduler::Impl::Relevel() {
  const auto take_over = [this](TaskId id) {
    if (id.value >= tasks.size()) return;
    Task& task = tasks[id.value];
    const Level level = graph.level(id);
    if (level == task.card.level || task.has(Task::kAhead)) return;
    if (task.state() != TaskState::kReady) {
      task.card.level = level;
      return;
    }
    const auto move = [&](order::ReadyQueue& queue, const order::Card& moved) {
      queue.Leave(task.card, false);
      queue.PutBack(id, moved, cards());
    };
    order::Card moved = task.card;
    moved.level = level;
    const auto [candidate, count] = CandidatesOf(task);
    if (IsGang(moved.lane)) {
      move(gangs, moved);
    } else if (count == 0) {
      move(remote, moved);
    }
    for (uint32_t i = 0; i < count; ++i) move(nodes[candidate[i]].queue, moved);
    task.card = moved;
  };
  if (graph.seal_count() == seal_seen + 1) {
    for (TaskId id : graph.relevelled()) take_over(id);
  } else {
    for (uint32_t n = 0; n < tasks.size(); ++n) take_over(TaskId(n));
  }
  seal_seen = graph.seal_count();
}

}  // namespace harrow::core
