#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace harrow::agent::pmix {

/// What has been seen of the ranks of teams: told by libpmix's thread, asked by ours. All calls from any
/// thread; what concerns a team that is not here is ignored.
class RankLog {
 public:
  struct Seen {
    bool connected = false, finalized = false, aborted = false;
    int abort_code = 0;
    uint32_t turn = 0;  // from 1: the how manieth of its team it was to fail; 0: it did not
  };

  void Add(uint64_t team, std::string space, uint32_t ranks);
  void Drop(uint64_t team);
  /// Its space; empty: it is not here.
  std::string SpaceOf(uint64_t team) const;

  void Connected(std::string_view space, uint32_t rank);
  void Finalized(std::string_view space, uint32_t rank);
  void Aborted(std::string_view space, uint32_t rank, int code);
  /// Its connection has ended without that it had finalized.
  void Lost(std::string_view space, uint32_t rank);

  /// None: it is not here.
  std::optional<Seen> Look(uint64_t team, uint32_t rank) const;
  /// Some rank of it is connected, and has neither finalized nor failed.
  bool AnySpeaks(uint64_t team) const;

 private:
  struct Team {
    std::string space;
    std::vector<Seen> ranks;
    uint32_t failed = 0;
  };
  Seen* Find(std::string_view space, uint32_t rank, Team** team);
  static void Fail(Team* team, Seen* seen);

  mutable std::mutex mutex_;
  std::map<uint64_t, Team> teams_;
  std::map<std::string, uint64_t, std::less<>> by_space_;
};

}  // namespace harrow::agent::pmix
