#include <stdlib.h>

#include "contexts.h"
#include "options.h"

namespace harrow::plugin {

void AllocatorInit(spank_t spank) {
  RegisterOptions(spank);
}

// The shell that salloc starts here is no task of a slurmstepd, so it gets the settings from this process.
void AllocatorPostOptions(spank_t spank, int argc, char** argv) {
  if (!CurrentRequest().used) return;
  ExportSettings(spank, ParsePolicy(argc, argv, nullptr), CurrentRequest(),
                 [](spank_t, const char* name, const char* value) { setenv(name, value, true); });
}

}  // namespace harrow::plugin
