#include "server/other_servers.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <limits>
#include <map>
#include <random>
#include <set>

#include "unit/server/several_servers.h"

namespace harrow::server {
namespace {

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
  EXPECT_EQ(of_giver.ready(), run[0].driver->scheduler().counts().ready);
  EXPECT_GT(of_giver.messages(), 4u);
  const auto& there = run[1].driver->scheduler().counts();
  EXPECT_EQ(there.elsewhere + run[0].driver->scheduler().counts().elsewhere, 60u);
}

TEST(OtherServers, WhereFilesAreSharedNobodySpeaksOfThem) {
  Several run({{.name = "a", .command = "a"}}, {1, 1});
  run.ConnectAll();
  run.Settle();
  pb::BetweenServers asked, made, not_had;
  asked.add_files_asked();
  made.add_files_made();
  not_had.add_files_not_had(0);
  for (const pb::BetweenServers& message : {asked, made, not_had})
    EXPECT_EQ(run[1].others->Take(0, message).code(), Code::kInvalid) << message.ShortDebugString();
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
  run.SayRecords();
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

TEST(OtherServers, DecideAsBefore) {
  test::Trail trail("server.moves");
  for (uint64_t seed = 1; seed <= 10; ++seed) RandomRun(seed);
  trail.Compare();
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
