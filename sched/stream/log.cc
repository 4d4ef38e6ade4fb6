// A log's bytes go from the writer's pipe into the file without coming by here (splice); where a file system
// has no such thing they are copied. A log is read while it grows, up to length(), which is set after the
// bytes are there.
#include "stream/log.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

#include "base/text.h"

namespace harrow::stream {
namespace {

constexpr size_t kTake = 512u << 10;
constexpr size_t kCopy = 64u << 10;

}  // namespace

Status CannotKeep(int error) {
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    return Status(Code::kExhausted,
                  StrCat("what it writes to its streams does not fit on the node's disk: ", strerror(error),
                         "; more room is needed where --local-dir or TMPDIR leads"));
  }
  return Status(Code::kDamaged, StrCat("what it writes to its streams cannot be kept: ", strerror(error)));
}

Status LogWriter::Open(Log* log) {
  log_ = log;
  file_ = os::Fd(::open(log->path().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file_.ok()) return {};
  const int error = errno;
  Status status = CannotKeep(error);
  return error == EEXIST ? Status(Code::kExists, status.message()) : status;
}

Result<int64_t> LogWriter::TakeFrom(int pipe) {
  if (!splices_) return Copy(pipe);
  off64_t at = log_->length_.load(std::memory_order_relaxed);
  const ssize_t n = TEMP_FAILURE_RETRY(splice(pipe, nullptr, file_.get(), &at, kTake, SPLICE_F_MOVE | SPLICE_F_NONBLOCK));
  if (n < 0 && errno == EAGAIN) return Status(Code::kUnavailable, "nothing is there");
  if (n < 0 && (errno == EINVAL || errno == ENOSYS)) {
    splices_ = false;
    return Copy(pipe);
  }
  if (n < 0) return CannotKeep(errno);
  if (n > 0) log_->length_.fetch_add(n);
  return int64_t{n};
}

/// Waits where nothing is there: to be called when something is.
Result<int64_t> LogWriter::Copy(int pipe) {
  char buffer[kCopy];
  const ssize_t n = TEMP_FAILURE_RETRY(read(pipe, buffer, sizeof buffer));
  if (n < 0 && errno == EAGAIN) return Status(Code::kUnavailable, "nothing is there");
  if (n < 0) return CannotKeep(errno);
  const int64_t at = log_->length_.load(std::memory_order_relaxed);
  for (ssize_t done = 0; done < n;) {
    const ssize_t m = TEMP_FAILURE_RETRY(pwrite(file_.get(), buffer + done, static_cast<size_t>(n - done), at + done));
    if (m <= 0) return CannotKeep(m < 0 ? errno : ENOSPC);
    done += m;
  }
  if (n > 0) log_->length_.fetch_add(n);
  return int64_t{n};
}

Status ReadAll(int fd, int64_t offset, char* to, size_t size) {
  for (size_t done = 0; done < size;) {
    const ssize_t n = TEMP_FAILURE_RETRY(pread(fd, to + done, size - done, offset + static_cast<int64_t>(done)));
    if (n <= 0) {
      return Status(Code::kDamaged, StrCat("what was written to streams cannot be read again: ",
                                           n < 0 ? strerror(errno) : "the file has become shorter"));
    }
    done += static_cast<size_t>(n);
  }
  return {};
}

}  // namespace harrow::stream
