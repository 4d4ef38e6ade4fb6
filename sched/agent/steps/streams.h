#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <poll.h>

#include "agent/steps/capture.h"
#include "agent/steps/step.h"

namespace harrow::agent {

/// A task's standard input, output and error: the files that it names, else pipes whose text goes to the
/// packed output.
class Streams : public Step {
 public:
  struct Host {
    std::function<bool()> may_run;  // whether tasks may run now (fence.h)
    std::function<bool()> to_end;   // the attempt is to be ended
    /// From now on until `false` the thread may wait for long (a FIFO that nobody opens); to be interrupted
    /// by a signal now and then.
    std::function<void(bool blocks)> blocks;
  };
  /// `limit`: bytes that are kept of each stream, 0: all; may change between attempts.
  Streams(OutputSink& sink, const std::atomic<uint64_t>& limit, Host host)
      : limit_(limit),
        host_(std::move(host)),
        stdout_(output::Stream::kStdout, sink),
        stderr_(output::Stream::kStderr, sink) {}

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

  bool open() const { return stdout_.open() || stderr_.open(); }
  bool waiting() const { return stdout_.waiting_bytes() + stderr_.waiting_bytes() > 0; }
  /// The most that was kept of one of them, in bytes.
  uint64_t kept() const { return std::max(stdout_.kept_bytes(), stderr_.kept_bytes()); }

 private:
  Status OpenFiles(const LocalTask& task, const std::string& sandbox, uint32_t rank);
  Status OpenFor(const char* what, const std::string& path, int flags, int* fd) const;
  void BeginAnew(const LocalTask& task, int fd) const;

  const std::atomic<uint64_t>& limit_;
  const Host host_;
  CapturedStream stdout_, stderr_;
  int in_ = -1, out_ = -1, err_ = -1;  // files that were opened
  bool one_file_ = false;              // out_ is for both
};

}  // namespace harrow::agent
