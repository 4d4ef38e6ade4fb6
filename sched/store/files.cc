#include "store/files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <memory>
#include <sys/ioctl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/text.h"

namespace harrow::store {
namespace {

constexpr size_t kBlock = 256u << 10;  // stays in the second-level cache between read, hash and write
constexpr time_t kObjectTime = 946'684'800;

char* Block() {
  thread_local std::unique_ptr<char[]> block;
  if (block == nullptr) block = std::make_unique_for_overwrite<char[]>(kBlock);  // pages that are used
  return block.get();
}

Code CodeOf(int error) {
  switch (error) {
    case ENOENT:
      return Code::kNotFound;
    case EEXIST:
    case ENOTEMPTY:
      return Code::kExists;
    case EACCES:
    case EPERM:
    case EROFS:
      return Code::kPermission;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return Code::kExhausted;
    case EISDIR:
    case ENOTDIR:
    case ELOOP:
    case EINVAL:
    case ENAMETOOLONG:
      return Code::kInvalid;
    default:
      return Code::kUnavailable;
  }
}

std::string WhatIsFree(int disk) {
  struct statvfs info {};
  if (disk < 0 || fstatvfs(disk, &info) != 0) return {};
  return StrCat(" (", FormatBytes(static_cast<uint64_t>(info.f_bavail) * info.f_frsize), " and ",
                info.f_favail, " inodes of the disk are free)");
}

}  // namespace

Status Failed(std::string_view what, std::string_view path, int error, int disk) {
  const bool full = error == ENOSPC || error == EDQUOT;
  return Status(CodeOf(error), StrCat("cannot ", what, " ", Printable(path, 400), ": ", strerror(error),
                                      full ? WhatIsFree(disk) : std::string()));
}

bool WriteAt(int fd, int64_t offset, std::string_view data) {
  while (!data.empty()) {
    const ssize_t n = TEMP_FAILURE_RETRY(pwrite(fd, data.data(), data.size(), offset));
    if (n < 0) return false;
    data.remove_prefix(static_cast<size_t>(n));
    offset += n;
  }
  return true;
}

Result<std::string> ReadAll(int fd, std::string_view path, size_t limit) {
  std::string out;
  struct stat info {};
  if (fstat(fd, &info) != 0) return Failed("read", path);
  out.resize(std::min(limit, static_cast<size_t>(std::max<off_t>(info.st_size, 0))));
  size_t have = 0;
  while (have < out.size()) {
    const ssize_t n = TEMP_FAILURE_RETRY(pread(fd, out.data() + have, out.size() - have, static_cast<off_t>(have)));
    if (n < 0) return Failed("read", path);
    if (n == 0) break;
    have += static_cast<size_t>(n);
  }
  out.resize(have);
  return out;
}

Copied ReadThrough(int from, int64_t offset, Hasher* hasher, int to) {
  Copied done;
  char* block = Block();
  for (;;) {
    const ssize_t n = TEMP_FAILURE_RETRY(pread(from, block, kBlock, offset + done.bytes));
    if (n < 0) done.read_error = errno;
    if (n <= 0) return done;
    const size_t size = static_cast<size_t>(n);
    if (hasher != nullptr) hasher->Add(block, size);
    if (to >= 0 && !WriteAt(to, offset + done.bytes, {block, size})) {
      done.write_error = errno;
      return done;
    }
    done.bytes += n;
  }
}

Copied CopyWhole(int from, int to, int64_t bytes) {
  constexpr size_t kAtOnce = 64u << 20;
  loff_t in = 0, out = 0;
  while (in < bytes) {
    const ssize_t n = TEMP_FAILURE_RETRY(copy_file_range(from, &in, to, &out, kAtOnce, 0));
    if (n < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EIO)) {
      return {.bytes = in, .read_error = 0, .write_error = errno};
    }
    if (n <= 0) break;  // not between these two; or a file system that reports nothing
  }
  if (in >= bytes) return {.bytes = in, .read_error = 0, .write_error = 0};
  Copied rest = ReadThrough(from, in, nullptr, to);
  rest.bytes += in;
  return rest;
}

int Clone(int from, int to) {
  return ioctl(to, FICLONE, from) == 0 ? 0 : errno;
}

bool NeverWorks(int error) {
  return error == EOPNOTSUPP || error == ENOTTY || error == ENOSYS || error == EXDEV || error == EPERM ||
         error == EINVAL || error == EBADF;
}

bool HasObjectTime(const struct stat& info) {
  return info.st_mtim.tv_sec == kObjectTime && info.st_mtim.tv_nsec == 0;
}

bool Seal(int fd, bool program) {
  const struct timespec times[2] = {{kObjectTime, 0}, {kObjectTime, 0}};
  return fchmod(fd, program ? 0555 : 0444) == 0 && futimens(fd, times) == 0;
}

int List(int directory, std::vector<Listed>* out) {
  Fd again = OpenAt(directory, ".", O_RDONLY | O_DIRECTORY);
  if (!again.ok()) return errno;
  DIR* dir = fdopendir(again.get());
  if (dir == nullptr) return errno;
  again.Release();
  errno = 0;
  while (const dirent* entry = readdir(dir)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") out->push_back({std::string(name), entry->d_type});
    errno = 0;
  }
  const int error = errno;
  closedir(dir);
  return error;
}

}  // namespace harrow::store
