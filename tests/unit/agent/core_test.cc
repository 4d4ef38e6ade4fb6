#include "agent/core/core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/told_core.h"

namespace harrow::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint64_t kMega = 1'000'000;

using AgentCoreTest = NodeTest;

// --- the order of sending

TEST_F(AgentCoreTest, TasksBeginInTheOrderOfSending) {
  Make(2);
  for (uint32_t task : {10u, 11u, 12u}) Send(task);
  EXPECT_THAT(Said(), ElementsAre("spawn 0", "spawn 1"));
  EXPECT_EQ(TaskOf(0), 10u);
  EXPECT_EQ(TaskOf(1), 11u);
  EXPECT_EQ(core_->given(1)->tag, 111u);
  Tell(Settled{1});
  EXPECT_THAT(Said(), ElementsAre("spawn 1")) << "the slot that is awake takes the next";
  EXPECT_EQ(TaskOf(1), 12u);
  EXPECT_EQ(core_->free_slots(), 0u);
  Tell(Settled{0});
  Tell(Settled{1});
  EXPECT_TRUE(core_->idle());
  EXPECT_EQ(core_->given(0), nullptr);
}

TEST_F(AgentCoreTest, WhatASlotIsGivenStaysWhereItIs) {
  Make(200);
  Send(0);
  const Core::Given* first = core_->given(0);
  for (uint32_t task = 1; task < 200; ++task) Send(task);
  EXPECT_EQ(core_->given(0), first) << "its thread reads it while others are given theirs";
  EXPECT_EQ(first->tag, 100u);
}

TEST_F(AgentCoreTest, OneThatDoesNotFitHoldsUpThoseBehindIt) {
  Make(4);
  Send(1, {.cores = 3});
  Send(2, {.cores = 2});
  Send(3);
  EXPECT_THAT(Said(), ElementsAre("spawn 0"));
  EXPECT_THAT(core_->given(0)->slots, ElementsAre(0, 1, 2));
  EXPECT_EQ(StateOf(2), Core::State::kQueued);
  Tell(Settled{0});
  EXPECT_THAT(Said(), ElementsAre("spawn 0", "spawn 2"));
  EXPECT_EQ(TaskOf(0), 2u);
  EXPECT_EQ(TaskOf(2), 3u);
  Send(4, {.cores = 3});
  Tell(Settled{2});
  EXPECT_THAT(Said(), IsEmpty());
  Tell(Settled{0});
  EXPECT_THAT(Said(), ElementsAre("spawn 0"));
}

TEST_F(AgentCoreTest, AWholeNodeIsGivenToOneProcess) {
  Make(3);
  Send(1, {.whole_node = true});
  EXPECT_THAT(core_->given(0)->slots, ElementsAre(0, 1, 2));
  Send(2);
  Tell(Settled{0});
  EXPECT_THAT(Said(), ElementsAre("spawn 0", "spawn 0"));
}

TEST_F(AgentCoreTest, WhatNoNodeLikeThisCanGiveIsRefused) {
  Make(2, 1);
  Send(1, {.cores = 3});
  Send(2, {.devices = 2});
  Send(3, {.processes = 2, .cores = 2});
  Send(4, {.processes = 2, .devices = 1});
  Send(6, {.processes = 1u << 31, .cores = 2});
  Send(7, {.processes = 2, .whole_node = true});
  EXPECT_THAT(Said(), ElementsAre("report 1 not started cores", "report 2 not started devices",
                                  "report 3 not started cores", "report 4 not started devices",
                                  "report 6 not started cores", "report 7 not started cores"));
  EXPECT_TRUE(core_->idle());
  Send(5, {.cores = 2, .devices = 1});
  EXPECT_THAT(Said(), ElementsAre("spawn 0")) << "exactly what there is";
}

TEST_F(AgentCoreTest, DevicesAreGivenOnceAndComeBack) {
  Make(4, 3);
  Send(1, {.devices = 2});
  Send(2, {.devices = 2});
  EXPECT_THAT(core_->given(0)->devices, ElementsAre(0, 1));
  EXPECT_EQ(TaskOf(1), std::nullopt);
  Tell(Settled{0});
  EXPECT_THAT(core_->given(0)->devices, ElementsAre(0, 1));
  Send(3, {.devices = 1});
  EXPECT_THAT(core_->given(1)->devices, ElementsAre(2));
}

TEST_F(AgentCoreTest, MemoryIsSharedOut) {
  Make(4, 0, 1000 * kMega);
  Send(1, {.memory = 600 * kMega});
  Send(2, {.memory = 400 * kMega});
  Send(3, {.memory = 1});
  Send(4);
  EXPECT_THAT(Said(), ElementsAre("spawn 0", "spawn 1"));
  EXPECT_EQ(core_->free_memory(), 0u);
  Tell(Settled{1});
  EXPECT_THAT(Said(), ElementsAre("spawn 1", "spawn 2"));
  EXPECT_EQ(core_->free_memory(), 400 * kMega - 1);
}

TEST_F(AgentCoreTest, WhoAsksForMoreMemoryThanANodeHasIsAloneThere) {
  Make(2, 0, 1000 * kMega);
  Send(1, {.memory = 5000 * kMega});
  Send(2, {.memory = 1});
  EXPECT_THAT(Said(), ElementsAre("spawn 0"));
  Tell(Settled{0});
  EXPECT_EQ(TaskOf(0), 2u);
}

TEST_F(AgentCoreTest, WhereANodesMemoryIsNotKnownItIsNotSharedOut) {
  Make(2);
  Send(1, {.memory = UINT64_MAX / 2 + 1});
  Send(2, {.memory = UINT64_MAX / 2});
  EXPECT_THAT(Said(), ElementsAre("spawn 0", "spawn 1"));
}

// --- inputs on their way

TEST_F(AgentCoreTest, WhoWaitsForInputsHoldsUpNobody) {
  Make(1);
  Send(1, {.inputs = 2});
  Send(2);
  EXPECT_THAT(Said(), ElementsAre("spawn 0"));
  EXPECT_EQ(StateOf(1), Core::State::kStaging);
  Tell(InputArrived{A(1)});
  Tell(Settled{0});
  EXPECT_THAT(Said(), IsEmpty()) << "one input is still missing";
  Tell(InputArrived{A(1)});
  EXPECT_THAT(Said(), ElementsAre("spawn 0"));
  Tell(InputArrived{A(1)});
  Tell(InputArrived{A(7)});
  EXPECT_EQ(StateOf(1), Core::State::kStarting) << "words that come late change nothing";
}

TEST_F(AgentCoreTest, WhoseInputsCameKeepsItsPlace) {
  Make(1);
  Send(1);
  Send(2, {.inputs = 1});
  Send(3);
  Tell(InputArrived{A(2)});
  Tell(Settled{0});
  EXPECT_EQ(TaskOf(0), 2u);
  std::vector<uint32_t> here;
  for (const Core::Info& info : core_->All()) here.push_back(info.attempt.task.value);
  EXPECT_THAT(here, ElementsAre(2, 3));
}

// --- taking back

TEST_F(AgentCoreTest, OnlyWhatWasNotGivenIsTakenBack) {
  Make(1);
  Send(1);
  Send(2);
  Send(3, {.inputs = 1});
  Said();
  for (uint32_t task : {1u, 2u, 3u, 4u}) Tell(TakenBack{A(task)});
  EXPECT_THAT(Said(), ElementsAre("returned 2", "returned 3"));
  Tell(TakenBack{A(2)});
  EXPECT_THAT(Said(), IsEmpty());
  Tell(Settled{0});
  EXPECT_TRUE(core_->idle());
}

TEST_F(AgentCoreTest, TakingBackTheOneThatDidNotFitLetsOthersIn) {
  Make(2);
  Send(1);
  Send(2, {.cores = 2});
  Send(3);
  Tell(TakenBack{A(2)});
  EXPECT_THAT(Said(), ElementsAre("spawn 0", "returned 2", "spawn 1"));
  EXPECT_EQ(TaskOf(1), 3u);
}

TEST_F(AgentCoreTest, OfSeveralThatAreTakenBackNoneBeginsMeanwhile) {
  Make(2);
  Send(1);
  Send(2, {.cores = 2});
  Send(3);
  Send(4);
  Said();
  std::vector<Action> actions;
  core_->Handle(now_, TakenBack{A(2), true}, &actions);
  EXPECT_EQ(actions.size(), 1u);
  Tell(TakenBack{A(3), false});
  EXPECT_THAT(Said(), ElementsAre("returned 3", "spawn 1"));
  EXPECT_EQ(TaskOf(1), 4u);
}

TEST_F(AgentCoreTest, OfSeveralThatAreCancelledNoneBeginsMeanwhile) {
  Make(2);
  Send(1);
  Send(2, {.cores = 2});
  Send(3);
  Said();
  std::vector<Action> actions;
  core_->Handle(now_, Cancelled{A(2), End::kCancelled, true}, &actions);
  EXPECT_EQ(actions.size(), 1u);
  Tell(Cancelled{A(9), End::kCancelled, false});
  EXPECT_THAT(Said(), ElementsAre("spawn 1")) << "also when the last one is not here";
}

TEST_F(AgentCoreTest, AttemptsOfOneTaskAreToldApart) {
  Make(1);
  Send(1);
  Tell(Sent{A(7, 1), {}, 107});
  Tell(Sent{A(7, 2), {}, 107});
  Tell(TakenBack{A(7, 2)});
  Tell(TakenBack{A(7, 3)});
  Tell(Settled{0});
  EXPECT_EQ(core_->given(0)->attempt, A(7, 1));
}

// --- being ended

TEST_F(AgentCoreTest, ACancelEndsAnAttemptInEveryState) {
  Make(1);
  Send(1);
  Send(2);
  Send(3, {.inputs = 1});
  Said();
  Tell(Cancelled{A(2), End::kCancelled});
  Tell(Cancelled{A(3), End::kInterrupted});
  EXPECT_THAT(Said(), ElementsAre("report 2 cancelled", "report 3 interrupted"));
  EXPECT_EQ(StateOf(1), Core::State::kStarting);
  Tell(Cancelled{A(1), End::kCancelled});
  EXPECT_THAT(Said(), ElementsAre("term 0 cancelled"));
  Tell(Settled{0});
  Send(4);
  Tell(ProcessStarted{0, now_});
  EXPECT_EQ(StateOf(4), Core::State::kRunning);
  Said();
  Tell(Cancelled{A(4), End::kInterrupted});
  EXPECT_THAT(Said(), ElementsAre("term 0 interrupted"));
  Tell(ProcessEnded{0});
  EXPECT_EQ(StateOf(4), Core::State::kSettling);
  Tell(Settled{0});
  Send(5);
  Tell(ProcessEnded{0});
  Said();
  Tell(Cancelled{A(5)});
  EXPECT_THAT(Said(), ElementsAre("term 0 cancelled")) << "who waits for those that hold its pipes is told";
  alarm_.reset();
  After(seconds(60));
  EXPECT_THAT(Said(), IsEmpty()) << "there is no process any more";
  EXPECT_EQ(alarm_, std::nullopt);
  Tell(Settled{0});
  Tell(Cancelled{A(5)});
  EXPECT_THAT(Said(), IsEmpty());
  EXPECT_TRUE(core_->idle());
}

TEST_F(AgentCoreTest, WhoDoesNotEndIsKilledAgainAndAgain) {
  Make(2);
  Send(1, {.cores = 2});
  Tell(Cancelled{A(1)});
  EXPECT_EQ(alarm_, now_ + seconds(5));
  After(seconds(5) - Duration(1));
  EXPECT_THAT(Said(), ElementsAre("spawn 0", "term 0 cancelled"));
  After(Duration(1));
  EXPECT_THAT(Said(), ElementsAre("kill 0 cancelled"));
  EXPECT_EQ(alarm_, now_ + milliseconds(500));
  After(milliseconds(500));
  EXPECT_THAT(Said(), ElementsAre("kill 0 cancelled"));
  Tell(Settled{0});
  After(milliseconds(500));
  EXPECT_THAT(Said(), IsEmpty());
}

TEST_F(AgentCoreTest, WithoutAKillWaitNobodyIsAsked) {
  Make(1);
  core_->SetKillWait(Duration(0));
  Send(1);
  Tell(Cancelled{A(1)});
  EXPECT_THAT(Said(), ElementsAre("spawn 0", "kill 0 cancelled"));
}

TEST_F(AgentCoreTest, TheFirstReasonCounts) {
  Make(1);
  Send(1, {.memory = kMega});
  Tell(ProcessStarted{0, now_});
  Tell(Cancelled{A(1), End::kInterrupted});
  Said();
  Tell(Cancelled{A(1), End::kCancelled});
  Tell(MemorySeen{0, 2 * kMega});
  Tell(DiskLimitReached{A(1)});
  EXPECT_THAT(Said(), IsEmpty());
  After(seconds(5));
  EXPECT_THAT(Said(), ElementsAre("kill 0 interrupted"));
}

TEST_F(AgentCoreTest, AClosedNodeEndsAllThatIsThereAndComes) {
  Make(1);
  Send(1);
  Send(2);
  Send(3, {.inputs = 1});
  Tell(Closed{End::kInterrupted});
  Send(4);
  EXPECT_THAT(Said(), ElementsAre("spawn 0", "report 2 interrupted", "report 3 interrupted",
                                  "term 0 interrupted", "report 4 interrupted"));
  Tell(Settled{0});
  EXPECT_TRUE(core_->idle());
}

TEST_F(AgentCoreTest, ACancelOfTheOneThatDidNotFitLetsOthersIn) {
  Make(2);
  Send(1);
  Send(2, {.cores = 2});
  Send(3);
  Said();
  Tell(Cancelled{A(2)});
  EXPECT_THAT(Said(), ElementsAre("report 2 cancelled", "spawn 1"));
}

// --- limits

TEST_F(AgentCoreTest, ATimeLimitIsReachedWhenItsProcessHasRunSoLong) {
  Make(1);
  Send(1, {.time_limit = seconds(10)});
  now_ += milliseconds(20);
  Tell(ProcessStarted{0, now_ - milliseconds(20)});
  EXPECT_EQ(alarm_, now_ + seconds(10) - milliseconds(20));
  Said();
  After(seconds(10) - milliseconds(20) - Duration(1));
  EXPECT_THAT(Said(), IsEmpty());
  After(Duration(1));
  EXPECT_THAT(Said(), ElementsAre("term 0 timed out"));
  After(seconds(5));
  EXPECT_THAT(Said(), ElementsAre("kill 0 timed out"));
}

TEST_F(AgentCoreTest, AWarningComesSoLongBeforeTheLimitAndOnce) {
  Make(1);
  Send(1, {.time_limit = seconds(10), .warn_before = seconds(3)});
  Tell(ProcessStarted{0, now_});
  Said();
  EXPECT_EQ(alarm_, now_ + seconds(7));
  After(seconds(7) - Duration(1));
  EXPECT_THAT(Said(), IsEmpty());
  After(Duration(1));
  EXPECT_THAT(Said(), ElementsAre("warn 0"));
  After(seconds(3));
  EXPECT_THAT(Said(), ElementsAre("term 0 timed out"));
}

TEST_F(AgentCoreTest, AWarningLongerThanTheLimitComesAtOnce) {
  Make(1);
  Send(1, {.time_limit = seconds(10), .warn_before = seconds(30)});
  Tell(ProcessStarted{0, now_});
  EXPECT_THAT(Said(), ElementsAre("spawn 0", "warn 0"));
}

TEST_F(AgentCoreTest, AWarningWaitsWhileTasksStand) {
  Make(1);
  Send(1, {.time_limit = seconds(10), .warn_before = seconds(3)});
  Tell(ProcessStarted{0, now_});
  Said();
  Tell(RunUntil{now_ + seconds(1), Duration(0)});
  After(seconds(8));
  EXPECT_THAT(Said(), IsEmpty());
  Tell(RunUntil{Time::max(), seconds(7)});
  After(seconds(5));
  EXPECT_THAT(Said(), IsEmpty());
  After(seconds(1));
  EXPECT_THAT(Said(), ElementsAre("warn 0"));
}

TEST_F(AgentCoreTest, WhoIsBeingEndedIsNotWarned) {
  Make(1);
  Send(1, {.time_limit = seconds(10), .warn_before = seconds(3)});
  Tell(ProcessStarted{0, now_});
  Tell(Cancelled{{TaskId(1), 1}, End::kCancelled});
  Said();
  After(seconds(8));
  EXPECT_THAT(Said(), ElementsAre("kill 0 cancelled"));
}

TEST_F(AgentCoreTest, WhoComesTooEarlyIsAskedToComeAgain) {
  Make(1);
  Send(1, {.time_limit = seconds(10)});
  Tell(ProcessStarted{0, now_});
  alarm_.reset();
  After(seconds(4));
  EXPECT_EQ(alarm_, now_ + seconds(6));
}

TEST_F(AgentCoreTest, WhatHoldsTooMuchIsKilledAtOnce) {
  Make(2);
  Send(1, {.memory = 100 * kMega});
  Send(2, {.memory = 100 * kMega});
  Tell(MemorySeen{0, 101 * kMega});
  EXPECT_THAT(Said(), ElementsAre("spawn 0", "spawn 1")) << "nothing runs there that could hold memory";
  Tell(ProcessStarted{0, now_});
  Tell(ProcessStarted{1, now_});
  Tell(MemorySeen{0, 100 * kMega});
  EXPECT_THAT(Said(), IsEmpty());
  Tell(MemorySeen{0, 100 * kMega + 1});
  EXPECT_THAT(Said(), ElementsAre("kill 0 memory"));
  Tell(DiskLimitReached{A(2)});
  EXPECT_THAT(Said(), ElementsAre("kill 1 signaled"));
}

TEST_F(AgentCoreTest, MemoryIsLookedAtWhileItsAttemptRuns) {
  Make(2);
  Send(1);
  Send(2, {.memory = 400 * kMega});
  Tell(ProcessStarted{0, now_});
  EXPECT_FALSE(core_->NextLook(now_)) << "one without a limit is not looked at";
  Tell(ProcessStarted{1, now_});
  ASSERT_TRUE(core_->NextLook(now_));
  EXPECT_EQ(core_->NextLook(now_)->slot, 1u);
  Tell(ProcessEnded{1});
  EXPECT_FALSE(core_->NextLook(now_));
}

// Played through for sizes and rates: what grows ends below one and a half times its limit, with few looks.
TEST_F(AgentCoreTest, WhatGrowsIsCaughtInTimeWithFewLooks) {
  for (const double limit : {20e6, 100e6, 1e9, 64e9}) {
    for (const double rate : {1e6, 50e6, 200e6}) {
      SCOPED_TRACE(testing::Message() << limit << " bytes, " << rate << " a second");
      Make(1);
      Send(1, {.memory = static_cast<uint64_t>(limit)});
      const Time start = now_;
      Tell(ProcessStarted{0, start});
      Said();
      int looks = 0;
      double held = 0;
      while (Said().empty()) {
        const auto next = core_->NextLook(now_);
        ASSERT_TRUE(next);
        ASSERT_GT(next->at, now_);
        now_ = next->at;
        held = Seconds(now_ - start) * rate;
        Tell(MemorySeen{0, static_cast<uint64_t>(held)});
        ++looks;
      }
      EXPECT_GT(held, limit);
      EXPECT_LT(held, 1.5 * limit);
      // Near the limit a quarter of it is left to what grows twice as fast as is believed possible.
      EXPECT_LE(looks, 12 + Seconds(now_ - start) / std::clamp(0.25 * limit / 400e6, 0.005, 0.25)) << "looks";
    }
  }
}

TEST_F(AgentCoreTest, WhoIsBeingEndedIsNotLookedAt) {
  Make(1);
  Send(1, {.memory = kMega});
  Tell(Cancelled{A(1)});
  Tell(ProcessStarted{0, now_});
  EXPECT_FALSE(core_->NextLook(now_));
}

TEST_F(AgentCoreTest, TheFirstLookComesSoonHoweverLargeTheLimit) {
  Make(1);
  Send(1, {.memory = 100'000 * kMega});
  Tell(ProcessStarted{0, now_});
  EXPECT_LE(core_->NextLook(now_)->at, now_ + milliseconds(250));
}

TEST_F(AgentCoreTest, WhoCostsMuchToLookAtIsLeftAlone) {
  Make(1);
  Send(1, {.memory = 100 * kMega});
  Tell(ProcessStarted{0, now_});
  Tell(MemorySeen{0, kMega, seconds(90)});
  EXPECT_EQ(core_->NextLook(now_)->at, now_ + seconds(90));
}

TEST_F(AgentCoreTest, WhatGrewFastIsLookedAtSooner) {
  Make(2);
  for (uint32_t task : {0u, 1u}) {
    Send(task, {.memory = 10'000 * kMega});
    Tell(ProcessStarted{task, now_});
  }
  now_ += milliseconds(100);
  Tell(MemorySeen{0, 9'000 * kMega});
  // 6 000 MB are left to one and a half times the limit; it could use half of them in 1/60 s at twice its
  // rate.
  const Time at = now_ + FromSeconds(6'000e6 / (2 * 2 * 90'000e6));
  EXPECT_EQ(core_->NextLook(now_)->slot, 0u);
  EXPECT_EQ(core_->NextLook(now_)->at, at);
  Tell(MemorySeen{0, 1'000 * kMega});
  EXPECT_EQ(core_->NextLook(now_)->slot, 1u) << "what shrinks has time";
}

TEST_F(AgentCoreTest, WhereLooksAreLateWhoMayHoldMostComesFirst) {
  Make(3);
  for (uint32_t task : {0u, 1u}) {
    Send(task, {.memory = 1'000 * kMega});
    Tell(ProcessStarted{task, now_});
  }
  now_ += seconds(1);
  Tell(MemorySeen{0, 100 * kMega});
  Tell(MemorySeen{1, 700 * kMega});
  now_ += seconds(1);
  Tell(MemorySeen{0, 100 * kMega});
  Tell(MemorySeen{1, 700 * kMega});
  now_ += seconds(5);  // 0: 100 + 5 x 20 MB, 1: 700 + 5 x 20
  Send(2, {.memory = 1'000 * kMega});
  Tell(ProcessStarted{2, now_ - seconds(3)});
  EXPECT_EQ(core_->NextLook(now_)->slot, 2u) << "nothing is known of it: 3 x 400 MB";
  Tell(MemorySeen{2, 100 * kMega});
  EXPECT_EQ(core_->NextLook(now_)->slot, 1u);
  Tell(MemorySeen{1, 700 * kMega});
  EXPECT_EQ(core_->NextLook(now_)->slot, 0u) << "the others are not due yet";
  now_ += seconds(60);
  EXPECT_EQ(core_->NextLook(now_)->slot, 2u) << "it was seen to grow: 100 + 60 x 33 MB";
  Tell(MemorySeen{2, 100 * kMega});
  EXPECT_EQ(core_->NextLook(now_)->slot, 1u) << "700 + 60 x 20, which is more than 100 + 65 x 20";
}

// --- tasks that have to stand (fence.h)

TEST_F(AgentCoreTest, NothingBeginsWhileTasksStand) {
  Make(2);
  Tell(RunUntil{now_ + seconds(10), Duration(0)});
  Send(1);
  now_ += seconds(10);
  Send(2);
  Tell(Settled{0});
  EXPECT_THAT(Said(), ElementsAre("spawn 0"));
  now_ += seconds(3);
  Tell(RunUntil{now_ + seconds(10), seconds(3)});
  EXPECT_THAT(Said(), ElementsAre("spawn 0"));
}

TEST_F(AgentCoreTest, StandingDoesNotCountAgainstATimeLimit) {
  Make(2);
  Tell(RunUntil{now_ + seconds(10), Duration(0)});
  Send(1, {.time_limit = seconds(12)});
  Tell(ProcessStarted{0, now_});
  Send(2, {.time_limit = seconds(12)});
  const Time start = now_;
  Said();
  After(seconds(20));
  EXPECT_THAT(Said(), IsEmpty());
  Tell(RunUntil{now_ + seconds(100), seconds(10)});
  EXPECT_EQ(alarm_, start + seconds(22));
  Tell(ProcessStarted{1, start, Duration(0)});  // told only now
  After(seconds(2) - Duration(1));
  EXPECT_THAT(Said(), IsEmpty());
  After(Duration(1));
  EXPECT_THAT(Said(), ElementsAre("term 0 timed out", "term 1 timed out"));
}

TEST_F(AgentCoreTest, AStandBeforeTheStartDoesNotCountForATimeLimit) {
  Make(1);
  Send(1, {.time_limit = seconds(12)});
  Tell(RunUntil{now_, Duration(0)});
  now_ += seconds(10);
  Tell(RunUntil{Time::max(), seconds(10)});
  Tell(ProcessStarted{0, now_, seconds(10)});
  EXPECT_EQ(alarm_, now_ + seconds(12));
}

TEST_F(AgentCoreTest, WhatIsEndedWhileItStandsIsKilled) {
  Make(2);
  core_->SetKillWait(seconds(60));
  Tell(RunUntil{now_ + seconds(10), Duration(0)});
  Send(1);
  Send(2);
  Tell(Cancelled{A(1)});
  EXPECT_EQ(alarm_, now_ + seconds(10)) << "it could not hear what it was asked when it stands";
  Said();
  After(seconds(10));
  EXPECT_THAT(Said(), ElementsAre("kill 0 cancelled"));
  Tell(Cancelled{A(2)});
  EXPECT_THAT(Said(), ElementsAre("kill 1 cancelled"));
}

TEST_F(AgentCoreTest, AFenceThatComesNearerIsMinded) {
  Make(1);
  core_->SetKillWait(seconds(60));
  Send(1);
  Tell(Cancelled{A(1)});
  EXPECT_EQ(alarm_, now_ + seconds(60));
  Tell(RunUntil{now_ + seconds(7), Duration(0)});
  EXPECT_EQ(alarm_, now_ + seconds(7));
}

// --- several processes

TEST_F(AgentCoreTest, AnAttemptHasAsManyProcessesAsItAsksFor) {
  Make(8, 4);
  Send(1, {.processes = 3, .cores = 2, .devices = 1});
  EXPECT_THAT(Said(), ElementsAre("spawn 0", "spawn 2", "spawn 4"));
  EXPECT_THAT(core_->given(2)->slots, ElementsAre(2, 3));
  EXPECT_THAT(core_->given(2)->devices, ElementsAre(1));
  EXPECT_EQ(core_->given(2)->process, 1u);
  EXPECT_EQ(core_->given(4)->process, 2u);
  EXPECT_EQ(core_->given(6), nullptr);
  EXPECT_EQ(core_->All().size(), 1u);
}

TEST_F(AgentCoreTest, AnAttemptKeepsItsSlotsUntilTheLastProcessIsSettled) {
  Make(4);
  Send(1, {.processes = 2, .cores = 2});
  Send(2);
  Said();
  Tell(Settled{0});
  EXPECT_EQ(core_->given(0), nullptr) << "its thread has nothing more to do";
  EXPECT_EQ(StateOf(1), Core::State::kStarting);
  Tell(Settled{0});
  EXPECT_THAT(Said(), IsEmpty());
  Tell(ProcessEnded{2});
  EXPECT_EQ(StateOf(1), Core::State::kSettling);
  Tell(Settled{2});
  EXPECT_THAT(Said(), ElementsAre("spawn 2"));
  EXPECT_EQ(StateOf(1), std::nullopt);
}

TEST_F(AgentCoreTest, OneProcessThatFailsEndsTheOthers) {
  Make(3);
  Send(1, {.processes = 3});
  Said();
  Tell(ProcessEnded{1, false});
  EXPECT_THAT(Said(), IsEmpty());
  Tell(ProcessEnded{0, true});
  EXPECT_THAT(Said(), ElementsAre("term 0 cancelled from within", "term 1 cancelled from within",
                                  "term 2 cancelled from within"));
  Tell(Settled{0});
  Tell(Settled{1});
  After(seconds(5));
  EXPECT_THAT(Said(), ElementsAre("kill 2 cancelled from within"));
}

TEST_F(AgentCoreTest, TheFirstReasonToEndCounts) {
  Make(3);
  Send(1, {.processes = 3});
  Said();
  Tell(ProcessEnded{0, true});
  Tell(ProcessEnded{1, true});
  Tell(Cancelled{A(1), End::kInterrupted});
  EXPECT_EQ(Said().back(), "term 2 cancelled from within");
  After(seconds(5));
  EXPECT_EQ(Said().back(), "kill 2 cancelled from within");
  for (const uint32_t slot : {0, 1, 2}) Tell(Settled{slot});

  Send(2, {.processes = 3});
  Said();
  Tell(Cancelled{A(2), End::kInterrupted});
  Tell(ProcessEnded{0, true});
  EXPECT_THAT(Said(), ElementsAre("term 0 interrupted", "term 1 interrupted", "term 2 interrupted"));
  After(seconds(5));
  EXPECT_EQ(Said().back(), "kill 2 interrupted");
}

TEST_F(AgentCoreTest, LimitsAreThoseOfTheWholeAttempt) {
  Make(4);
  Send(1);
  Send(2, {.processes = 2, .memory = 100 * kMega, .time_limit = seconds(10)});
  Tell(ProcessStarted{1, now_});
  Tell(ProcessStarted{2, now_ + seconds(1)});
  EXPECT_EQ(alarm_, now_ + seconds(10));
  EXPECT_EQ(core_->NextLook(now_)->slot, 1u);
  Tell(Settled{1});
  EXPECT_EQ(core_->NextLook(now_)->slot, 1u) << "whoever looks asks for all of its processes";
  EXPECT_THAT(core_->SlotsWith(1), ElementsAre(1, 2));
  EXPECT_THAT(core_->SlotsWith(2), ElementsAre(1, 2));
  EXPECT_THAT(core_->SlotsWith(0), ElementsAre(0));
  EXPECT_THAT(core_->SlotsWith(17), IsEmpty());
  Said();
  After(seconds(10));
  EXPECT_THAT(Said(), ElementsAre("term 2 timed out"));
}

// --- how an attempt's end is judged

TEST(JudgeEndTest, WhatEndsByItselfEndsAsItDid) {
  EXPECT_EQ(JudgeEnd(End::kRunning, false, 3), End::kExited);
  EXPECT_EQ(JudgeEnd(End::kRunning, true, 9), End::kSignaled);
  EXPECT_EQ(JudgeEnd(End::kSignaled, false, 0), End::kExited) << "over before it could be killed";
}

TEST(JudgeEndTest, WhoExitsWithZeroAfterItWasAskedToHasFinished) {
  for (const End reason : {End::kTimedOut, End::kCancelled, End::kInterrupted, End::kLost}) {
    EXPECT_EQ(JudgeEnd(reason, false, 0), End::kExited);
    EXPECT_EQ(JudgeEnd(reason, false, 1), reason);
    EXPECT_EQ(JudgeEnd(reason, true, 0), reason);
    EXPECT_EQ(JudgeEnd(reason, true, 15), reason);
  }
  EXPECT_EQ(JudgeEnd(End::kOutOfMemory, false, 0), End::kOutOfMemory);
}

}  // namespace
}  // namespace harrow::agent
