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

/// What the user named of the run but its directory: nothing; its flow again, which makes the current
/// directory the one to run in; nothing as it is an array, whose script lies in the run directory.
enum class Named { kNothing, kFlow, kArray };

/// `settings`, `history`: of the run as it was; `run_dir`: where it lies now. kInvalid: that would run tasks
/// in a directory that is not the run's; names both, and the way out.
Result<ResumePlace> FindResumePlace(const run::RunSettings& settings, const journal::History& history,
                                    const std::string& run_dir, Named named);

/// Absolute, and without links as far as there is something.
std::string RealPath(const std::string& path);

}  // namespace harrow::launcher
