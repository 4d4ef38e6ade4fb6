// Lists made for disBatch and GREASY, here-documents, patterns in after, kinds, negative numbers in traces.
#include "formats/foreign_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/command_form.h"
#include "support/loaded_flow.h"

namespace harrow::formats {
namespace {

using test::LoadedFlow;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(DisBatchTest, PrefixSuffixAndBarriersAreUnderstood) {
  const LoadedFlow f("Tasks",
                     "a 0\n#DISBATCH PREFIX ( cd /w ; \n#DISBATCH SUFFIX  ) &> log\nb 1\n#DISBATCH BARRIER\n"
                     "#DISBATCH BARRIER CHECK\nc 2\nd 3\n#DISBATCH BARRIER\n#DISBATCH PREFIX \ne 4\n");
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  EXPECT_EQ(f.graph.command(TaskId(0)), "a 0");
  EXPECT_EQ(f.graph.command(TaskId(1)), "( cd /w ; b 1 ) &> log");
  EXPECT_EQ(f.graph.command(TaskId(4)), "e 4 ) &> log");
  EXPECT_EQ(f.graph.profile(TaskId(0)).shell, "bash") << "its commands are bash's";
  EXPECT_THAT(f.Before("#2"), IsEmpty());
  EXPECT_THAT(f.Before("#3"), ElementsAre("#1", "#2"));
  EXPECT_THAT(f.Before("#4"), ElementsAre("#1", "#2"));
  EXPECT_THAT(f.Before("#5"), ElementsAre("#3", "#4"));
  EXPECT_TRUE(f.graph.OnlyWaits(TaskId(0), TaskId(2)));
}

TEST(DisBatchTest, ABarrierWaitsForEndsAndOneThatChecksForSuccess) {
  const LoadedFlow f("Tasks",
                     "a\n#DISBATCH BARRIER CHECK\nb\n#DISBATCH BARRIER\nc\n#DISBATCH BARRIER\nd\n"
                     "#DISBATCH BARRIER  CHECK \ne\n");
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  const auto needs = [&](uint32_t task) {
    std::vector<std::string> names;
    for (TaskId before : f.graph.predecessors(TaskId(task)))
      names.push_back(f.graph.TaskName(before) + (f.graph.OnlyWaits(before, TaskId(task)) ? " ends" : ""));
    return names;
  };
  EXPECT_THAT(needs(1), ElementsAre("#1"));
  EXPECT_THAT(needs(2), ElementsAre("#1", "#2 ends")) << "disBatch would have stopped at the first barrier";
  EXPECT_THAT(needs(3), ElementsAre("#1", "#3 ends"));
  EXPECT_THAT(needs(4), ElementsAre("#4"));
}

TEST(DisBatchTest, TheRestIsRefusedWithAHint) {
  const auto said = [](const char* line) {
    return LoadedFlow("Tasks", std::string(line) + "\nx\n").status.message();
  };
  EXPECT_THAT(said("#DISBATCH REPEAT 10 start 5 prog"), HasSubstr("Tasks:1:1: REPEAT is not read here"));
  EXPECT_THAT(said("#DISBATCH BARRIER key"), HasSubstr("BARRIER key is not read here; write BARRIER, or"));
  EXPECT_THAT(said("#DISBATCH PERENGINE START x"), HasSubstr("disBatch's PERENGINE has no counterpart here"));
  EXPECT_THAT(said("#DISBATCH SUFFIX > $DISBATCH_TASKID"), HasSubstr("$HARROW_TASK_ID is a task's number"));
  EXPECT_FALSE(IsForeignList("x\n#DISBATCHED\n"));
}

TEST(GreasyTest, LinesWaitForLines) {
  const LoadedFlow f(
      "list",
      "# of GREASY\n/bin/a\n\n[# 2 #] /bin/b\n[#-1#]\t/bin/c\n[@ /tmp @][# 1, 2 - 4,-1 #] /bin/d x\n"
      "[##] /bin/e\n");
  ASSERT_TRUE(
      f.status.message().ends_with("no command stands in line 1; the numbers are those of the file's "
                                   "lines, comments and blank ones included"))
      << f.status.message();
  const LoadedFlow g(
      "list", "/bin/a\n\n[# 1 #] /bin/b\n[#-1#]\t/bin/c\n[@ /tmp @][# 1 - 3,-1 #] /bin/d x\n[##] /bin/e\n");
  ASSERT_TRUE(g.status.ok()) << g.status.message();
  EXPECT_THAT(g.Before("#2"), ElementsAre("#1"));
  EXPECT_THAT(g.Before("#3"), ElementsAre("#2"));
  EXPECT_THAT(g.Before("#4"), ElementsAre("#1", "#2", "#3"));
  EXPECT_THAT(g.Before("#5"), IsEmpty());
  EXPECT_EQ(g.Command("#4"), "/bin/d x");
  EXPECT_EQ(g.graph.profile(TaskId(3)).cwd, "/tmp");
  EXPECT_EQ(g.graph.profile(TaskId(4)).cwd, "");
}

TEST(GreasyTest, WhatNamesNoLineAboveIsRefused) {
  for (const char* mark :
       {"[# x #]", "[# 3 #]", "[# 2 #]", "[# +1 #]", "[# 0 #]", "[# -2 #]", "[# 2-1 #]", "[# 1->2 #]"}) {
    const LoadedFlow f("list.txt", std::string("/bin/a\n") + mark + " /bin/b\n");
    EXPECT_THAT(f.status.message(), HasSubstr("list.txt:2:1: ")) << mark;
    EXPECT_THAT(f.status.message(), HasSubstr("is no line to wait for")) << mark;
  }
  EXPECT_THAT(LoadedFlow("l.txt", "a\n[# 1 #]\n").status.message(), HasSubstr("no command stands behind"));
}

TEST(GreasyTest, MorePairsThanMemoryHoldsAreRefusedBeforeTheyAreMade) {
  std::string text;
  for (int i = 0; i < 7100; ++i) text += "a\n";
  text += "[# 1-7100";
  for (int i = 1; i < 7100; ++i) text += ",1-7100";
  const LoadedFlow f("l.txt", text + " #] b\n");
  EXPECT_THAT(f.status.message(),
              HasSubstr("l.txt:7101:1: dependencies make more than 50000000 pairs of tasks"));
}

TEST(HereDocumentTest, ItsLinesAreNotRun) {
  const LoadedFlow f("l.txt", "true\ncat <<EOF > x\nrm -rf .\nEOF\n");
  EXPECT_THAT(f.status.message(), HasSubstr("l.txt:2:5: a here-document goes over several lines"));
  EXPECT_EQ(FindHereDocument("cat<<-'E'"), 3u);
  for (const char* none :
       {"cat <<< word", "echo '<<EOF'", "echo \"a\\\"<<b\"", "echo $((1<<2))", "a # <<b", "echo \\<\\<"})
    EXPECT_EQ(FindHereDocument(none), std::string_view::npos) << none;
}

TEST(AfterTest, APatternMeansAllTasksThatMatch) {
  const std::string tasks =
      "[[task]]\nname = \"t-{i}\"\neach = { i = \"1-2\" }\ncommand = \"x\"\n[[task]]\nname = "
      "\"top\"\ncommand = \"x\"\n"
      "[[task]]\nname = \"end\"\ncommand = \"x\"\n";
  EXPECT_THAT(LoadedFlow("f.toml", tasks + "after = [\"t*\", \"e*\"]\n").Before("end"),
              ElementsAre("t-1", "t-2", "top"));
  EXPECT_THAT(LoadedFlow("f.toml", tasks + "after = [\"x*\"]\n").status.message(),
              HasSubstr("after names no task: \"x*\""));
  EXPECT_THAT(LoadedFlow("f.toml", tasks + "after = [\"[!e]*[2p]\", \"t?p\", \"*\"]\n").Before("end"),
              ElementsAre("t-1", "t-2", "top"));
}

TEST(AfterTest, AnyWaitsForTheEndAlone) {
  const std::string tasks =
      "[[task]]\nname = \"t-{i}\"\neach = { i = \"1-2\" }\ncommand = \"x\"\n[[task]]\nname = \"end\"\n"
      "command = \"x\"\nafter_any = [\"t-{i}\"]\n";
  const LoadedFlow f("f.toml", tasks + "after = [\"t-2\"]\n");
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  EXPECT_THAT(f.Before("end"), ElementsAre("t-1", "t-2"));
  EXPECT_TRUE(f.graph.OnlyWaits(f.Task("t-1"), f.Task("end")));
  EXPECT_FALSE(f.graph.OnlyWaits(f.Task("t-2"), f.Task("end")));
  EXPECT_THAT(LoadedFlow("f.toml", tasks + "[[task]]\nname = \"y\"\ncommand = \"x\"\nafter_any = [\"u\"]\n")
                  .status.message(),
              HasSubstr("f.toml:12:14: after_any names no task: \"u\""));
}

TEST(KindTest, TheFamilyElseTheScriptElseTheProgram) {
  const auto kind = [](const char* text) { return std::string(KindName(text, graph::CommandForm::kShell)); };
  EXPECT_EQ(kind("python3 -u -W ignore.x stage1.py 7"), "ignore.x")
      << "an option's value cannot be told apart";
  EXPECT_EQ(kind("python3 -u dir/stage1.py 7"), "stage1.py");
  EXPECT_EQ(kind("cd x && /usr/bin/python3.11 -m pkg.tool 7 > log"), "pkg.tool");
  EXPECT_EQ(kind("Rscript fit.R; rm x"), "Rscript") << "R; belongs to the shell";
  EXPECT_EQ(kind("bash ./job.sh 3"), "job.sh");
  EXPECT_EQ(kind("perl -e 'print 1'"), "perl");
  EXPECT_EQ(kind("python3 \"$X\""), "python3");
  EXPECT_EQ(kind("mProject a.fits"), "mProject");
  EXPECT_EQ(KindName(std::string_view("python3\0stage2.py\0x", 19), graph::CommandForm::kArgv), "stage2.py");
  const auto family = [](const std::string& name) {
    const LoadedFlow f("f.toml", "[[task]]\nname = \"" + name +
                                     "\"\neach = { i = \"1-2\", j = \"1\" }\ncommand = \"sleep 1\"\n");
    return std::string(f.graph.kind_name(f.graph.kind(TaskId(0))));
  };
  EXPECT_EQ(family("gen-{i}"), "gen");
  EXPECT_EQ(family("{i}_sim_{j}"), "sim");
  EXPECT_EQ(family("a{i}b"), "a-b");
  EXPECT_EQ(family("{i}"), "sleep");
  const LoadedFlow nextflow(
      "x.json",
      "{\"workflow\": {\"tasks\": [{\"name\": \"NF:ALIGN:FASTQC (s 1)\", \"command\": {\"program\": "
      "\"')\\n END_VERSIONS\"}}]}}");
  EXPECT_EQ(nextflow.graph.kind_name(nextflow.graph.kind(TaskId(0))), "FASTQC");
}

TEST(NegativesTest, AreReadAsUnknownCountedAndSaid) {
  const LoadedFlow dax(
      "x.dax",
      "<adag>\n<job id=\"a\" name=\"p\" runtime=\"-2\"><uses file=\"f\" link=\"input\" size=\"-5\"/></job>\n"
      "<job id=\"b\" name=\"p\" runtime=\"-1\"/>\n</adag>\n");
  ASSERT_TRUE(dax.status.ok()) << dax.status.message();
  EXPECT_FALSE(dax.graph.recorded_run_time(TaskId(0)));
  EXPECT_EQ(dax.graph.file_size(FileId(0)), -1);
  EXPECT_THAT(dax.flow.notices,
              ElementsAre("x.dax:2:1: runtime -2, and 1 more that are negative, are read as unknown",
                          "x.dax:2:35: size -5 is read as unknown"));
  const LoadedFlow table("x.dag.tsv", "T\ta\tk\t-1\nF\tf\t-7\nI\ta\tf\n");
  ASSERT_TRUE(table.status.ok()) << table.status.message();
  EXPECT_FALSE(table.graph.recorded_run_time(TaskId(0)));
  EXPECT_EQ(table.flow.notices.size(), 2u);
  const LoadedFlow wf(
      "x.json",
      "{\"workflow\": {\"tasks\": [{\"name\": \"n\", \"runtime\": -3.5, \"files\": [{\"name\": \"f\", "
      "\"link\": \"input\", \"size\": -1}]}]}}");
  ASSERT_TRUE(wf.status.ok()) << wf.status.message();
  EXPECT_FALSE(wf.graph.recorded_run_time(TaskId(0)));
  EXPECT_THAT(wf.flow.notices, ElementsAre("x.json:1:50: runtime -3.5 is read as unknown", testing::_));
}

}  // namespace
}  // namespace harrow::formats
