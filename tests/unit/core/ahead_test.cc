// Sending ahead of a free slot, and taking back.

#include <algorithm>
#include <gtest/gtest.h>
#include <string>

#include "core/scheduler.h"
#include "support/told_scheduler.h"
#include "support/virtual_time.h"

namespace harrow::core {
namespace {

using order::Policy;
using test::ToldScheduler;
using test::VirtualTime;

const Duration kShort = std::chrono::milliseconds(1);

/// One node of one slot, a round trip of one run time; A has ended, so the run time is known.
void WarmUp(ToldScheduler& s, uint32_t nodes = 1) {
  s.Add("A");
  for (int i = 0; i < 9; ++i) s.Add("T" + std::to_string(i));
  s.Begin(std::vector<NodeCapacity>(nodes, {1, 0, 0}));
  for (uint32_t n = 0; n < nodes; ++n) s.Tell(RoundTripMeasured{NodeId(n), kShort});
}

TEST(Ahead, AsDeepAsTheRoundTripAsks) {
  ToldScheduler s({.policy = Policy::kFifo});
  WarmUp(s);
  EXPECT_EQ(s.Ended("A", 0, Done{}, kShort), "done A, start T0@0, ahead T1@0, ahead T2@0");
  EXPECT_EQ(s.Ended("T0", 0, Done{}, kShort), "done T0, ahead T3@0") << "T1 has begun by itself";
  EXPECT_EQ(s.scheduler().Explain(s["T2"]).state, TaskState::kAhead);
}

TEST(Ahead, WhatARunStopsIsAskedBackFromEveryNode) {
  for (const uint32_t nodes : {1u, 2u}) {
    ToldScheduler s({.policy = Policy::kFifo});
    WarmUp(s, nodes);
    const std::string sent = s.Ended("A", 0, Done{}, kShort);
    ASSERT_NE(sent.find("ahead "), std::string::npos) << sent;
    const std::string stopped = s.Tell(DrainRequested{});
    const auto backs = std::count_if(s.last().begin(), s.last().end(),
                                     [](const Action& a) { return std::holds_alternative<TakeBack>(a); });
    EXPECT_GE(backs, 2) << stopped;
  }
}

TEST(Ahead, NotForLongTasks) {
  ToldScheduler s({.policy = Policy::kFifo});
  WarmUp(s);
  EXPECT_EQ(s.Ended("A", 0, Done{}, std::chrono::milliseconds(21)), "done A, start T0@0");
  ToldScheduler limit({.policy = Policy::kFifo});
  WarmUp(limit);
  EXPECT_EQ(limit.Ended("A", 0, Done{}, std::chrono::milliseconds(20)), "done A, start T0@0, ahead T1@0")
      << "the limit itself is not above it";
}

// Of the last tasks every slot that there is shall have one.
TEST(Ahead, NotTheLastOfAllWhereThereAreOtherNodes) {
  for (const uint32_t nodes : {1u, 2u, 3u}) {
    ToldScheduler s({.policy = Policy::kFifo});
    s.Add("A");
    for (const char* name : {"B", "C", "D", "E", "F", "G"}) s.Add(name);
    s.Begin(std::vector<NodeCapacity>(nodes, {1, 0, 0}));
    for (uint32_t n = 0; n < nodes; ++n) s.Tell(RoundTripMeasured{NodeId(n), 2 * kShort});
    // On one node five are left then, on two four, on three three.
    const std::string ended = s.Ended("A", 0, Done{}, kShort);
    EXPECT_EQ(ended, nodes == 1   ? "done A, start B@0, ahead C@0, ahead D@0, ahead E@0, ahead F@0"
                     : nodes == 2 ? "done A, start C@0, ahead D@0, ahead E@0"
                                  : "done A, start D@0");
  }
}

TEST(Ahead, AtMostSoManyASlot) {
  ToldScheduler s({.policy = Policy::kFifo, .max_ahead = 3});
  WarmUp(s);
  s.Tell(RoundTripMeasured{NodeId(0), 100 * kShort});
  EXPECT_EQ(s.Ended("A", 0, Done{}, kShort), "done A, start T0@0, ahead T1@0, ahead T2@0, ahead T3@0");
  ToldScheduler usual({.policy = Policy::kFifo});
  usual.Add("A");
  for (int i = 0; i < 400; ++i) usual.Add("T" + std::to_string(i));
  usual.Begin({{1, 0, 0}});
  usual.Tell(RoundTripMeasured{NodeId(0), 1000 * kShort});
  usual.Ended("A", 0, Done{}, kShort);
  EXPECT_EQ(usual.State("T256"), TaskState::kAhead);
  EXPECT_EQ(usual.State("T257"), TaskState::kReady);
}

TEST(Ahead, NotWithoutARoundTrip) {
  ToldScheduler s({.policy = Policy::kFifo});
  s.Add("A");
  s.Add("B");
  s.Add("C");
  s.Begin({{1, 0, 0}});
  EXPECT_EQ(s.Ended("A", 0, Done{}, kShort), "done A, start B@0");
}

TEST(Ahead, NotBehindATaskWhoseEndMakesOneReadyThatGoesFirst) {
  for (const Policy policy : {Policy::kLifo, Policy::kFifo}) {
    ToldScheduler s({.policy = policy});
    s.Add("X");
    for (int i = 0; i < 3; ++i) s.Add("P" + std::to_string(i));
    for (int i = 0; i < 3; ++i) s.Add("Q" + std::to_string(i), {"P" + std::to_string(i)});
    s.Add("A");
    s.Begin({{1, 0, 0}});
    s.Tell(RoundTripMeasured{NodeId(0), kShort});
    if (policy == Policy::kFifo) {
      EXPECT_EQ(s.Ended("X", 0, Done{}, kShort), "done X, start P0@0");
      EXPECT_EQ(s.Ended("P0", 0, Done{}, kShort), "done P0, start P1@0, ahead P2@0, ahead A@0");
    } else {
      EXPECT_EQ(s.Ended("A", 0, Done{}, kShort), "done A, start P2@0");
      EXPECT_EQ(s.Ended("P2", 0, Done{}, kShort), "done P2, start Q2@0, ahead P1@0")
          << "a chain stays together";
      EXPECT_EQ(s.Ended("Q2", 0, Done{}, kShort), "done Q2") << "nothing is sent behind P1";
      EXPECT_EQ(s.Ended("P1", 0, Done{}, kShort), "done P1, start Q1@0, ahead P0@0");
    }
  }
}

TEST(Ahead, IdleNodeHasTasksAskedBack) {
  ToldScheduler s({.policy = Policy::kFifo});
  WarmUp(s);
  EXPECT_EQ(s.Ended("A", 0, Done{}, kShort), "done A, start T0@0, ahead T1@0, ahead T2@0");
  for (int i = 3; i < 9; ++i) s.Tell(CancelRequested{s["T" + std::to_string(i)]});
  s.Tell(RoundTripMeasured{NodeId(0), kShort / 4});
  EXPECT_EQ(s.Tell(NodeJoined{NodeId(1), {1, 0, 0}}), "back T2@0");
  EXPECT_EQ(s.State("T2"), TaskState::kAheadRecalled);
  EXPECT_EQ(s.Returned("T2", 0), "start T2@1");
  EXPECT_EQ(s.scheduler().attempts(s["T2"]), 1u) << "what never began was no attempt";
}

TEST(Ahead, TaskThatBeganAfterAllStays) {
  ToldScheduler s({.policy = Policy::kFifo});
  WarmUp(s);
  s.Ended("A", 0, Done{}, kShort);
  s.Tell(NodeClosed{NodeId(0)});
  EXPECT_EQ(s.State("T1"), TaskState::kAheadRecalled);
  s.Ended("T0", 0, Done{}, kShort);
  s.Started("T1", 0);
  EXPECT_EQ(s.State("T1"), TaskState::kRunning);
  EXPECT_EQ(s.Returned("T1", 0), "") << "nonsense";
  EXPECT_EQ(s.Ended("T1", 0, Done{}, kShort), "done T1");
}

TEST(Ahead, ReturnedTaskTakesItsOldPlace) {
  ToldScheduler s({.policy = Policy::kFifo});
  WarmUp(s);
  s.Ended("A", 0, Done{}, kShort);
  s.Tell(RoundTripMeasured{NodeId(0), Duration(0)});
  s.Returned("T2", 0);
  s.Returned("T1", 0);
  EXPECT_EQ(s.Ended("T0", 0, Done{}, kShort), "done T0, start T1@0");
  EXPECT_EQ(s.Ended("T1", 0, Done{}, kShort), "done T1, start T2@0");
}

// By its level it stands in queues; what is ahead stands there still, as what it was.
TEST(Ahead, ALevelThatRisesMeanwhileCountsFromWhenTheTaskIsBack) {
  ToldScheduler s({.policy = Policy::kHrf});
  WarmUp(s);
  EXPECT_EQ(s.Ended("A", 0, Done{}, kShort), "done A, start T0@0, ahead T1@0, ahead T2@0");
  s.Add("next", {"T2"});
  EXPECT_EQ(s.Tell(s.Added()), "");
  s.Tell(RoundTripMeasured{NodeId(0), Duration(0)});
  s.Returned("T1", 0);
  s.Returned("T2", 0);
  EXPECT_EQ(s.Ended("T0", 0, Done{}, kShort), "done T0, start T2@0") << "another task waits for it";
  EXPECT_EQ(s.Ended("T2", 0, Done{}, kShort), "done T2, start T1@0");
}

TEST(Ahead, CancelOfATaskThatWasSentAhead) {
  ToldScheduler s({.policy = Policy::kFifo});
  WarmUp(s);
  s.Ended("A", 0, Done{}, kShort);
  EXPECT_EQ(s.Tell(CancelRequested{s["T1"]}), "back T1@0");
  EXPECT_EQ(s.Tell(CancelRequested{s["T2"]}), "back T2@0");
  EXPECT_EQ(s.Returned("T1", 0), "cancelled T1");
  s.Ended("T0", 0, Done{}, kShort);
  EXPECT_EQ(s.Started("T2", 0), "cancel T2@0, ahead T3@0, ahead T4@0") << "it could not be taken back";
}

TEST(Ahead, LostNodeLosesNothingOfWhatHadNotBegunButItsNumber) {
  ToldScheduler s({.policy = Policy::kFifo});
  WarmUp(s);
  s.Ended("A", 0, Done{}, kShort);
  s.Tell(NodeLost{NodeId(0)});
  EXPECT_EQ(s.scheduler().losses(s["T0"]), 1u);
  EXPECT_EQ(s.scheduler().losses(s["T1"]), 0u);
  EXPECT_EQ(s.Tell(NodeJoined{NodeId(0), {1, 0, 0}}), "start T1@0")
      << "at its old place; T0 comes last, as it is tried again";
  EXPECT_EQ(s.Latest("T1").number, 2u) << "it may have begun as number 1";
  EXPECT_EQ(s.Ended("T1", 0, Failed{1, true}, kShort).substr(0, 9), "failed T1")
      << "the other attempt was none";
}

TEST(Ahead, OfANodeThatCameBackItIsNotKnownHowLongTasksTakeThere) {
  ToldScheduler s({.policy = Policy::kFifo});
  WarmUp(s);
  s.Ended("A", 0, Done{}, kShort);
  s.Tell(NodeLost{NodeId(0)});
  EXPECT_EQ(s.Tell(NodeJoined{NodeId(0), {1, 0, 0}}), "start T1@0");
  EXPECT_EQ(s.Tell(RoundTripMeasured{NodeId(0), kShort}), "") << "another machine, perhaps";
  EXPECT_EQ(s.Ended("T1", 0, Done{}, kShort), "done T1, start T2@0, ahead T3@0, ahead T4@0");
}

TEST(Ahead, TheOnlyNodeIsSentEvenASingleTaskOnceItCouldHaveHadMore) {
  ToldScheduler s({.policy = Policy::kFifo});
  WarmUp(s);
  EXPECT_EQ(s.Ended("A", 0, Done{}, kShort), "done A, start T0@0, ahead T1@0, ahead T2@0");
  for (int i = 3; i < 9; ++i) s.Tell(CancelRequested{s["T" + std::to_string(i)]});
  EXPECT_EQ(s.Ended("T0", 0, Done{}, kShort), "done T0");
  s.Add("late");
  EXPECT_EQ(s.Tell(s.Added()), "ahead late@0");
}

TEST(Ahead, NodesThatAreKeptForATaskOfSeveralHaveTasksAskedBack) {
  ToldScheduler s({.policy = Policy::kFifo});
  s.Add("A");
  s.Add("B");
  for (int i = 0; i < 9; ++i) s.Add("T" + std::to_string(i));
  s.profile.shape.nodes = 2;
  s.Add("gang");
  s.Begin({{1, 0, 0}, {1, 0, 0}});
  for (uint32_t n = 0; n < 2; ++n) s.Tell(RoundTripMeasured{NodeId(n), kShort});
  EXPECT_EQ(s.Ended("A", 0, Done{}, kShort), "done A, start T0@0, ahead T1@0, ahead T2@0");
  EXPECT_EQ(s.Tell(TimeCame{}), "back T1@0, back T2@0") << "as many have overtaken it as it has nodes";
  EXPECT_EQ(s.Returned("T1", 0) + s.Returned("T2", 0), "");
  s.now += 2 * kShort;
  EXPECT_EQ(s.Ended("T0", 0, Done{}, kShort), "done T0") << "B should have ended, too";
  EXPECT_TRUE(s.Ended("B", 1, Done{}, kShort).starts_with("done B, join gang@1, start gang@0"));
}

TEST(Ahead, WhatWasLostAheadAndRunsCountsOnce) {
  ToldScheduler s({.policy = Policy::kFifo});
  WarmUp(s);
  s.Ended("A", 0, Done{}, kShort);
  const uint64_t attempts = s.scheduler().counts().attempts;
  s.TellAll({TaskReturned{s.Latest("T2"), NodeId(0)}, NodeLost{NodeId(0)}});
  EXPECT_EQ(s.TellAll({NodeJoined{NodeId(0), {2, 0, 0}}, TaskStarted{{s["T0"], 1}, NodeId(0)},
                       TaskStarted{{s["T1"], 1}, NodeId(0)}}),
            "");
  EXPECT_EQ(s.State("T1"), TaskState::kRunning);
  EXPECT_EQ(s.scheduler().counts().attempts, attempts - 1) << "T2 never began";
  EXPECT_EQ(s.scheduler().counts().losses, 0u);
  EXPECT_EQ(s.Ended("T1", 0, Failed{1, true}, kShort).substr(0, 9), "failed T1");
  EXPECT_EQ(s.Ended("T0", 0, Failed{1, true}, kShort).substr(0, 9), "failed T0");
}

/// Utilisation of `nodes` nodes of 2 slots by independent tasks of 1 ms, messages of 0.25 ms.
double Utilisation(uint32_t nodes, uint32_t max_ahead, size_t* asked_back) {
  graph::Graph graph;
  for (int i = 0; i < 4000; ++i) graph.AddTask({});
  EXPECT_TRUE(graph.Seal().ok());
  VirtualTime::Options cluster;
  cluster.nodes.assign(nodes, {2, 0, 0});
  cluster.latency = 0.00025;
  cluster.check = false;
  cluster.run_time = [](TaskId task) { return 0.001 * (0.5 + (task.value * 7919 % 1000) / 1000.0); };
  Options options;
  options.max_ahead = max_ahead;
  VirtualTime run(graph, options, cluster);
  run.Run();
  EXPECT_EQ(run.scheduler().counts().done, 4000u);
  double busy = 0;
  for (const auto& start : run.starts()) busy += start.end - start.time;
  if (asked_back != nullptr) *asked_back = run.Count<TakeBack>();
  return busy / (run.makespan() * 2 * nodes);
}

TEST(Ahead, HidesTheRoundTrip) {
  for (const uint32_t nodes : {1u, 4u}) {
    size_t asked_back = 0;
    EXPECT_LT(Utilisation(nodes, 0, nullptr), 0.72) << "without it half a run time is lost after each";
    EXPECT_GT(Utilisation(nodes, 256, &asked_back), 0.97);
    EXPECT_LE(asked_back, 2 * nodes) << "independent short tasks need no asking back, but at the very end";
  }
}

}  // namespace
}  // namespace harrow::core
