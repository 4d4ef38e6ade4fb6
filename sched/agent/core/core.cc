// An attempt waits in the queue, in the order of sending, or apart from it while inputs are on their way
// (staging). The first of the queue that does not fit holds up those behind it: the server sends what should
// fit. It is given slots, memory and devices all at once and keeps them until the last of its processes is
// settled.
//
// Being ended: the first reason counts. Each process is asked by a signal, and killed when the kill wait is
// over, again and again until it has ended: forks may outrun one round. What holds too much, and whatever is
// ended while tasks have to stand (fence.h), is killed at once, for it could not hear a question. Standing
// does not count against a time limit.
//
// How often memory is looked at: so that an attempt that grows by kGrowth, or as fast as it did between the
// last two looks, is seen when it has used half of what lies between it and one and a half times its limit.
// Where looks are late because there are many processes, those come first that may hold most by now.
//
// Checkpoints: an attempt is asked when that is wanted, or when it has run for so long, and is expected to end. As long as the question
// can be answered it is not asked again; when it was in vain the attempt goes on, and is asked again after the same time.
//
// The clock: `due_` is never later than the next thing that is due. Only when it has come are the slots gone
// through, so that tasks without limits, most of them short, cost nothing here.
#include "agent/core/core.h"

#include <algorithm>
#include <bit>
#include <span>
#include <utility>

#include "base/prefetch.h"
#include "base/text.h"

namespace harrow::agent {
namespace {

constexpr Duration kKillAgain = std::chrono::milliseconds(500);
constexpr double kGrowth = 400e6;  // bytes/s
constexpr Duration kSoonestLook = std::chrono::milliseconds(5);
constexpr Duration kLatestLook = std::chrono::milliseconds(250);
constexpr size_t kFewestBuckets = 16;
constexpr size_t kBucketsAnEntry = 4;  // at least: other entries of a bucket are not near the processor

Duration UntilLook(uint64_t limit, uint64_t seen, double growth) {
  const double most = 1.5 * static_cast<double>(limit);
  const double left = std::max(0.0, most - static_cast<double>(seen)) / (2 * growth);
  return std::clamp(FromSeconds(std::min(left, 3600.0)), kSoonestLook, kLatestLook);
}

}  // namespace

End JudgeEnd(End reason, bool signaled, int code) {
  const End by_itself = signaled ? End::kSignaled : End::kExited;
  switch (reason) {
    case End::kRunning:
    case End::kSignaled:
      return by_itself;
    case End::kTimedOut:
    case End::kCancelled:
    case End::kInterrupted:
    case End::kLost:
    case End::kCheckpointed:
      return !signaled && code == 0 ? by_itself : reason;
    default:
      return reason;
  }
}

Core::Core(Node node)
    : memory_(node.memory > 0 ? node.memory : UINT64_MAX),
      cores_(node.numa_of_slot),
      device_free_(node.devices, true),
      free_devices_(node.devices),
      free_memory_(memory_),
      buckets_(kFewestBuckets, kNone) {
  slots_.reserve(node.numa_of_slot.size());
}

void Core::Handle(Time now, const Event& event, std::vector<Action>* actions) {
  now_ = now;
  actions_ = actions;
  std::visit([this](const auto& e) { On(e); }, event);
  if (now_ >= due_ || due_ < asked_) LookAtTheClock();
}

// --- the table of attempts

size_t Core::BucketOf(AttemptId attempt) const {
  // The highest bits: what is below is alike for tasks that are spread over nodes in turn.
  return std::hash<AttemptId>()(attempt) >> std::countl_zero(buckets_.size() - 1);
}

uint32_t Core::Find(AttemptId attempt) const {
  uint32_t entry = buckets_[BucketOf(attempt)];
  while (entry != kNone && entries_[entry].attempt != attempt) entry = entries_[entry].next_of_bucket;
  return entry;
}

uint32_t Core::Add(AttemptId attempt) {
  uint32_t entry = free_entries_;
  if (entry != kNone) {
    free_entries_ = entries_[entry].after;
    entries_[entry] = Entry();
  } else {
    entry = static_cast<uint32_t>(entries_.size());
    entries_.emplace_back();
    if (kBucketsAnEntry * entries_.size() > buckets_.size()) {
      buckets_.assign(2 * buckets_.size(), kNone);
      // All entries are in use: there was no free one.
      for (uint32_t other = 0; other < entry; ++other) {
        uint32_t& bucket = buckets_[BucketOf(entries_[other].attempt)];
        entries_[other].next_of_bucket = std::exchange(bucket, other);
      }
    }
  }
  entries_[entry].attempt = attempt;
  uint32_t& bucket = buckets_[BucketOf(attempt)];
  entries_[entry].next_of_bucket = std::exchange(bucket, entry);
  ++count_;
  return entry;
}

void Core::Remove(uint32_t entry) {
  uint32_t* link = &buckets_[BucketOf(entries_[entry].attempt)];
  while (*link != entry) link = &entries_[*link].next_of_bucket;
  *link = entries_[entry].next_of_bucket;
  entries_[entry].attempt = AttemptId();
  entries_[entry].after = std::exchange(free_entries_, entry);
  --count_;
}

void Core::Insert(List* list, uint32_t entry) {
  uint32_t before = list->last;
  while (before != kNone && entries_[before].order > entries_[entry].order) before = entries_[before].before;
  uint32_t& after = before == kNone ? list->first : entries_[before].after;
  entries_[entry].before = before;
  entries_[entry].after = after;
  (after == kNone ? list->last : entries_[after].before) = entry;
  after = entry;
}

void Core::TakeOut(List* list, uint32_t entry) {
  const Entry& e = entries_[entry];
  (e.before == kNone ? list->first : entries_[e.before].after) = e.after;
  (e.after == kNone ? list->last : entries_[e.after].before) = e.before;
}

template <class F>
void Core::ForEachSlotOf(uint32_t entry, F action) const {
  // Processes are given to slots in ascending order.
  uint32_t left = entries_[entry].needs.processes;
  for (uint32_t slot = entries_[entry].first_slot; left > 0; ++slot) {
    if (slots_[slot].entry != entry) continue;
    --left;
    action(slot);
  }
}

// --- waiting, and being given slots

uint64_t Core::CoresOf(const Needs& needs) const {
  return needs.whole_node ? cores_.slot_count() : uint64_t{needs.processes} * needs.cores;
}

uint64_t Core::DevicesOf(const Needs& needs) const {
  return uint64_t{needs.processes} * needs.devices;
}

void Core::On(const Sent& event) {
  const auto refuse = [&](End end, Report::Why why) {
    actions_->push_back(Report{event.attempt, event.tag, end, why});
  };
  const Needs& needs = event.needs;
  if (closed_ != End::kRunning) return refuse(closed_, Report::Why::kAsked);
  if (CoresOf(needs) > cores_.slot_count() || (needs.whole_node && needs.processes > 1))
    return refuse(End::kNotStarted, Report::Why::kTooManyCores);
  if (DevicesOf(needs) > device_free_.size()) return refuse(End::kNotStarted, Report::Why::kTooManyDevices);
  const uint32_t entry = Add(event.attempt);
  Entry& e = entries_[entry];
  e.tag = event.tag;
  e.needs = needs;
  e.order = sent_++;
  e.state = needs.inputs > 0 ? State::kStaging : State::kQueued;
  Insert(ListOf(e), entry);
  if (e.state == State::kQueued) GiveOut(std::nullopt);
}

void Core::On(const InputArrived& event) {
  const uint32_t entry = Find(event.attempt);
  if (entry == kNone || entries_[entry].state != State::kStaging) return;
  Entry& e = entries_[entry];
  if (--e.needs.inputs > 0) return;
  TakeOut(&staging_, entry);
  e.state = State::kQueued;
  Insert(&queue_, entry);
  GiveOut(std::nullopt);
}

void Core::On(const TakenBack& event) {
  const uint32_t entry = Find(event.attempt);
  if (entry != kNone && entries_[entry].unsettled == 0) {
    Entry& e = entries_[entry];
    TakeOut(ListOf(e), entry);
    actions_->push_back(Returned{e.attempt, e.tag});
    Remove(entry);
  }
  if (!event.more) GiveOut(std::nullopt);  // it may have held up others
}

bool Core::Fits(const Needs& needs) const {
  return CoresOf(needs) <= cores_.free_count() && DevicesOf(needs) <= free_devices_ &&
         MemoryOf(needs) <= free_memory_;
}

void Core::GiveOut(std::optional<uint32_t> caller) {
  if (!MayRun()) return;
  while (queue_.first != kNone && Fits(entries_[queue_.first].needs)) {
    const uint32_t entry = queue_.first;
    TakeOut(&queue_, entry);
    Give(entry, caller);
  }
}

void Core::Give(uint32_t entry, std::optional<uint32_t> caller) {
  Entry& e = entries_[entry];
  e.state = State::kStarting;
  e.given = now_;
  free_memory_ -= MemoryOf(e.needs);
  uint32_t one;
  std::span<const uint32_t> taken(&one, 1);
  if (CoresOf(e.needs) > 1) {
    taken_.clear();
    cores_.Take(static_cast<uint32_t>(CoresOf(e.needs)), &taken_);
    taken = taken_;
  } else if (caller && cores_.is_free(*caller)) {
    // A free slot's thread is idle: that of a busy one has a process whose slots it is among.
    cores_.TakeSlot(one = *caller);
  } else {
    one = cores_.TakeOne();
  }
  const uint32_t processes = e.needs.processes;
  const size_t cores = taken.size() / processes;
  e.unsettled = e.running = processes;
  for (uint32_t process = 0; process < processes; ++process) {
    const auto begin = taken.begin() + static_cast<ptrdiff_t>(process * cores);
    const auto end = begin + static_cast<ptrdiff_t>(cores);
    const uint32_t leader = caller && std::binary_search(begin, end, *caller) ? *caller : *begin;
    if (process == 0) e.first_slot = leader;
    if (slots_.size() <= leader) slots_.resize(leader + 1);
    Slot& slot = slots_[leader];
    slot.entry = entry;
    slot.ended = slot.settled = false;
    slot.given.attempt = e.attempt;
    slot.given.tag = e.tag;
    slot.given.process = process;
    slot.given.slots.assign(begin, end);
    slot.given.devices.clear();
    TakeDevices(e.needs.devices, &slot.given.devices);
    actions_->push_back(Spawn{leader});
  }
}

void Core::TakeDevices(uint32_t count, std::vector<uint32_t>* taken) {
  for (uint32_t device = 0; taken->size() < count; ++device) {
    if (!device_free_[device]) continue;
    device_free_[device] = false;
    taken->push_back(device);
  }
  free_devices_ -= count;
}

// --- running

void Core::On(const ProcessStarted& event) {
  Slot* const slot = Known(event.slot);
  if (slot == nullptr || !Busy(*slot) || slot->ended) return;
  Entry& e = entries_[slot->entry];
  if (e.state != State::kStarting) return;
  e.state = State::kRunning;
  if (e.needs.time_limit > Duration(0) && e.ending == End::kRunning) {
    e.limit = event.since + e.needs.time_limit + (stood_ - event.stood);
    Due(e.limit);
    if (e.needs.warn_before > Duration(0)) Due(e.warn = e.limit - e.needs.warn_before);
  }
  if (e.needs.checkpoint_every > Duration(0) && e.ending == End::kRunning && e.answer == Time::max())
    Due(e.ask = event.since + e.needs.checkpoint_every + (stood_ - event.stood));
  if (e.needs.memory > 0 && e.ending == End::kRunning) {
    e.seen_at = event.since;
    e.growth = kGrowth;
    e.look = event.since + UntilLook(e.needs.memory, 0, kGrowth);
  }
}

void Core::On(const ProcessEnded& event) {
  Slot* const slot = Known(event.slot);
  if (slot == nullptr || !Busy(*slot) || slot->ended) return;
  slot->ended = true;
  Entry& e = entries_[slot->entry];
  if (--e.running == 0) {
    e.state = State::kSettling;
    e.DropLimits();
    e.kill = Time::max();
  } else if (event.failed) {
    e.from_within = e.from_within || e.ending == End::kRunning;
    EndGiven(slot->entry, End::kCancelled, false);
  }
}

void Core::On(const Settled& event) {
  Slot* const slot = Known(event.slot);
  if (slot == nullptr || !Busy(*slot)) return;
  On(ProcessEnded{event.slot});
  slot->settled = true;
  const uint32_t entry = slot->entry;
  if (--entries_[entry].unsettled > 0) return;
  ForEachSlotOf(entry, [&](uint32_t number) {
    Slot& each = slots_[number];
    for (const uint32_t core : each.given.slots) cores_.Free(core);
    for (const uint32_t device : each.given.devices) device_free_[device] = true;
    free_devices_ += static_cast<uint32_t>(each.given.devices.size());
    each.entry = kNone;
  });
  free_memory_ += MemoryOf(entries_[entry].needs);
  Remove(entry);
  GiveOut(event.slot);
}

void Core::On(const MemorySeen& event) {
  const Slot* const slot = Known(event.slot);
  if (slot == nullptr || slot->entry == kNone) return;
  Entry& e = entries_[slot->entry];
  if (e.state != State::kRunning || e.needs.memory == 0) return;
  if (event.bytes > e.needs.memory) return EndGiven(slot->entry, End::kOutOfMemory, true);
  if (e.ending != End::kRunning) return;
  const double seconds = Seconds(now_ - e.seen_at);
  const double grown = event.bytes > e.seen ? static_cast<double>(event.bytes - e.seen) : 0;
  const double growth = seconds > 0 ? grown / seconds : 0;
  e.look = now_ + std::max(event.rest, UntilLook(e.needs.memory, event.bytes, std::max(kGrowth, 2 * growth)));
  e.growth = std::max(kGrowth / 20, growth);
  e.seen = event.bytes;
  e.seen_at = now_;
}

std::optional<Core::Look> Core::NextLook(Time now) const {
  std::optional<Look> next;
  double highest = 0;  // of those that are due
  for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot].entry == kNone) continue;
    const Entry& e = entries_[slots_[slot].entry];
    if (e.first_slot != slot || e.look == Time::max()) continue;
    // What it holds by now if it went on as before, in parts of its limit.
    const double held = static_cast<double>(e.seen) + e.growth * Seconds(now - e.seen_at);
    const double urgency = e.look <= now ? held / static_cast<double>(e.needs.memory) : 0;
    if (next && (urgency < highest || (urgency == highest && e.look >= next->at))) continue;
    next = Look{slot, e.look, e.needs.memory};
    highest = urgency;
  }
  return next;
}

// --- being ended

void Core::On(const Cancelled& event) {
  const uint32_t entry = Find(event.attempt);
  if (entry != kNone && entries_[entry].unsettled > 0) EndGiven(entry, event.reason, false);
  if (entry != kNone && entries_[entry].unsettled == 0) EndWaiting(entry, event.reason);
  if (!event.more) GiveOut(std::nullopt);  // it may have held up others
}

void Core::On(const CheckpointAsked& event) {
  const uint32_t entry = Find(event.attempt);
  if (entry != kNone && entries_[entry].unsettled > 0) Ask(entry);
}

void Core::Ask(uint32_t entry) {
  Entry& e = entries_[entry];
  e.ask = Time::max();
  if (e.needs.checkpoint == Needs::Asked::kNot || e.ending != End::kRunning || e.answer != Time::max()) return;
  if (e.state == State::kSettling) return;
  if (e.needs.checkpoint == Needs::Asked::kByEnd) return EndGiven(entry, End::kCheckpointed, false);
  Due(e.answer = now_ + e.needs.checkpoint_time);
  // Who has been told may end at once, and the others with it: by then all know why.
  for (const bool tell : {false, true}) {
    ForEachSlotOf(entry, [&](uint32_t slot) {
      const bool told = !e.needs.ask_none && (e.needs.ask_all || slot == e.first_slot);
      if (told == tell && Busy(slots_[slot])) actions_->push_back(AskCheckpoint{slot, tell});
    });
  }
}

void Core::On(const CheckpointRefused& event) {
  const Slot* const slot = Known(event.slot);
  if (slot == nullptr || !Busy(*slot) || slot->ended || entries_[slot->entry].answer == Time::max()) return;
  GiveUpAsking(slot->entry, event.slot);
}

/// Where some of its processes have ended the others wait for these.
void Core::GiveUpAsking(uint32_t entry, std::optional<uint32_t> refused) {
  Entry& e = entries_[entry];
  e.answer = Time::max();
  actions_->push_back(CheckpointLate{e.attempt, e.tag, refused});
  if (e.running < e.needs.processes) return EndGiven(entry, End::kLost, false);
  if (e.needs.checkpoint_every > Duration(0)) e.ask = now_ + e.needs.checkpoint_every;
}

void Core::On(const Closed& event) {
  closed_ = event.reason;
  while (queue_.first != kNone) EndWaiting(queue_.first, event.reason);
  while (staging_.first != kNone) EndWaiting(staging_.first, event.reason);
  for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot].entry != kNone) EndGiven(slots_[slot].entry, event.reason, false);
  }
}

void Core::On(const DiskLimitReached& event) {
  const uint32_t entry = Find(event.attempt);
  if (entry != kNone && entries_[entry].unsettled > 0) EndGiven(entry, End::kSignaled, true);
}

void Core::On(const RunUntil& event) {
  const Duration more = event.stood - stood_;
  until_ = event.until;
  stood_ = event.stood;
  for (Slot& slot : slots_) {
    if (slot.entry == kNone) continue;
    Entry& e = entries_[slot.entry];
    if (&slot != &slots_[e.first_slot]) continue;
    if (e.limit != Time::max()) Due(e.limit += more);
    if (e.warn != Time::max()) Due(e.warn += more);
    if (e.ask != Time::max()) Due(e.ask += more);
    if (e.answer != Time::max()) Due(e.answer += more);
    if (e.kill != Time::max() && !e.killed) Due(until_);
  }
  GiveOut(std::nullopt);
}

void Core::EndWaiting(uint32_t entry, End reason) {
  const Entry& e = entries_[entry];
  TakeOut(ListOf(entries_[entry]), entry);
  actions_->push_back(Report{e.attempt, e.tag, reason});
  Remove(entry);
}

void Core::EndGiven(uint32_t entry, End reason, bool at_once) {
  Entry& e = entries_[entry];
  if (e.ending != End::kRunning) return;
  e.ending = reason;
  e.DropLimits();
  SignalAll(entry, at_once || !MayRun() || kill_wait_ <= Duration(0));
}

void Core::SignalAll(uint32_t entry, bool kill) {
  Entry& e = entries_[entry];
  e.killed = kill;
  if (e.state != State::kSettling) {
    e.kill = now_ + (kill ? kKillAgain : kill_wait_);
    Due(std::min(e.kill, kill ? e.kill : until_));
  }
  ForEachSlotOf(entry, [&](uint32_t slot) {
    if (Busy(slots_[slot])) actions_->push_back(Signal{slot, kill, e.ending, e.from_within});
  });
}

void Core::LookAtTheClock() {
  if (now_ >= due_) {
    due_ = Time::max();
    for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
      const uint32_t entry = slots_[slot].entry;
      if (entry == kNone || entries_[entry].first_slot != slot) continue;
      Entry& e = entries_[entry];
      if (MayRun() && now_ >= e.warn) {
        e.warn = Time::max();
        ForEachSlotOf(entry, [&](uint32_t of) {
          if (Busy(slots_[of])) actions_->push_back(Warn{of});
        });
      }
      if (MayRun() && now_ >= e.limit) EndGiven(entry, End::kTimedOut, false);
      if (MayRun() && now_ >= e.answer) GiveUpAsking(entry);
      if (MayRun() && now_ >= e.ask) Ask(entry);
      const bool ends = e.kill != Time::max();
      if (ends && (now_ >= e.kill || (!MayRun() && !e.killed))) SignalAll(entry, true);
      if (ends) Due(e.killed ? e.kill : std::min(e.kill, until_));
      // No limit is reached while tasks stand; RunUntil comes before one can be.
      if (MayRun()) Due(e.next());
    }
  }
  if (due_ == asked_) return;
  asked_ = due_;
  if (due_ != Time::max()) actions_->push_back(WakeAt{due_});
}

void Core::PrefetchSettled(uint32_t slot, int step) const {
  const Slot& s = slots_[slot];
  if (step == 0) {
    PrefetchAll(&s, sizeof s);
    return;
  }
  if (s.entry == kNone) return;
  PrefetchAll(&entries_[s.entry], sizeof(Entry));
  Prefetch(s.given.slots.data());
  Prefetch(&buckets_[BucketOf(s.given.attempt)]);
}

// --- for those who look on

std::vector<uint32_t> Core::SlotsWith(uint32_t slot) const {
  std::vector<uint32_t> all;
  if (slot < slots_.size() && slots_[slot].entry != kNone)
    ForEachSlotOf(slots_[slot].entry, [&](uint32_t other) { all.push_back(other); });
  return all;
}

std::vector<Core::Info> Core::All() const {
  std::vector<Info> all;
  all.reserve(count_);
  const auto add = [&](const Entry& e) { all.push_back({e.attempt, e.state, e.tag, e.given}); };
  for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
    const uint32_t entry = slots_[slot].entry;
    if (entry != kNone && entries_[entry].first_slot == slot) add(entries_[entry]);
  }
  uint32_t queued = queue_.first, staging = staging_.first;
  while (queued != kNone || staging != kNone) {
    const bool one =
        staging == kNone || (queued != kNone && entries_[queued].order < entries_[staging].order);
    uint32_t& next = one ? queued : staging;
    add(entries_[next]);
    next = entries_[next].after;
  }
  return all;
}

std::string Core::SanityCheck() const {
  std::vector<bool> taken(cores_.slot_count());
  std::vector<bool> device_taken(device_free_.size());
  std::vector<uint32_t> processes(entries_.size());
  uint64_t memory = memory_;
  uint32_t present = 0;
  for (uint32_t number = 0; number < slots_.size(); ++number) {
    const Slot& slot = slots_[number];
    if (slot.entry == kNone) continue;
    const Entry& e = entries_[slot.entry];
    if (e.attempt != slot.given.attempt) return StrCat("slot ", number, " has an attempt that is not there");
    if (slot.given.process != processes[slot.entry]++)
      return StrCat("slot ", number, " has another process than its place says");
    if (slot.given.process == 0) {
      ++present;
      memory -= MemoryOf(e.needs);
      if (e.first_slot != number) return StrCat("slot ", number, " is not known as an attempt's first");
    }
    const uint32_t cores = e.needs.whole_node ? cores_.slot_count() : e.needs.cores;
    if (slot.given.slots.size() != cores)
      return StrCat("slot ", number, " has another number of slots than asked for");
    if (slot.given.devices.size() != e.needs.devices)
      return StrCat("slot ", number, " has another number of devices");
    if (!std::binary_search(slot.given.slots.begin(), slot.given.slots.end(), number))
      return StrCat("the thread of slot ", number, " is not one of its process's");
    for (const uint32_t core : slot.given.slots) {
      if (taken[core]) return StrCat("slot ", core, " is given twice");
      taken[core] = true;
    }
    for (const uint32_t device : slot.given.devices) {
      if (device_taken[device]) return StrCat("device ", device, " is given twice");
      device_taken[device] = true;
    }
    if (e.ending != End::kRunning && e.look != Time::max())
      return StrCat("who is being ended is looked at, in slot ", number);
    if (e.kill < due_ || (MayRun() && e.next() < due_))
      return StrCat("what is due in slot ", number, " will be overlooked");
  }
  for (uint32_t core = 0; core < cores_.slot_count(); ++core) {
    if (cores_.is_free(core) == taken[core]) return StrCat("slot ", core, " is neither free nor given");
  }
  for (uint32_t device = 0; device < device_free_.size(); ++device) {
    if (device_free_[device] == device_taken[device])
      return StrCat("device ", device, " is neither free nor given");
  }
  if (memory != free_memory_) return "memory is lost";
  if (free_devices_ != static_cast<uint32_t>(std::count(device_free_.begin(), device_free_.end(), true)))
    return "devices are lost";
  for (uint32_t entry = 0; entry < entries_.size(); ++entry) {
    if (processes[entry] > 0 && processes[entry] != entries_[entry].needs.processes)
      return "an attempt has lost processes";
  }
  for (const List* list : {&queue_, &staging_}) {
    uint32_t before = kNone;
    for (uint32_t entry = list->first; entry != kNone; before = std::exchange(entry, entries_[entry].after)) {
      const Entry& e = entries_[entry];
      ++present;
      if (e.before != before) return "a list is broken";
      if (before != kNone && entries_[before].order >= e.order)
        return "a list is not in the order of sending";
      if ((e.state == State::kStaging) != (list == &staging_) ||
          (e.state == State::kStaging) != (e.needs.inputs > 0))
        return "an attempt waits in the wrong list";
      if (Find(e.attempt) == kNone) return "an attempt is not found";
    }
    if (list->last != before) return "a list has another end";
  }
  if (present != count_) return StrCat(count_, " attempts are counted, ", present, " are there");
  if (MayRun() && queue_.first != kNone && Fits(entries_[queue_.first].needs)) return "what fits waits";
  if (due_ != asked_) return "nobody is asked to come when something is due";
  return {};
}

}  // namespace harrow::agent
