// Worlds of several nodes. What the processes of a node tell each other through shared words goes over MPI
// between nodes; WorldOptions::node_size makes several of one.
#include <cstdlib>
#include <gmock/gmock.h>

#include "mpi_test.h"
#include "multiview/team.h"

namespace {

using mv::Index;
using mv::kAll;
using mv::kNone;
using mv::internal::Team;

constexpr int kProcesses = 8;

/// Do all of them run on one machine?
bool OnOneMachine(MPI_Comm all) {
  MPI_Comm here = MPI_COMM_NULL;
  MPI_Comm_split_type(all, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here);
  int size = 0;
  MPI_Comm_size(here, &size);
  MPI_Comm_free(&here);
  int least = 0;
  MPI_Allreduce(&size, &least, 1, MPI_INT, MPI_MIN, all);
  return least == kProcesses;
}

/// Nodes are parts of machines: where there are several, who is in which depends on how processes were placed.
void ExpectNodesOf(Team& team, int node_size, bool one_machine) {
  if (!one_machine) return;
  for (int p = 0; p < kProcesses; ++p) {
    const bool shared = node_size > 1 && p / node_size == team.rank() / node_size;
    // A node of one process has nobody to read from.
    const bool alone = node_size == 1 || (kProcesses % node_size == 1 && team.rank() == kProcesses - 1);
    EXPECT_EQ(team.CanRead(p), team.direct_reads().ok() && shared && !alone) << p << " in nodes of " << node_size;
  }
}

// What others wait for may be a message of the application that only this process's MPI can send on.
TEST(Nodes, WhoWaitsForThemLetsMessagesGoOn) {
  Processes eight(kProcesses);
  if (!eight) return;
  auto team = Team::Create(eight, {});
  ASSERT_TRUE(team.ok());
  for (int turn = 0; turn < 5; ++turn) {
    MPI_Request barrier;
    MPI_Ibarrier(eight, &barrier);
    const bool first = (*team)->rank() < kProcesses - 1;
    if (!first) MPI_Wait(&barrier, MPI_STATUS_IGNORE);
    EXPECT_EQ((*team)->Agree({0, 1}).sum, kProcesses);
    if (first) MPI_Wait(&barrier, MPI_STATUS_IGNORE);
  }
}

TEST(Nodes, AgreeAsIfTheyWereOne) {
  Processes eight(kProcesses);
  if (!eight) return;
  for (const int node_size : {1, 2, 3, 5, 7, 8}) {
    SCOPED_TRACE(node_size);
    mv::WorldOptions options;
    options.node_size = node_size;
    auto team = Team::Create(eight, options);
    ASSERT_TRUE(team.ok());
    const int rank = (*team)->rank();
    ExpectNodesOf(**team, node_size, OnOneMachine(eight));
    for (int turn = 0; turn < 30; ++turn) {
      const bool mine = rank == turn % kProcesses || rank == turn % 3;
      const mv::Vote vote =
          (*team)->Agree({mine ? std::uint64_t{1} << (turn + rank) : 0, turn % 4 == 0 ? 0 : rank - turn});
      std::uint64_t flags = 0;
      for (int p : {turn % kProcesses, turn % 3}) flags |= std::uint64_t{1} << (turn + p);
      EXPECT_EQ(vote.flags, flags);
      EXPECT_EQ(vote.sum, turn % 4 == 0 ? 0 : 28 - 8 * turn);
    }
    EXPECT_OK((*team)->AgreeOn({}));
    const bool fails = rank == 3 || rank == 6;
    const mv::Status s =
        (*team)->AgreeOn(fails ? mv::Status(mv::Code::kStorage, "on " + std::to_string(rank)) : mv::Status());
    EXPECT_EQ(s.code(), mv::Code::kStorage);
    EXPECT_EQ(s.message(), "on 3");
    EXPECT_OK((*team)->AgreeOn({}));
  }
}

TEST(Nodes, TheEnvironmentTellsTheirSize) {
  Processes eight(kProcesses);
  if (!eight) return;
  setenv("HARROW_MULTIVIEW_NODE_SIZE", "4", 1);
  mv::WorldOptions options;
  options.node_size = 2;
  auto team = Team::Create(eight, options);
  unsetenv("HARROW_MULTIVIEW_NODE_SIZE");
  ASSERT_TRUE(team.ok());
  ExpectNodesOf(**team, 4, OnOneMachine(eight));
}

TEST(Nodes, HoldDataAndRunTasksAsIfTheyWereOne) {
  Processes eight(kProcesses);
  if (!eight) return;
  for (const mv::Target target : {mv::Target::kMemory, mv::Target::kFile}) {
    for (const int node_size : {1, 2, 3, 5}) {
      mv::WorldOptions options;
      options.node_size = node_size;
      auto world = mv::World::Create(eight, options);
      auto store = world->CreateStore({8, 1024, 3}, sizeof(Index), target);
      const auto number = [](const mv::Element& e) {
        return e.coordinates[0] * 10000 + e.coordinates[1] * 10 + e.coordinates[2];
      };
      EXPECT_OK(store->LoadParallel([&](mv::Loader& loader) {
        auto block = loader.Block();
        if (!block) return 1;
        for (mv::Element e : *block) e.as<Index>() = number(e);
        return 0;
      }));
      for (const mv::Split& split : {mv::Split{kNone, 8, kNone}, mv::Split{2, 4, kNone},
                                     mv::Split{kNone, 1, 3}, mv::Split{kAll, kNone, kNone}}) {
        EXPECT_OK(store->SetSplit(split));
        EXPECT_OK(store->Redistribute());
        Index wrong = 0;
        for (mv::Element e : store->LocalElements()) wrong += e.as<Index>() != number(e);
        EXPECT_EQ(wrong, 0) << "nodes of " << node_size;
      }
      EXPECT_EQ(*store->Count(), 8 * 1024 * 3);
      // Tasks over several nodes, one of which fails on one process.
      const auto result = store->Map(
          [&](mv::Task& task) {
            int size;
            MPI_Comm_size(task.comm(), &size);
            return size == 8 && task.key()[2] == 1 && world->rank() == 5 ? 9 : 0;
          },
          {kNone, kNone, 3});
      ASSERT_EQ(result.failed.size(), 1u);
      EXPECT_EQ(result.failed[0].key, (mv::Key{0, 0, 1}));
      EXPECT_EQ(result.failed[0].code, 9);
    }
  }
}

}  // namespace
