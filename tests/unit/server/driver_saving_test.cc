// What becomes of files on the nodes' own disks when nobody will come for them: what open tasks read is saved, what tasks did not declare is
// told.
#include "unit/server/driver_files_fixture.h"

namespace harrow::server {
namespace {

TEST_F(DriverFilesTest, WhatTasksLeaveAndDoNotDeclareIsOnRecordAndToldOnce) {
  ServeLocal({{"a", "x"}, {"b", "x"}, {"c", "x"}}, 1);
  FileAgent agent;
  Come(&agent, "n1", 1);
  for (const uint32_t task : {0u, 1u, 2u}) {
    pb::FromAgent message = Made(&agent, task, {});
    pb::Attempt* attempt = message.mutable_ended(0)->mutable_attempt(0);
    if (task == 0) attempt->set_message("said so");
    attempt->set_undeclared(task == 0 ? 13 : task == 1 ? 2 : 0);
    for (uint32_t i = 0; i < (task == 0 ? 12u : attempt->undeclared()); ++i) attempt->add_undeclared_path(StrCat("f", i));
    Tell(&agent, message);
  }
  ASSERT_EQ(journal_.history.attempts.size(), 3u);
  const std::string dropped = "dropped with its sandbox, as not declared (out = [...]): ";
  EXPECT_EQ(journal_.history.attempts[0].message,
            StrCat("said so; ", dropped, "f0, f1, f2, f3, f4, f5, f6, f7, f8, f9 and 3 more"));
  EXPECT_EQ(journal_.history.attempts[1].message, StrCat(dropped, "f0, f1"));
  EXPECT_EQ(journal_.history.attempts[2].message, "");
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_TRUE(told_[0].starts_with("task a: " + dropped)) << told_[0];
}

TEST_F(DriverFilesTest, WhatNeedsOutputsThatCannotBeMadeAgainStaysOpen) {
  flow_.settings.retries = 0;
  ServeLocal({{"a", "x", {}, {"mid"}}, {"b", "x", {"mid"}}}, 1);
  FileAgent first, again;
  ASSERT_NO_FATAL_FAILURE(LoseWhatWasMade(&first, &again, "mid"));
  while (again.tasks.count(0) > 0) {
    Tell(&again, Ended(&again, {0}, pb::Attempt::EXITED, 1));
    time_ += std::chrono::seconds(10);
    driver_->Tick(Now());
    Look(&again);
  }
  const Figures figures = driver_->FiguresAt(Now());
  EXPECT_TRUE(driver_->complete());
  EXPECT_EQ(figures.done, 1u);
  EXPECT_EQ(figures.failed, 0u);
  EXPECT_EQ(figures.skipped, 0u);
  EXPECT_EQ(figures.open(), 1u);
  EXPECT_EQ(Fates()[0], journal::TaskFate::kDone);
  EXPECT_EQ(Fates()[1], journal::TaskFate::kOpen);
  EXPECT_THAT(told_, ::testing::Contains(::testing::HasSubstr("a was done; its outputs were lost")));
}

TEST_F(DriverFilesTest, WhatCouldNotBeWrittenIsNotCountedAsSavedAndAnotherHolderIsAsked) {
  for (const bool second_can : {true, false}) {
    Forget();
    told_.clear();
    flow_ = TinyFlow({{"a", "x", {}, {"mid"}}, {"b", "x", {"mid"}}, {"c", "x", {"mid"}}});
    flow_.settings.files = config::Files::kLocal;
    flow_.settings.save = true;
    options_.nodes_expected = 2;
    Serve();
    FileAgent agents[2];
    for (uint32_t i = 0; i < 2; ++i) Come(&agents[i], "n" + std::to_string(i), i + 1);
    Tell(&agents[0], Made(&agents[0], 0, {{File("mid"), 'm'}}));
    Look(&agents[1]);
    ASSERT_EQ(agents[1].copies.size(), 1u);
    Tell(&agents[1], Note(File("mid"), pb::FileNote::STORED, 'm', agents[0].node));
    driver_->Interrupt(Now());
    for (FileAgent& agent : agents) {
      Look(&agent);
      ASSERT_EQ(agent.tasks.size(), 1u);
      Tell(&agent, Ended(&agent, {agent.tasks.begin()->first}, pb::Attempt::INTERRUPTED));
    }
    Look(&agents[0]);
    ASSERT_EQ(agents[0].saves, (std::vector<uint32_t>{File("mid")}));
    Tell(&agents[0], Note(File("mid"), pb::FileNote::NOT_SAVED, 0));
    EXPECT_FALSE(driver_->complete());
    Look(&agents[1]);
    ASSERT_EQ(agents[1].saves, (std::vector<uint32_t>{File("mid")}));
    Tell(&agents[1],
         Note(File("mid"), second_can ? pb::FileNote::SAVED : pb::FileNote::NOT_SAVED, second_can ? 'm' : 0));
    EXPECT_TRUE(driver_->complete());
    ASSERT_FALSE(told_.empty());
    EXPECT_THAT(told_.back(), testing::HasSubstr(second_can ? "saved 1 file" : "saved 0 files"));
    EXPECT_EQ(told_.back().find("1 could not be") == std::string::npos, second_can) << told_.back();
  }
}

/// Another job may have a node for what is open, and need not make again what it reads.
TEST_F(DriverFilesTest, WhatANodeHoldsIsSavedWhenAnotherIsGoneForGood) {
  graph::Profile large_only;
  large_only.shape.cores = 2;
  flow_ = TinyFlow({{"a", "x", {}, {"mid"}}, {"b", "x", {"mid"}, {}, large_only}});
  flow_.settings.files = config::Files::kLocal;
  flow_.settings.save = true;
  options_.nodes_expected = 2;
  Serve();
  FileAgent small, large;
  Come(&small, "small", 1);
  Join(&large, Hello("large", 2, 2));
  Tell(&small, Made(&small, 0, {{File("mid"), 'm'}}));
  Silence(&large, options_.dead_after + Duration(1), true, {&small});
  Watch(flow_.settings.fence, {&small});
  for (uint32_t i = 0; i < options_.return_ticks; ++i) {
    driver_->Handle(Now(), small.node, pb::FromAgent());
    driver_->Tick(Now());
  }
  Look(&small);
  EXPECT_TRUE(driver_->nodes_gone());
  EXPECT_FALSE(driver_->complete());
  ASSERT_EQ(small.saves, (std::vector<uint32_t>{File("mid")}));
  Tell(&small, Note(File("mid"), pb::FileNote::SAVED, 'm'));
  EXPECT_TRUE(driver_->complete());
  EXPECT_THAT(told_.back(), testing::HasSubstr("saved 1 file"));
}

/// The answer may have been lost with the connection.
TEST_F(DriverFilesTest, AnAgentThatComesBackIsAskedOnceMoreForWhatItIsToSave) {
  flow_ = TinyFlow({{"a", "x", {}, {"mid"}}, {"b", "x", {"mid"}}});
  flow_.settings.files = config::Files::kLocal;
  flow_.settings.save = true;
  Serve();
  FileAgent agent;
  Come(&agent, "n1", 1);
  Tell(&agent, Made(&agent, 0, {{File("mid"), 'm'}}));
  driver_->Interrupt(Now());
  Look(&agent);
  Tell(&agent, Ended(&agent, {1}, pb::Attempt::INTERRUPTED));
  ASSERT_EQ(agent.saves.size(), 1u);
  ComeWith(&agent, "n1", 1, {{"mid", 'm'}});
  EXPECT_EQ(agent.saves, (std::vector<uint32_t>{File("mid"), File("mid")}));
  Tell(&agent, Note(File("mid"), pb::FileNote::SAVED, 'm'));
  EXPECT_TRUE(driver_->complete());
  EXPECT_THAT(told_.back(), testing::HasSubstr("saved 1 file"));
}

}  // namespace
}  // namespace harrow::server
