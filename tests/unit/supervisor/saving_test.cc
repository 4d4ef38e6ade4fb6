// Beyond the paper: tasks move where that saves time, and those that read what would have to be copied only where it saves more.

#include <gtest/gtest.h>
#include <map>
#include <string>
#include <vector>

#include "unit/supervisor/watched.h"

namespace harrow::supervisor {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// What is asked for when both, which were introduced before, have reported.
std::vector<MoveRequest> AskedOf(Watched* w, const Report& one, const Report& other) {
  w->Tell(one);
  w->Tell(other);
  return w->Asked();
}

/// Two servers of 10 workers, tasks of 100 ms: 100 tasks a second.
std::vector<MoveRequest> AskedFor(const Options& options, milliseconds delay, uint64_t giver, uint64_t taker) {
  Watched w(options);
  Introduce(&w, 2);
  for (uint32_t part = 0; part < 2; ++part) {
    Report report = w.Of(part, part == 0 ? giver : taker, 10, 10);
    report.queues[0].mean = milliseconds(100);
    report.delay = delay;
    w.Tell(report);
  }
  return w.Asked();
}

TEST(SupervisorTest, WhatBeginsBeforeTheMoveIsOverStays) {
  EXPECT_EQ(TextOf(AskedFor({}, milliseconds(0), 40, 0)), "0>1:20 ");
  // The request takes 50 ms, the offer 100: 15 begin before, and 25 later.
  EXPECT_EQ(TextOf(AskedFor({}, milliseconds(50), 40, 0)), "0>1:20 ");
  EXPECT_EQ(TextOf(AskedFor({}, milliseconds(50), 25, 0)), "0>1:10 ");
  EXPECT_EQ(TextOf(AskedFor({}, milliseconds(50), 15, 0)), "");
  EXPECT_EQ(TextOf(AskedFor({.worth_only = false}, milliseconds(50), 15, 0)), "0>1:7 ");
  // When the request comes, 10 would still begin before the others could.
  EXPECT_EQ(AskedFor({}, milliseconds(50), 40, 0)[0].keep, 10u);
  EXPECT_EQ(AskedFor({.worth_only = false}, milliseconds(50), 40, 0)[0].keep, 0u);
}

TEST(SupervisorTest, TheGiverIsToldWhatTheMoveSaves) {
  // The last would begin there after 400 ms, and begins 150 ms from now where they go; each that goes lets the last one begin 10 ms sooner.
  const std::vector<MoveRequest> asked = AskedFor({}, milliseconds(50), 40, 0);
  ASSERT_TRUE(asked.at(0).saving.has_value());
  EXPECT_EQ(asked[0].saving->last, milliseconds(250));
  EXPECT_EQ(asked[0].saving->each, milliseconds(10));
  EXPECT_EQ(asked[0].saving->late, 0u);
  EXPECT_FALSE(AskedFor({.worth_only = false}, milliseconds(50), 40, 0).at(0).saving.has_value());
}

TEST(SupervisorTest, WhatIsReadyAtTheTakerBeginsBefore) {
  Watched w;
  Introduce(&w, 2);
  Report giver = w.Of(0, 40, 10, 10), taker = w.Of(1, 5, 10, 10);
  giver.queues[0].mean = taker.queues[0].mean = seconds(20);
  // One in two seconds: the last after 80 at the giver, and after 10 at the taker.
  const std::vector<MoveRequest> asked = AskedOf(&w, giver, taker);
  ASSERT_TRUE(asked.at(0).saving.has_value());
  EXPECT_EQ(asked[0].saving->last, seconds(70));
  EXPECT_EQ(asked[0].saving->each, seconds(2));
}

TEST(SupervisorTest, TheGiverIsToldHowManyItCannotBegin) {
  Watched w;
  Introduce(&w, 2);
  Report ends = w.Of(0, 400, 10, 10), stays = w.Of(1, 0, 10, 10);
  stays.queues[0].mean = ends.queues[0].mean = milliseconds(100);
  ends.ends_in = milliseconds(600);
  const std::vector<MoveRequest> asked = AskedOf(&w, ends, stays);
  ASSERT_EQ(TextOf(asked), "0>1:350 ");
  ASSERT_TRUE(asked[0].saving.has_value());
  EXPECT_EQ(asked[0].saving->late, 350u);
  ends.draining = true;
  Watched drained;
  Introduce(&drained, 2);
  for (const MoveRequest& each : AskedOf(&drained, ends, stays)) EXPECT_FALSE(each.saving.has_value()) << "all are to go";
}

/// It has told that what it has is not worth what would have to be copied.
TEST(SupervisorTest, OthersAreAskedWhereOneGivesNone) {
  for (const bool dear : {false, true}) {
    Watched w;
    Introduce(&w, 3);
    std::map<std::string, int> asked;
    for (int round = 0; round < 5; ++round) {
      for (uint32_t part = 0; part < 3; ++part) {
        Report report = w.Of(part, part == 0 ? 1000 : part == 1 ? 100 : 0, 10, 10);
        report.queues[0].mean = seconds(10);
        // 1000 tasks at one a second.
        if (dear && part == 0) report.queues[0].dear = seconds(1001);
        w.Tell(report);
      }
      for (const MoveRequest& each : w.Asked()) ++asked[std::to_string(each.from.value) + ">" + std::to_string(each.to.value)];
      w.After(seconds(20));
    }
    EXPECT_EQ(asked["0>2"] > 0, !dear);
    EXPECT_EQ(asked["1>2"] > 0, dear);
    EXPECT_EQ(asked.count("1>0"), 0u);
  }
}

TEST(SupervisorTest, WhoHasNothingGetsSomethingWhateverItHadWasWorth) {
  Watched w;
  Introduce(&w, 2);
  Report giver = w.Of(0, 100, 10, 10), taker = w.Of(1, 0, 10, 10);
  giver.queues[0].mean = seconds(10);
  taker.queues[0].dear = seconds(100);
  EXPECT_EQ(AskedOf(&w, giver, taker).size(), 1u);
}

TEST(SupervisorTest, WhatOthersHaveMeasuredCountsMoreThanHowLongOneHasRun) {
  for (const bool measured : {false, true}) {
    Watched w;
    Introduce(&w, 2);
    Report giver = w.Of(0, 100, 10, 10), taker = w.Of(1, 0, 10, 10);
    giver.queues[0].mean_at_least = seconds(1);
    if (measured) taker.queues[0].mean = seconds(1000);
    const std::vector<MoveRequest> asked = AskedOf(&w, giver, taker);
    ASSERT_TRUE(asked.at(0).saving.has_value());
    EXPECT_EQ(asked[0].saving->last, measured ? seconds(10000) : seconds(10));
  }
}

TEST(SupervisorTest, OfWhatNobodyKnowsThoseGoForWhichNothingIsCopied) {
  for (const bool draining : {false, true}) {
    Watched w;
    Introduce(&w, 2);
    Report giver = w.Of(0, 100, 10, 10);
    giver.draining = draining;
    const std::vector<MoveRequest> asked = AskedOf(&w, giver, w.Of(1, 0, 10, 10));
    ASSERT_FALSE(asked.empty());
    EXPECT_EQ(asked[0].saving.has_value(), !draining);
    if (!draining) { EXPECT_EQ(asked[0].saving->last, seconds(0)); }
  }
}

TEST(SupervisorTest, WhereMoreIsSavedItIsAskedAgain) {
  for (const seconds dear : {seconds(999), seconds(1001)}) {
    for (const bool draining : {false, true}) {
      Watched w;
      Introduce(&w, 2);
      Report giver = w.Of(0, 1000, 10, 10), taker = w.Of(1, 0, 10, 10);
      giver.queues[0].mean = taker.queues[0].mean = seconds(10);
      giver.queues[0].dear = dear;
      giver.draining = draining;
      EXPECT_EQ(AskedOf(&w, giver, taker).size(), draining || dear == seconds(999) ? 1u : 0u) << dear.count() << " " << draining;
    }
  }
}

TEST(SupervisorTest, NotWhereItBeginsNoSooner) {
  // Speeds are told wrongly: by rates the giver is as soon through with its queue as the taker.
  Watched w({.amount = Amount::kWorkers});
  Introduce(&w, 2);
  Report fast = w.Of(0, 40, 10, 10), slow = w.Of(1, 20, 10, 10);
  fast.queues[0].mean = milliseconds(100);
  slow.queues[0].mean = milliseconds(200);
  w.Tell(fast);
  w.Tell(slow);
  EXPECT_EQ(TextOf(w.Asked()), "");
}

TEST(SupervisorTest, AnAllocationThatEndsSoonGetsWhatItCanBegin) {
  Watched w;
  Introduce(&w, 2);
  Report stays = w.Of(0, 400, 10, 10), ends = w.Of(1, 0, 10, 10);
  stays.queues[0].mean = ends.queues[0].mean = milliseconds(100);
  ends.ends_in = milliseconds(600);
  w.Tell(stays);
  w.Tell(ends);
  EXPECT_EQ(TextOf(w.Asked()), "0>1:50 ") << "in half a second, as the last must end";
}

}  // namespace
}  // namespace harrow::supervisor
