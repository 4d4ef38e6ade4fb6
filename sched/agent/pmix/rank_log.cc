#include "agent/pmix/rank_log.h"

#include <algorithm>
#include <utility>

namespace harrow::agent::pmix {

void RankLog::Add(uint64_t team, std::string space, uint32_t ranks) {
  std::lock_guard lock(mutex_);
  by_space_[space] = team;
  teams_[team] = {.space = std::move(space), .ranks = std::vector<Seen>(ranks)};
}

void RankLog::Drop(uint64_t team) {
  std::lock_guard lock(mutex_);
  const auto found = teams_.find(team);
  if (found == teams_.end()) return;
  by_space_.erase(found->second.space);
  teams_.erase(found);
}

std::string RankLog::SpaceOf(uint64_t team) const {
  std::lock_guard lock(mutex_);
  const auto found = teams_.find(team);
  return found == teams_.end() ? std::string() : found->second.space;
}

RankLog::Seen* RankLog::Find(std::string_view space, uint32_t rank, Team** team) {
  const auto found = by_space_.find(space);
  if (found == by_space_.end()) return nullptr;
  *team = &teams_.at(found->second);
  return rank < (*team)->ranks.size() ? &(*team)->ranks[rank] : nullptr;
}

void RankLog::Fail(Team* team, Seen* seen) {
  if (seen->turn == 0) seen->turn = ++team->failed;
}

void RankLog::Connected(std::string_view space, uint32_t rank) {
  std::lock_guard lock(mutex_);
  Team* team = nullptr;
  if (Seen* const seen = Find(space, rank, &team)) {
    seen->connected = true;
    seen->finalized = false;  // another program of the rank's, after one that had finalized
  }
}

void RankLog::Finalized(std::string_view space, uint32_t rank) {
  std::lock_guard lock(mutex_);
  Team* team = nullptr;
  if (Seen* const seen = Find(space, rank, &team)) seen->finalized = true;
}

void RankLog::Aborted(std::string_view space, uint32_t rank, int code) {
  std::lock_guard lock(mutex_);
  Team* team = nullptr;
  Seen* const seen = Find(space, rank, &team);
  if (seen == nullptr || seen->aborted) return;
  seen->aborted = true;
  seen->abort_code = code;
  Fail(team, seen);
}

void RankLog::Lost(std::string_view space, uint32_t rank) {
  std::lock_guard lock(mutex_);
  Team* team = nullptr;
  Seen* const seen = Find(space, rank, &team);
  if (seen != nullptr && !seen->finalized) Fail(team, seen);
}

std::optional<RankLog::Seen> RankLog::Look(uint64_t team, uint32_t rank) const {
  std::lock_guard lock(mutex_);
  const auto found = teams_.find(team);
  if (found == teams_.end() || rank >= found->second.ranks.size()) return std::nullopt;
  return found->second.ranks[rank];
}

bool RankLog::AnySpeaks(uint64_t team) const {
  std::lock_guard lock(mutex_);
  const auto found = teams_.find(team);
  if (found == teams_.end()) return false;
  const std::vector<Seen>& ranks = found->second.ranks;
  return std::any_of(ranks.begin(), ranks.end(),
                     [](const Seen& seen) { return seen.connected && !seen.finalized && seen.turn == 0; });
}

}  // namespace harrow::agent::pmix
