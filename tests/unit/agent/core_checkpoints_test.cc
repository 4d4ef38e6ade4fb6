#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/told_core.h"

namespace harrow::agent {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

using AgentCoreCheckpointsTest = NodeTest;

Needs Asked(Needs::Asked how = Needs::Asked::kByQuestion, Duration every = Duration(0)) {
  return {.checkpoint = how, .checkpoint_every = every, .checkpoint_time = seconds(10)};
}

TEST_F(AgentCoreCheckpointsTest, WhoIsAskedForACheckpointIsNotAskedAgainBeforeItCouldAnswer) {
  Make(1);
  Send(1, Asked());
  Tell(ProcessStarted{0, now_});
  Said();
  Tell(CheckpointAsked{A(1)});
  EXPECT_THAT(Said(), ElementsAre("ask 0"));
  Tell(CheckpointAsked{A(1)});
  After(seconds(9));
  EXPECT_THAT(Said(), IsEmpty());
  After(seconds(1));
  EXPECT_THAT(Said(), ElementsAre("late 1"));
  After(seconds(100));
  EXPECT_THAT(Said(), IsEmpty()) << "it goes on";
  Tell(CheckpointAsked{A(1)});
  EXPECT_THAT(Said(), ElementsAre("ask 0"));
  Tell(Settled{0});
  EXPECT_TRUE(core_->idle());
  EXPECT_THAT(Said(), IsEmpty());
}

TEST_F(AgentCoreCheckpointsTest, ItIsAskedNowAndThen) {
  Make(1);
  Send(1, Asked(Needs::Asked::kByQuestion, seconds(60)));
  Tell(ProcessStarted{0, now_});
  Said();
  After(seconds(59));
  EXPECT_THAT(Said(), IsEmpty());
  EXPECT_EQ(*alarm_, now_ + seconds(1));
  After(seconds(1));
  EXPECT_THAT(Said(), ElementsAre("ask 0"));
  After(seconds(10));
  EXPECT_THAT(Said(), ElementsAre("late 1"));
  After(seconds(59));
  EXPECT_THAT(Said(), IsEmpty());
  After(seconds(1));
  EXPECT_THAT(Said(), ElementsAre("ask 0"));
}

TEST_F(AgentCoreCheckpointsTest, StandingCountsNeitherAgainstTheQuestionNorItsAnswer) {
  Make(1);
  Send(1, Asked(Needs::Asked::kByQuestion, seconds(60)));
  Tell(ProcessStarted{0, now_});
  After(seconds(30));
  Tell(RunUntil{now_, Duration(0)});
  After(seconds(100));
  Said();
  Tell(RunUntil{Time::max(), seconds(100)});
  EXPECT_THAT(Said(), IsEmpty());
  After(seconds(30));
  EXPECT_THAT(Said(), ElementsAre("ask 0"));
  Tell(RunUntil{now_, seconds(100)});
  After(seconds(50));
  EXPECT_THAT(Said(), IsEmpty());
  Tell(RunUntil{Time::max(), seconds(150)});
  After(seconds(9));
  EXPECT_THAT(Said(), IsEmpty());
  After(seconds(1));
  EXPECT_THAT(Said(), ElementsAre("late 1"));
}

TEST_F(AgentCoreCheckpointsTest, WhatTheNodeStoodBeforeItBeganDelaysNoQuestion) {
  Make(1);
  Tell(RunUntil{now_, Duration(0)});
  After(seconds(100));
  Tell(RunUntil{Time::max(), seconds(100)});
  Send(1, Asked(Needs::Asked::kByQuestion, seconds(60)));
  Tell(ProcessStarted{0, now_, seconds(100)});
  Said();
  After(seconds(59));
  EXPECT_THAT(Said(), IsEmpty());
  After(seconds(1));
  EXPECT_THAT(Said(), ElementsAre("ask 0"));
}

TEST_F(AgentCoreCheckpointsTest, WhoWritesByItselfIsEnded) {
  Make(1);
  Send(1, Asked(Needs::Asked::kByEnd));
  Tell(ProcessStarted{0, now_});
  Said();
  Tell(CheckpointAsked{A(1)});
  EXPECT_THAT(Said(), ElementsAre("term 0 checkpointed"));
  Tell(CheckpointAsked{A(1)});
  EXPECT_THAT(Said(), IsEmpty());
  After(seconds(5));
  EXPECT_THAT(Said(), ElementsAre("kill 0 checkpointed"));
  EXPECT_EQ(JudgeEnd(End::kCheckpointed, true, 15), End::kCheckpointed);
  EXPECT_EQ(JudgeEnd(End::kCheckpointed, false, 0), End::kExited) << "it has finished";
}

TEST_F(AgentCoreCheckpointsTest, WhoWaitsIsBeingEndedOrWritesNoneIsNotAsked) {
  Make(1);
  Send(1);
  Send(2, Asked());
  Said();
  Tell(CheckpointAsked{A(1)});
  Tell(CheckpointAsked{A(2)});
  Tell(CheckpointAsked{A(3)});
  EXPECT_THAT(Said(), IsEmpty());
  Tell(Settled{0});
  EXPECT_THAT(Said(), ElementsAre("spawn 0"));
  Tell(Cancelled{A(2)});
  EXPECT_THAT(Said(), ElementsAre("term 0 cancelled"));
  Tell(CheckpointAsked{A(2)});
  EXPECT_THAT(Said(), IsEmpty());
}

TEST_F(AgentCoreCheckpointsTest, OfSeveralProcessesTheFirstIsToldOrAllAre) {
  for (const bool all : {false, true}) {
    Make(3);
    Needs needs = Asked();
    needs.processes = 3;
    needs.ask_all = all;
    Send(1, needs);
    for (const uint32_t slot : {0u, 1u, 2u}) Tell(ProcessStarted{slot, now_});
    Said();
    Tell(CheckpointAsked{A(1)});
    EXPECT_THAT(Said(), all ? ElementsAre("ask 0", "ask 1", "ask 2") : ElementsAre("know 1", "know 2", "ask 0"));
    Tell(Settled{1});
    Said();
    After(seconds(10));
    EXPECT_THAT(Said(), ElementsAre("late 1", "term 0 lost", "term 2 lost")) << "the others wait for one that has ended";
  }
}

TEST_F(AgentCoreCheckpointsTest, AnotherNodeHasTheFirstProcess) {
  Make(2);
  Needs needs = Asked();
  needs.processes = 2;
  needs.ask_none = true;
  Send(1, needs);
  Said();
  Tell(CheckpointAsked{A(1)});
  EXPECT_THAT(Said(), ElementsAre("know 0", "know 1"));
}

TEST_F(AgentCoreCheckpointsTest, WhoSaysThatItWillLeaveNoneIsTakenAtItsWord) {
  Make(2);
  Needs needs = Asked(Needs::Asked::kByQuestion, seconds(60));
  needs.processes = 2;
  Send(1, needs);
  for (const uint32_t slot : {0, 1}) Tell(ProcessStarted{slot, now_});
  Said();
  for (const uint32_t slot : {0, 5}) Tell(CheckpointRefused{slot});
  EXPECT_THAT(Said(), IsEmpty()) << "nobody has asked";
  Tell(CheckpointAsked{A(1)});
  Said();
  Tell(CheckpointRefused{1});
  EXPECT_THAT(Said(), ElementsAre("late 1"));
  Tell(CheckpointRefused{0});
  EXPECT_THAT(Said(), IsEmpty()) << "once";
  After(seconds(59));
  EXPECT_THAT(Said(), IsEmpty());
  After(seconds(1));
  EXPECT_THAT(Said(), testing::Contains("ask 0")) << "it is asked again";
  Tell(ProcessEnded{1});
  Tell(CheckpointRefused{1});
  EXPECT_THAT(Said(), IsEmpty()) << "it has ended, which may be the answer";
  Tell(Settled{1});
  Tell(CheckpointRefused{1});
  EXPECT_THAT(Said(), IsEmpty());
}

}  // namespace
}  // namespace harrow::agent
