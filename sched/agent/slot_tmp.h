#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "base/time.h"

namespace harrow::agent {

/// TMPDIR of the tasks of one slot: made at the first use, looked at after each task, emptied when one left
/// something. Of one thread.
class SlotTmp {
 public:
  SlotTmp(std::string root, uint32_t slot);
  ~SlotTmp();
  SlotTmp(const SlotTmp&) = delete;
  SlotTmp& operator=(const SlotTmp&) = delete;

  /// The directory, there and empty. `now` is calendar time.
  Result<std::string> Prepare(WallTime now);
  void CleanAfterTask();

 private:
  std::string path_;
  int fd_ = -1;             // the directory, to look at it cheaply
  WallTime known_empty_{};  // its time of change when it was empty
  WallTime task_start_{};
};

}  // namespace harrow::agent
