#include "multiview/loose.h"

#include <cstring>

namespace harrow::multiview {

namespace {

constexpr std::size_t kFirstChunk = 64 << 10;
constexpr std::size_t kDeadLeast = 1 << 20;

// Elements `skip` .. skip + count - 1 of an entry.
Entry Part(const Entry& e, Index skip, Index count) {
  if (count == e.count) return e;
  const std::size_t element_bytes = e.bytes / static_cast<std::size_t>(e.count);
  return {e.index + skip, count, e.order, e.sequence, e.data + static_cast<std::size_t>(skip) * element_bytes,
          static_cast<std::size_t>(count) * element_bytes};
}

}  // namespace

Result<std::byte*> Arena::Reserve(std::size_t bytes) {
  if (chunks_.empty() || bytes > chunks_.back()->capacity() - used_) {
    // Twice as much each time, later an eighth of what there is: little of it is left unused.
    const std::size_t next = std::max({bytes, kFirstChunk, std::min<std::size_t>(capacity_, 8 << 20), capacity_ / 8});
    auto chunk = pool_->Allocate(next, target_);
    if (!chunk && next > bytes) chunk = pool_->Allocate(bytes, target_);
    if (!chunk) return chunk.status();
    capacity_ += (*chunk)->capacity();
    chunks_.push_back(std::move(*chunk));
    used_ = 0;
  }
  std::byte* at = chunks_.back()->data() + used_;
  used_ += bytes;
  return at;
}

std::vector<Entry> Over(const std::vector<Entry>& older, const std::vector<Entry>& newer, bool keep_removed, std::size_t* dead) {
  std::vector<Entry> all;
  all.reserve(older.size() + newer.size());
  const auto add = [&](const Entry& e) {
    if (keep_removed || !e.removed()) all.push_back(e);
  };
  auto n = newer.begin();
  for (Entry e : older) {
    while (e.count > 0) {
      for (; n != newer.end() && n->index + n->count <= e.index; ++n) add(*n);
      if (n == newer.end() || n->index >= e.index + e.count) {
        add(e);
        break;
      }
      const Index before = std::max<Index>(n->index - e.index, 0);
      if (before > 0) add(Part(e, 0, before));
      const Index until = std::min(e.count, n->index + n->count - e.index);
      if (!e.removed()) *dead += Part(e, before, until - before).bytes;
      if (until == e.count) break;
      e = Part(e, until, e.count - until);
    }
  }
  for (; n != newer.end(); ++n) add(*n);
  return all;
}

const std::vector<Entry>& LooseElements::entries() {
  PutSingles();
  if (levels_.empty()) levels_.emplace_back();
  Join(1);
  return levels_.front();
}

void LooseElements::PutSingles() {
  if (singles_.empty()) return;
  std::vector<Entry> newest;
  newest.reserve(singles_.size());
  for (const auto& [index, e] : singles_) newest.push_back(e);
  std::sort(newest.begin(), newest.end(), [](const Entry& a, const Entry& b) { return a.index < b.index; });
  Put(std::move(newest));
  singles_.clear();
}

// Until there are so many levels at most.
void LooseElements::Join(std::size_t levels) {
  while (levels_.size() > levels) {
    std::vector<Entry>& older = *(levels_.end() - 2);
    older = Over(older, levels_.back(), levels_.size() > 2, &dead_);
    levels_.pop_back();
  }
}

void LooseElements::Add(std::vector<Entry> added) {
  if (added.size() == 1 && added[0].count == 1) {
    Entry& e = singles_.try_emplace(added[0].index).first->second;
    if (e.count == 1 && !e.removed()) dead_ += e.bytes;
    e = added[0];
  } else if (!added.empty()) {
    PutSingles();
    Put(std::move(added));
  }
}

void LooseElements::Put(std::vector<Entry> newest) {
  if (levels_.empty()) levels_.emplace_back();  // the first one keeps no removed elements
  levels_.push_back(std::move(newest));
  std::size_t levels = levels_.size();
  for (std::size_t newer = levels_.back().size(); levels > 1 && levels_[levels - 2].size() <= 2 * newer; --levels) {
    newer += levels_[levels - 2].size();
  }
  Join(levels);
}

Entry* LooseElements::Find(Index element) {
  if (const auto single = singles_.find(element); single != singles_.end()) {
    return single->second.removed() ? nullptr : &single->second;
  }
  for (auto level = levels_.rbegin(); level != levels_.rend(); ++level) {
    auto it = std::upper_bound(level->begin(), level->end(), element, [](Index i, const Entry& e) { return i < e.index; });
    if (it == level->begin()) continue;
    --it;
    if (element < it->index + it->count) return it->removed() ? nullptr : &*it;
  }
  return nullptr;
}

void LooseElements::Remove(Index element) { Add({{element, 1, 0, 0, nullptr, Entry::kRemoved}}); }

void LooseElements::Own(std::vector<std::shared_ptr<Segment>> memory) {
  for (auto& segment : memory) memory_.push_back(std::move(segment));
}

Result<std::byte*> LooseElements::Reserve(std::size_t bytes, MemoryPool* pool, Target target) {
  if (!arena_) arena_ = std::make_shared<Arena>(pool, target);
  return arena_->Reserve(bytes);
}

void LooseElements::Compact(MemoryPool* pool, Target target) {
  if (dead_ <= dead_most_) return;
  std::size_t live = 0;
  for (const Entry& e : entries()) live += e.bytes;
  if (dead_ > live) {
    auto arena = std::make_shared<Arena>(pool, target);
    std::vector<Entry> moved;
    Status s;
    for (const Entry& e : levels_.front()) {
      if (s.ok()) s = Append(arena.get(), &moved, e.index, e.count, e.order, e.data, e.bytes, false);
    }
    if (s.ok()) {  // else it remains as it is
      levels_.front() = std::move(moved);
      arena_ = std::move(arena);
      memory_.clear();
      dead_ = 0;
    }
  }
  dead_most_ = dead_ + std::max(live, kDeadLeast);
}

Index LooseElements::count() {
  Index n = 0;
  for (const Entry& e : entries()) n += e.count;
  return n;
}

Status Append(Arena* arena, std::vector<Entry>* entries, Index index, Index count, std::uint64_t order, const void* data,
              std::size_t bytes, bool fixed_size) {
  auto place = arena->Reserve(bytes);
  if (!place) return place.status();
  if (bytes > 0) std::memcpy(*place, data, bytes);
  if (fixed_size && !entries->empty()) {
    Entry& last = entries->back();
    if (last.index + last.count == index && last.data + last.bytes == *place && last.order == order) {
      last.count += count;
      last.bytes += bytes;
      return {};
    }
  }
  entries->push_back({index, count, order, entries->size(), *place, bytes});
  return {};
}

void Settle(std::vector<Entry>* entries, std::size_t element_bytes) {
  const auto before = [](const Entry& a, const Entry& b) {
    if (a.index != b.index) return a.index < b.index;
    return a.order != b.order ? a.order < b.order : a.sequence < b.sequence;
  };
  if (!std::is_sorted(entries->begin(), entries->end(), before)) std::sort(entries->begin(), entries->end(), before);
  std::vector<Entry> settled;
  settled.reserve(entries->size());
  std::vector<Entry> single;
  for (std::size_t i = 0; i < entries->size();) {
    // Entries that hang together: only they are looked at element by element.
    std::size_t next = i + 1;
    Index end = (*entries)[i].index + (*entries)[i].count;
    for (; next < entries->size() && (*entries)[next].index < end; ++next) {
      end = std::max(end, (*entries)[next].index + (*entries)[next].count);
    }
    if (next == i + 1) {
      settled.push_back((*entries)[i++]);
      continue;
    }
    single.clear();
    for (; i < next; ++i) {
      for (Index k = 0; k < (*entries)[i].count; ++k) single.push_back(Part((*entries)[i], k, 1));
    }
    std::sort(single.begin(), single.end(), before);
    const std::size_t first = settled.size();
    for (std::size_t k = 0; k < single.size(); ++k) {
      if (k + 1 < single.size() && single[k + 1].index == single[k].index) continue;
      const Entry& e = single[k];
      if (element_bytes > 0 && settled.size() > first) {
        Entry& last = settled.back();
        if (last.index + last.count == e.index && last.data + last.bytes == e.data && last.order == e.order) {
          ++last.count;
          last.bytes += e.bytes;
          continue;
        }
      }
      settled.push_back(e);
    }
  }
  *entries = std::move(settled);
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
