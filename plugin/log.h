#pragma once

namespace harrow::plugin {

/// Where the plugin's lines go: Slurm's log (slurmd's; of srun, sbatch and salloc the user's terminal), in
/// tests a list. A notice is for who reads the log; an error means that something could not be done. One line
/// each, with "harrow: " before it.
[[gnu::format(printf, 1, 2)]] void LogError(const char* format, ...);
[[gnu::format(printf, 1, 2)]] void LogNotice(const char* format, ...);

}  // namespace harrow::plugin
