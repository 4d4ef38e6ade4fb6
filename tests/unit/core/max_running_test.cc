// At most so many tasks at once, on all nodes together.

#include <gtest/gtest.h>

#include "core/scheduler.h"
#include "support/told_scheduler.h"

namespace harrow::core {
namespace {

using order::Policy;
using test::ToldScheduler;

TEST(MaxRunning, NodesTakeTurnsUpToTheLimit) {
  ToldScheduler s({.policy = Policy::kFifo, .max_running = 3});
  for (const char* name : {"A", "B", "C", "D"}) s.Add(name);
  EXPECT_EQ(s.Begin({{4, 0, 0}, {4, 0, 0}}), "start A@0, start B@1, start C@0");
  EXPECT_EQ(s.Ended("B", 1), "done B, start D@1");
}

TEST(MaxRunning, ANodeThatNothingHappenedToTakesWhatTheOtherCannot) {
  ToldScheduler s({.policy = Policy::kFifo, .max_running = 1});
  s.Add("A");
  s.profile.shape.cores = 4;
  s.Add("B");
  EXPECT_EQ(s.Begin({{1, 0, 0}, {4, 0, 0}}), "start A@0");
  EXPECT_EQ(s.Ended("A", 0), "done A, start B@1");
}

TEST(MaxRunning, ATaskThatIsOnASilentNodeCountsUntilTheNodeIsLost) {
  ToldScheduler s({.policy = Policy::kFifo, .max_running = 1});
  s.Add("A");
  s.Add("B");
  EXPECT_EQ(s.Begin({{1, 0, 0}, {1, 0, 0}}), "start A@0");
  EXPECT_EQ(s.Tell(NodeSilent{NodeId(0)}), "");
  EXPECT_EQ(s.Tell(NodeLost{NodeId(0)}), "start B@1") << "A waits some seconds";
}

TEST(MaxRunning, WhatFitsOnlyWhereNothingEndsHasItsTurn) {
  ToldScheduler s({.policy = Policy::kFifo, .max_running = 1});
  s.Add("A");
  s.profile.shape.cores = 4;
  s.Add("W");
  s.profile.shape.cores = 1;
  for (const char* name : {"C", "D", "E"}) s.Add(name);
  EXPECT_EQ(s.Begin({{1, 0, 0}, {4, 0, 0}}), "start A@0");
  EXPECT_EQ(s.Ended("A", 0), "done A, start W@1");
  EXPECT_EQ(s.Ended("W", 1), "done W, start C@0");
}

TEST(MaxRunning, NothingIsSentAhead) {
  for (const uint32_t most : {1u, 2u}) {
    ToldScheduler s({.policy = Policy::kFifo, .max_running = most});
    for (const char* name : {"A", "B", "C", "D", "E"}) s.Add(name);
    s.Begin({{most, 0, 0}});
    s.Tell(RoundTripMeasured{NodeId(0), std::chrono::milliseconds(1)});
    EXPECT_EQ(s.Ended("A", 0, Done{}, std::chrono::milliseconds(1)),
              most == 1 ? "done A, start B@0" : "done A, start C@0");
  }
}

TEST(MaxRunning, ATaskOfSeveralNodesWaitsForItsTurn) {
  ToldScheduler s({.policy = Policy::kFifo, .max_running = 1});
  s.Add("A");
  s.profile.shape.nodes = 2;
  s.Add("G");
  EXPECT_EQ(s.Begin({{1, 0, 0}, {1, 0, 0}, {1, 0, 0}}), "start A@0");
  EXPECT_EQ(s.Ended("A", 0), "done A, join G@1, start G@0");
}

TEST(MaxRunning, ExplainNamesTheLimit) {
  ToldScheduler s({.policy = Policy::kFifo, .max_running = 1});
  s.Add("A");
  s.Add("B");
  s.Begin({{2, 0, 0}});
  EXPECT_NE(s.scheduler().Explain(s["B"]).text.find("At most 1 task runs at once."), std::string::npos);
}

}  // namespace
}  // namespace harrow::core
