#include "graph/graph.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>
#include <string>
#include <vector>

#include "order/draws.h"

namespace harrow::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A task by name, the files it reads and makes, and what it comes after; its line is its number from 1.
TaskId Add(Graph& graph, std::string_view name, std::vector<std::string> in = {},
           std::vector<std::string> out = {}, std::vector<TaskId> after = {}) {
  std::vector<FileId> ins, outs;
  for (const std::string& file : in) ins.push_back(graph.AddFile(file));
  for (const std::string& file : out) outs.push_back(graph.AddFile(file));
  TaskSpec spec;
  spec.name = name;
  spec.command = "run";
  spec.in = ins;
  spec.out = outs;
  spec.after = after;
  spec.place = {0, static_cast<uint32_t>(graph.task_count() + 1), 1};
  return graph.AddTask(spec);
}

Graph Sourced() {
  Graph graph;
  graph.AddSource("flow.toml");
  return graph;
}

std::vector<TaskId> List(std::span<const TaskId> tasks) {
  return {tasks.begin(), tasks.end()};
}

TEST(FileName, Normal) {
  std::string buffer;
  const auto normal = [&](std::string_view name) { return std::string(NormalFileName(name, &buffer)); };
  EXPECT_EQ(normal("a/b"), "a/b");
  EXPECT_EQ(normal("./a//b"), "a/b");
  EXPECT_EQ(normal("a/./b/"), "a/b");
  EXPECT_EQ(normal("a/x/../b"), "a/b");
  EXPECT_EQ(normal("../a"), "../a");
  EXPECT_EQ(normal("a/../../b"), "../b");
  EXPECT_EQ(normal("/../a"), "/a");
  EXPECT_EQ(normal("//a"), "/a");
  EXPECT_EQ(normal("/"), "/");
  EXPECT_EQ(normal(""), ".");
  EXPECT_EQ(normal("a/.."), ".");
  EXPECT_EQ(normal(".hidden"), ".hidden");
  EXPECT_EQ(normal("a/..b/...c"), "a/..b/...c");
}

TEST(Graph, FilesLinkTasks) {
  Graph graph = Sourced();
  const TaskId use = Add(graph, "use", {"./d//f", "given"});
  const TaskId make = Add(graph, "make", {}, {"d/f"});
  ASSERT_TRUE(graph.Seal().ok());
  EXPECT_THAT(graph.predecessors(use), ElementsAre(make));
  EXPECT_THAT(graph.successors(make), ElementsAre(use));
  EXPECT_EQ(graph.level(make), 1);
  EXPECT_EQ(graph.level(use), 0);
  EXPECT_EQ(graph.producer(*graph.FindFile("d/f")), make);
  EXPECT_FALSE(graph.producer(*graph.FindFile("given")));
  EXPECT_FALSE(graph.FindFile("nothing"));
}

TEST(Graph, EachDependencyOnce) {
  Graph graph = Sourced();
  const TaskId a = Add(graph, "a", {}, {"x", "y"});
  const TaskId b = Add(graph, "b", {"x", "y", "x"}, {}, {a});
  graph.AddDependency(a, b);
  ASSERT_TRUE(graph.Seal().ok());
  EXPECT_THAT(graph.predecessors(b), ElementsAre(a));
  EXPECT_THAT(graph.successors(a), ElementsAre(b));
}

TEST(Graph, InputBelowAnOutputDirectory) {
  Graph graph = Sourced();
  const TaskId make = Add(graph, "make", {}, {"out"});
  const TaskId deep = Add(graph, "deep", {"out/a/b"});
  const TaskId other = Add(graph, "other", {"outside/a"});
  const TaskId itself = Add(graph, "itself", {"own/x"}, {"own"});
  ASSERT_TRUE(graph.Seal().ok());
  EXPECT_THAT(graph.predecessors(deep), ElementsAre(make));
  EXPECT_TRUE(graph.predecessors(other).empty());
  EXPECT_TRUE(graph.predecessors(itself).empty());
}

TEST(Graph, LevelIsTheLongestWayToAFinalTask) {
  Graph graph = Sourced();
  const TaskId a = Add(graph, "a");
  const TaskId b = Add(graph, "b", {}, {}, {a});
  const TaskId c = Add(graph, "c", {}, {}, {a, b});
  const TaskId alone = Add(graph, "alone");
  ASSERT_TRUE(graph.Seal().ok());
  EXPECT_EQ(graph.level(c), 0);
  EXPECT_EQ(graph.level(b), 1);
  EXPECT_EQ(graph.level(a), 2);
  EXPECT_EQ(graph.level(alone), 0);
}

TEST(Graph, TwoProducers) {
  Graph graph = Sourced();
  Add(graph, "one", {}, {"x"});
  Add(graph, "two", {}, {"./x"});
  const Status status = graph.Seal();
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_THAT(status.message(),
              HasSubstr("flow.toml:2:1: task 'two' makes 'x', which task 'one' (flow.toml:1:1)"));
}

TEST(Graph, DuplicateNames) {
  Graph graph = Sourced();
  Add(graph, "same");
  Add(graph, "other");
  Add(graph, "same");
  const Status status = graph.Seal();
  EXPECT_THAT(status.message(),
              HasSubstr("flow.toml:3:1: a second task is named 'same'; the first is at flow.toml:1:1"));
}

TEST(Graph, CycleWithItsPath) {
  Graph graph = Sourced();
  const TaskId before = Add(graph, "before");
  Add(graph, "b", {"fc"}, {"fb"}, {before});
  Add(graph, "c", {"fd"}, {"fc"});
  Add(graph, "d", {"fb"}, {"fd"});
  Add(graph, "after", {"fd"});
  const TaskId self = Add(graph, "self");
  graph.AddDependency(self, self);
  const Status status = graph.Seal();
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_THAT(status.message(),
              HasSubstr("flow.toml:2:1: tasks wait for each other in a cycle: b -> d -> c -> b;"));
  EXPECT_THAT(status.message(),
              HasSubstr("flow.toml:6:1: tasks wait for each other in a cycle: self -> self;"));
}

TEST(Graph, NoMoreProblemsThanAskedFor) {
  Graph graph = Sourced();
  for (int i = 0; i < 10; ++i) Add(graph, "same");
  const std::string text = graph.Seal(3).message();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
  EXPECT_THAT(text, HasSubstr("... and 6 more"));
}

TEST(Graph, NamesAndNumbers) {
  Graph graph = Sourced();
  const TaskId unnamed = Add(graph, "");
  const TaskId named = Add(graph, "fit");
  const TaskId odd = Add(graph, "1");
  const TaskId fourth = Add(graph, "9_4");
  Add(graph, "9_15");
  ASSERT_TRUE(graph.Seal().ok());
  EXPECT_EQ(graph.TaskName(unnamed), "#1");
  EXPECT_EQ(graph.TaskName(named), "fit");
  EXPECT_EQ(graph.command(named), "run");
  EXPECT_EQ(graph.FindTask("fit"), named);
  EXPECT_EQ(graph.FindTask("#2"), named);
  EXPECT_FALSE(graph.FindTask("2")) << "it has a name";
  EXPECT_EQ(graph.FindTask("1"), odd) << "a name goes before a number";
  EXPECT_EQ(graph.FindTask("#1"), unnamed);
  EXPECT_FALSE(graph.FindTask("0"));
  EXPECT_EQ(graph.FindTask("4"), fourth) << "both readings agree";
  EXPECT_FALSE(graph.FindTask("5")) << "it may mean 9_5";
  EXPECT_FALSE(graph.FindTask("15"));
  EXPECT_FALSE(graph.FindTask("6"));
  EXPECT_FALSE(graph.FindTask("fi"));
  EXPECT_FALSE(graph.FindTask(""));
}

TEST(Graph, EqualProfilesAreOne) {
  Graph graph;
  Profile profile;
  profile.shape.cores = 3;
  profile.env = {{"A", "1"}};
  const ProfileId first = graph.AddProfile(profile);
  EXPECT_EQ(graph.AddProfile(profile), first);
  profile.env[0].second = "2";
  EXPECT_NE(graph.AddProfile(profile), first);
  EXPECT_EQ(graph.profile_count(), 2u);
}

TEST(Graph, GrowthRaisesLevels) {
  Graph graph = Sourced();
  const TaskId a = Add(graph, "a", {}, {"x"});
  const TaskId b = Add(graph, "b", {}, {}, {a});
  ASSERT_TRUE(graph.Seal().ok());
  const TaskId c = Add(graph, "c", {"x"}, {}, {b});
  ASSERT_TRUE(graph.Seal().ok());
  EXPECT_EQ(graph.level(a), 2);
  EXPECT_EQ(graph.level(b), 1);
  EXPECT_THAT(graph.relevelled(), ElementsAre(a, b));
  EXPECT_THAT(graph.predecessors(c), ElementsAre(a, b));
  EXPECT_THAT(graph.successors(a), ElementsAre(b, c));
  Add(graph, "alone");
  ASSERT_TRUE(graph.Seal().ok());
  EXPECT_TRUE(graph.relevelled().empty());
}

TEST(Graph, GrowthBeforeAnOldTask) {
  Graph graph = Sourced();
  const TaskId reader = Add(graph, "reader", {"late"});
  const TaskId last = Add(graph, "last", {}, {}, {reader});
  ASSERT_TRUE(graph.Seal().ok());
  const TaskId maker = Add(graph, "maker", {}, {"late"});
  ASSERT_TRUE(graph.Seal().ok());
  EXPECT_THAT(graph.predecessors(reader), ElementsAre(maker));
  EXPECT_THAT(graph.successors(maker), ElementsAre(reader));
  EXPECT_THAT(graph.successors(reader), ElementsAre(last));
  EXPECT_EQ(graph.level(maker), 2);
}

TEST(Graph, GrowthMayNotCloseACycleOrTakeAName) {
  Graph graph = Sourced();
  const TaskId reader = Add(graph, "reader", {"late"}, {"made"});
  ASSERT_TRUE(graph.Seal().ok());
  Add(graph, "maker", {"made"}, {"late"});
  EXPECT_THAT(graph.Seal().message(), HasSubstr("reader -> maker -> reader"));
  Graph other = Sourced();
  Add(other, "x");
  ASSERT_TRUE(other.Seal().ok());
  Add(other, "x");
  EXPECT_THAT(other.Seal().message(), HasSubstr("a second task is named 'x'"));
  static_cast<void>(reader);
}

TEST(Graph, ATaskMayWaitForTheEndOfOthersAlone) {
  Graph graph = Sourced();
  const TaskId make = Add(graph, "make", {}, {"f"}), fails = Add(graph, "fails");
  const TaskId end = Add(graph, "end", {"f"});
  graph.AddDependency(make, end, WaitsFor::kEnd);
  graph.AddDependency(fails, end, WaitsFor::kEnd);
  ASSERT_TRUE(graph.Seal().ok());
  EXPECT_THAT(graph.predecessors(end), ElementsAre(make, fails));
  EXPECT_THAT(graph.successors(fails), ElementsAre(end));
  EXPECT_EQ(graph.level(fails), 1u);
  EXPECT_TRUE(graph.OnlyWaits(fails, end));
  EXPECT_FALSE(graph.OnlyWaits(make, end)) << "its file is needed";
  EXPECT_FALSE(graph.OnlyWaits(end, fails));
  graph.AddDependency(end, fails, WaitsFor::kEnd);
  EXPECT_THAT(graph.Seal().message(), HasSubstr("fails -> end -> fails")) << "a cycle all the same";
}

/// Grown in pieces or built at once: the same graph.
TEST(Graph, RandomGrowthEqualsBuildingAtOnce) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    order::SeededDraws random(seed);
    Graph pieces = Sourced(), whole = Sourced();
    std::set<std::pair<TaskId, TaskId>> needed, waited_for;  // a task, and one before it
    const uint32_t count = 1 + random.Below(120);
    for (uint32_t n = 0; n < count; ++n) {
      std::vector<std::string> in, out;
      std::vector<TaskId> after;
      for (uint32_t k = random.Below(4); k > 0 && n > 0; --k) {
        if (random.Below(2) == 0)
          after.emplace_back(random.Below(n));
        else
          in.push_back("f" + std::to_string(random.Below(n)));
      }
      if (random.Below(3) > 0) out.push_back("f" + std::to_string(n));
      const std::string name = "t" + std::to_string(n);
      Add(pieces, name, in, out, after);
      Add(whole, name, in, out, after);
      for (TaskId before : after) needed.insert({TaskId(n), before});
      // Of this task, or of one that may be sealed already.
      if (random.Below(3) == 0 && n > 0) {
        const TaskId late(random.Below(2) == 0 ? n : 1 + random.Below(n)), before(random.Below(late.value));
        pieces.AddDependency(before, late, WaitsFor::kEnd);
        whole.AddDependency(before, late, WaitsFor::kEnd);
        waited_for.insert({late, before});
      }
      if (random.Below(9) == 0 && n > 0) {
        const TaskId late(1 + random.Below(n)), before(random.Below(late.value));
        pieces.AddDependency(before, late);
        whole.AddDependency(before, late);
        needed.insert({late, before});
      }
      if (random.Below(5) == 0) {
        ASSERT_TRUE(pieces.Seal().ok());
      }
    }
    ASSERT_TRUE(pieces.Seal().ok());
    ASSERT_TRUE(whole.Seal().ok());
    for (uint32_t n = 0; n < count; ++n) {
      const TaskId task(n);
      EXPECT_EQ(pieces.level(task), whole.level(task)) << n;
      EXPECT_EQ(List(pieces.predecessors(task)), List(whole.predecessors(task))) << n;
      for (FileId file : whole.inputs(task)) {
        if (whole.producer(file)) needed.insert({task, whole.producer(file)});
      }
      for (TaskId before : whole.predecessors(task)) {
        const bool only_waits = !needed.contains({task, before});
        EXPECT_TRUE(!only_waits || waited_for.contains({task, before})) << n;
        EXPECT_EQ(whole.OnlyWaits(before, task), only_waits) << n << " for " << before.value;
        EXPECT_EQ(pieces.OnlyWaits(before, task), only_waits) << n << " for " << before.value;
      }
      std::vector<TaskId> a = List(pieces.successors(task)), b = List(whole.successors(task));
      std::sort(a.begin(), a.end());
      EXPECT_EQ(a, b) << n;
      Level expected = 0;
      for (TaskId next : b) expected = std::max(expected, whole.level(next) + 1);
      EXPECT_EQ(whole.level(task), expected) << n;
    }
  }
}

TEST(Graph, CriticalPath) {
  Graph graph;
  const auto add = [&](int seconds, std::vector<TaskId> after) {
    TaskSpec spec;
    spec.after = after;
    spec.recorded_run_time = std::chrono::seconds(seconds);
    return graph.AddTask(spec);
  };
  const TaskId a = add(1, {}), b = add(5, {}), c = add(2, {a, b}), d = add(1, {a});
  ASSERT_TRUE(graph.Seal().ok());
  const CriticalPath path = FindCriticalPath(graph);
  EXPECT_EQ(path.length, std::chrono::seconds(7));
  EXPECT_THAT(path.tasks, ElementsAre(b, c));
  static_cast<void>(d);
}

TEST(Graph, NeededForTargets) {
  Graph graph;
  const TaskId a = Add(graph, "a"), b = Add(graph, "b", {}, {}, {a}), c = Add(graph, "c", {}, {}, {a});
  const TaskId d = Add(graph, "d", {}, {}, {b});
  ASSERT_TRUE(graph.Seal().ok());
  const std::vector<TaskId> targets = {b};
  EXPECT_THAT(NeededFor(graph, targets), ElementsAre(true, true, false, false));
  static_cast<void>(c);
  static_cast<void>(d);
}

TEST(Graph, MovesWithItsText) {
  Graph graph = Sourced();
  const TaskId task = Add(graph, "name", {"in"});
  const std::string_view name = graph.given_name(task);
  const Graph moved = std::move(graph);
  EXPECT_EQ(moved.given_name(task).data(), name.data());
  EXPECT_EQ(moved.file_name(moved.inputs(task)[0]), "in");
}

TEST(Graph, MemoryOfAMillionLines) {
  Graph graph;
  constexpr uint32_t kTasks = 100'000;
  for (uint32_t n = 0; n < kTasks; ++n) graph.AddTask({.command = "echo some words"});
  ASSERT_TRUE(graph.Seal().ok());
  EXPECT_LT(graph.MemoryWithoutText() / kTasks, 80u);
}

}  // namespace
}  // namespace harrow::graph
