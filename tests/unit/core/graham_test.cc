// Bounds that hold for whatever order a list is worked off in (R. L. Graham: Bounds on multiprocessing timing
// anomalies, 1969), on random graphs: with m cores, work W and critical path P no schedule takes less than
// max(P, W / m), and one that leaves no core idle while a task is ready at most W / m + P (m - 1) / m.

#include <algorithm>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "core/scheduler.h"
#include "order/draws.h"
#include "support/virtual_time.h"

namespace harrow::core {
namespace {

struct RandomFlow {
  graph::Graph graph;
  std::vector<double> seconds;
  double work = 0;
  double critical_path = 0;
};

/// Tasks need some of those before them, half of the time by a file.
RandomFlow MakeFlow(order::SeededDraws& random) {
  RandomFlow flow;
  const uint32_t count = 1 + random.Below(120);
  const uint32_t reach = 1 + random.Below(40), most_needs = random.Below(5);
  std::vector<double> end(count);
  for (uint32_t n = 0; n < count; ++n) {
    std::vector<TaskId> after;
    std::vector<FileId> in;
    const FileId out = flow.graph.AddFile("f" + std::to_string(n));
    flow.graph.SetFileSize(out, random.Below(4) * 100);
    double begin = 0;
    for (uint32_t k = random.Below(most_needs + 1); k > 0 && n > 0; --k) {
      const TaskId before(n - 1 - random.Below(std::min(n, reach)));
      if (random.Below(2) == 0) {
        after.push_back(before);
      } else {
        in.push_back(flow.graph.outputs(before).front());
      }
      begin = std::max(begin, end[before.value]);
    }
    graph::TaskSpec spec;
    spec.after = after;
    spec.in = in;
    spec.out = {&out, 1};
    flow.graph.AddTask(spec);
    // Few different ones, so that many end at once; and some much longer than others.
    flow.seconds.push_back(random.Below(8) == 0 ? 20 + random.Below(30) : 1 + random.Below(4));
    end[n] = begin + flow.seconds[n];
    flow.work += flow.seconds[n];
    flow.critical_path = std::max(flow.critical_path, end[n]);
  }
  EXPECT_TRUE(flow.graph.Seal().ok());
  return flow;
}

TEST(Graham, BoundsHoldForEveryOrder) {
  double worst = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    order::SeededDraws random(seed);
    const RandomFlow flow = MakeFlow(random);
    test::VirtualTime::Options cluster;
    cluster.nodes.clear();
    for (uint32_t n = 1 + random.Below(4); n > 0; --n) cluster.nodes.push_back({1 + random.Below(4), 0, 0});
    cluster.run_time = [&](TaskId task) { return flow.seconds[task.value]; };
    double cores = 0;
    for (const NodeCapacity& node : cluster.nodes) cores += node.slots;
    for (int policy = 0; policy < 5; ++policy) {
      for (const bool locality : {true, false}) {
        cluster.instants = random.Below(2) == 0;
        Options options;
        options.policy = static_cast<order::Policy>(policy);
        options.locality = locality;
        options.seed = seed;
        test::VirtualTime run(flow.graph, options, cluster);
        run.Run();
        SCOPED_TRACE("seed " + std::to_string(seed) + ", " + std::string(order::PolicyName(options.policy)) +
                     (locality ? "" : " without locality"));
        ASSERT_EQ(run.scheduler().counts().done, flow.graph.task_count());
        const double least = std::max(flow.critical_path, flow.work / cores);
        EXPECT_GE(run.makespan(), least - 1e-6);
        EXPECT_LE(run.makespan(), flow.work / cores + flow.critical_path * (cores - 1) / cores + 1e-6);
        worst = std::max(worst, run.makespan() / least);
      }
    }
  }
  EXPECT_GT(worst, 1.1) << "flows so easy that any order is the best";
  EXPECT_LT(worst, 2);
}

}  // namespace
}  // namespace harrow::core
