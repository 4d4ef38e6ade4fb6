// Attempts of several nodes in tables, CSV and JSON.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/aggregate.h"
#include "report/rows.h"
#include "report/summary.h"
#include "report/tables.h"
#include "sample_run.h"

namespace harrow::report {
namespace {

using journal::End;
using journal::TaskFate;
using test::RunBuilder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A task of three nodes with two cores each that failed on one, and one of one node.
journal::History WideRun() {
  RunBuilder run;
  run.Node(0, "n1", 4).Node(1, "n2", 4).Node(2, "n3", 4).Node(3, "n4", 4);
  run.Task("wide", "solve", TaskFate::kFailed, 6).Task("small", "make", TaskFate::kDone);
  auto& wide = run.Attempt(0, 1, 0, 4000, End::kExited, 3);
  wide.message = "rank 5 of 6 on n3";
  wide.stdout_bytes = 12;
  run.Part(2, 2, 2, End::kExited, 3).stdout_bytes = 8;  // in the order in which they ended
  run.Part(0, 1, 2, End::kLost).stdout_bytes = 4;
  run.Part(1, 0, 2).cores = "0-1";
  run.Attempt(1, 3, 0, 2000);
  run.Times(0, 10000);
  return run.history;
}

class PartsTest : public testing::Test {
 protected:
  Sink Into() {
    return [this](std::string_view text) {
      out_ += text;
      return true;
    };
  }
  const journal::History history_ = WideRun();
  const RunView run_{history_};
  std::string out_;
};

TEST_F(PartsTest, NodesAreNamedInTheirOrder) {
  EXPECT_THAT(run_.NodeNames(history_.attempts[0]), ElementsAre("n2", "n1", "n3"));
  EXPECT_THAT(run_.NodeNames(history_.attempts[1]), ElementsAre("n4"));
  EXPECT_THAT(run_.Parts(history_.attempts[1]), testing::IsEmpty());
  journal::AttemptRecord nowhere;
  EXPECT_THAT(run_.NodeNames(nowhere), testing::IsEmpty());
}

TEST_F(PartsTest, TheTableNamesAllNodes) {
  WriteTaskTable(run_, {0}, 1000, Into());
  EXPECT_THAT(out_, HasSubstr("n2,n1,n3"));
}

TEST_F(PartsTest, TheCsvNamesAllNodes) {
  WriteCsv(run_, {0}, false, Into());
  EXPECT_THAT(out_, HasSubstr(",1,n2 n1 n3,"));
}

TEST_F(PartsTest, TheJsonHasEachPart) {
  WriteJson(run_, {0, 1}, {}, Into());
  EXPECT_THAT(out_, HasSubstr(R"("parts":[{"node":"n2","ranks":2,"how":"lost","user_s":0.000000)"));
  EXPECT_THAT(out_, HasSubstr(R"({"node":"n1","ranks":2,"how":"exited","exit_code":0,)"));
  EXPECT_THAT(out_, HasSubstr(R"("pinned":"0-1"},{"node":"n3","ranks":2,"how":"exited","exit_code":3,)"));
  const size_t first = out_.find("\"parts\"");
  EXPECT_EQ(out_.find("\"parts\"", first + 1), std::string::npos) << "one of one node has none";
}

TEST_F(PartsTest, EachNodeHasItsPart) {
  const std::vector<NodeRow> rows = NodeRows(run_, {0, 1});
  ASSERT_EQ(rows.size(), 4u);
  for (const NodeRow& row : rows) EXPECT_EQ(row.attempts, 1u) << row.node;
  EXPECT_EQ(rows[0].failed + rows[1].failed + rows[3].failed, 0u);
  EXPECT_EQ(rows[2].failed, 1u);
  EXPECT_EQ(rows[1].lost, 0u) << "it ended as it was told to";
  EXPECT_EQ(rows[2].output_bytes, 8u);
  EXPECT_EQ(rows[1].output_bytes, 4u);
  for (size_t n = 0; n < 3; ++n) EXPECT_EQ(rows[n].busy, std::chrono::seconds(8)) << "its third of the cores";
  EXPECT_EQ(rows[3].busy, std::chrono::seconds(2));
}

TEST_F(PartsTest, ItsCoresAreThoseOfAllItsNodes) {
  EXPECT_DOUBLE_EQ(FiguresOf(run_).core_seconds, 6 * 4 + 2);
  EXPECT_EQ(KindRows(run_, {0})[0].core_time, std::chrono::seconds(24));
}

TEST_F(PartsTest, ItIsFoundByEachOfItsNodes) {
  for (const char* node : {"n1", "n2", "n3"}) {
    const auto found = Select(run_, {.nodes = {node}});
    ASSERT_TRUE(found.ok());
    EXPECT_THAT(*found, ElementsAre(0u)) << node;
  }
  EXPECT_THAT(*Select(run_, {.nodes = {"n4"}}), ElementsAre(1u));
}

}  // namespace
}  // namespace harrow::report
