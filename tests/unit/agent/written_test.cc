// What a task writes to streams and cannot be kept: what becomes of the task.
#include "agent/steps/written.h"

#include <csignal>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <string_view>
#include <sys/resource.h>
#include <unistd.h>

#include "stream/spool.h"

namespace harrow::agent {
namespace {

class Host : public StreamHost {
 public:
  explicit Host(stream::Spool* spool) : spool_(*spool) {}
  void Join(const LocalTask&) override {}
  void Leave(AttemptId) override {}
  Result<std::shared_ptr<stream::Log>> Write(AttemptId attempt) override { return spool_.Make(attempt); }
  Status Feed(AttemptId, int) override { return {}; }
  void Grown(AttemptId) override { ++grown; }
  void Settle(const LocalTask&, TaskResult*) override {}
  int wake_fd() const override { return -1; }
  int grown = 0;

 private:
  stream::Spool& spool_;
};

class WrittenStreamTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/harrow-written-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    root_ = name;
    auto spool = stream::Spool::Open(root_);
    ASSERT_TRUE(spool.ok()) << spool.status().message();
    spool_ = *std::move(spool);
    host_.emplace(spool_.get());
    written_.emplace(&*host_);
  }
  void TearDown() override {
    written_.reset();
    spool_.reset();
    std::filesystem::remove_all(root_);
  }
  void Write(std::string_view text) {
    ASSERT_EQ(write(written_->write_fd(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
    written_->TakeIn(POLLIN);
  }
  /// What does not fit the largest file that there may be.
  void WriteTooMuch() {
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
    const auto handler = signal(SIGXFSZ, SIG_IGN);
    const rlimit small{4, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    Write("more than that");
    for (int times = 0; times < 3 && written_->open(); ++times) written_->TakeIn(POLLIN);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
  }
  TaskResult Judged(End end, int code, std::string message = "") {
    TaskResult result;
    result.end = end;
    result.code = code;
    result.message = std::move(message);
    written_->Judge(&result);
    return result;
  }

  std::string root_;
  std::unique_ptr<stream::Spool> spool_;
  std::optional<Host> host_;
  std::optional<WrittenStream> written_;
};

TEST_F(WrittenStreamTest, WhoseTextWasKeptEndsAsItDid) {
  ASSERT_TRUE(written_->Open({TaskId(1), 1}, 65536, false).ok());
  Write("a line\n");
  EXPECT_TRUE(written_->open());
  const TaskResult result = Judged(End::kExited, 0);
  EXPECT_EQ(result.end, End::kExited);
  EXPECT_EQ(result.message, "");
  written_->CloseWriteEnd();
  written_->TakeIn(POLLHUP);
  EXPECT_FALSE(written_->open()) << "it is at its end";
}

TEST_F(WrittenStreamTest, WhoseTextCannotBeKeptHasNotSucceeded) {
  ASSERT_TRUE(written_->Open({TaskId(1), 1}, 65536, false).ok());
  WriteTooMuch();
  ASSERT_FALSE(written_->open()) << "nothing more is taken from it";
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
  ASSERT_TRUE(written_->Open({TaskId(2), 1}, 65536, false).ok());
  EXPECT_EQ(Judged(End::kExited, 0).end, End::kExited);
}

}  // namespace
}  // namespace harrow::agent
