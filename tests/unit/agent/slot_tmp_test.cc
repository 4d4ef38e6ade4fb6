// A slot's TMPDIR between tasks; the directories are real.
#include "agent/steps/slot_tmp.h"

#include <functional>
#include <gmock/gmock.h>

#include "unit/agent/steps_on_disk.h"

namespace harrow::agent {
namespace {

namespace fs = std::filesystem;
using testing::EndsWith;
using testing::HasSubstr;

class SlotTmpTest : public OnDisk {
 protected:
  SlotTmpTest() {
    fs::create_directory(At("root"));
    tmp_.emplace(TmpRootAt(At("root")), 3);
  }
  Status Prepare() {
    Launch launch{.task = task_, .given = given_, .start = start_};
    const Status ready = tmp_->Prepare(&launch, &result_);
    if (ready.ok()) {
      EXPECT_EQ(launch.variables.tmp_dir, Slot());
    }
    return ready;
  }
  /// A task does this. Where nothing else is said it began long ago, so that no time proves anything of it.
  void Run(const std::function<void(const fs::path&)>& what) {
    const Status ready = Prepare();
    ASSERT_TRUE(ready.ok()) << ready.message();
    EXPECT_TRUE(fs::is_empty(Slot()));
    EXPECT_EQ(ModeOf(Slot()), 0700u);
    what(Slot());
    tmp_->Settle(task_, &result_);
  }
  std::string Slot() const { return At("root/3"); }

  const Core::Given given_{};
  std::optional<SlotTmp> tmp_;
  LocalTask task_;
  TaskResult result_;
  WallTime start_{};
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
    fs::rename(directory, At("away"));
    fs::create_directory_symlink(At("away"), directory);
  });
  Run([&](const fs::path& directory) { EXPECT_FALSE(fs::is_symlink(directory)); });
  EXPECT_TRUE(Has("away/kept"));
  tmp_.reset();
  ExpectNoDescriptorMore();
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

TEST_F(SlotTmpTest, AFileOrAnotherDirectoryInItsPlaceIsRemoved) {
  Run([](const fs::path& directory) {
    fs::remove(directory);
    std::ofstream(directory) << "x";
  });
  Run([&](const fs::path& directory) {
    fs::rename(directory, At("away"));
    fs::create_directories(directory / "deep");
    std::ofstream(directory / "deep" / "left") << "x";
  });
  EXPECT_FALSE(fs::exists(Slot())) << "at once, and not when the next one comes";
  Run([](const fs::path&) {});
  ExpectNoDescriptorIsInherited();
  tmp_.reset();
  ExpectNoDescriptorMore();
}

TEST_F(SlotTmpTest, ADirectoryThatOthersMayEnterIsClosedToThem) {
  for (const mode_t open : {0701u, 0755u, 0777u}) {
    Run([&](const fs::path& directory) { chmod(directory.c_str(), open); });
    EXPECT_EQ(ModeOf(Slot()), 0700u);
  }
}

TEST_F(SlotTmpTest, WhatAnotherAgentLeftIsRemovedBeforeTheFirstTask) {
  Write("home/file", "x");
  const std::function<void()> leaves[] = {[&] { Write("root/3/deep/file", "x"); }, [&] { Write("root/3", "x"); },
                                          [&] { fs::create_directory_symlink(At("home"), Slot()); }};
  for (const auto& leave : leaves) {
    leave();
    Run([&](const fs::path& directory) { EXPECT_FALSE(fs::is_symlink(directory)); });
    tmp_.emplace(TmpRootAt(At("root")), 3);
    fs::remove(Slot());
  }
  EXPECT_TRUE(Has("home/file"));
}

TEST_F(SlotTmpTest, WhereThereCanBeNoneNoTaskIsStarted) {
  fs::rename(At("root"), At("away"));
  Directory("root");
  Status status = Prepare();
  EXPECT_EQ(status.code(), Code::kExhausted);
  EXPECT_THAT(status.message(), EndsWith("root is gone"));
  fs::remove(At("root"));
  fs::rename(At("away"), At("root"));
  Run([](const fs::path& directory) { fs::remove(directory); });
  fs::remove(At("root"));
  status = Prepare();
  EXPECT_EQ(status.code(), Code::kExhausted);
  EXPECT_THAT(status.message(), HasSubstr("cannot make the temporary directory " + Slot() + ": "));
}

TEST_F(SlotTmpTest, WithoutDescriptorsItSaysWhyItDoesNotBegin) {
  Write("root/3/file", "x");
  const test::FewDescriptors one(1);
  EXPECT_THAT(Prepare().message(), HasSubstr(Slot() + ": Too many open files"));
}

TEST_F(SlotTmpTest, WhatCannotBeRemovedIsNoTasksDirectory) {
  Write("root/3/file", "x");
  if (chown(Slot().c_str(), 65534, 65534) != 0) return;  // only root can make another's
  const OrdinaryRights rights;
  const Status status = Prepare();
  EXPECT_EQ(status.code(), Code::kExhausted);
  EXPECT_THAT(status.message(), HasSubstr("cannot make the temporary directory"));
  EXPECT_TRUE(Has("root/3/file"));
}

// Of a task that began well after the directory was found empty.
TEST_F(SlotTmpTest, WhatIsLeftIsSeenByTheDirectorysTime) {
  start_ = std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now()) + std::chrono::hours(1);
  Run([](const fs::path&) {});
  struct stat before {};
  ASSERT_EQ(stat(Slot().c_str(), &before), 0);
  for (int round = 0; round < 3; ++round) {
    Run([&](const fs::path& directory) {
      // The file system's clock has ticks; a task that begins so late does not fall into the one before.
      struct stat now = before;
      while (now.st_ctim.tv_sec == before.st_ctim.tv_sec && now.st_ctim.tv_nsec == before.st_ctim.tv_nsec) {
        std::ofstream(directory / "left") << "x";
        fs::remove(directory / "left");
        ASSERT_EQ(stat(directory.c_str(), &now), 0);
      }
      std::ofstream(directory / "left") << "x";
    });
    EXPECT_TRUE(fs::is_empty(Slot()));
    Run([](const fs::path&) {});
    ASSERT_EQ(stat(Slot().c_str(), &before), 0);
  }
}

}  // namespace
}  // namespace harrow::agent
