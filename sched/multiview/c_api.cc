#include "harrow/multiview.h"

#include <algorithm>
#include <cstring>

#include "harrow/multiview.hpp"

namespace mv = harrow::multiview;

struct mv_world {
  mv::World world;
};
struct mv_store {
  mv::DataStore store;
  std::vector<mv::FailedTask> failed;
  std::vector<mv::Fragment> local;
};
struct mv_loader {
  mv::Loader* loader;
  std::size_t dimensions;
  std::vector<mv::Fragment> block;
};
struct mv_task {
  mv::Task* task;
  // Elements of their own size are a fragment each: the whole number, and the place of the last mv_task_element, are kept, so
  // that a loop over all of them takes a step an element.
  mv::Index elements;
  mutable std::size_t fragment = 0;
  mutable mv::Index first = 0;  // elements before that fragment
};

namespace {

thread_local std::string g_message;

static_assert(static_cast<int>(mv::Code::kInternal) == MV_INTERNAL && static_cast<int>(mv::Code::kTaskFailed) == MV_TASK_FAILED);
static_assert(sizeof(std::ptrdiff_t) == sizeof(std::int64_t));

mv_code Return(const mv::Status& status) {
  g_message = status.message();
  return static_cast<mv_code>(status.code());
}

mv::Coordinates Place(const std::int64_t* at, std::size_t dimensions) { return {at, dimensions}; }
mv::Coordinates Place(const mv_store* store, const std::int64_t* at) { return {at, store->store.shape().size()}; }

template <class T>
T Cuts(const std::int64_t* cuts, std::size_t dimensions) {
  return T(std::vector<mv::Cut>(cuts, cuts + dimensions));
}

void Describe(const mv::Fragment& f, mv_fragment* out) {
  out->origin = f.origin.data();
  out->extent = f.extent.data();
  out->stride = reinterpret_cast<const std::int64_t*>(f.stride.data());
  out->data = f.data;
  out->element_bytes = f.element_bytes;
  out->contiguous = f.contiguous();
}

mv_store* Handle(mv::DataStore store) { return new mv_store{std::move(store), {}, {}}; }

}  // namespace

const char* mv_message(void) { return g_message.c_str(); }

mv_code mv_world_create(MPI_Comm comm, const mv_options* options, mv_world** world) {
  mv::WorldOptions o;
  if (options) {
    if (options->memory_limit > 0) o.memory_limit = options->memory_limit;
    if (options->directory) o.directory = options->directory;
    if (options->keep_bytes > 0) o.keep_bytes = options->keep_bytes;
    if (options->rounds != 0) o.rounds = options->rounds;
    o.direct_reads = !options->no_direct_reads;
  }
  auto made = mv::World::Create(comm, o);
  *world = made ? new mv_world{std::move(*made)} : nullptr;
  return Return(made.status());
}

mv_code mv_world_create_f(MPI_Fint comm, const mv_options* options, mv_world** world) {
  return mv_world_create(MPI_Comm_f2c(comm), options, world);
}

void mv_world_free(mv_world* world) { delete world; }
int mv_world_rank(const mv_world* world) { return world->world.rank(); }
int mv_world_size(const mv_world* world) { return world->world.size(); }
void mv_world_trim(mv_world* world) { world->world.Trim(); }

void mv_world_statistics(const mv_world* world, mv_statistics* v) {
  const mv::Statistics& s = world->world.statistics();
  *v = {s.messages_sent,   s.bytes_sent,         s.bytes_read,        s.bytes_copied,    s.bytes_kept,
        s.plans_made,      s.redistributions,    s.elements_examined, s.planning_seconds};
}

mv_code mv_store_create(mv_world* world, int dimensions, const int64_t* shape, size_t element_bytes, mv_target target,
                        mv_store** store) {
  const std::vector<mv::Index> extents(shape, shape + (dimensions > 0 ? dimensions : 0));
  auto made = world->world.CreateStore(extents, element_bytes, static_cast<mv::Target>(target));
  *store = made ? Handle(std::move(*made)) : nullptr;
  return Return(made.status());
}

void mv_store_free(mv_store* store) { delete store; }
int mv_dimensions(const mv_store* store) { return static_cast<int>(store->store.shape().size()); }
void mv_shape(const mv_store* store, int64_t* shape) { std::copy(store->store.shape().begin(), store->store.shape().end(), shape); }

mv_code mv_load_parallel(mv_store* store, mv_load_function load, void* argument) {
  return Return(store->store.LoadParallel([&](mv::Loader& loader) {
    mv_loader handle{&loader, store->store.shape().size(), {}};
    return load(&handle, argument);
  }));
}

mv_code mv_set_split(mv_store* store, const int64_t* cuts) { return mv_set_split_placed(store, cuts, MV_IN_ORDER); }

mv_code mv_set_split_placed(mv_store* store, const int64_t* cuts, mv_placement placement) {
  return Return(store->store.SetSplit(Cuts<mv::Split>(cuts, store->store.shape().size()),
                                      placement == MV_LEAST_MOVED ? mv::Placement::kLeastMoved : mv::Placement::kInOrder));
}

mv_code mv_map(mv_store* store, mv_store* output, mv_map_function task, void* argument, const int64_t* view) {
  mv::MapResult result = store->store.Map(
      output ? &output->store : nullptr,
      [&](mv::Task& t) {
        mv_task handle{&t, t.elements().count()};
        return task(&handle, argument);
      },
      Cuts<mv::View>(view, store->store.shape().size()));
  store->failed = std::move(result.failed);
  return Return(result.status);
}

mv_code mv_redistribute(mv_store* store) { return Return(store->store.Redistribute()); }

size_t mv_failed_count(const mv_store* store) { return store->failed.size(); }

mv_code mv_failed(const mv_store* store, size_t i, int64_t* key, int* code, const char** message) {
  if (i >= store->failed.size()) return Return({mv::Code::kInvalid, "failed: no task of that number failed"});
  const mv::FailedTask& f = store->failed[i];
  if (key) std::copy(f.key.begin(), f.key.end(), key);
  if (code) *code = f.code;
  if (message) *message = f.message.c_str();
  return MV_OK;
}

mv_code mv_put(mv_store* store, const int64_t* at, const void* bytes, size_t size) {
  return Return(store->store.Put(Place(store, at), bytes, size));
}

mv_code mv_get(mv_store* store, const int64_t* at, void* bytes, size_t room, size_t* size) {
  auto value = store->store.Get(Place(store, at));
  if (!value) return Return(value.status());
  std::memcpy(bytes, value->data(), std::min(room, value->size()));
  if (size) *size = value->size();
  return Return({});
}

mv_code mv_remove(mv_store* store, const int64_t* at) { return Return(store->store.Remove(Place(store, at))); }

mv_code mv_count(mv_store* store, int64_t* count) {
  auto n = store->store.Count();
  if (n) *count = *n;
  return Return(n.status());
}

mv_code mv_for_each(mv_store* store, mv_visit_function visit, void* argument) {
  return Return(store->store.ForEach(
      [&](const mv::Element& e) { visit(e.coordinates.data(), e.bytes.data(), e.bytes.size(), argument); }));
}

void mv_clear(mv_store* store) { store->store.Clear(); }
mv_code mv_sync(mv_store* store) { return Return(store->store.Sync()); }

mv_code mv_split_up(mv_store* store, mv_store** stores) {
  auto parts = store->store.SplitUp();
  if (!parts) return Return(parts.status());
  for (std::size_t i = 0; i < parts->size(); ++i) stores[i] = Handle(std::move((*parts)[i]));
  return Return({});
}

mv_code mv_join(mv_store* const* stores, size_t count, mv_store** joined) {
  std::vector<mv::DataStore> parts;
  for (std::size_t i = 0; i < count; ++i) parts.push_back(stores[i]->store);
  auto made = mv::DataStore::Join(parts);
  *joined = made ? Handle(std::move(*made)) : nullptr;
  return Return(made.status());
}

size_t mv_local_fragments(mv_store* store) {
  store->local = store->store.LocalElements().fragments();
  return store->local.size();
}

void mv_local_fragment(const mv_store* store, size_t i, mv_fragment* fragment) { Describe(store->local[i], fragment); }

mv_code mv_loader_put(mv_loader* loader, const int64_t* at, const void* bytes, size_t size) {
  return Return(loader->loader->Put(Place(at, loader->dimensions), bytes, size));
}

mv_code mv_loader_put_block(mv_loader* loader, const int64_t* origin, const int64_t* extent, const void* elements) {
  return Return(loader->loader->PutBlock(Place(origin, loader->dimensions), Place(extent, loader->dimensions), elements));
}

mv_code mv_loader_block(mv_loader* loader, size_t* fragments) {
  auto block = loader->loader->Block();
  if (block) loader->block = block->fragments();
  *fragments = loader->block.size();
  return Return(block.status());
}

void mv_loader_fragment(const mv_loader* loader, size_t i, mv_fragment* fragment) { Describe(loader->block[i], fragment); }

void mv_task_key(const mv_task* task, int64_t* key) { std::copy(task->task->key().begin(), task->task->key().end(), key); }
MPI_Comm mv_task_comm(const mv_task* task) { return task->task->comm(); }
MPI_Fint mv_task_comm_f(const mv_task* task) { return MPI_Comm_c2f(task->task->comm()); }

void mv_task_split(const mv_task* task, int64_t* cuts) {
  for (std::size_t d = 0; d < task->task->split().size(); ++d) cuts[d] = task->task->split()[d].value();
}

void mv_task_view(const mv_task* task, int64_t* cuts) {
  for (std::size_t d = 0; d < task->task->view().size(); ++d) cuts[d] = task->task->view()[d].value();
}

int64_t mv_task_elements(const mv_task* task) { return task->elements; }

mv_code mv_task_element(const mv_task* task, int64_t i, int64_t* at, void** bytes, size_t* size) {
  if (i < 0 || i >= task->elements) {
    return Return({mv::Code::kInvalid, "task_element: the task has no element of that number here"});
  }
  const std::vector<mv::Fragment>& fragments = task->task->elements().fragments();
  if (i < task->first) task->fragment = 0, task->first = 0;
  for (mv::Index count; i - task->first >= (count = fragments[task->fragment].count()); ++task->fragment) task->first += count;
  const mv::Fragment& f = fragments[task->fragment];
  mv::Index rest = i - task->first;
  std::byte* data = f.data;
  for (std::size_t d = f.extent.size(); d-- > 0; rest /= f.extent[d]) {
    data += rest % f.extent[d] * f.stride[d];
    if (at) at[d] = f.origin[d] + rest % f.extent[d];
  }
  *bytes = data;
  if (size) *size = f.element_bytes;
  return Return({});
}

size_t mv_task_fragments(const mv_task* task) { return task->task->elements().fragments().size(); }

void mv_task_fragment(const mv_task* task, size_t i, mv_fragment* fragment) {
  Describe(task->task->elements().fragments()[i], fragment);
}

mv_code mv_task_put(mv_task* task, const int64_t* at, const void* bytes, size_t size) {
  return Return(task->task->Put(Place(at, task->task->shape_of_output().size()), bytes, size));
}
