// Each slot's thread is pinned to the slot's core and stays there: its tasks inherit that, start on the core
// whose caches hold what the thread prepared, and the kernel has no reason to move them at exec. It has a
// descriptor table of its own (unshare), with the slot's pipes and little else: a clone copies that table for
// the child, exec goes through it, and no descriptor of another slot can leak into a task.
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

#include "base/text.h"

namespace harrow::agent {
namespace {

constexpr int kInterrupt = SIGURG;
constexpr rlim_t kOtherDescriptors = 128;
constexpr Duration kBlindTooLong = std::chrono::milliseconds(2);

std::vector<uint32_t> NumaOfSlots(const NodeContext& node) {
  std::vector<uint32_t> numa;
  for (const topology::Slot& slot : node.slots) numa.push_back(slot.numa);
  return numa;
}

/// A descriptor table of this thread's own: 0, 1, 2 and `keep`.
void OwnDescriptors([[maybe_unused]] int keep) {
#ifndef __SANITIZE_THREAD__               // which believes that all threads have one
  if (unshare(CLONE_FILES) != 0) return;  // forbidden somewhere: then it stays shared
  close_range(3, static_cast<unsigned>(keep) - 1, 0);
  close_range(static_cast<unsigned>(keep) + 1, ~0u, 0);
#endif
}

}  // namespace

SlotPool::SlotPool(NodeContext& node, const os::Clock& clock, Collector& collector)
    : node_(node),
      clock_(clock),
      collector_(collector),
      dispatcher_(NumaOfSlots(node), static_cast<uint32_t>(node.devices.size())) {
  MakeRoomForDescriptors();
  struct sigaction action {};
  action.sa_handler = [](int) {};
  sigaction(kInterrupt, &action, nullptr);
  for (size_t i = 0; i < node_.slots.size(); ++i) {
    slots_.push_back(std::make_unique<Slot>());
    slots_.back()->signals.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  }
  collector_.SetPulse([this] { return InterruptBlindWaits(); });
  for (uint32_t i = 0; i < slots_.size(); ++i) slots_[i]->thread = std::thread([this, i] { Run(i); });
}

SlotPool::~SlotPool() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    for (auto& slot : slots_) {
      EndRunning(*slot, End::kInterrupted);
      slot->wake.notify_one();
    }
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

void SlotPool::Run(uint32_t number) {
  Slot& self = *slots_[number];
  self.thread_id.store(static_cast<pid_t>(syscall(SYS_gettid)));
  pthread_setname_np(pthread_self(), StrCat("slot", number).substr(0, 15).c_str());
  sigset_t set;
  sigfillset(&set);
  sigdelset(&set, kInterrupt);
  pthread_sigmask(SIG_SETMASK, &set, nullptr);
  if (!node_.slots[number].pus.empty()) os::PinThisThread(os::CpuMask(node_.slots[number].pus));
  OwnDescriptors(self.signals.wake_fd);
  TaskRunner runner(number, node_, clock_, collector_, self.signals);

  std::unique_lock lock(mutex_);
  while (true) {
    Assignment* assignment = dispatcher_.assignment(number);
    if (assignment == nullptr) {
      if (stop_) return;
      lock.unlock();
      collector_.Hurry();
      lock.lock();
      self.wake.wait(lock, [&] { return stop_ || dispatcher_.assignment(number) != nullptr; });
      continue;
    }
    // It may have been given before the time was over.
    self.wake.wait(lock, [&] {
      return stop_ || self.signals.end_as.load() != 0 || node_.fence->MayRun(clock_.Steady());
    });
    lock.unlock();
    std::optional<TaskResult> result = runner.Run(*assignment);
    if (result) collector_.AddEnded(std::move(*result));
    lock.lock();
    if (!result) continue;
    self.signals.end_as.store(0);
    self.signals.kill_owed.store(false);
    dispatcher_.Release(number);
    Dispatch(number);
  }
}

void SlotPool::Dispatch(std::optional<uint32_t> caller) {
  if (stop_ || !node_.fence->MayRun(clock_.Steady())) return;
  given_.clear();
  dispatcher_.Dispatch(caller, &given_);
  for (uint32_t slot : given_) {
    slots_[slot]->start = clock_.Now();
    if (slot != caller) slots_[slot]->wake.notify_one();
  }
}

void SlotPool::Push(std::vector<LocalTask> tasks) {
  std::lock_guard lock(mutex_);
  for (LocalTask& task : tasks) {
    const std::string why = dispatcher_.WhyNever(task);
    if (closed_ != End::kRunning) {
      ReportUnstarted(task, closed_);
    } else if (!why.empty()) {
      ReportUnstarted(task, End::kNotStarted, why);
    } else {
      dispatcher_.Push(std::move(task));
    }
  }
  Dispatch(std::nullopt);
}

std::vector<AttemptId> SlotPool::TakeBack(const std::vector<AttemptId>& attempts) {
  std::vector<AttemptId> taken;
  std::lock_guard lock(mutex_);
  for (const AttemptId attempt : attempts) {
    if (dispatcher_.Remove(attempt)) taken.push_back(attempt);
  }
  Dispatch(std::nullopt);  // one that did not fit may have been at the head
  return taken;
}

void SlotPool::EndRunning(Slot& slot, End reason) {
  uint8_t none = 0;
  if (!node_.fence->MayRun(clock_.Steady())) slot.signals.kill_owed.store(true);
  slot.signals.end_as.compare_exchange_strong(none, static_cast<uint8_t>(reason));
  Wake(slot);
}

void SlotPool::Wake(Slot& slot) {
  const uint64_t one = 1;
  [[maybe_unused]] ssize_t n = write(slot.signals.wake_fd, &one, sizeof one);
  slot.wake.notify_one();
}

bool SlotPool::RunUntil(Duration until) {
  std::lock_guard lock(mutex_);
  const Duration now = clock_.Steady();
  if (!node_.fence->MayRun(now)) {
    for (const auto& slot : slots_) {
      if (slot->signals.kill_owed.load()) return false;
    }
  }
  if (!node_.fence->Renew(until, now)) return true;
  for (auto& slot : slots_) Wake(*slot);
  Dispatch(std::nullopt);
  return true;
}

void SlotPool::ReportUnstarted(const LocalTask& task, End reason, std::string why) {
  TaskResult result;
  result.id = task.id;
  result.attempt = task.attempt;
  result.end = reason;
  result.message = std::move(why);
  result.start = result.finish = clock_.Now();
  collector_.AddEnded(std::move(result));
}

void SlotPool::EndTasks(const std::vector<AttemptId>& attempts, End reason) {
  if (reason == End::kInterrupted) collector_.GiveUpOutput();
  std::lock_guard lock(mutex_);
  for (const AttemptId attempt : attempts) {
    if (std::optional<LocalTask> queued = dispatcher_.Remove(attempt)) {
      ReportUnstarted(*queued, reason);
      continue;
    }
    for (uint32_t i = 0; i < slots_.size(); ++i) {
      const Assignment* assignment = dispatcher_.assignment(i);
      if (assignment != nullptr && assignment->task.attempt_id() == attempt) EndRunning(*slots_[i], reason);
    }
  }
  Dispatch(std::nullopt);
}

std::optional<AttemptId> SlotPool::TaskOf(uint32_t slot) {
  std::lock_guard lock(mutex_);
  const Assignment* assignment = dispatcher_.assignment(slot);
  return assignment != nullptr ? std::optional(assignment->task.attempt_id()) : std::nullopt;
}

void SlotPool::Close(End reason) {
  collector_.GiveUpOutput();
  std::lock_guard lock(mutex_);
  closed_ = reason;
  while (!dispatcher_.queue().empty())
    ReportUnstarted(*dispatcher_.Remove(dispatcher_.queue().front().attempt_id()), reason);
  for (uint32_t i = 0; i < slots_.size(); ++i) {
    if (dispatcher_.assignment(i) != nullptr) EndRunning(*slots_[i], reason);
  }
}

TaskHost::Snapshot SlotPool::TakeSnapshot() {
  Snapshot snapshot;
  {
    std::lock_guard lock(mutex_);
    for (uint32_t i = 0; i < slots_.size(); ++i) {
      const Assignment* assignment = dispatcher_.assignment(i);
      if (assignment == nullptr) continue;
      snapshot.running.push_back(
          {.id = assignment->task.id, .attempt = assignment->task.attempt, .start = slots_[i]->start});
    }
    for (const LocalTask& task : dispatcher_.queue()) snapshot.queued.push_back(task.attempt_id());
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
    if (!dispatcher_.queue().empty() || dispatcher_.busy_slots() > 0) return false;
  }
  return collector_.Undelivered().empty();
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
