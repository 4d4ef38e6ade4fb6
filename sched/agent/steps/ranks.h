#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "agent/steps/rank_server.h"
#include "agent/steps/step.h"
#include "agent/steps/tmp_tree.h"

namespace harrow::agent {

/// What the ranks of an attempt need to find each other: a directory, a list of their nodes and, of MPI
/// tasks, what PMIx tells them. Of the attempt: its first process prepares it for all.
class Ranks : public Step {
 public:
  /// `root`: where directories may be made; empty: nowhere. `server` may be null: `why` tells the user.
  /// `to_end`: whether the attempt is to end, so that nobody waits for the server any more.
  Ranks(const TmpRoot& root, RankServer* const& server, const std::string& why, uint32_t slot,
        RankServer::InVain to_end)
      : root_(root), server_(server), why_(why), slot_(slot), to_end_(std::move(to_end)) {}
  Status Prepare(Launch* launch, TaskResult* result) override;
  void Settle(const LocalTask& task, TaskResult* result) override;

  /// A process each; of the attempt that was prepared last.
  std::vector<RankServer::Variables> TakeVariables() { return std::move(variables_); }

 private:
  Status MakeDirectory();
  void RemoveDirectory();

  const TmpRoot& root_;
  RankServer* const& server_;
  const std::string& why_;
  const uint32_t slot_;
  const RankServer::InVain to_end_;
  uint64_t made_ = 0;
  std::string name_, directory_;  // empty: there is none
  bool added_ = false;            // the server knows the attempt
  std::vector<RankServer::Variables> variables_;
};

/// What ranks find in their environment, but for what PMIx tells them. Those of a program that starts by
/// PMIx look like those of a step of Slurm's: else Open MPI takes each for a program of its own.
std::vector<RankServer::Variables> RankVariables(const ProfileSpec& spec, const BaseEnvironment& base,
                                                 const std::string& directory);

}  // namespace harrow::agent
