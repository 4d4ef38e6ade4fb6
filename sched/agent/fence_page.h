#pragma once

#include <atomic>
#include <cstdint>
#include <sys/types.h>

#include "base/time.h"

namespace harrow::agent {

/// Until when an agent's tasks may run, in a page of memory that it shares with its warden: the one thing
/// that all who stop tasks, let them go on or start them look at (how they work together: fence_page.cc).
/// Times are steady, the same in every process of the machine. Only the agent moves it, holding the slots'
/// lock; anybody reads it.
class FencePage {
 public:
  static constexpr Duration kNoFence = Duration::max();
  /// What a warden is sent when it has to look again, also one that has been stopped.
  static const int kLookAgain;

  /// In memory that children share after a fork, for the rest of the process's life; null: there is none.
  static FencePage* MakeShared();

  /// For a new agent, which knows of no fence yet; `warden`: who is told, 0: nobody.
  void Reset(pid_t warden);

  Duration until() const {
    const int64_t until = until_ns_.load();
    return until == 0 ? kNoFence : Duration(until);
  }
  bool MayRun(Duration now) const { return now < until(); }
  /// For how long tasks have had to stand so far, all times together. Told before they may run again.
  Duration stood() const { return Duration(stood_ns_.load()); }
  /// The number of the agent's output files; 0: not known yet.
  uint32_t output_file() const { return output_file_.load(); }
  void SetOutputFile(uint32_t number) { output_file_.store(number); }
  /// For os::SpawnRequest.
  const std::atomic<int64_t>* until_ns() const { return &until_ns_; }

  /// Tasks may run until then; a time that has passed ends no stand. True when all who look have to look now:
  /// tasks had to stand and may run again, or have less time than they had.
  bool Renew(Duration until, Duration now);

 private:
  std::atomic<int64_t> until_ns_{0};  // 0: no fence
  std::atomic<int64_t> stood_ns_{0};
  std::atomic<pid_t> warden_{0};
  std::atomic<uint32_t> output_file_{0};
};

}  // namespace harrow::agent
