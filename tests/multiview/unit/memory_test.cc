#include "multiview/memory.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <random>
#include <vector>

namespace {

using namespace harrow::multiview;

constexpr std::size_t kCapacity = 3 << 20;

std::byte Mark(std::size_t i, int salt) {
  return static_cast<std::byte>(i * 31 + i / 4096 * 7 + static_cast<std::size_t>(salt));
}

void Fill(Segment* s, int salt) {
  for (std::size_t i = 0; i < kCapacity; ++i) s->data()[i] = Mark(i, salt);
}

// Parts of any length that begin anywhere: what shares a page with something else is copied, the rest changes
// hands.
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
    const bool alike = (reinterpret_cast<std::size_t>(from->data()) + at) % 4096 ==
                       (reinterpret_cast<std::size_t>(to->data()) + target) % 4096;
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

/// Pages.
std::size_t AddressSpace() {
  std::ifstream file("/proc/self/statm");
  std::size_t pages = 0;
  file >> pages;
  return pages;
}

TEST(Segment, LeavesNoAddressSpace) {
  // Of both kinds, large ones between small ones, so that they begin anywhere.
  const auto some = [] {
    std::vector<std::unique_ptr<Segment>> segments;
    for (std::size_t i = 0; i < 20; ++i) segments.push_back(std::move(*Segment::Anonymous(i % 2 ? (8 << 20) + 12345 : 12345)));
  };
  some();
  const std::size_t before = AddressSpace();
  for (int i = 0; i < 5; ++i) some();
  EXPECT_EQ(AddressSpace(), before);
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
  EXPECT_EQ((*pool->Allocate(300'000, Target::kMemory))->capacity(), 300'000u)
      << "a third more would be a waste";
  pool->Trim();
  EXPECT_EQ((*pool->Allocate(170'000, Target::kMemory))->capacity(), 170'000u);
}

std::shared_ptr<MemoryPool> Pool(const WorldOptions& options = {}) {
  return std::make_shared<MemoryPool>(options);
}

constexpr std::byte kUsed{0x5a};

/// Takes segments of these sizes at once, leaves a mark in each, and gives them back in this order.
void UseAtOnce(MemoryPool* pool, std::initializer_list<std::size_t> sizes) {
  std::vector<std::shared_ptr<Segment>> held;
  for (const std::size_t size : sizes) {
    held.push_back(*pool->Allocate(size, Target::kMemory));
    held.back()->data()[0] = kUsed;
  }
  for (auto& segment : held) segment.reset();
}

/// Is what is asked for now memory that was used before? Fresh pages are zero.
bool UsedBefore(MemoryPool* pool, std::size_t bytes) {
  return (*pool->Allocate(bytes, Target::kMemory))->data()[0] == kUsed;
}

TEST(MemoryPool, WhatIsKeptServesRequestsOfUpToAFifthLess) {
  for (const auto& [bytes, used] : std::initializer_list<std::pair<std::size_t, bool>>{
           {100'001, false}, {100'000, true}, {76'724, true}, {76'723, false}}) {
    const auto pool = Pool();
    UseAtOnce(pool.get(), {100'000});
    EXPECT_EQ(UsedBefore(pool.get(), bytes), used) << bytes;
  }
}

TEST(MemoryPool, KeepsNoMoreThanItMay) {
  WorldOptions options;
  options.keep_bytes = 300'000;
  const auto pool = Pool(options);
  UseAtOnce(pool.get(), {200'000, 100'000, 50'000});
  EXPECT_FALSE(UsedBefore(pool.get(), 50'000));
  EXPECT_TRUE(UsedBefore(pool.get(), 200'000));
  EXPECT_TRUE(UsedBefore(pool.get(), 100'000));
  pool->Trim();
  EXPECT_FALSE(UsedBefore(pool.get(), 200'000));
  UseAtOnce(pool.get(), {200'000, 100'000});
  EXPECT_TRUE(UsedBefore(pool.get(), 100'000)) << "what was trimmed is kept no more";
}

TEST(MemoryPool, WhatIsKeptDoesNotMakeAProcessLargerThanItsStoresWere) {
  const auto pool = Pool();
  UseAtOnce(pool.get(), {100'000, 300'000, 200'000});
  { const auto large = *pool->Allocate(350'000, Target::kMemory); }
  EXPECT_FALSE(UsedBefore(pool.get(), 300'000)) << "the largest go first";
  EXPECT_TRUE(UsedBefore(pool.get(), 100'000));
}

TEST(MemoryPool, AutomaticIsMemoryUpToTheLimit) {
  WorldOptions options;
  options.memory_limit = 1'000'000;
  const auto pool = Pool(options);
  const auto in_file = [&](std::size_t bytes, Target target) {
    return (*pool->Allocate(bytes, target))->in_file();
  };
  const auto first = *pool->Allocate(400'000, Target::kAutomatic);
  auto second = *pool->Allocate(600'000, Target::kAutomatic);
  EXPECT_FALSE(first->in_file() || second->in_file());
  EXPECT_TRUE(in_file(1, Target::kAutomatic));
  EXPECT_FALSE(in_file(5'000'000, Target::kMemory));
  EXPECT_EQ(pool->in_use(), 1'000'000u);
  second.reset();
  EXPECT_EQ(pool->in_use(), 400'000u);
  EXPECT_FALSE(in_file(600'000, Target::kAutomatic));
  EXPECT_TRUE(in_file(600'001, Target::kAutomatic));
  EXPECT_TRUE(in_file(1'000'001, Target::kAutomatic));
  EXPECT_TRUE(in_file(10, Target::kFile));
}

TEST(MemoryPool, FilesLieWhereItIsSaid) {
  const auto directory = [](const char* option, const char* own, const char* general) {
    setenv("HARROW_MULTIVIEW_DIR", own, 1);
    setenv("TMPDIR", general, 1);
    WorldOptions options;
    options.directory = option;
    const std::string found = Pool(options)->files().directory();
    unsetenv("HARROW_MULTIVIEW_DIR");
    unsetenv("TMPDIR");
    return found;
  };
  EXPECT_EQ(directory("/a", "/b", "/c"), "/a");
  EXPECT_EQ(directory("", "/b", "/c"), "/b");
  EXPECT_EQ(directory("", "", "/c"), "/c");
  EXPECT_EQ(directory("", "", ""), "/tmp");
  EXPECT_EQ(Pool()->files().directory(), "/tmp");
}

TEST(Segment, ExchangedOftenItIsFragmentedAndNotKept) {
  const auto pool = Pool();
  auto from = *pool->Allocate(kCapacity, Target::kMemory), to = *pool->Allocate(kCapacity, Target::kMemory);
  for (int i = 0; i < 64; ++i) ASSERT_TRUE(Segment::Exchange(from.get(), 0, to.get(), 0, 128 << 10));
  EXPECT_FALSE(from->fragmented() || to->fragmented());
  ASSERT_TRUE(Segment::Exchange(from.get(), 0, to.get(), 0, 128 << 10));
  EXPECT_TRUE(from->fragmented() && to->fragmented());
  EXPECT_FALSE(Segment::CanExchange(*from, 0, *to, 0, 1 << 20));
  const auto fresh = *pool->Allocate(kCapacity, Target::kMemory);
  EXPECT_FALSE(Segment::CanExchange(*from, 0, *fresh, 0, 1 << 20) ||
               Segment::CanExchange(*fresh, 0, *to, 0, 1 << 20));
  from->data()[0] = to->data()[0] = kUsed;
  from.reset();
  to.reset();
  EXPECT_FALSE(UsedBefore(pool.get(), kCapacity));
}

TEST(Segment, LiesInAPageAsItIsAsked) {
  constexpr std::size_t kHuge = 2 << 20;
  for (const std::size_t capacity : {std::size_t{10'000}, 2 * kHuge - 1, 2 * kHuge, 2 * kHuge + 1}) {
    const std::size_t page = capacity >= 2 * kHuge ? kHuge : 4096;
    auto segment = std::move(*Segment::Anonymous(capacity));
    EXPECT_EQ(segment->capacity(), capacity);
    EXPECT_EQ(reinterpret_cast<std::size_t>(segment->data()) % page, 0u) << capacity;
    for (const std::size_t place : {std::size_t{1}, page - 1, 3 * page + 77}) {
      segment->AlignLike(reinterpret_cast<const std::byte*>(place));
      EXPECT_EQ(reinterpret_cast<std::size_t>(segment->data()) % page, place % page) << capacity;
      std::fill_n(segment->data(), capacity, kUsed);
    }
  }
}

TEST(Segment, DiscardsThePagesThatLieWhollyInside) {
  auto space = std::make_shared<FileSpace>("/tmp");
  const auto other =
      std::move(*Segment::File(4096, space));  // so that the one in question does not begin its file
  for (const bool in_file : {false, true}) {
    auto segment =
        in_file ? std::move(*Segment::File(10 * 4096, space)) : std::move(*Segment::Anonymous(10 * 4096));
    EXPECT_EQ(segment->file_offset(), in_file ? 4096u : 0u);
    std::fill_n(segment->data(), 10 * 4096, kUsed);
    std::fill_n(other->data(), 4096, kUsed);
    segment->Discard(4096, 4095);
    segment->Discard(2 * 4096 + 1, 4096);
    EXPECT_EQ(std::count(segment->data(), segment->data() + 10 * 4096, kUsed), 10 * 4096);
    segment->Discard(4 * 4096 - 1, 4096 + 2);
    segment->Discard(6 * 4096, 2 * 4096);
    for (std::size_t page = 0; page < 10; ++page) {
      const bool gone = page == 4 || page == 6 || page == 7;
      EXPECT_EQ(std::count(segment->data() + page * 4096, segment->data() + (page + 1) * 4096, kUsed),
                gone ? 0 : 4096)
          << page;
    }
    EXPECT_EQ(std::count(other->data(), other->data() + 4096, kUsed), 4096);
    segment->Unload();
    EXPECT_EQ(segment->data()[0], kUsed);
    EXPECT_EQ(segment->Sync(), 0);
  }
}

}  // namespace
