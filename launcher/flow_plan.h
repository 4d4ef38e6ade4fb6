#pragma once

#include <string>
#include <vector>

#include "base/resources.h"
#include "base/status.h"
#include "config/run_options.h"
#include "graph/graph.h"
#include "sim/node_count.h"

namespace harrow::launcher {

/// How long each task of a flow takes, and who says so.
struct FlowTimes {
  std::vector<sim::Work> work;
  std::string said_by;  // "recorded", "of the run harrow-17; 3 of 20 tasks take their kind's mean"
};
/// The run `times_of` is asked first; else what the flow says itself, and for the rest the newest run of it
/// here. `otherwise`: of tasks of which nobody knows; empty: such a task is kInvalid, with what could be
/// given.
Result<FlowTimes> FindFlowTimes(const graph::Graph& graph, const std::string& times_of,
                                const std::string& otherwise);

/// What nodes there are, and how many a job may have.
struct NodeShape {
  std::string name;  // "partition batch", "8 cores"
  NodeCapacity capacity;
  NodeCapacity largest = {};  // the most that any node has of each; 0: nobody says
  Duration time{0};           // a job's that does not say; 0: without a limit, or nobody says
  uint32_t most = 0;  // 0: nobody says
};
/// Of a partition by `sinfo` (empty: the default one); kNotFound: there is no such partition, or no Slurm.
Result<NodeShape> ShapeOfPartition(const std::string& partition);

/// `options`: the scheduler's part is that of a run.
sim::NodeCounts ProposeNodes(const graph::Graph& graph, const std::vector<sim::Work>& work,
                             const NodeShape& shape, const config::RunOptions& options);

}  // namespace harrow::launcher
