#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace harrow::agent {

/// A few threads for work that waits for disks. What has not begun when it is stopped is not done.
class Workers {
 public:
  explicit Workers(size_t threads);
  ~Workers() { Stop(); }
  void Do(std::function<void()> work);
  /// Waits for what has begun.
  void Stop();

 private:
  void Run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace harrow::agent
