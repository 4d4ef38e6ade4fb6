// Timers and posted work are asio's. Watched descriptors are not handed to asio, which would make them
// non-blocking for everybody who shares them (a terminal, a pipe to a child): they are in an epoll set of
// their own, level-triggered, and asio waits for that set.
#include "os/event_loop.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <sys/epoll.h>
#include <unistd.h>
#include <unordered_map>
#include <utility>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

#include "os/asio_context.h"

namespace harrow::os {
namespace {

class AsioEventLoop : public EventLoop {
 public:
  AsioEventLoop() : context_(1), work_(context_.get_executor()), watched_set_(context_) {
    int fd = epoll_create1(EPOLL_CLOEXEC);
    if (fd < 0) {
      perror("harrow: epoll_create1");
      abort();
    }
    watched_set_.assign(fd);
    AwaitWatched();
  }

  Time Now() const override { return Time(std::chrono::steady_clock::now() - start_); }

  void Post(Callback work) override { asio::post(context_, std::move(work)); }

  TimerId After(Duration delay, Callback work) override {
    TimerId id = ++last_timer_;
    auto [it, added] = timers_.try_emplace(id, context_, std::move(work));
    it->second.timer.expires_after(delay);
    it->second.timer.async_wait([this, id](const asio::error_code&) { Fire(id); });
    return id;
  }

  void CancelTimer(TimerId timer) override { timers_.erase(timer); }

  void WatchFd(int fd, Callback ready) override {
    uint64_t watch = ++last_watch_;
    epoll_event event{};
    event.events = EPOLLIN | EPOLLRDHUP;
    event.data.u64 = watch;
    bool known = watch_of_.contains(fd);
    if (epoll_ctl(watched_set_.native_handle(), known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) != 0) {
      perror("harrow: WatchFd");
      abort();
    }
    if (known) watched_.erase(watch_of_[fd]);
    watch_of_[fd] = watch;
    watched_.emplace(watch, std::make_shared<Callback>(std::move(ready)));
  }

  void UnwatchFd(int fd) override {
    auto it = watch_of_.find(fd);
    if (it == watch_of_.end()) return;
    // Fails when the descriptor was closed before, which took it out of the set.
    epoll_ctl(watched_set_.native_handle(), EPOLL_CTL_DEL, fd, nullptr);
    watched_.erase(it->second);
    watch_of_.erase(it);
  }

  void Run() override {
    context_.run();
    context_.restart();
  }
  void Stop() override { context_.stop(); }

  asio::io_context* context() { return &context_; }

 private:
  struct PendingTimer {
    PendingTimer(asio::io_context& context, Callback w) : timer(context), work(std::move(w)) {}
    asio::steady_timer timer;
    Callback work;
  };

  void Fire(TimerId id) {
    auto it = timers_.find(id);
    if (it == timers_.end()) return;
    Callback work = std::move(it->second.work);
    timers_.erase(it);
    work();
  }

  void AwaitWatched() {
    watched_set_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const asio::error_code& error) {
      if (error) return;
      std::array<epoll_event, 64> events;
      int n = epoll_wait(watched_set_.native_handle(), events.data(), events.size(), 0);
      for (int i = 0; i < n; ++i) {
        auto it = watched_.find(events[static_cast<size_t>(i)].data.u64);
        if (it == watched_.end()) continue;  // unwatched by one of the calls before
        std::shared_ptr<Callback> ready = it->second;
        (*ready)();
      }
      AwaitWatched();
    });
  }

  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  asio::io_context context_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  asio::posix::stream_descriptor watched_set_;
  std::unordered_map<TimerId, PendingTimer> timers_;
  TimerId last_timer_ = 0;
  std::unordered_map<uint64_t, std::shared_ptr<Callback>> watched_;
  std::unordered_map<int, uint64_t> watch_of_;
  uint64_t last_watch_ = 0;
};

}  // namespace

std::unique_ptr<EventLoop> MakeEventLoop() {
  return std::make_unique<AsioEventLoop>();
}

asio::io_context* IoContextOf(EventLoop* loop) {
  auto* asio_loop = dynamic_cast<AsioEventLoop*>(loop);
  return asio_loop == nullptr ? nullptr : asio_loop->context();
}

}  // namespace harrow::os
