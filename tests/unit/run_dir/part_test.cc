#include "run_dir/part.h"

#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

namespace harrow::run_dir {
namespace {

using testing::HasSubstr;

class PartTest : public testing::Test {
 protected:
  PartTest() {
    std::string path = (std::filesystem::temp_directory_path() / "harrow-part-XXXXXX").string();
    run_ = mkdtemp(path.data());
  }
  ~PartTest() override { std::filesystem::remove_all(run_); }

  std::shared_ptr<RunDir> Run() { return RunDir::Open(run_).value(); }
  void File(const std::string& name) { ASSERT_TRUE(os::RealFileSystem().WriteWhole(run_ + "/" + name, "x").ok()); }
  std::string Refused(const Result<Part>& part) {
    EXPECT_EQ(part.status().code(), Code::kInvalid) << part.status().message();
    return part.status().message();
  }

  std::string run_;
};

TEST_F(PartTest, IsMadeOnceAndOpenedFromThenOn) {
  EXPECT_EQ(OpenPart(Run()).status().code(), Code::kNotFound);
  const Result<Part> made = MakePart(Run());
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_EQ(made->run->path(), run_);
  EXPECT_EQ(made->dir->path(), run_ + "/0");
  ASSERT_TRUE(made->dir->WriteWhole(OwnerPath(made->dir->path()), "us").ok());
  const Result<Part> again = MakePart(Run()), opened = OpenPart(Run()), seen = LookAtPart(Run());
  for (const Result<Part>& part : {again, opened, seen}) {
    ASSERT_TRUE(part.ok()) << part.status().message();
    EXPECT_EQ(*part->dir->Read(run_ + "/0/owner"), "us");
  }
}

TEST_F(PartTest, PartsHaveNothingInCommonButTheRun) {
  const Result<Part> first = MakePart(Run()), second = MakePart(Run(), "1");
  ASSERT_TRUE(first.ok() && second.ok());
  ASSERT_TRUE(first->dir->WriteWhole(JournalPath(first->dir->path()), "x").ok());
  EXPECT_EQ(second->dir->path(), run_ + "/1");
  EXPECT_EQ(second->dir->Stat(JournalPath(second->dir->path())).status().code(), Code::kNotFound);
}

TEST_F(PartTest, IsReachedWhateverBecomesOfTheName) {
  const Result<Part> part = MakePart(Run());
  ASSERT_TRUE(part.ok());
  std::filesystem::rename(run_, run_ + "-moved");
  ASSERT_TRUE(part->dir->WriteWhole(run_ + "/0/server", "x").ok());
  EXPECT_TRUE(std::filesystem::exists(run_ + "-moved/0/server"));
  std::filesystem::rename(run_ + "-moved", run_);
}

TEST_F(PartTest, MustBePlainAndOurs) {
  std::filesystem::create_directory(run_ + "/elsewhere");
  std::filesystem::create_symlink("elsewhere", run_ + "/0");
  EXPECT_THAT(Refused(OpenPart(Run())), HasSubstr("symbolic link"));
  EXPECT_THAT(Refused(MakePart(Run())), HasSubstr("symbolic link"));
  EXPECT_THAT(Refused(LookAtPart(Run())), HasSubstr("symbolic link"));
  std::filesystem::remove(run_ + "/0");
  File("0");
  EXPECT_THAT(Refused(MakePart(Run())), HasSubstr("not a plain directory"));
  std::filesystem::remove(run_ + "/0");
  std::filesystem::create_directory(run_ + "/0");
  ASSERT_EQ(chmod((run_ + "/0").c_str(), 0775), 0);
  EXPECT_THAT(Refused(OpenPart(Run())), HasSubstr("written by others"));
}

// What a release without parts left lies in RUN itself.
TEST_F(PartTest, ARunWithoutPartsIsShownAndNotGoneOnWith) {
  for (const char* name : {"journal.db", "owner", "resume.ready"}) {
    File(name);
    EXPECT_THAT(Refused(OpenPart(Run())), HasSubstr("earlier version of Harrow (" + run_ + "/" + name)) << name;
    EXPECT_THAT(Refused(MakePart(Run())), HasSubstr("finish it with that version")) << name;
    EXPECT_FALSE(std::filesystem::exists(run_ + "/0")) << name;
    const Result<Part> seen = LookAtPart(Run());
    ASSERT_TRUE(seen.ok()) << seen.status().message();
    EXPECT_EQ(seen->dir->path(), run_);
    std::filesystem::remove(run_ + "/" + name);
  }
  File("output");
  EXPECT_TRUE(MakePart(Run()).ok()) << "a user's own file of a common name";
}

}  // namespace
}  // namespace harrow::run_dir
