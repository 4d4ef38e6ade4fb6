// What a caller in C is given: every value of every call, on a few processes.
#include <cstdlib>
#include <cstring>
#include <gmock/gmock.h>
#include <harrow/multiview.h>
#include <string>
#include <unistd.h>
#include <vector>

#include "mpi_test.h"

namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::int64_t kShape[] = {3, 4};
constexpr std::int64_t kColumns[] = {MV_NONE, 2}, kRows[] = {MV_ALL, MV_NONE},
                       kEachColumn[] = {MV_NONE, MV_ALL};
constexpr std::int64_t kWhole[] = {MV_NONE, MV_NONE};

std::int64_t Number(std::int64_t row, std::int64_t column) {
  return 100 * row + column;
}

struct Owner {
  mv_world* world = nullptr;
  mv_store* store = nullptr;

  Owner(MPI_Comm comm, const mv_options* options, std::size_t element_bytes = sizeof(std::int64_t),
        mv_target target = MV_TARGET_AUTOMATIC) {
    EXPECT_EQ(mv_world_create(comm, options, &world), MV_OK) << mv_message();
    EXPECT_EQ(mv_store_create(world, 2, kShape, element_bytes, target, &store), MV_OK) << mv_message();
  }
  ~Owner() {
    mv_store_free(store);
    mv_world_free(world);
  }
  // Complete, by columns.
  void Fill() {
    EXPECT_EQ(mv_set_split(store, kColumns), MV_OK) << mv_message();
    EXPECT_EQ(mv_load_parallel(
                  store,
                  [](mv_loader* loader, void*) {
                    std::size_t fragments = 0;
                    if (mv_loader_block(loader, &fragments) != MV_OK || fragments != 1) return 1;
                    mv_fragment f;
                    mv_loader_fragment(loader, 0, &f);
                    for (std::int64_t i = 0; i < f.extent[0]; ++i) {
                      for (std::int64_t j = 0; j < f.extent[1]; ++j) {
                        const std::int64_t value = Number(f.origin[0] + i, f.origin[1] + j);
                        std::memcpy(static_cast<char*>(f.data) + i * f.stride[0] + j * f.stride[1], &value,
                                    sizeof value);
                      }
                    }
                    return 0;
                  },
                  nullptr),
              MV_OK)
        << mv_message();
  }
};

std::vector<std::int64_t> Two(const std::int64_t* numbers) {
  return {numbers[0], numbers[1]};
}

TEST(CValues, OfWorldAndStore) {
  Processes three(3);
  if (!three) return;
  int rank;
  MPI_Comm_rank(three, &rank);
  Owner o(three, nullptr);
  EXPECT_EQ(mv_world_rank(o.world), rank);
  EXPECT_EQ(mv_world_size(o.world), 3);
  EXPECT_EQ(mv_dimensions(o.store), 2);
  std::int64_t shape[2] = {};
  mv_shape(o.store, shape);
  EXPECT_THAT(Two(shape), ElementsAre(3, 4));
  mv_world* other = nullptr;
  EXPECT_EQ(mv_world_create_f(MPI_Comm_c2f(three), nullptr, &other), MV_OK) << mv_message();
  EXPECT_EQ(mv_world_rank(other), rank);
  EXPECT_EQ(mv_world_size(other), 3);
  mv_world_free(other);
  mv_store* none = o.store;
  EXPECT_EQ(mv_store_create(o.world, 0, nullptr, 8, MV_TARGET_AUTOMATIC, &none), MV_INVALID);
  EXPECT_THAT(mv_message(), HasSubstr("no dimensions"));
  EXPECT_EQ(none, nullptr);
}

TEST(CValues, FragmentsTellWhereElementsLie) {
  Processes two(2);
  if (!two) return;
  Owner o(two, nullptr);
  o.Fill();
  for (int again = 0; again < 2; ++again) ASSERT_EQ(mv_local_fragments(o.store), 1u);
  mv_fragment f;
  mv_local_fragment(o.store, 0, &f);
  const int rank = mv_world_rank(o.world);
  EXPECT_THAT(Two(f.origin), ElementsAre(0, 2 * rank));
  EXPECT_THAT(Two(f.extent), ElementsAre(3, 2));
  EXPECT_THAT(Two(f.stride), ElementsAre(16, 8));
  EXPECT_EQ(f.element_bytes, 8u);
  EXPECT_EQ(f.contiguous, 1);
  for (std::int64_t i = 0; i < 6; ++i)
    EXPECT_EQ(static_cast<std::int64_t*>(f.data)[i], Number(i / 2, 2 * rank + i % 2));
  mv_local_fragment(o.store, 1, &f);
  EXPECT_THAT(mv_message(), HasSubstr("there is no fragment of number 1"));
}

struct SeenByTask {
  std::vector<std::vector<std::int64_t>> keys;
  int wrong = 0;
};

TEST(CValues, ATaskSeesItsPartAndPutsIntoTheOutput) {
  Processes two(2);
  if (!two) return;
  Owner o(two, nullptr);
  o.Fill();
  mv_store* sums = nullptr;
  const std::int64_t rows = 3;
  ASSERT_EQ(mv_store_create(o.world, 1, &rows, sizeof(std::int64_t), MV_TARGET_MEMORY, &sums), MV_OK);
  SeenByTask seen;
  EXPECT_EQ(mv_map(
                o.store, sums,
                [](mv_task* task, void* argument) {
                  auto* s = static_cast<SeenByTask*>(argument);
                  std::int64_t key[2] = {}, split[2] = {}, view[2] = {};
                  mv_task_key(task, key);
                  mv_task_split(task, split);
                  mv_task_view(task, view);
                  s->keys.push_back(Two(key));
                  s->wrong += Two(split) != Two(kColumns) || Two(view) != Two(kRows);
                  int size = 0, same = 0;
                  MPI_Comm_size(mv_task_comm(task), &size);
                  MPI_Comm_compare(mv_task_comm(task), MPI_Comm_f2c(mv_task_comm_f(task)), &same);
                  s->wrong += size != 2 || same != MPI_IDENT;
                  s->wrong += mv_task_elements(task) != 2 || mv_task_fragments(task) != 1;
                  std::int64_t sum = 0;
                  for (std::int64_t i = 0; i < mv_task_elements(task); ++i) {
                    std::int64_t at[2];
                    void* bytes = nullptr;
                    std::size_t element = 0;
                    if (mv_task_element(task, i, at, &bytes, &element) != MV_OK) return 1;
                    s->wrong += at[0] != key[0] || element != 8 ||
                                *static_cast<std::int64_t*>(bytes) != Number(at[0], at[1]);
                    sum += *static_cast<std::int64_t*>(bytes);
                  }
                  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT64_T, MPI_SUM, mv_task_comm(task));
                  int rank;
                  MPI_Comm_rank(mv_task_comm(task), &rank);
                  return rank == 1 && mv_task_put(task, key, &sum, sizeof sum) != MV_OK ? 1 : 0;
                },
                &seen, kRows),
            MV_OK)
      << mv_message();
  EXPECT_THAT(seen.keys, ElementsAre(ElementsAre(0, 0), ElementsAre(1, 0), ElementsAre(2, 0)));
  EXPECT_EQ(seen.wrong, 0);
  EXPECT_EQ(mv_local_fragments(sums), mv_world_rank(o.world) == 1 ? 3u : 0u)
      << "they stay where they were put";
  for (std::int64_t row = 0; row < 3; ++row) {
    std::int64_t sum = 0;
    ASSERT_EQ(mv_get(sums, &row, &sum, sizeof sum, nullptr), MV_OK);
    EXPECT_EQ(sum, 400 * row + 6);
  }
  // One column of several rows lies in steps.
  int rank = mv_world_rank(o.world);
  EXPECT_EQ(mv_map(
                o.store, nullptr,
                [](mv_task* task, void* process) {
                  std::int64_t key[2];
                  mv_task_key(task, key);
                  mv_fragment f;
                  mv_task_fragment(task, 0, &f);
                  EXPECT_THAT(Two(f.extent), ElementsAre(3, 1));
                  EXPECT_THAT(Two(f.origin), ElementsAre(0, key[1]));
                  EXPECT_EQ(f.stride[0], 16);
                  EXPECT_EQ(f.contiguous, 0);
                  for (std::int64_t i = 0; i < 3; ++i) {
                    std::int64_t at[2];
                    void* bytes;
                    EXPECT_EQ(mv_task_element(task, i, at, &bytes, nullptr), MV_OK);
                    EXPECT_THAT(Two(at), ElementsAre(i, key[1]));
                    EXPECT_EQ(*static_cast<std::int64_t*>(bytes), Number(i, key[1]));
                  }
                  EXPECT_EQ(key[1] / 2, *static_cast<int*>(process));
                  return 0;
                },
                &rank, kEachColumn),
            MV_OK)
      << mv_message();
  // What a task put is refused where there is no output.
  EXPECT_EQ(mv_map(
                o.store, nullptr,
                [](mv_task* task, void*) {
                  const std::int64_t at[] = {0, 0}, value = 1;
                  mv_task_put(task, at, &value, sizeof value);
                  return 0;
                },
                nullptr, kWhole),
            MV_TASK_FAILED);
  ASSERT_EQ(mv_failed_count(o.store), 1u);
  std::int64_t key[2] = {9, 9};
  int code = 0;
  const char* message = nullptr;
  EXPECT_EQ(mv_failed(o.store, 0, key, &code, &message), MV_OK);
  EXPECT_THAT(Two(key), ElementsAre(0, 0));
  EXPECT_EQ(code, -1);
  EXPECT_THAT(message, HasSubstr("there is no output store"));
  EXPECT_EQ(mv_failed(o.store, 0, nullptr, nullptr, nullptr), MV_OK);
  mv_store_free(sums);
}

TEST(CValues, StatisticsAreInTheirPlaces) {
  Processes two(2);
  if (!two) return;
  mv_options options = {};
  options.no_direct_reads = 1;
  Owner o(two, &options);
  EXPECT_EQ(mv_world_direct_reads(o.world), MV_NOT_FOUND);
  EXPECT_THAT(mv_message(), HasSubstr("switched off, by the options"));
  o.Fill();
  EXPECT_EQ(mv_set_split(o.store, kRows), MV_OK);
  EXPECT_EQ(mv_redistribute(o.store), MV_OK);
  mv_statistics s;
  mv_world_statistics(o.world, &s);
  // Rows 0 and 1 go to process 0, row 2 to process 1; each had half of every row.
  int rank = mv_world_rank(o.world);
  const bool first = rank == 0;
  EXPECT_EQ(s.messages_sent, 1u);
  EXPECT_EQ(s.bytes_sent, first ? 16u : 32u);
  EXPECT_EQ(s.bytes_read, 0u);
  EXPECT_EQ(s.bytes_copied, first ? 32u : 16u);
  EXPECT_EQ(s.bytes_kept, 0u);
  EXPECT_EQ(s.plans_made, 1u);
  EXPECT_EQ(s.redistributions, 1u);
  EXPECT_EQ(s.elements_examined, 0u);
  EXPECT_GT(s.planning_seconds, 0);
  EXPECT_LT(s.planning_seconds, 600);
  // Where the layout is not known, elements are looked at one by one.
  mv_clear(o.store);
  EXPECT_EQ(
      mv_load_parallel(
          o.store,
          [](mv_loader* loader, void* process) {
            const std::int64_t origin[] = {*static_cast<int*>(process) == 0 ? 2 : 0, 0}, extent[] = {1, 4};
            const std::int64_t values[] = {1, 2, 3, 4};
            return mv_loader_put_block(loader, origin, extent, values) == MV_OK ? 0 : 1;
          },
          &rank),
      MV_OK)
      << mv_message();
  EXPECT_EQ(mv_redistribute(o.store), MV_OK);
  mv_world_statistics(o.world, &s);
  EXPECT_EQ(s.elements_examined, 4u);
  EXPECT_EQ(s.redistributions, 2u);
}

TEST(CValues, ElementsAreReplacedCountedAndCleared) {
  Processes two(2);
  if (!two) return;
  Owner o(two, nullptr, 0);
  const std::int64_t at[] = {1, 2}, empty[] = {2, 3}, outside[] = {3, 0};
  EXPECT_EQ(mv_put(o.store, at, "first", 5), MV_OK);
  EXPECT_EQ(mv_put(o.store, at, "second", 6), MV_OK);
  EXPECT_EQ(mv_put(o.store, empty, nullptr, 0), MV_OK) << "nothing lies anywhere";
  EXPECT_EQ(mv_put(o.store, at, nullptr, 1), MV_INVALID);
  EXPECT_THAT(mv_message(), HasSubstr("bytes is NULL"));
  EXPECT_EQ(mv_put(o.store, outside, "x", 1), MV_INVALID);
  std::int64_t count = 0;
  EXPECT_EQ(mv_count(o.store, &count), MV_OK);
  EXPECT_EQ(count, 2);
  std::size_t size = 99;
  EXPECT_EQ(mv_get(o.store, at, nullptr, 0, &size), MV_OK) << "its size alone";
  EXPECT_EQ(size, 6u);
  char text[] = "................";
  EXPECT_EQ(mv_get(o.store, at, text, sizeof text, nullptr), MV_OK);
  EXPECT_EQ(std::string(text, 7), "second.");
  EXPECT_EQ(mv_get(o.store, empty, nullptr, 8, &size), MV_OK);
  EXPECT_EQ(size, 0u);
  EXPECT_EQ(mv_sync(o.store), MV_OK);
  std::string visited;
  EXPECT_EQ(mv_for_each(
                o.store,
                [](const std::int64_t* place, const void* bytes, std::size_t length, void* to) {
                  *static_cast<std::string*>(to) +=
                      std::to_string(place[0]) + std::to_string(place[1]) + "=" +
                      std::string(static_cast<const char*>(bytes), length) + ";";
                },
                &visited),
            MV_OK);
  EXPECT_EQ(visited, "12=second;23=;");
  mv_clear(o.store);
  EXPECT_EQ(mv_count(o.store, &count), MV_OK);
  EXPECT_EQ(count, 0);
}

TEST(CValues, PartsAndTheirUnion) {
  Processes two(2);
  if (!two) return;
  Owner o(two, nullptr);
  o.Fill();
  mv_store* rows[3] = {};
  ASSERT_EQ(mv_split_up(o.store, rows), MV_OK) << mv_message();
  for (std::int64_t row = 0; row < 3; ++row) {
    EXPECT_EQ(mv_dimensions(rows[row]), 1);
    const std::int64_t column = 3;
    std::int64_t value = -1;
    EXPECT_EQ(mv_get(rows[row], &column, &value, sizeof value, nullptr), MV_OK);
    EXPECT_EQ(value, Number(row, 3));
  }
  mv_store* const two_rows[] = {rows[2], rows[0]};
  mv_store* joined = nullptr;
  ASSERT_EQ(mv_join(two_rows, 2, &joined), MV_OK) << mv_message();
  std::int64_t shape[2] = {}, count = 0, value = -1;
  mv_shape(joined, shape);
  EXPECT_THAT(Two(shape), ElementsAre(2, 4));
  EXPECT_EQ(mv_count(joined, &count), MV_OK);
  EXPECT_EQ(count, 8);
  const std::int64_t at[] = {0, 1};
  EXPECT_EQ(mv_get(joined, at, &value, sizeof value, nullptr), MV_OK);
  EXPECT_EQ(value, Number(2, 1));
  mv_store* none = joined;
  EXPECT_EQ(mv_join(nullptr, 0, &none), MV_INVALID);
  EXPECT_EQ(none, nullptr);
  mv_store_free(joined);
  for (mv_store* row : rows) mv_store_free(row);
}

TEST(CValues, APlacementMovesLess) {
  Processes four(4);
  if (!four) return;
  for (const mv_placement placement : {MV_IN_ORDER, MV_LEAST_MOVED}) {
    mv_options options = {};
    options.no_direct_reads = 1;
    Owner o(four, &options);
    const std::int64_t shape[] = {2, 4}, columns[] = {MV_NONE, 4}, halves[] = {MV_ALL, 2};
    mv_store* store = nullptr;
    ASSERT_EQ(mv_store_create(o.world, 2, shape, 8, MV_TARGET_MEMORY, &store), MV_OK);
    EXPECT_EQ(mv_set_split(store, columns), MV_OK);
    EXPECT_EQ(mv_load_parallel(
                  store,
                  [](mv_loader* loader, void*) {
                    std::size_t n;
                    return mv_loader_block(loader, &n) == MV_OK ? 0 : 1;
                  },
                  nullptr),
              MV_OK);
    EXPECT_EQ(mv_set_split_placed(store, halves, placement), MV_OK);
    EXPECT_EQ(mv_redistribute(store), MV_OK);
    mv_statistics s;
    mv_world_statistics(o.world, &s);
    // Of its two elements, each process can keep one.
    const int rank = mv_world_rank(o.world);
    EXPECT_EQ(s.bytes_sent, placement == MV_IN_ORDER && (rank == 1 || rank == 2) ? 16u : 8u);
    mv_store_free(store);
  }
}

// The first byte of a store's part, as it is before anything is written; then it is marked.
unsigned char Mark(mv_store* store) {
  unsigned char found = 0;
  EXPECT_EQ(mv_load_parallel(
                store,
                [](mv_loader* loader, void* before) {
                  std::size_t n;
                  if (mv_loader_block(loader, &n) != MV_OK) return 1;
                  mv_fragment f;
                  mv_loader_fragment(loader, 0, &f);
                  std::memcpy(before, f.data, 1);
                  std::memset(f.data, 0x5a, 1);
                  return 0;
                },
                &found),
            MV_OK)
      << mv_message();
  mv_clear(store);
  return found;
}

TEST(CValues, OptionsHold) {
  Processes one(1);
  if (!one) return;
  mv_world* none = nullptr;
  mv_options options = {};
  options.rounds = 5000;
  EXPECT_EQ(mv_world_create(one, &options, &none), MV_INVALID);
  EXPECT_EQ(none, nullptr);
  EXPECT_THAT(mv_message(), HasSubstr("5000 rounds"));
  options.rounds = 4096;
  {
    Owner o(one, &options);
    EXPECT_EQ(Mark(o.store), 0);
    EXPECT_EQ(Mark(o.store), 0x5a) << "freed memory is kept";
    mv_world_trim(o.world);
    EXPECT_EQ(Mark(o.store), 0);
  }
  options.keep_bytes = 1;
  {
    Owner o(one, &options);
    Mark(o.store);
    EXPECT_EQ(Mark(o.store), 0) << "no more than that";
  }
  options.directory = "/nonexistent";
  const auto load = [](mv_store* store) {
    return mv_load_parallel(
        store,
        [](mv_loader* loader, void*) {
          std::size_t n;
          mv_loader_block(loader, &n);
          return 0;
        },
        nullptr);
  };
  {
    Owner in_memory(one, &options), in_file(one, &options, 8, MV_TARGET_FILE);
    EXPECT_EQ(load(in_memory.store), MV_OK);
    EXPECT_EQ(load(in_file.store), MV_STORAGE);
    EXPECT_THAT(mv_message(), HasSubstr("/nonexistent"));
  }
  options.memory_limit = 95;  // the store's 96 bytes are too many
  {
    Owner o(one, &options), in_memory(one, &options, 8, MV_TARGET_MEMORY);
    EXPECT_EQ(load(o.store), MV_STORAGE);
    EXPECT_EQ(load(in_memory.store), MV_OK);
  }
}

TEST(CValues, AMessageIsCutWhereItsRoomEnds) {
  Processes one(1);
  if (!one) return;
  Owner o(one, nullptr);
  EXPECT_EQ(mv_load_parallel(
                o.store, [](mv_loader*, void*) -> int { throw std::runtime_error(std::string(9000, 'x')); },
                nullptr),
            MV_TASK_FAILED);
  EXPECT_EQ(std::string(mv_message()).size(), 4095u);
}

}  // namespace
