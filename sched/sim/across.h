#pragma once

#include <vector>

#include "graph/graph.h"
#include "sim/simulation.h"

namespace harrow::sim {

/// Simulates a run over the allocations of options.cluster, each with a server of its own, and a supervisor
/// over them. All tasks are submitted to the allocation that begins first. Neither with local files nor with
/// tasks of several nodes.
Outcome SimulateAcross(const graph::Graph& graph, const std::vector<Work>& work, const Options& options);

}  // namespace harrow::sim
