// Where random choices come from, what is remembered of run times, and the five policies as tables.

#include "order/draws.h"

#include <gtest/gtest.h>
#include <memory>

#include "order/level_times.h"
#include "order/order.h"

namespace harrow::order {
namespace {

TEST(SeededDraws, SameSequenceEverywhere) {
  // xoshiro256++ from splitmix64, computed from the authors' reference programs' definitions.
  const uint64_t of_1[] = {0xcfc5d07f6f03c29b, 0xbf424132963fe08d, 0x19a37d5757aaf520, 0xbf08119f05cd56d6,
                           0x2f47184b86186fa4, 0x97299fcae7202345, 0xfca3c79508f41507, 0x85fea5c90363f221};
  const uint64_t of_20[] = {0x4f90158d4c5fd4b0, 0x9ee274c48103984c, 0x740b72dccf4c7882, 0x367a3e0be628e88e};
  SeededDraws words(1), fractions(1), below(1), other(20);
  for (const uint64_t word : of_1) {
    EXPECT_EQ(words.NextWord(), word);
    EXPECT_EQ(fractions.Next(), static_cast<double>(word >> 11) / 9007199254740992.0);
    EXPECT_EQ(below.Below(1000), (word >> 32) * 1000 / 4294967296);
  }
  for (const uint64_t word : of_20) EXPECT_EQ(other.NextWord(), word);
  for (int i = 0; i < 1000; ++i) {
    const double d = fractions.Next();
    EXPECT_GE(d, 0);
    EXPECT_LT(d, 1);
    EXPECT_LT(below.Below(7), 7u);
    EXPECT_EQ(below.Below(1), 0u);
  }
}

TEST(LevelTimes, MeansOfEachLevel) {
  LevelTimes times;
  EXPECT_FALSE(times.measured(0));
  EXPECT_FALSE(times.measured(7));
  times.Add(2, std::chrono::seconds(1));
  EXPECT_EQ(times.weight(2), 1);
  times.Add(2, std::chrono::seconds(3));
  EXPECT_TRUE(times.measured(2));
  EXPECT_FALSE(times.measured(1)) << "below one that is";
  EXPECT_FALSE(times.measured(3)) << "beyond all that are";
  EXPECT_EQ(times.mean(2), 2);
  EXPECT_EQ(times.weight(2), 0.5);
  EXPECT_EQ(times.weight(2), 0.5) << "remembered";
  times.Add(0, std::chrono::seconds(4));
  EXPECT_EQ(times.weight(0), 0.25);
  EXPECT_EQ(times.mean(2), 2) << "levels are kept apart";
  times.Add(5, Duration(1));
  EXPECT_NEAR(times.weight(5), 1e6, 1) << "a clock says little below a microsecond";
  EXPECT_GE(times.memory(), 6 * 2 * sizeof(double));
}

TEST(Policy, Names) {
  for (const char* name : {"fifo", "lifo", "hrf", "lifo+hrf", "rank+hrf"}) {
    ASSERT_TRUE(ParsePolicy(name)) << name;
    EXPECT_EQ(PolicyName(*ParsePolicy(name)), name);
  }
  EXPECT_FALSE(ParsePolicy("FIFO"));
  EXPECT_FALSE(ParsePolicy(""));
  EXPECT_EQ(PolicyName(static_cast<Policy>(77)), "");
}

TEST(Policy, WhatEachNeedsToKnow) {
  struct Row {
    Policy policy;
    bool by_level, higher_first, equal_first, lower_first;
  };
  const Row rows[] = {{Policy::kFifo, false, false, false, false},
                      {Policy::kLifo, false, true, true, true},
                      {Policy::kHrf, true, true, false, false},
                      {Policy::kLifoHrf, true, true, true, true},
                      {Policy::kRankHrf, true, true, true, true}};
  SeededDraws draws(1);
  const LevelTimes times;
  for (const Row& row : rows) {
    SCOPED_TRACE(PolicyName(row.policy));
    const std::unique_ptr<Order> order = MakeOrder(row.policy, &draws, &times);
    EXPECT_EQ(order->by_level(), row.by_level);
    EXPECT_EQ(order->NewcomerFirst(2, 1), row.higher_first);
    EXPECT_EQ(order->NewcomerFirst(1, 1), row.equal_first);
    EXPECT_EQ(order->NewcomerFirst(0, 1), row.lower_first);
  }
}

}  // namespace
}  // namespace harrow::order
