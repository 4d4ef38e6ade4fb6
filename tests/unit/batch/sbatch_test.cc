#include "batch/sbatch.h"

#include <cstdio>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"

namespace harrow::batch {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(SbatchWords, FindsOptionsAsSbatchReadsThem) {
  const SbatchWords words({"-N4", "--time=10", "-p", "fast", "--chdir", "/a b", "-Jx", "--job-name=y"});
  EXPECT_TRUE(words.Has("nodes", 'N'));
  EXPECT_TRUE(words.Has("time", 't'));
  EXPECT_FALSE(words.Has("time-min"));
  EXPECT_FALSE(words.Has("tim"));
  EXPECT_FALSE(words.Has("ntasks", 'n'));
  EXPECT_EQ(words.Value("nodes", 'N'), "4");
  EXPECT_EQ(words.Value("time", 't'), "10");
  EXPECT_EQ(words.Value("partition", 'p'), "fast");
  EXPECT_EQ(words.Value("chdir", 'D'), "/a b");
  EXPECT_EQ(words.Value("job-name", 'J'), "y") << "the last one holds";
  EXPECT_EQ(words.Value("output", 'o'), std::nullopt);
  EXPECT_EQ(SbatchWords({"-N"}).Value("nodes", 'N'), std::nullopt) << "sbatch will say what is missing";
  EXPECT_EQ(SbatchWords({"-N", "--nodes="}).Value("nodes", 'N'), "");
  EXPECT_FALSE(SbatchWords({"-", "N", "--", "nodes=4", "x-N"}).Has("nodes", 'N'));
  EXPECT_TRUE(words.says_nodes());
  EXPECT_FALSE(SbatchWords({"-p", "a"}).says_nodes());
  EXPECT_TRUE(SbatchWords({"-p", "a", ":", "-p", "b"}).says_nodes());
}

TEST(SbatchDefaults, WhereNothingIsSaid) {
  EXPECT_THAT(AddedToSbatch(SbatchWords({"-p", "fast"}), {}, {.job_name = "mosaic", .nodes = 3}),
              ElementsAre("--no-kill", "--no-requeue", "--exclusive", "--nodes=3", "--job-name=mosaic",
                          "--output=harrow-%j.out"));
}

TEST(SbatchDefaults, NothingBesideWhatIsSaid) {
  const SbatchDefaults defaults{.job_name = "mosaic", .nodes = 3};
  EXPECT_THAT(AddedToSbatch(SbatchWords({"-k", "--requeue", "-n8", "-Jx", "-o", "y"}), {}, defaults),
              IsEmpty());
  for (const char* part : {"-c2", "--mem=4G", "--exclusive=user", "--ntasks-per-node=4", "-s", "-G2",
                           "--gpus-per-node=1", "--gres=gpu:1"}) {
    EXPECT_THAT(AddedToSbatch(SbatchWords({part}), {}, defaults), Not(Contains("--exclusive"))) << part;
  }
  for (const char* variable :
       {"SBATCH_EXCLUSIVE", "SBATCH_GPUS", "SBATCH_GRES", "SBATCH_MEM_PER_NODE", "SBATCH_MEM_PER_CPU"}) {
    EXPECT_THAT(AddedToSbatch(SbatchWords({}), {{variable, "1"}}, defaults), Not(Contains("--exclusive")))
        << variable;
  }
  EXPECT_THAT(AddedToSbatch(SbatchWords({"-w", "node1"}), {}, defaults), Not(Contains("--nodes=3")));
  EXPECT_THAT(
      AddedToSbatch(SbatchWords({}), {{"SBATCH_JOB_NAME", "a"}, {"SBATCH_OUTPUT", "b"}}, {.job_name = "c"}),
      ElementsAre("--no-kill", "--no-requeue", "--exclusive"));
  EXPECT_THAT(AddedToSbatch(SbatchWords({"-a", "1-3"}), {}, {}), Contains("--output=harrow-%A_%a.out"));
}

TEST(SbatchScript, AnyWordComesThrough) {
  const std::vector<std::string> command = {
      "printf", "%s|", "a b", "it's", "$HOME `id` \\", "", "x\n#SBATCH -N9\ny", "*"};
  const std::string script = SbatchScript(command, "by\nhand");
  EXPECT_TRUE(script.starts_with("#!/bin/sh\n# by")) << script;
  FILE* shell = popen(StrCat("sh -c ", ShellQuote(script)).c_str(), "r");
  ASSERT_NE(shell, nullptr);
  char said[200] = {};
  const size_t length = fread(said, 1, sizeof said, shell);
  EXPECT_EQ(pclose(shell), 0);
  EXPECT_EQ(std::string(said, length), "a b|it's|$HOME `id` \\||x\n#SBATCH -N9\ny|*|");
  // sbatch looks for its options down to the first line that is no comment.
  EXPECT_EQ(SbatchScript({"a"}, "x\n#SBATCH -N9").find("\n#SBATCH"), std::string::npos);
}

TEST(SbatchScript, WhatIsGivenOnStandardInputComesThrough) {
  const std::string input = "#!/bin/sh\n#SBATCH -a 1\necho \"$HOME\" `id` \\\nEND_OF_SCRIPT\nlast";
  const std::string script = SbatchScript({"cat"}, "an array", input);
  FILE* shell = popen(StrCat("sh -c ", ShellQuote(script)).c_str(), "r");
  ASSERT_NE(shell, nullptr);
  char said[200] = {};
  const size_t length = fread(said, 1, sizeof said, shell);
  EXPECT_EQ(pclose(shell), 0);
  EXPECT_EQ(std::string(said, length), input + "\n");
}

TEST(SbatchAnswer, TheJob) {
  EXPECT_EQ(SubmittedJob("Submitted batch job 17\n"), "17");
  EXPECT_EQ(SubmittedJob("Submitted batch job 17 on cluster x\n"), "17");
  EXPECT_EQ(SubmittedJob("18;x\n"), "18");
  EXPECT_EQ(SubmittedJob("a site's greeting\n19\n"), "19");
  EXPECT_EQ(SubmittedJob("20"), "20");
  EXPECT_EQ(SubmittedJob(""), std::nullopt);
  EXPECT_EQ(SubmittedJob("3rd party\n"), std::nullopt);
  EXPECT_EQ(SubmittedJob("\n;x\nSubmitted batch job\n"), std::nullopt);
}

TEST(Partitions, WhatNodesAreLike) {
  const char* sinfo =
      "debug|4|7900+|2|(null)|1-2\nbatch*|16|64000|3|(null)|1-infinite\nbatch*|64|256000|40|gpu:a100:4(S:0-1)"
      "|1-infinite\n"
      "short|64|256000|40|gpu:2|4\n";
  const auto batch = ParsePartitions(sinfo, "");
  ASSERT_TRUE(batch.has_value());
  EXPECT_EQ(batch->name, "batch");
  EXPECT_EQ(batch->cpus, 64u);
  EXPECT_EQ(batch->memory, uint64_t{256000} << 20);
  EXPECT_EQ(batch->gpus, 4u);
  EXPECT_EQ(batch->most_nodes, 43u);
  const auto debug = ParsePartitions(sinfo, "debug,batch");
  ASSERT_TRUE(debug.has_value());
  EXPECT_EQ(debug->most_nodes, 2u);
  EXPECT_EQ(debug->memory, uint64_t{7900} << 20);
  EXPECT_EQ(ParsePartitions(sinfo, "short")->most_nodes, 4u);
  EXPECT_EQ(ParsePartitions(sinfo, "short")->gpus, 2u);
  EXPECT_EQ(ParsePartitions(sinfo, "short")->name, "short");
  EXPECT_EQ(ParsePartitions("one*|1|10|1|gpu:tesla:2,gpu:x:9|infinite\n", "")->most_nodes, 1u);
  EXPECT_EQ(ParsePartitions("one*|1|10|1|gpu:tesla:2,gpu:x:9|infinite\n", "")->gpus, 2u);
  EXPECT_EQ(ParsePartitions("one*|1|10|1|license:3|1\n", "")->gpus, 0u);
  EXPECT_EQ(ParsePartitions("one*|1|10|1|gpu:tesla|1\n", "")->gpus, 0u);
  EXPECT_EQ(ParsePartitions("one*|1|?|2|(null)|1-x\n", "")->memory, 0u);
  const auto kinds = ParsePartitions(sinfo, "");
  EXPECT_EQ(kinds->most_cpus, 64u);
  EXPECT_EQ(kinds->most_gpus, 4u);
  EXPECT_EQ(ParsePartitions("one*|4|10|9|(null)|1\none*|64|5|1|gpu:1|1\n", "")->cpus, 4u);
  EXPECT_EQ(ParsePartitions("one*|4|10|9|(null)|1\none*|64|5|1|gpu:1|1\n", "")->most_cpus, 64u);
  EXPECT_EQ(ParsePartitions("one*|4|10|9|(null)|1\none*|64|5|1|gpu:1|1\n", "")->most_memory,
            uint64_t{10} << 20);
  const auto time = [](const char* told) {
    return ParsePartitions(std::string("one*|4|10|9|(null)|1|") + told + "\n", "")->default_time;
  };
  EXPECT_EQ(time("30:00|1-00:00:00"), std::chrono::minutes(30));
  EXPECT_EQ(time("n/a|2:00:00"), std::chrono::hours(2)) << "it has no default";
  EXPECT_EQ(time("n/a|infinite"), Duration(0));
  EXPECT_EQ(kinds->default_time, Duration(0));
  for (const char* without :
       {"one*|0|10|1|(null)|1\n", "one*|1|10|0|(null)|1\n", "one*|x|10|1|(null)|1\n", "one*\n"})
    EXPECT_FALSE(ParsePartitions(without, "").has_value()) << without;
  EXPECT_FALSE(ParsePartitions(sinfo, "other").has_value());
  EXPECT_FALSE(ParsePartitions("", "").has_value());
}

}  // namespace
}  // namespace harrow::batch
