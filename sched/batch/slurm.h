#pragma once

#include <memory>
#include <string>
#include <vector>

#include "batch/batch.h"

namespace harrow::batch {

struct SlurmOptions {
  std::string program;  // this harrow; harrow-slurm-query lies beside it or in ../libexec/harrow
  uint32_t slots = 0;   // a node; 0: what was granted
  std::vector<std::string> site_flags;  // more options for srun
};

/// The job of `environment` ("NAME=value" each). What it was granted is asked of slurmctld each time Nodes,
/// EndTime or AgentCommands is called (10 ms, or 10 s when slurmctld is away: not on an event loop); SLURM_*
/// is the fall-back.
std::unique_ptr<Batch> MakeSlurm(const SlurmOptions& options, const std::vector<std::string>& environment);

/// Slurm when `environment` is that of a job, else this machine alone. HARROW_SRUN_FLAGS of the environment
/// (split at blanks) are the site's further options for srun.
std::unique_ptr<Batch> FindBatch(const LocalOptions& options, const std::vector<std::string>& environment);

}  // namespace harrow::batch
