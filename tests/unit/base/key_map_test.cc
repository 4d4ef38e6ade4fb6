#include "base/key_map.h"

#include <gtest/gtest.h>
#include <map>
#include <random>

namespace harrow {
namespace {

std::map<uint64_t, uint32_t> All(const KeyMap& map) {
  std::map<uint64_t, uint32_t> all;
  map.ForEach([&](uint64_t key, uint32_t number) { EXPECT_TRUE(all.emplace(key, number).second); });
  return all;
}

TEST(KeyMap, AnswersLikeAMap) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    KeyMap map;
    std::map<uint64_t, uint32_t> known;
    const uint64_t keys = 1 + random() % 300;
    for (int i = 0; i < 3000; ++i) {
      const uint64_t key = random() % keys << (seed % 2 == 0 ? 32 : 0);
      if (random() % 2 == 0) {
        map.Set(key, static_cast<uint32_t>(i));
        known[key] = static_cast<uint32_t>(i);
      } else {
        map.Erase(key);
        known.erase(key);
      }
      const uint64_t asked = random() % keys << (seed % 2 == 0 ? 32 : 0);
      const auto found = known.find(asked);
      ASSERT_EQ(map.Find(asked), found == known.end() ? KeyMap::kNone : found->second);
      ASSERT_EQ(map.size(), known.size());
    }
    EXPECT_EQ(All(map), known);
  }
}

TEST(KeyMap, HasRoomForWhatItHoldsAndNotMuchMore) {
  KeyMap map;
  EXPECT_EQ(map.memory(), 0u);
  EXPECT_EQ(map.Find(0), KeyMap::kNone);
  map.Erase(0);
  for (uint32_t i = 0; i < 1000; ++i) map.Set(i, i);
  const size_t memory = map.memory();
  EXPECT_GE(memory, 2 * 1000 * 16u);
  EXPECT_LE(memory, 4 * 1024 * 16u);
  for (uint32_t i = 1000; i < 100'000; ++i) {
    map.Erase(i - 1000);
    map.Set(i, i);
  }
  EXPECT_EQ(map.memory(), memory) << "what comes and goes takes no more";
}

// With a number in each half, in whatever steps: else a search is as long as the table.
TEST(KeyMap, StepsOfKeysDoNotClash) {
  for (const uint64_t step : {1u, 2u, 3u, 7u, 19u, 361u, 722u, 1000u, 1024u}) {
    for (const uint32_t count : {8u, 64u, 512u, 20'000u}) {
      KeyMap map;
      for (uint32_t i = 0; i < count; ++i) map.Set((i * step) << 32 | 3, i);
      EXPECT_LE(map.LongestSearch(), 40u) << count << " keys in steps of " << step;
    }
  }
}

}  // namespace
}  // namespace harrow
