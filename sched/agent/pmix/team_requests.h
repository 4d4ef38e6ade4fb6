#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wire/harrow.pb.h"

namespace harrow::agent::pmix {

/// What ranks want of other nodes, from libpmix's upcalls, until it is answered. Made by libpmix's thread,
/// carried out by ours, which is woken for it. From any thread; what concerns a team that is not here, or an
/// answer that nobody waits for, is ignored.
class TeamRequests {
 public:
  /// `wake`: there is something to be Taken.
  explicit TeamRequests(std::function<void()> wake) : wake_(std::move(wake)) {}

  struct Team {
    uint64_t number = 0;
    std::string space{};
    std::vector<uint32_t> ranks{};  // of each node
    uint32_t here = 0;
    bool several_nodes() const { return ranks.size() > 1; }
    /// Which node has it; their number: none.
    uint32_t NodeOf(uint32_t rank) const;
  };
  void Add(Team team);
  /// What its ranks still wait for is answered: they are not served any more.
  void Drop(uint64_t team);

  /// None: it is not here.
  std::optional<Team> Find(std::string_view space) const;

  /// `ok`: else there is no `data`.
  using Done = std::function<void(bool ok, std::string data)>;
  /// The ranks (none: all) of it that are on this node have come together. False: it is not here.
  bool Meet(std::string_view space, std::vector<uint32_t> ranks, std::string data, Done done);
  /// To the helper of that node, which may be this one.
  bool Ask(std::string_view space, uint32_t node, const pb::PmixQuestion& question, Done done);

  void Met(pb::TeamAnswer answer);
  void Answered(pb::TeamAnswer answer);

  /// Something to be said to the agent.
  void Say(const std::function<void(pb::FromPmix*)>& say);
  struct Work {
    pb::FromPmix to_agent{};
    std::vector<pb::TeamQuestion> for_us{};  // of this node's ranks
  };
  Work Take();

 private:
  struct Entry {
    Team team;
    uint64_t made = 0;
    std::map<uint64_t, Done> meetings{}, questions{};
  };
  /// Holding mutex_. Null: it is not here.
  Entry* Look(std::string_view space);
  void End(std::map<uint64_t, Done> Entry::*which, pb::TeamAnswer answer);

  const std::function<void()> wake_;
  mutable std::mutex mutex_;
  std::map<uint64_t, Entry> teams_;                        // of mutex_
  std::map<std::string, uint64_t, std::less<>> by_space_;  // of mutex_
  Work work_;                                              // of mutex_
};

}  // namespace harrow::agent::pmix
