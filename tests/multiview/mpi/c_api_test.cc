#include <harrow/multiview.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "mpi_test.h"

// The C functions carry nothing of their own but handles and places; what they call is tested in C++.
namespace {

using Words = std::map<std::int64_t, std::string>;
constexpr std::int64_t kWords = 40;

std::string Word(std::int64_t i) { return std::string(static_cast<std::size_t>(i % 7), static_cast<char>('a' + i % 26)); }

class CApi : public testing::Test {
 protected:
  void SetUp() override {
    if (!processes_) GTEST_SKIP() << "this process is none of the three";
    ASSERT_EQ(mv_world_create(processes_, nullptr, &world_), MV_OK);
    const std::int64_t shape[] = {kWords};
    ASSERT_EQ(mv_store_create(world_, 1, shape, 0, MV_TARGET_AUTOMATIC, &words_), MV_OK) << mv_message();
    ASSERT_EQ(mv_load_parallel(words_, Load, world_), MV_OK) << mv_message();
  }
  void TearDown() override {
    mv_store_free(words_);
    mv_world_free(world_);
  }
  static int Load(mv_loader* loader, void* world) {
    const auto* w = static_cast<const mv_world*>(world);
    for (std::int64_t i = mv_world_rank(w); i < kWords; i += mv_world_size(w)) {
      if (mv_loader_put(loader, &i, Word(i).data(), Word(i).size()) != MV_OK) return 1;
    }
    return 0;
  }

  Processes processes_{3};
  mv_world* world_ = nullptr;
  mv_store* words_ = nullptr;
};

TEST_F(CApi, ElementsByNumberInAnyOrder) {
  struct Seen {
    Words upwards, downwards;
    int beyond = 0;
    bool forgotten = false;  // what was wrong, by a call that is right
  } seen;
  const std::int64_t one_task[] = {MV_NONE};
  const std::int64_t split[] = {2};
  ASSERT_EQ(mv_set_split(words_, split), MV_OK);
  ASSERT_EQ(mv_map(words_, nullptr, [](mv_task* task, void* argument) {
    auto* to = static_cast<Seen*>(argument);
    const auto take = [&](std::int64_t i, Words* words) {
      std::int64_t at;
      void* bytes;
      size_t size;
      if (mv_task_element(task, i, &at, &bytes, &size) == MV_OK) (*words)[at].assign(static_cast<const char*>(bytes), size);
    };
    const std::int64_t count = mv_task_elements(task);
    for (std::int64_t i = 0; i < count; ++i) take(i, &to->upwards);
    for (std::int64_t i = count; i-- > 0;) take(i, &to->downwards);
    void* bytes;
    for (std::int64_t i : {std::int64_t{-1}, count}) to->beyond += mv_task_element(task, i, nullptr, &bytes, nullptr) == MV_INVALID;
    to->forgotten = mv_task_element(task, 0, nullptr, &bytes, nullptr) == MV_OK && *mv_message() == '\0';
    return 0;
  }, &seen, one_task), MV_OK) << mv_message();
  Words expected;
  const int rank = mv_world_rank(world_);
  for (std::int64_t i = 20 * rank; rank < 2 && i < 20 * (rank + 1); ++i) expected[i] = Word(i);
  EXPECT_EQ(seen.upwards, expected);
  EXPECT_EQ(seen.downwards, expected);
  EXPECT_EQ(seen.beyond, rank < 2 ? 2 : 0);
  EXPECT_EQ(seen.forgotten, rank < 2);
}

TEST_F(CApi, FailedTasksAreNamed) {
  const std::int64_t a_task_each[] = {MV_ALL};
  EXPECT_EQ(mv_map(words_, nullptr, [](mv_task* task, void*) {
    std::int64_t key;
    mv_task_key(task, &key);
    return key % 13 == 5 ? static_cast<int>(100 + key) : 0;
  }, nullptr, a_task_each), MV_TASK_FAILED);
  EXPECT_NE(std::string(mv_message()), "");
  ASSERT_EQ(mv_failed_count(words_), 3u);
  for (size_t i = 0; i < 3; ++i) {
    std::int64_t key;
    int code;
    ASSERT_EQ(mv_failed(words_, i, &key, &code, nullptr), MV_OK);
    EXPECT_EQ(key, static_cast<std::int64_t>(5 + 13 * i));
    EXPECT_EQ(code, 100 + key);
  }
  EXPECT_EQ(mv_failed(words_, 3, nullptr, nullptr, nullptr), MV_INVALID);
}

TEST_F(CApi, GetCountRemoveVisit) {
  std::int64_t at = 6, count = 0;
  char bytes[3] = "";
  size_t size = 0;
  ASSERT_EQ(mv_get(words_, &at, bytes, sizeof bytes, &size), MV_OK);
  EXPECT_EQ(size, 6u);  // of which there was room for three
  EXPECT_EQ(std::string(bytes, 3), "ggg");
  EXPECT_EQ(mv_remove(words_, &at), MV_OK);
  EXPECT_EQ(mv_get(words_, &at, bytes, sizeof bytes, nullptr), MV_NOT_FOUND);
  EXPECT_EQ(mv_count(words_, &count), MV_OK);
  EXPECT_EQ(count, kWords - 1);
  std::vector<std::int64_t> visited;
  EXPECT_EQ(mv_for_each(words_, [](const std::int64_t* place, const void*, size_t, void* list) {
    static_cast<std::vector<std::int64_t>*>(list)->push_back(*place);
  }, &visited), MV_OK);
  EXPECT_EQ(visited.size(), static_cast<std::size_t>(kWords - 1));
  EXPECT_TRUE(std::is_sorted(visited.begin(), visited.end()));
}

}  // namespace
