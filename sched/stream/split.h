#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "base/records.h"
#include "base/status.h"

namespace harrow::stream {

/// Which bytes of a log.
struct Range {
  int64_t offset = 0;
  int64_t bytes = 0;
  bool operator==(const Range&) const = default;
};

/// Who of a stream's readers gets which records of one log (how: split.cc). Of one thread.
class Split {
 public:
  /// Reads at `offset` into `to`, `size` bytes that are there.
  using Read = std::function<Status(int64_t offset, char* to, size_t size)>;

  explicit Split(Records records) : records_(records) {}

  /// A reader that is there now, whatever it has been given before.
  void Come() { ++readers_; }
  void Leave() { --readers_; }

  /// What follows the first `at` bytes that are that reader's: something that it has been given before, or
  /// else a block of the next records that nobody has. `length`: of the log so far; `over`: it will not
  /// become longer. Of 0 bytes: nothing is there now, and where it is `over` nothing will be.
  Result<Range> Next(TaskId reader, int64_t at, int64_t length, bool over, const Read& read);
  /// So many are its own already.
  int64_t given(TaskId reader) const;

 private:
  struct Given {
    int64_t at = 0;  // so many of the reader's come before
    Range range{};
  };
  /// How long the next block is; 0: no record has ended yet.
  Result<int64_t> Block(int64_t length, bool over, const Read& read);

  const Records records_;
  int64_t readers_ = 0;
  int64_t next_ = 0;      // nobody has what is there and beyond
  int64_t searched_ = 0;  // from next_ up to here no record ends
  std::unordered_map<TaskId, std::vector<Given>> given_;
};

}  // namespace harrow::stream
