#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace harrow::launcher {

/// What `harrow run --across` asks the batch system for.
struct AcrossAsked {
  struct Allocation {
    std::string partition;
    uint32_t nodes = 1;
  };
  std::vector<Allocation> allocations;
  std::vector<std::string> sbatch;  // options of all of them: "--time=1h"
};
/// "fast:2,slow:4x3,time=1h": an allocation of 2 nodes in partition fast, three of 4 nodes each in slow. kInvalid.
Result<AcrossAsked> ParseAcross(std::string_view text);

/// Submits a job for each, which joins the run in that directory, and stays until the run has ended: says what becomes of the
/// jobs and how far the run is. An interruption ends this command alone. The exit status of the run; of what could not be
/// submitted where nothing could, and then the directory is removed.
int RunAcross(const AcrossAsked& asked, const std::string& run_dir, const std::string& name, bool json);

}  // namespace harrow::launcher
