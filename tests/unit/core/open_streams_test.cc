// Streams that are held open, and tasks that are connected to them while they run.
//
// HARROW_SEEDS makes it longer (HARROW_LONG=1: 20 000); HARROW_SEED runs one again.

#include <cstdlib>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "unit/core/stream_world.h"

namespace harrow::core {
namespace {

TEST(OpenStreams, RandomNetsThatGrowEndAndReadWhatCounts) {
  const char* const one = std::getenv("HARROW_SEED");
  const char* const many = std::getenv("HARROW_SEEDS");
  const uint64_t first = one ? std::strtoull(one, nullptr, 10) : 1;
  const uint64_t count = one ? 1 : many ? std::strtoull(many, nullptr, 10) : std::getenv("HARROW_LONG") ? 20000 : 600;
  Happened happened;
  test::Trail trail("core.open_streams");
  for (uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE("HARROW_SEED=" + std::to_string(seed));
    World world(seed, &happened, true);
    world.Run();
    if (::testing::Test::HasFailure()) return;
  }
  if (one) return;
  if (count == 600) trail.Compare();
  EXPECT_GT(happened.joined, count);
  EXPECT_GT(happened.refused, 0u);
  EXPECT_GT(happened.opened, 0u);
  EXPECT_GT(happened.yielded, 0u);
  EXPECT_GT(happened.missed, 0u);
  EXPECT_GT(happened.late, 0u);
  EXPECT_GT(happened.rewound, 0u);
  EXPECT_GT(happened.done, count);
}

class OpenStreamsTest : public StreamsTest {
 protected:
  /// Connects a new task.
  TaskId Connect(const std::string& name, StreamId stream, bool writes, std::vector<Event> after = {}) {
    const TaskId id = AddTask(&graph, name);
    const graph::Stream& of = graph.streams()[stream.value];
    for (const TaskId other : std::vector<TaskId>(writes ? of.readers : of.writers))
      writes ? graph.AddDependency(id, other, WaitsFor::kStart) : graph.AddDependency(other, id, WaitsFor::kStart);
    writes ? graph.AddWriter(stream, id) : graph.AddReader(stream, id);
    EXPECT_TRUE(graph.Seal().ok());
    after.insert(after.begin(), TasksAdded{id, 1});
    Tell(after);
    return id;
  }
  /// On the only slot: its writer has ended, and it is held open.
  std::pair<StreamId, TaskId> ReadBehindItsWriter() {
    const TaskId w = AddTask(&graph, "w"), r = AddTask(&graph, "r");
    const StreamId s = Join(&graph, "s", {w}, {r});
    graph.HoldStream(s, {"", TaskId()});
    Begin(1);
    Tell({TaskEnded{{w, 1}, n0, Done{}, Duration(1)}});
    EXPECT_EQ(state(r), TaskState::kSent);
    return {s, r};
  }
  void Close(StreamId stream) {
    graph.CloseStream(stream);
    Tell({StreamsChanged{}});
  }
  bool Told(TaskId reader, bool open) const {
    const auto told = Of<StreamOpen>(actions);
    return std::any_of(told.begin(), told.end(), [&](const StreamOpen& t) { return t.reader.task == reader && t.open == open && !t.yield; });
  }
};

TEST_F(OpenStreamsTest, AReaderOfAnOpenStreamIsDoneWhenThatIsClosed) {
  const TaskId w = AddTask(&graph, "w"), r = AddTask(&graph, "r");
  const StreamId s = Join(&graph, "s", {w}, {r});
  graph.HoldStream(s, {"", TaskId()});
  Begin(3);
  Tell({TaskStarted{{w, 1}, n0}});
  EXPECT_TRUE(Told(r, true));
  EXPECT_NE(scheduler->Explain(r).text.find("Stream s is held open."), std::string::npos) << scheduler->Explain(r).text;
  Tell({TaskEnded{{w, 1}, n0, Done{}, Duration(1)}});
  EXPECT_TRUE(Of<DropWritten>(actions).empty());
  EXPECT_FALSE(scheduler->HasEnded(s)) << "somebody holds it";
  const TaskId v = Connect("v", s, true);
  const auto reads = Of<ReadFrom>(actions);
  ASSERT_EQ(reads.size(), 1u) << "it is told of the new one";
  EXPECT_EQ(reads[0].writer.task, v);
  EXPECT_EQ(state(r), TaskState::kSent);
  Tell({TaskStarted{{v, 1}, n0}});
  EXPECT_EQ(Of<ReadFrom>(actions).at(0).writer, (AttemptId{v, 1}));
  Close(s);
  EXPECT_TRUE(Told(r, false));
  EXPECT_FALSE(scheduler->HasEnded(s)) << "one that writes it runs";
  Tell({TaskEnded{{v, 1}, n0, Done{}, Duration(1)}});
  EXPECT_TRUE(scheduler->HasEnded(s));
  Tell({StreamRead{{r, 1}, {w, 1}}, StreamRead{{r, 1}, {v, 1}}, ReadToEnd{{r, 1}}, TaskEnded{{r, 1}, n0, Done{}, Duration(1)}});
  EXPECT_EQ(state(r), TaskState::kDone);
  EXPECT_EQ(scheduler->Explain(r).text.find("held open"), std::string::npos);
  EXPECT_EQ(Of<DropWritten>(actions).size(), 2u);
  EXPECT_EQ(Of<RunComplete>(actions).size(), 1u);
}

TEST_F(OpenStreamsTest, WhenItIsClosedItsReaderMakesRoomForAWriterThatHasNoSlot) {
  const TaskId w = AddTask(&graph, "w"), r = AddTask(&graph, "r"), x = AddTask(&graph, "x"), y = AddTask(&graph, "y", {}, {w});
  const StreamId s = Join(&graph, "s", {w}, {r});
  graph.HoldStream(s, {"", TaskId()});
  Begin(3);
  Tell({TaskStarted{{w, 1}, n0}});
  Tell({TaskEnded{{w, 1}, n0, Done{}, Duration(1)}});
  for (const TaskId each : {r, x, y}) Tell({TaskStarted{{each, 1}, n0}});
  const TaskId v = Connect("v", s, true);
  EXPECT_EQ(state(v), TaskState::kReady) << "there is no slot";
  const auto begins_anew = [&] {
    const auto reads = Of<ReadFrom>(actions);
    return std::any_of(reads.begin(), reads.end(), [&](const ReadFrom& read) { return read.reader.task == r && read.gone; });
  };
  EXPECT_FALSE(begins_anew()) << "x or y may end, and who holds the stream may connect more";
  Close(s);
  EXPECT_TRUE(begins_anew());
  Tell({TaskEnded{{r, 1}, n0, Rewound{}, Duration(1)}});
  EXPECT_EQ(state(v), TaskState::kSent);
}

TEST_F(OpenStreamsTest, WhoWaitsForAReaderOfAnOpenStreamKeepsNoSlotFromOthersEither) {
  const TaskId w = AddTask(&graph, "w"), r = AddTask(&graph, "r"), q = AddTask(&graph, "q");
  const StreamId s = Join(&graph, "s", {w}, {r});
  Join(&graph, "t", {r}, {q});
  graph.HoldStream(s, {"", TaskId()});
  Begin(2);
  Tell({TaskStarted{{w, 1}, n0}});
  Tell({TaskStarted{{r, 1}, n0}});
  Tell({TaskEnded{{w, 1}, n0, Done{}, Duration(1)}});
  Tell({TaskStarted{{q, 1}, n0}});
  Connect("v", s, true);
  const auto told = Of<StreamOpen>(actions);
  EXPECT_TRUE(std::any_of(told.begin(), told.end(), [&](const StreamOpen& t) { return t.reader.task == r && t.yield; }))
      << "q reads what r writes, and r waits for v";
}

TEST_F(OpenStreamsTest, OneThatEndsEarlyIsHeldUntilThen) {
  const TaskId w = AddTask(&graph, "w"), r = AddTask(&graph, "r");
  const StreamId s = Join(&graph, "s", {w}, {r});
  graph.HoldStream(s, {"", TaskId()});
  Begin(3);
  Tell({TaskStarted{{w, 1}, n0}});
  Tell({StreamRead{{r, 1}, {w, 1}}, TaskEnded{{r, 1}, n0, Done{}, Duration(1)}});
  EXPECT_EQ(state(r), TaskState::kHeld);
  EXPECT_EQ(scheduler->Explain(r).text, "It has succeeded, and is done when the tasks whose streams it read are. Stream s is held open.");
  EXPECT_TRUE(Of<CloseOutput>(actions).empty()) << "others may want to read it";
  Tell({TaskEnded{{w, 1}, n0, Done{}, Duration(1)}});
  EXPECT_EQ(state(r), TaskState::kHeld);
  const TaskId v = Connect("v", s, true);
  EXPECT_EQ(state(r), TaskState::kHeld) << "it had enough";
  Close(s);
  Tell({TaskEnded{{v, 1}, n0, Done{}, Duration(1)}});
  EXPECT_EQ(state(r), TaskState::kDone);
}

TEST_F(OpenStreamsTest, AStreamIsHeldByATaskUntilThatHasEnded) {
  const TaskId h = AddTask(&graph, "h"), r = AddTask(&graph, "r");
  const StreamId s = Join(&graph, "s", {}, {r});
  graph.HoldStream(s, {"", h});
  Begin(3, 1, {.retries = 1});
  EXPECT_EQ(state(r), TaskState::kWaiting) << "nobody writes it yet";
  Tell({TaskEnded{{h, 1}, n0, Failed{1, true}, Duration(1)}});
  EXPECT_EQ(state(r), TaskState::kWaiting);
  const TaskId w = Connect("w", s, true, {});
  EXPECT_EQ(state(r), TaskState::kWaiting);
  Tell({TaskStarted{{w, 1}, n0}});
  EXPECT_EQ(state(r), TaskState::kSent);
  Tell({TaskEnded{{h, 2}, n0, Done{}, Duration(1)}});
  EXPECT_TRUE(Told(r, false));
}

TEST_F(OpenStreamsTest, WhatIsClosedWithoutAWriterIsEmpty) {
  const TaskId r = AddTask(&graph, "r");
  const StreamId s = Join(&graph, "s", {}, {r});
  graph.HoldStream(s, {"", TaskId()});
  Begin(1);
  EXPECT_EQ(state(r), TaskState::kWaiting);
  Close(s);
  EXPECT_EQ(state(r), TaskState::kSent);
  EXPECT_TRUE(scheduler->HasEnded(s));
}

TEST_F(OpenStreamsTest, WhereNobodyConnectsOnlyTasksHoldThem) {
  const TaskId h = AddTask(&graph, "h"), w = AddTask(&graph, "w"), r = AddTask(&graph, "r"), q = AddTask(&graph, "q");
  const StreamId s = Join(&graph, "s", {w}, {r}), t = Join(&graph, "t", {}, {q});
  graph.HoldStream(s, {"", TaskId()});
  graph.HoldStream(t, {"", h});
  Begin(4, 1, {.nobody_connects = true});
  Tell({TaskEnded{{w, 1}, n0, Done{}, Duration(1)}});
  EXPECT_TRUE(scheduler->HasEnded(s));
  EXPECT_FALSE(scheduler->HasEnded(t));
  EXPECT_EQ(state(q), TaskState::kWaiting);
  Tell({TaskEnded{{h, 1}, n0, Done{}, Duration(1)}});
  EXPECT_EQ(state(q), TaskState::kSent);
}

TEST_F(OpenStreamsTest, AReaderGivesItsOnlySlotToWhoIsToWrite) {
  const auto [s, r] = ReadBehindItsWriter();
  Tell({TaskStarted{{r, 1}, n0}});
  const TaskId v = Connect("v", s, true);
  ASSERT_EQ(Of<StreamOpen>(actions).size(), 1u);
  EXPECT_TRUE(Of<StreamOpen>(actions)[0].yield);
  Tell({TaskEnded{{r, 1}, n0, Rewound{}, Duration(1)}});
  EXPECT_EQ(state(v), TaskState::kSent);
  EXPECT_EQ(state(r), TaskState::kWaiting);
  Tell({TaskEnded{{v, 1}, n0, Done{}, Duration(1)}});
  EXPECT_EQ(state(r), TaskState::kSent) << "nobody else wants the slot";
  Tell({TaskStarted{{r, 2}, n0}});
  const TaskId u = Connect("u", s, true);
  Tell({TaskEnded{{r, 2}, n0, Rewound{}, Duration(1)}});
  EXPECT_EQ(state(u), TaskState::kSent);
  Close(s);
  Tell({TaskEnded{{u, 1}, n0, Done{}, Duration(1)}});
  EXPECT_EQ(state(r), TaskState::kSent);
}

TEST_F(OpenStreamsTest, AReaderThatHasNotBegunIsTakenBackForWhoIsToWrite) {
  const auto [s, r] = ReadBehindItsWriter();
  const TaskId v = Connect("v", s, true);
  ASSERT_EQ(Of<TakeBack>(actions).size(), 1u);
  EXPECT_EQ(Of<TakeBack>(actions)[0].attempt.task, r);
  Tell({TaskReturned{{r, 1}, n0}});
  EXPECT_EQ(state(v), TaskState::kSent);
}

TEST_F(OpenStreamsTest, AReaderGivesItsSlotToWhoIsAtItsNodeAlready) {
  const auto [s, r] = ReadBehindItsWriter();
  Tell({TaskStarted{{r, 1}, n0}, RoundTripMeasured{n0, std::chrono::milliseconds(1)}});
  const TaskId v = Connect("v", s, true);
  ASSERT_EQ(state(v), TaskState::kAhead);
  ASSERT_EQ(Of<StreamOpen>(actions).size(), 1u);
  EXPECT_TRUE(Of<StreamOpen>(actions)[0].yield);
}

TEST_F(OpenStreamsTest, ItKeepsItWhereOthersRunThatWillGiveTheirs) {
  const TaskId w = AddTask(&graph, "w"), r = AddTask(&graph, "r");
  const StreamId s = Join(&graph, "s", {w}, {r});
  graph.HoldStream(s, {"", TaskId()});
  Begin(2);
  Tell({TaskStarted{{w, 1}, n0}});
  ASSERT_EQ(state(r), TaskState::kSent);
  Connect("v", s, true);
  EXPECT_TRUE(Of<StreamOpen>(actions).empty());
}

TEST_F(OpenStreamsTest, AHolderThatRunsIsNoneOfThese) {
  const TaskId h = AddTask(&graph, "h"), w = AddTask(&graph, "w"), r = AddTask(&graph, "r");
  const StreamId s = Join(&graph, "s", {w}, {r});
  graph.HoldStream(s, {"", h});
  Begin(2);
  Tell({TaskEnded{{w, 1}, n0, Done{}, Duration(1)}});
  ASSERT_EQ(state(r), TaskState::kSent);
  Connect("v", s, true);  // for which the holder may wait
  ASSERT_EQ(Of<StreamOpen>(actions).size(), 1u);
  EXPECT_TRUE(Of<StreamOpen>(actions)[0].yield);
}

TEST_F(OpenStreamsTest, OneThatReadToTheEndBeforeItCouldHearOfAWriterBeginsAnew) {
  const TaskId w = AddTask(&graph, "w"), r = AddTask(&graph, "r"), x = AddTask(&graph, "x");
  const StreamId s = Join(&graph, "s", {w, x}, {r});
  Begin(4);
  Tell({TaskStarted{{w, 1}, n0}, TaskStarted{{x, 1}, n0}});
  Tell({TaskEnded{{w, 1}, n0, Done{}, Duration(1)}});
  Tell({StreamKept{s, true}});
  Tell({TaskEnded{{x, 1}, n0, Done{}, Duration(1)}});
  Tell({StreamRead{{r, 1}, {w, 1}}, StreamRead{{r, 1}, {x, 1}}, ReadToEnd{{r, 1}}, TaskEnded{{r, 1}, n0, Done{}, Duration(1)}});
  EXPECT_EQ(state(r), TaskState::kHeld) << "something is about to be connected";
  const TaskId v = Connect("v", s, true, {StreamKept{s, false}});
  EXPECT_EQ(state(r), TaskState::kWaiting);
  Tell({TaskStarted{{v, 1}, n0}});
  EXPECT_EQ(state(r), TaskState::kSent);
  EXPECT_EQ(Of<ReadFrom>(actions).size(), 3u);
}

TEST_F(OpenStreamsTest, OneThatGoesOnAlthoughItWasToEndIsToldAgain) {
  const TaskId w = AddTask(&graph, "w"), r = AddTask(&graph, "r"), q = AddTask(&graph, "q", {}, {w});
  const StreamId s = Join(&graph, "s", {w}, {r, q});
  Begin(1, 2);
  const NodeId of_w = scheduler->node(w);
  Tell({TaskStarted{{w, 1}, of_w}});
  const NodeId of_r = scheduler->node(r);
  ASSERT_NE(of_r, of_w);
  Tell({TaskStarted{{r, 1}, of_r}});
  Tell({StreamKept{s, true}});
  Tell({TaskEnded{{w, 1}, of_w, Done{}, Duration(1)}});
  ASSERT_EQ(scheduler->node(q), of_w);
  const auto told_gone = [&](TaskId writer) {
    const auto reads = Of<ReadFrom>(actions);
    return std::any_of(reads.begin(), reads.end(), [&](const ReadFrom& read) { return read.writer.task == writer && read.gone; });
  };
  Tell({NodeLost{of_w}});
  ASSERT_EQ(state(w), TaskState::kReady) << "it writes again for the other reader, and has no slot";
  EXPECT_TRUE(told_gone(w)) << "so the reader is to end, unless it has got all of that";
  const TaskId v = Connect("v", s, true, {StreamKept{s, false}});
  EXPECT_TRUE(told_gone(v)) << "and now it waits for one more";
}

TEST_F(OpenStreamsTest, WhatIsKeptAndNotConnectedEnds) {
  const TaskId w = AddTask(&graph, "w"), r = AddTask(&graph, "r");
  const StreamId s = Join(&graph, "s", {w}, {r});
  Begin(4);
  Tell({TaskStarted{{w, 1}, n0}});
  Tell({StreamKept{s, true}});
  Tell({TaskEnded{{w, 1}, n0, Done{}, Duration(1)}});
  Tell({StreamRead{{r, 1}, {w, 1}}, ReadToEnd{{r, 1}}, TaskEnded{{r, 1}, n0, Done{}, Duration(1)}});
  EXPECT_EQ(state(r), TaskState::kHeld);
  Tell({StreamKept{s, false}});
  EXPECT_EQ(state(r), TaskState::kDone);
  EXPECT_EQ(Of<RunComplete>(actions).size(), 1u);
}

TEST_F(OpenStreamsTest, ALaterReaderGetsWhatWasWrittenBefore) {
  const TaskId w = AddTask(&graph, "w");
  const StreamId s = Join(&graph, "s", {w}, {});
  graph.HoldStream(s, {"", TaskId()});
  const TaskId first = AddTask(&graph, "first");
  Begin(2);
  Tell({TaskEnded{{w, 1}, n0, Done{}, Duration(1)}});
  EXPECT_TRUE(Of<DropWritten>(actions).empty()) << "somebody may read it yet";
  const TaskId r = Connect("r", s, false);
  ASSERT_EQ(Of<ReadFrom>(actions).size(), 1u);
  EXPECT_EQ(Of<ReadFrom>(actions)[0].reader.task, r);
  EXPECT_EQ(Of<ReadFrom>(actions)[0].writer, (AttemptId{w, 1}));
  Tell({TaskEnded{{first, 1}, n0, Done{}, Duration(1)}});
}

TEST_F(OpenStreamsTest, AnAdoptedReaderHearsThatItsStreamWasClosed) {
  const TaskId w = AddTask(&graph, "w"), r = AddTask(&graph, "r");
  const StreamId s = Join(&graph, "s", {w}, {r});
  graph.HoldStream(s, {"", TaskId()});
  graph.CloseStream(s);
  ASSERT_TRUE(graph.Seal().ok());
  scheduler.emplace(graph, Options{});
  Tell({TasksAdded{TaskId(0), 2}, NodeJoined{n0, {4, 0, 0}}, TaskStarted{{r, 3}, n0}, TaskStarted{{w, 2}, n0}, AllNodesJoined{}});
  EXPECT_TRUE(Told(r, false));
}

}  // namespace
}  // namespace harrow::core
