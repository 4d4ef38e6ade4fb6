#include "os/file_system.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "base/text.h"

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

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }
  bool ok() const { return fd_ >= 0; }

 private:
  int fd_;
};

Fd OpenFd(const char* path, int flags, mode_t mode = 0) {
  int fd;
  do {
    fd = open(path, flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  return Fd(fd);
}

bool WriteAll(int fd, std::string_view data) {
  while (!data.empty()) {
    ssize_t n = write(fd, data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
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
    ssize_t n = S_ISREG(st.st_mode) ? pread(fd, out.data() + have, want, static_cast<off_t>(offset + have))
                                    : read(fd, out.data() + have, want);
    if (n < 0 && errno == EINTR) n = -2;
    out.resize(have + static_cast<size_t>(std::max<ssize_t>(n, 0)));
    if (n == -1) return Failed("read", path);
    if (n == 0) break;
  }
  return out;
}

std::string DirectoryOf(const std::string& path) {
  size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Status SyncDirectory(const std::string& directory) {
  Fd fd = OpenFd(directory.c_str(), O_RDONLY | O_DIRECTORY);
  if (!fd.ok()) return Failed("sync", directory);
  // Some file systems (FUSE) know no fsync of a directory.
  if (fsync(fd.get()) != 0 && errno != EINVAL && errno != ENOSYS && errno != ENOTSUP)
    return Failed("sync", directory);
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

class PosixFileSystem : public FileSystem {
 public:
  Result<std::string> Read(const std::string& path, uint64_t limit) override {
    return ReadRange(path, 0, limit);
  }

  Result<std::string> ReadRange(const std::string& path, uint64_t offset, uint64_t length) override {
    Fd fd = OpenFd(path.c_str(), O_RDONLY);
    if (!fd.ok()) return Failed("read", path);
    return ReadFd(fd.get(), path, offset, length);
  }

  Result<std::string> ReadPrivate(const std::string& path, uint64_t limit) override {
    // O_NONBLOCK: a FIFO put there must not hold us.
    Fd fd = OpenFd(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    if (!fd.ok() && errno == ELOOP) {
      return Status(Code::kPermission,
                    StrCat(path, " is a symbolic link; a file that holds a key must not be one"));
    }
    if (!fd.ok()) return Failed("read", path);
    struct stat st {};
    if (fstat(fd.get(), &st) != 0) return Failed("read", path);
    if (!S_ISREG(st.st_mode)) return Status(Code::kPermission, StrCat(path, " is not a plain file"));
    if (st.st_uid != geteuid()) {
      return Status(Code::kPermission,
                    StrCat(path, " belongs to user ", st.st_uid, ", not to you (", geteuid(), ")"));
    }
    if ((st.st_mode & 077) != 0) {
      return Status(Code::kPermission,
                    StrCat(path, " is open to others; it holds a key and must have mode 0600"));
    }
    return ReadFd(fd.get(), path, 0, limit);
  }

  Status WriteWhole(const std::string& path, std::string_view data, uint32_t mode) override {
    Result<std::string> temporary = WriteTemporary(path, data, mode);
    if (!temporary.ok()) return temporary.status();
    if (rename(temporary->c_str(), path.c_str()) != 0) {
      Status why = Failed("write", path);
      unlink(temporary->c_str());
      return why;
    }
    return SyncDirectory(DirectoryOf(path));
  }

  Status CreateWhole(const std::string& path, std::string_view data, uint32_t mode) override {
    Result<std::string> temporary = WriteTemporary(path, data, mode);
    if (!temporary.ok()) return temporary.status();
    // link() fails when the name exists, on local and network file systems alike.
    int rc = link(temporary->c_str(), path.c_str());
    if (rc != 0 && (errno == EPERM || errno == ENOTSUP || errno == ENOSYS)) {
      rc = renameat2(AT_FDCWD, temporary->c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE);
    }
    Status why = rc == 0 ? Status() : Failed("create", path);
    unlink(temporary->c_str());
    if (rc == 0) why = SyncDirectory(DirectoryOf(path));
    return why;
  }

  Result<std::unique_ptr<AppendFile>> OpenAppend(const std::string& path, uint32_t mode) override {
    Fd fd = OpenFd(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, mode);
    struct stat st {};
    if (!fd.ok() || fstat(fd.get(), &st) != 0) return Failed("open", path);
    return std::unique_ptr<AppendFile>(
        std::make_unique<PosixAppendFile>(std::move(fd), path, static_cast<uint64_t>(st.st_size)));
  }

  Result<FileInfo> Stat(const std::string& path) override {
    struct stat st {};
    if (stat(path.c_str(), &st) != 0) return Failed("look at", path);
    FileInfo info;
    info.is_directory = S_ISDIR(st.st_mode);
    info.size = static_cast<uint64_t>(st.st_size);
    info.modified =
        WallTime(std::chrono::seconds(st.st_mtim.tv_sec) + std::chrono::nanoseconds(st.st_mtim.tv_nsec));
    return info;
  }

  Result<std::vector<std::string>> List(const std::string& directory) override {
    DIR* dir = opendir(directory.c_str());
    if (dir == nullptr) return Failed("list", directory);
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

  Status MakeDirectories(const std::string& path, uint32_t mode) override {
    for (size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
      std::string part = path.substr(0, slash);
      if (mkdir(part.c_str(), mode) != 0) {
        int error = errno;
        struct stat st {};
        bool there = stat(part.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
        errno = error;
        if (!there) return Failed("make directory", part);
      }
      if (slash == std::string::npos) return {};
    }
  }

  Status Rename(const std::string& from, const std::string& to) override {
    if (rename(from.c_str(), to.c_str()) != 0) return Failed(StrCat("rename ", from, " to"), to);
    return {};
  }

  Status Remove(const std::string& path) override {
    if (unlink(path.c_str()) == 0) return {};
    if ((errno == EISDIR || errno == EPERM) && rmdir(path.c_str()) == 0) return {};
    return Failed("remove", path);
  }

  Status RemoveTree(const std::string& path) override {
    if (unlink(path.c_str()) == 0) return {};
    if (errno != EISDIR && errno != EPERM) return Failed("remove", path);
    return RemoveTreeAt(AT_FDCWD, path.c_str(), path);
  }

 private:
  Result<std::string> WriteTemporary(const std::string& path, std::string_view data, mode_t mode) {
    // Unique over the nodes that share a directory, where a process number is not.
    uint64_t unique = 0;
    if (getrandom(&unique, sizeof unique, 0) != sizeof unique) return Failed("write", path);
    size_t name = path.rfind('/') + 1;  // npos + 1 is 0
    std::string temporary =
        StrCat(path.substr(0, name), ".", path.substr(name), ".", getpid(), ".", unique, ".tmp");
    Fd fd = OpenFd(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
    if (!fd.ok()) return Failed("write", path);
    if (!WriteAll(fd.get(), data) || fsync(fd.get()) != 0) {
      Status why = Failed("write", path);
      unlink(temporary.c_str());
      return why;
    }
    return temporary;
  }

  // Goes down by descriptors, so that a directory swapped for a link meanwhile leads nowhere else.
  static Status RemoveTreeAt(int parent, const char* name, const std::string& path) {
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
      if (first.ok()) first = why;
    }
    closedir(dir);
    if (first.ok() && unlinkat(parent, name, AT_REMOVEDIR) != 0) return Failed("remove", path);
    return first;
  }
};

}  // namespace

FileSystem& RealFileSystem() {
  static PosixFileSystem file_system;
  return file_system;
}

}  // namespace harrow::os
