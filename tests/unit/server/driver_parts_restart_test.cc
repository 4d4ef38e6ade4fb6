// RunDriver: attempts of several nodes, when one server follows another.
#include "unit/server/driver_parts_fixture.h"

namespace harrow::server {
namespace {

class DriverPartsRestartTest : public DriverPartsTest {
 protected:
  /// A server before this one had nodes of these names, and one and two have three ranks of task 0, which
  /// asks for no number of nodes, as that attempt.
  void SpreadOver(uint32_t attempt, const std::vector<std::string>& names) {
    Make({Wide("a", 3, 1)}, static_cast<uint32_t>(names.size()));
    for (NodeAgent* agent : {&one_, &two_}) {
      pb::Task& sent = agent->tasks[0];
      sent.set_attempt(attempt);
      pb::Gang* gang = sent.mutable_gang();
      gang->set_space("harrow-x");
      for (const auto& [name, ranks] : {std::pair("n1", 2u), std::pair("n2", 1u)}) {
        pb::GangNode* node = gang->add_node();
        node->set_name(name);
        node->set_ranks(ranks);
      }
      gang->set_here(agent == &one_ ? 0 : 1);
    }
    for (uint32_t i = 0; i < names.size(); ++i) {
      journal::NodeRecord node;
      node.node = NodeId(i);
      node.name = names[i];
      node.incarnation = 1;
      journal_.history.nodes.push_back(node);
    }
  }
};

TEST_F(DriverPartsRestartTest, AServerThatFollowsGoesOnWithWhatAgentsTell) {
  ServeOn({Wide("a")}, {&one_, &two_});
  Started(&one_, {0});
  Started(&two_, {0});
  const pb::FromAgent first = RunsPart(&one_, 0), second = RunsPart(&two_, 0);
  for (const bool lead_first : {true, false}) {
    SCOPED_TRACE(lead_first);
    Restart();
    NodeAgent one("n1"), two("n2");
    one.tasks = one_.tasks, two.tasks = two_.tasks;
    if (lead_first) {
      Join(&one, first);
      Join(&two, second);
    } else {
      Join(&two, second);
      EXPECT_TRUE(driver_->gathering());
      Join(&one, first);
    }
    TurnAll({&one, &two});
    EXPECT_FALSE(driver_->gathering());
    EXPECT_EQ(driver_->scheduler().state(TaskId(0)), core::TaskState::kRunning);
    EXPECT_EQ(driver_->scheduler().node(TaskId(0)), one.node);
    EXPECT_THAT(one.superseded, IsEmpty());
    EXPECT_THAT(two.superseded, IsEmpty());
    if (lead_first) continue;
    EndPart(&two, 0);
    EndPart(&one, 0);
    TurnAll({&one, &two});
    EXPECT_EQ(Fates()[0], journal::TaskFate::kDone);
    EXPECT_THAT(Attempts(), Contains(std::pair(0u, 1u)));
  }
}

TEST_F(DriverPartsRestartTest, AServerThatFollowsTellsAgentsOfEachOther) {
  ServeOn({Wide("a")}, {&one_, &two_});  // which is killed before it has heard where they are found
  const pb::FromAgent first = RunsPart(&one_, 0), second = RunsPart(&two_, 0);
  Restart();
  Join(&one_, first);
  Join(&two_, second);
  for (NodeAgent* agent : {&one_, &two_}) {
    pb::FromAgent found;
    found.add_peer_address(agent->name + ":1");
    driver_->Handle(Now(), agent->node, found);
  }
  TurnAll({&one_, &two_});
  EXPECT_THAT(one_.peers, ElementsAre("n2:1"));
  EXPECT_THAT(two_.peers, ElementsAre("n1:1"));
}

TEST_F(DriverPartsRestartTest, AServerThatFollowsKnowsWhichPartsAreOver) {
  for (const int code : {0, 5}) {
    SCOPED_TRACE(code);
    Forget();
    one_ = NodeAgent("n1"), two_ = NodeAgent("n2");
    ServeOn({Wide("a")}, {&one_, &two_});
    Started(&one_, {0});
    Started(&two_, {0});
    EndPart(&one_, 0, Exit(code, 2000, code == 0 ? "" : "rank 1 of 4"));  // the lead node's
    const pb::FromAgent second = RunsPart(&two_, 0);
    Restart();
    Join(&one_, HelloOf(one_));
    two_.superseded.clear();
    Join(&two_, second);
    TurnAll({&one_, &two_});
    EXPECT_FALSE(driver_->gathering());
    EXPECT_EQ(driver_->scheduler().node(TaskId(0)), one_.node);
    EXPECT_THAT(two_.superseded, SizeIs(code == 0 ? 0 : 1)) << "it goes on, or is told to end";
    EXPECT_THAT(Records(), IsEmpty());
    EndPart(&two_, 0, code == 0 ? kWell : kAsked);
    TurnAll({&one_, &two_});
    ASSERT_THAT(Records(), SizeIs(1));
    EXPECT_EQ(Records()[0].code, code);
    EXPECT_EQ(Records()[0].message, code == 0 ? "" : "rank 1 of 4 on n1");
    EXPECT_THAT(Parts(), SizeIs(2));
  }
}

TEST_F(DriverPartsRestartTest, AServerThatFollowsTakesResultsThatAgentsHaveKept) {
  ServeOn({Wide("a")}, {&one_, &two_});
  Started(&one_, {0});
  Started(&two_, {0});
  const pb::FromAgent kept = PartEnded(&one_, 0, kWell), also = PartEnded(&two_, 0, kWell);
  Restart();
  pb::FromAgent hello = HelloOf(two_);
  *hello.add_ended() = also.ended(0);
  Join(&two_, hello);
  EXPECT_THAT(Records(), IsEmpty());
  hello = HelloOf(one_);
  *hello.add_ended() = kept.ended(0);
  Join(&one_, hello);
  TurnAll({&one_, &two_});
  EXPECT_THAT(Attempts(), ElementsAre(std::pair(0u, 1u)));
  EXPECT_EQ(Fates()[0], journal::TaskFate::kDone);
  EXPECT_TRUE(driver_->complete());
}

TEST_F(DriverPartsRestartTest, WhereOneNodeDoesNotComeBackItIsLostAndTheOthersAreEnded) {
  for (const bool lead : {true, false}) {
    SCOPED_TRACE(lead);
    Forget();
    one_ = NodeAgent("n1"), two_ = NodeAgent("n2"), three_ = NodeAgent("n3");
    ServeOn({Wide("a")}, {&one_, &two_, &three_});
    Started(&one_, {0});
    Started(&two_, {0});
    NodeAgent& back = lead ? one_ : two_;
    const pb::FromAgent runs = RunsPart(&back, 0);
    Restart();
    Join(&back, runs);
    Join(&three_, HelloOf(three_));
    for (uint32_t i = 0; i < options_.gather_ticks; ++i) {
      driver_->Handle(Now(), back.node, {});
      driver_->Handle(Now(), three_.node, {});
      driver_->Tick(Now());
    }
    TurnAll({&back, &three_});
    EXPECT_FALSE(driver_->gathering());
    EXPECT_THAT(back.superseded, ElementsAre(0u));
    EXPECT_THAT(Tasks(three_), IsEmpty()) << "its part runs still";
    EndPart(&back, 0, Exit(1, 5000));
    TurnAll({&back, &three_});
    ASSERT_THAT(Records(), SizeIs(1));
    EXPECT_EQ(Records()[0].end, End::kLost);
    EXPECT_THAT(Records()[0].message, HasSubstr("it has not come back"));
    ASSERT_EQ(Tasks(three_), (std::set<uint32_t>{0}));
    EXPECT_EQ(three_.tasks[0].attempt(), 2u);
  }
}

TEST_F(DriverPartsRestartTest, WhatAllPartsHaveEndedOfNeedsNoAgentToBeDone) {
  ServeOn({Wide("a")}, {&one_, &two_});
  EndPart(&one_, 0);
  EndPart(&two_, 0);
  journal_.history.attempts.clear();  // they would have been with the next group
  journal_.history.fates.clear();
  const int64_t now_ns = Now().wall_ns();
  for (journal::PartRecord& part : journal_.history.parts) part.start_ns = part.end_ns = now_ns;
  Restart();
  EXPECT_THAT(Attempts(), ElementsAre(std::pair(0u, 1u)));
  EXPECT_EQ(Records()[0].end, End::kExited);
  EXPECT_EQ(Fates()[0], journal::TaskFate::kDone);
  NodeAgent other("n9");
  Join(&other, HelloOf(other));
  GatherInVain(&other);
  EXPECT_TRUE(driver_->complete());
}

TEST_F(DriverPartsRestartTest, WhatNobodyTellsTheRestOfIsLost) {
  for (const bool restarted : {true, false}) {
    SCOPED_TRACE(restarted);
    Forget();
    one_ = NodeAgent("n1"), two_ = NodeAgent("n2");
    ServeOn({Wide("a")}, {&one_, &two_});
    EndPart(&two_, 0);
    options_.restarted = restarted;
    Serve();
    if (restarted) {
      NodeAgent again("n1"), also("n2");
      again.incarnation = also.incarnation = 7;
      Join(&again, HelloOf(again));
      Join(&also, HelloOf(also));
      TurnAll({&again, &also});
      ASSERT_EQ(Tasks(again), (std::set<uint32_t>{0}));
      EXPECT_GT(again.tasks[0].attempt(), 1u);
    }
    ASSERT_THAT(Records(), SizeIs(1));
    EXPECT_EQ(Records()[0].end, End::kLost);
    ASSERT_THAT(Parts(), SizeIs(2)) << "what is recorded has all its parts";
    EXPECT_EQ(Parts()[1].part, 0u);
    EXPECT_FALSE(Parts()[1].node);
  }
}

TEST_F(DriverPartsRestartTest, RanksThatWereSpreadOverNodesForWantOfALargeOneAreTakenIn) {
  SpreadOver(1, {"n1", "n2"});
  Restart();
  Join(&one_, RunsPart(&one_, 0));
  Join(&two_, RunsPart(&two_, 0));
  EXPECT_THAT(one_.superseded, IsEmpty());
  EndPart(&one_, 0);
  EndPart(&two_, 0, Exit(1, 3000));
  TurnAll({&one_, &two_});
  ASSERT_THAT(Records(), SizeIs(1));
  EXPECT_EQ(Records()[0].message, "rank 2 of 3 on n2");
  EXPECT_EQ(Parts()[0].nodes, 2u);
}

TEST_F(DriverPartsRestartTest, ABeginningThatNobodySentIsEndedWhereItMayBeAPart) {
  ServeOn({Wide("a", 2, 1)}, {&one_, &two_});
  NodeAgent& idle = one_.tasks.empty() ? one_ : two_;
  pb::FromAgent message;
  wire::SetId({TaskId(0), 2}, message.mutable_started()->add_attempt());
  message.mutable_started()->add_start_ns(1000);
  driver_->Handle(Now(), idle.node, message);
  TurnAll({&one_, &two_});
  EXPECT_THAT(idle.superseded, ElementsAre(0u));
}

TEST_F(DriverPartsRestartTest, WhatIsToldOfOtherNodesThanItCanHaveIsEnded) {
  ServeOn({Wide("a")}, {&one_, &two_});
  Started(&one_, {0});
  const pb::FromAgent right = RunsPart(&one_, 0);
  const auto wrong = [&](int which) {
    pb::FromAgent hello = right;
    pb::Gang* gang = hello.mutable_hello()->mutable_running(0)->mutable_gang();
    if (which == 0) hello.mutable_hello()->mutable_running(0)->clear_gang();
    if (which == 1) gang->add_node()->set_name("n3");
    if (which == 2) gang->set_here(1);
    if (which == 3) gang->set_here(7);
    if (which == 4) gang->mutable_node(1)->set_ranks(1);
    if (which == 5) gang->mutable_node(1)->set_name("n1");
    if (which == 6) gang->mutable_node(1)->clear_name();
    return hello;
  };
  for (int which = 0; which < 7; ++which) {
    SCOPED_TRACE(which);
    Restart();
    NodeAgent one("n1");
    Join(&one, wrong(which));
    EXPECT_THAT(one.superseded, ElementsAre(0u));
  }
}

TEST_F(DriverPartsRestartTest, OfTwoAttemptsThatAgentsTellOfTheLaterOneCounts) {
  ServeOn({Wide("a")}, {&one_, &two_});
  Started(&one_, {0});
  pb::FromAgent first = RunsPart(&one_, 0), second = RunsPart(&two_, 0);
  second.mutable_hello()->mutable_running(0)->set_attempt(2);
  second.mutable_hello()->mutable_running(0)->mutable_gang()->set_space("harrow-other");
  Restart();
  Join(&one_, first);
  Join(&two_, second);
  TurnAll({&one_, &two_});
  EXPECT_THAT(one_.superseded, Contains(0u));
  EXPECT_THAT(two_.superseded, Contains(0u)) << "the lead node has not told of it";
}

TEST_F(DriverPartsRestartTest, OfAnAttemptInPartsAndOneOnANodeAloneTheLaterOneCounts) {
  for (const bool in_parts : {true, false}) {
    SCOPED_TRACE(in_parts);
    Forget();
    one_ = NodeAgent("n1"), two_ = NodeAgent("n2"), three_ = NodeAgent("n3");
    SpreadOver(in_parts ? 2 : 1, {"n1", "n2", "n3"});
    Restart();
    pb::FromAgent alone = HelloOf(three_);
    Runs(&alone, 0, in_parts ? 1 : 2);
    if (in_parts) Join(&three_, alone);
    Join(&one_, RunsPart(&one_, 0));
    Join(&two_, RunsPart(&two_, 0));
    if (!in_parts) Join(&three_, alone);
    TurnAll({&one_, &two_, &three_});
    EXPECT_FALSE(driver_->gathering());
    EXPECT_THAT(one_.superseded, SizeIs(in_parts ? 0 : 1));
    EXPECT_THAT(two_.superseded, SizeIs(in_parts ? 0 : 1));
    EXPECT_THAT(three_.superseded, SizeIs(in_parts ? 1 : 0));
    EXPECT_EQ(driver_->scheduler().node(TaskId(0)), in_parts ? one_.node : three_.node);
    EXPECT_EQ(driver_->scheduler().attempts(TaskId(0)), 2u);
  }
}

}  // namespace
}  // namespace harrow::server
