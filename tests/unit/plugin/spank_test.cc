// The plugin as Slurm sees it: spank_harrow.so is loaded, and this program plays Slurm.

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "support/played_slurm.h"

namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

class Plugin : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/harrow-spank-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    root_ = name;
    local_ = root_ + "/local";
    fs::create_directory(local_);
    slurm_log.clear();
  }
  void TearDown() override { fs::remove_all(root_); }
  std::string Local() const { return "local=" + local_; }
  std::string State() const { return "state=" + root_ + "/state"; }
  bool NothingIsLeft() const {
    return fs::is_empty(local_ + "/harrow") && (geteuid() != 0 || fs::is_empty(root_ + "/state"));
  }
  std::string root_, local_;
};

TEST_F(Plugin, SaysWhatItIs) {
  Process process(S_CTX_LOCAL, {});
  EXPECT_STREQ(static_cast<const char*>(process.Symbol("plugin_name")), "harrow");
  EXPECT_STREQ(static_cast<const char*>(process.Symbol("plugin_type")), "spank");
  EXPECT_EQ(*static_cast<const unsigned*>(process.Symbol("plugin_version")), unsigned{SLURM_VERSION_NUMBER});
  EXPECT_EQ(process.Symbol("slurm_spank_job_prolog"), nullptr);
}

TEST_F(Plugin, OptionsWhereUsersTypeThem) {
  for (spank_context_t context : {S_CTX_LOCAL, S_CTX_ALLOCATOR, S_CTX_REMOTE}) {
    Process process(context, {});
    process.Call("slurm_spank_init");
    ASSERT_EQ(process.spank.options.size(), 3u);
    for (const spank_option& option : process.spank.options)
      EXPECT_EQ(std::string(option.name).find("harrow"), 0u);
  }
  for (spank_context_t context : {S_CTX_SLURMD, S_CTX_JOB_SCRIPT, S_CTX_ERROR}) {
    Process process(context, {Local(), State()});
    EXPECT_EQ(process.Call("slurm_spank_init"), 0);
    EXPECT_THAT(process.spank.options, IsEmpty());
  }
}

TEST_F(Plugin, ItsOptions) {
  Process process(S_CTX_LOCAL, {});
  process.Call("slurm_spank_init");
  ASSERT_EQ(process.spank.options.size(), 3u);
  const auto& options = process.spank.options;
  EXPECT_STREQ(options[0].name, "harrow");
  EXPECT_EQ(options[0].has_arg, 0);
  EXPECT_EQ(options[0].arginfo, nullptr);
  EXPECT_THAT(options[0].usage, HasSubstr("private local directory"));
  EXPECT_STREQ(options[1].name, "harrow-order");
  EXPECT_EQ(options[1].has_arg, 1);
  EXPECT_STREQ(options[1].arginfo, "order");
  EXPECT_STREQ(options[2].name, "harrow-files");
  EXPECT_EQ(options[2].has_arg, 1);
  EXPECT_STREQ(options[2].arginfo, "where");
  EXPECT_THAT(slurm_log, IsEmpty());
  process.spank.broken = true;
  process.Call("slurm_spank_init");
  EXPECT_THAT(slurm_log, ElementsAre("info: harrow: --harrow is not available: because",
                                     "info: harrow: --harrow-order is not available: because",
                                     "info: harrow: --harrow-files is not available: because"));
}

TEST_F(Plugin, AWrongValueIsNamedWithWhatWouldBeRight) {
  Process srun(S_CTX_LOCAL, {});
  srun.Call("slurm_spank_init");
  EXPECT_EQ(srun.Option("harrow-order", "best"), -1);
  EXPECT_EQ(srun.Option("harrow-files", "here"), -1);
  EXPECT_THAT(
      slurm_log,
      ElementsAre("error: harrow: --harrow-order best: it is one of auto, fifo, lifo, hrf, lifo+hrf, rank+hrf, cost",
                  "error: harrow: --harrow-files here: it is shared or local"));
  for (const char* order : {"auto", "fifo", "lifo", "hrf", "lifo+hrf", "rank+hrf"})
    EXPECT_EQ(srun.Option("harrow-order", order), 0);
  for (const char* files : {"shared", "local"}) EXPECT_EQ(srun.Option("harrow-files", files), 0);
  EXPECT_EQ(srun.Option("harrow", nullptr), 0);
  EXPECT_EQ(slurm_log.size(), 2u);
}

// salloc starts a shell that is no task of slurmstepd's.
TEST_F(Plugin, SallocsShellLearnsTheSettings) {
  const char* const names[] = {"HARROW_SITE_ORDER", "HARROW_SITE_PORTS", "HARROW_ORDER", "HARROW_FILES",
                               "HARROW_SITE_FILES"};
  for (const char* name : names) unsetenv(name);
  {
    Process salloc(S_CTX_ALLOCATOR, {Local(), "order=fifo", "ports=3000-3001"});
    salloc.Call("slurm_spank_init");
    salloc.Call("slurm_spank_init_post_opt");
    for (const char* name : names) EXPECT_EQ(getenv(name), nullptr) << name;
    setenv("HARROW_FILES", "shared", 1);
    salloc.Option("harrow-files", "local");
    salloc.Call("slurm_spank_init_post_opt");
  }
  EXPECT_STREQ(getenv("HARROW_SITE_ORDER"), "fifo");
  EXPECT_STREQ(getenv("HARROW_SITE_PORTS"), "3000-3001");
  EXPECT_STREQ(getenv("HARROW_FILES"), "local") << "what is typed goes before what was there";
  EXPECT_EQ(getenv("HARROW_ORDER"), nullptr);
  EXPECT_EQ(getenv("HARROW_SITE_FILES"), nullptr);
  for (const char* name : names) unsetenv(name);
  EXPECT_TRUE(fs::is_empty(local_));
}

TEST_F(Plugin, SrunItselfMakesNothing) {
  Process srun(S_CTX_LOCAL, {Local(), State()});
  srun.spank.environment = {{"SLURM_JOB_ID", "12"}};
  const auto before = srun.spank.environment;
  srun.Step(true);
  EXPECT_EQ(srun.spank.environment, before);
  EXPECT_TRUE(fs::is_empty(local_));
  EXPECT_THAT(slurm_log, IsEmpty());
}

TEST_F(Plugin, SlurmdsStartMakesTheDirectoryOfAllJobsAndNamesBrokenArguments) {
  Process slurmd(S_CTX_SLURMD, {Local(), State(), "order=best", "ports"});
  EXPECT_EQ(slurmd.Call("slurm_spank_init"), 0);
  EXPECT_TRUE(fs::is_directory(local_ + "/harrow"));
  std::vector<std::string> expected = {
      "error: harrow: plugstack argument 'order=best' has no effect; it should be order=auto, fifo, lifo, hrf, "
      "lifo+hrf, rank+hrf or cost",
      "error: harrow: plugstack argument 'ports' has no effect; it should be ports=FIRST-LAST within "
      "1024-65535"};
  if (geteuid() != 0) {
    expected.push_back(
        "info: harrow: slurmd runs as an ordinary user (uid " + std::to_string(geteuid()) +
        "): all jobs are of that user, whom job directories and their markers are not safe from");
  }
  EXPECT_EQ(slurm_log, expected);
}

// A broken argument is told once a job and node, as it may have changed since slurmd started.
TEST_F(Plugin, ABrokenArgumentIsToldByTheFirstStep) {
  for (const size_t lines : {1u, 0u}) {
    slurm_log.clear();
    Process step(S_CTX_REMOTE, {Local(), State(), "ports"});
    step.Step(true);
    EXPECT_EQ(slurm_log.size(), lines);
    for (const std::string& line : slurm_log)
      EXPECT_THAT(line, HasSubstr("info: harrow: plugstack argument 'ports' has no effect"));
  }
}

TEST_F(Plugin, AStepWaitsNotForADiskThatDidNotAnswerTheFirst) {
  if (geteuid() != 0) GTEST_SKIP() << "the note of an ordinary user's slurmd is on that disk (needs root)";
  fs::create_directory(root_ + "/state");
  fs::permissions(root_ + "/state", fs::perms::owner_all);
  for (const char* note : {"m", "n"}) {
    slurm_log.clear();
    std::ofstream(root_ + "/state/12.note") << note;
    Process step(S_CTX_REMOTE, {Local(), State()});
    step.spank.environment = {{"HARROW_LOCAL", "of another job"}};
    step.Step(true);
    EXPECT_THAT(step.spank.environment, Not(Contains(Key("HARROW_LOCAL"))));
    EXPECT_THAT(slurm_log, ElementsAre("error: harrow: no job directory: " + local_ +
                                       " did not answer when the job began"));
    EXPECT_TRUE(fs::is_empty(local_));
  }
  // Now its note says that it has nothing on the disk: its end does not look, be there what may.
  fs::create_directory(local_ + "/harrow");
  fs::permissions(local_ + "/harrow", fs::perms::all);  // would be a line in the log
  slurm_log.clear();
  Process epilog(S_CTX_JOB_SCRIPT, {Local(), State()});
  EXPECT_EQ(epilog.Call("slurm_spank_job_epilog"), 0);
  EXPECT_THAT(slurm_log, IsEmpty());
  EXPECT_TRUE(fs::is_empty(root_ + "/state"));
  // With any other it does.
  std::ofstream(root_ + "/state/12.note") << "m";
  EXPECT_EQ(epilog.Call("slurm_spank_job_epilog"), 0);
  EXPECT_THAT(slurm_log, ElementsAre(HasSubstr("error: harrow: nothing is removed")));
}

// Of a job without the option nothing is asked of the disk, be there what may.
TEST_F(Plugin, TheEndOfAJobWithoutANoteAsksNotTheDisk) {
  if (geteuid() != 0) GTEST_SKIP() << "the note of an ordinary user's slurmd is on that disk (needs root)";
  Process(S_CTX_SLURMD, {Local(), State()}).Call("slurm_spank_init");
  fs::create_directory(local_ + "/harrow/12");
  std::ofstream(local_ + "/harrow/12.job") << "harrow-job 1\nboot x\nnode y\nuid 0\nleader 12\n";
  fs::permissions(local_ + "/harrow", fs::perms::all);  // would be a line in the log
  Process epilog(S_CTX_JOB_SCRIPT, {Local(), State()});
  EXPECT_EQ(epilog.Call("slurm_spank_job_epilog"), 0);
  EXPECT_THAT(slurm_log, IsEmpty());
  EXPECT_TRUE(fs::exists(local_ + "/harrow/12"));
}

TEST_F(Plugin, ADirectoryThatATaskCannotUseIsNotAnnounced) {
  Process process(S_CTX_REMOTE, {Local(), State()});
  process.Call("slurm_spank_init");
  process.Option("harrow", nullptr);
  process.Call("slurm_spank_init_post_opt");
  EXPECT_THAT(process.spank.environment, Contains(Pair("HARROW_LOCAL", local_ + "/harrow/12")));
  fs::remove_all(local_);
  std::ofstream file(local_);
  EXPECT_EQ(process.Call("slurm_spank_task_init"), 0);
  EXPECT_THAT(process.spank.environment, Not(Contains(Key("HARROW_LOCAL"))));
  EXPECT_THAT(slurm_log, ElementsAre("error: harrow: the job directory " + local_ +
                                     "/harrow/12 is not to be used here: Not a directory"));
}

TEST_F(Plugin, AWrongValueIsRefusedWhereItWasTypedAlone) {
  for (const char* option : {"harrow-order", "harrow-files"}) {
    for (const char* value : {"best", "", static_cast<const char*>(nullptr)}) {
      Process srun(S_CTX_LOCAL, {});
      srun.Call("slurm_spank_init");
      EXPECT_NE(srun.Option(option, value), 0);
      Process slurmstepd(S_CTX_REMOTE, {Local(), State()});
      slurmstepd.Call("slurm_spank_init");
      EXPECT_EQ(slurmstepd.Option(option, value), 0);
    }
  }
}

TEST_F(Plugin, WithoutTheOptionNothingHappens) {
  Process process(S_CTX_REMOTE, {Local(), State(), "order=fifo", "nonsense"});
  process.spank.environment = {{"SLURM_JOB_ID", "12"}, {"HARROW_ORDER", "hrf"}};
  const auto before = process.spank.environment;
  process.Step(false);
  EXPECT_EQ(process.spank.environment, before);
  EXPECT_TRUE(fs::is_empty(local_));
  EXPECT_THAT(slurm_log, IsEmpty());
  Process epilog(S_CTX_JOB_SCRIPT, {Local(), State()});
  EXPECT_EQ(epilog.Call("slurm_spank_job_epilog"), 0);
  EXPECT_TRUE(fs::is_empty(local_));
  EXPECT_THAT(slurm_log, IsEmpty());
}

TEST_F(Plugin, AnotherJobsAnnouncementIsTakenBack) {
  Process process(S_CTX_REMOTE, {Local(), State()});
  process.spank.environment = {{"HARROW_LOCAL", std::string(3000, 'x')}};
  process.Step(false);
  EXPECT_THAT(process.spank.environment, IsEmpty());
}

TEST_F(Plugin, AStepAndItsEnd) {
  {
    Process process(S_CTX_REMOTE, {Local(), State(), "local_limit=1K", "ports=3000-3001", "tasks_per_node=1",
                                   "order=fifo", "files=local", "move_partitions=a,b"});
    // What was set before, by hand or for another job, does not hold against what is typed and what the site
    // says.
    process.spank.environment = {
        {"SLURM_JOB_ID", "12"}, {"HARROW_ORDER", "lifo"}, {"HARROW_SITE_FILES", "shared"}};
    process.Call("slurm_spank_init");
    process.Option("harrow-order", "hrf");
    process.Step(true);
    EXPECT_EQ(process.spank.environment,
              (std::map<std::string, std::string>{{"HARROW_LOCAL", local_ + "/harrow/12"},
                                                  {"HARROW_ORDER", "hrf"},
                                                  {"HARROW_SITE_FILES", "local"},
                                                  {"HARROW_SITE_LOCAL_LIMIT", "1024"},
                                                  {"HARROW_SITE_MOVE_PARTITIONS", "a,b"},
                                                  {"HARROW_SITE_ORDER", "fifo"},
                                                  {"HARROW_SITE_PORTS", "3000-3001"},
                                                  {"HARROW_SITE_TASKS_PER_NODE", "1"},
                                                  {"SLURM_JOB_ID", "12"}}));
    EXPECT_TRUE(fs::is_directory(local_ + "/harrow/12"));
  }
  Process epilog(S_CTX_JOB_SCRIPT, {Local(), State()});
  EXPECT_EQ(epilog.Call("slurm_spank_job_epilog"), 0);
  EXPECT_TRUE(NothingIsLeft());
  EXPECT_THAT(slurm_log, IsEmpty());
}

TEST_F(Plugin, WhatTheSiteDoesNotSayIsNotSet) {
  Process process(S_CTX_REMOTE, {Local(), State()});
  process.spank.environment = {{"SLURM_JOB_ID", "12"}};
  process.Call("slurm_spank_init");
  process.Step(true);
  EXPECT_EQ(process.spank.environment, (std::map<std::string, std::string>{
                                           {"HARROW_LOCAL", local_ + "/harrow/12"}, {"SLURM_JOB_ID", "12"}}));
}

TEST_F(Plugin, ADirectoryThatTheTasksUserMayNotWriteIsNotAnnounced) {
  if (geteuid() != 0) GTEST_SKIP() << "tasks of another user are started by root (needs root)";
  Process process(S_CTX_REMOTE, {Local(), State()});
  process.Call("slurm_spank_init");
  process.Option("harrow", nullptr);
  process.Call("slurm_spank_init_post_opt");
  ASSERT_THAT(process.spank.environment, Contains(Pair("HARROW_LOCAL", local_ + "/harrow/12")));
  fs::permissions(fs::path(local_).parent_path(), fs::perms(0755));
  fs::permissions(local_, fs::perms(0755));
  for (const int mode : {0755, 0777}) {
    fs::permissions(local_ + "/harrow/12", fs::perms(mode));
    const pid_t user = fork();
    if (user == 0) {
      if (setgroups(0, nullptr) != 0 || setgid(65534) != 0 || setuid(65534) != 0) _exit(9);
      process.Call("slurm_spank_task_init");
      _exit(process.spank.environment.contains("HARROW_LOCAL") ? 1 : 0);
    }
    int status = 0;
    EXPECT_EQ(waitpid(user, &status, 0), user);
    EXPECT_EQ(WEXITSTATUS(status), mode == 0777 ? 1 : 0) << mode;
  }
}

// A job container that mounts its own over the local directory.
TEST_F(Plugin, ADirectoryThatATaskDoesNotSeeIsMadeAgain) {
  Process process(S_CTX_REMOTE, {Local(), State()});
  process.Call("slurm_spank_init");
  process.Option("harrow", nullptr);
  process.Call("slurm_spank_init_post_opt");
  fs::remove_all(local_ + "/harrow");
  EXPECT_EQ(process.Call("slurm_spank_task_init"), 0);
  EXPECT_TRUE(fs::is_directory(local_ + "/harrow/12"));
  EXPECT_THAT(process.spank.environment, Contains(Key("HARROW_LOCAL")));
}

TEST_F(Plugin, NoDirectoryIsOneLineAndNoVariable) {
  Process process(S_CTX_REMOTE, {"local=" + local_ + "/none", State()});
  process.Step(true);
  EXPECT_THAT(process.spank.environment, Not(Contains(Key("HARROW_LOCAL"))));
  EXPECT_THAT(slurm_log,
              ElementsAre(AllOf(HasSubstr("error: harrow: no job directory"), HasSubstr("No such file"))));
}

TEST_F(Plugin, WhenEveryCallToSlurmFails) {
  for (spank_context_t context :
       {S_CTX_LOCAL, S_CTX_ALLOCATOR, S_CTX_REMOTE, S_CTX_SLURMD, S_CTX_JOB_SCRIPT}) {
    Process process(context, {Local(), State()});
    process.spank.broken = true;
    process.Step(true);
    EXPECT_EQ(process.Call("slurm_spank_job_epilog"), 0);
  }
}

TEST_F(Plugin, WhatSlurmDoesNotTellIsNotGuessed) {
  for (const spank_item_t item : {S_JOB_ID, S_JOB_UID, S_JOB_GID}) {
    slurm_log.clear();
    Process step(S_CTX_REMOTE, {Local(), State()});
    step.spank.missing = item;
    step.Step(true);
    EXPECT_THAT(step.spank.environment, Not(Contains(Key("HARROW_LOCAL"))));
    EXPECT_THAT(slurm_log,
                ElementsAre("error: harrow: no job directory: Slurm does not tell the job's id and user"));
    EXPECT_TRUE(fs::is_empty(local_));
  }
  Process(S_CTX_REMOTE, {Local(), State()}).Step(true);
  for (const spank_item_t item : {S_JOB_ID, S_JOB_UID}) {
    Process epilog(S_CTX_JOB_SCRIPT, {Local(), State()});
    epilog.spank.missing = item;
    EXPECT_EQ(epilog.Call("slurm_spank_job_epilog"), 0);
    EXPECT_TRUE(fs::exists(local_ + "/harrow/12"));
  }
}

// Of a heterogeneous job the processes have the first component's SLURM_JOB_ID.
TEST_F(Plugin, TheMarkerTellsTheFirstComponentsId) {
  for (const char* leader : {"11", "12"}) {
    Process step(S_CTX_REMOTE, {Local(), State()});
    step.spank.environment = {{"SLURM_JOB_ID", leader}};
    step.Step(true);
    std::ifstream marker(local_ + "/harrow/12.job");
    const std::string text{std::istreambuf_iterator<char>(marker), {}};
    EXPECT_THAT(text, HasSubstr(std::string("\nleader ") + leader + "\n"));
    Process(S_CTX_JOB_SCRIPT, {Local(), State()}).Call("slurm_spank_job_epilog");
  }
}

TEST_F(Plugin, MangledArgumentsInEveryContext) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const std::vector<std::string> whole = {Local(),
                                          State(),
                                          "local_limit=20G",
                                          "ports=30000-31000",
                                          "tasks_per_node=64",
                                          "move_partitions=a,b",
                                          "order=lifo+hrf",
                                          "files=shared"};
  for (int i = 0; i < 200; ++i) {
    std::vector<std::string> arguments = whole;
    for (size_t n = random() % 3; n < 4; ++n) {
      // Not the directories' values: that is for the tests of job_directory, and a mutation could name a real
      // one.
      std::string& victim = arguments[2 + random() % (arguments.size() - 2)];
      size_t at = victim.empty() ? 0 : random() % victim.size();
      switch (random() % 5) {
        case 0:
          victim.insert(at, 1, static_cast<char>(random() % 255 + 1));
          break;
        case 1:
          victim.resize(at);
          break;
        case 2:
          victim.insert(at, std::string(random() % 10'000, 'x'));
          break;
        case 3:
          victim = std::string("local") + (random() % 2 ? "=" : "") + std::string(random() % 3, 'r');
          break;
        default:
          arguments.push_back(victim + victim);
      }
    }
    for (spank_context_t context :
         {S_CTX_LOCAL, S_CTX_ALLOCATOR, S_CTX_REMOTE, S_CTX_SLURMD, S_CTX_JOB_SCRIPT}) {
      Process process(context, arguments);
      if (context == S_CTX_JOB_SCRIPT) {
        EXPECT_EQ(process.Call("slurm_spank_job_epilog"), 0);
        continue;
      }
      process.spank.environment = {{"SLURM_JOB_ID", "12"}};
      process.Step(context != S_CTX_SLURMD);
      if (context == S_CTX_REMOTE) {
        EXPECT_THAT(process.spank.environment, Contains(Pair("HARROW_LOCAL", local_ + "/harrow/12")));
      }
    }
    EXPECT_TRUE(NothingIsLeft());
  }
}

}  // namespace
