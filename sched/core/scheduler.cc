// Events change state first; then, once for all events of an instant, tasks that have become ready are put
// into their queues in ascending order, and nodes ask for work: the steps of Finish(). So a run is the same
// whether a result comes alone or with others, except that those that come together see each other's
// successors.

#include "core/scheduler.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/prefetch.h"
#include "core/impl.h"
#include "core/in_steps.h"

namespace harrow::core {
namespace {

constexpr size_t kPrefetched = 4;  // of a task's files or successors
constexpr size_t kPrefetchedInFlight = 64;

[[noreturn]] void Raise(const std::string& text) {
  throw std::logic_error(text);
}

}  // namespace

Scheduler::Impl::Impl(const graph::Graph& the_graph, const Options& the_options, order::Draws* the_draws)
    : graph(the_graph),
      options(the_options),
      draws(the_options.seed),
      side_draws(the_options.seed ^ 0x5DEECE66Dull),
      order(order::MakeOrder(the_options.policy, the_draws != nullptr ? the_draws : &draws, &level_times)),
      ends(order->ends()),
      replicas(the_graph),
      remote(order->by_level()),
      gangs(order->by_level()) {}

void Scheduler::Impl::Begin(Time the_time, std::vector<Action>* the_actions) {
  now = the_time;
  actions = the_actions;
  if (timed_lanes && end != Time::max()) FindClosedLanes();
  if (!delayed.empty()) EndDelays();
}

void Scheduler::Impl::Take(const Event& event) {
  std::visit([this](const auto& e) { On(e); }, event);
}

/// What the end of a task will read is asked of memory some events before.
void Scheduler::Impl::TakeAll(const std::vector<Event>& events) {
  const auto prefetch = [&](size_t i, int step) {
    if (const auto* e = std::get_if<TaskEnded>(&events[i])) PrefetchEnd(e->attempt.task, step);
  };
  InSteps([&] { return events.size(); }, [&](size_t i) { prefetch(i, 0); }, [&](size_t i) { prefetch(i, 1); },
          [&](size_t i) { prefetch(i, 2); }, [&](size_t i) { Take(events[i]); });
}

void Scheduler::Impl::PrefetchEnd(TaskId id, int step) const {
  if (id.value >= tasks.size()) return;
  const Task& task = tasks[id.value];
  const auto some = [](const auto& list) { return list.first(std::min(kPrefetched, list.size())); };
  if (step == 0) {
    Prefetch(&task);
    graph.PrefetchLinks(id);
  } else if (step == 1) {
    if (task.node.value < nodes.size()) PrefetchAll(&nodes[task.node.value], sizeof(Node));
    graph.PrefetchInputs(id);
    graph.PrefetchSuccessors(id);
  } else {
    if (task.node.value < nodes.size()) {
      const std::vector<TaskId>& in_flight = nodes[task.node.value].in_flight;
      PrefetchAll(in_flight.data(), std::min(kPrefetchedInFlight, in_flight.size()) * sizeof(TaskId));
    }
    for (FileId file : some(graph.inputs(id))) replicas.Prefetch(file);
    for (FileId file : some(graph.outputs(id))) replicas.Prefetch(file);
    for (TaskId after : some(graph.successors(id))) {
      if (after.value < tasks.size()) Prefetch(&tasks[after.value]);
    }
  }
}

void Scheduler::Impl::Finish() {
  for (TaskId root : skip_roots) SkipDependents(root);
  skip_roots.clear();
  // Once all is restored: the server that knew of these failures may not have come to stop.
  for (TaskId failed : restored_failures) CountFailure(failed);
  restored_failures.clear();
  if (std::exchange(capacity_changed, false) && nodes_known) FindImpossibleLanes();
  EnqueueReady();
  if (timed_lanes && counts.ready > 0 && counts.sent + counts.running == 0) SkipWithoutTime();
  Dispatch();
  CountBytes();
  CheckComplete();
  if (!delayed.empty()) {
    Time next = Time::max();
    for (const auto& [task, due] : delayed) next = std::min(next, due);
    if (next != told_wake) actions->push_back(WakeAt{told_wake = next});
  }
}

/// Lanes whose declared time no longer fits.
void Scheduler::Impl::FindClosedLanes() {
  for (order::LaneId lane = 0; lane < lanes.size(); ++lane) {
    const Duration limit = lanes[lane].time_limit;
    const bool closed = limit.count() > 0 && end != Time::max() && (end - now) < limit;
    if (lanes.closed(lane) != closed) gang_look = true;
    if (lanes.closed(lane) && !closed) {
      // The allocation was given more time: idle nodes must look again.
      for (uint32_t n = 0; n < nodes.size(); ++n) Touch(NodeId(n));
    }
    lanes.SetClosed(lane, closed);
  }
}

void Scheduler::Impl::CheckComplete() {
  if (complete || !told_tasks || counts.waiting + counts.ready + counts.sent + counts.running > 0) return;
  complete = true;
  actions->push_back(RunComplete{});
}

/// When nothing runs and all that is ready would take longer than there is time, none of it is going to run.
void Scheduler::Impl::SkipWithoutTime() {
  uint64_t closed = 0;
  for (order::LaneId lane = 0; lane < lanes.size(); ++lane)
    closed += lanes.closed(lane) ? lane_states[lane].ready : 0;
  if (closed < counts.ready) return;
  for (uint32_t n = 0; n < tasks.size(); ++n) {
    if (tasks[n].state() != TaskState::kReady) continue;
    Settle(TaskId(n), TaskState::kSkipped, Reason::kNoTimeLeft, TaskId());
    SkipDependents(TaskId(n));
  }
}

void Scheduler::Impl::On(const TasksAdded& e) {
  told_tasks = true;
  complete = false;
  const size_t begin = tasks.size();
  const size_t last = std::min<size_t>(size_t{e.first.value} + e.count, graph.task_count());
  if (last <= begin) return;
  tasks.resize(last);
  replicas.Grow();
  Relevel();
  counts.total += last - begin;
  counts.waiting += last - begin;
  for (size_t n = begin; n < last; ++n) {
    const TaskId id(static_cast<uint32_t>(n));
    Task& task = tasks[n];
    if (n + 16 < last) PrefetchPredecessors(TaskId(static_cast<uint32_t>(n + 16)));
    task.card.level = graph.level(id);
    task.card.lane = LaneOf(id);
    NotePriority(id);
    CountWaits(id);
    if (task.waits == 0) newly_ready.push_back(uint64_t{id.value} << 32 | NodeId::kNone);
    for (TaskId after : graph.successors(id)) {
      if (after.value < begin) NewPredecessor(after);
    }
  }
  if (stopped) {
    for (size_t n = begin; n < last; ++n) {
      Settle(TaskId(static_cast<uint32_t>(n)), TaskState::kSkipped, Reason::kStopped, stopped_by);
    }
  }
  capacity_changed = true;  // so have the lanes
}

void Scheduler::Impl::PrefetchPredecessors(TaskId id) const {
  const auto before = graph.predecessors(id);
  for (TaskId each : before.first(std::min<size_t>(kPrefetched, before.size()))) {
    if (each.value < tasks.size()) Prefetch(&tasks[each.value]);
  }
}

void Scheduler::Impl::CountWaits(TaskId id) {
  uint32_t waits = 0;
  for (TaskId before : graph.predecessors(id)) {
    const TaskState state = before.value < tasks.size() ? tasks[before.value].state() : TaskState::kWaiting;
    if (state != TaskState::kDone) ++waits;
    if (state > TaskState::kDone) skip_roots.push_back(before);
  }
  tasks[id.value].waits = waits;
}

/// A task that was there before waits for a new one.
void Scheduler::Impl::NewPredecessor(TaskId id) {
  CountWaits(id);
  Unqueue(id);
}

void Scheduler::Impl::On(const TaskRestored& e) {
  if (e.task.value >= tasks.size()) return;
  Task& task = tasks[e.task.value];
  if (task.settled() || task.in_flight()) return;
  NoteAttempt(task, std::max(e.attempts, e.last_attempt));
  if (task.attempts > e.attempts) uncounted[e.task.value] = task.attempts - e.attempts;
  task.losses =
      static_cast<uint8_t>(std::min<uint32_t>(std::max<uint32_t>(task.losses, e.losses), UINT8_MAX));
  if (e.as == TaskRestored::As::kOpen) return;
  Unqueue(e.task);
  if (e.as == TaskRestored::As::kDone) {
    MarkDone(e.task, NodeId());
    return;
  }
  SetState(task, e.as == TaskRestored::As::kFailed      ? TaskState::kFailed
                 : e.as == TaskRestored::As::kCancelled ? TaskState::kCancelled
                                                        : TaskState::kSkipped);
  skip_roots.push_back(e.task);
  if (e.as == TaskRestored::As::kFailed) restored_failures.push_back(e.task);
}

void Scheduler::Impl::On(const FileStored& e) {
  if (e.file.value >= graph.file_count()) return;
  replicas.Grow();
  if (e.bytes >= 0) replicas.SetSize(e.file, e.bytes);
  replicas.Add(e.file, e.node);
}

void Scheduler::Impl::On(const FileLost& e) {
  if (e.file.value >= graph.file_count()) return;
  replicas.Grow();
  replicas.Remove(e.file, e.node);
}

void Scheduler::Impl::On(const CancelRequested& e) {
  if (e.task.value < tasks.size()) Cancel(e.task);
}

void Scheduler::Impl::On(const DrainRequested&) {
  Stop(TaskId());
}

void Scheduler::Impl::On(const RoundTripMeasured& e) {
  Node* node = Find(e.node);
  if (node == nullptr || !node->joined()) return;
  node->round_trip = e.round_trip;
  Touch(e.node);
}

void Scheduler::Impl::On(const EndTimeKnown& e) {
  end = e.end;
  FindClosedLanes();
}

void Scheduler::Impl::On(const AllNodesJoined&) {
  nodes_known = true;
  for (Node& node : nodes) node.expected = node.expected && node.joined();
  capacity_changed = true;
}

size_t Scheduler::Impl::Memory() const {
  size_t bytes = graph.MemoryWithoutText() + tasks.capacity() * sizeof(Task) +
                 nodes.capacity() * sizeof(Node) + replicas.memory() + free.memory() + remote.memory() +
                 gangs.memory() + level_times.memory();
  for (const Node& node : nodes) {
    bytes += node.queue.memory() + (node.in_flight.capacity() + node.ahead.capacity()) * sizeof(TaskId);
  }
  for (const LaneState& lane : lane_states) bytes += sizeof(lane) + lane.victims.memory();
  for (const auto& list : lists) bytes += sizeof(list) + list.capacity() * sizeof(uint32_t);
  bytes += lane_of_profile.capacity() * sizeof(order::LaneId) + priorities.capacity() * sizeof(int32_t) + lanes.memory();
  bytes += newly_ready.capacity() * sizeof(uint64_t) + skip_stack.capacity() * sizeof(TaskId);
  return bytes;
}

Scheduler::Scheduler(const graph::Graph& graph, const Options& options, order::Draws* draws)
    : impl_(std::make_unique<Impl>(graph, options, draws)) {}
Scheduler::~Scheduler() = default;

void Scheduler::Handle(Time now, const Event& event, std::vector<Action>* actions) {
  impl_->Begin(now, actions);
  impl_->Take(event);
  impl_->Finish();
}

void Scheduler::HandleAll(Time now, const std::vector<Event>& events, std::vector<Action>* actions) {
  impl_->Begin(now, actions);
  impl_->TakeAll(events);
  impl_->Finish();
}

void Scheduler::PrefetchEnd(TaskId task, int step) const {
  impl_->PrefetchEnd(task, step);
}

TaskState Scheduler::state(TaskId task) const {
  return task.value < impl_->tasks.size() ? impl_->tasks[task.value].state() : TaskState::kWaiting;
}
uint32_t Scheduler::attempts(TaskId task) const {
  return task.value < impl_->tasks.size() ? impl_->tasks[task.value].attempts : 0;
}
uint32_t Scheduler::losses(TaskId task) const {
  return task.value < impl_->tasks.size() ? impl_->tasks[task.value].losses : 0;
}
NodeId Scheduler::node(TaskId task) const {
  return task.value < impl_->tasks.size() ? impl_->tasks[task.value].node : NodeId();
}
const Counts& Scheduler::counts() const {
  return impl_->counts;
}
Explanation Scheduler::Explain(TaskId task) const {
  return impl_->Explain(task);
}
size_t Scheduler::MemoryWithoutText() const {
  return impl_->Memory();
}

void Scheduler::SanityCheck() const {
  // Nothing is meant to catch it: an exception that leaves the lambda ends the process with this text.
  [this]() noexcept {
    if (const std::string broken = impl_->FindBroken(); !broken.empty()) Raise("scheduler: " + broken);
  }();
}

}  // namespace harrow::core
