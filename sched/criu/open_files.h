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
/// Of these files one below that directory (of which there is another on each node), or another thing that the process has there; empty: none.
std::string OpenBelow(pid_t pid, const pb::Held& held, const std::string& directory);

/// The files that were open for writing are what they were, but may have grown since: their sizes are taken out of the image, as CRIU takes
/// no file whose size has changed. Nothing is done to a file: what is beyond its former end may be others'. kNotFound: one is gone, shorter, or
/// another one by now.
Status TakeAsTheyAre(const pb::Held& held, const std::string& images);

/// Beside the image in its directory.
Status WriteHeld(const std::string& directory, const pb::Held& held);
/// Whether there is one, so that the image is whole.
bool HasHeld(const std::string& directory);
/// kDamaged: it is none, or of another release.
Result<pb::Held> ReadHeld(const std::string& directory);

}  // namespace harrow::criu
