#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "config/run_options.h"
#include "cost/task_costs.h"

namespace harrow::launcher {

/// What the tasks of a run that has ended, or goes on, turned out to cost, program by program (--costs-from).
Result<std::vector<cost::Known>> CostsOfRun(const std::string& run_dir);

/// Finds them for the run that the options name, if any.
Status FindKnownCosts(config::RunOptions* options);

}  // namespace harrow::launcher
