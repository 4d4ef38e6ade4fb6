#include "sim/across.h"

#include <cstdlib>
#include <gtest/gtest.h>
#include <limits>
#include <string>

#include "base/text.h"
#include "order/draws.h"
#include "sim/bounds.h"
#include "sim/summary.h"
#include "support/loaded_flow.h"

namespace harrow::sim {
namespace {

using test::LoadedFlow;
using Allocation = formats::ClusterModel::Allocation;

/// A flow and allocations of one node each of so many cores.
struct Shared {
  LoadedFlow flow;
  std::vector<Work> work;
  Options options;

  Shared(const std::string& table, std::vector<Allocation> allocations, uint32_t cores = 1)
      : flow("x.dag.tsv", table) {
    EXPECT_TRUE(flow.status.ok()) << flow.status.message();
    for (uint32_t n = 0; n < flow.graph.task_count(); ++n)
      work.push_back({Seconds(flow.graph.recorded_run_time(TaskId(n)).value_or(Duration(0)))});
    options.cluster.nodes.push_back({.count = static_cast<uint32_t>(allocations.size()),
                                     .capacity = {cores, 0, 0},
                                     .page_cache = 0,
                                     .speed = 1,
                                     .line = 0});
    for (Allocation& each : allocations) each.nodes = 1;
    options.cluster.allocations = std::move(allocations);
    options.check_owners = true;
  }
  void GiveTheLastNode(uint32_t cores) {
    options.cluster.nodes.push_back(options.cluster.nodes[0]);
    --options.cluster.nodes[0].count;
    options.cluster.nodes[1].count = 1;
    options.cluster.nodes[1].capacity.slots = cores;
  }
  Outcome Run() { return Simulate(flow.graph, work, options); }
};

std::string Tasks(int count, double seconds) {
  std::string table;
  for (int i = 0; i < count; ++i) table += StrCat("T\tt", i, "\tt\t", seconds, "\n");
  return table;
}

TEST(AcrossTest, OneAllocationIsAsNone) {
  Shared one(Tasks(10, 1), {{.name = "a"}}, 4);
  const Outcome outcome = one.Run();
  EXPECT_EQ(outcome.makespan, 3);
  EXPECT_EQ(outcome.counts.done, 10u);
  EXPECT_TRUE(outcome.complete);
  EXPECT_EQ(outcome.moves, 0u);
  ASSERT_EQ(outcome.allocations.size(), 1u);
  EXPECT_EQ(outcome.allocations[0].slot_seconds(), 12);
  EXPECT_EQ(outcome.allocations[0].idle_seconds(), 2);
}

TEST(AcrossTest, TheOtherGetsHalf) {
  Shared two(Tasks(40, 1), {{.name = "a"}, {.name = "b"}}, 4);
  const Outcome outcome = two.Run();
  EXPECT_EQ(outcome.makespan, 5);
  EXPECT_EQ(outcome.allocations[0].done, 20u);
  EXPECT_EQ(outcome.allocations[1].done, 20u);
  EXPECT_EQ(outcome.allocations[0].moved_out, outcome.allocations[1].moved_in);
  EXPECT_EQ(outcome.moved_tasks, outcome.allocations[1].moved_in);
}

TEST(AcrossTest, ByCapacityTheFasterGetsMore) {
  Shared fast(Tasks(300, 1), {{.name = "a"}, {.name = "b", .speed = 2}}, 10);
  const Outcome outcome = fast.Run();
  EXPECT_LE(outcome.makespan, 11);
  EXPECT_NEAR(static_cast<double>(outcome.allocations[1].done), 200, 10);
}

TEST(AcrossTest, TriggerEmptyWaitsUntilOneHasNothing) {
  Shared two(Tasks(40, 1), {{.name = "a"}, {.name = "b"}}, 4);
  two.options.moves.trigger = supervisor::Trigger::kEmpty;
  const Outcome few = two.Run();
  two.options.moves.trigger = supervisor::Trigger::kAlways;
  const Outcome many = two.Run();
  EXPECT_TRUE(few.complete);
  EXPECT_LE(few.moves, many.moves);
}

TEST(AcrossTest, AMoveTakesTheDelayOfBoth) {
  Shared far(Tasks(2, 10), {{.name = "a", .delay = 0.25}, {.name = "b", .delay = 0.5}}, 1);
  const Outcome outcome = far.Run();
  // b's first report comes at 0.5, the request 0.25 later, the task 0.75 after that.
  ASSERT_EQ(outcome.attempts.size(), 2u);
  EXPECT_EQ(outcome.attempts[1].node, NodeId(1));
  EXPECT_NEAR(outcome.attempts[1].begin, 1.5, 1e-9);
  EXPECT_NEAR(outcome.makespan, 11.5, 1e-9);
}

TEST(AcrossTest, OneThatBeginsLaterHelps) {
  Shared late(Tasks(20, 1), {{.name = "a"}, {.name = "b", .begin = 5}}, 1);
  const Outcome outcome = late.Run();
  EXPECT_NEAR(outcome.makespan, 13, 1);
  EXPECT_EQ(outcome.allocations[1].begin, 5);
  for (const Attempt& attempt : outcome.attempts) {
    if (attempt.node == NodeId(1)) {
      EXPECT_GE(attempt.begin, 5);
    }
  }
}

TEST(AcrossTest, OneThatEndsGivesItsTasksBack) {
  Shared ends(Tasks(20, 1), {{.name = "a", .end = 4.25}, {.name = "b", .delay = 0.125}}, 1);
  ends.options.moves.worth_only = false;
  const Outcome outcome = ends.Run();
  EXPECT_TRUE(outcome.complete);
  EXPECT_EQ(outcome.counts.done, 20u);
  EXPECT_EQ(outcome.counts.losses, 1u) << "what ran at its end";
  EXPECT_EQ(outcome.counts.attempts, 21u);
  EXPECT_EQ(outcome.allocations[0].done, 4u);
  // b is told of after 0.125, and its first task comes 0.125 later.
  EXPECT_NEAR(outcome.makespan, 16.25, 1e-9);
  EXPECT_EQ(outcome.allocations[0].end, 4.25);
}

TEST(AcrossTest, WithNobodyThereTasksWaitForTheNext) {
  Shared gap(Tasks(6, 1), {{.name = "a", .end = 2.5}, {.name = "b", .begin = 10}}, 1);
  const Outcome outcome = gap.Run();
  EXPECT_TRUE(outcome.complete);
  EXPECT_EQ(outcome.makespan, 14);
}

TEST(AcrossTest, WhereAllEndBeforeItIsNotComplete) {
  Shared ends(Tasks(6, 1), {{.name = "a", .end = 2.5}}, 1);
  const Outcome outcome = ends.Run();
  EXPECT_FALSE(outcome.complete);
  EXPECT_EQ(outcome.counts.done, 2u);
}

TEST(AcrossTest, HoweverLongNothingElseHappensItGoesOn) {
  Shared one(Tasks(1, 1e4), {{.name = "a"}}, 1);
  EXPECT_EQ(one.Run().makespan, 1e4);
  Shared often(Tasks(10, 20), {{.name = "a"}, {.name = "b"}}, 5);
  often.options.report_period = 0.001;
  EXPECT_EQ(often.Run().makespan, 20);
  Shared far(Tasks(2, 1000), {{.name = "a"}, {.name = "b", .delay = 120}}, 1);
  const Outcome moved = far.Run();
  EXPECT_EQ(moved.allocations[1].done, 1u);
  EXPECT_EQ(moved.makespan, 1240) << "a report and an offer after it";
  std::string table = "T\tt\tk\t1\t2\n";
  Shared awaited(table, {{.name = "a"}, {.name = "b", .begin = 1e4}}, 1);
  awaited.GiveTheLastNode(2);
  const Outcome late = awaited.Run();
  EXPECT_EQ(late.counts.done, 1u);
  EXPECT_NEAR(late.makespan, 1e4 + 1, 0.2);
}

TEST(AcrossTest, WhatNobodyCanRunAnyMoreIsLeft) {
  Shared none("T\tt\tk\t5\t2\n", {{.name = "a"}, {.name = "b", .end = 3}}, 1);
  none.GiveTheLastNode(2);
  const Outcome outcome = none.Run();
  EXPECT_FALSE(outcome.complete);
  EXPECT_EQ(outcome.counts.done, 0u);
  EXPECT_EQ(outcome.counts.losses, 1u);
}

TEST(AcrossTest, ReportsThatAreRareAreBelievedAllTheSame) {
  Shared rare(Tasks(2000, 0.1), {{.name = "a", .delay = 0.05}, {.name = "b", .delay = 0.05}}, 4);
  rare.options.report_period = 7;
  rare.options.moves.period = FromSeconds(7);
  rare.options.moves.silence = FromSeconds(70);
  rare.options.moves.forget = FromSeconds(210);
  EXPECT_LE(rare.Run().makespan, 1.1 * 25);
}

TEST(AcrossTest, OneThatSoonEndsIsGivenWhatItCanBegin) {
  Shared ends(Tasks(2000, 0.1), {{.name = "a"}, {.name = "b", .begin = 50, .end = 52}}, 1);
  const Outcome outcome = ends.Run();
  EXPECT_EQ(outcome.counts.done, 2000u);
  EXPECT_LE(outcome.allocations[1].moved_in, 20u);
  EXPECT_GE(outcome.allocations[1].done, 16u);
}

TEST(AcrossTest, WhoEndsGivesAwayWhatItCannotBegin) {
  Shared ends(Tasks(400, 0.1), {{.name = "a", .end = 20}, {.name = "b", .delay = 0.05}}, 1);
  const Outcome outcome = ends.Run();
  EXPECT_EQ(outcome.counts.done, 400u);
  EXPECT_LE(outcome.makespan, 1.02 * 20.1);
}

TEST(AcrossTest, TheRunMayBeOverBeforeOneBegins) {
  Shared late(Tasks(4, 1), {{.name = "a"}, {.name = "b", .begin = 100}}, 1);
  const Outcome outcome = late.Run();
  EXPECT_EQ(outcome.makespan, 4);
  EXPECT_TRUE(outcome.allocations[0].began);
  EXPECT_FALSE(outcome.allocations[1].began);
}

TEST(AcrossTest, WhatWaitsIsToldAfterTheDelay) {
  // Two that run where they are submitted and elsewhere, and one that waits for both.
  std::string table = "T\tA\tk\t10\nT\tB\tk\t10\nT\tC\tk\t1\nE\tA\tC\nE\tB\tC\n";
  Shared both(table, {{.name = "a"}, {.name = "b", .delay = 1}}, 1);
  const Outcome outcome = both.Run();
  ASSERT_EQ(outcome.attempts.size(), 3u);
  // The report takes 1, the offer 1, B until 12, and its end is told at 13.
  EXPECT_EQ(outcome.attempts[2].node, NodeId(0));
  EXPECT_NEAR(outcome.attempts[2].begin, 13, 1e-9);
}

TEST(AcrossTest, ChildrenAreSubmittedWhereTheirParentRan) {
  // Two chains; without moves of the last ones each stays where its root went.
  std::string table;
  for (const char* chain : {"a", "b"}) {
    for (int i = 0; i < 4; ++i) table += StrCat("T\t", chain, i, "\tk\t5\n");
    for (int i = 0; i < 3; ++i) table += StrCat("E\t", chain, i, "\t", chain, i + 1, "\n");
  }
  Shared tree(table, {{.name = "a"}, {.name = "b", .delay = 0.5}}, 1);
  tree.options.submit_children = true;
  const Outcome outcome = tree.Run();
  EXPECT_TRUE(outcome.complete);
  EXPECT_EQ(outcome.allocations[0].done, 4u);
  EXPECT_EQ(outcome.allocations[1].done, 4u);
  EXPECT_EQ(outcome.moved_tasks, 1u);
  EXPECT_NEAR(outcome.makespan, 21, 1e-9);
}

TEST(AcrossTest, ALargeTaskGoesWhereItFits) {
  Shared large("T\tA\tk\t1\t4\nT\tB\tk\t1\t1\n", {{.name = "a"}, {.name = "b"}}, 1);
  large.options.cluster.nodes = {{.count = 1, .capacity = {1, 0, 0}, .page_cache = 0, .speed = 1, .line = 0},
                                 {.count = 1, .capacity = {4, 0, 0}, .page_cache = 0, .speed = 1, .line = 0}};
  const Outcome outcome = large.Run();
  EXPECT_TRUE(outcome.complete);
  EXPECT_EQ(outcome.counts.done, 2u);
}

TEST(AcrossTest, TheBoundCountsWhenAllocationsAreThere) {
  Shared s(Tasks(60, 1), {{.name = "a", .end = 20}, {.name = "b", .speed = 2, .begin = 10}}, 1);
  // 10 by a alone, then 3 a second for 10 s, then 2 a second: 60 after 30 s.
  EXPECT_NEAR(FindBounds(s.flow.graph, s.work, s.options.cluster).lower, 30, 1e-9);
  s.options.cluster.allocations[1].end = 15;
  EXPECT_EQ(FindBounds(s.flow.graph, s.work, s.options.cluster).lower,
            std::numeric_limits<double>::infinity());
}

TEST(AcrossTest, SaysALineAnAllocation) {
  Shared two(Tasks(40, 1), {{.name = "near"}, {.name = "far", .delay = 0.015}}, 4);
  const Outcome outcome = two.Run();
  const std::string text = Text({"f", "c"}, two.flow.graph, two.options, outcome, {});
  EXPECT_NE(text.find("allocation near   1 node, 4 slots, 0.000 to "), std::string::npos) << text;
  EXPECT_NE(text.find("allocation far    1 node, 4 slots, "), std::string::npos) << text;
  EXPECT_NE(text.find("moved in, "), std::string::npos) << text;
  const std::string json = Json({"f", "c"}, two.flow.graph, two.options, outcome, {});
  for (const char* key :
       {"\"allocations\"", "\"moved_in\"", "\"idle_s\"", "\"messages_per_s\"", "\"trigger\""})
    EXPECT_NE(json.find(key), std::string::npos) << key;
}

TEST(AcrossTest, RandomRunsKeepEachTaskAtOneServer) {
  const char* only = std::getenv("HARROW_SEED");
  uint64_t moved = 0, losses = 0, trees = 0;
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    if (only != nullptr && std::atoi(only) != static_cast<int>(seed)) continue;
    SCOPED_TRACE(StrCat("HARROW_SEED=", seed));
    order::SeededDraws random(seed);
    const bool tree = random.Below(3) == 0;
    const uint32_t count = 20 + random.Below(150);
    std::string table;
    for (uint32_t n = 0; n < count; ++n)
      table += StrCat("T\tt", n, "\tk\t", 0.01 * (1 + random.Below(100)), "\t", 1 + random.Below(2), "\n");
    for (uint32_t n = 1; n < count; ++n) {
      for (uint32_t k = tree ? 1 : random.Below(3); k > 0; --k)
        table += StrCat("E\tt", n - 1 - random.Below(std::min(n, 20u)), "\tt", n, "\n");
    }
    std::vector<Allocation> allocations;
    for (uint32_t i = 0; i < 2 + random.Below(4); ++i) {
      Allocation each = {.name = StrCat(i), .speed = 0.5 + 0.5 * random.Below(4)};
      each.begin = i == 0 ? 0 : 0.5 * random.Below(8);
      // The last stays.
      if (i > 0 && random.Below(2) == 0) each.end = each.begin + 0.5 + 0.5 * random.Below(8);
      each.delay = 0.05 * random.Below(5);
      allocations.push_back(each);
    }
    Shared run(table, allocations, 2);
    run.options.submit_children = tree;
    run.options.moves.trigger = static_cast<supervisor::Trigger>(random.Below(3));
    run.options.moves.amount = static_cast<supervisor::Amount>(random.Below(2));
    run.options.moves.worth_only = random.Below(2) == 0;
    run.options.core.policy = static_cast<order::Policy>(random.Below(7));
    run.options.core.max_losses = 100;
    run.options.core.locality = false;
    const Outcome outcome = run.Run();
    EXPECT_TRUE(outcome.complete);
    EXPECT_EQ(outcome.counts.done, count);
    uint64_t done = 0;
    for (const Attempt& attempt : outcome.attempts) done += attempt.stage == Attempt::Stage::kDone ? 1 : 0;
    EXPECT_EQ(done, count) << "each was done once";
    EXPECT_GE(outcome.makespan + 1e-9, FindBounds(run.flow.graph, run.work, run.options.cluster).lower);
    moved += outcome.moved_tasks;
    losses += outcome.counts.losses;
    trees += tree ? 1 : 0;
    if (HasFailure()) return;
  }
  if (only != nullptr) return;
  EXPECT_GT(moved, 500u);
  EXPECT_GT(losses, 10u);
  EXPECT_GT(trees, 5u);
}

// --- tasks that are placed by what they cost

/// Pipes of a writer and some readers, on allocations of one node each.
struct Pipes {
  graph::Graph graph;
  std::vector<Work> work;
  Options options;

  Pipes(uint32_t pipes, uint32_t readers, uint32_t allocations, uint32_t cores) {
    graph.AddSource("pipes");
    for (uint32_t pipe = 0; pipe < pipes; ++pipe) {
      const StreamId stream = graph.AddStream(StrCat("s", pipe));
      const TaskId writer = Add(StrCat("w", pipe));
      graph.AddWriter(stream, writer);
      for (uint32_t r = 0; r < readers; ++r) {
        const TaskId reader = Add(StrCat("r", pipe, "-", r));
        graph.AddReader(stream, reader);
        graph.AddDependency(writer, reader, graph::WaitsFor::kStart);
      }
    }
    EXPECT_TRUE(graph.Seal().ok());
    options.cluster.nodes.push_back(
        {.count = allocations, .capacity = {cores, 0, 0}, .page_cache = 0, .speed = 1, .line = 0});
    for (uint32_t n = 0; n < allocations; ++n)
      options.cluster.allocations.push_back({.name = StrCat("a", n), .nodes = 1});
    options.core.costs.how = cost::Place::kCost;
    options.check_owners = true;
  }
  TaskId Add(const std::string& name) {
    graph::TaskSpec spec;
    spec.name = name;
    spec.command = "x";
    spec.recorded_run_time = std::chrono::seconds(10);
    work.push_back({.seconds = 10, .left_out = false, .stream_bytes = 1000});
    return graph.AddTask(spec);
  }
  Outcome Run() { return Simulate(graph, work, options); }
};

TEST(AcrossByCostTest, PipesAreSharedWhole) {
  Pipes pipes(40, 3, 4, 4);
  const Outcome outcome = pipes.Run();
  ASSERT_TRUE(outcome.complete);
  EXPECT_EQ(outcome.counts.done, 160u);
  EXPECT_LE(outcome.makespan, 110) << "100 s where all slots are busy";
  std::vector<uint32_t> at(160);
  for (const Attempt& attempt : outcome.attempts) at[attempt.task.value] = attempt.node.value;
  for (uint32_t pipe = 0; pipe < 40; ++pipe) {
    for (uint32_t r = 1; r < 4; ++r) EXPECT_EQ(at[4 * pipe], at[4 * pipe + r]) << pipe;
  }
  for (const AllocationOutcome& each : outcome.allocations) EXPECT_NEAR(static_cast<double>(each.done), 40, 8);
  EXPECT_EQ(outcome.modelled_of_others, 0u);
  EXPECT_LE(outcome.moves, 8u) << "groups, and not task by task";
}

TEST(AcrossByCostTest, OnePipeStaysWhereItIs) {
  Pipes one(1, 30, 2, 4);
  const Outcome outcome = one.Run();
  ASSERT_TRUE(outcome.complete);
  EXPECT_EQ(outcome.allocations[1].done, 0u);
}

TEST(AcrossByCostTest, OneThatBeginsLaterGetsItsShare) {
  Pipes pipes(40, 3, 2, 4);
  // Then most writers have yet to begin; what has begun stays.
  pipes.options.cluster.allocations[1].begin = 20;
  const Outcome outcome = pipes.Run();
  ASSERT_TRUE(outcome.complete);
  EXPECT_NEAR(static_cast<double>(outcome.allocations[1].done), 76, 12);
  EXPECT_LE(outcome.makespan, 240) << "210 s where all slots are busy";
}

TEST(AcrossByCostTest, TasksThatFilesJoinAreNearlyAsFastAsWithOneServer) {
  // 12 steps of 32 tasks; each waits for two of the step before.
  std::string table;
  for (int step = 0; step < 12; ++step) {
    for (int n = 0; n < 32; ++n) {
      const auto name = [&](int of, int k) { return StrCat("t", of, "-", k % 32); };
      table += StrCat("T\t", name(step, n), "\tt", step, "\t", 5 + (7 * n + step) % 11, "\n");
      if (step == 0) continue;
      table += StrCat("E\t", name(step - 1, n), "\t", name(step, n), "\n");
      table += StrCat("E\t", name(step - 1, n + 5), "\t", name(step, n), "\n");
    }
  }
  Shared four(table, {{.name = "a"}, {.name = "b"}, {.name = "c"}, {.name = "d"}}, 4);
  four.options.core.costs.how = cost::Place::kCost;
  const Outcome outcome = four.Run();
  Shared one(table, {{.name = "a"}}, 16);
  one.options.core.costs.how = cost::Place::kCost;
  const double alone = one.Run().makespan;
  ASSERT_TRUE(outcome.complete);
  EXPECT_LE(outcome.makespan, 1.1 * alone);
  EXPECT_EQ(outcome.modelled_of_others, 0u);
}

}  // namespace
}  // namespace harrow::sim
