#include "report/summary.h"

#include <gtest/gtest.h>
#include <map>

#include "base/text.h"
#include "report/json.h"
#include "report/run_view.h"
#include "sample_run.h"

namespace harrow::report {
namespace {

using journal::End;
using journal::TaskFate;
using test::kBegin;
using test::kMs;
using test::RunBuilder;

/// Serves tails from a table, as output files would.
class FakeReader : public output::Reader {
 public:
  Status ReadAttempt(output::FileNumber, uint64_t, TaskId, uint32_t,
                     const std::function<void(const output::Piece&)>&) override {
    return {};
  }
  Result<std::string> Tail(output::FileNumber file, uint64_t offset, TaskId task, uint32_t attempt,
                           output::Stream stream, size_t bytes, std::optional<uint32_t> rank) override {
    asked.push_back(StrCat(file, "@", offset, " ", task.value, ".", attempt,
                           stream == output::Stream::kStderr ? " stderr" : " stdout",
                           rank ? StrCat(" of rank ", *rank) : ""));
    if (rank) return of_ranks[*rank];
    const auto at = tails.find(task.value);
    if (at == tails.end()) return Status(Code::kDamaged, "output/3.out is cut");
    return at->second.substr(at->second.size() - std::min(bytes, at->second.size()));
  }
  Status ReadNew(const std::function<void(output::FileNumber, const output::Piece&)>&) override { return {}; }

  std::map<output::FileNumber, std::string> tails, of_ranks;
  std::vector<std::string> asked;
};

TEST(FiguresOf, CountsAndSums) {
  const journal::History history = test::SampleRun();
  const Figures view = FiguresOf(history);
  EXPECT_EQ(view.total, 6u);
  EXPECT_EQ(view.done, 2u);
  EXPECT_EQ(view.failed, 2u);
  EXPECT_EQ(view.skipped, 1u);
  EXPECT_EQ(view.cancelled, 1u);
  EXPECT_EQ(view.attempts, 5u);
  EXPECT_EQ(view.losses, 1u);
  EXPECT_EQ(view.local_bytes, 300u);
  EXPECT_EQ(view.remote_bytes, 100u);
  EXPECT_EQ(view.slots, 4u);
  EXPECT_EQ(view.makespan, std::chrono::seconds(10));
  EXPECT_DOUBLE_EQ(view.core_seconds, 2 + 1 + 4 + 2 * 6);
  EXPECT_TRUE(view.complete);
  EXPECT_DOUBLE_EQ(view.CoreUtilisation(), 19.0 / 40);
}

TEST(FiguresOf, ARunWithoutEndCountsToItsLastRecord) {
  RunBuilder run;
  run.Node(0, "n", 1).Task("a", "a", TaskFate::kDone).Task("b", "b", TaskFate::kOpen);
  run.Attempt(0, 0, 500, 1500);
  run.Times(0, -1);
  const Figures view = FiguresOf(run.history);
  EXPECT_FALSE(view.complete);
  EXPECT_EQ(view.open(), 1u);
  EXPECT_EQ(view.makespan, std::chrono::milliseconds(1500));
}

// Four slots for ten seconds, killed; an hour later two slots of another node for five.
RunBuilder Resumed() {
  RunBuilder run;
  run.Node(0, "old", 4).Node(1, "new", 2, 3'600'000);
  for (int i = 0; i < 6; ++i) run.Task(StrCat("t", i), "t", TaskFate::kDone);
  for (uint32_t i = 0; i < 4; ++i) run.Attempt(i, 0, 0, 9000);
  run.Attempt(4, 0, 9000, 10000, End::kInterrupted);
  run.Attempt(4, 1, 3'600'000, 3'605'000);
  run.Attempt(5, 1, 3'600'000, 3'605'000);
  run.Times(0, -1).Times(3'600'000, 3'605'000);
  return run;
}

TEST(FiguresOf, EverySessionHasItsLengthAndItsSlots) {
  const RunBuilder run = Resumed();
  const Figures view = FiguresOf(run.history);
  EXPECT_EQ(view.sessions, 2u);
  EXPECT_EQ(view.slots, 2u);
  EXPECT_EQ(view.makespan, std::chrono::seconds(15));
  EXPECT_DOUBLE_EQ(view.slot_seconds, 4 * 10 + 2 * 5);
  EXPECT_DOUBLE_EQ(view.CoreUtilisation(), 47.0 / 50);
  EXPECT_EQ(SummaryLine(view),
            "done 6 of 6, failed 0, skipped 0; 15.0 s in 2 sessions, 94.0 % of their slots busy");
  const RunView all(run.history);
  EXPECT_EQ(all.TimeInRun(kBegin + 9000 * kMs), std::chrono::seconds(9));
  EXPECT_EQ(all.TimeInRun(kBegin + 60'000 * kMs), std::chrono::seconds(10)) << "between two sessions";
  EXPECT_EQ(all.TimeInRun(kBegin + 3'602'000 * kMs), std::chrono::seconds(12));
}

TEST(FiguresOf, AResumeThatFoundNothingToDoIsNoSession) {
  RunBuilder run = Resumed();
  run.Node(2, "idle", 8, 7'200'050).Times(7'200'000, 7'200'100);
  const Figures view = FiguresOf(run.history);
  EXPECT_EQ(view.sessions, 2u);
  EXPECT_EQ(view.slots, 2u);
  EXPECT_EQ(view.makespan, std::chrono::seconds(15));
}

TEST(FiguresOf, WhatALaterSessionFindsOutIsNotTheEndOfAKilledOne) {
  RunBuilder run;
  run.Node(0, "n", 1).Task("a", "a", TaskFate::kDone);
  run.history.nodes[0].left_ns = kBegin + 100'000 * kMs;  // recorded when the run was resumed
  run.Node(0, "n", 1, 100'000);
  run.Attempt(0, 0, 0, 100'000, End::kLost);
  run.Attempt(0, 0, 100'000, 101'000);
  run.Attempt(0, 0, 500, 1500, End::kExited, 1);
  run.Times(0, -1).Times(100'000, 101'000);
  EXPECT_EQ(FiguresOf(run.history).makespan, std::chrono::milliseconds(1500 + 1000));
}

TEST(FiguresOf, AClockThatWasSetBackTurnsNothingRound) {
  RunBuilder run;
  run.Node(0, "n", 1).Task("a", "a", TaskFate::kDone);
  run.Attempt(0, 0, 0, 1000);
  run.Times(0, 2000).Times(-5000, -4000);
  const Figures view = FiguresOf(run.history);
  EXPECT_GE(view.makespan, Duration(0));
  EXPECT_EQ(view.sessions, 1u);
}

TEST(FiguresOf, AnEmptyHistory) {
  const Figures view = FiguresOf(journal::History{});
  EXPECT_EQ(view.total, 0u);
  EXPECT_EQ(view.makespan, Duration(0));
  EXPECT_EQ(SummaryLine(view), "done 0 of 0, failed 0, skipped 0; 0 s");
}

TEST(EndText, EveryEnd) {
  journal::AttemptRecord a;
  a.code = 3;
  EXPECT_EQ(EndText(a), "exit 3");
  a.end = End::kSignaled;
  a.code = 9;
  EXPECT_EQ(EndText(a), "signal 9 (SIGKILL)");
  a.code = 40;
  EXPECT_EQ(EndText(a), "signal 40");
  a.end = End::kTimedOut;
  EXPECT_EQ(EndText(a), "timed out");
  a.end = End::kOutOfMemory;
  EXPECT_EQ(EndText(a), "out of memory");
  a.end = End::kCancelled;
  EXPECT_EQ(EndText(a), "cancelled");
  a.end = End::kInterrupted;
  EXPECT_EQ(EndText(a), "interrupted");
  a.end = End::kNotStarted;
  EXPECT_EQ(EndText(a), "not started");
  a.message = "x: command not found";
  EXPECT_EQ(EndText(a), "not started: x: command not found");
  a.end = End::kLost;
  EXPECT_EQ(EndText(a), "lost with its node");
  a.message = "it was asked for a checkpoint, and left no file";
  EXPECT_EQ(EndText(a), a.message);
  a.end = End::kCheckpointed;
  EXPECT_EQ(EndText(a), a.message);
  a.message.clear();
  EXPECT_EQ(EndText(a), "left a checkpoint");
}

TEST(FirstFailures, WithTheTailOfStderr) {
  const journal::History history = test::SampleRun();
  FakeReader reader;
  reader.tails[2] = "reading grid\nNaN in cell 7\n";
  auto failures = FirstFailures(history, &reader);
  EXPECT_EQ(reader.asked, std::vector<std::string>{"3@77 2.1 stderr"});
  EXPECT_EQ(failures[0].id, TaskId(2));
  failures[0].command = "solve --grid 7";
  EXPECT_EQ(FailuresText(failures, 2, "harrow logs --failed"),
            "failed: big (signal 11 (SIGSEGV), on node2)\n"
            "  $ solve --grid 7\n"
            "  | reading grid\n"
            "  | NaN in cell 7\n"
            "failed: typo (not started: plto: command not found, on node1)\n");
}

TEST(FirstFailures, OfSeveralNodesTheTailOfTheRankThatFailed) {
  RunBuilder run;
  run.Node(0, "n1", 2).Node(1, "n2", 2).Task("wide", "t", TaskFate::kFailed);
  auto& attempt = run.Attempt(0, 0, 0, 10, End::kExited, 7);
  attempt.message = "rank 2 of 4 on n2 called MPI_Abort with 7";
  attempt.stderr_bytes = 30;
  run.Part(0, 0, 2, End::kLost);
  auto& part = run.Part(1, 1, 2, End::kExited, 7);
  part.output_file = 9;
  part.output_offset = 32;
  part.stderr_bytes = 30;
  FakeReader reader;
  reader.of_ranks[2] = "no such grid\n";
  reader.tails[0] = "all of them\n";
  EXPECT_EQ(FailuresText(FirstFailures(run.history, &reader), 1, ""),
            "failed: wide (exit 7: rank 2 of 4 on n2 called MPI_Abort with 7, on n1, n2)\n"
            "  | no such grid\n");
  EXPECT_EQ(reader.asked, std::vector<std::string>{"9@32 0.1 stderr of rank 2"});
  reader.of_ranks.clear();
  EXPECT_EQ(FirstFailures(run.history, &reader)[0].stderr_tail, "all of them")
      << "where it has said nothing, or nobody knows what";
}

TEST(FirstFailures, OfOneNodeTheTailOfTheRankThatFailed) {
  RunBuilder run;
  run.Node(0, "n1", 2).Task("mpi", "t", TaskFate::kFailed);
  auto& attempt = run.Attempt(0, 0, 0, 10, End::kExited, 1);
  attempt.message = "rank 1 of 2";
  attempt.stderr_bytes = 12;
  FakeReader reader;
  reader.of_ranks[1] = "mine\n";
  EXPECT_EQ(FirstFailures(run.history, &reader)[0].stderr_tail, "mine");
}

TEST(FirstFailures, NotMoreThanAskedInTheOrderOfTheirEnds) {
  RunBuilder run;
  run.Node(0, "n", 1);
  for (int i = 0; i < 7; ++i) run.Task(StrCat("t", i), "t", TaskFate::kFailed);
  for (uint32_t i = 7; i-- > 0;) run.Attempt(i, 0, 0, 10, End::kExited, 1);
  run.Attempt(6, 0, 10, 20, End::kExited, 2);  // tried again: it failed last
  const auto failures = FirstFailures(run.history, nullptr, 2);
  ASSERT_EQ(failures.size(), 2u);
  EXPECT_EQ(failures[0].task, "t5");
  EXPECT_EQ(failures[1].task, "t4");
  EXPECT_EQ(FailuresText(failures, 7, "harrow logs --failed"),
            "failed: t5 (exit 1, on n)\n"
            "failed: t4 (exit 1, on n)\n"
            "... and 5 more failed; harrow logs --failed shows them\n");
  const auto all = FirstFailures(run.history, nullptr, 100);
  EXPECT_EQ(all.back().task, "t6");
  EXPECT_EQ(all.back().attempt, 2u);
  EXPECT_EQ(all.back().how, "exit 2");
}

TEST(FirstFailures, ATaskThatFailedAndIsDoneAfterAllIsNone) {
  RunBuilder run;
  run.Task("t", "t", TaskFate::kDone);
  run.Attempt(0, 0, 0, 10, End::kExited, 1);
  run.Attempt(0, 0, 10, 20);
  EXPECT_TRUE(FirstFailures(run.history, nullptr).empty());
  EXPECT_EQ(FailuresText({}, 0, "x"), "");
}

TEST(FirstFailures, LongAndBinaryAndUnreadableOutput) {
  RunBuilder run;
  run.Node(0, "n", 1)
      .Task("long", "t", TaskFate::kFailed)
      .Task("binary", "t", TaskFate::kFailed)
      .Task("lost", "t", TaskFate::kFailed);
  for (uint32_t i = 0; i < 3; ++i) run.Attempt(i, 0, 0, 10, End::kExited, 1).stderr_bytes = 1000;
  FakeReader reader;
  for (int i = 0; i < 30; ++i) reader.tails[0] += StrCat("line ", i, "\n");
  reader.tails[1] = "\x1b[31mred\x1b[0m\tafter a tab \xff\r\n\n\n";
  const auto failures = FirstFailures(run.history, &reader, 5, 3);
  EXPECT_EQ(FailuresText(failures, 3, ""),
            "failed: long (exit 1, on n)\n"
            "  | ...\n"
            "  | line 27\n"
            "  | line 28\n"
            "  | line 29\n"
            "failed: binary (exit 1, on n)\n"
            "  | ...\n"
            "  | \\x1b[31mred\\x1b[0m\tafter a tab \\xff\\r\n"
            "failed: lost (exit 1, on n)\n"
            "  | (its output cannot be read: output/3.out is cut)\n");
}

TEST(SummaryLine, AllFigures) {
  const journal::History history = test::SampleRun();
  Figures view = FiguresOf(history);
  EXPECT_EQ(SummaryLine(view),
            "done 2 of 6, failed 2, skipped 1, cancelled 1; 10.0 s, 47.5 % of 4 slots busy, 75.0 % of input "
            "bytes local, "
            "1 attempt lost");
  view.bytes_moved = 3 << 20;
  view.losses = 2;
  view.total = 7;
  EXPECT_EQ(SummaryLine(view),
            "done 2 of 7, failed 2, skipped 1, cancelled 1, not run 1; 10.0 s, 47.5 % of 4 slots busy, "
            "75.0 % of input bytes local, 3.0 MiB moved, 2 attempts lost");
}

TEST(StatusJson, TheWholeDocument) {
  const journal::History history = test::SampleRun();
  StatusContext context;
  context.run_dir = "runs/harrow-1";
  context.run_id = "ab12";
  context.state = "ended";
  context.source = "journal";
  context.epoch = 2;
  EXPECT_EQ(StatusJson(FiguresOf(history), context),
            "{\"version\":1,\"run\":\"ab12\",\"run_dir\":\"runs/"
            "harrow-1\",\"state\":\"ended\",\"source\":\"journal\",\"epoch\":2,"
            "\"tasks\":{\"total\":6,\"done\":2,\"failed\":2,\"skipped\":1,\"cancelled\":1,\"pruned\":0,\"running\":0},"
            "\"makespan_s\":10.000000,\"core_utilisation\":0.4750,\"sessions\":1,\"slots\":4,\"attempts\":5,"
            "\"losses\":1,"
            "\"input_bytes\":{\"local\":300,\"remote\":100,\"home\":300},\"bytes_moved\":0,\"shared_read_"
            "bytes\":0,\"written_back_bytes\":0}\n");
  context.note = "x";
  context.with_nodes = true;
  context.nodes = {{"n1", 2, 1, 7, "joined", 1}};
  context.with_failures = true;
  context.failures = {{.id = TaskId(2),
                       .task = "big",
                       .attempt = 1,
                       .node = "node2",
                       .how = "exit 1",
                       .stderr_tail = "a\nb"}};
  const std::string text = StatusJson(Figures{}, context);
  EXPECT_NE(text.find("\"note\":\"x\""), std::string::npos);
  EXPECT_NE(text.find("\"nodes\":[{\"name\":\"n1\",\"slots\":2,\"running\":1,\"ended\":7,\"state\":"
                      "\"joined\",\"incarnations\":1}]"),
            std::string::npos);
  EXPECT_NE(text.find("\"failed\":[{\"task\":\"big\",\"attempt\":1,\"node\":\"node2\",\"how\":\"exit "
                      "1\",\"stderr_tail\":\"a\\nb\"}]"),
            std::string::npos);
}

TEST(JsonWriter, EscapesAndSeparates) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject()
      .Member("a\"b\\", "\n\t\r\x01\x7f")
      .Key("c")
      .BeginArray()
      .Int(-1)
      .Uint(UINT64_MAX)
      .Fixed(0.5, 3);
  json.Fixed(1.0 / 0.0, 2).Bool(true).Null().BeginObject().EndObject().BeginArray().EndArray().EndArray();
  json.Member("d", "gr\xC3\xBC\xC3\x9F\x65 \xff\xC3").EndObject();
  EXPECT_EQ(out,
            "{\"a\\\"b\\\\\":\"\\n\\t\\r\\u0001\\u007f\",\"c\":[-1,18446744073709551615,0.500,null,true,null,"
            "{},[]],"
            "\"d\":\"gr\xC3\xBC\xC3\x9F\x65 \xEF\xBF\xBD\xEF\xBF\xBD\"}");
}

}  // namespace
}  // namespace harrow::report
