#include "agent/source_index.h"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/posix_files.h"
#include "support/fake_store.h"
#include "support/memory_file_system.h"
#include "support/own_directory.h"

namespace harrow::agent {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

store::Object ObjectOf(int n) {
  return test::FakeStore::ObjectOf("content " + std::to_string(n));
}

class SourceIndexTest : public testing::Test {
 protected:
  std::unique_ptr<SourceIndex> Open() { return SourceIndex::Open(fs_, "/sources", store_); }
  HeldLog::Held Held(const std::string& run, std::unique_ptr<HeldLog>* log = nullptr) {
    HeldLog::Held held;
    std::unique_ptr<HeldLog> opened = HeldLog::Open(fs_, "/held", run, store_, &held);
    if (log != nullptr) *log = std::move(opened);
    return held;
  }

  void Put(int n) { store_.Put("content " + std::to_string(n)); }

  test::MemoryFileSystem fs_;
  test::FakeStore store_;
};

TEST_F(SourceIndexTest, WhatWasNotedIsFoundByTheNextAsLongAsItIsHere) {
  Put(1);
  Put(2);
  {
    const auto index = Open();
    index->Note("/w/a b%\n\xff", "s1", ObjectOf(1));
    index->Note("/w/c", "s2", ObjectOf(2));
    index->Note("/w/gone", "s3", ObjectOf(3));
    index->Note("/w/racy", "", ObjectOf(1));
    EXPECT_EQ(index->Find("/w/c", "s2"), ObjectOf(2));
    EXPECT_EQ(index->Find("/w/c", "s9"), std::nullopt) << "it was changed";
    EXPECT_EQ(index->Find("/w/racy", ""), std::nullopt);
    EXPECT_TRUE(index->Names(ObjectOf(3).id));
  }
  const auto index = Open();
  EXPECT_EQ(index->Find("/w/a b%\n\xff", "s1"), ObjectOf(1));
  EXPECT_EQ(index->Find("/w/c", "s2"), ObjectOf(2));
  EXPECT_FALSE(index->Names(ObjectOf(3).id)) << "the store has it no more";
  EXPECT_EQ(index->Entries().size(), 2u);
}

TEST_F(SourceIndexTest, TheLastWordOfAPathCounts) {
  Put(1);
  Put(2);
  {
    const auto index = Open();
    index->Note("/w/a", "s1", ObjectOf(1));
    index->Note("/w/b", "s1", ObjectOf(1));
    index->Note("/w/a", "s2", ObjectOf(2));
    EXPECT_EQ(index->Find("/w/a", "s1"), std::nullopt);
    EXPECT_TRUE(index->Names(ObjectOf(1).id)) << "b";
    index->Note("/w/b", "s2", ObjectOf(2));
    EXPECT_FALSE(index->Names(ObjectOf(1).id));
  }
  const auto index = Open();
  EXPECT_EQ(index->Find("/w/a", "s2"), ObjectOf(2));
  EXPECT_FALSE(index->Names(ObjectOf(1).id));
}

TEST_F(SourceIndexTest, LinesThatAreCutOrOfSomethingElseArePassedOver) {
  Put(1);
  const std::string one = ObjectOf(1).id.Text();
  ASSERT_TRUE(fs_.WriteWhole("/sources",
                             "harrow sources 1\n" + one + " 10 s1 /w/a\n\n" + one + " 10 s1\n" + one +
                                 " -1 s1 /w/b\n" + one + " 1x s1 /w/c\nnothing 10 s1 /w/d\n" + one +
                                 " 10 s1 /w/%4\n" + one + " 10 s1 /w/%zz\n" + one + " 10 s1 /w/e f\n" + one +
                                 " 10 s1 /w/cut",
                             0600)
                  .ok());
  std::vector<std::string> paths;
  for (const SourceIndex::Entry& entry : Open()->Entries()) paths.push_back(entry.path);
  EXPECT_THAT(paths, ElementsAre("/w/a"));
  ASSERT_TRUE(fs_.WriteWhole("/sources", "harrow sources 2\n" + one + " 10 s1 /w/a\n", 0600).ok());
  EXPECT_THAT(Open()->Entries(), IsEmpty());
  ASSERT_TRUE(fs_.WriteWhole("/sources", "", 0600).ok());
  EXPECT_THAT(Open()->Entries(), IsEmpty());
}

TEST_F(SourceIndexTest, ALineIsReadableAndWrittenOnce) {
  Put(1);
  store_.Put("");
  const store::Object empty = test::FakeStore::ObjectOf("");
  {
    const auto index = Open();
    for (int i = 0; i < 2; ++i) index->Note("/w/a b%\x7f\n", "s1", ObjectOf(1));
    index->Note("/w/plain", "s2", empty);
  }
  const std::string line = ObjectOf(1).id.Text() + " " + std::to_string(ObjectOf(1).bytes) + " s1 /w/a%20b%25%7f%0a\n";
  EXPECT_EQ(fs_.Content("/sources"), "harrow sources 1\n" + line + empty.id.Text() + " 0 s2 /w/plain\n");
  for (int i = 0; i < 2; ++i) {
    const auto index = Open();
    EXPECT_EQ(index->Find("/w/a b%\x7f\n", "s1"), ObjectOf(1));
    EXPECT_EQ(index->Find("/w/plain", "s2"), empty);
    index->Note("/w/plain", "s2", empty);
  }
  const auto index = Open();
  index->Note("/w/plain", "s3", empty);
  index->Note("/w/a b%\x7f\n", "s1", empty);
  EXPECT_EQ(index->Find("/w/plain", "s3"), empty) << "the same, read anew";
  EXPECT_EQ(index->Find("/w/a b%\x7f\n", "s1"), empty);
}

TEST_F(SourceIndexTest, EntriesAreInOrder) {
  const auto index = Open();
  for (int i = 99; i >= 10; --i) index->Note("/w/" + std::to_string(i), "s", ObjectOf(i));
  const auto entries = index->Entries();
  ASSERT_EQ(entries.size(), 90u);
  for (size_t i = 0; i < 90; ++i) EXPECT_EQ(entries[i].path, "/w/" + std::to_string(10 + i));
}

TEST_F(SourceIndexTest, WhatWasInTheListBeforeIsNotHeld) {
  HeldLog::Held held = {{FileId(1), ObjectOf(1)}};
  const auto log = HeldLog::Open(fs_, "/held", "run", store_, &held);
  EXPECT_THAT(held, IsEmpty());
}

TEST_F(SourceIndexTest, ASessionFindsWhatItHeldAndAnotherDoesNot) {
  for (const int n : {1, 2, 3}) Put(n);
  {
    std::unique_ptr<HeldLog> log;
    EXPECT_THAT(Held("run", &log), IsEmpty());
    log->Note(FileId(7), ObjectOf(1));
    log->Note(FileId(3), ObjectOf(2));
    log->Note(FileId(7), ObjectOf(3));
    log->Note(FileId(4), ObjectOf(4));
  }
  EXPECT_THAT(Held("run"), ElementsAre(Pair(FileId(3), ObjectOf(2)), Pair(FileId(7), ObjectOf(3))));
  EXPECT_THAT(Held("run"), ElementsAre(Pair(FileId(3), ObjectOf(2)), Pair(FileId(7), ObjectOf(3))))
      << "once more";
  EXPECT_THAT(Held("ru"), IsEmpty());
  EXPECT_THAT(Held("run"), IsEmpty()) << "it is of the other run now";
}

TEST_F(SourceIndexTest, WhereNothingCanBeWrittenAgentsGoOnWithout) {
  for (const char* file : {"/sources", "/held"}) fs_.Fail(file, Status(Code::kExhausted, "the disk is full"));
  const auto index = Open();
  index->Note("/w/b", "s1", ObjectOf(1));
  EXPECT_EQ(index->Find("/w/b", "s1"), ObjectOf(1));
  std::unique_ptr<HeldLog> log;
  EXPECT_THAT(Held("run", &log), IsEmpty());
  log->Note(FileId(1), ObjectOf(1));
}

// Whoever has a pipe open for writing would believe that somebody reads it.
TEST(SourceOfTest, WhatIsNoFileIsNotOpened) {
  const test::OwnDirectory own;
  const std::string pipe = own.path() + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const os::Fd watch(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  ASSERT_GE(inotify_add_watch(watch.get(), pipe.c_str(), IN_OPEN), 0);
  EXPECT_EQ(SourceOf(pipe), "");
  inotify_event event{};
  EXPECT_EQ(read(watch.get(), &event, sizeof event), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST(SourceOfTest, TellsWhatMayHaveChanged) {
  std::string path = (std::filesystem::temp_directory_path() / "harrow-source-XXXXXX").string();
  ASSERT_NE(mkdtemp(path.data()), nullptr);
  const std::string file = path + "/f";
  std::ofstream(file) << "text";
  EXPECT_EQ(SourceOf(file), "") << "it was written a moment ago";
  EXPECT_EQ(SourceOf(path), "") << "a directory";
  EXPECT_EQ(SourceOf(path + "/none"), "");
  // Its times can be set, but not that of its inode.
  const timespec long_ago[2] = {{.tv_sec = 1000, .tv_nsec = 5}, {.tv_sec = 1000, .tv_nsec = 5}};
  ASSERT_EQ(utimensat(AT_FDCWD, file.c_str(), long_ago, 0), 0);
  EXPECT_EQ(SourceOf(file), "");
  const timespec far_away[2] = {{.tv_sec = 4'000'000'000, .tv_nsec = 0},
                                {.tv_sec = 4'000'000'000, .tv_nsec = 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, file.c_str(), far_away, 0), 0);
  struct stat info {};
  ASSERT_EQ(stat(file.c_str(), &info), 0);
  const int64_t changed = info.st_ctim.tv_sec * 1'000'000'000 + info.st_ctim.tv_nsec;
  EXPECT_EQ(SourceOf(file, changed + 99'999'999), "");
  const std::string source = SourceOf(file, changed + 100'000'001);
  EXPECT_NE(source, "") << "though its time is to come";
  EXPECT_EQ(SourceOf(file, changed + 200'000'000), source);
  const auto open_files = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  const auto before = open_files();
  EXPECT_NE(SourceOf("/bin/sh"), "") << "an old file, through a link";
  EXPECT_EQ(open_files(), before);
  std::filesystem::remove_all(path);
}

}  // namespace
}  // namespace harrow::agent
