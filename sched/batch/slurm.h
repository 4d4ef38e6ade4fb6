#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "batch/batch.h"

namespace harrow::batch {

struct SlurmOptions {
  std::string program;  // this harrow; harrow-slurm-query lies beside it or in ../libexec/harrow
  uint32_t slots = 0;   // a node; 0: what was granted
  bool pin = true;      // tasks to their cores
  std::vector<std::string> site_flags;  // more options for srun
};

/// The job of `environment` ("NAME=value" each). What it was granted is asked of slurmctld each time Nodes,
/// EndTime or AgentCommands is called (10 ms, or 10 s when slurmctld is away: not on an event loop); SLURM_*
/// is the fall-back.
std::unique_ptr<Batch> MakeSlurm(const SlurmOptions& options, const std::vector<std::string>& environment);

/// Slurm when `environment` is that of a job no task of Harrow's, and no pretend nodes are asked for, else
/// this machine alone. HARROW_SRUN_FLAGS of the environment (split at blanks) are the site's further options
/// for srun. HARROW_STEP_NODES (names, separated by commas): agents have been started already on these nodes,
/// by the srun that this process is a task of; only this node's is still to be.
std::unique_ptr<Batch> FindBatch(const LocalOptions& options, const std::vector<std::string>& environment);

/// Which CPUs the job of `environment` was granted, for `harrow agent --cpus` (slurm_cpus.h). Asks slurmctld.
std::string GrantedCpus(const std::string& program, const std::vector<std::string>& environment);

/// A program of Harrow's own that lies beside `harrow` or in ../libexec/harrow; empty: not installed.
std::string HelperProgram(const std::string& harrow, const std::string& name);

/// The job of `environment` for owner files: its id, with ".N" when it was requeued N times; empty: none.
std::string JobWithRestarts(const std::vector<std::string>& environment);
/// Whether such a job still runs; none: nobody knows (no Slurm here, or slurmctld does not answer). `own`:
/// this process' job.
std::optional<bool> JobRuns(const std::string& program, const std::string& job, const std::string& own);

}  // namespace harrow::batch
