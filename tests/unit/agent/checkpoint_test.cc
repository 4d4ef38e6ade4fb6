// What an attempt that writes checkpoints finds, how it is asked for one, and what is made of what it leaves.
// tests/live/agent_checkpoints_test.cc: of tasks that CRIU dumps.
#include "agent/steps/checkpoint.h"

#include <csignal>
#include <gmock/gmock.h>

#include "agent/steps/gang.h"
#include "unit/agent/steps_on_disk.h"

namespace harrow::agent {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;
using Ask = CheckpointSpec::Ask;

volatile sig_atomic_t signals_heard = 0;

class CheckpointTest : public StepOnDisk {
 protected:
  CheckpointTest() {
    common_.run_dir = At("run");
    task_.id = 4;
    task_.checkpoints = "t";
    spec_ = {.on = true, .ask = Ask::kSignal, .signal = SIGUSR1, .status = 9};
    signals_heard = 0;
  }
  Status Begin() {
    SetProfile({.checkpoint = spec_});
    return Prepare(step_);
  }
  static std::string Files(const char* name = "") { return std::string("run/checkpoints/t/files") + name; }
  void SetGang(uint32_t here) {
    task_.gang = std::make_shared<Gang>(Gang{.nodes = {{.name = "n0"}, {.name = "n1"}}, .here = here});
  }
  /// An attempt that leaves one.
  void LeaveOne(const std::string& text = "state") {
    ASSERT_TRUE(Begin().ok());
    Write(Files("/state"), text);
    Settle(step_, End::kCheckpointed, spec_.status);
    ASSERT_EQ(result_.end, End::kCheckpointed) << result_.message;
  }

  CheckpointSpec spec_;
  std::vector<std::string> told_;
  Checkpoint step_{nullptr, "", 0, [] { return false; }, [this](const std::string& line) { told_.push_back(line); }};
};

TEST_F(CheckpointTest, WhoWritesNoneIsToldOfNone) {
  const auto none = [this] {
    EXPECT_TRUE(Begin().ok());
    Settle(step_, End::kCheckpointed);
    return launch_->checkpoint.directory.empty() && launch_->checkpoint.status.empty() && step_.Ask(task_, getpid()) &&
           !Has("run") && result_.end == End::kCheckpointed;
  };
  spec_.on = false;
  EXPECT_TRUE(none());
  spec_.on = true;
  task_.checkpoints.clear();
  EXPECT_TRUE(none());
  task_.checkpoints = "t";
  common_.run_dir.clear();
  EXPECT_TRUE(none());
}

TEST_F(CheckpointTest, AnAttemptIsToldWhereItWritesAndHowItIsAsked) {
  ASSERT_TRUE(Begin().ok());
  EXPECT_EQ(launch_->checkpoint.directory, At(Files()));
  EXPECT_TRUE(fs::is_directory(At(Files())));
  EXPECT_EQ(launch_->checkpoint.restart, "");
  EXPECT_EQ(launch_->checkpoint.signal, "USR1");
  EXPECT_EQ(launch_->checkpoint.request, "");
  EXPECT_EQ(launch_->checkpoint.status, "9");
  EXPECT_FALSE(step_.beats());
  spec_.signal = SIGRTMIN + 3;
  ASSERT_TRUE(Begin().ok());
  EXPECT_EQ(launch_->checkpoint.signal, std::to_string(SIGRTMIN + 3)) << "which has no name";
  spec_.ask = Ask::kFile;
  ASSERT_TRUE(Begin().ok());
  EXPECT_EQ(launch_->checkpoint.signal, "");
  EXPECT_EQ(launch_->checkpoint.request, At("run/checkpoints/t/asked"));
  EXPECT_EQ(launch_->checkpoint.status, "9");
  spec_.ask = Ask::kNone;
  ASSERT_TRUE(Begin().ok());
  EXPECT_EQ(launch_->checkpoint.directory, At(Files()));
  EXPECT_EQ(launch_->checkpoint.signal, "");
  EXPECT_EQ(launch_->checkpoint.request, "");
  EXPECT_EQ(launch_->checkpoint.status, "");
  EXPECT_TRUE(step_.beats()) << "whether it ran is known to whoever looks at what it has left";
  step_.Beat();
  EXPECT_TRUE(Has("run/checkpoints/t/alive"));
  spec_.on = false;
  ASSERT_TRUE(Begin().ok());
  EXPECT_FALSE(step_.beats());
}

TEST_F(CheckpointTest, WhatItLeavesTheNextOneGoesOnFrom) {
  ASSERT_TRUE(Begin().ok());
  Write(Files("/state"), "some state");
  result_.checkpoint_took = std::chrono::seconds(3);
  Settle(step_, End::kCheckpointed, 9);
  EXPECT_EQ(result_.end, End::kCheckpointed);
  EXPECT_EQ(result_.checkpoint_bytes, 10);
  EXPECT_EQ(result_.message, "it left a checkpoint of 10 B after 3.00 s");
  EXPECT_EQ(result_.over, nullptr);
  ASSERT_TRUE(Begin().ok());
  EXPECT_EQ(launch_->checkpoint.restart, At(Files()));
  EXPECT_EQ(Text(Files("/state")), "some state");
  Settle(step_, End::kNotStarted);
  EXPECT_THAT(told_, IsEmpty());
  ASSERT_TRUE(Begin().ok());
  Write(Files("/state"), "newer");
  Settle(step_, End::kInterrupted, 9);
  EXPECT_EQ(result_.end, End::kInterrupted);
  EXPECT_EQ(result_.checkpoint_bytes, 5) << "it was asked as it was ended, and has answered";
  EXPECT_EQ(result_.message, "");
  ASSERT_TRUE(Begin().ok());
  EXPECT_EQ(Text(Files("/state")), "newer");
}

TEST_F(CheckpointTest, WhatOthersLeaveIsNone) {
  LeaveOne();
  for (const auto& [end, code] : {std::pair(End::kExited, 9),
                                  {End::kExited, 1},
                                  {End::kInterrupted, 15},
                                  {End::kSignaled, 9},
                                  {End::kTimedOut, 9},
                                  {End::kNotStarted, 9},
                                  {End::kRunning, 9}}) {
    ASSERT_TRUE(Begin().ok());
    Write(Files("/state"), "half of it");
    Settle(step_, end, code);
    EXPECT_EQ(result_.end, end);
    EXPECT_EQ(result_.checkpoint_bytes, 0);
    EXPECT_TRUE(step_.Ask(task_, getpid())) << "there is nobody to ask any more";
    ASSERT_TRUE(Begin().ok());
    EXPECT_EQ(Text(Files("/state")), "state");
  }
}

TEST_F(CheckpointTest, WhoSaysThatItLeftOneAndHasNotIsLost) {
  ASSERT_TRUE(Begin().ok());
  Settle(step_, End::kCheckpointed, 9);
  EXPECT_EQ(result_.end, End::kLost);
  EXPECT_EQ(result_.message, "it was asked for a checkpoint, and left no file in HARROW_CHECKPOINT_DIR; it begins anew");
  EXPECT_THAT(told_, ElementsAre("task #5: " + result_.message));
  ASSERT_TRUE(Begin().ok());
  Settle(step_, End::kInterrupted, 9);
  EXPECT_EQ(result_.end, End::kInterrupted) << "it was ended anyway";
  EXPECT_THAT(told_, SizeIs(1));
  LeaveOne();
  task_.name = "fit";
  ASSERT_TRUE(Begin().ok());
  fs::remove(At(Files("/state")));
  Settle(step_, End::kCheckpointed, 9);
  EXPECT_THAT(result_.message, testing::EndsWith("; it goes on from the one before"));
  EXPECT_THAT(told_.back(), StartsWith("task fit: "));
}

TEST_F(CheckpointTest, OneThatCannotBeKeptIsToldWithTheReason) {
  ASSERT_TRUE(Begin().ok());
  Write(Files("/state"), "state");
  Write("run/checkpoints/t/begun", "another");  // attempt has begun
  Settle(step_, End::kCheckpointed, 9);
  EXPECT_EQ(result_.end, End::kLost);
  EXPECT_THAT(result_.message, StartsWith("its checkpoint cannot be kept: another attempt has begun since"));
}

TEST_F(CheckpointTest, AfterASuccessThereIsNoUseForAny) {
  LeaveOne();
  ASSERT_TRUE(Begin().ok());
  Settle(step_, End::kExited);
  ASSERT_NE(result_.over, nullptr);
  EXPECT_TRUE(Has("run/checkpoints/t")) << "until that is on record";
  EXPECT_TRUE(result_.over->Remove().ok());
  EXPECT_FALSE(Has("run/checkpoints/t"));
  EXPECT_TRUE(step_.Ask(task_, getpid())) << "there is nobody to ask";
}

TEST_F(CheckpointTest, WhoWritesByItselfMayHaveLeftOneHoweverItEnded) {
  spec_.ask = Ask::kNone;
  spec_.files = {"state.*"};
  for (const auto& [end, code] : {std::pair(End::kSignaled, 9), {End::kExited, 1}, {End::kTimedOut, 15}}) {
    ASSERT_TRUE(Begin().ok());
    Write(Files("/state.1"), "older");
    fs::last_write_time(At(Files("/state.1")), fs::file_time_type::clock::now() - std::chrono::hours(1));
    Write(Files("/state.2"), "being written");
    step_.SetRan(end != End::kTimedOut);
    Settle(step_, end, code);
    EXPECT_EQ(result_.end, end);
    EXPECT_EQ(result_.checkpoint_bytes, 5);
    EXPECT_EQ(result_.message, "");
    fs::remove_all(At("run"));
  }
  for (const End end : {End::kNotStarted, End::kRunning}) {
    ASSERT_TRUE(Begin().ok());
    Write(Files("/state.1"), "not its own");
    fs::last_write_time(At(Files("/state.1")), fs::file_time_type::clock::now() - std::chrono::hours(1));
    Settle(step_, end);
    EXPECT_EQ(result_.checkpoint_bytes, 0) << "it has written nothing";
    fs::remove_all(At("run"));
  }
  ASSERT_TRUE(Begin().ok());
  Settle(step_, End::kSignaled, 9);
  EXPECT_EQ(result_.end, End::kSignaled) << "or none";
  EXPECT_EQ(result_.message, "");
  EXPECT_THAT(told_, IsEmpty());
}

TEST_F(CheckpointTest, OneThatIsNoNewsIsTheOneThatItGoesOnFrom) {
  spec_.ask = Ask::kNone;
  spec_.files = {"state.*"};
  ASSERT_TRUE(Begin().ok());
  Write(Files("/state.1"), "first");
  fs::last_write_time(At(Files("/state.1")), fs::file_time_type::clock::now() - std::chrono::hours(1));
  Settle(step_, End::kCheckpointed);
  EXPECT_EQ(result_.message, "it left a checkpoint of 5 B");
  ASSERT_TRUE(Begin().ok());
  Settle(step_, End::kCheckpointed);
  EXPECT_EQ(result_.message, "it goes on from its checkpoint of 5 B");
}

// Else a set that was being written when it stood still would be taken for one that it left alone.
TEST_F(CheckpointTest, WhoStoodHasNotLeftWhatItWroteAlone) {
  spec_.ask = Ask::kNone;
  spec_.files = {"state.*"};
  for (const bool ran : {false, true}) {
    ASSERT_TRUE(Begin().ok());
    step_.Beat();
    const auto then = fs::file_time_type::clock::now() - std::chrono::hours(1);
    fs::last_write_time(At("run/checkpoints/t/alive"), then);
    Write(Files("/state.1"), "state");
    fs::last_write_time(At(Files("/state.1")), then);
    if (!ran) step_.SetRan(false);
    Settle(step_, End::kSignaled, 9);
    EXPECT_EQ(result_.checkpoint_bytes > 0, ran);
    fs::remove_all(At("run"));
  }
}

TEST_F(CheckpointTest, ACheckpointThatIsNotWhatWasWrittenIsToldAndTheOneBeforeIsTaken) {
  LeaveOne("first");
  LeaveOne("second");
  Write("run/checkpoints/t/2/state", "damage");
  ASSERT_TRUE(Begin().ok());
  EXPECT_EQ(Text(Files("/state")), "first");
  ASSERT_THAT(told_, SizeIs(1));
  EXPECT_THAT(told_[0], testing::AllOf(StartsWith("task #5: "), HasSubstr("it goes on from the checkpoint before")));
}

TEST_F(CheckpointTest, WhereThereCanBeNoDirectoryTheTaskIsNotStarted) {
  Write("run", "a file");
  const Status status = Begin();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.message(), StartsWith("its checkpoints: "));
}

// --- of several nodes

TEST_F(CheckpointTest, WhereItHasSeveralNodesTheLeadNodePreparesThem) {
  LeaveOne();
  SetGang(1);
  Checkpoint other(
      nullptr, "", 0, [] { return false; }, [this](const std::string& line) { told_.push_back(line); });
  SetProfile({.checkpoint = spec_});
  ASSERT_TRUE(Prepare(other).ok());
  EXPECT_EQ(launch_->checkpoint.directory, "") << "not prepared yet";
  EXPECT_FALSE(Has(Files())) << "it was moved aside";
  SetGang(0);
  ASSERT_TRUE(Begin().ok());
  EXPECT_EQ(launch_->checkpoint.restart, At(Files()));
  launch_->checkpoint = {};
  step_.Find(&*launch_);
  EXPECT_EQ(launch_->checkpoint.directory, "") << "it leads, and has found it already";
  SetGang(1);
  other.Find(&*launch_);
  EXPECT_EQ(launch_->checkpoint.directory, At(Files()));
  EXPECT_EQ(launch_->checkpoint.restart, At(Files()));
  EXPECT_EQ(launch_->checkpoint.signal, "USR1");
  Write(Files("/state"), "new");
  Settle(other, End::kCheckpointed, 9);
  EXPECT_EQ(result_.checkpoint_bytes, 0) << "the lead node keeps it";
  Settle(other, End::kExited);
  EXPECT_EQ(result_.over, nullptr);
  SetGang(0);
  Settle(step_, End::kCheckpointed, 9);
  EXPECT_EQ(result_.checkpoint_bytes, 3);
}

TEST_F(CheckpointTest, APartThatSucceedsHasNothingToRemove) {
  SetGang(1);
  ASSERT_TRUE(Begin().ok());
  Settle(step_, End::kExited);
  EXPECT_EQ(result_.over, nullptr);
  SetGang(0);
  ASSERT_TRUE(Begin().ok());
  Settle(step_, End::kExited);
  EXPECT_NE(result_.over, nullptr);
}

// --- how it is asked

TEST_F(CheckpointTest, OnlyWhoCatchesTheSignalIsAsked) {
  ASSERT_TRUE(Begin().ok());
  struct sigaction before {};
  sigaction(SIGUSR1, nullptr, &before);
  signal(SIGUSR1, SIG_IGN);
  EXPECT_FALSE(step_.Ask(task_, getpid()));
  for (const int signal_number : {SIGUSR1, SIGHUP}) {
    spec_.signal = signal_number;
    ASSERT_TRUE(Begin().ok());
    struct sigaction other {};
    sigaction(signal_number, nullptr, &other);
    signal(signal_number, [](int) { signals_heard = signals_heard + 1; });
    signals_heard = 0;
    EXPECT_TRUE(step_.Ask(task_, getpid()));
    EXPECT_EQ(signals_heard, 1);
    sigaction(signal_number, &other, nullptr);
  }
  sigaction(SIGUSR1, &before, nullptr);
  EXPECT_FALSE(step_.Ask(task_, 0x7ffffff)) << "there is no such process";
}

TEST_F(CheckpointTest, WhoIsAskedByAFileFindsIt) {
  spec_.ask = Ask::kFile;
  ASSERT_TRUE(Begin().ok());
  EXPECT_FALSE(Has("run/checkpoints/t/asked"));
  EXPECT_TRUE(step_.Ask(task_, getpid()));
  EXPECT_TRUE(Has("run/checkpoints/t/asked"));
  EXPECT_THAT(told_, IsEmpty());
  Write("run/checkpoints/t/begun", "another");
  EXPECT_FALSE(step_.Ask(task_, getpid()));
  ASSERT_THAT(told_, SizeIs(1));
  EXPECT_THAT(told_[0], StartsWith("task #5 cannot be asked for a checkpoint: "));
}

TEST_F(CheckpointTest, AnAnswerIsAnEndThatSaysSoOfWhoWasAsked) {
  EXPECT_TRUE(IsAnswer(spec_, true, true, 9));
  EXPECT_FALSE(IsAnswer(spec_, false, true, 9));
  EXPECT_FALSE(IsAnswer(spec_, true, false, 9));
  EXPECT_FALSE(IsAnswer(spec_, true, true, 8));
  spec_.ask = Ask::kNone;
  EXPECT_FALSE(IsAnswer(spec_, true, true, 9));
  spec_.ask = Ask::kFile;
  spec_.on = false;
  EXPECT_FALSE(IsAnswer(spec_, true, true, 9));
}

// --- of CRIU, where this node has none

TEST(CriuToolTest, TheWordsBeforeACommandSayHowItIsHeld) {
  const CriuTool tool("/bin/harrow", "/bin/criu", "/disk");
  EXPECT_THAT(tool.Words({.images = "/i", .trouble = "/t", .restore = {}},
                         {.signal = 40, .status = 9, .limit = std::chrono::seconds(48)}),
              ElementsAre("/bin/harrow", "hold", "--criu", "/bin/criu", "--images", "/i", "--trouble", "/t", "--signal", "40",
                          "--status", "9", "--limit", "48000", "--"));
  EXPECT_THAT(tool.Words({.images = "/i", .trouble = "/t", .restore = "/r"}, {.signal = 40, .status = 9}),
              ElementsAre("/bin/harrow", "hold", "--criu", "/bin/criu", "--images", "/i", "--trouble", "/t", "--signal", "40",
                          "--status", "9", "--limit", "1", "--restore", "/r", "--"))
      << "no limit is none";
}

TEST_F(CheckpointTest, WithoutCriuATaskThatItIsToDumpRunsWithoutAndItIsAskedInVain) {
  spec_.criu = true;
  ASSERT_TRUE(Begin().ok());
  EXPECT_THAT(launch_->checkpoint.holder, IsEmpty());
  EXPECT_FALSE(Has("run"));
  EXPECT_TRUE(step_.Ask(task_, getpid()));
  EXPECT_EQ(step_.refusal(), "it runs without");
  EXPECT_FALSE(step_.HasImage(true, 9));
  EXPECT_TRUE(step_.HandOn(&*launch_).ok());
  EXPECT_EQ(launch_->request.kept_fd, os::SpawnRequest().kept_fd);
  Settle(step_, End::kExited);
  EXPECT_EQ(result_.over, nullptr);
  EXPECT_THAT(told_, IsEmpty()) << "of each task it would be said again and again";
  task_.sandbox = true;
  ASSERT_TRUE(Begin().ok());
  EXPECT_THAT(told_,
              ElementsAre("task #5 and others with checkpoint = \"criu\" run without checkpoints here: this agent has none"));
}

TEST_F(CheckpointTest, WithoutCriuATaskThatHasAnImageGoesElsewhere) {
  LeaveOne();
  spec_.criu = true;
  const Status status = Begin();
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_EQ(status.message(), "it has an image to go on from, and CRIU does not work here: this agent has none");
  EXPECT_EQ(result_.end, End::kLost);
  EXPECT_THAT(told_, ElementsAre("task #5: " + status.message()));
}

TEST_F(CheckpointTest, AfterTooManyImagesInVainItIsNotDumpedAnyMoreAndWhatIsThereGoesAtTheEnd) {
  Write("run/checkpoints/t/given-up", "");
  spec_.criu = true;
  ASSERT_TRUE(Begin().ok());
  EXPECT_THAT(launch_->checkpoint.holder, IsEmpty());
  EXPECT_THAT(told_, IsEmpty());
  EXPECT_TRUE(step_.Ask(task_, getpid()));
  EXPECT_EQ(step_.refusal(), "it runs without");
  Settle(step_, End::kExited);
  ASSERT_NE(result_.over, nullptr);
  EXPECT_TRUE(result_.over->Remove().ok());
  EXPECT_FALSE(Has("run/checkpoints/t"));
}

}  // namespace
}  // namespace harrow::agent
