#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"

namespace harrow::journal {

/// RUN/journal.acknowledged: the last group that was acknowledged as durable. It is written after the group
/// is on disk and never synced itself, so whatever version of it survives is a true lower bound: a journal
/// that reads back with fewer groups has lost some. (SQLite alone takes a damaged or cut WAL for the end of
/// what was written.)
class Acknowledged {
 public:
  struct Mark {
    uint64_t group = 0;
    uint64_t chain = 0;  // of that group
  };

  explicit Acknowledged(const std::string& run_dir);
  ~Acknowledged();
  Acknowledged(const Acknowledged&) = delete;
  Acknowledged& operator=(const Acknowledged&) = delete;

  /// Nothing when the file is absent or does not read as one mark.
  std::optional<Mark> Read() const;
  Status OpenForWriting();
  /// A failure costs nothing but the check.
  void Write(const Mark& mark);

 private:
  std::string path_;
  int fd_ = -1;
};

}  // namespace harrow::journal
