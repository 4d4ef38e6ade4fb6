#pragma once

namespace harrow::plugin {

/// Lines for the site's log. A notice is for who reads the log; an error means that something could not be
/// done. One line each; control characters become '?'.
[[gnu::format(printf, 1, 2)]] void LogError(const char* format, ...);
[[gnu::format(printf, 1, 2)]] void LogNotice(const char* format, ...);

/// Where they end: spank_log.cc hands them to Slurm's log (slurmd's; of srun, sbatch and salloc the user's
/// terminal) with "harrow: " before them, tests keep them in a list.
void WriteLog(bool error, const char* line);

/// From now on this process sends its lines to its parent (errand.cc).
void SendLogTo(int fd);

}  // namespace harrow::plugin
