#include "remove_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

// Root removes a tree that a user has shaped, while other processes of that user may still reshape it. So
// nothing is reached by a path: every step is one name in an open directory, and none is a link (O_NOFOLLOW).
// There is no walking down and up again, as a directory may be moved meanwhile: a directory found inside is
// moved up beside the others at the top, under a number, and emptied there in its turn. That also makes the
// depth of the tree irrelevant. What is mounted inside cannot be moved (EBUSY); it is told by its mount id
// and detached. Users may mount file systems of their own (FUSE), and those may let us wait for ever: so a
// name is opened without a word to its file system (O_PATH), its mount compared, and only then opened to be
// read.

namespace harrow::plugin {
namespace {

constexpr int kOpenDirectory = O_RDONLY | O_DIRECTORY;

// Which mount an open file is on; kernels before 5.8 tell it here alone. -1: not to be learned.
long MountId(int fd) {
  char path[64], text[512];
  snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
  int info = open(path, O_RDONLY | O_CLOEXEC);
  if (info < 0) return -1;
  ssize_t n = read(info, text, sizeof text - 1);
  close(info);
  if (n <= 0) return -1;
  text[n] = '\0';
  const char* at = strstr(text, "mnt_id:");
  return at == nullptr ? -1 : strtol(at + 7, nullptr, 10);
}

bool Detach(int parent, const char* name) {
  char path[NAME_MAX + 64];
  snprintf(path, sizeof path, "/proc/self/fd/%d/%s", parent, name);
  return umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) == 0;
}

// As OpenOnThisMount, with the id of the mount of `parent`. Where we are not root the user may have shut a
// directory: then it is opened to us.
int OpenChecked(int parent, const char* name, int flags, long mount) {
  int handle = openat(parent, name, O_PATH | O_NOFOLLOW | O_CLOEXEC | (flags & O_DIRECTORY));
  if (handle < 0) return -1;
  if (mount < 0 || MountId(handle) != mount) {
    close(handle);
    errno = EXDEV;
    return -1;
  }
  struct stat info;
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", handle);
  int fd = -1;
  if (fstat(handle, &info) != 0 || S_ISLNK(info.st_mode)) {
    errno = ELOOP;
  } else {
    fd = open(path, flags | O_CLOEXEC);
    if (fd < 0 && errno == EACCES && S_ISDIR(info.st_mode) && chmod(path, 0700) == 0)
      fd = open(path, flags | O_CLOEXEC);
  }
  const int error = errno;
  close(handle);
  errno = error;
  return fd;
}

class Remover {
 public:
  Remover(int top, long mount, unsigned seconds)
      : top_(top), mount_(mount), deadline_(Now() + static_cast<time_t>(seconds)) {}

  // Until the top is empty, a round over it changed nothing, or time is up: somebody may fill it as fast as
  // we empty it.
  Removal Run() {
    while (true) {
      unsigned long before = result_.removed + moved_;
      result_.error = 0;
      EmptyTop();
      if (TimeIsUp()) result_.error = ETIME;
      if (TimeIsUp() || result_.removed + moved_ == before) return result_;
    }
  }

 private:
  static time_t Now() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
  }

  bool TimeIsUp() const { return Now() >= deadline_; }

  template <class Visit>
  void EachEntry(int directory, Visit visit) {
    int listing = dup(directory);
    DIR* entries = listing < 0 ? nullptr : fdopendir(listing);
    if (entries == nullptr) {
      Failed(errno);
      if (listing >= 0) close(listing);
      return;
    }
    rewinddir(entries);
    while (const dirent* entry = TimeIsUp() ? nullptr : readdir(entries)) {
      if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) visit(entry->d_name);
    }
    closedir(entries);
  }

  void EmptyTop() {
    EachEntry(top_, [this](const char* name) {
      int inside = OpenChecked(top_, name, kOpenDirectory, mount_);
      if (inside < 0) {
        if (errno != EXDEV) return Remove(top_, name);
        if (!Unmount(top_, name)) Failed(EBUSY);
        return;
      }
      EachEntry(inside, [this, inside](const char* below) { Remove(inside, below); });
      close(inside);
      if (unlinkat(top_, name, AT_REMOVEDIR) == 0) {
        ++result_.removed;
      } else if (errno != ENOENT && errno != ENOTEMPTY) {
        Failed(errno);
      }
    });
  }

  bool Unmount(int parent, const char* name) {
    bool done = Detach(parent, name);
    if (done) ++moved_;
    return done;
  }

  // One name of `parent`, whatever it is.
  void Remove(int parent, const char* name) {
    if (unlinkat(parent, name, 0) == 0) {
      ++result_.removed;
      return;
    }
    if (errno == EBUSY && Unmount(parent, name)) return;  // a file with something mounted on it: next round
    if (errno == ENOENT) return;
    if (errno != EISDIR && errno != EPERM && errno != EACCES) return Failed(errno);
    const int error = errno;
    if (unlinkat(parent, name, AT_REMOVEDIR) == 0) {
      ++result_.removed;
      return;
    }
    if (parent == top_) return Failed(error);
    for (int tries = 0; tries < 1000; ++tries) {
      char up[32];
      snprintf(up, sizeof up, "%lu", next_++);
      // EXIST and NOTEMPTY: the user has a directory of that number at the top.
      if (renameat(parent, name, top_, up) == 0) {
        ++moved_;
        return;
      }
      if (errno == EBUSY || errno == EXDEV) {
        if (!Unmount(parent, name)) Failed(EBUSY);
        return;
      }
      if (errno == EACCES &&
          tries == 0) {  // ".." of it changes, so it must be writable: not root, see OpenChecked
        int inside = OpenChecked(parent, name, kOpenDirectory, mount_);
        if (inside < 0) return Failed(EACCES);
        fchmod(inside, 0700);
        close(inside);
        continue;
      }
      if (errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR) return Failed(errno);
    }
    Failed(error);
  }

  void Failed(int error) {
    if (result_.error == 0) result_.error = error;
  }

  int top_;
  long mount_;
  time_t deadline_;
  unsigned long next_ = 0;
  unsigned long moved_ = 0;
  Removal result_;
};

}  // namespace

int OpenOnThisMount(int parent, const char* name, int flags) {
  return OpenChecked(parent, name, flags, MountId(parent));
}

void DetachMounts(int parent, const char* name) {
  while (true) {
    int fd = openat(parent, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return;
    const bool mounted = MountId(fd) != MountId(parent);
    close(fd);
    if (!mounted || !Detach(parent, name)) return;
  }
}

Removal RemoveTree(int parent, const char* name, unsigned seconds) {
  Removal result;
  DetachMounts(parent, name);
  int top = OpenOnThisMount(parent, name, kOpenDirectory);
  if (top < 0) {
    const int error = errno;
    // A link or a file where the directory should be: itself goes.
    result.complete = error == ENOENT || unlinkat(parent, name, 0) == 0;
    result.error = error == EXDEV ? EBUSY : error;
    return result;
  }
  fchmod(top, 0700);
  result = Remover(top, MountId(top), seconds).Run();
  close(top);
  if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT) {
    result.complete = true;
    result.error = 0;
  } else if (result.error == 0) {
    result.error = errno;
  }
  return result;
}

}  // namespace harrow::plugin
