#include "harrow/multiview.hpp"

#include "multiview/guard.h"
#include "multiview/store.h"
#include "multiview/whole.h"

namespace harrow::multiview {

Index Fragment::count() const {
  Index n = 1;
  for (Index e : extent) n *= e;
  return n;
}

bool Fragment::contiguous() const {
  std::ptrdiff_t step = static_cast<std::ptrdiff_t>(element_bytes);
  for (std::size_t d = extent.size(); d-- > 0;) {
    if (extent[d] > 1 && stride[d] != step) return false;
    step *= extent[d];
  }
  return true;
}

Index Elements::count() const {
  Index n = 0;
  for (const Fragment& f : fragments_) n += f.count();
  return n;
}

Elements::Iterator::Iterator(const std::vector<Fragment>* fragments, std::size_t fragment)
    : fragments_(fragments), fragment_(fragment) {
  Enter();
}

void Elements::Iterator::Enter() {
  if (fragment_ < fragments_->size()) {
    at_ = (*fragments_)[fragment_].origin;
    data_ = (*fragments_)[fragment_].data;
  } else {
    data_ = nullptr;
  }
}

Elements::Iterator& Elements::Iterator::operator++() {
  const Fragment& f = (*fragments_)[fragment_];
  for (std::size_t d = at_.size(); d-- > 0;) {
    data_ += f.stride[d];
    if (++at_[d] < f.origin[d] + f.extent[d]) return *this;
    data_ -= f.stride[d] * f.extent[d];
    at_[d] = f.origin[d];
  }
  ++fragment_;
  Enter();
  return *this;
}

Result<World> World::Create(MPI_Comm comm, const WorldOptions& options) {
  return Guarded("world", [&]() -> Result<World> {
    auto team = internal::Team::Create(comm, options);
    if (!team) return team.status();
    return World(std::move(*team));
  });
}

int World::rank() const { return team_->rank(); }
int World::size() const { return team_->size(); }
const Statistics& World::statistics() const { return team_->statistics(); }
const Status& World::DirectReads() const { return team_->direct_reads(); }
void World::Trim() { team_->memory().Trim(); }

Result<DataStore> World::CreateStore(std::vector<Index> shape, std::size_t element_bytes, Target target) {
  return Guarded("store", [&]() -> Result<DataStore> {
    const auto fail = [](const std::string& why) { return Status(Code::kInvalid, "store: " + why); };
    if (team_->in_task) return fail("called within a task or load function");
    if (shape.empty()) return fail("no dimensions");
    Index volume = 1;
    for (Index n : shape) {
      if (n < 1) return fail("a dimension of " + std::to_string(n) + " elements");
      if (volume > INT64_MAX / 2 / n) return fail("more elements than can be counted");
      volume *= n;
    }
    if (element_bytes > (std::size_t{1} << 30) || static_cast<Index>(element_bytes) > INT64_MAX / 2 / volume) {
      return fail("elements of " + std::to_string(element_bytes) + " bytes are too large");
    }
    return DataStore(std::make_shared<internal::Store>(team_, std::move(shape), element_bytes, target));
  });
}

const std::vector<Index>& DataStore::shape() const { return store_->shape(); }
std::size_t DataStore::element_bytes() const { return store_->element_bytes(); }
const Split& DataStore::split() const { return store_->split(); }
Status DataStore::LoadParallel(const LoadFunction& load) {
  return Guarded("load_parallel", [&] { return store_->LoadParallel(load); });
}
Status DataStore::SetSplit(const Split& split, Placement placement) {
  return Guarded("set_split", [&] { return store_->SetSplit(split, placement); });
}
MapResult DataStore::Map(DataStore* output, const MapFunction& task, const View& view) {
  return Guarded("map", [&] { return store_->Map(output ? output->store_.get() : nullptr, task, view); });
}
Status DataStore::Redistribute() {
  return Guarded("redistribute", [&] {
    Status s = store_->Callable("redistribute");
    return s.ok() ? store_->Redistribute() : s;
  });
}
Status DataStore::Put(Coordinates at, const void* bytes, std::size_t size) {
  return Guarded("put", [&] { return store_->Put(at, bytes, size); });
}
Result<std::vector<std::byte>> DataStore::Get(Coordinates at) const {
  return Guarded("get", [&] { return store_->Get(at); });
}
Status DataStore::Remove(Coordinates at) {
  return Guarded("remove", [&] { return store_->Remove(at); });
}
Result<Index> DataStore::Count() const {
  return Guarded("count", [&] { return store_->Count(); });
}
Status DataStore::ForEach(const std::function<void(const Element&)>& visit) const {
  return Guarded("for_each", [&] { return store_->ForEach(visit); });
}
Elements DataStore::LocalElements() const { return store_->Local(); }
void DataStore::Clear() { store_->Clear(); }
Status DataStore::Sync() {
  return Guarded("sync", [&] { return store_->Sync(); });
}

Result<std::vector<DataStore>> DataStore::SplitUp() const {
  return Guarded("split_up", [&]() -> Result<std::vector<DataStore>> {
    if (Status s = store_->Callable("split_up"); !s.ok()) return s;
    if (shape().size() < 2) return Status(Code::kInvalid, "split_up: the store has one dimension only");
    const std::vector<Index> part(shape().begin() + 1, shape().end());
    const Index volume = store_->volume() / shape()[0];
    const std::vector<Entry> entries = internal::AllEntries(*store_);
    std::vector<DataStore> stores;
    Status status;
    for (Index i = 0; i < shape()[0]; ++i) {
      stores.push_back(DataStore(
          std::make_shared<internal::Store>(store_->shared_team(), part, element_bytes(), store_->target())));
      if (status.ok()) {
        status = internal::CopyOut(*store_, entries, i * volume, (i + 1) * volume, -i * volume,
                                   *stores.back().store_);
      }
    }
    if (status = store_->team().AgreeOn(status); !status.ok()) return status;
    return stores;
  });
}

Result<DataStore> DataStore::Join(const std::vector<DataStore>& stores) {
  return Guarded("join", [&]() -> Result<DataStore> {
    const auto fail = [](const std::string& why) { return Status(Code::kInvalid, "join: " + why); };
    if (stores.empty()) return fail("no stores");
    internal::Store& first = *stores[0].store_;
    if (Status s = first.Callable("join"); !s.ok()) return s;
    for (const DataStore& store : stores) {
      if (&store.store_->team() != &first.team()) return fail("the stores belong to different worlds");
      if (store.shape() != first.shape()) return fail("the stores differ in shape");
      if (store.element_bytes() != first.element_bytes()) return fail("the stores differ in the size of elements");
    }
    std::vector<Index> shape = first.shape();
    shape.insert(shape.begin(), static_cast<Index>(stores.size()));
    World world(first.shared_team());
    auto joined = world.CreateStore(shape, first.element_bytes(), first.target());
    if (!joined) return joined.status();
    Status status;
    Index shift = 0;
    for (const DataStore& store : stores) {
      if (status.ok()) {
        status = internal::CopyOut(*store.store_, internal::AllEntries(*store.store_), 0, first.volume(), shift, *joined->store_);
      }
      shift += first.volume();
    }
    if (status = first.team().AgreeOn(status); !status.ok()) return status;
    return joined;
  });
}

}  // namespace harrow::multiview
