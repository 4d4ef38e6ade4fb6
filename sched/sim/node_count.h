#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "sim/simulation.h"

namespace harrow::sim {

/// What so many nodes would make of a flow.
struct NodeCount {
  uint32_t nodes = 0;
  double makespan = 0;    // seconds; infinite: not all tasks can be run
  double core_hours = 0;  // of whole nodes, for as long as the run takes
  double busy = 0;        // share of that time in which a core runs a task

  double cost() const { return makespan * core_hours; }
};

struct NodeCounts {
  std::vector<NodeCount> tried;  // by nodes
  size_t best = 0;               // of them, the one of the least makespan x core-hours
};

/// What a search knows of a flow beforehand.
struct CountBounds {
  double critical_path = 0;  // seconds; no count is quicker
  double work = 0;           // core seconds; on n nodes it takes at least work / (n * cores)
  uint32_t cores = 1;        // of a node
  uint32_t most = 1;         // nodes
};

/// Looks for the count of the least cost by few calls of `makespan`: 1, 2, 4, ... nodes as far as more can
/// pay off, then between two counts as long as something between them may be better by more than 5 %: no
/// count between is quicker than the larger of the two, and costs at least the time of one node more than the
/// smaller. (List schedules are not quite monotone; what they are off by is far below the tolerance.)
NodeCounts SearchNodeCount(const CountBounds& bounds, const std::function<double(uint32_t)>& makespan);

/// The same of a flow on nodes like the first of `options.cluster`, at most `most` of them.
NodeCounts FindNodeCount(const graph::Graph& graph, const std::vector<Work>& work, Options options,
                         uint32_t most);

}  // namespace harrow::sim
