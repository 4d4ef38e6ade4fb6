// CRIU's part in a task, as its agent sees it: whether it works on the node, and what comes of an image. Who holds the task is a
// script here, or the test itself; criu.py: the real ones.
#include <csignal>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/steps/checkpoint.h"
#include "agent/steps/criu_tool.h"
#include "criu/hold.h"
#include "os/process.h"
#include "unit/agent/steps_on_disk.h"

namespace harrow::agent {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

class CriuToolAtWork : public OnDisk {
 protected:
  /// What is tried there: a script that stands for `harrow`.
  Status Try(const std::string& script, const std::string& place = "/disk") {
    CriuTool tool(Write("harrow", "#!/bin/sh\n" + script + "\n", 0755), "/bin/criu", place);
    bool first = false;
    const Status works = tool.Works(&first);
    EXPECT_TRUE(first);
    const Status again = tool.Works(&first);
    EXPECT_FALSE(first) << "it has been told";
    EXPECT_EQ(again.message(), works.message());
    EXPECT_EQ(works.code(), works.ok() ? Code::kOk : Code::kUnavailable);
    return works;
  }
};

TEST_F(CriuToolAtWork, ItIsTriedOnceAndWhatIsWrongIsItsFirstLine) {
  EXPECT_TRUE(Try("echo \"$@\" >> " + At("words")).ok());
  EXPECT_EQ(Text("words"), "hold --criu /bin/criu --try /disk\n");
  EXPECT_TRUE(Try("echo \"$@\" > " + At("words"), "").ok());
  EXPECT_EQ(Text("words"), "hold --criu /bin/criu --try /tmp\n");
  EXPECT_EQ(Try("echo 'harrow: no rights' >&2; echo more >&2; exit 1").message(), "no rights");
  EXPECT_EQ(Try("echo 'not ours' >&2; exit 1").message(), "not ours");
  EXPECT_EQ(Try("exit 1").message(), "it cannot be tried");
  EXPECT_EQ(Try("echo said; cat; exit 1").message(), "it cannot be tried") << "only its errors are heard, and it hears nothing";
  EXPECT_EQ(Try("kill -9 $$").message(), "it cannot be tried");
  EXPECT_THAT(Try("echo long >&2; head -c 200000 /dev/zero | tr '\\0' x >&2; exit 1").message(), HasSubstr("long"));
  ExpectNoDescriptorMore();
}

TEST_F(CriuToolAtWork, AProgramThatIsNotThereIsNamed) {
  bool first = false;
  {
    CriuTool cannot("/bin/true", "/bin/criu", "");
    const FewDescriptors few(0);
    EXPECT_EQ(cannot.Works(&first).message(), "no pipe: Too many open files");
  }
  CriuTool tool(At("nowhere"), "/bin/criu", "");
  EXPECT_EQ(tool.Works(&first).message(), At("nowhere") + ": No such file or directory");
  ExpectNoDescriptorMore();
}

/// A task that CRIU dumps, on a node where it works.
class CriuCheckpointTest : public StepOnDisk {
 protected:
  CriuCheckpointTest() {
    common_.run_dir = At("run");
    task_.id = 4;
    task_.checkpoints = "t";
    spec_ = {.on = true, .criu = true, .signal = kAskHolder, .status = 9, .time = std::chrono::seconds(100)};
    Directory("disk");
  }
  Status Begin() {
    SetProfile({.checkpoint = spec_});
    return Prepare(step_);
  }
  static constexpr const char* kTrouble = "run/checkpoints/t/trouble";
  /// What its holder leaves: an image that is whole.
  void LeaveImage(const std::string& text) const {
    Write("disk/images.7/written/pages", text);
    Write("disk/images.7/written/harrow.held", "x");
  }
  /// An attempt that ends with one.
  void EndWithImage() {
    ASSERT_TRUE(Begin().ok());
    LeaveImage("image");
    Settle(step_, End::kCheckpointed, 9);
    ASSERT_EQ(result_.end, End::kCheckpointed) << result_.message;
  }

  CheckpointSpec spec_;
  std::vector<std::string> told_;
  CriuTool tool_{"/bin/true", "/bin/criu", ""};
  Checkpoint step_{&tool_, At("disk"), 7, [] { return false; }, [this](const std::string& line) { told_.push_back(line); }};
};

TEST_F(CriuCheckpointTest, WhoHoldsItIsToldWhereItsImageBelongs) {
  ASSERT_TRUE(Begin().ok());
  EXPECT_EQ(launch_->checkpoint.holder,
            tool_.Words({.images = At("disk/images.7/written"), .trouble = At(kTrouble), .restore = {}},
                        {.signal = kAskHolder, .status = 9, .limit = std::chrono::seconds(80)}));
  EXPECT_EQ(launch_->checkpoint.directory, "") << "the task knows nothing of it";
  EXPECT_TRUE(Has("disk/images.7/written"));
  EXPECT_FALSE(step_.beats());
  Settle(step_, End::kSignaled, 9);
  EXPECT_EQ(result_.end, End::kSignaled);
  EXPECT_FALSE(Has("disk/images.7")) << "nothing of it stays on the node's disk";
  EXPECT_THAT(told_, IsEmpty());
}

TEST_F(CriuCheckpointTest, WithoutADiskImagesLieWithTheRun) {
  Checkpoint step(
      &tool_, "", 7, [] { return false; }, [](const std::string&) {});
  SetProfile({.checkpoint = spec_});
  ASSERT_TRUE(Prepare(step).ok());
  EXPECT_TRUE(Has("run/checkpoints/t/images.7/written"));
}

TEST_F(CriuCheckpointTest, AnImageIsKeptAndGoneOnFrom) {
  ASSERT_TRUE(Begin().ok());
  EXPECT_FALSE(step_.HasImage(true, 9)) << "there is none yet";
  LeaveImage("image");
  EXPECT_TRUE(step_.HasImage(true, 9));
  EXPECT_FALSE(step_.HasImage(false, 9));
  EXPECT_FALSE(step_.HasImage(true, 8));
  Settle(step_, End::kCheckpointed, 9);
  EXPECT_EQ(result_.checkpoint_bytes, 6);
  EXPECT_THAT(result_.message, AllOf(StartsWith("it left a checkpoint of 6 B ("), EndsWith(" written)")));
  EXPECT_FALSE(step_.HasImage(true, 9));
  ASSERT_TRUE(Begin().ok());
  EXPECT_THAT(launch_->checkpoint.holder, testing::Contains(At("disk/images.7/read")));
  EXPECT_EQ(Text("disk/images.7/read/pages"), "image");
  Settle(step_, End::kExited);
  ASSERT_NE(result_.over, nullptr);
  EXPECT_FALSE(Has("disk/images.7"));
  EXPECT_TRUE(result_.over->Remove().ok());
  EXPECT_FALSE(Has("run/checkpoints/t"));
}

TEST_F(CriuCheckpointTest, ItsEnvironmentIsHandedOnByADescriptorAndItsHolderHasTheAgents) {
  ASSERT_TRUE(Begin().ok());
  CountDescriptors();
  char first[] = "A=1", second[] = "B=two words";
  char* envp[] = {first, second, nullptr};
  launch_->request.envp = envp;
  ASSERT_TRUE(step_.HandOn(&*launch_).ok());
  const int fd = launch_->request.kept_fd;
  ExpectNoDescriptorIsInherited();
  EXPECT_EQ(std::string(launch_->request.envp[0]), std::string(criu::kEnvironmentFd) + "=" + std::to_string(fd));
  size_t agents = 0, all = 1;
  while (environ[agents] != nullptr) ++agents;
  for (; launch_->request.envp[all] != nullptr; ++all) EXPECT_EQ(launch_->request.envp[all], environ[all - 1]);
  EXPECT_EQ(all, agents + 1);
  char text[100];
  EXPECT_EQ(pread(fd, text, sizeof text, 0), 16);
  EXPECT_EQ(std::string(text, 16), std::string("A=1\0B=two words\0", 16));
  step_.CloseOwnEnd();
  ExpectNoDescriptorMore();
}

TEST_F(CriuCheckpointTest, WhereItsEnvironmentCannotBeHandedOnItIsNotStarted) {
  ASSERT_TRUE(Begin().ok());
  char* envp[] = {nullptr};
  launch_->request.envp = envp;
  Status status;
  {
    const FewDescriptors few(0);
    status = step_.HandOn(&*launch_);
  }
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_EQ(status.message(), "its environment cannot be handed on: Too many open files");
}

TEST_F(CriuCheckpointTest, WhatIsWrongWithItsDirectoryOrItsImageIsTold) {
  EndWithImage();
  for (const fs::directory_entry& e : fs::recursive_directory_iterator(At("run/checkpoints/t/1"))) {
    if (e.is_regular_file()) std::ofstream(e.path(), std::ios::app) << "damage";
  }
  ASSERT_TRUE(Begin().ok());
  ASSERT_THAT(told_, SizeIs(1));
  EXPECT_THAT(told_[0], AllOf(StartsWith("task #5: "), HasSubstr("it begins anew")));
  Settle(step_, End::kSignaled, 9);
  fs::remove_all(At("run"));
  Write("run", "a file");
  EXPECT_THAT(Begin().message(), StartsWith("its checkpoints: "));
}

TEST_F(CriuCheckpointTest, OneThatIsGivenUpIsNotAskedLikeTheOneBefore) {
  ASSERT_TRUE(Begin().ok());
  EXPECT_FALSE(step_.Ask(task_, getpid()));
  Settle(step_, End::kSignaled, 9);
  Write("run/checkpoints/t/given-up", "");
  ASSERT_TRUE(Begin().ok());
  EXPECT_TRUE(step_.Ask(task_, getpid()));
  EXPECT_EQ(step_.refusal(), "it runs without");
  EXPECT_FALSE(step_.HasImage(true, 9));
  Settle(step_, End::kSignaled, 9);
  fs::remove(At("run/checkpoints/t/given-up"));
  ASSERT_TRUE(Begin().ok());
  EXPECT_EQ(step_.refusal(), "");
}

TEST_F(CriuCheckpointTest, WhoHoldsNothingHasItsOwnEnvironment) {
  spec_.on = false;
  ASSERT_TRUE(Begin().ok());
  char* envp[] = {nullptr};
  launch_->request.envp = envp;
  EXPECT_TRUE(step_.HandOn(&*launch_).ok());
  EXPECT_EQ(launch_->request.envp, envp);
}

TEST_F(CriuCheckpointTest, InASandboxItRunsWithoutAsNoOtherNodeHasThat) {
  task_.sandbox = true;
  ASSERT_TRUE(Begin().ok());
  EXPECT_THAT(launch_->checkpoint.holder, IsEmpty());
  ASSERT_THAT(told_, SizeIs(1));
  EXPECT_THAT(told_[0], HasSubstr("it runs in a sandbox"));
}

TEST_F(CriuCheckpointTest, WhereItDoesNotWorkThatIsToldOnce) {
  CriuTool none("/bin/false", "/bin/criu", "");
  Checkpoint step(
      &none, At("disk"), 7, [] { return false; }, [this](const std::string& line) { told_.push_back(line); });
  SetProfile({.checkpoint = spec_});
  for (int times = 0; times < 2; ++times) {
    ASSERT_TRUE(Prepare(step).ok());
    EXPECT_THAT(launch_->checkpoint.holder, IsEmpty());
    Settle(step, End::kExited);
  }
  EXPECT_THAT(told_,
              ElementsAre("task #5 and others with checkpoint = \"criu\" run without checkpoints here: it cannot be tried"));
}

volatile sig_atomic_t asked = 0;

TEST_F(CriuCheckpointTest, ItsHolderIsAskedOnceAndMayRefuse) {
  ASSERT_TRUE(Begin().ok());
  EXPECT_FALSE(step_.Ask(task_, getpid())) << "it does not catch the signal yet";
  signal(kAskHolder, [](int) { asked = asked + 1; });
  asked = 0;
  for (int times = 0; times < 3; ++times) {
    EXPECT_FALSE(step_.Ask(task_, getpid()));
    EXPECT_EQ(step_.refusal(), "");
  }
  EXPECT_EQ(asked, 1);
  Write(kTrouble, "restore: something else\n");
  EXPECT_FALSE(step_.Ask(task_, getpid()));
  Write(kTrouble, std::string(criu::kNoImage) + "a socket is open\nmore\n");
  EXPECT_TRUE(step_.Ask(task_, getpid()));
  EXPECT_EQ(step_.refusal(), "a socket is open");
  EXPECT_FALSE(Has(kTrouble));
  EXPECT_FALSE(step_.Ask(task_, getpid())) << "it may be asked once more";
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(step_.refusal(), "");
  ASSERT_TRUE(Begin().ok());
  EXPECT_FALSE(step_.Ask(task_, getpid()));
  EXPECT_EQ(asked, 3) << "another attempt is asked anew";
  signal(kAskHolder, SIG_DFL);
}

// The task is a shell, and its program has a handler.
TEST_F(CriuCheckpointTest, WithoutCriuTheProcessesBelowATaskAreAskedThatCatchTheSignal) {
  spec_ = {.on = true, .ask = CheckpointSpec::Ask::kSignal, .signal = SIGUSR1, .status = 9};
  ASSERT_TRUE(Begin().ok());
  int ready[2], heard[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(heard), 0);
  const pid_t shell = fork();
  if (shell == 0) {
    const pid_t program = fork();
    if (program == 0) {
      static int to = -1;
      to = heard[1];
      if (!os::DieWithParent(SIGKILL, getppid()).ok()) _exit(1);
      signal(SIGUSR1, [](int) { (void)!write(to, "h", 1); });
      (void)!write(ready[1], "r", 1);
      while (true) pause();
    }
    if (!os::DieWithParent(SIGKILL, getppid()).ok()) _exit(1);
    while (true) pause();
  }
  char c = 0;
  ASSERT_EQ(read(ready[0], &c, 1), 1);
  EXPECT_TRUE(step_.Ask(task_, shell));
  EXPECT_EQ(read(heard[0], &c, 1), 1);
  EXPECT_EQ(kill(shell, 0), 0) << "it would have died of it";
  spec_.signal = SIGUSR2;
  ASSERT_TRUE(Begin().ok());
  EXPECT_FALSE(step_.Ask(task_, shell)) << "none of them catches that";
  kill(shell, SIGKILL);
  waitpid(shell, nullptr, 0);
  for (const int fd : {ready[0], ready[1], heard[0], heard[1]}) close(fd);
}

TEST_F(CriuCheckpointTest, AnImageThatCannotBeRestoredIsTriedTwice) {
  EndWithImage();
  for (const bool last : {false, true}) {
    ASSERT_TRUE(Begin().ok());
    Write(kTrouble, std::string(criu::kNoProcess) + "no such number\n");
    Settle(step_, End::kExited, 1);
    EXPECT_EQ(result_.end, End::kLost);
    EXPECT_THAT(result_.message, StartsWith("its image cannot be restored: no such number"));
    EXPECT_EQ(result_.message.find("tried often enough") != std::string::npos, last);
    EXPECT_EQ(told_.back(), "task #5: " + result_.message);
  }
  EXPECT_THAT(told_, SizeIs(2));
  ASSERT_TRUE(Begin().ok());
  EXPECT_THAT(launch_->checkpoint.holder, IsEmpty()) << "it begins anew, and is not dumped again";
}

TEST_F(CriuCheckpointTest, WhatCriuDoesToATaskIsNotItsFault) {
  ASSERT_TRUE(Begin().ok());
  Write(kTrouble, std::string(criu::kNoProcess) + "no namespaces\n");
  Settle(step_, End::kExited, 1);
  EXPECT_EQ(result_.end, End::kLost);
  EXPECT_EQ(result_.message, "it cannot be started so that CRIU could dump it: no namespaces");
  ASSERT_TRUE(Begin().ok());
  Write(kTrouble, std::string(criu::kLostProcess) + "killed\n");
  Settle(step_, End::kExited, 1);
  EXPECT_EQ(result_.end, End::kLost);
  EXPECT_EQ(result_.message, "it was lost as its image was made: killed");
  EXPECT_THAT(told_, ElementsAre("task #5: it cannot be started so that CRIU could dump it: no namespaces",
                                 "task #5: it was lost as its image was made: killed"));
  for (const End end : {End::kSignaled, End::kCancelled}) {
    ASSERT_TRUE(Begin().ok());
    Write(kTrouble, std::string(criu::kLostProcess) + "killed\n");
    Settle(step_, end, 1);
    EXPECT_EQ(result_.end, end);
  }
  ASSERT_TRUE(Begin().ok());
  Settle(step_, End::kExited, 1);
  EXPECT_EQ(result_.end, End::kExited);
  EXPECT_EQ(result_.message, "");
}

}  // namespace
}  // namespace harrow::agent
