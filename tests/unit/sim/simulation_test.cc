#include "sim/simulation.h"

#include <array>
#include <gtest/gtest.h>
#include <string>

#include "base/text.h"
#include "sim/bounds.h"
#include "sim/summary.h"
#include "support/loaded_flow.h"

namespace harrow::sim {
namespace {

using test::LoadedFlow;

/// A flow of tables of tasks, and what Simulate() needs.
struct Case {
  LoadedFlow flow;
  std::vector<Work> work;
  Options options;

  explicit Case(const std::string& table, uint32_t nodes = 1, uint32_t cores = 1) : flow("x.dag.tsv", table) {
    EXPECT_TRUE(flow.status.ok()) << flow.status.message();
    for (uint32_t n = 0; n < flow.graph.task_count(); ++n) {
      work.push_back({Seconds(flow.graph.recorded_run_time(TaskId(n)).value_or(Duration(0)))});
    }
    options.cluster.nodes.push_back(
        {.count = nodes, .capacity = {cores, 0, 0}, .page_cache = 0, .speed = 1, .line = 0});
  }
  Outcome Run() { return Simulate(flow.graph, work, options); }
  /// Names in the order of starts, "|" where time goes on.
  std::string Starts(const Outcome& outcome) const {
    std::string text;
    double time = 0;
    for (const Attempt& attempt : outcome.attempts) {
      if (attempt.begin > time) text += "| ";
      time = attempt.begin;
      text += flow.graph.TaskName(attempt.task) + " ";
    }
    return text;
  }
};

std::string FigureFive() {
  std::string table;
  for (int i = 1; i <= 5; ++i) table += StrCat("T\tA", i, "\tA\t1\nO\tA", i, "\ta", i, "\n");
  for (int i = 1; i <= 5; ++i)
    table += StrCat("T\tB", i, "\tB\t1\nI\tB", i, "\ta", i, "\nO\tB", i, "\tb", i, "\n");
  table += "T\tC\tC\t1\n";
  for (int i = 1; i <= 5; ++i) table += StrCat("I\tC\tb", i, "\n");
  return table;
}

TEST(SimulationTest, TheOrdersOfThePapersFigureFive) {
  Case c(FigureFive(), 1, 2);
  c.options.core.locality = false;  // one queue
  c.options.core.policy = order::Policy::kFifo;
  EXPECT_EQ(c.Starts(c.Run()), "A1 A2 | A3 A4 | A5 B1 | B2 B3 | B4 B5 | C ");
  c.options.core.policy = order::Policy::kHrf;
  const Outcome outcome = c.Run();
  EXPECT_EQ(c.Starts(outcome), "A1 A2 | A3 A4 | A5 B1 | B2 B3 | B4 B5 | C ");
  EXPECT_EQ(outcome.makespan, 6);
  EXPECT_TRUE(outcome.complete);
  const Bounds bounds = FindBounds(c.flow.graph, c.work, c.options.cluster);
  EXPECT_EQ(bounds.critical_path, 3);
  EXPECT_EQ(bounds.work, 11);
  EXPECT_EQ(bounds.lower, 5.5);
  EXPECT_EQ(bounds.graham, 5.5 + 1.5);
}

TEST(SimulationTest, ReadingAndWritingTakeTheirRates) {
  Case c(
      "T\ta\tk\t2\nI\ta\tin\nO\ta\tmid\nT\tb\tk\t3\nI\tb\tmid\nO\tb\tout\nF\tin\t700\nF\tmid\t590\nF\tout\t59"
      "\n");
  c.options.io = true;
  c.options.cluster.nodes[0].page_cache = 1000;
  c.options.cluster.read_local_disk = 70;
  c.options.cluster.read_local_cache = 590;
  c.options.cluster.write = 59;
  // Read 700 from disk, run, write 590; read that from the cache, run, write 59.
  EXPECT_DOUBLE_EQ(c.Run().makespan, 10 + 2 + 10 + 1 + 3 + 1);
  c.options.cluster.nodes[0].page_cache = 500;
  EXPECT_NEAR(c.Run().makespan, 10 + 2 + 10 + 590.0 / 70 + 3 + 1, 1e-9);
}

TEST(SimulationTest, RemoteFilesAreReadFromTheNodeThatWroteThem) {
  Case c("T\ta\tk\t0\nO\ta\tf\nT\tb\tk\t0\nI\tb\tf\nT\tc\tk\t0\nI\tc\tf\nF\tf\t590\n", 2, 1);
  c.options.io = true;
  c.options.cluster.read_local_disk = 59;
  c.options.cluster.read_remote_disk = 29.5;
  c.options.cluster.write = 59;
  const Outcome outcome = c.Run();
  // a writes in 10 s; one of b and c reads at home, in 10 s, the other is stolen and takes 20 s; the disk
  // gives both together 59 a second, so each has what it wants (29.5) or half.
  EXPECT_EQ(outcome.counts.local_bytes, 590u);
  EXPECT_EQ(outcome.counts.remote_bytes, 590u);
  EXPECT_EQ(outcome.bytes_moved, 590);
  EXPECT_DOUBLE_EQ(outcome.makespan, 10 + 20);
}

TEST(SimulationTest, WritesGoToDiskBehindTheTasksBack) {
  // Two tasks, one after the other, write 100 bytes each; a third reads a file of 100 from disk.
  Case c(
      "T\ta\tk\t0\nO\ta\tf\nT\tb\tk\t0\nO\tb\tg\nE\ta\tb\nT\tc\tk\t0\nI\tc\tin\nE\tb\tc\nF\tf\t100\nF\tg\t100"
      "\nF\tin\t100\n");
  c.options.io = true;
  c.options.cluster.read_local_disk = c.options.cluster.write = 10;
  c.options.cluster.write_back = 150;
  // a: 10 s. b begins while f goes to disk; f and g are more than may wait: they share the disk, 20 s. c
  // reads alone.
  EXPECT_DOUBLE_EQ(c.Run().makespan, 10 + 20 + 10);
  c.options.cluster.write_back = 250;
  // b: 10 s more, f is on disk then; c shares the disk with g: 20 s.
  EXPECT_DOUBLE_EQ(c.Run().makespan, 10 + 10 + 20);
}

TEST(SimulationTest, AFailedNodesTasksRunAgain) {
  Case c("T\ta\tk\t10\nT\tb\tk\t10\nT\tc\tk\t10\n", 2, 1);
  c.options.cluster.failures.push_back({.node = 1, .at = 5, .repair = 0});
  Outcome outcome = c.Run();
  EXPECT_EQ(outcome.counts.done, 3u);
  EXPECT_EQ(outcome.counts.losses, 1u);
  EXPECT_EQ(outcome.makespan, 30);
  EXPECT_EQ(outcome.lost_seconds, 5);
  c.options.cluster.failures[0].repair = 1;
  outcome = c.Run();
  EXPECT_EQ(outcome.makespan, 20);
  c.options.cluster.failures[0].repair = 0;
  c.options.cluster.failures.push_back({.node = 0, .at = 12, .repair = 0});
  outcome = c.Run();
  EXPECT_EQ(outcome.counts.done, 1u);
  EXPECT_EQ(outcome.node_losses, 2u);
}

TEST(SimulationTest, ATaskThatWasLostTwiceRunsAfterItsDelay) {
  Case c("T\ta\tk\t10\n", 1, 1);
  c.options.cluster.failures.push_back({.node = 0, .at = 5, .repair = 1});
  c.options.cluster.failures.push_back({.node = 0, .at = 8, .repair = 0.5});
  const Outcome outcome = c.Run();
  EXPECT_EQ(outcome.counts.done, 1u);
  EXPECT_DOUBLE_EQ(outcome.makespan, 8 + 1 + 10)
      << "the second loss costs a second, though its node is back before";
}

TEST(SimulationTest, AnEndThatNobodyWasToldIsALoss) {
  Case c("T\ta\tk\t10\n", 1, 1);
  c.options.cluster.latency = 1;
  c.options.cluster.failures.push_back({.node = 0, .at = 11.5, .repair = 1});
  const Outcome outcome = c.Run();
  EXPECT_EQ(outcome.counts.done, 1u);
  EXPECT_EQ(outcome.lost_seconds, 10);
  ASSERT_FALSE(outcome.kinds.empty());
  EXPECT_EQ(outcome.kinds[0].tasks, 1u);
}

TEST(SimulationTest, NodesThatFailNowAndThenDoNotLoseWork) {
  std::string table;
  for (int i = 0; i < 200; ++i) table += StrCat("T\tt", i, "\tk\t10\n");
  Case c(table, 4, 2);
  c.options.cluster.mtbf = 100;
  c.options.cluster.repair = 5;
  c.options.core.max_losses = 200;
  const Outcome outcome = c.Run();
  EXPECT_EQ(outcome.counts.done, 200u);
  EXPECT_GT(outcome.node_losses, 2u);
  EXPECT_GE(outcome.makespan, 250);
}

/// A node's own failures and those that the cluster file lists are one story: a node that is back after
/// either fails again as seldom as before.
TEST(SimulationTest, ListedFailuresMakeNoOthersMoreFrequent) {
  std::string table;
  for (int i = 0; i < 3000; ++i) table += StrCat("T\tt", i, "\tk\t1\n");
  Case c(table, 1, 1);
  c.options.core.max_losses = 200;
  c.options.cluster.mtbf = 300;
  c.options.cluster.repair = 0.5;
  const uint64_t drawn = c.Run().node_losses;
  EXPECT_GT(drawn, 3u);
  for (int i = 1; i <= 20; ++i) c.options.cluster.failures.push_back({.node = 0, .at = 5.0 * i, .repair = 1});
  const Outcome outcome = c.Run();
  EXPECT_EQ(outcome.counts.done, 3000u);
  EXPECT_LT(outcome.node_losses, 20 + 3 * drawn);
}

/// What is left of a task of several nodes that loses one ends before it is tried again, and not because of
/// anybody's wish.
TEST(SimulationTest, ATaskOfSeveralNodesThatLosesOneIsTriedAgain) {
  for (const double latency : {0.0, 1.0}) {
    Case c("T\ta\tk\t10\n", 3, 1);
    graph::Graph graph;
    graph::Profile profile;
    profile.shape.nodes = 2;
    graph::TaskSpec spec;
    spec.name = "gang";
    spec.profile = graph.AddProfile(profile);
    graph.AddTask(spec);
    ASSERT_TRUE(graph.Seal().ok());
    c.options.cluster.latency = latency;
    c.options.cluster.failures.push_back({.node = 1, .at = 5, .repair = 0});
    const Outcome outcome = Simulate(graph, {{.seconds = 10}}, c.options);
    EXPECT_EQ(outcome.counts.done, 1u);
    EXPECT_EQ(outcome.counts.losses, 1u);
    EXPECT_EQ(outcome.counts.attempts, 2u);
    EXPECT_DOUBLE_EQ(outcome.lost_seconds, 5);
    // The news of its end, the next start and its end are on their way one latency each.
    EXPECT_DOUBLE_EQ(outcome.makespan, 5 + 3 * latency + 10);
  }
}

/// What fail-fast ends is ended here, too, whatever it is doing.
TEST(SimulationTest, WhatIsCancelledEnds) {
  std::string table = "T\tlong\tk\t1000\n";
  for (int i = 0; i < 40; ++i) table += StrCat("T\tt", i, "\tk\t0.01\n");
  for (const bool io : {false, true}) {
    Case c(table + "I\tlong\tin\nF\tin\t100\n", 2, 1);
    c.options.core.fail_fast = true;
    c.options.core.policy = order::Policy::kFifo;
    c.options.core.max_losses = 1;
    c.options.cluster.latency = 0.001;
    c.options.io = io;
    c.options.cluster.read_local_disk = c.options.cluster.read_remote_disk = 0.1;
    // One node is lost with its task, which has failed by that.
    c.options.cluster.failures.push_back({.node = 1, .at = 0.105, .repair = 0});
    const Outcome outcome = c.Run();
    EXPECT_TRUE(outcome.complete);
    EXPECT_NEAR(outcome.makespan, 0.106, 1e-9);
    EXPECT_EQ(outcome.counts.done + outcome.counts.failed + outcome.counts.skipped + outcome.counts.cancelled,
              outcome.counts.total);
    EXPECT_EQ(outcome.counts.failed, 1u);
    EXPECT_GE(outcome.counts.cancelled, 1u);
  }
}

TEST(SimulationTest, TasksThatFitNoNodeEndAsInARun) {
  Case c("T\ta\tk\t10\nT\tb\tk\t10\t4\n", 1, 2);
  Outcome outcome = c.Run();
  EXPECT_TRUE(outcome.complete) << "nobody waits for a node that is not there";
  EXPECT_EQ(outcome.counts.done, 1u);
  EXPECT_EQ(outcome.counts.failed, 1u);
  // The only node for it is lost while it runs: it is waited for when it will be repaired, and not otherwise.
  c.options.cluster.nodes.push_back(
      {.count = 1, .capacity = {4, 0, 0}, .page_cache = 0, .speed = 1, .line = 0});
  c.options.cluster.failures.push_back({.node = 1, .at = 5, .repair = 0});
  outcome = c.Run();
  EXPECT_TRUE(outcome.complete);
  EXPECT_EQ(outcome.counts.done, 1u);
  EXPECT_EQ(outcome.counts.failed, 0u);
  EXPECT_EQ(outcome.counts.skipped, 1u) << "a run leaves it open";
  c.options.cluster.failures[0].repair = 20;
  outcome = c.Run();
  EXPECT_EQ(outcome.counts.done, 2u);
  EXPECT_EQ(outcome.makespan, 5 + 20 + 10);
}

TEST(SimulationTest, DispatchTakesItsTime) {
  Case c("T\ta\tk\t1\nT\tb\tk\t1\nE\ta\tb\n");
  c.options.cluster.latency = 0.25;
  // there, run, back, there, run
  EXPECT_DOUBLE_EQ(c.Run().makespan, 0.25 + 1 + 0.25 + 0.25 + 1);
  c.options.cluster.latency = 0;
  c.options.cluster.rate = 2;
  EXPECT_DOUBLE_EQ(c.Run().makespan, 0.5 + 1 + 0.5 + 1);
  std::string table;
  for (int i = 0; i < 1000; ++i) table += StrCat("T\tt", i, "\tk\t0.001\n");
  Case many(table, 2, 2);
  many.options.cluster.latency = 0.0005;
  const Outcome outcome = many.Run();
  EXPECT_EQ(outcome.counts.done, 1000u);
  EXPECT_LT(outcome.makespan, 0.3);  // sent ahead: 250 rounds of 1 ms, not of 2 ms
}

/// What an agent does with the same tasks (tests/unit/agent/core_test.cc): they begin in the order of
/// sending, each on slots of its own; what waits can be taken back.
TEST(SimulationTest, NodesGiveSlotsAsAgentsDo) {
  std::string table;
  for (int i = 0; i < 2000; ++i) {
    table += StrCat("T\tt", i, "\tk\t", i % 37 == 0 ? 0.03 : 0.001 * (1 + i * 7919 % 11), "\t",
                    i % 53 == 0 ? 3 : 1, "\n");
  }
  // Tasks that become ready meanwhile, and go before what was sent ahead.
  for (int i = 0; i < 80; ++i) {
    table += StrCat("T\tj", i, "\tj\t0.005\n");
    for (int k = 0; k < 25; ++k) table += StrCat("E\tt", 25 * i + k, "\tj", i, "\n");
  }
  Case c(table, 3, 4);
  c.options.cluster.latency = 0.01;
  for (const double at : {0.213, 0.517, 0.931}) {
    c.options.cluster.failures.push_back({.node = 2, .at = at, .repair = 0.1});
  }
  const Outcome outcome = c.Run();
  EXPECT_EQ(outcome.counts.done, 2080u);
  double last[3] = {0, 0, 0};
  std::array<double, 4> until[3] = {};
  uint32_t waited = 0, returned = 0, lost = 0;
  for (const Attempt& attempt : outcome.attempts) {
    const uint32_t node = attempt.node.value;
    lost += attempt.lost;
    if (attempt.slot == Attempt::kNoSlot) {
      returned += node != 2 && attempt.stage == Attempt::Stage::kGone;
      continue;
    }
    ASSERT_LT(attempt.slot, 4u);
    EXPECT_GE(attempt.begin, last[node]) << "one that was sent later began earlier";
    last[node] = attempt.begin;
    EXPECT_GE(attempt.begin, until[node][attempt.slot]) << "a slot was given twice";
    waited += attempt.begin == until[node][attempt.slot];
    until[node][attempt.slot] = attempt.end;
  }
  EXPECT_GT(waited, 200u) << "sent ahead, they begin as a slot gets free";
  EXPECT_GT(returned, 0u);
  EXPECT_GT(lost, 0u);
}

TEST(SimulationTest, SameSeedSameDocument) {
  std::string table;
  for (int i = 0; i < 50; ++i)
    table += StrCat("T\ta", i, "\ta\t", 1 + i % 7, "\nI\ta", i, "\tin", i, "\nO\ta", i, "\tf", i, "\n");
  for (int i = 0; i < 50; ++i) table += StrCat("T\tb", i, "\tb\t", 1 + i % 5, "\nI\tb", i, "\tf", i, "\n");
  for (int i = 0; i < 50; ++i) table += StrCat("F\tf", i, "\t", 1000 * (i + 1), "\nF\tin", i, "\t5000\n");
  Case c(table, 3, 2);
  c.options.io = true;
  c.options.core.policy = order::Policy::kRankHrf;
  c.options.cluster.read_local_disk = c.options.cluster.read_remote_disk = c.options.cluster.write = 1e4;
  c.options.cluster.jitter = 0.1;
  c.options.cluster.nic = 8000;
  c.options.cluster.hub = 12000;
  const auto document = [&] {
    return Json({"f", "c"}, c.flow.graph, c.options, c.Run(),
                FindBounds(c.flow.graph, c.work, c.options.cluster));
  };
  const std::string first = document();
  EXPECT_EQ(first, document());
  c.options.seed = 2;
  EXPECT_NE(first, document());
}

}  // namespace
}  // namespace harrow::sim
