// Events change state first; then, once for all events of an instant, tasks that have become ready are put
// into their queues in ascending order, and nodes ask for work: the steps of Finish(). So a run is the same
// whether a result comes alone or with others, except that those that come together see each other's
// successors.
//
// Messages from agents come late, twice, or from an agent that was given up. An event counts when that
// attempt is in flight at that node. One that does not fit is adopted, running or ended, where it tells of
// work that this scheduler did not ask for (it was restarted) or believed lost (it had given the node up),
// and nothing of the task was sent since. An attempt that an agent runs although its task is settled, or in
// flight elsewhere, is ended there.

#include "core/scheduler.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/prefetch.h"
#include "core/dispatch.h"
#include "core/explain.h"
#include "core/in_steps.h"
#include "core/movable.h"

namespace harrow::core {
namespace {

[[noreturn]] void Raise(const std::string& text) {
  throw std::logic_error(text);
}

}  // namespace

/// Takes events in.
class Scheduler::Impl : private Dispatch {
 public:
  using Dispatch::Dispatch;
  void Handle(Time the_time, std::span<const Event> events, std::vector<Action>* the_actions);
  void PrefetchEnd(TaskId id, int step) const;
  const Parts& parts() const { return *this; }
  using Dispatch::IsSharedFile;
  using Dispatch::CanRunHere;
  using Dispatch::IsWantedFile;
  using Dispatch::HasEnded;
  std::vector<TaskId> ShareOf(double part) { return core::ShareOf(this, part); }
  std::string FindBroken() const;
  std::optional<double> LeastBound() {
    return bounds.Least([this](TaskId id) { return tasks.state(id) < TaskState::kElsewhere; });
  }

 private:
  void On(const NodeJoined& e);
  void On(const NodeHungUp& e) { NoteAway(e.node); }
  void On(const NodeSilent& e);
  void On(const NodeLost& e);
  void On(const NodeClosed& e);
  void On(const TasksAdded& e);
  void On(const TasksTaken& e);
  void On(const TasksGiven& e);
  void On(const TaskRestored& e);
  void On(const AttemptMayBeOut& e);
  void On(const RemakesMayBeOut&) { remakes_may_be_out = true; }
  void On(const GangRestored& e);
  void On(const TaskStarted& e);
  void On(const StreamRead& e) { NoteRead(e); }
  void On(const ReadToEnd& e) { NoteReadToEnd(e); }
  void On(const StreamsChanged&) { LookAtStreams(); }
  void On(const StreamKept& e) { NoteKept(e); }
  void On(const StreamHeld& e) { NoteHeld(e); }
  void On(const TaskEnded& e);
  void On(const TaskReturned& e);
  void On(const FileStored& e);
  void On(const FileLost& e);
  void On(const FileShared& e) {
    if (e.file.value < graph.file_count()) NoteShared(e.file);
  }
  void On(const FileAbsent& e) {
    if (e.file.value < graph.file_count()) NoteAbsent(e.file);
  }
  void On(const FilesFound& e) {
    replicas.Grow();
    NoteFound(e);
  }
  void On(const FilesNotFound& e) { NoteNotFound(e.task); }
  void On(const FilesForgotten& e) {
    replicas.Grow();
    for (FileId file : e.files) {
      if (file.value < graph.file_count()) NoteNotShared(file);
    }
  }
  void On(const FilesWanted& e) {
    replicas.Grow();
    NoteWanted(e.task, e.files);
  }
  void On(const CopyFailed& e);
  void On(const CancelRequested& e);
  void On(const BestKnown& e) { LearnBest(e.value); }
  void On(const NodeDrained& e);
  void On(const MoveRequested& e) {
    if (tasks.Has(e.task)) MoveTask(e.task, e.node, e.held);
  }
  void On(const CheckpointMissed& e);
  void On(const DrainRequested&) { Stop(TaskId()); }
  void On(const RoundTripMeasured& e);
  void On(const EndTimeKnown& e);
  void On(const AllNodesJoined&) {
    ExpectNoMoreNodes();
    look_at_all = true;
  }
  void On(const OtherServersThere& e) {
    others_there = e.there;
    if (!e.there) NoteCapacity();
  }
  void On(const TimeCame&) {}
  void Finish();
  void EnqueueAll();
  void Describe(TaskId id);
  void BarLanes();
  bool Adopt(AttemptId attempt, NodeId node, const std::vector<NodeId>& members = {});
  void TakeInRemakes();
  void ForgetRemake(AttemptId attempt);
  void AskAgain(NodeId id);
  bool over() const { return tasks.unsettled() == 0; }

  Time end_ = Time::max();
  // RunComplete is to be told once all is settled: TasksAdded came since the last one.
  bool tell_complete_ = false;
  std::vector<TaskStarted> remakes_out_;  // until the end of the instant
};

void Scheduler::Impl::Handle(Time the_time, std::span<const Event> events, std::vector<Action>* the_actions) {
  now = the_time;
  actions = the_actions;
  if (lanes.timed() && end_ != Time::max()) BarLanes();
  EndDelays();
  const auto prefetch = [&](size_t i, int step) {
    if (const auto* e = std::get_if<TaskEnded>(&events[i])) PrefetchEnd(e->attempt.task, step);
  };
  // What the end of a task will read is asked of memory some events before.
  InSteps([&] { return events.size(); }, [&](size_t i) { prefetch(i, 0); }, [&](size_t i) { prefetch(i, 1); },
          [&](size_t i) { prefetch(i, 2); },
          [&](size_t i) { std::visit([this](const auto& e) { On(e); }, events[i]); });
  Finish();
}

void Scheduler::Impl::PrefetchEnd(TaskId id, int step) const {
  static constexpr size_t kSome = 4;  // of a task's files or successors
  if (!tasks.Has(id)) return;
  const auto some = [](const auto& list) { return list.first(std::min(kSome, list.size())); };
  if (step == 0) {
    Prefetch(&tasks[id]);
    graph.PrefetchLinks(id);
  } else if (step == 1) {
    nodes.Prefetch(tasks[id].node(), 0);
    queues.Prefetch(tasks[id].node());
    ahead.Prefetch(tasks[id].node());
    graph.PrefetchInputs(id);
    graph.PrefetchSuccessors(id);
  } else {
    nodes.Prefetch(tasks[id].node(), 1);
    for (FileId file : some(graph.inputs(id))) replicas.Prefetch(file);
    for (FileId file : some(graph.outputs(id))) replicas.Prefetch(file);
    for (TaskId after : some(graph.successors(id))) {
      if (tasks.Has(after)) Prefetch(&tasks[after]);
    }
  }
}

void Scheduler::Impl::Finish() {
  SendAwayBefore(end_);
  PruneNewcomers();
  SendMoved();
  SettleAll();
  SettleImpossible();
  LookForSources();
  EnqueueAll();
  if (SettleImpossible()) EnqueueAll();  // of what is to be made again
  TakeInRemakes();
  SkipWithoutTime();
  SettleAll();
  LookAtSuspects();
  GiveWork();
  if (GiveLastVerdicts()) {
    EnqueueAll();
    GiveWork();
  }
  // What made a queue run empty has slots beside it that are idle now.
  if (placing.on() && nodes.free_slots() > 0 && tasks.counts().ready > 0) placing.NoteIdle();
  if (placing.due() && nodes.free_slots() > 0 && !stopped()) {
    PlaceAgain();
    EnqueueReady();
    GiveWork();
  }
  FollowStreams();
  FreeStarved();
  FreeOpenReaders();
  if (LetYieldedGoOn()) {
    EnqueueAll();
    GiveWork();
    FollowStreams();
  }
  CountBytes();
  OrderBackups(!stopped() && !over());
  tell_complete_ |= !over();
  if (over() && std::exchange(tell_complete_, false)) actions->push_back(RunComplete{});
  TellWake();
}

/// What has become ready, and what that makes run again.
void Scheduler::Impl::EnqueueAll() {
  do {
    RemakeLost();
    RemakeWriters();
    SettleAll();
    if (placing.due()) PlaceAgain();
    if (paths.due()) OrderAgain();
    EnqueueReady();
  } while (!lost.empty() || !streams.lost.empty());
}

/// Lanes whose declared time no longer fits may not start, as long as it does not.
void Scheduler::Impl::BarLanes() {
  for (order::LaneId lane = 0; lane < lanes.size(); ++lane) {
    const Duration limit = lanes[lane].least_time;
    const bool barred = limit.count() > 0 && end_ != Time::max() && (end_ - now) < limit;
    if (lanes.barred(lane) != barred) gangs.Look();
    if (lanes.barred(lane) && !barred) {
      // The allocation was given more time: idle nodes must look again.
      for (uint32_t n = 0; n < nodes.size(); ++n) nodes.Touch(NodeId(n));
    }
    lanes.SetBarred(lane, barred);
  }
}

void Scheduler::Impl::On(const TasksAdded& e) {
  tell_complete_ = true;
  const auto begin = static_cast<uint32_t>(tasks.size());
  const auto last =
      static_cast<uint32_t>(std::min<size_t>(size_t{e.first.value} + e.count, graph.task_count()));
  if (last <= begin) return;
  tasks.Grow(last);
  replicas.Grow();
  if (placing.on()) placing.Grow(last);
  if (paths.on()) paths.Grow();
  AddReaders(TaskId(begin), TaskId(last));
  AddStreamsOf(TaskId(begin), TaskId(last));
  TakeOverLevels();
  for (uint32_t n = begin; n < last; ++n) {
    const TaskId id(n);
    Describe(id);
    CountWaits(id);
    if (e.elsewhere) {
      tasks.SetElsewhere(id);
    } else if (tasks[id].waits() == 0) {
      NoteReady(id, NodeId());
    }
    for (TaskId after : graph.successors(id)) {
      if (after.value < begin) AddPredecessor(after);
    }
    if (HasRegions()) {
      for (TaskId before : graph.predecessors(id)) regions.Forget(before);
    }
  }
  for (uint32_t n = begin; n < last && !e.elsewhere; ++n) NoteNewcomer(TaskId(n));
  for (uint32_t n = begin; n < last && stopped() && !e.elsewhere; ++n)
    Settle(TaskId(n), TaskState::kSkipped, Reason::kStopped, stopped_by());
  NoteCapacity();  // so have the lanes
}

void Scheduler::Impl::On(const TasksTaken& e) {
  const std::set<TaskId> cut = CutFromStreams(e.tasks);
  size_t gone = 0;
  for (TaskId id : e.tasks) {
    // What makes again what was lost is done, whoever's it was.
    if (!tasks.Has(id) || tasks.state(id) > TaskState::kReady || tasks.remaking(id) || cut.contains(id)) continue;
    Unqueue(id);
    if (placing.on()) placing.Leaves(id);
    checkpoints.Forget(id);
    tasks.SetElsewhere(id);
    if (placing.on()) placing.Gone(id);
    ++gone;
  }
  if (gone > 0 && placing.on()) placing.Exchange(gone);
}

void Scheduler::Impl::On(const TasksGiven& e) {
  tell_complete_ = true;
  if (placing.on() && !e.tasks.empty()) placing.Exchange(e.tasks.size());
  for (TaskId id : e.tasks) {
    if (tasks.state(id) != TaskState::kElsewhere) continue;
    tasks.SetHere(id);
    CountWaits(id);
    NoteNewcomer(id);
    if (stopped()) {
      Settle(id, TaskState::kSkipped, Reason::kStopped, stopped_by());
    } else if (tasks[id].waits() == 0) {
      NoteReady(id, NodeId());
    }
  }
  NoteCapacity();  // as if they were new
}

void Scheduler::Impl::Describe(TaskId id) {
  const size_t known = lanes.size();
  const order::LaneId lane = lanes.Of(graph, id);
  if (lanes.size() > known) BarLanes();
  tasks.Describe(id, graph.level(id), lane, order::UrgencyOf(graph.profile(id).priority, graph.bound(id)));
}

void Scheduler::Impl::On(const TaskRestored& e) {
  if (!tasks.Has(e.task) || tasks[e.task].settled() || tasks[e.task].in_flight()) return;
  tasks.Restore(e);
  if (e.as != TaskRestored::As::kOpen) RestoreFate(e.task, e.as);
}

void Scheduler::Impl::On(const AttemptMayBeOut& e) {
  if (tasks.Has(e.task) && !tasks[e.task].settled() && !tasks[e.task].in_flight()) tasks.NoteUnheard(e.task);
}

/// An attempt that this scheduler does not believe to be there: is it taken in? `members`: its nodes, where
/// it is told that it has several.
bool Scheduler::Impl::Adopt(AttemptId attempt, NodeId node, const std::vector<NodeId>& members) {
  if (!nodes.Joined(node) || !tasks.MayAdopt(attempt)) return false;
  const TaskId id = attempt.task;
  Unqueue(id);
  if (tasks.asking(id)) {
    tasks.SetAsking(id, false);
    CountWaits(id);
  }
  tasks.Adopt(attempt);
  if (Lanes::MaySpread(graph.profile(id))) {
    tasks.SetLane(id, lanes.OfSpread(graph, id, static_cast<uint32_t>(std::max<size_t>(1, members.size()))));
    NoteCapacity();  // so may have the lanes
  }
  if (!IsGang(id) || members.empty()) {
    Place(id, node, TakenFrom::kAdopted, false);
    tasks.Run(id);
    return true;
  }
  std::vector<NodeId> here = {node};
  for (NodeId member : members) {
    if (nodes.Joined(member) && std::find(here.begin(), here.end(), member) == here.end())
      here.push_back(member);
  }
  const bool broken = here.size() < lanes[tasks[id].lane()].nodes;
  PlaceGang(id, std::move(here), broken);
  tasks.Run(id);
  if (broken) actions->push_back(CancelOf(id));
  return true;
}

void Scheduler::Impl::On(const GangRestored& e) {
  if (tasks.Has(e.attempt.task) && !e.members.empty()) Adopt(e.attempt, e.members.front(), e.members);
}

void Scheduler::Impl::On(const TaskStarted& e) {
  const TaskId id = e.attempt.task;
  if (!tasks.Has(id)) return;
  const Task& task = tasks[id];
  if (tasks.IsAt(e.attempt, e.node)) {
    if (task.state() == TaskState::kRunning) return;
    const bool recalled = task.recalled();
    if (recalled) {
      ahead.CountAnswer(e.node);
      nodes.Touch(e.node);
    }
    const bool was_ahead = task.ahead();
    if (was_ahead) GiveSlot(id);
    tasks.Run(id);
    if (was_ahead || recalled) RecallOvertaken(e.node);  // it was not the one, if it had begun when it was asked back
    // Until now it was only asked back.
    if (recalled && task.cancelled()) actions->push_back(CancelOf(id));
    if (!graph.profile(id).checkpoint.on()) {
      if (checkpoints.any_move()) checkpoints.Forget(id);
    } else if (checkpoints.wanted(id)) {
      AskForCheckpoint(id);
    }
    return;
  }
  // An earlier server had it make lost outputs again. Whether they are missing is known when all that nodes
  // hold has been told.
  if (options.local_files && task.state() == TaskState::kDone && e.attempt.number > task.attempts()) {
    if (nodes.Joined(e.node)) remakes_out_.push_back(e);
    return;
  }
  if (Adopt(e.attempt, e.node)) return;
  const bool unknown_here = task.node() != e.node || e.attempt.number > task.attempts();
  // Whoever has it runs it, or has it run.
  const bool elsewhere = task.state() == TaskState::kElsewhere;
  if ((elsewhere || ((task.settled() || task.in_flight()) && unknown_here)) && nodes.Joined(e.node))
    actions->push_back(CancelTask{e.attempt, e.node, task.state() != TaskState::kCancelled});
}

/// A remake that is out goes on where it is needed.
void Scheduler::Impl::TakeInRemakes() {
  for (const TaskStarted& e : std::exchange(remakes_out_, {})) {
    if (Adopt(e.attempt, e.node)) continue;
    const Task& task = tasks[e.attempt.task];
    if (task.state() == TaskState::kDone) tasks.UseNumber(e.attempt);
    if (nodes.Joined(e.node)) actions->push_back(CancelTask{e.attempt, e.node, true});
  }
}

/// It is out no more.
void Scheduler::Impl::ForgetRemake(AttemptId attempt) {
  std::erase_if(remakes_out_, [&](const TaskStarted& e) { return e.attempt == attempt; });
}

void Scheduler::Impl::On(const TaskEnded& e) {
  const TaskId id = e.attempt.task;
  if (!tasks.Has(id)) return;
  if (!tasks.IsAt(e.attempt, e.node) && !Adopt(e.attempt, e.node)) {
    ForgetRemake(e.attempt);
    // One of another server's: what it made is told by itself.
    if (options.local_files && tasks.state(id) == TaskState::kDone) tasks.UseNumber(e.attempt);
    return;
  }
  constexpr int kSigpipe = 128 + 13;
  const auto* const failed = std::get_if<Failed>(&e.outcome);
  const Piped piped = failed != nullptr && failed->exit_code == kSigpipe && WritesStreams(id) ? AfterSigpipe(e.attempt) : Piped::kFailed;
  const bool done = std::holds_alternative<Done>(e.outcome) || piped == Piped::kDone;
  const bool broken = !done && gangs.broken(id);
  Vacate(id);
  if (done) {
    level_times.Add(tasks[id].level(), e.run_time);
    if (lanes.gangs()) run_times.Learn(tasks[id].level(), tasks[id].lane(), e.run_time);
    ahead.NoteRun(e.node, e.run_time);
    if (placing.on()) placing.Learn(e);
    if (paths.on()) paths.Learn(e);
    NoteDoneAt(e.node);
    if (options.shared_files) {
      for (FileId file : graph.inputs(id)) replicas.SetOnly(file, e.node);
      for (FileId file : graph.outputs(id)) replicas.SetOnly(file, e.node);
    }
    NoteHome(id, e.node);
    if (WritesStreams(id)) NoteWritten(e.attempt, e.node, !WasClosed(e.attempt));
    if (ReadsStreams(id)) return EndRead(e.attempt);
    MarkDone(id, e.node);
    actions->push_back(TaskSettled{id, FinalState::kDone, TaskId(), Reason::kNone});
  } else if (std::holds_alternative<Interrupted>(e.outcome) && !tasks[id].cancelled()) {
    GiveUp(id, TaskState::kSkipped, Reason::kInterrupted);
  } else if (broken || std::holds_alternative<Lost>(e.outcome)) {
    AfterLoss(id);
  } else if (std::holds_alternative<Rewound>(e.outcome) || piped == Piped::kVoid) {
    AfterRewind(id);
  } else if (const auto* left = std::get_if<Checkpointed>(&e.outcome)) {
    AfterCheckpoint(id, left->took);
  } else if (failed != nullptr) {
    if (AfterNoRoom(id, e.node, failed->no_room, e.run_time)) return;
    const bool suspect = suspects.Has(e.node);
    const bool may_be_the_nodes = NoteFailureAt(e.node, id, e.run_time);
    AfterFailure(id, *failed, e.node, may_be_the_nodes, suspect && may_be_the_nodes);
  } else {
    GiveUp(id, TaskState::kCancelled, Reason::kNone);
  }
}

void Scheduler::Impl::On(const TaskReturned& e) {
  const TaskId id = e.attempt.task;
  ForgetRemake(e.attempt);
  if (!tasks.Has(id) || !tasks.IsAt(e.attempt, e.node) || tasks[id].state() == TaskState::kRunning) return;
  Vacate(id);
  AfterReturn(id);
}

void Scheduler::Impl::On(const NodeJoined& e) {
  if (!e.node) return;
  nodes.Grow(e.node);
  queues.Grow(nodes.size());
  holds.Grow(nodes.size());
  gangs.Grow(nodes.size());
  ahead.Grow(nodes.size());
  NoteTaker();
  const Node& node = nodes[e.node];
  const auto look_at_it = [&] {
    NoteCapacity();
    gangs.Look();
    nodes.NoteRoom();
    nodes.Touch(e.node);
  };
  // Said again of a node that is here: nothing on it has changed but what it has to give, and only when it is
  // empty.
  NoteBack(e.node);
  if (node.joined()) {
    AskAgain(e.node);
    if (node.access() == Node::Access::kSilent) {
      SetAccess(e.node, Node::Access::kOpen);
      look_at_it();
    }
    if (node.occupants() > 0 || !node.open()) return;
  }
  if (gangs.Keeps(e.node)) UnkeepAt(e.node);
  nodes.Join(e.node, e.capacity);
  queues.SetOpenSlots(nodes.open_slots());
  queues.SetSlots(e.node, e.capacity.slots);
  if (placing.on()) placing.SetSlots(e.node, e.capacity.slots);
  ahead.ForgetRuns(e.node);
  holds.ForgetOvertaken(e.node);
  replicas.NodeJoined(e.node);
  look_at_it();
}

/// What was asked of it may have been lost on the way. (A StartTask that was is told as TaskReturned.)
void Scheduler::Impl::AskAgain(NodeId id) {
  TellAgainAt(id);
  for (TaskId each : nodes[id].in_flight()) {
    if (tasks[each].recalled()) {
      actions->push_back(TakeBack{tasks.latest(each), id});
    } else if (tasks[each].cancelled() || gangs.broken(each)) {
      actions->push_back(CancelOf(each));
    } else if (checkpoints.asked(each)) {
      actions->push_back(AskCheckpoint{tasks.latest(each), id});
    }
  }
}

void Scheduler::Impl::On(const NodeSilent& e) {
  NoteAway(e.node);
  if (nodes.Open(e.node)) Shut(e.node, Node::Access::kSilent);
}

void Scheduler::Impl::On(const NodeLost& e) {
  if (!nodes.Joined(e.node)) return;
  std::erase_if(remakes_out_, [&](const TaskStarted& started) { return started.node == e.node; });
  Shut(e.node, Node::Access::kGone);
  BreakGangsFollowingAt(e.node);
  std::vector<TaskId> here(nodes[e.node].in_flight().begin(), nodes[e.node].in_flight().end());
  std::sort(here.begin(), here.end());
  for (TaskId id : here) {
    const bool was_ahead = tasks[id].ahead();
    Vacate(id);
    tasks.SetLost(id);
    // Without a slot there next to nothing was lost.
    if (was_ahead) {
      AfterLossAhead(id);
    } else {
      AfterLoss(id);
    }
  }
  ahead.SetRoundTrip(e.node, Duration(0));
  LoseFilesOf(e.node);
  LoseWrittenAt(e.node);
  AcquitTasksOf(e.node);
}

void Scheduler::Impl::On(const NodeClosed& e) {
  if (nodes.Open(e.node)) CloseNode(e.node);
}

void Scheduler::Impl::On(const NodeDrained& e) {
  if (!nodes.Joined(e.node)) return;
  On(NodeClosed{e.node});
  SendAwayFrom(e.node);
}

void Scheduler::Impl::On(const CheckpointMissed& e) {
  const TaskId id = e.attempt.task;
  if (tasks.Has(id) && tasks.IsAt(e.attempt, tasks[id].node())) checkpoints.Miss(id);
}

void Scheduler::Impl::On(const FileStored& e) {
  if (e.file.value >= graph.file_count()) return;
  replicas.Grow();
  if (e.bytes >= 0) replicas.SetSize(e.file, e.bytes);
  NoteStored(e);
}

void Scheduler::Impl::On(const FileLost& e) {
  if (e.file.value >= graph.file_count()) return;
  replicas.Grow();
  NoteNotThere(e.file, e.node);
}

void Scheduler::Impl::On(const CopyFailed& e) {
  // What has a slot there needs the room more.
  if (e.why == CopyFailed::Why::kNoRoom && nodes.Joined(e.to) && !IsBackup(e.file, e.to)) RecallAhead(e.to);
  NoteFailed(e);
  PutAsideCutOff();
}

void Scheduler::Impl::On(const CancelRequested& e) {
  if (tasks.Has(e.task)) Cancel(e.task);
}

void Scheduler::Impl::On(const RoundTripMeasured& e) {
  if (!nodes.Joined(e.node)) return;
  ahead.SetRoundTrip(e.node, e.round_trip);
  nodes.Touch(e.node);
}

void Scheduler::Impl::On(const EndTimeKnown& e) {
  end_ = e.end;
  BarLanes();
}

std::string Scheduler::Impl::FindBroken() const {
  std::string broken = Parts::FindBroken(stopped());
  if (broken.empty()) broken = FindBrokenSupply();
  if (broken.empty()) broken = FindBrokenStreams();
  if (broken.empty() && !stopped() && !over()) broken = FindForgottenBackup();
  return broken.empty() && !tell_complete_ && !over() ? "said to be complete" : broken;
}

Scheduler::Scheduler(const graph::Graph& graph, const Options& options, order::Draws* draws)
    : impl_(std::make_unique<Impl>(graph, options, draws)) {}
Scheduler::~Scheduler() = default;

void Scheduler::Handle(Time now, const Event& event, std::vector<Action>* actions) {
  impl_->Handle(now, {&event, 1}, actions);
}
void Scheduler::HandleAll(Time now, const std::vector<Event>& events, std::vector<Action>* actions) {
  impl_->Handle(now, events, actions);
}
void Scheduler::PrefetchEnd(TaskId task, int step) const {
  impl_->PrefetchEnd(task, step);
}
TaskState Scheduler::state(TaskId task) const {
  return impl_->parts().tasks.state(task);
}
uint32_t Scheduler::attempts(TaskId task) const {
  const TaskTable& tasks = impl_->parts().tasks;
  return tasks.Has(task) ? tasks[task].attempts() : 0;
}
bool Scheduler::MayAdopt(AttemptId attempt) const {
  const TaskTable& tasks = impl_->parts().tasks;
  return tasks.Has(attempt.task) && tasks.MayAdopt(attempt);
}
uint32_t Scheduler::counted_attempts(TaskId task) const {
  const TaskTable& tasks = impl_->parts().tasks;
  return tasks.Has(task) ? static_cast<uint32_t>(std::max<int64_t>(0, tasks.failures(task) + tasks[task].losses())) : 0;
}
bool Scheduler::IsMoving(TaskId task) const {
  return impl_->parts().checkpoints.move(task).has_value();
}
uint32_t Scheduler::losses(TaskId task) const {
  const TaskTable& tasks = impl_->parts().tasks;
  return tasks.Has(task) ? tasks[task].losses() : 0;
}
NodeId Scheduler::node(TaskId task) const {
  const TaskTable& tasks = impl_->parts().tasks;
  return tasks.Has(task) ? tasks[task].node() : NodeId();
}
std::optional<double> Scheduler::best() const {
  return impl_->parts().bounds.best();
}
std::optional<double> Scheduler::LeastBound() const {
  return impl_->LeastBound();
}
const Counts& Scheduler::counts() const {
  return impl_->parts().tasks.counts();
}
Explanation Scheduler::Explain(TaskId task) const {
  return core::Explain(impl_->parts(), task);
}
bool Scheduler::HasEnded(StreamId stream) const {
  return impl_->HasEnded(stream);
}
std::vector<ReadyKind> Scheduler::ReadyKinds() const {
  return core::ReadyKinds(impl_->parts());
}

std::vector<ShapeQueue> Scheduler::QueuesByShape() const {
  return core::QueuesByShape(impl_->parts());
}
std::vector<Checkpointer> Scheduler::Checkpointers() const {
  return core::Checkpointers(impl_->parts());
}
std::vector<TaskId> Scheduler::LastInOrder(const Shape& shape, uint64_t count, uint64_t keep) const {
  return core::LastInOrder(impl_->parts(), shape, count, keep);
}
std::vector<TaskId> Scheduler::ShareOf(double part) {
  return impl_->ShareOf(part);
}
std::optional<std::vector<cost::Work>> Scheduler::WorkByKind() const {
  const Placing& placing = impl_->parts().placing;
  return placing.on() ? placing.work_by_kind() : std::nullopt;
}
uint64_t Scheduler::ModelledOfOthers() const {
  const Parts& parts = impl_->parts();
  uint64_t count = 0;
  for (uint32_t n = 0; n < parts.tasks.size() && parts.placing.on(); ++n) {
    if (parts.tasks.state(TaskId(n)) == TaskState::kElsewhere && parts.placing.models(TaskId(n))) ++count;
  }
  return count;
}
FileId Scheduler::HeldAs(FileId file) const {
  return impl_->parts().replicas.Held(file);
}
std::vector<NodeId> Scheduler::HoldersOf(FileId file) const {
  return impl_->parts().replicas.Holders(file);
}
bool Scheduler::IsRemaking(TaskId task) const {
  return impl_->parts().tasks.remaking(task);
}
bool Scheduler::IsAsking(TaskId task) const {
  return impl_->parts().tasks.asking(task);
}
bool Scheduler::IsWanted(FileId file) const {
  return impl_->IsWantedFile(file);
}
bool Scheduler::CanRun(TaskId task) const {
  return impl_->CanRunHere(task);
}
bool Scheduler::IsShared(FileId file) const {
  return impl_->IsSharedFile(file);
}
size_t Scheduler::MemoryWithoutText() const {
  return impl_->parts().memory();
}

void Scheduler::SanityCheck() const {
  // Nothing is meant to catch it: an exception that leaves the lambda ends the process with this text.
  [this]() noexcept {
    if (const std::string broken = impl_->FindBroken(); !broken.empty()) Raise("scheduler: " + broken);
  }();
}

}  // namespace harrow::core
