// However deep a tree is, it is walked with two descriptors and a list of names: down by name, without
// following links, and up by "..", where it is made sure that this is the directory that one came from. What
// somebody moves elsewhere meanwhile so leads nowhere. What is removed or moved is entered on its own mount
// only.
#include "store/tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "base/text.h"
#include "store/listing.h"

namespace harrow::store {
namespace {

constexpr int kDirectory = O_RDONLY | O_DIRECTORY | O_NOFOLLOW;

/// What a task has mounted in its sandbox is not entered: EXDEV.
Fd OpenHere(int parent, const char* name) {
  struct open_how how {};
  how.flags = kDirectory | O_CLOEXEC;
  how.resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS;
  Fd fd(static_cast<int>(syscall(SYS_openat2, parent, name, &how, sizeof how)));
  if (fd.ok() || (errno != ENOSYS && errno != EPERM)) return fd;
  fd = OpenAt(parent, name, kDirectory);
  struct stat above {
  }, here{};
  if (fd.ok() && fstat(parent, &above) == 0 && fstat(fd.get(), &here) == 0 && above.st_dev != here.st_dev) {
    errno = EXDEV;
    return {};
  }
  return fd;
}

struct Level {
  dev_t device = 0;
  ino_t inode = 0;
  std::string name{};                      // in the level above
  size_t path_size = 0;                    // of the path above
  std::vector<std::string> directories{};  // still to be entered
};

/// Where a walk is: the open directory, and the levels above it.
class Walk {
 public:
  Walk(int root, bool mend) : mend_(mend), current_(OpenAt(root, ".", kDirectory)) {
    if (current_.ok()) Push("", 0);
  }
  bool ok() const { return current_.ok(); }
  int directory() const { return current_.get(); }
  Level& level() { return levels_.back(); }
  size_t depth() const { return levels_.size(); }
  const std::string& path() const { return path_; }

  bool Down(std::string name) {
    Fd next = mend_ ? OpenOwnDirectory(current_.get(), name.c_str())
                    : OpenAt(current_.get(), name.c_str(), kDirectory);
    if (!next.ok()) return false;
    current_ = std::move(next);
    const size_t size = path_.size();
    if (!path_.empty()) path_ += '/';
    path_ += name;
    Push(std::move(name), size);
    return true;
  }
  /// False: this is not where one came from.
  bool Up() {
    Fd above = OpenAt(current_.get(), "..", kDirectory);
    struct stat info {};
    path_.resize(level().path_size);
    levels_.pop_back();
    if (!above.ok() || fstat(above.get(), &info) != 0) return false;
    if (info.st_dev != level().device || info.st_ino != level().inode) {
      errno = ENOENT;
      return false;
    }
    current_ = std::move(above);
    return true;
  }

 private:
  void Push(std::string name, size_t path_size) {
    struct stat info {};
    (void)fstat(current_.get(), &info);
    levels_.push_back({info.st_dev, info.st_ino, std::move(name), path_size, {}});
  }

  const bool mend_;
  Fd current_;
  std::string path_;
  std::vector<Level> levels_;
};

}  // namespace

void MakeUsable(int parent, const char* name, mode_t mode) {
  const Fd fd = OpenAt(parent, name, O_PATH | O_NOFOLLOW);
  struct stat info {};
  if (!fd.ok() || fstat(fd.get(), &info) != 0 || S_ISLNK(info.st_mode)) return;
  (void)chmod(StrCat("/proc/self/fd/", fd.get()).c_str(), mode);
}

Fd OpenOwnDirectory(int parent, const char* name) {
  Fd fd = OpenHere(parent, name);
  if (!fd.ok() && errno == EACCES) {
    MakeUsable(parent, name, 0700);
    fd = OpenHere(parent, name);
  }
  struct stat info {};
  if (fd.ok() && fstat(fd.get(), &info) == 0 && (info.st_mode & 0700) != 0700) {
    (void)fchmod(fd.get(), 0700);
  }
  return fd;
}

std::string_view ParentOf(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? std::string_view() : path.substr(0, slash);
}

std::string_view NameOf(std::string_view path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

Result<int> Descent::To(std::string_view path) {
  if (path.empty()) return root_;
  if (current_.ok() && path == path_) return current_.get();
  std::string_view rest = path;
  const bool below =
      current_.ok() && path.size() > path_.size() && path.starts_with(path_) && path[path_.size()] == '/';
  if (below) {
    rest.remove_prefix(path_.size() + 1);
  } else {
    path_.clear();
    current_ = Fd();
  }
  while (!rest.empty()) {
    const size_t slash = rest.find('/');
    const std::string name(rest.substr(0, slash));
    rest.remove_prefix(slash == rest.npos ? rest.size() : slash + 1);
    const int at = current_.ok() ? current_.get() : root_;
    constexpr int kFlags = O_PATH | O_DIRECTORY | O_NOFOLLOW;
    Fd next = OpenAt(at, name.c_str(), kFlags);
    if (!next.ok() && errno == ENOENT && make_ == Make::kYes) {
      const bool is_new = mkdirat(at, name.c_str(), mode_) == 0;
      if (!is_new && errno != EEXIST) {
        return Failed("make directory", StrCat(shown_, "/", path), errno, root_);
      }
      if (is_new && made) made(at, name);
      next = OpenAt(at, name.c_str(), kFlags);
    }
    if (!next.ok()) {
      const int error = errno;
      const std::string shown = StrCat(shown_, "/", path.substr(0, path.size() - rest.size()));
      struct stat info {};
      if (fstatat(at, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return Failed("open", shown, error);
      if (S_ISLNK(info.st_mode)) {
        return Status(Code::kInvalid,
                      StrCat(Printable(shown, 400), " is a symbolic link where a directory has to be"));
      }
      if (!S_ISDIR(info.st_mode)) {
        return Status(Code::kExists, StrCat(Printable(shown, 400), " is there, and is no directory"));
      }
      return Failed("open", shown, error);
    }
    current_ = std::move(next);
    if (!path_.empty()) path_ += '/';
    path_ += name;
  }
  return current_.get();
}

Status WalkTree(int root, const std::string& shown, bool mend, const Visitor& visit) {
  Walk walk(root, mend);
  if (!walk.ok()) return Failed("read", shown);
  bool entered = true;
  for (;;) {
    if (entered) {
      std::vector<Listed> names;
      if (const int error = List(walk.directory(), &names); error != 0) {
        return Failed("read", StrCat(shown, "/", walk.path()), error);
      }
      std::string path = walk.path();
      if (!path.empty()) path += '/';
      const size_t base = path.size();
      for (Listed& listed : names) {
        path.resize(base);
        path += listed.name;
        if (path.size() > kLongestPath) {
          return Status(Code::kInvalid,
                        StrCat(Printable(shown, 400), " is too deep: a path in it has more than ",
                               kLongestPath, " bytes"));
        }
        struct stat info {};
        if (fstatat(walk.directory(), listed.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
          return Failed("look at", StrCat(shown, "/", path));
        }
        HARROW_RETURN_IF_ERROR(visit({walk.directory(), listed.name, path, info}));
        if (S_ISDIR(info.st_mode)) walk.level().directories.push_back(std::move(listed.name));
      }
    }
    entered = false;
    if (!walk.level().directories.empty()) {
      std::string name = std::move(walk.level().directories.back());
      walk.level().directories.pop_back();
      if (!walk.Down(name)) return Failed("read", StrCat(shown, "/", walk.path(), "/", name));
      entered = true;
    } else if (walk.depth() == 1) {
      return {};
    } else if (!walk.Up()) {
      return Failed("read", StrCat(shown, "/", walk.path()));
    }
  }
}

Status RemoveContents(int directory, const std::string& shown) {
  Walk walk(directory, true);
  if (!walk.ok()) return Failed("remove", shown);
  Status first;
  const auto note = [&](const std::string& name, int error) {
    if (first.ok()) first = Failed("remove", StrCat(shown, "/", walk.path(), "/", name), error);
  };
  bool entered = true;
  for (;;) {
    if (entered) {
      std::vector<Listed> names;
      if (const int error = List(walk.directory(), &names); error != 0) note(".", error);
      for (Listed& listed : names) {
        if (listed.type != DT_DIR) {
          if (unlinkat(walk.directory(), listed.name.c_str(), 0) == 0 || errno == ENOENT) continue;
          if (errno != EISDIR && errno != EPERM) {
            note(listed.name, errno);
            continue;
          }
        }
        walk.level().directories.push_back(std::move(listed.name));
      }
    }
    entered = false;
    if (!walk.level().directories.empty()) {
      std::string name = std::move(walk.level().directories.back());
      walk.level().directories.pop_back();
      entered = walk.Down(name);
      if (!entered && errno != ENOENT) note(name, errno);
    } else if (walk.depth() == 1) {
      return first;
    } else {
      const std::string name = walk.level().name;
      if (!walk.Up()) {
        note(name, errno);
        return first;
      }
      if (unlinkat(walk.directory(), name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) note(name, errno);
    }
  }
}

Status RemoveAll(int parent, const std::string& name, const std::string& shown) {
  if (unlinkat(parent, name.c_str(), 0) == 0 || errno == ENOENT) return {};
  if (errno != EISDIR && errno != EPERM) return Failed("remove", shown);
  Fd fd = OpenOwnDirectory(parent, name.c_str());
  if (!fd.ok()) return errno == ENOENT ? Status() : Failed("remove", shown);
  const Status removed = RemoveContents(fd.get(), shown);
  if (unlinkat(parent, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return {};
  return removed.ok() ? Failed("remove", shown) : removed;
}

}  // namespace harrow::store
