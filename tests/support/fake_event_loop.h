#pragma once

#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "os/event_loop.h"

namespace harrow::test {

/// An EventLoop in virtual time. Nothing happens by itself: RunPosted and Advance run what is due, on the
/// caller's thread; only Post may be called from others.
class FakeEventLoop : public os::EventLoop {
 public:
  Time Now() const override { return now_; }
  void Post(Callback work) override {
    std::lock_guard lock(mutex_);
    posted_.push_back(std::move(work));
  }
  TimerId After(Duration delay, Callback work) override {
    TimerId id = ++last_timer_;
    timers_.emplace(std::pair(now_ + std::max(delay, Duration(0)), id), std::move(work));
    return id;
  }
  void CancelTimer(TimerId timer) override {
    std::erase_if(timers_, [timer](const auto& t) { return t.first.second == timer; });
  }
  void WatchFd(int fd, Callback ready) override { watched_[fd] = std::move(ready); }
  void UnwatchFd(int fd) override { watched_.erase(fd); }
  /// Runs timers as they come due, jumping in time, until Stop() or until nothing is left.
  void Run() override {
    stopped_ = false;
    while (!stopped_) {
      RunPosted();
      if (stopped_ || timers_.empty()) break;
      FireFirst();
    }
  }
  void Stop() override { stopped_ = true; }

  /// Posted work, also what it posts in turn. Returns how much there was.
  size_t RunPosted() {
    size_t count = 0;
    while (true) {
      Callback work;
      {
        std::lock_guard lock(mutex_);
        if (posted_.empty()) return count;
        work = std::move(posted_.front());
        posted_.pop_front();
      }
      ++count;
      work();
    }
  }
  /// Lets `d` pass: posted work and timers in their order.
  void Advance(Duration d) {
    Time until = now_ + d;
    RunPosted();
    while (!timers_.empty() && timers_.begin()->first.first <= until) {
      FireFirst();
      RunPosted();
    }
    now_ = until;
  }
  /// Time passes while nobody can look at it, as for a process that is stopped.
  void Stand(Duration d) { now_ += d; }
  /// As if `fd` had become readable. False when nobody watches it.
  bool FireFd(int fd) {
    auto it = watched_.find(fd);
    if (it == watched_.end()) return false;
    Callback ready = it->second;
    ready();
    return true;
  }
  /// As if all that is watched might be readable, for those who look for themselves.
  void FireWatched() {
    const std::map<int, Callback> watched = watched_;
    for (const auto& [fd, ready] : watched) {
      if (watched_.contains(fd)) ready();
    }
  }
  size_t timer_count() const { return timers_.size(); }
  bool Watches(int fd) const { return watched_.contains(fd); }

 private:
  void FireFirst() {
    auto first = timers_.extract(timers_.begin());
    now_ = std::max(now_, first.key().first);
    first.mapped()();
  }

  Time now_{};
  std::mutex mutex_;  // of posted_
  std::deque<Callback> posted_;
  std::map<std::pair<Time, TimerId>, Callback> timers_;
  std::map<int, Callback> watched_;
  TimerId last_timer_ = 0;
  bool stopped_ = false;
};

}  // namespace harrow::test
