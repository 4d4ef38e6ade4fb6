// Which format a text is taken for, and what is said of what is none.
#include "formats/detect.h"

#include <gtest/gtest.h>
#include <string>

namespace harrow::formats {
namespace {

std::string Of(std::string_view path, std::string_view text, bool lines = false) {
  const Result<Format> format = Detect(path, lines, text);
  return format.ok() ? std::string(FormatName(*format)) : format.status().message();
}

TEST(DetectTest, ByWhatItIsCalled) {
  EXPECT_EQ(Of("x.txt", "a = 1\n"), "line file");
  EXPECT_EQ(Of("-", "anything\n"), "line file");
  EXPECT_EQ(Of("x.toml", "anything\n"), "flow file");
  EXPECT_EQ(Of("x.json", "anything\n"), "WfFormat");
  EXPECT_EQ(Of("x.stg", "2\n"), "standard task graph");
  EXPECT_EQ(Of("x.dag.tsv", "T\ta\n"), "table of tasks");
  EXPECT_EQ(Of("x.toml", "anything\n", true), "line file") << "--lines";
}

TEST(DetectTest, ByWhatItHolds) {
  for (const char* toml : {"[[task]]\n", "[flow]\n", "[ flow ]\n", "[[ task ]]", "name = \"x\"\n", "name =\"x\"\n", "name= \"x\"\n",
                           "name   =\t\"x\"\n", "# a comment\n\n  x = 1\n", "a-b_9 = 1\n", "x\t= 1\n", "a = 1", "z = 1", "A = 1", "Z = 1", "0 = 1",
                           "9 = 1", "_ = 1", "- = 1"})
    EXPECT_EQ(Of("x", toml), "flow file") << toml;
  for (const char* other : {"A=b\n", "name=\n", "name\n", "= 1\n", "name : 1\n", "[\n", "[]\n", "[[\n", "[flow\n", "name x = 1\n", "@ = 1", "[@]", "{ = 1", "/ = 1", ": = 1", "` = 1"})
    EXPECT_NE(Of("x", other), "flow file") << other;
  EXPECT_EQ(Of("x", " {\"a\": 1}"), "WfFormat");
  EXPECT_EQ(Of("x", "<?xml?>\n<adag>"), "DAX");
  EXPECT_EQ(Of("x", "<p:adag>"), "DAX");
  EXPECT_EQ(Of("x.dax", "<any>"), "DAX");
  EXPECT_EQ(Of("x", "T\ta\tb\n"), "table of tasks");
  EXPECT_EQ(Of("x", "F\ta\t1\n"), "table of tasks");
}

TEST(DetectTest, WhatIsNoFlowIsNamed) {
  const auto says = [](std::string_view path, std::string_view text, std::string_view what) {
    const std::string said = Of(path, text);
    EXPECT_NE(said.find(what), std::string::npos) << path << ": " << said;
  };
  says("x", "\x7f" "ELF...", "is a program");
  says("x.txt", "\x1f\x8b...", "gzip -d");
  says("x", "\xfd" "7zXZ", "xz -d");
  says("x", "\x28\xb5\x2f\xfd", "zstd -d");
  says("x", "BZh9", "bzip2 -d");
  says("x", "PK\x03\x04", "zip archive");
  says("x.txt", "#!/bin/sh\n", "is a script");
  says("x.txt", "#SBATCH --nodes=4\nprog\n", "is a script");
  says("x.txt", "#PBS -l nodes=4\nprog\n", "is a script");
  for (const char* name : {"x.sh", "x.bash", "x.slurm", "x.sbatch"}) says(name, "prog 1\n", "is a script");
  says("x.txt", "[[task]]\nname = 1\n", "call it FILE.toml");
  says("x.txt", "[flow]\n", "call it FILE.toml");
  says("x.txt", "{\"name\": 1}", "called FILE.json");
  says("-", "{\n\"name\": 1}", "called FILE.json");
  says("x", "", "is empty");
  says("x", "# only\n\n# comments\n", "is empty");
  says("x", "<html>", "only a Pegasus DAX");
  says("x", "prog 1\n", "neither a line file, a flow file nor WfFormat");
  EXPECT_EQ(Of("x.txt", "{ cd a; prog; }\n"), "line file") << "a shell's group";
  EXPECT_EQ(Of("x.txt", "[ -e a ] && prog\n"), "line file");
}

}  // namespace
}  // namespace harrow::formats
