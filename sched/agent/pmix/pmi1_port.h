#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/pmix/rank_log.h"
#include "agent/steps/gangs.h"
#include "agent/steps/rank_server.h"
#include "wire/harrow.pb.h"

namespace harrow::agent {

/// Serves PMI-1, which MPICH speaks, to the ranks of this node (how: pmi1_port.cc). Has no thread and no
/// descriptor: who has the ranks' sockets hands on what they say. From any thread.
class Pmi1Port : public TalkingRankServer {
 public:
  /// `gangs`: of tasks of several nodes; may be null. `answers`: there is something to be told to ranks of
  /// this attempt; from any thread that calls this, holding nothing.
  Pmi1Port(Gangs* gangs, std::function<void(AttemptId)> answers)
      : gangs_(gangs), answers_(std::move(answers)) {}

  Result<std::vector<Variables>> Add(const Ranks& ranks, const InVain& in_vain) override;
  std::optional<Seen> Ended(AttemptId attempt, uint32_t rank, const InVain& in_vain) override;
  void Drop(AttemptId attempt) override;
  bool Hear(AttemptId attempt, uint32_t rank, std::string_view said) override;
  std::string TakeAnswers(AttemptId attempt, uint32_t rank) override;

 private:
  struct Rank {
    std::string heard{};    // of a line that has not ended
    std::string answers{};  // to be told
    bool in_barrier = false;
    bool aborts = false;
    bool in_request = false;  // of several lines (mcmd=)
  };
  struct Team {
    uint64_t number = 0;  // in the log
    uint32_t first = 0, size = 0;
    bool several_nodes = false;
    std::string space{};
    std::vector<Rank> ranks{};  // of this node
    std::map<std::string, std::string, std::less<>> keys{};
    pb::PutKeys put{};  // since the last barrier, where other nodes are to hear of it
    size_t bytes = 0;   // of keys
    uint32_t waiting = 0;
  };
  /// What is to be done when the lock is gone.
  struct Then {
    bool tell = false;  // answers_
    bool meet = false;
    std::string data{};
  };

  Team* Find(AttemptId attempt);
  Rank* RankOf(Team* team, uint32_t rank);
  void Obey(Team* team, uint32_t rank, std::string_view line, Then* then);
  std::string Put(Team* team, std::string_view key, std::string_view value);
  void Enter(Team* team, Rank* rank, Then* then);
  static void Release(Team* team);
  void Met(AttemptId attempt, uint64_t team, const Result<std::string>& data);

  Gangs* const gangs_;
  const std::function<void(AttemptId)> answers_;
  pmix::RankLog log_;
  std::mutex mutex_;
  std::map<AttemptId, Team> teams_;  // of mutex_
  uint64_t teams_made_ = 0;          // of mutex_
};

/// Which rank is on which node, as MPICH is told: "(vector,(0,2,4),(2,1,3))" of two nodes with four ranks
/// each and one with three.
std::string ProcessMapping(const Gang& gang);

}  // namespace harrow::agent
