#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <sys/types.h>
#include <thread>
#include <utility>
#include <vector>

#include "agent/core/core.h"
#include "os/clock.h"

namespace harrow::agent {

/// What these processes, which have not been reaped, and those below them hold, in bytes: never less than
/// what they use, and exact (shared pages counted once) where it is more than `limit`.
uint64_t MemoryOfTask(std::span<const pid_t> pids, uint64_t limit);

/// Looks at the memory of a node's attempts when the core wants it (Core::NextLook), on a thread of its own:
/// the kernel may keep who looks waiting. Uses some kShare of a core at most: where there are many processes,
/// looks come later, those that matter most first. A single look may cost more than that; then its attempt is
/// left alone for longer than others.
class MemoryWatch {
 public:
  static constexpr double kShare = 0.009;

  /// What is to be looked at, and who wants to know. Called by the watch's thread.
  class Host {
   public:
    virtual ~Host() = default;
    struct Look {
      uint32_t slot = 0;
      Duration at{};  // steady
      uint64_t limit = 0;
      std::vector<std::pair<uint32_t, pid_t>> processes;  // by slot; none, now: empty
    };
    virtual std::optional<Look> NextLook() = 0;
    /// What Look::processes were found to hold; `rest`: how long it is to be left alone, as looking costs so
    /// much.
    virtual void MemorySeen(const Look& look, uint64_t bytes, Duration rest) = 0;
  };

  MemoryWatch(Host& host, const os::Clock& clock);
  ~MemoryWatch();
  /// There may be something to look at earlier. Any thread.
  void Wake();

 private:
  void Run();
  void Look(const Host::Look& look);

  Host& host_;
  const os::Clock& clock_;
  Duration rest_until_{0};
  std::mutex mutex_;
  std::condition_variable changed_;    // of mutex_
  bool stop_ = false, woken_ = false;  // of mutex_
  std::thread thread_;
};

}  // namespace harrow::agent
