#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace harrow::agent {

/// Which slots an attempt of several cores gets: of one NUMA node when one has enough, of the one with the
/// fewest free that do (best fit), side by side where possible; else of as few NUMA nodes as possible.
class SlotAllocator {
 public:
  /// The NUMA node of every slot.
  explicit SlotAllocator(const std::vector<uint32_t>& numa_of_slot);

  uint32_t slot_count() const { return static_cast<uint32_t>(free_.size()); }
  uint32_t free_count() const { return free_count_; }
  bool is_free(uint32_t slot) const { return free_[slot]; }
  /// Appends `count` slots in ascending order. False, and nothing is taken, when fewer are free.
  bool Take(uint32_t count, std::vector<uint32_t>* taken);
  /// Takes a slot that is free.
  void TakeSlot(uint32_t slot);
  void Free(uint32_t slot);

 private:
  void TakeFromNode(uint32_t node, uint32_t count, std::vector<uint32_t>* taken);

  std::vector<bool> free_;
  std::vector<std::vector<uint32_t>> slots_of_node_;  // ascending
  std::vector<uint32_t> node_of_slot_;
  std::vector<uint32_t> free_of_node_;
  uint32_t free_count_ = 0;
};

}  // namespace harrow::agent
