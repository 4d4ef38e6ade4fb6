#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "graph/graph.h"
#include "os/file_system.h"

namespace harrow::formats {

/// --target: one flag a task, set for the named tasks or the producers of the named files, and all that they
/// need. kInvalid names what is unknown and suggests.
Result<std::vector<bool>> SelectTargets(const graph::Graph& graph, const std::vector<std::string>& targets);

/// --stale, make's rule: one flag a task, set where a declared output is missing or older than an input,
/// where nothing is declared as output, or where a task that it depends on is set. A directory counts by its
/// own time. Paths start at `directory`. kInvalid when an input of the flow that a set task needs is absent.
Result<std::vector<bool>> SelectStale(const graph::Graph& graph, os::FileSystem& fs,
                                      const std::string& directory);

}  // namespace harrow::formats
