#include "sim/gangs.h"

#include <gtest/gtest.h>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "sim/simulation.h"
#include "support/loaded_flow.h"

namespace harrow::sim {
namespace {

/// Notes what it is asked for.
class Noted : public Gangs::Host {
 public:
  void Begin(uint32_t attempt, uint32_t slot) override { Add(StrCat("begin ", attempt, " at ", slot)); }
  void Stop(uint32_t attempt, bool lost) override { Add(StrCat("stop ", attempt, lost ? " lost" : "")); }
  void Report(uint32_t attempt, agent::End end) override {
    Add(StrCat("report ", attempt,
               end == agent::End::kLost        ? " lost"
               : end == agent::End::kCancelled ? " cancelled"
                                               : ""));
  }
  void SendCancel(AttemptId, NodeId node, agent::End reason) override {
    Add(StrCat("cancel @", node.value, reason == agent::End::kLost ? " lost" : ""));
  }
  void TellCore(NodeId node, const agent::Event& event) override {
    Add(StrCat("settled @", node.value, ".", std::get<agent::Settled>(event).slot));
  }
  std::string Said() { return std::exchange(text_, {}); }

 private:
  void Add(const std::string& what) { text_ += (text_.empty() ? "" : ", ") + what; }
  std::string text_;
};

class SimGangsTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kAttempt = 7;
  const AttemptId id_{TaskId(3), 1};
  Noted noted_;
  Gangs gangs_{&noted_};
  const std::vector<uint32_t> parts_ = gangs_.Add(kAttempt, id_, {NodeId(2), NodeId(0), NodeId(1)});

  void BeginAll() {
    for (const uint32_t part : parts_) gangs_.Began(part, 4, 2);
    EXPECT_EQ(noted_.Said(), "begin 7 at 4");
  }
};

TEST_F(SimGangsTest, BeginsWithItsLastPartAndEndsOnAllNodes) {
  EXPECT_EQ(gangs_.MembersOf(kAttempt), (std::vector<NodeId>{NodeId(2), NodeId(0), NodeId(1)}));
  gangs_.Began(parts_[1], 5, 2);
  gangs_.Began(parts_[0], 1, 3);
  EXPECT_EQ(noted_.Said(), "");
  gangs_.Began(parts_[2], 0, 2);
  EXPECT_EQ(noted_.Said(), "begin 7 at 1") << "the slot of the lead node";
  EXPECT_EQ(gangs_.slots(kAttempt), 7u);
  gangs_.Settle(kAttempt);
  EXPECT_EQ(noted_.Said(), "settled @2.1, settled @0.5, settled @1.0");
  EXPECT_FALSE(gangs_.Has(kAttempt));
  EXPECT_EQ(gangs_.slots(kAttempt), 7u) << "for the account";
}

TEST_F(SimGangsTest, CancelledItIsReportedWhenAllPartsAreOver) {
  BeginAll();
  EXPECT_FALSE(gangs_.Cancel({TaskId(3), 2}, agent::End::kCancelled));
  EXPECT_TRUE(gangs_.Cancel(id_, agent::End::kCancelled));
  EXPECT_EQ(noted_.Said(), "cancel @2, cancel @0, cancel @1");
  EXPECT_TRUE(gangs_.Cancel(id_, agent::End::kLost)) << "the first reason counts";
  EXPECT_EQ(noted_.Said(), "");
  gangs_.Signalled(parts_[1], agent::End::kCancelled);
  EXPECT_EQ(noted_.Said(), "stop 7, settled @0.4");
  gangs_.Signalled(parts_[0], agent::End::kCancelled);
  EXPECT_EQ(noted_.Said(), "settled @2.4");
  gangs_.Signalled(parts_[2], agent::End::kCancelled);
  EXPECT_EQ(noted_.Said(), "report 7 cancelled, settled @1.4");
}

TEST_F(SimGangsTest, APartThatEndsByItselfTakesTheOthersAlong) {
  BeginAll();
  gangs_.Signalled(parts_[2], agent::End::kTimedOut);
  EXPECT_EQ(noted_.Said(), "cancel @2 lost, cancel @0 lost, cancel @1 lost, stop 7, settled @1.4");
  for (const uint32_t part : {parts_[0], parts_[1]}) gangs_.Signalled(part, agent::End::kLost);
  EXPECT_EQ(noted_.Said(), "settled @2.4, report 7, settled @0.4");
}

TEST_F(SimGangsTest, APartThatDoesNotBegin) {
  gangs_.Began(parts_[0], 0, 1);
  gangs_.Ended(parts_[1], agent::End::kNotStarted);
  EXPECT_EQ(noted_.Said(), "cancel @2 lost, cancel @0 lost, cancel @1 lost");
  gangs_.Began(parts_[2], 0, 1);
  EXPECT_EQ(noted_.Said(), "") << "it begins no more";
  gangs_.Signalled(parts_[0], agent::End::kLost);
  gangs_.Signalled(parts_[2], agent::End::kLost);
  EXPECT_EQ(noted_.Said(), "stop 7, settled @2.0, report 7, settled @1.0");
}

TEST_F(SimGangsTest, WithItsLeadNodeTheSchedulerHasLostIt) {
  BeginAll();
  gangs_.NodeFails(NodeId(2));
  EXPECT_EQ(noted_.Said(), "cancel @0 lost, cancel @1 lost, stop 7 lost");
  EXPECT_FALSE(gangs_.Cancel(id_, agent::End::kLost));
  gangs_.Signalled(parts_[1], agent::End::kLost);
  gangs_.Signalled(parts_[2], agent::End::kLost);
  EXPECT_EQ(noted_.Said(), "settled @0.4, settled @1.4") << "no report";
}

TEST_F(SimGangsTest, WithAnotherNodeTheSchedulerEndsIt) {
  BeginAll();
  gangs_.NodeFails(NodeId(1));
  EXPECT_EQ(noted_.Said(), "");
  EXPECT_TRUE(gangs_.Cancel(id_, agent::End::kLost));
  EXPECT_EQ(noted_.Said(), "cancel @2 lost, cancel @0 lost");
  gangs_.NodeFails(NodeId(0));
  EXPECT_EQ(noted_.Said(), "");
  gangs_.Signalled(parts_[0], agent::End::kLost);
  EXPECT_EQ(noted_.Said(), "stop 7 lost, report 7 lost, settled @2.4");
}

// --- in the simulation

struct Flow {
  graph::Graph graph;
  std::vector<Work> work;
  Options options;

  explicit Flow(std::vector<std::pair<uint32_t, NodeCapacity>> nodes) {
    for (const auto& [count, capacity] : nodes)
      options.cluster.nodes.push_back(
          {.count = count, .capacity = capacity, .page_cache = 0, .speed = 1, .line = 0});
  }
  void Add(uint32_t count, uint32_t ranks, uint32_t nodes, double seconds) {
    graph::Profile profile;
    profile.ranks = ranks;
    profile.shape.nodes = nodes;
    profile.shape.cores = ranks == 0 ? 1 : RanksOn(ranks, nodes, 0);
    for (uint32_t i = 0; i < count; ++i) {
      graph::TaskSpec spec;
      spec.profile = graph.AddProfile(profile);
      graph.AddTask(spec);
      work.push_back({seconds});
    }
  }
  Outcome Run() {
    EXPECT_TRUE(graph.Seal().ok());
    return Simulate(graph, work, options);
  }
};

TEST(SimulatedGangsTest, EightOfFourRanksFillTwoNodes) {
  Flow flow({{2, {16, 0, 0}}});
  flow.Add(8, 4, 2, 10);
  const Outcome outcome = flow.Run();
  EXPECT_EQ(outcome.counts.done, 8u);
  EXPECT_DOUBLE_EQ(outcome.makespan, 10);
  EXPECT_DOUBLE_EQ(outcome.core_seconds, 8 * 4 * 10);
}

TEST(SimulatedGangsTest, RanksAndSerialTasksArePackedTightly) {
  for (const uint32_t nodes : {1u, 2u, 4u}) {
    Flow flow({{4, {8, 0, 0}}});
    flow.Add(100, 4, nodes, 4);
    flow.Add(400, 0, 1, 2);
    const Outcome outcome = flow.Run();
    EXPECT_EQ(outcome.counts.done, 500u);
    EXPECT_LE(outcome.makespan, 1.05 * (100 * 4 * 4 + 400 * 2) / 32.0) << nodes;
  }
}

TEST(SimulatedGangsTest, AGangRunsAsFastAsItsSlowestNode) {
  Flow flow({{1, {2, 0, 0}}, {1, {2, 0, 0}}});
  flow.options.cluster.nodes[1].speed = 0.5;
  flow.Add(1, 4, 2, 10);
  EXPECT_DOUBLE_EQ(flow.Run().makespan, 20);
}

}  // namespace
}  // namespace harrow::sim
