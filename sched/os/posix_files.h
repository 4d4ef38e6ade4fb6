#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "os/file_system.h"

namespace harrow::os {

/// A descriptor that is closed with its owner.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }
  bool ok() const { return fd_ >= 0; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

/// openat with O_CLOEXEC, again where a signal came.
Fd OpenAt(int directory, const char* name, int flags, mode_t mode = 0);

/// FileSystem by the POSIX calls that start from a directory's descriptor. A derived class says where a path
/// leads and what may be used there; this one takes every path as the kernel does.
class PosixFiles : public FileSystem {
 public:
  Result<std::string> Read(const std::string& path, uint64_t limit = UINT64_MAX) override;
  Result<std::string> ReadRange(const std::string& path, uint64_t offset, uint64_t length) override;
  Result<std::string> ReadPrivate(const std::string& path, uint64_t limit) override;
  Status WriteWhole(const std::string& path, std::string_view data, uint32_t mode = 0644) override;
  Status CreateWhole(const std::string& path, std::string_view data, uint32_t mode = 0644) override;
  Result<std::unique_ptr<AppendFile>> OpenAppend(const std::string& path, uint32_t mode = 0644) override;
  Result<FileInfo> Stat(const std::string& path) override;
  Result<std::string> Resolve(const std::string& path) override;
  Result<std::vector<std::string>> List(const std::string& directory) override;
  Status MakeDirectories(const std::string& path, uint32_t mode = 0755) override;
  Status Rename(const std::string& from, const std::string& to) override;
  Status Remove(const std::string& path) override;
  Status RemoveTree(const std::string& path) override;

 protected:
  /// Where a path leads: a name as seen from a directory.
  struct Place {
    int directory = -1;  // a descriptor, or AT_FDCWD
    std::string name;
    Fd held;  // what `directory` is, if it was opened for this
  };
  enum class Use { kRead, kWrite, kEnter };  // kWrite: in place; what is replaced is not asked

  virtual Result<Place> Find(const std::string& path);
  /// May a file or directory, found at `path` to be `info`, be used so?
  virtual Status Check(const struct stat& info, const std::string& path, Use use);
  /// As Check, of a file that holds a key: whose it is, and that nobody else may read it.
  virtual Status CheckPrivate(const struct stat& info, const std::string& path);
  /// What every open of a file is given as well.
  virtual int OpenFlags() const { return 0; }
  /// How much of a path names what is there already, and is not to be made.
  virtual size_t Rooted() const { return 0; }

  Result<Fd> Open(const std::string& path, int flags, mode_t mode, Use use);

 private:
  Result<std::string> WriteTemporary(const Place& place, const std::string& path, std::string_view data,
                                     mode_t mode);
};

}  // namespace harrow::os
