#include "topology/cpu_limit.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "topology/slots.h"

namespace harrow::topology {
namespace {

class CpuLimitTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/harrow-cpu-limit-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    root_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  std::string root_;
};

TEST_F(CpuLimitTest, TheLeastFromTheGroupUp) {
  Write("/proc/self/cgroup", "0::/site/job7/step0\n");
  EXPECT_EQ(CpuTimeLimit(root_), std::nullopt);
  Write("/sys/fs/cgroup/site/cpu.max", "800000 100000\n");
  Write("/sys/fs/cgroup/site/job7/cpu.max", "250000 100000\n");
  Write("/sys/fs/cgroup/site/job7/step0/cpu.max", "max 100000\n");
  EXPECT_EQ(CpuTimeLimit(root_), 2.5);
  Write("/sys/fs/cgroup/site/job7/cpu.max", "max 100000\n");
  EXPECT_EQ(CpuTimeLimit(root_), 8);
}

TEST_F(CpuLimitTest, InAContainerTheMountedGroupCounts) {
  Write("/proc/self/cgroup", "0::/../../not/to/be/seen\n");
  Write("/sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(CpuTimeLimit(root_), 2);
  Write("/proc/self/cgroup", "0::/\n");
  EXPECT_EQ(CpuTimeLimit(root_), 2);
}

TEST_F(CpuLimitTest, VersionOne) {
  Write("/proc/self/cgroup", "5:memory:/docker/1\n4:cpu,cpuacct:/docker/1\n3:cpuset:/\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_quota_us", "150000\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_period_us", "50000\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(CpuTimeLimit(root_), 3);
}

TEST_F(CpuLimitTest, NonsenseIsNoLimit) {
  Write("/proc/self/cgroup", "0::/a\nnot a line\n");
  for (const char* text : {"", "max", "100000", "x y", "100000 0", "-5 100000"}) {
    Write("/sys/fs/cgroup/a/cpu.max", text);
    EXPECT_EQ(CpuTimeLimit(root_), std::nullopt) << text;
  }
}

TEST(PlanSlots, AsManySlotsAsThereIsTimeFor) {
  Machine machine = *ReadMachine({.synthetic = "core:8 pu:2"});
  EXPECT_EQ(machine.cpu_time, 0) << "a described machine is not this one";
  machine.cpu_time = 2.9;
  const SlotPlan plan = PlanSlots(machine, 0);
  EXPECT_EQ(plan.slots.size(), 2u);
  EXPECT_FALSE(plan.pinned) << "others of the machine have their time on any of the cores";
  EXPECT_EQ(plan.notice, "tasks are not pinned: the control group allows the time of 2 CPUs on 8 cores");
  EXPECT_EQ(PlanSlots(machine, 5).slots.size(), 5u) << "who says how many gets them";
  EXPECT_EQ(PlanSlots(machine, 0, {.index = 1, .of = 2}).slots.size(), 1u);
  machine.cpu_time = 0.3;
  EXPECT_EQ(PlanSlots(machine, 0).slots.size(), 1u);
  machine.cpu_time = 8;
  EXPECT_TRUE(PlanSlots(machine, 0).pinned);
  EXPECT_EQ(PlanSlots(machine, 0).slots.size(), 8u);
}

}  // namespace
}  // namespace harrow::topology
