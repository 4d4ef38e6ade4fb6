#pragma once

#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "multiview/layout.h"
#include "multiview/memory.h"
#include "multiview/plan.h"

namespace harrow::multiview {

/// Elements that follow each other in row-major order of the whole array. Of a variable-size store: one element.
struct Entry {
  Index index;
  Index count;
  std::uint64_t order;     // of entries for the same element the one of highest order holds: (number of the call, rank);
  std::uint64_t sequence;  // then the one added last
  std::byte* data;
  std::size_t bytes;

  static constexpr std::size_t kRemoved = SIZE_MAX;  // as `bytes`: the element is not there any more
  bool removed() const { return bytes == kRemoved; }
};

/// Memory for elements that come one by one, in chunks that grow with what there is: their number goes with its logarithm.
class Arena {
 public:
  Arena(MemoryPool* pool, Target target) : pool_(pool), target_(target) {}
  /// Room for `bytes`, directly after the last where the chunk has room.
  Result<std::byte*> Reserve(std::size_t bytes);
  const std::vector<std::shared_ptr<Segment>>& chunks() const { return chunks_; }
  std::vector<std::shared_ptr<Segment>> TakeChunks() { return std::move(chunks_); }
  /// Of all chunks.
  std::size_t capacity() const { return capacity_; }

 private:
  MemoryPool* pool_;
  Target target_;
  std::vector<std::shared_ptr<Segment>> chunks_;
  std::size_t used_ = 0;
  std::size_t capacity_ = 0;
};

/// Elements with their memory. What single calls add and remove is kept apart from the lists until somebody wants them all, so
/// that such a call costs the same whatever is there already. Of several together there is a new list, which is joined with the one
/// before once it has half of its length: each entry is copied a logarithmic number of times.
class LooseElements {
 public:
  /// Entries in order of their elements, none of them twice.
  const std::vector<Entry>& entries();
  /// The entry that has this element, or nullptr. Valid until the next call that is not const.
  Entry* Find(Index element);
  /// Replaces what there is of the same elements; `added` is settled, and newer than anything here.
  void Add(std::vector<Entry> added);
  /// Takes over what an entry's data lies in.
  void Own(std::shared_ptr<Segment> memory) { memory_.push_back(std::move(memory)); }
  void Own(std::vector<std::shared_ptr<Segment>> memory);
  /// Room for data of entries to be added; lasts until Compact.
  Result<std::byte*> Reserve(std::size_t bytes, MemoryPool* pool, Target target);
  void Remove(Index element);
  /// Where most of the memory is of elements that have been replaced or removed, what is left moves together.
  void Compact(MemoryPool* pool, Target target);
  /// For each segment that data may lie in.
  template <class F>
  void ForEachSegment(F&& visit) const {
    for (const auto& s : memory_) visit(s);
    if (arena_) {
      for (const auto& s : arena_->chunks()) visit(s);
    }
  }
  Index count();
  /// Lists, the older ones longer.
  std::size_t levels() const { return levels_.size(); }

 private:
  void Join(std::size_t levels);
  void Put(std::vector<Entry> newest);
  void PutSingles();

  std::vector<std::vector<Entry>> levels_;  // the first is the largest, and has no removed elements
  std::unordered_map<Index, Entry> singles_;  // newer than all levels; also removed ones
  std::vector<std::shared_ptr<Segment>> memory_;
  std::shared_ptr<Arena> arena_;
  std::size_t dead_ = 0;         // bytes of data that no entry has any more
  std::size_t dead_most_ = 1 << 20;
};

/// Adds `bytes` at element `index`, extending the last entry where they follow it.
Status Append(Arena* arena, std::vector<Entry>* entries, Index index, Index count, std::uint64_t order, const void* data,
              std::size_t bytes, bool fixed_size);

/// Those of `newer` and what they leave of `older`; both settled. Removed elements are kept as such, or dropped. `dead`: the bytes
/// of what is replaced are added.
std::vector<Entry> Over(const std::vector<Entry>& older, const std::vector<Entry>& newer, bool keep_removed, std::size_t* dead);

/// Sorts by element; of several entries for one element the highest remains.
void Settle(std::vector<Entry>* entries, std::size_t element_bytes);

/// Calls visit(offset, count, data) for the longest parts of `entry` that follow each other in the memory of `boxes`; offsets
/// count elements. Returns false at the first element that lies in none of the boxes.
template <class F>
bool ForEachPart(const Entry& entry, std::span<const Index> shape, const BoxList& boxes, std::size_t element_bytes, F&& visit) {
  const std::size_t last = shape.size() - 1;
  Indices at(shape.size());
  std::byte* data = entry.data;
  for (Index i = entry.index, end = entry.index + entry.count; i < end;) {
    Unlinear(shape, i, at.data());
    Index some = 0;
    for (std::size_t b = 0; b < boxes.boxes.size(); ++b) {
      const Box& box = boxes.boxes[b];
      if (!box.Contains(at)) continue;
      some = std::min(end - i, box.lo[last] + box.n[last] - at[last]);
      Index position = 0;
      for (std::size_t d = 0; d <= last; ++d) position = position * box.n[d] + at[d] - box.lo[d];
      visit(boxes.first[b] + position, some, data);
      break;
    }
    if (some == 0) return false;
    i += some;
    data += static_cast<std::size_t>(some) * element_bytes;
  }
  return true;
}

/// Every element lies in one of the boxes.
bool Inside(const std::vector<Entry>& entries, std::span<const Index> shape, const BoxList& boxes);
/// The settled entries hold exactly the boxes' elements.
bool Covers(const std::vector<Entry>& entries, std::span<const Index> shape, const BoxList& boxes);

/// The elements of boxes in memory at `data`, as entries.
std::vector<Entry> BoxesAsEntries(const BoxList& boxes, std::span<const Index> shape, std::byte* data,
                                  std::size_t element_bytes, std::uint64_t order);

}  // namespace harrow::multiview
