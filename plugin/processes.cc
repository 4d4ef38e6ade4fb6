#include "processes.h"

#include <algorithm>
#include <charconv>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "fd.h"

// Slurm ends what its process tracking still knows. What is left are processes that left their session or
// lost their slurmstepd. They cannot be listed by asking, so all of /proc is read: once for the members, who
// are stopped so that they cannot fork, again until there are no new ones, and then all are killed. A process
// is signalled through a pidfd that was opened before it was judged, so a number that is used again meanwhile
// hits nobody (kernels without pidfds: the start time is compared). An environment is the user's to forge,
// but only processes of that same user are looked at.

namespace harrow::plugin {
namespace {

constexpr int kRounds = 50;
constexpr long kWaitMilliseconds = 5000;
constexpr unsigned kKernelThread = 0x00200000;
constexpr int kTriesToRead = 100, kTimesEmpty = 3;

struct Process {
  pid_t pid, parent;
  uid_t uid;
  unsigned long long started;
  unsigned flags;
  char state;
  bool member, judged;
};

// std::vector needs the C++ runtime.
class Table {
 public:
  Table() = default;
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  ~Table() { free(data_); }
  bool Add(const Process& process) {
    if (size_ == capacity_) {
      const size_t wanted = capacity_ + 64;
      void* bigger = realloc(data_, wanted * sizeof(Process));
      if (bigger == nullptr) return false;
      data_ = static_cast<Process*>(bigger);
      capacity_ = wanted;
    }
    data_[size_++] = process;
    return true;
  }
  void Clear() { size_ = 0; }
  Process* begin() { return data_; }
  Process* end() { return data_ + size_; }
  // /proc lists in rising order, so this stays sorted.
  Process* Find(pid_t pid) {
    size_t low = 0, high = size_;
    while (low < high) {
      size_t middle = (low + high) / 2;
      if (data_[middle].pid < pid) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low < size_ && data_[low].pid == pid ? &data_[low] : nullptr;
  }

 private:
  Process* data_ = nullptr;
  size_t size_ = 0, capacity_ = 0;
};

int OpenProcFile(pid_t pid, const char* file) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
  return open(path, kReadFile);
}

// Its beginning as text; "" where there is none.
void ReadProcFile(pid_t pid, const char* file, char* text, size_t size) {
  Fd fd(OpenProcFile(pid, file));
  const ssize_t n = read(fd, text, size - 1);
  text[std::max<ssize_t>(n, 0)] = '\0';
}

bool ReadProcess(pid_t pid, Process* out) {
  char text[2048];
  ReadProcFile(pid, "stat", text, sizeof text);
  const char* at = strrchr(text, ')');  // a program may be called ") R 1"
  if (at == nullptr) return false;
  out->pid = pid;
  // After the name: state, parent, and 18 numbers before the start time.
  if (sscanf(at + 1, " %c %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
             &out->state, &out->parent, &out->started) != 3) {
    return false;
  }
  ReadProcFile(pid, "status", text, sizeof text);
  at = strstr(text, "\nUid:");
  if (at == nullptr) return false;
  out->uid = static_cast<uid_t>(strtoul(at + 5, nullptr, 10));
  return true;
}

void ReadAll(Table* table) {
  table->Clear();
  DIR* proc = opendir("/proc");
  if (proc == nullptr) return;
  while (const dirent* entry = readdir(proc)) {
    Process process{};
    const pid_t pid = atoi(entry->d_name);  // 0: it is none's; init is nobody's to end
    if (pid > 1 && ReadProcess(pid, &process) && !table->Add(process)) break;
  }
  closedir(proc);
}

// Whether the kernel says of a process that it has no environment. While a program is loaded the old one is
// gone, and the new one's place is told in two steps, between which it looks empty.
bool HasNoEnvironment(pid_t pid) {
  char text[2048];
  ReadProcFile(pid, "stat", text, sizeof text);
  const char* at = strrchr(text, ')');
  unsigned long begin = 0, end = 0;
  // Fields 3 to 51 of proc(5).
  for (int field = 3; field <= 51 && at != nullptr; ++field) {
    at = strchr(at + 1, ' ');
    if (at == nullptr) break;
    if (field == 50) begin = strtoul(at, nullptr, 10);
    if (field == 51) end = strtoul(at, nullptr, 10);
  }
  return at == nullptr || (end != 0 && begin == end);
}

bool IsMarked(pid_t pid, const JobProcesses& job) {
  char chunk[16384];
  EnvironmentScan scan(job.directory);
  bool read_any = false;
  int empty = 0;  // how often in a row it had none
  for (int tries = 0; tries < kTriesToRead && !read_any && empty < kTimesEmpty; ++tries) {
    if (tries > 0) Pause(1);
    Fd fd(OpenProcFile(pid, "environ"));
    if (fd.none()) break;
    ssize_t n;
    while ((n = read(fd, chunk, sizeof chunk)) > 0) {
      scan.Feed(chunk, static_cast<size_t>(n));
      read_any = true;
    }
    empty = !read_any && HasNoEnvironment(pid) ? empty + 1 : 0;
  }
  scan.Finish();
  const uint32_t named = scan.job_id();
  if (scan.has_directory() && (named == 0 || named == job.id || named == job.leader)) return true;
  ReadProcFile(pid, "cgroup", chunk, sizeof chunk);
  return IsCgroupOfJob(chunk, job.id);
}

// Marks the members of the table; their number.
unsigned Judge(Table* table, const JobProcesses& job) {
  unsigned members = 0;
  // Not whoever called us, however they came by the mark. While all are read, numbers may be used again, so
  // that two look like each other's parents.
  for (const pid_t first : {getpid(), job.caller}) {
    for (Process* self = table->Find(first); self != nullptr && !self->judged;
         self = table->Find(self->parent)) {
      self->judged = true;
    }
  }
  for (Process& process : *table) {
    if (process.judged || process.uid != job.uid || process.state == 'Z' ||
        (process.flags & kKernelThread) != 0) {
      process.judged = true;
    } else if (IsMarked(process.pid, job)) {
      process.judged = process.member = true;
      ++members;
    }
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (Process& process : *table) {
      if (process.judged) continue;
      Process* parent = table->Find(process.parent);
      if (parent == nullptr || !parent->member) continue;
      process.judged = process.member = changed = true;
      ++members;
    }
  }
  return members;
}

bool IsSame(const Process& process) {
  Process now{};
  return ReadProcess(process.pid, &now) && now.started == process.started && now.uid == process.uid &&
         now.state != 'Z';
}

// The pidfd is opened first and the process compared after, so the signal reaches the one that was judged or
// nobody.
void Signal(const Process& process, int signal) {
  const Fd fd(static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0)));
  if (fd.none() && errno != ENOSYS) return;
  if (!IsSame(process)) return;
  if (fd.none()) {
    kill(process.pid, signal);
  } else {
    syscall(SYS_pidfd_send_signal, static_cast<int>(fd), signal, nullptr, 0);
  }
}

}  // namespace

void EnvironmentScan::Feed(const char* data, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    if (data[i] == '\0') {
      Entry();
      size_ = 0;
    } else {
      if (size_ < sizeof entry_) entry_[size_] = data[i];
      ++size_;
    }
  }
}

void EnvironmentScan::Finish() {
  if (size_ > 0) Entry();
}

void EnvironmentScan::Entry() {
  if (size_ > sizeof entry_) return;
  std::string_view entry(entry_, size_);
  constexpr std::string_view kDirectory = "HARROW_LOCAL=", kJob = "SLURM_JOB_ID=";
  if (entry.starts_with(kDirectory)) {
    entry.remove_prefix(kDirectory.size());
    has_directory_ = has_directory_ || entry == directory_;
  } else if (entry.starts_with(kJob)) {
    entry.remove_prefix(kJob.size());
    std::from_chars(entry.data(), entry.data() + entry.size(), job_id_);
  }
}

bool IsCgroupOfJob(std::string_view text, uint32_t id) {
  char name[32];
  int size = snprintf(name, sizeof name, "/job_%u", id);
  std::string_view job(name, static_cast<size_t>(size));
  for (size_t at = text.find(job); at != std::string_view::npos; at = text.find(job, at + 1)) {
    size_t end = at + job.size();
    if (end != text.size() && text[end] != '/' && text[end] != '\n') continue;
    // Only below Slurm's own: v1 /slurm[_NODE]/uid_N/job_N, v2 .../slurmstepd.scope/job_N (or
    // NODE_slurmstepd.scope).
    std::string_view before(text.data(), at);
    before.remove_prefix(before.rfind('\n') + 1);  // npos + 1 is 0
    if (before.find("slurm") != std::string_view::npos) return true;
  }
  return false;
}

Ended EndProcesses(const JobProcesses& job) {
  Ended ended;
  Table table;
  unsigned known = 0;
  for (int round = 0; round < kRounds; ++round) {
    ReadAll(&table);
    unsigned members = Judge(&table, job);
    if (members == 0) return ended;
    for (const Process& process : table) {
      if (process.member) Signal(process, SIGSTOP);
    }
    if (members == known) break;  // all stopped: nobody forks any more
    known = members;
  }
  long pause = 1;
  for (long waited = 0; waited < kWaitMilliseconds; waited += pause, pause += pause) {
    for (const Process& process : table) {
      if (!process.member) continue;
      Signal(process, SIGKILL);
      if (waited == 0) ++ended.ended;
    }
    Pause(pause);
    ended.left = 0;
    for (const Process& process : table) {
      if (process.member && IsSame(process)) ended.left = process.pid;
    }
    // All of them first: what has lost its parent is not known as a member any more.
    if (ended.left != 0) continue;
    // Also those that were forked before their parent stopped.
    ReadAll(&table);
    if (Judge(&table, job) == 0) break;
    for (const Process& process : table) {
      if (process.member) ended.left = process.pid;
    }
  }
  return ended;
}

}  // namespace harrow::plugin
