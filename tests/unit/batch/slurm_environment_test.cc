#include "batch/slurm_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace harrow::batch {
namespace {

using ::testing::ElementsAre;

// As Slurm 22.05 gives it to a batch script.
const std::vector<std::string> kPlain = {
    "HOME=/home/a",
    "SLURM_CLUSTER_NAME=harrow",
    "SLURM_CPUS_ON_NODE=2",
    "SLURM_GPUS_ON_NODE=1",
    "SLURM_JOBID=17",
    "SLURM_JOB_CPUS_PER_NODE=2(x2),1",
    "SLURM_JOB_ID=17",
    "SLURM_JOB_NAME=a=b.sh",
    "SLURM_JOB_NODELIST=node[1-2,4]",
    "SLURM_JOB_NUM_NODES=3",
    "SLURM_JOB_PARTITION=all",
    "SLURM_MEM_PER_NODE=1000",
    "SLURM_NTASKS=5",
};

const std::vector<std::string> kHeterogeneous = {
    "SLURM_HET_SIZE=2",
    "SLURM_JOB_CPUS_PER_NODE=2",
    "SLURM_JOB_CPUS_PER_NODE_HET_GROUP_0=2",
    "SLURM_JOB_CPUS_PER_NODE_HET_GROUP_1=2,1",
    "SLURM_JOB_ID=2",
    "SLURM_JOB_ID_HET_GROUP_0=2",
    "SLURM_JOB_ID_HET_GROUP_1=3",
    "SLURM_JOB_NAME=het.sh",
    "SLURM_JOB_NODELIST=node1",
    "SLURM_JOB_NODELIST_HET_GROUP_0=node1",
    "SLURM_JOB_NODELIST_HET_GROUP_1=node[3-4]",
    "SLURM_JOB_PARTITION=fast",
    "SLURM_JOB_PARTITION_HET_GROUP_0=fast",
    "SLURM_JOB_PARTITION_HET_GROUP_1=slow",
    "SLURM_MEM_PER_CPU_HET_GROUP_1=100",
};

std::vector<std::string> Expand(std::string_view list) {
  Result<std::vector<std::string>> names = ExpandHostlist(list);
  return names.ok() ? *names : std::vector<std::string>{"error: " + names.status().message()};
}

TEST(Hostlist, SingleNamesAndRanges) {
  EXPECT_THAT(Expand("head"), ElementsAre("head"));
  EXPECT_THAT(Expand("node[1-3]"), ElementsAre("node1", "node2", "node3"));
  EXPECT_THAT(Expand("node[1,3-4],gpu7"), ElementsAre("node1", "node3", "node4", "gpu7"));
  EXPECT_THAT(Expand("a,b-2,c.d"), ElementsAre("a", "b-2", "c.d"));
}

TEST(Hostlist, LeadingZerosKeepTheirWidth) {
  EXPECT_THAT(Expand("n[08-11]"), ElementsAre("n08", "n09", "n10", "n11"));
  EXPECT_THAT(Expand("n[099-100]-ib"), ElementsAre("n099-ib", "n100-ib"));
}

TEST(Hostlist, SeveralBracketsAreAProduct) {
  EXPECT_THAT(Expand("r[1-2]n[01,3]x"), ElementsAre("r1n01x", "r1n3x", "r2n01x", "r2n3x"));
}

TEST(Hostlist, WhatIsNoneIsRefused) {
  for (const char* bad :
       {"", "(null)", "n[", "n[1", "n]1[", "n[1-]", "n[-1]", "n[3-1]", "n[a]", "n[]", "n[1]]", "n[[1]]",
        "a,,b", "a,", ",a", "n[1-99999999]", "n[1-9999]m[1-9999]", "n[1,]", "n[99999999999999999999]"}) {
    EXPECT_FALSE(ExpandHostlist(bad).ok()) << bad;
  }
}

TEST(Counts, RepeatsAndSingles) {
  EXPECT_THAT(ExpandCounts("4(x3),2").value(), ElementsAre(4, 4, 4, 2));
  EXPECT_THAT(ExpandCounts("8").value(), ElementsAre(8));
  for (const char* bad : {"", "x", "4(x", "4(x3", "4(3)", "4,", "4(x9999999)", "-1", "99999999999"}) {
    EXPECT_FALSE(ExpandCounts(bad).ok()) << bad;
  }
}

TEST(Allocation, PlainJob) {
  Environment environment = ParseEnvironment(kPlain);
  ASSERT_TRUE(InSlurmJob(environment));
  Result<SlurmAllocation> a = AllocationFromEnvironment(environment);
  ASSERT_TRUE(a.ok()) << a.status().message();
  EXPECT_EQ(a->job_id, "17");
  EXPECT_EQ(a->job_name, "a=b.sh");
  EXPECT_FALSE(a->end);
  ASSERT_EQ(a->components.size(), 1u);
  ASSERT_EQ(a->components[0].nodes.size(), 3u);
  const GrantedNode& last = a->components[0].nodes[2];
  EXPECT_EQ(last.name, "node4");
  EXPECT_EQ(last.cpus, 1u);
  EXPECT_EQ(last.memory, uint64_t{1000} << 20);
  EXPECT_EQ(last.devices, 1u);
  EXPECT_EQ(last.partition, "all");
  EXPECT_EQ(a->components[0].nodes[1].cpus, 2u);
}

TEST(Allocation, HeterogeneousJobHasComponents) {
  Result<SlurmAllocation> a = AllocationFromEnvironment(ParseEnvironment(kHeterogeneous));
  ASSERT_TRUE(a.ok()) << a.status().message();
  EXPECT_EQ(a->job_id, "2");
  ASSERT_EQ(a->components.size(), 2u);
  EXPECT_EQ(a->components[1].job_id, "3");
  EXPECT_EQ(a->components[1].partition, "slow");
  EXPECT_EQ(a->components[1].nodes[0].name, "node3");
  EXPECT_EQ(a->components[1].nodes[0].memory, uint64_t{200} << 20);
  EXPECT_EQ(a->components[1].nodes[1].cpus, 1u);
}

TEST(Allocation, EndTimeWhereSlurmTellsIt) {
  std::vector<std::string> lines = kPlain;
  lines.push_back("SLURM_JOB_END_TIME=1700000000");
  Result<SlurmAllocation> a = AllocationFromEnvironment(ParseEnvironment(lines));
  ASSERT_TRUE(a.ok());
  EXPECT_EQ(a->end, WallTime(std::chrono::seconds(1700000000)));
}

TEST(Allocation, NoneOutsideOfAJob) {
  EXPECT_FALSE(InSlurmJob(ParseEnvironment({"PATH=/bin", "SLURM_CONF=/etc/slurm.conf"})));
  EXPECT_FALSE(InSlurmJob(ParseEnvironment({"SLURM_JOB_ID=5"})));
  EXPECT_FALSE(InSlurmJob(ParseEnvironment({"SLURM_JOB_ID=", "SLURM_JOB_NODELIST=a"})));
}

TEST(Allocation, NonsenseIsAnError) {
  EXPECT_FALSE(AllocationFromEnvironment(ParseEnvironment({"SLURM_JOB_ID=5", "SLURM_JOB_NODELIST=a["})).ok());
  EXPECT_FALSE(
      AllocationFromEnvironment(ParseEnvironment({"SLURM_JOB_ID=5", "SLURM_HET_SIZE=4000000000"})).ok());
  EXPECT_FALSE(AllocationFromEnvironment(ParseEnvironment({"SLURM_JOB_ID=5", "SLURM_JOB_NODELIST=a",
                                                           "SLURM_JOB_CPUS_PER_NODE=many"}))
                   .ok());
}

}  // namespace
}  // namespace harrow::batch
