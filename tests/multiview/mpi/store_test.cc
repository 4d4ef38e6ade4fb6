// Single elements, whole stores, and what redistribution costs.
#include <gmock/gmock.h>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>

#include "mpi_test.h"

namespace {

using mv::Index;
using mv::kAll;
using mv::kNone;

using At = std::vector<Index>;

std::string Text(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(Elements, PutGetRemoveOfVariableSize) {
  Processes four(4);
  if (!four) return;
  auto world = mv::World::Create(four);
  auto store = world->CreateStore({3, 5}, 0);
  EXPECT_EQ(store->Get(At{1, 1}).status().code(), mv::Code::kNotFound);
  EXPECT_OK(store->Put(At{1, 1}, "one", 3));
  EXPECT_OK(store->Put(At{2, 4}, "", 0));
  EXPECT_OK(store->Put(At{0, 0}, "zero", 4));
  EXPECT_OK(store->Put(At{1, 1}, "another", 7));
  EXPECT_EQ(Text(*store->Get(At{1, 1})), "another");
  EXPECT_EQ(Text(*store->Get(At{2, 4})), "");
  EXPECT_EQ(*store->Count(), 3);
  EXPECT_OK(store->SetSplit({kNone, 4}));
  EXPECT_OK(store->Redistribute());
  constexpr Index kHere[] = {2, 0, 0, 1};
  EXPECT_EQ(store->LocalElements().count(), kHere[world->rank()]);
  EXPECT_EQ(Text(*store->Get(At{1, 1})), "another");
  EXPECT_OK(store->Remove(At{1, 1}));
  EXPECT_EQ(store->Remove(At{1, 1}).code(), mv::Code::kNotFound);
  EXPECT_EQ(*store->Count(), 2);
}

TEST(Elements, StayWhereTheyWereThoughOthersWantMemory) {
  Processes two(2);
  if (!two) return;
  auto world = mv::World::Create(two);
  constexpr Index kLength = 100'000;
  const auto filled = [&](Index add) {
    auto store = world->CreateStore({2, kLength}, sizeof(Index));
    EXPECT_OK(store->LoadParallel([&](mv::Loader& loader) {
      auto block = loader.Block();
      for (mv::Element e : *block) e.as<Index>() = e.coordinates[1] + add;
      return 0;
    }));
    return *store;
  };
  mv::DataStore store = filled(0);
  EXPECT_OK(store.Remove(At{0, 17}));
  EXPECT_OK(store.Remove(At{1, 17}));
  const mv::DataStore other = filled(1);
  Index wrong = 0;
  for (mv::Element e : store.LocalElements()) wrong += e.as<Index>() != e.coordinates[1];
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(store.LocalElements().count(), kLength - 1);
}

TEST(Elements, RemovedFromTheMiddleOfACompleteStore) {
  Processes three(3);
  if (!three) return;
  auto world = mv::World::Create(three);
  auto store = world->CreateStore({2, 9}, sizeof(int));
  EXPECT_OK(store->SetSplit({kNone, 3}));
  EXPECT_OK(store->LoadParallel([](mv::Loader& loader) {
    auto block = loader.Block();
    for (mv::Element e : *block) e.as<int>() = static_cast<int>(e.coordinates[0] * 9 + e.coordinates[1]);
    return 0;
  }));
  int value = 99;
  EXPECT_OK(store->Put(At{1, 4}, &value, sizeof value));
  EXPECT_OK(store->Remove(At{0, 4}));
  std::map<Index, int> all;
  EXPECT_OK(store->ForEach([&](const mv::Element& e) { all[e.coordinates[0] * 9 + e.coordinates[1]] = e.as<int>(); }));
  EXPECT_EQ(all.size(), 17u);
  EXPECT_FALSE(all.contains(4));
  EXPECT_EQ(all[13], 99);
  // Filled up again it is complete, and moves by layout alone.
  EXPECT_OK(store->Put(At{0, 4}, &value, sizeof value));
  EXPECT_OK(store->Redistribute());
  EXPECT_OK(store->SetSplit({kAll, kNone}));
  EXPECT_OK(store->Redistribute());
  const auto examined = world->statistics().elements_examined;
  EXPECT_OK(store->SetSplit({kNone, 3}));
  EXPECT_OK(store->Redistribute());
  EXPECT_EQ(world->statistics().elements_examined, examined);
  EXPECT_EQ(*store->Count(), 18);
}

// They follow one another in memory and in the store, and are elements of their own all the same.
TEST(Elements, OfSizesOfTheirOwnStayApartWhereverTheyGo) {
  Processes two(2);
  if (!two) return;
  auto world = mv::World::Create(two);
  auto store = world->CreateStore({2, 6}, 0);
  const auto word = [](Index row, Index column) { return std::string(static_cast<std::size_t>(column), static_cast<char>('a' + row)); };
  EXPECT_OK(store->LoadParallel([&](mv::Loader& loader) {
    for (Index column = 0; column < 6; ++column) {
      const Index row = 1 - world->rank();
      EXPECT_OK(loader.Put(At{row, column}, word(row, column).data(), word(row, column).size()));
    }
    return 0;
  }));
  for (const mv::Split& split : {mv::Split{2, kNone}, mv::Split{kNone, 2}, mv::Split{kNone, kNone}}) {
    EXPECT_OK(store->SetSplit(split));
    Index seen = 0;
    EXPECT_OK(store
                  ->Map(
                      [&](mv::Task& task) {
                        for (mv::Element e : task.elements()) {
                          ++seen;
                          EXPECT_EQ(std::string(reinterpret_cast<const char*>(e.bytes.data()), e.bytes.size()),
                                    word(e.coordinates[0], e.coordinates[1]));
                        }
                        return 0;
                      },
                      {kAll, 3})
                  .status);
    EXPECT_EQ(seen, split[0] == kNone && split[1] == kNone ? (world->rank() == 0 ? 12 : 0) : 6);
    EXPECT_EQ(*store->Count(), 12);
    EXPECT_EQ(Text(*store->Get(At{1, 4})), "bbbb");
  }
}

// What lies in one piece is not replaced as one.
TEST(Elements, ReplacedInTheMiddleOfALooseRun) {
  Processes two(2);
  if (!two) return;
  auto world = mv::World::Create(two);
  auto store = world->CreateStore({2, 8}, sizeof(int));
  EXPECT_OK(store->LoadParallel([](mv::Loader& loader) {
    auto block = loader.Block();
    for (mv::Element e : *block) e.as<int>() = static_cast<int>(e.coordinates[0] * 8 + e.coordinates[1]);
    return 0;
  }));
  EXPECT_OK(store->Remove(At{0, 0}));
  for (const Index at : {3, 11, 15, 3}) {
    const int value = static_cast<int>(100 + at);
    EXPECT_OK(store->Put(At{at / 8, at % 8}, &value, sizeof value));
  }
  std::map<Index, int> all, expected;
  for (int i = 1; i < 16; ++i) expected[i] = i == 3 || i == 11 || i == 15 ? 100 + i : i;
  EXPECT_OK(store->ForEach([&](const mv::Element& e) { all[e.coordinates[0] * 8 + e.coordinates[1]] = e.as<int>(); }));
  EXPECT_EQ(all, expected);
}

TEST(Elements, ThereTwiceTheNewerHolds) {
  Processes four(4);
  if (!four) return;
  auto world = mv::World::Create(four);
  auto store = world->CreateStore({4}, sizeof(int));
  const auto put = [&](int on, int value) {
    return store->LoadParallel([&](mv::Loader& loader) {
      if (world->rank() == on) {
        EXPECT_OK(loader.Put({2}, value));
      }
      return 0;
    });
  };
  EXPECT_OK(put(3, 30));
  EXPECT_OK(put(0, 40));
  EXPECT_EQ(*store->Count(), 1);
  int value;
  std::memcpy(&value, store->Get(At{2})->data(), sizeof value);
  EXPECT_EQ(value, 40);
  EXPECT_OK(store->Redistribute());
  EXPECT_EQ(store->LocalElements().count(), world->rank() == 2 ? 1 : 0);
  for (mv::Element e : store->LocalElements()) EXPECT_EQ(e.as<int>(), 40);
}

// What lies in one piece is more than a task gets.
TEST(Elements, OfAStoreWithAGapReachTheirTasks) {
  Processes one(1);
  if (!one) return;
  auto world = mv::World::Create(one);
  auto store = world->CreateStore({8}, sizeof(int));
  EXPECT_OK(store->LoadParallel([](mv::Loader& loader) {
    auto block = loader.Block();
    for (mv::Element e : *block) e.as<int>() = static_cast<int>(10 * e.coordinates[0]);
    return 0;
  }));
  EXPECT_OK(store->Remove(At{3}));
  int seen = 0;
  EXPECT_OK(store->Map([&](mv::Task& task) {
    for (mv::Element e : task.elements()) {
      ++seen;
      EXPECT_EQ(e.as<int>(), 10 * e.coordinates[0]);
    }
    return 0;
  }, {4}).status);
  EXPECT_EQ(seen, 7);
}

TEST(WholeStores, SplitUpAndJoin) {
  Processes four(4);
  if (!four) return;
  auto world = mv::World::Create(four);
  auto store = world->CreateStore({3, 4, 5}, sizeof(long));
  EXPECT_OK(store->SetSplit({kNone, 2, 2}));
  EXPECT_OK(store->LoadParallel([](mv::Loader& loader) {
    auto block = loader.Block();
    for (mv::Element e : *block) e.as<long>() = e.coordinates[0] * 100 + e.coordinates[1] * 10 + e.coordinates[2];
    return 0;
  }));
  auto parts = store->SplitUp();
  EXPECT_OK(parts.status());
  ASSERT_EQ(parts->size(), 3u);
  for (Index i = 0; i < 3; ++i) {
    mv::DataStore& part = (*parts)[i];
    EXPECT_EQ(part.shape(), (At{4, 5}));
    EXPECT_EQ(part.LocalElements().count(), store->LocalElements().count() / 3) << "elements stay";
    EXPECT_OK(part.SetSplit({2, 2}));
    EXPECT_OK(part.Map([&](mv::Task& task) {
      for (mv::Element e : task.elements()) {
        EXPECT_EQ(e.as<long>(), i * 100 + e.coordinates[0] * 10 + e.coordinates[1]);
        e.as<long>() += 1000;
      }
      return 0;
    }, {kNone, kNone}).status);
  }
  auto joined = mv::DataStore::Join(*parts);
  EXPECT_OK(joined.status());
  EXPECT_EQ(joined->shape(), store->shape());
  EXPECT_OK(joined->SetSplit({kNone, 4, kNone}));
  EXPECT_OK(joined->Redistribute());
  Index seen = 0;
  EXPECT_OK(joined->ForEach([&](const mv::Element& e) {
    ++seen;
    EXPECT_EQ(e.as<long>(), 1000 + e.coordinates[0] * 100 + e.coordinates[1] * 10 + e.coordinates[2]);
  }));
  EXPECT_EQ(seen, 60);
  for (mv::Element e : store->LocalElements()) EXPECT_LT(e.as<long>(), 1000) << "the parts are copies";
}

// Of an element that is on two processes the newer holds, in the parts, in what is made of them, and against what comes later.
TEST(WholeStores, WhatIsThereTwiceIsOneElementOfThePartsToo) {
  Processes four(4);
  if (!four) return;
  auto world = mv::World::Create(four);
  auto store = world->CreateStore({2, 4}, sizeof(int));
  const auto put = [&](mv::DataStore* to, int on, Index row, int value) {
    EXPECT_OK(to->LoadParallel([&](mv::Loader& loader) {
      if (world->rank() == on) {
        EXPECT_OK(loader.Put({row, 2}, value));
      }
      return 0;
    }));
  };
  const auto value_at = [](mv::DataStore* of, const At& at) {
    int value = -1;
    const auto bytes = of->Get(at);
    if (bytes) std::memcpy(&value, bytes->data(), sizeof value);
    return value;
  };
  put(&*store, 3, 1, 30);
  put(&*store, 0, 1, 40);
  put(&*store, 2, 0, 20);
  auto parts = store->SplitUp();
  ASSERT_TRUE(parts.ok());
  EXPECT_EQ(*(*parts)[0].Count(), 1);
  EXPECT_EQ(*(*parts)[1].Count(), 1);
  EXPECT_EQ(value_at(&(*parts)[1], {2}), 40);
  auto joined = mv::DataStore::Join({(*parts)[0], (*parts)[1], (*parts)[0]});
  ASSERT_TRUE(joined.ok());
  EXPECT_EQ(*joined->Count(), 3);
  EXPECT_EQ(value_at(&*joined, {1, 2}), 40);
  EXPECT_EQ(value_at(&*joined, {2, 2}), 20);
  put(&*joined, 1, 1, 50);
  EXPECT_EQ(value_at(&*joined, {1, 2}), 50);
  EXPECT_EQ(*joined->Count(), 3);
}

TEST(WholeStores, WhatIsThereTwiceInOneOfThemCountsOnce) {
  Processes two(2);
  if (!two) return;
  auto world = mv::World::Create(two);
  const auto loaded = [&](std::vector<Index> places) {
    auto store = world->CreateStore({4}, sizeof(Index));
    EXPECT_OK(store->LoadParallel([&](mv::Loader& loader) {
      for (const Index at : places) {
        if (!loader.Put({at}, at).ok()) return 1;
      }
      return 0;
    }));
    return *store;
  };
  const mv::DataStore twice = loaded({0, 1, 2}), once = loaded({2 * world->rank()});
  for (const auto& stores : {std::vector{twice, once}, {once, twice}, {twice, twice}}) {
    auto joined = mv::DataStore::Join(stores);
    ASSERT_TRUE(joined.ok());
    Index seen = 0;
    EXPECT_OK(joined->ForEach([&](const mv::Element&) { ++seen; }));
    EXPECT_EQ(*joined->Count(), seen);
    EXPECT_GE(seen, 5);
  }
}

TEST(WholeStores, AnEmptyOneIsSplitUpAndJoinedIntoEmptyOnes) {
  Processes two(2);
  if (!two) return;
  auto world = mv::World::Create(two);
  auto store = world->CreateStore({3, 4}, sizeof(long));
  auto parts = store->SplitUp();
  EXPECT_OK(parts.status());
  ASSERT_EQ(parts->size(), 3u);
  auto joined = mv::DataStore::Join(*parts);
  EXPECT_OK(joined.status());
  for (mv::DataStore* empty : {&(*parts)[0], &(*parts)[2], &*joined}) {
    EXPECT_EQ(*empty->Count(), 0);
    EXPECT_OK(empty->Redistribute());
  }
  EXPECT_EQ(world->statistics().redistributions, 0) << "there is nothing to move";
}

// What is there counts, not how often it was put.
TEST(WholeStores, LoadedInAnyOrderAndTwiceTheyAreCompleteWhenAllIsThere) {
  Processes one(1);
  if (!one) return;
  auto world = mv::World::Create(one);
  auto store = world->CreateStore({4}, sizeof(int));
  EXPECT_OK(store->LoadParallel([](mv::Loader& loader) {
    for (const auto& [place, value] : {std::pair(2, 20), {0, 99}, {1, 10}, {0, 0}})
      EXPECT_OK(loader.Put({place}, value));
    return 0;
  }));
  EXPECT_EQ(*store->Count(), 3);
  EXPECT_EQ(store->Get(At{3}).status().code(), mv::Code::kNotFound);
  for (int i = 0; i < 3; ++i) {
    int value = -1;
    std::memcpy(&value, store->Get(At{i})->data(), sizeof value);
    EXPECT_EQ(value, 10 * i);
  }
}

TEST(WholeStores, ThatHaveElementsTwiceAreCompleteIfNoneIsMissing) {
  Processes two(2);
  if (!two) return;
  auto world = mv::World::Create(two);
  struct Row {
    std::vector<int> first, second;  // what each process puts
    Index count;
  };
  for (const Row& row : {Row{{0, 1}, {1, 2}, 3}, Row{{0, 1, 2}, {2, 3}, 4}, Row{{2, 3}, {0, 1}, 4}, Row{{3}, {3}, 1}, Row{{0, 1}, {2, 3}, 4}}) {
    auto store = world->CreateStore({4}, sizeof(int));
    EXPECT_OK(store->SetSplit({2}));
    EXPECT_OK(store->LoadParallel([&](mv::Loader& loader) {
      for (int i : world->rank() == 0 ? row.first : row.second) EXPECT_OK(loader.Put({i}, 100 * world->rank() + i));
      return 0;
    }));
    EXPECT_OK(store->Redistribute());
    EXPECT_EQ(*store->Count(), row.count);
    Index here = 0;
    for (mv::Element e : store->LocalElements()) {
      const int i = static_cast<int>(e.coordinates[0]);
      const bool by_second = std::find(row.second.begin(), row.second.end(), i) != row.second.end();
      EXPECT_EQ(e.as<int>(), by_second ? 100 + i : i) << "of one call the process of higher rank holds";
      EXPECT_EQ(i / 2, world->rank());
      ++here;
    }
    MPI_Allreduce(MPI_IN_PLACE, &here, 1, MPI_INT64_T, MPI_SUM, two);
    EXPECT_EQ(here, row.count);
    const auto examined = world->statistics().elements_examined;
    EXPECT_OK(store->SetSplit({1}));
    EXPECT_OK(store->Redistribute());
    auto looked_at = static_cast<Index>(world->statistics().elements_examined - examined);
    MPI_Allreduce(MPI_IN_PLACE, &looked_at, 1, MPI_INT64_T, MPI_SUM, two);
    EXPECT_EQ(looked_at, row.count == 4 ? 0 : row.count) << "a complete store moves by its layout alone";
    EXPECT_EQ(*store->Count(), row.count);
  }
}

// The paper's pattern in small: what a process sends and receives is what must move, in one message a partner.
struct Costs {
  mv::Statistics statistics;
  Index local;
};
Costs ThereAndBack(MPI_Comm comm, const mv::WorldOptions& options, Index n, mv::Placement placement = mv::Placement::kInOrder) {
  auto world = mv::World::Create(comm, options);
  int size;
  MPI_Comm_size(comm, &size);
  auto store = world->CreateStore({2, n, 64}, 16);
  EXPECT_OK(store->SetSplit({kNone, size, kNone}));
  const auto number = [n](const mv::Element& e) { return (e.coordinates[0] * n + e.coordinates[1]) * 64 + e.coordinates[2]; };
  EXPECT_OK(store->LoadParallel([&](mv::Loader& loader) {
    auto block = loader.Block();
    if (!block) return 1;
    for (mv::Element e : *block) e.as<Index>() = number(e);
    return 0;
  }));
  EXPECT_OK(store->SetSplit({kAll, size / 2, kNone}, placement));
  EXPECT_OK(store->Redistribute());
  EXPECT_OK(store->SetSplit({kNone, size, kNone}));
  EXPECT_OK(store->Redistribute());
  Index wrong = 0;
  for (mv::Element e : store->LocalElements()) wrong += e.as<Index>() != number(e);
  EXPECT_EQ(wrong, 0);
  const Index local = store->LocalElements().count();
  const mv::Statistics statistics = world->statistics();
  return {statistics, local};
}

TEST(Costs, MessagesAndBytesAreTheLeastPossible) {
  for (int processes : {4, 8, 12}) {
    Processes some(processes);
    if (!some) continue;
    int rank;
    MPI_Comm_rank(some, &rank);
    mv::WorldOptions options;
    options.direct_reads = false;
    const Costs c = ThereAndBack(some, options, 24 * processes);
    const int half = processes / 2;
    // Its two halves go to the processes that hold its part of member 0 and of member 1.
    const int to[2] = {rank / 2, half + rank / 2};
    const int from[2] = {2 * (rank % half), 2 * (rank % half) + 1};
    std::uint64_t messages = 0;
    for (int p : to) messages += p != rank;
    for (int p : from) messages += p != rank;  // on the way back
    const std::uint64_t piece = static_cast<std::uint64_t>(c.local) / 2 * 16;
    EXPECT_EQ(c.statistics.messages_sent, messages);
    EXPECT_EQ(c.statistics.bytes_sent, messages * piece);
    EXPECT_EQ(c.statistics.bytes_read, 0u);
    EXPECT_EQ(c.statistics.bytes_copied + c.statistics.bytes_kept, (4 - messages) * piece);
    EXPECT_EQ(c.statistics.plans_made, 2u);
    EXPECT_EQ(c.statistics.elements_examined, 0u);
  }
}

TEST(Costs, WithinANodeNoMessagesButTheSameBytes) {
  Processes eight(8);
  if (!eight) return;
  MPI_Comm node;
  MPI_Comm_split_type(eight, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  int here;
  MPI_Comm_size(node, &here);
  MPI_Comm_free(&node);
  if (here < 8) GTEST_SKIP() << "these processes are on several nodes";
  const Costs c = ThereAndBack(eight, {}, 240);
  if (c.statistics.bytes_read == 0) GTEST_SKIP() << "the system does not let processes read each other's memory "
                                                "(needs reading a sibling's memory)";
  EXPECT_EQ(c.statistics.messages_sent, 0u);
  EXPECT_EQ(c.statistics.bytes_read + c.statistics.bytes_copied + c.statistics.bytes_kept,
            2 * static_cast<std::uint64_t>(c.local) * 16);
}

TEST(Costs, WhatIsPackedGoesInMessagesWorthSending) {
  Processes two(2);
  if (!two) return;
  mv::WorldOptions options;
  options.direct_reads = false;
  auto world = mv::World::Create(two, options);
  auto store = world->CreateStore({4, 24 << 10}, sizeof(double));
  EXPECT_OK(store->LoadParallel([](mv::Loader& loader) { return loader.Block().ok() ? 0 : 1; }));
  EXPECT_OK(store->SetSplit({kNone, 2}));
  EXPECT_OK(store->Redistribute());  // halves of two rows: 192 KiB
  EXPECT_EQ(world->statistics().messages_sent, 3u);
}

TEST(Costs, RelabellingMovesHalf) {
  Processes eight(8);
  if (!eight) return;
  const Costs c = ThereAndBack(eight, {}, 240, mv::Placement::kLeastMoved);
  const std::uint64_t data = static_cast<std::uint64_t>(c.local) * 16;
  EXPECT_EQ(c.statistics.bytes_read + c.statistics.bytes_sent, data);
  EXPECT_EQ(c.statistics.bytes_copied + c.statistics.bytes_kept, data);
}

// In rounds and in bounded messages as much moves as at once, only in smaller pieces.
TEST(Costs, RoundsMoveTheSame) {
  Processes four(4);
  if (!four) return;
  for (const bool direct : {true, false}) {
    for (const int rounds : {2, 3, 7, 4096}) {
      mv::WorldOptions options;
      options.rounds = rounds;
      options.direct_reads = direct;
      const Costs c = ThereAndBack(four, options, 12);
      EXPECT_EQ(c.statistics.bytes_read + c.statistics.bytes_sent + c.statistics.bytes_copied + c.statistics.bytes_kept,
                2 * static_cast<std::uint64_t>(c.local) * 16)
          << rounds;
    }
  }
}

TEST(Costs, WhereMemoryIsBoundedSoAreMessages) {
  Processes four(4);
  if (!four) return;
  mv::WorldOptions options;
  options.direct_reads = false;
  options.packed_message_bytes = 64 << 10;
  const Costs free = ThereAndBack(four, options, 960);
  options.memory_limit = std::size_t{1} << 30;
  const Costs bounded = ThereAndBack(four, options, 960);
  EXPECT_EQ(bounded.statistics.bytes_sent, free.statistics.bytes_sent);
  EXPECT_EQ(bounded.statistics.messages_sent, 4 * free.statistics.messages_sent) << "of a part of 240 KiB";
}

TEST(WholeStores, WhatOneProcessLoadsIsSpread) {
  Processes three(3);
  if (!three) return;
  auto world = mv::World::Create(three);
  for (const mv::Split& split : {mv::Split{3, kNone}, mv::Split{kNone, 3}, mv::Split{kAll, kNone}, mv::Split{1, 1}}) {
    auto store = world->CreateStore({6, 9}, sizeof(Index));
    EXPECT_OK(store->SetSplit(split));
    EXPECT_OK(store->LoadParallel([&](mv::Loader& loader) {
      std::vector<Index> all(54);
      for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<Index>(i) + 100;
      return world->rank() != 2 || loader.PutBlock(At{0, 0}, At{6, 9}, all.data()).ok() ? 0 : 1;
    }));
    EXPECT_OK(store->Redistribute());
    for (mv::Element e : store->LocalElements()) EXPECT_EQ(e.as<Index>(), e.coordinates[0] * 9 + e.coordinates[1] + 100);
    EXPECT_EQ(*store->Count(), 54);
  }
}

TEST(Costs, LargePartsThatStayAreNotCopied) {
  Processes two(2);
  if (!two) return;
  const Costs c = ThereAndBack(two, {}, 2048);
  EXPECT_EQ(c.statistics.bytes_copied, 0u);
  EXPECT_EQ(c.statistics.bytes_kept, static_cast<std::uint64_t>(c.local) * 16);
}

// Bytes of files of `directory` that this process has mapped.
std::size_t MappedFiles(const std::string& directory) {
  std::ifstream maps("/proc/self/maps");
  std::size_t bytes = 0;
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin, end;
    if (line.find(" " + directory + "/") == std::string::npos) continue;
    if (std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) == 2) bytes += end - begin;
  }
  return bytes;
}

TEST(Targets, WhatIsAboveTheLimitLiesInFiles) {
  Processes two(2);
  if (!two) return;
  char name[] = "/tmp/harrow-multiview-XXXXXX";
  ASSERT_NE(mkdtemp(name), nullptr);
  constexpr Index kRows = 512;  // 1 MiB a process
  constexpr std::size_t kPart = 1 << 20;
  {
    mv::WorldOptions options;
    options.directory = name;
    options.memory_limit = kPart * 3 / 2;
    auto world = mv::World::Create(two, options);
    const auto make = [&](mv::Target target, long value) {
      auto store = world->CreateStore({kRows, 512}, sizeof(long), target);
      EXPECT_OK(store->SetSplit({2, kNone}));
      EXPECT_OK(store->LoadParallel([&](mv::Loader& loader) {
        auto block = loader.Block();
        if (!block) return 1;
        for (mv::Element e : *block) e.as<long>() = value + e.coordinates[0] * 512 + e.coordinates[1];
        return 0;
      }));
      return *store;
    };
    mv::DataStore first = make(mv::Target::kAutomatic, 0);
    EXPECT_EQ(MappedFiles(name), 0u);
    mv::DataStore second = make(mv::Target::kAutomatic, 1000);
    EXPECT_EQ(MappedFiles(name), kPart);
    mv::DataStore in_memory = make(mv::Target::kMemory, 2000);
    EXPECT_EQ(MappedFiles(name), kPart) << "a store that is to be in memory is, whatever the limit";
    for (auto* store : {&first, &second, &in_memory}) {
      EXPECT_OK(store->SetSplit({kNone, 2}));
      EXPECT_OK(store->Redistribute());
    }
    EXPECT_EQ(MappedFiles(name), 2 * kPart) << "while the first one moves both its parts count";
    long base = 0;
    for (auto* store : {&first, &second, &in_memory}) {
      Index wrong = 0;
      for (mv::Element e : store->LocalElements()) wrong += e.as<long>() != base + e.coordinates[0] * 512 + e.coordinates[1];
      EXPECT_EQ(wrong, 0);
      EXPECT_OK(store->Sync());
      base += 1000;
    }
  }
  EXPECT_EQ(MappedFiles(name), 0u);
  EXPECT_EQ(rmdir(name), 0) << "files have no names";
}

}  // namespace
