#include <gtest/gtest.h>
#include <string>
#include <tuple>

#include "unit/supervisor/watched.h"

namespace harrow::supervisor {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// One of two has ten tasks, and the other none.
std::vector<MoveRequest> AskedOfTwo(Watched* w) {
  Introduce(w, 2);
  w->Tell(w->Of(0, 10));
  w->Tell(w->Of(1, 0));
  return w->Asked();
}

// --- tasks that are placed by what they cost

TEST(SupervisorTest, WhoHasLittleOfTheWorkGetsGroupsAllAtOnce) {
  Watched w;
  Introduce(&w, 4);
  w.Tell(Working(&w, 0, 4000));
  for (uint32_t part = 1; part < 4; ++part) w.Tell(Working(&w, part, 0, 0));
  // A quarter of all, then a third and half of what is left.
  EXPECT_EQ(SharesOf(w.Asked()), "0>1:250 0>2:333 0>3:500 ");
}

TEST(SupervisorTest, AFasterServerGetsMoreOfTheWork) {
  Watched w;
  Introduce(&w, 2);
  w.Tell(Working(&w, 0, 3000));
  Report fast = Working(&w, 1, 0, 0);
  fast.power = 16;
  w.Tell(fast);
  EXPECT_EQ(SharesOf(w.Asked()), "0>1:667 ");
}

/// One has seen tasks end, which took a hundredth of what the model says; the other has as many that wait.
TEST(SupervisorTest, WhatOneServerHasLearntOfAKindCountsForAll) {
  for (const bool by_both : {false, true}) {
    Watched w;
    Introduce(&w, 2);
    Report one = Working(&w, 0, 1000), other = Working(&w, 1, 1000);
    one.works = {{.kind = 1, .waiting = 1000, .ended = 200, .seconds = 2}, {.kind = 2, .waiting = 100}};
    other.works = {{.kind = 1, .waiting = 1000, .ended = by_both ? 200. : 0., .seconds = by_both ? 2. : 0.}, {.kind = 3, .waiting = 100}};
    w.Tell(one);
    w.Tell(other);
    EXPECT_EQ(SharesOf(w.Asked()), "");
    // A tenth of it: of a kind that nobody has seen.
    w.After(seconds(10));
    one.works = {{.kind = 1, .waiting = 1000, .ended = 200, .seconds = 2}};
    other.works = {{.kind = 1, .waiting = 0}, {.kind = 4, .waiting = 100}};
    ++one.number, ++other.number;
    w.Tell(one);
    w.Tell(other);
    EXPECT_EQ(SharesOf(w.Asked()), "0>1:450 ");
  }
}

/// Tasks that compute next to nothing, and have their slots for a minute each.
TEST(SupervisorTest, SlotsWithNothingAreWorthAMoveByHowLongTasksHaveTheirs) {
  for (const bool long_ones : {false, true}) {
    Watched w;
    Introduce(&w, 2);
    Report has = Working(&w, 0, 0.01), idle = Working(&w, 1, 0, 0);
    has.queues[0].ready = 16;
    has.queues[0].mean = long_ones ? seconds(60) : milliseconds(1);
    idle.delay = milliseconds(100);
    w.Tell(has);
    w.Tell(idle);
    EXPECT_EQ(SharesOf(w.Asked()), long_ones ? "0>1:500 " : "");
  }
}

TEST(SupervisorTest, WorkThatIsSharedWellStays) {
  Watched w;
  Introduce(&w, 3);
  const auto tell = [&](double a, double b, double c, uint64_t busy_c) {
    w.After(seconds(10));
    w.Tell(Working(&w, 0, a));
    w.Tell(Working(&w, 1, b));
    w.Tell(Working(&w, 2, c, busy_c));
    return SharesOf(w.Asked());
  };
  EXPECT_EQ(tell(1000, 800, 600, 8), "");
  EXPECT_EQ(tell(1000, 1000, 600, 7), "0>2:133 1>2:133 ");  // it has a slot with nothing
}

TEST(SupervisorTest, WorkIsNotAskedForAgainBeforeItMayHaveCome) {
  Watched w;
  Introduce(&w, 2);
  w.Tell(Working(&w, 0, 4000));
  w.Tell(Working(&w, 1, 0, 0));
  const std::vector<MoveRequest> asked = w.Asked();
  ASSERT_EQ(asked.size(), 1u);
  const auto again = [&] {
    w.After(milliseconds(100));
    w.Tell(Working(&w, 0, 4000));
    w.Tell(Working(&w, 1, 0, 0));
    return SharesOf(w.Asked());
  };
  EXPECT_EQ(again(), "") << "it is open";
  Report told = Working(&w, 0, 2000);
  told.offers = {{.id = asked[0].id, .to = PartId(1), .count = 50, .shared = true}};
  told.handled = w.handled[0] = 1;
  w.After(milliseconds(100));
  w.Tell(told);
  w.Tell(Working(&w, 1, 0, 0));
  EXPECT_EQ(SharesOf(w.Asked()), "") << "it is on its way";
  EXPECT_EQ(w.supervisor.Expected(PartId(1), Shape{}), 0);
  Report taken = Working(&w, 1, 0, 0);
  taken.taken = {asked[0].id};
  w.After(milliseconds(100));
  w.Tell(Working(&w, 0, 2000));
  w.Tell(taken);
  EXPECT_EQ(SharesOf(w.Asked()), "") << "its work is not known yet";
  w.After(seconds(3));
  EXPECT_EQ(again(), "0>1:500 ");
}

TEST(SupervisorTest, AnAllocationThatEndsGetsNoMoreWorkThanItCanBegin) {
  Watched w;
  Introduce(&w, 2);
  w.Tell(Working(&w, 0, 4000));
  Report ends = Working(&w, 1, 0, 0);
  ends.ends_in = seconds(100);
  w.Tell(ends);
  EXPECT_EQ(SharesOf(w.Asked()), "0>1:200 ");
}

TEST(SupervisorTest, ASlowServersWorkIsWorthLess) {
  Watched w;
  Introduce(&w, 2);
  Report fast = Working(&w, 0, 2000), slow = Working(&w, 1, 2000);
  // The same tasks take the second one three times as long; so do those that wait there.
  fast.paces = {{.kind = 1, .count = 100, .seconds = 100}};
  slow.paces = {{.kind = 1, .count = 100, .seconds = 300}};
  w.Tell(fast);
  w.Tell(slow);
  EXPECT_EQ(SharesOf(w.Asked()), "") << "each has what it does in the same time";
}

TEST(SupervisorTest, ASilentServerHoldsUpNoOthers) {
  Watched w;
  Introduce(&w, 3);
  w.Tell(Working(&w, 0, 4000));
  w.Tell(Working(&w, 1, 0, 0));
  w.Tell(Working(&w, 2, 2000));
  const std::vector<MoveRequest> asked = w.Asked();
  ASSERT_EQ(SharesOf(asked), "0>1:500 ");
  w.handled[0] = 1;
  const auto without_it = [&] {
    Report waits = Working(&w, 0, 4000);
    waits.offers = {{.id = asked[0].id, .to = PartId(1), .count = 50, .shared = true}};
    w.Tell(waits);
    w.Tell(Working(&w, 2, 0, 0));
    return SharesOf(w.Asked());
  };
  w.After(seconds(1));
  EXPECT_EQ(without_it(), "") << "it may tell any moment that it has them";
  w.After(seconds(8));
  std::string asked_then = without_it();
  w.After(milliseconds(100));
  asked_then += without_it();
  EXPECT_EQ(asked_then, "0>2:500 ");
}

TEST(SupervisorTest, ASingleTaskGoesOnlyToASlotWithNothing) {
  Watched w;
  Introduce(&w, 2);
  Report full = Working(&w, 0, 400), other = Working(&w, 1, 400);
  full.queues[0].ready = 40;
  full.queues[0].mean = other.queues[0].mean = seconds(10);
  w.Tell(full);
  w.Tell(other);
  EXPECT_EQ(TextOf(w.Asked()), "");
  w.After(milliseconds(100));
  full.number += 10;
  other = Working(&w, 1, 400, 6);
  other.number += 10;
  other.queues[0].mean = seconds(10);
  w.Tell(full);
  w.Tell(other);
  EXPECT_EQ(TextOf(w.Asked()), "0>1:2 ");
}

TEST(SupervisorTest, WhereOneDoesNotPlaceByCostsTasksMoveAsEver) {
  Watched w({.worth_only = false});
  Introduce(&w, 2);
  Report one = Working(&w, 0, 4000, 0);
  one.queues[0].ready = 10;
  w.Tell(one);
  w.Tell(w.Of(1, 0));
  EXPECT_EQ(TextOf(w.Asked()), "0>1:5 ");
}

/// 100 tasks of a kind at each, which take the second one half of the time.
TEST(SupervisorTest, AServerThatIsTwiceAsFastIsWorthTwice) {
  Watched w({.worth_only = false});
  Introduce(&w, 2);
  Report slow = w.Of(0, 90), fast = w.Of(1, 0);
  slow.paces = {{.kind = 3, .count = 100, .seconds = 200}};
  fast.paces = {{.kind = 3, .count = 100, .seconds = 100}};
  w.Tell(slow);
  w.Tell(fast);
  EXPECT_EQ(TextOf(w.Asked()), "0>1:60 ");
}

TEST(SupervisorTest, LongTasksMakeNobodySlowAndFewTasksTellNothing) {
  for (const auto& [of_first, of_second] : std::vector<std::pair<std::vector<Pace>, std::vector<Pace>>>{
           // The second has mostly long ones, and does each kind as fast as the first.
           {{{.kind = 1, .count = 90, .seconds = 90}, {.kind = 2, .count = 10, .seconds = 100}},
            {{.kind = 1, .count = 10, .seconds = 10}, {.kind = 2, .count = 90, .seconds = 900}}},
           // Kinds that one alone has had.
           {{{.kind = 1, .count = 100, .seconds = 1}}, {{.kind = 2, .count = 100, .seconds = 900}}},
           // Too few.
           {{{.kind = 1, .count = 12, .seconds = 10}}, {{.kind = 1, .count = 12, .seconds = 90}}},
           // Nothing, and what took no time.
           {{}, {{.kind = 1, .count = 100, .seconds = 0}}}}) {
    Watched w({.worth_only = false});
    Introduce(&w, 2);
    Report first = w.Of(0, 90), second = w.Of(1, 0);
    first.paces = of_first;
    second.paces = of_second;
    w.Tell(first);
    w.Tell(second);
    EXPECT_EQ(TextOf(w.Asked()), "0>1:45 ");
  }
}

TEST(SupervisorTest, TheExampleByTriggerAndAmount) {
  const auto asked = [](Trigger trigger, double alpha, Amount amount, uint64_t first, uint64_t second) {
    Watched w({.trigger = trigger, .amount = amount, .alpha = alpha, .worth_only = false});
    for (uint32_t part = 0; part < 4; ++part) w.Tell(w.Of(part, 0));  // all are known, and nothing moves
    EXPECT_EQ(TextOf(w.Asked()), "");
    w.After(milliseconds(50));
    w.TellExample(first, second);
    return TextOf(w.Asked());
  };
  EXPECT_EQ(asked(Trigger::kEmpty, 0.5, Amount::kCapacity, 4, 16), "");
  EXPECT_EQ(asked(Trigger::kLow, 0.2, Amount::kCapacity, 4, 16), "");
  EXPECT_EQ(asked(Trigger::kLow, 0.5, Amount::kCapacity, 4, 16), "2>3:20 1>0:6 ");
  EXPECT_EQ(asked(Trigger::kAlways, 0.5, Amount::kCapacity, 4, 16), "2>3:20 1>0:6 ");
  EXPECT_EQ(asked(Trigger::kAlways, 0.5, Amount::kWorkers, 4, 16), "2>0:16 2>1:4 ");
  EXPECT_EQ(asked(Trigger::kEmpty, 0.5, Amount::kCapacity, 0, 20), "2>3:20 1>0:10 ");
}

TEST(SupervisorTest, OneReportMakesNoRound) {
  Watched w;
  Introduce(&w, 2);
  w.Tell(w.Of(0, 10));
  w.Asked();
  w.After(milliseconds(10));
  w.Tell(w.Of(0, 20));
  EXPECT_EQ(TextOf(w.Asked()), "") << "the other has not reported since";
  w.Tell(w.Of(1, 0));
  EXPECT_NE(TextOf(w.Asked()), "");
}

TEST(SupervisorTest, WhatWasAskedForIsNotAskedForAgain) {
  Watched w({.worth_only = false});
  const std::vector<MoveRequest> asked = AskedOfTwo(&w);
  ASSERT_EQ(TextOf(asked), "0>1:5 ");
  EXPECT_EQ(w.supervisor.Expected(PartId(0), {}), -5);
  EXPECT_EQ(w.supervisor.Expected(PartId(1), {}), 5);
  // Reports that were made before the request came.
  w.Tell(w.Of(0, 10));
  w.Tell(w.Of(1, 0));
  EXPECT_EQ(TextOf(w.Asked()), "");
  // The giver has offered what it had left of them.
  w.handled[0] = asked[0].id.number;
  Report giver = w.Of(0, 6);
  giver.offers.push_back({asked[0].id, PartId(1), {}, 4});
  w.Tell(giver);
  EXPECT_EQ(w.supervisor.Expected(PartId(0), {}), 0);
  EXPECT_EQ(w.supervisor.Expected(PartId(1), {}), 4);
  w.Tell(w.Of(1, 0));
  EXPECT_EQ(TextOf(w.Asked()), "0>1:1 ");
  // They have come. The giver does not know yet.
  Report taker = w.Of(1, 4);
  taker.taken.push_back(asked[0].id);
  w.Tell(taker);
  giver.number += 1;
  w.Tell(giver);
  EXPECT_EQ(w.supervisor.open_moves(), 1u) << "the second one";
}

TEST(SupervisorTest, AGiverWithoutTasksHasTakenTheRequestUp) {
  Watched w({.worth_only = false});
  const std::vector<MoveRequest> asked = AskedOfTwo(&w);
  ASSERT_EQ(asked.size(), 1u);
  w.handled[0] = asked[0].id.number;
  w.Tell(w.Of(0, 0));  // its queue has drained meanwhile
  EXPECT_EQ(w.supervisor.open_moves(), 0u);
  EXPECT_EQ(w.supervisor.Expected(PartId(1), {}), 0);
}

TEST(SupervisorTest, ReportsThatComeTwiceOrLateChangeNothing) {
  Watched w({.worth_only = false});
  Introduce(&w, 2);
  const Report old = w.Of(0, 100);
  const Report young = w.Of(0, 10);
  w.Tell(young);
  w.Tell(old);
  w.Tell(young);
  w.Tell(w.Of(1, 0));
  EXPECT_EQ(TextOf(w.Asked()), "0>1:5 ");
  // The server was started again: its numbers begin anew.
  Report again = w.Of(0, 50);
  again.server_epoch = 2;
  again.number = 1;
  w.Tell(again);
  w.Tell(w.Of(1, 0));
  EXPECT_EQ(TextOf(w.Asked()), "0>1:20 ");
}

TEST(SupervisorTest, ALateWordThatAMoveWasTakenCounts) {
  Watched w({.worth_only = false});
  const std::vector<MoveRequest> asked = AskedOfTwo(&w);
  ASSERT_EQ(asked.size(), 1u);
  Report old = w.Of(1, 5);
  old.taken.push_back(asked[0].id);
  w.Tell(w.Of(1, 3));
  EXPECT_EQ(w.supervisor.open_moves(), 1u);
  w.Tell(old);
  EXPECT_EQ(w.supervisor.open_moves(), 0u);
}

/// The server of the supervisor was killed, and the next one did not hear in time which epoch was its predecessor's.
TEST(SupervisorTest, MovesOfAPredecessorWithTheSameEpochAreNotItsOwn) {
  for (const bool offered : {false, true}) {
    Watched w({.worth_only = false});
    Introduce(&w, 3);
    Report told = w.Of(2, 0);
    if (offered) {
      told.offers.push_back({.id = {w.supervisor.epoch(), 1}, .to = PartId(1), .count = 5});
    } else {
      told.handled = 1;
    }
    w.Tell(told);
    w.Tell(w.Of(0, 12));
    w.Tell(w.Of(1, 0));
    EXPECT_TRUE(w.supervisor.superseded());
    EXPECT_TRUE(w.Asked().empty());
  }
}

/// An offer of one's own that another server tells, too, is one move.
TEST(SupervisorTest, AMoveThatTwoTellIsOne) {
  Watched w({.worth_only = false});
  const std::vector<MoveRequest> asked = AskedOfTwo(&w);
  ASSERT_EQ(asked.size(), 1u);
  w.handled[0] = 1;
  for (const uint32_t part : {0, 2, 0}) {
    Report told = w.Of(part, 5);
    told.offers.push_back({.id = asked[0].id, .to = PartId(1), .count = 5});
    w.Tell(told);
  }
  EXPECT_EQ(w.supervisor.open_moves(), 1u);
}

TEST(SupervisorTest, WhoIsSilentNeitherGivesNorGets) {
  Watched w({.worth_only = false});
  Introduce(&w, 3);
  w.After(seconds(4));
  w.Tell(w.Of(0, 12));
  w.Tell(w.Of(1, 0));
  EXPECT_EQ(TextOf(w.Asked()), "") << "the third is waited for";
  w.After(milliseconds(100));
  w.Tell(w.Of(0, 12));
  EXPECT_EQ(TextOf(w.Asked()), "0>1:6 ");
}

TEST(SupervisorTest, AServerThatJoinsGetsItsPart) {
  Watched w({.worth_only = false});
  w.Tell(w.Of(0, 30));
  EXPECT_EQ(TextOf(w.Asked()), "");
  w.After(milliseconds(100));
  w.Tell(w.Of(1, 0, 16));
  EXPECT_EQ(TextOf(w.Asked()), "0>1:20 ");
}

TEST(SupervisorTest, AServerThatEndedIsAskedForNothing) {
  Watched w({.worth_only = false});
  Introduce(&w, 3);
  for (uint32_t part = 0; part < 3; ++part) w.Tell(w.Of(part, part == 0 ? 30 : 0));
  EXPECT_EQ(w.Asked().size(), 2u);
  w.supervisor.Handle(w.now, PartEnded{PartId(2), 1}, &w.actions);
  w.supervisor.SanityCheck();
  EXPECT_EQ(w.supervisor.open_moves(), 1u);
  // What it said before its end comes late.
  w.Tell(w.Of(2, 0));
  w.Tell(w.Of(0, 30));
  w.Tell(w.Of(1, 0));
  for (const MoveRequest& move : w.Asked()) EXPECT_NE(move.to, PartId(2));
  // Another server has taken its part over.
  Report again = w.Of(2, 60);
  again.server_epoch = 2;
  w.Tell(again);
  w.Tell(w.Of(0, 0));
  w.Tell(w.Of(1, 0));
  const std::vector<MoveRequest> asked = w.Asked();
  ASSERT_FALSE(asked.empty());
  EXPECT_EQ(asked[0].from, PartId(2));
}

TEST(SupervisorTest, ADrainingServerGivesAllWhateverTheTrigger) {
  Watched w({.trigger = Trigger::kEmpty});
  Introduce(&w, 3);
  Report draining = w.Of(0, 7);
  draining.draining = true;
  draining.waiting = 3;
  w.Tell(draining);
  w.Tell(w.Of(1, 5));
  w.Tell(w.Of(2, 5, 16));
  const std::vector<MoveRequest> asked = w.Asked();
  ASSERT_EQ(asked.size(), 3u);
  EXPECT_EQ(TextOf(asked), "0>2:6 0>1:1 0>2:3 ");
  EXPECT_TRUE(asked[2].waiting);
  for (const MoveRequest& move : asked) EXPECT_EQ(move.keep, 0u);
  draining.number += 1;
  w.Tell(draining);
  w.Tell(w.Of(1, 5));
  w.Tell(w.Of(2, 5, 16));
  EXPECT_EQ(TextOf(w.Asked()), "") << "it was asked for all";
}

TEST(SupervisorTest, ANewSupervisorLearnsWhatIsOnItsWay) {
  Watched w({.worth_only = false}, 2);
  Report giver = w.Of(0, 10);
  giver.obeys = 1;
  giver.handled = 17;
  giver.offers.push_back({{1, 17}, PartId(1), {}, 6});
  w.Tell(giver);
  EXPECT_EQ(w.supervisor.Expected(PartId(1), {}), 6);
  w.After(milliseconds(100));
  w.Tell(w.Of(1, 0));
  EXPECT_EQ(TextOf(w.Asked()), "0>1:2 ");
}

TEST(SupervisorTest, TheOlderOfTwoSupervisorsStops) {
  Watched w({.worth_only = false});
  Introduce(&w, 2);
  Report report = w.Of(0, 100);
  report.obeys = 2;
  w.Tell(report);
  w.Tell(w.Of(1, 0));
  EXPECT_TRUE(w.supervisor.superseded());
  EXPECT_EQ(TextOf(w.Asked()), "");
}

TEST(SupervisorTest, AMoveOfWhichNobodyTellsIsForgotten) {
  Watched w({.worth_only = false});
  Introduce(&w, 2);
  w.Tell(w.Of(0, 10));
  w.Tell(w.Of(1, 0));
  ASSERT_EQ(TextOf(w.Asked()), "0>1:5 ");
  w.After(seconds(11));
  w.Tell(w.Of(0, 10));
  w.Tell(w.Of(1, 0));
  EXPECT_EQ(w.supervisor.forgotten(), 1u);
  EXPECT_EQ(TextOf(w.Asked()), "0>1:5 ");
}

TEST(SupervisorTest, ShapesAreBalancedEachForItself) {
  Watched w({.worth_only = false});
  Introduce(&w, 2);
  const Shape wide = {.cores = 4};
  Report first = w.Of(0, 10), second = w.Of(1, 0);
  first.queues.push_back({.shape = wide, .ready = 0, .workers = 2, .capacity = 2});
  second.queues.push_back({.shape = wide, .ready = 6, .workers = 0, .capacity = 0});
  w.Tell(first);
  w.Tell(second);
  const std::vector<MoveRequest> asked = w.Asked();
  ASSERT_EQ(TextOf(asked), "0>1:5 1>0:6 ");
  EXPECT_EQ(asked[1].shape, wide);
}

TEST(SupervisorTest, IdleSlotsComeFirst) {
  const auto asked = [](bool worth_only) {
    Watched w({.worth_only = worth_only});
    Introduce(&w, 3);
    Report busy = w.Of(0, 1), also = w.Of(1, 0), idle = w.Of(2, 0);
    busy.queues[0].in_flight = also.queues[0].in_flight = 8;
    w.Tell(busy);
    w.Tell(also);
    w.Tell(idle);
    return TextOf(w.Asked());
  };
  EXPECT_EQ(asked(true), "0>2:1 ");
  EXPECT_EQ(asked(false), "") << "by the paper it stays with the lowest index";
}

TEST(SupervisorTest, WhatRunsIsNotMoved) {
  Watched w;
  Introduce(&w, 2);
  Report busy = w.Of(0, 1);
  busy.queues[0].in_flight = 8;
  w.Tell(busy);
  w.Tell(w.Of(1, 0));
  EXPECT_EQ(TextOf(w.Asked()), "0>1:1 ") << "of nine the other should have four";
}

TEST(ObedienceTest, TheNewestSupervisorEachRequestOnce) {
  Obedience o;
  EXPECT_TRUE(o.Take({1, 3}));
  EXPECT_FALSE(o.Take({1, 3}));
  EXPECT_FALSE(o.Take({1, 2}));
  EXPECT_TRUE(o.Take({2, 1}));
  EXPECT_FALSE(o.Take({1, 9}));
  EXPECT_EQ(o.epoch(), 2u);
  EXPECT_EQ(o.handled(), 1u);
  o.Hear(1);
  EXPECT_EQ(o.handled(), 1u);
  o.Hear(3);
  EXPECT_EQ(o.handled(), 0u);
  EXPECT_FALSE(o.Take({2, 2}));
}

// --- what runs goes to a faster server

/// Part 1 is twice as fast as part 0, by what they have told of a kind.
void TellSpeeds(Report* report) {
  report->paces = {{.kind = 0, .count = 100, .seconds = report->part == PartId(0) ? 200.0 : 100.0}};
}

/// Part 0 runs eight tasks, of which these can leave; part 1 has so many slots and runs so much.
std::vector<MoveRequest> AskedOfRunning(Watched* w, const std::vector<Leaver>& leavers, uint64_t runs_there = 0, uint64_t ready_there = 0) {
  Report slow = w->Of(0, 0), fast = w->Of(1, ready_there);
  slow.queues[0].in_flight = 8;
  slow.queues[0].leavers = leavers;
  fast.queues[0].in_flight = runs_there;
  TellSpeeds(&slow);
  TellSpeeds(&fast);
  w->Tell(slow);
  w->Tell(fast);
  return w->Asked();
}

TEST(SupervisorTest, WhatRunsGoesToAFasterServerThatHasNothingToDo) {
  Watched w;
  Introduce(&w, 2);
  const std::vector<MoveRequest> asked = AskedOfRunning(&w, {{seconds(100), seconds(5)}, {seconds(80), seconds(5)}, {seconds(9), seconds(5)}});
  ASSERT_EQ(TextOf(asked), "0>1:1 0>1:1 ") << "the third would win nothing";
  EXPECT_TRUE(asked[0].running && asked[1].running);
  EXPECT_EQ(asked[0].least_left, seconds(50));
  for (const uint32_t part : {0, 1}) EXPECT_EQ(w.supervisor.Expected(PartId(part), Shape()), 0) << "they are in no queue";
}

TEST(SupervisorTest, ItGoesOnlyWhereThatPays) {
  for (const auto& [left, stands, pays] : {std::tuple(100, 24, true), std::tuple(100, 25, false), std::tuple(4, 1, false), std::tuple(5, 1, true)}) {
    Watched w;
    Introduce(&w, 2);
    EXPECT_EQ(!AskedOfRunning(&w, {{seconds(left), seconds(stands)}}).empty(), pays) << left << " " << stands;
  }
  // Of equal speed; of the paper's way; of one that ends before.
  Watched equal;
  Introduce(&equal, 2);
  for (uint32_t part : {0, 1}) {
    Report report = equal.Of(part, 0);
    if (part == 0) report.queues[0].leavers = {{seconds(1000), seconds(1)}};
    equal.Tell(report);
  }
  EXPECT_TRUE(equal.Asked().empty());
  Watched paper({.worth_only = false});
  Introduce(&paper, 2);
  EXPECT_TRUE(AskedOfRunning(&paper, {{seconds(1000), seconds(1)}}).empty());
  for (const int ends : {60, 400}) {
    Watched w;
    Introduce(&w, 2);
    Report slow = w.Of(0, 0), fast = w.Of(1, 0);
    slow.queues[0].leavers = {{seconds(500), seconds(5)}};
    fast.ends_in = seconds(ends);
    TellSpeeds(&slow);
    TellSpeeds(&fast);
    w.Tell(slow);
    w.Tell(fast);
    EXPECT_EQ(w.Asked().size(), ends == 400 ? 1u : 0u) << ends;
  }
}

TEST(SupervisorTest, WhatRunsGoesWhereWhatIsReadyIsTooDear) {
  for (const bool dear : {false, true}) {
    Watched w;
    Introduce(&w, 2);
    Report slow = w.Of(0, 40), fast = w.Of(1, 0);
    slow.queues[0].leavers = {{seconds(1000), seconds(5)}};
    slow.queues[0].mean = fast.queues[0].mean = seconds(10);
    if (dear) slow.queues[0].dear = std::chrono::hours(9);
    TellSpeeds(&slow);
    TellSpeeds(&fast);
    w.Tell(slow);
    w.Tell(fast);
    const std::vector<MoveRequest> asked = w.Asked();
    EXPECT_EQ(std::any_of(asked.begin(), asked.end(), [](const MoveRequest& each) { return each.running; }), dear);
  }
}

TEST(SupervisorTest, NoMoreGoThanThereAreSlotsAndNoneTwice) {
  Watched w;
  Introduce(&w, 2);
  const std::vector<Leaver> many(5, Leaver{seconds(1000), seconds(1)});
  std::vector<MoveRequest> asked = AskedOfRunning(&w, many, 6);
  ASSERT_EQ(asked.size(), 2u);
  w.After(milliseconds(100));
  EXPECT_TRUE(AskedOfRunning(&w, many, 6).empty()) << "those that were asked for are on their way";
  // The giver has asked two of its tasks, which takes as long as it takes.
  for (int i = 0; i < 300; ++i) {
    w.After(milliseconds(100));
    w.handled[0] = asked[1].id.number;
    Report slow = w.Of(0, 0), fast = w.Of(1, 0);
    slow.queues[0].leavers = {{seconds(900), seconds(1)}};
    for (const MoveRequest& each : asked) slow.offers.push_back({each.id, PartId(1), {}, 1, false, true});
    fast.queues[0].in_flight = 6;
    TellSpeeds(&slow);
    TellSpeeds(&fast);
    w.Tell(slow);
    w.Tell(fast);
    ASSERT_TRUE(w.Asked().empty()) << i;
  }
  // One of them came, and ran there.
  w.After(milliseconds(100));
  Report slow = w.Of(0, 0), fast = w.Of(1, 0);
  slow.queues[0].leavers = {{seconds(900), seconds(1)}};
  slow.offers.push_back({asked[1].id, PartId(1), {}, 1, false, true});
  fast.queues[0].in_flight = 6;
  fast.taken = {asked[0].id};
  TellSpeeds(&slow);
  TellSpeeds(&fast);
  w.Tell(slow);
  w.Tell(fast);
  EXPECT_EQ(w.Asked().size(), 1u) << "there is a slot again";
}

TEST(SupervisorTest, WhereSomethingIsReadyNothingThatRunsComes) {
  Watched w;
  Introduce(&w, 2);
  for (const MoveRequest& each : AskedOfRunning(&w, {{seconds(1000), seconds(1)}}, 0, 3)) EXPECT_FALSE(each.running);
}

}  // namespace
}  // namespace harrow::supervisor
