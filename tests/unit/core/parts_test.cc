// The parts of the scheduler's state, each by itself: what cannot be seen from outside, or only after many
// events.

#include <gtest/gtest.h>
#include <vector>

#include "core/ahead.h"
#include "core/backups.h"
#include "core/gangs.h"
#include "core/holds.h"
#include "core/lanes.h"
#include "core/node_table.h"
#include "core/queues.h"
#include "core/run_times.h"
#include "core/scheduler.h"
#include "core/task_table.h"

namespace harrow::core {
namespace {

using Nodes = std::vector<NodeId>;
constexpr TaskId kA(0), kB(1);
constexpr NodeId kOne(0), kTwo(1), kThree(2);

graph::Graph TwoTasks() {
  graph::Graph graph;
  const ProfileId profile = graph.AddProfile({});
  for (int i = 0; i < 2; ++i) {
    graph::TaskSpec spec;
    spec.profile = profile;
    graph.AddTask(spec);
  }
  EXPECT_TRUE(graph.Seal().ok());
  return graph;
}

Nodes CandidatesOf(const TaskTable& tasks, TaskId id) {
  return Nodes(tasks.candidates(id).begin(), tasks.candidates(id).end());
}

TEST(TaskTable, AStateIsCountedOnceAndSaysWhatElseHolds) {
  const graph::Graph graph = TwoTasks();
  TaskTable tasks;
  tasks.Grow(2);
  tasks.MakeReady(kA, 7);
  EXPECT_EQ(tasks.FindBroken(graph), "task 1: waits for nothing and is not ready");
  tasks.Delay(kB, Time(Duration(5)));
  EXPECT_EQ(tasks.FindBroken(graph), "");
  EXPECT_EQ(tasks.counts().waiting, 1u);
  EXPECT_EQ(tasks.next_due(), Time(Duration(5)));
  EXPECT_TRUE(tasks.EndDelays(Time(Duration(4))).empty());
  EXPECT_EQ(tasks.EndDelays(Time(Duration(5))), std::vector<TaskId>{kB});
  EXPECT_EQ(tasks.state(kB), TaskState::kWaiting);
  EXPECT_EQ(tasks.next_due(), Time::max());

  tasks.AddAttempt(kA);
  tasks.Send(kA, kOne, TakenFrom::kRemoteQueue, true);
  tasks.Recall(kA);
  EXPECT_TRUE(tasks[kA].ahead());
  tasks.GiveSlot(kA);
  EXPECT_EQ(tasks.state(kA), TaskState::kRecalled) << "asked back still";
  tasks.Run(kA);
  EXPECT_EQ(tasks.counts().running, 1u);
  EXPECT_EQ(tasks.unsettled(), 2u);
  tasks.Settle(kA, TaskState::kDone);
  tasks.Settle(kB, TaskState::kSkipped);
  EXPECT_EQ(tasks.unsettled(), 0u);
  EXPECT_EQ(tasks.FindBroken(graph), "");
}

TEST(TaskTable, CandidatesAreKeptAsLongAsTheTaskCountsInTheirQueues) {
  TaskTable tasks;
  tasks.Grow(2);
  tasks.SetCandidates(kA, Nodes{kThree, kOne, kTwo});
  tasks.SetCandidates(kA, Nodes{kTwo, kOne, kThree});
  tasks.SetCandidates(kB, Nodes{kOne, kTwo, kThree});
  EXPECT_EQ(CandidatesOf(tasks, kA), (Nodes{kTwo, kOne, kThree}));
  tasks.MakeReady(kA, 1);
  tasks.Send(kA, kTwo, TakenFrom::kNodeQueue, true);
  EXPECT_EQ(CandidatesOf(tasks, kA), (Nodes{kTwo, kOne, kThree}));
  tasks.GiveSlot(kA);
  EXPECT_TRUE(tasks.candidates(kA).empty());
  EXPECT_EQ(CandidatesOf(tasks, kB), (Nodes{kOne, kTwo, kThree})) << "a list is one task's";
  tasks.SetCandidates(kB, Nodes{kTwo});
  EXPECT_EQ(CandidatesOf(tasks, kB), Nodes{kTwo});
  tasks.MakeReady(kB, 2);
  tasks.Send(kB, kTwo, TakenFrom::kNodeQueue, false);
  EXPECT_TRUE(tasks.candidates(kB).empty());
}

TEST(TaskTable, WhatAttemptsCountFor) {
  TaskTable tasks;
  tasks.Grow(2);
  tasks.AddAttempt(kA);
  tasks.DropAttempt(kA);
  EXPECT_EQ(tasks.latest(kA).number, 0u) << "the number is used again";
  tasks.AddAttempt(kA);
  EXPECT_EQ(tasks.failures(kA), 1);
  tasks.CountLoss(kA);
  tasks.SetLost(kA);
  EXPECT_EQ(tasks.failures(kA), 0);
  EXPECT_TRUE(tasks.MayAdopt({kA, 1})) << "it may be heard of again";
  tasks.Adopt({kA, 1});
  EXPECT_EQ(tasks[kA].losses(), 0u);
  EXPECT_EQ(tasks.counts().losses, 0u);
  EXPECT_EQ(tasks.counts().attempts, 1u);
  EXPECT_FALSE(tasks.MayAdopt({kA, 1}));
  tasks.Adopt({kA, 4});
  EXPECT_EQ(tasks.failures(kA), 2) << "nobody told of 2 and 3";
  tasks.UseNumber({kA, 6});
  tasks.UseNumber({kA, 5});
  EXPECT_EQ(tasks[kA].attempts(), 6u);
  EXPECT_EQ(tasks.failures(kA), 2) << "5 and 6 cost nothing";

  tasks.AddAttempt(kB);
  tasks.CountLossAhead(kB);
  tasks.SetLost(kB);
  EXPECT_EQ(tasks.failures(kB), 0);
  tasks.AddAttempt(kB);
  EXPECT_EQ(tasks.failures(kB), 1);
  EXPECT_FALSE(tasks[kB].lost()) << "a new attempt: the old one is not taken in any more";
}

TEST(TaskTable, CountsGoNoFurtherThanTheyCan) {
  TaskTable tasks;
  tasks.Grow(2);
  tasks.Restore({.task = kA, .attempts = UINT16_MAX - 1, .losses = UINT8_MAX - 1, .last_attempt = 0});
  EXPECT_EQ(tasks[kA].attempts(), UINT16_MAX - 1u);
  for (int i = 0; i < 3; ++i) {
    tasks.AddAttempt(kA);
    EXPECT_EQ(tasks[kA].attempts(), uint32_t{UINT16_MAX});
    tasks.CountLoss(kA);
    EXPECT_EQ(tasks[kA].losses(), uint32_t{UINT8_MAX});
  }
  EXPECT_EQ(tasks.counts().losses, 3u);
  tasks.NoteUnheard(kA);
  EXPECT_FALSE(tasks[kA].lost()) << "there is no number for one more";
  tasks.Restore({.task = kB, .attempts = 70'000, .losses = 300, .last_attempt = 0});
  EXPECT_EQ(tasks[kB].attempts(), uint32_t{UINT16_MAX});
  EXPECT_EQ(tasks[kB].losses(), uint32_t{UINT8_MAX});
  tasks.Restore({.task = kB, .attempts = 1, .losses = 1, .last_attempt = 2});
  EXPECT_EQ(tasks[kB].attempts(), uint32_t{UINT16_MAX}) << "never fewer than known";
  EXPECT_EQ(tasks[kB].losses(), uint32_t{UINT8_MAX});
}

TEST(BackupList, ANodeThatWasFilledIsLeftAloneTwiceAsLongEachTime) {
  Backups backups;
  Time now{};
  EXPECT_FALSE(backups.Pauses(kTwo, now));
  for (const int minutes : {1, 2, 4, 8, 16, 32, 64, 64}) {
    backups.PauseFull(kTwo, now);
    now += std::chrono::minutes(minutes);
    EXPECT_TRUE(backups.Pauses(kTwo, now - Duration(1))) << minutes;
    EXPECT_FALSE(backups.Pauses(kTwo, now)) << minutes;
  }
  EXPECT_FALSE(backups.Pauses(kOne, now - Duration(1))) << "the other one";
  EXPECT_FALSE(backups.Pauses(kThree, now - Duration(1)));
  backups.Pause(kTwo, now + Duration(9));
  backups.Pause(kTwo, now + Duration(5));
  EXPECT_TRUE(backups.Pauses(kTwo, now + Duration(8))) << "no pause is cut short by another";
}

TEST(BackupList, EachFileIsLookedAtOnceInTheOrderInWhichTheyCame) {
  Backups backups;
  for (const uint32_t file : {7u, 3u, 7u, 5u}) backups.Add(FileId(file));
  EXPECT_EQ(backups.size(), 3u);
  EXPECT_EQ(backups.Take(), FileId(7));
  EXPECT_FALSE(backups.Has(FileId(7)));
  EXPECT_TRUE(backups.Has(FileId(3)));
  backups.Add(FileId(7));
  EXPECT_EQ(backups.Take(), FileId(3));
  EXPECT_EQ(backups.Take(), FileId(5));
  EXPECT_EQ(backups.FindBroken(), "");
  EXPECT_EQ(backups.Take(), FileId(7));
  EXPECT_EQ(backups.size(), 0u);
  EXPECT_FALSE(backups.Has(FileId(7)));
  EXPECT_EQ(backups.FindBroken(), "");
  backups.CountGiven(kTwo);
  backups.CountGiven(kTwo);
  EXPECT_EQ(backups.given(kTwo), 2u);
  EXPECT_EQ(backups.given(kOne), 0u);
  EXPECT_EQ(backups.given(kThree), 0u);
}

TEST(NodeTable, RoomIsWhatIsOpenAndNotKept) {
  NodeTable nodes;
  nodes.Grow(kTwo);
  nodes.Join(kOne, {4, 1, 100});
  nodes.Join(kTwo, {2, 0, 0});
  EXPECT_EQ(nodes.open_slots(), 6u);
  nodes.UpdateFree(kOne, 4);
  nodes.UpdateFree(kTwo, 0);
  EXPECT_EQ(nodes.free_slots(), 4u);
  const uint64_t room = nodes.room_version();
  nodes.Occupy(kOne, {.cores = 3, .devices = 1, .memory = 60});
  EXPECT_EQ(nodes[kOne].left().slots, 1u);
  EXPECT_EQ(nodes[kOne].left().devices, 0u);
  EXPECT_EQ(nodes[kOne].left().memory, 40u);
  EXPECT_FALSE(nodes[kOne].left().idle);
  nodes.UpdateFree(kOne, 1);
  EXPECT_EQ(nodes.free_slots(), 1u);
  EXPECT_EQ(nodes.room_version(), room) << "less room makes nobody look again";
  nodes.Release(kOne, {.cores = 3, .devices = 1, .memory = 60});
  EXPECT_TRUE(nodes[kOne].unused());
  EXPECT_TRUE(nodes[kOne].left().idle);
  nodes.UpdateFree(kOne, 4);
  EXPECT_GT(nodes.room_version(), room);
  nodes.SetAccess(kOne, Node::Access::kClosed);
  EXPECT_NE(nodes.FindBroken(), "") << "it is in the index still";
  nodes.UpdateFree(kOne, 0);
  EXPECT_EQ(nodes.FindBroken(), "");
  EXPECT_EQ(nodes.open_nodes(), 1u);
  EXPECT_FALSE(nodes[kOne].expected());
}

TEST(NodeTable, ARowOfFailuresNeedsThatOthersEndElsewhere) {
  NodeTable nodes;
  nodes.Grow(kOne);
  EXPECT_FALSE(nodes.CountFailure(kOne, 3));
  EXPECT_FALSE(nodes.CountFailure(kOne, 3));
  EXPECT_TRUE(nodes.CountFailure(kOne, 4));
  EXPECT_EQ(nodes[kOne].failures(), 3u);
  nodes.EndRow(kOne);
  EXPECT_FALSE(nodes.CountFailure(kOne, 4));
  EXPECT_EQ(nodes[kOne].failures(), 1u);
}

TEST(Holds, NoMoreNodesThanTasks) {
  Holds holds;
  holds.Grow(2);
  EXPECT_EQ(holds.CountOvertaken(kOne, 2), 2u);
  EXPECT_EQ(holds.CountOvertaken(kOne, 3), 5u);
  holds.Keep(kOne, 4);
  holds.Keep(kTwo, 4);
  EXPECT_EQ(holds.CountOvertaken(kOne, 1), 1u) << "anew";
  holds.Bound(4, 2);
  EXPECT_FALSE(holds.TakeTrim());
  holds.Bound(4, 1);
  EXPECT_TRUE(holds.TakeTrim());
  EXPECT_FALSE(holds.TakeTrim());
  EXPECT_TRUE(holds.Drop(kOne));
  EXPECT_FALSE(holds.Drop(kOne));
  EXPECT_EQ(holds.holders(4), 1u);
  EXPECT_EQ(holds.FindBroken(), "");
}

TEST(NodeTable, APartIsAllOfAWholeNode) {
  EXPECT_EQ(NodeTable::PartOf({.cores = 2, .devices = 1, .memory = 7}, {8, 4, 9}), (NodeCapacity{2, 1, 7}));
  EXPECT_EQ(NodeTable::PartOf({.cores = 2, .whole_node = true}, {8, 4, 9}), (NodeCapacity{8, 0, 0}));
}

TEST(Gangs, TheNextIsCountedAndThenGathered) {
  Gangs gangs;
  gangs.Grow(3);
  EXPECT_FALSE(gangs.waiting());
  gangs.SetFirst(kA);
  EXPECT_TRUE(gangs.waiting());
  gangs.CountOvertaken(3, 4);
  EXPECT_FALSE(gangs.to_look());
  gangs.CountOvertaken(1, 4);
  EXPECT_TRUE(gangs.to_look());
  EXPECT_TRUE(gangs.impatient(4));
  gangs.GatherFirst();
  EXPECT_FALSE(gangs.first());
  EXPECT_FALSE(gangs.impatient(4));
  ASSERT_NE(gangs.Find(kA), nullptr);
  EXPECT_TRUE(gangs.Find(kA)->nodes.empty());
  EXPECT_FALSE(gangs.keeps());
  gangs.SetFirst(kB);
  EXPECT_FALSE(gangs.impatient(4)) << "each has a patience of its own";
  EXPECT_TRUE(gangs.Forget(kB).empty());
  EXPECT_FALSE(gangs.first());
  EXPECT_TRUE(gangs.waiting());
}

TEST(Gangs, NodesKeepRoomForSeveral) {
  Gangs gangs;
  gangs.Grow(3);
  for (TaskId id : {kA, kB}) {
    gangs.SetFirst(id);
    gangs.GatherFirst();
  }
  gangs.Keep(0, {kOne, kThree}, {{2, 1, 10}, {3, 0, 10}});
  gangs.Keep(1, {kTwo, kThree}, {{1, 0, 0}, {1, 2, 5}});
  EXPECT_TRUE(gangs.Keeps(kThree));
  EXPECT_EQ(gangs.kept(kThree), (NodeCapacity{4, 2, 15}));
  EXPECT_EQ(gangs.kept_slots(), 7u);
  EXPECT_TRUE(gangs.Find(kB)->Has(kTwo));
  EXPECT_FALSE(gangs.Find(kB)->Has(kOne));
  EXPECT_EQ(gangs.Find(kA)->Find(kThree), 1u);
  EXPECT_EQ(gangs.FindBroken(), "");

  const order::Room::Free left = gangs.Beyond(kThree, {.slots = 6, .devices = 1, .memory = 20, .idle = true});
  EXPECT_EQ(left.slots, 2u);
  EXPECT_EQ(left.devices, 0u);
  EXPECT_EQ(left.memory, 5u);
  EXPECT_FALSE(left.idle);

  gangs.Expect(1, 0, Time(Duration(9)));
  gangs.Expect(1, 1, Time(Duration(7)));
  gangs.SumUp(1);
  EXPECT_EQ(gangs.Find(kB)->begins, Time(Duration(9)));
  EXPECT_EQ(gangs.again(), Time::max());
  gangs.SetAgain(1, Time(Duration(5)));
  EXPECT_EQ(gangs.again(), Time(Duration(5)));

  EXPECT_EQ(gangs.Unkeep(1), (Nodes{kTwo, kThree}));
  EXPECT_EQ(gangs.again(), Time::max());
  EXPECT_FALSE(gangs.Keeps(kTwo));
  EXPECT_EQ(gangs.kept(kThree), (NodeCapacity{3, 0, 10}));
  EXPECT_NE(gangs.Find(kB), nullptr) << "it has its place still";
  EXPECT_EQ(gangs.Forget(kA), (Nodes{kOne, kThree}));
  EXPECT_FALSE(gangs.keeps());
  EXPECT_TRUE(gangs.Beyond(kThree, {.slots = 6, .idle = true}).idle);
  EXPECT_EQ(gangs.FindBroken(), "");
}

TEST(Gangs, ThoseInFlightKnowTheirNodes) {
  Gangs gangs;
  gangs.Grow(3);
  gangs.Add(kA, {kTwo, kOne});
  gangs.Add(kA, {kTwo});
  EXPECT_EQ(gangs.followers(kOne), std::vector<TaskId>{kA});
  EXPECT_TRUE(gangs.followers(kTwo).empty());
  EXPECT_TRUE(gangs.LoseFollower(kTwo).empty()) << "the lead node's tasks are known without";
  EXPECT_FALSE(gangs.broken(kA));
  EXPECT_EQ(gangs.FindBroken(), "");
  EXPECT_EQ(gangs.LoseFollower(kOne), std::vector<TaskId>{kA});
  EXPECT_TRUE(gangs.broken(kA));
  EXPECT_TRUE(gangs.LoseFollower(kOne).empty());
  EXPECT_EQ(gangs.Remove(kA), Nodes{kTwo});
  EXPECT_FALSE(gangs.broken(kA));
  gangs.Add(kB, {kOne, kTwo, kThree}, true);
  EXPECT_TRUE(gangs.broken(kB));
  EXPECT_EQ(gangs.Remove(kB), (Nodes{kOne, kTwo, kThree}));
  EXPECT_TRUE(gangs.followers(kThree).empty());
  EXPECT_EQ(gangs.FindBroken(), "");
}

TEST(RunTimesTest, OfALaneAtALevelElseOfTheLevel) {
  using std::chrono::seconds;
  order::LevelTimes levels;
  RunTimes times(&levels);
  EXPECT_FALSE(times.Mean(3, 1));
  levels.Add(3, seconds(8));
  EXPECT_EQ(times.Mean(3, 1), seconds(8));
  times.Learn(3, 1, seconds(1));
  times.Learn(3, 1, seconds(3));
  EXPECT_EQ(times.Mean(3, 1), seconds(2));
  EXPECT_EQ(times.Mean(3, 2), seconds(8));
  EXPECT_FALSE(times.Mean(2, 1));
}

TEST(RunTimesTest, WhatBeganBeforeCountsFromThenOn) {
  order::LevelTimes levels;
  RunTimes times(&levels);
  times.Begin(kA, Time(Duration(5)));
  times.Begin(kB, Time(Duration(7)));
  EXPECT_EQ(times.since(kB), Time(Duration(7)));
  EXPECT_EQ(times.since(TaskId(9)), Time(Duration(5)));
  times.End(kB);
  EXPECT_EQ(times.since(kB), Time(Duration(5)));
  EXPECT_GT(times.memory(), 0u);
}

TEST(QueuesTest, AGangThatStandsApartIsReadyAndNotTaken) {
  graph::Graph graph;
  graph::Profile profile;
  profile.shape.nodes = 2;
  graph::TaskSpec spec;
  spec.profile = graph.AddProfile(profile);
  for (int i = 0; i < 2; ++i) graph.AddTask(spec);
  ASSERT_TRUE(graph.Seal().ok());
  const Options options{.policy = order::Policy::kHrf};
  order::LevelTimes times;
  TaskTable tasks;
  tasks.Grow(2);
  Lanes lanes;
  for (TaskId id : {kA, kB}) tasks.Describe(id, 0, lanes.Of(graph, id), 0);
  EXPECT_TRUE(lanes.gangs());
  Queues queues(options, &times, nullptr, &tasks, &lanes);
  for (TaskId id : {kA, kB}) queues.Enter(id, false);
  const order::Room::Free free{.slots = 9, .devices = 9, .memory = 0, .idle = true};
  const auto take = [&] { return queues.TakeGang(order::Room(lanes.table(), {9, 9, 0}, free)).task; };
  EXPECT_EQ(take(), kA);
  queues.SetApart(kA);
  EXPECT_TRUE(queues.IsApart(kA));
  EXPECT_EQ(queues.ready(lanes.Of(graph, kA)), 2u);
  EXPECT_EQ(queues.FindBroken(), "");
  queues.SetLevel(kA, 5);
  EXPECT_EQ(queues.FindBroken(), "") << "its level is its own";
  EXPECT_EQ(take(), kB);
  queues.Return(kB);
  queues.Return(kA);
  EXPECT_FALSE(queues.IsApart(kA));
  EXPECT_EQ(queues.FindBroken(), "");
  EXPECT_EQ(take(), kA) << "of the higher level";
  queues.SetApart(kA);
  queues.Leave(kA, false);
  tasks.MakeWaiting(kA);
  EXPECT_TRUE(queues.apart().empty());
  EXPECT_EQ(queues.FindBroken(), "");
}

TEST(QueuesTest, ALevelThatIsRaisedOverAndOverLeavesOneEntry) {
  const graph::Graph graph = TwoTasks();
  for (const order::Policy policy : {order::Policy::kFifo, order::Policy::kLifo, order::Policy::kHrf}) {
    const Options options{.policy = policy};
    order::LevelTimes times;
    TaskTable tasks;
    tasks.Grow(2);
    Lanes lanes;
    for (TaskId id : {kA, kB}) tasks.Describe(id, 0, lanes.Of(graph, id), 0);
    Queues queues(options, &times, nullptr, &tasks, &lanes);
    for (TaskId id : {kA, kB}) queues.Enter(id, false);
    size_t most = 0;
    for (Level level = 1; level < 2000; ++level) {
      queues.SetLevel(kA, level);
      if (level < 100) most = std::max(most, queues.memory());
      ASSERT_EQ(queues.FindBroken(), "");
    }
    EXPECT_EQ(tasks[kA].level(), 1999);
    EXPECT_LE(queues.memory(), most);
  }
}

TEST(LanesTest, EachKindOfTaskHasOneAndAllIsWell) {
  graph::Graph graph = TwoTasks();
  graph::Profile profile;
  profile.time_limit = std::chrono::seconds(1);
  graph::TaskSpec spec;
  spec.profile = graph.AddProfile(profile);
  const TaskId timed = graph.AddTask(spec);
  ASSERT_TRUE(graph.Seal().ok());
  Lanes lanes;
  EXPECT_EQ(lanes.Of(graph, kA), lanes.Of(graph, kB));
  EXPECT_FALSE(lanes.timed());
  EXPECT_NE(lanes.Of(graph, timed), lanes.Of(graph, kA));
  EXPECT_TRUE(lanes.timed());
  EXPECT_EQ(lanes.FindBroken(), "");
}

TEST(LanesTest, ATimeLimitHoweverShortIsOne) {
  graph::Graph graph;
  graph::Profile profile;
  profile.time_limit = Duration(1);
  graph::TaskSpec spec;
  spec.profile = graph.AddProfile(profile);
  graph.AddTask(spec);
  ASSERT_TRUE(graph.Seal().ok());
  Lanes lanes;
  lanes.Of(graph, kA);
  EXPECT_TRUE(lanes.timed());
  EXPECT_EQ(lanes.FindBroken(), "");
}

/// A lane each up to 128; from there on tasks share those that ask for a little more, never for less.
TEST(LanesTest, OfManyDifferentTasksThereAreFewWithALittleMoreRoom) {
  graph::Graph graph;
  constexpr uint32_t kTasks = 3000;
  const auto memory = [](uint32_t i) { return (uint64_t{1} << 30) + i * 1'000'003ull; };
  const auto time = [](uint32_t i) { return std::chrono::seconds(100 + i); };
  for (uint32_t i = 0; i < kTasks; ++i) {
    graph::Profile profile;
    if (i % 2 == 0) {
      profile.shape.memory = memory(i);
    } else {
      profile.time_limit = time(i);
    }
    graph::TaskSpec spec;
    spec.profile = graph.AddProfile(profile);
    graph.AddTask(spec);
  }
  ASSERT_TRUE(graph.Seal().ok());
  Lanes lanes;
  for (uint32_t i = 0; i < kTasks; ++i) {
    const order::Lane& lane = lanes[lanes.Of(graph, TaskId(i))];
    const double exact = i % 2 == 0 ? static_cast<double>(memory(i)) : Seconds(time(i));
    const double given = i % 2 == 0 ? static_cast<double>(lane.memory) : Seconds(lane.time_limit);
    if (i < 128) {
      ASSERT_EQ(given, exact) << i;
    } else {
      ASSERT_GE(given, exact) << i;
      ASSERT_LE(given, exact * (1 + 1.0 / 16)) << i;
    }
    ASSERT_EQ(i % 2 == 0 ? lane.time_limit.count() : static_cast<int64_t>(lane.memory), 0);
  }
  EXPECT_LE(lanes.size(), 128u + 2 * 5 * 16) << "sixteen between a number and its double";
  EXPECT_EQ(lanes.FindBroken(), "");
}

TEST(SentAhead, DepthAndTheLongestRow) {
  const Options options;
  TaskTable tasks;
  NodeTable nodes;
  Ahead ahead(options, &tasks);
  nodes.Grow(kTwo);
  nodes.Join(kOne, {2, 0, 0});
  nodes.Join(kTwo, {2, 0, 0});
  ahead.Grow(2);
  constexpr Duration kMillisecond = std::chrono::milliseconds(1);
  EXPECT_EQ(ahead.Depth(kOne, 2), 0u) << "nothing is known";
  ahead.NoteRun(kOne, 4 * kMillisecond);
  EXPECT_EQ(ahead.Depth(kOne, 2), 0u);
  EXPECT_FALSE(ahead.possible(kOne));
  ahead.SetRoundTrip(kOne, 2 * kMillisecond);
  EXPECT_EQ(ahead.Depth(kOne, 2), 2u) << "what ends in two round trips";
  ahead.NoteRun(kOne, 12 * kMillisecond);
  EXPECT_EQ(ahead.Depth(kOne, 2), 2u) << "an eighth of 4 ms more: 5 ms";
  ahead.SetRoundTrip(kOne, 1000 * kMillisecond);
  EXPECT_EQ(ahead.Depth(kOne, 2), options.max_ahead * 2);

  ahead.SetRoundTrip(kOne, kMillisecond);
  ahead.SetRoundTrip(kTwo, kMillisecond);
  EXPECT_EQ(ahead.Depth(kTwo, 2), 0u) << "nothing has ended there yet";
  ahead.NoteRun(kTwo, 4 * kMillisecond);
  EXPECT_FALSE(ahead.LongestRow(nodes, Time()));
  ahead.Add(kOne, kA);
  ahead.Add(kTwo, kA);
  ahead.Add(kTwo, kB);
  EXPECT_EQ(ahead.LongestRow(nodes, Time()), kTwo);
  ahead.CountRecall(kTwo);
  EXPECT_EQ(ahead.LongestRow(nodes, Time()), kOne) << "what was asked back waits no more";
  EXPECT_EQ(ahead.recalled(), 1u);
  EXPECT_FALSE(ahead.undisturbed(kTwo));
  ahead.CountAnswer(kTwo);
  EXPECT_TRUE(ahead.undisturbed(kTwo));
  ahead.Remove(kOne, kA);
  ahead.Remove(kTwo, kA);
  ahead.Remove(kTwo, kB);
  EXPECT_FALSE(ahead.some());
  EXPECT_FALSE(ahead.LongestRow(nodes, Time()));

  ahead.NoteHungry(kOne);
  ahead.NoteHungry(kOne);
  EXPECT_EQ(ahead.TakeHungry(), kOne);
  EXPECT_FALSE(ahead.TakeHungry());
}

TEST(Lanes, ImpossibleOnceNoNodeIsExpected) {
  graph::Graph graph;
  graph::Profile profile;
  profile.shape.cores = 8;
  graph::TaskSpec spec;
  spec.profile = graph.AddProfile(profile);
  graph.AddTask(spec);
  ASSERT_TRUE(graph.Seal().ok());
  NodeTable nodes;
  nodes.Grow(kTwo);
  nodes.Join(kOne, {4, 0, 0});
  nodes.Join(kTwo, {8, 0, 0});
  Lanes lanes;
  const order::LaneId lane = lanes.Of(graph, kA);
  EXPECT_EQ(lanes.Of(graph, kA), lane);
  EXPECT_EQ(lanes.size(), 1u);
  EXPECT_FALSE(lanes.FindImpossible(nodes));
  EXPECT_FALSE(lanes.FitsOpen(lane, nodes[kOne]));
  EXPECT_TRUE(lanes.FitsOpen(lane, nodes[kTwo]));
  nodes.SetAccess(kTwo, Node::Access::kGone);
  EXPECT_FALSE(lanes.FitsOpen(lane, nodes[kTwo]));
  EXPECT_FALSE(lanes.FindImpossible(nodes)) << "it may come back";
  nodes.ExpectNoMore();
  EXPECT_TRUE(lanes.FindImpossible(nodes));
  EXPECT_TRUE(lanes.impossible(lane));
  EXPECT_TRUE(lanes.gone(lane)) << "one could";
  nodes.Join(kTwo, {4, 0, 0});
  EXPECT_TRUE(lanes.FindImpossible(nodes));
  EXPECT_FALSE(lanes.gone(lane));
}

/// So few nodes that each of them can hold its part, where none can hold all.
TEST(Lanes, RanksAreSpreadWhereNoNodeCanHoldThem) {
  graph::Graph graph;
  graph::Profile profile;
  profile.ranks = 10;
  profile.shape = {.cores = 20, .devices = 10};
  graph::TaskSpec spec;
  spec.profile = graph.AddProfile(profile);
  graph.AddTask(spec);
  profile.ranks = 0;
  spec.profile = graph.AddProfile(profile);
  graph.AddTask(spec);
  ASSERT_TRUE(graph.Seal().ok());
  Lanes lanes;
  EXPECT_EQ(lanes.Of(graph, kA), lanes.Of(graph, kB)) << "as long as a node can hold it";
  NodeTable nodes;
  nodes.Grow(NodeId(4));
  for (uint32_t n = 0; n < 5; ++n) nodes.Join(NodeId(n), {n == 0 ? 12u : 6u, 10, 0});
  EXPECT_TRUE(lanes.FindImpossible(nodes));
  lanes.Spread(graph, nodes);
  const order::LaneId spread = lanes.Of(graph, kA);
  EXPECT_EQ(lanes[spread], (order::Lane{.cores = 6, .devices = 3, .nodes = 4}));
  EXPECT_FALSE(lanes.impossible(spread));
  EXPECT_TRUE(lanes.impossible(lanes.Of(graph, kB)));
  EXPECT_EQ(lanes[lanes.OfSpread(graph, kA, 5)], (order::Lane{.cores = 4, .devices = 2, .nodes = 5}));

  for (uint32_t n = 1; n < 5; ++n) nodes.SetAccess(NodeId(n), Node::Access::kGone);
  nodes.ExpectNoMore();
  EXPECT_TRUE(lanes.FindImpossible(nodes));
  lanes.Spread(graph, nodes);
  EXPECT_TRUE(lanes.impossible(lanes.Of(graph, kA)));
  EXPECT_TRUE(lanes.gone(lanes.Of(graph, kA)));
  nodes.Join(NodeId(1), {16, 10, 0});
  EXPECT_TRUE(lanes.FindImpossible(nodes));
  lanes.Spread(graph, nodes);
  EXPECT_EQ(lanes[lanes.Of(graph, kA)], (order::Lane{.cores = 10, .devices = 5, .nodes = 2}));
  EXPECT_EQ(lanes.FindBroken(), "");
}

TEST(Lanes, WhoseRanksMayBeSpread) {
  graph::Profile profile;
  EXPECT_FALSE(Lanes::MaySpread(profile));
  profile.ranks = 1;
  EXPECT_FALSE(Lanes::MaySpread(profile));
  profile.ranks = 2;
  EXPECT_TRUE(Lanes::MaySpread(profile));
  profile.shape.whole_node = true;
  EXPECT_FALSE(Lanes::MaySpread(profile));
  profile.shape = {.nodes = 2};
  EXPECT_FALSE(Lanes::MaySpread(profile));
}

/// What is said to be held is at least what there must be: of each part, when that part is large, and of all.
TEST(Memory, OfTheSchedulerCountsEveryPart) {
  constexpr uint32_t kMany = 16'384;  // capacities double: no more room than is used
  graph::Graph graph;
  const ProfileId profile = graph.AddProfile({});
  for (uint32_t i = 0; i < kMany; ++i) {
    graph::TaskSpec spec;
    spec.profile = profile;
    graph.AddTask(spec);
  }
  ASSERT_TRUE(graph.Seal().ok());
  TaskTable tasks;
  tasks.Grow(kMany);
  const size_t without_candidates = tasks.memory();
  EXPECT_GE(without_candidates, kMany * sizeof(Task));
  tasks.SetCandidates(TaskId(0), std::vector<NodeId>(kMany));
  EXPECT_GE(tasks.memory(), without_candidates + kMany * sizeof(NodeId));
  NodeTable nodes;
  nodes.Grow(NodeId(kMany - 1));
  const size_t without_tasks = nodes.memory();
  EXPECT_GE(without_tasks, kMany * sizeof(Node));
  for (uint32_t n = 0; n < kMany; ++n) nodes.Enter(NodeId(n), TaskId(n));
  EXPECT_GE(nodes.memory(), without_tasks + kMany * sizeof(TaskId));
  const Options options;
  Ahead ahead(options, &tasks);
  ahead.Grow(kMany);
  const size_t without_rows = ahead.memory();
  EXPECT_GE(without_rows, kMany * (sizeof(std::vector<TaskId>) + sizeof(Duration) + sizeof(double)));
  for (uint32_t i = 0; i < kMany; ++i) ahead.Add(NodeId(7), TaskId(i));
  EXPECT_GE(ahead.memory(), without_rows + kMany * sizeof(TaskId));
  Holds holds;
  holds.Grow(kMany);
  EXPECT_GE(holds.memory(), kMany * (sizeof(order::LaneId) + sizeof(uint32_t)));
  Gangs gangs;
  gangs.Grow(kMany);
  EXPECT_GE(gangs.memory(), kMany * (sizeof(NodeCapacity) + sizeof(std::vector<TaskId>)));

  Backups backups;
  for (uint32_t i = 0; i < kMany; ++i) backups.Add(FileId(i));
  // Of a list, and of a table with a pointer to the next.
  size_t of_backups = kMany * (2 * sizeof(FileId) + sizeof(void*));
  EXPECT_GE(backups.memory(), of_backups);
  of_backups = backups.memory() + kMany * sizeof(uint32_t);
  backups.CountGiven(NodeId(kMany - 1));
  EXPECT_GE(backups.memory(), of_backups);
  of_backups = backups.memory() + kMany * (sizeof(Time) + 1);
  backups.PauseFull(NodeId(kMany - 1), Time());
  EXPECT_GE(backups.memory(), of_backups);

  Scheduler scheduler(graph, options);
  std::vector<Event> events = {TasksAdded{TaskId(0), kMany}};
  for (uint32_t n = 0; n < kMany; ++n) events.push_back(NodeJoined{NodeId(n), {1, 0, 0}});
  std::vector<Action> actions;
  scheduler.HandleAll(Time(), events, &actions);
  EXPECT_GE(scheduler.MemoryWithoutText(), graph.MemoryWithoutText() + tasks.memory() + nodes.memory() +
                                               kMany * sizeof(order::ReadyQueue) + without_rows +
                                               holds.memory() + gangs.memory());
}

}  // namespace
}  // namespace harrow::core
