#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"

namespace harrow::launcher {

/// What `harrow run --across` asks the batch system for.
struct AcrossAsked {
  struct Allocation {
    std::string partition;
    uint32_t nodes = 1;  // 0, with `more`: as many as are of use
  };
  std::vector<Allocation> allocations;
  Duration time{0};                 // of each; 0: nothing is said
  std::vector<std::string> sbatch;  // options of all of them: "--account=x"
  // "auto": one after the other, as the run needs them, of the partitions and sizes that are named; none: any.
  bool more = false;
  uint32_t most = 4;                         // at once
  Duration idle = std::chrono::seconds(60);  // what has had nothing to do for so long is given back
};
/// "fast:2,slow:4x3,time=1h": an allocation of 2 nodes in partition fast, three of 4 nodes each in slow. "auto,max=3": others as
/// they are needed. kInvalid.
Result<AcrossAsked> ParseAcross(std::string_view text);
/// kInvalid: the site lets no run's tasks move to a partition that is named. `allowed`: its list; empty: any.
Status AllowedAcross(const AcrossAsked& asked, const std::vector<std::string>& allowed);

/// The run of that directory, by allocations that are asked for, each of which joins it. Stays until the run has ended: says what becomes
/// of the jobs and how far the run is. An interruption ends this command alone. With `again` jobs of the run that wait or go on count
/// as asked for. The exit status of the run; of what could not be submitted where nothing could, and then a new run's directory is removed.
int RunAcross(const AcrossAsked& asked, const std::string& run_dir, bool json, bool again);

}  // namespace harrow::launcher
