#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "agent/collector.h"
#include "agent/core/core.h"
#include "agent/steps/memory_watch.h"
#include "agent/task_host.h"
#include "agent/task_runner.h"

namespace harrow::agent {

/// The slots of a node: drives the core with real threads, one a slot, which start and look after what the
/// core gives them. The threads live as long as the pool, for their tasks are killed when they end. All calls
/// from any thread.
class SlotPool : public TaskHost, private MemoryWatch::Host {
 public:
  SlotPool(NodeContext& node, const os::Clock& clock, Collector& collector);
  /// Ends what runs at once, then the threads.
  ~SlotPool() override;

  void Push(std::vector<LocalTask> tasks) override;
  std::vector<AttemptId> TakeBack(const std::vector<AttemptId>& attempts) override;
  void EndTasks(const std::vector<AttemptId>& attempts, End reason) override;
  void AskForCheckpoints(const std::vector<AttemptId>& attempts) override;
  void Close(End reason) override;
  /// An input of an attempt has come, or will not.
  void InputArrived(AttemptId attempt);
  void InputFailed(AttemptId attempt, const std::string& why);
  /// What runs of it has something to look at (Pmi1Port, StreamHost).
  void WakeSlotsOf(AttemptId attempt);
  /// It holds the most of a disk that is too full (local_watch.h).
  void DiskLimitReached(AttemptId attempt);
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
    std::atomic<pid_t> thread_id{0};
    std::thread thread;
  };

  void MakeRoomForDescriptors();
  void RunSlot(uint32_t slot);
  void RunAlarm();
  void AskWhoEndedIt(TaskResult* result);
  /// Holding mutex_, as all below: tells the core, and does what it says. `caller`: the slot whose thread
  /// this is.
  void Tell(const Event& event, std::optional<uint32_t> caller = std::nullopt);
  void Do(const Spawn& action);
  void Do(const Signal& action);
  void Do(const Warn& action);
  void Do(const AskCheckpoint& action);
  void Do(const CheckpointLate& action);
  void Do(const Returned& action);
  void Do(const Report& action);
  void Do(const WakeAt& action);
  void Send(LocalTask task);
  void Forget(uint32_t tag);
  /// The core learns what the fence page says.
  void TellFence();
  Time Now() const { return Time(clock_.Steady()); }
  void Wake(Slot& slot);
  /// By a thread that has its descriptor.
  static void WriteTo(const Slot& slot);
  /// By the alarm's thread: that of a slot has none of the others' descriptors.
  void HaveWoken(Slot& slot);
  void ReportUnstarted(const LocalTask& task, End reason, std::string why = {});

  std::optional<Look> NextLook() override;
  void MemorySeen(const Look& look, uint64_t bytes, Duration rest) override;

  NodeContext& node_;
  const os::Clock& clock_;
  Collector& collector_;
  std::mutex mutex_;
  Core core_;                              // of mutex_
  std::deque<LocalTask> tasks_;            // of mutex_; by tag. A slot reads its own without it
  std::vector<uint32_t> free_tags_;        // of mutex_
  std::vector<Action> actions_;            // of mutex_, used again
  std::vector<AttemptId> returned_;        // of mutex_
  std::optional<uint32_t> caller_;         // of mutex_, during Tell
  std::vector<Slot*> to_wake_;             // of mutex_, by the alarm's thread
  std::condition_variable alarm_changed_;  // of mutex_
  std::condition_variable closing_;        // of mutex_
  std::optional<Time> closed_at_;          // of mutex_: all ends
  std::optional<Time> asked_in_vain_;      // of mutex_: who ended a task, last
  std::optional<Time> alarm_;              // of mutex_: when the core wants to be told the time
  bool stop_ = false;                      // of mutex_
  bool slots_ended_ = false;               // of mutex_
  std::vector<std::unique_ptr<Slot>> slots_;
  std::thread alarm_thread_;
  std::optional<MemoryWatch> memory_watch_;
};

}  // namespace harrow::agent
