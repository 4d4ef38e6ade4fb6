#include "harrow/multiview.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>

#include "harrow/multiview.hpp"
#include "multiview/guard.h"

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

// Of fixed size: what went wrong may be that there is no memory.
thread_local char g_message[4096];

static_assert(static_cast<int>(mv::Code::kInternal) == MV_INTERNAL && static_cast<int>(mv::Code::kTaskFailed) == MV_TASK_FAILED);
static_assert(sizeof(std::ptrdiff_t) == sizeof(std::int64_t));

mv_code Return(const mv::Status& status) {
  std::snprintf(g_message, sizeof g_message, "%s", status.message().c_str());
  return static_cast<mv_code>(status.code());
}

// Every function of this interface runs in one of these two, as its last frame that may be left by an exception.
template <class F>
mv_code Call(const char* name, F&& f) noexcept {
  try {
    return f();
  } catch (const std::invalid_argument& e) {
    return Return(mv::Thrown(mv::Code::kInvalid, name, e.what()));
  } catch (const std::bad_alloc&) {
    return Return(mv::Thrown(mv::Code::kMemory, name, "no memory"));
  } catch (const std::exception& e) {
    return Return(mv::Thrown(mv::Code::kInternal, name, e.what()));
  } catch (...) {
    return Return(mv::Thrown(mv::Code::kInternal, name, "something was thrown that is no std::exception"));
  }
}

// For functions that return no code: `otherwise`, with mv_message() telling why.
template <class T, class F>
T Value(const char* name, T otherwise, F&& f) noexcept {
  Call(name, [&] {
    otherwise = f();
    return MV_OK;
  });
  return otherwise;
}
template <class F>
void Do(const char* name, F&& f) noexcept {
  Call(name, [&] {
    f();
    return MV_OK;
  });
}

// The handle or pointer that a caller gave.
template <class T>
T* Given(T* pointer, const char* what) {
  if (!pointer) throw std::invalid_argument(std::string(what) + " is NULL");
  return pointer;
}

const mv::Fragment& At(const std::vector<mv::Fragment>& fragments, std::size_t i) {
  if (i < fragments.size()) return fragments[i];
  throw std::invalid_argument("there is no fragment of number " + std::to_string(i));
}

mv::Coordinates Place(const std::int64_t* at, std::size_t dimensions) { return {Given(at, "the place"), dimensions}; }
mv::Coordinates Place(const mv_store* store, const std::int64_t* at) {
  return Place(at, Given(store, "the store")->store.shape().size());
}

template <class T>
T Cuts(const std::int64_t* cuts, std::size_t dimensions) {
  return T(std::vector<mv::Cut>(Given(cuts, "the cuts"), cuts + dimensions));
}

void Describe(const mv::Fragment& f, mv_fragment* out) {
  *Given(out, "fragment") = {f.origin.data(), f.extent.data(), reinterpret_cast<const std::int64_t*>(f.stride.data()),
                             f.data,          f.element_bytes, f.contiguous()};
}

const void* Bytes(const void* bytes, std::size_t size) { return size > 0 ? Given(bytes, "bytes") : bytes; }

mv_store* Handle(mv::DataStore store) { return new mv_store{std::move(store), {}, {}}; }

}  // namespace

const char* mv_message(void) { return g_message; }

mv_code mv_world_create(MPI_Comm comm, const mv_options* options, mv_world** world) {
  return Call("world", [&] {
    *Given(world, "world") = nullptr;
    mv::WorldOptions o;
    if (options) {
      if (options->memory_limit > 0) o.memory_limit = options->memory_limit;
      if (options->directory) o.directory = options->directory;
      if (options->keep_bytes > 0) o.keep_bytes = options->keep_bytes;
      if (options->rounds != 0) o.rounds = options->rounds;
      o.direct_reads = !options->no_direct_reads;
    }
    auto made = mv::World::Create(comm, o);
    if (made) *world = new mv_world{std::move(*made)};
    return Return(made.status());
  });
}

mv_code mv_world_create_f(MPI_Fint comm, const mv_options* options, mv_world** world) {
  return Call("world", [&] { return mv_world_create(MPI_Comm_f2c(comm), options, world); });
}

void mv_world_free(mv_world* world) {
  Do("world_free", [&] { delete world; });
}

int mv_world_rank(const mv_world* world) {
  return Value("world_rank", -1, [&] { return Given(world, "the world")->world.rank(); });
}

int mv_world_size(const mv_world* world) {
  return Value("world_size", -1, [&] { return Given(world, "the world")->world.size(); });
}

void mv_world_trim(mv_world* world) {
  Do("world_trim", [&] { Given(world, "the world")->world.Trim(); });
}

mv_code mv_world_direct_reads(const mv_world* world) {
  return Call("world_direct_reads", [&] { return Return(Given(world, "the world")->world.DirectReads()); });
}

void mv_world_statistics(const mv_world* world, mv_statistics* v) {
  Do("world_statistics", [&] {
    const mv::Statistics& s = Given(world, "the world")->world.statistics();
    *Given(v, "values") = {s.messages_sent,   s.bytes_sent,      s.bytes_read,        s.bytes_copied,    s.bytes_kept,
                           s.plans_made,      s.redistributions, s.elements_examined, s.planning_seconds};
  });
}

mv_code mv_store_create(mv_world* world, int dimensions, const int64_t* shape, size_t element_bytes, mv_target target,
                        mv_store** store) {
  return Call("store", [&] {
    *Given(store, "store") = nullptr;
    Given(world, "the world");
    std::vector<mv::Index> extents;
    if (dimensions > 0) extents.assign(Given(shape, "shape"), shape + dimensions);
    auto made = world->world.CreateStore(extents, element_bytes, static_cast<mv::Target>(target));
    if (made) *store = Handle(std::move(*made));
    return Return(made.status());
  });
}

void mv_store_free(mv_store* store) {
  Do("store_free", [&] { delete store; });
}

int mv_dimensions(const mv_store* store) {
  return Value("dimensions", 0, [&] { return static_cast<int>(Given(store, "the store")->store.shape().size()); });
}

void mv_shape(const mv_store* store, int64_t* shape) {
  Do("shape", [&] {
    const std::vector<mv::Index>& extents = Given(store, "the store")->store.shape();
    std::copy(extents.begin(), extents.end(), Given(shape, "shape"));
  });
}

mv_code mv_load_parallel(mv_store* store, mv_load_function load, void* argument) {
  return Call("load_parallel", [&] {
    Given(load, "the load function");
    return Return(Given(store, "the store")->store.LoadParallel([&](mv::Loader& loader) {
      mv_loader handle{&loader, store->store.shape().size(), {}};
      return load(&handle, argument);
    }));
  });
}

mv_code mv_set_split(mv_store* store, const int64_t* cuts) {
  return Call("set_split", [&] { return mv_set_split_placed(store, cuts, MV_IN_ORDER); });
}

mv_code mv_set_split_placed(mv_store* store, const int64_t* cuts, mv_placement placement) {
  return Call("set_split", [&] {
    mv::DataStore& s = Given(store, "the store")->store;
    return Return(s.SetSplit(Cuts<mv::Split>(cuts, s.shape().size()),
                             placement == MV_LEAST_MOVED ? mv::Placement::kLeastMoved : mv::Placement::kInOrder));
  });
}

mv_code mv_map(mv_store* store, mv_store* output, mv_map_function task, void* argument, const int64_t* view) {
  return Call("map", [&] {
    Given(task, "the task");
    const auto cuts = Cuts<mv::View>(view, Given(store, "the store")->store.shape().size());
    mv::MapResult result = store->store.Map(
        output ? &output->store : nullptr,
        [&](mv::Task& t) {
          mv_task handle{&t, t.elements().count()};
          return task(&handle, argument);
        },
        cuts);
    store->failed = std::move(result.failed);
    return Return(result.status);
  });
}

mv_code mv_redistribute(mv_store* store) {
  return Call("redistribute", [&] { return Return(Given(store, "the store")->store.Redistribute()); });
}

size_t mv_failed_count(const mv_store* store) {
  return Value("failed_count", std::size_t{0}, [&] { return Given(store, "the store")->failed.size(); });
}

mv_code mv_failed(const mv_store* store, size_t i, int64_t* key, int* code, const char** message) {
  return Call("failed", [&] {
    if (i >= Given(store, "the store")->failed.size()) throw std::invalid_argument("no task of that number failed");
    const mv::FailedTask& f = store->failed[i];
    if (key) std::copy(f.key.begin(), f.key.end(), key);
    if (code) *code = f.code;
    if (message) *message = f.message.c_str();
    return MV_OK;
  });
}

mv_code mv_put(mv_store* store, const int64_t* at, const void* bytes, size_t size) {
  return Call("put", [&] { return Return(Given(store, "the store")->store.Put(Place(store, at), Bytes(bytes, size), size)); });
}

mv_code mv_get(mv_store* store, const int64_t* at, void* bytes, size_t room, size_t* size) {
  return Call("get", [&] {
    auto value = Given(store, "the store")->store.Get(Place(store, at));
    if (!value) return Return(value.status());
    const std::size_t some = std::min(room, value->size());
    if (some > 0) std::memcpy(Given(bytes, "bytes"), value->data(), some);
    if (size) *size = value->size();
    return Return({});
  });
}

mv_code mv_remove(mv_store* store, const int64_t* at) {
  return Call("remove", [&] { return Return(Given(store, "the store")->store.Remove(Place(store, at))); });
}

mv_code mv_count(mv_store* store, int64_t* count) {
  return Call("count", [&] {
    Given(count, "count");
    auto n = Given(store, "the store")->store.Count();
    if (n) *count = *n;
    return Return(n.status());
  });
}

mv_code mv_for_each(mv_store* store, mv_visit_function visit, void* argument) {
  return Call("for_each", [&] {
    Given(visit, "the function");
    return Return(Given(store, "the store")->store.ForEach([&](const mv::Element& e) {
      visit(e.coordinates.data(), e.bytes.data(), e.bytes.size(), argument);
    }));
  });
}

void mv_clear(mv_store* store) {
  Do("clear", [&] { Given(store, "the store")->store.Clear(); });
}

mv_code mv_sync(mv_store* store) {
  return Call("sync", [&] { return Return(Given(store, "the store")->store.Sync()); });
}

mv_code mv_split_up(mv_store* store, mv_store** stores) {
  return Call("split_up", [&] {
    Given(stores, "stores");
    auto parts = Given(store, "the store")->store.SplitUp();
    if (!parts) return Return(parts.status());
    std::vector<std::unique_ptr<mv_store>> handles;
    for (mv::DataStore& part : *parts) handles.emplace_back(Handle(std::move(part)));
    for (std::size_t i = 0; i < handles.size(); ++i) stores[i] = handles[i].release();
    return Return({});
  });
}

mv_code mv_join(mv_store* const* stores, size_t count, mv_store** joined) {
  return Call("join", [&] {
    *Given(joined, "joined") = nullptr;
    std::vector<mv::DataStore> parts;
    for (std::size_t i = 0; i < count; ++i) parts.push_back(Given(Given(stores, "stores")[i], "a store")->store);
    auto made = mv::DataStore::Join(parts);
    if (made) *joined = Handle(std::move(*made));
    return Return(made.status());
  });
}

size_t mv_local_fragments(mv_store* store) {
  return Value("local_fragments", std::size_t{0}, [&] {
    store = Given(store, "the store");
    store->local = store->store.LocalElements().fragments();
    return store->local.size();
  });
}

void mv_local_fragment(const mv_store* store, size_t i, mv_fragment* fragment) {
  Do("local_fragment", [&] { Describe(At(Given(store, "the store")->local, i), fragment); });
}

mv_code mv_loader_put(mv_loader* loader, const int64_t* at, const void* bytes, size_t size) {
  return Call("load_parallel: put", [&] {
    Given(loader, "the loader");
    return Return(loader->loader->Put(Place(at, loader->dimensions), Bytes(bytes, size), size));
  });
}

mv_code mv_loader_put_block(mv_loader* loader, const int64_t* origin, const int64_t* extent, const void* elements) {
  return Call("load_parallel: put_block", [&] {
    Given(loader, "the loader");
    return Return(loader->loader->PutBlock(Place(origin, loader->dimensions), Place(extent, loader->dimensions),
                                            Given(elements, "elements")));
  });
}

mv_code mv_loader_block(mv_loader* loader, size_t* fragments) {
  return Call("load_parallel: block", [&] {
    *Given(fragments, "fragments") = 0;
    auto block = Given(loader, "the loader")->loader->Block();
    if (block) loader->block = block->fragments();
    *fragments = loader->block.size();
    return Return(block.status());
  });
}

void mv_loader_fragment(const mv_loader* loader, size_t i, mv_fragment* fragment) {
  Do("loader_fragment", [&] { Describe(At(Given(loader, "the loader")->block, i), fragment); });
}

void mv_task_key(const mv_task* task, int64_t* key) {
  Do("task_key", [&] {
    const mv::Key& k = Given(task, "the task")->task->key();
    std::copy(k.begin(), k.end(), Given(key, "key"));
  });
}

MPI_Comm mv_task_comm(const mv_task* task) {
  return Value("task_comm", MPI_COMM_NULL, [&] { return Given(task, "the task")->task->comm(); });
}

MPI_Fint mv_task_comm_f(const mv_task* task) {
  return Value("task_comm", MPI_Comm_c2f(MPI_COMM_NULL), [&] { return MPI_Comm_c2f(Given(task, "the task")->task->comm()); });
}

void mv_task_split(const mv_task* task, int64_t* cuts) {
  Do("task_split", [&] {
    const mv::Split& split = Given(task, "the task")->task->split();
    for (std::size_t d = 0; d < split.size(); ++d) Given(cuts, "cuts")[d] = split[d].value();
  });
}

void mv_task_view(const mv_task* task, int64_t* cuts) {
  Do("task_view", [&] {
    const mv::View& view = Given(task, "the task")->task->view();
    for (std::size_t d = 0; d < view.size(); ++d) Given(cuts, "cuts")[d] = view[d].value();
  });
}

int64_t mv_task_elements(const mv_task* task) {
  return Value("task_elements", std::int64_t{0}, [&] { return std::int64_t{Given(task, "the task")->elements}; });
}

mv_code mv_task_element(const mv_task* task, int64_t i, int64_t* at, void** bytes, size_t* size) {
  return Call("task_element", [&] {
    if (i < 0 || i >= Given(task, "the task")->elements) {
      throw std::invalid_argument("the task has no element of that number here");
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
    *Given(bytes, "bytes") = data;
    if (size) *size = f.element_bytes;
    g_message[0] = '\0';
    return MV_OK;
  });
}

size_t mv_task_fragments(const mv_task* task) {
  return Value("task_fragments", std::size_t{0}, [&] { return Given(task, "the task")->task->elements().fragments().size(); });
}

void mv_task_fragment(const mv_task* task, size_t i, mv_fragment* fragment) {
  Do("task_fragment", [&] { Describe(At(Given(task, "the task")->task->elements().fragments(), i), fragment); });
}

mv_code mv_task_put(mv_task* task, const int64_t* at, const void* bytes, size_t size) {
  return Call("map: put", [&] {
    return Return(Given(task, "the task")->task->Put(Place(at, task->task->shape_of_output().size()), Bytes(bytes, size), size));
  });
}
