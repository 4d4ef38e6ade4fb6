// What becomes of tasks: attempts that begin and end, retries, cancelling, skipping what cannot run any more.
//
// Messages from agents come late, twice, or from an agent that was given up. An event counts when the task is
// in flight at that node, and, where the event says so, in that attempt. Three kinds that do not fit are
// taken in nevertheless, as they tell of work done that this scheduler did not ask for (it was restarted, or
// had given the node up): a task that runs is adopted, a result is accepted, a failure of a later attempt
// counts. A task that an agent runs although it is settled, or in flight elsewhere, is ended there.

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

/// In flight no longer, and to be tried again.
void Scheduler::Impl::Retry(TaskId id) {
  Task& task = tasks[id.value];
  if (task.has(Task::kCancel)) {
    Settle(id, TaskState::kCancelled, Reason::kNone, TaskId());
    SkipDependents(id);
  } else if (stopped) {
    Settle(id, TaskState::kSkipped, Reason::kStopped, stopped_by);
    SkipDependents(id);
  } else if (lane_states[task.card.lane].impossible) {
    Settle(id, TaskState::kFailed, Reason::kNoNodeFits, TaskId());
    SkipDependents(id);
    CountFailure(id);
  } else {
    SetState(task, TaskState::kWaiting);
    if (task.waits == 0) {
      newly_ready.push_back(uint64_t{id.value} << 32 | NodeId::kNone);
    } else {
      CountWaits(id);  // it got a predecessor while in flight, which may have failed since
    }
  }
}

void Scheduler::Impl::AfterLoss(TaskId id) {
  Task& task = tasks[id.value];
  ++counts.losses;
  if (task.losses < UINT8_MAX) ++task.losses;
  if (task.losses < std::min<uint32_t>(options.max_losses, UINT8_MAX) || task.has(Task::kCancel)) {
    Retry(id);
    return;
  }
  Settle(id, TaskState::kFailed, Reason::kLostTooOften, TaskId());
  SkipDependents(id);
  CountFailure(id);
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

void Scheduler::Impl::On(const TaskStarted& e) {
  const Node* node = Find(e.node);
  if (e.task.value >= tasks.size() || node == nullptr || !node->joined()) return;
  Task& task = tasks[e.task.value];
  if (task.in_flight() && task.node == e.node) {
    if (Stale(task, e.attempt) || task.state() == TaskState::kRunning) return;
    const bool recalled = task.state() == TaskState::kRecalled;
    if (recalled) {
      --nodes[e.node.value].recalls;
      --recalled_total;
      Touch(e.node);
    }
    if (task.has(Task::kAhead)) Begins(e.task);
    SetState(task, TaskState::kRunning);
    // Until now it was only asked back.
    if (recalled && task.has(Task::kCancel)) actions->push_back(CancelAt(e.task));
    return;
  }
  if (task.settled() || task.in_flight()) {
    const bool unknown_here = task.node != e.node || e.attempt > task.attempts;
    if (unknown_here) actions->push_back(CancelTask{e.task, e.node, e.attempt});
    return;
  }
  const bool known_to_have_ended =
      e.attempt != 0 ? e.attempt <= task.attempts : task.attempts > 0 && task.node == e.node;
  if (known_to_have_ended) return;
  Unqueue(e.task);
  NoteAttempt(task, std::max<uint32_t>(task.attempts + 1u, e.attempt));
  ++counts.attempts;
  Started(e.task, e.node, TakenFrom::kAdopted, false);
  SetState(task, TaskState::kRunning);
}

void Scheduler::Impl::On(const TaskEnded& e) {
  if (e.task.value >= tasks.size()) return;
  Task& task = tasks[e.task.value];
  if (!task.in_flight() || task.node != e.node || Stale(task, e.attempt)) {
    LateEnd(e);
    return;
  }
  Vacate(e.task);
  if (std::holds_alternative<Done>(e.outcome)) {
    level_times.Add(task.card.level, e.run_time);
    RowOfFailures(e.node, false, e.run_time);
    if (options.shared_files) {
      for (FileId file : graph.inputs(e.task)) replicas.SetOnly(file, e.node);
      for (FileId file : graph.outputs(e.task)) replicas.SetOnly(file, e.node);
    }
    MarkDone(e.task, e.node);
    actions->push_back(TaskSettled{e.task, FinalState::kDone, TaskId(), Reason::kNone});
  } else if (const auto* failed = std::get_if<Failed>(&e.outcome)) {
    RowOfFailures(e.node, true, e.run_time);
    AfterFailure(e.task, *failed);
  } else if (std::holds_alternative<Lost>(e.outcome)) {
    AfterLoss(e.task);
  } else if (std::holds_alternative<Interrupted>(e.outcome) && !task.has(Task::kCancel)) {
    Settle(e.task, TaskState::kSkipped, Reason::kInterrupted, TaskId());
    SkipDependents(e.task);
  } else {
    Settle(e.task, TaskState::kCancelled, Reason::kNone, TaskId());
    SkipDependents(e.task);
  }
}

void Scheduler::Impl::LateEnd(const TaskEnded& e) {
  Task& task = tasks[e.task.value];
  const Node* node = Find(e.node);
  if (task.settled() || node == nullptr || !node->joined()) return;
  if (std::holds_alternative<Done>(e.outcome)) {
    if (task.in_flight()) {
      // It is being done again elsewhere, or here in a later attempt, for nothing.
      actions->push_back(CancelAt(e.task));
      Vacate(e.task);
    } else {
      Unqueue(e.task);
    }
    task.node = e.node;
    NoteAttempt(task, e.attempt);
    if (options.shared_files) {
      for (FileId file : graph.outputs(e.task)) replicas.SetOnly(file, e.node);
    }
    MarkDone(e.task, e.node);
    actions->push_back(TaskSettled{e.task, FinalState::kDone, TaskId(), Reason::kNone});
    return;
  }
  const auto* failed = std::get_if<Failed>(&e.outcome);
  if (failed == nullptr || task.in_flight() || task.waits > 0 || e.attempt <= task.attempts) return;
  Unqueue(e.task);
  task.node = e.node;
  NoteAttempt(task, e.attempt);
  AfterFailure(e.task, *failed);
}

void Scheduler::Impl::On(const TaskReturned& e) {
  if (e.task.value >= tasks.size()) return;
  Task& task = tasks[e.task.value];
  if (!task.in_flight() || task.node != e.node || task.state() == TaskState::kRunning ||
      Stale(task, e.attempt))
    return;
  Vacate(e.task);
  NeverBegan(e.task);
}

/// It was sent, and comes back as if it had not been: to its old place in the queues.
void Scheduler::Impl::NeverBegan(TaskId id) {
  Task& task = tasks[id.value];
  --task.attempts;
  --counts.attempts;
  if (task.has(Task::kCancel) || stopped || task.waits > 0 || lane_states[task.card.lane].impossible) {
    Retry(id);
    return;
  }
  SetState(task, TaskState::kWaiting);
  put_back.push_back(id);
}

}  // namespace harrow::core
