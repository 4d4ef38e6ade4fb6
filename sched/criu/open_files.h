#pragma once

#include <string>
#include <sys/types.h>
#include <vector>

#include "base/status.h"
#include "criu/rpc.h"
#include "criu/rpc.pb.h"

namespace harrow::criu {

/// What descriptors 0, 1 and 2 of this process are called by CRIU where they lead out of the task: a pipe, a file or a device that the
/// agent opened. One entry each; an empty key: it is closed.
std::vector<Outside> StandardDescriptors();

/// The regular files that a process has open, or mapped, for writing are added, each once. What `standard` names is left out.
void AddOpenFiles(pid_t pid, const std::vector<Outside>& standard, pb::Held* held);

/// Makes these files as long as they were when the image was made: what was written since then, by an attempt that ended without a
/// checkpoint, is written again. Those that are only appended to may hold lines of others: these stay, and a descriptor is opened for
/// CRIU and added to `outside` (the caller closes it). kNotFound: one is gone, or is shorter.
Status PutBack(const pb::Held& held, std::vector<Outside>* outside);

/// Beside the image in its directory.
Status WriteHeld(const std::string& directory, const pb::Held& held);
/// kDamaged: it is none, or of another release.
Result<pb::Held> ReadHeld(const std::string& directory);

}  // namespace harrow::criu
