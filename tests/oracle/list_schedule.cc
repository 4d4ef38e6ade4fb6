// The makespans that the scheduler's core reaches, for comparison with programs that share no code with it.
//
// Reads a table from standard input: "T seconds" for each task in order, "E parent child" for each edge, by
// number from 0. Arguments: numbers of slots. Prints "SLOTS POLICY SECONDS" lines, seconds such that they
// read back exactly. One node, a core a task, no files; results of one instant are handled as one, in
// ascending order of tasks.

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "core/scheduler.h"
#include "support/virtual_time.h"

int main(int argc, char** argv) {
  using namespace harrow;
  graph::Graph graph;
  std::vector<double> seconds;
  for (std::string word; std::cin >> word;) {
    if (word == "T") {
      std::string text;
      std::cin >> text;
      seconds.push_back(std::strtod(text.c_str(), nullptr));
      graph.AddTask({});
    } else {
      uint32_t parent = 0, child = 0;
      std::cin >> parent >> child;
      graph.AddDependency(TaskId(parent), TaskId(child));
    }
  }
  if (const Status sealed = graph.Seal(); !sealed.ok()) {
    std::fprintf(stderr, "%s\n", sealed.message().c_str());
    return 2;
  }
  for (int i = 1; i < argc; ++i) {
    for (order::Policy policy : {order::Policy::kFifo, order::Policy::kLifo, order::Policy::kHrf,
                                 order::Policy::kLifoHrf, order::Policy::kRankHrf}) {
      test::VirtualTime::Options cluster;
      cluster.nodes = {{static_cast<uint32_t>(std::atoi(argv[i])), 0, 0}};
      cluster.run_time = [&](TaskId task) { return seconds[task.value]; };
      cluster.instants = true;
      cluster.check = false;
      core::Options options;
      options.policy = policy;
      options.locality = false;
      options.steal = false;
      test::VirtualTime run(graph, options, cluster);
      run.Run();
      if (run.scheduler().counts().done != graph.task_count()) return 1;
      std::printf("%s %s %.17g\n", argv[i], std::string(order::PolicyName(policy)).c_str(), run.makespan());
    }
  }
  return 0;
}
