#include "plugin/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>
#include <string>
#include <vector>

namespace harrow::plugin {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> complaints;

Policy Parse(std::vector<std::string> arguments) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  complaints.clear();
  return ParsePolicy(static_cast<int>(argv.size()), argv.data(),
                     [](const char* argument, const char*) { complaints.push_back(argument); });
}

TEST(Policy, DefaultsAreSafe) {
  Policy policy = Parse({});
  EXPECT_STREQ(policy.local, "/tmp");
  EXPECT_STREQ(policy.state, "/run/harrow");
  EXPECT_EQ(policy.epilog_time, 300u);
  EXPECT_STREQ(policy.files, "");
  EXPECT_STREQ(policy.move_partitions, "");
  EXPECT_EQ(policy.local_limit, 0u);
  EXPECT_EQ(policy.port_first, 0u);
  EXPECT_EQ(policy.tasks_per_node, 0u);
  EXPECT_STREQ(policy.order, "");
}

TEST(Policy, EveryArgument) {
  Policy policy =
      Parse({"local=/scratch/local", "local_limit=200G", "ports=30000-30999", "tasks_per_node=128",
             "move_partitions=fast,slow", "order=rank+hrf", "files=local", "epilog_time=60"});
  EXPECT_THAT(complaints, IsEmpty());
  EXPECT_STREQ(policy.local, "/scratch/local");
  EXPECT_EQ(policy.local_limit, uint64_t{200} << 30);
  EXPECT_EQ(policy.port_first, 30000u);
  EXPECT_EQ(policy.port_last, 30999u);
  EXPECT_EQ(policy.tasks_per_node, 128u);
  EXPECT_STREQ(policy.move_partitions, "fast,slow");
  EXPECT_STREQ(policy.order, "rank+hrf");
  EXPECT_STREQ(policy.files, "local");
  EXPECT_EQ(policy.epilog_time, 60u);
}

TEST(Policy, ABrokenArgumentIsNamedAndHasNoEffect) {
  for (const char* bad : {"local=",
                          "local=tmp",
                          "local=/",
                          "local=/a/../b",
                          "local=/a/..",
                          "local=/a\tb",
                          "local",
                          "locale=/x",
                          "=",
                          "",
                          "local_limit=",
                          "local_limit=G",
                          "local_limit=-1",
                          "local_limit=1X",
                          "local_limit=99999999999999999999",
                          "local_limit=99999999999P",
                          "ports=1",
                          "ports=80-90",
                          "ports=3000-2000",
                          "ports=3000-99999",
                          "ports=-",
                          "ports=a-b",
                          "tasks_per_node=",
                          "tasks_per_node=-1",
                          "tasks_per_node=1.5",
                          "tasks_per_node=99999999999",
                          "move_partitions=",
                          "move_partitions=,",
                          "move_partitions=a,,b",
                          "move_partitions=a;b",
                          "order=",
                          "order=best",
                          "files=",
                          "files=here",
                          "epilog_time=0",
                          "epilog_time=100000",
                          "LOCAL=/x",
                          "order =fifo"}) {
    Policy policy = Parse({"local=/disk", bad, "order=fifo"});
    EXPECT_THAT(complaints, ElementsAre(bad));
    EXPECT_STREQ(policy.local, "/disk") << bad;
    EXPECT_STREQ(policy.order, "fifo") << bad;
    EXPECT_EQ(policy.port_first, 0u) << bad;
    EXPECT_EQ(policy.local_limit, 0u) << bad;
  }
}

TEST(Policy, Limits) {
  EXPECT_EQ(Parse({"local_limit=1"}).local_limit, 1u);
  EXPECT_EQ(Parse({"local_limit=3K"}).local_limit, uint64_t{3} << 10);
  EXPECT_EQ(Parse({"local_limit=3M"}).local_limit, uint64_t{3} << 20);
  EXPECT_EQ(Parse({"local_limit=3T"}).local_limit, uint64_t{3} << 40);
  EXPECT_EQ(Parse({"local_limit=16383P"}).local_limit, uint64_t{16383} << 50);
  EXPECT_EQ(Parse({"ports=1024-65535"}).port_first, 1024u);
  EXPECT_EQ(Parse({"ports=3000-3000"}).port_last, 3000u);
  EXPECT_EQ(Parse({"epilog_time=1"}).epilog_time, 1u);
  EXPECT_EQ(Parse({"epilog_time=86400"}).epilog_time, 86400u);
  EXPECT_STREQ(Parse({"local=/a"}).local, "/a");
  EXPECT_STREQ(Parse({"local=/a..b/..c"}).local, "/a..b/..c");
  EXPECT_STREQ(Parse({"state=/var/run/x"}).state, "/var/run/x");
  EXPECT_STREQ(Parse({"move_partitions=aZ0_-.,b"}).move_partitions, "aZ0_-.,b");
  EXPECT_THAT(complaints, IsEmpty());
  for (const char* bad : {"local_limit=16384P", "ports=1023-2000", "ports=1024-65536", "epilog_time=86401",
                          "local=/a\x7f", "local=/a b", "state=run", "state=/run/..", "move_partitions=a,"}) {
    Parse({bad});
    EXPECT_THAT(complaints, ElementsAre(bad));
  }
}

TEST(Policy, WhichCharactersANameMayHave) {
  const std::string names = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
  for (int c = 1; c < 256; ++c) {
    const std::string letter(1, static_cast<char>(c));
    Parse({"move_partitions=a" + letter + "b"});
    EXPECT_EQ(complaints.empty(), letter == "," || names.find(letter) != std::string::npos) << c;
    Parse({"local=/a" + letter});
    EXPECT_EQ(complaints.empty(), c > ' ' && c != 127) << c;
  }
}

TEST(Policy, WhatWouldBeRightIsTold) {
  static std::vector<std::string> told;
  told.clear();
  for (const char* bad : {"local", "state", "local_limit", "ports", "tasks_per_node", "move_partitions",
                          "order", "files", "epilog_time", "x=1"}) {
    std::string argument = bad;
    char* arguments[] = {argument.data()};
    ParsePolicy(1, arguments, [](const char*, const char* expected) { told.push_back(expected); });
  }
  EXPECT_THAT(told, ElementsAre("local=DIR with an absolute path of at most 500 letters",
                                "state=DIR with an absolute path of at most 500 letters",
                                "local_limit=SIZE such as 200G", "ports=FIRST-LAST within 1024-65535",
                                "tasks_per_node=NUMBER", "move_partitions=NAME,NAME,...",
                                "order=auto, fifo, lifo, hrf, lifo+hrf, rank+hrf or cost", "files=shared or local",
                                "epilog_time=SECONDS, 1-86400",
                                "one of local, state, local_limit, ports, tasks_per_node, move_partitions, "
                                "order, files, epilog_time"));
}

TEST(Policy, LongValues) {
  EXPECT_STREQ(Parse({"local=/" + std::string(400, 'a')}).local, ("/" + std::string(400, 'a')).c_str());
  EXPECT_EQ(std::string(Parse({"local=/" + std::string(499, 'a')}).local).size(), 500u);
  EXPECT_EQ(std::string(Parse({"move_partitions=" + std::string(511, 'p')}).move_partitions).size(), 511u);
  Parse({"move_partitions=" + std::string(512, 'p')});
  EXPECT_EQ(complaints.size(), 1u);
  Parse({"local=/" + std::string(500, 'a')});
  EXPECT_EQ(complaints.size(), 1u);
  Parse({"move_partitions=" + std::string(5000, 'p')});
  EXPECT_EQ(complaints.size(), 1u);
  Parse({std::string(100'000, 'x')});
  EXPECT_EQ(complaints.size(), 1u);
}

TEST(Policy, NullArguments) {
  char* arguments[] = {nullptr, nullptr};
  EXPECT_STREQ(ParsePolicy(2, arguments, nullptr).local, "/tmp");
  EXPECT_STREQ(ParsePolicy(3, nullptr, nullptr).local, "/tmp");
}

// Whatever bytes come, the values stay within what they may be.
TEST(Policy, RandomMutationsStayWithinBounds) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const std::vector<std::string> good = {"local=/scratch/x",  "local_limit=20G",     "ports=30000-31000",
                                         "tasks_per_node=64", "move_partitions=a,b", "order=lifo+hrf",
                                         "files=shared"};
  for (int i = 0; i < 20'000; ++i) {
    std::string argument = good[random() % good.size()];
    for (unsigned n = random() % 4; n > 0; --n) {
      size_t at = argument.empty() ? 0 : random() % argument.size();
      switch (random() % 3) {
        case 0:
          argument.insert(at, 1, static_cast<char>(random() % 255 + 1));
          break;
        case 1:
          argument = argument.substr(0, at);
          break;
        default:
          if (!argument.empty()) argument[at] = static_cast<char>(random() % 255 + 1);
      }
    }
    Policy policy = Parse({argument});
    EXPECT_EQ(policy.local[0], '/') << argument;
    EXPECT_GE(strlen(policy.local), 2u) << argument;
    EXPECT_LE(policy.port_first, policy.port_last) << argument;
    EXPECT_LE(policy.port_last, 65535u) << argument;
    EXPECT_TRUE(policy.order[0] == '\0' || IsOrder(policy.order)) << argument;
    EXPECT_TRUE(policy.files[0] == '\0' || IsFiles(policy.files)) << argument;
  }
}

}  // namespace
}  // namespace harrow::plugin
