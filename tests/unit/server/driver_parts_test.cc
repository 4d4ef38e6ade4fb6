// RunDriver: attempts of several nodes.
#include "unit/server/driver_parts_fixture.h"
#include "wire/decode.h"

namespace harrow::server {
namespace {

TEST_F(DriverPartsTest, EachNodeIsSentItsPart) {
  ServeOn({Wide("a", 5, 3, {"out"})}, {&one_, &two_, &three_});
  for (NodeAgent* agent : {&one_, &two_, &three_}) {
    SCOPED_TRACE(agent->name);
    ASSERT_EQ(Tasks(*agent), (std::set<uint32_t>{0}));
    EXPECT_THAT(agent->profiles, ElementsAre(0u));
    const pb::Task& task = agent->tasks[0];
    EXPECT_EQ(task.attempt(), 1u);
    EXPECT_EQ(task.command(), "x");
    EXPECT_EQ(task.outputs_size(), agent == &one_ ? 1 : 0) << "these are the lead node's business";
    const pb::Gang& gang = task.gang();
    EXPECT_EQ(gang.space(), "harrow-01010101010101010101010101010101");
    EXPECT_TRUE(gang.ends_together()) << "the lead node looks for outputs when all have ended";
    ASSERT_EQ(gang.node_size(), 3);
    EXPECT_EQ(gang.node(static_cast<int>(gang.here())).name(), agent->name);
    EXPECT_EQ(gang.node(static_cast<int>(gang.here())).node(), agent->node.value);
  }
  const pb::Gang& gang = one_.tasks[0].gang();
  EXPECT_EQ(gang.node(0).name(), "n1");
  EXPECT_EQ(gang.node(0).ranks(), 2u);
  EXPECT_EQ(gang.node(1).ranks(), 2u);
  EXPECT_EQ(gang.node(2).ranks(), 1u);
}

TEST_F(DriverPartsTest, ATaskWithoutRanksHasItsProcessOnTheLeadNode) {
  ServeOn({Wide("a", 0)}, {&one_, &two_});
  EXPECT_FALSE(two_.tasks[0].gang().ends_together()) << "it has no outputs";
  pb::ToAgent message;
  *message.add_start() = two_.tasks[0];
  for (int node = 0; node < 2; ++node) EXPECT_EQ(message.start(0).gang().node(node).ranks(), 0u);
  pb::ToAgent read;
  EXPECT_TRUE(wire::Decode(message.SerializeAsString(), &read).ok());
}

TEST_F(DriverPartsTest, ItsAgentsLearnWhereTheOthersAre) {
  Serve({Wide("a", 4)}, 2);
  std::vector<std::string> told;
  for (NodeAgent* agent : {&one_, &two_}) {
    pb::FromAgent hello = HelloOf(*agent);
    hello.add_peer_address(agent->name + ":1");
    agent->channel = std::make_shared<FakeChannel>(&loop_, wire::Role::kAgent, "fake");
    ASSERT_TRUE(Enter(agent->channel, hello).ok());
  }
  driver_->Flush(Now());
  for (NodeAgent* agent : {&one_, &two_}) {
    for (const std::string& bytes : agent->channel->TakeSent()) {
      pb::ToAgent message;
      ASSERT_TRUE(message.ParseFromString(bytes));
      for (const pb::Peer& peer : message.peer()) told.push_back(agent->name + " of " + peer.address(0));
    }
  }
  EXPECT_THAT(told, UnorderedElementsAre("n1 of n2:1", "n2 of n1:1"));
}

TEST_F(DriverPartsTest, ItEndsOnceWithTheLastOfItsParts) {
  ServeOn({Wide("a"), Wide("b")}, {&one_, &two_});
  Started(&one_, {0});
  Started(&two_, {0});
  pb::FromAgent first = PartEnded(&two_, 0, {.end_ns = 3000});
  pb::Attempt* attempt = first.mutable_ended(0)->mutable_attempt(0);
  attempt->mutable_usage()->set_user_us(7);
  attempt->mutable_usage()->set_system_us(5);
  attempt->mutable_usage()->set_max_rss_kib(-300);
  attempt->mutable_output()->set_file(9);
  attempt->mutable_output()->set_offset(16);
  attempt->mutable_output()->set_stdout_bytes(10);
  attempt->add_cores(3);
  driver_->Handle(Now(), two_.node, first);
  TurnAll({&one_, &two_});
  EXPECT_THAT(Records(), IsEmpty());
  EXPECT_THAT(Parts(), SizeIs(1)) << "it is safe at once";
  CommitAll();
  driver_->FindSilent(Now());
  TurnAll({&one_, &two_});
  EXPECT_EQ(two_.committed, 1u) << "so its agent need not keep it for as long as the others run";
  EXPECT_THAT(one_.superseded, IsEmpty());
  EXPECT_THAT(two_.tasks, IsEmpty()) << "its slots are kept";

  pb::FromAgent last = PartEnded(&one_, 0, {.end_ns = 4000, .start_ns = 900});
  attempt = last.mutable_ended(0)->mutable_attempt(0);
  attempt->mutable_usage()->set_user_us(30);
  attempt->mutable_usage()->set_max_rss_kib(100);
  attempt->mutable_output()->set_file(4);
  attempt->mutable_output()->set_offset(48);
  attempt->mutable_output()->set_stdout_bytes(1);
  attempt->mutable_output()->set_stderr_bytes(2);
  attempt->add_cores(1);
  driver_->Handle(Now(), one_.node, last);
  TurnAll({&one_, &two_});
  ASSERT_THAT(Records(), SizeIs(1));
  const journal::AttemptRecord& record = Records()[0];
  EXPECT_EQ(record.end, End::kExited);
  EXPECT_EQ(record.code, 0);
  EXPECT_EQ(record.node, one_.node);
  EXPECT_EQ(record.start_ns, 900);
  EXPECT_EQ(record.end_ns, 4000);
  EXPECT_EQ(record.user_us, 37);
  EXPECT_EQ(record.system_us, 5);
  EXPECT_EQ(record.max_rss_kib, -400);
  EXPECT_EQ(record.output_file, 4u);
  EXPECT_EQ(record.output_offset, 48u);
  EXPECT_EQ(record.stdout_bytes, 11u);
  EXPECT_EQ(record.stderr_bytes, 2u);
  EXPECT_EQ(record.cores, "1");
  EXPECT_EQ(record.message, "");
  ASSERT_THAT(Parts(), SizeIs(2));
  EXPECT_EQ(Parts()[0].part, 1u);
  EXPECT_EQ(Parts()[0].node, two_.node);
  EXPECT_EQ(Parts()[0].ranks, 2u);
  EXPECT_EQ(Parts()[0].nodes, 2u);
  EXPECT_EQ(Parts()[0].output_file, 9u);
  EXPECT_EQ(Parts()[0].cores, "3");
  EXPECT_EQ(Fates()[0], journal::TaskFate::kDone);
  ASSERT_EQ(Tasks(two_), (std::set<uint32_t>{1}));
  EXPECT_EQ(two_.tasks[1].gang().space(), "harrow-02020202020202020202020202020202")
      << "new for each attempt";
}

TEST_F(DriverPartsTest, WhatItTakesIsCountedOnAllOfItsNodes) {
  ServeOn({Wide("a")}, {&one_, &two_});
  Started(&two_, {0});
  pb::Progress progress;
  driver_->Snapshot(Now(), true, &progress);
  EXPECT_EQ(progress.node(0).running(), 0u);
  EXPECT_EQ(progress.node(1).running(), 1u);
  Started(&one_, {0});
  EndPart(&two_, 0, {.end_ns = int64_t{3'000'000'000}});
  driver_->Snapshot(Now(), true, &progress);
  EXPECT_EQ(progress.node(3).running(), 0u);
  EXPECT_EQ(progress.node(3).ended(), 1u);
  EndPart(&one_, 0, {.end_ns = int64_t{2'000'001'000}});
  TurnAll({&one_, &two_});
  EXPECT_NEAR(driver_->FiguresAt(Now()).core_seconds, 4 * 3.0, 1e-3) << "of four ranks";
}

TEST_F(DriverPartsTest, APartThatFailsEndsTheOthers) {
  ServeOn({Wide("a", 6, 3)}, {&one_, &two_, &three_});
  EndPart(&two_, 0, Exit(3, 2000, "rank 3 of 6"));
  TurnAll({&one_, &two_, &three_});
  EXPECT_THAT(one_.superseded, ElementsAre(0u));
  EXPECT_THAT(three_.superseded, ElementsAre(0u));
  EXPECT_THAT(two_.superseded, IsEmpty());
  EndPart(&one_, 0, kAsked);
  EndPart(&three_, 0, Exit(7, 1900, "rank 4 of 6 called MPI_Abort with 7"));
  TurnAll({&one_, &two_, &three_});
  ASSERT_THAT(Records(), SizeIs(1));
  EXPECT_EQ(Records()[0].end, End::kExited);
  EXPECT_EQ(Records()[0].code, 7) << "it was the first, though it was heard of later";
  EXPECT_EQ(Records()[0].message, "rank 4 of 6 on n3 called MPI_Abort with 7");
  EXPECT_EQ(Fates()[0], journal::TaskFate::kFailed);
  EXPECT_THAT(one_.superseded, SizeIs(1)) << "told once";
  EXPECT_TRUE(driver_->complete());
}

TEST_F(DriverPartsTest, ThePartWhoseProcessFailedFirstDecides) {
  ServeOn({Wide("a")}, {&one_, &two_});
  EndPart(&two_, 0, Exit(3, 2000, "rank 2 of 4 on n2"));
  pb::FromAgent other = PartEnded(&one_, 0, Exit(9, 5000, "rank 1 of 4 on n1"));
  other.mutable_ended(0)->mutable_attempt(0)->set_failed_ns(1900);
  driver_->Handle(Now(), one_.node, other);
  TurnAll({&one_, &two_});
  EXPECT_EQ(Records()[0].code, 9);
  EXPECT_EQ(Parts()[1].failed_ns, 1900);
}

TEST_F(DriverPartsTest, TheMessageNamesTheNode) {
  const std::pair<How, std::string> kEnds[] = {
      {Exit(1), "rank 1 of 2 on n2"},
      {{.end = pb::Attempt::SIGNALED, .code = 11},
       "rank 1 of 2 on n2 was killed by signal 11 (Segmentation fault)"},
      {{.end = pb::Attempt::SIGNALED, .code = 9, .message = "rank 1 of 2"},
       "rank 1 of 2 on n2 was killed by signal 9 (Killed)"},
      {{.end = pb::Attempt::NOT_STARTED, .message = "x: command not found"}, "node n2: x: command not found"},
      {{.end = pb::Attempt::TIMED_OUT}, ""},
      {Exit(1, 2000, "its output could not be written"), "node n2: its output could not be written"},
      {Exit(1, 2000, "rank 1 of 2 on n2 called MPI_Abort with 1"),
       "rank 1 of 2 on n2 called MPI_Abort with 1"},
      {{.end = pb::Attempt::SIGNALED,
        .code = 6,
        .message = "rank 1 of 2 on n2 was killed by signal 6 (Aborted)"},
       "rank 1 of 2 on n2 was killed by signal 6 (Aborted)"},
  };
  for (const auto& [how, message] : kEnds) {
    Forget();
    one_ = NodeAgent("n1");
    two_ = NodeAgent("n2");
    ServeOn({Wide("a", 2)}, {&one_, &two_});
    EndPart(&two_, 0, how);
    EndPart(&one_, 0, kAsked);
    TurnAll({&one_, &two_});
    ASSERT_THAT(Records(), SizeIs(1));
    EXPECT_EQ(Records()[0].message, message);
  }
}

TEST_F(DriverPartsTest, WhichRankItWasIsNotSaidWhereSeveralOrNoneWereThere) {
  for (const uint32_t ranks : {0u, 4u}) {
    Forget();
    one_ = NodeAgent("n1");
    two_ = NodeAgent("n2");
    ServeOn({Wide("a", ranks)}, {&one_, &two_});
    EndPart(&one_, 0, Exit(1));
    EndPart(&two_, 0, kAsked);
    TurnAll({&one_, &two_});
    ASSERT_THAT(Records(), SizeIs(1));
    EXPECT_EQ(Records()[0].code, 1);
    EXPECT_EQ(Records()[0].message, "");
  }
}

TEST_F(DriverPartsTest, PartsWithoutProcessesLetGoOfTheirNodesWhenTheLeadNodeIsDone) {
  for (const int code : {0, 4}) {
    SCOPED_TRACE(code);
    Forget();
    one_ = NodeAgent("n1");
    two_ = NodeAgent("n2");
    ServeOn({Wide("a", 0)}, {&one_, &two_});
    Started(&one_, {0});
    Started(&two_, {0});
    EXPECT_THAT(two_.superseded, IsEmpty());
    EndPart(&one_, 0, Exit(code));
    TurnAll({&one_, &two_});
    EXPECT_THAT(two_.superseded, ElementsAre(0u));
    EXPECT_THAT(Records(), IsEmpty()) << "the node is not free yet";
    EndPart(&two_, 0, kAsked);
    TurnAll({&one_, &two_});
    ASSERT_THAT(Records(), SizeIs(1));
    EXPECT_EQ(Records()[0].end, End::kExited);
    EXPECT_EQ(Records()[0].code, code);
    EXPECT_EQ(Records()[0].message, "");
    EXPECT_EQ(Parts()[1].end, End::kExited);
    EXPECT_EQ(Fates()[0], code == 0 ? journal::TaskFate::kDone : journal::TaskFate::kFailed);
  }
}

TEST_F(DriverPartsTest, PartsWithoutProcessesThatCannotBeHadEndIt) {
  ServeOn({Wide("a", 0)}, {&one_, &two_});
  Started(&one_, {0});
  EndPart(&two_, 0, {.end = pb::Attempt::NOT_STARTED, .message = "no room"});
  TurnAll({&one_, &two_});
  EXPECT_THAT(one_.superseded, ElementsAre(0u));
  EndPart(&one_, 0, kAsked);
  TurnAll({&one_, &two_});
  ASSERT_THAT(Records(), SizeIs(1));
  EXPECT_EQ(Records()[0].end, End::kNotStarted);
}

TEST_F(DriverPartsTest, APartThatIsLostByItselfIsNoFailure) {
  ServeOn({Wide("a")}, {&one_, &two_});
  EndPart(&two_, 0, {.end = pb::Attempt::LOST, .end_ns = 2000, .message = "harrow-pmix died"});
  EndPart(&one_, 0, Exit(1, 2100, "rank 0 of 4"));
  TurnAll({&one_, &two_});
  ASSERT_THAT(Records(), SizeIs(1));
  EXPECT_EQ(Records()[0].end, End::kLost);
  EXPECT_EQ(Records()[0].message, "node n2: harrow-pmix died");
  EXPECT_EQ(driver_->FiguresAt(Now()).losses, 1u);
  ASSERT_EQ(Tasks(one_), (std::set<uint32_t>{0})) << "tried again";
  EXPECT_EQ(one_.tasks[0].attempt(), 2u);
}

TEST_F(DriverPartsTest, AFollowersLossEndsItAndItBeginsAgainWhenAllAreOver) {
  ServeOn({Wide("a")}, {&one_, &two_, &three_});
  Started(&one_, {0});
  Started(&two_, {0});
  LoseNode(&two_, {&one_, &three_});
  EXPECT_THAT(one_.superseded, ElementsAre(0u)) << "told once, whoever says so";
  EXPECT_THAT(Tasks(three_), IsEmpty()) << "while its part may run";
  EndPart(&one_, 0, Exit(1, Now().wall_ns()));
  TurnAll({&one_, &three_});
  ASSERT_THAT(Records(), SizeIs(1));
  EXPECT_EQ(Records()[0].end, End::kLost) << "it failed after the node had gone";
  EXPECT_THAT(Records()[0].message, HasSubstr("node n2: nothing was heard of it"));
  ASSERT_THAT(Parts(), SizeIs(2));
  EXPECT_EQ(Parts()[0].end, End::kLost);
  EXPECT_EQ(Parts()[0].start_ns, 1000);
  ASSERT_EQ(Tasks(three_), (std::set<uint32_t>{0}));
  EXPECT_EQ(three_.tasks[0].attempt(), 2u);
}

TEST_F(DriverPartsTest, AfterTheLeadNodesLossTheNextAttemptWaitsForTheOtherParts) {
  ServeOn({Wide("a")}, {&one_, &two_, &three_});
  Started(&one_, {0});
  Started(&two_, {0});
  ASSERT_EQ(one_.tasks[0].gang().node(0).name(), "n1");
  LoseNode(&one_, {&two_, &three_});
  EXPECT_THAT(two_.superseded, ElementsAre(0u));
  EXPECT_EQ(two_.tasks[0].attempt(), 1u) << "another part of the attempt before runs there";
  EXPECT_THAT(Tasks(three_), IsEmpty());
  EndPart(&two_, 0, kAsked);
  TurnAll({&two_, &three_});
  ASSERT_THAT(Records(), SizeIs(1));
  EXPECT_EQ(Records()[0].end, End::kLost);
  EXPECT_EQ(Records()[0].node, one_.node);
  ASSERT_EQ(Tasks(three_), (std::set<uint32_t>{0}));
  EXPECT_EQ(two_.tasks[0].attempt(), 2u);
  EndPart(&two_, 0);
  EndPart(&three_, 0);
  TurnAll({&two_, &three_});
  EXPECT_EQ(Fates()[0], journal::TaskFate::kDone);
  EXPECT_THAT(Attempts(), ElementsAre(std::pair(0u, 1u), std::pair(0u, 2u)));
  EXPECT_TRUE(driver_->complete());
}

TEST_F(DriverPartsTest, TheLeadNodesLossCountsThoughItsPartHadEnded) {
  ServeOn({Wide("a")}, {&one_, &two_, &three_});
  EndPart(&one_, 0);
  TurnAll({&one_});
  LoseNode(&one_, {&two_, &three_});
  EXPECT_THAT(two_.superseded, ElementsAre(0u));
  EndPart(&two_, 0, kAsked);
  TurnAll({&two_, &three_});
  ASSERT_THAT(Records(), SizeIs(1));
  EXPECT_EQ(Records()[0].end, End::kLost);
  EXPECT_THAT(Records()[0].message, HasSubstr("node n1: nothing was heard of it"));
  EXPECT_EQ(two_.tasks[0].attempt(), 2u);
}

TEST_F(DriverPartsTest, WhatWaitsForThePartsOfTheAttemptBeforeCanBeCancelled) {
  ServeOn({Wide("a")}, {&one_, &two_, &three_});
  Started(&one_, {0});
  Started(&two_, {0});
  LoseNode(&one_, {&two_, &three_});
  driver_->Cancel({TaskId(0)});
  TurnAll({&two_, &three_});
  EXPECT_EQ(Fates()[0], journal::TaskFate::kCancelled);
  EndPart(&two_, 0, kAsked);
  TurnAll({&two_, &three_});
  EXPECT_THAT(Tasks(three_), IsEmpty());
  EXPECT_THAT(Attempts(), ElementsAre(std::pair(0u, 1u)));
}

TEST_F(DriverPartsTest, WhatWaitsForThePartsOfTheAttemptBeforeMayLoseItsNodes) {
  NodeAgent four("n4");
  for (const bool lead : {true, false}) {
    SCOPED_TRACE(lead);
    Forget();
    one_ = NodeAgent("n1"), two_ = NodeAgent("n2"), three_ = NodeAgent("n3"), four = NodeAgent("n4");
    ServeOn({Wide("a", 4, 2)}, {&one_, &two_, &three_, &four});
    Started(&one_, {0});
    Started(&two_, {0});
    LoseNode(&one_, {&two_, &three_, &four});
    // The next attempt is for n2 and n3, or n3 and n4, as the scheduler sees it; it waits for n2.
    NodeAgent& gone = lead ? three_ : four;
    Agents left = {&two_, lead ? &four : &three_};
    LoseNode(&gone, left);
    EndPart(&two_, 0, kAsked);
    for (int second = 0; second < 5; ++second) {
      time_ += std::chrono::seconds(1);
      for (NodeAgent* agent : left) driver_->Handle(Now(), agent->node, pb::FromAgent());
      driver_->FindSilent(Now());
      TurnAll(left);
    }
    for (NodeAgent* agent : left) {
      ASSERT_EQ(Tasks(*agent), (std::set<uint32_t>{0})) << agent->name;
      EXPECT_GE(agent->tasks[0].attempt(), 2u);
    }
    EXPECT_EQ(left[0]->tasks[0].gang().space(), left[1]->tasks[0].gang().space());
    for (NodeAgent* agent : left) EndPart(agent, 0);
    TurnAll(left);
    EXPECT_EQ(Fates()[0], journal::TaskFate::kDone);
  }
}

TEST_F(DriverPartsTest, ALatePartOfALostAttemptIsDroppedAndAcknowledged) {
  ServeOn({Wide("a")}, {&one_, &two_, &three_});
  Started(&one_, {0});
  Started(&two_, {0});
  const pb::FromAgent kept = PartEnded(&two_, 0, kWell);
  const pb::Task sent = one_.tasks[0];
  LoseNode(&two_, {&one_, &three_});
  EndPart(&one_, 0, kAsked);
  TurnAll({&one_, &three_});
  ASSERT_THAT(Records(), SizeIs(1));
  const size_t parts = Parts().size();
  pb::FromAgent hello = HelloOf(two_);
  *hello.add_ended() = kept.ended(0);
  Join(&two_, hello);
  CommitAll();
  driver_->FindSilent(Now());
  TurnAll({&two_});
  EXPECT_EQ(two_.committed, 1u);
  EXPECT_THAT(Records(), SizeIs(1));
  EXPECT_THAT(Parts(), SizeIs(parts));
}

TEST_F(DriverPartsTest, APartThatIsHeardOfAgainAfterItWasLostIsEnded) {
  ServeOn({Wide("a")}, {&one_, &two_, &three_});
  Started(&one_, {0});
  Started(&two_, {0});
  const pb::FromAgent hello = RunsPart(&two_, 0);
  LoseNode(&two_, {&one_, &three_});
  Join(&two_, hello);
  EXPECT_THAT(two_.superseded, ElementsAre(0u)) << "while another part runs";
  EndPart(&one_, 0, kAsked);
  TurnAll({&one_, &three_});
  two_.superseded.clear();
  Join(&two_, hello);
  EXPECT_THAT(two_.superseded, ElementsAre(0u)) << "and afterwards";
}

TEST_F(DriverPartsTest, AnAgentThatIsStartedAgainLosesItsPart) {
  ServeOn({Wide("a")}, {&one_, &two_});
  Started(&one_, {0});
  Started(&two_, {0});
  driver_->Disconnected(Now(), two_.node, two_.channel.get());
  two_.incarnation = 2;
  two_.tasks.clear();
  Join(&two_, HelloOf(two_));
  TurnAll({&one_, &two_});
  EXPECT_THAT(one_.superseded, ElementsAre(0u));
  EXPECT_THAT(Tasks(two_), IsEmpty());
  EndPart(&one_, 0, kAsked);
  TurnAll({&one_, &two_});
  EXPECT_EQ(Records()[0].end, End::kLost);
  EXPECT_EQ(two_.tasks[0].attempt(), 2u);
}

TEST_F(DriverPartsTest, WhatDidNotArriveAtOneNodeBeginsAgain) {
  ServeOn({Wide("a")}, {&one_, &two_});
  driver_->Disconnected(Now(), two_.node, two_.channel.get());
  two_.tasks.clear();
  Join(&two_, HelloOf(two_));  // the same agent, which has nothing
  TurnAll({&one_, &two_});
  EXPECT_THAT(one_.superseded, ElementsAre(0u));
  EndPart(&one_, 0, {.end = pb::Attempt::LOST, .end_ns = 0, .start_ns = 0});
  TurnAll({&one_, &two_});
  EXPECT_EQ(two_.tasks[0].attempt(), 2u);
}

TEST_F(DriverPartsTest, WhatIsTakenBackAtOneNodeBeginsAgain) {
  ServeOn({Wide("a")}, {&one_, &two_});
  pb::FromAgent returned;
  wire::SetId({TaskId(0), 1}, returned.mutable_returned()->add_attempt());
  two_.tasks.clear();
  driver_->Handle(Now(), two_.node, returned);
  TurnAll({&one_, &two_});
  EXPECT_THAT(one_.superseded, ElementsAre(0u));
  EndPart(&one_, 0, kAsked);
  TurnAll({&one_, &two_});
  EXPECT_EQ(one_.tasks[0].attempt(), 2u);
}

TEST_F(DriverPartsTest, WhoMayNotHaveHeardThatItIsToEndIsToldAgain) {
  ServeOn({Wide("a")}, {&one_, &two_});
  Started(&one_, {0});
  Started(&two_, {0});
  EndPart(&two_, 0, Exit(1));
  driver_->Disconnected(Now(), one_.node, one_.channel.get());
  one_.channel->TakeSent();
  one_.superseded.clear();
  Join(&one_, RunsPart(&one_, 0));
  EXPECT_THAT(one_.superseded, Contains(0u));
  driver_->Cancel({TaskId(0)});
  TurnAll({&one_});
  EXPECT_THAT(one_.cancelled, IsEmpty()) << "of two reasons the first counts";
}

TEST_F(DriverPartsTest, ACancelledTaskEndsOnAllItsNodes) {
  ServeOn({Wide("a")}, {&one_, &two_});
  Started(&one_, {0});
  Started(&two_, {0});
  driver_->Cancel({TaskId(0)});
  TurnAll({&one_, &two_});
  EXPECT_THAT(one_.cancelled, ElementsAre(0u));
  EXPECT_THAT(two_.cancelled, ElementsAre(0u));
  EndPart(&one_, 0, {.end = pb::Attempt::CANCELLED});
  TurnAll({&one_, &two_});
  EXPECT_THAT(two_.superseded, IsEmpty());
  EndPart(&two_, 0, Exit(1, 2500));
  TurnAll({&one_, &two_});
  EXPECT_EQ(Records()[0].end, End::kCancelled);
  EXPECT_EQ(Fates()[0], journal::TaskFate::kCancelled);
}

TEST_F(DriverPartsTest, AnInterruptedRunEndsThemOnAllTheirNodes) {
  ServeOn({Wide("a"), Wide("b")}, {&one_, &two_});
  Started(&one_, {0});
  Started(&two_, {0});
  driver_->Interrupt(Now());
  TurnAll({&one_, &two_});
  EXPECT_THAT(one_.cancelled, ElementsAre(0u));
  EXPECT_THAT(two_.cancelled, ElementsAre(0u));
  two_.cancelled.clear();
  Join(&two_, RunsPart(&two_, 0));
  EXPECT_THAT(two_.cancelled, Contains(0u)) << "it may not have heard";
  EndPart(&one_, 0, {.end = pb::Attempt::INTERRUPTED});
  EndPart(&two_, 0, {.end = pb::Attempt::INTERRUPTED});
  TurnAll({&one_, &two_});
  EXPECT_EQ(Records()[0].end, End::kInterrupted);
  EXPECT_THAT(Fates(), IsEmpty());
  EXPECT_TRUE(driver_->complete());
}

TEST_F(DriverPartsTest, AnInterruptedRunStartsNothingThatWaited) {
  ServeOn({Wide("a")}, {&one_, &two_, &three_});
  Started(&one_, {0});
  Started(&two_, {0});
  LoseNode(&one_, {&two_, &three_});
  driver_->Interrupt(Now());
  TurnAll({&two_, &three_});
  EXPECT_TRUE(driver_->complete());
  driver_->RecordEnd(Now());
  EXPECT_THAT(Attempts(), ElementsAre(std::pair(0u, 1u))) << "though its part at n2 has not ended";
  EXPECT_EQ(Records()[0].end, End::kLost);
  EXPECT_THAT(Tasks(three_), IsEmpty());
}

TEST_F(DriverPartsTest, AnAgentThatEndsLosesItsPart) {
  ServeOn({Wide("a")}, {&one_, &two_});
  Started(&one_, {0});
  Started(&two_, {0});
  EndPart(&two_, 0, {.end = pb::Attempt::INTERRUPTED});
  TurnAll({&one_, &two_});
  EXPECT_TRUE(two_.shut_down);
  EXPECT_THAT(one_.superseded, ElementsAre(0u));
  EndPart(&one_, 0, kAsked);
  TurnAll({&one_, &two_});
  EXPECT_EQ(Records()[0].end, End::kInterrupted);
  EXPECT_EQ(driver_->scheduler().losses(TaskId(0)), 1u);
  EXPECT_EQ(driver_->FiguresAt(Now()).losses, 0u);
}

TEST_F(DriverPartsTest, WhatItMadeIsRemovedBeforeTheNextAttempt) {
  Make({Wide("a", 4, 2, {"out"})}, 2);
  flow_.settings.retries = 1;
  Serve();
  for (NodeAgent* agent : {&one_, &two_}) {
    pb::FromAgent hello = HelloOf(*agent);
    hello.mutable_hello()->set_output_file(agent == &one_ ? 5 : 6);
    Join(agent, hello);
  }
  TurnAll({&one_, &two_});
  made_of_[5] = {{0, {.task = 0, .attempt = 1, .begin_ns = 70, .end_ns = 90, .found = {0}}}};
  time_ += std::chrono::hours(1);
  EndPart(&one_, 0);  // well: it tells nothing of its outputs
  EndPart(&two_, 0, Exit(1, int64_t{3'000'000'000'000}, "rank 2 of 4"));
  TurnAll({&one_, &two_});
  ASSERT_EQ(one_.tasks[0].attempt(), 2u);
  EXPECT_EQ(one_.tasks[0].earlier().begin_ns(), 70);
  EXPECT_THAT(one_.tasks[0].earlier().found(), ElementsAre(0u));
  EXPECT_FALSE(two_.tasks[0].has_earlier());
}

TEST_F(DriverPartsTest, ExplainNamesAllNodes) {
  ServeOn({Wide("a")}, {&one_, &two_});
  EXPECT_THAT(driver_->Explain(TaskId(0)), HasSubstr("nodes: n1 n2\n"));
}

TEST_F(DriverPartsTest, MoreNodesThanThereAreAreSaidToBeTooMany) {
  TinyTask task = Wide("a", 8, 4);
  task.profile.shape.cores = 2;
  ServeOn({task}, {&one_, &two_});
  ASSERT_THAT(Records(), SizeIs(1));
  EXPECT_EQ(Records()[0].message,
            "no 4 nodes of the allocation can give what it asks for on each of them: 2 cores");
}

}  // namespace
}  // namespace harrow::server
