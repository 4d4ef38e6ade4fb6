// Where tasks run: locality, steal, shapes, reservation, tasks of several nodes.

#include <gtest/gtest.h>
#include <string>

#include "core/scheduler.h"
#include "support/told_scheduler.h"
#include "support/virtual_time.h"

namespace harrow::core {
namespace {

using order::Policy;
using test::ToldScheduler;

std::string Numbered(const char* name, int i) {
  return name + std::to_string(i);
}

TEST(Placement, TaskFollowsItsInput) {
  ToldScheduler s({.policy = Policy::kFifo});
  for (int i = 0; i < 2; ++i) {
    s.Add(Numbered("A", i), {}, {}, {Numbered("f", i)});
    s.Size(Numbered("f", i), 100);
  }
  for (int i = 0; i < 2; ++i) s.Add(Numbered("B", i), {}, {Numbered("f", i)});
  EXPECT_EQ(s.Begin({{1, 0, 0}, {1, 0, 0}}), "start A0@0, start A1@1");
  EXPECT_EQ(s.TellAll({TaskEnded{{s["A1"], 1}, NodeId(1), Done{}, Duration(1)},
                       TaskEnded{{s["A0"], 1}, NodeId(0), Done{}, Duration(1)}}),
            "done A1, done A0, start B1@1, start B0@0");
  const auto& start = std::get<StartTask>(s.last()[2]);
  EXPECT_EQ(start.local_bytes, 100);
  EXPECT_EQ(start.remote_bytes, 0);
  EXPECT_EQ(s.scheduler().counts().local_bytes, 200u);
}

TEST(Placement, IdleNodeStealsOrWaits) {
  for (const bool steal : {true, false}) {
    ToldScheduler s({.policy = Policy::kFifo, .steal = steal});
    s.Add("A", {}, {}, {"f"});
    s.Size("f", 100);
    s.Add("B0", {}, {"f"});
    s.Add("B1", {}, {"f"});
    EXPECT_EQ(s.Begin({{1, 0, 0}, {1, 0, 0}}), "start A@0");
    EXPECT_EQ(s.Ended("A", 0), steal ? "done A, start B0@0, start B1@1" : "done A, start B0@0");
    EXPECT_EQ(s.scheduler().counts().stolen, steal ? 1u : 0u);
    if (steal) {
      EXPECT_EQ(s.scheduler().counts().remote_bytes, 100u);
      EXPECT_EQ(s.scheduler().Explain(s["B1"]).taken_from, TakenFrom::kSteal);
    } else {
      EXPECT_EQ(s.scheduler().Explain(s["B1"]).candidates, std::vector<NodeId>{NodeId(0)});
      EXPECT_EQ(s.Ended("B0", 0), "done B0, start B1@0");
    }
  }
}

TEST(Placement, AReadMakesAReplica) {
  ToldScheduler s({.policy = Policy::kFifo});
  s.Add("A", {}, {}, {"f"});
  s.Size("f", 100);
  s.Add("hold", {}, {"f"});
  s.Add("B", {}, {"f"});
  s.Add("C", {"B"}, {"f"});
  EXPECT_EQ(s.Begin({{1, 0, 0}, {1, 0, 0}}), "start A@0");
  EXPECT_EQ(s.Ended("A", 0), "done A, start hold@0, start B@1") << "B is stolen, and reads f on node 1";
  EXPECT_EQ(s.Ended("B", 1), "done B, start C@1") << "where f has been read last";
  EXPECT_EQ(std::get<StartTask>(s.last()[1]).local_bytes, 100);
  EXPECT_EQ(s.scheduler().Explain(s["C"]).taken_from, TakenFrom::kNodeQueue);
  EXPECT_EQ(s.scheduler().counts().stolen, 1u);
}

/// Two queues are drawn and the longer one is stolen from: in three of four cases it is the longest of two.
TEST(Placement, TheLongerOfTwoQueuesIsStolenFrom) {
  int from_longer = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    ToldScheduler s({.policy = Policy::kFifo, .seed = seed});
    s.Add("A", {}, {}, {"short"});
    s.Add("B", {}, {}, {"long"});
    s.Size("short", 100);
    s.Size("long", 100);
    s.Add("S0", {}, {"short"});
    s.Add("S1", {}, {"short"});
    for (int i = 0; i < 6; ++i) s.Add(Numbered("L", i), {}, {"long"});
    EXPECT_EQ(s.Begin({{1, 0, 0}, {1, 0, 0}}), "start A@0, start B@1");
    EXPECT_EQ(s.TellAll({TaskEnded{{s["A"], 1}, NodeId(0), Done{}, Duration(1)},
                         TaskEnded{{s["B"], 1}, NodeId(1), Done{}, Duration(1)}}),
              "done A, done B, start S0@0, start L0@1");
    const std::string stolen = s.Tell(NodeJoined{NodeId(2), {1, 0, 0}});
    EXPECT_TRUE(stolen == "start L1@2" || stolen == "start S1@2") << stolen;
    from_longer += stolen == "start L1@2";
  }
  EXPECT_GE(from_longer, 24) << "of 40; 30 are expected, and 10 where the shorter one is preferred";
}

/// A queue keeps 64 lanes as bits; a flow may well have more shapes.
TEST(Placement, ShapesBeyondTheSixtyFourthAreAsGoodAsTheOthers) {
  ToldScheduler s({.policy = Policy::kFifo});
  for (uint32_t i = 0; i < 70; ++i) {
    s.profile.shape.memory = 1000 + i;
    s.Add(Numbered("M", static_cast<int>(i)));
  }
  EXPECT_EQ(s.Begin({{4, 0, 2200}}), "start M0@0, start M1@0") << "two at a time are what memory allows";
  for (int i = 0; i < 70; ++i) {
    const std::string name = Numbered("M", i);
    ASSERT_EQ(s.State(name), TaskState::kSent) << name;
    const std::string answer = s.Ended(name, 0);
    const std::string next = i + 2 < 70 ? ", start " + Numbered("M", i + 2) + "@0"
                             : i == 69  ? ", complete"
                                        : "";
    ASSERT_EQ(answer, "done " + name + next);
  }
}

TEST(Placement, OwnQueueBeforeTheRemoteOne) {
  ToldScheduler s({.policy = Policy::kFifo});
  s.Add("A", {}, {}, {"f"});
  s.Size("f", 100);
  s.Add("far");
  s.Add("near", {}, {"f"});
  EXPECT_EQ(s.Begin({{1, 0, 0}}), "start A@0");
  EXPECT_EQ(s.Ended("A", 0), "done A, start near@0");
  EXPECT_EQ(s.Ended("near", 0), "done near, start far@0");
}

TEST(Placement, WithoutLocalityThereIsOneQueue) {
  ToldScheduler s({.policy = Policy::kFifo, .locality = false});
  s.Add("A", {}, {}, {"f"});
  s.Size("f", 100);
  s.Add("far");
  s.Add("near", {}, {"f"});
  EXPECT_EQ(s.Begin({{1, 0, 0}}), "start A@0");
  EXPECT_EQ(s.Ended("A", 0), "done A, start far@0");
  EXPECT_EQ(s.Ended("far", 0), "done far, start near@0");
  EXPECT_EQ(s.scheduler().counts().local_bytes, 100u) << "counted nevertheless";
}

TEST(Placement, LostNodesFilesAreNoReasonToGoThere) {
  ToldScheduler s({.policy = Policy::kFifo, .steal = false});
  s.Add("A", {}, {}, {"f"});
  s.Size("f", 100);
  s.Add("B", {}, {"f"});
  EXPECT_EQ(s.Begin({{1, 0, 0}}), "start A@0");
  s.Tell(NodeClosed{NodeId(0)});
  EXPECT_EQ(s.Ended("A", 0), "done A");
  EXPECT_TRUE(s.scheduler().Explain(s["B"]).candidates.empty());
  EXPECT_EQ(s.Tell(NodeJoined{NodeId(1), {1, 0, 0}}), "start B@1");
}

TEST(Placement, QueuedTasksLeaveALostNode) {
  ToldScheduler s({.policy = Policy::kFifo, .steal = false});
  s.Add("A", {}, {}, {"f"});
  s.Size("f", 100);
  s.Add("B", {}, {"f"});
  s.Add("C", {}, {"f"});
  s.Begin({{1, 0, 0}, {1, 0, 0}});
  EXPECT_EQ(s.Ended("A", 0), "done A, start B@0");
  EXPECT_EQ(s.Tell(NodeLost{NodeId(0)}), "start C@1");
  EXPECT_EQ(s.Ended("C", 1), "done C, start B@1");
}

TEST(Placement, ReplicasAreToldInLocalMode) {
  ToldScheduler s({.policy = Policy::kFifo, .steal = false, .shared_files = false});
  s.Add("A", {}, {}, {"f"});
  s.Add("B", {}, {"f"});
  s.Begin({{1, 0, 0}, {1, 0, 0}});
  EXPECT_EQ(s.TellAll({TaskEnded{{s["A"], 1}, NodeId(0), Done{}, Duration(1)},
                       FileStored{s.File("f"), NodeId(1), 10}}),
            "done A, start B@1");
}

TEST(Placement, SmallTasksPassALargeOneButNotForEver) {
  ToldScheduler s({.policy = Policy::kFifo});
  s.Add("first");
  s.profile.shape.cores = 2;
  s.Add("large");
  s.profile.shape = {};
  for (int i = 0; i < 6; ++i) s.Add(Numbered("S", i));
  EXPECT_EQ(s.Begin({{2, 0, 0}}), "start first@0, start S0@0") << "it does not fit, others do";
  EXPECT_EQ(s.Ended("first", 0), "done first, start S1@0");
  EXPECT_EQ(s.Ended("S0", 0), "done S0")
      << "passed over by as many as the node has slots: now the slot is kept";
  EXPECT_EQ(s.Ended("S1", 0), "done S1, start large@0");
  EXPECT_EQ(s.Ended("large", 0), "done large, start S2@0, start S3@0");
}

TEST(Placement, RoomIsGivenBackWhenNobodyWaitsForItAnyMore) {
  ToldScheduler s({.policy = Policy::kFifo});
  s.Add("first");
  s.profile.shape.cores = 2;
  s.Add("large");
  s.profile.shape = {};
  for (int i = 0; i < 6; ++i) s.Add(Numbered("S", i));
  s.Begin({{2, 0, 0}});
  s.Ended("first", 0);
  EXPECT_EQ(s.Ended("S0", 0), "done S0");
  EXPECT_EQ(s.Tell(CancelRequested{s["large"]}), "cancelled large, start S2@0");
}

TEST(Placement, OneNodeKeepsRoomForOneTask) {
  ToldScheduler s({.policy = Policy::kFifo});
  for (int i = 0; i < 4; ++i) s.Add(Numbered("F", i));
  s.profile.shape.cores = 2;
  s.Add("large");
  s.profile.shape = {};
  for (int i = 0; i < 30; ++i) s.Add(Numbered("S", i));
  s.Begin({{2, 0, 0}, {2, 0, 0}});
  int idle_slots = 0;
  for (int round = 0; round < 12 && s.State("large") == TaskState::kReady; ++round) {
    // One task of each node in turn.
    for (uint32_t node = 0; node < 2; ++node) {
      for (int i = 0; i < 34; ++i) {
        const std::string name = i < 4 ? Numbered("F", i) : Numbered("S", i - 4);
        if (s.State(name) != TaskState::kSent || s.scheduler().node(s[name]) != NodeId(node)) continue;
        s.Ended(name, node);
        break;
      }
    }
    idle_slots += s.scheduler().counts().sent < 3;
  }
  EXPECT_EQ(s.State("large"), TaskState::kSent);
  EXPECT_EQ(idle_slots, 0) << "never more than the one slot kept for it";
}

TEST(Placement, DevicesAndMemory) {
  ToldScheduler s({.policy = Policy::kFifo});
  s.profile.shape.devices = 1;
  s.Add("G0");
  s.Add("G1");
  s.profile.shape = {};
  s.profile.shape.memory = 600;
  s.Add("M0");
  s.Add("M1");
  s.profile.shape = {};
  s.Add("P");
  EXPECT_EQ(s.Begin({{4, 1, 1000}}), "start G0@0, start M0@0, start P@0");
  EXPECT_EQ(s.Ended("P", 0), "done P");
  EXPECT_EQ(s.Ended("M0", 0), "done M0, start M1@0");
  EXPECT_EQ(s.Ended("G0", 0), "done G0, start G1@0");
}

TEST(Placement, WholeNodeIsAlone) {
  ToldScheduler s({.policy = Policy::kFifo});
  s.profile.shape.whole_node = true;
  s.Add("W");
  s.profile.shape = {};
  s.Add("S");
  EXPECT_EQ(s.Begin({{4, 0, 0}}), "start W@0");
  EXPECT_EQ(s.Ended("W", 0), "done W, start S@0");
}

TEST(Placement, LargerPriorityFirst) {
  ToldScheduler s({.policy = Policy::kFifo});
  s.Add("now");
  s.Add("low");
  s.profile.priority = 5;
  s.Add("high");
  s.Begin({{1, 0, 0}});
  EXPECT_EQ(s.State("high"), TaskState::kSent);
  EXPECT_EQ(s.Ended("high", 0), "done high, start now@0");
}

TEST(Placement, TheLargerPriorityIsStolenWhateverItAsksFor) {
  for (const int32_t priority : {-1, 1}) {
    ToldScheduler s({.policy = Policy::kFifo});
    for (const char* file : {"f", "g"}) s.Size(file, 100);
    s.Add("A", {}, {}, {"f"});
    s.Add("B", {}, {}, {"g"});
    s.Add("small", {}, {"f"});
    s.profile.priority = 9;
    for (const char* file : {"f", "g"}) s.Add(std::string("hold-") + file, {}, {file});
    s.profile.shape.memory = 10;
    s.profile.priority = priority;
    s.Add("large", {}, {"g"});
    EXPECT_EQ(s.Begin({{1, 0, 100}, {1, 0, 100}}), "start A@0, start B@1");
    EXPECT_EQ(s.TellAll({TaskEnded{{s["A"], 1}, NodeId(0), Done{}, Duration(1)},
                         TaskEnded{{s["B"], 1}, NodeId(1), Done{}, Duration(1)}}),
              "done A, done B, start hold-f@0, start hold-g@1");
    EXPECT_EQ(s.Tell(NodeJoined{NodeId(2), {1, 0, 100}}), priority > 0 ? "start large@2" : "start small@2");
  }
}

TEST(Placement, GangStartsOnIdleNodesAndHoldsThem) {
  ToldScheduler s({.policy = Policy::kFifo});
  s.profile.shape.nodes = 2;
  s.Add("gang");
  s.profile.shape = {};
  s.Add("S");
  EXPECT_EQ(s.Begin({{1, 0, 0}, {2, 0, 0}, {2, 0, 0}}), "start S@0, join gang@2, start gang@1");
  EXPECT_EQ(s.Ended("gang", 1), "done gang");
  EXPECT_EQ(s.Ended("S", 0), "done S, complete");
}

TEST(Placement, GangDoesNotWaitForEver) {
  ToldScheduler s({.policy = Policy::kFifo});
  for (int i = 0; i < 12; ++i) s.Add(Numbered("S", i));
  s.profile.shape.nodes = 2;
  s.Add("gang");
  s.Begin({{1, 0, 0}, {1, 0, 0}});
  int small_before = 0;
  while (s.State("gang") == TaskState::kReady && small_before < 12) {
    for (int i = 0; i < 12; ++i) {
      if (s.State(Numbered("S", i)) != TaskState::kSent) continue;
      s.now += std::chrono::seconds(1);
      s.Ended(Numbered("S", i), s.scheduler().node(s[Numbered("S", i)]).value);
      ++small_before;
      break;
    }
  }
  EXPECT_EQ(s.State("gang"), TaskState::kSent);
  EXPECT_LE(small_before, 6);
}

TEST(Placement, GangThatLosesANodeIsTriedAgain) {
  ToldScheduler s({.policy = Policy::kFifo});
  s.profile.shape.nodes = 2;
  s.Add("gang");
  EXPECT_EQ(s.Begin({{1, 0, 0}, {1, 0, 0}}), "join gang@1, start gang@0");
  EXPECT_EQ(s.Tell(NodeLost{NodeId(1)}), "cancel gang@0 (lost)");
  EXPECT_EQ(s.Tell(NodeJoined{NodeId(1), {1, 0, 0}}), "") << "what its lead node runs goes on still";
  EXPECT_EQ(s.Ended("gang", 0, Lost{}), "join gang@1, start gang@0");
  EXPECT_EQ(s.scheduler().losses(s["gang"]), 1u);
}

/// However the rest of it ends, its task was neither cancelled by anybody nor has it failed.
TEST(Placement, GangThatLosesANodeIsNotSettledByItsEnd) {
  for (const Outcome& end :
       {Outcome(Cancelled{}), Outcome(Failed{1, false}), Outcome(Lost{}), Outcome(Done{})}) {
    ToldScheduler s({.policy = Policy::kFifo, .retries = 0});
    s.profile.shape.nodes = 3;
    s.Add("gang");
    s.Begin({{1, 0, 0}, {1, 0, 0}, {1, 0, 0}});
    s.Started("gang", 0);
    EXPECT_EQ(s.Tell(NodeLost{NodeId(1)}), "cancel gang@0 (lost)");
    s.Tell(NodeSilent{NodeId(0)});
    EXPECT_EQ(s.Tell(NodeJoined{NodeId(0), {1, 0, 0}}), "cancel gang@0 (lost)") << "it may not have arrived";
    const bool done = std::holds_alternative<Done>(end);
    EXPECT_EQ(s.Ended("gang", 0, end), done ? "done gang, complete" : "");
    EXPECT_EQ(s.scheduler().losses(s["gang"]), done ? 0u : 1u);
    EXPECT_EQ(s.Tell(NodeJoined{NodeId(1), {1, 0, 0}}), done ? "" : "join gang@1, join gang@2, start gang@0");
  }
}

TEST(Placement, GangThatLosesANodeCanBeCancelledOrLoseAllNodes) {
  for (const bool cancelled : {false, true}) {
    ToldScheduler s({.policy = Policy::kFifo});
    s.profile.shape.nodes = 3;
    s.Add("gang");
    s.Begin({{1, 0, 0}, {1, 0, 0}, {1, 0, 0}});
    s.Tell(NodeLost{NodeId(2)});
    EXPECT_EQ(s.Tell(NodeLost{NodeId(1)}), "cancel gang@0 (lost)");
    if (cancelled) {
      EXPECT_EQ(s.Tell(CancelRequested{s["gang"]}), "cancel gang@0");
      EXPECT_EQ(s.Ended("gang", 0, Lost{}), "cancelled gang, complete");
    } else {
      EXPECT_EQ(s.Tell(NodeLost{NodeId(0)}), "");
      EXPECT_EQ(s.scheduler().losses(s["gang"]), 1u);
      EXPECT_EQ(s.State("gang"), TaskState::kReady);
    }
  }
}

TEST(Placement, GangThatAsksForMoreNodesThanAreHereIsNotInTheWay) {
  ToldScheduler s({.policy = Policy::kFifo});
  s.profile.shape.nodes = 3;
  s.Add("three");
  s.profile.shape.nodes = 2;
  s.Add("two");
  EXPECT_EQ(s.Begin({{1, 0, 0}, {1, 0, 0}}), "join two@1, start two@0");
  EXPECT_EQ(s.Ended("two", 0), "done two");
  EXPECT_EQ(s.Tell(NodeJoined{NodeId(2), {1, 0, 0}}), "join three@1, join three@2, start three@0");
}

TEST(Placement, GangThatDoesNotFitIsPassedOverByThoseThatDo) {
  ToldScheduler s({.policy = Policy::kFifo});
  s.Add("S");
  s.profile.shape.nodes = 3;
  s.Add("three");
  s.profile.shape.nodes = 2;
  s.Add("two");
  EXPECT_EQ(s.Begin({{1, 0, 0}, {1, 0, 0}, {1, 0, 0}}), "start S@0, join two@2, start two@1");
  EXPECT_EQ(s.Ended("S", 0), "done S");
  EXPECT_EQ(s.Ended("two", 1), "done two, join three@1, join three@2, start three@0");
}

TEST(Placement, GangThatIsCancelledLetsTheNextGather) {
  ToldScheduler s({.policy = Policy::kFifo});
  for (const char* name : {"S0", "S1"}) s.Add(name);
  s.profile.shape.nodes = 3;
  for (const char* name : {"first", "second"}) s.Add(name);
  EXPECT_EQ(s.Begin({{1, 0, 0}, {1, 0, 0}, {1, 0, 0}}), "start S0@0, start S1@1");
  EXPECT_EQ(s.Tell(CancelRequested{s["first"]}), "cancelled first");
  EXPECT_EQ(s.Ended("S0", 0), "done S0");
  EXPECT_EQ(s.Ended("S1", 1), "done S1, join second@1, join second@2, start second@0");
}

TEST(Placement, GangIsGivenUpWhenANodeItNeedsIsClosed) {
  ToldScheduler s({.policy = Policy::kFifo});
  for (const char* name : {"S0", "S1"}) s.Add(name);
  s.profile.shape.nodes = 3;
  s.Add("three");
  s.profile.shape.nodes = 2;
  s.Add("two");
  EXPECT_EQ(s.Begin({{1, 0, 0}, {1, 0, 0}, {1, 0, 0}}), "start S0@0, start S1@1");
  EXPECT_EQ(s.Tell(NodeClosed{NodeId(2)}), "");
  EXPECT_EQ(s.Ended("S0", 0), "done S0") << "S1 is in the way";
  EXPECT_EQ(s.Ended("S1", 1), "done S1, join two@1, start two@0");
  EXPECT_EQ(s.Ended("two", 0), "done two");
  EXPECT_EQ(s.Tell(AllNodesJoined{}), "failed three (fits nowhere), complete");
}

TEST(Placement, GangKeepsItsNodesUntilAllAreIdle) {
  ToldScheduler s({.policy = Policy::kFifo});
  for (int i = 0; i < 9; ++i) s.Add(Numbered("S", i));
  s.profile.shape.nodes = 2;
  s.profile.priority = 9;
  s.Add("gang");
  s.Begin({{2, 0, 0}, {1, 0, 0}});
  uint32_t at_once = 0;
  while (s.State("gang") == TaskState::kReady) {
    for (int i = 0; i < 9; ++i) {
      if (s.State(Numbered("S", i)) != TaskState::kSent) continue;
      s.now += std::chrono::seconds(1);
      const std::string answer = s.Ended(Numbered("S", i), s.scheduler().node(s[Numbered("S", i)]).value);
      at_once += answer.find("start S") != std::string::npos;
      EXPECT_EQ(answer.find("start gang") != std::string::npos,
                s.scheduler().counts().sent == 1 && s.State("gang") == TaskState::kSent);
      break;
    }
  }
  EXPECT_LE(at_once, 3u) << "as many cores as its nodes have, then they are kept for it";
}

// Table 3 (b): with lifo and no locality nearly every B reads what an A of its own node wrote, as an end is
// followed by the same worker asking again. Also when results come in one batch, and with tasks so short that
// others would be sent ahead.
TEST(Placement, LifoKeepsChainsWhereTheyAre) {
  for (const bool instants : {false, true}) {
    for (const double latency : {0.0, 0.001}) {
      for (const Policy policy : {Policy::kLifo, Policy::kLifoHrf}) {
        SCOPED_TRACE(instants ? "batches" : "one by one");
        graph::Graph graph;
        std::vector<TaskId> first;
        for (int i = 0; i < 200; ++i) first.push_back(graph.AddTask({}));
        for (int i = 0; i < 200; ++i) {
          const TaskId after[1] = {first[i]};
          graph.AddTask({.after = after});
        }
        ASSERT_TRUE(graph.Seal().ok());
        test::VirtualTime::Options cluster;
        cluster.nodes.assign(10, {1, 0, 0});
        cluster.latency = latency;
        cluster.instants = instants;
        cluster.run_time = [](TaskId task) { return 0.002 + (task.value % 7) * 0.0001; };
        test::VirtualTime run(graph, {.policy = policy, .locality = false}, cluster);
        run.Run();
        std::vector<NodeId> where(400);
        for (const auto& start : run.starts()) where[start.task.value] = start.node;
        int together = 0;
        for (int i = 0; i < 200; ++i) together += where[i] == where[200 + i];
        EXPECT_EQ(run.scheduler().counts().done, 400u);
        EXPECT_GE(together, policy == Policy::kLifo ? 199 : 180) << "but where lifo+hrf ends in hrf; "
                                                                 << "latency " << latency;
      }
    }
  }
}

TEST(Placement, ATaskGoesWhereTheLastOfThoseEndedThatItWaitedFor) {
  for (const uint32_t last : {0u, 1u}) {
    ToldScheduler s({.policy = Policy::kFifo, .locality = false});
    s.Add("A0");
    s.Add("A1");
    s.Add("B", {"A0", "A1"});
    s.Begin({{1, 0, 0}, {1, 0, 0}});
    const auto end = [&](uint32_t node) {
      return TaskEnded{{s["A" + std::to_string(node)], 1}, NodeId(node), Done{}, Duration(1)};
    };
    const std::string answer = s.TellAll({end(1 - last), end(last)});
    EXPECT_EQ(answer.substr(answer.rfind("start")), "start B@" + std::to_string(last)) << answer;
  }
}

TEST(Growing, LevelsThatRoseTwiceAtOnceAreTakenOver) {
  ToldScheduler s({.policy = order::Policy::kHrf});
  s.Add("A");
  s.Add("X");
  s.Add("Y", {"X"});
  s.Add("C");
  EXPECT_EQ(s.Begin({{1, 0, 0}}), "start X@0");
  s.Add("D", {"A"});
  s.Add("F", {"C"});
  const TasksAdded first = s.Added();
  s.Add("E", {"D"});
  const TasksAdded second = s.Added();
  EXPECT_EQ(s.TellAll({first, second}), "");
  EXPECT_EQ(s.Ended("X", 0), "done X, start A@0") << "two more levels stand above the very first task";
  EXPECT_EQ(s.Ended("A", 0).substr(0, 14), "done A, start ");
}

/// What it reads has a producer only since: tried again it waits for that one, as any other would.
TEST(Growing, ATaskThatGetsAPredecessorWhileItRuns) {
  for (const bool fails : {false, true}) {
    ToldScheduler s;
    s.Add("A", {}, {"file"});
    EXPECT_EQ(s.Begin({{2, 0, 0}}), "start A@0");
    s.Add("B", {}, {}, {"file"});
    EXPECT_EQ(s.Tell(s.Added()), "start B@0");
    if (fails) {
      EXPECT_EQ(s.Ended("B", 0, Failed{1, false}), "failed B");
      EXPECT_EQ(s.State("A"), TaskState::kSent) << "it goes on";
      EXPECT_EQ(s.Ended("A", 0, Lost{}), "skipped A because B, complete");
    } else {
      EXPECT_EQ(s.Ended("A", 0, Lost{}), "");
      EXPECT_EQ(s.State("A"), TaskState::kWaiting);
      EXPECT_EQ(s.Ended("B", 0), "done B, start A@0");
    }
  }
}

}  // namespace
}  // namespace harrow::core
