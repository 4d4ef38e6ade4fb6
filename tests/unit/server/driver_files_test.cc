// Files on the nodes' own disks, as the server speaks of them with agents: names and contents of what the
// scheduler calls by numbers, and what becomes of a copy when its word is lost, late, or of an earlier
// attempt.

#include "unit/server/driver_files_fixture.h"

namespace harrow::server {
namespace {

TEST_F(DriverFilesTest, AnAgentMayHoldWhatTheFlowDoesNotHave) {
  ServeLocal({{"a", "x", {}, {"mid"}}, {"b", "x", {"mid"}}}, 1);
  pb::FromAgent hello = Hello("n1", 1, 1);
  for (const uint32_t file : {File("mid"), static_cast<uint32_t>(flow_.graph.file_count()), UINT32_MAX}) {
    pb::HeldFile* const held = hello.mutable_hello()->add_held();
    held->set_file(file);
    held->set_object(ObjectOf('m'));
    held->set_bytes(10);
  }
  FileAgent agent;
  agent.channel = std::make_shared<FakeChannel>(&loop_, wire::Role::kAgent, "fake");
  ASSERT_TRUE(Enter(agent.channel, hello).ok());
  Look(&agent);
  EXPECT_EQ(Tasks(agent), (std::set<uint32_t>{0})) << "nothing is known of what it holds of the flow";
}

TEST_F(DriverFilesTest, ATaskIsToldItsFilesAndWhatIsAResult) {
  graph::Profile keep;
  keep.keep = true;
  ServeLocal({{"a", "x", {"in", "/abs", "../up"}, {"mid", "out", "/elsewhere"}},
              {"b", "x", {"mid"}, {"kept"}, keep},
              {"c", "x", {"kept"}}},
             1);
  FileAgent agent;
  Come(&agent, "n1", 1);
  const pb::Task& a = agent.tasks.at(0);
  EXPECT_TRUE(a.sandbox());
  ASSERT_EQ(a.input_size(), 1) << "what lies elsewhere is used where it is";
  EXPECT_EQ(a.input(0).path(), "in");
  ASSERT_EQ(a.outputs_size(), 3);
  EXPECT_FALSE(a.output_result(0)) << "b reads it";
  EXPECT_TRUE(a.output_result(1)) << "nobody reads it";
  ASSERT_EQ(agent.copies.size(), 1u);
  EXPECT_EQ(agent.copies[0].path(), "in");
  EXPECT_EQ(agent.copies[0].from(), 0u);
  Tell(&agent, Made(&agent, 0, {{File("mid"), 'm'}, {File("out"), 'o'}}));
  EXPECT_TRUE(agent.tasks.at(1).output_result(0)) << "as it says";
  EXPECT_EQ(agent.drops, (std::vector<uint32_t>{File("out")})) << "it is where it belongs";
}

TEST_F(DriverFilesTest, WhatANewAgentOfTheNodeStillHoldsIsNotMadeAgain) {
  ServeLocal({{"a", "x", {}, {"mid"}}, {"b", "x", {}, {"other"}}, {"c", "x", {"mid", "other"}}}, 1);
  FileAgent agent;
  Come(&agent, "n1", 1);
  Tell(&agent, Made(&agent, 0, {{File("mid"), 'm'}}));
  Tell(&agent, Made(&agent, 1, {{File("other"), 'o'}}));
  ASSERT_TRUE(agent.tasks.contains(2));
  driver_->Disconnected(Now(), agent.node, agent.channel.get());
  FileAgent next;
  ComeWith(&next, "n1", 2, {{"mid", 'm'}, {"other", 'x'}});
  Look(&next);
  EXPECT_EQ(next.drops, (std::vector<uint32_t>{File("other")})) << "it is not what b made";
  EXPECT_FALSE(next.tasks.contains(0));
  ASSERT_TRUE(next.tasks.contains(1));
  EXPECT_FALSE(next.tasks.contains(2));
  Tell(&next, Made(&next, 1, {{File("other"), 'o'}}));
  EXPECT_TRUE(next.tasks.contains(2));
}

TEST_F(DriverFilesTest, WhatEarlierRunsLeftOnANodeIsTakenFromThere) {
  ServeLocal({{"a", "x", {"in"}}, {"b", "x", {"later"}}, {"c", "x", {}, {"made"}}}, 2);
  flow_.settings.submit_dir = "/home/me";
  Serve();
  FileAgent first, second;
  ComeWith(&first, "n1", 1, {},
           {{"/home/me/in", 'i'},
            {"/home/me/made", 'm'},
            {"/home/me/nobody's", 'n'},
            {"/home/you/later", 'l'},
            {"/home/me", 'x'}});
  ASSERT_EQ(first.copies.size(), 1u);
  EXPECT_EQ(first.copies[0].file(), File("in"));
  EXPECT_EQ(first.copies[0].path(), "in");
  EXPECT_EQ(first.copies[0].object(), ObjectOf('i'));
  EXPECT_TRUE(first.tasks.empty()) << "others may hold the rest";
  ComeWith(&second, "n2", 2, {}, {{"/home/me/later", 'l'}, {"/home/me/in", 'j'}});
  Look(&first);
  EXPECT_TRUE(first.tasks.contains(0));
  EXPECT_TRUE(second.tasks.contains(1));
  ASSERT_EQ(second.copies.size(), 1u) << "another content is not what the others have";
  EXPECT_EQ(second.copies[0].file(), File("later"));
  EXPECT_EQ(first.copies.size(), 1u) << "nothing is read";
}

TEST_F(DriverFilesTest, WhereEarlierRunsHaveBeenOthersAreWaitedForThoughTheFirstHoldsNothing) {
  ServeLocal({{"a", "x", {"in"}}, {"b", "x"}}, 2);
  driver_->Flush(Now());
  FileAgent first, second;
  ComeWith(&first, "n1", 1, {}, {{"", ' '}});
  EXPECT_THAT(Tasks(first), IsEmpty());
  ComeWith(&second, "n2", 2, {}, {{"", ' '}, {"/submit/in", 'i'}});
  Look(&first);
  EXPECT_THAT(Tasks(first), ElementsAre(1u));
  EXPECT_THAT(Tasks(second), ElementsAre(0u));
}

TEST_F(DriverFilesTest, NodesThatMayHoldInputsAreNotWaitedForForLong) {
  ServeLocal({{"a", "x", {"in"}}}, 2);
  flow_.settings.submit_dir = "/home/me";
  Serve();
  FileAgent first;
  ComeWith(&first, "n1", 1, {}, {{"/home/me/in", 'i'}});
  EXPECT_TRUE(first.tasks.empty());
  time_ += std::chrono::seconds(4);
  driver_->FindSilent(Now());
  Look(&first);
  EXPECT_TRUE(first.tasks.empty());
  time_ += std::chrono::seconds(1);
  driver_->Handle(Now(), first.node, pb::FromAgent());
  driver_->FindSilent(Now());
  Look(&first);
  EXPECT_TRUE(first.tasks.contains(0));
}

TEST_F(DriverFilesTest, TasksGoWhereTheirInputsWereFoundAlsoWhereTheServerWaitedForNodes) {
  ServeLocal({{"a", "x", {"in0"}}, {"b", "x", {"in1"}}}, 2);
  driver_->Flush(Now());
  FileAgent one, two;
  ComeWith(&one, "n1", 1, {}, {{"/submit/in1", 'b'}});
  EXPECT_THAT(Tasks(one), IsEmpty()) << "the other node may hold some, too";
  ComeWith(&two, "n2", 2, {}, {{"/submit/in0", 'a'}});
  Look(&one);
  EXPECT_THAT(Tasks(one), ElementsAre(1u));
  EXPECT_THAT(Tasks(two), ElementsAre(0u));
}

TEST_F(DriverFilesTest, ATaskWithoutFilesRunsAsEver) {
  ServeLocal({{"a", "x"}}, 1);
  FileAgent agent;
  Come(&agent, "n1", 1);
  EXPECT_FALSE(agent.tasks.at(0).sandbox());
}

TEST_F(DriverFilesTest, WhoAsksANodeThatReadsItselfWaitsUntilItIsKnownWhatTheFileIs) {
  ServeLocal({{"a", "x", {"in"}}, {"b", "x", {"in"}}}, 2);
  FileAgent one, two;
  Come(&one, "n1", 1);
  Come(&two, "n2", 2);
  Look(&one);
  ASSERT_EQ(one.copies.size(), 1u);
  EXPECT_EQ(one.copies[0].from(), 0u) << "read from the submit directory";
  EXPECT_TRUE(two.copies.empty()) << "once";
  Tell(&one, Note(File("in"), pb::FileNote::STORED, 'i'));
  Look(&two);
  ASSERT_EQ(two.copies.size(), 1u);
  EXPECT_EQ(two.copies[0].from(), one.node.value + 1);
  EXPECT_EQ(two.copies[0].object(), ObjectOf('i'));
  Tell(&two, Note(File("in"), pb::FileNote::STORED, 'i', one.node));
  EXPECT_EQ(driver_->FiguresAt(Now()).bytes_moved, 10u) << "between nodes";
  EXPECT_EQ(driver_->FiguresAt(Now()).shared_read_bytes, 10u) << "from the submit directory, once";
  ASSERT_EQ(journal_.history.copies.size(), 2u);
  EXPECT_EQ(journal_.history.copies[0].path, "in");
  EXPECT_FALSE(journal_.history.copies[0].from);
  EXPECT_EQ(journal_.history.copies[1].from, one.node);
  EXPECT_EQ(journal_.history.copies[1].to, two.node);
  EXPECT_TRUE(journal_.history.copies[1].task);
  EXPECT_NE(journal_.history.copies[0].task, journal_.history.copies[1].task) << "for whom they came";
}

TEST_F(DriverFilesTest, NodesAreToldOfThoseThatTheyGetFilesFromOrGiveThemTo) {
  using Addresses = std::vector<std::string>;
  ServeLocal({{"a", "x", {"in"}}, {"b", "x", {"in"}}, {"c", "sleep"}}, 3);
  FileAgent one, two, three;
  Come(&one, "n1", 1);
  Come(&two, "n2", 2);
  Come(&three, "n3", 3);
  Look(&one);
  Tell(&one, Note(File("in"), pb::FileNote::STORED, 'i'));
  Look(&two);
  Look(&three);
  EXPECT_THAT(one.peers, ElementsAre(Pair(two.node.value, Addresses{"n2:1"})));
  EXPECT_THAT(two.peers, ElementsAre(Pair(one.node.value, Addresses{"n1:1"})));
  EXPECT_THAT(three.peers, IsEmpty()) << "it has nothing to do with them";
  // What was on its way may be lost with the connection.
  driver_->Disconnected(Now(), two.node, two.channel.get());
  one.peers.clear();
  FileAgent again;
  Come(&again, "n2", 2);
  Look(&one);
  EXPECT_THAT(again.peers, ElementsAre(Pair(one.node.value, Addresses{"n1:1"})));
  EXPECT_THAT(one.peers, ElementsAre(Pair(two.node.value, Addresses{"n2:1"})));
  // Another agent: the one of before is nowhere, and this one is told of when it is needed.
  driver_->Disconnected(Now(), again.node, again.channel.get());
  FileAgent other;
  Come(&other, "n2", 4);
  Look(&one);
  EXPECT_THAT(one.peers, ElementsAre(Pair(two.node.value, ::testing::_)));
  EXPECT_THAT(three.peers, IsEmpty());
}

// A copy may be ordered before the source has said where it is to be found.
TEST_F(DriverFilesTest, WhoWasToGetFilesFromANodeIsToldWhereItIsWhenItSaysSo) {
  ServeLocal({{"a", "x", {"in"}}, {"b", "x", {"in"}}}, 2);
  FileAgent one, two;
  one.channel = std::make_shared<FakeChannel>(&loop_, wire::Role::kAgent, "fake");
  one.node = *Enter(one.channel, Hello("n1", 1, 1));
  Come(&two, "n2", 2);
  Look(&one);
  FileAgent& reads = one.copies.empty() ? two : one;
  Tell(&reads, Note(File("in"), pb::FileNote::STORED, 'i'));
  Look(&one);
  Look(&two);
  EXPECT_EQ(one.copies.size() + two.copies.size(), 2u);
  EXPECT_THAT(one.peers, IsEmpty());
  EXPECT_THAT(two.peers, IsEmpty());
  pb::FromAgent where;
  where.add_peer_address("n1:1");
  Tell(&one, where);
  Look(&two);
  EXPECT_EQ(one.peers.count(two.node.value), 1u);
  EXPECT_EQ(two.peers.count(one.node.value), 1u);
}

TEST_F(DriverFilesTest, WhatIsToldOfAFileTogetherWithItsReadersEndComesFirst) {
  ServeLocal({{"a", "x", {"in"}}}, 1);
  FileAgent agent;
  Come(&agent, "n1", 1);
  pb::FromAgent message = Note(File("in"), pb::FileNote::STORED, 'i');
  message.MergeFrom(Ended(&agent, {0}));
  Tell(&agent, message);
  ASSERT_EQ(journal_.history.copies.size(), 1u);
  EXPECT_EQ(journal_.history.copies[0].task, TaskId(0));
  ASSERT_EQ(journal_.history.attempts.size(), 1u);
  EXPECT_EQ(journal_.history.attempts[0].remote_bytes, 10) << "how large it is is known by then";
}

TEST_F(DriverFilesTest, WhoWasToGetItFromANodeThatCannotReadItReadsItself) {
  ServeLocal({{"a", "x", {"in"}}, {"b", "x", {"in"}}}, 2);
  FileAgent one, two;
  Come(&one, "n1", 1);
  Come(&two, "n2", 2);
  Tell(&one, Note(File("in"), pb::FileNote::UNREADABLE, 0));
  Look(&two);
  ASSERT_EQ(two.copies.size(), 1u);
  EXPECT_EQ(two.copies[0].from(), 0u);
}

TEST_F(DriverFilesTest, ACopyIsAskedForAgainWhenTheAgentComesBack) {
  ServeLocal({{"a", "x", {"in"}}}, 1);
  FileAgent agent;
  Come(&agent, "n1", 1);
  agent.copies.clear();
  driver_->Disconnected(Now(), agent.node, agent.channel.get());
  pb::FromAgent hello = Hello("n1", 1, 1);
  wire::SetId({TaskId(0), 1}, hello.mutable_hello()->add_queued());
  agent.channel = std::make_shared<FakeChannel>(&loop_, wire::Role::kAgent, "fake");
  ASSERT_TRUE(Enter(agent.channel, hello).ok());
  Look(&agent);
  ASSERT_EQ(agent.copies.size(), 1u) << "it may not have heard of it";
  hello.mutable_hello()->add_held()->set_file(File("in"));
  hello.mutable_hello()->mutable_held(0)->set_object(ObjectOf('i'));
  agent.copies.clear();
  agent.channel = std::make_shared<FakeChannel>(&loop_, wire::Role::kAgent, "fake");
  ASSERT_TRUE(Enter(agent.channel, hello).ok());
  Look(&agent);
  EXPECT_TRUE(agent.copies.empty()) << "it has it by now";
}

TEST_F(DriverFilesTest, ARefusalIsToldAgainWhenTheAgentComesBack) {
  ServeLocal({{"a", "x", {"in"}}}, 1);
  FileAgent agent;
  Come(&agent, "n1", 1);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(agent.refused.empty());
    Tell(&agent, Note(File("in"), pb::FileNote::NO_ROOM, 0));
    Watch(std::chrono::seconds(4), {&agent});
    Look(&agent);
  }
  ASSERT_EQ(agent.refused, (std::vector<uint32_t>{File("in")}));
  agent.refused.clear();
  driver_->Disconnected(Now(), agent.node, agent.channel.get());
  pb::FromAgent hello = Hello("n1", 1, 1);
  wire::SetId({TaskId(0), 1}, hello.mutable_hello()->add_queued());
  agent.channel = std::make_shared<FakeChannel>(&loop_, wire::Role::kAgent, "fake");
  ASSERT_TRUE(Enter(agent.channel, hello).ok());
  Look(&agent);
  EXPECT_EQ(agent.refused, (std::vector<uint32_t>{File("in")})) << "it may not have heard of it";
}

TEST_F(DriverFilesTest, WhatANodeHeldIsMadeAgainWhenItIsLostAndTheTaskStaysDone) {
  ServeLocal({{"a", "x", {}, {"mid"}}, {"b", "x", {"mid"}}}, 2);
  FileAgent one, two;
  Come(&one, "n1", 1);
  Come(&two, "n2", 2);
  Tell(&one, Made(&one, 0, {{File("mid"), 'm'}}));
  ASSERT_EQ(one.tasks.count(1), 1u);
  FileAgent again;
  Come(&again, "n1", 3);  // another agent on the node
  Silence(&one, std::chrono::seconds(5), true, {&two});
  Watch(std::chrono::seconds(40), {&two});
  Look(&two);
  Look(&again);
  EXPECT_EQ(two.tasks.count(0) + again.tasks.count(0), 1u) << "made again";
  EXPECT_EQ(Fates()[0], journal::TaskFate::kDone);
  EXPECT_EQ(driver_->FiguresAt(Now()).done, 1u);
}

// A remake of a done task is on no record: only the agents know of it when the server dies.
TEST_F(DriverFilesTest, ARemakeThatOutlivesItsServerGoesOnAndNobodyGetsItsNumber) {
  for (const bool heard_of : {true, false}) {
    Forget();
    ServeLocal({{"a", "x", {}, {"mid"}}, {"b", "x", {"mid"}}}, 1);
    FileAgent first, again;
    ASSERT_NO_FATAL_FAILURE(LoseWhatWasMade(&first, &again, "mid"));
    ASSERT_EQ(again.tasks.at(0).attempt(), 2u);
    Serve();
    FileAgent after;
    if (heard_of) {
      Join(&after, Running("n1", 2, 1, 0, 2));
      Look(&after);
      EXPECT_THAT(after.superseded, IsEmpty());
      EXPECT_THAT(after.tasks, IsEmpty());
      after.tasks[0].set_attempt(2);
      Tell(&after, Made(&after, 0, {{File("mid"), 'm'}}));
      EXPECT_EQ(after.tasks.count(1), 1u);
    } else {
      Come(&after, "n1", 3);
      ASSERT_EQ(after.tasks.count(0), 1u);
      EXPECT_EQ(after.tasks.at(0).attempt(), 3u);
      Tell(&after, Made(&after, 0, {{File("mid"), 'm'}}));
    }
    Tell(&after, Made(&after, 1, {}));
    EXPECT_TRUE(driver_->complete());
    EXPECT_EQ(driver_->FiguresAt(Now()).done, 2u);
  }
}

TEST_F(DriverFilesTest, ARemakeForWhichThereIsNoTimeStopsTheRun) {
  graph::Profile limited;
  limited.time_limit = std::chrono::hours(1);
  ServeLocal({{"a", "x", {}, {"mid"}, limited}, {"b", "x", {"mid"}}}, 1);
  FileAgent n1;
  Come(&n1, "n1", 1);
  Tell(&n1, Made(&n1, 0, {{File("mid"), 'm'}}));
  ASSERT_EQ(n1.tasks.count(1), 1u);
  driver_->EndTime(Now(), Now().wall + std::chrono::minutes(30));
  Tell(&n1, Note(File("mid"), pb::FileNote::GONE, 0));
  pb::FromAgent back;
  wire::SetId({TaskId(1), 1}, back.mutable_returned()->add_attempt());
  Tell(&n1, back);
  Look(&n1);
  const Figures f = driver_->FiguresAt(Now());
  EXPECT_TRUE(driver_->complete());
  EXPECT_EQ(f.open(), 1u);
  EXPECT_TRUE(driver_->out_of_time());
}

TEST_F(DriverFilesTest, ARemakeThatEndedWhileTheServerWasAwayUsesUpItsNumber) {
  ServeLocal({{"a", "x", {}, {"mid"}}, {"b", "x", {"mid"}}}, 1);
  FileAgent n1;
  Come(&n1, "n1", 1);
  Tell(&n1, Made(&n1, 0, {{File("mid"), 'm'}}));
  Tell(&n1, Note(File("mid"), pb::FileNote::GONE, 0));
  pb::FromAgent back;
  wire::SetId({TaskId(1), 1}, back.mutable_returned()->add_attempt());
  Tell(&n1, back);
  ASSERT_EQ(n1.tasks.at(0).attempt(), 2u);
  const pb::FromAgent failed = Ended(&n1, {0}, pb::Attempt::EXITED, 1);
  Serve();
  FileAgent after;
  Join(&after, Kept("n1", 1, 1, failed));
  Look(&after);
  time_ += std::chrono::seconds(10);
  driver_->Tick(Now());
  Look(&after);
  ASSERT_EQ(after.tasks.count(0), 1u);
  EXPECT_EQ(after.tasks.at(0).attempt(), 3u);
  // The connection breaks before that was acknowledged: the agent tells the end of the earlier one again.
  const uint32_t number = after.tasks.at(0).attempt();
  driver_->Disconnected(Now(), after.node, after.channel.get());
  FileAgent again;
  pb::FromAgent hello = Running("n1", 1, 1, 0, number);
  *hello.add_ended() = failed.ended(0);
  Join(&again, hello);
  time_ += std::chrono::seconds(10);
  driver_->Tick(Now());
  Look(&again);
  EXPECT_EQ(again.tasks.count(0), 0u) << "begins again beside itself, as " << again.tasks[0].attempt();
}

TEST_F(DriverFilesTest, AnUnwantedTaskThatCannotMakeItsOutputsAgainIsInNoFigure) {
  flow_ = TinyFlow({{"u", "x", {}, {"mid"}}, {"b", "x", {"mid"}}, {"c", "x"}});
  flow_.settings.files = config::Files::kLocal;
  flow_.settings.retries = 0;
  flow_.unwanted = {true, false, false};
  options_.nodes_expected = 1;
  Serve();
  FileAgent n1;
  Come(&n1, "n1", 1);
  for (int i = 0; i < 10; ++i) {
    if (n1.tasks.count(0) > 0) Tell(&n1, Ended(&n1, {0}, pb::Attempt::EXITED, 1));
    if (n1.tasks.count(2) > 0) Tell(&n1, Made(&n1, 2, {}));
    time_ += std::chrono::seconds(10);
    driver_->Tick(Now());
    driver_->FindSilent(Now());
    Look(&n1);
  }
  const Figures f = driver_->FiguresAt(Now());
  EXPECT_TRUE(driver_->complete());
  EXPECT_EQ(f.total, 2u);
  EXPECT_EQ(f.done, 1u);
  EXPECT_EQ(f.failed, 0u);
  EXPECT_EQ(f.skipped, 0u);
  EXPECT_EQ(f.open(), 1u);
}

TEST_F(DriverFilesTest, WhatIsDoneIsNotRunAgainAsALaterAttemptIsOut) {
  ServeLocal({{"a", "x", {}, {"mid"}}, {"b", "x", {"mid"}}}, 2);
  FileAgent n1, n2;
  Come(&n1, "n1", 1);
  Come(&n2, "n2", 2);
  Look(&n1);
  FileAgent& one = n1.tasks.count(0) > 0 ? n1 : n2;
  ASSERT_EQ(one.tasks.count(0), 1u);
  const bool first = &one == &n1;
  // Attempt 1 has ended, and its loss is not on disk; attempt 2 runs on the other node.
  const pb::FromAgent made = Made(&one, 0, {{File("mid"), 'm'}});
  Serve();
  FileAgent m1, m2;
  pb::FromAgent kept = Kept(first ? "n1" : "n2", first ? 1 : 2, 1, made);
  Join(&m1, kept);
  Join(&m2, Running(first ? "n2" : "n1", first ? 2 : 1, 1, 0, 2));
  Look(&m1);
  Look(&m2);
  EXPECT_EQ(m1.tasks.count(1) + m2.tasks.count(1), 1u) << "b waits for the second one";
  EXPECT_EQ(m2.superseded.size(), 1u);
  EXPECT_EQ(driver_->FiguresAt(Now()).done, 1u);
}

/// What lies in the submit directory by the name of what a task made is that where it is on record that it was copied there.
TEST_F(DriverFilesTest, OnlyWhatWasCopiedBackCountsAsBeingThere) {
  for (const bool recorded : {true, false}) {
    Forget();
    modified_.reset();
    ServeLocal({{"a", "x", {}, {"mid"}}, {"b", "x", {"mid"}}}, 1);
    FileAgent agent;
    Come(&agent, "n1", 1);
    pb::FromAgent made = Made(&agent, 0, {{File("mid"), 'm'}});
    made.mutable_ended(0)->mutable_attempt(0)->mutable_made_file(0)->set_shared(recorded);
    made.mutable_ended(0)->mutable_attempt(0)->mutable_made_file(0)->set_bytes(0);
    Tell(&agent, made);
    modified_ = Now().wall;  // by that name there is something
    Serve();
    FileAgent next;
    Come(&next, "n1", 2);  // whose store is empty
    Look(&next);
    EXPECT_EQ(next.tasks.contains(1), recorded);
    EXPECT_EQ(next.tasks.contains(0), !recorded) << "it is made again";
  }
}

TEST_F(DriverFilesTest, ABadReplicaIsDroppedByItsHolderAndAskedForNoMore) {
  ServeLocal({{"a", "x", {}, {"mid"}}, {"b", "x", {"mid"}}, {"c", "x", {"mid"}}, {"d", "x", {"mid"}}}, 3);
  FileAgent agents[3];
  for (uint32_t i = 0; i < 3; ++i) Come(&agents[i], "n" + std::to_string(i), i + 1);
  Tell(&agents[0], Made(&agents[0], 0, {{File("mid"), 'm'}}));
  Started(&agents[0], {agents[0].tasks.begin()->first});
  for (FileAgent& agent : agents) Look(&agent);
  Tell(&agents[1], Note(File("mid"), pb::FileNote::STORED, 'm', agents[0].node));
  Tell(&agents[2], Note(File("mid"), pb::FileNote::DAMAGED, 0, agents[0].node));
  Look(&agents[0]);
  EXPECT_EQ(agents[0].damaged, (std::vector<uint32_t>{File("mid")}));
  ASSERT_EQ(agents[2].copies.size(), 2u);
  EXPECT_EQ(agents[2].copies[1].from(), agents[1].node.value + 1);
  // The other one is no better: it is made again, and what was bad is nobody's source.
  Tell(&agents[2], Note(File("mid"), pb::FileNote::DAMAGED, 0, agents[1].node));
  for (FileAgent& agent : agents) Look(&agent);
  EXPECT_EQ(agents[1].damaged, (std::vector<uint32_t>{File("mid")}));
  EXPECT_EQ(agents[0].tasks.count(0) + agents[1].tasks.count(0) + agents[2].tasks.count(0), 0u)
      << "each has a task";
  EXPECT_EQ(agents[2].copies.size(), 2u);
}

TEST_F(DriverFilesTest, ADamagedContentIsDroppedWithAllFilesThatAreTheSame) {
  ServeLocal({{"a", "x", {}, {"mid", "same", "other"}},
              {"b", "x", {"mid"}},
              {"c", "x", {"mid"}},
              {"d", "x", {"mid", "same", "other"}}},
             3);
  FileAgent agents[3];
  for (uint32_t i = 0; i < 3; ++i) Come(&agents[i], "n" + std::to_string(i), i + 1);
  Tell(&agents[0], Made(&agents[0], 0, {{File("mid"), 'm'}, {File("same"), 'm'}, {File("other"), 'o'}}));
  Started(&agents[0], {agents[0].tasks.begin()->first});
  for (FileAgent& agent : agents) Look(&agent);
  ASSERT_FALSE(agents[1].copies.empty());
  Tell(&agents[1], Note(File("mid"), pb::FileNote::STORED, 'm', agents[0].node));
  Tell(&agents[2], Note(File("mid"), pb::FileNote::DAMAGED, 0, agents[0].node));
  Look(&agents[0]);
  EXPECT_EQ(agents[0].damaged, (std::vector<uint32_t>{File("mid"), File("same")}));
  EXPECT_TRUE(agents[0].drops.empty()) << "to be dropped is less";
  EXPECT_TRUE(agents[1].damaged.empty());
}

TEST_F(DriverFilesTest, WhatANodeHoldsThatServesNoFilesIsLost) {
  for (const bool serves : {false, true}) {
    ServeLocal({{"a", "x", {}, {"mid"}}, {"b", "x", {"mid"}}}, 2);
    FileAgent holder, other;
    pb::FromAgent hello = Hello("n0", 1, 1);
    pb::HeldFile* held = hello.mutable_hello()->add_held();
    held->set_file(File("mid"));
    held->set_object(ObjectOf('m'));
    held->set_bytes(10);
    holder.channel = std::make_shared<FakeChannel>(&loop_, wire::Role::kAgent, "fake");
    const Result<NodeId> joined = Enter(holder.channel, hello);
    ASSERT_TRUE(joined.ok());
    holder.node = *joined;
    pb::FromAgent unfit;
    if (serves) unfit.add_peer_address("n0:1");
    unfit.set_unfit("no port can be had");
    Tell(&holder, unfit);
    EXPECT_EQ(driver_->scheduler().HoldersOf(FileId(File("mid"))).size(), serves ? 1u : 0u);
  }
}

TEST_F(DriverFilesTest, CopiesToANodeThatKeepsNoFilesAreNotWaitedFor) {
  ServeLocal({{"a", "x", {"in"}}, {"b", "x", {"in"}}}, 2);
  FileAgent agents[2];
  for (uint32_t i = 0; i < 2; ++i) {
    agents[i].channel = std::make_shared<FakeChannel>(&loop_, wire::Role::kAgent, "fake");
    const Result<NodeId> joined =
        Enter(agents[i].channel, Hello("n" + std::to_string(i), i + 1, 1));
    ASSERT_TRUE(joined.ok());
    agents[i].node = *joined;
  }
  Look(&agents[0]);
  Look(&agents[1]);
  ASSERT_EQ(agents[0].copies.size(), 1u);
  ASSERT_TRUE(agents[1].copies.empty()) << "it is to get it from the other one";
  ASSERT_EQ(agents[1].tasks.size(), 1u);
  pb::FromAgent unfit;
  unfit.set_unfit("no port can be had");
  Tell(&agents[0], unfit);
  Look(&agents[1]);
  ASSERT_EQ(agents[1].copies.size(), 1u) << "nor does anybody wait for what it does not get";
  EXPECT_EQ(agents[1].copies[0].from(), 0u);
  agents[0].copies.clear();
  Tell(&agents[1], Note(File("in"), pb::FileNote::STORED, 'i'));
  Tell(&agents[0], unfit);  // a task that was sent to it would get the file from the other one
  EXPECT_TRUE(agents[0].copies.empty());
}

TEST_F(DriverFilesTest, WordOfASourceThatWasReplacedIsLate) {
  ServeLocal({{"a", "x", {}, {"mid"}}, {"b", "x", {"mid"}}, {"c", "x", {"mid"}}, {"d", "x", {"mid"}}}, 3);
  FileAgent agents[3];
  for (uint32_t i = 0; i < 3; ++i) Come(&agents[i], "n" + std::to_string(i), i + 1);
  Tell(&agents[0], Made(&agents[0], 0, {{File("mid"), 'm'}}));
  for (FileAgent& agent : agents) Look(&agent);
  ASSERT_EQ(agents[1].copies.size(), 1u);
  ASSERT_EQ(agents[2].copies.size(), 1u);
  Tell(&agents[1], Note(File("mid"), pb::FileNote::STORED, 'm', agents[0].node));
  Tell(&agents[2], Note(File("mid"), pb::FileNote::DAMAGED, 0, agents[0].node));
  ASSERT_EQ(agents[2].copies.size(), 2u);
  EXPECT_EQ(agents[2].copies[1].from(), agents[1].node.value + 1);
  Tell(&agents[2], Note(File("mid"), pb::FileNote::DAMAGED, 0, agents[0].node));
  EXPECT_EQ(agents[2].copies.size(), 2u);
  // What it was asked for is another content by now.
  Tell(&agents[2], Note(File("mid"), pb::FileNote::STORED, 'x', agents[1].node));
  EXPECT_EQ(agents[2].drops, (std::vector<uint32_t>{File("mid")}));
}

TEST_F(DriverFilesTest, WhatWasNotMadeIsNotBrought) {
  graph::Profile missing;
  missing.missing_ok = true;
  ServeLocal({{"a", "x", {}, {"mid"}, missing}, {"b", "x", {"mid"}}}, 1);
  FileAgent agent;
  Come(&agent, "n1", 1);
  Tell(&agent, Made(&agent, 0, {{File("mid"), 0}}));
  ASSERT_EQ(agent.tasks.count(1), 1u);
  EXPECT_EQ(agent.tasks.at(1).input_size(), 0);
  EXPECT_TRUE(agent.copies.empty());
}

TEST_F(DriverFilesTest, AFileBelowAnOutputDirectoryIsBroughtWithIt) {
  ServeLocal({{"a", "x", {}, {"dir"}}, {"b", "x", {"dir/in/it"}}}, 1);
  FileAgent agent;
  Come(&agent, "n1", 1);
  Tell(&agent, Made(&agent, 0, {{File("dir"), 'd'}}));
  ASSERT_EQ(agent.tasks.at(1).input_size(), 1);
  EXPECT_EQ(agent.tasks.at(1).input(0).file(), File("dir"));
  EXPECT_EQ(agent.tasks.at(1).input(0).path(), "dir/in/it");
  EXPECT_EQ(agent.tasks.at(1).input(0).inside(), "in/it");
}

}  // namespace
}  // namespace harrow::server
