#include "agent/steps/command.h"

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace harrow::agent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ArgumentsTest : public testing::Test {
 protected:
  std::vector<std::string> Build(CommandForm form, std::string_view command, bool always_shell = false) {
    Result<char* const*> argv = builder_.Build(form, command, "/bin/sh", always_shell);
    EXPECT_TRUE(argv.ok()) << argv.status().message();
    std::vector<std::string> words;
    for (char* const* word = *argv; argv.ok() && *word != nullptr; ++word) words.push_back(*word);
    return words;
  }
  ArgumentBuilder builder_;
};

TEST_F(ArgumentsTest, WordsAreSplitAtBlanks) {
  EXPECT_THAT(Build(CommandForm::kWords, " mAdd\t-p  p x "), ElementsAre("mAdd", "-p", "p", "x"));
  EXPECT_THAT(Build(CommandForm::kWords, "true"), ElementsAre("true"));
}

TEST_F(ArgumentsTest, ArgumentsAreSeparatedByNul) {
  EXPECT_THAT(Build(CommandForm::kArgv, std::string_view("a b\0\0c", 6)), ElementsAre("a b", "", "c"));
  EXPECT_THAT(Build(CommandForm::kArgv, std::string_view("a\0", 2)), ElementsAre("a", ""));
}

TEST_F(ArgumentsTest, WhatIsAssignedBeforeTheProgramIsForItsEnvironment) {
  const auto assigned = [this] {
    std::vector<std::string> entries;
    for (const char* entry : builder_.assigned()) entries.emplace_back(entry);
    return entries;
  };
  EXPECT_THAT(Build(CommandForm::kAssigned, std::string_view("A=1\0B=x y\0./p\0C=2\0", 18)),
              ElementsAre("./p", "C=2", ""));
  EXPECT_THAT(assigned(), ElementsAre("A=1", "B=x y"));
  EXPECT_THAT(Build(CommandForm::kArgv, std::string_view("A=1\0b", 5)), ElementsAre("A=1", "b"));
  EXPECT_THAT(assigned(), ElementsAre());
  EXPECT_FALSE(builder_.Build(CommandForm::kAssigned, "A=1", "/bin/sh", false).ok());
  EXPECT_FALSE(builder_.Build(CommandForm::kAssigned, std::string_view("A=1\0", 4), "/bin/sh", false).ok());
}

TEST_F(ArgumentsTest, ManyCommandsLeaveNothingOfTheOnesBefore) {
  for (int times = 0; times < 3; ++times) EXPECT_THAT(Build(CommandForm::kWords, "a b c"), ElementsAre("a", "b", "c"));
  EXPECT_THAT(Build(CommandForm::kWords, "d"), ElementsAre("d"));
}

TEST_F(ArgumentsTest, OnlyBeforeTheProgramIsAValueAssigned) {
  LocalTask task;
  task.command = std::string("A=1\0./p\0B=2", 11);
  EXPECT_EQ(AssignedValue(task, "A"), "") << "in no other form";
  task.form = CommandForm::kAssigned;
  EXPECT_EQ(AssignedValue(task, "A"), "1");
  EXPECT_EQ(AssignedValue(task, "B"), "");
}

TEST_F(ArgumentsTest, AShellGetsTheText) {
  EXPECT_THAT(Build(CommandForm::kShell, "a | b"), ElementsAre("/bin/sh", "-c", "a | b"));
  EXPECT_THAT(Build(CommandForm::kWords, "a b", true), ElementsAre("/bin/sh", "-c", "a b"));
}

TEST_F(ArgumentsTest, AShellTextIsNoOption) {
  EXPECT_THAT(Build(CommandForm::kShell, "-n; x"), ElementsAre("/bin/sh", "-c", " -n; x"));
  EXPECT_THAT(Build(CommandForm::kShell, "+e; x"), ElementsAre("/bin/sh", "-c", " +e; x"));
}

TEST(ExitCodeTest, IsWhatAShellWouldEndWith) {
  for (int error : {ENOENT, ENOTDIR, ELOOP, ENAMETOOLONG}) EXPECT_EQ(ExitCodeOfStartFailure(error), 127);
  for (int error : {EACCES, EISDIR, E2BIG, ETXTBSY}) EXPECT_EQ(ExitCodeOfStartFailure(error), 126);
}

TEST_F(ArgumentsTest, NothingToStartIsAnError) {
  EXPECT_FALSE(builder_.Build(CommandForm::kWords, "  \t", "/bin/sh", false).ok());
  EXPECT_FALSE(builder_.Build(CommandForm::kArgv, std::string_view("\0a", 2), "/bin/sh", false).ok());
  const auto none = builder_.Build(CommandForm::kNone, "", "/bin/sh", false);
  EXPECT_THAT(none.status().message(), HasSubstr("replayed"));
}

class ProgramFinderTest : public testing::Test {
 protected:
  ProgramFinderTest() {
    char path[] = "/tmp/harrow-test-XXXXXX";
    root_ = mkdtemp(path);
    for (const char* name : {"/a", "/b"}) mkdir((root_ + name).c_str(), 0755);
  }
  ~ProgramFinderTest() override { std::system(("rm -rf " + root_).c_str()); }
  void MakeFile(const std::string& name, mode_t mode) {
    std::ofstream(root_ + name) << "#!/bin/sh\n";
    chmod((root_ + name).c_str(), mode);
  }
  std::string Path() const { return root_ + "/a:" + root_ + "/b"; }

  std::string root_;
  ProgramFinder finder_;
};

TEST_F(ProgramFinderTest, TheFirstExecutableOfThePath) {
  MakeFile("/b/tool", 0755);
  EXPECT_EQ(finder_.Find("tool", Path(), "/").path, root_ + "/b/tool");
  MakeFile("/a/tool", 0755);
  EXPECT_EQ(finder_.Find("tool", Path(), "/").path, root_ + "/b/tool") << "kept";
  finder_.Forget();
  EXPECT_EQ(finder_.Find("tool", Path(), "/").path, root_ + "/a/tool");
  EXPECT_EQ(finder_.Find("tool", root_ + "/b", "/").path, root_ + "/b/tool") << "another PATH";
}

TEST_F(ProgramFinderTest, WhatIsMissingIsLookedForAgain) {
  EXPECT_EQ(finder_.Find("tool", Path(), "/").error, ENOENT);
  MakeFile("/a/tool", 0755);
  EXPECT_EQ(finder_.Find("tool", Path(), "/").path, root_ + "/a/tool");
}

TEST_F(ProgramFinderTest, RelativeEntriesAreOfTheTasksDirectory) {
  MakeFile("/a/tool", 0755);
  EXPECT_EQ(finder_.Find("tool", "a", root_).path, root_ + "/a/tool");
  EXPECT_EQ(finder_.Find("tool", "", root_).error, ENOENT);
  EXPECT_EQ(finder_.Find("tool", ":/nowhere", root_ + "/a").path, root_ + "/a/tool");
  EXPECT_EQ(finder_.Find("tool", ":/nowhere", root_ + "/b").error, ENOENT)
      << "not kept for another directory";
}

TEST_F(ProgramFinderTest, WithoutAPathTheUsualDirectoriesAreSearched) {
  EXPECT_THAT(finder_.Find("sh", "", "/nowhere").path, testing::EndsWith("bin/sh"));
}

TEST_F(ProgramFinderTest, OfWhatMayNotBeExecutedThatIsSaid) {
  MakeFile("/a/tool", 0644);
  EXPECT_EQ(finder_.Find("tool", Path(), "/").error, EACCES) << "though it is missing in the other";
  MakeFile("/b/tool", 0755);
  const ProgramFinder::Found& found = finder_.Find("tool", Path(), "/");
  EXPECT_EQ(found.path, root_ + "/b/tool");
  EXPECT_EQ(found.error, 0);
}

TEST_F(ProgramFinderTest, AnEmptyEntryAtTheEndIsTheTasksDirectory) {
  MakeFile("/a/tool", 0755);
  EXPECT_EQ(finder_.Find("tool", root_ + "/b:", root_ + "/a").path, root_ + "/a/tool");
}

TEST_F(ProgramFinderTest, ASlashMeansAPath) {
  EXPECT_EQ(finder_.Find("./x", Path(), "/").path, "./x");
}

TEST_F(ProgramFinderTest, ADirectoryIsNoProgram) {
  mkdir((root_ + "/a/tool").c_str(), 0755);
  EXPECT_EQ(finder_.Find("tool", Path(), "/").error, ENOENT);
}

TEST_F(ProgramFinderTest, FailuresSayWhatIsWrong) {
  MakeFile("/a/script", 0644);
  EXPECT_EQ(DescribeStartFailure("mProject", "", ENOENT), "mProject: command not found");
  EXPECT_EQ(DescribeStartFailure("./x", "/nowhere/x", ENOENT), "./x: no such file");
  EXPECT_THAT(DescribeStartFailure("script", root_ + "/a/script", ENOENT), HasSubstr("interpreter"));
  EXPECT_THAT(DescribeStartFailure("script", root_ + "/a/script", EACCES), HasSubstr("permission denied"));
}

}  // namespace
}  // namespace harrow::agent
