// Tasks that are placed by what they cost: as told by a placer, and again when a queue has run empty.

#include "core/placing.h"

#include <gtest/gtest.h>
#include <map>
#include <string>

#include "core/scheduler.h"
#include "support/told_scheduler.h"

namespace harrow::core {
namespace {

using cost::Placer;
using test::ToldScheduler;

/// Does what a test says, and counts how often it was asked.
class Written final : public Placer {
 public:
  struct Plan {
    std::map<uint32_t, uint32_t> node;
    int placed = 0, learnt = 0;
    bool learn = false, stale = true, works = true, models = false;
  };
  explicit Written(Plan* plan) : plan_(*plan) {}
  void Grow() override {}
  void SetSlots(NodeId, uint32_t) override {}
  bool Learn(TaskId, NodeId, double, double) override {
    ++plan_.learnt;
    return plan_.learn;
  }
  void Place(double, const Look& look) override {
    ++plan_.placed;
    for (const auto& [task, node] : plan_.node) look(TaskId(task));
  }
  void Reopen(TaskId) override {}
  bool stale() const override { return plan_.stale; }
  bool works() const override { return plan_.works; }
  bool models(TaskId) const override { return plan_.models; }
  NodeId node(TaskId task) const override {
    const auto found = plan_.node.find(task.value);
    return found == plan_.node.end() ? NodeId() : NodeId(found->second);
  }
  uint32_t order(TaskId task) const override { return 100 - task.value; }

 private:
  Plan& plan_;
};

Options ByPaper() {
  Options options;
  options.costs.how = cost::Place::kCostPaper;
  return options;
}

TEST(Placing, EqualTasksAreSharedOutAndWhatWaitsIsPlacedAgain) {
  ToldScheduler s(ByPaper());
  for (const char* name : {"A", "B", "C", "D"}) s.Add(name);
  EXPECT_EQ(s.Begin({{1, 0, 0}, {1, 0, 0}}), "start A@0, start B@1");
  EXPECT_EQ(s.scheduler().Explain(s["D"]).candidates, std::vector<NodeId>{NodeId(1)});
  EXPECT_NE(s.scheduler().Explain(s["D"]).text.find("placed by what it costs"), std::string::npos);
  EXPECT_EQ(s.Ended("A", 0), "done A, start C@0");
  EXPECT_EQ(s.Ended("C", 0), "done C, start D@0") << "nothing waited for node 0 any more";
}

TEST(Placing, TheOrderIsThePlacements) {
  Written::Plan plan{.node = {{0, 0}, {1, 0}, {2, 1}}};
  Options options;
  options.make_placer = [&](const graph::Graph&) { return std::make_unique<Written>(&plan); };
  ToldScheduler s(options);
  for (const char* name : {"A", "B", "C"}) s.Add(name);
  EXPECT_EQ(s.Begin({{1, 0, 0}, {1, 0, 0}}), "start B@0, start C@1");
  EXPECT_EQ(plan.placed, 1);
  EXPECT_EQ(s.Ended("C", 1), "done C") << "A waits for node 0";
  EXPECT_EQ(plan.placed, 2) << "node 1 has nothing left";
  EXPECT_EQ(plan.learnt, 1);
  plan.node[0] = 1;
  plan.learn = true;
  EXPECT_EQ(s.Tell(NodeSilent{NodeId(0)}), "start A@1") << "and what waits goes where it is placed now";
}

TEST(Placing, WhoComesAndWasNotPlacedIsPlacedWhereAModelMayKnowIt) {
  graph::Graph graph;
  graph::TaskSpec spec;
  spec.name = "A";
  spec.command = "x";
  const TaskId task = graph.AddTask(spec);
  ASSERT_TRUE(graph.Seal().ok());
  for (const bool works : {false, true}) {
    for (const bool stale : {false, true}) {
      for (const bool models : {false, true}) {
        Written::Plan plan{.node = {}, .stale = stale, .works = works, .models = models};
        Options options;
        options.make_placer = [&](const graph::Graph&) { return std::make_unique<Written>(&plan); };
        Placing placing(graph, options);
        placing.Grow(1);
        placing.SetSlots(NodeId(0), 1);
        ASSERT_TRUE(placing.due());
        placing.Place(Time(), [](TaskId) { return Placer::Standing(); });
        ASSERT_FALSE(placing.due());
        placing.Comes(task);
        EXPECT_EQ(placing.due(), works && (stale || models)) << works << stale << models;
      }
    }
  }
}

TEST(Placing, WhereItsNodeIsClosedATaskGoesByItsFiles) {
  Written::Plan plan{.node = {{0, 0}, {1, 0}}};
  Options options;
  options.make_placer = [&](const graph::Graph&) { return std::make_unique<Written>(&plan); };
  ToldScheduler s(options);
  s.Add("A");
  s.Add("B");
  EXPECT_EQ(s.Begin({{1, 0, 0}, {1, 0, 0}}), "start B@0");
  EXPECT_EQ(s.Tell(NodeClosed{NodeId(0)}), "start A@1");
}

TEST(Placing, AReaderThatWasHeldUpTellsNothingOfWhatItComputes) {
  Written::Plan plan{.node = {{0, 0}}};
  Options options;
  options.make_placer = [&](const graph::Graph&) { return std::make_unique<Written>(&plan); };
  ToldScheduler s(options);
  s.Add("A");
  s.Begin({{1, 0, 0}});
  s.Tell(TaskEnded{s.Latest("A"), NodeId(0), Failed{}, std::chrono::seconds(1)});
  EXPECT_EQ(plan.learnt, 0) << "nor does one that failed";
}

}  // namespace
}  // namespace harrow::core
