#include "agent/pmix/rank_log.h"

#include <gtest/gtest.h>

namespace harrow::agent::pmix {
namespace {

class RankLogTest : public testing::Test {
 protected:
  RankLogTest() { log_.Add(1, "space", 3); }
  RankLog::Seen Look(uint32_t rank) { return log_.Look(1, rank).value(); }
  RankLog log_;
};

TEST_F(RankLogTest, ARankComesAndGoes) {
  EXPECT_FALSE(Look(1).connected);
  log_.Connected("space", 1);
  EXPECT_TRUE(Look(1).connected);
  EXPECT_FALSE(Look(1).finalized);
  EXPECT_FALSE(Look(0).connected);
  log_.Finalized("space", 1);
  log_.Lost("space", 1);
  EXPECT_TRUE(Look(1).finalized);
  EXPECT_EQ(Look(1).turn, 0u) << "it had said farewell";
}

TEST_F(RankLogTest, FailuresAreNumberedAsTheyCome) {
  for (uint32_t rank = 0; rank < 3; ++rank) log_.Connected("space", rank);
  log_.Aborted("space", 2, 7);
  log_.Aborted("space", 2, 8);
  log_.Lost("space", 0);
  log_.Lost("space", 2);
  EXPECT_TRUE(Look(2).aborted);
  EXPECT_EQ(Look(2).abort_code, 7);
  EXPECT_EQ(Look(2).turn, 1u);
  EXPECT_EQ(Look(0).turn, 2u);
  EXPECT_EQ(Look(1).turn, 0u);
  EXPECT_FALSE(Look(0).aborted);
}

TEST_F(RankLogTest, ARankThatBeginsAgainHasToSayFarewellAgain) {
  log_.Connected("space", 0);
  log_.Finalized("space", 0);
  log_.Connected("space", 0);
  EXPECT_FALSE(Look(0).finalized);
}

TEST_F(RankLogTest, ARankSpeaksFromItsBeginToItsEnd) {
  EXPECT_FALSE(log_.AnySpeaks(1));
  log_.Connected("space", 0);
  EXPECT_TRUE(log_.AnySpeaks(1));
  log_.Finalized("space", 0);
  EXPECT_FALSE(log_.AnySpeaks(1));
  log_.Connected("space", 2);
  EXPECT_TRUE(log_.AnySpeaks(1));
  log_.Lost("space", 2);
  EXPECT_FALSE(log_.AnySpeaks(1));
  EXPECT_FALSE(log_.AnySpeaks(2));
}

TEST_F(RankLogTest, WhoIsNotHereIsIgnored) {
  log_.Connected("space", 3);
  log_.Lost("another", 0);
  EXPECT_FALSE(log_.Look(1, 3));
  EXPECT_FALSE(log_.Look(2, 0));
  EXPECT_EQ(log_.SpaceOf(1), "space");
  EXPECT_EQ(log_.SpaceOf(2), "");
  log_.Drop(1);
  log_.Drop(1);
  log_.Finalized("space", 0);
  EXPECT_FALSE(log_.Look(1, 0));
  EXPECT_EQ(log_.SpaceOf(1), "");
}

}  // namespace
}  // namespace harrow::agent::pmix
