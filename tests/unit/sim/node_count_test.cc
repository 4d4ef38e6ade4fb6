#include "sim/node_count.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>

namespace harrow::sim {
namespace {

double Least(const CountBounds& bounds, const std::function<double(uint32_t)>& makespan) {
  double least = std::numeric_limits<double>::infinity();
  for (uint32_t n = 1; n <= bounds.most; ++n)
    least = std::min(least, makespan(n) * makespan(n) * n * bounds.cores / 3600);
  return least;
}

TEST(NodeCountTest, NearTheLeastOfAllCounts) {
  std::mt19937 generator(7);
  const auto random = [&] { return static_cast<uint32_t>(generator()); };
  for (int round = 0; round < 300; ++round) {
    const CountBounds bounds{.critical_path = 1.0 + random() % 1000,
                             .work = 10.0 + random() % 1'000'000,
                             .cores = 1 + random() % 16,
                             .most = 1 + random() % 600};
    // Steps as those of many equal tasks, on top of a path.
    const double task = 1.0 + random() % 50;
    const auto makespan = [&](uint32_t n) {
      return std::max(bounds.critical_path,
                      std::ceil(bounds.work / task / (n * bounds.cores)) * task + bounds.critical_path / 3);
    };
    int calls = 0;
    const NodeCounts counts = SearchNodeCount(bounds, [&](uint32_t n) {
      ++calls;
      EXPECT_GE(n, 1u);
      EXPECT_LE(n, bounds.most);
      return makespan(n);
    });
    EXPECT_LE(counts.tried[counts.best].cost(), 1.06 * Least(bounds, makespan)) << "round " << round;
    EXPECT_EQ(static_cast<size_t>(calls), counts.tried.size()) << "a count was simulated twice";
    EXPECT_LE(calls, 50) << "round " << round;
  }
}

TEST(NodeCountTest, OneNodeAndWhatNeedsSeveral) {
  const NodeCounts one = SearchNodeCount({.critical_path = 10, .work = 80, .cores = 8, .most = 1},
                                         [](uint32_t) { return 10.0; });
  ASSERT_EQ(one.tried.size(), 1u);
  EXPECT_DOUBLE_EQ(one.tried[0].core_hours, 10 * 8 / 3600.0);
  EXPECT_DOUBLE_EQ(one.tried[0].busy, 1);
  // Tasks of three nodes each.
  const auto gang = [](uint32_t n) { return n < 3 ? std::numeric_limits<double>::infinity() : 10.0; };
  const NodeCounts three = SearchNodeCount({.critical_path = 10, .work = 30, .cores = 1, .most = 100}, gang);
  EXPECT_EQ(three.tried[three.best].nodes, 3u);
}

TEST(NodeCountTest, MoreNodesThanPayOffAreNotTried) {
  const NodeCounts counts = SearchNodeCount({.critical_path = 100, .work = 100, .cores = 1, .most = 100'000},
                                            [](uint32_t) { return 100.0; });
  EXPECT_EQ(counts.tried[counts.best].nodes, 1u);
  EXPECT_LE(counts.tried.back().nodes, 2u);
}

}  // namespace
}  // namespace harrow::sim
