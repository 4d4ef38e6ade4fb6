// Fencing (agent/fence_page.cc): tasks stand from a time on, by their slots, and by the warden where the
// agent hangs.
#include <atomic>
#include <csignal>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ptrace.h>

#include "agent/local_files.h"
#include "live/agent_warden_fixture.h"

namespace harrow::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;

Duration Now() {
  return os::RealClock().Steady();
}

/// Stopped, or a parent that waits for its vfork child, which is stopped before its exec: it does nothing
/// either.
bool Stands(pid_t pid) {
  os::Process process;
  if (!os::ReadProcess(pid, &process)) return false;
  if (process.stopped) return true;
  const std::string at = "/proc/" + std::to_string(pid);
  const Result<std::string> status = os::RealFileSystem().Read(at + "/status");
  if (!status.ok() || status->find("State:\tD") == std::string::npos) return false;
  std::ifstream children(at + "/task/" + std::to_string(pid) + "/children");
  for (pid_t child; children >> child;) {
    if (os::ReadProcess(child, &process) && process.stopped) return true;
  }
  return false;
}

bool Runs(pid_t pid) {
  os::Process process;
  return os::ReadProcess(pid, &process) && !process.stopped;
}

/// A shell's text: a process below the task, in a session of its own, writes its number to NAME.
std::string Below(const std::string& name) {
  return "setsid sh -c 'echo $$ > " + name + ".tmp; mv " + name + ".tmp " + name + "; exec sleep 300' & ";
}

const std::string kTellAndWait =
    "echo $$ > task.tmp; mv task.tmp task; while [ ! -e go ]; do sleep 0.02; done; ";

class FencedTasks : public SlotPoolTest {
 protected:
  pid_t ReadPid(const std::string& name) {
    EXPECT_TRUE(Eventually([&] { return File(name).ends_with('\n'); })) << name;
    return std::stoi("0" + File(name));
  }
  void Touch(const std::string& name) { std::ofstream(scratch_.path() + "/" + name) << "x"; }
};

TEST_F(FencedTasks, StandWholeAndGoOn) {
  const uint32_t task = Push(Shell(Below("below") + kTellAndWait + "exit 3"));
  const pid_t root = ReadPid("task"), below = ReadPid("below");
  EXPECT_TRUE(pool_->RunUntil(Now() + milliseconds(100)));
  EXPECT_TRUE(Eventually([&] { return Stands(root) && Stands(below); }));
  Touch("go");
  // What is sent meanwhile waits, and can be taken back.
  const uint32_t later = Push(Shell("echo > begun"));
  const uint32_t never = Push(Shell("true"));
  EXPECT_THAT(pool_->TakeBack({First(never)}), ElementsAre(First(never)));
  EXPECT_THAT(pool_->TakeSnapshot().queued, ElementsAre(First(later)));
  EXPECT_TRUE(pool_->RunUntil(Now())) << "a time that is over";
  EXPECT_THAT(pool_->TakeSnapshot().queued, ElementsAre(First(later)));
  EXPECT_TRUE(Stands(root));
  EXPECT_FALSE(std::filesystem::exists(scratch_.path() + "/begun"));

  EXPECT_TRUE(pool_->RunUntil(Now() + kGenerous));
  EXPECT_TRUE(Eventually([&] { return Runs(below) || !Alive(below); }));
  EXPECT_EQ(Wait(task).end, End::kExited);
  EXPECT_EQ(Wait(task).code, 3);
  EXPECT_EQ(Wait(later).code, 0);
  kill(below, SIGKILL);  // it left the task
}

/// Stands with the tasks that it serves.
class SilentServer : public RankServer {
 public:
  Result<std::vector<Variables>> Add(const Ranks& ranks, const InVain&) override {
    return std::vector<Variables>(ranks.count);
  }
  std::optional<Seen> Ended(AttemptId, uint32_t, const InVain& in_vain) override {
    asked = true;
    while (!in_vain() && !over) usleep(5'000);
    gave_up = gave_up || in_vain();
    return std::nullopt;
  }
  void Drop(AttemptId) override {}

  std::atomic<bool> asked{false}, gave_up{false}, over{false};
};

TEST_F(FencedTasks, WhatIsKilledAsItStandsWaitsForNoServer) {
  SilentServer server;
  node_.rank_servers.pmix = &server;
  node_.rank_root = node_.tmp_root;
  const uint32_t task =
      Push(Shell("[ $HARROW_RANK = 1 ] || exit 0; echo $$ > one; exec sleep 300", {.cores = 2, .ranks = 2}));
  const pid_t pid = ReadPid("one");
  EXPECT_TRUE(Eventually([&] { return server.asked.load(); }));
  EXPECT_TRUE(pool_->RunUntil(Now()));
  EXPECT_TRUE(Eventually([&] { return Stands(pid); }));
  pool_->EndTasks({First(task)}, End::kLost);
  EXPECT_TRUE(Eventually([&] { return pool_->RunUntil(FencePage::kNoFence); }));
  EXPECT_TRUE(Eventually([&] { return server.gave_up.load(); }));
  server.over = true;
  EXPECT_EQ(Wait(task).end, End::kLost);
}

/// A result that is being copied to the submit directory when the agent is cut off.
class FencedCopies : public FencedTasks {
 protected:
  /// What the attempt comes to; `meanwhile` happens while its result has a temporary name.
  TaskResult RunCopying(const std::function<void()>& meanwhile) {
    auto store = store::Store::Open(scratch_.path() + "/store", {});
    EXPECT_TRUE(store.ok()) << store.status().message();
    LocalFiles files(store->get(), 1,
                     {.arrived = [](AttemptId) {},
                      .failed = [](AttemptId, const std::string&) {},
                      .tell = [](const FileNews&) {},
                      .temporary = [&](const std::string&) { meanwhile(); }});
    node_.files = &files;
    LocalTask task = Shell("echo new > result");
    task.sandbox = true;
    task.outputs = {"result"};
    task.output_files = {FileId(0)};
    task.output_results = {true};
    const TaskResult result = Run(std::move(task));
    Stop();
    return result;
  }
  bool NothingIsLeft() {
    for (const auto& entry : std::filesystem::directory_iterator(scratch_.path())) {
      if (entry.path().filename().string().starts_with(".harrow")) return false;
    }
    return true;
  }
};

TEST_F(FencedCopies, GetNoNameWhileTasksHaveToStand) {
  std::ofstream(scratch_.path() + "/result") << "another attempt's";
  const TaskResult result = RunCopying([this] { pool_->RunUntil(Now()); });
  EXPECT_EQ(result.end, End::kLost) << result.message;
  EXPECT_EQ(File("result"), "another attempt's");
  EXPECT_TRUE(NothingIsLeft());
}

TEST_F(FencedCopies, GetNoNameAfterTasksHadToStand) {
  const TaskResult result = RunCopying([this] {
    pool_->RunUntil(Now());
    usleep(2'000);
    pool_->RunUntil(Now() + kGenerous);
  });
  EXPECT_EQ(result.end, End::kLost) << result.message;
  EXPECT_EQ(File("result"), "");
  EXPECT_TRUE(NothingIsLeft());
}

TEST_F(FencedCopies, GetTheirNamesWhileTheAgentIsAnswered) {
  const TaskResult result = RunCopying([this] { pool_->RunUntil(Now() + kGenerous); });
  EXPECT_EQ(result.end, End::kExited) << result.message;
  EXPECT_EQ(File("result"), "new\n");
  EXPECT_TRUE(NothingIsLeft());
}

/// Of a program that writes checkpoints by itself: it has not left a file alone for as long as it was stopped.
TEST_F(FencedTasks, WhatTheyWereWritingMakesNoCheckpoint) {
  const auto base = std::make_shared<BaseEnvironment>(
      EnvList{{"PATH", getenv("PATH")}},
      BaseEnvironment::Common{.submit_dir = scratch_.path(), .run_dir = scratch_.path(), .node_name = "test", .own_tmp = true});
  LocalTask task = Shell("(cd $HARROW_CHECKPOINT_DIR; echo whole > state.1; sleep 0.1; echo half > state.2); " + kTellAndWait);
  task.checkpoints = "here";
  task.profile = std::make_shared<TaskProfile>(
      ProfileSpec{.checkpoint = {.on = true, .ask = CheckpointSpec::Ask::kNone, .files = {"state.*"}}}, base);
  const uint32_t id = Push(std::move(task));
  const pid_t pid = ReadPid("task");
  EXPECT_TRUE(pool_->RunUntil(Now()));
  EXPECT_TRUE(Eventually([&] { return Stands(pid); }));
  const Duration stood = Now();
  EXPECT_TRUE(Eventually([&] { return Now() - stood > milliseconds(1600); }));
  pool_->EndTasks({First(id)}, End::kLost);
  EXPECT_EQ(Wait(id).end, End::kLost);
  EXPECT_EQ(File("checkpoints/here/1/state.1"), "whole\n");
  EXPECT_FALSE(std::filesystem::exists(scratch_.path() + "/checkpoints/here/1/state.2"));
}

TEST_F(FencedTasks, WhatATaskStoppedItselfStaysSo) {
  const uint32_t task =
      Push(Shell("sleep 300 & kill -STOP $!; echo $! > own; " + kTellAndWait + "kill -KILL $!; exit 3"));
  const pid_t own = ReadPid("own"), root = ReadPid("task");
  EXPECT_TRUE(Eventually([&] { return Stands(own); }));
  pool_->RunUntil(Now());
  EXPECT_TRUE(Eventually([&] { return Stands(root); }));
  pool_->RunUntil(FencePage::kNoFence);
  EXPECT_TRUE(Eventually([&] { return Runs(root); }));
  EXPECT_TRUE(Stands(own));
  Touch("go");
  EXPECT_EQ(Wait(task).code, 3);
}

TEST_F(FencedTasks, TheirTimeLimitWaitsForThem) {
  const Duration limit = seconds(3);  // it has to stand before
  const uint32_t task = Push(Shell(kTellAndWait, {.time_limit = limit}));
  const pid_t root = ReadPid("task");
  const Duration began = Now();
  pool_->RunUntil(began);
  EXPECT_TRUE(Eventually([&] { return Stands(root); }));
  EXPECT_TRUE(Eventually([&] { return Now() > began + limit + milliseconds(500); }));
  EXPECT_TRUE(Stands(root));
  pool_->RunUntil(FencePage::kNoFence);
  const TaskResult result = Wait(task);
  EXPECT_EQ(result.end, End::kTimedOut);
  EXPECT_GE(result.finish - result.start, 2 * limit);
}

// A SIGTERM needs a SIGCONT to arrive, and who has heard it may do anything.
TEST_F(FencedTasks, WhoIsEndedAsItStandsIsKilledBeforeTheOthersGoOn) {
  node_.kill_wait_ns = Duration(kGenerous).count();
  const uint32_t ended = Push(Shell("trap 'echo > trapped' TERM CONT; " + Below("below") + kTellAndWait));
  const pid_t root = ReadPid("task"), below = ReadPid("below");
  pool_->RunUntil(Now());
  EXPECT_TRUE(Eventually([&] { return Stands(root) && Stands(below); }));
  pool_->EndTasks({First(ended)}, End::kCancelled);
  EXPECT_TRUE(Eventually([&] { return pool_->RunUntil(FencePage::kNoFence); }));
  EXPECT_EQ(Wait(ended).end, End::kCancelled);
  EXPECT_EQ(Wait(ended).code, SIGKILL);
  EXPECT_TRUE(Eventually([&] { return !Alive(below); }));
  EXPECT_FALSE(std::filesystem::exists(scratch_.path() + "/trapped"));
  EXPECT_EQ(Run(Words("true")).code, 0) << "and the slot goes on";
}

TEST_F(FencedTasks, WhoHasHadItsTermIsKilledAtTheTime) {
  node_.kill_wait_ns = Duration(kGenerous).count();
  const uint32_t task = Push(Shell("trap 'echo > trapped' TERM; " + kTellAndWait));
  ReadPid("task");
  pool_->EndTasks({First(task)}, End::kCancelled);
  EXPECT_TRUE(Eventually([&] { return File("trapped") == "\n"; }));
  pool_->RunUntil(Now());
  EXPECT_EQ(Wait(task).end, End::kCancelled);
  EXPECT_EQ(Wait(task).code, SIGKILL);
}

TEST_F(FencedTasks, ShortTasksOneAfterTheOtherLoseNoneAndRepeatNone) {
  for (int i = 0; i < 300; ++i) Push(Shell("echo $HARROW_TASK_ID >> began"));
  for (int round = 0; round < 200; ++round) {
    pool_->RunUntil(Now() + milliseconds(round % 3));
    usleep(1000);
  }
  pool_->RunUntil(FencePage::kNoFence);
  std::set<std::string> seen;
  for (uint32_t i = 0; i < 300; ++i) EXPECT_EQ(Wait(i).code, 0);
  std::istringstream began(File("began"));
  size_t lines = 0;
  for (std::string line; std::getline(began, line); ++lines) seen.insert(line);
  EXPECT_EQ(lines, 300u);
  EXPECT_EQ(seen.size(), 300u);
}

constexpr Duration kFence = seconds(4);  // tasks stand after half of it

class FencedAgent : public WardenTest {
 protected:
  FencedAgent() { Serve(1); }

  void Serve(uint64_t epoch, std::set<uint32_t> cancelled = {}) {
    server_.reset();
    server_.emplace(scratch_.path(), epoch,
                    HandServer::Greeting{.fence = kFence, .cancelled = std::move(cancelled)});
  }
  void Touch(const std::string& name) { std::ofstream(scratch_.path() + "/" + name) << "x"; }
  bool Exists(const std::string& name) { return std::filesystem::exists(scratch_.path() + "/" + name); }
  /// Starts a task, with others below it; its end is exit code 3, once there is a file `go`.
  void StartTask(uint32_t id, Duration time_limit = Duration(0)) {
    server_->Start(id, Below("below") + Daemon("daemon") + kTellAndWait + "exit 3", time_limit, "out");
    processes_ = {ReadPid("task"), ReadPid("below")};
    daemon_ = ReadPid("daemon");
    server_->WaitStarted(id);
  }
  /// With a warden of its own, or two; with a task. Returns the agent.
  pid_t BeginAnew(bool alone, Duration time_limit = Duration(0)) {
    for (const char* name : {"task", "below", "daemon", "go"})
      std::filesystem::remove(scratch_.path() + "/" + name);
    Serve(alone ? 2 : 1);
    StartWarden("", alone);
    server_->Hello(1);
    StartTask(1, time_limit);
    return Agent();
  }
  /// From its parent up to the outermost.
  std::vector<pid_t> Wardens(pid_t agent) {
    std::vector<pid_t> wardens;
    for (os::Process process{.pid = agent}; process.pid != warden_;) {
      if (!os::ReadProcess(process.pid, &process) || process.parent <= 1) break;
      process.pid = process.parent;
      wardens.push_back(process.pid);
    }
    return wardens;
  }
  bool AllStand() const { return std::all_of(processes_.begin(), processes_.end(), Stands); }
  void EndsWell(uint32_t id) {
    EXPECT_TRUE(Eventually([&] { return std::all_of(processes_.begin(), processes_.end(), Runs); }));
    EXPECT_TRUE(Eventually([&] { return Runs(daemon_); }));
    Touch("go");
    EXPECT_EQ(server_->Ended(id).end(), pb::Attempt::EXITED);
    EXPECT_EQ(server_->Ended(id).code(), 3);
    server_->ShutDown();
    EXPECT_EQ(WaitForWarden(), 0);
  }

  std::vector<pid_t> processes_;
  pid_t daemon_ = 0;  // below the warden only
};

TEST_F(FencedAgent, ThatHangsHasItsTasksStoppedByItsWarden) {
  const Duration time_limit = seconds(5);
  for (const bool alone : {false, true}) {
    const pid_t agent = BeginAnew(alone, time_limit);
    const Lateness lateness;
    const Duration hung = Now();
    kill(agent, SIGSTOP);
    EXPECT_TRUE(Eventually([&] { return AllStand() && Stands(daemon_); }));
    EXPECT_LT(Now() - hung, lateness.Within(kFence));
    EXPECT_TRUE(Eventually([&] { return Now() > hung + time_limit + seconds(1); }))
        << "its limit would be over";
    EXPECT_TRUE(AllStand());
    kill(agent, SIGCONT);
    EndsWell(1);
  }
}

TEST_F(FencedAgent, ThatHangsWithItsWardensHasItsTasksStoppedAllTheSame) {
  for (const bool alone : {false, true}) {
    const pid_t agent = BeginAnew(alone);
    const Lateness lateness;
    const Duration hung = Now();
    for (pid_t pid : Wardens(agent)) kill(pid, SIGSTOP);
    kill(agent, SIGSTOP);
    EXPECT_TRUE(Eventually([&] { return AllStand() && Stands(daemon_); }));
    EXPECT_LT(Now() - hung, lateness.Within(kFence));
    EXPECT_TRUE(Stands(agent));
    kill(agent, SIGCONT);
    EndsWell(1);
  }
}

// The agent's tasks die with it, but not what has left them.
TEST_F(FencedAgent, ThatDiesWhileItsWardenStandsLeavesNobodyWhoRunsOn) {
  for (const bool alone : {false, true}) {
    const pid_t agent = BeginAnew(alone);
    const std::vector<pid_t> wardens = Wardens(agent);
    ASSERT_EQ(wardens.size(), alone ? 2u : 1u);
    const Lateness lateness;
    const Duration hung = Now();
    kill(warden_, SIGSTOP);
    kill(alone ? wardens.front() : agent, SIGKILL);
    EXPECT_TRUE(Eventually([&] { return !Alive(daemon_); }));
    EXPECT_LT(Now() - hung, lateness.Within(kFence));
    server_->Hello(2);
    server_->ShutDown();
    EXPECT_EQ(WaitForWarden(), 0);
  }
}

// Who runs its next attempt knows then that what it made until it was stopped is its own.
TEST_F(FencedAgent, ThatHangsIsKnownToHaveHadTasksUntilTheyWereStopped) {
  StartWarden();
  server_->Hello(1);
  StartTask(1);
  const std::string record =
      scratch_.path() + "/0/output/" + std::to_string(server_->Hello(1).hello().output_file()) + ".made";
  const pid_t agent = Agent();
  for (int stand = 0; stand < 2; ++stand) {
    EXPECT_TRUE(Eventually([&] { return std::all_of(processes_.begin(), processes_.end(), Runs); }));
    // On a machine that is late they may stand before: then that was told when they began to.
    const auto ran = std::filesystem::file_time_type::clock::now();
    const bool stood = AllStand();
    kill(agent, SIGSTOP);
    EXPECT_TRUE(Eventually([&] { return AllStand(); }));
    EXPECT_TRUE(stood ||
                Eventually([&] { return std::filesystem::last_write_time(record) > ran + kFence / 8; }))
        << "they ran for a good part of half a fence since";
    kill(agent, SIGCONT);
  }
  EndsWell(1);
}

TEST_F(FencedAgent, WithoutAnAnswerStopsItsTasksUntilOneComes) {
  StartWarden("", true);  // of whose two wardens the outer one leaves it alone
  server_->Hello(1);
  StartTask(1);
  const Lateness lateness;
  const Duration silent = Now();
  server_->SetSilent(true);
  // The slots do it themselves, but for what has left the task.
  EXPECT_TRUE(Eventually([&] { return AllStand() && Stands(daemon_); }));
  EXPECT_LT(Now() - silent, lateness.Within(kFence));
  server_->Start(2, "echo > begun");
  // Somebody who does not know lets it go on, as Slurm does. It goes on with the call, and may stand again at
  // once.
  kill(daemon_, SIGCONT);
  EXPECT_TRUE(Eventually([&] { return Stands(daemon_); }));
  EXPECT_FALSE(Exists("begun"));
  server_->SetSilent(false);
  EXPECT_EQ(server_->Ended(2).code(), 0);
  EXPECT_EQ(server_->hellos(), 1u) << "on the connection that it had";
  EndsWell(1);
}

// As where a run is suspended as soon as it has been let go on: its warden wakes again before it does.
TEST_F(FencedAgent, ThatStandsHasNobodyGoOnBeforeIt) {
  StartWarden();
  server_->Hello(1);
  StartTask(1);
  const pid_t agent = Agent();
  server_->SetSilent(true);
  EXPECT_TRUE(Eventually([&] { return AllStand() && Stands(daemon_); }));
  // No SIGCONT wakes who is traced, and what it is sent meanwhile waits.
  ASSERT_EQ(ptrace(PTRACE_SEIZE, warden_, nullptr, nullptr), 0);
  ASSERT_EQ(ptrace(PTRACE_INTERRUPT, warden_, nullptr, nullptr), 0);
  int status = 0;
  ASSERT_EQ(waitpid(warden_, &status, __WALL), warden_);
  server_->SetSilent(false);
  EXPECT_TRUE(Eventually([&] { return std::all_of(processes_.begin(), processes_.end(), Runs); }));
  kill(agent, SIGSTOP);
  EXPECT_TRUE(Eventually([&] { return Stands(agent); }));
  const auto waits = [&] {
    const Result<std::string> text = os::RealFileSystem().Read("/proc/" + std::to_string(warden_) + "/status");
    const std::string name = "\nvoluntary_ctxt_switches:\t";
    return text.ok() && text->find(name) != std::string::npos ? std::stol(text->substr(text->find(name) + name.size()))
                                                              : 0;
  };
  const long waited = waits();
  ASSERT_EQ(ptrace(PTRACE_DETACH, warden_, nullptr, nullptr), 0);
  EXPECT_TRUE(Eventually([&] { return waits() > waited + 1; })) << "it looks again and again";
  EXPECT_TRUE(Stands(daemon_));
  kill(agent, SIGCONT);
  EndsWell(1);
}

TEST_F(FencedAgent, ThatWasCutOffEndsWhatTheWelcomeCancelsAndGoesOnWithTheRest) {
  StartWarden();
  server_->Hello(1);
  server_->Start(2, "trap 'echo > trapped' TERM CONT; echo $$ > other; while :; do sleep 0.02; done");
  const pid_t other = ReadPid("other");
  StartTask(1);
  server_->WaitStarted(2);
  server_.reset();
  EXPECT_TRUE(Eventually([&] { return AllStand() && Stands(other); }));
  Serve(2, {2});
  server_->Hello(1);
  EXPECT_EQ(server_->Ended(2).end(), pb::Attempt::CANCELLED);
  EXPECT_EQ(server_->Ended(2).code(), SIGKILL);
  EXPECT_FALSE(Exists("trapped"));
  EndsWell(1);
}

TEST_F(FencedAgent, ThatIsNotWantedKillsItsTasksAndDialsNoMore) {
  StartWarden();
  server_->Hello(1);
  server_->Start(2, "trap 'echo > trapped' TERM; echo $$ > other; while :; do sleep 0.02; done");
  const pid_t other = ReadPid("other");
  server_->WaitStarted(2);
  server_->ShutDown(true);
  EXPECT_EQ(server_->Ended(2).end(), pb::Attempt::INTERRUPTED) << "told on the connection that it has";
  const int status = WaitForWarden();
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 3);
  EXPECT_NE(kill(other, 0), 0);
  EXPECT_FALSE(Exists("trapped"));
  EXPECT_EQ(server_->hellos(), 1u);
}

TEST_F(FencedAgent, ThatLeavesAsItsTasksStandLetsNoneOfThemGoOn) {
  StartWarden();
  server_->Hello(1);
  server_->Start(2, "trap 'echo > trapped' TERM CONT; echo $$ > other; while :; do sleep 0.02; done");
  const pid_t other = ReadPid("other");
  server_->WaitStarted(2);
  server_.reset();
  EXPECT_TRUE(Eventually([&] { return Stands(other); }));
  kill(warden_, SIGTERM);
  EXPECT_EQ(WaitForWarden(), 0);
  EXPECT_NE(kill(other, 0), 0);
  EXPECT_FALSE(Exists("trapped"));
}

TEST_F(FencedAgent, ThatDiesAsItsTasksStandLetsNoneOfThemGoOn) {
  StartWarden();
  server_->Hello(1);
  server_->Start(2,
                 "setsid sh -c 'trap \"echo > trapped\" TERM CONT; echo $$ > other; while :; do sleep 0.02; "
                 "done' >/dev/null 2>&1 & wait");
  const pid_t other = ReadPid("other");
  server_->WaitStarted(2);
  const pid_t agent = Agent();
  kill(agent, SIGSTOP);
  EXPECT_TRUE(Eventually([&] { return Stands(other); }));
  kill(agent, SIGKILL);
  EXPECT_TRUE(Eventually([&] { return !Alive(other); }));
  kill(warden_, SIGTERM);
  WaitForWarden();
  EXPECT_FALSE(Exists("trapped"));
}

// As after Ctrl-Z, when who stopped them has been killed: nobody else would ever let the agent go on.
TEST_F(FencedAgent, ThatStandsItselfIsWokenToLeave) {
  StartWarden();
  server_->Hello(1);
  server_->Start(2, "trap 'echo > trapped' TERM CONT; echo $$ > other; while :; do sleep 0.02; done");
  const pid_t other = ReadPid("other");
  server_->WaitStarted(2);
  kill(Agent(), SIGSTOP);
  EXPECT_TRUE(Eventually([&] { return Stands(other); }));
  kill(warden_, SIGTERM);
  WaitForWarden();
  EXPECT_NE(kill(other, 0), 0);
  EXPECT_FALSE(Exists("trapped"));
}

}  // namespace
}  // namespace harrow::agent
