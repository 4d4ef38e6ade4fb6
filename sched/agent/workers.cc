#include "agent/workers.h"

#include <csignal>
#include <system_error>
#include <utility>

namespace harrow::agent {

Workers::Workers(size_t most) : most_(most) {
  threads_.emplace_back([this] { Run(); });
}

void Workers::Do(std::function<void()> work) {
  std::lock_guard lock(mutex_);
  if (stopped_) return;
  queue_.push_back(std::move(work));
  changed_.notify_one();
}

void Workers::Stop() {
  std::deque<std::function<void()>> dropped;
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
    dropped.swap(queue_);
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void Workers::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    changed_.wait(lock, [this] { return stopped_ || !queue_.empty(); });
    --idle_;
    if (stopped_) return;
    // By this thread: who asks may have another table of descriptors, which its child would share.
    if (idle_ == 0 && threads_.size() < most_) {
      try {
        threads_.emplace_back([this] { Run(); });
      } catch (const std::system_error&) {  // those that are there do it
      }
    }
    {
      const std::function<void()> work = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      work();
    }
    lock.lock();
  }
}

}  // namespace harrow::agent
