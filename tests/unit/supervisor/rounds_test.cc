// Who counts when servers are looked at together, and by which speed.

#include <gtest/gtest.h>

#include "unit/supervisor/watched.h"

namespace harrow::supervisor {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Shape kWide = {.cores = 4};

TEST(SupervisorRounds, WhenOneHasEndedTheOthersReportsMakeTheNextRound) {
  Watched w({.worth_only = false});
  Introduce(&w, 3);
  for (uint32_t part = 0; part < 3; ++part) w.Tell(w.Of(part, part == 0 ? 30 : 0));
  EXPECT_EQ(TextOf(w.Asked()), "0>1:10 0>2:10 ");
  w.After(seconds(1));
  w.supervisor.Handle(w.now, PartEnded{PartId(2), 1}, &w.actions);
  w.supervisor.SanityCheck();
  EXPECT_EQ(TextOf(w.Asked()), "") << "by what was told before, the others should share what it was to get";
  w.Tell(w.Of(0, 30));
  w.Tell(w.Of(1, 0));
  EXPECT_EQ(TextOf(w.Asked()), "0>1:5 ") << "nobody waits for the third";
}

TEST(SupervisorRounds, AServerWhoseEndHasComeCallsForNoWork) {
  Watched w;
  Introduce(&w, 3);
  w.Tell(Working(&w, 0, 1000));
  w.Tell(Working(&w, 1, 500));  // it has less than its part, but more than half of it
  Report ends = Working(&w, 2, 0, 0);
  ends.power = 0.1;
  ends.ends_in = seconds(0);
  w.Tell(ends);
  EXPECT_EQ(SharesOf(w.Asked()), "");
}

TEST(SupervisorRounds, WhatAnAllocationCanBeginIsLessByTheWayToIt) {
  Watched w;
  Introduce(&w, 2);
  w.Tell(Working(&w, 0, 4000));
  Report ends = Working(&w, 1, 0, 0);
  ends.ends_in = seconds(100);
  ends.delay = seconds(10);
  w.Tell(ends);
  EXPECT_EQ(SharesOf(w.Asked()), "0>1:160 ") << "what 8 slots do in 80 s";
}

TEST(SupervisorRounds, WorkComesWhereTheLackLastsLongerThanTheWay) {
  // One lacks 100 seconds for 8 slots.
  for (const auto& [delay, asked] : {std::pair(milliseconds(3100), "0>1:100 "), std::pair(milliseconds(3150), "")}) {
    Watched w;
    Introduce(&w, 2);
    w.Tell(Working(&w, 0, 1000));
    Report lacks = Working(&w, 1, 800, 7);
    lacks.delay = delay;
    w.Tell(lacks);
    EXPECT_EQ(SharesOf(w.Asked()), asked);
  }
}

TEST(SupervisorRounds, OneWithoutNodesHoldsUpNobodyWhoPlacesByCosts) {
  Watched w;
  Introduce(&w, 3);
  w.Tell(Working(&w, 0, 4000));
  w.Tell(Working(&w, 1, 0, 0));
  w.Tell(w.Of(2, 0, 0, 0));
  EXPECT_EQ(SharesOf(w.Asked()), "0>1:500 ");
}

TEST(SupervisorRounds, OneThatKnowsNoTasksOfAShapeIsNoneOfItsSides) {
  Watched w;
  Introduce(&w, 3);
  Report has = w.Of(1, 0), free = w.Of(2, 0);
  has.queues.push_back({.shape = kWide, .ready = 6});
  free.queues.push_back({.shape = kWide, .workers = 2, .capacity = 2});
  w.Tell(w.Of(0, 0));
  w.Tell(has);
  w.Tell(free);
  EXPECT_EQ(TextOf(w.Asked()), "1>2:6 ");
}

TEST(SupervisorRounds, WhatRunsAtOneThatDrainsIsNotShared) {
  Watched w;
  Introduce(&w, 3);
  Report drains = w.Of(0, 7);
  drains.queues[0].in_flight = 8;
  drains.draining = true;
  w.Tell(drains);
  w.Tell(w.Of(1, 0));
  w.Tell(w.Of(2, 0));
  EXPECT_EQ(TextOf(w.Asked()), "0>1:4 0>2:3 ");
}

TEST(SupervisorRounds, TasksOfManySecondsBeginNoSoonerEither) {
  // 0.5 and 0.25 tasks a second: both are through with what they have in 80 s.
  Watched w({.amount = Amount::kWorkers});
  Introduce(&w, 2);
  Report fast = w.Of(0, 40, 10, 10), slow = w.Of(1, 20, 10, 10);
  fast.queues[0].mean = seconds(20);
  slow.queues[0].mean = seconds(40);
  w.Tell(fast);
  w.Tell(slow);
  EXPECT_EQ(TextOf(w.Asked()), "");
}

TEST(SupervisorRounds, ARateThatIsNotKnownIsThatOfAnotherByTheirCapacities) {
  Watched w;
  Introduce(&w, 2);
  Report unknown = w.Of(0, 15, 5, 10), known = w.Of(1, 0, 10, 10);
  known.queues[0].mean = milliseconds(100);
  unknown.delay = known.delay = milliseconds(50);
  w.Tell(unknown);
  w.Tell(known);
  // 50 a second: the last of 15 begins after 300 ms where it is, and there after 150.
  EXPECT_EQ(TextOf(w.Asked()), "0>1:7 ");
}

}  // namespace
}  // namespace harrow::supervisor
