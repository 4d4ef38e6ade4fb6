#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/time.h"

namespace harrow::os {

/// One thread's loop of timers, descriptors and posted work. All but Post and Stop belong to the thread that runs it.
class EventLoop {
 public:
  using Callback = std::function<void()>;
  using TimerId = uint64_t;

  virtual ~EventLoop() = default;
  /// Steady time since the loop was made.
  virtual Time Now() const = 0;
  /// Runs `work` soon on the loop's thread. From any thread.
  virtual void Post(Callback work) = 0;
  virtual TimerId After(Duration delay, Callback work) = 0;
  virtual void CancelTimer(TimerId timer) = 0;
  /// Calls `ready` each time `fd` is readable, until UnwatchFd. The descriptor stays the caller's.
  virtual void WatchFd(int fd, Callback ready) = 0;
  virtual void UnwatchFd(int fd) = 0;
  /// Until Stop().
  virtual void Run() = 0;
  virtual void Stop() = 0;
};

/// On asio; the io_context is reachable for the one other adapter that needs it (wire's TLS).
std::unique_ptr<EventLoop> MakeEventLoop();

}  // namespace harrow::os
