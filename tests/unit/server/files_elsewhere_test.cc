// With files on the nodes' own disks: what a task reads has come to the submit directory before another server has the task, or hears that
// it can begin.

#include <gtest/gtest.h>
#include <random>

#include "unit/server/several_servers.h"

namespace harrow::server {
namespace {

constexpr uint32_t kA = 0, kB = 1;

Several TwoInARow() {
  return Several({{"a", "a", {}, {"f"}}, {"b", "b", {"f"}, {"g"}}}, {1, 1}, false, true);
}

core::TaskState StateOf(Several& run, uint32_t part, uint32_t task) {
  return run[part].driver->scheduler().state(TaskId(task));
}

TEST(FilesElsewhere, ATaskGoesWhenWhatItReadsIsThere) {
  Several run({{"a", "a", {}, {"f"}}, {"b", "b", {"f"}, {"g"}}, {"c", "c", {"f"}, {"h"}}}, {1, 1}, false, true);
  run.ConnectAll();
  run.End(0, kA);
  run.Settle();
  ASSERT_EQ(run[0].runs.size(), 1u);
  for (int i = 0; i < 3; ++i) {
    run.Report();
    run.Settle();
  }
  ASSERT_EQ(run[0].saves.size(), 1u) << "once";
  EXPECT_EQ(run[1].driver->scheduler().counts().elsewhere, 2u);
  run.Save(0);
  for (int i = 0; i < 3; ++i) {
    run.Report();
    run.Settle();
  }
  EXPECT_EQ(run[1].runs.size(), 1u);
  EXPECT_EQ(run.submit_dir.size(), 1u);
  for (const uint32_t part : {0u, 1u}) run.End(part, run[part].runs.begin()->first);
  run.Settle();
  EXPECT_TRUE(run.AllComplete());
  EXPECT_EQ(run.wrong, std::vector<std::string>());
}

TEST(FilesElsewhere, OthersHearOfATaskWhenWhatTheyReadIsThere) {
  Several run = TwoInARow();
  run.ConnectAll();
  run.Settle();
  ASSERT_TRUE(run[0].others->MoveTo(TaskId(kB), 1).ok());
  run.Turn(0);
  run.Settle();
  ASSERT_NE(StateOf(run, 1, kB), core::TaskState::kElsewhere);
  run.End(0, kA);
  run.Settle();
  EXPECT_EQ(run[0].saves.size(), 1u);
  EXPECT_EQ(StateOf(run, 1, kA), core::TaskState::kElsewhere) << "it is not told yet";
  EXPECT_FALSE(run[0].others->idle());
  run.Save(0);
  run.Settle();
  EXPECT_TRUE(run[0].others->idle());
  ASSERT_TRUE(run[1].runs.contains(kB));
  run.End(1, kB);
  run.Settle();
  EXPECT_TRUE(run.AllComplete());
  EXPECT_EQ(run.Successes(), (std::map<uint32_t, int>{{kA, 1}, {kB, 1}}));
  EXPECT_EQ(run.wrong, std::vector<std::string>());
  EXPECT_EQ(run[0].held, std::set<uint32_t>()) << "nobody reads it any more";
}

TEST(FilesElsewhere, WhatCannotBeCopiedIsMadeAgainThere) {
  Several run = TwoInARow();
  run.ConnectAll();
  run.Settle();
  ASSERT_TRUE(run[0].others->MoveTo(TaskId(kB), 1).ok());
  run.Turn(0);
  run.Settle();
  run.End(0, kA);
  run.Settle();
  run.Save(0, false);
  run.Settle();
  EXPECT_TRUE(run[0].saves.empty()) << "no other node has it";
  ASSERT_TRUE(run[1].runs.contains(kA));
  run.End(1, kA);
  run.Settle();
  ASSERT_TRUE(run[1].runs.contains(kB));
  run.End(1, kB);
  run.Settle();
  EXPECT_TRUE(run.AllComplete());
  EXPECT_EQ(run.wrong, std::vector<std::string>());
  const auto& fates = run[1].journal.history.fates;
  EXPECT_EQ(std::count_if(fates.begin(), fates.end(), [](const auto& fate) { return fate.task == TaskId(kA); }), 0) << "that is the other's to say";
}

/// The node goes while it copies: the task is done, and makes the file again, before others hear of it.
TEST(FilesElsewhere, WhatIsLostBeforeItWasCopiedIsMadeAgainHere) {
  Several run = TwoInARow();
  run.ConnectAll();
  run.Settle();
  ASSERT_TRUE(run[0].others->MoveTo(TaskId(kB), 1).ok());
  run.Turn(0);
  run.Settle();
  run.End(0, kA);
  run.Settle();
  ASSERT_EQ(run[0].saves.size(), 1u);
  run[0].saves.clear();
  run.LoseAgent(0);
  run.Settle();
  EXPECT_EQ(StateOf(run, 1, kA), core::TaskState::kElsewhere);
  run.AgentComes(0);
  run.Settle();
  ASSERT_TRUE(run[0].runs.contains(kA));
  run.End(0, kA);
  run.Settle();
  run.Pass(0, std::chrono::seconds(1));  // it looks now and then
  ASSERT_EQ(run[0].saves.size(), 1u);
  run.Save(0);
  run.Settle();
  ASSERT_TRUE(run[1].runs.contains(kB));
  EXPECT_EQ(run.wrong, std::vector<std::string>());
}

TEST(FilesElsewhere, TheNextServerCopiesWhatItsPredecessorDidNot) {
  for (const bool copied : {false, true}) {
    Several run = TwoInARow();
    run.ConnectAll();
    run.Settle();
    ASSERT_TRUE(run[0].others->MoveTo(TaskId(kB), 1).ok());
    run.Turn(0);
    run.Settle();
    run.End(0, kA);
    run.Commit(0);
    ASSERT_EQ(run[0].saves.size(), 1u);
    if (copied) run.submit_dir.insert(run[0].saves.front());  // and did not live to tell
    run.Start(0);
    run.ConnectAll();
    run.Settle();
    EXPECT_EQ(run[0].saves.size(), copied ? 0u : 1u);
    if (!copied) run.Save(0);
    run.Settle();
    EXPECT_TRUE(run[1].runs.contains(kB));
    EXPECT_EQ(run.wrong, std::vector<std::string>());
  }
}

TEST(FilesElsewhere, AJournalTellsWhatAPartThatIsOverHadCopied) {
  for (const bool copied : {true, false}) {
    Several run = TwoInARow();
    run.Settle();
    run.End(0, kA);
    run.Settle();
    Holdings holdings = *HoldingsOf(0, 2, {});
    holdings.own = {true, false};
    holdings.pending[1] = {{0, 1}, 1, {TaskId(kB)}, {}};
    OverPart over = {holdings, {{TaskId(kA), journal::TaskFate::kDone}}, {}};
    if (copied) {
      over.out = {"f", "not of this flow"};
      run.submit_dir.insert(run.graph().FindFile("f")->value);
    }
    run[1].others->PartOver(0, over);
    run.Turn(1);
    run.Commit(1);
    EXPECT_EQ(run[1].runs.contains(kB), copied);
    EXPECT_EQ(run[1].runs.contains(kA), !copied) << "it is lost";
    EXPECT_EQ(run.wrong, std::vector<std::string>());
  }
}

/// Whatever is cut and killed: nothing is asked for that is not there, and nothing is made twice.
void RandomRun(uint64_t seed) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const auto draw = [&](size_t end) { return static_cast<uint32_t>(random() % end); };
  std::vector<TinyTask> tasks(40);
  for (uint32_t i = 0; i < tasks.size(); ++i) {
    tasks[i].name = "t" + std::to_string(i);
    tasks[i].out = {"f" + std::to_string(i)};
    std::set<uint32_t> before;
    for (uint32_t n = draw(3); i > 0 && n > 0; --n) before.insert(draw(i));
    for (const uint32_t each : before) tasks[i].in.push_back("f" + std::to_string(each));
  }
  Several run(tasks, {1 + draw(3), 1 + draw(3), 1 + draw(3)}, false, true);
  size_t saves = 0;
  const auto save = [&](uint32_t part) {
    if (run[part].saves.empty()) return;
    run.Save(part);
    ++saves;
  };
  for (int step = 0; step < 3000 && !run.AllComplete(); ++step) {
    const uint32_t part = draw(run.size()), other = draw(run.size());
    switch (const uint32_t what = draw(20)) {
      case 0:
        if (draw(8) == 0) run.Start(part);
        break;
      case 1:
        if (draw(4) == 0) run.Cut(part, other);
        break;
      case 2:
      case 3:
        run.Connect(part, other);
        break;
      case 4:
      case 5:
        run.Report();
        break;
      case 6:
      case 7:
        save(part);
        break;
      default:
        if (what < 11) {
          run.Carry(part, other);
        } else if (what < 15) {
          run.Commit(part);
        } else if (!run[part].runs.empty()) {
          auto at = run[part].runs.begin();
          std::advance(at, draw(run[part].runs.size()));
          run.End(part, at->first);
        }
    }
    ASSERT_EQ(run.wrong, std::vector<std::string>());
    for (const auto& [task, times] : run.Successes()) ASSERT_EQ(times, 1) << "task " << task;
  }
  for (int round = 0; round < 200 && !run.AllComplete(); ++round) {
    run.ConnectAll();
    run.Report();
    run.Settle();
    for (uint32_t part = 0; part < run.size(); ++part) {
      while (!run[part].runs.empty()) run.End(part, run[part].runs.begin()->first);
      while (!run[part].saves.empty()) save(part);
    }
  }
  EXPECT_TRUE(run.AllComplete());
  EXPECT_EQ(run.Successes().size(), tasks.size());
  EXPECT_EQ(run.wrong, std::vector<std::string>());
}

TEST(FilesElsewhere, NothingIsMadeTwiceWhateverIsCutAndKilled) {
  const char* given = getenv("HARROW_TEST_SEED");
  const uint64_t first = given != nullptr ? strtoull(given, nullptr, 10) : std::random_device{}();
  for (uint64_t seed = first; seed < first + (getenv("HARROW_LONG") != nullptr ? 500 : 20); ++seed) {
    RandomRun(seed);
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace harrow::server
