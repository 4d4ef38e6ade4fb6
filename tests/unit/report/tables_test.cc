#include "report/tables.h"

#include <gtest/gtest.h>
#include <sstream>

#include "base/text.h"
#include "report/aggregate.h"
#include "report/plot.h"
#include "sample_run.h"

namespace harrow::report {
namespace {

using journal::TaskFate;
using test::RunBuilder;

class TablesTest : public testing::Test {
 protected:
  std::vector<size_t> All(const Filter& filter = {}) {
    auto selected = Select(run_, filter);
    EXPECT_TRUE(selected.ok());
    return *selected;
  }
  Sink Into() {
    return [this](std::string_view text) {
      out_ += text;
      return true;
    };
  }
  const journal::History history_ = test::SampleRun();
  const RunView run_{history_};
  std::string out_;
};

TEST_F(TablesTest, Csv) {
  WriteCsv(run_, All(), false, Into());
  EXPECT_EQ(out_,
            "task,number,kind,level,cores,state,because,attempts,attempt,node,start,end,run_time_s,how,exit_"
            "code,signal,"
            "user_s,system_s,max_rss_kib,stdout_bytes,stderr_bytes,output_truncated,local_bytes,remote_bytes,"
            "home_bytes,pinned,message\n"
            "make-1,1,make,0,1,done,,1,1,node1,2026-03-01T09:30:00.000000Z,2026-03-01T09:30:02.000000Z,2."
            "000000,exited,0,,"
            "1.500000,0.250000,2048,10,0,0,300,0,300,,\n"
            "make-2,2,make,0,1,done,,2,2,node2,2026-03-01T09:30:01.000000Z,2026-03-01T09:30:05.000000Z,4."
            "000000,exited,0,,"
            "0.000000,0.000000,,0,0,0,0,100,0,,\n"
            "big,3,solve,0,2,failed,,1,1,node2,2026-03-01T09:30:02.000000Z,2026-03-01T09:30:08.000000Z,6."
            "000000,signaled,,11,"
            "0.000000,0.000000,1048576,0,24,0,0,0,0,0-1,\n"
            "\"after, \"\"big\"\"\",4,plot,0,1,skipped,big,0,,,,,,,,,,,,,,,,,,,\n"
            "typo,5,plto,0,1,failed,,1,1,node1,,,0.000000,not_started,,,0.000000,0.000000,,0,0,0,0,0,0,,plto: "
            "command not found\n"
            "spare,6,make,0,1,cancelled,,0,,,,,,,,,,,,,,,,,,,\n");
}

TEST_F(TablesTest, CsvRowsHaveAsManyFieldsAsTheHeading) {
  WriteCsv(run_, {0, 5}, true, Into());
  size_t line_start = 0;
  for (size_t at = out_.find('\n'); at != std::string::npos; at = out_.find('\n', line_start)) {
    const std::string line = out_.substr(line_start, at - line_start);
    EXPECT_EQ(std::count(line.begin(), line.end(), ','), 26) << line;
    line_start = at + 1;
  }
}

TEST_F(TablesTest, CsvOfEveryAttempt) {
  WriteCsv(run_, {1}, true, Into());
  EXPECT_NE(out_.find("\nmake-2,2,make,0,1,done,,2,1,node1,"), std::string::npos);
  EXPECT_NE(out_.find("\nmake-2,2,make,0,1,done,,2,2,node2,"), std::string::npos);
}

TEST_F(TablesTest, ASinkThatIsFullEndsTheWork) {
  RunBuilder big;
  for (int i = 0; i < 5000; ++i) big.Task(StrCat("task-with-a-name-", i), "t", TaskFate::kDone);
  const RunView run(big.history);
  int calls = 0;
  WriteCsv(run, *Select(run, {}), false, [&](std::string_view) { return ++calls < 2; });
  EXPECT_EQ(calls, 2);
}

TEST_F(TablesTest, Json) {
  StatusContext context;
  context.run_id = "ab12";
  WriteJson(run_, {0, 3}, context, Into());
  EXPECT_EQ(out_.find("{\"version\":1,\"run\":\"ab12\","), 0u);
  EXPECT_NE(out_.find("\"kinds\":[{\"kind\":\"make\",\"tasks\":1,\"done\":1,"), std::string::npos);
  EXPECT_NE(
      out_.find("\"task_records\":[{\"name\":\"make-1\",\"number\":1,\"kind\":\"make\",\"level\":0,\"cores\":"
                "1,\"state\":\"done\","
                "\"attempts\":[{\"attempt\":1,\"node\":\"node1\",\"start\":\"2026-03-01T09:30:00.000000Z\","
                "\"end\":\"2026-03-01T09:30:02.000000Z\",\"run_time_s\":2.000000,\"how\":\"exited\",\"exit_"
                "code\":0,"
                "\"user_s\":1.500000,\"system_s\":0.250000,\"max_rss_kib\":2048,\"stdout_bytes\":10,\"stderr_"
                "bytes\":0,"
                "\"output_truncated\":false,\"local_bytes\":300,\"remote_bytes\":0,\"home_bytes\":300}]},"
                "{\"name\":\"after, "
                "\\\"big\\\"\",\"number\":4,\"kind\":\"plot\",\"level\":0,\"cores\":1,\"state\":\"skipped\","
                "\"because\":\"big\",\"attempts\":[]}]}\n"),
      std::string::npos)
      << out_;
}

TEST_F(TablesTest, MemoryThatIsKnownToBeLess) {
  WriteJson(run_, {1}, {}, Into());
  EXPECT_NE(out_.find("\"max_rss_kib\":null,\"max_rss_below_kib\":1536,"), std::string::npos) << out_;
  // Of a kind the largest, unless what is not known may be larger.
  EXPECT_EQ(KindRows(run_, {0, 1}).at(0).max_rss_kib, 2048);
  EXPECT_EQ(KindRows(run_, {1}).at(0).max_rss_kib, -1536);
}

TEST_F(TablesTest, Overview) {
  WriteOverview(run_, All(), 2, kAnyWidth, Into());
  EXPECT_EQ(
      out_,
      "done 2 of 6, failed 2, skipped 1, cancelled 1; 10.0 s, 47.5 % of 4 slots busy, 75.0 % of input bytes "
      "local, "
      "1 attempt lost\n"
      "\n"
      "kind   tasks  done  failed  skipped    mean  median     max  core time  max RSS\n"
      "make       3     2       0        0  3.00 s  3.00 s  4.00 s     7.00 s  2.0 MiB\n"
      "solve      1     0       1        0       -       -       -     12.0 s  1.0 GiB\n"
      "plot       1     0       0        1       -       -       -        0 s        -\n"
      "plto       1     0       1        0       -       -       -        0 s        -\n"
      "\n"
      "node   slots  attempts  failed  lost    busy  utilisation  local input  remote input\n"
      "node1      2         3       1     1  3.00 s       15.0 %        300 B           0 B\n"
      "node2      2         2       1     0  16.0 s       80.0 %          0 B         100 B\n"
      "\n"
      "slowest tasks\n"
      "task    kind   state   attempts  node   start s  run time  ended                CPU   max RSS  output\n"
      "big     solve  failed         1  node2   +2.000    6.00 s  signal 11 (SIGSEGV)  0 s   1.0 GiB    24 B\n"
      "make-2  make   done           2  node2   +1.000    4.00 s  exit 0               0 s  <1.5 MiB     0 "
      "B\n");
}

TEST_F(TablesTest, TaskTableOfWhatNeverRan) {
  WriteTaskTable(run_, {3, 4, 5}, kAnyWidth, Into());
  EXPECT_EQ(out_,
            "task          kind  state      attempts  node   start s  run time  ended                        "
            "         CPU  max RSS  output\n"
            "after, \"big\"  plot  skipped           0  -            -         -  needs big                  "
            "             -        -       -\n"
            "typo          plto  failed            1  node1        -         -  not started: plto: command "
            "not found  0 s        -     0 B\n"
            "spare         make  cancelled         0  -            -         -  -                            "
            "           -        -       -\n");
}

TEST_F(TablesTest, ATableThatIsTooWideSaysWhatItLeavesOut) {
  WriteTaskTable(run_, All(), 80, Into());
  std::istringstream lines(out_);
  std::string line, last;
  while (std::getline(lines, line)) {
    EXPECT_LE(line.size(), 80u) << line;
    last = line;
  }
  EXPECT_EQ(last, "(--wide also shows: output, CPU, kind, attempts, start s)");
  EXPECT_EQ(out_.substr(0, out_.find('\n')).find("CPU"), std::string::npos);
}

TEST(WriteTable, WhatIsNotSpareStays) {
  std::string text;
  WriteTable({{"a"}, {"b", true, 1}, {"c"}}, 1,
             [](size_t, std::vector<std::string>* cells) {
               *cells = {"first cell", "2", "third cell"};
             },
             [&](std::string_view piece) { return !(text += piece).empty(); }, 5);
  EXPECT_EQ(text, "a           c\nfirst cell  third cell\n(--wide also shows: b)\n");
}

TEST(WriteTable, TextIsCutWhereNothingIsSpare) {
  std::string text;
  const Sink into = [&](std::string_view piece) { return !(text += piece).empty(); };
  WriteTable({{"name"}, {"n", true}}, 2,
             [](size_t row, std::vector<std::string>* cells) {
               *cells = {row == 0 ? "a name of thirty letters or so" : "käse", "12"};
             },
             into, 20);
  EXPECT_EQ(text, "name               n\na name of thi...  12\nkäse              12\n");
}

TEST_F(TablesTest, Filters) {
  EXPECT_EQ(All({.failed = true}), (std::vector<size_t>{2, 4}));
  EXPECT_EQ(All({.kinds = {"make"}}), (std::vector<size_t>{0, 1, 5}));
  EXPECT_EQ(All({.nodes = {"node2"}}), (std::vector<size_t>{1, 2}));
  EXPECT_EQ(All({.failed = true, .kinds = {"solve", "make"}, .nodes = {"node2"}}), (std::vector<size_t>{2}));
  EXPECT_EQ(Select(run_, {.kinds = {"slove"}}).status().message(),
            "no kind 'slove' in this run; did you mean 'solve'?");
  EXPECT_EQ(Select(run_, {.nodes = {"x"}}).status().message(), "no node 'x' in this run");
}

TEST(KindRows, MedianOfOddAndEvenCounts) {
  RunBuilder run;
  for (uint32_t i = 0; i < 5; ++i) run.Task(StrCat("t", i), i < 3 ? "odd" : "even", TaskFate::kDone);
  for (const auto& [task, ms] : {std::pair{0u, 9}, {1u, 1}, {2u, 2}, {3u, 10}, {4u, 20}})
    run.Attempt(task, 0, 0, ms);
  const RunView view(run.history);
  const auto rows = KindRows(view, *Select(view, {}));
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].median, std::chrono::milliseconds(2));
  EXPECT_EQ(rows[0].mean, std::chrono::milliseconds(4));
  EXPECT_EQ(rows[0].max, std::chrono::milliseconds(9));
  EXPECT_EQ(rows[1].median, std::chrono::milliseconds(15));
}

TEST(RunView, TasksThatAreNotInARowByTheirIds) {
  RunBuilder run;
  run.Task("a", "k", TaskFate::kDone).Task("b", "k", TaskFate::kFailed);
  run.history.tasks[0].task = TaskId(7);
  run.history.tasks[1].task = TaskId(3);
  run.history.fates = {
      {TaskId(3), TaskFate::kFailed, {}}, {TaskId(7), TaskFate::kDone, {}}, {TaskId(9), TaskFate::kDone, {}}};
  run.Attempt(3, 0, 0, 1);
  const RunView view(run.history);
  EXPECT_EQ(view.fate(0), TaskFate::kDone);
  EXPECT_EQ(view.fate(1), TaskFate::kFailed);
  EXPECT_EQ(view.attempt_count(1), 1u);
  EXPECT_EQ(view.FindTask("b"), 1u);
  EXPECT_EQ(view.FindTask("#8"), 0u);
  EXPECT_EQ(view.FindTask("4"), std::nullopt) << "it has a name";
  EXPECT_EQ(view.FindTask("1"), std::nullopt);
  EXPECT_EQ(view.FindTask("#"), std::nullopt);
  EXPECT_EQ(view.FindTask("4x"), std::nullopt);
  EXPECT_EQ(view.TaskName(TaskId(9)), "#10");
  run.history.tasks[1].name = "#4";
  EXPECT_EQ(RunView(run.history).FindTask("4"), 1u);
}

TEST(RunView, ANameWinsOverANumber) {
  RunBuilder run;
  run.Task("2", "k", TaskFate::kDone).Task("b", "k", TaskFate::kDone);
  const RunView view(run.history);
  EXPECT_EQ(view.FindTask("2"), 0u);
  EXPECT_EQ(view.FindTask("#2"), 1u);
}

TEST(PlotSvg, AreasOfTheKinds) {
  RunBuilder run;
  run.Node(0, "n", 2).Task("a", "A & <B>", TaskFate::kDone).Task("b", "two", TaskFate::kDone);
  run.Attempt(0, 0, 0, 5000);
  run.Attempt(1, 0, 5000, 10000);
  run.Times(0, 10000);
  const RunView view(run.history);
  const std::string svg = PlotSvg(view, *Select(view, {}), "flow");
  EXPECT_EQ(svg.find("<svg xmlns=\"http://www.w3.org/2000/svg\""), 0u);
  EXPECT_NE(svg.find("<title>A &amp; &lt;B&gt;</title>"), std::string::npos);
  EXPECT_EQ(svg.find("A & <B>"), std::string::npos);
  EXPECT_NE(svg.find("2 slots"), std::string::npos);
  // One core over the first half: 320 px are 2.1 cores, so the area's top is at 40 + 320 - 320 / 2.1.
  EXPECT_NE(svg.find("points=\"60.00,207.62 61.00,207.62 "), std::string::npos) << svg.substr(0, 3000);
  EXPECT_NE(svg.find("</svg>\n"), std::string::npos);
}

TEST(PlotSvg, SessionsFollowOneAnother) {
  RunBuilder run;
  run.Node(0, "old", 4).Node(1, "new", 2, 3'600'000);
  run.Task("a", "k", TaskFate::kDone).Task("b", "k", TaskFate::kDone);
  run.Attempt(0, 0, 0, 10'000);
  run.Attempt(1, 1, 3'600'000, 3'610'000);
  run.Times(0, 10'000).Times(3'600'000, 3'610'000);
  const RunView view(run.history);
  const std::string svg = PlotSvg(view, *Select(view, {}), "flow");
  EXPECT_NE(svg.find(">4 slots<"), std::string::npos);
  EXPECT_NE(svg.find(">2 slots<"), std::string::npos);
  EXPECT_NE(svg.find("x=\"464.00\" y=\"52.00\" text-anchor=\"start\">resumed<"), std::string::npos) << "in the middle";
  EXPECT_NE(svg.find(">20<"), std::string::npos) << "the axis ends with the makespan";
  EXPECT_EQ(svg.find(">3600<"), std::string::npos);
}

TEST(PlotSvg, LongNamesFitTheLegend) {
  RunBuilder run;
  run.Node(0, "n", 1).Task("a", std::string(90, 'w'), TaskFate::kDone);
  run.Attempt(0, 0, 0, 1000);
  const RunView view(run.history);
  const std::string svg = PlotSvg(view, *Select(view, {}), "flow");
  EXPECT_EQ(svg.find("\"start\">" + std::string(27, 'w')), std::string::npos);
  EXPECT_NE(svg.find("<title>" + std::string(90, 'w')), std::string::npos) << "the whole name is shown on demand";
}

TEST(PlotSvg, ManyKindsAndNothing) {
  RunBuilder run;
  for (int i = 0; i < 20; ++i) {
    run.Task(StrCat("t", i), StrCat("kind", i), TaskFate::kDone);
    run.Attempt(static_cast<uint32_t>(i), 0, 0, 1000 + i);
  }
  const RunView view(run.history);
  const std::string svg = PlotSvg(view, *Select(view, {}), "flow");
  EXPECT_NE(svg.find(">8 other kinds<"), std::string::npos);
  EXPECT_NE(svg.find(">kind19<"), std::string::npos);
  EXPECT_EQ(svg.find(">kind0<"), std::string::npos);
  const journal::History empty;
  const RunView nothing(empty);
  EXPECT_NE(PlotSvg(nothing, {}, "x").find("</svg>"), std::string::npos);
}

TEST(NodeRows, ANodeThatWasGoneBeforeTheEndOfItsSession) {
  journal::History history;
  history.sessions = {{10, 100}, {200, 300}};
  const auto add = [&](uint32_t node, int64_t joined_ns, int64_t left_ns) {
    journal::NodeRecord record;
    record.node = NodeId(node);
    record.incarnation = static_cast<uint64_t>(joined_ns);
    record.joined_ns = joined_ns;
    record.left_ns = left_ns;
    history.nodes.push_back(record);
  };
  add(0, 20, 0);
  add(0, 20, 100);  // to the end
  add(1, 20, 60);   // lost
  add(2, 20, 60);   // lost, and back to the end
  add(2, 70, 100);
  add(3, 210, 300);
  add(4, 210, 299);
  std::vector<bool> gone;
  for (const NodeRow& row : NodeRows(RunView(history), {})) gone.push_back(row.gone);
  EXPECT_EQ(gone, (std::vector<bool>{false, true, false, false, true}));
}

}  // namespace
}  // namespace harrow::report
