// RunDriver: what is sent, recorded and told.
#include "unit/server/driver_fixture.h"

namespace harrow::server {
namespace {

TEST_F(DriverTest, RunsAChainAndRecordsIt) {
  Serve({{"a", "make a", {}, {"a"}}, {"b", "use a", {"a"}, {}}});
  Agent agent;
  Join(&agent, Hello("n", 1, 2));
  EXPECT_TRUE(agent.welcomed);
  EXPECT_EQ(Tasks(agent), (std::set<uint32_t>{0}));
  EXPECT_EQ(agent.tasks[0].command(), "make a");
  EXPECT_EQ(agent.tasks[0].attempt(), 1u);
  End(&agent, {0});
  EXPECT_EQ(Tasks(agent), (std::set<uint32_t>{1}));
  EXPECT_THAT(agent.profiles, ElementsAre(0u)) << "a profile is sent once";
  EXPECT_FALSE(driver_->complete());
  End(&agent, {1});
  EXPECT_TRUE(driver_->complete());
  EXPECT_THAT(Attempts(), ElementsAre(std::pair(0u, 1u), std::pair(1u, 1u)));
  EXPECT_EQ(Fates(), (std::map<uint32_t, journal::TaskFate>{{0, journal::TaskFate::kDone},
                                                            {1, journal::TaskFate::kDone}}));
  pb::Progress figures;
  driver_->Snapshot(Now(), true, &figures);
  EXPECT_EQ(figures.done(), 2u);
  EXPECT_DOUBLE_EQ(figures.core_seconds(), 2e-6);
  EXPECT_EQ(figures.node(0).ended(), 2u);
}

TEST_F(DriverTest, FiguresGoOnWhereAnEarlierSessionEnded) {
  constexpr int64_t kSecond = 1'000'000'000;
  Make({{"a", "x"}, {"b", "x"}});
  flow_.settings.started = Now().wall;
  const int64_t start = Now().wall_ns();
  // Four slots for ten seconds, half an hour ago.
  const int64_t earlier = start - 1800 * kSecond;
  journal_.history.sessions = {{earlier, earlier + 10 * kSecond}};
  journal::NodeRecord old;
  old.node = NodeId(0);
  old.name = "old";
  old.slots = 4;
  old.joined_ns = earlier;
  old.left_ns = earlier + 10 * kSecond;
  journal_.history.nodes = {old};
  Remake();
  driver_->Begin(Now());
  Figures figures = driver_->FiguresAt(Now());
  EXPECT_EQ(figures.sessions, 1u) << "nothing has begun yet";
  EXPECT_EQ(figures.slots, 4u);
  EXPECT_EQ(figures.makespan, std::chrono::seconds(10));
  Agent agent;
  Join(&agent, Hello("n", 1, 2));
  time_ += std::chrono::seconds(5);
  figures = driver_->FiguresAt(Now());
  EXPECT_EQ(figures.sessions, 2u);
  EXPECT_EQ(figures.slots, 2u);
  EXPECT_EQ(figures.makespan, std::chrono::seconds(15));
  EXPECT_DOUBLE_EQ(figures.slot_seconds, 4 * 10 + 2 * 5);
  // The node is lost and another takes over: both belong to the session, each once.
  driver_->Disconnected(Now(), agent.node, agent.channel.get());
  Agent again, other;
  Join(&again, Hello("n", 2, 2));
  Join(&other, Hello("m", 3, 1));
  EXPECT_EQ(driver_->FiguresAt(Now()).slots, 3u);
  driver_->RecordEnd(Now());
  figures = driver_->FiguresAt(Now());
  time_ += std::chrono::seconds(60);
  EXPECT_EQ(driver_->FiguresAt(Now()).makespan, figures.makespan) << "what is over changes no more";
  EXPECT_DOUBLE_EQ(driver_->FiguresAt(Now()).slot_seconds, figures.slot_seconds);
}

TEST_F(DriverTest, ResultsAreAcknowledgedWhenTheyAreOnDisk) {
  Serve({{"a", "x"}, {"b", "x"}});
  Agent agent;
  Join(&agent, Hello("n", 1, 2));
  const uint64_t before = journal_.sequence;
  End(&agent, {0});
  driver_->Committed(before);
  Turn(&agent);
  EXPECT_EQ(agent.committed, 0u);
  driver_->Committed(journal_.sequence);
  Turn(&agent);
  EXPECT_EQ(agent.committed, 0u) << "it is in no hurry";
  driver_->FindSilent(Now());
  Turn(&agent);
  EXPECT_EQ(agent.committed, 1u);
  driver_->FindSilent(Now());
  Turn(&agent);
  EXPECT_EQ(agent.messages, 2u) << "its welcome, with the tasks, the acknowledgement, and no more";
}

TEST_F(DriverTest, AnAcknowledgementGoesWithWhatIsSentAnyway) {
  Serve({{"a", "x"}, {"b", "x"}, {"c", "x"}});
  Agent agent;
  Join(&agent, Hello("n", 1, 1));
  End(&agent, {0});
  driver_->Committed(journal_.sequence);
  const uint32_t messages = agent.messages;
  End(&agent, {1});
  EXPECT_EQ(agent.committed, 1u);
  EXPECT_EQ(agent.messages, messages + 1);
}

TEST_F(DriverTest, WhatADeadAgentSaidIsNotAcknowledgedToItsSuccessor) {
  Serve({{"a", "x"}, {"b", "x"}, {"c", "x"}});
  Agent agent;
  Join(&agent, Hello("n", 1, 3));
  End(&agent, {0});
  End(&agent, {1});
  const uint64_t said_by_the_first = journal_.sequence;
  driver_->Disconnected(Now(), agent.node, agent.channel.get());
  Agent successor;
  Join(&successor, Hello("n", 2, 3));
  End(&successor, {2});
  driver_->Committed(said_by_the_first);
  driver_->FindSilent(Now());
  Turn(&successor);
  EXPECT_EQ(successor.committed, 0u) << "it would drop a result that is not on disk";
  driver_->Committed(journal_.sequence);
  driver_->FindSilent(Now());
  Turn(&successor);
  EXPECT_EQ(successor.committed, 1u);
}

TEST_F(DriverTest, AResultThatComesTwiceIsRecordedOnce) {
  Serve({{"a", "x"}, {"b", "x"}});
  Agent agent;
  Join(&agent, Hello("n", 1, 2));
  const pb::FromAgent ended = Ended(&agent, {0, 1});
  driver_->Handle(Now(), agent.node, ended);
  driver_->Handle(Now(), agent.node, ended);
  Turn(&agent);
  // The connection breaks; the agent comes back and tells all it keeps.
  driver_->Disconnected(Now(), agent.node, agent.channel.get());
  Join(&agent, Kept("n", 1, 2, ended));
  EXPECT_THAT(Attempts(), ElementsAre(std::pair(0u, 1u), std::pair(1u, 1u)));
  EXPECT_TRUE(driver_->complete());
}

TEST_F(DriverTest, ADeadAgentsTasksStartAgainOnItsSuccessor) {
  Serve({{"a", "x", {}, {"out"}}});
  Agent agent;
  Join(&agent, Hello("n", 1, 1));
  Started(&agent, {0});
  EXPECT_THAT(agent.tasks[0].outputs(), ElementsAre("out"));
  EXPECT_FALSE(agent.tasks[0].has_earlier());
  driver_->Disconnected(Now(), agent.node, agent.channel.get());
  Agent successor;
  Join(&successor, Hello("n", 2, 1));
  EXPECT_EQ(successor.node, agent.node);
  ASSERT_EQ(Tasks(successor), (std::set<uint32_t>{0}));
  EXPECT_EQ(successor.tasks[0].attempt(), 2u);
  EXPECT_FALSE(successor.tasks[0].has_earlier()) << "nobody knows what it found";
  ASSERT_EQ(journal_.history.attempts.size(), 1u);
  EXPECT_EQ(journal_.history.attempts[0].end, journal::End::kLost);
  End(&successor, {0});
  EXPECT_TRUE(driver_->complete());
}

TEST_F(DriverTest, WhatALostAttemptFoundIsReadFromItsAgentsRecord) {
  Serve({{"a", "x", {}, {"out", "log"}}, {"b", "y", {}, {"other"}}});
  Agent agent;
  pb::FromAgent hello = Hello("n", 1, 2);
  hello.mutable_hello()->set_output_file(4);
  Join(&agent, hello);
  End(&agent, {1});
  made_of_[4] = {{0, {.task = 0, .attempt = 1, .begin_ns = 70, .end_ns = 90, .found = {1}}},
                 {1, {.task = 1, .attempt = 1, .begin_ns = 70, .end_ns = 90}}};
  driver_->Disconnected(Now(), agent.node, agent.channel.get());
  Agent successor;
  Join(&successor, Hello("n", 2, 2));
  ASSERT_EQ(Tasks(successor), (std::set<uint32_t>{0}));
  EXPECT_EQ(successor.tasks[0].earlier().begin_ns(), 70);
  EXPECT_EQ(successor.tasks[0].earlier().end_ns(), 90);
  EXPECT_THAT(successor.tasks[0].earlier().found(), ElementsAre(1u));
  EXPECT_THAT(Attempts(), ElementsAre(Pair(1u, 1u), Pair(0u, 1u)))
      << "it began, though that was never reported";
  EXPECT_EQ(journal_.history.attempts[1].end, journal::End::kLost);
  EXPECT_EQ(journal_.history.attempts[1].start_ns, 70);
  EXPECT_EQ(successor.tasks[0].attempt(), 2u);
}

TEST_F(DriverTest, OfWhatAttemptsFoundThatOfTheOneThatBeganLastCountsWhateverItsNumber) {
  Make({{"a", "x", {}, {"out"}}});
  made_of_[3] = {
      {0, {.task = 0, .attempt = 2, .begin_ns = 10, .end_ns = 20}}};  // it got lost with its server
  Serve();
  Agent agent;
  pb::FromAgent hello = Hello("n", 1, 1);
  hello.mutable_hello()->set_output_file(4);
  Join(&agent, hello);
  ASSERT_EQ(Tasks(agent), (std::set<uint32_t>{0}));
  EXPECT_EQ(agent.tasks[0].attempt(), 1u);
  EXPECT_EQ(agent.tasks[0].earlier().begin_ns(), 10);
  made_of_[4] = {{0, {.task = 0, .attempt = 1, .begin_ns = 70, .end_ns = 90}}};
  driver_->Disconnected(Now(), agent.node, agent.channel.get());
  Agent successor;
  Join(&successor, Hello("n", 2, 1));
  ASSERT_EQ(Tasks(successor), (std::set<uint32_t>{0}));
  EXPECT_EQ(successor.tasks[0].earlier().begin_ns(), 70);
}

TEST_F(DriverTest, WhatAFailedAttemptFoundIsToldTheNext) {
  flow_ = TinyFlow({{"a", "x", {}, {"out"}}});
  flow_.settings.retries = 1;
  Serve();
  Agent agent;
  Join(&agent, Hello("n", 1, 1));
  pb::FromAgent ended = Ended(&agent, {0}, pb::Attempt::EXITED, 1);
  pb::Made* made = ended.mutable_ended(0)->mutable_attempt(0)->mutable_made();
  made->set_begin_ns(5);
  made->set_end_ns(6);
  made->add_found(0);
  driver_->Handle(Now(), agent.node, ended);
  Turn(&agent);
  ASSERT_EQ(Tasks(agent), (std::set<uint32_t>{0}));
  EXPECT_EQ(agent.tasks[0].attempt(), 2u);
  EXPECT_EQ(agent.tasks[0].earlier().begin_ns(), 5);
  EXPECT_EQ(agent.tasks[0].earlier().end_ns(), 6);
  EXPECT_THAT(agent.tasks[0].earlier().found(), ElementsAre(0u));
}

TEST_F(DriverTest, ReportedSizesOfOutputsBringTheNextTaskToThem) {
  options_.nodes_expected = 2;
  flow_ = TinyFlow(
      {{"big", "x", {}, {"big"}}, {"small", "x", {}, {"small"}}, {"use", "y", {"small", "big"}, {}}});
  flow_.settings.steal = false;
  Serve();
  Agent first, second;
  Join(&first, Hello("n1", 1, 1));
  Join(&second, Hello("n2", 2, 1));
  Agent& has_big = first.tasks.contains(0) ? first : second;
  Agent& has_small = first.tasks.contains(0) ? second : first;
  ASSERT_TRUE(has_big.tasks[0].sizes_wanted());
  pb::FromAgent small = Ended(&has_small, {1});
  small.mutable_ended(0)->mutable_attempt(0)->add_output_sizes(10);
  driver_->Handle(Now(), has_small.node, small);
  pb::FromAgent big = Ended(&has_big, {0});
  big.mutable_ended(0)->mutable_attempt(0)->add_output_sizes(1'000'000);
  driver_->Handle(Now(), has_big.node, big);
  Turn(&has_small);
  Turn(&has_big);
  EXPECT_THAT(Tasks(has_small), IsEmpty());
  ASSERT_EQ(Tasks(has_big), (std::set<uint32_t>{2}));
  End(&has_big, {2});
  ASSERT_EQ(journal_.history.attempts.size(), 3u);
  EXPECT_EQ(journal_.history.attempts[2].local_bytes, 1'000'000);
  EXPECT_EQ(journal_.history.attempts[2].remote_bytes, 10);
}

TEST_F(DriverTest, ANodesMemoryIsWhatTheJobWasGranted) {
  graph::Profile heavy;
  heavy.shape.memory = 300 << 20;
  options_.memory_granted = {{"n", 650 << 20}, {"small", uint64_t{64} << 30}};
  std::vector<TinyTask> tasks;
  for (const char* name : {"a", "b", "c", "d"}) tasks.push_back({name, "x", {}, {}, heavy});
  Serve(tasks, 2);
  Agent agent, small;
  pb::FromAgent hello = Hello("n", 1, 4);
  hello.mutable_hello()->mutable_node()->set_memory(uint64_t{64} << 30);
  Join(&agent, hello);
  EXPECT_EQ(agent.tasks.size(), 2u) << "by what was granted, not by what the machine has";
  hello = Hello("small", 2, 4);
  hello.mutable_hello()->mutable_node()->set_memory(400 << 20);
  Join(&small, hello);
  EXPECT_EQ(small.tasks.size(), 1u) << "a grant adds nothing to what there is";
}

TEST_F(DriverTest, RetryOnlyOnTheCodesNamed) {
  graph::Profile profile;
  profile.retries = 3;
  profile.retry_on = {75, 137};
  Serve({{"a", "x", {}, {}, profile}});
  Agent agent;
  Join(&agent, Hello("n", 1, 1));
  End(&agent, {0}, pb::Attempt::EXITED, 75);
  EXPECT_EQ(agent.tasks[0].attempt(), 2u);
  End(&agent, {0}, pb::Attempt::SIGNALED, 9);
  EXPECT_EQ(agent.tasks[0].attempt(), 3u);
  End(&agent, {0}, pb::Attempt::EXITED, 1);
  EXPECT_TRUE(driver_->complete());
  EXPECT_EQ(Fates()[0], journal::TaskFate::kFailed);
}

TEST_F(DriverTest, ATaskThatFitsNoNodeFailsWithTheReason) {
  graph::Profile wide;
  wide.shape.cores = 64;
  Serve({{"wide", "x", {}, {}, wide}, {"slim", "x"}});
  Agent agent;
  Join(&agent, Hello("n", 1, 2));
  End(&agent, {1});
  EXPECT_TRUE(driver_->complete());
  EXPECT_EQ(Fates()[0], journal::TaskFate::kFailed);
  ASSERT_EQ(journal_.history.attempts.front().task, TaskId(0));
  EXPECT_THAT(journal_.history.attempts.front().message, ::testing::HasSubstr("64 cores"));
}

TEST_F(DriverTest, ResultsThatAreOnDiskAlreadyAreAcknowledgedAtOnce) {
  Serve({{"a", "x"}, {"b", "x"}});
  Agent agent;
  Join(&agent, Hello("n", 1, 2));
  pb::FromAgent ended = Ended(&agent, {0});
  driver_->Handle(Now(), agent.node, ended);
  Turn(&agent);
  driver_->Committed(driver_->recorder().added());
  driver_->FindSilent(Now());
  Turn(&agent);
  EXPECT_EQ(agent.committed, 1u);
  ended.mutable_ended(0)->set_sequence(2);
  driver_->Handle(Now(), agent.node, ended);  // told twice
  driver_->FindSilent(Now());
  Turn(&agent);
  EXPECT_EQ(agent.committed, 2u);
}

TEST_F(DriverTest, WhatManyNodesSayIsNotToldManyTimes) {
  Make({{"a", "true"}}, 4);
  Agent agents[4];
  for (uint32_t n = 0; n < 4; ++n) Join(&agents[n], Hello("n" + std::to_string(n), n + 1, 1));
  const auto says = [&](uint32_t n, const std::string& text) {
    pb::FromAgent message;
    message.mutable_problem()->set_text(text);
    driver_->Handle(Now(), agents[n].node, message);
  };
  for (uint32_t n = 0; n < 4; ++n) says(n, "tasks are not pinned");
  EXPECT_THAT(told_, ElementsAre("node n0: tasks are not pinned", "other nodes say the same"));
  told_.clear();
  says(0, "no cgroup");
  says(0, "no devices");
  says(1, "no cgroup");
  EXPECT_THAT(told_,
              ElementsAre("node n0: no cgroup", "node n0: no devices", "other nodes say as well: no cgroup"));
  told_.clear();
  says(2, "the disk is full");
  says(2, "the disk is full");
  EXPECT_THAT(told_, ElementsAre("node n2: the disk is full", "node n2: the disk is full"))
      << "it is so again";
}

TEST_F(DriverTest, NothingIsStartedThatCannotEndBeforeTheMarginOfTheAllocationsEnd) {
  graph::Profile profile;
  profile.time_limit = std::chrono::minutes(10);
  Make({{"a", "x", {}, {}, profile}});
  flow_.settings.end_margin = std::chrono::seconds(30);
  const Duration needed = std::chrono::minutes(10) + std::chrono::seconds(30);
  for (const Duration left : {needed - Duration(1), needed}) {
    journal_ = {};
    Serve();
    driver_->EndTime(Now(), Now().wall + left);
    Agent agent;
    Join(&agent, Hello("n", 1, 1));
    EXPECT_EQ(agent.tasks.size(), left < needed ? 0u : 1u)
        << "what is left of the time is for staging out, ending and recording";
    EXPECT_EQ(driver_->out_of_time(), left < needed) << "and the next job does it";
    EXPECT_EQ(driver_->open_time(), left < needed ? std::chrono::minutes(10) : Duration(0))
        << "is told at the end";
    EXPECT_THAT(Fates(), IsEmpty());
  }
}

TEST_F(DriverTest, AgentsKnowWhenTheAllocationEnds) {
  Serve({{"a", "x"}, {"b", "x"}}, 2);
  Agent first, second;
  Join(&first, Hello("n", 1, 1));
  EXPECT_EQ(first.job_ends_ns, 0);
  const auto in = [&](Duration left) {
    const WallTime end = Now().wall + left;
    driver_->EndTime(Now(), end);
    return end.time_since_epoch().count();
  };
  const int64_t told = in(std::chrono::hours(1));
  Turn(&first);
  EXPECT_EQ(first.job_ends_ns, told);
  Join(&second, Hello("m", 1, 1));
  EXPECT_EQ(second.job_ends_ns, told) << "as it joins";
  const uint32_t before = first.messages;
  in(std::chrono::hours(1));
  Turn(&first);
  EXPECT_EQ(first.messages, before) << "nothing new";
  const int64_t changed = in(std::chrono::hours(2));
  Turn(&first);
  EXPECT_EQ(first.job_ends_ns, changed);
}

TEST_F(DriverTest, UnwantedTasksAreNeitherRunNorCounted) {
  Make({{"a", "x", {}, {"a"}}, {"b", "x", {"a"}, {}}});
  flow_.unwanted = {true, false};
  Serve();
  Agent agent;
  Join(&agent, Hello("n", 1, 2));
  EXPECT_EQ(Tasks(agent), (std::set<uint32_t>{1}));
  End(&agent, {1});
  EXPECT_TRUE(driver_->complete());
  pb::Progress figures;
  driver_->Snapshot(Now(), false, &figures);
  EXPECT_EQ(figures.total(), 1u);
  EXPECT_EQ(figures.done(), 1u);
}

TEST_F(DriverTest, RefusesStrangers) {
  Serve({{"a", "x"}});
  auto channel = std::make_shared<FakeChannel>(&loop_, wire::Role::kAgent, "fake");
  pb::FromAgent other_run = Hello("n", 1, 1), other_version = Hello("n", 1, 1), no_slots = Hello("n", 1, 0),
                absurd = Hello("n", 1, UINT32_MAX);
  other_run.mutable_hello()->set_run_id("other");
  other_version.mutable_hello()->set_version(wire::kProtocolVersion + 1);
  for (const pb::FromAgent& hello : {other_run, other_version, no_slots, absurd}) {
    EXPECT_EQ(Enter(channel, hello).status().code(), Code::kRefused);
  }
  EXPECT_FALSE(driver_->agents_connected());
}

}  // namespace
}  // namespace harrow::server
