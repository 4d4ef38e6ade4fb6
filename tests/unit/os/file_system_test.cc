#include "os/file_system.h"

#include <atomic>
#include <filesystem>
#include <gtest/gtest.h>
#include <memory>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "support/memory_file_system.h"

namespace harrow::os {
namespace {

/// What must hold for the real file system and for the one of the tests.
class FileSystems : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam()) {
      std::string path = (std::filesystem::temp_directory_path() / "harrow-fs-XXXXXX").string();
      ASSERT_NE(mkdtemp(path.data()), nullptr);
      dir_ = path;
    } else {
      memory_ = std::make_unique<test::MemoryFileSystem>();
      dir_ = "dir";
      ASSERT_TRUE(memory_->MakeDirectories(dir_).ok());
    }
  }
  void TearDown() override {
    if (GetParam()) std::filesystem::remove_all(dir_);
  }
  FileSystem& fs() { return GetParam() ? RealFileSystem() : *memory_; }
  std::string At(const std::string& name) const { return dir_ + "/" + name; }

  std::string dir_;
  std::unique_ptr<test::MemoryFileSystem> memory_;
};

INSTANTIATE_TEST_SUITE_P(All, FileSystems, testing::Bool(),
                         [](const auto& made) { return made.param ? "Real" : "Memory"; });

TEST_P(FileSystems, WriteWholeReplacesAndReadsBack) {
  std::string binary("a\0b\n", 4);
  ASSERT_TRUE(fs().WriteWhole(At("f"), "first, and longer", 0644).ok());
  ASSERT_TRUE(fs().WriteWhole(At("f"), binary, 0600).ok());
  EXPECT_EQ(*fs().Read(At("f")), binary);
  EXPECT_EQ(*fs().Read(At("f"), 2), binary.substr(0, 2));
  EXPECT_EQ(*fs().ReadRange(At("f"), 1, 2), binary.substr(1, 2));
  EXPECT_EQ(*fs().ReadRange(At("f"), 3, 100), "\n");
  EXPECT_EQ(*fs().ReadRange(At("f"), 4, 100), "");
  EXPECT_EQ(*fs().ReadRange(At("f"), 400, 100), "");
  EXPECT_EQ(fs().Stat(At("f"))->size, 4u);
  EXPECT_EQ(*fs().List(dir_), std::vector<std::string>{"f"}) << "no temporary file stays";
}

TEST_P(FileSystems, AbsentIsNotFoundAndNamed) {
  for (const Status& status :
       {fs().Read(At("no")).status(), fs().Stat(At("no")).status(), fs().Remove(At("no")),
        fs().ReadPrivate(At("no"), 10).status(), fs().Rename(At("no"), At("x"))}) {
    EXPECT_EQ(status.code(), Code::kNotFound) << status.message();
    EXPECT_NE(status.message().find(At("")), std::string::npos) << status.message();
  }
}

TEST_P(FileSystems, CreateWholeDoesNotReplace) {
  ASSERT_TRUE(fs().CreateWhole(At("f"), "one").ok());
  EXPECT_EQ(fs().CreateWhole(At("f"), "two").code(), Code::kExists);
  EXPECT_EQ(*fs().Read(At("f")), "one");
  EXPECT_EQ(*fs().List(dir_), std::vector<std::string>{"f"});
}

TEST_P(FileSystems, AppendGoesOnWhereItEnded) {
  for (const char* piece : {"ab", "cd"}) {
    auto file = fs().OpenAppend(At("log"));
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE((*file)->Append(piece).ok());
    ASSERT_TRUE((*file)->Append("-").ok());
    EXPECT_TRUE((*file)->Sync().ok());
  }
  EXPECT_EQ(*fs().Read(At("log")), "ab-cd-");
  EXPECT_EQ((*fs().OpenAppend(At("log")))->size(), 6u);
}

TEST_P(FileSystems, DirectoriesAreMadeListedRenamedAndRemoved) {
  ASSERT_TRUE(fs().MakeDirectories(At("a/b/c")).ok());
  ASSERT_TRUE(fs().MakeDirectories(At("a/b/c")).ok());
  ASSERT_TRUE(fs().WriteWhole(At("a/b/c/z"), "").ok());
  ASSERT_TRUE(fs().WriteWhole(At("a/b/c/y"), "").ok());
  EXPECT_TRUE(fs().Stat(At("a/b"))->is_directory);
  EXPECT_EQ(*fs().List(At("a/b/c")), (std::vector<std::string>{"y", "z"}));
  ASSERT_TRUE(fs().Rename(At("a/b/c/z"), At("a/b/c/x")).ok());
  EXPECT_EQ(*fs().List(At("a/b/c")), (std::vector<std::string>{"x", "y"}));
  ASSERT_TRUE(fs().RemoveTree(At("a")).ok());
  EXPECT_EQ(fs().Stat(At("a")).status().code(), Code::kNotFound);
}

TEST_P(FileSystems, OpenToOthersIsNotPrivate) {
  ASSERT_TRUE(fs().WriteWhole(At("key"), "secret", 0600).ok());
  EXPECT_EQ(*fs().ReadPrivate(At("key"), 100), "secret");
  EXPECT_EQ(*fs().ReadPrivate(At("key"), 3), "sec");
  for (uint32_t mode : {0640u, 0604u, 0620u, 0602u}) {
    ASSERT_TRUE(fs().WriteWhole(At("key"), "secret", 0600).ok());
    if (GetParam()) {
      ASSERT_EQ(chmod(At("key").c_str(), mode), 0);
    } else {
      memory_->SetMode(At("key"), mode);
    }
    EXPECT_EQ(fs().ReadPrivate(At("key"), 100).status().code(), Code::kPermission);
  }
}

class RealFiles : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = (std::filesystem::temp_directory_path() / "harrow-fs-XXXXXX").string();
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    dir_ = path;
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  std::string At(const std::string& name) const { return dir_ + "/" + name; }

  std::string dir_;
  FileSystem& fs_ = RealFileSystem();
};

TEST_F(RealFiles, PrivateFollowsNoLinkAndTakesPlainFilesOnly) {
  ASSERT_TRUE(fs_.WriteWhole(At("key"), "secret", 0600).ok());
  ASSERT_EQ(symlink(At("key").c_str(), At("link").c_str()), 0);
  Status link = fs_.ReadPrivate(At("link"), 100).status();
  EXPECT_EQ(link.code(), Code::kPermission);
  EXPECT_NE(link.message().find("link"), std::string::npos);
  ASSERT_EQ(mkfifo(At("fifo").c_str(), 0600), 0);
  EXPECT_EQ(fs_.ReadPrivate(At("fifo"), 100).status().code(), Code::kPermission);
  EXPECT_EQ(fs_.ReadPrivate(dir_, 100).status().code(), Code::kPermission);
  if (geteuid() == 0) {
    ASSERT_EQ(chown(At("key").c_str(), 65534, 65534), 0);
    EXPECT_EQ(fs_.ReadPrivate(At("key"), 100).status().code(), Code::kPermission);
  }
}

TEST_F(RealFiles, OfManyWhoCreateOneSucceeds) {
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> made{0}, refused{0};
    std::vector<std::thread> threads;
    std::string path = At("owner" + std::to_string(round));
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&, i] {
        Status status = fs_.CreateWhole(path, std::string(1000, static_cast<char>('a' + i)));
        ++(status.ok() ? made : refused);
        EXPECT_TRUE(status.ok() || status.code() == Code::kExists);
        EXPECT_EQ(fs_.Read(path)->size(), 1000u) << "never seen in part";
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(made, 1);
    EXPECT_EQ(refused, 7);
  }
}

TEST_F(RealFiles, RemoveTreeFollowsNoLink) {
  ASSERT_TRUE(fs_.MakeDirectories(At("keep/inner")).ok());
  ASSERT_TRUE(fs_.WriteWhole(At("keep/inner/f"), "x").ok());
  ASSERT_TRUE(fs_.MakeDirectories(At("gone/deep/er")).ok());
  ASSERT_EQ(symlink(At("keep").c_str(), At("gone/deep/link").c_str()), 0);
  ASSERT_EQ(symlink(At("keep").c_str(), At("link").c_str()), 0);
  EXPECT_TRUE(fs_.RemoveTree(At("gone")).ok());
  EXPECT_TRUE(fs_.RemoveTree(At("link")).ok());
  EXPECT_EQ(*fs_.List(dir_), std::vector<std::string>{"keep"});
  EXPECT_EQ(*fs_.Read(At("keep/inner/f")), "x");
}

TEST_F(RealFiles, ReadsFilesWithoutASize) {
  EXPECT_NE(fs_.Read("/proc/self/stat")->find(" R "), std::string::npos);
  EXPECT_EQ(fs_.Read(dir_).status().code(), Code::kInvalid);
}

TEST_F(RealFiles, FullDiskIsExhausted) {
  auto full = fs_.OpenAppend("/dev/full");
  ASSERT_TRUE(full.ok());
  Status status = (*full)->Append("x");
  EXPECT_EQ(status.code(), Code::kExhausted);
  EXPECT_NE(status.message().find("No space left"), std::string::npos) << status.message();
}

TEST(MemoryFiles, CrashKeepsWhatWasSynced) {
  test::MemoryFileSystem fs;
  auto file = fs.OpenAppend("f");
  ASSERT_TRUE((*file)->Append("synced").ok());
  ASSERT_TRUE((*file)->Sync().ok());
  ASSERT_TRUE((*file)->Append(" lost").ok());
  fs.Crash();
  EXPECT_EQ(fs.Content("f"), "synced");
  fs.SetFree(3);
  EXPECT_EQ((*file)->Append("four").code(), Code::kExhausted);
  EXPECT_TRUE((*file)->Append("123").ok());
  EXPECT_EQ((*file)->Append("4").code(), Code::kExhausted);
}

}  // namespace
}  // namespace harrow::os
