#include "server/attempt_table.h"

#include <cstdio>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>

#include "order/draws.h"

namespace harrow::server {
namespace {

using State = AttemptTable::State;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

graph::Graph Tasks(uint32_t count, uint32_t cores) {
  graph::Graph graph;
  graph::Profile profile;
  profile.shape.cores = cores;
  graph::TaskSpec spec;
  spec.profile = graph.AddProfile(profile);
  for (uint32_t i = 0; i < count; ++i) graph.AddTask(spec);
  EXPECT_TRUE(graph.Seal().ok());
  return graph;
}

TEST(AttemptTable, ARowIsFoundByAttemptAndNodeOnly) {
  const graph::Graph graph = Tasks(2, 1);
  AttemptTable table(graph);
  const AttemptId id{TaskId(1), 3};
  table.Add(id, NodeId(4), State::kSent);
  EXPECT_NE(table.Find(id, NodeId(4)), nullptr);
  EXPECT_EQ(table.Find(id, NodeId(3)), nullptr);
  EXPECT_EQ(table.Find({TaskId(1), 2}, NodeId(4)), nullptr);
  EXPECT_EQ(table.Find(TaskId(0)), nullptr);
  EXPECT_THAT(table.At(NodeId(4)), ElementsAre(TaskId(1)));
  EXPECT_THAT(table.At(NodeId(77)), IsEmpty());
}

TEST(AttemptTable, WhatRunsIsCountedInCoreTime) {
  const graph::Graph graph = Tasks(3, 2);
  AttemptTable table(graph);
  table.Begin(&table.Add({TaskId(0), 1}, NodeId(0), State::kSent), 100'000'000);
  table.Begin(&table.Add({TaskId(1), 1}, NodeId(0), State::kSent), 150'000'000);
  table.Begin(table.Find(TaskId(1)), 10'000'000);  // told twice
  table.Add({TaskId(2), 1}, NodeId(1), State::kSent);
  EXPECT_DOUBLE_EQ(table.CoreSeconds(200'000'000), 1e-3 * (2 * 100 + 2 * 50));
  EXPECT_EQ(table.running(NodeId(0)), 2u);
  EXPECT_EQ(table.running(NodeId(1)), 0u);
  table.Erase(TaskId(0));
  EXPECT_DOUBLE_EQ(table.CoreSeconds(200'000'000), 1e-3 * (2 * 50));
  table.Lose(table.Find(TaskId(1)), 190'000'000, "why");
  EXPECT_DOUBLE_EQ(table.CoreSeconds(200'000'000), 1e-3 * (0));
  EXPECT_THAT(table.At(NodeId(0)), IsEmpty());
  table.Begin(table.Find(TaskId(1)), 180'000'000);
  EXPECT_DOUBLE_EQ(table.CoreSeconds(200'000'000), 1e-3 * (2 * 50)) << "it has run all the time";
  EXPECT_THAT(table.At(NodeId(0)), ElementsAre(TaskId(1)));
}

TEST(AttemptTable, TheNextAttemptReplacesTheRow) {
  const graph::Graph graph = Tasks(1, 1);
  AttemptTable table(graph);
  table.Begin(&table.Add({TaskId(0), 1}, NodeId(0), State::kReturning), 5);
  EXPECT_EQ(table.returning(), 0u);
  table.Add({TaskId(0), 2}, NodeId(1), State::kReturning);
  EXPECT_THAT(table.At(NodeId(0)), IsEmpty());
  EXPECT_EQ(table.returning(), 1u);
  table.Erase(TaskId(0));
  EXPECT_EQ(table.returning(), 0u);
  table.Erase(TaskId(0));
}

/// Against a plain map, in random order.
TEST(AttemptTable, RandomSteps) {
  constexpr uint32_t kTasks = 40, kNodes = 5;
  constexpr int64_t kUs = 1000;
  const graph::Graph graph = Tasks(kTasks, 3);
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    order::SeededDraws draws(seed);
    AttemptTable table(graph);
    struct Known {
      NodeId node;
      State state;
      int64_t start = 0;
    };
    std::map<uint32_t, Known> known;
    for (int step = 0; step < 3000; ++step) {
      const uint32_t task = draws.Below(kTasks);
      AttemptTable::Row* row = table.Find(TaskId(task));
      ASSERT_EQ(row != nullptr, known.contains(task));
      switch (draws.Below(4)) {
        case 0: {
          const NodeId node(draws.Below(kNodes));
          const State state = draws.Below(3) == 0 ? State::kReturning : State::kSent;
          table.Add({TaskId(task), static_cast<uint32_t>(step + 1)}, node, state);
          known[task] = {node, state};
          break;
        }
        case 1:
          if (row == nullptr) break;
          table.Begin(row, (step + 1) * kUs);
          if (known[task].start == 0) known[task].start = step + 1;
          known[task].state = State::kRunning;
          break;
        case 2:
          if (row == nullptr) break;
          table.Lose(row, step, "lost");
          known[task].state = State::kLost;
          break;
        case 3:
          table.Erase(TaskId(task));
          known.erase(task);
          break;
      }
      int64_t busy = 0;
      uint64_t returning = 0;
      std::map<uint32_t, size_t> at;
      for (const auto& [other, is] : known) {
        if (is.state == State::kRunning) busy += 3 * (10'000 - is.start);
        returning += is.state == State::kReturning;
        if (is.state != State::kLost) ++at[is.node.value];
      }
      ASSERT_DOUBLE_EQ(table.CoreSeconds(10'000 * kUs), 1e-6 * static_cast<double>(busy));
      ASSERT_EQ(table.returning(), returning);
      for (uint32_t node = 0; node < kNodes; ++node) {
        ASSERT_EQ(table.At(NodeId(node)).size(), at[node]);
        for (const TaskId there : table.At(NodeId(node))) ASSERT_EQ(known.at(there.value).node, NodeId(node));
      }
    }
  }
}

}  // namespace
}  // namespace harrow::server
