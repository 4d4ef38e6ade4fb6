// What a task's standard input, output and error are before it is started, and what is told of them when it has ended.
// written_test.cc: what it writes to streams.
#include "agent/steps/streams.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include "agent/steps/gang.h"
#include "stream/spool.h"
#include "unit/agent/kept_output.h"
#include "unit/agent/steps_on_disk.h"

namespace harrow::agent {
namespace {

namespace fs = std::filesystem;
using output::Stream;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

/// Keeps the ends of pipes that it is to feed.
class FedPipes : public StreamHost {
 public:
  explicit FedPipes(const std::string& directory) : spool_(*stream::Spool::Open(directory)) {}
  void Join(const LocalTask&) override {}
  void Leave(AttemptId) override {}
  Result<std::shared_ptr<stream::Log>> Write(AttemptId attempt) override {
    if (!write_fails.ok()) return write_fails;
    return log = spool_->Make(attempt);
  }
  Status Feed(AttemptId, int pipe) override {
    if (!feed_fails.ok()) return feed_fails;
    fed = os::Fd(dup(pipe));
    return {};
  }
  void Grown(AttemptId) override {}
  void Settle(const LocalTask&, TaskResult*) override {}
  int wake_fd() const override { return -1; }

  Status write_fails, feed_fails;
  os::Fd fed;
  std::shared_ptr<stream::Log> log;

 private:
  std::unique_ptr<stream::Spool> spool_;
};

class StreamsTest : public StepOnDisk {
 protected:
  StreamsTest() { Make(nullptr); }
  void Make(StreamHost* host) {
    streams_.emplace(sink_, limit_,
                     Streams::Host{.may_run = [this] { return may_run_; },
                                   .to_end = [this] { return to_end_ && --to_end_after_ < 0; },
                                   .blocks = [this](bool blocks) { blocks_ += blocks ? "(" : ")"; },
                                   .streams = host});
  }
  Status Begin(ProfileSpec spec) {
    SetProfile(std::move(spec));
    return Prepare(*streams_);
  }
  /// As the process does that gets these.
  void Say(int fd, std::string_view text) const {
    ASSERT_EQ(write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  void Out(std::string_view text) const { Say(launch_->request.stdout_fd, text); }
  void Err(std::string_view text) const { Say(launch_->request.stderr_fd, text); }
  void TakeIn() {
    auto polled = streams_->ToPoll();
    poll(polled.data(), polled.size(), 0);
    streams_->TakeIn(polled.data());
  }
  std::string WhatIsRead() const {
    char text[100];
    const ssize_t n = read(launch_->request.stdin_fd, text, sizeof text);
    return {text, n > 0 ? static_cast<size_t>(n) : 0};
  }

  KeptOutput sink_;
  std::atomic<uint64_t> limit_ = 0;
  bool may_run_ = true, to_end_ = false;
  int to_end_after_ = 0;
  std::string blocks_;
  std::optional<Streams> streams_;
};

TEST_F(StreamsTest, WhatIsSaidIsKeptAndCounted) {
  task_.id = 6;
  task_.attempt = 2;
  ASSERT_TRUE(Begin({}).ok());
  EXPECT_EQ(launch_->request.stdin_fd, -1);
  EXPECT_TRUE(streams_->open());
  EXPECT_FALSE(streams_->keeps_log());
  EXPECT_FALSE(streams_->waiting());
  Err("problem");
  TakeIn();
  EXPECT_TRUE(streams_->waiting());
  streams_->HandOn();
  EXPECT_FALSE(streams_->waiting());
  Out("text");
  TakeIn();
  EXPECT_EQ(streams_->kept(), 7u) << "of the one that has said most";
  streams_->CloseOwnEnds();
  TakeIn();
  EXPECT_FALSE(streams_->open());
  Settle(*streams_, End::kExited);
  EXPECT_EQ(sink_.Of(Stream::kStdout), "text");
  EXPECT_EQ(sink_.Of(Stream::kStderr), "problem");
  EXPECT_EQ(sink_.pieces[0].task, 6u);
  EXPECT_EQ(sink_.pieces[0].attempt, 2u);
  EXPECT_EQ(sink_.pieces[0].rank, std::nullopt);
  EXPECT_EQ(result_.stdout_bytes, 4u);
  EXPECT_EQ(result_.stderr_bytes, 7u);
  EXPECT_EQ(result_.output_offset, 100u) << "of the first of both";
  EXPECT_FALSE(result_.truncated);
  ExpectNoDescriptorMore();
}

TEST_F(StreamsTest, TheOffsetIsThatOfTheFirstOfBothStreams) {
  ASSERT_TRUE(Begin({}).ok());
  Out("text");
  TakeIn();
  Settle(*streams_, End::kExited);
  EXPECT_EQ(result_.output_offset, 100u);
  ASSERT_TRUE(Begin({}).ok());
  Err("problem");
  TakeIn();
  Settle(*streams_, End::kExited);
  EXPECT_EQ(result_.output_offset, 200u);
  ASSERT_TRUE(Begin({}).ok());
  Out("text");
  TakeIn();
  streams_->HandOn();
  Err("problem");
  TakeIn();
  Settle(*streams_, End::kExited);
  EXPECT_EQ(result_.output_offset, 300u);
  ASSERT_TRUE(Begin({}).ok());
  Settle(*streams_, End::kExited);
  EXPECT_EQ(result_.output_offset, 0u);
}

TEST_F(StreamsTest, WhatEitherSaidTooMuchOfIsTold) {
  limit_ = 3;
  for (const bool err : {false, true}) {
    ASSERT_TRUE(Begin({}).ok());
    err ? Err("abcd") : Out("abcd");
    err ? Out("abc") : Err("abc");
    TakeIn();
    Settle(*streams_, End::kExited);
    EXPECT_TRUE(result_.truncated);
    EXPECT_EQ(result_.stdout_bytes, 3u);
    EXPECT_EQ(result_.stderr_bytes, 3u);
  }
  ASSERT_TRUE(Begin({}).ok());
  Out("abc");
  TakeIn();
  Settle(*streams_, End::kExited);
  EXPECT_FALSE(result_.truncated);
}

TEST_F(StreamsTest, WhatWasReadOfEitherWaitsToBeHandedOn) {
  ASSERT_TRUE(Begin({}).ok());
  Out("x");
  TakeIn();
  EXPECT_TRUE(streams_->waiting());
  Err("x");
  TakeIn();
  EXPECT_TRUE(streams_->waiting());
}

TEST_F(StreamsTest, OfWhatTheAttemptBeforeSaidNothingIsTold) {
  ASSERT_TRUE(Begin({}).ok());
  Out("text");
  Err("problem");
  TakeIn();
  Settle(*streams_, End::kExited);
  ASSERT_TRUE(Begin({.stdout_path = "out", .stderr_path = "err"}).ok());
  EXPECT_EQ(streams_->kept(), 0u);
  Settle(*streams_, End::kExited);
  EXPECT_EQ(result_.stdout_bytes, 0u);
  EXPECT_EQ(result_.stderr_bytes, 0u);
  EXPECT_EQ(result_.output_offset, 0u);
}

TEST_F(StreamsTest, WithoutPipesTheTaskIsNotStarted) {
  for (const int more : {0, 2}) {
    Status status;
    {
      const FewDescriptors few(more);
      status = Begin({});
    }
    EXPECT_EQ(status.code(), Code::kExhausted);
    EXPECT_EQ(status.message(), "no pipe for its output: Too many open files");
    EXPECT_FALSE(streams_->open());
    ExpectNoDescriptorMore();
  }
}

TEST_F(StreamsTest, OfAnAttemptThatIsTriedAgainNothingIsTold) {
  ASSERT_TRUE(Begin({}).ok());
  Out("text");
  TakeIn();
  Settle(*streams_, End::kRunning);
  EXPECT_TRUE(sink_.pieces.empty());
  EXPECT_EQ(result_.stdout_bytes, 0u);
  ExpectNoDescriptorMore();
}

TEST_F(StreamsTest, WhoHasRanksIsToldByThem) {
  given_.process = 1;
  ASSERT_TRUE(Begin({.ranks = 2}).ok());
  Out("x");
  TakeIn();
  Settle(*streams_, End::kExited);
  EXPECT_EQ(sink_.pieces.back().rank, 1u);
  task_.gang = std::make_shared<Gang>(Gang{.nodes = {{.name = "n0", .ranks = 3}, {.name = "n1", .ranks = 2}}, .here = 1});
  ASSERT_TRUE(Begin({.ranks = 5, .stderr_path = "err-%t"}).ok());
  Out("x");
  Err("y");
  TakeIn();
  Settle(*streams_, End::kExited);
  EXPECT_EQ(sink_.pieces.back().rank, 4u);
  EXPECT_EQ(Text("submit/err-4"), "y");
}

// --- files

TEST_F(StreamsTest, NamedFilesAreUsedInPlaceOfPipes) {
  Write("submit/in", "given");
  ASSERT_TRUE(Begin({.stdin_path = "in", .stdout_path = "new/out-%a", .stderr_path = "err-%a"}).ok());
  for (const int fd : {launch_->request.stdin_fd, launch_->request.stdout_fd, launch_->request.stderr_fd})
    EXPECT_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
  EXPECT_FALSE(streams_->open());
  EXPECT_EQ(WhatIsRead(), "given");
  Out("text");
  Err("problem");
  Settle(*streams_, End::kExited);
  EXPECT_EQ(Text("submit/new/out-1"), "text");
  EXPECT_EQ(Text("submit/err-1"), "problem");
  EXPECT_EQ(ModeOf(Submit("err-1")) & 0111, 0u);
  EXPECT_EQ(result_.stdout_bytes, 0u);
  EXPECT_EQ(blocks_, "()()()") << "whoever opens a FIFO may wait for long";
  ExpectNoDescriptorMore();
}

TEST_F(StreamsTest, AFileForOneOfBothLeavesTheOtherItsPipe) {
  ASSERT_TRUE(Begin({.stdout_path = "out"}).ok());
  EXPECT_TRUE(streams_->open());
  Out("text");
  Err("problem");
  TakeIn();
  Settle(*streams_, End::kExited);
  EXPECT_EQ(Text("submit/out"), "text");
  EXPECT_EQ(sink_.Of(Stream::kStderr), "problem");
  ASSERT_TRUE(Begin({.stderr_path = "err"}).ok());
  EXPECT_TRUE(streams_->open());
  Out("text");
  Err("problem");
  TakeIn();
  Settle(*streams_, End::kExited);
  EXPECT_EQ(Text("submit/err"), "problem");
  EXPECT_EQ(sink_.Of(Stream::kStdout), "text");
}

TEST_F(StreamsTest, OneFileForBothIsOpenedOnce) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    ASSERT_TRUE(Begin({.stdout_path = "both", .stderr_path = "both"}).ok());
    EXPECT_EQ(launch_->request.stdout_fd, launch_->request.stderr_fd);
    Out("a");
    Err("b");
    Settle(*streams_, End::kExited);
  }
  EXPECT_EQ(Text("submit/both"), "abab") << "and is added to";
  ASSERT_TRUE(Begin({.stdout_path = "one", .stderr_path = "other"}).ok());
  EXPECT_NE(launch_->request.stdout_fd, launch_->request.stderr_fd);
}

TEST_F(StreamsTest, WhatCannotBeOpenedKeepsTheTaskFromBeingStarted) {
  Directory("submit/folder");
  Write("submit/in", "given");
  for (const auto& [spec, what, why] :
       {std::tuple(ProfileSpec{.stdin_path = "missing"}, "stdin", "No such file"),
        {ProfileSpec{.stdin_path = "in", .stdout_path = "folder"}, "stdout", "Is a directory"},
        {ProfileSpec{.stdin_path = "in", .stdout_path = "x", .stderr_path = "in/err"}, "stderr", "Not a directory"}}) {
    const Status status = Begin(spec);
    EXPECT_EQ(status.code(), Code::kInvalid);
    EXPECT_THAT(status.message(),
                AllOf(StartsWith(std::string("cannot open its ") + what + " " + At("submit/")), HasSubstr(why)));
    EXPECT_EQ(launch_->request.stdout_fd, os::SpawnRequest().stdout_fd);
    ExpectNoDescriptorMore();
  }
  EXPECT_EQ(fs::exists(Submit("missing")), false);
  EXPECT_EQ(blocks_, "()()()()()()");
}

TEST_F(StreamsTest, WhatIsReadIsNotMadeForIt) {
  EXPECT_FALSE(Begin({.stdin_path = "new/in"}).ok());
  EXPECT_FALSE(Has("submit/new"));
}

TEST_F(StreamsTest, OfRanksTheFirstReads) {
  Write("submit/in", "given");
  given_.process = 1;
  ASSERT_TRUE(Begin({.ranks = 2, .stdin_path = "in"}).ok());
  EXPECT_EQ(launch_->request.stdin_fd, -1);
  given_.process = 0;
  ASSERT_TRUE(Begin({.ranks = 2, .stdin_path = "in"}).ok());
  EXPECT_EQ(WhatIsRead(), "given");
}

TEST_F(StreamsTest, WhoIsToEndWaitsForNoFile) {
  to_end_ = true;
  const Status status = Begin({.stdout_path = "out"});
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_FALSE(Has("submit/out"));
  to_end_after_ = 1;
  EXPECT_FALSE(Begin({.stdout_path = "new/out"}).ok()) << "nor once more";
  EXPECT_FALSE(Has("submit/new/out"));
}

// --- files that are begun anew

TEST_F(StreamsTest, AnOutputOfItsOwnIsBegunAnewAndAnyOtherFileAddedTo) {
  task_.outputs = {"other", "out"};
  for (const char* name : {"out", "other", "log"}) Write(std::string("submit/") + name, "before");
  ASSERT_TRUE(Begin({.stdout_path = "./out", .stderr_path = "log"}).ok());
  Out("now");
  Err("now");
  Settle(*streams_, End::kExited);
  EXPECT_EQ(Text("submit/out"), "now");
  EXPECT_EQ(Text("submit/log"), "beforenow");
  EXPECT_EQ(Text("submit/other"), "before") << "no stream's";
  ASSERT_TRUE(Begin({.stdout_path = "log", .stderr_path = "out"}).ok());
  EXPECT_EQ(Text("submit/out"), "") << "the same of stderr";
  EXPECT_EQ(Text("submit/log"), "beforenow");
}

TEST_F(StreamsTest, WhoAsksForEmptyFilesHasThem) {
  for (const char* name : {"out", "err"}) Write(std::string("submit/") + name, "before");
  ASSERT_TRUE(Begin({.empty_streams = true, .stdout_path = "out", .stderr_path = "err"}).ok());
  EXPECT_EQ(Text("submit/out"), "");
  EXPECT_EQ(Text("submit/err"), "");
}

// Another attempt may be writing them.
TEST_F(StreamsTest, WhereTasksMayNotRunNothingIsEmptied) {
  may_run_ = false;
  task_.outputs = {"out"};
  for (const bool empty : {false, true}) {
    Write("submit/out", "before");
    ASSERT_TRUE(Begin({.empty_streams = empty, .stdout_path = "out"}).ok());
    EXPECT_EQ(Text("submit/out"), "before");
    Settle(*streams_, End::kNotStarted);
  }
}

TEST_F(StreamsTest, WhatIsNoFileIsLeftAsItIs) {
  task_.outputs = {"fifo", "missing"};
  ASSERT_EQ(mkfifo(Submit("fifo").c_str(), 0600), 0);
  const os::Fd reader(open(Submit("fifo").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  ASSERT_TRUE(Begin({.empty_streams = true, .stdout_path = "fifo"}).ok());
  Out("x");
  Settle(*streams_, End::kExited);
  char c = 0;
  EXPECT_EQ(read(reader.get(), &c, 1), 1);
}

TEST_F(StreamsTest, InASandboxDeclaredFilesLieThereAndOthersInTheSubmitDirectory) {
  Directory("sandbox/tree");
  Write("sandbox/in", "given");
  Write("sandbox/folder/in", "given too");
  sandbox_ = At("sandbox");
  task_.outputs = {"out", "tree"};
  task_.inputs = {{.file = FileId(1), .path = "in"}, {.file = FileId(2), .path = "folder"}};
  ASSERT_TRUE(Begin({.stdin_path = "./in", .stdout_path = "x/../out", .stderr_path = "tree/err"}).ok());
  EXPECT_EQ(WhatIsRead(), "given");
  Out("text");
  Err("problem");
  Settle(*streams_, End::kExited);
  EXPECT_EQ(Text("sandbox/out"), "text");
  EXPECT_EQ(Text("sandbox/tree/err"), "problem");
  EXPECT_TRUE(fs::is_empty(At("submit")));
  ASSERT_TRUE(Begin({.stdin_path = "folder/in", .stdout_path = "out-2", .stderr_path = At("elsewhere")}).ok());
  EXPECT_EQ(WhatIsRead(), "given too");
  Out("text");
  Err("problem");
  EXPECT_EQ(Text("submit/out-2"), "text");
  EXPECT_EQ(Text("elsewhere"), "problem");
  Settle(*streams_, End::kExited);
  Directory("submit-2");
  ASSERT_TRUE(Begin({.stdout_path = At("submit-2/out")}).ok());
  EXPECT_TRUE(Has("submit-2/out")) << "a directory whose name begins alike is another one";
}

// --- streams between tasks

class StreamsBetweenTasksTest : public StreamsTest {
 protected:
  StreamsBetweenTasksTest() : host_(Directory("spool")) {
    Make(&host_);
    CountDescriptors();
  }

  FedPipes host_;
};

TEST_F(StreamsTest, WhereThereIsNoPlaceForStreamsWhoHasSomeIsNotStarted) {
  task_.writes_streams = true;
  EXPECT_EQ(Begin({}).code(), Code::kUnavailable);
  task_.writes_streams = false;
  EXPECT_TRUE(Begin({}).ok());
}

TEST_F(StreamsBetweenTasksTest, WhatIsWrittenGoesToALogAndProblemsAreKept) {
  task_.writes_streams = true;
  ASSERT_TRUE(Begin({}).ok());
  EXPECT_TRUE(streams_->keeps_log());
  Out("record\n");
  Err("problem");
  TakeIn();
  EXPECT_EQ(streams_->kept(), 7u);
  streams_->CloseOwnEnds();
  TakeIn();
  EXPECT_FALSE(streams_->open());
  Settle(*streams_, End::kExited);
  EXPECT_EQ(result_.end, End::kExited);
  EXPECT_EQ(sink_.Of(Stream::kStdout), "");
  EXPECT_EQ(sink_.Of(Stream::kStderr), "problem");
  EXPECT_EQ(result_.stdout_bytes, 0u);
  task_.writes_streams = false;
  ASSERT_TRUE(Begin({}).ok());
  EXPECT_FALSE(streams_->keeps_log());
  EXPECT_TRUE(streams_->open());
}

TEST_F(StreamsBetweenTasksTest, WhatCannotBeKeptIsNoSuccess) {
  task_.writes_streams = true;
  ASSERT_TRUE(Begin({}).ok());
  Out("more than that");
  {
    const SmallFiles small(4);
    for (int times = 0; times < 4 && streams_->keeps_log(); ++times) TakeIn();
  }
  Settle(*streams_, End::kExited);
  EXPECT_EQ(result_.end, End::kMissingOutput);
}

TEST_F(StreamsBetweenTasksTest, WhoReadsStreamsHasThemFromAPipe) {
  for (const bool split : {false, true}) {
    task_.sources = {{.stream = StreamId(1)}, {.stream = StreamId(2), .split = split}};
    ASSERT_TRUE(Begin({}).ok());
    Say(host_.fed.get(), "record\n");
    EXPECT_EQ(WhatIsRead(), "record\n");
    EXPECT_EQ(fcntl(launch_->request.stdin_fd, F_GETFD), FD_CLOEXEC);
    EXPECT_EQ(fcntl(launch_->request.stdin_fd, F_GETPIPE_SZ), split ? 4096 : 256 << 10);
    host_.fed = os::Fd();
    EXPECT_EQ(WhatIsRead(), "") << "nobody else holds its end";
    Settle(*streams_, End::kExited);
    ExpectNoDescriptorMore();
  }
}

TEST_F(StreamsBetweenTasksTest, WhoHasOutputsGoesOnWhereNobodyReadsItsStreams) {
  task_.writes_streams = true;
  for (const bool goes_on : {false, true}) {
    if (goes_on) task_.outputs = {"out"};
    ASSERT_TRUE(Begin({}).ok());
    streams_->CloseUnread();
    EXPECT_TRUE(streams_->keeps_log());
    host_.log->Close();
    streams_->CloseUnread();
    EXPECT_EQ(streams_->keeps_log(), goes_on);
    Settle(*streams_, End::kExited);
  }
}

TEST_F(StreamsBetweenTasksTest, WithoutPipesTheTaskIsNotStarted) {
  task_.sources = {{.stream = StreamId(1)}};
  Status status;
  {
    const FewDescriptors few(0);
    status = Begin({});
  }
  EXPECT_EQ(status.code(), Code::kExhausted);
  EXPECT_EQ(status.message(), "no pipe for its streams: Too many open files");
  ExpectNoDescriptorMore();
}

TEST_F(StreamsBetweenTasksTest, WhatTheHostRefusesKeepsTheTaskFromBeingStarted) {
  task_.sources = {{.stream = StreamId(1)}};
  host_.feed_fails = Status(Code::kExhausted, "no feed");
  EXPECT_EQ(Begin({}).message(), "no feed");
  ExpectNoDescriptorMore();
  host_.feed_fails = {};
  task_.writes_streams = true;
  host_.write_fails = Status(Code::kExhausted, "no log");
  EXPECT_EQ(Begin({}).message(), "no log");
  EXPECT_FALSE(streams_->open());
  ExpectNoDescriptorMore();
}

}  // namespace
}  // namespace harrow::agent
