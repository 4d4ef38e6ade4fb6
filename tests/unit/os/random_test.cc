#include "os/random.h"

#include <algorithm>
#include <array>
#include <gtest/gtest.h>
#include <set>

namespace harrow::os {
namespace {

TEST(RandomTest, AllBytesAreFilled) {
  // That one byte is 0 each time is as good as impossible.
  std::array<unsigned char, 300> filled{};
  for (int round = 0; round < 16; ++round) {
    std::array<unsigned char, 300> bytes{};
    ASSERT_TRUE(RandomBytes(bytes.data(), bytes.size()));
    for (size_t i = 0; i < bytes.size(); ++i) filled[i] |= bytes[i];
  }
  EXPECT_EQ(std::count(filled.begin(), filled.end(), 0), 0);
}

TEST(RandomTest, NumbersAreDrawnOnce) {
  std::set<uint64_t> drawn;
  for (int i = 0; i < 1000; ++i) drawn.insert(UniqueNumber());
  EXPECT_EQ(drawn.size(), 1000u);
}

}  // namespace
}  // namespace harrow::os
