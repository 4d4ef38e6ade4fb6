#pragma once

#include <cstdint>
#include <vector>

#include "agent/steps/task.h"

namespace harrow::agent {

/// What the conversation with the server needs of the slots. Results come by the collector.
class TaskHost {
 public:
  virtual ~TaskHost() = default;
  /// In the order in which they are to start.
  virtual void Push(std::vector<LocalTask> tasks) = 0;
  /// Of these, the ones that had not started; they never will.
  virtual std::vector<AttemptId> TakeBack(const std::vector<AttemptId>& attempts) = 0;
  /// Ends attempts, running or queued, if they are here; their results give the reason.
  virtual void EndTasks(const std::vector<AttemptId>& attempts, End reason) = 0;
  /// Asks those of them for checkpoints that run here; they end, or that they did not is told by the collector.
  virtual void AskForCheckpoints(const std::vector<AttemptId>& attempts) = 0;
  /// Ends all tasks; what is pushed from now on ends at once.
  virtual void Close(agent::End reason) = 0;
  struct Snapshot {
    /// Also those that have ended and whose result is still on its way; and parts of attempts of several
    /// nodes that wait for a slot, for the others may not begin without them.
    std::vector<StartedTask> running{};
    std::vector<AttemptId> queued{};
  };
  /// Every task that was pushed and whose result has not come is in one of the two.
  virtual Snapshot TakeSnapshot() = 0;
  /// Nothing runs, nothing is queued, no result is on its way.
  virtual bool Idle() = 0;
};

}  // namespace harrow::agent
