#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "batch/batch.h"

namespace harrow::batch {

using Environment = std::map<std::string, std::string, std::less<>>;
/// Of "NAME=value" each, as environ holds them.
Environment ParseEnvironment(const std::vector<std::string>& environment);

/// What Slurm granted. A heterogeneous job has several components, any other one; each is a job id of its
/// own.
struct SlurmComponent {
  std::string job_id;
  std::string partition;
  std::vector<GrantedNode> nodes;
};
struct SlurmAllocation {
  std::string job_id;  // the leader's
  std::string job_name;
  std::vector<SlurmComponent> components;
  std::optional<WallTime> end;  // none: no limit, or unknown
};

/// "node[1,3-4],rack[1-2]n[01-02]" as single names. At most a million.
Result<std::vector<std::string>> ExpandHostlist(std::string_view hostlist);
/// "4(x3),2" as 4 4 4 2.
Result<std::vector<uint32_t>> ExpandCounts(std::string_view counts);

/// Is this environment that of a Slurm job?
bool InSlurmJob(const Environment& environment);
/// From SLURM_*; devices are told for this node only and taken to be the same on all.
Result<SlurmAllocation> AllocationFromEnvironment(const Environment& environment);

}  // namespace harrow::batch
