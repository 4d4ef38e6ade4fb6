#include "stream/spool.h"

#include <fcntl.h>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace harrow::stream {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr AttemptId kWriter{TaskId(7), 2};

class SpoolTest : public testing::Test {
 protected:
  SpoolTest() {
    std::string name = (std::filesystem::temp_directory_path() / "harrow-test-XXXXXX").string();
    directory_ = mkdtemp(name.data());
    Open();
    EXPECT_EQ(pipe2(pipe_, O_CLOEXEC), 0);
  }
  ~SpoolTest() override {
    close(pipe_[0]);
    if (pipe_[1] >= 0) close(pipe_[1]);
    spool_.reset();
    std::filesystem::remove_all(directory_);
  }
  void Open() {
    auto spool = Spool::Open(directory_);
    ASSERT_TRUE(spool.ok()) << spool.status().message();
    spool_ = *std::move(spool);
  }
  void Write(LogWriter& writer, const std::string& text) {
    ASSERT_EQ(write(pipe_[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
    const auto taken = writer.TakeFrom(pipe_[0]);
    ASSERT_TRUE(taken.ok()) << taken.status().message();
    EXPECT_EQ(*taken, static_cast<int64_t>(text.size()));
  }
  std::string Text(Cursor& cursor, int64_t most = 1000) {
    const auto range = cursor.Next(most);
    if (!range.ok()) return range.status().message();
    std::string text(static_cast<size_t>(range->bytes), '\0');
    if (range->bytes > 0) {
      EXPECT_TRUE(ReadAll((*cursor.Read())->fd(), range->offset, text.data(), text.size()).ok());
    }
    cursor.Advance(range->bytes);
    return text;
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory_ + "/streams"))
      names.push_back(entry.path().filename());
    return names;
  }

  std::string directory_;
  std::unique_ptr<Spool> spool_;
  int pipe_[2] = {-1, -1};
};

TEST_F(SpoolTest, WhatIsWrittenIsReadAsOftenAsOneWants) {
  const auto log = spool_->Make(kWriter);
  LogWriter writer;
  ASSERT_TRUE(writer.Open(log.get()).ok());
  Cursor one(spool_.get(), {.log = log}), other(spool_.get(), {.log = log, .offset = 2});
  EXPECT_EQ(Text(one), "");
  EXPECT_FALSE(one.over() || one.failed());
  Write(writer, "hello\n");
  EXPECT_EQ(Text(one, 3), "hel");
  EXPECT_EQ(Text(one, 3), "lo\n");
  EXPECT_EQ(Text(other), "llo\n");
  log->SetState(Log::State::kWhole);
  EXPECT_EQ(Text(one), "");
  EXPECT_TRUE(one.over());
  EXPECT_THAT(spool_->Whole(), ElementsAre(kWriter));
  EXPECT_EQ(spool_->Find(kWriter), log);
}

TEST_F(SpoolTest, ThePipesEndAndItsEmptinessAreTold) {
  const auto log = spool_->Make(kWriter);
  LogWriter writer;
  ASSERT_TRUE(writer.Open(log.get()).ok());
  EXPECT_EQ(writer.TakeFrom(pipe_[0]).status().code(), Code::kUnavailable);
  close(std::exchange(pipe_[1], -1));
  const auto taken = writer.TakeFrom(pipe_[0]);
  ASSERT_TRUE(taken.ok());
  EXPECT_EQ(*taken, 0);
}

TEST_F(SpoolTest, WhoWaitsIsToldOnce) {
  const auto log = spool_->Make(kWriter);
  EXPECT_FALSE(log->TakeWatch());
  log->Watch();
  EXPECT_TRUE(log->TakeWatch());
  EXPECT_FALSE(log->TakeWatch());
}

TEST_F(SpoolTest, NobodyElseMayReadThem) {
  const auto log = spool_->Make(kWriter);
  LogWriter writer;
  ASSERT_TRUE(writer.Open(log.get()).ok());
  struct stat info {};
  ASSERT_EQ(stat((directory_ + "/streams").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  ASSERT_EQ(stat(log->path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(SpoolTest, WhatIsDroppedIsGoneForWhoReads) {
  const auto log = spool_->Make(kWriter);
  LogWriter writer;
  ASSERT_TRUE(writer.Open(log.get()).ok());
  Write(writer, "text");
  Cursor cursor(spool_.get(), {.log = log});
  EXPECT_EQ(Text(cursor, 2), "te");
  spool_->Drop(kWriter);
  spool_->Drop(kWriter);
  EXPECT_THAT(Files(), IsEmpty());
  EXPECT_EQ(spool_->Find(kWriter), nullptr);
  EXPECT_EQ(Text(cursor), "");
  EXPECT_TRUE(cursor.failed());
  spool_->Tidy();
  EXPECT_EQ(spool_->count(), 0u);
}

TEST_F(SpoolTest, AnIncompleteLogFailsAtItsEnd) {
  const auto log = spool_->Make(kWriter);
  LogWriter writer;
  ASSERT_TRUE(writer.Open(log.get()).ok());
  Write(writer, "text");
  log->SetState(Log::State::kIncomplete);
  Cursor cursor(spool_.get(), {.log = log});
  EXPECT_EQ(Text(cursor), "text");
  EXPECT_FALSE(cursor.failed());
  EXPECT_EQ(Text(cursor), "");
  EXPECT_TRUE(cursor.failed());
  EXPECT_THAT(spool_->Whole(), IsEmpty());
}

TEST_F(SpoolTest, AnAttemptThatBeginsAgainHasANewLog) {
  const auto before = spool_->Make(kWriter);
  LogWriter writer;
  ASSERT_TRUE(writer.Open(before.get()).ok());
  Write(writer, "text");
  const auto log = spool_->Make(kWriter);
  EXPECT_EQ(before->state(), Log::State::kGone);
  EXPECT_EQ(log->length(), 0);
  LogWriter again;
  EXPECT_TRUE(again.Open(log.get()).ok());
  EXPECT_EQ(again.Open(log.get()).code(), Code::kExists);
}

TEST_F(SpoolTest, WhatAnAgentBeforeLeftIsRemoved) {
  LogWriter writer;
  ASSERT_TRUE(writer.Open(spool_->Make(kWriter).get()).ok());
  ASSERT_EQ(Files().size(), 1u);
  const auto before = std::move(spool_);
  Open();
  EXPECT_THAT(Files(), IsEmpty());
  spool_.reset();
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/streams"));
}

TEST_F(SpoolTest, AFullDiskIsToldAsOne) {
  EXPECT_THAT(CannotKeep(ENOSPC).message(), HasSubstr("does not fit on the node's disk"));
  EXPECT_EQ(CannotKeep(EIO).code(), Code::kDamaged);
}

TEST_F(SpoolTest, ReadersOfASplitStreamShareIt) {
  const auto log = spool_->Make(kWriter);
  LogWriter writer;
  ASSERT_TRUE(writer.Open(log.get()).ok());
  Write(writer, "1\n2\n3\n4\n");
  log->SetState(Log::State::kWhole);
  const auto of = [&](uint32_t reader) {
    return Cursor::Of{.log = log, .stream = StreamId(1), .split = true, .reader = TaskId(reader)};
  };
  std::optional<Cursor> one, other;
  one.emplace(spool_.get(), of(1));
  other.emplace(spool_.get(), of(2));
  EXPECT_EQ(Text(*one), "1\n");
  EXPECT_EQ(Text(*other), "2\n");
  EXPECT_EQ(Text(*one, 1), "3");
  one.emplace(spool_.get(), of(1));
  EXPECT_EQ(Text(*one, 2), "1\n") << "a further attempt";
  EXPECT_EQ(Text(*one), "3\n");
  EXPECT_EQ(Text(*other), "4\n");
  EXPECT_EQ(Text(*one), "");
  EXPECT_TRUE(one->over());
}

TEST_F(SpoolTest, FewFilesAreOpenHoweverManyAreRead) {
  const auto open_files = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                         std::filesystem::directory_iterator());
  };
  const auto before = open_files();
  std::vector<std::shared_ptr<Log>> logs;
  for (uint32_t i = 0; i < 300; ++i) {
    logs.push_back(spool_->Make({TaskId(i), 1}));
    LogWriter writer;
    ASSERT_TRUE(writer.Open(logs.back().get()).ok());
  }
  for (int round = 0; round < 2; ++round) {
    for (const auto& log : logs) {
      auto reader = spool_->Read(log);
      ASSERT_TRUE(reader.ok());
      EXPECT_EQ(&(*reader)->log(), log.get());
    }
  }
  EXPECT_LE(open_files() - before, 64);
}

TEST_F(SpoolTest, WhatIsKeptOpenMakesWayWhereTheProcessMayHaveNoMoreFiles) {
  std::vector<std::shared_ptr<Log>> logs;
  for (uint32_t n = 0; n < 8; ++n) {
    logs.push_back(spool_->Make({TaskId(n), 1}));
    LogWriter writer;
    ASSERT_TRUE(writer.Open(logs.back().get()).ok());
  }
  ASSERT_TRUE(spool_->Read(logs[0]).ok());
  ASSERT_TRUE(spool_->Read(logs[1]).ok());
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = dup(0);
  rlimit few = before;
  few.rlim_cur = static_cast<rlim_t>(next);
  close(next);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  for (const std::shared_ptr<Log>& log : logs) {
    const auto reader = spool_->Read(log);
    EXPECT_TRUE(reader.ok()) << reader.status().message();
  }
  setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace harrow::stream
