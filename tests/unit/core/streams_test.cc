// Tasks joined by streams, in a small world of agents: what they do with what the scheduler tells them, late and in
// pieces. Random nets with failures, lost nodes and readers that end early: whatever happens, a reader that is done has
// read one successful attempt of each writer, and no order of starts locks up, also with one slot.
//
// HARROW_SEEDS makes it longer (HARROW_LONG=1: 20 000); HARROW_SEED runs one again.

#include <cstdio>
#include <cstdlib>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "unit/core/stream_world.h"

namespace harrow::core {
namespace {

TEST(Streams, RandomNetsEndAndReadWhatCounts) {
  const char* const one = std::getenv("HARROW_SEED");
  const char* const many = std::getenv("HARROW_SEEDS");
  const uint64_t first = one ? std::strtoull(one, nullptr, 10) : 1;
  const uint64_t count = one ? 1 : many ? std::strtoull(many, nullptr, 10) : std::getenv("HARROW_LONG") ? 20000 : 600;
  Happened happened;
  test::Trail trail("core.streams");
  for (uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE("HARROW_SEED=" + std::to_string(seed));
    if (std::getenv("HARROW_SHOW")) std::printf("seed %llu\n", static_cast<unsigned long long>(seed)), std::fflush(stdout);
    World world(seed, &happened);
    world.Run();
    if (HasFailure()) return;
  }
  if (one) return;
  if (count == 600) trail.Compare();
  EXPECT_GT(happened.rewound, 0u);
  EXPECT_GT(happened.held, 0u);
  EXPECT_GT(happened.remade, 0u);
  EXPECT_GT(happened.closed, 0u);
  EXPECT_GT(happened.piped, 0u);
  EXPECT_GT(happened.dropped, 0u);
  EXPECT_GT(happened.went_on, 0u);
  EXPECT_GT(happened.done, count);
  EXPECT_GT(happened.shared, 0u);
}

TEST_F(StreamsTest, AReaderBeginsWhenItsWritersHaveBegun) {
  const TaskId w = AddTask(&graph, "w"), v = AddTask(&graph, "v"), r = AddTask(&graph, "r");
  const StreamId s = Join(&graph, "s", {w, v}, {r});
  Begin(4);
  EXPECT_EQ(state(r), TaskState::kWaiting);
  EXPECT_EQ(scheduler->Explain(r).text, "It waits for 2 tasks whose streams it reads to begin.");
  Tell({TaskStarted{{w, 1}, n0}});
  EXPECT_EQ(state(r), TaskState::kWaiting);
  Tell({TaskEnded{{v, 1}, n0, Done{}, Duration(1)}});
  ASSERT_EQ(Of<StartTask>(actions).size(), 1u);
  const auto reads = Of<ReadFrom>(actions);
  ASSERT_EQ(reads.size(), 2u);
  EXPECT_EQ(reads[0].reader, (AttemptId{r, 1}));
  EXPECT_EQ(reads[0].at, n0);
  EXPECT_EQ(reads[0].stream, s);
  EXPECT_EQ(reads[0].writer, (AttemptId{w, 1}));
  EXPECT_EQ(reads[0].from, n0);
  EXPECT_EQ(reads[1].writer, (AttemptId{v, 1}));
}

TEST_F(StreamsTest, ASuccessIsHeldUntilItsWritersAreDone) {
  const TaskId w = AddTask(&graph, "w"), r = AddTask(&graph, "r"), after = AddTask(&graph, "after", {}, {r});
  Join(&graph, "s", {w}, {r});
  Begin(4);
  Tell({TaskStarted{{w, 1}, n0}});
  Tell({StreamRead{{r, 1}, {w, 1}}, TaskEnded{{r, 1}, n0, Done{}, Duration(1)}});
  EXPECT_EQ(state(r), TaskState::kHeld);
  EXPECT_EQ(scheduler->counts().held, 1u);
  EXPECT_EQ(scheduler->Explain(r).text, "It has succeeded, and is done when the tasks whose streams it read are.");
  EXPECT_TRUE(Of<TaskSettled>(actions).empty());
  ASSERT_EQ(Of<CloseOutput>(actions).size(), 1u) << "all that read it have ended well";
  EXPECT_EQ(state(after), TaskState::kWaiting);
  // 128 + SIGPIPE
  Tell({TaskEnded{{w, 1}, n0, Failed{141, true}, Duration(1)}});
  EXPECT_EQ(Of<TaskSettled>(actions).size(), 2u);
  EXPECT_EQ(state(w), TaskState::kDone);
  EXPECT_EQ(state(r), TaskState::kDone);
  EXPECT_EQ(Of<StartTask>(actions).size(), 1u) << "what waited for the reader";
}

TEST_F(StreamsTest, WhatAFailedAttemptWroteIsTakenBack) {
  const TaskId w = AddTask(&graph, "w"), r = AddTask(&graph, "r");
  Join(&graph, "s", {w}, {r});
  Begin(2, 1, {.retries = 1});
  Tell({TaskStarted{{w, 1}, n0}});
  Tell({TaskStarted{{r, 1}, n0}});
  Tell({TaskEnded{{w, 1}, n0, Failed{1, true}, Duration(1)}});
  auto reads = Of<ReadFrom>(actions);
  ASSERT_EQ(reads.size(), 1u);
  EXPECT_FALSE(reads[0].from);
  EXPECT_FALSE(reads[0].gone) << "one that has got nothing of it waits";
  Tell({TaskStarted{{w, 2}, n0}});
  reads = Of<ReadFrom>(actions);
  ASSERT_EQ(reads.size(), 1u);
  EXPECT_EQ(reads[0].writer, (AttemptId{w, 2}));
  Tell({TaskEnded{{r, 1}, n0, Rewound{}, Duration(1)}});
  EXPECT_EQ(state(r), TaskState::kSent) << "it costs no retry";
  Tell({TaskEnded{{w, 2}, n0, Done{}, Duration(1)}});
  Tell({StreamRead{{r, 2}, {w, 2}}, TaskEnded{{r, 2}, n0, Done{}, Duration(1)}});
  EXPECT_EQ(state(r), TaskState::kDone);
  EXPECT_EQ(Of<DropWritten>(actions).size(), 1u);
}

TEST_F(StreamsTest, WhatWasWrittenToNobodyIsWrittenAgainForWhoBeginsAnew) {
  const TaskId w = AddTask(&graph, "w"), v = AddTask(&graph, "v"), r = AddTask(&graph, "r");
  Join(&graph, "s", {w, v}, {r});
  Begin(3, 1, {.retries = 1});
  Tell({TaskStarted{{w, 1}, n0}, TaskStarted{{v, 1}, n0}});
  Tell({StreamRead{{r, 1}, {w, 1}}, StreamRead{{r, 1}, {v, 1}}, TaskEnded{{r, 1}, n0, Done{}, Duration(1)}});
  ASSERT_EQ(Of<CloseOutput>(actions).size(), 2u);
  // Its output was closed before its end: nobody has all of it.
  Tell({TaskEnded{{w, 1}, n0, Done{}, Duration(1)}});
  EXPECT_EQ(state(w), TaskState::kDone);
  EXPECT_EQ(Of<DropWritten>(actions).size(), 1u);
  Tell({TaskEnded{{v, 1}, n0, Failed{1, true}, Duration(1)}});
  EXPECT_EQ(state(r), TaskState::kWaiting) << "what it read of v is void";
  Tell({TaskStarted{{v, 2}, n0}});
  EXPECT_EQ(scheduler->attempts(w), 2u);
  EXPECT_EQ(state(r), TaskState::kWaiting);
  Tell({TaskStarted{{w, 2}, n0}});
  EXPECT_EQ(state(r), TaskState::kSent);
  // The other way round: one that is ended by SIGPIPE when somebody wants it again has not failed.
  Tell({StreamRead{{r, 2}, {w, 2}}, StreamRead{{r, 2}, {v, 2}}, TaskEnded{{r, 2}, n0, Done{}, Duration(1)}});
  Tell({TaskEnded{{v, 2}, n0, Lost{}, Duration(1)}});
  Tell({TaskEnded{{w, 2}, n0, Failed{141, true}, Duration(1)}});
  EXPECT_EQ(state(w), TaskState::kSent) << "it costs no retry, of which it has none left";
}

TEST_F(StreamsTest, ASuccessThatReadAFailedAttemptDoesNotCount) {
  const TaskId w = AddTask(&graph, "w"), r = AddTask(&graph, "r");
  Join(&graph, "s", {w}, {r});
  Begin(2, 1, {.retries = 1});
  Tell({TaskStarted{{w, 1}, n0}});
  Tell({StreamRead{{r, 1}, {w, 1}}, TaskEnded{{r, 1}, n0, Done{}, Duration(1)}});
  Tell({TaskEnded{{w, 1}, n0, Failed{1, true}, Duration(1)}});
  EXPECT_EQ(state(r), TaskState::kWaiting);
  Tell({TaskStarted{{w, 2}, n0}});
  EXPECT_EQ(state(r), TaskState::kSent);
}

TEST_F(StreamsTest, AReaderOfAFailedWriterIsSkipped) {
  const TaskId w = AddTask(&graph, "w"), r = AddTask(&graph, "r"), q = AddTask(&graph, "q");
  Join(&graph, "s", {w}, {r, q});
  Begin(3);
  Tell({TaskStarted{{w, 1}, n0}});
  Tell({StreamRead{{r, 1}, {w, 1}}, TaskEnded{{r, 1}, n0, Done{}, Duration(1)}});
  Tell({TaskEnded{{w, 1}, n0, Failed{1, true}, Duration(1)}});
  EXPECT_EQ(state(w), TaskState::kFailed);
  EXPECT_EQ(state(r), TaskState::kSkipped);
  const auto reads = Of<ReadFrom>(actions);
  ASSERT_EQ(reads.size(), 1u);
  EXPECT_TRUE(reads[0].gone);
  Tell({TaskEnded{{q, 1}, n0, Rewound{}, Duration(1)}});
  EXPECT_EQ(state(q), TaskState::kSkipped);
  EXPECT_EQ(Of<RunComplete>(actions).size(), 1u);
}

TEST_F(StreamsTest, ALostNodesLinesAreWrittenAgain) {
  const TaskId w = AddTask(&graph, "w"), r = AddTask(&graph, "r"), late = AddTask(&graph, "late", {}, {});
  const TaskId first = AddTask(&graph, "first");
  graph.AddDependency(first, late);
  Join(&graph, "s", {w}, {r, late});
  Begin(1, 3);
  // Whichever node each is at.
  Tell({TaskStarted{{w, 1}, scheduler->node(w)}});
  const NodeId there = scheduler->node(w);
  Tell({TaskEnded{{w, 1}, there, Done{}, Duration(1)}});
  ASSERT_EQ(state(w), TaskState::kDone);
  ASSERT_EQ(state(late), TaskState::kWaiting);
  const bool reads_there = scheduler->node(r) == there;
  Tell({NodeLost{there}});
  if (!reads_there) {
    const auto reads = Of<ReadFrom>(actions);
    ASSERT_EQ(reads.size(), 1u);
    EXPECT_TRUE(reads[0].gone) << "it goes on if it has got all of it";
    EXPECT_EQ(state(w), TaskState::kDone) << "nobody is known to need it";
    Tell({StreamRead{{r, 1}, {w, 1}}, TaskEnded{{r, 1}, scheduler->node(r), Done{}, Duration(1)}});
    EXPECT_EQ(state(r), TaskState::kDone);
  }
  Tell({TaskEnded{{first, 1}, scheduler->node(first), Done{}, Duration(1)}});
  EXPECT_EQ(scheduler->attempts(w), 2u) << "it writes again for who has not begun";
  EXPECT_EQ(state(late), TaskState::kWaiting);
  Tell({TaskStarted{{w, 2}, scheduler->node(w)}});
  EXPECT_EQ(state(late), TaskState::kSent);
}

TEST_F(StreamsTest, AStarvedReaderGivesUpItsSlot) {
  const TaskId w = AddTask(&graph, "w"), r = AddTask(&graph, "r");
  Join(&graph, "s", {w}, {r});
  Begin(1, 2, {.retries = 3});
  const NodeId of_w = scheduler->node(w);
  Tell({TaskStarted{{w, 1}, of_w}});
  const NodeId of_r = scheduler->node(r);
  ASSERT_NE(of_r, of_w);
  Tell({TaskStarted{{r, 1}, of_r}});
  // The writer has no node but that of its reader, which has got nothing and waits.
  Tell({NodeLost{of_w}});
  const auto reads = Of<ReadFrom>(actions);
  ASSERT_EQ(reads.size(), 2u);
  EXPECT_FALSE(reads[0].gone);
  EXPECT_TRUE(reads[1].gone);
  Tell({TaskEnded{{r, 1}, of_r, Rewound{}, Duration(1)}});
  EXPECT_EQ(state(w), TaskState::kSent);
  EXPECT_EQ(state(r), TaskState::kWaiting);
}

TEST_F(StreamsTest, OneThatCannotReadAlthoughNothingHasChangedIsLost) {
  const TaskId w = AddTask(&graph, "w"), r = AddTask(&graph, "r");
  Join(&graph, "s", {w}, {r});
  Begin(2, 1, {.max_losses = 2});
  Tell({TaskStarted{{w, 1}, n0}});
  for (uint32_t attempt = 1; attempt <= 2; ++attempt) {
    ASSERT_EQ(state(r), TaskState::kSent) << attempt;
    Tell({TaskEnded{{r, attempt}, n0, Rewound{}, Duration(1)}});
    now += std::chrono::seconds(10);
    Tell({TimeCame{}});
  }
  EXPECT_EQ(state(r), TaskState::kFailed);
}

TEST_F(StreamsTest, ThoseThatShareAStreamAreDoneTogether) {
  const TaskId w = AddTask(&graph, "w"), r = AddTask(&graph, "r"), q = AddTask(&graph, "q"), p = AddTask(&graph, "p");
  const TaskId first = AddTask(&graph, "first"), after = AddTask(&graph, "after", {}, {r});
  graph.AddDependency(first, q);
  graph.SetSplit(Join(&graph, "s", {w}, {r, q, p}));
  Begin(4);
  Tell({TaskStarted{{w, 1}, n0}});
  Tell({TaskEnded{{w, 1}, n0, Done{}, Duration(1)}});
  Tell({StreamRead{{r, 1}, {w, 1}}, TaskEnded{{r, 1}, n0, Done{}, Duration(1)}});
  EXPECT_EQ(state(r), TaskState::kHeld) << "another one has not read its share";
  EXPECT_EQ(scheduler->Explain(r).text,
            "It has succeeded, and is done when the tasks whose streams it read are. Those that share a stream are done together.");
  Tell({StreamRead{{p, 1}, {w, 1}}, TaskEnded{{p, 1}, n0, Failed{1, true}, Duration(1)}});
  EXPECT_EQ(state(p), TaskState::kFailed);
  EXPECT_EQ(state(r), TaskState::kHeld);
  Tell({TaskEnded{{first, 1}, n0, Done{}, Duration(1)}});
  ASSERT_EQ(state(q), TaskState::kSent);
  Tell({StreamRead{{q, 1}, {w, 1}}, TaskEnded{{q, 1}, n0, Done{}, Duration(1)}});
  EXPECT_EQ(state(r), TaskState::kDone);
  EXPECT_EQ(state(q), TaskState::kDone);
  EXPECT_EQ(state(after), TaskState::kSent);
}

TEST_F(StreamsTest, WhoReadAShareOfWhatIsLostReadsAgain) {
  const TaskId w = AddTask(&graph, "w"), r = AddTask(&graph, "r"), q = AddTask(&graph, "q"), first = AddTask(&graph, "first");
  graph.AddDependency(first, q);
  graph.SetSplit(Join(&graph, "s", {w}, {r, q}));
  Begin(1, 2);
  const NodeId there = scheduler->node(w);
  Tell({TaskStarted{{w, 1}, there}});
  Tell({TaskEnded{{w, 1}, there, Done{}, Duration(1)}});
  ASSERT_EQ(state(r), TaskState::kSent);
  Tell({StreamRead{{r, 1}, {w, 1}}, TaskEnded{{r, 1}, scheduler->node(r), Done{}, Duration(1)}});
  EXPECT_EQ(state(r), TaskState::kHeld);
  Tell({NodeLost{there}});
  if (scheduler->node(first) != there) Tell({TaskEnded{{first, 1}, scheduler->node(first), Done{}, Duration(1)}});
  else Tell({TaskEnded{{first, 2}, scheduler->node(first), Done{}, Duration(1)}});
  EXPECT_EQ(scheduler->attempts(w), 2u);
  EXPECT_EQ(state(r), TaskState::kWaiting) << "its share will be another one";
}

TEST_F(StreamsTest, OneThatSharesAndFailsIsNotWaitedFor) {
  const TaskId w = AddTask(&graph, "w"), r = AddTask(&graph, "r"), q = AddTask(&graph, "q");
  graph.SetSplit(Join(&graph, "s", {w}, {r, q}));
  Begin(3);
  Tell({TaskStarted{{w, 1}, n0}});
  Tell({TaskEnded{{w, 1}, n0, Done{}, Duration(1)}});
  Tell({StreamRead{{r, 1}, {w, 1}}, TaskEnded{{r, 1}, n0, Done{}, Duration(1)}});
  EXPECT_EQ(state(r), TaskState::kHeld);
  Tell({StreamRead{{q, 1}, {w, 1}}, TaskEnded{{q, 1}, n0, Failed{1, true}, Duration(1)}});
  EXPECT_EQ(state(q), TaskState::kFailed);
  EXPECT_EQ(state(r), TaskState::kDone);
  EXPECT_EQ(Of<RunComplete>(actions).size(), 1u);
}

TEST_F(StreamsTest, WhatNobodyIsToReadAnyMoreIsNotWrittenOn) {
  const TaskId w = AddTask(&graph, "w"), r = AddTask(&graph, "r"), q = AddTask(&graph, "q");
  Join(&graph, "s", {w}, {r, q});
  Begin(3);
  Tell({TaskStarted{{w, 1}, n0}});
  Tell({StreamRead{{q, 1}, {w, 1}}, TaskEnded{{q, 1}, n0, Done{}, Duration(1)}});
  EXPECT_TRUE(Of<CloseOutput>(actions).empty());
  Tell({TaskEnded{{r, 1}, n0, Failed{1, true}, Duration(1)}});
  EXPECT_EQ(state(r), TaskState::kFailed);
  ASSERT_EQ(Of<CloseOutput>(actions).size(), 1u) << "it would fill the disk";
  Tell({TaskEnded{{w, 1}, n0, Failed{141, true}, Duration(1)}});
  EXPECT_EQ(state(w), TaskState::kDone);
  EXPECT_EQ(state(q), TaskState::kDone);
}

TEST_F(StreamsTest, OneThatMakesFilesAndEndsBySigpipeHasFailed) {
  const FileId file = graph.AddFile("file");
  graph::TaskSpec spec;
  spec.name = "w";
  spec.command = "x";
  spec.out = {&file, 1};
  const TaskId w = graph.AddTask(spec), r = AddTask(&graph, "r");
  Join(&graph, "s", {w}, {r});
  Begin(2);
  Tell({TaskStarted{{w, 1}, n0}});
  Tell({StreamRead{{r, 1}, {w, 1}}, TaskEnded{{r, 1}, n0, Done{}, Duration(1)}});
  EXPECT_EQ(Of<CloseOutput>(actions).size(), 1u) << "its agent lets it go on";
  Tell({TaskEnded{{w, 1}, n0, Failed{141, true}, Duration(1)}});
  EXPECT_EQ(state(w), TaskState::kFailed) << "nobody knows whether it has made them";
}

TEST_F(StreamsTest, WhatAnEarlierServerSawWrittenIsFoundAgain) {
  const TaskId w = AddTask(&graph, "w"), r = AddTask(&graph, "r"), v = AddTask(&graph, "v"), q = AddTask(&graph, "q");
  Join(&graph, "s", {w}, {r});
  Join(&graph, "z", {v}, {q});
  ASSERT_TRUE(graph.Seal().ok());
  scheduler.emplace(graph, Options{});
  Tell({TasksAdded{TaskId(0), 4}, TaskRestored{.task = w, .attempts = 2}, TaskRestored{.task = v, .attempts = 1},
        NodeJoined{n0, {4, 0, 0}}, StreamHeld{{w, 2}, n0}, AllNodesJoined{}});
  EXPECT_EQ(state(w), TaskState::kDone);
  EXPECT_EQ(state(r), TaskState::kSent);
  const auto reads = Of<ReadFrom>(actions);
  ASSERT_EQ(reads.size(), 1u);
  EXPECT_EQ(reads[0].writer, (AttemptId{w, 2}));
  EXPECT_EQ(state(v), TaskState::kSent) << "nobody has what it wrote";
  EXPECT_EQ(scheduler->attempts(v), 2u);
  EXPECT_EQ(state(q), TaskState::kWaiting);
}

TEST_F(StreamsTest, AReaderThatIsAdoptedIsToldWhatItReads) {
  const TaskId w = AddTask(&graph, "w"), r = AddTask(&graph, "r");
  Join(&graph, "s", {w}, {r});
  ASSERT_TRUE(graph.Seal().ok());
  scheduler.emplace(graph, Options{});
  Tell({TasksAdded{TaskId(0), 2}, NodeJoined{n0, {4, 0, 0}}, TaskStarted{{r, 3}, n0}, TaskStarted{{w, 2}, n0},
        AllNodesJoined{}});
  const auto reads = Of<ReadFrom>(actions);
  ASSERT_EQ(reads.size(), 1u);
  EXPECT_EQ(reads[0].reader, (AttemptId{r, 3}));
  EXPECT_EQ(reads[0].writer, (AttemptId{w, 2}));
}

}  // namespace
}  // namespace harrow::core
