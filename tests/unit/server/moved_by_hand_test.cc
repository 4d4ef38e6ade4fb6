// Tasks that somebody moves to another server (OtherServers::MoveTo).

#include <gtest/gtest.h>
#include <map>
#include <string>

#include "unit/server/several_servers.h"

namespace harrow::server {
namespace {

graph::Profile WritesCheckpoints() {
  graph::Profile profile;
  profile.checkpoint.by = graph::Checkpointing::By::kApp;
  return profile;
}

/// What somebody moves waits for room there, though there is some where it was; but for one that drains.
TEST(OtherServers, NoSupervisorUndoesWhatSomebodyMoves) {
  Several run({{"a", "a", {}, {}, WritesCheckpoints()}, {"b", "b"}, {"c", "c"}, {"d", "d", {}, {}, WritesCheckpoints()}}, {2, 1});
  run.ConnectAll();
  for (int i = 0; i < 4; ++i) {
    run.Settle();
    run.Report();
  }
  ASSERT_EQ(run[1].runs.size(), 1u) << "it has no room";
  ASSERT_TRUE(run[0].runs.contains(0));
  run.Begins(0, 0);
  ASSERT_TRUE(run[0].others->MoveTo(TaskId(0), 1).ok());
  run.Turn(0);
  run.Leave(0, 0);
  while (run[0].runs.contains(1) || run[0].runs.contains(2)) run.End(0, run[0].runs.contains(1) ? 1 : 2);
  for (int i = 0; i < 30; ++i) {
    run.Settle();
    run.Report();
  }
  EXPECT_FALSE(run[0].runs.contains(0)) << "it was given back";
  EXPECT_EQ(run[1].driver->scheduler().state(TaskId(0)), core::TaskState::kReady);
  run[1].driver->Drain();
  for (int i = 0; i < 30; ++i) {
    run.Settle();
    run.Report();
  }
  EXPECT_TRUE(run[0].runs.contains(0)) << "one that drains keeps nothing";
}

TEST(OtherServers, WhatIsMovedWaitsForAConnectionThatIsGone) {
  Several run({{"a", "a", {}, {}, WritesCheckpoints()}}, {1, 1});
  run.ConnectAll();
  run.Settle();
  run.Begins(0, 0);
  ASSERT_TRUE(run[0].others->MoveTo(TaskId(0), 1).ok());
  run.Turn(0);
  run.Cut(0, 1);
  run.Leave(0, 0);
  run.Turn(0);
  EXPECT_TRUE(run[0].runs.empty());
  run.ConnectAll();
  run.Turn(0);
  run.Settle();
  EXPECT_TRUE(run[0].runs.empty());
  EXPECT_TRUE(run[1].runs.contains(0));
}

/// As it was asked for a checkpoint, its server was killed; the next one is connected later than its agents are.
TEST(OtherServers, WhereSomebodyMovesATaskTheNextServerKnows) {
  for (const bool left_meanwhile : {false, true}) {
    Several run({{"a", "a", {}, {}, WritesCheckpoints()}}, {1, 1});
    run.ConnectAll();
    run.Settle();
    run.Begins(0, 0);
    ASSERT_TRUE(run[0].others->MoveTo(TaskId(0), 1).ok());
    run.Turn(0);
    if (left_meanwhile) run.End(0, 0, 85, pb::Attempt::CHECKPOINTED);
    run.Start(0);
    run[0].others->GoOn();
    if (!left_meanwhile) {
      ASSERT_TRUE(run[0].runs.contains(0));
      run.Leave(0, 0);
    }
    run.Turn(0);
    EXPECT_TRUE(run[0].runs.empty()) << "it is kept for the other";
    run.ConnectAll();
    run.Turn(0);
    run.Settle();
    EXPECT_TRUE(run[0].runs.empty());
    EXPECT_TRUE(run[1].runs.contains(0));
    run.Start(0);
    run.ConnectAll();
    run.Settle();
    EXPECT_TRUE(run[1].runs.contains(0)) << "it has gone";
  }
}

/// Its agent comes back and tells of its end when it is out elsewhere: that counts no more, and it is done once.
TEST(OtherServers, WhatWasLostAndIsMovedDoesNotComeBack) {
  Several run({{"a", "a", {}, {}, WritesCheckpoints()}}, {1, 1});
  run.ConnectAll();
  run.Settle();
  run.Begins(0, 0);
  run.LoseAgent(0);
  ASSERT_TRUE(run[0].others->MoveTo(TaskId(0), 1).ok());
  run.Turn(0);
  run.Settle();
  ASSERT_EQ(run[1].runs, (std::map<uint32_t, uint32_t>{{0, 2}}));
  pb::FromAgent late;
  late.add_ended()->set_sequence(++run[0].sequence);
  pb::Attempt* attempt = late.mutable_ended(0)->add_attempt();
  attempt->set_task(0);
  attempt->set_attempt(1);
  attempt->set_end(pb::Attempt::EXITED);
  attempt->set_start_ns(5);
  attempt->set_end_ns(6);
  run[0].runs.clear();
  run.AgentComes(0, late);
  run.Settle();
  EXPECT_TRUE(run.Successes().empty());
  run.End(1, 0);
  run.Settle();
  EXPECT_EQ(run.Successes(), (std::map<uint32_t, int>{{0, 1}}));
  EXPECT_TRUE(run.AllComplete());
}

/// Another server does not know what an attempt has made that was lost, and would not remove it.
TEST(OtherServers, WhatHasToBeRemovedFirstKeepsATaskWhereItWasMade) {
  Several run({{"a", "a", {}, {"f"}, WritesCheckpoints()}}, {1, 1});
  run.ConnectAll();
  run.Settle();
  run.Begins(0, 0);
  run[0].made[0] = {.task = 0, .attempt = 1, .begin_ns = 1, .end_ns = 2};
  ASSERT_TRUE(run[0].others->MoveTo(TaskId(0), 1).ok());
  run.Turn(0);
  run.LoseAgent(0);
  run[0].others->GoOn();
  run.Settle();
  EXPECT_TRUE(run[1].runs.empty());
  const Status refused = run[0].others->MoveTo(TaskId(0), 1);
  EXPECT_EQ(refused.code(), Code::kInvalid);
  EXPECT_NE(refused.message().find("begins again in this allocation"), std::string::npos) << refused.message();
  run[0].runs.clear();
  run.AgentComes(0);
  run.Pass(0, std::chrono::seconds(15));  // for which it was held
  EXPECT_EQ(run[0].runs, (std::map<uint32_t, uint32_t>{{0, 2}}));
}

}  // namespace
}  // namespace harrow::server
