// How a task's end is waited for. Most tasks of a big flow are short and say little, and for them every
// system call counts. So a slot whose task before was such a one waits "blindly": in wait4 alone, without
// looking at the pipes and without a time limit. The collector's pulse (slot_pool.cc) interrupts a blind wait
// that lasts some ms by a signal to the thread; from then on, and from the start for other tasks, the slot
// polls the pipes, the process (pidfd) and its own wake-up descriptor, with the next deadline as time-out.
// What a short task wrote waits in the pipes meanwhile.
//
// A task is over when its process exits. Others that still hold its pipes get kPipeGrace; what is left in its
// process group is killed then. Until then the process is not reaped: as long as it has its number, nobody
// else can have it, nor the group's, and what we kill is the task's. One that was waited for blindly is reaped
// at once, as nearly always nobody is in its group any more, which a signal to a group that is not there tells
// for little. Somebody in it keeps the number; should all of them end within kPipeGrace, and the numbers come
// round meanwhile, the group that has it then has a leader. Those that left the group and are still
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
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "base/text.h"
#include "os/in_batches.h"
#include "os/posix_files.h"
#include "os/process.h"

namespace harrow::agent {
namespace {

using std::chrono::milliseconds;

constexpr Duration kPipeGrace = milliseconds(500);
constexpr Duration kReportStarted = milliseconds(20);
constexpr Duration kHandOnOutput = milliseconds(100);
constexpr Duration kShort = milliseconds(1);  // a task that may be waited for blindly
constexpr uint64_t kSaysLittle = 32 * 1024;   // bytes, half of a pipe
constexpr Duration kNever = Duration::max();
constexpr Duration kWithoutPidfd = milliseconds(20);
constexpr int kMostRounds = 20;        // of starting a program
constexpr int kRoundPause = 20;        // ms
constexpr Duration kAskCheckpointAgain = milliseconds(200);
constexpr Duration kBeatOfCheckpoints = milliseconds(1000);
constexpr size_t kStepsOfAttempt = 5;  // the first of them; the others are of each process

Duration FromTimeval(const timeval& t) {
  return std::chrono::seconds(t.tv_sec) + std::chrono::microseconds(t.tv_usec);
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

uint32_t RankOf(const LocalTask& task, const Core::Given& given) {
  return given.process + (task.gang ? task.gang->first_rank() : 0);
}

bool HasEnded(pid_t pid) {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
}

}  // namespace

TaskRunner::TaskRunner(uint32_t slot, NodeContext& node, const os::Clock& clock, Collector& collector,
                       SlotSignals& signals, TellCore tell_core)
    : slot_(slot),
      node_(node),
      clock_(clock),
      collector_(collector),
      signals_(signals),
      tell_core_(std::move(tell_core)),
      sandbox_(node.files,
               [this] {  // in this order: a stand is told before it is over
                 const bool may_run = MayRun();
                 return !may_run || node_.fence->stood() != stood_at_end_;
               }),
      checkpoint_(node.criu.get(), node.tmp_root.path, slot, [this] { return ToEnd(); }, [this](const std::string& text) { collector_.AddProblem(text); }),
      outputs_(node.made),
      streams_(collector, node.output_limit,
               {.may_run = [this] { return MayRun(); },
                .to_end = [this] { return ToEnd(); },
                .blocks =
                    [this](bool blocks) {
                      signals_.blind_since_ns.store(blocks ? clock_.Steady().count() : 0);
                      if (blocks) collector_.WantPulse();
                    },
                .streams = node.streams}),
      tmp_(node.tmp_root, slot),
      devices_(node.devices),
      pinning_(node.slots, slot),
      directory_(node.directory),
      ranks_(node.rank_root, node.rank_servers, slot, [this] { return ToEnd(); }),
      pmi_socket_(node.rank_servers),
      // What needs the word of another comes after it.
      steps_{&sandbox_,    &checkpoint_, &outputs_, &tmp_,         &ranks_,   &streams_, &command_,
             &pmi_socket_, &devices_, &environment_, &pinning_, &memory_,  &directory_} {}

void TaskRunner::Settle(size_t begin, const LocalTask& task, TaskResult* result) {
  while (prepared_ > begin) steps_[--prepared_]->Settle(task, result);
}

bool TaskRunner::Prepare(size_t end, Launch* launch, TaskResult* result) {
  for (; prepared_ < end; ++prepared_) {
    const Status ready = steps_[prepared_]->Prepare(launch, result);
    if (ready.ok()) continue;
    const bool lost = result->end == End::kLost;
    NotStarted(result, ready.message());
    if (lost) result->end = End::kLost;
    if (ToEnd()) result->end = End::kRunning;  // for that reason, rather than for this
    return false;
  }
  return true;
}

bool TaskRunner::AreAllPartsReady(const LocalTask& task, TaskResult* result) {
  if (!task.gang) return true;
  const Status met = node_.gangs->MeetAndWait(task.attempt_id(), Meeting::kReady, [this] { return ToEnd(); });
  if (met.ok()) return true;
  NotStarted(result, met.message());
  if (met.code() == Code::kUnavailable) result->end = End::kLost;
  if (ToEnd()) result->end = End::kRunning;
  return false;
}

bool TaskRunner::PrepareInTeam(Launch* launch, TaskResult* result) {
  Team& team = *launch->task.team;
  bool ready = !ToEnd();
  if (launch->given.process == 0) {
    ready = ready && Prepare(kStepsOfAttempt, launch, result) && AreAllPartsReady(launch->task, result);
    if (ready) checkpoint_.Find(launch);
    Team::Ground ground{.sandbox = launch->sandbox,
                        .directory = launch->directory,
                        .tmp_dir = std::string(launch->variables.tmp_dir),
                        .checkpoint = launch->checkpoint,
                        .variables = ranks_.TakeVariables()};
    if (!ready) ground.status = Status(Code::kUnavailable, result->message);
    team.Lay(std::move(ground));
  }
  const Team::Ground& ground = team.AwaitGround();
  ready = ready && ground.status.ok();
  if (ready) {
    prepared_ = kStepsOfAttempt;
    launch->sandbox = ground.sandbox;
    launch->directory = ground.directory;
    launch->variables.tmp_dir = ground.tmp_dir;
    launch->checkpoint = ground.checkpoint;
    if (!ground.variables.empty()) launch->variables.of_rank = ground.variables[launch->given.process];
    ready = Prepare(steps_.size(), launch, result);
  }
  return team.AreAllReady(ready);
}

pid_t TaskRunner::Start(const LocalTask& task, const Core::Given& given, TaskResult* result) {
  Launch launch{.task = task, .given = given, .start = result->start};
  launch.request.descriptor_limit = node_.task_descriptors;
  launch.request.until_ns = node_.fence->until_ns();
  launch.request.unless = &signals_.reason;
  prepared_ = 0;
  if (!(task.team ? PrepareInTeam(&launch, result) : Prepare(steps_.size(), &launch, result))) return -1;
  if (const Status held = checkpoint_.HandOn(&launch); !held.ok()) {
    NotStarted(result, held.message());
    return -1;
  }
  std::string path;
  const os::SpawnOutcome outcome = Spawn(task, &launch, &path);
  checkpoint_.CloseOwnEnd();
  streams_.CloseOwnEnds();
  pmi_socket_.CloseRanksEnd();
  starter_peak_kib_ = outcome.peak_kib;
  if (outcome.started()) return outcome.pid;
  const std::string& directory = task.profile->directory();
  switch (outcome.step) {
    case os::SpawnStep::kTooLate:  // or it is to be ended
      result->end = End::kRunning;
      break;
    case os::SpawnStep::kExec:
      NotStarted(result,
                 DescribeStartFailure(command_.program(), path.empty() ? path : Below(directory, path),
                                      outcome.error),
                 ExitCodeOfStartFailure(outcome.error));
      break;
    case os::SpawnStep::kDirectory:
      NotStarted(result, StrCat("cannot enter its directory ", directory, ": ", strerror(outcome.error)));
      break;
    default:
      NotStarted(result, StrCat("cannot start a process: ", strerror(outcome.error)));
  }
  return -1;
}

os::SpawnOutcome TaskRunner::Spawn(const LocalTask& task, Launch* launch, std::string* path) {
  os::SpawnRequest* const request = &launch->request;
  for (int round = 1;; ++round) {
    const ProgramFinder::Found& found = command_.Find(task);
    *path = found.path;
    if (path->empty()) return {.pid = -1, .error = found.error, .step = os::SpawnStep::kExec};
    // It begins elsewhere, and a relative program is the submit directory's.
    if (!launch->directory.empty() && access(Below(launch->directory, *path).c_str(), F_OK) != 0)
      *path = Below(task.profile->directory(), *path);
    request->program = path->c_str();
    const os::SpawnOutcome outcome = spawner_.Spawn(*request);
    if (outcome.step == os::SpawnStep::kTooLate && task.team && !ToEnd()) {
      // Others of its team may run, or stand: it begins when they go on.
      if (!MayRun()) AwaitWakeUp();
      --round;
      continue;
    }
    if (outcome.started() || round == kMostRounds || ToEnd() || !MayPass(outcome.error)) return outcome;
    if (outcome.error == ENOENT) {  // no longer where it was found
      if (round > 1) return outcome;
      command_.Forget();
    } else {
      poll(nullptr, 0, kRoundPause);
    }
  }
}

void TaskRunner::AwaitWakeUp() {
  pollfd woken = {signals_.wake_fd, POLLIN, 0};
  poll(&woken, 1, -1);
  TakeWakeUp();
}

void TaskRunner::TakeWakeUp() {
  uint64_t count;
  [[maybe_unused]] ssize_t n = read(signals_.wake_fd, &count, sizeof count);
}

bool TaskRunner::WaitBlindly(pid_t pid, Ended* ended) {
  signals_.blind_since_ns.store(clock_.Steady().count());
  if (ToEnd()) {  // nobody may come and interrupt it any more
    signals_.blind_since_ns.store(0);
    return false;
  }
  collector_.WantPulse();
  const bool told = wait4(pid, &ended->status, 0, &ended->usage) == pid;
  // One that lets its parent trace it stands there for good: that is its end, too.
  ended->reaped = told && !WIFSTOPPED(ended->status);
  if (ended->reaped) {
    signals_.process.store(0);
    ended->group_left = kill(-pid, 0) == 0;
  }
  signals_.blind_since_ns.store(0);
  return told;
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

void TaskRunner::KillGroup(pid_t pid, const Ended& ended) {
  if (!ended.reaped || (ended.group_left && kill(pid, 0) != 0 && errno == ESRCH)) kill(-pid, SIGKILL);
}

void TaskRunner::EndThoseThatLeftTheGroup() {
  std::vector<os::Process> all;
  for (const auto& [number, process] : std::exchange(left_group_, {})) {
    all.push_back(process);
    const std::vector<os::Process> below = os::Descendants(process);
    all.insert(all.end(), below.begin(), below.end());
  }
  for (const os::Process& process : all) os::SignalProcess(process, SIGKILL);
}

void TaskRunner::SendWarning(const ProfileSpec& spec, pid_t pid) {
  if (spec.warn_alone) {
    kill(pid, spec.warn_signal);
    return;
  }
  for (const os::Process& process : os::Descendants(pid)) {
    if (os::ProgramOf(process) == "srun") os::SignalProcess(process, spec.warn_signal);
  }
}

void TaskRunner::PassOnQuestion(const LocalTask& task, pid_t pid, Duration now) {
  if (const uint8_t question = signals_.question.exchange(SlotSignals::kNone); question != SlotSignals::kNone) {
    if (!asked_) asked_at_ = now;
    asked_ = true;
    if (question == SlotSignals::kTold) ask_again_ = now;
  }
  if (now < ask_again_) return;
  ask_again_ = checkpoint_.Ask(task, pid) ? kNever : now + kAskCheckpointAgain;
  if (checkpoint_.refusal().empty()) return;
  asked_ = false;
  signals_.refusal = checkpoint_.refusal();
  tell_core_(CheckpointRefused{slot_});
}

End TaskRunner::EndByItself(const CheckpointSpec& spec, bool exited, int code) {
  asked_ |= signals_.question.load() != SlotSignals::kNone;  // others of it have heard the question before
  if (spec.criu ? checkpoint_.HasImage(exited, code) : IsAnswer(spec, asked_, exited, code)) return End::kCheckpointed;
  return exited ? End::kExited : End::kSignaled;
}

void TaskRunner::CarryOut(pid_t pid) {
  const uint8_t asked = signals_.asked.exchange(SlotSignals::kNothing);
  if (asked == SlotSignals::kNothing) return;
  // Who was the first to fail is not one that was asked to end for it.
  if (!signals_.from_within.load() || !HasEnded(pid))
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
  const os::InBatches batches(streams_.keeps_log());
  const os::Fd pidfd(os::OpenPidfd(pid));
  const Duration start = started_;
  Duration report = start + kReportStarted;
  if (spec.time_limit > Duration(0)) report = std::min(report, start + spec.time_limit);
  Duration hand_on = kNever;
  const std::optional<Duration> beat_every = outputs_.beat_every();
  Duration beat = beat_every ? start : kNever;
  Duration beat_of_checkpoints = checkpoint_.beats() ? start : kNever;
  bool stands = false;
  Duration stood = node_.fence->stood();
  while (true) {
    CarryOut(pid);
    streams_.CloseUnread();
    if (signals_.warned.exchange(false)) SendWarning(spec, pid);
    const Duration until = node_.fence->until();
    const Duration now = clock_.Steady();
    // Who is killed as it stands is not let go on before: others of it may live.
    const bool has_to_stand = now >= until && (stands || asked_to_end_ == End::kRunning);
    if (has_to_stand != stands) {
      stands = has_to_stand;
      if (stands)
        (void)standing_.Stop(pid);
      else
        standing_.Continue();
      continue;  // which may have taken its time
    }
    if (stands || node_.fence->stood() != stood) {
      // What it was writing as it was stopped, maybe by the warden, it goes on with first.
      stood = node_.fence->stood();
      if (checkpoint_.beats()) beat_of_checkpoints = now + kBeatOfCheckpoints;
      checkpoint_.SetRan(false);
    }
    if (spec.checkpoint.on && !stands) PassOnQuestion(task, pid, now);
    if (now >= beat_of_checkpoints) {
      checkpoint_.Beat();
      checkpoint_.SetRan(true);
      beat_of_checkpoints = clock_.Steady() + kBeatOfCheckpoints;
    }
    if (now >= report) {
      if (!task.team || task.team->FirstToTell())
        collector_.AddStarted({.id = task.id, .attempt = task.attempt, .start = began_, .gang = task.gang});
      tell_core_(ProcessStarted{slot_, Time(started_), stood_});
      told_ = true;
      report = kNever;
    }
    if (now >= hand_on) {
      streams_.HandOn();
      hand_on = kNever;
    }
    if (now >= beat) {
      if (now > start) outputs_.Beat();
      beat = clock_.Steady() + *beat_every;
    }
    if (hand_on == kNever && streams_.waiting()) hand_on = now + kHandOnOutput;

    Duration next = std::min({report, hand_on, beat, beat_of_checkpoints, ask_again_});
    if (!stands && now < until) next = std::min(next, until);
    if (pidfd.get() < 0) next = std::min(next, now + kWithoutPidfd);
    // Rounded up, so that it does not wake before its time.
    const int timeout =
        next == kNever ? -1
                       : static_cast<int>(std::max<Duration>(Duration(0), next - now) / milliseconds(1)) + 1;
    const auto pipes = streams_.ToPoll();
    pollfd set[] = {
        pipes[0], pipes[1], {signals_.wake_fd, POLLIN, 0}, {pidfd.get(), POLLIN, 0}, pmi_socket_.ToPoll()};
    if (poll(set, 5, timeout) < 0) continue;  // EINTR
    streams_.TakeIn(set);
    pmi_socket_.Talk();
    if (set[2].revents != 0) TakeWakeUp();
    if (pidfd.get() >= 0 ? set[3].revents != 0 : HasEnded(pid)) return;
  }
}

void TaskRunner::TakeInWhatIsLeft() {
  std::optional<Duration> give_up;
  while (streams_.open()) {
    auto pipes = streams_.ToPoll();
    int timeout = 0;
    if (give_up)
      timeout =
          static_cast<int>(std::max<Duration>(Duration(0), *give_up - clock_.Steady()) / milliseconds(1));
    const int ready = poll(pipes.data(), pipes.size(), timeout);
    if (ready < 0) continue;
    if (ready > 0) streams_.TakeIn(pipes.data());
    // Somebody else holds a pipe still.
    if (!give_up) {
      if (ready == 0) give_up = clock_.Steady() + kPipeGrace;
    } else if (clock_.Steady() >= *give_up || signals_.reason.load() != 0) {
      break;
    }
  }
}

RankEnd TaskRunner::EndOfRank(const LocalTask& task, TaskResult result) const {
  const ProfileSpec& spec = task.profile->spec();
  return {.result = std::move(result),
          .asked = asked_to_end_,
          .served = process_began_ && spec.served(),
          .seen = seen_,
          .needed = needed_,
          .stood = stood_at_end_};
}

void TaskRunner::TellEnded(const LocalTask& task, const Core::Given& given, pid_t pid) {
  // Others of a task that is to end may have heard of it before, and this one have ended for want of them.
  if (asked_to_end_ == End::kRunning) asked_to_end_ = AskedFromOutside();
  siginfo_t info{};
  waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT);
  TaskResult so_far;
  so_far.end = EndByItself(task.profile->spec().checkpoint, info.si_code == CLD_EXITED, info.si_status);
  so_far.code = info.si_status;
  pmi_socket_.HearLastWords();
  if (RankServer* const server = node_.rank_servers.Of(task.profile->spec()); server != nullptr) {
    // While tasks have to stand the server may stand as well, and they do not go on before what is to be
    // killed has been.
    seen_ = server->Ended(task.attempt_id(), RankOf(task, given), [this] { return signals_.kill_owed.load(); });
    may_be_needed_ = so_far.succeeded() && seen_ && !seen_->connected;
  }
  if (!may_be_needed_) tell_core_(ProcessEnded{slot_, FailedByItself(EndOfRank(task, std::move(so_far)))});
}

void TaskRunner::BeatWhenDue(Duration* beaten) {
  const std::optional<Duration> every = outputs_.beat_every();
  if (!every || clock_.Steady() - *beaten < *every) return;
  outputs_.Beat();
  *beaten = clock_.Steady();
}

/// By mpirun's rule who has ended well without MPI_Init is missed by those that call it, be it later.
bool TaskRunner::AwaitNeed(const LocalTask& task, const Core::Given& given) {
  RankServer& server = *node_.rank_servers.Of(task.profile->spec());
  Duration beaten = clock_.Steady();
  bool served = true;
  const auto ask = [&] {
    BeatWhenDue(&beaten);
    const auto seen = server.Ended(task.attempt_id(), RankOf(task, given), [this] { return ToEnd(); });
    served = seen.has_value();
    return served && seen->others_speak;
  };
  return task.team->AwaitNeed(given.process, ask, [&] { return ToEnd() || !served; });
}

std::optional<TaskResult> TaskRunner::SettleInTeam(const LocalTask& task, const Core::Given& given,
                                                   TaskResult result) {
  Settle(kStepsOfAttempt, task, &result);
  if (!process_began_) {
    asked_to_end_ = static_cast<End>(signals_.reason.load());
    if (result.end == End::kRunning) result.end = asked_to_end_;
  }
  if (may_be_needed_) needed_ = AwaitNeed(task, given);
  if (!process_began_ || may_be_needed_) tell_core_(ProcessEnded{slot_, FailedByItself(EndOfRank(task, result))});
  // As soon as the last has told, the first may let go of the task.
  const std::shared_ptr<Team> team = task.team;
  team->Ended(given.process, EndOfRank(task, std::move(result)));
  if (given.process != 0) return std::nullopt;
  std::vector<RankEnd> ends = team->AwaitEnds(outputs_.beat_every(), [this] { outputs_.Beat(); });
  for (const RankEnd& end : ends) {
    stood_at_end_ = std::max(stood_at_end_, end.stood);
    if (asked_to_end_ == End::kRunning) asked_to_end_ = end.asked;
  }
  const ProfileSpec& spec = task.profile->spec();
  RankPart part{.of = spec.ranks, .mpi = spec.mpi};
  if (task.gang) {
    part.first = task.gang->first_rank();
    part.of = task.gang->ranks();
    part.node = task.gang->nodes[task.gang->here].name;
  }
  TaskResult all = JoinEnds(std::move(ends), part);
  all.gang = task.gang;
  if (RankServer* const server = node_.rank_servers.Of(spec); server != nullptr && all.end == End::kLost) {
    if (const auto loss = server->LossOf(task.attempt_id())) {
      all.message = loss->why;
      all.failed = loss->when;  // what ranks on other nodes do since then, they do for want of these
    }
  }
  const bool succeeded = all.succeeded() || all.end == End::kCheckpointed;
  if (task.gang && succeeded && task.gang->ends_together) AwaitOtherParts(task);
  Settle(0, task, &all);
  return all;
}

/// They may still write what the lead node has to look for; and it may not hear of them when they have left.
void TaskRunner::AwaitOtherParts(const LocalTask& task) {
  Duration beaten = clock_.Steady();
  const Status met = node_.gangs->MeetAndWait(task.attempt_id(), Meeting::kEnded, [&] {
    BeatWhenDue(&beaten);
    return ToEnd();
  });
  if (!met.ok() && asked_to_end_ == End::kRunning) asked_to_end_ = AskedFromOutside();
}

TaskResult TaskRunner::Hold(const LocalTask& task, TaskResult result) {
  if (AreAllPartsReady(task, &result)) {
    collector_.AddStarted({.id = task.id, .attempt = task.attempt, .start = clock_.Now(), .gang = task.gang});
    while (!ToEnd()) AwaitWakeUp();
  }
  if (ToEnd()) {
    // Where it is over elsewhere nothing is lost here.
    const auto reason = static_cast<End>(signals_.reason.load());
    result.end = reason == End::kLost ? End::kExited : reason;
  }
  result.finish = clock_.Now();
  return result;
}

TaskRunner::Ran TaskRunner::Run(const LocalTask& task, const Core::Given& given) {
  Ran done{.result = TaskResult()};
  TaskResult& result = *done.result;
  result.id = task.id;
  result.attempt = task.attempt;
  result.gang = task.gang;
  result.start = began_ = clock_.Now();
  started_ = clock_.Steady();
  stood_ = node_.fence->stood();
  standing_.Forget();
  asked_to_end_ = End::kRunning;
  told_ = false;
  asked_ = false;
  ask_again_ = kNever;
  process_began_ = false;
  seen_.reset();
  may_be_needed_ = needed_ = false;
  if (task.gang && !task.gang->has_processes()) return {.result = Hold(task, std::move(result))};
  if (const auto reason = signals_.reason.load(); reason != 0 && !task.team) {
    result.end = static_cast<End>(reason);
    result.finish = result.start;
    return done;
  } else if (reason == 0 && !MayRun()) {
    return {.later = true};
  }
  const pid_t pid = Start(task, given, &result);
  if (pid < 0) {
    result.finish = clock_.Now();
    if (task.team) return {.result = SettleInTeam(task, given, std::move(result))};
    Settle(0, task, &result);
    if (result.end == End::kRunning) return {.later = true};
    result.finish = clock_.Now();
    return done;
  }

  process_began_ = true;
  signals_.process.store(pid);
  const bool blindly = expect_short_ && task.profile->spec().memory == 0 && !task.team && !task.has_streams() &&
                       !task.profile->spec().checkpoint.on;
  Ended ended;
  if (!blindly || !WaitBlindly(pid, &ended)) WaitWatching(task, pid);
  stood_at_end_ = node_.fence->stood();
  result.finish = clock_.Now();
  if (task.team) {
    TellEnded(task, given, pid);
  } else if (told_) {
    tell_core_(ProcessEnded{slot_});
  }
  const Duration ran = clock_.Steady() - started_;
  TakeInWhatIsLeft();
  KillGroup(pid, ended);
  EndThoseThatLeftTheGroup();
  streams_.CloseAll();
  signals_.process.store(0);
  if (!ended.reaped) (void)TEMP_FAILURE_RETRY(wait4(pid, &ended.status, 0, &ended.usage));
  expect_short_ = ran < kShort && streams_.kept() < kSaysLittle;
  const bool signaled = WIFSIGNALED(ended.status);
  result.code = signaled ? WTERMSIG(ended.status) : WEXITSTATUS(ended.status);
  result.end = JudgeEnd(asked_to_end_, signaled, result.code);
  if (asked_to_end_ == End::kRunning) result.end = EndByItself(task.profile->spec().checkpoint, !signaled, result.code);
  if (result.end == End::kCheckpointed && asked_) result.checkpoint_took = clock_.Steady() - asked_at_;
  const bool too_large = asked_to_end_ == End::kSignaled && signaled;
  if (too_large) {
    result.message = StrCat("killed: its TMPDIR held the most when the tasks of this node",
                            node_.files != nullptr ? ", and the flow's files that it keeps," : "",
                            " held more than the ", FormatBytes(node_.local_limit), " that the site allows");
  }
  result.user_time = FromTimeval(ended.usage.ru_utime);
  result.system_time = FromTimeval(ended.usage.ru_stime);
  result.max_rss_kib = OwnPeak(ended.usage.ru_maxrss, starter_peak_kib_);
  if (task.team) {
    done.result = SettleInTeam(task, given, std::move(result));
    if (!done.result) return done;
  } else {
    Settle(0, task, &result);
  }
  // Who was asked to end may well leave before the last output is there, and with 0.
  const bool asked = asked_to_end_ != End::kRunning && asked_to_end_ != End::kSignaled;
  if (asked && result.end == End::kMissingOutput) {
    result.end = asked_to_end_;
    result.message.clear();
  }
  return done;
}

}  // namespace harrow::agent
