#include "migrate/block.h"

#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <random>
#include <string>

#include "base/text.h"
#include "migrate/compress.h"
#include "migrate/image.h"
#include "unit/migrate/drawn.h"

namespace harrow::migrate {
namespace {

class BlockTest : public testing::Test {
 protected:
  BlockTest() {
    const char* const given = getenv("HARROW_TEST_SEED");
    const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
    RecordProperty("seed", StrCat(seed));
    draw_.seed(seed);
    seed_ = StrCat("HARROW_TEST_SEED=", seed);
  }

  std::string Noise(size_t pages) { return DrawnNoise(&draw_, pages * kPage); }
  std::string Numbers(size_t pages) { return DrawnNumbers(&draw_, pages * kPage); }
  static std::string Text(size_t pages) {
    std::string text;
    for (size_t line = 0; text.size() < pages * kPage; ++line) text += StrCat("line ", line, " of it\n");
    text.resize(pages * kPage);
    return text;
  }
  struct Block {
    BlockWay way;
    std::string bytes;
  };
  Block Packed(const std::string& pages) {
    const BlockCoder::Packed packed = coder_.Pack(pages);
    Block block{packed.way, std::string(packed.bytes)};
    std::string back(pages.size(), 'x');
    EXPECT_TRUE(coder_.Unpack(block.way, block.bytes, back.data(), back.size()).ok()) << seed_;
    EXPECT_TRUE(back == pages) << seed_;
    return block;
  }
  bool Unpacks(BlockWay way, std::string_view bytes, size_t size) {
    std::string pages(size, '\0');
    return coder_.Unpack(way, bytes, pages.data(), size).ok();
  }

  BlockCoder coder_;
  std::string seed_;
  std::mt19937_64 draw_;
};

TEST_F(BlockTest, EachLiesInTheWayThatMakesItSmall) {
  const std::string noise = Noise(256), numbers = Numbers(256), text = Text(256);
  const Block plain = Packed(noise), by_place = Packed(numbers), zstd = Packed(text);
  EXPECT_EQ(plain.way, BlockWay::kPlain);
  EXPECT_EQ(plain.bytes.size(), noise.size());
  EXPECT_EQ(by_place.way, BlockWay::kByPlace);
  EXPECT_LT(by_place.bytes.size(), numbers.size() * 86 / 100) << "of 64 bits 54 are noise";
  EXPECT_LT(by_place.bytes.size(), Compress(numbers).size() * 95 / 100);
  EXPECT_EQ(zstd.way, BlockWay::kZstd);
  EXPECT_LT(zstd.bytes.size(), text.size() / 5);
}

TEST_F(BlockTest, BytesOfWordsLieByTheirPlaces) {
  std::string pages;
  for (uint32_t word = 0; word < 512; ++word) {
    // The highest byte is 7 in all of them, and the lowest are noise.
    const uint64_t number = uint64_t{7} << 56 | (draw_() & 0x00FFFFFFFFFFFFFFu);
    pages.append(reinterpret_cast<const char*>(&number), sizeof number);
  }
  const Block block = Packed(pages);
  ASSERT_EQ(block.way, BlockWay::kByPlace) << seed_;
  const Result<std::string> planes = Decompress(block.bytes, pages.size());
  ASSERT_TRUE(planes.ok());
  for (size_t place = 0; place < 8; ++place) {
    for (size_t word = 0; word < 512; ++word) ASSERT_EQ((*planes)[place * 512 + word], pages[word * 8 + place]) << seed_ << " " << place << " " << word;
  }
}

TEST_F(BlockTest, DrawnOnesComeBack) {
  for (int round = 0; round < 200; ++round) {
    std::string pages;
    for (size_t count = 1 + draw_() % 60; count > 0; --count) {
      const uint64_t kind = draw_() % 4;
      pages += kind == 0 ? Noise(1) : kind == 1 ? Numbers(1) : kind == 2 ? Text(1) : std::string(kPage, static_cast<char>(draw_()));
    }
    const Block block = Packed(pages);
    EXPECT_LE(block.bytes.size(), pages.size()) << seed_ << " " << round;
  }
}

TEST_F(BlockTest, WhatLiesInNoSuchWayIsRefused) {
  for (const std::string& pages : {Noise(3), Numbers(3), Text(3)}) {
    const Block block = Packed(pages);
    EXPECT_FALSE(Unpacks(block.way, block.bytes, pages.size() - kPage));
    EXPECT_FALSE(Unpacks(block.way, block.bytes, pages.size() + kPage));
    EXPECT_FALSE(Unpacks(block.way, block.bytes.substr(0, block.bytes.size() - 1), pages.size()));
    EXPECT_FALSE(Unpacks(block.way, "", pages.size()));
  }
  EXPECT_EQ(BlockWayOf(2), BlockWay::kByPlace);
  EXPECT_FALSE(BlockWayOf(3).has_value());
}

}  // namespace
}  // namespace harrow::migrate
