#pragma once

#include <mutex>
#include <string>

#include "base/status.h"
#include "os/file_system.h"

namespace harrow::made {

/// The temporary files that one agent makes beside the results that it copies out: PART/output/N.copies, a
/// path and a NUL each (made_format.md). An agent that is killed cannot remove them; who ends the run does.
/// From any thread.
class Copies {
 public:
  Copies() = default;
  ~Copies();
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

  /// `path`: the file, made when there is something to write.
  void Set(std::string path);
  /// A temporary file is about to be made there. What cannot be written is as if it had never been known.
  void Add(const std::string& temporary);
  /// All of them have gone, or have their names.
  void Remove();

 private:
  std::mutex mutex_;
  std::string path_;  // of mutex_
  int fd_ = -1;       // of mutex_
};

/// Removes what agents that were killed have left (of the newest 20 000 of each), and their lists. No agent
/// of the part may run any more.
void RemoveLeftCopies(os::FileSystem& fs, const std::string& part);

}  // namespace harrow::made
