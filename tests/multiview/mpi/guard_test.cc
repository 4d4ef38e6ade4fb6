// No exception leaves the C interface, wherever it is thrown: each function is called without its handles, and with every
// allocation in turn failing in three ways. The list is compared with what the library exports.
#include <gmock/gmock.h>
#include <harrow/multiview.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <new>
#include <set>
#include <string>

#include "mpi_test.h"

namespace {

// What the program's n-th allocation from now throws; 0: it does not.
thread_local int g_left = 0;
enum class Throws { kBadAlloc, kException, kNumber };
thread_local Throws g_throws = Throws::kBadAlloc;

void* Allocate(std::size_t size) {
  if (g_left > 0 && --g_left == 0) {
    if (g_throws == Throws::kException) throw std::runtime_error("thrown by an allocation");
    if (g_throws == Throws::kNumber) throw 7;
    throw std::bad_alloc();
  }
  if (void* p = std::malloc(size ? size : 1)) return p;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t size) { return Allocate(size); }
void* operator new[](std::size_t size) { return Allocate(size); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }

namespace {

constexpr std::int64_t kShape[] = {3, 4};

/// A world of one process with a complete store, and places for what calls return.
struct Rig {
  mv_world* world = nullptr;
  mv_store* store = nullptr;
  mv_store* made[3] = {};
  mv_loader* loader = nullptr;
  mv_task* task = nullptr;
  std::int64_t numbers[2] = {};
  double value = 1;
  int code = 0;
  void* bytes = nullptr;
  const char* text = nullptr;
  std::size_t size = 0;
  mv_statistics statistics;
  mv_fragment fragment;

  Rig() {
    EXPECT_EQ(mv_world_create(MPI_COMM_SELF, nullptr, &world), MV_OK) << mv_message();
    EXPECT_EQ(mv_store_create(world, 2, kShape, 8, MV_TARGET_MEMORY, &store), MV_OK) << mv_message();
    EXPECT_EQ(mv_load_parallel(store, Fill, nullptr), MV_OK) << mv_message();
  }
  ~Rig() {
    for (mv_store* s : made) mv_store_free(s);
    mv_store_free(store);
    mv_world_free(world);
  }
  static int Fill(mv_loader* loader, void*) {
    std::size_t n;
    return mv_loader_block(loader, &n);
  }
};

constexpr std::int64_t kAt[] = {1, 2}, kOne[] = {1, 1}, kEach[] = {MV_ALL, MV_ALL}, kWhole[] = {MV_NONE, MV_NONE};
int NoLoad(mv_loader*, void*) { return 0; }
int NoTask(mv_task*, void*) { return 0; }
int FailingTask(mv_task*, void*) { return 3; }
void NoVisit(const std::int64_t*, const void*, size_t, void*) {}

using Use = std::function<void(Rig&)>;
enum Where { kOutside, kInLoad, kInTask };
struct Function {
  Use without_handle;  // null: it may be called without
  Use use;
  Where where = kOutside;
};

const std::map<std::string, Function>& Functions() {
  static const std::map<std::string, Function> functions = {
      {"mv_message", {nullptr, [](Rig&) { mv_message(); }}},
      {"mv_world_create", {[](Rig&) { mv_world_create(MPI_COMM_SELF, nullptr, nullptr); },
                           [](Rig&) {
                             mv_world* world;
                             mv_world_create(MPI_COMM_SELF, nullptr, &world);
                             mv_world_free(world);
                           }}},
      {"mv_world_create_f", {[](Rig&) { mv_world_create_f(MPI_Comm_c2f(MPI_COMM_SELF), nullptr, nullptr); },
                             [](Rig&) {
                               mv_world* world;
                               mv_world_create_f(MPI_Comm_c2f(MPI_COMM_SELF), nullptr, &world);
                               mv_world_free(world);
                             }}},
      {"mv_world_free", {nullptr, [](Rig&) { mv_world_free(nullptr); }}},
      {"mv_world_rank", {[](Rig&) { EXPECT_EQ(mv_world_rank(nullptr), -1); }, [](Rig& r) { mv_world_rank(r.world); }}},
      {"mv_world_size", {[](Rig&) { EXPECT_EQ(mv_world_size(nullptr), -1); }, [](Rig& r) { mv_world_size(r.world); }}},
      {"mv_world_trim", {[](Rig&) { mv_world_trim(nullptr); }, [](Rig& r) { mv_world_trim(r.world); }}},
      {"mv_world_direct_reads", {[](Rig&) { mv_world_direct_reads(nullptr); }, [](Rig& r) { mv_world_direct_reads(r.world); }}},
      {"mv_world_statistics", {[](Rig& r) { mv_world_statistics(nullptr, &r.statistics); },
                               [](Rig& r) { mv_world_statistics(r.world, &r.statistics); }}},
      {"mv_store_create", {[](Rig& r) { mv_store_create(nullptr, 2, kShape, 8, MV_TARGET_MEMORY, &r.made[0]); },
                           [](Rig& r) {
                             mv_store* made;
                             mv_store_create(r.world, 2, kShape, 8, MV_TARGET_MEMORY, &made);
                             mv_store_free(made);
                           }}},
      {"mv_store_free", {nullptr, [](Rig&) { mv_store_free(nullptr); }}},
      {"mv_dimensions", {[](Rig&) { EXPECT_EQ(mv_dimensions(nullptr), 0); }, [](Rig& r) { mv_dimensions(r.store); }}},
      {"mv_shape", {[](Rig& r) { mv_shape(nullptr, r.numbers); }, [](Rig& r) { mv_shape(r.store, r.numbers); }}},
      {"mv_load_parallel", {[](Rig&) { mv_load_parallel(nullptr, NoLoad, nullptr); },
                            [](Rig& r) { mv_load_parallel(r.store, NoLoad, nullptr); }}},
      {"mv_set_split", {[](Rig&) { mv_set_split(nullptr, kEach); }, [](Rig& r) { mv_set_split(r.store, kEach); }}},
      {"mv_set_split_placed", {[](Rig&) { mv_set_split_placed(nullptr, kEach, MV_LEAST_MOVED); },
                               [](Rig& r) { mv_set_split_placed(r.store, kEach, MV_LEAST_MOVED); }}},
      {"mv_map", {[](Rig&) { mv_map(nullptr, nullptr, NoTask, nullptr, kEach); },
                  [](Rig& r) { mv_map(r.store, r.store, FailingTask, nullptr, kEach); }}},
      {"mv_redistribute", {[](Rig&) { mv_redistribute(nullptr); },
                           [](Rig& r) {
                             mv_set_split_placed(r.store, kWhole, MV_LEAST_MOVED);
                             mv_redistribute(r.store);
                           }}},
      {"mv_failed_count", {[](Rig&) { EXPECT_EQ(mv_failed_count(nullptr), 0u); }, [](Rig& r) { mv_failed_count(r.store); }}},
      {"mv_failed", {[](Rig& r) { mv_failed(nullptr, 0, r.numbers, &r.code, &r.text); },
                     [](Rig& r) { mv_failed(r.store, 0, r.numbers, &r.code, &r.text); }}},
      {"mv_put", {[](Rig& r) { mv_put(nullptr, kAt, &r.value, 8); },
                  [](Rig& r) {
                    mv_remove(r.store, kAt);
                    mv_put(r.store, kAt, &r.value, 8);
                  }}},
      {"mv_get", {[](Rig& r) { mv_get(nullptr, kAt, &r.value, 8, &r.size); }, [](Rig& r) { mv_get(r.store, kAt, &r.value, 8, &r.size); }}},
      {"mv_remove", {[](Rig&) { mv_remove(nullptr, kAt); }, [](Rig& r) { mv_remove(r.store, kAt); }}},
      {"mv_count", {[](Rig& r) { mv_count(nullptr, r.numbers); }, [](Rig& r) { mv_count(r.store, r.numbers); }}},
      {"mv_for_each", {[](Rig&) { mv_for_each(nullptr, NoVisit, nullptr); }, [](Rig& r) { mv_for_each(r.store, NoVisit, nullptr); }}},
      {"mv_clear", {[](Rig&) { mv_clear(nullptr); }, [](Rig& r) { mv_clear(r.store); }}},
      {"mv_sync", {[](Rig&) { mv_sync(nullptr); }, [](Rig& r) { mv_sync(r.store); }}},
      {"mv_split_up", {[](Rig& r) { mv_split_up(nullptr, r.made); },
                       [](Rig& r) {
                         mv_store* parts[3] = {};
                         mv_split_up(r.store, parts);
                         for (mv_store* s : parts) mv_store_free(s);
                       }}},
      {"mv_join", {[](Rig& r) {
                     mv_store* const none[] = {nullptr};
                     mv_join(none, 1, &r.made[0]);
                   },
                   [](Rig& r) {
                     mv_store* joined;
                     mv_join(&r.store, 1, &joined);
                     mv_store_free(joined);
                   }}},
      {"mv_local_fragments", {[](Rig&) { EXPECT_EQ(mv_local_fragments(nullptr), 0u); }, [](Rig& r) { mv_local_fragments(r.store); }}},
      {"mv_local_fragment", {[](Rig& r) { mv_local_fragment(nullptr, 0, &r.fragment); },
                             [](Rig& r) { mv_local_fragment(r.store, 0, &r.fragment); }}},
      {"mv_loader_put", {[](Rig& r) { mv_loader_put(nullptr, kAt, &r.value, 8); },
                         [](Rig& r) { mv_loader_put(r.loader, kAt, &r.value, 8); }, kInLoad}},
      {"mv_loader_put_block", {[](Rig& r) { mv_loader_put_block(nullptr, kAt, kOne, &r.value); },
                               [](Rig& r) { mv_loader_put_block(r.loader, kAt, kOne, &r.value); }, kInLoad}},
      {"mv_loader_block", {[](Rig& r) { mv_loader_block(nullptr, &r.size); }, [](Rig& r) { mv_loader_block(r.loader, &r.size); }, kInLoad}},
      {"mv_loader_fragment", {[](Rig& r) { mv_loader_fragment(nullptr, 0, &r.fragment); },
                              [](Rig& r) { mv_loader_fragment(r.loader, 5, &r.fragment); }, kInLoad}},
      {"mv_task_key", {[](Rig& r) { mv_task_key(nullptr, r.numbers); }, [](Rig& r) { mv_task_key(r.task, r.numbers); }, kInTask}},
      {"mv_task_comm", {[](Rig&) { EXPECT_EQ(mv_task_comm(nullptr), MPI_COMM_NULL); }, [](Rig& r) { mv_task_comm(r.task); }, kInTask}},
      {"mv_task_comm_f", {[](Rig&) { EXPECT_EQ(mv_task_comm_f(nullptr), MPI_Comm_c2f(MPI_COMM_NULL)); },
                          [](Rig& r) { mv_task_comm_f(r.task); }, kInTask}},
      {"mv_task_split", {[](Rig& r) { mv_task_split(nullptr, r.numbers); }, [](Rig& r) { mv_task_split(r.task, r.numbers); }, kInTask}},
      {"mv_task_view", {[](Rig& r) { mv_task_view(nullptr, r.numbers); }, [](Rig& r) { mv_task_view(r.task, r.numbers); }, kInTask}},
      {"mv_task_elements", {[](Rig&) { EXPECT_EQ(mv_task_elements(nullptr), 0); }, [](Rig& r) { mv_task_elements(r.task); }, kInTask}},
      {"mv_task_element", {[](Rig& r) { mv_task_element(nullptr, 0, r.numbers, &r.bytes, &r.size); },
                           [](Rig& r) { mv_task_element(r.task, 99, r.numbers, &r.bytes, &r.size); }, kInTask}},
      {"mv_task_fragments", {[](Rig&) { EXPECT_EQ(mv_task_fragments(nullptr), 0u); }, [](Rig& r) { mv_task_fragments(r.task); }, kInTask}},
      {"mv_task_fragment", {[](Rig& r) { mv_task_fragment(nullptr, 0, &r.fragment); },
                            [](Rig& r) { mv_task_fragment(r.task, 99, &r.fragment); }, kInTask}},
      {"mv_task_put", {[](Rig& r) { mv_task_put(nullptr, kAt, &r.value, 8); }, [](Rig& r) { mv_task_put(r.task, kAt, &r.value, 8); }, kInTask}},
  };
  return functions;
}

TEST(CInterface, EveryExportedFunctionIsInTheList) {
  Processes one(1);
  if (!one) return;
  std::FILE* nm = popen("nm -g --defined-only " MULTIVIEW_LIBRARY, "r");
  ASSERT_NE(nm, nullptr);
  std::set<std::string> exported, listed;
  for (char line[4096], name[4096], type; std::fgets(line, sizeof line, nm);) {
    if (std::sscanf(line, "%*x %c %4095s", &type, name) == 2 && type == 'T' && std::string(name).starts_with("mv_")) exported.insert(name);
  }
  EXPECT_EQ(pclose(nm), 0);
  for (const auto& [name, function] : Functions()) listed.insert(name);
  EXPECT_EQ(exported, listed);
}

TEST(CInterface, AHandleThatIsNullIsAnError) {
  Processes one(1);
  if (!one) return;
  Rig rig;
  for (const auto& [name, function] : Functions()) {
    if (!function.without_handle) continue;
    ASSERT_EQ(mv_count(rig.store, rig.numbers), MV_OK);
    ASSERT_STREQ(mv_message(), "");
    function.without_handle(rig);
    EXPECT_THAT(mv_message(), testing::HasSubstr("NULL")) << name;
  }
}

TEST(CInterface, NothingIsThrownWhereverAnAllocationFails) {
  Processes one(1);
  if (!one) return;
  for (const auto& [name, function] : Functions()) {
    SCOPED_TRACE(name);
    for (const Throws what : {Throws::kBadAlloc, Throws::kException, Throws::kNumber}) {
      int first = 1;
      for (bool again = true; again; ++first) {
        ASSERT_LT(first, 2000);
        struct Armed {
          Rig rig;
          const Use* use;
          int first;
          bool again;
          void Run() {
            g_left = first;
            (*use)(rig);
            again = g_left == 0;  // it was thrown: on to the next allocation
            g_left = 0;
          }
        } armed{{}, &function.use, first, false};
        g_throws = what;
        if (function.where == kInLoad) {
          mv_clear(armed.rig.store);
          mv_load_parallel(armed.rig.store, [](mv_loader* loader, void* argument) {
            auto* a = static_cast<Armed*>(argument);
            a->rig.loader = loader;
            a->Run();
            return 0;
          }, &armed);
        } else if (function.where == kInTask) {
          mv_map(armed.rig.store, armed.rig.store, [](mv_task* task, void* argument) {
            auto* a = static_cast<Armed*>(argument);
            a->rig.task = task;
            a->Run();
            return 0;
          }, &armed, kWhole);
        } else {
          armed.Run();
        }
        again = armed.again;
      }
    }
  }
}

TEST(CInterface, WhatACallbackThrowsIsTheCallsError) {
  Processes one(1);
  if (!one) return;
  Rig rig;
  EXPECT_EQ(mv_load_parallel(rig.store, [](mv_loader*, void*) -> int { throw std::runtime_error("no such file"); }, nullptr),
            MV_TASK_FAILED);
  EXPECT_STREQ(mv_message(), "load_parallel: no such file");
  EXPECT_EQ(mv_load_parallel(rig.store, [](mv_loader*, void*) -> int { throw 5; }, nullptr), MV_TASK_FAILED);
  EXPECT_EQ(mv_map(rig.store, nullptr, [](mv_task*, void*) -> int { throw std::bad_alloc(); }, nullptr, kWhole), MV_TASK_FAILED);
  EXPECT_EQ(mv_map(rig.store, nullptr, [](mv_task*, void*) -> int { throw "text"; }, nullptr, kWhole), MV_TASK_FAILED);
  EXPECT_EQ(mv_failed_count(rig.store), 1u);
  EXPECT_EQ(mv_for_each(rig.store, [](const std::int64_t*, const void*, size_t, void*) { throw std::runtime_error("x"); }, nullptr),
            MV_TASK_FAILED);
  EXPECT_STREQ(mv_message(), "for_each: x");
  EXPECT_EQ(mv_count(rig.store, rig.numbers), MV_OK);
  EXPECT_EQ(rig.numbers[0], 12);
  // A put that failed for want of memory fails the load, whether the load function looks at it or not.
  EXPECT_EQ(mv_load_parallel(rig.store, [](mv_loader* loader, void* value) {
    g_throws = Throws::kBadAlloc;
    g_left = 1;
    mv_loader_put(loader, kAt, value, 8);
    g_left = 0;
    return 0;
  }, &rig.value), MV_MEMORY);
}

}  // namespace
