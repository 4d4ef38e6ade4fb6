// Tasks that can never run in a job.
#include "run/fit.h"

#include <gtest/gtest.h>

namespace harrow::run {
namespace {

using std::chrono::seconds;

struct Asked {
  int64_t seconds = 0;
  Shape shape = {};
  uint32_t ranks = 0;
};

graph::Graph Of(const std::vector<Asked>& tasks) {
  graph::Graph graph;
  for (const Asked& asked : tasks) {
    graph::Profile profile;
    profile.time_limit = seconds(asked.seconds);
    profile.shape = asked.shape;
    profile.ranks = asked.ranks;
    graph::TaskSpec task;
    task.command = "true";
    task.profile = graph.AddProfile(profile);
    graph.AddTask(task);
  }
  EXPECT_TRUE(graph.Seal().ok());
  return graph;
}

TEST(Fit, ATaskThatFillsTheJobNeverBegins) {
  const graph::Graph graph = Of({{0}, {30}, {29}, {60}});
  const Misfits late = FindTooLong(graph, {}, seconds(60), seconds(30));
  EXPECT_EQ(late.tasks, 2u);
  EXPECT_EQ(late.of, 4u);
  EXPECT_EQ(late.first, TaskId(1));
  EXPECT_FALSE(late.all());
  EXPECT_EQ(FindTooLong(graph, {}, seconds(60), seconds(0)).first, TaskId(3));
  EXPECT_EQ(FindTooLong(graph, {}, seconds(91), seconds(30)).tasks, 0u);
  EXPECT_TRUE(FindTooLong(graph, {}, seconds(10), seconds(30)).tasks == 3)
      << "all but the one without a time";
}

TEST(Fit, WhatIsNotToRunDoesNotCount) {
  const graph::Graph graph = Of({{0}, {60}, {20}});
  const Misfits late = FindTooLong(graph, {true, false, true}, seconds(60), seconds(30));
  EXPECT_TRUE(late.all());
  EXPECT_EQ(late.of, 1u);
  EXPECT_FALSE(FindTooLong(graph, {true, true, true}, seconds(60), seconds(30)).all());
}

TEST(Fit, HowManyInWords) {
  EXPECT_EQ((Misfits{.tasks = 1, .of = 1, .first = TaskId(0)}).Text(), "the task");
  EXPECT_EQ((Misfits{.tasks = 2, .of = 2, .first = TaskId(0)}).Text(), "all tasks");
  EXPECT_EQ((Misfits{.tasks = 1, .of = 2, .first = TaskId(0)}).Text(), "1 of 2 tasks");
}

TEST(Fit, WhatNoNodeHas) {
  const graph::Graph graph =
      Of({{0, {.cores = 4}}, {0, {.cores = 64}}, {0, {.devices = 3}}, {0, {.memory = uint64_t{5} << 30}}});
  const JobNodes job{.nodes = {{.slots = 4, .devices = 2, .memory = uint64_t{4} << 30}, {.slots = 1}}};
  const Misfits large = FindTooLarge(graph, {}, job);
  EXPECT_EQ(large.tasks, 1u) << "of the second node nobody knows what memory and devices it has";
  EXPECT_EQ(large.first, TaskId(1));
  EXPECT_EQ(FindTooLarge(graph, {}, {.nodes = {job.nodes[0]}}).tasks, 3u);
  EXPECT_EQ(FindTooLarge(graph, {}, {.nodes = {NodeCapacity()}}).tasks, 0u) << "nobody knows";
  EXPECT_EQ(FindTooLarge(graph, {}, {}).tasks, 0u) << "nobody knows of any node";
  const auto text = [&](uint32_t task) { return TooLargeText(graph.profile(TaskId(task)), job, "it"); };
  EXPECT_EQ(text(1), "64 cores, and no node of it has more than 4");
  EXPECT_EQ(text(2), "3 GPUs, and no node of it has more than 2");
  EXPECT_EQ(text(3), "5.0 GiB of memory, and no node of it has more than 4.0 GiB");
}

TEST(Fit, RanksMayBeSpread) {
  const graph::Graph graph = Of({{0, {.cores = 8}, 8},    // 1 core a rank
                                 {0, {.cores = 48}, 8},   // 6 cores a rank
                                 {0, {.cores = 16}, 8},   // 2 cores a rank
                                 {0, {.devices = 8}, 8},  // a device a rank
                                 {0, {.cores = 5}, 1}});  // one rank lies on one node
  const JobNodes two{.nodes = {{.slots = 4, .devices = 1}, {.slots = 4, .devices = 1}}};
  Misfits large = FindTooLarge(graph, {true}, two);
  EXPECT_EQ(large.tasks, 4u);
  large = FindTooLarge(graph, {}, two);
  EXPECT_EQ(large.tasks, 4u) << "8 ranks of a core lie on 2 nodes of 4";
  EXPECT_EQ(large.first, TaskId(1));
  const JobNodes any{.nodes = {two.nodes[0]}, .counted = false};
  EXPECT_EQ(FindTooLarge(graph, {}, any).tasks, 2u) << "what lies on 4 or 8 such nodes fits";
  const auto text = [&](uint32_t task, const JobNodes& job) {
    return TooLargeText(graph.profile(TaskId(task)), job, "it");
  };
  EXPECT_EQ(text(1, two), "6 cores a rank, and no node of it has more than 4");
  EXPECT_EQ(text(2, two), "8 ranks of 2 cores, and all nodes of it together have room for 4");
  EXPECT_EQ(text(3, two), "8 ranks of 1 GPU, and all nodes of it together have room for 2");
  EXPECT_EQ(text(4, two), "5 cores, and no node of it has more than 4");
  const JobNodes uneven{.nodes = {{.slots = 7}, {.slots = 1}}};
  EXPECT_EQ(FindTooLarge(graph, {false, true, true, true, true}, uneven).tasks, 1u);
  EXPECT_EQ(text(0, uneven), "8 ranks, as many on each node, for which the nodes of it are not large enough");
}

TEST(Fit, EachNodeHoldsTheLargestPartOfWhatIsSpread) {
  const graph::Graph graph = Of({{0, {.cores = 3}, 3}});
  EXPECT_EQ(FindTooLarge(graph, {}, {.nodes = {{.slots = 2}, {.slots = 2}}}).tasks, 0u) << "two ranks and one";
  EXPECT_EQ(FindTooLarge(graph, {}, {.nodes = {{.slots = 2}, {.slots = 1}}}).tasks, 1u);
}

TEST(Fit, NodesThatATaskNames) {
  const graph::Graph graph = Of({{0, {.cores = 4, .nodes = 2}, 8},
                                 {0, {.cores = 4, .nodes = 3}, 12},
                                 {0, {.cores = 5, .nodes = 2}, 10},
                                 {0, {.cores = 1, .nodes = 2}}});
  const JobNodes two{.nodes = {{.slots = 4}, {.slots = 4}, {.slots = 2}}};
  const Misfits large = FindTooLarge(graph, {}, two);
  EXPECT_EQ(large.tasks, 2u);
  EXPECT_EQ(large.first, TaskId(1));
  EXPECT_EQ(TooLargeText(graph.profile(TaskId(1)), two, "it"),
            "3 nodes, and it has fewer that are large enough");
  EXPECT_EQ(TooLargeText(graph.profile(TaskId(1)), {.nodes = {{.slots = 4}, {.slots = 4}}}, "it"),
            "3 nodes, and it has 2");
  EXPECT_EQ(TooLargeText(graph.profile(TaskId(2)), two, "it"),
            "5 cores a node, and no node of it has more than 4");
}

TEST(Fit, TheWidestTask) {
  const graph::Graph graph =
      Of({{0, {.cores = 8}, 8}, {0, {.cores = 2, .nodes = 3}}, {0, {.cores = 64}}, {0, {.cores = 1}}});
  Widest widest = FindWidest(graph, {}, {.slots = 4});
  EXPECT_EQ(widest.nodes, 3u);
  EXPECT_EQ(widest.task, TaskId(1));
  widest = FindWidest(graph, {false, true}, {.slots = 4});
  EXPECT_EQ(widest.nodes, 2u) << "8 ranks lie on 2 nodes of 4";
  EXPECT_EQ(widest.task, TaskId(0));
  EXPECT_EQ(FindWidest(graph, {true, true}, {.slots = 4}).nodes, 1u) << "64 cores are on no node";
  EXPECT_EQ(FindWidest(graph, {}, {}).nodes, 3u);
}

}  // namespace
}  // namespace harrow::run
