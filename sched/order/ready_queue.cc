// A queue keeps a ring of entries for each level and lane, and counts of the tasks in it that are still to be
// had. A task that stands in several queues is taken from one; in the others only the counts change, and its
// entry is thrown away when it comes to an end of its ring, or when the ring would have to grow. So a task
// costs each of its queues a constant time, however many there are, and the ends of a ring are read in the
// order in which they lie in memory.
//
// Tickets decide between buckets: first in, first out over several lanes is the smallest front ticket, last
// in, first out over several levels the largest back ticket. An end may be an entry that no longer counts;
// then it is thrown away and the choice made again, which is exact, as what lies behind it can only be worse.
//
// What is more urgent goes before every ticket. Nearly always a bucket has one urgency only, and its ring is
// all it has. Where there are several, the ring holds the most urgent, and the others' rings stand in a map,
// sorted, until they are: so each task may have a priority or bound of its own, and costs the logarithm of
// their number.

#include "order/ready_queue.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/text.h"
#include "order/order.h"

namespace harrow::order {
namespace {

constexpr uint8_t kFirstRoom = 3;  // log2 of entries
constexpr uint8_t kLowerRoom = 0;  // of a ring of less urgent tasks: there may be as many as tasks
constexpr uint8_t kKeptRoom = 6;   // an empty ring of more is given back

}  // namespace

ReadyQueue::~ReadyQueue() {
  Clear();
}

ReadyQueue::ReadyQueue(ReadyQueue&& other) noexcept {
  *this = std::move(other);
}

ReadyQueue& ReadyQueue::operator=(ReadyQueue&& other) noexcept {
  if (this == &other) return *this;
  Clear();
  buckets_ = std::exchange(other.buckets_, {});
  lower_ = std::move(other.lower_);
  live_ = std::exchange(other.live_, 0);
  empties_ = std::exchange(other.empties_, 0);
  slots_ = other.slots_;
  by_level_ = other.by_level_;
  return *this;
}

void ReadyQueue::Clear() {
  for (Bucket& bucket : buckets_) delete[] bucket.ring;
  if (lower_ != nullptr) {
    for (auto& [key, ring] : *lower_) delete[] ring.ring;
  }
  buckets_.clear();
  lower_.reset();
  live_ = empties_ = 0;
}

Bucket& ReadyQueue::FindOrMake(const Card& card) {
  const Level level = KeyLevel(card);
  size_t at = Find(level, card.lane);
  if (at == buckets_.size() || buckets_[at].level != level || buckets_[at].lane != card.lane) {
    if (empties_ > 4 && empties_ * 2 > buckets_.size()) {
      DropEmpties();
      at = Find(level, card.lane);
    }
    Bucket bucket;
    bucket.level = level;
    bucket.lane = card.lane;
    buckets_.insert(buckets_.begin() + static_cast<ptrdiff_t>(at), bucket);
    ++empties_;
  }
  Bucket& bucket = buckets_[at];
  if (bucket.live + bucket.ahead == 0) --empties_;
  return bucket;
}

void ReadyQueue::DropEmpties() {
  std::erase_if(buckets_, [](const Bucket& b) {
    if (b.live + b.ahead > 0) return false;
    delete[] b.ring;
    return true;
  });
  empties_ = 0;
}

void ReadyQueue::Emptied(Bucket* bucket) {
  if (bucket->live > 0) return;
  if (lower_ != nullptr) DropLower(*bucket);
  bucket->size = 0;
  if (bucket->log2_room > kKeptRoom) {
    delete[] bucket->ring;
    bucket->ring = nullptr;
    bucket->log2_room = 0;
  }
  if (bucket->ahead == 0) ++empties_;
}

/// The ring for tasks so urgent.
Bucket& ReadyQueue::RingOf(Bucket* bucket, Urgency urgency) {
  if (bucket->size == 0) {
    bucket->urgency = urgency;
    return *bucket;
  }
  if (bucket->urgency == urgency) return *bucket;
  if (lower_ == nullptr) lower_ = std::make_unique<Lower>();
  if (urgency < bucket->urgency) {
    Bucket& ring = (*lower_)[LowerKey(*bucket, urgency)];
    ring.level = bucket->level;
    ring.lane = bucket->lane;
    ring.urgency = urgency;
    return ring;
  }
  Bucket lower = *bucket;
  lower.live = lower.ahead = 0;
  (*lower_)[LowerKey(*bucket, bucket->urgency)] = lower;
  bucket->ring = nullptr;
  bucket->log2_room = 0;
  bucket->size = 0;
  bucket->urgency = urgency;
  return *bucket;
}

/// The ring is empty: the most urgent of the others takes its place.
void ReadyQueue::RaiseLower(Bucket* bucket) {
  const auto next = lower_->lower_bound({Key(bucket->level, bucket->lane), INT64_MIN});
  if (next == lower_->end() || next->first.first != Key(bucket->level, bucket->lane)) return;
  delete[] bucket->ring;
  const Bucket ring = next->second;
  lower_->erase(next);
  bucket->ring = ring.ring;
  bucket->log2_room = ring.log2_room;
  bucket->urgency = ring.urgency;
  bucket->head = ring.head;
  bucket->size = ring.size;
  bucket->front = ring.front;
  bucket->back = ring.back;
}

void ReadyQueue::DropLower(const Bucket& bucket) {
  const auto begin = lower_->lower_bound({Key(bucket.level, bucket.lane), INT64_MIN});
  auto end = begin;
  for (; end != lower_->end() && end->first.first == Key(bucket.level, bucket.lane); ++end)
    delete[] end->second.ring;
  lower_->erase(begin, end);
}

/// `live`: of the ring's bucket. Of a ring of entries most of which do not count those that do are kept.
void ReadyQueue::MakeRoom(Bucket* bucket, uint32_t live, const Cards& cards) {
  if (bucket->ring != nullptr && bucket->size > 2 * live) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < bucket->size; ++i) {
      const Entry entry = bucket->at(i);
      // A task that was put back can stand here twice, side by side as its ticket is the same.
      if (kept > 0 && bucket->at(kept - 1).task == entry.task) continue;
      if (Counts(*bucket, entry, cards)) bucket->at(kept++) = entry;
    }
    bucket->size = kept;
    if (kept > 0) {
      bucket->front = bucket->at(0).ticket;
      bucket->back = bucket->at(kept - 1).ticket;
    }
    if (kept <= bucket->mask()) return;
  }
  const uint8_t log2_room = bucket->ring != nullptr ? static_cast<uint8_t>(bucket->log2_room + 1)
                            : bucket->urgency == 0 || lower_ == nullptr ? kFirstRoom
                                                                         : kLowerRoom;
  auto* ring = new Entry[size_t{1} << log2_room];
  for (uint32_t i = 0; i < bucket->size; ++i) ring[i] = bucket->at(i);
  delete[] bucket->ring;
  bucket->ring = ring;
  bucket->log2_room = log2_room;
  bucket->head = 0;
}

void ReadyQueue::Push(TaskId task, const Card& card, const Cards& cards) {
  Bucket& bucket = FindOrMake(card);
  Bucket& ring = RingOf(&bucket, cards.urgency(task));
  if (ring.ring == nullptr || ring.size > ring.mask()) MakeRoom(&ring, bucket.live, cards);
  ring.at(ring.size) = {task, card.ticket};
  if (ring.size++ == 0) ring.front = card.ticket;
  ring.back = card.ticket;
  ++bucket.live;
  ++live_;
}

void ReadyQueue::PutBack(TaskId task, const Card& card, const Cards& cards) {
  Bucket& whole = FindOrMake(card);
  ++whole.live;
  ++live_;
  Bucket& bucket = RingOf(&whole, cards.urgency(task));
  if (bucket.ring == nullptr || bucket.size > bucket.mask()) MakeRoom(&bucket, whole.live, cards);
  // From whichever end is nearer: what was sent ahead last came from an end not long ago.
  uint32_t from_front = 0, from_back = 0;
  while (from_front + from_back < bucket.size) {
    if (!Older(bucket.at(from_front).ticket, card.ticket)) break;
    ++from_front;
    if (from_front + from_back == bucket.size ||
        Older(bucket.at(bucket.size - 1 - from_back).ticket, card.ticket)) {
      from_front = bucket.size - from_back;
      break;
    }
    ++from_back;
  }
  const uint32_t place = from_front;
  if (place < bucket.size - place) {
    bucket.head = (bucket.head - 1) & bucket.mask();
    for (uint32_t i = 0; i < place; ++i) bucket.at(i) = bucket.at(i + 1);
  } else {
    for (uint32_t i = bucket.size; i > place; --i) bucket.at(i) = bucket.at(i - 1);
  }
  ++bucket.size;
  bucket.at(place) = {task, card.ticket};
  bucket.front = bucket.at(0).ticket;
  bucket.back = bucket.at(bucket.size - 1).ticket;
}

void ReadyQueue::Leave(const Card& card, bool ahead) {
  Bucket& bucket = BucketOf(card);
  --bucket.live;
  --live_;
  if (ahead) ++bucket.ahead;
  Emptied(&bucket);
}

void ReadyQueue::LeaveAhead(const Card& card) {
  Bucket& bucket = BucketOf(card);
  if (--bucket.ahead == 0 && bucket.live == 0) ++empties_;
}

Pick ReadyQueue::Take(Order& order, const Cards& cards, const Room& room) {
  Choice choice;
  while (live_ > 0) {
    choice = order.Choose(*this, room, choice);
    if (choice.bucket == Choice::kNothing) return {TaskId(), choice.overtaken};
    Bucket& bucket = buckets_[choice.bucket];
    Entry entry;
    --bucket.size;
    if (choice.newest) {
      entry = bucket.at(bucket.size);
      if (bucket.size > 0) {
        bucket.back = bucket.at(bucket.size - 1).ticket;
        cards.Prefetch(bucket.at(bucket.size - 1).task);
      }
    } else {
      entry = bucket.at(0);
      bucket.head = (bucket.head + 1) & bucket.mask();
      if (bucket.size > 0) {
        bucket.front = bucket.at(0).ticket;
        cards.Prefetch(bucket.at(0).task);
      }
    }
    if (bucket.size == 0 && lower_ != nullptr) RaiseLower(&bucket);
    if (Counts(bucket, entry, cards)) return {entry.task, choice.overtaken};
  }
  return {};
}

bool ReadyQueue::HasLive(LaneId lane) const {
  for (const Bucket& bucket : buckets_) {
    if (bucket.lane == lane && bucket.live > 0) return true;
  }
  return false;
}

Urgency ReadyQueue::MostUrgent(LaneId lane) const {
  Urgency most = kLeastUrgent;
  for (const Bucket& bucket : buckets_) {
    if (bucket.lane == lane && bucket.live > 0) most = std::max(most, bucket.urgency);
  }
  return most;
}

std::vector<TaskId> ReadyQueue::Tasks(const Cards& cards) const {
  std::vector<TaskId> tasks;
  for (const Bucket& bucket : buckets_) {
    ForEachRing(bucket, [&](const Bucket& ring) {
      const size_t begin = tasks.size();
      for (uint32_t i = 0; i < ring.size; ++i) {
        const Entry& entry = ring.at(i);
        if (!Counts(ring, entry, cards)) continue;
        // A task that was put back can stand here twice, side by side as its ticket is the same.
        if (tasks.size() > begin && tasks.back() == entry.task) continue;
        tasks.push_back(entry.task);
      }
    });
  }
  return tasks;
}

size_t ReadyQueue::memory() const {
  size_t bytes = buckets_.capacity() * sizeof(Bucket);
  for (const Bucket& bucket : buckets_) {
    ForEachRing(bucket, [&](const Bucket& ring) {
      if (ring.ring != nullptr) bytes += sizeof(Entry) << ring.log2_room;
      if (&ring != &bucket) bytes += sizeof(Lower::value_type) + 4 * sizeof(void*);
    });
  }
  return bytes;
}

std::string ReadyQueue::FindBroken(const Cards& cards) const {
  uint64_t live = 0;
  uint32_t empties = 0;
  for (size_t b = 0; b < buckets_.size(); ++b) {
    const Bucket& bucket = buckets_[b];
    const std::string where = StrCat("level ", bucket.level, ", lane ", uint32_t{bucket.lane});
    if (b > 0 &&
        std::pair(buckets_[b - 1].level, buckets_[b - 1].lane) >= std::pair(bucket.level, bucket.lane)) {
      return StrCat(where, ": buckets out of order");
    }
    live += bucket.live;
    if (bucket.live + bucket.ahead == 0) ++empties;
    uint32_t counting = 0;
    std::string broken;
    ForEachRing(bucket, [&](const Bucket& ring) {
      if (&ring != &bucket && (ring.size == 0 || bucket.size == 0 || ring.urgency >= bucket.urgency))
        broken =
            StrCat(where, ": a ring of urgency ", ring.urgency, " stands behind one of ", bucket.urgency);
      if (ring.size > 0 && (ring.front != ring.at(0).ticket || ring.back != ring.at(ring.size - 1).ticket))
        broken = StrCat(where, ": tickets of the ends are not those of the entries");
      TaskId last;
      for (uint32_t i = 0; i < ring.size; ++i) {
        const Entry& entry = ring.at(i);
        if (i > 0 && Older(entry.ticket, ring.at(i - 1).ticket))
          broken = StrCat(where, ": tickets out of order");
        if (Counts(bucket, entry, cards) && cards.urgency(entry.task) != ring.urgency)
          broken = StrCat(where, ": a task of another urgency");
        if (!Counts(ring, entry, cards) || entry.task == last) continue;
        last = entry.task;
        ++counting;
      }
    });
    if (!broken.empty()) return broken;
    if (counting != bucket.live) {
      return StrCat(where, ": ", bucket.live, " tasks are said to be queued, ", counting, " are found");
    }
  }
  if (live != live_) return StrCat("the queue is said to hold ", live_, " tasks, its buckets ", live);
  if (empties != empties_)
    return StrCat("the queue is said to have ", empties_, " empty buckets, it has ", empties);
  return {};
}

}  // namespace harrow::order
