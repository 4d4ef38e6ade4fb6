#include "core/copies.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <random>

namespace harrow::core {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Place = Copies::Place;
using std::chrono::seconds;

constexpr TaskId kReader(0);

Time At(int second) {
  return Time() + seconds(second);
}

Place In(uint64_t file, uint64_t node) {
  return {FileId(static_cast<uint32_t>(file)), NodeId(static_cast<uint32_t>(node))};
}

TEST(Copies, AreFoundByFileAndNode) {
  Copies copies;
  EXPECT_EQ(copies.size(), 0u);
  copies.Add(FileId(7), NodeId(3), NodeId(1), kReader, At(5));
  copies.Add(FileId(7), NodeId(2), NodeId(1), kReader, At(6));
  copies.Add(FileId(4), NodeId(3), NodeId(), kReader, At(7));
  ASSERT_NE(copies.Find(FileId(7), NodeId(2)), nullptr);
  EXPECT_EQ(copies.Find(FileId(7), NodeId(2))->since, At(6));
  EXPECT_EQ(copies.Find(FileId(7), NodeId(3))->since, At(5));
  EXPECT_EQ(copies.Find(FileId(7), NodeId(1)), nullptr);
  EXPECT_EQ(copies.Find(FileId(5), NodeId(3)), nullptr);
  EXPECT_EQ(copies.Find(FileId(900), NodeId(3)), nullptr);
  EXPECT_TRUE(copies.Any(FileId(7)));
  EXPECT_FALSE(copies.Any(FileId(5)));
  EXPECT_FALSE(copies.Any(FileId(900)));
  EXPECT_THAT(copies.Takers(FileId(7)), ElementsAre(NodeId(2), NodeId(3)));
  EXPECT_THAT(copies.To(NodeId(3)), ElementsAre(In(4, 3), In(7, 3)));
  EXPECT_THAT(copies.From(NodeId(1)), ElementsAre(In(7, 2), In(7, 3)));
  EXPECT_EQ(copies.served(FileId(7), NodeId(1)), 2u);
  EXPECT_EQ(copies.size(), 3u);
  copies.Remove(FileId(7), NodeId(3));
  EXPECT_THAT(copies.Takers(FileId(7)), ElementsAre(NodeId(2)));
  EXPECT_EQ(copies.served(FileId(7), NodeId(1)), 1u);
  copies.Remove(FileId(7), NodeId(3));
  copies.Remove(FileId(7), NodeId(2));
  copies.Remove(FileId(4), NodeId(3));
  EXPECT_EQ(copies.size(), 0u);
  EXPECT_EQ(copies.FindBroken(), "");
}

TEST(Copies, BackupsAreThoseWithoutAReader) {
  Copies copies;
  EXPECT_EQ(copies.backups(NodeId(9)), 0u);
  copies.Add(FileId(1), NodeId(9), NodeId(0), TaskId(), At(0));
  copies.Add(FileId(2), NodeId(9), NodeId(0), TaskId(), At(0));
  copies.Add(FileId(3), NodeId(8), NodeId(0), TaskId(), At(0));
  copies.Add(FileId(4), NodeId(9), NodeId(0), kReader, At(0));
  EXPECT_EQ(copies.backups(NodeId(9)), 2u);
  EXPECT_EQ(copies.backups(), 3u);
  copies.Remove(FileId(4), NodeId(9));
  copies.Remove(FileId(1), NodeId(9));
  EXPECT_EQ(copies.backups(NodeId(9)), 1u);
  EXPECT_EQ(copies.backups(NodeId(8)), 1u);
  EXPECT_EQ(copies.backups(), 2u);
  EXPECT_EQ(copies.FindBroken(), "");
}

TEST(Copies, OneThatNobodySendsIsLookedAtAgain) {
  Copies copies;
  copies.Add(FileId(1), NodeId(0), NodeId(5), kReader, At(0));
  copies.Add(FileId(2), NodeId(0), NodeId(5), kReader, At(0));
  EXPECT_EQ(copies.next(), Time::max());
  EXPECT_THAT(copies.Parked(At(100)), IsEmpty());
  copies.Park(FileId(2), NodeId(0), At(9));
  copies.Park(FileId(1), NodeId(0), At(4));
  const Copies::Copy& parked = *copies.Find(FileId(1), NodeId(0));
  EXPECT_EQ(parked.failed, NodeId(5));
  EXPECT_FALSE(parked.from);
  EXPECT_EQ(parked.failures, 1);
  EXPECT_EQ(copies.served(FileId(1), NodeId(5)), 0u);
  EXPECT_EQ(copies.next(), At(4));
  EXPECT_THAT(copies.Parked(At(3)), IsEmpty());
  EXPECT_THAT(copies.Parked(At(4)), ElementsAre(In(1, 0)));
  EXPECT_THAT(copies.Parked(At(9)), ElementsAre(In(1, 0), In(2, 0)));
  copies.SetSource(FileId(1), NodeId(0), NodeId());
  EXPECT_EQ(copies.next(), At(9));
  EXPECT_EQ(copies.Find(FileId(1), NodeId(0))->again, Time::max());
  copies.Park(FileId(1), NodeId(0), At(20));
  EXPECT_EQ(copies.Find(FileId(1), NodeId(0))->failed, NodeId(5)) << "the submit directory is no node";
  EXPECT_EQ(copies.Find(FileId(1), NodeId(0))->failures, 2);
  copies.ForgetFailures(FileId(1), NodeId(0));
  EXPECT_EQ(copies.Find(FileId(1), NodeId(0))->failures, 0);
  copies.Remove(FileId(2), NodeId(0));
  EXPECT_EQ(copies.next(), At(20));
  copies.Remove(FileId(1), NodeId(0));
  EXPECT_EQ(copies.next(), Time::max());
  EXPECT_EQ(copies.FindBroken(), "");
}

TEST(Copies, CountsNoFurtherThanItCan) {
  Copies copies;
  copies.Add(FileId(0), NodeId(0), NodeId(1), kReader, At(0));
  for (int i = 0; i < 300; ++i) {
    copies.Park(FileId(0), NodeId(0), At(1));
    copies.SetSource(FileId(0), NodeId(0), NodeId(1));
    copies.ParkForRoom(FileId(0), NodeId(0), At(1));
    copies.SetSource(FileId(0), NodeId(0), NodeId(1));
  }
  EXPECT_EQ(copies.Find(FileId(0), NodeId(0))->failures, 255);
  EXPECT_EQ(copies.Find(FileId(0), NodeId(0))->no_room, 255);
}

TEST(Copies, OneThatWaitsForRoomIsTriedWhenThereMayBeSome) {
  Copies copies;
  for (uint32_t file : {8u, 3u, 5u}) copies.Add(FileId(file), NodeId(1), NodeId(0), kReader, At(0));
  copies.Add(FileId(2), NodeId(1), NodeId(0), kReader, At(0));
  copies.Add(FileId(2), NodeId(4), NodeId(0), kReader, At(0));
  EXPECT_TRUE(copies.AnyGoes());
  copies.Park(FileId(2), NodeId(1), At(50));
  for (uint32_t file : {8u, 3u, 5u}) copies.ParkForRoom(FileId(file), NodeId(1), At(60));
  copies.NoteRoom(NodeId(4), At(10));
  EXPECT_THAT(copies.Parked(At(10)), IsEmpty());
  copies.NoteRoom(NodeId(1), At(10));
  EXPECT_THAT(copies.Parked(At(10)), ElementsAre(In(3, 1))) << "one, the first";
  copies.NoteRoom(NodeId(1), At(11));
  EXPECT_THAT(copies.Parked(At(11)), ElementsAre(In(3, 1), In(5, 1)));
  // What tries again whether there is room does not go by itself.
  copies.Remove(FileId(2), NodeId(4));
  copies.SetSource(FileId(3), NodeId(1), NodeId(0));
  EXPECT_FALSE(copies.AnyGoes());
  EXPECT_FALSE(copies.Find(FileId(3), NodeId(1))->for_room);
  copies.SetSource(FileId(2), NodeId(1), NodeId(0));
  EXPECT_TRUE(copies.AnyGoes());
  copies.SetLastTry(FileId(8), NodeId(1), At(30));
  EXPECT_TRUE(copies.Find(FileId(8), NodeId(1))->last_try);
  EXPECT_EQ(copies.Find(FileId(8), NodeId(1))->again, At(30));
  copies.ParkForRoom(FileId(8), NodeId(1), At(40));
  EXPECT_FALSE(copies.Find(FileId(8), NodeId(1))->last_try);
}

TEST(Copies, WhatIsOnItsWayToNobodyIsNotChanged) {
  Copies copies;
  for (const bool another : {false, true}) {
    SCOPED_TRACE(another);
    if (another) copies.Add(FileId(1), NodeId(0), NodeId(5), kReader, At(0));
    for (const NodeId to : {NodeId(1), NodeId(5)}) {
      copies.SetSource(FileId(1), to, NodeId(2));
      copies.Park(FileId(1), to, At(1));
      copies.ParkForRoom(FileId(1), to, At(1));
      copies.ForgetFailures(FileId(1), to);
      copies.SetLastTry(FileId(1), to, At(1));
      copies.Remove(FileId(1), to);
      EXPECT_EQ(copies.Find(FileId(1), to), nullptr);
    }
    EXPECT_EQ(copies.size(), another ? 1u : 0u);
    EXPECT_EQ(copies.next(), Time::max());
    EXPECT_EQ(copies.served(FileId(1), NodeId(5)), another ? 1u : 0u);
    EXPECT_EQ(copies.FindBroken(), "");
  }
}

TEST(Copies, HandOnWhatTheyGet) {
  Copies copies;
  copies.Add(FileId(1), NodeId(1), NodeId(0), kReader, At(0));
  copies.Add(FileId(1), NodeId(2), NodeId(1), kReader, At(0));
  copies.Add(FileId(1), NodeId(3), NodeId(2), kReader, At(0));
  copies.Add(FileId(2), NodeId(3), NodeId(5), kReader, At(0));
  EXPECT_TRUE(copies.ComesFrom(FileId(1), NodeId(3), NodeId(1)));
  EXPECT_TRUE(copies.ComesFrom(FileId(1), NodeId(3), NodeId(0)));
  EXPECT_TRUE(copies.ComesFrom(FileId(1), NodeId(3), NodeId(3)));
  EXPECT_FALSE(copies.ComesFrom(FileId(1), NodeId(1), NodeId(3)));
  EXPECT_FALSE(copies.ComesFrom(FileId(1), NodeId(3), NodeId(5)));
}

/// Whatever comes and goes: what a list of all of them answers.
TEST(Copies, AnswerLikeAList) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    Copies copies;
    std::map<Place, NodeId> known;
    for (int i = 0; i < 2000; ++i) {
      const Place place = In(random() % 20, random() % 12);
      const NodeId from = random() % 4 == 0 ? NodeId() : In(0, 12 + random() % 3).second;
      if (!known.contains(place)) {
        copies.Add(place.first, place.second, from, random() % 3 == 0 ? TaskId() : kReader, At(0));
        known[place] = from;
      } else if (random() % 3 == 0) {
        copies.SetSource(place.first, place.second, from);
        known[place] = from;
      } else if (random() % 3 == 0) {
        copies.Park(place.first, place.second, At(1));
        known[place] = NodeId();
      } else {
        copies.Remove(place.first, place.second);
        known.erase(place);
      }
      ASSERT_EQ(copies.FindBroken(), "");
      ASSERT_EQ(copies.size(), known.size());
      const Place asked = In(random() % 20, random() % 12);
      ASSERT_EQ(copies.Find(asked.first, asked.second) != nullptr, known.contains(asked));
      std::vector<NodeId> takers;
      uint32_t served = 0;
      for (const auto& [each, source] : known) {
        if (each.first == asked.first) takers.push_back(each.second);
        served += each.first == asked.first && source == NodeId(13) ? 1 : 0;
      }
      ASSERT_EQ(copies.Takers(asked.first), takers);
      ASSERT_EQ(copies.served(asked.first, NodeId(13)), served);
    }
    EXPECT_LE(copies.memory(), 240 * 200u) << "places that are free are used again";
  }
}

}  // namespace
}  // namespace harrow::core
