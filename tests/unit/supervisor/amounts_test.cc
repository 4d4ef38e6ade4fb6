#include "supervisor/core/amounts.h"

#include <gtest/gtest.h>
#include <numeric>
#include <random>

namespace harrow::supervisor {
namespace {

using Whole = std::vector<int64_t>;
using Parts = std::vector<double>;

/// The worked example: four masters of 8 workers.
std::vector<Side> Example(uint64_t first = 4, uint64_t second = 16) {
  return {{first, 1, 8}, {second, 1, 8}, {40, 2, 8}, {20, 4, 8}};
}

TEST(AmountsTest, DesiredByCapacityAndByWorkers) {
  EXPECT_EQ(Desired(Example(), Amount::kCapacity), (Parts{10, 10, 20, 40}));
  EXPECT_EQ(Desired(Example(), Amount::kWorkers), (Parts{20, 20, 20, 20}));
}

TEST(AmountsTest, AmountsOfTheExample) {
  EXPECT_EQ(Amounts(Example(), Amount::kCapacity), (Whole{-6, 6, 20, -20}));
  EXPECT_EQ(Amounts(Example(), Amount::kWorkers), (Whole{-16, -4, 20, 0}));
  EXPECT_EQ(Amounts(Example(0, 20), Amount::kCapacity), (Whole{-10, 10, 20, -20}));
}

TEST(AmountsTest, TriggersOfTheExample) {
  EXPECT_FALSE(Fires(Example(), Trigger::kEmpty, 0.5));
  EXPECT_TRUE(Fires(Example(0, 20), Trigger::kEmpty, 0.5));
  EXPECT_FALSE(Fires(Example(), Trigger::kLow, 0.2));
  EXPECT_TRUE(Fires(Example(), Trigger::kLow, 0.5));
  // By the first alone: with one more it has half of what it should have, which is not less.
  EXPECT_FALSE(Fires(std::vector<Side>{{5, 1, 8}, {15, 1, 8}, {40, 2, 8}, {20, 4, 8}}, Trigger::kLow, 0.5));
  EXPECT_TRUE(Fires(Example(), Trigger::kAlways, 0.5));
}

TEST(AmountsTest, LowLooksAtCapacitiesWhateverTheAmount) {
  // By workers each should have 10: the first has less than half of that, but all of what its capacity is
  // worth.
  const std::vector<Side> sides = {{4, 1, 8}, {16, 4, 8}};
  EXPECT_EQ(Desired(sides, Amount::kCapacity), (Parts{4, 16}));
  EXPECT_FALSE(Fires(sides, Trigger::kLow, 0.9));
}

TEST(AmountsTest, LargestRemainderTiesToTheLowestIndex) {
  EXPECT_EQ(Amounts(std::vector<Side>{{0, 1, 1}, {0, 1, 1}, {4, 1, 1}}, Amount::kCapacity),
            (Whole{-2, -1, 3}));
  EXPECT_EQ(Amounts(std::vector<Side>{{5, 1, 1}, {0, 1, 1}, {0, 1, 1}}, Amount::kCapacity),
            (Whole{3, -2, -1}));
  // 7 by 1 : 2 : 4.
  EXPECT_EQ(Amounts(std::vector<Side>{{8, 1, 1}, {0, 2, 1}, {0, 4, 1}}, Amount::kCapacity),
            (Whole{7, -2, -5}));
}

TEST(AmountsTest, NothingToMoveAndNoCapacityAreNoErrors) {
  EXPECT_EQ(Amounts(std::vector<Side>{{0, 1, 8}, {0, 2, 8}}, Amount::kCapacity), (Whole{0, 0}));
  EXPECT_EQ(Amounts(std::vector<Side>{{7, 0, 0}, {3, 0, 0}}, Amount::kCapacity), (Whole{0, 0}));
  EXPECT_EQ(Desired(std::vector<Side>{{7, 0, 8}, {3, 0, 8}}, Amount::kCapacity), (Parts{0, 0}));
  EXPECT_EQ(Amounts(std::vector<Side>{{7, 0, 8}, {3, 0, 8}}, Amount::kWorkers), (Whole{2, -2}));
  EXPECT_FALSE(Fires(std::vector<Side>{{0, 0, 0}, {3, 1, 1}}, Trigger::kEmpty, 0.5));
  EXPECT_TRUE(PairUp(Whole{}).empty());
}

TEST(AmountsTest, OneWithoutCapacityGivesAll) {
  EXPECT_EQ(Amounts(std::vector<Side>{{9, 0, 0}, {1, 1, 8}, {0, 1, 8}}, Amount::kCapacity),
            (Whole{9, -4, -5}));
}

TEST(AmountsTest, NoMoreThanAnEndingAllocationCanBegin) {
  EXPECT_EQ(Desired(std::vector<Side>{{100, 1, 8, 20}, {0, 1, 8}}, Amount::kCapacity), (Parts{20, 80}));
  EXPECT_EQ(Desired(std::vector<Side>{{90, 1, 8, 20}, {0, 1, 8, 10}, {0, 1, 8}}, Amount::kCapacity),
            (Parts{20, 10, 60}));
  // Nobody can begin them all: they wait as if nobody ended.
  EXPECT_EQ(Desired(std::vector<Side>{{100, 1, 8, 20}, {0, 1, 8, 10}}, Amount::kCapacity), (Parts{50, 50}));
}

TEST(AmountsTest, TheLargestGivesToTheLargest) {
  EXPECT_EQ(PairUp(Whole{-6, 6, 20, -20}), (std::vector<Pair>{{2, 3, 20}, {1, 0, 6}}));
  EXPECT_EQ(PairUp(Whole{-16, -4, 20, 0}), (std::vector<Pair>{{2, 0, 16}, {2, 1, 4}}));
  EXPECT_EQ(PairUp(Whole{5, 5, -5, -5}), (std::vector<Pair>{{0, 2, 5}, {1, 3, 5}}));
}

TEST(AmountsTest, NamesReadBack) {
  for (const Trigger trigger : {Trigger::kEmpty, Trigger::kLow, Trigger::kAlways})
    EXPECT_EQ(TriggerOf(NameOf(trigger)), trigger);
  for (const Amount amount : {Amount::kCapacity, Amount::kWorkers})
    EXPECT_EQ(AmountOf(NameOf(amount)), amount);
  EXPECT_EQ(TriggerOf("often"), std::nullopt);
  EXPECT_EQ(AmountOf(""), std::nullopt);
}

TEST(AmountsTest, AnySidesSumToZeroAndNobodyGivesWhatItHasNot) {
  std::mt19937 random(7);
  for (int round = 0; round < 20000; ++round) {
    std::vector<Side> sides(1 + random() % 12);
    for (Side& side : sides) {
      side = {random() % 50, static_cast<double>(random() % 4) * 0.75, static_cast<uint32_t>(random() % 9)};
      if (random() % 4 == 0) side.most = static_cast<double>(random() % 20);
    }
    const Amount amount = random() % 2 == 0 ? Amount::kCapacity : Amount::kWorkers;
    const Whole amounts = Amounts(sides, amount);
    ASSERT_EQ(std::accumulate(amounts.begin(), amounts.end(), int64_t{0}), 0) << "round " << round;
    for (size_t i = 0; i < sides.size(); ++i) {
      ASSERT_LE(amounts[i], static_cast<int64_t>(sides[i].ready)) << "round " << round;
      if (sides[i].weight(amount) <= 0) {
        ASSERT_GE(amounts[i], 0) << "round " << round;
      }
    }
    Whole left = amounts;
    const std::vector<Pair> pairs = PairUp(amounts);
    ASSERT_LT(pairs.size(), sides.size());
    for (const Pair& pair : pairs) {
      left[pair.from] -= static_cast<int64_t>(pair.count);
      left[pair.to] += static_cast<int64_t>(pair.count);
    }
    ASSERT_EQ(left, Whole(sides.size(), 0)) << "round " << round;
  }
}

}  // namespace
}  // namespace harrow::supervisor
