// The worked examples of paper 001: T1 writes S1, which all T2 read; T2[i] writes S2[i], which N of T3 read.

#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "cost/cluster.h"
#include "cost/distribute.h"
#include "cost/net.h"
#include "unit/cost/net_support.h"

namespace harrow::cost {
namespace {

/// Figure 2 with a1(T1) = 10, a2(T1) = 5, a0(T2) = 1..M, a0(T3) = 1..MN.
Net Figure2(uint32_t m, uint32_t n) {
  Net net;
  net.programs = {Program("compute(20 * @arg[1]) output(@arg[2])"),
                  Program("WHILE input(1) FOR @arg[0] compute(100) END output(10) END"),
                  Program("WHILE input(1) compute(50 * @arg[0]) END")};
  Amounts to_m, to_mn;
  for (uint32_t i = 1; i <= m; ++i) to_m.push_back(i);
  for (uint32_t i = 1; i <= m * n; ++i) to_mn.push_back(i);
  net.tasks = {{0, 1, {{kUnknown}, {10}, {5}}, {1}}, {1, m, {to_m}, {1}}, {2, m * n, {to_mn}, {1}}};
  net.streams = {{1, false, {}, {0}, {1}}, {m, false, {}, {1}, {2}}};
  return net;
}

std::string NameOf(const Net& net, uint32_t task) {
  const uint32_t m = net.tasks[1].count;
  if (task == 0) return "T1";
  return task <= m ? "T2_" + std::to_string(task) : "T3_" + std::to_string(task - m);
}

std::string Members(const Net& net, const Clusters& clusters, const Group& group) {
  std::string text;
  for (const uint32_t task : clusters.of(group)) text += (text.empty() ? "" : " ") + NameOf(net, task);
  return text;
}

struct Placed {
  std::vector<std::string> groups;  // "COST members"
  std::vector<std::string> queues;  // "COST members, in their order"
};

Placed Distributed(const Net& net, double tg_max, double ct_max, size_t hosts) {
  const Clusters clusters = FindClusters(net, CostsOf(net), {tg_max, ct_max});
  Placed placed;
  const auto number = [](double cost) { return std::to_string(static_cast<int64_t>(cost)); };
  for (const Group& group : clusters.groups)
    placed.groups.push_back(number(group.cost) + " " + Members(net, clusters, group));
  for (const Queue& queue : Distribute(clusters.groups, std::vector<double>(hosts, 1))) {
    std::string text = number(queue.cost);
    for (const uint32_t group : queue.groups)
      text += " [" + Members(net, clusters, clusters.groups[group]) + "]";
    placed.queues.push_back(text);
  }
  return placed;
}

using Texts = std::vector<std::string>;

TEST(Paper, AmountsAreCarriedDownstream) {
  const Costs costs = CostsOf(Figure2(4, 2));
  EXPECT_EQ(costs.out[0], Amounts{5});
  EXPECT_EQ(costs.stream[0], Amounts{5});   // C_t(S1)
  EXPECT_EQ(costs.stream[1], Amounts{50});  // C_t(S2), the same of all: not told apart
  EXPECT_EQ(costs.in[1], Amounts{5});
  EXPECT_EQ(costs.in[2], Amounts{50});
  EXPECT_EQ(costs.compute[0], Amounts{200});
  EXPECT_EQ(costs.compute[1], (Amounts{500, 1000, 1500, 2000}));
  EXPECT_EQ(costs.compute[2], (Amounts{2500, 5000, 7500, 10000, 12500, 15000, 17500, 20000}));
  EXPECT_EQ(costs.rank, (std::vector<uint32_t>{0, 1, 2}));
}

TEST(Paper, GroupKAtN2Costs10500kLess2500) {
  const Net net = Figure2(5, 2);
  const Clusters clusters = FindClusters(net, CostsOf(net), {8, 6});
  ASSERT_EQ(clusters.groups.size(), 6u);
  for (int k = 1; k <= 5; ++k) EXPECT_EQ(clusters.groups[static_cast<size_t>(k)].cost, 10500 * k - 2500);
}

TEST(Paper, M2N2On2Hosts) {
  const Placed placed = Distributed(Figure2(2, 2), 4, 6, 2);
  EXPECT_EQ(placed.groups, (Texts{"200 T1", "8000 T2_1 T3_1 T3_2", "18500 T2_2 T3_3 T3_4"}));
  EXPECT_EQ(placed.queues, (Texts{"18500 [T2_2 T3_3 T3_4]", "8200 [T1] [T2_1 T3_1 T3_2]"}));
}

TEST(Paper, M4N2On3Hosts) {
  const Placed placed = Distributed(Figure2(4, 2), 6, 6, 3);
  EXPECT_EQ(placed.queues, (Texts{"39500 [T2_4 T3_7 T3_8]", "29000 [T2_3 T3_5 T3_6]",
                                  "26700 [T1] [T2_2 T3_3 T3_4] [T2_1 T3_1 T3_2]"}));
}

TEST(Paper, ASmallThresholdMakesOneGroup) {
  EXPECT_EQ(Distributed(Figure2(2, 2), 3, 6, 2).groups, (Texts{"26700 T1 T2_1 T2_2 T3_1 T3_2 T3_3 T3_4"}));
}

TEST(Paper, TheStatedConditionIsNotEnough) {
  // M + 1 < TG_MAX < MN + M + 1 and C_t(S1) < CT_MAX, and yet the second S2 is left apart.
  const Placed early = Distributed(Figure2(2, 2), 6, 60, 2);
  EXPECT_EQ(early.groups, (Texts{"200 T1", "8000 T2_1 T3_1 T3_2", "1000 T2_2", "7500 T3_3", "10000 T3_4"}));
  EXPECT_EQ(early.queues, (Texts{"11200 [T1] [T2_2] [T3_4]", "15500 [T2_1 T3_1 T3_2] [T3_3]"}));
  // CT_MAX <= C_t(S2) is what lacks.
  EXPECT_EQ(Distributed(Figure2(2, 2), 6, 50, 2).groups.size(), 3u);
  EXPECT_EQ(Distributed(Figure2(2, 2), 5, 60, 2).groups.size(), 3u);  // or TG_MAX <= M + N + 1
}

TEST(Paper, WhatWaitsIsDistributedAgain) {
  const std::vector<Group> left = {{3000, 0, 0, 1}, {1000, 0, 1, 1}};
  const std::vector<Queue> queues = Distribute(left, std::vector<double>{1, 1});
  EXPECT_EQ(queues[0].groups, std::vector<uint32_t>{0});
  EXPECT_EQ(queues[1].groups, std::vector<uint32_t>{1});
}

}  // namespace
}  // namespace harrow::cost
