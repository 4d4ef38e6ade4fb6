#include "agent/pmix/team_requests.h"

#include <utility>

namespace harrow::agent::pmix {

uint32_t TeamRequests::Team::NodeOf(uint32_t rank) const {
  uint32_t node = 0;
  for (; node < ranks.size() && rank >= ranks[node]; ++node) rank -= ranks[node];
  return node;
}

void TeamRequests::Add(Team team) {
  std::lock_guard lock(mutex_);
  by_space_[team.space] = team.number;
  const uint64_t number = team.number;
  teams_[number] = {.team = std::move(team)};
}

void TeamRequests::Drop(uint64_t team) {
  std::vector<Done> waiting;
  {
    std::lock_guard lock(mutex_);
    const auto found = teams_.find(team);
    if (found == teams_.end()) return;
    for (auto* all : {&found->second.meetings, &found->second.questions}) {
      for (auto& [number, done] : *all) waiting.push_back(std::move(done));
    }
    by_space_.erase(found->second.team.space);
    teams_.erase(found);
  }
  for (const Done& done : waiting) done(false, {});
}

TeamRequests::Entry* TeamRequests::Look(std::string_view space) {
  const auto found = by_space_.find(space);
  return found == by_space_.end() ? nullptr : &teams_.at(found->second);
}

std::optional<TeamRequests::Team> TeamRequests::Find(std::string_view space) const {
  std::lock_guard lock(mutex_);
  const auto found = by_space_.find(space);
  return found == by_space_.end() ? std::nullopt : std::optional(teams_.at(found->second).team);
}

bool TeamRequests::Meet(std::string_view space, std::vector<uint32_t> ranks, std::string data, Done done) {
  {
    std::lock_guard lock(mutex_);
    Entry* const entry = Look(space);
    if (entry == nullptr) return false;
    const uint64_t number = ++entry->made;
    entry->meetings.emplace(number, std::move(done));
    pb::TeamMeeting* const meeting = work_.to_agent.add_meeting();
    meeting->set_team(entry->team.number);
    meeting->set_number(number);
    meeting->mutable_rank()->Add(ranks.begin(), ranks.end());
    meeting->set_data(std::move(data));
  }
  wake_();
  return true;
}

bool TeamRequests::Ask(std::string_view space, uint32_t node, const pb::PmixQuestion& question, Done done) {
  {
    std::lock_guard lock(mutex_);
    Entry* const entry = Look(space);
    if (entry == nullptr) return false;
    const uint64_t number = ++entry->made;
    entry->questions.emplace(number, std::move(done));
    const bool ours = node == entry->team.here;
    pb::TeamQuestion& asked = ours ? work_.for_us.emplace_back() : *work_.to_agent.add_question();
    asked.set_team(entry->team.number);
    asked.set_number(number);
    asked.set_node(node);
    asked.set_text(question.SerializeAsString());
  }
  wake_();
  return true;
}

void TeamRequests::End(std::map<uint64_t, Done> Entry::*which, pb::TeamAnswer answer) {
  Done done;
  {
    std::lock_guard lock(mutex_);
    const auto team = teams_.find(answer.team());
    if (team == teams_.end()) return;
    auto& all = team->second.*which;
    const auto found = all.find(answer.number());
    if (found == all.end()) return;
    done = std::move(found->second);
    all.erase(found);
  }
  done(answer.why().empty(), std::move(*answer.mutable_data()));
}

void TeamRequests::Met(pb::TeamAnswer answer) {
  End(&Entry::meetings, std::move(answer));
}

void TeamRequests::Answered(pb::TeamAnswer answer) {
  End(&Entry::questions, std::move(answer));
}

void TeamRequests::Say(const std::function<void(pb::FromPmix*)>& say) {
  {
    std::lock_guard lock(mutex_);
    say(&work_.to_agent);
  }
  wake_();
}

TeamRequests::Work TeamRequests::Take() {
  std::lock_guard lock(mutex_);
  return std::exchange(work_, {});
}

}  // namespace harrow::agent::pmix
