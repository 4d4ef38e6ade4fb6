// Branch and bound: tasks with a bound, and the best value that is known.

#include <gtest/gtest.h>

#include "core/scheduler.h"
#include "order/urgency.h"
#include "support/told_scheduler.h"

namespace harrow::core {
namespace {

using test::ToldScheduler;

Options StopGap(double gap, bool ahead = false) {
  Options options;
  options.policy = order::Policy::kFifo;
  options.stop_gap = gap;
  if (!ahead) options.max_ahead = 0;
  return options;
}

/// A task a bound, named by it.
void AddBounded(ToldScheduler* s, const std::vector<double>& bounds) {
  for (const double bound : bounds) {
    s->bound = bound;
    s->Add(StrCat(bound));
  }
  s->bound = graph::kNoBound;
}

TEST(UrgencyTest, PriorityThenBoundTheLeastFirst) {
  using order::UrgencyOf;
  EXPECT_EQ(UrgencyOf(0, graph::kNoBound), 0);
  const double bounds[] = {graph::kNoBound, -1e300, -2e9, -7, -1.5, -1e-30, 0, 1e-30, 1, 1.001, 12, 3e38, 1e300};
  for (size_t i = 1; i < std::size(bounds); ++i)
    EXPECT_GE(UrgencyOf(3, bounds[i - 1]), UrgencyOf(3, bounds[i])) << bounds[i];
  EXPECT_GT(UrgencyOf(3, 1), UrgencyOf(3, 1.001));
  EXPECT_GT(UrgencyOf(3, -7), UrgencyOf(3, -1.5));
  EXPECT_GT(UrgencyOf(1, 1e300), UrgencyOf(0, graph::kNoBound));
  EXPECT_GT(UrgencyOf(-1'000'000, 1e300), order::kLeastUrgent);
}

TEST(BoundsTest, TheLeastGoesFirstAndWhatHasNoneBefore) {
  ToldScheduler s(StopGap(0));
  AddBounded(&s, {3, -2, 7, 1});
  s.Add("none");
  EXPECT_EQ(s.Begin({{1, 0, 0}}), "start none@0");
  EXPECT_EQ(s.Ended("none", 0), "done none, start -2@0");
  EXPECT_EQ(s.Ended("-2", 0), "done -2, start 1@0");
  EXPECT_EQ(s.scheduler().LeastBound(), 1) << "it runs";
  EXPECT_EQ(s.Ended("1", 0), "done 1, start 3@0");
  EXPECT_EQ(s.scheduler().LeastBound(), 3);
  EXPECT_EQ(s.Ended("3", 0), "done 3, start 7@0");
  EXPECT_EQ(s.Ended("7", 0), "done 7, complete");
  EXPECT_EQ(s.scheduler().LeastBound(), std::nullopt);
}

TEST(BoundsTest, WhatABetterValueMakesPointlessIsPrunedAndTheRunEnds) {
  ToldScheduler s(StopGap(0));
  AddBounded(&s, {1, 3, 4, 5});
  s.Add("after 4", {"4"});
  EXPECT_EQ(s.Begin({{1, 0, 0}}), "start 1@0");
  EXPECT_EQ(s.Tell(BestKnown{4}), "pruned 4, pruned after 4 because 4, pruned 5") << "as good is not better";
  EXPECT_EQ(s.scheduler().counts().pruned, 3u);
  EXPECT_EQ(s.Tell(BestKnown{9}), "") << "it is known better";
  EXPECT_EQ(s.scheduler().best(), 4);
  EXPECT_EQ(s.scheduler().Explain(s["5"]).text, "It was pruned: its bound is 5, and a value of 4 is known.");
  EXPECT_EQ(s.scheduler().Explain(s["after 4"]).text, "It was pruned: what it needs was.");
  EXPECT_EQ(s.Tell(BestKnown{0.5}), "pruned 3") << "what runs goes on";
  EXPECT_EQ(s.Ended("1", 0), "done 1, complete");
}

TEST(BoundsTest, TheGapIsRelativeToTheBestValue) {
  ToldScheduler s(StopGap(0.05));
  AddBounded(&s, {-99, -96, -95, -94});
  s.Begin({});
  EXPECT_EQ(s.Tell(BestKnown{-91}), "pruned -95, pruned -94");
  ToldScheduler t(StopGap(0.05));
  AddBounded(&t, {94, 95, 96});
  t.Begin({});
  EXPECT_EQ(t.Tell(BestKnown{100}), "pruned 95, pruned 96");
}

TEST(BoundsTest, NewcomersAndWhatComesFromElsewhereAreLookedAt) {
  ToldScheduler s(StopGap(0));
  AddBounded(&s, {1, 2, 8});
  s.Begin({{1, 0, 0}});
  s.Tell(TasksTaken{{s["2"], s["8"]}});
  EXPECT_EQ(s.scheduler().LeastBound(), 1);
  EXPECT_EQ(s.Tell(BestKnown{5}), "") << "its server prunes it";
  AddBounded(&s, {6, 4});
  EXPECT_EQ(s.Tell(s.Added()), "pruned 6");
  EXPECT_EQ(s.Tell(TasksGiven{{s["8"], s["2"]}}), "pruned 8");
  EXPECT_EQ(s.Ended("1", 0), "done 1, start 2@0");
  EXPECT_EQ(s.Tell(TaskRestored{s["4"], TaskRestored::As::kPruned}), "");
  EXPECT_EQ(s.Ended("2", 0), "done 2, complete");
}

TEST(BoundsTest, EachNthGoesToAnotherServer) {
  ToldScheduler s(StopGap(0));
  AddBounded(&s, {9, 1, 8, 2, 7, 3, 6, 4, 5});
  s.Begin({});
  const auto go = [&](uint64_t count, uint64_t keep) {
    std::string text;
    for (const TaskId id : s.scheduler().LastInOrder({.cores = 1}, count, keep)) {
      for (int bound = 1; bound <= 9; ++bound) text += s[StrCat(bound)] == id ? StrCat(bound) : "";
    }
    return text;
  };
  EXPECT_EQ(go(3, 0), "258");
  EXPECT_EQ(go(4, 1), "3579");
  EXPECT_EQ(go(1, 0), "5");
  EXPECT_EQ(go(20, 0), "123456789");
  EXPECT_EQ(go(20, 7), "89");
  EXPECT_EQ(go(3, 9), "");
}

TEST(BoundsTest, WhatWaitsForTheEndOfAPrunedTaskGoesOn) {
  ToldScheduler s(StopGap(0));
  AddBounded(&s, {3});
  s.Add("last");
  s.AfterAny("last", {"3"});
  s.Begin({});
  s.Tell(BestKnown{1});
  EXPECT_EQ(s.Tell(NodeJoined{NodeId(0), {1, 0, 0}}), "start last@0");
}

TEST(BoundsTest, WhatWasSentAheadIsAskedBackAndPruned) {
  ToldScheduler s(StopGap(0, true));
  AddBounded(&s, {1, 2, 3});
  EXPECT_EQ(s.TellAll({s.Added(), NodeJoined{NodeId(0), {1, 0, 0}}, RoundTripMeasured{NodeId(0), std::chrono::milliseconds(1)}}),
            "start 1@0");
  const std::string more = s.Ended("1", 0, Done{}, std::chrono::microseconds(500));
  EXPECT_EQ(more, "done 1, start 2@0, ahead 3@0");
  EXPECT_EQ(s.Tell(BestKnown{2.5}), "back 3@0");
  EXPECT_EQ(s.Returned("3", 0), "pruned 3");
  EXPECT_EQ(s.Ended("2", 0), "done 2, complete");
}

TEST(BoundsTest, WhatFailedIsNotTriedAgain) {
  Options options = StopGap(0);
  options.retries = 3;
  ToldScheduler s(options);
  AddBounded(&s, {3});
  s.Begin({{1, 0, 0}});
  s.Tell(BestKnown{1});
  EXPECT_EQ(s.Ended("3", 0, Failed{}), "pruned 3, complete");
}

}  // namespace
}  // namespace harrow::core
