// What was true of the process that harrow run is, the batch script's step or one rank of an srun, is not
// true of a task. A program that believes it thinks that it has peers, and waits for them, or that it may use
// CPUs which others have. So what says which job this is and what users set for their programs stays; what
// says which process, of how many, where and with how much goes, and where the batch system is Slurm is set
// anew, as for a step of one process on this node with the task's cores:
//
// - SLURM_JOB_ID and the like stay, so srun, scontrol and the user's scripts find their job.
// - Each SLURM_* that srun takes a default from goes (srun's list grows with each release, so it is said what
// stays).
//   A task whose env says SLURM_NNODES=1, as an element of an array does, keeps its steps on its node:
//   SLURM_NODELIST does not make srun do that, a host file does, where the job has several nodes. sbatch and
//   salloc take the same file for the nodes of a job of their own: a function of bash keeps it from them. Slurm
//   knows nothing of who has which CPUs of
//   the job, and would bind the steps of all tasks to the same first ones: SLURM_CPU_BIND=none. It finds what
//   a job of its own would: no SLURM_CPUS_PER_TASK that nobody asked for, and where there is no job, the
//   array's number as that of one. SLURM_NTASKS=1 makes `srun PROGRAM` one process; without SLURM_NNODES
//   `srun -n64` may still use the nodes it needs; and without SLURM_OVERLAP the steps of tasks that run at
//   the same time would wait for each other ("Requested nodes are busy").
// - mpirun of Open MPI, and Hydra, take their slots from SLURM_NODELIST and SLURM_TASKS_PER_NODE, and Open
// MPI's refuses to
//   start in a job without them: this node, and as many as the task has cores.
// - A program that starts MPI by itself is alone: whatever would lead it to somebody's PMI server goes.
//
// (environment.md is the list for users.)
#include "agent/steps/environment.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>

#include "base/text.h"

namespace harrow::agent {
namespace {

using Names = std::initializer_list<std::string_view>;

bool IsOneOf(std::string_view name, Names names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool StartsWithOneOf(std::string_view name, Names prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](std::string_view p) { return name.starts_with(p); });
}

/// Set for every task by us, so not inherited from where the run was started; or of the run alone.
bool IsOurs(std::string_view name) {
  return IsOneOf(name,
                 {"HARROW_TASK_ID", "HARROW_TASK_NAME", "HARROW_ATTEMPT", "HARROW_NODE", "HARROW_RUN", "HARROW_PART", "HARROW_SUBMIT_DIR",
                  "HARROW_LOCAL", "HARROW_CHECKPOINT_DIR", "HARROW_CHECKPOINT_REQUEST", "HARROW_CHECKPOINT_SIGNAL",
                  "HARROW_CHECKPOINT_STATUS", "HARROW_RESTART", "HARROW_STEP_NODES", "HARROW_EXPORT", "OMP_NUM_THREADS", "PWD"});
}

/// Of SLURM_*: says which job this is, or was set by a user for srun.
bool SaysWhichJob(std::string_view name) {
  return IsOneOf(name, {"SLURM_BITSTR_LEN",     "SLURM_CLUSTER_NAME",    "SLURM_CONF",
                        "SLURM_CONF_SERVER",    "SLURM_HET_SIZE",        "SLURM_JOBID",
                        "SLURM_JOB_ACCOUNT",    "SLURM_JOB_COMMENT",     "SLURM_JOB_CONSTRAINTS",
                        "SLURM_JOB_DEPENDENCY", "SLURM_JOB_END_TIME",    "SLURM_JOB_EXTRA",
                        "SLURM_JOB_GID",        "SLURM_JOB_ID",          "SLURM_JOB_LICENSES",
                        "SLURM_JOB_NAME",       "SLURM_JOB_NODELIST",    "SLURM_JOB_PARTITION",
                        "SLURM_JOB_QOS",        "SLURM_JOB_RESERVATION", "SLURM_JOB_START_TIME",
                        "SLURM_JOB_UID",        "SLURM_JOB_USER",        "SLURM_JWT",
                        "SLURM_MPI_TYPE",       "SLURM_PACK_SIZE",       "SLURM_RESTART_COUNT",
                        "SLURM_SUBMIT_DIR",     "SLURM_SUBMIT_HOST",     "SLURM_TIME_FORMAT",
                        "SLURM_WORKING_CLUSTER"}) ||
         StartsWithOneOf(
             name, {"SLURM_ARRAY_", "SLURM_SPANK_", "SLURM_JOB_ID_HET_GROUP_", "SLURM_JOB_ID_PACK_GROUP_"});
}

/// Says which process of how many somebody is, or where its PMI server listens.
bool SaysWhichProcess(std::string_view name, bool below_mpirun) {
  if (name.starts_with("SLURM_")) return !SaysWhichJob(name);
  if (StartsWithOneOf(name, {"SLURMD_", "SRUN_", "PMI2_", "ALPS_APP_", "PALS_", "FLUX_TASK_", "HYDI_",
                             "MPISPAWN_", "MV2_COMM_WORLD_", "OMPI_COMM_WORLD_", "JSM_NAMESPACE_"}))
    return true;
  // Where they are installed and how they are tuned is the user's to say.
  if (name.starts_with("PMIX_"))
    return !name.starts_with("PMIX_MCA_") &&
           !IsOneOf(name, {"PMIX_BASE", "PMIX_DIR", "PMIX_HOME", "PMIX_INSTALL_PREFIX", "PMIX_PREFIX",
                           "PMIX_ROOT"});
  if (name.starts_with("PMI_"))
    return !StartsWithOneOf(name, {"PMI_DEBUG", "PMI_MAX_", "PMI_MMAP_", "PMI_NO_"});
  if (IsOneOf(name, {"FLUX_JOB_NNODES", "FLUX_JOB_SIZE", "MPI_LOCALNRANKS", "MPI_LOCALRANKID",
                     "OMPI_APP_CTX_NUM_PROCS", "OMPI_ARGV", "OMPI_COMMAND", "OMPI_FILE_LOCATION",
                     "OMPI_FIRST_RANKS", "OMPI_NUM_APP_CTX", "OMPI_UNIVERSE_SIZE"}))
    return true;
  // A user's own settings, unless it was mpirun that made them.
  return below_mpirun &&
         StartsWithOneOf(name, {"OMPI_MCA_ess", "OMPI_MCA_orte", "OMPI_MCA_pmix", "PRTE_MCA_"});
}

/// Numbers of devices as another process counts them.
bool NamesDevices(std::string_view name) {
  return IsOneOf(
      name, {"CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"});
}

constexpr std::string_view kFunctionBegin = "BASH_FUNC_", kFunctionEnd = "%%";
constexpr std::string_view kForAJobOfItsOwn =
    "() {  (case ${TMPDIR-} in */harrow-*/*) unset TMPDIR ;; esac\n"
    "unset SLURM_HOSTFILE SLURM_OVERLAP SLURM_CPU_BIND; exec ";

std::string_view NameOf(std::string_view entry) {
  return entry.substr(0, entry.find('='));
}

std::string Join(const std::string& directory, const std::string& path) {
  if (path.empty()) return directory;
  if (path.front() == '/' || directory.empty()) return path;
  return directory.back() == '/' ? directory + path : directory + "/" + path;
}

}  // namespace

BaseEnvironment::BaseEnvironment(const EnvList& submit_environment, Common common)
    : common_(std::move(common)) {
  const bool below_mpirun = std::any_of(submit_environment.begin(), submit_environment.end(),
                                        [](const auto& v) { return v.first == "OMPI_COMM_WORLD_SIZE"; });
  bool several = false;
  for (const auto& [name, value] : submit_environment) {
    in_slurm_ = in_slurm_ || name == "SLURM_JOB_ID";
    one_node_ = one_node_ || (name == "SLURM_JOB_NUM_NODES" && value == "1");
    // Of an element of another array it is said that its job has one.
    several = several || name == "HARROW_TASK_ID" || name == "SLURM_HET_SIZE" || name == "SLURM_PACK_SIZE";
    names_node_ = names_node_ || name == "SLURMD_NODENAME";
    if (IsOurs(name) || SaysWhichProcess(name, below_mpirun)) continue;
    if (common_.has_devices && NamesDevices(name)) continue;
    if (common_.own_tmp && name == "TMPDIR") continue;
    entries_.push_back(StrCat(name, "=", value));
  }
  one_node_ = one_node_ && !several;
  // Those of a step of one process on this node. What depends on its cores is added by TaskProfile.
  if (in_slurm_) {
    for (const char* entry : {"SLURM_NTASKS=1", "SLURM_NPROCS=1", "SLURM_PROCID=0", "SLURM_LOCALID=0",
                              "SLURM_NODEID=0", "SLURM_OVERLAP=1"})
      entries_.emplace_back(entry);
    entries_.push_back("SLURM_NODELIST=" + common_.node_name);
  }
  if (names_node_) entries_.push_back("SLURMD_NODENAME=" + common_.node_name);
  entries_.push_back("HARROW_NODE=" + common_.node_name);
  entries_.push_back("HARROW_SUBMIT_DIR=" + common_.submit_dir);
  if (!common_.run_dir.empty()) {
    entries_.push_back("HARROW_RUN=" + common_.run_dir);
    entries_.push_back(StrCat("HARROW_PART=", common_.part));
  }
  if (!common_.local.empty()) entries_.push_back("HARROW_LOCAL=" + common_.local);
  for (std::string& entry : entries_) pointers_.push_back(entry.data());
}

int BaseEnvironment::Find(std::string_view name) const {
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (NameOf(entries_[i]) == name) return static_cast<int>(i);
  }
  return -1;
}

TaskProfile::TaskProfile(ProfileSpec spec, std::shared_ptr<const BaseEnvironment> base)
    : spec_(std::move(spec)),
      base_(std::move(base)),
      directory_(Join(base_->common().submit_dir, spec_.cwd)) {
  const auto set = [this](std::string_view name, std::string_view value) {
    overrides_.push_back({.base_index = base_->Find(name), .entry = StrCat(name, "=", value)});
  };
  set("PWD", directory_);
  const bool keeps_steps_here =
      std::find(spec_.env.begin(), spec_.env.end(),
                std::pair<std::string, std::string>("SLURM_NNODES", "1")) != spec_.env.end();
  if (base_->in_slurm()) {
    if (!keeps_steps_here) {
      for (const char* name : {"SLURM_CPUS_ON_NODE", "SLURM_CPUS_PER_TASK", "SLURM_TASKS_PER_NODE"})
        set(name, StrCat(spec_.cores));
    }
    if (spec_.devices > 0) set("SLURM_GPUS_ON_NODE", StrCat(spec_.devices));
  }
  if (keeps_steps_here) {
    set("SLURM_JOB_NODELIST", base_->common().node_name);
    const uint32_t cores = spec_.whole_node ? std::max(spec_.cores, base_->common().slots) : spec_.cores;
    for (const char* name : {"SLURM_CPUS_ON_NODE", "SLURM_JOB_CPUS_PER_NODE"}) set(name, StrCat(cores));
    // Unless it says how many processes it has: as many as the node has room for, as in a job of its own.
    if (spec_.whole_node) set("SLURM_TASKS_PER_NODE", StrCat(cores / std::max(1u, spec_.cores)));
    if (base_->in_slurm()) {
      set("SLURM_CPU_BIND", "none");
      if (!base_->one_node() && !base_->common().hosts.empty()) set("SLURM_HOSTFILE", base_->common().hosts);
      for (const char* program : {"sbatch", "salloc"}) {
        const std::string name = StrCat(kFunctionBegin, program, kFunctionEnd);
        if (base_->Find(name) < 0) set(name, StrCat(kForAJobOfItsOwn, program, " \"$@\")\n}"));
      }
    } else {
      for (const char* name : {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"}) set(name, "0");
      set("SLURMD_NODENAME", base_->common().node_name);
      for (const auto& [name, value] : spec_.env) {
        if (name != "SLURM_ARRAY_JOB_ID") continue;
        set("SLURM_JOB_ID", value);
        set("SLURM_JOBID", value);
      }
    }
  }
  for (const auto& [name, value] : spec_.env) {
    sets_omp_threads_ = sets_omp_threads_ || name == "OMP_NUM_THREADS";
    sets_tmp_dir_ = sets_tmp_dir_ || name == "TMPDIR";
    std::erase_if(overrides_, [&name = name](const Override& o) { return NameOf(o.entry) == name; });
    set(name, value);
  }
  const auto note_function = [this](std::string_view name) {
    if (!name.starts_with(kFunctionBegin) || !name.ends_with(kFunctionEnd)) return;
    name.remove_prefix(kFunctionBegin.size());
    name.remove_suffix(kFunctionEnd.size());
    functions_.emplace_back(name);
  };
  for (const std::string& entry : base_->entries()) note_function(NameOf(entry));
  for (const auto& [name, value] : spec_.env) note_function(name);
  path_ = Variable("PATH");
  shell_ = spec_.shell.empty() ? base_->common().shell : spec_.shell;
  if (shell_.empty()) shell_ = "/bin/sh";
}

bool TaskProfile::StartsWithFunction(std::string_view command) const {
  if (functions_.empty()) return false;
  command.remove_prefix(std::min(command.size(), command.find_first_not_of(" \t")));
  return std::find(functions_.begin(), functions_.end(), command.substr(0, command.find_first_of(" \t"))) !=
         functions_.end();
}

std::string_view TaskProfile::Variable(std::string_view name) const {
  for (const Override& o : overrides_) {
    if (NameOf(o.entry) == name) return std::string_view(o.entry).substr(name.size() + 1);
  }
  const int index = base_->Find(name);
  if (index < 0) return {};
  return std::string_view(base_->entries()[static_cast<size_t>(index)]).substr(name.size() + 1);
}

void EnvironmentBuilder::Add(std::string_view name, std::string_view value) {
  const size_t at = text_.size();
  offsets_.push_back(at);
  text_.resize(at + name.size() + value.size() + 2);
  char* const equals = std::copy(name.begin(), name.end(), text_.data() + at);
  *equals = '=';
  std::copy(value.begin(), value.end(), equals + 1);
}

void EnvironmentBuilder::Add(std::string_view name, uint64_t value) {
  std::array<char, 24> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  Add(name, std::string_view(digits.data(), static_cast<size_t>(end - digits.data())));
}

/// They take the place of what was inherited, if it says who somebody is. Whatever else libpmix has to say,
/// how Open MPI is tuned or hwloc looks around, is the user's who has said it.
void EnvironmentBuilder::AddOfRank(const TaskProfile& profile, const TaskVariables& task) {
  const EnvList& own = profile.spec().env;
  for (const std::string& entry : task.of_rank) {
    const std::string_view name = NameOf(entry);
    if (std::any_of(own.begin(), own.end(), [&](const auto& v) { return v.first == name; })) continue;
    const auto same = std::find_if(pointers_.begin(), pointers_.end(),
                                   [&](const char* other) { return NameOf(other) == name; });
    if (same == pointers_.end()) {
      pointers_.push_back(const_cast<char*>(entry.c_str()));
    } else if (StartsWithOneOf(name, {"HARROW_", "PMIX_", "PMI_", "SLURM_"}) &&
               !name.starts_with("PMIX_MCA_")) {
      *same = const_cast<char*>(entry.c_str());
    }
  }
}

char* const* EnvironmentBuilder::Build(const TaskProfile& profile, const TaskVariables& task) {
  const BaseEnvironment& base = profile.base();
  text_.clear();
  offsets_.clear();
  pointers_ = base.pointers();
  for (const TaskProfile::Override& o : profile.overrides_) {
    char* entry = const_cast<char*>(o.entry.c_str());
    if (o.base_index < 0) {
      pointers_.push_back(entry);
    } else {
      pointers_[static_cast<size_t>(o.base_index)] = entry;
    }
  }
  Add("HARROW_TASK_ID", task.number);
  Add("HARROW_TASK_NAME", task.name);
  Add("HARROW_ATTEMPT", task.attempt);
  if (!profile.sets_omp_threads_) Add("OMP_NUM_THREADS", task.cores);
  if (base.common().has_devices) {
    Add("CUDA_VISIBLE_DEVICES", task.cuda_devices);
    Add("ROCR_VISIBLE_DEVICES", task.rocr_devices);
  }
  if (base.common().own_tmp && !profile.sets_tmp_dir_) Add("TMPDIR", task.tmp_dir);
  if (task.pmi_fd >= 0) Add("PMI_FD", static_cast<uint64_t>(task.pmi_fd));
  for (const auto& [name, value] : task.checkpoint) {
    if (!value.empty()) Add(name, value);
  }
  for (size_t offset : offsets_) pointers_.push_back(text_.data() + offset);
  AddOfRank(profile, task);
  for (char* entry : task.assigned) {
    const std::string_view name = NameOf(entry);
    const auto same = std::find_if(pointers_.begin(), pointers_.end(),
                                   [&](const char* other) { return NameOf(other) == name; });
    if (same != pointers_.end()) {
      *same = entry;
    } else {
      pointers_.push_back(entry);
    }
  }
  pointers_.push_back(nullptr);
  return pointers_.data();
}

}  // namespace harrow::agent
