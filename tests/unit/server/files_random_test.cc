// With files on the nodes' own disks: random runs over several servers, whatever is cut, killed, lost, drained or over. No task reads what is not
// there, or files of two executions; each is decided once, and what can be made is.

#include <gtest/gtest.h>
#include <random>

#include "unit/server/several_servers.h"

namespace harrow::server {
namespace {

struct How {
  uint32_t parts = 3;
  bool hetero = false, losses = false, over = false, cancel = false, drain = false, directories = false, restarts = true;

  /// Nothing is lost, so that nothing is made again.
  bool once() const { return !losses && !over && !drain && !cancel; }
};

void RandomRun(uint64_t seed, const How& how) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const auto draw = [&](size_t end) { return static_cast<uint32_t>(random() % end); };
  std::vector<uint32_t> slots;
  std::vector<uint64_t> memory;
  for (uint32_t i = 0; i < how.parts; ++i) {
    slots.push_back(1 + draw(4));
    memory.push_back(100 + 100 * draw(3));
  }
  std::vector<TinyTask> tasks(30);
  for (uint32_t i = 0; i < tasks.size(); ++i) {
    tasks[i].name = "t" + std::to_string(i);
    tasks[i].out = {"f" + std::to_string(i), "g" + std::to_string(i)};
    if (how.hetero) {
      const uint32_t where = draw(how.parts);
      tasks[i].profile = Cores(1 + draw(slots[where]), draw(2) * memory[where]);
    }
    std::set<uint32_t> before;
    for (uint32_t n = draw(3); i > 0 && n > 0; --n) before.insert(draw(i));
    for (const uint32_t each : before) {
      const uint32_t which = draw(3);
      const std::string inside = how.directories && draw(2) ? "/x" : "";
      if (which != 1) tasks[i].in.push_back("f" + std::to_string(each) + inside);
      if (which != 0) tasks[i].in.push_back("g" + std::to_string(each) + (how.directories && draw(2) ? "/y" : ""));
      if (how.directories && which == 2 && draw(2)) tasks[i].in.push_back("g" + std::to_string(each) + "/z");
    }
  }
  Several run(tasks, slots, false, true, how.hetero ? memory : std::vector<uint64_t>(), how.hetero);
  run.differ = how.losses;
  std::map<std::pair<uint32_t, uint32_t>, int> failed_puts;  // part, file
  const auto put = [&](uint32_t part) {
    if (run[part].puts.empty()) return;
    bool can = !how.losses || draw(4) > 0;
    // After the fourth its server gives up, and where tasks fit few nodes nobody else may be able to make it.
    if (!can && how.hetero && ++failed_puts[{part, run[part].puts.front().file()}] > 3) can = true;
    run.Put(part, can);
  };
  uint32_t left = how.parts;
  std::set<uint32_t> drained;
  for (int step = 0; step < 3000 && !run.AllComplete(); ++step) {
    const uint32_t part = draw(run.size()), other = draw(run.size());
    if (run[part].gone || run[other].gone) continue;
    switch (const uint32_t what = draw(20)) {
      case 0:
        if (how.restarts && draw(8) == 0 && !how.drain) run.Start(part);
        if (how.losses && draw(12) == 0) {
          run.LoseAgent(part);
          run.AgentComes(part);
        }
        if (how.losses && draw(6) == 0 && !run.exchange.empty()) run.exchange.erase(std::next(run.exchange.begin(), draw(run.exchange.size())));
        if (how.over && left == how.parts && draw(20) == 0) run.Over(part), --left;
        if (const uint32_t which = draw(tasks.size()); how.cancel && draw(20) == 0 && !run.Successes().contains(which)) run[part].others->Cancel({TaskId(which)}), run.Turn(part);
        if (how.drain && drained.size() + 1 < how.parts && draw(20) == 0) {
          drained.insert(part);
          run[part].driver->Drain(), run.Turn(part);
        }
        break;
      case 1:
        if (draw(4) == 0) run.Cut(part, other);
        break;
      case 2:
      case 3:
        run.Connect(part, other);
        break;
      case 4:
        run.Report();
        break;
      case 5:
        if (part != other && !drained.contains(other)) (void)run[part].others->MoveTo(TaskId(draw(tasks.size())), other), run.Turn(part);
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
    for (const auto& [task, times] : how.once() ? run.Successes() : std::map<uint32_t, int>()) ASSERT_EQ(times, 1) << "task " << task;
    for (uint32_t each = 0; each < run.size(); ++each) {
      if (!run[each].gone) run[each].driver->scheduler().SanityCheck();
    }
  }
  for (uint32_t part = 0; how.losses && part < run.size(); ++part) {
    if (run[part].gone) continue;
    run.LoseAgent(part);
    run.AgentComes(part);
  }
  for (int round = 0; round < 300 && !run.AllComplete(); ++round) {
    run.ConnectAll();
    run.Report();
    run.Settle();
    for (uint32_t part = 0; part < run.size(); ++part) {
      if (run[part].gone) continue;
      run.Pass(part, std::chrono::milliseconds(300));
      run.EndAll(part);
      while (!run[part].puts.empty()) put(part);
      // What does not fit where it is goes where it does.
      for (uint32_t task = 0; how.hetero && task < tasks.size(); ++task) {
        const core::TaskState state = StateOf(run, part, task);
        if (core::IsSettled(state) || core::IsInFlight(state) || state == core::TaskState::kElsewhere || run[part].driver->CanMake(TaskId(task))) continue;
        for (uint32_t other = 0; other < run.size(); ++other) {
          if (!run[other].gone && run[other].driver->CanMake(TaskId(task))) (void)run[part].others->MoveTo(TaskId(task), other);
        }
        run.Turn(part);
      }
    }
  }
  EXPECT_TRUE(run.AllComplete()) << Standing(run);
  if (!how.cancel) { EXPECT_EQ(run.Successes().size(), tasks.size()); }
  EXPECT_EQ(run.wrong, std::vector<std::string>());
  std::map<uint32_t, int> decided;
  for (uint32_t part = 0; part < run.size(); ++part) {
    for (const journal::FateRecord& fate : run[part].journal.history.fates) decided[fate.task.value] += how.cancel || fate.fate == journal::TaskFate::kDone ? 1 : 0;
  }
  for (const auto& [task, times] : decided) EXPECT_EQ(times, 1) << "task " << task;
  EXPECT_EQ(decided.size(), tasks.size());
  run.SayRecords();
}

void RandomRuns(const How& how) {
  const char* given = getenv("HARROW_TEST_SEED");
  const uint64_t first = given != nullptr ? strtoull(given, nullptr, 10) : std::random_device{}();
  for (uint64_t seed = first; seed < first + (getenv("HARROW_LONG") != nullptr ? 300 : 10); ++seed) {
    RandomRun(seed, how);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(FilesRandom, DecideAsBefore) {
  test::Trail trail("server.files");
  for (const How& how : {How{.parts = 4}, How{.parts = 4, .losses = true}, How{.parts = 3, .losses = true, .directories = true},
                         How{.parts = 4, .losses = true, .over = true}, How{.parts = 3, .losses = true, .cancel = true},
                         How{.parts = 3, .drain = true}, How{.parts = 3, .hetero = true, .losses = true}}) {
    for (const uint64_t seed : {1, 2, 3}) RandomRun(seed, how);
  }
  trail.Compare();
}

TEST(FilesRandom, CutAndKilled) { RandomRuns({.parts = 4}); }
TEST(FilesRandom, Lost) { RandomRuns({.parts = 4, .losses = true}); }
TEST(FilesRandom, InDirectories) { RandomRuns({.parts = 3, .losses = true, .directories = true}); }
TEST(FilesRandom, OneIsOver) { RandomRuns({.parts = 4, .over = true}); }
TEST(FilesRandom, OneIsOverAndLost) { RandomRuns({.parts = 4, .losses = true, .over = true}); }
TEST(FilesRandom, Cancelled) { RandomRuns({.parts = 3, .losses = true, .cancel = true}); }
TEST(FilesRandom, Drained) { RandomRuns({.parts = 3, .drain = true}); }
TEST(FilesRandom, Unlike) { RandomRuns({.parts = 3, .hetero = true}); }
TEST(FilesRandom, UnlikeAndLost) { RandomRuns({.parts = 3, .hetero = true, .losses = true}); }
TEST(FilesRandom, UnlikeAndLostByOneServer) { RandomRuns({.parts = 4, .hetero = true, .losses = true, .restarts = false}); }

}  // namespace
}  // namespace harrow::server
