#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <poll.h>

#include "agent/steps/capture.h"
#include "agent/steps/step.h"
#include "agent/steps/stream_host.h"
#include "agent/steps/written.h"
#include "os/posix_files.h"

namespace harrow::agent {

/// A task's standard input, output and error: the files that it names, else pipes whose text goes to the
/// packed output. What it writes to streams is kept in a log of its own, and what it reads from streams comes
/// to it by a pipe that the stream host feeds.
class Streams : public Step {
 public:
  struct Host {
    std::function<bool()> may_run;  // whether tasks may run now (fence.h)
    std::function<bool()> to_end;   // the attempt is to be ended
    /// From now on until `false` the thread may wait for long (a FIFO that nobody opens); to be interrupted
    /// by a signal now and then.
    std::function<void(bool blocks)> blocks;
    StreamHost* streams = nullptr;  // null: no task has streams
  };
  /// `limit`: bytes that are kept of each stream, 0: all; may change between attempts.
  Streams(OutputSink& sink, const std::atomic<uint64_t>& limit, Host host)
      : limit_(limit),
        host_(std::move(host)),
        stdout_(output::Stream::kStdout, sink),
        stderr_(output::Stream::kStderr, sink),
        written_(host_.streams) {}

  Status Prepare(Launch* launch, TaskResult* result) override;
  void Settle(const LocalTask& task, TaskResult* result) override;

  /// The process has its ends, or was not started.
  void CloseOwnEnds();
  /// For poll(); -1: nothing will come.
  std::array<pollfd, 2> ToPoll() const;
  /// Acts on what poll() said of the two.
  void TakeIn(const pollfd* polled);
  void HandOn();
  /// Nobody can write any more, or is waited for.
  void CloseAll();

  /// Closes what it is to write no more to its streams.
  void CloseUnread() { written_.CloseUnread(); }

  bool open() const { return stdout_.open() || stderr_.open() || written_.open(); }
  /// It writes to streams that others do not read from its pipe.
  bool keeps_log() const { return written_.open(); }
  bool waiting() const { return stdout_.waiting_bytes() + stderr_.waiting_bytes() > 0; }
  /// The most that was kept of one of them, in bytes.
  uint64_t kept() const { return std::max(stdout_.kept_bytes(), stderr_.kept_bytes()); }

 private:
  Status OpenFiles(const LocalTask& task, const std::string& sandbox, uint32_t rank);
  Status OpenStreams(const LocalTask& task);
  Status OpenFor(const char* what, const std::string& path, int flags, os::Fd* fd) const;
  void BeginAnew(const LocalTask& task, int fd) const;

  const std::atomic<uint64_t>& limit_;
  const Host host_;
  CapturedStream stdout_, stderr_;
  WrittenStream written_;
  os::Fd in_, out_, err_;  // files that were opened, and of `in_` the end of a pipe
  bool one_file_ = false;  // out_ is for both
};

}  // namespace harrow::agent
