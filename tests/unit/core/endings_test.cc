// What becomes of tasks: retries, losses, cancelling, skipping, stopping, restoring.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/scheduler.h"
#include "support/told_scheduler.h"

namespace harrow::core {
namespace {

using test::ToldScheduler;
const Failed kFailed{1, true};
const Failed kFinalFailure{1, false};

TEST(Endings, ChainToTheEnd) {
  ToldScheduler s;
  s.Add("A");
  s.Add("B", {"A"});
  EXPECT_EQ(s.Begin({{1, 0, 0}}), "start A@0");
  EXPECT_EQ(s.Started("A", 0), "");
  EXPECT_EQ(s.State("A"), TaskState::kRunning);
  EXPECT_EQ(s.Ended("A", 0), "done A, start B@0");
  EXPECT_EQ(s.Ended("B", 0), "done B, complete");
  EXPECT_EQ(s.scheduler().counts().attempts, 2u);
}

TEST(Endings, NothingToDoIsComplete) {
  ToldScheduler s;
  EXPECT_EQ(s.Tell(NodeJoined{NodeId(0), {1, 0, 0}}), "") << "it has not been told of any tasks yet";
  EXPECT_EQ(s.Begin({{1, 0, 0}}), "complete");
  EXPECT_EQ(s.Tell(TimeCame{}), "") << "once";
}

TEST(Endings, RetriesThenFailsAndSkipsWhatNeedsIt) {
  ToldScheduler s({.retries = 1});
  s.Add("A");
  s.Add("B", {"A"});
  s.Add("C", {"B"});
  EXPECT_EQ(s.Begin({{1, 0, 0}}), "start A@0");
  EXPECT_EQ(s.Ended("A", 0, kFailed), "start A@0");
  EXPECT_EQ(s.scheduler().attempts(s["A"]), 2u);
  EXPECT_EQ(s.Ended("A", 0, kFailed), "failed A, skipped B because A, skipped C because A, complete");
}

TEST(Endings, WhatOnlyWaitsRunsWhateverBecomesOfTheOther) {
  ToldScheduler s({.retries = 1});
  s.Add("A");
  s.Add("needs A", {"A"});
  s.Add("waits");
  s.AfterAny("waits", {"A", "needs A"});
  s.Add("needs waits", {"waits"});
  EXPECT_EQ(s.Begin({{1, 0, 0}}), "start A@0");
  EXPECT_EQ(s.Ended("A", 0, kFailed), "start A@0") << "it has not ended yet";
  EXPECT_EQ(s.Ended("A", 0, kFailed), "failed A, skipped needs A because A, start waits@0");
  EXPECT_EQ(s.Ended("waits", 0), "done waits, start needs waits@0");
}

TEST(Endings, WhatIsNeededAndWaitedForIsNeeded) {
  ToldScheduler s;
  s.Add("A");
  s.Add("B", {"A"});
  s.AfterAny("B", {"A"});
  s.Begin({{1, 0, 0}});
  EXPECT_EQ(s.Ended("A", 0, kFinalFailure), "failed A, skipped B because A, complete");
}

TEST(Endings, WhatOnlyWaitsRunsAfterACancelledTask) {
  ToldScheduler s;
  s.Add("A");
  s.Add("B");
  s.AfterAny("B", {"A"});
  s.Begin({});
  EXPECT_EQ(s.Tell(CancelRequested{s["A"]}), "cancelled A");
  EXPECT_EQ(s.Tell(NodeJoined{NodeId(0), {1, 0, 0}}), "start B@0");
}

TEST(Endings, WhatOnlyWaitsDoesNotOvertakeWhatTheNextRunBeginsAgain) {
  ToldScheduler s;
  s.Add("A");
  s.Add("needs A", {"A"});
  s.Add("waits");
  s.AfterAny("waits", {"needs A"});
  s.Begin({{1, 0, 0}});
  EXPECT_EQ(s.Ended("A", 0, Interrupted{}),
            "skipped A (interrupted), skipped needs A because A, skipped waits because A, complete");
  ToldScheduler t;
  t.profile.time_limit = std::chrono::hours(1);
  t.Add("A");
  t.profile = {};
  t.Add("waits");
  t.AfterAny("waits", {"A"});
  t.Tell(EndTimeKnown{t.now + std::chrono::minutes(1)});
  EXPECT_EQ(t.Begin({{1, 0, 0}}), "skipped A (no time), skipped waits because A, complete");
}

TEST(Endings, WhatOnlyWaitsRunsAfterWhatFailedBefore) {
  for (const auto as : {TaskRestored::As::kFailed, TaskRestored::As::kSkipped, TaskRestored::As::kCancelled,
                        TaskRestored::As::kDone}) {
    ToldScheduler s;
    s.Add("A");
    s.Add("B");
    s.AfterAny("B", {"A"});
    s.Add("C", {"A"});
    const bool done = as == TaskRestored::As::kDone;
    EXPECT_EQ(s.TellAll({s.Added(), TaskRestored{s["A"], as, 1, 0, 1}, NodeJoined{NodeId(0), {2, 0, 0}}}),
              done ? "start B@0, start C@0" : "skipped C because A, start B@0");
  }
}

TEST(Endings, ATaskThatIsAddedOnlyWaitsForWhatHasNotEnded) {
  ToldScheduler s;
  s.Add("A");
  s.Add("B");
  s.Begin({{2, 0, 0}});
  s.Ended("A", 0, kFinalFailure);
  s.Add("C");
  s.AfterAny("C", {"A", "B"});
  EXPECT_EQ(s.Tell(s.Added()), "");
  EXPECT_EQ(s.Ended("B", 0, kFinalFailure), "failed B, start C@0");
}

TEST(Endings, OwnRetriesGoBeforeTheRuns) {
  ToldScheduler s({.retries = 5});
  s.profile.retries = 0;
  s.Add("A");
  s.Begin({{1, 0, 0}});
  EXPECT_EQ(s.Ended("A", 0, kFailed), "failed A, complete");
}

TEST(Endings, WhatMayNotBeRetriedIsNot) {
  ToldScheduler s({.retries = 5});
  s.Add("A");
  s.Begin({{1, 0, 0}});
  EXPECT_EQ(s.Ended("A", 0, kFinalFailure), "failed A, complete");
}

TEST(Endings, LossesCountApartFromRetries) {
  ToldScheduler s({.retries = 0, .max_losses = 3});
  s.Add("A");
  s.Begin({{1, 0, 0}});
  EXPECT_EQ(s.Ended("A", 0, Lost{}), "start A@0");
  EXPECT_EQ(s.Ended("A", 0, Lost{}), "");
  s.now += std::chrono::seconds(1);
  EXPECT_EQ(s.Tell(TimeCame{}), "start A@0");
  EXPECT_EQ(s.scheduler().losses(s["A"]), 2u);
  EXPECT_EQ(s.Ended("A", 0, Lost{}), "failed A (lost), complete");
}

/// A caller that sets no option.
TEST(Endings, ByDefaultATaskFailsOnceMayBeLostFourTimesAndTheRunGoesOn) {
  ToldScheduler s;
  for (int i = 0; i < 12; ++i) s.Add("T" + std::to_string(i));
  s.Add("A");
  s.Begin({{1, 0, 0}, {1, 0, 0}});
  const auto end = [&](uint32_t node, const Outcome& outcome) {
    for (const char* name : {"A", "T0", "T1", "T2", "T3", "T4", "T5", "T6", "T7", "T8", "T9", "T10", "T11"}) {
      if (s.State(name) != TaskState::kSent || s.scheduler().node(s[name]) != NodeId(node)) continue;
      const std::string said = s.Ended(name, node, outcome, std::chrono::milliseconds(5));
      return said.substr(0, said.find(','));
    }
    return std::string("none");
  };
  const uint32_t here = s.scheduler().node(s["A"]).value, there = 1 - here;
  for (int i = 0; i < 11; ++i) EXPECT_THAT(end(there, kFailed), ::testing::StartsWith("failed T")) << i;
  EXPECT_EQ(s.scheduler().counts().failed, 11u) << "neither the run nor the node is stopped";
  for (int loss = 1; loss <= 5; ++loss) {
    s.now += std::chrono::minutes(1);
    s.Tell(TimeCame{});
    ASSERT_EQ(s.State("A"), TaskState::kSent) << loss;
    s.Ended("A", s.scheduler().node(s["A"]).value, Lost{});
  }
  EXPECT_EQ(s.State("A"), TaskState::kFailed);
  EXPECT_EQ(s.scheduler().losses(s["A"]), 5u);
}

TEST(Endings, LostNodeLosesItsTasksAndComesBack) {
  ToldScheduler s;
  s.Add("A");
  s.Begin({{1, 0, 0}});
  s.Started("A", 0);
  EXPECT_EQ(s.Tell(NodeLost{NodeId(0)}), "");
  EXPECT_EQ(s.State("A"), TaskState::kReady);
  EXPECT_EQ(s.Tell(NodeJoined{NodeId(0), {1, 0, 0}}), "start A@0");
  EXPECT_EQ(s.scheduler().attempts(s["A"]), 2u);
  EXPECT_EQ(s.Tell(TaskEnded{{s["A"], 1}, NodeId(0), kFailed, Duration(1)}), "")
      << "the first attempt's end, late";
  EXPECT_EQ(s.Tell(TaskEnded{{s["A"], 2}, NodeId(0), Done{}, Duration(1)}), "done A, complete");
}

TEST(Endings, InterruptedCostsNoRetryAndIsNotStartedAgain) {
  ToldScheduler s({.retries = 3});
  s.Add("A");
  s.Add("B", {"A"});
  s.Begin({{1, 0, 0}});
  EXPECT_EQ(s.Ended("A", 0, Interrupted{}), "skipped A (interrupted), skipped B because A, complete");
}

TEST(Endings, CancelInEveryState) {
  ToldScheduler s({.policy = order::Policy::kFifo});
  s.Add("A");
  s.Add("B");
  s.Add("C", {"A"});
  s.Add("D", {"C"});
  EXPECT_EQ(s.Begin({{1, 0, 0}}), "start A@0");
  EXPECT_EQ(s.Tell(CancelRequested{s["B"]}), "cancelled B");
  EXPECT_EQ(s.Tell(CancelRequested{s["C"]}), "cancelled C, skipped D because C");
  EXPECT_EQ(s.Tell(CancelRequested{s["A"]}), "cancel A@0");
  EXPECT_EQ(s.Tell(CancelRequested{s["A"]}), "") << "once is enough";
  EXPECT_EQ(s.Ended("A", 0, Cancelled{}), "cancelled A, complete");
}

TEST(Endings, DoneBeforeTheCancelArrived) {
  ToldScheduler s;
  s.Add("A");
  s.Begin({{1, 0, 0}});
  EXPECT_EQ(s.Tell(CancelRequested{s["A"]}), "cancel A@0");
  EXPECT_EQ(s.Ended("A", 0), "done A, complete");
}

TEST(Endings, CancelledTaskIsNotRetried) {
  ToldScheduler s({.retries = 9});
  s.Add("A");
  s.Begin({{1, 0, 0}});
  s.Tell(CancelRequested{s["A"]});
  EXPECT_EQ(s.Ended("A", 0, kFailed), "cancelled A, complete");
}

TEST(Endings, FailFastEndsWhatRuns) {
  ToldScheduler s({.policy = order::Policy::kFifo, .fail_fast = true});
  for (const char* name : {"A", "B", "C"}) s.Add(name);
  EXPECT_EQ(s.Begin({{2, 0, 0}}), "start A@0, start B@0");
  EXPECT_EQ(s.Ended("A", 0, kFailed), "failed A, skipped C (stopped) because A, cancel B@0");
  EXPECT_EQ(s.Ended("B", 0, Cancelled{}), "cancelled B, complete");
}

TEST(Endings, MaxFailuresLetsWhatRunsEnd) {
  ToldScheduler s({.policy = order::Policy::kFifo, .retries = 1, .max_failures = 2});
  for (const char* name : {"A", "B", "C", "D"}) s.Add(name);
  EXPECT_EQ(s.Begin({{3, 0, 0}}), "start A@0, start B@0, start C@0");
  EXPECT_EQ(s.Ended("A", 0, kFinalFailure), "failed A, start D@0");
  EXPECT_EQ(s.Ended("B", 0, kFinalFailure), "failed B");
  EXPECT_EQ(s.Ended("C", 0, kFailed), "failed C") << "nothing is tried again";
  EXPECT_EQ(s.Ended("D", 0), "done D, complete");
}

TEST(Endings, Drain) {
  ToldScheduler s({.policy = order::Policy::kFifo});
  s.Add("A");
  s.Add("B", {"A"});
  s.Add("C");
  EXPECT_EQ(s.Begin({{1, 0, 0}}), "start A@0");
  EXPECT_EQ(s.Tell(DrainRequested{}), "skipped B (stopped), skipped C (stopped)");
  EXPECT_EQ(s.Ended("A", 0), "done A, complete");
}

TEST(Endings, WhatDoesNotFitTheTimeLeftIsNotStarted) {
  ToldScheduler s({.policy = order::Policy::kFifo});
  s.profile.time_limit = std::chrono::minutes(10);
  s.Add("long");
  s.profile.time_limit = std::chrono::minutes(5);
  s.Add("short");
  s.Tell(EndTimeKnown{Time(std::chrono::minutes(8))});
  EXPECT_EQ(s.Begin({{1, 0, 0}}), "start short@0");
  EXPECT_EQ(s.Tell(EndTimeKnown{Time(std::chrono::minutes(20))}), "");
  EXPECT_EQ(s.Ended("short", 0), "done short, start long@0") << "the allocation was given more time";
  EXPECT_EQ(s.Ended("long", 0, Lost{}), "start long@0");
  s.now = Time(std::chrono::minutes(11));
  EXPECT_EQ(s.Ended("long", 0, Lost{}), "");
  s.now += std::chrono::seconds(1);
  EXPECT_EQ(s.Tell(TimeCame{}), "skipped long (no time), complete");
}

TEST(Endings, ExactlyEnoughTime) {
  ToldScheduler s;
  s.profile.time_limit = std::chrono::minutes(10);
  s.Add("A");
  s.Tell(EndTimeKnown{Time(std::chrono::minutes(10))});
  EXPECT_EQ(s.Begin({{1, 0, 0}}), "start A@0");
}

TEST(Endings, Restored) {
  ToldScheduler s({.policy = order::Policy::kFifo, .retries = 1});
  s.Add("A");
  s.Add("B", {"A"});
  s.Add("C");
  s.Add("D", {"C"});
  s.Add("E");
  using As = TaskRestored::As;
  EXPECT_EQ(s.TellAll({s.Added(), TaskRestored{s["A"], As::kDone}, TaskRestored{s["C"], As::kFailed},
                       TaskRestored{s["E"], As::kOpen, 1}, NodeJoined{NodeId(0), {2, 0, 0}}}),
            "skipped D because C, start B@0, start E@0");
  EXPECT_EQ(s.scheduler().attempts(s["E"]), 2u);
  EXPECT_EQ(s.Ended("E", 0, kFailed), "failed E") << "its retry was used up before";
  EXPECT_EQ(s.Ended("B", 0), "done B, complete");
}

TEST(Endings, RunningTaskOfAnEarlierServerIsAdopted) {
  ToldScheduler s({.policy = order::Policy::kFifo});
  s.Add("A");
  s.Add("B");
  EXPECT_EQ(s.TellAll({s.Added(), NodeJoined{NodeId(0), {1, 0, 0}}, TaskStarted{{s["B"], 3}, NodeId(0)}}),
            "");
  EXPECT_EQ(s.State("B"), TaskState::kRunning);
  EXPECT_EQ(s.Tell(TaskEnded{{s["B"], 3}, NodeId(0), Done{}, Duration(1)}), "done B, start A@0");
}

TEST(Endings, ResultOfATaskThatWasNotAskedForCounts) {
  ToldScheduler s({.policy = order::Policy::kFifo});
  s.Add("A");
  s.Add("B");
  EXPECT_EQ(s.Begin({{1, 0, 0}, {0, 0, 0}}), "start A@0");
  EXPECT_EQ(s.Tell(TaskEnded{{s["B"], 1}, NodeId(1), Done{}}), "done B");
  EXPECT_EQ(s.Tell(TaskEnded{{s["A"], 1}, NodeId(1), Done{}}), "") << "it is at another node";
  EXPECT_EQ(s.Ended("A", 0), "done A, complete");
  EXPECT_EQ(s.Tell(TaskEnded{{s["A"], 1}, NodeId(0), Done{}}), "") << "told twice";
}

TEST(Endings, TaskThatRunsTwiceIsEndedWhereItIsNotWanted) {
  ToldScheduler s;
  s.Add("A");
  s.Begin({{1, 0, 0}, {1, 0, 0}});
  const uint32_t here = s.scheduler().node(s["A"]).value;
  EXPECT_EQ(s.Started("A", 1 - here), "cancel A@" + std::to_string(1 - here) + " (lost)");
}

// A node with a broken mount fails its tasks in no time, and would have them all before another has ended
// one.
/// Tasks that work for a while and fail say nothing against their node, however many there are.
TEST(Endings, NodeIsNotBadWhenTasksFailEverywhere) {
  ToldScheduler s({.policy = order::Policy::kFifo, .bad_node_failures = 2});
  for (int i = 0; i < 20; ++i) s.Add("T" + std::to_string(i));
  s.Begin({{1, 0, 0}, {1, 0, 0}});
  for (int i = 0; i < 20; ++i) {
    const std::string name = "T" + std::to_string(i);
    EXPECT_EQ(s.Ended(name, s.scheduler().node(s[name]).value, kFailed, Duration(1)).find("aside"),
              std::string::npos);
  }
}

TEST(Endings, TasksThatFitNoNodeFailWhenAllAreThere) {
  ToldScheduler s({.policy = order::Policy::kFifo});
  s.profile.shape.cores = 8;
  s.Add("wide");
  s.Add("wide2", {"wide"});
  s.profile.shape = {};
  s.profile.shape.memory = 5000;
  s.Add("big");
  s.profile.shape = {};
  s.profile.shape.nodes = 3;
  s.Add("gang");
  EXPECT_EQ(s.Begin({{4, 0, 4000}, {4, 0, 4000}}), "");
  EXPECT_EQ(s.Tell(AllNodesJoined{}),
            "failed wide (fits nowhere), skipped wide2 because wide, failed big (fits nowhere), failed gang "
            "(fits nowhere), complete");
}

TEST(Endings, WhatOnlyAClosedNodeHasIsFoundMissing) {
  ToldScheduler s({.policy = order::Policy::kFifo, .retries = 5});
  s.profile.shape.devices = 1;
  s.Add("G0");
  s.Add("G1");
  s.Add("G2", {"G1"});
  s.Begin({{1, 1, 0}, {1, 0, 0}});
  s.Tell(AllNodesJoined{});
  EXPECT_EQ(s.Tell(NodeClosed{NodeId(0)}), "failed G1 (fits nowhere), skipped G2 because G1");
  EXPECT_EQ(s.Ended("G0", 0, kFailed), "failed G0 (fits nowhere), complete") << "nowhere to try it again";
}

TEST(Endings, TaskWhoseFailureClosesTheOnlyNodeForItHasFailed) {
  ToldScheduler s({.policy = order::Policy::kFifo, .fail_fast = true, .bad_node_failures = 1});
  s.profile.shape.devices = 1;
  s.Add("G0");
  s.Add("G1");
  s.profile = {};
  s.Add("P");
  s.Begin({{1, 1, 0}, {1, 0, 0}});
  s.Tell(AllNodesJoined{});
  EXPECT_EQ(s.Ended("P", 1), "done P");
  s.Add("Q");
  s.Tell(s.Added());
  s.Ended("Q", 1);
  EXPECT_EQ(s.Ended("G0", 0, kFinalFailure, Duration(1)).find("cancelled G0"), std::string::npos);
  EXPECT_EQ(s.State("G0"), TaskState::kFailed);
}

TEST(Endings, LostNodeMayComeBackUntilAllAreSaidToBeThere) {
  ToldScheduler s({.policy = order::Policy::kFifo});
  s.profile.shape.devices = 1;
  s.Add("G0");
  s.Add("G1");
  s.Begin({{1, 1, 0}, {1, 0, 0}});
  s.Tell(AllNodesJoined{});
  EXPECT_EQ(s.Tell(NodeLost{NodeId(0)}), "");
  EXPECT_EQ(s.State("G1"), TaskState::kReady);
  EXPECT_EQ(s.Tell(NodeJoined{NodeId(0), {1, 1, 0}}), "start G1@0");
  EXPECT_EQ(s.Tell(NodeLost{NodeId(0)}), "");
  EXPECT_EQ(s.Tell(AllNodesJoined{}), "skipped G0 (nodes gone), skipped G1 (nodes gone), complete");
}

/// A has been lost on node 0 in attempt 1, and is there again in attempt 2.
ToldScheduler SecondAttempt(Options options = {}) {
  ToldScheduler s(options);
  s.Add("A");
  s.Add("B", {"A"});
  s.Begin({{1, 0, 0}});
  s.Started("A", 0);
  EXPECT_EQ(s.Ended("A", 0, Lost{}), "start A@0");
  EXPECT_EQ(s.scheduler().attempts(s["A"]), 2u);
  return s;
}

TEST(Attempts, FailureOfAnOldOneIsNotThatOfTheNew) {
  ToldScheduler s = SecondAttempt();
  for (const Outcome& end :
       {Outcome(kFailed), Outcome(Lost{}), Outcome(Cancelled{}), Outcome(Interrupted{})}) {
    EXPECT_EQ(s.Tell(TaskEnded{{s["A"], 1}, NodeId(0), end, Duration(1)}), "");
    EXPECT_EQ(s.State("A"), TaskState::kSent);
  }
  EXPECT_EQ(s.scheduler().losses(s["A"]), 1u);
  EXPECT_EQ(s.Tell(TaskEnded{{s["A"], 2}, NodeId(0), kFailed, Duration(1)}),
            "failed A, skipped B because A, complete");
}

TEST(Attempts, ResultOfAnOldOneIsNotTakenForThatOfTheNew) {
  ToldScheduler s = SecondAttempt();
  EXPECT_EQ(s.Tell(TaskEnded{{s["A"], 1}, NodeId(0), Done{}, Duration(1)}), "")
      << "the new one removes its files";
  EXPECT_EQ(s.Tell(TaskEnded{{s["A"], 2}, NodeId(0), Done{}, Duration(1)}), "done A, start B@0");
}

TEST(Attempts, StartOfAnOldOneSaysNothingOfTheNew) {
  ToldScheduler s = SecondAttempt();
  EXPECT_EQ(s.Tell(TaskStarted{{s["A"], 1}, NodeId(0)}), "");
  EXPECT_EQ(s.State("A"), TaskState::kSent);
  EXPECT_EQ(s.Tell(TaskStarted{{s["A"], 2}, NodeId(0)}), "");
  EXPECT_EQ(s.State("A"), TaskState::kRunning);
}

TEST(Attempts, ReturnOfAnOldOneDoesNotTakeTheNewBack) {
  ToldScheduler s = SecondAttempt();
  EXPECT_EQ(s.Tell(TaskReturned{{s["A"], 1}, NodeId(0)}), "");
  EXPECT_EQ(s.State("A"), TaskState::kSent);
  EXPECT_EQ(s.Tell(TaskReturned{{s["A"], 2}, NodeId(0)}), "start A@0");
  EXPECT_EQ(std::get<StartTask>(s.last()[0]).attempt.number, 2u)
      << "it had not begun: the number is not used up";
}

TEST(Attempts, AnEndWithoutANumberIsNobodys) {
  ToldScheduler s = SecondAttempt();
  EXPECT_EQ(s.Tell(TaskStarted{{s["A"], 0}, NodeId(0)}), "");
  EXPECT_EQ(s.State("A"), TaskState::kSent);
  EXPECT_EQ(s.Tell(TaskEnded{{s["A"], 0}, NodeId(0), Done{}}), "");
  EXPECT_EQ(s.State("A"), TaskState::kSent);
}

TEST(SilentNodes, KeepWhatTheyHaveAndGetNothingMore) {
  ToldScheduler s({.policy = order::Policy::kFifo});
  s.Add("A");
  s.Add("B");
  s.Add("C");
  s.Begin({{1, 0, 0}, {1, 0, 0}});
  EXPECT_EQ(s.Tell(NodeSilent{NodeId(0)}), "");
  EXPECT_EQ(s.State("A"), TaskState::kSent);
  EXPECT_EQ(s.Ended("B", 1), "done B, start C@1");
  EXPECT_EQ(s.Ended("A", 0), "done A") << "heard of by another way; still nothing more is started there";
  s.Add("D");
  EXPECT_EQ(s.Tell(s.Added()), "") << "node 1 is busy";
  EXPECT_EQ(s.Tell(NodeJoined{NodeId(0), {1, 0, 0}}), "start D@0");
}

TEST(SilentNodes, AreGivenMoreBesideWhatRunsThereWhenTheyAreBack) {
  ToldScheduler s({.policy = order::Policy::kFifo});
  s.Add("A");
  s.Begin({{2, 0, 0}});
  s.Started("A", 0);
  s.Tell(NodeSilent{NodeId(0)});
  s.Add("B");
  EXPECT_EQ(s.Tell(s.Added()), "");
  EXPECT_EQ(s.Tell(NodeJoined{NodeId(0), {2, 0, 0}}), "start B@0");
}

TEST(SilentNodes, AreAskedAgainForWhatMayNotHaveArrived) {
  ToldScheduler s;
  s.Add("A");
  s.Add("B");
  s.Begin({{2, 0, 0}});
  s.Started("A", 0);
  EXPECT_EQ(s.Tell(CancelRequested{s["A"]}), "cancel A@0");
  s.Tell(NodeSilent{NodeId(0)});
  EXPECT_EQ(s.Tell(NodeJoined{NodeId(0), {2, 0, 0}}), "cancel A@0");
  EXPECT_EQ(s.Ended("A", 0, Cancelled{}), "cancelled A");
  EXPECT_EQ(s.Tell(NodeJoined{NodeId(0), {2, 0, 0}}), "") << "nothing is asked of it any more";
}

TEST(SilentNodes, AreAskedAgainToGiveBackWhatWasSentAhead) {
  ToldScheduler s({.policy = order::Policy::kFifo});
  for (const char* name : {"A", "B", "C", "D"}) s.Add(name);
  s.Begin({{1, 0, 0}});
  s.Tell(RoundTripMeasured{NodeId(0), std::chrono::milliseconds(1)});
  EXPECT_EQ(s.Ended("A", 0, Done{}, std::chrono::milliseconds(1)), "done A, start B@0, ahead C@0, ahead D@0");
  EXPECT_EQ(s.Tell(CancelRequested{s["C"]}), "back C@0");
  s.Tell(NodeSilent{NodeId(0)});
  EXPECT_EQ(s.Tell(NodeJoined{NodeId(0), {1, 0, 0}}), "back C@0");
  EXPECT_EQ(s.Returned("C", 0), "cancelled C");
  EXPECT_EQ(s.Tell(NodeJoined{NodeId(0), {1, 0, 0}}), "");
}

TEST(Endings, WhatNobodyKnowsIsNotHeard) {
  for (const bool local : {false, true}) {
    ToldScheduler s({.shared_files = !local, .local_files = local});
    s.Add("P", {}, {"in"}, {"out"});
    s.Begin({{1, 0, 0}});
    s.Tell(FileStored{s.File("in"), NodeId(0), 1});
    const TaskId no_task(1);
    const FileId no_file(2);
    const NodeId no_node(1);
    const AttemptId no_attempt{no_task, 1};
    for (const Event& event :
         std::vector<Event>{NodeJoined{NodeId(), {1, 0, 0}},
                            NodeHungUp{no_node},
                            NodeSilent{no_node},
                            NodeLost{no_node},
                            NodeClosed{no_node},
                            TasksAdded{TaskId(1), 5},
                            TaskRestored{.task = no_task},
                            AttemptMayBeOut{no_task},
                            TaskStarted{no_attempt, NodeId(0)},
                            TaskEnded{no_attempt, NodeId(0), Done{}},
                            TaskReturned{no_attempt, NodeId(0)},
                            FileStored{no_file, NodeId(0), 1},
                            FileLost{no_file, NodeId(0)},
                            FileShared{no_file},
                            FileAbsent{no_file},
                            CancelRequested{no_task},
                            RoundTripMeasured{no_node, Duration(5)},
                            TaskStarted{{s["P"], 2}, no_node},
                            TaskEnded{{s["P"], 2}, no_node, Done{}},
                            CopyFailed{s.File("in"), no_node, NodeId(0), CopyFailed::Why::kNoRoom}}) {
      EXPECT_EQ(s.Tell(event), "") << event.index();
    }
    EXPECT_FALSE(s.scheduler().MayAdopt(no_attempt));
    EXPECT_EQ(s.scheduler().attempts(no_task), 0u);
    EXPECT_EQ(s.scheduler().losses(no_task), 0u);
    EXPECT_FALSE(s.scheduler().node(no_task));
    EXPECT_THAT(s.Ended("P", 0), ::testing::HasSubstr("done P, complete"));
  }
}

TEST(SilentNodes, AreLostWithWhatIsThere) {
  ToldScheduler s;
  s.Add("A");
  s.Begin({{1, 0, 0}, {1, 0, 0}});
  s.Started("A", 0);
  EXPECT_EQ(s.Tell(NodeSilent{NodeId(0)}), "");
  EXPECT_EQ(s.Tell(NodeLost{NodeId(0)}), "start A@1");
  EXPECT_EQ(s.Latest("A").number, 2u);
}

TEST(LostAttempts, GoOnWhereTheyAreWhileNothingWasStartedSince) {
  ToldScheduler s({.retries = 0});
  s.Add("A");
  s.Begin({{1, 0, 0}});
  s.Started("A", 0);
  EXPECT_EQ(s.Tell(NodeLost{NodeId(0)}), "");
  EXPECT_EQ(s.scheduler().losses(s["A"]), 1u);
  EXPECT_EQ(s.TellAll({NodeJoined{NodeId(0), {1, 0, 0}}, TaskStarted{{s["A"], 1}, NodeId(0)}}), "");
  EXPECT_EQ(s.State("A"), TaskState::kRunning);
  EXPECT_EQ(s.scheduler().losses(s["A"]), 0u) << "it was none";
  EXPECT_EQ(s.scheduler().counts().losses, 0u);
  EXPECT_EQ(s.scheduler().counts().attempts, 1u);
  EXPECT_EQ(s.Ended("A", 0, kFailed), "failed A, complete") << "its only attempt, and there are no retries";
}

TEST(LostAttempts, ThatEndedMeanwhileCount) {
  ToldScheduler s;
  s.Add("A");
  s.Begin({{1, 0, 0}});
  s.Tell(NodeLost{NodeId(0)});
  EXPECT_EQ(s.TellAll({NodeJoined{NodeId(0), {1, 0, 0}}, TaskEnded{{s["A"], 1}, NodeId(0), Done{}}}),
            "done A, complete");
}

TEST(LostAttempts, DoNotGoOnBesideTheNext) {
  ToldScheduler s;
  s.Add("A");
  s.Begin({{1, 0, 0}, {1, 0, 0}});
  EXPECT_EQ(s.Tell(NodeLost{NodeId(0)}), "start A@1");
  s.Tell(NodeJoined{NodeId(0), {1, 0, 0}});
  EXPECT_EQ(s.Tell(TaskStarted{{s["A"], 1}, NodeId(0)}), "cancel A@0 (lost)");
  EXPECT_EQ(std::get<CancelTask>(s.last()[0]).attempt.number, 1u);
  EXPECT_EQ(s.Tell(TaskEnded{{s["A"], 1}, NodeId(0), Done{}}), "") << "the next may have removed its outputs";
  EXPECT_EQ(s.Ended("A", 1), "done A, complete");
}

TEST(LostAttempts, OfWhichNobodyToldAreTakenInWhileNothingWasStartedSince) {
  for (const bool adopted : {true, false}) {
    ToldScheduler s({.retries = 1});
    s.Add("A");
    s.TellAll({s.Added(), TaskRestored{s["A"], TaskRestored::As::kOpen, 1}, AttemptMayBeOut{s["A"]}});
    EXPECT_EQ(s.scheduler().attempts(s["A"]), 2u);
    EXPECT_FALSE(s.scheduler().MayAdopt({s["A"], 1}));
    EXPECT_TRUE(s.scheduler().MayAdopt({s["A"], 2}));
    if (adopted) {
      EXPECT_EQ(s.TellAll({NodeJoined{NodeId(0), {1, 0, 0}}, TaskStarted{{s["A"], 2}, NodeId(0)}}), "");
      EXPECT_EQ(s.State("A"), TaskState::kRunning);
    } else {
      EXPECT_EQ(s.Tell(NodeJoined{NodeId(0), {1, 0, 0}}), "start A@0");
      EXPECT_EQ(s.Latest("A").number, 3u);
      EXPECT_FALSE(s.scheduler().MayAdopt({s["A"], 2}));
    }
    EXPECT_EQ(s.scheduler().counts().attempts, 1u);
    EXPECT_EQ(s.scheduler().counts().losses, 0u);
    EXPECT_EQ(s.Ended("A", 0, kFailed), "failed A, complete") << "the second that counts";
  }
}

TEST(LostAttempts, InARowAreSpaced) {
  ToldScheduler s({.max_losses = 9});
  s.Add("A");
  s.Begin({{1, 0, 0}});
  const auto lose = [&] { return s.TellAll({NodeLost{NodeId(0)}, NodeJoined{NodeId(0), {1, 0, 0}}}); };
  EXPECT_EQ(lose(), "start A@0") << "the first is tried again at once";
  Time due{};
  for (const int pause : {1, 2, 4, 8, 16, 32, 32}) {
    EXPECT_EQ(lose(), "");
    ASSERT_FALSE(s.last().empty());
    due = std::get<WakeAt>(s.last().back()).time;
    EXPECT_EQ(due - s.now, std::chrono::seconds(pause));
    s.now = due - std::chrono::milliseconds(1);
    EXPECT_EQ(s.Tell(TimeCame{}), "");
    s.now = due;
    EXPECT_EQ(s.Tell(TimeCame{}), "start A@0");
  }
  EXPECT_EQ(lose(), "failed A (lost), complete");
}

TEST(Endings, AFailureIsTriedAgainAfterItsDelay) {
  using std::chrono::seconds;
  ToldScheduler s({.retries = 1, .retry_delay = seconds(10)});
  s.Add("A");
  s.profile.retry_delay = seconds(3);
  s.Add("B");
  s.profile.retry_delay = seconds(0);
  s.Add("C");
  s.Begin({{3, 0, 0}});
  const Time begin = s.now;
  const auto wakes = [&] { return std::get<WakeAt>(s.last().back()).time - begin; };
  EXPECT_EQ(s.Ended("A", 0, kFailed), "");
  EXPECT_EQ(wakes(), seconds(10)) << "as the run says";
  EXPECT_EQ(s.Ended("B", 0, kFailed), "");
  EXPECT_EQ(wakes(), seconds(3)) << "its own, and the nearest";
  EXPECT_EQ(s.Ended("C", 0, kFailed), "start C@0");
  s.now = begin + seconds(3);
  EXPECT_EQ(s.Tell(TimeCame{}), "start B@0");
  EXPECT_EQ(wakes(), seconds(10));
  EXPECT_EQ(s.Tell(CancelRequested{s["A"]}), "cancelled A") << "also while it waits";
  s.now = begin + seconds(20);
  EXPECT_EQ(s.Tell(TimeCame{}), "");
}

TEST(LostAttempts, ThatWaitForTheirNextAreCancelledAndAdoptedLikeOthers) {
  for (const bool adopted : {false, true}) {
    ToldScheduler s;
    s.Add("A");
    s.Begin({{1, 0, 0}});
    s.TellAll({NodeLost{NodeId(0)}, NodeJoined{NodeId(0), {1, 0, 0}}});
    EXPECT_EQ(s.TellAll({NodeLost{NodeId(0)}, NodeJoined{NodeId(0), {1, 0, 0}}}), "");
    if (adopted) {
      EXPECT_EQ(s.Tell(TaskStarted{{s["A"], 2}, NodeId(0)}), "");
      s.now += std::chrono::hours(1);
      EXPECT_EQ(s.Tell(TimeCame{}), "");
      EXPECT_EQ(s.Ended("A", 0), "done A, complete");
    } else {
      EXPECT_EQ(s.Tell(CancelRequested{s["A"]}), "cancelled A, complete");
      s.now += std::chrono::hours(1);
      EXPECT_EQ(s.Tell(TimeCame{}), "");
    }
  }
}

TEST(OtherServers, MayHaveRoomForWhatFitsNoNodeHere) {
  ToldScheduler s;
  s.profile.shape.cores = 64;
  s.Add("huge");
  s.profile.shape.cores = 1;
  s.Add("small");
  s.Tell(OtherServersThere{true});
  s.Begin({{4, 0, 0}});
  EXPECT_EQ(s.Tell(AllNodesJoined{}), "");
  EXPECT_EQ(s.Tell(OtherServersThere{true}), "");
  EXPECT_EQ(s.Tell(OtherServersThere{false}), "failed huge (fits nowhere)");
}

TEST(LostNodes, LeaveTasksThatFitNoOtherOpen) {
  ToldScheduler s;
  s.profile.shape.cores = 4;
  s.Add("big");
  s.Add("after", {"big"});
  s.profile.shape.cores = 64;
  s.Add("huge");
  s.profile.shape.cores = 1;
  s.Add("small");
  s.Begin({{4, 0, 0}, {1, 0, 0}});
  EXPECT_EQ(s.Tell(AllNodesJoined{}), "failed huge (fits nowhere)");
  s.Tell(NodeLost{NodeId(0)});
  EXPECT_EQ(s.Tell(AllNodesJoined{}), "skipped big (nodes gone), skipped after because big");
}

TEST(Attempts, OneThatIsNewerThanTheLastIsEndedOnceTheTaskIsSettled) {
  ToldScheduler s = SecondAttempt();
  EXPECT_EQ(s.Tell(TaskEnded{{s["A"], 2}, NodeId(0), Done{}, Duration(1)}), "done A, start B@0");
  EXPECT_EQ(s.Tell(TaskStarted{{s["A"], 2}, NodeId(0)}), "") << "late";
  EXPECT_EQ(s.Tell(TaskStarted{{s["A"], 3}, NodeId(0)}), "cancel A@0 (lost)");
}

TEST(Attempts, OneOfATaskThatWasCancelledIsCancelledToo) {
  ToldScheduler s;
  s.Add("A");
  s.Begin({{1, 0, 0}});
  s.TellAll({NodeLost{NodeId(0)}, CancelRequested{s["A"]}, NodeJoined{NodeId(0), {1, 0, 0}}});
  ASSERT_EQ(s.State("A"), TaskState::kCancelled);
  EXPECT_EQ(s.Tell(TaskStarted{{s["A"], 2}, NodeId(0)}), "cancel A@0");
}

TEST(Attempts, NumbersGoOnAfterThoseOfEarlierRunsWhichCostNoRetry) {
  ToldScheduler s({.retries = 1});
  s.Add("A");
  s.Add("B");
  const auto open = TaskRestored::As::kOpen;
  s.TellAll({s.Added(),
             TaskRestored{.task = s["A"], .as = open, .attempts = 0, .losses = 0, .last_attempt = 4},
             TaskRestored{.task = s["B"], .as = open, .attempts = 1, .losses = 0, .last_attempt = 4},
             NodeJoined{NodeId(0), {2, 0, 0}}});
  EXPECT_EQ(s.scheduler().attempts(s["A"]), 5u);
  EXPECT_EQ(s.Tell(TaskEnded{{s["B"], 5}, NodeId(0), kFailed, Duration(1)}), "failed B");
  EXPECT_EQ(s.Tell(TaskEnded{{s["A"], 5}, NodeId(0), kFailed, Duration(1)}), "start A@0");
  EXPECT_EQ(std::get<StartTask>(s.last()[0]).attempt.number, 6u);
  EXPECT_EQ(s.Tell(TaskEnded{{s["A"], 6}, NodeId(0), kFailed, Duration(1)}), "failed A, complete");
}

TEST(Attempts, ActionsNameTheAttemptTheyAreAbout) {
  ToldScheduler s = SecondAttempt({.policy = order::Policy::kFifo});
  EXPECT_EQ(s.Tell(CancelRequested{s["A"]}), "cancel A@0");
  EXPECT_EQ(std::get<CancelTask>(s.last()[0]).attempt.number, 2u);
}

TEST(Endings, GrowthAfterTheEnd) {
  ToldScheduler s;
  s.Add("A");
  s.Begin({{1, 0, 0}});
  EXPECT_EQ(s.Ended("A", 0), "done A, complete");
  s.Add("B", {"A"});
  EXPECT_EQ(s.Tell(s.Added()), "start B@0");
  EXPECT_EQ(s.Ended("B", 0), "done B, complete");
}

TEST(Endings, GrowthMovesQueuedTasksToTheirNewLevel) {
  ToldScheduler s({.policy = order::Policy::kHrf});
  for (const char* name : {"A", "B", "C"}) s.Add(name);
  EXPECT_EQ(s.Begin({{1, 0, 0}}), "start A@0");
  s.Add("D", {"C"});  // C is of level 1 now
  EXPECT_EQ(s.Tell(s.Added()), "");
  EXPECT_EQ(s.Ended("A", 0), "done A, start C@0");
}

}  // namespace
}  // namespace harrow::core
