#include "multiview/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "reference.h"

namespace harrow::multiview {
namespace {

using testing::ElementsAre;

Layout Make(std::vector<Index> shape, const Split& split, int processes) {
  auto grid = Grid::Make(shape, split, "test", "Split");
  return Layout(std::move(*grid), processes);
}

TEST(Grid, RefusesImpossibleCuts) {
  const std::vector<Index> shape{2, 4, 4};
  EXPECT_THAT(Grid::Make(shape, Split{kAll, kNone}, "set_split", "Split").status().message(),
              "set_split: Split has 2 entries, the store 3 dimensions");
  EXPECT_THAT(Grid::Make(shape, Split{3, kNone, kNone}, "map", "View").status().message(),
              "map: View asks for 3 blocks in dimension 0, which has 2 elements; from 1 to 2 are possible");
  EXPECT_FALSE(Grid::Make(shape, Split{0, 1, 1}, "map", "View").ok());
  EXPECT_FALSE(Grid::Make(shape, Split{-7, 1, 1}, "map", "View").ok());
}

// Figure 3 of the paper.
TEST(Layout, OneBlockAProcess) {
  const Layout c = Make({2, 4, 4}, {kAll, kNone, kNone}, 2);
  for (int p = 0; p < 2; ++p) {
    EXPECT_THAT(c.Boxes(p), ElementsAre(Box{{p, 0, 0}, {1, 4, 4}}));
  }
  const Layout d = Make({2, 4, 4}, {kAll, kAll, kNone}, 8);
  for (int p = 0; p < 8; ++p) {
    EXPECT_THAT(d.Boxes(p), ElementsAre(Box{{p / 4, p % 4, 0}, {1, 1, 4}}));
  }
}

TEST(Layout, FewerOrMoreProcessesThanBlocks) {
  const Layout fewer = Make({2, 4, 4}, {kAll, kAll, kNone}, 4);
  for (int p = 0; p < 4; ++p) {
    EXPECT_THAT(fewer.Boxes(p), ElementsAre(Box{{p / 2, p % 2 * 2, 0}, {1, 2, 4}}));
  }
  const Layout more = Make({2, 4, 4}, {kAll, kAll, kNone}, 12);
  for (int p = 0; p < 12; ++p) EXPECT_EQ(more.Volume(p), p < 8 ? 4 : 0);
}

TEST(Layout, TheLargestPartIsOfTheLargestBlocks) {
  EXPECT_EQ(Make({10}, {5}, 5).LargestVolume(), 2);
  EXPECT_EQ(Make({10}, {3}, 5).LargestVolume(), 4);
  EXPECT_EQ(Make({6, 10}, {2, 5}, 5).LargestVolume(), 12);
  EXPECT_EQ(Make({6, 10}, {2, 5}, 4).LargestVolume(), 18) << "three blocks of six";
}

TEST(Layout, Figure4) {
  const Layout first = Make({4, 64, 64, 64, 64}, {kNone, 8, 8, 8, 8}, 4096);
  const Layout second = Make({4, 64, 64, 64, 64}, {kAll, 8, 8, 4, 4}, 4096);
  for (int p : {0, 1, 777, 4095}) {
    EXPECT_EQ(first.Volume(p), 16384);
    EXPECT_EQ(second.Volume(p), 16384);
  }
  const auto view = Grid::Make(std::vector<Index>{4, 64, 64, 64, 64}, View{kAll, kNone, kNone, kNone, kNone}, "map", "View");
  EXPECT_EQ(view->count(), 4);
  EXPECT_EQ(second.Holders(view->Elements({{2, 0, 0, 0, 0}, {1, 1, 1, 1, 1}})).size(), 1024u);
}

TEST(Layout, RelabelledProcessesTakeEachOthersRoles) {
  const Layout plain = Make({6}, {kAll}, 3);
  const Layout layout(plain.grid(), 3, {2, 0, 1});
  EXPECT_THAT(layout.Boxes(0), plain.Boxes(2));
  EXPECT_THAT(layout.Boxes(1), plain.Boxes(0));
  EXPECT_EQ(layout.Owner(std::vector<Index>{5}), 0);
  EXPECT_EQ(layout.Owner(std::vector<Index>{0}), 1);
  EXPECT_THAT(layout.Holders({{1}, {2}}), ElementsAre(1, 2));
  EXPECT_THAT(layout.Holders({{3}, {2}}), ElementsAre(0, 2)) << "ascending, whatever their roles";
  EXPECT_FALSE(Layout(plain.grid(), 3, {0, 1, 2}).relabelled());
}

struct Case {
  std::vector<Index> shape;
  std::vector<Cut> cuts;
  int processes;
};

Case Draw(std::mt19937* random) {
  const auto draw = [&](Index low, Index high) { return std::uniform_int_distribution<Index>(low, high)(*random); };
  Case c;
  for (Index d = draw(1, 5); d > 0; --d) {
    c.shape.push_back(draw(1, 6));
    const Index kind = draw(0, 3);
    c.cuts.push_back(kind == 0 ? kAll : kind == 1 ? kNone : Cut(draw(1, c.shape.back())));
  }
  c.processes = static_cast<int>(draw(1, 20));
  return c;
}

TEST(Layout, EqualsTheReferenceElementByElement) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 400; ++round) {
    const Case c = Draw(&random);
    const Layout layout = Make(c.shape, Split(c.cuts), c.processes);
    std::vector<long> cuts;
    for (Cut cut : c.cuts) cuts.push_back(cut == kAll ? reference::kAll : cut == kNone ? reference::kNone : cut.value());
    std::map<reference::Place, int> holder;
    Index largest = 0;
    for (int p = 0; p < c.processes; ++p) {
      const auto boxes = layout.Boxes(p);
      EXPECT_LE(boxes.size(), 2 * c.shape.size() - 1);
      Index volume = 0;
      for (const Box& box : boxes) {
        volume += box.volume();
        for (const auto& inside : reference::Places({box.n.begin(), box.n.end()})) {
          reference::Place at = inside;
          for (std::size_t d = 0; d < at.size(); ++d) at[d] += box.lo[d];
          EXPECT_TRUE(holder.emplace(at, p).second) << "held twice";
        }
      }
      EXPECT_EQ(volume, layout.Volume(p));
      largest = std::max(largest, volume);
    }
    EXPECT_GE(layout.LargestVolume(), largest);
    const auto places = reference::Places({c.shape.begin(), c.shape.end()});
    ASSERT_EQ(holder.size(), places.size());
    Box box{Indices(c.shape.size()), Indices(c.shape.size())};
    for (std::size_t d = 0; d < c.shape.size(); ++d) {
      box.lo[d] = static_cast<Index>(random()) % c.shape[d];
      box.n[d] = 1 + static_cast<Index>(random()) % (c.shape[d] - box.lo[d]);
    }
    std::set<int> holders;
    for (const auto& at : places) {
      const int owner = reference::OwnerOf({c.shape.begin(), c.shape.end()}, cuts, c.processes, at);
      ASSERT_EQ(holder[at], owner);
      ASSERT_EQ(layout.Owner(at), owner);
      if (box.Contains(at)) holders.insert(owner);
    }
    ASSERT_THAT(layout.Holders(box), testing::ElementsAreArray(holders));
  }
}

}  // namespace
}  // namespace harrow::multiview
