// RunDriver: what agents and the journal tell a server that follows another.
#include "unit/server/driver_fixture.h"

namespace harrow::server {
namespace {

TEST_F(DriverTest, AfterARestartOnlyWhatARecordTellsIsRemovedAndNeverAResult) {
  Serve({{"a", "x", {}, {"out"}}, {"b", "y", {}, {"other"}}, {"c", "z", {}, {"third"}}});
  Agent agent;
  Join(&agent, Hello("n", 1, 3));
  End(&agent, {1});
  journal_.history.fates.clear();  // --resume opens it again
  made_of_[1] = {{0, {.task = 0, .attempt = 1, .begin_ns = 70, .end_ns = 90}},
                 {1, {.task = 1, .attempt = 1, .begin_ns = 70, .end_ns = 90}},
                 {99, {.task = 99, .attempt = 1}}};
  journal_.history.nodes.clear();
  Serve();
  Agent next;
  Join(&next, Hello("m", 7, 3));
  ASSERT_EQ(Tasks(next), (std::set<uint32_t>{0, 1, 2}));
  EXPECT_TRUE(next.tasks[0].has_earlier()) << "its beginning is recorded, by its agent";
  EXPECT_EQ(next.tasks[1].attempt(), 2u);
  EXPECT_FALSE(next.tasks[1].has_earlier()) << "its outputs are results";
  EXPECT_FALSE(next.tasks[2].has_earlier()) << "another server has been, but no attempt of it";
}

TEST_F(DriverTest, ARestartedServerAdoptsWhatRuns) {
  Serve({{"a", "x"}, {"b", "x"}, {"c", "x"}, {"d", "x"}});
  Agent agent;
  Join(&agent, Hello("n", 1, 3));
  ASSERT_EQ(agent.tasks.size(), 3u);
  Started(&agent, {1, 2});
  End(&agent, {0});

  Serve();
  EXPECT_TRUE(driver_->gathering());
  pb::FromAgent hello = Hello("n", 1, 3);
  for (const uint32_t task : {1u, 2u}) {
    pb::Attempt* running = hello.mutable_hello()->add_running();
    running->set_task(task);
    running->set_attempt(1);
    running->set_start_ns(1000);
  }
  wire::SetId({TaskId(3), 1}, hello.mutable_hello()->add_queued());
  agent.taken_back.clear();
  Join(&agent, hello);
  EXPECT_THAT(agent.taken_back, ElementsAre(3u)) << "what is not begun is asked back before anything starts";
  EXPECT_TRUE(driver_->gathering());
  agent.tasks.erase(3);
  pb::FromAgent returned;
  wire::SetId({TaskId(3), 1}, returned.mutable_returned()->add_attempt());
  driver_->Handle(Now(), agent.node, returned);
  Turn(&agent);
  EXPECT_FALSE(driver_->gathering());
  EXPECT_EQ(Tasks(agent), (std::set<uint32_t>{1, 2, 3})) << "3 is sent again, 0 is done, 1 and 2 go on";
  End(&agent, {1, 2, 3});
  EXPECT_TRUE(driver_->complete());
  EXPECT_THAT(Attempts(), UnorderedElementsAre(std::pair(0u, 1u), std::pair(1u, 1u), std::pair(2u, 1u),
                                               std::pair(3u, 1u)));
}

TEST_F(DriverTest, ResultsKeptByAgentsCountAfterARestart) {
  Serve({{"a", "x", {}, {"a"}}, {"b", "x", {"a"}, {}}});
  Agent agent;
  Join(&agent, Hello("n", 1, 1));
  const pb::FromAgent ended = Ended(&agent, {0});  // and the server is killed
  Serve();
  Join(&agent, Kept("n", 1, 1, ended));
  EXPECT_EQ(Tasks(agent), (std::set<uint32_t>{1}));
  EXPECT_THAT(Attempts(), ElementsAre(std::pair(0u, 1u)));
}

TEST_F(DriverTest, ASuccessOnRecordIsNotTriedAgainThoughItsFateIsNotOnRecord) {
  Serve({{"a", "x"}, {"b", "x"}});
  Agent agent;
  Join(&agent, Hello("n", 1, 2));
  End(&agent, {0});
  journal_.history.fates.clear();  // it would have been with the next group
  const int64_t now_ns = Now().wall_ns();
  for (journal::AttemptRecord& attempt : journal_.history.attempts)
    attempt.start_ns = attempt.end_ns = now_ns;
  options_.restarted = true;
  Serve();
  Agent next;
  Join(&next, Hello("n", 2, 2));
  EXPECT_EQ(Tasks(next), (std::set<uint32_t>{1}));
  EXPECT_EQ(Fates()[0], journal::TaskFate::kDone);
}

TEST_F(DriverTest, WhatWasDoneBeforeIsShownBeforeAllNodesAreBack) {
  Serve({{"a", "x"}, {"b", "x"}, {"c", "x"}});
  Agent agent;
  Join(&agent, Hello("n", 1, 1));
  End(&agent, {0});
  End(&agent, {1}, pb::Attempt::EXITED, 3);
  Serve();
  EXPECT_TRUE(driver_->gathering());
  const Figures figures = driver_->FiguresAt(Now());
  EXPECT_EQ(figures.done, 1u);
  EXPECT_EQ(figures.failed, 1u);
  EXPECT_EQ(figures.total, 3u);
}

TEST_F(DriverTest, AgentsThatDoNotComeBackAreNotWaitedForForEver) {
  Serve({{"a", "x"}}, 2);
  Agent gone, other;
  Join(&gone, Hello("n1", 1, 1));
  Serve();
  Join(&other, Hello("n2", 2, 1));
  EXPECT_THAT(Tasks(other), IsEmpty());
  GatherInVain(&other);
  EXPECT_EQ(Tasks(other), (std::set<uint32_t>{0}));
}

TEST_F(DriverTest, RetriesCountOverARestart) {
  Make({{"a", "x"}});
  flow_.settings.retries = 1;
  Serve();
  Agent agent;
  Join(&agent, Hello("n", 1, 1));
  time_ += std::chrono::hours(2);
  End(&agent, {0}, pb::Attempt::EXITED, 3);
  EXPECT_EQ(Tasks(agent), (std::set<uint32_t>{0})) << "one more attempt";
  EXPECT_EQ(agent.tasks[0].attempt(), 2u);
  Serve();
  pb::FromAgent hello = Hello("n", 1, 1);
  hello.mutable_hello()->add_running()->set_task(0);
  hello.mutable_hello()->mutable_running(0)->set_attempt(2);
  Join(&agent, hello);
  End(&agent, {0}, pb::Attempt::EXITED, 3);
  EXPECT_THAT(Tasks(agent), IsEmpty());
  EXPECT_EQ(Fates()[0], journal::TaskFate::kFailed);
  EXPECT_TRUE(driver_->complete());
}

TEST_F(DriverTest, NumbersGoOnFromAnEarlierSessionWhoseAttemptsAreNoneOfThisOnes) {
  Make({{.name = "a", .command = "x"}});
  flow_.settings.started = Now().wall;
  const int64_t earlier = Now().wall_ns() - 1'000'000'000;
  journal::AttemptRecord lost;
  lost.task = TaskId(0);
  lost.attempt = 3;
  lost.node = NodeId(0);
  lost.end = journal::End::kLost;
  lost.start_ns = lost.end_ns = earlier;
  journal_.history.attempts = {lost};
  Serve();
  Agent agent;
  Join(&agent, Hello("n", 1, 1));
  ASSERT_EQ(Tasks(agent), (std::set<uint32_t>{0}));
  EXPECT_EQ(agent.tasks[0].attempt(), 4u);
}

TEST_F(DriverTest, AnAttemptThatWasNotReturnedBeforeItsAgentDiedUsesUpItsNumber) {
  Serve({{"a", "x"}}, 2);
  Agent first, second;
  Join(&first, Hello("n1", 1, 1));
  Join(&second, Hello("n2", 2, 1));
  Serve();
  first.tasks.clear();
  pb::FromAgent hello = Hello("n1", 1, 1);
  wire::SetId({TaskId(0), 1}, hello.mutable_hello()->add_queued());
  Join(&first, hello);
  driver_->Disconnected(Now(), first.node, first.channel.get());
  Agent next;
  Join(&next, Hello("n1", 9, 1));
  Join(&second, Hello("n2", 2, 1));
  Turn(&next);
  Agent& has = next.tasks.empty() ? second : next;
  ASSERT_EQ(Tasks(has), (std::set<uint32_t>{0}));
  EXPECT_EQ(has.tasks[0].attempt(), 2u);
  End(&has, {0});
  EXPECT_TRUE(driver_->complete());
}

TEST_F(DriverTest, WhatIsReturnedTooLateRunsAgain) {
  for (const bool interrupted : {false, true}) {
    Forget();
    Serve({{"a", "x"}}, 2);
    Agent agent, gone;
    Join(&agent, Hello("n1", 1, 1));
    Join(&gone, Hello("n2", 2, 1));
    Serve();
    agent.tasks.clear();
    pb::FromAgent hello = Hello("n1", 1, 1);
    wire::SetId({TaskId(0), 1}, hello.mutable_hello()->add_queued());
    Join(&agent, hello);
    if (interrupted) {
      driver_->Interrupt(Now());
    } else {
      for (uint32_t i = 0; i < options_.gather_ticks; ++i) driver_->Tick(Now());
    }
    Turn(&agent);
    pb::FromAgent returned;
    wire::SetId({TaskId(0), 1}, returned.mutable_returned()->add_attempt());
    driver_->Handle(Now(), agent.node, returned);
    Turn(&agent);
    if (interrupted) {
      EXPECT_TRUE(driver_->complete());
      EXPECT_THAT(Fates(), IsEmpty());
    } else {
      EXPECT_EQ(Tasks(agent), (std::set<uint32_t>{0}));
      EXPECT_EQ(agent.tasks[0].attempt(), 2u);
    }
  }
}

TEST_F(DriverTest, AnInterruptionWhileAgentsAreGatheredStartsNothing) {
  Serve({{"a", "x"}, {"b", "x"}}, 2);
  Agent gone, here;
  Join(&gone, Hello("n1", 1, 1));
  Join(&here, Hello("n2", 2, 1));
  Serve();
  here.tasks.clear();
  Join(&here, Hello("n2", 2, 1));
  driver_->Interrupt(Now());
  Turn(&here);
  EXPECT_THAT(Tasks(here), IsEmpty());
  EXPECT_TRUE(driver_->complete());
}

TEST_F(DriverTest, AnAgentWhoseTasksAnEarlierServerInterruptedBeginsAnew) {
  Serve({{"a", "x"}});
  Agent agent;
  Join(&agent, Hello("n", 1, 1));
  Started(&agent, {0});
  Serve();
  Join(&agent, Kept("n", 1, 1, Ended(&agent, {0}, pb::Attempt::INTERRUPTED)));
  EXPECT_TRUE(agent.shut_down);
  driver_->Disconnected(Now(), agent.node, agent.channel.get());
  Agent next;
  Join(&next, Hello("n", 2, 1));
  ASSERT_EQ(Tasks(next), (std::set<uint32_t>{0}));
  EXPECT_EQ(next.tasks[0].attempt(), 2u);
  EXPECT_THAT(Attempts(), ElementsAre(Pair(0u, 1u)));
  EXPECT_EQ(journal_.history.attempts[0].end, journal::End::kInterrupted);
}

TEST_F(DriverTest, AnEarlierAttemptIsNotTakenInAfterALaterOneHasEnded) {
  flow_ = TinyFlow({{"a", "x"}});
  flow_.settings.retries = 1;
  flow_.settings.bad_node_failures = 0;  // so that what fails at once is tried again at once
  options_.nodes_expected = 3;
  Serve();
  Agent agents[3];
  for (uint32_t i = 0; i < 3; ++i) Join(&agents[i], Hello("n" + std::to_string(i), i + 1, 1));
  Serve();
  for (Agent& agent : agents) agent.tasks.clear();
  agents[1].tasks[0].set_attempt(2);
  Join(&agents[1], Kept("n1", 2, 1, Ended(&agents[1], {0}, pb::Attempt::EXITED, 1)));
  Join(&agents[0], Running("n0", 1, 1, 0, 1));
  EXPECT_THAT(agents[0].superseded, ElementsAre(0u));
  Join(&agents[2], Hello("n2", 3, 1));
  size_t copies = 0;
  for (Agent& agent : agents) {
    Turn(&agent);
    if (agent.tasks.contains(0) && agent.tasks[0].attempt() == 3) ++copies;
  }
  EXPECT_EQ(copies, 1u);
}

TEST_F(DriverTest, AfterARestartNodesOfWhichNothingIsRecordedAreWaitedFor) {
  Make({{"a", "x"}}, 2);
  options_.restarted = true;
  Serve();
  Agent other, had;
  Join(&other, Hello("n2", 2, 1));
  EXPECT_TRUE(driver_->gathering());
  EXPECT_THAT(Tasks(other), IsEmpty());
  Join(&had, Running("n1", 1, 1, 0, 1));
  EXPECT_FALSE(driver_->gathering());
  EXPECT_THAT(had.superseded, IsEmpty());
  Turn(&other);
  EXPECT_THAT(Tasks(other), IsEmpty());
}

TEST_F(DriverTest, AnAgentThatWasStartedAnewGetsNoNumberAnew) {
  Serve({{"a", "x"}});
  Agent agent;
  Join(&agent, Hello("n", 1, 1));
  Started(&agent, {0});
  Serve();
  Agent next;
  Join(&next, Hello("n", 2, 1));
  ASSERT_EQ(Tasks(next), (std::set<uint32_t>{0}));
  EXPECT_EQ(next.tasks[0].attempt(), 2u);
}

TEST_F(DriverTest, ResultsThatComeWhileAgentsAreGatheredCount) {
  flow_ = TinyFlow({{"a", "x"}, {"b", "x"}, {"c", "x"}});
  flow_.settings.retries = 0;
  options_.nodes_expected = 2;
  Serve();
  Agent first, second;
  Join(&first, Hello("n1", 1, 3));
  Join(&second, Hello("n2", 2, 1));
  Started(&first, {0, 1, 2});
  Serve();
  pb::FromAgent hello = Hello("n1", 1, 3);
  for (const uint32_t task : {0u, 1u, 2u}) Runs(&hello, task, 1);
  Join(&first, hello);
  ASSERT_TRUE(driver_->gathering());
  End(&first, {0}, pb::Attempt::EXITED, 7);
  End(&first, {1}, pb::Attempt::CANCELLED);
  End(&first, {2});
  Join(&second, Hello("n2", 2, 1));
  EXPECT_FALSE(driver_->gathering());
  EXPECT_TRUE(driver_->complete());
  EXPECT_THAT(Tasks(first), IsEmpty());
  EXPECT_THAT(Attempts(), UnorderedElementsAre(Pair(0u, 1u), Pair(1u, 1u), Pair(2u, 1u)));
  EXPECT_EQ(Fates()[0], journal::TaskFate::kFailed);
  EXPECT_EQ(Fates()[1], journal::TaskFate::kCancelled);
  EXPECT_EQ(Fates()[2], journal::TaskFate::kDone);
}

TEST_F(DriverTest, AFailureJustBeforeACrashCountsForFailFast) {
  flow_ = TinyFlow({{"a", "x"}, {"b", "x"}, {"c", "x", {}, {}}});
  flow_.settings.fail_fast = true;
  Serve();
  Agent agent;
  Join(&agent, Hello("n", 1, 1));
  const uint32_t first = agent.tasks.begin()->first;
  End(&agent, {first}, pb::Attempt::EXITED, 1);
  journal_.history.fates.erase(journal_.history.fates.begin() + 1, journal_.history.fates.end());
  ASSERT_EQ(Fates().size(), 1u);
  Serve();
  Agent next;
  Join(&next, Hello("n", 2, 1));
  EXPECT_THAT(Tasks(next), IsEmpty());
  EXPECT_TRUE(driver_->complete());
}

TEST_F(DriverTest, OfTwoAttemptsThatOutlivedAServerTheLaterGoesOn) {
  Serve({{"a", "x"}}, 3);
  Agent agents[3];
  for (uint32_t i = 0; i < 3; ++i) Join(&agents[i], Hello("n" + std::to_string(i), i + 1, 1));
  Serve();
  for (uint32_t i = 0; i < 3; ++i) {
    agents[i].tasks.clear();
    pb::FromAgent hello = Hello("n" + std::to_string(i), i + 1, 1);
    if (i < 2) Runs(&hello, 0, i + 1);
    Join(&agents[i], hello);
  }
  Turn(&agents[0]);
  EXPECT_THAT(agents[0].superseded, ElementsAre(0u));
  EXPECT_THAT(agents[1].superseded, IsEmpty());
  agents[0].tasks[0].set_attempt(1);
  End(&agents[0], {0}, pb::Attempt::LOST);
  EXPECT_FALSE(driver_->complete());
  agents[1].tasks[0].set_attempt(2);
  End(&agents[1], {0});
  EXPECT_TRUE(driver_->complete());
}

/// The end of an attempt that was replaced is told to a server that knows of neither.
TEST_F(DriverTest, TheEndOfAReplacedAttemptIsNoEndOfItsTaskAfterARestart) {
  Serve({{"a", "x"}}, 3);
  Agent agents[3];
  for (uint32_t i = 0; i < 3; ++i) Join(&agents[i], Hello("n" + std::to_string(i), i + 1, 1));
  Serve();
  for (Agent& agent : agents) agent.tasks.clear();
  for (uint32_t i = 0; i < 2; ++i) {
    Join(&agents[i], Running("n" + std::to_string(i), i + 1, 1, 0, i + 1));
    agents[i].tasks[0].set_attempt(i + 1);
  }
  Turn(&agents[0]);
  ASSERT_THAT(agents[0].superseded, ElementsAre(0u));
  EXPECT_THAT(agents[0].cancelled, IsEmpty());
  Serve();
  Join(&agents[0], Kept("n0", 1, 1, Ended(&agents[0], {0}, pb::Attempt::LOST)));
  Join(&agents[1], Running("n1", 2, 1, 0, 2));
  Join(&agents[2], Hello("n2", 3, 1));
  EXPECT_FALSE(driver_->gathering());
  Turn(&agents[1]);
  EXPECT_THAT(agents[1].superseded, IsEmpty());
  EXPECT_THAT(agents[1].cancelled, IsEmpty());
  EXPECT_THAT(Fates(), IsEmpty());
  End(&agents[1], {0});
  EXPECT_TRUE(driver_->complete());
  EXPECT_EQ(Fates()[0], journal::TaskFate::kDone);
  EXPECT_THAT(Attempts(), ElementsAre(Pair(0u, 1u), Pair(0u, 2u)));
  EXPECT_EQ(journal_.history.attempts[0].end, journal::End::kLost);
}

TEST_F(DriverTest, WorkThatComesBackAfterItWasWaitedForCountsWhileNothingWasStartedSince) {
  graph::Profile wide;
  wide.shape.cores = 2;
  for (const bool ended : {false, true}) {
    Forget();
    Serve({{"a", "x", {}, {}, wide}, {"b", "x"}}, 2);
    Agent gone, other;
    Join(&gone, Hello("n1", 1, 2));
    Join(&other, Hello("n2", 2, 1));
    ASSERT_TRUE(gone.tasks.contains(0));
    Started(&gone, {0});
    Serve();
    Join(&other, Hello("n2", 2, 1));
    GatherInVain(&other);
    ASSERT_FALSE(driver_->gathering());
    pb::FromAgent hello = Hello("n1", 1, 2);
    if (ended) {
      *hello.add_ended() = Ended(&gone, {0}).ended(0);
    } else {
      Runs(&hello, 0, 1);
    }
    Join(&gone, hello);
    EXPECT_THAT(gone.superseded, IsEmpty());
    EXPECT_FALSE(gone.tasks.contains(0) && gone.tasks[0].attempt() > 1) << "it is not begun again";
    if (!ended) End(&gone, {0});
    EXPECT_EQ(Fates()[0], journal::TaskFate::kDone);
    EXPECT_THAT(Attempts(), ::testing::Contains(Pair(0u, 1u)));
  }
}

TEST_F(DriverTest, AFailureWhileAgentsAreGatheredCostsARetryThoughOthersDoNotComeBack) {
  flow_ = TinyFlow({{"a", "x"}});
  flow_.settings.retries = 1;
  flow_.settings.bad_node_failures = 0;  // so that what fails at once is tried again at once
  options_.nodes_expected = 2;
  Serve();
  Agent has, gone;
  Join(&has, Hello("n1", 1, 1));
  Join(&gone, Hello("n2", 2, 1));
  Started(&has, {0});
  Serve();
  Join(&has, Running("n1", 1, 1, 0, 1));
  End(&has, {0}, pb::Attempt::EXITED, 1);
  GatherInVain(&has);
  ASSERT_EQ(Tasks(has), (std::set<uint32_t>{0}));
  End(&has, {0}, pb::Attempt::EXITED, 1);
  EXPECT_THAT(Tasks(has), IsEmpty());
  EXPECT_EQ(Fates()[0], journal::TaskFate::kFailed);
}

TEST_F(DriverTest, NobodyGetsTheNumberOfAnAttemptThatMayHaveBegunWhereNoAgentCameBack) {
  Serve({{"a", "x"}}, 2);
  Agent gone, other;
  Join(&gone, Hello("n1", 1, 1));
  Serve();
  Join(&other, Hello("n2", 2, 1));
  GatherInVain(&other);
  ASSERT_EQ(Tasks(other), (std::set<uint32_t>{0}));
  EXPECT_EQ(other.tasks[0].attempt(), 2u);
  // It comes back all the same.
  Join(&gone, Running("n1", 1, 1, 0, 1));
  EXPECT_THAT(gone.superseded, ElementsAre(0u));
  gone.tasks[0].set_attempt(1);
  End(&gone, {0});
  EXPECT_FALSE(driver_->complete());
  End(&other, {0}, pb::Attempt::EXITED, 1);
  EXPECT_EQ(Fates()[0], journal::TaskFate::kFailed)
      << "no retry, and the other attempt was none of this server's";
}

TEST_F(DriverTest, NumbersThatServersBeforeMayHaveGivenAreNotGivenAgain) {
  Serve({{"a", "x"}}, 2);
  Agent gone, lost, last;
  Join(&gone, Hello("n1", 1, 1));  // has attempt 1, and is not heard of
  Serve();
  Join(&lost, Hello("n2", 2, 1));
  GatherInVain(&lost);
  ASSERT_EQ(lost.tasks[0].attempt(), 2u);  // nor is this one, which nobody has recorded
  Serve();
  Join(&last, Hello("n3", 3, 1));
  GatherInVain(&last);
  EXPECT_EQ(last.tasks[0].attempt(), 3u);
}

TEST_F(DriverTest, AbsurdNumbersFromAnAgentAreHarmless) {
  Serve({{"a", "x"}});
  Agent agent;
  Join(&agent, Hello("n", 1, 1));
  pb::FromAgent message;
  wire::SetId({TaskId(77), 1}, message.mutable_started()->add_attempt());
  message.mutable_started()->add_start_ns(1);
  wire::SetId({TaskId(0), 900'000}, message.mutable_started()->add_attempt());
  message.mutable_started()->add_start_ns(-1);
  wire::SetId({TaskId(4'000'000'000u), 1}, message.mutable_returned()->add_attempt());
  pb::Attempt* attempt = message.add_ended()->add_attempt();
  attempt->set_task(99);
  attempt = message.mutable_ended(0)->add_attempt();
  attempt->set_task(0);
  attempt->set_attempt(1'000'000);
  attempt = message.mutable_ended(0)->add_attempt();
  attempt->set_task(0);
  attempt->set_attempt(65'535);
  attempt->set_end(pb::Attempt::EXITED);
  driver_->Handle(Now(), agent.node, message);
  Turn(&agent);
  EXPECT_THAT(Attempts(), IsEmpty());
  End(&agent, {0});
  EXPECT_TRUE(driver_->complete());
}

}  // namespace
}  // namespace harrow::server
