// Tasks that want more replicas than one of what they make: when they are made, where, and again after
// losses.

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>

#include "core/scheduler.h"
#include "support/local_scheduler.h"

namespace harrow::core {
namespace {

using test::LocalScheduler;
using ::testing::HasSubstr;
using Why = CopyFailed::Why;

constexpr NodeCapacity kOneSlot = {1, 0, 0};

/// P makes f, of which it wants two replicas; "Hold" keeps its readers from beginning.
class Backed : public LocalScheduler {
 public:
  explicit Backed(uint32_t replicas = 2, bool steal = false) : LocalScheduler({.steal = steal}) {
    profile.replicas = replicas;
    Add("P", {}, {}, {"f"});
    profile.replicas = 1;
    Add("Hold");
    Add("C", {"Hold"}, {"f"});
  }
  /// All nodes are known; Hold runs on the last.
  std::string Begin(uint32_t nodes) {
    LocalScheduler::Begin(std::vector<NodeCapacity>(nodes, kOneSlot));
    return Tell(AllNodesJoined{});
  }
  /// Many makes so many files of which two replicas are wanted; they are read after Hold.
  Words AddMany(long count) {
    profile.replicas = 2;
    Words files;
    for (long i = 0; i < count; ++i) files.push_back("g" + std::to_string(i));
    Add("Many", {}, {}, files);
    Add("Reads", {"Hold"}, files);
    return files;
  }
  /// That were ordered in the last instant.
  long copies() const {
    return std::count_if(last().begin(), last().end(), [](const Action& action) { return std::holds_alternative<CopyFile>(action); });
  }
};

TEST(Backups, WhatATaskMadeIsCopiedToAnotherNodeWhenItIsDone) {
  Backed s;
  EXPECT_EQ(s.Begin(3), "");
  EXPECT_EQ(s.Stored("f", 0), "") << "its task may fail still";
  EXPECT_EQ(s.Made("P", 0, {"f"}), "done P, copy f@2 from 0") << "node 1 has something to do";
  EXPECT_FALSE(std::get<CopyFile>(s.last()[1]).reader);
  EXPECT_EQ(s.Stored("f", 2), "") << "there are two";
  EXPECT_EQ(s.Ended("Hold", 1), "done Hold, start C@0");
  EXPECT_EQ(s.scheduler().counts().home_bytes, 100u);
  EXPECT_EQ(s.Ended("C", 0), "drop f@0, drop f@2, done C, complete");
}

TEST(Backups, TheFirstNodeTakesOneAsAnyOther) {
  LocalScheduler s({.steal = false});
  s.Add("Hold");
  s.profile.replicas = 2;
  s.Add("P", {}, {}, {"f"});
  s.profile.replicas = 1;
  s.Add("C", {"Hold"}, {"f"});
  ASSERT_EQ(s.Begin({kOneSlot, kOneSlot}), "start Hold@0, start P@1");
  s.Tell(AllNodesJoined{});
  EXPECT_EQ(s.Made("P", 1, {"f"}), "done P, copy f@0 from 1");
}

TEST(Backups, TheNodeThatUsesTheSmallestPartOfItsSlotsIsTaken) {
  Backed s;
  s.Add("Half");
  s.LocalScheduler::Begin({kOneSlot, kOneSlot, {2, 0, 0}});
  s.Tell(AllNodesJoined{});
  ASSERT_EQ(s.scheduler().node(s["Hold"]), NodeId(1));
  ASSERT_EQ(s.scheduler().node(s["Half"]), NodeId(2));
  EXPECT_EQ(s.Made("P", 0, {"f"}), "done P, copy f@2 from 0") << "both run one task";
}

TEST(Backups, AllThatAreMissingAreOrderedAtOnce) {
  Backed s(3);
  s.Begin(4);
  EXPECT_EQ(s.Made("P", 0, {"f"}), "done P, copy f@2 from 0, copy f@3 from 0");
}

TEST(Backups, ATaskThatWantsOneGetsOne) {
  Backed s(1);
  s.Begin(3);
  EXPECT_EQ(s.Made("P", 0, {"f"}), "done P");
}

TEST(Backups, ABackupIsThereAndNotAtHome) {
  Backed s;
  s.Begin(2);
  s.Add("Q", {"P"});
  s.Tell(s.Added());
  EXPECT_EQ(s.Made("P", 0, {"f"}), "done P, start Q@0, copy f@1 from 0");
  s.Stored("f", 1);
  s.Tell(NodeClosed{NodeId(0)});
  EXPECT_EQ(s.Ended("Hold", 1), "done Hold, start C@1");
  EXPECT_EQ(s.scheduler().counts().local_bytes, 100u);
  EXPECT_EQ(s.scheduler().counts().home_bytes, 0u);
}

TEST(Backups, TheyAreBroughtBackToTheirNumberAfterEveryLoss) {
  Backed s;
  s.Begin(4);
  s.Made("P", 0, {"f"});
  s.Stored("f", 2);
  EXPECT_EQ(s.Tell(NodeLost{NodeId(0)}), "copy f@3 from 2");
  s.Stored("f", 3);
  EXPECT_EQ(s.Tell(NodeLost{NodeId(2)}), "copy f@1 from 3") << "busy, and the only one";
  EXPECT_EQ(s.Tell(NodeLost{NodeId(1)}), "start Hold@3") << "nobody else is left";
  EXPECT_EQ(s.Tell(NodeJoined{NodeId(5), kOneSlot}), "copy f@5 from 3");
  s.Stored("f", 5);
  EXPECT_EQ(s.Tell(FileLost{s.File("f"), NodeId(3)}), "copy f@3 from 5");
  EXPECT_EQ(s.State("P"), TaskState::kDone) << "never made again";
}

TEST(Backups, WhatLiesInTheSubmitDirectoryNoMoreIsCopied) {
  Backed s;
  s.Begin(3);
  s.Tell(FileShared{s.File("f")});
  EXPECT_EQ(s.Made("P", 0, {"f"}), "done P") << "it is safe there";
  EXPECT_EQ(s.Tell(FilesForgotten{{s.File("f")}}), "copy f@2 from 0");
}

TEST(Backups, WhatWasFoundAtOthersInPlaceOfTheSubmitDirectoryIsCopied) {
  Backed s;
  s.Begin(3);
  s.Tell(FileShared{s.File("f")});
  s.Made("P", 0, {"f"});
  EXPECT_EQ(s.Tell(FilesFound{s["P"], {}, {}, {s.File("f")}}), "copy f@2 from 0");
}

TEST(Backups, AreMadeForTasksThatComeWhenAllHadEnded) {
  Backed s;
  s.Begin(3);
  s.Tell(OtherServersThere{true});
  ASSERT_EQ(s.Tell(TasksTaken{{s["C"]}}), "");
  ASSERT_EQ(s.Made("P", 0, {"f"}), "done P, copy f@2 from 0");
  ASSERT_EQ(s.Ended("Hold", 1), "done Hold, complete");
  ASSERT_EQ(s.Failed("f", 2, 0, Why::kUnreachable), "");
  s.After(std::chrono::minutes(1));
  EXPECT_EQ(s.Tell(TasksGiven{{s["C"]}}), "start C@0, copy f@1 from 0");
}

/// The copy that waits for room is for a task; it counts as none, and no other node could have a backup.
TEST(Backups, WhereATaskNeedsItNoMoreItIsABackupAgain) {
  LocalScheduler s({.steal = true});
  s.profile.replicas = 2;
  s.Add("P", {}, {}, {"f"});
  s.profile.replicas = 1;
  s.Add("Hold");
  s.Add("Busy", {"P"});
  s.Add("C", {"Hold", "P"}, {"f"});
  ASSERT_EQ(s.Begin({kOneSlot, kOneSlot}), "start P@0, start Hold@1");
  ASSERT_EQ(s.Tell(AllNodesJoined{}), "");
  ASSERT_EQ(s.Made("P", 0, {"f"}), "done P, start Busy@0, copy f@1 from 0");
  ASSERT_EQ(s.Ended("Hold", 1), "done Hold, start C@1");
  ASSERT_EQ(s.Failed("f", 1, 0, Why::kNoRoom), "");
  ASSERT_EQ(s.Tell(CancelRequested{s["C"]}), "cancel C@1");
  ASSERT_EQ(s.Ended("C", 1, Cancelled{}), "cancelled C");
  EXPECT_EQ(s.After(std::chrono::minutes(5)), "copy f@1 from 0");
}

TEST(Backups, OfALostFileThatIsMadeAgainToo) {
  Backed s;
  s.Begin(3);
  s.Made("P", 0, {"f"});
  EXPECT_EQ(s.Tell(NodeLost{NodeId(0)}), "start P@2") << "before the backup had come";
  EXPECT_EQ(s.Made("P", 2, {"f"}), "done P, copy f@1 from 2");
}

TEST(Backups, OneNodeHasOneAndFewNodesAsManyAsTheyAre) {
  Backed s(4);
  s.Begin(1);
  EXPECT_EQ(s.Made("P", 0, {"f"}), "done P, start Hold@0");
  EXPECT_EQ(s.Tell(NodeJoined{NodeId(1), kOneSlot}), "copy f@1 from 0");
  const std::string more = s.Tell(NodeJoined{NodeId(2), kOneSlot});
  EXPECT_THAT(more, HasSubstr("copy f@2 from "));
  EXPECT_EQ(s.Stored("f", 1), "");
}

TEST(Backups, WhatATaskFetchedCounts) {
  Backed s;
  s.Add("D", {}, {"f"});
  s.Begin(2);
  EXPECT_EQ(s.Made("P", 0, {"f"}), "done P, start D@0, copy f@1 from 0");
  Backed t(2, true);
  t.Add("D", {}, {"f"});
  t.Add("E", {}, {"f"});
  t.Begin(3);
  EXPECT_EQ(t.Made("P", 0, {"f"}), "done P, start D@0, copy f@2 from 0, start E@2");
}

TEST(Backups, WhatLiesInTheSubmitDirectoryOrNobodyReadsNeedsNone) {
  Backed s;
  s.Begin(3);
  EXPECT_EQ(s.TellAll({FileShared{s.File("f")}, FileStored{s.File("f"), NodeId(0), 100},
                       TaskEnded{s.Latest("P"), NodeId(0), Done{}, Duration(1)}}),
            "done P");
  Backed t;
  t.Begin(3);
  EXPECT_EQ(t.TellAll({FileAbsent{t.File("f")}, TaskEnded{t.Latest("P"), NodeId(0), Done{}, Duration(1)}}),
            "done P");
}

TEST(Backups, NotBeforeAllNodesAreKnown) {
  Backed s;
  s.LocalScheduler::Begin({kOneSlot, kOneSlot, kOneSlot});
  EXPECT_EQ(s.Made("P", 0, {"f"}), "done P");
  EXPECT_EQ(s.Tell(AllNodesJoined{}), "copy f@2 from 0");
}

TEST(Backups, ANodeThatHasNoRoomIsLeftAloneForSomeTime) {
  Backed s;
  s.Begin(3);
  s.Made("P", 0, {"f"});
  EXPECT_EQ(s.Failed("f", 2, 0, Why::kNoRoom), "copy f@1 from 0") << "nothing is dropped for it";
  EXPECT_EQ(s.Failed("f", 1, 0, Why::kUnreachable), "");
  EXPECT_EQ(s.After(std::chrono::milliseconds(4999)), "");
  EXPECT_THAT(s.After(std::chrono::milliseconds(1)), HasSubstr("copy f@2 from 0"));
  for (int i = 0; i < 9; ++i) {
    s.Failed("f", 2, 0, Why::kUnreachable);
    s.Failed("f", 1, 0, Why::kUnreachable);
    s.After(std::chrono::seconds(5));
  }
  EXPECT_EQ(s.State("P"), TaskState::kDone) << "whom it does not reach has it all the same";
}

TEST(Backups, AHolderThatHasItNotIsBelieved) {
  Backed s;
  s.Begin(3);
  s.Made("P", 0, {"f"});
  EXPECT_THAT(s.Failed("f", 2, 0, Why::kAbsent), HasSubstr("drop f@0, start P@"));
}

TEST(Backups, ADamagedOneIsNotBlamedOnItsHolder) {
  Backed s;
  s.Begin(3);
  EXPECT_EQ(s.Made("P", 0, {"f"}), "done P, copy f@2 from 0");
  EXPECT_EQ(s.Failed("f", 2, 0, Why::kDamaged), "copy f@1 from 0") << "2 may be what damages";
  EXPECT_EQ(s.Failed("f", 1, 0, Why::kDamaged), "");
  EXPECT_EQ(s.After(std::chrono::seconds(5)), "copy f@2 from 0");
  EXPECT_EQ(s.State("P"), TaskState::kDone);
}

TEST(Backups, ASilentHolderIsNotAskedAndCounts) {
  Backed s;
  s.Begin(3);
  s.Made("P", 0, {"f"});
  s.Stored("f", 2);
  EXPECT_EQ(s.Tell(NodeSilent{NodeId(2)}), "") << "it may come back";
  EXPECT_EQ(s.Tell(NodeLost{NodeId(0)}), "") << "the only holder is silent";
  EXPECT_EQ(s.Tell(NodeJoined{NodeId(2), kOneSlot}), "copy f@1 from 2");
}

TEST(Backups, WhatASilentNodeHoldsIsMadeUpForAfterSomeTime) {
  for (const auto& [hung_up, silent] : {std::pair(true, false), {true, true}, {false, true}}) {
    Backed s;
    s.Begin(4);
    s.Made("P", 0, {"f"});
    s.Stored("f", 2);
    if (hung_up) {
      EXPECT_EQ(s.Tell(NodeHungUp{NodeId(2)}), "");
    }
    if (silent) s.Tell(NodeSilent{NodeId(2)});
    EXPECT_EQ(s.After(std::chrono::milliseconds(9999)), "") << "it may be back at once";
    EXPECT_EQ(s.After(std::chrono::milliseconds(1)), "copy f@3 from 0");
    s.Stored("f", 3);
    EXPECT_EQ(s.Tell(NodeJoined{NodeId(2), kOneSlot}), "") << "there are three now";
    EXPECT_EQ(s.Tell(NodeLost{NodeId(2)}), "") << "two of which are enough";
    EXPECT_EQ(s.State("P"), TaskState::kDone);
  }
}

TEST(Backups, ACopyToANodeThatIsAwayForLongIsNotCounted) {
  Backed s;
  s.Begin(4);
  EXPECT_EQ(s.Made("P", 0, {"f"}), "done P, copy f@2 from 0");
  EXPECT_EQ(s.Tell(NodeHungUp{NodeId(2)}), "");
  EXPECT_EQ(s.After(std::chrono::milliseconds(9999)), "");
  EXPECT_EQ(s.After(std::chrono::milliseconds(1)), "copy f@3 from 0");
}

TEST(Backups, WhatANodeHoldsThatOthersCannotReachIsMadeUpFor) {
  LocalScheduler s({.locality = false});
  s.profile.replicas = 2;
  s.Add("P", {}, {}, {"f"});
  s.profile.replicas = 1;
  s.Add("Q", {}, {}, {"g"});
  s.Add("R", {}, {}, {"h"});
  s.Add("L");
  s.Add("D", {}, {"g"});
  s.Add("E", {}, {"h"});
  s.Add("F", {"L"}, {"f"});
  s.Begin({kOneSlot});
  s.Made("P", 0, {"f"});
  s.Made("Q", 0, {"g"});
  EXPECT_EQ(s.Made("R", 0, {"h"}), "done R, start L@0");
  s.Tell(NodeJoined{NodeId(1), kOneSlot});
  s.Tell(NodeJoined{NodeId(2), kOneSlot});
  s.Tell(NodeJoined{NodeId(3), kOneSlot});
  EXPECT_EQ(s.Tell(AllNodesJoined{}), "copy f@3 from 0");
  s.Stored("f", 3);
  EXPECT_EQ(s.Tell(NodeJoined{NodeId(4), kOneSlot}), "");
  std::string answer;
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(answer.find("copy f"), std::string::npos);
    answer = s.Failed("g", 1, 0, Why::kUnreachable) + s.Failed("h", 2, 0, Why::kUnreachable);
    s.After(std::chrono::seconds(10));
  }
  EXPECT_THAT(answer, HasSubstr("aside @0"));
  EXPECT_THAT(answer, HasSubstr("copy f@1 from 3"));
}

TEST(Backups, ANodeThatIsBackInTimeNeedsNothing) {
  Backed s;
  s.Begin(4);
  s.Made("P", 0, {"f"});
  s.Stored("f", 2);
  s.Tell(NodeHungUp{NodeId(2)});
  s.After(std::chrono::seconds(9));
  EXPECT_EQ(s.Tell(NodeJoined{NodeId(2), kOneSlot}), "");
  EXPECT_EQ(s.After(std::chrono::seconds(9)), "");
  s.Tell(NodeHungUp{NodeId(2)});
  EXPECT_EQ(s.After(std::chrono::seconds(9)), "") << "the time begins anew";
  EXPECT_EQ(s.After(std::chrono::seconds(1)), "copy f@3 from 0");
}

TEST(Backups, OfManyFilesOnlySomeAreLookedAtInOneInstant) {
  constexpr uint32_t kFiles = 300;
  Backed s(1);
  const Backed::Words files = s.AddMany(kFiles);
  s.Begin(40);
  s.Made("P", 0, {"f"});
  ASSERT_EQ(s.scheduler().node(s["Many"]), NodeId(2));
  s.Made("Many", 2, files);
  EXPECT_EQ(s.copies(), 64);
  s.Tell(TimeCame{});
  EXPECT_EQ(s.copies(), 0) << "not again at once";
  std::map<uint32_t, uint32_t> to;
  long ordered = 64;
  for (int turn = 0; turn < 4; ++turn) {
    s.After(std::chrono::milliseconds(5));
    ordered += s.copies();
    for (const Action& action : s.last()) {
      if (const auto* copy = std::get_if<CopyFile>(&action)) ++to[copy->to.value];
    }
  }
  EXPECT_EQ(ordered, kFiles);
  for (const auto& [node, count] : to) EXPECT_LE(count, 8u) << node;
}

TEST(Backups, LooksInVainEndAfterARound) {
  Backed s(1);
  const Backed::Words files = s.AddMany(200);
  s.Begin(3);
  s.Made("P", 0, {"f"});
  ASSERT_EQ(s.scheduler().node(s["Many"]), NodeId(2));
  s.Tell(NodeSilent{NodeId(2)});
  s.Made("Many", 2, files);
  const auto wakes = [&](Duration time) {
    const Time until = s.now + time;
    int count = 0;
    while (true) {
      Time next = Time::max();
      for (const Action& action : s.last()) {
        if (const auto* wake = std::get_if<WakeAt>(&action)) next = wake->time;
      }
      if (next > until || count > 1000) return count;
      s.now = next;
      s.Tell(TimeCame{});
      ++count;
    }
  };
  EXPECT_LE(wakes(std::chrono::seconds(4)), 4) << "whose only holder is silent: once each";
  EXPECT_LE(wakes(std::chrono::seconds(6)), 10);
}

/// Nothing but what is asked for wakes the scheduler here.
TEST(Backups, WhatIsLeftToDoLaterIsWokenFor) {
  constexpr long kFiles = 150;
  Backed s(1);
  const Backed::Words files = s.AddMany(kFiles);
  s.Begin(40);
  s.Made("P", 0, {"f"});
  const uint32_t at = s.scheduler().node(s["Many"]).value;
  const auto wake = [&] {
    for (const Action& action : s.last()) {
      if (const auto* asked = std::get_if<WakeAt>(&action)) s.now = asked->time;
    }
    s.Tell(TimeCame{});
  };
  s.Made("Many", at, files);
  long ordered = s.copies();
  for (int turn = 0; turn < 2; ++turn) {
    wake();
    ordered += s.copies();
  }
  EXPECT_EQ(ordered, kFiles);

  Backed full;
  full.Begin(3);
  full.Made("P", 0, {"f"});
  full.Failed("f", 2, 0, Why::kNoRoom);
  full.Failed("f", 1, 0, Why::kNoRoom);
  const auto asked = std::find_if(full.last().begin(), full.last().end(),
                                  [](const Action& action) { return std::holds_alternative<WakeAt>(action); });
  ASSERT_NE(asked, full.last().end());
  EXPECT_EQ(std::get<WakeAt>(*asked).time, full.now + std::chrono::seconds(5));
}

TEST(Backups, OnlySomeAreOnTheirWayToANodeAtOneTime) {
  Backed s(1);
  const Backed::Words files = s.AddMany(40);
  s.Begin(2);
  EXPECT_EQ(s.Made("P", 0, {"f"}), "done P, start Many@0");
  const auto copies = [](const std::string& text) {
    size_t count = 0;
    for (size_t at = text.find("copy"); at != std::string::npos; at = text.find("copy", at + 1)) ++count;
    return count;
  };
  EXPECT_EQ(copies(s.Made("Many", 0, files)), 16u);
  for (int i = 0; i < 24; ++i) EXPECT_EQ(copies(s.Stored(files[i], 1)), 1u) << i;
  EXPECT_EQ(copies(s.Stored(files[24], 1)), 0u) << "all are on their way";
}

TEST(Backups, WhereTasksNeedTheRoomBackupsGoLastAndComeAgainElsewhere) {
  Backed s;
  s.Add("D", {}, {"in"});
  s.Add("E", {}, {"large"});
  s.Add("F", {"C"}, {"in"});
  s.Begin(3);
  ASSERT_EQ(s.scheduler().node(s["D"]), NodeId(2));
  s.Stored("in", 2);
  s.Stored("in", 1);
  EXPECT_EQ(s.Ended("Hold", 1), "done Hold, copy large@1, start E@1");
  EXPECT_EQ(s.Made("P", 0, {"f"}), "done P, start C@0, copy f@1 from 0");
  s.Stored("f", 1);
  const CopyFailed no_room{s.File("large"), NodeId(1), NodeId(), Why::kNoRoom};
  EXPECT_EQ(s.Tell(no_room), "drop in@1, copy large@1") << "it lies in the submit directory";
  EXPECT_EQ(s.Tell(no_room), "drop f@1, copy large@1, copy f@2 from 0");
}

}  // namespace
}  // namespace harrow::core
