// Streams as slots and the server speak of them, without tasks: their pipes are held by hand.
#include "agent/stream_port.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include "live/transfer_nodes.h"
#include "wire/attempt_id.h"
#include "wire/harrow.pb.h"

namespace harrow::agent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class StreamPortTest : public testing::Test {
 protected:
  StreamPortTest() {
    for (auto* const pipe : {from_writer_, to_reader_}) EXPECT_EQ(pipe2(pipe, O_CLOEXEC), 0);
    port_.emplace(own_.path(), Hooks());
    port_->SetSelf(NodeId(0));
  }
  ~StreamPortTest() override {
    port_.reset();
    for (const int end : {from_writer_[0], from_writer_[1], to_reader_[0], to_reader_[1]}) {
      if (end >= 0) close(end);
    }
  }
  StreamPort::Hooks Hooks() {
    return {.rewind =
                [this](AttemptId attempt, const std::string& why) {
                  const std::lock_guard lock(mutex_);
                  rewound_.emplace_back(attempt, why);
                },
            .wake = [this](AttemptId attempt) { woken_.push_back(attempt); },
            .first = [this] { ++first_; }};
  }
  static LocalTask Writer() {
    LocalTask task;
    task.id = 1;
    task.writes_streams = true;
    return task;
  }
  static LocalTask Reader() {
    LocalTask task;
    task.id = 2;
    task.sources = {{.stream = StreamId(3), .writer = Writer().attempt_id(), .node = NodeId(0)}};
    return task;
  }
  /// The writer begins, and writes.
  void Begin() {
    port_->Join(Writer());
    const auto log = port_->Write(Writer().attempt_id());
    ASSERT_TRUE(log.ok());
    log_ = *log;
    ASSERT_TRUE(writer_.Open(log_.get()).ok());
  }
  void Write(std::string_view text) {
    ASSERT_EQ(write(from_writer_[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
    ASSERT_EQ(*writer_.TakeFrom(from_writer_[0]), static_cast<int64_t>(text.size()));
    if (log_->TakeWatch()) port_->Grown(Writer().attempt_id());
  }
  Status Feed() {
    port_->Join(Reader());
    const Status fed = port_->Feed(Reader().attempt_id(), to_reader_[1]);
    close(std::exchange(to_reader_[1], -1));
    return fed;
  }
  /// What the reader finds next; "end": nothing more.
  std::string Next() {
    pollfd waits{to_reader_[0], POLLIN, 0};
    if (poll(&waits, 1, 60'000) != 1) return "nothing comes";
    char text[100];
    const ssize_t n = read(to_reader_[0], text, sizeof text);
    return n > 0 ? std::string(text, static_cast<size_t>(n)) : "end";
  }
  TaskResult Settle(const LocalTask& task, End end, int code = 0) {
    TaskResult result;
    result.end = end;
    result.code = code;
    port_->Settle(task, &result);
    return result;
  }
  std::vector<AttemptId> Written() {
    pb::AgentHello hello;
    port_->NameWritten(&hello);
    std::vector<AttemptId> written;
    for (const pb::AttemptId& each : hello.written()) written.push_back(wire::IdOf(each));
    return written;
  }
  std::vector<std::pair<AttemptId, std::string>> rewound() {
    const std::lock_guard lock(mutex_);
    return rewound_;
  }

  test::OwnDirectory own_;
  int from_writer_[2] = {-1, -1}, to_reader_[2] = {-1, -1};
  std::shared_ptr<stream::Log> log_;
  stream::LogWriter writer_;
  std::mutex mutex_;
  std::vector<std::pair<AttemptId, std::string>> rewound_;  // of mutex_
  std::vector<AttemptId> woken_;
  int first_ = 0;
  std::optional<StreamPort> port_;
};

TEST_F(StreamPortTest, WhatOneWritesTheOtherReadsToItsEnd) {
  EXPECT_GE(port_->wake_fd(), 0);
  Begin();
  EXPECT_EQ(first_, 1);
  ASSERT_TRUE(Feed().ok());
  EXPECT_EQ(first_, 1) << "once";
  Write("text");
  EXPECT_EQ(Next(), "text");
  EXPECT_THAT(Written(), IsEmpty()) << "it may fail";
  EXPECT_EQ(Settle(Writer(), End::kExited).written, 4);
  EXPECT_EQ(Next(), "end");
  EXPECT_THAT(Written(), ElementsAre(Writer().attempt_id()));
  const TaskResult read = Settle(Reader(), End::kExited);
  EXPECT_EQ(read.end, End::kExited);
  EXPECT_TRUE(read.read_to_end);
  ASSERT_THAT(read.read, SizeIs(1));
  EXPECT_EQ(read.read[0].writer, Writer().attempt_id());
  EXPECT_EQ(read.written, -1) << "it writes no stream";
  pb::ToAgent message;
  wire::SetId(Writer().attempt_id(), message.add_drop_written());
  port_->Take(message);
  (void)Settle(Reader(), End::kExited);  // done after what was said before
  EXPECT_THAT(Written(), IsEmpty());
}

TEST_F(StreamPortTest, WhoBeginsBeforeItsWriterFindsItAsSoonAsItIsThere) {
  ASSERT_TRUE(Feed().ok());
  Begin();
  (void)Settle(LocalTask(), End::kExited);  // done after what was said before
  EXPECT_TRUE(log_->TakeWatch()) << "it would be looked for by a timer";
}

TEST_F(StreamPortTest, WhatAFailedAttemptWroteIsGone) {
  Begin();
  ASSERT_TRUE(Feed().ok());
  Write("some");
  EXPECT_EQ(Next(), "some");
  EXPECT_EQ(Settle(Writer(), End::kExited, 1).written, -1);
  EXPECT_THAT(Written(), IsEmpty());
  pb::ToAgent message;
  pb::SourceChanged* const changed = message.add_source();
  wire::SetId(Reader().attempt_id(), changed->mutable_reader());
  changed->mutable_source()->set_stream(3);
  wire::SetId({TaskId(1), 2}, changed->mutable_source()->mutable_writer());
  port_->Take(message);
  const TaskResult read = Settle(Reader(), End::kSignaled, 15);
  EXPECT_EQ(read.end, End::kRewound);
  EXPECT_THAT(read.message, HasSubstr("did not succeed"));
  EXPECT_THAT(read.read, IsEmpty());
  ASSERT_THAT(rewound(), SizeIs(1));
  EXPECT_EQ(rewound()[0].first, Reader().attempt_id());
  EXPECT_EQ(Next(), "end") << "its pipe is closed when it has ended";
}

TEST_F(StreamPortTest, WhoIsCancelledHasReadNothingThatCounts) {
  Begin();
  ASSERT_TRUE(Feed().ok());
  Write("some");
  EXPECT_EQ(Next(), "some");
  const TaskResult read = Settle(Reader(), End::kCancelled);
  EXPECT_EQ(read.end, End::kCancelled);
  EXPECT_THAT(read.read, IsEmpty());
  EXPECT_EQ(Settle(Writer(), End::kExited).written, 4);
}

TEST_F(StreamPortTest, WhatNobodyReadsIsClosedAndItsWriterWoken) {
  Begin();
  Write("some");
  pb::ToAgent message;
  wire::SetId(Writer().attempt_id(), message.add_unread());
  wire::SetId({TaskId(9), 1}, message.add_unread());
  port_->Take(message);
  EXPECT_TRUE(log_->closed());
  EXPECT_THAT(woken_, ElementsAre(Writer().attempt_id()));
  EXPECT_EQ(Settle(Writer(), End::kSignaled, 13).written, -1);
  EXPECT_THAT(Written(), IsEmpty());
}

TEST_F(StreamPortTest, WhoLeavesIsFedNoMore) {
  Begin();
  ASSERT_TRUE(Feed().ok());
  port_->Leave(Reader().attempt_id());
  EXPECT_EQ(Next(), "end");
}

TEST_F(StreamPortTest, WhereNothingCanBeKeptThereAreNoStreams) {
  StreamPort none("", Hooks());
  none.Join(Reader());
  EXPECT_EQ(first_, 1);
  EXPECT_THAT(none.Write(Writer().attempt_id()).status().message(), HasSubstr("no private directory"));
  EXPECT_THAT(none.Feed(Reader().attempt_id(), to_reader_[1]).message(), HasSubstr("no private directory"));
  TaskResult result;
  result.end = End::kExited;
  none.Settle(Reader(), &result);
  EXPECT_EQ(result.end, End::kExited);
  pb::ToAgent message;
  wire::SetId(Writer().attempt_id(), message.add_unread());
  none.Take(message);
  pb::AgentHello hello;
  none.NameWritten(&hello);
  EXPECT_EQ(hello.written_size(), 0);
  none.Leave(Reader().attempt_id());
  none.SetSelf(NodeId(1));
}

TEST_F(StreamPortTest, WhatIsNoPipeCannotBeFed) {
  Begin();
  port_->Join(Reader());
  EXPECT_THAT(port_->Feed(Reader().attempt_id(), 9999).message(), HasSubstr("no way to its standard input"));
}

TEST_F(StreamPortTest, BeforeTheFirstTaskNothingIsFed) {
  EXPECT_EQ(port_->Feed(Reader().attempt_id(), to_reader_[1]).code(), Code::kUnavailable);
  EXPECT_EQ(Settle(Reader(), End::kExited).end, End::kExited);
  EXPECT_EQ(first_, 0);
}

}  // namespace
}  // namespace harrow::agent
