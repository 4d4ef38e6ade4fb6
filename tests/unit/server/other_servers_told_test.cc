// What servers tell each other of their end, and of one that is over.
#include "unit/server/several_servers.h"

namespace harrow::server {
namespace {

/// What is on its way from a server to another one.
std::vector<pb::BetweenServers> OnTheWay(Several* run, uint32_t from, uint32_t to) {
  std::vector<pb::BetweenServers> messages;
  for (const std::string& bytes : (*run)[from].to[to]) EXPECT_TRUE(messages.emplace_back().ParseFromString(bytes));
  return messages;
}

TEST(OtherServersTold, AReportSaysWhenTheAllocationEnds) {
  Several run({{.name = "a", .command = "a"}}, {1, 1});
  run.ConnectAll();
  run.Settle();
  const auto told = [&] {
    run[1].to[0].clear();
    run.Report();
    std::vector<int64_t> all;
    for (const pb::BetweenServers& each : OnTheWay(&run, 1, 0)) {
      if (each.has_report()) all.push_back(each.report().ends_in_ns());
    }
    return all;
  };
  EXPECT_EQ(told(), std::vector<int64_t>{0}) << "it is not known";
  run[1].driver->EndTime(run.Now(), run.Now().wall + std::chrono::minutes(5));
  // One more than so many nanoseconds, as 0 is that it is not known; a report is made each 100 ms.
  EXPECT_EQ(told(), std::vector<int64_t>{299'900'000'001});
  run[1].driver->EndTime(run.Now(), run.Now().wall - std::chrono::minutes(1));
  EXPECT_EQ(told(), std::vector<int64_t>{1});
}

TEST(OtherServersTold, AReportSaysHowLongTheKindsOfMostTasksTake) {
  std::vector<TinyTask> tasks;
  for (uint32_t i = 0; i < 20; ++i) tasks.push_back({.name = StrCat("t", i), .command = "x", .kind = StrCat("kind", i)});
  Several run(tasks, {1, 1});
  run.ConnectAll();
  run.Settle();
  run[1].to[0].clear();
  journal::AttemptRecord done;
  done.attempt = 1;
  done.start_ns = 1'000'000'000;
  done.end_ns = 3'000'000'000;
  for (uint32_t i = 0; i < 20; ++i) {
    done.task = TaskId(i);
    for (uint32_t n = 0; n <= i; ++n) run[1].others->AttemptEnded(done);
  }
  run.Report();
  std::map<uint32_t, std::pair<double, double>> told, most;
  for (const pb::BetweenServers& each : OnTheWay(&run, 1, 0)) {
    for (const pb::KindPace& pace : each.report().pace()) told[pace.kind()] = {pace.count(), pace.seconds()};
  }
  for (uint32_t i = 4; i < 20; ++i) most[run.graph().kind(TaskId(i)).value] = {i + 1, 2 * (i + 1)};
  EXPECT_EQ(told, most);
}

TEST(OtherServersTold, OneThatIsOverIsToGetNothingMore) {
  for (const bool over : {false, true}) {
    Several run({{.name = "a", .command = "a"}}, {1, 1, 1});
    run.ConnectAll();
    run.Settle();
    const auto tell = [&](uint32_t part, uint64_t ready) {
      pb::BetweenServers message;
      pb::ServerReport& report = *message.mutable_report();
      report.set_number(1000);
      pb::QueueReport& queue = *report.add_queue();
      queue.mutable_shape()->set_cores(3);
      queue.mutable_shape()->set_nodes(1);
      queue.set_ready(ready);
      queue.set_workers(4);
      queue.set_capacity(4);
      ASSERT_TRUE(run[0].others->Take(part, message).ok());
    };
    tell(1, 0);
    if (over) run[0].others->PartOver(1, {*HoldingsOf(1, 1, {}), {}, {}});
    tell(2, 10);
    run.Report();
    uint64_t asked = 0;
    for (const pb::BetweenServers& message : OnTheWay(&run, 0, 2)) {
      for (const pb::MoveAsked& move : message.asked()) asked += move.to() == 1 ? move.count() : 0;
    }
    EXPECT_EQ(asked, over ? 0u : 5u);
  }
}

/// What was tried of a task before it came is known to the server that is started after the one that took it.
TEST(OtherServersTold, ATaskThatCameGoesOnWithItsNumbersAfterARestart) {
  Several run({{.name = "a", .command = "a"}, {.name = "b", .command = "b"}}, {1, 1});
  run.ConnectAll();
  run.Settle();
  Holdings holdings = *HoldingsOf(0, 2, {});
  holdings.own = {true, false};
  holdings.pending[1] = {{0, 1}, 1, {TaskId(1)}, {{TaskId(1), 2, 1, 4}}};
  run[1].others->PartOver(0, {holdings, {{TaskId(0), journal::TaskFate::kDone}}, {}});
  run.Turn(1);
  run[1].driver->Committed(run[1].journal.sequence);
  run[1].others->Committed(run[1].journal.sequence);
  run[1].runs.clear();
  run.Start(1);
  for (int i = 0; i < 20 && run[1].runs.empty(); ++i) {
    run[1].driver->Tick(run.Now());
    run.Turn(1);
  }
  EXPECT_EQ(run[1].runs, (std::map<uint32_t, uint32_t>{{1, 5}}));
}

}  // namespace
}  // namespace harrow::server
