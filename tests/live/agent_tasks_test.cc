// What happens to tasks: real processes on the slots of a node.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <utility>

#include "live/agent_fixture.h"

namespace harrow::agent {
namespace {

using output::Stream;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

using AgentTasks = SlotPoolTest;

TEST_F(AgentTasks, ExitCodesAndOutput) {
  TaskResult result = Run(Shell("echo out; echo err >&2; exit 3"));
  EXPECT_EQ(result.end, End::kExited);
  EXPECT_EQ(result.code, 3);
  EXPECT_EQ(Output(result), "out\n");
  EXPECT_EQ(Output(result, Stream::kStderr), "err\n");
  EXPECT_EQ(result.stdout_bytes, 4u);
  EXPECT_EQ(result.stderr_bytes, 4u);
  EXPECT_FALSE(result.truncated);
  EXPECT_NE(result.max_rss_kib, 0);
  EXPECT_GE(result.finish, result.start);
  result = Run(Words("true"));
  EXPECT_EQ(result.end, End::kExited);
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.output_offset, 0u);
}

TEST_F(AgentTasks, ManyShortTasksInOrderEachOnce) {
  SetSlots(1);
  std::vector<LocalTask> tasks;
  for (int i = 0; i < 500; ++i) tasks.push_back(Words("echo " + std::to_string(i)));
  pool_->Push(std::move(tasks));
  for (uint32_t i = 0; i < 500; ++i) EXPECT_EQ(Output(Wait(i)), std::to_string(i) + "\n");
  std::vector<uint32_t> expected(500);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(order_, expected);
}

TEST_F(AgentTasks, ShortAndLongTasksTakeTurns) {
  // A slot that waits blindly after short tasks must notice that this one is long, or says much.
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 5; ++i) EXPECT_EQ(Run(Words("true")).code, 0);
    EXPECT_EQ(Run(Shell("sleep 0.05; exit 4")).code, 4);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(Run(Words("true")).code, 0);
    const TaskResult result = Run(Shell("head -c 300000 /dev/zero"));
    EXPECT_EQ(result.code, 0);
    EXPECT_EQ(result.stdout_bytes, 300'000u);
  }
}

TEST_F(AgentTasks, SignalsAreTold) {
  const TaskResult result = Run(Shell("kill -SEGV $$"));
  EXPECT_EQ(result.end, End::kSignaled);
  EXPECT_EQ(result.code, SIGSEGV);
}

TEST_F(AgentTasks, SignalHandlingIsTheDefault) {
  const TaskResult result = Run(Shell("grep -E '^Sig(Blk|Ign)' /proc/self/status; trap '' PIPE; exit 0"));
  EXPECT_EQ(Output(result), "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

TEST_F(AgentTasks, OnlyTheStandardDescriptorsAreOpen) {
  // ls itself opens the directory.
  EXPECT_EQ(Output(Run(Words("ls /proc/self/fd"))), "0\n1\n2\n3\n");
  EXPECT_EQ(Output(Run(Words("readlink /proc/self/fd/0"))), "/dev/null\n");
}

TEST_F(AgentTasks, EachLeadsAGroupAndHasNoTerminal) {
  const TaskResult result =
      Run(Shell("test $(ps -o pgid= -p $$) = $$ && echo leader; (: >/dev/tty) 2>/dev/null || echo none"));
  EXPECT_EQ(Output(result), "leader\nnone\n");
}

TEST_F(AgentTasks, WhatCannotBeStartedSaysWhy) {
  TaskResult result = Run(Words("no-such-program-here x"));
  EXPECT_EQ(result.end, End::kNotStarted);
  EXPECT_EQ(result.code, 127);
  EXPECT_EQ(result.message, "no-such-program-here: command not found");
  result = Run(Words("./missing"));
  EXPECT_EQ(result.message, "./missing: no such file");

  std::ofstream(scratch_.path() + "/plain") << "echo hello\n";
  result = Run(Words("./plain"));
  EXPECT_EQ(result.end, End::kNotStarted);
  EXPECT_EQ(result.code, 126);
  EXPECT_THAT(result.message, HasSubstr("permission denied"));

  std::ofstream(scratch_.path() + "/lost") << "#!/no/such/interpreter\n";
  chmod((scratch_.path() + "/lost").c_str(), 0755);
  EXPECT_THAT(Run(Words("./lost")).message, HasSubstr("interpreter"));

  result = Run(Words("true", {.cwd = "no/such/dir"}));
  EXPECT_EQ(result.end, End::kNotStarted);
  EXPECT_THAT(result.message, HasSubstr("no/such/dir"));

  result = Run(Words("true", {.cores = 3}));
  EXPECT_EQ(result.end, End::kNotStarted);
  EXPECT_THAT(result.message, HasSubstr("3 cores"));

  result = Run(Words("echo " + std::string(3 << 20, 'x')));
  EXPECT_EQ(result.end, End::kNotStarted);
  EXPECT_THAT(result.message, HasSubstr("longer than the system allows"));
  EXPECT_EQ(Run(Words("true")).code, 0) << "and the slot goes on";
}

TEST_F(AgentTasks, AScriptWithoutFirstLineIsGivenToTheShell) {
  std::ofstream(scratch_.path() + "/script") << "echo $0 $1\n";
  chmod((scratch_.path() + "/script").c_str(), 0755);
  EXPECT_EQ(Output(Run(Words("./script arg"))), "./script arg\n");
}

TEST_F(AgentTasks, AProgramThatMovesIsFoundAgain) {
  const std::string a = scratch_.path() + "/a", b = scratch_.path() + "/b";
  for (const std::string& dir : {a, b}) {
    std::filesystem::create_directory(dir);
    std::filesystem::copy("/bin/echo", dir + "/tool");
  }
  const ProfileSpec spec{.env = {{"PATH", a + ":" + b + ":/usr/bin:/bin"}}};
  SetSlots(1);
  EXPECT_EQ(Output(Run(Words("tool 1", spec))), "1\n");
  std::filesystem::remove(a + "/tool");
  EXPECT_EQ(Output(Run(Words("tool 2", spec))), "2\n");
}

TEST_F(AgentTasks, EnvironmentAndDirectory) {
  std::filesystem::create_directory(scratch_.path() + "/deep");
  LocalTask task =
      Shell("echo $HARROW_TASK_ID $HARROW_TASK_NAME $HARROW_ATTEMPT $HARROW_NODE $OMP_NUM_THREADS $MINE; pwd",
            {.cores = 2, .cwd = "deep", .env = {{"MINE", "yes"}}});
  task.name = "job-1";
  task.attempt = 3;
  EXPECT_EQ(Output(Run(std::move(task))), "1 job-1 3 test 2 yes\n" + scratch_.path() + "/deep\n");
}

TEST_F(AgentTasks, TmpdirIsEmptyForEachTask) {
  SetSlots(1);
  const std::string leave =
      "ls -A $TMPDIR | wc -l; mkdir $TMPDIR/d; touch $TMPDIR/d/x $TMPDIR/.y; chmod 500 $TMPDIR/d";
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Output(Run(Shell(leave))), "0\n") << "round " << i;
  EXPECT_EQ(Run(Shell("rmdir $TMPDIR")).code, 0);
  EXPECT_EQ(Output(Run(Shell("test -d $TMPDIR && echo there"))), "there\n");
}

// What a task puts in place of its TMPDIR is not what is emptied, and what it moved away is its own.
TEST_F(AgentTasks, ALinkInPlaceOfTmpdirIsNotFollowed) {
  SetSlots(1);
  std::filesystem::create_directory(scratch_.path() + "/home");
  for (const std::string away : {"rmdir $TMPDIR", "touch $TMPDIR/result && mv $TMPDIR results"}) {
    std::ofstream(scratch_.path() + "/home/precious") << "x";
    EXPECT_EQ(Run(Shell(away + " && ln -s $PWD/home $TMPDIR")).code, 0);
    EXPECT_EQ(Run(Shell("test ! -L $TMPDIR && test -d $TMPDIR && test -z \"$(ls -A $TMPDIR)\"")).code, 0)
        << away;
    EXPECT_EQ(Run(Shell("touch $TMPDIR/x")).code, 0);
    EXPECT_EQ(File("home/precious"), "x") << away;
  }
  EXPECT_TRUE(std::filesystem::exists(scratch_.path() + "/results/result"));
}

TEST_F(AgentTasks, FilesInPlaceOfPipes) {
  std::ofstream(scratch_.path() + "/in") << "given";
  TaskResult result =
      Run(Shell("cat; echo err >&2", {.stdin_path = "in", .stdout_path = "o-%a", .stderr_path = "e-%a"}));
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(File("o-1"), "given");
  EXPECT_EQ(File("e-1"), "err\n");
  EXPECT_EQ(result.output_offset, 0u);
  result = Run(Shell("echo a; echo b >&2; echo c", {.stdout_path = "both", .stderr_path = "both"}));
  EXPECT_EQ(File("both"), "a\nb\nc\n");
  result = Run(Words("cat", {.stdin_path = "missing"}));
  EXPECT_EQ(result.end, End::kNotStarted);
  EXPECT_THAT(result.message, HasSubstr("missing"));
}

TEST_F(AgentTasks, MuchOutputComesWhole) {
  const TaskResult result = Run(Shell("seq 1 400000; seq 1 100000 >&2"));
  EXPECT_EQ(result.code, 0);
  std::string expected;
  for (int i = 1; i <= 400'000; ++i) expected += std::to_string(i) + "\n";
  EXPECT_TRUE(Output(result) == expected);
  EXPECT_EQ(result.stderr_bytes, 588'895u);
}

TEST_F(AgentTasks, OutputIsCutAtTheLimit) {
  node_.output_limit = 1000;
  const TaskResult result = Run(Shell("head -c 5000 /dev/zero; printf abc >&2; exit 6"));
  EXPECT_EQ(result.code, 6) << "the task does not notice";
  EXPECT_TRUE(result.truncated);
  EXPECT_EQ(result.stdout_bytes, 1000u);
  EXPECT_EQ(Output(result), std::string(1000, '\0'));
  EXPECT_EQ(Output(result, Stream::kStderr), "abc");
}

// As sbatch --signal has it: the script's shell itself, or what srun has started from it.
TEST_F(AgentTasks, WhoseTimeLimitIsNearIsWarnedThen) {
  const Duration limit = kGenerous;
  ProfileSpec spec{.time_limit = limit, .warn_signal = SIGUSR1, .warn_before = limit - seconds(2), .warn_alone = true};
  const std::string waits = "trap 'exit 7' USR1; while :; do sleep 0.05; done";
  TaskResult result = Run(Shell(waits, spec));
  EXPECT_EQ(result.end, End::kExited);
  EXPECT_EQ(result.code, 7);
  EXPECT_GE(result.finish - result.start, seconds(2));
  spec.warn_alone = false;
  std::filesystem::create_symlink("/bin/sh", scratch_.path() + "/srun");
  result = Run(Shell("./srun -c \"" + waits + "\" & wait $!; exit $(($? + 1))", spec));
  EXPECT_EQ(result.end, End::kExited);
  EXPECT_EQ(result.code, 8);
  EXPECT_LT(result.finish - result.start, limit);
}

TEST_F(AgentTasks, TheTimeLimitEndsTheWholeGroup) {
  // Long enough for a shell to say what it has to, on a machine that has much else to do.
  const Duration limit = seconds(2);
  // Another one that takes much longer than the limit tells when that was, however slow the machine is.
  const uint32_t longer = Push(Shell("sleep 9"));
  WaitStarted(longer);
  const TaskResult first = Run(Shell("sleep 300 & echo $!; wait", {.time_limit = limit}));
  EXPECT_EQ(first.end, End::kTimedOut);
  EXPECT_GE(first.finish - first.start, limit);
  const std::string told = Output(first);
  ASSERT_TRUE(told.ends_with('\n')) << told;
  const pid_t below = std::stoi(told);
  EXPECT_TRUE(Eventually([&] { return !Alive(below); }));

  TaskResult result = Run(Shell("trap '' TERM; echo $$; while :; do sleep 0.1; done", {.time_limit = limit}));
  EXPECT_EQ(result.end, End::kTimedOut) << "one that ignores TERM is killed";
  EXPECT_EQ(result.code, SIGKILL);

  node_.kill_wait_ns = Duration(kGenerous).count();
  result = Run(Shell("trap 'echo saved; exit 9' TERM; while :; do sleep 0.05; done", {.time_limit = limit}));
  EXPECT_EQ(result.end, End::kTimedOut);
  EXPECT_EQ(result.code, 9);
  EXPECT_EQ(Output(result), "saved\n");
  EXPECT_LT(first.finish, Wait(longer).finish);
}

TEST_F(AgentTasks, WhoExitsWithZeroAfterATermHasFinished) {
  const std::string finishes = "trap 'echo done; exit 0' TERM; echo > ready; while :; do sleep 0.02; done";
  node_.kill_wait_ns = Duration(kGenerous).count();
  TaskResult result = Run(Shell(finishes, {.time_limit = seconds(2)}));
  EXPECT_EQ(result.end, End::kExited);
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(Output(result), "done\n");
  for (const End reason : {End::kCancelled, End::kInterrupted}) {
    std::filesystem::remove(scratch_.path() + "/ready");
    const uint32_t task = Push(Shell(finishes));
    EXPECT_TRUE(Eventually([&] { return File("ready") == "\n"; }));
    pool_->EndTasks({First(task)}, reason);
    EXPECT_EQ(Wait(task).end, End::kExited);
    EXPECT_EQ(Wait(task).code, 0);
  }
}

TEST_F(AgentTasks, WhoExitsWithZeroAfterATermAndLacksAnOutputWasEnded) {
  node_.made.Set(scratch_.path() + "/1.made", "flow");
  node_.kill_wait_ns = Duration(kGenerous).count();
  for (const End reason : {End::kInterrupted, End::kCancelled, End::kTimedOut, End::kLost}) {
    std::filesystem::remove(scratch_.path() + "/ready");
    LocalTask checkpoints =
        Shell("trap 'echo > checkpoint; exit 0' TERM; echo > ready; while :; do sleep 0.02; done");
    checkpoints.outputs = {"final"};
    const uint32_t task = Push(checkpoints);
    EXPECT_TRUE(Eventually([&] { return File("ready") == "\n"; }));
    pool_->EndTasks({First(task)}, reason);
    const TaskResult result = Wait(task);
    EXPECT_EQ(result.end, reason);
    EXPECT_EQ(result.message, "");
    EXPECT_TRUE(result.made.has_value()) << "what it made is removed before the next attempt";
  }
}

/// Whether a thread of this process waits in openat().
bool WaitsInOpen() {
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    long call = -1;
    if (std::ifstream(thread.path() / "syscall") >> call && call == SYS_openat) return true;
  }
  return false;
}

// Whoever opens a FIFO waits until somebody else does.
TEST_F(AgentTasks, WhoWaitsForAFifoCanBeEndedAndIsNotStartedThen) {
  const std::string fifo = scratch_.path() + "/fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(Run(Words("true")).code, 0);  // a short one before: its end would be waited for blindly
  const uint32_t task = Push(Shell("echo > begun", {.stdin_path = fifo}));
  EXPECT_TRUE(Eventually(WaitsInOpen));
  pool_->RunUntil(os::RealClock().Steady());
  pool_->EndTasks({First(task)}, End::kCancelled);
  EXPECT_TRUE(Eventually([&] { return pool_->RunUntil(FencePage::kNoFence); })) << "the others go on";
  EXPECT_EQ(Wait(task).end, End::kCancelled);
  EXPECT_EQ(File("begun"), "");
  // And whoever ends all of them waits for none.
  const uint32_t last = Push(Shell("echo > begun", {.stdout_path = fifo}));
  EXPECT_TRUE(Eventually(WaitsInOpen));
  Stop();
  EXPECT_EQ(Wait(last).end, End::kInterrupted);
}

TEST_F(AgentTasks, CancelledTasksEnd) {
  const uint32_t running = Push(Shell("sleep 300"));
  WaitStarted(running);
  Push(Shell("sleep 300"));
  const uint32_t queued = Push(Words("true"));
  pool_->EndTasks({First(running), First(queued)}, End::kCancelled);
  EXPECT_EQ(Wait(running).end, End::kCancelled);
  EXPECT_EQ(Wait(queued).end, End::kCancelled);
  EXPECT_EQ(Run(Words("true")).end, End::kExited);
  pool_->Close(End::kInterrupted);
  EXPECT_EQ(Wait(queued - 1).end, End::kInterrupted);
  EXPECT_EQ(Run(Words("true")).end, End::kInterrupted) << "closed";
}

TEST_F(AgentTasks, WhoIsAskedForACheckpointEndsWithIt) {
  std::filesystem::create_directories(scratch_.path() + "/run");
  const auto base = std::make_shared<BaseEnvironment>(
      EnvList{{"PATH", getenv("PATH")}},
      BaseEnvironment::Common{.submit_dir = scratch_.path(), .run_dir = scratch_.path() + "/run", .node_name = "test", .own_tmp = true});
  LocalTask task = Shell("trap 'echo state > $HARROW_CHECKPOINT_DIR/state; exit 9' USR1; echo > ready; while :; do sleep 0.02; done");
  task.checkpoints = "t";
  task.profile =
      std::make_shared<TaskProfile>(ProfileSpec{.checkpoint = {.on = true, .signal = SIGUSR1, .status = 9, .time = kGenerous}}, base);
  const uint32_t id = Push(std::move(task));
  EXPECT_TRUE(Eventually([&] { return File("ready") == "\n"; }));
  pool_->AskForCheckpoints({First(id)});
  EXPECT_EQ(Wait(id).end, End::kCheckpointed);
}

TEST_F(AgentTasks, WhoIsAskedToEndAndGoesOnIsWaitedForAsleep) {
  node_.kill_wait_ns = Duration(std::chrono::milliseconds(500)).count();
  const uint32_t task = Push(Shell("trap '' TERM; echo > ready; while :; do sleep 0.02; done"));
  EXPECT_TRUE(Eventually([&] { return File("ready") == "\n"; }));
  const auto used = [] {  // by this process, which is the agent
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  };
  const Duration before = used();
  const Duration begin = os::RealClock().Steady();
  pool_->EndTasks({First(task)}, End::kCancelled);
  EXPECT_EQ(Wait(task).end, End::kCancelled);
  EXPECT_LT(used() - before, (os::RealClock().Steady() - begin) / 5);
}

// With a session of its own, and its parent gone before it: neither the group nor the tree leads to it any
// more.
TEST_F(AgentTasks, WhoLeftTheGroupEndsWithTheTaskThatIsEnded) {
  const std::string child = "setsid sh -c 'echo $$ > child.tmp; mv child.tmp child; exec sleep 300' & ";
  const auto started = [&] {
    EXPECT_TRUE(Eventually([&] { return File("child").ends_with('\n'); }));
    return std::stoi(File("child"));
  };
  const std::string waits = child + "wait",
                    ignores = "trap '' TERM; " + child + "while :; do sleep 0.05; done",
                    child_ignores = "trap '' TERM; " + child + "trap 'exit 3' TERM; while :; do sleep 0.05; done";
  for (const std::string& text : {waits, ignores, child_ignores}) {
    std::filesystem::remove(scratch_.path() + "/child");
    const uint32_t task = Push(Shell(text));
    const pid_t below = started();
    pool_->EndTasks({First(task)}, End::kCancelled);
    EXPECT_EQ(Wait(task).end, End::kCancelled);
    EXPECT_TRUE(Eventually([&] { return !Alive(below); })) << text;
  }
  std::filesystem::remove(scratch_.path() + "/child");
  EXPECT_EQ(Run(Shell(waits, {.time_limit = seconds(4)})).end, End::kTimedOut);
  EXPECT_TRUE(Eventually([&] { return !Alive(started()); }));
}

TEST_F(AgentTasks, WhoLeftTheGroupIsAskedFirst) {
  const uint32_t task =
      Push(Shell("trap 'wait; exit 4' TERM; setsid sh -c 'trap \"echo asked > asked; exit\" TERM; "
                 "echo > ready; while :; do sleep 0.02; done' & wait"));
  EXPECT_TRUE(Eventually([&] { return File("ready") == "\n"; }));
  node_.kill_wait_ns = Duration(kGenerous).count();
  pool_->EndTasks({First(task)}, End::kCancelled);
  EXPECT_EQ(Wait(task).code, 4);
  EXPECT_EQ(File("asked"), "asked\n");
}

TEST_F(AgentTasks, QueuedTasksCanBeTakenBackRunningOnesNot) {
  SetSlots(1);
  mkfifo((scratch_.path() + "/go").c_str(), 0600);
  const WallTime before = os::RealClock().Now();
  const uint32_t running = Push(Shell("read x < go; exit 2"));
  WaitStarted(running);
  const uint32_t queued = Push(Words("true"));
  const uint32_t other = Push(Words("true"));
  EXPECT_THAT(pool_->TakeBack({First(running), {TaskId(queued), 2}, First(queued)}),
              ElementsAre(First(queued)));
  const TaskHost::Snapshot snapshot = pool_->TakeSnapshot();
  ASSERT_EQ(snapshot.running.size(), 1u);
  EXPECT_EQ(snapshot.running[0].id, running);
  EXPECT_GE(snapshot.running[0].start, before - milliseconds(10));
  EXPECT_LE(snapshot.running[0].start, os::RealClock().Now());
  EXPECT_THAT(snapshot.queued, ElementsAre(First(other)));
  pool_->EndTasks({First(running)}, End::kCancelled);
  EXPECT_EQ(Wait(other).code, 0);
  EXPECT_FALSE(results_.contains(queued));
  EXPECT_TRUE(Eventually([&] { return pool_->Idle(); }));
}

TEST_F(AgentTasks, StartsOfLongTasksAreTold) {
  const uint32_t task = Push(Shell("sleep 300"));
  WaitStarted(task);
  EXPECT_FALSE(results_.contains(task));
  pool_->EndTasks({First(task)}, End::kCancelled);
  Wait(task);
  EXPECT_THAT(started_, ElementsAre(task)) << "once";
}

TEST_F(AgentTasks, StartsOfShortTasksAreNotTold) {
  std::vector<uint32_t> tasks;
  for (int i = 0; i < 50; ++i) tasks.push_back(Push(Words("true", {.memory = 1ull << 30})));  // which are watched
  for (const uint32_t task : tasks) EXPECT_EQ(Wait(task).code, 0);
  EXPECT_LT(started_.size(), tasks.size()) << "on a busy machine some of them take long";
}

TEST_F(AgentTasks, BackgroundProcessesDoNotHoldATaskUp) {
  // It keeps the pipes open; it is in the task's group, so it ends with it.
  TaskResult result = Run(Shell("echo before; sleep 300 & echo $!"));
  EXPECT_EQ(result.code, 0);
  const std::string text = Output(result);
  EXPECT_THAT(text, StartsWith("before\n"));
  const pid_t below = std::stoi(text.substr(7));
  EXPECT_TRUE(Eventually([&] { return !Alive(below); }));

  // Neither does it where the task has left nothing to watch, after some that were as short.
  for (uint32_t short_ones = 0; short_ones < 50; ++short_ones) EXPECT_EQ(Run(Words("true")).code, 0);
  for (uint32_t tries = 0; tries < 20; ++tries) {
    result = Run(Shell("exec >&- 2>&-; sleep 300 & echo $! > below"));
    EXPECT_EQ(result.code, 0);
    EXPECT_TRUE(Eventually([&] { return !Alive(std::stoi(File("below"))); }));
    EXPECT_EQ(Run(Words("true")).code, 0);
  }

  // One that has left the group stays; the slot goes on.
  result = Run(Shell(
      "setsid sh -c 'echo $$; echo > left; exec sleep 300' & while [ ! -e left ]; do sleep 0.02; done"));
  EXPECT_EQ(result.code, 0);
  const pid_t escaped = std::stoi(Output(result));
  EXPECT_TRUE(Alive(escaped));
  kill(escaped, SIGKILL);
}

TEST_F(AgentTasks, LateOutputOfTheGroupIsTakenIn) {
  // It has half a second, which a machine that has much else to do may let pass now and then.
  std::string seen;
  for (int tries = 0; tries < 20 && seen.empty(); ++tries)
    seen = Output(Run(Shell("(sleep 0.1; echo late) & exit 0")));
  EXPECT_EQ(seen, "late\n");
}

TEST_F(AgentTasks, OutputOfALongTaskCanBeFollowed) {
  mkfifo((scratch_.path() + "/go").c_str(), 0600);
  const uint32_t task = Push(Shell("echo early; read x < go"));
  auto reader = std::move(output::Reader::Open(os::RealFileSystem(), scratch_.path())).value();
  std::string seen;
  EXPECT_TRUE(Eventually([&] {
    EXPECT_TRUE(reader->ReadNew([&](output::FileNumber, const output::Piece& piece) { seen += piece.data; }).ok());
    return seen == "early\n";
  }));
  EXPECT_FALSE(results_.contains(task));
  std::ofstream(scratch_.path() + "/go") << "\n";
  EXPECT_EQ(Wait(task).code, 0);
}

TEST_F(AgentTasks, MoreMemoryThanDeclaredEndsATask) {
  const std::string grow = "x=$(head -c 200000000 /dev/zero | tr '\\0' a); sleep 300";
  const TaskResult result = Run(Shell(grow, {.memory = 50u << 20}));
  EXPECT_EQ(result.end, End::kOutOfMemory);
  EXPECT_EQ(Output(Run(Shell("cat /proc/self/oom_score_adj", {.memory = 500u << 20}))), "500\n");
  EXPECT_EQ(Run(Shell("sleep 0.3", {.memory = 500u << 20})).end, End::kExited);
}

TEST_F(AgentTasks, MemoryOfChildrenCountsAsTheTasks) {
  const std::string grow = "x=$(head -c 200000000 /dev/zero | tr \"\\\\0\" a); sleep 300";
  // The task itself, a shell that waits, stays small. The second child has left its group.
  for (const std::string& how : {"sh -c '" + grow + "' & wait", "setsid sh -c '" + grow + "' & wait"})
    EXPECT_EQ(Run(Shell(how, {.memory = 50u << 20, .time_limit = kGenerous})).end, End::kOutOfMemory) << how;
}

TEST_F(AgentTasks, ASecondAttemptBeginsWithoutWhatTheFirstMadeAndWithAllElse) {
  node_.made.Set(scratch_.path() + "/1.made", "flow");
  std::filesystem::create_directories(scratch_.path() + "/old");
  std::ofstream(scratch_.path() + "/old/file") << "x";
  LocalTask first = Shell("mkdir -p made/dir; touch made/dir/file single old/new; exit 1");
  first.id = 70;
  first.outputs = {"old", "made", "single", "never-there"};
  const TaskResult failed = Run(first);
  ASSERT_TRUE(failed.made.has_value());
  EXPECT_THAT(failed.made->found, ElementsAre(0u));
  EXPECT_GE(failed.made->end_ns, failed.made->begin_ns);
  made::Attempts recorded;
  ASSERT_TRUE(made::Read(os::RealFileSystem(), scratch_.path() + "/1.made", "flow", &recorded).ok());
  EXPECT_EQ(recorded.at(70), *failed.made);

  LocalTask second = Shell("test -e old/file && test ! -e made && test ! -e single && printf 12345 > single",
                           {.missing_ok = true});
  second.attempt = 2;
  second.outputs = first.outputs;
  second.sizes_wanted = true;
  second.earlier = failed.made;
  const TaskResult result = Run(std::move(second));
  EXPECT_EQ(result.code, 0);
  EXPECT_FALSE(result.made.has_value()) << "what a success made is a result";
  ASSERT_EQ(result.output_sizes.size(), 4u);
  EXPECT_EQ(result.output_sizes[1], -1);
  EXPECT_EQ(result.output_sizes[2], 5);
}

TEST_F(AgentTasks, ASuccessWithoutItsOutputIsAFailureOfItsOwn) {
  node_.made.Set(scratch_.path() + "/1.made", "flow");
  LocalTask task = Shell("touch there/is/one");
  task.outputs = {"there/is/one", "there/none", "nowhere"};
  const TaskResult failed = Run(task);
  EXPECT_EQ(failed.end, End::kMissingOutput);
  EXPECT_EQ(failed.message, "exited with 0, and did not write its output there/none and 1 more");
  EXPECT_TRUE(failed.made.has_value()) << "what it made is removed before the next attempt";
  LocalTask fails = Shell("exit 3");
  fails.outputs = {"nowhere"};
  EXPECT_EQ(Run(fails).end, End::kExited) << "it said so itself";
  EXPECT_EQ(Run(Shell("true", {.stdout_path = "a/new/one/out"})).end, End::kExited);
  EXPECT_TRUE(std::filesystem::exists(scratch_.path() + "/a/new/one/out"));
}

// Which makes a client of NFS ask for what it believes is not there.
TEST_F(AgentTasks, BeforeAnOutputCountsAsMissingItsDirectoryIsOpened) {
  std::filesystem::create_directories(scratch_.path() + "/sub");
  const int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  ASSERT_GE(inotify_add_watch(watch, (scratch_.path() + "/sub").c_str(), IN_OPEN | IN_ONLYDIR), 0);
  LocalTask task = Words("true");
  task.outputs = {"sub/none"};
  EXPECT_EQ(Run(task).end, End::kMissingOutput);
  inotify_event event{};
  EXPECT_EQ(read(watch, &event, sizeof event), static_cast<ssize_t>(sizeof event));
  EXPECT_EQ(event.mask, IN_OPEN | IN_ISDIR);
  close(watch);
}

TEST_F(AgentTasks, OutputsLieBelowTheSubmitDirectoryWhereverTheTaskRuns) {
  std::filesystem::create_directories(scratch_.path() + "/sub");
  std::ofstream(scratch_.path() + "/sub/out") << "foreign";
  LocalTask task = Shell("printf 123 > ../out", {.cwd = "sub"});
  task.outputs = {"out"};
  task.sizes_wanted = true;
  task.earlier = {.begin_ns = 0, .end_ns = INT64_MAX};
  EXPECT_THAT(Run(std::move(task)).output_sizes, ElementsAre(3));
  EXPECT_EQ(std::filesystem::file_size(scratch_.path() + "/sub/out"), 7u) << "it is nobody's output";
}

TEST_F(AgentTasks, AFileOfStdoutIsAddedToAndAnOutputBegunAnew) {
  const auto content = [&](const std::string& name) {
    std::ifstream file(scratch_.path() + "/" + name);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  std::ofstream(scratch_.path() + "/log") << "before\n";
  Run(Shell("echo one", {.stdout_path = "log"}));
  Run(Shell("echo two", {.stdout_path = "log"}));
  EXPECT_EQ(content("log"), "before\none\ntwo\n");
  for (int attempt = 1; attempt <= 2; ++attempt) {
    LocalTask task = Shell("echo three; echo four >&2", {.stdout_path = "out", .stderr_path = "./out"});
    task.outputs = {"out"};
    Run(std::move(task));
  }
  EXPECT_EQ(content("out"), "three\nfour\n");
}

TEST_F(AgentTasks, WithoutALimitAllOutputIsKept) {
  node_.output_limit = 0;
  const TaskResult result = Run(Shell("head -c 3000000 /dev/zero"));
  EXPECT_EQ(result.stdout_bytes, 3'000'000u);
  EXPECT_FALSE(result.truncated);
}

TEST_F(AgentTasks, TasksAreMeasured) {
  const TaskResult result = Run(Shell("i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"));
  EXPECT_GT(result.user_time + result.system_time, milliseconds(5));
  EXPECT_LE(result.user_time + result.system_time, result.finish - result.start + milliseconds(20));
}

TEST_F(AgentTasks, MemoryIsATasksOwnNotItsAgents) {
  const std::vector<char> much(60 << 20, 1);  // this process is the agent
  EXPECT_LT(Run(Words("true")).max_rss_kib, -(60 << 10));
  EXPECT_LT(Run(Words("true")).max_rss_kib, 0);
  rusage own{};
  getrusage(RUSAGE_SELF, &own);
  const int64_t bytes = own.ru_maxrss * 1024 + (64 << 20);
  const TaskResult large = Run(Shell("x=$(head -c " + std::to_string(bytes) + " /dev/zero | tr '\\0' x)"));
  EXPECT_GT(large.max_rss_kib, own.ru_maxrss);
}

TEST_F(AgentTasks, ATaskIsPinnedToItsCores) {
  cpu_set_t own;
  sched_getaffinity(0, sizeof own, &own);
  if (CPU_COUNT(&own) < 2) GTEST_SKIP() << "one CPU only (needs two CPUs)";
  std::vector<uint32_t> pus;
  for (uint32_t i = 0; pus.size() < 2; ++i) {
    if (CPU_ISSET(i, &own)) pus.push_back(i);
  }
  Stop();
  node_.slots = {{.pus = {pus[0]}, .numa = 0}, {.pus = {pus[1]}, .numa = 0}};
  Restart();
  const std::string show = "grep Cpus_allowed_list /proc/self/status | cut -f2";
  TaskResult result = Run(Shell(show, {.cores = 2}));
  EXPECT_EQ(result.pus, pus);
  const std::string both = pus[1] == pus[0] + 1 ? std::to_string(pus[0]) + "-" + std::to_string(pus[1])
                                                : std::to_string(pus[0]) + "," + std::to_string(pus[1]);
  EXPECT_EQ(Output(result), both + "\n");
  result = Run(Shell(show));
  ASSERT_EQ(result.pus.size(), 1u);
  EXPECT_EQ(Output(result), std::to_string(result.pus[0]) + "\n");
}

TEST_F(AgentTasks, DevicesAreATasksOwn) {
  Stop();
  node_.devices = {{topology::DeviceKind::kNvidia, "3"},
                   {topology::DeviceKind::kAmd, "0"},
                   {topology::DeviceKind::kNvidia, "5"}};
  Restart();
  const std::string show = "echo cuda=$CUDA_VISIBLE_DEVICES rocr=$ROCR_VISIBLE_DEVICES";
  TaskResult result = Run(Shell(show, {.devices = 3}));
  EXPECT_EQ(result.devices, "3,5,0");
  EXPECT_EQ(Output(result), "cuda=3,5 rocr=0\n") << "the devices of one maker under the other's name";
  result = Run(Shell(show));
  EXPECT_EQ(result.devices, "");
  EXPECT_EQ(Output(result), "cuda= rocr=\n");
}

// --- ranks

TEST_F(AgentTasks, ATaskShowsThatItLivesAsLongAsOneOfItsRanksDoes) {
  const std::string record = scratch_.path() + "/0.made";
  node_.made.Set(record, "flow");
  LocalTask of_two =
      Shell("[ $HARROW_RANK = 1 ] || { echo $$ > first; exit 0; }; while [ ! -e go ]; do sleep 0.05; done",
            {.cores = 2, .ranks = 2, .mpi = Mpi::kNone});
  of_two.outputs = {"go"};
  const uint32_t task = Push(std::move(of_two));
  ASSERT_TRUE(Eventually([&] { return File("first").ends_with('\n') && !Alive(std::stoi(File("first"))); }));
  auto last = std::filesystem::last_write_time(record);
  for (int beat = 0; beat < 2; ++beat) {
    EXPECT_TRUE(Eventually([&] { return std::filesystem::last_write_time(record) != last; }));
    last = std::filesystem::last_write_time(record);
  }
  std::ofstream(scratch_.path() + "/go") << "x";
  EXPECT_EQ(Wait(task).end, End::kExited);
}

TEST_F(AgentTasks, TasksEndWithTheirAgent) {
  const uint32_t task = Push(Shell("echo $$ > pid; exec sleep 300"));
  WaitStarted(task);
  ASSERT_TRUE(Eventually([&] { return File("pid").ends_with('\n'); }));
  const pid_t pid = std::stoi(File("pid"));
  Stop();
  EXPECT_FALSE(Alive(pid));
  EXPECT_EQ(results_[task].end, End::kInterrupted);
}

}  // namespace
}  // namespace harrow::agent
