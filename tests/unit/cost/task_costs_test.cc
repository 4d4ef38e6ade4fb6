// What tasks are expected to cost, what other runs say of it, what is learnt, and the longest way that is left.
#include "cost/task_costs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "unit/cost/net_support.h"

namespace harrow::cost {
namespace {

using testing::ElementsAre;

class TaskCostsTest : public testing::Test {
 protected:
  TaskId Add(const std::string& name, const std::string& kind, std::vector<TaskId> after = {}, const std::string& command = "x",
             std::optional<Duration> recorded = {}) {
    graph::TaskSpec spec;
    spec.name = name;
    spec.command = command;
    spec.kind = graph.AddKind(kind);
    spec.after = after;
    spec.recorded_run_time = recorded;
    return graph.AddTask(spec);
  }
  TaskCosts Costs(std::vector<Known> known = {}) {
    EXPECT_TRUE(graph.Seal().ok());
    TaskCosts costs(graph, 1e-6, 1, std::move(known));
    EXPECT_TRUE(costs.Model());
    return costs;
  }
  graph::Graph graph;
};

TEST_F(TaskCostsTest, AModelsUnitIsAGuessThenWhatTasksTook) {
  const TaskId a = Add("a", "map", {}, "map 2"), b = Add("b", "map", {}, "map 6");
  graph.SetModel(a, 2, "compute(1000000 * @arg[0])");
  TaskCosts costs = Costs();
  EXPECT_DOUBLE_EQ(costs.seconds(a), 2);
  EXPECT_DOUBLE_EQ(costs.seconds(b), 6);
  EXPECT_TRUE(costs.Learn(a, NodeId(0), 10, -1)) << "five times as long";
  EXPECT_DOUBLE_EQ(costs.seconds(b), 30);
  costs.NoteExpected();
  EXPECT_FALSE(costs.Learn(b, NodeId(0), 31, -1));
  ASSERT_EQ(costs.Found().size(), 1u);
  const Known found = costs.Found()[0];
  EXPECT_EQ(found.model, "compute(1000000 * @arg[0])");
  EXPECT_EQ(found.kind, "map");
  EXPECT_EQ(found.tasks, 2u);
  EXPECT_DOUBLE_EQ(found.seconds, 20.5);
  EXPECT_DOUBLE_EQ(found.units, 4'000'000);
}

TEST_F(TaskCostsTest, WhatAnotherRunFoundIsExpected) {
  const TaskId a = Add("a", "map", {}, "map 2"), b = Add("b", "sort"), c = Add("c", "sort", {}, "x", std::chrono::seconds(3)), d = Add("d", "other");
  graph.SetModel(a, 1, "compute(1000 * @arg[0])");
  const TaskCosts costs = Costs({{.model = "compute(1000 * @arg[0])", .kind = "elsewhere", .tasks = 5, .seconds = 7, .units = 1000},
                                 {.model = "", .kind = "sort", .tasks = 1, .seconds = 40}});
  EXPECT_NEAR(costs.seconds(a), 14, 1e-9) << "seven seconds for half as many units";
  EXPECT_NEAR(costs.seconds(b) + costs.seconds(c), 80, 1e-9) << "forty on average";
  EXPECT_GT(costs.seconds(d), 0) << "as others, by what a unit of them took";
}

TEST_F(TaskCostsTest, ARecordedTimeIsExpected) {
  const TaskId a = Add("a", "sort", {}, "x", std::chrono::seconds(3));
  EXPECT_NEAR(Costs().seconds(a), 3, 1e-9);
}

TEST_F(TaskCostsTest, WhatIsMeasuredNowCorrectsIt) {
  const TaskId a = Add("a", "sort"), b = Add("b", "sort");
  TaskCosts costs = Costs({{.model = "", .kind = "sort", .tasks = 1000, .seconds = 1}});
  EXPECT_NEAR(costs.seconds(a), 1, 1e-9);
  for (int i = 0; i < 8; ++i) costs.Learn(a, NodeId(0), 3, -1);
  EXPECT_NEAR(costs.seconds(b), 2, 1e-9) << "eight of each";
}

TEST_F(TaskCostsTest, WhatIsNewIsExpectedAsItsKind) {
  const TaskId a = Add("a", "sort");
  TaskCosts costs = Costs();
  costs.Learn(a, NodeId(0), 5, -1);
  const TaskId b = Add("b", "sort");
  ASSERT_TRUE(graph.Seal().ok());
  ASSERT_TRUE(costs.Model());
  EXPECT_NEAR(costs.seconds(b), 5, 1e-9);
}

TEST_F(TaskCostsTest, TheLongestWayIsInSeconds) {
  //  a (1) -> b (10) -> d (1);  a -> c (2) -> e (3) -> d
  const TaskId a = Add("a", "k"), b = Add("b", "k", {a}), c = Add("c", "k", {a}), e = Add("e", "k", {c}), d = Add("d", "k", {b, e});
  ASSERT_TRUE(graph.Seal().ok());
  EXPECT_EQ(graph.level(c), 2);
  EXPECT_EQ(graph.level(b), 1) << "by levels the other one goes first";
  std::vector<double> seconds(5);
  seconds[a.value] = 1, seconds[b.value] = 10, seconds[c.value] = 2, seconds[e.value] = 3, seconds[d.value] = 1;
  const std::vector<double> path = RemainingPaths(graph, seconds);
  EXPECT_THAT(path, ElementsAre(12, 11, 6, 4, 1));
}

TEST_F(TaskCostsTest, WhoReadsAStreamRunsBesideWhoWritesIt) {
  const TaskId w = Add("w", "k"), r = Add("r", "k"), after = Add("after", "k", {r});
  const StreamId s = graph.AddStream("s");
  graph.AddWriter(s, w);
  graph.AddReader(s, r);
  graph.AddDependency(w, r, graph::WaitsFor::kStart);
  ASSERT_TRUE(graph.Seal().ok());
  EXPECT_THAT(RemainingPaths(graph, {5, 2, 1}), ElementsAre(6, 3, 1)) << "the reader ends after its writer";
  EXPECT_THAT(RemainingPaths(graph, {2, 5, 1}), ElementsAre(6, 6, 1));
  (void)after;
}

}  // namespace
}  // namespace harrow::cost
