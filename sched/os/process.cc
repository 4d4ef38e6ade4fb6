// Ending descendants. A process that forked twice or called setsid is still below us: when its parent dies it
// becomes the child of the nearest subreaper, which is the caller. So we kill what /proc shows below us and
// reap, again and again, until there is no child left: whatever a dying process started meanwhile has then
// come to us as well.
#include "os/process.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <unordered_map>
#include <unordered_set>

#include "base/text.h"

namespace harrow::os {
namespace {

/// A whole small file of /proc; empty when it cannot be read.
std::string ReadProc(const std::string& path) {
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  std::string out;
  char buffer[4096];
  ssize_t n;
  while ((n = read(fd, buffer, sizeof buffer)) > 0 || (n < 0 && errno == EINTR)) {
    if (n > 0) out.append(buffer, static_cast<size_t>(n));
  }
  close(fd);
  return out;
}

struct ProcessLine {
  pid_t parent = 0;
  char state = 0;
};

bool ReadStat(pid_t pid, ProcessLine* out) {
  std::string stat = ReadProc(StrCat("/proc/", pid, "/stat"));
  // The name, in parentheses, may hold anything.
  size_t after = stat.rfind(')');
  if (after == std::string::npos || after + 4 >= stat.size()) return false;
  out->state = stat[after + 2];
  const char* begin = stat.data() + after + 4;
  return std::from_chars(begin, stat.data() + stat.size(), out->parent).ec == std::errc();
}

/// Children of every process of the machine that we can see.
std::unordered_map<pid_t, std::vector<pid_t>> AllChildren() {
  std::unordered_map<pid_t, std::vector<pid_t>> children;
  DIR* proc = opendir("/proc");
  if (proc == nullptr) return children;
  while (dirent* entry = readdir(proc)) {
    pid_t pid = 0;
    const char* name = entry->d_name;
    auto [end, error] = std::from_chars(name, name + strlen(name), pid);
    ProcessLine line;
    if (error != std::errc() || *end != '\0' || !ReadStat(pid, &line) || line.state == 'Z') continue;
    children[line.parent].push_back(pid);
  }
  closedir(proc);
  return children;
}

std::vector<pid_t> Below(pid_t root, std::span<const pid_t> except) {
  const auto children = AllChildren();
  std::vector<pid_t> found;
  std::vector<pid_t> todo = {root};
  std::unordered_set<pid_t> seen = {root};
  for (size_t next = 0; next < todo.size(); ++next) {
    auto it = children.find(todo[next]);
    if (it == children.end()) continue;
    for (pid_t child : it->second) {
      if (std::find(except.begin(), except.end(), child) != except.end() || !seen.insert(child).second)
        continue;
      found.push_back(child);
      todo.push_back(child);
    }
  }
  return found;
}

Duration Steady() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
}

/// Reaps what has ended, but not `except`. True when no other child is left.
bool Reap(std::span<const pid_t> except) {
  if (except.empty()) {
    while (true) {
      pid_t pid = waitpid(-1, nullptr, WNOHANG);
      if (pid < 0 && errno == EINTR) continue;
      if (pid <= 0) return pid < 0;
    }
  }
  // waitpid(-1) would also take the ends of those that somebody else waits for.
  const auto self = getpid();
  bool none = true;
  DIR* proc = opendir("/proc");
  if (proc == nullptr) return false;
  while (dirent* entry = readdir(proc)) {
    pid_t pid = 0;
    const char* name = entry->d_name;
    auto [end, error] = std::from_chars(name, name + strlen(name), pid);
    ProcessLine line;
    if (error != std::errc() || *end != '\0' || !ReadStat(pid, &line) || line.parent != self) continue;
    if (std::find(except.begin(), except.end(), pid) != except.end()) continue;
    if (waitpid(pid, nullptr, WNOHANG) != pid) none = false;
  }
  closedir(proc);
  return none;
}

}  // namespace

Status BecomeSubreaper() {
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) == 0) return {};
  return Status(Code::kInternal, StrCat("cannot become a child subreaper: ", strerror(errno)));
}

Status DieWithParent(int signal, pid_t parent) {
  if (prctl(PR_SET_PDEATHSIG, signal) != 0)
    return Status(Code::kInternal, StrCat("cannot follow the parent's death: ", strerror(errno)));
  if (getppid() != parent)
    return Status(Code::kUnavailable, StrCat("the parent process ", parent, " is gone"));
  return {};
}

void TakeSignals() {
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action {};
    if (sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN) ::signal(signal, SIG_DFL);
  }
  sigset_t all;
  sigfillset(&all);
  // Faults are not for anybody else to handle.
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS, SIGPROF})
    sigdelset(&all, signal);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
}

int SignalDescriptor(std::span<const int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : signals) sigaddset(&set, signal);
  return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int ReadSignal(int fd) {
  signalfd_siginfo info{};
  ssize_t n;
  while ((n = read(fd, &info, sizeof info)) < 0 && errno == EINTR) {
  }
  return n == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
}

int OpenPidfd(pid_t pid) {
  return static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
}

std::vector<pid_t> Descendants(pid_t root) {
  return Below(root, {});
}

uint64_t ResidentMemory(pid_t pid) {
  std::string statm = ReadProc(StrCat("/proc/", pid, "/statm"));
  size_t blank = statm.find(' ');
  uint64_t pages = 0;
  if (blank == std::string::npos) return 0;
  std::from_chars(statm.data() + blank + 1, statm.data() + statm.size(), pages);
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

uint64_t ProportionalMemory(pid_t pid) {
  std::string rollup = ReadProc(StrCat("/proc/", pid, "/smaps_rollup"));
  size_t at = rollup.find("\nPss:");
  if (at == std::string::npos) return ResidentMemory(pid);
  at = rollup.find_first_of("0123456789", at);
  uint64_t kib = 0;
  if (at != std::string::npos) std::from_chars(rollup.data() + at, rollup.data() + rollup.size(), kib);
  return kib * 1024;
}

void ForgetPeakMemory() {
  const int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  [[maybe_unused]] const ssize_t written = write(fd, "5", 1);
  close(fd);
}

Status EndDescendants(Duration grace, std::span<const pid_t> except, Duration limit) {
  const Duration start = Steady();
  const pid_t self = getpid();
  bool asked = grace <= Duration(0);
  Duration pause = std::chrono::milliseconds(1);
  while (!Reap(except)) {
    const Duration passed = Steady() - start;
    const bool kill_now = passed >= grace;
    if (kill_now || !asked) {
      for (pid_t pid : Below(self, except)) {
        kill(pid, kill_now ? SIGKILL : SIGTERM);
        if (!kill_now) kill(pid, SIGCONT);
      }
      asked = true;
    }
    if (passed > grace + limit) {
      const std::vector<pid_t> left = Below(self, except);
      return Status(Code::kUnavailable, StrCat(left.size(), " process(es) could not be ended, the first is ",
                                               left.empty() ? 0 : left.front()));
    }
    poll(nullptr, 0, static_cast<int>(pause / std::chrono::milliseconds(1)));
    pause = std::min<Duration>(pause * 2, std::chrono::milliseconds(50));
  }
  return {};
}

Duration ProcessorTime() {
  Duration sum{0};
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    getrusage(who, &usage);
    for (const timeval& part : {usage.ru_utime, usage.ru_stime}) {
      sum += std::chrono::seconds(part.tv_sec) + std::chrono::microseconds(part.tv_usec);
    }
  }
  return sum;
}

std::string DescribeWaitStatus(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    const char* name = sigdescr_np(WTERMSIG(wait_status));
    return StrCat("signal ", WTERMSIG(wait_status), " (", name != nullptr ? name : "unknown", ")");
  }
  return StrCat("exit code ", WEXITSTATUS(wait_status));
}

}  // namespace harrow::os
