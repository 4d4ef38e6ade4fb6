#include "cost/net.h"

#include <gtest/gtest.h>
#include <random>

#include "cost/cluster.h"
#include "cost/distribute.h"
#include "cost/placement.h"
#include "unit/cost/net_support.h"

namespace harrow::cost {
namespace {

TEST(Net, EachReaderOfAStreamGetsAllUnlessItIsSplit) {
  Net net;
  net.programs = {Program("output(12)"), Program("WHILE input(1) compute(1) END")};
  net.tasks = {{0, 2, {}, {1}}, {1, 4, {}, {1}}};
  net.streams = {{1, false, {}, {0}, {1}}};
  EXPECT_EQ(CostsOf(net).stream[0], Amounts{24});
  EXPECT_EQ(CostsOf(net).in[1], Amounts{24});
  net.streams[0].split = true;
  EXPECT_EQ(CostsOf(net).stream[0], Amounts{24});
  EXPECT_EQ(CostsOf(net).in[1], Amounts{6});
}

TEST(Net, AReaderOfSeveralStreamsGetsTheirSum) {
  Net net;
  net.programs = {Program("output(12)"), Program("output(5)"), Program("WHILE input(1) output(2) END")};
  net.tasks = {{0, 1, {}, {1}}, {1, 1, {}, {1}}, {2, 1, {}, {1}}};
  net.streams = {{1, false, {}, {0}, {2}}, {1, false, {}, {1}, {2}}, {1, false, {1000}, {0}, {2}}};
  EXPECT_EQ(CostsOf(net).in[2], Amounts{17});  // a file is no input of it
  EXPECT_EQ(CostsOf(net).out[2], Amounts{34});
  EXPECT_EQ(CostsOf(net).stream[2], Amounts{1000});
}

TEST(Net, AProgramThatSaysWhatItReadsIsBelieved) {
  Net net;
  net.programs = {Program("output(12)"), Program("FOR 3 input(2) output(1) END")};
  net.tasks = {{0, 1, {}, {1}}, {1, 1, {}, {1}}};
  net.streams = {{1, false, {}, {0}, {1}}};
  EXPECT_EQ(CostsOf(net).in[1], Amounts{6});
  EXPECT_EQ(CostsOf(net).out[1], Amounts{3});
}

TEST(Net, WhatIsNotKnownIsCarriedDownstreamAndGuessed) {
  Net net;
  net.programs = {Program("WHILE input(1) compute(2) output(3) END"), Program("compute(10) output(7)")};
  net.tasks = {{0, 1, {}, {1}}, {0, 1, {}, {1}}, {1, 1, {}, {1}}};
  net.streams = {{1, false, {}, {0}, {1}}, {1, false, {}, {2}, {}}};
  const Costs costs = CostsOf(net);
  EXPECT_FALSE(IsKnown(costs.in[0][0]));
  EXPECT_FALSE(IsKnown(costs.stream[0][0]));
  EXPECT_FALSE(IsKnown(costs.compute[1][0]));
  const Costs guessed = Guessed(net, costs);
  EXPECT_EQ(guessed.compute[1], Amounts{10});
  EXPECT_EQ(guessed.stream[0], Amounts{7});
  EXPECT_EQ(guessed.compute[2], Amounts{10});
}

TEST(Net, WhatIsNotKnownIsGuessedByTheSameProgram) {
  Net net;
  net.programs = {Program("compute(@arg[0])"), Program("compute(100)")};
  net.tasks = {{0, 1, {{10}}, {1}}, {0, 1, {{kUnknown}}, {1}}, {1, 1, {}, {1}}};
  EXPECT_EQ(Guessed(net, CostsOf(net)).compute[1], Amounts{10});
}

TEST(Net, TasksWithoutAModelComputeWhatIsSaidAndWriteWhatTheyRead) {
  Net net;
  net.programs = {Program("output(12)")};
  net.tasks = {{0, 1, {}, {1}}, {kNoProgram, 1, {}, {250}}, {kNoProgram, 1, {}, {1}}};
  net.streams = {{1, false, {}, {0}, {1}}, {1, false, {}, {1}, {2}}};
  EXPECT_EQ(CostsOf(net).compute[1], Amounts{250});
  EXPECT_EQ(CostsOf(net).in[2], Amounts{12});
}

TEST(Net, RanksAreTheLongestWayFromASource) {
  Net net;
  net.tasks.resize(4);
  net.streams = {{1, false, {}, {0}, {1, 3}}, {1, false, {0}, {1}, {2}}, {1, false, {}, {2}, {3}}};
  EXPECT_EQ(CostsOf(net).rank, (std::vector<uint32_t>{0, 1, 2, 3}));
}

TEST(Net, WhatCannotBeIsRefused) {
  Net net;
  net.tasks.resize(2);
  net.streams = {{1, false, {}, {0}, {1}}, {1, false, {}, {1}, {0}}};
  EXPECT_NE(FindCosts(net).status().message().find("cycle"), std::string::npos);
  net.streams.pop_back();
  net.tasks[1].count = 3;
  net.streams[0].count = 2;
  EXPECT_NE(FindCosts(net).status().message().find("divide"), std::string::npos);
  net.streams.clear();
  net.programs = {Program("compute(1 / @arg[0])")};
  net.tasks = {{0, 2, {{1, 0}}, {1}}};
  EXPECT_NE(FindCosts(net).status().message().find("divides by 0"), std::string::npos);
}

TEST(Net, BlocksOfTasksAndStreams) {
  EXPECT_EQ(TasksOf(6, 3, 2).first, 4u);
  EXPECT_EQ(TasksOf(6, 3, 2).count, 2u);
  EXPECT_EQ(TasksOf(2, 6, 4).first, 1u);
  EXPECT_EQ(TasksOf(2, 6, 4).count, 1u);
  EXPECT_EQ(StreamsOf(2, 6, 1).first, 3u);
  EXPECT_EQ(StreamsOf(2, 6, 1).count, 3u);
}

/// Layers of meta-tasks with streams between them, and what tells their tasks apart here and there. Whole
/// numbers, so that sums are the same in any order.
Net RandomNet(std::mt19937_64* random) {
  const auto draw = [&](uint32_t most) { return static_cast<uint32_t>((*random)() % (most + 1)); };
  Net net;
  net.programs = {Program("WHILE input(1) FOR @arg[0] compute(10) END output(2) END"),
                  Program("compute(20 * @arg[0]) output(5 * @arg[1])"),
                  Program("WHILE input(1) compute(7) output(@arg[1]) END"),
                  Program("IF @arg[0] > 2 compute(90) output(3) ELSE compute(5) output(40) END")};
  const uint32_t kinds = 2 + draw(5);
  for (uint32_t t = 0; t < kinds; ++t) {
    MetaTask task;
    task.program = draw(4);
    if (task.program == 4) task.program = kNoProgram;
    task.count = 1u << draw(4);
    for (int a = 0; a < 2; ++a) {
      Amounts values(draw(1) == 0 ? 1 : task.count);
      for (double& value : values) value = 1 + draw(4);
      task.arguments.push_back(values);
    }
    if (draw(1) == 0) {
      task.compute.resize(task.count);
      for (double& value : task.compute) value = draw(100);
    }
    net.tasks.push_back(task);
  }
  for (uint32_t s = 0, streams = 1 + draw(5); s < streams; ++s) {
    MetaStream stream;
    stream.count = 1u << draw(4);
    stream.split = false;
    if (draw(3) == 0) {
      stream.size.resize(draw(1) == 0 ? 1 : stream.count);
      for (double& size : stream.size) size = draw(60);
    }
    const uint32_t cut = 1 + draw(kinds - 2);
    for (uint32_t t = 0; t < kinds; ++t) {
      if (draw(2) > 0) continue;
      (t < cut ? stream.writers : stream.readers).push_back(t);
    }
    net.streams.push_back(stream);
  }
  return net;
}

std::vector<double> Flat(const Net& net, const std::vector<Amounts>& amounts) {
  std::vector<double> all;
  for (size_t t = 0; t < net.tasks.size(); ++t) {
    for (uint32_t n = 0; n < net.tasks[t].count; ++n) all.push_back(AmountOf(amounts[t], n));
  }
  return all;
}

TEST(Net, MetaTasksArePlacedAsTheExpandedModelIs) {
  const uint64_t seed = 20260118;
  std::mt19937_64 random(seed);
  uint64_t reduced = 0, tasks = 0;
  for (int n = 0; n < 1000; ++n) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", net " + std::to_string(n));
    const Net net = RandomNet(&random), all = Expand(net);
    ASSERT_EQ(net.task_count(), all.tasks.size());
    ASSERT_EQ(net.stream_count(), all.streams.size());
    reduced += net.tasks.size();
    tasks += all.tasks.size();
    const Costs raw = CostsOf(net), raw_all = CostsOf(all);
    const Costs costs = Guessed(net, raw), costs_all = Guessed(all, raw_all);
    ASSERT_EQ(Flat(net, costs.compute), Flat(all, costs_all.compute));
    const Limits limits{static_cast<double>(1 + random() % 40),
                        random() % 2 == 0 ? 30.0 : std::numeric_limits<double>::infinity()};
    const Clusters clusters = FindClusters(net, costs, limits),
                   clusters_all = FindClusters(all, costs_all, limits);
    ASSERT_EQ(clusters.members, clusters_all.members);
    std::vector<uint32_t> ranks;
    for (size_t t = 0; t < net.tasks.size(); ++t)
      ranks.insert(ranks.end(), net.tasks[t].count, costs.rank[t]);
    const std::vector<double> weights(1 + random() % 4, 1.0);
    Placement placement, placement_all;
    const std::vector<bool> waiting(ranks.size(), true);
    PlaceClusters(clusters, Flat(net, costs.compute), ranks, weights, waiting, &placement);
    PlaceClusters(clusters_all, Flat(all, costs_all.compute), costs_all.rank, weights, waiting,
                  &placement_all);
    ASSERT_EQ(placement.node, placement_all.node);
    ASSERT_EQ(placement.order, placement_all.order);
  }
  EXPECT_LT(reduced * 3, tasks);  // they are fewer, else nothing was shown
}

}  // namespace
}  // namespace harrow::cost
