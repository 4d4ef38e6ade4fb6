#include "multiview/loose.h"

#include <cstring>

namespace harrow::multiview {

Result<std::byte*> Arena::Reserve(std::size_t bytes) {
  if (chunks_.empty() || used_ + bytes > chunks_.back()->capacity()) {
    auto chunk = pool_->Allocate(std::max(bytes, next_chunk_), target_);
    if (!chunk) return chunk.status();
    next_chunk_ = std::min<std::size_t>(2 * next_chunk_, 8 << 20);
    chunks_.push_back(std::move(*chunk));
    used_ = 0;
  }
  std::byte* at = chunks_.back()->data() + used_;
  used_ += bytes;
  return at;
}

Index LooseElements::count() const {
  Index n = 0;
  for (const Entry& e : entries) n += e.count;
  return n;
}

Status LooseElements::Append(Arena* arena, Index index, Index count, std::uint64_t order, const void* data, std::size_t bytes,
                             bool fixed_size) {
  auto place = arena->Reserve(bytes);
  if (!place) return place.status();
  if (bytes > 0) std::memcpy(*place, data, bytes);
  if (fixed_size && !entries.empty()) {
    Entry& last = entries.back();
    if (last.index + last.count == index && last.data + last.bytes == *place && last.order == order) {
      last.count += count;
      last.bytes += bytes;
      return {};
    }
  }
  entries.push_back({index, count, order, entries.size(), *place, bytes});
  return {};
}

void Settle(std::vector<Entry>* entries, std::size_t element_bytes) {
  const auto before = [](const Entry& a, const Entry& b) {
    if (a.index != b.index) return a.index < b.index;
    return a.order != b.order ? a.order < b.order : a.sequence < b.sequence;
  };
  if (!std::is_sorted(entries->begin(), entries->end(), before)) std::sort(entries->begin(), entries->end(), before);
  bool disjoint = true;
  Index end = -1;
  for (const Entry& e : *entries) {
    disjoint = disjoint && e.index >= end;
    end = std::max(end, e.index + e.count);
  }
  if (disjoint) return;
  std::vector<Entry> single;
  for (const Entry& e : *entries) {
    for (Index i = 0; i < e.count; ++i) {
      const std::size_t bytes = e.count == 1 ? e.bytes : element_bytes;
      single.push_back(
          {e.index + i, 1, e.order, e.sequence, e.data + static_cast<std::size_t>(i) * element_bytes, bytes});
    }
  }
  std::sort(single.begin(), single.end(), before);
  entries->clear();
  for (std::size_t i = 0; i < single.size(); ++i) {
    if (i + 1 < single.size() && single[i + 1].index == single[i].index) continue;
    const Entry& e = single[i];
    if (element_bytes > 0 && !entries->empty()) {
      Entry& last = entries->back();
      if (last.index + last.count == e.index && last.data + last.bytes == e.data && last.order == e.order) {
        ++last.count;
        last.bytes += e.bytes;
        continue;
      }
    }
    entries->push_back(e);
  }
}

bool Inside(const std::vector<Entry>& entries, std::span<const Index> shape, const BoxList& boxes) {
  return std::all_of(entries.begin(), entries.end(), [&](const Entry& e) {
    return ForEachPart(e, shape, boxes, 0, [](Index, Index, std::byte*) {});
  });
}

bool Covers(const std::vector<Entry>& entries, std::span<const Index> shape, const BoxList& boxes) {
  Index n = 0;
  for (const Entry& e : entries) n += e.count;
  return n == boxes.volume && Inside(entries, shape, boxes);
}

std::vector<Entry> BoxesAsEntries(const BoxList& boxes, std::span<const Index> shape, std::byte* data,
                                  std::size_t element_bytes, std::uint64_t order) {
  const Box whole{Indices(shape.size()), Indices(shape)};
  std::vector<Entry> entries;
  for (const Box& box : boxes.boxes) {
    const Runs runs(whole, box, 1);
    for (RunCursor cursor(runs); cursor.remaining() > 0; cursor.Skip(runs.length)) {
      const std::size_t bytes = static_cast<std::size_t>(runs.length) * element_bytes;
      entries.push_back({cursor.offset(), runs.length, order, 0, data, bytes});
      data += bytes;
    }
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.index < b.index; });
  return entries;
}

}  // namespace harrow::multiview
