#include "core/gangs.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace harrow::core {

void Gangs::CountOvertaken(uint64_t cores, uint64_t patience) {
  if (impatient(patience)) return;
  overtaken_ += static_cast<int64_t>(cores);
  if (impatient(patience)) look_ = true;
}

const Gangs::Gathered* Gangs::Find(TaskId id) const {
  const auto found =
      std::find_if(gathered_.begin(), gathered_.end(), [&](const Gathered& gang) { return gang.task == id; });
  return found == gathered_.end() ? nullptr : &*found;
}

void Gangs::Keep(size_t which, std::vector<NodeId> nodes, std::vector<NodeCapacity> parts) {
  Gathered& gang = gathered_[which];
  gang.nodes = std::move(nodes);
  gang.parts = std::move(parts);
  gang.free_at.assign(gang.nodes.size(), Time());
  gang.begins = Time();
  for (size_t i = 0; i < gang.nodes.size(); ++i) {
    Kept& kept = kept_[gang.nodes[i].value];
    if (kept.gangs++ == 0) ++keeping_;
    kept.sum += gang.parts[i];
    kept_slots_ += gang.parts[i].slots;
  }
}

void Gangs::SumUp(size_t which) {
  Gathered& gang = gathered_[which];
  gang.begins = *std::max_element(gang.free_at.begin(), gang.free_at.end());
}

Time Gangs::again() const {
  Time first = Time::max();
  for (const Gathered& gang : gathered_) first = std::min(first, gang.again);
  return first;
}

std::vector<NodeId> Gangs::Unkeep(size_t which) {
  Gathered& gang = gathered_[which];
  for (size_t i = 0; i < gang.nodes.size(); ++i) {
    Kept& kept = kept_[gang.nodes[i].value];
    if (--kept.gangs == 0) --keeping_;
    kept.sum -= gang.parts[i];
    kept_slots_ -= gang.parts[i].slots;
  }
  gang.begins = Time();
  gang.again = Time::max();
  return std::exchange(gang.nodes, {});
}

std::vector<NodeId> Gangs::Forget(TaskId id) {
  if (first_ == id) SetFirst(TaskId());
  for (size_t which = 0; which < gathered_.size(); ++which) {
    if (gathered_[which].task != id) continue;
    std::vector<NodeId> nodes = Unkeep(which);
    gathered_.erase(gathered_.begin() + static_cast<ptrdiff_t>(which));
    return nodes;
  }
  return {};
}

void Gangs::Deduct(const NodeCapacity& part, order::Room::Free* left) {
  left->slots -= std::min(left->slots, part.slots);
  left->devices -= std::min(left->devices, part.devices);
  left->memory -= std::min(left->memory, part.memory);
  left->idle = false;
}

order::Room::Free Gangs::Beyond(NodeId id, order::Room::Free left) const {
  if (Keeps(id)) Deduct(kept(id), &left);
  return left;
}

void Gangs::Add(TaskId id, std::vector<NodeId> members, bool broken) {
  const auto [at, added] = sent_.try_emplace(id, Sent{std::move(members), broken});
  if (!added) return;
  for (size_t i = 1; i < at->second.members.size(); ++i)
    followers_[at->second.members[i].value].push_back(id);
}

std::vector<NodeId> Gangs::Remove(TaskId id) {
  std::vector<NodeId> members = std::move(sent_.extract(id).mapped().members);
  for (size_t i = 1; i < members.size(); ++i) std::erase(followers_[members[i].value], id);
  return members;
}

bool Gangs::broken(TaskId id) const {
  const auto found = sent_.find(id);
  return found != sent_.end() && found->second.broken;
}

std::vector<TaskId> Gangs::LoseFollower(NodeId id) {
  std::vector<TaskId> gangs = std::exchange(followers_[id.value], {});
  for (TaskId task : gangs) {
    Sent& sent = sent_.at(task);
    std::erase(sent.members, id);
    sent.broken = true;
  }
  std::sort(gangs.begin(), gangs.end());
  return gangs;
}

std::string Gangs::FindBroken() const {
  std::vector<Kept> sums(kept_.size());
  uint64_t slots = 0;
  for (const Gathered& gang : gathered_) {
    if (gang.task == first_) return "a gang is next, and gathered";
    for (size_t i = 0; i < gang.nodes.size(); ++i) {
      Kept& sum = sums.at(gang.nodes[i].value);
      ++sum.gangs;
      sum.sum += gang.parts[i];
      slots += gang.parts[i].slots;
      if (i > 0 && gang.nodes[i - 1] >= gang.nodes[i]) return "nodes of a gang out of order";
    }
  }
  uint32_t keeping = 0;
  for (size_t n = 0; n < sums.size(); ++n) {
    keeping += sums[n].gangs > 0 ? 1 : 0;
    if (sums[n].gangs != kept_[n].gangs || sums[n].sum != kept_[n].sum)
      return StrCat("node ", n, ": what it keeps for gangs");
  }
  if (keeping != keeping_ || slots != kept_slots_) return "sums of what is kept for gangs";
  std::vector<size_t> following(followers_.size());
  for (const auto& [task, sent] : sent_) {
    for (size_t i = 1; i < sent.members.size(); ++i) {
      const std::vector<TaskId>& there = followers_.at(sent.members[i].value);
      ++following[sent.members[i].value];
      if (std::count(there.begin(), there.end(), task) != 1)
        return StrCat("task ", task.value, ": follows at a node that does not know");
    }
  }
  for (size_t n = 0; n < following.size(); ++n) {
    if (following[n] != followers_[n].size()) return StrCat("node ", n, ": gangs that follow there");
  }
  return {};
}

}  // namespace harrow::core
