// The five policies of M. Tanaka and O. Tatebe (the Pwrake paper, sections 4.2.1 to 4.2.3), and auto. Each
// chooses a bucket of a queue and an end of it. In every policy the more urgent goes first among tasks that
// are otherwise equal: all tasks for fifo and lifo, those of one level where levels count.
//
// auto is lifo+hrf for people: the scheduler queues those that become ready at one instant last first, and
// auto takes the newest everywhere, so that a list is taken from its first line on, and so are the tasks of a
// sweep; what a task has just made is still read first.
//
// Two answers are found in one pass: the task that fits now, and whether the order would have put one first
// that does not fit. The scheduler counts the latter, and keeps room for a task that was overtaken too long.

#include "order/order.h"

#include <algorithm>
#include <array>
#include <type_traits>
#include <vector>

namespace harrow::order {
namespace {

using Buckets = std::span<const Bucket>;

/// The best bucket by `better(a, b)`, among those that fit, and among all that could.
template <class Better>
struct Search {
  const Room& room;
  Buckets buckets;
  Better better;
  size_t fitting = Choice::kNothing;
  size_t first = Choice::kNothing;

  void Look(size_t i) {
    const Bucket& bucket = buckets[i];
    if (bucket.live == 0 || !room.Possible(bucket.lane)) return;
    if (first == Choice::kNothing || better(bucket, buckets[first])) first = i;
    if ((fitting == Choice::kNothing || better(bucket, buckets[fitting])) && room.Fits(bucket.lane))
      fitting = i;
  }
  Choice Answer(bool newest) const {
    Choice choice;
    choice.bucket = fitting;
    choice.newest = newest;
    if (first != fitting) choice.overtaken = buckets[first].lane;
    return choice;
  }
};

struct OldestFirst {
  bool operator()(const Bucket& a, const Bucket& b) const {
    return a.urgency != b.urgency ? a.urgency > b.urgency : Older(a.front, b.front);
  }
};

struct NewestFirst {
  bool operator()(const Bucket& a, const Bucket& b) const {
    return a.urgency != b.urgency ? a.urgency > b.urgency : Older(b.back, a.back);
  }
};

template <class Better>
Choice ChooseOver(const ReadyQueue& queue, const Room& room, bool newest) {
  Search<Better> search{room, queue.buckets(), Better{}};
  for (size_t i = 0; i < search.buckets.size(); ++i) search.Look(i);
  return search.Answer(newest);
}

/// Highest level first; within a level the oldest or the newest, by `better`.
template <class Better = OldestFirst>
Choice ChooseHighest(const ReadyQueue& queue, const Room& room) {
  const Buckets buckets = queue.buckets();
  const Better better;
  size_t fitting = Choice::kNothing, first = Choice::kNothing;
  for (size_t i = buckets.size(); i-- > 0;) {
    const Bucket& bucket = buckets[i];
    if (bucket.live == 0) continue;
    if (fitting != Choice::kNothing && bucket.level != buckets[fitting].level) break;
    if (!room.Possible(bucket.lane)) continue;
    const bool leads =
        first == Choice::kNothing || (bucket.level == buckets[first].level && better(bucket, buckets[first]));
    if (leads) first = i;
    if (room.Fits(bucket.lane) && (fitting == Choice::kNothing || better(bucket, buckets[fitting])))
      fitting = i;
  }
  Choice choice;
  choice.bucket = fitting;
  choice.newest = std::is_same_v<Better, NewestFirst>;
  if (first != fitting) choice.overtaken = buckets[first].lane;
  return choice;
}

/// N_r > N_c: cores that the tasks of the highest level ask for, those sent ahead included, against the
/// queue's slots.
bool ManyAtHighestLevel(const ReadyQueue& queue, const Room& room) {
  const Buckets buckets = queue.buckets();
  size_t i = buckets.size();
  while (i > 0 && buckets[i - 1].live + buckets[i - 1].ahead == 0) --i;
  if (i == 0) return false;
  uint64_t cores = 0;
  for (const Level highest = buckets[i - 1].level; i > 0 && buckets[i - 1].level == highest; --i) {
    cores += uint64_t{buckets[i - 1].live + buckets[i - 1].ahead} * room.lane(buckets[i - 1].lane).cores;
  }
  return cores > queue.slots();
}

class Fifo : public Order {
 public:
  bool by_level() const override { return false; }
  bool NewcomerFirst(Level, Level) const override { return false; }
  Choice Choose(const ReadyQueue& queue, const Room& room, const Choice&) override {
    return ChooseOver<OldestFirst>(queue, room, false);
  }
};

class Lifo : public Order {
 public:
  bool by_level() const override { return false; }
  bool NewcomerFirst(Level, Level) const override { return true; }
  Choice Choose(const ReadyQueue& queue, const Room& room, const Choice&) override {
    return ChooseOver<NewestFirst>(queue, room, true);
  }
};

class Hrf : public Order {
 public:
  bool by_level() const override { return true; }
  bool NewcomerFirst(Level newcomer, Level waiting) const override { return newcomer > waiting; }
  Choice Choose(const ReadyQueue& queue, const Room& room, const Choice&) override {
    return ChooseHighest(queue, room);
  }
};

class LifoHrf : public Order {
 public:
  bool by_level() const override { return true; }
  bool NewcomerFirst(Level, Level) const override { return true; }
  Choice Choose(const ReadyQueue& queue, const Room& room, const Choice&) override {
    if (ManyAtHighestLevel(queue, room)) return ChooseOver<NewestFirst>(queue, room, true);
    return ChooseHighest(queue, room);
  }
};

class Auto : public Order {
 public:
  bool by_level() const override { return true; }
  bool NewcomerFirst(Level, Level) const override { return true; }
  Choice Choose(const ReadyQueue& queue, const Room& room, const Choice&) override {
    if (ManyAtHighestLevel(queue, room)) return ChooseOver<NewestFirst>(queue, room, true);
    return ChooseHighest<NewestFirst>(queue, room);
  }
};

class RankHrf : public Order {
 public:
  RankHrf(Draws* draws, const LevelTimes* times) : draws_(*draws), times_(*times) {}
  bool by_level() const override { return true; }
  bool NewcomerFirst(Level, Level) const override { return true; }
  Choice Choose(const ReadyQueue& queue, const Room& room, const Choice& before) override {
    if (before.drawn) return NewestOf(RangeOf(*before.drawn, queue), queue, room, before.overtaken);
    if (!ManyAtHighestLevel(queue, room)) return ChooseHighest(queue, room);
    const Range* range = Draw(queue, room, false);
    if (range == nullptr) return {};
    const Choice choice = NewestOf(*range, queue, room, kNoLane);
    if (choice.bucket != Choice::kNothing) return choice;
    // Nothing of that level fits: its turn is kept in mind, and one is drawn of those that fit.
    range = Draw(queue, room, true);
    return range != nullptr ? NewestOf(*range, queue, room, choice.overtaken) : choice;
  }

 private:
  /// The buckets of one level.
  struct Range {
    size_t begin, end;
    double weight = -1;  // < 0: not measured
  };

  static Range RangeOf(Level level, const ReadyQueue& queue) {
    const Buckets buckets = queue.buckets();
    Range range{0, 0};
    while (range.begin < buckets.size() && buckets[range.begin].level < level) ++range.begin;
    range.end = range.begin;
    while (range.end < buckets.size() && buckets[range.end].level == level) ++range.end;
    return range;
  }

  static Choice NewestOf(const Range& range, const ReadyQueue& queue, const Room& room, LaneId overtaken) {
    Search<NewestFirst> search{room, queue.buckets(), NewestFirst{}};
    for (size_t i = range.begin; i < range.end; ++i) search.Look(i);
    Choice choice = search.Answer(true);
    if (overtaken != kNoLane) choice.overtaken = overtaken;
    if (range.begin < range.end) choice.drawn = queue.buckets()[range.begin].level;
    return choice;
  }

  /// A level with tasks, by 1 / mean run time; one without measurement weighs as the mean of those with.
  /// Lives until the next draw.
  const Range* Draw(const ReadyQueue& queue, const Room& room, bool fitting) {
    ranges_.clear();
    double measured_weight = 0;
    size_t measured = 0;
    const Buckets buckets = queue.buckets();
    for (size_t end = buckets.size(), begin = end; end > 0; end = begin) {
      const Level level = buckets[end - 1].level;
      bool some = false;
      for (; begin > 0 && buckets[begin - 1].level == level; --begin) {
        const Bucket& bucket = buckets[begin - 1];
        some |= bucket.live > 0 && room.Possible(bucket.lane) && (!fitting || room.Fits(bucket.lane));
      }
      if (!some) continue;
      ranges_.push_back({begin, end});
      if (!times_.measured(level)) continue;
      ranges_.back().weight = times_.weight(level);
      measured_weight += ranges_.back().weight;
      ++measured;
    }
    if (ranges_.size() <= 1) return ranges_.empty() ? nullptr : &ranges_.front();
    const double unmeasured_weight = measured > 0 ? measured_weight / static_cast<double>(measured) : 1;
    double left = draws_.Next() *
                  (measured_weight + unmeasured_weight * static_cast<double>(ranges_.size() - measured));
    size_t drawn = 0;
    for (const Range& range : ranges_) {
      left -= range.weight < 0 ? unmeasured_weight : range.weight;
      drawn += left >= 0;  // no jump: nobody can foresee it
    }
    return &ranges_[std::min(drawn, ranges_.size() - 1)];
  }

  Draws& draws_;
  const LevelTimes& times_;
  std::vector<Range> ranges_;  // of the last draw, highest level first
};

}  // namespace

std::unique_ptr<Order> MakeOrder(Policy policy, Draws* draws, const LevelTimes* times) {
  switch (policy) {
    case Policy::kFifo:
      return std::make_unique<Fifo>();
    case Policy::kLifo:
      return std::make_unique<Lifo>();
    case Policy::kHrf:
      return std::make_unique<Hrf>();
    case Policy::kLifoHrf:
      return std::make_unique<LifoHrf>();
    case Policy::kRankHrf:
      return std::make_unique<RankHrf>(draws, times);
    case Policy::kAuto:
      return std::make_unique<Auto>();
    case Policy::kCost:
      return std::make_unique<Fifo>();  // the most urgent first: who has the longest way to go
  }
  return nullptr;
}

}  // namespace harrow::order
