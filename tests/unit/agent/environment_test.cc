#include "agent/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>

#include "agent/file_pattern.h"

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
      BaseEnvironment::Common{.submit_dir = "/sub", .node_name = "n1", .has_gpus = gpus, .own_tmp = tmp});
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

TEST(FilePatternTest, FieldsAsSlurmWritesThem) {
  const TaskProfile array({.env = {{"SLURM_ARRAY_JOB_ID", "77"},
                                   {"SLURM_ARRAY_TASK_ID", "5"},
                                   {"SLURM_JOB_ID", "80"},
                                   {"SLURM_JOB_NAME", "sweep"},
                                   {"USER", "ada"}}},
                          Base());
  EXPECT_EQ(ExpandFilePattern("out/%A_%a.txt", array, 9), "/sub/out/77_5.txt");
  EXPECT_EQ(ExpandFilePattern("/abs/%4a-%j-%J-%x-%u-%N-%n%t-%%", array, 9),
            "/abs/0005-80-80.9-sweep-ada-n1-00-%");
  EXPECT_EQ(ExpandFilePattern("%3N", array, 9), "/sub/n1");
}

TEST(FilePatternTest, WithoutSlurmTheTasksNumberTells) {
  const TaskProfile plain({}, Base());
  EXPECT_EQ(ExpandFilePattern("%x-%a-%j.out", plain, 9), "/sub/harrow-9-0.out");
}

TEST(FilePatternTest, WhatIsNoFieldStays) {
  const TaskProfile plain({}, Base());
  EXPECT_EQ(ExpandFilePattern("100%", plain, 1), "/sub/100%");
  EXPECT_EQ(ExpandFilePattern("%q%5", plain, 1), "/sub/%q%5");
  EXPECT_EQ(ExpandFilePattern("a\\%a", plain, 1), "/sub/a%a");
  EXPECT_EQ(ExpandFilePattern("%99999999999a", plain, 1), "/sub/0000000001");
}

}  // namespace
}  // namespace harrow::agent
