// Which nodes and cores the ranks of a task have.
#include "agent/steps/gang.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/steps/environment.h"

namespace harrow::agent {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Gang Of(std::vector<uint32_t> ranks, uint32_t here) {
  Gang gang{.here = here};
  for (uint32_t n = 0; n < ranks.size(); ++n) gang.nodes.push_back({.id = NodeId(10 + n), .name = "n" + std::to_string(n), .ranks = ranks[n]});
  return gang;
}

TEST(GangTest, RanksAreNumberedNodeByNode) {
  for (const auto& [here, first, count] : {std::tuple(0u, 0u, 3u), {1u, 3u, 1u}, {2u, 4u, 2u}}) {
    const Gang gang = Of({3, 1, 2}, here);
    EXPECT_EQ(gang.ranks(), 6u);
    EXPECT_EQ(gang.first_rank(), first);
    EXPECT_EQ(gang.ranks_here(), count);
    EXPECT_EQ(gang.leads(), here == 0);
    EXPECT_TRUE(gang.has_processes());
  }
  const Gang gang = Of({3, 1, 2}, 0);
  std::vector<uint32_t> nodes;
  for (uint32_t rank = 0; rank < 8; ++rank) nodes.push_back(gang.NodeOf(rank));
  EXPECT_THAT(nodes, ElementsAre(0, 0, 0, 1, 2, 2, 3, 3));
  EXPECT_THAT(gang.NodesOf({0, 4, 5}), ElementsAre(0, 2));
  EXPECT_THAT(gang.NodesOf({3}), ElementsAre(1));
  EXPECT_THAT(gang.NodesOf({6}), IsEmpty()) << "there is no such rank";
  EXPECT_THAT(gang.NodesOf({}), ElementsAre(0, 1, 2));
  EXPECT_EQ(gang.Names(", "), "n0, n1, n2");
}

TEST(GangTest, WithoutRanksTheLeadNodeHasTheOnlyProcess) {
  EXPECT_TRUE(Of({0, 0}, 0).has_processes());
  EXPECT_FALSE(Of({0, 0}, 1).has_processes());
  EXPECT_THAT(Of({0, 0}, 1).NodesOf({}), ElementsAre(0));
}

TEST(GangTest, EachRankHasItsPartOfTheNodesCores) {
  struct Row {
    uint32_t ranks, nodes, cores, most_of_node, cores_of_rank;
  };
  for (const Row& row : {Row{0, 1, 4, 1, 4}, {1, 1, 1, 1, 1}, {1, 1, 4, 1, 4}, {2, 1, 4, 2, 2}, {3, 1, 4, 3, 1}, {8, 1, 4, 8, 1}, {4, 2, 6, 2, 3},
                         {5, 2, 6, 3, 2}, {6, 0, 6, 6, 1}}) {
    ProfileSpec spec;
    spec.ranks = row.ranks;
    spec.nodes = row.nodes;
    spec.cores = row.cores;
    EXPECT_EQ(spec.most_ranks_of_node(), row.most_of_node) << row.ranks << " on " << row.nodes;
    EXPECT_EQ(spec.cores_of_rank(), row.cores_of_rank) << row.ranks << " on " << row.nodes;
  }
}

}  // namespace
}  // namespace harrow::agent
