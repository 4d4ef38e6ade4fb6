// What callers of the public library describe, and what is wrong by itself.
#include "client/spec.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <string>

#include "base/records.h"
#include "base/text.h"

namespace harrow::client {
namespace {

using testing::HasSubstr;

harrow_spec Spec(const char* command = "./solve 7") {
  harrow_spec spec = HARROW_SPEC;
  spec.command = command;
  return spec;
}

Described Read(const harrow_spec& spec, const std::string& directory = "/here", const std::string& submit = "/submit") {
  Result<Described> read = Describe(&spec, directory, submit);
  EXPECT_TRUE(read.ok()) << read.status().message();
  return read.ok() ? *std::move(read) : Described();
}

std::string Wrong(const harrow_spec& spec) {
  const Result<Described> read = Describe(&spec, "/here", "/submit");
  EXPECT_EQ(read.status().code(), Code::kInvalid);
  return read.status().message();
}

TEST(SpecTest, ACommandIsALineAndArgumentsAreNot) {
  const Described line = Read(Spec("echo $HOME > x"));
  EXPECT_EQ(line.task.task->command(), "echo $HOME > x");
  EXPECT_TRUE(line.task.task->line());
  harrow_spec spec = Spec(nullptr);
  const char* const arguments[] = {"./solve", "a b", "", nullptr};
  spec.arguments = arguments;
  const Described argv = Read(spec);
  EXPECT_EQ(argv.task.task->command(), std::string("./solve\0a b\0", 12));
  EXPECT_EQ(argv.task.task->form(), 1u);
  EXPECT_FALSE(argv.task.task->line());
  spec.command = "x";
  EXPECT_THAT(Wrong(spec), HasSubstr("not both"));
  EXPECT_THAT(Wrong(Spec(nullptr)), HasSubstr("no command"));
  EXPECT_THAT(Wrong(Spec("")), HasSubstr("no command"));
  const char* const none[] = {"", nullptr};
  spec = Spec(nullptr);
  spec.arguments = none;
  EXPECT_THAT(Wrong(spec), HasSubstr("no program"));
}

TEST(SpecTest, WhatIsNotSaidIsAsTheRunSays) {
  const Described plain = Read(Spec());
  EXPECT_EQ(plain.profile.cores(), 1u);
  EXPECT_EQ(plain.profile.nodes(), 1u);
  EXPECT_EQ(plain.profile.retries(), -1);
  EXPECT_EQ(plain.profile.retry_delay_ns(), 0);
  EXPECT_EQ(plain.profile.time_limit_ns(), 0);
  harrow_spec spec = Spec();
  spec.retries = -1;
  EXPECT_EQ(Read(spec).profile.retries(), 0);
  spec.retries = 5;
  EXPECT_EQ(Read(spec).profile.retries(), 5);
  spec.retries = -2;
  EXPECT_THAT(Wrong(spec), HasSubstr("retries"));
}

TEST(SpecTest, ResourcesOfRanksAreThoseOfANode) {
  harrow_spec spec = Spec();
  spec.cores = 4;
  spec.gpus = 1;
  spec.memory = 1u << 30;
  EXPECT_EQ(Read(spec).profile.cores(), 4u);
  EXPECT_EQ(Read(spec).profile.memory(), 1u << 30);
  spec.ranks = 5;
  spec.nodes = 2;
  EXPECT_EQ(Read(spec).profile.cores(), 12u);
  EXPECT_EQ(Read(spec).profile.gpus(), 3u);
  spec.ranks = 1;
  EXPECT_THAT(Wrong(spec), HasSubstr("each node has at least one"));
  spec.ranks = 0xffffffffu;
  spec.cores = 0xffffffffu;
  EXPECT_THAT(Wrong(spec), HasSubstr("more than 65536"));
}

TEST(SpecTest, Directories) {
  harrow_spec spec = Spec();
  EXPECT_EQ(Read(spec).profile.cwd(), "/here");
  EXPECT_EQ(Read(spec, "/submit").profile.cwd(), "") << "where all run";
  EXPECT_EQ(Read(spec, "/here", "").profile.cwd(), "") << "a task has a directory of its own";
  spec.directory = "case";
  EXPECT_EQ(Read(spec).profile.cwd(), "/here/case");
  EXPECT_EQ(Read(spec, "/here", "").profile.cwd(), "case");
  spec.directory = "/data";
  EXPECT_EQ(Read(spec).profile.cwd(), "/data");
}

TEST(SpecTest, Lists) {
  harrow_spec spec = Spec();
  const char* const environment[] = {"A=1", "B=x=y", "C=", nullptr};
  const char* const names[] = {"prepare", "#7", nullptr};
  const harrow_task after[] = {3, 1};
  spec.environment = environment;
  spec.inputs = spec.outputs = spec.after_names = spec.after_any_names = names;
  spec.after = after;
  spec.after_count = 2;
  spec.after_any = after;
  spec.after_any_count = 1;
  const Described read = Read(spec);
  EXPECT_EQ(read.profile.env(1).name() + "|" + read.profile.env(1).value(), "B|x=y");
  EXPECT_EQ(read.profile.env(2).value(), "");
  EXPECT_EQ(read.task.task->after(1), "#7");
  EXPECT_EQ(read.task.task->after_any_size(), 2);
  EXPECT_EQ(read.task.task->in_size(), 2);
  EXPECT_EQ(read.task.task->out_size(), 2);
  EXPECT_EQ(read.task.after, (std::vector<uint64_t>{3, 1}));
  EXPECT_EQ(read.task.after_any, (std::vector<uint64_t>{3}));
  spec.after_any = nullptr;
  EXPECT_THAT(Wrong(spec), HasSubstr("NULL"));
  for (const char* bad : {"A", "=x", ""}) {
    const char* const wrong[] = {bad, nullptr};
    harrow_spec other = Spec();
    other.environment = wrong;
    EXPECT_THAT(Wrong(other), HasSubstr("is not NAME=value"));
  }
}

TEST(SpecTest, Streams) {
  harrow_spec spec = Spec();
  const char *const from[] = {"a", "b", nullptr}, *const to[] = {"c", nullptr}, *const open[] = {"d", nullptr};
  spec.from = from;
  spec.to = to;
  spec.open = open;
  EXPECT_FALSE(Read(spec).task.task->split());
  EXPECT_EQ(Read(spec).task.task->records(), kLines);
  spec.share = "split";
  spec.records = "bytes:4096";
  const Described read = Read(spec);
  EXPECT_EQ(read.task.task->from_size(), 2);
  EXPECT_EQ(read.task.task->from(1), "b");
  EXPECT_EQ(read.task.task->to(0), "c");
  EXPECT_EQ(read.task.task->open(0), "d");
  EXPECT_TRUE(read.task.task->split());
  EXPECT_EQ(read.task.task->records(), OfBytes(4096));
  spec.share = "half";
  EXPECT_THAT(Wrong(spec), HasSubstr("share cannot be"));
  spec.share = "all";
  spec.records = "bytes";
  EXPECT_THAT(Wrong(spec), HasSubstr("records cannot be"));
}

TEST(SpecTest, Names) {
  harrow_spec spec = Spec();
  for (const char* bad : {"#1", "a\nb"}) {
    spec.name = bad;
    EXPECT_THAT(Wrong(spec), HasSubstr("cannot be the name of a task"));
  }
  spec.name = "\xff\xfe no UTF-8";
  EXPECT_EQ(Read(spec).task.task->name(), "\xff\xfe no UTF-8");
}

TEST(SpecTest, Times) {
  harrow_spec spec = Spec();
  spec.time_limit = 1.5;
  EXPECT_EQ(Read(spec).profile.time_limit_ns(), 1'500'000'000);
  for (const double bad : {-1.0, std::nan(""), std::numeric_limits<double>::infinity(), 1e30}) {
    spec.time_limit = bad;
    EXPECT_THAT(Wrong(spec), HasSubstr("time limit"));
  }
}

TEST(SpecTest, OtherReleases) {
  struct {
    harrow_spec spec;
    uint64_t more;
  } newer{Spec(), 0};
  newer.spec.size = sizeof newer;
  EXPECT_TRUE(Describe(&newer.spec, "/here", "/submit").ok());
  newer.more = 1;
  EXPECT_THAT(Describe(&newer.spec, "/here", "/submit").status().message(), HasSubstr("does not know"));
  harrow_spec older = Spec();
  older.size = offsetof(harrow_spec, cores);
  older.cores = 7;  // what an older caller has behind its structure
  EXPECT_EQ(Read(older).profile.cores(), 1u);
  older.size = 0;
  EXPECT_THAT(Wrong(older), HasSubstr("HARROW_SPEC"));
  EXPECT_FALSE(Describe(nullptr, "", "").ok());
}

}  // namespace
}  // namespace harrow::client
