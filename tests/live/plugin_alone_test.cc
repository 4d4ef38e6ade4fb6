// What the plugin does with processes, real ones, without Slurm: errands, the end of what a job has left.
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <iterator>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <poll.h>
#include <sched.h>
#include <string>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "live/eventually.h"
#include "plugin/errand.h"
#include "plugin/fd.h"
#include "plugin/job_directory.h"
#include "plugin/log.h"
#include "plugin/note.h"
#include "plugin/policy.h"
#include "plugin/processes.h"

namespace harrow::plugin {
namespace {

std::vector<std::string> logged;

}  // namespace

void WriteLog(bool error, const char* line) {
  logged.push_back(std::string(error ? "error: " : "notice: ") + line);
}

namespace {

using std::chrono::steady_clock;
using test::Eventually;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::chrono::seconds kPatience(120);

// Is there such a process, and not only what its parent has still to reap?
bool Lives(pid_t pid) {
  FILE* file = fopen(("/proc/" + std::to_string(pid) + "/stat").c_str(), "r");
  if (file == nullptr) return false;
  char text[512] = "";
  const size_t n = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  const char* at = n > 0 ? strrchr(text, ')') : nullptr;
  return at != nullptr && at[2] != 'Z' && at[2] != 'X';
}

class ErrandTest : public ::testing::Test {
 protected:
  // Seen by the child, too.
  struct Shared {
    volatile pid_t child;
    char text[4096];
  };
  void SetUp() override {
    logged.clear();
    shared_ = static_cast<Shared*>(
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(shared_, MAP_FAILED);
    char name[] = "/tmp/harrow-errand-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    directory_ = name;
    ASSERT_EQ(mkfifo((directory_ + "/fifo").c_str(), 0600), 0);
  }
  void TearDown() override {
    munmap(shared_, sizeof(Shared));
    std::filesystem::remove_all(directory_);
  }
  // Waits in the kernel for somebody who never comes.
  int Hang() {
    shared_->child = getpid();
    return open((directory_ + "/fifo").c_str(), O_RDONLY);
  }

  Shared* shared_ = nullptr;
  std::string directory_;
};

TEST_F(ErrandTest, ItsWorkAndItsLinesReachWhoSentIt) {
  const Errand errand = RunErrand(60, [this] {
    shared_->child = getpid();
    LogError("one %d", 1);
    LogNotice("two\nlines %s", "\x1b[1m");
    LogError("%s", std::string(5000, 'x').c_str());
    return -7;
  });
  EXPECT_EQ(errand.end, Errand::kDone);
  EXPECT_EQ(errand.value, -7);
  EXPECT_NE(shared_->child, getpid());
  ASSERT_EQ(logged.size(), 3u);
  EXPECT_EQ(logged[0], "error: one 1");
  EXPECT_EQ(logged[1], "notice: two?lines ?[1m");
  EXPECT_EQ(logged[2], "error: " + std::string(1023, 'x'));
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a child of ours is left";
  LogNotice("here");
  EXPECT_EQ(logged.back(), "notice: here");
}

TEST_F(ErrandTest, ManyLinesAreNotLost) {
  const Errand errand = RunErrand(60, [] {
    for (int i = 0; i < 5000; ++i)
      LogNotice("%d %s", i, std::string(static_cast<size_t>(i % 700), 'y').c_str());
    return 0;
  });
  EXPECT_EQ(errand.end, Errand::kDone);
  ASSERT_EQ(logged.size(), 5000u);
  for (size_t i = 0; i < 5000; ++i) EXPECT_THAT(logged[i], StartsWith("notice: " + std::to_string(i) + " "));
}

TEST_F(ErrandTest, ThatHangsIsLeftAndEnds) {
  const auto began = steady_clock::now();
  const Errand errand = RunErrand(1, [this] {
    LogError("before");
    return Hang();
  });
  EXPECT_EQ(errand.end, Errand::kLate);
  EXPECT_GE(steady_clock::now() - began, std::chrono::milliseconds(990));
  EXPECT_LT(steady_clock::now() - began, kPatience);
  EXPECT_THAT(logged, ElementsAre("error: before"));
  EXPECT_THAT(WhyNot(errand), HasSubstr("does the disk answer"));
  EXPECT_TRUE(Eventually([this] { return !Lives(shared_->child); }));
}

TEST_F(ErrandTest, EndsThoughItsCallerHearsNoSignal) {
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  auto* old = signal(SIGALRM, SIG_IGN);
  const Errand errand = RunErrand(1, [this] { return Hang(); });
  signal(SIGALRM, old);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(errand.end, Errand::kLate);
  EXPECT_TRUE(Eventually([this] { return !Lives(shared_->child); }));
}

// As one in a call that no signal ends: it holds nothing of the caller's, and is no child of the caller's.
TEST_F(ErrandTest, ThatCannotBeEndedHoldsNothing) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);  // as Slurm gives an epilog its output
  const auto began = steady_clock::now();
  const Errand errand = RunErrand(1, [this] {
    signal(SIGALRM, SIG_IGN);
    return Hang();
  });
  EXPECT_EQ(errand.end, Errand::kLate);
  EXPECT_LT(steady_clock::now() - began, kPatience);
  close(ends[1]);
  pollfd wait = {ends[0], POLLIN, 0};
  EXPECT_EQ(poll(&wait, 1, 0), 1) << "the output is still held";
  EXPECT_NE(wait.revents & POLLHUP, 0);
  close(ends[0]);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
  ASSERT_TRUE(Lives(shared_->child)) << "nothing was shown";
  const int fifo = open((directory_ + "/fifo").c_str(), O_WRONLY);  // lets it go on, to its end
  EXPECT_TRUE(Eventually([this] { return !Lives(shared_->child); }));
  close(fifo);
}

TEST_F(ErrandTest, HasDescriptorsOfItsOwn) {
  std::vector<Fd*> held;
  for (int i = 0; i < 40; ++i) held.push_back(new Fd(open("/proc/self/status", O_RDONLY)));
  const Fd input(dup(0));
  dup2(*held[0], 0);
  const Errand errand = RunErrand(60, [this] {
    for (int fd = 0; fd < 1024; ++fd) {
      char target[256] = "";
      if (readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), target, sizeof target - 1) < 0) continue;
      strcat(shared_->text,
             (std::to_string(fd) + " " + std::string(target).substr(0, strcspn(target, ":")) + "\n").c_str());
    }
    char directory[256] = "";
    strcat(shared_->text, getcwd(directory, sizeof directory));
    return 0;
  });
  dup2(input, 0);
  for (Fd* fd : held) delete fd;
  EXPECT_EQ(errand.end, Errand::kDone);
  EXPECT_STREQ(shared_->text, "0 /dev/null\n1 /dev/null\n2 /dev/null\n3 pipe\n/");
}

TEST_F(ErrandTest, HearsEverySignalAsAFreshProcessDoes) {
  std::vector<std::pair<int, void (*)(int)>> before;
  for (const int number : {SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGALRM})
    before.emplace_back(number, signal(number, SIG_IGN));
  const Errand errand = RunErrand(60, [] {
    for (int number = 1; number < 32; ++number) {
      struct sigaction action = {};
      sigaction(number, nullptr, &action);
      if (number != SIGPIPE && action.sa_handler != SIG_DFL) return number;
    }
    return 0;
  });
  for (const auto& [number, handler] : before) signal(number, handler);
  EXPECT_EQ(errand.end, Errand::kDone);
  EXPECT_EQ(errand.value, 0) << "a signal that stays ignored";
}

TEST_F(ErrandTest, WhereThereIsNoDescriptorToBeHad) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = dup(0);
  close(next);
  const rlimit one = {static_cast<rlim_t>(next) + 1, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &one), 0);
  const Errand errand = RunErrand(60, [] { return 0; });
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(errand.end, Errand::kFailed);
  EXPECT_STREQ(WhyNot(errand), strerror(EMFILE));
}

TEST_F(ErrandTest, ThatDiesIsTold) {
  const Errand errand = RunErrand(60, []() -> int { _exit(0); });
  EXPECT_EQ(errand.end, Errand::kFailed);
  EXPECT_EQ(errand.value, 0);
  EXPECT_THAT(WhyNot(errand), HasSubstr("was ended"));
}

TEST_F(ErrandTest, WhereThereIsNoProcessToBeHad) {
  if (getuid() != 0) GTEST_SKIP() << "not root (needs root)";
  const pid_t user = fork();
  if (user == 0) {
    if (setgroups(0, nullptr) != 0 || setgid(64999) != 0 || setuid(64999) != 0) _exit(9);
    for (const rlim_t most : {2, 1}) {  // one more than ourselves; none
      const rlimit limit = {most, 3};
      if (setrlimit(RLIMIT_NPROC, &limit) != 0) _exit(9);
      const clock_t computed = clock();
      const Errand errand = RunErrand(60, [] { return 0; });
      if (errand.end != Errand::kFailed || errand.value != EAGAIN ||
          strcmp(WhyNot(errand), strerror(EAGAIN)) != 0) {
        _exit(static_cast<int>(most));
      }
      // It has waited two seconds for somebody to end, and left the core to others meanwhile.
      if (clock() - computed > CLOCKS_PER_SEC / 4) _exit(4);
    }
    const rlimit enough = {3, 3};
    if (setrlimit(RLIMIT_NPROC, &enough) != 0) _exit(9);
    const Errand errand = RunErrand(60, [] { return 0; });
    _exit(errand.end == Errand::kDone ? 0 : 3);
  }
  int status = 0;
  EXPECT_EQ(waitpid(user, &status, 0), user);
  EXPECT_EQ(status, 0);
}

// Processes with environments of their own, all ended with the test.
class EndProcessesTest : public ::testing::Test {
 protected:
  void TearDown() override {
    for (const pid_t pid : started_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }
  pid_t Start(std::vector<std::string> environment, const std::string& script = "exec sleep 1000",
              uid_t uid = getuid()) {
    std::vector<char*> envp;
    environment.push_back("PATH=/usr/bin:/bin");
    for (std::string& entry : environment) envp.push_back(entry.data());
    envp.push_back(nullptr);
    int ready[2];
    EXPECT_EQ(pipe2(ready, O_CLOEXEC), 0);
    const pid_t pid = fork();
    if (pid == 0) {
      if (uid != getuid() && (setgid(uid) != 0 || setuid(uid) != 0)) _exit(9);
      const char* argv[] = {"/bin/sh", "-c", script.c_str(), nullptr};
      execve(argv[0], const_cast<char**>(argv), envp.data());
      _exit(9);
    }
    close(ready[1]);
    char none;
    EXPECT_EQ(read(ready[0], &none, 1), 0);  // it runs the script
    close(ready[0]);
    started_.push_back(pid);
    return pid;
  }
  // The one child of a process.
  static pid_t ChildOf(pid_t pid) {
    pid_t child = 0;
    Eventually([&] {
      FILE* file =
          fopen(("/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid) + "/children").c_str(), "r");
      if (file == nullptr) return false;
      const bool found = fscanf(file, "%d", &child) == 1;
      fclose(file);
      return found;
    });
    return child;
  }
  JobProcesses Job() const {
    return {.uid = getuid(), .id = 12, .leader = 11, .directory = kDirectory, .caller = 0};
  }
  static constexpr char kDirectory[] = "/harrow-test/harrow/12";
  static constexpr char kMark[] = "HARROW_LOCAL=/harrow-test/harrow/12";

  std::vector<pid_t> started_;
};

TEST_F(EndProcessesTest, OfTheJobAlone) {
  const pid_t own[] = {Start({kMark}), Start({"A=b", kMark, "SLURM_JOB_ID=12"}),
                       Start({"SLURM_JOB_ID=11", kMark}),
                       Start({kMark}, "trap '' TERM HUP; while true; do sleep 1000; done")};
  const pid_t others[] = {Start({}), Start({"HARROW_LOCAL=/harrow-test/harrow/123"}),
                          Start({"HARROW_LOCAL=/harrow-test/harrow/1"}), Start({kMark, "SLURM_JOB_ID=13"}),
                          Start({"SLURM_JOB_ID=12"})};
  const pid_t below = ChildOf(own[3]);
  const auto began = steady_clock::now();
  const Ended ended = EndProcesses(Job());
  EXPECT_LT(steady_clock::now() - began, std::chrono::seconds(8)) << "it looks on though there is none left";
  EXPECT_EQ(ended.left, 0);
  EXPECT_EQ(ended.ended, 5u);
  for (const pid_t pid : own) EXPECT_FALSE(Lives(pid));
  EXPECT_FALSE(Lives(below));
  for (const pid_t pid : others) EXPECT_TRUE(Lives(pid));
}

TEST_F(EndProcessesTest, OfAnotherUserNever) {
  if (getuid() != 0) GTEST_SKIP() << "not root (needs root)";
  const pid_t forged = Start({kMark, "SLURM_JOB_ID=12"}, "exec sleep 1000", 65534);
  EXPECT_EQ(EndProcesses(Job()).ended, 0u);
  EXPECT_TRUE(Lives(forged));
  JobProcesses theirs = Job();
  theirs.uid = 65534;
  const pid_t ours = Start({kMark});
  EXPECT_EQ(EndProcesses(theirs).ended, 1u);
  EXPECT_FALSE(Lives(forged));
  EXPECT_TRUE(Lives(ours));
}

TEST_F(EndProcessesTest, WhatWipedItsEnvironmentIsFoundByItsParent) {
  const pid_t parent = Start({kMark}, "env -i sh -c 'sleep 1000; true' & wait");
  const pid_t child = ChildOf(parent), grandchild = ChildOf(child);
  EXPECT_EQ(EndProcesses(Job()).left, 0);
  for (const pid_t pid : {parent, child, grandchild}) EXPECT_FALSE(Lives(pid));
}

TEST_F(EndProcessesTest, NeitherTheCallerNorItsAncestors) {
  const pid_t ancestor = Start({kMark}, "sleep 1000; true");
  const pid_t caller = ChildOf(ancestor);
  const pid_t other = Start({kMark});
  JobProcesses job = Job();
  job.caller = caller;
  EXPECT_EQ(EndProcesses(job).ended, 1u);
  EXPECT_TRUE(Lives(caller));
  EXPECT_TRUE(Lives(ancestor));
  EXPECT_FALSE(Lives(other));
  kill(caller, SIGKILL);
}

TEST_F(EndProcessesTest, ThatBecomesAnotherProgramJustThen) {
  // It does nothing else; while a program is loaded, an environment reads as empty.
  const std::string script = R"(exec /bin/sh -c "$AGAIN")";
  for (int i = 0; i < 300; ++i) {
    const pid_t pid = Start({kMark, "AGAIN=" + script}, script);
    ASSERT_EQ(EndProcesses(Job()).ended, 1u) << "try " << i;
    ASSERT_FALSE(Lives(pid)) << "try " << i;
  }
}

TEST_F(EndProcessesTest, ThatForkAllTheTime) {
  const pid_t parent = Start({kMark}, "while true; do env -i sleep 1000 & sleep 0.01; done");
  ASSERT_GT(ChildOf(parent), 0);
  const Ended ended = EndProcesses(Job());
  EXPECT_EQ(ended.left, 0);
  EXPECT_GE(ended.ended, 2u);
  EXPECT_FALSE(Lives(parent));
  EXPECT_EQ(EndProcesses(Job()).ended, 0u);
}

TEST_F(EndProcessesTest, AsManyAsThereAre) {
  for (int i = 0; i < 200; ++i) Start({kMark});
  const Ended ended = EndProcesses(Job());
  EXPECT_EQ(ended.ended, 200u);
  EXPECT_EQ(ended.left, 0);
  for (const pid_t pid : started_) EXPECT_FALSE(Lives(pid));
}

// Bytes; where the C library is too old to tell, none.
size_t Allocated() {
#if __GLIBC_PREREQ(2, 33)
  return mallinfo2().uordblks;
#else
  return 0;
#endif
}

TEST_F(EndProcessesTest, NoneIsSaidWhereThereIsNone) {
  const Ended ended = EndProcesses(Job());
  EXPECT_EQ(ended.ended, 0u);
  EXPECT_EQ(ended.left, 0);
  const size_t before = Allocated();
  EndProcesses(Job());
  EXPECT_EQ(Allocated(), before) << "memory is left";
}

TEST_F(EndProcessesTest, OfACgroupOfTheJobWhateverTheirEnvironment) {
  if (getuid() != 0) GTEST_SKIP() << "not root (needs root)";
  const pid_t own = Start({}), others = Start({});
  char name[] = "/tmp/harrow-cgroup-XXXXXX";
  ASSERT_NE(mkdtemp(name), nullptr);
  const std::string directory = name;
  std::ofstream(directory + "/own") << "0::/system.slice/slurmstepd.scope/job_12/step_0/user/task_0\n";
  std::ofstream(directory + "/others") << "0::/system.slice/slurmstepd.scope/job_13/step_0/user/task_0\n";
  const pid_t caller = fork();
  if (caller == 0) {  // sees /proc as it would be there
    const auto tell = [&](const std::string& file, pid_t pid) {
      const std::string told = "/proc/" + std::to_string(pid) + "/cgroup";
      return mount((directory + file).c_str(), told.c_str(), nullptr, MS_BIND, nullptr) == 0;
    };
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) _exit(9);
    if (!tell("/own", own) || !tell("/others", others)) _exit(9);
    const Ended ended = EndProcesses(Job());
    _exit(ended.left != 0 ? 1 : ended.ended != 1 ? 2 : 0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(caller, &status, 0), caller);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_FALSE(Lives(own));
  EXPECT_TRUE(Lives(others));
  std::filesystem::remove_all(directory);
}

/// From here on this process is on a kernel that knows neither close_range nor pidfds.
bool ForgetCalls() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
  };
  const sock_fprog program = {.len = std::size(filter), .filter = filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST_F(EndProcessesTest, OnAKernelWithoutPidfds) {
  const pid_t own[] = {Start({kMark}), Start({kMark}, "env -i sh -c 'sleep 1000; true' & wait")};
  const pid_t below = ChildOf(own[1]), other = Start({"SLURM_JOB_ID=12"});
  ASSERT_GT(ChildOf(below), 0);
  const pid_t caller = fork();
  if (caller == 0) {
    if (!ForgetCalls()) _exit(9);
    const Ended ended = EndProcesses(Job());
    _exit(ended.left != 0 ? 1 : ended.ended != 4 ? 2 : 0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(caller, &status, 0), caller);
  EXPECT_EQ(status, 0);
  for (const pid_t pid : {own[0], own[1], below}) EXPECT_FALSE(Lives(pid));
  EXPECT_TRUE(Lives(other));
}

TEST_F(ErrandTest, HasDescriptorsOfItsOwnOnAKernelWithoutCloseRange) {
  const pid_t caller = fork();
  if (caller == 0) {
    if (!ForgetCalls()) _exit(9);
    for (int i = 0; i < 40; ++i) (void)!open("/proc/self/status", O_RDONLY);
    const Errand errand = RunErrand(60, [] {
      int there = 0;
      for (int fd = 0; fd < 1024; ++fd) there += fcntl(fd, F_GETFD) != -1;
      return there;
    });
    _exit(errand.end != Errand::kDone ? 100 : errand.value);
  }
  int status = 0;
  EXPECT_EQ(waitpid(caller, &status, 0), caller);
  EXPECT_EQ(WEXITSTATUS(status), 4) << "/dev/null three times, and the pipe";
}

namespace fs = std::filesystem;

// Where slurmd is an ordinary user's: LOCAL is root's and sticky, notes lie on the disk.
TEST(OrdinaryUser, MakesAndRemovesItsOwn) {
  if (getuid() != 0) GTEST_SKIP() << "not root (needs root)";
  char name[] = "/tmp/harrow-ordinary-XXXXXX";
  ASSERT_NE(mkdtemp(name), nullptr);
  fs::permissions(name, fs::perms::all | fs::perms::sticky_bit);
  const pid_t user = fork();
  if (user == 0) {
    if (setgroups(0, nullptr) != 0 || setgid(65534) != 0 || setuid(65534) != 0) _exit(9);
    Policy policy;
    snprintf(policy.local, sizeof policy.local, "%s", name);
    const Places places = PlacesOf(policy);
    const Job job = {.id = 12, .leader = 12, .uid = 65534, .gid = 65534};
    if (MakeJobDirectory(places, job, 60) != Made::kNow || !fs::exists(std::string(name) + "/harrow/12.note"))
      _exit(1);
    RemoveJobDirectory(places, job, 60, 0);
    if (!fs::is_empty(std::string(name) + "/harrow")) _exit(2);
    const Job others = {.id = 13, .leader = 13, .uid = 65533, .gid = 65533};
    if (MakeJobDirectory(places, others, 60) != Made::kNot) _exit(3);
    _exit(logged.size() == 1 && logged[0].find("/harrow/13: Operation not permitted") != std::string::npos
              ? 0
              : 4);
  }
  int status = 0;
  EXPECT_EQ(waitpid(user, &status, 0), user);
  EXPECT_EQ(status, 0) << WEXITSTATUS(status);
  fs::remove_all(name);
}

// Held by what hangs in the disk, and was given up.
TEST(JobsEnd, WhoseNoteIsHeldIsNotedAllTheSame) {
  char name[] = "/tmp/harrow-held-XXXXXX";
  ASSERT_NE(mkdtemp(name), nullptr);
  const std::string local = std::string(name) + "/local", state = std::string(name) + "/state";
  fs::create_directory(local);
  const Places places = {local.c_str(), state.c_str()};
  const Job job = {.id = 12, .leader = 12, .uid = getuid(), .gid = getgid()};
  logged.clear();
  ASSERT_EQ(MakeJobDirectory(places, job, 60), Made::kNow);
  const int held = open((state + "/12.note").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(flock(held, LOCK_EX | LOCK_NB), 0);
  RemoveJobDirectory(places, job, 60, getpid());
  EXPECT_EQ(MakeJobDirectory(places, job, 60), Made::kNot);
  EXPECT_THAT(logged,
              ElementsAre("error: job 12: nothing is removed: its note: Resource temporarily unavailable",
                          HasSubstr("no job directory: what the job's earlier start left")));
  EXPECT_TRUE(fs::exists(local + "/harrow/12"));
  EXPECT_EQ(NoteOfJob(places, 12), Note::kOver);
  close(held);
  PrepareNode(places, 60);
  EXPECT_TRUE(fs::is_empty(local + "/harrow"));
  EXPECT_TRUE(fs::is_empty(state));
  fs::remove_all(name);
}

TEST(JobsEnd, WhatCannotBeRemovedIsNotSaidToBe) {
  if (getuid() != 0) GTEST_SKIP() << "not root (needs root)";
  char name[] = "/tmp/harrow-fixed-XXXXXX";
  ASSERT_NE(mkdtemp(name), nullptr);
  const std::string local = std::string(name) + "/local", state = std::string(name) + "/state";
  fs::create_directory(local);
  const Places places = {local.c_str(), state.c_str()};
  const Job job = {.id = 12, .leader = 12, .uid = getuid(), .gid = getgid()};
  ASSERT_EQ(MakeJobDirectory(places, job, 60), Made::kNow);
  const std::string fixed = local + "/harrow/12/fixed";
  std::ofstream(fixed) << "x";
  if (system(("chattr +i " + fixed).c_str()) != 0) GTEST_SKIP() << "chattr +i fails (needs immutable files)";
  logged.clear();
  RemoveJobDirectory(places, job, 60, getpid());
  PrepareNode(places, 60);
  const std::string line = "error: " + local +
                           "/harrow/12 is not wholly removed: Operation not permitted; the next job's end, "
                           "or slurmd's start, tries again";
  EXPECT_THAT(logged, ElementsAre(line, line));
  EXPECT_TRUE(fs::exists(local + "/harrow/12.job"));
  EXPECT_EQ(NoteOfJob(places, 12), Note::kOver);
  EXPECT_EQ(system(("chattr -i " + fixed).c_str()), 0);
  // A marker that stays is told, by a start of the same job as by the next sweep.
  const std::string marker = local + "/harrow/12.job";
  EXPECT_EQ(system(("chattr +i " + marker).c_str()), 0);
  logged.clear();
  EXPECT_EQ(MakeJobDirectory(places, job, 60), Made::kNot);
  PrepareNode(places, 60);
  EXPECT_THAT(logged, ElementsAre("error: no job directory: " + marker + ": Operation not permitted",
                                  "error: " + marker + ": Operation not permitted"));
  EXPECT_FALSE(fs::exists(local + "/harrow/12"));
  EXPECT_EQ(system(("chattr -i " + marker).c_str()), 0);
  PrepareNode(places, 60);
  EXPECT_EQ(logged.back(), "notice: removed " + local + "/harrow/12: its job's end could not");
  EXPECT_TRUE(fs::is_empty(local + "/harrow"));
  fs::remove_all(name);
}

}  // namespace
}  // namespace harrow::plugin
