// What becomes of tasks: attempts that begin and end, retries, cancelling, skipping what cannot run any more.
//
// Messages from agents come late, twice, or from an agent that was given up. An event counts when that
// attempt is in flight at that node. One that does not fit is adopted, running or ended, where it tells of
// work that this scheduler did not ask for (it was restarted) or believed lost (it had given the node up),
// and nothing of the task was started since. An attempt that an agent runs although its task is settled, or
// in flight elsewhere, is ended there.

#include <algorithm>

#include "core/impl.h"

namespace harrow::core {
namespace {

/// By state.
constexpr uint64_t Counts::*kCountOf[] = {&Counts::waiting, &Counts::ready,   &Counts::sent,
                                          &Counts::sent,    &Counts::running, &Counts::done,
                                          &Counts::failed,  &Counts::skipped, &Counts::cancelled};

FinalState FinalOf(TaskState state) {
  switch (state) {
    case TaskState::kDone:
      return FinalState::kDone;
    case TaskState::kFailed:
      return FinalState::kFailed;
    case TaskState::kCancelled:
      return FinalState::kCancelled;
    default:
      return FinalState::kSkipped;
  }
}

}  // namespace

void Scheduler::Impl::SetState(Task& task, TaskState state) {
  --(counts.*kCountOf[static_cast<size_t>(task.state())]);
  ++(counts.*kCountOf[static_cast<size_t>(state)]);
  task.card.of_owner = static_cast<uint8_t>(state);
}

/// Also for tasks restored. `released_at`: where it ended, so that what it makes ready can be started there.
void Scheduler::Impl::MarkDone(TaskId id, NodeId released_at) {
  SetState(tasks[id.value], TaskState::kDone);
  for (TaskId after : graph.successors(id)) {
    if (after.value >= tasks.size()) continue;
    Task& task = tasks[after.value];
    if (--task.waits == 0 && task.state() == TaskState::kWaiting) {
      newly_ready.push_back(uint64_t{after.value} << 32 | released_at.value);
    }
  }
}

void Scheduler::Impl::Settle(TaskId id, TaskState state, Reason reason, TaskId because) {
  Task& task = tasks[id.value];
  Unqueue(id);
  SetState(task, state);
  actions->push_back(TaskSettled{id, FinalOf(state), because, reason});
}

/// All that waits for a task that will not be done; each once, with the first cause.
void Scheduler::Impl::SkipDependents(TaskId root) {
  skip_stack.push_back(root);
  while (!skip_stack.empty()) {
    const TaskId id = skip_stack.back();
    skip_stack.pop_back();
    for (TaskId after : graph.successors(id)) {
      if (after.value >= tasks.size()) continue;
      const TaskState state = tasks[after.value].state();
      if (state != TaskState::kWaiting && state != TaskState::kReady) continue;
      Settle(after, TaskState::kSkipped, Reason::kDependency, root);
      skip_stack.push_back(after);
    }
  }
}

/// No node there is, or is expected, can give what it asks for.
void Scheduler::Impl::SettleImpossible(TaskId id) {
  if (lane_states[tasks[id.value].card.lane].gone) {
    Settle(id, TaskState::kSkipped, Reason::kNodesGone, TaskId());
    SkipDependents(id);
    return;
  }
  Settle(id, TaskState::kFailed, Reason::kNoNodeFits, TaskId());
  SkipDependents(id);
  CountFailure(id);
}

/// In flight no longer, and to be tried again, `delay` from now.
void Scheduler::Impl::Retry(TaskId id, Duration delay) {
  Task& task = tasks[id.value];
  if (task.has(Task::kCancel)) {
    Settle(id, TaskState::kCancelled, Reason::kNone, TaskId());
    SkipDependents(id);
  } else if (stopped) {
    Settle(id, TaskState::kSkipped, Reason::kStopped, stopped_by);
    SkipDependents(id);
  } else if (lane_states[task.card.lane].impossible) {
    SettleImpossible(id);
  } else {
    SetState(task, TaskState::kWaiting);
    if (task.waits > 0) {
      CountWaits(id);  // it got a predecessor while in flight, which may have failed since
    } else if (delay > Duration(0)) {
      delayed[id.value] = now + delay;
    } else {
      newly_ready.push_back(uint64_t{id.value} << 32 | NodeId::kNone);
    }
  }
}

void Scheduler::Impl::EndDelays() {
  for (auto it = delayed.begin(); it != delayed.end();) {
    if (it->second > now) {
      ++it;
      continue;
    }
    newly_ready.push_back(uint64_t{it->first} << 32 | NodeId::kNone);
    it = delayed.erase(it);
  }
  told_wake = Time::max();
}

/// Losses that follow one another are spaced (0, 1, 2, 4 s ...): what goes wrong for some seconds, an agent
/// that does not get up at once, or two that take each other's place, does not use up all that a task has.
void Scheduler::Impl::AfterLoss(TaskId id) {
  Task& task = tasks[id.value];
  ++counts.losses;
  if (task.losses < UINT8_MAX) ++task.losses;
  if (task.losses < std::min<uint32_t>(options.max_losses, UINT8_MAX) || task.has(Task::kCancel)) {
    constexpr int kLongest = 5;  // as a power of two
    const int further = std::min(int{task.losses} - 2, kLongest);
    Retry(id, further < 0 ? Duration(0) : Duration(std::chrono::seconds(1 << further)));
    return;
  }
  Settle(id, TaskState::kFailed, Reason::kLostTooOften, TaskId());
  SkipDependents(id);
  CountFailure(id);
}

/// It was sent ahead to a node that is lost: not known to have begun there, nor that it has not.
void Scheduler::Impl::LostAhead(TaskId id) {
  ++uncounted[id.value];
  lost_ahead.insert(id.value);
  ToOldPlace(id);
}

void Scheduler::Impl::AfterFailure(TaskId id, const Failed& failed) {
  Task& task = tasks[id.value];
  const int32_t own = ProfileOf(id).retries;
  const int64_t retries = std::min<int64_t>(own >= 0 ? own : options.retries, UINT16_MAX - UINT8_MAX - 1);
  const auto earlier = uncounted.find(id.value);
  const int64_t failures =
      int64_t{task.attempts} - task.losses - (earlier == uncounted.end() ? 0 : earlier->second);
  if (task.has(Task::kCancel) || (failed.retryable && failures <= retries && !stopped)) {
    Retry(id);
    return;
  }
  Settle(id, TaskState::kFailed, Reason::kNone, TaskId());
  SkipDependents(id);
  CountFailure(id);
}

void Scheduler::Impl::CountFailure(TaskId id) {
  const uint64_t limit = options.fail_fast ? 1 : options.max_failures;
  if (limit == 0 || counts.failed < limit || stopped) return;
  Stop(id);
  if (!options.fail_fast) return;
  for (uint32_t n = 0; n < tasks.size(); ++n) {
    if (tasks[n].in_flight()) Cancel(TaskId(n));
  }
}

/// Starts nothing more: what was not begun is skipped, what was sent ahead is asked back.
void Scheduler::Impl::Stop(TaskId because) {
  if (stopped) return;
  stopped = true;
  stopped_by = because;
  for (uint32_t n = 0; n < tasks.size(); ++n) {
    const TaskState state = tasks[n].state();
    if (state == TaskState::kWaiting || state == TaskState::kReady) {
      Settle(TaskId(n), TaskState::kSkipped, Reason::kStopped, because);
    }
  }
  for (uint32_t n = 0; n < nodes.size(); ++n) RecallAll(NodeId(n));
}

void Scheduler::Impl::Cancel(TaskId id) {
  Task& task = tasks[id.value];
  if (task.settled()) return;
  if (!task.in_flight()) {
    Settle(id, TaskState::kCancelled, Reason::kNone, TaskId());
    SkipDependents(id);
    return;
  }
  if (task.has(Task::kCancel)) return;
  task.flags |= Task::kCancel;
  if (task.has(Task::kAhead)) {
    Recall(id);
  } else {
    actions->push_back(CancelAt(id));
  }
}

/// There was an attempt of that number.
void Scheduler::Impl::NoteAttempt(Task& task, uint32_t attempt) {
  task.attempts =
      static_cast<uint16_t>(std::min<uint32_t>(std::max<uint32_t>(task.attempts, attempt), UINT16_MAX));
}

/// The latest attempt, which was lost, is heard of again (`undo`), or a new one is started.
void Scheduler::Impl::ForgetLoss(TaskId id, bool undo) {
  Task& task = tasks[id.value];
  task.flags &= static_cast<uint8_t>(~Task::kLost);
  if (lost_ahead.erase(id.value) == 0) {
    if (!undo) return;
    if (task.losses > 0) --task.losses;
    --counts.losses;
    --counts.attempts;  // as it is counted once more below
  } else if (undo && --uncounted[id.value] == 0) {
    uncounted.erase(id.value);
  }
}

/// An attempt that this scheduler does not believe to be there: is it taken in?
bool Scheduler::Impl::Adopt(AttemptId attempt, NodeId node_id) {
  const TaskId id = attempt.task;
  Task& task = tasks[id.value];
  const Node* node = Find(node_id);
  if (node == nullptr || !node->joined() || task.settled() || task.in_flight()) return false;
  const bool back = attempt.number == task.attempts && task.has(Task::kLost);
  if (attempt.number <= task.attempts && !back) return false;
  Unqueue(id);
  if (task.has(Task::kLost)) ForgetLoss(id, back);
  // Numbers between are of attempts of which nobody told; they cost no retry.
  if (attempt.number > task.attempts + 1u) uncounted[id.value] += attempt.number - task.attempts - 1;
  NoteAttempt(task, attempt.number);
  ++counts.attempts;
  Started(id, node_id, TakenFrom::kAdopted, false);
  SetState(task, TaskState::kRunning);
  return true;
}

void Scheduler::Impl::On(const TaskStarted& e) {
  if (e.attempt.task.value >= tasks.size()) return;
  const TaskId id = e.attempt.task;
  Task& task = tasks[id.value];
  if (IsAt(e.attempt, e.node)) {
    if (task.state() == TaskState::kRunning) return;
    const bool recalled = task.state() == TaskState::kRecalled;
    if (recalled) {
      --nodes[e.node.value].recalls;
      --recalled_total;
      Touch(e.node);
    }
    if (task.has(Task::kAhead)) Begins(id);
    SetState(task, TaskState::kRunning);
    // Until now it was only asked back.
    if (recalled && task.has(Task::kCancel)) actions->push_back(CancelAt(id));
    return;
  }
  if (Adopt(e.attempt, e.node)) return;
  const Node* node = Find(e.node);
  const bool unknown_here = task.node != e.node || e.attempt.number > task.attempts;
  if ((task.settled() || task.in_flight()) && unknown_here && node != nullptr && node->joined())
    actions->push_back(CancelTask{e.attempt, e.node});
}

void Scheduler::Impl::On(const TaskEnded& e) {
  if (e.attempt.task.value >= tasks.size()) return;
  const TaskId id = e.attempt.task;
  Task& task = tasks[id.value];
  if (!IsAt(e.attempt, e.node) && !Adopt(e.attempt, e.node)) return;
  Vacate(id);
  if (std::holds_alternative<Done>(e.outcome)) {
    level_times.Add(task.card.level, e.run_time);
    RowOfFailures(e.node, false, e.run_time);
    if (options.shared_files) {
      for (FileId file : graph.inputs(id)) replicas.SetOnly(file, e.node);
      for (FileId file : graph.outputs(id)) replicas.SetOnly(file, e.node);
    }
    MarkDone(id, e.node);
    actions->push_back(TaskSettled{id, FinalState::kDone, TaskId(), Reason::kNone});
  } else if (const auto* failed = std::get_if<Failed>(&e.outcome)) {
    RowOfFailures(e.node, true, e.run_time);
    AfterFailure(id, *failed);
  } else if (std::holds_alternative<Lost>(e.outcome)) {
    AfterLoss(id);
  } else if (std::holds_alternative<Interrupted>(e.outcome) && !task.has(Task::kCancel)) {
    Settle(id, TaskState::kSkipped, Reason::kInterrupted, TaskId());
    SkipDependents(id);
  } else {
    Settle(id, TaskState::kCancelled, Reason::kNone, TaskId());
    SkipDependents(id);
  }
}

void Scheduler::Impl::On(const TaskReturned& e) {
  if (e.attempt.task.value >= tasks.size() || !IsAt(e.attempt, e.node)) return;
  if (tasks[e.attempt.task.value].state() == TaskState::kRunning) return;
  Vacate(e.attempt.task);
  NeverBegan(e.attempt.task);
}

/// It was sent, and comes back as if it had not been: its number is used again.
void Scheduler::Impl::NeverBegan(TaskId id) {
  --tasks[id.value].attempts;
  ToOldPlace(id);
}

/// What was sent and has not begun counts as no attempt, and goes to its old place in the queues.
void Scheduler::Impl::ToOldPlace(TaskId id) {
  Task& task = tasks[id.value];
  --counts.attempts;
  if (task.has(Task::kCancel) || stopped || task.waits > 0 || lane_states[task.card.lane].impossible) {
    Retry(id);
    return;
  }
  SetState(task, TaskState::kWaiting);
  put_back.push_back(id);
}

}  // namespace harrow::core
