#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/steps/gang.h"
#include "base/ids.h"
#include "base/status.h"
#include "base/time.h"

namespace harrow::agent {

/// Who tells the ranks of this node's attempts of each other: by PMIx (agent/pmix/pmix_port.h), or by PMI-1
/// (agent/pmix/pmi1_port.h). Calls may wait for an answer, until `in_vain` says that nobody wants it any
/// more; any thread. Ranks have the numbers that they have among all of the attempt, on whichever node.
class RankServer {
 public:
  virtual ~RankServer() = default;
  using InVain = std::function<bool()>;
  struct Ranks {
    AttemptId attempt;
    uint32_t count = 0;                  // on this node
    std::string directory;               // for what PMIx and MPI put into files
    std::shared_ptr<const Gang> gang{};  // of several nodes; null: this one has all
  };
  /// NAME=value each.
  using Variables = std::vector<std::string>;
  /// What each rank of this node has to find in its environment. kUnavailable: not now, but another time.
  virtual Result<std::vector<Variables>> Add(const Ranks& ranks, const InVain& in_vain) = 0;

  struct Seen {
    bool connected = false, finalized = false;
    std::optional<int> aborted;  // MPI_Abort, with this code
    uint32_t turn = 0;           // from 1: the how manieth of its attempt here it was to fail; 0: it did not
    bool others_speak = false;   // ranks of its attempt on this node: connected, and not finalized
  };
  /// Of a rank whose process has ended. None: it is not known any more, the server has died meanwhile, or it
  /// was waited for in vain.
  virtual std::optional<Seen> Ended(AttemptId attempt, uint32_t rank, const InVain& in_vain) = 0;
  /// What the attempt has lost its server by, and when that was found; none: it has it still, or never had
  /// one.
  struct Loss {
    std::string why;
    WallTime when{};
  };
  virtual std::optional<Loss> LossOf(AttemptId) { return std::nullopt; }
  /// All processes of the attempt on this node have ended, or none has been started.
  virtual void Drop(AttemptId attempt) = 0;
};

/// One that ranks speak with over a socket each, whose other end the thread has that looks after the rank.
/// Its calls do not wait.
class TalkingRankServer : public RankServer {
 public:
  /// The rank has said that; empty: it has hung up. False: it has said what cannot be, and is to be hung up
  /// on.
  virtual bool Hear(AttemptId attempt, uint32_t rank, std::string_view said) = 0;
  /// What it is to be told and has not been. There may be more when the host is told so (its hook).
  virtual std::string TakeAnswers(AttemptId attempt, uint32_t rank) = 0;
};

}  // namespace harrow::agent
