// Calls that look at a store as a whole: counting, visiting, splitting and joining.
#include <cstring>

#include "multiview/scatter.h"
#include "multiview/store.h"
#include "multiview/whole.h"

namespace harrow::multiview::internal {
namespace {

constexpr std::size_t kVisitAtOnce = 4 << 20;
constexpr Index kVisitVariable = 1024;

// Everyone's bytes, one after the other in order of rank.
std::vector<std::byte> GatherBytes(const Team& team, const std::vector<std::byte>& mine) {
  const int size = static_cast<int>(mine.size());
  std::vector<int> sizes(team.size()), begins(team.size());
  MPI_Allgather(&size, 1, MPI_INT, sizes.data(), 1, MPI_INT, team.comm());
  int total = 0;
  for (int p = 0; p < team.size(); ++p) {
    begins[p] = total;
    total += sizes[p];
  }
  std::vector<std::byte> all(static_cast<std::size_t>(total));
  MPI_Allgatherv(mine.data(), size, MPI_BYTE, all.data(), sizes.data(), begins.data(), MPI_BYTE, team.comm());
  return all;
}

template <class T>
void Add(std::vector<std::byte>* bytes, const T* data, std::size_t count) {
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  bytes->insert(bytes->end(), begin, begin + count * sizeof(T));
}

// Copies the entries with indices in first .. last - 1 and moves them by `shift`.
Status CopyEntries(const std::vector<Entry>& entries, Index first, Index last, Index shift, std::size_t element_bytes,
                   std::uint64_t order, Arena* arena, LooseElements* to) {
  for (const Entry& e : entries) {
    const Index begin = std::max(e.index, first), end = std::min(e.index + e.count, last);
    if (begin >= end) continue;
    const std::byte* data = e.data + static_cast<std::size_t>(begin - e.index) * element_bytes;
    const std::size_t bytes = element_bytes ? static_cast<std::size_t>(end - begin) * element_bytes : e.bytes;
    if (Status s = to->Append(arena, begin + shift, end - begin, std::max(e.order, order), data, bytes, element_bytes > 0);
        !s.ok()) {
      return s;
    }
  }
  return {};
}

}  // namespace

std::vector<Entry> AllEntries(Store& store) {
  Content& content = store.content();
  if (content.state != Content::State::kComplete) return content.loose.entries;
  return BoxesAsEntries(content.boxes, store.shape(), content.dense->data(), store.element_bytes(), 0);
}

Result<Index> Store::Count() {
  if (Status s = Callable("count"); !s.ok()) return s;
  if (content_.state == Content::State::kEmpty) return Index{0};
  if (content_.state == Content::State::kComplete) return volume_;
  if (content_.distinct) return Index{team_->Agree({0, content_.loose.count()}).sum};
  // An element may be on several processes: its owner counts it, without its data.
  std::vector<Entry> places = content_.loose.entries, mine;
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

Status Store::ForEach(const std::function<void(const Element&)>& visit) {
  if (Status s = Callable("for_each"); !s.ok()) return s;
  if (content_.state == Content::State::kEmpty) return {};
  struct Header {
    Index index, count;
    std::uint64_t order, bytes;
  };
  const std::vector<Entry> entries = AllEntries(*this);
  const Index window = element_bytes_ ? std::max<Index>(1, static_cast<Index>(kVisitAtOnce / element_bytes_)) : kVisitVariable;
  std::size_t next = 0;
  Indices at(shape_.size());
  for (Index begin = 0;;) {
    while (next < entries.size() && entries[next].index + entries[next].count <= begin) ++next;
    Index first = next < entries.size() ? std::max(begin, entries[next].index) : INT64_MAX;
    MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT64_T, MPI_MIN, team_->comm());
    if (first == INT64_MAX) return {};
    const Index end = first + std::min(window, volume_ - first);
    std::vector<std::byte> mine;
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
        Unlinear(shape_, e.index + i, at.data());
        const std::size_t bytes = element_bytes_ ? element_bytes_ : e.bytes;
        visit({at, {e.data + static_cast<std::size_t>(i) * element_bytes_, bytes}});
      }
    }
    begin = end;
  }
}

Status CopyOut(Store& from, Index first, Index last, Index shift, Store& to) {
  Content content;
  content.state = Content::State::kLoose;
  content.distinct = from.content().distinct;
  Arena arena(&to.team().memory(), to.target());
  if (to.content().state == Content::State::kLoose) {
    content.loose = std::move(to.content().loose);
    content.distinct = content.distinct && to.content().distinct;
  }
  Status s = CopyEntries(AllEntries(from), first, last, shift, from.element_bytes(), 0, &arena, &content.loose);
  for (auto& chunk : arena.TakeChunks()) content.loose.memory.push_back(std::move(chunk));
  Settle(&content.loose.entries, from.element_bytes());
  to.Become(std::move(content), std::max(from.calls(), to.calls()));
  return s;
}

}  // namespace harrow::multiview::internal
