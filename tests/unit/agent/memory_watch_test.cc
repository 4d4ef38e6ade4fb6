#include "agent/steps/memory_watch.h"

#include <atomic>
#include <condition_variable>
#include <gtest/gtest.h>
#include <map>
#include <mutex>
#include <time.h>
#include <unistd.h>

namespace harrow::agent {
namespace {

/// Attempts of which one costs much to look at; each is due again as soon as its rest is over.
class FakeHost : public MemoryWatch::Host {
 public:
  std::optional<Look> NextLook() override {
    std::lock_guard lock(mutex_);
    std::optional<Look> next;
    for (const auto& [slot, at] : due_) {
      if (!next || at < next->at)
        next = Look{.slot = slot, .at = at, .limit = UINT64_MAX, .processes = {{slot, getpid()}}};
    }
    return next;
  }
  void MemorySeen(const Look& look, uint64_t bytes, Duration rest) override {
    std::lock_guard lock(mutex_);
    EXPECT_GT(bytes, 100u << 10) << "this process";
    due_[look.slot] = os::RealClock().Steady() + std::max<Duration>(rest, std::chrono::milliseconds(1));
    ++looks_[look.slot];
    changed_.notify_all();
  }
  void SetDue(uint32_t slot) {
    std::lock_guard lock(mutex_);
    due_[slot] = Duration(0);
  }
  void Remove(uint32_t slot) {
    std::lock_guard lock(mutex_);
    due_.erase(slot);
  }
  int Looks(uint32_t slot) {
    std::lock_guard lock(mutex_);
    return looks_[slot];
  }
  bool WaitForLooks(uint32_t slot, int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(120), [&] { return looks_[slot] >= count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint32_t, Duration> due_;
  std::map<uint32_t, int> looks_;
};

TEST(MemoryWatchTest, LooksWhenSomethingIsDue) {
  FakeHost host;
  MemoryWatch watch(host, os::RealClock());
  host.SetDue(0);
  watch.Wake();
  EXPECT_TRUE(host.WaitForLooks(0, 3));
  host.SetDue(1);
  watch.Wake();
  EXPECT_TRUE(host.WaitForLooks(1, 3)) << "each in its turn";
  host.Remove(0);
  const int looks = host.Looks(0);
  EXPECT_TRUE(host.WaitForLooks(1, 10));
  EXPECT_LE(host.Looks(0), looks + 1) << "one look may have been under way";
}

/// Goes on when the test says so.
class StandingClock : public os::Clock {
 public:
  WallTime Now() const override { return WallTime(Steady()); }
  Duration Steady() const override { return Duration(now_.load()); }
  void Advance(Duration by) { now_ += by.count(); }

 private:
  std::atomic<int64_t> now_{Duration(std::chrono::hours(24)).count()};
};

/// One attempt, of many processes, as soon as the test says when it is due.
class OneAttempt : public MemoryWatch::Host {
 public:
  std::optional<Look> NextLook() override {
    std::lock_guard lock(mutex_);
    ++asked_;
    changed_.notify_all();
    if (!due_) return std::nullopt;
    return Look{.slot = 0, .at = *due_, .limit = UINT64_MAX, .processes = {200, {0u, getpid()}}};
  }
  void MemorySeen(const Look&, uint64_t, Duration) override {
    std::lock_guard lock(mutex_);
    ++looks_;
    changed_.notify_all();
  }
  void SetDue(Duration at) {
    std::lock_guard lock(mutex_);
    due_ = at;
  }
  int Looks() {
    std::lock_guard lock(mutex_);
    return looks_;
  }
  bool WaitForLooks(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(120), [&] { return looks_ >= count; });
  }
  int Asked() {
    std::lock_guard lock(mutex_);
    return asked_;
  }
  /// It was asked what is next so often.
  bool WaitUntilAsked(int times) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(120), [&] { return asked_ >= times; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Duration> due_;
  int asked_ = 0, looks_ = 0;
};

TEST(MemoryWatchTest, WhatIsDueLaterIsLookedAtThenAndAnyLookTakesItsShareOfTime) {
  OneAttempt host;
  StandingClock clock;
  MemoryWatch watch(host, clock);
  const auto look_around = [&] {
    for (int times = 0; times < 3; ++times) {
      const int asked = host.Asked();
      watch.Wake();
      EXPECT_TRUE(host.WaitUntilAsked(asked + 1));
    }
    return host.Looks();
  };
  EXPECT_TRUE(host.WaitUntilAsked(1));
  host.SetDue(clock.Steady() + std::chrono::hours(1));
  EXPECT_EQ(look_around(), 0);
  clock.Advance(std::chrono::hours(1));
  watch.Wake();
  EXPECT_TRUE(host.WaitForLooks(1));
  EXPECT_EQ(look_around(), 1) << "however often it is woken";
  clock.Advance(std::chrono::seconds(1));
  watch.Wake();
  EXPECT_TRUE(host.WaitForLooks(2)) << "it does not rest for longer";
}

TEST(MemoryWatchTest, EndsWhileNothingIsDue) {
  for (int times = 0; times < 20; ++times) {
    OneAttempt host;
    MemoryWatch watch(host, os::RealClock());
    EXPECT_TRUE(host.WaitUntilAsked(1));
  }
}

TEST(MemoryOfTaskTest, IsExactAboveALimit) {
  const pid_t self[] = {getpid()};
  const uint64_t resident = MemoryOfTask(self, UINT64_MAX);
  const uint64_t exact = MemoryOfTask(self, 1);
  EXPECT_GT(exact, 100u << 10);
  EXPECT_LE(exact, 2 * resident);
  EXPECT_EQ(exact % 1024, 0u) << "the kernel tells KiB";
  EXPECT_LT(resident, uint64_t{1} << 40);
  EXPECT_LT(exact, uint64_t{1} << 40);
  const pid_t twice[] = {getpid(), getpid()};
  EXPECT_GT(MemoryOfTask(twice, UINT64_MAX), resident * 3 / 2) << "of all of its processes";
  for (const uint64_t limit : {uint64_t{0}, UINT64_MAX}) EXPECT_EQ(MemoryOfTask({}, limit), 0u);
}

}  // namespace
}  // namespace harrow::agent
