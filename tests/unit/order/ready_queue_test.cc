#include "order/ready_queue.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "order/order.h"

namespace harrow::order {
namespace {

TEST(ReadyQueue, BeginsEmptyWithItsLevelsApart) {
  const Card card;
  EXPECT_EQ(card.ticket, 0u);
  EXPECT_EQ(card.level, 0);
  EXPECT_EQ(card.lane, 0);
  EXPECT_FALSE(card.queued);
  EXPECT_EQ(card.of_owner, 0);
  ReadyQueue queue;
  EXPECT_EQ(queue.live(), 0u);
  EXPECT_EQ(queue.slots(), 0u);
  EXPECT_EQ(queue.memory(), 0u);
  Card cards[2] = {{1, 0, 0, true, 0}, {2, 1, 0, true, 0}};
  for (uint32_t n = 0; n < 2; ++n) queue.Push(TaskId(n), cards[n], Cards(cards));
  EXPECT_EQ(queue.buckets().size(), 2u);
}

/// Draws of a test, and what was asked.
class Given : public Draws {
 public:
  double Next() override {
    ++asked;
    return value;
  }
  double value = 0;
  int asked = 0;
};

/// As where a task is sent ahead from another queue and comes back: its entry here counts again, and there is
/// one more.
TEST(ReadyQueue, ATaskThatComesBackOverAndOverLeavesNoRowOfEntries) {
  Card cards[2] = {{1, 0, 0, true, 0}, {2, 0, 0, true, 0}};
  ReadyQueue queue;
  for (uint32_t n = 0; n < 2; ++n) queue.Push(TaskId(n), cards[n], Cards(cards));
  for (int i = 0; i < 1000; ++i) {
    cards[0].queued = false;
    queue.Leave(cards[0], true);
    queue.LeaveAhead(cards[0]);
    cards[0].queued = true;
    queue.PutBack(TaskId(0), cards[0], Cards(cards));
    ASSERT_EQ(queue.FindBroken(Cards(cards)), "");
  }
  EXPECT_EQ(queue.Tasks(Cards(cards)), (std::vector<TaskId>{TaskId(0), TaskId(1)}));
  EXPECT_LT(queue.memory(), 1000u);
}

/// A ring is full of entries that no longer count, but for the last: what is oldest is known when they are gone.
TEST(ReadyQueue, ARingThatIsTidiedUpKnowsItsOldestTask) {
  for (const uint32_t gone : {3u, 7u, 15u, 31u}) {
    LaneTable lanes;
    const LaneId first = lanes.Add({}), second = lanes.Add({.time_limit = Duration(1)});
    std::vector<Card> cards(gone + 3);
    const Cards all(cards.data());
    ReadyQueue queue(false);
    queue.set_slots(1);
    const auto push = [&](uint32_t n, LaneId lane) {
      cards[n] = {n + 1, 0, lane, true, 0};
      queue.Push(TaskId(n), cards[n], all);
    };
    for (uint32_t n = 0; n < gone; ++n) push(n, first);
    push(gone, second);
    push(gone + 1, first);
    for (uint32_t n = 0; n < gone; ++n) {
      cards[n].queued = false;
      queue.Leave(cards[n], false);
    }
    push(gone + 2, first);
    Given draws;
    const LevelTimes times;
    const auto order = MakeOrder(Policy::kFifo, &draws, &times);
    EXPECT_EQ(queue.Take(*order, all, Room(lanes, {1, 0, 0}, {1, 0, 0, false})).task, TaskId(gone)) << gone;
  }
}

TEST(ReadyQueue, ALanesUrgencyIsThatOfTasksThatAreThere) {
  Card cards[2] = {{1, 0, 0, true, 0}, {2, 1, 0, true, 0}};
  const Urgency urgencies[2] = {5, -2};
  const Cards all(cards, urgencies);
  ReadyQueue queue;
  for (uint32_t n = 0; n < 2; ++n) queue.Push(TaskId(n), cards[n], all);
  EXPECT_EQ(queue.MostUrgent(0), 5);
  cards[0].queued = false;
  queue.Leave(cards[0], false);
  EXPECT_EQ(queue.MostUrgent(0), -2);
  EXPECT_EQ(queue.MostUrgent(1), kLeastUrgent);
}

TEST(ReadyQueue, CountsTheMemoryOfLessUrgentTasks) {
  Card cards[2] = {{1, 0, 0, true, 0}, {2, 0, 0, true, 0}};
  const Urgency urgencies[2] = {1, 0};
  const Cards all(cards, urgencies);
  ReadyQueue queue;
  queue.Push(TaskId(0), cards[0], all);
  const size_t one = queue.memory();
  EXPECT_GE(one, sizeof(Bucket) + sizeof(Entry));
  queue.Push(TaskId(1), cards[1], all);
  EXPECT_GE(queue.memory(), one + sizeof(Bucket) + sizeof(Entry));
}

struct Record {
  Card card;
  uint64_t filler = 0;
};

/// Ten tasks on each of three levels, those of level 2 first.
struct ThreeLevels {
  ThreeLevels() {
    lanes.Add({});
    queue.set_slots(2);
    for (uint32_t n = 0; n < 30; ++n) {
      records[n].card = {n + 1, static_cast<Level>(2 - n / 10), 0, true, 0};
      queue.Push(TaskId(n), records[n].card, cards);
    }
  }
  Given draws;
  LevelTimes times;
  LaneTable lanes;
  std::vector<Record> records = std::vector<Record>(30);
  Cards cards{records.data()};
  ReadyQueue queue{true};
  std::unique_ptr<Order> order = MakeOrder(Policy::kRankHrf, &draws, &times);
};

TEST(RankHrf, WeighsByInverseMeanRunTime) {
  ThreeLevels three;
  LevelTimes& times = three.times;
  const Room room(three.lanes, {2, 0, 0}, {2, 0, 0, false});
  const auto level_at = [&](double draw) {
    three.draws.value = draw;
    const Choice choice = three.order->Choose(three.queue, room, {});
    EXPECT_TRUE(choice.newest);
    return three.queue.buckets()[choice.bucket].level;
  };
  // Nothing measured: a third each, from the highest level down.
  EXPECT_EQ(level_at(0.33), 2);
  EXPECT_EQ(level_at(0.34), 1);
  EXPECT_EQ(level_at(0.67), 0);
  // Level 2 takes 1 s, level 1 takes 1/3 s: weights 1 and 3, and 2 for level 0, which is not measured.
  times.Add(2, std::chrono::seconds(1));
  times.Add(1, std::chrono::nanoseconds(333'333'333));
  EXPECT_EQ(level_at(0.99 / 6), 2);
  EXPECT_EQ(level_at(1.01 / 6), 1);
  EXPECT_EQ(level_at(3.99 / 6), 1);
  EXPECT_EQ(level_at(4.01 / 6), 0);
}

/// One draw a task: where the newest entry of the level that was drawn no longer counts, the next one of that
/// level goes.
TEST(RankHrf, AnEntryThatNoLongerCountsDoesNotDrawAgain) {
  for (const Level drawn : {0, 1, 2}) {
    ThreeLevels three;
    auto& [draws, times, lanes, records, cards, queue, order] = three;
    const Room room(lanes, {2, 0, 0}, {2, 0, 0, false});
    const uint32_t newest = static_cast<uint32_t>(2 - drawn) * 10 + 9;
    for (const uint32_t gone : {newest, newest - 1}) {
      records[gone].card.queued = false;
      queue.Leave(records[gone].card, false);
    }
    draws.value = (2.5 - drawn) / 3;
    draws.asked = 0;
    EXPECT_EQ(queue.Take(*order, cards, room).task, TaskId(newest - 2)) << "level " << drawn;
    EXPECT_EQ(draws.asked, 1);
  }
}

/// The tasks of the level that was drawn do not fit: one of another level goes, and theirs is what it overtakes.
TEST(RankHrf, ALevelWhoseTasksDoNotFitIsOvertaken) {
  LaneTable lanes;
  const LaneId small = lanes.Add({}), large = lanes.Add({.cores = 3});
  std::vector<Record> records(20);
  const Cards cards(records.data());
  ReadyQueue queue(true);
  queue.set_slots(4);
  for (uint32_t n = 0; n < 20; ++n) {
    records[n].card = {n + 1, n < 10 ? 1 : 0, n < 10 ? large : small, true, 0};
    queue.Push(TaskId(n), records[n].card, cards);
  }
  Given draws;
  const LevelTimes times;
  const auto order = MakeOrder(Policy::kRankHrf, &draws, &times);
  const Pick pick = queue.Take(*order, cards, Room(lanes, {4, 0, 0}, {2, 0, 0, false}));
  EXPECT_EQ(pick.task, TaskId(19));
  EXPECT_EQ(pick.overtaken, large);
}

/// Queues as lists, searched from end to end: what ReadyQueue and the policies must agree with.
class Model {
 public:
  struct Item {
    TaskId task;
    Card card;
    Urgency urgency = 0;
    bool ahead = false;
  };
  struct Answer {
    const Item* item = nullptr;
    LaneId overtaken = kNoLane;
  };
  std::vector<Item> items;  // by ticket
  uint32_t slots = 0;

  std::vector<Item>::iterator Find(uint32_t task) {
    return std::find_if(items.begin(), items.end(), [&](const Item& i) { return i.task.value == task; });
  }
  Answer First(Policy policy, const Room& room, Draws* draws, const LevelTimes& times) const {
    const bool draws_level = policy == Policy::kRankHrf && Many(room);
    if (draws_level) return OfDrawnLevel(room, draws, times);
    const bool newest = policy == Policy::kLifo || (policy == Policy::kLifoHrf && Many(room));
    const bool hrf =
        policy == Policy::kHrf || policy == Policy::kRankHrf || (policy == Policy::kLifoHrf && !newest);
    return Compare(Best(room, false, hrf, newest, kAnyLevel), Best(room, true, hrf, newest, kAnyLevel));
  }

 private:
  static constexpr Level kAnyLevel = -1;

  /// What fits, and the lane of what goes before it.
  static Answer Compare(const Item* first, const Item* fitting) {
    Answer answer{fitting, kNoLane};
    if (first != nullptr && first != fitting) answer.overtaken = first->card.lane;
    return answer;
  }
  const Item* Best(const Room& room, bool fits, bool hrf, bool newest, Level level) const {
    const Item* best = nullptr;
    for (const Item& item : items) {
      if (item.ahead || !room.Possible(item.card.lane) || (fits && !room.Fits(item.card.lane))) continue;
      if (level != kAnyLevel && item.card.level != level) continue;
      if (best == nullptr) {
        best = &item;
        continue;
      }
      const Urgency mine = item.urgency, other = best->urgency;
      if (hrf && item.card.level != best->card.level) {
        if (item.card.level > best->card.level) best = &item;
      } else if (mine != other) {
        if (mine > other) best = &item;
      } else if (newest) {
        best = &item;
      }
    }
    return best;
  }
  bool Many(const Room& room) const {
    Level highest = -1;
    for (const Item& item : items) highest = std::max(highest, item.card.level);
    uint64_t cores = 0;
    for (const Item& item : items) {
      if (item.card.level == highest) cores += room.lane(item.card.lane).cores;
    }
    return cores > slots;
  }
  Answer OfDrawnLevel(const Room& room, Draws* draws, const LevelTimes& times) const {
    const Level drawn = Draw(room, false, draws, times);
    if (drawn == kAnyLevel) return {};
    const Answer answer =
        Compare(Best(room, false, false, true, drawn), Best(room, true, false, true, drawn));
    if (answer.item != nullptr) return answer;
    const Level other = Draw(room, true, draws, times);
    return {other == kAnyLevel ? nullptr : Best(room, true, false, true, other), answer.overtaken};
  }
  Level Draw(const Room& room, bool fits, Draws* draws, const LevelTimes& times) const {
    std::vector<Level> levels;
    for (Level level = 100; level >= 0; --level) {
      if (Best(room, fits, false, true, level) != nullptr) levels.push_back(level);
    }
    if (levels.size() <= 1) return levels.empty() ? kAnyLevel : levels[0];
    double known = 0, sum = 0;
    for (const Level level : levels) {
      if (!times.measured(level)) continue;
      sum += 1 / times.mean(level);
      ++known;
    }
    const double otherwise = known > 0 ? sum / known : 1;
    double left = draws->Next() * (sum + otherwise * (static_cast<double>(levels.size()) - known));
    for (const Level level : levels) {
      left -= times.measured(level) ? 1 / times.mean(level) : otherwise;
      if (left < 0) return level;
    }
    return levels.back();
  }
};

/// Lanes of all kinds, some of them beyond those that are kept in sets.
std::vector<LaneId> ManyLanes(LaneTable* lanes) {
  std::vector<LaneId> used;
  for (const Lane& lane : {Lane{}, Lane{.cores = 3}, Lane{.time_limit = Duration(2)},
                           Lane{.cores = 2, .devices = 1}, Lane{.memory = 500}, Lane{.whole_node = true}}) {
    used.push_back(lanes->Add(lane));
  }
  for (int32_t i = 0; lanes->size() < 63; ++i) lanes->Add({.time_limit = Duration(100 + i)});
  for (const Lane& lane : {Lane{.cores = 2, .time_limit = Duration(1)}, Lane{.cores = 4},
                           Lane{.memory = 100, .time_limit = Duration(2)}, Lane{.devices = 2}}) {
    used.push_back(lanes->Add(lane));
  }
  return used;
}

/// Tasks become ready, are taken, sent ahead, put back, cancelled and taken elsewhere. With one queue and no
/// cancelling no entry is left that does not count: then it is known, too, what was overtaken.
void RandomSteps(uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  SeededDraws random(seed);
  const Policy policy = static_cast<Policy>(seed % 5);
  const bool exact = random.Below(3) == 0;
  const bool few = random.Below(3) == 0;  // plain tasks only: rings grow
  SeededDraws draws(seed), model_draws(seed);
  LevelTimes times;
  const auto order = MakeOrder(policy, &draws, &times);
  LaneTable lanes;
  const std::vector<LaneId> used = ManyLanes(&lanes);
  const uint32_t kQueues = exact ? 1 : 3, kTasks = 400, kLevels = few ? 3 : 5;
  std::vector<ReadyQueue> queues;
  std::vector<Model> models(kQueues);
  for (uint32_t q = 0; q < kQueues; ++q) {
    queues.emplace_back(order->by_level());
    models[q].slots = 1 + random.Below(8);
    queues[q].set_slots(models[q].slots);
  }
  std::vector<Record> records(kTasks);
  // None, a few, or nearly each task its own.
  const int32_t different[] = {1, 3, 1'000'000};
  const uint32_t kinds = random.Below(3);
  std::vector<Urgency> urgencies(kTasks);
  for (Urgency& urgency : urgencies)
    urgency = static_cast<int32_t>(random.Below(different[kinds])) - (kinds > 0);
  const Cards cards(records.data(), kinds > 0 || random.Below(2) == 0 ? urgencies.data() : nullptr);
  std::map<uint32_t, std::vector<uint32_t>> stands_in;  // task -> queues
  uint32_t ticket = UINT32_MAX - 150;                   // runs over on the way
  const auto in_each = [&](uint32_t task, const auto& what) {
    for (uint32_t q : stands_in[task]) what(q);
  };
  const auto leave = [&](uint32_t task, bool ahead) {
    records[task].card.queued = false;
    in_each(task, [&](uint32_t q) {
      queues[q].Leave(records[task].card, ahead);
      const auto it = models[q].Find(task);
      if (ahead)
        it->ahead = true;
      else
        models[q].items.erase(it);
    });
  };
  std::vector<uint32_t> ahead;
  for (int step = 0; step < 1200; ++step) {
    const uint32_t what = random.Below(100), more = step % 400 < 200 ? 60 : 30;
    const uint32_t task = random.Below(kTasks);
    Card& card = records[task].card;
    const bool is_ahead = std::find(ahead.begin(), ahead.end(), task) != ahead.end();
    if (what < more) {
      if (card.queued || is_ahead) continue;
      const LaneId lane = used[few ? random.Below(2) * 2 : random.Below(static_cast<uint32_t>(used.size()))];
      card = {ticket++, static_cast<Level>(random.Below(kLevels)), lane, true, 0};
      stands_in[task].clear();
      for (uint32_t q = 0; q < kQueues; ++q) {
        if (!exact && random.Below(2) == 0) continue;
        stands_in[task].push_back(q);
        queues[q].Push(TaskId(task), card, cards);
        models[q].items.push_back({TaskId(task), card, urgencies[task]});
      }
      if (stands_in[task].empty()) card.queued = false;
    } else if (what < 85) {
      const uint32_t q = random.Below(kQueues);
      const NodeCapacity total = {4, 1 + random.Below(2), random.Below(2) * 1000};
      const Room::Free free = {1 + random.Below(4), random.Below(3), random.Below(11) * 100,
                               random.Below(2) == 0};
      const LaneId only =
          random.Below(10) > 0 ? kNoLane : used[random.Below(static_cast<uint32_t>(used.size()))];
      const Room room(lanes, total, free, only);
      const Model::Answer expected = models[q].First(policy, room, &model_draws, times);
      const Pick pick = queues[q].Take(*order, cards, room);
      ASSERT_EQ(bool{pick.task}, expected.item != nullptr) << PolicyName(policy) << ", step " << step;
      if (exact) {
        ASSERT_EQ(pick.overtaken, expected.overtaken) << PolicyName(policy) << ", step " << step;
      }
      if (!pick.task) continue;
      ASSERT_EQ(pick.task, expected.item->task) << PolicyName(policy) << ", step " << step;
      if (random.Below(20) == 0)
        times.Add(expected.item->card.level, Duration(1 + random.Below(1'000'000)) * 1000);
      const bool send_ahead = random.Below(4) == 0;
      leave(pick.task.value, send_ahead);
      if (send_ahead) ahead.push_back(pick.task.value);
    } else if (what < 90) {
      if (card.queued && !exact) leave(task, false);
    } else if (what < 92) {
      const LaneId lane = used[random.Below(static_cast<uint32_t>(used.size()))];
      lanes.SetBarred(lane, random.Below(3) == 0);
    } else if (!ahead.empty()) {
      const auto which = ahead.begin() + random.Below(static_cast<uint32_t>(ahead.size()));
      const uint32_t back = *which;
      ahead.erase(which);
      const bool returns = random.Below(2) == 0;
      in_each(back, [&](uint32_t q) { queues[q].LeaveAhead(records[back].card); });
      if (returns) records[back].card.queued = true;
      in_each(back, [&](uint32_t q) {
        const auto it = models[q].Find(back);
        if (returns) {
          it->ahead = false;
          queues[q].PutBack(TaskId(back), records[back].card, cards);
        } else {
          models[q].items.erase(it);
        }
      });
    }
    if (step % 20 > 0) continue;
    for (uint32_t q = 0; q < kQueues; ++q) {
      ASSERT_EQ(queues[q].FindBroken(cards), "") << "step " << step;
      std::set<uint32_t> expected, found;
      std::set<LaneId> in_lanes;
      for (const Model::Item& item : models[q].items) {
        if (item.ahead) continue;
        expected.insert(item.task.value);
        in_lanes.insert(item.card.lane);
      }
      const std::vector<TaskId> tasks = queues[q].Tasks(cards);
      for (TaskId each : tasks) found.insert(each.value);
      ASSERT_EQ(found, expected) << "step " << step;
      ASSERT_EQ(tasks.size(), expected.size()) << "each once, step " << step;
      ASSERT_EQ(queues[q].live(), expected.size());
      for (LaneId lane : used) ASSERT_EQ(queues[q].HasLive(lane), in_lanes.contains(lane));
    }
  }
}

TEST(ReadyQueue, RandomStepsAgreeWithLists) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    RandomSteps(seed);
    if (HasFailure()) return;
  }
}

/// A few tasks of one lane, each of its level, in a queue by itself.
class SmallQueue {
 public:
  explicit SmallQueue(Policy policy)
      : order_(MakeOrder(policy, &draws_, &times_)), queue_(order_->by_level()) {
    lanes_.Add({});
    lanes_.Add({.time_limit = Duration(1)});
  }
  void Push(const std::vector<Level>& levels, LaneId lane = 0) {
    for (const Level level : levels) {
      records_[next_].card = {next_ + 1, level, lane, true, 0};
      queue_.Push(TaskId(next_), records_[next_].card, cards());
      ++next_;
    }
  }
  uint32_t Take() {
    const Pick pick = queue_.Take(*order_, cards(), Room(lanes_, {1, 0, 0}, {1, 0, 0, false}));
    if (pick.task) {
      records_[pick.task.value].card.queued = false;
      queue_.Leave(records_[pick.task.value].card, false);
    }
    return pick.task.value;
  }
  ReadyQueue& queue() { return queue_; }
  Card& card(uint32_t task) { return records_[task].card; }
  Cards cards() const { return Cards(records_.data(), urgencies_.empty() ? nullptr : urgencies_.data()); }
  void SetUrgencies(std::vector<Urgency> urgencies) { urgencies_ = std::move(urgencies); }

 private:
  SeededDraws draws_{1};
  LevelTimes times_;
  LaneTable lanes_;
  std::vector<Record> records_ = std::vector<Record>(20'000);
  std::vector<Urgency> urgencies_;
  std::unique_ptr<Order> order_;
  ReadyQueue queue_;
  uint32_t next_ = 0;
};

using Numbers = std::vector<uint32_t>;

TEST(ReadyQueue, ALargerPriorityGoesFirstWithinALevel) {
  const std::vector<Urgency> urgencies = {0, 5, -1, 5, 0, 7, -1};
  SmallQueue fifo(Policy::kFifo), lifo(Policy::kLifo), hrf(Policy::kHrf);
  for (SmallQueue* queue : {&fifo, &lifo, &hrf}) queue->SetUrgencies(urgencies);
  fifo.Push({0, 0, 0, 0, 0, 0, 0});
  lifo.Push({0, 0, 0, 0, 0, 0, 0});
  hrf.Push({1, 0, 1, 0, 0, 0, 0});
  const auto all = [](SmallQueue& queue) {
    Numbers numbers;
    while (queue.queue().live() > 0) numbers.push_back(queue.Take());
    return numbers;
  };
  EXPECT_EQ(all(fifo), (Numbers{5, 1, 3, 0, 4, 2, 6}));
  EXPECT_EQ(all(lifo), (Numbers{5, 3, 1, 4, 0, 6, 2}));
  EXPECT_EQ(all(hrf), (Numbers{0, 2, 5, 1, 3, 4, 6}));
}

TEST(ReadyQueue, AsManyPrioritiesAsTasksAreOneBucket) {
  SmallQueue queue(Policy::kFifo);
  std::vector<Urgency> urgencies;
  for (int32_t i = 0; i < 10'000; ++i) urgencies.push_back(i * 7919 % 10'000);
  queue.SetUrgencies(urgencies);
  queue.Push(std::vector<Level>(10'000, 0));
  EXPECT_EQ(queue.queue().buckets().size(), 1u) << "all are looked at for each task that is taken";
  EXPECT_EQ(queue.queue().FindBroken(queue.cards()), "");
  EXPECT_GE(queue.queue().memory(), 9'999 * (sizeof(Entry) + sizeof(Bucket) + 4 * sizeof(void*)));
  EXPECT_EQ(queue.queue().MostUrgent(0), 9'999);
  EXPECT_EQ(queue.queue().MostUrgent(1), kLeastUrgent) << "none";
  for (int32_t highest = 9'999; highest >= 5'000; --highest) ASSERT_EQ(urgencies[queue.Take()], highest);
  EXPECT_EQ(queue.queue().MostUrgent(0), 4'999);
  queue.queue().Clear();
  EXPECT_LE(queue.queue().memory(), sizeof(Bucket));
}

TEST(ReadyQueue, EmptyBucketsAndRingsAreGivenBack) {
  SmallQueue levels(Policy::kHrf);
  for (Level level = 0; level < 10'000; ++level) {
    levels.Push({level});
    EXPECT_EQ(levels.Take(), static_cast<uint32_t>(level));
    ASSERT_LE(levels.queue().buckets().size(), 12u) << "level " << level;
  }
  SmallQueue ring(Policy::kFifo);
  ring.Push(std::vector<Level>(10'000, 0));
  EXPECT_GE(ring.queue().memory(), 10'000 * sizeof(Entry));
  EXPECT_LE(ring.queue().memory(), 16'384 * sizeof(Entry) + 2 * sizeof(Bucket)) << "it grows by twice";
  for (uint32_t i = 0; i < 10'000; ++i) ASSERT_EQ(ring.Take(), i);
  EXPECT_LE(ring.queue().memory(), 2 * sizeof(Bucket));
  SmallQueue steady(Policy::kFifo);
  steady.Push({0, 0, 0, 0, 0, 0, 0});
  for (uint32_t i = 0; i < 5'000; ++i) {
    steady.Push({0});
    ASSERT_EQ(steady.Take(), i);
  }
  EXPECT_LE(steady.queue().memory(), 8 * sizeof(Entry) + 2 * sizeof(Bucket))
      << "eight at a time need room for eight";
  SmallQueue small(Policy::kFifo);
  small.Push(std::vector<Level>(64, 0));
  for (uint32_t i = 0; i < 64; ++i) ASSERT_EQ(small.Take(), i);
  EXPECT_GE(small.queue().memory(), 64 * sizeof(Entry)) << "a small ring stays for the next tasks";
}

TEST(ReadyQueue, MovesWithAllItHolds) {
  SmallQueue small(Policy::kLifo);
  small.Push({3, 1, 2});
  small.queue().set_slots(9);
  ReadyQueue moved(std::move(small.queue()));
  EXPECT_EQ(moved.live(), 3u);
  EXPECT_EQ(moved.slots(), 9u);
  EXPECT_EQ(moved.buckets().size(), 1u) << "levels are not kept apart";
  EXPECT_EQ(moved.Tasks(small.cards()).size(), 3u);
  EXPECT_EQ(moved.FindBroken(small.cards()), "");
  EXPECT_EQ(small.queue().live(), 0u);
  EXPECT_TRUE(small.queue().buckets().empty());
  small.queue() = std::move(moved);
  ReadyQueue& itself = small.queue();
  small.queue() = std::move(itself);
  EXPECT_EQ(small.Take(), 2u);
  small.queue().Clear();
  EXPECT_EQ(small.queue().live(), 0u);
  EXPECT_EQ(small.queue().Tasks(small.cards()), std::vector<TaskId>());
  EXPECT_EQ(small.queue().memory() / sizeof(Bucket) * sizeof(Bucket), small.queue().memory())
      << "no ring is left";
  small.Push({0});
  EXPECT_EQ(small.Take(), 3u);
}

TEST(ReadyQueue, AMovedOneKnowsItsEmptyBuckets) {
  SmallQueue small(Policy::kHrf);
  small.Push({3, 1, 2});
  EXPECT_EQ(small.Take(), 0u);
  ReadyQueue moved(std::move(small.queue()));
  EXPECT_EQ(moved.FindBroken(small.cards()), "");
  small.Push({5});
  EXPECT_EQ(small.queue().FindBroken(small.cards()), "") << "nor does the old one think that it has one";
}

TEST(ReadyQueue, WhatIsBrokenIsFound) {
  const auto broken = [](const auto& how) {
    SmallQueue small(Policy::kHrf);
    small.Push({1, 1, 2});
    EXPECT_EQ(small.queue().FindBroken(small.cards()), "");
    how(small);
    return small.queue().FindBroken(small.cards());
  };
  EXPECT_EQ(broken([](SmallQueue& s) { s.card(1).queued = false; }),
            "level 1, lane 0: 2 tasks are said to be queued, 1 are found");
  EXPECT_EQ(broken([](SmallQueue& s) { s.card(2).ticket = 9; }),
            "level 2, lane 0: 1 tasks are said to be queued, 0 are found");
  EXPECT_EQ(broken([](SmallQueue& s) {
              s.card(9) = {1, 2, 0, true, 0};
              s.queue().Push(TaskId(9), s.card(9), s.cards());
            }),
            "level 2, lane 0: tickets out of order");
  EXPECT_EQ(broken([](SmallQueue& s) {
              s.card(9) = {5, 2, 0, true, 0};
              s.queue().Push(TaskId(9), s.card(9), s.cards());
              s.queue().Push(TaskId(9), s.card(9), s.cards());
            }),
            "level 2, lane 0: 3 tasks are said to be queued, 2 are found");
}

/// The work of a queue must not grow with what lies in it: entries that no longer count are thrown away in
/// time.
TEST(ReadyQueue, TasksTakenElsewhereLeaveNoGarbage) {
  const auto order = MakeOrder(Policy::kLifo, nullptr, nullptr);
  LaneTable lanes;
  lanes.Add({});
  const Room room(lanes, {1, 0, 0}, {1, 0, 0, false});
  std::vector<Record> records(100'000);
  const Cards cards(records.data());
  ReadyQueue here(false), there(false);
  for (uint32_t n = 0; n < records.size(); ++n) {
    records[n].card = {n + 1, 0, 0, true, 0};
    here.Push(TaskId(n), records[n].card, cards);
    there.Push(TaskId(n), records[n].card, cards);
    if (n < 10) continue;
    const Pick pick = there.Take(*order, cards, room);
    records[pick.task.value].card.queued = false;
    here.Leave(records[pick.task.value].card, false);
    there.Leave(records[pick.task.value].card, false);
    if (n < 1000) {
      ASSERT_EQ(here.FindBroken(cards), "") << n;
    }
  }
  EXPECT_EQ(here.live(), 10u);
  EXPECT_LT(here.memory(), 4096u);
}

}  // namespace
}  // namespace harrow::order
