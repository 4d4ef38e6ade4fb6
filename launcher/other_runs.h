#pragma once

#include <string>

#include "os/file_system.h"

namespace harrow::launcher {

/// Another run that a job of the batch system runs on this node, among those in the current directory and beside
/// `run_dir`: its directory. Empty: none is seen.
std::string OtherRunOfJob(os::FileSystem& fs, const std::string& run_dir, const std::string& job);

}  // namespace harrow::launcher
