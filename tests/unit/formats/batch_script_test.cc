// Scripts of job arrays, as sbatch reads them.
#include "formats/batch_script.h"

#include <csignal>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"

namespace harrow::formats {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

/// What the script's lines and then the command line ask for; "PROBLEM" where they cannot be.
struct Asked {
  ElementRequest request;
  std::vector<std::string> others;
  std::string problem;
};

Asked Ask(std::string_view lines, std::vector<GivenOption> given = {}) {
  Asked asked;
  const Result<BatchScript> script = ReadBatchScript("job.sh", StrCat("#!/bin/bash\n", lines));
  if (!script.ok()) {
    asked.problem = script.status().message();
    return asked;
  }
  std::vector<GivenOption> options = script->options;
  options.insert(options.end(), given.begin(), given.end());
  asked.problem = ApplyBatchOptions(options, &asked.request, &asked.others).message();
  return asked;
}

struct Made {
  graph::Graph graph;
  uint64_t limit = 0;
  std::vector<std::string> notices;
  std::string problem;
  const graph::Profile& profile() const { return graph.profile(TaskId(0)); }
  std::string Variable(std::string_view name) const {
    for (const auto& [key, value] : profile().env) {
      if (key == name) return value;
    }
    return "(none)";
  }
};

Made Make(std::string_view lines, std::vector<std::string> arguments = {}) {
  Made made;
  const Asked asked = Ask(lines);
  EXPECT_EQ(asked.problem, "");
  const ArrayPlan plan{.request = asked.request,
                       .job_id = "17",
                       .job_name = "sweep",
                       .submit_dir = "/sub",
                       .script = "/run/script",
                       .arguments = std::move(arguments)};
  made.problem = AddArray(plan, &made.graph, &made.limit, &made.notices).message();
  return made;
}

TEST(BatchScript, OptionsAreReadUpToTheFirstCommand) {
  const Asked asked =
      Ask("\n# a comment\n#SBATCH --array=1-10%4   # as many as there are files\n#SBATCH -c 4 -t10 --mem=2G\n"
          "##SBATCH --array=1-99\n#SBATCHX\n  \nset -e\n#SBATCH --array=1-3\n");
  EXPECT_EQ(asked.problem, "");
  EXPECT_EQ(asked.request.array, "1-10%4");
  EXPECT_EQ(asked.request.array_place, "job.sh:4");
  EXPECT_EQ(asked.request.cpus_per_task, 4u);
  EXPECT_EQ(asked.request.time, minutes(10));
  EXPECT_EQ(asked.request.memory, uint64_t{2} << 30);
}

TEST(BatchScript, AWholeNodeHasAsManyProcessesAsItHasRoomFor) {
  EXPECT_EQ(Make("#SBATCH --array=1 --exclusive\n").Variable("SLURM_TASKS_PER_NODE"), "(none)");
  EXPECT_EQ(Make("#SBATCH --array=1 --exclusive -n 2\n").Variable("SLURM_TASKS_PER_NODE"), "2");
  EXPECT_EQ(Make("#SBATCH --array=1 --mem=0\n").Variable("SLURM_TASKS_PER_NODE"), "1");
}

TEST(BatchScript, WordsAreSplitAsAShellSplitsThem) {
  const Asked asked = Ask("#SBATCH -J 'a b' --output \"o \\\"%a\\\".txt\" -e e\\ rr --chdir=/x#y\n");
  EXPECT_EQ(asked.request.job_name, "a b");
  EXPECT_EQ(asked.request.output, "o \"%a\".txt");
  EXPECT_EQ(asked.request.error, "e rr");
  EXPECT_EQ(asked.request.chdir, "/x#y");
  EXPECT_THAT(Ask("#SBATCH -J 'a b\n").problem, HasSubstr("job.sh:2: a quote is not closed"));
}

TEST(BatchScript, WordsAtTheEdgesOfALine) {
  const Asked asked =
      Ask("#SBATCH\t-c\t4\r\n#SBATCH\n #SBATCH -c 5\n#SBATCH -J '' -D \\# -o \"a\\b\\\\\" -i 'a\\'\n#SBATCH "
          "-e a\\\n");
  EXPECT_EQ(asked.problem, "");
  EXPECT_THAT(asked.others, IsEmpty());
  EXPECT_EQ(asked.request.cpus_per_task, 4u) << "a line's options begin at its start";
  EXPECT_EQ(asked.request.job_name, "");
  EXPECT_EQ(asked.request.chdir, "#");
  EXPECT_EQ(asked.request.output, "a\\b\\");
  EXPECT_EQ(asked.request.input, "a\\");
  EXPECT_EQ(asked.request.error, "a\\");
  EXPECT_EQ(Ask("#SBATCH --job-name=a -J \"a\\").problem,
            "job.sh:2: a quote is not closed; close it in the same line");
}

TEST(BatchScript, LongOptionsMayBeShortened) {
  EXPECT_EQ(Ask("#SBATCH --cpus-per-t=3\n").request.cpus_per_task, 3u);
  EXPECT_THAT(Ask("#SBATCH --cpus=3\n").others, ElementsAre("--cpus")) << "cpus-per-task or cpus-per-gpu";
}

TEST(BatchScript, TheLaterWordCounts) {
  const Asked asked =
      Ask("#SBATCH --mem=2G --time=5\n#SBATCH --mem-per-cpu=100\n", {{"time", "UNLIMITED", "--time"}});
  EXPECT_EQ(asked.request.memory, 0u);
  EXPECT_EQ(asked.request.memory_per_cpu, uint64_t{100} << 20) << "megabytes";
  EXPECT_EQ(asked.request.time, Duration(0));
}

TEST(BatchScript, WhatIsOfTheAllocationIsNamedOnceAndWhatChangesNothingNever) {
  const Asked asked =
      Ask("#SBATCH -p fast --account=a --partition=slow --parsable --comment=x -q high\n#SBATCH "
          "--exclusive=user --of-the-site "
          "its-value\n");
  EXPECT_EQ(asked.problem, "");
  EXPECT_THAT(asked.others, ElementsAre("--partition", "--account", "--qos", "--exclusive", "--of-the-site"));
  EXPECT_FALSE(asked.request.whole_node);
  EXPECT_THAT(Ask("#SBATCH -Z -Yx -H -k -s\n").others,
              ElementsAre("-Z", "-Y", "--hold", "--no-kill", "--oversubscribe"));
}

TEST(BatchScript, AWordBehindAnOptionOfTheSiteIsItsArgument) {
  EXPECT_EQ(Ask("#SBATCH --of-the-site a -c 2\n").request.cpus_per_task, 2u);
  EXPECT_EQ(Ask("#SBATCH --of-the-site - -c 2\n").request.cpus_per_task, 2u);
  EXPECT_EQ(Ask("#SBATCH --of-the-site\n#SBATCH a\n").problem,
            "job.sh:3: \"a\" is no option; write --name=value");
  EXPECT_EQ(Ask("#SBATCH --hold a\n").problem, "job.sh:2: \"a\" is no option; write --name=value");
}

TEST(BatchScript, WhatCannotBeIsToldByItsLine) {
  EXPECT_THAT(Ask("#SBATCH -c none\n").problem, HasSubstr("job.sh:2: cpus-per-task cannot be \"none\""));
  EXPECT_THAT(Ask("#SBATCH -c\n").problem, HasSubstr("--cpus-per-task needs a value"));
  EXPECT_THAT(Ask("#SBATCH -c 2x\n").problem, HasSubstr("cannot be \"2x\"; write a number from 1"));
  EXPECT_THAT(Ask("#SBATCH -n 0\n").problem, HasSubstr("ntasks cannot be \"0\"; write a number from 1"));
  EXPECT_EQ(Ask("#SBATCH -n 1\n").request.tasks, 1u);
  EXPECT_THAT(Ask("#SBATCH --gpus=4294967296\n").problem, HasSubstr("write a number from 0"));
  EXPECT_THAT(Ask("#SBATCH --mem=2Q\n").problem, HasSubstr("job.sh:2: memory: \"2Q\" is no number of bytes"));
  EXPECT_EQ(Ask("#SBATCH --nodes=1 -N 1-1\n").problem, "");
  EXPECT_THAT(Ask("#SBATCH --\n").problem, HasSubstr("\"--\" is no option"));
  EXPECT_THAT(Ask("#SBATCH -\n").problem, HasSubstr("\"-\" is no option"));
  EXPECT_THAT(Ask("#SBATCH -N 2\n").problem, HasSubstr("an element has one node here"));
  EXPECT_THAT(Ask("#SBATCH 1-10\n").problem, HasSubstr("\"1-10\" is no option"));
  EXPECT_THAT(Ask("#SBATCH --time=x --open-mode=z\n").problem,
              AllOf(StartsWith("job.sh:2: time: "), HasSubstr("\njob.sh:2: open-mode cannot be \"z\"")));
  for (const char* part : {"hetjob", "packjob"})
    EXPECT_EQ(Ask(StrCat("#SBATCH ", part, "\n#SBATCH x\n#SBATCH 'y\n#SBATCH -c\n")).problem,
              "job.sh:2: parts of a heterogeneous job are no elements of an array; run each part's script by "
              "itself\n"
              "job.sh:3: \"x\" is no option; write --name=value\n"
              "job.sh:4: a quote is not closed; close it in the same line\n"
              "job.sh:5: --cpus-per-task needs a value; write --cpus-per-task=VALUE");
  EXPECT_THAT(Ask("#SBATCH -Hp fast\n").problem, HasSubstr("more than one option"));
  EXPECT_THAT(ReadBatchScript("p",
                              "\x7f"
                              "ELF")
                  .status()
                  .message(),
              HasSubstr("names no interpreter"));
  EXPECT_THAT(ReadBatchScript("p", "#!/bin/sh\r\n").status().message(), HasSubstr("as on Windows"));
  EXPECT_EQ(ReadBatchScript("p", std::string_view("\x7f"
                                                  "ELF\0\n#SBATCH x",
                                                  16))
                .status()
                .message(),
            "p:1: the first line names no interpreter; write #!/bin/bash, or another one, there\n"
            "p:1: it holds NUL bytes; name a script, not a program");
}

TEST(BatchScript, ArraysOfOtherSystemsAreSeen) {
  for (const char* line : {"#PBS -J 1-9", "#PBS -l x=y -t 1-9", "#$ -cwd -t 1-9", "#$ -t 1-9\n#$ -t 2"}) {
    const Result<BatchScript> script = ReadBatchScript("job.sh", StrCat("#!/bin/sh\n", line, "\n"));
    ASSERT_TRUE(script.ok());
    EXPECT_EQ(script->foreign_array, "1-9") << line;
    EXPECT_EQ(script->foreign_place, "job.sh:2");
  }
  for (const char* line : {"#$ -J 1-9", "#PBS -t", "# -t 1-9", "#PBS -t '1-9", "#PBS -N x"}) {
    const Result<BatchScript> script = ReadBatchScript("job.sh", StrCat("#!/bin/sh\n", line, "\n"));
    ASSERT_TRUE(script.ok()) << line;
    EXPECT_EQ(script->foreign_array, "") << line;
  }
}

TEST(BatchScript, WhoReadsTheJobsNumberIsKnown) {
  for (const auto& [line, uses] :
       {std::pair("rm -rf /scratch/$SLURM_JOB_ID", true), std::pair("echo ${SLURM_JOBID}", true),
        std::pair("echo $SLURM_ARRAY_JOB_ID $SLURM_JOB_NAME", false)}) {
    const Result<BatchScript> script =
        ReadBatchScript("job.sh", StrCat("#!/bin/sh\n#SBATCH -c 2\n", line, "\n"));
    ASSERT_TRUE(script.ok());
    EXPECT_EQ(script->uses_job_id, uses) << line;
  }
}

TEST(BatchScript, Signals) {
  const auto signal = [](std::string_view text) {
    const ElementRequest r = Ask(StrCat("#SBATCH --signal=", text, "\n")).request;
    return StrCat(r.signal, "@", r.signal_before / seconds(1), r.signal_alone ? " alone" : "");
  };
  EXPECT_EQ(signal("B:USR1@120"), StrCat(SIGUSR1, "@120 alone"));
  EXPECT_EQ(signal("SIGTERM"), StrCat(SIGTERM, "@60"));
  EXPECT_EQ(signal("RB:10@5"), "10@5 alone");
  EXPECT_EQ(signal("sigusr2@5"), StrCat(SIGUSR2, "@5"));
  EXPECT_THAT(Ask("#SBATCH --signal=X:USR1\n").problem, HasSubstr("write B:USR1@120"));
  EXPECT_THAT(Ask("#SBATCH --signal=NOSUCH\n").problem, HasSubstr("signal cannot be"));
  EXPECT_THAT(Ask("#SBATCH --signal=USR1@soon\n").problem, HasSubstr("signal cannot be"));
  EXPECT_EQ(signal("R:alrm@65535"), StrCat(SIGALRM, "@65535"));
  EXPECT_EQ(signal("B:R:HUP"), StrCat(SIGHUP, "@60 alone"));
  EXPECT_EQ(signal("1"), "1@60");
  EXPECT_EQ(signal(StrCat(SIGRTMAX)), StrCat(SIGRTMAX, "@60"));
  for (const char* wrong : {"0", "-1", "10x", "10x@5", "65", "USR1@65536", "USR1@5x", "USR1@", "", "SIG"})
    EXPECT_THAT(Ask(StrCat("#SBATCH --signal=", wrong, "\n")).problem, HasSubstr("signal cannot be"))
        << wrong;
  const ElementRequest later = Ask("#SBATCH --signal=B:USR1@5\n#SBATCH --signal=TERM\n").request;
  EXPECT_FALSE(later.signal_alone);
  EXPECT_EQ(later.signal_before, seconds(60));
}

TEST(BatchScript, WhatIsExported) {
  const auto exported = [](std::string_view text) {
    const ElementRequest r = Ask(StrCat("#SBATCH --export=", text, "\n")).request;
    std::string all = r.export_all ? "all" : "";
    for (const auto& [name, value] : r.exported) all += StrCat(" ", name, value ? StrCat("=", *value) : "");
    return all;
  };
  EXPECT_EQ(exported("ALL"), "all");
  EXPECT_EQ(exported("NONE"), "");
  EXPECT_EQ(exported("A,B=1"), " A B=1");
  EXPECT_EQ(exported("ALL,A=x=y"), "all A=x=y");
  EXPECT_EQ(exported("NIL"), "");
  EXPECT_TRUE(Ask("#SBATCH --export=NIL\n").request.export_nothing);
  EXPECT_FALSE(Ask("#SBATCH --export=NONE\n").request.export_nothing);
  EXPECT_EQ(exported("A,,B=,ALL"), "all A B=");
  EXPECT_EQ(exported("A=1\n#SBATCH --export=B"), " B") << "the later one";
}

TEST(BatchScript, TimesThatAreNoLimit) {
  for (const char* none : {"UNLIMITED", "INFINITE", "-1", "0"}) {
    const Asked asked = Ask(StrCat("#SBATCH -t 5\n#SBATCH --time=", none, "\n"));
    EXPECT_EQ(asked.problem, "") << none;
    EXPECT_EQ(asked.request.time, Duration(0)) << none;
  }
}

TEST(BatchScript, HowFilesAreOpenedAndNamed) {
  EXPECT_FALSE(Ask("#SBATCH --open-mode=append --open-mode=truncate\n").request.append);
  EXPECT_TRUE(Ask("#SBATCH --open-mode=t --open-mode=a\n").request.append);
  const ElementRequest r = Ask("#SBATCH -i in -o out -e err --wrap 'a b'\n").request;
  EXPECT_THAT((std::vector<std::string>{r.input, r.output, r.error, r.wrap}),
              ElementsAre("in", "out", "err", "a b"));
}

TEST(BatchScript, DevicesOfAllKindsOfOptions) {
  EXPECT_EQ(Ask("#SBATCH --gres=gpu:2\n").request.gpus, 2u);
  EXPECT_EQ(Ask("#SBATCH --gres=lustre:1,gpu:a100:3,gpu\n").request.gpus, 4u);
  EXPECT_EQ(Ask("#SBATCH --gres=gpu:tesla\n").request.gpus, 1u);
  EXPECT_EQ(Ask("#SBATCH -G a100:2\n").request.gpus, 2u);
  EXPECT_EQ(Make("#SBATCH -a 1 -n 3 --gpus-per-task=2\n").profile().shape.devices, 6u);
  EXPECT_EQ(Ask("#SBATCH --gpus=a100:2,v100:1\n").request.gpus, 3u);
  EXPECT_EQ(Ask("#SBATCH --gpus=2\n#SBATCH --gres=gpu:0\n").request.gpus, 0u);
  EXPECT_EQ(Ask("#SBATCH --gpus-per-node=0\n").problem, "");
  EXPECT_EQ(Ask("#SBATCH --gpus=4294967295,2\n").request.gpus, UINT32_MAX);
  EXPECT_EQ(Ask("#SBATCH --gres=gres/gpu=3,gpu=a100:9\n").request.gpus, 12u);
  EXPECT_EQ(Ask("#SBATCH --gres=gpu:\n").request.gpus, 1u);
  EXPECT_EQ(Make("#SBATCH -a 1 -n 2 -G 3\n").profile().shape.devices, 3u)
      << "of an element, however many its processes";
  EXPECT_THAT(Ask("#SBATCH --gpus=\n").problem, HasSubstr("number of GPUs"));
  EXPECT_THAT(Ask("#SBATCH --gpus=some\n").problem, HasSubstr("number of GPUs"));
}

TEST(BatchScript, WhatElementsGoWithoutIsTold) {
  EXPECT_THAT(Ask("#SBATCH --gres=lustre:1,,gpu:1,none,ssd,lustre\n").request.unmet,
              ElementsAre("--gres=lustre", "--gres=ssd"));
  EXPECT_THAT(
      Make(StrCat("#SBATCH -a 1 --gres=", std::string(60, 'x'), "\n")).notices,
      ElementsAre(StrCat("elements go without ", Printable(StrCat("--gres=", std::string(60, 'x')), 40),
                         ", which harrow array cannot give")));
  const Made made = Make("#SBATCH -a 1 --mem-per-gpu=16G -L matlab --mem-per-gpu=8G\n");
  EXPECT_THAT(made.notices,
              ElementsAre("elements go without --mem-per-gpu, --licenses, which harrow array cannot give"));
}

// --- the flow

TEST(ArrayFlow, AnElementIsATaskThatAssignsItsNumber) {
  const Made made = Make("#SBATCH --array=1-9:4,2%3\n", {"a b", ""});
  ASSERT_EQ(made.problem, "");
  std::vector<std::string> names;
  for (uint32_t i = 0; i < made.graph.task_count(); ++i) names.push_back(made.graph.TaskName(TaskId(i)));
  EXPECT_THAT(names, ElementsAre("17_1", "17_2", "17_5", "17_9"));
  EXPECT_EQ(made.graph.command(TaskId(2)), std::string_view("SLURM_ARRAY_TASK_ID=5\0/run/script\0a b\0", 38));
  EXPECT_EQ(made.graph.form(TaskId(2)), graph::CommandForm::kAssigned);
  EXPECT_EQ(made.limit, 3u);
  EXPECT_EQ(made.Variable("SLURM_ARRAY_JOB_ID"), "17");
  EXPECT_EQ(made.Variable("SLURM_ARRAY_TASK_COUNT"), "4");
  EXPECT_EQ(made.Variable("SLURM_ARRAY_TASK_MIN"), "1");
  EXPECT_EQ(made.Variable("SLURM_ARRAY_TASK_MAX"), "9");
  EXPECT_EQ(made.Variable("SLURM_ARRAY_TASK_STEP"), "4");
  EXPECT_EQ(made.Variable("SLURM_JOB_NAME"), "sweep");
  EXPECT_EQ(made.Variable("SLURM_JOB_ID"), "(none)") << "it stays the job's";
  EXPECT_EQ(made.graph.PlaceText(made.graph.place(TaskId(3))), "sweep:1:1");
  EXPECT_TRUE(IsArray(made.graph));
  EXPECT_EQ(made.graph.seal_count(), 1u);
  EXPECT_FALSE(IsArray(graph::Graph()));
}

// As measured of Slurm 22.05.
TEST(ArrayFlow, ElementsAsSbatchCountsThem) {
  const auto told = [](std::string_view array) {
    const Made made = Make(StrCat("#SBATCH --array=", array, "\n"));
    return made.problem.empty()
               ? StrCat(made.graph.task_count(), " ", made.Variable("SLURM_ARRAY_TASK_MIN"), "-",
                        made.Variable("SLURM_ARRAY_TASK_MAX"), ":", made.Variable("SLURM_ARRAY_TASK_STEP"))
               : made.problem;
  };
  EXPECT_EQ(told("0-4:2,7-13:3"), "6 0-13:2");
  EXPECT_EQ(told("1-2,7-13:3"), "5 1-13:3");
  EXPECT_EQ(told("5,3,1"), "3 1-5:1");
  EXPECT_EQ(told("1-3,2"), "3 1-3:1");
  EXPECT_EQ(told("[1-3]%2"), "3 1-3:1");
  EXPECT_EQ(told("001-003%0"), "3 1-3:1");
  EXPECT_THAT(told("10-2"), HasSubstr("job.sh:2: array \"10-2\" counts down"));
  EXPECT_THAT(told("[1-2"), HasSubstr("has [ without ]"));
  EXPECT_THAT(told("0-10000000"), AllOf(StartsWith("job.sh:2: array "), HasSubstr("10000001")));
}

TEST(ArrayFlow, WhatAnElementAsksFor) {
  const Made made = Make("#SBATCH -a 1-2 -n 2 -c 3 --mem-per-cpu=1G -t 1:00:00 --signal=B:USR1@30 -D data\n");
  const graph::Profile& profile = made.profile();
  EXPECT_EQ(profile.shape.cores, 6u);
  EXPECT_EQ(profile.shape.memory, uint64_t{6} << 30);
  EXPECT_EQ(profile.time_limit, minutes(60));
  EXPECT_EQ(profile.warn_signal, SIGUSR1);
  EXPECT_EQ(profile.warn_before, seconds(30));
  EXPECT_TRUE(profile.warn_alone);
  EXPECT_EQ(profile.cwd, "data");
  EXPECT_EQ(made.Variable("SLURM_NTASKS"), "2");
  EXPECT_EQ(made.Variable("SLURM_CPUS_PER_TASK"), "3");
  EXPECT_EQ(made.Variable("SLURM_TASKS_PER_NODE"), "2");
  EXPECT_EQ(made.Variable("OMP_NUM_THREADS"), "3") << "of each of its two";
  EXPECT_EQ(made.Variable("SLURM_MEM_PER_CPU"), "1024");
  EXPECT_EQ(made.Variable("SLURM_NPROCS"), "2");
  for (const char* one : {"SLURM_JOB_NUM_NODES", "SLURM_NNODES"}) EXPECT_EQ(made.Variable(one), "1") << one;
  EXPECT_EQ(made.Variable("SLURM_SUBMIT_DIR"), "/sub");
  for (const char* unsaid : {"SLURM_NTASKS_PER_NODE", "SLURM_MEM_PER_NODE"})
    EXPECT_EQ(made.Variable(unsaid), "(none)") << unsaid;
  const Made node = Make("#SBATCH -a 1 --mem=2G --ntasks-per-node=2 --export=A,B=x\n");
  EXPECT_EQ(node.profile().shape.memory, uint64_t{2} << 30);
  EXPECT_EQ(node.Variable("SLURM_MEM_PER_NODE"), "2048");
  EXPECT_EQ(node.Variable("SLURM_NTASKS_PER_NODE"), "2");
  EXPECT_EQ(node.Variable("OMP_NUM_THREADS"), "1");
  EXPECT_EQ(node.Variable("B"), "x");
  const Made least = Make("#SBATCH -a 1 -i none\n");
  EXPECT_EQ(least.profile().shape.cores, 1u);
  EXPECT_EQ(least.profile().stdin_path, "");
  EXPECT_FALSE(least.profile().shape.whole_node);
  EXPECT_THAT(least.notices, IsEmpty());
  for (const char* unsaid : {"OMP_NUM_THREADS", "SLURM_CPUS_PER_TASK", "SLURM_MEM_PER_CPU", "A"})
    EXPECT_EQ(least.Variable(unsaid), "(none)") << unsaid;
  const Made unlimited = Make("#SBATCH -a 1 --signal=USR1\n");
  EXPECT_EQ(unlimited.profile().warn_signal, 0) << "there is no limit to come";
  EXPECT_THAT(unlimited.notices, ElementsAre(HasSubstr("it is never sent")));
  EXPECT_TRUE(Make("#SBATCH -a 1 --exclusive\n").profile().shape.whole_node);
  EXPECT_TRUE(Make("#SBATCH -a 1 --mem=0\n").profile().shape.whole_node);
  EXPECT_FALSE(Make("#SBATCH -a 1 --mem=0\n#SBATCH --mem=1G\n").profile().shape.whole_node);
  EXPECT_TRUE(Make("#SBATCH -a 1 --exclusive --mem=0 --mem=1G\n").profile().shape.whole_node);
  EXPECT_EQ(Make("#SBATCH -a 1 --ntasks-per-node=4\n").profile().shape.cores, 4u);
}

TEST(ArrayFlow, WhatNoNodeHasIsRefusedHoweverItMultiplies) {
  EXPECT_THAT(Make("#SBATCH -a 1 -n 65536 -c 65536\n").problem,
              HasSubstr("job.sh:2: an element asks for 4294967296 cores"));
  EXPECT_THAT(Make("#SBATCH -a 1 -n 65536 --gpus-per-task=65536\n").problem, HasSubstr("4294967296 GPUs"));
  EXPECT_THAT(Make("#SBATCH -a 1 -c 2 --mem-per-cpu=2097153T\n").problem,
              HasSubstr(" 4398048608256 megabytes"));
  EXPECT_EQ(Make("#SBATCH -a 1 -c 2 --mem-per-cpu=2097152T\n").problem, "");
  EXPECT_EQ(Make("#SBATCH -a 1 -n 1048576\n").problem, "");
  EXPECT_THAT(Make("#SBATCH -a 1 -n 1048577\n").problem, HasSubstr(" 1048577 cores"));
  EXPECT_EQ(Make("#SBATCH -a 1 -G 1048576\n").problem, "");
  EXPECT_THAT(Make("#SBATCH -a 1 -G 1048577\n").problem, HasSubstr(" 1048577 GPUs"));
  EXPECT_EQ(Make("#SBATCH -a 1 -n 256 -c 2 --mem-per-cpu=1T\n").profile().shape.memory, uint64_t{512} << 40);
}

TEST(ArrayFlow, AMovedArrayExecutesItsScriptWhereItLiesNow) {
  Made made = Make("#SBATCH --array=1-2 -c 2\n", {"a b", "/run/script"});
  ASSERT_TRUE(ExecuteScript("/else where/script", "/beside", &made.graph).ok());
  ASSERT_EQ(made.graph.task_count(), 2u);
  EXPECT_EQ(made.graph.TaskName(TaskId(1)), "17_2");
  EXPECT_EQ(made.graph.command(TaskId(1)),
            std::string_view("SLURM_ARRAY_TASK_ID=2\0/else where/script\0a b\0/run/script", 56));
  EXPECT_EQ(made.graph.form(TaskId(1)), graph::CommandForm::kAssigned);
  EXPECT_EQ(made.graph.seal_count(), 1u);
  EXPECT_EQ(made.profile().shape.cores, 2u);
  const auto has = [&](const char* directory) {
    return Contains(std::pair<std::string, std::string>("SLURM_SUBMIT_DIR", directory));
  };
  EXPECT_THAT(made.profile().env, has("/beside"));
  ASSERT_TRUE(ExecuteScript("/else where/script", "/elsewhere", &made.graph).ok());
  EXPECT_THAT(made.profile().env, has("/elsewhere"));
  EXPECT_EQ(made.graph.kind_name(made.graph.kind(TaskId(1))), "sweep");
  EXPECT_EQ(made.graph.PlaceText(made.graph.place(TaskId(1))), "sweep:1:1");
  EXPECT_EQ(made.graph.command(TaskId(1)),
            std::string_view("SLURM_ARRAY_TASK_ID=2\0/else where/script\0a b\0/run/script", 56));
  graph::Graph bare;  // as nobody writes it
  bare.AddTask(
      {.name = "a", .command = "A=1", .form = graph::CommandForm::kAssigned, .profile = bare.AddProfile({})});
  ASSERT_TRUE(bare.Seal().ok());
  ASSERT_TRUE(ExecuteScript("/x", "/beside", &bare).ok());
  EXPECT_EQ(bare.profile_count(), 1u);
  graph::Graph other;
  other.AddTask({.name = "a", .command = "/run/script"});
  ASSERT_TRUE(other.Seal().ok());
  ASSERT_TRUE(ExecuteScript("/x", "/beside", &other).ok());
  EXPECT_EQ(other.command(TaskId(0)), "/run/script");
}

TEST(ArrayFlow, FilesAreEachElementsOwn) {
  const Made both = Make("#SBATCH -a 1 -o out/%A_%4a.txt\n");
  EXPECT_EQ(both.profile().stdout_path, "out/%A_%4a.txt");
  EXPECT_EQ(both.profile().stderr_path, "out/%A_%4a.txt");
  EXPECT_TRUE(both.profile().empty_streams);
  EXPECT_THAT(both.notices, IsEmpty());
  const Made job = Make("#SBATCH -a 1 -o %x-%8j.out -e %J.err\n");
  EXPECT_EQ(job.profile().stdout_path, "%x-%A_%a.out");
  EXPECT_EQ(job.profile().stderr_path, "%A_%a.err");
  EXPECT_THAT(job.notices, ElementsAre(HasSubstr("stands for %A_%a")));
  EXPECT_FALSE(Make("#SBATCH -a 1 -o all.txt\n").profile().empty_streams) << "others write there, too";
  EXPECT_FALSE(Make("#SBATCH -a 1 -o %a -e all.txt\n").profile().empty_streams);
  for (const char* shared : {"%%a", "%", "x%8", "%1x"})
    EXPECT_FALSE(Make(StrCat("#SBATCH -a 1 -o ", shared, "\n")).profile().empty_streams) << shared;
  EXPECT_TRUE(Make("#SBATCH -a 1 -o %x%a\n").profile().empty_streams);
  const Made literal = Make("#SBATCH -a 1 -o 'a\\%j%a'\n");
  EXPECT_EQ(literal.profile().stdout_path, "a\\%j%a");
  EXPECT_FALSE(literal.profile().empty_streams) << "with a backslash nothing is replaced: one file for all";
  EXPECT_THAT(literal.notices, IsEmpty());
  EXPECT_EQ(Make("#SBATCH -a 1 -o x%5\n").profile().stdout_path, "x%5");
  EXPECT_FALSE(Make("#SBATCH -a 1 -o %a --open-mode=append\n").profile().empty_streams);
  const Made packed = Make("#SBATCH -a 1 -i in.%a\n");
  EXPECT_EQ(packed.profile().stdout_path, "");
  EXPECT_EQ(packed.profile().stdin_path, "in.%a");
}

TEST(ArrayFlow, NamesOfElements) {
  EXPECT_THAT(ExpandElementNames({"17_[3-5,9]", "17_4", "a_[1-2]", "17_[x]", "_[1]"}),
              ElementsAre("17_3", "17_4", "17_5", "17_9", "17_4", "a_[1-2]", "17_[x]", "_[1]"));
}

}  // namespace
}  // namespace harrow::formats
