#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "formats/statistics.h"
#include "support/loaded_flow.h"

namespace harrow::formats {
namespace {

using graph::CommandForm;
using test::LoadedFlow;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kVersion10 =
    R"({"name": "tiny", "schemaVersion": "1.0", "workflow": {"makespan": 9, "jobs": [
  {"name": "split_ID0000001", "runtime": 1.5, "parents": [], "children": ["work_ID0000002"],
   "files": [{"link": "input", "name": "raw", "size": 100}, {"link": "output", "name": "a", "size": 7}], "arguments": ["-x"]},
  {"name": "work_ID0000002", "runtime": 2, "parents": ["split_ID0000001"], "children": [],
   "files": [{"link": "input", "name": "a", "size": 9}, {"link": "output", "name": "b", "size": 1}]}]}})";
constexpr const char* kVersion13 =
    R"({"name": "tiny", "schemaVersion": "1.3", "workflow": {"makespanInSeconds": 9, "tasks": [
  {"name": "split_ID0000001", "id": "1", "category": "split", "runtimeInSeconds": 1.5, "parents": [], "children": [], "cores": 2.0,
   "command": {"program": "/bin/split", "arguments": ["-n", "a b"]},
   "files": [{"link": "input", "name": "raw", "sizeInBytes": 100}, {"link": "output", "name": "a", "sizeInBytes": 9}]},
  {"name": "work_ID0000002", "id": "2", "category": "work", "runtimeInSeconds": 2, "parents": ["1"], "children": null,
   "files": [{"link": "input", "name": "a", "sizeInBytes": 7}, {"link": "output", "name": "b", "sizeInBytes": 1}]}]}})";
constexpr const char* kVersion15 = R"({"name": "tiny", "schemaVersion": "1.5", "workflow": {
  "execution": {"makespanInSeconds": 9, "tasks": [
    {"id": "2", "runtimeInSeconds": 2, "command": {"program": "work", "arguments": []}},
    {"id": "1", "runtimeInSeconds": 1.5, "coreCount": 2, "command": {"program": "split"}}]},
  "specification": {"tasks": [
    {"name": "split_ID0000001", "id": "1", "parents": [], "children": ["2"], "inputFiles": ["raw"], "outputFiles": ["a"]},
    {"name": "work_ID0000002", "id": "2", "parents": [], "children": [], "inputFiles": ["a"], "outputFiles": ["b"]}],
   "files": [{"id": "raw", "sizeInBytes": 100}, {"id": "a", "sizeInBytes": 9}, {"id": "b", "sizeInBytes": 1}]}}})";

TEST(WfFormatTest, EveryVersionGivesTheSameFlow) {
  for (const char* text : {kVersion10, kVersion13, kVersion15}) {
    LoadedFlow f("tiny.json", text);
    ASSERT_TRUE(f.status.ok()) << f.status.message();
    const Statistics s = Summarise(f.graph);
    EXPECT_EQ(f.flow.name, "tiny");
    EXPECT_EQ(s.tasks, 2u);
    EXPECT_EQ(s.edges, 1u);
    EXPECT_EQ(s.files, 3u);
    EXPECT_EQ(s.input_files, 1u);
    EXPECT_EQ(s.bytes, 110u);
    EXPECT_EQ(s.levels, 2u);
    ASSERT_EQ(s.kinds.size(), 2u);
    EXPECT_EQ(s.kinds[0].name, "split");
    ASSERT_TRUE(s.critical_path.has_value());
    EXPECT_EQ(s.critical_path->length, std::chrono::milliseconds(3500));
    EXPECT_THAT(f.Before("work_ID0000002"), ElementsAre("split_ID0000001"));
  }
}

TEST(WfFormatTest, CommandsWhereTheyAreRecorded) {
  LoadedFlow f("tiny.json", kVersion13);
  EXPECT_EQ(f.Command("split_ID0000001"), "/bin/split -n 'a b'");
  EXPECT_EQ(f.graph.form(f.Task("work_ID0000002")), CommandForm::kNone);
  EXPECT_EQ(f.graph.profile(f.Task("split_ID0000001")).shape.cores, 2u);
  f.options.need_commands = true;
  f.Load("tiny.json", kVersion13);
  EXPECT_EQ(
      f.status.message(),
      "tiny.json:5:3: 1 of 2 tasks have no command to run; use harrow replay, which stands in for them");
  f.Load("tiny.json", kVersion15);
  EXPECT_TRUE(f.status.ok()) << f.status.message();
}

TEST(WfFormatTest, NamesThatAreNotUniqueGiveWayToIds) {
  LoadedFlow f("x.json",
               R"({"workflow":{"tasks":[{"name":"a","id":"1"},{"name":"a","id":"2","parents":["1"]}]}})");
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  EXPECT_THAT(f.Before("2"), ElementsAre("1"));
}

TEST(WfFormatTest, EscapesAndUnknownParts) {
  LoadedFlow f("x.json",
               "{\"x\": [1, -2.5e3, {\"y\": null}, true, [], {}],\n \"workflow\": {\"machines\": [{\"cpu\": "
               "{\"speed\": 1}}], \"tasks\":\n"
               "  [{\"name\": \"caf\\u00e9 \\\"x\\\"\", \"avgCPU\": 97.5}]}, \"z\": \"\\n\"}\n\n");
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  EXPECT_EQ(f.graph.TaskName(TaskId(0)), "caf\xC3\xA9 \"x\"");
  EXPECT_EQ(f.graph.PlaceText(f.graph.place(TaskId(0))), "x.json:3:4");
}

TEST(WfFormatTest, NumbersAndNullWhereTextsAreMeant) {
  LoadedFlow f("x.json", R"({"workflow": {"tasks": [
    {"name": 17, "id": "t", "command": {"program": "prog", "arguments": ["-n", 3, -2.50, null]}},
    {"name": null, "id": "u", "command": {"program": "prog"}}]}})");
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  EXPECT_EQ(f.Command("t"), "prog -n 3 -2.50 ''");
  EXPECT_EQ(f.graph.TaskName(TaskId(1)), "u");
  f.Load("x.json", R"({"workflow": {"tasks": [{"name": 17, "command": {"program": "prog"}}]}})");
  EXPECT_EQ(f.Command("17"), "prog");
  f.Load("x.json", R"({"workflow": {"tasks": [{"name": true}]}})");
  EXPECT_THAT(f.status.message(), testing::HasSubstr("is no text; write it between"));
}

TEST(WfFormatTest, TasksThatNeitherNameNorIdTellsApart) {
  LoadedFlow f("x.json", "{\"workflow\": {\"tasks\": [{\"id\": \"u\"},\n {\"name\": \"x\"}]}}");
  EXPECT_EQ(f.status.message(), "x.json:2:2: the task has no id, others have no name of their own; give all of them ids, or names");
  f.Load("x.json", "{\"workflow\": {\"tasks\": []}}");
  EXPECT_EQ(f.status.message(), "x.json:1:14: the list of tasks is empty; there is nothing to run");
}

TEST(WfFormatTest, WhatNobodyAskedForIsJsonAllTheSame) {
  LoadedFlow f;
  const auto load = [&](const std::string& specification) {
    f.Load("x.json", "{\"workflow\": {\"specification\": {" + specification +
                         ", \"tasks\": [{\"name\": \"t\", \"id\": \"t\"}]}, \"execution\": {\"tasks\": []}}}");
    return f.status.ok();
  };
  EXPECT_TRUE(load("\"extra\": {\"deep\": [1, null, true]}")) << f.status.message();
  EXPECT_TRUE(load("\"files\": null")) << f.status.message();
  EXPECT_EQ(f.graph.task_count(), 1u);
  for (const char* broken : {"\"extra\": nul", "\"extra\": [1, trux]", "\"extra\": {\"a\": 1.2.3}", "\"files\": nuly", "\"extra\": \"\\q"})
    EXPECT_FALSE(load(broken)) << broken;
}

// A text cut anywhere is refused, with a place in it, and nothing worse happens.
TEST(WfFormatTest, CutAnywhere) {
  for (const char* whole : {kVersion10, kVersion13, kVersion15}) {
    const std::string text = whole;
    for (size_t size = 1; size + 1 < text.size(); ++size) {
      LoadedFlow f("x.json", text.substr(0, size));
      ASSERT_FALSE(f.status.ok()) << text.substr(0, size);
      ASSERT_THAT(f.status.message(), testing::StartsWith("x.json:")) << size;
    }
  }
}

TEST(WfFormatTest, BytesChangedAnywhereNeverBreakTheReader) {
  const std::string text = kVersion15;
  for (char c : {'"', '{', '}', '[', ']', ',', ':', 'x', '0', '\\', '-', ' ', '\n'}) {
    for (size_t at = 0; at < text.size(); ++at) {
      std::string changed = text;
      changed[at] = c;
      LoadedFlow f("x.json", changed);
      if (!f.status.ok()) {
        EXPECT_EQ(f.status.code(), Code::kInvalid);
      }
    }
  }
}

TEST(WfFormatTest, CommandsThatDoNotStartWhatTheyMeanAreTold) {
  LoadedFlow f("w.json", R"({"name": "w", "workflow": {"tasks": [
  {"name": "a", "command": {"program": "wfbench", "arguments": ["a", "--percent-cpu 0.6", "--mem 10"]}},
  {"name": "b", "command": {"program": "wfbench", "arguments": ["--out {\"f\": 1}"]}},
  {"name": "c", "command": {"program": "gatk", "arguments": ["--filter", "QD < 2.0 || FS > 60", "--x=a b", "-- a", "--"]}},
  {"name": "d", "command": {"program": "unzip a.zip\n  cat b"}}]}})");
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  ASSERT_EQ(f.flow.notices.size(), 2u);
  EXPECT_EQ(f.flow.notices[0].find("w.json:2:3: the argument \"--percent-cpu 0.6\" (and the like in 1 more task) is an option "
                                   "and its value in one"), 0u) << f.flow.notices[0];
  EXPECT_EQ(f.flow.notices[1].find("w.json:5:3: the program \"unzip a.zip"), 0u) << f.flow.notices[1];
}

}  // namespace
}  // namespace harrow::formats
