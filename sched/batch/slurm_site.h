#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "batch/slurm_environment.h"
#include "os/file_system.h"

namespace harrow::batch {

/// What the site's plugin told this process (harrow-plugin(8)); the environment of a job without it gives all
/// defaults. HARROW_SITE_ORDER and HARROW_SITE_FILES are settings (config/run_options.h).
struct SitePolicy {
  std::string local;         // the job's private directory on this node; empty: none
  uint64_t local_limit = 0;  // bytes that stores may hold there; 0: no limit
  uint16_t port_first = 0;   // where to listen; 0: anywhere
  uint16_t port_last = 0;
  uint32_t tasks_per_node = 0;               // at a time; 0: no limit
  std::vector<std::string> move_partitions;  // between which tasks may move; empty: any
};
/// HARROW_LOCAL and HARROW_SITE_* of this process' own environment: HARROW_LOCAL differs between the
/// components of a heterogeneous job, so an agent must not take it from the environment of `harrow run`.
/// Nonsense counts as absent.
SitePolicy ReadSitePolicy(const Environment& environment);

/// The partitions between which the site lets a run's tasks move, by the line of its plugin in plugstack.conf, which login nodes have,
/// too (`include` is followed); empty: any, or there is no such line. `read`: a file's text, and `match`: the files of a pattern.
std::vector<std::string> MovePartitions(const std::string& plugstack, const std::function<Result<std::string>(const std::string&)>& read,
                                        const std::function<std::vector<std::string>(const std::string&)>& match);
/// The same of this machine: asks Slurm where that file lies.
std::vector<std::string> MovePartitionsHere();

/// A run as the site accounts for it.
struct RunUse {
  std::string run_id;         // letters, digits, ._-: part of a file's name
  std::string name;           // of the run; cut to 64 bytes
  uint64_t tasks = 0;         // that ended
  uint64_t core_seconds = 0;  // cores x seconds of its tasks so far
};
/// Leaves an account in `local` (SitePolicy::local; empty: does nothing), in place of the run's last one. For
/// the server: at its start, now and then, at its end. The plugin writes it to syslog when the job ends
/// (plugin/run_account_format.md).
Status LeaveRunAccount(os::FileSystem& fs, const std::string& local, const RunUse& use);

}  // namespace harrow::batch
