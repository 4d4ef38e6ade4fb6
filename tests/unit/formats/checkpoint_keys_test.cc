// What tasks say of their checkpoints.
#include <csignal>
#include <gtest/gtest.h>

#include "formats/load.h"
#include "formats/task_keys.h"
#include "support/memory_file_system.h"

namespace harrow::formats {
namespace {

using graph::Checkpointing;

std::string Why(std::string_view key, std::string_view value) {
  TaskAttributes attributes;
  return SetAttribute(key, value, &attributes).message();
}

TEST(CheckpointKeysTest, ArriveWhereTheyBelong) {
  TaskAttributes a;
  for (const auto& [key, value] : std::initializer_list<std::pair<const char*, const char*>>{
           {"checkpoint", "app"}, {"checkpoint_ask", "file"}, {"checkpoint_ranks", "all"}, {"checkpoint_signal", "USR2"},
           {"checkpoint_status", "9"}, {"checkpoint_files", "a.*,b"}, {"checkpoint_every", "1h"}, {"checkpoint_time", "90s"},
           {"restart_command", "again 'x y'"}})
    EXPECT_EQ(SetAttribute(key, value, &a).message(), "") << key;
  const graph::Profile p = a.Resolved();
  EXPECT_EQ(p.checkpoint, (Checkpointing{.by = Checkpointing::By::kApp,
                                         .ask = Checkpointing::Ask::kFile,
                                         .signal = SIGUSR2,
                                         .status = 9,
                                         .ask_all = true,
                                         .files = {"a.*", "b"},
                                         .every = std::chrono::hours(1),
                                         .time = std::chrono::seconds(90)}));
  EXPECT_EQ(p.restart_form, graph::CommandForm::kArgv);
  EXPECT_EQ(p.restart_command, std::string("again\0x y", 9));
  a.profile.shell = "bash";
  EXPECT_EQ(a.Resolved().restart_form, graph::CommandForm::kShell);
  EXPECT_EQ(a.Resolved().restart_command, "again 'x y'");
}

TEST(CheckpointKeysTest, WhatIsWrongIsToldWithWhatWouldBeRight) {
  EXPECT_EQ(Why("checkpoint", "dmtcp"),
            "checkpoint cannot be \"dmtcp\"; write app where the program writes its checkpoints itself, criu where CRIU is to dump it, or none");
  EXPECT_NE(Why("checkpoint_ask", "yes").find("write signal, file"), std::string::npos);
  EXPECT_NE(Why("checkpoint_ranks", "two").find("write one where rank 0"), std::string::npos);
  for (const char* signal : {"KILL", "TERM", "CHLD", "0", "65", "NONE", ""})
    EXPECT_NE(Why("checkpoint_signal", signal).find("USR1 or USR2"), std::string::npos) << signal;
  EXPECT_EQ(Why("checkpoint_signal", "12"), "");
  for (const char* status : {"0", "126", "x"}) EXPECT_NE(Why("checkpoint_status", status), "") << status;
  for (const char* files : {"/abs", "../up", "a/../b", "./a", "a,,b", ""})
    EXPECT_NE(Why("checkpoint_files", files).find("checkpoint_files"), std::string::npos) << files;
  EXPECT_EQ(Why("checkpoint_files", "a,b"), "");
  EXPECT_NE(Why("checkpoint_every", "1ms").find("less than a tenth"), std::string::npos);
  EXPECT_EQ(Why("checkpoint_time", "100ms"), "");
}

TEST(CheckpointKeysTest, WhatOneKeySaysAnotherMayForbid) {
  TaskAttributes a;
  a.profile.checkpoint.by = Checkpointing::By::kApp;
  EXPECT_TRUE(Contradiction("checkpoint", a).ok());
  a.profile.checkpoint.ask = Checkpointing::Ask::kNone;
  EXPECT_NE(Contradiction("checkpoint", a).message().find("checkpoint_files"), std::string::npos);
  a.profile.checkpoint.files = {"state.*"};
  EXPECT_TRUE(Contradiction("checkpoint", a).ok());
  for (const char* key : {"checkpoint_every", "checkpoint_signal", "checkpoint_status", "checkpoint_ranks"})
    EXPECT_FALSE(Contradiction(key, a).ok()) << key;
  for (const char* key : {"checkpoint_files", "checkpoint_time", "restart_command", "checkpoint_ask"})
    EXPECT_TRUE(Contradiction(key, a).ok()) << key;
  a.profile.checkpoint.ask = Checkpointing::Ask::kFile;
  EXPECT_FALSE(Contradiction("checkpoint_signal", a).ok());
  EXPECT_TRUE(Contradiction("checkpoint_status", a).ok());
  a.profile.ranks = 2;
  EXPECT_TRUE(Contradiction("checkpoint_ranks", a).ok());
  a.profile.checkpoint.by = Checkpointing::By::kNobody;
  for (const char* key : {"checkpoint_files", "restart_command", "checkpoint_time"})
    EXPECT_NE(Contradiction(key, a).message().find("write checkpoint = \"app\""), std::string::npos) << key;
}

TEST(CheckpointKeysTest, OfCriuOnlyTheTimesAreSaid) {
  TaskAttributes a;
  a.profile.checkpoint.by = Checkpointing::By::kCriu;
  for (const char* key : {"checkpoint", "checkpoint_every", "checkpoint_time"}) EXPECT_TRUE(Contradiction(key, a).ok()) << key;
  for (const char* key : {"checkpoint_signal", "checkpoint_status", "checkpoint_ask", "checkpoint_files", "checkpoint_ranks", "restart_command"})
    EXPECT_NE(Contradiction(key, a).message().find(std::string("leave ") + key + " out"), std::string::npos) << key;
  a.profile.ranks = 4;
  EXPECT_NE(Contradiction("checkpoint", a).message().find("CRIU dumps no MPI task"), std::string::npos);
}

TEST(CheckpointKeysTest, LeastTimeIsThatOfACheckpoint) {
  graph::Profile p;
  EXPECT_EQ(p.least_time(), Duration(0));
  p.time_limit = std::chrono::hours(10);
  EXPECT_EQ(p.least_time(), std::chrono::hours(10));
  p.checkpoint.by = Checkpointing::By::kApp;
  p.checkpoint.time = std::chrono::seconds(30);
  EXPECT_EQ(p.least_time(), std::chrono::seconds(60));
  p.time_limit = std::chrono::seconds(20);
  EXPECT_EQ(p.least_time(), std::chrono::seconds(20));
  p.time_limit = Duration(0);
  EXPECT_EQ(p.least_time(), std::chrono::seconds(60));
}

}  // namespace
}  // namespace harrow::formats
