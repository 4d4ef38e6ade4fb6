#include "core/task_table.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace harrow::core {
namespace {

/// By state.
constexpr uint64_t Counts::*kCountOf[] = {
    &Counts::waiting, &Counts::waiting, &Counts::ready,    &Counts::sent,      &Counts::sent,
    &Counts::sent,    &Counts::sent,    &Counts::running,  &Counts::held,      &Counts::elsewhere, &Counts::done,
    &Counts::failed,  &Counts::skipped, &Counts::cancelled, &Counts::pruned};

constexpr uint64_t Counts::*kStates[] = {
    &Counts::total, &Counts::waiting, &Counts::ready,   &Counts::sent,      &Counts::running,
    &Counts::done,  &Counts::failed,  &Counts::skipped, &Counts::cancelled, &Counts::pruned, &Counts::elsewhere,
    &Counts::held};

}  // namespace

void TaskTable::Grow(size_t size) {
  counts_.total += size - tasks_.size();
  counts_.waiting += size - tasks_.size();
  tasks_.resize(size);
}

void TaskTable::Describe(TaskId id, Level level, order::LaneId lane, order::Urgency urgency) {
  tasks_[id.value].card_.level = level;
  tasks_[id.value].card_.lane = lane;
  SetUrgency(id, urgency);
}

void TaskTable::SetUrgency(TaskId id, order::Urgency urgency) {
  if (urgency == 0 && urgencies_.empty()) return;
  urgencies_.resize(tasks_.size());
  urgencies_[id.value] = urgency;
}

void TaskTable::SetState(Task* task, TaskState state) {
  --(counts_.*kCountOf[task->card_.of_owner]);
  ++(counts_.*kCountOf[static_cast<size_t>(state)]);
  task->card_.of_owner = static_cast<uint8_t>(state);
  task->card_.queued = state == TaskState::kReady;
  if (followed_.empty()) return;
  const auto id = static_cast<uint32_t>(task - tasks_.data());
  if (id < followed_.size() && followed_[id]) changed_.emplace_back(id);
}

void TaskTable::MakeWaiting(TaskId id) {
  Task& task = tasks_[id.value];
  if (task.state() == TaskState::kDelayed) DropDelay(id);
  ClearCandidates(&task);
  SetState(&task, TaskState::kWaiting);
}

void TaskTable::Delay(TaskId id, Time due) {
  due_[id] = due;
  by_due_.emplace(due, id);
  SetState(&tasks_[id.value], TaskState::kDelayed);
}

void TaskTable::DropDelay(TaskId id) {
  const auto found = due_.find(id);
  by_due_.erase({found->second, id});
  due_.erase(found);
}

std::vector<TaskId> TaskTable::EndDelays(Time now) {
  std::vector<TaskId> ended;
  for (auto next = by_due_.begin(); next != by_due_.end() && next->first <= now; ++next)
    ended.push_back(next->second);
  for (TaskId id : ended) MakeWaiting(id);
  return ended;
}

Time TaskTable::next_due() const {
  return by_due_.empty() ? Time::max() : by_due_.begin()->first;
}

void TaskTable::MakeReady(TaskId id, uint32_t ticket) {
  Task& task = tasks_[id.value];
  task.card_.ticket = ticket;
  SetState(&task, TaskState::kReady);
}

void TaskTable::Send(TaskId id, NodeId node, TakenFrom from, bool ahead) {
  Task& task = tasks_[id.value];
  if (!ahead) ClearCandidates(&task);
  SetState(&task, ahead ? TaskState::kAhead : TaskState::kSent);
  task.node_ = node;
  task.taken_from_ = from;
}

void TaskTable::GiveSlot(TaskId id) {
  Task& task = tasks_[id.value];
  ClearCandidates(&task);
  SetState(&task, task.recalled() ? TaskState::kRecalled : TaskState::kSent);
}

void TaskTable::SetCandidates(TaskId id, std::span<const NodeId> nodes) {
  Task& task = tasks_[id.value];
  ClearCandidates(&task);
  if (nodes.size() <= 2) {
    std::copy(nodes.begin(), nodes.end(), task.candidate_);
    return;
  }
  if (free_lists_.empty()) {
    free_lists_.push_back(static_cast<uint32_t>(lists_.size()));
    lists_.emplace_back();
  }
  lists_[free_lists_.back()].assign(nodes.begin(), nodes.end());
  task.set(Task::kMany, true);
  task.candidate_[0] = NodeId(free_lists_.back());
  task.candidate_[1] = NodeId(static_cast<uint32_t>(nodes.size()));
  free_lists_.pop_back();
}

void TaskTable::ClearCandidates(Task* task) {
  if (task->has(Task::kMany)) free_lists_.push_back(task->candidate_[0].value);
  task->set(Task::kMany, false);
  task->candidate_[0] = task->candidate_[1] = NodeId();
}

bool TaskTable::MayAdopt(AttemptId attempt) const {
  const Task& task = tasks_[attempt.task.value];
  if (task.settled() || task.in_flight() || task.state() == TaskState::kElsewhere) return false;
  return attempt.number > task.attempts_ || (attempt.number == task.attempts_ && task.lost());
}

void TaskTable::Adopt(AttemptId attempt) {
  Task& task = tasks_[attempt.task.value];
  if (task.lost()) ForgetLoss(attempt.task, attempt.number == task.attempts_);
  // Numbers between are of attempts of which nobody told; they cost no retry.
  if (attempt.number > task.attempts_ + 1u) uncounted_[attempt.task] += attempt.number - task.attempts_ - 1;
  NoteAttempt(&task, attempt.number);
  ++counts_.attempts;
}

void TaskTable::AddAttempt(TaskId id) {
  Task& task = tasks_[id.value];
  if (task.lost()) ForgetLoss(id, false);
  if (task.attempts_ < UINT16_MAX) ++task.attempts_;
  ++counts_.attempts;
}

void TaskTable::DropAttempt(TaskId id) {
  --tasks_[id.value].attempts_;
  --counts_.attempts;
}

void TaskTable::CountLoss(TaskId id) {
  ++counts_.losses;
  if (tasks_[id.value].losses_ < UINT8_MAX) ++tasks_[id.value].losses_;
}

void TaskTable::CountLossAhead(TaskId id) {
  ++uncounted_[id];
  tasks_[id.value].set(Task::kUncounted, true);
  --counts_.attempts;
}

void TaskTable::NoteUnheard(TaskId id) {
  Task& task = tasks_[id.value];
  if (task.lost() || task.attempts_ == UINT16_MAX) return;
  ++task.attempts_;
  ++uncounted_[id];
  task.set(Task::kLost, true);
  task.set(Task::kUncounted, true);
}

void TaskTable::UseNumber(AttemptId attempt) {
  Task& task = tasks_[attempt.task.value];
  if (attempt.number <= task.attempts_) return;
  uncounted_[attempt.task] += attempt.number - task.attempts_;
  NoteAttempt(&task, attempt.number);
}

/// There was an attempt of that number.
void TaskTable::NoteAttempt(Task* task, uint32_t number) {
  task->attempts_ =
      static_cast<uint16_t>(std::min<uint32_t>(std::max<uint32_t>(task->attempts_, number), UINT16_MAX));
}

/// The latest attempt, which was lost, is heard of again (`undo`), or a new one is made.
void TaskTable::ForgetLoss(TaskId id, bool undo) {
  Task& task = tasks_[id.value];
  task.set(Task::kLost, false);
  if (!task.has(Task::kUncounted)) {
    if (!undo) return;
    if (task.losses_ > 0) --task.losses_;
    --counts_.losses;
    --counts_.attempts;  // as it is counted once more
    return;
  }
  task.set(Task::kUncounted, false);
  if (undo && --uncounted_[id] == 0) uncounted_.erase(id);
}

void TaskTable::Restore(const TaskRestored& e) {
  Task& task = tasks_[e.task.value];
  NoteAttempt(&task, std::max(e.attempts, e.last_attempt));
  if (task.attempts_ > e.attempts) uncounted_[e.task] = task.attempts_ - e.attempts;
  task.losses_ =
      static_cast<uint8_t>(std::min<uint32_t>(std::max<uint32_t>(task.losses_, e.losses), UINT8_MAX));
}

int64_t TaskTable::failures(TaskId id) const {
  const auto uncounted = uncounted_.find(id);
  return int64_t{tasks_[id.value].attempts_} - tasks_[id.value].losses_ -
         (uncounted == uncounted_.end() ? 0 : uncounted->second);
}

size_t TaskTable::memory() const {
  size_t bytes = tasks_.capacity() * sizeof(Task) + urgencies_.capacity() * sizeof(order::Urgency);
  for (const auto& list : lists_) bytes += sizeof(list) + list.capacity() * sizeof(NodeId);
  return bytes;
}

std::string TaskTable::FindBroken(const graph::Graph& graph) const {
  Counts found;
  for (uint32_t n = 0; n < tasks_.size(); ++n) {
    const TaskId id(n);
    const Task& task = tasks_[n];
    const auto broken = [n](const auto&... what) { return StrCat("task ", n, ": ", what...); };
    ++found.total;
    ++(found.*kCountOf[task.card_.of_owner]);
    if (!task.settled()) {
      uint32_t waits = waits_besides(id);
      for (TaskId before : graph.predecessors(id)) {
        if (!KeepsWaiting(graph, before, id)) continue;
        ++waits;
        if (state(before) > TaskState::kDone && task.state() == TaskState::kWaiting && !asking(id))
          return broken("waits for what will not be done");
      }
      // Of readers of streams that wait nobody counts how many they wait for, as long as it is one that is known (streaming.cc).
      const bool some = task.state() == TaskState::kWaiting && graph.has_streams(id) && waits > 0 && task.waits_ > 0;
      if (waits != task.waits_ && !some) return broken("waits for ", waits, " tasks, is said to for ", task.waits_);
      if (task.state() == TaskState::kWaiting && waits == 0)
        return broken("waits for nothing and is not ready");
      if (task.state() == TaskState::kReady && waits > 0) return broken("is ready and waits");
      if (task.state() == TaskState::kDelayed && waits > 0) return broken("is delayed and waits");
    }
    if (due_.contains(id) && !by_due_.contains({due_.at(id), id}))
      return broken("is delayed and has no time in order");
    if (due_.contains(id) != (task.state() == TaskState::kDelayed))
      return broken("is delayed without a time, or has one");
    if (task.has(Task::kUncounted) && !task.lost()) return broken("is uncounted, and not lost");
    if (task.lost() && task.in_flight()) return broken("is lost and in flight");
    if (task.card_.queued != (task.state() == TaskState::kReady))
      return broken("queued and ready do not agree");
    if (!candidates(task).empty() && task.state() != TaskState::kReady && !task.ahead())
      return broken("has candidates and is not queued");
    if (task.in_flight() && task.attempts_ == 0) return broken("is in flight in no attempt");
    if (task.in_flight() && !task.node_) return broken("is in flight nowhere");
    if (task.releaser() && !task.in_flight()) return broken("releases and is not in flight");
  }
  for (TaskId id : asking_) {
    if (!remaking(id) || state(id) != TaskState::kWaiting) return StrCat("task ", id.value, ": asks for what it does not make again");
  }
  for (TaskId id : remaking_) {
    if (tasks_[id.value].settled())
      return StrCat("task ", id.value, ": is settled, and makes its outputs again");
  }
  if (remaking_.size() != counts_.remaking) return "how many tasks make their outputs again";
  for (const auto count : kStates) {
    if (found.*count != counts_.*count) return "counts of states";
  }
  return {};
}

}  // namespace harrow::core
