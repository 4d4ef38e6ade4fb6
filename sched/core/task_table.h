#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "core/scheduler.h"
#include "graph/graph.h"
#include "order/ready_queue.h"

namespace harrow::core {

/// What the scheduler knows of one task, in half a cache line. Its state says what else of it means
/// something; only TaskTable changes it.
class alignas(32) Task {
 public:
  TaskState state() const { return static_cast<TaskState>(card_.of_owner); }
  bool settled() const { return IsSettled(state()); }
  bool in_flight() const { return IsInFlight(state()); }
  bool ahead() const { return state() == TaskState::kAhead || state() == TaskState::kAheadRecalled; }
  bool recalled() const { return state() == TaskState::kRecalled || state() == TaskState::kAheadRecalled; }
  Level level() const { return card_.level; }
  order::LaneId lane() const { return card_.lane; }
  const order::Card& card() const { return card_; }
  /// Predecessors that it waits for; of every task that is not settled.
  uint32_t waits() const { return waits_; }
  /// Where it is in flight, or was the last time.
  NodeId node() const { return node_; }
  TakenFrom taken_from() const { return taken_from_; }
  /// The number of its latest attempt; those that count as lost are among them.
  uint32_t attempts() const { return attempts_; }
  uint32_t losses() const { return losses_; }
  /// In flight, and a user wants it ended.
  bool cancelled() const { return has(kCancelled); }
  /// In flight, and counted among the releasers of its node.
  bool releaser() const { return has(kReleaser); }
  /// Not in flight: its latest attempt was lost with its node, or nobody told of it, and may be heard of
  /// again.
  bool lost() const { return has(kLost); }

 private:
  friend class TaskTable;
  static constexpr uint8_t kCancelled = 1, kReleaser = 2, kLost = 4, kFlags = 31;
  // More than two candidates: candidate_ is a place in the pool, and their number.
  static constexpr uint8_t kMany = 8;
  // Lost, and its latest attempt is among the uncounted.
  static constexpr uint8_t kUncounted = 16;
  bool has(uint8_t flag) const { return (flags_ & flag) != 0; }
  void set(uint8_t flag, bool on) { flags_ = (on ? flags_ | flag : flags_ & ~flag) & kFlags; }

  order::Card card_;
  uint32_t waits_ = 0;
  NodeId node_;
  NodeId candidate_[2];
  uint16_t attempts_ = 0;
  uint8_t losses_ = 0;
  uint8_t flags_ : 5 = 0;
  TakenFrom taken_from_ : 3 = TakenFrom::kNothing;
};
static_assert(sizeof(Task) == 32);

/// All tasks: their states, what they wait for, where they may run, and what their attempts count for. A task
/// that stands in queues or is sent has to be taken out of queues and nodes by the caller.
class TaskTable {
 public:
  size_t size() const { return tasks_.size(); }
  bool Has(TaskId id) const { return id.value < tasks_.size(); }
  const Task& operator[](TaskId id) const { return tasks_[id.value]; }
  TaskState state(TaskId id) const { return Has(id) ? tasks_[id.value].state() : TaskState::kWaiting; }
  order::Cards cards() const {
    return order::Cards(tasks_.data(), urgencies_.empty() ? nullptr : urgencies_.data());
  }
  bool has_urgencies() const { return !urgencies_.empty(); }
  const Counts& counts() const { return counts_; }
  /// As long as there are some, the run is not over.
  uint64_t unsettled() const { return counts_.waiting + counts_.ready + in_flight() + counts_.held; }
  uint64_t in_flight() const { return counts_.sent + counts_.running; }

  /// The first `size` tasks of the graph are known from now on; new ones wait.
  void Grow(size_t size);
  void Describe(TaskId id, Level level, order::LaneId lane, order::Urgency urgency);
  void SetLevel(TaskId id, Level level) { tasks_[id.value].card_.level = level; }
  /// Of one that stands in no queue and has no node.
  void SetLane(TaskId id, order::LaneId lane) { tasks_[id.value].card_.lane = lane; }
  /// Of one that stands in no queue; its next ticket is a new one.
  void SetUrgency(TaskId id, order::Urgency urgency);
  void SetWaits(TaskId id, uint32_t waits) { tasks_[id.value].waits_ = waits; }
  /// Whether `after` waits for `before`, one of its predecessors, still (or for ever, if it failed).
  bool KeepsWaiting(const graph::Graph& graph, TaskId before, TaskId after) const {
    const TaskState is = state(before);
    if (graph.StartSuffices(before, after))
      return is != TaskState::kRunning && is != TaskState::kHeld && is != TaskState::kDone;
    return is != TaskState::kDone && !(IsSettled(is) && graph.OnlyWaits(before, after));
  }
  /// One of its predecessors is done, or has ended where that is enough. Returns whether it waits for nothing
  /// more.
  bool WaitForOneLess(TaskId id) {
    Task& task = tasks_[id.value];
    return --task.waits_ == 0 && task.state() == TaskState::kWaiting;
  }

  // --- states
  void MakeWaiting(TaskId id);
  void Delay(TaskId id, Time due);
  /// Its delay is over, or no longer waited for.
  void DropDelay(TaskId id);
  /// Those that are due wait from now on; returns them.
  std::vector<TaskId> EndDelays(Time now);
  size_t delayed() const { return due_.size(); }
  /// When the next one is due; Time::max(): none is delayed.
  Time next_due() const;
  /// It waits, and is another server's from now on; the other way round.
  void SetElsewhere(TaskId id) { SetState(&tasks_[id.value], TaskState::kElsewhere); }
  void SetHere(TaskId id) { SetState(&tasks_[id.value], TaskState::kWaiting); }
  void MakeReady(TaskId id, uint32_t ticket);
  /// Assigned to a node; `ahead`: it keeps its candidates, as it counts in their queues.
  void Send(TaskId id, NodeId node, TakenFrom from, bool ahead);
  /// It was ahead, and has a slot now.
  void GiveSlot(TaskId id);
  /// It is ahead, and asked back.
  void Recall(TaskId id) { SetState(&tasks_[id.value], TaskState::kAheadRecalled); }
  /// It has a slot, and is asked back.
  void RecallSent(TaskId id) { SetState(&tasks_[id.value], TaskState::kRecalled); }
  void Run(TaskId id) { SetState(&tasks_[id.value], TaskState::kRunning); }
  /// It has succeeded, and what it read may still turn out to be void.
  void Hold(TaskId id) { SetState(&tasks_[id.value], TaskState::kHeld); }
  /// It waits for something that is no task.
  void SetKeptWaiting(TaskId id, bool kept) { SetIn(&kept_waiting_, id, kept); }
  bool kept_waiting(TaskId id) const { return !kept_waiting_.empty() && kept_waiting_.contains(id); }
  /// As if the state of one that is followed had changed.
  void NoteChanged(TaskId id) { changed_.push_back(id); }
  /// From now on it is told when its state changes.
  void Follow(TaskId id) {
    followed_.resize(tasks_.size());
    followed_[id.value] = true;
  }
  /// Those of the followed ones whose states have changed since the last call, each once or more often.
  std::vector<TaskId> TakeChanged() { return std::exchange(changed_, {}); }
  bool any_changed() const { return !changed_.empty(); }
  void Settle(TaskId id, TaskState state) {
    if (counts_.remaking > 0 && remaking_.erase(id) > 0) --counts_.remaking;
    SetAsking(id, false);
    SetState(&tasks_[id.value], state);
  }
  /// It was done, and is to make its outputs again: it waits.
  void Reopen(TaskId id) {
    if (remaking_.insert(id).second) ++counts_.remaking;
    SetState(&tasks_[id.value], TaskState::kWaiting);
  }
  /// The attempt that is to make them costs no retry.
  void ForgiveRemake(TaskId id) {
    if (tasks_[id.value].attempts_ > 0) ++uncounted_[id];
  }
  /// It makes its outputs again unless others have them, and waits for their answer.
  void SetAsking(TaskId id, bool asking) { SetIn(&asking_, id, asking); }
  bool asking(TaskId id) const { return !asking_.empty() && asking_.contains(id); }
  /// Of what it waits for, how many are no tasks.
  uint32_t waits_besides(TaskId id) const { return (kept_waiting(id) ? 1u : 0u) + (asking(id) ? 1u : 0u); }
  /// All that make their outputs again, by number.
  std::vector<TaskId> Remaking() const {
    std::vector<TaskId> all(remaking_.begin(), remaking_.end());
    std::sort(all.begin(), all.end());
    return all;
  }
  bool remaking(TaskId id) const { return counts_.remaking > 0 && remaking_.contains(id); }
  /// There was an attempt of that number, which costs nothing.
  void UseNumber(AttemptId attempt);
  void SetCancelled(TaskId id) { tasks_[id.value].set(Task::kCancelled, true); }
  void SetReleaser(TaskId id, bool on) { tasks_[id.value].set(Task::kReleaser, on); }

  // --- candidates: the nodes in whose queues it stands, or from whose it was sent ahead; none: the remote
  // queue
  std::span<const NodeId> candidates(const Task& task) const {
    if (task.has(Task::kMany)) return {lists_[task.candidate_[0].value].data(), task.candidate_[1].value};
    return {task.candidate_, task.candidate_[0] ? task.candidate_[1] ? 2u : 1u : 0u};
  }
  std::span<const NodeId> candidates(TaskId id) const { return candidates(tasks_[id.value]); }
  void SetCandidates(TaskId id, std::span<const NodeId> nodes);

  // --- attempts
  AttemptId latest(TaskId id) const { return {id, tasks_[id.value].attempts_}; }
  bool IsAt(AttemptId attempt, NodeId node) const {
    const Task& task = tasks_[attempt.task.value];
    return task.in_flight() && task.node_ == node && task.attempts_ == attempt.number;
  }
  /// May one that is not believed to be in flight be so? It is the latest, which was lost, or a later one.
  bool MayAdopt(AttemptId attempt) const;
  /// That one is in flight.
  void Adopt(AttemptId attempt);
  /// A new one, numbered one more than the latest.
  void AddAttempt(TaskId id);
  /// The latest was sent and never began: its number is used again.
  void DropAttempt(TaskId id);
  /// The latest was lost.
  void CountLoss(TaskId id);
  /// The latest was sent ahead and lost: it costs neither a retry nor a loss.
  void CountLossAhead(TaskId id);
  /// The latest failed, and its node may be to blame: it costs no retry.
  void ForgiveFailure(TaskId id) { ++uncounted_[id]; }
  /// With its node, and it may be heard of again.
  void SetLost(TaskId id) { tasks_[id.value].set(Task::kLost, true); }
  /// One more may be out: uncounted, and lost until it is heard of.
  void NoteUnheard(TaskId id);
  /// From before this scheduler was.
  void Restore(const TaskRestored& e);
  /// Attempts that count against the task's retries.
  int64_t failures(TaskId id) const;

  void CountStolen() { ++counts_.stolen; }
  void CountInput(int64_t local, int64_t remote, int64_t home) {
    counts_.local_bytes += static_cast<uint64_t>(local);
    counts_.remote_bytes += static_cast<uint64_t>(remote);
    counts_.home_bytes += static_cast<uint64_t>(home);
  }

  size_t memory() const;
  /// What is broken, or nothing.
  std::string FindBroken(const graph::Graph& graph) const;

 private:
  static void SetIn(std::unordered_set<TaskId>* set, TaskId id, bool in) {
    if (in) {
      set->insert(id);
    } else if (!set->empty()) {
      set->erase(id);
    }
  }
  void SetState(Task* task, TaskState state);
  void ClearCandidates(Task* task);
  void NoteAttempt(Task* task, uint32_t number);
  void ForgetLoss(TaskId id, bool undo);

  std::vector<Task> tasks_;
  // By task; empty as long as none is.
  std::vector<bool> followed_;
  std::vector<TaskId> changed_;
  std::unordered_set<TaskId> kept_waiting_;
  std::unordered_set<TaskId> asking_;
  // By task; empty as long as all are 0.
  std::vector<order::Urgency> urgencies_;
  Counts counts_;
  // Of delayed tasks; the same by time.
  std::unordered_map<TaskId, Time> due_;
  std::set<std::pair<Time, TaskId>> by_due_;
  // Candidates of tasks that have more than two, and lists that are not in use.
  std::vector<std::vector<NodeId>> lists_;
  std::vector<uint32_t> free_lists_;
  // Attempts that cost no retry: those of earlier runs, those of which nobody told, and those sent ahead
  // whose node was lost.
  std::unordered_map<TaskId, uint32_t> uncounted_;
  // Those that were done, and are not now.
  std::unordered_set<TaskId> remaking_;
};

}  // namespace harrow::core
