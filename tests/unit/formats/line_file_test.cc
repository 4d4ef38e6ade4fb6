#include <cstdio>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>

#include "base/text.h"
#include "formats/kind_cache.h"
#include "support/loaded_flow.h"

namespace harrow::formats {
namespace {

using graph::CommandForm;
using test::LoadedFlow;

TEST(LineFileTest, ATaskALine) {
  LoadedFlow f("tasks.txt", "cat a\n\n# comment\n  ls -l  \r\n\t\nsort x > y");
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  ASSERT_EQ(f.graph.task_count(), 3u);
  EXPECT_EQ(f.graph.command(TaskId(0)), "cat a");
  EXPECT_EQ(f.graph.command(TaskId(1)), "ls -l");
  EXPECT_EQ(f.graph.command(TaskId(2)), "sort x > y");
  EXPECT_EQ(f.graph.form(TaskId(0)), CommandForm::kWords);
  EXPECT_EQ(f.graph.form(TaskId(2)), CommandForm::kShell);
  EXPECT_EQ(f.graph.PlaceText(f.graph.place(TaskId(1))), "tasks.txt:4:3");
  EXPECT_EQ(f.graph.TaskName(TaskId(2)), "#3");
  EXPECT_EQ(f.graph.given_name(TaskId(2)), "");
  EXPECT_EQ(f.graph.kind_name(f.graph.kind(TaskId(1))), "ls");
  EXPECT_EQ(f.flow.name, "tasks");
}

TEST(LineFileTest, DirectivesSetWhatFollows) {
  LoadedFlow f("tasks.txt",
               "a\n#HARROW cores=4 time=10m memory=2G\nb\n#HARROW cores=1 env.A=\"x y\" env.B=z cwd='run "
               "dir' kind=family\nc\n"
               "#HARROW shell=bash retries=3 retry_on=75,137 priority=-2 keep=true ranks=8 nodes=2 "
               "whole_node=true gpus=1 run_time=90s stdout=o.%j\nd x\n");
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  const auto profile = [&](uint32_t n) { return f.graph.profile(TaskId(n)); };
  EXPECT_EQ(profile(0), graph::Profile());
  EXPECT_EQ(profile(1).shape.cores, 4u);
  EXPECT_EQ(profile(1).shape.memory, uint64_t{2} << 30);
  EXPECT_EQ(profile(1).time_limit, std::chrono::minutes(10));
  EXPECT_EQ(profile(2).shape.cores, 1u);
  EXPECT_EQ(profile(2).shape.memory, 0u) << "the line sets anew";
  EXPECT_EQ(profile(2).time_limit, Duration(0));
  EXPECT_EQ(profile(2).cwd, "run dir");
  EXPECT_EQ(profile(2).env, (std::vector<std::pair<std::string, std::string>>{{"A", "x y"}, {"B", "z"}}));
  EXPECT_EQ(f.graph.kind_name(f.graph.kind(TaskId(2))), "family");
  EXPECT_EQ(f.graph.form(TaskId(2)), CommandForm::kWords);
  EXPECT_EQ(f.graph.form(TaskId(3)), CommandForm::kShell);  // a shell was asked for
  EXPECT_EQ(profile(3).retries, 3);
  EXPECT_EQ(profile(3).retry_on, (std::vector<int32_t>{75, 137}));
  EXPECT_EQ(profile(3).priority, -2);
  EXPECT_TRUE(profile(3).keep);
  EXPECT_EQ(profile(3).ranks, 8u);
  EXPECT_EQ(profile(3).shape.nodes, 2u);
  EXPECT_EQ(profile(3).shape.cores, 4u);  // a core a rank: what was said above is gone
  EXPECT_TRUE(profile(3).shape.whole_node);
  EXPECT_EQ(profile(3).shape.devices, 4u);
  EXPECT_EQ(profile(3).stdout_path, "o.%j");
  EXPECT_EQ(f.graph.recorded_run_time(TaskId(3)), std::chrono::seconds(90));
}

TEST(LineFileTest, MemoryThatANodeMayHave) {
  for (const char* good : {"1M", "1048576", "1024T"}) {
    const LoadedFlow f("x.txt", std::string("#HARROW memory=") + good + "\nx\n");
    EXPECT_TRUE(f.status.ok()) << f.status.message();
  }
  const LoadedFlow large("x.txt", "#HARROW memory=1025T\nx\n"), small("x.txt", "#HARROW memory=1048575\nx\n");
  EXPECT_NE(large.status.message().find("a node has at most 1024T"), std::string::npos)
      << large.status.message();
  EXPECT_NE(small.status.message().find("if MiB or GiB are meant"), std::string::npos)
      << small.status.message();
}

/// What `-` reads, in as many pieces as it takes.
TEST(LineFileTest, StandardInputOfAnySize) {
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += "prog argument-" + std::to_string(i) + "\n";
  ASSERT_GT(text.size(), 4u * 65536);
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(std::fwrite(text.data(), 1, text.size(), file), text.size());
  std::rewind(file);
  const int before = dup(STDIN_FILENO);
  dup2(fileno(file), STDIN_FILENO);
  LoadedFlow f;
  f.status = Load(f.fs, {{"-", false, std::nullopt}}, f.options, &f.graph, &f.flow);
  before >= 0 ? dup2(before, STDIN_FILENO) : close(STDIN_FILENO);
  if (before >= 0) close(before);
  std::fclose(file);
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  ASSERT_EQ(f.graph.task_count(), 20'000u);
  EXPECT_EQ(f.graph.command(TaskId(19'999)), "prog argument-19999");
}

TEST(LineFileTest, AValueInQuotesMayBeEmptyOrHoldBlanks) {
  LoadedFlow f("tasks.txt", "#HARROW env.A=\"\" env.B='' env.C='a b' cores=2\na\n");
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  const graph::Profile& profile = f.graph.profile(TaskId(0));
  EXPECT_EQ(profile.shape.cores, 2u);
  ASSERT_EQ(profile.env.size(), 3u);
  EXPECT_EQ(profile.env[0].second + profile.env[1].second, "");
  EXPECT_EQ(profile.env[2].second, "a b");
}

TEST(LineFileTest, RanksAskForCores) {
  LoadedFlow f("tasks.txt", "#HARROW ranks=10 nodes=4\na\n");
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  EXPECT_EQ(f.graph.profile(TaskId(0)).shape.cores, 3u);  // of each node
}

TEST(LineFileTest, AllProblemsAreToldAtOnce) {
  LoadedFlow f("tasks.txt", "#HARROW coers=4\na\n#HAROW cores=4\nb\n  #HARROW time=x\n");
  EXPECT_EQ(f.status.code(), Code::kInvalid);
  EXPECT_EQ(f.status.message().find(
                "tasks.txt:1:9: unknown key coers; did you mean cores?\ntasks.txt:3:1: \"#HAROW\""),
            0u)
      << f.status.message();
  EXPECT_NE(f.status.message().find("\ntasks.txt:5:11: time: "), std::string::npos) << f.status.message();
}

TEST(LineFileTest, CommentsThatOnlyLookLikeIt) {
  LoadedFlow f("tasks.txt", "# narrow cores=4 of them\n#HARROWING tale\n#SBATCH -n 4\n# x = y\ntrue\n");
  EXPECT_FALSE(f.status.ok());  // "narrow cores=4" is too near
  f.Load("tasks.txt", "#HARROWING tale\n# x = y\n#\n##\ntrue\n#SBATCH --ntasks=4\n");
  EXPECT_TRUE(f.status.ok()) << f.status.message();
}

TEST(LineFileTest, ByteOrderMarkAndLinesOption) {
  LoadedFlow f("tasks.txt", "\xEF\xBB\xBFtrue\n");
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  EXPECT_EQ(f.graph.command(TaskId(0)), "true");
  LoadedFlow script;
  script.status = formats::Load(script.fs, {{"job.sh", true, "#!/bin/sh\necho a\necho b\n"}}, script.options,
                                &script.graph, &script.flow);
  ASSERT_TRUE(script.status.ok()) << script.status.message();
  EXPECT_EQ(script.graph.task_count(), 2u);
}

TEST(LineFileTest, TooManyTasks) {
  LoadedFlow f;
  f.options.max_tasks = 3;
  f.Load("tasks.txt", "a\nb\nc\n");
  EXPECT_TRUE(f.status.ok());
  f.Load("tasks.txt", "a\nb\nc\nd\ne\n");
  EXPECT_EQ(f.status.message(), "tasks.txt:4:1: there are more than 3 tasks; split them into several runs");
}

TEST(KindCacheTest, EveryProgramHasAKindOfItsOwn) {
  graph::Graph graph;
  KindCache kinds(&graph);
  const KindId a = kinds.Of("a"), none = kinds.Of(""), b = kinds.Of("b");
  EXPECT_NE(a, none);
  EXPECT_NE(a, b);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(kinds.Of("b"), b);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(kinds.Of("a"), a);
  EXPECT_EQ(kinds.Of(""), none);
  EXPECT_EQ(graph.kind_name(none), "");
}

TEST(LineFileTest, ManyProgramsShareAKind) {
  std::string text;
  for (int i = 0; i < 3000; ++i) text += StrCat("./job", i, "\n");
  LoadedFlow f("tasks.txt", text);
  ASSERT_TRUE(f.status.ok());
  EXPECT_EQ(f.graph.kind_count(), 1001u);
  EXPECT_EQ(f.graph.kind_name(f.graph.kind(TaskId(2999))), "other");
}

}  // namespace
}  // namespace harrow::formats
