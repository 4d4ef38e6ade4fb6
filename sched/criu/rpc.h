#pragma once

#include <functional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "base/status.h"

namespace harrow::criu {

/// A CRIU program (version 4 or later), spoken with by its protocol of remote calls (rpc.cc).
struct Tool {
  std::string program;        // a path, or a name to be found in PATH
  bool unprivileged = false;  // it is to do with the rights over the caller's user namespace
  int limit_ms = 60'000;     // it is killed when it has not answered for so long
};

/// A descriptor of a process that leads out of what is dumped, such as a pipe to the agent: by what CRIU calls it, and of a restored one
/// the caller's descriptor that it becomes.
struct Outside {
  std::string key;
  int fd = -1;
};

/// "4.1.1". kUnavailable: it cannot be started, or does not answer as CRIU does.
Result<std::string> VersionOf(const Tool& tool);

/// Directories of an image: its files, and what CRIU writes besides (its log).
struct ImagePlace {
  std::string images, work;
};

/// Dumps the tree of processes below `pid`, which must lead a session, and ends them. `stands` is called when the image
/// is complete and they stand still; its error keeps them alive, as any error does. kUnavailable, with CRIU's reason.
Status Dump(const Tool& tool, pid_t pid, const ImagePlace& place, const std::vector<Outside>& outside,
            const std::function<Status()>& stands);

/// An image becomes processes again, under their numbers; the first of them is a child of the caller's. kUnavailable,
/// with CRIU's reason.
Result<pid_t> Restore(const Tool& tool, const ImagePlace& place, const std::vector<Outside>& outside);

/// What a log of CRIU's says was wrong, without what it says each time; of no use to a program.
std::string ReasonIn(std::string_view log);

}  // namespace harrow::criu
