#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace harrow::agent {

/// Threads for work that waits for disks, as many as there was work at once and one that makes the next, at
/// most `most`. All have the descriptors of who made this, whoever asks for work. What has not begun when it
/// is stopped is not done.
class Workers {
 public:
  explicit Workers(size_t most);
  ~Workers() { Stop(); }
  void Do(std::function<void()> work);
  /// Waits for what has begun.
  void Stop();

 private:
  void Run();

  const size_t most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  size_t idle_ = 0;  // threads
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace harrow::agent
