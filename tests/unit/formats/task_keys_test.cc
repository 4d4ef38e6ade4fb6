// What each key of a task takes, to the last value that it does.
#include "formats/task_keys.h"

#include <gtest/gtest.h>
#include <tuple>

#include "base/text.h"

namespace harrow::formats {
namespace {

std::string Said(std::string_view key, std::string_view value, TaskAttributes* to = nullptr) {
  TaskAttributes attributes;
  return SetAttribute(key, value, to != nullptr ? to : &attributes).message();
}

TEST(TaskKeysTest, WholeNumbersWithinTheirBounds) {
  constexpr std::tuple<const char*, int64_t, int64_t> kKeys[] = {
      {"cores", 1, 65536},          {"gpus", 0, 1024},
      {"nodes", 1, 1'000'000},      {"ranks", 1, 100'000'000},
      {"ranks_per_node", 1, 65536}, {"retries", 0, 1000},
      {"retry_on", 1, 255},         {"priority", -1'000'000, 1'000'000}};
  for (const auto& [key, least, most] : kKeys) {
    const auto refused = [&, key = key, least = least, most = most](std::string_view value) {
      return StrCat(key, " cannot be \"", value, "\"; write a whole number from ", least, " to ", most);
    };
    EXPECT_EQ(Said(key, StrCat(least)), "");
    EXPECT_EQ(Said(key, StrCat(most)), "");
    for (const std::string& value :
         {StrCat(least - 1), StrCat(most + 1), std::string("1x"), std::string(" 1"), std::string("x")})
      EXPECT_EQ(Said(key, value), refused(value));
  }
  EXPECT_EQ(Said("cores", ""), "cores cannot be \"\"; write a whole number from 1 to 65536");
}

TEST(TaskKeysTest, ArriveWhereTheyBelong) {
  TaskAttributes a;
  for (const auto& [key, value] :
       std::initializer_list<std::pair<const char*, const char*>>{{"cores", "2"},
                                                                  {"memory", "1M"},
                                                                  {"gpus", "3"},
                                                                  {"nodes", "4"},
                                                                  {"whole_node", "true"},
                                                                  {"ranks", "5"},
                                                                  {"time", "6s"},
                                                                  {"retries", "7"},
                                                                  {"retry_on", "9,8,9"},
                                                                  {"priority", "-9"},
                                                                  {"keep", "true"},
                                                                  {"replicas", "2"},
                                                                  {"run_time", "0s"},
                                                                  {"cwd", "c"},
                                                                  {"kind", "k"},
                                                                  {"shell", "sh"},
                                                                  {"stdin", "i"},
                                                                  {"stdout", "o"},
                                                                  {"stderr", "e"},
                                                                  {"checkpoint", "app"},
                                                                  {"checkpoint_ask", "file"},
                                                                  {"checkpoint_ranks", "all"},
                                                                  {"checkpoint_signal", "SIGUSR2"},
                                                                  {"checkpoint_status", "9"},
                                                                  {"checkpoint_files", "a.*,b"},
                                                                  {"checkpoint_every", "1h"},
                                                                  {"checkpoint_time", "90s"},
                                                                  {"restart_command", "again 'x y'"}})
    EXPECT_EQ(Said(key, value, &a), "") << key;
  const graph::Profile& p = a.profile;
  EXPECT_EQ(std::tuple(p.shape.cores, p.shape.memory, p.shape.devices, p.shape.nodes, p.ranks),
            std::tuple(2u, uint64_t{1} << 20, 3u, 4u, 5u));
  EXPECT_EQ(std::tuple(p.time_limit, p.retries, p.priority, a.run_time),
            std::tuple(Duration(std::chrono::seconds(6)), 7, -9, std::optional<Duration>(0)));
  EXPECT_TRUE(p.shape.whole_node && p.keep && a.cores_given);
  EXPECT_EQ(p.replicas, 2u);
  EXPECT_EQ(p.retry_on, (std::vector<int32_t>{8, 9}));
  EXPECT_EQ(std::tuple(p.cwd, a.kind, p.shell, p.stdin_path, p.stdout_path, p.stderr_path),
            std::tuple("c", "k", "sh", "i", "o", "e"));
  EXPECT_EQ(Said("keep", "false", &a) + Said("retry_on", "", &a), "");
  EXPECT_FALSE(p.keep);
  EXPECT_TRUE(p.retry_on.empty());
}

TEST(TaskKeysTest, WhatTheyDoNotTake) {
  EXPECT_EQ(Said("replicas", "0"), "replicas cannot be \"0\"; write a whole number from 1 to 16");
  EXPECT_EQ(Said("replicas", "17"), "replicas cannot be \"17\"; write a whole number from 1 to 16");
  EXPECT_EQ(Said("keep", "yes"), "keep cannot be \"yes\"; write true or false");
  EXPECT_EQ(Said("time", "x").substr(0, 6), "time: ");
  EXPECT_EQ(Said("run_time", "x").substr(0, 10), "run_time: ");
  EXPECT_EQ(Said("memory", "x").substr(0, 8), "memory: ");
  EXPECT_EQ(Said("cwd", ""), "cwd is empty; leave it out for its default");
  EXPECT_EQ(Said("kind", std::string(4096, 'k')), "");
  EXPECT_EQ(Said("kind", std::string(4097, 'k')), "kind has 4097 bytes; at most 4096 are taken");
  EXPECT_EQ(Said("cwd", std::string_view("a\0b", 3)), "cwd holds a NUL byte; no text of a task may");
  EXPECT_EQ(Said("walltime", "1"), "unknown key walltime; here it is called time");
  EXPECT_EQ(Said("cmd", "x").find("here it is called"), std::string::npos) << "a line has no key command";
}

TEST(TaskKeysTest, VariablesAreKeptInOrderTheLastValueCounts) {
  TaskAttributes a;
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, const char*>>{
           {"B", "1"}, {"A", "2"}, {"C", ""}, {"B", "3"}})
    EXPECT_TRUE(SetVariable(name, value, &a).ok());
  EXPECT_EQ(a.profile.env,
            (std::vector<std::pair<std::string, std::string>>{{"A", "2"}, {"B", "3"}, {"C", ""}}));
  for (const std::string_view name :
       {std::string_view(""), std::string_view("A="), std::string_view("A\0", 2)})
    EXPECT_NE(SetVariable(name, "x", &a).message().find("; a variable's name has no = and is not empty"),
              std::string::npos);
  EXPECT_EQ(SetVariable("D", std::string_view("\0", 1), &a).message(),
            "env D holds a NUL byte; no variable may");
  EXPECT_EQ(a.profile.env.size(), 3u);
}

TEST(TaskKeysTest, ARankHasItsCores) {
  const auto cores = [](uint32_t ranks, uint32_t nodes, uint32_t given) {
    TaskAttributes a;
    a.profile.ranks = ranks;
    a.profile.shape.nodes = nodes;
    if (given > 0) {
      EXPECT_TRUE(SetAttribute("cores", StrCat(given), &a).ok());
    }
    return a.Resolved().shape.cores;
  };
  EXPECT_EQ(cores(0, 4, 0), 1u);
  EXPECT_EQ(cores(1, 4, 0), 1u);
  EXPECT_EQ(cores(8, 4, 0), 2u);
  EXPECT_EQ(cores(9, 4, 0), 3u);
  EXPECT_EQ(cores(9, 4, 7), 21u);
  EXPECT_EQ(cores(4, 1, 2), 8u);
  EXPECT_EQ(cores(65'537, 1, 0), 65'536u);
}

TEST(TaskKeysTest, RanksPerNodeMakeNodes) {
  const auto resolved = [](uint32_t ranks, uint32_t per_node) {
    TaskAttributes a;
    a.profile.ranks = ranks;
    a.ranks_per_node = per_node;
    a.profile.shape = {.cores = 2, .devices = 1, .memory = 1 << 20};
    a.cores_given = true;
    return a.Resolved().shape;
  };
  EXPECT_EQ(resolved(8, 4), (Shape{.cores = 8, .devices = 4, .nodes = 2, .memory = 1 << 20}));
  EXPECT_EQ(resolved(9, 4), (Shape{.cores = 6, .devices = 3, .nodes = 3, .memory = 1 << 20}))
      << "spread evenly";
  EXPECT_EQ(resolved(4, 4), (Shape{.cores = 8, .devices = 4, .nodes = 1, .memory = 1 << 20}));
  EXPECT_EQ(resolved(3, 65'536).nodes, 1u);
  EXPECT_EQ(resolved(3, 1).nodes, 3u);
}

TEST(TaskKeysTest, WhatKeepsNodesForItself) {
  const auto whole = [](uint32_t ranks, uint32_t nodes, bool said) {
    TaskAttributes a;
    a.profile.ranks = ranks;
    a.profile.shape.nodes = nodes;
    a.profile.shape.whole_node = said;
    return a.Resolved().whole_nodes();
  };
  EXPECT_FALSE(whole(0, 1, false));
  EXPECT_TRUE(whole(0, 1, true));
  EXPECT_TRUE(whole(0, 2, false));
  EXPECT_FALSE(whole(4, 2, false));
  EXPECT_TRUE(whole(4, 2, true));
  EXPECT_FALSE(whole(4, 1, false));
}

TEST(TaskKeysTest, ARankHasItsDevices) {
  TaskAttributes a;
  a.profile.shape.devices = 2;
  EXPECT_EQ(a.Resolved().shape.devices, 2u);
  a.profile.ranks = 3;
  EXPECT_EQ(a.Resolved().shape.devices, 6u);
}

TEST(TaskKeysTest, HowRanksFindEachOther) {
  TaskAttributes a;
  EXPECT_EQ(a.profile.mpi, graph::Mpi::kPmix);
  EXPECT_EQ(Said("mpi", "none", &a), "");
  EXPECT_EQ(a.profile.mpi, graph::Mpi::kNone);
  EXPECT_EQ(Said("mpi", "pmix", &a), "");
  EXPECT_EQ(a.profile.mpi, graph::Mpi::kPmix);
  EXPECT_EQ(Said("mpi", "pmi1", &a), "");
  EXPECT_EQ(a.profile.mpi, graph::Mpi::kPmi1);
  EXPECT_EQ(Said("mpi", "openmpi"),
            "mpi cannot be \"openmpi\"; write pmix as for Open MPI, pmi1 as for MPICH, or none for programs "
            "that find each other by themselves");
}

TEST(TaskKeysTest, WhatContradictsItself) {
  TaskAttributes a;
  const auto said = [&a](std::string_view key) { return Contradiction(key, a).message(); };
  EXPECT_EQ(said("mpi").substr(0, 37), "mpi says how ranks find each other, a");
  EXPECT_EQ(said("ranks"), "");
  a.profile.ranks = 4;
  EXPECT_EQ(said("mpi"), "");
  EXPECT_EQ(said("ranks"), "");
  a.profile.shape.whole_node = true;
  EXPECT_EQ(said("ranks").substr(0, 40), "ranks and whole_node exclude each other;");
  EXPECT_EQ(said("whole_node"), "");
  a.profile.shape.nodes = 2;
  EXPECT_EQ(said("ranks"), "") << "its nodes are whole ones";
  EXPECT_EQ(said("nodes"), "");
  a.profile.shape.nodes = 4;
  EXPECT_EQ(said("nodes"), "");
  a.profile.shape.nodes = 5;
  EXPECT_EQ(said("nodes"),
            "nodes are 5, and the task has only 4 ranks, one of a node at least; write nodes = 4 or fewer");
  EXPECT_EQ(said("ranks"), "") << "it is told once";
  a.profile.shape = {.cores = 16385};
  EXPECT_EQ(said("ranks"), "") << "a default is not a rank's";
  a.cores_given = true;
  EXPECT_EQ(said("ranks"),
            "4 ranks of 16385 cores on a node are more than the 65536 cores that one may have; write fewer, "
            "or more nodes");
  a.profile.shape.cores = 16384;
  EXPECT_EQ(said("ranks"), "");
  a.profile.shape.cores = 16385;
  a.profile.shape.nodes = 2;
  EXPECT_EQ(said("ranks"), "");
  a.profile.shape = {.cores = 40'000};
  a.ranks_per_node = 2;
  EXPECT_EQ(said("ranks").substr(0, 38), "2 ranks of 40000 cores on a node are m");
  a.ranks_per_node = 1;
  EXPECT_EQ(said("ranks"), "");
  a.profile.ranks = 1;
  a.profile.shape.cores = 65'536;
  EXPECT_EQ(said("ranks"), "");
}

TEST(TaskKeysTest, RanksPerNodeThatContradictOthers) {
  TaskAttributes a;
  const auto said = [&a](std::string_view key) { return Contradiction(key, a).message(); };
  a.ranks_per_node = 4;
  EXPECT_EQ(said("ranks_per_node").substr(0, 40), "ranks_per_node says how ranks lie on nod");
  a.profile.ranks = 10;
  EXPECT_EQ(said("ranks_per_node"), "");
  a.profile.shape.nodes = 3;
  EXPECT_EQ(said("ranks_per_node"), "") << "both say the same";
  a.profile.shape.nodes = 4;
  EXPECT_EQ(said("ranks_per_node"),
            "ranks_per_node = 4 puts 10 ranks on 3 nodes, and nodes says 4; leave one of both out");
  a.profile.shape.nodes = 1;
  a.profile.shape.whole_node = true;
  EXPECT_EQ(said("ranks"), "") << "of several nodes";
  a.ranks_per_node = 10;
  EXPECT_NE(said("ranks"), "");
}

}  // namespace
}  // namespace harrow::formats
