// Nodes that are full: what is dropped for what, who waits, and what fails.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/scheduler.h"
#include "support/local_scheduler.h"

namespace harrow::core {
namespace {

using ::testing::HasSubstr;
using Local = test::LocalScheduler;
using Why = CopyFailed::Why;

TEST(SupplyRoom, ANodeDropsWhatOthersHaveAndNoTaskThereReads) {
  Local s;
  for (const char* name : {"A", "B"}) s.Add(name, {}, {"in"});
  s.Add("Last", {"A", "B"}, {"in"});
  s.Add("C", {"A"}, {"large"});
  EXPECT_EQ(s.Begin({{1, 0, 0}, {1, 0, 0}}), "copy in@0, start A@0, copy in@1 from 0, start B@1");
  s.Stored("in", 0);
  s.Stored("in", 1);
  EXPECT_EQ(s.Ended("A", 0), "done A, copy large@0, start C@0");
  EXPECT_EQ(s.Failed("large", 0, Local::kNobody, Why::kNoRoom), "drop in@0, copy large@0")
      << "it lies in the submit directory, and is at node 1";
  EXPECT_EQ(s.Stored("large", 0), "");
}

/// A task reads some files, and one that runs next what finds no room.
std::string DroppedFor(int64_t wanted, int64_t each) {
  Local s;
  const Local::Words read = {"a", "b", "c", "d", "e"};
  s.Add("A", {}, read);
  s.Add("B", {"A"}, {"large"});
  s.Add("Last", {"B"}, read);
  if (wanted >= 0) s.Size("large", wanted);
  s.Begin({{1, 0, 0}});
  for (const std::string& file : read) s.Stored(file, 0, each);
  s.Ended("A", 0);
  return s.Failed("large", 0, Local::kNobody, Why::kNoRoom);
}

TEST(SupplyRoom, TwiceTheRoomIsMadeThatACopyNeeds) {
  EXPECT_EQ(DroppedFor(100, 100), "drop a@0, drop b@0, copy large@0");
  EXPECT_EQ(DroppedFor(100, 99), "drop a@0, drop b@0, drop c@0, copy large@0");
  EXPECT_EQ(DroppedFor(1, 100), "drop a@0, copy large@0");
}

TEST(SupplyRoom, AFileOfUnknownSizeCountsAsOneByte) {
  EXPECT_EQ(DroppedFor(-1, -1), "drop a@0, drop b@0, copy large@0");
  EXPECT_EQ(DroppedFor(2, -1), "drop a@0, drop b@0, drop c@0, drop d@0, copy large@0");
}

TEST(SupplyRoom, WhatWasOnlySentAheadIsNotWaitedFor) {
  Local s;
  s.Add("X", {}, {"x"});
  s.Add("A", {"X"}, {"a"});
  s.Add("B", {}, {"b"});
  s.Begin({{1, 0, 0}});
  s.now += std::chrono::milliseconds(50);
  s.Stored("x", 0);
  s.Started("X", 0);
  s.now += std::chrono::milliseconds(100);
  EXPECT_EQ(s.Ended("X", 0, Done{}, std::chrono::milliseconds(100)),
            "drop x@0, done X, copy b@0, start B@0, copy a@0, ahead A@0");
  EXPECT_EQ(s.Failed("a", 0, Local::kNobody, Why::kNoRoom), "back A@0");
  EXPECT_EQ(s.Failed("b", 0, Local::kNobody, Why::kNoRoom), "") << "tried once more";
  EXPECT_EQ(s.After(std::chrono::seconds(3)), "copy a@0, copy b@0");
  EXPECT_EQ(s.Failed("a", 0, Local::kNobody, Why::kNoRoom), "");
  EXPECT_EQ(s.Failed("b", 0, Local::kNobody, Why::kNoRoom), "refuse b@0")
      << "though A comes first by its number";
}

TEST(SupplyRoom, ACopyWaitsAsLongAsSomethingRuns) {
  Local s;
  s.Add("A", {}, {"in"});
  s.Add("B", {}, {"large"});
  s.Begin({{2, 0, 0}});
  s.Stored("in", 0);
  s.Started("A", 0);
  EXPECT_EQ(s.Failed("large", 0, Local::kNobody, Why::kNoRoom), "") << "A reads the other one";
  s.now += std::chrono::milliseconds(249);
  EXPECT_EQ(s.Tell(TimeCame{}), "");
  s.now += std::chrono::milliseconds(1);
  EXPECT_EQ(s.Tell(TimeCame{}), "copy large@0");
  EXPECT_EQ(s.Failed("large", 0, Local::kNobody, Why::kNoRoom), "");
  s.now += std::chrono::milliseconds(250);
  EXPECT_EQ(s.Tell(TimeCame{}), "") << "later each time";
  EXPECT_EQ(s.Ended("A", 0), "drop in@0, done A, copy large@0") << "there is more room now";
  EXPECT_EQ(s.Failed("large", 0, Local::kNobody, Why::kNoRoom), "") << "said before it was there, perhaps";
  s.now += std::chrono::milliseconds(2999);
  EXPECT_EQ(s.Tell(TimeCame{}), "");
  s.now += std::chrono::milliseconds(1);
  EXPECT_EQ(s.Tell(TimeCame{}), "copy large@0");
  EXPECT_EQ(s.Failed("large", 0, Local::kNobody, Why::kNoRoom), "refuse large@0")
      << "nothing is left to wait for";
  EXPECT_EQ(s.Ended("B", 0, Failed{}), "failed B, complete");
}

TEST(SupplyRoom, WhatWasRefusedIsRefusedAgain) {
  Local s;
  for (const char* name : {"A", "B", "C"}) s.Add(name, {}, {"large"});
  std::string answer = s.Begin({{1, 0, 0}});
  for (const char* name : {"A", "B", "C"}) {
    EXPECT_THAT(answer, HasSubstr(StrCat("copy large@0, start ", name, "@0")));
    if (name[0] == 'C') s.now += std::chrono::minutes(1);
    if (name[0] != 'B') {
      EXPECT_EQ(s.Failed("large", 0, Local::kNobody, Why::kNoRoom), "") << name;
      s.now += std::chrono::seconds(3);
      EXPECT_EQ(s.Tell(TimeCame{}), "copy large@0") << name;
    }
    EXPECT_EQ(s.Failed("large", 0, Local::kNobody, Why::kNoRoom), "refuse large@0") << name;
    answer = s.Ended(name, 0, Failed{});
  }
}

TEST(SupplyRoom, ATaskThatHasAllMayBeginAndIsWaitedFor) {
  Local s;
  s.Add("A", {}, {"in"});
  s.Add("B", {}, {"large"});
  s.Begin({{2, 0, 0}});
  EXPECT_EQ(s.Failed("large", 0, Local::kNobody, Why::kNoRoom), "") << "a copy is on its way";
  EXPECT_EQ(s.Stored("in", 0), "");
  s.now += std::chrono::milliseconds(250);
  EXPECT_EQ(s.Tell(TimeCame{}), "copy large@0");
  EXPECT_EQ(s.Failed("large", 0, Local::kNobody, Why::kNoRoom), "") << "A begins";
}

TEST(SupplyRoom, OfTwoThatWaitForEachOtherOneGoesFirst) {
  Local s;
  s.Add("A", {}, {"a", "b"});
  s.Add("B", {}, {"c", "d"});
  s.Begin({{2, 0, 0}});
  s.Stored("a", 0);
  s.Stored("c", 0);
  EXPECT_EQ(s.Failed("b", 0, Local::kNobody, Why::kNoRoom), "") << "d is on its way";
  EXPECT_EQ(s.Failed("d", 0, Local::kNobody, Why::kNoRoom), "") << "A goes first";
  s.now += std::chrono::milliseconds(250);
  EXPECT_EQ(s.Tell(TimeCame{}), "copy b@0, copy d@0");
  EXPECT_EQ(s.Failed("d", 0, Local::kNobody, Why::kNoRoom), "") << "still";
  EXPECT_EQ(s.Failed("b", 0, Local::kNobody, Why::kNoRoom), "drop c@0, copy b@0")
      << "c comes later, or it takes the room again";
  EXPECT_EQ(s.Stored("b", 0), "");
  s.now += std::chrono::seconds(1);
  EXPECT_EQ(s.Tell(TimeCame{}), "copy d@0");
  EXPECT_EQ(s.Failed("d", 0, Local::kNobody, Why::kNoRoom), "") << "A can begin";
  s.Started("A", 0);
  EXPECT_EQ(s.Ended("A", 0), "drop a@0, drop b@0, done A, copy c@0, copy d@0");
}

TEST(SupplyRoom, WhatNobodyThereWaitsForAnyMoreIsNotTriedAgain) {
  Local s;
  s.Add("A", {}, {"a"});
  s.Add("B", {}, {"large"});
  s.Begin({{2, 0, 0}});
  s.Stored("a", 0);
  EXPECT_EQ(s.Failed("large", 0, Local::kNobody, Why::kNoRoom), "");
  s.Tell(CancelRequested{s["B"]});
  EXPECT_EQ(s.Ended("B", 0, Cancelled{}), "cancelled B");
  s.now += std::chrono::seconds(1);
  EXPECT_EQ(s.Tell(TimeCame{}), "");
}

TEST(SupplyRoom, ATaskWhoseOutputsFindNoRoomIsTriedAgainAsLongAsSomeMayCome) {
  Local s;
  s.Add("A", {}, {"in"});
  s.Add("B", {}, {}, {"large"});
  s.Add("C", {}, {"large"});
  s.Begin({{2, 0, 0}});
  s.Stored("in", 0);
  s.Started("A", 0);
  const Failed no_room{.no_room = 500};
  for (int i = 0; i < 5; ++i) {
    s.Started("B", 0);
    EXPECT_EQ(s.Ended("B", 0, no_room), "") << "A may make room";
    s.now += std::chrono::seconds(1 << i) - Duration(1);
    EXPECT_EQ(s.Tell(TimeCame{}), "") << i;
    s.now += Duration(1);
    EXPECT_EQ(s.Tell(TimeCame{}), "start B@0") << i;
  }
  EXPECT_EQ(s.Ended("B", 0, no_room), "failed B, skipped C because B") << "that is enough";
}

TEST(SupplyRoom, ATaskWhoseOutputsFindNoRoomGoesElsewhere) {
  Local s({.steal = false});
  s.Add("A", {}, {"in"});
  s.Add("B", {}, {"in"}, {"large"});
  s.Add("C", {}, {"large"});
  s.Begin({{2, 0, 0}});
  s.Stored("in", 0);
  s.Tell(NodeJoined{NodeId(1), {1, 0, 0}});
  ASSERT_EQ(s.scheduler().node(s["B"]), NodeId(0));
  s.Started("A", 0);
  s.Started("B", 0);
  EXPECT_EQ(s.Ended("B", 0, Failed{.no_room = 500}), "");
  s.now += std::chrono::seconds(1);
  EXPECT_EQ(s.Tell(TimeCame{}), "copy in@1 from 0, start B@1") << "not where its input is";
  s.Stored("in", 1);
  s.Started("B", 1);
  EXPECT_EQ(s.Ended("B", 1, Failed{.no_room = 500}), "drop in@1") << "which leaves room there";
  s.now += std::chrono::seconds(2);
  EXPECT_THAT(s.Tell(TimeCame{}), HasSubstr("start B@"));
  EXPECT_THAT(s.Ended("B", s.scheduler().node(s["B"]).value), HasSubstr("done B"));
}

TEST(SupplyRoom, ATaskWithoutInputsGoesElsewhereThoughNothingElseGoesOn) {
  Local s({.steal = false});
  s.Add("B", {}, {}, {"large"});
  s.Begin({{1, 0, 0}, {1, 0, 0}, {1, 0, 0}});
  std::vector<bool> tried(3);
  for (int i = 0; i < 3; ++i) {
    const uint32_t node = s.scheduler().node(s["B"]).value;
    EXPECT_FALSE(tried.at(node)) << i;
    tried.at(node) = true;
    s.Started("B", node);
    const std::string ended = s.Ended("B", node, Failed{.no_room = 1});
    EXPECT_EQ(ended, i < 2 ? "" : "failed B, complete");
    s.now += std::chrono::seconds(1 << i);
    s.Tell(TimeCame{});
  }
}

TEST(SupplyRoom, WhereNothingElseGoesOnOutputsWithoutRoomFailTheirTask) {
  Local s;
  s.Add("B", {}, {}, {"large"});
  s.Begin({{1, 0, 0}});
  s.Started("B", 0);
  EXPECT_EQ(s.Ended("B", 0, Failed{.no_room = 500}), "failed B, complete");
}

TEST(SupplyRoom, ForOutputsToWhatOthersHaveIsDropped) {
  Local s;
  s.Add("A", {}, {"in"});
  s.Add("B", {"A"}, {}, {"large"});
  s.Add("C", {"B"}, {"in"});
  s.Begin({{1, 0, 0}});
  s.Stored("in", 0);
  EXPECT_EQ(s.Ended("A", 0), "done A, start B@0");
  EXPECT_EQ(s.Ended("B", 0, Failed{.no_room = 500}), "drop in@0") << "it lies in the submit directory";
  s.now += std::chrono::seconds(1);
  EXPECT_EQ(s.Tell(TimeCame{}), "start B@0");
  s.now += std::chrono::seconds(1);
  EXPECT_EQ(s.Ended("B", 0, Failed{.no_room = 500}), "failed B, skipped C because B, complete");
}

TEST(SupplyRoom, WhoWasToGetItFromThereAsksForItself) {
  Local s({.locality = false});
  s.Add("P", {}, {}, {"f"});
  for (const char* name : {"A", "B", "C", "D"}) s.Add(name, {}, {"f"});
  s.Begin(std::vector<NodeCapacity>(4, {1, 0, 0}));
  EXPECT_EQ(s.Made("P", 0, {"f"}),
            "done P, start A@0, copy f@1 from 0, start B@1, copy f@3 from 0, start C@3, copy f@2 from 1, "
            "start D@2");
  EXPECT_EQ(s.Failed("f", 1, 0, Why::kNoRoom), "copy f@2 from 0");
}

TEST(SupplyRoom, WhatOnlyANodeOutOfReachHasElsewhereIsKept) {
  for (const std::string how : {"", "hung up", "silent", "closed and silent", "back", "closed"}) {
    SCOPED_TRACE(how);
    Local s({.locality = false});
    s.Add("P", {}, {}, {"f"});
    s.Add("C", {}, {"f"});
    s.Add("D", {}, {"f"});
    s.Add("Last", {"C", "D"}, {"f"});
    s.Begin({{1, 0, 0}, {1, 0, 0}});
    s.Made("P", 0, {"f"});
    s.Stored("f", 1);
    s.Add("L", {}, {"large"});
    s.Tell(s.Added());
    EXPECT_EQ(s.Ended("C", 0), "done C, copy large@0, start L@0");
    if (how.starts_with("closed")) s.Tell(NodeClosed{NodeId(1)});
    if (how == "hung up" || how == "back") s.Tell(NodeHungUp{NodeId(1)});
    if (how == "back") s.Tell(NodeJoined{NodeId(1), {1, 0, 0}});
    if (how.ends_with("silent")) s.Tell(NodeSilent{NodeId(1)});
    const bool kept = how == "hung up" || how.ends_with("silent");
    EXPECT_EQ(s.Failed("large", 0, Local::kNobody, Why::kNoRoom), kept ? "" : "drop f@0, copy large@0");
  }
}

TEST(SupplyRoom, OutputsAreTriedAgainWhereRoomWasMadeWhileTheirTaskRan) {
  using std::chrono::milliseconds;
  Local s;
  s.Add("A", {}, {"in"});
  s.Add("B", {}, {}, {"large"});
  s.Add("C", {"B"});
  s.Begin({{2, 0, 0}});
  s.Stored("in", 0);
  s.Started("A", 0);
  s.Started("B", 0);
  EXPECT_EQ(s.Ended("A", 0), "drop in@0, done A")
      << "nobody reads it any more, and B may have ended before it was gone";
  s.now += milliseconds(600);
  EXPECT_EQ(s.Ended("B", 0, Failed{.no_room = 500}, milliseconds(100)), "");
  s.now += std::chrono::seconds(1);
  EXPECT_EQ(s.Tell(TimeCame{}), "start B@0");
  EXPECT_EQ(s.Ended("B", 0, Failed{.no_room = 500}, milliseconds(100)),
            "failed B, skipped C because B, complete");
}

}  // namespace
}  // namespace harrow::core
