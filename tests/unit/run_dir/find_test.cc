#include "run_dir/find.h"

#include <gtest/gtest.h>
#include <map>

#include "support/memory_file_system.h"

namespace harrow::run_dir {
namespace {

class FindRunTest : public testing::Test {
 protected:
  void AddRun(const std::string& directory, int64_t started_s) {
    fs_.SetNow(WallTime(std::chrono::seconds(started_s)));
    ASSERT_TRUE(fs_.WriteWhole(directory + "/flow", "x").ok());
    ASSERT_TRUE(fs_.WriteWhole(directory + "/0/journal.db", "x").ok());
  }
  Result<std::string> Find(const std::string& given, const std::string& environment) {
    return FindRun(fs_, given, environment, Purpose::kRun, [this](const std::string& path, Purpose) {
      const auto known = standings_.find(path);
      return known != standings_.end() ? known->second : Standing{.ours = true, .usable = {}};
    });
  }
  std::string Found(const std::string& given = "", const std::string& environment = "") {
    auto run = Find(given, environment);
    return run.ok() ? *run : run.status().message();
  }

  test::MemoryFileSystem fs_;
  std::map<std::string, Standing> standings_;  // of those that are not simply ours
};

TEST_F(FindRunTest, NewestByStart) {
  AddRun("runs/harrow-1", 10);
  AddRun("runs/harrow-2", 30);
  AddRun("runs/harrow-3", 20);
  EXPECT_EQ(Found("", "runs"), "runs/harrow-2");
}

TEST_F(FindRunTest, ServerFileCountsAsStart) {
  AddRun("runs/harrow-1", 10);
  AddRun("runs/harrow-2", 20);
  fs_.SetNow(WallTime(std::chrono::seconds(30)));
  ASSERT_TRUE(fs_.WriteWhole("runs/harrow-1/0/server", "x").ok());
  EXPECT_EQ(Found("", "runs"), "runs/harrow-1");
}

TEST_F(FindRunTest, AResumeOfAPartCountsAsStart) {
  AddRun("runs/harrow-1", 10);
  AddRun("runs/harrow-2", 20);
  fs_.SetNow(WallTime(std::chrono::seconds(30)));
  ASSERT_TRUE(fs_.WriteWhole("runs/harrow-1/0/flow", "x").ok());
  EXPECT_EQ(Found("", "runs"), "runs/harrow-1");
  fs_.SetNow(WallTime(std::chrono::seconds(40)));
  ASSERT_TRUE(fs_.WriteWhole("runs/harrow-2/12/server", "x").ok());
  EXPECT_EQ(Found("", "runs"), "runs/harrow-2") << "of any part";
  fs_.SetNow(WallTime(std::chrono::seconds(50)));
  ASSERT_TRUE(fs_.WriteWhole("runs/harrow-1/results/flow", "x").ok());
  EXPECT_EQ(Found("", "runs"), "runs/harrow-2") << "a directory that is no part";
}

TEST_F(FindRunTest, WhatGrowsDuringARunDoesNotCount) {
  AddRun("runs/harrow-1", 10);
  AddRun("runs/harrow-2", 20);
  fs_.SetNow(WallTime(std::chrono::seconds(30)));
  ASSERT_TRUE(fs_.WriteWhole("runs/harrow-1/0/journal.db", "longer").ok());
  EXPECT_EQ(Found("", "runs"), "runs/harrow-2");
}

TEST_F(FindRunTest, OtherDirectoriesAreNoRuns) {
  ASSERT_TRUE(fs_.WriteWhole("./harrow-src/README", "x").ok());
  AddRun("./results", 10);
  const auto run = Find("", "");
  EXPECT_EQ(run.status().code(), Code::kNotFound);
  EXPECT_EQ(
      run.status().message(),
      "no run here: no directory harrow-* of a run of yours in this directory; name one with --run-dir D");
}

TEST_F(FindRunTest, GivenWins) {
  AddRun("a", 10);
  AddRun("b", 20);
  EXPECT_EQ(Found("a", "b"), "a");
  EXPECT_EQ(Found("", "b"), "b");
  EXPECT_EQ(Found("c", "b"), "no run in c (--run-dir); a run directory holds the files flow and 0/journal.db");
  EXPECT_EQ(Find("c", "").status().code(), Code::kNotFound);
}

TEST_F(FindRunTest, ACopiedJournalAloneIsARun) {
  ASSERT_TRUE(fs_.WriteWhole("copy/journal.db", "x").ok());
  EXPECT_EQ(Found("copy"), "copy");
  ASSERT_TRUE(fs_.WriteWhole("with-part/0/journal.db", "x").ok());
  EXPECT_EQ(Found("with-part"), "with-part");
}

TEST_F(FindRunTest, ARunOfAReleaseWithoutPartsIsFound) {
  AddRun("runs/harrow-1", 10);
  fs_.SetNow(WallTime(std::chrono::seconds(20)));
  ASSERT_TRUE(fs_.WriteWhole("runs/harrow-2/flow", "x").ok());
  ASSERT_TRUE(fs_.WriteWhole("runs/harrow-2/journal.db", "x").ok());
  EXPECT_EQ(Found("", "runs"), "runs/harrow-2");
}

TEST_F(FindRunTest, AnotherUsersRunIsNotFound) {
  AddRun("runs/harrow-1", 10);
  AddRun("runs/harrow-zzz", 30);
  standings_["runs/harrow-zzz"] = {.ours = false, .usable = Status(Code::kInvalid, "belongs to mallory")};
  EXPECT_EQ(Found("", "runs"), "runs/harrow-1");
}

TEST_F(FindRunTest, AnotherUsersRunThatIsNamedIsRefused) {
  AddRun("harrow-zzz", 30);
  standings_["harrow-zzz"] = {.ours = false, .usable = Status(Code::kInvalid, "belongs to mallory")};
  EXPECT_EQ(Found("harrow-zzz"), "belongs to mallory");
  EXPECT_EQ(Found("", "harrow-zzz"), "belongs to mallory");
}

TEST_F(FindRunTest, AnOlderRunIsNotTakenForOneThatOthersCanWrite) {
  AddRun("runs/harrow-1", 10);
  AddRun("runs/harrow-2", 30);
  standings_["runs/harrow-2"] = {.ours = true, .usable = Status(Code::kInvalid, "can be written by others")};
  EXPECT_EQ(Found("", "runs"), "can be written by others");
  standings_["runs"] = {.ours = false, .usable = Status(Code::kInvalid, "belongs to root")};
  standings_.erase("runs/harrow-2");
  EXPECT_EQ(Found("", "runs"), "runs/harrow-2") << "the directory of runs may be anybody's";
}

TEST_F(FindRunTest, APartStandsForItsRun) {
  AddRun("runs/harrow-1", 10);
  AddRun("harrow-2", 20);
  EXPECT_EQ(Found("runs/harrow-1/0"), "runs/harrow-1");
  EXPECT_EQ(Found("runs/harrow-1/0/"), "runs/harrow-1");
  EXPECT_EQ(Found("", "harrow-2/0"), "harrow-2");
  EXPECT_EQ(Found("runs/harrow-1/output").substr(0, 6), "no run");
  // A run may bear a number itself.
  AddRun("7", 30);
  AddRun("runs/8", 30);
  EXPECT_EQ(Found("7"), "7");
  EXPECT_EQ(Found("7/0"), "7");
  EXPECT_EQ(Found("runs/8"), "runs/8");
}

TEST_F(FindRunTest, InsideAPart) {
  ASSERT_TRUE(fs_.WriteWhole("./journal.db", "x").ok());
  EXPECT_EQ(Found(), ".") << "a copy of a journal";
  ASSERT_TRUE(fs_.WriteWhole("../flow", "x").ok());
  fs_.SetLink(".", "/runs/copies");
  EXPECT_EQ(Found(), ".") << "no part is called so";
  fs_.SetLink(".", "/runs/harrow-1/0");
  EXPECT_EQ(Found(), "..");
}

TEST_F(FindRunTest, InsideARunDirectory) {
  AddRun(".", 10);
  EXPECT_EQ(Found(), ".");
}

}  // namespace
}  // namespace harrow::run_dir
