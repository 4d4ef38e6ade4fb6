#include "agent/steps/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <unistd.h>

#include "agent/steps/file_pattern.h"
#include "agent/steps/task.h"
#include "os/process.h"

namespace harrow::agent {
namespace {

using testing::Contains;
using testing::Key;
using testing::Not;
using testing::Pair;

std::map<std::string, std::string> Collect(char* const* envp) {
  std::map<std::string, std::string> variables;
  for (; *envp != nullptr; ++envp) {
    const std::string entry = *envp;
    const size_t equals = entry.find('=');
    EXPECT_NE(equals, std::string::npos) << entry;
    EXPECT_TRUE(variables.emplace(entry.substr(0, equals), entry.substr(equals + 1)).second)
        << "twice: " << entry;
  }
  return variables;
}

std::shared_ptr<const BaseEnvironment> Base(bool gpus = false, bool tmp = false) {
  const EnvList submit = {{"PATH", "/bin"},        {"HOME", "/home/u"},           {"OMP_NUM_THREADS", "99"},
                          {"HARROW_TASK_ID", "5"}, {"CUDA_VISIBLE_DEVICES", "7"}, {"TMPDIR", "/tmp"},
                          {"PWD", "/elsewhere"},   {"SLURMD_NODENAME", "n0"}};
  return std::make_shared<BaseEnvironment>(
      submit,
      BaseEnvironment::Common{.submit_dir = "/sub", .node_name = "n1", .has_devices = gpus, .own_tmp = tmp});
}

// The directory of another node's component is not this node's.
TEST(EnvironmentTest, TheJobsLocalDirectoryIsTheNodesOwn) {
  for (const std::string& local : {std::string("/disk/harrow/13"), std::string()}) {
    const auto base = std::make_shared<BaseEnvironment>(
        EnvList{{"HARROW_LOCAL", "/disk/harrow/12"}},
        BaseEnvironment::Common{.submit_dir = "/sub", .node_name = "n1", .local = local});
    const TaskProfile profile({}, base);
    EXPECT_EQ(profile.Variable("HARROW_LOCAL"), local);
  }
}

// Of the run that it is a task of, whatever started that.
TEST(EnvironmentTest, ATaskFindsItsRunAndItsPartOfThat) {
  const auto base = std::make_shared<BaseEnvironment>(
      EnvList{{"HARROW_RUN", "/outer"}, {"HARROW_PART", "7"}},
      BaseEnvironment::Common{.submit_dir = "/sub", .run_dir = "/sub/r", .part = 2, .node_name = "n1"});
  const TaskProfile profile({}, base);
  EXPECT_EQ(profile.Variable("HARROW_RUN"), "/sub/r");
  EXPECT_EQ(profile.Variable("HARROW_PART"), "2");
}

TEST(EnvironmentTest, ATaskFindsWhatIsDocumented) {
  const TaskProfile profile({.cwd = "deep", .env = {{"A", "1"}, {"HOME", "/other"}}}, Base());
  EnvironmentBuilder builder;
  const auto env = Collect(builder.Build(profile, {.number = 12, .name = "#12", .attempt = 2, .cores = 4}));
  const std::map<std::string, std::string> expected = {
      {"A", "1"},
      {"CUDA_VISIBLE_DEVICES", "7"},
      {"HARROW_ATTEMPT", "2"},
      {"HARROW_NODE", "n1"},
      {"HARROW_SUBMIT_DIR", "/sub"},
      {"HARROW_TASK_ID", "12"},
      {"HARROW_TASK_NAME", "#12"},
      {"HOME", "/other"},
      {"OMP_NUM_THREADS", "4"},
      {"PATH", "/bin"},
      {"PWD", "/sub/deep"},
      {"SLURMD_NODENAME", "n1"},
      {"TMPDIR", "/tmp"},
  };
  EXPECT_EQ(env, expected);
}

std::map<std::string, std::string> InTask(const EnvList& submit, ProfileSpec spec = {}) {
  const auto base = std::make_shared<BaseEnvironment>(
      submit, BaseEnvironment::Common{.submit_dir = "/sub", .node_name = "n2"});
  const TaskProfile profile(std::move(spec), base);
  EnvironmentBuilder builder;
  return Collect(builder.Build(profile, {}));
}

// A program that finds these believes that it is one of many, waits for the others or talks to their server.
TEST(EnvironmentTest, ATaskIsNoRankOfWhatStartedTheRun) {
  EnvList submit = {{"OMPI_COMM_WORLD_SIZE", "128"}};
  const char* const kRanks[] = {"ALPS_APP_PE",
                                "FLUX_JOB_NNODES",
                                "FLUX_JOB_SIZE",
                                "FLUX_TASK_LOCAL_ID",
                                "FLUX_TASK_RANK",
                                "HARROW_STEP_NODES",
                                "HYDI_CONTROL_FD",
                                "JSM_NAMESPACE_RANK",
                                "MPI_LOCALNRANKS",
                                "MPI_LOCALRANKID",
                                "MPISPAWN_ID",
                                "MV2_COMM_WORLD_RANK",
                                "OMPI_APP_CTX_NUM_PROCS",
                                "OMPI_COMM_WORLD_RANK",
                                "OMPI_MCA_ess_base_vpid",
                                "OMPI_MCA_orte_hnp_uri",
                                "OMPI_UNIVERSE_SIZE",
                                "PALS_LOCAL_RANKID",
                                "PALS_RANKID",
                                "PALS_SPOOL_DIR",
                                "PMI2_RANK",
                                "PMIX_NAMESPACE",
                                "PMIX_RANK",
                                "PMIX_SERVER_URI41",
                                "PMI_FD",
                                "PMI_JOBID",
                                "PMI_RANK",
                                "PMI_SIZE",
                                "SLURMD_DEBUG",
                                "SLURM_CPU_BIND",
                                "SLURM_CPU_BIND_LIST",
                                "SLURM_CPUS_PER_GPU",
                                "SLURM_DISTRIBUTION",
                                "SLURM_EXPORT_ENV",
                                "SLURM_GPUS",
                                "SLURM_GTIDS",
                                "SLURM_JOB_CPUS_PER_NODE",
                                "SLURM_JOB_GPUS",
                                "SLURM_JOB_NUM_NODES",
                                "SLURM_LAUNCH_NODE_IPADDR",
                                "SLURM_MEM_PER_CPU",
                                "SLURM_MEM_PER_NODE",
                                "SLURM_NEW_IN_A_LATER_RELEASE",
                                "SLURM_NNODES",
                                "SLURM_NTASKS_PER_NODE",
                                "SLURM_SRUN_COMM_PORT",
                                "SLURM_STEPID",
                                "SLURM_STEP_ID",
                                "SLURM_STEP_NODELIST",
                                "SLURM_STEP_NUM_TASKS",
                                "SLURM_TASK_PID",
                                "SLURM_THREADS_PER_CORE",
                                "SLURM_TOPOLOGY_ADDR",
                                "SRUN_CPUS_PER_TASK",
                                "SRUN_DEBUG"};
  for (const char* name : kRanks) submit.emplace_back(name, "7");
  const auto env = InTask(submit);
  for (const char* name : kRanks) EXPECT_THAT(env, Not(Contains(Key(name))));
  EXPECT_THAT(env, Not(Contains(Key("OMPI_COMM_WORLD_SIZE"))));
}

TEST(EnvironmentTest, InASlurmJobATaskLooksLikeAStepOfOneProcessOnItsNode) {
  const EnvList batch_step = {
      {"SLURM_JOB_ID", "5"},        {"SLURM_JOBID", "5"},         {"SLURM_NTASKS", "128"},
      {"SLURM_NPROCS", "128"},      {"SLURM_PROCID", "3"},        {"SLURM_LOCALID", "3"},
      {"SLURM_NODEID", "1"},        {"SLURM_CPUS_ON_NODE", "64"}, {"SLURM_TASKS_PER_NODE", "64(x2)"},
      {"SLURM_CPUS_PER_TASK", "1"}, {"SLURM_NODELIST", "n[1-2]"}, {"SLURM_JOB_NODELIST", "n[1-2]"},
      {"SLURM_GPUS_ON_NODE", "8"},  {"SLURMD_NODENAME", "n1"}};
  const auto env = InTask(batch_step, {.cores = 4, .devices = 2});
  const std::pair<const char*, const char*> kTask[] = {
      {"SLURM_JOB_ID", "5"},         {"SLURM_JOBID", "5"},        {"SLURM_NTASKS", "1"},
      {"SLURM_NPROCS", "1"},         {"SLURM_PROCID", "0"},       {"SLURM_LOCALID", "0"},
      {"SLURM_NODEID", "0"},         {"SLURM_CPUS_ON_NODE", "4"}, {"SLURM_CPUS_PER_TASK", "4"},
      {"SLURM_TASKS_PER_NODE", "4"}, {"SLURM_NODELIST", "n2"},    {"SLURM_JOB_NODELIST", "n[1-2]"},
      {"SLURM_GPUS_ON_NODE", "2"},   {"SLURMD_NODENAME", "n2"},   {"SLURM_OVERLAP", "1"}};
  for (const auto& [name, value] : kTask) EXPECT_THAT(env, Contains(Pair(name, value)));
  EXPECT_THAT(InTask(batch_step), Not(Contains(Key("SLURM_GPUS_ON_NODE"))));
  EXPECT_THAT(InTask(batch_step, {.devices = 1}), Contains(Pair("SLURM_GPUS_ON_NODE", "1")));
  // What a task's own env says is the user's word; array tasks get theirs by it.
  EXPECT_THAT(InTask(batch_step, {.env = {{"SLURM_NTASKS", "2"}}}), Contains(Pair("SLURM_NTASKS", "2")));
}

TEST(EnvironmentTest, OutsideOfSlurmNothingSpeaksOfIt) {
  for (const auto& [name, value] : InTask({{"PATH", "/bin"}}))
    EXPECT_FALSE(name.starts_with("SLURM")) << name;
}

TEST(EnvironmentTest, TheJobAndWhatUsersSetForTheirProgramsStays) {
  const char* const kStays[] = {"FLUX_JOB_ID",
                                "FLUX_URI",
                                "I_MPI_FABRICS",
                                "MPICH_VERSION_DISPLAY",
                                "MPI_HOME",
                                "OMPI_MCA_btl",
                                "OMPI_MCA_orte_tmpdir_base",
                                "OMPI_MCA_pml",
                                "PMIX_INSTALL_PREFIX",
                                "PMIX_MCA_gds",
                                "PMI_NO_FORK",
                                "SLURM_ARRAY_TASK_ID",
                                "SLURM_CLUSTER_NAME",
                                "SLURM_CONF",
                                "SLURM_JOB_ACCOUNT",
                                "SLURM_JOB_END_TIME",
                                "SLURM_JOB_NAME",
                                "SLURM_JOB_PARTITION",
                                "SLURM_MPI_TYPE",
                                "SLURM_RESTART_COUNT",
                                "SLURM_SPANK_X",
                                "SLURM_SUBMIT_DIR",
                                "SLURM_SUBMIT_HOST",
                                "UCX_TLS"};
  EnvList submit;
  for (const char* name : kStays) submit.emplace_back(name, "7");
  const auto env = InTask(submit);
  for (const char* name : kStays) EXPECT_THAT(env, Contains(Pair(name, "7")));
}

TEST(EnvironmentTest, WhatAnotherProcessCallsItsDevicesIsGone) {
  const auto base = std::make_shared<BaseEnvironment>(
      EnvList{{"GPU_DEVICE_ORDINAL", "0,1"}, {"HIP_VISIBLE_DEVICES", "0,1"}},
      BaseEnvironment::Common{.submit_dir = "/sub", .node_name = "n1", .has_devices = true});
  const TaskProfile profile({}, base);
  EnvironmentBuilder builder;
  const auto env = Collect(builder.Build(profile, {.rocr_devices = "1"}));
  EXPECT_THAT(env, Not(Contains(Key("GPU_DEVICE_ORDINAL"))));
  EXPECT_THAT(env, Not(Contains(Key("HIP_VISIBLE_DEVICES"))));
}

TEST(EnvironmentTest, FunctionsThatBashExportedAreKnown) {
  const auto base =
      std::make_shared<BaseEnvironment>(EnvList{{"BASH_FUNC_module%%", "() { :; }"}},
                                        BaseEnvironment::Common{.submit_dir = "/sub", .node_name = "n1"});
  const TaskProfile profile({.env = {{"BASH_FUNC_ml%%", "() { :; }"}}}, base);
  EXPECT_TRUE(profile.StartsWithFunction("module load x"));
  EXPECT_TRUE(profile.StartsWithFunction(" \tml"));
  EXPECT_FALSE(profile.StartsWithFunction("modules"));
  EXPECT_FALSE(profile.StartsWithFunction(" "));
  EXPECT_FALSE(TaskProfile({.env = {{"BASH_FUNC_half", "1"}, {"half%%", "1"}}}, Base()).StartsWithFunction("half"));
  EXPECT_FALSE(TaskProfile({}, Base()).StartsWithFunction("module"));
}

TEST(EnvironmentTest, AnElementOfAnArrayFindsWhatAJobOfItsOwnWould) {
  const auto element = [](const EnvList& submit, const ProfileSpec& spec) {
    const auto base = std::make_shared<BaseEnvironment>(
        submit,
        BaseEnvironment::Common{.submit_dir = "/sub", .node_name = "n1", .hosts = "/tmp/h", .slots = 8});
    const TaskProfile profile(spec, base);
    EnvironmentBuilder builder;
    return Collect(builder.Build(profile, {.cores = spec.cores}));
  };
  const EnvList array = {{"SLURM_NNODES", "1"}, {"SLURM_ARRAY_JOB_ID", "17"}, {"SLURM_TASKS_PER_NODE", "2"}};
  const EnvList job = {
      {"SLURM_JOB_ID", "20"}, {"SLURM_JOBID", "20"}, {"SLURM_CPUS_PER_TASK", "64"}, {"HARROW_EXPORT", "A"}};

  const auto in_job = element(job, {.cores = 2, .env = array});
  EXPECT_EQ(in_job.at("SLURM_JOB_ID"), "20");
  EXPECT_EQ(in_job.at("SLURM_CPUS_ON_NODE"), "2");
  EXPECT_EQ(in_job.at("SLURM_JOB_CPUS_PER_NODE"), "2");
  EXPECT_EQ(in_job.at("SLURM_JOB_NODELIST"), "n1");
  EXPECT_EQ(in_job.at("SLURM_HOSTFILE"), "/tmp/h");
  EXPECT_EQ(in_job.at("SLURM_CPU_BIND"), "none");
  EXPECT_FALSE(in_job.contains("SLURM_CPUS_PER_TASK")) << "nobody asked for any";
  EXPECT_FALSE(in_job.contains("HARROW_EXPORT"));
  EXPECT_EQ(element(job, {.cores = 1, .whole_node = true, .env = array}).at("SLURM_CPUS_ON_NODE"), "8");

  const EnvList by_itself = {{"SLURM_NNODES", "1"}};
  EXPECT_EQ(element(job, {.cores = 2, .whole_node = true, .env = by_itself}).at("SLURM_TASKS_PER_NODE"), "4");
  EXPECT_EQ(element(job, {.cores = 1, .whole_node = true, .env = by_itself}).at("SLURM_TASKS_PER_NODE"), "8");

  // A job of its own: sbatch and salloc would take this one's node from the file.
  for (const char* name : {"BASH_FUNC_sbatch%%", "BASH_FUNC_salloc%%"})
    EXPECT_THAT(in_job.at(name), testing::HasSubstr("unset SLURM_HOSTFILE")) << name;
  EnvList one_node = job;
  one_node.emplace_back("SLURM_JOB_NUM_NODES", "1");
  EXPECT_FALSE(element(one_node, {.env = array}).contains("SLURM_HOSTFILE"));
  one_node.back().second = "2";
  EXPECT_EQ(element(one_node, {.env = array}).at("SLURM_HOSTFILE"), "/tmp/h");
  one_node.back().second = "1";
  for (const char* name : {"SLURM_HET_SIZE", "HARROW_TASK_ID"}) {
    EnvList several = one_node;
    several.emplace_back(name, "2");
    EXPECT_EQ(element(several, {.env = array}).at("SLURM_HOSTFILE"), "/tmp/h") << name;
  }
  EnvList users = job;
  users.emplace(users.begin(), "BASH_FUNC_sbatch%%", "() { :; }");
  EXPECT_EQ(element(users, {.env = array}).at("BASH_FUNC_sbatch%%"), "() { :; }");

  const auto elsewhere = element({}, {.cores = 2, .env = array});
  for (const char* name : {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"}) EXPECT_EQ(elsewhere.at(name), "0");
  EXPECT_EQ(elsewhere.at("SLURMD_NODENAME"), "n1");
  EXPECT_FALSE(elsewhere.contains("BASH_FUNC_sbatch%%"));
  EXPECT_EQ(elsewhere.at("SLURM_JOB_ID"), "17");
  EXPECT_EQ(elsewhere.at("SLURM_JOBID"), "17");
  EXPECT_EQ(elsewhere.at("SLURM_JOB_NODELIST"), "n1");
  EXPECT_FALSE(elsewhere.contains("SLURM_HOSTFILE"));
}

TEST(EnvironmentTest, ARankFindsWhatItIsToldUnlessItsProfileOrTheUserHasSaidIt) {
  const EnvList submit = {
      {"SLURM_X", "1"}, {"HARROW_RANK", "7"}, {"PMIX_RANK", "7"}, {"PMIX_MCA_gds", "users"}, {"OMPI_X", "users"}};
  const auto base =
      std::make_shared<BaseEnvironment>(submit, BaseEnvironment::Common{.submit_dir = "/sub", .node_name = "n1"});
  const TaskProfile profile({.env = {{"SLURM_PROFILES", "1"}}}, base);
  const std::vector<std::string> told = {"HARROW_RANK=2", "PMIX_RANK=2",      "PMIX_MCA_gds=ours",
                                         "OMPI_X=ours",   "SLURM_PROFILES=2", "NEW=3"};
  EnvironmentBuilder builder;
  const auto env = Collect(builder.Build(profile, {.of_rank = told}));
  EXPECT_EQ(env.at("HARROW_RANK"), "2");
  EXPECT_EQ(env.at("PMIX_RANK"), "2");
  EXPECT_EQ(env.at("PMIX_MCA_gds"), "users");
  EXPECT_EQ(env.at("OMPI_X"), "users");
  EXPECT_EQ(env.at("SLURM_PROFILES"), "1");
  EXPECT_EQ(env.at("NEW"), "3");
  EXPECT_FALSE(env.contains("PMI_FD"));
  for (const int fd : {0, 5}) EXPECT_EQ(Collect(builder.Build(profile, {.pmi_fd = fd})).at("PMI_FD"), std::to_string(fd));
}

TEST(EnvironmentTest, WhatTheCommandAssignsIsStrongest) {
  std::string inherited = "HOME=/h", own = "TASK=3", ours = "HARROW_ATTEMPT=9", profiles = "FOO=2";
  char* const assigned[] = {inherited.data(), own.data(), ours.data(), profiles.data()};
  const TaskProfile profile({.env = {{"FOO", "1"}}}, Base());
  EnvironmentBuilder builder;
  char* const* entries = builder.Build(profile, {.assigned = assigned});
  const auto env = Collect(entries);
  EXPECT_EQ(env.at("HOME"), "/h");
  EXPECT_EQ(env.at("TASK"), "3");
  EXPECT_EQ(env.at("HARROW_ATTEMPT"), "9");
  EXPECT_EQ(env.at("FOO"), "2");
  size_t count = 0;
  for (; entries[count] != nullptr; ++count) {
  }
  EXPECT_EQ(count, env.size()) << "no name is there twice";
}

TEST(EnvironmentTest, TheBuilderForgetsTheTaskBefore) {
  const TaskProfile first({.env = {{"ONLY_FIRST", "1"}}}, Base());
  const TaskProfile second({}, Base());
  EnvironmentBuilder builder;
  builder.Build(first, {.number = 1, .name = std::string(500, 'x')});
  const auto env = Collect(builder.Build(second, {.number = 2, .name = "b"}));
  EXPECT_THAT(env, Not(Contains(Key("ONLY_FIRST"))));
  EXPECT_THAT(env, Contains(Pair("HARROW_TASK_NAME", "b")));
}

TEST(EnvironmentTest, TheTasksOwnSettingWins) {
  const TaskProfile profile({.env = {{"OMP_NUM_THREADS", "2"}, {"TMPDIR", "/mine"}, {"PWD", "/p"}}},
                            Base(false, true));
  EnvironmentBuilder builder;
  const auto env = Collect(builder.Build(profile, {.number = 1, .cores = 8, .tmp_dir = "/given"}));
  EXPECT_THAT(env, Contains(Pair("OMP_NUM_THREADS", "2")));
  EXPECT_THAT(env, Contains(Pair("TMPDIR", "/mine")));
  EXPECT_THAT(env, Contains(Pair("PWD", "/p")));
}

TEST(EnvironmentTest, WhatIsInheritedFirstCanBeSetAnewAndOtherSettingsLeaveTheTmpdir) {
  const TaskProfile profile({.env = {{"PATH", "/mine"}}}, Base(false, true));
  EnvironmentBuilder builder;
  const auto env = Collect(builder.Build(profile, {.tmp_dir = "/given"}));
  EXPECT_EQ(env.at("PATH"), "/mine");
  EXPECT_EQ(env.at("TMPDIR"), "/given");
}

TEST(EnvironmentTest, ALaterSettingOfTheSameNameWins) {
  const TaskProfile profile({.env = {{"A", "1"}, {"A", "2"}}}, Base());
  EnvironmentBuilder builder;
  EXPECT_THAT(Collect(builder.Build(profile, {})), Contains(Pair("A", "2")));
}

TEST(EnvironmentTest, OnAGpuNodeATaskSeesItsOwnDevicesOnly) {
  const TaskProfile profile({}, Base(true));
  EnvironmentBuilder builder;
  auto env = Collect(builder.Build(profile, {.cuda_devices = "1,3"}));
  EXPECT_THAT(env, Contains(Pair("CUDA_VISIBLE_DEVICES", "1,3")));
  EXPECT_THAT(env, Contains(Pair("ROCR_VISIBLE_DEVICES", "")));
  env = Collect(builder.Build(profile, {}));
  EXPECT_THAT(env, Contains(Pair("CUDA_VISIBLE_DEVICES", "")));
}

TEST(EnvironmentTest, TheNodesTmpReplacesTheInheritedOne) {
  const TaskProfile profile({}, Base(false, true));
  EnvironmentBuilder builder;
  EXPECT_THAT(Collect(builder.Build(profile, {.tmp_dir = "/node/3"})), Contains(Pair("TMPDIR", "/node/3")));
}

TEST(EnvironmentTest, ARankIsToldWhoItIsAndNotWhatUsersHaveSaid) {
  const auto base = std::make_shared<BaseEnvironment>(
      EnvList{{"HWLOC_COMPONENTS", "-x86"}, {"OMPI_MCA_pml", "ucx"}, {"PMIX_MCA_gds", "hash"}},
      BaseEnvironment::Common{.submit_dir = "/sub", .node_name = "n1"});
  const TaskProfile profile({.ranks = 1}, base);
  const std::vector<std::string> of_rank = {"HWLOC_COMPONENTS=-gl", "OMPI_MCA_pml=ob1", "PMIX_MCA_gds=ds21",
                                            "PMIX_RANK=0", "OMPI_MCA_btl=self"};
  EnvironmentBuilder builder;
  const auto env = Collect(builder.Build(profile, {.of_rank = of_rank}));
  EXPECT_THAT(env, Contains(Pair("HWLOC_COMPONENTS", "-x86")));
  EXPECT_THAT(env, Contains(Pair("OMPI_MCA_pml", "ucx")));
  EXPECT_THAT(env, Contains(Pair("PMIX_MCA_gds", "hash")));
  EXPECT_THAT(env, Contains(Pair("PMIX_RANK", "0")));
  EXPECT_THAT(env, Contains(Pair("OMPI_MCA_btl", "self")));
}

TEST(EnvironmentTest, ProfilesKnowDirectoryPathAndShell) {
  const TaskProfile plain({}, Base());
  EXPECT_EQ(plain.directory(), "/sub");
  EXPECT_EQ(plain.path(), "/bin");
  EXPECT_EQ(plain.shell(), "/bin/sh");
  const TaskProfile other({.cwd = "/abs", .shell = "bash", .env = {{"PATH", "/opt/bin"}}}, Base());
  EXPECT_EQ(other.directory(), "/abs");
  EXPECT_EQ(other.path(), "/opt/bin");
  EXPECT_EQ(other.shell(), "bash");
}

std::string Expand(std::string_view pattern, const TaskProfile& profile, uint32_t number) {
  LocalTask task;
  task.id = number - 1;
  task.profile = std::make_shared<TaskProfile>(profile);
  return ExpandFilePattern(pattern, task);
}

TEST(FilePatternTest, FieldsAsSlurmWritesThem) {
  const TaskProfile array({.env = {{"SLURM_ARRAY_JOB_ID", "77"},
                                   {"SLURM_ARRAY_TASK_ID", "5"},
                                   {"SLURM_JOB_ID", "80"},
                                   {"SLURM_JOB_NAME", "sweep"},
                                   {"USER", "ada"}}},
                          Base());
  EXPECT_EQ(Expand("out/%A_%a.txt", array, 9), "/sub/out/77_5.txt");
  EXPECT_EQ(Expand("/abs/%4a-%j-%J-%x-%u-%N-%n%t-%%", array, 9),
            "/abs/0005-80-80.9-sweep-" + os::UserName(getuid()) + "-n1-00-%")
      << "whoever USER says that it is";
  EXPECT_EQ(Expand("%3N", array, 9), "/sub/n1");
  EXPECT_EQ(Expand("%b-%3b-%s", array, 9), "/sub/5-005-batch");
  EXPECT_EQ(Expand("%b", TaskProfile({.env = {{"SLURM_ARRAY_TASK_ID", "1230"}}}, Base()), 9), "/sub/0");
}

TEST(FilePatternTest, WithoutSlurmTheTasksNumberTells) {
  const TaskProfile plain({}, Base());
  EXPECT_EQ(Expand("%x-%a-%j.out", plain, 9), "/sub/harrow-9-0.out");
}

TEST(FilePatternTest, TheIndexThatTheCommandAssignsCounts) {
  LocalTask task;
  task.id = 8;
  task.profile = std::make_shared<TaskProfile>(
      ProfileSpec{.env = {{"SLURM_ARRAY_JOB_ID", "77"}, {"SLURM_ARRAY_TASK_ID", "1"}}}, Base());
  task.form = CommandForm::kAssigned;
  task.command = std::string("A=1\0SLURM_ARRAY_TASK_ID=12\0prog\0SLURM_ARRAY_TASK_ID=3", 53);
  EXPECT_EQ(ExpandFilePattern("%A_%a", task), "/sub/77_12");
}

TEST(FilePatternTest, WhatIsNoFieldStays) {
  const TaskProfile plain({}, Base());
  EXPECT_EQ(Expand("100%", plain, 1), "/sub/100%");
  EXPECT_EQ(Expand("%q%5", plain, 1), "/sub/%q%5");
  EXPECT_EQ(Expand("a\\%a", plain, 1), "/sub/a%a");
  EXPECT_EQ(Expand("%99999999999a", plain, 1), "/sub/0000000001");
}

}  // namespace
}  // namespace harrow::agent
