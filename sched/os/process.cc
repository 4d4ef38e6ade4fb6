// Ending descendants. A process that forked twice or called setsid is still below us: when its parent dies it
// becomes the child of the nearest subreaper, which is the caller. So we kill what /proc shows below us and
// reap, again and again, until there is no child left: whatever a dying process started meanwhile has then
// come to us as well.
//
// The number of a process that has been reaped is given to another sooner or later. So nobody is signalled by
// number but our own children, whom nobody else can reap; all others by a pidfd that was opened before their
// start time was compared. Where the kernel has none (before 5.3) they are left alone until they have become
// children of ours.
#include "os/process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
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
#include "os/clock.h"

namespace harrow::os {
namespace {

/// A whole small file of /proc; empty when it cannot be read.
std::string ReadProc(const std::string& path) {
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  std::string out;
  char buffer[4096];
  for (ssize_t n; (n = TEMP_FAILURE_RETRY(read(fd, buffer, sizeof buffer))) > 0;) out.append(buffer, static_cast<size_t>(n));
  close(fd);
  return out;
}

bool Lives(const Process& process) {
  Process now;
  return ReadProcess(process.pid, &now) && now.started == process.started;
}

/// Every process of the machine that we can see.
std::vector<Process> AllProcesses() {
  std::vector<Process> all;
  DIR* proc = opendir("/proc");
  if (proc == nullptr) return all;
  while (dirent* entry = readdir(proc)) {
    Process process;
    const char* name = entry->d_name;
    auto [end, error] = std::from_chars(name, name + strlen(name), process.pid);
    if (error == std::errc() && *end == '\0' && ReadProcess(process.pid, &process)) all.push_back(process);
  }
  closedir(proc);
  return all;
}

std::vector<Process> Below(const std::vector<Process>& all, const Process& root,
                           std::span<const pid_t> except) {
  std::unordered_map<pid_t, std::vector<Process>> children;
  for (const Process& process : all) children[process.parent].push_back(process);
  std::vector<Process> todo = {root};
  std::unordered_set<pid_t> seen = {root.pid};
  for (size_t next = 0; next < todo.size(); ++next) {
    auto it = children.find(todo[next].pid);
    if (it == children.end()) continue;
    // One that lives now was, all the time that /proc was read, the only one of its number: these are its
    // children.
    if (todo[next].started != 0 && !Lives(todo[next])) continue;
    for (const Process& child : it->second) {
      if (std::find(except.begin(), except.end(), child.pid) != except.end() ||
          !seen.insert(child.pid).second)
        continue;
      todo.push_back(child);
    }
  }
  todo.erase(todo.begin());
  return todo;
}

/// Somebody's parent was not there any more when its turn came.
bool HasUnclear(const std::vector<Process>& all) {
  std::unordered_set<pid_t> there = {0};
  for (const Process& process : all) there.insert(process.pid);
  return std::any_of(all.begin(), all.end(), [&](const Process& p) { return !there.contains(p.parent); });
}

std::vector<Process> Below(const Process& root, std::span<const pid_t> except) {
  return Below(AllProcesses(), root, except);
}

/// Reaps what has ended, but not `except`. True when no other child is left.
bool Reap(std::span<const pid_t> except) {
  if (except.empty()) {
    while (true) {
      const auto pid = TEMP_FAILURE_RETRY(waitpid(-1, nullptr, WNOHANG));
      if (pid <= 0) return pid < 0;
    }
  }
  // waitpid(-1) would also take the ends of those that somebody else waits for.
  bool none = true;
  DIR* proc = opendir("/proc");
  if (proc == nullptr) return false;
  while (dirent* entry = readdir(proc)) {
    pid_t pid = 0;
    const char* name = entry->d_name;
    auto [end, error] = std::from_chars(name, name + strlen(name), pid);
    if (error != std::errc() || *end != '\0') continue;
    if (std::find(except.begin(), except.end(), pid) != except.end()) continue;
    // Others' children are none of its business (ECHILD).
    siginfo_t info{};
    if (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG) == 0 && info.si_pid == 0)
      none = false;
  }
  closedir(proc);
  return none;
}

}  // namespace

bool ReadProcess(pid_t pid, Process* out) {
  const std::string stat = ReadProc(StrCat("/proc/", pid, "/stat"));
  // The name, in parentheses, may hold anything. After it: state, parent, group, 16 others, start time.
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return false;
  constexpr size_t kState = 0, kParent = 1, kGroup = 2, kStarted = 19;
  std::string_view left = std::string_view(stat).substr(name_end + 1);
  out->pid = pid;
  for (size_t field = 0; field <= kStarted; ++field) {
    const size_t begin = left.find_first_not_of(' ');
    if (begin == std::string_view::npos) return false;
    left.remove_prefix(begin);
    const std::string_view word = left.substr(0, left.find(' '));
    left.remove_prefix(word.size());
    const char* end = word.data() + word.size();
    std::errc error{};
    if (field == kState && (word == "Z" || word == "X")) return false;
    if (field == kState) out->stopped = word == "T" || word == "t";
    if (field == kParent) error = std::from_chars(word.data(), end, out->parent).ec;
    if (field == kGroup) error = std::from_chars(word.data(), end, out->group).ec;
    if (field == kStarted) error = std::from_chars(word.data(), end, out->started).ec;
    if (error != std::errc()) return false;
  }
  return true;
}

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

void CloseOthersOnExec() {
  DIR* open_ones = opendir("/proc/self/fd");
  if (open_ones == nullptr) return;
  while (const dirent* entry = readdir(open_ones)) {
    int fd = 0;
    const char* name = entry->d_name;
    const auto [end, error] = std::from_chars(name, name + strlen(name), fd);
    if (error == std::errc() && fd > 2) fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
  closedir(open_ones);
}

int SignalDescriptor(std::span<const int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : signals) sigaddset(&set, signal);
  return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int ReadSignal(int fd) {
  signalfd_siginfo info{};
  const ssize_t n = TEMP_FAILURE_RETRY(read(fd, &info, sizeof info));
  return n == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
}

int OpenPidfd(pid_t pid) {
  return static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
}

std::vector<Process> Descendants(pid_t root) {
  return Below({.pid = root}, {});
}

std::vector<Process> Descendants(const Process& root) {
  return Below(root, {});
}

std::string ProgramOf(const Process& process) {
  std::string name;
  if (std::FILE* file = std::fopen(StrCat("/proc/", process.pid, "/comm").c_str(), "re")) {
    char line[32];
    if (std::fgets(line, sizeof line, file) != nullptr) name = line;
    std::fclose(file);
  }
  if (name.ends_with('\n')) name.pop_back();
  return Lives(process) ? name : std::string();
}

bool SignalProcess(const Process& process, int signal) {
  const int fd = OpenPidfd(process.pid);
  if (fd < 0) return false;
  const bool sent = Lives(process) && syscall(SYS_pidfd_send_signal, fd, signal, nullptr, 0) == 0;
  close(fd);
  return sent;
}

void Stopper::Send(const Process& process, int signal) const {
  if (process.parent == getpid()) {
    if (Lives(process)) kill(process.pid, signal);  // and only this thread reaps it
  } else if (!SignalProcess(process, signal) && root_ != getpid() && process.group == root_ &&
             Lives(process)) {
    kill(-root_, signal);  // a kernel without pidfds
  }
}

bool Stopper::Stop(pid_t root, std::span<const pid_t> except) {
  // A fork that has begun goes on after the parent was sent the signal, so it counts only when it stands:
  // then all its children are seen. It may not for long, where it gets no processor or waits for storage.
  constexpr Duration kPatience = std::chrono::seconds(2);
  constexpr timespec kLongestPause = {.tv_sec = 0, .tv_nsec = 64'000'000};
  // One may have ended while its child was read before it: whose child that is the next look tells. Where
  // the processes of others cannot be seen it never does.
  constexpr int kMostUnclear = 3;
  root_ = root;
  int unclear = 0;
  bool any_moved = false;
  timespec pause = {.tv_sec = 0, .tv_nsec = 1'000'000};
  const Duration until = RealClock().Steady() + kPatience;
  for (;;) {
    const std::vector<Process> all = AllProcesses();
    std::vector<Process> found = Below(all, {.pid = root}, {});
    if (root != getpid()) {
      std::unordered_set<pid_t> below;
      for (const Process& process : found) below.insert(process.pid);
      // Of the group also those whose parents have died.
      for (const Process& process : all) {
        if ((process.pid == root || process.group == root) && !below.contains(process.pid))
          found.push_back(process);
      }
    }
    bool any = false, moves = false;
    for (const Process& process : found) {
      if (process.stopped || std::find(except.begin(), except.end(), process.pid) != except.end()) continue;
      moves = any_moved = true;
      Send(process, SIGSTOP);
      const auto same = [&process](const Process& p) {
        return p.pid == process.pid && p.started == process.started;
      };
      if (std::any_of(stopped_.begin(), stopped_.end(), same)) continue;
      stopped_.push_back(process);
      any = true;
    }
    if (!moves && (!HasUnclear(all) || ++unclear > kMostUnclear)) return any_moved;
    if (RealClock().Steady() > until) return any_moved;
    if (any) continue;
    nanosleep(&pause, nullptr);
    pause.tv_nsec = std::min(2 * pause.tv_nsec, kLongestPause.tv_nsec);
  }
}

void Stopper::Continue(const std::function<bool()>& may) {
  // Children first, so that no parent sees a child of its own stand.
  for (; !stopped_.empty() && may(); stopped_.pop_back()) Send(stopped_.back(), SIGCONT);
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

namespace {

/// Reads a file of /proc in one call where it is small; how many bytes, negative: none such.
ssize_t ReadSmall(const char* path, std::span<char> buffer) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  const ssize_t n = TEMP_FAILURE_RETRY(read(fd, buffer.data(), buffer.size()));
  close(fd);
  return n;
}

/// Appends the children of a thread. False where the kernel does not list them (CONFIG_PROC_CHILDREN).
bool AddChildren(pid_t pid, const char* thread, std::vector<ProcessMemory>* to) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/task/%s/children", pid, thread);
  char buffer[4096];
  const ssize_t n = ReadSmall(path, buffer);
  if (n < 0) return errno != ENOENT || access(StrCat("/proc/", pid, "/task/", thread).c_str(), F_OK) != 0;
  std::string whole;
  const char* at = buffer;
  const char* end = buffer + n;
  if (static_cast<size_t>(n) + 16 > sizeof buffer) {  // a number that did not fit may have been left out
    whole = ReadProc(path);
    at = whole.data();
    end = at + whole.size();
  }
  while (at < end) {
    pid_t child = 0;
    const auto [after, error] = std::from_chars(at, end, child);
    if (error != std::errc()) break;
    to->push_back({.pid = child});
    at = after + 1;
  }
  return true;
}

/// Threads and resident memory of a process; false when it is gone.
bool ReadSize(pid_t pid, long* threads, uint64_t* resident) {
  char path[32], buffer[1024];
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  const ssize_t n = ReadSmall(path, buffer);
  if (n <= 0) return false;
  const std::string_view stat(buffer, static_cast<size_t>(n));
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string_view::npos) return false;
  constexpr int kThreads = 17, kResident = 21;  // counted from the state, which follows the name
  size_t at = name_end + 2;
  for (int field = 0; at < stat.size(); ++field) {
    const size_t end = std::min(stat.find(' ', at), stat.size());
    if (field == kThreads) std::from_chars(&stat[at], stat.data() + end, *threads);
    if (field == kResident) {
      static const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
      std::from_chars(&stat[at], stat.data() + end, *resident);
      *resident *= page;
      return true;
    }
    at = end + 1;
  }
  return false;
}

}  // namespace

std::vector<ProcessMemory> MemoryOfTree(pid_t root) {
  std::vector<ProcessMemory> all = {{.pid = root}};
  bool listed = true;
  for (size_t next = 0; next < all.size() && listed; ++next) {
    const pid_t pid = all[next].pid;
    long threads = 1;
    if (!ReadSize(pid, &threads, &all[next].resident)) continue;
    if (threads == 1) {
      listed = AddChildren(pid, std::to_string(pid).c_str(), &all);
      continue;
    }
    DIR* tasks = opendir(StrCat("/proc/", pid, "/task").c_str());
    if (tasks == nullptr) continue;
    while (const dirent* task = readdir(tasks)) {
      if (task->d_name[0] != '.') listed = AddChildren(pid, task->d_name, &all) && listed;
    }
    closedir(tasks);
  }
  if (listed) return all;
  all.assign(1, {.pid = root, .resident = ResidentMemory(root)});
  for (const Process& process : Descendants(root)) all.push_back({process.pid, ResidentMemory(process.pid)});
  return all;
}

void ForgetPeakMemory() {
  const int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  [[maybe_unused]] const ssize_t written = write(fd, "5", 1);
  close(fd);
}

Status EndDescendants(Duration grace, std::span<const pid_t> except, Duration limit) {
  const Duration start = RealClock().Steady();
  const Process self{.pid = getpid()};
  const auto send = [&self](const Process& process, int signal) {
    if (process.parent == self.pid) {
      kill(process.pid, signal);
    } else {
      SignalProcess(process, signal);
    }
  };
  bool asked = grace <= Duration(0);
  Duration pause = std::chrono::milliseconds(1);
  while (!Reap(except)) {
    const Duration passed = RealClock().Steady() - start;
    const bool kill_now = passed >= grace;
    if (kill_now || !asked) {
      for (const Process& process : Below(self, except)) {
        send(process, kill_now ? SIGKILL : SIGTERM);
        if (!kill_now) send(process, SIGCONT);
      }
      asked = true;
    }
    if (passed > grace + limit) {
      const std::vector<Process> left = Below(self, except);
      return Status(Code::kUnavailable, StrCat(left.size(), " process(es) could not be ended, the first is ",
                                               left.empty() ? 0 : left.front().pid));
    }
    poll(nullptr, 0, static_cast<int>(pause / std::chrono::milliseconds(1)));
    pause = std::min<Duration>(pause * 2, std::chrono::milliseconds(50));
  }
  return {};
}

std::string UserName(uid_t uid) {
  std::array<char, 4096> buffer{};
  passwd entry{};
  passwd* found = nullptr;
  const bool known = getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr;
  return known ? found->pw_name : "";
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
