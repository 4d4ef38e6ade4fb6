#include "batch/slurm_site.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/memory_file_system.h"

namespace harrow::batch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(SitePolicy, AsThePluginAnnouncesIt) {
  SitePolicy policy = ReadSitePolicy({{"HARROW_LOCAL", "/disk/harrow/12"},
                                      {"HARROW_SITE_LOCAL_LIMIT", "214748364800"},
                                      {"HARROW_SITE_PORTS", "30000-30999"},
                                      {"HARROW_SITE_TASKS_PER_NODE", "128"},
                                      {"HARROW_SITE_MOVE_PARTITIONS", "fast,slow"}});
  EXPECT_EQ(policy.local, "/disk/harrow/12");
  EXPECT_EQ(policy.local_limit, uint64_t{200} << 30);
  EXPECT_EQ(policy.port_first, 30000);
  EXPECT_EQ(policy.port_last, 30999);
  EXPECT_EQ(policy.tasks_per_node, 128u);
  EXPECT_THAT(policy.move_partitions, ElementsAre("fast", "slow"));
}

TEST(SitePolicy, NothingAndNonsenseAreNoPolicy) {
  for (const Environment& environment : {Environment{}, Environment{{"HARROW_LOCAL", "relative"},
                                                                    {"HARROW_SITE_LOCAL_LIMIT", "much"},
                                                                    {"HARROW_SITE_PORTS", "9-3"},
                                                                    {"HARROW_SITE_TASKS_PER_NODE", "-4"},
                                                                    {"HARROW_SITE_MOVE_PARTITIONS", ",,"}}}) {
    SitePolicy policy = ReadSitePolicy(environment);
    EXPECT_EQ(policy.local, "");
    EXPECT_EQ(policy.local_limit, 0u);
    EXPECT_EQ(policy.port_first, 0);
    EXPECT_EQ(policy.tasks_per_node, 0u);
    EXPECT_THAT(policy.move_partitions, IsEmpty());
  }
}

TEST(RunAccount, IsWhatThePluginReads) {
  test::MemoryFileSystem fs;
  ASSERT_TRUE(fs.MakeDirectories("/disk/12").ok());
  ASSERT_TRUE(
      LeaveRunAccount(fs, "/disk/12", {.run_id = "a1", .name = "mosaic\nx", .tasks = 7, .core_seconds = 9})
          .ok());
  ASSERT_TRUE(LeaveRunAccount(fs, "/disk/12",
                              {.run_id = "a1", .name = "mosaic\nx", .tasks = 1000, .core_seconds = 11700})
                  .ok());
  Result<std::string> text = fs.Read("/disk/12/.harrow-run-a1");
  ASSERT_TRUE(text.ok()) << text.status().message();
  EXPECT_EQ(*text, "harrow-run 1\nrun mosaic_x\ntasks 1000\ncore_seconds 11700\n");
}

TEST(RunAccount, WithoutADirectoryOrAnIdNothingIsWritten) {
  test::MemoryFileSystem fs;
  EXPECT_TRUE(LeaveRunAccount(fs, "", {.run_id = "a", .name = ""}).ok());
  EXPECT_FALSE(LeaveRunAccount(fs, "/", {.run_id = "../a", .name = ""}).ok());
  EXPECT_FALSE(LeaveRunAccount(fs, "/", {.run_id = "", .name = ""}).ok());
}

}  // namespace
}  // namespace harrow::batch
