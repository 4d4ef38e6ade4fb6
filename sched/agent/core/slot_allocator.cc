#include "agent/core/slot_allocator.h"

#include <algorithm>

namespace harrow::agent {

SlotAllocator::SlotAllocator(const std::vector<uint32_t>& numa_of_slot)
    : free_(numa_of_slot.size(), true),
      node_of_slot_(numa_of_slot),
      free_count_(static_cast<uint32_t>(numa_of_slot.size())) {
  for (uint32_t slot = 0; slot < numa_of_slot.size(); ++slot) {
    const uint32_t node = numa_of_slot[slot];
    if (slots_of_node_.size() <= node) {
      slots_of_node_.resize(node + 1);
      free_of_node_.resize(node + 1);
    }
    slots_of_node_[node].push_back(slot);
    ++free_of_node_[node];
  }
}

void SlotAllocator::TakeSlot(uint32_t slot) {
  free_[slot] = false;
  --free_of_node_[node_of_slot_[slot]];
  --free_count_;
}

void SlotAllocator::Free(uint32_t slot) {
  free_[slot] = true;
  ++free_of_node_[node_of_slot_[slot]];
  ++free_count_;
}

void SlotAllocator::TakeFromNode(uint32_t node, uint32_t count, std::vector<uint32_t>* taken) {
  const std::vector<uint32_t>& slots = slots_of_node_[node];
  // The shortest run of free neighbours that is long enough; without one, the first that are free.
  size_t best = slots.size();
  size_t best_length = slots.size() + 1;
  for (size_t begin = 0; begin < slots.size();) {
    size_t end = begin;
    while (end < slots.size() && free_[slots[end]]) ++end;
    if (end - begin >= count && end - begin < best_length) {
      best = begin;
      best_length = end - begin;
    }
    begin = end + 1;
  }
  uint32_t left = count;
  for (size_t i = best < slots.size() ? best : 0; i < slots.size() && left > 0; ++i) {
    if (!free_[slots[i]]) continue;
    TakeSlot(slots[i]);
    taken->push_back(slots[i]);
    --left;
  }
}

bool SlotAllocator::Take(uint32_t count, std::vector<uint32_t>* taken) {
  if (count == 0 || count > free_count_) return false;
  const size_t before = taken->size();
  const auto nodes = static_cast<uint32_t>(slots_of_node_.size());
  uint32_t fit = nodes;
  for (uint32_t node = 0; node < nodes; ++node) {
    if (free_of_node_[node] >= count && (fit == nodes || free_of_node_[node] < free_of_node_[fit]))
      fit = node;
  }
  if (fit < nodes) {
    TakeFromNode(fit, count, taken);
    return true;
  }
  for (uint32_t left = count; left > 0;) {
    const auto fullest = std::max_element(free_of_node_.begin(), free_of_node_.end());
    const uint32_t part = std::min(*fullest, left);
    TakeFromNode(static_cast<uint32_t>(fullest - free_of_node_.begin()), part, taken);
    left -= part;
  }
  std::sort(taken->begin() + static_cast<ptrdiff_t>(before), taken->end());
  return true;
}

}  // namespace harrow::agent
