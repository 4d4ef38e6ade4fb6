// What goes where when files are put on nodes before a run, and what becomes of it when nodes come, go, are
// full, or do not send.

#include "server/staging.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>
#include <set>

namespace harrow::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;
using Copy = Staging::Copy;
using Trouble = Staging::Trouble;
using Why = Staging::Why;

FileId F(uint32_t n) {
  return FileId(n);
}
NodeId N(uint32_t n) {
  return NodeId(n);
}
std::vector<FileId> Files(uint32_t count) {
  std::vector<FileId> files;
  for (uint32_t n = 0; n < count; ++n) files.push_back(F(n));
  return files;
}
Staging Begun(uint32_t files, uint32_t nodes, bool everywhere, const Staging::Limits& limits = {}) {
  Staging staging(Files(files), everywhere, limits);
  std::vector<NodeId> order;
  for (uint32_t n = 0; n < nodes; ++n) {
    staging.Joined(N(n));
    order.push_back(N(n));
  }
  staging.Begin(order);
  return staging;
}

TEST(StagingTest, NothingGoesBeforeAllHaveCome) {
  Staging staging(Files(1), false, {});
  staging.Joined(N(0));
  EXPECT_THAT(staging.TakeCopies(), IsEmpty());
  EXPECT_FALSE(staging.complete());
  staging.Begin({N(0)});
  EXPECT_THAT(staging.TakeCopies(), ElementsAre(Copy{F(0), N(0)}));
}

TEST(StagingTest, RoundRobinGoesByTurns) {
  Staging staging(Files(5), false, {});
  for (uint32_t n = 0; n < 3; ++n) staging.Joined(N(n));
  staging.Begin({N(2), N(0), N(1)});
  EXPECT_THAT(staging.TakeCopies(), UnorderedElementsAre(Copy{F(0), N(2)}, Copy{F(3), N(2)}, Copy{F(1), N(0)},
                                                         Copy{F(4), N(0)}, Copy{F(2), N(1)}));
  EXPECT_FALSE(staging.complete());
  for (uint32_t n = 0; n < 5; ++n) {
    EXPECT_FALSE(staging.IsStaged(F(n)));
    staging.Stored(F(n), N(n % 3 == 0 ? 2 : n % 3 - 1));
    EXPECT_TRUE(staging.IsStaged(F(n)));
  }
  EXPECT_THAT(staging.TakeCopies(), IsEmpty());
  EXPECT_TRUE(staging.complete());
  EXPECT_EQ(staging.failed(), 0u);
}

TEST(StagingTest, NothingToStageIsComplete) {
  EXPECT_TRUE(Begun(0, 2, true).complete());
}

TEST(StagingTest, SoManyAreReadAtOnce) {
  Staging staging = Begun(5, 1, false, {.reads = 2});
  EXPECT_THAT(staging.TakeCopies(), ElementsAre(Copy{F(0), N(0)}, Copy{F(1), N(0)}));
  EXPECT_THAT(staging.TakeCopies(), IsEmpty());
  staging.Stored(F(0), N(0));
  EXPECT_THAT(staging.TakeCopies(), ElementsAre(Copy{F(2), N(0)}));
}

TEST(StagingTest, WhatANodeHoldsIsNotReadAgain) {
  Staging staging(Files(3), false, {});
  for (uint32_t n = 0; n < 2; ++n) staging.Joined(N(n));
  staging.Stored(F(0), N(1));
  staging.Begin({N(0), N(1)});
  EXPECT_THAT(staging.TakeCopies(), UnorderedElementsAre(Copy{F(1), N(1)}, Copy{F(2), N(0)}));
  EXPECT_TRUE(staging.IsStaged(F(0)));
}

TEST(StagingTest, WhoMayHaveItIsAskedFirst) {
  Staging staging(Files(4), false, {});
  for (uint32_t n = 0; n < 2; ++n) staging.Joined(N(n));
  staging.Likely(F(0), N(1));
  staging.Likely(F(3), N(7));
  staging.Begin({N(0), N(1)});
  EXPECT_THAT(staging.TakeCopies(),
              UnorderedElementsAre(Copy{F(0), N(1)}, Copy{F(1), N(1)}, Copy{F(2), N(0)}, Copy{F(3), N(1)}));
  staging.Stored(F(2), N(0));
  staging.Lost(N(0));
  staging.Joined(N(0));
  staging.Likely(F(2), N(0));
  EXPECT_THAT(staging.TakeCopies(), ElementsAre(Copy{F(2), N(0)}));
  staging.Failed(F(2), N(0), {}, Why::kNoRoom);
  EXPECT_THAT(staging.TakeCopies(), ElementsAre(Copy{F(2), N(1)}));
}

TEST(StagingTest, OfALostNodeOthersReadWhatItHadAndWasToGet) {
  Staging staging = Begun(4, 2, false);
  staging.TakeCopies();
  staging.Stored(F(0), N(0));
  staging.Stored(F(1), N(1));
  staging.Stored(F(3), N(1));
  staging.Lost(N(0));
  EXPECT_FALSE(staging.IsStaged(F(0)));
  EXPECT_THAT(staging.TakeCopies(), UnorderedElementsAre(Copy{F(0), N(1)}, Copy{F(2), N(1)}));
  staging.Stored(F(2), N(0));
  EXPECT_FALSE(staging.IsStaged(F(2))) << "it is not there any more";
  staging.Stored(F(0), N(1));
  staging.Stored(F(2), N(1));
  staging.TakeCopies();
  EXPECT_TRUE(staging.complete());
  EXPECT_EQ(staging.nodes(), 1u);
}

TEST(StagingTest, AnAgentThatIsStartedAgainGoesOnWithWhatItHolds) {
  Staging staging = Begun(4, 2, false);
  staging.TakeCopies();
  staging.Lost(N(0));
  staging.Joined(N(0));
  staging.Stored(F(0), N(0));
  EXPECT_THAT(staging.TakeCopies(), ElementsAre(Copy{F(2), N(0)})) << "which has the fewest";
}

TEST(StagingTest, WithoutANodeItWaitsForOne) {
  Staging staging = Begun(2, 1, false);
  staging.TakeCopies();
  staging.Lost(N(0));
  EXPECT_THAT(staging.TakeCopies(), IsEmpty());
  EXPECT_FALSE(staging.complete());
  staging.Joined(N(1));
  EXPECT_THAT(staging.TakeCopies(), ElementsAre(Copy{F(0), N(1)}, Copy{F(1), N(1)}));
}

TEST(StagingTest, WhereThereIsNoRoomAnotherNodeReadsIt) {
  Staging staging = Begun(1, 3, false);
  EXPECT_THAT(staging.TakeCopies(), ElementsAre(Copy{F(0), N(0)}));
  staging.Failed(F(0), N(0), {}, Why::kNoRoom);
  EXPECT_FALSE(staging.complete());
  EXPECT_THAT(staging.TakeCopies(), ElementsAre(Copy{F(0), N(1)}));
  EXPECT_THAT(staging.TakeTroubles(), IsEmpty());
  staging.Failed(F(0), N(1), {}, Why::kNoRoom);
  EXPECT_THAT(staging.TakeCopies(), ElementsAre(Copy{F(0), N(2)}));
  staging.Failed(F(0), N(2), {}, Why::kNoRoom);
  EXPECT_THAT(staging.TakeCopies(), IsEmpty());
  EXPECT_THAT(staging.TakeTroubles(), ElementsAre(Trouble{F(0), Why::kNoRoom}));
  EXPECT_TRUE(staging.complete());
  EXPECT_EQ(staging.failed(), 1u);
}

TEST(StagingTest, WhatCannotBeReadIsToldAndTheRestGoesOn) {
  for (const bool everywhere : {false, true}) {
    Staging staging = Begun(2, 2, everywhere);
    staging.TakeCopies();
    staging.Failed(F(0), N(0), {}, Why::kUnreadable);
    EXPECT_THAT(staging.TakeTroubles(), ElementsAre(Trouble{F(0), Why::kUnreadable}));
    staging.Stored(F(1), N(1));
    for (const Copy& copy : staging.TakeCopies()) staging.Stored(copy.file, copy.to);
    EXPECT_TRUE(staging.complete());
    EXPECT_FALSE(staging.IsStaged(F(0)));
    EXPECT_TRUE(staging.IsStaged(F(1)));
    EXPECT_EQ(staging.failed(), 1u);
  }
}

TEST(StagingTest, EverywhereEachIsReadOnceAndGoesOnFromThere) {
  Staging staging = Begun(2, 2, true);
  EXPECT_THAT(staging.TakeCopies(), UnorderedElementsAre(Copy{F(0), N(0)}, Copy{F(1), N(1)}));
  EXPECT_THAT(staging.TakeCopies(), IsEmpty()) << "until it is known what they are";
  staging.Stored(F(0), N(0));
  EXPECT_FALSE(staging.IsStaged(F(0)));
  EXPECT_THAT(staging.TakeCopies(), ElementsAre(Copy{F(0), N(1), N(0)}));
  staging.Stored(F(0), N(1));
  EXPECT_TRUE(staging.IsStaged(F(0)));
  EXPECT_FALSE(staging.complete());
  staging.Stored(F(1), N(1));
  EXPECT_THAT(staging.TakeCopies(), ElementsAre(Copy{F(1), N(0), N(1)}));
  staging.Stored(F(1), N(0));
  staging.TakeCopies();
  EXPECT_TRUE(staging.complete());
}

TEST(StagingTest, EverywhereNobodySendsAFileToMoreThanTwo) {
  Staging staging = Begun(1, 16, true);
  staging.TakeCopies();
  staging.Stored(F(0), N(0));
  std::map<NodeId, int> sent;
  std::set<NodeId> get{N(0)};
  for (const Copy& copy : staging.TakeCopies()) {
    EXPECT_LE(++sent[copy.from], 2);
    EXPECT_TRUE(get.contains(copy.from)) << "has it, or gets it";
    EXPECT_TRUE(get.insert(copy.to).second);
  }
  EXPECT_THAT(get, SizeIs(16));
}

TEST(StagingTest, EverywhereWhatSomebodyHoldsComesFromThere) {
  Staging staging(Files(1), true, {});
  for (uint32_t n = 0; n < 2; ++n) staging.Joined(N(n));
  staging.Stored(F(0), N(1));
  staging.Begin({N(0), N(1)});
  EXPECT_THAT(staging.TakeCopies(), ElementsAre(Copy{F(0), N(0), N(1)}));
}

TEST(StagingTest, WhoGotItFromALostNodeGetsItFromAnother) {
  Staging staging = Begun(1, 3, true);
  staging.TakeCopies();
  staging.Stored(F(0), N(0));
  EXPECT_THAT(staging.TakeCopies(), SizeIs(2));
  staging.Stored(F(0), N(1));
  staging.Lost(N(0));
  EXPECT_THAT(staging.TakeCopies(), ElementsAre(Copy{F(0), N(2), N(1)}));
  staging.Failed(F(0), N(2), N(0), Why::kNotSent);
  EXPECT_THAT(staging.TakeCopies(), IsEmpty()) << "late word of the one that is gone";
  staging.Stored(F(0), N(2));
  staging.TakeCopies();
  EXPECT_TRUE(staging.complete());
}

TEST(StagingTest, WhatIsLostBeforeOthersHaveItIsReadAgain) {
  Staging staging = Begun(1, 3, true);
  staging.TakeCopies();
  staging.Stored(F(0), N(0));
  staging.TakeCopies();
  staging.Lost(N(0));
  const std::vector<Copy> again = staging.TakeCopies();
  EXPECT_THAT(again, ElementsAre(Copy{F(0), N(1)}));
  staging.Stored(F(0), N(1));
  EXPECT_THAT(staging.TakeCopies(), ElementsAre(Copy{F(0), N(2), N(1)}));
}

TEST(StagingTest, WhatIsNotSentIsReadInTheEnd) {
  Staging staging = Begun(1, 2, true, {.retries = 2});
  staging.TakeCopies();
  staging.Stored(F(0), N(0));
  for (int tries = 0; tries < 3; ++tries) {
    EXPECT_THAT(staging.TakeCopies(), ElementsAre(Copy{F(0), N(1), N(0)}));
    EXPECT_FALSE(staging.complete());
    staging.Failed(F(0), N(1), N(0), Why::kNotSent);
  }
  EXPECT_THAT(staging.TakeCopies(), ElementsAre(Copy{F(0), N(1)}));
  staging.Failed(F(0), N(1), {}, Why::kUnreadable);
  EXPECT_THAT(staging.TakeTroubles(), ElementsAre(Trouble{F(0), Why::kNotSent, N(1)}));
  staging.TakeCopies();
  EXPECT_TRUE(staging.complete());
}

TEST(StagingTest, AnotherSourceIsTriedFirst) {
  Staging staging = Begun(1, 3, true);
  staging.TakeCopies();
  staging.Stored(F(0), N(0));
  staging.TakeCopies();
  staging.Stored(F(0), N(1));
  staging.Failed(F(0), N(2), N(0), Why::kNotSent);
  EXPECT_THAT(staging.TakeCopies(), ElementsAre(Copy{F(0), N(2), N(1)}));
}

TEST(StagingTest, EverywhereTheNodeWithoutRoomIsTold) {
  Staging staging = Begun(1, 2, true);
  staging.TakeCopies();
  staging.Failed(F(0), N(0), {}, Why::kNoRoom);
  EXPECT_THAT(staging.TakeTroubles(), ElementsAre(Trouble{F(0), Why::kNoRoom, N(0)}));
  EXPECT_THAT(staging.TakeCopies(), ElementsAre(Copy{F(0), N(1)}));
  staging.Stored(F(0), N(1));
  EXPECT_THAT(staging.TakeCopies(), IsEmpty());
  EXPECT_TRUE(staging.complete());
  EXPECT_FALSE(staging.IsStaged(F(0)));
}

TEST(StagingTest, WhoComesLaterGetsAllOfThem) {
  Staging staging = Begun(2, 1, true);
  staging.TakeCopies();
  staging.Stored(F(0), N(0));
  staging.Joined(N(1));
  EXPECT_THAT(staging.TakeCopies(), ElementsAre(Copy{F(0), N(1), N(0)}));
  staging.Stored(F(1), N(0));
  EXPECT_THAT(staging.TakeCopies(), ElementsAre(Copy{F(1), N(1), N(0)}));
}

TEST(StagingTest, WhatIsGoneIsBroughtAgain) {
  Staging one = Begun(1, 2, false);
  one.TakeCopies();
  one.Stored(F(0), N(0));
  one.Gone(F(0), N(0));
  EXPECT_FALSE(one.complete());
  EXPECT_THAT(one.TakeCopies(), ElementsAre(Copy{F(0), N(0)}));
  Staging all = Begun(1, 2, true);
  all.TakeCopies();
  all.Stored(F(0), N(0));
  all.TakeCopies();
  all.Stored(F(0), N(1));
  all.Gone(F(0), N(0));
  EXPECT_THAT(all.TakeCopies(), ElementsAre(Copy{F(0), N(0), N(1)}));
}

/// Nodes, each with what it was asked for last; seeded, whatever comes.
TEST(StagingTest, WhateverHappensItEnds) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto draw = [&](uint32_t below) { return static_cast<uint32_t>(random() % below); };
    const bool everywhere = draw(2) == 1;
    const uint32_t count = 1 + draw(12), most = 2 + draw(7);
    Staging staging = Begun(count, most, everywhere, {.reads = 1 + draw(3), .fetches = 1 + draw(3)});
    std::map<std::pair<FileId, NodeId>, NodeId> asked;
    std::set<NodeId> here;
    std::set<std::pair<FileId, NodeId>> have;
    for (uint32_t n = 0; n < most; ++n) here.insert(N(n));
    uint32_t faults = 60;
    for (uint32_t step = 0; step < 5000; ++step) {
      for (const Copy& copy : staging.TakeCopies()) {
        ASSERT_TRUE(here.contains(copy.to));
        ASSERT_TRUE(!copy.from || here.contains(copy.from)) << "a source that is gone";
        ASSERT_NE(copy.to, copy.from);
        asked[{copy.file, copy.to}] = copy.from;
      }
      for (const auto& [place, from] : asked) {
        for (NodeId node = from; node;) {
          ASSERT_NE(node, place.second) << "it would get it from itself";
          const auto next = asked.find({place.first, node});
          node = next == asked.end() ? NodeId() : next->second;
        }
      }
      if (staging.complete()) break;
      if (faults > 0 && draw(6) == 0) {
        --faults;
        const NodeId node = N(draw(most));
        if (here.erase(node) > 0) {
          staging.Lost(node);
          std::erase_if(asked, [&](const auto& each) { return each.first.second == node; });
          std::erase_if(have, [&](const auto& each) { return each.second == node; });
        } else {
          here.insert(node);
          staging.Joined(node);
        }
        continue;
      }
      if (asked.empty()) {
        const NodeId node = N(draw(most));
        if (here.insert(node).second) staging.Joined(node);
        continue;
      }
      const auto answered = std::next(asked.begin(), draw(static_cast<uint32_t>(asked.size())));
      const auto [place, from] = *answered;
      asked.erase(answered);
      const bool sent = !from || have.contains({place.first, from});
      if (sent && (faults == 0 || draw(4) != 0)) {
        have.insert(place);
        staging.Stored(place.first, place.second);
      } else {
        faults -= faults > 0 ? 1 : 0;
        staging.Failed(place.first, place.second, from,
                       from ? Why::kNotSent : (draw(2) == 0 ? Why::kNoRoom : Why::kUnreadable));
      }
    }
    EXPECT_TRUE(staging.complete());
    const size_t failed = staging.TakeTroubles().size();
    size_t staged = 0;
    for (uint32_t n = 0; n < count; ++n) staged += staging.IsStaged(F(n)) ? 1 : 0;
    EXPECT_TRUE(staged == count || failed > 0) << staged << " of " << count;
  }
}

}  // namespace
}  // namespace harrow::server
