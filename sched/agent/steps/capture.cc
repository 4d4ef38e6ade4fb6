#include "agent/steps/capture.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

namespace harrow::agent {
namespace {

constexpr size_t kHandOnBytes = 64 * 1024;

}  // namespace

void CapturedStream::Reset() {
  CloseAll();
  waiting_.clear();
  kept_ = 0;
  first_offset_ = 0;
  truncated_ = false;
}

bool CapturedStream::Open(uint32_t task, uint32_t attempt, uint64_t byte_limit,
                          std::optional<uint32_t> rank) {
  Reset();
  task_ = task;
  attempt_ = attempt;
  rank_ = rank;
  limit_ = byte_limit == 0 ? UINT64_MAX : byte_limit;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  read_fd_ = os::Fd(ends[0]);
  write_fd_ = os::Fd(ends[1]);
  return true;
}

void CapturedStream::CloseAll() {
  CloseWriteEnd();
  read_fd_ = os::Fd();
}

void CapturedStream::TakeIn(short revents) {
  if (revents == 0) return;
  char buffer[kHandOnBytes];
  const ssize_t n = (revents & POLLIN) != 0 ? TEMP_FAILURE_RETRY(read(read_fd_.get(), buffer, sizeof buffer)) : 0;
  if (n <= 0) {
    read_fd_ = os::Fd();
    return;
  }
  const auto size = static_cast<size_t>(n);
  const auto keep = static_cast<size_t>(std::min<uint64_t>(size, limit_ - std::min(limit_, kept_)));
  truncated_ = truncated_ || keep < size;
  kept_ += keep;
  waiting_.append(buffer, keep);
  if (waiting_.size() >= kHandOnBytes) HandOn();
}

void CapturedStream::HandOn() {
  if (waiting_.empty()) return;
  const uint64_t offset = sink_.AddOutput(task_, attempt_, stream_, waiting_, rank_);
  if (first_offset_ == 0) first_offset_ = offset;
  waiting_.clear();
}

}  // namespace harrow::agent
