#include "place/victims.h"

namespace harrow::place {

void FreeNodes::Set(NodeId node, uint32_t free_slots) {
  if (node.value >= where_.size()) where_.resize(node.value + 1);
  Where& where = where_[node.value];
  if (where.free_slots == free_slots) return;
  if (where.free_slots > 0) {
    std::vector<NodeId>& list = by_free_[where.free_slots];
    list[where.index] = list.back();
    where_[list.back().value].index = where.index;
    list.pop_back();
  }
  where.free_slots = free_slots;
  if (free_slots > 0) {
    if (free_slots >= by_free_.size()) by_free_.resize(free_slots + 1);
    where.index = static_cast<uint32_t>(by_free_[free_slots].size());
    by_free_[free_slots].push_back(node);
    if (free_slots > largest_) largest_ = free_slots;
  }
  while (largest_ > 0 && by_free_[largest_].empty()) --largest_;
}

size_t FreeNodes::memory() const {
  size_t bytes = where_.capacity() * sizeof(Where) + by_free_.capacity() * sizeof(by_free_[0]);
  for (const auto& list : by_free_) bytes += list.capacity() * sizeof(NodeId);
  return bytes;
}

}  // namespace harrow::place
