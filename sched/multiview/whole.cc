// Calls that look at a store as a whole: counting, visiting, splitting and joining.
#include <cstring>

#include "multiview/gather.h"
#include "multiview/guard.h"
#include "multiview/scatter.h"
#include "multiview/store.h"
#include "multiview/whole.h"

namespace harrow::multiview::internal {
namespace {

constexpr std::size_t kVisitAtOnce = 4 << 20;
constexpr std::int64_t kGatherMost = 8 << 20;
constexpr Index kVisitFirst = 1 << 16;
constexpr Index kVisitVariable = 1 << 20;

template <class T>
void Add(std::vector<std::byte>* bytes, const T* data, std::size_t count) {
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  bytes->insert(bytes->end(), begin, begin + count * sizeof(T));
}

// Copies the entries with indices in first .. last - 1 and moves them by `shift`.
Status CopyEntries(const std::vector<Entry>& entries, Index first, Index last, Index shift, std::size_t element_bytes,
                   Arena* arena, std::vector<Entry>* to) {
  auto entry = std::partition_point(entries.begin(), entries.end(), [&](const Entry& e) { return e.index + e.count <= first; });
  for (; entry != entries.end() && entry->index < last; ++entry) {
    const Entry& e = *entry;
    const Index begin = std::max(e.index, first), end = std::min(e.index + e.count, last);
    const std::byte* data = e.data + static_cast<std::size_t>(begin - e.index) * element_bytes;
    const std::size_t bytes = element_bytes ? static_cast<std::size_t>(end - begin) * element_bytes : e.bytes;
    if (Status s = Append(arena, to, begin + shift, end - begin, e.order, data, bytes, element_bytes > 0);
        !s.ok()) {
      return s;
    }
  }
  return {};
}

}  // namespace

std::vector<Entry> AllEntries(Store& store) {
  Content& content = store.content();
  if (content.state != Content::State::kComplete) return content.loose.entries();
  return BoxesAsEntries(content.boxes, store.shape(), content.dense->data(), store.element_bytes(), 0);
}

Result<Index> Store::Count() {
  if (Status s = Callable("count"); !s.ok()) return s;
  if (content_.state == Content::State::kEmpty) return Index{0};
  if (content_.state == Content::State::kComplete) return volume_;
  if (content_.distinct) return Index{team_->Agree({0, content_.loose.count()}).sum};
  // An element may be on several processes: its owner counts it, without its data.
  std::vector<Entry> places = content_.loose.entries(), mine;
  for (Entry& e : places) e.bytes = 0;
  Status s = Scatter(*team_, *declared_, places, 0, [&](const Entry& e) {
    mine.push_back(e);
    return Status();
  });
  Settle(&mine, 0);
  std::int64_t count = 0;
  for (const Entry& e : mine) count += e.count;
  const Vote vote = team_->Agree({s.ok() ? 0u : 1u, count});
  if (vote.flags) return team_->FirstError(s);
  return Index{vote.sum};
}

// In windows of places that have some megabytes of elements in all. How many places that is may be different from window to
// window: an element of variable size has anything up to a gigabyte.
Status Store::ForEach(const std::function<void(const Element&)>& visit) {
  if (Status s = Callable("for_each"); !s.ok()) return s;
  if (content_.state == Content::State::kEmpty) return {};
  struct Header {
    Index index, count;
    std::uint64_t order, bytes;
  };
  const std::vector<Entry> entries = AllEntries(*this);
  const Index widest =
      element_bytes_ ? std::max<Index>(1, static_cast<Index>(kVisitAtOnce / element_bytes_)) : kVisitVariable;
  Index window = std::min(widest, kVisitFirst);
  std::size_t next = 0;
  Indices at(shape_.size());
  Status status;
  const auto show = [&](Index index, std::byte* data, std::size_t bytes) {
    if (!status.ok()) return;  // the others' elements pass by all the same
    Unlinear(shape_, index, at.data());
    status = Caught("for_each", [&] { visit({at, {data, bytes}}); });
  };
  for (Index begin = 0;;) {
    while (next < entries.size() && entries[next].index + entries[next].count <= begin) ++next;
    Index first = next < entries.size() ? std::max(begin, entries[next].index) : INT64_MAX;
    MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT64_T, MPI_MIN, team_->comm());
    if (first == INT64_MAX) return team_->AgreeOn(status);
    Index end;
    std::int64_t bytes;
    for (;;) {
      end = first + std::min(window, volume_ - first);
      bytes = 0;
      for (std::size_t i = next; i < entries.size() && entries[i].index < end; ++i) {
        const Index count = std::min(entries[i].index + entries[i].count, end) - std::max(entries[i].index, first);
        bytes += static_cast<std::int64_t>(sizeof(Header) + (element_bytes_ ? count * element_bytes_ : entries[i].bytes));
      }
      MPI_Allreduce(MPI_IN_PLACE, &bytes, 1, MPI_INT64_T, MPI_SUM, team_->comm());
      if (bytes <= kGatherMost || end - first == 1) break;
      window = std::clamp<Index>(window * kGatherMost / bytes, 1, (end - first + 1) / 2);
    }
    begin = end;
    if (bytes < kGatherMost / 4) window = std::min(2 * window, widest);
    if (bytes > kGatherMost) {  // one element, maybe on several processes: without their copies
      Indices place(shape_.size());
      Unlinear(shape_, first, place.data());
      auto value = Get(place);
      if (!value) return value.status();
      show(first, value->data(), value->size());
      continue;
    }
    std::vector<std::byte> mine;
    mine.reserve(static_cast<std::size_t>(bytes));
    for (std::size_t i = next; i < entries.size() && entries[i].index < end; ++i) {
      const Entry& e = entries[i];
      Header h{std::max(e.index, first), 0, e.order, e.bytes};
      h.count = std::min(e.index + e.count, end) - h.index;
      if (element_bytes_) h.bytes = static_cast<std::size_t>(h.count) * element_bytes_;
      Add(&mine, &h, 1);
      Add(&mine, e.data + static_cast<std::size_t>(h.index - e.index) * element_bytes_, h.bytes);
    }
    std::vector<std::byte> all = GatherBytes(*team_, mine);
    std::vector<Entry> found;
    for (std::size_t i = 0; i < all.size();) {
      Header h;
      std::memcpy(&h, &all[i], sizeof h);
      i += sizeof h;
      found.push_back({h.index, h.count, h.order, 0, all.data() + i, h.bytes});
      i += h.bytes;
    }
    Settle(&found, element_bytes_);
    for (const Entry& e : found) {
      for (Index i = 0; i < e.count; ++i) {
        show(e.index + i, e.data + static_cast<std::size_t>(i) * element_bytes_, element_bytes_ ? element_bytes_ : e.bytes);
      }
    }
  }
}

Status CopyOut(Store& from, const std::vector<Entry>& entries_of, Index first, Index last, Index shift, Store& to) {
  if (from.content().state == Content::State::kEmpty) return {};
  Content content;
  content.state = Content::State::kLoose;
  content.distinct = from.content().distinct;
  Arena arena(&to.team().memory(), to.target());
  if (to.content().state == Content::State::kLoose) {
    content.loose = std::move(to.content().loose);
    content.distinct = content.distinct && to.content().distinct;
  }
  std::vector<Entry> entries;
  Status s = CopyEntries(entries_of, first, last, shift, from.element_bytes(), &arena, &entries);
  content.loose.Own(arena.TakeChunks());
  content.loose.Add(std::move(entries));
  to.Become(std::move(content), std::max(from.calls(), to.calls()));
  return s;
}

}  // namespace harrow::multiview::internal
