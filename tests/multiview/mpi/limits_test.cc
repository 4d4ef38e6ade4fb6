// Much of everything: descriptors, bytes beyond what MPI counts, single calls by the ten thousand.
#include <dirent.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <map>
#include <numeric>

#include "mpi_test.h"
#include "multiview/gather.h"

namespace {

using mv::Index;
using mv::kAll;
using mv::kNone;
using testing::HasSubstr;
using At = std::vector<Index>;

std::size_t Descriptors() {
  DIR* dir = opendir("/proc/self/fd");
  std::size_t n = 0;
  while (readdir(dir)) ++n;
  closedir(dir);
  return n;
}

// `bytes` that tell where they belong.
std::vector<std::byte> Value(Index i, std::size_t bytes) {
  std::vector<std::byte> v(bytes, static_cast<std::byte>(i * 7 + 1));
  if (bytes >= sizeof i) std::memcpy(v.data() + bytes - sizeof i, &i, sizeof i);
  return v;
}
bool Is(const mv::Element& e, Index i, std::size_t bytes) {
  const auto expected = Value(i, bytes);
  return e.bytes.size() == bytes && std::memcmp(e.bytes.data(), expected.data(), bytes) == 0;
}

TEST(Files, AStoreInFilesHoldsOneDescriptorHoweverItWasFilled) {
  Processes two(2);
  if (!two) return;
  char name[] = "/tmp/harrow-multiview-XXXXXX";
  ASSERT_NE(mkdtemp(name), nullptr);
  constexpr Index kElements = 3000;
  const auto size = [](Index i) { return static_cast<std::size_t>(i % 13 * 1000); };
  std::size_t before = 0;
  {
    mv::WorldOptions options;
    options.directory = name;
    auto world = mv::World::Create(two, options);
    before = Descriptors();
    auto store = world->CreateStore({kElements}, 0, mv::Target::kFile);
    EXPECT_OK(store->LoadParallel([&](mv::Loader& loader) {
      for (Index i = world->rank(); i < kElements; i += 2) {
        const auto value = Value(i, size(i));
        if (!loader.Put(At{i}, value.data(), value.size()).ok()) return 1;
      }
      return 0;
    }));
    EXPECT_LE(Descriptors(), before + 1);
    for (Index i = 0; i < 100; ++i) EXPECT_OK(store->Put(At{i}, Value(i, size(i)).data(), size(i)));
    for (int load = 0; load < 50; ++load) {
      EXPECT_OK(store->LoadParallel([&](mv::Loader& loader) {
        const Index i = 200 + 2 * load + world->rank();
        return loader.Put(At{i}, Value(i, size(i)).data(), size(i)).ok() ? 0 : 1;
      }));
    }
    EXPECT_LE(Descriptors(), before + 1);
    EXPECT_OK(store->SetSplit({2}));
    EXPECT_OK(store->Redistribute());
    EXPECT_OK(store->Sync());
    EXPECT_LE(Descriptors(), before + 1);
    Index seen = 0;
    EXPECT_OK(store->ForEach([&](const mv::Element& e) {
      EXPECT_EQ(e.coordinates[0], seen);
      EXPECT_TRUE(Is(e, seen, size(seen))) << seen;
      ++seen;
    }));
    EXPECT_EQ(seen, kElements);
    store->Clear();
    EXPECT_EQ(Descriptors(), before);
  }
  MPI_Barrier(two);
  if (rmdir(name) != 0) ADD_FAILURE() << "files have no names";
}

TEST(Files, AFileThatMayNotGrowIsAnErrorAndNotADeath) {
  Processes one(1);
  if (!one) return;
  auto world = mv::World::Create(one);
  auto store = world->CreateStore({8}, 0, mv::Target::kFile);
  rlimit old;
  getrlimit(RLIMIT_FSIZE, &old);
  const rlimit small{1 << 20, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  for (Index i = 0; i < 6; ++i) EXPECT_OK(store->Put(At{i}, Value(i, 300'000).data(), 300'000));
  const mv::Status refused = store->Put(At{7}, Value(7, 2'000'000).data(), 2'000'000);
  setrlimit(RLIMIT_FSIZE, &old);
  EXPECT_EQ(refused.code(), mv::Code::kStorage);
  EXPECT_THAT(refused.message(), HasSubstr("ulimit -f"));
  EXPECT_EQ(*store->Count(), 6);
  for (mv::Element e : store->LocalElements()) EXPECT_TRUE(Is(e, e.coordinates[0], 300'000));
}

TEST(Files, APartForWhichThereIsNoRoomIsAnErrorThoughTheNextOnesHaveIt) {
  Processes one(1);
  if (!one) return;
  auto world = mv::World::Create(one);
  auto large = world->CreateStore({2}, 0, mv::Target::kFile),
       small = world->CreateStore({2}, 0, mv::Target::kFile);
  auto both = world->CreateStore({2, 2}, 0, mv::Target::kFile);
  EXPECT_OK(large->Put(At{0}, Value(0, 2'000'000).data(), 2'000'000));
  EXPECT_OK(small->Put(At{0}, Value(1, 10).data(), 10));
  EXPECT_OK(both->Put(At{0, 0}, Value(0, 2'000'000).data(), 2'000'000));
  EXPECT_OK(both->Put(At{1, 0}, Value(1, 10).data(), 10));
  rlimit old;
  getrlimit(RLIMIT_FSIZE, &old);
  const rlimit most{1 << 20, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &most), 0);
  const mv::Status split = both->SplitUp().status();
  const mv::Status joined = mv::DataStore::Join({*large, *small}).status();
  setrlimit(RLIMIT_FSIZE, &old);
  EXPECT_EQ(split.code(), mv::Code::kStorage);
  EXPECT_EQ(joined.code(), mv::Code::kStorage);
}

// tests/multiview/surroundings_check gives a file system of 4 MiB.
TEST(Files, AFullDiskIsAnErrorAndNotADeath) {
  const char* disk = std::getenv("MULTIVIEW_SMALL_DISK");
  if (!disk) GTEST_SKIP() << "surroundings_check gives one (needs a small disk)";
  Processes two(2);
  if (!two) return;
  mv::WorldOptions options;
  options.directory = disk;
  auto world = mv::World::Create(two, options);
  auto dense = world->CreateStore({2, 1 << 20}, 8, mv::Target::kFile);
  const mv::Status full = dense->LoadParallel([](mv::Loader& loader) { return loader.Block().ok() ? 0 : 1; });
  EXPECT_EQ(full.code(), mv::Code::kStorage);
  EXPECT_THAT(full.message(), HasSubstr(disk));
  auto loose = world->CreateStore({64}, 0, mv::Target::kFile);
  Index put = 0;
  mv::Status s;
  for (; put < 64 && s.ok(); ++put) s = loose->Put(At{put}, Value(put, 200'000).data(), 200'000);
  EXPECT_EQ(s.code(), mv::Code::kStorage);
  EXPECT_GT(put, 5);
  EXPECT_EQ(*loose->Count(), put - 1);
  loose->Clear();
  MPI_Barrier(two);
  EXPECT_OK(loose->Put(At{0}, Value(0, 1'000'000).data(), 1'000'000));  // what is cleared is free again
}

TEST(Elements, OfManySmallLoadsLieTogether) {
  Processes one(1);
  if (!one) return;
  mv::WorldOptions options;
  options.memory_limit = 4 << 20;  // beyond this, they would be in a file
  options.directory = "/nonexistent";
  auto world = mv::World::Create(one, options);
  constexpr Index kLoads = 300;
  auto store = world->CreateStore({4 * kLoads}, sizeof(Index), mv::Target::kAutomatic);
  for (Index i = 0; i < kLoads; ++i) {
    EXPECT_OK(store->LoadParallel([&](mv::Loader& loader) {
      for (const Index at : {4 * i, 4 * i + 2}) {
        if (!loader.Put(At{at}, &at, sizeof at).ok()) return 1;
      }
      return 0;
    }));
  }
  EXPECT_EQ(*store->Count(), 2 * kLoads);
  for (mv::Element e : store->LocalElements()) EXPECT_EQ(e.as<Index>(), e.coordinates[0]);
}

#if !defined(__SANITIZE_ADDRESS__)  // which ends the process
TEST(Elements, OneThatSomebodyHasNoMemoryForIsAnErrorForAll) {
  Processes two(2);
  if (!two) return;
  auto world = mv::World::Create(two);
  auto store = world->CreateStore({1}, 0);
  constexpr std::size_t kBytes = 64 << 20;
  EXPECT_OK(store->Put(At{0}, Value(0, kBytes).data(), kBytes));
  rlimit old;
  getrlimit(RLIMIT_AS, &old);
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlimit few{pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + (32 << 20), old.rlim_max};
  if (world->rank() == 1) {
    ASSERT_EQ(setrlimit(RLIMIT_AS, &few), 0);
  }
  const mv::Status none = store->Get(At{0}).status();
  setrlimit(RLIMIT_AS, &old);
  EXPECT_EQ(none.code(), mv::Code::kMemory);
  EXPECT_THAT(none.message(), HasSubstr("get: no memory for an element of 67108864 bytes"));
}
#endif

double CpuSeconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// The median of pairs of equal length, taken in turn: one call for twice as many beside two calls. What they need either stays in a
// core's cache both times or does so neither time: the size of that is not what is asked. Nor is what looks at a whole store, and
// sorts it.
void ExpectLinear(const char* what, Index few, double bound, const std::function<void(Index)>& run) {
  constexpr int kRounds = 5;
  const auto time = [&](Index n) {
    const double begin = CpuSeconds();
    for (Index i = 0; i < 4'000; i += few) run(n);
    return CpuSeconds() - begin;
  };
  std::vector<double> ratios;
  for (int i = 0; i < kRounds; ++i) {
    const double before = time(few), twice = time(2 * few), after = time(few);
    ratios.push_back(2 * twice / (before + after));
  }
  const auto median = ratios.begin() + kRounds / 2;
  std::nth_element(ratios.begin(), median, ratios.end());
  std::printf("%s: %ld take %.2f times as long as %ld\n", what, static_cast<long>(2 * few), *median, static_cast<long>(few));
  EXPECT_LE(*median, bound) << what;
}

TEST(SingleCalls, TwiceAsManyTakeAtMostTwiceAsLong) {
  Processes one(1);
  if (!one) return;
  auto world = mv::World::Create(one);
  // Every other place, in no order, so that elements do not join.
  const auto place = [](Index i, Index n) { return At{2 * (i * 7919 % n)}; };
  ExpectLinear("single puts, gets and removals", 2'000, 2.3, [&](Index n) {
    auto store = world->CreateStore({2 * n}, 0);
    for (Index i = 0; i < n; ++i) EXPECT_OK(store->Put(place(i, n), &i, sizeof i));
    for (Index i = 0; i < n; i += 8) {
      Index value = -1;
      auto got = store->Get(place(i, n));
      if (got) std::memcpy(&value, got->data(), sizeof value);
      EXPECT_EQ(value, i);
    }
    for (Index i = 0; i < n; i += 2) EXPECT_OK(store->Remove(place(i, n)));
    for (Index i = 0; i < n; i += 3) EXPECT_EQ(store->Get(place(i, n)).ok(), i % 2 == 1);
  });
  ExpectLinear("loads of one element", 2'000, 2.3, [&](Index n) {
    auto store = world->CreateStore({2 * n}, 8);
    for (Index i = 0; i < n; ++i) {
      EXPECT_OK(store->LoadParallel([&](mv::Loader& loader) { return loader.Put(place(i, n), &i, sizeof i).ok() ? 0 : 1; }));
    }
    for (Index i = 0; i < n; i += 8) EXPECT_OK(store->Get(place(i, n)).status());
  });
  // Each store has a page of its own. Some hundred of them lie in a core's cache, and every one in the same few sets of it: 1 000
  // take up to four times as long as 500. These take 1.5 to 2.4 times as long.
  ExpectLinear("stores split up and joined", 4'000, 3, [&](Index n) {
    auto store = world->CreateStore({n, 4}, 8);
    EXPECT_OK(store->LoadParallel([&](mv::Loader& loader) {
      for (Index i = 0; i < n; ++i) {
        if (!loader.Put(At{i, i % 4}, &i, sizeof i).ok()) return 1;
      }
      return 0;
    }));
    auto parts = store->SplitUp();
    EXPECT_OK(parts.status());
    EXPECT_EQ(*mv::DataStore::Join(*parts)->Count(), n);
  });
}

TEST(SingleCalls, PutWhereAnotherProcessHasTheElement) {
  Processes four(4);
  if (!four) return;
  auto world = mv::World::Create(four);
  auto store = world->CreateStore({8}, sizeof(int));
  // Runs of two elements on every process, nowhere near where the Split would have them.
  EXPECT_OK(store->LoadParallel([&](mv::Loader& loader) {
    const Index first = 2 * (3 - world->rank());
    const int values[] = {10, 20};
    const Index extent = 2;
    return loader.PutBlock(At{first}, At{extent}, values).ok() ? 0 : 1;
  }));
  for (int round = 0; round < 3; ++round) {
    for (Index i = 0; i < 8; ++i) {
      const int value = static_cast<int>(100 * round + i);
      EXPECT_OK(store->Put(At{i}, &value, sizeof value));
    }
    EXPECT_EQ(*store->Count(), 8);
    for (Index i = 0; i < 8; ++i) {
      int value;
      std::memcpy(&value, store->Get(At{i})->data(), sizeof value);
      EXPECT_EQ(value, 100 * round + i);
    }
  }
  EXPECT_OK(store->SetSplit({4}));
  EXPECT_OK(store->Redistribute());
  for (mv::Element e : store->LocalElements()) EXPECT_EQ(e.as<int>(), 200 + e.coordinates[0]);
  EXPECT_EQ(store->LocalElements().count(), 2);
}

int g_gathered = 0;  // calls of MPI_Allgatherv

}  // namespace

extern "C" int MPI_Allgatherv(const void* mine, int size, MPI_Datatype type, void* all, const int counts[], const int places[],
                              MPI_Datatype all_type, MPI_Comm comm) {
  ++g_gathered;
  return PMPI_Allgatherv(mine, size, type, all, counts, places, all_type, comm);
}

namespace {

TEST(Gather, MoreThanGoesAtOnceGoesInSteps) {
  Processes twelve(12);
  if (!twelve) return;
  auto team = mv::internal::Team::Create(twelve, {});
  ASSERT_TRUE(team.ok());
  const int rank = (*team)->rank();
  for (const std::int64_t at_once : {1, 7, 24, 100, 1000}) {
    for (const int pattern : {0, 1, 2}) {
      const auto size = [&](int p) { return static_cast<std::size_t>(pattern == 0 ? p * p : pattern == 1 ? (p == 5) * 321 : 0); };
      const auto mine = Value(rank, size(rank));
      std::vector<std::byte> expected;
      for (int p = 0; p < 12; ++p) {
        const auto part = Value(p, size(p));
        expected.insert(expected.end(), part.begin(), part.end());
      }
      EXPECT_EQ(mv::GatherBytes(**team, mine, at_once), expected) << at_once << " at once, pattern " << pattern;
    }
  }
  const auto mine = Value(rank, 10);  // 120 bytes in all
  for (const auto& [at_once, steps] : std::map<std::int64_t, int>{{1, 10}, {24, 5}, {119, 2}, {120, 1}}) {
    g_gathered = 0;
    mv::GatherBytes(**team, mine, at_once);
    EXPECT_EQ(g_gathered, steps) << at_once << " at once";
  }
  g_gathered = 0;
  mv::GatherBytes(**team, mine);
  EXPECT_EQ(g_gathered, 1);
}

TEST(ForEach, SmallElementsPassManyAtOnce) {
  Processes three(3);
  if (!three) return;
  auto world = mv::World::Create(three);
  auto store = world->CreateStore({3000}, sizeof(Index));
  EXPECT_OK(store->LoadParallel([](mv::Loader& loader) {
    auto block = loader.Block();
    for (mv::Element e : *block) e.as<Index>() = e.coordinates[0];
    return 0;
  }));
  g_gathered = 0;
  Index seen = 0;
  EXPECT_OK(store->ForEach([&](const mv::Element& e) { EXPECT_EQ(e.as<Index>(), seen++); }));
  EXPECT_EQ(seen, 3000);
  EXPECT_LE(g_gathered, 3);
}

TEST(ForEach, LargeElementsPassInPiecesOfBoundedSize) {
  Processes three(3);
  if (!three) return;
  auto world = mv::World::Create(three);
  auto store = world->CreateStore({5000}, 0);
  // Mostly small, some of several megabytes, one beyond a window of its own, and that one on two processes.
  const auto size = [](Index i) -> std::size_t { return i == 2501 ? 20 << 20 : i % 1000 == 17 ? 3 << 20 : i % 5; };
  const auto load = [&](Index from, Index step) {
    return store->LoadParallel([&](mv::Loader& loader) {
      for (Index i = from; i < 5000; i += step) {
        if (i % 11 == 3) continue;
        const auto value = Value(i, size(i));
        if (!loader.Put(At{i}, value.data(), value.size()).ok()) return 1;
      }
      return 0;
    });
  };
  EXPECT_OK(load(world->rank(), 3));
  EXPECT_OK(store->LoadParallel([&](mv::Loader& loader) {
    const auto value = Value(2501, size(2501));
    return world->rank() == 0 && !loader.Put(At{2501}, value.data(), value.size()).ok();
  }));
  std::vector<Index> seen;
  EXPECT_OK(store->ForEach([&](const mv::Element& e) {
    seen.push_back(e.coordinates[0]);
    EXPECT_TRUE(Is(e, seen.back(), size(seen.back()))) << seen.back();
  }));
  std::vector<Index> expected;
  for (Index i = 0; i < 5000; ++i) {
    if (i % 11 != 3) expected.push_back(i);
  }
  EXPECT_EQ(seen, expected);
}

double FreeMemory() {
  std::ifstream info("/proc/meminfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("MemAvailable:")) return std::atof(line.c_str() + 13) * 1024;
  }
  return 0;
}

TEST(ForEach, MoreThanTwoGigabytesAtNeighbouringPlaces) {
  const char* wanted = std::getenv("HARROW_LONG");
  if (!wanted || !*wanted) GTEST_SKIP() << "with HARROW_LONG=1 (needs the long form)";
  double memory = FreeMemory();
  MPI_Allreduce(MPI_IN_PLACE, &memory, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
  if (memory < 9e9) GTEST_SKIP() << "it holds three large arrays (needs 9 GB of memory)";
  Processes three(3);
  if (!three) return;
  auto world = mv::World::Create(three);
  auto store = world->CreateStore({3}, 0);
  constexpr std::size_t kBytes = 800'000'000;
  EXPECT_OK(store->LoadParallel([&](mv::Loader& loader) {
    const auto value = Value(world->rank(), kBytes);
    return loader.Put(At{world->rank()}, value.data(), value.size()).ok() ? 0 : 1;
  }));
  Index seen = 0;
  EXPECT_OK(store->ForEach([&](const mv::Element& e) {
    Index at;
    std::memcpy(&at, e.bytes.data() + e.bytes.size() - sizeof at, sizeof at);
    EXPECT_EQ(at, seen);
    EXPECT_EQ(e.bytes.size(), kBytes);
    EXPECT_EQ(e.bytes[kBytes / 2], static_cast<std::byte>(seen * 7 + 1));
    ++seen;
  }));
  EXPECT_EQ(seen, 3);
  store->Clear();
  // A complete array of 2.4 GB, a process's part of which goes to one other.
  auto dense = world->CreateStore({3, 100'000'000}, 8);
  EXPECT_OK(dense->LoadParallel([&](mv::Loader& loader) {
    auto block = loader.Block();
    if (!block) return 1;
    auto* data = block->fragments()[0].as<Index>();
    std::iota(data, data + 100'000'000, 100'000'000 * world->rank());
    return 0;
  }));
  EXPECT_OK(dense->SetSplit({kNone, 3}));
  EXPECT_OK(dense->Redistribute());
  Index wrong = 0;
  const mv::Elements local = dense->LocalElements();
  for (const mv::Fragment& f : local.fragments()) {
    const Index first = f.origin[0] * 100'000'000 + f.origin[1];
    for (Index i = 0; i < f.extent[1]; ++i) wrong += f.as<Index>()[i] != first + i;
  }
  EXPECT_EQ(wrong, 0);
}

TEST(ForEach, AVisitThatThrowsIsAnErrorEverywhere) {
  Processes three(3);
  if (!three) return;
  auto world = mv::World::Create(three);
  auto store = world->CreateStore({20}, 8);
  EXPECT_OK(store->LoadParallel([&](mv::Loader& loader) {
    auto block = loader.Block();
    for (mv::Element e : *block) e.as<Index>() = e.coordinates[0];
    return 0;
  }));
  int visits = 0;
  const mv::Status s = store->ForEach([&](const mv::Element& e) {
    ++visits;
    if (world->rank() == 1 && e.coordinates[0] == 4) throw 7;
    if (world->rank() == 2 && e.coordinates[0] == 9) throw std::runtime_error("the file is full");
  });
  EXPECT_EQ(s.code(), mv::Code::kTaskFailed);
  EXPECT_THAT(s.message(), HasSubstr("for_each: the function threw something"));
  EXPECT_EQ(visits, world->rank() == 0 ? 20 : world->rank() == 1 ? 5 : 10);
  EXPECT_EQ(*store->Count(), 20);
}

TEST(Tasks, ManyThatMayHaveSeveralProcessesFindTheirMembers) {
  Processes three(3);
  if (!three) return;
  auto world = mv::World::Create(three);
  // Every task may have elements on all three, and has them on two: who has what is told in letters of several pages.
  constexpr Index kTasks = 40'000;
  auto store = world->CreateStore({kTasks, 3}, 0);
  EXPECT_OK(store->SetSplit({kNone, 3}));
  EXPECT_OK(store->LoadParallel([&](mv::Loader& loader) {
    for (Index i = 0; i < kTasks; ++i) {
      if (i % 3 != world->rank() && !loader.Put(At{i, world->rank()}, &i, 1).ok()) return 1;
    }
    return 0;
  }));
  Index wrong = 0, tasks = 0;
  MPI_Comm last = MPI_COMM_NULL;
  EXPECT_OK(store->Map([&](mv::Task& task) {
    int size;
    MPI_Comm_size(task.comm(), &size);
    wrong += size != 2 || task.elements().count() != 1;
    last = task.comm();
    ++tasks;
    return 0;
  }, {kAll, kNone}).status);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(tasks, kTasks / 3 * 2 + (world->rank() == 0 ? 0 : 1));
}

TEST(Tasks, HaveTheirProcessesInTheOrderOfRanks) {
  Processes twelve(12);
  if (!twelve) return;
  auto world = mv::World::Create(twelve);
  auto store = world->CreateStore({20, 24}, sizeof(Index));
  EXPECT_OK(store->SetSplit({kNone, 12}));
  EXPECT_OK(store->LoadParallel([&](mv::Loader& loader) {
    for (Index i = 0; i < 20; ++i) {  // the columns between stay empty: who has what of a row must be found out
      if (!loader.Put({i, 2 * world->rank()}, i).ok()) return 1;
    }
    return 0;
  }));
  int tasks = 0, wrong = 0;
  EXPECT_OK(store->Map([&](mv::Task& task) {
    int rank;
    MPI_Comm_rank(task.comm(), &rank);
    wrong += rank != world->rank();
    ++tasks;
    return 0;
  }, {kAll, kNone}).status);
  EXPECT_EQ(tasks, 20);
  EXPECT_EQ(wrong, 0);
}

TEST(Tasks, WhatATaskThrowsMayBeLong) {
  Processes two(2);
  if (!two) return;
  auto world = mv::World::Create(two);
  auto store = world->CreateStore({2}, 8);
  EXPECT_OK(store->LoadParallel([](mv::Loader& loader) { return loader.Block().ok() ? 0 : 1; }));
  const auto result = store->Map([](mv::Task&) -> int { throw std::runtime_error(std::string(5 << 20, 'x')); }, {kAll});
  ASSERT_EQ(result.failed.size(), 2u);
  EXPECT_EQ(result.failed[1].message, std::string(64 << 10, 'x'));
}

TEST(Limits, NumbersBeyondWhatThereIsAreRefused) {
  Processes two(2);
  if (!two) return;
  mv::WorldOptions options;
  for (int rounds : {0, -1, 4097, INT32_MAX}) {
    options.rounds = rounds;
    EXPECT_THAT(mv::World::Create(two, options).status().message(), HasSubstr("from 1 to 4096 are possible"));
  }
  auto world = mv::World::Create(two);
  const Index large = Index{1} << 16;
  EXPECT_THAT(world->CreateStore({large, large, large, large}, 8).status().message(), HasSubstr("more elements than can be counted"));
  EXPECT_THAT(world->CreateStore({large, large, large}, large).status().message(), HasSubstr("too large"));
  auto store = world->CreateStore({4, 6}, 8);
  for (const At& extent : {At{1, INT64_MAX}, At{INT64_MAX, INT64_MAX}, At{4, 1}, At{INT64_MIN, 1}, At{1, -1}}) {
    EXPECT_EQ(store->LoadParallel([&](mv::Loader& loader) {
      const double value = 0;
      EXPECT_FALSE(loader.PutBlock(At{1, 1}, extent, &value).ok());
      return 0;
    }).code(), mv::Code::kInvalid);
  }
  EXPECT_EQ(*store->Count(), 0);
}

// surroundings_check says what it has forbidden; without it direct reads work where the machine allows them.
TEST(Reads, AreDirectOrTheReasonIsTold) {
  Processes twelve(12);
  if (!twelve) return;
  auto world = mv::World::Create(twelve);
  const std::string reason = world->DirectReads().message();
  if (const char* expected = std::getenv("MULTIVIEW_READS"); expected && std::strcmp(expected, "work") == 0) {
    EXPECT_OK(world->DirectReads());
  } else if (expected) {
    EXPECT_THAT(reason, HasSubstr(expected));
  }
  for (const mv::Target target : {mv::Target::kMemory, mv::Target::kFile}) {
    auto store = world->CreateStore({12, 5000}, 8, target);
    EXPECT_OK(store->LoadParallel([](mv::Loader& loader) {
      auto block = loader.Block();
      if (!block) return 1;
      for (mv::Element e : *block) e.as<Index>() = e.coordinates[0] * 5000 + e.coordinates[1];
      return 0;
    }));
    const auto read = world->statistics().bytes_read;
    EXPECT_OK(store->SetSplit({kNone, 12}));
    EXPECT_OK(store->Redistribute());
    Index wrong = 0;
    for (mv::Element e : store->LocalElements()) wrong += e.as<Index>() != e.coordinates[0] * 5000 + e.coordinates[1];
    EXPECT_EQ(wrong, 0);
    if (!world->DirectReads().ok()) {
      EXPECT_EQ(world->statistics().bytes_read, read) << reason;
    } else if (world->statistics().messages_sent == 0) {
      EXPECT_GT(world->statistics().bytes_read, read);
    }
  }
}

// One call of the system takes 1024 pieces of either side.
TEST(Reads, OfMorePiecesThanACallTakesOnEitherSide) {
  Processes two(2);
  if (!two) return;
  auto world = mv::World::Create(two);
  auto store = world->CreateStore({4200, 2, 130}, sizeof(Index));
  const auto number = [](const mv::Element& e) { return (e.coordinates[0] * 2 + e.coordinates[1]) * 130 + e.coordinates[2]; };
  EXPECT_OK(store->SetSplit({kNone, 2, kNone}));
  EXPECT_OK(store->LoadParallel([&](mv::Loader& loader) {
    auto block = loader.Block();
    if (!block) return 1;
    for (mv::Element e : *block) e.as<Index>() = number(e);
    return 0;
  }));
  // What is one piece at its source is 2100 at its target, and back again.
  for (const mv::Split& split : {mv::Split{2, kNone, kNone}, mv::Split{kNone, 2, kNone}}) {
    EXPECT_OK(store->SetSplit(split));
    EXPECT_OK(store->Redistribute());
    Index wrong = 0;
    for (mv::Element e : store->LocalElements()) wrong += e.as<Index>() != number(e);
    EXPECT_EQ(wrong, 0);
  }
}

}  // namespace
