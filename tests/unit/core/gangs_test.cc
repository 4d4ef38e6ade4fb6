// Tasks of several nodes beside others: how full the nodes are, how long a gang waits, what is lent
// meanwhile.

#include <algorithm>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <vector>

#include "core/scheduler.h"
#include "support/told_scheduler.h"
#include "support/virtual_time.h"

namespace harrow::core {
namespace {

using order::Policy;
using test::ToldScheduler;
using test::VirtualTime;

std::string Number(const char* name, int i) {
  return name + std::to_string(i);
}

graph::Profile OfRanks(uint32_t ranks, uint32_t nodes) {
  graph::Profile profile;
  profile.ranks = ranks;
  profile.shape.nodes = nodes;
  profile.shape.cores = RanksOn(ranks, nodes, 0);
  return profile;
}

/// Tasks of one profile or another, each with its time.
struct Mixed {
  graph::Graph graph;
  std::vector<double> seconds;
  std::unique_ptr<VirtualTime> played{};

  void Add(const graph::Profile& profile, double run_time) {
    graph::TaskSpec spec;
    spec.profile = graph.AddProfile(profile);
    graph.AddTask(spec);
    seconds.push_back(run_time);
  }
  double Work() const {
    double work = 0;
    for (uint32_t n = 0; n < seconds.size(); ++n)
      work += seconds[n] * static_cast<double>(graph.profile(TaskId(n)).all_cores());
    return work;
  }
  const VirtualTime& Run(Options options, std::vector<NodeCapacity> nodes) {
    EXPECT_TRUE(graph.Seal().ok());
    VirtualTime::Options cluster;
    cluster.nodes = std::move(nodes);
    cluster.run_time = [this](TaskId id) { return seconds[id.value]; };
    played = std::make_unique<VirtualTime>(graph, options, std::move(cluster));
    played->Run();
    EXPECT_EQ(played->scheduler().counts().done, graph.task_count());
    return *played;
  }
};

TEST(GangsTest, PartsOfNodesFillThem) {
  Mixed mixed;
  for (int i = 0; i < 8; ++i) mixed.Add(OfRanks(4, 2), 10);
  EXPECT_DOUBLE_EQ(mixed.Run({}, {{16, 0, 0}, {16, 0, 0}}).makespan(), 10);
}

/// Of uneven times the last ones are not all over at once.
TEST(GangsTest, RanksAndSerialTasksArePackedTightly) {
  for (const uint32_t nodes : {1u, 2u, 4u}) {
    for (const Policy policy : {Policy::kFifo, Policy::kLifo, Policy::kHrf}) {
      for (const int how : {0, 1, 2, 3}) {
        const bool serial_first = how % 2 > 0, even = how / 2 > 0;
        Mixed mixed;
        const auto add_serial = [&] {
          for (int i = 0; i < 400; ++i) mixed.Add({}, even ? 2 : 1 + i % 3);
        };
        if (serial_first) add_serial();
        for (int i = 0; i < 100; ++i) mixed.Add(OfRanks(4, nodes), even ? 4 : 1 + i % 3);
        if (!serial_first) add_serial();
        const VirtualTime& time = mixed.Run({.policy = policy}, std::vector<NodeCapacity>(4, {8, 0, 0}));
        EXPECT_LE(time.makespan(), 1.05 * mixed.Work() / 32 + (even ? 0 : 2))
            << nodes << " nodes, policy " << static_cast<int>(policy)
            << (serial_first ? ", serial first" : "");
      }
    }
  }
}

/// No longer than the longest that runs, after what stood before it has been given so much as it asks for.
TEST(GangsTest, WaitsForTheLongestThatRunsAtMost) {
  constexpr double kLongest = 7;
  Mixed mixed;
  for (int i = 0; i < 300; ++i) mixed.Add({}, i % 10 == 0 ? kLongest : 1 + i % 2);
  const TaskId gang(300);
  graph::Profile urgent = OfRanks(8, 4);
  urgent.priority = 1;
  mixed.Add(urgent, 3);
  const VirtualTime& time = mixed.Run({.policy = Policy::kFifo}, std::vector<NodeCapacity>(4, {2, 0, 0}));
  const auto at = std::find_if(time.starts().begin(), time.starts().end(),
                               [&](const VirtualTime::Start& start) { return start.task == gang; });
  ASSERT_NE(at, time.starts().end());
  EXPECT_LE(at->time, 2 * kLongest + 2);
}

TEST(GangsTest, SeveralGatherSideBySide) {
  ToldScheduler s({.policy = Policy::kFifo});
  std::vector<std::string> busy;
  for (int i = 0; i < 24; ++i) s.Add(Number("S", i));
  for (const char* name : {"first", "second"}) {
    s.profile = OfRanks(2, 2);
    s.Add(name);
  }
  s.Begin(std::vector<NodeCapacity>(4, {2, 0, 0}));
  int at_once = 0;
  while (s.State("second") == TaskState::kReady) {
    const auto kept = [&](const char* name) {
      return s.State(name) == TaskState::kReady &&
             s.scheduler().Explain(s[name]).text.find("Room is kept for it") != std::string::npos;
    };
    at_once += kept("first") && kept("second");
    int ended = 0;
    for (int i = 0; i < 24 && ended == 0; ++i) {
      if (s.State(Number("S", i)) != TaskState::kSent) continue;
      s.now += std::chrono::seconds(1);
      s.Ended(Number("S", i), s.scheduler().node(s[Number("S", i)]).value);
      ++ended;
    }
    ASSERT_GT(ended, 0);
  }
  EXPECT_NE(s.State("first"), TaskState::kReady);
  EXPECT_LT(s.scheduler().counts().done, 24u) << "some came after them";
}

TEST(GangsTest, WhatEndsInTimeRunsInTheGap) {
  for (const int declared : {1, 3}) {
    ToldScheduler s({.policy = Policy::kFifo, .seed = 1});
    s.profile.time_limit = std::chrono::minutes(10);
    for (int i = 0; i < 2; ++i) s.Add(Number("long", i));
    s.profile = OfRanks(4, 2);
    s.profile.priority = 5;
    s.Add("gang");
    s.profile = {};
    for (int i = 0; i < 12; ++i) s.Add(Number("before", i));
    s.profile.time_limit = std::chrono::minutes(declared == 1 ? 1 : 30);
    s.Begin({{2, 0, 0}, {2, 0, 0}});
    EXPECT_EQ(s.State("gang"), TaskState::kReady);
    // What runs beside the long ones ends, until room is kept.
    for (int i = 0; i < 12; ++i) {
      s.now += std::chrono::seconds(1);
      if (s.State(Number("before", i)) == TaskState::kSent)
        s.Ended(Number("before", i), s.scheduler().node(s[Number("before", i)]).value);
    }
    s.Add("late");
    const std::string answer = s.Tell(s.Added());
    // Those before it have run for a second each, and go first.
    EXPECT_NE(answer.find("start before"), std::string::npos) << answer;
    EXPECT_EQ(answer.find("start late"), std::string::npos) << answer;
  }
}

TEST(GangsTest, RanksThatNoNodeHoldsAreSpreadOverAsFewAsTheyTake) {
  ToldScheduler s({.policy = Policy::kFifo});
  s.profile = OfRanks(8, 1);
  s.Add("ranks");
  EXPECT_EQ(s.Begin({{3, 0, 0}, {5, 0, 0}, {4, 0, 0}, {2, 0, 0}}), "") << "a larger one may come";
  EXPECT_EQ(s.Tell(AllNodesJoined{}), "join ranks@2, start ranks@1") << "four on each";
  EXPECT_EQ(s.Ended("ranks", 1), "done ranks, complete");
}

TEST(GangsTest, FilesOfNodesAreNotSpread) {
  ToldScheduler s({.policy = Policy::kFifo, .shared_files = false, .local_files = true});
  s.profile = OfRanks(4, 1);
  s.Add("ranks");
  s.Begin({{2, 0, 0}, {2, 0, 0}});
  EXPECT_EQ(s.Tell(AllNodesJoined{}), "failed ranks (fits nowhere), complete");
}

/// What a server before has sent: its nodes are in use until it ends.
TEST(GangsTest, ARestoredGangKeepsItsNodes) {
  ToldScheduler s({.policy = Policy::kFifo});
  s.profile = OfRanks(4, 2);
  s.Add("gang");
  s.profile = {};
  for (int i = 0; i < 3; ++i) s.Add(Number("S", i));
  const TasksAdded added = s.Added();
  EXPECT_EQ(s.TellAll({added, NodeJoined{NodeId(0), {2, 0, 0}}, NodeJoined{NodeId(1), {3, 0, 0}},
                       GangRestored{{s["gang"], 1}, {NodeId(1), NodeId(0)}},
                       TaskStarted{{s["gang"], 1}, NodeId(1)}}),
            "start S0@1");
  EXPECT_EQ(s.State("gang"), TaskState::kRunning);
  EXPECT_EQ(s.Ended("S0", 1), "done S0, start S1@1");
  EXPECT_EQ(s.Ended("gang", 1), "done gang, start S2@1");
}

TEST(GangsTest, ARestoredGangThatHasLostANodeIsToEnd) {
  ToldScheduler s({.policy = Policy::kFifo});
  s.profile = OfRanks(4, 2);
  s.Add("gang");
  const TasksAdded added = s.Added();
  EXPECT_EQ(s.TellAll({added, NodeJoined{NodeId(0), {2, 0, 0}},
                       GangRestored{{s["gang"], 1}, {NodeId(0), NodeId(1)}}}),
            "cancel gang@0 (lost)");
  EXPECT_EQ(s.Ended("gang", 0, Lost{}), "");
  EXPECT_EQ(s.Tell(NodeJoined{NodeId(1), {2, 0, 0}}), "join gang@1, start gang@0");
}

TEST(GangsTest, ALostLeadFreesTheOtherNodesAtOnce) {
  ToldScheduler s({.policy = Policy::kFifo});
  s.profile = OfRanks(4, 2);
  s.Add("gang");
  s.profile = {};
  s.Add("S");
  EXPECT_EQ(s.Begin({{2, 0, 0}, {2, 0, 0}}).find("start gang@0"), std::string::npos);
  EXPECT_EQ(s.Ended("S", 0), "done S, join gang@1, start gang@0");
  EXPECT_EQ(s.Tell(NodeLost{NodeId(0)}), "");
  EXPECT_EQ(s.State("gang"), TaskState::kReady);
  EXPECT_EQ(s.Tell(NodeJoined{NodeId(2), {2, 0, 0}}), "join gang@2, start gang@1");
}

}  // namespace
}  // namespace harrow::core
