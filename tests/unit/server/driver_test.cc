#include "server/driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <optional>
#include <set>

#include "support/fake_channel.h"
#include "support/fake_event_loop.h"
#include "unit/server/fake_journal.h"
#include "unit/server/test_flow.h"
#include "wire/version.h"

namespace harrow::server {
namespace {

using test::FakeChannel;
using test::FakeJournal;
using test::TinyFlow;
using test::TinyTask;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

/// The agent of a node, by hand: keeps what it was told until the test lets it happen.
struct Agent {
  std::shared_ptr<FakeChannel> channel;
  NodeId node;
  uint64_t sequence = 0;
  std::map<uint32_t, pb::Task> tasks;  // sent here and not ended
  std::vector<uint32_t> taken_back, cancelled;
  std::vector<uint32_t> profiles;
  uint64_t committed = 0;
  bool welcomed = false, shut_down = false;
};

class DriverTest : public ::testing::Test {
 protected:
  void Make(std::vector<TinyTask> tasks, uint32_t nodes = 1) {
    flow_ = TinyFlow(tasks);
    options_.nodes_expected = nodes;
    Remake();
  }
  /// A server after the one before was killed.
  void Remake() {
    const journal::History history = journal_.history;
    if (driver_) ++options_.epoch;
    RunDriver::Hooks hooks;
    hooks.wake = [] {};
    hooks.drop_agent = [this](const wire::Channel* channel) { dropped_.push_back(channel); };
    driver_ = std::make_unique<RunDriver>(flow_, options_, &journal_, std::move(hooks));
    ASSERT_TRUE(driver_->Restore(history).ok());
  }
  Moment Now() { return {Time(time_), WallTime(time_ + std::chrono::hours(1))}; }
  pb::FromAgent Hello(const std::string& name, uint64_t incarnation, uint32_t slots) {
    pb::FromAgent message;
    message.mutable_hello()->set_version(wire::kProtocolVersion);
    message.mutable_hello()->set_run_id("run");
    message.mutable_hello()->set_incarnation(incarnation);
    message.mutable_hello()->mutable_node()->set_name(name);
    message.mutable_hello()->mutable_node()->set_slots(slots);
    return message;
  }
  void Join(Agent* agent, const pb::FromAgent& hello) {
    agent->channel = std::make_shared<FakeChannel>(&loop_, wire::Role::kAgent, "fake");
    const Result<NodeId> joined = driver_->Join(Now(), agent->channel, hello);
    ASSERT_TRUE(joined.ok()) << joined.status().message();
    agent->node = *joined;
    Turn(agent);
  }
  /// One flush; the agent takes what it was sent.
  void Turn(Agent* agent) {
    driver_->Flush(Now());
    for (const std::string& bytes : agent->channel->TakeSent()) {
      pb::ToAgent message;
      ASSERT_TRUE(message.ParseFromString(bytes));
      agent->welcomed |= message.has_welcome();
      agent->shut_down |= message.has_shutdown();
      for (const pb::Profile& profile : message.profile()) agent->profiles.push_back(profile.id());
      for (const pb::Task& task : message.start()) agent->tasks[task.id()] = task;
      for (const uint32_t task : message.take_back()) agent->taken_back.push_back(task);
      for (const uint32_t task : message.cancel().task()) agent->cancelled.push_back(task);
      if (message.has_committed()) agent->committed = message.committed().sequence();
    }
  }
  pb::FromAgent Ended(Agent* agent, std::vector<uint32_t> tasks, pb::Attempt::End end = pb::Attempt::EXITED,
                      int code = 0) {
    pb::FromAgent message;
    pb::TasksEnded* ended = message.add_ended();
    ended->set_sequence(++agent->sequence);
    for (const uint32_t task : tasks) {
      pb::Attempt* attempt = ended->add_attempt();
      attempt->set_task(task);
      attempt->set_attempt(agent->tasks[task].attempt());
      attempt->set_end(end);
      attempt->set_code(code);
      attempt->set_start_ns(1000);
      attempt->set_end_ns(2000);
      agent->tasks.erase(task);
    }
    return message;
  }
  void End(Agent* agent, std::vector<uint32_t> tasks, pb::Attempt::End end = pb::Attempt::EXITED,
           int code = 0) {
    driver_->Handle(Now(), agent->node, Ended(agent, std::move(tasks), end, code));
    Turn(agent);
  }
  /// Nothing is heard of an agent for a while; `machine`: nor of its machine.
  void Silence(Agent* agent, Duration how_long, bool machine = true) {
    time_ += how_long;
    if (machine) agent->channel->silence = how_long;
    for (int look = 0; look < 2; ++look) driver_->FindSilent(Now());
  }
  void Started(Agent* agent, std::vector<uint32_t> tasks) {
    pb::FromAgent message;
    for (const uint32_t task : tasks) {
      message.mutable_started()->add_task(task);
      message.mutable_started()->add_start_ns(1000);
    }
    driver_->Handle(Now(), agent->node, message);
    Turn(agent);
  }
  static std::set<uint32_t> Tasks(const Agent& agent) {
    std::set<uint32_t> tasks;
    for (const auto& [id, task] : agent.tasks) tasks.insert(id);
    return tasks;
  }
  std::vector<std::pair<uint32_t, uint32_t>> Attempts() {
    std::vector<std::pair<uint32_t, uint32_t>> out;
    for (const journal::AttemptRecord& record : journal_.history.attempts)
      out.emplace_back(record.task.value, record.attempt);
    return out;
  }
  std::map<uint32_t, journal::TaskFate> Fates() {
    std::map<uint32_t, journal::TaskFate> fates;
    for (const journal::FateRecord& record : journal_.history.fates) fates[record.task.value] = record.fate;
    return fates;
  }

  test::FakeEventLoop loop_;
  FakeJournal journal_;
  StoredFlow flow_;
  DriverOptions options_;
  Duration time_{std::chrono::seconds(1)};
  std::unique_ptr<RunDriver> driver_;
  std::vector<const wire::Channel*> dropped_;
};

TEST_F(DriverTest, RunsAChainAndRecordsIt) {
  Make({{"a", "make a", {}, {"a"}}, {"b", "use a", {"a"}, {}}});
  driver_->Begin(Now());
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
  EXPECT_EQ(figures.busy_core_ns(), 2000);
  EXPECT_EQ(figures.node(0).ended(), 2u);
}

TEST_F(DriverTest, ResultsAreAcknowledgedWhenTheyAreOnDisk) {
  Make({{"a", "x"}, {"b", "x"}});
  driver_->Begin(Now());
  Agent agent;
  Join(&agent, Hello("n", 1, 2));
  const uint64_t before = journal_.sequence;
  End(&agent, {0});
  driver_->Committed(before);
  Turn(&agent);
  EXPECT_EQ(agent.committed, 0u);
  driver_->Committed(journal_.sequence);
  Turn(&agent);
  EXPECT_EQ(agent.committed, 1u);
}

TEST_F(DriverTest, AResultThatComesTwiceIsRecordedOnce) {
  Make({{"a", "x"}, {"b", "x"}});
  driver_->Begin(Now());
  Agent agent;
  Join(&agent, Hello("n", 1, 2));
  const pb::FromAgent ended = Ended(&agent, {0, 1});
  driver_->Handle(Now(), agent.node, ended);
  driver_->Handle(Now(), agent.node, ended);
  Turn(&agent);
  // The connection breaks; the agent comes back and tells all it keeps.
  driver_->Disconnected(agent.node, agent.channel.get());
  pb::FromAgent hello = Hello("n", 1, 2);
  *hello.add_ended() = ended.ended(0);
  Join(&agent, hello);
  EXPECT_THAT(Attempts(), ElementsAre(std::pair(0u, 1u), std::pair(1u, 1u)));
  EXPECT_TRUE(driver_->complete());
}

TEST_F(DriverTest, ADeadAgentsTasksStartAgainOnItsSuccessor) {
  Make({{"a", "x", {}, {"out"}}});
  driver_->Begin(Now());
  Agent agent;
  Join(&agent, Hello("n", 1, 1));
  Started(&agent, {0});
  EXPECT_EQ(agent.tasks[0].remove_first_size(), 0);
  driver_->Disconnected(agent.node, agent.channel.get());
  Agent successor;
  Join(&successor, Hello("n", 2, 1));
  EXPECT_EQ(successor.node, agent.node);
  ASSERT_EQ(Tasks(successor), (std::set<uint32_t>{0}));
  EXPECT_EQ(successor.tasks[0].attempt(), 2u);
  EXPECT_THAT(successor.tasks[0].remove_first(), ElementsAre("out")) << "what the first attempt left";
  ASSERT_EQ(journal_.history.attempts.size(), 1u);
  EXPECT_EQ(journal_.history.attempts[0].end, journal::End::kLost);
  End(&successor, {0});
  EXPECT_TRUE(driver_->complete());
}

TEST_F(DriverTest, SilentAgentsAreLostAndTheirLateResultsIgnored) {
  Make({{"a", "x"}}, 2);
  driver_->Begin(Now());
  Agent first, second;
  Join(&first, Hello("n1", 1, 1));
  Started(&first, {0});
  Silence(&first, options_.dead_after + Duration(1));
  EXPECT_THAT(dropped_, ElementsAre(first.channel.get()));
  Join(&second, Hello("n2", 5, 1));
  EXPECT_EQ(Tasks(second), (std::set<uint32_t>{0}));
  // The first was only cut off: it comes back with its task still running, and must end it.
  pb::FromAgent hello = Hello("n1", 1, 1);
  pb::Attempt* running = hello.mutable_hello()->add_running();
  running->set_task(0);
  running->set_attempt(1);
  Join(&first, hello);
  EXPECT_THAT(first.cancelled, ElementsAre(0u));
  End(&first, {0});
  EXPECT_FALSE(driver_->complete());
  End(&second, {0});
  EXPECT_TRUE(driver_->complete());
  EXPECT_THAT(Attempts(), ElementsAre(std::pair(0u, 1u), std::pair(0u, 2u)));
}

TEST_F(DriverTest, AnAgentIsNotLostWhileItsNodeAnswers) {
  Make({{"a", "x"}});
  driver_->Begin(Now());
  Agent agent;
  Join(&agent, Hello("n", 1, 1));
  Silence(&agent, options_.dead_after * 3, false);
  EXPECT_THAT(dropped_, ElementsAre()) << "its machine is loaded";
  Silence(&agent, options_.hung_after, false);
  EXPECT_THAT(dropped_, ElementsAre(agent.channel.get())) << "it hangs";
}

TEST_F(DriverTest, AServerThatWasLateReadsBeforeItJudges) {
  Make({{"a", "x"}});
  driver_->Begin(Now());
  Agent agent;
  Join(&agent, Hello("n", 1, 1));
  driver_->Disconnected(agent.node, agent.channel.get());
  time_ += options_.dead_after * 10;
  driver_->FindSilent(Now());
  Join(&agent, Hello("n", 1, 1));
  driver_->FindSilent(Now());
  EXPECT_EQ(driver_->IsAbsent("n"), false);
  driver_->Disconnected(agent.node, agent.channel.get());
  Silence(&agent, options_.dead_after + Duration(1));
  EXPECT_EQ(driver_->IsAbsent("n"), true);
}

TEST_F(DriverTest, ALateEndDoesNotCountForALaterAttemptOnTheSameNode) {
  Make({{"a", "x"}});
  driver_->Begin(Now());
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
  Make({{"a", "x"}, {"b", "x"}});
  driver_->Begin(Now());
  Agent agent;
  Join(&agent, Hello("n", 1, 2));
  driver_->Disconnected(agent.node, agent.channel.get());
  agent.tasks.clear();
  pb::FromAgent hello = Hello("n", 1, 2);
  hello.mutable_hello()->add_running()->set_task(1);
  hello.mutable_hello()->mutable_running(0)->set_attempt(1);
  Join(&agent, hello);
  EXPECT_EQ(Tasks(agent), (std::set<uint32_t>{0})) << "task 1 runs there, task 0 was lost on its way";
  EXPECT_THAT(agent.cancelled, IsEmpty());
}

TEST_F(DriverTest, ANodesMemoryIsWhatTheJobWasGranted) {
  graph::Profile heavy;
  heavy.shape.memory = 300 << 20;
  options_.memory_granted = {{"n", 650 << 20}, {"small", uint64_t{64} << 30}};
  std::vector<TinyTask> tasks;
  for (const char* name : {"a", "b", "c", "d"}) tasks.push_back({name, "x", {}, {}, heavy});
  Make(tasks, 2);
  driver_->Begin(Now());
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

TEST_F(DriverTest, ARestartedServerAdoptsWhatRuns) {
  Make({{"a", "x"}, {"b", "x"}, {"c", "x"}, {"d", "x"}});
  driver_->Begin(Now());
  Agent agent;
  Join(&agent, Hello("n", 1, 3));
  ASSERT_EQ(agent.tasks.size(), 3u);
  Started(&agent, {1, 2});
  End(&agent, {0});

  Remake();
  driver_->Begin(Now());
  EXPECT_TRUE(driver_->gathering());
  pb::FromAgent hello = Hello("n", 1, 3);
  for (const uint32_t task : {1u, 2u}) {
    pb::Attempt* running = hello.mutable_hello()->add_running();
    running->set_task(task);
    running->set_attempt(1);
    running->set_start_ns(1000);
  }
  hello.mutable_hello()->add_queued(3);
  agent.taken_back.clear();
  Join(&agent, hello);
  EXPECT_THAT(agent.taken_back, ElementsAre(3u)) << "what is not begun is asked back before anything starts";
  EXPECT_TRUE(driver_->gathering());
  agent.tasks.erase(3);
  pb::FromAgent returned;
  returned.mutable_returned()->add_task(3);
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
  Make({{"a", "x", {}, {"a"}}, {"b", "x", {"a"}, {}}});
  driver_->Begin(Now());
  Agent agent;
  Join(&agent, Hello("n", 1, 1));
  const pb::FromAgent ended = Ended(&agent, {0});  // and the server is killed
  Remake();
  driver_->Begin(Now());
  pb::FromAgent hello = Hello("n", 1, 1);
  *hello.add_ended() = ended.ended(0);
  Join(&agent, hello);
  EXPECT_EQ(Tasks(agent), (std::set<uint32_t>{1}));
  EXPECT_THAT(Attempts(), ElementsAre(std::pair(0u, 1u)));
}

TEST_F(DriverTest, AgentsThatDoNotComeBackAreNotWaitedForForEver) {
  Make({{"a", "x"}}, 2);
  driver_->Begin(Now());
  Agent gone, other;
  Join(&gone, Hello("n1", 1, 1));
  Remake();
  driver_->Begin(Now());
  Join(&other, Hello("n2", 2, 1));
  EXPECT_THAT(Tasks(other), IsEmpty());
  for (uint32_t i = 0; i < options_.gather_ticks; ++i) {
    driver_->Handle(Now(), other.node, {});
    driver_->Tick(Now());
  }
  Turn(&other);
  EXPECT_EQ(Tasks(other), (std::set<uint32_t>{0}));
}

TEST_F(DriverTest, RetriesCountOverARestart) {
  Make({{"a", "x"}});
  flow_.settings.retries = 1;
  Remake();
  driver_->Begin(Now());
  Agent agent;
  Join(&agent, Hello("n", 1, 1));
  time_ += std::chrono::hours(2);
  End(&agent, {0}, pb::Attempt::EXITED, 3);
  EXPECT_EQ(Tasks(agent), (std::set<uint32_t>{0})) << "one more attempt";
  EXPECT_EQ(agent.tasks[0].attempt(), 2u);
  Remake();
  driver_->Begin(Now());
  pb::FromAgent hello = Hello("n", 1, 1);
  hello.mutable_hello()->add_running()->set_task(0);
  hello.mutable_hello()->mutable_running(0)->set_attempt(2);
  Join(&agent, hello);
  End(&agent, {0}, pb::Attempt::EXITED, 3);
  EXPECT_THAT(Tasks(agent), IsEmpty());
  EXPECT_EQ(Fates()[0], journal::TaskFate::kFailed);
  EXPECT_TRUE(driver_->complete());
}

TEST_F(DriverTest, RetryOnlyOnTheCodesNamed) {
  graph::Profile profile;
  profile.retries = 3;
  profile.retry_on = {75, 137};
  Make({{"a", "x", {}, {}, profile}});
  driver_->Begin(Now());
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

TEST_F(DriverTest, AnInterruptedRunLeavesItsTasksOpen) {
  Make({{"a", "x"}, {"b", "x"}, {"c", "x"}});
  driver_->Begin(Now());
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

TEST_F(DriverTest, ATaskThatFitsNoNodeFailsWithTheReason) {
  graph::Profile wide;
  wide.shape.cores = 64;
  Make({{"wide", "x", {}, {}, wide}, {"slim", "x"}});
  driver_->Begin(Now());
  Agent agent;
  Join(&agent, Hello("n", 1, 2));
  End(&agent, {1});
  EXPECT_TRUE(driver_->complete());
  EXPECT_EQ(Fates()[0], journal::TaskFate::kFailed);
  ASSERT_EQ(journal_.history.attempts.front().task, TaskId(0));
  EXPECT_THAT(journal_.history.attempts.front().message, ::testing::HasSubstr("64 cores"));
}

TEST_F(DriverTest, WhatFitsOnlyALostNodeIsNotWaitedForForEver) {
  graph::Profile wide;
  wide.shape.cores = 2;
  options_.return_ticks = 20;
  Make({{"wide", "x", {}, {}, wide}, {"slim", "x"}}, 2);
  driver_->Begin(Now());
  Agent small, large;
  Join(&small, Hello("small", 1, 1));
  Join(&large, Hello("large", 2, 2));
  Turn(&small);
  Started(&large, {0});
  time_ += options_.dead_after + Duration(1);
  driver_->Handle(Now(), small.node, pb::FromAgent());
  Silence(&large, options_.dead_after + Duration(1));
  End(&small, {1});
  EXPECT_FALSE(driver_->complete()) << "the node may come back";
  for (uint32_t i = 0; i < options_.return_ticks; ++i) {
    driver_->Handle(Now(), small.node, pb::FromAgent());
    driver_->Tick(Now());
  }
  Turn(&small);
  EXPECT_TRUE(driver_->complete());
  EXPECT_THAT(Fates(), ElementsAre(std::pair(0u, journal::TaskFate::kFailed),
                                   std::pair(1u, journal::TaskFate::kDone)));
}

TEST_F(DriverTest, UnwantedTasksAreNeitherRunNorCounted) {
  Make({{"a", "x", {}, {"a"}}, {"b", "x", {"a"}, {}}});
  flow_.unwanted = {true, false};
  Remake();
  driver_->Begin(Now());
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
  Make({{"a", "x"}});
  driver_->Begin(Now());
  auto channel = std::make_shared<FakeChannel>(&loop_, wire::Role::kAgent, "fake");
  pb::FromAgent other_run = Hello("n", 1, 1), other_version = Hello("n", 1, 1), no_slots = Hello("n", 1, 0);
  other_run.mutable_hello()->set_run_id("other");
  other_version.mutable_hello()->set_version(wire::kProtocolVersion + 1);
  for (const pb::FromAgent& hello : {other_run, other_version, no_slots}) {
    EXPECT_EQ(driver_->Join(Now(), channel, hello).status().code(), Code::kRefused);
  }
  EXPECT_FALSE(driver_->agents_connected());
}

TEST_F(DriverTest, AbsurdNumbersFromAnAgentAreHarmless) {
  Make({{"a", "x"}});
  driver_->Begin(Now());
  Agent agent;
  Join(&agent, Hello("n", 1, 1));
  pb::FromAgent message;
  message.mutable_started()->add_task(77);
  message.mutable_returned()->add_task(4'000'000'000u);
  pb::Attempt* attempt = message.add_ended()->add_attempt();
  attempt->set_task(99);
  attempt = message.mutable_ended(0)->add_attempt();
  attempt->set_task(0);
  attempt->set_attempt(1'000'000);
  driver_->Handle(Now(), agent.node, message);
  Turn(&agent);
  EXPECT_THAT(Attempts(), IsEmpty());
  End(&agent, {0});
  EXPECT_TRUE(driver_->complete());
}

}  // namespace
}  // namespace harrow::server
