#include "cost/from_graph.h"

#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "unit/cost/net_support.h"

namespace harrow::cost {
namespace {

using graph::CommandForm;
using Words = std::vector<std::string_view>;

TEST(Arguments, AreWhatFollowsTheProgram) {
  EXPECT_EQ(*ArgumentsOf("map  3 4.5", CommandForm::kWords), (Words{"3", "4.5"}));
  EXPECT_EQ(*ArgumentsOf(std::string_view("map\0a b\0\0"
                                          "7",
                                          10),
                         CommandForm::kArgv),
            (Words{"a b", "", "7"}));
  EXPECT_EQ(*ArgumentsOf(std::string_view("A=1\0map\0"
                                          "2",
                                          9),
                         CommandForm::kAssigned),
            Words{"2"});
  EXPECT_EQ(*ArgumentsOf("map", CommandForm::kWords), Words{});
  EXPECT_FALSE(ArgumentsOf("map $N", CommandForm::kShell).has_value());
  EXPECT_FALSE(ArgumentsOf("", CommandForm::kNone).has_value());
}

Net NetFrom(graph::Graph* graph) {
  const Status sealed = graph->Seal();
  EXPECT_TRUE(sealed.ok()) << sealed.message();
  Result<Net> net = NetOf(*graph, 1);
  EXPECT_TRUE(net.ok()) << net.status().message();
  return std::move(*net);
}

TEST(NetOf, LikeTasksAreOne) {
  graph::Graph graph = Figure1(4, 2);
  const Net net = NetFrom(&graph);
  ASSERT_EQ(net.tasks.size(), 3u);
  EXPECT_EQ(net.tasks[1].count, 4u);
  EXPECT_EQ(net.tasks[2].count, 8u);
  EXPECT_EQ(net.tasks[1].arguments[0], (Amounts{1, 2, 3, 4}));
  EXPECT_EQ(net.tasks[0].arguments[1], Amounts{10});
  ASSERT_EQ(net.streams.size(), 2u);
  EXPECT_EQ(net.streams[1].count, 4u);
  const Result<Costs> costs = FindCosts(net);
  ASSERT_TRUE(costs.ok());
  EXPECT_EQ(costs->compute[1], (Amounts{500, 1000, 1500, 2000}));
  EXPECT_EQ(costs->compute[2].back(), 20000);
}

TEST(NetOf, TasksThatAreConnectedDifferentlyAreToldApart) {
  graph::Graph graph = Figure1(4, 2);
  graph.AddReader(StreamId(1), TaskId(12));  // the last of T3 reads the first S2 as well
  graph.AddDependency(TaskId(1), TaskId(12), graph::WaitsFor::kStart);
  const Net net = NetFrom(&graph);
  EXPECT_EQ(net.task_count(), 13u);
  const Result<Costs> costs = FindCosts(net);
  ASSERT_TRUE(costs.ok()) << costs.status().message();
  double last = 0;
  for (const Amounts& amounts : costs->in) last = amounts.back();
  EXPECT_EQ(last, 100);
}

TEST(NetOf, FilesOfAKnownSizeAreStreamsOfSoManyBytes) {
  graph::Graph graph;
  graph.AddSource("files");
  const FileId file = graph.AddFile("a"), unknown = graph.AddFile("b");
  graph.SetFileSize(file, 4096);
  std::vector<FileId> both = {file, unknown};
  graph::TaskSpec spec;
  spec.name = "writer";
  spec.command = "x";
  spec.out = both;
  const TaskId writer = graph.AddTask(spec);
  for (const char* name : {"r1", "r2"}) {
    graph::TaskSpec reader;
    reader.name = name;
    reader.command = "y";
    reader.in = both;
    reader.recorded_run_time = std::chrono::seconds(3);
    graph.AddTask(reader);
  }
  graph::TaskSpec last;
  last.name = "last";
  last.command = "z";
  const std::vector<TaskId> after = {writer};
  last.after = after;
  graph.AddTask(last);
  const Net net = NetFrom(&graph);
  EXPECT_EQ(net.task_count(), 4u);
  ASSERT_EQ(net.stream_count(), 3u);
  const Result<Costs> costs = FindCosts(net);
  ASSERT_TRUE(costs.ok());
  double bytes = 0;
  for (const MetaStream& stream : net.streams) {
    ASSERT_FALSE(stream.size.empty());
    for (uint32_t s = 0; s < stream.count; ++s) bytes += AmountOf(stream.size, s);
  }
  EXPECT_EQ(bytes, 4096);
  EXPECT_EQ(costs->rank.back(), 1u);
  EXPECT_EQ(costs->compute[1], Amounts{3});
  EXPECT_FALSE(IsKnown(costs->compute[0][0]));
}

TEST(NetOf, AChainIsNoMetaTask) {
  graph::Graph graph;
  graph.AddSource("chain");
  for (int i = 0; i < 5; ++i) {
    graph::TaskSpec spec;
    const std::string name = "c" + std::to_string(i);
    spec.name = name;
    spec.command = "x";
    const TaskId task = graph.AddTask(spec);
    if (i == 0) continue;
    const StreamId stream = graph.AddStream("s" + std::to_string(i));
    graph.AddWriter(stream, TaskId(task.value - 1));
    graph.AddReader(stream, task);
    graph.AddDependency(TaskId(task.value - 1), task, graph::WaitsFor::kStart);
  }
  const Net net = NetFrom(&graph);
  const Result<Costs> costs = FindCosts(net);
  ASSERT_TRUE(costs.ok()) << costs.status().message();
  EXPECT_EQ(costs->rank, (std::vector<uint32_t>{0, 1, 2, 3, 4}));
}

}  // namespace
}  // namespace harrow::cost
