#include "supervisor/asking/asking.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>
#include <string>
#include <variant>
#include <vector>

namespace harrow::supervisor {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A partition of 8 nodes with 4 slots each.
PartitionFacts Fast() {
  return {.name = "fast", .node = {.slots = 4}, .most = {.slots = 4}, .most_nodes = 8};
}
WaitingTasks Tasks(uint64_t ready, Duration mean = seconds(10)) {
  return {.mean = mean, .ready = ready};
}

/// The machine with a batch system that begins jobs when a test says so.
class Scene {
 public:
  explicit Scene(AskingOptions options = {}, std::vector<PartitionFacts> partitions = {Fast()}) : asking(options, std::move(partitions)) {}

  /// Shows what is there, and answers estimates by `begins_in` until nothing is estimated any more.
  void Look() {
    Handle(seen);
    for (int i = 0; i < 10 && !estimates.empty(); ++i) {
      const Request request = std::exchange(estimates, {}).back();
      if (refuse_estimates.empty()) {
        Handle(Estimated{begins_in[request.partition]});
      } else {
        Handle(Refused{refuse_estimates});
      }
      Handle(seen);
    }
  }
  void LookAfter(Duration later) {
    now += later;
    Look();
  }
  /// The one that is to be submitted waits now.
  std::string Accept() {
    const Request request = std::exchange(submits, {}).at(0);
    const std::string job = std::to_string(++last_job);
    Handle(Submitted{job});
    seen.allocations.push_back({.job = job, .partition = request.partition, .nodes = request.nodes, .begins_in = begins_in[request.partition]});
    return job;
  }
  void Refuse(const std::string& why) {
    ASSERT_EQ(submits.size(), 1u);
    submits.clear();
    Handle(Refused{why});
  }
  AllocationSeen& Of(const std::string& job) {
    return *std::find_if(seen.allocations.begin(), seen.allocations.end(), [&](const auto& each) { return each.job == job; });
  }
  /// The job has begun, and its server tells of so many slots a node.
  void Begin(const std::string& job, uint32_t slots = 4, uint64_t in_flight = 0) {
    AllocationSeen& its = Of(job);
    its.state = AllocationSeen::State::kRunning;
    its.begins_in.reset();
    its.served = true;
    its.slots = its.nodes * slots;
    its.loads = {{.workers = its.slots, .in_flight = in_flight}};
  }
  void End(const std::string& job) {
    std::erase_if(seen.allocations, [&](const auto& each) { return each.job == job; });
  }
  void Handle(const AskingEvent& event) {
    std::vector<AskingAction> actions;
    asking.Handle(now, event, &actions);
    EXPECT_EQ(asking.FindBroken(), "");
    for (const AskingAction& action : actions) {
      if (const auto* estimate = std::get_if<AskEstimate>(&action)) estimates.push_back(estimate->request);
      if (const auto* submit = std::get_if<Submit>(&action)) submits.push_back(submit->request);
      if (const auto* cancel = std::get_if<Cancel>(&action)) cancelled.push_back(cancel->job);
      if (const auto* tell = std::get_if<Tell>(&action)) told.push_back(tell->text);
    }
  }
  std::string AllTold() const {
    std::string all;
    for (const std::string& line : told) all += line + "\n";
    return all;
  }

  Asking asking;
  Time now{};
  RunSeen seen;
  std::map<std::string, Duration> begins_in;
  std::string refuse_estimates;
  int last_job = 16;
  std::vector<Request> estimates, submits;
  std::vector<std::string> cancelled, told;
};

std::string TextOf(const std::vector<Request>& requests) {
  std::string text;
  for (const Request& each : requests) text += (text.empty() ? "" : " ") + each.partition + ":" + std::to_string(each.nodes);
  return text;
}

TEST(Asking, TheFirstIsAskedForWhatWaits) {
  Scene run;
  run.begins_in["fast"] = minutes(10);
  run.seen.waiting = {Tasks(48, seconds(60))};
  run.Look();
  // 48 minutes of work for one slot: 12 nodes' tasks, which 12 nodes would have done in a minute; there are 8.
  EXPECT_EQ(TextOf(run.submits), "fast:8");
  EXPECT_EQ(run.submits[0].least.slots, 1u);
  EXPECT_THAT(run.told, ElementsAre("asks for 8 nodes of partition fast: 48 tasks are ready; it would begin in 10 min 00 s"));
}

TEST(Asking, OfTasksOfUnknownTimeOneNodeIsAskedFirst) {
  Scene run;
  run.seen.waiting = {Tasks(1000, Duration(0))};
  run.Look();
  EXPECT_EQ(TextOf(run.submits), "fast:1");
  EXPECT_THAT(run.told.at(0), HasSubstr("it would begin at once"));
}

TEST(Asking, NoMoreNodesThanTheWorkLastsAMinuteOn) {
  Scene run;
  run.seen.waiting = {Tasks(96, seconds(10))};  // 960 s
  run.Look();
  EXPECT_EQ(TextOf(run.submits), "fast:4");
}

TEST(Asking, AnotherWhileTheBacklogIsLongerThanItWouldWait) {
  Scene run({.most = 10});
  run.begins_in["fast"] = seconds(100);
  run.seen.waiting = {Tasks(100)};
  run.Look();
  const std::string first = run.Accept();
  run.Begin(first, 4, 16);  // all of 4 nodes' slots
  ASSERT_EQ(run.Of(first).slots, 16u);
  run.seen.waiting = {Tasks(160)};  // 1600 s on 16 slots: 100 s
  run.LookAfter(seconds(40));
  EXPECT_EQ(TextOf(run.submits), "");
  run.seen.waiting = {Tasks(165)};  // 103.1 s, and a job's first task begins 3 s after the job
  run.LookAfter(seconds(40));
  EXPECT_EQ(TextOf(run.submits), "fast:2");
  EXPECT_THAT(run.told.back(), HasSubstr("1 min 43 s of work for 16 slots"));
  run.Accept();
  // What waits for its nodes counts: 24 slots.
  run.LookAfter(seconds(40));
  EXPECT_EQ(TextOf(run.submits), "");
  run.seen.waiting = {Tasks(300)};
  run.LookAfter(seconds(40));
  EXPECT_EQ(TextOf(run.submits), "fast:6");
}

TEST(Asking, AnAllocationThatComesMuchLaterDoesNotCount) {
  PartitionFacts slow = Fast();
  slow.name = "slow";
  Scene run({}, {slow, Fast()});
  run.begins_in = {{"slow", seconds(10)}, {"fast", hours(1)}};
  run.seen.waiting = {Tasks(24)};
  run.Look();
  EXPECT_EQ(TextOf(run.submits), "slow:1");
  run.Accept();
  run.seen.allocations[0].begins_in = hours(5);
  run.begins_in = {{"slow", hours(5)}, {"fast", minutes(2)}};
  run.LookAfter(seconds(40));
  EXPECT_EQ(TextOf(run.submits), "fast:1");
}

TEST(Asking, TheOneThatBeginsFirstIsAsked) {
  PartitionFacts slow = Fast();
  slow.name = "slow";
  Scene run({}, {Fast(), slow});
  run.begins_in = {{"slow", seconds(10)}, {"fast", seconds(11)}};
  run.seen.waiting = {Tasks(24)};
  run.Look();
  EXPECT_EQ(TextOf(run.submits), "slow:1");
}

TEST(Asking, TheFirstOneIsToRunAllKindsOfTasks) {
  PartitionFacts gpus = Fast();
  gpus.name = "gpus";
  gpus.most.devices = 2;
  Scene run({}, {Fast(), gpus});
  run.begins_in = {{"gpus", minutes(10)}, {"fast", seconds(0)}};
  run.seen.waiting = {Tasks(24), {.shape = {.devices = 1}, .mean = seconds(1), .ready = 2}};
  run.Look();
  EXPECT_EQ(TextOf(run.submits), "gpus:1");
}

TEST(Asking, NeverMoreAtOnceThanAllowed) {
  Scene run({.most = 2});
  run.seen.waiting = {Tasks(100000)};
  for (int i = 0; i < 5; ++i) {
    run.LookAfter(seconds(40));
    if (!run.submits.empty()) run.Accept();
  }
  EXPECT_EQ(run.seen.allocations.size(), 2u);
  // One that was given back counts until it is gone.
  run.Begin("17");
  run.Begin("18");
  run.seen.waiting = {};
  run.LookAfter(seconds(1));
  run.LookAfter(seconds(61));
  ASSERT_EQ(run.cancelled.size(), 1u);
  run.seen.waiting = {Tasks(100000)};
  run.LookAfter(seconds(40));
  EXPECT_THAT(run.submits, IsEmpty());
  run.End(run.cancelled[0]);
  run.LookAfter(seconds(1));
  EXPECT_EQ(run.submits.size(), 1u);
}

// --- what users of another allocator reported

// HyperQueue 248: a time limit that no task fits into, and job after job was submitted.
TEST(Asking, NothingIsAskedForThatCouldRunNoTask_Time) {
  Scene run({.time = minutes(30)});
  run.seen.waiting = {{.limit = hours(1), .ready = 10}};
  for (int i = 0; i < 20; ++i) run.LookAfter(seconds(40));
  EXPECT_THAT(run.submits, IsEmpty());
  EXPECT_THAT(run.told, ElementsAre("no partition has nodes, or time, for any of the 10 tasks that wait: no allocation is asked for"));
  // A task whose limit is the allocation's could not begin in it either.
  run.seen.waiting = {{.limit = minutes(30), .ready = 10}};
  run.LookAfter(seconds(40));
  EXPECT_THAT(run.submits, IsEmpty());
  run.seen.waiting = {{.limit = minutes(29), .ready = 10}};
  run.LookAfter(seconds(40));
  EXPECT_EQ(run.submits.size(), 1u);
}
TEST(Asking, NothingIsAskedForThatCouldRunNoTask_ShapeAndDevices) {
  PartitionFacts fast = Fast();
  fast.most.memory = 1 << 20;
  for (const Shape& shape : {Shape{.cores = 5}, Shape{.devices = 1}, Shape{.memory = 2 << 20}, Shape{.nodes = 9}}) {
    Scene run({}, {fast});
    run.seen.waiting = {{.shape = shape, .ready = 10}};
    for (int i = 0; i < 3; ++i) run.LookAfter(seconds(40));
    EXPECT_THAT(run.submits, IsEmpty());
    EXPECT_EQ(run.told.size(), 1u);
  }
}
TEST(Asking, NothingIsAskedForThatCouldRunNoTask_Memory) {
  PartitionFacts small = Fast();
  small.node.memory = small.most.memory = uint64_t{4} << 30;
  Scene run({}, {small});
  run.seen.waiting = {Tasks(400)};
  run.seen.waiting[0].shape.memory = uint64_t{8} << 30;
  run.Look();
  EXPECT_THAT(run.submits, IsEmpty());
  run.seen.waiting[0].shape.memory = uint64_t{2} << 30;
  run.Look();
  EXPECT_EQ(run.submits.size(), 1u);
}

TEST(Asking, TasksThatTheNewOneCouldNotRunAreNoBacklogForIt) {
  Scene run({.most = 10, .time = minutes(30)});
  run.seen.waiting = {Tasks(1)};
  run.Look();
  run.Begin(run.Accept(), 4, 4);
  run.seen.waiting = {{.limit = hours(1), .ready = 1000}, {.shape = {.devices = 1}, .ready = 1000}};
  for (int i = 0; i < 3; ++i) run.LookAfter(seconds(40));
  EXPECT_THAT(run.submits, IsEmpty());
}
TEST(Asking, WithoutATimeAskedForTasksGetTheTimeThatTheyNeed) {
  PartitionFacts fast = Fast();
  fast.default_time = minutes(10);
  fast.most_time = hours(2);
  Scene run({}, {fast});
  run.seen.waiting = {{.limit = hours(1), .ready = 10}};
  run.Look();
  ASSERT_EQ(run.submits.size(), 1u);
  EXPECT_EQ(run.submits[0].time, minutes(62));
  Scene too_long({}, {fast});
  too_long.seen.waiting = {{.limit = hours(2), .ready = 10}};
  too_long.Look();
  EXPECT_THAT(too_long.submits, IsEmpty());
}
TEST(Asking, TasksThatWaitForOthersAreNoBacklog) {
  Scene run;
  run.seen.waiting = {};
  run.seen.blocked = 1000;
  for (int i = 0; i < 3; ++i) run.LookAfter(seconds(40));
  EXPECT_THAT(run.submits, IsEmpty());
}
TEST(Asking, TasksOfSeveralNodesStayWhereTheyAre) {
  Scene run;
  run.seen.waiting = {{.shape = {.nodes = 3}, .mean = hours(1), .ready = 5}};
  run.Look();
  EXPECT_EQ(TextOf(run.submits), "fast:4");
  run.Begin(run.Accept(), 4, 0);
  run.LookAfter(seconds(40));
  EXPECT_THAT(run.submits, IsEmpty());
}

// HyperQueue 488: each submission made another allocation, while there were idle workers.
TEST(Asking, NothingIsAskedForWhileThereIsRoom) {
  Scene run({.most = 100});
  run.seen.waiting = {Tasks(1, hours(1))};
  run.Look();
  const std::string job = run.Accept();
  // It waits for its nodes, begins, and its server does not answer yet: its slots are counted on.
  run.seen.waiting = {Tasks(4, hours(1))};
  run.LookAfter(seconds(40));
  run.Of(job).state = AllocationSeen::State::kRunning;
  run.LookAfter(seconds(40));
  EXPECT_THAT(run.submits, IsEmpty());
  run.Begin(job, 4, 1);
  run.seen.waiting = {Tasks(3, hours(1))};
  run.LookAfter(seconds(40));
  EXPECT_THAT(run.submits, IsEmpty());
  run.seen.waiting = {Tasks(4, hours(1))};
  run.LookAfter(seconds(40));
  EXPECT_EQ(TextOf(run.submits), "fast:1");
}
TEST(Asking, RoomThatNoTaskThatWaitsCanUseIsNone) {
  PartitionFacts gpus = Fast();
  gpus.most.devices = 2;
  Scene run({.most = 100}, {gpus});
  run.seen.waiting = {Tasks(1)};
  run.Look();
  const std::string job = run.Accept();
  run.Begin(job);
  run.Of(job).loads.push_back({.shape = {.devices = 1}, .workers = 0});
  run.seen.waiting = {{.shape = {.devices = 1}, .mean = hours(1), .ready = 1}};
  run.LookAfter(seconds(40));
  ASSERT_EQ(run.submits.size(), 1u);
  EXPECT_EQ(run.submits[0].least.devices, 1u);
}
TEST(Asking, TimeThatIsLeftCounts) {
  Scene run({.most = 100});
  run.seen.waiting = {{.limit = minutes(20), .ready = 1}};
  run.Look();
  const std::string job = run.Accept();
  run.Begin(job);
  run.Of(job).ends_in = minutes(21);
  run.LookAfter(seconds(40));
  EXPECT_THAT(run.submits, IsEmpty());
  run.Of(job).ends_in = minutes(20);
  run.LookAfter(seconds(40));
  EXPECT_EQ(run.submits.size(), 1u);
}
TEST(Asking, WhatWasSubmittedCountsBeforeItIsListed) {
  Scene run({.most = 100});
  run.seen.waiting = {Tasks(4)};
  run.Look();
  run.Accept();
  const RunSeen listed = std::exchange(run.seen, {.waiting = run.seen.waiting});
  for (int i = 0; i < 5; ++i) run.LookAfter(seconds(3));
  EXPECT_THAT(run.submits, IsEmpty());
  // A job that nobody has listed for a minute was none.
  run.LookAfter(seconds(60));
  run.LookAfter(seconds(11));
  EXPECT_EQ(run.submits.size(), 1u);
}

// HyperQueue 861: what was refused was asked for again and again, or for no obvious reason not at all.
TEST(Asking, AfterThreeRefusalsInARowItStopsAndSaysSo) {
  Scene run;
  run.seen.waiting = {Tasks(100)};
  run.Look();
  run.Refuse("too many jobs");
  run.LookAfter(seconds(9));
  EXPECT_THAT(run.submits, IsEmpty());
  run.LookAfter(seconds(1));
  run.Refuse("too many jobs");
  run.LookAfter(seconds(10));
  EXPECT_FALSE(run.asking.stopped());
  run.Refuse("too many jobs");
  EXPECT_TRUE(run.asking.stopped());
  for (int i = 0; i < 10; ++i) run.LookAfter(seconds(40));
  EXPECT_THAT(run.submits, IsEmpty());
  std::erase_if(run.told, [](const std::string& line) { return line.starts_with("asks for"); });
  EXPECT_THAT(run.told, ElementsAre("partition fast: no allocation of 4 nodes: too many jobs; it is asked again in 10.0 s",
                                    "partition fast: no allocation of 4 nodes: too many jobs; that was the 3rd time in a row, and it is asked for no more",
                                    "no partition is left to ask: no further allocation is asked for"));
}
TEST(Asking, RefusalsThatAreNotInARowDoNotStopIt) {
  Scene run({.most = 100});
  for (int i = 0; i < 6; ++i) {
    run.seen.waiting = {Tasks(1000 * static_cast<uint64_t>(i + 1))};
    run.LookAfter(seconds(40));
    run.Refuse("too many jobs");
    run.LookAfter(seconds(40));
    run.Begin(run.Accept(), 4, 1000);
  }
  EXPECT_FALSE(run.asking.stopped());
}
TEST(Asking, ARefusedEstimateIsARefusal) {
  Scene run;
  run.refuse_estimates = "Invalid partition name specified";
  run.seen.waiting = {Tasks(100)};
  for (int i = 0; i < 10; ++i) run.LookAfter(seconds(40));
  EXPECT_TRUE(run.asking.stopped());
  EXPECT_EQ(run.told.size(), 3u) << run.AllTold();
}
TEST(Asking, OnePartitionsRefusalsAreNotAnothers) {
  PartitionFacts slow = Fast();
  slow.name = "slow";
  Scene run({}, {Fast(), slow});
  run.begins_in["slow"] = hours(1);
  run.seen.waiting = {Tasks(100)};
  for (int i = 0; i < 3; ++i) {
    run.LookAfter(seconds(40));
    EXPECT_EQ(run.submits.at(0).partition, "fast");
    run.Refuse("no");
    run.now += seconds(10);
  }
  run.LookAfter(seconds(40));
  EXPECT_EQ(TextOf(run.submits), "slow:4");
  EXPECT_FALSE(run.asking.stopped());
}
TEST(Asking, AllocationsThatEndAtOnceAreAskedForThreeTimes) {
  Scene run;
  run.seen.waiting = {Tasks(100)};
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(run.asking.stopped());
    run.LookAfter(seconds(40));
    const std::string job = run.Accept();
    run.Look();
    run.End(job);
    run.Look();
  }
  EXPECT_TRUE(run.asking.stopped());
  EXPECT_THAT(run.AllTold(), HasSubstr("an allocation was over before a task of it had ended; that was the 3rd time in a row"));
}
TEST(Asking, OneThatIsOverWhenItIsListedFirstIsOver) {
  Scene run({.most = 1});
  run.seen.waiting = {Tasks(100)};
  run.Look();
  run.Of(run.Accept()).state = AllocationSeen::State::kOver;
  run.Look();
  run.LookAfter(seconds(10));
  EXPECT_EQ(run.submits.size(), 1u);
}
TEST(Asking, ThoseThatEndAtTheirTimeLimitAreFollowedByOthers) {
  Scene run;
  run.seen.waiting = {Tasks(1000)};
  for (int i = 0; i < 8; ++i) {
    run.LookAfter(seconds(40));
    const std::string job = run.Accept();
    run.Begin(job, 4, 16);
    run.Of(job).ended = 5;
    run.Look();
    run.End(job);
    run.Look();
  }
  EXPECT_FALSE(run.asking.stopped());
}
TEST(Asking, AJobThatNeverBeginsIsTakenBack) {
  Scene run;
  run.seen.waiting = {Tasks(100)};
  run.Look();
  const std::string job = run.Accept();
  run.Of(job).never = "PartitionTimeLimit";
  run.Look();
  EXPECT_THAT(run.cancelled, ElementsAre(job));
  EXPECT_THAT(run.told.back(), HasSubstr("a job of 4 nodes would never begin: PartitionTimeLimit; it is asked again in"));
  run.Look();
  EXPECT_EQ(run.cancelled.size(), 1u);
}
TEST(Asking, SilenceIsNoRefusal) {
  Scene run;
  run.seen.waiting = {Tasks(100)};
  for (int i = 0; i < 20; ++i) {
    run.now += seconds(6);
    run.Handle(run.seen);
    ASSERT_EQ(run.estimates.size() + run.submits.size(), 1u) << i;
    run.estimates.clear();
    run.submits.clear();
    run.Handle(NoAnswer{"Unable to contact slurm controller"});
    run.Handle(run.seen);
    ASSERT_THAT(run.estimates, IsEmpty());
  }
  EXPECT_FALSE(run.asking.stopped());
  EXPECT_THAT(run.told, ElementsAre("the batch system does not answer (Unable to contact slurm controller): it is asked again, and the run goes on"));
  run.LookAfter(seconds(6));
  EXPECT_EQ(run.told.at(1), "the batch system answers again");
  EXPECT_EQ(run.submits.size(), 1u);
}
/// Its nodes have not told that they are there.
TEST(Asking, ABatchSystemThatWasAwayRefusesWithoutConsequences) {
  Scene run;
  run.seen.waiting = {Tasks(400)};
  run.Handle(NoAnswer{});  // to somebody who asked for jobs
  EXPECT_THAT(run.told, IsEmpty());
  run.refuse_estimates = "Requested node configuration is not available";
  int asked = 0;
  for (int i = 0; i < 28; ++i) {
    run.now += seconds(1);
    run.Handle(run.seen);
    if (std::exchange(run.estimates, {}).empty()) continue;
    ++asked;
    run.Handle(Refused{run.refuse_estimates});
  }
  EXPECT_TRUE(asked == 2 || asked == 3) << "each ten seconds: " << asked;
  EXPECT_FALSE(run.asking.stopped()) << run.AllTold();
  EXPECT_THAT(run.told, IsEmpty());
  run.refuse_estimates.clear();
  run.LookAfter(seconds(11));
  EXPECT_EQ(run.submits.size(), 1u);
  run.submits.clear();
  run.Handle(Refused{"no"});
  EXPECT_THAT(run.AllTold(), HasSubstr("it is asked again")) << "from now on it counts";
}

TEST(Asking, WhatWasSubmittedInSilenceIsNotSubmittedAgain) {
  Scene run;
  run.seen.waiting = {Tasks(4)};
  run.Look();
  ASSERT_EQ(run.submits.size(), 1u);
  run.submits.clear();
  run.Handle(NoAnswer{"timed out"});
  run.seen.allocations = {{.job = "99", .partition = "fast", .nodes = 1}};
  for (int i = 0; i < 5; ++i) run.LookAfter(seconds(10));
  EXPECT_THAT(run.submits, IsEmpty());
}
TEST(Asking, WhatNoPartitionCouldGiveIsNotAskedFor) {
  PartitionFacts large = Fast(), brief = Fast();
  large.nodes = 9;
  brief.name = "brief";
  brief.most_time = minutes(20);
  Scene run({.time = minutes(30)}, {large, brief});
  run.seen.waiting = {Tasks(100)};
  run.Look();
  run.LookAfter(seconds(40));
  EXPECT_TRUE(run.asking.stopped());
  EXPECT_THAT(run.told, ElementsAre("partition fast: a job there has at most 8 nodes, not 9; it is not asked",
                                    "partition brief: a job there has at most 20 min 00 s, not 30 min 00 s; it is not asked",
                                    "no partition is left to ask: no further allocation is asked for"));
}

// HyperQueue 937: a worker had other resources than were thought, and no allocation was asked for any more.
TEST(Asking, AWrongGuessAboutNodesDoesNotStopIt) {
  for (const uint32_t granted : {1u, 2u, 64u}) {
    Scene run({.most = 100});
    run.seen.waiting = {Tasks(100)};
    run.Look();
    EXPECT_EQ(TextOf(run.submits), "fast:4");  // by the guess of 4 slots
    run.Begin(run.Accept(), granted, 1000);
    run.seen.waiting = {Tasks(100'000)};
    run.LookAfter(seconds(40));
    EXPECT_EQ(TextOf(run.submits), "fast:8") << granted;
    run.Begin(run.Accept(), granted, 1000);
    run.LookAfter(seconds(40));
    EXPECT_EQ(run.submits.size(), 1u) << granted;
  }
}
TEST(Asking, WhatWasGrantedTellsHowManySlotsToCountOn) {
  Scene run({.most = 100});
  run.seen.waiting = {Tasks(8)};
  run.Look();
  EXPECT_EQ(TextOf(run.submits), "fast:1");
  run.Begin(run.Accept(), 1, 1);
  run.seen.waiting = {Tasks(24)};  // 240 s: 4 minutes for one slot
  run.LookAfter(seconds(40));
  EXPECT_EQ(TextOf(run.submits), "fast:3");
}
TEST(Asking, AnAllocationThatCanRunNothingIsGivenBackAndAskedForAgain) {
  Scene run;
  run.seen.waiting = {{.shape = {.cores = 4}, .mean = hours(1), .ready = 10}};
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(run.asking.stopped());
    run.LookAfter(seconds(40));
    ASSERT_EQ(run.submits.size(), 1u) << run.AllTold();
    EXPECT_EQ(run.submits[0].least.slots, 4u);
    const std::string job = run.Accept();
    run.Begin(job, 2);
    run.Of(job).loads = {{.shape = {.cores = 4}, .workers = 0}};
    run.seen.allocations = {run.Of(job)};
    // Others are asked for as well meanwhile; here there is no room for more.
    run.refuse_estimates = "busy";
    run.Look();
    run.refuse_estimates.clear();
    run.LookAfter(seconds(61));
    run.submits.clear();
    run.Handle(NoAnswer{});
    EXPECT_EQ(run.cancelled.size(), static_cast<size_t>(i + 1)) << run.AllTold();
    run.End(job);
  }
  EXPECT_TRUE(run.asking.stopped());
}

// --- what is given back

TEST(Asking, IdleOnesAreGivenBackButTheLast) {
  Scene run({.most = 2});
  run.seen.waiting = {Tasks(100000)};
  run.Look();
  run.Accept();
  run.LookAfter(seconds(40));
  run.Accept();
  run.Begin("17", 4, 0);
  run.Begin("18", 4, 1);
  for (AllocationSeen& each : run.seen.allocations) each.ended = 7;
  run.seen.waiting.clear();
  run.seen.blocked = 3;
  run.LookAfter(seconds(1));
  run.LookAfter(seconds(59));
  EXPECT_THAT(run.cancelled, IsEmpty());
  run.LookAfter(seconds(1));
  EXPECT_THAT(run.cancelled, ElementsAre("17"));
  EXPECT_EQ(run.told.back(), "job 17 (fast, 8 nodes) has had nothing to do for 1 min 00 s, and is given back");
  run.End("17");
  run.Begin("18", 4, 0);
  run.LookAfter(seconds(1));
  run.LookAfter(seconds(100));
  EXPECT_EQ(run.cancelled.size(), 1u);
}
TEST(Asking, OneThatCameWhenAllWasDoneIsNoRefusal) {
  Scene run({.most = 9});
  for (int i = 0; i < 5; ++i) {
    run.seen.waiting = {Tasks(100000)};
    run.LookAfter(seconds(40));
    run.Begin(run.Accept(), 4, 100);
  }
  run.seen.waiting.clear();
  for (AllocationSeen& each : run.seen.allocations) each.loads[0].in_flight = 0;
  run.LookAfter(seconds(1));
  run.LookAfter(seconds(60));
  EXPECT_EQ(run.cancelled.size(), 4u);
  EXPECT_FALSE(run.asking.stopped());
}
TEST(Asking, WorkInBetweenBeginsItsIdleTimeAnew) {
  Scene run;
  run.seen.waiting = {Tasks(1)};
  run.Look();
  run.Begin(run.Accept(), 4, 0);
  run.seen.allocations.push_back({.job = "99", .partition = "x", .nodes = 1, .state = AllocationSeen::State::kRunning, .served = true, .slots = 4,
                                  .loads = {{.workers = 4, .in_flight = 4}}});
  run.seen.waiting.clear();
  run.LookAfter(seconds(1));
  run.LookAfter(seconds(50));
  run.Begin("17", 4, 1);
  run.LookAfter(seconds(1));
  run.Begin("17", 4, 0);
  run.LookAfter(seconds(50));
  run.LookAfter(seconds(59));
  EXPECT_THAT(run.cancelled, IsEmpty());
  run.LookAfter(seconds(1));
  EXPECT_THAT(run.cancelled, ElementsAre("17"));
}
TEST(Asking, WhatWaitsAndIsNotNeededAnyMoreIsTakenBack) {
  Scene run({.most = 2});
  run.begins_in["fast"] = seconds(30);
  run.seen.waiting = {Tasks(100000)};
  run.Look();
  run.Begin(run.Accept(), 4, 32);
  run.LookAfter(seconds(40));
  const std::string job = run.Accept();
  run.seen.waiting.clear();
  run.LookAfter(seconds(1));
  run.LookAfter(seconds(60));
  EXPECT_THAT(run.cancelled, ElementsAre(job));
  EXPECT_THAT(run.told.back(), HasSubstr("has not been needed for 1 min 00 s, and is taken back"));
  // It is no refusal that it has ended no task.
  run.End(job);
  run.seen.waiting = {Tasks(100000)};
  run.LookAfter(seconds(40));
  EXPECT_EQ(run.submits.size(), 1u);
}

TEST(Asking, AnotherProcessGoesOnWithWhatIsThere) {
  Scene run({.most = 2});
  run.seen.waiting = {Tasks(100000)};
  run.seen.allocations = {{.job = "3", .partition = "fast", .nodes = 8}, {.job = "4", .partition = "fast", .nodes = 8}};
  run.Look();
  EXPECT_THAT(run.submits, IsEmpty());
  run.End("3");
  run.LookAfter(seconds(1));
  run.LookAfter(seconds(11));
  EXPECT_EQ(run.submits.size(), 1u);
}

// Whatever comes in whatever order: one question at a time, never more jobs than allowed, and no question that nobody asked for.
TEST(Asking, RandomEvents) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 draw(seed);
  const auto below = [&](uint32_t n) { return std::uniform_int_distribution<uint32_t>(0, n - 1)(draw); };
  for (int round = 0; round < 200; ++round) {
    PartitionFacts slow = Fast();
    slow.name = "slow";
    slow.most = {.slots = 8, .devices = 2};
    Scene run({.most = 3}, {Fast(), slow});
    for (int step = 0; step < 200; ++step) {
      run.now += seconds(below(30));
      if (below(3) == 0) {
        run.seen.waiting.clear();
        for (uint32_t i = below(4); i > 0; --i)
          run.seen.waiting.push_back({.shape = {.cores = 1 + below(9), .devices = below(3)}, .limit = minutes(below(3)), .mean = seconds(below(100)), .ready = below(1000)});
      }
      for (AllocationSeen& each : run.seen.allocations) {
        if (below(8) == 0) run.Begin(each.job, 1 + below(8), below(40));
        each.ended += below(3);
      }
      if (!run.seen.allocations.empty() && below(20) == 0) run.seen.allocations.erase(run.seen.allocations.begin() + below(static_cast<uint32_t>(run.seen.allocations.size())));
      for (const std::string& job : run.cancelled) run.End(job);
      run.Handle(run.seen);
      ASSERT_LE(run.estimates.size() + run.submits.size(), 1u);
      if (!run.estimates.empty()) {
        run.estimates.clear();
        below(9) == 0 ? run.Handle(NoAnswer{"silent"}) : below(9) == 0 ? run.Handle(Refused{"no"}) : run.Handle(Estimated{seconds(below(300))});
      } else if (!run.submits.empty()) {
        for (const Request& request : run.submits) {
          ASSERT_LT(run.seen.allocations.size(), 3u);
          ASSERT_TRUE(request.nodes >= 1 && request.nodes <= 8);
          // There is a task that it could run.
          ASSERT_TRUE(std::any_of(run.seen.waiting.begin(), run.seen.waiting.end(), [&](const WaitingTasks& tasks) {
            return tasks.ready > 0 && tasks.shape.cores <= (request.partition == "slow" ? 8u : 4u) && tasks.shape.devices <= (request.partition == "slow" ? 2u : 0u);
          }));
        }
        if (below(6) == 0) {
          run.Refuse("no");
        } else {
          run.Accept();
        }
      }
    }
  }
}

}  // namespace
}  // namespace harrow::supervisor
