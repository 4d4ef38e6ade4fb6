// Tasks of several nodes beside others: how full the nodes are, how long a gang waits, what is lent
// meanwhile.

#include <algorithm>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/text.h"
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

/// One node is free for a gang, and the other one is expected to be in a minute. `learnt`: how long tasks
/// have run that say nothing.
struct Gap {
  ToldScheduler s{{.policy = Policy::kFifo}};
  explicit Gap(int learnt) {
    s.profile.time_limit = std::chrono::minutes(20);
    s.Add("long");
    s.profile = OfRanks(2, 2);
    s.Add("gang");
    s.profile = {};
    for (int i = 0; i < 3; ++i) s.Add(Number("before", i));
    EXPECT_EQ(s.Begin({{1, 0, 0}, {1, 0, 0}}), "start long@0, start before0@1");
    for (int i = 0; i < 3; ++i) {
      s.now += std::chrono::seconds(160);
      const std::string next = i < 2 ? ", start " + Number("before", i + 1) + "@1" : "";
      EXPECT_EQ(s.Ended(Number("before", i), 1, Done{}, std::chrono::seconds(learnt)),
                "done " + Number("before", i) + next);
    }
    EXPECT_NE(s.scheduler().Explain(s["gang"]).text.find("Room is kept for it"), std::string::npos);
  }
  std::string Add(int declared) {
    s.profile = {};
    s.profile.time_limit = std::chrono::seconds(declared);
    s.Add("late");
    return s.Tell(s.Added());
  }
};

TEST(GangsTest, ADeclaredLimitDecidesWhatRunsInTheGap) {
  EXPECT_EQ(Gap(75).Add(45), "start late@1");
  EXPECT_EQ(Gap(45).Add(75), "");
}

TEST(GangsTest, WhereNoneIsDeclaredWhatWasLearntDoes) {
  EXPECT_EQ(Gap(45).Add(0), "start late@1");
  EXPECT_EQ(Gap(75).Add(0), "");
}

TEST(GangsTest, NothingRunsInTheGapOfWhichNothingIsKnown) {
  Gap gap(45);
  gap.s.profile = {};
  gap.s.Add("late");
  gap.s.Add("after", {"late"});  // of late's level none has run
  EXPECT_EQ(gap.s.Tell(gap.s.Added()), "");
  gap.s.now += std::chrono::seconds(5);
  EXPECT_EQ(gap.s.Ended("long", 0), "done long, join gang@1, start gang@0");
}

/// A gang runs on both nodes; others wait, and what is added.
struct OneAfterAnother {
  explicit OneAfterAnother(Policy policy) : s{{.policy = policy}} {
    s.profile = OfRanks(2, 2);
    s.Add("G0");
    EXPECT_EQ(s.Begin({{1, 0, 0}, {1, 0, 0}}), "join G0@1, start G0@0");
    s.profile = {};
  }
  void AddGangs(int count) {
    s.profile = OfRanks(2, 2);
    for (int i = 1; i <= count; ++i) s.Add(Number("G", i));
  }
  ToldScheduler s;
};

TEST(GangsTest, WhereOneEndsTheNextComesBeforeOthers) {
  OneAfterAnother one(Policy::kFifo);
  for (int i = 0; i < 4; ++i) one.s.Add(Number("S", i));
  one.AddGangs(6);
  EXPECT_EQ(one.s.Tell(one.s.Added()), "");
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(one.s.Ended(Number("G", i), 0),
              StrCat("done G", i, ", join G", i + 1, "@1, start G", i + 1, "@0"));
  EXPECT_EQ(one.s.Ended("G4", 0), "done G4, start S0@0, start S1@1") << "they have come four times";
  // Two cores of eight are made up for.
  EXPECT_EQ(one.s.Ended("S0", 0), "done S0, start S2@0");
  EXPECT_EQ(one.s.Ended("S1", 1), "done S1, start S3@1");
  EXPECT_EQ(one.s.Ended("S2", 0), "done S2");
  EXPECT_EQ(one.s.Ended("S3", 1), "done S3, join G5@1, start G5@0");
}

TEST(GangsTest, NotBeforeTasksOfAHigherPriority) {
  OneAfterAnother one(Policy::kFifo);
  one.AddGangs(1);
  one.s.profile = {};
  one.s.profile.priority = 1;
  one.s.Add("S");
  EXPECT_EQ(one.s.Tell(one.s.Added()), "");
  EXPECT_EQ(one.s.Ended("G0", 0), "done G0, start S@0");
}

TEST(GangsTest, NotBeforeTasksOfAHigherLevel) {
  for (const Policy policy : {Policy::kFifo, Policy::kHrf}) {
    OneAfterAnother one(policy);
    one.AddGangs(1);
    one.s.profile = {};
    one.s.Add("S");
    one.s.Add("after", {"S"});
    EXPECT_EQ(one.s.Tell(one.s.Added()), "");
    EXPECT_EQ(one.s.Ended("G0", 0),
              policy == Policy::kHrf ? "done G0, start S@0" : "done G0, join G1@1, start G1@0");
  }
}

/// It waits no longer for what those that ended were given in advance.
TEST(GangsTest, ALargerOneDoesNotMakeUpForOthers) {
  OneAfterAnother one(Policy::kFifo);
  one.AddGangs(3);
  one.s.profile = OfRanks(4, 4);
  one.s.Add("large");
  one.s.profile = {};
  for (int i = 0; i < 20; ++i) one.s.Add(Number("S", i));
  EXPECT_EQ(one.s.Tell(one.s.Added()), "");
  EXPECT_EQ(one.s.TellAll({NodeJoined{NodeId(2), {1, 0, 0}}, NodeJoined{NodeId(3), {1, 0, 0}}}),
            "start S0@2, start S1@3");
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(one.s.Ended(Number("G", i), 0),
              StrCat("done G", i, ", join G", i + 1, "@1, start G", i + 1, "@0"));
  EXPECT_EQ(one.s.Ended("G3", 0), "done G3, start S2@0, start S3@1");
  const auto ended = [&](const char* task, uint32_t node) {
    return one.s.Ended(task, node, Done{}, std::chrono::seconds(100));
  };
  EXPECT_EQ(ended("S0", 2), "done S0, start S4@2");
  EXPECT_EQ(ended("S1", 3), "done S1, start S5@3") << "four cores since";
  one.s.now += std::chrono::seconds(10);  // what is kept is free too soon for another of these
  EXPECT_EQ(ended("S2", 0), "done S2");
  EXPECT_EQ(ended("S3", 1), "done S3");
  EXPECT_EQ(ended("S4", 2), "done S4");
  EXPECT_EQ(ended("S5", 3), "done S5, join large@1, join large@2, join large@3, start large@0");
}

/// Of uneven times. What the order of the last serial tasks costs is not to be had: 3.4 % where all are
/// serial.
TEST(GangsTest, LittleIsLostByGathering) {
  for (const uint32_t nodes : {2u, 4u}) {
    for (const Policy policy :
         {Policy::kFifo, Policy::kLifo, Policy::kHrf, Policy::kLifoHrf, Policy::kRankHrf}) {
      constexpr uint32_t kSeeds = 12;
      double sum = 0;
      for (uint32_t seed = 0; seed < kSeeds; ++seed) {
        Mixed mixed;
        std::mt19937 draw(seed);
        for (int i = 0; i < 500; ++i) {
          const double takes = 1 + 4 * (static_cast<double>(draw()) / 4294967296.0);
          const bool gang = seed % 3 == 0 ? i < 100 : seed % 3 == 1 ? i >= 400 : i % 5 == 0;
          mixed.Add(gang ? OfRanks(4, nodes) : graph::Profile(), takes);
        }
        const VirtualTime& time = mixed.Run({.policy = policy}, std::vector<NodeCapacity>(4, {8, 0, 0}));
        const double ratio = time.makespan() / (mixed.Work() / 32);
        EXPECT_LE(ratio, 1.07) << nodes << " nodes, policy " << static_cast<int>(policy) << ", seed " << seed;
        sum += ratio;
      }
      EXPECT_LE(sum / kSeeds, 1.045) << nodes << " nodes, policy " << static_cast<int>(policy);
    }
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

TEST(GangsTest, TheLeadHasInputAndTheOthersAscend) {
  ToldScheduler s;
  for (const char* name : {"A", "B", "C", "D"}) s.Add(name, {}, {}, {std::string("of") + name});
  s.profile.shape.nodes = 3;
  s.Add("G", {"A", "C"}, {"ofB", "ofD"});
  EXPECT_EQ(s.Begin({{1, 0, 0}, {1, 0, 0}, {1, 0, 0}, {1, 0, 0}}), "start A@0, start B@1, start C@2, start D@3");
  for (uint32_t node = 0; node < 3; ++node) s.Ended(std::string(1, static_cast<char>('A' + node)), node);
  EXPECT_EQ(s.Ended("D", 3), "done D, join G@0, join G@3, start G@1");
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
