#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "order/draws.h"
#include "place/replicas.h"
#include "place/victims.h"

namespace harrow::place {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class CandidatesTest : public ::testing::Test {
 protected:
  /// A file of that size on those nodes, read by the task.
  void Input(const std::string& name, int64_t bytes, std::vector<uint32_t> nodes) {
    inputs_.push_back({graph_.AddFile(name), std::move(nodes)});
    if (bytes >= 0) graph_.SetFileSize(inputs_.back().first, bytes);
  }
  std::vector<uint32_t> Find(std::set<uint32_t> closed = {}) {
    std::vector<FileId> in;
    for (const auto& [file, nodes] : inputs_) in.push_back(file);
    graph::TaskSpec spec;
    spec.in = in;
    graph_.AddTask(spec);
    EXPECT_TRUE(graph_.Seal().ok());
    replicas_.Grow();
    for (uint32_t n = 0; n < 5; ++n) replicas_.NodeJoined(NodeId(n));
    for (const auto& [file, nodes] : inputs_) {
      for (uint32_t node : nodes) replicas_.Add(file, NodeId(node));
    }
    std::vector<uint32_t> out;
    for (NodeId node : replicas_.Candidates(TaskId(0), [&](NodeId n) { return !closed.contains(n.value); })) {
      out.push_back(node.value);
    }
    std::sort(out.begin(), out.end());
    return out;
  }
  graph::Graph graph_;
  Replicas replicas_{graph_};
  std::vector<std::pair<FileId, std::vector<uint32_t>>> inputs_;
};

TEST_F(CandidatesTest, AtLeastHalfOfTheLargestSum) {
  Input("A", 10, {1});
  Input("B", 6, {2});
  Input("C", 2, {1, 2, 3});
  EXPECT_THAT(Find(), ElementsAre(1, 2));  // 12, 8, 2
  const InputBytes bytes = replicas_.BytesAt(TaskId(0), NodeId(2));
  EXPECT_EQ(bytes.local, 8);
  EXPECT_EQ(bytes.remote, 10);
}
TEST_F(CandidatesTest, ExactlyHalfIsEnough) {
  Input("A", 10, {1});
  Input("B", 4, {2});
  Input("C", 2, {1, 2, 3});
  EXPECT_THAT(Find(), ElementsAre(1, 2));  // 12, 6, 2
}
TEST_F(CandidatesTest, LessThanHalfIsNot) {
  Input("A", 11, {1});
  Input("B", 5, {2});
  EXPECT_THAT(Find(), ElementsAre(1));
}
TEST_F(CandidatesTest, EmptyInputsGiveNone) {
  Input("A", 0, {1});
  EXPECT_THAT(Find(), IsEmpty());
}
TEST_F(CandidatesTest, InputsOnNoNodeGiveNone) {
  Input("A", 10, {});
  EXPECT_THAT(Find(), IsEmpty());
}
TEST_F(CandidatesTest, WithoutInputNone) {
  EXPECT_THAT(Find(), IsEmpty());
}
TEST_F(CandidatesTest, ClosedNodesDoNotCount) {
  Input("A", 100, {1});
  Input("B", 10, {2});
  EXPECT_THAT(Find({1}), ElementsAre(2));
}
TEST_F(CandidatesTest, UnknownSizesAreEqual) {
  Input("A", -1, {1});
  Input("B", -1, {1});
  Input("C", -1, {2});
  Input("D", -1, {3});
  EXPECT_THAT(Find(), ElementsAre(1, 2, 3));
}
TEST_F(CandidatesTest, UnknownSizeIsTheMeanOfTheKnown) {
  Input("A", 10, {1});
  Input("B", 2, {2});
  Input("C", -1, {3});  // counts as 6
  EXPECT_THAT(Find(), ElementsAre(1, 3));
}

TEST(Replicas, RandomStepsAgreeWithSets) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    order::SeededDraws random(seed);
    graph::Graph graph;
    for (int f = 0; f < 12; ++f) graph.AddFile("f" + std::to_string(f));
    Replicas replicas(graph);
    replicas.Grow();
    std::map<uint32_t, std::set<uint32_t>> holders;
    std::set<uint32_t> joined;
    for (int step = 0; step < 2000; ++step) {
      const uint32_t file = random.Below(12), node = random.Below(6);
      switch (random.Below(6)) {
        case 0:
        case 1:
          replicas.Add(FileId(file), NodeId(node));
          if (joined.contains(node)) holders[file].insert(node);
          break;
        case 2:
          replicas.Remove(FileId(file), NodeId(node));
          holders[file].erase(node);
          break;
        case 3:
          if (!joined.contains(node)) break;
          replicas.SetOnly(FileId(file), NodeId(node));
          holders[file] = {node};
          break;
        case 4:
          replicas.NodeJoined(NodeId(node));
          joined.insert(node);
          break;
        case 5:
          if (random.Below(4) > 0) break;
          replicas.NodeLost(NodeId(node));
          joined.erase(node);
          for (auto& [f, nodes] : holders) nodes.erase(node);
          break;
      }
      std::set<uint32_t> found;
      size_t listed = 0;
      for (NodeId holder : replicas.Holders(FileId(file))) {
        found.insert(holder.value);
        ++listed;
      }
      ASSERT_EQ(found, holders[file]) << "step " << step;
      ASSERT_EQ(listed, found.size()) << "a node holds a file once";
      ASSERT_EQ(replicas.Holds(FileId(file), NodeId(node)), found.contains(node));
    }
  }
}

TEST(Victims, EachNodeOnce) {
  Victims victims;
  victims.Note(NodeId(3));
  victims.Note(NodeId(1));
  victims.Note(NodeId(3));
  EXPECT_EQ(victims.size(), 2u);
  victims.Drop(0);
  EXPECT_EQ(victims.size(), 1u);
  EXPECT_EQ(victims[0], NodeId(1));
  victims.Note(NodeId(3));
  EXPECT_EQ(victims.size(), 2u);
}

TEST(FreeNodes, ByFreeSlots) {
  FreeNodes free;
  EXPECT_TRUE(free.empty());
  free.Set(NodeId(0), 2);
  free.Set(NodeId(1), 4);
  free.Set(NodeId(2), 4);
  EXPECT_EQ(free.largest(), 4u);
  EXPECT_THAT(free.With(4), UnorderedElementsAre(NodeId(1), NodeId(2)));
  free.Set(NodeId(1), 0);
  free.Set(NodeId(2), 1);
  EXPECT_EQ(free.largest(), 2u);
  EXPECT_EQ(free.free_slots(NodeId(2)), 1u);
  EXPECT_EQ(free.free_slots(NodeId(7)), 0u);
  free.Set(NodeId(0), 0);
  free.Set(NodeId(2), 0);
  EXPECT_TRUE(free.empty());
}

}  // namespace
}  // namespace harrow::place
