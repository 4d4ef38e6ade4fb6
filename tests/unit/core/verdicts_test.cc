// Tasks that have failed if their node is not to blame, as somebody sees them who wants to do harm, or has bad luck.

#include "core/verdicts.h"

#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>

#include "core/scheduler.h"
#include "support/told_scheduler.h"

namespace harrow::core {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using test::ToldScheduler;

const Failed kFailedOnce{1, true};
constexpr Duration kAtOnce = milliseconds(5);

/// Tasks that take their times and fail or not, as somebody says, in virtual time.
class Played {
 public:
  struct End {
    Duration after;
    Outcome outcome = Done{};
  };
  using Ends = std::function<End(const std::string& task, uint32_t node)>;
  explicit Played(const Options& options) : s(options) {}

  void Run(const std::vector<NodeCapacity>& nodes, const Ends& ends, Duration at_most = std::chrono::hours(1)) {
    for (uint32_t i = 0; s.scheduler().counts().total == 0 && i < names.size(); ++i) s.Add(names[i]);
    Take(s.Begin(nodes), ends);
    Take(s.Tell(AllNodesJoined{}), ends);
    while (!complete && s.now < Time{} + at_most) {
      const Time next = std::min(wake, out.empty() ? Time::max() : out.begin()->first);
      if (next == Time::max()) break;
      s.now = std::max(s.now, next);
      if (out.empty() || out.begin()->first > next) {
        wake = Time::max();
        Take(s.Tell(TimeCame{}), ends);
        continue;
      }
      const auto [attempt, node, end] = out.begin()->second;
      out.erase(out.begin());
      Take(s.Tell(TaskEnded{attempt, node, end.outcome, end.after}), ends);
    }
  }

  std::vector<std::string> names;
  ToldScheduler s;
  std::vector<uint32_t> aside;
  std::map<FinalState, int> settled;
  bool complete = false;

 private:
  struct Out {
    AttemptId attempt;
    NodeId node;
    End end;
  };
  void Take(const std::string& /*text*/, const Ends& ends) {
    for (const Action& action : s.last()) {
      if (const auto* start = std::get_if<StartTask>(&action)) {
        const End end = ends(names[start->attempt.task.value], start->node.value);
        out.emplace(s.now + end.after, Out{start->attempt, start->node, end});
      } else if (const auto* put = std::get_if<NodePutAside>(&action)) {
        aside.push_back(put->node.value);
      } else if (const auto* fate = std::get_if<TaskSettled>(&action)) {
        ++settled[fate->state];
      } else if (const auto* at = std::get_if<WakeAt>(&action)) {
        wake = at->time;
      }
      complete |= std::holds_alternative<RunComplete>(action);
    }
  }
  std::multimap<Time, Out> out;
  Time wake = Time::max();
};

// --- who is to blame

TEST(Verdicts, TenBadTasksDoNotPutOneNodeAsideAfterTheOther) {
  for (const int order : {1, 5, 7, 11, 13}) {
    Played p({.policy = order::Policy::kFifo, .bad_node_failures = 10});
    for (int i = 0; i < 120; ++i) p.names.push_back((i >= 30 && i < 40 ? "bad" : "good") + std::to_string(i));
    int begun = 0;
    p.Run(std::vector<NodeCapacity>(6, {4, 0, 0}), [&](const std::string& task, uint32_t) -> Played::End {
      if (task[0] == 'b') return {kAtOnce, kFailedOnce};
      return {seconds(60) + milliseconds(170) * (++begun * order % 97)};
    });
    EXPECT_TRUE(p.complete) << order;
    EXPECT_LE(p.aside.size(), 1u) << "healthy nodes, " << order;
    EXPECT_EQ(p.settled[FinalState::kFailed], 10) << order;
    EXPECT_EQ(p.settled[FinalState::kDone], 110) << order;
  }
}

TEST(Verdicts, TwoBadNodesOfFourCostNoTask) {
  for (const int tasks : {20, 40, 200}) {
    Played p({.policy = order::Policy::kFifo, .bad_node_failures = 5});
    for (int i = 0; i < tasks; ++i) p.names.push_back("t" + std::to_string(i));
    p.Run(std::vector<NodeCapacity>(4, {2, 0, 0}), [](const std::string&, uint32_t node) -> Played::End {
      if (node < 2) return {kAtOnce, kFailedOnce};
      return {milliseconds(200)};
    });
    EXPECT_THAT(p.aside, ::testing::UnorderedElementsAre(0u, 1u)) << tasks;
    EXPECT_EQ(p.settled[FinalState::kDone], tasks);
  }
}

TEST(Verdicts, HalfOfTheFailuresHaveToBeOfTasksForWhichNoOtherNodeWasBlamed) {
  for (const int fresh : {2, 1}) {
    ToldScheduler s({.policy = order::Policy::kFifo, .bad_node_failures = 4});
    s.profile.shape.devices = 1;
    for (int i = 0; i < 4; ++i) s.Add("bad" + std::to_string(i));
    for (int i = 0; i < fresh; ++i) s.Add("fresh" + std::to_string(i));
    s.profile.shape = {.memory = 1000};
    for (int i = 0; i < 4; ++i) s.Add("good" + std::to_string(i));
    EXPECT_EQ(s.Begin({{1, 1, 10}, {1, 0, 1000}}), "start bad0@0, start good0@1");
    s.Ended("bad0", 0, kFailedOnce, kAtOnce);
    s.Ended("good0", 1);
    for (const char* const bad : {"bad1", "bad2"}) s.Ended(bad, 0, kFailedOnce, kAtOnce);
    EXPECT_EQ(s.Ended("bad3", 0, kFailedOnce, kAtOnce), "aside @0");
    EXPECT_EQ(s.Tell(NodeJoined{NodeId(2), {1, 1, 10}}), "start fresh0@2");
    std::string next = "fresh0", said;
    for (int i = 0; i < 4; ++i) {
      said = s.Ended(next, 2, kFailedOnce, kAtOnce);
      if (i == 0) s.Ended("good1", 1);
      if (i < 3) next = said.substr(6, said.find('@') - 6);
    }
    EXPECT_EQ(next, fresh == 2 ? "bad1" : "bad2");
    EXPECT_EQ(said.substr(0, 8), fresh == 2 ? "aside @2" : "start ba") << fresh;
  }
}

TEST(Verdicts, WhatIsNeverTriedAgainHasFailedAlsoOnANodeThatIsToBlame) {
  for (const bool drained : {true, false}) {
    ToldScheduler s({.policy = order::Policy::kFifo, .bad_node_failures = 2});
    for (int i = 0; i < 9; ++i) s.Add("T" + std::to_string(i));
    s.Begin({{3, 0, 0}, {1, 0, 0}});
    s.Tell(AllNodesJoined{});
    s.Ended("T0", 0, kFailedOnce, kAtOnce);
    s.Ended("T3", 1);
    EXPECT_EQ(s.Ended("T1", 0, kFailedOnce, kAtOnce), "aside @0");
    if (drained) s.Tell(DrainRequested{});
    EXPECT_EQ(s.Ended("T2", 0, Failed{1, drained}, kAtOnce), "failed T2") << drained;
  }
}

TEST(Verdicts, NothingIsPutOffInARunThatEnds) {
  ToldScheduler s({.policy = order::Policy::kFifo, .bad_node_failures = 3});
  for (int i = 0; i < 4; ++i) s.Add("T" + std::to_string(i));
  s.Begin({{2, 0, 0}, {1, 0, 0}});
  s.Tell(AllNodesJoined{});
  s.Tell(DrainRequested{});
  EXPECT_EQ(s.Ended("T0", 0, kFailedOnce, kAtOnce), "failed T0") << "though T1 runs there";
}

TEST(Verdicts, ATaskThatTakesItsNodeWithItEachTimeHasFailedInTheEnd) {
  ToldScheduler s({.policy = order::Policy::kFifo, .max_losses = 200, .bad_node_failures = 3});
  s.profile.priority = 1;
  s.Add("T");
  s.profile.priority = 0;
  for (int i = 0; i < 6; ++i) s.Add("long" + std::to_string(i));
  s.Begin({{2, 0, 0}, {2, 0, 0}});
  int times = 0;
  while (s.State("T") != TaskState::kFailed && times < 50) {
    s.now += seconds(60);
    s.Tell(TimeCame{});
    ASSERT_EQ(s.State("T"), TaskState::kSent);
    ++times;
    const NodeId at = s.scheduler().node(s["T"]);
    s.Ended("T", at.value, kFailedOnce, kAtOnce);
    if (s.State("T") == TaskState::kFailed) break;
    s.Tell(NodeLost{at});
    s.Tell(NodeJoined{at, {2, 0, 0}});
  }
  EXPECT_EQ(s.State("T"), TaskState::kFailed);
  EXPECT_LE(times, 10) << "and does so for ever";
}

// --- what happens meanwhile

TEST(Verdicts, WhatWasToMoveIsNotMovedWhileItWaits) {
  ToldScheduler t({.policy = order::Policy::kFifo, .bad_node_failures = 3});
  t.profile.checkpoint.by = graph::Checkpointing::By::kApp;
  t.profile.checkpoint.time = seconds(10);
  for (int i = 0; i < 4; ++i) t.Add("T" + std::to_string(i));
  t.Begin({{1, 0, 0}, {1, 0, 0}, {1, 0, 0}});
  t.Started("T0", 0);
  EXPECT_EQ(t.Tell(MoveRequested{t["T0"], NodeId(2)}), "ask T0@0");
  EXPECT_EQ(t.Ended("T2", 2), "done T2, start T3@2");
  EXPECT_EQ(t.Ended("T3", 2), "done T3");
  EXPECT_EQ(t.Ended("T0", 0, kFailedOnce, kAtOnce), "failed T0") << "it is not moved, nor has its node anything to do";
  EXPECT_EQ(t.Ended("T1", 1), "done T1, complete");
}

TEST(Verdicts, SoManyFailuresEndTheRunAlsoWhenTheLastIsOfAnotherKind) {
  ToldScheduler s({.policy = order::Policy::kFifo, .max_failures = 3, .bad_node_failures = 9});
  for (int i = 0; i < 8; ++i) s.Add("T" + std::to_string(i));
  s.Begin({{1, 0, 0}, {1, 0, 0}});
  EXPECT_EQ(s.Ended("T0", 0, kFailedOnce, kAtOnce), "start T2@0");
  EXPECT_EQ(s.Ended("T2", 0, kFailedOnce, kAtOnce), "start T3@0");
  EXPECT_EQ(s.Ended("T1", 1, kFailedOnce, seconds(60)).substr(0, 46),
            "failed T1, failed T0, failed T2, skipped T4 (s");
}

TEST(Verdicts, TheRowGoesOnAlsoWithThoseThatHaveRetries) {
  ToldScheduler s({.policy = order::Policy::kFifo, .retries = 3, .bad_node_failures = 4});
  s.profile.retries = 0;
  s.Add("last");
  s.profile.retries = -1;
  for (int i = 0; i < 8; ++i) s.Add("T" + std::to_string(i));
  s.Begin({{1, 0, 0}, {1, 0, 0}});
  s.Tell(AllNodesJoined{});
  EXPECT_EQ(s.Ended("last", 0, kFailedOnce, kAtOnce), "start T1@0");
  s.now += milliseconds(1500);
  EXPECT_EQ(s.Ended("T1", 0, kFailedOnce, seconds(1)), "start T2@0");
  s.now += milliseconds(1500);
  s.Tell(TimeCame{});
  EXPECT_EQ(s.State("last"), TaskState::kDelayed) << "T1 has failed there since";
  s.Ended("T2", 0, kFailedOnce, seconds(1));
  s.now += milliseconds(1500);
  s.Tell(TimeCame{});
  EXPECT_EQ(s.State("last"), TaskState::kDelayed);
  s.now += seconds(1);
  s.Tell(TimeCame{});
  EXPECT_EQ(s.State("last"), TaskState::kFailed);
}

TEST(Verdicts, ThoseThatAreTriedAgainInASecondMayRunThere) {
  ToldScheduler s({.policy = order::Policy::kFifo, .retries = 3, .bad_node_failures = 3});
  s.profile.retries = 0;
  s.Add("last");
  s.profile.retries = -1;
  s.Add("long");
  s.Add("again");
  s.Begin({{1, 0, 0}, {1, 0, 0}});
  s.Tell(AllNodesJoined{});
  EXPECT_EQ(s.Ended("last", 0, kFailedOnce, kAtOnce), "start again@0");
  EXPECT_EQ(s.Ended("again", 0, kFailedOnce, kAtOnce), "") << "it is tried there in a second";
  s.now += seconds(1);
  EXPECT_EQ(s.Tell(TimeCame{}), "start again@0");
  EXPECT_EQ(s.Ended("again", 0, kFailedOnce, kAtOnce), "");
  EXPECT_EQ(s.Ended("long", 1), "aside @0, done long, start last@1");
}

TEST(Verdicts, ASilentNodeMayBeLost) {
  for (const bool lost : {true, false}) {
    ToldScheduler s({.policy = order::Policy::kFifo, .bad_node_failures = 3});
    for (int i = 0; i < 5; ++i) s.Add("T" + std::to_string(i));
    s.Begin({{1, 0, 0}, {1, 0, 0}});
    s.Tell(AllNodesJoined{});
    EXPECT_EQ(s.Ended("T0", 0, kFailedOnce, kAtOnce), "start T2@0");
    s.Tell(NodeSilent{NodeId(0)});
    for (int i = 0; i < 30; ++i) {
      s.now += seconds(1);
      EXPECT_EQ(s.Tell(TimeCame{}), "") << i;
    }
    if (lost) {
      EXPECT_EQ(s.Tell(NodeLost{NodeId(0)}), "");
      EXPECT_EQ(s.Ended("T1", 1).substr(0, 7), "done T1");
      EXPECT_EQ(s.scheduler().counted_attempts(s["T0"]), 0u);
    } else {
      s.Tell(NodeJoined{NodeId(0), {1, 0, 0}});
      s.now += seconds(2);
      s.Tell(TimeCame{});
      EXPECT_EQ(s.State("T0"), TaskState::kFailed);
    }
  }
}

TEST(Verdicts, ASuspectsTasksDoNotWaitForTasksThatNoNodeCanTakeNow) {
  ToldScheduler s({.policy = order::Policy::kFifo, .bad_node_failures = 2});
  s.profile.shape.cores = 1;
  for (int i = 0; i < 3; ++i) s.Add("T" + std::to_string(i));
  s.profile.shape.devices = 1;
  s.Add("device");  // for a node that is still to come
  s.Begin({{1, 0, 0}, {1, 0, 0}});
  EXPECT_EQ(s.Ended("T0", 0, kFailedOnce, kAtOnce), "start T2@0");
  EXPECT_EQ(s.Ended("T2", 0, kFailedOnce, kAtOnce), "") << "it is suspect";
  EXPECT_EQ(s.Ended("T1", 1, kFailedOnce, kAtOnce), "");
  s.now += seconds(2);
  EXPECT_EQ(s.Tell(TimeCame{}), "failed T1, failed T0, failed T2") << "its pause is over, and nothing is there to be given to it";
  EXPECT_EQ(s.State("device"), TaskState::kReady);
}

TEST(Verdicts, WhatWaitsForOneAndFitsNowhereAnyMoreHasFailedAsItDid) {
  ToldScheduler s({.policy = order::Policy::kFifo, .bad_node_failures = 2});
  s.profile.ranks = 2;
  s.profile.shape.nodes = 2;
  s.Add("gang");
  EXPECT_EQ(s.Begin({{2, 0, 0}, {2, 0, 0}}), "join gang@1, start gang@0");
  s.Tell(AllNodesJoined{});
  s.profile = {};
  for (const char* name : {"beside", "beside, too"}) s.Add(name);
  s.Tell(s.Added());
  EXPECT_EQ(s.Ended("gang", 0, kFailedOnce, kAtOnce), "");
  EXPECT_EQ(s.Tell(NodeLost{NodeId(1)}), "start beside@0");
  EXPECT_EQ(s.Tell(AllNodesJoined{}), "failed gang");
}

TEST(Verdicts, ThoseOfOneNodeAreFoundAmongMany) {
  core::Verdicts v;
  const Time at{};
  EXPECT_FALSE(v.any());
  for (uint32_t i = 10; i > 0; --i) v.Add(TaskId(i), NodeId(i % 3), at + seconds(i));
  EXPECT_THAT(v.Of(NodeId(0)), ElementsAre(TaskId(3), TaskId(6), TaskId(9)));
  EXPECT_EQ(v.size(), 10u);
  EXPECT_EQ(v.All().front(), TaskId(1));
  EXPECT_EQ(v.All().size(), 10u);
  EXPECT_EQ(v.node(TaskId(5)), NodeId(2));
  EXPECT_EQ(v.until(NodeId(1)), at + seconds(1)) << "as told last";
  for (const uint32_t i : {3, 6, 9, 3}) v.Forget(TaskId(i));
  EXPECT_THAT(v.Of(NodeId(0)), IsEmpty());
  EXPECT_THAT(v.Of(NodeId(7)), IsEmpty());
  EXPECT_EQ(v.size(), 7u);
  EXPECT_FALSE(v.Has(TaskId(3)));
  EXPECT_TRUE(v.Has(TaskId(2)));
}

}  // namespace
}  // namespace harrow::core
