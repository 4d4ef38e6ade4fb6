// Sending ahead so that inputs come while other tasks run (Options::local_files).

#include <gtest/gtest.h>

#include "core/ahead.h"
#include "core/scheduler.h"
#include "support/told_scheduler.h"

namespace harrow::core {
namespace {

using order::Policy;
using test::ToldScheduler;
using Why = CopyFailed::Why;

constexpr Duration kRun = std::chrono::milliseconds(100);
constexpr Duration kTransfer = std::chrono::milliseconds(50);
constexpr Duration kSixCopies = 6 * kTransfer;

class FetchAhead : public ToldScheduler {
 public:
  Duration transfer = kTransfer;

  explicit FetchAhead(Policy policy = Policy::kFifo, uint32_t bad_node_failures = 0)
      : ToldScheduler({.policy = policy,
                       .bad_node_failures = bad_node_failures,
                       .shared_files = false,
                       .local_files = true}) {}
  std::string Come(const Words& files, uint32_t node) {
    now += transfer;
    std::vector<Event> events;
    for (const std::string& file : files) events.push_back(FileStored{File(file), NodeId(node), 100});
    return TellAll(events);
  }
  std::string Over(const std::string& task, uint32_t node) {
    now += kRun;
    return Ended(task, node, Done{}, kRun);
  }
  /// A, B, C, ... each of which reads a file of its own; A has ended on one node of one slot.
  std::string WarmUp() {
    for (const char* name : {"A", "B", "C", "D", "E", "F"}) Add(name, {}, {std::string("in/") + name});
    EXPECT_EQ(Begin({{1, 0, 0}}), "copy in/A@0, start A@0") << "nothing is known of times yet";
    Come({"in/A"}, 0);
    Started("A", 0);
    return Over("A", 0);
  }
};

TEST(FetchAhead, TheInputsOfTheNextComeWhileATaskRunsHoweverLong) {
  FetchAhead s;
  EXPECT_EQ(s.WarmUp(), "drop in/A@0, done A, copy in/B@0, start B@0, copy in/C@0, ahead C@0");
  s.Come({"in/B", "in/C"}, 0);
  EXPECT_EQ(s.Over("B", 0), "drop in/B@0, done B, copy in/D@0, ahead D@0") << "C has begun by itself";
}

/// The agent begins what has its inputs first. What waits behind it could wait for hours, beside idle nodes.
TEST(FetchAhead, WhatIsOvertakenWhileItsInputsComeIsAskedBack) {
  FetchAhead s;
  EXPECT_EQ(s.WarmUp(), "drop in/A@0, done A, copy in/B@0, start B@0, copy in/C@0, ahead C@0");
  s.Come({"in/C"}, 0);
  EXPECT_EQ(s.Started("C", 0), "back B@0");
  s.TellAll({TaskReturned{s.Latest("B"), NodeId(0)}, NodeJoined{NodeId(1), {1, 0, 0}}});
  std::string begun;
  for (const char* task : {"D", "E", "F"}) {
    s.Come({std::string("in/") + task}, 1);
    s.Started(task, 1);
    begun += s.Over(task, 1);
  }
  EXPECT_NE(begun.find("B@1"), std::string::npos) << begun;
}

/// They may be there by the time that the node is heard of.
TEST(FetchAhead, WhatWasOvertakenBeforeItsInputsCameIsAskedBack) {
  FetchAhead s;
  EXPECT_EQ(s.WarmUp(), "drop in/A@0, done A, copy in/B@0, start B@0, copy in/C@0, ahead C@0");
  s.Come({"in/C"}, 0);
  EXPECT_EQ(s.TellAll({FileStored{s.File("in/B"), NodeId(0), 100}, TaskStarted{s.Latest("C"), NodeId(0)}}), "back B@0");
}

TEST(FetchAhead, NotWhatIsThere) {
  FetchAhead s;
  s.Add("P", {}, {"in"}, {"made"});
  for (const char* name : {"A", "B"}) s.Add(name, {}, {"made"});
  s.Begin({{1, 0, 0}});
  s.Come({"in"}, 0);
  s.Started("P", 0);
  EXPECT_EQ(s.Come({"made"}, 0), "");
  EXPECT_EQ(s.Over("P", 0), "drop in@0, done P, start A@0");
}

TEST(FetchAhead, WhatCouldNotComeToAnotherNodeMayComeToThisOne) {
  FetchAhead s;
  s.Add("A", {}, {"here", "in"});
  s.Add("B", {}, {"here"});
  s.Add("C", {}, {"here", "beside"});
  s.Add("Q", {}, {"beside"});
  EXPECT_EQ(s.TellAll({s.Added(), NodeJoined{NodeId(0), {1, 0, 0}}, NodeJoined{NodeId(1), {1, 0, 0}},
                       FileStored{s.File("here"), NodeId(0), 1000}}),
            "copy in@0, start A@0, copy beside@1, start Q@1");
  s.Tell(CopyFailed{s.File("beside"), NodeId(1), NodeId(), Why::kUnreadable});
  s.Come({"in"}, 0);
  s.Started("A", 0);
  EXPECT_EQ(s.Over("A", 0), "drop in@0, done A, start B@0, copy beside@0, ahead C@0");
}

TEST(FetchAhead, WhatCouldNotComeThereOnceIsForgottenWithItsNodeAndWhenItIsThere) {
  for (const bool node_is_lost : {false, true}) {
    SCOPED_TRACE(node_is_lost);
    FetchAhead s;
    s.Add("Q", {}, {"beside"});
    s.Add("P", {}, {}, {"here"});
    s.Add("A", {}, {"here", "in"});
    s.Add("B", {}, {"here"});
    s.Add("C", {}, {"here", "beside"});
    s.Begin({{1, 0, 0}});
    s.Tell(CopyFailed{s.File("beside"), NodeId(0), NodeId(), Why::kUnreadable});
    EXPECT_EQ(s.Ended("Q", 0, Failed{}), "failed Q, start P@0");
    if (node_is_lost) {
      s.Tell(NodeLost{NodeId(0)});
      EXPECT_EQ(s.Tell(NodeJoined{NodeId(0), {1, 0, 0}}), "start P@0");
    } else {
      s.Come({"beside"}, 0);
      EXPECT_EQ(s.Tell(FileLost{s.File("beside"), NodeId(0)}), "");
    }
    EXPECT_EQ(s.Come({"here"}, 0), "");
    EXPECT_EQ(s.Ended("P", 0), "done P, copy in@0, start A@0");
    s.Come({"in"}, 0);
    s.Started("A", 0);
    EXPECT_EQ(s.Over("A", 0), "drop in@0, done A, start B@0, copy beside@0, ahead C@0");
  }
}

// Were they left to other nodes, each node would take what it has not.
TEST(FetchAhead, WithoutLocalityWhateverIsNext) {
  FetchAhead s;
  s.Add("A", {}, {"in"});
  for (const char* name : {"B", "C"}) s.Add(name, {}, {"in"});
  s.Begin({{1, 0, 0}});
  s.Come({"in"}, 0);
  s.Started("A", 0);
  EXPECT_EQ(s.Over("A", 0), "done A, start B@0, ahead C@0");
}

TEST(FetchAhead, NotWhereTransfersAreShortToRuns) {
  for (const int milliseconds : {4, 6}) {
    FetchAhead s;
    s.transfer = std::chrono::milliseconds(milliseconds);
    const std::string over = s.WarmUp();
    EXPECT_EQ(over.find("ahead") != std::string::npos, milliseconds == 6) << over;
  }
}

TEST(FetchAhead, NotTasksOfSeveralCores) {
  FetchAhead s;
  s.profile.shape.cores = 2;
  s.Add("A", {}, {"a"});
  s.Add("B", {}, {"b"});
  s.Add("C", {}, {"c"});
  s.Begin({{2, 0, 0}});
  s.Come({"a"}, 0);
  EXPECT_EQ(s.Over("A", 0), "drop a@0, done A, copy b@0, start B@0");
}

TEST(FetchAhead, WhereThereIsNoRoomItIsAskedBackAndNoneFollowsForSomeTime) {
  FetchAhead s;
  s.WarmUp();
  s.Come({"in/B"}, 0);
  s.Started("B", 0);
  EXPECT_EQ(s.Tell(CopyFailed{s.File("in/C"), NodeId(0), NodeId(), Why::kNoRoom}), "back C@0");
  EXPECT_EQ(s.Returned("C", 0), "");
  EXPECT_EQ(s.Over("B", 0), "drop in/B@0, done B, copy in/C@0, start C@0")
      << "nobody waited for it, so it is asked for anew";
  s.Come({"in/C"}, 0);
  s.Started("C", 0);
  EXPECT_EQ(s.Over("C", 0), "drop in/C@0, done C, copy in/D@0, start D@0");
  s.Come({"in/D"}, 0);
  s.Started("D", 0);
  s.now += std::chrono::seconds(5);
  EXPECT_EQ(s.Over("D", 0), "drop in/D@0, done D, copy in/E@0, start E@0, copy in/F@0, ahead F@0");
}

TEST(FetchAhead, WhatBecomesReadyForItsNodeAndGoesFirstHasItAskedBack) {
  FetchAhead s(Policy::kLifo);
  s.transfer = kRun / 11;
  for (const char* name : {"A", "B", "C", "D", "E", "F", "G", "H"})
    s.Add(name, {}, {std::string("in/") + name});
  s.Add("P", {}, {"small"});
  s.Add("N", {"P"}, {"large"});
  s.TellAll({s.Added(), NodeJoined{NodeId(0), {1, 0, 0}}, NodeJoined{NodeId(1), {1, 0, 0}},
             FileStored{s.File("large"), NodeId(0), 1000}, FileStored{s.File("small"), NodeId(1), 10}});
  EXPECT_EQ(s.State("P"), TaskState::kSent);
  s.Come({"in/H"}, 0);
  s.Started("H", 0);
  EXPECT_EQ(s.Over("H", 0), "drop in/H@0, done H, copy in/G@0, start G@0, copy in/F@0, ahead F@0");
  EXPECT_EQ(s.Over("P", 1), "drop small@1, done P, back F@0, copy in/E@1, start E@1")
      << "N, with its input on node 0";
  EXPECT_EQ(s.Returned("F", 0), "");
  EXPECT_EQ(s.Come({"in/G", "in/F"}, 0), "") << "it stays";
  EXPECT_EQ(s.Over("G", 0), "drop in/G@0, done G, start N@0, ahead F@0");
}

TEST(FetchAhead, AsDeepAsTransfersAreLong) {
  const Options options{.local_files = true};
  TaskTable tasks;
  NodeTable nodes;
  const NodeId one(0);
  nodes.Grow(one);
  nodes.Join(one, {2, 0, 0});
  Ahead ahead(options, &tasks);
  ahead.Grow(1);
  const Time now{};
  EXPECT_TRUE(ahead.possible(one)) << "whatever a round trip takes";
  ahead.NoteRun(one, kRun);
  EXPECT_EQ(ahead.DepthOfFetching(one, 2, now), 0u) << "nothing has come yet";
  ahead.NoteCopy(one, kTransfer);
  EXPECT_EQ(ahead.DepthOfFetching(one, 2, now), 1u);
  EXPECT_EQ(ahead.DepthOfFetching(one, 3, now), 2u);
  EXPECT_EQ(ahead.Depth(one, 2), 0u);
  ahead.NoteCopy(one, 3 * kTransfer);
  EXPECT_EQ(ahead.DepthOfFetching(one, 2, now), 2u) << "100 ms: what is longer counts half";
  ahead.NoteCopy(one, Duration(0));
  EXPECT_EQ(ahead.DepthOfFetching(one, 7, now), 7u) << "88 ms: what is shorter an eighth";
  ahead.SetRoundTrip(one, kTransfer);
  EXPECT_EQ(ahead.DepthOfFetching(one, 2, now), 4u);
  ahead.NoteCopy(one, 100 * kRun);
  EXPECT_EQ(ahead.DepthOfFetching(one, 2, now), 8u) << "four a slot, however long copies take";
  ahead.NoteFull(one, now);
  EXPECT_EQ(ahead.DepthOfFetching(one, 2, now + std::chrono::milliseconds(4999)), 0u);
  EXPECT_GT(ahead.DepthOfFetching(one, 2, now + std::chrono::seconds(5)), 0u);
  EXPECT_FALSE(ahead.RecallPays(one, 30)) << "as long as six copies";
  EXPECT_TRUE(ahead.RecallPays(one, 31));
  ahead.ForgetRuns(one);
  EXPECT_EQ(ahead.DepthOfFetching(one, 2, now + std::chrono::seconds(5)), 0u);
}

TEST(FetchAhead, WhatTakesTheTwentiethPartOfARunIsWorthHiding) {
  const Options options{.local_files = true};
  TaskTable tasks;
  const NodeId one(0);
  for (const bool worth : {false, true}) {
    Ahead ahead(options, &tasks);
    ahead.Grow(1);
    ahead.NoteRun(one, std::chrono::seconds(20));
    ahead.NoteCopy(one, std::chrono::milliseconds(worth ? 1000 : 999));
    EXPECT_EQ(ahead.DepthOfFetching(one, 2, Time()), worth ? 1u : 0u);
  }
}

TEST(FetchAhead, ATaskIsAskedBackOnlyWhereItWouldWaitForLongerThanThatCosts) {
  const Options options;
  TaskTable tasks;
  Ahead ahead(options, &tasks);
  ahead.Grow(1);
  const NodeId one(0);
  ahead.NoteCopy(one, std::chrono::seconds(1));
  ahead.SetRoundTrip(one, std::chrono::seconds(2));
  EXPECT_FALSE(ahead.RecallPays(one, 8)) << "a round trip and six copies";
  EXPECT_TRUE(ahead.RecallPays(one, 8.001));
  ahead.NoteRun(one, std::chrono::seconds(9));
  EXPECT_TRUE(ahead.RecallPays(one)) << "it waits for as long as tasks run there";
}

/// Nodes of one slot, with one task ahead and with two.
struct TwoRows {
  explicit TwoRows(Duration run) {
    ahead.Grow(2);
    nodes.Grow(two);
    for (const NodeId id : {one, two}) {
      nodes.Join(id, {1, 0, 0});
      ahead.NoteRun(id, run);
      ahead.Add(id, TaskId(id.value));
    }
    ahead.Add(two, TaskId(2));
  }
  const Options options{.local_files = true};
  TaskTable tasks;
  NodeTable nodes;
  Ahead ahead{options, &tasks};
  const NodeId one{0}, two{1};
};

TEST(FetchAhead, ARowIsLongOnceNothingHasEndedThereForItsPartOfWhatARecallCosts) {
  TwoRows rows(kTransfer);
  Ahead& ahead = rows.ahead;
  NodeTable& nodes = rows.nodes;
  const NodeId one = rows.one, two = rows.two;
  const Time then{std::chrono::seconds(1)};
  for (const NodeId id : {one, two}) ahead.NoteCopy(id, kTransfer);  // so that to ask back costs six of them
  EXPECT_FALSE(ahead.LongestRow(nodes, then));
  EXPECT_EQ(ahead.again(), Time::max()) << "nothing has ended";
  ahead.NoteMoved(two, then);
  constexpr Duration kLater = std::chrono::milliseconds(1);
  ahead.NoteMoved(one, then - kLater);
  for (const Duration since : {Duration(0), 3 * kTransfer}) {
    EXPECT_FALSE(ahead.LongestRow(nodes, then + since));
    EXPECT_EQ(ahead.again(), then + 3 * kTransfer + kLater) << "the second of two";
  }
  EXPECT_EQ(ahead.LongestRow(nodes, ahead.again()), two);
  EXPECT_EQ(ahead.again(), Time::max());
  ahead.CountRecall(two);
  EXPECT_FALSE(ahead.LongestRow(nodes, then + 4 * kTransfer));
  EXPECT_EQ(ahead.again(), then + 6 * kTransfer) << "the first of both";
  ahead.CountRecall(two);
  ahead.NoteMoved(one, then + kTransfer);
  EXPECT_FALSE(ahead.LongestRow(nodes, then + 7 * kTransfer)) << "what was asked back waits no more";
  EXPECT_EQ(ahead.again(), then + 7 * kTransfer + kLater);
  EXPECT_EQ(ahead.LongestRow(nodes, ahead.again()), one);
  ahead.ForgetAgain();
  EXPECT_EQ(ahead.again(), Time::max());
}

TEST(FetchAhead, ANodeThatIsSilentIsNotAsked) {
  TwoRows rows(kRun);
  Ahead& ahead = rows.ahead;
  NodeTable& nodes = rows.nodes;
  const NodeId one = rows.one, two = rows.two;
  EXPECT_EQ(ahead.LongestRow(nodes, Time()), two);
  nodes.SetAccess(two, Node::Access::kSilent);
  EXPECT_EQ(ahead.LongestRow(nodes, Time()), one) << "which answers";
  nodes.SetAccess(two, Node::Access::kOpen);
  EXPECT_EQ(ahead.LongestRow(nodes, Time()), two);
}

/// Node 0 has had a run of 100 ms and a copy of 50 ms; now it runs "long", behind which C stands. Node 1 has
/// joined, and nothing else is ready.
class BehindALongTask : public FetchAhead {
 public:
  BehindALongTask() : FetchAhead(Policy::kFifo, 2) {
    for (const char* name : {"A", "long", "C"}) Add(name, {}, {std::string("in/") + name});
    Begin({{1, 0, 0}});
    Come({"in/A"}, 0);
    Started("A", 0);
    EXPECT_EQ(Over("A", 0), "drop in/A@0, done A, copy in/long@0, start long@0, copy in/C@0, ahead C@0");
    ended_ = now;
    Tell(NodeJoined{NodeId(1), {1, 0, 0}});
  }
  std::string After(Duration since_the_last_end) {
    now = ended_ + since_the_last_end;
    return Tell(TimeCame{});
  }
  /// From then, or max.
  Duration Wake() const {
    for (const Action& action : last()) {
      if (const auto* wake = std::get_if<WakeAt>(&action)) return wake->time - ended_;
    }
    return Duration::max();
  }

 private:
  Time ended_;
};

TEST(FetchAhead, AnIdleNodeGetsWhatWaitsBehindATaskThatRunsForFarLongerThanOthers) {
  BehindALongTask s;
  ASSERT_GE(s.Wake(), kSixCopies) << "nothing else would say so";
  ASSERT_LE(s.Wake(), kSixCopies + std::chrono::milliseconds(2));
  EXPECT_EQ(s.After(kSixCopies - Duration(1)), "") << "it may get its slot sooner";
  EXPECT_EQ(s.After(s.Wake()), "back C@0");
  EXPECT_EQ(s.Wake(), Duration::max()) << "nothing else is there";
  EXPECT_EQ(s.Returned("C", 0), "copy in/C@1 from 0, start C@1");
}

TEST(FetchAhead, ARunThatStartsNothingMoreIsNotWokenForThat) {
  BehindALongTask s;
  const Duration wake = s.Wake();
  EXPECT_EQ(s.Tell(DrainRequested{}), "back C@0");
  for (const Duration since : {wake, 2 * wake}) {
    s.After(since);
    EXPECT_EQ(s.Wake(), Duration::max()) << "again and again, as it has come";
  }
}

TEST(FetchAhead, TimeInWhichANodeHadNothingToDoIsNotWaitedForASlot) {
  FetchAhead s;
  s.Add("A", {}, {"here", "in"});
  s.Add("G");
  s.Add("long", {"G"}, {"here"});
  s.Add("C", {"G"}, {"here", "beside"});
  s.Add("Q", {"G"});
  EXPECT_EQ(s.TellAll({s.Added(), NodeJoined{NodeId(0), {1, 0, 0}}, NodeJoined{NodeId(1), {1, 0, 0}},
                       FileStored{s.File("here"), NodeId(0), 1000}}),
            "copy in@0, start A@0, start G@1");
  s.Come({"in"}, 0);
  s.Started("A", 0);
  s.Over("A", 0);
  s.now += std::chrono::seconds(100);
  EXPECT_EQ(s.Over("G", 1), "done G, start Q@1, start long@0, copy beside@0, ahead C@0");
  const Time full = s.now;
  s.now += std::chrono::milliseconds(1);
  EXPECT_EQ(s.Ended("Q", 1, Done{}, std::chrono::milliseconds(1)), "done Q");
  s.now = full + kSixCopies;
  EXPECT_EQ(s.Tell(TimeCame{}), "");
  s.now += std::chrono::milliseconds(1);
  EXPECT_EQ(s.Tell(TimeCame{}), "back C@0");
}

TEST(FetchAhead, WhatNobodyElseCouldTakeIsNotAskedBack) {
  BehindALongTask s;
  s.Tell(NodeLost{NodeId(1)});
  EXPECT_EQ(s.Wake(), Duration::max());
  EXPECT_EQ(s.After(10 * kSixCopies), "");
}

TEST(FetchAhead, NothingIsAskedBackForANodeThatIsGivenNothing) {
  BehindALongTask s;
  for (const char* name : {"X", "Y"}) {
    s.Add(name);
    EXPECT_EQ(s.Tell(s.Added()), StrCat("start ", name, "@1"));
    s.Ended(name, 1, Failed{1, true}, std::chrono::milliseconds(5));
  }
  EXPECT_EQ(s.Wake(), std::chrono::seconds(2)) << "when a suspect may have its next one";
  EXPECT_EQ(s.After(2 * kSixCopies), "");
  EXPECT_EQ(s.After(std::chrono::seconds(2)), "back C@0");
}

}  // namespace
}  // namespace harrow::core
