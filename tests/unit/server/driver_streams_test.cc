#include "unit/server/driver_fixture.h"

namespace harrow::server {
namespace {

constexpr uint32_t kWriter = 0, kReader = 1;

class DriverStreamsTest : public DriverTest {
 protected:
  void MakeStreams(uint32_t nodes = 1) {
    Make({{"w", "x"}, {"r", "x"}}, nodes);
    const StreamId stream = flow_.graph.AddStream("s");
    flow_.graph.SetSplit(stream);
    flow_.graph.SetRecords(stream, kZeroEnded);
    flow_.graph.AddWriter(stream, TaskId(kWriter));
    flow_.graph.AddReader(stream, TaskId(kReader));
    flow_.graph.AddDependency(TaskId(kWriter), TaskId(kReader), graph::WaitsFor::kStart);
    ASSERT_TRUE(flow_.graph.Seal().ok());
    Remake();
    driver_->Begin(Now());
  }
  /// The reader has succeeded, and read that attempt of the writer.
  pb::FromAgent ReaderEnded(Agent* agent, uint32_t writer_attempt) {
    pb::FromAgent message = Ended(agent, {kReader});
    pb::StreamSource* read = message.mutable_ended(0)->mutable_attempt(0)->add_read();
    wire::SetId({TaskId(kWriter), writer_attempt}, read->mutable_writer());
    return message;
  }
  static pb::FromAgent Listening(pb::FromAgent hello, const std::string& address) {
    hello.add_peer_address(address);
    return hello;
  }
};

TEST_F(DriverStreamsTest, AReaderComesWithItsSources) {
  MakeStreams(2);
  Agent one, two;
  Join(&one, Listening(Hello("n1", 1, 1), "one:1"));
  Join(&two, Listening(Hello("n2", 2, 1), "two:2"));
  Agent& writes = one.tasks.contains(kWriter) ? one : two;
  Agent& reads = one.tasks.contains(kWriter) ? two : one;
  EXPECT_TRUE(writes.tasks[kWriter].writes_streams());
  Started(&writes, {kWriter});
  Turn(&reads);
  ASSERT_TRUE(reads.tasks.contains(kReader));
  const pb::Task& task = reads.tasks[kReader];
  EXPECT_FALSE(task.writes_streams());
  ASSERT_EQ(task.source_size(), 1);
  const pb::StreamSource& source = task.source(0);
  EXPECT_EQ(source.stream(), 0u);
  EXPECT_EQ(wire::IdOf(source.writer()), (AttemptId{TaskId(kWriter), 1}));
  EXPECT_EQ(source.node(), writes.node.value + 1);
  EXPECT_TRUE(source.split());
  EXPECT_EQ(source.records(), kZeroEnded);
  EXPECT_FALSE(source.gone());
  EXPECT_TRUE(reads.sources.empty());
  EXPECT_EQ(reads.peers.size(), 1u) << "it knows where the other one listens";
}

TEST_F(DriverStreamsTest, WhatChangesInTheInstantOfItsStartComesAfterTheTask) {
  // The reader of a stream that is held open gets the slot of its writer, which another task wants, too: it is to begin anew at once.
  Make({{"w", "x"}, {"r", "x"}, {"p", "x"}}, 1);
  const StreamId stream = flow_.graph.AddStream("s");
  flow_.graph.HoldStream(stream, {});
  flow_.graph.AddWriter(stream, TaskId(kWriter));
  flow_.graph.AddReader(stream, TaskId(kReader));
  flow_.graph.AddDependency(TaskId(kWriter), TaskId(kReader), graph::WaitsFor::kStart);
  flow_.graph.AddDependency(TaskId(kWriter), TaskId(2), graph::WaitsFor::kEnd);
  ASSERT_TRUE(flow_.graph.Seal().ok());
  Remake();
  driver_->Begin(Now());
  Agent one;
  Join(&one, Hello("n1", 1, 1));
  Started(&one, {kWriter});
  Turn(&one);
  End(&one, {kWriter});
  Turn(&one);
  ASSERT_TRUE(one.tasks.contains(kReader));
  const pb::Task& task = one.tasks[kReader];
  ASSERT_EQ(task.source_size(), 2) << "one that is told twice is read twice";
  EXPECT_NE(task.source(0).open(), task.source(1).open());
  for (const pb::StreamSource& source : task.source()) EXPECT_FALSE(source.gone());
  bool yields = false;
  for (const pb::SourceChanged& changed : one.sources) yields |= changed.source().open() && changed.source().gone();
  EXPECT_TRUE(yields);
}

TEST_F(DriverStreamsTest, AReaderIsDoneWhenItsWriterIs) {
  MakeStreams();
  Agent agent;
  Join(&agent, Hello("n1", 1, 2));
  Started(&agent, {kWriter});
  driver_->Handle(Now(), agent.node, ReaderEnded(&agent, 1));
  Turn(&agent);
  EXPECT_TRUE(Fates().empty());
  EXPECT_THAT(Attempts(), ElementsAre(Pair(kReader, 1u)));
  EXPECT_THAT(agent.unread, ElementsAre(AttemptId{TaskId(kWriter), 1}));
  End(&agent, {kWriter}, pb::Attempt::SIGNALED, 13);
  EXPECT_EQ(Fates(), (std::map<uint32_t, journal::TaskFate>{{kWriter, journal::TaskFate::kDone},
                                                            {kReader, journal::TaskFate::kDone}}));
  EXPECT_TRUE(driver_->complete());
}

TEST_F(DriverStreamsTest, WhatIsVoidIsToldAndCostsNothing) {
  flow_.settings.retries = 0;
  MakeStreams();
  flow_.settings.retries = 1;
  Remake();
  driver_->Begin(Now());
  Agent agent;
  Join(&agent, Hello("n1", 1, 2));
  Started(&agent, {kWriter});
  Started(&agent, {kReader});
  End(&agent, {kWriter}, pb::Attempt::EXITED, 1);
  ASSERT_EQ(agent.sources.size(), 1u);
  EXPECT_EQ(wire::IdOf(agent.sources[0].reader()), (AttemptId{TaskId(kReader), 1}));
  EXPECT_EQ(agent.sources[0].source().node(), 0u);
  EXPECT_FALSE(agent.sources[0].source().gone());
  Started(&agent, {kWriter});
  ASSERT_EQ(agent.sources.size(), 2u);
  EXPECT_EQ(wire::IdOf(agent.sources[1].source().writer()), (AttemptId{TaskId(kWriter), 2}));
  for (uint32_t n = 1; n <= 3; ++n) {
    EXPECT_EQ(agent.tasks[kReader].attempt(), n);
    End(&agent, {kReader}, pb::Attempt::REWOUND);
    if (n == 1) continue;
    // It could not read although nothing had changed: that is a loss, and waits.
    time_ += std::chrono::seconds(8);
    driver_->FindSilent(Now());
    Turn(&agent);
  }
  EXPECT_EQ(journal_.history.attempts.back().end, journal::End::kRewound);
  EXPECT_TRUE(Fates().empty());
}

TEST_F(DriverStreamsTest, AServerAfterACrashFindsWhatWasWrittenAndDoesNotTakeAHeldReaderForDone) {
  MakeStreams();
  Agent agent;
  Join(&agent, Hello("n1", 1, 2));
  Started(&agent, {kWriter});
  driver_->Handle(Now(), agent.node, ReaderEnded(&agent, 1));
  Turn(&agent);
  options_.restarted = true;
  Serve();
  EXPECT_TRUE(Fates().empty()) << "what it has read may be void yet";
  pb::FromAgent hello = Running("n1", 1, 2, kWriter, 1);
  Join(&agent, hello);
  driver_->Handle(Now(), agent.node, hello);
  Turn(&agent);
  EXPECT_EQ(agent.tasks[kReader].attempt(), 2u) << "it runs once more";
  EXPECT_EQ(agent.tasks[kReader].source_size(), 1);
  agent.tasks[kWriter].set_attempt(1);
  End(&agent, {kWriter});
  EXPECT_EQ(Fates(), (std::map<uint32_t, journal::TaskFate>{{kWriter, journal::TaskFate::kDone}}));
  // One more crash: the agent holds what was written, and runs the reader.
  Serve();
  hello = Running("n1", 1, 2, kReader, 2);
  wire::SetId({TaskId(kWriter), 1}, hello.mutable_hello()->add_written());
  agent.sources.clear();
  Join(&agent, hello);
  driver_->Handle(Now(), agent.node, hello);
  Turn(&agent);
  ASSERT_EQ(agent.sources.size(), 1u) << "it is told what it reads";
  EXPECT_EQ(agent.sources[0].source().node(), agent.node.value + 1);
  EXPECT_FALSE(agent.tasks.contains(kWriter)) << "nobody has to write it again";
  agent.tasks[kReader].set_attempt(2);
  driver_->Handle(Now(), agent.node, ReaderEnded(&agent, 1));
  Turn(&agent);
  EXPECT_EQ(Fates()[kReader], journal::TaskFate::kDone);
  EXPECT_THAT(agent.not_wanted, ElementsAre(AttemptId{TaskId(kWriter), 1}));
  EXPECT_TRUE(driver_->complete());
}

}  // namespace
}  // namespace harrow::server
