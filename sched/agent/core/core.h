#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "agent/core/attempt.h"
#include "agent/core/slot_allocator.h"

namespace harrow::agent {

/// The attempts of a node: what was sent waits, is given slots, memory and devices in the order of sending,
/// runs, and is ended when it is to end (how: core.cc). Pure: no thread, clock, socket or file. The agent
/// (slot_pool.h) and the simulator are its two drivers; they carry out its actions in their order. Events
/// about an attempt or a slot that is not here are ignored: they are late.
class Core {
 public:
  struct Node {
    std::vector<uint32_t> numa_of_slot;  // one entry a slot
    uint32_t devices = 0;
    uint64_t memory = 0;  // bytes that attempts may ask for together; 0: not known, then it is not shared out
  };
  /// queued > staging > starting > running > settling; one that has ended is not here any more.
  enum class State : uint8_t { kQueued, kStaging, kStarting, kRunning, kSettling };

  explicit Core(Node node);
  Core(Core&&) = default;
  Core& operator=(Core&&) = default;

  void Handle(Time now, const Event& event, std::vector<Action>* actions);

  /// What a slot's thread starts and looks after.
  struct Given {
    AttemptId attempt;
    uint32_t tag = 0;
    uint32_t process = 0;           // 0 to Needs::processes - 1
    std::vector<uint32_t> slots{};  // of this process, ascending
    std::vector<uint32_t> devices{};
  };
  /// Null: the slot's thread has nothing to do. Valid until the slot's process is Settled.
  const Given* given(uint32_t slot) const {
    return slot < slots_.size() && Busy(slots_[slot]) ? &slots_[slot].given : nullptr;
  }

  /// How long attempts that were asked to end have until they are killed.
  void SetKillWait(Duration wait) { kill_wait_ = wait; }

  /// Whose memory is to be looked at next, and when: the first process of an attempt, whose others are to be
  /// looked at with it. None: no attempt that runs is limited.
  struct Look {
    uint32_t slot = 0;
    Time at{};
    uint64_t limit = 0;  // bytes
  };
  std::optional<Look> NextLook(Time now) const;

  struct Info {
    AttemptId attempt;
    State state = State::kQueued;
    uint32_t tag = 0;
    Time given{};  // when it was given its slots; from kStarting on
  };
  /// The slots whose threads have been given processes of the attempt that this one has; none: it has none.
  std::vector<uint32_t> SlotsWith(uint32_t slot) const;
  /// Of all that are here: those given to slots by slot, then the others in their order.
  std::vector<Info> All() const;
  bool idle() const { return count_ == 0; }
  uint32_t free_slots() const { return cores_.free_count(); }
  uint64_t free_memory() const { return free_memory_; }

  /// What Settled of a slot that has been given a process will read is asked of memory, in two steps: 0, 1.
  void PrefetchSettled(uint32_t slot, int step) const;

  /// What is inconsistent; empty: nothing. For tests.
  std::string SanityCheck() const;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Entry {  // of an attempt
    AttemptId attempt;
    Needs needs;
    uint32_t tag = 0;
    uint32_t next_of_bucket = kNone;
    uint32_t before = kNone, after = kNone;  // in its list; `after` of a free entry: the next free one
    uint64_t order = 0;                      // of sending
    uint32_t first_slot = kNone;
    uint32_t unsettled = 0, running = 0;  // processes; 0 while it waits
    State state = State::kQueued;
    End ending = End::kRunning;  // else: it was told to end, for this reason
    bool from_within = false;    // which is that one of its processes has failed
    bool killed = false;
    Time given{};
    Time limit = Time::max(), warn = Time::max(), kill = Time::max(), look = Time::max();  // what is due when
    // The next question for a checkpoint; until when the last one may be answered.
    Time ask = Time::max(), answer = Time::max();

    Time next() const { return std::min({limit, warn, ask, answer}); }
    void DropLimits() { limit = warn = look = ask = answer = Time::max(); }
    uint64_t seen = 0;  // bytes that it held at `seen_at`
    Time seen_at{};
    double growth = 0;  // bytes/s that are expected of it
  };
  struct Slot {
    uint32_t entry = kNone;  // of the process that this slot's thread has been given
    bool ended = false, settled = false;
    Given given;
  };
  struct List {
    uint32_t first = kNone, last = kNone;
  };

  void On(const Sent& event);
  void On(const InputArrived& event);
  void On(const TakenBack& event);
  void On(const Cancelled& event);
  void On(const CheckpointAsked& event);
  void On(const CheckpointRefused& event);
  void On(const Closed& event);
  void On(const ProcessStarted& event);
  void On(const ProcessEnded& event);
  void On(const Settled& event);
  void On(const MemorySeen& event);
  void On(const DiskLimitReached& event);
  void On(const RunUntil& event);
  void On(const TimeCame&) { asked_ = Time::max(); }

  /// Null: its thread has been given nothing so far.
  Slot* Known(uint32_t slot) { return slot < slots_.size() ? &slots_[slot] : nullptr; }
  static bool Busy(const Slot& slot) { return slot.entry != kNone && !slot.settled; }
  bool MayRun() const { return now_ < until_; }
  uint64_t CoresOf(const Needs& needs) const;
  uint64_t DevicesOf(const Needs& needs) const;
  uint64_t MemoryOf(const Needs& needs) const { return needs.memory < memory_ ? needs.memory : memory_; }
  uint32_t Find(AttemptId attempt) const;
  size_t BucketOf(AttemptId attempt) const;
  uint32_t Add(AttemptId attempt);
  void Remove(uint32_t entry);
  /// By the order of sending.
  void Insert(List* list, uint32_t entry);
  void TakeOut(List* list, uint32_t entry);
  List* ListOf(const Entry& entry) { return entry.state == State::kStaging ? &staging_ : &queue_; }

  /// Gives slots to what is queued while it fits; `caller`, whose thread is awake, is preferred.
  void GiveOut(std::optional<uint32_t> caller);
  bool Fits(const Needs& needs) const;
  void Give(uint32_t entry, std::optional<uint32_t> caller);
  void TakeDevices(uint32_t count, std::vector<uint32_t>* taken);
  /// Ends an attempt that has been given slots, unless it is being ended already.
  void EndGiven(uint32_t entry, End reason, bool at_once);
  /// One that waits.
  void EndWaiting(uint32_t entry, End reason);
  void SignalAll(uint32_t entry, bool kill);
  /// For a checkpoint, unless it is being asked or ended.
  void Ask(uint32_t entry);
  /// The question was in vain.
  void GiveUpAsking(uint32_t entry, std::optional<uint32_t> refused = {});
  /// Calls `action` with the slot of each of its processes.
  template <class F>
  void ForEachSlotOf(uint32_t entry, F action) const;
  /// Does what is due, and says when something will be.
  void LookAtTheClock();
  void Due(Time time) { due_ = time < due_ ? time : due_; }

  uint64_t memory_;  // that the node has
  SlotAllocator cores_;
  std::vector<bool> device_free_;
  uint32_t free_devices_;
  uint64_t free_memory_;
  std::vector<Slot> slots_;  // up to the last whose thread has been given something; never moves
  std::vector<Entry> entries_;
  std::vector<uint32_t> buckets_;  // a power of two
  uint32_t free_entries_ = kNone;
  uint32_t count_ = 0;
  uint64_t sent_ = 0;
  List queue_, staging_;
  End closed_ = End::kRunning;
  Duration kill_wait_ = std::chrono::seconds(5);
  Time until_ = Time::max();
  Duration stood_{0};
  Time due_ = Time::max();       // nothing of an attempt's is due before
  Time asked_ = Time::max();     // the last WakeAt
  std::vector<uint32_t> taken_;  // used again

  // Of the event that is being handled.
  Time now_{};
  std::vector<Action>* actions_ = nullptr;
};

/// How an attempt ended of which a process has ended by itself or after Signal{reason}; kRunning: none was
/// sent. `signaled`, `code`: how the process ended (its signal, or its exit code). What exits with 0 after it
/// was asked to end has finished; what was over before it could be killed ended as it did.
End JudgeEnd(End reason, bool signaled, int code);

}  // namespace harrow::agent
