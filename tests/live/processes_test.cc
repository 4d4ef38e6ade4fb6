// Starting and ending processes, real ones.
#include <array>
#include <csignal>
#include <cstring>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "live/agent_fixture.h"
#include "os/alarm.h"
#include "os/clock.h"
#include "os/process.h"
#include "os/spawn.h"

extern char** environ;

namespace harrow::os {
namespace {

using agent::Eventually;
using testing::Contains;
using testing::Field;

class ProcessesTest : public testing::Test {
 protected:
  ProcessesTest() { EXPECT_TRUE(BecomeSubreaper().ok()); }
  ~ProcessesTest() override { EXPECT_TRUE(EndDescendants(Duration(0)).ok()); }

  pid_t Start(const std::string& script) {
    std::string text = script;
    char shell[] = "/bin/sh", option[] = "-c";
    char* argv[] = {shell, option, text.data(), nullptr};
    const SpawnOutcome outcome = spawner_.Spawn(
        {.program = "/bin/sh", .argv = argv, .envp = environ, .directory = scratch_.path().c_str()});
    EXPECT_GT(outcome.pid, 0) << strerror(outcome.error);
    return outcome.pid;
  }
  pid_t ReadPid(const std::string& name) {
    const std::string path = scratch_.path() + "/" + name;
    pid_t pid = 0;
    EXPECT_TRUE(Eventually([&] { return static_cast<bool>(std::ifstream(path) >> pid); })) << name;
    return pid;
  }
  static bool Alive(pid_t pid) { return kill(pid, 0) == 0; }

  test::OwnDirectory scratch_;
  Spawner spawner_;
};

TEST_F(ProcessesTest, DescendantsEndHoweverTheyHide) {
  Start("setsid sh -c '(setsid sh -c \"echo \\$\\$ > deep; exec sleep 300\" &)' & exec sleep 300");
  Start("trap '' TERM INT HUP; echo $$ > stubborn; while :; do sleep 1; done");
  const pid_t deep = ReadPid("deep"), stubborn = ReadPid("stubborn");
  EXPECT_THAT(Descendants(getpid()), Contains(Field(&Process::pid, deep)));
  EXPECT_TRUE(EndDescendants(std::chrono::milliseconds(100)).ok());
  EXPECT_FALSE(Alive(deep));
  EXPECT_FALSE(Alive(stubborn));
  EXPECT_TRUE(Descendants(getpid()).empty());
}

TEST_F(ProcessesTest, ThoseThatAreToStayStayWithAllBelowThem) {
  const pid_t kept = Start("sleep 300 & echo $! > below; wait");
  Start("echo $$ > other; exec sleep 300");
  const pid_t below = ReadPid("below"), other = ReadPid("other");
  const pid_t except[] = {kept};
  EXPECT_TRUE(EndDescendants(Duration(0), except).ok());
  EXPECT_FALSE(Alive(other));
  EXPECT_TRUE(Alive(kept));
  EXPECT_TRUE(Alive(below));
}

TEST_F(ProcessesTest, ThoseThatMayEndInPeaceDo) {
  Start("trap 'echo saved > saved; exit' TERM; echo $$ > ready; while :; do sleep 0.02; done");
  ReadPid("ready");
  const auto began = std::chrono::steady_clock::now();
  EXPECT_TRUE(EndDescendants(std::chrono::minutes(4)).ok());
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(30)) << "no longer than they need";
  EXPECT_TRUE(std::filesystem::exists(scratch_.path() + "/saved"));
}

// A number may be given to another; the start time may not.
TEST_F(ProcessesTest, AStrangerOfTheSameNumberIsNotSignalled) {
  const pid_t pid = Start("exec sleep 300");
  Process process;
  ASSERT_TRUE(ReadProcess(pid, &process));
  EXPECT_EQ(process.parent, getpid());
  EXPECT_EQ(process.group, pid);
  Process earlier = process;
  --earlier.started;
  EXPECT_FALSE(SignalProcess(earlier, SIGKILL));
  EXPECT_EQ(waitpid(pid, nullptr, WNOHANG), 0) << "the stranger was hit";
  EXPECT_TRUE(Descendants(earlier).empty());
  EXPECT_TRUE(SignalProcess(process, SIGKILL));
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, SIGKILL);
  EXPECT_FALSE(SignalProcess(process, SIGKILL)) << "gone";
}

TEST_F(ProcessesTest, DescendantsOfOneThatIsGoneAreNobodys) {
  const pid_t parent = Start("sleep 300 & echo $! > below; wait");
  const pid_t below = ReadPid("below");
  Process process;
  ASSERT_TRUE(ReadProcess(parent, &process));
  EXPECT_THAT(Descendants(process), Contains(Field(&Process::pid, below)));
  --process.started;
  EXPECT_TRUE(Descendants(process).empty()) << "another process of its number has children";
}

TEST_F(ProcessesTest, ForksFasterThanTheKillingDoNotEscape) {
  Start("echo $$ > ready; i=0; while [ $i -lt 300 ]; do (setsid sleep 300 &); i=$((i+1)); done");
  ReadPid("ready");
  EXPECT_TRUE(EndDescendants(Duration(0)).ok());
  EXPECT_TRUE(Descendants(getpid()).empty());
}

bool Stands(pid_t pid) {
  Process process;
  return ReadProcess(pid, &process) && process.stopped;
}

/// What the kernel says of those that do not stand.
std::string Told(const std::vector<Process>& processes) {
  std::string text;
  for (const Process& process : processes) {
    if (process.stopped) continue;
    for (const char* what : {"stat", "wchan"}) {
      std::ifstream file("/proc/" + std::to_string(process.pid) + "/" + what);
      text.append(std::istreambuf_iterator<char>(file), {}).append(" ");
    }
    text += "\n";
  }
  return text;
}

TEST_F(ProcessesTest, ForksFasterThanTheStoppingDoNotEscape) {
  const pid_t root =
      Start("echo $$ > ready; i=0; while [ $i -lt 3000 ]; do (setsid sleep 300 &); i=$((i+1)); done; wait");
  ReadPid("ready");
  Stopper stopper;
  stopper.Stop(getpid());
  std::vector<Process> all;
  const auto stands = [](const Process& p) { return p.stopped; };
  EXPECT_TRUE(Eventually([&] {
    stopper.Stop(getpid());  // on a busy machine some take more than one call to get the signal
    all = Descendants(getpid());
    return std::all_of(all.begin(), all.end(), stands);
  })) << Told(all);
  const size_t stopped = all.size();
  EXPECT_GE(stopped, 1u);
  EXPECT_LT(stopped, 3000u) << "the machine is too fast for this test to mean anything";
  stopper.Stop(getpid());
  EXPECT_EQ(Descendants(getpid()).size(), stopped);
  stopper.Continue();
  EXPECT_TRUE(Eventually([&] { return Descendants(getpid()).size() > stopped; })) << root;
  EXPECT_TRUE(EndDescendants(Duration(0)).ok());
}

TEST_F(ProcessesTest, WhoStoodBeforeStandsAfterwards) {
  const pid_t root =
      Start("sleep 300 & kill -STOP $!; echo $! > stood; setsid sleep 300 & echo $! > left; wait");
  const pid_t stood = ReadPid("stood"), left = ReadPid("left");
  EXPECT_TRUE(Eventually([&] { return Stands(stood); }));
  Stopper stopper;
  stopper.Stop(root);
  EXPECT_TRUE(Eventually([&] { return Stands(root) && Stands(left); }));
  stopper.Continue();
  EXPECT_TRUE(Eventually([&] { return !Stands(root) && !Stands(left); }));
  EXPECT_TRUE(Stands(stood));
  EXPECT_TRUE(stopper.empty());
  EXPECT_TRUE(EndDescendants(Duration(0)).ok());
}

TEST_F(ProcessesTest, TheyGoOnForAsLongAsTheyMayAndTheRestLater) {
  std::set<pid_t> both = {Start("exec sleep 300"), Start("exec sleep 300")};
  Stopper stopper;
  EXPECT_TRUE(stopper.Stop(getpid()));
  EXPECT_FALSE(stopper.Stop(getpid())) << "all stand";
  const auto standing = [&] {
    return std::count_if(both.begin(), both.end(), [](pid_t pid) {
      Process process;
      return ReadProcess(pid, &process) && process.stopped;
    });
  };
  stopper.Continue([] { return false; });
  EXPECT_EQ(standing(), 2);
  int times = 0;
  stopper.Continue([&] { return times++ == 0; });
  EXPECT_TRUE(Eventually([&] { return standing() == 1; }));
  EXPECT_FALSE(stopper.empty());
  stopper.Continue();
  EXPECT_TRUE(Eventually([&] { return standing() == 0; }));
  EXPECT_TRUE(stopper.empty());
}

TEST_F(ProcessesTest, OneOfThemIsExceptedButNotWhatIsBelowIt) {
  const pid_t root = Start("sleep 300 & echo $! > below; wait");
  const pid_t below = ReadPid("below");
  Stopper stopper;
  const std::array except = {root};
  stopper.Stop(getpid(), except);
  EXPECT_TRUE(Eventually([&] { return Stands(below); }));
  EXPECT_FALSE(Stands(root));
  EXPECT_TRUE(EndDescendants(Duration(0)).ok());
}

TEST_F(ProcessesTest, WhoHasAnAlarmGoesOnAtItsTimeThoughItStands) {
  const pid_t child = fork();
  if (child == 0) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, nullptr);
    Alarm alarm;
    const Duration start = RealClock().Steady();
    alarm.Set(start + std::chrono::seconds(1));
    // Again before it has set its next time, which takes back what woke it.
    raise(SIGSTOP);
    raise(SIGSTOP);
    alarm.Set(RealClock().Steady() + std::chrono::seconds(1));
    raise(SIGSTOP);
    _exit(RealClock().Steady() - start >= std::chrono::seconds(2) ? 7 : 8);
  }
  int status = 0;
  EXPECT_TRUE(Eventually([&] { return waitpid(child, &status, WNOHANG) == child; }));
  EXPECT_EQ(DescribeWaitStatus(status), "exit code 7");
}

TEST_F(ProcessesTest, NoProgramBeginsAfterItsTime) {
  Spawner spawner;
  char program[] = "/bin/true";
  char* argv[] = {program, nullptr};
  std::atomic<int64_t> until{0};
  SpawnRequest request{.program = program, .argv = argv, .envp = environ, .until_ns = &until};
  const int64_t now = RealClock().Steady().count();
  for (const int64_t time : {int64_t{0}, now + 1'000'000'000'000}) {
    until = time;
    const pid_t pid = spawner.Spawn(request).pid;
    ASSERT_GT(pid, 0);
    EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
  }
  until = now;
  const SpawnOutcome outcome = spawner.Spawn(request);
  EXPECT_EQ(outcome.pid, -1);
  EXPECT_EQ(outcome.step, SpawnStep::kTooLate);
}

TEST_F(ProcessesTest, AProcessEndsWithTheThreadThatStartedIt) {
  pid_t pid = 0;
  std::thread([&] {
    Spawner spawner;
    char program[] = "/bin/sleep", time[] = "300";
    char* argv[] = {program, time, nullptr};
    pid = spawner.Spawn({.program = program, .argv = argv, .envp = environ}).pid;
  }).join();
  ASSERT_GT(pid, 0);
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
}

TEST_F(ProcessesTest, WhatGoesWrongInTheChildIsTold) {
  char program[] = "/no/such/program";
  char* argv[] = {program, nullptr};
  SpawnOutcome outcome = spawner_.Spawn({.program = program, .argv = argv, .envp = environ});
  EXPECT_EQ(outcome.step, SpawnStep::kExec);
  EXPECT_EQ(outcome.error, ENOENT);
  outcome = spawner_.Spawn({.program = program, .argv = argv, .envp = environ, .directory = "/no/such/dir"});
  EXPECT_EQ(outcome.step, SpawnStep::kDirectory);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "no zombie is left";
}

TEST_F(ProcessesTest, MemoryOfAProcessIsSeen) {
  EXPECT_GT(ResidentMemory(getpid()), 100u << 10);
  EXPECT_GT(ProportionalMemory(getpid()), 100u << 10);
  EXPECT_LE(ProportionalMemory(getpid()), ResidentMemory(getpid()) * 2);
  EXPECT_EQ(ResidentMemory(0x7FFFFFFF), 0u);
}

TEST_F(ProcessesTest, MemoryOfATreeHasAllOfManyChildren) {
  const pid_t pid = Start("i=0; while [ $i -lt 1000 ]; do sleep 300 & i=$((i+1)); done; echo > all; wait");
  ASSERT_TRUE(Eventually([&] { return std::filesystem::exists(scratch_.path() + "/all"); }));
  EXPECT_EQ(MemoryOfTree(pid).size(), 1001u);
  kill(-pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

TEST_F(ProcessesTest, MemoryOfATreeIsThatOfItsProcessesOnly) {
  const auto pids = [](pid_t root) {
    std::set<pid_t> all;
    for (const ProcessMemory& process : MemoryOfTree(root)) {
      EXPECT_TRUE(all.insert(process.pid).second) << "seen twice";
      EXPECT_TRUE(process.pid != getpid() || process.resident > 100u << 10);  // small ones may count as 0
    }
    return all;
  };
  char shell[] = "/bin/sh", c[] = "-c", text[] = "sleep 300 & sh -c 'sleep 300 & sleep 300 & wait' & wait";
  char* argv[] = {shell, c, text, nullptr};
  const pid_t pid = spawner_.Spawn({.program = shell, .argv = argv, .envp = environ}).pid;
  ASSERT_GT(pid, 0);
  // Two shells and three that sleep.
  ASSERT_TRUE(Eventually([&] { return pids(pid).size() == 5; }));
  std::set<pid_t> expected = {pid};
  for (const Process& process : Descendants(pid)) expected.insert(process.pid);
  EXPECT_EQ(pids(pid), expected);
  // Children belong to the thread that made them.
  std::set<pid_t> ours;
  std::thread([&] {
    Spawner spawner;
    const pid_t child = spawner.Spawn({.program = shell, .argv = argv, .envp = environ}).pid;
    EXPECT_TRUE(Eventually([&] { return pids(child).size() == 5; }));
    ours = pids(getpid());
    kill(-child, SIGKILL);
    waitpid(child, nullptr, 0);
  }).join();
  EXPECT_EQ(ours.size(), 11u) << "this process and two trees";
  EXPECT_EQ(ours.count(pid), 1u);
  kill(-pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  EXPECT_EQ(MemoryOfTree(pid).front().resident, 0u) << "gone";
}

TEST(WaitStatusTest, SaysWhatHappened) {
  EXPECT_EQ(DescribeWaitStatus(3 << 8), "exit code 3");
  EXPECT_EQ(DescribeWaitStatus(SIGKILL), "signal 9 (Killed)");
}

}  // namespace
}  // namespace harrow::os
