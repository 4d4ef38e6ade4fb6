// RunDriver: tasks that are added while it runs.
#include "unit/server/driver_fixture.h"

namespace harrow::server {
namespace {

using journal::TaskFate;

class DriverAddedTest : public DriverTest {
 protected:
  /// To the graph, and the driver is told.
  void Add(const std::vector<TinyTask>& tasks, const std::vector<TaskId>& after = {}) {
    graph::Graph& graph = flow_.graph;
    const auto first = static_cast<uint32_t>(graph.task_count()), files = static_cast<uint32_t>(graph.file_count());
    test::AddTiny(&graph, tasks, after);
    driver_->AddTasks(Now(), TaskId(first), static_cast<uint32_t>(tasks.size()), files);
  }
};

TEST_F(DriverAddedTest, TheyRunAndTheRunGoesOnForThem) {
  Serve({{"a", "make a", {}, {"a"}}});
  Agent agent;
  Join(&agent, Hello("n", 1, 2));
  graph::Profile wide;
  wide.shape.cores = 2;
  Add({{"b", "use a", {"a"}, {"b"}, wide}, {"c", "x", {}, {}}});
  EXPECT_NE(driver_->Explain(TaskId(2)), "") << "known at once";
  EXPECT_EQ(driver_->FiguresAt(Now()).total, 3u);
  Turn(&agent);
  EXPECT_EQ(Tasks(agent), (std::set<uint32_t>{0, 2}));
  End(&agent, {0, 2});
  EXPECT_EQ(Tasks(agent), (std::set<uint32_t>{1})) << "it waited for what it reads";
  EXPECT_THAT(agent.profiles, ElementsAre(0u, 1u)) << "one that came with it";
  End(&agent, {1});
  EXPECT_TRUE(driver_->complete());
  // All had ended when more came.
  Add({{"d", "use b", {"b"}, {}}});
  EXPECT_FALSE(driver_->complete());
  Turn(&agent);
  EXPECT_EQ(Tasks(agent), (std::set<uint32_t>{3}));
  End(&agent, {3});
  EXPECT_TRUE(driver_->complete());
  EXPECT_THAT(Attempts(), UnorderedElementsAre(std::pair(0u, 1u), std::pair(2u, 1u), std::pair(1u, 1u), std::pair(3u, 1u)));
  EXPECT_EQ(driver_->FiguresAt(Now()).done, 4u);
  Agent other;
  Join(&other, Hello("m", 2, 2));  // which knows no profile
  Add({{"e", "y", {}, {}, wide}, {"f", "y", {}, {}, wide}});
  Turn(&agent);
  Turn(&other);
  EXPECT_EQ(Tasks(agent).size() + Tasks(other).size(), 2u);
}

TEST_F(DriverAddedTest, WhatFollowsFromWhatHasEnded) {
  Serve({{"good", "x"}, {"bad", "y"}, {"later", "z"}});
  Agent agent;
  Join(&agent, Hello("n", 1, 3));
  End(&agent, {1}, pb::Attempt::EXITED, 3);
  End(&agent, {0});
  Add({{"after good", "x"}}, {TaskId(0)});
  Add({{"after bad", "x"}}, {TaskId(1)});
  Add({{"after both", "x"}}, {TaskId(0), TaskId(1)});
  Turn(&agent);
  EXPECT_EQ(Tasks(agent), (std::set<uint32_t>{2, 3}));
  End(&agent, {2, 3});
  EXPECT_TRUE(driver_->complete());
  EXPECT_EQ(Fates(), (std::map<uint32_t, TaskFate>{{0, TaskFate::kDone},
                                                   {1, TaskFate::kFailed},
                                                   {2, TaskFate::kDone},
                                                   {3, TaskFate::kDone},
                                                   {4, TaskFate::kSkipped},
                                                   {5, TaskFate::kSkipped}}));
}

TEST_F(DriverAddedTest, ThoseThatComeToARunThatIsInterruptedStayOpen) {
  Serve({{"a", "x"}});
  Agent agent;
  Join(&agent, Hello("n", 1, 2));
  driver_->Interrupt(Now());
  Add({{"b", "x"}});
  Turn(&agent);
  EXPECT_EQ(Tasks(agent), (std::set<uint32_t>{0}));
  End(&agent, {0}, pb::Attempt::INTERRUPTED);
  EXPECT_TRUE(driver_->complete());
  EXPECT_THAT(Fates(), IsEmpty());
}

TEST_F(DriverAddedTest, AServerAfterACrashHasThemAsTheOthers) {
  Serve({{"a", "make a", {}, {"a"}}});
  Agent agent;
  Join(&agent, Hello("n", 1, 2));
  Add({{"b", "x"}, {"c", "use a", {"a"}, {}}});
  Turn(&agent);
  End(&agent, {1});
  options_.restarted = true;
  Serve();
  pb::FromAgent hello = Hello("n", 1, 2);
  pb::Attempt* running = hello.mutable_hello()->add_running();
  running->set_task(0);
  running->set_attempt(1);
  Join(&agent, hello);
  End(&agent, {0});
  EXPECT_EQ(Tasks(agent), (std::set<uint32_t>{2}));
  End(&agent, {2});
  EXPECT_TRUE(driver_->complete());
  EXPECT_EQ(Fates().size(), 3u);
}

}  // namespace
}  // namespace harrow::server
