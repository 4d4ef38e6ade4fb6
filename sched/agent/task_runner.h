#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <sys/resource.h>
#include <sys/types.h>
#include <vector>

#include "agent/collector.h"
#include "agent/core/core.h"
#include "agent/fence_page.h"
#include "agent/steps/checkpoint.h"
#include "agent/steps/command.h"
#include "agent/steps/criu_tool.h"
#include "agent/steps/declared_outputs.h"
#include "agent/steps/devices.h"
#include "agent/steps/directory.h"
#include "agent/steps/environment_step.h"
#include "agent/steps/gangs.h"
#include "agent/steps/memory.h"
#include "agent/steps/pinning.h"
#include "agent/steps/pmi_socket.h"
#include "agent/steps/ranks.h"
#include "agent/steps/sandbox.h"
#include "agent/steps/slot_tmp.h"
#include "agent/steps/streams.h"
#include "agent/steps/team.h"
#include "made/copies.h"
#include "made/record.h"
#include "os/clock.h"
#include "os/process.h"
#include "os/spawn.h"
#include "topology/slots.h"

namespace harrow::agent {

/// What all slots of an agent share. The limits are set before the first task (Welcome).
struct NodeContext {
  std::vector<topology::Slot> slots;
  std::vector<topology::Device> devices;
  TmpRoot tmp_root;               // empty: TMPDIR stays as inherited
  uint64_t local_limit = 0;       // bytes that all tasks may hold below tmp_root; 0: no limit
  std::string directory;          // the agent's current one
  FileHost* files = nullptr;      // of the flow; set before the first task that runs in a sandbox
  TmpRoot rank_root;              // where attempts of several ranks have their directories; empty: nowhere
  RankServers rank_servers;       // of MPI tasks
  std::unique_ptr<CriuTool> criu;  // for tasks that it dumps
  Gangs* gangs = nullptr;         // of tasks of several nodes; null: there are none
  StreamHost* streams = nullptr;  // between tasks; set before there are slots. Null: there are none
  uint64_t memory = 0;            // bytes; 0: not known
  uint64_t task_descriptors = 0;  // soft RLIMIT_NOFILE of tasks; 0: the agent's own
  std::atomic<uint64_t> output_limit{64u << 20};  // bytes a task and stream; 0: no limit
  made::Record made;                              // of declared outputs
  made::Copies copies;                            // of results
  bool in_step = false;  // of a job, or a unit of systemd: its end is a signal to every process
  std::atomic<int64_t> job_ends_ns{0};  // wall: when the batch system will do that; 0: not known
  std::atomic<int64_t> kill_wait_ns{5'000'000'000};
  FencePage own_fence;
  FencePage* fence = &own_fence;  // until when tasks may run
};

/// What others tell the thread of a slot while it runs a task.
struct SlotSignals {
  enum Asked : uint8_t { kNothing, kEnd, kKill };
  std::atomic<uint8_t> reason{0};  // an End: the task is to be ended, for this reason
  std::atomic<bool> from_within{
      false};  // which is that another process of it has failed; set before `reason`
  std::atomic<uint8_t> asked{kNothing};  // what the thread has still to send it for that; set after `reason`
  std::atomic<int64_t> blind_since_ns{0};  // steady; > 0: it waits for the process alone (task_runner.cc)
  // It is asked for a checkpoint; kTold: and this process is to be told so.
  enum Question : uint8_t { kNone, kKnown, kTold };
  std::atomic<uint8_t> question{kNone};
  std::string refusal{};  // why there is no checkpoint; set by the thread before it tells of CheckpointRefused
  std::atomic<bool> warned{false};         // it is to be told that its time limit is near
  std::atomic<bool> kill_owed{false};      // kKill came as tasks had to stand, and has not been done
  std::atomic<pid_t> process{0};           // > 0: runs, and has not been reaped; set by the thread
  int wake_fd = -1;                        // eventfd, written after `asked` was set or the fence renewed
};

/// Runs tasks of one slot, one after the other, on the slot's thread.
class TaskRunner {
 public:
  /// Tells the core (ProcessStarted, ProcessEnded, CheckpointRefused).
  using TellCore = std::function<void(const Event& event)>;

  TaskRunner(uint32_t slot, NodeContext& node, const os::Clock& clock, Collector& collector,
             SlotSignals& signals, TellCore tell_core);

  struct Ran {
    bool later = false;  // it was too late to begin, because tasks have to stand; it may be run later
    /// The attempt's, whose output has been handed to the collector. None: another process's thread has it.
    std::optional<TaskResult> result{};
  };
  Ran Run(const LocalTask& task, const Core::Given& given);

 private:
  bool MayRun() const { return node_.fence->MayRun(clock_.Steady()); }
  bool ToEnd() const { return signals_.reason.load() != 0; }
  /// Why the task is to end, but for a process of its own that has failed; kRunning: it is not.
  End AskedFromOutside() const {
    const auto reason = static_cast<End>(signals_.reason.load());
    return signals_.from_within.load() ? End::kRunning : reason;
  }
  /// Of a part of an attempt of several nodes that has no process: keeps its slots until it is told to end.
  TaskResult Hold(const LocalTask& task, TaskResult result);
  /// The parts on other nodes have succeeded, too; or this one is to end.
  void AwaitOtherParts(const LocalTask& task);
  /// -1: not started, and *result says why; kRunning: too late.
  pid_t Start(const LocalTask& task, const Core::Given& given, TaskResult* result);
  /// Those of the steps up to `end` that are not prepared yet.
  bool Prepare(size_t end, Launch* launch, TaskResult* result);
  /// Waits for those on the other nodes, where there are any. False: the attempt is not to begin.
  bool AreAllPartsReady(const LocalTask& task, TaskResult* result);
  /// The same of all, for a process of a team.
  bool PrepareInTeam(Launch* launch, TaskResult* result);
  os::SpawnOutcome Spawn(const LocalTask& task, Launch* launch, std::string* path);
  /// Of the steps that were prepared, from `begin` on.
  void Settle(size_t begin, const LocalTask& task, TaskResult* result);
  /// Its process, if there was one, has ended. The attempt's result, from the first of its processes.
  std::optional<TaskResult> SettleInTeam(const LocalTask& task, const Core::Given& given, TaskResult result);
  /// What the server of ranks has seen of the process that has ended, or is not to be started.
  RankEnd EndOfRank(const LocalTask& task, TaskResult result) const;
  /// Before it is reaped: those that wait for it are not to wait for long. Not of one that may be needed: nothing of
  /// it is to go on as long as others decide that.
  void TellEnded(const LocalTask& task, const Core::Given& given, pid_t pid);
  /// Of its outputs, where it writes any; `beaten`: when the last beat was.
  void BeatWhenDue(Duration* beaten);
  /// Whether others wait for the process, which may be needed.
  bool AwaitNeed(const LocalTask& task, const Core::Given& given);
  struct Ended {
    int status = 0;
    rusage usage{};
    bool reaped = false;
    bool group_left = false;  // it is reaped, and there was somebody in its process group then
  };
  /// Until somebody has something for this slot to look at (SlotSignals::wake_fd), or earlier.
  void AwaitWakeUp();
  void TakeWakeUp();
  /// False: it was interrupted, and the process may run still.
  bool WaitBlindly(pid_t pid, Ended* ended);
  /// The process has ended, and has not been reaped, when it returns.
  void WaitWatching(const LocalTask& task, pid_t pid);
  /// The signal before the time limit: to the process alone, or to each srun below it, which hands it on to
  /// its step.
  void SendWarning(const ProfileSpec& spec, pid_t pid);
  /// A question for a checkpoint is passed on, until somebody has heard it.
  void PassOnQuestion(const LocalTask& task, pid_t pid, Duration now);
  /// How the process has ended, if nobody had asked for its end.
  End EndByItself(const CheckpointSpec& spec, bool exited, int code);
  /// What the core has asked for meanwhile.
  void CarryOut(pid_t pid);
  /// To a task that has not been reaped: its group, and whoever below it has left the group.
  void SignalTask(pid_t pid, std::initializer_list<int> signals);
  /// What is left of its process group.
  void KillGroup(pid_t pid, const Ended& ended);
  void EndThoseThatLeftTheGroup();
  /// From the pipes; waits a little for those who still hold them.
  void TakeInWhatIsLeft();

  const uint32_t slot_;
  NodeContext& node_;
  const os::Clock& clock_;
  Collector& collector_;
  SlotSignals& signals_;
  const TellCore tell_core_;

  os::Spawner spawner_;
  int64_t starter_peak_kib_ = 0;  // of the last start
  Sandbox sandbox_;
  Checkpoint checkpoint_;
  DeclaredOutputs outputs_;
  Streams streams_;
  SlotTmp tmp_;
  Command command_;
  Devices devices_;
  Environment environment_;
  Pinning pinning_;
  Memory memory_;
  Directory directory_;
  Ranks ranks_;
  PmiSocket pmi_socket_;
  const std::array<Step*, 13> steps_;
  size_t prepared_ = 0;                      // of them, for the attempt
  std::map<pid_t, os::Process> left_group_;  // of the task that is being ended
  os::Stopper standing_;                     // what the fence has stopped of the task
  End asked_to_end_ = End::kRunning;         // the reason for which the task has been signalled
  Duration stood_{0};                        // FencePage::stood() when the attempt began
  Duration stood_at_end_{0};                 // the same when its process ended
  bool process_began_ = false;               // of the running attempt
  bool told_ = false;                        // the core that its process has started
  std::optional<RankServer::Seen> seen_;     // of the process that has ended, if it is a rank
  bool may_be_needed_ = false;               // it has ended with 0, and never spoke with its server
  bool needed_ = false;                      // RankEnd::needed
  WallTime began_{};                         // of the running attempt
  Duration started_{0};                      // steady
  bool asked_ = false;                       // the running attempt, for a checkpoint,
  Duration asked_at_{0};                     // steady: then,
  Duration ask_again_ = Duration::max();     // and nobody has heard it: until then
  bool expect_short_ = false;                // the task before was short and said little
};

}  // namespace harrow::agent
