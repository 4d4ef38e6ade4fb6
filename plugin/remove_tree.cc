#include "remove_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "fd.h"
#include "job_file.h"

// Root removes a tree that a user has shaped, while other processes of that user may still reshape it. So
// nothing is reached by a path: every step is one name in an open directory, and none is a link (O_NOFOLLOW).
// There is no walking down and up again, as a directory may be moved meanwhile: a directory found inside is
// moved up beside the others at the top, under a number, and emptied there in its turn. That also makes the
// depth of the tree irrelevant. What is mounted inside cannot be moved (EBUSY); it is told by its mount id
// and detached. Users may mount file systems of their own (FUSE), and those may let us wait for ever: so a
// name is opened without a word to its file system (O_PATH), its mount compared, and only then opened to be
// read.
//
// A directory cannot always be moved to the top (EXDEV) though nothing is mounted: users may give directories
// project ids (quotas of XFS and ext4) and, on Btrfs, make subvolumes. The top is made to take any project
// id; what still does not move becomes a top of its own.

namespace harrow::plugin {
namespace {

constexpr int kMostTops = 16;  // one in another; a subvolume is one
constexpr long kUnknown = -1;

// Which mount an open file is on; kernels before 5.8 tell it here alone.
long MountId(int fd) {
  char path[64], text[512] = "";
  snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
  Fd info(open(path, kReadFile));
  (void)!read(info, text, sizeof text - 1);
  long id = kUnknown;
  if (const char* at = strstr(text, "mnt_id:")) sscanf(at, "mnt_id:%ld", &id);
  return id;
}

bool Detach(int parent, const char* name) {
  char path[NAME_MAX + 64];
  snprintf(path, sizeof path, "/proc/self/fd/%d/%s", parent, name);
  return umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) == 0;
}

// A name, without a word to the file system that it is on.
int Look(int parent, const char* name) {
  return openat(parent, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
}

// As OpenOnThisMount, with the id of the mount of `parent`. Where we are not root the user may have shut a
// directory: then it is opened to us.
int OpenChecked(int parent, const char* name, int flags, long mount) {
  Fd handle(Look(parent, name));
  if (handle.none()) return kNoFd;
  if (mount == kUnknown || MountId(handle) != mount) {
    errno = EXDEV;
    return kNoFd;
  }
  struct stat info;
  if (fstat(handle, &info) != 0) return kNoFd;
  if (S_ISLNK(info.st_mode) || ((flags & O_DIRECTORY) != 0 && !S_ISDIR(info.st_mode))) {
    errno = S_ISLNK(info.st_mode) ? ELOOP : ENOTDIR;
    return kNoFd;
  }
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", static_cast<int>(handle));
  if (S_ISDIR(info.st_mode) && (info.st_mode & 0700) != 0700) chmod(path, 0700);
  return open(path, flags | O_CLOEXEC);
}

// Whether directories of other project ids may not be moved into this one, and now may.
bool TakesAnyProject(int directory) {
  fsxattr attributes;
  if (ioctl(directory, FS_IOC_FSGETXATTR, &attributes) != 0) return false;
  if ((attributes.fsx_xflags & FS_XFLAG_PROJINHERIT) == 0) return false;
  attributes.fsx_xflags &= ~static_cast<unsigned>(FS_XFLAG_PROJINHERIT);
  return ioctl(directory, FS_IOC_FSSETXATTR, &attributes) == 0;
}

class Remover {
 public:
  Remover(int top, long mount, long deadline, int tops = 1)
      : top_(top), mount_(mount), deadline_(deadline), tops_(tops) {}

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
  bool TimeIsUp() const { return Milliseconds() >= deadline_; }

  template <class Visit>
  void EachEntry(int directory, Visit visit) {
    Listing entries(directory);
    if (entries.none()) return Failed(errno);
    while (const dirent* entry = TimeIsUp() ? nullptr : entries.Next()) {
      if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) visit(entry->d_name);
    }
  }

  void EmptyTop() {
    EachEntry(top_, [this](const char* name) {
      Fd inside(OpenChecked(top_, name, O_DIRECTORY, mount_));
      if (inside.none()) {
        return errno == EXDEV ? Unmount(top_, name) : Remove(top_, name);
      }
      EachEntry(inside, [this, &inside](const char* below) { Remove(inside, below); });
      if (unlinkat(top_, name, AT_REMOVEDIR) == 0) {
        ++result_.removed;
      } else if (errno != ENOENT && errno != ENOTEMPTY) {
        Failed(errno);
      }
    });
  }

  // The next round removes what lay below.
  void Unmount(int parent, const char* name) {
    if (!Detach(parent, name)) return Failed(EBUSY);
    ++moved_;
  }

  // One name of `parent`, whatever it is.
  void Remove(int parent, const char* name) {
    if (unlinkat(parent, name, 0) == 0) {
      ++result_.removed;
      return;
    }
    if (errno == EBUSY) return Unmount(parent, name);  // a file with something mounted on it
    if (errno == ENOENT) return;
    if (errno != EISDIR && errno != EPERM && errno != EACCES) return Failed(errno);
    const int error = errno;
    if (unlinkat(parent, name, AT_REMOVEDIR) == 0) {
      ++result_.removed;
      return;
    }
    if (parent == top_) return Failed(error);
    for (bool first = true; !TimeIsUp(); first = false) {
      const JobFile up(next_++);
      // EXIST and NOTEMPTY: the user has a directory of that number at the top.
      if (renameat(parent, name, top_, up.text) == 0) {
        ++moved_;
        return;
      }
      if (errno == EBUSY) return Unmount(parent, name);
      if (errno == EXDEV) {
        if (TakesAnyProject(top_)) continue;
        return RemoveWhereItIs(parent, name);
      }
      if (errno == EACCES && first) {  // ".." of it changes: it must be writable (not root: OpenChecked)
        Fd inside(OpenChecked(parent, name, O_DIRECTORY, mount_));
        if (inside.none()) return Failed(EACCES);
        continue;
      }
      if (errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR) return Failed(errno);
    }
  }

  void RemoveWhereItIs(int parent, const char* name) {
    if (tops_ == kMostTops) return Failed(EXDEV);
    Fd inside(OpenChecked(parent, name, O_DIRECTORY, mount_));
    if (inside.none()) return errno == EXDEV ? Unmount(parent, name) : Failed(errno);
    const Removal below = Remover(inside, mount_, deadline_, tops_ + 1).Run();
    result_.removed += below.removed;
    if (unlinkat(parent, name, AT_REMOVEDIR) == 0) {
      ++result_.removed;
    } else {
      Failed(below.error != 0 ? below.error : errno);
    }
  }

  void Failed(int error) {
    if (result_.error == 0) result_.error = error;
  }

  int top_;
  long mount_;
  long deadline_;
  int tops_;
  uint32_t next_ = 0;
  unsigned long moved_ = 0;
  Removal result_;
};

}  // namespace

int OpenOnThisMount(int parent, const char* name, int flags) {
  return OpenChecked(parent, name, flags, MountId(parent));
}

void DetachMounts(int parent, const char* name) {
  while (true) {
    Fd fd(Look(parent, name));
    if (fd.none() || MountId(fd) == MountId(parent) || !Detach(parent, name)) return;
  }
}

Removal RemoveTree(int parent, const char* name, unsigned seconds) {
  Removal result;
  DetachMounts(parent, name);
  Fd top(OpenOnThisMount(parent, name, O_DIRECTORY));
  if (top.none()) {
    const int error = errno;
    // A link or a file where the directory should be: itself goes.
    result.complete = error == ENOENT || unlinkat(parent, name, 0) == 0;
    result.error = error == EXDEV ? EBUSY : error;
    return result;
  }
  // From here on the user can change nothing at the top, also through what is open.
  if (geteuid() == 0) (void)!fchown(top, 0, 0);
  fchmod(top, 0700);
  result = Remover(top, MountId(top), Milliseconds() + static_cast<long>(seconds) * 1000).Run();
  if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT) {
    result.complete = true;
    result.error = 0;
  } else if (result.error == 0) {
    result.error = errno;
  }
  return result;
}

}  // namespace harrow::plugin
