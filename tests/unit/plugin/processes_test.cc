#include "plugin/processes.h"

#include <gtest/gtest.h>
#include <string>

namespace harrow::plugin {
namespace {

using namespace std::string_literals;

EnvironmentScan Scan(std::string_view environment, size_t piece) {
  EnvironmentScan scan("/disk/harrow/12");
  for (size_t at = 0; at < environment.size(); at += piece) {
    scan.Feed(environment.data() + at, std::min(piece, environment.size() - at));
  }
  scan.Finish();
  return scan;
}

TEST(EnvironmentScan, FindsBothInPiecesOfAnySize) {
  const std::string environment = "A=1\0HARROW_LOCAL=/disk/harrow/12\0X=\0SLURM_JOB_ID=12\0B=2\0"s;
  for (size_t piece = 1; piece <= environment.size(); ++piece) {
    EnvironmentScan scan = Scan(environment, piece);
    EXPECT_TRUE(scan.has_directory()) << piece;
    EXPECT_EQ(scan.job_id(), 12u) << piece;
  }
}

TEST(EnvironmentScan, OnlyTheWholeEntryCounts) {
  for (const std::string& other : {"HARROW_LOCAL=/disk/harrow/1\0"s, "HARROW_LOCAL=/disk/harrow/123\0"s,
                                   "XHARROW_LOCAL=/disk/harrow/12\0"s, "HARROW_LOCAL=\0/disk/harrow/12\0"s,
                                   "harrow_local=/disk/harrow/12\0"s, "A=HARROW_LOCAL=/disk/harrow/12\0"s,
                                   "HARROW_LOCAL=/disk/harrow/12/x\0"s, ""s, "\0\0\0"s}) {
    EXPECT_FALSE(Scan(other, 7).has_directory()) << other;
  }
}

TEST(EnvironmentScan, HugeEntriesAndAMissingEnd) {
  std::string environment = "BIG=" + std::string(300'000, 'x') + "\0HARROW_LOCAL=/disk/harrow/12"s;
  EXPECT_TRUE(Scan(environment, 4096).has_directory());
  EXPECT_FALSE(Scan("HARROW_LOCAL=/disk/harrow/12" + std::string(5000, '\1'), 100).has_directory());
}

TEST(Cgroup, OfSlurmsOwn) {
  EXPECT_TRUE(IsCgroupOfJob("9:freezer:/slurm/uid_5/job_12/step_0\n", 12));
  EXPECT_TRUE(IsCgroupOfJob("0::/system.slice/slurmstepd.scope/job_12/step_0/user/task_0\n", 12));
  EXPECT_TRUE(IsCgroupOfJob("1:x:/\n0::/system.slice/node1_slurmstepd.scope/job_12", 12));
  EXPECT_FALSE(IsCgroupOfJob("0::/system.slice/slurmstepd.scope/job_123/step_0\n", 12));
  EXPECT_FALSE(IsCgroupOfJob("0::/user.slice/job_12\n", 12));
  EXPECT_FALSE(IsCgroupOfJob("2:slurm:/x\n0::/user.slice/job_12/a\n", 12));
  EXPECT_FALSE(IsCgroupOfJob("", 12));
}

}  // namespace
}  // namespace harrow::plugin
