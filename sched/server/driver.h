#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "core/scheduler.h"
#include "journal/journal.h"
#include "server/flow_store.h"
#include "server/node_table.h"
#include "server/recorder.h"
#include "wire/channel.h"
#include "wire/harrow.pb.h"

namespace harrow::server {

/// What time it is, on both clocks.
struct Moment {
  Time now;
  WallTime wall;
  int64_t wall_ns() const { return wall.time_since_epoch().count(); }
};

struct DriverOptions {
  uint64_t epoch = 1;
  uint32_t nodes_expected = 1;                   // of the allocation
  uint32_t gather_ticks = 8;                     // after a restart, so long known agents are waited for
  uint32_t join_ticks = 60;                      // nodes that have not come by then are not waited for
  uint32_t return_ticks = 300;                   // lost ones neither, by tasks that fit nowhere else
  Duration heartbeat = std::chrono::seconds(1);  // what agents are told
  Duration dead_after = std::chrono::milliseconds(3500);  // a node unheard of for so long is lost,
  Duration gone_after = std::chrono::seconds(3);   // one whose agent has hung up and does not dial again,
  Duration hung_after = std::chrono::seconds(20);  // and one that answers while its agent does not
  Duration kill_wait = std::chrono::seconds(5);
  std::unordered_map<std::string, uint64_t> memory_granted{};  // bytes, by node; not named: all that it has
};

/// Drives core::Scheduler: what agents say becomes events of one instant, its actions become one message an
/// agent, and all that has ended is recorded. Has no clock, socket or thread of its own; of one thread.
class RunDriver {
 public:
  struct Hooks {
    std::function<void(const wire::Channel*)> drop_agent;              // its connection is no longer wanted
    std::function<void()> wake;                                        // Flush is due, soon
    std::function<void(const journal::AttemptRecord&)> attempt_ended;  // may be empty
    std::function<void(const std::string&)> tell{};                    // a line for the user; may be empty
  };
  RunDriver(const StoredFlow& flow, const DriverOptions& options, journal::Journal* journal, Hooks hooks);

  /// What the journal knows of earlier servers and runs; before Begin. kDamaged when it does not fit the
  /// flow.
  Status Restore(const journal::History& history);
  /// Starts scheduling, at once or when the agents that an earlier server knew have told what they run.
  void Begin(const Moment& moment);

  /// An agent introduces itself on a channel. kRefused: why it cannot take part.
  Result<NodeId> Join(const Moment& moment, std::shared_ptr<wire::Channel> channel,
                      const pb::FromAgent& message);
  void Handle(const Moment& moment, NodeId node, const pb::FromAgent& message);
  void Disconnected(NodeId node, const wire::Channel* channel);
  /// Hands what came in to the scheduler and sends what follows.
  void Flush(const Moment& moment);
  /// Each second: waiting for agents.
  void Tick(const Moment& moment);
  /// Some times a second: agents and nodes that are heard of no more.
  void FindSilent(const Moment& moment);
  /// The journal has all up to `sequence` on disk.
  void Committed(uint64_t sequence);

  void Cancel(const std::vector<TaskId>& tasks);
  /// Starts nothing more and ends what runs as interrupted: the run can be resumed.
  void Interrupt(const Moment& moment);
  void EndTime(const Moment& moment, WallTime end);
  /// Tells all agents to end.
  void ShutDownAgents(const std::string& reason);
  void RecordNodesLeft(const Moment& moment);

  /// Nothing is left to do, or nothing can be done any more.
  bool complete() const { return complete_; }
  /// How many tasks are open and not to be run; known from Restore on.
  uint64_t unwanted() const { return unwanted_; }
  bool interrupted() const { return interrupted_; }
  /// Tasks are open because there was no time for them; the run can be resumed.
  bool left_open() const { return left_open_ > 0; }
  /// A node that should have an agent and has none: it was lost, or has not come in time.
  bool IsAbsent(const std::string& node) const;
  bool agents_connected() const { return nodes_.connected_count() > 0; }
  bool gathering() const { return phase_ == Phase::kGathering; }

  void Snapshot(const Moment& moment, bool with_nodes, pb::Progress* progress) const;
  /// Some lines for people about a task.
  std::string Explain(TaskId task) const;
  const core::Scheduler& scheduler() const { return scheduler_; }
  Recorder& recorder() { return recorder_; }
  bool IsUnwanted(TaskId task) const;

 private:
  enum class Phase { kIdle, kGathering, kRunning };
  struct Running {
    NodeId node;
    int64_t start_ns = 0;
    uint32_t cores = 1;
  };

  void Welcome(Node& node);
  void Reconcile(const Moment& moment, Node& node, const pb::FromAgent& message, bool rejoined);
  void Tell(const std::string& line);
  void RecordLost(const Moment& moment, const Node& node, TaskId task, const std::string& why);
  void Adopt(Node& node, TaskId task, uint32_t attempt, int64_t start_ns);
  void TakeStarted(NodeId node, const pb::TasksStarted& started);
  void TakeEnded(const Moment& moment, Node& node, const pb::TasksEnded& ended);
  void TakeAttempt(const Moment& moment, Node& node, const pb::Attempt& attempt);
  bool EndedUnasked(const pb::Attempt& attempt) const;
  void Lose(const Moment& moment, Node& node, const std::string& why);
  void EndGathering(const Moment& moment);
  void Act(const Moment& moment, const core::Action& action);
  void Start(const core::StartTask& start);
  void Settle(const Moment& moment, const core::TaskSettled& settled);
  void AllJoined();
  void SendAll();
  core::Outcome OutcomeOf(const pb::Attempt& attempt) const;
  bool IsAt(TaskId task, NodeId node) const;
  bool IsAt(TaskId task, NodeId node, uint32_t attempt) const;
  bool NeverSent(TaskId task) const;
  void NoteStarted(TaskId task, NodeId node, int64_t start_ns);
  void NoteEnded(TaskId task);
  void Wake();

  const StoredFlow& flow_;
  const graph::Graph& graph_;
  DriverOptions options_;
  Hooks hooks_;
  core::Scheduler scheduler_;
  Recorder recorder_;
  NodeTable nodes_;
  Phase phase_ = Phase::kIdle;
  uint32_t gather_ticks_ = 0, join_ticks_ = 0;
  bool all_joined_ = false;
  std::unordered_set<std::string> awaited_;        // names of nodes an earlier server knew
  std::unordered_map<uint32_t, NodeId> unsure_;  // tasks that an agent may still begin; while gathering
  std::unordered_set<uint32_t> perhaps_begun_;     // sent to a node that was lost: may have left outputs
  std::unordered_map<uint32_t, Running> running_;  // reported as started
  struct Tries {
    uint32_t attempts = 0, losses = 0;
  };
  std::unordered_map<uint32_t, Tries> tries_;  // of earlier servers of this session; until Begin
  struct InputBytes {
    int64_t local = 0, remote = 0;
  };
  std::unordered_map<uint32_t, InputBytes> input_bytes_;  // of tasks that are out, where not 0
  std::vector<core::Event> events_;
  std::vector<core::Action> actions_;
  bool wake_pending_ = false, complete_ = false, interrupted_ = false;
  uint64_t left_open_ = 0;  // settled as skipped by the scheduler, and open all the same

  // figures: of earlier servers and of this one
  uint64_t unwanted_ = 0;  // tasks not needed and not done before
  uint64_t earlier_attempts_ = 0, losses_ = 0;
  int64_t earlier_local_bytes_ = 0, earlier_remote_bytes_ = 0;
  int64_t busy_ns_ = 0;                               // of ended attempts, times cores
  // Sums over running_: cores, start x cores. Their sum may go round; what is made of it does not.
  uint64_t running_cores_ = 0, running_start_ns_ = 0;
  uint32_t most_slots_ = 0;
};

}  // namespace harrow::server
