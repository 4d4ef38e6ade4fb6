#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace harrow::agent::pmix {

class RankLog;
class TeamRequests;

/// libpmix as a server: the only one of this process. Of one thread; what its clients do is written to the
/// log, and what they want of other nodes to the requests, by a thread of libpmix's.
class PmixServer {
 public:
  struct Node {
    std::string name;
    uint32_t ranks = 0;
  };
  struct Team {
    std::string space;
    std::string directory;
    std::vector<Node> nodes;
    uint32_t here = 0;  // which of them
  };
  /// The environment of a rank.
  using Variables = std::vector<std::pair<std::string, std::string>>;

  /// `directory`: for what libpmix puts into files; ours alone.
  static Status Start(const std::string& directory, const std::string& node, RankLog* log,
                      TeamRequests* requests);
  /// What each rank that is here has to find in its environment.
  static Result<std::vector<Variables>> Add(const Team& team);
  static void Drop(const std::string& space);
  /// What a rank of this node has put for those of other nodes. `told` is called by libpmix's thread, perhaps
  /// never.
  static void DataOf(const std::string& space, uint32_t rank,
                     std::function<void(int status, std::string data)> told);
  /// Returns once libpmix's thread has done something for it: never, when that is stuck.
  static void AskThread();
};

}  // namespace harrow::agent::pmix
