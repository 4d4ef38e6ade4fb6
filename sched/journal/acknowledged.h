#pragma once

#include <cstdint>
#include <optional>
#include <memory>
#include <string>

#include "base/status.h"
#include "run_dir/run_dir.h"

namespace harrow::journal {

/// PART/journal.acknowledged: the last group that was acknowledged as durable. It is written after the group
/// is on disk and never synced itself, so whatever version of it survives is a true lower bound: a journal
/// that reads back with fewer groups has lost some. (SQLite alone takes a damaged or cut WAL for the end of
/// what was written.)
class Acknowledged {
 public:
  struct Mark {
    uint64_t group = 0;
    uint64_t chain = 0;  // of that group
  };

  explicit Acknowledged(std::shared_ptr<run_dir::RunDir> dir);

  /// Nothing when the file is absent or does not read as one mark.
  std::optional<Mark> Read() const;
  Status OpenForWriting();
  /// A failure costs nothing but the check.
  void Write(const Mark& mark);

 private:
  std::shared_ptr<run_dir::RunDir> dir_;
  std::string path_;
  os::Fd fd_;
};

}  // namespace harrow::journal
