#pragma once

#include <stdint.h>
#include <sys/types.h>

namespace harrow::plugin {

/// What lies beside a job's directory (marker_format.md).
struct Marker {
  char boot[80] = "";  // empty: the marker was cut short
  char node[72] = "";
  uid_t uid = 0;
  uint32_t leader = 0;  // SLURM_JOB_ID of the job's processes
};

/// False where there is no marker of slurmd's user in the open directory `base`.
bool ReadMarker(int base, uint32_t id, Marker* marker);

/// Writes one of this boot and node. False with errno; EEXIST: there is one.
bool WriteMarker(int base, uint32_t id, uid_t uid, uint32_t leader);

/// False with errno.
bool RemoveMarker(int base, uint32_t id);

/// Was it written by this node before it was started last?
bool IsStale(const Marker& marker);

/// The id of "ID.job"; 0: it is something else.
uint32_t IdOfMarker(const char* name);

}  // namespace harrow::plugin
