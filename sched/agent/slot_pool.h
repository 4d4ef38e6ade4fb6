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
  std::vector<uint32_t> TakeBack(const std::vector<uint32_t>& tasks) override;
  void EndTasks(const std::vector<uint32_t>& tasks, End reason) override;
  void Close(End reason) override;
  /// The task that the slot's thread runs.
  std::optional<uint32_t> TaskOf(uint32_t slot);
  Snapshot TakeSnapshot() override;
  bool Idle() override;

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
  /// Holding mutex_: gives out queued tasks and wakes the slots that got one.
  void Dispatch(std::optional<uint32_t> caller);
  void EndRunning(Slot& slot, End reason);
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
