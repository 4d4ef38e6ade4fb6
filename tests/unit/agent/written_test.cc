// What a task writes to streams: what is kept, and what becomes of the task where that cannot be, or nobody reads it.
#include "agent/steps/written.h"

#include <gmock/gmock.h>
#include <poll.h>

#include "stream/spool.h"
#include "unit/agent/steps_on_disk.h"

namespace harrow::agent {
namespace {

class Host : public StreamHost {
 public:
  explicit Host(stream::Spool* spool) : spool_(*spool) {}
  void Join(const LocalTask&) override {}
  void Leave(AttemptId) override {}
  Result<std::shared_ptr<stream::Log>> Write(AttemptId attempt) override {
    if (!fails.ok()) return fails;
    return log = spool_.Make(attempt);
  }
  Status Feed(AttemptId, int) override { return {}; }
  void Grown(AttemptId attempt) override { grown.push_back(attempt); }
  void Settle(const LocalTask&, TaskResult*) override {}
  int wake_fd() const override { return -1; }
  std::vector<AttemptId> grown;
  std::shared_ptr<stream::Log> log;
  Status fails;

 private:
  stream::Spool& spool_;
};

class WrittenStreamTest : public OnDisk {
 protected:
  WrittenStreamTest() : spool_(*stream::Spool::Open(top_)), host_(spool_.get()) { CountDescriptors(); }
  void Write(std::string_view text) {
    ASSERT_EQ(write(written_.write_fd(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
    written_.TakeIn(POLLIN);
  }
  void WriteTooMuch() {
    const SmallFiles small(4);
    Write("more than that");
    for (int times = 0; times < 3 && written_.open(); ++times) written_.TakeIn(POLLIN);
  }
  TaskResult Judged(End end, int code, std::string message = "") {
    TaskResult result;
    result.end = end;
    result.code = code;
    result.message = std::move(message);
    written_.Judge(&result);
    return result;
  }

  std::unique_ptr<stream::Spool> spool_;
  Host host_;
  WrittenStream written_{&host_};
};

TEST_F(WrittenStreamTest, WhoseTextWasKeptEndsAsItDid) {
  ASSERT_TRUE(written_.Open({TaskId(1), 1}, 65536, false).ok());
  Write("a line\n");
  EXPECT_TRUE(written_.open());
  const TaskResult result = Judged(End::kExited, 0);
  EXPECT_EQ(result.end, End::kExited);
  EXPECT_EQ(result.message, "");
  written_.CloseWriteEnd();
  written_.TakeIn(POLLHUP);
  EXPECT_FALSE(written_.open()) << "it is at its end";
}

TEST_F(WrittenStreamTest, WhoseTextCannotBeKeptHasNotSucceeded) {
  ASSERT_TRUE(written_.Open({TaskId(1), 1}, 65536, false).ok());
  WriteTooMuch();
  ASSERT_FALSE(written_.open()) << "nothing more is taken from it";
  TaskResult result = Judged(End::kExited, 0);
  EXPECT_EQ(result.end, End::kMissingOutput);
  EXPECT_NE(result.message, "");
  for (const End end : {End::kExited, End::kSignaled}) {
    result = Judged(end, 7);
    EXPECT_EQ(result.end, end);
    EXPECT_NE(result.message, "") << "maybe it has ended for that";
  }
  result = Judged(End::kTimedOut, 15);
  EXPECT_EQ(result.end, End::kTimedOut);
  EXPECT_EQ(result.message, "") << "that has ended it";
  EXPECT_EQ(Judged(End::kSignaled, 9, "out of memory").message, "out of memory");
  // The next attempt on this slot begins with nothing of that.
  ASSERT_TRUE(written_.Open({TaskId(2), 1}, 65536, false).ok());
  EXPECT_EQ(Judged(End::kExited, 0).end, End::kExited);
}

TEST_F(WrittenStreamTest, WhoWaitsForMoreIsToldOnce) {
  ASSERT_TRUE(written_.Open({TaskId(1), 3}, 65536, false).ok());
  EXPECT_EQ(fcntl(written_.read_fd(), F_GETPIPE_SZ), 65536);
  ExpectNoDescriptorIsInherited();
  Write("a");
  EXPECT_TRUE(host_.grown.empty()) << "nobody waits";
  host_.log->Watch();
  written_.TakeIn(0);
  written_.TakeIn(POLLIN);
  EXPECT_TRUE(host_.grown.empty()) << "there is no more";
  EXPECT_TRUE(written_.open());
  Write("b");
  Write("c");
  EXPECT_THAT(host_.grown, testing::ElementsAre(AttemptId{TaskId(1), 3}));
  EXPECT_EQ(host_.log->length(), 3);
}

TEST_F(WrittenStreamTest, ItIsAtItsEndWhenTheLastWriterIsGone) {
  ASSERT_TRUE(written_.Open({TaskId(1), 1}, 65536, false).ok());
  Write("a line\n");
  written_.CloseWriteEnd();
  EXPECT_EQ(written_.write_fd(), -1);
  written_.TakeIn(POLLHUP);
  EXPECT_FALSE(written_.open());
  EXPECT_EQ(written_.read_fd(), -1);
  ExpectNoDescriptorMore();
  EXPECT_EQ(Judged(End::kExited, 0).end, End::kExited);
}

TEST_F(WrittenStreamTest, AnotherAttemptHasAPipeOfItsOwn) {
  ASSERT_TRUE(written_.Open({TaskId(1), 1}, 65536, false).ok());
  ASSERT_TRUE(written_.Open({TaskId(2), 1}, 65536, false).ok());
  Write("text");
  EXPECT_EQ(host_.log->attempt(), (AttemptId{TaskId(2), 1}));
  EXPECT_EQ(host_.log->length(), 4);
  written_.Reset();
  ExpectNoDescriptorMore();
  host_.fails = Status(Code::kExhausted, "no room");
  EXPECT_EQ(written_.Open({TaskId(3), 1}, 65536, false).message(), "no room");
  EXPECT_FALSE(written_.open());
}

TEST_F(WrittenStreamTest, WithoutAPipeThereIsNone) {
  Status status;
  {
    const FewDescriptors few(2);  // the log has one of them
    status = written_.Open({TaskId(1), 1}, 65536, false);
  }
  EXPECT_EQ(status.code(), Code::kExhausted);
  EXPECT_EQ(status.message(), "no pipe for its streams: Too many open files");
  EXPECT_FALSE(written_.open());
  written_.CloseAll();
  ExpectNoDescriptorMore();
}

// As a shell does: the next write of it ends in SIGPIPE.
TEST_F(WrittenStreamTest, WhomNobodyReadsIsToldByAClosedPipe) {
  ASSERT_TRUE(written_.Open({TaskId(1), 1}, 65536, false).ok());
  written_.CloseUnread();
  EXPECT_TRUE(written_.open()) << "it may be read";
  host_.log->Close();
  written_.CloseUnread();
  EXPECT_FALSE(written_.open());
  EXPECT_TRUE(host_.log->cut_off());
  EXPECT_EQ(Judged(End::kSignaled, SIGPIPE).message, "");
  written_.CloseUnread();
  written_.CloseAll();
  ExpectNoDescriptorMore();
}

TEST_F(WrittenStreamTest, WhoHasOtherOutputsGoesOnWithoutReaders) {
  ASSERT_TRUE(written_.Open({TaskId(1), 1}, 65536, true).ok());
  Write("kept");
  host_.log->Close();
  written_.CloseUnread();
  EXPECT_TRUE(written_.open());
  EXPECT_TRUE(host_.log->cut_off());
  for (int times = 0; times < 3; ++times) Write(std::string(16'000, 'x'));
  EXPECT_EQ(host_.log->length(), 4) << "and nothing more is kept";
  EXPECT_TRUE(written_.open());
  written_.CloseUnread();
  written_.CloseWriteEnd();
  written_.TakeIn(POLLHUP);
  EXPECT_FALSE(written_.open());
  EXPECT_EQ(Judged(End::kExited, 0).end, End::kExited);
  // Which is of that attempt alone.
  ASSERT_TRUE(written_.Open({TaskId(2), 1}, 65536, true).ok());
  Write("kept");
  EXPECT_EQ(host_.log->length(), 4);
}

}  // namespace
}  // namespace harrow::agent
