#pragma once

#include <gtest/gtest.h>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "cost/net.h"
#include "graph/graph.h"

namespace harrow::cost {

inline CostFunctions Program(std::string_view text) {
  return std::get<CostFunctions>(ParseMetaProgram(text));
}

/// Figure 1 of paper 001 as a graph.
inline graph::Graph Figure1(uint32_t m, uint32_t n) {
  graph::Graph graph;
  graph.AddSource("figure1.toml");
  const auto add = [&](const std::string& name, const std::string& command, const char* kind) {
    graph::TaskSpec spec;
    spec.name = name;
    spec.command = command;
    spec.kind = graph.AddKind(kind);
    return graph.AddTask(spec);
  };
  const StreamId s1 = graph.AddStream("s1");
  const TaskId t1 = add("t1", "make 0 10 5", "make");
  graph.AddWriter(s1, t1);
  graph.SetModel(t1, 1, "compute(20 * @arg[1]) output(@arg[2])");
  std::vector<TaskId> t2;
  for (uint32_t i = 1; i <= m; ++i) {
    t2.push_back(add("t2-" + std::to_string(i), "map " + std::to_string(i), "map"));
    graph.AddReader(s1, t2.back());
    graph.AddDependency(t1, t2.back(), graph::WaitsFor::kStart);
  }
  graph.SetModel(t2[0], m, "WHILE input(1) FOR @arg[0] compute(100) END output(10) END");
  TaskId t3;
  for (uint32_t i = 0; i < m; ++i) {
    const StreamId s2 = graph.AddStream("s2-" + std::to_string(i));
    graph.AddWriter(s2, t2[i]);
    for (uint32_t k = 1; k <= n; ++k) {
      const std::string number = std::to_string(i * n + k);
      const TaskId task = add("t3-" + number, "reduce " + number, "reduce");
      if (i == 0 && k == 1) t3 = task;
      graph.AddReader(s2, task);
      graph.AddDependency(t2[i], task, graph::WaitsFor::kStart);
    }
  }
  graph.SetModel(t3, m * n, "WHILE input(1) compute(50 * @arg[0]) END");
  return graph;
}

inline Costs CostsOf(const Net& net) {
  Result<Costs> costs = FindCosts(net);
  EXPECT_TRUE(costs.ok()) << costs.status().message();
  return std::move(*costs);
}

}  // namespace harrow::cost
