#include "sim/transfers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "order/draws.h"

namespace harrow::sim {
namespace {

TEST(TransfersTest, SharesALinkAndGivesBackWhatOneDoesNotTake) {
  Transfers t;
  const uint32_t link = t.AddLink(100);
  const Transfers::Use over[] = {{link, 1}};
  const uint32_t slow = t.Begin(0, 0, 1000, 20, over), a = t.Begin(0, 1, 400, 1e9, over), b = t.Begin(0, 2, 800, 1e9, over);
  t.Settle(0);
  EXPECT_DOUBLE_EQ(t.rate(slow), 20);
  EXPECT_DOUBLE_EQ(t.rate(a), 40);
  EXPECT_DOUBLE_EQ(t.rate(b), 40);
  EXPECT_DOUBLE_EQ(t.Next(), 10);
  EXPECT_EQ(t.Pop(), 1u);
  t.Settle(10);
  EXPECT_DOUBLE_EQ(t.rate(b), 80);
  EXPECT_DOUBLE_EQ(t.Next(), 15);  // 400 left at 80
  EXPECT_EQ(t.Pop(), 2u);
  t.Settle(15);
  EXPECT_DOUBLE_EQ(t.Next(), 50);  // 20 a second all the time
  t.Cancel(slow);
  t.Settle(20);
  EXPECT_EQ(t.Next(), Transfers::kNever);
}

TEST(TransfersTest, ALossOfRateWithEveryMore) {
  Transfers t;
  const uint32_t link = t.AddLink(100, 0.5);
  const Transfers::Use over[] = {{link, 1}};
  const uint32_t a = t.Begin(0, 0, 100, 1e9, over);
  t.Settle(0);
  EXPECT_DOUBLE_EQ(t.rate(a), 100);
  t.Begin(0, 1, 100, 1e9, over);
  t.Settle(0);
  EXPECT_NEAR(t.rate(a), 100 / 1.5 / 2, 1e-9);
}

/// Rates are max-min fair: no link carries more than it can, and whoever has not its own largest rate has a full link
/// on its way where nobody is faster.
TEST(TransfersTest, RandomOnesAreMaxMinFair) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    order::SeededDraws draws(seed);
    Transfers t;
    std::vector<double> capacity;
    for (int i = 0; i < 6; ++i) {
      capacity.push_back(10 + draws.Below(100));
      t.AddLink(capacity.back());
    }
    struct Mine {
      uint32_t id;
      double most;
      std::vector<Transfers::Use> uses;
      bool open = true;
    };
    std::vector<Mine> mine;
    double now = 0;
    for (int step = 0; step < 60; ++step) {
      if (draws.Below(3) > 0 || t.count() == 0) {
        Mine m{0, draws.Below(2) > 0 ? 5.0 + draws.Below(50) : 1e18, {}};
        for (uint32_t link = 0; link < 6 && m.uses.size() < 3; ++link) {
          if (draws.Below(3) == 0) m.uses.push_back({link, draws.Below(2) > 0 ? 1 : 0.25 + draws.Next()});
        }
        if (m.uses.empty()) m.uses.push_back({0, 1});
        m.id = t.Begin(now, static_cast<uint32_t>(mine.size()), 1 + draws.Below(1000), m.most, m.uses);
        mine.push_back(m);
      } else {
        ASSERT_GE(t.Next(), now);
        now = t.Next();
        mine[t.Pop()].open = false;
      }
      t.Settle(now);
      std::vector<double> load(6, 0), fastest(6, 0);
      for (const Mine& m : mine) {
        if (!m.open) continue;
        ASSERT_GT(t.rate(m.id), 0);
        ASSERT_LE(t.rate(m.id), m.most * (1 + 1e-9));
        for (const Transfers::Use& use : m.uses) {
          load[use.link] += t.rate(m.id) * use.per_byte;
          fastest[use.link] = std::max(fastest[use.link], t.rate(m.id));
        }
      }
      for (int l = 0; l < 6; ++l) ASSERT_LE(load[l], capacity[l] * (1 + 1e-6)) << "link " << l << " step " << step;
      for (const Mine& m : mine) {
        if (!m.open || t.rate(m.id) >= m.most * (1 - 1e-9)) continue;
        bool bound = false;
        for (const Transfers::Use& use : m.uses) {
          bound |= load[use.link] >= capacity[use.link] * (1 - 1e-6) && t.rate(m.id) >= fastest[use.link] * (1 - 1e-6);
        }
        ASSERT_TRUE(bound) << "step " << step;
      }
    }
  }
}

}  // namespace
}  // namespace harrow::sim
