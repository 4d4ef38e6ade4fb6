#include <slurm/spank.h>

#include "log.h"

namespace harrow::plugin {

void WriteLog(bool error, const char* line) {
  if (error) {
    slurm_error("harrow: %s", line);
  } else {
    slurm_info("harrow: %s", line);
  }
}

}  // namespace harrow::plugin
