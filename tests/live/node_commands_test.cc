// node_setup and node_teardown as a warden runs them: real processes.
#include "agent/node_commands.h"

#include <csignal>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/text.h"
#include "live/agent_fixture.h"
#include "os/process.h"
#include "unit/agent/steps_on_disk.h"

namespace harrow::agent {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

class NodeCommandsTest : public testing::Test {
 protected:
  NodeCommandsTest() {
    EXPECT_TRUE(os::BecomeSubreaper().ok());
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before_);
    run_.directory = scratch_.path();
    run_.limit = std::chrono::minutes(1);
  }
  ~NodeCommandsTest() override {
    EXPECT_TRUE(os::EndDescendants(Duration(0)).ok());
    sigprocmask(SIG_SETMASK, &before_, nullptr);
  }

  /// What is wrong; empty: nothing. What the command wrote is in output_.
  std::string Run(const std::string& command, bool at_end = false) {
    const auto wait = [this](Duration at_most) {
      longest_ = std::max(longest_, at_most);
      sigset_t child;
      sigemptyset(&child);
      sigaddset(&child, SIGCHLD);
      const timespec time{at_most / std::chrono::seconds(1), (at_most % std::chrono::seconds(1)).count()};
      sigtimedwait(&child, nullptr, &time);
      return to_end_ != nullptr && HasWritten(to_end_);
    };
    const Status status = RunNodeCommand({.key = at_end ? "node_teardown" : "node_setup", .text = command, .at_end = at_end},
                                         run_, "n 7", wait, &output_);
    EXPECT_EQ(status.code(), status.ok() ? Code::kOk : Code::kUnavailable);
    return status.message();
  }
  bool HasWritten(const char* text) const { return output_.end().find(text) != std::string::npos; }
  bool ReadUntil(const char* text) {
    return Eventually([&] {
      output_.Read();
      return HasWritten(text);
    });
  }

  test::OwnDirectory scratch_;
  NodeCommands run_;
  NodeOutput output_;
  Duration longest_{0};
  const char* to_end_ = nullptr;  // the run ends when the command has written that
  sigset_t before_;
};

TEST_F(NodeCommandsTest, RunInTheSubmitDirectoryWithTheRunsEnvironment) {
  run_.env = {{"A", "a  b"}, {"HARROW_NODE", "another"}};
  EXPECT_EQ(Run("echo \"$A,$HARROW_NODE,$(pwd),$(cat)\"; echo error >&2"), "");
  EXPECT_EQ(output_.end(), StrCat("a  b,n 7,", scratch_.path(), ",\nerror\n"));
  EXPECT_LE(longest_, milliseconds(50)) << "what it writes is read";
}

TEST_F(NodeCommandsTest, WithoutDescriptorsNothingOfWhatTheyWriteIsKept) {
  const FewDescriptors few(0);
  EXPECT_EQ(output_.Open(), -1);
  EXPECT_FALSE(output_.open());
}

TEST_F(NodeCommandsTest, HaveNothingToRead) {
  std::ofstream(scratch_.path() + "/given") << "not for them";
  const int own = dup(STDIN_FILENO), given = open((scratch_.path() + "/given").c_str(), O_RDONLY | O_CLOEXEC);
  dup2(given, STDIN_FILENO);
  EXPECT_EQ(Run("cat"), "");
  dup2(own, STDIN_FILENO);
  close(own);
  close(given);
  EXPECT_EQ(output_.end(), "");
}

TEST_F(NodeCommandsTest, HaveASessionOfTheirOwnAndNoBlockedSignals) {
  EXPECT_EQ(Run("test $(cut -d' ' -f6 /proc/$$/stat) = $$ && grep -q 'SigBlk:.0*$' /proc/self/status"), "");
  std::ofstream(scratch_.path() + "/shell") << "#!/bin/sh\necho \"mine $*\"\n";
  ASSERT_EQ(chmod((scratch_.path() + "/shell").c_str(), 0700), 0);
  run_.shell = scratch_.path() + "/shell";
  EXPECT_EQ(Run("a b"), "");
  EXPECT_THAT(output_.end(), EndsWith("mine -c a b\n"));
}

TEST_F(NodeCommandsTest, WhatIsWrongIsToldWithTheLastLine) {
  EXPECT_EQ(Run("echo first; echo 'no disk' >&2; echo; echo '  '; exit 3"),
            "node_setup ended with exit code 3: no disk");
}

TEST_F(NodeCommandsTest, WhatSaysNothingIsToldByItsEnd) {
  EXPECT_EQ(Run("exit 3"), "node_setup ended with exit code 3");
  EXPECT_THAT(Run("kill -9 $$"), AllOf(StartsWith("node_setup ended with "), HasSubstr("9")));
}

TEST_F(NodeCommandsTest, AShellOrDirectoryThatIsNotThereIsNamed) {
  run_.shell = "/nowhere/sh";
  EXPECT_EQ(Run("true"),
            "node_setup ended with exit code 127: cannot start /nowhere/sh: No such file or directory");
  run_.shell.clear();
  run_.directory = "/nowhere";
  EXPECT_EQ(Run("exit 4"),
            "node_setup ended with exit code 4: cannot go to /nowhere: No such file or directory");
}

TEST_F(NodeCommandsTest, WhatTakesTooLongIsEndedWithAllItHasStarted) {
  run_.limit = milliseconds(300);
  EXPECT_EQ(Run("trap 'echo asked; exit 0' TERM; setsid sleep 1000 & echo $!; while :; do sleep 0.05; done"),
            "node_setup took longer than node_limit, 300 ms: asked");
  pid_t left = 0;
  ASSERT_EQ(std::sscanf(output_.end().c_str(), "%d", &left), 1);
  EXPECT_NE(kill(left, 0), 0);
}

TEST_F(NodeCommandsTest, WhatEndsAJobsProcessesEndsNoCommandThatIsRunAtItsEnd) {
  const std::string told = "sh -c 'kill $$'; kill $$; echo done";
  EXPECT_EQ(Run(told, true), "");
  EXPECT_EQ(output_.end(), "done\n");
  EXPECT_THAT(Run(told, false), StartsWith("node_setup ended with signal 15"));
}

TEST_F(NodeCommandsTest, WhatIsRunAtTheEndHasALimitAllTheSame) {
  run_.limit = milliseconds(300);
  EXPECT_EQ(Run("echo begun; exec sleep 1000", true),
            "node_teardown took longer than node_limit, 300 ms: begun");
}

TEST_F(NodeCommandsTest, WhatTheRunDoesNotWaitForIsEnded) {
  to_end_ = "begun";
  EXPECT_EQ(Run("echo begun; exec sleep 1000"), "node_setup was ended with the run: begun");
}

size_t Descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

TEST_F(NodeCommandsTest, WhatASetupLeavesRunningGoesOnAndMayWrite) {
  const size_t descriptors = Descriptors();
  EXPECT_EQ(Run("(while test ! -e go; do sleep 0.05; done; head -c 5000000 /dev/zero; echo all of it; exec "
                "sleep 1000) & echo $!"),
            "");
  pid_t left = 0;
  ASSERT_EQ(std::sscanf(output_.end().c_str(), "%d", &left), 1);
  EXPECT_EQ(kill(left, 0), 0);
  std::ofstream(scratch_.path() + "/go").close();
  EXPECT_TRUE(ReadUntil("all of it\n"));
  EXPECT_EQ(output_.end().size(), 4000u) << "its end";
  EXPECT_TRUE(output_.open());
  EXPECT_TRUE(os::EndDescendants(Duration(0)).ok());
  output_.Read();
  EXPECT_FALSE(output_.open());
  EXPECT_EQ(Descriptors(), descriptors);
}

TEST_F(NodeCommandsTest, WhatNeverStopsWritingDoesNotHoldTheLimitUp) {
  run_.limit = milliseconds(300);
  EXPECT_THAT(Run("exec yes"), StartsWith("node_setup took longer than node_limit, 300 ms: y"));
}

// Of a pipe that keeps what is written apart a read takes one piece.
TEST_F(NodeCommandsTest, SoMuchIsTakenBeforeAnythingElseIsLookedAt) {
  const os::Fd end(output_.Open());
  ASSERT_EQ(fcntl(end.get(), F_SETFL, O_DIRECT), 0);
  for (int piece = 0; piece < 40; ++piece) ASSERT_EQ(write(end.get(), "x", 1), 1);
  output_.Read();
  EXPECT_EQ(output_.end().size(), 32u);
  output_.Read();
  EXPECT_EQ(output_.end().size(), 40u);
}

TEST_F(NodeCommandsTest, WhatHasClosedItsOutputIsWaitedForWithoutLooking) {
  run_.limit = std::chrono::seconds(20);
  EXPECT_EQ(Run("exec >&- 2>&-; sleep 0.3; exit 0"), "");
  EXPECT_GT(longest_, std::chrono::seconds(1));
  EXPECT_LE(longest_, run_.limit);
}

}  // namespace
}  // namespace harrow::agent
