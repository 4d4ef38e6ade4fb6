#include <algorithm>
#include <cstdlib>
#include <optional>
#include <sched.h>
#include <string>
#include <string_view>

#include "base/text.h"
#include "batch/slurm.h"
#include "launcher/command.h"
#include "launcher/doctor_checks.h"
#include "launcher/inputs.h"
#include "os/clock.h"
#include "topology/machine.h"
#include "topology/slots.h"

namespace harrow::launcher {
namespace {

/// What this node gives a run: granted, allowed, used.
Check CheckGrant() {
  const topology::Grant grant =
      NodeGrant(Variable("SLURMD_NODENAME"), batch::GrantedCpus(ThisProgram(), Environment()));
  const std::string cpus = Variable("SLURM_CPUS_ON_NODE");
  const Result<topology::Machine> machine = topology::ReadMachine();
  if (!machine.ok()) return {"CPUs", Health::kBad, machine.status().message(), "see lstopo"};
  uint32_t unpinned = 0;
  std::string notice;
  const topology::Machine part = topology::GrantedPart(*machine, grant, &unpinned, &notice);
  const topology::SlotPlan plan = topology::PlanSlots(part, unpinned);
  const size_t slots = plan.slots.size();
  if (notice.empty()) notice = plan.notice;
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const int pus = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 0;
  const std::string text = StrCat("on this node ", cpus.empty() ? "?" : cpus, " granted, ", pus, " of ",
                                  grant.online, " allowed, ", slots, slots == 1 ? " slot" : " slots");
  if (notice.empty()) return {"CPUs", Health::kOk, StrCat(text, ", tasks are pinned"), ""};
  return {"CPUs", Health::kWarning, StrCat(text, "; ", notice),
          "agents are started with --cpu-bind=none; ask the site which CPUs its jobs may use (TaskPlugin)"};
}

std::optional<std::string> VariableIfSet(const char* name) {
  const char* const value = getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

/// The devices that Slurm granted, and those that tasks on this node can be given.
Check CheckGpus(const std::string& node) {
  std::string granted = Variable("SLURM_GPUS_ON_NODE");
  if (granted.empty()) granted = Variable("SLURM_JOB_GPUS");
  const Result<topology::Machine> machine = topology::ReadMachine();
  const size_t seen = machine.ok() ? machine->devices.size() : 0;
  if (granted.empty()) {
    return {"GPUs", Health::kOk,
            seen == 0 ? "none granted" : StrCat("none granted; ", seen, seen == 1 ? " is" : " are", " here"),
            ""};
  }
  const std::string text = StrCat("granted on a node: ", granted);
  if (node.empty()) return {"GPUs", Health::kOk, text, ""};
  if (seen > 0) return {"GPUs", Health::kOk, StrCat(text, "; ", seen, " seen by hwloc"), ""};
  topology::Machine named;  // what an agent goes by, whatever hwloc sees
  topology::KeepVisibleDevices(VariableIfSet("CUDA_VISIBLE_DEVICES"), VariableIfSet("ROCR_VISIBLE_DEVICES"), &named);
  if (!named.devices.empty())
    return {"GPUs", Health::kOk,
            StrCat(text, "; ", named.devices.size(), " named by CUDA_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES"), ""};
  return {
      "GPUs", Health::kWarning, StrCat(text, "; none is seen by hwloc"),
      "tasks with gpus cannot start: see lstopo, and whether hwloc has its plugins for CUDA, ROCm or OpenCL"};
}

}  // namespace

std::vector<Check> CheckBatch() {
  const bool srun = !InPath("srun").empty();
  const std::string job = Variable("SLURM_JOB_ID");
  if (job.empty()) {
    if (!srun) return {{"Slurm", Health::kOk, "not installed: runs use this machine", ""}};
    return {{"Slurm", Health::kOk, "srun is there; not in a job: runs use this machine",
             "if this is a login node: say harrow run in a script for sbatch, or after salloc"}};
  }
  if (!srun) {
    return {{"Slurm", Health::kBad, StrCat("in job ", job, ", but there is no srun in PATH"),
             "load Slurm's module"}};
  }
  std::vector<Check> checks;
  const auto batch = batch::FindBatch({.program = ThisProgram()}, Environment());
  const auto nodes = batch->Nodes();
  if (!nodes.ok()) {
    checks.push_back({"Slurm", Health::kBad, nodes.status().message(), "see squeue --me"});
  } else {
    uint64_t cpus = 0;
    for (const batch::GrantedNode& node : *nodes) cpus += node.cpus;
    std::string text =
        StrCat("job ", job, ": ", nodes->size(), nodes->size() == 1 ? " node, " : " nodes, ", cpus, " CPUs");
    if (const auto end = batch->EndTime()) {
      const Duration left = *end - os::RealClock().Now();
      text += StrCat(", ends in ", FormatDuration(std::max(left, Duration(0))));
    }
    checks.push_back({"Slurm", Health::kOk, text, ""});
    const std::string node = Variable("SLURMD_NODENAME");
    if (node.empty()) {
      checks.push_back({"here", Health::kWarning,
                        StrCat("this machine is no node of job ", job,
                               ": what is said of cores, memory, disks and "
                               "processes is not said of the job's nodes"),
                        "ask a node: srun -N1 -n1 harrow doctor"});
    } else {
      checks.push_back(CheckGrant());
    }
    checks.push_back(CheckGpus(node));
  }
  if (batch::HelperProgram(ThisProgram(), "harrow-slurm-query").empty()) {
    checks.push_back(
        {"slurmctld", Health::kWarning, "harrow-slurm-query is not installed; SLURM_* tells what was granted",
         "install it beside harrow or in ../libexec/harrow: lost nodes and new time limits are not noticed"});
  }
  if (batch::HelperProgram(ThisProgram(), "harrow-pmix-exchange").empty()) {
    checks.push_back({"PMIx", Health::kOk,
                      "harrow-pmix-exchange is not installed: start harrow run without srun in front", ""});
  } else {
    checks.push_back({"PMIx", Health::kOk,
                      "srun --ntasks-per-node=1 --mpi=pmix harrow run works where srun --mpi=list names pmix",
                      ""});
  }
  if (batch::HelperProgram(ThisProgram(), "harrow-pmix").empty()) {
    checks.push_back({"MPI tasks", Health::kOk,
                      "harrow-pmix is not installed: tasks with ranks run with mpi = \"none\" only", ""});
  }
  std::string hosts;
  for (const std::string& host : batch->ListenHosts()) hosts += StrCat(hosts.empty() ? "" : ", ", host);
  const bool local = hosts == "127.0.0.1" && nodes.ok() && nodes->size() > 1;
  checks.push_back({"addresses", local ? Health::kBad : Health::kOk,
                    StrCat("other nodes reach this one at ", hosts),
                    local ? "the nodes' names lead nowhere from here: see getent hosts NODE" : ""});
  return checks;
}

}  // namespace harrow::launcher
