#include "cost/sites.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>
#include <random>
#include <vector>

#include "cost/from_graph.h"
#include "unit/cost/net_support.h"

namespace harrow::cost {
namespace {

/// So many tasks, each of its own, of so many seconds.
Net LooseTasks(const std::vector<double>& seconds) {
  Net net;
  for (const double each : seconds) net.tasks.push_back({.arguments = {}, .compute = {each}});
  return net;
}

void JoinLoose(Net* net, std::vector<uint32_t> writers, std::vector<uint32_t> readers, Amounts bytes = {}) {
  net->streams.push_back({.size = std::move(bytes), .writers = std::move(writers), .readers = std::move(readers)});
}

struct OnSites {
  std::vector<uint32_t> site;
  std::vector<double> load;  // by site
};

OnSites PlacedOn(const Net& net, const std::vector<double>& weights, std::vector<bool> movable = {}, double seconds_a_byte = 0) {
  const Costs costs = Guessed(net, CostsOf(net));
  std::vector<double> seconds;
  for (size_t t = 0; t < net.tasks.size(); ++t) {
    for (uint32_t n = 0; n < net.tasks[t].count; ++n) seconds.push_back(AmountOf(costs.compute[t], n));
  }
  movable.resize(seconds.size(), true);
  OnSites placed;
  placed.site = PlaceOnSites(net, costs, seconds, movable, weights, seconds_a_byte);
  placed.load.resize(weights.size());
  for (size_t t = 0; t < seconds.size(); ++t) placed.load[placed.site[t]] += seconds[t];
  return placed;
}

TEST(Sites, EachGetsWorkByItsWeight) {
  const OnSites placed = PlacedOn(LooseTasks(std::vector<double>(120, 10)), {1, 2, 1});
  EXPECT_EQ(placed.load, (std::vector<double>{300, 600, 300}));
}

TEST(Sites, ShortTasksAreSharedAsLongOnesAre) {
  EXPECT_EQ(PlacedOn(LooseTasks(std::vector<double>(128, 1.0 / 1024)), {1, 2, 1}).load, (std::vector<double>{1.0 / 32, 1.0 / 16, 1.0 / 32}));
}

TEST(Sites, OneSiteHasAll) {
  EXPECT_EQ(PlacedOn(LooseTasks({1, 2}), {1}).site, (std::vector<uint32_t>{0, 0}));
  EXPECT_TRUE(PlacedOn(LooseTasks({}), {1, 1}).site.empty());
}

TEST(Sites, TheLargestComesFirst) {
  EXPECT_EQ(PlacedOn(LooseTasks({1, 1, 1, 3}), {1, 1}).site, (std::vector<uint32_t>{1, 1, 1, 0}));
}

TEST(Sites, WhatStreamsJoinStaysTogether) {
  Net net = LooseTasks(std::vector<double>(60, 1));
  for (uint32_t n = 0; n < 20; ++n) JoinLoose(&net, {n}, {20 + 2 * n, 21 + 2 * n});
  const OnSites placed = PlacedOn(net, {1, 1, 1, 1});
  for (uint32_t n = 0; n < 20; ++n) {
    EXPECT_EQ(placed.site[n], placed.site[20 + 2 * n]);
    EXPECT_EQ(placed.site[n], placed.site[21 + 2 * n]);
  }
  EXPECT_EQ(placed.load, std::vector<double>(4, 15));
}

TEST(Sites, WhatHasBegunKeepsItsStreamsButNotItsFiles) {
  Net net = LooseTasks(std::vector<double>(8, 1));
  JoinLoose(&net, {0}, {1});
  JoinLoose(&net, {2}, {3}, {1000});
  std::vector<bool> movable(8, true);
  movable[0] = movable[2] = false;
  const OnSites placed = PlacedOn(net, {1, 1}, movable);
  EXPECT_EQ(placed.site[0], 0u);
  EXPECT_EQ(placed.site[1], 0u);
  EXPECT_EQ(placed.site[2], 0u);
  EXPECT_EQ(placed.load, (std::vector<double>{4, 4}));
  EXPECT_EQ(PlacedOn(net, {1, 1}, std::vector<bool>(8, false)).load, (std::vector<double>{8, 0}));
}

TEST(Sites, LargeFilesStayWithinASite) {
  // 64 pairs; each writes much to its reader, and something to that of the next.
  Net net = LooseTasks(std::vector<double>(128, 1));
  for (uint32_t n = 0; n < 64; ++n) JoinLoose(&net, {n}, {64 + n}, {1e6});
  for (uint32_t n = 0; n < 64; ++n) JoinLoose(&net, {n}, {64 + (n + 1) % 64}, {1});
  const OnSites placed = PlacedOn(net, {1, 1});
  for (uint32_t n = 0; n < 64; ++n) EXPECT_EQ(placed.site[n], placed.site[64 + n]);
  EXPECT_EQ(placed.load, (std::vector<double>{64, 64}));
}

TEST(Sites, ALinkIsWorthSomeDelay) {
  // Two that read what another writes: apart they would end sooner, but for what is sent.
  Net net = LooseTasks({10, 4, 4});
  JoinLoose(&net, {0}, {1, 2}, {100});
  EXPECT_EQ(PlacedOn(net, {1, 1}, {}, 0.001).site, (std::vector<uint32_t>{0, 0, 1}));
  EXPECT_EQ(PlacedOn(net, {1, 1}, {}, 1).site, (std::vector<uint32_t>{0, 0, 0}));
}

TEST(Sites, EverySiteHasItsShareOfEveryRank) {
  // Ten steps of 40 tasks, each of which waits for the one before it and for one more.
  Net net = LooseTasks(std::vector<double>(400, 5));
  for (uint32_t t = 0; t < 360; ++t) JoinLoose(&net, {t}, {t + 40, (t / 40 + 1) * 40 + (t + 7) % 40}, {1});
  const OnSites placed = PlacedOn(net, {1, 1, 2});
  for (uint32_t step = 0; step < 10; ++step) {
    std::vector<uint32_t> of(3, 0);
    for (uint32_t t = step * 40; t < step * 40 + 40; ++t) ++of[placed.site[t]];
    EXPECT_NEAR(of[0], 10, 3) << step;
    EXPECT_NEAR(of[1], 10, 3) << step;
    EXPECT_NEAR(of[2], 20, 4) << step;
  }
}

TEST(Sites, MetaTasksAreNumberedThrough) {
  Net net;
  net.tasks.push_back({.count = 8, .arguments = {}, .compute = {1, 2, 3, 4, 5, 6, 7, 8}});
  net.tasks.push_back({.count = 16, .arguments = {}, .compute = {1}});
  net.streams.push_back({.count = 8, .size = {}, .writers = {0}, .readers = {1}});
  const OnSites placed = PlacedOn(net, {1, 1}), expanded = PlacedOn(Expand(net), {1, 1});
  EXPECT_EQ(placed.site, expanded.site);
  for (uint32_t n = 0; n < 8; ++n) EXPECT_EQ(placed.site[n], placed.site[8 + 2 * n]);
}

TEST(Sites, RandomNetsAreShared) {
  for (uint32_t seed = 1; seed <= 50; ++seed) {
    std::mt19937 random(seed);
    Net net;
    double largest = 0, all = 0;
    for (uint32_t t = 0; t < 300; ++t) {
      net.tasks.push_back({.arguments = {}, .compute = {1.0 + static_cast<double>(random() % 20)}});
      all += net.tasks.back().compute[0];
      largest = std::max(largest, net.tasks.back().compute[0]);
      if (t > 0) JoinLoose(&net, {static_cast<uint32_t>(random() % t)}, {t}, {static_cast<double>(random() % 1000)});
    }
    const OnSites placed = PlacedOn(net, {1, 3, 2});
    for (uint32_t s = 0; s < 3; ++s) {
      const double share = all * std::vector<double>{1, 3, 2}[s] / 6;
      EXPECT_NEAR(placed.load[s], share, 0.15 * share + largest) << seed;
    }
  }
}

/// Of a chain a -> b -> c by files, and x that reads c's stream.
TEST(NetOfSome, HoldsThemAlone) {
  graph::Graph graph;
  graph.AddSource("some");
  const auto add = [&](const char* name, std::vector<FileId> in, std::vector<FileId> out) {
    graph::TaskSpec spec;
    spec.name = name;
    spec.command = "x";
    spec.in = in;
    spec.out = out;
    return graph.AddTask(spec);
  };
  const FileId ab = graph.AddFile("ab"), bc = graph.AddFile("bc");
  add("a", {}, {ab});
  add("b", {ab}, {bc});
  const TaskId c = add("c", {bc}, {}), x = add("x", {}, {});
  const StreamId s = graph.AddStream("s");
  graph.AddWriter(s, c);
  graph.AddReader(s, x);
  graph.AddDependency(c, x, graph::WaitsFor::kStart);
  graph.SetFileSize(ab, 10);
  graph.SetFileSize(bc, 20);
  ASSERT_TRUE(graph.Seal().ok());
  const std::vector<uint32_t> ranks = RanksOf(graph);
  EXPECT_EQ(ranks, (std::vector<uint32_t>{0, 1, 2, 3}));

  const std::vector<TaskId> some = {TaskId(1), TaskId(2), TaskId(3)};
  const Result<Net> net = NetOf(graph, 1, some, ranks);
  ASSERT_TRUE(net.ok());
  EXPECT_EQ(net->task_count(), 3u);
  ASSERT_EQ(net->streams.size(), 2u);  // the stream, and bc; ab is written elsewhere
  EXPECT_EQ(net->streams[1].size, Amounts{20});
  const Costs costs = CostsOf(*net);
  EXPECT_EQ(costs.rank, (std::vector<uint32_t>{1, 2, 3}));

  const std::vector<TaskId> others = {TaskId(0), TaskId(3)};
  const Result<Net> apart = NetOf(graph, 1, others, ranks);
  ASSERT_TRUE(apart.ok());
  EXPECT_EQ(CostsOf(*apart).rank, (std::vector<uint32_t>{0, 3}));
  const Result<Net> none = NetOf(graph, 1, std::vector<TaskId>{}, ranks);
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->task_count(), 0u);
}

}  // namespace
}  // namespace harrow::cost
