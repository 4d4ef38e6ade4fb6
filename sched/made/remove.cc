// Nothing is reached by a path: every step is one name in an open directory, so that what is swapped
// meanwhile leads nowhere else. On the way to an output a symbolic link is followed only if it is older than
// the attempt: sites put links into their users' directories, an attempt may have put one there as well. In
// what is removed no link is followed, and no other file system entered.
//
// An entry was made by the attempt if it was born and last changed while it ran. The time of change is the
// kernel's own: a file that is written, renamed, linked or moved here later has a later one, and files inside
// a directory that was moved here keep theirs of before. Where the file system does not tell when a file was
// born (Lustre, NFS before version 4.2, ramfs), it must have been written while the attempt ran: a file that is
// moved here from elsewhere during the attempt has a new time of change, but its time of writing of before.
#include "made/remove.h"

#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <string>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "base/text.h"

namespace harrow::made {
namespace {

int64_t Nanoseconds(const struct statx_timestamp& t) {
  return t.tv_sec * 1'000'000'000 + t.tv_nsec;
}

bool Look(int directory, const char* name, struct statx* info) {
  constexpr unsigned kWanted = STATX_TYPE | STATX_INO | STATX_CTIME | STATX_MTIME | STATX_BTIME;
  return statx(directory, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, kWanted, info) == 0 &&
         (info->stx_mask & STATX_CTIME) != 0 && (info->stx_mask & STATX_MTIME) != 0;
}

bool MadeIn(const struct statx& info, Window window) {
  const int64_t changed = Nanoseconds(info.stx_ctime);
  const bool birth_known = (info.stx_mask & STATX_BTIME) != 0 && Nanoseconds(info.stx_btime) != 0;
  const int64_t born = Nanoseconds(birth_known ? info.stx_btime : info.stx_mtime);
  return born >= window.begin_ns && changed >= window.begin_ns && changed <= window.end_ns;
}

bool SameFile(const struct statx& a, const struct statx& b) {
  return a.stx_ino == b.stx_ino && a.stx_dev_major == b.stx_dev_major && a.stx_dev_minor == b.stx_dev_minor;
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  void Reset(int fd) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }

 private:
  int fd_;
};

class Remover {
 public:
  explicit Remover(Window window) : window_(window) {}

  Status RemoveAt(int parent, const std::string& name, const std::string& path) {
    struct statx info {};
    if (!Look(parent, name.c_str(), &info) || !MadeIn(info, window_)) return {};
    if (!S_ISDIR(info.stx_mode)) {
      return unlinkat(parent, name.c_str(), 0) == 0 || errno == ENOENT ? Status() : Failed(path);
    }
    const int fd = openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? Status() : Failed(path);
    DIR* dir = fdopendir(fd);
    if (dir == nullptr) {
      close(fd);
      return Failed(path);
    }
    struct statx opened {}, above {};
    const bool enter = Look(fd, ".", &opened) && SameFile(info, opened) && Look(parent, ".", &above) &&
                       above.stx_dev_major == opened.stx_dev_major &&
                       above.stx_dev_minor == opened.stx_dev_minor;
    std::vector<std::string> names;
    while (const dirent* entry = enter ? readdir(dir) : nullptr) {
      const std::string_view n = entry->d_name;
      if (n != "." && n != "..") names.emplace_back(n);
    }
    Status first;
    for (const std::string& n : names) {
      if (Status removed = RemoveAt(fd, n, StrCat(path, "/", n)); first.ok()) first = std::move(removed);
    }
    closedir(dir);
    if (!enter || !first.ok()) return first;
    const bool gone = unlinkat(parent, name.c_str(), AT_REMOVEDIR) == 0;
    const bool keeps = errno == ENOTEMPTY || errno == EEXIST || errno == ENOENT || errno == EBUSY;
    return gone || keeps ? Status() : Failed(path);
  }

 private:
  static Status Failed(const std::string& path) {
    return Status(errno == EACCES || errno == EPERM ? Code::kPermission : Code::kUnavailable,
                  StrCat("cannot remove ", path, ": ", strerror(errno)));
  }

  const Window window_;
};

}  // namespace

bool IsThere(const std::string& base, std::string_view name) {
  const std::string path = name.starts_with('/') ? std::string(name) : StrCat(base, "/", name);
  struct stat st {};
  return lstat(path.c_str(), &st) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

Status RemoveMade(const std::string& base, std::string_view name, Window window) {
  const bool absolute = name.starts_with('/');
  Descriptor at(open(absolute ? "/" : base.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  std::string_view rest = name;
  while (rest.starts_with('/')) rest.remove_prefix(1);
  while (at.get() >= 0) {
    const size_t slash = rest.find('/');
    const std::string part(rest.substr(0, slash));
    rest.remove_prefix(slash == std::string_view::npos ? rest.size() : slash);
    while (rest.starts_with('/')) rest.remove_prefix(1);
    if (rest.empty()) {
      if (part.empty() || part == "." || part == "..") return {};  // no name of its own
      return Remover(window).RemoveAt(at.get(), part, absolute ? std::string(name) : StrCat(base, "/", name));
    }
    struct statx info {};
    if (!Look(at.get(), part.c_str(), &info)) return {};
    const bool link = S_ISLNK(info.stx_mode);
    if (link && Nanoseconds(info.stx_ctime) >= window.begin_ns) return {};
    at.Reset(openat(at.get(), part.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC | (link ? 0 : O_NOFOLLOW)));
  }
  return {};
}

}  // namespace harrow::made
