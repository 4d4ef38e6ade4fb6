// --files local: what nodes hold and get, what is counted of it, and what is lost with a node.

#include <gtest/gtest.h>
#include <string>

#include "base/text.h"
#include "sim/bounds.h"
#include "sim/simulation.h"
#include "sim/summary.h"
#include "support/loaded_flow.h"

namespace harrow::sim {
namespace {

using Inputs = formats::ClusterModel::Inputs;

struct LocalCase {
  test::LoadedFlow flow;
  std::vector<Work> work;
  Options options;

  explicit LocalCase(const std::string& table, uint32_t nodes = 1, uint32_t cores = 1)
      : LocalCase("x.dag.tsv", table, nodes, cores) {}
  LocalCase(const std::string& name, const std::string& text, uint32_t nodes, uint32_t cores)
      : flow(name, text) {
    EXPECT_TRUE(flow.status.ok()) << flow.status.message();
    for (uint32_t n = 0; n < flow.graph.task_count(); ++n)
      work.push_back({Seconds(flow.graph.recorded_run_time(TaskId(n)).value_or(Duration(0)))});
    options.cluster.nodes.push_back(
        {.count = nodes, .capacity = {cores, 0, 0}, .page_cache = 1 << 20, .speed = 1, .line = 0});
    options.core.local_files = true;
    options.core.policy = order::Policy::kFifo;
  }
  Outcome Run() {
    const Outcome outcome = Simulate(flow.graph, work, options);
    EXPECT_TRUE(outcome.complete);
    return outcome;
  }
};

TEST(LocalFilesTest, AnInputIsReadFromTheSubmitDirectoryOnceAndResultsGoBack) {
  std::string table = "F\tin\t1000\n";
  for (int i = 0; i < 4; ++i)
    table += StrCat("T\tt", i, "\tk\t1\nI\tt", i, "\tin\nO\tt", i, "\tr", i, "\nF\tr", i, "\t10\n");
  LocalCase c(table, 4, 1);
  c.options.core.locality = false;
  const Outcome outcome = c.Run();
  EXPECT_EQ(outcome.counts.done, 4u);
  EXPECT_EQ(outcome.shared_read, 1000);
  EXPECT_EQ(outcome.bytes_moved, 3000);
  EXPECT_EQ(outcome.written_back, 40);
  EXPECT_EQ(outcome.makespan, 1) << "without a model of the cluster copies take no time";
}

/// A chain stays where it is; what was made there is at home, what was copied is only present.
TEST(LocalFilesTest, HomeIsWhereAFileWasMadeAndNotWhereItWasCopiedTo) {
  // p makes f; c and d read it, one of them on the other node; e reads it there again.
  const std::string table =
      "T\tp\tk\t1\nO\tp\tf\nF\tf\t100\nT\tc\tk\t4\nI\tc\tf\nT\td\tk\t1\nI\td\tf\nT\te\tk\t1\nI\te\tf\nE\td\te"
      "\n";
  LocalCase c(table, 2, 1);
  const Outcome outcome = c.Run();
  EXPECT_EQ(outcome.bytes_moved, 100);
  EXPECT_EQ(outcome.counts.local_bytes, 200u) << "c at home, e at the copy";
  EXPECT_EQ(outcome.counts.home_bytes, 100u);
  EXPECT_EQ(outcome.counts.remote_bytes, 100u);
  EXPECT_EQ(outcome.written_back, 0) << "f is no result";
}

TEST(LocalFilesTest, InputsThatLieOnNodesDrawTheirTasks) {
  std::string table;
  for (int i = 0; i < 8; ++i)
    table += StrCat("T\tt", i, "\tk\t1\nI\tt", i, "\tin", i, "\nF\tin", i, "\t100\n");
  LocalCase c(table, 4, 1);
  c.options.place = Inputs::kRoundRobin;
  Outcome outcome = c.Run();
  EXPECT_EQ(outcome.counts.home_bytes, 800u);
  EXPECT_EQ(outcome.shared_read + outcome.bytes_moved, 0);
  c.options.place = Inputs::kOutside;
  outcome = c.Run();
  EXPECT_EQ(outcome.counts.home_bytes, 0u);
  EXPECT_EQ(outcome.shared_read, 800);
}

/// The links of the model carry copies: the server, and the nodes' interfaces; results go back over them.
TEST(LocalFilesTest, CopiesTakeTheTimeOfTheirLinks) {
  LocalCase c("T\ta\tk\t1\nI\ta\tin\nO\ta\tr\nF\tin\t1000\nF\tr\t300\n", 1, 1);
  c.options.io = true;
  c.options.cluster.read_remote_disk = 100;
  EXPECT_DOUBLE_EQ(c.Run().makespan, 10 + 1);
  c.options.cluster.server = 50;
  EXPECT_DOUBLE_EQ(c.Run().makespan, 20 + 1 + 6) << "and 300 bytes back";
  c.options.cluster.read_local_cache = 500;
  EXPECT_DOUBLE_EQ(c.Run().makespan, 20 + 2 + 1 + 6) << "it has come into memory";
}

/// Eight nodes want one file: it is handed on while it comes, so nobody waits for eight times its time, and
/// nobody sends it more than twice.
TEST(LocalFilesTest, AFileThatManyWantSpreads) {
  std::string table = "F\tin\t1000\n";
  for (int i = 0; i < 8; ++i) table += StrCat("T\tt", i, "\tk\t0\nI\tt", i, "\tin\n");
  LocalCase c(table, 8, 1);
  c.options.io = true;
  c.options.core.locality = false;
  c.options.cluster.nic = 100;
  const Outcome outcome = c.Run();
  EXPECT_EQ(outcome.bytes_moved, 7000);
  EXPECT_EQ(outcome.shared_read, 1000);
  EXPECT_GE(outcome.makespan, 10);
  EXPECT_LE(outcome.makespan, 20 + 1e-9) << "each sends it to two at once, at half its rate";
}

/// As in a run: what is lost with a node is made again where nobody else has it, and what lies in the submit
/// directory is not.
TEST(LocalFilesTest, WhatIsLostWithItsNodeIsMadeAgain) {
  // a > b > c, and b's result r is done for good; the node dies while c runs.
  const std::string table =
      "T\ta\tk\t10\nO\ta\tf\nF\tf\t100\nT\tb\tk\t10\nI\tb\tf\nO\tb\tg\nO\tb\tr\nF\tg\t100\nF\tr\t50\n"
      "T\tc\tk\t10\nI\tc\tg\nO\tc\ts\nF\ts\t7\n";
  LocalCase c(table, 1, 1);
  c.options.cluster.failures.push_back({.node = 0, .at = 25, .repair = 1});
  Outcome outcome = c.Run();
  EXPECT_EQ(outcome.counts.done, 3u);
  EXPECT_EQ(outcome.makespan, 26 + 30) << "g is lost, and f was dropped";
  EXPECT_EQ(outcome.counts.attempts, 6u);
  EXPECT_EQ(outcome.counts.losses, 1u) << "what is made again costs its task nothing";
  // With shared files only the attempt is lost.
  c.options.core.local_files = false;
  EXPECT_EQ(c.Run().makespan, 26 + 10);
}

/// A task's `replicas`, as in a run: what another node has is not made again.
TEST(LocalFilesTest, WhatHasTwoReplicasSurvivesItsNode) {
  for (const bool two : {false, true}) {
    LocalCase c("flow.toml",
                StrCat("[[task]]\nname = 'a'\ncommand = 'x'\nout = ['f']\nrun_time = '10s'\n",
                       two ? "replicas = 2\n" : "",
                       "[[task]]\nname = 'b'\ncommand = 'x'\nafter = ['a']\nrun_time = '10s'\n"
                       "[[task]]\nname = 'c'\ncommand = 'x'\nin = ['f']\nafter = ['b']\n"
                       "run_time = '10s'\n[[file]]\nname = 'f'\nsize = 100\n"),
                2, 1);
    c.options.cluster.failures.push_back({.node = 0, .at = 15, .repair = 0});
    const Outcome outcome = c.Run();
    EXPECT_EQ(outcome.counts.done, 3u);
    EXPECT_EQ(outcome.makespan, two ? 35 : 45);
    EXPECT_EQ(outcome.counts.attempts, two ? 4u : 5u) << "b's first one was lost";
    EXPECT_EQ(outcome.bytes_moved, two ? 100 : 0);
  }
}

TEST(LocalFilesTest, TasksWaitForRoom) {
  std::string table;
  for (int i = 0; i < 6; ++i)
    table += StrCat("T\tt", i, "\tk\t1\nI\tt", i, "\tin", i, "\nF\tin", i, "\t100\n");
  LocalCase c(table, 1, 3);
  EXPECT_EQ(c.Run().makespan, 2);
  for (const double latency : {0.0, 0.001}) {
    c.options.cluster.latency = latency;
    c.options.local_limit = 150;
    const Outcome outcome = c.Run();
    EXPECT_EQ(outcome.counts.done, 6u);
    EXPECT_EQ(outcome.no_room, 0u);
    EXPECT_GE(outcome.makespan, 6) << "one after the other";
    EXPECT_LT(outcome.makespan, 7);
    EXPECT_EQ(outcome.shared_read, 600);
  }
}

TEST(LocalFilesTest, WhatCanNeverFitIsRefusedWithNumbers) {
  const std::string table =
      "T\ta\tk\t1\nI\ta\tlarge\nF\tlarge\t200\nT\tb\tk\t1\nI\tb\tsmall\nF\tsmall\t100\n";
  LocalCase c(table, 2, 1);
  c.options.local_limit = 150;
  const Outcome outcome = c.Run();
  EXPECT_EQ(outcome.counts.failed, 1u);
  EXPECT_EQ(outcome.counts.done, 1u);
  EXPECT_EQ(outcome.no_room, 1u);
  const std::string text = Text({}, c.flow.graph, c.options, outcome, {});
  EXPECT_NE(text.find("1 attempt failed, first for large (200 B) where a node may hold 150 B"),
            std::string::npos)
      << text;
  EXPECT_NE(Json({}, c.flow.graph, c.options, outcome, {}).find("\"local_limit\":150,\"no_room\":1"),
            std::string::npos);
  c.options.local_limit = 200;
  EXPECT_EQ(c.Run().counts.done, 2u);
}

TEST(LocalFilesTest, OutputsForWhichThereIsNoRoomFailTheirTask) {
  LocalCase c("T\ta\tk\t1\nO\ta\tf\nO\ta\tg\nF\tf\t100\nF\tg\t60\nT\tb\tk\t1\nI\tb\tf\nI\tb\tg\n", 1, 1);
  c.options.local_limit = 159;
  const Outcome outcome = c.Run();
  EXPECT_EQ(outcome.counts.failed, 1u);
  EXPECT_EQ(outcome.counts.skipped, 1u);
  EXPECT_EQ(c.flow.graph.file_name(outcome.no_room_for), "f");
  c.options.local_limit = 160;
  EXPECT_EQ(c.Run().counts.done, 2u);
}

/// As in a run: it is tried again until there is room, which costs no retry.
TEST(LocalFilesTest, OutputsWaitForWhatOtherTasksRead) {
  LocalCase c("T\ta\tk\t10\nI\ta\tin\nF\tin\t100\nT\tb\tk\t1\nO\tb\tf\nF\tf\t100\nT\tc\tk\t1\nI\tc\tf\n", 1,
              2);
  c.options.local_limit = 150;
  const Outcome outcome = c.Run();
  EXPECT_EQ(outcome.counts.done, 3u);
  EXPECT_EQ(outcome.no_room, 3u);
  EXPECT_EQ(outcome.makespan, 12) << "b ends after 1, 3, 6 and 11 seconds";
  c.options.local_limit = 99;
  EXPECT_EQ(c.Run().no_room, 2u) << "a's input, and b's output, once: it can never be kept";
}

/// b's input leaves no room for f's second replica on node 1; it comes when b has ended.
TEST(LocalFilesTest, ABackupIsMadeWhenThereIsRoom) {
  const auto task = [](const char* name, const char* more) {
    return StrCat("[[task]]\nname = '", name, "'\ncommand = 'x'\n", more, "\n");
  };
  const std::string flow =
      task("a", "out = ['f']\nrun_time = '1s'\nreplicas = 2") + task("b", "in = ['g']\nrun_time = '20s'") +
      task("d", "after = ['a']\nrun_time = '40s'") + task("c", "after = ['d']\nin = ['f']\nrun_time = '1s'") +
      "[[file]]\nname = 'f'\nsize = 100\n[[file]]\nname = 'g'\nsize = 100\n";
  LocalCase c("flow.toml", flow, 2, 1);
  c.options.local_limit = 150;
  Outcome outcome = c.Run();
  EXPECT_EQ(outcome.bytes_moved, 100);
  EXPECT_EQ(outcome.makespan, 42);
  c.options.cluster.failures.push_back({.node = 0, .at = 30, .repair = 0});
  outcome = c.Run();
  EXPECT_EQ(outcome.makespan, 71) << "d again on node 1, where f is";
  c.options.cluster.failures[0].at = 19;
  EXPECT_EQ(c.Run().makespan, 62) << "a again, and d, when b has ended";
}

TEST(LocalFilesTest, ACopyGoesOnFromSomebodyElse) {
  // p's file is read by q on node 1, and by two tasks that have to wait for their copies; the first to send
  // them dies meanwhile.
  const std::string table =
      "T\tp\tk\t1\nO\tp\tf\nF\tf\t1000\nT\tq\tk\t100\nI\tq\tf\nT\tr\tk\t100\nI\tr\tf\nT\ts\tk\t100\nI\ts\tf"
      "\n";
  for (const double latency : {0.0, 0.01}) {
    LocalCase c(table, 3, 1);
    c.options.io = true;
    c.options.cluster.nic = 100;
    c.options.cluster.latency = latency;
    c.options.cluster.failures.push_back({.node = 0, .at = 5, .repair = 0});
    const Outcome outcome = c.Run();
    EXPECT_EQ(outcome.counts.done, 4u);
    EXPECT_GE(outcome.counts.attempts, 5u) << "nobody else had it whole: p runs again";
  }
}

/// Nodes that fail again and again, with messages that take their time: everything is done, and the same each
/// time.
TEST(LocalFilesTest, NodesThatFailNowAndThen) {
  std::string table;
  for (int i = 0; i < 60; ++i) {
    table += StrCat("T\ta", i, "\ta\t", 1 + i % 3, "\nI\ta", i, "\tin", i % 7, "\nO\ta", i, "\tf", i,
                    "\nF\tf", i, "\t1000\n");
    table += StrCat("T\tb", i, "\tb\t1\nI\tb", i, "\tf", i, "\nI\tb", i, "\tf", (i * 7 + 3) % 60, "\nO\tb", i,
                    "\tg", i, "\nF\tg", i, "\t500\n");
    table += StrCat("T\tc", i, "\tc\t1\nI\tc", i, "\tg", i, "\nI\tc", i, "\tg", (i * 11 + 5) % 60, "\n");
  }
  for (int i = 0; i < 7; ++i) table += StrCat("F\tin", i, "\t2000\n");
  for (const double latency : {0.0, 0.05}) {
    LocalCase c(table, 5, 2);
    c.options.core.max_losses = 200;
    c.options.io = true;
    c.options.cluster.nic = 2000;
    c.options.cluster.latency = latency;
    c.options.cluster.mtbf = 20;
    c.options.cluster.repair = 2;
    const Outcome outcome = c.Run();
    EXPECT_EQ(outcome.counts.done, 180u);
    EXPECT_GT(outcome.node_losses, 3u);
    EXPECT_GT(outcome.counts.attempts, 180u);
    const auto json = [&](const Outcome& of) {
      return Json({"f", "c"}, c.flow.graph, c.options, of,
                  FindBounds(c.flow.graph, c.work, c.options.cluster));
    };
    EXPECT_EQ(json(outcome), json(c.Run()));
  }
}

/// What lies outside of the submit directory is used where it is: no node holds it.
TEST(LocalFilesTest, AbsolutePathsAreUsedAsTheyAre) {
  LocalCase c(
      "T\ta\tk\t1\nI\ta\t/data/x\nO\ta\t/data/y\nF\t/data/x\t100\nF\t/data/y\t30\nT\tb\tk\t1\nI\tb\t/data/"
      "y\n",
      2, 1);
  c.options.place = Inputs::kRoundRobin;
  const Outcome outcome = c.Run();
  EXPECT_EQ(outcome.counts.done, 2u);
  EXPECT_EQ(outcome.counts.local_bytes, 0u);
  EXPECT_EQ(outcome.shared_read, 130);
  EXPECT_EQ(outcome.written_back, 30);
  EXPECT_EQ(outcome.bytes_moved, 0);
}

TEST(LocalFilesTest, AFileBelowAnOutputDirectoryComesWithIt) {
  LocalCase c("T\tp\tk\t1\nO\tp\td\nT\tc\tk\t1\nI\tc\td/1\nT\te\tk\t1\nI\te\td/2\nF\td\t70\n", 2, 1);
  const Outcome outcome = c.Run();
  EXPECT_EQ(outcome.counts.done, 3u);
  EXPECT_EQ(outcome.bytes_moved, 70) << "to the one that was stolen";
  EXPECT_EQ(outcome.written_back, 0) << "it is read";
}

TEST(LocalFilesTest, TheDocumentSaysMoreOnlyOfLocalFiles) {
  LocalCase c("T\ta\tk\t1\nI\ta\tin\nF\tin\t1000\n");
  const auto json = [&] {
    return Json({"f", "c"}, c.flow.graph, c.options, c.Run(),
                FindBounds(c.flow.graph, c.work, c.options.cluster));
  };
  for (const char* key : {"home_share", "present_share", "shared_read_bytes", "written_back_bytes"}) {
    c.options.core.local_files = true;
    EXPECT_NE(json().find(key), std::string::npos) << key;
    c.options.core.local_files = false;
    EXPECT_EQ(json().find(key), std::string::npos) << key;
  }
}

}  // namespace
}  // namespace harrow::sim
