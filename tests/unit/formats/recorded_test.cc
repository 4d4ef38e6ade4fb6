#include <gtest/gtest.h>

#include "support/loaded_flow.h"

namespace harrow::formats {
namespace {

using test::LoadedFlow;
using Names = std::vector<std::string>;

TEST(RecordedTest, StandardTaskGraph) {
  const LoadedFlow flow("g.stg", "# made by hand\n 2\n 0 0 0\n 1 5 1 0\n 2 7.25 1 0\n 3 0 2 1 2\n# the end\n nonsense\n");
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
  LoadedFlow flow("g", "<adag><job id=\"a\" name=\"&#65;&#x42;&#x6a;&#x4A; &#233;&#x20AC;&#x1F600;&lt;&gt;&quot;&apos;\" runtime=\"1\"/></adag>");
  ASSERT_TRUE(flow.status.ok()) << flow.status.message();
  EXPECT_EQ(flow.graph.kind_name(flow.graph.kind(TaskId(0))), "ABjJ \u00e9\u20ac\U0001F600<>\"'");
  for (const char* wrong : {"&#xD800;", "&#0;", "&#x110000;", "&#6a;", "&#6A;", "&#x6G;", "&#x6g;", "&#x6:;", "&#x6/;", "&#x6@;", "&#x6`;", "&#x;", "&no;", "&amp", "&#99999999999;"}) {
    flow.Load("g", std::string("<adag>\n<job id=\"a\" name=\"") + wrong + "\" runtime=\"1\"/></adag>");
    EXPECT_NE(flow.status.message().find("is no character; & is written &amp;"), std::string::npos) << wrong << ": " << flow.status.message();
  }
}

TEST(RecordedTest, ADaxThatIsCut) {
  LoadedFlow flow;
  for (const auto& [text, said] : std::initializer_list<std::pair<const char*, const char*>>{
           {"<adag>\n<job id=\"a\"", "ends within an element; the file is cut"}, {"<adag>\n<job ", "ends within an element; the file is cut"},
           {"<adag>\n< job/>", "an element has no name; < in text is written &lt;"}}) {
    flow.Load("g", text);
    EXPECT_EQ(flow.status.message().substr(0, 4), "g:2:") << flow.status.message();
    EXPECT_NE(flow.status.message().find(said), std::string::npos) << flow.status.message();
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
  const LoadedFlow flow("g.dag.tsv", "I\tb\tf\r\nT\ta\tk\t0.29\nT\tb\tk\t1e1\t1.5\n# note\n\nO\ta\tf\nF\tf\t7\nE\tb\tc\nT\tc\tl\t0\n");
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

}  // namespace
}  // namespace harrow::formats
