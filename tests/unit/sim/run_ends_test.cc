#include "sim/run_ends.h"

#include <gtest/gtest.h>

#include <set>

#include "order/draws.h"

namespace harrow::sim {
namespace {

TEST(RunEndsTest, GivesBackInOrderWhateverComesBetween) {
  order::SeededDraws draws(7);
  RunEnds ends;
  std::set<std::pair<double, uint32_t>> mine;
  double now = 0;
  uint32_t task = 0;
  for (int step = 0; step < 60000; ++step) {
    // Grows to some thousands, then shrinks; equal times are frequent.
    if (ends.empty() || draws.Next() < (step < 30000 ? 0.7 : 0.3)) {
      const double time = now + draws.Below(2000);
      ends.Push({time, task, task});
      mine.emplace(time, task++);
    } else {
      ASSERT_EQ(ends.top().time, mine.begin()->first);
      ASSERT_EQ(ends.top().task, mine.begin()->second);
      now = ends.top().time;
      mine.erase(mine.begin());
      ends.Pop();
    }
    ASSERT_EQ(ends.empty(), mine.empty());
  }
}

}  // namespace
}  // namespace harrow::sim
