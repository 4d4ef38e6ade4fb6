#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <sys/types.h>
#include <vector>

#include "agent/capture.h"
#include "agent/collector.h"
#include "agent/command.h"
#include "agent/dispatcher.h"
#include "agent/environment.h"
#include "agent/slot_tmp.h"
#include "os/clock.h"
#include "os/spawn.h"
#include "topology/slots.h"

struct rusage;

namespace harrow::agent {

/// What all slots of an agent share. The limits are set before the first task (Welcome).
struct NodeContext {
  std::vector<topology::Slot> slots;
  std::vector<topology::Device> devices;
  std::string tmp_root;                           // empty: TMPDIR stays as inherited
  uint64_t local_limit = 0;                       // bytes that all tasks may hold below tmp_root; 0: no limit
  std::string directory;                          // the agent's current one
  uint64_t task_descriptors = 0;                  // soft RLIMIT_NOFILE of tasks; 0: the agent's own
  std::atomic<uint64_t> output_limit{64u << 20};  // bytes a task and stream
  std::atomic<int64_t> kill_wait_ns{5'000'000'000};
};

/// What others tell the thread of a slot while it runs a task.
struct SlotSignals {
  std::atomic<uint8_t> end_as{0};          // an End: the task is to be ended, for this reason
  std::atomic<int64_t> blind_since_ns{0};  // steady; > 0: it waits for the process alone (task_runner.cc)
  int wake_fd = -1;                        // eventfd, written after end_as was set
};

/// Runs tasks of one slot, one after the other, on the slot's thread.
class TaskRunner {
 public:
  TaskRunner(uint32_t slot, const NodeContext& node, const os::Clock& clock, Collector& collector,
             SlotSignals& signals);

  /// The result's output has been handed to the collector.
  TaskResult Run(const Assignment& assignment);

 private:
  struct Files;

  Status RemoveOutputs(const LocalTask& task);
  Status OpenFiles(const LocalTask& task, Files* files);
  /// -1: not started, and *result says why.
  pid_t Start(const Assignment& assignment, TaskResult* result);
  bool WaitBlindly(pid_t pid, int* wait_status, rusage* usage);
  void WaitWatching(const Assignment& assignment, TaskResult* result, pid_t pid, int* wait_status,
                    rusage* usage);
  Duration KillWait() const { return Duration(node_.kill_wait_ns.load(std::memory_order_relaxed)); }
  /// Takes in what is left in the pipes; waits a little for those who still hold them.
  void DrainPipes(pid_t group);

  const uint32_t slot_;
  const NodeContext& node_;
  const os::Clock& clock_;
  Collector& collector_;
  SlotSignals& signals_;

  os::Spawner spawner_;
  int64_t starter_peak_kib_ = 0;  // of the last start
  ArgumentBuilder arguments_;
  ProgramFinder programs_;
  EnvironmentBuilder environment_;
  SlotTmp tmp_;
  CapturedStream stdout_, stderr_;
  Duration started_{0};        // steady
  bool expect_short_ = false;  // the task before was short and said little
};

}  // namespace harrow::agent
