#include "batch/slurm_srun.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace harrow::batch {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsSupersetOf;
using ::testing::Not;

SlurmAllocation Of(std::vector<size_t> sizes) {
  SlurmAllocation allocation;
  for (size_t n : sizes)
    allocation.components.push_back({.job_id = "1", .partition = "", .nodes = std::vector<GrantedNode>(n)});
  return allocation;
}

std::vector<std::string> Cleared(const std::vector<std::string>& command) {
  std::vector<std::string> out;
  for (size_t i = 1; i + 1 < command.size() && command[i] == "-u"; i += 2) out.push_back(command[i + 1]);
  return out;
}

TEST(Srun, OneStepOnEveryNode) {
  EXPECT_THAT(SrunCommand(Of({4}), {}, {"/opt/harrow", "agent"}, {}),
              ElementsAre("/usr/bin/env", "srun", "--overlap", "--cpu-bind=none", "--mem=0",
                          "--kill-on-bad-exit=0", "--no-kill", "--wait=0", "--input=none", "--export=ALL",
                          "--job-name=harrow", "-N4", "-n4", "/opt/harrow", "agent"));
}

TEST(Srun, OneNodeOfItsComponent) {
  SlurmAllocation allocation = Of({1, 2});
  allocation.components[0].nodes[0].name = "a";
  allocation.components[1].nodes[1].name = "b";
  EXPECT_THAT(
      SrunCommandOn("b", allocation, {{"SLURM_NTASKS", "9"}}, {"agent"}, {"--x"}),
      ElementsAre("/usr/bin/env", "-u", "SLURM_NTASKS", "srun", "--overlap", "--cpu-bind=none", "--mem=0",
                  "--kill-on-bad-exit=0", "--no-kill", "--wait=0", "--input=none", "--export=ALL",
                  "--job-name=harrow", "--het-group=1", "-N1", "-n1", "-w", "b", "--x", "agent"));
}

TEST(Srun, WithoutNodesThatCannotBeReached) {
  const std::vector<std::string> command = SrunCommand(Of({3, 0}), {}, {"agent"}, {}, {"a", "b"});
  EXPECT_THAT(command, IsSupersetOf({"--het-group=0", "-N3", "-n3", "--exclude=a,b"}));
  EXPECT_THAT(command, Not(Contains(":"))) << "nothing is left of the second component";
  EXPECT_THAT(SrunCommand(Of({0, 2}), {}, {"agent"}, {}, {"a"}),
              IsSupersetOf({"--het-group=1", "-N2", "--exclude=a"}));
}

TEST(Srun, NamesNodesThatItCannotReach) {
  EXPECT_THAT(
      UnreachableNodes(
          "srun: error: Task launch for StepId=1.0 failed on node n4: Communication connection failure\n"
          "srun: error: Task launch for StepId=1.0 failed on node n2: Connection timed out\n"
          "srun: error: Task launch for StepId=1.0 failed on node n4: again\n"
          "srun: error: Application launch failed: Communication connection failure\n"
          "srun: error: n3: task 2: Exited with exit code 1\nnothing failed on node n7: here"),
      ElementsAre("n4", "n2"));
  EXPECT_THAT(UnreachableNodes(""), ElementsAre());
}

TEST(Srun, SiteFlagsComeLast) {
  std::vector<std::string> command = SrunCommand(Of({2}), {}, {"agent"}, {"--mpi=pmix", "--network=x"});
  auto at = std::find(command.begin(), command.end(), "--mpi=pmix");
  ASSERT_NE(at, command.end());
  EXPECT_EQ(at[1], "--network=x");
  EXPECT_EQ(at[2], "agent");
}

TEST(Srun, AComponentIsAPartOfTheOneSrun) {
  std::vector<std::string> command = SrunCommand(Of({1, 3}), {}, {"agent", "--run-dir", "a b"}, {});
  EXPECT_EQ(std::count(command.begin(), command.end(), "srun"), 1);
  auto colon = std::find(command.begin(), command.end(), ":");
  ASSERT_NE(colon, command.end());
  std::vector<std::string> first(command.begin(), colon), second(colon + 1, command.end());
  EXPECT_THAT(first, IsSupersetOf({"--het-group=0", "-N1", "-n1", "--overlap", "--mem=0"}));
  EXPECT_THAT(second, IsSupersetOf({"--het-group=1", "-N3", "-n3", "--overlap", "--mem=0", "--no-kill"}));
  EXPECT_EQ(second.back(), "a b");
}

TEST(Srun, WhatWouldChangeTheStepIsCleared) {
  Environment environment = {{"PATH", "/bin"},
                             {"SLURM_CONF", "/etc/slurm.conf"},
                             {"SLURM_JOB_ID", "7"},
                             {"SLURM_NTASKS", "9"},
                             {"SLURM_EXPORT_ENV", "NONE"},
                             {"SLURM_MEM_PER_NODE", "10"},
                             {"SRUN_CPUS_PER_TASK", "4"},
                             {"SLURM_TRES_PER_TASK", "x"},
                             {"SLURM_JOB_NODELIST", "a"},
                             {"SLURM_SUBMIT_DIR", "/x"},
                             {"SLURM_ARRAY_TASK_ID", "3"},
                             {"SLURM_JOB_NAME", "n"},
                             {"SLURM_SPANK__SLURM_SPANK_OPTION_harrow_harrow", ""},
                             {"SLURM_JOB_ID_HET_GROUP_1", "8"},
                             {"SLURMD_DEBUG", "9"},
                             {"SLURM_STEP_ID", "0"}};
  EXPECT_THAT(Cleared(SrunCommand(Of({1}), environment, {"agent"}, {})),
              ElementsAre("SLURMD_DEBUG", "SLURM_EXPORT_ENV", "SLURM_JOB_NAME", "SLURM_JOB_NODELIST",
                          "SLURM_MEM_PER_NODE", "SLURM_NTASKS", "SLURM_STEP_ID", "SLURM_TRES_PER_TASK",
                          "SRUN_CPUS_PER_TASK"));
}

// What srun 22.05 takes defaults from, but for the job itself (its source, libsrun/opt.c).
TEST(Srun, NoDefaultOfSrunSurvives) {
  const char* const kRead[] = {"SLURM_ACCOUNT",
                               "SLURM_ACCTG_FREQ",
                               "SLURM_BCAST",
                               "SLURM_CLUSTERS",
                               "SLURM_COMPRESS",
                               "SLURM_CONSTRAINT",
                               "SLURM_CORE_SPEC",
                               "SLURM_CPU_BIND",
                               "SLURM_CPU_FREQ_REQ",
                               "SLURM_CPUS_PER_GPU",
                               "SLURM_DELAY_BOOT",
                               "SLURM_DEPENDENCY",
                               "SLURM_DISTRIBUTION",
                               "SLURM_EPILOG",
                               "SLURM_EXACT",
                               "SLURM_EXCLUSIVE",
                               "SLURM_GPUS",
                               "SLURM_GPU_BIND",
                               "SLURM_GPUS_PER_NODE",
                               "SLURM_GPUS_PER_TASK",
                               "SLURM_GRES",
                               "SLURM_HINT",
                               "SLURM_HOSTFILE",
                               "SLURM_JOB_NUM_NODES",
                               "SLURM_KILL_BAD_EXIT",
                               "SLURM_LABELIO",
                               "SLURM_MEM_BIND",
                               "SLURM_MEM_PER_CPU",
                               "SLURM_MPI_TYPE",
                               "SLURM_NETWORK",
                               "SLURM_NNODES",
                               "SLURM_NO_KILL",
                               "SLURM_NPROCS",
                               "SLURM_NTASKS_PER_NODE",
                               "SLURM_OPEN_MODE",
                               "SLURM_OVERCOMMIT",
                               "SLURM_PARTITION",
                               "SLURM_PROFILE",
                               "SLURM_PROLOG",
                               "SLURM_QOS",
                               "SLURM_REMOTE_CWD",
                               "SLURM_RESERVATION",
                               "SLURM_STDOUTMODE",
                               "SLURM_STEP_GRES",
                               "SLURM_TASK_EPILOG",
                               "SLURM_TASK_PROLOG",
                               "SLURM_THREADS_PER_CORE",
                               "SLURM_TIMELIMIT",
                               "SLURM_UMASK",
                               "SLURM_WAIT",
                               "SLURM_WORKING_DIR",
                               "SRUN_CONTAINER",
                               "SRUN_EXPORT_ENV"};
  Environment environment;
  for (const char* name : kRead) environment[name] = "x";
  EXPECT_EQ(Cleared(SrunCommand(Of({1}), environment, {"agent"}, {})).size(), std::size(kRead));
}

}  // namespace
}  // namespace harrow::batch
