#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/core/core.h"
#include "agent/steps/environment.h"
#include "agent/steps/task.h"
#include "base/status.h"
#include "os/spawn.h"

namespace harrow::agent {

/// What an attempt is told of checkpoints; empty: nothing.
struct CheckpointVariables {
  std::string directory{};  // HARROW_CHECKPOINT_DIR
  std::string restart{};    // HARROW_RESTART: what it goes on from
  std::string request{};    // HARROW_CHECKPOINT_REQUEST
  std::string signal{};     // HARROW_CHECKPOINT_SIGNAL
  std::string status{};     // HARROW_CHECKPOINT_STATUS
  std::vector<std::string> holder{};  // words before those of the command: who has it dumped by CRIU
};

/// What the steps of an attempt put together before its process is started. What `request` points at stays
/// where it is until Settle.
struct Launch {
  const LocalTask& task;
  const Core::Given& given;
  WallTime start{};
  os::SpawnRequest request{};
  TaskVariables variables{};
  std::string sandbox{};    // where the task's files lie; empty: in the submit directory
  std::string directory{};  // where it begins, in a sandbox; empty: its profile's
  CheckpointVariables checkpoint{};
};

/// One concern of an attempt's process on its node (a directory, a pipe, an entry of the environment): what
/// it makes ready before the start, and what it looks after when the process has ended. The slot's thread
/// owns its steps and uses them for one attempt after the other, in the order of task_runner.cc.
class Step {
 public:
  virtual ~Step() = default;
  /// An error keeps the process from being started, and its text is the user's reason. What is known of the
  /// attempt by now goes into *result.
  virtual Status Prepare(Launch* launch, TaskResult* result) = 0;
  /// The process has ended, or was not started (End::kNotStarted; End::kRunning: it will be tried again).
  /// Called for each step that was prepared, in the opposite order.
  virtual void Settle(const LocalTask& /*task*/, TaskResult* /*result*/) {}
};

/// `path` below `directory`, unless it is absolute.
std::string Below(const std::string& directory, const std::string& path);
/// Makes the directories that `path` lies in, as far as they are missing; who needs them says what is wrong
/// when that does not succeed.
void MakeDirectoriesOf(const std::string& path);

}  // namespace harrow::agent
