#pragma once

#include <poll.h>
#include <string>

#include "agent/steps/ranks.h"
#include "agent/steps/step.h"

namespace harrow::agent {

/// The socket by which a rank speaks PMI-1 with the server of ranks, where it does. Its other end is this
/// thread's, which hands on what comes.
class PmiSocket : public Step {
 public:
  explicit PmiSocket(const RankServers& servers) : servers_(servers) {}
  ~PmiSocket() override;
  Status Prepare(Launch* launch, TaskResult* result) override;
  void Settle(const LocalTask& task, TaskResult* result) override;

  /// The process has its end, or was not started.
  void CloseRanksEnd();
  /// For poll(); -1: nothing will come.
  pollfd ToPoll() const;
  /// Takes some of what has come, and says what it is to be told, as far as that can be done without waiting.
  void Talk();
  /// Takes all that the rank has said, whose process has ended.
  void HearLastWords();

 private:
  void HangUp();

  const RankServers& servers_;
  TalkingRankServer* server_ = nullptr;  // of the attempt; null: it has none
  AttemptId attempt_;
  uint32_t rank_ = 0;
  int own_ = -1, ranks_ = -1;  // descriptors of the ends
  std::string unsent_;
};

}  // namespace harrow::agent
