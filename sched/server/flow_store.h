#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "graph/graph.h"
#include "order/order.h"
#include "os/file_system.h"

namespace harrow::server {

inline constexpr uint32_t kFlowVersion = 1;  // of RUN/flow; flow_format.md

/// How a run is to go: what every server of the run, the first and those after a crash, must know alike.
struct RunSettings {
  std::string run_id;   // who may talk to whom; new for every run directory
  std::string flow_id;  // which numbering of tasks; the journal's fact `flow_id` must be equal
  std::string name;
  std::string job_id;  // of the batch system; empty: none
  order::Policy order = order::Policy::kLifoHrf;
  bool locality = true;
  bool steal = true;
  uint64_t seed = 1;
  int32_t retries = 0;
  uint32_t max_losses = 5;
  uint32_t max_failures = 0;
  uint32_t bad_node_failures = 0;
  bool fail_fast = false;
  uint32_t slots = 0;  // a node; 0: as found
  uint32_t local_nodes = 1;
  bool pin = true;
  std::string shell;
  std::string submit_dir;
  std::vector<std::pair<std::string, std::string>> env;  // of the submit environment
  std::vector<std::string> sources;                      // the flow's files as given
  uint64_t output_limit = 0;                             // bytes a stream of a task; 0: none
  Duration lease = std::chrono::minutes(5);
  Duration end_margin{0};
  WallTime started;
  bool sync_journal = true;
};

/// A flow as it lies in RUN/flow: tasks have the ids they had when it was written.
struct StoredFlow {
  RunSettings settings;
  graph::Graph graph;          // sealed
  std::vector<bool> unwanted;  // a flag a task: not needed for the targets, never run; empty: none is
};

/// Writes RUN/flow (0600: it holds the submit environment), replacing what was there in one step.
Status WriteFlow(os::FileSystem& fs, const std::string& run_dir, const RunSettings& settings,
                 const graph::Graph& graph, const std::vector<bool>& unwanted);
/// kNotFound: no run there. kDamaged: cut, changed or of another version; never a part of the flow.
Result<StoredFlow> ReadFlow(os::FileSystem& fs, const std::string& run_dir);
/// A task for people.
struct TaskText {
  std::string command;  // a line
  std::string place;    // where its flow tells it: "tasks.txt:17"
};
/// Of the tasks asked for; those that are not in the flow are left out.
Result<std::unordered_map<uint32_t, TaskText>> ReadTaskTexts(os::FileSystem& fs, const std::string& run_dir,
                                                             const std::vector<TaskId>& tasks);
/// The settings alone: the first chunk only.
Result<RunSettings> ReadSettings(os::FileSystem& fs, const std::string& run_dir);

}  // namespace harrow::server
