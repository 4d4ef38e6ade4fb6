#pragma once

#include <vector>

#include "formats/cluster_model.h"
#include "graph/graph.h"
#include "sim/simulation.h"

namespace harrow::sim {

/// What no schedule can do without (seconds): the critical path, and work spread over all cores; and what no
/// list schedule of one-core tasks on equal cores exceeds (R. L. Graham: Bounds on multiprocessing timing
/// anomalies, 1969).
struct Bounds {
  double critical_path = 0;
  double work = 0;   // core seconds
  double lower = 0;  // the larger of critical path and work / cores, on nodes of the largest speed
  double graham = 0;
};
Bounds FindBounds(const graph::Graph& graph, const std::vector<Work>& work,
                  const formats::ClusterModel& cluster);

}  // namespace harrow::sim
