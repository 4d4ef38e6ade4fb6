#include "made/remove.h"

#include <cstdint>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace harrow::made {
namespace {

namespace fs = std::filesystem;

class RemoveMadeTest : public testing::Test {
 protected:
  RemoveMadeTest() {
    std::string path = (fs::temp_directory_path() / "harrow-made-XXXXXX").string();
    top_ = mkdtemp(path.data());
    base_ = top_ + "/base";
    fs::create_directories(base_);
  }
  ~RemoveMadeTest() override { fs::remove_all(top_); }

  std::string At(const std::string& name) const { return base_ + "/" + name; }
  void Write(const std::string& name, const std::string& text = "x") const {
    fs::create_directories(fs::path(At(name)).parent_path());
    std::ofstream(At(name)) << text;
  }
  bool Has(const std::string& name) const { return fs::exists(fs::symlink_status(At(name))); }
  /// A time of the file system's: all that was done before has an earlier one, all after a later or equal.
  int64_t Tick() {
    const auto stamp = [this] {
      const std::string probe = top_ + "/probe";
      std::ofstream(probe) << "x";
      struct stat st {};
      stat(probe.c_str(), &st);
      unlink(probe.c_str());
      return int64_t{st.st_ctim.tv_sec} * 1'000'000'000 + st.st_ctim.tv_nsec;
    };
    const int64_t before = stamp();
    int64_t after = before;
    while (after <= before + 1) after = stamp();
    return after;
  }
  void Begin() { window_.begin_ns = Tick(); }
  void End() { window_.end_ns = Tick() - 1; }
  void Remove(const std::string& name) {
    const Status removed = RemoveMade(base_, name, window_);
    EXPECT_TRUE(removed.ok()) << removed.message();
  }

  std::string top_, base_;
  Window window_;
};

TEST_F(RemoveMadeTest, WhatAnAttemptMadeGoes) {
  Begin();
  Write("file");
  Write("dir/deep/file");
  fs::create_symlink("/nowhere", At("dir/dangling"));
  fs::create_directories(At("empty"));
  End();
  for (const char* name : {"file", "dir", "empty", "absent", "absent/deeper", "file/below"}) Remove(name);
  EXPECT_TRUE(fs::is_empty(base_));
}

TEST_F(RemoveMadeTest, WhatWasThereBeforeStays) {
  Write("old");
  Write("dir/old");
  Begin();
  Write("dir/new");
  End();
  Remove("old");
  Remove("dir");
  Remove("dir/old");
  EXPECT_TRUE(Has("old"));
  EXPECT_TRUE(Has("dir/old"));
}

TEST_F(RemoveMadeTest, WhatCameOrChangedAfterwardsStays) {
  Begin();
  Write("file");
  Write("changed");
  Write("dir/file");
  End();
  Write("later");
  Write("changed", "by hand");
  Write("dir/note");
  for (const char* name : {"file", "changed", "later", "dir"}) Remove(name);
  EXPECT_FALSE(Has("file"));
  EXPECT_TRUE(Has("changed"));
  EXPECT_TRUE(Has("later"));
  EXPECT_TRUE(Has("dir/note"));
  EXPECT_TRUE(Has("dir/file")) << "in doubt";
}

TEST_F(RemoveMadeTest, WhatWasMovedOrLinkedHereStays) {
  Write("precious/data");
  Write("single");
  Begin();
  fs::create_directories(At("out"));
  fs::rename(At("precious"), At("out/precious"));
  fs::create_hard_link(At("single"), At("out/single"));
  End();
  struct statx info {};
  const bool told =
      statx(AT_FDCWD, At("single").c_str(), 0, STATX_BTIME, &info) == 0 && (info.stx_mask & STATX_BTIME) != 0;
  Remove("out");
  EXPECT_TRUE(Has("out/precious/data"));
  EXPECT_TRUE(Has("single"));
  EXPECT_TRUE(!told || Has("out/single"));
}

TEST_F(RemoveMadeTest, ALinkGoesAndWhatItLeadsToStays) {
  Write("../foreign/file");
  Begin();
  Write("../foreign/new");
  fs::create_symlink(top_ + "/foreign", At("out"));
  fs::create_directories(At("dir"));
  fs::create_symlink(top_ + "/foreign", At("dir/link"));
  End();
  Remove("out");
  Remove("dir");
  EXPECT_FALSE(Has("out"));
  EXPECT_FALSE(Has("dir"));
  EXPECT_TRUE(Has("../foreign/file"));
  EXPECT_TRUE(Has("../foreign/new"));
}

TEST_F(RemoveMadeTest, ALinkOnTheWayIsFollowedOnlyIfItWasThereBefore) {
  fs::create_directories(top_ + "/disk");
  fs::create_symlink(top_ + "/disk", At("scratch"));
  Begin();
  Write("scratch/file");
  Write("../foreign/file");
  fs::create_symlink(top_ + "/foreign", At("way"));
  End();
  Remove("scratch/file");
  Remove("way/file");
  Remove(base_ + "/way/file");
  EXPECT_FALSE(Has("scratch/file"));
  EXPECT_TRUE(Has("../foreign/file"));
}

TEST_F(RemoveMadeTest, NamesWithoutANameOfTheirOwnAreLeft) {
  Begin();
  Write("dir/file");
  End();
  for (const char* name : {"", ".", "..", "/", "dir/..", "../..", "dir/."}) Remove(name);
  EXPECT_TRUE(Has("dir/file"));
  Remove("../base/dir//");
  EXPECT_FALSE(Has("dir"));
}

TEST_F(RemoveMadeTest, WhetherSomethingIsThere) {
  fs::create_symlink("/nowhere", At("dangling"));
  Write("file");
  EXPECT_TRUE(IsThere(base_, "dangling"));
  EXPECT_TRUE(IsThere("/", At("file")));
  EXPECT_FALSE(IsThere(base_, "absent/deeper"));
  EXPECT_FALSE(IsThere(base_, "file/below"));
}

}  // namespace
}  // namespace harrow::made
