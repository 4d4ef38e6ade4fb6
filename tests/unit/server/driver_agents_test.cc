// RunDriver: agents that fall silent, come back, leave and are replaced.
#include "unit/server/driver_fixture.h"

namespace harrow::server {
namespace {

TEST_F(DriverTest, SilentAgentsAreLostAndTheirLateResultsIgnored) {
  Serve({{"a", "x"}}, 2);
  Agent first, second;
  Join(&first, Hello("n1", 1, 1));
  Started(&first, {0});
  Join(&second, Hello("n2", 5, 1));
  Silence(&first, options_.dead_after + Duration(1), true, {&second});
  EXPECT_THAT(dropped_, ElementsAre(first.channel.get()));
  EXPECT_TRUE(driver_->IsAbsent("n1"));
  Turn(&second);
  EXPECT_THAT(Tasks(second), IsEmpty()) << "it may run on there";
  Watch(flow_.settings.fence, {&second});
  EXPECT_EQ(Tasks(second), (std::set<uint32_t>{0}));
  // The first was only cut off: it comes back with its task still running, and must end it.
  pb::FromAgent hello = Hello("n1", 1, 1);
  pb::Attempt* running = hello.mutable_hello()->add_running();
  running->set_task(0);
  running->set_attempt(1);
  Join(&first, hello);
  EXPECT_THAT(first.superseded, ElementsAre(0u));
  End(&first, {0});
  EXPECT_FALSE(driver_->complete());
  End(&second, {0});
  EXPECT_TRUE(driver_->complete());
  EXPECT_THAT(Attempts(), ElementsAre(std::pair(0u, 1u), std::pair(0u, 2u)));
}

TEST_F(DriverTest, AnAgentIsNotLostWhileItsNodeAnswers) {
  Serve({{"a", "x"}});
  Agent agent;
  Join(&agent, Hello("n", 1, 1));
  Silence(&agent, options_.dead_after * 3, false);
  EXPECT_THAT(dropped_, ElementsAre()) << "its machine is loaded";
  Watch(flow_.settings.fence);
  EXPECT_FALSE(driver_->IsAbsent("n")) << "it hangs, and there is no other node";
  Watch(flow_.settings.lease);
  EXPECT_THAT(dropped_, ElementsAre(agent.channel.get())) << "by now it has ended";
  EXPECT_TRUE(driver_->IsAbsent("n"));
}

/// The limits are promises (sched/README.md): nothing more is given after 3.5 seconds to a node that does not
/// even acknowledge, after 3 to an agent that has hung up, after 20 to one that hangs while its node answers.
TEST_F(DriverTest, ADeadNodeAGoneAgentAndAHungOneHaveTheirOwnLimits) {
  using std::chrono::milliseconds;
  enum class How { kDead, kGone, kHung };
  struct Row {
    How how;
    Duration silent;
    bool silent_then;
  };
  for (const Row& row :
       {Row{How::kDead, milliseconds(3500), false}, Row{How::kDead, milliseconds(3501), true},
        Row{How::kGone, milliseconds(3000), false}, Row{How::kGone, milliseconds(3001), true},
        Row{How::kHung, milliseconds(20'000), false}, Row{How::kHung, milliseconds(20'001), true}}) {
    Forget();
    Serve({{"a", "x"}});
    Agent agent;
    Join(&agent, Hello("n", 1, 1));
    if (row.how == How::kGone) driver_->Disconnected(Now(), agent.node, agent.channel.get());
    Silence(&agent, row.silent, row.how == How::kDead);
    pb::Progress figures;
    driver_->Snapshot(Now(), true, &figures);
    EXPECT_EQ(figures.node(0).state(), row.silent_then ? "silent" : "joined")
        << "silent for " << Seconds(row.silent) << " s";
    EXPECT_EQ(driver_->IsAbsent("n"), row.silent_then && row.how != How::kHung);
  }
}

/// A server that knows of no node numbers them as they come; their agents go by the numbers that they were told first.
TEST_F(DriverTest, AnAgentIsToldItsNumberWhenThatIsOnDisk) {
  ServeLocal({{"a", "x"}, {"b", "x"}}, 2);
  Agent first{}, second{};
  for (Agent* agent : {&first, &second}) {
    agent->channel = std::make_shared<FakeChannel>(&loop_, wire::Role::kAgent, "fake");
    const Result<NodeId> joined = driver_->Join(Now(), agent->channel, agent == &first ? Hello("n1", 1, 1) : Hello("n2", 2, 1));
    ASSERT_TRUE(joined.ok());
    agent->node = *joined;
    Turn(agent);
    EXPECT_FALSE(agent->welcomed);
    EXPECT_THAT(Tasks(*agent), IsEmpty());
  }
  ASSERT_EQ(journal_.sequence, 2u);
  woken_ = 0;
  driver_->Committed(1);
  EXPECT_EQ(woken_, 1u) << "it has something to send";
  Turn(&first);
  Turn(&second);
  EXPECT_TRUE(first.welcomed);
  EXPECT_EQ(Tasks(first).size(), 1u);
  EXPECT_FALSE(second.welcomed);
  driver_->Committed(2);
  Turn(&second);
  EXPECT_TRUE(second.welcomed);
  EXPECT_EQ(Tasks(second).size(), 1u);
  // It is known from now on.
  driver_->Disconnected(Now(), second.node, second.channel.get());
  second = {};
  second.channel = std::make_shared<FakeChannel>(&loop_, wire::Role::kAgent, "fake");
  second.node = *driver_->Join(Now(), second.channel, Hello("n2", 3, 1));
  Turn(&second);
  EXPECT_TRUE(second.welcomed);
}

TEST_F(DriverTest, WhereNodesDoNotTalkNobodyWaitsForADisk) {
  graph::Profile wide;
  wide.shape.nodes = 2;
  for (const bool talk : {false, true}) {
    Forget();
    Serve({{"a", "x"}, {"b", "x", {}, {}, talk ? wide : graph::Profile()}});
    Agent agent;
    agent.channel = std::make_shared<FakeChannel>(&loop_, wire::Role::kAgent, "fake");
    agent.node = *driver_->Join(Now(), agent.channel, Hello("n", 1, 1));
    Turn(&agent);
    EXPECT_EQ(agent.welcomed, !talk);
  }
}

TEST_F(DriverTest, OneWhoseNumberIsOnNoDiskIsToldThatTheRunIsOver) {
  ServeLocal({{"a", "x"}});
  Agent agent;
  agent.channel = std::make_shared<FakeChannel>(&loop_, wire::Role::kAgent, "fake");
  agent.node = *driver_->Join(Now(), agent.channel, Hello("n", 1, 1));
  driver_->ShutDownAgents("the run is over");
  Turn(&agent);
  EXPECT_TRUE(agent.shut_down);
}

TEST_F(DriverTest, AServerThatWasLateReadsBeforeItJudges) {
  Serve({{"a", "x"}});
  Agent agent;
  Join(&agent, Hello("n", 1, 1));
  driver_->Disconnected(Now(), agent.node, agent.channel.get());
  time_ += options_.dead_after * 10;
  driver_->FindSilent(Now());
  Join(&agent, Hello("n", 1, 1));
  driver_->FindSilent(Now());
  EXPECT_EQ(driver_->IsAbsent("n"), false);
  driver_->Disconnected(Now(), agent.node, agent.channel.get());
  Silence(&agent, options_.dead_after + Duration(1));
  EXPECT_EQ(driver_->IsAbsent("n"), true);
}

TEST_F(DriverTest, ALateEndDoesNotCountForALaterAttemptOnTheSameNode) {
  Serve({{"a", "x"}});
  Agent agent;
  Join(&agent, Hello("n", 1, 1));
  Started(&agent, {0});
  Agent late = agent;
  Silence(&agent, options_.dead_after + Duration(1));
  agent.tasks.clear();
  Join(&agent, Hello("n", 1, 1));
  ASSERT_EQ(Tasks(agent), (std::set<uint32_t>{0}));
  EXPECT_EQ(agent.tasks[0].attempt(), 2u);
  driver_->Handle(Now(), agent.node, Ended(&late, {0}, pb::Attempt::EXITED, 1));
  Turn(&agent);
  EXPECT_FALSE(driver_->complete()) << "attempt 2 runs";
  End(&agent, {0});
  EXPECT_TRUE(driver_->complete());
  EXPECT_THAT(Attempts(), ElementsAre(std::pair(0u, 1u), std::pair(0u, 2u)));
  EXPECT_THAT(Fates(), ElementsAre(std::pair(0u, journal::TaskFate::kDone)));
}

TEST_F(DriverTest, WhatNeverArrivedIsSentAgainAfterAReconnect) {
  Serve({{"a", "x"}, {"b", "x"}});
  Agent agent;
  Join(&agent, Hello("n", 1, 2));
  driver_->Disconnected(Now(), agent.node, agent.channel.get());
  agent.tasks.clear();
  pb::FromAgent hello = Hello("n", 1, 2);
  hello.mutable_hello()->add_running()->set_task(1);
  hello.mutable_hello()->mutable_running(0)->set_attempt(1);
  Join(&agent, hello);
  EXPECT_EQ(Tasks(agent), (std::set<uint32_t>{0})) << "task 1 runs there, task 0 was lost on its way";
  EXPECT_THAT(agent.superseded, IsEmpty());
}

TEST_F(DriverTest, AnInterruptedRunLeavesItsTasksOpen) {
  Serve({{"a", "x"}, {"b", "x"}, {"c", "x"}});
  Agent agent;
  Join(&agent, Hello("n", 1, 1));
  ASSERT_EQ(agent.tasks.count(0), 1u);
  Started(&agent, {0});
  driver_->Interrupt(Now());
  Turn(&agent);
  EXPECT_THAT(agent.cancelled, ::testing::Contains(0u));
  for (const uint32_t task : Tasks(agent)) End(&agent, {task}, pb::Attempt::INTERRUPTED);
  EXPECT_TRUE(driver_->complete());
  EXPECT_THAT(Fates(), IsEmpty());
}

TEST_F(DriverTest, WhatFitsOnlyALostNodeIsNotWaitedForForEver) {
  graph::Profile wide;
  wide.shape.cores = 2;
  options_.return_ticks = 20;
  Serve({{"wide", "x", {}, {}, wide}, {"slim", "x"}}, 2);
  Agent small, large;
  Join(&small, Hello("small", 1, 1));
  Join(&large, Hello("large", 2, 2));
  Turn(&small);
  Started(&large, {0});
  Silence(&large, options_.dead_after + Duration(1), true, {&small});
  Watch(flow_.settings.fence, {&small});
  End(&small, {1});
  EXPECT_FALSE(driver_->complete()) << "the node may come back";
  for (uint32_t i = 0; i < options_.return_ticks; ++i) {
    driver_->Handle(Now(), small.node, pb::FromAgent());
    driver_->Tick(Now());
  }
  Turn(&small);
  EXPECT_TRUE(driver_->complete());
  EXPECT_THAT(Fates(), ElementsAre(std::pair(1u, journal::TaskFate::kDone)));
  EXPECT_TRUE(driver_->nodes_gone()) << "another job may have such a node";
}

TEST_F(DriverTest, ACutOfSomeSecondsCostsNoAttempt) {
  Serve({{"a", "x"}, {"b", "x"}, {"c", "x"}}, 2);
  Agent cut, well;
  Join(&cut, Hello("n1", 1, 1));
  Join(&well, Hello("n2", 2, 1));
  ASSERT_EQ(cut.tasks.size() + well.tasks.size(), 2u);
  const uint32_t there = cut.tasks.begin()->first;
  Started(&cut, {there});
  Silence(&cut, std::chrono::seconds(5), true, {&well});
  Watch(std::chrono::seconds(20), {&well});
  EXPECT_TRUE(driver_->IsAbsent("n1"));
  Join(&cut, Running("n1", 1, 1, there, 1));
  EXPECT_THAT(cut.superseded, IsEmpty());
  EXPECT_EQ(Tasks(cut), (std::set<uint32_t>{there}));
  End(&cut, {there});
  EXPECT_EQ(cut.tasks.size(), 1u) << "and it is given more";
  End(&cut, {cut.tasks.begin()->first});
  End(&well, {well.tasks.begin()->first});
  EXPECT_TRUE(driver_->complete());
  EXPECT_THAT(Attempts(), UnorderedElementsAre(Pair(0u, 1u), Pair(1u, 1u), Pair(2u, 1u)));
}

TEST_F(DriverTest, AnAttemptThatComesBackAfterItsLossGoesOnWhileNothingWasStartedSince) {
  Make({{"a", "x"}}, 2);
  flow_.settings.retries = 0;
  for (const bool ended : {false, true}) {
    Forget();
    Serve({{"a", "x"}}, 2);
    Agent cut;
    Join(&cut, Hello("n1", 1, 1));
    Started(&cut, {0});
    Silence(&cut, options_.dead_after + Duration(1));
    Watch(flow_.settings.lease + flow_.settings.fence);
    EXPECT_THAT(Attempts(), IsEmpty()) << "its loss is not for good";
    pb::FromAgent hello = Hello("n1", 1, 1);
    if (ended) {
      *hello.add_ended() = Ended(&cut, {0}, pb::Attempt::EXITED, 7).ended(0);
      Join(&cut, hello);
    } else {
      Runs(&hello, 0, 1);
      Join(&cut, hello);
      EXPECT_THAT(cut.superseded, IsEmpty());
      End(&cut, {0}, pb::Attempt::EXITED, 7);
    }
    EXPECT_TRUE(driver_->complete());
    EXPECT_THAT(Attempts(), ElementsAre(Pair(0u, 1u)));
    EXPECT_EQ(Fates()[0], journal::TaskFate::kFailed);
    EXPECT_THAT(journal_.history.nodes.back().left_ns, 0) << "the node is here again";
  }
}

TEST_F(DriverTest, WhenMostNodesFallSilentAtOnceThisServerIsCutOff) {
  Serve({{"a", "x"}, {"b", "x"}, {"c", "x"}}, 3);
  Agent agents[3];
  for (uint32_t i = 0; i < 3; ++i) Join(&agents[i], Hello("n" + std::to_string(i), i + 1, 1));
  for (Agent& agent : agents) Started(&agent, {agent.tasks.begin()->first});
  agents[0].channel->silence = std::chrono::seconds(5);
  agents[1].channel->silence = std::chrono::seconds(5);
  Watch(flow_.settings.lease - std::chrono::seconds(5), {&agents[2]});
  EXPECT_EQ(agents[2].tasks.size(), 1u) << "nothing of the others is started here";
  Watch(std::chrono::seconds(10), {&agents[2]});
  End(&agents[2], {agents[2].tasks.begin()->first});
  EXPECT_EQ(agents[2].tasks.size(), 1u);
  EXPECT_EQ(agents[2].tasks.begin()->second.attempt(), 2u);
}

TEST_F(DriverTest, OfTwoAgentsOfOneNameTheFirstIsToldToEndAndDoesNotComeBack) {
  Serve({{"a", "x"}});
  Agent first, second;
  Join(&first, Hello("n", 1, 1));
  Started(&first, {0});
  Join(&second, Hello("n", 2, 1));
  EXPECT_FALSE(second.welcomed) << "the first has not ended";
  Turn(&first);
  EXPECT_TRUE(first.shut_down);
  EXPECT_THAT(told_, ElementsAre("node n: a second agent has come; the first one is told to end"));
  driver_->Handle(Now(), first.node, Ended(&first, {0}, pb::Attempt::INTERRUPTED));
  EXPECT_THAT(Tasks(second), IsEmpty());
  driver_->Disconnected(Now(), first.node, first.channel.get());
  Turn(&second);
  EXPECT_TRUE(second.welcomed);
  ASSERT_EQ(Tasks(second), (std::set<uint32_t>{0}));
  EXPECT_EQ(second.tasks[0].attempt(), 2u);
  auto channel = std::make_shared<FakeChannel>(&loop_, wire::Role::kAgent, "fake");
  EXPECT_EQ(Enter(channel, Hello("n", 1, 1)).status().code(), Code::kRefused);
  End(&second, {0});
  EXPECT_TRUE(driver_->complete());
  EXPECT_THAT(Attempts(), ElementsAre(Pair(0u, 1u), Pair(0u, 2u)));
  EXPECT_EQ(journal_.history.attempts[0].end, journal::End::kInterrupted);
}

TEST_F(DriverTest, AnAgentThatDoesNotEndLosesItsPlaceInTheEnd) {
  Serve({{"a", "x"}});
  Agent first, second;
  Join(&first, Hello("n", 1, 1));
  Started(&first, {0});
  Join(&second, Hello("n", 2, 1));
  Watch(flow_.settings.fence - std::chrono::seconds(1));
  Turn(&second);
  EXPECT_FALSE(second.welcomed);
  Watch(std::chrono::seconds(2));
  EXPECT_THAT(dropped_, ElementsAre(first.channel.get()));
  Turn(&second);
  EXPECT_TRUE(second.welcomed);
  EXPECT_EQ(Tasks(second), (std::set<uint32_t>{0}));
}

TEST_F(DriverTest, ASecondAgentThatDialsAgainIsWaitedForNoLongerAndNotRefused) {
  Serve({{"a", "x"}});
  Agent first, second;
  Join(&first, Hello("n", 1, 1));
  Started(&first, {0});
  Join(&second, Hello("n", 2, 1));
  const wire::Channel* before = second.channel.get();
  Watch(flow_.settings.fence - std::chrono::seconds(10));
  Join(&second, Hello("n", 2, 1));
  EXPECT_THAT(dropped_, ElementsAre(before));
  EXPECT_FALSE(second.welcomed);
  Watch(std::chrono::seconds(11));
  Turn(&second);
  EXPECT_TRUE(second.welcomed);
  driver_->Disconnected(Now(), second.node, second.channel.get());
  Join(&second, Hello("n", 2, 1));
}

// An agent that is not greeted hangs up, which the server sees before it dials again.
TEST_F(DriverTest, ASecondAgentThatHangsUpAndDialsAgainWaitsAsLongAsOthers) {
  Serve({{"a", "x"}});
  Agent first, second;
  Join(&first, Hello("n", 1, 1));
  Started(&first, {0});
  Join(&second, Hello("n", 2, 1));
  for (int i = 0; i < 2; ++i) {
    Watch(std::chrono::seconds(10));
    driver_->Disconnected(Now(), second.node, second.channel.get());
    Watch(std::chrono::seconds(1));
    Join(&second, Hello("n", 2, 1));
    EXPECT_FALSE(second.welcomed) << "the first may still run its task";
  }
  driver_->Disconnected(Now(), second.node, second.channel.get());
  Watch(flow_.settings.fence);
  Join(&second, Hello("n", 2, 1));
  Watch(std::chrono::seconds(1));
  Turn(&second);
  EXPECT_TRUE(second.welcomed);
  EXPECT_EQ(Tasks(second), (std::set<uint32_t>{0}));
  EXPECT_EQ(told_[0], "node n: a second agent has come; the first one is told to end");
  EXPECT_THAT(dropped_, ElementsAre(first.channel.get()));
}

TEST_F(DriverTest, ASecondAgentThatDialsAgainIsNotLetInBesideAFirstThatWasCutOff) {
  Serve({{"a", "x"}});
  Agent first, second;
  Join(&first, Hello("n", 1, 1));
  Started(&first, {0});
  Join(&second, Hello("n", 2, 1));
  driver_->Disconnected(Now(), first.node, first.channel.get());
  Watch(std::chrono::seconds(10));
  driver_->Disconnected(Now(), second.node, second.channel.get());
  Join(&second, Hello("n", 2, 1));
  EXPECT_FALSE(second.welcomed) << "its task may still run";
  Watch(flow_.settings.fence - std::chrono::seconds(9));
  Turn(&second);
  EXPECT_TRUE(second.welcomed);
}

TEST_F(DriverTest, APlaceThatGotFreeMeanwhileIsTakenByTheNextThatDials) {
  for (const uint64_t next : {2, 3}) {
    Forget();
    Serve({{"a", "x"}});
    Agent first, second;
    Join(&first, Hello("n", 1, 1));
    Join(&second, Hello("n", 2, 1));
    driver_->Disconnected(Now(), second.node, second.channel.get());
    driver_->Handle(Now(), first.node, Ended(&first, {0}, pb::Attempt::INTERRUPTED));
    driver_->Disconnected(Now(), first.node, first.channel.get());
    Agent third;
    Join(&third, Hello("n", next, 1));
    EXPECT_TRUE(third.welcomed) << next;
    EXPECT_EQ(Tasks(third), (std::set<uint32_t>{0}));
    Watch(flow_.settings.fence + std::chrono::seconds(1), {&third});
    End(&third, {0});
    EXPECT_TRUE(driver_->complete());
  }
}

TEST_F(DriverTest, ANodeThatWasPutAsideAndComesBackAfterItsLossIsNoLongerClosed) {
  Make({{"a", "x"}, {"b", "x"}, {"c", "x"}, {"d", "x"}, {"e", "x"}, {"f", "x"}}, 2);
  flow_.settings.bad_node_failures = 2;
  Serve();
  Agent bad, good;
  Join(&bad, Hello("n1", 1, 1));
  Join(&good, Hello("n2", 2, 1));
  const auto state = [&] {
    pb::Progress figures;
    driver_->Snapshot(Now(), true, &figures);
    return figures.node(0).state();
  };
  for (int i = 0; i < 2; ++i) {
    End(&bad, {bad.tasks.begin()->first}, pb::Attempt::EXITED, 1);
    End(&good, {good.tasks.begin()->first});
    if (i == 0) Turn(&bad);
  }
  EXPECT_EQ(state(), "closed");
  driver_->Disconnected(Now(), bad.node, bad.channel.get());
  Join(&bad, Hello("n1", 1, 1));
  EXPECT_EQ(state(), "closed") << "the same agent is connected again";
  driver_->Disconnected(Now(), bad.node, bad.channel.get());
  bad.tasks.clear();
  Join(&bad, Hello("n1", 9, 1));
  EXPECT_EQ(bad.tasks.size(), 1u) << "its agent was started anew, and is given work";
  EXPECT_EQ(state(), "joined");
}

TEST_F(DriverTest, ASecondAgentThatGoesAgainChangesNothingButThatTheFirstEnds) {
  Serve({{"a", "x"}});
  Agent first, second;
  Join(&first, Hello("n", 1, 1));
  Join(&second, Hello("n", 2, 1));
  driver_->Disconnected(Now(), second.node, second.channel.get());
  End(&first, {0});
  EXPECT_TRUE(driver_->complete());
}

TEST_F(DriverTest, ACancelReachesAnAgentThatWasCutOff) {
  Serve({{"a", "x"}});
  Agent agent;
  Join(&agent, Hello("n", 1, 1));
  Started(&agent, {0});
  driver_->Disconnected(Now(), agent.node, agent.channel.get());
  driver_->Cancel({TaskId(0)});
  driver_->Flush(Now());
  Join(&agent, Running("n", 1, 1, 0, 1));
  EXPECT_THAT(agent.cancelled, ElementsAre(0u));
  End(&agent, {0}, pb::Attempt::CANCELLED);
  EXPECT_EQ(Fates()[0], journal::TaskFate::kCancelled);
}

TEST_F(DriverTest, AnInterruptionReachesAnAgentThatWasCutOff) {
  Serve({{"a", "x"}});
  Agent agent;
  Join(&agent, Hello("n", 1, 1));
  Started(&agent, {0});
  driver_->Disconnected(Now(), agent.node, agent.channel.get());
  driver_->Interrupt(Now());
  driver_->Flush(Now());
  Join(&agent, Running("n", 1, 1, 0, 1));
  EXPECT_THAT(agent.cancelled, ElementsAre(0u));
}

TEST_F(DriverTest, LossAndReturnAtOneInstantStartNoSecondCopy) {
  Serve({{"a", "x"}}, 2);
  Agent cut, other;
  Join(&cut, Hello("n1", 1, 1));
  Join(&other, Hello("n2", 2, 1));
  Started(&cut, {0});
  Silence(&cut, options_.dead_after + Duration(1), true, {&other});
  // Lost, and back before anything was sent.
  time_ += flow_.settings.fence;
  driver_->Handle(Now(), other.node, pb::FromAgent());
  driver_->FindSilent(Now());
  Join(&cut, Running("n1", 1, 1, 0, 1));
  Turn(&other);
  EXPECT_EQ(Tasks(other).size() + (cut.superseded.empty() ? 1 : 0), 1u) << "either here or there";
}

TEST_F(DriverTest, WhatWasToBeSentByTheLastConnectionIsNotSentTwice) {
  graph::Profile wide;
  wide.shape.cores = 2;
  Serve({{"a", "x"}, {"b", "x", {}, {"b"}}, {"c", "x", {"b"}, {}, wide}}, 2);
  Agent large, small;
  Join(&large, Hello("n1", 1, 3));
  ASSERT_EQ(Tasks(large), (std::set<uint32_t>{0, 1}));
  Started(&large, {0, 1});
  driver_->Disconnected(Now(), large.node, large.channel.get());
  large.starts.clear();
  pb::FromAgent hello = Hello("n1", 1, 3);
  Runs(&hello, 0, 1);
  // b has ended, and c goes to the node, at the instant when its agent is there again.
  *hello.add_ended() = Ended(&large, {1}).ended(0);
  Join(&small, Hello("n2", 2, 1));
  Join(&large, hello);
  Turn(&large);
  EXPECT_THAT(large.starts, ElementsAre(2u));
  driver_->Disconnected(Now(), large.node, large.channel.get());
  large.starts.clear();
  large.tasks.erase(2);
  hello = Hello("n1", 1, 3);
  Runs(&hello, 0, 1);
  // c never arrived, and is given out again; the connection breaks once more before that is sent.
  large.channel = std::make_shared<FakeChannel>(&loop_, wire::Role::kAgent, "fake");
  ASSERT_TRUE(Enter(large.channel, hello).ok());
  driver_->Disconnected(Now(), large.node, large.channel.get());
  Join(&large, hello);
  Turn(&large);
  EXPECT_THAT(large.starts, ElementsAre(2u));
}

TEST_F(DriverTest, OneNodeThatIsGivenUpDoesNotGiveUpOthers) {
  graph::Profile wide;
  wide.shape.cores = 8;
  Serve({{"wide", "x", {}, {}, wide}}, 2);
  Agent large, small;
  Join(&large, Hello("large", 1, 8));
  Join(&small, Hello("small", 2, 1));
  const auto lose = [&](Agent* agent) {
    driver_->Handle(Now(), agent->node,
                    Ended(agent, Tasks(*agent).empty() ? std::vector<uint32_t>{} : std::vector<uint32_t>{0},
                          pb::Attempt::INTERRUPTED));
    driver_->Disconnected(Now(), agent->node, agent->channel.get());
  };
  small.tasks[7].set_attempt(1);
  pb::FromAgent leaves;
  pb::Attempt* none = leaves.add_ended()->add_attempt();
  none->set_task(0);
  none->set_attempt(50);
  none->set_end(pb::Attempt::INTERRUPTED);
  driver_->Handle(Now(), small.node, leaves);
  driver_->Disconnected(Now(), small.node, small.channel.get());
  EXPECT_TRUE(driver_->IsAbsent("small"));
  for (uint32_t i = 0; i + 1 < options_.return_ticks; ++i) {
    driver_->Handle(Now(), large.node, pb::FromAgent());
    driver_->Tick(Now());
  }
  Started(&large, {0});
  lose(&large);
  EXPECT_TRUE(driver_->IsAbsent("large"));
  driver_->Tick(Now());
  driver_->Flush(Now());
  EXPECT_FALSE(driver_->complete()) << "the large one may be back in a moment";
  for (uint32_t i = 0; i < options_.return_ticks; ++i) driver_->Tick(Now());
  driver_->Flush(Now());
  EXPECT_TRUE(driver_->complete());
  EXPECT_TRUE(driver_->nodes_gone());
}

TEST_F(DriverTest, AnAgentThatIsCutOffWhileItEndsIsWaitedFor) {
  Serve({{"a", "x"}, {"b", "x"}}, 2);
  Agent leaves, other;
  Join(&leaves, Hello("n1", 1, 2));
  Join(&other, Hello("n2", 2, 2));
  Started(&leaves, {0, 1});
  driver_->Handle(Now(), leaves.node, Ended(&leaves, {0}, pb::Attempt::INTERRUPTED));
  driver_->Disconnected(Now(), leaves.node, leaves.channel.get());
  Turn(&other);
  EXPECT_EQ(Tasks(other), (std::set<uint32_t>{0})) << "b has not ended";
  Watch(flow_.settings.fence + std::chrono::seconds(1), {&other});
  EXPECT_EQ(Tasks(other), (std::set<uint32_t>{0, 1}));
}

TEST_F(DriverTest, TasksOfAnAgentThatEndsUnaskedRunElsewhereOnceEachHasEnded) {
  Serve({{"a", "x"}, {"b", "x"}}, 2);
  Agent leaves, other;
  Join(&leaves, Hello("n1", 1, 2));
  Join(&other, Hello("n2", 2, 2));
  ASSERT_EQ(leaves.tasks.size(), 2u);
  Started(&leaves, {0, 1});
  driver_->Handle(Now(), leaves.node, Ended(&leaves, {0}, pb::Attempt::INTERRUPTED));
  Turn(&other);
  EXPECT_EQ(Tasks(other), (std::set<uint32_t>{0})) << "1 has not ended yet";
  EXPECT_EQ(other.tasks[0].attempt(), 2u);
  End(&leaves, {1});
  driver_->Disconnected(Now(), leaves.node, leaves.channel.get());
  EXPECT_TRUE(driver_->IsAbsent("n1"));
  End(&other, {0});
  EXPECT_TRUE(driver_->complete());
  EXPECT_THAT(Attempts(), UnorderedElementsAre(Pair(0u, 1u), Pair(0u, 2u), Pair(1u, 1u)));
  EXPECT_EQ(journal_.history.attempts[0].end, journal::End::kInterrupted);
  EXPECT_EQ(driver_->FiguresAt(Now()).losses, 0u);
}

TEST_F(DriverTest, AnAttemptThatItsAgentsEndInterruptedCostsNoRetryAfterARestart) {
  Make({{"a", "x"}}, 2);
  flow_.settings.retries = 1;
  flow_.settings.bad_node_failures = 0;  // so that what fails at once is tried again at once
  Serve();
  Agent leaves, other;
  Join(&leaves, Hello("n1", 1, 1));
  Join(&other, Hello("n2", 2, 1));
  Started(&leaves, {0});
  driver_->Handle(Now(), leaves.node, Ended(&leaves, {0}, pb::Attempt::INTERRUPTED));
  driver_->Disconnected(Now(), leaves.node, leaves.channel.get());
  Turn(&other);
  ASSERT_EQ(Tasks(other), (std::set<uint32_t>{0}));
  Serve();
  pb::FromAgent hello = Hello("n2", 2, 1);
  hello.mutable_hello()->add_running()->set_task(0);
  hello.mutable_hello()->mutable_running(0)->set_attempt(2);
  Join(&other, hello);
  if (driver_->gathering()) GatherInVain(&other);
  End(&other, {0}, pb::Attempt::EXITED, 3);
  EXPECT_EQ(Tasks(other), (std::set<uint32_t>{0})) << "its retry";
}

/// Also where its agent is there still, so that what it wrote down has not been read.
TEST_F(DriverTest, WhatTheTaskOfAnAgentThatEndsUnaskedMadeIsRemovedBeforeTheNext) {
  Serve({{"a", "x", {}, {"out"}}}, 2);
  Agent leaves, other;
  Join(&leaves, Hello("n1", 1, 1));
  Join(&other, Hello("n2", 2, 1));
  Started(&leaves, {0});
  pb::FromAgent ended = Ended(&leaves, {0}, pb::Attempt::INTERRUPTED);
  pb::Made* made = ended.mutable_ended(0)->mutable_attempt(0)->mutable_made();
  made->set_begin_ns(70);
  made->set_end_ns(90);
  driver_->Handle(Now(), leaves.node, ended);
  Turn(&other);
  ASSERT_EQ(Tasks(other), (std::set<uint32_t>{0}));
  ASSERT_TRUE(other.tasks[0].has_earlier());
  EXPECT_EQ(other.tasks[0].earlier().begin_ns(), 70);
  EXPECT_EQ(other.tasks[0].earlier().end_ns(), 90);
}

TEST_F(DriverTest, NodesThatNeverComeAreNotWaitedForForEver) {
  graph::Profile wide;
  wide.shape.cores = 2;
  options_.join_ticks = 7;
  Serve({{"wide", "x", {}, {}, wide}, {"slim", "x"}}, 2);
  for (int i = 0; i < 20; ++i) driver_->Tick(Now());  // the first one may take its time
  Agent small;
  Join(&small, Hello("small", 1, 1));
  End(&small, {1});
  const auto tick = [&] {
    driver_->Handle(Now(), small.node, pb::FromAgent());
    driver_->Tick(Now());
    Turn(&small);
  };
  for (uint32_t i = 0; i + 1 < options_.join_ticks; ++i) tick();
  EXPECT_FALSE(driver_->complete()) << "the other node may still come";
  EXPECT_FALSE(driver_->IsAbsent("other"));
  EXPECT_THAT(told_, IsEmpty());
  tick();
  EXPECT_TRUE(driver_->complete());
  EXPECT_TRUE(driver_->IsAbsent("other")) << "the keeper is to start one more agent";
  EXPECT_THAT(told_, ElementsAre("only 1 of 2 nodes have come; the run goes on without the others"));
  EXPECT_EQ(Fates()[0], journal::TaskFate::kFailed);
}

/// The first to come is the one whose setup failed at once.
TEST_F(DriverTest, NodesThatAreBeingSetUpAreWaitedFor) {
  options_.join_ticks = 7;
  options_.setup_ticks = 20;
  Serve({{"a", "x"}}, 2);
  Agent broken, good;
  pb::FromAgent hello = Hello("broken", 1, 1);
  hello.mutable_hello()->set_unfit("no disk there");
  Join(&broken, hello);
  const auto tick = [&] {
    driver_->Handle(Now(), broken.node, pb::FromAgent());
    driver_->Tick(Now());
  };
  for (int i = 0; i < 26; ++i) tick();
  EXPECT_THAT(told_, ElementsAre("node broken is put aside: no disk there"));
  Join(&good, Hello("good", 1, 1));
  End(&good, {0});
  EXPECT_TRUE(driver_->complete());
  EXPECT_THAT(Fates(), ElementsAre(std::pair(0u, journal::TaskFate::kDone)));
}

TEST_F(DriverTest, OfManyNodesThatAreNotFitTheFirstAreNamed) {
  Serve({{"a", "x"}}, 30);
  std::deque<Agent> agents(20);
  for (size_t i = 0; i < agents.size(); ++i) {
    pb::FromAgent hello = Hello(StrCat("n", i), 1, 1);
    hello.mutable_hello()->set_unfit("no disk there");
    Join(&agents[i], hello);
  }
  ASSERT_EQ(told_.size(), 9u);
  EXPECT_EQ(told_[7], "node n7 is put aside: no disk there");
  EXPECT_EQ(told_[8], "more nodes are put aside; the server's log in the run directory names each");
}

}  // namespace
}  // namespace harrow::server
