#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/status.h"

namespace harrow::agent {

/// Who serves PMIx to the ranks of this node's attempts (agent/pmix/pmix_port.h). Calls may wait for an
/// answer, until `in_vain` says that nobody wants it any more; any thread.
class RankServer {
 public:
  virtual ~RankServer() = default;
  using InVain = std::function<bool()>;
  struct Ranks {
    AttemptId attempt;
    uint32_t count = 0;
    std::string directory;  // for what PMIx and MPI put into files
  };
  /// NAME=value each.
  using Variables = std::vector<std::string>;
  /// What each rank has to find in its environment. kUnavailable: not now, but another time.
  virtual Result<std::vector<Variables>> Add(const Ranks& ranks, const InVain& in_vain) = 0;

  struct Seen {
    bool connected = false, finalized = false;
    std::optional<int> aborted;  // MPI_Abort, with this code
    uint32_t turn = 0;           // from 1: the how manieth of its attempt it was to fail; 0: it did not
  };
  /// Of a rank whose process has ended. None: it is not known any more, the server has died meanwhile, or it
  /// was waited for in vain.
  virtual std::optional<Seen> Ended(AttemptId attempt, uint32_t rank, const InVain& in_vain) = 0;
  /// All processes of the attempt have ended, or none has been started.
  virtual void Drop(AttemptId attempt) = 0;
};

}  // namespace harrow::agent
