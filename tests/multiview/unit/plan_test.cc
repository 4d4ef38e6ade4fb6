#include "multiview/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <random>

namespace harrow::multiview {
namespace {

Layout Make(const std::vector<Index>& shape, const Split& split, int processes, std::vector<int> roles = {}) {
  auto grid = Grid::Make(shape, split, "test", "Split");
  return Layout(std::move(*grid), processes, std::move(roles));
}

Index Elements(std::span<const Piece> pieces) {
  Index n = 0;
  for (const Piece& piece : pieces) n += piece.part.volume();
  return n;
}

Split RandomSplit(const std::vector<Index>& shape, std::mt19937* random) {
  std::vector<Cut> cuts;
  for (Index n : shape) cuts.push_back(Cut(1 + static_cast<Index>((*random)() % n)));
  return Split(cuts);
}

TEST(Plan, BothSidesAgreeAndEveryElementMovesOnce) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    std::vector<Index> shape(1 + random() % 4);
    for (Index& n : shape) n = static_cast<Index>(1 + random() % 7);
    const int processes = static_cast<int>(1 + random() % 9);
    const Layout from = Make(shape, RandomSplit(shape, &random), processes);
    const Layout to = Make(shape, RandomSplit(shape, &random), processes);
    std::vector<Plan> plans;
    for (int p = 0; p < processes; ++p) plans.emplace_back(from, to, p);
    for (int p = 0; p < processes; ++p) {
      Index sent = Elements(plans[p].keep()), received = sent;
      for (const int partner : plans[p].send()) {
        const auto pieces = Common(plans[p].from(), BoxList(to.Boxes(partner)));
        ASSERT_FALSE(pieces.empty());
        sent += Elements(pieces);
        const Plan& other = plans[partner];
        ASSERT_THAT(other.receive(), testing::Contains(p));
        const auto theirs = Common(BoxList(from.Boxes(p)), other.to());
        ASSERT_EQ(theirs.size(), pieces.size());
        for (std::size_t i = 0; i < pieces.size(); ++i) {
          ASSERT_EQ(theirs[i].part, pieces[i].part);
          ASSERT_EQ(theirs[i].from, pieces[i].from);
          ASSERT_EQ(theirs[i].to, pieces[i].to);
        }
      }
      for (const int partner : plans[p].receive()) received += Elements(Common(BoxList(from.Boxes(partner)), plans[p].to()));
      ASSERT_EQ(sent, from.Volume(p));
      ASSERT_EQ(received, to.Volume(p));
      // Rounds divide the pieces without a rest.
      for (Index rounds : {1, 2, 5}) {
        Index in_rounds = 0;
        for (Index k = 0; k < rounds; ++k) {
          in_rounds += Elements(
              Within(plans[p].keep(), plans[p].from(), plans[p].from().volume * k / rounds, plans[p].from().volume * (k + 1) / rounds));
        }
        ASSERT_EQ(in_rounds, Elements(plans[p].keep()));
      }
    }
  }
}

TEST(Plan, KnowsNothingOfElements) {
  // Figure 4's pattern, and the same with 10^12 times the elements.
  for (Index n : {64, 64000}) {
    const std::vector<Index> shape{4, n, n, n, n};
    const Plan plan(Make(shape, {kNone, 8, 8, 8, 8}, 4096), Make(shape, {kAll, 8, 8, 4, 4}, 4096), 1234);
    EXPECT_EQ(plan.send().size() + !plan.keep().empty(), 4u);
    EXPECT_EQ(plan.receive().size() + !plan.keep().empty(), 4u);
  }
}

Index Kept(const Layout& from, const Layout& to) {
  Index kept = 0;
  for (int p = 0; p < from.processes(); ++p) kept += Elements(Plan(from, to, p).keep());
  return kept;
}

TEST(LeastMovedRoles, KeepAsMuchAsAnyPermutation) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 60; ++round) {
    std::vector<Index> shape(1 + random() % 3);
    for (Index& n : shape) n = static_cast<Index>(1 + random() % 6);
    const int processes = static_cast<int>(1 + random() % 6);
    const Layout from = Make(shape, RandomSplit(shape, &random), processes);
    const Split split = RandomSplit(shape, &random);
    const auto grid = Make(shape, split, processes).grid();
    Index best = 0;
    std::vector<int> roles(static_cast<std::size_t>(processes));
    std::iota(roles.begin(), roles.end(), 0);
    do {
      best = std::max(best, Kept(from, Layout(grid, processes, roles)));
    } while (std::next_permutation(roles.begin(), roles.end()));
    ASSERT_EQ(Kept(from, Layout(grid, processes, LeastMovedRoles(from, grid))), best);
  }
}

TEST(LeastMovedRoles, ManyProcesses) {
  const std::vector<Index> shape{2, 512, 4};
  const Layout from = Make(shape, {kNone, 512, kNone}, 512);
  const auto to = Make(shape, {kAll, 256, kNone}, 512);
  const auto roles = LeastMovedRoles(from, to.grid());
  std::vector<int> sorted = roles;
  std::sort(sorted.begin(), sorted.end());
  for (int p = 0; p < 512; ++p) ASSERT_EQ(sorted[p], p);
  EXPECT_EQ(Kept(from, Layout(to.grid(), 512, roles)), 2 * 512 * 4 / 2);
}

// The first ten blocks of the new layout are longer by one: up to the middle of them a process keeps more in the block of its own
// number, from there on in the one before.
TEST(LeastMovedRoles, OfManyProcessesThoseThatKeepMostChooseFirst) {
  const std::vector<Index> shape{1300};
  const Layout from = Make(shape, {130}, 130), to = Make(shape, {129}, 130);
  const auto roles = LeastMovedRoles(from, to.grid());
  EXPECT_EQ(Kept(from, Layout(to.grid(), 130, roles)), 2 * (10 + 9 + 8 + 7 + 6) + 119 * 10);
  EXPECT_EQ(roles[4], 4);
  EXPECT_EQ(roles[6], 5);
  EXPECT_EQ(roles[129], 128);
  std::vector<int> sorted = roles;  // who is left without a part takes the role that has none
  std::sort(sorted.begin(), sorted.end());
  for (int p = 0; p < 130; ++p) EXPECT_EQ(sorted[p], p);
  // Of equal ones who stays where it is.
  const std::vector<Index> square{260, 2};
  const Layout rows = Make(square, {260, kNone}, 260), halves = Make(square, {130, 2}, 260);
  const auto same = LeastMovedRoles(rows, halves.grid());
  for (int p = 0; p < 260; ++p) EXPECT_EQ(same[p] / 2, p / 2) << p;
  for (int p = 0; p < 260; p += 2) EXPECT_EQ(same[p], p);
}

}  // namespace
}  // namespace harrow::multiview
