#pragma once

#include <cstdint>
#include <string>

#include "agent/tmp_tree.h"
#include "base/status.h"
#include "base/time.h"

namespace harrow::agent {

/// TMPDIR of the tasks of one slot: made at the first use, looked at after each task, emptied when one left
/// something. Of one thread.
class SlotTmp {
 public:
  SlotTmp(const TmpRoot& root, uint32_t slot);
  ~SlotTmp();
  SlotTmp(const SlotTmp&) = delete;
  SlotTmp& operator=(const SlotTmp&) = delete;

  /// The directory, there and empty. `now` is calendar time.
  Result<std::string> Prepare(WallTime now);
  void CleanAfterTask();

 private:
  /// What bears our name.
  bool Remove();

  const TmpRoot root_;
  const std::string name_, path_;
  int root_fd_ = -1;
  int fd_ = -1;                      // the directory, as it was made
  uint64_t device_ = 0, inode_ = 0;  // of fd_
  WallTime known_empty_{};           // its time of change when it was empty
  WallTime task_start_{};
};

}  // namespace harrow::agent
