// What MPI refuses is told in MPI's own words; where it gives processes no memory to share, all goes in messages. What it has
// given is given back.
#include <cstring>
#include <gmock/gmock.h>
#include <string>

#include "mpi_test.h"

namespace {

const char* g_refused = "";  // a function of MPI

bool Refused(const char* function) { return std::strcmp(g_refused, function) == 0; }

int g_comms = 0, g_groups = 0;  // made, and not yet freed

int Counted(int error, const MPI_Comm* made) {
  g_comms += error == MPI_SUCCESS && *made != MPI_COMM_NULL;
  return error;
}

}  // namespace

extern "C" {
int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* copy) {
  return Refused("MPI_Comm_dup") ? MPI_ERR_NO_SPACE : Counted(PMPI_Comm_dup(comm, copy), copy);
}
int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm* part) {
  return Counted(PMPI_Comm_split(comm, color, key, part), part);
}
int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm* part) {
  return Refused("MPI_Comm_split_type") ? MPI_ERR_NO_SPACE : Counted(PMPI_Comm_split_type(comm, type, key, info, part), part);
}
int MPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm* made) {
  return Refused("MPI_Comm_create_group") ? MPI_ERR_NO_SPACE : Counted(PMPI_Comm_create_group(comm, group, tag, made), made);
}
int MPI_Comm_free(MPI_Comm* comm) {
  if (Refused("MPI_Comm_free")) return MPI_ERR_NO_SPACE;
  --g_comms;
  return PMPI_Comm_free(comm);
}
int MPI_Comm_group(MPI_Comm comm, MPI_Group* group) {
  ++g_groups;
  return PMPI_Comm_group(comm, group);
}
int MPI_Group_incl(MPI_Group group, int n, const int ranks[], MPI_Group* made) {
  ++g_groups;
  return PMPI_Group_incl(group, n, ranks, made);
}
int MPI_Group_free(MPI_Group* group) {
  --g_groups;
  return PMPI_Group_free(group);
}
int MPI_Isend(const void* from, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
  return Refused("MPI_Isend") ? MPI_ERR_NO_SPACE : PMPI_Isend(from, count, type, to, tag, comm, request);
}
int MPI_Irecv(void* to, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Request* request) {
  return Refused("MPI_Irecv") ? MPI_ERR_NO_SPACE : PMPI_Irecv(to, count, type, source, tag, comm, request);
}
int MPI_Testsome(int count, MPI_Request requests[], int* done, int which[], MPI_Status statuses[]) {
  return Refused("MPI_Testsome") ? MPI_ERR_NO_SPACE : PMPI_Testsome(count, requests, done, which, statuses);
}
int MPI_Win_allocate_shared(MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void* base, MPI_Win* window) {
  return Refused("MPI_Win_allocate_shared") ? MPI_ERR_NO_SPACE
                                            : PMPI_Win_allocate_shared(size, unit, info, comm, base, window);
}
}

namespace {

using mv::Index;
using mv::kAll;
using mv::kNone;
using testing::HasSubstr;

class WhatMpiRefuses : public testing::Test {
 public:
  void TearDown() override { g_refused = ""; }
  static std::string InItsWords() {
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    MPI_Error_string(MPI_ERR_NO_SPACE, text, &length);
    return std::string(text, static_cast<std::size_t>(length));
  }
  static mv::DataStore Filled(mv::World* world) {
    auto store = world->CreateStore({4, 6}, sizeof(Index));
    EXPECT_OK(store->LoadParallel([](mv::Loader& loader) {
      auto block = loader.Block();
      for (mv::Element e : *block) e.as<Index>() = 10 * e.coordinates[0] + e.coordinates[1];
      return 0;
    }));
    return *store;
  }
};

TEST_F(WhatMpiRefuses, OfAWorldIsTold) {
  Processes two(2);
  if (!two) return;
  for (const char* function : {"MPI_Comm_dup", "MPI_Comm_split_type"}) {
    g_refused = function;
    const mv::Status none = mv::World::Create(two).status();
    EXPECT_EQ(none.code(), mv::Code::kInternal) << function;
    EXPECT_EQ(none.message(), "world: " + InItsWords()) << function;
  }
}

TEST_F(WhatMpiRefuses, OfATaskIsTold) {
  Processes two(2);
  if (!two) return;
  auto world = mv::World::Create(two);
  mv::DataStore store = Filled(&*world);
  g_refused = "MPI_Comm_create_group";
  int ran = 0;
  const auto count = [&](mv::Task&) {
    ++ran;
    return 0;
  };
  const mv::MapResult one = store.Map(nullptr, count, {kNone, kNone});
  EXPECT_EQ(one.status.message(), "map: 1 tasks failed, first the one of key (0,0): map: " + InItsWords());
  EXPECT_EQ(ran, 0);
  EXPECT_OK(store.Map(nullptr, count, {kAll, kNone}).status);  // each on one process
  EXPECT_EQ(ran, 2);
  g_refused = "";
  EXPECT_OK(store.Map(nullptr, count, {kNone, kNone}).status);
  EXPECT_EQ(ran, 3);
}

TEST_F(WhatMpiRefuses, OfAMessageIsTold) {
  Processes two(2);
  if (!two) return;
  mv::WorldOptions options;
  options.direct_reads = false;
  auto world = mv::World::Create(two, options);
  mv::DataStore store = Filled(&*world);
  EXPECT_OK(store.SetSplit({kNone, 2}));
  for (const auto& [function, why] : {std::pair("MPI_Isend", "cannot send to process 1"),
                                      {"MPI_Irecv", "cannot receive from process 1"},
                                      {"MPI_Testsome", "a message failed"}}) {
    g_refused = function;
    EXPECT_EQ(store.Redistribute().message(), why);
  }
  g_refused = "MPI_Comm_free";  // what was sent and not received lies in it still, and MPICH would give its number to the next one
}

TEST(WhatMpiGives, IsGivenBack) {
  Processes four(4);
  if (!four) return;
  const int comms = g_comms, groups = g_groups;
  for (const int node_size : {0, 2}) {
    for (const char* function : {"", "MPI_Win_allocate_shared"}) {
      g_refused = function;
      mv::WorldOptions options;
      options.node_size = node_size;
      {
        auto world = mv::World::Create(four, options);
        mv::DataStore store = WhatMpiRefuses::Filled(&*world);
        for (const mv::View& view : {mv::View{kNone, kNone}, mv::View{2, kNone}}) {
          EXPECT_OK(store.Map([](mv::Task&) { return 0; }, view).status);
        }
      }
      g_refused = "";
      EXPECT_EQ(g_comms, comms) << function << " in nodes of " << node_size;
      EXPECT_EQ(g_groups, groups) << function << " in nodes of " << node_size;
    }
  }
}

TEST_F(WhatMpiRefuses, IsNotNeededToShare) {
  Processes four(4);
  if (!four) return;
  g_refused = "MPI_Win_allocate_shared";
  auto world = mv::World::Create(four);
  ASSERT_TRUE(world.ok());
  MPI_Comm node;
  MPI_Comm_split_type(four, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  int here;
  MPI_Comm_size(node, &here);
  MPI_Comm_free(&node);
  // Who is alone on its node needs none.
  EXPECT_THAT(world->DirectReads().message(),
              HasSubstr(here > 1 ? "direct_reads: MPI gives the processes of this node no memory to share" : ""));
  mv::DataStore store = Filled(&*world);
  EXPECT_OK(store.SetSplit({kNone, 4}));
  EXPECT_OK(store.Redistribute());
  EXPECT_GT(world->statistics().messages_sent, 0u);
  EXPECT_EQ(world->statistics().bytes_read, 0u);
  EXPECT_EQ(*store.Count(), 24);
  for (mv::Element e : store.LocalElements()) EXPECT_EQ(e.as<Index>(), 10 * e.coordinates[0] + e.coordinates[1]);
}

}  // namespace
