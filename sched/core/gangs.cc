#include "core/gangs.h"

#include <algorithm>
#include <utility>

namespace harrow::core {

void Gangs::CountOvertaken(uint32_t cores, uint64_t patience) {
  if (overtaken_ >= patience) return;
  overtaken_ += cores;
  if (overtaken_ >= patience) look_ = true;
}

void Gangs::Keep(std::vector<NodeId> nodes) {
  kept_ = std::move(nodes);
  for (NodeId id : kept_) keeps_[id.value] = true;
}

std::vector<NodeId> Gangs::Forget() {
  for (NodeId id : kept_) keeps_[id.value] = false;
  gathering_ = TaskId();
  return std::exchange(kept_, {});
}

std::vector<NodeId> Gangs::Remove(TaskId id) {
  return std::move(sent_.extract(id).mapped().members);
}

bool Gangs::broken(TaskId id) const {
  const auto found = sent_.find(id);
  return found != sent_.end() && found->second.broken;
}

std::vector<TaskId> Gangs::LoseFollower(NodeId id) {
  std::vector<TaskId> gangs;
  for (auto& [task, sent] : sent_) {
    const auto follower = std::find(sent.members.begin() + 1, sent.members.end(), id);
    if (follower == sent.members.end()) continue;
    sent.members.erase(follower);
    sent.broken = true;
    gangs.push_back(task);
  }
  std::sort(gangs.begin(), gangs.end());
  return gangs;
}

std::string Gangs::FindBroken() const {
  if (!kept_.empty() && !gathering_) return "nodes are kept for no gang";
  if (static_cast<size_t>(std::count(keeps_.begin(), keeps_.end(), true)) != kept_.size())
    return "nodes kept for a gang";
  for (NodeId id : kept_) {
    if (!keeps_[id.value]) return "a node is kept for a gang and does not know";
  }
  return {};
}

}  // namespace harrow::core
