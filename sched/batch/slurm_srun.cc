#include "batch/slurm_srun.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/text.h"

// srun takes defaults for nearly each of its options from the environment, and a batch script's environment
// is full of what sbatch was asked for: SLURM_NTASKS makes --ntasks-per-node void, SLURM_MEM_PER_NODE
// reserves the job's memory for this step, SLURM_EXPORT_ENV=NONE takes the agents' environment away. Each
// release adds some. So all of SLURM_*, SRUN_* and SLURMD_* goes, except what says which job this is and what
// srun does not read (a job's outputs, for the users).
//
// The options: --overlap and --mem=0 let the user's own steps run beside the agents; --cpu-bind=none leaves
// an agent all granted CPUs, which it deals out itself; --kill-on-bad-exit=0, --no-kill and --wait=0 keep the
// other agents when one is lost. There is no --cpus-per-task: it implies --exact, and a step without it gets
// every CPU and device of the job.

namespace harrow::batch {
namespace {

constexpr std::array<std::string_view, 21> kKept = {"SLURM_CLUSTER_NAME",
                                                    "SLURM_CONF",
                                                    "SLURM_CONF_SERVER",
                                                    "SLURM_HET_SIZE",
                                                    "SLURM_JOBID",
                                                    "SLURM_JOB_ACCOUNT",
                                                    "SLURM_JOB_END_TIME",
                                                    "SLURM_JOB_GID",
                                                    "SLURM_JOB_ID",
                                                    "SLURM_JOB_PARTITION",
                                                    "SLURM_JOB_QOS",
                                                    "SLURM_JOB_USER",
                                                    "SLURM_JOB_RESERVATION",
                                                    "SLURM_JOB_START_TIME",
                                                    "SLURM_JOB_UID",
                                                    "SLURM_PACK_SIZE",
                                                    "SLURM_RESTART_COUNT",
                                                    "SLURM_SUBMIT_DIR",
                                                    "SLURM_SUBMIT_HOST",
                                                    "SLURM_WORKING_CLUSTER",
                                                    "SLURM_JWT"};

bool IsKept(std::string_view name) {
  return std::find(kKept.begin(), kKept.end(), name) != kKept.end() || name.starts_with("SLURM_ARRAY_") ||
         name.starts_with("SLURM_SPANK_") ||  // options of plugins that sbatch was given

         name.starts_with("SLURM_JOB_ID_HET_GROUP_") || name.starts_with("SLURM_JOB_ID_PACK_GROUP_");
}

bool IsCleared(std::string_view name) {
  return (name.starts_with("SLURM_") || name.starts_with("SRUN_") || name.starts_with("SLURMD_")) &&
         !IsKept(name);
}

}  // namespace

std::vector<std::string> SrunCommand(const SlurmAllocation& allocation, const Environment& environment,
                                     const std::vector<std::string>& agent,
                                     const std::vector<std::string>& site_flags) {
  std::vector<std::string> command = {"/usr/bin/env"};
  for (const auto& [name, value] : environment) {
    if (IsCleared(name)) command.insert(command.end(), {"-u", name});
  }
  command.push_back("srun");
  const bool heterogeneous = allocation.components.size() > 1;
  for (size_t i = 0; i < allocation.components.size(); ++i) {
    if (i > 0) command.push_back(":");
    command.insert(command.end(),
                   {"--overlap", "--cpu-bind=none", "--mem=0", "--kill-on-bad-exit=0", "--no-kill",
                    "--wait=0", "--input=none", "--export=ALL", "--job-name=harrow"});
    if (heterogeneous) command.push_back(StrCat("--het-group=", i));
    size_t nodes = allocation.components[i].nodes.size();
    command.insert(command.end(), {StrCat("-N", nodes), StrCat("-n", nodes)});
    command.insert(command.end(), site_flags.begin(), site_flags.end());
    command.insert(command.end(), agent.begin(), agent.end());
  }
  return command;
}

}  // namespace harrow::batch
