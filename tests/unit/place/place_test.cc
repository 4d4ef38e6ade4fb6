#include <algorithm>
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
TEST_F(CandidatesTest, WhatOnlyAClosedNodeHasIsNowhere) {
  Input("A", 100, {1});
  EXPECT_THAT(Find({1}), IsEmpty());
}
TEST_F(CandidatesTest, AClosedNodeIsNoneBesideOneThatHasLittle) {
  Input("A", 100, {1});
  Input("B", 1, {2});
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

/// What is said to be held is at least what there must be: of each part, when that part is large.
TEST(Memory, OfReplicasAndFreeNodesCountsEveryPart) {
  constexpr uint32_t kMany = 16'384;  // capacities double: no more room than is used
  graph::Graph files, one;
  for (uint32_t f = 0; f < kMany; ++f) files.AddFile("f" + std::to_string(f));
  one.AddFile("f");
  Replicas of_files(files), of_nodes(one);
  of_files.Grow();
  EXPECT_GE(of_files.memory(), kMany * (sizeof(int64_t) + 2 * sizeof(uint32_t)));
  const size_t before = of_files.memory();
  of_files.NodeJoined(NodeId(0));
  of_files.NodeJoined(NodeId(1));
  for (uint32_t f = 0; f < kMany; ++f) {
    of_files.Add(FileId(f), NodeId(0));
    of_files.Add(FileId(f), NodeId(1));
  }
  const size_t with_more = of_files.memory();
  EXPECT_GE(with_more, before + kMany * (sizeof(std::vector<uint32_t>) + sizeof(uint32_t)));
  for (uint32_t f = 0; f < kMany; ++f) of_files.Remove(FileId(f), NodeId(1));
  EXPECT_GE(of_files.memory(), with_more + kMany * sizeof(uint32_t)) << "and the list of what is free";
  of_nodes.Grow();
  for (uint32_t n = 0; n < kMany; ++n) of_nodes.NodeJoined(NodeId(n));
  EXPECT_GE(of_nodes.memory(), kMany * (sizeof(NodeId) + sizeof(uint32_t) + sizeof(int64_t)));
  FreeNodes by_slots, by_node;
  by_slots.Set(NodeId(0), kMany);
  EXPECT_GE(by_slots.memory(), kMany * sizeof(std::vector<NodeId>));
  for (uint32_t n = 0; n < kMany; ++n) by_node.Set(NodeId(n), 1);
  EXPECT_GE(by_node.memory(), kMany * (2 * sizeof(uint32_t) + sizeof(NodeId)));
  Victims victims;
  for (uint32_t n = 0; n < kMany; ++n) victims.Note(NodeId(n));
  EXPECT_GE(victims.memory(), kMany * (sizeof(NodeId) + 1));
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

/// Inputs, sizes and replicas at random, against sums made by hand.
TEST(Replicas, CandidatesAndBytesAgreeWithSums) {
  constexpr uint32_t kFiles = 8, kNodes = 5;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    order::SeededDraws random(seed);
    graph::Graph graph;
    std::vector<FileId> in;
    std::vector<int64_t> sizes;
    for (uint32_t f = 0; f < kFiles; ++f) {
      in.push_back(graph.AddFile("f" + std::to_string(f)));
      sizes.push_back(static_cast<int64_t>(random.Below(6)) - 1);
      if (sizes[f] > 0 && random.Below(2) == 0) sizes[f] *= 1000;
      if (sizes[f] >= 0) graph.SetFileSize(in[f], sizes[f]);
    }
    graph::TaskSpec spec;
    spec.in = in;
    const TaskId task = graph.AddTask(spec);
    ASSERT_TRUE(graph.Seal().ok());
    Replicas replicas(graph);
    replicas.Grow();
    EXPECT_EQ(replicas.BytesAt(task, NodeId(3)).local, 0) << "it has not come";
    for (uint32_t n = 0; n < kNodes; ++n) replicas.NodeJoined(NodeId(n));
    std::vector<std::set<uint32_t>> holders(kFiles);
    for (uint32_t f = 0; f < kFiles; ++f) {
      for (uint32_t n = 0; n < kNodes; ++n) {
        if (random.Below(4) > 0) continue;
        replicas.Add(in[f], NodeId(n));
        holders[f].insert(n);
      }
      if (random.Below(8) == 0) replicas.SetSize(in[f], sizes[f] = 777);
      EXPECT_EQ(replicas.size(in[f]), sizes[f]);
    }
    const uint32_t closed = random.Below(2 * kNodes);
    int64_t known = 0, known_bytes = 0;
    for (const int64_t size : sizes) {
      if (size < 0) continue;
      ++known;
      known_bytes += size;
    }
    const int64_t unknown = known == 0 ? 1 : std::max<int64_t>(1, known_bytes / known);
    std::vector<int64_t> sums(kNodes), local(kNodes);
    int64_t largest = 0, all = 0;
    for (uint32_t f = 0; f < kFiles; ++f) all += std::max<int64_t>(0, sizes[f]);
    for (uint32_t n = 0; n < kNodes; ++n) {
      for (uint32_t f = 0; f < kFiles; ++f) {
        if (!holders[f].contains(n)) continue;
        sums[n] += sizes[f] < 0 ? unknown : sizes[f];
        local[n] += std::max<int64_t>(0, sizes[f]);
      }
      if (n != closed) largest = std::max(largest, sums[n]);
    }
    std::set<uint32_t> expected, found;
    for (uint32_t n = 0; n < kNodes; ++n) {
      if (n != closed && sums[n] > 0 && 2 * sums[n] >= largest) expected.insert(n);
      const InputBytes bytes = replicas.BytesAt(task, NodeId(n));
      EXPECT_EQ(bytes.local, local[n]);
      EXPECT_EQ(bytes.remote, all - local[n]);
    }
    for (int again = 0; again < 2; ++again) {  // nothing is left over from one time to the next
      size_t listed = 0;
      found.clear();
      for (NodeId node : replicas.Candidates(task, [&](NodeId n) { return n.value != closed; })) {
        found.insert(node.value);
        ++listed;
      }
      EXPECT_EQ(found, expected);
      EXPECT_EQ(listed, found.size());
    }
    replicas.NodeLost(NodeId(0));
    EXPECT_EQ(replicas.BytesAt(task, NodeId(0)).local, 0);
    EXPECT_EQ(replicas.BytesAt(task, NodeId(kNodes)).remote, all) << "a node nobody knows";
  }
}

TEST(Replicas, FilesThatAreAddedLaterKeepTheirSizes) {
  graph::Graph graph;
  graph.SetFileSize(graph.AddFile("a"), 5);
  Replicas replicas(graph);
  replicas.Grow();
  replicas.SetSize(FileId(0), 6);
  graph.SetFileSize(graph.AddFile("b"), 7);
  graph.AddFile("c");
  replicas.Grow();
  EXPECT_EQ(replicas.size(FileId(0)), 6) << "known better";
  EXPECT_EQ(replicas.size(FileId(1)), 7);
  EXPECT_EQ(replicas.size(FileId(2)), -1);
}

TEST(Replicas, MemoryDoesNotGrowWithWhatComesAndGoes) {
  graph::Graph graph;
  for (int f = 0; f < 50; ++f) graph.AddFile("f" + std::to_string(f));
  Replicas replicas(graph);
  replicas.Grow();
  for (uint32_t n = 0; n < 4; ++n) replicas.NodeJoined(NodeId(n));
  const auto come_and_go = [&](int rounds) {
    for (int round = 0; round < rounds; ++round) {
      for (uint32_t f = 0; f < 50; ++f) {
        for (uint32_t n = 0; n < 4; ++n) replicas.Add(FileId(f), NodeId(n));
        if (f % 3 == 0) replicas.SetOnly(FileId(f), NodeId(2));
        for (uint32_t n = 0; n < 4; ++n) replicas.Remove(FileId(f), NodeId(n));
        EXPECT_TRUE(replicas.Holders(FileId(f)).empty());
      }
    }
  };
  come_and_go(3);
  const size_t before = replicas.memory();
  EXPECT_GT(before, 50 * sizeof(int64_t));
  come_and_go(200);
  EXPECT_EQ(replicas.memory(), before);
  // Nodes that come back again and again, as agents are started anew, and store what they stored before.
  for (uint32_t f = 0; f < 50; ++f) replicas.Add(FileId(f), NodeId(0));
  for (int life = 0; life < 200; ++life) {
    replicas.NodeLost(NodeId(1));
    replicas.NodeJoined(NodeId(1));
    for (uint32_t f = 0; f < 50; ++f) {
      replicas.Add(FileId(f), NodeId(1));
      ASSERT_EQ(replicas.Holders(FileId(f)).size(), 2u);
    }
  }
  EXPECT_LT(replicas.memory(), before + 50 * 64 + 4096) << "who is gone is forgotten";
}

TEST(Victims, RandomStepsAgreeWithASet) {
  order::SeededDraws random(3);
  Victims victims;
  std::set<uint32_t> expected;
  for (int step = 0; step < 2000; ++step) {
    if (random.Below(2) == 0) {
      const uint32_t node = random.Below(40);
      victims.Note(NodeId(node));
      expected.insert(node);
    } else if (victims.size() > 0) {
      const uint32_t at = random.Below(static_cast<uint32_t>(victims.size()));
      expected.erase(victims[at].value);
      victims.Drop(at);
    }
    std::set<uint32_t> found;
    for (size_t i = 0; i < victims.size(); ++i) found.insert(victims[i].value);
    ASSERT_EQ(found, expected) << "step " << step;
    ASSERT_EQ(victims.size(), expected.size()) << "each once";
  }
  EXPECT_GE(victims.memory(), victims.size() * sizeof(NodeId));
  EXPECT_LT(victims.memory(), 40u * 4 * sizeof(NodeId)) << "a row of what is there, and no more";
}

TEST(FreeNodes, RandomStepsAgreeWithAMap) {
  order::SeededDraws random(5);
  FreeNodes free;
  std::map<uint32_t, uint32_t> expected;
  for (int step = 0; step < 3000; ++step) {
    const uint32_t node = random.Below(12);
    expected[node] = random.Below(3) == 0 ? 0 : random.Below(7);
    free.Set(NodeId(node), expected[node]);
    uint32_t largest = 0;
    for (const auto& [n, slots] : expected) {
      largest = std::max(largest, slots);
      ASSERT_EQ(free.free_slots(NodeId(n)), slots);
    }
    ASSERT_EQ(free.largest(), largest) << "step " << step;
    ASSERT_EQ(free.empty(), largest == 0);
    for (uint32_t slots = 1; slots <= largest; ++slots) {
      std::set<uint32_t> with;
      for (NodeId n : free.With(slots)) with.insert(n.value);
      ASSERT_EQ(with.size(), free.With(slots).size());
      for (const auto& [n, has] : expected) ASSERT_EQ(with.contains(n), has == slots) << "step " << step;
    }
  }
  EXPECT_GE(free.memory(), 12 * 2 * sizeof(uint32_t));
  EXPECT_LT(free.memory(), 4096u);
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
