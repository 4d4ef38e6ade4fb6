// Tasks that can never run in a job.
#include "run/fit.h"

#include <gtest/gtest.h>

namespace harrow::run {
namespace {

using std::chrono::seconds;

struct Asked {
  int64_t seconds = 0;
  Shape shape = {};
};

graph::Graph Of(const std::vector<Asked>& tasks) {
  graph::Graph graph;
  for (const Asked& asked : tasks) {
    graph::Profile profile;
    profile.time_limit = seconds(asked.seconds);
    profile.shape = asked.shape;
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
  EXPECT_EQ(late.shortest, seconds(30));
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

TEST(Fit, WhatNoNodeHas) {
  const graph::Graph graph =
      Of({{0, {.cores = 4}}, {0, {.cores = 64}}, {0, {.devices = 3}}, {0, {.memory = uint64_t{5} << 30}}});
  const NodeCapacity most{.slots = 4, .devices = 2, .memory = uint64_t{4} << 30};
  const Misfits large = FindTooLarge(graph, {}, most);
  EXPECT_EQ(large.tasks, 3u);
  EXPECT_EQ(large.first, TaskId(1));
  EXPECT_EQ(FindTooLarge(graph, {}, {}).tasks, 0u) << "nobody knows";
  const auto text = [&](uint32_t task) {
    return TooLargeText(graph.profile(TaskId(task)).shape, most, "it");
  };
  EXPECT_EQ(text(1), "64 cores, and no node of it has more than 4");
  EXPECT_EQ(text(2), "3 GPUs, and no node of it has more than 2");
  EXPECT_EQ(text(3), "5.0 GiB of memory, and no node of it has more than 4.0 GiB");
}

}  // namespace
}  // namespace harrow::run
