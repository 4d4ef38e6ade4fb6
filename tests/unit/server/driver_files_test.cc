// Files on the nodes' own disks, as the server speaks of them with agents: names and contents of what the
// scheduler calls by numbers, and what becomes of a copy when its word is lost, late, or of an earlier
// attempt.

#include "unit/server/driver_fixture.h"

namespace harrow::server {
namespace {

std::string ObjectOf(char letter) {
  return std::string(17, letter);
}

struct FileAgent : Agent {
  std::vector<pb::CopyFile> copies;
  std::vector<uint32_t> refused{};
  std::vector<uint32_t> drops;
  std::map<uint32_t, std::vector<std::string>> peers;
};

class DriverFilesTest : public DriverTest {
 protected:
  void ServeLocal(std::vector<TinyTask> tasks, uint32_t nodes) {
    flow_ = TinyFlow(tasks);
    flow_.settings.files = config::Files::kLocal;
    options_.nodes_expected = nodes;
    Serve();
  }
  void Come(FileAgent* agent, const std::string& name, uint64_t incarnation) {
    pb::FromAgent hello = Hello(name, incarnation, 1);
    agent->channel = std::make_shared<FakeChannel>(&loop_, wire::Role::kAgent, "fake");
    const Result<NodeId> joined = driver_->Join(Now(), agent->channel, hello);
    ASSERT_TRUE(joined.ok());
    agent->node = *joined;
    pb::FromAgent where;
    where.add_peer_address(name + ":1");
    Tell(agent, where);
  }
  void Tell(FileAgent* agent, const pb::FromAgent& message) {
    driver_->Handle(Now(), agent->node, message);
    Look(agent);
  }
  /// What it has been sent.
  void Look(FileAgent* agent) {
    driver_->Flush(Now());
    for (const std::string& bytes : agent->channel->TakeSent()) {
      pb::ToAgent message;
      ASSERT_TRUE(message.ParseFromString(bytes));
      for (const pb::Peer& peer : message.peer())
        agent->peers[peer.node()] = {peer.address().begin(), peer.address().end()};
      for (const uint32_t drop : message.drop()) agent->drops.push_back(drop);
      for (const uint32_t refuse : message.refuse()) agent->refused.push_back(refuse);
      for (const pb::CopyFile& copy : message.copy()) agent->copies.push_back(copy);
      for (const pb::Task& task : message.start()) agent->tasks[task.id()] = task;
      for (const pb::AttemptId& attempt : message.take_back()) agent->taken_back.push_back(attempt.task());
    }
  }
  pb::FromAgent Note(uint32_t file, pb::FileNote::What what, char object, NodeId from = {}) {
    pb::FromAgent message;
    pb::FileNote* note = message.add_file();
    note->set_file(file);
    note->set_what(what);
    if (what == pb::FileNote::STORED) {
      note->set_object(ObjectOf(object));
      note->set_bytes(10);
      note->set_moved(10);
    }
    if (from) note->set_from(from.value + 1);
    return message;
  }
  pb::FromAgent Made(FileAgent* agent, uint32_t task, std::vector<std::pair<uint32_t, char>> files) {
    pb::FromAgent message = Ended(agent, {task});
    for (const auto& [file, object] : files) {
      pb::MadeFile* made = message.mutable_ended(0)->mutable_attempt(0)->add_made_file();
      made->set_file(file);
      if (object == 0) continue;
      made->set_object(ObjectOf(object));
      made->set_bytes(10);
    }
    return message;
  }
  uint32_t File(const char* name) { return flow_.graph.FindFile(name)->value; }
};

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
  EXPECT_EQ(one.peers[two.node.value], std::vector<std::string>{"n2:1"});
  EXPECT_EQ(two.peers[one.node.value], std::vector<std::string>{"n1:1"});
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
  ASSERT_TRUE(driver_->Join(Now(), agent.channel, hello).ok());
  Look(&agent);
  ASSERT_EQ(agent.copies.size(), 1u) << "it may not have heard of it";
  hello.mutable_hello()->add_held()->set_file(File("in"));
  hello.mutable_hello()->mutable_held(0)->set_object(ObjectOf('i'));
  agent.copies.clear();
  agent.channel = std::make_shared<FakeChannel>(&loop_, wire::Role::kAgent, "fake");
  ASSERT_TRUE(driver_->Join(Now(), agent.channel, hello).ok());
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
  ASSERT_TRUE(driver_->Join(Now(), agent.channel, hello).ok());
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
