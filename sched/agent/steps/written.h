#pragma once

#include <memory>

#include "agent/steps/stream_host.h"
#include "base/status.h"
#include "os/posix_files.h"
#include "stream/log.h"

namespace harrow::agent {

/// Standard output of an attempt that writes to streams: its pipe, and the log that keeps what comes. Of one
/// thread.
class WrittenStream {
 public:
  explicit WrittenStream(StreamHost* host) : host_(host) {}

  /// `goes_on`: it is not ended when nobody reads it any more.
  Status Open(AttemptId attempt, int pipe_bytes, bool goes_on);
  void Reset();
  int read_fd() const { return read_fd_.get(); }  // -1: at its end
  int write_fd() const { return write_fd_.get(); }
  void CloseWriteEnd() { write_fd_ = os::Fd(); }
  /// Acts on what poll() said of read_fd().
  void TakeIn(short revents);
  /// Nobody reads what it writes any more: it is told so as a shell does (SIGPIPE), or, where it goes on,
  /// nothing more is kept.
  void CloseUnread();
  void CloseAll();
  /// What was not kept makes of its end.
  void Judge(TaskResult* result) const;

  bool open() const { return read_fd_.ok(); }

 private:
  void CloseReadEnd();
  void Discard();

  StreamHost* const host_;
  std::shared_ptr<stream::Log> log_{};
  stream::LogWriter writer_;
  Status kept_{};
  os::Fd read_fd_, write_fd_;
  bool goes_on_ = false, discards_ = false;
};

}  // namespace harrow::agent
