// How a node's slots take tasks in, and whom they ask how one has ended: real processes on them.
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "agent/local_files.h"
#include "agent/local_watch.h"
#include "agent/steps/gang.h"
#include "base/text.h"
#include "live/agent_fixture.h"
#include "support/soft_limit.h"

namespace harrow::agent {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

using AgentSlots = SlotPoolTest;

rlim_t DescriptorLimit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

// --- who is not taken in

TEST_F(AgentSlots, WhatCannotRunHereIsToldWhy) {
  const auto refused = [this](LocalTask task) {
    const TaskResult result = Run(std::move(task));
    EXPECT_EQ(result.attempt, 3u);
    EXPECT_EQ(result.start, result.finish);
    EXPECT_NE(result.start, WallTime());
    return result;
  };
  const auto task = [this](ProfileSpec spec = {}) {
    LocalTask made = Shell("echo > began", std::move(spec));
    made.attempt = 3;
    return made;
  };
  const auto gang = std::make_shared<Gang>();
  gang->nodes = {{.name = "test", .ranks = 1}, {.name = "other", .ranks = 1}};

  for (const bool of_gang : {false, true}) {
    for (const bool writes : {false, true}) {
      LocalTask streams = of_gang ? task({.nodes = 2}) : task({.ranks = 1, .mpi = Mpi::kNone});
      if (of_gang) streams.gang = gang;
      streams.writes_streams = writes;
      if (!writes) streams.sources = {{}};
      const TaskResult result = refused(std::move(streams));
      EXPECT_EQ(result.end, End::kNotStarted);
      EXPECT_THAT(result.message, HasSubstr("have no streams"));
      EXPECT_EQ(result.gang, of_gang ? gang : nullptr);
    }
  }
  LocalTask part = task({.nodes = 2});
  part.gang = gang;
  TaskResult result = refused(part);
  EXPECT_EQ(result.end, End::kNotStarted);
  EXPECT_THAT(result.message, HasSubstr("--files shared"));
  result = refused(task({.nodes = 2}));
  EXPECT_EQ(result.end, End::kNotStarted);
  EXPECT_THAT(result.message, HasSubstr("came to one of them alone"));
  LocalTask sandboxed = task();
  sandboxed.sandbox = true;
  EXPECT_EQ(refused(sandboxed).end, End::kLost) << "it runs elsewhere";
  result = refused(task({.cores = 3}));
  EXPECT_EQ(result.end, End::kNotStarted);
  EXPECT_EQ(result.message, "the task asks for 3 cores, this node has 2");
  result = refused(task({.devices = 1}));
  EXPECT_EQ(result.end, End::kNotStarted);
  EXPECT_EQ(result.message, "the task asks for 1 devices, this node has 0");

  EXPECT_EQ(File("began"), "");
  EXPECT_EQ(Run(task()).code, 0);
  EXPECT_EQ(File("began"), "\n");
}

TEST_F(AgentSlots, DevicesOfATaskAreDividedAmongItsRanks) {
  Stop();
  node_.devices = {{topology::DeviceKind::kNvidia, "3"}, {topology::DeviceKind::kNvidia, "5"}};
  Restart();
  const TaskResult result = Run(Shell("echo $CUDA_VISIBLE_DEVICES > of-$HARROW_RANK",
                                      {.cores = 2, .devices = 2, .ranks = 2, .mpi = Mpi::kNone}));
  EXPECT_EQ(result.end, End::kExited) << result.message;
  EXPECT_THAT((std::set{File("of-0"), File("of-1")}), testing::ElementsAre("3\n", "5\n"));
}

// --- sandboxes

TEST_F(AgentSlots, ARelativeProgramIsTheSandboxsOrElseTheSubmitDirectorys) {
  auto store = store::Store::Open(scratch_.path() + "/store", {});
  ASSERT_TRUE(store.ok()) << store.status().message();
  LocalFiles files(store->get(), 1, {.arrived = [](AttemptId) {}, .failed = [](AttemptId, const std::string&) {}, .tell = [](const FileNews&) {}});
  node_.files = &files;
  const std::string says = "printf '#!/bin/sh\\necho %s $(pwd)\\n' ", runs = " > program; chmod +x program";
  ASSERT_EQ(Run(Shell(says + "submit" + runs)).code, 0);
  LocalTask makes = Shell(says + "sandbox" + runs);
  makes.sandbox = true;
  makes.outputs = {"program"};
  makes.output_files = {FileId(0)};
  makes.output_results = {false};
  const TaskResult made = Run(std::move(makes));
  ASSERT_TRUE(made.succeeded()) << made.message;

  LocalTask without = Words("./program");
  without.sandbox = true;
  const std::string theirs = Output(Run(without));
  EXPECT_THAT(theirs, testing::StartsWith("submit "));
  LocalTask with = Words("./program");
  with.sandbox = true;
  with.inputs = {{.file = FileId(0), .path = "program"}};
  EXPECT_THAT(Output(Run(with)), testing::StartsWith("sandbox "));
  // Either way it begins in its sandbox.
  EXPECT_THAT(theirs, testing::Not(HasSubstr(" " + scratch_.path() + "\n")));
  Stop();
}

// --- descriptors

TEST_F(AgentSlots, OneDescriptorASlotIsMadeRoomForAndTasksHaveTheLimitOfBefore) {
  Stop();
  const test::SoftLimit limit(RLIMIT_NOFILE, 100);
  SetSlots(3);
  EXPECT_EQ(DescriptorLimit(), 3u + 128);
  EXPECT_EQ(Output(Run(Shell("ulimit -Sn"))), "100\n");
}

TEST_F(AgentSlots, WhereThereIsRoomTheLimitStays) {
  Stop();
  for (const rlim_t enough : {2u + 128, 2u + 129}) {
    const test::SoftLimit limit(RLIMIT_NOFILE, enough);
    SetSlots(2);
    EXPECT_EQ(DescriptorLimit(), enough);
    EXPECT_EQ(Output(Run(Shell("ulimit -Sn"))), std::to_string(enough) + "\n");
    Stop();
  }
}

TEST_F(AgentSlots, ASlotHasNoDescriptorButItsOwn) {
  Stop();
  // Below those of the slots, between them, and above: what is open as a slot's thread begins.
  const std::string name = scratch_.path() + "/open";
  std::vector<int> opened;
  const auto open_one = [&](int least) {
    const int fd = open(name.c_str(), O_RDWR | O_CREAT, 0600);
    opened.push_back(fcntl(fd, F_DUPFD, least));
    close(fd);
  };
  for (const int least : {3, 3, 3, 100, 300}) open_one(least);
  Restart();
  // Of both slots the threads are as they are for their tasks.
  for (const uint32_t task : {Push(Shell("sleep 300")), Push(Shell("sleep 300"))}) WaitStarted(task);
  uint32_t slots = 0;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    const auto of = os::RealFileSystem().Read(thread.path() / "comm");
    if (!of.ok() || !of->starts_with("slot")) continue;
    ++slots;
    uint32_t events = 0;
    for (const auto& fd : std::filesystem::directory_iterator(thread.path() / "fd")) {
      std::error_code gone;
      const std::string is = std::filesystem::read_symlink(fd, gone).string();
      EXPECT_NE(is, name) << *of << fd.path();
      events += is.find("eventfd") != std::string::npos ? 1 : 0;
    }
    EXPECT_EQ(events, 1u) << *of << ": that which wakes it";
  }
  EXPECT_EQ(slots, 2u);
  for (const int fd : opened) close(fd);
}

// --- what its tasks hold of its disk

TEST_F(AgentSlots, WhoHoldsTheMostOfATooFullDiskIsEnded) {
  Stop();
  node_.local_limit = 1 << 20;
  Restart();
  LocalWatch watch(node_, os::RealClock(), *pool_);
  const uint32_t small = Push(Shell("head -c 300000 /dev/zero > $TMPDIR/x; echo > small; while [ ! -e go ]; do sleep 0.05; done"));
  ASSERT_TRUE(Eventually([&] { return File("small") == "\n"; }));
  for (const char* which : {"first", "second"}) {  // it is looked at again and again
    const TaskResult result = Run(Shell("head -c 900000 /dev/zero > $TMPDIR/x; sleep 300"));
    EXPECT_EQ(result.end, End::kSignaled) << which;
    EXPECT_EQ(result.code, SIGKILL);
    EXPECT_THAT(result.message, HasSubstr("its TMPDIR held the most"));
    EXPECT_THAT(result.message, HasSubstr("more than the 1.0 MiB that the site allows"));
  }
  std::ofstream(scratch_.path() + "/go") << "x";
  EXPECT_EQ(Wait(small).end, End::kExited) << "which held less";
}

// --- who ended it

// Slurm ends a step by a SIGTERM to each of its processes, tasks first or agent first.
TEST_F(AgentSlots, WhoEndedByTheSigtermThatIsForAllWasInterrupted) {
  node_.in_step = true;
  const uint32_t dies = Push(Shell("echo $$ > dies; exec sleep 300"));
  // This one keeps what it has and ends with 0, without its output.
  LocalTask keeper = Shell("trap 'exit 0' TERM; echo $$ > keeps; while :; do sleep 0.02; done");
  keeper.outputs = {"final"};
  const uint32_t keeps = Push(keeper);
  for (const char* name : {"dies", "keeps"}) {
    ASSERT_TRUE(Eventually([&] { return File(name).ends_with('\n'); }));
    kill(std::stoi(File(name)), SIGTERM);
  }
  for (const char* name : {"dies", "keeps"})
    ASSERT_TRUE(Eventually([&] { return kill(std::stoi(File(name)), 0) != 0; }));
  pool_->Close(End::kInterrupted);
  EXPECT_EQ(Wait(dies).end, End::kInterrupted);
  EXPECT_EQ(Wait(keeps).end, End::kInterrupted);
  EXPECT_EQ(Wait(keeps).message, "");
}

// The shell goes on after what it ran, and is through before its own SIGTERM comes.
TEST_F(AgentSlots, WhoEndsWith0AsTheJobEndsIsNotTakenForDone) {
  node_.in_step = true;
  node_.job_ends_ns.store((std::chrono::system_clock::now() + seconds(3)).time_since_epoch().count());
  const uint32_t task = Push(Shell("sleep 300 & echo $! > child; sleep 2; wait; echo went on > on"));
  ASSERT_TRUE(Eventually([&] { return File("child").ends_with('\n'); }));
  kill(std::stoi(File("child")), SIGTERM);
  ASSERT_TRUE(Eventually([&] { return File("on").ends_with('\n'); }));
  pool_->Close(End::kInterrupted);
  EXPECT_EQ(Wait(task).end, End::kInterrupted);
}

TEST_F(AgentSlots, WhoEndsWith0NearAJobsEndIsDoneWhereNobodyEndsIt) {
  node_.in_step = true;
  node_.job_ends_ns.store((std::chrono::system_clock::now() - seconds(30)).time_since_epoch().count());
  const TaskResult result = Run(Words("true"));
  EXPECT_EQ(result.end, End::kExited);
  EXPECT_EQ(result.code, 0);
}

TEST_F(AgentSlots, WhoHasGotItsSigtermAndEndsWith0HasFinished) {
  node_.in_step = true;
  node_.kill_wait_ns.store(Duration(seconds(60)).count());
  const uint32_t task =
      Push(Shell("trap 'sleep 0.5; exit 0' TERM; echo ready > ready; while :; do sleep 0.02; done"));
  ASSERT_TRUE(Eventually([&] { return File("ready").ends_with('\n'); }));
  pool_->Close(End::kInterrupted);
  EXPECT_EQ(Wait(task).end, End::kExited);
}

TEST_F(AgentSlots, ATaskOfAStepThatEndsItselfByASigtermHasFailed) {
  node_.in_step = true;
  EXPECT_EQ(Run(Shell("kill -TERM $$")).end, End::kSignaled);
}

TEST_F(AgentSlots, AShellWhoseProgramWasEndedIsAskedAsThatIs) {
  node_.in_step = true;
  const uint32_t ended = Push(Shell("echo $$ > ended; exit 143"));
  const auto is_over = [this](const char* name) {
    return Eventually([&] { return File(name).ends_with('\n') && kill(std::stoi(File(name)), 0) != 0; });
  };
  ASSERT_TRUE(is_over("ended"));
  pool_->Close(End::kInterrupted);
  EXPECT_EQ(Wait(ended).end, End::kInterrupted);
}

TEST_F(AgentSlots, WhoFailsOtherwiseIsNotAskedAsAStepEnds) {
  node_.in_step = true;
  for (const char* const text : {"exit 142", "exit 144", "exit 15", "kill -KILL $$", "kill -HUP $$"}) {
    const uint32_t task = Push(Shell(StrCat("echo $$ > pid; ", text)));
    ASSERT_TRUE(Eventually([&] { return File("pid").ends_with('\n') && kill(std::stoi(File("pid")), 0) != 0; }));
    pool_->Close(End::kInterrupted);
    const TaskResult result = Wait(task);
    EXPECT_TRUE(result.end == End::kExited || result.end == End::kSignaled) << text;
    std::filesystem::remove(scratch_.path() + "/pid");
    Stop();
    Restart();
  }
}

// Who is asked waits for a second, in vain.
TEST_F(AgentSlots, OfAFlowWhoseOutputsAreNotWhereItSaysOneIsAskedForAll) {
  node_.in_step = true;
  const Lateness lateness;
  const auto took = [this] {
    LocalTask task = Words("true");
    task.outputs = {"nowhere"};
    const Duration began = os::RealClock().Steady();
    const TaskResult result = Run(std::move(task));
    EXPECT_EQ(result.end, End::kMissingOutput);
    EXPECT_THAT(result.message, HasSubstr("nowhere"));
    return os::RealClock().Steady() - began;
  };
  EXPECT_GE(took(), seconds(1));
  EXPECT_LT(took(), lateness.Within(seconds(1)));
}

/// Has seen MPI_Init of every rank, and no MPI_Finalize.
class ConnectedOnly : public RankServer {
 public:
  Result<std::vector<Variables>> Add(const Ranks& ranks, const InVain&) override { return std::vector<Variables>(ranks.count); }
  std::optional<Seen> Ended(AttemptId, uint32_t, const InVain&) override {
    Seen seen;
    seen.connected = true;
    return seen;
  }
  void Drop(AttemptId) override {}
};

TEST_F(AgentSlots, AlsoTheOnlyRankOfATaskHasToSayThatItIsThrough) {
  ConnectedOnly server;
  node_.rank_servers.pmix = &server;
  node_.rank_root = node_.tmp_root;
  const TaskResult result = Run(Shell("exit 0", {.ranks = 1, .mpi = Mpi::kPmix}));
  EXPECT_EQ(result.end, End::kExited);
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.message, "exited with 0 before MPI_Finalize");
  Stop();
}

// Nothing else happens that would let it begin.
TEST_F(AgentSlots, WhoWaitedBehindOneThatIsTakenBackBegins) {
  SetSlots(2);
  const uint32_t runs = Push(Shell("while test ! -e end; do sleep 0.02; done"));
  WaitStarted(runs);
  const uint32_t first = Push(Words("true", {.cores = 2})), second = Push(Words("true", {.cores = 2}));
  const uint32_t waits = Push(Shell("true"));
  EXPECT_THAT(pool_->TakeBack({First(first), First(second)}), testing::ElementsAre(First(first), First(second)));
  EXPECT_EQ(Wait(waits).end, End::kExited);
  std::ofstream(scratch_.path() + "/end");
  EXPECT_EQ(Wait(runs).code, 0);
}

}  // namespace
}  // namespace harrow::agent
