// RunDriver: what it tells of tasks, to those who ask and to agents.
#include "unit/server/driver_fixture.h"

namespace harrow::server {
namespace {

using ::testing::HasSubstr;

class DriverTold : public DriverTest {
 protected:
  void EndWithSize(Agent* agent, uint32_t task, int64_t size) {
    pb::FromAgent message = Ended(agent, {task});
    message.mutable_ended(0)->mutable_attempt(0)->add_output_sizes(size);
    driver_->Handle(Now(), agent->node, message);
    Turn(agent);
  }
};

TEST_F(DriverTold, ATaskThatWaitsForANodeIsExplainedByTheNodesName) {
  options_.nodes_expected = 2;
  flow_ = TinyFlow({{"make", "x", {}, {"big"}}, {"other", "x"}, {"use", "y", {"big"}}, {"too", "y", {"big"}}, {"late", "z", {"big"}}});
  flow_.settings.steal = false;
  Serve();
  Agent first, second;
  Join(&first, Hello("n1", 1, 1));
  Join(&second, Hello("n2", 2, 1));
  Agent& made_it = first.tasks.contains(0) ? first : second;
  const std::string name = &made_it == &first ? "n1" : "n2";
  EXPECT_THAT(driver_->Explain(TaskId(2)), HasSubstr("waits for: make\n"));
  EXPECT_THAT(driver_->Explain(TaskId(0)), HasSubstr("\nnode: " + name + "\n"));
  EndWithSize(&made_it, 0, 1'000'000);
  ASSERT_EQ(Tasks(made_it), (std::set<uint32_t>{2}));
  const std::string text = driver_->Explain(TaskId(3));
  EXPECT_THAT(text, HasSubstr("task too (level 0): It is ready"));
  EXPECT_THAT(text, HasSubstr("\ncandidate nodes: " + name + "\n"));
  EXPECT_THAT(text, HasSubstr("\nits input on nodes: " + name + " "));
}

TEST_F(DriverTold, SizesAreWantedWhereTheyDecideWhereAnotherTaskRuns) {
  struct Row {
    uint32_t nodes;
    bool locality, read, wanted;
  };
  for (const Row& row : {Row{2, true, true, true}, {1, true, true, false}, {2, false, true, false}, {2, true, false, false}}) {
    Forget();
    flow_ = TinyFlow({{"make", "x", {}, {"f"}}, {"use", "y", row.read ? std::vector<std::string>{"f"} : std::vector<std::string>{}}});
    flow_.settings.locality = row.locality;
    options_.nodes_expected = row.nodes;
    Serve();
    Agent agent;
    Join(&agent, Hello("n", 1, 2));
    ASSERT_TRUE(agent.tasks.contains(0));
    EXPECT_EQ(agent.tasks[0].sizes_wanted(), row.wanted) << row.nodes << row.locality << row.read;
  }
}

TEST_F(DriverTold, AnAllocationThatDrainsAsksForCheckpointsAndStartsNothingMore) {
  graph::Profile writes;
  writes.checkpoint.by = graph::Checkpointing::By::kApp;
  Serve({{"a", "x", {}, {}, writes}, {"b", "x"}});
  Agent agent;
  Join(&agent, Hello("n", 1, 1));
  Started(&agent, {0});
  driver_->Drain();
  EXPECT_TRUE(driver_->draining());
  Turn(&agent);
  EXPECT_THAT(agent.asked, ElementsAre(0u));
  driver_->Drain();
  Turn(&agent);
  EXPECT_THAT(agent.asked, ElementsAre(0u)) << "asked once";
  End(&agent, {0});
  EXPECT_THAT(Tasks(agent), IsEmpty());
  EXPECT_TRUE(driver_->nothing_runs());
}

TEST_F(DriverTold, WhatAnAttemptThatWasLostHadIsRecorded) {
  Serve({{"a", "x"}});
  Agent agent;
  Join(&agent, Hello("n", 1, 1));
  Started(&agent, {0});
  driver_->Disconnected(Now(), agent.node, agent.channel.get());
  agent.tasks.clear();
  Join(&agent, Hello("n", 2, 1));
  ASSERT_EQ(journal_.history.attempts.size(), 1u);
  const journal::AttemptRecord& lost = journal_.history.attempts[0];
  EXPECT_EQ(lost.end, journal::End::kLost);
  EXPECT_EQ(lost.start_ns, 1000);
  EXPECT_EQ(lost.node, agent.node);
  EXPECT_GT(lost.end_ns, lost.start_ns);
}

}  // namespace
}  // namespace harrow::server
