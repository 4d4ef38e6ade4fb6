#pragma once

#include <cstdint>
#include <sys/types.h>

#include "base/time.h"

namespace harrow::agent {

/// Whether a task and its descendants hold more memory than declared.
class MemoryWatch {
 public:
  static constexpr Duration kInterval = std::chrono::milliseconds(100);

  /// `limit` in bytes; 0: never exceeded.
  MemoryWatch(pid_t pid, uint64_t limit) : pid_(pid), limit_(limit) {}
  bool on() const { return limit_ > 0; }
  bool Exceeded() const;

 private:
  pid_t pid_;
  uint64_t limit_;
};

}  // namespace harrow::agent
