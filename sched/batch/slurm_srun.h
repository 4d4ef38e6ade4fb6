#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "batch/slurm_environment.h"

namespace harrow::batch {

/// The one srun that starts `agent` once on each node of every component, with all that the job was granted.
/// Variables of `environment` that would change its meaning are cleared. `site_flags` come last and so
/// overrule ours. `without`: nodes of the job on which it starts none; `allocation` has none of them. A
/// component without nodes gets no part of it.
std::vector<std::string> SrunCommand(const SlurmAllocation& allocation, const Environment& environment,
                                     const std::vector<std::string>& agent,
                                     const std::vector<std::string>& site_flags,
                                     const std::vector<std::string>& without = {});

/// The nodes on which srun said that it could start nothing, in the order in which it did.
std::vector<std::string> UnreachableNodes(std::string_view said);

/// The same for one node that has lost its agent.
std::vector<std::string> SrunCommandOn(const std::string& node, const SlurmAllocation& allocation,
                                       const Environment& environment, const std::vector<std::string>& agent,
                                       const std::vector<std::string>& site_flags);

}  // namespace harrow::batch
