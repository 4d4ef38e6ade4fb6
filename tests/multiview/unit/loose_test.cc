#include "multiview/loose.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>

namespace {

using namespace harrow::multiview;

std::vector<std::pair<Index, int>> Contents(LooseElements* loose) {
  std::vector<std::pair<Index, int>> all;
  for (const Entry& e : loose->entries()) {
    EXPECT_FALSE(e.removed());
    EXPECT_EQ(e.bytes, static_cast<std::size_t>(e.count) * sizeof(int));
    for (Index i = 0; i < e.count; ++i) {
      int value;
      std::memcpy(&value, e.data + static_cast<std::size_t>(i) * sizeof(int), sizeof value);
      all.emplace_back(e.index + i, value);
    }
  }
  return all;
}

TEST(LooseElements, HoweverManyAreAddedTheyAreInFewLists) {
  auto pool = std::make_shared<MemoryPool>(WorldOptions{});
  LooseElements loose;
  std::size_t most = 0;
  constexpr std::size_t kBytes = 2 * sizeof(int);
  for (Index i = 0; i < 1000; ++i) {
    auto place = loose.Reserve(kBytes, pool.get(), Target::kMemory);
    ASSERT_TRUE(place.ok());
    std::memset(*place, 0, kBytes);
    loose.Add({{4 * i, 2, 1, 0, *place, kBytes}});
    most = std::max(most, loose.levels());
  }
  EXPECT_LE(most, 11u);
  EXPECT_GE(most, 5u) << "all that there is was copied too often";
  EXPECT_EQ(loose.count(), 2000);
  EXPECT_EQ(loose.levels(), 1u);
}

TEST(LooseElements, AnyOrderOfCallsLeavesWhatTheCallsSay) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    auto pool = std::make_shared<MemoryPool>(WorldOptions{});
    LooseElements loose;
    std::map<Index, int> expected;
    int next = 0;
    for (int call = 0; call < 60; ++call) {
      const Index at = random() % 40;
      switch (random() % 4) {
        case 0: {  // a run
          std::vector<int> values(1 + random() % 12);
          auto place = loose.Reserve(values.size() * sizeof(int), pool.get(), Target::kMemory);
          ASSERT_TRUE(place.ok());
          for (std::size_t i = 0; i < values.size(); ++i) expected[at + static_cast<Index>(i)] = values[i] = next++;
          std::memcpy(*place, values.data(), values.size() * sizeof(int));
          loose.Add({{at, static_cast<Index>(values.size()), 1, 0, *place, values.size() * sizeof(int)}});
          break;
        }
        case 1: {
          auto place = loose.Reserve(sizeof(int), pool.get(), Target::kMemory);
          ASSERT_TRUE(place.ok());
          std::memcpy(*place, &next, sizeof next);
          expected[at] = next++;
          loose.Add({{at, 1, 2, 0, *place, sizeof(int)}});
          break;
        }
        case 2:
          loose.Remove(at);
          expected.erase(at);
          break;
        default: {
          const Entry* found = loose.Find(at);
          ASSERT_EQ(found != nullptr, expected.contains(at));
          if (!found) break;
          int value;
          std::memcpy(&value, found->data + static_cast<std::size_t>(at - found->index) * sizeof(int), sizeof value);
          ASSERT_EQ(value, expected[at]);
        }
      }
      if (random() % 16 == 0) {
        ASSERT_EQ(Contents(&loose), (std::vector<std::pair<Index, int>>(expected.begin(), expected.end())));
      }
    }
    ASSERT_EQ(Contents(&loose), (std::vector<std::pair<Index, int>>(expected.begin(), expected.end())));
    ASSERT_EQ(loose.count(), static_cast<Index>(expected.size()));
  }
}

TEST(LooseElements, WhatIsReplacedAgainAndAgainDoesNotPileUp) {
  auto pool = std::make_shared<MemoryPool>(WorldOptions{});
  LooseElements loose;
  for (std::size_t i = 0; i < 20'000; ++i) {
    const std::size_t bytes = 1000 + i % 7;
    auto place = loose.Reserve(bytes, pool.get(), Target::kMemory);
    ASSERT_TRUE(place.ok());
    std::memset(*place, static_cast<int>(i % 251), bytes);
    loose.Add({{static_cast<Index>(i % 10), 1, i, 0, *place, bytes}});
    loose.Compact(pool.get(), Target::kMemory);
  }
  EXPECT_LT(pool->in_use(), std::size_t{8} << 20) << "of 20 MB that were put one after the other 10 kB are left";
  for (const Entry& e : loose.entries()) {
    const std::size_t i = 19'990 + static_cast<std::size_t>(e.index);
    EXPECT_EQ(e.bytes, 1000 + i % 7);
    EXPECT_EQ(e.data[e.bytes - 1], static_cast<std::byte>(i % 251));
  }
}

TEST(Arena, FewChunksHoldMuch) {
  auto pool = std::make_shared<MemoryPool>(WorldOptions{});
  Arena arena(pool.get(), Target::kMemory);
  for (int i = 0; i < 4 * 1024; ++i) ASSERT_TRUE(arena.Reserve(1 << 20).ok());  // 4 GB, of which nothing is touched
  EXPECT_LT(arena.chunks().size(), 65u);
  EXPECT_LT(arena.capacity(), std::size_t{5} << 30);
}

TEST(Settle, OnlyWhatOverlapsIsTakenApart) {
  std::vector<int> values(1000);
  auto* data = reinterpret_cast<std::byte*>(values.data());
  const auto run = [&](Index first, Index count, std::uint64_t order) {
    return Entry{first, count, order, 0, data + first * 4, static_cast<std::size_t>(count) * 4};
  };
  std::vector<Entry> entries{run(0, 400, 1), run(500, 400, 1), run(510, 1, 2)};
  Settle(&entries, 4);
  ASSERT_EQ(entries.size(), 4u);
  EXPECT_EQ(entries[0].count, 400);
  EXPECT_EQ(entries[1].count, 10);
  EXPECT_EQ(entries[2].order, 2u);
  EXPECT_EQ(entries[3].index, 511);
  EXPECT_EQ(entries[3].count, 389);
}

}  // namespace
