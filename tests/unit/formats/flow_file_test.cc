#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "support/loaded_flow.h"

namespace harrow::formats {
namespace {

using graph::CommandForm;
using test::LoadedFlow;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

TEST(FlowFileTest, TheExampleOfTheManual) {
  LoadedFlow f("mosaic.toml", R"(
[flow]
name = "mosaic"
order = "lifo+hrf"

[[task]]
name    = "project-{i}"
each    = { i = "0-420" }
command = "mProject raw/{i}.fits p/{i}.fits region.hdr"
in      = ["raw/{i}.fits", "region.hdr"]
out     = ["p/{i}.fits"]

[[task]]
name    = "add"
command = ["mAdd", "-p", "p", "images.tbl", "region.hdr", "mosaic.fits"]
in      = ["p/*.fits", "images.tbl"]
out     = ["mosaic.fits"]
cores = 4
)");
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  EXPECT_EQ(f.graph.task_count(), 422u);
  EXPECT_EQ(f.flow.name, "mosaic");
  ASSERT_EQ(f.flow.settings.size(), 1u);
  EXPECT_EQ(f.flow.settings[0].key, "order");
  EXPECT_EQ(f.flow.settings[0].value, "lifo+hrf");
  EXPECT_EQ(f.flow.settings[0].place, "mosaic.toml:4:9");
  EXPECT_EQ(f.Command("project-7"), "mProject raw/7.fits p/7.fits region.hdr");
  EXPECT_EQ(f.graph.form(f.Task("project-7")), CommandForm::kWords);
  EXPECT_THAT(f.In("project-7"), ElementsAre("raw/7.fits", "region.hdr"));
  EXPECT_THAT(f.Out("project-7"), ElementsAre("p/7.fits"));
  EXPECT_EQ(f.graph.form(f.Task("add")), CommandForm::kArgv);
  EXPECT_EQ(f.Command("add"), "mAdd -p p images.tbl region.hdr mosaic.fits");
  EXPECT_EQ(f.Before("add").size(), 421u);
  EXPECT_EQ(f.graph.profile(f.Task("add")).shape.cores, 4u);
  EXPECT_EQ(f.graph.kind_name(f.graph.kind(f.Task("add"))), "mAdd");
  EXPECT_EQ(f.graph.PlaceText(f.graph.place(f.Task("add"))), "mosaic.toml:14:11");
}

TEST(FlowFileTest, EachAsAProductOfListsRangesAndFiles) {
  LoadedFlow f;
  ASSERT_TRUE(f.fs.WriteWhole("/d/words", "red\r\n\nblue sky\n").ok());
  f.Load("f.toml", R"(
[[task]]
name = "t-{n}-{x}-{w}"
each = { n = "1-3:2,10", x = [0.5, "b", 7, true], w = "@words" }
command = "say {n} {x} {w}"
)");
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  EXPECT_EQ(f.graph.task_count(), 3u * 4 * 2);
  EXPECT_EQ(f.graph.TaskName(TaskId(0)), "t-1-0.5-red");
  EXPECT_EQ(f.graph.TaskName(TaskId(1)), "t-1-0.5-blue sky");
  EXPECT_EQ(f.graph.TaskName(TaskId(2)), "t-1-b-red");
  EXPECT_EQ(f.graph.TaskName(TaskId(23)), "t-10-true-blue sky");
  EXPECT_EQ(f.Command("t-3-7-blue sky"), "say 3 7 'blue sky'");
  EXPECT_EQ(f.graph.form(f.Task("t-3-7-blue sky")), CommandForm::kArgv);
  EXPECT_EQ(f.graph.form(f.Task("t-3-7-red")), CommandForm::kWords);
}

TEST(FlowFileTest, WhatTasksOfATemplateWouldShareIsToldOnce) {
  const std::string task = "[[task]]\ncommand = \"x\"\neach = { i = \"1-3\", j = [\"a\"] }\n";
  LoadedFlow f("f.toml", task + "name = \"n\"\nout = [\"o-{i}\"]\n");
  EXPECT_EQ(f.status.message(), "f.toml:4:8: name \"n\" lacks {i}: 3 tasks would share it; put {i} into it");
  f.Load("f.toml", task + "name = \"n-{i}\"\nout = [\"o\", \"p\"]\n");
  EXPECT_EQ(f.status.message(), "f.toml:5:8: out \"o\" lacks {i}: 3 tasks would share it; put {i} into it");
}

TEST(FlowFileTest, KeysOfEachAreNames) {
  LoadedFlow f;
  const auto load = [&](const std::string& key) {
    f.Load("f.toml", "[[task]]\nname = \"t-{" + key + "}\"\ncommand = \"x\"\neach = { \"" + key +
                         "\" = [\"1\", \"2\"] }\n");
    return f.status.message();
  };
  for (const char* good : {"a", "z", "A", "Z", "_", "az_AZ09"}) EXPECT_EQ(load(good), "");
  for (const char* bad : {"0", "a-b", "@", "[", "`", "{", "a/", "a:", "a@", "a`", "a{"})
    EXPECT_NE(load(bad).find("f.toml:4:10: \"" + std::string(bad) +
                             "\" cannot be a key of each; use letters, digits and _"),
              std::string::npos)
        << load(bad);
}

TEST(FlowFileTest, ZerosBeforeNumbersAreKept) {
  LoadedFlow f("f.toml",
               "[[task]]\nname=\"a-{i}\"\ncommand=\"x {i}\"\neach={i=\"007-9:2,0098-101:3,1-03,5,06\"}\n");
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  std::vector<std::string> names;
  for (uint32_t n = 0; n < f.graph.task_count(); ++n) names.push_back(f.graph.TaskName(TaskId(n)));
  EXPECT_THAT(names,
              ElementsAre("a-007", "a-009", "a-0098", "a-0101", "a-01", "a-02", "a-03", "a-5", "a-06"));
  EXPECT_EQ(f.Command("a-007"), "x 007");
}

TEST(FlowFileTest, AValueThatTheShellMightRunIsRefusedWithItsPlace) {
  LoadedFlow f;
  ASSERT_TRUE(f.fs.WriteWhole("/d/names", "plain\nx; touch p #\n$(x)\n").ok());
  f.Load("f.toml",
         "[[task]]\nname=\"a-{i}\"\neach={i=\"@names\"}\ncommand=\"\"\"\n# don't\nx {i}\"\"\"\n"
         "[[task]]\nname=\"b-{i}\"\neach={i=\"@names\"}\ncommand=[\"x\",\"-c\",\"{i}\"]\n"
         "[[task]]\nname=\"c-{i}\"\neach={i=\"@names\"}\ncommand=[\"timeout\",\"5\",\"/bin/"
         "bash\",\"-lc\",\"x '{i}'\"]\n"
         "[[task]]\nname=\"d-{i}\"\neach={i=\"@names\"}\ncommand=[\"bash\",\"-c\",\"{i}\"]\n"
         "[[task]]\nname=\"e-{i}\"\neach={i=\"@names\"}\nshell=\"tcsh\"\ncommand=\"x {i}\"\n");
  const std::string& text = f.status.message();
  EXPECT_EQ(
      text.find("f.toml:4:9: {i} cannot be \"x; touch p #\" here: the shell might take it apart or run it; "),
      0u)
      << text;
  EXPECT_THAT(text, HasSubstr("\nf.toml:14:42: {i} cannot be \"x; touch p #\""));
  EXPECT_THAT(text, HasSubstr("\nf.toml:23:9: {i} cannot be \"x; touch p #\""));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2)
      << text;  // once a task as written; b and d are none
  f.Load("f.toml",
         "[flow]\nshell=\"fish\"\n[[task]]\nname=\"a-{i}\"\neach={i=[\"a b\"]}\ncommand=\"x {i}\"\n");
  EXPECT_THAT(f.status.message(), HasSubstr("f.toml:6:9: {i} cannot be \"a b\""));
  f.Load("f.toml",
         "[flow]\nshell=\"fish\"\n[[task]]\nname=\"a-{i}\"\neach={i=[\"a b\"]}\ncommand=\"x "
         "{i}\"\nshell=\"ksh\"\n");
  EXPECT_TRUE(f.status.ok()) << f.status.message();
  f.options.shell = "/bin/csh";
  f.Load("f.toml", "[[task]]\nname=\"a-{i}\"\neach={i=[\"a b\"]}\ncommand=\"x {i}\"\n");
  EXPECT_THAT(f.status.message(), HasSubstr("f.toml:4:9: {i} cannot be \"a b\""));
  f.Load("f.toml", "[[task]]\nname=\"a\"\neach={i=[\"\"]}\ncommand=[\"{i}\", \"x\"]\n");
  EXPECT_THAT(f.status.message(), HasSubstr("f.toml:4:10: the program's name is empty"));
}

TEST(FlowFileTest, KeysThatContradictEachOtherAreToldAtTheirPlace) {
  LoadedFlow f("f.toml", "[[task]]\nname=\"a\"\ncommand=\"x\"\nmpi=\"none\"\n");
  EXPECT_THAT(f.status.message(), StartsWith("f.toml:4:5: mpi says how ranks"));
  f.Load("t.txt", "#HARROW mpi=none\nx\n");
  EXPECT_THAT(f.status.message(), StartsWith("t.txt:1:9: mpi says how ranks"));
  f.Load("t.txt", "#HARROW mpi=none ranks=2\nx\n");
  EXPECT_TRUE(f.status.ok()) << f.status.message();
  f.Load("f.toml", "[[task]]\nname=\"a\"\ncommand=\"x\"\nranks=2\nnodes=3\n");
  EXPECT_THAT(f.status.message(), StartsWith("f.toml:5:7: nodes are 3, and the task has only 2 ranks"));
  f.Load("t.txt", "#HARROW ranks=2 nodes=3\nx\n");
  EXPECT_THAT(f.status.message(), StartsWith("t.txt:1:17: nodes are 3, and the task has only 2 ranks"));
  EXPECT_EQ(f.status.message().find('\n'), std::string::npos) << "once";
  f.Load("t.txt", "#HARROW ranks_per_node=2\nx\n");
  EXPECT_THAT(f.status.message(), StartsWith("t.txt:1:9: ranks_per_node says how ranks lie on nodes"));
}

TEST(FlowFileTest, RanksOverNodes) {
  LoadedFlow f("f.toml", "[[task]]\nname=\"a\"\ncommand=\"x\"\nranks=6\nranks_per_node=4\ncores=2\n");
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  graph::Profile want;
  want.shape = {.cores = 6, .nodes = 2};
  want.ranks = 6;
  EXPECT_EQ(f.graph.profile(TaskId(0)), want);
  f.Load("t.txt", "#HARROW ranks=6 nodes=2 cores=2\nx\n");
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  EXPECT_EQ(f.graph.profile(TaskId(0)), want);
}

TEST(FlowFileTest, ALimitOfAnArrayIsNotedNotKept) {
  LoadedFlow f("f.toml", "[[task]]\nname=\"a-{i}\"\ncommand=\"x\"\neach={i=\"0-9%4\"}\n");
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  EXPECT_THAT(f.flow.notices, ElementsAre(HasSubstr("f.toml:4:9: %4 has no effect")));
}

TEST(FlowFileTest, RanksThatStartRanksAreNoted) {
  LoadedFlow f("t.txt", "#HARROW ranks=4\nx\nOUT=1 /opt/bin/mpirun -n 4 x > y\nsrun x\n#HARROW\nmpirun x\n#HARROW ranks=1\nmpirun x\n");
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  EXPECT_THAT(f.flow.notices, ElementsAre(testing::AllOf(HasSubstr("t.txt:3:1: the command is mpirun, and each of its 4 ranks"),
                                                         HasSubstr("(so in 1 more task)"))));
}

TEST(FlowFileTest, BracesThatAreNoKeysStay) {
  LoadedFlow f("f.toml", R"(
[[task]]
name = "a"
command = "awk '{print $1}' ${FILE} {} {{x}"
[[task]]
name = "b-{i}"
each = { i = ["it's"] }
command = "echo {i} {{i} '{i j}'"
)");
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  EXPECT_EQ(f.Command("a"), "awk '{print $1}' ${FILE} {} {x}");
  EXPECT_EQ(f.Command("b-it's"), "echo 'it'\\''s' {i} '{i j}'");
}

TEST(FlowFileTest, PatternsMeanDeclaredOutputsFirst) {
  LoadedFlow f;
  for (const char* path : {"/d/p/old.fits", "/d/raw/1.fits", "/d/raw/2.fits"})
    ASSERT_TRUE(f.fs.WriteWhole(path, "x").ok());
  f.Load("f.toml", R"(
[[task]]
name = "gather"
command = "x"
in = ["p/*.fits", "raw/*.fits", "p/?.fits"]
out = ["p/sum.fits"]
[[task]]
name = "make-{i}"
command = "x"
each = { i = "2-3" }
out = ["./p//{i}.fits"]
)");
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  // Its own output is not meant, nor what lies there while outputs match; order: as matched, each once.
  EXPECT_THAT(f.In("gather"), ElementsAre("p/2.fits", "p/3.fits", "raw/1.fits", "raw/2.fits"));
  EXPECT_THAT(f.Before("gather"), ElementsAre("make-2", "make-3"));
}

TEST(FlowFileTest, WhatAShellReadsInAListIsAShellsText) {
  LoadedFlow flow;
  for (const char* shell : {"sh", "/bin/sh", "bash", "/bin/bash", "/usr/bin/dash", "zsh"}) {
    for (const char* option : {"-c", "-lc"}) {
      flow.Load("f.toml", StrCat("[[task]]\nname = \"a-{x}\"\neach = { x = [\"a b\"] }\ncommand = [\"", shell,
                                 "\", \"", option, "\", \"prog '{x}'\"]\n"));
      EXPECT_THAT(flow.status.message(), HasSubstr("cannot be \"a b\" here")) << shell << " " << option;
    }
  }
  for (const char* program : {"env", "bashful", "/bin/shell"}) {
    flow.Load("f.toml", StrCat("[[task]]\nname = \"a-{x}\"\neach = { x = [\"a b\"] }\ncommand = [\"", program,
                               "\", \"-c\", \"prog '{x}'\"]\n"));
    EXPECT_TRUE(flow.status.ok()) << program << ": " << flow.status.message();
  }
}

TEST(FlowFileTest, WhatAListOfExitCodesMayHold) {
  LoadedFlow flow;
  const auto said = [&](const std::string& codes) {
    flow.Load("f.toml", "[[task]]\nname = \"a\"\ncommand = \"x\"\nretry_on = " + codes + "\n");
    return flow.status.message();
  };
  EXPECT_EQ(said("[75, 137]"), "");
  EXPECT_EQ(flow.graph.profile(flow.Task("a")).retry_on, (std::vector<int32_t>{75, 137}));
  EXPECT_THAT(said("[75, 1000]"), HasSubstr("f.toml:4:12:"));
  EXPECT_THAT(said("[[1]]"), HasSubstr("f.toml:4:12:"));
}

TEST(FlowFileTest, ATextWithANulByte) {
  for (const char* key : {"kind", "cwd", "shell"}) {
    const LoadedFlow flow("f.toml",
                          StrCat("[[task]]\nname = \"a\"\ncommand = \"x\"\n", key, " = \"a\\u0000b\"\n"));
    EXPECT_THAT(flow.status.message(), HasSubstr(StrCat(key, " holds a NUL byte"))) << flow.status.message();
  }
}

TEST(FlowFileTest, AFlowOfNothingButSettings) {
  const LoadedFlow flow("f.toml", "[flow]\nname = \"x\"\n");
  EXPECT_EQ(flow.status.message(), "f.toml:1:1: there is no task; add [[task]] with name and command");
}

TEST(FlowFileTest, AnOutputThatIsNamedTwiceIsOne) {
  const LoadedFlow flow("f.toml",
                        "[[task]]\nname = \"a\"\ncommand = \"x\"\nout = [\"r\", \"./r\", \"s\"]\n"
                        "[[task]]\nname = \"b\"\ncommand = \"x\"\nin = [\"r\", \"s\", \"./r\", \"s\"]\n");
  ASSERT_TRUE(flow.status.ok()) << flow.status.message();
  EXPECT_EQ(flow.Out("a"), (std::vector<std::string>{"r", "s"}));
  EXPECT_EQ(flow.In("b"), (std::vector<std::string>{"r", "s"}));
}

TEST(FlowFileTest, AfterTheFirstTaskByItsFullName) {
  const LoadedFlow flow("f.toml",
                        "[[task]]\nname = \"a-{i}\"\neach = { i = \"1-2\" }\ncommand = \"x\"\n"
                        "[[task]]\nname = \"b\"\ncommand = \"x\"\nafter = [\"a-1\"]\n");
  ASSERT_TRUE(flow.status.ok()) << flow.status.message();
  EXPECT_EQ(flow.Before("b"), std::vector<std::string>{"a-1"});
}

TEST(FlowFileTest, OwnOutputsNeverMatchEvenWhenTheyExist) {
  LoadedFlow f;
  for (const char* path : {"/d/p/sum.fits", "/d/p/1.fits"}) ASSERT_TRUE(f.fs.WriteWhole(path, "x").ok());
  const char* text = "[[task]]\nname=\"a\"\ncommand=\"x\"\nin=[\"p/*.fits\"]\nout=[\"p/sum.fits\"]\n";
  f.Load("f.toml", text);
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  EXPECT_THAT(f.In("a"), ElementsAre("p/1.fits"));
  ASSERT_TRUE(f.fs.Remove("/d/p/1.fits").ok());
  f.Load("f.toml", text);
  EXPECT_THAT(f.status.message(),
              HasSubstr("f.toml:4:5: \"p/*.fits\" matches no declared output and no existing file"));
}

TEST(FlowFileTest, APatternThatIsAFileIsThatFile) {
  LoadedFlow f;
  ASSERT_TRUE(f.fs.WriteWhole("/d/a[1].dat", "x").ok());
  f.Load("f.toml",
         "[[task]]\nname=\"a\"\ncommand=\"x\"\nin=[\"a[1].dat\"]\nout=[\"b[1].dat\"]\n[[task]]\nname="
         "\"b\"\ncommand=\"x\"\nin=[\"b[1].dat\"]\n");
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  EXPECT_THAT(f.In("a"), ElementsAre("a[1].dat"));
  EXPECT_THAT(f.Before("b"), ElementsAre("a"));
}

TEST(FlowFileTest, PatternsOfEachAreResolvedForEach) {
  LoadedFlow f("f.toml", R"(
[[task]]
name = "make-{g}-{i}"
each = { g = ["a", "b"], i = "1-3" }
command = "x"
out = ["{g}/{i}.dat"]
[[task]]
name = "sum-{g}"
each = { g = ["a", "b"] }
command = "x"
in = "{g}/*.dat"
)");
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  EXPECT_THAT(f.Before("sum-a"), ElementsAre("make-a-1", "make-a-2", "make-a-3"));
  EXPECT_THAT(f.Before("sum-b"), ElementsAre("make-b-1", "make-b-2", "make-b-3"));
}

TEST(FlowFileTest, AfterTasksByNameOrByTemplate) {
  LoadedFlow f("f.toml", R"(
[[task]]
name = "last"
command = "x"
after = ["w-{i}", "one"]
[[task]]
name = "w-{i}"
each = { i = "1-3" }
command = "x"
[[task]]
name = "v-{i}"
each = { i = "1-3" }
command = "x"
after = ["w-{i}"]
[[task]]
name = "all-{i}"
each = { i = "1-2" }
command = "x"
after = ["w-{{i}"]
[[task]]
name = "one"
command = "x"
after = "w-2"
)");
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  EXPECT_THAT(f.Before("last"), testing::UnorderedElementsAre("w-1", "w-2", "w-3", "one"));
  EXPECT_THAT(f.Before("v-2"), ElementsAre("w-2"));
  EXPECT_THAT(f.Before("all-1"), ElementsAre("w-1", "w-2", "w-3"));
  EXPECT_THAT(f.Before("one"), ElementsAre("w-2"));
}

TEST(FlowFileTest, EveryKeyOfATask) {
  LoadedFlow f("f.toml", R"(
[[task]]
name = "mpi-{i}"
each = { i = "1-2" }
command = "solver"
shell = "bash"
cores = 4
memory = "2G"
gpus = 2
nodes = 3
whole_node = true
ranks = 24
time = "1-12"
retries = 2
retry_on = [137, 1]
retry_delay = "90s"
cwd = "run-{i}"
kind = "solve"
stdin = "in.{i}"
stdout = "out.%j"
stderr = "err.{i}"
priority = 5
keep = true
run_time = "1h"
env = { OMP = 4, TEXT = "a {i} {other}", FLAG = true }
)");
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  const graph::Profile& p = f.graph.profile(f.Task("mpi-2"));
  graph::Profile want;
  want.shape = {.cores = 32, .devices = 16, .nodes = 3, .whole_node = true, .memory = uint64_t{2} << 30};
  want.ranks = 24;
  want.cwd = "run-2";
  want.shell = "bash";
  want.env = {{"FLAG", "true"}, {"OMP", "4"}, {"TEXT", "a 2 {other}"}};
  want.time_limit = std::chrono::hours(36);
  want.retries = 2;
  want.retry_on = {1, 137};
  want.retry_delay = std::chrono::seconds(90);
  want.stdin_path = "in.2";
  want.stdout_path = "out.%j";
  want.stderr_path = "err.2";
  want.priority = 5;
  want.keep = true;
  EXPECT_EQ(p, want);
  EXPECT_EQ(f.graph.kind_name(f.graph.kind(f.Task("mpi-2"))), "solve");
  EXPECT_EQ(f.graph.form(f.Task("mpi-2")), CommandForm::kShell);
  EXPECT_EQ(f.graph.recorded_run_time(f.Task("mpi-2")), std::chrono::hours(1));
}

TEST(FlowFileTest, SharedProfilesAreOne) {
  LoadedFlow f("f.toml",
               "[[task]]\nname=\"a-{i}\"\ncommand=\"x "
               "{i}\"\neach={i=\"0-99\"}\ncores=2\n[[task]]\nname=\"b\"\ncommand=\"x\"\ncores=2\n");
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  EXPECT_EQ(f.graph.profile_count(), 1u);
}

TEST(FlowFileTest, ScriptsOfSeveralLines) {
  LoadedFlow f("f.toml", "[[task]]\nname = \"a\"\ncommand = \"\"\"\n  module load x\n  prog --n 3\n\"\"\"\n");
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  EXPECT_EQ(f.Command("a"), "module load x\n  prog --n 3");
  EXPECT_EQ(f.graph.form(f.Task("a")), CommandForm::kShell);
}

TEST(FlowFileTest, SizesForSimulation) {
  LoadedFlow f("f.toml",
               "[[file]]\nname=\"raw/"
               "{i}\"\neach={i=\"1-3\"}\nsize=\"2M\"\n[[task]]\nname=\"a\"\ncommand=\"x\"\nin=[\"raw/2\"]\n");
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  EXPECT_EQ(f.graph.file_size(f.graph.inputs(f.Task("a"))[0]), int64_t{2} << 20);
  EXPECT_EQ(f.graph.file_count(), 3u);
}

TEST(FlowFileTest, InputsThatHaveToExist) {
  LoadedFlow f;
  f.options.inputs_must_exist = true;
  for (const char* path : {"/d/a", "/d/dir/b"}) ASSERT_TRUE(f.fs.WriteWhole(path, "x").ok());
  f.Load("f.toml", R"(
[[task]]
name = "t"
command = "x"
in = ["a", "dir/b", "dir", "/d/a", "made", "made-dir/inside"]
out = ["t.out", "made-dir"]
[[task]]
name = "u"
command = "x"
out = ["made"]
)");
  EXPECT_TRUE(f.status.ok()) << f.status.message();
  f.Load("f.toml",
         "[[task]]\nname=\"t-{i}\"\neach={i=\"0-9\"}\ncommand=\"x\"\nin=[\"a\", \"raw/{i}\", \"dir/c\"]\n");
  EXPECT_EQ(f.status.message(),
            "f.toml:5:10: no task makes \"raw/0\", and there is no such file (nor 9 more of this kind); "
            "create it, or declare it in the out of "
            "the task that makes it\nf.toml:5:21: no task makes \"dir/c\", and there is no such file; create "
            "it, or declare it in the out of "
            "the task that makes it");
  f.Load("f.toml", "[[task]]\nname=\"t-{i}\"\neach={i=\"0-1\"}\ncommand=\"x\"\nin=[\"raw/{i}\"]\n");
  EXPECT_THAT(f.status.message(), HasSubstr("no such file (nor 1 more of this kind); create it"));
}

TEST(FlowFileTest, ColumnsCountBytes) {
  LoadedFlow f("f.toml",
               "[[task]]\nname = \"a\"\ncommand = \"x\"\nenv = { \"\xC3\x9F\xE2\x82\xAC\" = [] }\n");
  EXPECT_EQ(f.status.message().find("f.toml:4:19: env"), 0u) << f.status.message();
}

TEST(FlowFileTest, ProblemsComeInTheOrderOfTheFile) {
  LoadedFlow f(
      "f.toml",
      "[[task]]\nname = \"a\"\ncommand = \"x\"\nzores = 1\ncores = 0\n[[task]]\nname = \"b\"\ncoars = 1\n");
  const std::string& text = f.status.message();
  EXPECT_THAT(text, HasSubstr("f.toml:4:1: unknown key zores"));
  EXPECT_LT(text.find("f.toml:4:1"), text.find("f.toml:5:9"));
  EXPECT_LT(text.find("f.toml:5:9"), text.find("f.toml:8:1"));
}

TEST(FlowFileTest, SettingsAreCheckedByWhoeverKnowsThem) {
  LoadedFlow f;
  f.options.check_setting = [](std::string_view key, std::string_view value) {
    if (key == "order" && value == "3") return Status();
    return Status(Code::kInvalid,
                  StrCat(key == "order" ? "order cannot be that" : "unknown setting", "; write order = 3"));
  };
  f.Load("f.toml", "[flow]\norder = 3\n[[task]]\nname=\"a\"\ncommand=\"x\"\n");
  EXPECT_TRUE(f.status.ok()) << f.status.message();
  f.Load("f.toml", "[flow]\norder = 4\nodrer = 3\n[[task]]\nname=\"a\"\ncommand=\"x\"\n");
  EXPECT_EQ(
      f.status.message(),
      "f.toml:2:9: order cannot be that; write order = 3\nf.toml:3:1: unknown setting; write order = 3");
}

TEST(LoadTest, SeveralFilesAreOneFlow) {
  LoadedFlow f;
  f.status = formats::Load(
      f.fs,
      {{"b.toml", false, "[[task]]\nname=\"b\"\ncommand=\"x\"\nin=[\"p/*\"]\nafter=[\"a-{i}\"]\n"},
       {"a.toml", false,
        "[flow]\nname=\"both\"\n[[task]]\nname=\"a-{i}\"\neach={i=\"1-2\"}\ncommand=\"x\"\nout=[\"p/"
        "{i}\"]\n"},
       {"more.txt", false, "true\n"}},
      f.options, &f.graph, &f.flow);
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  EXPECT_EQ(f.graph.task_count(), 4u);
  EXPECT_EQ(f.flow.name, "both");
  EXPECT_THAT(f.Before("b"), ElementsAre("a-1", "a-2"));
  EXPECT_EQ(f.flow.formats.size(), 3u);
}

TEST(LoadTest, LimitsLinksBeforeMemoryEnds) {
  LoadedFlow f("f.toml",
               "[[task]]\nname=\"a-{i}\"\neach={i=\"1-20000\"}\ncommand=\"x\"\n[[task]]\nname=\"b-{i}"
               "\"\neach={i=\"1-20000\"}\ncommand=\"x\"\nafter=[\"a-{{i}\"]\n");
  EXPECT_THAT(f.status.message(), HasSubstr("f.toml:9:8: after means more than 50000000 pairs"));
}

TEST(FlowFileTest, WhatIsInTheTablesPlaceIsNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"\"mosaic\"", "a text"},         {"[1]", "a list"},         {"3", "a whole number"},
      {"1.5", "a number with a point"}, {"true", "true or false"}, {"2026-01-01", "a date or time"}};
  for (const auto& [value, type] : cases) {
    const LoadedFlow f("f.toml", StrCat("flow = ", value, "\n[[task]]\nname = \"x\"\ncommand = \"x\"\n"));
    EXPECT_EQ(f.status.message(), StrCat("f.toml:1:1: flow is ", type, "; settings follow a line [flow]"));
  }
}

}  // namespace
}  // namespace harrow::formats
