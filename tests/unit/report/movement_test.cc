#include "report/movement.h"

#include <gtest/gtest.h>

#include "report/json.h"
#include "sample_run.h"

namespace harrow::report {
namespace {

using ::testing::Test;

class MovementTest : public Test {
 protected:
  MovementTest() : history_(test::SampleRun()) {
    history_.attempts[0].home_bytes = 200;
    const auto copy = [this](const char* path, uint32_t task, NodeId from, NodeId to, int64_t bytes) {
      history_.copies.push_back({.path = path, .task = TaskId(task), .from = from, .to = to, .bytes = bytes});
    };
    copy("in", 0, {}, NodeId(0), 1000);
    copy("in", 1, NodeId(0), NodeId(1), 1000);
    copy("mid", 1, NodeId(0), NodeId(1), 50);
    copy("mid", 3, NodeId(0), NodeId(1), -1);
    copy("out", 1, NodeId(1), {}, 5000);
    history_.copies.push_back({.path = "stray", .task = {}, .from = {}, .to = NodeId(1), .bytes = 7});
  }
  std::vector<size_t> All() const {
    std::vector<size_t> all;
    for (size_t i = 0; i < history_.tasks.size(); ++i) all.push_back(i);
    return all;
  }
  journal::History history_;
};

TEST_F(MovementTest, BytesByKind) {
  const RunView run(history_);
  const std::vector<KindBytes> rows = BytesByKind(run, All());
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].kind, "make");
  EXPECT_EQ(rows[0].input, 400u);
  EXPECT_EQ(rows[0].local, 300u);
  EXPECT_EQ(rows[0].home, 200u);
  EXPECT_EQ(rows[0].copied.moved, 1050u);
  EXPECT_EQ(rows[0].copied.read, 1000u);
  EXPECT_EQ(rows[0].copied.written, 5000u);
  EXPECT_EQ(rows[2].kind, "plot");
  EXPECT_EQ(rows[2].copied.sum(), 0u) << "less than nothing is nothing";
}

TEST_F(MovementTest, LargestMovers) {
  const RunView run(history_);
  const std::vector<FileBytes> rows = LargestMovers(run, All(), 3);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].path, "out");
  EXPECT_EQ(rows[0].nodes, 0u);
  EXPECT_EQ(rows[1].path, "in");
  EXPECT_EQ(rows[1].copies, 2u);
  EXPECT_EQ(rows[1].nodes, 2u);
  EXPECT_EQ(rows[1].copied.moved, 1000u);
  EXPECT_EQ(rows[1].copied.read, 1000u);
  EXPECT_EQ(rows[2].path, "mid");
  EXPECT_EQ(LargestMovers(run, {0}, 3).size(), 1u) << "of the tasks that are asked for";
  EXPECT_EQ(LargestMovers(run, All(), 9).size(), 4u);
}

TEST_F(MovementTest, AsTablesAndJson) {
  const RunView run(history_);
  std::string out;
  WriteFiles(run, All(), 1, kAnyWidth, [&](std::string_view text) {
    out += text;
    return true;
  });
  EXPECT_EQ(out,
            "kind   input   local    home    moved    read  written back\n"
            "make   400 B  75.0 %  50.0 %  1.0 KiB  1000 B       4.9 KiB\n"
            "solve      -       -       -        -       -             -\n"
            "plot       -       -       -        -       -             -\n"
            "plto       -       -       -        -       -             -\n"
            "\nmost bytes copied\n"
            "file  copies  nodes  moved  read  written back\n"
            "out        1      0      -     -       4.9 KiB\n");
  std::string text;
  JsonWriter json(&text);
  json.BeginObject();
  AppendFiles(run, All(), 1, &json);
  json.EndObject();
  EXPECT_NE(text.find("\"copied_files\":[{\"path\":\"out\",\"copies\":1,\"nodes\":0,\"moved\":0,\"read\":0,"
                      "\"written\":5000}]"),
            std::string::npos)
      << text;
}

TEST_F(MovementTest, WhatWasCopiedForATask) {
  const RunView run(history_);
  EXPECT_EQ(CopiedFor(run, TaskId(0)), "1000 B from the submit directory");
  EXPECT_EQ(CopiedFor(run, TaskId(1)), "1.0 KiB from node1");
  EXPECT_EQ(CopiedFor(run, TaskId(2)), "");
}

}  // namespace
}  // namespace harrow::report
