#include "report/allocations.h"

#include <gtest/gtest.h>

#include "report/summary.h"
#include "report/tables.h"
#include "sample_run.h"

namespace harrow::report {
namespace {

using journal::MoveRecord;
using journal::TaskFate;
using test::kBegin;
using test::kMs;

int64_t At(int64_t ms) { return kBegin + ms * kMs; }

journal::NodeRecord Stay(uint32_t number, uint32_t slots, int64_t joined_ms, int64_t left_ms) {
  journal::NodeRecord node;
  node.node = NodeId(number);
  node.name = "n" + std::to_string(number);
  node.slots = slots;
  node.joined_ns = At(joined_ms);
  node.left_ns = left_ms < 0 ? 0 : At(left_ms);
  return node;
}

MoveRecord Taken(uint32_t giver, uint32_t taker, const std::string& tasks, int64_t ms) {
  return {.what = MoveRecord::What::kTaken, .giver = giver, .taker = taker, .number = 1, .tasks = tasks, .tried = "", .time_ns = At(ms)};
}

/// Two allocations: node 0 with two slots from the start, node 1 with one slot from 400 ms on, which is killed at 900; the
/// last attempt ends at 1000.
struct Two : test::RunBuilder {
  Two() {
    for (int i = 0; i < 4; ++i) Task("t" + std::to_string(i), "k", TaskFate::kDone);
    Attempt(0, 0, 0, 500);
    Attempt(1, 0, 0, 1000);
    Attempt(2, 1, 500, 900);
    Attempt(3, 0, 600, 1000);
    history.nodes = {Stay(0, 2, 0, -1), Stay(1, 1, 400, -1), Stay(0, 2, 0, 1200), Stay(1, 1, 400, 900)};
    history.sessions = {{At(0), At(1200)}};
    history.moves = {{.what = MoveRecord::What::kOffered, .giver = 0, .taker = 3, .number = 1, .tasks = "1-3", .tried = "", .time_ns = At(430)},
                     Taken(0, 3, "1-3", 450), Taken(3, 0, "1,3", 420), journal::HasAllTasks(0, 4, At(0))};
    history.allocations = {{.part = 0, .job = "", .partition = "", .first_node = NodeId(0), .nodes = 1, .began_ns = At(0), .ended_ns = At(1200), .messages = 0},
                           {.part = 3, .job = "12", .partition = "slow", .first_node = NodeId(1), .nodes = 1, .began_ns = At(300), .ended_ns = 0, .messages = 120}};
  }
};

TEST(Allocations, HaveTheSlotTimeFromTheirNodesComingToTheLastAttempt) {
  const Two two;
  const RunView run(two.history);
  const std::vector<AllocationRow> rows = AllocationRows(run);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].slots, 2u);
  EXPECT_EQ(rows[0].attempts, 3u);
  EXPECT_DOUBLE_EQ(rows[0].slot_seconds, 2.0) << "not until it left";
  EXPECT_EQ(rows[0].busy, std::chrono::milliseconds(1900));
  EXPECT_NEAR(rows[0].Idle(), 0.05, 1e-9);
  EXPECT_EQ(rows[0].took, 2u);
  EXPECT_EQ(rows[0].gave, 3u);
  EXPECT_EQ(rows[0].messages, 0);
  EXPECT_EQ(rows[1].job, "12");
  EXPECT_EQ(rows[1].partition, "slow");
  EXPECT_EQ(rows[1].from, std::chrono::milliseconds(300));
  EXPECT_EQ(rows[1].until, std::chrono::milliseconds(900));
  EXPECT_DOUBLE_EQ(rows[1].slot_seconds, 0.5);
  EXPECT_NEAR(rows[1].Idle(), 0.2, 1e-9);
  EXPECT_EQ(rows[1].took, 3u);
  EXPECT_NEAR(rows[1].messages, 200, 1e-9);
  EXPECT_DOUBLE_EQ(FiguresOf(run).slot_seconds, 2.5) << "each for as long as it was there";
}

TEST(Allocations, MovesAreTheTakersWordInTheOrderOfTime) {
  const Two two;
  const std::vector<MoveRow> moves = MoveRows(RunView(two.history));
  ASSERT_EQ(moves.size(), 2u);
  EXPECT_EQ(moves[0].from, 3u);
  EXPECT_EQ(moves[0].to, 0u);
  EXPECT_EQ(moves[0].tasks, 2u);
  EXPECT_EQ(moves[1].at, std::chrono::milliseconds(450));
  EXPECT_EQ(moves[1].tasks, 3u);
}

/// What an earlier session had is not theirs.
TEST(Allocations, AreOfTheLastSession) {
  Two two;
  two.Attempt(0, 0, 2000, 2500);
  two.history.nodes.push_back(Stay(0, 4, 2000, 2500));
  two.history.sessions.push_back({At(2000), At(2500)});
  two.history.allocations = {{.part = 0, .job = "13", .partition = "", .first_node = NodeId(0), .nodes = 1, .began_ns = At(2000), .ended_ns = At(2500), .messages = 0}};
  const RunView run(two.history);
  const std::vector<AllocationRow> rows = AllocationRows(run);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].slots, 4u);
  EXPECT_EQ(rows[0].attempts, 1u);
  EXPECT_DOUBLE_EQ(rows[0].slot_seconds, 2.0);
  EXPECT_EQ(rows[0].took, 0u);
  EXPECT_TRUE(MoveRows(run).empty());
}

TEST(Allocations, AreShownWhereThereAreSeveral) {
  const Two two;
  const RunView run(two.history);
  std::string text;
  const Sink sink = [&text](std::string_view piece) {
    text += piece;
    return true;
  };
  WriteAllocations(run, kAnyWidth, sink);
  EXPECT_NE(text.find("slow"), std::string::npos) << text;
  EXPECT_NE(text.find("20.0 %"), std::string::npos) << text;
  text.clear();
  WriteMoves(run, kAnyWidth, sink);
  EXPECT_NE(text.find("0.450"), std::string::npos) << text;
  text.clear();
  JsonWriter json(&text);
  json.BeginObject();
  AppendAllocations(run, &json);
  json.EndObject();
  EXPECT_NE(text.find("\"idle\":0.2000"), std::string::npos) << text;
  EXPECT_NE(text.find("\"moves\":[{\"at_s\":0.420000,\"from\":3,\"to\":0,\"tasks\":2},"), std::string::npos) << text;
}

}  // namespace
}  // namespace harrow::report
