#pragma once

namespace harrow::plugin {

/// Where the plugin's lines go: Slurm's log (slurmd's, or the user's terminal in srun), in tests a list. An
/// error of slurmstepd is shown to the user as well, a notice is not. One line each, "harrow: " goes before
/// it.
[[gnu::format(printf, 1, 2)]] void LogError(const char* format, ...);
[[gnu::format(printf, 1, 2)]] void LogNotice(const char* format, ...);

}  // namespace harrow::plugin
