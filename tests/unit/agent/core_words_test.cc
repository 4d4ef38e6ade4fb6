// What the core is told that is of nobody, and what several attempts have in common.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/core/core.h"
#include "support/told_core.h"

namespace harrow::agent {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

using AgentCoreWordsTest = NodeTest;

TEST_F(AgentCoreWordsTest, WhatIsSaidOfSlotsThatHaveNothingIsIgnored) {
  Make(2);
  Send(1);
  Send(2);
  Said();
  Tell(Settled{0});
  EXPECT_EQ(core_->free_slots(), 1u);
  for (const uint32_t slot : {0u, 2u, 99u}) {
    Tell(ProcessStarted{slot, now_});
    Tell(MemorySeen{slot, 1'000'000});
    Tell(CheckpointRefused{slot});
    Tell(ProcessEnded{slot});
    Tell(Settled{slot});
    EXPECT_THAT(core_->SlotsWith(slot), IsEmpty());
  }
  for (const int step : {0, 1}) {
    for (const uint32_t slot : {0, 1}) core_->PrefetchSettled(slot, step);
  }
  Tell(DiskLimitReached{A(9)});
  Tell(CheckpointAsked{A(9)});
  Tell(InputArrived{A(9)});
  Tell(TakenBack{A(9)});
  EXPECT_THAT(Said(), IsEmpty());
  EXPECT_EQ(core_->free_slots(), 1u);
  EXPECT_EQ(TaskOf(1), 2u);
}

TEST_F(AgentCoreWordsTest, WhoWaitsHoldsNothingOnTheDisk) {
  Make(1);
  Send(1);
  Send(2);
  Said();
  Tell(DiskLimitReached{A(2)});
  EXPECT_THAT(Said(), IsEmpty());
  Tell(DiskLimitReached{A(1)});
  EXPECT_THAT(Said(), ElementsAre("kill 0 signaled"));
  Tell(Settled{0});
  EXPECT_THAT(Said(), ElementsAre("spawn 0"));
  EXPECT_EQ(StateOf(2), Core::State::kStarting);
}

TEST_F(AgentCoreWordsTest, WhoIsSaidToHaveStartedTwiceHasTheLimitOfTheFirstTime) {
  Make(2);
  Send(1, {.processes = 2, .time_limit = seconds(10)});
  for (const uint32_t slot : {0, 1}) Tell(ProcessStarted{slot, now_});
  Said();
  After(seconds(5));
  for (const uint32_t slot : {0, 1}) Tell(ProcessStarted{slot, now_});
  After(seconds(5));
  EXPECT_THAT(Said(), ElementsAre("term 0 timed out", "term 1 timed out"));
}

TEST_F(AgentCoreWordsTest, StandingCountsOnceForAnAttemptOfSeveralProcesses) {
  Make(3);
  Send(1, {.processes = 3, .time_limit = seconds(10)});
  for (const uint32_t slot : {0, 1, 2}) Tell(ProcessStarted{slot, now_});
  After(seconds(5));
  Tell(RunUntil{now_, Duration(0)});
  After(seconds(100));
  Tell(RunUntil{Time::max(), seconds(100)});
  Said();
  After(seconds(4));
  EXPECT_THAT(Said(), IsEmpty());
  After(seconds(1));
  EXPECT_THAT(Said(), ElementsAre("term 0 timed out", "term 1 timed out", "term 2 timed out"));
}

TEST_F(AgentCoreWordsTest, ThatOneIsDueDoesNotMakeAnotherForgotten) {
  Make(2);
  Send(1);
  Send(2, {.time_limit = seconds(3)});
  for (const uint32_t slot : {0, 1}) Tell(ProcessStarted{slot, now_});
  Tell(Cancelled{A(1)});
  Said();
  After(seconds(3));
  EXPECT_THAT(Said(), ElementsAre("term 1 timed out"));
  EXPECT_EQ(*alarm_, now_ + seconds(2));
  After(seconds(2));
  EXPECT_THAT(Said(), ElementsAre("kill 0 cancelled"));
}

TEST_F(AgentCoreWordsTest, OfOneWhoseProcessesHaveEndedNothingIsDue) {
  Make(1);
  Send(1);
  Tell(ProcessStarted{0, now_});
  Tell(Cancelled{A(1)});
  Said();
  Tell(ProcessEnded{0});
  After(seconds(10));
  EXPECT_THAT(Said(), IsEmpty());
  alarm_.reset();
  for (int i = 0; i < 10; ++i) After(seconds(10));
  EXPECT_FALSE(alarm_);
  EXPECT_THAT(Said(), IsEmpty());
}

TEST_F(AgentCoreWordsTest, AFreeSlotIsNotLookedAt) {
  Make(2);
  Send(1);
  Send(2, {.memory = 1'000'000});
  Tell(ProcessStarted{1, now_});
  Tell(Settled{0});
  ASSERT_TRUE(core_->NextLook(now_));
  EXPECT_EQ(core_->NextLook(now_)->slot, 1u);
}

}  // namespace
}  // namespace harrow::agent
