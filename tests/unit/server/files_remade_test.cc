// With files on the nodes' own disks: what is lost is made again where it can be, for whoever needs it.

#include <gtest/gtest.h>
#include <random>

#include "unit/server/several_servers.h"

namespace harrow::server {
namespace {

constexpr uint32_t kFirst = 0, kSecond = 1;

void GoOn(Several& run, int rounds = 100) {
  for (int round = 0; round < rounds && !run.AllComplete(); ++round) {
    run.ConnectAll();
    run.Settle();
    for (uint32_t part = 0; part < run.size(); ++part) {
      run.Pass(part, std::chrono::milliseconds(300));
      run.EndAll(part);
      run.PutAll(part);
    }
  }
}

/// a can run at the first server only; the second, which has made b of it, loses what b made before c has read it.
TEST(FilesRemade, WhatOnlyTheOtherCanMakeIsMadeThereForWhatIsMadeAgainHere) {
  Several run({{"a", "a", {}, {"f"}, Cores(2)}, {"b", "b", {"f"}, {"g"}}, {"c", "c", {"g"}, {"h"}}}, {2, 1}, false, true);
  run.ConnectAll();
  run.Settle();
  run.Move(1, 1);
  run.Move(2, 1);
  run.End(0, 0);
  run.Settle();
  run.SettlePuts(0);
  ASSERT_TRUE(run[1].runs.contains(1));
  run.End(1, 1);
  run.Settle();
  ASSERT_TRUE(run[1].runs.contains(2));
  run.LoseAgent(1);
  run.AgentComes(1);
  run.Settle();
  // Heard again
  run.LoseAgent(0);
  run.AgentComes(0);
  GoOn(run);
  EXPECT_TRUE(run.AllComplete()) << Standing(run);
  EXPECT_EQ(run.Successes().size(), 3u);
  EXPECT_EQ(run.wrong, std::vector<std::string>());
}

/// u can run at the first only, t at the second only, and all that they made is lost; c at the first reads what t made.
TEST(FilesRemade, EachCanMakeWhatTheOtherOneNeeds) {
  Several run({{"u", "u", {}, {"f"}, Cores(1, 200)}, {"t", "t", {"f"}, {"g"}, Cores(3)}, {"c", "c", {"g"}, {"h"}}}, {2, 3}, false, true, {300, 100}, true);
  run.ConnectAll();
  run.Settle();
  ASSERT_TRUE(run[0].runs.contains(0));
  run.Move(1, 1);
  run.End(0, 0);
  run.Settle();
  run.SettlePuts(0);
  ASSERT_TRUE(run[1].runs.contains(1));
  run.End(1, 1);
  run[1].puts.clear();
  run.LoseAgent(1);
  run.LoseAgent(0);
  run.exchange.clear();
  run.AgentComes(1);
  run.AgentComes(0);
  run.Settle();
  GoOn(run);
  EXPECT_TRUE(run.AllComplete()) << Standing(run);
  EXPECT_EQ(run.Successes().size(), 3u);
  EXPECT_EQ(run.wrong, std::vector<std::string>());
}

/// A server that leaves, of whose files one is lost.
TEST(FilesRemade, WhoDrainsAndHasLostAFile) {
  for (const bool interrupt : {false, true}) {
    SCOPED_TRACE(interrupt);
    Several run({{"a", "a", {}, {"f"}}, {"b", "b", {"f"}, {"g"}}, {"x", "x"}}, {1, 1}, false, true);
    run.ConnectAll();
    run.Settle();
    run.Move(2, 1);
    run.End(0, kFirst);
    run.Settle();
    ASSERT_TRUE(run[0].runs.contains(kSecond));
    (void)run[0].others->MoveTo(TaskId(1), 1);
    run.LoseFile(0, "f");
    run[0].driver->Drain();
    run.Turn(0);
    if (interrupt) run[0].driver->Interrupt(run.Now());
    run.Turn(0);
    if (run[0].runs.contains(kSecond)) run.End(0, kSecond, 143, pb::Attempt::INTERRUPTED);
    run.Settle();
    for (int i = 0; i < 20 && !interrupt; ++i) run.Report(), GoOn(run, 1);
    if (interrupt) GoOn(run, 20);
    EXPECT_TRUE(run[0].driver->complete()) << Standing(run);
    EXPECT_TRUE(run.AllComplete() || interrupt) << Standing(run);
  }
}

/// Each time that it has lost what b made it finds that what b reads has been removed from the exchange.
TEST(FilesRemade, WhatIsRemovedNowAndThenIsAskedForEachTime) {
  Several run({{"a", "a", {}, {"f"}, Cores(2)}, {"b", "b", {"f"}, {"g"}}, {"c", "c", {"g"}, {"h"}}, {"d", "d", {"f"}, {"i"}}}, {2, 1}, false, true);
  run.ConnectAll();
  run.Settle();
  run.Move(1, 1);
  run.Move(2, 1);
  run.End(0, 0);
  run.Settle();
  run.SettlePuts(0);
  ASSERT_TRUE(run[1].runs.contains(1));
  ASSERT_TRUE(run[0].runs.contains(3)) << "f stays there";
  run.End(1, 1);
  run.Settle();
  for (int times = 0; times < 4; ++times) {
    SCOPED_TRACE(times);
    ASSERT_TRUE(run[1].runs.contains(2));
    run.exchange.clear();
    run.LoseNode(1);
    run.SettlePuts(0);
    ASSERT_TRUE(run[1].runs.contains(1)) << Standing(run);
    run.End(1, 1);
    run.Settle();
  }
  GoOn(run);
  EXPECT_TRUE(run.AllComplete()) << Standing(run);
}

/// The exchange has been emptied. The owner has lost f, and takes the third one's word that it lies there, which it does not; the third one holds it.
TEST(FilesRemade, WhoHoldsItIsFoundThoughTheExchangeWasEmptied) {
  Several run({{"a", "a", {}, {"f"}, Cores(2)}, {"b", "b", {"f"}, {"g"}}, {"c", "c", {"f"}, {"h"}}, {"e", "e", {}, {"x"}}, {"d", "d", {"f", "x"}, {"i"}}}, {2, 1, 1}, false, true);
  run.ConnectAll();
  run.Settle();
  run.Move(1, 1);
  run.Move(2, 2);
  run.End(0, 0);
  run.Settle();
  run.SettlePuts(0);
  ASSERT_TRUE(run[0].runs.contains(3));
  ASSERT_TRUE(run[1].runs.contains(1));
  ASSERT_TRUE(run[2].runs.contains(2));
  run.exchange.clear();
  for (const uint32_t part : {0u, 1u}) {
    run.LoseFile(part, "f");
  }
  run.Settle();
  EXPECT_FALSE(core::IsSettled(StateOf(run, 1, 1))) << Standing(run);
  GoOn(run);
  EXPECT_TRUE(run.AllComplete()) << Standing(run);
}

/// Its agent hangs up while it copies: nobody is waited for who leaves (driver_saving.cc does not, either).
TEST(FilesRemade, WhoLeavesDoesNotWaitForAnAgentThatHasGone) {
  Several run({{"a", "a", {}, {"f"}}, {"b", "b", {"f"}, {"g"}}}, {1, 1}, false, true);
  run.ConnectAll();
  run.Settle();
  run.End(0, kFirst);
  run.Settle();
  run[0].driver->Interrupt(run.Now());
  run.End(0, kSecond, 143, pb::Attempt::INTERRUPTED);
  run.Settle();
  ASSERT_EQ(run[0].puts.size(), 1u);
  run[0].driver->Disconnected(run.Now(), run[0].node, run[0].channel.get());
  for (int times = 0; times < 100 && !run[0].driver->complete(); ++times) {
    run.Pass(0, std::chrono::seconds(1), false);
  }
  EXPECT_TRUE(run[0].driver->complete());
}

/// The first server has nothing left to do when it is asked for {f, g}, of which it has dropped g. It says that it has them not, and the scheduler
/// goes on believing that a's files are wanted. When its node is lost it asks for a, which settles, and RunComplete is told no more.
TEST(FilesRemade, WhoWasAskedInVainAndLosesTheRestIsCompleteInTheEnd) {
  Several run({{"a", "a", {}, {"f", "g"}}, {"b", "b", {"g"}, {"h"}}, {"c", "c", {"f", "h"}, {"i"}}}, {1, 1}, false, true);
  run.ConnectAll();
  run.Settle();
  run.Move(1, 1);
  run.Move(2, 1);
  run.End(0, 0);
  run.Settle();
  run.SettlePuts(0);
  ASSERT_TRUE(run[1].runs.contains(1));
  run.End(1, 1);
  run.Settle();
  ASSERT_EQ(run[0].held.size(), 1u) << "f";
  ASSERT_TRUE(run[1].runs.contains(2));
  run.exchange.clear();
  run.LoseNode(1);
  ASSERT_TRUE(run[0].runs.contains(0)) << "a is made again";
  run.LoseNode(0);
  GoOn(run);
  for (uint32_t task = 0; task < 3; ++task) EXPECT_EQ(StateOf(run, 0, task), core::TaskState::kDone);
  EXPECT_TRUE(run.AllComplete()) << Standing(run) << run[0].driver->complete() << run[1].driver->complete();
}

}  // namespace
}  // namespace harrow::server
