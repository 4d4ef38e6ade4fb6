#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "graph/graph.h"

namespace harrow::formats {

/// What a flow is, in numbers.
struct Statistics {
  uint64_t tasks = 0;
  uint64_t edges = 0;                                 // pairs of tasks, one waits for the other
  uint64_t files = 0, input_files = 0;                // input: no task produces it
  uint64_t bytes = 0, input_bytes = 0;                // where sizes are known
  uint64_t unknown_sizes = 0;                         // files
  uint64_t levels = 0;                                // tasks on the longest chain
  uint64_t width = 0;                                 // most tasks at one depth from the start
  uint64_t cores = 0;                                 // asked for by all tasks together
  uint64_t most_cores = 0;                            // asked for by one task, over its nodes
  uint64_t most_nodes = 0;                            // that one task spans
  uint64_t mpi_tasks = 0, ranks = 0, most_ranks = 0;  // tasks with ranks, all of these, and those of one task
  uint64_t without_command = 0;
  struct Kind {
    std::string name;
    uint64_t tasks = 0;
    uint64_t most_cores = 0;
    uint64_t timed = 0;    // tasks with a known run time
    Duration run_time{0};  // sum
  };
  std::vector<Kind> kinds;                           // most tasks first
  uint64_t timed = 0;                                // tasks with a known run time
  Duration run_time{0};                              // sum
  std::optional<graph::CriticalPath> critical_path;  // where every task's time is known
};

Statistics Summarise(const graph::Graph& graph);

}  // namespace harrow::formats
