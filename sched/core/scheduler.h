#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "core/event.h"
#include "cost/placer.h"
#include "graph/graph.h"
#include "order/draws.h"
#include "order/policy.h"

namespace harrow::core {

struct Options {
  order::Policy policy = order::Policy::kLifoHrf;
  bool locality = true;
  bool steal = true;
  uint64_t seed = 1;
  // The retries of tasks that say nothing.
  int32_t retries = 0;
  // Before a task that says nothing is tried again after a failure.
  Duration retry_delay{0};
  // A task whose attempts are lost that often has failed.
  uint32_t max_losses = 5;
  // After that many failed tasks nothing more is started; 0: never.
  uint32_t max_failures = 0;
  // At most so many tasks are at nodes at once, and none is sent ahead; 0: as many as fit.
  uint32_t max_running = 0;
  // The same as max_failures = 1, and running tasks are cancelled.
  bool fail_fast = false;
  // A node with that many failures in a row, each within bad_node_time, is closed, unless it is the last one;
  // 0: never.
  uint32_t bad_node_failures = 0;
  Duration bad_node_time = std::chrono::seconds(1);
  // The node that ended a task holds its inputs and outputs (page cache).
  bool shared_files = true;
  // A task is pruned whose bound is not by more than this part of the best value below it.
  double stop_gap = 0;
  // Files lie on the nodes' own disks, and are copied to where they are read (supply.cc); not with
  // shared_files.
  bool local_files = false;
  // With local_files: other schedulers of the run, or former ones, may have left what tasks made (AskOthers).
  bool ask_others = false;
  // Tasks of levels whose mean run time is above this are not sent ahead.
  Duration ahead_limit = std::chrono::milliseconds(20);
  // At most so many tasks a slot are sent ahead to a node.
  uint32_t max_ahead = 256;
  // Of those whose inputs are to come: what is brought for them takes room, and the links of others.
  uint32_t max_fetching_ahead = 4;
  // Where costs.how says so, tasks go to nodes by what they will cost (core/placing.h) instead of by their
  // files; then nothing is stolen, and auto takes tasks in the order of the placement.
  cost::PlacerOptions costs = {};
  // Nothing is ever connected to a stream: those that only somebody outside would close are not held open.
  bool nobody_connects = false;
  // Somebody else's placement, for tests.
  std::function<std::unique_ptr<cost::Placer>(const graph::Graph&)> make_placer = {};
};

enum class TaskState : uint8_t {
  // It waits for other tasks.
  kWaiting,
  // It waits for nothing but some time, after losses or a failure.
  kDelayed,
  // It stands in queues.
  kReady,
  // It was sent to a node, behind what has the slots there.
  kAhead,
  // The same, and it was asked back.
  kAheadRecalled,
  // It has a slot, and is not known to have begun.
  kSent,
  // The same, and it was asked back before it had a slot.
  kRecalled,
  kRunning,
  // It has succeeded, and tasks whose streams it read have not yet.
  kHeld,
  // Another server has it.
  kElsewhere,
  kDone,
  kFailed,
  kSkipped,
  kCancelled,
  // Nothing better than what is known could come of it.
  kPruned,
};
constexpr bool IsInFlight(TaskState state) {
  return state >= TaskState::kAhead && state <= TaskState::kRunning;
}
constexpr bool IsSettled(TaskState state) {
  return state >= TaskState::kDone;
}

struct Counts {
  uint64_t total = 0, waiting = 0, ready = 0, sent = 0, running = 0, done = 0, failed = 0, skipped = 0,
           cancelled = 0, pruned = 0, elsewhere = 0, held = 0;
  uint64_t settled() const { return done + failed + skipped + cancelled + pruned; }
  // Of the waiting, ready, sent and running: tasks that were done, and make lost outputs again.
  uint64_t remaking = 0;
  uint64_t attempts = 0, losses = 0, stolen = 0;
  // The input bytes of tasks by where they were when the task was assigned.
  uint64_t local_bytes = 0, remote_bytes = 0;
  // With local files, of the local ones: where the file was placed or made, and not only copied to.
  uint64_t home_bytes = 0;
};

/// The tasks of one shape that are ready and may be moved to another server, and how many of such tasks run
/// at once where nothing else does.
struct ShapeQueue {
  Shape shape;
  uint64_t ready = 0;
  uint64_t in_flight = 0;
  uint32_t workers = 0;
};

/// Ready tasks that ask for the same, and declare to take no longer than the same.
struct ReadyKind {
  Shape shape;
  // 0: they have no limit.
  Duration time_limit{0};
  uint64_t ready = 0;
};

/// A task that runs, writes checkpoints, and is to stay.
struct Checkpointer {
  TaskId task;
  Shape shape;
  // What a checkpoint takes, as long as that is known, else at most.
  Duration takes{0};
};

/// How a task came to the node it was assigned to.
enum class TakenFrom : uint8_t { kNothing, kNodeQueue, kRemoteQueue, kSteal, kAdopted, kGang, kMoved };

/// Why a task is where it is, for people.
struct Explanation {
  TaskState state = TaskState::kWaiting;
  // Predecessors that it waits for still (at most 20).
  std::vector<TaskId> waits_for;
  // The nodes in whose queues it stands; empty: it stands in the remote queue. Of a task of several nodes:
  // those that keep room for it.
  std::vector<NodeId> candidates;
  // The node where it is or was.
  NodeId node;
  TakenFrom taken_from = TakenFrom::kNothing;
  // How much of its input nodes hold now, most first (at most 10).
  std::vector<std::pair<NodeId, int64_t>> input_at;
  // About how many ready tasks its order puts before it.
  uint32_t ahead_in_queue = 0;
  // One or two sentences.
  std::string text;
};

/// The scheduler: events in, actions out. Deterministic: the same events at the same times give the same
/// actions. It has no clock, thread, file or socket. The graph must outlive it and be sealed before
/// TasksAdded names its tasks.
class Scheduler {
 public:
  /// `draws`: where rank+hrf takes its random numbers from, instead of a generator seeded by the options; for
  /// tests.
  Scheduler(const graph::Graph& graph, const Options& options, order::Draws* draws = nullptr);
  ~Scheduler();

  /// Takes one event in and appends what is to be done. Events that come too late (a node already lost, a
  /// task already settled) are ignored: agents and messages may be late, the state is never wrong.
  void Handle(Time now, const Event& event, std::vector<Action>* actions);
  /// The same for events of one instant: nothing is started before all have been taken in.
  void HandleAll(Time now, const std::vector<Event>& events, std::vector<Action>* actions);

  /// Brings what the end of a task in flight will read into the cache, a step of the way at a time (0, 1, 2);
  /// for a caller that knows some ends before they come.
  void PrefetchEnd(TaskId task, int step) const;

  TaskState state(TaskId task) const;
  uint32_t attempts(TaskId task) const;
  NodeId node(TaskId task) const;
  uint32_t losses(TaskId task) const;
  /// Without those that cost nothing.
  uint32_t counted_attempts(TaskId task) const;
  /// Is it to go elsewhere (MoveRequested), and has not yet?
  bool IsMoving(TaskId task) const;
  /// Would TaskStarted of that attempt, which this scheduler does not believe to be in flight, be taken in?
  bool MayAdopt(AttemptId attempt) const;
  const Counts& counts() const;
  /// The best value that it was told (BestKnown).
  std::optional<double> best() const;
  /// The least bound of the tasks here that are open; none: none of them has one.
  std::optional<double> LeastBound() const;
  Explanation Explain(TaskId task) const;
  /// Nothing can be connected to it any more: one that has read it is done, nobody holds it open and all its writers are settled, or
  /// its tasks are another server's.
  bool HasEnded(StreamId stream) const;
  /// With local files: the file by which its replicas are known, itself or an output directory that it lies
  /// below.
  FileId HeldAs(FileId file) const;
  std::vector<NodeId> HoldersOf(FileId file) const;
  /// It lies in the submit directory, too.
  bool IsShared(FileId file) const;
  /// It makes lost outputs again, or may (AskOthers); and this is not answered.
  bool IsRemaking(TaskId task) const;
  bool IsAsking(TaskId task) const;
  /// Some task reads it that is not done.
  bool IsWanted(FileId file) const;
  /// Nodes that are there or expected can give what the task asks for, as far as is known.
  bool CanRun(TaskId task) const;
  /// Bytes held, the graph's included (without text).
  size_t MemoryWithoutText() const;
  /// What there is to be moved, and which tasks that would be: see movable.h.
  std::vector<ShapeQueue> QueuesByShape() const;
  /// All that only wait for a slot, those of several nodes and those that have no time left here included.
  std::vector<ReadyKind> ReadyKinds() const;
  /// Those of one node, by task.
  std::vector<Checkpointer> Checkpointers() const;
  std::vector<TaskId> LastInOrder(const Shape& shape, uint64_t count, uint64_t keep) const;
  std::vector<TaskId> ShareOf(double part);
  /// Where tasks are placed by costs: what waits here and what has ended, by kind (Placer::work_by_kind); and how many tasks that others have are
  /// in the model.
  std::optional<std::vector<cost::Work>> WorkByKind() const;
  uint64_t ModelledOfOthers() const;
  /// Checks every invariant; ends the process with a message when one is broken. For tests.
  void SanityCheck() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace harrow::core
