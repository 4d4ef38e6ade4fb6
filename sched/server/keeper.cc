#include "server/keeper.h"

#include <algorithm>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "base/text.h"
#include "os/log.h"
#include "os/process.h"
#include "os/spawn.h"
#include "server/progress_pipe.h"

// Each child leads a process group of its own, so that a Ctrl-C reaches the keeper alone, and is killed when
// the keeper dies. The server writes progress to its standard output, a pipe whose both ends the keeper
// keeps: it outlives servers.
//
// A server that ends with an exit status has decided (ServerEnd). One that is killed or crashes is started
// again at once, with the next epoch; a warden that dies likewise, after all that it left has been ended. Who
// dies kMostCrashes times in a row soon after its start is not started again.

extern char** environ;

namespace harrow::server {
namespace {

constexpr int kMostCrashes = 5;
constexpr Duration kSoon = std::chrono::seconds(2);
constexpr Duration kRestartPause = std::chrono::milliseconds(100);
constexpr Duration kInterruptTime = std::chrono::seconds(40);  // then an interrupted run is ended by force
constexpr Duration kAgentsLeave = std::chrono::seconds(10);
constexpr Duration kGrace = std::chrono::seconds(1);

struct Child {
  std::vector<std::string> command;
  pid_t pid = -1;
  Time started;
  int crashes = 0;    // in a row, each soon after the start
  bool over = false;  // not to be started again
};

/// What is listened to: not what the starter had us ignore, as nohup and shells in the background do.
std::vector<int> Signals() {
  std::vector<int> signals = {SIGCHLD};
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    if (sigaction(signal, nullptr, &action) != 0 || action.sa_handler != SIG_IGN) signals.push_back(signal);
  }
  return signals;
}

}  // namespace

struct Keeper::Impl {
  Impl(os::EventLoop* l, batch::Batch* b, KeeperOptions o)
      : loop(l), batch(b), options(std::move(o)), reader([this](const pb::Progress& p) { Figures(p); }) {}

  Status Start();
  Status StartChild(Child* child, int stdout_fd);
  void StartServer();
  void OnSignal();
  void OnProgress();
  void Figures(const pb::Progress& progress);
  void Reap();
  void ServerEnded(int wait_status);
  void WardenEnded(Child* warden, int wait_status);
  /// Notes that a child died; false when that was once too often.
  bool MayStartAgain(Child* child);
  void Interrupt(int signal);
  void GiveUp(std::string why);
  void EndRun(ServerEnd how);
  void StopWhenAlone();
  std::vector<pid_t> Living() const;

  os::EventLoop* loop;
  batch::Batch* batch;
  KeeperOptions options;
  os::Spawner spawner;
  ProgressReader reader;
  int signal_fd = -1;
  int progress_fds[2] = {-1, -1};
  int null_fd = -1;
  Child server;
  std::vector<Child> wardens;
  bool ending = false;
  KeeperEnd end;
};

Keeper::Keeper(os::EventLoop* loop, batch::Batch* batch, KeeperOptions options)
    : impl_(std::make_unique<Impl>(loop, batch, std::move(options))) {}

Keeper::~Keeper() {
  for (const int fd : {impl_->signal_fd, impl_->progress_fds[0], impl_->progress_fds[1], impl_->null_fd}) {
    if (fd >= 0) close(fd);
  }
}

KeeperEnd Keeper::Run() {
  if (const Status started = impl_->Start(); started.ok()) {
    impl_->loop->Run();
  } else {
    impl_->end.problem = started.message();
  }
  if (const Status ended = os::EndDescendants(kGrace); !ended.ok()) os::LogError(ended.message());
  impl_->OnProgress();
  return impl_->end;
}

Status Keeper::Impl::Start() {
  const std::vector<int> signals = Signals();
  os::TakeSignals();
  HARROW_RETURN_IF_ERROR(os::BecomeSubreaper());
  signal_fd = os::SignalDescriptor(signals);
  if (signal_fd < 0 || pipe2(progress_fds, O_CLOEXEC | O_NONBLOCK) != 0) {
    return Status(Code::kExhausted, "no descriptors are left for signals and progress");
  }
  null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  loop->WatchFd(signal_fd, [this] { OnSignal(); });
  loop->WatchFd(progress_fds[0], [this] { OnProgress(); });
  Result<std::vector<std::vector<std::string>>> commands = batch->AgentCommands(options.run_dir);
  if (!commands.ok()) return commands.status();
  server.command = {options.program, "server", "--run-dir", options.run_dir};
  HARROW_RETURN_IF_ERROR(StartChild(&server, progress_fds[1]));
  for (std::vector<std::string>& command : *commands) {
    wardens.push_back({.command = std::move(command), .pid = -1, .started = {}, .crashes = 0, .over = false});
    HARROW_RETURN_IF_ERROR(StartChild(&wardens.back(), null_fd));
  }
  return Status();
}

Status Keeper::Impl::StartChild(Child* child, int stdout_fd) {
  std::vector<char*> argv;
  for (std::string& word : child->command) argv.push_back(word.data());
  argv.push_back(nullptr);
  os::SpawnRequest request;
  request.program = argv[0];
  request.argv = argv.data();
  request.envp = environ;
  request.stdin_fd = null_fd;
  request.stdout_fd = stdout_fd;
  const os::SpawnOutcome outcome = spawner.Spawn(request);
  if (outcome.pid <= 0) {
    return Status(Code::kUnavailable,
                  StrCat(argv[0], " ", argv[1], " cannot be started: ", strerrordesc_np(outcome.error)));
  }
  child->pid = outcome.pid;
  child->started = loop->Now();
  return Status();
}

void Keeper::Impl::OnSignal() {
  while (const int signal = os::ReadSignal(signal_fd)) {
    if (signal == SIGCHLD) {
      Reap();
    } else {
      Interrupt(signal);
    }
  }
}

void Keeper::Impl::OnProgress() {
  char bytes[4096];
  ssize_t got;
  while (progress_fds[0] >= 0 && (got = read(progress_fds[0], bytes, sizeof bytes)) > 0) {
    if (!reader.Take(std::string_view(bytes, static_cast<size_t>(got)))) reader.Reset();
  }
}

void Keeper::Impl::Figures(const pb::Progress& progress) {
  if (!progress.problem().empty()) end.problem = progress.problem();
  if (progress.total() == 0 && end.last.total() > 0) return;
  end.last = progress;
  if (options.progress) options.progress(progress);
}

void Keeper::Impl::Reap() {
  int status = 0;
  pid_t pid;
  while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
    if (pid == server.pid) {
      server.pid = -1;
      ServerEnded(status);
      continue;
    }
    for (Child& warden : wardens) {
      if (warden.pid != pid) continue;
      warden.pid = -1;
      WardenEnded(&warden, status);
    }
  }
  StopWhenAlone();
}

bool Keeper::Impl::MayStartAgain(Child* child) {
  child->crashes = loop->Now() - child->started < kSoon ? child->crashes + 1 : 1;
  return child->crashes < kMostCrashes;
}

void Keeper::Impl::ServerEnded(int wait_status) {
  if (ending) return;
  OnProgress();
  if (WIFEXITED(wait_status)) {
    const int code = WEXITSTATUS(wait_status);
    if (code > static_cast<int>(ServerEnd::kInterrupted) || code == 2) {
      return GiveUp(
          StrCat("the server ended with exit code ", code, "; see ", options.run_dir, "/log/server.log"));
    }
    return EndRun(static_cast<ServerEnd>(code));
  }
  os::LogWarning(StrCat("the server died: ", os::DescribeWaitStatus(wait_status)));
  if (!MayStartAgain(&server)) {
    return GiveUp(StrCat("the server died ", kMostCrashes, " times in a row, the last time by ",
                         os::DescribeWaitStatus(wait_status), "; see ", options.run_dir, "/log/server.log"));
  }
  if (end.signal != 0) return EndRun(ServerEnd::kInterrupted);
  loop->After(kRestartPause, [this] { StartServer(); });
}

void Keeper::Impl::StartServer() {
  if (ending || server.pid > 0) return;
  reader.Reset();
  if (const Status started = StartChild(&server, progress_fds[1]); !started.ok()) GiveUp(started.message());
}

void Keeper::Impl::WardenEnded(Child* warden, int wait_status) {
  if (ending) return;
  if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0) {
    warden->over = true;  // its server told it to leave
    return;
  }
  os::LogWarning(StrCat("an agent's warden died: ", os::DescribeWaitStatus(wait_status)));
  const std::vector<pid_t> living = Living();
  if (const Status ended = os::EndDescendants(Duration(0), living); !ended.ok())
    os::LogError(ended.message());
  if (!MayStartAgain(warden)) {
    warden->over = true;
    const bool any = std::any_of(wardens.begin(), wardens.end(), [](const Child& c) { return !c.over; });
    const std::string what = StrCat("an agent died ", kMostCrashes, " times in a row (",
                                    os::DescribeWaitStatus(wait_status), "); see ", options.run_dir, "/log");
    if (!any) return GiveUp(what);
    options.say(what);
    return;
  }
  loop->After(kRestartPause, [this, warden] {
    if (ending || warden->pid > 0) return;
    if (const Status started = StartChild(warden, null_fd); !started.ok()) GiveUp(started.message());
  });
}

void Keeper::Impl::Interrupt(int signal) {
  if (ending) return;
  if (end.signal != 0) {
    options.say("ended at once");
    end.end = ServerEnd::kInterrupted;
    ending = true;
    (void)os::EndDescendants(Duration(0));
    loop->Stop();
    return;
  }
  end.signal = signal;
  options.say("interrupted: what runs is being ended; once more to end at once");
  if (server.pid <= 0) return EndRun(ServerEnd::kInterrupted);
  kill(server.pid, SIGTERM);
  loop->After(kInterruptTime, [this] { EndRun(ServerEnd::kInterrupted); });
}

void Keeper::Impl::GiveUp(std::string why) {
  if (ending) return;
  if (end.problem.empty()) end.problem = std::move(why);
  // The server may still close the journal; a server that is gone leaves one that can be read all the same.
  if (server.pid > 0) kill(server.pid, SIGTERM);
  EndRun(ServerEnd::kCannotGoOn);
}

void Keeper::Impl::EndRun(ServerEnd how) {
  if (ending) return;
  ending = true;
  end.end = how;
  // Agents that were told have ended by then; one that had not found the server yet is told by signal.
  loop->After(kGrace, [this] {
    for (const Child& warden : wardens) {
      if (warden.pid > 0) kill(warden.pid, SIGTERM);
    }
  });
  loop->After(kAgentsLeave, [this] { loop->Stop(); });
  StopWhenAlone();
}

void Keeper::Impl::StopWhenAlone() {
  if (ending && Living().empty()) loop->Stop();
}

std::vector<pid_t> Keeper::Impl::Living() const {
  std::vector<pid_t> living;
  if (server.pid > 0) living.push_back(server.pid);
  for (const Child& warden : wardens) {
    if (warden.pid > 0) living.push_back(warden.pid);
  }
  return living;
}

}  // namespace harrow::server
