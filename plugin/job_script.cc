#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "contexts.h"
#include "job_directory.h"
#include "log.h"
#include "policy.h"

// An epilog that hangs keeps its node from all jobs, and one that is ended for that has it drained. Removing
// looks at the clock itself; but a disk or a syslog that does not answer can hold up any call, so the work is
// done by a child, and is waited for no longer than it may take.

namespace harrow::plugin {
namespace {

constexpr unsigned kSecondsBesideRemoving = 15;  // to end processes and write to syslog
constexpr long kLongestPause = 50'000'000;       // nanoseconds

double Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

// Whether the child has ended within the time.
bool WaitFor(pid_t child, unsigned seconds) {
  const double deadline = Now() + seconds;
  timespec pause = {0, 500'000};
  while (waitpid(child, nullptr, WNOHANG) == 0) {
    if (Now() >= deadline) return false;
    nanosleep(&pause, nullptr);
    pause.tv_nsec = pause.tv_nsec < kLongestPause / 2 ? 2 * pause.tv_nsec : kLongestPause;
  }
  return true;
}

}  // namespace

// slurmd runs this when all steps of a job have ended on this node, in a process of its own;
// slurm_spank_init was not called. Of most jobs there is no marker, and that is all that is looked at.
void JobEpilog(spank_t spank, int argc, char** argv) {
  Job job;
  if (spank_get_item(spank, S_JOB_ID, &job.id) != ESPANK_SUCCESS ||
      spank_get_item(spank, S_JOB_UID, &job.uid) != ESPANK_SUCCESS) {
    return;
  }
  const Policy policy = ParsePolicy(argc, argv, nullptr);
  if (!HasJobDirectory(policy.local, job.id)) return;
  const pid_t child = fork();
  if (child <= 0) {
    RemoveJobDirectory(policy.local, job, policy.epilog_time);  // also where there is no process to be had
    if (child < 0) return;
    fflush(nullptr);
    _exit(0);
  }
  if (WaitFor(child, policy.epilog_time + kSecondsBesideRemoving)) return;
  LogError("job %u: clearing up takes longer than %u s; %s/harrow/%u is left for the next job's end", job.id,
           policy.epilog_time + kSecondsBesideRemoving, policy.local, job.id);
  kill(child, SIGKILL);
}

}  // namespace harrow::plugin
