#include "job_directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <string_view>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "account.h"
#include "log.h"
#include "processes.h"
#include "remove_tree.h"

// LOCAL may be open to everybody, as /tmp is, so trust begins one step below: LOCAL/harrow must be a
// directory, no link, of slurmd's user, writable by nobody else. Inside it no user can rename or replace
// anything, so ID and ID.job mean what they say. The marker is made before the directory and removed after
// it: there is no directory without one. When a job is over its marker becomes ID.over: from then on whoever
// comes by (the epilog of another job, slurmd when it starts) may go on with removing, which is safe to be
// done by several at once. Should the job start again on this node before that is complete, it waits for the
// lock of LOCAL/harrow, which whoever removes for others holds.

namespace harrow::plugin {
namespace {

constexpr unsigned kSecondsAtStart = 30;  // a job waits

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }
  operator int() const { return fd_; }

 private:
  int fd_;
};

struct Name {
  char text[32];
};
Name DirectoryName(uint32_t id) {
  Name name;
  snprintf(name.text, sizeof name.text, "%u", id);
  return name;
}
Name MarkerName(uint32_t id) {
  Name name;
  snprintf(name.text, sizeof name.text, "%u.job", id);
  return name;
}

// LOCAL/harrow, or -1 with errno; EPERM: it is not safe.
int OpenBase(const char* local, bool make) {
  Fd parent(open(local, O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (parent < 0) return -1;
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  int base = openat(parent, "harrow", kFlags);
  if (base < 0 && errno == ENOENT && make) {
    if (mkdirat(parent, "harrow", 0755) != 0 && errno != EEXIST) return -1;
    base = openat(parent, "harrow", kFlags);
  }
  if (base < 0) {
    if (errno == ELOOP || errno == ENOTDIR) errno = EPERM;
    return -1;
  }
  struct stat info;
  if (fstat(base, &info) != 0 || info.st_uid != geteuid() || (info.st_mode & 022) != 0) {
    close(base);
    errno = EPERM;
    return -1;
  }
  if ((info.st_mode & 0777) != 0755) fchmod(base, 0755);  // the umask of whoever came first
  return base;
}

void LogBase(const char* local, const char* what) {
  if (errno == EPERM) {
    LogError("%s: %s/harrow is not a directory that only slurmd's user (uid %u) may write to; remove it",
             what, local, geteuid());
  } else {
    LogError("%s: %s/harrow: %s", what, local, strerror(errno));
  }
}

// Equal for all of a boot of this node; of a pretend node that is a PID namespace, too.
void BootId(char (&out)[80]) {
  char text[1024] = "";
  Fd id(open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  ssize_t n = id < 0 ? 0 : read(id, out, 40);
  n = n > 36 ? 36 : n < 0 ? 0 : n;
  out[n] = '\0';
  Fd init(open("/proc/1/stat", O_RDONLY | O_CLOEXEC));
  ssize_t size = init < 0 ? 0 : read(init, text, sizeof text - 1);
  text[size < 0 ? 0 : size] = '\0';
  const char* at = strrchr(text, ')');
  char started[32] = "0";
  if (at != nullptr) {
    sscanf(at + 1, " %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %31s",
           started);
  }
  snprintf(out + n, sizeof out - static_cast<size_t>(n), ".%s", started);
}

Name OverName(uint32_t id) {
  Name name;
  snprintf(name.text, sizeof name.text, "%u.over", id);
  return name;
}

time_t Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec;
}

struct Marker {
  char boot[80] = "";
  unsigned leader = 0;
};

// False when there is no marker of slurmd's user.
bool ReadMarker(int base, const Name& name, Marker* marker) {
  Fd fd(openat(base, name.text, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info;
  if (fd < 0 || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid()) return false;
  char text[256];
  ssize_t n = read(fd, text, sizeof text - 1);
  text[n < 0 ? 0 : n] = '\0';
  unsigned uid = 0, leader = 0;
  if (sscanf(text, "harrow-job 1 boot %79s uid %u leader %u", marker->boot, &uid, &leader) == 3 &&
      strchr(text, '\0')[-1] == '\n') {
    marker->leader = leader;
  } else {
    marker->boot[0] = '\0';
  }
  return true;
}

bool IsStale(const Marker& marker) {
  char boot[80];
  BootId(boot);
  return marker.boot[0] != '\0' && strcmp(marker.boot, boot) != 0;
}

// False with errno. EEXIST: there is one.
bool WriteMarker(int base, const Job& job) {
  const Name name = MarkerName(job.id);
  Fd fd(openat(base, name.text, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (fd < 0) return false;
  char boot[80], text[200];
  BootId(boot);
  int size = snprintf(text, sizeof text, "harrow-job 1\nboot %s\nuid %u\nleader %u\n", boot, job.uid,
                      job.leader != 0 ? job.leader : job.id);
  ssize_t written = write(fd, text, static_cast<size_t>(size));
  if (written == size) return true;
  const int error = written < 0 ? errno : ENOSPC;
  unlinkat(base, name.text, 0);
  errno = error;
  return false;
}

bool RemoveDirectoryAndMarker(int base, uint32_t id, const char* local, unsigned seconds) {
  if (renameat(base, MarkerName(id).text, base, OverName(id).text) != 0 && errno != ENOENT) {
    LogError("%s/harrow/%u.job: %s", local, id, strerror(errno));
    return false;
  }
  Removal removal = RemoveTree(base, DirectoryName(id).text, seconds);
  if (!removal.complete) {
    LogError("%s/harrow/%u is not wholly removed: %s; the next job's end, or slurmd's start, tries again",
             local, id, strerror(removal.error));
    return false;
  }
  if (unlinkat(base, OverName(id).text, 0) != 0 && errno != ENOENT) {
    LogError("%s/harrow/%u.over: %s", local, id, strerror(errno));
    return false;
  }
  return true;
}

// The id of "ID.job" (false) or "ID.over" (true); 0: it is neither.
uint32_t IdOfMarker(const char* name, bool* over) {
  if (name[0] < '1' || name[0] > '9') return 0;
  char* end = nullptr;
  unsigned long id = strtoul(name, &end, 10);
  *over = strcmp(end, ".over") == 0;
  return id <= UINT_MAX && (*over || strcmp(end, ".job") == 0) ? static_cast<uint32_t>(id) : 0;
}

void Sweep(int base, const char* local, time_t deadline) {
  int listing = openat(base, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (listing < 0) return;
  DIR* entries = flock(base, LOCK_EX | LOCK_NB) == 0 ? fdopendir(listing) : nullptr;
  if (entries == nullptr) {
    close(listing);
    return;  // somebody is at it
  }
  while (const dirent* entry = readdir(entries)) {
    const time_t left = deadline - Now();
    if (left <= 0) break;
    bool over = false;
    const uint32_t id = IdOfMarker(entry->d_name, &over);
    Marker marker;
    if (id == 0 || !ReadMarker(base, over ? OverName(id) : MarkerName(id), &marker)) continue;
    if (over ? faccessat(base, MarkerName(id).text, F_OK, 0) == 0 : !IsStale(marker)) continue;
    if (RemoveDirectoryAndMarker(base, id, local, static_cast<unsigned>(left))) {
      LogNotice("removed %s/harrow/%u: %s", local, id,
                over ? "its job's end could not" : "its job ran when the node went down");
    }
  }
  closedir(entries);
  flock(base, LOCK_UN);
}

// False with errno.
bool MakeDirectory(int base, const Job& job) {
  const Name name = DirectoryName(job.id);
  bool made = mkdirat(base, name.text, 0700) == 0;
  if (!made && errno != EEXIST) return false;
  Fd fd(OpenOnThisMount(base, name.text, O_RDONLY | O_DIRECTORY));
  struct stat info;
  if (fd < 0 || fstat(fd, &info) != 0) return false;
  if (info.st_uid == job.uid && (!made || info.st_gid == job.gid)) return !made || fchmod(fd, 0700) == 0;
  if (info.st_uid != geteuid()) {
    errno = EPERM;
    return false;
  }
  // Another step may be as far as we are; both do the same. An ordinary user gives nothing away: EPERM.
  return fchmod(fd, 0700) == 0 && fchown(fd, job.uid, job.gid) == 0;
}

}  // namespace

bool JobDirectoryPath(const char* local, uint32_t id, char (&path)[kPathSize]) {
  int n = snprintf(path, sizeof path, "%s/harrow/%u", local, id);
  return n > 0 && static_cast<size_t>(n) < sizeof path;
}

Made MakeJobDirectory(const char* local, const Job& job) {
  Fd base(OpenBase(local, true));
  if (base < 0) {
    LogBase(local, "no job directory");
    return Made::kNot;
  }
  if (faccessat(base, OverName(job.id).text, F_OK, 0) == 0) {
    flock(base, LOCK_EX);
    const bool removed = faccessat(base, OverName(job.id).text, F_OK, 0) != 0 ||
                         RemoveDirectoryAndMarker(base, job.id, local, kSecondsAtStart);
    flock(base, LOCK_UN);
    if (!removed) return Made::kNot;
  }
  bool ok = WriteMarker(base, job);
  const Made made = ok ? Made::kNow : Made::kBefore;
  if (!ok && errno == EEXIST) {
    Marker marker;
    ok = ReadMarker(base, MarkerName(job.id), &marker);
    if (ok && IsStale(marker)) {
      // This job ran here before the node went down, and was started again.
      flock(base, LOCK_EX);
      if (ReadMarker(base, MarkerName(job.id), &marker) && IsStale(marker)) {
        ok = RemoveDirectoryAndMarker(base, job.id, local, kSecondsAtStart) && WriteMarker(base, job);
      }
      flock(base, LOCK_UN);
    } else if (!ok) {
      errno = EPERM;
    }
  }
  if (!ok || !MakeDirectory(base, job)) {
    LogError("no job directory: %s/harrow/%u: %s", local, job.id, strerror(errno));
    return Made::kNot;
  }
  return made;
}

bool HasJobDirectory(const char* local, uint32_t id) {
  Fd base(OpenBase(local, false));
  if (base < 0) {
    if (errno == EPERM) LogBase(local, "nothing is removed");
    return false;
  }
  Marker marker;
  return ReadMarker(base, MarkerName(id), &marker);
}

void RemoveJobDirectory(const char* local, const Job& job, unsigned seconds) {
  Fd base(OpenBase(local, false));
  if (base < 0) {
    if (errno == EPERM) LogBase(local, "nothing is removed");
    return;
  }
  Marker marker;
  if (!ReadMarker(base, MarkerName(job.id), &marker)) return;
  char path[kPathSize];
  if (!JobDirectoryPath(local, job.id, path)) return;
  // First of all: should we be ended in what follows, others go on.
  renameat(base, MarkerName(job.id).text, base, OverName(job.id).text);
  Ended ended = EndProcesses({.uid = job.uid, .id = job.id, .leader = marker.leader, .directory = path});
  if (ended.left != 0) LogError("job %u: process %d does not end", job.id, ended.left);
  if (ended.ended > 0) LogNotice("job %u: ended %u processes it had left", job.id, ended.ended);
  {
    DetachMounts(base, DirectoryName(job.id).text);
    Fd directory(OpenOnThisMount(base, DirectoryName(job.id).text, O_RDONLY | O_DIRECTORY));
    const char* user = getenv("SLURM_JOB_USER");
    if (directory >= 0) LogRuns(directory, job.id, job.uid, user != nullptr ? user : "?");
  }
  const time_t deadline = Now() + static_cast<time_t>(seconds);
  if (RemoveDirectoryAndMarker(base, job.id, local, seconds)) Sweep(base, local, deadline);
}

void SweepOldDirectories(const char* local, unsigned seconds) {
  Fd base(OpenBase(local, false));
  if (base < 0) {
    if (errno == EPERM) LogBase(local, "nothing is removed");
    return;
  }
  Sweep(base, local, Now() + static_cast<time_t>(seconds));
}

}  // namespace harrow::plugin
