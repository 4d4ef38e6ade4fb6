#pragma once

#include <string>

#include "base/status.h"

namespace harrow::os {

/// What a name leads to through symbolic links: text that is equal for two names of one file (its device and inode; of a
/// link to nothing, those of the directory in which a writer would make the file, and its name). kNotFound: there is
/// nothing of that name, not even a link; with `also_missing` that is told like a link to nothing.
Result<std::string> FileIdentity(const std::string& path, bool also_missing);

/// Is it a FIFO, which somebody else would have to open before it could be read? Not the pipe of a shell's
/// <(...).
bool IsFifo(const std::string& path);

}  // namespace harrow::os
