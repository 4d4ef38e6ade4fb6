// A task that is ready stands in the queues of all its candidates; it is taken from one and leaves the
// others. When it comes back without having begun, or its queue is moved away, it takes its old place.
// Touch() comes with every change that may let a node take more, so that Dispatch looks at it before the
// instant ends.

#include "core/moves.h"

#include <algorithm>
#include <utility>

#include "core/in_steps.h"
#include "core/movable.h"

namespace harrow::core {

void Moves::EnqueueReady() {
  const auto waits = [this](TaskId id) {
    return tasks[id].state() == TaskState::kWaiting && tasks[id].waits() == 0 && MayHaveInputs(id) &&
           MayReadStreams(id);
  };
  for (TaskId id : returned_) {
    if (!waits(id)) continue;
    FindCandidates(id);
    Enqueue(id, NodeId(), MayKeepPlace(id));
  }
  returned_.clear();
  stood_at_.clear();
  if (!std::is_sorted(newly_ready_.begin(), newly_ready_.end()))
    std::sort(newly_ready_.begin(), newly_ready_.end());
  const auto task_of = [](uint64_t each) { return TaskId(static_cast<uint32_t>(each >> 32)); };
  std::erase_if(newly_ready_, [&](uint64_t each) { return !waits(task_of(each)); });
  const auto each = [&](size_t i) { return task_of(newly_ready_[i]); };
  InSteps([this] { return newly_ready_.size(); }, [&](size_t i) { graph.PrefetchLinks(each(i)); },
          [&](size_t i) { graph.PrefetchInputs(each(i)); },
          [&](size_t i) { replicas.PrefetchInputs(each(i)); }, [&](size_t i) { FindCandidates(each(i)); });
  // auto takes the newest first, and means those of one instant in the flow's order (order/order.cc).
  if (options.policy == order::Policy::kAuto) std::reverse(newly_ready_.begin(), newly_ready_.end());
  for (uint64_t ready : newly_ready_) {
    // A task may be there twice.
    if (waits(task_of(ready))) Enqueue(task_of(ready), NodeId(static_cast<uint32_t>(ready)), false);
  }
  newly_ready_.clear();
}

bool Moves::MayReadStreams(TaskId id) {
  if (!streams.any()) return true;
  bool may = true;
  EachWriter(id, [&](TaskId writer, StreamId) {
    const TaskState state = tasks.state(writer);
    if ((state != TaskState::kDone && state != TaskState::kHeld) || streams.writers[writer].held) return;
    may = false;
    streams.lost.push_back(writer);
  });
  return may;
}

void Moves::NoteWhereItStands(TaskId id) {
  if (!options.locality || (graph.inputs(id).empty() && !full_for_.contains(id))) return;
  const std::span<const NodeId> stands = tasks.candidates(id);
  stood_at_[id].assign(stands.begin(), stands.end());
}

bool Moves::MayKeepPlace(TaskId id) const {
  if (placing.on() || paths.on()) return false;
  if (!options.locality || (graph.inputs(id).empty() && !full_for_.contains(id))) return true;
  const auto stood = stood_at_.find(id);
  if (stood == stood_at_.end()) return false;
  const std::span<const NodeId> stands = tasks.candidates(id);
  // In the remote queue, from whose middle it may have been taken (regions.cc).
  if (stood->second.empty()) return stands.empty();
  return std::all_of(stood->second.begin(), stood->second.end(), [&](NodeId node) {
    return !nodes[node].open() || std::find(stands.begin(), stands.end(), node) != stands.end();
  });
}

void Moves::FindCandidates(TaskId id) {
  const order::LaneId lane = tasks[id].lane();
  if (paths.on()) tasks.SetUrgency(id, paths.UrgencyOf(id));
  if (placing.on() && FindPlaced(id)) return;
  if (!options.locality || lanes.gang(lane)) return;
  if (full_for_.contains(id)) {
    if (const std::vector<NodeId> others = NodesWithRoom(id); !others.empty())
      return tasks.SetCandidates(id, others);
  }
  tasks.SetCandidates(
      id, replicas.Candidates(id, [&](NodeId node) { return lanes.FitsOpen(lane, nodes[node]); }));
}

/// False: by what it costs it has no node, or that cannot take it.
bool Moves::FindPlaced(TaskId id) {
  if (IsGang(id)) return false;
  placing.Comes(id);
  const NodeId node = placing.node(id);
  if (!node || !lanes.FitsOpen(tasks[id].lane(), nodes[node])) {
    tasks.SetCandidates(id, {});
    return false;
  }
  tasks.SetUrgency(id, UrgencyWherePlaced(id));
  tasks.SetCandidates(id, {&node, 1});
  return true;
}

void Moves::PlaceAgain() {
  placing.Place(now, [this](TaskId id) { return StandingOf(*this, id); });
  std::vector<TaskId> queued = queues.remote().Tasks(tasks.cards());
  for (uint32_t n = 0; n < nodes.size(); ++n) {
    const std::vector<TaskId> there = queues.TasksAt(NodeId(n));
    queued.insert(queued.end(), there.begin(), there.end());
  }
  for (TaskId id : queued) {
    const NodeId to = placing.node(id);
    const std::span<const NodeId> stands = tasks.candidates(id);
    if (!to || tasks[id].state() != TaskState::kReady || !lanes.FitsOpen(tasks[id].lane(), nodes[to])) continue;
    if (stands.size() == 1 && stands[0] == to && tasks.cards().urgency(id) == UrgencyWherePlaced(id)) continue;
    Unqueue(id);
    NoteReturned(id);
  }
}

/// Those that wait go to the places in the queues that they have by what is known now.
void Moves::OrderAgain() {
  paths.Find();
  std::vector<TaskId> queued = queues.remote().Tasks(tasks.cards());
  for (uint32_t n = 0; n < nodes.size(); ++n) {
    const std::vector<TaskId> there = queues.TasksAt(NodeId(n));
    queued.insert(queued.end(), there.begin(), there.end());
  }
  for (TaskId id : queued) {
    if (tasks[id].state() != TaskState::kReady || tasks.cards().urgency(id) == paths.UrgencyOf(id)) continue;
    Unqueue(id);
    tasks.SetUrgency(id, paths.UrgencyOf(id));
    NoteReturned(id);
  }
}

bool Moves::PlaceElsewhere(TaskId id, NodeId full) {
  if (!options.locality || lanes.gang(tasks[id].lane())) return false;
  full_for_[id].push_back(full);
  if (!NodesWithRoom(id).empty()) return true;
  full_for_.erase(id);
  return false;
}

/// Some of those that may have it, the idlest.
std::vector<NodeId> Moves::NodesWithRoom(TaskId id) const {
  constexpr size_t kSome = 8;
  const std::vector<NodeId>& full = full_for_.at(id);
  std::vector<NodeId> found;
  for (uint32_t n = 0; n < nodes.size(); ++n) {
    const NodeId node(n);
    if (lanes.FitsOpen(tasks[id].lane(), nodes[node]) &&
        std::find(full.begin(), full.end(), node) == full.end())
      found.push_back(node);
  }
  std::stable_sort(found.begin(), found.end(),
                   [&](NodeId a, NodeId b) { return nodes[a].free_slots() > nodes[b].free_slots(); });
  if (found.size() > kSome) found.resize(kSome);
  return found;
}

void Moves::Enqueue(TaskId id, NodeId released_at, bool keep_place) {
  queues.Enter(id, keep_place);
  if (!keep_place) regions.Forget(id);
  if (IsGang(id)) {
    gangs.Look();
    return;
  }
  const std::span<const NodeId> candidates = tasks.candidates(id);
  for (NodeId node : candidates) {
    // A full node has no use for it, but to be sent it ahead.
    if (nodes[node].free_slots() > 0 || ahead.possible(node)) nodes.Touch(node);
  }
  if (!released_at) return;
  if (candidates.empty()) first_to_ask.push_back(released_at);
  RecallForOrder(id, released_at);
  if (!options.local_files) return;
  // Where tasks are short those ahead will soon have begun.
  for (NodeId node : candidates) {
    if (node != released_at && ahead.RecallPays(node)) RecallForOrder(id, node);
  }
}

void Moves::LeaveQueues(TaskId id, bool sent_ahead) {
  const order::LaneId lane = tasks[id].lane();
  queues.Leave(id, sent_ahead);
  holds.Bound(lane, queues.ready(lane));
  if (gangs.waiting() && lanes.gang(lane)) ForgetGathering(id);
}

void Moves::Unqueue(TaskId id) {
  const TaskState state = tasks[id].state();
  if (state == TaskState::kReady) LeaveQueues(id, false);
  if (state != TaskState::kReady && state != TaskState::kDelayed) return;
  verdicts.Forget(id);
  tasks.MakeWaiting(id);
}

void Moves::TakeOverLevels() {
  const auto take_over = [this](TaskId id) {
    if (!tasks.Has(id) || graph.level(id) == tasks[id].level() || tasks[id].ahead()) return;
    if (tasks[id].state() == TaskState::kReady) {
      queues.SetLevel(id, graph.level(id));
      regions.Forget(id);
    } else {
      tasks.SetLevel(id, graph.level(id));
    }
  };
  if (graph.seal_count() == seal_seen_ + 1) {
    for (TaskId id : graph.relevelled()) take_over(id);
  } else {
    for (uint32_t n = 0; n < tasks.size(); ++n) take_over(TaskId(n));
  }
  seal_seen_ = graph.seal_count();
}

void Moves::Send(TaskId id, NodeId node, TakenFrom from, bool sent_ahead) {
  LeaveQueues(id, sent_ahead);
  if (from == TakenFrom::kRemoteQueue) regions.NoteTaken();
  if (placing.on()) placing.Leaves(id);
  tasks.AddAttempt(id);
  Place(id, node, from, sent_ahead);
  if (gangs.first() && !IsGang(id)) gangs.CountOvertaken(lanes[tasks[id].lane()].cores, GangPatience());
  OrderInputs(id, node);
  sent_.push_back(actions->size());
  actions->push_back(StartTask{tasks.latest(id), node, sent_ahead});
}

void Moves::Place(TaskId id, NodeId node, TakenFrom from, bool sent_ahead) {
  tasks.Send(id, node, from, sent_ahead);
  if (placing.on()) placing.Begins(id, now);
  nodes.Enter(node, id);
  if (lanes.checkpointed() && graph.profile(id).checkpoint.on()) checkpoints.Enter(id);
  if (sent_ahead) {
    ahead.Add(node, id);
  } else {
    Occupy(node, tasks[id].lane());
    if (lanes.gangs()) run_times.Begin(id, now);
    if (IsGang(id)) gangs.Add(id, {node});
  }
  if (ahead.possible(node) && WouldRelease(id, node)) {
    tasks.SetReleaser(id, true);
    ahead.CountReleaser(node);
  }
  nodes.Touch(node);
}

/// Whether its end may make a task ready that comes before others: one that waits for no more tasks than the
/// node runs.
bool Moves::WouldRelease(TaskId id, NodeId node) const {
  for (TaskId after : graph.successors(id)) {
    if (!tasks.Has(after)) continue;
    const Task& task = tasks[after];
    if (task.waits() <= nodes[node].total().slots &&
        queues.order().NewcomerFirst(task.level(), tasks[id].level()))
      return true;
  }
  return false;
}

void Moves::GiveSlot(TaskId id) {
  LeaveAhead(id);
  Occupy(tasks[id].node(), tasks[id].lane());
  if (lanes.gangs()) run_times.Begin(id, now);
  if (placing.on()) placing.Begins(id, now);
}

/// It counts in queues no more, where its level could not be raised.
void Moves::LeaveAhead(TaskId id) {
  ahead.Remove(tasks[id].node(), id);
  queues.LeaveAhead(id);
  tasks.GiveSlot(id);
  tasks.SetLevel(id, graph.level(id));
}

void Moves::Vacate(TaskId id) {
  const Task& task = tasks[id];
  const NodeId node = task.node();
  nodes.Touch(node);
  nodes.Leave(node, id);
  if (lanes.checkpointed()) checkpoints.Leave(id);
  if (lanes.gangs()) run_times.End(id);
  if (task.recalled()) ahead.CountAnswer(node);
  if (task.releaser()) {
    tasks.SetReleaser(id, false);
    ahead.DropReleaser(node);
  }
  if (task.ahead()) {
    NoteWhereItStands(id);
    LeaveAhead(id);
  } else if (!IsGang(id)) {
    Release(node, task.lane());
  } else {
    for (NodeId member : gangs.Remove(id)) {
      gangs.LetGo(NodeTable::PartOf(lanes[task.lane()], nodes[member].total()).slots);
      Release(member, task.lane());
      nodes.Touch(member);
    }
  }
}

void Moves::Occupy(NodeId id, order::LaneId lane) {
  nodes.Occupy(id, lanes[lane]);
  ahead.NoteMoved(id, now);
}

/// What was sent ahead moves up: the agent has begun it by now.
void Moves::Release(NodeId id, order::LaneId lane) {
  nodes.Release(id, lanes[lane]);
  ahead.NoteMoved(id, now);
  if (gangs.waiting()) gangs.Look();
  while (nodes[id].joined() && !ahead.at(id).empty() && nodes[id].free_slots() > 0)
    GiveSlot(ahead.at(id).front());
}

void Moves::Recall(TaskId id) {
  if (tasks[id].state() != TaskState::kAhead) return;
  tasks.Recall(id);
  ahead.CountRecall(tasks[id].node());
  actions->push_back(TakeBack{tasks.latest(id), tasks[id].node()});
}

void Moves::RecallSent(TaskId id) {
  Recall(id);
  if (IsGang(id)) {  // parts of it may have begun
    actions->push_back(CancelOf(id));
    return;
  }
  if (tasks[id].state() != TaskState::kSent) return;
  tasks.RecallSent(id);
  ahead.CountRecall(tasks[id].node());
  actions->push_back(TakeBack{tasks.latest(id), tasks[id].node()});
}

/// What was sent ahead has begun there before one that has a slot by what was believed, and waits for its inputs, or did so when the other
/// began: that has none now. Of those whose inputs are there any may be the one.
void Moves::RecallOvertaken(NodeId id) {
  if (!options.local_files || nodes[id].used_slots() <= nodes[id].total().slots) return;
  TaskId other;
  for (TaskId each : nodes[id].in_flight()) {
    if (tasks[each].state() != TaskState::kSent || IsGang(each)) continue;
    if (!HasInputs(each, id)) return RecallSent(each);
    other = each;
  }
  if (other) RecallSent(other);
}

void Moves::RecallAhead(NodeId id) {
  for (TaskId each : ahead.at(id)) Recall(each);
}

/// A task that became ready, by an end at that node or for it, and goes before what was sent ahead there.
void Moves::RecallForOrder(TaskId newcomer, NodeId at) {
  if (ahead.at(at).empty() || nodes[at].free_slots() > 0) return;
  const std::span<const NodeId> candidates = tasks.candidates(newcomer);
  if (!candidates.empty() && std::find(candidates.begin(), candidates.end(), at) == candidates.end()) return;
  if (queues.order().NewcomerFirst(tasks[newcomer].level(), tasks[ahead.at(at).front()].level()))
    RecallAhead(at);
}

/// It has a free slot, so that nothing is ahead there.
void Moves::Keep(NodeId id, order::LaneId lane) {
  nodes.Touch(id);
  holds.Keep(id, lane);
}

void Moves::DropHold(NodeId id) {
  if (!holds.Drop(id)) return;
  nodes.Touch(id);
  if (gangs.waiting()) gangs.Look();
}

void Moves::KeepForGang(size_t which, std::vector<NodeId> chosen) {
  const order::LaneId lane = tasks[gangs.gathered()[which].task].lane();
  std::vector<NodeCapacity> parts;
  for (NodeId id : chosen) {
    parts.push_back(NodeTable::PartOf(lanes[lane], nodes[id].total()));
    const order::LaneId hold = holds.lane(id);
    if (hold != order::kNoLane && !FitsBesideKept(hold, id, parts.back())) DropHold(id);
    nodes.Touch(id);
    RecallAhead(id);
  }
  gangs.Keep(which, std::move(chosen), std::move(parts));
  for (NodeId id : gangs.gathered()[which].nodes) UpdateFree(id);
}

void Moves::OccupyMembers(TaskId id, const std::vector<NodeId>& members) {
  for (size_t i = 1; i < members.size(); ++i) {
    Occupy(members[i], tasks[id].lane());
    nodes.Touch(members[i]);
    UpdateFree(members[i]);
  }
}

void Moves::SendGang(TaskId id, std::vector<NodeId> members) {
  const NodeId lead = members.front();
  for (size_t i = 1; i < members.size(); ++i) actions->push_back(JoinGang{id, members[i]});
  for (NodeId member : members) {
    if (suspects.Has(member)) suspects.Given(member, now);
  }
  OccupyMembers(id, members);
  gangs.Add(id, std::move(members));
  Send(id, lead, TakenFrom::kGang, false);
  UpdateFree(lead);
}

void Moves::PlaceGang(TaskId id, std::vector<NodeId> members, bool broken) {
  const NodeId lead = members.front();
  OccupyMembers(id, members);
  gangs.Add(id, std::move(members), broken);
  Place(id, lead, TakenFrom::kAdopted, false);
}

void Moves::BreakGangsFollowingAt(NodeId id) {
  for (TaskId gang : gangs.LoseFollower(id)) {
    Release(id, tasks[gang].lane());
    actions->push_back(CancelOf(gang));
  }
}

void Moves::GiveUpGang(TaskId id) {
  queues.Return(id);
  ForgetGathering(id);
}

void Moves::ForgetGathering(TaskId id) {
  Freed(gangs.Forget(id));
}

void Moves::UnkeepAt(NodeId id) {
  for (size_t which = 0; which < gangs.gathered().size(); ++which) {
    if (gangs.gathered()[which].Has(id)) Freed(gangs.Unkeep(which));
  }
}

/// They keep less than before.
void Moves::Freed(const std::vector<NodeId>& kept) {
  for (NodeId id : kept) {
    nodes.Touch(id);
    UpdateFree(id);
  }
  gangs.Look();
}

uint64_t Moves::GangPatience() const {
  const order::Lane& lane = lanes[tasks[gangs.first()].lane()];
  const uint64_t of_node =
      lane.whole_node ? nodes.open_slots() / std::max(1u, nodes.open_nodes()) : lane.cores;
  return lane.nodes * of_node;
}

void Moves::SetAccess(NodeId id, Node::Access access) {
  nodes.SetAccess(id, access);
  queues.SetOpenSlots(nodes.open_slots());
  if (placing.on()) placing.SetSlots(id, nodes[id].open() ? nodes[id].total().slots : 0);
}

void Moves::Shut(NodeId id, Node::Access access) {
  SetAccess(id, access);
  suspects.Forget(id);
  nodes.Touch(id);
  DropHold(id);
  if (gangs.Keeps(id)) UnkeepAt(id);
  gangs.Look();
  for (TaskId queued : queues.TasksAt(id)) {
    NoteWhereItStands(queued);
    Unqueue(queued);
    NoteReturned(queued);
  }
}

void Moves::CountBytes() {
  const auto start_of = [this](size_t i) -> StartTask& { return std::get<StartTask>((*actions)[sent_[i]]); };
  InSteps([this] { return sent_.size(); }, [&](size_t i) { graph.PrefetchLinks(start_of(i).attempt.task); },
          [&](size_t i) { graph.PrefetchInputs(start_of(i).attempt.task); },
          [&](size_t i) { replicas.PrefetchInputs(start_of(i).attempt.task); },
          [&](size_t i) {
            StartTask& start = start_of(i);
            const place::InputBytes bytes = replicas.BytesAt(start.attempt.task, start.node);
            start.local_bytes = bytes.local;
            start.remote_bytes = bytes.remote;
            start.home_bytes =
                options.local_files ? replicas.HomeBytes(start.attempt.task, start.node) : bytes.local;
            tasks.CountInput(bytes.local, bytes.remote, start.home_bytes);
          });
  sent_.clear();
}

}  // namespace harrow::core
