#include "agent/steps/ranks.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"

namespace harrow::agent {
namespace {

constexpr const char* kHosts = "hosts";

Status Unsafe() {
  return Status(
      Code::kExhausted,
      "its ranks need a directory of their own, and none is safe on this node (/dev/shm, TMPDIR, /tmp)");
}

}  // namespace

std::vector<RankServer::Variables> RankVariables(const ProfileSpec& spec, const BaseEnvironment& base,
                                                 const std::string& directory) {
  const std::string& node = base.common().node_name;
  const bool served = spec.mpi == Mpi::kPmix;
  std::vector<RankServer::Variables> all;
  for (uint32_t rank = 0; rank < spec.ranks; ++rank) {
    RankServer::Variables& own = all.emplace_back();
    const auto add = [&own](std::string_view name, const auto& value) {
      own.push_back(StrCat(name, "=", value));
    };
    add("HARROW_RANK", rank);
    add("HARROW_RANKS", spec.ranks);
    add("HARROW_NODELIST", node);
    if (!directory.empty()) add("HARROW_HOSTFILE", StrCat(directory, "/", kHosts));
    if (served) {
      if (base.Find("SLURM_JOBID") < 0) add("SLURM_JOBID", 1);
      add("SLURM_STEP_ID", 0);
      add("SLURM_NODELIST", node);
      // What is mapped there has a name of the host's and the job's: two tasks would take the same.
      add("OMPI_MCA_btl_vader_backing_directory", directory);
    }
    if (served || base.in_slurm()) {
      for (const char* name : {"SLURM_NTASKS", "SLURM_NPROCS", "SLURM_TASKS_PER_NODE"}) add(name, spec.ranks);
      for (const char* name : {"SLURM_PROCID", "SLURM_LOCALID"}) add(name, rank);
      add("SLURM_NODEID", 0);
      add("SLURM_CPUS_PER_TASK", spec.cores / spec.ranks);
    }
  }
  return all;
}

Status Ranks::MakeDirectory() {
  const int root = root_.empty() ? -1 : OpenTmpRoot(root_);
  if (root < 0) return Unsafe();
  // A name is not used again: what an attempt has left running would find the next one's.
  const std::string name = StrCat(slot_, "-", ++made_);
  const bool made = mkdirat(root, name.c_str(), 0700) == 0;
  const int error = errno;
  close(root);
  if (!made)
    return Status(Code::kExhausted, StrCat("cannot make a directory in ", root_.path, ": ", strerror(error)));
  name_ = name;
  directory_ = StrCat(root_.path, "/", name);
  return {};
}

void Ranks::RemoveDirectory() {
  if (name_.empty()) return;
  if (const int root = OpenTmpRoot(root_); root >= 0) {
    const int fd = openat(root, name_.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0) {
      (void)EmptyDirectory(fd);
      close(fd);
    }
    (void)unlinkat(root, name_.c_str(), AT_REMOVEDIR);
    close(root);
  }
  name_.clear();
  directory_.clear();
}

Status Ranks::Prepare(Launch* launch, TaskResult* result) {
  const LocalTask& task = launch->task;
  const ProfileSpec& spec = task.profile->spec();
  variables_.clear();
  if (spec.ranks == 0) return {};
  const bool served = spec.mpi == Mpi::kPmix;
  if (served && server_ == nullptr) return Status(Code::kInvalid, why_);
  if (const Status made = MakeDirectory(); !made.ok() && served) return made;
  const BaseEnvironment& base = task.profile->base();
  if (!directory_.empty() &&
      MakeLinesFile(TmpRootAt(directory_), kHosts, base.common().node_name, spec.ranks).empty()) {
    Status full(Code::kExhausted, StrCat("cannot write the list of its ranks' nodes, ", directory_, "/",
                                         kHosts, ": ", strerror(errno)));
    RemoveDirectory();
    return full;
  }
  variables_ = RankVariables(spec, base, directory_);
  if (!served) return {};
  Result<std::vector<RankServer::Variables>> told =
      server_->Add({.attempt = task.attempt_id(), .count = spec.ranks, .directory = directory_}, to_end_);
  if (!told.ok()) {
    if (told.status().code() == Code::kUnavailable) result->end = End::kLost;
    RemoveDirectory();
    return told.status();
  }
  added_ = true;
  for (size_t rank = 0; rank < variables_.size() && rank < told->size(); ++rank)
    variables_[rank].insert(variables_[rank].end(), (*told)[rank].begin(), (*told)[rank].end());
  return {};
}

void Ranks::Settle(const LocalTask& task, TaskResult*) {
  if (std::exchange(added_, false)) server_->Drop(task.attempt_id());
  RemoveDirectory();
}

}  // namespace harrow::agent
