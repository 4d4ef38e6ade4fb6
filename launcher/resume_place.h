#pragma once

#include <string>

#include "base/status.h"
#include "journal/journal.h"
#include "run/flow_store.h"

namespace harrow::launcher {

/// Where the tasks of a resumed run are to run.
struct ResumePlace {
  std::string submit_dir;
  std::string notice;  // a line for the user, where that is not the current directory or not the one of before
};

/// `settings`, `history`: of the run as it was; `run_dir`: where it lies now; `flow_named`: the user named the flow again, which
/// makes the current directory the one to run in. kInvalid: that would run tasks in a directory that is not the run's;
/// names both, and the way out.
Result<ResumePlace> FindResumePlace(const run::RunSettings& settings, const journal::History& history,
                                    const std::string& run_dir, bool flow_named);

/// Absolute, and without links as far as there is something.
std::string RealPath(const std::string& path);

}  // namespace harrow::launcher
