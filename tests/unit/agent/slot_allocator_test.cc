#include "agent/core/slot_allocator.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <optional>
#include <random>

namespace harrow::agent {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<uint32_t> Take(SlotAllocator* slots, uint32_t count) {
  std::vector<uint32_t> taken;
  const bool fits = slots->Take(count, &taken);
  EXPECT_EQ(fits, !taken.empty());
  return taken;
}

TEST(SlotAllocatorTest, PacksWithinANumaNodeByBestFit) {
  SlotAllocator cores({0, 0, 0, 0, 1, 1, 1, 1});
  EXPECT_THAT(Take(&cores, 2), ElementsAre(0, 1));
  EXPECT_THAT(Take(&cores, 2), ElementsAre(2, 3)) << "node 0 has the fewest free that do";
  EXPECT_THAT(Take(&cores, 3), ElementsAre(4, 5, 6));
  EXPECT_THAT(Take(&cores, 2), IsEmpty());
  EXPECT_EQ(cores.free_count(), 1u);
}

TEST(SlotAllocatorTest, PrefersNeighbours) {
  SlotAllocator cores({0, 0, 0, 0, 0, 0, 0, 0});
  for (uint32_t slot : {0u, 2u, 5u}) cores.TakeSlot(slot);
  EXPECT_THAT(Take(&cores, 2), ElementsAre(3, 4)) << "free: 1, 3 4, 6 7";
  cores.Free(3);
  EXPECT_THAT(Take(&cores, 2), ElementsAre(6, 7));
  EXPECT_THAT(Take(&cores, 2), ElementsAre(1, 3)) << "no neighbours left";
}

TEST(SlotAllocatorTest, SpreadsOverAsFewNodesAsPossible) {
  SlotAllocator cores({0, 0, 1, 1, 1, 2, 2, 2});
  cores.TakeSlot(2);
  EXPECT_THAT(Take(&cores, 5), ElementsAre(0, 1, 5, 6, 7));
}

TEST(SlotAllocatorTest, WhatIsTakenIsAddedInOrderToWhatWasTakenBefore) {
  SlotAllocator cores({0, 0, 1, 1, 1});
  std::vector<uint32_t> taken = {9, 7};
  ASSERT_TRUE(cores.Take(4, &taken));
  EXPECT_THAT(taken, ElementsAre(9, 7, 0, 2, 3, 4));
}

TEST(SlotAllocatorTest, NumaNodesMayBeInAnyOrder) {
  SlotAllocator cores({1, 3, 1, 3, 1, 3});
  EXPECT_THAT(Take(&cores, 2), ElementsAre(0, 2)) << "slots of one node are neighbours";
  EXPECT_EQ(cores.TakeOne(), 4u) << "the node with the fewest free";
  EXPECT_THAT(Take(&cores, 3), ElementsAre(1, 3, 5));
  cores.Free(4);
  cores.Free(3);
  EXPECT_TRUE(cores.is_free(3));
  EXPECT_FALSE(cores.is_free(5));
  EXPECT_THAT(Take(&cores, 2), ElementsAre(3, 4));
}

// What is said of one NUMA node, slot by slot.
TEST(SlotAllocatorTest, OfOneNodeTheShortestRunThatIsLongEnough) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (const uint32_t count : {1u, 63u, 64u, 65u, 200u}) {
    SlotAllocator cores(std::vector<uint32_t>(count, 0));
    std::vector<bool> free(count, true);
    for (int step = 0; step < 2'000; ++step) {
      const auto slot = static_cast<uint32_t>(random() % count);
      if (!free[slot]) {
        cores.Free(slot);
        free[slot] = true;
        continue;
      }
      if (random() % 2 == 0) {
        cores.TakeSlot(slot);
        free[slot] = false;
        continue;
      }
      const auto wanted = static_cast<uint32_t>(1 + random() % 5);
      std::optional<uint32_t> best;
      uint32_t best_length = 0;
      for (uint32_t begin = 0, end; begin < count; begin = end + 1) {
        for (end = begin; end < count && free[end]; ++end) continue;
        if (end - begin < wanted || (best && end - begin >= best_length)) continue;
        best = begin;
        best_length = end - begin;
      }
      std::vector<uint32_t> expected;
      for (uint32_t i = best.value_or(0); i < count && expected.size() < wanted; ++i) {
        if (free[i]) expected.push_back(i);
      }
      if (expected.size() < wanted) expected.clear();
      ASSERT_EQ(wanted == 1 ? std::vector{cores.TakeOne()} : Take(&cores, wanted), expected);
      for (const uint32_t taken : expected) free[taken] = false;
    }
  }
}

TEST(SlotAllocatorTest, RandomUseNeverGivesASlotTwice) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  std::vector<uint32_t> numa(24);
  for (uint32_t i = 0; i < 24; ++i) numa[i] = i / 8;
  SlotAllocator cores(numa);
  std::vector<std::vector<uint32_t>> held;
  std::vector<bool> taken(24);
  for (int step = 0; step < 20'000; ++step) {
    if (random() % 2 == 0) {
      const auto count = static_cast<uint32_t>(1 + random() % 10);
      const size_t before = cores.free_count();
      const std::vector<uint32_t> got = Take(&cores, count);
      ASSERT_EQ(got.size(), count <= before ? count : 0);
      if (got.empty()) continue;
      for (uint32_t slot : got) {
        ASSERT_FALSE(taken[slot]);
        taken[slot] = true;
      }
      held.push_back(got);
    } else if (!held.empty()) {
      std::swap(held[random() % held.size()], held.back());
      for (uint32_t slot : held.back()) {
        taken[slot] = false;
        cores.Free(slot);
      }
      held.pop_back();
    }
    ASSERT_EQ(cores.free_count(), static_cast<size_t>(std::count(taken.begin(), taken.end(), false)));
  }
}

}  // namespace
}  // namespace harrow::agent
