#include "run_dir/run_dir.h"

#include <fcntl.h>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/text.h"
#include "run_dir/find.h"

namespace harrow::run_dir {
namespace {

using testing::HasSubstr;

class RunDirTest : public testing::Test {
 protected:
  RunDirTest() : umask_(umask(022)) {
    std::string path = (std::filesystem::temp_directory_path() / "harrow-run-dir-XXXXXX").string();
    scratch_ = mkdtemp(path.data());
    run_ = scratch_ + "/run";
  }
  ~RunDirTest() override {
    umask(umask_);
    std::error_code ignored;
    std::filesystem::remove_all(scratch_, ignored);
  }
  void Directory(const std::string& path, mode_t mode = 0755) {
    ASSERT_EQ(mkdir(path.c_str(), 0700), 0) << path;
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
  }
  void File(const std::string& path, mode_t mode = 0644) {
    ASSERT_TRUE(os::RealFileSystem().WriteWhole(path, "text").ok());
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
  }
  static mode_t ModeOf(const std::string& path) {
    struct stat st {};
    EXPECT_EQ(lstat(path.c_str(), &st), 0) << path;
    return st.st_mode & 07777;
  }
  static std::string Refusal(const Status& status) {
    EXPECT_EQ(status.code(), Code::kInvalid) << status.message();
    return status.message();
  }

  const mode_t umask_;
  std::string scratch_, run_;
};

TEST_F(RunDirTest, WhateverTheUmaskSaysOthersCannotWrite) {
  for (const mode_t mask : {0, 002, 022, 077}) {
    umask(mask);
    const std::string path = StrCat(scratch_, "/new/", static_cast<unsigned>(mask));
    auto dir = RunDir::Make(path);
    ASSERT_TRUE(dir.ok()) << dir.status().message();
    ASSERT_TRUE((*dir)->MakeDirectories(path + "/output").ok());
    ASSERT_TRUE((*dir)->WriteWhole(path + "/flow", "x", 0600).ok());
    ASSERT_TRUE((*dir)->OpenAppend(path + "/output/1.out").ok());
    for (const char* name : {"", "/output", "/flow", "/output/1.out"})
      EXPECT_EQ(ModeOf(path + name) & 022, 0u) << name << " with umask " << mask;
    EXPECT_EQ(ModeOf(path), 0755 & ~mask);
  }
}

TEST_F(RunDirTest, ParentsThatAGroupCanWriteAreNotAsked) {
  Directory(scratch_ + "/project", 02775);
  EXPECT_TRUE(RunDir::Make(scratch_ + "/project/harrow-1").ok());
  EXPECT_TRUE(RunDir::Open(scratch_ + "/project/harrow-1").ok());
  EXPECT_EQ(ModeOf(scratch_ + "/project/harrow-1") & 022, 0u);
}

TEST_F(RunDirTest, AnEmptyDirectoryThatWasMadeForTheRunIsClosedToOthers) {
  Directory(run_, 02775);
  ASSERT_TRUE(RunDir::Make(run_).ok());
  EXPECT_EQ(ModeOf(run_) & 0777, 0755u);
  Directory(scratch_ + "/used", 0775);
  File(scratch_ + "/used/notes");
  EXPECT_THAT(Refusal(RunDir::Make(scratch_ + "/used").status()), HasSubstr("can be written by others"));
  EXPECT_EQ(ModeOf(scratch_ + "/used"), 0775u) << "what is somebody's is left as it is";
}

TEST_F(RunDirTest, ADirectoryThatOthersCanWriteIsRefused) {
  for (const mode_t mode : {0775, 0757, 0777, 01777}) {
    Directory(run_, mode);
    const std::string why = Refusal(RunDir::Open(run_).status());
    EXPECT_THAT(why, HasSubstr("can be written by others"));
    EXPECT_THAT(why, HasSubstr("chmod -R go-w"));
    EXPECT_EQ(rmdir(run_.c_str()), 0);
  }
}

TEST_F(RunDirTest, ALinkIsNotFollowed) {
  Directory(run_);
  const std::string link = scratch_ + "/link";
  ASSERT_EQ(symlink(run_.c_str(), link.c_str()), 0);
  for (const char* end : {"", "/", "//"}) {
    const std::string why = Refusal(RunDir::Open(link + end).status());
    EXPECT_THAT(why, HasSubstr("symbolic link"));
    EXPECT_THAT(why, HasSubstr(run_)) << "what to name instead";
  }
  EXPECT_FALSE(RunDir::Make(link).ok());
  EXPECT_EQ(RunDir::Open(scratch_ + "/none").status().code(), Code::kNotFound);
  File(scratch_ + "/file");
  EXPECT_THAT(Refusal(RunDir::Open(scratch_ + "/file").status()), HasSubstr("not a directory"));
}

TEST_F(RunDirTest, WhatLiesThereMustBeAPlainFileThatOthersCannotWrite) {
  auto dir = RunDir::Make(run_).value();
  const std::string flow = run_ + "/flow";
  const auto read = [&] { return Refusal(dir->Read(flow).status()); };
  File(scratch_ + "/elsewhere");
  ASSERT_EQ(symlink("../elsewhere", flow.c_str()), 0);
  EXPECT_THAT(read(), HasSubstr("symbolic link"));
  EXPECT_THAT(Refusal(dir->Stat(flow).status()), HasSubstr("symbolic link"));
  EXPECT_THAT(Refusal(dir->OpenAppend(flow).status()), HasSubstr("symbolic link"));
  ASSERT_TRUE(dir->Remove(flow).ok());
  ASSERT_EQ(mkfifo(flow.c_str(), 0600), 0);
  EXPECT_THAT(read(), HasSubstr("not a plain file")) << "and does not wait for a writer";
  EXPECT_THAT(Refusal(dir->OpenAppend(flow).status()), HasSubstr("not a plain file"));
  ASSERT_TRUE(dir->Remove(flow).ok());
  Directory(flow);
  EXPECT_THAT(read(), HasSubstr("not a plain file"));
  ASSERT_TRUE(dir->Remove(flow).ok());
  File(flow, 0664);
  EXPECT_THAT(read(), HasSubstr("can be written by others"));
  EXPECT_THAT(Refusal(dir->ReadPrivate(flow, 100).status()), HasSubstr("can be written by others"));
  File(flow, 0644);
  EXPECT_EQ(*dir->Read(flow), "text");
  EXPECT_EQ(dir->ReadPrivate(flow, 100).status().code(), Code::kPermission) << "a key that others can read";
  EXPECT_EQ(dir->Read(run_ + "/none").status().code(), Code::kNotFound);
  EXPECT_EQ(dir->Read(run_ + "/none/below").status().code(), Code::kNotFound);
}

TEST_F(RunDirTest, WhatIsWrittenInPlaceHasNoSecondName) {
  auto dir = RunDir::Make(run_).value();
  File(scratch_ + "/precious");
  const std::string log = run_ + "/journal.db-wal";
  ASSERT_EQ(link((scratch_ + "/precious").c_str(), log.c_str()), 0);
  EXPECT_THAT(Refusal(dir->OpenAppend(log).status()), HasSubstr("hard link"));
  EXPECT_THAT(Refusal(dir->OpenFile(log, O_RDWR).status()), HasSubstr("hard link"));
  EXPECT_THAT(Refusal(dir->CheckFile(log, true)), HasSubstr("hard link"));
  EXPECT_TRUE(dir->CheckFile(log, false).ok()) << "a backup by hard links can be looked at";
  ASSERT_TRUE(dir->WriteWhole(log, "new").ok()) << "what is replaced is not asked";
  EXPECT_EQ(*os::RealFileSystem().Read(scratch_ + "/precious"), "text");
}

TEST_F(RunDirTest, DirectoriesBelowAreLookedAtAsWell) {
  auto dir = RunDir::Make(run_).value();
  Directory(scratch_ + "/elsewhere");
  File(scratch_ + "/elsewhere/1.out");
  ASSERT_EQ(symlink("../elsewhere", (run_ + "/output").c_str()), 0);
  const std::string path = run_ + "/output/1.out";
  EXPECT_THAT(Refusal(dir->Read(path).status()), HasSubstr("output is a symbolic link"));
  EXPECT_FALSE(dir->WriteWhole(path, "x").ok());
  EXPECT_FALSE(dir->MakeDirectories(run_ + "/output").ok());
  EXPECT_FALSE(dir->List(run_ + "/output").ok());
  EXPECT_FALSE(LogTo(*dir, "../output/1.out").ok());
  ASSERT_TRUE(dir->Remove(run_ + "/output").ok());
  Directory(run_ + "/output", 0775);
  EXPECT_THAT(Refusal(dir->OpenAppend(path).status()), HasSubstr("can be written by others"));
}

TEST_F(RunDirTest, ItIsTheSameDirectoryWhateverItsNameLeadsTo) {
  auto dir = RunDir::Make(run_).value();
  ASSERT_TRUE(dir->WriteWhole(run_ + "/flow", "ours").ok());
  ASSERT_EQ(rename(run_.c_str(), (scratch_ + "/moved").c_str()), 0);
  Directory(run_);
  File(run_ + "/flow");
  EXPECT_EQ(*dir->Read(run_ + "/flow"), "ours");
  ASSERT_TRUE(dir->WriteWhole(run_ + "/server", "x").ok());
  EXPECT_TRUE(os::RealFileSystem().Stat(scratch_ + "/moved/server").ok());
  EXPECT_FALSE(os::RealFileSystem().Stat(run_ + "/server").ok());
  EXPECT_EQ(*os::RealFileSystem().Read(dir->LastingPath("flow")), "ours");
}

TEST_F(RunDirTest, NothingOutsideIsReached) {
  auto dir = RunDir::Make(run_).value();
  File(scratch_ + "/secret");
  for (const std::string& path : {scratch_ + "/secret", run_ + "/../secret", run_ + "/./../secret",
                                  run_ + "x", std::string("/etc/passwd")}) {
    EXPECT_FALSE(dir->Read(path).ok()) << path;
    EXPECT_FALSE(dir->Remove(path).ok()) << path;
  }
  EXPECT_TRUE(os::RealFileSystem().Stat(scratch_ + "/secret").ok());
}

class AnotherUsers : public RunDirTest {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root can make files of another user (needs root)";
    chmod(scratch_.c_str(), 0755);
    Directory(run_);
    File(run_ + "/flow");
    Give(run_);
    Give(run_ + "/flow");
  }
  static void Give(const std::string& path) { ASSERT_EQ(lchown(path.c_str(), kNobody, kNobody), 0) << path; }
  static constexpr uid_t kNobody = 65534;
};

TEST_F(AnotherUsers, DirectoryIsRefusedByName) {
  const std::string why = Refusal(RunDir::Open(run_).status());
  EXPECT_THAT(why, HasSubstr("uid 65534"));
  EXPECT_THAT(why, HasSubstr("--run-dir"));
  EXPECT_EQ(RunDir::Make(run_).status().code(), Code::kExists) << "the next name is taken";
  const Standing standing = Judge(run_, Purpose::kRun);
  EXPECT_FALSE(standing.ours);
  EXPECT_FALSE(standing.usable.ok());
}

TEST_F(AnotherUsers, DirectoryOfRunsHidesNothingOfOurs) {
  Directory(scratch_ + "/harrow-1");
  File(scratch_ + "/harrow-1/flow");
  Directory(scratch_ + "/harrow-zzz");
  File(scratch_ + "/harrow-zzz/flow");
  Give(scratch_ + "/harrow-zzz");
  EXPECT_EQ(*FindRun(os::RealFileSystem(), "", scratch_), scratch_ + "/harrow-1");
}

TEST_F(AnotherUsers, FileInADirectoryOfOursIsRefused) {
  auto dir = RunDir::Make(scratch_ + "/ours").value();
  const std::string flow = scratch_ + "/ours/flow";
  File(flow, 0600);
  Give(flow);
  EXPECT_THAT(Refusal(dir->Read(flow).status()), HasSubstr("uid 65534"));
  EXPECT_THAT(Refusal(dir->ReadPrivate(flow, 100).status()), HasSubstr("uid 65534"));
  EXPECT_THAT(Refusal(dir->OpenAppend(flow).status()), HasSubstr("uid 65534"));
}

TEST_F(AnotherUsers, RunCanBeLookedAtByRootIfAllOfItIsThatUsers) {
  auto dir = RunDir::Open(run_, Purpose::kLook);
  ASSERT_TRUE(dir.ok()) << dir.status().message();
  EXPECT_FALSE((*dir)->ours());
  EXPECT_EQ(*(*dir)->Read(run_ + "/flow"), "text");
  File(run_ + "/server");  // root's
  EXPECT_THAT(Refusal((*dir)->Read(run_ + "/server").status()), HasSubstr("belongs to root"));
  EXPECT_FALSE(RunDir::Open(run_, Purpose::kRun).ok()) << "but root does not go on with it";
}

}  // namespace
}  // namespace harrow::run_dir
