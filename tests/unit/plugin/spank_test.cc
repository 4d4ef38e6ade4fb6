// The plugin as Slurm sees it: spank_harrow.so is loaded, and this program plays Slurm.

extern "C" {
#include <slurm/spank.h>
}

#include <dlfcn.h>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <stdarg.h>
#include <string>
#include <unistd.h>
#include <vector>

struct spank_handle {
  spank_context_t context = S_CTX_ERROR;
  std::map<std::string, std::string> environment;
  std::vector<spank_option> options;
  bool broken = false;  // every call fails
};

namespace {

// In the header it is an int.
constexpr spank_err_t kGood = static_cast<spank_err_t>(ESPANK_SUCCESS);

spank_handle* current = nullptr;
std::vector<std::string> slurm_log;

void Log(const char* kind, const char* format, va_list arguments) {
  char line[2048];
  vsnprintf(line, sizeof line, format, arguments);
  slurm_log.push_back(std::string(kind) + line);
}

}  // namespace

extern "C" {
#pragma GCC visibility push(default)

spank_context_t spank_context() {
  return current->context;
}
const char* spank_strerror(spank_err_t) {
  return "because";
}
spank_err_t spank_option_register(spank_t spank, spank_option* option) {
  if (spank->broken) return ESPANK_ERROR;
  spank->options.push_back(*option);
  return kGood;
}
spank_err_t spank_get_item(spank_t spank, spank_item_t item, ...) {
  if (spank->broken) return ESPANK_NOT_AVAIL;
  va_list arguments;
  va_start(arguments, item);
  void* out = va_arg(arguments, void*);
  va_end(arguments);
  switch (item) {
    case S_JOB_ID:
      *static_cast<uint32_t*>(out) = 12;
      break;
    case S_JOB_UID:
      *static_cast<uid_t*>(out) = getuid();
      break;
    case S_JOB_GID:
      *static_cast<gid_t*>(out) = getgid();
      break;
    default:
      return ESPANK_NOT_AVAIL;
  }
  return kGood;
}
spank_err_t spank_getenv(spank_t spank, const char* name, char* buffer, int size) {
  if (spank->broken) return ESPANK_NOT_REMOTE;
  auto it = spank->environment.find(name);
  if (it == spank->environment.end()) return ESPANK_ENV_NOEXIST;
  return snprintf(buffer, static_cast<size_t>(size), "%s", it->second.c_str()) < size ? kGood
                                                                                      : ESPANK_NOSPACE;
}
spank_err_t spank_setenv(spank_t spank, const char* name, const char* value, int) {
  if (spank->broken) return ESPANK_NOT_REMOTE;
  spank->environment[name] = value;
  return kGood;
}
spank_err_t spank_unsetenv(spank_t spank, const char* name) {
  spank->environment.erase(name);
  return spank->broken ? ESPANK_NOT_REMOTE : kGood;
}
void slurm_error(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  Log("error: ", format, arguments);
  va_end(arguments);
}
void slurm_info(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  Log("info: ", format, arguments);
  va_end(arguments);
}

#pragma GCC visibility pop
}

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

/// The plugin, loaded afresh, in one process of Slurm.
class Process {
 public:
  Process(spank_context_t context, std::vector<std::string> arguments) : arguments_(std::move(arguments)) {
    spank.context = context;
    current = &spank;
    for (std::string& argument : arguments_) argv_.push_back(argument.data());
    plugin_ = dlopen(HARROW_PLUGIN, RTLD_LAZY);
    EXPECT_NE(plugin_, nullptr) << dlerror();
  }
  ~Process() { dlclose(plugin_); }

  int Call(const char* function) {
    auto* f = reinterpret_cast<spank_f*>(dlsym(plugin_, function));
    return f == nullptr ? 0 : f(&spank, static_cast<int>(argv_.size()), argv_.data());
  }
  int Option(const std::string& name, const char* value) {
    for (const spank_option& option : spank.options) {
      if (option.name == name) return option.cb(option.val, value, spank.context == S_CTX_REMOTE);
    }
    return -99;
  }
  void* Symbol(const char* name) { return dlsym(plugin_, name); }
  /// A step of a job, up to its first task.
  void Step(bool with_option) {
    EXPECT_EQ(Call("slurm_spank_init"), 0);
    if (with_option) Option("harrow", nullptr);
    EXPECT_EQ(Call("slurm_spank_init_post_opt"), 0);
    EXPECT_EQ(Call("slurm_spank_user_init"), 0);
    EXPECT_EQ(Call("slurm_spank_task_init_privileged"), 0);
    EXPECT_EQ(Call("slurm_spank_task_init"), 0);
    EXPECT_EQ(Call("slurm_spank_exit"), 0);
  }

  spank_handle spank;

 private:
  std::vector<std::string> arguments_;
  std::vector<char*> argv_;
  void* plugin_ = nullptr;
};

class Plugin : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/harrow-spank-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    local_ = name;
    slurm_log.clear();
  }
  void TearDown() override { fs::remove_all(local_); }
  std::string Local() const { return "local=" + local_; }
  std::string local_;
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
    Process process(context, {Local()});
    EXPECT_EQ(process.Call("slurm_spank_init"), 0);
    EXPECT_THAT(process.spank.options, IsEmpty());
  }
}

TEST_F(Plugin, AWrongValueIsRefusedWhereItWasTypedAlone) {
  for (const char* option : {"harrow-order", "harrow-files"}) {
    for (const char* value : {"best", "", static_cast<const char*>(nullptr)}) {
      Process srun(S_CTX_LOCAL, {});
      srun.Call("slurm_spank_init");
      EXPECT_NE(srun.Option(option, value), 0);
      Process slurmstepd(S_CTX_REMOTE, {Local()});
      slurmstepd.Call("slurm_spank_init");
      EXPECT_EQ(slurmstepd.Option(option, value), 0);
    }
  }
}

TEST_F(Plugin, WithoutTheOptionNothingHappens) {
  Process process(S_CTX_REMOTE, {Local(), "order=fifo", "nonsense"});
  process.spank.environment = {{"SLURM_JOB_ID", "12"}, {"HARROW_ORDER", "hrf"}};
  const auto before = process.spank.environment;
  process.Step(false);
  EXPECT_EQ(process.spank.environment, before);
  EXPECT_TRUE(fs::is_empty(local_));
  EXPECT_THAT(slurm_log, IsEmpty());
  Process epilog(S_CTX_JOB_SCRIPT, {Local()});
  EXPECT_EQ(epilog.Call("slurm_spank_job_epilog"), 0);
  EXPECT_TRUE(fs::is_empty(local_));
  EXPECT_THAT(slurm_log, IsEmpty());
}

TEST_F(Plugin, AnotherJobsAnnouncementIsTakenBack) {
  Process process(S_CTX_REMOTE, {Local()});
  process.spank.environment = {{"HARROW_LOCAL", std::string(3000, 'x')}};
  process.Step(false);
  EXPECT_THAT(process.spank.environment, IsEmpty());
}

TEST_F(Plugin, AStepAndItsEnd) {
  {
    Process process(S_CTX_REMOTE, {Local(), "local_limit=1K", "ports=3000-3001", "tasks_per_node=2",
                                   "order=fifo", "files=local", "move_partitions=a,b"});
    process.spank.environment = {{"SLURM_JOB_ID", "12"}};
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
                                                  {"HARROW_SITE_TASKS_PER_NODE", "2"},
                                                  {"SLURM_JOB_ID", "12"}}));
    EXPECT_TRUE(fs::is_directory(local_ + "/harrow/12"));
  }
  Process epilog(S_CTX_JOB_SCRIPT, {Local()});
  EXPECT_EQ(epilog.Call("slurm_spank_job_epilog"), 0);
  EXPECT_TRUE(fs::is_empty(local_ + "/harrow"));
  EXPECT_THAT(slurm_log, IsEmpty());
}

// A job container that mounts its own over the local directory.
TEST_F(Plugin, ADirectoryThatATaskDoesNotSeeIsMadeAgain) {
  Process process(S_CTX_REMOTE, {Local()});
  process.Call("slurm_spank_init");
  process.Option("harrow", nullptr);
  process.Call("slurm_spank_init_post_opt");
  fs::remove_all(local_ + "/harrow");
  EXPECT_EQ(process.Call("slurm_spank_task_init"), 0);
  EXPECT_TRUE(fs::is_directory(local_ + "/harrow/12"));
  EXPECT_THAT(process.spank.environment, Contains(Key("HARROW_LOCAL")));
}

TEST_F(Plugin, NoDirectoryIsOneLineAndNoVariable) {
  Process process(S_CTX_REMOTE, {"local=" + local_ + "/none"});
  process.Step(true);
  EXPECT_THAT(process.spank.environment, Not(Contains(Key("HARROW_LOCAL"))));
  EXPECT_THAT(slurm_log,
              ElementsAre(AllOf(HasSubstr("error: harrow: no job directory"), HasSubstr("No such file"))));
}

TEST_F(Plugin, WhenEveryCallToSlurmFails) {
  for (spank_context_t context :
       {S_CTX_LOCAL, S_CTX_ALLOCATOR, S_CTX_REMOTE, S_CTX_SLURMD, S_CTX_JOB_SCRIPT}) {
    Process process(context, {Local()});
    process.spank.broken = true;
    process.Step(true);
    EXPECT_EQ(process.Call("slurm_spank_job_epilog"), 0);
  }
}

TEST_F(Plugin, MangledArgumentsInEveryContext) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const std::vector<std::string> whole = {
      Local(),          "local_limit=20G", "ports=30000-31000", "tasks_per_node=64", "move_partitions=a,b",
      "order=lifo+hrf", "files=shared"};
  for (int i = 0; i < 200; ++i) {
    std::vector<std::string> arguments = whole;
    for (size_t n = random() % 3; n < 4; ++n) {
      // Not the directory's value: that is for the tests of job_directory, and a mutation could name a real
      // one.
      std::string& victim = arguments[1 + random() % (arguments.size() - 1)];
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
    EXPECT_TRUE(fs::is_empty(local_ + "/harrow"));
  }
}

}  // namespace
