#include "agent/workers.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <semaphore>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>

namespace harrow::agent {
namespace {

/// Work that goes on until so many do it at once.
class Meeting {
 public:
  explicit Meeting(size_t wanted) : wanted_(wanted) {}
  void Come() {
    std::unique_lock lock(mutex_);
    ++here_;
    changed_.notify_all();
    changed_.wait_for(lock, std::chrono::seconds(10), [this] { return here_ >= wanted_; });
  }
  bool Met() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60), [this] { return here_ >= wanted_; });
  }

 private:
  const size_t wanted_;
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t here_ = 0;
};

TEST(Workers, AsManyAtOnceAsThereMayBe) {
  Meeting meeting(100);
  Workers workers(100);
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < 100; ++i) workers.Do([&] { meeting.Come(); });
  EXPECT_TRUE(meeting.Met());
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(10)) << "nobody gave up waiting";
  workers.Stop();
}

TEST(Workers, NoMoreThanThat) {
  std::mutex mutex;
  int now = 0, most = 0;
  std::counting_semaphore<> done(0);
  Workers workers(3);
  for (int i = 0; i < 20; ++i) {
    workers.Do([&] {
      {
        std::lock_guard lock(mutex);
        most = std::max(most, ++now);
      }
      std::this_thread::yield();
      {
        std::lock_guard lock(mutex);
        --now;
      }
      done.release();
    });
  }
  for (int i = 0; i < 20; ++i) done.acquire();
  workers.Stop();
  EXPECT_LE(most, 3);
}

TEST(Workers, TheirDescriptorsAreNotThoseOfWhoAsks) {
  Workers workers(8);
  std::thread slot([&] {
    if (unshare(CLONE_FILES) != 0) return;
    const int own = eventfd(0, EFD_CLOEXEC);
    Meeting meeting(4);
    std::atomic<int> seen = 0;
    for (int i = 0; i < 4; ++i) {
      workers.Do([&] {
        seen += fcntl(own, F_GETFD) >= 0;
        meeting.Come();
      });
    }
    EXPECT_TRUE(meeting.Met());
    workers.Stop();
    EXPECT_EQ(seen, 0);
    close(own);
  });
  slot.join();
}

}  // namespace
}  // namespace harrow::agent
