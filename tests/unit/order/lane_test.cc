// Lanes and rooms: what fits where, for the lanes that are kept in sets and for those that are not.

#include "order/lane.h"

#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "order/draws.h"

namespace harrow::order {
namespace {

TEST(LaneTable, KnowsItsLanes) {
  LaneTable lanes;
  EXPECT_EQ(lanes.Find({}), kNoLane);
  EXPECT_EQ(lanes.Add({.cores = 2}), 0);
  EXPECT_EQ(lanes.Add({.memory = 5}), 1);
  EXPECT_EQ(lanes.size(), 2u);
  EXPECT_EQ(lanes[1].memory, 5u);
  EXPECT_EQ(lanes.Find({.memory = 5}), 1);
  EXPECT_EQ(lanes.Find({.cores = 2}), 0);
  EXPECT_EQ(lanes.Find({.cores = 2, .memory = 5}), kNoLane);
  EXPECT_GE(lanes.memory(), 2 * sizeof(Lane) + 2);
}

TEST(LaneTable, OnlyOneCoreAndNothingElseIsPlain) {
  EXPECT_TRUE((Lane{}.plain()));
  EXPECT_EQ(Lane{}.time_limit, Duration(0));
  EXPECT_TRUE((Lane{.time_limit = Duration(5)}.plain()));
  EXPECT_FALSE((Lane{.cores = 2}.plain()));
  EXPECT_FALSE((Lane{.devices = 1}.plain()));
  EXPECT_FALSE((Lane{.memory = 1}.plain()));
  EXPECT_FALSE((Lane{.nodes = 2}.plain()));
  EXPECT_FALSE((Lane{.whole_node = true}.plain()));
}

TEST(LaneTable, TheLastOneTakesInTheLargestOfEachThing) {
  LaneTable lanes;
  lanes.Add({.cores = 9});
  lanes.Add({.cores = 2, .devices = 3, .memory = 10, .time_limit = Duration(7)});
  lanes.WidenLast({.cores = 4, .devices = 1, .memory = 20, .time_limit = Duration(5)});
  EXPECT_EQ(lanes[1], (Lane{.cores = 4, .devices = 3, .memory = 20, .time_limit = Duration(7)}));
  lanes.WidenLast({.cores = 1, .devices = 4, .memory = 5, .time_limit = Duration(9)});
  EXPECT_EQ(lanes[1], (Lane{.cores = 4, .devices = 4, .memory = 20, .time_limit = Duration(9)}));
  EXPECT_EQ(lanes[0], (Lane{.cores = 9}));
}

bool FitsEmpty(const Lane& lane, const NodeCapacity& total) {
  if (lane.cores > total.slots || lane.devices > total.devices) return false;
  return lane.memory == 0 || total.memory == 0 || lane.memory <= total.memory;
}

bool FitsNow(const Lane& lane, const NodeCapacity& total, const Room::Free& free) {
  if (lane.cores > free.slots || lane.devices > free.devices) return false;
  if (lane.memory > 0 && total.memory > 0 && lane.memory > free.memory) return false;
  return !lane.whole_node || free.idle;
}

/// The first 64 lanes are kept in sets, the 65th and those after it are not: nobody can tell.
TEST(Room, TellsOfEveryLaneWhatItsShapeSays) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SeededDraws random(seed);
    LaneTable lanes;
    std::vector<bool> barred;
    const uint32_t edges[] = {1, 2, 3, 4, 8, 255, 256, 257, 300};
    for (uint32_t i = 0; i < 130; ++i) {
      Lane lane;
      lane.cores = edges[random.Below(9)];
      if (random.Below(3) == 0) lane.devices = random.Below(4);
      if (random.Below(3) == 0) lane.memory = random.Below(5) * 100;
      lane.whole_node = random.Below(6) == 0;
      ASSERT_EQ(lanes.Add(lane), i);
      barred.push_back(false);
    }
    for (int step = 0; step < 60; ++step) {
      const uint32_t which = random.Below(4) == 0 ? 62 + random.Below(4) : random.Below(130);
      barred[which] = random.Below(2) == 0;
      lanes.SetBarred(static_cast<LaneId>(which), barred[which]);
      const NodeCapacity total = {edges[random.Below(9)] + random.Below(2), random.Below(4),
                                  random.Below(3) * 200};
      const Room::Free free = {random.Below(total.slots + 1), random.Below(total.devices + 1),
                               random.Below(5) * 100, random.Below(2) == 0};
      const uint32_t only = random.Below(3) > 0 ? kNoLane : 60 + random.Below(8);
      const Room room(lanes, total, free, static_cast<LaneId>(only));
      Room in_set = room;
      const uint64_t set = uint64_t{random.Below(UINT32_MAX)} << 32 | random.Below(UINT32_MAX);
      in_set.Only(set);
      for (uint32_t i = 0; i < 130; ++i) {
        const auto id = static_cast<LaneId>(i);
        ASSERT_EQ(Room::FitsFree(lanes[i], total, free), FitsNow(lanes[i], total, free)) << "lane " << i;
        ASSERT_EQ(in_set.Fits(id), i < 64 && (set >> i & 1) != 0 && room.Fits(id)) << "lane " << i;
        ASSERT_EQ(in_set.Possible(id), room.Possible(id)) << "lane " << i;
        ASSERT_EQ(lanes.barred(id), barred[i]) << "lane " << i;
        ASSERT_EQ(&room.lane(id), &lanes[i]);
        ASSERT_EQ(Room::FitsCapacity(lanes[i], total), FitsEmpty(lanes[i], total)) << "lane " << i;
        ASSERT_EQ(room.Possible(id), FitsEmpty(lanes[i], total) && !barred[i]) << "lane " << i;
        ASSERT_EQ(room.Fits(id), FitsNow(lanes[i], total, free) && (only == kNoLane || only == i))
            << "lane " << i << ", only " << only;
      }
    }
  }
}

}  // namespace
}  // namespace harrow::order
