// What a load function can do with its store's memory and with blocks of its own.
#include <cstring>
#include <gmock/gmock.h>

#include "mpi_test.h"

namespace {

using mv::Index;
using mv::kAll;
using mv::kNone;
using testing::HasSubstr;
using At = std::vector<Index>;

int FillBlock(mv::Loader& loader, int base) {
  auto block = loader.Block();
  if (!block) return 1;
  for (mv::Element e : *block)
    e.as<int>() = base + static_cast<int>(e.coordinates[0] * 10 + e.coordinates[1]);
  return 0;
}

int ValueAt(mv::DataStore* store, Index row, Index column) {
  auto bytes = store->Get(At{row, column});
  int value = -1;
  if (bytes) std::memcpy(&value, bytes->data(), sizeof value);
  return value;
}

TEST(Load, SinglePutsHoldAgainstTheBlock) {
  Processes two(2);
  if (!two) return;
  auto world = mv::World::Create(two);
  auto store = world->CreateStore({4, 3}, sizeof(int));
  EXPECT_OK(store->LoadParallel([&](mv::Loader& loader) {
    // Before the block and after it, in one's own part and in the other's.
    const Index mine = 2 * world->rank(), theirs = 3 - 2 * world->rank();
    EXPECT_OK(loader.Put({mine, 1}, 1000));
    if (FillBlock(loader, 0) != 0) return 1;
    EXPECT_OK(loader.Put({mine + 1, 1}, 2000));
    if (world->rank() == 1) {
      EXPECT_OK(loader.Put({theirs, 0}, 3000));
    }
    return 0;
  }));
  EXPECT_EQ(*store->Count(), 12);
  EXPECT_OK(store->Redistribute());
  for (Index row = 0; row < 4; ++row) {
    EXPECT_EQ(ValueAt(&*store, row, 1), row % 2 == 0 ? 1000 : 2000);
    EXPECT_EQ(ValueAt(&*store, row, 2), row * 10 + 2);
    EXPECT_EQ(ValueAt(&*store, row, 0), row == 1 ? 3000 : row * 10);
  }
}

TEST(Load, WhoDoesNotAskForItsBlockAddsNothing) {
  Processes three(3);
  if (!three) return;
  auto world = mv::World::Create(three);
  // The third process has no part; the second has one that it does not fill.
  auto store = world->CreateStore({2, 3}, sizeof(int));
  EXPECT_OK(
      store->LoadParallel([&](mv::Loader& loader) { return world->rank() == 0 ? FillBlock(loader, 0) : 0; }));
  EXPECT_EQ(*store->Count(), 3);
  EXPECT_EQ(ValueAt(&*store, 0, 2), 2);
  EXPECT_EQ(ValueAt(&*store, 1, 0), -1);
  // There are elements, but not all: there is no place for a block.
  EXPECT_THAT(store->LoadParallel([&](mv::Loader& loader) { return FillBlock(loader, 0); }).message(),
              HasSubstr("load_parallel: block: the store has elements that do not lie as its Split says"));
  store->Clear();
  EXPECT_OK(
      store->LoadParallel([&](mv::Loader& loader) { return world->rank() < 2 ? FillBlock(loader, 0) : 0; }));
  EXPECT_EQ(*store->Count(), 6);
  const auto examined = world->statistics().elements_examined;
  EXPECT_OK(store->SetSplit({kNone, 3}));
  EXPECT_OK(store->Redistribute());
  EXPECT_EQ(world->statistics().elements_examined, examined)
      << "who has no part need not ask for it: the store is complete";
  EXPECT_OK(store->LoadParallel([](mv::Loader&) { return 0; }));
  EXPECT_EQ(*store->Count(), 6);
}

TEST(Load, WhoHasNoPartNeedsAPlaceInACompleteStore) {
  Processes three(3);
  if (!three) return;
  int rank = 0;
  MPI_Comm_rank(three, &rank);
  mv::WorldOptions options;
  if (rank == 2) options.directory = "/nonexistent";
  auto world = mv::World::Create(three, options);
  auto store = world->CreateStore({2, 3}, sizeof(int), mv::Target::kFile);
  const mv::Status none =
      store->LoadParallel([&](mv::Loader& loader) { return rank == 2 ? 0 : FillBlock(loader, 0); });
  EXPECT_EQ(none.code(), mv::Code::kStorage);
  EXPECT_THAT(none.message(), HasSubstr("/nonexistent"));
}

// Put one by one, in any order, by those whose part they are.
TEST(Load, WhatIsPutWhereItBelongsNeedNotBeLookedForLater) {
  Processes three(3);
  if (!three) return;
  auto world = mv::World::Create(three);
  for (const Index missing : {-1, 4}) {
    auto store = world->CreateStore({6, 3}, sizeof(int));
    EXPECT_OK(store->LoadParallel([&](mv::Loader& loader) {
      for (Index i = 5; i >= 0; --i) {
        const Index row = 2 * world->rank() + i / 3;
        if (row != missing) {
          EXPECT_OK(loader.Put({row, i % 3}, static_cast<int>(10 * row + i % 3)));
        }
      }
      return 0;
    }));
    const auto examined = world->statistics().elements_examined;
    EXPECT_OK(store->SetSplit({kNone, 3}));
    EXPECT_OK(store->Redistribute());
    EXPECT_EQ(world->statistics().elements_examined == examined, missing < 0);
    for (mv::Element e : store->LocalElements())
      EXPECT_EQ(e.as<int>(), 10 * e.coordinates[0] + e.coordinates[1]);
    EXPECT_EQ(*store->Count(), missing < 0 ? 18 : 15);
  }
}

TEST(Load, OfSizesOfTheirOwnTooLieWhereTheyBelong) {
  Processes two(2);
  if (!two) return;
  auto world = mv::World::Create(two);
  auto store = world->CreateStore({2, 5}, 0);
  const auto load = [&](Index row, Index column) {
    EXPECT_OK(store->LoadParallel([&](mv::Loader& loader) { return loader.Put({row, column}, 'x').ok() ? 0 : 1; }));
  };
  const auto redistributions = [&] {
    EXPECT_OK(store->Redistribute());
    return world->statistics().redistributions;
  };
  load(world->rank(), 0);
  load(world->rank(), 3);
  EXPECT_EQ(redistributions(), 0u);
  load(1 - world->rank(), 1);  // the other's part
  EXPECT_EQ(redistributions(), 1u);
  EXPECT_EQ(*store->Count(), 6);
}

TEST(Load, ABlockAskedForAgainIsTheSame) {
  Processes two(2);
  if (!two) return;
  auto world = mv::World::Create(two);
  auto store = world->CreateStore({4, 3}, sizeof(int));
  EXPECT_OK(store->LoadParallel([&](mv::Loader& loader) {
    if (FillBlock(loader, 0) != 0) return 1;
    int wrong = 0;
    auto again = loader.Block();
    for (mv::Element e : *again) wrong += e.as<int>() != e.coordinates[0] * 10 + e.coordinates[1];
    return wrong;
  }));
  // In a complete store it is the store's own memory.
  EXPECT_OK(store->LoadParallel(
      [&](mv::Loader& loader) { return world->rank() == 1 ? FillBlock(loader, 500) : 0; }));
  EXPECT_EQ(*store->Count(), 12);
  EXPECT_EQ(ValueAt(&*store, 1, 2), 12);
  EXPECT_EQ(ValueAt(&*store, 2, 2), 522);
  // Declared otherwise, it does not lie so.
  EXPECT_OK(store->SetSplit({kNone, 2}));
  EXPECT_THAT(store->LoadParallel([&](mv::Loader& loader) { return FillBlock(loader, 0); }).message(),
              HasSubstr("do not lie as its Split says"));
  EXPECT_EQ(ValueAt(&*store, 2, 2), 522);
}

TEST(Load, ImpossibleBlocksAreRefused) {
  Processes two(2);
  if (!two) return;
  auto world = mv::World::Create(two);
  auto fixed = world->CreateStore({4, 6}, sizeof(int)), variable = world->CreateStore({4, 6}, 0);
  const int values[24] = {};
  const auto refused = [&](mv::DataStore* store, const At& origin, const At& extent) {
    return store
        ->LoadParallel([&](mv::Loader& loader) {
          if (world->rank() == 1)
            (void)loader.PutBlock(origin, extent, values);  // its status ignored: the load fails all the same
          return 0;
        })
        .message();
  };
  EXPECT_EQ(refused(&*fixed, {4, 0}, {1, 1}),
            "load_parallel: put_block: (4,0) is not a place in a store of (4,6)");
  EXPECT_EQ(refused(&*fixed, {1, 2}, {1}), "load_parallel: put_block: extent of other dimensions");
  EXPECT_EQ(refused(&*fixed, {1, 2}, {1, -1}), "load_parallel: put_block: negative extent");
  EXPECT_EQ(refused(&*fixed, {1, 2}, {2, 5}),
            "load_parallel: put_block: 5 elements from 2 on in dimension 1, which has 6");
  EXPECT_EQ(refused(&*variable, {0, 0}, {1, 1}),
            "load_parallel: put_block: the store's elements have sizes of their own");
  EXPECT_THAT(variable->LoadParallel([](mv::Loader& loader) { return loader.Block().ok(); }).message(),
              HasSubstr("load_parallel: block: the store's elements have sizes of their own"));
  // The largest that fits, and one without elements.
  EXPECT_EQ(refused(&*fixed, {1, 2}, {0, 4}), "");
  EXPECT_EQ(*fixed->Count(), 0);
  EXPECT_EQ(refused(&*fixed, {1, 2}, {3, 4}), "");
  EXPECT_EQ(*fixed->Count(), 12);
  EXPECT_EQ(refused(&*fixed, {0, 0}, {4, 6}), "");
  EXPECT_EQ(*fixed->Count(), 24);
  EXPECT_EQ(*variable->Count(), 0);
}

TEST(Load, TheFirstErrorOfAProcessIsTold) {
  Processes one(1);
  if (!one) return;
  auto world = mv::World::Create(one);
  auto store = world->CreateStore({4}, sizeof(int));
  EXPECT_THAT(store
                  ->LoadParallel([](mv::Loader& loader) {
                    (void)loader.Put({4}, 1);
                    (void)loader.Put({5}, 1);
                    return 7;
                  })
                  .message(),
              HasSubstr("(4) is not a place"));
  EXPECT_EQ(*store->Count(), 0);
}

}  // namespace
