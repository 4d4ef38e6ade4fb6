// With files on the nodes' own disks: what a task reads that another server's tasks have made is found, or made again, and of one execution.

#include <gtest/gtest.h>
#include <random>

#include "unit/server/several_servers.h"

namespace harrow::server {
namespace {

constexpr uint32_t kA = 0, kB = 1;

Several TwoInARow() {
  return Several({{"a", "a", {}, {"f"}}, {"b", "b", {"f"}, {"g"}}}, {1, 1}, false, true);
}

/// B is at the second server, and A done at the first, whose files B reads.
void BeginElsewhere(Several& run) {
  run.ConnectAll();
  run.Settle();
  run.Move(kB, 1);
  ASSERT_NE(StateOf(run, 1, kB), core::TaskState::kElsewhere);
  run.End(0, kA);
  run.Settle();
}

void ExpectEnd(Several& run) {
  ASSERT_TRUE(run[1].runs.contains(kB));
  ASSERT_TRUE(run.HasInputs(1, kB));
  run.End(1, kB);
  run.Settle();
  EXPECT_TRUE(run.AllComplete());
  EXPECT_EQ(run.wrong, std::vector<std::string>());
}

TEST(FilesElsewhere, WhatATaskReadsIsAskedForWhenItCouldBegin) {
  Several run = TwoInARow();
  BeginElsewhere(run);
  EXPECT_EQ(StateOf(run, 1, kA), core::TaskState::kWaiting) << "it would make the file again";
  ASSERT_EQ(run[0].puts.size(), 1u);
  EXPECT_FALSE(run[0].others->idle());
  run.Put(0);
  EXPECT_FALSE(run[1].runs.contains(kB)) << "the list is missing";
  ASSERT_EQ(run[0].puts.size(), 1u);
  run.Put(0);
  run.Settle();
  EXPECT_TRUE(run[0].others->idle());
  EXPECT_EQ(run.exchange.size(), 2u);
  EXPECT_TRUE(run.submit_dir.empty());
  EXPECT_FALSE(run[1].runs.contains(kA));
  ExpectEnd(run);
  EXPECT_EQ(run.Successes(), (std::map<uint32_t, int>{{kA, 1}, {kB, 1}}));
  EXPECT_TRUE(run[0].held.empty()) << "nobody reads it any more";
  EXPECT_TRUE(run.exchange.empty()) << "nor there";
}

TEST(FilesElsewhere, WhatNobodyElsewhereReadsStays) {
  Several run({{"a", "a", {}, {"f"}}, {"b", "b", {"f"}, {"g"}}, {"c", "c"}}, {1, 1}, false, true);
  run.ConnectAll();
  run.Settle();
  run.Move(2, 1);
  run.End(0, kA);
  run.Settle();
  run.End(1, 2);
  run.Settle();
  EXPECT_TRUE(run[0].puts.empty());
  EXPECT_TRUE(run[1].puts.empty());
}

/// One that reads two of its files moves when the first of them is there for another.
TEST(FilesElsewhere, MoreOfATaskIsAskedForWhenMoreIsRead) {
  Several run({{"a", "a", {}, {"f", "g"}}, {"b", "b", {"f"}, {"h"}}, {"c", "c", {"f", "g"}, {"i"}}, {"d", "d", {"g"}, {"j"}}}, {1, 1}, false, true);
  run.differ = true;
  run.ConnectAll();
  run.Settle();
  run.Move(1, 1);
  run.End(0, kA);
  run.Settle();
  run.SettlePuts(0);
  ASSERT_TRUE(run[1].runs.contains(1));
  EXPECT_EQ(run[1].held.size(), 1u) << "what it reads";
  const uint32_t own = run[0].runs.begin()->first;
  run.Move(own == 2 ? 3 : 2, 1);
  run.End(1, 1);
  run.End(0, own);
  run.Settle();
  run.SettlePuts(0);
  for (int times = 0; times < 2; ++times) {
    if (!run[1].runs.empty()) run.End(1, run[1].runs.begin()->first);
    run.Settle();
  }
  EXPECT_TRUE(run.AllComplete());
  EXPECT_EQ(run.Successes()[kA], 1);
  EXPECT_EQ(run.wrong, std::vector<std::string>());
}

TEST(FilesElsewhere, WhatCannotBeCopiedIsTriedAgain) {
  Several run = TwoInARow();
  BeginElsewhere(run);
  run.Put(0, false);
  run.Settle();
  EXPECT_TRUE(run[0].puts.empty()) << "no other node has it";
  run.Pass(0, std::chrono::milliseconds(900));
  EXPECT_TRUE(run[0].puts.empty());
  run.Pass(0, std::chrono::milliseconds(200));
  ASSERT_EQ(run[0].puts.size(), 1u);
  run.Put(0);
  run.Put(0, false);
  EXPECT_TRUE(run[0].puts.empty());
  run.Pass(0, std::chrono::seconds(1));
  ASSERT_EQ(run[0].puts.size(), 1u) << "the list alone";
  EXPECT_FALSE(run[0].puts.front().content().empty());
  run.Put(0);
  run.Settle();
  ExpectEnd(run);
  const auto& fates = run[1].journal.history.fates;
  EXPECT_EQ(std::count_if(fates.begin(), fates.end(), [](const auto& fate) { return fate.task == TaskId(kA); }), 0) << "that is the other's to say";
}

/// The disk is full, say.
TEST(FilesElsewhere, WhatCanNeverBeCopiedIsMadeThere) {
  Several run = TwoInARow();
  BeginElsewhere(run);
  for (int times = 0; times < 4; ++times) {
    ASSERT_EQ(run[0].puts.size(), 1u) << times;
    run.Put(0, false);
    run.Pass(0, std::chrono::seconds(1 << times));
    run.Settle();
  }
  EXPECT_TRUE(run[0].puts.empty());
  ASSERT_TRUE(run[1].runs.contains(kA));
  run.End(1, kA);
  run.Settle();
  ExpectEnd(run);
}

/// Who had it makes it again.
TEST(FilesElsewhere, WhatIsLostBeforeItIsThereIsMadeAgainByItsOwner) {
  Several run = TwoInARow();
  BeginElsewhere(run);
  run[0].puts.clear();
  run.LoseAgent(0);
  run.AgentComes(0);
  run.Settle();
  EXPECT_FALSE(run[1].runs.contains(kA));
  ASSERT_TRUE(run[0].runs.contains(kA));
  run.End(0, kA);
  run.Settle();
  run.SettlePuts(0);
  ExpectEnd(run);
}

/// Its node has dropped it, or never had it.
TEST(FilesElsewhere, WhatItsNodeHasNotIsMadeAgainByItsOwner) {
  Several run = TwoInARow();
  BeginElsewhere(run);
  run[0].held.clear();
  run.Put(0);
  run.Settle();
  ASSERT_TRUE(run[0].runs.contains(kA));
  run.End(0, kA);
  run.Settle();
  run.SettlePuts(0);
  ExpectEnd(run);
}

TEST(FilesElsewhere, WhatCannotBeReadThereIsAskedForOnceMore) {
  for (const bool damaged : {false, true}) {
    SCOPED_TRACE(damaged);
    Several run = TwoInARow();
    BeginElsewhere(run);
    run.PutAll(0);
    for (auto& [name, content] : run.exchange) {
      if (!TaskOfList(name)) content = "something else";
    }
    if (!damaged) run.exchange.clear();
    run.Settle();
    EXPECT_TRUE(run[1].held.empty());
    ASSERT_EQ(run[0].puts.size(), 1u);
    run.SettlePuts(0);
    ExpectEnd(run);
    EXPECT_EQ(run.Successes()[kA], 1);
  }
}

/// A node that does not see the directory, say.
TEST(FilesElsewhere, WhatCanNeverBeReadThereIsMadeHere) {
  Several run = TwoInARow();
  BeginElsewhere(run);
  for (int times = 0; times < 5 && !run[1].runs.contains(kA); ++times) {
    run.PutAll(0);
    run.exchange.clear();
    run.Settle();
  }
  ASSERT_TRUE(run[1].runs.contains(kA));
  run.End(1, kA);
  run.Settle();
  ExpectEnd(run);
}

/// The answer was lost with the connection.
TEST(FilesElsewhere, AnAgentThatComesBackIsAskedOnceMore) {
  Several run = TwoInARow();
  BeginElsewhere(run);
  ASSERT_EQ(run[0].puts.size(), 1u);
  run[0].puts.clear();
  run[0].driver->Disconnected(run.Now(), run[0].node, run[0].channel.get());
  run.Pass(0, std::chrono::milliseconds(300));
  EXPECT_TRUE(run[0].puts.empty());
  run.AgentComes(0);
  ASSERT_EQ(run[0].puts.size(), 1u);
  for (int times = 0; times < 3; ++times) run.Pass(0, std::chrono::milliseconds(300));
  EXPECT_EQ(run[0].puts.size(), 1u) << "it is at it";
  run.SettlePuts(0);
  ExpectEnd(run);
}

TEST(FilesElsewhere, AConnectionThatComesBackIsAskedOnceMore) {
  Several run = TwoInARow();
  BeginElsewhere(run);
  run.Cut(0, 1);
  EXPECT_TRUE(run[0].others->idle()) << "nobody waits who could be answered";
  run.SettlePuts(0);
  EXPECT_FALSE(run[1].runs.contains(kA)) << "it may be there still";
  run.ConnectAll();
  run.Settle();
  EXPECT_TRUE(run[0].puts.empty());
  ExpectEnd(run);
}

TEST(FilesElsewhere, TheNextServerGoesOnWhereItsPredecessorWas) {
  for (const uint32_t part : {0u, 1u}) {
    for (const int put : {0, 1, 2}) {
      SCOPED_TRACE(testing::Message() << "part " << part << ", put " << put);
      Several run = TwoInARow();
      BeginElsewhere(run);
      for (int times = 0; times < put; ++times) run.Put(0);
      run.Start(part);
      run.ConnectAll();
      run.Settle();
      run.SettlePuts(0);
      EXPECT_EQ(run.lists_read, part == 1 && put == 2 ? 1u : 0u);
      ExpectEnd(run);
      EXPECT_EQ(run.Successes()[kA], 1);
    }
  }
}

TEST(FilesElsewhere, TheNextServerRemovesWhatItsPredecessorHadPutThere) {
  Several run = TwoInARow();
  BeginElsewhere(run);
  run.SettlePuts(0);
  run.Start(0);
  run.ConnectAll();
  run.Settle();
  EXPECT_EQ(run.exchange.size(), 2u);
  ExpectEnd(run);
  EXPECT_TRUE(run.exchange.empty());
}

TEST(FilesElsewhere, WhatWasNotMadeIsKnownElsewhere) {
  Several run({{"a", "a", {}, {"f", "g"}}, {"b", "b", {"f", "g"}, {"h"}}}, {1, 1}, false, true);
  run.not_made = {run.graph().FindFile("g")->value};
  BeginElsewhere(run);
  run.SettlePuts(0);
  ExpectEnd(run);
  EXPECT_EQ(run.Successes()[kA], 1);
}

TEST(FilesElsewhere, OfAPartThatIsOverTellsWhatItHasLeft) {
  enum class Left { kNothing, kList, kResult, kResultThatIsGone, kSomebodyElses };
  for (const Left left : {Left::kNothing, Left::kList, Left::kResult, Left::kResultThatIsGone, Left::kSomebodyElses}) {
    SCOPED_TRACE(static_cast<int>(left));
    Several run = TwoInARow();
    run.Settle();
    run.End(0, kA);
    run.Settle();
    Holdings holdings = *HoldingsOf(0, 2, {});
    holdings.own = {true, false};
    holdings.pending[1] = {{0, 1}, 1, {TaskId(kB)}, {}};
    OverPart over = {.holdings = holdings, .fates = {{TaskId(kA), journal::TaskFate::kDone}}, .made = {}};
    const OutFile f{.file = *run.graph().FindFile("f"), .object = std::string(17, 'a'), .bytes = 10};
    if (left == Left::kList) {
      pb::MadeFiles list;
      MadeFiles{.task = TaskId(kA), .files = {f}}.Write(&list);
      run.exchange = {{f.Name(), f.object}, {ListName(TaskId(kA), "x"), list.SerializeAsString()}, {ListName(TaskId(kA), "a"), "no list"}};
    }
    if (left == Left::kResult || left == Left::kResultThatIsGone) over.results = {"f", "not of this flow"};
    if (left == Left::kResult || left == Left::kSomebodyElses) run.submit_dir[f.file.value] = f.object;
    over.lists = run.ExchangedNow();
    run[1].others->PartOver(0, over);
    run.Turn(1);
    run.Commit(1);
    const bool there = left == Left::kList || left == Left::kResult;
    EXPECT_EQ(run[1].runs.contains(kB), there);
    EXPECT_EQ(run[1].runs.contains(kA), !there) << "it is lost";
    EXPECT_EQ(run[1].held.contains(f.file.value), there);
    EXPECT_EQ(run.wrong, std::vector<std::string>());
  }
}

/// It was asked, and had put it there when it ended.
TEST(FilesElsewhere, WhatWasLeftByWhoWasAskedIsFound) {
  Several run = TwoInARow();
  BeginElsewhere(run);
  run.PutAll(0);
  run.Cut(0, 1);
  Holdings holdings = *HoldingsOf(0, 2, {});
  holdings.own = {true, false};
  run[1].others->PartOver(0, {.holdings = holdings, .fates = {{TaskId(kA), journal::TaskFate::kDone}}, .made = {}, .lists = run.ExchangedNow()});
  run.Turn(1);
  ASSERT_TRUE(run[1].runs.contains(kB));
  EXPECT_TRUE(run.HasInputs(1, kB));
  EXPECT_EQ(run.lists_read, 1u);
}

TEST(FilesElsewhere, WhoMakesSomethingAgainForAnotherIsNotComplete) {
  Several run = TwoInARow();
  BeginElsewhere(run);
  run[0].puts.clear();
  run.LoseAgent(0);
  run.AgentComes(0);
  run.Settle();
  ASSERT_TRUE(run[0].runs.contains(kA));
  run[0].driver->Interrupt(run.Now());
  run.Turn(0);
  EXPECT_FALSE(run[0].driver->complete());
  run.End(0, kA, 143, pb::Attempt::INTERRUPTED);
  run.Settle();
  EXPECT_TRUE(run[0].driver->complete());
}

/// One that is told to leave puts what the others will read; one that has nothing to do does not.
TEST(FilesElsewhere, WhoLeavesPutsWhatOpenTasksRead) {
  Several run({{"a", "a", {}, {"f"}}, {"b", "b", {"f"}, {"g"}}, {"x", "x"}}, {1, 1}, false, true);
  run.ConnectAll();
  run.Settle();
  run.Move(2, 1);
  ASSERT_TRUE(run[1].runs.contains(2)) << "which takes the only slot";
  run.End(0, kA);
  run.Settle();
  ASSERT_TRUE(run[0].runs.contains(kB));
  run[0].driver->Drain();
  run.Turn(0);
  run[0].driver->Interrupt(run.Now());
  EXPECT_TRUE(run[0].puts.empty()) << "it runs still";
  run.End(0, kB, 143, pb::Attempt::INTERRUPTED);
  run.Settle();
  EXPECT_FALSE(run[0].driver->complete());
  ASSERT_EQ(run[0].puts.size(), 1u);
  run.SettlePuts(0);
  EXPECT_TRUE(run[0].driver->complete());
  EXPECT_EQ(run.exchange.size(), 2u);
}

TEST(FilesElsewhere, WhoLeavesAndCannotPutItLeaves) {
  Several run({{"a", "a", {}, {"f"}}, {"b", "b", {"f"}, {"g"}}}, {1, 1}, false, true);
  run.ConnectAll();
  run.Settle();
  run.End(0, kA);
  run.Settle();
  run[0].driver->Interrupt(run.Now());
  run.End(0, kB, 143, pb::Attempt::INTERRUPTED);
  run.Settle();
  ASSERT_EQ(run[0].puts.size(), 1u);
  run.Put(0, false);
  run.Turn(0);
  EXPECT_TRUE(run[0].driver->complete());
}

graph::Profile Kept() {
  graph::Profile profile;
  profile.keep = true;
  return profile;
}

/// Somebody has removed it from the submit directory, or written something else there.
TEST(FilesElsewhere, AResultThatIsGoneComesFromItsNode) {
  for (const bool changed : {false, true}) {
    SCOPED_TRACE(changed);
    Several run({{"a", "a", {}, {"f"}, Kept()}, {"b", "b", {"f"}, {"g"}}}, {1, 1}, false, true);
    BeginElsewhere(run);
    run.submit_dir.clear();
    if (changed) run.submit_dir[run.graph().FindFile("f")->value] = "something else";
    run.SettlePuts(0);
    ASSERT_EQ(run[0].puts.size(), 1u);
    run.SettlePuts(0);
    EXPECT_EQ(run.exchange.size(), 3u) << "two lists";
    ExpectEnd(run);
    EXPECT_EQ(run.Successes()[kA], 1);
  }
}

/// Which lie in the submit directory, and are written once more when their task is made again.
TEST(FilesElsewhere, ResultsOfTwoExecutionsAreNotReadTogether) {
  Several run({{"a", "a", {}, {"f", "g", "z"}, Kept()}, {"b", "b", {"f"}, {"h"}}, {"c", "c", {"f", "g"}, {"i"}}, {"d", "d", {"z"}, {"j"}}, {"x", "x"}}, {1, 1, 1}, false, true);
  run.differ = true;
  run.ConnectAll();
  run.Settle();
  run.Move(4, 1), run.Move(1, 1), run.Move(2, 1), run.Move(3, 2);
  run.Cut(0, 2);  // it asks later than the others
  run.End(0, kA);
  run.Settle();
  run.SettlePuts(0);
  run.End(1, 4);
  run.Settle();
  run.SettlePuts(0);
  run.Cut(0, 1);
  for (uint32_t part : {1u, 2u}) {
    OverPart over = {.holdings = *HoldingsOf(0, 5, run[0].journal.history.moves), .fates = {{TaskId(kA), journal::TaskFate::kDone}}, .made = {}};
    over.lists = run.ExchangedNow();
    run[part].others->PartOver(0, over);
    run.Turn(part);
  }
  run.Settle();
  for (int times = 0; times < 3; ++times) {
    if (run[2].runs.contains(kA)) run.End(2, kA);
    run.Settle();
  }
  for (int times = 0; times < 8; ++times) {
    for (const uint32_t part : {1u, 2u}) {
      for (uint32_t task = 0; task < 4; ++task) {
        if (run[part].runs.contains(task) && run.HasInputs(part, task)) {
          run.End(part, task);
          break;
        }
      }
      run.PutAll(part);
    }
    run.Settle();
  }
  EXPECT_EQ(run.wrong, std::vector<std::string>());
  for (uint32_t task = 1; task < 4; ++task) EXPECT_TRUE(run.Successes().contains(task)) << task;
}

/// Once it was told, it stays told.
TEST(FilesElsewhere, WhatWasToldIsToldWithMoreOfTheSame) {
  enum : uint32_t { kC = 2, kD, kW, kY };
  Several run({{"a", "a", {}, {"f", "g"}}, {"b", "b", {"f"}, {"h"}}, {"c", "c", {"g", "u"}, {"i"}}, {"d", "d", {"f", "v"}, {"j"}}, {"w", "w", {}, {"v"}}, {"y", "y", {}, {"u"}}},
              {1, 3}, false, true);
  run.ConnectAll();
  run.Settle();
  const auto settle = [&](uint32_t part) {
    run.Settle();
    run.SettlePuts(part);
  };
  const auto lose = [&] {
    run.LoseAgent(0);
    run.AgentComes(0);
    run.Settle();
  };
  run.Move(kW, 1), run.Move(kY, 1), run.Move(kB, 1);
  run.End(0, kA);
  settle(0);
  run.Move(kC, 1);
  lose();
  run.End(1, kB);
  run.Settle();
  run.End(1, kY);
  settle(0);
  if (run[0].runs.contains(kA)) run.End(0, kA);
  settle(0);
  lose();
  run.End(1, kW);
  settle(1);
  settle(0);
  EXPECT_EQ(run.wrong, std::vector<std::string>());
}

/// What was told of the execution before is not told with what the next one has made.
TEST(FilesElsewhere, WhatIsMadeAnewIsToldAnew) {
  enum : uint32_t { kC = 2, kD, kX };
  Several run({{"a", "a", {}, {"f", "g"}}, {"b", "b", {"f"}, {"h"}}, {"c", "c", {"g", "y"}, {"i"}}, {"d", "d", {"f", "g", "i"}, {"j"}}, {"x", "x", {}, {"y"}}}, {1, 2, 1}, false, true);
  run.differ = true;
  run.ConnectAll();
  run.Settle();
  run.Move(kB, 1), run.Move(kX, 1);
  run.End(0, kA);
  run.Settle();
  run.SettlePuts(0);
  ASSERT_TRUE(run[1].runs.contains(kB));
  EXPECT_EQ(run[1].held.size(), 1u) << "f";
  run.Move(kC, 1), run.Move(kD, 2);
  run.LoseAgent(0);
  run.AgentComes(0);
  run.Settle();
  run.End(1, kX);
  for (int times = 0; times < 9; ++times) {
    run.Settle();
    for (const uint32_t part : {0u, 1u, 2u}) {
      run.PutAll(part);
      for (uint32_t task = 0; task <= kX; ++task) {
        if (run[part].runs.contains(task) && run.HasInputs(part, task)) run.End(part, task);
      }
    }
  }
  EXPECT_EQ(run.wrong, std::vector<std::string>());
  EXPECT_EQ(run.Successes().size(), 5u);
  EXPECT_EQ(run.Successes()[kA], 2);
}

}  // namespace
}  // namespace harrow::server
