#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/prefetch.h"
#include "order/lane.h"
#include "order/urgency.h"

namespace harrow::order {

/// What a queue must know of a task. The scheduler keeps one a task, at the head of its own record.
struct Card {
  // The ticket of its last enqueue. Later ones are larger.
  uint32_t ticket = 0;
  Level level = 0;
  LaneId lane = 0;
  // The task is ready: entries with its ticket count.
  bool queued = false;
  // What the owner of the record keeps here; queues do not look at it.
  uint8_t of_owner = 0;
};

/// All cards, in records of the owner's size, and how urgent tasks are where some are not 0.
class Cards {
 public:
  template <class Record>
  explicit Cards(const Record* first, const Urgency* urgencies = nullptr)
      : first_(reinterpret_cast<const std::byte*>(first)), stride_(sizeof(Record)), urgencies_(urgencies) {}
  Urgency urgency(TaskId task) const { return urgencies_ == nullptr ? 0 : urgencies_[task.value]; }
  const Card& operator[](TaskId task) const {
    return *reinterpret_cast<const Card*>(first_ + task.value * stride_);
  }
  void Prefetch(TaskId task) const { harrow::Prefetch(first_ + task.value * stride_); }

 private:
  const std::byte* first_;
  size_t stride_;
  const Urgency* urgencies_;
};

/// A task's place in a queue. It counts while the task is queued with this ticket at the bucket's level.
struct Entry {
  TaskId task;
  uint32_t ticket = 0;
};

/// a came before b, also when tickets have begun again from 0.
inline bool Older(uint32_t a, uint32_t b) {
  return static_cast<int32_t>(a - b) < 0;
}

/// The queued tasks of one level and lane: a ring of entries, the most urgent ones in the order of
/// their tickets. Rings of less urgent ones are kept elsewhere until this one is empty.
struct Bucket {
  Level level = 0;
  LaneId lane = 0;
  uint8_t log2_room = 0;
  // Of the tasks in the ring.
  Urgency urgency = 0;
  // All tasks that are to be had.
  uint32_t live = 0;
  // Tasks that were sent ahead from here and have no slot yet.
  uint32_t ahead = 0;
  uint32_t head = 0;
  // Entries in the ring, whether they count or not.
  uint32_t size = 0;
  // The tickets of the first and the last entry.
  uint32_t front = 0;
  uint32_t back = 0;
  Entry* ring = nullptr;

  uint32_t mask() const { return (uint32_t{1} << log2_room) - 1; }
  Entry& at(uint32_t i) const { return ring[(head + i) & mask()]; }
};

class Order;

/// What Take() found.
struct Pick {
  // None: no task fits.
  TaskId task;
  // The order would have put a task of this lane first, but it does not fit now.
  LaneId overtaken = kNoLane;
};

/// The ready tasks of one node, or of none in particular (the remote queue). A task may stand in several
/// queues; one that is taken from another stays here as an entry that no longer counts, until it comes to an
/// end of its ring.
class ReadyQueue {
 public:
  ReadyQueue() = default;
  explicit ReadyQueue(bool by_level) : by_level_(by_level) {}
  ~ReadyQueue();
  ReadyQueue(ReadyQueue&& other) noexcept;
  ReadyQueue& operator=(ReadyQueue&& other) noexcept;

  /// The slots that the queue feeds: N_c in the paper.
  void set_slots(uint32_t slots) { slots_ = slots; }
  uint32_t slots() const { return slots_; }

  /// A task comes in, as the newest one.
  void Push(TaskId task, const Card& card, const Cards& cards);
  /// A task that stood here before comes back, to where its ticket puts it.
  void PutBack(TaskId task, const Card& card, const Cards& cards);
  /// A task that stands here was taken, by this queue or another. `ahead`: it is only sent ahead, and still
  /// counts.
  void Leave(const Card& card, bool ahead);
  /// A task sent ahead has got a slot, or comes back.
  void LeaveAhead(const Card& card);
  /// The first task by `order` that fits; the caller clears `queued` and calls Leave in every queue it stands
  /// in.
  Pick Take(Order& order, const Cards& cards, const Room& room);

  /// How many tasks stand here and are not taken.
  uint32_t live() const { return live_; }
  bool HasLive(LaneId lane) const;
  /// Of the most urgent of a lane's tasks; tasks that no longer count may be among them. kLeastUrgent: it has
  /// none.
  Urgency MostUrgent(LaneId lane) const;
  /// All buckets that are not empty and some that are, by level, then lane, ascending.
  std::span<const Bucket> buckets() const { return buckets_; }
  /// All tasks that count, each once, in the order of buckets.
  std::vector<TaskId> Tasks(const Cards& cards) const;
  void Clear();

  size_t memory() const;
  /// Empty when all is well, else what is broken.
  std::string FindBroken(const Cards& cards) const;

 private:
  Level KeyLevel(const Card& card) const { return by_level_ ? card.level : 0; }
  bool Counts(const Bucket& bucket, const Entry& entry, const Cards& cards) const {
    const Card& card = cards[entry.task];
    return card.queued && card.ticket == entry.ticket && KeyLevel(card) == bucket.level &&
           card.lane == bucket.lane;
  }
  /// Where the bucket of that level and lane is, or would be.
  size_t Find(Level level, LaneId lane) const {
    const int64_t wanted = Key(level, lane);
    size_t low = 0, high = buckets_.size();
    while (high - low > 8) {
      const size_t middle = (low + high) / 2;
      (Key(buckets_[middle].level, buckets_[middle].lane) < wanted ? low : high) = middle;
    }
    while (low < buckets_.size() && Key(buckets_[low].level, buckets_[low].lane) < wanted) ++low;
    return low;
  }
  // Rings by bucket, the most urgent first.
  using Lower = std::map<std::pair<int64_t, int64_t>, Bucket>;
  static int64_t Key(Level level, LaneId lane) { return int64_t{level} << 16 | lane; }
  static std::pair<int64_t, int64_t> LowerKey(const Bucket& bucket, Urgency urgency) {
    return {Key(bucket.level, bucket.lane), -urgency};
  }
  /// Calls each(ring) for a bucket's rings, the most urgent first.
  template <class Each>
  void ForEachRing(const Bucket& bucket, const Each& each) const {
    each(bucket);
    if (lower_ == nullptr) return;
    for (auto at = lower_->lower_bound({Key(bucket.level, bucket.lane), INT64_MIN});
         at != lower_->end() && at->first.first == Key(bucket.level, bucket.lane); ++at)
      each(at->second);
  }
  /// Where a task stands.
  Bucket& BucketOf(const Card& card) { return buckets_[Find(KeyLevel(card), card.lane)]; }
  Bucket& FindOrMake(const Card& card);
  Bucket& RingOf(Bucket* bucket, Urgency urgency);
  void RaiseLower(Bucket* bucket);
  void DropLower(const Bucket& bucket);
  void MakeRoom(Bucket* ring, uint32_t live, const Cards& cards);
  void Emptied(Bucket* bucket);
  void DropEmpties();

  std::vector<Bucket> buckets_;
  // The rings of less urgent tasks; null as long as there is none.
  std::unique_ptr<Lower> lower_;
  uint32_t live_ = 0;
  uint32_t slots_ = 0;
  uint32_t empties_ = 0;
  bool by_level_ = true;
};

}  // namespace harrow::order
