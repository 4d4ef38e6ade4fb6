#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "core/event.h"
#include "graph/graph.h"
#include "order/draws.h"
#include "order/policy.h"

namespace harrow::core {

struct Options {
  order::Policy policy = order::Policy::kLifoHrf;
  bool locality = true;
  bool steal = true;
  uint64_t seed = 1;
  int32_t retries = 0;        // default of tasks that say nothing
  uint32_t max_losses = 5;    // a task whose attempts are lost that often has failed
  uint32_t max_failures = 0;  // stop starting tasks after that many failed tasks; 0: never
  bool fail_fast = false;     // as max_failures = 1, and running tasks are cancelled
  uint32_t bad_node_failures =
      0;  // consecutive failures within bad_node_time that close a node (never the last one); 0: off
  Duration bad_node_time = std::chrono::seconds(1);
  bool shared_files = true;  // the node that ended a task holds its inputs and outputs (page cache)
  Duration ahead_limit =
      std::chrono::milliseconds(20);  // no sending ahead for tasks whose mean run time is above
  uint32_t max_ahead = 256;           // tasks sent ahead to one node, at most, per slot
};

enum class TaskState : uint8_t {
  kWaiting,        // for other tasks
  kDelayed,        // for nothing but some time, after losses
  kReady,          // in queues
  kAhead,          // sent to a node, behind what has its slots
  kAheadRecalled,  // the same, and asked back
  kSent,           // it has a slot, and is not known to have begun
  kRecalled,       // the same, and was asked back before
  kRunning,
  kDone,
  kFailed,
  kSkipped,
  kCancelled,
};
constexpr bool IsInFlight(TaskState state) {
  return state >= TaskState::kAhead && state <= TaskState::kRunning;
}
constexpr bool IsSettled(TaskState state) {
  return state >= TaskState::kDone;
}

struct Counts {
  uint64_t total = 0, waiting = 0, ready = 0, sent = 0, running = 0, done = 0, failed = 0, skipped = 0,
           cancelled = 0;
  uint64_t attempts = 0, losses = 0, stolen = 0;
  uint64_t local_bytes = 0, remote_bytes = 0;  // input bytes by where they were when the task was assigned
};

/// How a task came to the node it was assigned to.
enum class TakenFrom : uint8_t { kNothing, kNodeQueue, kRemoteQueue, kSteal, kAdopted, kGang };

/// Why a task is where it is, for people.
struct Explanation {
  TaskState state = TaskState::kWaiting;
  std::vector<TaskId> waits_for;   // unfinished predecessors (at most 20)
  std::vector<NodeId> candidates;  // nodes in whose queue it stands; empty: the remote queue
  NodeId node;                     // where it is or was
  TakenFrom taken_from = TakenFrom::kNothing;
  uint32_t ahead_in_queue = 0;  // ready tasks that its order puts before it, about
  std::string text;             // one or two sentences
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
  const Counts& counts() const;
  Explanation Explain(TaskId task) const;
  /// Bytes held, the graph's included (without text).
  size_t MemoryWithoutText() const;
  /// Checks every invariant; ends the process with a message when one is broken. For tests.
  void SanityCheck() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace harrow::core
