#pragma once

#include <slurm/spank.h>

#include "policy.h"

namespace harrow::plugin {

/// What the user asked for on the command line of srun, sbatch or salloc; in slurmstepd the same, as Slurm
/// carried it there.
struct Request {
  bool used = false;
  char order[sizeof Policy::order] = "";
  char files[sizeof Policy::files] = "";
};
const Request& CurrentRequest();

/// For slurm_spank_init of every context with options.
void RegisterOptions(spank_t spank);

/// Tells the launcher what the site and the user say: HARROW_SITE_* and HARROW_ORDER, HARROW_FILES.
using SetVariable = void (*)(spank_t spank, const char* name, const char* value);
void ExportSettings(spank_t spank, const Policy& policy, const Request& request, SetVariable set);

}  // namespace harrow::plugin
