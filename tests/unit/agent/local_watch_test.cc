#include "agent/local_watch.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
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

TEST_F(DiskUseTest, AHoleTakesNoRoom) {
  Write("sparse", 1);
  fs::resize_file(root_ + "/sparse", 1 << 30);
  EXPECT_LT(DiskUse(root_), 100'000u);
}

}  // namespace
}  // namespace harrow::agent
