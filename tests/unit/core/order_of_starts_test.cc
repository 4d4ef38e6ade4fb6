// The paper's figure 5: chains A_i -> B_i, then C, on one node of two cores, equal times.

#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "core/scheduler.h"
#include "support/virtual_time.h"

namespace harrow::core {
namespace {

graph::Graph Figure5() {
  graph::Graph graph;
  std::vector<TaskId> a, b;
  for (int i = 1; i <= 5; ++i) a.push_back(graph.AddTask({.name = "A" + std::to_string(i)}));
  for (int i = 1; i <= 5; ++i) b.push_back(graph.AddTask({.name = "B" + std::to_string(i)}));
  const TaskId c = graph.AddTask({.name = "C"});
  for (int i = 0; i < 5; ++i) graph.AddDependency(a[i], b[i]);
  for (int i = 0; i < 5; ++i) graph.AddDependency(b[i], c);
  EXPECT_TRUE(graph.Seal().ok());
  return graph;
}

/// "A1 A2 | A3 ...": a column is one time step, `-` an idle core.
std::string Columns(const graph::Graph& graph, const std::vector<test::VirtualTime::Start>& starts,
                    uint32_t cores) {
  std::vector<std::vector<std::string>> steps;
  for (const auto& start : starts) {
    const auto step = static_cast<size_t>(start.time);
    if (step >= steps.size()) steps.resize(step + 1, std::vector<std::string>(cores, "-"));
    steps[step][start.core] = graph.TaskName(start.task);
  }
  std::string text;
  for (const auto& step : steps) {
    if (!text.empty()) text += " | ";
    for (size_t c = 0; c < step.size(); ++c) text += (c > 0 ? " " : "") + step[c];
  }
  return text;
}

class Injected : public order::Draws {
 public:
  explicit Injected(std::vector<double> draws) : draws_(std::move(draws)) {}
  double Next() override {
    EXPECT_LT(used_, draws_.size()) << "more draws than expected";
    return used_ < draws_.size() ? draws_[used_++] : 0;
  }
  ~Injected() override { EXPECT_EQ(used_, draws_.size()) << "fewer draws than expected"; }

 private:
  std::vector<double> draws_;
  size_t used_ = 0;
};

std::string StartsOf(order::Policy policy, std::vector<double> draws = {}) {
  const graph::Graph graph = Figure5();
  Injected injected(std::move(draws));
  test::VirtualTime run(graph, {.policy = policy}, {}, &injected);
  run.Run();
  EXPECT_EQ(run.scheduler().counts().done, graph.task_count());
  return Columns(graph, run.starts(), 2);
}

TEST(Figure5, Fifo) {
  EXPECT_EQ(StartsOf(order::Policy::kFifo), "A1 A2 | A3 A4 | A5 B1 | B2 B3 | B4 B5 | C -");
}
TEST(Figure5, Lifo) {
  EXPECT_EQ(StartsOf(order::Policy::kLifo), "A5 A4 | B5 B4 | A3 A2 | B3 B2 | A1 - | B1 - | C -");
}
TEST(Figure5, Hrf) {
  EXPECT_EQ(StartsOf(order::Policy::kHrf), "A1 A2 | A3 A4 | A5 B1 | B2 B3 | B4 B5 | C -");
}
TEST(Figure5, LifoHrf) {
  EXPECT_EQ(StartsOf(order::Policy::kLifoHrf), "A5 A4 | B5 B4 | A3 A1 | A2 B3 | B1 B2 | C -");
}
// Those that are ready at one instant come in the flow's order; what was just let go comes before them.
TEST(Figure5, Auto) {
  EXPECT_EQ(StartsOf(order::Policy::kAuto), "A1 A2 | B1 B2 | A3 A4 | A5 B4 | B5 B3 | C -");
}
// A draw below 1/2 is for the level of A, as only it has been measured, and B weighs as much.
TEST(Figure5, RankHrfDrawsA) {
  EXPECT_EQ(StartsOf(order::Policy::kRankHrf, {0.49}), "A5 A4 | A3 A1 | A2 B1 | B2 B3 | B5 B4 | C -");
}
TEST(Figure5, RankHrfDrawsBThenA) {
  EXPECT_EQ(StartsOf(order::Policy::kRankHrf, {0.51, 0.49}), "A5 A4 | B5 A3 | A1 A2 | B1 B2 | B4 B3 | C -");
}
TEST(Figure5, RankHrfDrawsBTwice) {
  EXPECT_EQ(StartsOf(order::Policy::kRankHrf, {0.51, 0.51}), "A5 A4 | B5 B4 | A3 A1 | A2 B3 | B1 B2 | C -");
}

/// Tasks 1 to `tasks`, and, where it is asked for, one that collects what they made and `tasks` that follow
/// it.
std::string StartsOfSweep(int tasks, bool collect, uint32_t cores) {
  graph::Graph graph;
  const auto add = [&](int number) { return graph.AddTask({.name = std::to_string(number)}); };
  std::vector<TaskId> sweep;
  for (int i = 1; i <= tasks; ++i) sweep.push_back(add(i));
  if (collect) {
    const TaskId collector = graph.AddTask({.name = "C"});
    for (TaskId task : sweep) graph.AddDependency(task, collector);
    for (int i = 1; i <= tasks; ++i) graph.AddDependency(collector, add(10 * i));
  }
  EXPECT_TRUE(graph.Seal().ok());
  test::VirtualTime run(graph, {.policy = order::Policy::kAuto}, {.nodes = {{cores, 0, 0}}});
  run.Run();
  return Columns(graph, run.starts(), cores);
}

TEST(Auto, AListIsTakenFromItsFirstLineOn) {
  EXPECT_EQ(StartsOfSweep(4, false, 1), "1 | 2 | 3 | 4");
  EXPECT_EQ(StartsOfSweep(5, false, 2), "1 2 | 3 4 | 5 -");
  EXPECT_EQ(StartsOfSweep(3, false, 4), "1 2 3 -");
}
TEST(Auto, ASweepAndWhatFollowsOneTaskToo) {
  EXPECT_EQ(StartsOfSweep(3, true, 1), "1 | 2 | 3 | C | 10 | 20 | 30");
  EXPECT_EQ(StartsOfSweep(5, true, 2), "1 2 | 3 4 | 5 - | C - | 10 20 | 30 40 | 50 -");
}

}  // namespace
}  // namespace harrow::core
