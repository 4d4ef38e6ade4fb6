// Nodes where tasks fail one after the other, at once: what is held against them, and what becomes of the
// tasks.

#include "core/suspects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/scheduler.h"
#include "support/told_scheduler.h"

namespace harrow::core {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using test::ToldScheduler;
const Failed kFailed{1, true};
const Failed kFinalFailure{1, false};

TEST(Suspects, PausesAreTwiceAsLongEachTime) {
  Suspects suspects;
  Time now{};
  EXPECT_FALSE(suspects.any());
  EXPECT_EQ(suspects.next(), Time::max());
  suspects.Add(NodeId(3), now);
  suspects.Add(NodeId(5), now + seconds(1));
  suspects.Add(NodeId(3), now + seconds(1));
  EXPECT_TRUE(suspects.any());
  EXPECT_EQ(suspects.size(), 2u);
  EXPECT_THAT(suspects.All(), ElementsAre(NodeId(3), NodeId(5)));
  EXPECT_TRUE(suspects.Has(NodeId(5)));
  EXPECT_FALSE(suspects.Has(NodeId(4)));
  EXPECT_FALSE(suspects.Waits(NodeId(4)));
  EXPECT_EQ(suspects.next(), now + seconds(2)) << "the first pause, which a second word does not prolong";
  EXPECT_THAT(suspects.EndPauses(now + seconds(2) - Duration(1)), IsEmpty());
  EXPECT_TRUE(suspects.Waits(NodeId(3)));
  EXPECT_THAT(suspects.EndPauses(now + seconds(2)), ElementsAre(NodeId(3)));
  EXPECT_FALSE(suspects.Waits(NodeId(3)));
  EXPECT_TRUE(suspects.Has(NodeId(3))) << "it has not got a task yet";
  EXPECT_EQ(suspects.next(), now + seconds(3));
  EXPECT_THAT(suspects.EndPauses(now + seconds(2)), IsEmpty()) << "it has been told";
  suspects.Forget(NodeId(5));
  EXPECT_EQ(suspects.next(), Time::max()) << "node 3 may have one any time";
  for (const int pause : {4, 8, 16, 16}) {
    now += seconds(100);
    suspects.Given(NodeId(5), now);
    suspects.Given(NodeId(3), now);
    EXPECT_TRUE(suspects.Waits(NodeId(3)));
    EXPECT_EQ(suspects.next(), now + seconds(pause));
    EXPECT_THAT(suspects.EndPauses(now + seconds(pause)), ElementsAre(NodeId(3)));
  }
  suspects.Forget(NodeId(3));
  EXPECT_FALSE(suspects.any());
}

TEST(Suspects, WhatFailsOnANodeThatIsPutAsideWaitsASecond) {
  const Duration at_once = std::chrono::milliseconds(5);
  ToldScheduler s({.policy = order::Policy::kFifo, .retries = 9, .bad_node_failures = 2});
  for (int i = 0; i < 4; ++i) s.Add("T" + std::to_string(i));
  s.Begin({{1, 0, 0}, {1, 0, 0}});
  EXPECT_EQ(s.Ended("T0", 0, kFailed, at_once), "start T2@0");
  EXPECT_EQ(s.Ended("T1", 1), "done T1, start T3@1");
  EXPECT_EQ(s.Ended("T2", 0, kFailed, at_once), "aside @0");
  EXPECT_EQ(s.Ended("T3", 1), "done T3");
  s.now += seconds(1);
  EXPECT_EQ(s.Tell(TimeCame{}), "start T0@1");
}

TEST(Suspects, BadNodeIsPutAside) {
  ToldScheduler s({.policy = order::Policy::kFifo, .retries = 9, .bad_node_failures = 2});
  for (int i = 0; i < 8; ++i) s.Add("T" + std::to_string(i));
  s.Begin({{1, 0, 0}, {1, 0, 0}});
  s.Tell(AllNodesJoined{});
  const auto on = [&](uint32_t node) {
    for (int i = 0; i < 8; ++i) {
      const std::string name = "T" + std::to_string(i);
      if ((s.State(name) == TaskState::kSent) && s.scheduler().node(s[name]) == NodeId(node)) return name;
    }
    return std::string();
  };
  const Duration at_once = std::chrono::milliseconds(5);
  s.Ended(on(0), 0, kFailed, at_once);
  s.Ended(on(1), 1);
  const std::string answer = s.Ended(on(0), 0, kFailed, at_once);
  EXPECT_EQ(answer.substr(0, 8), "aside @0");
  EXPECT_EQ(on(0), "");
  s.Ended(on(1), 1, kFailed, at_once);
  s.Ended(on(1), 1, kFailed, at_once);
  EXPECT_NE(on(1), "") << "never the last one";
}

TEST(Suspects, ANodeWhereAllFailsWhileOthersWorkGetsOneTaskAtATimeUntilOneOfTheirsIsDone) {
  const Duration at_once = std::chrono::milliseconds(5);
  ToldScheduler s({.policy = order::Policy::kFifo, .bad_node_failures = 2});
  for (int i = 0; i < 9; ++i) s.Add("T" + std::to_string(i));
  s.Begin({{1, 0, 0}, {1, 0, 0}});
  EXPECT_EQ(s.Ended("T0", 0, kFinalFailure, at_once), "failed T0, start T2@0");
  EXPECT_EQ(s.Ended("T2", 0, kFinalFailure, at_once), "failed T2");
  s.now += std::chrono::seconds(2) - Duration(1);
  EXPECT_EQ(s.Tell(TimeCame{}), "");
  s.now += Duration(1);
  EXPECT_EQ(s.Tell(TimeCame{}), "start T3@0");
  EXPECT_EQ(s.Ended("T3", 0, kFinalFailure, at_once), "failed T3");
  s.now += std::chrono::seconds(4) - Duration(1);
  EXPECT_EQ(s.Tell(TimeCame{}), "") << "pauses grow";
  EXPECT_EQ(s.Ended("T1", 1), "aside @0, done T1, start T4@1");
}

TEST(Suspects, WhatASuspectFailsCostsNoRetry) {
  const Duration at_once = std::chrono::milliseconds(5);
  for (const int32_t retries : {0, 1}) {
    ToldScheduler s({.policy = order::Policy::kFifo, .retries = retries, .bad_node_failures = 2});
    for (int i = 0; i < 4; ++i) s.Add("T" + std::to_string(i));
    s.Begin({{1, 0, 0}, {1, 0, 0}});
    s.Ended("T0", 0, kFinalFailure, at_once);
    s.Ended("T2", 0, kFinalFailure, at_once);
    for (int i = 0; i < 3; ++i) {
      s.now += std::chrono::seconds(20);
      if (retries == 0 && i > 0) break;
      EXPECT_EQ(s.Tell(TimeCame{}), "start T3@0");
      EXPECT_EQ(s.Ended("T3", 0, kFailed, at_once), "");
    }
    EXPECT_EQ(s.Ended("T1", 1), retries == 0 ? "aside @0, done T1, start T3@1" : "aside @0, done T1");
    s.now += std::chrono::seconds(20);
    EXPECT_EQ(s.Tell(TimeCame{}), retries == 0 ? "" : "start T3@1");
    EXPECT_EQ(s.Ended("T3", 1), "done T3, complete");
  }
}

TEST(Suspects, ASuspectWhoseTaskRunsOnIsNoneAnyMore) {
  const Duration at_once = std::chrono::milliseconds(5);
  ToldScheduler s({.policy = order::Policy::kFifo, .bad_node_failures = 2});
  for (int i = 0; i < 9; ++i) s.Add("T" + std::to_string(i));
  s.profile.shape.cores = 1;
  EXPECT_EQ(s.Begin({{2, 0, 0}, {1, 0, 0}}), "start T0@0, start T1@0, start T2@1");
  EXPECT_EQ(s.Ended("T0", 0, kFinalFailure, at_once), "failed T0, start T3@0");
  EXPECT_EQ(s.Ended("T1", 0, kFinalFailure, at_once), "failed T1");
  s.now += std::chrono::seconds(2);
  EXPECT_EQ(s.Tell(TimeCame{}), "start T4@0") << "T3 has run for as long as the pause";
}

TEST(Suspects, WhatFailsAtOnceIsTriedAgainAfterASecondWhereThereAreOtherNodes) {
  const Duration at_once = std::chrono::milliseconds(5);
  ToldScheduler s({.policy = order::Policy::kFifo, .retries = 1, .bad_node_failures = 3});
  for (int i = 0; i < 4; ++i) s.Add("T" + std::to_string(i));
  s.Begin({{1, 0, 0}, {1, 0, 0}});
  EXPECT_EQ(s.Ended("T0", 0, kFailed, at_once), "start T2@0");
  s.now += std::chrono::seconds(1);
  EXPECT_EQ(s.Ended("T1", 1), "done T1, start T3@1") << "behind those that are ready";
  EXPECT_EQ(s.Ended("T3", 1), "done T3, start T0@1");
}

TEST(Suspects, OnlyFailuresWithinASecondAreHeldAgainstANode) {
  using std::chrono::milliseconds;
  struct Row {
    Duration run_times[3];
    bool aside;
  };
  for (const Row& row : {Row{{milliseconds(1000), milliseconds(1000), milliseconds(1000)}, true},
                         Row{{milliseconds(5), milliseconds(1001), milliseconds(5)}, false},
                         Row{{milliseconds(1001), milliseconds(5), milliseconds(5)}, false},
                         Row{{milliseconds(5), milliseconds(5), milliseconds(1001)}, false}}) {
    ToldScheduler s({.policy = order::Policy::kFifo, .steal = false, .bad_node_failures = 3});
    for (int i = 0; i < 12; ++i) s.Add("T" + std::to_string(i));
    s.Begin({{1, 0, 0}, {1, 0, 0}});
    const auto on = [&](uint32_t node) {
      for (int i = 0; i < 12; ++i) {
        const std::string name = "T" + std::to_string(i);
        if (s.State(name) == TaskState::kSent && s.scheduler().node(s[name]) == NodeId(node)) return name;
      }
      return std::string("none");
    };
    std::string said;
    for (const Duration run_time : row.run_times) {
      said += s.Ended(on(0), 0, kFinalFailure, run_time);
      s.Ended(on(1), 1);
    }
    EXPECT_EQ(said.find("aside @0") != std::string::npos, row.aside) << said;
  }
}

TEST(Suspects, TheFirstNodeOfSeveralIsOneUntilTheOthersAreThere) {
  const Duration at_once = std::chrono::milliseconds(5);
  ToldScheduler s({.policy = order::Policy::kFifo, .bad_node_failures = 2});
  for (int i = 0; i < 9; ++i) s.Add("T" + std::to_string(i));
  s.Begin({{1, 0, 0}});
  EXPECT_EQ(s.Ended("T0", 0, kFinalFailure, at_once), "failed T0, start T1@0");
  EXPECT_EQ(s.Ended("T1", 0, kFinalFailure, at_once), "failed T1") << "before it has had them all";
  EXPECT_EQ(s.Tell(AllNodesJoined{}), "start T2@0") << "there is no other";
}

TEST(Suspects, ARetryWaitsForTheNodesThatAreStillToCome) {
  const Duration at_once = std::chrono::milliseconds(5);
  for (const bool all_there : {false, true}) {
    ToldScheduler s({.policy = order::Policy::kFifo, .retries = 1, .bad_node_failures = 3});
    s.Add("T");
    s.Begin({{1, 0, 0}});
    if (all_there) s.Tell(AllNodesJoined{});
    EXPECT_EQ(s.Ended("T", 0, kFailed, at_once), all_there ? "start T@0" : "");
    if (all_there) continue;
    s.Tell(NodeJoined{NodeId(1), {1, 0, 0}});
    s.now += std::chrono::seconds(1);
    EXPECT_EQ(s.Tell(TimeCame{}).substr(0, 7), "start T");
  }
}

// --- what fails for good, and the node may be to blame

TEST(Verdicts, WhatFailedOnANodeThatIsPutAsideRunsAgainElsewhere) {
  const Duration at_once = std::chrono::milliseconds(5);
  ToldScheduler s({.policy = order::Policy::kFifo, .bad_node_failures = 2});
  s.profile.shape.cores = 1;
  for (int i = 0; i < 5; ++i) s.Add("T" + std::to_string(i));
  s.Add("after", {"T0"});
  EXPECT_EQ(s.Begin({{2, 0, 0}, {1, 0, 0}}), "start T0@0, start T1@0, start T2@1");
  s.Tell(AllNodesJoined{});
  EXPECT_EQ(s.Ended("T0", 0, kFailed, at_once), "start T3@0") << "nothing is said of T0";
  EXPECT_EQ(s.State("T0"), TaskState::kDelayed);
  EXPECT_EQ(s.Ended("T2", 1), "done T2, start T4@1");
  EXPECT_EQ(s.Ended("T1", 0, kFailed, at_once), "aside @0");
  EXPECT_EQ(s.Ended("T3", 0, kFailed, seconds(60)), "") << "nor is what was there already and fails later to blame";
  for (const char* const free : {"T0", "T1", "T3"}) EXPECT_EQ(s.scheduler().counted_attempts(s[free]), 0u) << free;
  EXPECT_EQ(s.Ended("T4", 1), "done T4, start T0@1");
  EXPECT_EQ(s.Ended("T0", 1, kFailed, at_once), "failed T0, skipped after because T0, start T1@1") << "of the last node";
  EXPECT_EQ(s.Ended("T1", 1), "done T1, start T3@1");
  EXPECT_EQ(s.Ended("T3", 1), "done T3, complete");
}

TEST(Verdicts, ATaskHasFailedWhenAnotherIsDoneThereOrFailsLater) {
  const Duration at_once = std::chrono::milliseconds(5);
  for (const bool done : {true, false}) {
    ToldScheduler s({.policy = order::Policy::kFifo, .bad_node_failures = 3});
    for (int i = 0; i < 6; ++i) s.Add("T" + std::to_string(i));
    s.Begin({{1, 0, 0}, {1, 0, 0}});
    EXPECT_EQ(s.Ended("T0", 0, kFailed, at_once), "start T2@0");
    if (done) {
      EXPECT_EQ(s.Ended("T2", 0), "failed T0, done T2, start T3@0");
    } else {
      EXPECT_EQ(s.Ended("T2", 0, kFailed, seconds(9)), "failed T0, failed T2, start T3@0");
    }
  }
}

TEST(Verdicts, ATaskHasFailedWhenNothingMoreIsToBeLearnt) {
  const Duration at_once = std::chrono::milliseconds(5);
  ToldScheduler s({.policy = order::Policy::kFifo, .bad_node_failures = 3});
  for (int i = 0; i < 3; ++i) s.Add("T" + std::to_string(i));
  s.Begin({{1, 0, 0}, {1, 0, 0}});
  EXPECT_EQ(s.Ended("T0", 0, kFailed, at_once), "start T2@0");
  EXPECT_EQ(s.Ended("T2", 0, kFailed, at_once), "failed T0, failed T2") << "nothing else is to run there";
  EXPECT_EQ(s.Ended("T1", 1, kFailed, at_once), "failed T1, complete");
}

TEST(Verdicts, WhoWaitedForTheEndOfOneThatHasFailedAtLastIsStartedWithIt) {
  const Duration at_once = std::chrono::milliseconds(5);
  ToldScheduler s({.policy = order::Policy::kFifo, .bad_node_failures = 3});
  s.Add("T0");
  s.Add("T1");
  s.Add("after");
  s.AfterAny("after", {"T0"});
  s.Begin({{1, 0, 0}, {1, 0, 0}});
  EXPECT_EQ(s.Ended("T0", 0, kFailed, at_once), "failed T0, start after@0");
}

TEST(Verdicts, ATaskHasFailedAfterTwoSecondsInWhichNothingElseFails) {
  const Duration at_once = std::chrono::milliseconds(5);
  ToldScheduler s({.policy = order::Policy::kFifo, .bad_node_failures = 3});
  for (int i = 0; i < 6; ++i) s.Add("T" + std::to_string(i));
  s.Begin({{1, 0, 0}, {1, 0, 0}});
  EXPECT_EQ(s.Ended("T0", 0, kFailed, at_once), "start T2@0");
  s.now += seconds(1);
  EXPECT_EQ(s.Ended("T2", 0, kFailed, at_once), "start T3@0");
  s.now += seconds(2) - Duration(1);
  EXPECT_EQ(s.Tell(TimeCame{}), "") << "the row goes on";
  s.now += Duration(1);
  EXPECT_EQ(s.Tell(TimeCame{}), "failed T0, failed T2") << "while T3 runs there";
}

TEST(Verdicts, ASuspectsTasksWaitUntilItIsPutAsideOrAllAreSuspect) {
  const Duration at_once = std::chrono::milliseconds(5);
  for (const bool aside : {true, false}) {
    ToldScheduler s({.policy = order::Policy::kFifo, .bad_node_failures = 2});
    for (int i = 0; i < 9; ++i) s.Add("T" + std::to_string(i));
    s.Begin({{1, 0, 0}, {1, 0, 0}});
    s.Tell(AllNodesJoined{});
    EXPECT_EQ(s.Ended("T0", 0, kFailed, at_once), "start T2@0");
    EXPECT_EQ(s.Ended("T2", 0, kFailed, at_once), "");
    s.now += seconds(60);
    EXPECT_EQ(s.Tell(TimeCame{}), "start T3@0");
    if (aside) {
      EXPECT_EQ(s.Ended("T1", 1), "aside @0, done T1, start T4@1");
      for (const char* const left : {"T4", "T5", "T6", "T7", "T8", "T0", "T2"}) s.Ended(left, 1);
      EXPECT_EQ(s.Ended("T3", 0, kFailed, at_once), "start T3@1") << "it was there, and costs nothing either";
      EXPECT_EQ(s.Ended("T3", 1), "done T3, complete");
      continue;
    }
    EXPECT_EQ(s.Ended("T1", 1, kFailed, at_once), "start T4@1");
    EXPECT_EQ(s.Ended("T4", 1, kFailed, at_once), "failed T0, failed T2, failed T1, failed T4, start T5@1");
  }
}

TEST(Verdicts, WhatEndsMeanwhileIsSaid) {
  const Duration at_once = std::chrono::milliseconds(5);
  std::string said;
  const auto one_failed = [&](const Options& options) {
    auto s = std::make_unique<ToldScheduler>(options);
    for (int i = 0; i < 4; ++i) s->Add("T" + std::to_string(i));
    s->Begin({{1, 0, 0}, {1, 0, 0}});
    said = s->Ended("T0", 0, kFailed, at_once);
    return s;
  };
  Options options{.policy = order::Policy::kFifo, .bad_node_failures = 3};
  auto s = one_failed(options);
  EXPECT_EQ(s->Tell(CancelRequested{(*s)["T0"]}), "cancelled T0");
  s = one_failed(options);
  EXPECT_EQ(s->Tell(DrainRequested{}).substr(0, 9), "failed T0") << "the run ends, and it had failed";
  EXPECT_EQ(s->Ended("T1", 1, kFailed, at_once).substr(0, 9), "failed T1") << "nor is anything put off then";
  s = one_failed(options);
  EXPECT_EQ(s->Tell(NodeLost{NodeId(0)}), "") << "the node was to blame";
  EXPECT_EQ(s->Ended("T1", 1), "done T1, start T3@1");
  EXPECT_EQ(s->Ended("T3", 1), "done T3, start T0@1");
  s = one_failed(options);
  s->Tell(NodeClosed{NodeId(0)});
  s->now += seconds(2);
  EXPECT_EQ(s->Tell(TimeCame{}), "failed T0") << "somebody closed it, and nothing is known of it";

  options.fail_fast = true;
  one_failed(options);
  EXPECT_EQ(said.substr(0, 9), "failed T0");
  options.fail_fast = false;
  options.max_failures = 2;
  s = one_failed(options);
  EXPECT_EQ(said, "start T2@0");
  EXPECT_EQ(s->Ended("T2", 0, kFailed, at_once), "failed T0, failed T2, skipped T3 (stopped) because T2") << "so many end the run";
}

}  // namespace
}  // namespace harrow::core
