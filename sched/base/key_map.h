#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace harrow {

/// Numbers by keys of 64 bits, where entries come and go all the time: one array, in which a key lies at the
/// place of its hash or soon after it, so that nothing is allocated but to grow. In no order.
class KeyMap {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  /// kNone: there is none.
  uint32_t Find(uint64_t key) const {
    if (count_ == 0) return kNone;
    const Slot& slot = slots_[PlaceOf(key)];
    return slot.number;
  }
  /// `number` is not kNone.
  void Set(uint64_t key, uint32_t number) {
    if (2 * (count_ + 1) > slots_.size()) Grow();
    Slot& slot = slots_[PlaceOf(key)];
    count_ += slot.number == kNone ? 1 : 0;
    slot = {key, number};
  }
  void Erase(uint64_t key) {
    if (count_ == 0) return;
    size_t hole = PlaceOf(key);
    if (slots_[hole].number == kNone) return;
    --count_;
    // What stands behind it moves up, as far as it may lie there: so no search ends early.
    const size_t mask = slots_.size() - 1;
    for (size_t at = (hole + 1) & mask; slots_[at].number != kNone; at = (at + 1) & mask) {
      const size_t home = Home(slots_[at].key);
      if (((at - home) & mask) < ((at - hole) & mask)) continue;
      slots_[hole] = slots_[at];
      hole = at;
    }
    slots_[hole].number = kNone;
  }
  template <class Each>
  void ForEach(const Each& each) const {
    for (const Slot& slot : slots_) {
      if (slot.number != kNone) each(slot.key, slot.number);
    }
  }
  size_t size() const { return count_; }
  /// Places that are looked at to find any key that is here, at most.
  size_t LongestSearch() const {
    size_t longest = 0;
    for (size_t at = 0; at < slots_.size(); ++at) {
      if (slots_[at].number == kNone) continue;
      longest = std::max(longest, ((at - Home(slots_[at].key)) & (slots_.size() - 1)) + 1);
    }
    return longest;
  }
  size_t memory() const { return slots_.capacity() * sizeof(Slot); }

 private:
  struct Slot {
    uint64_t key = 0;
    uint32_t number = kNone;
  };

  /// Both halves of a key tell in the upper bits.
  size_t Home(uint64_t key) const { return ((key ^ key >> 32) * 0x9E3779B97F4A7C15ull) >> shift_; }
  /// Where it is, or where it would be.
  size_t PlaceOf(uint64_t key) const {
    const size_t mask = slots_.size() - 1;
    size_t at = Home(key);
    while (slots_[at].number != kNone && slots_[at].key != key) at = (at + 1) & mask;
    return at;
  }
  void Grow() {
    const std::vector<Slot> before = std::exchange(slots_, {});
    shift_ = before.empty() ? 60 : shift_ - 1;
    slots_.resize(size_t{1} << (64 - shift_));
    for (const Slot& slot : before) {
      if (slot.number != kNone) slots_[PlaceOf(slot.key)] = slot;
    }
  }

  std::vector<Slot> slots_;  // at least half of them empty; a power of two
  unsigned shift_ = 64;
  size_t count_ = 0;
};

}  // namespace harrow
