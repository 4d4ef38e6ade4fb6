// With files on the nodes' own disks: what a task reads lies in the run's exchange before another server has the task, or hears that it can
// begin.

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
  ASSERT_EQ(run[0].puts.size(), 1u) << "once";
  EXPECT_EQ(run[1].driver->scheduler().counts().elsewhere, 2u);
  run.Put(0);
  for (int i = 0; i < 3; ++i) {
    run.Report();
    run.Settle();
  }
  EXPECT_EQ(run[1].runs.size(), 1u);
  EXPECT_EQ(run.exchange.size(), 1u);
  EXPECT_TRUE(run.submit_dir.empty());
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
  EXPECT_EQ(run[0].puts.size(), 1u);
  EXPECT_EQ(StateOf(run, 1, kA), core::TaskState::kElsewhere) << "it is not told yet";
  EXPECT_FALSE(run[0].others->idle());
  run.Put(0);
  run.Settle();
  EXPECT_TRUE(run[0].others->idle());
  ASSERT_TRUE(run[1].runs.contains(kB));
  run.End(1, kB);
  run.Settle();
  EXPECT_TRUE(run.AllComplete());
  EXPECT_EQ(run.Successes(), (std::map<uint32_t, int>{{kA, 1}, {kB, 1}}));
  EXPECT_EQ(run.wrong, std::vector<std::string>());
  EXPECT_TRUE(run[0].held.empty()) << "nobody reads it any more";
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
  run.Put(0, false);
  run.Settle();
  EXPECT_TRUE(run[0].puts.empty()) << "no other node has it";
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

/// The node goes while it copies, and nobody here may read the file, or be able to make it: who reads it makes it again.
TEST(FilesElsewhere, WhatIsLostBeforeItWasPutIsMadeAgainThere) {
  for (const bool drains : {false, true}) {
    Several run = TwoInARow();
    run.ConnectAll();
    run.Settle();
    ASSERT_TRUE(run[0].others->MoveTo(TaskId(kB), 1).ok());
    run.Turn(0);
    run.Settle();
    run.End(0, kA);
    run.Settle();
    ASSERT_EQ(run[0].puts.size(), 1u);
    EXPECT_EQ(StateOf(run, 1, kA), core::TaskState::kElsewhere);
    run[0].puts.clear();
    if (drains) run[0].driver->Drain();
    run.LoseAgent(0);
    run[0].others->GoOn();
    run.Settle();
    ASSERT_TRUE(run[1].runs.contains(kA));
    run.End(1, kA);
    run.Settle();
    ASSERT_TRUE(run[1].runs.contains(kB));
    EXPECT_EQ(run.wrong, std::vector<std::string>());
    EXPECT_TRUE(run[0].others->idle());
  }
}

/// Somebody has emptied the directory.
TEST(FilesElsewhere, WhatCannotBeReadIsMadeAgainThere) {
  Several run = TwoInARow();
  run.ConnectAll();
  run.Settle();
  ASSERT_TRUE(run[0].others->MoveTo(TaskId(kB), 1).ok());
  run.Turn(0);
  run.Settle();
  run.End(0, kA);
  run.Settle();
  run.Put(0);
  run.exchange.clear();
  run.Settle();
  ASSERT_TRUE(run[1].runs.contains(kA));
  EXPECT_FALSE(run[1].runs.contains(kB) && run[1].held.empty());
  run.End(1, kA);
  run.Settle();
  ASSERT_TRUE(run[1].runs.contains(kB));
  run.End(1, kB);
  run.Settle();
  EXPECT_TRUE(run.AllComplete());
  EXPECT_EQ(run.wrong, std::vector<std::string>());
}

/// The answer was lost with the connection.
TEST(FilesElsewhere, AnAgentThatComesBackIsAskedOnceMore) {
  Several run = TwoInARow();
  run.ConnectAll();
  run.Settle();
  ASSERT_TRUE(run[0].others->MoveTo(TaskId(kB), 1).ok());
  run.Turn(0);
  run.Settle();
  run.End(0, kA);
  run.Settle();
  ASSERT_EQ(run[0].puts.size(), 1u);
  run[0].puts.clear();
  run[0].driver->Disconnected(run.Now(), run[0].node, run[0].channel.get());
  run.AgentComes(0);
  ASSERT_EQ(run[0].puts.size(), 1u);
  run.Put(0);
  run.Settle();
  EXPECT_TRUE(run[1].runs.contains(kB));
  EXPECT_EQ(run.wrong, std::vector<std::string>());
}

/// It is made anew while it is copied: what others are told of is there.
TEST(FilesElsewhere, OnlyTheObjectThatWasAskedForCounts) {
  Several run = TwoInARow();
  run.ConnectAll();
  run.Settle();
  ASSERT_TRUE(run[0].others->MoveTo(TaskId(kB), 1).ok());
  run.Turn(0);
  run.Settle();
  run.End(0, kA);
  run.Settle();
  ASSERT_EQ(run[0].puts.size(), 1u);
  run[0].puts.clear();
  pb::FromAgent other;
  pb::FileNote* const note = other.add_file();
  note->set_file(run.graph().FindFile("f")->value);
  note->set_what(pb::FileNote::PUT);
  note->set_object(std::string(17, '!'));
  run[0].driver->Handle(run.Now(), run[0].node, other);
  run.Turn(0);
  run.Settle();
  EXPECT_EQ(StateOf(run, 1, kA), core::TaskState::kElsewhere);
  ASSERT_EQ(run[0].puts.size(), 1u) << "it is asked again";
  run.Put(0);
  run.Settle();
  EXPECT_TRUE(run[1].runs.contains(kB));
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
    ASSERT_EQ(run[0].puts.size(), 1u);
    if (copied) run.exchange.insert(run[0].puts.front().Name());  // and did not live to tell
    run.Start(0);
    run.ConnectAll();
    run.Settle();
    EXPECT_EQ(run[0].puts.size(), copied ? 0u : 1u);
    if (!copied) run.Put(0);
    run.Settle();
    EXPECT_TRUE(run[1].runs.contains(kB));
    EXPECT_EQ(run.wrong, std::vector<std::string>());
  }
}

/// In one allocation, too: nobody holds it, and it need not be made.
TEST(FilesElsewhere, TheNextServerKnowsWhatWasNotMade) {
  for (const bool made_later : {false, true}) {
    Several run = TwoInARow();
    const uint32_t f = run.graph().FindFile("f")->value;
    run.Settle();
    run.not_made = {f};
    run.End(0, kA);
    run.Commit(0);
    ASSERT_TRUE(run[0].runs.contains(kB));
    EXPECT_EQ(run.exchange, std::set<std::string>{Exchanged{FileId(f)}.Name()});
    run[0].runs.clear();
    if (made_later) {
      run.exchange.insert(Exchanged{FileId(f), std::string(17, 'a'), 10}.Name());
      run.not_made.clear();
    }
    run.Start(0);
    run.Settle();
    run.LoseAgent(0);
    run.AgentComes(0);
    run.Settle();
    EXPECT_TRUE(run[0].runs.contains(kB));
    EXPECT_FALSE(run[0].runs.contains(kA));
    EXPECT_EQ(run[0].held.contains(f), made_later) << "what there is counts more than that there was nothing";
    EXPECT_EQ(run.wrong, std::vector<std::string>());
  }
}

/// Of one file there are two: what was made of it, and what was made again. Who begins takes either; what another server tells is the later one.
TEST(FilesElsewhere, WhatIsToldReplacesWhatWasFound) {
  Several run = TwoInARow();
  const FileId f = *run.graph().FindFile("f");
  const Exchanged old{f, std::string(17, 'o'), 10}, other{f, std::string(17, 'p'), 10}, told{f, std::string(17, 'q'), 10};
  run.exchange = {old.Name(), other.Name(), told.Name()};
  run.Start(1);
  run.Settle();
  run[1].driver->NoteOut({.exchanged = {told}, .shared = {}});
  Holdings holdings = *HoldingsOf(0, 2, {});
  holdings.own = {true, false};
  holdings.pending[1] = {{0, 1}, 1, {TaskId(kB)}, {}};
  run[1].others->PartOver(0, {holdings, {{TaskId(kA), journal::TaskFate::kDone}}, {}});
  run.Turn(1);
  run.Commit(1);
  ASSERT_TRUE(run[1].runs.contains(kB));
  EXPECT_EQ(run[1].held[f.value], told.object);
  // From now on it is what its readers have.
  run[1].driver->NoteOut({.exchanged = {old}, .shared = {}});
  run.Turn(1);
  EXPECT_EQ(run[1].held[f.value], told.object);
  EXPECT_EQ(run[1].driver->OutputsOut(TaskId(kA)).exchanged, std::vector<Exchanged>{told});
}

TEST(FilesElsewhere, WhatIsMadeAfterAllIsThere) {
  Several run = TwoInARow();
  const uint32_t f = run.graph().FindFile("f")->value;
  run.exchange = {Exchanged{FileId(f)}.Name()};
  run.Start(0);
  run.Settle();
  run.End(0, kA);
  run.Settle();
  EXPECT_TRUE(run.exchange.empty());
  EXPECT_TRUE(run[0].runs.contains(kB) && run.HasInputs(0, kB));
}

TEST(FilesElsewhere, OfAPartThatIsOverTheExchangeTells) {
  enum class Lies { kNowhere, kExchange, kSubmitDir, kNotMade };
  for (const Lies lies : {Lies::kNowhere, Lies::kExchange, Lies::kSubmitDir, Lies::kNotMade}) {
    SCOPED_TRACE(static_cast<int>(lies));
    Several run = TwoInARow();
    run.Settle();
    run.End(0, kA);
    run.Settle();
    Holdings holdings = *HoldingsOf(0, 2, {});
    holdings.own = {true, false};
    holdings.pending[1] = {{0, 1}, 1, {TaskId(kB)}, {}};
    OverPart over = {holdings, {{TaskId(kA), journal::TaskFate::kDone}}, {}};
    const FileId f = *run.graph().FindFile("f");
    if (lies == Lies::kSubmitDir) {
      over.results = {"f", "not of this flow"};
      run.submit_dir[f.value] = std::string(17, 'r');
    }
    if (lies == Lies::kExchange) run.exchange = {Exchanged{f, std::string(17, 'a'), 10}.Name(), Exchanged{FileId(700), std::string(17, 'a'), 10}.Name()};
    if (lies == Lies::kNotMade) run.exchange = {Exchanged{f}.Name()};
    over.exchanged = run.ExchangedNow();
    run[1].others->PartOver(0, over);
    run.Turn(1);
    run.Commit(1);
    EXPECT_EQ(run[1].runs.contains(kB), lies != Lies::kNowhere);
    EXPECT_EQ(run[1].runs.contains(kA), lies == Lies::kNowhere) << "it is lost";
    EXPECT_EQ(run[1].held.contains(f.value), lies == Lies::kExchange || lies == Lies::kSubmitDir);
    EXPECT_EQ(run.wrong, std::vector<std::string>());
  }
}

/// What is open, for who has to find out why.
std::string Standing(Several& run) {
  std::string text;
  for (uint32_t part = 0; part < run.size(); ++part) {
    text += "part " + std::to_string(part) + (run[part].others->idle() ? "" : ", not idle") + ":";
    for (uint32_t task = 0; task < run.graph().task_count(); ++task) {
      const core::TaskState state = StateOf(run, part, task);
      if (core::IsSettled(state)) continue;
      text += " " + std::to_string(task) + "/" + std::to_string(static_cast<int>(state));
      if (run[part].runs.contains(task)) text += run.HasInputs(part, task) ? "+" : "-";
    }
    text += "; held:";
    for (const auto& [file, object] : run[part].held) text += " " + std::string(run.graph().file_name(FileId(file)));
    text += "\n";
    for (uint32_t task = 0; task < run.graph().task_count(); ++task) {
      if (!core::IsSettled(StateOf(run, part, task))) text += "  " + std::to_string(task) + ": " + run[part].driver->Explain(TaskId(task)) + "\n";
    }
  }
  for (const std::string& name : run.exchange) text += " " + name;
  return text;
}

/// Whatever is cut and killed: nothing is asked for that is not there, and nothing is made twice. `losses`: agents lose what they hold, and the
/// exchange what lies there, and what is made again is something else; every task is decided once all the same.
void RandomRun(uint64_t seed, bool losses) {
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
  run.differ = losses;
  const auto put = [&](uint32_t part) {
    if (run[part].puts.empty()) return;
    run.Put(part, !losses || draw(4) > 0);
  };
  for (int step = 0; step < 3000 && !run.AllComplete(); ++step) {
    const uint32_t part = draw(run.size()), other = draw(run.size());
    switch (const uint32_t what = draw(20)) {
      case 0:
        if (draw(8) == 0) run.Start(part);
        if (losses && draw(12) == 0) {
          run.LoseAgent(part);
          run.AgentComes(part);
        }
        if (losses && draw(6) == 0 && !run.exchange.empty()) run.exchange.erase(std::next(run.exchange.begin(), draw(run.exchange.size())));
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
        put(part);
        break;
      default:
        if (what < 11) {
          run.Carry(part, other);
        } else if (what < 15) {
          run.Commit(part);
        } else if (!run[part].runs.empty()) {
          auto at = run[part].runs.begin();
          std::advance(at, draw(run[part].runs.size()));
          if (run.HasInputs(part, at->first)) run.End(part, at->first);
        }
    }
    ASSERT_EQ(run.wrong, std::vector<std::string>());
    for (const auto& [task, times] : losses ? std::map<uint32_t, int>() : run.Successes()) ASSERT_EQ(times, 1) << "task " << task;
  }
  // While one was lost nothing was heard of the others either.
  for (uint32_t part = 0; losses && part < run.size(); ++part) {
    run.LoseAgent(part);
    run.AgentComes(part);
  }
  for (int round = 0; round < 200 && !run.AllComplete(); ++round) {
    run.ConnectAll();
    run.Report();
    run.Settle();
    for (uint32_t part = 0; part < run.size(); ++part) {
      run.Pass(part, std::chrono::milliseconds(300));
      std::set<uint32_t> runs;
      for (const auto& [task, attempt] : run[part].runs) runs.insert(task);
      for (const uint32_t task : runs) {
        if (run[part].runs.contains(task) && run.HasInputs(part, task)) run.End(part, task);
      }
      while (!run[part].puts.empty()) put(part);
    }
  }
  EXPECT_TRUE(run.AllComplete()) << Standing(run);
  EXPECT_EQ(run.Successes().size(), tasks.size());
  EXPECT_EQ(run.wrong, std::vector<std::string>());
  std::map<uint32_t, int> decided;
  for (uint32_t part = 0; part < run.size(); ++part) {
    for (const journal::FateRecord& fate : run[part].journal.history.fates) decided[fate.task.value] += fate.fate == journal::TaskFate::kDone ? 1 : 0;
  }
  for (const auto& [task, times] : decided) EXPECT_EQ(times, 1) << "task " << task;
  EXPECT_EQ(decided.size(), tasks.size());
}

void RandomRuns(bool losses) {
  const char* given = getenv("HARROW_TEST_SEED");
  const uint64_t first = given != nullptr ? strtoull(given, nullptr, 10) : std::random_device{}();
  for (uint64_t seed = first; seed < first + (getenv("HARROW_LONG") != nullptr ? 500 : 20); ++seed) {
    RandomRun(seed, losses);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(FilesElsewhere, NothingIsMadeTwiceWhateverIsCutAndKilled) {
  RandomRuns(false);
}

TEST(FilesElsewhere, WhateverIsLostIsMadeAgain) {
  RandomRuns(true);
}

}  // namespace
}  // namespace harrow::server
