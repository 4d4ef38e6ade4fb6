// Who holds what, who runs what: the paper's figures and what it says between them.
#include <gmock/gmock.h>

#include <set>

#include "mpi_test.h"

namespace {

using mv::Index;
using mv::kAll;
using mv::kNone;
using mv::Split;
using mv::View;

int Value(mv::Coordinates at) {
  int v = 0;
  for (Index i : at) v = v * 100 + static_cast<int>(i);
  return v;
}

// Every process puts a share of the elements that has nothing to do with any Split.
mv::Status LoadAnyhow(mv::DataStore* store, int rank, int size) {
  return store->LoadParallel([&](mv::Loader& loader) {
    Index n = 0;
    const auto& shape = store->shape();
    std::vector<Index> at(shape.size());
    for (;;) {
      const int value = Value(at);
      if (n++ * 7 % size == rank) {
        EXPECT_OK(loader.Put(at, &value, sizeof value));
      }
      std::size_t d = at.size();
      while (d > 0 && ++at[d - 1] == shape[d - 1]) at[--d] = 0;
      if (d == 0) return 0;
    }
  });
}

struct Ran {
  std::vector<std::vector<Index>> keys;  // in the order in which they ran
  std::vector<int> processes;            // of each
  Index elements = 0;
};

Ran RunTasks(mv::DataStore* store, const View& view) {
  Ran ran;
  EXPECT_OK(store->Map([&](mv::Task& task) {
    int size;
    MPI_Comm_size(task.comm(), &size);
    ran.keys.push_back(task.key());
    ran.processes.push_back(size);
    for (mv::Element e : task.elements()) {
      EXPECT_EQ(e.as<int>(), Value(e.coordinates));
      ++ran.elements;
    }
    MPI_Barrier(task.comm());
    return 0;
  }, view).status);
  return ran;
}

struct Figure {
  MPI_Comm comm;
  mv::World world;
  mv::DataStore store;
  int rank;

  static Figure Make(MPI_Comm comm, const Split& split) {
    auto world = mv::World::Create(comm);
    EXPECT_OK(world.status());
    auto store = world->CreateStore({2, 4, 4}, sizeof(int));
    EXPECT_OK(store.status());
    EXPECT_OK(LoadAnyhow(&*store, world->rank(), world->size()));
    EXPECT_OK(store->SetSplit(split));
    const int rank = world->rank();
    return {comm, std::move(*world), std::move(*store), rank};
  }
};

using Keys = std::vector<std::vector<Index>>;

TEST(Figure3, C) {
  Processes two(2);
  if (!two) return;
  Figure f = Figure::Make(two, {kAll, kNone, kNone});
  const Ran ran = RunTasks(&f.store, {kAll, kNone, kNone});
  EXPECT_EQ(ran.keys, Keys({{f.rank, 0, 0}}));
  EXPECT_EQ(ran.processes, std::vector<int>{1});
  EXPECT_EQ(ran.elements, 16);
}

TEST(Figure3, D) {
  Processes eight(8);
  if (!eight) return;
  Figure f = Figure::Make(eight, {kAll, kAll, kNone});
  const Ran ran = RunTasks(&f.store, {kAll, kNone, kNone});
  EXPECT_EQ(ran.keys, Keys({{f.rank / 4, 0, 0}}));
  EXPECT_EQ(ran.processes, std::vector<int>{4});
  const mv::Elements local = f.store.LocalElements();
  ASSERT_EQ(local.count(), 4);
  Index k = 0;
  for (mv::Element e : local) EXPECT_THAT(e.coordinates, testing::ElementsAre(f.rank / 4, f.rank % 4, k++));
}

TEST(Figure3, E) {
  Processes eight(8);
  if (!eight) return;
  Figure f = Figure::Make(eight, {kAll, kAll, kNone});
  const Ran ran = RunTasks(&f.store, {kAll, kNone, kAll});
  const Index i = f.rank / 4;
  EXPECT_EQ(ran.keys, Keys({{i, 0, 0}, {i, 0, 1}, {i, 0, 2}, {i, 0, 3}}));
  EXPECT_EQ(ran.processes, std::vector<int>({4, 4, 4, 4}));
  EXPECT_EQ(ran.elements, 4);
}

TEST(Layouts, TwoTasksInTurnOnAllFour) {
  Processes four(4);
  if (!four) return;
  Figure f = Figure::Make(four, {kNone, 2, 2});
  const Ran ran = RunTasks(&f.store, {kAll, kNone, kNone});
  EXPECT_EQ(ran.keys, Keys({{0, 0, 0}, {1, 0, 0}}));
  EXPECT_EQ(ran.processes, std::vector<int>({4, 4}));
}

TEST(Layouts, FewerProcessesThanBlocks) {
  Processes four(4);
  if (!four) return;
  Figure f = Figure::Make(four, {kAll, kAll, kNone});
  const Ran ran = RunTasks(&f.store, {kAll, kNone, kNone});
  EXPECT_EQ(ran.keys, Keys({{f.rank / 2, 0, 0}}));
  EXPECT_EQ(ran.processes, std::vector<int>{2});
  EXPECT_EQ(ran.elements, 8);
}

TEST(Layouts, MoreProcessesThanBlocks) {
  Processes twelve(12);
  if (!twelve) return;
  Figure f = Figure::Make(twelve, {kAll, kAll, kNone});
  const Ran ran = RunTasks(&f.store, {kAll, kNone, kNone});
  EXPECT_EQ(ran.keys.size(), f.rank < 8 ? 1u : 0u);
  EXPECT_EQ(ran.elements, f.rank < 8 ? 4 : 0);
}

TEST(Layouts, CutsThatDoNotNest) {
  Processes three(3);
  if (!three) return;
  auto world = mv::World::Create(three);
  auto store = world->CreateStore({6}, sizeof(int));
  EXPECT_OK(LoadAnyhow(&*store, world->rank(), 3));
  EXPECT_OK(store->SetSplit({3}));
  const Ran ran = RunTasks(&*store, {2});
  const Keys want[] = {{{0}}, {{0}, {1}}, {{1}}};
  EXPECT_EQ(ran.keys, want[world->rank()]);
  for (int p : ran.processes) EXPECT_EQ(p, 2);
}

TEST(Layouts, ATaskOverThreeProcesses) {
  Processes five(5);
  if (!five) return;
  auto world = mv::World::Create(five);
  auto store = world->CreateStore({15}, sizeof(int));
  EXPECT_OK(LoadAnyhow(&*store, world->rank(), 5));
  EXPECT_OK(store->SetSplit({5}));
  const Ran ran = RunTasks(&*store, {3});
  const Keys want[] = {{{0}}, {{0}, {1}}, {{1}}, {{1}, {2}}, {{2}}};
  EXPECT_EQ(ran.keys, want[world->rank()]);
  for (std::size_t i = 0; i < ran.keys.size(); ++i) EXPECT_EQ(ran.processes[i], ran.keys[i][0] == 1 ? 3 : 2);
}

TEST(Layouts, AViewMayHoldBlockCounts) {
  Processes two(2);
  if (!two) return;
  Figure f = Figure::Make(two, {kAll, kNone, kNone});
  const Ran ran = RunTasks(&f.store, {kAll, 2, 1});
  EXPECT_EQ(ran.keys, Keys({{f.rank, 0, 0}, {f.rank, 1, 0}}));
}

// DS(2,4,4) -> DS(2,2): the output has other dimensions, lies where it was put, and goes on from there.
TEST(Map, OutputOfOtherDimensions) {
  Processes four(4);
  if (!four) return;
  Figure f = Figure::Make(four, {kNone, 2, 2});
  auto sums = f.world.CreateStore({2, 2}, sizeof(long));
  EXPECT_OK(f.store.Map(&*sums, [&](mv::Task& task) {
    long sum = 0;
    for (mv::Element e : task.elements()) sum += e.as<int>();
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_LONG, MPI_SUM, task.comm());
    int rank;
    MPI_Comm_rank(task.comm(), &rank);
    // The last process of a task has the result.
    if (rank == 3) {
      EXPECT_OK(task.Put({task.key()[0], 0}, sum));
      EXPECT_OK(task.Put({task.key()[0], 1}, -sum));
    }
    return 0;
  }, {kAll, kNone, kNone}).status);
  EXPECT_EQ(sums->LocalElements().count(), f.rank == 3 ? 4 : 0) << "output stays where it was put";
  auto count = sums->Count();
  EXPECT_EQ(*count, 4);
  long want[2] = {0, 0};
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 4; ++j) {
      for (int k = 0; k < 4; ++k) want[i] += i * 10000 + j * 100 + k;
    }
  }
  EXPECT_OK(sums->SetSplit({kAll, kAll}));
  std::vector<long> here;
  EXPECT_OK(sums->Map([&](mv::Task& task) {
    for (mv::Element e : task.elements()) here.push_back(e.as<long>());
    return 0;
  }, {kAll, kAll}).status);
  EXPECT_THAT(here, testing::ElementsAre(f.rank % 2 == 0 ? want[f.rank / 2] : -want[f.rank / 2]));
}

TEST(Map, SetSplitOnlyDeclares) {
  Processes four(4);
  if (!four) return;
  Figure f = Figure::Make(four, {kNone, 4, kNone});
  EXPECT_OK(f.store.Redistribute());
  const auto before = f.world.statistics().redistributions;
  EXPECT_OK(f.store.SetSplit({kNone, kNone, 4}));
  EXPECT_OK(f.store.SetSplit({2, 2, kNone}));
  EXPECT_EQ(f.world.statistics().redistributions, before);
  for (mv::Element e : f.store.LocalElements()) EXPECT_EQ(e.coordinates[1], f.rank);
  RunTasks(&f.store, {kNone, kNone, kNone});
  EXPECT_EQ(f.world.statistics().redistributions, before + 1);
}

// Figure 4 in small: the store is its own output; without an output at the end.
TEST(Figure4, ThereAndBack) {
  Processes eight(8);
  if (!eight) return;
  auto world = mv::World::Create(eight);
  auto store = world->CreateStore({2, 8, 8}, sizeof(double));
  EXPECT_OK(store->SetSplit({kNone, 4, 2}));
  EXPECT_OK(store->LoadParallel([&](mv::Loader& loader) {
    auto block = loader.Block();
    EXPECT_OK(block.status());
    for (mv::Element e : *block) e.as<double>() = Value(e.coordinates);
    return 0;
  }));
  EXPECT_OK(store->SetSplit({kAll, 2, 2}));
  EXPECT_OK(store->Map(&*store, [](mv::Task& task) {
    EXPECT_EQ(task.elements().fragments().size(), 1u);
    EXPECT_TRUE(task.elements().fragments()[0].contiguous());
    for (mv::Element e : task.elements()) {
      const double changed = e.as<double>() + 0.5;
      EXPECT_OK(task.Put(e.coordinates, &changed, sizeof changed));
    }
    return 0;
  }, {kAll, kNone, kNone}).status);
  EXPECT_OK(store->SetSplit({kNone, 4, 2}));
  Index seen = 0;
  EXPECT_OK(store->Map(nullptr, [&](mv::Task& task) {
    EXPECT_FALSE(task.has_output());
    for (mv::Element e : task.elements()) {
      EXPECT_EQ(e.as<double>(), Value(e.coordinates) + 0.5);
      ++seen;
    }
    return 0;
  }, {kNone, kNone, kNone}).status);
  EXPECT_EQ(seen, 16);
  EXPECT_EQ(world->statistics().elements_examined, 0u) << "layouts were known all the time";
}

}  // namespace
