// What tasks ask for that say nothing themselves.
#include <gtest/gtest.h>

#include "formats/task_keys.h"
#include "support/loaded_flow.h"

namespace harrow::formats {
namespace {

test::LoadedFlow WithDefaults(std::string_view name, std::string_view text) {
  test::LoadedFlow flow;
  flow.options.defaults.profile.shape.cores = 3;
  flow.options.defaults.profile.time_limit = std::chrono::minutes(5);
  flow.Load(name, text);
  return flow;
}

TEST(TaskDefaultsTest, ALineSetsAnewAndTheDefaultsHoldWhereItIsSilent) {
  const test::LoadedFlow f =
      WithDefaults("x.txt", "a\n#HARROW memory=1G\nb\n#HARROW cores=2 time=0\nc\n#HARROW\nd\n");
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  const auto profile = [&](uint32_t n) { return f.graph.profile(TaskId(n)); };
  for (const uint32_t n : {0u, 1u, 3u}) {
    EXPECT_EQ(profile(n).shape.cores, 3u) << n;
    EXPECT_EQ(profile(n).time_limit, std::chrono::minutes(5)) << n;
    EXPECT_EQ(profile(n).shape.memory, n == 1 ? uint64_t{1} << 30 : 0) << n;
  }
  EXPECT_EQ(profile(2).shape.cores, 2u);
  EXPECT_EQ(profile(2).time_limit, Duration(0)) << "no limit, for this one";
}

TEST(TaskDefaultsTest, TasksOfAFlowFileHaveThemToo) {
  const test::LoadedFlow f = WithDefaults(
      "x.toml",
      "[[task]]\nname = \"a\"\ncommand = \"x\"\n[[task]]\nname = \"b\"\ncommand = \"x\"\ncores = 1\n"
      "[[task]]\nname = \"c\"\ncommand = \"x\"\nranks = 8\nmissing_ok = true\n");
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  EXPECT_EQ(f.graph.profile(TaskId(0)).shape.cores, 3u);
  EXPECT_EQ(f.graph.profile(TaskId(1)).shape.cores, 1u);
  EXPECT_EQ(f.graph.profile(TaskId(2)).shape.cores, 8u) << "a core a rank, as nothing is said of cores";
  EXPECT_EQ(f.graph.profile(TaskId(1)).time_limit, std::chrono::minutes(5));
  EXPECT_TRUE(f.graph.profile(TaskId(2)).missing_ok);
  EXPECT_FALSE(f.graph.profile(TaskId(1)).missing_ok);
}

TEST(TaskDefaultsTest, TasksOfAWfFormatDocumentHaveThemWhereItIsSilent) {
  test::LoadedFlow f;
  f.options.defaults.profile.shape.cores = 3;
  f.options.defaults.profile.shape.memory = 1 << 30;
  f.options.defaults.profile.time_limit = std::chrono::minutes(5);
  f.options.defaults.profile.missing_ok = true;
  const char* const text =
      R"({"name": "w", "workflow": {"tasks": [{"name": "a"}, {"name": "b", "cores": 1}, {"name": "c", "cores": 2.5}]}})";
  f.Load("w.json", text);
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  constexpr uint32_t kCores[] = {3, 1, 3};
  for (uint32_t n = 0; n < 3; ++n) {
    const graph::Profile profile = f.graph.profile(TaskId(n));
    EXPECT_EQ(profile.shape.cores, kCores[n]) << n;
    EXPECT_EQ(profile.shape.memory, uint64_t{1} << 30);
    EXPECT_EQ(profile.time_limit, std::chrono::minutes(5));
    EXPECT_TRUE(profile.missing_ok);
  }
  f.options.one_core = true;
  f.Load("w.json", text);
  for (uint32_t n = 0; n < 3; ++n) EXPECT_EQ(f.graph.profile(TaskId(n)).shape.cores, 1u);
}

}  // namespace
}  // namespace harrow::formats
