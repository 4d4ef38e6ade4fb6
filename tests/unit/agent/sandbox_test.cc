// What a task finds in its sandbox, and what is wrong with its inputs or named to its user.
// sandbox_outputs_test.cc: what is taken of it.
#include <gmock/gmock.h>

#include "unit/agent/sandbox_fixture.h"

namespace harrow::agent {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;
using testing::UnorderedElementsAre;

TEST_F(SandboxTest, WhoAsksForNoneHasNone) {
  EXPECT_TRUE(Prepare(step_).ok());
  EXPECT_EQ(launch_->sandbox, "");
  EXPECT_EQ(launch_->directory, "");
  Settle(step_, End::kExited);
  EXPECT_EQ(files_.outside, 0);
  host_ = nullptr;
  EXPECT_TRUE(Prepare(step_).ok());
  EXPECT_EQ(Begin().code(), Code::kInternal);
}

TEST_F(SandboxTest, ATaskFindsItsInputsAndTheDirectoriesOfItsOutputs) {
  AddInput(1, "a", "first");
  AddInput(2, "deep/b", "second");
  AddOutput(3, "new/deeper/out");
  AddOutput(4, At("elsewhere/out"));
  ASSERT_TRUE(Begin().ok());
  EXPECT_EQ(files_.outside, 1) << "a slot's thread has not the store's descriptors";
  EXPECT_THAT(launch_->sandbox, StartsWith(At("store/sandboxes/")));
  EXPECT_EQ(launch_->directory, launch_->sandbox);
  EXPECT_EQ(Inside("a"), "first");
  EXPECT_EQ(Inside("deep/b"), "second");
  EXPECT_EQ(ModeOf(launch_->sandbox + "/a") & 0222, 0u);
  EXPECT_TRUE(IsInside("new/deeper"));
  EXPECT_FALSE(IsInside("new/deeper/out"));
  EXPECT_FALSE(Has("elsewhere")) << "that is not in the sandbox";
  Settle(step_, End::kNotStarted);
  EXPECT_EQ(files_.outside, 2);
  EXPECT_TRUE(NoSandboxIsLeft());
  Settle(step_, End::kNotStarted);
  EXPECT_EQ(files_.outside, 2) << "there is none any more";
}

TEST_F(SandboxTest, APartOfADirectoryIsPlacedByItself) {
  Write("source/tree/x/in", "inner");
  Write("source/tree/other", "outer");
  files_.Put(1, At("source/tree"));
  task_.inputs = {{.file = FileId(1), .path = "here/in", .inside = "x/in"}, {.file = FileId(1), .path = "all"}};
  ASSERT_TRUE(Begin().ok());
  EXPECT_EQ(Inside("here/in"), "inner");
  EXPECT_FALSE(IsInside("here/other"));
  EXPECT_EQ(Inside("all/other"), "outer");
}

TEST_F(SandboxTest, ATaskBeginsInItsDirectoryThereWhereItHasOne) {
  struct Row {
    std::string cwd, directory;
  };
  for (const Row& row : {Row{"sub/dir", "/sub/dir"}, {"sub/../other", "/sub/../other"}}) {
    SetProfile({.cwd = row.cwd});
    ASSERT_TRUE(Begin().ok());
    EXPECT_EQ(launch_->directory, launch_->sandbox + row.directory);
    EXPECT_TRUE(fs::is_directory(launch_->directory)) << row.cwd;
    Settle(step_, End::kNotStarted);
  }
  for (const std::string& outside : {At("elsewhere"), std::string("../elsewhere"), std::string("sub/../../elsewhere")}) {
    SetProfile({.cwd = outside});
    ASSERT_TRUE(Begin().ok());
    EXPECT_EQ(launch_->directory, task_.profile->directory());
    EXPECT_FALSE(Has("elsewhere")) << "that is not ours to make";
    Settle(step_, End::kNotStarted);
  }
}

TEST_F(SandboxTest, AProgramOfTheSubmitDirectoryIsFoundWhereItWouldBeWithout) {
  Write("submit/model", "#!/bin/sh\n", 0755);
  Write("submit/bin/other", "#!/bin/sh\n", 0755);
  Write("submit/plain", "x", 0644);
  Write("outside", "#!/bin/sh\n", 0755);
  Directory("submit/folder", 0755);
  const auto linked = [&](CommandForm form, std::string_view command, const ProfileSpec& spec = {}) {
    SetProfile(spec);
    task_.form = form;
    task_.command = command;
    EXPECT_TRUE(Begin().ok());
    std::vector<std::string> names;
    for (const fs::directory_entry& e : fs::recursive_directory_iterator(launch_->sandbox)) {
      if (!e.is_symlink()) continue;
      names.push_back(e.path().lexically_relative(launch_->sandbox).string());
      EXPECT_TRUE(fs::equivalent(e.path(), Submit(e.path().filename() == "other" ? "bin/other" : "model")));
    }
    Settle(step_, End::kNotStarted);
    return names;
  };
  EXPECT_THAT(linked(CommandForm::kWords, "./model bin/other"), ElementsAre("model")) << "the other one is not run";
  EXPECT_THAT(linked(CommandForm::kWords, " \tbin/other x"), ElementsAre("bin/other"));
  EXPECT_THAT(linked(CommandForm::kWords, "A=1 ./model"), ElementsAre("model"));
  for (const char* none :
       {"model", "./plain", "./folder", "./missing", "../outside", "bin/../../outside", "bin/other;./model", ""})
    EXPECT_THAT(linked(CommandForm::kWords, none), IsEmpty()) << none;
  EXPECT_THAT(linked(CommandForm::kWords, Submit("model")), IsEmpty()) << "that is found anyway";
  EXPECT_THAT(linked(CommandForm::kArgv, std::string_view("./model\0bin/other", 17)), ElementsAre("model"));
  EXPECT_THAT(linked(CommandForm::kArgv, "./model x"), IsEmpty()) << "it is called 'model x'";
  EXPECT_THAT(linked(CommandForm::kAssigned, std::string_view("A=./model\0bin/other", 19)), ElementsAre("bin/other"));
  for (const char* shell :
       {"cd x; ./model", "a && ./model", "a || ./model", "a | ./model", "a & ./model", "(./model)", "`./model`", "a\n./model",
        "A=1 B=2 ./model <plain >out", "./model;bin/none", "\"./model\"", "'./model' bin/other", "a=$(./model)"})
    EXPECT_THAT(linked(CommandForm::kShell, shell), ElementsAre("model")) << shell;
  EXPECT_THAT(linked(CommandForm::kShell, "./model | bin/other"), UnorderedElementsAre("model", "bin/other"));
  EXPECT_THAT(linked(CommandForm::kShell, "cat ./model >bin/other"), IsEmpty()) << "they are not run";
  EXPECT_THAT(linked(CommandForm::kWords, "./other", {.cwd = "bin"}), ElementsAre("bin/other"));
}

TEST_F(SandboxTest, WhatATaskDeclaresIsNotHiddenByAProgram) {
  Write("submit/model", "#!/bin/sh\n", 0755);
  AddInput(1, "model", "its own");
  task_.command = "./model";
  ASSERT_TRUE(Begin().ok());
  EXPECT_EQ(Inside("model"), "its own");
}

// It has done nothing wrong, and is begun again elsewhere.
TEST_F(SandboxTest, WhoseInputHasGoneIsLost) {
  AddInput(1, "a", "first");
  AddInput(2, "b", "second");
  files_.held.erase(FileId(2));
  const Status gone = Begin();
  EXPECT_EQ(gone.code(), Code::kNotFound);
  EXPECT_THAT(gone.message(), HasSubstr("its input b is not on its node any more"));
  EXPECT_EQ(result_.end, End::kLost);
  EXPECT_THAT(files_.spoiled, IsEmpty());
  EXPECT_TRUE(NoSandboxIsLeft());
  files_.Put(2, At("source/b"));
  files_.store().Drop(files_.held[FileId(2)].id);
  EXPECT_THAT(Begin().message(), HasSubstr("its input b cannot be brought to its sandbox"));
  EXPECT_EQ(result_.end, End::kLost);
  EXPECT_THAT(files_.spoiled, ElementsAre(2));
  EXPECT_TRUE(NoSandboxIsLeft());
  files_.Put(2, At("source/b"));
  EXPECT_TRUE(Begin().ok()) << "nothing of that is left";
}

TEST_F(SandboxTest, WhoseInputsAreInEachOthersPlaceHasFailed) {
  AddInput(1, "a", "first");
  AddInput(2, "b", "second");
  task_.inputs[1].path = "a";
  EXPECT_EQ(Begin().code(), Code::kExists);
  EXPECT_EQ(result_.end, End::kRunning);
  EXPECT_THAT(files_.spoiled, IsEmpty());
  EXPECT_TRUE(NoSandboxIsLeft());
}

TEST_F(SandboxTest, ASandboxThatIsThereAlreadyIsNoOnesToUse) {
  EXPECT_TRUE(Begin().ok());
  Sandbox other(host_, [] { return false; });
  const Status twice = Prepare(other);
  EXPECT_EQ(twice.code(), Code::kExists);
  EXPECT_THAT(twice.message(), HasSubstr("no sandbox for it: "));
  EXPECT_EQ(launch_->sandbox, "");
}

// --- inputs that are not what they were

TEST_F(SandboxTest, WhoseInputIsNotWhatItWasHasFailedHoweverItEnded) {
  for (const auto& [end, code] : {std::pair(End::kExited, 0), {End::kExited, 3}, {End::kSignaled, 11}, {End::kTimedOut, 9}}) {
    files_.spoiled.clear();
    task_.inputs.clear();
    AddInput(1, "a", "first");
    AddInput(2, "b", "second");
    ASSERT_TRUE(Begin().ok());
    ChangeInStore(2);
    Settle(step_, end, code);
    EXPECT_EQ(result_.end, End::kMissingOutput);
    EXPECT_THAT(result_.message, HasSubstr("changed its input b: a task that changes a file copies it first"));
    EXPECT_THAT(files_.spoiled, ElementsAre(2));
    EXPECT_TRUE(NoSandboxIsLeft());
  }
}

TEST_F(SandboxTest, WhoWasEndedIsNotBlamedForAnInput) {
  for (const End end : {End::kCancelled, End::kInterrupted, End::kLost}) {
    files_.spoiled.clear();
    task_.inputs.clear();
    AddInput(1, "a", "first");
    ASSERT_TRUE(Begin().ok());
    ChangeInStore(1);
    Settle(step_, end);
    EXPECT_EQ(result_.end, end);
    EXPECT_EQ(result_.message, "");
    EXPECT_THAT(files_.spoiled, ElementsAre(1)) << "it is not read by others all the same";
  }
}

TEST_F(SandboxTest, WhatAnotherTaskHasChangedMakesTheAttemptCountForNothing) {
  struct Row {
    End end, becomes;
    int code;
  };
  for (const Row& row : {Row{End::kExited, End::kLost, 0},
                         {End::kExited, End::kLost, 3},
                         {End::kSignaled, End::kLost, 11},
                         {End::kTimedOut, End::kTimedOut, 9},
                         {End::kCancelled, End::kCancelled, 0}}) {
    for (const bool dropped : {false, true}) {
      files_.spoiled.clear();
      task_.inputs.clear();
      AddInput(1, "a", "first");
      ASSERT_TRUE(Begin().ok());
      if (dropped) {
        files_.store().Drop(files_.held[FileId(1)].id);
      } else {
        files_.Spoiled(FileId(1));  // as another one is found to have done
        files_.held.erase(FileId(1));
        files_.spoiled.clear();
      }
      Settle(step_, row.end, row.code);
      EXPECT_EQ(result_.end, row.becomes);
      EXPECT_EQ(files_.spoiled.size(), dropped ? 1u : 0u);
    }
  }
}

TEST_F(SandboxTest, AnInputThatIsAnotherOneByNowIsNotLookedAt) {
  AddInput(1, "a", "first");
  ASSERT_TRUE(Begin().ok());
  files_.Put(1, Write("source/new", "second"));
  ChangeInStore(1);
  Settle(step_, End::kExited);
  EXPECT_EQ(result_.end, End::kExited);
  EXPECT_THAT(files_.spoiled, IsEmpty());
}

TEST_F(SandboxTest, OfWhatDidNotRunNoInputIsLookedAt) {
  for (const End end : {End::kNotStarted, End::kRunning}) {
    task_.inputs.clear();
    AddInput(1, "a", "first");
    ASSERT_TRUE(Begin().ok());
    ChangeInStore(1);
    Settle(step_, end);
    EXPECT_EQ(result_.end, end);
    EXPECT_THAT(files_.spoiled, IsEmpty());
    EXPECT_TRUE(NoSandboxIsLeft());
    EXPECT_FALSE(files_.store().Unchanged(files_.held[FileId(1)].id)) << "and so it is dropped";
  }
}

// --- what is named

TEST_F(SandboxTest, WhatASuccessLeavesUndeclaredIsCountedAndNamed) {
  Write("submit/model", "#!/bin/sh\n", 0755);
  AddInput(1, "in/a", "first");
  AddOutput(2, "out/deep/x");
  AddOutput(3, "tree");
  SetProfile({.cwd = "work/./here/"});
  task_.command = "../../model";
  ASSERT_TRUE(Begin().ok());
  for (const char* name : {"out/deep/x", "tree/a/b", "in/log", "out/y", "cache/1", "cache/2", "work/here/z"}) Leave(name, "x");
  Leave("empty");
  fs::create_symlink(Submit("model"), launch_->sandbox + "/model");
  fs::create_symlink("/nowhere", launch_->sandbox + "/link");
  Settle(step_, End::kExited);
  EXPECT_EQ(result_.end, End::kExited) << result_.message;
  EXPECT_EQ(result_.undeclared, 6u);
  EXPECT_THAT(result_.undeclared_paths, UnorderedElementsAre("in/log", "out/y", "cache", "work/here/z", "empty", "link"));
}

TEST_F(SandboxTest, WhatLiesInADirectoryThatIsDeclaredIsDeclared) {
  Write("source/tree/deep/file", "x");
  files_.Put(1, At("source/tree"));
  task_.inputs = {{.file = FileId(1), .path = "tree"}};
  ASSERT_TRUE(Begin().ok());
  Leave("tree/deep/new", "x");
  Settle(step_, End::kExited);
  EXPECT_EQ(result_.undeclared, 0u);
}

TEST_F(SandboxTest, OfManyUndeclaredFilesTheFirstAreNamed) {
  ASSERT_TRUE(Begin().ok());
  for (int i = 0; i < 25; ++i) Leave(std::to_string(i), "x");
  Settle(step_, End::kExited);
  EXPECT_EQ(result_.undeclared, 25u);
  EXPECT_EQ(result_.undeclared_paths.size(), 10u);
  ASSERT_TRUE(Begin().ok());
  Leave("x", "x");
  Settle(step_, End::kExited, 1);
  EXPECT_EQ(result_.undeclared, 0u) << "what a failure leaves is nobody's loss";
}

TEST_F(SandboxTest, AFailedCommandIsToldWhatItMayHaveLookedForInVain) {
  for (const char* name : {"submit/data", "submit/given", "submit/made", "submit/sub/config", "submit/sub/data"})
    Write(name, "x");
  AddInput(1, "given", "x");
  AddOutput(2, "made");
  const auto told = [&](const std::string& command, End end, int code, const std::string& said = "") {
    task_.command = command;
    task_.form = CommandForm::kShell;
    EXPECT_TRUE(Begin().ok());
    Leave("own", "x");
    result_.message = said;
    Settle(step_, end, code);
    return result_.message;
  };
  const std::string one = "data lies in the submit directory, and not among what the task declares (in = [...])";
  const std::string two = "data, sub/config lie in the submit directory, and not among what the task declares (in = [...])";
  EXPECT_EQ(told("cat <data", End::kExited, 1), one);
  EXPECT_EQ(told("cat 'data' ./sub/../sub/config", End::kExited, 1), two);
  EXPECT_EQ(told("cat data", End::kExited, 1, "rank 1"), "rank 1; " + one);
  EXPECT_EQ(told("cat data", End::kMissingOutput, 0), one);
  for (const char* known : {"cat given", "cat made", "cat own", "cat nowhere", "ls .", "ls ..", "cat ../submit/data"})
    EXPECT_EQ(told(known, End::kExited, 1), "") << known;
  EXPECT_EQ(told("cat " + Submit("data"), End::kExited, 1), "") << "it has that";
  EXPECT_EQ(told("cat data", End::kSignaled, 1), "");
  EXPECT_EQ(told("cat data", End::kNotStarted, 1), "");
  SetProfile({.missing_ok = true});
  EXPECT_EQ(told("cat data", End::kExited, 0), "");
  SetProfile({.cwd = "sub"});
  EXPECT_EQ(told("cat config", End::kExited, 1),
            "sub/config lies in the submit directory, and not among what the task declares (in = [...])");
}

TEST_F(SandboxTest, OfMuchThatWasLookedForInVainTheBeginningIsTold) {
  std::string command = "cat";
  for (int i = 100; i < 200; ++i) {
    const std::string name = "a-file-with-a-name-of-some-length-" + std::to_string(i);
    Write("submit/" + name, "x");
    command += " " + name;
  }
  task_.command = command;
  ASSERT_TRUE(Begin().ok());
  Settle(step_, End::kExited, 1);
  EXPECT_THAT(result_.message, HasSubstr("-105 lie in the submit directory"));
}

}  // namespace
}  // namespace harrow::agent
