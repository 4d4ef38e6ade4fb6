#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "agent/batch_policy.h"
#include "agent/steps/capture.h"
#include "agent/steps/task.h"
#include "base/status.h"
#include "os/clock.h"
#include "output/packed_output.h"

namespace harrow::agent {

/// An attempt that was asked for a checkpoint goes on.
struct MissedCheckpoint {
  AttemptId attempt;
  std::string why;
};

/// What leaves together. The output of its results is in the kernel's hands.
struct Batch {
  std::vector<StartedTask> started;
  std::vector<TaskResult> ended;
  std::vector<MissedCheckpoint> missed{};
};

/// Gathers results and output of all slots, on a thread of its own: storage may be slow, and neither the
/// slots nor the event loop should wait for it. Add... may be called by any thread.
class Collector : public OutputSink {
 public:
  /// `deliver` takes a batch, `problem` a line for the user (output cannot be written); both on the
  /// collector's thread.
  Collector(std::unique_ptr<output::Writer> writer, const os::Clock& clock,
            std::function<void(Batch)> deliver, std::function<void(std::string)> problem,
            BatchPolicy policy = {});
  ~Collector() override;  // what was added is written and delivered first

  /// `pulse` is called now and then from WantPulse() on, until it returns false. Set before the first use.
  void SetPulse(std::function<bool()> pulse) { pulse_ = std::move(pulse); }
  void StopPulse();
  void WantPulse();

  uint64_t AddOutput(uint32_t task, uint32_t attempt, output::Stream stream, std::string_view data,
                     std::optional<uint32_t> rank) override;
  void AddStarted(const StartedTask& task);
  void AddEnded(TaskResult&& result);
  void AddMissed(AttemptId attempt, std::string why);
  /// A line for the user.
  void AddProblem(std::string text);
  /// What waits leaves soon: a slot has nothing to do.
  void Hurry();
  /// The run, or this agent, ends: storage that fails is waited for no longer than a moment. Output that
  /// cannot be written then is dropped, and the attempts it belongs to end as interrupted, so that they run
  /// again.
  void GiveUpOutput();
  /// `stuck` is called once, on the collector's thread, when output could not be written for `patience`. Set
  /// before the first use.
  void SetStuck(Duration patience, std::function<void(std::string)> stuck) {
    patience_ = patience;
    stuck_ = std::move(stuck);
  }
  /// The oldest batch that was delivered has arrived.
  void Arrived();
  /// What has ended and is not in a batch that has arrived.
  std::vector<StartedTask> Undelivered();

 private:
  void Run();
  /// Writes what is buffered; an error, told to the user once, when that cannot be done now.
  Status FlushOutput();
  /// Drops what cannot be written, and makes the attempts that it belongs to interrupted ones; false: there
  /// is nothing.
  bool DropOutput(const Status& why);
  void MarkLost(TaskResult* result);

  std::unique_ptr<output::Writer> writer_;
  const os::Clock& clock_;
  std::function<void(Batch)> deliver_;
  std::function<void(std::string)> problem_;
  std::function<bool()> pulse_;
  const BatchPolicy policy_;

  std::mutex mutex_;              // of what follows
  std::condition_variable wake_;  // of the collector's thread
  std::condition_variable room_;  // of those who wait for storage
  Batch waiting_;
  std::vector<std::string> problems_;
  BatchPolicy::State state_;
  std::deque<std::vector<StartedTask>> on_its_way_;  // of each batch that has not arrived
  std::vector<uint64_t> unwritten_;                  // attempts with output that may not have been written
  std::unordered_map<uint64_t, std::string> lost_;   // attempts whose output was dropped, and why
  std::optional<Duration> giving_up_;                // since when
  bool stop_ = false;
  bool sleeping_ = false;  // without a time limit that is near: has to be woken

  std::atomic<bool> pulsing_{false};
  std::optional<Duration> output_fails_;  // of the thread: since when
  bool told_stuck_ = false;               // of the thread
  bool dropped_ = false;                  // of the thread
  Duration patience_ = Duration::max();
  std::function<void(std::string)> stuck_;
  std::thread thread_;
};

}  // namespace harrow::agent
