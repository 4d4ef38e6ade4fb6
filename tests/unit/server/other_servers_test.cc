#include "server/other_servers.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <limits>
#include <map>
#include <set>
#include <memory>
#include <random>

#include "support/fake_channel.h"
#include "support/fake_event_loop.h"
#include "unit/run/test_flow.h"
#include "unit/server/fake_journal.h"
#include "wire/attempt_id.h"
#include "wire/decode.h"
#include "wire/version.h"

namespace harrow::server {
namespace {

using test::FakeChannel;
using test::FakeJournal;
using test::TinyFlow;
using test::TinyTask;

/// The servers of a run with an agent each, and the messages between them, which the test carries. What is recorded is
/// on disk when the test says so; it is never lost.
class Several {
 public:
  Several(std::vector<TinyTask> tasks, std::vector<uint32_t> slots, bool via_supervisor = false)
      : flow_(TinyFlow(std::move(tasks))), via_supervisor_(via_supervisor) {
    for (const uint32_t each : slots) {
      parts_.push_back(std::make_unique<One>());
      parts_.back()->slots = each;
      Start(static_cast<uint32_t>(parts_.size()) - 1);
    }
  }

  struct One {
    uint32_t slots = 1;
    FakeJournal journal;
    DriverOptions options;
    std::unique_ptr<RunDriver> driver;
    std::unique_ptr<OtherServers> others;
    std::shared_ptr<FakeChannel> channel;
    NodeId node;
    uint64_t sequence = 0, told = 0;  // the agent's, and what was told of the journal
    std::map<uint32_t, uint32_t> runs;  // task, attempt: at the agent
    std::map<uint32_t, std::vector<std::string>> to;
    std::map<uint32_t, int32_t> ended_elsewhere;  // with which code
    made::Attempts made;  // what its agent wrote down of its tasks' outputs
    std::vector<std::string> submissions;  // what others pass on, and what they answered
    size_t connections_changed = 0;
    std::set<uint32_t> offered_to, passed_for;  // offers to these, and what others pass on to these
  };
  One& operator[](uint32_t part) { return *parts_[part]; }
  size_t size() const { return parts_.size(); }
  const graph::Graph& graph() const { return flow_.graph; }

  /// A server begins, or one after it was killed; its agent comes to it. Its connections are gone.
  void Start(uint32_t part) {
    One& one = *parts_[part];
    one.options.nodes_expected = 1;
    one.options.restarted = one.driver != nullptr;
    if (one.driver) ++one.options.epoch;
    for (uint32_t other = 0; other < parts_.size(); ++other) Cut(part, other);
    const journal::History history = one.journal.history;
    RunDriver::Hooks hooks;
    hooks.wake = [] {};
    hooks.drop_agent = [](const wire::Channel*) {};
    hooks.made_of = [&one](uint32_t) { return one.made; };
    hooks.attempt_ended = [&one](const journal::AttemptRecord& record) { one.others->AttemptEnded(record); };
    hooks.decided = [&one](TaskId task, journal::TaskFate fate) {
      one.others->Decided(task, fate, one.driver->recorder().added());
    };
    one.driver = std::make_unique<RunDriver>(flow_, one.options, &one.journal, std::move(hooks));
    ASSERT_TRUE(one.driver->Restore(history).ok());
    Result<Holdings> holdings = HoldingsOf(part, graph().task_count(), history.moves);
    ASSERT_TRUE(holdings.ok()) << holdings.status().message();
    one.driver->SetOwn(holdings->own, holdings->tried, history);
    one.others = std::make_unique<OtherServers>(
        graph(), OtherServers::Options{.part = part, .epoch = one.options.epoch, .via_supervisor = via_supervisor_}, one.driver.get(),
        OtherServers::Hooks{.send = [&one, part](uint32_t to, const pb::BetweenServers& message) {
                              if (message.offered_size() > 0) one.offered_to.insert(to);
                              if (message.has_passed() && message.passed().from() == part) one.passed_for.insert(message.passed().to());
                              one.to[to].push_back(message.SerializeAsString());
                            },
                            .now = [this] { return Now(); },
                            .record = [&one](journal::MoveRecord record) {
                              return one.driver->recorder().Move(std::move(record));
                            },
                            .ending = [&one](TaskId task) -> std::optional<TaskEnding> {
                              for (auto at = one.journal.history.attempts.rbegin(); at != one.journal.history.attempts.rend(); ++at) {
                                if (at->task == task) return TaskEnding{task, at->end, at->code};
                              }
                              return {};
                            },
                            .ended = [&one](const TaskEnding& ending) { one.ended_elsewhere[ending.task.value] = ending.code; },
                            .submit =
                                [&one](uint32_t from, const pb::PassedSubmission& passed) {
                                  one.submissions.push_back(std::to_string(from) + ":" + passed.request().id());
                                },
                            .submitted = [&one](const pb::SubmissionAnswered& answer) { one.submissions.push_back("answered:" + answer.id()); },
                            .connections_changed = [&one] { ++one.connections_changed; }});
    one.others->Restore(*std::move(holdings));
    one.driver->Begin(Now());
    AgentComes(part);
  }
  /// The agent, which has run all the time, and tells this besides.
  void AgentComes(uint32_t part, pb::FromAgent hello = {}) {
    One& one = *parts_[part];
    one.channel = std::make_shared<FakeChannel>(&loop_, wire::Role::kAgent, "fake");
    hello.mutable_hello()->set_version(wire::kProtocolVersion);
    hello.mutable_hello()->set_run_id("run");
    hello.mutable_hello()->set_incarnation(part + 1);
    hello.mutable_hello()->set_epoch_seen(one.options.epoch - 1);
    hello.mutable_hello()->mutable_node()->set_name("n" + std::to_string(part));
    hello.mutable_hello()->mutable_node()->set_slots(one.slots);
    for (const auto& [task, attempt] : one.runs) {
      pb::Attempt* running = hello.mutable_hello()->add_running();
      running->set_task(task);
      running->set_attempt(attempt);
      running->set_start_ns(1000);
    }
    const Result<NodeId> joined = one.driver->Join(Now(), one.channel, hello);
    ASSERT_TRUE(joined.ok()) << joined.status().message();
    one.node = *joined;
    Turn(part);
  }
  /// Nothing is heard of the agent, until what it has is believed to be lost.
  void LoseAgent(uint32_t part) {
    for (int times = 0; times < 3; ++times) Pass(part, std::chrono::hours(1));
  }
  /// So much later, at one of them.
  void Pass(uint32_t part, Duration time) {
    time_ += time;
    parts_[part]->driver->FindSilent(Now());
    Turn(part);
  }
  void Cut(uint32_t a, uint32_t b) {
    if (a == b || !linked_.erase({std::min(a, b), std::max(a, b)})) return;
    for (const auto& [from, to] : {std::pair(a, b), {b, a}}) {
      parts_[from]->to.erase(to);
      parts_[from]->others->Disconnected(to);
    }
  }
  void Connect(uint32_t a, uint32_t b) {
    if (a == b || !linked_.insert({std::min(a, b), std::max(a, b)}).second) return;
    parts_[a]->others->Connected(b, parts_[b]->options.epoch);
    parts_[b]->others->Connected(a, parts_[a]->options.epoch);
  }
  void ConnectAll() {
    for (uint32_t a = 0; a < parts_.size(); ++a) {
      for (uint32_t b = 0; b < a; ++b) Connect(a, b);
    }
  }
  void Turn(uint32_t part) {
    One& one = *parts_[part];
    one.driver->Flush(Now());
    for (const std::string& bytes : one.channel->TakeSent()) {
      pb::ToAgent message;
      ASSERT_TRUE(message.ParseFromString(bytes));
      pb::FromAgent answer;
      for (const pb::AttemptId& back : message.take_back()) {
        if (one.runs.erase(back.task())) *answer.mutable_returned()->add_attempt() = back;
      }
      for (const pb::Task& task : message.start()) one.runs[task.id()] = task.attempt();
      if (answer.has_returned()) one.driver->Handle(Now(), one.node, answer);
    }
  }
  /// An attempt at the agent ends with a checkpoint.
  void Leave(uint32_t part, uint32_t task) {
    End(part, task, 85, pb::Attempt::CHECKPOINTED);
    parts_[part]->others->GoOnMoving();
  }
  /// The agent says that it has begun.
  void Begins(uint32_t part, uint32_t task) {
    One& one = *parts_[part];
    pb::FromAgent message;
    wire::SetId({TaskId(task), one.runs.at(task)}, message.mutable_started()->add_attempt());
    message.mutable_started()->add_start_ns(Now().wall_ns());
    one.driver->Handle(Now(), one.node, message);
    Turn(part);
  }
  /// An attempt at the agent ends.
  void End(uint32_t part, uint32_t task, int code = 0, pb::Attempt::End how = pb::Attempt::EXITED) {
    One& one = *parts_[part];
    pb::FromAgent message;
    pb::TasksEnded* ended = message.add_ended();
    ended->set_sequence(++one.sequence);
    pb::Attempt* attempt = ended->add_attempt();
    attempt->set_task(task);
    attempt->set_attempt(one.runs.at(task));
    attempt->set_end(how);
    attempt->set_code(code);
    attempt->set_start_ns(Now().wall_ns() - 1'000'000);
    attempt->set_end_ns(Now().wall_ns());
    one.runs.erase(task);
    one.driver->Handle(Now(), one.node, message);
    Turn(part);
  }
  void Commit(uint32_t part) {
    One& one = *parts_[part];
    one.driver->Committed(one.journal.sequence);
    one.others->Committed(one.journal.sequence);
    Turn(part);
  }
  /// The next message on its way.
  bool Carry(uint32_t from, uint32_t to) {
    auto& queue = parts_[from]->to[to];
    if (queue.empty()) return false;
    const std::string bytes = queue.front();
    queue.erase(queue.begin());
    pb::BetweenServers message;
    EXPECT_TRUE(wire::Decode(bytes, &message).ok());
    const Status taken = parts_[to]->others->Take(from, message);
    EXPECT_TRUE(taken.ok()) << taken.message();
    Turn(to);
    return true;
  }
  void Report() {
    time_ += std::chrono::milliseconds(100);
    for (uint32_t part = 0; part < parts_.size(); ++part) {
      parts_[part]->others->Tick();
      Turn(part);
    }
  }
  /// All is carried and on disk.
  void Settle() {
    for (bool more = true; more;) {
      more = false;
      for (uint32_t from = 0; from < parts_.size(); ++from) {
        for (uint32_t to = 0; to < parts_.size(); ++to) more |= Carry(from, to);
      }
      for (uint32_t part = 0; part < parts_.size(); ++part) {
        const uint64_t before = parts_[part]->told;
        parts_[part]->told = parts_[part]->journal.sequence;
        Commit(part);
        more |= parts_[part]->told != before;
      }
    }
  }
  Moment Now() const { return {Time(time_), WallTime(time_ + std::chrono::hours(1))}; }
  bool AllComplete() const {
    return std::all_of(parts_.begin(), parts_.end(), [](const auto& one) { return one->driver->complete(); });
  }
  /// How often each task succeeded, by all journals.
  std::map<uint32_t, int> Successes() const {
    std::map<uint32_t, int> successes;
    for (const auto& one : parts_) {
      for (const journal::AttemptRecord& record : one->journal.history.attempts) {
        if (record.end == journal::End::kExited && record.code == 0) ++successes[record.task.value];
      }
    }
    return successes;
  }
  std::set<std::pair<uint32_t, uint32_t>> linked() const { return linked_; }

 private:
  run::StoredFlow flow_;
  const bool via_supervisor_;
  test::FakeEventLoop loop_;
  Duration time_{std::chrono::seconds(1)};
  std::vector<std::unique_ptr<One>> parts_;
  std::set<std::pair<uint32_t, uint32_t>> linked_;
};

std::vector<TinyTask> Independent(size_t count) {
  std::vector<TinyTask> tasks(count);
  for (size_t i = 0; i < count; ++i) tasks[i].name = "t" + std::to_string(i);
  return tasks;
}

TEST(OtherServers, GetTheirShareOfWhatIsReady) {
  Several run(Independent(60), {2, 4});
  EXPECT_EQ(run[0].driver->scheduler().counts().elsewhere, 0u);
  EXPECT_EQ(run[1].driver->scheduler().counts().elsewhere, 60u);
  EXPECT_TRUE(run[1].runs.empty());
  EXPECT_FALSE(run[1].driver->complete()) << "the other one has open tasks";
  run.ConnectAll();
  EXPECT_TRUE(run[0].others->is_supervisor());
  EXPECT_FALSE(run[1].others->is_supervisor());
  for (int i = 0; i < 4; ++i) {
    run.Report();
    run.Settle();
  }
  EXPECT_EQ(run[1].runs.size(), 4u) << "all slots are in use";
  pb::AllocationStatus of_giver, of_taker;
  run[0].others->Snapshot(&of_giver);
  run[1].others->Snapshot(&of_taker);
  EXPECT_GT(of_giver.gave(), 20u);
  EXPECT_EQ(of_taker.took(), of_giver.gave());
  EXPECT_EQ(of_taker.gave() + of_giver.took(), 0u);
  EXPECT_EQ(of_taker.part(), 1u);
  EXPECT_TRUE(of_giver.supervisor() && !of_taker.supervisor());
  EXPECT_EQ(of_giver.ready(), run[0].driver->scheduler().counts().ready);
  EXPECT_GT(of_giver.messages(), 4u);
  const auto& there = run[1].driver->scheduler().counts();
  EXPECT_EQ(there.elsewhere + run[0].driver->scheduler().counts().elsewhere, 60u);
}

TEST(OtherServers, AreToldHowTasksEndedWhenThatIsOnDisk) {
  Several run({{.name = "a", .command = "a", .out = {"f"}}, {.name = "b", .command = "b", .in = {"f"}, .out = {"g"}}, {.name = "c", .command = "c", .in = {"g"}}}, {1, 1});
  run.ConnectAll();
  run.Settle();
  ASSERT_TRUE(run[0].runs.contains(0));
  run.End(0, 0);
  while (run.Carry(0, 1)) {}
  EXPECT_EQ(run[1].driver->scheduler().state(TaskId(0)), core::TaskState::kElsewhere);
  run.Commit(0);
  while (run.Carry(0, 1)) {}
  EXPECT_EQ(run[1].driver->scheduler().state(TaskId(0)), core::TaskState::kDone);
  run.Settle();
  run.End(0, 1, 3);
  run.Settle();
  EXPECT_EQ(run[1].driver->scheduler().state(TaskId(1)), core::TaskState::kFailed);
  EXPECT_EQ(run[1].driver->scheduler().state(TaskId(2)), core::TaskState::kSkipped);
  EXPECT_EQ(run[1].ended_elsewhere, (std::map<uint32_t, int32_t>{{1, 3}}));
  EXPECT_TRUE(run.AllComplete());
}

TEST(OtherServers, OfAServerThatComesLaterKnowAllThatHasEnded) {
  Several run({{.name = "a", .command = "a", .out = {"f"}}, {.name = "b", .command = "b", .in = {"f"}}}, {1, 1});
  run.End(0, 0);
  run.Settle();
  run.ConnectAll();
  run.Settle();
  EXPECT_EQ(run[1].driver->scheduler().state(TaskId(0)), core::TaskState::kDone);
}

TEST(OtherServers, MayNotSpeakForOthersOrOfTasksThatAreNotThere) {
  Several run(Independent(2), {1, 1});
  run.ConnectAll();
  pb::BetweenServers message;
  pb::TasksOffered* offer = message.add_offered();
  offer->mutable_id()->set_giver(2);
  offer->mutable_id()->set_number(1);
  offer->add_task(0);
  EXPECT_EQ(run[1].others->Take(0, message).code(), Code::kInvalid);
  offer->mutable_id()->set_giver(0);
  offer->set_task(0, 2);
  const Status refused = run[1].others->Take(0, message);
  EXPECT_EQ(refused.code(), Code::kInvalid);
  EXPECT_EQ(refused.message(), "it names task 2, and the run has 2");
  EXPECT_TRUE(run[1].journal.history.moves.empty());
}

/// What is on its way from a server, the last one first.
std::vector<pb::BetweenServers> Sent(Several* run, uint32_t from, uint32_t to) {
  std::vector<pb::BetweenServers> messages;
  for (const std::string& bytes : (*run)[from].to[to]) {
    pb::BetweenServers message;
    EXPECT_TRUE(message.ParseFromString(bytes));
    messages.insert(messages.begin(), std::move(message));
  }
  return messages;
}

/// What one wants moved says which tasks: of the shape that was reported, and then what waits for others.
TEST(OtherServers, PassOnWhatClientsSubmitToThem) {
  Several run(Independent(2), {1, 1});
  pb::PassedSubmission passed;
  passed.mutable_request()->set_id("x");
  run[1].others->SendSubmission(0, passed);
  EXPECT_TRUE(run[1].to[0].empty()) << "nobody is connected";
  run.ConnectAll();
  EXPECT_EQ(run[0].connections_changed, 1u);
  run[1].others->SendSubmission(0, passed);
  run.Settle();
  EXPECT_EQ(run[0].submissions, std::vector<std::string>{"1:x"});
  pb::SubmissionAnswered answer;
  answer.set_id("x");
  answer.mutable_taken()->add_task(1);
  run[0].others->AnswerSubmission(1, answer);
  run.Settle();
  EXPECT_EQ(run[1].submissions, std::vector<std::string>{"answered:x"});
  // No task is there that the run does not have.
  pb::BetweenServers message;
  answer.mutable_taken()->add_task(2);
  answer.mutable_taken()->add_task(0);
  *message.add_submitted() = answer;
  EXPECT_EQ(run[1].others->Take(0, message).code(), Code::kInvalid);
  run.Cut(0, 1);
  EXPECT_EQ(run[1].connections_changed, 2u);
  EXPECT_EQ(run[1].submissions.size(), 1u);
}

TEST(OtherServers, AreAskedForWhatTheyReported) {
  Several run(Independent(1), {1, 1, 1});
  run.ConnectAll();
  run.Settle();
  pb::QueueShape shape;
  shape.set_cores(3);
  shape.set_gpus(2);
  shape.set_memory(1 << 20);
  shape.set_whole_node(true);
  for (const uint32_t part : {1u, 2u}) {
    pb::BetweenServers message;
    pb::ServerReport& report = *message.mutable_report();
    report.set_number(1000);
    report.set_draining(part == 1);
    report.set_waiting(part == 1 ? 7 : 0);
    pb::QueueReport& queue = *report.add_queue();
    *queue.mutable_shape() = shape;
    queue.set_ready(part == 1 ? 10 : 0);
    queue.set_workers(4);
    queue.set_capacity(4);
    // What is no pace changes nothing.
    for (const double bad : {-5.0, std::numeric_limits<double>::quiet_NaN(), 1e300}) {
      for (const auto& [count, seconds] : {std::pair(bad, 100.0), {100.0, bad}}) {
        pb::KindPace& pace = *report.add_pace();
        pace.set_count(count);
        pace.set_seconds(seconds);
      }
    }
    ASSERT_TRUE(run[0].others->Take(part, message).ok());
  }
  run.Report();
  uint64_t asked = 0, waiting = 0;
  for (const pb::BetweenServers& message : Sent(&run, 0, 1)) {
    for (const pb::MoveAsked& move : message.asked()) {
      EXPECT_TRUE(move.waiting() || move.shape().SerializeAsString() == shape.SerializeAsString()) << move.ShortDebugString();
      (move.waiting() ? waiting : asked) += move.count();
    }
  }
  EXPECT_EQ(asked, 10u);
  EXPECT_EQ(waiting, 7u);
}

/// A move that was asked for is told of until it is over, so that nobody counts on the tasks twice.
TEST(OtherServers, TellOfMovesThatAreUnderWayAndHowFastTheyAre) {
  Several run(Independent(8), {1, 1});
  run.ConnectAll();
  run.Settle();
  // The second part's tasks, which the first one wants.
  pb::BetweenServers offer;
  pb::TasksOffered* all = offer.add_offered();
  all->mutable_id()->set_giver(0);
  all->mutable_id()->set_number(77);
  for (uint32_t task = 1; task < 8; ++task) all->add_task(task);
  ASSERT_TRUE(run[1].others->Take(0, offer).ok());
  run.Commit(1);
  run.End(1, run[1].runs.begin()->first);
  run.Commit(1);
  run[1].to[0].clear();
  pb::BetweenServers message;
  pb::MoveAsked* asked = message.add_asked();
  asked->mutable_id()->set_epoch(2048);
  asked->mutable_id()->set_number(5);
  asked->set_to(0);
  asked->mutable_shape()->set_cores(1);
  asked->mutable_shape()->set_nodes(1);
  asked->set_count(3);
  ASSERT_TRUE(run[1].others->Take(0, message).ok());
  run.Report();
  for (const pb::BetweenServers& each : Sent(&run, 1, 0)) {
    if (!each.has_report()) continue;
    ASSERT_EQ(each.report().offer_size(), 1);
    EXPECT_EQ(each.report().offer(0).id().number(), 5u);
    EXPECT_EQ(each.report().offer(0).to(), 0u);
    EXPECT_EQ(each.report().offer(0).count(), 3u);
    ASSERT_EQ(each.report().pace_size(), 1);
    EXPECT_NEAR(each.report().pace(0).count(), 1, 1e-9);
    EXPECT_NEAR(each.report().pace(0).seconds(), 0.001, 1e-9);
    return;
  }
  FAIL() << "no report";
}

/// It starts nothing more, what runs ends by itself, and all else goes to the other one, also what waits.
TEST(OtherServers, OneThatDrainsGivesAllThatDoesNotRun) {
  std::vector<TinyTask> tasks = Independent(10);
  tasks.push_back({.name = "a", .command = "a", .out = {"f"}});
  tasks.push_back({.name = "b", .command = "b", .in = {"f"}});
  Several run(tasks, {2, 1});
  run.ConnectAll();
  run.Settle();
  const std::map<uint32_t, uint32_t> before = run[0].runs;
  ASSERT_EQ(before.size(), 2u);
  run[0].driver->Drain();
  for (int i = 0; i < 6; ++i) {
    run.Report();
    run.Settle();
  }
  EXPECT_EQ(run[0].runs, before);
  const core::Counts& counts = run[0].driver->scheduler().counts();
  EXPECT_EQ(counts.ready + counts.waiting, 0u);
  EXPECT_FALSE(run[0].driver->nothing_runs());
  for (const auto& [task, attempt] : before) run.End(0, task);
  EXPECT_TRUE(run[0].driver->nothing_runs());
  run.Start(0);
  EXPECT_FALSE(run[0].driver->draining()) << "one that is started again has to be asked again";
  for (int i = 0; i < 40 && !run.AllComplete(); ++i) {
    run.ConnectAll();
    run.Report();
    run.Settle();
    for (const uint32_t part : {0u, 1u}) {
      while (!run[part].runs.empty()) run.End(part, run[part].runs.begin()->first);
    }
  }
  EXPECT_TRUE(run.AllComplete());
  EXPECT_EQ(run.Successes().size(), 12u);
}

graph::Profile Writes() {
  graph::Profile profile;
  profile.checkpoint.by = graph::Checkpointing::By::kApp;
  return profile;
}

/// What somebody moves waits for room there, though there is some where it was; but for one that drains.
TEST(OtherServers, NoSupervisorUndoesWhatSomebodyMoves) {
  Several run({{"a", "a", {}, {}, Writes()}, {"b", "b"}, {"c", "c"}, {"d", "d", {}, {}, Writes()}}, {2, 1});
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
  Several run({{"a", "a", {}, {}, Writes()}}, {1, 1});
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
    Several run({{"a", "a", {}, {}, Writes()}}, {1, 1});
    run.ConnectAll();
    run.Settle();
    run.Begins(0, 0);
    ASSERT_TRUE(run[0].others->MoveTo(TaskId(0), 1).ok());
    run.Turn(0);
    if (left_meanwhile) run.End(0, 0, 85, pb::Attempt::CHECKPOINTED);
    run.Start(0);
    run[0].others->GoOnMoving();
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
  Several run({{"a", "a", {}, {}, Writes()}}, {1, 1});
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
  Several run({{"a", "a", {}, {"f"}, Writes()}}, {1, 1});
  run.ConnectAll();
  run.Settle();
  run.Begins(0, 0);
  run[0].made[0] = {.task = 0, .attempt = 1, .begin_ns = 1, .end_ns = 2};
  ASSERT_TRUE(run[0].others->MoveTo(TaskId(0), 1).ok());
  run.Turn(0);
  run.LoseAgent(0);
  run[0].others->GoOnMoving();
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

TEST(OtherServers, DecideAsTheRunsSettingsSay) {
  run::RunSettings settings;
  OtherServers::Options plain = OtherServers::Options::Of(settings, 3, 9);
  EXPECT_EQ(plain.part, 3u);
  EXPECT_EQ(plain.epoch, 9u);
  EXPECT_EQ(plain.supervisor.trigger, supervisor::Trigger::kAlways);
  EXPECT_EQ(plain.supervisor.amount, supervisor::Amount::kCapacity);
  EXPECT_DOUBLE_EQ(plain.supervisor.alpha, 0.5);
  EXPECT_TRUE(plain.supervisor.worth_only && !plain.via_supervisor);
  settings.moves = config::Moves::kViaSupervisor;
  settings.move_trigger = config::MoveTrigger::kLow;
  settings.move_amount = config::MoveAmount::kWorkers;
  settings.move_alpha = 20;
  settings.move_all = true;
  settings.report_period = std::chrono::seconds(2);
  const OtherServers::Options other = OtherServers::Options::Of(settings, 0, 1);
  EXPECT_EQ(other.supervisor.trigger, supervisor::Trigger::kLow);
  EXPECT_EQ(other.supervisor.amount, supervisor::Amount::kWorkers);
  EXPECT_DOUBLE_EQ(other.supervisor.alpha, 0.2);
  EXPECT_TRUE(!other.supervisor.worth_only && other.via_supervisor);
  EXPECT_EQ(other.supervisor.period, std::chrono::seconds(2));
  EXPECT_EQ(other.supervisor.silence, std::chrono::seconds(20));
  settings.move_trigger = config::MoveTrigger::kEmpty;
  EXPECT_EQ(OtherServers::Options::Of(settings, 0, 1).supervisor.trigger, supervisor::Trigger::kEmpty);
}

/// How fast it was counts by half after a hundred reports.
TEST(OtherServers, ForgetHowFastTheyWere) {
  Several run(Independent(200), {1, 1});
  run.ConnectAll();
  run.Settle();
  pb::BetweenServers offer;
  pb::TasksOffered* all = offer.add_offered();
  all->mutable_id()->set_giver(0);
  all->mutable_id()->set_number(77);
  for (uint32_t task = 1; task < 50; ++task) all->add_task(task);
  ASSERT_TRUE(run[1].others->Take(0, offer).ok());
  run.Commit(1);
  for (int i = 0; i < 16; ++i) run.End(1, run[1].runs.begin()->first);
  double last = 0, least = 16;
  for (int i = 0; i < 100; ++i) {
    run[1].to[0].clear();
    run.Report();
    for (const pb::BetweenServers& each : Sent(&run, 1, 0)) {
      if (each.has_report() && each.report().pace_size() == 1) last = each.report().pace(0).count();
    }
    least = std::min(least, last);
  }
  EXPECT_NEAR(least, 8, 1e-9);
  EXPECT_NEAR(last, 8, 1e-9);
}

/// What needs others to run fails when there are none any more.
TEST(OtherServers, ThatHaveGoneAreNotWaitedFor) {
  graph::Profile wide;
  wide.shape.cores = 4;
  Several run({{.name = "wide", .command = "x", .profile = wide}, {.name = "t", .command = "t"}}, {4, 1});
  run.ConnectAll();
  run.Settle();
  pb::BetweenServers message;
  pb::TasksOffered* offer = message.add_offered();
  offer->mutable_id()->set_giver(0);
  offer->mutable_id()->set_number(1);
  offer->add_task(0);
  ASSERT_TRUE(run[1].others->Take(0, message).ok());
  run.Commit(1);
  run[1].others->SetAlive(false);
  run.Turn(1);
  EXPECT_EQ(run[1].driver->scheduler().state(TaskId(0)), core::TaskState::kReady) << "the other one is connected";
  run.Cut(0, 1);
  run.Turn(1);
  EXPECT_EQ(run[1].driver->scheduler().state(TaskId(0)), core::TaskState::kFailed);
}

/// What a part that is over left: its open tasks are the other one's, with what was tried of them.
TEST(OtherServers, OfAPartThatIsOverTakeWhatItLeft) {
  Several run(Independent(3), {1, 1});
  run.End(0, 0);
  run.Settle();
  Holdings holdings = *HoldingsOf(0, 3, {});
  holdings.own = {true, false, false};
  holdings.pending[1] = {{0, 1}, 1, {TaskId(1), TaskId(2)}, {{TaskId(1), 2, 1, 4}}};
  OverPart over = {holdings, {{TaskId(0), journal::TaskFate::kDone}}, {}};
  over.endings = {{TaskId(0), journal::End::kSignaled, 9}};
  over.made[2] = {.task = 2, .attempt = 1, .begin_ns = 5, .end_ns = 6};
  run.ConnectAll();
  run[1].others->PartOver(0, over);
  EXPECT_TRUE(run[1].others->connected().empty());
  EXPECT_EQ(run[1].ended_elsewhere, (std::map<uint32_t, int32_t>{{0, 9}}));
  run.Turn(1);
  EXPECT_TRUE(run[1].runs.empty());
  run.Commit(1);
  ASSERT_EQ(run[1].runs.size(), 1u);
  run.End(1, run[1].runs.begin()->first);
  run.Commit(1);
  ASSERT_EQ(run[1].runs.size(), 1u);
  run.End(1, run[1].runs.begin()->first);
  for (const journal::AttemptRecord& attempt : run[1].journal.history.attempts)
    EXPECT_EQ(attempt.attempt, attempt.task == TaskId(1) ? 5u : 1u);
  run.Commit(1);
  EXPECT_TRUE(run[1].driver->complete());
}

/// Whatever is cut and killed, each task succeeds once, and all servers see the end.
void RandomRun(uint64_t seed) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const auto draw = [&](size_t end) { return static_cast<uint32_t>(random() % end); };
  std::vector<TinyTask> tasks(40);
  for (uint32_t i = 0; i < tasks.size(); ++i) {
    tasks[i].name = "t" + std::to_string(i);
    tasks[i].out = {"f" + std::to_string(i)};
    std::set<uint32_t> before;
    for (uint32_t n = draw(3); i > 0 && n > 0; --n) before.insert(draw(i));
    for (const uint32_t each : before) tasks[i].in.push_back("f" + std::to_string(each));
  }
  Several run(tasks, {1 + draw(3), 1 + draw(3), 1 + draw(3)}, seed % 2 == 0);
  for (int step = 0; step < 3000 && !run.AllComplete(); ++step) {
    const uint32_t part = draw(run.size()), other = draw(run.size());
    switch (const uint32_t what = draw(20)) {
      case 0:
        if (draw(8) == 0) run.Start(part);
        break;
      case 1:
        if (draw(4) == 0) run.Cut(part, other);
        break;
      case 2:
      case 3:
        run.Connect(part, other);
        break;
      case 4:
      case 5:
      case 6:
        run.Report();
        break;
      default:
        if (what < 10) {
          run.Carry(part, other);
        } else if (what < 15) {
          run.Commit(part);
        } else if (!run[part].runs.empty()) {
          auto at = run[part].runs.begin();
          std::advance(at, draw(run[part].runs.size()));
          run.End(part, at->first);
        }
    }
    for (const auto& [task, times] : run.Successes()) ASSERT_EQ(times, 1) << "task " << task;
    for (uint32_t task = 0; task < tasks.size(); ++task) {
      int running = 0;
      for (uint32_t i = 0; i < run.size(); ++i) running += run[i].runs.contains(task) ? 1 : 0;
      ASSERT_LE(running, 1) << "task " << task;
    }
  }
  for (int round = 0; round < 200 && !run.AllComplete(); ++round) {
    run.ConnectAll();
    run.Report();
    run.Settle();
    for (uint32_t part = 0; part < run.size(); ++part) {
      while (!run[part].runs.empty()) run.End(part, run[part].runs.begin()->first);
    }
  }
  EXPECT_TRUE(run.AllComplete());
  EXPECT_EQ(run.Successes().size(), tasks.size());
}

/// For comparisons: what two others give each other goes through the supervisor, and what nobody passes on is offered again.
TEST(OtherServers, MovesGoByTheSupervisorWhereThatIsAsked) {
  Several run(Independent(60), {1, 1, 4}, true);
  run.ConnectAll();
  for (int i = 0; i < 300 && !run.AllComplete(); ++i) {
    run.Report();
    run.Settle();
    for (uint32_t part = 0; part < run.size(); ++part) {
      // The second does nothing, so that what it got goes on to the third.
      while (part != 1 && !run[part].runs.empty()) run.End(part, run[part].runs.begin()->first);
    }
    if (i > 30) {
      while (!run[1].runs.empty()) run.End(1, run[1].runs.begin()->first);
    }
  }
  EXPECT_TRUE(run.AllComplete());
  EXPECT_EQ(run.Successes().size(), 60u);
  EXPECT_FALSE(run[1].offered_to.contains(2) || run[2].offered_to.contains(1));
  EXPECT_TRUE(run[1].passed_for.contains(2)) << "what the second had got, and did not begin, went to the third";
  EXPECT_FALSE(run[0].offered_to.empty());
}

TEST(OtherServers, WhoSpeaksForOthersIsRefused) {
  Several run(Independent(4), {1, 1, 1}, true);
  run.ConnectAll();
  pb::BetweenServers message;
  message.mutable_passed()->set_from(2);
  message.mutable_passed()->set_to(2);
  EXPECT_EQ(run[0].others->Take(1, message).code(), Code::kInvalid) << "of another one";
  message.mutable_passed()->set_from(1);
  message.mutable_passed()->set_to(0);
  message.mutable_passed()->set_message("garbage");
  EXPECT_EQ(run[0].others->Take(1, message).code(), Code::kInvalid);
  message.mutable_passed()->set_message(message.SerializeAsString());
  EXPECT_EQ(run[0].others->Take(1, message).code(), Code::kInvalid) << "one in the other";
}

TEST(OtherServers, RunEachTaskOnceWhateverIsCutAndKilled) {
  const char* given = getenv("HARROW_TEST_SEED");
  const uint64_t first = given != nullptr ? strtoull(given, nullptr, 10) : std::random_device{}();
  for (uint64_t seed = first; seed < first + (getenv("HARROW_LONG") != nullptr ? 500 : 20); ++seed) {
    RandomRun(seed);
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace harrow::server
