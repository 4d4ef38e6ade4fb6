#include "cost/predict.h"

#include <gtest/gtest.h>
#include <vector>

#include "cost/load.h"
#include "cost/placement.h"

namespace harrow::cost {
namespace {

/// Tasks of so many seconds; then who reads of whom.
Load LoadOf(std::vector<double> seconds, const std::vector<std::vector<Load::Source>>& sources) {
  Load load;
  for (size_t t = 0; t < seconds.size(); ++t) {
    Load::Task task;
    task.seconds = seconds[t];
    task.first_source = static_cast<uint32_t>(load.sources.size());
    if (t < sources.size()) {
      for (const Load::Source& source : sources[t]) {
        load.sources.push_back(source);
        task.rank = std::max(task.rank, load.tasks[source.task].rank + 1);
      }
    }
    task.sources = static_cast<uint32_t>(load.sources.size()) - task.first_source;
    load.tasks.push_back(task);
  }
  return load;
}

Machine Nodes(uint32_t nodes, uint32_t slots, double rate) {
  return {std::vector<Machine::Node>(nodes, Machine::Node{slots, 1, rate, rate})};
}

Prediction Of(const Load& load, const Machine& machine, std::vector<uint32_t> node,
              std::vector<Standing> standing = {}) {
  Placement placement{std::move(node), {}};
  OrderByRank(load, &placement);
  return Predictor(load, machine).Predict(placement.node, placement.order, standing);
}

TEST(Predict, OneSlotRunsWriterAndReaderOneAfterTheOther) {
  const Load load = LoadOf({10, 4}, {{}, {{0, 100, false}}});
  EXPECT_EQ(Of(load, Nodes(1, 1, 10), {0, 0}).makespan, 14);
  EXPECT_EQ(Of(load, Nodes(1, 2, 10), {0, 0}).makespan, 10);  // at the same time, and not before its writer
  EXPECT_EQ(Of(load, Nodes(1, 1, 10), {0, 0}).bytes, 0);
}

TEST(Predict, WhatComesFromAnotherNodeTakesItsLink) {
  const Load load = LoadOf({10, 4}, {{}, {{0, 100, false}}});
  EXPECT_EQ(Of(load, Nodes(2, 1, 5), {0, 1}).makespan, 20);
  EXPECT_EQ(Of(load, Nodes(2, 1, 20), {0, 1}).makespan, 10);
  EXPECT_EQ(Of(load, Nodes(2, 1, 5), {0, 1}).bytes, 100);
}

TEST(Predict, TransfersShareALink) {
  const Load load = LoadOf({1, 1, 1}, {{}, {{0, 100, false}}, {{0, 100, false}}});
  EXPECT_DOUBLE_EQ(Of(load, Nodes(3, 1, 10), {0, 1, 2}).makespan, 20);
}

TEST(Predict, WhatComesFromTwoNodesComesFromOneAfterTheOther) {
  // The last one begins behind the reader, and reads nothing.
  const Load load = LoadOf({1, 1, 1, 1}, {{}, {}, {{0, 100, false}, {1, 50, false}}});
  EXPECT_DOUBLE_EQ(Of(load, Nodes(4, 1, 10), {0, 1, 2, 3}).makespan, 15);
}

TEST(Predict, NothingIsBetterThanTheSame) {
  EXPECT_FALSE(Prediction().BetterThan(Prediction()));
  EXPECT_TRUE((Prediction{0, 1}.BetterThan(Prediction{0, 2})));
}

TEST(Predict, AFileIsReadWhenItsWriterHasEnded) {
  const Load load = LoadOf({10, 4}, {{}, {{0, 100, true}}});
  EXPECT_EQ(Of(load, Nodes(1, 2, 10), {0, 0}).makespan, 14);
  EXPECT_EQ(Of(load, Nodes(2, 1, 10), {0, 1}).makespan, 24);
}

TEST(Predict, WhatRunsOrHasRunIsCountedWhereItIs) {
  const Load load = LoadOf({10, 4}, {{}, {{0, 100, false}}});
  using State = Standing::State;
  EXPECT_EQ(Of(load, Nodes(1, 1, 10), {0, 0}, {{State::kRunning, 3}, {}}).makespan, 7);
  EXPECT_EQ(Of(load, Nodes(2, 1, 10), {0, 1}, {{State::kDone, 0}, {}}).makespan, 10);
}

TEST(Predict, ATaskTooWideForItsNodeNeverEnds) {
  Load load = LoadOf({1, 1}, {});
  load.tasks[0].cores = 2;
  EXPECT_EQ(Of(load, Nodes(1, 2, 1), {0, 0}).makespan, 2);  // both cores, then one
}

TEST(Refine, PutsApartWhatComputesAndTogetherWhatTalks) {
  // Two pairs: much is said within, little work is shared by leaving them apart.
  const Load load = LoadOf({10, 10, 10, 10}, {{}, {{0, 1000, false}}, {}, {{2, 1000, false}}});
  Placement placement{{0, 1, 1, 0}, {}};
  OrderByRank(load, &placement);
  const Prediction found = Refine(load, Nodes(2, 2, 10), {}, 100'000, &placement);
  EXPECT_EQ(found.makespan, 10);
  EXPECT_EQ(found.bytes, 0);
  EXPECT_EQ(placement.node[0], placement.node[1]);
  EXPECT_EQ(placement.node[2], placement.node[3]);
  EXPECT_NE(placement.node[0], placement.node[2]);
}

TEST(Refine, LeavesWhatRunsWhereItIs) {
  const Load load = LoadOf({10, 10}, {});
  Placement placement{{0, 0}, {}};
  OrderByRank(load, &placement);
  const std::vector<Standing> standing = {{Standing::State::kRunning, 10}, {}};
  EXPECT_EQ(Refine(load, Nodes(2, 1, 10), standing, 1000, &placement).makespan, 10);
  EXPECT_EQ(placement.node, (std::vector<uint32_t>{0, 1}));
}

TEST(Load, HasAnEntryForEachPairOfWriterAndReader) {
  Net net;
  net.programs = {std::get<CostFunctions>(ParseMetaProgram("compute(3) output(12)"))};
  net.tasks = {{0, 2, {}, {1}}, {kNoProgram, 4, {}, {8}}};
  net.streams = {{1, true, {}, {0}, {1}}, {2, false, {6}, {0}, {1}}};
  const Load load = MakeLoad(net, *FindCosts(net), {{2, 10}, {1, 1}});
  ASSERT_EQ(load.tasks.size(), 6u);
  EXPECT_EQ(load.tasks[0].seconds, 6);
  EXPECT_EQ(load.tasks[2].seconds, 8);
  ASSERT_EQ(load.tasks[5].sources, 3u);
  const Load::Source* sources = &load.sources[load.tasks[5].first_source];
  EXPECT_EQ(sources[0].bytes, 30);  // a quarter of 12 units of 10 bytes
  EXPECT_FALSE(sources[0].file);
  EXPECT_EQ(sources[2].task, 1u);
  EXPECT_EQ(sources[2].bytes, 6);
  EXPECT_TRUE(sources[2].file);
  EXPECT_TRUE(MakeLoad(net, *FindCosts(net), {{2, 10}, {1, 1}}, 8).tasks.empty());
}

}  // namespace
}  // namespace harrow::cost
