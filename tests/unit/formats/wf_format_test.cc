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
  EXPECT_EQ(
      f.status.message(),
      "x.json:2:2: the task has no id, others have no name of their own; give all of them ids, or names");
  f.Load("x.json", "{\"workflow\": {\"tasks\": []}}");
  EXPECT_EQ(f.status.message(), "x.json:1:14: the list of tasks is empty; there is nothing to run");
}

TEST(WfFormatTest, WhatNobodyAskedForIsJsonAllTheSame) {
  LoadedFlow f;
  const auto load = [&](const std::string& specification) {
    f.Load("x.json",
           "{\"workflow\": {\"specification\": {" + specification +
               ", \"tasks\": [{\"name\": \"t\", \"id\": \"t\"}]}, \"execution\": {\"tasks\": []}}}");
    return f.status.ok();
  };
  EXPECT_TRUE(load("\"extra\": {\"deep\": [1, null, true]}")) << f.status.message();
  EXPECT_TRUE(load("\"files\": null")) << f.status.message();
  EXPECT_EQ(f.graph.task_count(), 1u);
  for (const char* broken : {"\"extra\": nul", "\"extra\": [1, trux]", "\"extra\": {\"a\": 1.2.3}",
                             "\"files\": nuly", "\"extra\": \"\\q"})
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
  EXPECT_EQ(f.flow.notices[0].find(
                "w.json:2:3: the argument \"--percent-cpu 0.6\" (and the like in 1 more task) is an option "
                "and its value in one"),
            0u)
      << f.flow.notices[0];
  EXPECT_EQ(f.flow.notices[1].find("w.json:5:3: the program \"unzip a.zip"), 0u) << f.flow.notices[1];
}

/// What replay writes of tasks with ranks, or of several nodes: the cores are those of all.
TEST(WfFormatTest, RanksAndNodes) {
  LoadedFlow f;
  const auto load = [&](const std::string& more) {
    f.Load("x.json",
           "{\"workflow\": {\"specification\": {\"tasks\": [\n{\"name\": \"t\", \"id\": \"t\"}]},\n"
           "\"execution\": {\"tasks\": [{\"id\": \"t\", " +
               more + "}]}}}");
    return f.status.message();
  };
  EXPECT_EQ(load("\"coreCount\": 10, \"ranks\": 5, \"nodes\": 2, \"mpi\": \"none\""), "");
  const graph::Profile ranks = f.graph.profile(TaskId(0));
  EXPECT_EQ(ranks.ranks, 5u);
  EXPECT_EQ(ranks.mpi, graph::Mpi::kNone);
  EXPECT_EQ(ranks.shape.nodes, 2u);
  EXPECT_EQ(ranks.shape.cores, 6u) << "two each, on the node that has three of them";
  EXPECT_EQ(ranks.all_cores(), 10u);
  EXPECT_EQ(load("\"ranks\": 3"), "");
  EXPECT_EQ(f.graph.profile(TaskId(0)).shape.cores, 3u);
  EXPECT_EQ(f.graph.profile(TaskId(0)).mpi, graph::Mpi::kPmix);
  EXPECT_EQ(load("\"coreCount\": 4, \"nodes\": 2"), "");
  EXPECT_EQ(f.graph.profile(TaskId(0)).ranks, 0u);
  EXPECT_EQ(f.graph.profile(TaskId(0)).shape.nodes, 2u);
  EXPECT_EQ(f.graph.profile(TaskId(0)).shape.cores, 2u);
  EXPECT_NE(load("\"ranks\": 2, \"nodes\": 3").find("x.json:2:1: "), std::string::npos);
  EXPECT_NE(load("\"ranks\": 2, \"mpi\": \"srun\"").find("x.json:2:1: mpi cannot be \"srun\""),
            std::string::npos);
  EXPECT_NE(load("\"ranks\": 0").find("ranks cannot be 0; write a number from 1 to "), std::string::npos);
  f.options.one_core = true;
  EXPECT_EQ(load("\"ranks\": 3, \"nodes\": 2"), "");
  EXPECT_EQ(f.graph.profile(TaskId(0)).ranks, 0u);
  EXPECT_EQ(f.graph.profile(TaskId(0)).shape, Shape());
}

TEST(WfFormatTest, NumbersWithinTheirBounds) {
  LoadedFlow f;
  const auto load = [&](const std::string& more) {
    f.Load("x.json", "{\"workflow\": {\"tasks\": [\n{\"name\": \"t\", " + more + "}]}}");
    return f.status.message();
  };
  EXPECT_EQ(load("\"runtime\": 3e9, \"cores\": 65536, \"files\": [{\"name\": \"f\", \"size\": 4e18, "
                 "\"link\": \"output\"}]"),
            "");
  EXPECT_EQ(f.graph.recorded_run_time(TaskId(0)), std::chrono::seconds(3'000'000'000));
  EXPECT_EQ(f.graph.profile(TaskId(0)).shape.cores, 65536u);
  EXPECT_EQ(f.graph.file_size(*f.graph.FindFile("f")), 4'000'000'000'000'000'000);
  EXPECT_EQ(load("\"runtime\": 0, \"cores\": 0, \"files\": null"), "");
  EXPECT_EQ(f.graph.recorded_run_time(TaskId(0)), Duration(0));
  EXPECT_EQ(f.graph.profile(TaskId(0)).shape.cores, 1u);
  EXPECT_EQ(load("\"runtime\": null, \"cores\": 2.1"), "");
  EXPECT_EQ(f.graph.recorded_run_time(TaskId(0)), std::nullopt);
  EXPECT_EQ(f.graph.profile(TaskId(0)).shape.cores, 3u);
  EXPECT_EQ(load("\"runtime\": 3000000001"),
            "x.json:2:26: runtime cannot be 3000000001; write a number from 0 to 3000000000");
  EXPECT_EQ(load("\"cores\": 65537"), "x.json:2:24: cores cannot be 65537; write a number from 0 to 65536");
  EXPECT_EQ(load("\"coreCount\": -1"), "x.json:2:28: coreCount cannot be -1; write a number from 0 to 65536");
  EXPECT_EQ(load("\"files\": [{\"name\": \"f\", \"sizeInBytes\": 5e18}]"),
            "x.json:2:54: sizeInBytes cannot be 5e+18; write a number from 0 to 4e+18");
  f.options.one_core = true;
  EXPECT_EQ(load("\"cores\": 8"), "");
  EXPECT_EQ(f.graph.profile(TaskId(0)).shape.cores, 1u);
}

TEST(WfFormatTest, TheKindIsTheCategoryElseTheNameWithoutItsNumberElseTheProgram) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("name": "a_ID0000001")", "a"},
      {R"("name": "a-12")", "a"},
      {R"("name": "a_-.7")", "a"},
      {R"("name": "12")", "12"},
      {R"("name": "-7")", "-"},
      {R"("name": "a")", "a"},
      {R"("name": "a1b")", "a1b"},
      {R"("name": "a_IDb5")", "a_IDb"},
      {R"("name": "a-ID5")", "a-ID"},
      {R"("name": "_ID5")", "_ID"},
      {R"("id": "b-3")", "b"},
      {R"("name": "n-1", "id": "b-3")", "n"},
      {R"("name": "n", "category": "c-4")", "c-4"},
      {R"("name": "n", "command": {"program": "/bin/p"})", "n"},
      {R"("name": "7", "command": {"program": "/bin/p"})", "p"},
      {R"x("name": "NF:A:B (x 1)", "command": {"program": "/bin/p"})x", "B"},
      {R"("name": "n", "category": "c", "command": {"program": "/bin/p"})", "c"},
      {R"("name": "n", "command": {"program": ""})", "n"},
      {R"("name": "n", "command": "sh")", "n"}};
  LoadedFlow f;
  for (const auto& [task, kind] : cases) {
    f.Load("x.json", StrCat("{\"workflow\": {\"tasks\": [{", task, "}]}}"));
    ASSERT_TRUE(f.status.ok()) << task << f.status.message();
    EXPECT_EQ(f.graph.kind_name(f.graph.kind(TaskId(0))), kind) << task;
  }
}

TEST(WfFormatTest, WhatAnExecutionAddsToItsTask) {
  const auto text = [](const char* execution) {
    return StrCat(R"({"workflow": {"specification": {"tasks": [
      {"name": "n", "id": "i", "runtime": 4, "cores": 5, "command": {"program": "old"}}]}, "execution": {"tasks": [)",
                  execution, "]}}}");
  };
  LoadedFlow f("x.json",
               text(R"({"name": "n", "coreCount": 2, "command": {"program": "new", "arguments": "one"}})"));
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  EXPECT_EQ(f.Command("n"), "new one");
  EXPECT_EQ(f.graph.profile(TaskId(0)).shape.cores, 2u);
  EXPECT_EQ(f.graph.recorded_run_time(TaskId(0)), std::chrono::seconds(4)) << "it says none";
  f.Load("x.json", text(R"({"id": "i", "runtimeInSeconds": 0})"));
  EXPECT_EQ(f.graph.recorded_run_time(TaskId(0)), Duration(0));
  EXPECT_EQ(f.graph.form(TaskId(0)), CommandForm::kNone);
  f.Load("x.json", text("{\"id\": \"n\"},\n{\"id\": \"a\"}, {\"id\": \"b\"}"));
  EXPECT_EQ(f.status.message(),
            "x.json:3:1: execution names an unknown task \"a\"; specification.tasks has to hold it\n"
            "x.json:3:14: execution names an unknown task \"b\"; specification.tasks has to hold it");
}

TEST(WfFormatTest, LinksToNobodyAndTooManyTasks) {
  LoadedFlow f(
      "x.json",
      "{\"workflow\": {\"tasks\": [{\"name\": \"a\"},\n {\"name\": \"b\", \"children\": [\"c\", \"a\"]}]}}");
  EXPECT_EQ(f.status.message(),
            "x.json:2:2: the task is linked to an unknown task \"c\"; parents and children name tasks of the "
            "same file");
  f.options.max_tasks = 1;
  f.Load("x.json", "{\"workflow\": {\"tasks\": [{\"name\": \"a\"}]}}");
  EXPECT_TRUE(f.status.ok()) << f.status.message();
  f.Load("x.json", "{\"workflow\": {\"tasks\": [{\"name\": \"a\"},\n{\"name\": \"b\"}, {}]}}");
  EXPECT_EQ(f.status.message(), "x.json:2:1: there are more than 1 tasks; split them into several runs");
}

TEST(WfFormatTest, WhatIsNoJsonIsToldByWhatItIs) {
  constexpr std::string_view kRight = "; WfFormat is a JSON object with \"workflow\" (wfcommons.org/format)";
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"", "1:1", "the file is empty"},
      {"{\"workflow\": {\"tasks\": [\n {\"na\\\"me\": \"\\\\\", \"a", "2:19", "a text has no closing \""},
      {"{\"workflow\": ", "1:14", "it ends within a list or object"},
      {"{\"workflow\": {},\n \"x\" 1}", "2:6", "a comma, colon, key or bracket is missing or too many here"},
      {"{\"workflow\": {},\n \"x\": @}", "2:7", "a comma, colon, key or bracket is missing or too many here"},
  };
  LoadedFlow f;
  for (const auto& [text, at, what] : cases) {
    f.Load("x.json", text);
    EXPECT_EQ(f.status.message(), StrCat("x.json:", at, ": this is no JSON: ", what, kRight)) << text;
  }
  const std::string open(198, '['), close(198, ']');
  for (const bool too_deep : {false, true}) {
    const std::string more = too_deep ? "[[[1]]]" : "[[1]]";
    f.Load("x.json",
           StrCat("{\"x\": ", open, more, close, ", \"workflow\": {\"tasks\": [{\"name\": \"a\"}]}}"));
    EXPECT_EQ(f.status.ok(), !too_deep) << f.status.message();
  }
}

TEST(WfFormatTest, OptionsThatAreOneWordWithTheirValue) {
  LoadedFlow f;
  const auto notices = [&](const std::string& argument, int tasks) {
    std::string text = "{\"workflow\": {\"tasks\": [";
    for (int i = 0; i < tasks; ++i)
      text += StrCat(i > 0 ? "," : "", "\n{\"name\": \"t", i,
                     "\", \"command\": {\"program\": \"p\", \"arguments\": [\"", argument, "\", \"", argument,
                     "\"]}}");
    f.Load("x.json", text + "]}}");
    return f.flow.notices.empty() ? "" : f.flow.notices[0].substr(0, f.flow.notices[0].find(" is an option"));
  };
  EXPECT_EQ(notices("--m 1", 1), "x.json:2:1: the argument \"--m 1\"");
  EXPECT_EQ(notices("--azAZ09-_ 1", 2),
            "x.json:2:1: the argument \"--azAZ09-_ 1\" (and the like in 1 more task)");
  EXPECT_EQ(notices("--m 1", 3), "x.json:2:1: the argument \"--m 1\" (and the like in 2 more tasks)");
  for (const char* plain :
       {"-- 1", "-m 1", "--m", "--m=1 2", "--m: 1", "--m@ 1", "--m[ 1", "--m` 1", "--m{ 1", "--m/ 1"})
    EXPECT_EQ(notices(plain, 1), "") << plain;
}

}  // namespace
}  // namespace harrow::formats
