#pragma once

#include <cstdint>
#include <string>

#include "agent/steps/step.h"
#include "agent/steps/tmp_tree.h"
#include "base/status.h"
#include "base/time.h"

namespace harrow::agent {

/// TMPDIR of the tasks of one slot: made at the first use, looked at after each task, emptied when one left
/// something. Of one thread.
class SlotTmp : public Step {
 public:
  SlotTmp(const TmpRoot& root, uint32_t slot);

  Status Prepare(Launch* launch, TaskResult* result) override;
  void Settle(const LocalTask& task, TaskResult* result) override;

 private:
  /// It is there, and empty.
  Status Make();
  /// What bears our name.
  bool Remove();

  const TmpRoot root_;
  const std::string name_, path_;
  os::Fd root_fd_;
  os::Fd fd_;                        // the directory, as it was made
  uint64_t device_ = 0, inode_ = 0;  // of fd_
  WallTime known_empty_{};           // its time of change when it was empty
  WallTime task_start_{}, looked_up_{};
};

}  // namespace harrow::agent
