#pragma once

#include <functional>
#include <memory>
#include <string>
#include <sys/types.h>

#include "agent/steps/criu_tool.h"
#include "agent/steps/step.h"
#include "migrate/checkpoints.h"
#include "os/posix_files.h"

namespace harrow::agent {

/// What an attempt finds that writes checkpoints, and what becomes of those it leaves. Of the attempt: its first process prepares it
/// for all; where it has several nodes, that of the lead node.
class Checkpoint : public Step {
 public:
  /// `criu`: of this node; null: tasks that it is to dump run without checkpoints. `place`: where
  /// images lie on the node's disk; empty: in the run's directory. `to_end`: whether the attempt is to end, so that nobody waits for a copy any more. `tell`: a line for the user.
  Checkpoint(CriuTool* criu, std::string place, uint32_t slot, std::function<bool()> to_end, std::function<void(const std::string&)> tell)
      : criu_(criu), place_(std::move(place)), slot_(slot), to_end_(std::move(to_end)), tell_(std::move(tell)) {}
  Status Prepare(Launch* launch, TaskResult* result) override;
  void Settle(const LocalTask& task, TaskResult* result) override;

  /// Of a part that does not lead: what the lead node's has prepared.
  void Find(Launch* launch);
  /// Asks the attempt whose process is `pid`, which has not been reaped. False: nobody in it would hear the question yet.
  bool Ask(const LocalTask& task, pid_t pid);
  /// Why the last question will have no answer; empty: it may have one.
  const std::string& refusal() const { return attempt_.refusal; }
  /// Of a task that CRIU dumps and that ended so: there is an image of it.
  bool HasImage(bool exited, int code) const;
  /// Of such a task: the process that holds it has the agent's environment, and hands the task's on.
  Status HandOn(Launch* launch);
  void CloseOwnEnd() { environment_fd_ = os::Fd(); }
  /// The attempt runs; to be told now and then where this is so.
  bool beats() const { return attempt_.beats; }
  void Beat() { attempt_.checkpoints->Beat(); }
  /// Whether it ran when it ended, and had for a while.
  void SetRan(bool ran) { attempt_.ran = ran; }

 private:
  Status PrepareForCriu(Launch* launch, TaskResult* result);
  bool AskCriu(const LocalTask& task, pid_t pid);
  /// What the holder has noted of that kind (criu/hold.h) since; empty: nothing.
  std::string TakeTrouble(std::string_view kind);
  void JudgeRestore(const LocalTask& task, TaskResult* result);
  void Keep(const LocalTask& task, TaskResult* result);
  void SetVariables(Launch* launch, const std::string& restart) const;

  CriuTool* const criu_;
  const std::string place_;
  const uint32_t slot_;
  const std::function<bool()> to_end_;
  const std::function<void(const std::string&)> tell_;
  os::Fd environment_fd_;
  std::vector<std::string> own_environment_;
  std::vector<char*> own_pointers_;
  /// What is known of the attempt that is prepared.
  struct OfAttempt {
    std::unique_ptr<migrate::Checkpoints> checkpoints;
    bool beats = false;
    bool ran = true;
    bool restarted = false;
    std::string refusal;
    int image_status = 0;  // of a task that CRIU dumps; 0: it dumps none
    std::string trouble;   // the file where a task's holder notes what CRIU says
    bool criu_asked = false;
  } attempt_;
};

/// Whether the attempt's end is the answer to a question for a checkpoint.
bool IsAnswer(const CheckpointSpec& spec, bool asked, bool exited, int code);

}  // namespace harrow::agent
