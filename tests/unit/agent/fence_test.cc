#include "agent/fence.h"

#include <csignal>
#include <gtest/gtest.h>
#include <unistd.h>

#include "agent/fence_page.h"

namespace harrow::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Time At(Duration since_start) {
  return Time(since_start);
}

TEST(Fence, TasksStandFiveSecondsBeforeTheServersTimeIsOverOrAtHalfOfAShortOne) {
  EXPECT_EQ(Fence::LimitOf(seconds(30)), seconds(25));
  EXPECT_EQ(Fence::LimitOf(seconds(10)), seconds(5));
  EXPECT_EQ(Fence::LimitOf(seconds(8)), seconds(4));
  EXPECT_EQ(Fence::LimitOf(milliseconds(1)), std::chrono::microseconds(500));
  EXPECT_EQ(Fence::LimitOf(seconds(0)), seconds(0));
}

TEST(Fence, WithoutOneTasksAlwaysRun) {
  Fence fence;
  EXPECT_EQ(fence.At(At(seconds(1'000'000))), Fence::State::kRunning);
  fence.Set(seconds(30));
  EXPECT_EQ(fence.At(At(seconds(100))), Fence::State::kStopped);
  fence.Set(seconds(0));
  EXPECT_EQ(fence.At(At(seconds(100))), Fence::State::kRunning);
  EXPECT_FALSE(fence.until().has_value());
}

TEST(Fence, WhatCountsIsWhenItWasSaidNotWhenItWasAnswered) {
  Fence fence;
  fence.Set(seconds(30));
  fence.Answered(At(seconds(1)), At(seconds(20)));
  EXPECT_EQ(fence.until(), At(seconds(26)));
  EXPECT_EQ(fence.At(At(seconds(26)) - Duration(1)), Fence::State::kRunning);
  EXPECT_EQ(fence.At(At(seconds(26))), Fence::State::kStopped);
}

TEST(Fence, OnlyAnAnswerToSomethingRecentEndsAStand) {
  Fence fence;
  fence.Set(seconds(30));
  fence.Answered(At(seconds(1)), At(seconds(1)));
  fence.Answered(At(seconds(14)), At(seconds(40)));  // on its way for long
  EXPECT_EQ(fence.At(At(seconds(40))), Fence::State::kStopped);
  fence.Answered(At(seconds(16)), At(seconds(40)));
  EXPECT_EQ(fence.At(At(seconds(40))), Fence::State::kRunning);
  fence.Answered(At(seconds(2)), At(seconds(40)));
  EXPECT_EQ(fence.until(), At(seconds(41))) << "an older answer takes nothing back";
}

TEST(Fence, AnAnswerToWhatWasNotSaidYetIsNone) {
  Fence fence;
  fence.Set(seconds(30));
  fence.Answered(At(seconds(1000)), At(seconds(3)));
  EXPECT_EQ(fence.until(), At(seconds(25)));
}

TEST(FencePage, TheTimeMovesAndTellsHowLongTasksStood) {
  FencePage page;
  EXPECT_TRUE(page.MayRun(seconds(1'000'000)));
  EXPECT_TRUE(page.Renew(seconds(15), seconds(1))) << "who runs did not know of a time";
  EXPECT_TRUE(page.Renew(seconds(10), seconds(1))) << "it is less";
  EXPECT_FALSE(page.Renew(seconds(20), seconds(9)));
  EXPECT_TRUE(page.MayRun(seconds(19)));
  EXPECT_FALSE(page.MayRun(seconds(20)));
  EXPECT_EQ(page.stood(), seconds(0));
  EXPECT_TRUE(page.Renew(seconds(60), seconds(35)));
  EXPECT_EQ(page.stood(), seconds(15));
  EXPECT_TRUE(page.Renew(FencePage::kNoFence, seconds(61)));
  EXPECT_EQ(page.stood(), seconds(16)) << "all times together";
  EXPECT_TRUE(page.MayRun(seconds(1'000'000)));
}

TEST(FencePage, ATimeThatHasPassedEndsNoStand) {
  FencePage page;
  page.Renew(seconds(10), seconds(1));
  EXPECT_FALSE(page.Renew(seconds(15), seconds(15)));
  EXPECT_EQ(page.until(), seconds(10));
  EXPECT_TRUE(page.Renew(seconds(17), seconds(16)));
  EXPECT_EQ(page.stood(), seconds(6)) << "from the beginning of the stand";
}

TEST(FencePage, ANewAgentBeginsWithoutAFence) {
  FencePage page;
  page.Renew(seconds(10), seconds(1));
  page.Renew(seconds(20), seconds(11));
  page.SetOutputFile(3);
  EXPECT_EQ(page.output_file(), 3u);
  page.Reset(0);
  EXPECT_EQ(page.until(), FencePage::kNoFence);
  EXPECT_EQ(page.until_ns()->load(), 0);
  EXPECT_EQ(page.stood(), seconds(0));
  EXPECT_EQ(page.output_file(), 0u);
}

volatile sig_atomic_t warden_looks = 0;  // how often a warden was told to look

/// A later time alone is found when the one before has come.
TEST(FencePage, TheWardenIsToldToLookWhereItWouldLookTooLate) {
  const auto before = signal(FencePage::kLookAgain, [](int) { warden_looks = warden_looks + 1; });
  FencePage* const page = FencePage::MakeShared();
  ASSERT_NE(page, nullptr);
  page->Reset(getpid());
  const auto told = [&](Duration until, Duration now) {
    warden_looks = 0;
    page->Renew(until, now);
    return warden_looks == 1;
  };
  EXPECT_TRUE(told(seconds(10), seconds(1))) << "there was none";
  EXPECT_FALSE(told(seconds(20), seconds(2)));
  EXPECT_FALSE(told(seconds(20), seconds(3)));
  EXPECT_TRUE(told(seconds(15), seconds(4))) << "it is sooner";
  EXPECT_FALSE(told(seconds(15), seconds(16))) << "it has passed";
  EXPECT_TRUE(told(seconds(30), seconds(15))) << "they stood from then on";
  EXPECT_EQ(page->stood(), seconds(0));
  page->Reset(0);
  EXPECT_FALSE(told(seconds(10), seconds(1))) << "nobody is to be told";
  (void)signal(FencePage::kLookAgain, before);
}

}  // namespace
}  // namespace harrow::agent
