#include "order/ready_queue.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "order/policy.h"

namespace harrow::order {
namespace {

TEST(Policy, Names) {
  for (const char* name : {"fifo", "lifo", "hrf", "lifo+hrf", "rank+hrf"}) {
    ASSERT_TRUE(ParsePolicy(name)) << name;
    EXPECT_EQ(PolicyName(*ParsePolicy(name)), name);
  }
  EXPECT_FALSE(ParsePolicy("FIFO"));
  EXPECT_FALSE(ParsePolicy(""));
}

TEST(SeededDraws, SameSequenceEverywhere) {
  SeededDraws a(1), b(1), c(2);
  // xoshiro256++ from splitmix64(1), computed from the authors' reference programs' definitions.
  const uint64_t first = a.NextWord();
  EXPECT_EQ(first, 0xcfc5d07f6f03c29bull);
  EXPECT_EQ(b.NextWord(), first);
  EXPECT_NE(c.NextWord(), first);
  for (int i = 0; i < 1000; ++i) {
    const double d = a.Next();
    EXPECT_GE(d, 0);
    EXPECT_LT(d, 1);
    EXPECT_LT(a.Below(7), 7u);
  }
}

/// Draws of a test, and what was asked.
class Given : public Draws {
 public:
  double Next() override { return value; }
  double value = 0;
};

struct Record {
  Card card;
  uint64_t filler = 0;
};

TEST(RankHrf, WeighsByInverseMeanRunTime) {
  Given draws;
  LevelTimes times;
  const auto order = MakeOrder(Policy::kRankHrf, &draws, &times);
  LaneTable lanes;
  lanes.Add({});
  std::vector<Record> records(30);
  ReadyQueue queue(true);
  queue.set_slots(2);
  for (uint32_t n = 0; n < 30; ++n) {
    records[n].card = {n + 1, static_cast<Level>(2 - n / 10), 0, true, 0};
    queue.Push(TaskId(n), records[n].card, Cards(records.data()));
  }
  const Room room(lanes, {2, 0, 0}, {2, 0, 0, false});
  const auto level_at = [&](double draw) {
    draws.value = draw;
    const Choice choice = order->Choose(queue, room, {});
    EXPECT_TRUE(choice.newest);
    return queue.buckets()[choice.bucket].level;
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

/// Queues as lists, searched from end to end: what ReadyQueue and the policies must agree with.
class Model {
 public:
  struct Item {
    TaskId task;
    Card card;
    bool ahead = false;
  };
  std::vector<Item> items;  // by ticket
  uint32_t slots = 0;

  const Item* First(Policy policy, const Room& room) const {
    const bool hrf = policy == Policy::kHrf || (policy == Policy::kLifoHrf && !Many(room));
    const Item* best = nullptr;
    for (const Item& item : items) {
      if (item.ahead || !room.Possible(item.card.lane) || !room.Fits(item.card.lane)) continue;
      if (best == nullptr) {
        best = &item;
        continue;
      }
      const int32_t mine = room.lane(item.card.lane).priority, other = room.lane(best->card.lane).priority;
      const bool newest = policy == Policy::kLifo || (policy == Policy::kLifoHrf && !hrf);
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

 private:
  bool Many(const Room& room) const {
    Level highest = -1;
    for (const Item& item : items) highest = std::max(highest, item.card.level);
    uint64_t cores = 0;
    for (const Item& item : items) {
      if (item.card.level == highest) cores += room.lane(item.card.lane).cores;
    }
    return cores > slots;
  }
};

TEST(ReadyQueue, RandomStepsAgreeWithLists) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SeededDraws random(seed);
    const Policy policy = static_cast<Policy>(random.Below(4));  // rank+hrf draws, and is tested by itself
    SeededDraws draws(seed);
    LevelTimes times;
    const auto order = MakeOrder(policy, &draws, &times);
    LaneTable lanes;
    lanes.Add({});
    lanes.Add({.cores = 3});
    lanes.Add({.priority = 2});
    lanes.Add({.cores = 2, .gpus = 1});
    constexpr uint32_t kQueues = 3, kTasks = 400;
    std::vector<ReadyQueue> queues;
    std::vector<Model> models(kQueues);
    for (uint32_t q = 0; q < kQueues; ++q) {
      queues.emplace_back(order->by_level());
      models[q].slots = 1 + random.Below(8);
      queues[q].set_slots(models[q].slots);
    }
    std::vector<Record> records(kTasks);
    const Cards cards(records.data());
    std::map<uint32_t, std::vector<uint32_t>> stands_in;  // task -> queues
    uint32_t ticket = UINT32_MAX - 150;                   // runs over on the way
    const auto in_each = [&](uint32_t task, const auto& what) {
      for (uint32_t q : stands_in[task]) what(q);
    };
    const auto leave = [&](uint32_t task, bool ahead) {
      records[task].card.queued = false;
      in_each(task, [&](uint32_t q) {
        queues[q].Leave(records[task].card, ahead);
        auto& items = models[q].items;
        const auto it =
            std::find_if(items.begin(), items.end(), [&](const auto& i) { return i.task.value == task; });
        if (ahead)
          it->ahead = true;
        else
          items.erase(it);
      });
    };
    std::vector<uint32_t> ahead;
    for (int step = 0; step < 3000; ++step) {
      const uint32_t what = random.Below(100);
      const uint32_t task = random.Below(kTasks);
      Card& card = records[task].card;
      const bool is_ahead = std::find(ahead.begin(), ahead.end(), task) != ahead.end();
      if (what < 45) {
        if (card.queued || is_ahead) continue;
        card = {ticket++, static_cast<Level>(random.Below(4)), static_cast<LaneId>(random.Below(4)), true, 0};
        stands_in[task].clear();
        for (uint32_t q = 0; q < kQueues; ++q) {
          if (random.Below(2) == 0) continue;
          stands_in[task].push_back(q);
          queues[q].Push(TaskId(task), card, cards);
          models[q].items.push_back({TaskId(task), card});
        }
        if (stands_in[task].empty()) card.queued = false;
      } else if (what < 85) {
        const uint32_t q = random.Below(kQueues);
        const Room room(lanes, {4, 1, 0}, {1 + random.Below(4), random.Below(2), 0, false});
        const Model::Item* expected = models[q].First(policy, room);
        const Pick pick = queues[q].Take(*order, cards, room);
        ASSERT_EQ(bool{pick.task}, expected != nullptr);
        if (!pick.task) continue;
        ASSERT_EQ(pick.task, expected->task) << PolicyName(policy) << ", step " << step;
        const bool send_ahead = random.Below(4) == 0;
        leave(pick.task.value, send_ahead);
        if (send_ahead) ahead.push_back(pick.task.value);
      } else if (what < 92) {
        if (card.queued) leave(task, false);
      } else if (!ahead.empty()) {
        const uint32_t back = ahead.back();
        ahead.pop_back();
        const bool returns = random.Below(2) == 0;
        in_each(back, [&](uint32_t q) { queues[q].LeaveAhead(records[back].card); });
        if (returns) records[back].card.queued = true;
        in_each(back, [&](uint32_t q) {
          auto& items = models[q].items;
          const auto it =
              std::find_if(items.begin(), items.end(), [&](const auto& i) { return i.task.value == back; });
          if (returns) {
            it->ahead = false;
            queues[q].PutBack(TaskId(back), records[back].card, cards);
          } else {
            items.erase(it);
          }
        });
      }
      if (step % 20 == 0) {
        for (uint32_t q = 0; q < kQueues; ++q) ASSERT_EQ(queues[q].Check(cards), "") << "step " << step;
      }
    }
  }
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
  }
  EXPECT_EQ(here.live(), 10u);
  EXPECT_LT(here.memory(), 4096u);
}

}  // namespace
}  // namespace harrow::order
