#pragma once

#include <poll.h>
#include <string>

#include "agent/steps/ranks.h"
#include "agent/steps/step.h"
#include "os/posix_files.h"

namespace harrow::agent {

/// The socket by which a rank speaks PMI-1 with the server of ranks, where it does. Its other end is this
/// thread's, which hands on what comes.
class PmiSocket : public Step {
 public:
  explicit PmiSocket(const RankServers& servers) : servers_(servers) {}
  Status Prepare(Launch* launch, TaskResult* result) override;
  void Settle(const LocalTask& task, TaskResult* result) override;

  /// The process has its end, or was not started.
  void CloseRanksEnd() { ranks_ = os::Fd(); }
  /// For poll(); -1: nothing will come.
  pollfd ToPoll() const;
  /// Takes some of what has come, and says what it is to be told, as far as that can be done without waiting.
  void Talk();
  /// Takes all that the rank has said, whose process has ended.
  void HearLastWords();

 private:
  void HangUp() { own_ = os::Fd(); }

  const RankServers& servers_;
  TalkingRankServer* server_ = nullptr;  // of the attempt; null: it has none
  AttemptId attempt_;
  uint32_t rank_ = 0;
  os::Fd own_, ranks_;  // the ends
  std::string unsent_;
};

}  // namespace harrow::agent
