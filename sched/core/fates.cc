#include "core/fates.h"

#include <algorithm>
#include <utility>

namespace harrow::core {
namespace {

FinalState FinalOf(TaskState settled) {
  constexpr int kFirst = static_cast<int>(TaskState::kDone);
  static_assert(static_cast<int>(FinalState::kFailed) == static_cast<int>(TaskState::kFailed) - kFirst);
  static_assert(static_cast<int>(FinalState::kSkipped) == static_cast<int>(TaskState::kSkipped) - kFirst);
  static_assert(static_cast<int>(FinalState::kCancelled) == static_cast<int>(TaskState::kCancelled) - kFirst);
  static_assert(static_cast<int>(FinalState::kPruned) == static_cast<int>(TaskState::kPruned) - kFirst);
  return static_cast<FinalState>(static_cast<int>(settled) - kFirst);
}

/// Open for the run that resumes this one: what waits for its end waits for that end.
bool StaysOpen(Reason reason) {
  return reason == Reason::kInterrupted || reason == Reason::kNoTimeLeft || reason == Reason::kNodesGone;
}

}  // namespace

void Fates::CountWaits(TaskId id) {
  uint32_t waits = tasks.waits_besides(id);
  for (TaskId before : graph.predecessors(id)) {
    if (!tasks.KeepsWaiting(graph, before, id)) continue;
    ++waits;
    // One that asks may find what it would make.
    if (tasks.state(before) > TaskState::kDone && !tasks.asking(id)) skip_roots_.push_back(before);
  }
  tasks.SetWaits(id, waits);
}

void Fates::AddPredecessor(TaskId id) {
  CountWaits(id);
  Unqueue(id);
}

void Fates::EndDelays() {
  if (tasks.next_due() == Time::max()) return;
  for (TaskId id : tasks.EndDelays(now)) {
    if (verdicts.Has(id)) {
      EndWait(id);
      continue;
    }
    checkpoints.Forget(id);
    NoteReady(id, NodeId());
  }
}

void Fates::TellWake() {
  const Time of_suspects = tasks.unsettled() > 0 ? suspects.next() : Time::max();
  const Time next =
      std::min({tasks.next_due(), of_suspects, gangs.again(), next_look(), ask_at_, ahead.again()});
  if (next != Time::max()) actions->push_back(WakeAt{next});
}

void Fates::MarkDone(TaskId id, NodeId released_at) {
  if (checkpoints.any_move()) checkpoints.Forget(id);
  tasks.Settle(id, TaskState::kDone);
  DropReads(id);
  for (TaskId after : graph.successors(id)) {
    // What waits for a beginning only, streaming.cc counts.
    if (tasks.Has(after) && !graph.StartSuffices(id, after) && tasks.WaitForOneLess(after))
      NoteReady(after, released_at);
  }
}

void Fates::RemakeLost() {
  while (!lost.empty()) {
    const FileId file = lost.back();
    lost.pop_back();
    Remake(file);
  }
  recalled_for_.clear();
}

void Fates::Remake(FileId file) {
  const TaskId producer = graph.producer(file);
  if (!producer) return;
  const bool done = tasks.state(producer) == TaskState::kDone;
  if (!done && !tasks.remaking(producer)) return;
  if (!IsLost(file)) {
    // Found again in the same instant: a new agent has what the one before it held. Copies from that one are
    // on their way no more.
    for (TaskId after : graph.successors(producer)) {
      if (!tasks.Has(after)) continue;
      const TaskState state = tasks[after].state();
      if (state == TaskState::kSent || state == TaskState::kAhead) OrderInputs(after, tasks[after].node());
    }
    return;
  }
  if (recalled_for_.insert(producer).second) RecallReaders(producer);
  if (!done || stopped_ || !IsReadHere(file)) return;
  if (!options.ask_others) return RemakeAll(producer);
  Reopen(producer);
  tasks.SetAsking(producer, true);
  CountWaits(producer);
  actions->push_back(AskOthers{producer});
}

/// Those that wait at their nodes for files of it that are lost.
void Fates::RecallReaders(TaskId producer) {
  for (TaskId after : graph.successors(producer)) {
    // What runs has them.
    if (!tasks.Has(after) || !tasks[after].in_flight() || tasks[after].state() == TaskState::kRunning) continue;
    bool lacks = false;
    for (FileId input : graph.inputs(after)) {
      const FileId file = replicas.Held(input);
      lacks |= graph.producer(file) == producer && IsLost(file);
    }
    if (lacks) RecallSent(after);
  }
}

void Fates::RemakeAll(TaskId producer) {
  Reopen(producer);
  MakeAgain(producer);
}

/// Of one that is reopened.
void Fates::MakeAgain(TaskId id) {
  if (++remakes_[id] > options.max_losses) {
    Fail(id, Reason::kLostTooOften);
    return;  // those in flight that need it find out when they end, or are taken back
  }
  tasks.ForgiveRemake(id);
  if (remakes_may_be_out && remakes_[id] == 1) tasks.NoteUnheard(id);
  CountWaits(id);
  if (tasks[id].waits() == 0) NoteReady(id, NodeId());
  MayHaveInputs(id);  // or they are lost, too
  NoteCapacity();     // it may fit no node here
}

/// It is not done any more, and what it waits for is to be counted.
void Fates::Reopen(TaskId id) {
  tasks.Reopen(id);
  AddReads(id);
  for (TaskId after : graph.successors(id)) {
    if (!tasks.Has(after) || tasks[after].settled()) continue;
    if (graph.has_streams(after)) {
      AddPredecessor(after);
    } else if (tasks.KeepsWaiting(graph, id, after)) {
      // Counted anew, one with many inputs would be looked through for each of them.
      tasks.SetWaits(after, tasks[after].waits() + 1);
      Unqueue(after);
    }
  }
}

/// Of what it is to make again nothing is missing that somebody here reads, or has asked for.
bool Fates::NothingLacks(TaskId id) const {
  const auto outputs = graph.outputs(id);
  return std::none_of(outputs.begin(), outputs.end(), [&](FileId file) { return Lacks(file) && IsReadHere(file); });
}

/// By a task that is open and this scheduler's, or by others who wait for it. Of one that asks it is not known yet whether it reads anything more.
bool Fates::IsReadHere(FileId file) const {
  if (IsWantedElsewhere(file)) return true;
  const auto successors = graph.successors(graph.producer(file));
  return std::any_of(successors.begin(), successors.end(), [&](TaskId after) {
    if (!tasks.Has(after) || tasks[after].settled() || tasks.asking(after)) return false;
    const TaskState state = tasks.state(after);
    return state != TaskState::kElsewhere && state != TaskState::kRunning && ReadsInput(after, file);
  });
}

void Fates::NoteFound(const FilesFound& found) {
  if (!options.local_files || !tasks.Has(found.task)) return;
  const TaskState state = tasks.state(found.task);
  // One that makes it again may end any moment.
  if (IsInFlight(state) || (state != TaskState::kDone && !tasks.remaking(found.task))) return;
  TakeFound(found);
  // Who waits at its node for what will not come begins without.
  for (TaskId after : found.absent.empty() ? std::span<const TaskId>() : graph.successors(found.task)) {
    if (!tasks.Has(after) || (tasks.state(after) != TaskState::kSent && tasks.state(after) != TaskState::kAhead)) continue;
    if (std::any_of(found.absent.begin(), found.absent.end(), [&](FileId file) { return ReadsInput(after, file); })) RecallSent(after);
  }
  if (state == TaskState::kDone) return;
  if (NothingLacks(found.task)) {
    verdicts.Forget(found.task);
    RestoreFate(found.task, TaskRestored::As::kDone);
  } else {
    NoteNotFound(found.task);
  }
}

void Fates::NoteNotFound(TaskId id) {
  if (!tasks.Has(id) || !tasks.asking(id)) return;
  if (NothingLacks(id)) return RestoreFate(id, TaskRestored::As::kDone);  // who read it has gone
  tasks.SetAsking(id, false);
  MakeAgain(id);
}

void Fates::ReleaseThoseThatOnlyWait(TaskId id) {
  for (TaskId after : graph.successors(id)) {
    if (tasks.Has(after) && graph.OnlyWaits(id, after) && tasks.WaitForOneLess(after))
      NoteReady(after, NodeId());
  }
}

void Fates::Settle(TaskId id, TaskState state, Reason reason, TaskId because) {
  Unqueue(id);
  verdicts.Forget(id);
  if (placing.on()) placing.Leaves(id);
  if (checkpoints.any_move()) checkpoints.Forget(id);
  tasks.Settle(id, state);
  ReleaseThoseThatOnlyWait(id);
  actions->push_back(TaskSettled{id, FinalOf(state), because, reason});
}

void Fates::GiveUp(TaskId id, TaskState state, Reason reason, TaskId because) {
  Settle(id, state, reason, because);
  SkipDependents(id, StaysOpen(reason));
}

/// Each once, with the first cause. What needs a pruned task is pruned. `root_stays_open`: those that only wait for the end of a task, too.
void Fates::SkipDependents(TaskId root, bool root_stays_open) {
  const TaskState as = tasks.state(root) == TaskState::kPruned ? TaskState::kPruned : TaskState::kSkipped;
  skip_stack_.push_back(root);
  while (!skip_stack_.empty()) {
    const TaskId id = skip_stack_.back();
    skip_stack_.pop_back();
    for (TaskId after : graph.successors(id)) {
      if (!tasks.Has(after) || tasks.state(after) > TaskState::kReady || tasks.asking(after)) continue;
      if (!root_stays_open && graph.OnlyWaits(id, after)) continue;
      Settle(after, as, Reason::kDependency, root);
      skip_stack_.push_back(after);
    }
  }
}

void Fates::Fail(TaskId id, Reason reason) {
  GiveUp(id, TaskState::kFailed, reason);
  CountFailure(id);
}

/// No node there is, or is expected, can give what it asks for.
void Fates::GiveUpImpossible(TaskId id) {
  if (verdicts.Has(id)) {
    Fail(id, Reason::kNone);  // as it did
  } else if (lanes.gone(tasks[id].lane()) || lanes.gone(lanes.Of(graph, id))) {
    GiveUp(id, TaskState::kSkipped, Reason::kNodesGone);
  } else {
    Fail(id, Reason::kNoNodeFits);
  }
}

/// Nodes that are there or expected can give what it asks for; if need be its ranks are spread over several.
/// It has no node, and what nodes can give is known.
bool Fates::MayFit(TaskId id) {
  if (!lanes.impossible(tasks[id].lane())) return true;
  const order::LaneId spread = lanes.Of(graph, id);
  if (lanes.impossible(spread)) return false;
  const bool was_ready = tasks[id].state() == TaskState::kReady;
  if (was_ready) Unqueue(id);
  tasks.SetLane(id, spread);
  if (was_ready) NoteReady(id, NodeId());
  return true;
}

void Fates::TryAgain(TaskId id, Duration delay) {
  if (tasks[id].cancelled()) {
    GiveUp(id, TaskState::kCancelled, Reason::kNone);
  } else if (stopped_) {
    GiveUp(id, TaskState::kSkipped, Reason::kStopped, stopped_by_);
  } else if (Pointless(id)) {
    GiveUp(id, TaskState::kPruned, Reason::kPointless);
  } else if (!MayFit(id)) {
    GiveUpImpossible(id);
  } else {
    tasks.MakeWaiting(id);
    if (tasks[id].waits() > 0) {
      CountWaits(id);  // it got a predecessor while in flight, which may have failed since
    } else if (delay > Duration(0)) {
      tasks.Delay(id, now + delay);
    } else {
      NoteReady(id, NodeId());
    }
  }
}

/// Losses that follow one another are spaced (0, 1, 2, 4 s ...): what goes wrong for some seconds, an agent
/// that does not get up at once, or two that take each other's place, does not use up all that a task has.
void Fates::AfterLoss(TaskId id) {
  tasks.CountLoss(id);
  const uint32_t losses = tasks[id].losses();
  if (losses >= std::min<uint32_t>(options.max_losses, UINT8_MAX) && !tasks[id].cancelled()) {
    Fail(id, Reason::kLostTooOften);
    return;
  }
  constexpr int kLongest = 5;  // as a power of two
  const int further = std::min(static_cast<int>(losses) - 2, kLongest);
  TryAgain(id, std::max(Held(id), further < 0 ? Duration(0) : Duration(std::chrono::seconds(1 << further))));
}

void Fates::AfterLossAhead(TaskId id) {
  tasks.CountLossAhead(id);
  ToOldPlace(id);
}

void Fates::AfterReturn(TaskId id) {
  tasks.DropAttempt(id);
  ToOldPlace(id);
}

/// What was sent and has not begun goes to its old place in the queues.
void Fates::ToOldPlace(TaskId id) {
  if (tasks[id].cancelled() || stopped_ || Pointless(id) || tasks[id].waits() > 0 || !MayFit(id) ||
      Held(id) > Duration(0)) {
    TryAgain(id, Held(id));
    return;
  }
  tasks.MakeWaiting(id);
  NoteReturned(id);
}

void Fates::AfterFailure(TaskId id, const Failed& failed, NodeId node, bool elsewhere, bool forgiven) {
  const int32_t own = graph.profile(id).retries;
  const int64_t retries = std::min<int64_t>(own >= 0 ? own : options.retries, UINT16_MAX - UINT8_MAX - 1);
  if (forgiven && retries > 0) tasks.ForgiveFailure(id);
  if (tasks[id].cancelled() || (failed.retryable && tasks.failures(id) <= retries && !stopped_)) {
    const Duration own_delay = graph.profile(id).retry_delay;
    const Duration delay = own_delay < Duration(0) ? options.retry_delay : own_delay;
    TryAgain(id, elsewhere ? std::max(delay, options.bad_node_time) : delay);
  } else if (failed.retryable && !stopped_ && nodes[node].blamed() && verdicts.MayAcquit(id)) {
    Acquit(id);
  } else if (elsewhere && MayWaitForVerdict(id, failed)) {
    const Time until = now + 2 * options.bad_node_time;
    if (checkpoints.any_move()) checkpoints.Forget(id);
    verdicts.Add(id, node, until);
    tasks.MakeWaiting(id);
    tasks.Delay(id, until);
  } else {
    Fail(id, Reason::kNone);
  }
}

/// A server that takes over from one that died does not know of these: it tries them again. Where so many
/// failures end the run, they are not waited for.
bool Fates::MayWaitForVerdict(TaskId id, const Failed& failed) {
  if (!failed.retryable || stopped_ || options.fail_fast || tasks[id].waits() > 0 || Pointless(id)) return false;
  if (!verdicts.MayAcquit(id)) return false;
  if (options.max_failures == 0 || tasks.counts().failed + verdicts.size() + 1 < options.max_failures) return true;
  FailAll(verdicts.All());
  return false;
}

void Fates::EndWait(TaskId id) {
  const NodeId node = verdicts.node(id);
  // What ends a suspect's row is told when it does; this only finds it closed.
  const Time until = suspects.Has(node) ? now + 10 * options.bad_node_time : verdicts.until(node);
  if (nodes[node].access() == Node::Access::kSilent) {
    tasks.Delay(id, now + options.bad_node_time);  // it comes back, or is lost
  } else if (until > now) {
    tasks.Delay(id, until);
  } else {
    Fail(id, Reason::kNone);
  }
}

void Fates::FailAll(const std::vector<TaskId>& ids) {
  for (TaskId id : ids) {
    if (verdicts.Has(id)) Fail(id, Reason::kNone);  // the failure before may have ended the run, and them
  }
}

void Fates::Acquit(TaskId id) {
  verdicts.Acquit(id);
  tasks.ForgiveFailure(id);
  TryAgain(id);
}

void Fates::AcquitTasksOf(NodeId node) {
  for (TaskId id : verdicts.Of(node)) {
    Unqueue(id);
    Acquit(id);
  }
}

/// A suspect whose pause is over and that is given nothing then has nothing to show, even where others are ready.
bool Fates::GiveLastVerdicts() {
  if (!verdicts.any() || OthersDelayed()) return false;
  const bool none_ready = tasks.counts().ready == 0;
  if (!none_ready && (!suspects.any() || tasks.in_flight() > 0)) return false;
  const std::vector<TaskId> last = verdicts.OfThose([&](NodeId node) {
    if (!nodes[node].in_flight().empty()) return false;
    if (suspects.Has(node)) return tasks.in_flight() == 0 && (none_ready || !suspects.Waits(node));
    return none_ready;
  });
  FailAll(last);
  return !last.empty();
}

bool Fates::AfterNoRoom(TaskId id, NodeId node, int64_t bytes, Duration run_time) {
  constexpr uint32_t kMostTimes = 5;
  constexpr Duration kOnItsWay = std::chrono::milliseconds(500);  // shorter than the first pause
  if (!options.local_files || bytes <= 0 || tasks[id].cancelled() || stopped_) return false;
  uint32_t& times = waits_for_room_[id];
  if (times >= kMostTimes) return false;
  // What was dropped while it ran may have been there still when it ended.
  const bool dropped =
      nodes.Joined(node) && (MakeRoomFor(bytes, node) > 0 || DroppedWithin(node, run_time + kOnItsWay));
  if (!dropped && !PlaceElsewhere(id, node) && !MayGetRoom(id)) return false;
  tasks.ForgiveFailure(id);
  TryAgain(id, std::chrono::seconds(1 << times++));
  return true;
}

void Fates::CountFailure(TaskId id) {
  const uint64_t limit = options.fail_fast ? 1 : options.max_failures;
  if (limit == 0 || stopped_) return;
  if (tasks.counts().failed < limit) {
    if (tasks.counts().failed + verdicts.size() >= limit && !std::exchange(enough_failed_, true))
      FailAll(verdicts.All());
    return;
  }
  Stop(id);
  if (!options.fail_fast) return;
  for (uint32_t n = 0; n < tasks.size(); ++n) {
    if (tasks[TaskId(n)].in_flight()) Cancel(TaskId(n));
  }
}

bool Fates::NoteFailureAt(NodeId id, TaskId task, Duration run_time) {
  if (options.bad_node_failures == 0 || run_time > options.bad_node_time) {
    EndRow(id);
    return false;
  }
  const bool only_here = nodes.CountFailure(id, tasks.counts().done, !verdicts.acquitted(task));
  if (!nodes[id].open()) return false;
  if (nodes.open_nodes() <= 1 && nodes_known) return false;
  verdicts.Extend(id, now + 2 * options.bad_node_time);
  // Tasks for which a node has been put aside already may be to blame themselves: they alone do not put aside another.
  if (nodes[id].failures() < options.bad_node_failures || 2 * nodes[id].fresh_failures() < options.bad_node_failures) return true;
  if (only_here && nodes.open_nodes() > 1) {
    PutAside(id);
    return true;
  }
  if (suspects.Has(id)) return true;
  suspects.Add(id, now);
  RecallAhead(id);
  nodes.Touch(id);
  if (!AllSuspect()) return true;
  ClearSuspects();
  return false;
}

void Fates::PutAside(NodeId id) {
  actions->push_back(NodePutAside{.node = id, .failures = nodes[id].failures()});
  CloseNode(id);
  nodes.Blame(id);
  AcquitTasksOf(id);
}

void Fates::PutAsideCutOff() {
  for (NodeId id : std::exchange(cut_off, {})) {
    if (!nodes[id].open() || nodes.open_nodes() <= 1) continue;
    actions->push_back(NodePutAside{.node = id, .cut_off = true});
    CloseNode(id);
    NoteCutOff(id);
    // What waits there for files may do so for ever.
    for (TaskId task : nodes[id].in_flight()) {
      if (tasks[task].state() == TaskState::kSent && !HasInputs(task, id)) RecallSent(task);
    }
  }
}

void Fates::EndRow(NodeId id) {
  nodes.EndRow(id);
  if (verdicts.any()) FailAll(verdicts.Of(id));
  if (!suspects.Has(id)) return;
  suspects.Forget(id);
  nodes.NoteRoom();
  nodes.Touch(id);
  gangs.Look();
}

void Fates::ClearSuspects() {
  for (NodeId id : suspects.All()) EndRow(id);
}

void Fates::NoteDoneAt(NodeId id) {
  EndRow(id);
  if (!suspects.any()) return;
  for (NodeId suspect : suspects.All()) {
    if (nodes.open_nodes() > 1) PutAside(suspect);
  }
}

void Fates::LookAtSuspects() {
  if (!suspects.any()) return;
  for (NodeId id : suspects.EndPauses(now)) {
    // What has run since the pause began has not failed at once.
    if (!nodes[id].in_flight().empty()) {
      EndRow(id);
    } else {
      nodes.NoteRoom();
      nodes.Touch(id);
      gangs.Look();
    }
  }
  if (AllSuspect()) ClearSuspects();
}

void Fates::RestoreFate(TaskId id, TaskRestored::As as) {
  Unqueue(id);
  if (placing.on()) placing.Leaves(id);
  if (as == TaskRestored::As::kDone) {
    MarkDone(id, NodeId());
    return;
  }
  tasks.Settle(id, as == TaskRestored::As::kFailed      ? TaskState::kFailed
                   : as == TaskRestored::As::kCancelled ? TaskState::kCancelled
                   : as == TaskRestored::As::kPruned    ? TaskState::kPruned
                                                        : TaskState::kSkipped);
  ReleaseThoseThatOnlyWait(id);
  skip_roots_.push_back(id);
  if (as == TaskRestored::As::kFailed) restored_failures_.push_back(id);
}

void Fates::Cancel(TaskId id) {
  const Task& task = tasks[id];
  if (task.settled() || task.state() == TaskState::kElsewhere) return;
  if (!task.in_flight()) {
    GiveUp(id, TaskState::kCancelled, Reason::kNone);
    return;
  }
  if (task.cancelled()) return;
  tasks.SetCancelled(id);
  if (task.ahead()) {
    Recall(id);
  } else {
    actions->push_back(CancelOf(id));
  }
}

void Fates::PruneNewcomers() {
  for (TaskId id : std::exchange(newcomers_, {})) {
    if (tasks.state(id) >= TaskState::kElsewhere) continue;
    if (tasks.state(id) <= TaskState::kReady && Pointless(id)) {
      GiveUp(id, TaskState::kPruned, Reason::kPointless);
    } else {
      bounds.Add(id, graph.bound(id));
    }
  }
}

/// What runs goes on. What was sent ahead is asked back, and pruned when it comes.
void Fates::LearnBest(double value) {
  if (!bounds.Improve(value)) return;
  for (TaskId id : bounds.TakePointless()) {
    const TaskState state = tasks.state(id);
    if (state <= TaskState::kReady && Pointless(id)) {
      GiveUp(id, TaskState::kPruned, Reason::kPointless);
    } else if (state == TaskState::kAhead) {
      Recall(id);
    }
  }
}

void Fates::Stop(TaskId because) {
  if (stopped_) return;
  stopped_ = true;
  FailAll(verdicts.All());
  stopped_by_ = because;
  for (uint32_t n = 0; n < tasks.size(); ++n) {
    if (tasks[TaskId(n)].state() <= TaskState::kReady)
      Settle(TaskId(n), TaskState::kSkipped, Reason::kStopped, because);
  }
  for (uint32_t n = 0; n < nodes.size(); ++n) RecallAhead(NodeId(n));
}

void Fates::ExpectNoMoreNodes() {
  nodes_known = true;
  nodes.ExpectNoMore();
  NoteCapacity();
}

void Fates::CloseNode(NodeId id) {
  Shut(id, Node::Access::kClosed);
  RecallAhead(id);
  NoteCapacity();
}

void Fates::SettleDependents() {
  for (TaskId root : std::exchange(skip_roots_, {})) SkipDependents(root, false);
  // Once all is restored: the server that knew of these failures may not have come to stop.
  for (TaskId failed : std::exchange(restored_failures_, {})) CountFailure(failed);
}

/// Tasks that ask for what no node has. A node that was lost counts until all that are expected are said to
/// be there; from then on the tasks are not failed, as another run may have it again.
bool Fates::SettleImpossible() {
  const bool changed = std::exchange(capacity_changed_, false);
  if (!changed || !nodes_known) return false;
  if (others_there) {
    FailImpossibleRemakes();
    return true;
  }
  if (!lanes.FindImpossible(nodes)) return false;
  if (!options.local_files) lanes.Spread(graph, nodes);
  for (uint32_t n = 0; n < tasks.size() && !stopped_; ++n) {
    if (tasks[TaskId(n)].state() <= TaskState::kReady && !tasks.asking(TaskId(n)) && !MayFit(TaskId(n))) GiveUpImpossible(TaskId(n));
  }
  return true;
}

/// Other tasks may go to others. What is to make files again does not, and these have been asked.
void Fates::FailImpossibleRemakes() {
  for (TaskId id : tasks.Remaking()) {
    if (stopped_ || tasks.state(id) > TaskState::kReady || tasks.asking(id) || CanRunHere(id)) continue;
    Fail(id, Reason::kNoNodeFits);
  }
}

void Fates::SkipWithoutTime() {
  if (!lanes.timed() || tasks.counts().ready == 0 || tasks.in_flight() > 0) return;
  uint64_t barred = 0;
  for (order::LaneId lane = 0; lane < lanes.size(); ++lane)
    barred += lanes.barred(lane) ? queues.ready(lane) : 0;
  if (barred < tasks.counts().ready) return;
  for (uint32_t n = 0; n < tasks.size(); ++n) {
    if (tasks[TaskId(n)].state() == TaskState::kReady)
      GiveUp(TaskId(n), TaskState::kSkipped, Reason::kNoTimeLeft);
  }
}

}  // namespace harrow::core
