// Who is told of which task's end, and when.
#include "server/awaiting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <string>

#include "base/text.h"
#include "support/fake_channel.h"
#include "support/fake_event_loop.h"

namespace harrow::server {
namespace {

using journal::TaskFate;

class AwaitingTest : public testing::Test {
 protected:
  using Channel = std::shared_ptr<test::FakeChannel>;

  Channel Connect() { return std::make_shared<test::FakeChannel>(&loop_, wire::Role::kClient, "client"); }
  void Ask(const Channel& channel, std::vector<uint32_t> tasks) {
    pb::AwaitRequest request;
    for (const uint32_t task : tasks) request.add_task(task);
    awaiting_.Ask(channel, request);
  }
  /// The task ends, and the journal gets that as its record `added_`.
  void End(uint32_t task, TaskFate fate, journal::End end = journal::End::kExited, int code = 0) {
    journal::AttemptRecord record;
    record.task = TaskId(task);
    record.end = end;
    record.code = code;
    awaiting_.AttemptEnded(record);
    fates_[task] = fate;
    ++added_;
    awaiting_.Settled(TaskId(task));
  }
  /// "1 2 3:2/1/7 ?9": done ones, others with fate, end and code, unknown ones.
  std::string Told(const Channel& channel) {
    std::string text;
    for (const std::string& bytes : channel->TakeSent()) {
      pb::ToClient message;
      EXPECT_TRUE(message.ParseFromString(bytes));
      for (const uint32_t task : message.settled().done()) text += StrCat(" ", task);
      for (const pb::SettledTask& task : message.settled().other())
        text += StrCat(" ", task.task(), ":", task.fate(), "/", static_cast<int>(task.end()), "/", task.code());
      for (const uint32_t task : message.settled().unknown()) text += StrCat(" ?", task);
    }
    return text;
  }

  test::FakeEventLoop loop_;
  std::map<uint32_t, TaskFate> fates_;
  uint64_t added_ = 0;
  Awaiting awaiting_{{.tasks = [] { return size_t{10}; },
                      .fate = [this](TaskId task) { return fates_[task.value]; },
                      .added = [this] { return added_; }}};
};

TEST_F(AwaitingTest, TasksAreToldWhenTheyAreOnDisk) {
  const Channel client = Connect();
  Ask(client, {1, 2, 3});
  End(2, TaskFate::kDone);
  EXPECT_EQ(Told(client), "");
  End(1, TaskFate::kFailed, journal::End::kSignaled, 9);
  awaiting_.Committed(1);
  EXPECT_EQ(Told(client), " 2");
  awaiting_.Committed(2);
  EXPECT_EQ(Told(client), " 1:2/2/9");
  End(4, TaskFate::kDone);
  awaiting_.Committed(3);
  EXPECT_EQ(Told(client), "") << "nobody asked for it";
}

TEST_F(AwaitingTest, WhatIsSettledIsToldAtOnceOrWhenItIsOnDisk) {
  End(1, TaskFate::kDone);
  awaiting_.Committed(1);
  End(2, TaskFate::kSkipped);
  const Channel client = Connect();
  Ask(client, {1, 2});
  EXPECT_EQ(Told(client), "") << "what is recorded is not all on disk, and nobody knows where 1 is";
  awaiting_.Committed(2);
  EXPECT_EQ(Told(client), " 1 2:3/0/0");
  Ask(client, {1});
  EXPECT_EQ(Told(client), " 1");
}

TEST_F(AwaitingTest, ATaskThatSucceedsInTheEndIsDone) {
  const Channel client = Connect();
  Ask(client, {1});
  journal::AttemptRecord record;
  record.task = TaskId(1);
  record.end = journal::End::kExited;
  record.code = 7;
  awaiting_.AttemptEnded(record);
  End(1, TaskFate::kDone);
  awaiting_.Committed(1);
  EXPECT_EQ(Told(client), " 1");
}

TEST_F(AwaitingTest, HistoryIsKnown) {
  journal::History history;
  history.attempts.emplace_back();
  history.attempts.back().task = TaskId(5);
  history.attempts.back().end = journal::End::kTimedOut;
  history.attempts.back().code = 15;
  awaiting_.Restore(history);
  fates_[5] = TaskFate::kFailed;
  fates_[6] = TaskFate::kCancelled;
  const Channel client = Connect();
  Ask(client, {5, 6, 12});
  EXPECT_EQ(Told(client), " ?12 5:2/3/15 6:4/0/0");
}

TEST_F(AwaitingTest, ClientsAreToldEachAndNotWhenTheyHaveGone) {
  Channel one = Connect(), two = Connect();
  Ask(one, {1});
  Ask(two, {1, 2});
  awaiting_.Gone(two.get());
  End(1, TaskFate::kDone);
  End(2, TaskFate::kDone);
  const Channel three = Connect();
  Ask(three, {2});
  awaiting_.Committed(2);
  EXPECT_EQ(Told(one), " 1");
  EXPECT_EQ(Told(two), "");
  EXPECT_EQ(Told(three), " 2");
  awaiting_.Gone(one.get());
  awaiting_.Gone(one.get());
  EXPECT_EQ(one.use_count(), 1);
}

TEST_F(AwaitingTest, ItIsKnownWhetherAllIsSent) {
  const Channel client = Connect();
  Ask(client, {1});
  client->stalled = true;
  EXPECT_TRUE(awaiting_.all_sent());
  End(1, TaskFate::kDone);
  awaiting_.Committed(1);
  EXPECT_FALSE(awaiting_.all_sent());
  client->Release();
  EXPECT_TRUE(awaiting_.all_sent());
}

}  // namespace
}  // namespace harrow::server
