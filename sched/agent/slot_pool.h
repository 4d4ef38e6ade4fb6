#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "agent/collector.h"
#include "agent/dispatcher.h"
#include "agent/task_host.h"
#include "agent/task_runner.h"

namespace harrow::agent {

/// The slots of a node: a thread each, which takes the next queued task itself as soon as one is over. The
/// threads live as long as the pool, for their tasks are killed when they end. All calls from any thread.
class SlotPool : public TaskHost {
 public:
  SlotPool(NodeContext& node, const os::Clock& clock, Collector& collector);
  /// Ends what runs at once, then the threads.
  ~SlotPool() override;

  void Push(std::vector<LocalTask> tasks) override;
  std::vector<AttemptId> TakeBack(const std::vector<AttemptId>& attempts) override;
  void EndTasks(const std::vector<AttemptId>& attempts, End reason) override;
  void Close(End reason) override;
  /// What the slot's thread runs.
  std::optional<AttemptId> TaskOf(uint32_t slot);
  Snapshot TakeSnapshot() override;
  bool Idle() override;

  /// Tasks may run until this steady time (FencePage::kNoFence: whenever) and stand from then on; those that
  /// stood go on. False, and nothing is done, while one that was ended as it stood has not been killed yet.
  bool RunUntil(Duration until);

  /// Interrupts blind waits that have lasted too long (task_runner.cc). True while any slot waits blindly.
  bool InterruptBlindWaits();

 private:
  struct Slot {
    SlotSignals signals;
    std::condition_variable wake;  // of mutex_
    WallTime start{};              // of mutex_: when it was given its task
    std::atomic<pid_t> thread_id{0};
    std::thread thread;
  };

  void MakeRoomForDescriptors();
  void Run(uint32_t slot);
  /// Holding mutex_: gives out queued tasks and wakes the slots that got one; none while tasks have to stand.
  void Dispatch(std::optional<uint32_t> caller);
  void EndRunning(Slot& slot, End reason);
  void Wake(Slot& slot);
  void ReportUnstarted(const LocalTask& task, End reason, std::string why = {});

  NodeContext& node_;
  const os::Clock& clock_;
  Collector& collector_;
  std::mutex mutex_;
  Dispatcher dispatcher_;        // of mutex_
  std::vector<uint32_t> given_;  // of mutex_, used again
  End closed_ = End::kRunning;   // of mutex_; else: what is pushed ends so
  bool stop_ = false;            // of mutex_
  std::vector<std::unique_ptr<Slot>> slots_;
};

}  // namespace harrow::agent
