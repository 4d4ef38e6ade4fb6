// What goes wrong is the same error on every process, names the call, and changes nothing.
#include <gmock/gmock.h>

#include "mpi_test.h"

namespace {

using mv::Index;
using mv::kAll;
using mv::kNone;
using testing::HasSubstr;

struct Fixture {
  mv::World world;
  mv::DataStore store;  // (4,6) of ints, complete, by columns
  int rank;

  static Fixture Make(MPI_Comm comm) {
    auto world = mv::World::Create(comm);
    auto store = world->CreateStore({4, 6}, sizeof(int));
    EXPECT_OK(store->SetSplit({kNone, 3}));
    EXPECT_OK(store->LoadParallel([](mv::Loader& loader) {
      auto block = loader.Block();
      for (mv::Element e : *block) e.as<int>() = static_cast<int>(10 * e.coordinates[0] + e.coordinates[1]);
      return 0;
    }));
    const int rank = world->rank();
    return {std::move(*world), std::move(*store), rank};
  }
  void ExpectUnchanged() {
    auto count = store.Count();
    EXPECT_OK(count.status());
    EXPECT_EQ(*count, 24);
    EXPECT_OK(store.ForEach([](const mv::Element& e) {
      EXPECT_EQ(e.as<int>(), static_cast<int>(10 * e.coordinates[0] + e.coordinates[1]));
    }));
  }
};

// The same text everywhere.
void ExpectAlike(MPI_Comm comm, const mv::Status& status, const std::string& part) {
  EXPECT_THAT(status.message(), HasSubstr(part));
  char first[512] = "", mine[512] = "";
  status.message().copy(mine, sizeof mine - 1);
  std::copy(std::begin(mine), std::end(mine), first);
  MPI_Bcast(first, sizeof first, MPI_CHAR, 0, comm);
  EXPECT_STREQ(first, mine);
}

int Nothing(mv::Task&) { return 0; }

TEST(Errors, WrongCallsAreNamed) {
  Processes three(3);
  if (!three) return;
  Fixture f = Fixture::Make(three);
  ExpectAlike(three, f.store.SetSplit({kAll}), "set_split: Split has 1 entries, the store 2 dimensions");
  ExpectAlike(three, f.store.SetSplit({5, 1}), "set_split: Split asks for 5 blocks in dimension 0");
  ExpectAlike(three, f.store.SetSplit({-3, 1}), "set_split");
  ExpectAlike(three, f.store.Map(nullptr, Nothing, {kAll, kAll, kAll}).status, "map: View has 3 entries");
  ExpectAlike(three, f.store.Map(nullptr, Nothing, {kAll, 7}).status, "map: View asks for 7 blocks");
  const int value = 1;
  const std::vector<Index> outside{4, 0}, negative{0, -1}, flat{1}, inside{1, 1};
  ExpectAlike(three, f.store.Put(outside, &value, sizeof value), "put: (4,0) is not a place in a store of (4,6)");
  ExpectAlike(three, f.store.Put(inside, &value, 3), "put: an element of 3 bytes; the store's have 4");
  ExpectAlike(three, f.store.Get(negative).status(), "get: (0,-1) is not a place");
  ExpectAlike(three, f.store.Remove(flat), "remove: (1) is not a place");
  ExpectAlike(three, f.world.CreateStore({}, 4).status(), "store: no dimensions");
  ExpectAlike(three, f.world.CreateStore({3, 0}, 4).status(), "store: a dimension of 0 elements");
  ExpectAlike(three, f.world.CreateStore({Index{1} << 40, Index{1} << 40}, 4).status(), "store: more elements");
  f.ExpectUnchanged();
  EXPECT_EQ(f.store.split(), mv::Split({kNone, 3}));
}

TEST(Errors, StoresOfDifferentWorlds) {
  Processes two(2);
  if (!two) return;
  Fixture f = Fixture::Make(two), other = Fixture::Make(two);
  ExpectAlike(two, f.store.Map(&other.store, Nothing, {kAll, kAll}).status, "map: the output store belongs to another world");
  ExpectAlike(two, mv::DataStore::Join({f.store, other.store}).status(), "join: the stores belong to different worlds");
  f.ExpectUnchanged();
  other.ExpectUnchanged();
}

TEST(Errors, StoresThatDoNotFitTogether) {
  Processes two(2);
  if (!two) return;
  Fixture f = Fixture::Make(two);
  auto shape = f.world.CreateStore({6, 4}, sizeof(int)), bytes = f.world.CreateStore({4, 6}, sizeof(long)),
       line = f.world.CreateStore({4}, sizeof(int));
  ExpectAlike(two, mv::DataStore::Join({}).status(), "join: no stores");
  ExpectAlike(two, mv::DataStore::Join({f.store, *shape}).status(), "join: the stores differ in shape");
  ExpectAlike(two, mv::DataStore::Join({f.store, *bytes}).status(), "join: the stores differ in the size of elements");
  ExpectAlike(two, line->SplitUp().status(), "split_up: the store has one dimension only");
  f.ExpectUnchanged();
}

TEST(Errors, ElementsOfImpossibleSizes) {
  Processes two(2);
  if (!two) return;
  Fixture f = Fixture::Make(two);
  constexpr std::size_t kGigabyte = std::size_t{1} << 30;
  EXPECT_OK(f.world.CreateStore({2}, kGigabyte).status());
  ExpectAlike(two, f.world.CreateStore({2}, kGigabyte + 1).status(), "store: elements of 1073741825 bytes are too large");
  constexpr Index kMost = INT64_MAX / 4;
  EXPECT_OK(f.world.CreateStore({kMost}, 2).status());
  ExpectAlike(two, f.world.CreateStore({kMost + 1}, 2).status(), "store: elements of 2 bytes are too large");
  EXPECT_OK(f.world.CreateStore({kMost, 2}, 0).status());
  ExpectAlike(two, f.world.CreateStore({kMost + 1, 2}, 0).status(), "store: more elements than can be counted");
  auto variable = f.world.CreateStore({2}, 0);
  const std::vector<Index> at{1};
  ExpectAlike(two, variable->Put(at, &f, kGigabyte + 1), "put: an element of 1073741825 bytes; the store's have at most 1 GiB");
  EXPECT_EQ(*variable->Count(), 0);
}

TEST(Errors, ALoadThatFailsOnOneProcessAddsNothing) {
  Processes four(4);
  if (!four) return;
  Fixture f = Fixture::Make(four);
  const auto load = [&](int code) {
    return f.store.LoadParallel([&](mv::Loader& loader) {
      const int value = -1;
      EXPECT_OK(loader.Put({0, 0}, value));
      return f.rank == 2 ? code : 0;
    });
  };
  ExpectAlike(four, load(7), "load_parallel: the load function returned 7 on process 2");
  f.ExpectUnchanged();
  ExpectAlike(four, f.store.LoadParallel([&](mv::Loader& loader) {
    const int value = -1;
    EXPECT_OK(loader.Put({1, 1}, value));
    if (f.rank == 3) {
      EXPECT_FALSE(loader.Put({1, 6}, value).ok());
    }
    return 0;
  }), "load_parallel: put: (1,6) is not a place");
  f.ExpectUnchanged();
  ExpectAlike(four, f.store.LoadParallel([&](mv::Loader&) -> int {
    if (f.rank == 1) throw std::runtime_error("no such file");
    return 0;
  }), "no such file");
  f.ExpectUnchanged();
}

TEST(Errors, FailedTasksAreListedAndTheirOutputDropped) {
  Processes four(4);
  if (!four) return;
  Fixture f = Fixture::Make(four);
  auto output = f.world.CreateStore({4, 6}, sizeof(int));
  const auto result = f.store.Map(&*output, [&](mv::Task& task) {
    for (mv::Element e : task.elements()) EXPECT_OK(task.Put(e.coordinates, e.bytes.data(), e.bytes.size()));
    const Index row = task.key()[0];
    int rank;
    MPI_Comm_rank(task.comm(), &rank);
    if (row == 1) return rank == 1 ? 5 : rank == 2 ? 6 : 0;  // two of its processes: that of lower rank is quoted
    if (row == 3) throw std::runtime_error("diverged");
    return 0;
  }, {kAll, kNone});
  EXPECT_EQ(result.status.code(), mv::Code::kTaskFailed);
  ExpectAlike(four, result.status, "map: 2 tasks failed, first the one of key (1,0): it returned 5");
  ASSERT_EQ(result.failed.size(), 2u);
  EXPECT_EQ(result.failed[0].key, (mv::Key{1, 0}));
  EXPECT_EQ(result.failed[0].code, 5);
  EXPECT_EQ(result.failed[1].key, (mv::Key{3, 0}));
  EXPECT_EQ(result.failed[1].message, "diverged");
  std::vector<Index> rows;
  EXPECT_OK(output->ForEach([&](const mv::Element& e) { rows.push_back(e.coordinates[0]); }));
  EXPECT_THAT(rows, testing::ElementsAre(0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2));
  f.ExpectUnchanged();
}

TEST(Errors, ATaskThatPutsOutsideFails) {
  Processes two(2);
  if (!two) return;
  Fixture f = Fixture::Make(two);
  auto output = f.world.CreateStore({2}, sizeof(int));
  const auto result = f.store.Map(&*output, [&](mv::Task& task) {
    const int value = 1;
    (void)task.Put({task.key()[0]}, value);  // its status ignored: the task fails all the same
    return task.key()[0] == 3 ? 8 : 0;
  }, {kAll, kNone});
  ASSERT_EQ(result.failed.size(), 2u);
  EXPECT_THAT(result.failed[0].message, HasSubstr("map: put: (2) is not a place in a store of (2)"));
  EXPECT_EQ(result.failed[0].code, -1);
  EXPECT_EQ(result.failed[1].code, 8) << "what it returned itself";
  EXPECT_EQ(*output->Count(), 2);
  const auto without = f.store.Map(nullptr, [&](mv::Task& task) {
    const int value = 1;
    EXPECT_FALSE(task.Put({0}, value).ok());
    return 0;
  }, {kNone, kNone});
  EXPECT_THAT(without.status.message(), HasSubstr("there is no output store"));
}

TEST(Map, OfAnEmptyStoreRunsNothing) {
  Processes two(2);
  if (!two) return;
  auto world = mv::World::Create(two);
  auto store = world->CreateStore({4}, sizeof(int)), output = world->CreateStore({4}, sizeof(int));
  EXPECT_OK(store->Map(&*output, [](mv::Task&) { return 1; }, {kAll}).status);
  EXPECT_EQ(*output->Count(), 0);
}

TEST(Errors, CollectiveCallsWithinATaskAreRefused) {
  Processes two(2);
  if (!two) return;
  Fixture f = Fixture::Make(two);
  EXPECT_OK(f.store.Map([&](mv::Task&) {
    EXPECT_THAT(f.store.SetSplit({kAll, kNone}).message(), HasSubstr("set_split: called within a task"));
    const std::vector<Index> at{0, 0};
    const int value = 7;
    EXPECT_THAT(f.store.Count().status().message(), HasSubstr("count: called within a task"));
    EXPECT_THAT(f.store.Map(nullptr, Nothing, {kAll, kAll}).status.message(), HasSubstr("map: called within a task"));
    EXPECT_THAT(f.store.Redistribute().message(), HasSubstr("redistribute: called within a task"));
    EXPECT_THAT(f.store.LoadParallel([](mv::Loader&) { return 0; }).message(), HasSubstr("load_parallel: called within a task"));
    EXPECT_THAT(f.store.Put(at, &value, sizeof value).message(), HasSubstr("put: called within a task"));
    EXPECT_THAT(f.store.Get(at).status().message(), HasSubstr("get: called within a task"));
    EXPECT_THAT(f.store.Remove(at).message(), HasSubstr("remove: called within a task"));
    EXPECT_THAT(f.store.ForEach([](const mv::Element&) {}).message(), HasSubstr("for_each: called within a task"));
    EXPECT_THAT(f.store.SplitUp().status().message(), HasSubstr("split_up: called within a task"));
    EXPECT_THAT(mv::DataStore::Join({f.store}).status().message(), HasSubstr("join: called within a task"));
    EXPECT_THAT(f.world.CreateStore({2}, 4).status().message(), HasSubstr("store: called within a task"));
    return 0;
  }, {kNone, kNone}).status);
  auto loaded = f.world.CreateStore({2}, sizeof(int));
  EXPECT_OK(loaded->LoadParallel([&](mv::Loader&) {
    EXPECT_THAT(loaded->Count().status().message(), HasSubstr("count: called within a task or load function"));
    return 0;
  }));
  EXPECT_OK(loaded->Count().status());
  f.ExpectUnchanged();
}

TEST(Errors, NoRoomForAFile) {
  Processes two(2);
  if (!two) return;
  mv::WorldOptions options;
  options.directory = "/nonexistent";
  auto world = mv::World::Create(two, options);
  auto store = world->CreateStore({8, 1000}, sizeof(double), mv::Target::kFile);
  ExpectAlike(two, store->LoadParallel([](mv::Loader& loader) { return loader.Block().ok() ? 0 : 1; }),
              "cannot create a file of");
  EXPECT_EQ(*store->Count(), 0);
}

TEST(Errors, NoRoomForAFileWhereElementsWouldGo) {
  Processes two(2);
  if (!two) return;
  int rank = 0;
  MPI_Comm_rank(two, &rank);
  mv::WorldOptions options;
  if (rank == 1) options.directory = "/nonexistent";
  auto world = mv::World::Create(two, options);
  // Of sizes of their own, of one size with a gap, and all there are.
  for (const auto& [element_bytes, loaded] : {std::pair<std::size_t, Index>{0, 4}, {sizeof(Index), 3}, {sizeof(Index), 4}}) {
    auto store = world->CreateStore({4}, element_bytes, mv::Target::kFile);
    EXPECT_OK(store->LoadParallel([&](mv::Loader& loader) {
      for (Index i = 4 - loaded; rank == 0 && i < 4; ++i) {
        if (!loader.Put({i}, i).ok()) return 1;
      }
      return 0;
    }));
    EXPECT_OK(store->SetSplit({2}));
    ExpectAlike(two, store->Redistribute(), "cannot create a file of elements in /nonexistent");
    EXPECT_EQ(*store->Count(), loaded);
  }
}

}  // namespace
