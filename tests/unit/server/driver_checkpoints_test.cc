// RunDriver: tasks that are asked for checkpoints, and sent elsewhere.
#include <filesystem>

#include "support/own_directory.h"
#include "unit/server/driver_fixture.h"

namespace harrow::server {
namespace {

graph::Profile Writes() {
  graph::Profile profile;
  profile.checkpoint.by = graph::Checkpointing::By::kApp;
  return profile;
}

pb::FromAgent Left(pb::FromAgent ended) {
  for (pb::Attempt& attempt : *ended.mutable_ended(0)->mutable_attempt()) {
    attempt.mutable_checkpoint()->set_bytes(5);
    attempt.mutable_checkpoint()->set_took_ns(1'000'000'000);
  }
  return ended;
}

TEST_F(DriverTest, ATaskKeepsTheDirectoryOfItsCheckpoints) {
  Serve({{"a", "x", {}, {}, Writes()}, {"b", "x", {}, {}, Writes()}, {"plain", "x"}});
  Agent agent;
  Join(&agent, Hello("n", 1, 3));
  const std::string of_a = agent.tasks[0].checkpoints();
  EXPECT_EQ(of_a.size(), 32u);
  EXPECT_NE(of_a, agent.tasks[1].checkpoints());
  EXPECT_EQ(agent.tasks[2].checkpoints(), "");
  Started(&agent, {0});
  driver_->Handle(Now(), agent.node, Left(Ended(&agent, {0}, pb::Attempt::CHECKPOINTED, 85)));
  Turn(&agent);
  EXPECT_EQ(agent.tasks[0].attempt(), 2u) << "it goes on";
  EXPECT_EQ(agent.tasks[0].checkpoints(), of_a);
  EXPECT_EQ(journal_.history.attempts.back().end, journal::End::kCheckpointed);
  EXPECT_TRUE(Fates().empty());
  Forget();
  Serve({{"b", "x", {}, {}, Writes()}, {"a", "x", {}, {}, Writes()}});
  Agent later;
  Join(&later, Hello("n", 2, 3));
  EXPECT_EQ(later.tasks[1].checkpoints(), of_a) << "also where a later session has other numbers";
}

TEST_F(DriverTest, ADrainedNodeIsAskedAndTheNextServerKnowsIt) {
  Serve({{"a", "x", {}, {}, Writes()}}, 2);
  Agent agent, other;
  Join(&agent, Hello("n", 1, 1));
  EXPECT_FALSE(driver_->DrainNode("n").ok()) << "it is the last";
  EXPECT_FALSE(driver_->DrainNode("unknown").ok());
  Started(&agent, {0});
  Join(&other, Hello("m", 2, 1));
  ASSERT_TRUE(driver_->DrainNode("n").ok());
  EXPECT_TRUE(driver_->DrainNode("n").ok()) << "said again";
  EXPECT_FALSE(driver_->DrainNode("m").ok());
  Turn(&agent);
  EXPECT_THAT(agent.asked, ElementsAre(0u));
  driver_->Handle(Now(), agent.node, Left(Ended(&agent, {0}, pb::Attempt::CHECKPOINTED, 85)));
  Turn(&agent);
  Turn(&other);
  EXPECT_EQ(Tasks(agent), std::set<uint32_t>());
  EXPECT_EQ(Tasks(other), (std::set<uint32_t>{0}));
  Serve();
  Agent again;
  Join(&again, Hello("n", 1, 1));
  GatherInVain(&again);
  EXPECT_EQ(Tasks(again), std::set<uint32_t>()) << "nothing is started there";
}

TEST_F(DriverTest, WhatTheBatchSystemDrainsIsAskedUnlessItIsMostOfTheNodes) {
  Serve({{"a", "x", {}, {}, Writes()}, {"b", "x", {}, {}, Writes()}}, 2);
  Agent first, second, third;
  Join(&first, Hello("n", 1, 1));
  Started(&first, {0});
  driver_->SiteDrains({"n"});
  Turn(&first);
  EXPECT_THAT(first.asked, IsEmpty()) << "nobody else is there";
  Join(&second, Hello("m", 2, 1));
  Started(&second, {1});
  Join(&third, Hello("k", 3, 1));
  driver_->SiteDrains({"m", "n"});
  Turn(&first);
  Turn(&second);
  EXPECT_THAT(first.asked, IsEmpty()) << "two of three";
  EXPECT_THAT(second.asked, IsEmpty());
  driver_->SiteDrains({"n", "of another job"});
  Turn(&first);
  EXPECT_THAT(first.asked, IsEmpty()) << "as many";
  driver_->SiteDrains({"n"});
  Turn(&first);
  EXPECT_THAT(first.asked, ElementsAre(0u));
  driver_->Handle(Now(), first.node, Left(Ended(&first, {0}, pb::Attempt::CHECKPOINTED, 85)));
  Turn(&first);
  Turn(&third);
  EXPECT_EQ(Tasks(first), std::set<uint32_t>());
  EXPECT_EQ(Tasks(third), (std::set<uint32_t>{0}));
  driver_->SiteDrains({});
  Turn(&first);
  EXPECT_EQ(Tasks(first), std::set<uint32_t>()) << "it stays drained";
}

TEST_F(DriverTest, ATaskIsMovedToANode) {
  Serve({{"a", "x", {}, {}, Writes()}, {"plain", "x"}}, 2);
  Agent agent, other;
  Join(&agent, Hello("n", 1, 2));
  Started(&agent, {0, 1});
  Join(&other, Hello("m", 2, 1));
  EXPECT_EQ(driver_->MoveToNode(Now(), TaskId(1), "m").code(), Code::kInvalid) << "it writes none";
  EXPECT_EQ(driver_->MoveToNode(Now(), TaskId(0), "n").message(), "it is on node n already");
  EXPECT_NE(driver_->MoveToNode(Now(), TaskId(0), "k").message().find("no node k"), std::string::npos);
  ASSERT_TRUE(driver_->MoveToNode(Now(), TaskId(0), "m").ok());
  Turn(&agent);
  EXPECT_THAT(agent.asked, ElementsAre(0u));
  driver_->Handle(Now(), agent.node, Left(Ended(&agent, {0}, pb::Attempt::CHECKPOINTED, 85)));
  Turn(&agent);
  Turn(&other);
  EXPECT_EQ(Tasks(other), (std::set<uint32_t>{0}));
  End(&other, {0});
  EXPECT_EQ(driver_->MayMove(TaskId(0)).message(), "task a has ended, and goes nowhere any more");
  EXPECT_EQ(driver_->MoveToPart(Now(), TaskId(0), 1).code(), Code::kInvalid);
}

/// The server is killed when the task has been asked, and the next one learns that it has left a checkpoint.
TEST_F(DriverTest, WhereSomebodyMovesATaskTheNextServerKnows) {
  for (const bool ended_meanwhile : {false, true}) {
    Forget();
    options_.restarted = false;
    Serve({{"a", "x", {}, {}, Writes()}}, 3);
    Agent first, second, third;
    Join(&first, Hello("n", 1, 1));
    Started(&first, {0});
    Join(&second, Hello("m", 2, 1));
    Join(&third, Hello("k", 3, 4));
    ASSERT_TRUE(driver_->MoveToNode(Now(), TaskId(0), "m").ok());
    options_.restarted = true;
    Serve();
    Agent again, other, target;
    Join(&other, Hello("k", 3, 4));
    Join(&target, Hello("m", 2, 1));
    Join(&again, Running("n", 1, 1, 0, 1));
    again.tasks[0].set_attempt(1);
    EXPECT_THAT(again.asked, ElementsAre(0u)) << "its agent knows whether it was";
    driver_->Handle(Now(), again.node, Left(Ended(&again, {0}, pb::Attempt::CHECKPOINTED, 85)));
    if (ended_meanwhile) {
      // It is on record that it ended, and no more: as if the server had died again.
      Serve();
      Join(&again, Hello("n", 1, 1));
      Join(&other, Hello("k", 3, 4));
      Join(&target, Hello("m", 2, 1));
    }
    for (Agent* agent : {&again, &other, &target}) Turn(agent);
    EXPECT_EQ(Tasks(again), std::set<uint32_t>());
    EXPECT_EQ(Tasks(other), std::set<uint32_t>());
    EXPECT_EQ(Tasks(target), (std::set<uint32_t>{0}));
    EXPECT_FALSE(driver_->scheduler().IsMoving(TaskId(0)));
    Serve();
    Agent settled;
    Join(&settled, Running("m", 2, 1, 0, 2));
    GatherInVain(&settled);
    EXPECT_THAT(settled.asked, IsEmpty()) << "it is there";
  }
}

/// What it made by then its agent had written down, and it goes on with it.
TEST_F(DriverTest, WhatGoesOnKeepsItsOutputsAfterARestart) {
  for (const bool checkpointed : {true, false}) {
    Forget();
    options_.restarted = false;
    Serve({{"a", "x", {}, {"f"}, Writes()}});
    Agent agent;
    Join(&agent, Hello("n", 1, 1));
    Started(&agent, {0});
    made_of_[0][0] = {.task = 0, .attempt = 1, .begin_ns = 1, .end_ns = 2};
    options_.restarted = true;
    Serve();
    Agent again;
    Join(&again, Running("n", 1, 1, 0, 1));
    again.tasks[0].set_attempt(1);
    driver_->Handle(Now(), again.node, checkpointed ? Left(Ended(&again, {0}, pb::Attempt::CHECKPOINTED, 85)) : Ended(&again, {0}, pb::Attempt::LOST));
    Turn(&again);
    ASSERT_EQ(again.tasks[0].attempt(), 2u);
    EXPECT_EQ(again.tasks[0].has_earlier(), !checkpointed);
    made_of_.clear();
  }
}

TEST_F(DriverTest, ALaterSessionMovesNothing) {
  Serve({{"a", "x", {}, {}, Writes()}}, 2);
  Agent agent, other;
  Join(&agent, Hello("n", 1, 1));
  Started(&agent, {0});
  Join(&other, Hello("m", 2, 1));
  ASSERT_TRUE(driver_->MoveToNode(Now(), TaskId(0), "m").ok());
  flow_.settings.started += std::chrono::seconds(1);
  Serve();
  Agent again;
  Join(&again, Running("n", 1, 1, 0, 1));
  GatherInVain(&again);
  EXPECT_THAT(again.asked, IsEmpty());
}

/// Task 0 has left no checkpoint.
pb::FromAgent Missed(const std::string& why) {
  pb::FromAgent message;
  wire::SetId({TaskId(0), 1}, message.add_missed()->mutable_attempt());
  message.mutable_missed(0)->set_why(why);
  return message;
}

TEST_F(DriverTest, WhatWasInVainIsToldTheUser) {
  Serve({{"a", "x", {}, {}, Writes()}}, 2);
  Agent agent, other;
  Join(&agent, Hello("n", 1, 1));
  Started(&agent, {0});
  Join(&other, Hello("m", 2, 1));
  ASSERT_TRUE(driver_->MoveToNode(Now(), TaskId(0), "m").ok());
  driver_->Handle(Now(), agent.node, Missed("it is deaf"));
  Turn(&agent);
  EXPECT_THAT(told_, ElementsAre("task a was asked for a checkpoint: it is deaf"));
  EXPECT_FALSE(driver_->scheduler().IsMoving(TaskId(0)));
  ASSERT_TRUE(driver_->MoveToNode(Now(), TaskId(0), "m").ok()) << "and may be asked again";
  driver_->Handle(Now(), agent.node, Missed("it is deaf"));
  Turn(&agent);
  EXPECT_THAT(told_, testing::SizeIs(2)) << "who asks again is told again";
}

TEST_F(DriverTest, WhatIsInVainAgainAndAgainIsToldOnce) {
  Serve({{"a", "x", {}, {}, Writes()}}, 2);
  Agent agent;
  Join(&agent, Hello("n", 1, 1));
  Started(&agent, {0});
  const auto miss = [&](const std::string& why) {
    driver_->Handle(Now(), agent.node, Missed(why));
    Turn(&agent);
  };
  for (int i = 0; i < 3; ++i) miss("it is deaf");
  EXPECT_THAT(told_, ElementsAre("task a was asked for a checkpoint: it is deaf"));
  miss("it is dumb");
  EXPECT_THAT(told_, testing::SizeIs(2));
}

TEST_F(DriverTest, CheckpointsCountAsNoTriesAfterARestart) {
  graph::Profile profile = Writes();
  profile.retries = 0;
  Serve({{"a", "x", {}, {}, profile}});
  Agent agent;
  Join(&agent, Hello("n", 1, 1));
  for (int i = 0; i < 8; ++i) {
    Started(&agent, {0});
    driver_->Handle(Now(), agent.node, Left(Ended(&agent, {0}, pb::Attempt::CHECKPOINTED, 85)));
    Turn(&agent);
  }
  Serve();
  Agent again;
  Join(&again, Running("n", 1, 1, 0, 9));
  again.tasks[0].set_attempt(9);
  End(&again, {0}, pb::Attempt::LOST);
  EXPECT_TRUE(Fates().empty()) << "neither failures nor losses";
  EXPECT_EQ(driver_->scheduler().losses(TaskId(0)), 1u);
}

TEST_F(DriverTest, WhatAgentsDidNotLiveToRemoveIsRemovedAtTheEnd) {
  namespace fs = std::filesystem;
  const test::OwnDirectory scratch;
  const std::string& top = scratch.path();
  Serve({{"a", "x", {}, {}, Writes()}, {"b", "x", {}, {}, Writes()}});
  driver_->RemoveCheckpoints(top);
  Agent agent;
  Join(&agent, Hello("n", 1, 2));
  const std::string of_a = top + "/checkpoints/" + agent.tasks[0].checkpoints(), of_b = top + "/checkpoints/" + agent.tasks[1].checkpoints();
  End(&agent, {0});
  fs::create_directories(of_a + "/files");
  fs::create_directories(of_b + "/files");
  driver_->RemoveCheckpoints(top);
  EXPECT_FALSE(fs::exists(of_a));
  EXPECT_TRUE(fs::exists(of_b + "/files")) << "it is open";
  End(&agent, {1});
  driver_->RemoveCheckpoints(top);
  EXPECT_FALSE(fs::exists(top + "/checkpoints"));
}

}  // namespace
}  // namespace harrow::server
