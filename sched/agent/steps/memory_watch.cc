#include "agent/steps/memory_watch.h"

#include <algorithm>
#include <pthread.h>
#include <time.h>

#include "os/process.h"

namespace harrow::agent {
namespace {

constexpr Duration kLongestRest = std::chrono::seconds(1);  // of all

Duration ThreadTime() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
}

}  // namespace

uint64_t MemoryOfTask(std::span<const pid_t> pids, uint64_t limit) {
  std::vector<os::ProcessMemory> processes;
  for (const pid_t pid : pids) {
    const std::vector<os::ProcessMemory> tree = os::MemoryOfTree(pid);
    processes.insert(processes.end(), tree.begin(), tree.end());
  }
  // Resident memory counts shared pages once a process, so it is never too small; it costs little to read.
  uint64_t resident = 0;
  for (const os::ProcessMemory& process : processes) resident += process.resident;
  if (resident <= limit) return resident;
  uint64_t proportional = 0;
  for (const os::ProcessMemory& process : processes) proportional += os::ProportionalMemory(process.pid);
  return proportional;
}

MemoryWatch::MemoryWatch(Host& host, const os::Clock& clock)
    : host_(host), clock_(clock), thread_([this] { Run(); }) {}

MemoryWatch::~MemoryWatch() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void MemoryWatch::Wake() {
  {
    std::lock_guard lock(mutex_);
    woken_ = true;
  }
  changed_.notify_one();
}

void MemoryWatch::Run() {
  pthread_setname_np(pthread_self(), "memory-watch");
  std::unique_lock lock(mutex_);
  while (!stop_) {
    woken_ = false;
    lock.unlock();
    const std::optional<Host::Look> next = host_.NextLook();
    const Duration now = clock_.Steady();
    const Duration at = next ? std::max(next->at, rest_until_) : Duration::max();
    if (now >= at) Look(*next);
    lock.lock();
    const auto changed = [this] { return stop_ || woken_; };
    if (!next) {
      changed_.wait(lock, changed);
    } else if (now < at) {
      changed_.wait_for(lock, at - now, changed);
    }
  }
}

void MemoryWatch::Look(const Host::Look& look) {
  const Duration used = ThreadTime();
  std::vector<pid_t> pids;
  for (const auto& [slot, pid] : look.processes) pids.push_back(pid);
  const uint64_t bytes = MemoryOfTask(pids, look.limit);
  const auto rest = std::chrono::duration_cast<Duration>((ThreadTime() - used) * (1 / kShare - 1));
  host_.MemorySeen(look, bytes, rest > kLongestRest ? rest : Duration(0));
  rest_until_ = clock_.Steady() + std::min(rest, kLongestRest);
}

}  // namespace harrow::agent
