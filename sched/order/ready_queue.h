#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "order/lane.h"

namespace harrow::order {

/// What a queue must know of a task. The scheduler keeps one a task, at the head of its own record.
struct Card {
  uint32_t ticket = 0;  // of its last enqueue; later ones are larger
  Level level = 0;
  LaneId lane = 0;
  bool queued = false;    // it is ready: entries with its ticket count
  uint8_t of_owner = 0;   // not the queue's
};

/// All cards, in records of the owner's size.
class Cards {
 public:
  template <class Record>
  explicit Cards(const Record* first) : first_(reinterpret_cast<const std::byte*>(first)), stride_(sizeof(Record)) {}
  const Card& operator[](TaskId task) const {
    return *reinterpret_cast<const Card*>(first_ + task.value * stride_);
  }
  void Prefetch(TaskId task) const { __builtin_prefetch(first_ + task.value * stride_); }

 private:
  const std::byte* first_;
  size_t stride_;
};

/// A task's place in a queue. It counts while the task is queued with this ticket at the bucket's level.
struct Entry {
  TaskId task;
  uint32_t ticket = 0;
};

/// a came before b, also when tickets have begun again from 0.
inline bool Older(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) < 0; }

/// The queued tasks of one level and lane in the order of their tickets: a ring of entries.
struct Bucket {
  Level level = 0;
  LaneId lane = 0;
  uint8_t log2_room = 0;
  uint32_t live = 0;    // entries that count
  uint32_t ahead = 0;   // tasks sent ahead from here and not started
  uint32_t head = 0;
  uint32_t size = 0;    // entries, counting or not
  uint32_t front = 0;   // tickets of the first and the last entry
  uint32_t back = 0;
  Entry* ring = nullptr;

  uint32_t mask() const { return (uint32_t{1} << log2_room) - 1; }
  Entry& at(uint32_t i) const { return ring[(head + i) & mask()]; }
};

class Order;

/// What Take() found.
struct Pick {
  TaskId task;                // none: nothing fits
  LaneId overtaken = kNoLane; // the order would have put a task of this lane first, but it does not fit now
};

/// The ready tasks of one node, or of none in particular (the remote queue). A task may stand in several queues; one
/// that is taken from another stays here as an entry that no longer counts, until it comes to an end of its ring.
class ReadyQueue {
 public:
  ReadyQueue() = default;
  explicit ReadyQueue(bool by_level) : by_level_(by_level) {}
  ~ReadyQueue();
  ReadyQueue(ReadyQueue&& other) noexcept;
  ReadyQueue& operator=(ReadyQueue&& other) noexcept;

  /// N_c: slots that the queue feeds.
  void set_slots(uint32_t slots) { slots_ = slots; }
  uint32_t slots() const { return slots_; }

  /// The newest one.
  void Push(TaskId task, const Card& card, const Cards& cards);
  /// One that stood here before: to where its ticket puts it.
  void PutBack(TaskId task, const Card& card, const Cards& cards);
  /// A task that stands here was taken, by this queue or another. `ahead`: it is only sent ahead, and still counts.
  void Leave(const Card& card, bool ahead);
  /// A task sent ahead has begun, or comes back.
  void LeaveAhead(const Card& card);
  /// The first task by `order` that fits; the caller clears `queued` and calls Leave in every queue it stands in.
  Pick Take(Order& order, const Cards& cards, const Room& room);

  /// Tasks that stand here and are not taken.
  uint32_t live() const { return live_; }
  bool HasLive(LaneId lane) const;
  /// Non-empty ones and some empty; by level, then lane, ascending.
  std::span<const Bucket> buckets() const { return buckets_; }
  /// All tasks that count, each once, in the order of buckets.
  std::vector<TaskId> Tasks(const Cards& cards) const;
  void Clear();

  /// Bring what Take() will read into the cache: first the ends of the rings, then the cards of the tasks there.
  void PrefetchEnds() const {
    if (live_ == 0) return;
    for (const Bucket& bucket : buckets_) {
      if (bucket.live == 0) continue;
      __builtin_prefetch(&bucket.at(0));
      __builtin_prefetch(&bucket.at(bucket.size - 1));
    }
  }
  void PrefetchCards(const Cards& cards) const {
    if (live_ == 0) return;
    for (const Bucket& bucket : buckets_) {
      if (bucket.live == 0) continue;
      cards.Prefetch(bucket.at(0).task);
      cards.Prefetch(bucket.at(bucket.size - 1).task);
    }
  }

  size_t memory() const;
  /// Empty when all is well, else what is broken.
  std::string Check(const Cards& cards) const;

 private:
  Level KeyLevel(const Card& card) const { return by_level_ ? card.level : 0; }
  bool Counts(const Bucket& bucket, const Entry& entry, const Cards& cards) const {
    const Card& card = cards[entry.task];
    return card.queued && card.ticket == entry.ticket && KeyLevel(card) == bucket.level && card.lane == bucket.lane;
  }
  /// Where the bucket is, or would be.
  size_t Find(Level level, LaneId lane) const {
    const auto key = [](Level l, LaneId n) { return int64_t{l} << 16 | n; };
    const int64_t wanted = key(level, lane);
    size_t low = 0, high = buckets_.size();
    while (high - low > 8) {
      const size_t middle = (low + high) / 2;
      (key(buckets_[middle].level, buckets_[middle].lane) < wanted ? low : high) = middle;
    }
    while (low < buckets_.size() && key(buckets_[low].level, buckets_[low].lane) < wanted) ++low;
    return low;
  }
  Bucket& FindOrMake(const Card& card);
  void MakeRoom(Bucket* bucket, const Cards& cards);
  void Emptied(Bucket* bucket);
  void DropEmpties();

  std::vector<Bucket> buckets_;
  uint32_t live_ = 0;
  uint32_t slots_ = 0;
  uint32_t empties_ = 0;
  bool by_level_ = true;
};

}  // namespace harrow::order
