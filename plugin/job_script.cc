#include "contexts.h"
#include "job_directory.h"
#include "log.h"
#include "policy.h"

namespace harrow::plugin {

// slurmd runs this when all steps of a job have ended on this node; slurm_spank_init was not called. Of most
// jobs there is no marker, and that is all that is looked at.
void JobEpilog(spank_t spank, int argc, char** argv) {
  Job job;
  if (spank_get_item(spank, S_JOB_ID, &job.id) != ESPANK_SUCCESS ||
      spank_get_item(spank, S_JOB_UID, &job.uid) != ESPANK_SUCCESS) {
    return;
  }
  RemoveJobDirectory(ParsePolicy(argc, argv, nullptr).local, job);
}

}  // namespace harrow::plugin
