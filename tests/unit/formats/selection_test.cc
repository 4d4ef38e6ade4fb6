#include "formats/selection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <string>

#include "support/loaded_flow.h"

namespace harrow::formats {
namespace {

using test::LoadedFlow;
using testing::HasSubstr;

// raw -> a -> b -> c; d alone, without outputs
constexpr const char* kChain = R"(
[[task]]
name = "a"
command = "x"
in = ["raw"]
out = ["a.out", "a.log"]
[[task]]
name = "b"
command = "x"
in = ["a.out"]
out = ["b.out"]
[[task]]
name = "c"
command = "x"
in = ["b.out"]
out = ["c.out"]
[[task]]
name = "d"
command = "x"
in = ["raw"]
)";

std::string Chosen(const LoadedFlow& f, const Result<std::vector<bool>>& flags) {
  if (!flags) return flags.status().message();
  std::string names;
  for (uint32_t n = 0; n < flags->size(); ++n) {
    if ((*flags)[n]) names += f.graph.TaskName(TaskId(n));
  }
  return names;
}

TEST(SelectTargetsTest, TasksAndFilesWithAllTheyNeed) {
  LoadedFlow f("f.toml", kChain);
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  EXPECT_EQ(Chosen(f, SelectTargets(f.graph, {"b"})), "ab");
  EXPECT_EQ(Chosen(f, SelectTargets(f.graph, {"./c.out"})), "abc");
  EXPECT_EQ(Chosen(f, SelectTargets(f.graph, {"a.log", "d"})), "ad");
  EXPECT_EQ(Chosen(f, SelectTargets(f.graph, {"#2"})), "ab");
  EXPECT_EQ(SelectTargets(f.graph, {"c.uot"}).status().message(),
            "--target: there is no task \"c.uot\"; did you mean \"c.out\"?");
  EXPECT_THAT(SelectTargets(f.graph, {"raw"}).status().message(), HasSubstr("it is only read"));
}

TEST(SelectTargetsTest, WhatIsOnlyWaitedForIsNeededAndMakesNothingStale) {
  LoadedFlow f("f.toml",
               "[[task]]\nname = \"a\"\ncommand = \"x\"\n[[task]]\nname = \"b\"\ncommand = \"x\"\n"
               "out = [\"b.out\"]\nafter_any = [\"a\"]\n");
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  EXPECT_EQ(Chosen(f, SelectTargets(f.graph, {"b"})), "ab");
  ASSERT_TRUE(f.fs.MakeDirectories("/d").ok());
  ASSERT_TRUE(f.fs.WriteWhole("/d/b.out", "", 0600).ok());
  EXPECT_EQ(Chosen(f, SelectStale(f.graph, f.fs, "/d")), "a");
}

class CountingFileSystem : public test::MemoryFileSystem {
 public:
  Result<os::FileInfo> Stat(const std::string& path) override {
    ++asked[path];
    return MemoryFileSystem::Stat(path);
  }
  std::map<std::string, int> asked;
};

TEST(SelectStaleTest, AsksForEachFileOnce) {
  LoadedFlow f("f.toml", "[[task]]\nname = \"a-{i}\"\neach = { i = \"1-9\" }\ncommand = \"x\"\nin = [\"raw\"]\nout = [\"o-{i}\"]\n"
                         "[[task]]\nname = \"b\"\ncommand = \"x\"\nin = [\"o-*\"]\nout = [\"r\"]\n");
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  CountingFileSystem fs;
  for (const char* path : {"/d/raw", "/d/o-1", "/d/o-2", "/d/o-3", "/d/o-4", "/d/o-5", "/d/o-6", "/d/o-7", "/d/o-8", "/d/o-9", "/d/r"})
    ASSERT_TRUE(fs.WriteWhole(path, "x").ok());
  ASSERT_TRUE(SelectStale(f.graph, fs, "/d").ok());
  EXPECT_EQ(fs.asked.size(), 11u);
  for (const auto& [path, times] : fs.asked) EXPECT_EQ(times, 1) << path;
}

class StaleTest : public testing::Test {
 protected:
  StaleTest() {
    f.Load("f.toml", kChain);
    int64_t now = 1;
    for (const char* name : {"raw", "a.out", "a.log", "b.out", "c.out"}) Write(name, now++);
  }
  void Write(const std::string& name, int64_t second) {
    f.fs.SetNow(WallTime(std::chrono::seconds(second)));
    ASSERT_TRUE(f.fs.WriteWhole("/d/" + name, "x").ok());
  }
  std::string Stale() { return Chosen(f, SelectStale(f.graph, f.fs, "/d")); }
  LoadedFlow f;
};

TEST_F(StaleTest, NothingButWhatHasNoOutput) {
  EXPECT_EQ(Stale(), "d");
}

TEST_F(StaleTest, AnOlderOutputAndWhatFollows) {
  Write("raw", 10);
  EXPECT_EQ(Stale(), "abcd");
  Write("a.out", 11);
  EXPECT_EQ(Stale(), "abcd");  // a.log is still older
  Write("a.log", 11);
  EXPECT_EQ(Stale(), "bcd");
  Write("b.out", 12);
  EXPECT_EQ(Stale(), "cd");
}

TEST_F(StaleTest, AMissingOutputAndWhatFollows) {
  ASSERT_TRUE(f.fs.Remove("/d/b.out").ok());
  EXPECT_EQ(Stale(), "bcd");
}

TEST_F(StaleTest, EqualTimesAreUpToDate) {
  for (const char* name : {"raw", "a.out", "a.log", "b.out", "c.out"}) Write(name, 20);
  EXPECT_EQ(Stale(), "d");
}

TEST_F(StaleTest, AMissingInputIsTold) {
  ASSERT_TRUE(f.fs.Remove("/d/raw").ok());
  EXPECT_THAT(Stale(),
              HasSubstr("f.toml:3:8: task \"a\" needs \"raw\", which does not exist and no task makes"));
}

}  // namespace
}  // namespace harrow::formats
