#include <gtest/gtest.h>

#include "base/text.h"
#include "support/loaded_flow.h"

namespace harrow::formats {
namespace {

using test::LoadedFlow;
using Names = std::vector<std::string>;

TEST(RecordedTest, StandardTaskGraph) {
  const LoadedFlow flow(
      "g.stg", "# made by hand\n 2\n 0 0 0\n 1 5 1 0\n 2 7.25 1 0\n 3 0 2 1 2\n# the end\n nonsense\n");
  ASSERT_TRUE(flow.status.ok()) << flow.status.message();
  EXPECT_EQ(flow.flow.formats, std::vector<Format>{Format::kStg});
  ASSERT_EQ(flow.graph.task_count(), 4u);
  EXPECT_EQ(flow.Before("3"), (Names{"1", "2"}));
  EXPECT_EQ(flow.graph.recorded_run_time(flow.Task("2")), std::chrono::milliseconds(7250));
}

TEST(RecordedTest, Dax) {
  const LoadedFlow flow("g", R"(<?xml version="1.0"?>
<!-- <job id="no"/> -->
<!DOCTYPE adag>
<p:adag xmlns:p="x" version='2.1'>
  <job id="a" name="make &amp; do" runtime="1.5"><uses file="in" link="input" size="10"/><uses file="f" link="output" size="20.0"/></job>
  <job id="b" name="use" runtime="2">
    <argument>-x <![CDATA[</job>]]></argument>
    <uses name="f" link="input"/><uses name="f" link="output"/>
  </job>
  <job id="c" name="use" runtime="3"/>
  <child ref="c"><parent ref="a"/></child>
</p:adag>
)");
  ASSERT_TRUE(flow.status.ok()) << flow.status.message();
  EXPECT_EQ(flow.flow.formats, std::vector<Format>{Format::kDax});
  ASSERT_EQ(flow.graph.task_count(), 3u);
  EXPECT_EQ(flow.Before("b"), Names{"a"});
  EXPECT_EQ(flow.Before("c"), Names{"a"});
  EXPECT_EQ(flow.In("b"), Names{"f"});  // the first that writes it is its producer
  EXPECT_EQ(flow.Out("b"), Names{});
  EXPECT_EQ(flow.graph.kind_name(flow.graph.kind(flow.Task("a"))), "make & do");
  EXPECT_EQ(flow.graph.file_size(*flow.graph.FindFile("f")), 20);
}

TEST(RecordedTest, CharactersOfADaxByNumber) {
  LoadedFlow flow("g",
                  "<adag><job id=\"a\" name=\"&#65;&#x42;&#x6a;&#x4A; "
                  "&#233;&#x20AC;&#x1F600;&lt;&gt;&quot;&apos;\" runtime=\"1\"/></adag>");
  ASSERT_TRUE(flow.status.ok()) << flow.status.message();
  EXPECT_EQ(flow.graph.kind_name(flow.graph.kind(TaskId(0))), "ABjJ \u00e9\u20ac\U0001F600<>\"'");
}

TEST(RecordedTest, ADaxThatIsCut) {
  const std::string whole = "<adag>\n<job id=\"a\" name=\"n\" runtime=\"1\"/>\n<!-- c -->\n</adag>";
  LoadedFlow flow("g", whole);
  ASSERT_TRUE(flow.status.ok()) << flow.status.message();
  for (size_t length = 6; length < whole.size(); ++length) {
    flow.Load("g", whole.substr(0, length));
    EXPECT_NE(flow.status.message().find("; is the file cut?"), std::string::npos)
        << length << ": " << flow.status.message();
  }
}

TEST(RecordedTest, ADaxTellsWhatItsFilesAreFor) {
  LoadedFlow flow("g", R"(<adag>
  <job id="a" name="x" runtime="1"><uses file="tool" link="none" size="5"/><uses file="in" link="input"/>
    <uses file="out" link="output"/><uses file="log" link="checkpoint"/><uses file="plain"/></job>
  <job id="b" name="x" runtime="1"><uses file="tool" link="none"/><uses file="both" link="inout"/></job>
</adag>)");
  ASSERT_TRUE(flow.status.ok()) << flow.status.message();
  EXPECT_EQ(flow.In("a"), Names{"in"});
  EXPECT_EQ(flow.Out("a"), Names{"out"});
  EXPECT_EQ(flow.Before("b"), Names{});
  EXPECT_EQ(flow.Out("b"), Names{"both"});
  EXPECT_FALSE(flow.graph.FindFile("tool"));
  flow.Load("g", "<adag>\n<job id=\"a\" name=\"x\"><uses file=\"f\" link=\"inptu\"/></job></adag>");
  EXPECT_EQ(flow.status.message(), "g:2:22: link cannot be \"inptu\"; write input, output, inout or none");
}

TEST(RecordedTest, TableOfTasks) {
  const LoadedFlow flow(
      "g.dag.tsv",
      "I\tb\tf\r\nT\ta\tk\t0.29\nT\tb\tk\t1e1\t1.5\n# note\n\nO\ta\tf\nF\tf\t7\nE\tb\tc\nT\tc\tl\t0\n");
  ASSERT_TRUE(flow.status.ok()) << flow.status.message();
  ASSERT_EQ(flow.graph.task_count(), 3u);
  EXPECT_EQ(flow.Before("b"), Names{"a"});
  EXPECT_EQ(flow.Before("c"), Names{"b"});
  EXPECT_EQ(flow.graph.recorded_run_time(flow.Task("a")), std::chrono::milliseconds(290));
  EXPECT_EQ(flow.graph.profile(flow.Task("b")).shape.cores, 2u);
  LoadedFlow one;
  one.options.one_core = true;
  one.Load("g.dag.tsv", "T\tb\tk\t1\t8\n");
  EXPECT_EQ(one.graph.profile(TaskId(0)).shape.cores, 1u);
}

TEST(RecordedTest, CannotBeRun) {
  LoadedFlow flow;
  flow.options.need_commands = true;
  flow.Load("g.dag.tsv", "T\ta\tk\t1\n");
  EXPECT_EQ(flow.status.message().substr(0, 14), "g.dag.tsv:1:1:");
  EXPECT_NE(flow.status.message().find("harrow replay"), std::string::npos);
}

TEST(RecordedTest, WhatATableOfTasksMayNotSay) {
  constexpr const char* kOneTask = "T\ta\tk\t1\n";
  const std::pair<std::string, std::string> cases[] = {
      {"T\ta\tk\n", "1:1: this line is cut or too long; write T id kind seconds [cores], with tabs between"},
      {"T\ta\tk\t1\t2\t3\n",
       "1:1: this line is cut or too long; write T id kind seconds [cores], with tabs between"},
      {"T\ta\tk\t1\t2\t3\t4\t5\n",
       "1:1: this line is cut or too long; write T id kind seconds [cores], with tabs between"},
      {"T\ta\t\t1\n",
       "1:1: this line is cut or too long; write T id kind seconds [cores], with tabs between"},
      {"T\ta\tk\t1\t\n",
       "1:1: this line is cut or too long; write T id kind seconds [cores], with tabs between"},
      {"T\ta\tk\tx\n", "1:7: a task's time in seconds cannot be \"x\"; write a number from 0 to 3000000000"},
      {"T\ta\tk\t1x\n",
       "1:7: a task's time in seconds cannot be \"1x\"; write a number from 0 to 3000000000"},
      {"T\ta\tk\t3000000001\n",
       "1:7: a task's time in seconds cannot be \"3000000001\"; write a number from 0 to 3000000000"},
      {"T\ta\tk\t1\t65537\n", "1:9: a task's cores cannot be \"65537\"; write a number from 0 to 65536"},
      {std::string(kOneTask) + "F\tf\n",
       "2:1: this line is cut or too long; write F file bytes, with tabs between"},
      {std::string(kOneTask) + "F\tf\t1\t2\n",
       "2:1: this line is cut or too long; write F file bytes, with tabs between"},
      {std::string(kOneTask) + "F\tf\t5e18\n",
       "2:5: a file's size in bytes cannot be \"5e18\"; write a number from 0 to 4e+18"},
      {std::string(kOneTask) + "I\ta\n",
       "2:1: this line is cut or too long; write I task file, with tabs between"},
      {std::string(kOneTask) + "I\ta\tf\tg\n",
       "2:1: this line is cut or too long; write I task file, with tabs between"},
      {std::string(kOneTask) + "O\ta\n",
       "2:1: this line is cut or too long; write O task file, with tabs between"},
      {std::string(kOneTask) + "O\tb\tf\n", "2:3: there is no task \"b\"; a line T tells each task"},
      {std::string(kOneTask) + "E\ta\n",
       "2:1: this line is cut or too long; write E parent child, with tabs between"},
      {std::string(kOneTask) + "E\ta\ta\ta\n",
       "2:1: this line is cut or too long; write E parent child, with tabs between"},
      {"E\tb\ta\r\n\n# note\n" + std::string(kOneTask),
       "1:3: there is no task \"b\"; a line T tells each task"},
      {std::string(kOneTask) + "X\ta\n",
       "2:1: a line cannot begin with \"X\"; lines begin with T (task), F (file), I (input), O (output) or E "
       "(edge), then a tab"},
      {std::string(kOneTask) + "\n# note\r\n\r\n" + kOneTask,
       "5:1: there are two tasks \"a\", the other one at line 1; every task has a name of its own"},
  };
  LoadedFlow flow;
  for (const auto& [text, said] : cases) {
    flow.Load("g.dag.tsv", text);
    EXPECT_EQ(flow.status.message(), "g.dag.tsv:" + said) << text;
  }
  std::string many;
  for (int i = 0; i < 100; ++i) many += "X\n";
  flow.Load("g.dag.tsv", many);
  EXPECT_NE(flow.status.message().find("g.dag.tsv:20:1"), std::string::npos);
  EXPECT_EQ(flow.status.message().find("g.dag.tsv:21:1"), std::string::npos) << "then reading stops";
}

TEST(RecordedTest, TheMostThatATableOfTasksMaySay) {
  LoadedFlow flow("g.dag.tsv",
                  "T\ta\tk\t3e9\t65536\nT\tb\tk\t0\t0\nT\tc\tk\t1\t1."
                  "01\nF\tf\t4e18\nF\tg\t0\nF\tg\t5\nF\tg\t4\nE\ta\ta\nO\ta\tf");
  ASSERT_TRUE(flow.status.ok()) << flow.status.message();
  EXPECT_EQ(flow.graph.recorded_run_time(flow.Task("a")), std::chrono::seconds(3'000'000'000));
  EXPECT_EQ(flow.graph.recorded_run_time(flow.Task("b")), Duration(0));
  EXPECT_EQ(flow.graph.profile(flow.Task("a")).shape.cores, 65536u);
  EXPECT_EQ(flow.graph.profile(flow.Task("b")).shape.cores, 1u) << "one at least";
  EXPECT_EQ(flow.graph.profile(flow.Task("c")).shape.cores, 2u);
  EXPECT_EQ(flow.graph.file_size(*flow.graph.FindFile("f")), 4'000'000'000'000'000'000);
  EXPECT_EQ(flow.graph.file_size(*flow.graph.FindFile("g")), 5) << "the largest counts";
  EXPECT_EQ(flow.Out("a"), Names{"f"});
  EXPECT_EQ(flow.graph.PlaceText(flow.graph.place(flow.Task("c"))), "g.dag.tsv:3:1");
}

TEST(RecordedTest, SeveralFilesOfATask) {
  const LoadedFlow flow("g.dag.tsv",
                        "T\ta\tk\t1\nT\tb\tk\t1\nO\tb\tz\nO\ta\ty\nI\tb\ty\nI\ta\tx\nO\ta\tz\nO\ta\ty\nI\tb\t"
                        "x\nI\tb\tx\nI\ta\ty\nI\tb\tw\n");
  ASSERT_TRUE(flow.status.ok()) << flow.status.message();
  EXPECT_EQ(flow.In("a"), Names{"x"}) << "what it makes itself is no input";
  EXPECT_EQ(flow.Out("a"), (Names{"y", "z"})) << "the first task that makes a file, in the order of tasks";
  EXPECT_EQ(flow.In("b"), (Names{"y", "x", "w"}));
  EXPECT_EQ(flow.Out("b"), Names{});
}

TEST(RecordedTest, NoMoreTasksThanAreTaken) {
  LoadedFlow flow;
  flow.options.max_tasks = 2;
  flow.Load("g.dag.tsv", "T\ta\tk\t1\nT\tb\tk\t1\n");
  EXPECT_TRUE(flow.status.ok()) << flow.status.message();
  flow.Load("g.dag.tsv", "T\ta\tk\t1\nT\tb\tk\t1\nT\tc\tk\t1\nT\tc\tk\t1\n");
  EXPECT_EQ(flow.status.message(),
            "g.dag.tsv:3:1: there are more than 2 tasks; split them into several runs");
}

TEST(RecordedTest, WhatAStandardTaskGraphMayNotSay) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "1:1: the file is empty; a standard task graph begins with its number of tasks"},
      {"# nothing\n", "1:1: the file is empty; a standard task graph begins with its number of tasks"},
      {" x\n", "1:2: the number of tasks cannot be \"x\"; write a number from 0 to 1000000000"},
      {"1000000001\n0 1 0\n",
       "1:1: the number of tasks cannot be \"1000000001\"; write a number from 0 to 1000000000"},
      {"1\n0 5", "2:1: the file ends within a task; a task is: id, time, number of predecessors, their ids"},
      {"1\n0", "2:1: the file ends within a task; a task is: id, time, number of predecessors, their ids"},
      {"1\n\n 0 -1 0", "3:4: a task's time cannot be \"-1\"; write a number from 0 to 3000000000"},
      {"1\n0 3000000001 0",
       "2:3: a task's time cannot be \"3000000001\"; write a number from 0 to 3000000000"},
      {"1\n0 1 1000000001",
       "2:5: the number of predecessors cannot be \"1000000001\"; write a number from 0 to 1000000000"},
      {"1\n0\t1\t1\r\n", "2:5: there are not 1 predecessors after it; the file ends"},
      {"1\n0 1 1 7", "2:7: there is no task \"7\"; predecessors are ids of the same file"},
      {"2\n0 1 0\n0 1 0",
       "3:1: there are two tasks \"0\", the other one at line 2; every task has a name of its own"},
  };
  LoadedFlow flow;
  for (const auto& [text, said] : cases) {
    flow.Load("g.stg", text);
    EXPECT_EQ(flow.status.message(), std::string("g.stg:") + said) << text;
  }
  flow.Load("g.stg", "# head\n\n 1000000000\n0 3e9 0\n 1\t1 1 \r\n 0\n2 0 2 0 1 # the end\n5 5 5\n");
  ASSERT_TRUE(flow.status.ok()) << flow.status.message();
  EXPECT_EQ(flow.graph.task_count(), 3u);
  EXPECT_EQ(flow.Before("2"), (Names{"0", "1"}));
  EXPECT_EQ(flow.graph.recorded_run_time(flow.Task("0")), std::chrono::seconds(3'000'000'000));
  EXPECT_EQ(flow.graph.PlaceText(flow.graph.place(flow.Task("1"))), "g.stg:5:2");
  EXPECT_EQ(flow.graph.kind_name(flow.graph.kind(TaskId(0))), "task");
}

TEST(RecordedTest, WhatADaxMayNotSay) {
  const auto no_xml = [&](std::string_view at, std::string_view what) {
    return StrCat(at, ": this is no XML: ", what, "; is the file cut?");
  };
  const std::pair<std::string, std::string> cases[] = {
      {"<!-- a\n - b", no_xml("2:4", "error parsing comment")},
      {"<adag>\n  <![CDATA[ a ]>", no_xml("2:12", "error parsing CDATA section")},
      {"<?xml ", no_xml("1:6", "error parsing document declaration/processing instruction")},
      {"<!DOCTYPE adag", no_xml("1:14", "error parsing document type declaration")},
      {"<p:dag/>", "1:1: a DAX begins with <adag>, not <dag>; give a Pegasus DAX of version 2 or 3"},
      {"<adag></adag>\n<adag/>", "2:1: after the end of <adag> stands more; a file holds one"},
      {"<!DOCTYPE x [<!ENTITY e \"ha\">]>\n<adag><job id=\"&e;\"/></adag>",
       "1:11: entities of a file's own are not read; write what they stand for instead"},
      {"<adag/><!-- -->\n <other/>", "2:2: after the end of <adag> stands more; a file holds one"},
      {"<adag>\n</job>", no_xml("2:3", "start-end tags mismatch")},
      {"<adag>\n</adag", no_xml("2:6", "error parsing end element tag")},
      {"<adag></adag>\n</adag>", no_xml("2:3", "start-end tags mismatch")},
      {"<adag x>", no_xml("1:8", "error parsing element attribute")},
      {"<adag =\"1\">", no_xml("1:7", "error parsing start element tag")},
      {"<adag x=1>", no_xml("1:9", "error parsing element attribute")},
      {"<adag x='1\">", no_xml("1:10", "error parsing element attribute")},
      {"<adag x=", no_xml("1:8", "error parsing element attribute")},
      {"<adag><job name=\"a\"/></adag>", "1:7: the job has no id; write <job id=\"...\">"},
      {"<adag><job id=\"a\" runtime=\"3000000001\"/></adag>",
       "1:7: runtime cannot be \"3000000001\"; write a number from 0 to 3000000000"},
      {"<adag><job id=\"a\"><uses link=\"input\"/></job></adag>",
       "1:19: uses names no file; write <uses file=\"...\" link=\"input\">"},
      {"<adag><job id=\"a\"><uses file=\"f\" link=\"input\" size=\"5e18\"/></job></adag>",
       "1:19: size cannot be \"5e18\"; write a number from 0 to 4e+18"},
      {"<adag><job id=\"a\"/>\n<job id=\"a\"><uses link=\"input\"/></job></adag>",
       "2:1: there are two tasks \"a\", the other one at line 1; every task has a name of its own"},
      {"<adag>\n<job id=\"a\"/><child ref=\"b\"><parent ref=\"a\"/></child></adag>",
       "2:29: there is no job \"b\"; parents and children are ids of jobs of the same file"},
  };
  LoadedFlow flow;
  for (const auto& [text, said] : cases) {
    flow.Load("g.dax", text);
    EXPECT_EQ(flow.status.message(), "g.dax:" + said) << text;
  }
}

TEST(RecordedTest, WhatADaxMaySay) {
  LoadedFlow flow("g.dax", R"(<?xml?><!-- <a> --><!DOCTYPE x><adag
   name = "x"	y='"'><job id='1' runtime="3e9"/>
  <p:job p:id = '2'><q:uses name="f" link="output" size="4e18"/></p:job ><job id="3" name="c"><deep><job id="4"/><uses file="g" link="input"/></deep></job>
  <uses file="h" link="input"/><other><parent ref="3"/></other>text &amp; more<![CDATA[</adag>]]>
  <child ref="2"><parent ref="1"/><parent ref="3"/></child><child ref="3"><deep><parent ref="2"/></deep></child>
</adag>
<!-- the end -->
)");
  ASSERT_TRUE(flow.status.ok()) << flow.status.message();
  ASSERT_EQ(flow.graph.task_count(), 3u);
  EXPECT_EQ(flow.Before("2"), (Names{"1", "3"}));
  EXPECT_EQ(flow.Before("3"), Names{});
  EXPECT_EQ(flow.graph.recorded_run_time(flow.Task("1")), std::chrono::seconds(3'000'000'000));
  EXPECT_EQ(flow.graph.recorded_run_time(flow.Task("2")), std::nullopt);
  EXPECT_EQ(flow.graph.kind_name(flow.graph.kind(flow.Task("1"))), "job");
  EXPECT_EQ(flow.graph.kind_name(flow.graph.kind(flow.Task("3"))), "c");
  EXPECT_EQ(flow.graph.PlaceText(flow.graph.place(flow.Task("2"))), "g.dax:3:3");
  EXPECT_EQ(flow.graph.file_size(*flow.graph.FindFile("f")), 4'000'000'000'000'000'000);
  EXPECT_EQ(flow.graph.file_count(), 1u) << "uses stand in a job, jobs in adag";
  // Also one that would need a stack of its own.
  std::string deep = "<adag><job id=\"a\"/>";
  for (int i = 0; i < 100'000; ++i) deep += "<a>";
  for (int i = 0; i < 100'000; ++i) deep += "</a>";
  flow.Load("g.dax", deep + "</adag>");
  EXPECT_TRUE(flow.status.ok()) << flow.status.message();
}

TEST(RecordedTest, CharactersAtTheEdgesOfUtf8) {
  LoadedFlow flow("g.dax",
                  "<adag><job id=\"a\" "
                  "name=\"&#x7F;&#x80;&#x7FF;&#x800;&#xD7FF;&#xE000;&#xFFFF;&#x10000;&#x10FFFF;\"/></adag>");
  ASSERT_TRUE(flow.status.ok()) << flow.status.message();
  EXPECT_EQ(
      flow.graph.kind_name(flow.graph.kind(TaskId(0))),
      "\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf");
}

}  // namespace
}  // namespace harrow::formats
