#include "remove_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
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
// and detached.

namespace harrow::plugin {
namespace {

constexpr time_t kLongestSeconds = 600;
constexpr int kOpenDirectory = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

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

class Remover {
 public:
  Remover(int top, long mount) : top_(top), mount_(mount) {}

  // Until the top is empty, a round over it changed nothing, or somebody fills it as fast as we empty it.
  Removal Run() {
    const time_t deadline = Now() + kLongestSeconds;
    while (true) {
      unsigned long before = result_.removed + moved_;
      result_.error = 0;
      EmptyTop();
      if (result_.removed + moved_ == before) return result_;
      if (Now() > deadline) {
        Failed(ETIME);
        return result_;
      }
    }
  }

 private:
  static time_t Now() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
  }

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
    while (const dirent* entry = readdir(entries)) {
      if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) visit(entry->d_name);
    }
    closedir(entries);
  }

  void EmptyTop() {
    EachEntry(top_, [this](const char* name) {
      int inside = OpenDirectory(top_, name);
      if (inside < 0) return Remove(top_, name);
      if (IsOfThisMount(inside)) {
        EachEntry(inside, [this, inside](const char* below) { Remove(inside, below); });
      } else {
        Unmount(top_, name);
      }
      close(inside);
      if (unlinkat(top_, name, AT_REMOVEDIR) == 0) {
        ++result_.removed;
      } else if (errno != ENOENT && errno != ENOTEMPTY) {
        Failed(errno);
      }
    });
  }

  int OpenDirectory(int parent, const char* name) {
    int fd = openat(parent, name, kOpenDirectory);
    if (fd >= 0 || errno != EACCES) return fd;
    // Where we are not root the user may have shut it. A link is not followed: O_PATH with O_NOFOLLOW opens
    // itself.
    int handle = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (handle < 0) return -1;
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", handle);
    chmod(path, 0700);
    close(handle);
    return openat(parent, name, kOpenDirectory);
  }

  bool IsOfThisMount(int fd) { return MountId(fd) == mount_; }

  bool Unmount(int parent, const char* name) {
    int here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (here < 0 || fchdir(parent) != 0) {
      if (here >= 0) close(here);
      return false;
    }
    bool done = umount2(name, MNT_DETACH | UMOUNT_NOFOLLOW) == 0;
    if (done) ++moved_;
    if (fchdir(here) != 0) Failed(errno);
    close(here);
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
          tries == 0) {  // ".." of it changes, so it must be writable: not root, see OpenDirectory
        int inside = OpenDirectory(parent, name);
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
  unsigned long next_ = 0;
  unsigned long moved_ = 0;
  Removal result_;
};

}  // namespace

Removal RemoveTree(int parent, const char* name) {
  Removal result;
  int top = openat(parent, name, kOpenDirectory);
  if (top < 0 && errno == EACCES && fchmodat(parent, name, 0700, 0) == 0)
    top = openat(parent, name, kOpenDirectory);
  if (top < 0) {
    const int error = errno;
    // A link or a file where the directory should be: itself goes.
    result.complete = error == ENOENT || unlinkat(parent, name, 0) == 0;
    result.error = error;
    return result;
  }
  const long mount = MountId(top);
  if (mount < 0 || mount != MountId(parent)) {
    // Something is mounted on the job's directory itself: not ours to empty.
    close(top);
    result.error = EBUSY;
    return result;
  }
  fchmod(top, 0700);
  result = Remover(top, mount).Run();
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
