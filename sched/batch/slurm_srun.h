#pragma once

#include <string>
#include <vector>

#include "batch/slurm_environment.h"

namespace harrow::batch {

/// The one srun that starts `agent` once on each node of every component, with all that the job was granted.
/// Variables of `environment` that would change its meaning are cleared. `site_flags` come last and so
/// overrule ours.
std::vector<std::string> SrunCommand(const SlurmAllocation& allocation, const Environment& environment,
                                     const std::vector<std::string>& agent,
                                     const std::vector<std::string>& site_flags);

/// The same for one node that has lost its agent.
std::vector<std::string> SrunCommandOn(const std::string& node, const SlurmAllocation& allocation,
                                       const Environment& environment, const std::vector<std::string>& agent,
                                       const std::vector<std::string>& site_flags);

}  // namespace harrow::batch
