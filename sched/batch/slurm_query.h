#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "batch/slurm_environment.h"

namespace harrow::batch {

/// What a command that ended has printed, and its exit status (128 + the signal that ended it).
struct CommandEnd {
  int status = 0;
  std::string out = {}, err = {};
};
/// Runs a command with that as its stdin; its output, at most 64 MiB each. kUnavailable: it could not be started, or did not
/// end within `limit` (then it is killed).
Result<CommandEnd> RunToEnd(const std::vector<std::string>& command, Duration limit, std::string_view input = {});
/// Runs a command with its stdin closed; its standard output, at most 64 MiB. kUnavailable: it could not be
/// started, did not end within `limit` (then it is killed), or failed; the message ends with the last line of
/// its standard error.
Result<std::string> RunCommand(const std::vector<std::string>& command, Duration limit);

/// What harrow-slurm-query printed (sched/batch/slurm/query.cc tells the format). kNotFound: no such job, or
/// over.
Result<SlurmAllocation> ParseQuery(std::string_view text);
/// The end told by the time left as `squeue -o %L` prints it ("1-02:03:04", "UNLIMITED").
std::optional<WallTime> ParseTimeLeft(std::string_view left, WallTime now);

}  // namespace harrow::batch
