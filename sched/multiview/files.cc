// Stores in files. A file's extents are taken with posix_fallocate, which turns a full disk into an error at once instead of a
// SIGBUS later, and given back by punching holes, or by making the file shorter where they are its end. What is free is used
// again, first fit, so that a program that runs for long does not reach the longest file there can be.
//
// Going beyond RLIMIT_FSIZE would end the process by SIGXFSZ: the limit is asked first.
#include "multiview/files.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <new>

namespace harrow::multiview {
namespace {

constexpr std::size_t kReserveAtOnce = std::size_t{1} << 30;

std::size_t LongestFile() {
  rlimit limit;
  const auto most = static_cast<std::size_t>(INT64_MAX);
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return most;
  return std::min<std::size_t>(limit.rlim_cur, most);
}

// An error number, or 0. What cannot fit is not begun: it would fill the disk for everybody until it is given back. In steps, so
// that a signal now and then does not begin it all again.
int Reserve(int descriptor, std::size_t offset, std::size_t bytes) {
  struct statvfs disk;
  if (fstatvfs(descriptor, &disk) == 0 && bytes / disk.f_frsize > disk.f_bavail) return ENOSPC;
  while (bytes > 0) {
    const std::size_t some = std::min(bytes, kReserveAtOnce);
    const int e = posix_fallocate(descriptor, static_cast<off_t>(offset), static_cast<off_t>(some));
    if (e == EINTR) continue;
    if (e != 0) return e;
    offset += some;
    bytes -= some;
  }
  return 0;
}

}  // namespace

FileSpace::File::~File() {
  if (descriptor >= 0) close(descriptor);
}

Result<FileSpace::File*> FileSpace::Open() {
  int descriptor = open(directory_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (descriptor < 0) {
    // Not every file system has files that never had a name.
    std::string name = directory_ + "/multiview-XXXXXX";
    descriptor = mkostemp(name.data(), O_CLOEXEC);
    if (descriptor < 0) {
      return Status(Code::kStorage, "cannot create a file of elements in " + directory_ + ": " + std::strerror(errno));
    }
    unlink(name.c_str());
  }
  files_.emplace_back().descriptor = descriptor;
  return &files_.back();
}

// An error number, or 0; EFBIG where this file cannot become long enough.
int FileSpace::TakeFrom(File* file, std::size_t bytes, std::size_t longest, Extent* extent) {
  *extent = {file, file->length, bytes};
  const auto fits = std::find_if(file->free.begin(), file->free.end(), [&](const auto& f) { return f.second >= bytes; });
  if (fits != file->free.end()) {
    extent->offset = fits->first;
    const std::size_t rest = fits->second - bytes;
    file->free.erase(fits);
    if (rest > 0) file->free[extent->offset + bytes] = rest;
  } else if (file->length <= longest - bytes) {
    file->length += bytes;
  } else {
    return EFBIG;
  }
  const int e = Reserve(file->descriptor, extent->offset, bytes);
  if (e != 0) Give(*extent);
  return e;
}

Result<FileSpace::Extent> FileSpace::Take(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t longest = LongestFile() / page * page;
  const auto fail = [&](int e) {
    std::string why = "no space for " + std::to_string(bytes) + " bytes in files in " + directory_ + ": " + std::strerror(e);
    if (e == EFBIG) why += "; a file may have " + std::to_string(longest) + " bytes (ulimit -f)";
    return Status(Code::kStorage, std::move(why));
  };
  if (bytes > longest) return fail(EFBIG);
  const std::size_t whole = std::max((bytes + page - 1) / page * page, page);
  if (whole > longest) return fail(EFBIG);
  Extent extent;
  for (auto file = files_.begin(); file != files_.end();) {
    const int e = TakeFrom(&*file++, whole, longest, &extent);
    if (e == 0) return extent;
    if (e != EFBIG) return fail(e);
  }
  auto opened = Open();
  if (!opened) return opened.status();
  if (const int e = TakeFrom(*opened, whole, longest, &extent); e != 0) return fail(e);
  return extent;
}

void FileSpace::Give(const Extent& extent) {
  File& file = *extent.file;
  std::size_t begin = extent.offset, end = extent.offset + extent.bytes;
  auto next = file.free.upper_bound(begin);
  if (next != file.free.end() && next->first == end) {
    end += next->second;
    next = file.free.erase(next);
  }
  if (next != file.free.begin()) {
    if (const auto before = std::prev(next); before->first + before->second == begin) {
      begin = before->first;
      file.free.erase(before);
    }
  }
  if (end < file.length) {
    // Where the file system cannot do it the space remains taken until it is used again.
    fallocate(file.descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(extent.offset),
              static_cast<off_t>(extent.bytes));
    try {
      file.free[begin] = end - begin;
    } catch (...) {  // then it is not used again: this runs in destructors
    }
    return;
  }
  file.length = begin;
  if (begin > 0) {
    [[maybe_unused]] const int ignored = ftruncate(file.descriptor, static_cast<off_t>(begin));
    return;
  }
  files_.remove_if([&](const File& f) { return &f == &file; });
}

}  // namespace harrow::multiview
