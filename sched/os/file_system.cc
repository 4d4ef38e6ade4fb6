#include "os/file_system.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <utility>

#include "base/text.h"
#include "os/posix_files.h"
#include "os/random.h"

namespace harrow::os {
namespace {

Code CodeOf(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return Code::kNotFound;
    case EEXIST:
    case ENOTEMPTY:
      return Code::kExists;
    case EACCES:
    case EPERM:
    case EROFS:
    case ELOOP:
      return Code::kPermission;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return Code::kExhausted;
    case EISDIR:
    case EINVAL:
    case ENAMETOOLONG:
      return Code::kInvalid;
    default:
      return Code::kUnavailable;
  }
}

Status Failed(std::string_view what, const std::string& path) {
  int error = errno;
  return Status(CodeOf(error), StrCat("cannot ", what, " ", path, ": ", strerror(error)));
}

bool WriteAll(int fd, std::string_view data) {
  while (!data.empty()) {
    ssize_t n = TEMP_FAILURE_RETRY(write(fd, data.data(), data.size()));
    if (n < 0) return false;
    data.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

Result<std::string> ReadFd(int fd, const std::string& path, uint64_t offset, uint64_t limit) {
  struct stat st {};
  if (fstat(fd, &st) != 0) return Failed("read", path);
  if (S_ISDIR(st.st_mode)) {
    errno = EISDIR;
    return Failed("read", path);
  }
  std::string out;
  uint64_t size = static_cast<uint64_t>(std::max<off_t>(st.st_size, 0));
  // One byte more than the size, so that the end shows without another round.
  uint64_t expect = size > offset ? std::min(size - offset, limit) : 0;
  size_t room = static_cast<size_t>(std::min<uint64_t>(expect + 1, std::max<uint64_t>(limit, 1)));
  while (out.size() < limit) {
    size_t have = out.size();
    size_t want = static_cast<size_t>(
        std::min<uint64_t>(limit - have, std::max<size_t>(room - std::min(room, have), 4096)));
    out.resize(have + want);
    const bool seekable = S_ISREG(st.st_mode);
    const ssize_t n = TEMP_FAILURE_RETRY(seekable ? pread(fd, out.data() + have, want, static_cast<off_t>(offset + have))
                                                  : read(fd, out.data() + have, want));
    if (n < 0) return Failed("read", path);
    out.resize(have + static_cast<size_t>(n));
    if (n == 0) break;
  }
  return out;
}

std::string DirectoryOf(const std::string& path) {
  size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

/// Of the directory that holds `name`, as seen from `base`; `path` is for the message.
Status SyncDirectory(int base, const std::string& name, const std::string& path) {
  Fd fd = OpenAt(base, DirectoryOf(name).c_str(), O_RDONLY | O_DIRECTORY);
  if (!fd.ok()) return Failed("sync", DirectoryOf(path));
  // Some file systems (FUSE) know no fsync of a directory.
  if (fsync(fd.get()) != 0 && errno != EINVAL && errno != ENOSYS && errno != ENOTSUP)
    return Failed("sync", DirectoryOf(path));
  return {};
}

class PosixAppendFile : public AppendFile {
 public:
  PosixAppendFile(Fd fd, std::string path, uint64_t size)
      : fd_(std::move(fd)), path_(std::move(path)), size_(size) {}

  Status Append(std::string_view data) override {
    if (WriteAll(fd_.get(), data)) {
      size_ += data.size();
      return {};
    }
    Status why = Failed("write", path_);
    // Whole or not at all: what a full disk took of it goes again.
    if (ftruncate(fd_.get(), static_cast<off_t>(size_)) != 0) {
      return Status(why.code(), StrCat(why.message(), "; a partial record stays at its end"));
    }
    return why;
  }
  Status Sync() override { return fdatasync(fd_.get()) == 0 ? Status() : Failed("sync", path_); }
  uint64_t size() const override { return size_; }

 private:
  Fd fd_;
  std::string path_;
  uint64_t size_;
};

// Goes down by descriptors, so that a directory swapped for a link meanwhile leads nowhere else.
Status RemoveTreeAt(int parent, const char* name, const std::string& path) {
  int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return Failed("remove", path);
  DIR* dir = fdopendir(fd);
  if (dir == nullptr) {
    Status why = Failed("remove", path);
    close(fd);
    return why;
  }
  std::vector<std::string> names;
  while (dirent* entry = readdir(dir)) {
    std::string_view n = entry->d_name;
    if (n != "." && n != "..") names.emplace_back(n);
  }
  Status first;
  for (const std::string& n : names) {
    if (unlinkat(fd, n.c_str(), 0) == 0 || errno == ENOENT) continue;
    Status why = errno == EISDIR || errno == EPERM ? RemoveTreeAt(fd, n.c_str(), StrCat(path, "/", n))
                                                   : Failed("remove", StrCat(path, "/", n));
    // Others may be removing it, too.
    if (first.ok() && why.code() != Code::kNotFound) first = why;
  }
  closedir(dir);
  if (first.ok() && unlinkat(parent, name, AT_REMOVEDIR) != 0 && errno != ENOENT) return Failed("remove", path);
  return first;
}

}  // namespace

Fd OpenAt(int directory, const char* name, int flags, mode_t mode) {
  return Fd(static_cast<int>(TEMP_FAILURE_RETRY(openat(directory, name, flags | O_CLOEXEC, mode))));
}

Result<PosixFiles::Place> PosixFiles::Find(const std::string& path) {
  return Place{.directory = AT_FDCWD, .name = path, .held = {}};
}

Status PosixFiles::Check(const struct stat&, const std::string&, Use) {
  return {};
}

Result<Fd> PosixFiles::Open(const std::string& path, int flags, mode_t mode, Use use) {
  Result<Place> place = Find(path);
  if (!place.ok()) return place.status();
  const int all = flags | OpenFlags();
  Fd fd = OpenAt(place->directory, place->name.c_str(), all, mode);
  struct stat st {};
  if (!fd.ok()) {
    const int error = errno;
    Status why = Failed(use == Use::kRead ? "read" : "open", path);
    // A link, a FIFO that nobody reads, a socket: said as what it is.
    if ((error == ELOOP || error == ENXIO) &&
        fstatat(place->directory, place->name.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0) {
      HARROW_RETURN_IF_ERROR(Check(st, path, use));
    }
    return why;
  }
  if (fstat(fd.get(), &st) != 0) return Failed("look at", path);
  HARROW_RETURN_IF_ERROR(Check(st, path, use));
  return fd;
}

Result<std::string> PosixFiles::Read(const std::string& path, uint64_t limit) {
  return ReadRange(path, 0, limit);
}

Result<std::string> PosixFiles::ReadRange(const std::string& path, uint64_t offset, uint64_t length) {
  Result<Fd> fd = Open(path, O_RDONLY, 0, Use::kRead);
  if (!fd.ok()) return fd.status();
  struct stat st {};
  if (fstat(fd->get(), &st) != 0) return Failed("read", path);
  // /dev/zero has no end; /dev/null is how people say "no file", and a terminal ends.
  const bool device =
      S_ISBLK(st.st_mode) || (S_ISCHR(st.st_mode) && st.st_rdev != makedev(1, 3) && isatty(fd->get()) == 0);
  if (device) return Status(Code::kInvalid, StrCat("cannot read ", path, ": it is a device"));
  return ReadFd(fd->get(), path, offset, length);
}

Result<std::string> PosixFiles::ReadPrivate(const std::string& path, uint64_t limit) {
  Result<Place> place = Find(path);
  if (!place.ok()) return place.status();
  // O_NONBLOCK: a FIFO put there must not hold us.
  Fd fd = OpenAt(place->directory, place->name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (!fd.ok() && errno == ELOOP) {
    return Status(Code::kPermission,
                  StrCat(path, " is a symbolic link; a file that holds a key must not be one"));
  }
  if (!fd.ok()) return Failed("read", path);
  struct stat st {};
  if (fstat(fd.get(), &st) != 0) return Failed("read", path);
  if (!S_ISREG(st.st_mode)) return Status(Code::kPermission, StrCat(path, " is not a plain file"));
  HARROW_RETURN_IF_ERROR(CheckPrivate(st, path));
  return ReadFd(fd.get(), path, 0, limit);
}

Status PosixFiles::CheckPrivate(const struct stat& info, const std::string& path) {
  if (info.st_uid != geteuid()) {
    return Status(Code::kPermission,
                  StrCat(path, " belongs to user ", info.st_uid, ", not to you (", geteuid(), ")"));
  }
  if ((info.st_mode & 077) != 0) {
    return Status(Code::kPermission,
                  StrCat(path, " is open to others; it holds a key and must have mode 0600"));
  }
  return {};
}

Status PosixFiles::WriteWhole(const std::string& path, std::string_view data, uint32_t mode) {
  Result<Place> place = Find(path);
  if (!place.ok()) return place.status();
  Result<std::string> temporary = WriteTemporary(*place, path, data, mode);
  if (!temporary.ok()) return temporary.status();
  if (renameat(place->directory, temporary->c_str(), place->directory, place->name.c_str()) != 0) {
    Status why = Failed("write", path);
    unlinkat(place->directory, temporary->c_str(), 0);
    return why;
  }
  return SyncDirectory(place->directory, place->name, path);
}

Status PosixFiles::CreateWhole(const std::string& path, std::string_view data, uint32_t mode) {
  Result<Place> place = Find(path);
  if (!place.ok()) return place.status();
  Result<std::string> temporary = WriteTemporary(*place, path, data, mode);
  if (!temporary.ok()) return temporary.status();
  const int in = place->directory;
  // link() fails when the name exists, on local and network file systems alike.
  int rc = linkat(in, temporary->c_str(), in, place->name.c_str(), 0);
  if (rc != 0 && (errno == EPERM || errno == ENOTSUP || errno == ENOSYS)) {
    rc = renameat2(in, temporary->c_str(), in, place->name.c_str(), RENAME_NOREPLACE);
  }
  Status why = rc == 0 ? Status() : Failed("create", path);
  unlinkat(in, temporary->c_str(), 0);
  if (rc == 0) why = SyncDirectory(in, place->name, path);
  return why;
}

Result<std::unique_ptr<AppendFile>> PosixFiles::OpenAppend(const std::string& path, uint32_t mode) {
  Result<Fd> fd = Open(path, O_WRONLY | O_CREAT | O_APPEND, mode, Use::kWrite);
  if (!fd.ok()) return fd.status();
  struct stat st {};
  if (fstat(fd->get(), &st) != 0) return Failed("open", path);
  return std::unique_ptr<AppendFile>(
      std::make_unique<PosixAppendFile>(*std::move(fd), path, static_cast<uint64_t>(st.st_size)));
}

Result<FileInfo> PosixFiles::Stat(const std::string& path) {
  Result<Place> place = Find(path);
  if (!place.ok()) return place.status();
  struct stat st {};
  const int flags = (OpenFlags() & O_NOFOLLOW) != 0 ? AT_SYMLINK_NOFOLLOW : 0;
  if (fstatat(place->directory, place->name.c_str(), &st, flags) != 0) return Failed("look at", path);
  HARROW_RETURN_IF_ERROR(Check(st, path, S_ISDIR(st.st_mode) ? Use::kEnter : Use::kRead));
  FileInfo info;
  info.is_directory = S_ISDIR(st.st_mode);
  info.size = static_cast<uint64_t>(st.st_size);
  info.modified =
      WallTime(std::chrono::seconds(st.st_mtim.tv_sec) + std::chrono::nanoseconds(st.st_mtim.tv_nsec));
  return info;
}

Result<std::string> PosixFiles::Resolve(const std::string& path) {
  Result<Place> place = Find(path);
  if (!place.ok()) return place.status();
  const bool plain = place->directory == AT_FDCWD;
  char* real = realpath(
      (plain ? place->name : StrCat("/proc/self/fd/", place->directory, "/", place->name)).c_str(), nullptr);
  if (real == nullptr) return Failed("resolve", path);
  std::string resolved(real);
  free(real);
  return resolved;
}

Result<std::vector<std::string>> PosixFiles::List(const std::string& directory) {
  Result<Fd> fd = Open(directory, O_RDONLY | O_DIRECTORY, 0, Use::kEnter);
  if (!fd.ok()) return fd.status();
  DIR* dir = fdopendir(fd->get());
  if (dir == nullptr) return Failed("list", directory);
  fd->Release();
  std::vector<std::string> names;
  errno = 0;
  while (dirent* entry = readdir(dir)) {
    std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  Status why = errno == 0 ? Status() : Failed("list", directory);
  closedir(dir);
  if (!why.ok()) return why;
  std::sort(names.begin(), names.end());
  return names;
}

Status PosixFiles::MakeDirectories(const std::string& path, uint32_t mode) {
  for (size_t slash = path.find('/', Rooted() + 1);; slash = path.find('/', slash + 1)) {
    std::string part = path.substr(0, slash);
    Result<Place> place = Find(part);
    if (!place.ok()) return place.status();
    if (mkdirat(place->directory, place->name.c_str(), mode) != 0) {
      int error = errno;
      struct stat st {};
      const int flags = (OpenFlags() & O_NOFOLLOW) != 0 ? AT_SYMLINK_NOFOLLOW : 0;
      bool there = fstatat(place->directory, place->name.c_str(), &st, flags) == 0;
      if (there) HARROW_RETURN_IF_ERROR(Check(st, part, Use::kEnter));
      errno = error;
      if (!there || !S_ISDIR(st.st_mode)) return Failed("make directory", part);
    }
    if (slash == std::string::npos) return {};
  }
}

Status PosixFiles::Rename(const std::string& from, const std::string& to) {
  Result<Place> old_place = Find(from), new_place = Find(to);
  if (!old_place.ok()) return old_place.status();
  if (!new_place.ok()) return new_place.status();
  if (renameat(old_place->directory, old_place->name.c_str(), new_place->directory,
               new_place->name.c_str()) != 0) {
    return Failed(StrCat("rename ", from, " to"), to);
  }
  return {};
}

Status PosixFiles::Remove(const std::string& path) {
  Result<Place> place = Find(path);
  if (!place.ok()) return place.status();
  const char* name = place->name.c_str();
  if (unlinkat(place->directory, name, 0) == 0) return {};
  if ((errno == EISDIR || errno == EPERM) && unlinkat(place->directory, name, AT_REMOVEDIR) == 0) return {};
  return Failed("remove", path);
}

Status PosixFiles::RemoveTree(const std::string& path) {
  Result<Place> place = Find(path);
  if (!place.ok()) return place.status();
  if (unlinkat(place->directory, place->name.c_str(), 0) == 0) return {};
  if (errno != EISDIR && errno != EPERM) return Failed("remove", path);
  return RemoveTreeAt(place->directory, place->name.c_str(), path);
}

Result<std::string> PosixFiles::WriteTemporary(const Place& place, const std::string& path,
                                               std::string_view data, mode_t mode) {
  size_t name = place.name.rfind('/') + 1;  // npos + 1 is 0
  std::string temporary =
      StrCat(place.name.substr(0, name), ".", place.name.substr(name), ".", getpid(), ".", UniqueNumber(), ".tmp");
  Fd fd = OpenAt(place.directory, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
  if (!fd.ok()) return Failed("write", path);
  if (!WriteAll(fd.get(), data) || fsync(fd.get()) != 0) {
    Status why = Failed("write", path);
    unlinkat(place.directory, temporary.c_str(), 0);
    return why;
  }
  return temporary;
}

FileSystem& RealFileSystem() {
  static PosixFiles file_system;
  return file_system;
}

}  // namespace harrow::os
