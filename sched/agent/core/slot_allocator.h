#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace harrow::agent {

/// Which slots an attempt of several cores gets: of one NUMA node when one has enough, of the one with the
/// fewest free that do (best fit), side by side where possible; else of as few NUMA nodes as possible.
/// The simulator has very many: a slot costs one bit where all are of one NUMA node.
class SlotAllocator {
 public:
  /// The NUMA node of every slot.
  explicit SlotAllocator(const std::vector<uint32_t>& numa_of_slot);

  uint32_t slot_count() const { return slot_count_; }
  uint32_t free_count() const { return free_count_; }
  bool is_free(uint32_t slot) const { return IsFreeAt(PlaceOf(slot)); }
  /// Appends `count` slots in ascending order. False, and nothing is taken, when fewer are free.
  bool Take(uint32_t count, std::vector<uint32_t>* taken);
  /// As Take(1), where one is free.
  uint32_t TakeOne();
  /// Takes a slot that is free.
  void TakeSlot(uint32_t slot) { TakeAt(PlaceOf(slot)); }
  void Free(uint32_t slot);

 private:
  // Places are slots in the order of their NUMA nodes, those of one by number.
  uint32_t PlaceOf(uint32_t slot) const { return place_of_slot_.empty() ? slot : place_of_slot_[slot]; }
  uint32_t SlotAt(uint32_t place) const { return slot_at_.empty() ? place : slot_at_[place]; }
  bool IsFreeAt(uint32_t place) const { return (free_[place / 64] >> place % 64 & 1) != 0; }
  uint32_t NodeOf(uint32_t place) const;
  /// The NUMA node with the fewest free that are enough; none has: their number.
  uint32_t BestFit(uint32_t count) const;
  uint32_t nodes() const { return static_cast<uint32_t>(first_of_node_.size()) - 1; }
  void TakeAt(uint32_t place);
  /// The first place from `place` on that is free, or that is not; `end` where there is none before it.
  template <bool kIsFree>
  uint32_t Next(uint32_t place, uint32_t end) const;
  /// Where the shortest run of free neighbours of this node is that is long enough; its end: there is none.
  uint32_t BestRun(uint32_t node, uint32_t count) const;
  void TakeFromNode(uint32_t node, uint32_t count, std::vector<uint32_t>* taken);

  uint32_t slot_count_;
  uint32_t free_count_;
  std::vector<uint64_t> free_;                     // a bit a place
  std::vector<uint32_t> first_of_node_;            // places; and the end of the last node's
  std::vector<uint32_t> free_of_node_;             // empty: there is one node
  std::vector<uint32_t> place_of_slot_, slot_at_;  // empty: each slot's place is its number
};

}  // namespace harrow::agent
