#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "os/file_system.h"

namespace harrow::run_dir {

/// PART/owner: the one keeper that may write to a part of a run. Whether it is stale is decided from what it says
/// (same host and boot: is that process, with that start time, alive; another host: the batch job), never by a lock.
struct Owner {
  std::string host;
  std::string boot_id;
  int64_t pid = 0;
  uint64_t process_start = 0;   // clock ticks since boot, /proc/PID/stat field 22
  uint64_t pid_namespace = 0;   // inode of /proc/PID/ns/pid: in another one the pid means nothing
  std::string job;              // batch job, empty: none
  int64_t taken_ns = 0;         // calendar time
};

Owner ThisProcess(std::string job);
/// What an owner file says; kDamaged.
Result<Owner> ParseOwner(std::string_view text);

/// Whether a batch job still runs, as far as that can be known.
using JobAlive = std::function<std::optional<bool>(const std::string& job)>;

/// kExists with who holds it when the owner is alive or cannot be known to be dead (`job_alive` may know of owners on
/// other hosts). Of several who take over from a dead owner at once, one succeeds.
Status TakeOwnership(os::FileSystem& fs, const std::string& run_dir, const Owner& me, const JobAlive& job_alive = {});
/// Of who owns a part, as TakeOwnership judges it.
enum class OwnerIs {
  kNobody,  // nobody owns it
  kThere,   // it is alive, or cannot be known to be dead
  kGone,    // its process is gone; what that had on other nodes may not know it yet
  kOver,    // and so is its batch job
};
OwnerIs LookAtOwner(os::FileSystem& fs, const std::string& run_dir, const Owner& me, const JobAlive& job_alive = {});
/// What PART/owner says; kNotFound: nobody owns the run.
Result<Owner> ReadOwner(os::FileSystem& fs, const std::string& run_dir);
/// Nothing when this process is not the owner.
Status ReleaseOwnership(os::FileSystem& fs, const std::string& run_dir);

}  // namespace harrow::run_dir
