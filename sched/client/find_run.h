#pragma once

#include <string>

#include "base/status.h"
#include "os/file_system.h"

namespace harrow::client {

/// The run directory that a command is about: `given` (--run-dir), else what HARROW_RUN_DIR names
/// (`from_environment`: a run directory, or a directory of some), else the run that was started or resumed
/// last among ./harrow-* and, inside a run directory, that one itself. kInvalid: what is given is no run;
/// kNotFound: there is none.
Result<std::string> FindRun(os::FileSystem& fs, const std::string& given,
                            const std::string& from_environment);

}  // namespace harrow::client
