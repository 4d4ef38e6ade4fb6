#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "agent/core/slot_allocator.h"
#include "agent/task.h"

namespace harrow::agent {

/// A task and what it has been given.
struct Assignment {
  LocalTask task;
  std::vector<uint32_t>
      slots;  // ascending; the first one's thread runs it, unless it is given to another of them
  std::vector<uint32_t> gpus;  // indices of the node's devices
};

/// The tasks an agent has been sent and which slot runs which, in the order of sending: a task that does not
/// fit yet holds up those behind it (the server sends it when it should fit). No thread, no clock: the caller
/// locks.
class Dispatcher {
 public:
  Dispatcher(const std::vector<uint32_t>& numa_of_slot, uint32_t gpus);

  /// Why the task can never run here; empty when it can.
  std::string WhyNever(const LocalTask& task) const;
  void Push(LocalTask task) { queue_.push_back(std::move(task)); }
  /// Takes an attempt out of the queue; none when it is not there (any more).
  std::optional<LocalTask> Remove(AttemptId attempt);

  /// What `slot` ran is over; its cores and devices are free again.
  void Release(uint32_t slot);
  /// Gives queued tasks to idle slots while they fit. Slot numbers whose thread has got an assignment are
  /// appended to *given; `caller`, whose thread is awake, is preferred.
  void Dispatch(std::optional<uint32_t> caller, std::vector<uint32_t>* given);
  /// What the slot's thread is to run or runs; null: nothing.
  Assignment* assignment(uint32_t slot) { return running_[slot] ? &*running_[slot] : nullptr; }

  const std::deque<LocalTask>& queue() const { return queue_; }
  uint32_t slot_count() const { return static_cast<uint32_t>(running_.size()); }
  uint32_t busy_slots() const { return static_cast<uint32_t>(slot_count() - cores_.free_count()); }

 private:
  uint32_t CoresOf(const LocalTask& task) const;

  std::deque<LocalTask> queue_;
  SlotAllocator cores_;
  std::vector<std::optional<Assignment>> running_;  // by the slot whose thread runs it
  std::vector<bool> gpu_free_;
};

}  // namespace harrow::agent
