#pragma once

#include <optional>
#include <string>

namespace harrow::launcher {

/// `srun --ntasks-per-node=1 --mpi=pmix harrow run FILE`: each rank of the step is a `harrow run`. Rank 0
/// keeps, the others become agents as soon as it has made a run directory.

/// In a rank other than 0 of such a step: becomes an agent, or returns the exit status when there is no run.
/// In rank 0, and in any other process: none, and the step's PMI variables are taken out of the environment,
/// which tasks inherit.
std::optional<int> BecomeAgentOfStep();
/// Rank 0: tells the others the run directory, or with an empty one that there will be no run. Nothing
/// elsewhere and from the second call on. False when they could not be told.
bool TellStep(const std::string& run_dir);

}  // namespace harrow::launcher
