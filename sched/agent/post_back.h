#pragma once

#include <functional>
#include <mutex>
#include <utility>

#include "os/event_loop.h"

namespace harrow::agent {

/// Posts to a loop from other threads until it is told to stop, after which what comes is dropped.
class PostBack {
 public:
  explicit PostBack(os::EventLoop* loop) : loop_(loop) {}
  void Post(std::function<void()> work) {
    std::lock_guard lock(mutex_);
    if (loop_ != nullptr) loop_->Post(std::move(work));
  }
  void Stop() {
    std::lock_guard lock(mutex_);
    loop_ = nullptr;
  }

 private:
  std::mutex mutex_;
  os::EventLoop* loop_;
};

}  // namespace harrow::agent
