// A run that only puts files on nodes: what agents are asked for and what their words mean, when it is over,
// and how.

#include "base/text.h"
#include "unit/server/driver_fixture.h"

namespace harrow::server {
namespace {

using run::ServerEnd;
using run::Stage;

struct StageAgent : Agent {
  std::vector<pb::CopyFile> copies;
  std::vector<uint32_t> damaged{};
};

class DriverStagingTest : public DriverTest {
 protected:
  void ServeStage(Stage stage, std::vector<std::string> files, uint32_t nodes) {
    flow_ = TinyFlow({{"stage", "true", std::move(files)}});
    flow_.settings.files = config::Files::kLocal;
    flow_.settings.stage = stage;
    flow_.unwanted = {true};
    options_.nodes_expected = nodes;
    Serve();
  }
  void Come(StageAgent* agent, const std::string& name, const std::string& unfit = "",
            const std::string& held = "", const std::string& staged = "") {
    pb::FromAgent hello = Hello(name, next_incarnation_++, 1);
    hello.mutable_hello()->set_unfit(unfit);
    if (!held.empty()) {
      pb::HeldFile* file = hello.mutable_hello()->add_held();
      file->set_file(flow_.graph.FindFile(held)->value);
      file->set_object(Object(held));
      file->set_bytes(10);
    }
    if (!staged.empty()) {
      pb::StagedFile* file = hello.mutable_hello()->add_staged();
      file->set_path("/submit/" + staged);
      file->set_object(Object(staged));
    }
    hello.add_peer_address(name + ":1");
    ASSERT_NO_FATAL_FAILURE(Connect(agent, hello));
    Look(agent);
  }
  void Look(StageAgent* agent) {
    driver_->Flush(Now());
    for (const std::string& bytes : agent->channel->TakeSent()) {
      pb::ToAgent message;
      ASSERT_TRUE(message.ParseFromString(bytes));
      for (const pb::CopyFile& copy : message.copy()) agent->copies.push_back(copy);
      EXPECT_EQ(message.start_size(), 0) << "no task is run";
      for (const uint32_t drop : message.drop_damaged()) agent->damaged.push_back(drop);
      agent->shut_down |= message.has_shutdown();
    }
  }
  void Answer(StageAgent* agent, const pb::CopyFile& copy, pb::FileNote::What what = pb::FileNote::STORED,
              const std::string& why = "") {
    pb::FromAgent message;
    pb::FileNote* note = message.add_file();
    note->set_file(copy.file());
    note->set_from(copy.from());
    note->set_what(what);
    note->set_why(why);
    if (what == pb::FileNote::STORED) {
      note->set_object(Object(copy.path()));
      note->set_bytes(10);
      note->set_moved(10);
    }
    driver_->Handle(Now(), agent->node, message);
    Look(agent);
  }
  /// Answers all that it was asked for.
  void Store(StageAgent* agent) {
    for (const pb::CopyFile& copy : std::exchange(agent->copies, {})) Answer(agent, copy);
  }
  static std::vector<std::string> Paths(const StageAgent& agent) {
    std::vector<std::string> paths;
    for (const pb::CopyFile& copy : agent.copies)
      paths.push_back(StrCat(copy.path(), copy.from() == 0 ? "" : StrCat(" from ", copy.from() - 1)));
    return paths;
  }
  pb::Progress Progress() {
    pb::Progress progress;
    driver_->Snapshot(Now(), false, &progress);
    return progress;
  }
  static std::string Object(const std::string& path) { return path + std::string(17 - path.size(), '.'); }

  uint64_t next_incarnation_ = 1;
};

TEST_F(DriverStagingTest, FilesTakeTurnsOverNodesByName) {
  ServeStage(Stage::kRoundRobin, {"a", "b", "c", "d"}, 3);
  StageAgent third, first, second;
  Come(&third, "n3");
  Come(&first, "n1");
  EXPECT_FALSE(driver_->complete());
  EXPECT_THAT(first.copies, IsEmpty()) << "not all have come";
  Come(&second, "n2");
  Look(&first), Look(&third);
  EXPECT_THAT(Paths(first), ElementsAre("a", "d"));
  EXPECT_THAT(Paths(second), ElementsAre("b"));
  EXPECT_THAT(Paths(third), ElementsAre("c"));
  Store(&first), Store(&second);
  EXPECT_FALSE(driver_->complete());
  EXPECT_EQ(Progress().staged().files(), 3u);
  Store(&third);
  EXPECT_TRUE(driver_->complete());
  EXPECT_EQ(driver_->StagingEnd(), ServerEnd::kAllDone);
  const pb::Progress progress = Progress();
  EXPECT_EQ(progress.staged().files(), 4u);
  EXPECT_EQ(progress.staged().of(), 4u);
  EXPECT_EQ(progress.staged().bytes(), 40);
  EXPECT_EQ(progress.staged().nodes(), 3u);
  EXPECT_EQ(progress.shared_read_bytes(), 40u);
  EXPECT_EQ(progress.total(), 0u) << "tasks";
}

TEST_F(DriverStagingTest, WhoMayHaveAFileIsAskedForIt) {
  ServeStage(Stage::kRoundRobin, {"a", "b", "c"}, 2);
  StageAgent one, two;
  Come(&one, "n1");
  Come(&two, "n2", "", "a", "c");
  Look(&one);
  EXPECT_THAT(one.copies, IsEmpty());
  EXPECT_THAT(Paths(two), ElementsAre("a", "b", "c"));
  EXPECT_FALSE(driver_->complete()) << "its word for it is waited for";
  Store(&two);
  EXPECT_TRUE(driver_->complete());
  EXPECT_EQ(Progress().staged().files(), 3u);
}

/// While agents are told to end; what is on its disk stays there.
TEST_F(DriverStagingTest, ANodeThatIsLostWhenAllIsDoneChangesNothing) {
  ServeStage(Stage::kRoundRobin, {"a", "b"}, 2);
  StageAgent one, two;
  Come(&one, "n1");
  Come(&two, "n2");
  Look(&one);
  Look(&two);
  Store(&one);
  Store(&two);
  ASSERT_TRUE(driver_->complete());
  StageAgent again;
  driver_->Disconnected(Now(), two.node, two.channel.get());
  Join(&again, Hello("n2", 7, 1));
  EXPECT_TRUE(driver_->complete());
  EXPECT_EQ(driver_->StagingEnd(), ServerEnd::kAllDone);
  EXPECT_EQ(Progress().staged().files(), 2u);
}

TEST_F(DriverStagingTest, EverywhereFilesGoFromNodeToNode) {
  ServeStage(Stage::kAll, {"a"}, 2);
  StageAgent one, two;
  Come(&one, "n1");
  Come(&two, "n2");
  Look(&one);
  EXPECT_THAT(Paths(one), ElementsAre("a"));
  EXPECT_THAT(two.copies, IsEmpty());
  Store(&one);
  Look(&two);
  ASSERT_THAT(Paths(two), ElementsAre("a from 0"));
  EXPECT_EQ(two.copies[0].object(), Object("a"));
  Store(&two);
  EXPECT_TRUE(driver_->complete());
  EXPECT_EQ(Progress().bytes_moved(), 10u);
  EXPECT_EQ(Progress().shared_read_bytes(), 10u);
}

TEST_F(DriverStagingTest, WhoSendsSomethingElseGetsItAnew) {
  ServeStage(Stage::kAll, {"a"}, 2);
  StageAgent one, two;
  Come(&one, "n1");
  Come(&two, "n2");
  Look(&one);
  Store(&one);
  Look(&two);
  ASSERT_EQ(two.copies.size(), 1u);
  Answer(&two, std::exchange(two.copies, {})[0], pb::FileNote::DAMAGED, "not what its name says");
  Look(&one);
  EXPECT_THAT(one.damaged, ElementsAre(0u));
  EXPECT_FALSE(driver_->complete());
  // One of them reads it once more.
  Look(&two);
  EXPECT_EQ(one.copies.size() + two.copies.size(), 1u);
  for (int turn = 0; turn < 3 && !driver_->complete(); ++turn) {
    Store(&one);
    Look(&two);
    Store(&two);
    Look(&one);
  }
  EXPECT_TRUE(driver_->complete());
  EXPECT_EQ(driver_->StagingEnd(), ServerEnd::kAllDone);
  EXPECT_EQ(Progress().staged().files(), 1u);
}

TEST_F(DriverStagingTest, WhatCannotBeReadIsToldAndTheRestIsStaged) {
  ServeStage(Stage::kRoundRobin, {"a", "b"}, 1);
  StageAgent one;
  Come(&one, "n1");
  ASSERT_EQ(one.copies.size(), 2u);
  Answer(&one, one.copies[0], pb::FileNote::UNREADABLE, "permission denied");
  EXPECT_THAT(told_, ElementsAre("a cannot be read: permission denied"));
  EXPECT_FALSE(driver_->complete());
  Answer(&one, one.copies[1]);
  EXPECT_TRUE(driver_->complete());
  EXPECT_EQ(driver_->StagingEnd(), ServerEnd::kSomeFailed);
}

TEST_F(DriverStagingTest, AFullNodesFileGoesElsewhere) {
  ServeStage(Stage::kRoundRobin, {"a"}, 2);
  StageAgent one, two;
  Come(&one, "n1");
  Come(&two, "n2");
  Look(&one);
  Answer(&one, one.copies.at(0), pb::FileNote::NO_ROOM, "full");
  Look(&two);
  EXPECT_THAT(Paths(two), ElementsAre("a"));
  Answer(&two, two.copies.at(0), pb::FileNote::NO_ROOM, "full");
  EXPECT_THAT(told_, ElementsAre("no node has room for a: full"));
  EXPECT_EQ(driver_->StagingEnd(), ServerEnd::kSomeFailed);
}

TEST_F(DriverStagingTest, ALostNodesFilesGoToOthers) {
  ServeStage(Stage::kRoundRobin, {"a", "b"}, 2);
  StageAgent one, two;
  Come(&one, "n1");
  Come(&two, "n2");
  Look(&one);
  Store(&one);
  one.channel.reset();
  Silence(&two, options_.dead_after + std::chrono::seconds(1), false);
  Watch(flow_.settings.fence + std::chrono::seconds(5));
  // Both were silent, and n2 dials again.
  StageAgent again;
  Come(&again, "n2");
  Look(&again);
  EXPECT_THAT(Paths(again), ::testing::Contains("b"));
}

TEST_F(DriverStagingTest, AnUnfitNodeGetsNothing) {
  ServeStage(Stage::kRoundRobin, {"a", "b"}, 2);
  StageAgent one, two;
  Come(&one, "n1", "no disk");
  Come(&two, "n2");
  Look(&one);
  EXPECT_THAT(one.copies, IsEmpty());
  EXPECT_THAT(Paths(two), ElementsAre("a", "b"));
  // One that finds out later.
  pb::FromAgent unfit;
  unfit.set_unfit("no disk either");
  driver_->Handle(Now(), two.node, unfit);
  driver_->Tick(Now());
  Look(&two);
  EXPECT_TRUE(driver_->complete());
  EXPECT_EQ(driver_->StagingEnd(), ServerEnd::kCannotGoOn);
  EXPECT_NE(driver_->fatal(), "");
}

TEST_F(DriverStagingTest, ItCanBeInterrupted) {
  ServeStage(Stage::kAll, {"a"}, 1);
  StageAgent one;
  Come(&one, "n1");
  driver_->Interrupt(Now());
  Look(&one);
  EXPECT_TRUE(driver_->complete());
  EXPECT_EQ(driver_->StagingEnd(), ServerEnd::kStopped);
}

TEST_F(DriverStagingTest, ADropIsOverWhenAllHaveCome) {
  ServeStage(Stage::kDrop, {}, 2);
  StageAgent one, two;
  Come(&one, "n1");
  EXPECT_FALSE(driver_->complete());
  Come(&two, "n2");
  EXPECT_TRUE(driver_->complete());
  EXPECT_EQ(driver_->StagingEnd(), ServerEnd::kAllDone);
  EXPECT_EQ(Progress().staged().nodes(), 2u);
}

TEST_F(DriverStagingTest, WhoGetsAFileFromANodeIsToldOfWhatThatReadIt) {
  ServeStage(Stage::kAll, {"a"}, 2);
  StageAgent one, two;
  Come(&one, "n1");
  Come(&two, "n2");
  Look(&one);
  StageAgent& reader = one.copies.empty() ? two : one;
  StageAgent& other = one.copies.empty() ? one : two;
  ASSERT_EQ(reader.copies.size(), 1u);
  EXPECT_EQ(reader.copies[0].source(), "");
  pb::FromAgent message;
  pb::FileNote* note = message.add_file();
  note->set_file(reader.copies[0].file());
  note->set_what(pb::FileNote::STORED);
  note->set_object(Object("a"));
  note->set_bytes(10);
  note->set_source("as it was at noon");
  driver_->Handle(Now(), reader.node, message);
  Look(&other);
  ASSERT_EQ(other.copies.size(), 1u);
  EXPECT_EQ(other.copies[0].source(), "as it was at noon");
}

TEST_F(DriverStagingTest, ALaterServerGoesOn) {
  ServeStage(Stage::kRoundRobin, {"a", "b"}, 1);
  StageAgent one;
  Come(&one, "n1");
  Answer(&one, one.copies[0]);
  options_.restarted = true;
  Serve();
  StageAgent back;
  Come(&back, "n1", "", "a");
  EXPECT_THAT(Paths(back), ElementsAre("a", "b"));
  Store(&back);
  EXPECT_TRUE(driver_->complete());
  EXPECT_EQ(Progress().staged().files(), 2u);
}

}  // namespace
}  // namespace harrow::server
