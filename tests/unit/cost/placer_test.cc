#include "cost/placer.h"

#include <array>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "cost/factors.h"
#include "unit/cost/net_support.h"

namespace harrow::cost {
namespace {

using Stands = Placer::State;

/// A graph, its placer, and how its tasks stand.
struct World {
  graph::Graph graph;
  std::vector<Placer::Standing> standing;
  std::unique_ptr<Placer> placer;

  World(graph::Graph the_graph, PlacerOptions options, uint32_t nodes, uint32_t slots = 1)
      : graph(std::move(the_graph)) {
    const Status sealed = graph.Seal();
    EXPECT_TRUE(sealed.ok()) << sealed.message();
    standing.resize(graph.task_count());
    placer = MakePlacer(graph, options);
    placer->Grow();
    for (uint32_t n = 0; n < nodes; ++n) placer->SetSlots(NodeId(n), slots);
    Place(0);
  }
  void Place(double now) {
    placer->Place(now, [this](TaskId task) { return standing[task.value]; });
  }
  /// Of each node its tasks that wait, in their order.
  std::string Queues(uint32_t nodes) const {
    std::string text;
    for (uint32_t n = 0; n < nodes; ++n) {
      std::vector<std::pair<uint32_t, uint32_t>> tasks;
      for (uint32_t t = 0; t < standing.size(); ++t) {
        if (standing[t].state == Stands::kWaiting && placer->node(TaskId(t)) == NodeId(n))
          tasks.emplace_back(placer->order(TaskId(t)), t);
      }
      std::sort(tasks.begin(), tasks.end());
      text += n == 0 ? "" : " | ";
      for (size_t i = 0; i < tasks.size(); ++i)
        text += (i == 0 ? "" : " ") + graph.TaskName(TaskId(tasks[i].second));
    }
    return text;
  }
};

PlacerOptions Paper(double groups, double stream) {
  PlacerOptions options;
  options.how = Place::kCostPaper;
  options.groups = groups;
  options.stream = stream;
  return options;
}

/// Tasks that take so many seconds and know nothing of each other.
graph::Graph Apart(const std::vector<int>& seconds) {
  graph::Graph graph;
  graph.AddSource("apart");
  for (size_t i = 0; i < seconds.size(); ++i) {
    const std::string name = "t" + std::to_string(i);
    graph::TaskSpec spec;
    spec.name = name;
    spec.command = "x";
    spec.recorded_run_time = std::chrono::seconds(seconds[i]);
    graph.AddTask(spec);
  }
  return graph;
}

TEST(Placer, PlacesAsThePaperDoes) {
  EXPECT_EQ(World(Figure1(2, 2), Paper(4, 6), 2).Queues(2), "t2-2 t3-3 t3-4 | t1 t2-1 t3-1 t3-2");
  EXPECT_EQ(World(Figure1(4, 2), Paper(6, 6), 3).Queues(3),
            "t2-4 t3-7 t3-8 | t2-3 t3-5 t3-6 | t1 t2-2 t3-3 t3-4 t2-1 t3-1 t3-2");
  EXPECT_EQ(World(Figure1(2, 2), Paper(6, 60), 2).Queues(2), "t1 t2-2 t3-4 | t2-1 t3-1 t3-2 t3-3");
}

TEST(Placer, WhatWaitsIsPlacedAgainWithTheGroupsItIsIn) {
  World world(Apart({5000, 3000, 1000}), Paper(9, 0), 2);
  EXPECT_EQ(world.Queues(2), "t0 | t1 t2");
  world.standing[0] = {Stands::kDone, NodeId(0), 0};
  world.Place(1);
  EXPECT_EQ(world.Queues(2), "t1 | t2");  // X goes to the first of two empty queues
}

TEST(Placer, ANodeThatIsGoneIsGivenNothing) {
  for (const Place how : {Place::kCostPaper, Place::kCost}) {
    PlacerOptions options = Paper(9, 0);
    options.how = how;
    World world(Apart({4, 3, 2, 1}), options, 2);
    world.placer->SetSlots(NodeId(0), 0);
    world.Place(1);
    EXPECT_EQ(world.Queues(1), "");
    world.placer->SetSlots(NodeId(0), 1);
    world.Place(2);
    EXPECT_NE(world.Queues(1), "");
  }
}

TEST(Placer, NodesAreWeightedByTheirSlots) {
  World world(Apart({1, 1, 1, 1, 1, 1}), Paper(9, 0), 1);
  world.placer->SetSlots(NodeId(1), 2);
  world.Place(0);
  EXPECT_EQ(world.Queues(2), "t0 t3 | t1 t2 t4 t5");
}

TEST(Placer, WhatStaysTogetherIsWhatWritesMuch) {
  PlacerOptions options;
  options.how = Place::kCost;
  options.link = 1;
  // A unit is a microsecond and a byte a second on the link: the streams are dear.
  World world(Figure1(2, 2), options, 2);
  for (const auto& [writer, reader] : {std::pair{1u, 3u}, {1u, 4u}, {2u, 5u}, {2u, 6u}})
    EXPECT_EQ(world.placer->node(TaskId(writer)), world.placer->node(TaskId(reader)));
}

TEST(Placer, WhatRunsIsCountedWhereItRuns) {
  PlacerOptions options;
  options.how = Place::kCost;
  World world(Apart({100, 10, 10, 10}), options, 2);
  world.standing[0] = {Stands::kRunning, NodeId(1), 0};
  world.Place(1);
  EXPECT_EQ(world.Queues(2), "t1 t2 t3 | ");
}

TEST(Placer, TasksThatWaitAgainArePlacedAgain) {
  World world(Apart({3, 2, 1}), Paper(9, 0), 2);
  world.standing[0] = {Stands::kDone, NodeId(0), 0};
  world.standing[1] = {Stands::kGone, NodeId(), 0};
  world.Place(1);
  world.standing[0] = world.standing[1] = {};
  world.placer->Reopen(TaskId(0));
  world.placer->Reopen(TaskId(1));
  world.placer->Reopen(TaskId(1));
  world.Place(2);
  EXPECT_EQ(world.Queues(2), "t0 | t1 t2");
}

TEST(Placer, LearnsThatANodeIsSlow) {
  World world(Apart(std::vector<int>(40, 10)), Paper(99, 0), 2);
  const auto count_at = [&](uint32_t node) {
    int count = 0;
    for (uint32_t t = 0; t < 40; ++t)
      count += world.standing[t].state == Stands::kWaiting && world.placer->node(TaskId(t)) == NodeId(node);
    return count;
  };
  EXPECT_EQ(count_at(0), count_at(1));
  bool again = false;
  for (uint32_t t = 0; t < 16; ++t) {
    world.standing[t] = {Stands::kDone, NodeId(t % 2), 0};
    again |= world.placer->Learn(TaskId(t), NodeId(t % 2), t % 2 == 0 ? 10 : 30, -1);
  }
  EXPECT_TRUE(again);
  world.Place(100);
  EXPECT_GT(count_at(0), 2 * count_at(1));
}

TEST(Placer, TheModelIsMadeAnewWhenOneOfSixteenHasComeOrGone) {
  World world(Apart(std::vector<int>(48, 1)), Paper(9, 0), 2);
  EXPECT_FALSE(world.placer->stale());
  world.placer->Exchange(2);
  EXPECT_FALSE(world.placer->stale());
  world.placer->Exchange(1);
  EXPECT_TRUE(world.placer->stale());
  world.Place(1);
  EXPECT_FALSE(world.placer->stale());
  world.placer->Exchange(2);
  EXPECT_FALSE(world.placer->stale());
}

/// One that writes 100 bytes, and two that read them.
graph::Graph WriterAndReaders() {
  graph::Graph graph;
  graph.AddSource("files");
  const std::vector<FileId> file = {graph.AddFile("f")};
  graph.SetFileSize(file[0], 100);
  graph::TaskSpec spec;
  spec.name = "w";
  spec.command = "x";
  spec.out = file;
  spec.recorded_run_time = std::chrono::seconds(10);
  graph.AddTask(spec);
  spec.out = {};
  spec.in = file;
  spec.recorded_run_time = std::chrono::seconds(4);
  for (const char* name : {"r1", "r2"}) {
    spec.name = name;
    graph.AddTask(spec);
  }
  return graph;
}

TEST(Placer, WhatIsSharedIsWorthItsWayOverTheLink) {
  for (const double link : {1000.0, 1.0}) {
    PlacerOptions options;
    options.how = Place::kCost;
    options.link = link;
    World world(WriterAndReaders(), options, 2);
    const auto look = [&](TaskId task) { return world.standing[task.value]; };
    EXPECT_EQ(world.placer->Share(0.5, look, [](TaskId) { return true; }).size(), link > 1 ? 1u : 0u) << link;
    EXPECT_TRUE(world.placer->Share(0.5, look, [](TaskId) { return false; }).empty());
  }
}

TEST(Placer, WithoutAModelThatHasAValueNobodyIsPlaced) {
  graph::Graph graph = Apart({1, 1});
  graph.SetModel(TaskId(0), 2, "compute(1 / (@arg[0] - @arg[0]))");
  World world(std::move(graph), Paper(9, 0), 2);
  SUCCEED();
}

TEST(Factors, AProgramsUnitIsWhatItsTasksTook) {
  Factors factors(1e-6, 1);
  EXPECT_EQ(factors.seconds_a_unit(3), 1e-6);
  factors.Learn(0, 0, 100, 1);
  factors.Learn(0, 0, 300, 7);
  EXPECT_DOUBLE_EQ(factors.seconds_a_unit(0), 0.02);
  EXPECT_NEAR(factors.seconds_a_unit(1), 0.02, 1e-9);  // nothing else is known
  factors.Learn(1, 0, 1, 1e-6 * 1e-6 / 0.02);
  EXPECT_NEAR(factors.seconds_a_unit(2), 1e-6, 1e-12);  // as the others on average
  factors.Learn(0, 0, 0, 5);
  EXPECT_DOUBLE_EQ(factors.seconds_a_unit(0), 0.02);
}

TEST(Factors, OneTaskIsEnoughToKnowAProgramBy) {
  Factors factors(1, 1);
  for (int i = 0; i < 3; ++i) factors.Learn(0, 0, 1, 100);
  factors.Learn(1, 0, 1, 4);
  EXPECT_DOUBLE_EQ(factors.seconds_a_unit(1), 4);
}

TEST(Factors, AProgramsByteIsWhatItsTasksWrote) {
  Factors factors(1, 8);
  EXPECT_EQ(factors.bytes_a_unit(0), 8);
  factors.LearnBytes(0, 10, 300);
  factors.LearnBytes(0, 10, 100);
  factors.LearnBytes(0, 0, 100);
  EXPECT_EQ(factors.bytes_a_unit(0), 20);
  EXPECT_NEAR(factors.bytes_a_unit(5), 20, 1e-9);
  EXPECT_EQ(factors.seconds_a_unit(0), 1);
}

TEST(Factors, ANodesSpeedCountsWhereItIsNoChance) {
  Factors factors(1, 1);
  for (int i = 0; i < 30; ++i) {
    factors.Learn(0, 0, 10, 10);
    factors.Learn(0, 1, 10, 10);
    factors.Learn(0, 2, 10, 10);
    factors.Learn(0, 3, 10, 20);
  }
  EXPECT_EQ(factors.speed(7), 1);
  EXPECT_NEAR(factors.speed(3) / factors.speed(0), 0.5, 0.05);
  Factors scattered(1, 1);
  for (uint32_t i = 0; i < 60; ++i)
    scattered.Learn(0, i % 4, 10, std::array{30.0, 3.3, 10.0}[i % 3]);
  for (uint32_t n = 0; n < 4; ++n) EXPECT_EQ(scattered.speed(n), 1) << n;
}

}  // namespace
}  // namespace harrow::cost
