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
command = "echo {n} {x} {w}"
)");
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  EXPECT_EQ(f.graph.task_count(), 3u * 4 * 2);
  EXPECT_EQ(f.graph.TaskName(TaskId(0)), "t-1-0.5-red");
  EXPECT_EQ(f.graph.TaskName(TaskId(1)), "t-1-0.5-blue sky");
  EXPECT_EQ(f.graph.TaskName(TaskId(2)), "t-1-b-red");
  EXPECT_EQ(f.graph.TaskName(TaskId(23)), "t-10-true-blue sky");
  EXPECT_EQ(f.Command("t-3-7-blue sky"), "echo 3 7 'blue sky'");
  EXPECT_EQ(f.graph.form(f.Task("t-3-7-blue sky")), CommandForm::kArgv);
  EXPECT_EQ(f.graph.form(f.Task("t-3-7-red")), CommandForm::kWords);
}

TEST(FlowFileTest, ALimitOfAnArrayIsNotedNotKept) {
  LoadedFlow f("f.toml", "[[task]]\nname=\"a-{i}\"\ncommand=\"x\"\neach={i=\"0-9%4\"}\n");
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  EXPECT_THAT(f.flow.notices, ElementsAre(HasSubstr("f.toml:4:9: %4 has no effect")));
}

TEST(FlowFileTest, BracesThatAreNoKeysStay) {
  LoadedFlow f("f.toml", R"(
[[task]]
name = "a"
command = "awk '{print $1}' ${FILE} {} {{x}"
[[task]]
name = "b-{i}"
each = { i = ["it's"] }
command = "echo '{i}' \"{i}\" {i} {{i}"
)");
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  EXPECT_EQ(f.Command("a"), "awk '{print $1}' ${FILE} {} {x}");
  EXPECT_EQ(f.Command("b-it's"), "echo 'it'\\''s' \"it's\" 'it'\\''s' {i}");
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
  want.shape = {.cores = 4, .gpus = 2, .nodes = 3, .whole_node = true, .memory = uint64_t{2} << 30};
  want.ranks = 24;
  want.cwd = "run-2";
  want.shell = "bash";
  want.env = {{"FLAG", "true"}, {"OMP", "4"}, {"TEXT", "a 2 {other}"}};
  want.time_limit = std::chrono::hours(36);
  want.retries = 2;
  want.retry_on = {1, 137};
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

}  // namespace
}  // namespace harrow::formats
