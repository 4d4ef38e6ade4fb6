// A slot's TMPDIR between tasks; the directories are real.
#include "agent/steps/slot_tmp.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <optional>
#include <string>
#include <unistd.h>

namespace harrow::agent {
namespace {

namespace fs = std::filesystem;

class SlotTmpTest : public testing::Test {
 protected:
  SlotTmpTest() {
    char name[] = "/tmp/harrow-slot-tmp-XXXXXX";
    if (mkdtemp(name) == nullptr) abort();
    top_ = name;
    fs::create_directory(top_ / "root");
    tmp_.emplace(TmpRootAt(top_ / "root"), 3);
  }
  ~SlotTmpTest() override { fs::remove_all(top_); }
  /// A task does this. It began long ago, so that no time proves anything of it.
  void Run(const std::function<void(const fs::path&)>& what) {
    const Core::Given given{};
    Launch launch{.task = task_, .given = given};
    const Status ready = tmp_->Prepare(&launch, &result_);
    ASSERT_TRUE(ready.ok()) << ready.message();
    EXPECT_EQ(launch.variables.tmp_dir, Directory());
    EXPECT_TRUE(fs::is_empty(Directory()));
    what(Directory());
    tmp_->Settle(task_, &result_);
  }
  std::string Directory() const { return top_ / "root" / "3"; }

  fs::path top_;
  std::optional<SlotTmp> tmp_;
  LocalTask task_;
  TaskResult result_;
};

// Names that are made within one tick of the file system's clock leave the directory the same time.
TEST_F(SlotTmpTest, WhatIsLeftIsRemovedHoweverSoonItWasLeft) {
  for (int tries = 0; tries < 100; ++tries) {
    Run([](const fs::path&) {});
    Run([](const fs::path& directory) { std::ofstream(directory / "left") << "x"; });
  }
}

TEST_F(SlotTmpTest, WhatIsMovedAwayIsNobodysToEmptyAnyMore) {
  Run([](const fs::path&) {});
  Run([&](const fs::path& directory) {
    std::ofstream(directory / "kept") << "x";
    fs::rename(directory, top_ / "away");
    fs::create_directory_symlink(top_ / "away", directory);
  });
  Run([&](const fs::path& directory) { EXPECT_FALSE(fs::is_symlink(directory)); });
  EXPECT_TRUE(fs::exists(top_ / "away" / "kept"));
}

TEST_F(SlotTmpTest, WhatIsForbiddenIsAllowedAgain) {
  for (const fs::perms closed : {fs::perms::none, fs::perms::owner_read, fs::perms::all}) {
    Run([&](const fs::path& directory) {
      std::ofstream(directory / "left") << "x";
      fs::permissions(directory, closed);
    });
    Run([](const fs::path& directory) { EXPECT_EQ(fs::status(directory).permissions(), fs::perms::owner_all); });
  }
}

TEST_F(SlotTmpTest, WhatIsRemovedIsMadeAgain) {
  for (int tries = 0; tries < 10; ++tries) Run([](const fs::path& directory) { fs::remove(directory); });
}

}  // namespace
}  // namespace harrow::agent
