#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "journal/journal.h"
#include "run_dir/run_dir.h"

namespace harrow::journal {

/// A copy of a journal in a directory of its own below TMPDIR, which goes with it. Private to journal.
class JournalCopy {
 public:
  JournalCopy() = default;
  ~JournalCopy();
  JournalCopy(const JournalCopy&) = delete;
  JournalCopy& operator=(const JournalCopy&) = delete;

  /// kUnavailable: no directory can be made.
  Status Make();
  /// Copies the files of a journal. kExhausted: no room for them; kUnavailable.
  Status Take(run_dir::RunDir& from);
  const std::shared_ptr<run_dir::RunDir>& dir() const { return dir_; }
  /// What was read, with the journal's place in its message, not the copy's, which nobody has seen.
  Result<History> Named(const run_dir::RunDir& from, Result<History> read) const;

 private:
  std::shared_ptr<run_dir::RunDir> dir_;
};

}  // namespace harrow::journal
