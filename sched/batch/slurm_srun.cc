#include "batch/slurm_srun.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

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

std::vector<std::string> Cleared(const Environment& environment) {
  std::vector<std::string> command = {"/usr/bin/env"};
  for (const auto& [name, value] : environment) {
    if (IsCleared(name)) command.insert(command.end(), {"-u", name});
  }
  command.push_back("srun");
  return command;
}

void AddComponent(const SlurmAllocation& allocation, size_t component, const std::vector<std::string>& where,
                  const std::vector<std::string>& site_flags, const std::vector<std::string>& agent,
                  std::vector<std::string>* command) {
  command->insert(command->end(),
                  {"--overlap", "--cpu-bind=none", "--mem=0", "--kill-on-bad-exit=0", "--no-kill", "--wait=0",
                   "--input=none", "--export=ALL", "--job-name=harrow"});
  if (allocation.components.size() > 1) command->push_back(StrCat("--het-group=", component));
  for (const std::vector<std::string>* words : {&where, &site_flags, &agent}) {
    command->insert(command->end(), words->begin(), words->end());
  }
}

}  // namespace

std::vector<std::string> SrunCommand(const SlurmAllocation& allocation, const Environment& environment,
                                     const std::vector<std::string>& agent,
                                     const std::vector<std::string>& site_flags,
                                     const std::vector<std::string>& without) {
  std::vector<std::string> command = Cleared(environment);
  std::string excluded;
  for (const std::string& node : without) excluded += StrCat(excluded.empty() ? "--exclude=" : ",", node);
  bool first = true;
  for (size_t i = 0; i < allocation.components.size(); ++i) {
    const size_t nodes = allocation.components[i].nodes.size();
    if (nodes == 0 && !without.empty()) continue;
    if (!std::exchange(first, false)) command.push_back(":");
    std::vector<std::string> where = {StrCat("-N", nodes), StrCat("-n", nodes)};
    if (!excluded.empty()) where.push_back(excluded);
    AddComponent(allocation, i, where, site_flags, agent, &command);
  }
  return command;
}

// "srun: error: Task launch for StepId=21.0 failed on node node3: Communication connection failure"
std::vector<std::string> UnreachableNodes(std::string_view said) {
  constexpr std::string_view kBefore = " failed on node ";
  std::vector<std::string> nodes;
  while (!said.empty()) {
    const std::string_view line = said.substr(0, said.find('\n'));
    said.remove_prefix(std::min(said.size(), line.size() + 1));
    const size_t before = line.find(kBefore);
    if (before == std::string_view::npos || line.find("launch") > before) continue;
    const std::string_view rest = line.substr(before + kBefore.size());
    const std::string name(rest.substr(0, rest.find_first_of(": ")));
    if (!name.empty() && std::find(nodes.begin(), nodes.end(), name) == nodes.end()) nodes.push_back(name);
  }
  return nodes;
}

std::vector<std::string> SrunCommandOn(const std::string& node, const SlurmAllocation& allocation,
                                       const Environment& environment, const std::vector<std::string>& agent,
                                       const std::vector<std::string>& site_flags) {
  std::vector<std::string> command = Cleared(environment);
  size_t component = 0;
  for (size_t i = 0; i < allocation.components.size(); ++i) {
    const std::vector<GrantedNode>& nodes = allocation.components[i].nodes;
    if (std::any_of(nodes.begin(), nodes.end(), [&](const GrantedNode& n) { return n.name == node; }))
      component = i;
  }
  AddComponent(allocation, component, {"-N1", "-n1", "-w", node}, site_flags, agent, &command);
  return command;
}

}  // namespace harrow::batch
