#pragma once

#include <memory>

#include "agent/steps/stream_host.h"
#include "base/status.h"
#include "stream/log.h"

namespace harrow::agent {

/// Standard output of an attempt that writes to streams: its pipe, and the log that keeps what comes. Of one
/// thread.
class WrittenStream {
 public:
  explicit WrittenStream(StreamHost* host) : host_(host) {}
  ~WrittenStream() { CloseAll(); }
  WrittenStream(const WrittenStream&) = delete;
  WrittenStream& operator=(const WrittenStream&) = delete;

  /// `goes_on`: it is not ended when nobody reads it any more.
  Status Open(AttemptId attempt, int pipe_bytes, bool goes_on);
  void Reset();
  int read_fd() const { return read_fd_; }  // -1: at its end
  int write_fd() const { return write_fd_; }
  void CloseWriteEnd();
  /// Acts on what poll() said of read_fd().
  void TakeIn(short revents);
  /// Nobody reads what it writes any more: it is told so as a shell does (SIGPIPE), or, where it goes on,
  /// nothing more is kept.
  void CloseUnread();
  void CloseAll();
  /// What was not kept makes of its end.
  void Judge(TaskResult* result) const;

  bool open() const { return read_fd_ >= 0; }

 private:
  void CloseReadEnd();
  void Discard();

  StreamHost* const host_;
  std::shared_ptr<stream::Log> log_{};
  stream::LogWriter writer_;
  Status kept_{};
  int read_fd_ = -1;
  int write_fd_ = -1;
  bool goes_on_ = false, discards_ = false;
};

}  // namespace harrow::agent
