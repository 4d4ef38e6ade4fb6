// How a task's end is waited for. Most tasks of a big flow are short and say little, and for them every
// system call counts. So a slot whose task before was such a one waits "blindly": in waitid alone, without
// looking at the pipes and without a time limit. The collector's pulse (slot_pool.cc) interrupts a blind wait
// that lasts some ms by a signal to the thread; from then on, and from the start for other tasks, the slot
// polls the pipes, the process (pidfd) and its own wake-up descriptor, with the next deadline as time-out.
// What a short task wrote waits in the pipes meanwhile.
//
// A task is over when its process exits. Others that still hold its pipes get kGrace; what is left in its
// process group is killed then. Until then the process is not reaped: as long as it has its number, nobody
// else can have it, nor the group's, and what we kill is the task's. Those that left the group and are still
// below the task when it is being ended are remembered, each by number and start time, and end with it,
// whether their parents live or not.
//
// Whether and how a task is to be ended is for the core to say (core/core.cc); here its word is carried out.
// While the fence stands (fence_page.cc) the task's processes are stopped, unless it is being ended.
//
// This thread has a descriptor table of its own (slot_pool.cc): nothing here may use a descriptor that was
// opened elsewhere, the log's neither.
#include "agent/task_runner.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/file_pattern.h"
#include "base/text.h"
#include "made/remove.h"
#include "os/process.h"

namespace harrow::agent {
namespace {

using std::chrono::milliseconds;

constexpr Duration kGrace = milliseconds(500);
constexpr Duration kReportStarted = milliseconds(20);
constexpr Duration kHandOnOutput = milliseconds(100);
constexpr Duration kShort = milliseconds(1);  // a task that may be waited for blindly
constexpr uint64_t kSaysLittle = 32 * 1024;   // bytes, half of a pipe
constexpr Duration kNever = Duration::max();
constexpr Duration kWithoutPidfd = milliseconds(20);
constexpr int kOomScore = 500;
constexpr int64_t kPeakDoubt = 16;  // a part of it: the kernel's counts of resident pages are not exact
constexpr int kMostRounds = 20;     // of starting a program
constexpr int kRoundPause = 20;     // ms

Duration FromTimeval(const timeval& t) {
  return std::chrono::seconds(t.tv_sec) + std::chrono::microseconds(t.tv_usec);
}

class OwnedFd {
 public:
  OwnedFd() = default;
  explicit OwnedFd(int fd) : fd_(fd) {}
  ~OwnedFd() { Reset(); }
  OwnedFd(const OwnedFd&) = delete;
  OwnedFd& operator=(const OwnedFd&) = delete;
  int get() const { return fd_; }
  void Reset(int fd = -1) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

int OpenRetrying(const std::string& path, int flags) {
  int fd;
  while ((fd = open(path.c_str(), flags | O_CLOEXEC, 0666)) < 0 && errno == EINTR) {
  }
  return fd;
}

/// `path` below `directory`, unless it is absolute.
std::string Below(const std::string& directory, const std::string& path) {
  return !path.empty() && path.front() == '/' ? path : StrCat(directory, "/", path);
}

int64_t SizeOf(const std::string& path) {
  struct stat st {};
  return stat(path.c_str(), &st) == 0 ? st.st_size : -1;
}

/// Empties a file that is one of the task's own outputs: each attempt writes it from the start.
void BeginAnew(const LocalTask& task, int fd, const FencePage& fence, const os::Clock& clock) {
  struct stat file {
  }, output{};
  if (task.outputs.empty() || fstat(fd, &file) != 0 || !S_ISREG(file.st_mode) || file.st_size == 0) return;
  for (const std::string& name : task.outputs) {
    const std::string path = Below(task.profile->base().common().submit_dir, name);
    if (stat(path.c_str(), &output) != 0 || output.st_ino != file.st_ino || output.st_dev != file.st_dev)
      continue;
    if (!fence.MayRun(clock.Steady())) return;  // then the task does not begin either
    [[maybe_unused]] const int emptied = ftruncate(fd, 0);
    return;
  }
}

/// Another try may succeed: a program that is being written by somebody, no process or memory to be had just
/// now.
bool MayPass(int error) {
  return error == ENOENT || error == ETXTBSY || error == EAGAIN || error == ENOMEM;
}

TaskResult& NotStarted(TaskResult* result, std::string why, int code = 0) {
  result->end = End::kNotStarted;
  result->message = std::move(why);
  result->code = code;
  return *result;
}

bool HasEnded(pid_t pid) {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
}

/// What is known of a task's memory when the kernel counts the peak of its starter in (os/spawn.cc).
int64_t OwnPeak(int64_t counted_kib, int64_t starter_kib) {
  const int64_t doubtful = starter_kib + starter_kib / kPeakDoubt;
  return counted_kib > doubtful ? counted_kib : -doubtful;
}

}  // namespace

/// Descriptors that the child gets; -1: as the agent's own standard input.
struct TaskRunner::Files {
  OwnedFd in, out, err;
  int stdout_fd = -1;
  int stderr_fd = -1;
};

TaskRunner::TaskRunner(uint32_t slot, NodeContext& node, const os::Clock& clock, Collector& collector,
                       SlotSignals& signals, TellCore tell_core)
    : slot_(slot),
      node_(node),
      clock_(clock),
      collector_(collector),
      signals_(signals),
      tell_core_(std::move(tell_core)),
      tmp_(node.tmp_root, slot),
      stdout_(output::Stream::kStdout, collector),
      stderr_(output::Stream::kStderr, collector),
      made_(node.made) {}

Status TaskRunner::ReadyOutputs(const LocalTask& task) {
  looked_.reset();
  if (task.outputs.empty()) return {};
  const std::string& directory = task.profile->base().common().submit_dir;
  made::Attempt now{.task = task.id, .attempt = task.attempt};
  for (uint32_t i = 0; i < task.outputs.size(); ++i) {
    const std::string& name = task.outputs[i];
    const auto& earlier = task.earlier;
    if (earlier && !std::binary_search(earlier->found.begin(), earlier->found.end(), i)) {
      const Status removed = made::RemoveMade(directory, name, {earlier->begin_ns, earlier->end_ns});
      if (!removed.ok())
        return Status(removed.code(), "an output of the earlier attempt stays: " + removed.message());
    }
    if (made::IsThere(directory, name)) now.found.push_back(i);
  }
  const Result<int64_t> began = made_.Began(task.id, task.attempt, now.found);
  if (!began.ok()) return {};  // then nothing of it is ever removed
  now.begin_ns = *began;
  looked_ = std::move(now);
  return {};
}

Status TaskRunner::OpenFiles(const LocalTask& task, Files* files) {
  const ProfileSpec& spec = task.profile->spec();
  const auto open_for = [](const char* what, const std::string& path, int flags, OwnedFd* fd) {
    fd->Reset(OpenRetrying(path, flags));
    if (fd->get() >= 0) return Status();
    return Status(Code::kInvalid, StrCat("cannot open its ", what, " ", path, ": ", strerror(errno)));
  };
  const auto expand = [&task](const std::string& pattern) {
    return pattern.empty() ? std::string() : ExpandFilePattern(pattern, *task.profile, task.id + 1);
  };
  // Somebody else's text may be there: another task's, an earlier attempt's, the user's.
  constexpr int kWrite = O_WRONLY | O_CREAT | O_APPEND;
  const std::string out = expand(spec.stdout_path);
  const std::string err = expand(spec.stderr_path);
  if (!spec.stdin_path.empty())
    HARROW_RETURN_IF_ERROR(open_for("stdin", expand(spec.stdin_path), O_RDONLY, &files->in));
  if (!out.empty()) {
    HARROW_RETURN_IF_ERROR(open_for("stdout", out, kWrite, &files->out));
    BeginAnew(task, files->out.get(), *node_.fence, clock_);
    files->stdout_fd = files->out.get();
  }
  if (!err.empty() && err == out) {
    files->stderr_fd = files->stdout_fd;
  } else if (!err.empty()) {
    HARROW_RETURN_IF_ERROR(open_for("stderr", err, kWrite, &files->err));
    BeginAnew(task, files->err.get(), *node_.fence, clock_);
    files->stderr_fd = files->err.get();
  }
  const uint64_t limit = node_.output_limit.load(std::memory_order_relaxed);
  const auto capture = [&](CapturedStream& stream, int* fd) {
    if (*fd >= 0) return stream.Reset();
    if (!stream.Open(task.id, task.attempt, limit)) return false;
    *fd = stream.write_fd();
    return true;
  };
  if (!capture(stdout_, &files->stdout_fd) || !capture(stderr_, &files->stderr_fd))
    return Status(Code::kExhausted, StrCat("no pipe for its output: ", strerror(errno)));
  return {};
}

pid_t TaskRunner::Start(const LocalTask& task, const Core::Given& given, TaskResult* result) {
  const TaskProfile& profile = *task.profile;
  const ProfileSpec& spec = profile.spec();
  Files files;
  std::string tmp_dir;
  Status ready = ReadyOutputs(task);
  if (ready.ok()) ready = OpenFiles(task, &files);
  const bool own_tmp = !node_.tmp_root.empty();
  if (ready.ok() && own_tmp) {
    Result<std::string> made = tmp_.Prepare(result->start);
    if (made.ok()) {
      tmp_dir = std::move(made).value();
    } else {
      ready = made.status();
    }
  }
  Result<char* const*> argv(nullptr);
  if (ready.ok()) {
    const bool function = task.form == CommandForm::kWords && profile.StartsWithFunction(task.command);
    argv = arguments_.Build(task.form, task.command, profile.shell(), !spec.shell.empty() || function);
    ready = argv.status();
  }
  if (!ready.ok()) {
    NotStarted(result, ready.message());
    return -1;
  }

  std::string cuda, rocr;
  for (uint32_t gpu : given.devices) {
    const topology::Device& device = node_.devices[gpu];
    std::string& list = device.kind == topology::DeviceKind::kNvidia ? cuda : rocr;
    list += StrCat(list.empty() ? "" : ",", device.id);
  }
  result->gpus = StrCat(cuda, cuda.empty() || rocr.empty() ? "" : ",", rocr);
  std::string number_name;
  if (task.name.empty()) number_name = StrCat("#", task.id + 1);
  const char* const* envp = environment_.Build(
      profile, {.number = task.id + 1,
                .name = task.name.empty() ? std::string_view(number_name) : std::string_view(task.name),
                .attempt = task.attempt,
                .cores = static_cast<uint32_t>(given.slots.size()),
                .tmp_dir = tmp_dir,
                .cuda_devices = cuda,
                .rocr_devices = rocr});

  std::vector<uint32_t> pus;
  for (uint32_t slot : given.slots) {
    const std::vector<uint32_t>& more = node_.slots[slot].pus;
    pus.insert(pus.end(), more.begin(), more.end());
  }
  const bool own_cpus = given.slots.size() == 1 && given.slots.front() == slot_;
  const os::CpuMask mask = own_cpus ? os::CpuMask() : os::CpuMask(pus);
  result->pus = std::move(pus);

  os::SpawnRequest request{
      .argv = *argv,
      .envp = const_cast<char* const*>(envp),
      .stdin_fd = files.in.get(),
      .stdout_fd = files.stdout_fd,
      .stderr_fd = files.stderr_fd,
      .directory = profile.directory() == node_.directory ? nullptr : profile.directory().c_str(),
      .cpus = mask.empty() ? nullptr : &mask,
      .oom_score_adj = spec.memory > 0 ? kOomScore : 0,
      .descriptor_limit = node_.task_descriptors,
      .until_ns = node_.fence->until_ns()};
  const std::string_view program = (*argv)[0];
  os::SpawnOutcome outcome;
  std::string path;
  for (int round = 1;; ++round) {
    const ProgramFinder::Found& found = programs_.Find(program, profile.path(), profile.directory());
    path = found.path;
    if (path.empty()) {
      outcome = {.pid = -1, .error = found.error, .step = os::SpawnStep::kExec};
      break;
    }
    request.program = path.c_str();
    outcome = spawner_.Spawn(request);
    if (outcome.pid > 0 || round == kMostRounds || !MayPass(outcome.error)) break;
    if (outcome.error == ENOENT) {  // no longer where it was found
      if (round > 1) break;
      programs_.Forget();
    } else {
      poll(nullptr, 0, kRoundPause);
    }
  }
  stdout_.CloseWriteEnd();
  stderr_.CloseWriteEnd();
  starter_peak_kib_ = outcome.peak_kib;
  if (outcome.pid > 0) return outcome.pid;
  switch (outcome.step) {
    case os::SpawnStep::kTooLate:
      result->end = End::kRunning;
      break;
    case os::SpawnStep::kExec:
      NotStarted(result,
                 DescribeStartFailure(program, path.empty() ? path : Below(profile.directory(), path),
                                      outcome.error),
                 ExitCodeOfStartFailure(outcome.error));
      break;
    case os::SpawnStep::kDirectory:
      NotStarted(result,
                 StrCat("cannot enter its directory ", profile.directory(), ": ", strerror(outcome.error)));
      break;
    default:
      NotStarted(result, StrCat("cannot start a process: ", strerror(outcome.error)));
  }
  return -1;
}

bool TaskRunner::WaitBlindly(pid_t pid) {
  signals_.blind_since_ns.store(clock_.Steady().count());
  collector_.WantPulse();
  siginfo_t info{};
  const bool ended = waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) == 0;
  signals_.blind_since_ns.store(0);
  return ended;
}

void TaskRunner::SignalTask(pid_t pid, std::initializer_list<int> signals) {
  // The group first, all of it at once: a shell whose child dies before it would still say how.
  for (const os::Process& process : os::Descendants(pid)) {
    if (process.group != pid) left_group_[process.pid] = process;
  }
  for (const int signal : signals) {
    kill(-pid, signal);
    for (const auto& [number, process] : left_group_) os::SignalProcess(process, signal);
  }
}

void TaskRunner::EndThoseThatLeftTheGroup() {
  if (left_group_.empty()) return;
  std::vector<os::Process> all;
  for (const auto& [number, process] : left_group_) {
    all.push_back(process);
    const std::vector<os::Process> below = os::Descendants(process);
    all.insert(all.end(), below.begin(), below.end());
  }
  for (const os::Process& process : all) os::SignalProcess(process, SIGKILL);
  left_group_.clear();
}

void TaskRunner::CarryOut(pid_t pid) {
  const uint8_t asked = signals_.asked.exchange(SlotSignals::kNothing);
  if (asked == SlotSignals::kNothing) return;
  asked_to_end_ = static_cast<End>(signals_.reason.load());
  if (asked == SlotSignals::kEnd) {
    SignalTask(pid, {SIGTERM, SIGCONT});
  } else {
    SignalTask(pid, {SIGKILL});
    signals_.kill_owed.store(false);
  }
}

void TaskRunner::WaitWatching(const LocalTask& task, pid_t pid) {
  const ProfileSpec& spec = task.profile->spec();
  const OwnedFd pidfd(os::OpenPidfd(pid));
  const Duration start = started_;
  Duration report = start + kReportStarted;
  if (spec.time_limit > Duration(0)) report = std::min(report, start + spec.time_limit);
  Duration hand_on = kNever;
  Duration beat = looked_ ? start : kNever;
  bool stands = false;
  while (true) {
    CarryOut(pid);
    const Duration until = node_.fence->until();
    const Duration now = clock_.Steady();
    const bool has_to_stand = now >= until && asked_to_end_ == End::kRunning;
    if (has_to_stand != stands) {
      stands = has_to_stand;
      stands ? standing_.Stop(pid) : standing_.Continue();
      continue;  // which may have taken its time
    }
    if (now >= report) {
      collector_.AddStarted({.id = task.id, .attempt = task.attempt, .start = began_});
      tell_core_(ProcessStarted{slot_, Time(started_)}, spec.memory > 0);
      told_ = true;
      report = kNever;
    }
    if (now >= hand_on) {
      stdout_.HandOn();
      stderr_.HandOn();
      hand_on = kNever;
    }
    if (now >= beat) {
      if (now > start) made_.Beat();
      beat = clock_.Steady() + made::Writer::kBeat;
    }
    if (hand_on == kNever && stdout_.waiting_bytes() + stderr_.waiting_bytes() > 0)
      hand_on = now + kHandOnOutput;

    Duration next = std::min({report, hand_on, beat});
    if (!stands && now < until) next = std::min(next, until);
    if (pidfd.get() < 0) next = std::min(next, now + kWithoutPidfd);
    // Rounded up, so that it does not wake before its time.
    const int timeout =
        next == kNever ? -1
                       : static_cast<int>(std::max<Duration>(Duration(0), next - now) / milliseconds(1)) + 1;
    pollfd set[] = {{stdout_.read_fd(), POLLIN, 0},
                    {stderr_.read_fd(), POLLIN, 0},
                    {signals_.wake_fd, POLLIN, 0},
                    {pidfd.get(), POLLIN, 0}};
    if (poll(set, 4, timeout) < 0) continue;  // EINTR
    stdout_.TakeIn(set[0].revents);
    stderr_.TakeIn(set[1].revents);
    if (set[2].revents != 0) {
      uint64_t count;
      [[maybe_unused]] ssize_t n = read(signals_.wake_fd, &count, sizeof count);
    }
    if (pidfd.get() >= 0 ? set[3].revents != 0 : HasEnded(pid)) return;
  }
}

void TaskRunner::TakeInWhatIsLeft() {
  std::optional<Duration> give_up;
  while (stdout_.open() || stderr_.open()) {
    pollfd set[] = {{stdout_.read_fd(), POLLIN, 0}, {stderr_.read_fd(), POLLIN, 0}};
    int timeout = 0;
    if (give_up)
      timeout =
          static_cast<int>(std::max<Duration>(Duration(0), *give_up - clock_.Steady()) / milliseconds(1));
    const int ready = poll(set, 2, timeout);
    if (ready < 0) continue;
    if (ready > 0) {
      stdout_.TakeIn(set[0].revents);
      stderr_.TakeIn(set[1].revents);
    }
    // Somebody else holds a pipe still.
    if (!give_up) {
      if (ready == 0) give_up = clock_.Steady() + kGrace;
    } else if (clock_.Steady() >= *give_up || signals_.reason.load() != 0) {
      break;
    }
  }
}

void TaskRunner::NoteEnd(TaskResult* result) {
  if (!looked_) return;
  looked_->end_ns = made_.Ended(looked_->task, looked_->attempt);
  // The end of a success is written down as well: its result may get lost with this agent, and what others
  // put among its outputs since then is not the attempt's.
  if (result->end != End::kExited || result->code != 0) result->made = std::move(looked_);
  looked_.reset();
}

std::optional<TaskResult> TaskRunner::Run(const LocalTask& task, const Core::Given& given) {
  TaskResult result;
  result.id = task.id;
  result.attempt = task.attempt;
  result.start = began_ = clock_.Now();
  started_ = clock_.Steady();
  standing_.Forget();
  asked_to_end_ = End::kRunning;
  told_ = false;
  if (const auto reason = signals_.reason.load(); reason != 0) {
    result.end = static_cast<End>(reason);
    result.finish = result.start;
    return result;
  }
  if (!MayRun()) return std::nullopt;
  const pid_t pid = Start(task, given, &result);
  if (pid < 0) {
    stdout_.CloseAll();
    stderr_.CloseAll();
    NoteEnd(&result);
    if (result.end == End::kRunning) return std::nullopt;
    result.finish = clock_.Now();
    return result;
  }

  signals_.process.store(pid);
  if (!expect_short_ || task.profile->spec().memory > 0 || !WaitBlindly(pid)) WaitWatching(task, pid);
  if (told_) tell_core_(ProcessEnded{slot_}, false);
  result.finish = clock_.Now();
  const Duration ran = clock_.Steady() - started_;
  TakeInWhatIsLeft();
  kill(-pid, SIGKILL);
  EndThoseThatLeftTheGroup();
  stdout_.CloseAll();
  stderr_.CloseAll();
  signals_.process.store(0);
  int wait_status = 0;
  rusage usage{};
  while (wait4(pid, &wait_status, 0, &usage) < 0 && errno == EINTR) {
  }
  stdout_.HandOn();
  stderr_.HandOn();
  if (!node_.tmp_root.empty()) tmp_.CleanAfterTask();

  const bool said_little = stdout_.kept_bytes() < kSaysLittle && stderr_.kept_bytes() < kSaysLittle;
  expect_short_ = ran < kShort && said_little;
  const bool signaled = WIFSIGNALED(wait_status);
  result.code = signaled ? WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
  result.end = JudgeEnd(asked_to_end_, signaled, result.code);
  const bool too_large = asked_to_end_ == End::kSignaled && signaled;
  if (too_large) {
    result.message =
        StrCat("killed: its TMPDIR held the most when the tasks of this node held more than the ",
               FormatBytes(node_.local_limit), " that the site allows");
  }
  result.user_time = FromTimeval(usage.ru_utime);
  result.system_time = FromTimeval(usage.ru_stime);
  result.max_rss_kib = OwnPeak(usage.ru_maxrss, starter_peak_kib_);
  result.stdout_bytes = stdout_.kept_bytes();
  result.stderr_bytes = stderr_.kept_bytes();
  result.truncated = stdout_.truncated() || stderr_.truncated();
  result.output_offset = stdout_.first_offset();
  if (const uint64_t other = stderr_.first_offset();
      other != 0 && (result.output_offset == 0 || other < result.output_offset))
    result.output_offset = other;
  NoteEnd(&result);
  for (const std::string& name : task.outputs) {
    if (task.sizes_wanted)
      result.output_sizes.push_back(SizeOf(Below(task.profile->base().common().submit_dir, name)));
  }
  return result;
}

}  // namespace harrow::agent
