#include "agent/local_watch.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace harrow::agent {
namespace {

namespace fs = std::filesystem;

class DiskUseTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/harrow-disk-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    root_ = name;
  }
  void TearDown() override { fs::remove_all(root_); }
  void Write(const std::string& name, size_t bytes) {
    std::ofstream file(root_ + "/" + name);
    file << std::string(bytes, 'x') << std::flush;
  }
  std::string root_;
};

TEST_F(DiskUseTest, CountsWhatLiesBelow) {
  EXPECT_EQ(DiskUse(root_), 0u);
  EXPECT_EQ(DiskUse(root_ + "/none"), 0u);
  fs::create_directories(root_ + "/a/b");
  Write("a/b/large", 1 << 20);
  Write("small", 10'000);
  const uint64_t use = DiskUse(root_);
  EXPECT_GE(use, (1u << 20) + 10'000u);
  EXPECT_LT(use, (1u << 20) + 200'000u);
  EXPECT_LT(DiskUse(root_ + "/a"), use);
}

TEST_F(DiskUseTest, ALinkIsNotWhatItLeadsTo) {
  fs::create_directories(root_ + "/outside");
  fs::create_directories(root_ + "/in");
  Write("outside/large", 1 << 20);
  fs::create_directory_symlink(root_ + "/outside", root_ + "/in/directory");
  fs::create_symlink(root_ + "/outside/large", root_ + "/in/file");
  fs::create_directory_symlink(root_ + "/in", root_ + "/in/itself");
  EXPECT_LT(DiskUse(root_ + "/in"), 100'000u);
  EXPECT_EQ(DiskUse(root_ + "/in/directory"), 0u);
}

/// A task may put one where its temporary directory was: who opened it would wait for its other end.
TEST_F(DiskUseTest, APipeHasNone) {
  ASSERT_EQ(mkfifo((root_ + "/pipe").c_str(), 0600), 0);
  EXPECT_EQ(DiskUse(root_ + "/pipe"), 0u);
  EXPECT_EQ(DiskUse(root_), 0u);
}

/// An open directory a level is what it costs.
TEST_F(DiskUseTest, WhatLiesVeryDeepIsNotLookedFor) {
  std::string path;
  for (int i = 0; i < 60; ++i) path += "/d";
  fs::create_directories(root_ + path);
  Write(path + "/large", 1 << 20);
  const uint64_t use = DiskUse(root_);
  EXPECT_GE(use, 1u << 20);
  for (int i = 0; i < 40; ++i) path += "/d";
  fs::create_directories(root_ + path);
  Write(path + "/large", 4 << 20);
  EXPECT_LT(DiskUse(root_), use + (1u << 20));
}

TEST_F(DiskUseTest, NothingStaysOpen) {
  const auto open_files = [] { return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()); };
  fs::create_directories(root_ + "/a/b");
  Write("a/small", 1);
  const auto before = open_files();
  EXPECT_GT(DiskUse(root_), 0u);
  EXPECT_EQ(DiskUse(root_ + "/a/small"), 0u) << "no directory";
  EXPECT_EQ(open_files(), before);
}

TEST_F(DiskUseTest, AHoleTakesNoRoom) {
  Write("sparse", 1);
  fs::resize_file(root_ + "/sparse", 1 << 30);
  EXPECT_LT(DiskUse(root_), 100'000u);
}

}  // namespace
}  // namespace harrow::agent
