#include "plugin/account.h"

#include <cstdarg>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>
#include <vector>

#include "plugin/job_directory.h"

namespace {

std::vector<std::string> sent;  // to syslog

void Send(int priority, const char* format, va_list arguments) {
  char line[1024];
  vsnprintf(line, sizeof line, format, arguments);
  sent.push_back((priority == LOG_INFO ? "info " : "other ") + std::string(line));
}

}  // namespace

// In place of libc's.
extern "C" {
#pragma GCC visibility push(default)
void openlog(const char* name, int, int facility) {
  sent.push_back(std::string("open ") + name + (facility == LOG_DAEMON ? " daemon" : " other"));
}
void closelog() {
  sent.push_back("close");
}
void syslog(int priority, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  Send(priority, format, arguments);
  va_end(arguments);
}
void __syslog_chk(int priority, int, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  Send(priority, format, arguments);
  va_end(arguments);
}
#pragma GCC visibility pop
}

namespace harrow::plugin {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class RunsLogged : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/harrow-account-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    directory_ = name;
    sent.clear();
  }
  void TearDown() override { fs::remove_all(directory_); }
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(directory_ + "/" + name) << text;
  }
  void Log(const char* user = "alice") {
    const int fd = open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const auto open_files = [] {
      return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
    };
    const auto before = open_files();
    LogRuns(fd, 12, 5001, user);
    EXPECT_EQ(open_files(), before) << "descriptors are left";
    EXPECT_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);  // is the caller's
    close(fd);
  }
  static std::string Account(const std::string& run) {
    return "harrow-run 1\nrun " + run + "\ntasks 1000\ncore_seconds 11700\n";
  }

  std::string directory_;
};

TEST_F(RunsLogged, ALineEach) {
  Write(".harrow-run-a", Account("mosaic"));
  Log("al\nice");
  EXPECT_THAT(
      sent, ElementsAre("open harrow daemon",
                        "info job=12 user=al_ice uid=5001 run=mosaic tasks=1000 core_hours=3.250", "close"));
}

TEST_F(RunsLogged, ALongNameOfAUserIsCut) {
  Write(".harrow-run-a", Account("m"));
  Log(std::string(100, 'u').c_str());
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(sent[1],
            "info job=12 user=" + std::string(64, 'u') + " uid=5001 run=m tasks=1000 core_hours=3.250");
}

TEST_F(RunsLogged, NothingElseIs) {
  Log();
  EXPECT_THAT(sent, IsEmpty());
  Write("other", Account("m"));
  Write(".harrow-runs", Account("m"));
  Write(".harrow-run-empty", "");
  Write(".harrow-run-long", Account("m") + std::string(1000, 'x'));
  fs::create_directory(directory_ + "/.harrow-run-directory");
  fs::create_symlink(directory_ + "/other", directory_ + "/.harrow-run-link");
  ASSERT_EQ(mkfifo((directory_ + "/.harrow-run-fifo").c_str(), 0600), 0);
  Log();
  EXPECT_THAT(sent, IsEmpty());
}

TEST_F(RunsLogged, AtTheEndOfTheirJob) {
  const std::string local = directory_ + "/local", state = directory_ + "/state";
  fs::create_directory(local);
  const Places places = {local.c_str(), state.c_str()};
  const Job job = {.id = 12, .leader = 12, .uid = getuid(), .gid = getgid()};
  for (const bool named : {true, false}) {
    sent.clear();
    ASSERT_EQ(MakeJobDirectory(places, job, 60), Made::kNow);
    Write("local/harrow/12/.harrow-run-a", Account("mosaic"));
    named ? setenv("SLURM_JOB_USER", "alice", 1) : unsetenv("SLURM_JOB_USER");
    RemoveJobDirectory(places, job, 60, getpid());
    ASSERT_EQ(sent.size(), 3u);
    EXPECT_EQ(sent[1], std::string("info job=12 user=") + (named ? "alice" : "_") +
                           " uid=" + std::to_string(getuid()) + " run=mosaic tasks=1000 core_hours=3.250");
  }
  unsetenv("SLURM_JOB_USER");
}

TEST_F(RunsLogged, AtMostSoMany) {
  for (int i = 0; i < 100; ++i) Write(".harrow-run-" + std::to_string(i), Account("r" + std::to_string(i)));
  Log();
  EXPECT_EQ(sent.size(), 66u);
}

TEST(Names, AreCleanedAndCut) {
  char out[8];
  CleanName("abcdefghij", out, sizeof out);
  EXPECT_STREQ(out, "abcdefg");
  char all[32];
  CleanName("aAzZ09._@-/:`{[ \x80", all, sizeof all);
  EXPECT_STREQ(all, "aAzZ09._@-_______");
  CleanName("", all, sizeof all);
  EXPECT_STREQ(all, "");
}

TEST(RunAccount, AsARunWritesIt) {
  RunAccount account;
  ASSERT_TRUE(ParseRunAccount("harrow-run 1\nrun mosaic\ntasks 1000\ncore_seconds 11700\n", &account));
  EXPECT_STREQ(account.run, "mosaic");
  EXPECT_EQ(account.tasks, 1000u);
  EXPECT_EQ(account.core_seconds, 11700u);
}

TEST(RunAccount, CutAnywhereIsNone) {
  const std::string whole = "harrow-run 1\nrun m\ntasks 1\ncore_seconds 2\n";
  RunAccount account;
  for (size_t n = 0; n < whole.size(); ++n)
    EXPECT_FALSE(ParseRunAccount(std::string_view(whole).substr(0, n), &account));
}

TEST(RunAccount, NonsenseIsNone) {
  RunAccount account;
  for (const char* bad :
       {"harrow-run 2\nrun m\ntasks 1\ncore_seconds 2\n", "harrow-run 1\nrun \ntasks 1\ncore_seconds 2\n",
        "harrow-run 1\nrun m\ntasks -1\ncore_seconds 2\n",
        "harrow-run 1\nrun m\ntasks 1\ncore_seconds 2\nmore\n",
        "harrow-run 1\nrun m\ntasks 99999999999999999999\ncore_seconds 2\n",
        "harrow-run 1\nrun m\ntasks 1 \ncore_seconds 2\n"}) {
    EXPECT_FALSE(ParseRunAccount(bad, &account)) << bad;
  }
  EXPECT_TRUE(
      ParseRunAccount("harrow-run 1\nrun " + std::string(64, 'r') + "\ntasks 1\ncore_seconds 2\n", &account));
  EXPECT_EQ(account.run, std::string(64, 'r'));
  EXPECT_FALSE(
      ParseRunAccount("harrow-run 1\nrun " + std::string(65, 'r') + "\ntasks 1\ncore_seconds 2\n", &account));
  EXPECT_FALSE(ParseRunAccount("harrow-run 1\nrun m\ntasks \ncore_seconds 2\n", &account));
  EXPECT_FALSE(
      ParseRunAccount("harrow-run 1\nrun " + std::string(70, 'r') + "\ntasks 1\ncore_seconds 2\n", &account));
}

TEST(RunAccount, ANameCannotForgeALogLine) {
  RunAccount account;
  ASSERT_TRUE(ParseRunAccount("harrow-run 1\nrun a b%n\x1b[1m=\"x\r\ntasks 1\ncore_seconds 2\n", &account));
  EXPECT_STREQ(account.run, "a_b_n__1m__x_");
}

}  // namespace
}  // namespace harrow::plugin
