// One graph and several schedulers, each of which has some of the tasks. First by hand; then at random: tasks
// move, ends are told to the others late and in any order, nodes are lost; at every moment one scheduler has
// a task or it is on its way to one, and in the end each was done once.
//
// HARROW_SEED runs one again.

#include <algorithm>
#include <cstdlib>
#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "core/scheduler.h"
#include "order/draws.h"
#include "support/action_lines.h"
#include "support/told_scheduler.h"
#include "support/trail.h"

namespace harrow::core {
namespace {

using test::ToldScheduler;

TasksTaken Taken(const std::vector<TaskId>& tasks) {
  return {tasks};
}
TasksGiven Given(const std::vector<TaskId>& tasks) {
  return {tasks};
}

Options Fifo() {
  Options options;
  options.policy = order::Policy::kFifo;
  return options;
}

TEST(SeveralServersTest, WhatIsTakenIsNotStarted) {
  ToldScheduler s(Fifo());
  s.Add("A"), s.Add("B"), s.Add("C");
  EXPECT_EQ(s.Begin({{1, 0, 0}}), "start A@0");
  EXPECT_EQ(s.Tell(Taken({s["A"], s["B"]})), "");
  EXPECT_EQ(s.scheduler().state(s["A"]), TaskState::kSent) << "it may have begun";
  EXPECT_EQ(s.scheduler().state(s["B"]), TaskState::kElsewhere);
  EXPECT_EQ(s.scheduler().counts().elsewhere, 1u);
  EXPECT_EQ(s.scheduler().Explain(s["B"]).text, "The server of another allocation has it.");
  EXPECT_EQ(s.Ended("A", 0), "done A, start C@0");
  EXPECT_EQ(s.Ended("C", 0), "done C, complete") << "all that it has";
  EXPECT_EQ(s.Tell(Given({s["A"], s["B"]})), "start B@0");
  EXPECT_EQ(s.Ended("B", 0), "done B, complete");
}

TEST(SeveralServersTest, TasksOfOthersWaitForThemAndAreWaitedFor) {
  ToldScheduler s;
  s.Add("A"), s.Add("B", {"A"}), s.Add("C", {"B"});
  TasksAdded added = s.Added();
  added.elsewhere = true;
  EXPECT_EQ(s.TellAll({added, NodeJoined{NodeId(0), {1, 0, 0}}}), "complete") << "it has none";
  EXPECT_EQ(s.Tell(Given({s["C"]})), "");
  EXPECT_EQ(s.Tell(TaskRestored{s["A"]}), "");
  EXPECT_EQ(s.Tell(TaskRestored{s["B"]}), "start C@0");
}

TEST(SeveralServersTest, WhatNeedsAFailureElsewhereIsSkipped) {
  ToldScheduler s;
  s.Add("A"), s.Add("B", {"A"}), s.Add("C", {"B"}), s.Add("D", {"B"});
  s.Begin({{1, 0, 0}});
  s.Tell(Taken({s["B"], s["D"]}));
  EXPECT_EQ(s.Ended("A", 0), "done A");
  EXPECT_EQ(s.Tell(TaskRestored{s["B"], TaskRestored::As::kFailed}), "skipped C because B, complete");
  EXPECT_EQ(s.scheduler().state(s["D"]), TaskState::kElsewhere) << "its server skips it";
  EXPECT_EQ(s.Tell(Given({s["D"]})), "skipped D because B, complete");
}

TEST(SeveralServersTest, AttemptNumbersGoOn) {
  ToldScheduler s;
  s.Add("A");
  TasksAdded added = s.Added();
  added.elsewhere = true;
  s.TellAll({added, NodeJoined{NodeId(0), {1, 0, 0}}});
  s.TellAll({TaskRestored{s["A"], TaskRestored::As::kOpen, 2, 1}, Given({s["A"]})});
  EXPECT_EQ(s.scheduler().attempts(s["A"]), 3u);
  EXPECT_EQ(s.scheduler().losses(s["A"]), 1u);
}

TEST(SeveralServersTest, AnAttemptOfATaskThatIsElsewhereIsEnded) {
  ToldScheduler s;
  s.Add("A");
  s.Begin({{1, 0, 0}, {1, 0, 0}});
  s.Tell(NodeLost{NodeId(0)});  // and starts on the other node
  s.Tell(NodeLost{NodeId(1)});
  s.Tell(Taken({s["A"]}));
  ASSERT_EQ(s.scheduler().state(s["A"]), TaskState::kElsewhere);
  s.Tell(NodeJoined{NodeId(1), {1, 0, 0}});
  EXPECT_EQ(s.Tell(TaskStarted{{s["A"], 2}, NodeId(1)}), "cancel A@1 (lost)");
  EXPECT_EQ(s.scheduler().state(s["A"]), TaskState::kElsewhere);
}

TEST(SeveralServersTest, AStoppedServerSkipsWhatItIsGiven) {
  ToldScheduler s(Fifo());
  s.Add("A"), s.Add("B");
  s.Begin({{1, 0, 0}});
  s.Tell(Taken({s["B"]}));
  s.Tell(DrainRequested{});
  EXPECT_EQ(s.Tell(Given({s["B"]})), "skipped B (stopped)");
}

TEST(SeveralServersTest, QueuesByShape) {
  ToldScheduler s;
  for (const char* name : {"A", "B", "C"}) s.Add(name);
  s.profile.time_limit = std::chrono::hours(1);
  s.Add("D");
  s.profile = {};
  s.profile.shape.cores = 2;
  s.Add("E");
  s.profile.shape.nodes = 2;
  s.Add("F");
  s.Begin({{3, 0, 0}, {5, 0, 0}});
  s.Tell(NodeClosed{NodeId(0)});
  const std::vector<ShapeQueue> queues = s.scheduler().QueuesByShape();
  ASSERT_EQ(queues.size(), 2u) << "tasks of several nodes do not move";
  EXPECT_EQ(queues[0].shape, Shape{});
  EXPECT_EQ(queues[0].workers, 5u);
  EXPECT_EQ(queues[1].workers, 2u);
  EXPECT_EQ(queues[0].in_flight + queues[0].ready, 4u);
  EXPECT_EQ(queues[1].in_flight + queues[1].ready, 1u);
  EXPECT_EQ(queues[0].ready + queues[1].ready,
            s.scheduler().counts().ready - (s.scheduler().state(s["F"]) == TaskState::kReady ? 1 : 0));
}

/// Two pipes of a writer and two readers each, and one task for itself.
struct Piped {
  graph::Graph graph;
  std::optional<Scheduler> scheduler;
  std::vector<Action> actions;

  explicit Piped(const Options& options = {}, bool hold = false) {
    graph.AddSource("piped");
    for (int pipe = 0; pipe < 2; ++pipe) {
      const StreamId stream = graph.AddStream(StrCat("s", pipe));
      const TaskId writer = Add(StrCat("w", pipe));
      graph.AddWriter(stream, writer);
      for (int r = 0; r < 2; ++r) {
        const TaskId reader = Add(StrCat("r", pipe, r));
        graph.AddReader(stream, reader);
        graph.AddDependency(writer, reader, graph::WaitsFor::kStart);
      }
      if (hold && pipe == 0) graph.HoldStream(stream, {});
    }
    Add("alone");
    EXPECT_TRUE(graph.Seal().ok());
    scheduler.emplace(graph, options);
    Tell({TasksAdded{TaskId(0), static_cast<uint32_t>(graph.task_count())}});
  }
  TaskId Add(const std::string& name) {
    graph::TaskSpec spec;
    spec.name = name;
    spec.command = "x";
    spec.recorded_run_time = std::chrono::seconds(10);
    return graph.AddTask(spec);
  }
  void Tell(const std::vector<Event>& events) {
    actions.clear();
    scheduler->HandleAll(Time(), events, &actions);
    scheduler->SanityCheck();
  }
  std::string Starts() const {
    std::string text;
    for (const Action& action : actions) {
      if (const auto* start = std::get_if<StartTask>(&action)) text += graph.TaskName(start->attempt.task) + " ";
    }
    return text;
  }
  std::string Elsewhere() const {
    std::string text;
    for (uint32_t n = 0; n < graph.task_count(); ++n) {
      if (scheduler->state(TaskId(n)) == TaskState::kElsewhere) text += graph.TaskName(TaskId(n)) + " ";
    }
    return text;
  }
};

std::vector<TaskId> Ids(std::initializer_list<uint32_t> numbers) {
  std::vector<TaskId> ids;
  for (const uint32_t each : numbers) ids.emplace_back(each);
  return ids;
}

TEST(SeveralServersTest, WhatStreamsJoinGoesWholeOrStays) {
  Piped s;
  s.Tell({Taken(Ids({0, 1, 6}))});
  EXPECT_EQ(s.Elsewhere(), "alone ") << "a reader would be cut off";
  s.Tell({Taken(Ids({1, 0, 2, 5, 4}))});
  EXPECT_EQ(s.Elsewhere(), "w0 r00 r01 alone ");
  s.Tell({Given(Ids({2, 1, 0}))});
  EXPECT_EQ(s.Elsewhere(), "alone ");
  s.Tell({NodeJoined{NodeId(0), {1, 0, 0}}});
  const AttemptId first{TaskId(0), 1};
  EXPECT_EQ(s.scheduler->state(TaskId(0)), TaskState::kSent);
  s.Tell({TaskStarted{first, NodeId(0)}});
  s.Tell({Taken(Ids({0, 1, 2}))});
  EXPECT_EQ(s.Elsewhere(), "alone ") << "its writer runs";
  s.Tell({Taken(Ids({3, 4, 5}))});
  EXPECT_EQ(s.Elsewhere(), "w1 r10 r11 alone ");
}

TEST(SeveralServersTest, PipesRunWhereTheyCame) {
  Piped from, to;
  to.Tell({Taken(Ids({0, 1, 2, 3, 4, 5, 6}))});
  EXPECT_EQ(to.scheduler->counts().elsewhere, 7u);
  to.Tell({NodeJoined{NodeId(0), {3, 0, 0}}});
  to.Tell({Given(Ids({3, 4, 5}))});
  EXPECT_EQ(to.Starts(), "w1 ");
  to.Tell({TaskStarted{{TaskId(3), 1}, NodeId(0)}});
  EXPECT_EQ(to.Starts(), "r10 r11 ");
  to.Tell({TaskRestored{TaskId(0)}, TaskRestored{TaskId(1)}});
  EXPECT_EQ(to.scheduler->state(TaskId(1)), TaskState::kDone);
}

TEST(SeveralServersTest, WhatMayBeConnectedToStays) {
  Piped held({}, true);
  held.Tell({Taken(Ids({0, 1, 2, 3, 4, 5}))});
  EXPECT_EQ(held.Elsewhere(), "w1 r10 r11 ");
  Piped kept;
  kept.Tell({StreamKept{StreamId(1), true}});
  kept.Tell({Taken(Ids({0, 1, 2, 3, 4, 5}))});
  EXPECT_EQ(kept.Elsewhere(), "w0 r00 r01 ");
  kept.Tell({StreamKept{StreamId(1), false}});
  kept.Tell({Taken(Ids({3, 4, 5}))});
  EXPECT_EQ(kept.Elsewhere(), "w0 r00 r01 w1 r10 r11 ");
}

/// Seconds, by the model.
double Waiting(const Piped& s) {
  double seconds = 0;
  for (const cost::Work& work : s.scheduler->WorkByKind().value_or(std::vector<cost::Work>{{-1, 0, 0}})) seconds += work.waiting;
  return seconds;
}

TEST(SeveralServersTest, AShareIsWholeGroupsAndOthersAreNotModelled) {
  Options options;
  options.costs.how = cost::Place::kCost;
  Piped s(options);
  EXPECT_FALSE(s.scheduler->WorkByKind()) << "nothing is placed before a node is there";
  s.Tell({NodeJoined{NodeId(0), {1, 0, 0}}});
  EXPECT_NEAR(Waiting(s), 60, 1e-6) << "one was sent";
  const std::vector<TaskId> share = s.scheduler->ShareOf(0.5);
  EXPECT_EQ(share, Ids({3, 4, 5}));
  EXPECT_NEAR(Waiting(s), 60, 1e-6) << "it was only looked for";
  EXPECT_TRUE(s.scheduler->ShareOf(0).empty());
  s.Tell({Taken(share)});
  EXPECT_EQ(s.Elsewhere(), "w1 r10 r11 ");
  EXPECT_NEAR(Waiting(s), 30, 1e-6);
  EXPECT_EQ(s.scheduler->ModelledOfOthers(), 0u);

  Piped taker(options);
  taker.Tell({Taken(Ids({0, 1, 2, 3, 4, 5, 6}))});
  taker.Tell({NodeJoined{NodeId(0), {1, 0, 0}}});
  EXPECT_EQ(Waiting(taker), 0);
  taker.Tell({Given(share)});
  EXPECT_NEAR(Waiting(taker), 20, 1e-6);
  EXPECT_EQ(taker.scheduler->ModelledOfOthers(), 0u);
  EXPECT_TRUE(Piped().scheduler->ShareOf(0.5).empty()) << "not placed by costs";
}

std::string LastOf(order::Policy policy, uint64_t count, uint64_t keep) {
  Options options;
  options.policy = policy;
  ToldScheduler s(options);
  s.Add("low1"), s.Add("high1"), s.Add("low2"), s.Add("high2"), s.Add("end", {"high1", "high2"});
  s.Begin({});
  std::string text;
  for (const TaskId id : s.scheduler().LastInOrder({}, count, keep)) {
    for (const char* name : {"low1", "high1", "low2", "high2"}) {
      if (s[name] == id) text += std::string(name) + " ";
    }
  }
  return text;
}

TEST(SeveralServersTest, TheLastByTheOrder) {
  EXPECT_EQ(LastOf(order::Policy::kFifo, 2, 0), "low2 high2 ");
  EXPECT_EQ(LastOf(order::Policy::kLifo, 2, 0), "high1 low1 ");
  EXPECT_EQ(LastOf(order::Policy::kHrf, 2, 0), "low1 low2 ");
  EXPECT_EQ(LastOf(order::Policy::kFifo, 9, 0), "low1 high1 low2 high2 ");
  EXPECT_EQ(LastOf(order::Policy::kFifo, 9, 3), "high2 ");
  EXPECT_EQ(LastOf(order::Policy::kFifo, 9, 4), "");
  EXPECT_EQ(LastOf(order::Policy::kFifo, 0, 0), "");
}

TEST(SeveralServersTest, TheLastOfManyAreInOrder) {
  graph::Graph graph;
  graph::Profile profile;
  for (const int32_t priority : {3, 1, 4, 2, 0}) {
    profile.priority = priority;
    for (int i = 0; i < 40; ++i) graph.AddTask({.name = {}, .profile = graph.AddProfile(profile)});
  }
  ASSERT_TRUE(graph.Seal().ok());
  Scheduler scheduler(graph, Fifo());
  std::vector<Action> actions;
  scheduler.Handle(Time(), TasksAdded{TaskId(0), static_cast<uint32_t>(graph.task_count())}, &actions);
  std::vector<TaskId> last;
  for (const uint32_t first : {40u, 160u}) {  // priority 1, and 0
    for (uint32_t i = 0; i < 40; ++i) last.emplace_back(first + i);
  }
  EXPECT_EQ(scheduler.LastInOrder({}, last.size(), 0), last);
}

TEST(SeveralServersTest, OnlyTasksOfTheShapeThatNoStreamJoins) {
  graph::Graph graph;
  const auto add = [&](const char* name, const Shape& shape) {
    graph::Profile profile;
    profile.shape = shape;
    return graph.AddTask({.name = name, .profile = graph.AddProfile(profile)});
  };
  const TaskId one = add("one", {}), two = add("two", {.cores = 2}), writer = add("writer", {});
  add("gang", {.nodes = 2});
  graph.AddWriter(graph.AddStream("s"), writer);
  ASSERT_TRUE(graph.Seal().ok());
  Scheduler scheduler(graph, Fifo());
  std::vector<Action> actions;
  scheduler.Handle(Time(), TasksAdded{TaskId(0), static_cast<uint32_t>(graph.task_count())}, &actions);
  EXPECT_EQ(scheduler.LastInOrder({}, 9, 0), std::vector<TaskId>{one});
  EXPECT_EQ(scheduler.LastInOrder({.cores = 2}, 9, 0), std::vector<TaskId>{two});
  EXPECT_TRUE(scheduler.LastInOrder({.nodes = 2}, 9, 0).empty());
}

/// Three schedulers of one graph, and what is between them.
class SharedRun {
 public:
  explicit SharedRun(uint64_t seed) : random_(seed) {
    options_.seed = seed;
    options_.policy = static_cast<order::Policy>(Below(7));
    options_.max_losses = 200;
    const uint32_t count = 100 + Below(400);
    graph::Profile narrow, wide;
    wide.shape.cores = 2;
    const ProfileId profiles[] = {graph_.AddProfile(narrow), graph_.AddProfile(wide)};
    for (uint32_t n = 0; n < count; ++n) {
      std::vector<TaskId> after;
      for (uint32_t k = Below(3); k > 0 && n > 0; --k) after.emplace_back(n - 1 - Below(std::min(n, 40u)));
      graph::TaskSpec spec;
      spec.profile = profiles[Below(4) == 0];
      spec.after = after;
      graph_.AddTask(spec);
    }
    if (!graph_.Seal().ok()) std::abort();
    done_.assign(count, 0);
    for (uint32_t s = 0; s < 3; ++s) {
      servers_.push_back(std::make_unique<Scheduler>(graph_, options_));
      std::vector<Event> events = {TasksAdded{TaskId(0), count, s > 0}};
      for (uint32_t n = 0; n < 2; ++n) events.push_back(NodeJoined{NodeId(n), {2, 0, 0}});
      sent_.emplace_back();
      Tell(s, events);
    }
  }

  void Run(int events) {
    for (int i = 0; i < events && !::testing::Test::HasFailure(); ++i) {
      Step();
      if (i % 16 == 0) Check();
      now_ += std::chrono::milliseconds(Below(5));
    }
    Settle();
  }
  uint64_t moved() const { return moved_; }
  uint64_t lost() const { return lost_; }

 private:
  struct Move {
    uint32_t to;
    std::vector<Event> events;
    std::vector<TaskId> tasks;
  };
  struct Word {
    uint32_t to;
    TaskRestored ended;
  };

  uint32_t Below(uint32_t n) { return random_.Below(n); }

  void Tell(uint32_t s, const std::vector<Event>& events) {
    std::vector<Action> actions;
    servers_[s]->HandleAll(now_, events, &actions);
    for (const Action& action : actions) {
      test::Trail::Say([&] { return test::Line(action); });
      if (const auto* start = std::get_if<StartTask>(&action)) {
        sent_[s].push_back(*start);
        EXPECT_EQ(done_[start->attempt.task.value], 0) << "done already";
        for (TaskId before : graph_.predecessors(start->attempt.task))
          EXPECT_EQ(done_[before.value], 1) << "before what it needs";
      } else if (const auto* settled = std::get_if<TaskSettled>(&action)) {
        EXPECT_EQ(settled->state, FinalState::kDone);
        ++done_[settled->task.value];
        for (uint32_t other = 0; other < 3; ++other) {
          if (other != s) words_.push_back({other, TaskRestored{settled->task}});
        }
      } else if (const auto* back = std::get_if<TakeBack>(&action)) {
        returns_.push_back({s, *back});
      }
    }
  }
  void End(uint32_t s) {
    if (sent_[s].empty()) return;
    const size_t which = Below(static_cast<uint32_t>(sent_[s].size()));
    const StartTask start = sent_[s][which];
    sent_[s].erase(sent_[s].begin() + static_cast<ptrdiff_t>(which));
    Tell(s, {TaskEnded{start.attempt, start.node, Done{}, std::chrono::milliseconds(3)}});
  }
  void Give(uint32_t from, const std::vector<TaskId>& wanted) {
    const uint32_t to = (from + 1 + Below(2)) % 3;
    Tell(from, {TasksTaken{wanted}});
    Move move = {to, {}, {}};
    for (TaskId id : wanted) {
      if (servers_[from]->state(id) != TaskState::kElsewhere || !Has(from, id)) continue;
      has_[id.value] = 3;  // on its way
      move.tasks.push_back(id);
      move.events.push_back(TaskRestored{id, TaskRestored::As::kOpen, servers_[from]->attempts(id),
                                         servers_[from]->losses(id)});
      for (TaskId before : graph_.predecessors(id)) {
        if (servers_[from]->state(before) == TaskState::kDone) move.events.push_back(TaskRestored{before});
      }
    }
    moved_ += move.tasks.size();
    move.events.push_back(TasksGiven{move.tasks});
    if (!move.tasks.empty()) moves_.push_back(move);
  }
  bool Has(uint32_t s, TaskId id) {
    has_.resize(graph_.task_count(), 0);
    return has_[id.value] == s;
  }
  void Arrive(size_t which) {
    const Move move = moves_[which];
    moves_.erase(moves_.begin() + static_cast<ptrdiff_t>(which));
    for (TaskId id : move.tasks) has_[id.value] = move.to;
    Tell(move.to, move.events);
  }
  void Step() {
    const uint32_t s = Below(3);
    switch (Below(12)) {
      case 0:
      case 1:
        Give(s,
             servers_[s]->LastInOrder(Below(2) == 0 ? Shape{} : Shape{.cores = 2}, 1 + Below(20), Below(4)));
        break;
      case 2: {
        std::vector<TaskId> any;
        for (uint32_t k = Below(5); k > 0; --k)
          any.emplace_back(Below(static_cast<uint32_t>(graph_.task_count())));
        Give(s, any);
        break;
      }
      case 3:
      case 4:
        if (!moves_.empty()) Arrive(Below(static_cast<uint32_t>(moves_.size())));
        break;
      case 5:
      case 6:
      case 7:
        if (!words_.empty()) {
          const size_t which = Below(static_cast<uint32_t>(words_.size()));
          const Word word = words_[which];
          if (Below(5) > 0)
            words_.erase(words_.begin() + static_cast<ptrdiff_t>(which));  // else it comes twice
          Tell(word.to, {word.ended});
        }
        break;
      case 8:
        if (Below(20) == 0) {
          const NodeId node(Below(2));
          std::erase_if(sent_[s], [&](const StartTask& start) { return start.node == node; });
          ++lost_;
          Tell(s, {NodeLost{node}});
          Tell(s, {NodeJoined{node, {2, 0, 0}}});
        }
        break;
      case 9:
        if (!returns_.empty()) {
          const auto [server, back] = returns_.back();
          returns_.pop_back();
          const auto at =
              std::find_if(sent_[server].begin(), sent_[server].end(), [&](const StartTask& start) {
                return start.attempt == back.attempt && start.node == back.node;
              });
          if (at == sent_[server].end()) break;
          sent_[server].erase(at);
          Tell(server, {TaskReturned{back.attempt, back.node}});
        }
        break;
      default:
        End(s);
    }
  }
  void Check() {
    has_.resize(graph_.task_count(), 0);
    for (const auto& server : servers_) server->SanityCheck();
    for (uint32_t n = 0; n < graph_.task_count(); ++n) {
      if (done_[n] > 0) continue;
      for (uint32_t s = 0; s < 3; ++s)
        ASSERT_EQ(servers_[s]->state(TaskId(n)) != TaskState::kElsewhere, has_[n] == s)
            << "task " << n << " server " << s;
    }
  }
  void Settle() {
    for (int round = 0; round < 100000 && !::testing::Test::HasFailure(); ++round) {
      if (static_cast<size_t>(std::count(done_.begin(), done_.end(), 1)) == done_.size()) break;
      while (!moves_.empty()) Arrive(0);
      while (!words_.empty()) {
        const Word word = words_.back();
        words_.pop_back();
        Tell(word.to, {word.ended});
      }
      for (uint32_t s = 0; s < 3; ++s) End(s);
      now_ += std::chrono::seconds(1);
      for (uint32_t s = 0; s < 3; ++s) Tell(s, {TimeCame{}});
      if (round % 16 == 0) Check();
    }
    for (const int count : done_) EXPECT_EQ(count, 1);
    for (const Word& word : std::vector<Word>(std::exchange(words_, {}))) Tell(word.to, {word.ended});
    Check();
    for (const auto& server : servers_) EXPECT_EQ(server->counts().done, graph_.task_count());
  }

  order::SeededDraws random_;
  Options options_;
  graph::Graph graph_;
  std::vector<std::unique_ptr<Scheduler>> servers_;
  std::vector<std::vector<StartTask>> sent_;
  std::vector<Move> moves_;
  std::vector<Word> words_;
  std::vector<std::pair<uint32_t, TakeBack>> returns_;
  std::vector<uint32_t> has_;
  std::vector<int> done_;
  Time now_{};
  uint64_t moved_ = 0, lost_ = 0;
};

TEST(SeveralServersTest, RandomMoves) {
  const char* only = std::getenv("HARROW_SEED");
  uint64_t moved = 0, lost = 0;
  test::Trail trail("core.several_servers");
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    if (only != nullptr && std::strtoull(only, nullptr, 10) != seed) continue;
    SCOPED_TRACE("HARROW_SEED=" + std::to_string(seed));
    SharedRun chaos(seed);
    chaos.Run(2500);
    moved += chaos.moved();
    lost += chaos.lost();
    if (HasFailure()) return;
  }
  if (only != nullptr) return;
  trail.Compare();
  EXPECT_GT(moved, 1000u);
  EXPECT_GT(lost, 20u);
}

}  // namespace
}  // namespace harrow::core
