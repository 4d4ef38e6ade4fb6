// What a world keeps for the next time: plans, placements, communicators; and what it says about reading
// directly.
#include <cstdlib>
#include <gmock/gmock.h>
#include <set>

#include "mpi_test.h"
#include "multiview/team.h"

namespace {

using mv::Index;
using mv::kAll;
using mv::kNone;
using testing::HasSubstr;

int FillBlock(mv::Loader& loader) {
  auto block = loader.Block();
  if (!block) return 1;
  for (mv::Element e : *block) e.as<Index>() = e.coordinates[0];
  return 0;
}

TEST(Kept, PlansOfTheLastMoves) {
  Processes two(2);
  if (!two) return;
  auto world = mv::World::Create(two);
  auto store = world->CreateStore({60, 2}, sizeof(Index));
  EXPECT_OK(store->SetSplit({1, 2}));
  EXPECT_OK(store->LoadParallel(FillBlock));
  // To a split and back are two plans; sixteen splits' are kept.
  const auto there_and_back = [&](Index splits) {
    const auto before = world->statistics().plans_made;
    for (Index i = 0; i < splits; ++i) {
      for (const mv::Split& split : {mv::Split{2 + i, 1}, mv::Split{1, 2}}) {
        EXPECT_OK(store->SetSplit(split));
        EXPECT_OK(store->Redistribute());
      }
    }
    return world->statistics().plans_made - before;
  };
  EXPECT_EQ(there_and_back(16), 32u);
  EXPECT_EQ(there_and_back(16), 0u);
  EXPECT_EQ(there_and_back(1), 0u) << "and this one is the last used now";
  EXPECT_EQ(there_and_back(17), 2u);
  EXPECT_EQ(there_and_back(1), 2u) << "the oldest ones had to go";
  EXPECT_OK(store->ForEach([](const mv::Element& e) { EXPECT_EQ(e.as<Index>(), e.coordinates[0]); }));
}

// A process's tasks of one view of one layout run on the same communicators as long as others are not many.
TEST(Kept, CommunicatorsOfTheLastViews) {
  Processes two(2);
  if (!two) return;
  auto world = mv::World::Create(two);
  auto store = world->CreateStore({60, 2}, sizeof(Index));
  EXPECT_OK(store->SetSplit({1, 2}));
  EXPECT_OK(store->LoadParallel(FillBlock));
  int key = MPI_KEYVAL_INVALID;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &key, nullptr);
  static int mark;
  // Was this communicator here before?
  const auto seen = [&](Index blocks) {
    int found = 0;
    EXPECT_OK(store
                  ->Map(
                      [&](mv::Task& task) {
                        int size;
                        MPI_Comm_size(task.comm(), &size);
                        EXPECT_EQ(size, 2);
                        void* value;
                        if (task.key()[0] == 0) MPI_Comm_get_attr(task.comm(), key, &value, &found);
                        MPI_Comm_set_attr(task.comm(), key, &mark);
                        return 0;
                      },
                      {blocks, kNone})
                  .status);
    return found != 0;
  };
  for (Index blocks = 1; blocks <= 32; ++blocks) EXPECT_FALSE(seen(blocks)) << blocks;
  for (Index blocks = 1; blocks <= 32; ++blocks) EXPECT_TRUE(seen(blocks)) << blocks;
  EXPECT_TRUE(seen(1));
  EXPECT_FALSE(seen(33));
  EXPECT_TRUE(seen(1)) << "it was used a moment ago";
  EXPECT_FALSE(seen(2)) << "the oldest one had to go";
  MPI_Comm_free_keyval(&key);
}

TEST(Kept, APlacementIsChosenOnce) {
  Processes four(4);
  if (!four) return;
  auto world = mv::World::Create(four);
  auto store = world->CreateStore({2, 4}, sizeof(Index));
  EXPECT_OK(store->SetSplit({kNone, 4}));
  EXPECT_OK(store->LoadParallel(FillBlock));
  const auto moved = [&] { return world->statistics().bytes_read + world->statistics().bytes_sent; };
  for (int round = 0; round < 3; ++round) {
    const auto before = moved();
    EXPECT_OK(store->SetSplit({kAll, 2}, mv::Placement::kLeastMoved));
    EXPECT_OK(store->Redistribute());
    EXPECT_EQ(moved() - before, sizeof(Index)) << "one of two elements stays everywhere";
    // Where it lies already as it is declared, it stays, wherever the blocks are.
    const auto redistributions = world->statistics().redistributions;
    EXPECT_OK(store->SetSplit({kAll, 2}, mv::Placement::kLeastMoved));
    EXPECT_OK(store->Redistribute());
    EXPECT_EQ(world->statistics().redistributions, redistributions);
    EXPECT_OK(store->SetSplit({kNone, 4}));
    EXPECT_OK(store->Redistribute());
  }
  EXPECT_EQ(world->statistics().plans_made, 2u);
  EXPECT_OK(store->ForEach([](const mv::Element& e) { EXPECT_EQ(e.as<Index>(), e.coordinates[0]); }));
}

TEST(World, NeedsACommunicator) {
  EXPECT_EQ(mv::World::Create(MPI_COMM_NULL).status().message(), "world: the communicator is MPI_COMM_NULL");
}

TEST(World, SaysWhyItReadsNothingDirectly) {
  Processes two(2);
  if (!two) return;
  mv::WorldOptions options;
  options.direct_reads = false;
  const mv::Status off = mv::World::Create(two, options)->DirectReads();
  EXPECT_EQ(off.code(), mv::Code::kNotFound);
  EXPECT_EQ(off.message(),
            "direct_reads: switched off, by the options or by HARROW_MULTIVIEW_DIRECT_READS=0");
  const std::string otherwise = mv::World::Create(two)->DirectReads().message();
  for (const auto& [value, message] : {std::pair("0", off.message()), {"1", otherwise}, {"00", otherwise}}) {
    setenv("HARROW_MULTIVIEW_DIRECT_READS", value, 1);
    EXPECT_EQ(mv::World::Create(two)->DirectReads().message(), message) << value;
    unsetenv("HARROW_MULTIVIEW_DIRECT_READS");
  }
}

TEST(Team, LearnsOfErrorsWhateverTheUsersCommunicatorDoesWithThem) {
  Processes two(2);
  if (!two) return;
  MPI_Comm_set_errhandler(two, MPI_ERRORS_ARE_FATAL);
  auto team = mv::internal::Team::Create(two, {});
  ASSERT_TRUE(team.ok());
  MPI_Errhandler found;
  MPI_Comm_get_errhandler((*team)->comm(), &found);
  EXPECT_EQ(found, MPI_ERRORS_RETURN);
}

// The library's own calls return errors; what a task does with its communicator is the user's.
TEST(Tasks, HaveTheErrorHandlerOfTheWorldsCommunicator) {
  Processes two(2);
  if (!two) return;
  for (const MPI_Errhandler handler : {MPI_ERRORS_RETURN, MPI_ERRORS_ARE_FATAL}) {
    MPI_Comm_set_errhandler(two, handler);
    auto world = mv::World::Create(two);
    auto store = world->CreateStore({2, 4}, sizeof(Index));
    EXPECT_OK(store->LoadParallel(FillBlock));
    for (const mv::View& view : {mv::View{kNone, kNone}, mv::View{kAll, kNone}}) {
      EXPECT_OK(store
                    ->Map(
                        [&](mv::Task& task) {
                          MPI_Errhandler found;
                          MPI_Comm_get_errhandler(task.comm(), &found);
                          return found == handler ? 0 : 1;
                        },
                        view)
                    .status);
    }
  }
}

}  // namespace
