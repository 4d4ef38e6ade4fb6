#include "agent/steps/written.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>
#include <utility>

#include "base/text.h"

namespace harrow::agent {

Status WrittenStream::Open(AttemptId attempt, int pipe_bytes, bool goes_on) {
  Reset();
  goes_on_ = goes_on;
  Result<std::shared_ptr<stream::Log>> log = host_->Write(attempt);
  if (!log.ok()) return log.status();
  log_ = *std::move(log);
  HARROW_RETURN_IF_ERROR(writer_.Open(log_.get()));
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return Status(Code::kExhausted, StrCat("no pipe for its streams: ", strerror(errno)));
  read_fd_ = os::Fd(ends[0]);
  write_fd_ = os::Fd(ends[1]);
  (void)fcntl(ends[0], F_SETPIPE_SZ, pipe_bytes);
  return {};
}

void WrittenStream::Reset() {
  CloseAll();
  kept_ = {};
  goes_on_ = discards_ = false;
  log_.reset();
}

void WrittenStream::CloseReadEnd() {
  read_fd_ = os::Fd();
  writer_.Close();
}

void WrittenStream::CloseAll() {
  CloseWriteEnd();
  CloseReadEnd();
}

void WrittenStream::TakeIn(short revents) {
  if (revents == 0) return;
  if (discards_) return Discard();
  const Result<int64_t> taken = writer_.TakeFrom(read_fd_.get());
  if (taken.ok() && *taken > 0) {
    if (log_->TakeWatch()) host_->Grown(log_->attempt());
    return;
  }
  if (taken.status().code() == Code::kUnavailable && (revents & POLLHUP) == 0) return;
  if (!taken.ok() && taken.status().code() != Code::kUnavailable) kept_ = taken.status();
  CloseReadEnd();
}

void WrittenStream::CloseUnread() {
  if (!open() || discards_ || !log_->closed()) return;
  log_->CutOff();
  if (goes_on_) {
    discards_ = true;
  } else {
    CloseReadEnd();
  }
}

/// Called when something is there, or its end.
void WrittenStream::Discard() {
  char buffer[16 << 10];
  const ssize_t n = TEMP_FAILURE_RETRY(read(read_fd_.get(), buffer, sizeof buffer));
  if (n <= 0) CloseReadEnd();
}

void WrittenStream::Judge(TaskResult* result) const {
  if (kept_.ok()) return;
  const bool succeeded = result->succeeded();
  if (succeeded) result->end = End::kMissingOutput;
  if (result->message.empty() && (succeeded || result->end == End::kSignaled || result->end == End::kExited))
    result->message = kept_.message();
}

}  // namespace harrow::agent
