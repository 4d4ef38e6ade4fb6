#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "agent/steps/gang.h"
#include "agent/steps/rank_server.h"
#include "agent/steps/step.h"
#include "agent/steps/tmp_tree.h"

namespace harrow::agent {

/// Who serves ranks on a node. Any may be null: `no_pmix` tells the user why there is no PMIx.
struct RankServers {
  RankServer* pmix = nullptr;
  std::string no_pmix{};
  TalkingRankServer* pmi1 = nullptr;

  RankServer* Of(const ProfileSpec& spec) const;
};

/// What the ranks of an attempt need to find each other: a directory, a list of their nodes and, of MPI
/// tasks, what PMIx or PMI-1 tells them. Of the attempt: its first process prepares it for all.
class Ranks : public Step {
 public:
  /// `root`: where directories may be made; empty: nowhere. `to_end`: whether the attempt is to end, so that
  /// nobody waits for a server any more.
  Ranks(const TmpRoot& root, const RankServers& servers, uint32_t slot, RankServer::InVain to_end)
      : root_(root), servers_(servers), slot_(slot), to_end_(std::move(to_end)) {}
  Status Prepare(Launch* launch, TaskResult* result) override;
  void Settle(const LocalTask& task, TaskResult* result) override;

  /// A process each; of the attempt that was prepared last.
  std::vector<RankServer::Variables> TakeVariables() { return std::move(variables_); }

 private:
  Status MakeDirectory();
  void RemoveDirectory();

  const TmpRoot& root_;
  const RankServers& servers_;
  const uint32_t slot_;
  const RankServer::InVain to_end_;
  uint64_t made_ = 0;
  std::string name_, directory_;  // empty: there is none
  RankServer* server_ = nullptr;  // which knows the attempt; null: none does
  std::vector<RankServer::Variables> variables_;
};

/// What the ranks of this node find in their environment, but for what a server tells them. Those of a
/// program that starts by PMIx look like those of a step of Slurm's: else Open MPI takes each for a program
/// of its own. Of a task of several nodes and no ranks: what its one process finds. `gang` is null on one
/// node.
std::vector<RankServer::Variables> RankVariables(const ProfileSpec& spec, const BaseEnvironment& base,
                                                 const std::string& directory, const Gang* gang = nullptr);
/// A line for each rank, the name of its node; of a task without, for each core that its nodes have for it.
/// Node by node: MPICH's mpiexec takes lines of one node that do not follow each other for several nodes.
std::string HostLines(const ProfileSpec& spec, const BaseEnvironment& base, const Gang* gang);
/// Of a task without ranks the same by turns, so that srun, which takes the first lines, takes all nodes.
std::string HostLinesInTurn(const ProfileSpec& spec, const BaseEnvironment& base, const Gang& gang);
/// As Slurm writes how many there are on each node: "4(x2),3".
std::string RanksPerNode(const Gang& gang);

}  // namespace harrow::agent
