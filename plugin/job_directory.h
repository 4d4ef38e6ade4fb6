#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base_directory.h"

namespace harrow::plugin {

/// A job on this node.
struct Job {
  uint32_t id = 0;      // of this component
  uint32_t leader = 0;  // SLURM_JOB_ID of its processes: the first component's id; 0: unknown
  uid_t uid = 0;
  gid_t gid = 0;
};

constexpr size_t kPathSize = 640;

/// LOCAL/harrow/ID.
bool JobDirectoryPath(const char* local, uint32_t id, char (&path)[kPathSize]);

// All of the following touch the site's disk, which may not answer: only errands (errand.h) call them.

enum class Made { kNow, kBefore, kNot };
/// Makes the private directory of a job (0700, the user's) with its marker, unless another step has. kNot:
/// there is none, and one line was logged. Runs with the rights of slurmd's user. To remove what an earlier
/// start of this job left may take `seconds`.
Made MakeJobDirectory(const Places& places, const Job& job, unsigned seconds);

/// At the job's end: ends its processes (but not `caller`, nor its ancestors), accounts for its runs, removes
/// its directory and its marker, then what earlier jobs have left. Without a marker nothing. Removing takes
/// `seconds` at most; what could not be done is one logged line and left for the next job's end or
/// PrepareNode.
void RemoveJobDirectory(const Places& places, const Job& job, unsigned seconds, pid_t caller);

/// When slurmd starts: makes LOCAL/harrow, so that nobody else can; removes directories whose node was
/// switched off before their job's end, and those of jobs whose end could not remove them. Takes `seconds` at
/// most.
void PrepareNode(const Places& places, unsigned seconds);

}  // namespace harrow::plugin
