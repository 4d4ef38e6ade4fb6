#include "agent/collector.h"

#include <future>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <thread>

namespace harrow::agent {
namespace {

using testing::HasSubstr;

/// Records what is appended; can be told to fail or to hold a flush up.
class FakeWriter : public output::Writer {
 public:
  Result<uint64_t> Append(TaskId, uint32_t, output::Stream, std::string_view data,
                          std::optional<uint32_t>) override {
    std::lock_guard lock(mutex);
    const uint64_t offset = 16 + appended.size();
    appended += data;
    return offset;
  }
  Status Flush() override {
    std::unique_lock lock(mutex);
    ++flushes;
    changed.notify_all();
    changed.wait(lock, [this] { return !held; });
    if (fails && written != appended) return Status(Code::kExhausted, "no space left on device");
    written = appended;
    changed.notify_all();
    return {};
  }
  void Discard() override {
    std::lock_guard lock(mutex);
    appended = written;
  }
  size_t buffered_bytes() const override { return 0; }
  Status Sync() override { return {}; }

  std::mutex mutex;
  std::condition_variable changed;
  std::string appended, written;
  int flushes = 0;
  bool held = false;
  bool fails = false;
};

/// What the collector delivered, and what was written by then.
class CollectorTest : public testing::Test {
 protected:
  CollectorTest() { Make({}); }
  void Make(const BatchPolicy& policy) {
    auto writer = std::make_unique<FakeWriter>();
    collector_.reset();
    writer_ = writer.get();
    collector_.emplace(
        std::move(writer), os::RealClock(),
        [this](Batch batch) {
          std::scoped_lock lock(mutex_, writer_->mutex);
          written_at_delivery_ = writer_->written;
          for (const TaskResult& result : batch.ended) {
            ended_.push_back(result.id);
            results_[result.id] = result;
          }
          for (const StartedTask& task : batch.started) started_.push_back(task.id);
          for (const auto& missed : batch.missed) missed_.push_back(missed.why);
          changed_.notify_all();
        },
        [this](std::string problem) {
          std::lock_guard lock(mutex_);
          problems_.push_back(std::move(problem));
          changed_.notify_all();
        },
        policy);
  }
  void WaitFor(const std::function<bool()>& condition) {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, std::chrono::seconds(120), condition));
  }
  static TaskResult Result(uint32_t id) {
    TaskResult result;
    result.id = id;
    return result;
  }

  FakeWriter* writer_ = nullptr;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<uint32_t> ended_, started_;
  std::map<uint32_t, TaskResult> results_;
  std::vector<std::string> problems_, missed_;
  std::string written_at_delivery_;
  std::optional<Collector> collector_;
};

TEST_F(CollectorTest, OutputIsWrittenBeforeItsResultLeaves) {
  EXPECT_EQ(collector_->AddOutput(1, 1, output::Stream::kStdout, "text", {}), 16u);
  collector_->AddEnded(Result(1));
  WaitFor([this] { return ended_.size() == 1; });
  EXPECT_EQ(written_at_delivery_, "text");
}

TEST_F(CollectorTest, StartedTasksAreTold) {
  collector_->AddStarted({.id = 4});
  WaitFor([this] { return started_.size() == 1; });
}

TEST_F(CollectorTest, WhatLeftNoCheckpointIsToldOfAlsoWhereNothingElseHappens) {
  for (const size_t so_far : {1, 2}) {
    collector_->AddMissed({TaskId(4), 1}, "it is deaf");
    WaitFor([&] { return missed_.size() == so_far; });
  }
  EXPECT_THAT(missed_, testing::Each(testing::Eq("it is deaf")));
}

TEST_F(CollectorTest, MuchOutputIsWrittenAtOnceAndLittleAfterItIsNot) {
  Make({.output_delay = std::chrono::hours(1), .output_bytes = 100});
  const auto flushes = [this] {
    std::lock_guard lock(writer_->mutex);
    return writer_->flushes;
  };
  (void)collector_->AddOutput(1, 1, output::Stream::kStdout, std::string(200, 'x'), {});
  {
    std::unique_lock lock(writer_->mutex);
    ASSERT_TRUE(writer_->changed.wait_for(lock, std::chrono::seconds(120), [this] { return writer_->written.size() == 200; }));
  }
  (void)collector_->AddOutput(1, 1, output::Stream::kStdout, "little", {});
  for (const size_t told : {1, 2}) {  // it looks between them what is due
    collector_->AddProblem("a problem");
    WaitFor([&] { return problems_.size() == told; });
  }
  EXPECT_EQ(flushes(), 1);
}

TEST_F(CollectorTest, WhatWasAddedLeavesBeforeTheEnd) {
  for (uint32_t i = 0; i < 100; ++i) collector_->AddEnded(Result(i));
  collector_.reset();
  EXPECT_EQ(ended_.size(), 100u);
}

TEST_F(CollectorTest, ResultsWaitForStorageThatIsFull) {
  {
    std::lock_guard lock(writer_->mutex);
    writer_->fails = true;
  }
  collector_->AddOutput(1, 1, output::Stream::kStdout, "text", {});
  collector_->AddEnded(Result(1));
  WaitFor([this] { return problems_.size() == 1; });
  EXPECT_THAT(problems_[0], HasSubstr("no space left"));
  EXPECT_TRUE(ended_.empty());
  collector_->AddEnded(Result(2));
  {
    std::lock_guard lock(writer_->mutex);
    writer_->fails = false;
  }
  WaitFor([this] { return ended_.size() == 2; });
  EXPECT_THAT(ended_, testing::ElementsAre(1, 2));
  EXPECT_EQ(problems_.size(), 2u) << "told once, and that it is over";
  {
    std::lock_guard lock(writer_->mutex);
    writer_->fails = true;
  }
  collector_->AddOutput(3, 1, output::Stream::kStdout, "text", {});
  collector_->AddEnded(Result(3));
  WaitFor([this] { return problems_.size() == 3; });
  EXPECT_THAT(problems_[2], HasSubstr("no space left")) << "it is full once more";
}

TEST_F(CollectorTest, WhenTheRunEndsOutputThatCannotBeWrittenIsDroppedAndItsTasksAreInterrupted) {
  collector_->AddOutput(1, 1, output::Stream::kStdout, "safe", {});
  TaskResult done = Result(1);
  done.end = End::kExited;
  done.output_offset = 16;
  collector_->AddEnded(TaskResult(done));
  WaitFor([this] { return ended_.size() == 1; });
  {
    std::lock_guard lock(writer_->mutex);
    writer_->fails = true;
  }
  collector_->AddOutput(2, 1, output::Stream::kStdout, "lost", {});
  collector_->AddOutput(3, 1, output::Stream::kStderr, "lost, and its task goes on", {});
  collector_->AddOutput(2, 1, output::Stream::kStdout, "lost, too", {});
  done.id = 2;
  done.stdout_bytes = 4;
  done.code = 7;
  collector_->AddEnded(TaskResult(done));
  done.code = 0;
  done.id = 4;  // wrote nothing
  done.output_offset = done.stdout_bytes = 0;
  collector_->AddEnded(TaskResult(done));
  WaitFor([this] { return problems_.size() == 1; });
  EXPECT_EQ(ended_.size(), 1u) << "while the run goes on, results wait";
  collector_->GiveUpOutput();
  WaitFor([this] { return ended_.size() == 3; });
  done.id = 3;
  collector_->AddEnded(TaskResult(done));
  WaitFor([this] { return ended_.size() == 4; });
  EXPECT_EQ(results_[1].end, End::kExited);
  EXPECT_EQ(results_[2].end, End::kInterrupted) << "a task whose output is lost is not done";
  EXPECT_THAT(results_[2].message, HasSubstr("no space left"));
  EXPECT_EQ(results_[2].code, 0);
  EXPECT_EQ(results_[2].output_offset, 0u);
  EXPECT_EQ(results_[2].stdout_bytes, 0u);
  EXPECT_EQ(results_[3].end, End::kInterrupted);
  EXPECT_EQ(results_[4].end, End::kExited) << "it lost nothing";
  ASSERT_EQ(problems_.size(), 2u);
  EXPECT_THAT(problems_[1], HasSubstr("output of 2 tasks could not be written and is lost"));
}

TEST_F(CollectorTest, SlotsThatWaitForFullStorageAreLetGoWhenTheRunEnds) {
  {
    std::lock_guard lock(writer_->mutex);
    writer_->fails = true;
  }
  auto slot = std::async(std::launch::async, [this] {
    const std::string much(16u << 20, 'x');
    for (int i = 0; i < 4; ++i) collector_->AddOutput(1, 1, output::Stream::kStdout, much, {});
  });
  WaitFor([this] { return problems_.size() == 1; });
  collector_->GiveUpOutput();
  EXPECT_EQ(slot.wait_for(std::chrono::seconds(120)), std::future_status::ready);
}

TEST_F(CollectorTest, AResultIsUndeliveredUntilItsBatchHasArrived) {
  {
    std::lock_guard lock(writer_->mutex);
    writer_->held = true;
  }
  collector_->AddEnded(Result(1));
  {
    std::unique_lock lock(writer_->mutex);
    ASSERT_TRUE(
        writer_->changed.wait_for(lock, std::chrono::seconds(120), [this] { return writer_->flushes > 0; }));
  }
  collector_->AddEnded(Result(2));
  EXPECT_EQ(collector_->Undelivered().size(), 2u) << "one being written, one waiting";
  {
    std::lock_guard lock(writer_->mutex);
    writer_->held = false;
  }
  writer_->changed.notify_all();
  WaitFor([this] { return ended_.size() == 2; });
  EXPECT_EQ(collector_->Undelivered().size(), 2u) << "delivered, but not arrived";
  collector_->Arrived();
  EXPECT_EQ(collector_->Undelivered().size(), 1u);
  collector_->Arrived();
  EXPECT_EQ(collector_->Undelivered().size(), 0u);
}

TEST_F(CollectorTest, ThePulseBeatsWhileItIsWanted) {
  std::atomic<int> beats{0};
  std::promise<void> enough;
  collector_->SetPulse([&] {
    if (++beats == 5) enough.set_value();
    return beats < 5;
  });
  collector_->WantPulse();
  ASSERT_EQ(enough.get_future().wait_for(std::chrono::seconds(120)), std::future_status::ready);
  collector_->StopPulse();
}

TEST_F(CollectorTest, ThePulseBeatsAgainWhenItIsWantedAgain) {
  std::atomic<int> beats{0};
  std::atomic<bool> wanted{false};
  collector_->SetPulse([&] {
    if (!wanted) return false;
    ++beats;
    std::lock_guard lock(mutex_);
    changed_.notify_all();
    return true;
  });
  for (int i = 0; i < 20; ++i) {
    const int before = beats;
    wanted = true;
    collector_->WantPulse();
    WaitFor([&] { return beats >= before + 2; });
    wanted = false;
  }
  wanted = true;
  collector_->StopPulse();
  const int last = beats;
  collector_->WantPulse();
  collector_->AddEnded(Result(1));
  WaitFor([this] { return ended_.size() == 1; });
  EXPECT_LE(beats, last + 1) << "one may have been going on";
}

TEST_F(CollectorTest, WhoeverComesFirstWakesIt) {
  Make({.start_delay = std::chrono::milliseconds(1), .output_delay = std::chrono::milliseconds(1)});
  for (size_t i = 0; i < 20; ++i) {
    collector_->AddStarted({.id = static_cast<uint32_t>(i)});
    WaitFor([&] { return started_.size() == i + 1; });
    collector_->AddOutput(1, 1, output::Stream::kStdout, "text", {});
    std::unique_lock lock(writer_->mutex);
    const auto written = [&] { return writer_->written.size() == 4 * (i + 1); };
    ASSERT_TRUE(writer_->changed.wait_for(lock, std::chrono::seconds(120), written));
  }
}

TEST_F(CollectorTest, ASlotThatIsIdleHurriesWhatWaits) {
  Make({.gather = std::chrono::hours(1)});
  collector_->Hurry();  // there is nothing
  TaskResult result = Result(1);
  result.finish = result.start + std::chrono::hours(1000);
  collector_->AddEnded(std::move(result));
  collector_->AddEnded(Result(2));
  collector_->Hurry();
  WaitFor([this] { return ended_.size() == 2; });
}

TEST_F(CollectorTest, AProblemIsToldAndMayBeAnsweredInTheCall) {
  std::promise<void> told;
  std::optional<Collector> asked;
  asked.emplace(
      std::make_unique<FakeWriter>(), os::RealClock(), [](Batch) {},
      [&](const std::string& problem) {
        EXPECT_EQ(problem, "a line");
        EXPECT_TRUE(asked->Undelivered().empty());
        told.set_value();
      });
  asked->AddProblem("a line");
  EXPECT_EQ(told.get_future().wait_for(std::chrono::seconds(120)), std::future_status::ready);
}

TEST_F(CollectorTest, StorageThatStaysFullEndsTheRunOnce) {
  std::vector<std::string> stuck;
  collector_->SetStuck(Duration(0), [&](const std::string& why) {
    std::lock_guard lock(mutex_);
    stuck.push_back(why);
    changed_.notify_all();
  });
  {
    std::lock_guard lock(writer_->mutex);
    writer_->fails = true;
  }
  collector_->AddOutput(1, 1, output::Stream::kStdout, "text", {});
  WaitFor([&] { return !stuck.empty(); });
  EXPECT_THAT(stuck[0], HasSubstr("so the run ends: no space left"));
  {
    std::unique_lock lock(writer_->mutex);
    const int before = writer_->flushes;
    ASSERT_TRUE(writer_->changed.wait_for(lock, std::chrono::seconds(120), [&] { return writer_->flushes >= before + 2; }));
  }
  std::lock_guard lock(mutex_);
  EXPECT_EQ(stuck.size(), 1u);
}

TEST_F(CollectorTest, WhatComesWhileStorageIsTriedWaitsWithTheRest) {
  {
    std::lock_guard lock(writer_->mutex);
    writer_->held = writer_->fails = true;
  }
  collector_->AddOutput(1, 1, output::Stream::kStdout, "text", {});
  collector_->AddStarted({.id = 1});
  collector_->AddEnded(Result(1));
  {
    std::unique_lock lock(writer_->mutex);
    ASSERT_TRUE(writer_->changed.wait_for(lock, std::chrono::seconds(120), [this] { return writer_->flushes > 0; }));
  }
  collector_->AddEnded(Result(2));
  collector_->AddStarted({.id = 2});
  collector_->AddMissed({TaskId(4), 1}, "it is deaf");
  {
    std::lock_guard lock(writer_->mutex);
    writer_->held = false;
  }
  writer_->changed.notify_all();
  WaitFor([this] { return problems_.size() == 1; });
  EXPECT_EQ(collector_->Undelivered().size(), 2u);
  {
    std::lock_guard lock(writer_->mutex);
    writer_->fails = false;
  }
  WaitFor([this] { return ended_.size() == 2 && started_.size() == 2 && missed_.size() == 1; });
  EXPECT_THAT(ended_, testing::ElementsAre(1, 2));
  EXPECT_THAT(started_, testing::ElementsAre(1, 2));
  EXPECT_EQ(collector_->Undelivered().size(), 2u);
}

}  // namespace
}  // namespace harrow::agent
