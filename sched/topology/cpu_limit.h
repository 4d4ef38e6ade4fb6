#pragma once

#include <optional>
#include <string>

namespace harrow::topology {

/// How many CPUs' time this process may use, as its control groups say (cpu.max of version 2, cpu.cfs_quota_us of
/// version 1; the least from its own group up to the root); none: as much as there is. `root`: where /proc and /sys lie.
std::optional<double> CpuTimeLimit(const std::string& root = "");

}  // namespace harrow::topology
