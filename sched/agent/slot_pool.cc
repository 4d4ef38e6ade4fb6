// Each slot's thread is pinned to the slot's core and stays there: its tasks inherit that, start on the core
// whose caches hold what the thread prepared, and the kernel has no reason to move them at exec. It has a
// descriptor table of its own (unshare), with the slot's pipes and little else: a clone copies that table for
// the child, exec goes through it, and no descriptor of another slot can leak into a task. So a slot's thread
// cannot write to another slot's wake_fd, whose number may mean a file of its task to it: whom the core has
// signalled on its word is woken by the alarm's thread.
//
// The core decides, under one lock: what each slot's thread has to start, whom it has to signal, when the
// time is to be told. A thread makes one call of it between two short tasks (Settled); only of a process that
// has run for some time it tells the beginning and the end.
//
// The signal kInterrupt does nothing but end a system call that waits. It may come too early or too late;
// whoever waits blindly is told again at the next pulse.
#include "agent/slot_pool.h"

#include <algorithm>
#include <csignal>
#include <fcntl.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/task_needs.h"
#include "base/text.h"

namespace harrow::agent {
namespace {

constexpr int kInterrupt = SIGURG;
constexpr rlim_t kOtherDescriptors = 128;
constexpr Duration kBlindTooLong = std::chrono::milliseconds(2);
constexpr Duration kUntilAllAreTold = std::chrono::seconds(1);
constexpr Duration kAllAreTold = std::chrono::milliseconds(100);  // after the agent
constexpr Duration kNearTheLimit =
    std::chrono::seconds(5);  // Slurm looks for limits in some intervals, and after them
constexpr Duration kNotAgainSoSoon = std::chrono::seconds(60);

Core::Node NodeOf(const NodeContext& node) {
  Core::Node out{
      .numa_of_slot = {}, .devices = static_cast<uint32_t>(node.devices.size()), .memory = node.memory};
  for (const topology::Slot& slot : node.slots) out.numa_of_slot.push_back(slot.numa);
  return out;
}

/// A descriptor table of this thread's own: 0, 1, 2 and those, of which -1 is none.
void OwnDescriptors([[maybe_unused]] int keep, [[maybe_unused]] int keep_too) {
#ifndef __SANITIZE_THREAD__               // which believes that all threads have one
  if (unshare(CLONE_FILES) != 0) return;  // forbidden somewhere: then it stays shared
  int next = 3;
  for (const int kept : {std::min(keep, keep_too), std::max(keep, keep_too)}) {
    if (kept > next) close_range(static_cast<unsigned>(next), static_cast<unsigned>(kept) - 1, 0);
    next = std::max(next, kept + 1);
  }
  close_range(static_cast<unsigned>(next), ~0u, 0);
#endif
}

}  // namespace

SlotPool::SlotPool(NodeContext& node, const os::Clock& clock, Collector& collector)
    : node_(node), clock_(clock), collector_(collector), core_(NodeOf(node)) {
  MakeRoomForDescriptors();
  struct sigaction action {};
  action.sa_handler = [](int) {};
  sigaction(kInterrupt, &action, nullptr);
  for (size_t i = 0; i < node_.slots.size(); ++i) {
    slots_.push_back(std::make_unique<Slot>());
    slots_.back()->signals.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  }
  collector_.SetPulse([this] { return InterruptBlindWaits(); });
  for (uint32_t i = 0; i < slots_.size(); ++i) slots_[i]->thread = std::thread([this, i] { RunSlot(i); });
  alarm_thread_ = std::thread([this] { RunAlarm(); });
  memory_watch_.emplace(static_cast<MemoryWatch::Host&>(*this), clock_);
}

SlotPool::~SlotPool() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    Tell(Closed{End::kInterrupted});
    for (auto& slot : slots_) slot->wake.notify_one();
    alarm_changed_.notify_one();
  }
  while (true) {
    // A slot may be waiting blindly.
    bool running = false;
    for (auto& slot : slots_) running = running || slot->signals.blind_since_ns.load() > 0;
    if (!running) break;
    InterruptBlindWaits();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  collector_.StopPulse();
  for (auto& slot : slots_) {
    slot->thread.join();
    close(slot->signals.wake_fd);
  }
  {
    std::lock_guard lock(mutex_);
    slots_ended_ = true;
    alarm_changed_.notify_one();
  }
  alarm_thread_.join();
  memory_watch_.reset();
}

// One wake-up descriptor a slot. Tasks get the limit that was there before.
void SlotPool::MakeRoomForDescriptors() {
  rlimit limit{};
  const rlim_t wanted = node_.slots.size() + kOtherDescriptors;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  node_.task_descriptors = limit.rlim_cur;
  limit.rlim_cur = std::min(limit.rlim_max, wanted);
  setrlimit(RLIMIT_NOFILE, &limit);
}

void SlotPool::RunSlot(uint32_t number) {
  Slot& self = *slots_[number];
  self.thread_id.store(static_cast<pid_t>(syscall(SYS_gettid)));
  pthread_setname_np(pthread_self(), StrCat("slot", number).substr(0, 15).c_str());
  sigset_t set;
  sigfillset(&set);
  sigdelset(&set, kInterrupt);
  pthread_sigmask(SIG_SETMASK, &set, nullptr);
  if (!node_.slots[number].pus.empty()) os::PinThisThread(os::CpuMask(node_.slots[number].pus));
  OwnDescriptors(self.signals.wake_fd, node_.streams != nullptr ? node_.streams->wake_fd() : -1);
  const auto told = [this, number](const Event& event) {
    bool to_be_watched = false;
    {
      std::lock_guard lock(mutex_);
      to_be_watched = std::holds_alternative<ProcessStarted>(event) &&
                      tasks_[core_.given(number)->tag].profile->spec().memory > 0;
      Tell(event, number);
    }
    if (to_be_watched) memory_watch_->Wake();
  };
  TaskRunner runner(number, node_, clock_, collector_, self.signals, told);

  std::unique_lock lock(mutex_);
  while (true) {
    const Core::Given* given = core_.given(number);
    if (given == nullptr) {
      if (stop_) return;
      lock.unlock();
      collector_.Hurry();
      lock.lock();
      self.wake.wait(lock, [&] { return stop_ || core_.given(number) != nullptr; });
      continue;
    }
    // It may have been given before the time was over.
    self.wake.wait(lock,
                   [&] { return self.signals.reason.load() != 0 || node_.fence->MayRun(clock_.Steady()); });
    const uint32_t tag = given->tag;
    const LocalTask& task = tasks_[tag];
    lock.unlock();
    TaskRunner::Ran ran = runner.Run(task, *given);
    const bool whole = ran.result.has_value();
    if (whole) {
      AskWhoEndedIt(&*ran.result);
      if (task.has_streams() && node_.streams != nullptr) node_.streams->Settle(task, &*ran.result);
      collector_.AddEnded(*std::move(ran.result));
    }
    lock.lock();
    if (ran.later) continue;
    self.signals.reason.store(0);
    self.signals.from_within.store(false);
    self.signals.asked.store(SlotSignals::kNothing);
    self.signals.kill_owed.store(false);
    self.signals.warned.store(false);
    self.signals.question.store(SlotSignals::kNone);
    if (whole) Forget(tag);
    Tell(Settled{number}, number);
  }
}

/// Tells the core the time when it wants it, and wakes whom slots cannot wake.
void SlotPool::RunAlarm() {
  pthread_setname_np(pthread_self(), "alarm");
  std::unique_lock lock(mutex_);
  while (!slots_ended_) {
    for (Slot* slot : std::exchange(to_wake_, {})) WriteTo(*slot);
    if (!alarm_) {
      alarm_changed_.wait(lock);
    } else if (const Time now = Now(); now < *alarm_) {
      alarm_changed_.wait_for(lock, *alarm_ - now);
    } else {
      alarm_.reset();
      Tell(TimeCame());
    }
  }
}

void SlotPool::Tell(const Event& event, std::optional<uint32_t> caller) {
  caller_ = caller;
  core_.SetKillWait(Duration(node_.kill_wait_ns.load(std::memory_order_relaxed)));
  actions_.clear();
  core_.Handle(Now(), event, &actions_);
  for (const Action& action : actions_) std::visit([this](const auto& a) { Do(a); }, action);
}

void SlotPool::Do(const Spawn& action) {
  if (action.slot != caller_) slots_[action.slot]->wake.notify_one();
}

void SlotPool::Do(const Signal& action) {
  SlotSignals& signals = slots_[action.slot]->signals;
  if (action.kill && !node_.fence->MayRun(clock_.Steady())) signals.kill_owed.store(true);
  signals.from_within.store(action.from_within);
  signals.reason.store(static_cast<uint8_t>(action.reason));
  signals.asked.store(action.kill ? SlotSignals::kKill : SlotSignals::kEnd);
  Wake(*slots_[action.slot]);
}

void SlotPool::Do(const Warn& action) {
  slots_[action.slot]->signals.warned.store(true);
  Wake(*slots_[action.slot]);
}

void SlotPool::Do(const AskCheckpoint& action) {
  slots_[action.slot]->signals.question.store(action.tell ? SlotSignals::kTold : SlotSignals::kKnown);
  Wake(*slots_[action.slot]);
}

void SlotPool::Do(const CheckpointLate& action) {
  const CheckpointSpec& spec = tasks_[action.tag].profile->spec().checkpoint;
  if (action.refused) {
    return collector_.AddMissed(action.attempt, StrCat("it goes on, and has left no checkpoint: ", slots_[*action.refused]->signals.refusal));
  }
  collector_.AddMissed(action.attempt, StrCat("it did not end with status ", spec.status, " within ", FormatDuration(spec.time),
                                              " of the question (checkpoint_time), and goes on"));
}

void SlotPool::Do(const Returned& action) {
  returned_.push_back(action.attempt);
  if (tasks_[action.tag].sandbox) node_.files->Forget(tasks_[action.tag]);
  Forget(action.tag);
}

void SlotPool::Do(const Report& action) {
  const LocalTask& task = tasks_[action.tag];
  const ProfileSpec& spec = task.profile->spec();
  if (task.sandbox) node_.files->Forget(task);
  End end = action.end;
  if (task.gang && !task.gang->has_processes() && end == End::kLost)
    end = End::kExited;  // as TaskRunner::Hold
  std::string why = task.trouble;
  if (action.why == Report::Why::kTooManyCores)
    why = StrCat("the task asks for ", spec.cores, " cores, this node has ", slots_.size());
  if (action.why == Report::Why::kTooManyDevices)
    why = StrCat("the task asks for ", spec.devices, " devices, this node has ", node_.devices.size());
  ReportUnstarted(task, end, std::move(why));
  Forget(action.tag);
}

void SlotPool::Do(const WakeAt& action) {
  alarm_ = action.time;
  alarm_changed_.notify_one();
}

void SlotPool::Wake(Slot& slot) {
  if (caller_ && slots_[*caller_].get() != &slot) {
    HaveWoken(slot);
  } else {
    WriteTo(slot);
  }
  slot.wake.notify_one();
}

void SlotPool::WriteTo(const Slot& slot) {
  const uint64_t one = 1;
  [[maybe_unused]] ssize_t n = write(slot.signals.wake_fd, &one, sizeof one);
}

void SlotPool::HaveWoken(Slot& slot) {
  to_wake_.push_back(&slot);
  alarm_changed_.notify_one();
}

void SlotPool::WakeSlotsOf(AttemptId attempt) {
  std::lock_guard lock(mutex_);
  for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
    const Core::Given* const given = core_.given(slot);
    if (given != nullptr && given->attempt == attempt) HaveWoken(*slots_[slot]);
  }
}

void SlotPool::Send(LocalTask task) {
  const ProfileSpec& spec = task.profile->spec();
  if (task.has_streams() && (task.gang || spec.ranks > 0)) {
    ReportUnstarted(task, End::kNotStarted, "tasks of several nodes and MPI tasks have no streams");
    return;
  }
  if (task.gang && node_.gangs == nullptr) {
    ReportUnstarted(
        task, End::kNotStarted,
        "a task of several nodes needs its files in the submit directory: run it with --files shared");
    return;
  }
  if (spec.nodes > 1 && !task.gang) {
    ReportUnstarted(task, End::kNotStarted, "a task of several nodes came to one of them alone");
    return;
  }
  if (task.sandbox && node_.files == nullptr) {  // and the server is told why (agent.cc)
    ReportUnstarted(task, End::kLost);
    return;
  }
  if (free_tags_.empty()) {
    free_tags_.push_back(static_cast<uint32_t>(tasks_.size()));
    tasks_.emplace_back();
  }
  const uint32_t tag = free_tags_.back();
  free_tags_.pop_back();
  tasks_[tag] = std::move(task);
  Needs needs = NeedsOf(tasks_[tag]);
  if (tasks_[tag].gang) node_.gangs->Join(tasks_[tag].attempt_id(), tasks_[tag].gang);
  if (tasks_[tag].has_streams() && node_.streams != nullptr) node_.streams->Join(tasks_[tag]);
  if (spec.ranks > 0 || tasks_[tag].gang) tasks_[tag].team = std::make_shared<Team>(needs.processes);
  if (tasks_[tag].sandbox) {
    FileHost::Awaited awaited = node_.files->Await(tasks_[tag]);
    needs.inputs = awaited.inputs;
    tasks_[tag].trouble = std::move(awaited.trouble);
  }
  const AttemptId attempt = tasks_[tag].attempt_id();
  const bool in_vain = !tasks_[tag].trouble.empty();
  Tell(Sent{attempt, needs, tag});
  if (in_vain) Tell(Cancelled{attempt, End::kNotStarted});
}

void SlotPool::TellFence() {
  Tell(agent::RunUntil{Time(node_.fence->until()), node_.fence->stood()});  // kNoFence is Time::max()
}

void SlotPool::Forget(uint32_t tag) {
  if (tasks_[tag].gang) node_.gangs->Leave(tasks_[tag].attempt_id());
  if (tasks_[tag].has_streams() && node_.streams != nullptr) node_.streams->Leave(tasks_[tag].attempt_id());
  tasks_[tag] = LocalTask();
  free_tags_.push_back(tag);
}

void SlotPool::Push(std::vector<LocalTask> tasks) {
  std::lock_guard lock(mutex_);
  for (LocalTask& task : tasks) Send(std::move(task));
}

std::vector<AttemptId> SlotPool::TakeBack(const std::vector<AttemptId>& attempts) {
  std::lock_guard lock(mutex_);
  returned_.clear();
  for (const AttemptId& attempt : attempts) Tell(TakenBack{attempt, &attempt != &attempts.back()});
  return returned_;
}

bool SlotPool::RunUntil(Duration until) {
  std::lock_guard lock(mutex_);
  const Duration now = clock_.Steady();
  if (!node_.fence->MayRun(now)) {
    // Where there is no process yet there will be none (SlotSignals::reason).
    for (const auto& slot : slots_) {
      if (slot->signals.kill_owed.load() && slot->signals.process.load() > 0) return false;
    }
  }
  const bool look = node_.fence->Renew(until, now);
  TellFence();
  if (!look) return true;
  for (auto& slot : slots_) Wake(*slot);
  return true;
}

void SlotPool::ReportUnstarted(const LocalTask& task, End reason, std::string why) {
  TaskResult result;
  result.id = task.id;
  result.attempt = task.attempt;
  result.gang = task.gang;
  result.end = reason;
  result.message = std::move(why);
  result.start = result.finish = clock_.Now();
  collector_.AddEnded(std::move(result));
}

void SlotPool::EndTasks(const std::vector<AttemptId>& attempts, End reason) {
  if (reason == End::kInterrupted) collector_.GiveUpOutput();
  std::lock_guard lock(mutex_);
  for (const AttemptId& attempt : attempts) Tell(Cancelled{attempt, reason, &attempt != &attempts.back()});
}

void SlotPool::AskForCheckpoints(const std::vector<AttemptId>& attempts) {
  std::lock_guard lock(mutex_);
  for (const AttemptId& attempt : attempts) Tell(CheckpointAsked{attempt});
}

void SlotPool::InputArrived(AttemptId attempt) {
  std::lock_guard lock(mutex_);
  Tell(agent::InputArrived{attempt});
}

void SlotPool::InputFailed(AttemptId attempt, const std::string& why) {
  std::lock_guard lock(mutex_);
  for (LocalTask& task : tasks_) {
    if (task.profile != nullptr && task.attempt_id() == attempt) task.trouble = why;
  }
  Tell(Cancelled{attempt, End::kNotStarted});
}

void SlotPool::DiskLimitReached(AttemptId attempt) {
  std::lock_guard lock(mutex_);
  Tell(agent::DiskLimitReached{attempt});
}

std::optional<AttemptId> SlotPool::TaskOf(uint32_t slot) {
  std::lock_guard lock(mutex_);
  const Core::Given* given = core_.given(slot);
  return given != nullptr ? std::optional(given->attempt) : std::nullopt;
}

void SlotPool::Close(End reason) {
  collector_.GiveUpOutput();
  std::lock_guard lock(mutex_);
  if (!closed_at_) closed_at_ = Now();
  Tell(Closed{reason});
  closing_.notify_all();
}

/// Slurm ends a step by a SIGTERM to each process of it, tasks and agent, in any order. Which of them ended
/// by it is not theirs to answer for; it is known when the agent has got its own. `a; b` of a shell whose `a`
/// got it first may end with 0 before the shell gets its own: near the job's limit who ends so is asked, too,
/// for a tenth of the time that it took at most.
void SlotPool::AskWhoEndedIt(TaskResult* result) {
  if (!node_.in_step) return;
  const int64_t limit = node_.job_ends_ns.load();
  if (result->succeeded()) {
    const bool near_limit = limit > 0 && clock_.Now() + kNearTheLimit > WallTime(Duration(limit));
    const Duration patience =
        near_limit ? std::min(kUntilAllAreTold, (result->finish - result->start) / 10) : Duration(0);
    std::unique_lock lock(mutex_);
    closing_.wait_for(lock, patience, [this] { return closed_at_.has_value(); });
    // Later it has got its own, and has ended with 0 nevertheless: it has finished.
    if (closed_at_ && Now() - *closed_at_ < kAllAreTold) result->end = End::kInterrupted;
    return;
  }
  const bool by_term = (result->end == End::kSignaled && result->code == SIGTERM) ||
                       (result->end == End::kExited && result->code == 128 + SIGTERM) ||
                       result->end == End::kMissingOutput;  // it may have kept what it had, and ended with 0
  if (!by_term) return;
  std::unique_lock lock(mutex_);
  // Of a flow whose outputs are not where it says every task ends so.
  const bool often =
      result->end == End::kMissingOutput && asked_in_vain_ && Now() - *asked_in_vain_ < kNotAgainSoSoon;
  if (often && !closed_at_) return;
  if (!closing_.wait_for(lock, kUntilAllAreTold, [this] { return closed_at_.has_value(); })) {
    asked_in_vain_ = Now();
    return;
  }
  result->end = End::kInterrupted;
  result->message.clear();
}

TaskHost::Snapshot SlotPool::TakeSnapshot() {
  Snapshot snapshot;
  {
    std::lock_guard lock(mutex_);
    const WallTime now = clock_.Now();
    const Time steady = Now();
    for (const Core::Info& info : core_.All()) {
      const bool waits = info.state == Core::State::kQueued || info.state == Core::State::kStaging;
      const std::shared_ptr<const Gang>& gang = tasks_[info.tag].gang;
      if (waits && gang == nullptr) {
        snapshot.queued.push_back(info.attempt);
      } else {
        snapshot.running.push_back({.id = info.attempt.task.value,
                                    .attempt = info.attempt.number,
                                    .start = waits ? now : now - (steady - info.given),
                                    .gang = gang});
      }
    }
  }
  // After the slots: a task is added to the collector before its slot lets go of it.
  for (const StartedTask& ended : collector_.Undelivered()) {
    const auto same = [&ended](const StartedTask& t) { return t.attempt_id() == ended.attempt_id(); };
    if (std::none_of(snapshot.running.begin(), snapshot.running.end(), same))
      snapshot.running.push_back(ended);
  }
  return snapshot;
}

bool SlotPool::Idle() {
  {
    std::lock_guard lock(mutex_);
    if (!core_.idle()) return false;
  }
  return collector_.Undelivered().empty();
}

std::optional<MemoryWatch::Host::Look> SlotPool::NextLook() {
  std::lock_guard lock(mutex_);
  const std::optional<Core::Look> next = core_.NextLook(Now());
  if (!next) return std::nullopt;
  Look look{.slot = next->slot, .at = next->at.time_since_epoch(), .limit = next->limit, .processes = {}};
  for (const uint32_t slot : core_.SlotsWith(next->slot)) {
    if (const pid_t process = slots_[slot]->signals.process.load(); process > 0)
      look.processes.emplace_back(slot, process);
  }
  return look;
}

void SlotPool::MemorySeen(const Look& look, uint64_t bytes, Duration rest) {
  std::lock_guard lock(mutex_);
  // As long as they are there, nobody else has had their numbers.
  const bool all_there = std::all_of(look.processes.begin(), look.processes.end(), [this](const auto& seen) {
    return slots_[seen.first]->signals.process.load() == seen.second;
  });
  agent::MemorySeen seen{.slot = look.slot, .rest = rest};
  if (all_there) seen.bytes = bytes;
  Tell(seen);
}

bool SlotPool::InterruptBlindWaits() {
  const Duration now = clock_.Steady();
  bool any = false;
  for (auto& slot : slots_) {
    const int64_t since = slot->signals.blind_since_ns.load();
    if (since == 0) continue;
    any = true;
    if (now - Duration(since) >= kBlindTooLong) tgkill(getpid(), slot->thread_id.load(), kInterrupt);
  }
  return any;
}

}  // namespace harrow::agent
