#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "contexts.h"
#include "errand.h"
#include "job_directory.h"
#include "log.h"
#include "note.h"
#include "options.h"

namespace harrow::plugin {
namespace {

constexpr char kVariable[] = "HARROW_LOCAL";
constexpr unsigned kSecondsOfStep = 20;    // that a step waits for the disk
constexpr unsigned kSecondsToRemove = 15;  // of these, what the same job left before it was started again

void Set(spank_t spank, const char* name, const char* value) {
  if (spank_err_t error = spank_setenv(spank, name, value, true); error != ESPANK_SUCCESS) {
    LogNotice("%s is not set: %s", name, spank_strerror(error));
  }
}

// As `mkdir -p -m 700`, with nobody's rights but the user's.
bool MakeForUser(char* path) {
  for (char* slash = path; slash != nullptr;) {
    slash = strchr(slash + 1, '/');
    if (slash != nullptr) *slash = '\0';
    const bool there = mkdir(path, 0700) == 0 || errno == EEXIST;
    if (slash != nullptr) *slash = '/';
    if (!there) return false;
  }
  return true;
}

Made Make(const Places& places, const Job& job) {
  if (const Note note = NoteOfJob(places, job.id); note == Note::kMute || note == Note::kNothing) {
    LogError("no job directory: %s did not answer when the job began", places.local);
    return Made::kNot;
  }
  const Errand errand = RunErrand(
      kSecondsOfStep, [&] { return static_cast<int>(MakeJobDirectory(places, job, kSecondsToRemove)); });
  if (errand.end == Errand::kDone) return static_cast<Made>(errand.value);
  LogError("no job directory: %s/harrow/%u is not made, %u s at most: %s", places.local, job.id,
           kSecondsOfStep, WhyNot(errand));
  if (errand.end == Errand::kLate) MuteJob(places, job.id);
  return Made::kNot;
}

}  // namespace

void RemoteInit(spank_t spank) {
  RegisterOptions(spank);
}

void RemotePostOptions(spank_t spank, int argc, char** argv) {
  char announced[kPathSize];
  if (!CurrentRequest().used) {
    // What another job's script announced to the sbatch or srun that it called: that directory is not this
    // job's, and its processes must not be taken for that job's.
    if (spank_getenv(spank, kVariable, announced, sizeof announced) != ESPANK_ENV_NOEXIST) {
      spank_unsetenv(spank, kVariable);
    }
    return;
  }
  const Policy policy = ParsePolicy(argc, argv, nullptr);
  spank_unsetenv(spank, kVariable);
  ExportSettings(spank, policy, CurrentRequest(), Set);
  Job job;
  char path[kPathSize], leader[32];
  if (spank_get_item(spank, S_JOB_ID, &job.id) != ESPANK_SUCCESS ||
      spank_get_item(spank, S_JOB_UID, &job.uid) != ESPANK_SUCCESS ||
      spank_get_item(spank, S_JOB_GID, &job.gid) != ESPANK_SUCCESS ||
      !JobDirectoryPath(policy.local, job.id, path)) {
    LogError("no job directory: Slurm does not tell the job's id and user");
    return;
  }
  if (spank_getenv(spank, "SLURM_JOB_ID", leader, sizeof leader) == ESPANK_SUCCESS) {
    job.leader = static_cast<uint32_t>(strtoul(leader, nullptr, 10));
  }
  const Made made = Make(PlacesOf(policy), job);
  if (made != Made::kNot) Set(spank, kVariable, path);
  // Once a job and node, as the arguments may have changed since slurmd started.
  if (made == Made::kNow) {
    ParsePolicy(argc, argv, [](const char* argument, const char* expected) {
      LogNotice("plugstack argument '%.100s' has no effect; it should be %s", argument, expected);
    });
  }
}

// A job container may have mounted something of its own over LOCAL (job_container/tmpfs with /tmp): then the
// directory is made again in there, and vanishes with the container.
void RemoteTaskInit(spank_t spank) {
  char path[kPathSize];
  if (!CurrentRequest().used || spank_getenv(spank, kVariable, path, sizeof path) != ESPANK_SUCCESS) return;
  const Errand errand = RunErrand(kSecondsOfStep, [&] {
    return access(path, W_OK | X_OK) == 0 || (errno == ENOENT && MakeForUser(path)) ? 0 : errno;
  });
  // Who may start no more processes is not kept from what his job has.
  if ((errand.end == Errand::kDone && errand.value == 0) || errand.end == Errand::kFailed) return;
  LogError("the job directory %s is not to be used here: %s", path,
           errand.end == Errand::kDone ? strerror(errand.value) : WhyNot(errand));
  spank_unsetenv(spank, kVariable);
}

}  // namespace harrow::plugin
