#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "os/file_system.h"

namespace harrow::journal {

/// RUN/owner: the one keeper that may write to a run directory. Whether it is stale is decided from what it says
/// (same host and boot: is that process, with that start time, alive; another host: the batch job), never by a lock.
struct Owner {
  std::string host;
  std::string boot_id;
  int64_t pid = 0;
  uint64_t process_start = 0;   // clock ticks since boot, /proc/PID/stat field 22
  std::string job;              // batch job, empty: none
  int64_t taken_ns = 0;         // calendar time
};

Owner ThisProcess(std::string job);
/// kExists with who holds it when the owner is alive or cannot be known to be dead.
Status TakeOwnership(os::FileSystem& fs, const std::string& run_dir, const Owner& me);
Status ReleaseOwnership(os::FileSystem& fs, const std::string& run_dir);

}  // namespace harrow::journal
