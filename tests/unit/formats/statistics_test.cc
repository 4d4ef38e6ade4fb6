// What `check` counts, by hand on small flows.
#include "formats/statistics.h"

#include <gtest/gtest.h>

#include "support/loaded_flow.h"

namespace harrow::formats {
namespace {

using test::LoadedFlow;
using std::chrono::seconds;

TEST(StatisticsTest, CountsWhatAFlowHolds) {
  const LoadedFlow flow("f.toml", R"(
[[file]]
name = "in"
size = "10"
[[file]]
name = "m-1"
size = "7"
[[task]]
name = "last"
command = "two"
in = ["m-*"]
out = ["r"]
nodes = 3
cores = 4
run_time = "5s"
[[task]]
name = "a-{i}"
each = { i = "1-3" }
command = "one {i}"
in = ["in", "other"]
out = ["m-{i}"]
cores = 2
run_time = "2s"
)");
  ASSERT_TRUE(flow.status.ok()) << flow.status.message();
  const Statistics s = Summarise(flow.graph);
  EXPECT_EQ(s.tasks, 4u);
  EXPECT_EQ(s.edges, 3u);
  EXPECT_EQ(s.files, 6u);
  EXPECT_EQ(s.input_files, 2u);
  EXPECT_EQ(s.bytes, 17u);
  EXPECT_EQ(s.input_bytes, 10u);
  EXPECT_EQ(s.unknown_sizes, 4u);
  EXPECT_EQ(s.levels, 2u);
  EXPECT_EQ(s.width, 3u);
  EXPECT_EQ(s.cores, 18u);
  EXPECT_EQ(s.most_cores, 12u);
  EXPECT_EQ(s.most_nodes, 3u);
  EXPECT_EQ(s.mpi_tasks, 0u);
  EXPECT_EQ(s.without_command, 0u);
  EXPECT_EQ(s.timed, 4u);
  EXPECT_EQ(s.run_time, seconds(11));
  ASSERT_EQ(s.kinds.size(), 2u);
  EXPECT_EQ(s.kinds[0].name, "a");
  EXPECT_EQ(s.kinds[0].tasks, 3u);
  EXPECT_EQ(s.kinds[0].most_cores, 2u);
  EXPECT_EQ(s.kinds[0].timed, 3u);
  EXPECT_EQ(s.kinds[0].run_time, seconds(6));
  EXPECT_EQ(s.kinds[1].name, "two");
  EXPECT_EQ(s.kinds[1].tasks, 1u);
  EXPECT_EQ(s.kinds[1].most_cores, 12u);
  ASSERT_TRUE(s.critical_path);
  EXPECT_EQ(s.critical_path->length, seconds(7));
  EXPECT_EQ(s.critical_path->tasks.size(), 2u);
  EXPECT_EQ(s.critical_path->tasks.back(), flow.Task("last"));
}

TEST(StatisticsTest, RanksHaveTheirCores) {
  const LoadedFlow flow("f.toml", R"(
[[task]]
name = "a"
command = "one"
ranks = 10
nodes = 4
cores = 2
[[task]]
name = "b"
command = "one"
ranks = 3
)");
  const Statistics s = Summarise(flow.graph);
  EXPECT_EQ(s.cores, 23u) << "of two nodes one rank less";
  EXPECT_EQ(s.most_cores, 20u);
  EXPECT_EQ(s.most_nodes, 4u);
  EXPECT_EQ(s.mpi_tasks, 2u);
  EXPECT_EQ(s.ranks, 13u);
  EXPECT_EQ(s.most_ranks, 10u);
}

TEST(StatisticsTest, WithoutSomeRunTimesThereIsNoCriticalPath) {
  const LoadedFlow flow("f.toml", R"(
[[task]]
name = "a"
command = "one"
run_time = "2s"
[[task]]
name = "b"
command = "one"
)");
  const Statistics s = Summarise(flow.graph);
  EXPECT_EQ(s.timed, 1u);
  EXPECT_EQ(s.run_time, seconds(2));
  EXPECT_EQ(s.kinds.at(0).tasks, 2u);
  EXPECT_EQ(s.kinds.at(0).timed, 1u);
  EXPECT_FALSE(s.critical_path);
}

TEST(StatisticsTest, WidthIsAtADepthFromTheStart) {
  // a -> b -> c, d waits for a only, e for nobody: depths 0 1 2 1 0.
  const LoadedFlow flow("f.toml", R"(
[[task]]
name = "c"
command = "x"
after = ["b"]
[[task]]
name = "b"
command = "x"
after = ["a"]
[[task]]
name = "a"
command = "x"
[[task]]
name = "d"
command = "x"
after = ["a"]
[[task]]
name = "f"
command = "x"
after = ["a"]
[[task]]
name = "e"
command = "x"
)");
  const Statistics s = Summarise(flow.graph);
  EXPECT_EQ(s.levels, 3u);
  EXPECT_EQ(s.width, 3u) << "b, d and f";
  EXPECT_EQ(s.edges, 4u);
}

TEST(StatisticsTest, TasksWithoutCommandAndFlowsWithoutTasks) {
  const LoadedFlow flow("f.json", R"({"name": "n", "workflow": {"tasks": [{"name": "t"}, {"name": "u"}]}})");
  ASSERT_TRUE(flow.status.ok()) << flow.status.message();
  EXPECT_EQ(Summarise(flow.graph).without_command, 2u);
  const Statistics none = Summarise(graph::Graph());
  EXPECT_EQ(none.tasks + none.levels + none.width + none.edges + none.files + none.cores + none.timed, 0u);
  EXPECT_TRUE(none.kinds.empty());
  EXPECT_FALSE(none.critical_path);
}

}  // namespace
}  // namespace harrow::formats
