#include "agent/steps/ranks.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"

namespace harrow::agent {
namespace {

constexpr const char* kHosts = "hosts";
constexpr const char* kHostsInTurn = "hosts-in-turn";

Status Unsafe() {
  return Status(
      Code::kExhausted,
      "its ranks need a directory of their own, and none is safe on this node (/dev/shm, TMPDIR, /tmp)");
}

/// That a task without ranks has to itself.
uint32_t CoresOfNode(const ProfileSpec& spec, const BaseEnvironment& base) {
  return std::max({uint32_t{1}, spec.cores, base.common().slots});
}

}  // namespace

RankServer* RankServers::Of(const ProfileSpec& spec) const {
  if (!spec.served()) return nullptr;
  if (spec.mpi == Mpi::kPmi1) return pmi1;
  return pmix;
}

std::string RanksPerNode(const Gang& gang) {
  std::string all;
  for (size_t i = 0; i < gang.nodes.size();) {
    size_t end = i + 1;
    while (end < gang.nodes.size() && gang.nodes[end].ranks == gang.nodes[i].ranks) ++end;
    all += StrCat(all.empty() ? "" : ",", gang.nodes[i].ranks);
    if (end - i > 1) all += StrCat("(x", end - i, ")");
    i = end;
  }
  return all;
}

std::string HostLines(const ProfileSpec& spec, const BaseEnvironment& base, const Gang* gang) {
  const Gang alone{.nodes = {{.name = base.common().node_name, .ranks = spec.ranks}}};
  const std::vector<Gang::Node>& nodes = (gang != nullptr ? *gang : alone).nodes;
  const uint32_t cores = CoresOfNode(spec, base);
  std::string lines;
  for (const Gang::Node& node : nodes) {
    for (uint32_t i = spec.ranks == 0 ? cores : node.ranks; i > 0; --i) lines.append(node.name).append(1, '\n');
  }
  return lines;
}

std::string HostLinesInTurn(const ProfileSpec& spec, const BaseEnvironment& base, const Gang& gang) {
  std::string lines;
  for (uint32_t core = CoresOfNode(spec, base); core > 0; --core) {
    for (const Gang::Node& node : gang.nodes) lines.append(node.name).append(1, '\n');
  }
  return lines;
}

/// What makes MPI_Init short where there is nothing but shared memory and TCP (measured: tests/perf/mpi). Open MPI 4
/// looks for each fabric that its libraries know (some of these wait for their devices), hwloc for displays and GPUs,
/// in each rank.
constexpr std::pair<std::string_view, std::string_view> kNoFabric[] = {
    {"OMPI_MCA_pml", "ob1"},
    {"OMPI_MCA_btl", "^openib,uct,ofi,usnic"},
    {"OMPI_MCA_osc", "^ucx"},
    {"OMPI_MCA_coll", "^hcoll,monitoring,adapt,han"},
};

std::vector<RankServer::Variables> RankVariables(const ProfileSpec& spec, const BaseEnvironment& base,
                                                 const std::string& directory, const Gang* gang) {
  const Gang alone{.nodes = {{.name = base.common().node_name, .ranks = spec.ranks}}};
  const Gang& all_nodes = gang != nullptr ? *gang : alone;
  const std::string nodes = all_nodes.Names(",");
  const uint32_t ranks = all_nodes.ranks(), here = all_nodes.ranks_here(), first = all_nodes.first_rank();
  const std::string hosts = directory.empty() ? "" : StrCat(directory, "/", kHosts);
  const bool pmix = spec.served() && spec.mpi == Mpi::kPmix;
  std::vector<RankServer::Variables> all;
  const auto add = [&all](std::string_view name, const auto& value) {
    all.back().push_back(StrCat(name, "=", value));
  };
  const auto add_unless_set = [&](std::string_view name, const auto& value) {
    if (base.Find(name) < 0) add(name, value);
  };
  const auto add_nodes = [&] {
    add("HARROW_NODELIST", nodes);
    if (!hosts.empty()) add("HARROW_HOSTFILE", hosts);
  };
  if (spec.ranks == 0) {
    // Its own launcher is to find all of them, mpirun among a step's, srun in a host file.
    all.emplace_back();
    add_nodes();
    if (!base.in_slurm()) return all;
    const size_t count = all_nodes.nodes.size();
    add("SLURM_NODELIST", nodes);
    for (const char* name : {"SLURM_NNODES", "SLURM_JOB_NUM_NODES", "SLURM_NTASKS", "SLURM_NPROCS"})
      add(name, count);
    const uint32_t cores = CoresOfNode(spec, base);
    add("SLURM_TASKS_PER_NODE", StrCat(cores, "(x", count, ")"));
    for (const char* name : {"SLURM_CPUS_ON_NODE", "SLURM_CPUS_PER_TASK"}) add(name, cores);
    if (!directory.empty()) add("SLURM_HOSTFILE", StrCat(directory, "/", kHostsInTurn));
    return all;
  }
  for (uint32_t i = 0; i < here; ++i) {
    all.emplace_back();
    add("HARROW_RANK", first + i);
    add("HARROW_RANKS", ranks);
    add_nodes();
    if (pmix) {
      add_unless_set("SLURM_JOBID", 1);
      add("SLURM_STEP_ID", 0);
      // What is mapped there has a name of the host's and the job's: two tasks would take the same.
      add("OMPI_MCA_btl_vader_backing_directory", directory);
      if (base.common().no_fabric) {
        for (const auto& [name, value] : kNoFabric) add_unless_set(name, value);
        // Where there are none. A task with GPUs may be looking for them by hwloc.
        if (spec.devices == 0) add_unless_set("HWLOC_PLUGINS_PATH", directory);
      }
    }
    if (pmix || base.in_slurm()) {
      add("SLURM_NODELIST", nodes);
      for (const char* name : {"SLURM_NTASKS", "SLURM_NPROCS"}) add(name, ranks);
      add("SLURM_TASKS_PER_NODE", RanksPerNode(all_nodes));
      add("SLURM_PROCID", first + i);
      add("SLURM_LOCALID", i);
      add("SLURM_NODEID", all_nodes.here);
      if (gang != nullptr) add("SLURM_NNODES", all_nodes.nodes.size());
      add("SLURM_CPUS_PER_TASK", spec.cores_of_rank());
    }
  }
  return all;
}

Status Ranks::MakeDirectory() {
  const os::Fd root = OpenTmpRoot(root_);
  if (!root.ok()) return Unsafe();
  // A name is not used again: what an attempt has left running would find the next one's.
  const std::string name = StrCat(slot_, "-", ++made_);
  if (mkdirat(root.get(), name.c_str(), 0700) != 0)
    return Status(Code::kExhausted, StrCat("cannot make a directory in ", root_.path, ": ", strerror(errno)));
  name_ = name;
  directory_ = StrCat(root_.path, "/", name);
  return {};
}

void Ranks::RemoveDirectory() {
  if (name_.empty()) return;
  if (const os::Fd root = OpenTmpRoot(root_); root.ok()) {
    const os::Fd fd(openat(root.get(), name_.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    (void)EmptyDirectory(fd.get());
    (void)unlinkat(root.get(), name_.c_str(), AT_REMOVEDIR);
  }
  name_.clear();
  directory_.clear();
}

Status Ranks::Prepare(Launch* launch, TaskResult* result) {
  const LocalTask& task = launch->task;
  const ProfileSpec& spec = task.profile->spec();
  variables_.clear();
  if (spec.ranks == 0 && !task.gang) return {};
  RankServer* const server = servers_.Of(spec);
  const bool pmix = spec.served() && spec.mpi == Mpi::kPmix;
  if (pmix && server == nullptr) return Status(Code::kInvalid, servers_.no_pmix);
  if (const Status made = MakeDirectory(); !made.ok() && pmix) return made;
  const BaseEnvironment& base = task.profile->base();
  const Gang* const gang = task.gang.get();
  const auto write = [this](const char* name, const std::string& lines) {
    return !MakeTextFile(TmpRootAt(directory_), name, lines).empty();
  };
  const bool in_turn = spec.ranks == 0 && base.in_slurm();
  if (!directory_.empty() && (!write(kHosts, HostLines(spec, base, gang)) ||
                              (in_turn && !write(kHostsInTurn, HostLinesInTurn(spec, base, *gang))))) {
    Status full(Code::kExhausted, StrCat("cannot write the list of its ranks' nodes, ", directory_, "/",
                                         kHosts, ": ", strerror(errno)));
    RemoveDirectory();
    return full;
  }
  variables_ = RankVariables(spec, base, directory_, gang);
  if (server == nullptr) return {};
  const auto count = static_cast<uint32_t>(variables_.size());
  Result<std::vector<RankServer::Variables>> told = server->Add(
      {.attempt = task.attempt_id(), .count = count, .directory = directory_, .gang = task.gang}, to_end_);
  if (!told.ok()) {
    if (told.status().code() == Code::kUnavailable) result->end = End::kLost;
    RemoveDirectory();
    return told.status();
  }
  server_ = server;
  for (size_t rank = 0; rank < variables_.size() && rank < told->size(); ++rank)
    variables_[rank].insert(variables_[rank].end(), (*told)[rank].begin(), (*told)[rank].end());
  return {};
}

void Ranks::Settle(const LocalTask& task, TaskResult*) {
  if (server_ != nullptr) std::exchange(server_, nullptr)->Drop(task.attempt_id());
  RemoveDirectory();
}

}  // namespace harrow::agent
