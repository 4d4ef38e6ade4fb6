#include "sim/gangs.h"

#include <utility>

namespace harrow::sim {

std::vector<uint32_t> Gangs::Add(uint32_t attempt, AttemptId id, const std::vector<NodeId>& members) {
  Gang& gang = gangs_[attempt];
  gang.id = id;
  const auto count = static_cast<uint32_t>(members.size());
  for (uint32_t i = 0; i < count; ++i) {
    gang.parts.push_back(static_cast<uint32_t>(parts_.size()));
    parts_.push_back({.attempt = attempt, .index = i, .count = count, .node = members[i]});
  }
  return gang.parts;
}

std::vector<NodeId> Gangs::MembersOf(uint32_t attempt) const {
  std::vector<NodeId> members;
  if (const auto found = gangs_.find(attempt); found != gangs_.end()) {
    for (const uint32_t number : found->second.parts) members.push_back(parts_[number].node);
  }
  return members;
}

void Gangs::Began(uint32_t number, uint32_t slot, uint32_t slots) {
  Part& part = parts_[number];
  part.slot = slot;
  slots_[part.attempt] += slots;
  Gang& gang = gangs_.at(part.attempt);
  if (++gang.begun == gang.parts.size() && gang.ending == agent::End::kRunning)
    host_.Begin(part.attempt, parts_[gang.parts[0]].slot);
}

/// Of several reasons the first counts.
void Gangs::EndParts(Gang* gang, agent::End reason) {
  if (gang->ending != agent::End::kRunning) return;
  gang->ending = reason;
  for (const uint32_t number : gang->parts) {
    const agent::End told = reason == agent::End::kCancelled ? reason : agent::End::kLost;
    if (!parts_[number].over) host_.SendCancel(gang->id, parts_[number].node, told);
  }
}

/// The attempt as a whole does not go on.
void Gangs::Stop(uint32_t attempt, Gang* gang) {
  if (!std::exchange(gang->stopped, true)) host_.Stop(attempt, gang->ending == agent::End::kLost);
}

void Gangs::Over(uint32_t number) {
  Part& part = parts_[number];
  part.over = true;
  const uint32_t attempt = part.attempt;
  Gang& gang = gangs_.at(attempt);
  if (++gang.over < gang.parts.size()) return;
  Stop(attempt, &gang);
  const agent::End end = gang.ending;
  const bool given_up = gang.given_up;
  gangs_.erase(attempt);
  if (!given_up) host_.Report(attempt, end);
}

void Gangs::Ended(uint32_t number, agent::End end) {
  if (parts_[number].over) return;
  EndParts(&gangs_.at(parts_[number].attempt), end);
  Over(number);
}

void Gangs::Signalled(uint32_t number, agent::End reason) {
  const Part part = parts_[number];
  if (part.over) return;
  Gang& gang = gangs_.at(part.attempt);
  EndParts(&gang, reason);
  Stop(part.attempt, &gang);
  Over(number);
  host_.TellCore(part.node, agent::Settled{part.slot});
}

void Gangs::Settle(uint32_t attempt) {
  const std::vector<uint32_t> parts = std::move(gangs_.extract(attempt).mapped().parts);
  for (const uint32_t number : parts) parts_[number].over = true;
  for (const uint32_t number : parts) {
    const Part part = parts_[number];
    host_.TellCore(part.node, agent::Settled{part.slot});
  }
}

bool Gangs::Cancel(AttemptId id, agent::End reason) {
  for (auto& [attempt, gang] : gangs_) {
    if (gang.id != id || gang.given_up) continue;
    EndParts(&gang, reason);
    return true;
  }
  return false;
}

void Gangs::NodeFails(NodeId node) {
  std::vector<uint32_t> there;
  for (const auto& [attempt, gang] : gangs_) {
    for (const uint32_t number : gang.parts) {
      if (parts_[number].node == node && !parts_[number].over) there.push_back(number);
    }
  }
  for (const uint32_t number : there) {
    const Part& part = parts_[number];
    Gang& gang = gangs_.at(part.attempt);
    parts_[number].over = true;  // nothing is told there
    if (part.index == 0) {
      gang.given_up = true;
      EndParts(&gang, agent::End::kLost);
      Stop(part.attempt, &gang);
    } else if (gang.over + 1 == gang.parts.size()) {
      EndParts(&gang, agent::End::kLost);
    }
    Over(number);
  }
}

}  // namespace harrow::sim
