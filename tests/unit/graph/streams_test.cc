#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace harrow::graph {
namespace {

TaskId Add(Graph* graph, const char* name, std::vector<FileId> in = {}, std::vector<FileId> out = {}) {
  TaskSpec spec;
  spec.name = name;
  spec.command = "x";
  spec.in = in;
  spec.out = out;
  return graph->AddTask(spec);
}

TEST(Streams, AReaderMayBeginWhenItsWriterHas) {
  Graph graph;
  graph.AddSource("flow");
  const TaskId a = Add(&graph, "a"), b = Add(&graph, "b"), c = Add(&graph, "c");
  graph.AddDependency(a, b, WaitsFor::kStart);
  graph.AddDependency(b, c);
  ASSERT_TRUE(graph.Seal().ok());
  EXPECT_TRUE(graph.StartSuffices(a, b));
  EXPECT_FALSE(graph.StartSuffices(b, c));
  EXPECT_FALSE(graph.OnlyWaits(a, b));  // it needs it all the same
  EXPECT_EQ(graph.level(a), 2);
}

TEST(Streams, WhatElseWaitsForTheEndOfTheWriterDecides) {
  Graph graph;
  graph.AddSource("flow");
  const FileId file = graph.AddFile("f");
  const TaskId a = Add(&graph, "a", {}, {file}), by_file = Add(&graph, "b", {file}),
               by_after = Add(&graph, "c"), by_end = Add(&graph, "d"), by_stream = Add(&graph, "e");
  for (const TaskId task : {by_file, by_after, by_end, by_stream})
    graph.AddDependency(a, task, WaitsFor::kStart);
  graph.AddDependency(a, by_after);
  graph.AddDependency(a, by_end, WaitsFor::kEnd);
  ASSERT_TRUE(graph.Seal().ok());
  EXPECT_FALSE(graph.StartSuffices(a, by_file));
  EXPECT_FALSE(graph.StartSuffices(a, by_after));
  EXPECT_FALSE(graph.StartSuffices(a, by_end));
  EXPECT_TRUE(graph.StartSuffices(a, by_stream));
  EXPECT_EQ(graph.predecessors(by_after).size(), 1u);
  EXPECT_EQ(graph.successors(a).size(), 4u);
}

TEST(Streams, ACycleIsRefused) {
  Graph graph;
  graph.AddSource("flow");
  const TaskId a = Add(&graph, "a"), b = Add(&graph, "b");
  graph.AddDependency(a, b, WaitsFor::kStart);
  graph.AddDependency(b, a, WaitsFor::kStart);
  EXPECT_NE(graph.Seal().message().find("a -> b -> a"), std::string::npos);
}

TEST(Streams, AreFoundByNameAndKeepTheirEnds) {
  Graph graph;
  const TaskId a = Add(&graph, "a"), b = Add(&graph, "b");
  const StreamId s = graph.AddStream("s"), t = graph.AddStream("t");
  EXPECT_EQ(graph.AddStream("s"), s);
  EXPECT_NE(s, t);
  graph.AddWriter(s, a);
  graph.AddReader(s, b);
  graph.SetSplit(t);
  EXPECT_EQ(graph.streams()[s.value].writers, std::vector<TaskId>{a});
  EXPECT_EQ(graph.streams()[s.value].readers, std::vector<TaskId>{b});
  EXPECT_FALSE(graph.streams()[s.value].split);
  EXPECT_TRUE(graph.streams()[t.value].split);
}

TEST(Models, BelongToRangesOfTasks) {
  Graph graph;
  for (const char* name : {"a", "b", "c", "d", "e"}) Add(&graph, name);
  graph.SetModel(TaskId(1), 2, "compute(1)");
  graph.SetModel(TaskId(4), 1, "compute(1)");
  EXPECT_EQ(graph.models().size(), 1u);
  EXPECT_EQ(graph.model(TaskId(0)), UINT32_MAX);
  EXPECT_EQ(graph.model(TaskId(1)), 0u);
  EXPECT_EQ(graph.model(TaskId(2)), 0u);
  EXPECT_EQ(graph.model(TaskId(3)), UINT32_MAX);
  EXPECT_EQ(graph.model(TaskId(4)), 0u);
}

}  // namespace
}  // namespace harrow::graph
