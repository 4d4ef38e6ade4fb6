#pragma once

#include <memory>
#include <span>
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
};

/// Memory for elements that come one by one.
class Arena {
 public:
  Arena(MemoryPool* pool, Target target) : pool_(pool), target_(target) {}
  /// Room for `bytes`, directly after the last if it was asked to hold on and the chunk has room.
  Result<std::byte*> Reserve(std::size_t bytes);
  std::vector<std::shared_ptr<Segment>> TakeChunks() { return std::move(chunks_); }

 private:
  MemoryPool* pool_;
  Target target_;
  std::vector<std::shared_ptr<Segment>> chunks_;
  std::size_t used_ = 0;
  std::size_t next_chunk_ = 64 << 10;
};

/// Elements with their memory.
struct LooseElements {
  std::vector<Entry> entries;
  std::vector<std::shared_ptr<Segment>> memory;

  Index count() const;
  /// Adds `bytes` at element `index`, extending the last entry where they follow it.
  Status Append(Arena* arena, Index index, Index count, std::uint64_t order, const void* data, std::size_t bytes,
                bool fixed_size);
};

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
