// Tasks joined by streams in virtual time: when readers begin and end, what goes over the links, and what
// becomes of them when nodes are lost.

#include "sim/streams.h"

#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "sim/simulation.h"

namespace harrow::sim {
namespace {

/// Tasks on the nodes that a test says.
class OnNodes final : public cost::Placer {
 public:
  explicit OnNodes(std::vector<uint32_t> nodes) : nodes_(std::move(nodes)) {}
  void Grow() override {}
  void SetSlots(NodeId, uint32_t) override {}
  bool Learn(TaskId, NodeId, double, double) override { return false; }
  void Place(double, const Look& look) override {
    for (uint32_t n = 0; n < nodes_.size(); ++n) look(TaskId(n));
  }
  void Reopen(TaskId) override {}
  NodeId node(TaskId task) const override { return NodeId(nodes_[task.value]); }
  uint32_t order(TaskId task) const override { return task.value; }

 private:
  std::vector<uint32_t> nodes_;
};

struct Joined {
  graph::Graph graph;
  std::vector<Work> work;
  Options options;

  Joined(uint32_t nodes, uint32_t slots, double nic) {
    graph.AddSource("joined");
    options.cluster.nodes.push_back(
        {.count = nodes, .capacity = {slots, 0, 0}, .page_cache = 0, .speed = 1, .line = 0});
    options.cluster.nic = nic;
  }
  TaskId Add(double seconds, double bytes, const std::vector<TaskId>& reads = {}, bool split = false) {
    graph::TaskSpec spec;
    const std::string name = "t" + std::to_string(work.size());
    spec.name = name;
    spec.command = "x";
    const TaskId task = graph.AddTask(spec);
    work.push_back({.seconds = seconds, .left_out = false, .stream_bytes = bytes});
    for (const TaskId writer : reads) {
      const StreamId stream = graph.AddStream("s" + std::to_string(writer.value));
      if (graph.streams()[stream.value].writers.empty()) graph.AddWriter(stream, writer);
      if (split) graph.SetSplit(stream);
      graph.AddReader(stream, task);
      graph.AddDependency(writer, task, graph::WaitsFor::kStart);
    }
    return task;
  }
  Outcome Run(const std::vector<uint32_t>& nodes) {
    const Status sealed = graph.Seal();
    EXPECT_TRUE(sealed.ok()) << sealed.message();
    if (!nodes.empty())
      options.core.make_placer = [nodes](const graph::Graph&) { return std::make_unique<OnNodes>(nodes); };
    return Simulate(graph, work, options);
  }
};

TEST(SimStreams, AReaderRunsBesideItsWriterAndEndsAfterIt) {
  for (const uint32_t slots : {1u, 2u}) {
    Joined j(1, slots, 10);
    const TaskId writer = j.Add(10, 100);
    j.Add(4, 0, {writer});
    const Outcome outcome = j.Run({});
    EXPECT_TRUE(outcome.all_done());
    EXPECT_EQ(outcome.makespan, slots == 1 ? 14 : 10);
    EXPECT_EQ(outcome.stream_bytes, 0);
    // With two slots it holds its own until its writer has ended.
    EXPECT_EQ(outcome.core_seconds, slots == 1 ? 14 : 20);
  }
}

TEST(SimStreams, WhatIsWrittenOnAnotherNodeComesOverTheLink) {
  for (const auto& [nic, makespan] : {std::pair{5.0, 20.0}, {20.0, 10.0}, {0.0, 10.0}}) {
    Joined j(2, 1, nic);
    const TaskId writer = j.Add(10, 100);
    j.Add(4, 0, {writer});
    const Outcome outcome = j.Run({0, 1});
    EXPECT_EQ(outcome.makespan, makespan);
    EXPECT_EQ(outcome.stream_bytes, 100);
    EXPECT_EQ(outcome.bytes_moved, 100);
  }
}

TEST(SimStreams, ReadersShareTheWritersLink) {
  Joined j(3, 1, 10);
  const TaskId writer = j.Add(1, 100);
  j.Add(1, 0, {writer});
  j.Add(1, 0, {writer});
  EXPECT_DOUBLE_EQ(j.Run({0, 1, 2}).makespan, 20);
}

TEST(SimStreams, OfASplitStreamEachReaderGetsItsPart) {
  Joined j(3, 1, 10);
  const TaskId writer = j.Add(1, 100);
  j.Add(1, 0, {writer}, true);
  j.Add(1, 0, {writer}, true);
  EXPECT_DOUBLE_EQ(j.Run({0, 1, 2}).makespan, 10);
}

TEST(SimStreams, AChainRunsAtOnce) {
  Joined j(1, 4, 10);
  TaskId last = j.Add(5, 10);
  for (int i = 0; i < 3; ++i) last = j.Add(3, 10, {last});
  const Outcome outcome = j.Run({});
  EXPECT_EQ(outcome.makespan, 5);
  for (const Attempt& attempt : outcome.attempts) EXPECT_EQ(attempt.begin, 0);
}

TEST(SimStreams, WithLatencyTheyBeginWhenTheServerKnows) {
  Joined j(1, 2, 10);
  j.options.cluster.latency = 1;
  const TaskId writer = j.Add(10, 100);
  j.Add(4, 0, {writer});
  const Outcome outcome = j.Run({});
  EXPECT_TRUE(outcome.all_done());
  ASSERT_EQ(outcome.attempts.size(), 2u);
  EXPECT_EQ(outcome.attempts[1].begin, 3);
  EXPECT_EQ(outcome.makespan, 11);
}

TEST(SimStreams, WhenAWritersNodeIsLostBothBeginAnew) {
  Joined j(3, 1, 10);
  const TaskId writer = j.Add(10, 100);
  j.Add(4, 0, {writer});
  j.options.cluster.failures.push_back({.node = 0, .at = 5, .repair = 1});
  const Outcome outcome = j.Run({0, 1});
  EXPECT_TRUE(outcome.all_done());
  EXPECT_EQ(outcome.counts.done, 2u);
  EXPECT_EQ(outcome.attempts.size(), 4u);
  EXPECT_GE(outcome.makespan, 15);
}

TEST(SimStreams, ANodeThatGetsSlowerTakesTheRestOfItsTasksWithIt) {
  Joined j(1, 1, 0);
  j.Add(10, 0);
  j.options.cluster.changes = {{0, 4, 0.5}, {0, 8, 2}};
  EXPECT_DOUBLE_EQ(j.Run({}).makespan, 4 + 4 + 2);
}

TEST(SimStreams, ANodeThatComesLaterIsGivenTasksThen) {
  Joined j(2, 1, 0);
  for (int i = 0; i < 4; ++i) j.Add(10, 0);
  j.options.cluster.late = {{1, 5}};
  EXPECT_DOUBLE_EQ(j.Run({}).makespan, 25);
}

}  // namespace
}  // namespace harrow::sim
