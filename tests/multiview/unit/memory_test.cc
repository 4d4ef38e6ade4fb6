#include "multiview/memory.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace {

using namespace harrow::multiview;

constexpr std::size_t kCapacity = 3 << 20;

std::byte Mark(std::size_t i, int salt) { return static_cast<std::byte>(i * 31 + i / 4096 * 7 + static_cast<std::size_t>(salt)); }

void Fill(Segment* s, int salt) {
  for (std::size_t i = 0; i < kCapacity; ++i) s->data()[i] = Mark(i, salt);
}

// Parts of any length that begin anywhere: what shares a page with something else is copied, the rest changes hands.
TEST(Segment, ExchangeGivesExactlyThePart) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  int exchanged = 0;
  for (int i = 0; i < 40; ++i) {
    auto from = std::move(*Segment::Anonymous(kCapacity)), to = std::move(*Segment::Anonymous(kCapacity));
    const std::size_t at = random() % 20'000, bytes = (256 << 10) + random() % (2 << 20);
    // The same place in a page, on other pages or the same ones.
    const std::size_t target = i % 2 ? at % 4096 + 4096 * (random() % 8) : at + random() % 3;
    if (i % 4 == 0) to->AlignLike(from->data() + at - target % (at + 1));
    Fill(from.get(), 1);
    Fill(to.get(), 2);
    const bool alike = (reinterpret_cast<std::size_t>(from->data()) + at) % 4096 == (reinterpret_cast<std::size_t>(to->data()) + target) % 4096;
    EXPECT_EQ(Segment::CanExchange(*from, at, *to, target, bytes), alike);
    const bool done = Segment::Exchange(from.get(), at, to.get(), target, bytes);
    exchanged += done;
    EXPECT_TRUE(alike || !done);
    std::size_t wrong = 0;
    for (std::size_t k = 0; k < kCapacity; ++k) {
      const bool inside = done && k >= target && k < target + bytes;
      wrong += to->data()[k] != (inside ? Mark(at + (k - target), 1) : Mark(k, 2));
      if (k < at || k >= at + bytes) wrong += from->data()[k] != Mark(k, 1);
    }
    EXPECT_EQ(wrong, 0u) << bytes << " bytes from " << at << " to " << target;
  }
  EXPECT_GE(exchanged, 15) << "a kernel before 5.7?";
}

TEST(Segment, SmallPartsAndFilesAreCopiedByOthers) {
  auto from = std::move(*Segment::Anonymous(kCapacity)), to = std::move(*Segment::Anonymous(kCapacity));
  EXPECT_FALSE(Segment::CanExchange(*from, 0, *to, 0, (128 << 10) - 1));
  EXPECT_TRUE(Segment::CanExchange(*from, 0, *to, 0, 128 << 10));
  auto space = std::make_shared<FileSpace>("/tmp");
  auto file = std::move(*Segment::File(kCapacity, space));
  EXPECT_FALSE(Segment::CanExchange(*from, 0, *file, 0, 1 << 20));
  EXPECT_FALSE(Segment::CanExchange(*file, 0, *to, 0, 1 << 20));
}

TEST(MemoryPool, FreedMemoryOfAboutTheSizeIsUsedAgain) {
  auto pool = std::make_shared<MemoryPool>(WorldOptions{});
  std::vector<std::shared_ptr<Segment>> held;
  for (std::size_t size : {100'000, 200'000, 400'000}) held.push_back(*pool->Allocate(size, Target::kMemory));
  EXPECT_EQ(pool->in_use(), 700'000u);
  const Segment* middle = held[1].get();
  held.clear();
  EXPECT_EQ(pool->in_use(), 0u);
  EXPECT_EQ(pool->Allocate(170'000, Target::kMemory)->get(), middle);
  EXPECT_EQ((*pool->Allocate(300'000, Target::kMemory))->capacity(), 300'000u) << "a third more would be a waste";
  pool->Trim();
  EXPECT_EQ((*pool->Allocate(170'000, Target::kMemory))->capacity(), 170'000u);
}

}  // namespace
