#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

namespace harrow::plugin {

/// What stands for a descriptor where there is none; errno says why.
constexpr int kNoFd = -1;
/// To open a directory that is no link, to read it.
constexpr int kReadDirectory = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
/// To open a file that is no link, and be held up by no FIFO.
constexpr int kReadFile = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;

/// A descriptor that is closed with its owner; kNoFd: none.
class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  bool none() const { return fd_ < 0; }
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }
  operator int() const { return fd_; }

 private:
  int fd_;
};

/// The entries of an open directory, from the first one on.
class Listing {
 public:
  explicit Listing(int directory) {
    const int fd = openat(directory, ".", kReadDirectory);
    entries_ = fd == kNoFd ? nullptr : fdopendir(fd);
  }
  Listing(const Listing&) = delete;
  Listing& operator=(const Listing&) = delete;
  ~Listing() {
    if (entries_ != nullptr) closedir(entries_);
  }
  /// It cannot be read; errno says why, when asked at once.
  bool none() const { return entries_ == nullptr; }
  /// Null: there are no more.
  const dirent* Next() { return none() ? nullptr : readdir(entries_); }

 private:
  DIR* entries_;
};

}  // namespace harrow::plugin
