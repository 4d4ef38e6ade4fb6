#include "base_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fd.h"
#include "log.h"
#include "policy.h"

// LOCAL may be open to everybody, as /tmp is, so trust begins one step below: LOCAL/harrow must be a
// directory, no link, of slurmd's user, writable by nobody else. Inside it no user can rename or replace
// anything. LOCAL itself must not let others rename what is in it: it is root's or slurmd's user's, and
// sticky where others may write.

namespace harrow::plugin {
namespace {

bool IsOurs(const struct stat& info) {
  return info.st_uid == geteuid() || info.st_uid == 0;
}

bool OthersMayWrite(const struct stat& info) {
  return (info.st_mode & (S_IWGRP | S_IWOTH)) != 0;
}

bool ParentIsSafe(int parent, const char* local, const char* without) {
  struct stat info = {};
  fstat(parent, &info);
  if (IsOurs(info) && (!OthersMayWrite(info) || (info.st_mode & S_ISVTX) != 0)) return true;
  LogError(
      "%s: in %s (uid %u, mode %04o) others may rename what is not theirs; it has to be root's and, where "
      "others may write, sticky",
      without, local, info.st_uid, info.st_mode & 07777);
  return false;
}

void LogWhoWasFirst(int parent, const char* local, const char* without) {
  struct stat info;
  const bool there = fstatat(parent, "harrow", &info, AT_SYMLINK_NOFOLLOW) == 0;
  LogError(
      "%s: %s/harrow is not a directory that only slurmd's user (uid %u) may write to, but a %s of uid %u, "
      "mode %04o; remove it",
      without, local, geteuid(),
      !there                  ? "thing"
      : S_ISDIR(info.st_mode) ? "directory"
      : S_ISLNK(info.st_mode) ? "link"
                              : "file",
      there ? info.st_uid : 0, there ? info.st_mode & 07777 : 0);
}

}  // namespace

Places PlacesOf(const Policy& policy) {
  return {policy.local, geteuid() == 0 ? policy.state : ""};
}

int OpenBase(const char* local, bool make, const char* without) {
  Fd parent(open(local, O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (parent.none()) {
    if (make || errno != ENOENT) LogError("%s: %s: %s", without, local, strerror(errno));
    return kNoFd;
  }
  if (!ParentIsSafe(parent, local, without)) return kNoFd;
  if (make && mkdirat(parent, "harrow", 0755) != 0 && errno != EEXIST) {
    LogError("%s: %s/harrow: %s", without, local, strerror(errno));
    return kNoFd;
  }
  const int base = openat(parent, "harrow", kReadDirectory);
  if (base == kNoFd) {
    if (errno == ELOOP || errno == ENOTDIR) {
      LogWhoWasFirst(parent, local, without);
    } else if (make || errno != ENOENT) {
      LogError("%s: %s/harrow: %s", without, local, strerror(errno));
    }
    return kNoFd;
  }
  struct stat info;
  if (fstat(base, &info) != 0 || info.st_uid != geteuid() || OthersMayWrite(info)) {
    close(base);
    LogWhoWasFirst(parent, local, without);
    return kNoFd;
  }
  fchmod(base, 0755);  // whatever the umask of whoever came first
  return base;
}

}  // namespace harrow::plugin
