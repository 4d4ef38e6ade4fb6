#include "job_directory.h"

#include <algorithm>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "account.h"
#include "clock.h"
#include "fd.h"
#include "job_file.h"
#include "log.h"
#include "marker.h"
#include "note.h"
#include "processes.h"
#include "remove_tree.h"

// The marker is made before the directory and removed after it: there is no directory of ours without one.
// All of it happens under the lock of the job's note, so a removal by the job's end, one by whoever comes by
// later (the end of another job, slurmd when it starts) and the same job's next start on this node never
// meet. When a job is over its note says so before anything else is done: should its end be cut short, others
// go on.

namespace harrow::plugin {
namespace {

constexpr long kLockPatience = 5000;  // milliseconds

JobFile DirectoryName(uint32_t id) {
  return JobFile(id);
}

unsigned SecondsUntil(long deadline) {
  return static_cast<unsigned>((std::max(deadline - Milliseconds(), 0L) + 999) / 1000);
}

// Of a job whose note is locked: directory, marker, note.
bool RemoveAll(int base, int notes, const char* local, uint32_t id, unsigned seconds) {
  const Removal removal = RemoveTree(base, DirectoryName(id).text, seconds);
  if (!removal.complete) {
    LogError("%s/harrow/%u is not wholly removed: %s; the next job's end, or slurmd's start, tries again",
             local, id, strerror(removal.error));
    return false;
  }
  if (!RemoveMarker(base, id)) {
    LogError("%s/harrow/%u.job: %s", local, id, strerror(errno));
    return false;
  }
  RemoveNote(notes, id);
  return true;
}

void SweepOne(int base, int notes, const char* local, uint32_t id, long deadline) {
  Marker marker;
  if (!ReadMarker(base, id, &marker)) return;
  const bool stale = IsStale(marker);
  if (!stale && PeekNote(notes, id) != Note::kOver) return;
  Fd note(LockNote(notes, id, stale, 0));
  if (note.none()) return;  // somebody is at it
  // Meanwhile somebody else may have removed it, and the job have started again.
  const bool over = ReadNote(note) == Note::kOver;
  if (!ReadMarker(base, id, &marker) || !(over || IsStale(marker))) {
    if (ReadNote(note) == Note::kNone) RemoveNote(notes, id);
    return;
  }
  WriteNote(note, Note::kOver);
  if (RemoveAll(base, notes, local, id, SecondsUntil(deadline))) {
    LogNotice("removed %s/harrow/%u: %s", local, id,
              over ? "its job's end could not" : "its job ran when the node went down");
  }
}

void Sweep(int base, int notes, const char* local, long deadline) {
  Listing entries(base);
  while (const dirent* entry = entries.Next()) {
    if (SecondsUntil(deadline) == 0) break;
    const uint32_t id = IdOfMarker(entry->d_name);
    if (id != 0) SweepOne(base, notes, local, id, deadline);
  }
}

// With the marker of the job there, or made now. False with errno.
bool MakeDirectory(int base, const Job& job, bool marked_before) {
  const JobFile name = DirectoryName(job.id);
  const bool made = mkdirat(base, name.text, 0700) == 0;
  // What nobody had marked is not ours, and would be removed with the job.
  if (!made && (errno != EEXIST || !marked_before)) return false;
  Fd fd(OpenOnThisMount(base, name.text, O_DIRECTORY));
  struct stat info;
  if (fd.none() || fstat(fd, &info) != 0) return false;
  if (!made && info.st_uid == job.uid) return true;
  if (info.st_uid != geteuid()) {
    errno = EPERM;
    return false;
  }
  // An ordinary user's slurmd gives nothing away: EPERM.
  return fchmod(fd, 0700) == 0 && fchown(fd, job.uid, job.gid) == 0;
}

Made MakeMarked(int base, int notes, int note, const char* local, const Job& job, unsigned seconds) {
  Marker marker;
  bool marked = ReadMarker(base, job.id, &marker);
  if (marked && (ReadNote(note) == Note::kOver || IsStale(marker))) {
    // This job ran here before, and was started again.
    const Removal removal = RemoveTree(base, DirectoryName(job.id).text, seconds);
    if (!removal.complete) {
      LogError(
          "no job directory: what the job's earlier start left in %s/harrow/%u is not wholly removed: %s",
          local, job.id, strerror(removal.error));
      return Made::kNot;
    }
    marked = false;
    if (!RemoveMarker(base, job.id)) {
      LogError("no job directory: %s/harrow/%u.job: %s", local, job.id, strerror(errno));
      return Made::kNot;
    }
  }
  if (!WriteNote(note, Note::kJob)) {
    LogError("no job directory: the job's note: %s", strerror(errno));
    RemoveNote(notes, job.id);
    return Made::kNot;
  }
  if (!marked && !WriteMarker(base, job.id, job.uid, job.leader != 0 ? job.leader : job.id)) {
    LogError("no job directory: %s/harrow/%u.job: %s", local, job.id, strerror(errno));
    return Made::kNot;
  }
  if (!MakeDirectory(base, job, marked)) {
    LogError("no job directory: %s/harrow/%u: %s", local, job.id, strerror(errno));
    if (!marked) RemoveMarker(base, job.id);
    return Made::kNot;
  }
  return marked ? Made::kBefore : Made::kNow;
}

}  // namespace

bool JobDirectoryPath(const char* local, uint32_t id, char (&path)[kPathSize]) {
  return static_cast<size_t>(snprintf(path, sizeof path, "%s/harrow/%u", local, id)) < sizeof path;
}

Made MakeJobDirectory(const Places& places, const Job& job, unsigned seconds) {
  Fd base(OpenBase(places.local, true, "no job directory"));
  if (base.none()) return Made::kNot;
  Fd notes(OpenNotes(places, base));
  if (notes.none()) {
    LogError("no job directory: %s: %s", places.state, strerror(errno));
    return Made::kNot;
  }
  Fd note(LockNote(notes, job.id, true, kLockPatience));
  if (note.none()) {
    LogError("no job directory: %s",
             errno == EAGAIN ? "what the job's earlier start left is still being removed" : strerror(errno));
    return Made::kNot;
  }
  return MakeMarked(base, notes, note, places.local, job, seconds);
}

void RemoveJobDirectory(const Places& places, const Job& job, unsigned seconds, pid_t caller) {
  const long deadline = Milliseconds() + static_cast<long>(seconds) * 1000;
  Fd base(OpenBase(places.local, false, "nothing is removed"));
  if (base.none()) return;
  Fd notes(OpenNotes(places, base));
  Fd note(notes.none() ? kNoFd : LockNote(notes, job.id, false, kLockPatience));
  if (note.none()) {
    if (errno == ENOENT) return;
    // Held by what hangs in the disk: by a start of the job that was given up, or by a sweep.
    LogError("job %u: nothing is removed: its note: %s", job.id, strerror(errno));
    return ChangeNote(notes, job.id, Note::kOver);
  }
  WriteNote(note, Note::kOver);
  Marker marker;
  if (!ReadMarker(base, job.id, &marker)) return RemoveNote(notes, job.id);
  char path[kPathSize] = "";
  JobDirectoryPath(places.local, job.id, path);
  const Ended ended = EndProcesses(
      {.uid = job.uid, .id = job.id, .leader = marker.leader, .directory = path, .caller = caller});
  if (ended.left != 0) LogError("job %u: process %d does not end", job.id, ended.left);
  if (ended.ended > 0) LogNotice("job %u: ended %u process%s it had left", job.id, ended.ended, ended.ended == 1 ? "" : "es");
  {
    DetachMounts(base, DirectoryName(job.id).text);
    Fd directory(OpenOnThisMount(base, DirectoryName(job.id).text, O_DIRECTORY));
    const char* user = getenv("SLURM_JOB_USER");
    if (!directory.none()) LogRuns(directory, job.id, job.uid, user != nullptr ? user : "?");
  }
  if (RemoveAll(base, notes, places.local, job.id, SecondsUntil(deadline)))
    Sweep(base, notes, places.local, deadline);
}

void PrepareNode(const Places& places, unsigned seconds) {
  const long deadline = Milliseconds() + static_cast<long>(seconds) * 1000;
  Fd base(OpenBase(places.local, true, "jobs get no directory"));
  if (base.none()) return;
  Fd notes(OpenNotes(places, base));
  if (notes.none()) {
    LogError("jobs get no directory: %s: %s", places.state, strerror(errno));
    return;
  }
  Sweep(base, notes, places.local, deadline);
}

}  // namespace harrow::plugin
