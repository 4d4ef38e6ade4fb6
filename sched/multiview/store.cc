#include "multiview/store.h"

#include <cerrno>
#include <climits>
#include <cstring>

namespace harrow::multiview::internal {
namespace {

constexpr std::size_t kLargestElement = std::size_t{1} << 30;
constexpr std::size_t kFewBytes = 64 << 10;
constexpr std::size_t kLargeValue = 1 << 20;

std::string Text(Coordinates at) {
  std::string text = "(";
  for (std::size_t d = 0; d < at.size(); ++d) text += (d ? "," : "") + std::to_string(at[d]);
  return text + ")";
}

Split FirstDimension(std::size_t dims) {
  std::vector<Cut> cuts(dims, kNone);
  cuts[0] = kAll;
  return Split(std::move(cuts));
}

}  // namespace

Store::Store(std::shared_ptr<Team> team, std::vector<Index> shape, std::size_t element_bytes, Target target)
    : team_(std::move(team)),
      shape_(std::move(shape)),
      element_bytes_(element_bytes),
      target_(target),
      split_(FirstDimension(shape_.size())) {
  for (Index n : shape_) volume_ *= n;
  auto grid = Grid::Make(shape_, split_, "store", "Split");
  declared_ = std::make_shared<const Layout>(std::move(*grid), team_->size());
}

Status Store::Callable(const char* call) const {
  if (!team_->in_task) return {};
  return Status(Code::kInvalid, std::string(call) + ": called within a task or load function, which may only use what it is given");
}

Status Store::CheckPlace(const char* call, Coordinates at) const {
  bool inside = at.size() == shape_.size();
  for (std::size_t d = 0; inside && d < at.size(); ++d) inside = at[d] >= 0 && at[d] < shape_[d];
  if (inside) return {};
  return Status(Code::kInvalid, std::string(call) + ": " + Text(at) + " is not a place in a store of " + Text(shape_));
}

Status Store::CheckElement(const char* call, Coordinates at, std::size_t size) const {
  if (Status s = CheckPlace(call, at); !s.ok()) return s;
  if (element_bytes_ == 0 ? size <= kLargestElement : size == element_bytes_) return {};
  return Status(Code::kInvalid, std::string(call) + ": an element of " + std::to_string(size) + " bytes; the store's have " +
                                    (element_bytes_ ? std::to_string(element_bytes_) : "at most 1 GiB"));
}

Status Store::SetSplit(const Split& split, Placement placement) {
  if (Status s = Callable("set_split"); !s.ok()) return s;
  auto grid = Grid::Make(shape_, split, "set_split", "Split");
  if (!grid) return grid.status();
  split_ = split;
  placement_ = placement;
  declared_ = std::make_shared<const Layout>(std::move(*grid), team_->size());
  return {};
}

Result<std::shared_ptr<Segment>> Store::AllocateBoxes(const BoxList& boxes) const {
  return team_->memory().Allocate(std::max<std::size_t>(static_cast<std::size_t>(boxes.volume) * element_bytes_, 1), target_);
}

Status Store::Note(Additions* additions, const char* call, Coordinates at, const void* bytes, std::size_t size,
                   std::uint64_t group) const {
  Status s = CheckElement(call, at, size);
  if (s.ok()) {
    s = Append(&additions->arena, &additions->entries, Linear(shape_, at), 1, group, bytes, size, element_bytes_ > 0);
  }
  if (!s.ok() && additions->error.ok()) additions->error = s;
  return s;
}

void Store::Loosen() {
  if (content_.state != Content::State::kComplete) return;
  LooseElements loose;
  loose.Add(BoxesAsEntries(content_.boxes, shape_, content_.dense->data(), element_bytes_, 0));
  loose.Own(content_.dense);
  content_.state = Content::State::kLoose;
  content_.loose = std::move(loose);
  content_.boxes = {};
  content_.dense.reset();
  content_.distinct = true;
}

Result<Content> Store::Densified(const std::shared_ptr<const Layout>& layout, const std::vector<Entry>& entries) const {
  Content content;
  content.state = Content::State::kComplete;
  content.layout = layout;
  content.boxes = BoxList(layout->Boxes(team_->rank()));
  auto dense = AllocateBoxes(content.boxes);
  if (!dense) return dense.status();
  content.dense = std::move(*dense);
  for (const Entry& e : entries) {
    ForEachPart(e, shape_, content.boxes, element_bytes_, [&](Index offset, Index count, const std::byte* data) {
      std::memcpy(content.dense->data() + static_cast<std::size_t>(offset) * element_bytes_, data,
                  static_cast<std::size_t>(count) * element_bytes_);
    });
  }
  return content;
}

// Every process learns whether what it has now is complete, or loose in a known or unknown way.
Status Store::Commit(Additions* additions, std::uint64_t* flags_of_caller) {
  constexpr std::uint64_t kSomething = 1, kNotConforming = 2, kOutside = 4;
  const std::uint64_t order = NextOrder();
  std::vector<Entry> added = additions->entries;
  for (Entry& e : added) e.order = order;
  Settle(&added, element_bytes_);
  const bool fixed = element_bytes_ > 0;
  const bool was_empty = content_.state == Content::State::kEmpty;
  const bool was_complete = content_.state == Content::State::kComplete;
  const BoxList boxes = was_complete ? content_.boxes : BoxList(declared_->Boxes(team_->rank()));
  std::uint64_t flags = added.empty() ? 0 : kSomething;
  // Elements of another process's part stay here, too, but are then no longer where the layout says.
  if (!Inside(added, shape_, boxes)) flags |= kOutside;
  if (!fixed || !was_empty || !Covers(added, shape_, boxes)) flags |= kNotConforming;
  const Vote vote = team_->Agree({flags | *flags_of_caller << 8, 0});
  *flags_of_caller = vote.flags >> 8;
  if (*flags_of_caller != 0 || !(vote.flags & kSomething)) return {};

  if (was_complete && !(vote.flags & kOutside)) {
    for (const Entry& e : added) {
      ForEachPart(e, shape_, boxes, element_bytes_, [&](Index offset, Index count, const std::byte* data) {
        std::memcpy(content_.dense->data() + static_cast<std::size_t>(offset) * element_bytes_, data,
                    static_cast<std::size_t>(count) * element_bytes_);
      });
    }
    return {};
  }
  if (!(vote.flags & kNotConforming)) {
    auto dense = Densified(declared_, added);
    if (Status s = team_->AgreeOn(dense.status()); !s.ok()) return s;
    content_ = std::move(*dense);
    return {};
  }
  const bool was_aligned = was_empty || (content_.layout && *content_.layout == *declared_);
  Loosen();
  Adopt(std::move(added), additions);
  content_.state = Content::State::kLoose;
  const bool aligned = was_aligned && !(vote.flags & kOutside);
  content_.layout = aligned ? declared_ : nullptr;
  content_.distinct = aligned;
  return {};
}

// Little data is copied to the rest of the store's, so that many small additions do not leave a chunk of memory each.
void Store::Adopt(std::vector<Entry> added, Additions* additions) {
  std::size_t bytes = 0;
  for (const Entry& e : added) bytes += e.bytes;
  std::byte* place = nullptr;
  if (bytes <= kFewBytes) {
    if (auto room = content_.loose.Reserve(bytes, &team_->memory(), target_)) place = *room;
  }
  if (place) {
    for (Entry& e : added) {
      if (e.bytes > 0) std::memcpy(place, e.data, e.bytes);
      e.data = place;
      place += e.bytes;
    }
  } else {
    content_.loose.Own(std::move(additions->memory));
    content_.loose.Own(additions->arena.TakeChunks());
  }
  content_.loose.Add(std::move(added));
  content_.loose.Compact(&team_->memory(), target_);
}

// The process whose element at `at` holds, or -1 if there is none. Collective unless the contents are complete.
int Store::HolderOf(Coordinates at) {
  if (content_.state == Content::State::kComplete) return content_.layout->Owner(at);
  const Entry* mine = content_.state == Content::State::kLoose ? content_.loose.Find(Linear(shape_, at)) : nullptr;
  const std::int64_t own = mine ? static_cast<std::int64_t>(mine->order >> kRankBits) : -1;
  std::int64_t order = own;
  MPI_Allreduce(MPI_IN_PLACE, &order, 1, MPI_INT64_T, MPI_MAX, team_->comm());
  int rank = mine && own == order ? team_->rank() : -1;
  MPI_Allreduce(MPI_IN_PLACE, &rank, 1, MPI_INT, MPI_MAX, team_->comm());
  return rank;
}

Status Store::Put(Coordinates at, const void* bytes, std::size_t size) {
  if (Status s = Callable("put"); !s.ok()) return s;
  if (Status s = CheckElement("put", at, size); !s.ok()) return s;
  if (content_.state == Content::State::kComplete) {
    if (content_.layout->Owner(at) == team_->rank()) std::memcpy(Place(at), bytes, size);
    return {};
  }
  return PutLoosely(at, bytes, size);
}

// On the process where the layout has the element, or would have it. Everyone knows which that is, so that all there is to agree
// on is whether it has the memory.
Status Store::PutLoosely(Coordinates at, const void* bytes, std::size_t size) {
  LooseElements& loose = content_.loose;
  const bool empty = content_.state == Content::State::kEmpty;
  const Layout& layout = content_.layout && !empty ? *content_.layout : *declared_;
  const bool mine = layout.Owner(at) == team_->rank();
  const Index element = Linear(shape_, at);
  Entry* there = nullptr;
  Result<std::byte*> place{nullptr};
  if (mine) {
    // In place, unless it is one of several of a common order and another process may have the element, too.
    there = loose.Find(element);
    if (there && (there->bytes != static_cast<std::size_t>(there->count) * size || (there->count > 1 && !content_.distinct))) {
      there = nullptr;
    }
    if (there) {
      place = there->data + static_cast<std::size_t>(element - there->index) * size;
    } else {
      place = loose.Reserve(size, &team_->memory(), target_);
    }
  }
  if (Status s = team_->AgreeOn(place.status()); !s.ok()) return s;
  const std::uint64_t order = NextOrder();
  if (mine) {
    if (size > 0) std::memmove(*place, bytes, size);
    if (!there) {
      loose.Add({{element, 1, order, 0, *place, size}});
      loose.Compact(&team_->memory(), target_);
    } else if (there->count == 1) {
      there->order = order;
    }
  }
  if (empty) {
    content_.state = Content::State::kLoose;
    content_.layout = declared_;
    content_.distinct = true;
  } else if (!content_.layout) {
    content_.distinct = false;
  }
  return {};
}

std::byte* Store::Place(Coordinates at) const {
  std::byte* place = nullptr;
  const Entry one{Linear(shape_, at), 1, 0, 0, nullptr, element_bytes_};
  ForEachPart(one, shape_, content_.boxes, 0, [&](Index offset, Index, std::byte*) {
    place = content_.dense->data() + static_cast<std::size_t>(offset) * element_bytes_;
  });
  return place;
}

Result<std::vector<std::byte>> Store::Get(Coordinates at) {
  if (Status s = Callable("get"); !s.ok()) return s;
  if (Status s = CheckPlace("get", at); !s.ok()) return s;
  const int holder = HolderOf(at);
  if (holder < 0) return Status(Code::kNotFound, "get: no element at " + Text(at));
  std::vector<std::byte> value;
  if (holder == team_->rank()) {
    const Index element = Linear(shape_, at);
    if (content_.state == Content::State::kLoose) {
      const Entry* e = content_.loose.Find(element);
      const std::size_t bytes = element_bytes_ ? element_bytes_ : e->bytes;
      const std::byte* data = e->data + static_cast<std::size_t>(element - e->index) * element_bytes_;
      value.assign(data, data + bytes);
    } else {
      const std::byte* data = Place(at);
      value.assign(data, data + element_bytes_);
    }
  }
  std::uint64_t bytes = value.size();
  if (element_bytes_ == 0) {
    MPI_Bcast(&bytes, 1, MPI_UINT64_T, holder, team_->comm());
  } else {
    bytes = element_bytes_;
  }
  if (bytes < kLargeValue) {
    value.resize(bytes);
  } else {
    // So much that a process may not have it: it is better to know before the others wait for it.
    Status s;
    try {
      value.resize(bytes);
    } catch (const std::exception&) {
      s = Status(Code::kMemory, "get: no memory for an element of " + std::to_string(bytes) + " bytes");
    }
    if (s = team_->AgreeOn(s); !s.ok()) return s;
  }
  MPI_Bcast(value.data(), static_cast<int>(bytes), MPI_BYTE, holder, team_->comm());
  return value;
}

Status Store::Remove(Coordinates at) {
  if (Status s = Callable("remove"); !s.ok()) return s;
  if (Status s = CheckPlace("remove", at); !s.ok()) return s;
  if (HolderOf(at) < 0) return Status(Code::kNotFound, "remove: no element at " + Text(at));
  Loosen();
  const Index element = Linear(shape_, at);
  if (content_.loose.Find(element)) {
    content_.loose.Remove(element);
    content_.loose.Compact(&team_->memory(), target_);
  }
  return {};
}

Status Store::Sync() {
  Status status;
  const auto sync = [&](const std::shared_ptr<Segment>& s) {
    const int e = s ? s->Sync() : 0;
    if (e != 0 && status.ok()) status = Status(Code::kStorage, std::string("sync: ") + std::strerror(e));
  };
  sync(content_.dense);
  content_.loose.ForEachSegment(sync);
  return status;
}

void Store::AddDenseFragments(const Box& box, std::vector<Fragment>* fragments) const {
  const std::size_t dims = shape_.size();
  Box part;
  for (std::size_t b = 0; b < content_.boxes.boxes.size(); ++b) {
    const Box& whole = content_.boxes.boxes[b];
    if (!Intersect(whole, box, &part)) continue;
    Fragment f;
    f.origin.assign(part.lo.begin(), part.lo.end());
    f.extent.assign(part.n.begin(), part.n.end());
    f.stride.resize(dims);
    f.element_bytes = element_bytes_;
    std::ptrdiff_t step = static_cast<std::ptrdiff_t>(element_bytes_);
    std::ptrdiff_t offset = static_cast<std::ptrdiff_t>(content_.boxes.first[b]) * step;
    for (std::size_t d = dims; d-- > 0;) {
      f.stride[d] = step;
      offset += (part.lo[d] - whole.lo[d]) * step;
      step *= whole.n[d];
    }
    f.data = content_.dense->data() + offset;
    fragments->push_back(std::move(f));
  }
}

void Store::AddLooseFragments(std::span<const Entry> entries, std::vector<Fragment>* fragments) const {
  const std::size_t dims = shape_.size();
  for (const Entry& e : entries) {
    std::byte* data = e.data;
    for (Index i = e.index, end = e.index + e.count; i < end;) {
      Fragment f;
      f.origin.resize(dims);
      Unlinear(shape_, i, f.origin.data());
      const Index some = std::min(end - i, shape_[dims - 1] - f.origin[dims - 1]);
      f.extent.assign(dims, 1);
      f.extent[dims - 1] = some;
      f.element_bytes = element_bytes_ ? element_bytes_ : e.bytes;
      f.stride.assign(dims, static_cast<std::ptrdiff_t>(f.element_bytes));
      f.data = data;
      fragments->push_back(std::move(f));
      i += some;
      data += static_cast<std::size_t>(some) * element_bytes_;
    }
  }
}

Elements Store::Local() {
  std::vector<Fragment> fragments;
  if (content_.state == Content::State::kComplete) {
    AddDenseFragments({Indices(shape_.size()), Indices(shape_)}, &fragments);
  } else {
    AddLooseFragments(content_.loose.entries(), &fragments);
  }
  return Elements(std::move(fragments));
}

}  // namespace harrow::multiview::internal
