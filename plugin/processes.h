#pragma once

#include <stdint.h>
#include <string_view>
#include <sys/types.h>

namespace harrow::plugin {

/// Looks for two variables in an environment that comes in pieces.
class EnvironmentScan {
 public:
  /// `directory`: the value of HARROW_LOCAL that is looked for; must stay.
  explicit EnvironmentScan(std::string_view directory) : directory_(directory) {}
  void Feed(const char* data, size_t size);
  /// After the last piece; the last call.
  void Finish();
  bool has_directory() const { return has_directory_; }
  uint32_t job_id() const { return job_id_; }  // of SLURM_JOB_ID; 0: there is none

 private:
  void Entry();

  std::string_view directory_;
  char entry_[1024];
  size_t size_ = 0;  // of the entry so far; what is beyond the buffer is counted, not kept
  bool has_directory_ = false;
  uint32_t job_id_ = 0;
};

/// Is `text`, a /proc/PID/cgroup, of a cgroup that Slurm made for job `id`?
bool IsCgroupOfJob(std::string_view text, uint32_t id);

struct JobProcesses {
  uid_t uid;
  uint32_t id, leader;         // the component's job id; SLURM_JOB_ID of its processes
  std::string_view directory;  // HARROW_LOCAL of its processes
  pid_t caller = 0;            // neither it, nor the calling process, nor an ancestor of these is one of them
};

struct Ended {
  unsigned ended = 0;
  pid_t left = 0;  // one that does not end; 0: none
};

/// Ends every process on this node that belongs to the job: the user's, and either announced the job's
/// directory (HARROW_LOCAL, and no other job's SLURM_JOB_ID), or in a cgroup of the job, or descended from
/// such a one.
Ended EndProcesses(const JobProcesses& job);

}  // namespace harrow::plugin
