#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "place/nearby.h"

namespace harrow::place {
namespace {

using ::testing::ElementsAre;
using Words = std::vector<std::string>;

class Nearby : public ::testing::Test {
 protected:
  TaskId Add(const Words& in, const Words& out) {
    std::vector<FileId> ins, outs;
    for (const std::string& each : in) ins.push_back(graph_.AddFile(each));
    for (const std::string& each : out) outs.push_back(graph_.AddFile(each));
    graph::TaskSpec spec;
    spec.in = ins;
    spec.out = outs;
    return graph_.AddTask(spec);
  }
  /// That makes the file of its number.
  void AddMaker(uint32_t n, const Words& in = {}) { makers_.push_back(Add(in, {File(n)})); }
  static std::string File(uint32_t n) { return "f" + std::to_string(n); }
  /// The numbers of makers, in their order.
  std::vector<uint32_t> Order(uint32_t unit = 1) {
    EXPECT_TRUE(graph_.Seal().ok());
    std::vector<uint32_t> numbers;
    const std::optional<std::vector<TaskId>> order = NearbyOrder(graph_, makers_, unit);
    related_ = order.has_value();
    for (const TaskId id : order.value_or(makers_)) {
      numbers.push_back(static_cast<uint32_t>(std::find(makers_.begin(), makers_.end(), id) - makers_.begin()));
    }
    std::vector<uint32_t> each = numbers, all(makers_.size());
    std::sort(each.begin(), each.end());
    std::iota(all.begin(), all.end(), 0u);
    EXPECT_EQ(each, all) << "each is there once";
    return numbers;
  }
  /// Of a square of makers, width x width, of which tasks read two that stand side by side or on top of each other; in
  /// a mixed order.
  void AddSquare(uint32_t width) {
    std::vector<uint32_t> places(width * width);
    std::iota(places.begin(), places.end(), 0u);
    std::shuffle(places.begin(), places.end(), std::mt19937(7));
    for (uint32_t n = 0; n < places.size(); ++n) AddMaker(n);
    std::vector<uint32_t> at(places.size());
    for (uint32_t n = 0; n < places.size(); ++n) at[places[n]] = n;
    for (uint32_t y = 0; y < width; ++y) {
      for (uint32_t x = 0; x < width; ++x) {
        if (x + 1 < width) pairs_.emplace_back(at[y * width + x], at[y * width + x + 1]);
        if (y + 1 < width) pairs_.emplace_back(at[y * width + x], at[(y + 1) * width + x]);
      }
    }
    for (const auto& [a, b] : pairs_) Add({File(a), File(b)}, {});
  }
  /// Pairs whose two are not in the same of `parts` equal stretches.
  size_t Cut(const std::vector<uint32_t>& order, size_t parts) const {
    std::vector<size_t> part(order.size());
    for (size_t i = 0; i < order.size(); ++i) part[order[i]] = i * parts / order.size();
    return static_cast<size_t>(
        std::count_if(pairs_.begin(), pairs_.end(), [&](const auto& pair) { return part[pair.first] != part[pair.second]; }));
  }

  graph::Graph graph_;
  std::vector<TaskId> makers_;
  bool related_ = false;  // some two, as of Order()
  std::vector<std::pair<uint32_t, uint32_t>> pairs_;
};

TEST_F(Nearby, WhatNothingTellsApartStaysAsItWas) {
  for (uint32_t n = 0; n < 9; ++n) AddMaker(n);
  Order();
  EXPECT_FALSE(related_);
  Add({File(3), File(4)}, {});
  EXPECT_THAT(Order(), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_TRUE(related_);
}

TEST_F(Nearby, NoneAndOne) {
  EXPECT_THAT(Order(), ElementsAre());
  AddMaker(0);
  EXPECT_THAT(Order(), ElementsAre(0));
}

TEST_F(Nearby, TwoThatAreReadTogetherStandTogether) {
  for (uint32_t n = 0; n < 8; ++n) AddMaker(n);
  for (uint32_t n = 0; n < 4; ++n) Add({File(n), File(n + 4)}, {});
  const std::vector<uint32_t> order = Order();
  for (size_t i = 0; i < order.size(); i += 2) EXPECT_EQ(order[i] % 4, order[i + 1] % 4);
}

TEST_F(Nearby, WhatStandsTogetherAlreadyStaysAsItWas) {
  for (uint32_t n = 0; n < 16; ++n) AddMaker(n);
  for (uint32_t n = 0; n < 16; n += 2) Add({File(n), File(n + 1)}, {});
  const std::vector<uint32_t> order = Order();
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST_F(Nearby, TwoThatReadTheSameFileStandTogether) {
  for (uint32_t n = 0; n < 8; ++n) AddMaker(n, {"of-all", "x" + std::to_string(n % 4)});
  const std::vector<uint32_t> order = Order();
  for (size_t i = 0; i < order.size(); i += 2) EXPECT_EQ(order[i] % 4, order[i + 1] % 4);
}

TEST_F(Nearby, WhatFollowsOneAloneIsLookedThrough) {
  for (uint32_t n = 0; n < 8; ++n) {
    AddMaker(n);
    Add({File(n)}, {"shrunk" + std::to_string(n), "told" + std::to_string(n)});
    Add({"shrunk" + std::to_string(n), "told" + std::to_string(n), File(n)}, {"ready" + std::to_string(n)});
  }
  for (uint32_t n = 0; n < 4; ++n) Add({"ready" + std::to_string(n), "ready" + std::to_string(n + 4)}, {});
  const std::vector<uint32_t> order = Order();
  for (size_t i = 0; i < order.size(); i += 2) EXPECT_EQ(order[i] % 4, order[i + 1] % 4);
}

TEST_F(Nearby, TheStrongerRelationCounts) {
  for (uint32_t n = 0; n < 4; ++n) AddMaker(n);
  for (int twice = 0; twice < 2; ++twice) {
    Add({File(0), File(2)}, {});
    Add({File(1), File(3)}, {});
  }
  Add({File(0), File(1)}, {});
  Add({File(2), File(3)}, {});
  EXPECT_THAT(Order(), ::testing::AnyOf(ElementsAre(0, 2, 1, 3), ElementsAre(0, 2, 3, 1), ElementsAre(2, 0, 1, 3),
                                        ElementsAre(2, 0, 3, 1), ElementsAre(1, 3, 0, 2), ElementsAre(3, 1, 0, 2),
                                        ElementsAre(1, 3, 2, 0), ElementsAre(3, 1, 2, 0)));
}

TEST_F(Nearby, WhatAllReadOrWhatReadsAllTellsNothing) {
  Words all;
  for (uint32_t n = 0; n < 40; ++n) {
    AddMaker(n, {"of-all"});
    all.push_back(File(n));
  }
  Add(all, {"end"});
  const std::vector<uint32_t> order = Order();
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST_F(Nearby, ThirtyTwoTogetherAreFewEnoughAndThirtyThreeAreNot) {
  for (const uint32_t together : {32u, 33u}) {
    graph_ = graph::Graph();
    makers_.clear();
    Words read;
    for (uint32_t n = 0; n < 2 * together; ++n) {
      AddMaker(n);
      if (n % 2 == 0) read.push_back(File(n));
    }
    Add(read, {});
    const std::vector<uint32_t> order = Order();
    const auto half = order.begin() + together;
    const bool apart = std::all_of(order.begin(), half, [](uint32_t n) { return n % 2 == 0; }) ||
                       std::all_of(half, order.end(), [](uint32_t n) { return n % 2 == 0; });
    EXPECT_EQ(apart, together == 32);
  }
}

TEST_F(Nearby, ASquareIsCutIntoPartsWithShortRims) {
  AddSquare(16);
  const std::vector<uint32_t> order = Order();
  // Straight cuts: 16, 32, 64 and 96; in a mixed order it is half of 480 and more.
  EXPECT_LE(Cut(order, 2), 18u);
  EXPECT_LE(Cut(order, 4), 40u);
  EXPECT_LE(Cut(order, 8), 76u);
  EXPECT_LE(Cut(order, 16), 120u);
  // Parts that no cut was made for.
  EXPECT_LE(Cut(order, 3), 45u);
  EXPECT_LE(Cut(order, 5), 80u);
}

TEST_F(Nearby, PartsOfAUnitAreCutFromOneEnd) {
  // Chains of five: no halving finds them, a unit of five does.
  for (uint32_t n = 0; n < 35; ++n) AddMaker(n);
  for (uint32_t chain = 0; chain < 7; ++chain) {
    for (uint32_t i = 0; i < 4; ++i) Add({File(chain + 7 * i), File(chain + 7 * (i + 1))}, {});
  }
  const std::vector<uint32_t> order = Order(5);
  for (size_t i = 0; i < order.size(); i += 5) {
    std::set<uint32_t> chains;
    for (size_t j = i; j < i + 5; ++j) chains.insert(order[j] % 7);
    EXPECT_EQ(chains.size(), 1u) << "from " << i;
  }
}

TEST_F(Nearby, NeighboursOfDifferentHalvesMeet) {
  // A line in a mixed order: wherever it is cut, little goes over the cut.
  const uint32_t count = 64;
  std::vector<uint32_t> places(count);
  std::iota(places.begin(), places.end(), 0u);
  std::shuffle(places.begin(), places.end(), std::mt19937(3));
  for (uint32_t n = 0; n < count; ++n) AddMaker(n);
  for (uint32_t n = 0; n + 1 < count; ++n) Add({File(places[n]), File(places[n + 1])}, {});
  const std::vector<uint32_t> order = Order();
  std::vector<uint32_t> at(count);
  for (uint32_t i = 0; i < count; ++i) at[order[i]] = i;
  for (uint32_t n = 0; n + 1 < count; ++n) {
    const uint32_t a = at[places[n]], b = at[places[n + 1]];
    EXPECT_LE(std::max(a, b) - std::min(a, b), 3u) << "between " << n << " and " << n + 1;
  }
}

}  // namespace
}  // namespace harrow::place
