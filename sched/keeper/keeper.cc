#include "keeper/keeper.h"

#include <algorithm>
#include <fcntl.h>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <signal.h>
#include <sstream>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "base/text.h"
#include "keeper/server_watch.h"
#include "made/copies.h"
#include "os/log.h"
#include "os/posix_files.h"
#include "os/process.h"
#include "os/spawn.h"
#include "run/progress_pipe.h"
#include "run_dir/names.h"

// Each child leads a process group of its own, so that a Ctrl-C reaches the keeper alone. When the keeper
// dies the server is killed, and who starts agents (a warden, srun) gets SIGTERM and ends them. The server
// writes progress to its standard output, a pipe whose both ends the keeper keeps: it outlives servers.
//
// A server that ends with an exit status has decided (ServerEnd). One that is killed or crashes is started
// again at once, with the next epoch; a warden that dies likewise, after all that it left has been ended. Who
// dies kMostCrashes times in a row soon after its start is not started again. One that hangs (server_watch.h)
// is killed, and so started again as one that died.
//
// Under Slurm one srun starts all agents, and cannot start one again. So a node that the server reports
// absent for a while gets an srun of its own (a rescue); so does every node when the one srun has died:
// agents may have survived it. When the node is down, srun waits or fails, and is tried again, less and less
// often. What sruns say goes to log/srun.log. An srun that cannot reach one of its nodes gives all of them
// up: it is started again without the nodes that it named, which are rescued as others are.

extern char** environ;

namespace harrow::keeper {
namespace {

constexpr int kMostCrashes = 5;
constexpr int kMostHangs = 5;
constexpr Duration kWatchEvery = std::chrono::seconds(1);  // a tick of ServerWatch
constexpr Duration kSoon = std::chrono::seconds(2);
constexpr Duration kRestartPause = std::chrono::milliseconds(100);
// Together well within Slurm's KillWait (30 s): then all that is left is killed, and nothing told.
constexpr Duration kSameSignal = std::chrono::milliseconds(100);
constexpr Duration kInterruptTime = std::chrono::seconds(15);  // then an interrupted run is ended by force
constexpr Duration kGrace = std::chrono::seconds(1);
constexpr Duration kAskedToLeave = std::chrono::seconds(1);  // a server that ends its agents ends soon itself
constexpr Duration kAbsentFor = std::chrono::seconds(3);     // then a node is rescued
constexpr Duration kMostBackOff = std::chrono::minutes(1);
constexpr size_t kMostRescues = 16;  // at once
constexpr size_t kMostNamed = 10;    // nodes, in a line

struct Child {
  std::vector<std::string> command;
  pid_t pid = -1;
  Time started;
  int crashes = 0;    // in a row, each soon after the start
  bool over = false;  // not to be started again
  bool runs() const { return pid > 0; }
};

/// A node without an agent, and who is to start one there.
struct Rescue {
  Child child;
  Time due;  // of the next start, while the child does not run
  Duration back_off = kAbsentFor;
};

/// What is listened to: not what the starter had us ignore, as nohup and shells in the background do.
std::vector<int> Signals() {
  std::vector<int> signals = {SIGCHLD};
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGTSTP}) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    if (action.sa_handler != SIG_IGN) signals.push_back(signal);
  }
  return signals;
}

}  // namespace

struct Keeper::Impl {
  Impl(os::EventLoop* l, batch::Batch* b, KeeperOptions o)
      : loop(l), batch(b), options(std::move(o)), reader([this](const pb::Progress& p) { Figures(p); }) {}

  Status Start();
  Status StartChild(Child* child);
  void StartOrGiveUp(Child* child);
  void StartServer();
  void OnSignal();
  void OnProgress();
  void Figures(const pb::Progress& progress);
  void Reap();
  void ServerEnded(int wait_status);
  void WatchServer();
  void WardenEnded(Child* warden, int wait_status);
  void StartAgentAgain(Child* warden);
  /// Notes that a child died; false when that was once too often.
  bool MayStartAgain(Child* child);
  /// Starts who starts agents again, without the nodes that it said it cannot reach; false: it has named no
  /// other ones.
  bool StartWithoutUnreachable(Child* warden);
  void Rescues(const pb::Progress& progress);
  void Interrupt(int signal, Time now);
  void Suspend();
  void GiveUp(std::string why);
  void EndRun(run::ServerEnd how);
  void StopWhenAlone();
  std::vector<pid_t> Living() const;
  void Forget();
  std::string LastWords() const;
  std::string SrunLog() const { return run_dir::LogPath(options.part.dir->path(), run_dir::kSrunLog); }

  os::EventLoop* loop;
  batch::Batch* batch;
  KeeperOptions options;
  os::Spawner spawner;
  run::ProgressReader reader;
  os::Fd signals, progress_in, progress_out, null, srun_log;
  Time interrupted{};  // when what the first signal does was told
  bool at_once = false;
  Child server;
  ServerWatch watch;
  int hangs = 0;  // of servers, in all
  std::vector<Child> wardens;
  std::map<std::string, Rescue> rescues;  // by node
  std::vector<std::string> unreachable;   // nodes that are left to rescues
  bool agents_came = false;
  bool can_rescue = false;
  bool ending = false;
  KeeperEnd end;
};

Keeper::Keeper(os::EventLoop* loop, batch::Batch* batch, KeeperOptions options)
    : impl_(std::make_unique<Impl>(loop, batch, std::move(options))) {}

Keeper::~Keeper() = default;

KeeperEnd Keeper::Run() {
  if (const Status started = impl_->Start(); started.ok()) {
    impl_->loop->Run();
  } else {
    impl_->end.problem = started.message();
  }
  if (const Status ended = os::EndDescendants(kGrace); !ended.ok()) os::LogError(ended.message());
  impl_->OnProgress();
  made::RemoveLeftCopies(*impl_->options.part.dir, impl_->options.part.dir->path());
  os::LogInfo(StrCat("keeper and all that it waited for used ", Seconds(os::ProcessorTime()), " s of CPU"));
  return impl_->end;
}

Status Keeper::Impl::Start() {
  const std::vector<int> heard = Signals();
  os::TakeSignals();
  HARROW_RETURN_IF_ERROR(os::BecomeSubreaper());
  signals = os::Fd(os::SignalDescriptor(heard));
  int ends[2];
  if (!signals.ok() || pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
    return Status(Code::kExhausted, "no descriptors are left for signals and progress");
  }
  progress_in = os::Fd(ends[0]);
  progress_out = os::Fd(ends[1]);
  null = os::Fd(open("/dev/null", O_RDWR | O_CLOEXEC));
  loop->WatchFd(signals.get(), [this] { OnSignal(); });
  loop->WatchFd(progress_in.get(), [this] { OnProgress(); });
  server.command = {options.program, "server", "--run-dir", run_dir::PartArgument(options.part)};
  HARROW_RETURN_IF_ERROR(StartChild(&server));
  WatchServer();
  Result<std::vector<std::vector<std::string>>> commands = batch->AgentCommands(run_dir::PartArgument(options.part));
  if (!commands.ok()) return commands.status();
  can_rescue = batch->AgentCommandOn(run_dir::PartArgument(options.part), "").has_value();
  if (can_rescue) {
    Result<os::Fd> log = options.part.dir->OpenFile(SrunLog(), O_WRONLY | O_CREAT | O_APPEND);
    if (!log.ok()) return log.status();
    srun_log = *std::move(log);
  }
  for (std::vector<std::string>& command : *commands) {
    wardens.push_back({.command = std::move(command), .pid = -1, .started = {}, .crashes = 0, .over = false});
    HARROW_RETURN_IF_ERROR(StartChild(&wardens.back()));
  }
  return Status();
}

Status Keeper::Impl::StartChild(Child* child) {
  std::vector<char*> argv;
  for (std::string& word : child->command) argv.push_back(word.data());
  argv.push_back(nullptr);
  os::SpawnRequest request;
  request.program = argv[0];
  request.argv = argv.data();
  request.envp = environ;
  request.stdin_fd = null.get();
  if (child == &server) {
    request.stdout_fd = progress_out.get();
  } else {
    request.stdout_fd = null.get();
    request.stderr_fd = srun_log.get();
    request.death_signal = SIGTERM;
  }
  const os::SpawnOutcome outcome = spawner.Spawn(request);
  if (!outcome.started()) {
    return Status(Code::kUnavailable, outcome.step == os::SpawnStep::kClone
                                          ? os::NoProcessText(outcome.error)
                                          : StrCat(argv[0], " ", argv[1],
                                                   " cannot be started: ", strerrordesc_np(outcome.error)));
  }
  child->pid = outcome.pid;
  child->started = loop->Now();
  return Status();
}

void Keeper::Impl::StartOrGiveUp(Child* child) {
  if (const Status started = StartChild(child); !started.ok()) GiveUp(started.message());
}

void Keeper::Impl::OnSignal() {
  const Time now = loop->Now();  // also of what comes while this process is kept from going on
  while (const int signal = os::ReadSignal(signals.get())) {
    if (signal == SIGCHLD) {
      Reap();
    } else if (signal == SIGTSTP) {
      Suspend();
    } else {
      Interrupt(signal, now);
    }
  }
}

void Keeper::Impl::OnProgress() {
  char bytes[4096];
  ssize_t got;
  while ((got = read(progress_in.get(), bytes, sizeof bytes)) > 0) {
    if (!reader.Take(std::string_view(bytes, static_cast<size_t>(got)))) reader.Reset();
  }
}

void Keeper::Impl::Figures(const pb::Progress& progress) {
  watch.Heard(progress.complete());
  if (!progress.problem().empty()) end.problem = progress.problem();
  for (const std::string& notice : progress.notice()) options.say(Printable(notice, 500));
  if (progress.slots() > 0) agents_came = true;
  if (!ending) Rescues(progress);
  if (progress.total() == 0 && end.last.total() > 0) return;
  end.last = progress;
  if (options.progress) options.progress(progress);
}

void Keeper::Impl::Reap() {
  int status;
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
    for (auto& [node, rescue] : rescues) {
      if (rescue.child.pid != pid) continue;
      rescue.child.pid = -1;
      rescue.due = loop->Now() + rescue.back_off;
      rescue.back_off = std::min(2 * rescue.back_off, kMostBackOff);
      os::LogInfo(StrCat("the rescue of node ", node, " ended: ", os::DescribeWaitStatus(status)));
    }
  }
  StopWhenAlone();
}

/// ": " and the last line that srun wrote.
std::string Keeper::Impl::LastWords() const {
  const Result<std::string> text = options.part.dir->Read(SrunLog());
  std::istringstream file(text.ok() ? *text : "");
  std::string last;
  for (std::string line; std::getline(file, line);) last = line.empty() ? last : line;
  return last.empty() ? "" : ": " + Printable(last, 300);
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
    if (code > static_cast<int>(run::ServerEnd::kStopped) || code == 2) {
      return GiveUp(StrCat("the server ended with exit code ", code, "; see ",
                           run_dir::LogPath(options.part.dir->path(), run_dir::kServerLog)));
    }
    return EndRun(static_cast<run::ServerEnd>(code));
  }
  os::LogWarning(StrCat("the server died: ", os::DescribeWaitStatus(wait_status)));
  if (!MayStartAgain(&server)) {
    return GiveUp(StrCat("the server died ", kMostCrashes, " times in a row, the last time by ",
                         os::DescribeWaitStatus(wait_status), "; see ",
                         run_dir::LogPath(options.part.dir->path(), run_dir::kServerLog)));
  }
  if (end.signal != 0) return EndRun(run::ServerEnd::kStopped);
  loop->After(kRestartPause, [this] { StartServer(); });
}

void Keeper::Impl::WatchServer() {
  if (ending) return;
  loop->After(kWatchEvery, [this] { WatchServer(); });
  OnProgress();  // what it said while this process was busy
  if (!server.runs() || !watch.Tick()) return;
  if (++hangs >= kMostHangs) {
    kill(server.pid, SIGKILL);
    return GiveUp(StrCat("the server hung ", kMostHangs, " times: it is stopped, or waits for a disk; see ",
                         run_dir::LogPath(options.part.dir->path(), run_dir::kServerLog)));
  }
  os::LogWarning("the server hangs: killed");
  options.say(end.signal != 0 ? "the server does not answer; it is ended by force"
                              : "the server does not answer; another takes over");
  kill(server.pid, SIGKILL);
}

/// A signal from somebody else has ended an agent, and the server misses it.
void Keeper::Impl::StartAgentAgain(Child* warden) {
  if (ending || end.signal != 0 || warden->runs()) return;
  if (end.last.absent_size() == 0) {  // a server that is late, or is being started, misses it later
    loop->After(kAskedToLeave, [this, warden] { StartAgentAgain(warden); });
    return;
  }
  if (!MayStartAgain(warden)) return;
  os::LogWarning("an agent was ended by a signal while the run goes on: another is started");
  warden->over = false;
  StartOrGiveUp(warden);
}

void Keeper::Impl::StartServer() {
  if (ending || server.runs()) return;
  reader.Reset();
  watch.Started();
  StartOrGiveUp(&server);
}

void Keeper::Impl::WardenEnded(Child* warden, int wait_status) {
  if (ending) return;
  if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0) {
    warden->over = true;  // its server told it to leave, or somebody else did
    if (!can_rescue) loop->After(kAskedToLeave, [this, warden] { StartAgentAgain(warden); });
    return;
  }
  os::LogWarning(StrCat("who started agents died: ", os::DescribeWaitStatus(wait_status)));
  const std::vector<pid_t> living = Living();
  if (const Status ended = os::EndDescendants(Duration(0), living); !ended.ok())
    os::LogError(ended.message());
  if (can_rescue && StartWithoutUnreachable(warden)) return;
  if (agents_came && can_rescue) {
    warden->over = true;  // some of its agents may live on; nodes without one are rescued
    return;
  }
  if (!MayStartAgain(warden)) {
    warden->over = true;
    const bool any = std::any_of(wardens.begin(), wardens.end(), [](const Child& c) { return !c.over; });
    const std::string what = StrCat(can_rescue ? "srun failed " : "an agent died ", kMostCrashes,
                                    " times in a row (", os::DescribeWaitStatus(wait_status), ")",
                                    LastWords(), "; see ", run_dir::LogDirectory(options.part.dir->path()));
    if (!any) return GiveUp(what);
    options.say(what);
    return;
  }
  loop->After(kRestartPause, [this, warden] {
    if (!ending && !warden->runs()) StartOrGiveUp(warden);
  });
}

bool Keeper::Impl::StartWithoutUnreachable(Child* warden) {
  const Result<std::string> text = options.part.dir->Read(SrunLog());
  if (!text.ok() || end.signal != 0) return false;
  std::string names;
  size_t found = 0;
  for (std::string& node : batch->UnreachableIn(*text)) {
    if (std::find(unreachable.begin(), unreachable.end(), node) != unreachable.end()) continue;
    if (++found <= kMostNamed) names += StrCat(names.empty() ? "" : ", ", node);
    unreachable.push_back(std::move(node));
  }
  if (found == 0) return false;
  auto command = batch->AgentCommandWithout(run_dir::PartArgument(options.part), unreachable);
  if (!command) return false;
  if (found > kMostNamed) names += StrCat(" and ", found - kMostNamed, " more");
  options.say(StrCat(found == 1 ? "node " : "nodes ", names, " cannot be reached by srun", LastWords(),
                     "; agents are started on the others"));
  os::LogWarning(StrCat("srun is started again without ", names));
  warden->command = *std::move(command);
  loop->After(kRestartPause, [this, warden] {
    if (!ending && !warden->runs()) StartOrGiveUp(warden);
  });
  return true;
}

void Keeper::Impl::Rescues(const pb::Progress& progress) {
  const Time now = loop->Now();
  std::set<std::string> absent(progress.absent().begin(), progress.absent().end());
  for (auto it = rescues.begin(); it != rescues.end();) {
    // One that has come and gone again begins anew.
    const bool forget = !absent.contains(it->first) && !it->second.child.runs();
    it = forget ? rescues.erase(it) : std::next(it);
  }
  for (const std::string& node : absent) {
    const auto [found, added] = rescues.try_emplace(node);
    Rescue& rescue = found->second;
    if (added) rescue.due = now + kAbsentFor;
    const auto running = std::count_if(rescues.begin(), rescues.end(),
                                       [](const auto& entry) { return entry.second.child.runs(); });
    if (rescue.child.runs() || now < rescue.due || running >= static_cast<long>(kMostRescues)) continue;
    std::optional<std::vector<std::string>> command = batch->AgentCommandOn(run_dir::PartArgument(options.part), node);
    if (!command) {
      rescue.due = now + kMostBackOff;
      continue;
    }
    rescue.child.command = std::move(*command);
    os::LogInfo(StrCat("starting an agent on node ", node, " again"));
    if (const Status started = StartChild(&rescue.child); !started.ok()) {
      os::LogError(started.message());
      rescue.due = now + kMostBackOff;
    }
  }
}

void Keeper::Impl::Interrupt(int signal, Time now) {
  if (at_once) return;
  if (interrupted != Time{}) {
    // Who signals a process and its group (timeout, some shells) means it once.
    if (now - interrupted < kSameSignal) return;
    options.say("ended at once");
    if (!ending) end.end = run::ServerEnd::kStopped;
    ending = at_once = true;
    (void)os::EndDescendants(Duration(0));
    Forget();  // their numbers may be others' from now on
    loop->Stop();
    return;
  }
  const char* name = sigabbrev_np(signal);
  options.say(StrCat("SIG", name == nullptr ? "?" : name, ": ",
                     ending ? "the run has ended and its agents leave" : "what runs is being ended",
                     "; once more to end at once"));
  interrupted = loop->Now();  // nobody means it twice before
  if (ending) return;         // a node_teardown may take long
  end.signal = signal;
  if (!server.runs()) return EndRun(run::ServerEnd::kStopped);
  kill(server.pid, SIGTERM);
  watch.ToldToEnd();
  loop->After(kInterruptTime, [this] { EndRun(run::ServerEnd::kStopped); });
}

/// Ctrl-Z: everything stands, tasks too, until the shell lets this process go on.
void Keeper::Impl::Suspend() {
  if (ending) return;
  if (can_rescue) {
    options.say("a run on the nodes of a job is not suspended by Ctrl-Z: it goes on");
    return;
  }
  os::Stopper stopper;
  stopper.Stop(getpid());
  // It does what it does without us: nothing where no shell could let this process go on (setsid, ssh HOST
  // harrow run, tmux).
  sigset_t stop, before;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTSTP);
  raise(SIGTSTP);
  sigprocmask(SIG_UNBLOCK, &stop, &before);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  stopper.Continue();
}

void Keeper::Impl::GiveUp(std::string why) {
  if (ending) return;
  if (end.problem.empty()) end.problem = std::move(why);
  // The server may still close the journal; a server that is gone leaves one that can be read all the same.
  if (server.runs()) kill(server.pid, SIGTERM);
  EndRun(run::ServerEnd::kCannotGoOn);
}

void Keeper::Impl::EndRun(run::ServerEnd how) {
  if (ending) return;
  ending = true;
  end.end = how;
  // Agents that were told have ended by then; one that had not found the server yet is told by signal.
  loop->After(kGrace, [this] {
    for (const Child& warden : wardens) {
      if (warden.runs()) kill(warden.pid, SIGTERM);
    }
    for (const auto& [node, rescue] : rescues) {
      if (rescue.child.runs()) kill(rescue.child.pid, SIGTERM);
    }
  });
  loop->After(options.agents_leave, [this] { loop->Stop(); });
  StopWhenAlone();
}

void Keeper::Impl::StopWhenAlone() {
  if (ending && Living().empty()) loop->Stop();
}

void Keeper::Impl::Forget() {
  server.pid = -1;
  for (Child& warden : wardens) warden.pid = -1;
  for (auto& [node, rescue] : rescues) rescue.child.pid = -1;
}

std::vector<pid_t> Keeper::Impl::Living() const {
  std::vector<pid_t> living;
  if (server.runs()) living.push_back(server.pid);
  for (const Child& warden : wardens) {
    if (warden.runs()) living.push_back(warden.pid);
  }
  for (const auto& [node, rescue] : rescues) {
    if (rescue.child.runs()) living.push_back(rescue.child.pid);
  }
  return living;
}

}  // namespace harrow::keeper
