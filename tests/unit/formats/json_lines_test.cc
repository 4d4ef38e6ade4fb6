// Tasks as JSON objects, one a line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "formats/detect.h"
#include "support/loaded_flow.h"

namespace harrow::formats {
namespace {

using test::LoadedFlow;
using testing::HasSubstr;
using testing::StartsWith;

TEST(JsonLines, AreTasksWithTheKeysOfAFlowFile) {
  LoadedFlow f("f.jsonl",
               "{\"name\": \"a\", \"command\": [\"./a\", \"b c\"], \"out\": [\"x\"], \"cores\": 2, \"to\": \"s\"}\n"
               "\n"
               "{\"name\":\"b-{i}\",\"each\":{\"i\":\"1-2\"},\"command\":\"cat {i}\",\"after\":[\"a\"],\"env\":{\"K\":\"a:b\"}}\r\n"
               "{\"command\": \"wc\", \"name\": \"c\", \"from\": [\"s\"], \"keep\": true}");
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  EXPECT_EQ(f.graph.task_count(), 4u);
  EXPECT_EQ(f.Out("a"), std::vector<std::string>{"x"});
  EXPECT_EQ(f.graph.profile(f.Task("a")).shape.cores, 2u);
  EXPECT_EQ(f.Before("b-2"), std::vector<std::string>{"a"});
  EXPECT_EQ(f.graph.profile(f.Task("b-1")).env[0].second, "a:b") << "a colon in a text is none between key and value";
  EXPECT_TRUE(f.graph.profile(f.Task("c")).keep);
  EXPECT_EQ(f.graph.streams().at(0).readers.at(0), f.Task("c"));
}

TEST(JsonLines, TextsAreWhatJsonMeans) {
  LoadedFlow f("f.jsonl", R"({"name": "a", "command": ["x", "\"q\" \\ \/ \u00e9 \ud83d\ude00 \n\t"]})");
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  EXPECT_EQ(f.graph.command(f.Task("a")), std::string("x\0\"q\" \\ / \xc3\xa9 \xf0\x9f\x98\x80 \n\t", 20));
}

TEST(JsonLines, WhatIsWrongIsToldWithItsPlace) {
  const auto told = [](const std::string& text) {
    LoadedFlow f("f.jsonl", text);
    return f.status.message();
  };
  EXPECT_THAT(told("{\"name\": \"a\", \"command\": \"x\"}\n{\"name\": \"b\"\n"), StartsWith("f.jsonl:2:1: this is no object of JSON ("));
  EXPECT_THAT(told("[1]\n"), StartsWith("f.jsonl:1:1: this is no object of JSON; write an object a line"));
  EXPECT_THAT(told("{\"name\": \"a\", \"command\": \"x\", \"cores\": null}\n"), HasSubstr("f.jsonl:1:1: null says nothing of a task"));
  EXPECT_EQ(told("{\"name\": \"a\", \"command\": \"x\", \"cores\": \"y\"}\n"),
            told("{\"name\": \"a\", \"command\": \"x\", \"cores\": \"y\"}\n\n"));
  EXPECT_THAT(told("{\"name\": \"a\", \"command\": \"x\", \"cores\": \"y\"}\n"), StartsWith("f.jsonl:1:40: cores"));
  EXPECT_THAT(told("\n{\"name\": \"a\", \"command\": \"x\", \"cores\": \"y\"}\n"), StartsWith("f.jsonl:2:40: cores"));
  EXPECT_THAT(told("{\"name\": \"a\", \"comand\": \"x\"}\n"), HasSubstr("unknown key comand; did you mean command?"));
  EXPECT_THAT(told("\n"), HasSubstr("there is no task"));
}

TEST(JsonLines, AreToldByTheirFirstLine) {
  EXPECT_EQ(*Detect("-", false, "{\"name\": \"a\", \"command\": \"x\"}\n{\"name\""), Format::kJsonLines);
  EXPECT_EQ(*Detect("x.jsonl", false, ""), Format::kJsonLines);
  EXPECT_FALSE(Detect("-", false, "{\"name\": \"a\",\n\"workflow\": {}}").ok()) << "WfFormat";
  EXPECT_EQ(*Detect("x.json", false, "{\"name\": \"a\"}\n"), Format::kWfFormat);
}

}  // namespace
}  // namespace harrow::formats
