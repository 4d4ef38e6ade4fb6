// The steps that need no process and no file: what each puts into the start.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <string>

#include "agent/steps/command.h"
#include "agent/steps/devices.h"
#include "agent/steps/directory.h"
#include "agent/steps/environment_step.h"
#include "agent/steps/memory.h"
#include "agent/steps/pinning.h"
#include "agent/steps/slot_tmp.h"

namespace harrow::agent {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class StepsTest : public testing::Test {
 protected:
  Launch Prepare(Step& step, ProfileSpec spec = {}) {
    const auto base = std::make_shared<BaseEnvironment>(
        EnvList{{"PATH", "/bin"}},
        BaseEnvironment::Common{.submit_dir = "/submit", .node_name = "n1", .own_tmp = true});
    task_.profile = std::make_shared<TaskProfile>(std::move(spec), base);
    Launch launch{.task = task_, .given = given_, .variables = variables_, .checkpoint = checkpoint_};
    status_ = step.Prepare(&launch, &result_);
    return launch;
  }

  LocalTask task_;
  Core::Given given_;
  TaskVariables variables_;
  CheckpointVariables checkpoint_;
  TaskResult result_;
  Status status_;
};

TEST_F(StepsTest, AProcessIsPinnedToAllPusOfItsSlots) {
  const std::vector<topology::Slot> slots = {{.pus = {0, 4}}, {.pus = {1, 5}}, {.pus = {2, 6}}};
  Pinning pinning(slots, 1);
  given_.slots = {1, 2};
  const Launch launch = Prepare(pinning);
  ASSERT_NE(launch.request.cpus, nullptr);
  EXPECT_EQ(*launch.request.cpus, os::CpuMask({1, 5, 2, 6}));
  EXPECT_THAT(result_.pus, ElementsAre(1, 5, 2, 6));
}

TEST_F(StepsTest, WhoIsGivenItsThreadsSlotInheritsTheMask) {
  const std::vector<topology::Slot> slots = {{.pus = {0}}, {.pus = {1}}};
  Pinning pinning(slots, 1);
  given_.slots = {1};
  EXPECT_EQ(Prepare(pinning).request.cpus, nullptr);
  EXPECT_THAT(result_.pus, ElementsAre(1)) << "told all the same";
  result_ = {};
  given_.slots = {0};
  EXPECT_NE(Prepare(pinning).request.cpus, nullptr) << "another's slot is not inherited";
}

TEST_F(StepsTest, WhereNothingIsPinnedNothingIs) {
  const std::vector<topology::Slot> slots(2);
  Pinning pinning(slots, 0);
  given_.slots = {0, 1};
  EXPECT_EQ(Prepare(pinning).request.cpus, nullptr);
  EXPECT_THAT(result_.pus, IsEmpty());
}

TEST_F(StepsTest, DevicesAreNamedToTheLibrariesThatKnowThem) {
  const std::vector<topology::Device> devices = {{.kind = topology::DeviceKind::kNvidia, .id = "0"},
                                                 {.kind = topology::DeviceKind::kAmd, .id = "1"},
                                                 {.kind = topology::DeviceKind::kNvidia, .id = "GPU-7"}};
  Devices step(devices);
  given_.devices = {0, 1, 2};
  EXPECT_EQ(Prepare(step).variables.cuda_devices, "0,GPU-7");
  EXPECT_EQ(Prepare(step).variables.rocr_devices, "1");
  EXPECT_EQ(result_.devices, "0,GPU-7,1");
  given_.devices = {1};
  EXPECT_EQ(Prepare(step).variables.cuda_devices, "") << "nothing of the attempt before is left";
  EXPECT_EQ(result_.devices, "1");
  given_.devices = {};
  Prepare(step);
  EXPECT_EQ(result_.devices, "");
}

TEST_F(StepsTest, WhoDeclaresItsMemoryIsEndedByTheKernelBeforeOthers) {
  Memory memory;
  EXPECT_EQ(Prepare(memory, {.memory = 1}).request.oom_score_adj, 500);
  EXPECT_EQ(Prepare(memory).request.oom_score_adj, 0);
}

TEST(OwnPeakTest, APeakThatTheStartersMayHideIsOnlyBounded) {
  EXPECT_EQ(OwnPeak(5000, 1600), 5000);
  EXPECT_EQ(OwnPeak(1701, 1600), 1701);
  EXPECT_EQ(OwnPeak(1700, 1600), -1700) << "a sixteenth more than the starter's is in doubt";
  EXPECT_EQ(OwnPeak(100, 1600), -1700);
}

TEST_F(StepsTest, OnlyAnotherDirectoryIsEntered) {
  const std::string current = "/submit";
  Directory directory(current);
  EXPECT_EQ(Prepare(directory).request.directory, nullptr);
  EXPECT_STREQ(Prepare(directory, {.cwd = "sub"}).request.directory, "/submit/sub");
}

TEST_F(StepsTest, TheCommandBecomesAProgramAndItsArguments) {
  Command command;
  task_.command = "echo a b";
  const Launch launch = Prepare(command);
  ASSERT_TRUE(status_.ok());
  EXPECT_EQ(command.program(), "echo");
  EXPECT_STREQ(launch.request.argv[2], "b");
  EXPECT_EQ(launch.request.argv[3], nullptr);
  EXPECT_EQ(command.Find(task_).path, "/bin/echo");
  task_.command = "";
  Prepare(command);
  EXPECT_FALSE(status_.ok());
}

TEST_F(StepsTest, WhatTheCommandAssignsIsForItsEnvironment) {
  Command command;
  task_.form = CommandForm::kAssigned;
  task_.command = std::string("A=1\0B=2\0./p", 11);
  const Launch launch = Prepare(command);
  ASSERT_EQ(launch.variables.assigned.size(), 2u);
  EXPECT_STREQ(launch.variables.assigned[1], "B=2");
  EXPECT_EQ(command.program(), "./p");
}

TEST_F(StepsTest, AShellIsForWhoAsksForItAndForFunctions) {
  Command command;
  task_.command = "module load x";
  Prepare(command);
  EXPECT_EQ(command.program(), "module");
  const Launch asked = Prepare(command, {.shell = "/bin/bash"});
  EXPECT_EQ(command.program(), "/bin/bash");
  EXPECT_STREQ(asked.request.argv[2], "module load x");
  const ProfileSpec knows{.env = {{"BASH_FUNC_module%%", "() { :; }"}}};
  Prepare(command, knows);
  EXPECT_EQ(command.program(), "/bin/sh");
  task_.form = CommandForm::kArgv;
  task_.command = "module";
  Prepare(command, knows);
  EXPECT_EQ(command.program(), "module") << "a program is what it says";
}

TEST_F(StepsTest, WhoGoesOnFromACheckpointHasTheCommandForThat) {
  Command command;
  task_.command = "begin";
  ProfileSpec spec;
  spec.checkpoint.restart_command = "go on";
  Prepare(command, spec);
  EXPECT_EQ(command.program(), "begin") << "there is none";
  checkpoint_.restart = "/checkpoint";
  Prepare(command, spec);
  EXPECT_EQ(command.program(), "go");
  spec.checkpoint.restart_form = CommandForm::kShell;
  EXPECT_STREQ(Prepare(command, spec).request.argv[2], "go on");
  spec.checkpoint.restart_command.clear();
  Prepare(command, spec);
  EXPECT_EQ(command.program(), "begin") << "it looks for itself";
}

TEST_F(StepsTest, WhoHoldsATaskIsStartedInItsPlace) {
  Command command;
  task_.command = "program argument";
  for (const char* holder : {"harrow", "another"}) {
    checkpoint_.holder = {holder, "hold", "--"};
    const Launch launch = Prepare(command);
    std::vector<std::string> words;
    for (char* const* word = launch.request.argv; *word != nullptr; ++word) words.emplace_back(*word);
    EXPECT_THAT(words, ElementsAre(holder, "hold", "--", "program", "argument"));
    EXPECT_EQ(command.program(), holder);
  }
}

TEST_F(StepsTest, TheEnvironmentTellsWhatOtherStepsFound) {
  Environment environment;
  task_.id = 6;
  task_.attempt = 3;
  given_.slots = {0, 1};
  variables_.tmp_dir = "/tmp/x";
  const auto read = [](const Launch& launch) {
    std::map<std::string, std::string> all;
    for (char* const* entry = launch.request.envp; *entry != nullptr; ++entry) {
      const std::string text = *entry;
      all[text.substr(0, text.find('='))] = text.substr(text.find('=') + 1);
    }
    return all;
  };
  auto all = read(Prepare(environment));
  EXPECT_EQ(all["TMPDIR"], "/tmp/x");
  EXPECT_EQ(all["OMP_NUM_THREADS"], "2");
  EXPECT_EQ(all["HARROW_ATTEMPT"], "3");
  EXPECT_EQ(all["HARROW_TASK_NAME"], "#7") << "by its number where it has no name";
  EXPECT_EQ(all["HARROW_TASK_ID"], "7");
  EXPECT_FALSE(all.contains("HARROW_CHECKPOINT_DIR"));
  task_.name = "add";
  checkpoint_ = {.directory = "/dir", .restart = "/dir/1", .request = "/asked", .signal = "USR1", .status = "9"};
  all = read(Prepare(environment));
  EXPECT_EQ(all["HARROW_TASK_NAME"], "add");
  EXPECT_EQ(all["HARROW_CHECKPOINT_DIR"], "/dir");
  EXPECT_EQ(all["HARROW_RESTART"], "/dir/1");
  EXPECT_EQ(all["HARROW_CHECKPOINT_REQUEST"], "/asked");
  EXPECT_EQ(all["HARROW_CHECKPOINT_SIGNAL"], "USR1");
  EXPECT_EQ(all["HARROW_CHECKPOINT_STATUS"], "9");
}

TEST_F(StepsTest, WhereAStepPutsAFileIsBelowADirectoryUnlessItSaysWhere) {
  EXPECT_EQ(Below("/dir", "a/b"), "/dir/a/b");
  EXPECT_EQ(Below("/dir", "/a"), "/a");
  EXPECT_EQ(Below("/dir", ""), "/dir/");
}

TEST_F(StepsTest, WithoutARootThereIsNoTmpdirOfItsOwn) {
  SlotTmp tmp(TmpRoot(), 0);
  const Launch launch = Prepare(tmp);
  EXPECT_TRUE(status_.ok());
  EXPECT_EQ(launch.variables.tmp_dir, "");
  tmp.Settle(task_, &result_);
}

}  // namespace
}  // namespace harrow::agent
