#include <unistd.h>

#include "contexts.h"
#include "errand.h"
#include "job_directory.h"
#include "log.h"
#include "note.h"
#include "policy.h"

namespace harrow::plugin {
namespace {

constexpr unsigned kSecondsBesideRemoving = 15;  // to end processes and write to syslog

}  // namespace

// slurmd runs this when all steps of a job have ended on this node, in a process of its own;
// slurm_spank_init was not called. Of most jobs there is no note, and that is all that is looked at.
void JobEpilog(spank_t spank, int argc, char** argv) {
  Job job;
  if (spank_get_item(spank, S_JOB_ID, &job.id) != ESPANK_SUCCESS ||
      spank_get_item(spank, S_JOB_UID, &job.uid) != ESPANK_SUCCESS) {
    return;
  }
  const Policy policy = ParsePolicy(argc, argv, nullptr);
  const Places places = PlacesOf(policy);
  const Note note = NoteOfJob(places, job.id);
  if (note == Note::kNone) return;
  if (note == Note::kNothing) return ForgetJob(places, job.id);
  const unsigned seconds = policy.epilog_time + kSecondsBesideRemoving;
  const pid_t caller = getpid();
  const Errand errand = RunErrand(seconds, [&] {
    RemoveJobDirectory(places, job, policy.epilog_time, caller);
    return 0;
  });
  if (errand.end == Errand::kDone) return;
  ChangeNoteOfJob(places, job.id, Note::kOver);
  LogError("job %u: clearing up, %u s at most: %s; %s/harrow/%u is left for the next job's end", job.id,
           seconds, WhyNot(errand), policy.local, job.id);
}

}  // namespace harrow::plugin
