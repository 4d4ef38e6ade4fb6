#pragma once

#include <functional>
#include <string>

#include "base/status.h"
#include "os/file_system.h"
#include "run_dir/run_dir.h"

namespace harrow::run_dir {

/// Is there a run in a directory, whoever's it is?
bool IsRun(os::FileSystem& fs, const std::string& path);

/// The run directory that a command is about: `given` (--run-dir), else what HARROW_RUN_DIR names
/// (`from_environment`: a run directory, or a directory of some), else the run that was started or resumed
/// last among ./harrow-*; inside a run directory, that one itself; and the only run in ".", whatever it is called.
/// A part of a run stands for the run. Other users' directories, and links, are
/// not among those that are looked through. kInvalid: what is given is no run, or it, or the newest, must not be
/// used; kNotFound: there is none.
Result<std::string> FindRun(os::FileSystem& fs, const std::string& given, const std::string& from_environment,
                            Purpose purpose = Purpose::kRun,
                            const std::function<Standing(const std::string&, Purpose)>& judge = Judge);

}  // namespace harrow::run_dir
