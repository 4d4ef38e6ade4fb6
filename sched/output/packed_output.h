#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "os/file_system.h"

namespace harrow::output {

enum class Stream : uint8_t { kStdout = 1, kStderr = 2 };

/// Packed output of one agent incarnation: PART/output/<number>.out, self-framed records (output_format.md),
/// and <number>.idx, which can be rebuilt from it. Writer: any thread; Reader: other processes, also while it
/// grows.
class Writer {
 public:
  /// kExists when there is output of that number.
  static Result<std::unique_ptr<Writer>> Create(os::FileSystem& fs, const std::string& run_dir,
                                                uint32_t file_number);
  /// Of a number that no other has, which many may ask for at once; `draw` gives random numbers. At most a few tries
  /// each, which cost a sync, however many ask.
  static Result<std::unique_ptr<Writer>> CreateNew(os::FileSystem& fs, const std::string& run_dir,
                                                   const std::function<uint32_t()>& draw, uint32_t* file_number);
  virtual ~Writer() = default;
  /// Appends one piece of an attempt's output; returns the offset of its record. Buffered. `rank`: of an MPI
  /// task, who wrote it.
  virtual Result<uint64_t> Append(TaskId task, uint32_t attempt, Stream stream, std::string_view data,
                                  std::optional<uint32_t> rank) = 0;
  /// Hands what is buffered to the kernel, in one write: before a result is acknowledged. On an error it
  /// stays buffered, and offsets hold when a later call succeeds.
  virtual Status Flush() = 0;
  /// Forgets what is buffered, for good: it cannot be written.
  virtual void Discard() = 0;
  virtual size_t buffered_bytes() const = 0;
  virtual Status Sync() = 0;
};

/// The number of a file, and of which part of the run it is where that is not the first: part << 32 | number.
using FileNumber = uint64_t;

struct Piece {
  TaskId task;
  uint32_t attempt = 0;
  Stream stream = Stream::kStdout;
  uint64_t offset = 0;  // of the record
  std::string data;
  std::optional<uint32_t> rank = {};  // of an MPI task; none where the version that wrote it did not tell
};

/// A damaged record is skipped, and told once what can be read has been delivered: kDamaged, with file and
/// place.
class Reader {
 public:
  static Result<std::unique_ptr<Reader>> Open(os::FileSystem& fs, const std::string& run_dir);
  /// Of several parts of a run, the first one first, each through its own file system, which outlive this.
  struct Place {
    uint32_t part = 0;
    os::FileSystem* fs = nullptr;
    std::string dir;
  };
  static std::unique_ptr<Reader> OpenAll(std::vector<Place> places);
  virtual ~Reader() = default;
  /// Pieces of one attempt in order, from `file` at `offset` (0: its start) on.
  virtual Status ReadAttempt(FileNumber file, uint64_t offset, TaskId task, uint32_t attempt,
                             const std::function<void(const Piece&)>& piece) = 0;
  /// The last `bytes` of one stream of an attempt; of one of its ranks, if `rank` says so.
  virtual Result<std::string> Tail(FileNumber file, uint64_t offset, TaskId task, uint32_t attempt, Stream stream,
                                   size_t bytes, std::optional<uint32_t> rank = {}) = 0;
  /// All pieces of all files that came since the last call (for logs -f).
  virtual Status ReadNew(const std::function<void(FileNumber file, const Piece&)>& piece) = 0;
};

}  // namespace harrow::output
