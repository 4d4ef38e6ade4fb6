#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/steps/checkpoint_spec.h"
#include "base/time.h"

namespace harrow::agent {

using EnvList = std::vector<std::pair<std::string, std::string>>;

/// What every task on this node inherits (environment.md). Immutable; shared by profiles.
class BaseEnvironment {
 public:
  struct Common {
    std::string submit_dir{};
    std::string run_dir{};     // HARROW_RUN; empty: not told
    uint32_t part = 0;         // HARROW_PART
    std::string node_name{};
    std::string shell{};       // for commands that need one and whose profile names none; empty: /bin/sh
    bool has_devices = false;  // then a task without any must see none
    bool own_tmp = false;      // tasks get a TMPDIR of their own
    bool no_fabric = false;    // ranks of Open MPI look for none
    std::string local{};       // HARROW_LOCAL: the job's directory on this node; empty: none
    std::string hosts{};       // a file that names this node again and again, for srun; empty: none
    uint32_t slots = 0;        // of this node: the cores of a task that has it to itself
  };
  BaseEnvironment(const EnvList& submit_environment, Common common);
  BaseEnvironment(const BaseEnvironment&) = delete;
  BaseEnvironment& operator=(const BaseEnvironment&) = delete;

  const Common& common() const { return common_; }
  const std::vector<std::string>& entries() const { return entries_; }  // "NAME=value"
  /// To each of them, in their order.
  const std::vector<char*>& pointers() const { return pointers_; }
  /// Number of the entry of that name; -1: none.
  int Find(std::string_view name) const;
  bool in_slurm() const { return in_slurm_; }
  /// The job has no other node: every step of it is here.
  bool one_node() const { return one_node_; }

 private:
  bool in_slurm_ = false, names_node_ = false, one_node_ = false;
  std::vector<std::string> entries_;
  std::vector<char*> pointers_;
  Common common_;
};

/// Who tells ranks of each other; numbers as graph::Mpi and pb::Profile.mpi.
enum class Mpi : uint8_t { kPmix = 0, kNone = 1, kPmi1 = 2 };

/// Attributes that tasks share, made ready for starting.
struct ProfileSpec {
  uint32_t cores = 1;
  uint32_t devices = 0;
  uint64_t memory = 0;  // bytes; 0: not limited
  uint32_t nodes = 1;
  bool whole_node = false;
  // Of all nodes; 0: it is no MPI task. Each has its part of the cores and devices of its node, of which
  // there are as many as the node with the most ranks needs.
  uint32_t ranks = 0;
  Mpi mpi = Mpi::kPmix;
  std::string cwd{};  // relative to the submit directory
  std::string shell{};
  EnvList env{};
  Duration time_limit{0};
  bool missing_ok = false;     // it is done also when an output of it is not there
  bool empty_streams = false;  // each attempt empties the files of its stdout and stderr
  int32_t warn_signal = 0;     // sent so long before the time limit; 0: none
  Duration warn_before{0};
  bool warn_alone = false;  // to the task's own process; else to each srun below it
  std::string stdin_path{}, stdout_path{}, stderr_path{};
  CheckpointSpec checkpoint{};

  /// Whoever serves ranks knows those of it.
  bool served() const { return ranks > 0 && mpi != Mpi::kNone; }
  /// Of a node; 1 of a task without.
  uint32_t most_ranks_of_node() const { return ranks == 0 ? 1 : (ranks - 1) / (nodes > 0 ? nodes : 1) + 1; }
  uint32_t cores_of_rank() const { return std::max<uint32_t>(1, cores / most_ranks_of_node()); }
};

class TaskProfile {
 public:
  TaskProfile(ProfileSpec spec, std::shared_ptr<const BaseEnvironment> base);

  const ProfileSpec& spec() const { return spec_; }
  const BaseEnvironment& base() const { return *base_; }
  /// What runs its commands when they need a shell.
  const std::string& shell() const { return shell_; }
  /// Absolute, when the submit directory is.
  const std::string& directory() const { return directory_; }
  /// The PATH of its tasks.
  const std::string& path() const { return path_; }
  /// Is a command's first word the name of a function that bash exported (`module`)? A shell that knows such
  /// runs it.
  bool StartsWithFunction(std::string_view command) const;
  /// Value of a variable as its tasks see it; empty when absent.
  std::string_view Variable(std::string_view name) const;

 private:
  friend class EnvironmentBuilder;
  struct Override {
    int base_index;  // -1: not in the base
    std::string entry;
  };
  ProfileSpec spec_;
  std::shared_ptr<const BaseEnvironment> base_;
  std::string directory_;
  std::vector<Override> overrides_;
  std::string path_, shell_;
  std::vector<std::string> functions_;
  bool sets_omp_threads_ = false;
  bool sets_tmp_dir_ = false;
};

/// Variables of one task.
struct TaskVariables {
  uint32_t number = 0;  // TaskId + 1: what "#12" shows
  std::string_view name{};
  uint32_t attempt = 1;
  uint32_t cores = 1;
  std::string_view tmp_dir{};       // where the node gives tasks one
  std::string_view cuda_devices{};  // comma-separated
  std::string_view rocr_devices{};
  int pmi_fd = -1;  // where it speaks PMI-1; -1: nowhere
  std::span<const std::pair<std::string_view, std::string_view>> checkpoint{};  // those that are empty are not there
  std::span<const std::string>
      of_rank{};                      // NAME=value each, of an MPI task's rank; its profile's are stronger
  std::span<char* const> assigned{};  // NAME=value each, of its command; stronger than its profile's
};

/// Puts environments together in buffers that are used again. Of one thread.
class EnvironmentBuilder {
 public:
  /// Ends with nullptr; valid until the next call and as long as the profile.
  char* const* Build(const TaskProfile& profile, const TaskVariables& task);

 private:
  void Add(std::string_view name, std::string_view value);
  void Add(std::string_view name, uint64_t value);
  void AddOfRank(const TaskProfile& profile, const TaskVariables& task);

  std::string text_;
  std::vector<size_t> offsets_;
  std::vector<char*> pointers_;
};

}  // namespace harrow::agent
