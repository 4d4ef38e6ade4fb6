#include "agent/core/slot_allocator.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace harrow::agent {

SlotAllocator::SlotAllocator(const std::vector<uint32_t>& numa_of_slot)
    : slot_count_(static_cast<uint32_t>(numa_of_slot.size())),
      free_count_(slot_count_),
      free_((slot_count_ + 63) / 64, ~uint64_t{0}) {
  for (const uint32_t node : numa_of_slot) {
    if (free_of_node_.size() <= node) free_of_node_.resize(node + 1);
    ++free_of_node_[node];
  }
  first_of_node_.resize(free_of_node_.size() + 1);
  std::partial_sum(free_of_node_.begin(), free_of_node_.end(), first_of_node_.begin() + 1);
  if (nodes() == 1) free_of_node_.clear();
  if (std::is_sorted(numa_of_slot.begin(), numa_of_slot.end())) return;
  place_of_slot_.resize(slot_count_);
  slot_at_.resize(slot_count_);
  std::vector<uint32_t> next = first_of_node_;
  for (uint32_t slot = 0; slot < slot_count_; ++slot) {
    place_of_slot_[slot] = next[numa_of_slot[slot]]++;
    slot_at_[place_of_slot_[slot]] = slot;
  }
}

uint32_t SlotAllocator::NodeOf(uint32_t place) const {
  const auto after = std::upper_bound(first_of_node_.begin(), first_of_node_.end(), place);
  return static_cast<uint32_t>(after - first_of_node_.begin()) - 1;
}

void SlotAllocator::TakeAt(uint32_t place) {
  free_[place / 64] &= ~(uint64_t{1} << place % 64);
  if (!free_of_node_.empty()) --free_of_node_[NodeOf(place)];
  --free_count_;
}

void SlotAllocator::Free(uint32_t slot) {
  const uint32_t place = PlaceOf(slot);
  free_[place / 64] |= uint64_t{1} << place % 64;
  if (!free_of_node_.empty()) ++free_of_node_[NodeOf(place)];
  ++free_count_;
}

template <bool kIsFree>
uint32_t SlotAllocator::Next(uint32_t place, uint32_t end) const {
  uint64_t before = (uint64_t{1} << place % 64) - 1;
  for (; place < end; place = (place / 64 + 1) * 64, before = 0) {
    const uint64_t wanted = (kIsFree ? free_[place / 64] : ~free_[place / 64]) & ~before;
    if (wanted != 0) return std::min(end, place / 64 * 64 + static_cast<uint32_t>(std::countr_zero(wanted)));
  }
  return end;
}

uint32_t SlotAllocator::BestRun(uint32_t node, uint32_t count) const {
  const uint32_t first = first_of_node_[node], end = first_of_node_[node + 1];
  uint32_t best = end, best_length = UINT32_MAX;
  for (uint32_t run = Next<true>(first, end); run < end && best_length > count;) {
    const uint32_t run_end = Next<false>(run, end);
    if (run_end - run >= count && run_end - run < best_length) {
      best = run;
      best_length = run_end - run;
    }
    run = Next<true>(run_end, end);
  }
  return best;
}

void SlotAllocator::TakeFromNode(uint32_t node, uint32_t count, std::vector<uint32_t>* taken) {
  const uint32_t end = first_of_node_[node + 1];
  uint32_t place = BestRun(node, count);
  if (place == end) place = first_of_node_[node];  // without neighbours the first that are free
  for (uint32_t left = count; left > 0 && (place = Next<true>(place, end)) < end; --left) {
    TakeAt(place);
    taken->push_back(SlotAt(place));
  }
}

uint32_t SlotAllocator::BestFit(uint32_t count) const {
  if (free_of_node_.empty()) return count <= free_count_ ? 0 : nodes();
  uint32_t fit = nodes();
  for (uint32_t node = 0; node < nodes(); ++node) {
    if (free_of_node_[node] >= count && (fit == nodes() || free_of_node_[node] < free_of_node_[fit]))
      fit = node;
  }
  return fit;
}

uint32_t SlotAllocator::TakeOne() {
  const uint32_t place = BestRun(BestFit(1), 1);
  TakeAt(place);
  return SlotAt(place);
}

bool SlotAllocator::Take(uint32_t count, std::vector<uint32_t>* taken) {
  if (count == 0 || count > free_count_) return false;
  const size_t before = taken->size();
  if (const uint32_t fit = BestFit(count); fit < nodes()) {
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
