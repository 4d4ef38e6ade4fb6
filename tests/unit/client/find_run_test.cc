#include "client/find_run.h"

#include <gtest/gtest.h>

#include "support/memory_file_system.h"

namespace harrow::client {
namespace {

class FindRunTest : public testing::Test {
 protected:
  void AddRun(const std::string& directory, int64_t started_s) {
    fs_.SetNow(WallTime(std::chrono::seconds(started_s)));
    ASSERT_TRUE(fs_.WriteWhole(directory + "/flow", "x").ok());
    ASSERT_TRUE(fs_.WriteWhole(directory + "/journal.db", "x").ok());
  }
  std::string Found(const std::string& given = "", const std::string& environment = "") {
    auto run = FindRun(fs_, given, environment);
    return run.ok() ? *run : run.status().message();
  }

  test::MemoryFileSystem fs_;
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
  ASSERT_TRUE(fs_.WriteWhole("runs/harrow-1/server", "x").ok());
  EXPECT_EQ(Found("", "runs"), "runs/harrow-1");
}

TEST_F(FindRunTest, WhatGrowsDuringARunDoesNotCount) {
  AddRun("runs/harrow-1", 10);
  AddRun("runs/harrow-2", 20);
  fs_.SetNow(WallTime(std::chrono::seconds(30)));
  ASSERT_TRUE(fs_.WriteWhole("runs/harrow-1/journal.db", "longer").ok());
  EXPECT_EQ(Found("", "runs"), "runs/harrow-2");
}

TEST_F(FindRunTest, OtherDirectoriesAreNoRuns) {
  ASSERT_TRUE(fs_.WriteWhole("./harrow-src/README", "x").ok());
  AddRun("./results", 10);
  const auto run = FindRun(fs_, "", "");
  EXPECT_EQ(run.status().code(), Code::kNotFound);
  EXPECT_EQ(run.status().message(),
            "no run here: no directory harrow-* of a run in this directory; name one with --run-dir D");
}

TEST_F(FindRunTest, GivenWins) {
  AddRun("a", 10);
  AddRun("b", 20);
  EXPECT_EQ(Found("a", "b"), "a");
  EXPECT_EQ(Found("", "b"), "b");
  EXPECT_EQ(Found("c", "b"), "no run in c (--run-dir); a run directory holds the files flow and journal.db");
  EXPECT_EQ(FindRun(fs_, "c", "").status().code(), Code::kInvalid);
}

TEST_F(FindRunTest, ACopiedJournalAloneIsARun) {
  ASSERT_TRUE(fs_.WriteWhole("copy/journal.db", "x").ok());
  EXPECT_EQ(Found("copy"), "copy");
}

TEST_F(FindRunTest, InsideARunDirectory) {
  AddRun(".", 10);
  EXPECT_EQ(Found(), ".");
}

}  // namespace
}  // namespace harrow::client
