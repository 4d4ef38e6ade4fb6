#include "migrate/alike.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace harrow::migrate {
namespace {

class AlikeImagesTest : public testing::Test {
 protected:
  using Turn = AlikeImages::Turn;

  static Sample From(uint64_t first, uint64_t count) {
    Sample sample(count);
    std::iota(sample.begin(), sample.end(), first);
    return sample;
  }
  /// Without waiting; who would have waited for another image is one more in waited_.
  Turn Take(const Sample& sample) {
    bool waited = false;
    Turn turn = images_.Take(sample, [&] { return waited = true; });
    waited_ += waited;
    return turn;
  }
  void Keep(const Sample& sample, const std::string& directory) { Take(sample).Done(directory); }

  using Directories = std::vector<std::string>;
  AlikeImages images_;
  int waited_ = 0;
};

TEST_F(AlikeImagesTest, TheFirstHasNoneBeforeItAndTheNextHasIt) {
  EXPECT_EQ(Take(From(0, 100)).earlier(), Directories());
  Keep(From(0, 100), "a");
  EXPECT_EQ(Take(From(0, 100)).earlier(), Directories{"a"});
  EXPECT_EQ(Take(From(99, 100)).earlier(), Directories{"a"}) << "of one content, too";
  EXPECT_EQ(Take(From(100, 100)).earlier(), Directories());
  EXPECT_EQ(Take({}).earlier(), Directories());
  EXPECT_EQ(waited_, 0);
}

TEST_F(AlikeImagesTest, OneIsWaitedForThatHasAQuarterOfIt) {
  const Turn turn = Take(From(0, 100));
  EXPECT_EQ(Take(From(76, 100)).earlier(), Directories());
  EXPECT_EQ(waited_, 0) << "24 of 100";
  Take(From(75, 100));
  EXPECT_EQ(waited_, 1) << "25 of 100";
  Take(From(90, 10));
  EXPECT_EQ(waited_, 2) << "all of a small one";
  Take({});
  EXPECT_EQ(waited_, 2);
}

TEST_F(AlikeImagesTest, WhatIsThereIsNotWaitedFor) {
  Keep(From(0, 90), "base");
  const Turn turn = Take(From(0, 100));
  Take(From(0, 100));
  EXPECT_EQ(waited_, 0);
  const Turn other = Take(From(0, 100 + 80));
  EXPECT_EQ(waited_, 0);
  Take(From(50, 130));
  EXPECT_EQ(waited_, 1) << "of which the base has 40, and one that is being kept all";
}

TEST_F(AlikeImagesTest, WhoEndsWithoutBeingWholeIsNobodysBase) {
  { const Turn turn = Take(From(0, 100)); }
  EXPECT_EQ(Take(From(0, 100)).earlier(), Directories());
  {
    Turn turn = Take(From(0, 100));
    const Turn moved = std::move(turn);
    Take(From(0, 100));
    EXPECT_EQ(waited_, 1);
  }
  Take(From(0, 100));
  EXPECT_EQ(waited_, 1);
}

TEST_F(AlikeImagesTest, TheClosestComeFirstAndOfEqualsTheNewest) {
  Keep(From(0, 50), "half");
  Keep(From(0, 100), "old");
  Keep(From(0, 100), "new");
  EXPECT_EQ(Take(From(0, 100)).earlier(), (Directories{"new", "old"}));
  EXPECT_EQ(Take(From(0, 50)).earlier(), (Directories{"new", "old"}));
  Keep(From(200, 10), "other");
  EXPECT_EQ(Take(From(89, 120)).earlier(), (Directories{"new", "old"})) << "9 of the newest, and 11";
  EXPECT_EQ(Take(From(90, 120)).earlier(), (Directories{"other", "new"})) << "each 10";
}

TEST_F(AlikeImagesTest, SoManyAreRemembered) {
  Keep(From(0, 100), "first");
  for (size_t i = 1; i < AlikeImages::kKept; ++i) Keep(From(1000 * i, 1), "another");
  EXPECT_EQ(Take(From(0, 100)).earlier(), Directories{"first"});
  Keep(From(7, 1), "last");
  EXPECT_EQ(Take(From(0, 100)).earlier(), Directories{"last"});
}

/// Of eight that come at once one is written without any other, and those after it have one.
TEST_F(AlikeImagesTest, ThoseThatComeAtOnceTakeTurns) {
  std::vector<size_t> earlier(8);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < earlier.size(); ++i) {
    threads.emplace_back([&, i] {
      Turn turn = images_.Take(From(0, 100), {});
      earlier[i] = turn.earlier().size();
      turn.Done(std::to_string(i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::count(earlier.begin(), earlier.end(), 0u), 1);
}

}  // namespace
}  // namespace harrow::migrate
