// Tasks that leave their nodes with checkpoints: as the allocation ends, nodes are drained, or somebody moves them.

#include <gtest/gtest.h>

#include "core/scheduler.h"
#include "support/told_scheduler.h"

namespace harrow::core {
namespace {

using std::chrono::seconds;
using test::ToldScheduler;

constexpr NodeCapacity kOneSlot{1, 0, 0}, kTwoSlots{2, 0, 0};

Options Plain() {
  Options options;
  options.policy = order::Policy::kFifo;
  options.max_ahead = 0;
  options.max_fetching_ahead = 0;
  return options;
}

graph::Profile Writes(Duration time = seconds(10)) {
  graph::Profile profile;
  profile.checkpoint.by = graph::Checkpointing::By::kApp;
  profile.checkpoint.time = time;
  profile.retries = 0;
  return profile;
}

TEST(LeavingTest, ACheckpointCostsNothing) {
  ToldScheduler s(Plain());
  s.profile = Writes();
  s.Add("a");
  EXPECT_EQ(s.Begin({kOneSlot}), "start a@0");
  for (uint32_t attempt = 1; attempt < 20; ++attempt) {
    EXPECT_EQ(s.scheduler().attempts(s["a"]), attempt);
    EXPECT_EQ(s.scheduler().counted_attempts(s["a"]), 1u);
    s.Started("a", 0);
    EXPECT_EQ(s.Ended("a", 0, Checkpointed{}), "start a@0");
  }
  EXPECT_EQ(s.Ended("a", 0, Lost{}), "start a@0");
  EXPECT_EQ(s.Ended("a", 0, Failed{}), "failed a, complete") << "it has no retries, as before";
}

TEST(LeavingTest, WhatRunsOnADrainedNodeIsAskedAndGoesOnElsewhere) {
  ToldScheduler s(Plain());
  s.profile = Writes();
  s.Add("a");
  s.profile = {};
  s.Add("plain");
  EXPECT_EQ(s.Begin({kTwoSlots}), "start a@0, start plain@0");
  s.Started("a", 0);
  s.Started("plain", 0);
  EXPECT_EQ(s.Tell(NodeDrained{NodeId(0)}), "ask a@0");
  EXPECT_EQ(s.Tell(NodeDrained{NodeId(0)}), "");
  EXPECT_EQ(s.Ended("a", 0, Checkpointed{}), "");
  EXPECT_EQ(s.Tell(NodeJoined{NodeId(1), kOneSlot}), "start a@1");
  EXPECT_EQ(s.Ended("plain", 0), "done plain");
  EXPECT_EQ(s.Ended("a", 1), "done a, complete");
}

TEST(LeavingTest, WhatMayBeBeginningIsAskedBackAndThenForACheckpoint) {
  ToldScheduler s(Plain());
  s.profile = Writes();
  s.Add("a");
  s.Add("b");
  EXPECT_EQ(s.Begin({kTwoSlots}), "start a@0, start b@0");
  EXPECT_EQ(s.Tell(NodeDrained{NodeId(0)}), "back a@0, back b@0");
  EXPECT_EQ(s.Started("a", 0), "ask a@0");
  EXPECT_EQ(s.Returned("b", 0), "");
  EXPECT_EQ(s.Tell(NodeJoined{NodeId(1), kTwoSlots}), "start b@1");
  EXPECT_EQ(s.Ended("a", 0, Checkpointed{}), "start a@1");
}

TEST(LeavingTest, AQuestionInVainLeavesItWhereItIs) {
  ToldScheduler s(Plain());
  s.profile = Writes();
  s.Add("a");
  s.Begin({kOneSlot});
  s.Started("a", 0);
  EXPECT_EQ(s.Tell(NodeDrained{NodeId(0)}), "ask a@0");
  EXPECT_EQ(s.Tell(CheckpointMissed{s.Latest("a")}), "");
  EXPECT_EQ(s.Ended("a", 0), "done a, complete");
}

TEST(LeavingTest, ItIsAskedBeforeTheAllocationEndsAndNotStartedAgain) {
  ToldScheduler s(Plain());
  s.profile = Writes(seconds(10));
  s.Add("a");
  s.Begin({kOneSlot});
  s.Started("a", 0);
  const Time end = s.now + seconds(100);
  EXPECT_EQ(s.Tell(EndTimeKnown{end}), "");
  s.now = end - seconds(10) - Duration(1);
  EXPECT_EQ(s.Tell(TimeCame{}), "");
  s.now = end - seconds(10);
  EXPECT_EQ(s.Tell(TimeCame{}), "ask a@0") << "nothing is known of how long it takes: all that it may";
  EXPECT_EQ(s.Ended("a", 0, Checkpointed{seconds(1)}), "skipped a (no time), complete") << "for the next session, or another server";
}

TEST(LeavingTest, HowLongTheyTookSaysWhenTheyAreAsked) {
  ToldScheduler s(Plain());
  s.profile = Writes(seconds(60));
  s.Add("a");
  s.Begin({kOneSlot});
  s.Started("a", 0);
  EXPECT_EQ(s.Ended("a", 0, Checkpointed{seconds(3)}), "start a@0");
  s.Started("a", 0);
  const Time end = s.now + seconds(1000);
  s.Tell(EndTimeKnown{end});
  s.now = end - seconds(8) - Duration(1);
  EXPECT_EQ(s.Tell(TimeCame{}), "");
  s.now = end - seconds(8);
  EXPECT_EQ(s.Tell(TimeCame{}), "ask a@0") << "twice as long, and 2 s";
}

TEST(LeavingTest, ItWakesInTimeForThat) {
  ToldScheduler s(Plain());
  s.profile = Writes(seconds(10));
  s.Add("a");
  s.Begin({kOneSlot});
  s.Started("a", 0);
  const Time end = s.now + seconds(100);
  std::vector<Action> actions;
  s.scheduler().Handle(s.now, EndTimeKnown{end}, &actions);
  ASSERT_EQ(actions.size(), 1u);
  EXPECT_EQ(std::get<WakeAt>(actions[0]).time, end - seconds(10));
}

TEST(LeavingTest, ItDoesNotWakeForWhatHasEnded) {
  ToldScheduler s(Plain());
  s.profile = Writes(seconds(10));
  s.Add("a");
  s.profile = {};
  s.Add("plain");
  s.Begin({kTwoSlots});
  s.Started("a", 0);
  s.Started("plain", 0);
  EXPECT_EQ(s.Ended("a", 0), "done a");
  std::vector<Action> actions;
  s.scheduler().Handle(s.now, EndTimeKnown{s.now + seconds(100)}, &actions);
  EXPECT_TRUE(actions.empty());
}

TEST(LeavingTest, MovedToANodeItWaitsForRoomThereAndForNoOther) {
  ToldScheduler s(Plain());
  s.profile = Writes();
  s.Add("a");
  s.profile = {};
  s.Add("b");
  EXPECT_EQ(s.Begin({kOneSlot, kOneSlot}), "start a@0, start b@1");
  s.Started("a", 0);
  s.Started("b", 1);
  EXPECT_EQ(s.Tell(MoveRequested{s["a"], NodeId(1)}), "ask a@0");
  EXPECT_TRUE(s.scheduler().IsMoving(s["a"]));
  EXPECT_EQ(s.Ended("a", 0, Checkpointed{}), "") << "not on the node that it left, which has room";
  EXPECT_EQ(s.Ended("b", 1), "done b, start a@1");
  EXPECT_FALSE(s.scheduler().IsMoving(s["a"]));
  EXPECT_NE(s.scheduler().Explain(s["a"]).text.find("it was moved there"), std::string::npos);
}

TEST(LeavingTest, AfterAMinuteItGoesOnAnywhere) {
  ToldScheduler s(Plain());
  s.profile = Writes();
  s.Add("a");
  s.profile = {};
  s.Add("b");
  s.Begin({kOneSlot, kOneSlot});
  s.Started("a", 0);
  s.Tell(MoveRequested{s["a"], NodeId(1)});
  EXPECT_EQ(s.Ended("a", 0, Checkpointed{}), "");
  s.now += seconds(60);
  EXPECT_EQ(s.Tell(TimeCame{}), "start a@0");
}

TEST(LeavingTest, WhereTheNodeIsGoneItGoesOnAnywhere) {
  ToldScheduler s(Plain());
  s.profile = Writes();
  s.Add("a");
  s.profile = {};
  s.Add("b");
  s.Begin({kOneSlot, kOneSlot});
  s.Started("a", 0);
  s.Tell(MoveRequested{s["a"], NodeId(1)});
  s.Ended("a", 0, Checkpointed{});
  EXPECT_EQ(s.Tell(NodeClosed{NodeId(1)}), "start a@0");
}

TEST(LeavingTest, MovedToAnotherServerItIsHeldUntilItIsTaken) {
  ToldScheduler s(Plain());
  s.profile = Writes();
  s.Add("a");
  s.Begin({kOneSlot});
  s.Started("a", 0);
  EXPECT_EQ(s.Tell(MoveRequested{s["a"], NodeId()}), "ask a@0");
  EXPECT_EQ(s.Ended("a", 0, Checkpointed{}), "");
  EXPECT_EQ(s.scheduler().state(s["a"]), TaskState::kDelayed);
  EXPECT_TRUE(s.scheduler().IsMoving(s["a"]));
  s.Tell(TasksTaken{{s["a"]}});
  EXPECT_EQ(s.scheduler().state(s["a"]), TaskState::kElsewhere);
  EXPECT_FALSE(s.scheduler().IsMoving(s["a"]));
  EXPECT_EQ(s.Tell(TasksGiven{{s["a"]}}), "start a@0") << "come back";
}

TEST(LeavingTest, IfNobodyTakesItItGoesOnHere) {
  ToldScheduler s(Plain());
  s.profile = Writes();
  s.Add("a");
  s.Begin({kOneSlot});
  s.Started("a", 0);
  s.Tell(MoveRequested{s["a"], NodeId()});
  s.Ended("a", 0, Checkpointed{});
  s.now += seconds(10);
  EXPECT_EQ(s.Tell(TimeCame{}), "start a@0");
}

TEST(LeavingTest, ALossOnTheWayIsAMoveNevertheless) {
  ToldScheduler s(Plain());
  s.profile = Writes();
  s.Add("a");
  s.Begin({kOneSlot});
  s.Started("a", 0);
  s.Tell(MoveRequested{s["a"], NodeId()});
  EXPECT_EQ(s.Ended("a", 0, Lost{}), "");
  EXPECT_EQ(s.scheduler().state(s["a"]), TaskState::kDelayed);
}

TEST(LeavingTest, WhatRunsAndWritesNoneStays) {
  ToldScheduler s(Plain());
  s.Add("a");
  s.Begin({kOneSlot, kOneSlot});
  s.Started("a", 0);
  EXPECT_EQ(s.Tell(MoveRequested{s["a"], NodeId(1)}), "");
  EXPECT_FALSE(s.scheduler().IsMoving(s["a"]));
  EXPECT_EQ(s.Tell(NodeDrained{NodeId(0)}), "");
}

TEST(LeavingTest, WhatIsCancelledOnTheWayIsCancelled) {
  ToldScheduler s(Plain());
  s.profile = Writes();
  s.Add("a");
  s.Begin({kOneSlot});
  s.Started("a", 0);
  s.Tell(MoveRequested{s["a"], NodeId()});
  EXPECT_EQ(s.Tell(CancelRequested{s["a"]}), "cancel a@0");
  EXPECT_EQ(s.Ended("a", 0, Checkpointed{}), "cancelled a, complete");
  EXPECT_FALSE(s.scheduler().IsMoving(s["a"]));
}

TEST(LeavingTest, WhenNothingMoreIsStartedItStaysOpen) {
  ToldScheduler s(Plain());
  s.profile = Writes();
  s.Add("a");
  s.Begin({kOneSlot});
  s.Started("a", 0);
  s.Tell(DrainRequested{});
  std::vector<Action> actions;
  s.scheduler().Handle(s.now, TaskEnded{s.Latest("a"), NodeId(0), Checkpointed{}, Duration(0)}, &actions);
  ASSERT_FALSE(actions.empty());
  EXPECT_EQ(std::get<TaskSettled>(actions[0]).reason, Reason::kInterrupted);
}

TEST(LeavingTest, AnAgentThatComesBackIsAskedAgain) {
  ToldScheduler s(Plain());
  s.profile = Writes();
  s.Add("a");
  s.Begin({kOneSlot});
  s.Started("a", 0);
  s.Tell(NodeDrained{NodeId(0)});
  EXPECT_EQ(s.Tell(NodeJoined{NodeId(0), kOneSlot}), "ask a@0");
}

}  // namespace
}  // namespace harrow::core
