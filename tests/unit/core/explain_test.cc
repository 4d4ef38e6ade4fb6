// What `harrow explain` says of a task in each state.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "base/text.h"
#include "core/scheduler.h"
#include "support/told_scheduler.h"

namespace harrow::core {
namespace {

using order::Policy;
using test::ToldScheduler;

std::string Says(ToldScheduler& s, std::string_view task) {
  return s.scheduler().Explain(s[task]).text;
}

TEST(Explain, UnknownTask) {
  ToldScheduler s;
  EXPECT_EQ(s.scheduler().Explain(TaskId(7)).text, "It is not known to the scheduler yet.");
}

TEST(Explain, WaitsForWhatItNeeds) {
  ToldScheduler s({.policy = Policy::kFifo});
  s.Add("A");
  s.Add("B");
  s.Add("C", {"A", "B"});
  s.Begin({{2, 0, 0}});
  EXPECT_EQ(Says(s, "C"), "It waits for 2 tasks that it needs.");
  s.Ended("A", 0);
  EXPECT_EQ(Says(s, "C"), "It waits for 1 task that it needs.");
  EXPECT_EQ(s.scheduler().Explain(s["C"]).waits_for, std::vector<TaskId>{s["B"]});
}

TEST(Explain, WaitsForAnEnd) {
  ToldScheduler s({.policy = Policy::kFifo});
  for (const char* name : {"A", "B", "C", "D"}) s.Add(name);
  s.AfterAny("D", {"A", "B"});
  s.Add("E", {"B", "C"});
  s.AfterAny("E", {"A"});
  s.Begin({{3, 0, 0}});
  EXPECT_EQ(Says(s, "D"), "It waits for the end of 2 tasks, whatever becomes of them.");
  EXPECT_EQ(Says(s, "E"),
            "It waits for 2 tasks that it needs, and for the end of 1 task, whatever becomes of it.");
  s.Ended("A", 0, Failed{1, false});
  EXPECT_EQ(Says(s, "D"), "It waits for the end of 1 task, whatever becomes of it.");
  EXPECT_EQ(s.scheduler().Explain(s["D"]).waits_for, std::vector<TaskId>{s["B"]});
  s.Ended("C", 0, Failed{1, false});
  EXPECT_EQ(Says(s, "E"), "It was skipped: it needs C, which failed.");
}

TEST(Explain, WaitsBecauseItsAttemptsWereLost) {
  ToldScheduler s({.policy = Policy::kFifo});
  s.Add("A");
  s.Begin({{1, 0, 0}});
  for (int loss = 0; loss < 2; ++loss) {
    s.Tell(NodeLost{NodeId(0)});
    s.Tell(NodeJoined{NodeId(0), {1, 0, 0}});
  }
  EXPECT_TRUE(
      Says(s, "A").starts_with("It waits some seconds before it is tried again, as attempts were lost."))
      << Says(s, "A");
}

TEST(Explain, ReadyInTheRemoteQueue) {
  ToldScheduler s({.policy = Policy::kFifo});
  for (const char* name : {"A", "B", "C"}) s.Add(name);
  s.Begin({});
  EXPECT_EQ(Says(s, "A"), "It is ready; no node is there to run it.");
  s.Tell(NodeJoined{NodeId(0), {1, 0, 0}});
  EXPECT_EQ(Says(s, "B"), "It is ready, in the queue of all nodes; none comes before it there.");
  EXPECT_EQ(Says(s, "C"), "It is ready, in the queue of all nodes; about 1 task comes first there.");
  EXPECT_EQ(s.scheduler().Explain(s["C"]).ahead_in_queue, 1u);
}

TEST(Explain, ReadyByLevels) {
  ToldScheduler s({.policy = Policy::kHrf});
  s.Add("A1"), s.Add("A2", {"A1"}), s.Add("A3", {"A2"});
  s.Add("Low"), s.Add("Low too");
  s.profile.priority = 1;
  s.Add("Wanted");
  s.profile.priority = 0;
  s.Add("High"), s.Add("End", {"High"});
  EXPECT_EQ(s.Begin({{1, 0, 0}}), "start A1@0");
  const auto before = [&s](const char* task) { return s.scheduler().Explain(s[task]).ahead_in_queue; };
  EXPECT_EQ(before("High"), 0u);
  EXPECT_EQ(before("Wanted"), 1u);
  EXPECT_EQ(before("Low"), 2u);
  EXPECT_EQ(before("Low too"), 3u);
}

TEST(Explain, ReadyWithoutLocality) {
  ToldScheduler s({.policy = Policy::kLifo, .locality = false});
  for (const char* name : {"A", "B", "C"}) s.Add(name);
  s.Begin({{1, 0, 0}});
  EXPECT_EQ(Says(s, "A"), "It is ready, in the one queue of all nodes; about 1 task comes first there.");
}

TEST(Explain, ReadyWhereItsInputLies) {
  for (const bool steal : {true, false}) {
    ToldScheduler s({.policy = Policy::kFifo, .steal = steal});
    s.Add("A", {}, {}, {"f"});
    s.Size("f", 100);
    for (const char* name : {"B", "C", "D"}) s.Add(name, {}, {"f"});
    s.Begin({{1, 0, 0}});
    s.Ended("A", 0);
    EXPECT_EQ(
        Says(s, "D"),
        std::string("It is ready, in the queue of the node with at least half of the largest share of its "
                    "input; about 1 task comes first there.") +
            (steal ? "" : " Stealing is off: no other node takes it."));
    EXPECT_EQ(Says(s, "A"), "It ran; it was taken from the queue of all nodes, as it reads no files.");
    EXPECT_EQ(Says(s, "B"),
              "It was sent to its node; it was taken from that node's own queue, as most of its input lies "
              "there. 100 B of 100 B of its input lie there.");
    s.Started("B", 0);
    EXPECT_TRUE(Says(s, "B").starts_with("It runs; ")) << Says(s, "B");
  }
}

TEST(Explain, AsksForWhatIsNotHere) {
  ToldScheduler s({.policy = Policy::kFifo});
  s.profile.shape.devices = 2;
  s.Add("G");
  s.profile.shape = {};
  s.profile.shape.nodes = 3;
  s.Add("gang");
  s.Begin({{4, 1, 0}, {4, 1, 0}});
  EXPECT_EQ(Says(s, "G"), "It is ready, but asks for 1 core, 2 devices, which no node here has.");
  EXPECT_EQ(Says(s, "gang"), "It is ready, but asks for 3 whole nodes of 1 core; 2 such nodes are here.");
  s.Tell(AllNodesJoined{});
  EXPECT_EQ(Says(s, "G"), "It failed: it asks for 1 core, 2 devices, which no node can give.");
}

TEST(Explain, RoomIsKeptForIt) {
  ToldScheduler s({.policy = Policy::kFifo});
  s.Add("first");
  s.profile.shape.cores = 2;
  s.Add("large");
  s.profile.shape = {};
  for (const char* name : {"S0", "S1", "S2", "S3"}) s.Add(name);
  s.Begin({{2, 0, 0}});
  EXPECT_EQ(Says(s, "large"),
            "It is ready, in the queue of all nodes; none comes before it there. "
            "It asks for 2 cores.");
  s.Ended("first", 0);
  s.Ended("S0", 0);
  EXPECT_EQ(Says(s, "large"),
            "It is ready, in the queue of all nodes; none comes before it there. "
            "It asks for 2 cores. A node keeps what gets free for tasks of its shape.");
}

TEST(Explain, TaskOfSeveralNodes) {
  ToldScheduler s({.policy = Policy::kFifo});
  s.Add("S");
  s.profile.shape.nodes = 2;
  s.Add("gang");
  s.Begin({{1, 0, 0}, {1, 0, 0}});
  EXPECT_EQ(Says(s, "gang"),
            "It is ready, in the queue of tasks of several nodes; none comes before it there. It asks for 2 "
            "whole nodes of 1 core. It waits until 2 nodes are idle at once.");
  s.Ended("S", 0);
  EXPECT_EQ(Says(s, "gang"), "It was sent to its node; enough nodes had room for it at once.");
}

TEST(Explain, RanksOnSeveralNodes) {
  ToldScheduler s({.policy = Policy::kFifo});
  s.profile.ranks = 8;
  s.profile.shape.cores = 8;
  s.Add("spread");
  s.profile.ranks = 20;
  s.profile.shape = {.cores = 10, .nodes = 2};
  s.Add("large");
  s.Begin({{3, 0, 0}, {3, 0, 0}, {3, 0, 0}});
  EXPECT_EQ(Says(s, "spread"), "It is ready, but asks for 8 cores, which no node here has.");
  EXPECT_EQ(Says(s, "large"),
            "It is ready, but asks for 10 cores on each of 2 nodes, which no node here has.");
  s.Tell(AllNodesJoined{});
  EXPECT_EQ(Says(s, "spread"), "It was sent to its node; enough nodes had room for it at once.");
  EXPECT_EQ(Says(s, "large"),
            "It failed: it asks for 10 cores on each of 2 nodes, which too few nodes can give.");
  s.profile.ranks = 4;
  s.profile.shape = {.cores = 4};
  s.Add("second");
  s.Tell(s.Added());
  EXPECT_EQ(
      Says(s, "second"),
      "It is ready, in the queue of tasks of several nodes; none comes before it there. It asks for 2 "
      "cores on each of 2 nodes. No node is large enough for all of its 4 ranks. It waits until 2 nodes "
      "have room for it at once.");
}

TEST(Explain, TimeLimitDoesNotFit) {
  ToldScheduler s({.policy = Policy::kFifo});
  s.Add("A");
  s.profile.time_limit = std::chrono::minutes(10);
  s.Add("long");
  s.Tell(EndTimeKnown{Time(std::chrono::minutes(5))});
  s.Begin({{1, 0, 0}});
  EXPECT_EQ(Says(s, "long"), "It is ready, but its time limit does not fit before the allocation ends.");
  s.Ended("A", 0);
  EXPECT_EQ(Says(s, "long"), "It was skipped: its time limit does not fit before the allocation ends.");
}

TEST(Explain, TriedAgain) {
  ToldScheduler s({.policy = Policy::kFifo, .retries = 1, .max_losses = 3});
  s.Add("A");
  s.Add("B");
  s.Begin({{1, 0, 0}});
  s.Ended("A", 0, Failed{1, true});
  EXPECT_EQ(Says(s, "A"),
            "It is ready, in the queue of all nodes; none comes before it there. "
            "It has been tried once already.");
  s.Ended("B", 0, Lost{});
  s.Ended("A", 0, Failed{1, true});
  EXPECT_EQ(Says(s, "A"),
            "It failed; it was taken from the queue of all nodes, as it reads no files. That was attempt 2.");
  EXPECT_EQ(
      Says(s, "B"),
      "It was sent to its node; it was taken from the queue of all nodes, as it reads no files. This is "
      "attempt 2. 1 was lost with the node.");
}

TEST(Explain, SentAheadAndAskedBack) {
  ToldScheduler s({.policy = Policy::kFifo});
  for (const char* name : {"A", "B", "C", "D", "E"}) s.Add(name);
  s.Begin({{1, 0, 0}});
  s.Tell(RoundTripMeasured{NodeId(0), std::chrono::milliseconds(1)});
  s.Ended("A", 0, Done{}, std::chrono::milliseconds(1));
  EXPECT_TRUE(Says(s, "C").starts_with("It was sent ahead of a free slot to its node; ")) << Says(s, "C");
  s.Tell(NodeClosed{NodeId(0)});
  EXPECT_TRUE(Says(s, "C").ends_with(" It has been asked back.")) << Says(s, "C");
}

TEST(Explain, SettledWithoutHavingRun) {
  ToldScheduler s({.policy = Policy::kFifo});
  s.Add("A");
  s.Add("B", {"A"});
  s.Add("C");
  s.Add("D");
  s.Begin({{1, 0, 0}});
  s.Tell(CancelRequested{s["D"]});
  EXPECT_EQ(Says(s, "D"), "It was cancelled.");
  s.Ended("A", 0, Failed{1, false});
  EXPECT_EQ(Says(s, "B"), "It was skipped: it needs A, which failed.");
  s.Tell(DrainRequested{});
  s.Ended("C", 0, Interrupted{});
  EXPECT_EQ(
      Says(s, "C"),
      "It was begun, and ended with the allocation or not tried again, as the run starts nothing more.");
}

TEST(Explain, HowItCameToItsNode) {
  ToldScheduler s({.policy = Policy::kFifo});
  s.Size("f", 100);
  s.Size("in", 50);
  s.Add("A", {}, {"in"}, {"f"});
  s.Add("B0", {}, {"f"});
  s.Add("B1", {}, {"f"});
  s.Begin({{1, 0, 0}, {1, 0, 0}});
  EXPECT_EQ(
      Says(s, "A"),
      "It was sent to its node; it was taken from the remote queue, as no node holds its input. 0 B of 50 B "
      "of its input lie there.");
  EXPECT_EQ(s.Ended("A", 0), "done A, start B0@0, start B1@1");
  EXPECT_EQ(
      Says(s, "B1"),
      "It was sent to its node; an idle slot there stole it from the queue of a node that holds its input. "
      "0 B of 100 B of its input lie there.");
  ToldScheduler t;
  t.Add("A");
  t.TellAll({t.Added(), NodeJoined{NodeId(0), {1, 0, 0}}, TaskStarted{{t["A"], 1}, NodeId(0)}});
  EXPECT_EQ(Says(t, "A"), "It runs; the agent there was running it already.");
}

TEST(Explain, WhatItAsksFor) {
  ToldScheduler s({.policy = Policy::kFifo});
  s.profile.shape = {.cores = 3, .devices = 1, .memory = 2048};
  s.Add("A");
  s.profile.shape = {};
  s.profile.shape.whole_node = true;
  s.Add("W");
  s.profile.shape = {};
  s.profile.shape.devices = 1;
  s.Add("G");
  s.profile.shape = {};
  s.profile.shape.nodes = 2;
  s.Add("gang");
  s.Begin({{2, 0, 0}});
  EXPECT_EQ(Says(s, "A"), "It is ready, but asks for 3 cores, 1 device, " + FormatBytes(2048) +
                              ", which no node here has.");
  EXPECT_EQ(Says(s, "G"), "It is ready, but asks for 1 core, 1 device, which no node here has.");
  EXPECT_EQ(Says(s, "gang"), "It is ready, but asks for 2 whole nodes of 1 core; 1 such node is here.");
  EXPECT_EQ(s.State("W"), TaskState::kSent);
  s.profile.shape.nodes = 1;
  s.profile.shape.whole_node = true;
  s.Add("W2");
  s.Tell(s.Added());
  EXPECT_EQ(Says(s, "W2"),
            "It is ready, in the queue of all nodes; about 2 tasks come first there. It asks for "
            "a whole node of 1 core.");
}

TEST(Explain, ReadyThoughItsInputLiesOnNoNode) {
  ToldScheduler s({.policy = Policy::kFifo});
  s.Add("A");
  s.Add("B", {}, {"in"});
  s.Begin({{1, 0, 0}});
  EXPECT_EQ(Says(s, "B"),
            "It is ready, in the remote queue (no node holds its input); none comes before it there.");
}

TEST(Explain, ReadyInQueuesOfSeveralNodes) {
  ToldScheduler s({.policy = Policy::kFifo, .steal = false, .shared_files = false});
  s.Add("X");
  s.Add("Y");
  s.Begin({{1, 0, 0}, {1, 0, 0}});
  s.Add("C", {}, {"in"});
  s.TellAll({FileStored{s.File("in"), NodeId(0), 100}, FileStored{s.File("in"), NodeId(1), 100}, s.Added()});
  EXPECT_EQ(
      Says(s, "C"),
      "It is ready, in the queues of the nodes with at least half of the largest share of its input; none "
      "comes before it there. Stealing is off: no other node takes it.");
}

TEST(Explain, TheLimitOfTasksThatRunAtOnce) {
  ToldScheduler s({.policy = Policy::kFifo, .max_running = 2});
  for (const char* name : {"A", "B", "C", "D", "E"}) s.Add(name);
  s.Begin({{4, 0, 0}});
  EXPECT_EQ(Says(s, "E"),
            "It is ready, in the queue of all nodes; about 2 tasks come first there. At most 2 tasks "
            "run at once.");
}

TEST(Explain, NodesThatAreKeptForIt) {
  ToldScheduler s({.policy = Policy::kFifo});
  for (const char* name : {"S0", "S1", "S2", "S3", "S4", "S5"}) s.Add(name);
  s.profile.shape.nodes = 2;
  s.Add("gang");
  s.Begin({{1, 0, 0}, {1, 0, 0}});
  for (const auto& [name, node] : {std::pair("S0", 0u), std::pair("S1", 1u), std::pair("S2", 0u)}) {
    s.now += std::chrono::seconds(1);
    s.Ended(name, node);
  }
  EXPECT_EQ(
      Says(s, "gang"),
      "It is ready, in the queue of tasks of several nodes; none comes before it there. It asks for 2 "
      "whole nodes of 1 core. Room is kept for it on its 2 candidate nodes; 1 of them has it, the others "
      "when what runs there has ended.");
  EXPECT_EQ(s.scheduler().Explain(s["gang"]).candidates, (std::vector<NodeId>{NodeId(0), NodeId(1)}));
  EXPECT_TRUE(Says(s, "S4").ends_with(" Some nodes keep room for tasks of several nodes.")) << Says(s, "S4");
}

TEST(Explain, WaitsToBeTriedAgain) {
  ToldScheduler s({.retries = 3, .retry_delay = std::chrono::seconds(10)});
  s.Add("A");
  s.Begin({{1, 0, 0}});
  s.Ended("A", 0, Failed{1, true});
  EXPECT_EQ(Says(s, "A"), "It waits before it is tried again (retry_delay). It has been tried once already.");
  s.now += std::chrono::seconds(10);
  s.Tell(TimeCame{});
  s.Ended("A", 0, Failed{1, true});
  EXPECT_EQ(Says(s, "A"),
            "It waits before it is tried again (retry_delay). It has been tried 2 times already.");
  s.now += std::chrono::seconds(10);
  s.Tell(TimeCame{});
  s.Ended("A", 0, Lost{});
  s.Ended("A", 0, Lost{});
  s.now += std::chrono::seconds(10);
  EXPECT_EQ(s.Tell(TimeCame{}), "start A@0");
  EXPECT_EQ(Says(s, "A"),
            "It was sent to its node; it was taken from the queue of all nodes, as it reads no files. "
            "This is attempt 5. 2 were lost with the node.");
}

TEST(Explain, WhySomethingWasSkipped) {
  ToldScheduler s({.policy = Policy::kFifo});
  s.Add("A");
  s.Add("other");
  s.Add("B", {"A"});
  s.Add("C", {"B"});
  s.AfterAny("C", {"other"});
  s.Add("hold");
  s.Add("D", {"hold"});
  s.Begin({{1, 0, 0}});
  EXPECT_EQ(s.Tell(CancelRequested{s["other"]}), "cancelled other");
  s.Tell(CancelRequested{s["A"]});
  EXPECT_THAT(s.Ended("A", 0, Cancelled{}), ::testing::HasSubstr("skipped C because A"));
  EXPECT_EQ(Says(s, "C"), "It was skipped: it needs A, which was cancelled.");
  EXPECT_TRUE(s.scheduler().Explain(s["C"]).waits_for.empty());
  s.Tell(DrainRequested{});
  s.Ended("hold", 0, Interrupted{});
  EXPECT_EQ(Says(s, "D"), "It was skipped: something it needs is not done.");
  ToldScheduler t;
  t.Add("A");
  t.Begin({});
  t.Tell(DrainRequested{});
  EXPECT_EQ(Says(t, "A"), "It was skipped: the run starts nothing more.");
}

TEST(Explain, ShowsSomeOfManyTasksAndNodes) {
  ToldScheduler s({.policy = Policy::kFifo, .shared_files = false});
  ToldScheduler::Words before;
  for (int i = 0; i < 25; ++i) {
    before.push_back("P" + std::to_string(i));
    s.Add(before.back());
  }
  s.Add("last", before, {"a", "b"});
  s.Begin(std::vector<NodeCapacity>(12, {1, 0, 0}));
  for (uint32_t n = 0; n < 12; ++n) s.Tell(FileStored{s.File("a"), NodeId(n), 100});
  for (uint32_t n : {7u, 9u}) s.Tell(FileStored{s.File("b"), NodeId(n), 30});
  const Explanation last = s.scheduler().Explain(s["last"]);
  EXPECT_EQ(last.waits_for.size(), 20u);
  EXPECT_EQ(last.waits_for.front(), s["P0"]);
  EXPECT_EQ(last.text, "It waits for 25 tasks that it needs.");
  ASSERT_EQ(last.input_at.size(), 10u);
  EXPECT_EQ(last.input_at[0], (std::pair<NodeId, int64_t>{NodeId(7), 130}));
  EXPECT_EQ(last.input_at[1], (std::pair<NodeId, int64_t>{NodeId(9), 130}));
  EXPECT_EQ(last.input_at[2], (std::pair<NodeId, int64_t>{NodeId(0), 100}));
}

TEST(Explain, OfEarlierRuns) {
  ToldScheduler s({.policy = Policy::kFifo});
  s.Add("A");
  s.Add("B");
  s.TellAll({s.Added(), TaskRestored{s["A"], TaskRestored::As::kDone},
             TaskRestored{s["B"], TaskRestored::As::kFailed}});
  EXPECT_EQ(Says(s, "A"), "It was done before.");
  EXPECT_EQ(Says(s, "B"), "It failed in an earlier run.");
}

}  // namespace
}  // namespace harrow::core
