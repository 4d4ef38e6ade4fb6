#include "report/continued.h"

#include <gtest/gtest.h>

#include "sample_run.h"

namespace harrow::report {
namespace {

using journal::End;
using journal::TaskFate;

/// a goes on twice, once on another node; b failed and was tried again; c has left a checkpoint and waits; of d the attempt after its
/// checkpoint was lost before anything of it ran.
struct Sample : test::RunBuilder {
  Sample() {
    for (const char* const name : {"a", "b", "c", "d"}) Task(name, "k", TaskFate::kDone);
    Attempt(1, 0, 0, 100, End::kExited, 1);
    Attempt(0, 0, 0, 500, End::kCheckpointed).message = "it left a checkpoint of 5 MiB";
    Attempt(1, 0, 150, 300);
    Attempt(2, 0, 300, 700, End::kCheckpointed);
    Attempt(0, 1, 750, 800, End::kCheckpointed);
    Attempt(0, 1, 800, 900);
    Attempt(3, 0, 0, 200, End::kCheckpointed);
    Attempt(3, 1, -1, 250, End::kNotStarted);
    Attempt(3, 1, 400, 900);
    for (const uint32_t number : {0u, 1u}) {
      journal::NodeRecord node;
      node.node = NodeId(number);
      node.name = "n" + std::to_string(number);
      node.joined_ns = test::kBegin;
      history.nodes.push_back(node);
    }
    history.sessions = {{test::kBegin, test::kBegin + 900 * test::kMs}};
  }
};

TEST(Continued, IsEachAttemptAfterACheckpoint) {
  const Sample sample;
  const std::vector<ContinuedRow> rows = ContinuedRows(RunView(sample.history));
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].task, 3u);
  EXPECT_EQ(rows[0].at, std::chrono::milliseconds(200));
  EXPECT_EQ(rows[0].stood, std::chrono::milliseconds(200)) << "what never ran does not end the wait";
  EXPECT_EQ(rows[1].task, 0u);
  EXPECT_EQ(rows[1].from, "n0");
  EXPECT_EQ(rows[1].to, "n1");
  EXPECT_EQ(rows[1].stood, std::chrono::milliseconds(250));
  EXPECT_EQ(rows[1].said, "it left a checkpoint of 5 MiB");
  EXPECT_EQ(rows[2].from, "n1");
  EXPECT_EQ(rows[2].to, "n1");
  EXPECT_EQ(rows[2].stood, Duration(0));
}

TEST(Continued, IsShownWhereThereIsAny) {
  const Sample sample;
  std::string text;
  const Sink sink = [&text](std::string_view piece) {
    text += piece;
    return true;
  };
  WriteContinued(RunView(sample.history), kAnyWidth, sink);
  EXPECT_NE(text.find("0.500  a     n0    n1    0.250  5 MiB"), std::string::npos) << text;
  text.clear();
  JsonWriter json(&text);
  json.BeginObject();
  AppendContinued(RunView(sample.history), &json);
  json.EndObject();
  EXPECT_NE(text.find(R"({"task":"a","at_s":0.500000,"from":"n0","to":"n1","stood_s":0.250000,"checkpoint":"it left a checkpoint of 5 MiB"})"), std::string::npos)
      << text;
  test::RunBuilder none;
  none.Task("a", "k", TaskFate::kDone).Attempt(0, 0, 0, 500);
  none.history.sessions = {{test::kBegin, test::kBegin + 900 * test::kMs}};
  text.clear();
  WriteContinued(RunView(none.history), kAnyWidth, sink);
  EXPECT_EQ(text, "");
}

}  // namespace
}  // namespace harrow::report
