#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "os/posix_files.h"
#include "output/packed_output.h"

namespace harrow::agent {

/// Where the text of tasks goes.
class OutputSink {
 public:
  virtual ~OutputSink() = default;
  /// Offset of the first record. Waits while storage is far behind.
  virtual uint64_t AddOutput(uint32_t task, uint32_t attempt, output::Stream stream, std::string_view data,
                             std::optional<uint32_t> rank) = 0;
};

/// One captured stream of one attempt: its pipe, what was read and not handed on yet, and the byte limit. Of
/// one thread.
class CapturedStream {
 public:
  CapturedStream(output::Stream stream, OutputSink& sink) : stream_(stream), sink_(sink) {}

  /// A new pipe for an attempt; false with errno when there is none to be had.
  bool Open(uint32_t task, uint32_t attempt, uint64_t byte_limit, std::optional<uint32_t> rank);
  /// No capture for this attempt.
  void Reset();
  int read_fd() const { return read_fd_.get(); }  // -1: at its end
  int write_fd() const { return write_fd_.get(); }
  void CloseWriteEnd() { write_fd_ = os::Fd(); }
  /// Acts on what poll() said of read_fd(): takes in what is there, or closes it when nobody can write any
  /// more.
  void TakeIn(short revents);
  /// Hands on what was read. Before the result.
  void HandOn();
  void CloseAll();

  bool open() const { return read_fd_.ok(); }
  size_t waiting_bytes() const { return waiting_.size(); }
  uint64_t first_offset() const { return first_offset_; }  // 0: no output
  uint64_t kept_bytes() const { return kept_; }
  bool truncated() const { return truncated_; }

 private:
  const output::Stream stream_;
  OutputSink& sink_;
  os::Fd read_fd_, write_fd_;
  uint32_t task_ = 0;
  uint32_t attempt_ = 0;
  std::optional<uint32_t> rank_;
  uint64_t limit_ = 0;
  std::string waiting_;
  uint64_t kept_ = 0;
  uint64_t first_offset_ = 0;
  bool truncated_ = false;
};

}  // namespace harrow::agent
