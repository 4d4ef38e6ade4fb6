// The longest remaining path first, in seconds: by models and recorded times, by what another run found, and by what is learnt.

#include "core/path_order.h"

#include <gtest/gtest.h>
#include <map>
#include <string>
#include <vector>

#include "core/scheduler.h"

namespace harrow::core {
namespace {

Options ByCost() {
  Options options;
  options.policy = order::Policy::kCost;
  return options;
}

class PathOrderTest : public testing::Test {
 protected:
  void Add(const std::string& name, const std::string& kind, std::vector<TaskId> after = {}, Duration recorded = {}, int32_t priority = 0) {
    graph::Profile profile;
    profile.priority = priority;
    graph::TaskSpec spec;
    spec.name = name;
    spec.command = "x";
    spec.kind = graph.AddKind(kind);
    spec.after = after;
    spec.profile = graph.AddProfile(profile);
    if (recorded > Duration(0)) spec.recorded_run_time = recorded;
    graph.AddTask(spec);
  }
  /// What is started on one slot, the first first.
  std::string Order(const Options& options, Duration run_time = std::chrono::seconds(1)) {
    EXPECT_TRUE(graph.Seal().ok());
    Scheduler scheduler(graph, options);
    std::vector<Action> actions;
    std::string order;
    scheduler.HandleAll(now, {TasksAdded{TaskId(0), static_cast<uint32_t>(graph.task_count())}, NodeJoined{NodeId(0), {1, 0, 0}}, AllNodesJoined{}}, &actions);
    for (size_t i = 0; i < actions.size(); ++i) {
      const auto* start = std::get_if<StartTask>(&actions[i]);
      if (start == nullptr) continue;
      order += graph.TaskName(start->attempt.task);
      const TaskEnded ended{start->attempt, NodeId(0), Done{}, took.contains(graph.TaskName(start->attempt.task)) ? took[graph.TaskName(start->attempt.task)] : run_time};
      now += ended.run_time;
      scheduler.HandleAll(now, {ended}, &actions);
      scheduler.SanityCheck();
    }
    return order;
  }
  graph::Graph graph;
  Time now{};
  std::map<std::string, Duration> took;
};

constexpr auto kSecond = std::chrono::seconds(1);

TEST_F(PathOrderTest, SecondsCountAndNotLevels) {
  Add("a", "k", {}, kSecond);
  Add("b", "k", {}, 9 * kSecond);
  Add("c", "k", {TaskId(0)}, kSecond);
  Add("d", "k", {TaskId(2)}, kSecond);
  EXPECT_EQ(Order(ByCost()), "bacd");
  Options levels;
  levels.policy = order::Policy::kHrf;
  EXPECT_EQ(Order(levels), "acbd");
}

TEST_F(PathOrderTest, APriorityGoesBefore) {
  Add("a", "k", {}, 3600 * 24 * 365 * kSecond);
  Add("b", "k", {}, kSecond, 1);
  EXPECT_EQ(Order(ByCost()), "ba");
}

TEST_F(PathOrderTest, WhatAnotherRunFoundCounts) {
  Add("a", "short");
  Add("b", "long");
  Add("c", "middle");
  Options options = ByCost();
  options.costs.known = {{.model = "", .kind = "short", .tasks = 1, .seconds = 1},
                         {.model = "", .kind = "long", .tasks = 1, .seconds = 100},
                         {.model = "", .kind = "middle", .tasks = 1, .seconds = 10}};
  EXPECT_EQ(Order(options), "bca");
  EXPECT_EQ(Order(ByCost()), "abc") << "nothing is known";
}

TEST_F(PathOrderTest, WhatIsLearntPutsThoseThatWaitInAnotherOrder) {
  // The first two say how long their kinds take.
  Add("a", "short", {}, {}, 1);
  Add("b", "long", {}, {}, 1);
  Add("c", "short");
  Add("d", "long");
  Add("e", "short");
  Add("f", "long");
  took = {{"b", 50 * kSecond}, {"d", 50 * kSecond}, {"f", 50 * kSecond}};
  EXPECT_EQ(Order(ByCost()), "abdfce");
}

TEST_F(PathOrderTest, IsDueAgainWhenOneInSixteenHasEndedSinceItWasFound) {
  constexpr uint32_t kTasks = 48;
  for (uint32_t n = 0; n < kTasks; ++n) Add(std::to_string(n), "k");
  ASSERT_TRUE(graph.Seal().ok());
  PathOrder order(graph, ByCost());
  order.Grow();
  uint32_t ended = 0;
  Duration run_time = kSecond;
  for (const int round : {1, 2}) {
    order.Find();
    for (const bool due : {false, false, true}) {
      run_time *= 10;  // far more than what is expected by now
      order.Learn({{TaskId(ended++), 1}, NodeId(0), Done{}, run_time});
      EXPECT_EQ(order.due(), due) << round << ", " << ended;
    }
  }
}

TEST_F(PathOrderTest, IsOffForOtherOrders) {
  Add("a", "k");
  ASSERT_TRUE(graph.Seal().ok());
  EXPECT_FALSE(PathOrder(graph, Options()).on());
  EXPECT_TRUE(PathOrder(graph, ByCost()).on());
}

}  // namespace
}  // namespace harrow::core
