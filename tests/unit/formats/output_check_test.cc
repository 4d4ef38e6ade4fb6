// Outputs and streams that would destroy what is somebody else's: names as text, and where the disk tells
// more, links. (Most of what is refused by text alone is in tests/data/bad_input.table.)
#include "formats/output_check.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>

#include "support/loaded_flow.h"

namespace harrow::formats {
namespace {

namespace fs = std::filesystem;

/// Flows in a directory on disk.
class OutputCheckTest : public testing::Test {
 protected:
  OutputCheckTest() {
    std::string name = (fs::temp_directory_path() / "harrow-output-check-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) abort();
    directory_ = fs::canonical(name);
  }
  ~OutputCheckTest() override { fs::remove_all(directory_); }
  void Write(const std::string& name, const std::string& text = "x") {
    fs::create_directories((directory_ / name).parent_path());
    std::ofstream(directory_ / name) << text;
  }
  /// What is said of a flow of that text; nothing: it is good. `look`: also at what is on the disk.
  std::string Said(const std::string& text, bool look = true) {
    LoadOptions options;
    options.directory = directory_;
    options.inputs_must_exist = look;
    options.check_outputs = true;
    graph_ = graph::Graph();
    Flow flow;
    return Load(os::RealFileSystem(), {{"f.toml", false, text}}, options, &graph_, &flow).message();
  }
  static std::string Task(const std::string& name, const std::string& more) {
    return "[[task]]\nname = \"" + name + "\"\ncommand = \"x\"\n" + more + "\n";
  }
  void ExpectSaid(const std::string& text, const std::string& what) {
    const std::string said = Said(text);
    EXPECT_NE(said.find(what), std::string::npos) << text << "says: " << said;
  }

  fs::path directory_;
  graph::Graph graph_;
};

TEST_F(OutputCheckTest, AStreamIsNoInput) {
  Write("table");
  ExpectSaid(Task("a", "in = [\"table\"]") + Task("b", "stdout = \"table\""),
             "stdout \"table\" is an input of the flow; name another file");
  ExpectSaid(Task("a", "in = [\"table\"]") + Task("b", "stderr = \"./x/../table\""),
             "is an input of the flow");
  EXPECT_EQ(Said(Task("a", "in = [\"table\"]") + Task("b", "stdout = \"tables\"")), "");
  EXPECT_EQ(Said(Task("a", "in = [\"table\"]") + Task("b", "stdout = \"/dev/null\"") +
                 Task("c", "stdout = \"/dev/null\"")),
            "");
}

TEST_F(OutputCheckTest, StreamsOfTheirOwnMayBeNamedByOnePattern) {
  EXPECT_EQ(Said("[[task]]\nname = \"a-{i}\"\neach = { i = \"1-3\" }\ncommand = \"x\"\nstdout = "
                 "\"log-%a\"\nstderr = \"log-%4J.e\""),
            "");
  const char* shared =
      "[[task]]\nname = \"a-{i}\"\neach = { i = \"1-3\" }\ncommand = \"x\"\nstdout = \"log-%N\"";
  ExpectSaid(shared, "is written by task 'a-1'");
}

TEST_F(OutputCheckTest, AStreamThatIsALinkToAnothersOutputIsFound) {
  Write("out-3.log");
  fs::create_symlink("out-3.log", directory_ / "other");
  const std::string b = Task("b", "out = [\"other\"]");
  ExpectSaid(Task("a", "stdout = \"out-3.log\"") + b, "is, through a link, the file");
  ExpectSaid(Task("a", "stdout = \"out-%n.log\"\nout = [\"out-3.log\"]") + b, "is, through a link, the file");
  EXPECT_EQ(Said(Task("a", "stdout = \"log-%n.log\"\nout = [\"out-3.log\"]") + b), "")
      << "the pattern cannot mean that file";
  EXPECT_EQ(Said(Task("a", "stdout = \"out-3.log\"\nout = [\"out-3.log\"]") +
                 Task("b", "in = [\"out-3.log\"]\nout = [\"other\"]")),
            "")
      << "what is made of it may be a link to it";
}

TEST_F(OutputCheckTest, LinksToNothingYetAreFollowed) {
  fs::create_symlink("to-come", directory_ / "one");
  ExpectSaid(Task("a", "stdout = \"one\"") + Task("b", "out = [\"to-come\"]"),
             "is, through a link, the file");
  EXPECT_EQ(Said(Task("a", "stdout = \"one\"") + Task("b", "out = [\"elsewhere\"]")), "");
}

TEST_F(OutputCheckTest, DirectoriesThatAreLinksAreResolved) {
  fs::create_directories(directory_ / "real");
  fs::create_directory_symlink("real", directory_ / "link");
  ExpectSaid(Task("a", "out = [\"real/x\"]") + Task("b", "out = [\"link/x\"]"), "under another name");
  ExpectSaid(Task("a", "out = [\"real\"]") + Task("b", "out = [\"link/x\"]"), "holds");
  EXPECT_EQ(Said(Task("a", "out = [\"real/x\"]") + Task("b", "out = [\"link/y\"]")), "");
  ExpectSaid(
      Task("a", "out = [\"" + (directory_ / "real/x").string() + "\"]") + Task("b", "out = [\"real/x\"]"),
      "under another name");
}

TEST_F(OutputCheckTest, WithoutTheDiskNamesAreAllThatCounts) {
  fs::create_directories(directory_ / "real");
  fs::create_directory_symlink("real", directory_ / "link");
  fs::create_symlink("real/x", directory_ / "y");
  EXPECT_EQ(
      Said(Task("a", "out = [\"real/x\"]") + Task("b", "out = [\"link/x\"]") + Task("c", "stdout = \"y\""),
           false),
      "");
  EXPECT_EQ(Said(Task("a", "out = [\"real\"]") + Task("b", "out = [\"link/x\", \"/elsewhere/x\", \"../x\"]"),
                 false),
            "");
  const std::string parent = directory_.filename().string();
  for (const std::string& name : {(directory_ / "real/x").string(), "../" + parent + "/real/x"}) {
    const std::string said =
        Said(Task("a", "out = [\"real/x\"]") + Task("b", "out = [\"" + name + "\"]"), false);
    EXPECT_NE(said.find("is the file \"real/x\" of task 'a' (f.toml:2:8) under another name"),
              std::string::npos)
        << said;
  }
}

TEST_F(OutputCheckTest, WhatIsReadStaysOutOfOutputs) {
  Write("data/table");
  ExpectSaid(Task("a", "in = [\"data/table\"]\nout = [\"data\"]"),
             "is or holds \"data/table\", which the task reads");
  ExpectSaid(Task("a", "stdin = \"data/table\"\nout = [\"data\"]"), "which the task reads");
  ExpectSaid(Task("a", "cwd = \"data\"\nout = [\"data\"]"), "working directory (cwd)");
  EXPECT_EQ(Said(Task("a", "in = [\"data/table\"]\nout = [\"data2\"]")), "");
}

TEST_F(OutputCheckTest, TheRunDirectoryIsNobodysOutput) {
  ASSERT_EQ(Said(Task("a", "out = [\"results\"]")), "");
  const auto check = [&](const std::string& run_dir) {
    return CheckRunDirectory(os::RealFileSystem(), graph_, directory_, directory_ / run_dir).message();
  };
  EXPECT_NE(check("results").find("is or holds the run directory"), std::string::npos);
  EXPECT_NE(check("results/run").find("name another with --run-dir"), std::string::npos);
  EXPECT_EQ(check("results2"), "");
  EXPECT_EQ(check("run"), "");
}

TEST_F(OutputCheckTest, WhichPatternsNameAFileForEachTask) {
  const auto shared = [&](const std::string& pattern) {
    return !Said("[[task]]\nname = \"a-{i}\"\neach = { i = \"1-2\" }\ncommand = \"x\"\nstdout = '" + pattern +
                 "'")
                .empty();
  };
  for (const char* own : {"%a", "%J", "x%09J", "%j-%a"}) EXPECT_FALSE(shared(own)) << own;
  for (const char* one : {"a", "J", "%j", "%A", "x%", "x%9", "%", "\\%a", "9a", "%%a"})
    EXPECT_TRUE(shared(one)) << one;
}

TEST_F(OutputCheckTest, EachProblemOnceAtItsPlace) {
  const std::string a = Task("a", "out = [\"o\",\n \"r\"]"),
                    b = Task("b", "out = [\"p\",\n\"r/x\", \"r/y\"]");
  EXPECT_EQ(Said(a + b),
            "f.toml:5:2: out \"r\" holds \"r/x\", the output of task 'b' (f.toml:10:1); let the task name "
            "its own files, or a directory that it alone makes");
  EXPECT_EQ(Said(Task("a", "out = [\"o\", \"o\", \"r\"]") + Task("b", "out = [\"r/x\"]")).substr(0, 28),
            "f.toml:2:8: out \"r\" holds \"r")
      << "of an output that is told twice the task's place has to do";
  const std::string c = Task("c", "stdout = \"s\"");
  EXPECT_EQ(Said(Task("a", "stdout = \"s\"\nstderr = \"s\"") + c + Task("d", "stderr = \"s\"")),
            "f.toml:9:10: stdout \"s\" is written by task 'a' (f.toml:2:8) as well; put a key of each or %a "
            "into it, or leave it out: harrow logs "
            "shows what every task wrote");
  EXPECT_EQ(Said(Task("a", "out = [\"r\"]") + Task("b", "stderr = \"r/log\"")),
            "f.toml:8:10: stderr \"r/log\" is or lies in \"r\", the output of task 'a' (f.toml:2:8); name "
            "another file");
  EXPECT_EQ(Said(Task("a", "out = [\"r\"]\nstdout = \"r/log\"")), "") << "its own";
}

TEST_F(OutputCheckTest, WhatTellsTheFlowAndWhatIsThereStaysOutOfOutputs) {
  const auto said = [&](const std::string& file, const std::string& out) {
    Write(file, Task("a", "out = [\"" + out + "\"]"));
    LoadOptions options;
    options.directory = directory_;
    options.inputs_must_exist = options.check_outputs = true;
    graph_ = graph::Graph();
    Flow flow;
    return Load(os::RealFileSystem(), {{(directory_ / file).string(), false, std::nullopt}}, options, &graph_,
                &flow)
        .message();
  };
  EXPECT_NE(said("flows/f.toml", "flows")
                .find("out \"flows\" is or holds " + (directory_ / "flows/f.toml").string() +
                      ", which tells the flow"),
            std::string::npos);
  EXPECT_NE(said("f.toml", "f.toml").find("which tells the flow"), std::string::npos);
  EXPECT_EQ(said("flows/f.toml", "flow"), "");
  Write("data/1.x");
  ExpectSaid(Task("a", "out = [\"data\"]") + Task("b", "in = [\"data/*.x\"]"),
             "f.toml:4:8: out \"data\" holds \"data/1.x\", which is there already and is read (f.toml:8:7)");
}

TEST_F(OutputCheckTest, PatternsOfStreamsAreNoGlobs) {
  Write("out[1].log");
  fs::create_symlink("out[1].log", directory_ / "other");
  const std::string b = Task("b", "out = [\"other\"]");
  ExpectSaid(Task("a", "stdout = \"out[1]%2n.log\"\nout = [\"out[1].log\"]") + b,
             "is, through a link, the file");
  EXPECT_EQ(Said(Task("a", "stdout = \"out?1].lo%n\"\nout = [\"out[1].log\"]") + b), "");
  EXPECT_EQ(Said(Task("a", "stdout = \"out*\"\nout = [\"out[1].log\"]") + b), "");
  EXPECT_EQ(Said(Task("a", "out = [\"out[1].log\"]") + b), "") << "no stream: what each writes is whole";
  fs::create_directories(directory_ / "d");
  fs::create_symlink("../out[1].log", directory_ / "d/other");
  EXPECT_EQ(Said(Task("a", "stdout = \"%n\"\nout = [\"out[1].log\"]") + Task("b", "out = [\"d/y\"]")), "");
}

TEST_F(OutputCheckTest, NamesThatLeadOutAndBack) {
  const std::string name = directory_.filename().string();
  ExpectSaid(Task("a", "out = [\"x\"]") + Task("b", "out = [\"../" + name + "/x\"]"),
             "is the file \"x\" of task 'a' (f.toml:2:8) under another name");
  ExpectSaid(Task("a", "out = [\"../" + name + "\"]"), "is or holds the directory that the flow runs in");
  ExpectSaid(Task("a", "out = [\"../" + name + "/r\"]") + Task("b", "out = [\"r/x\"]"), "holds \"r/x\"");
  EXPECT_EQ(Said(Task("a", "out = [\"../" + name + "2/x\"]") + Task("b", "out = [\"x\"]")), "");
  EXPECT_EQ(Said(Task("a", "out = [\"x\", \"../" + name + "/x\"]")), "") << "one task's own";
}

}  // namespace
}  // namespace harrow::formats
