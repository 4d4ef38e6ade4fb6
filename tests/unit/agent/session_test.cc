#include "agent/session.h"

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "live/eventually.h"
#include "migrate/checkpoints.h"
#include "os/log.h"
#include "os/posix_files.h"
#include "support/own_directory.h"
#include "unit/agent/session_fixture.h"

namespace harrow::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

TEST_F(SessionTest, WhatIsSaidOfFilesIsHandedOn) {
  Join();
  EXPECT_EQ(of_files_, 0);
  int said = 0;
  for (const auto say :
       {+[](pb::ToAgent* m) { m->add_peer()->set_node(1); }, +[](pb::ToAgent* m) { m->add_drop(1); },
        +[](pb::ToAgent* m) { m->add_drop_damaged(1); }, +[](pb::ToAgent* m) { m->add_refuse(1); },
        +[](pb::ToAgent* m) { m->add_copy()->set_path("f"); },
        +[](pb::ToAgent* m) { m->add_save()->set_path("f"); }, +[](pb::ToAgent* m) { m->add_put()->set_name("f"); },
        +[](pb::ToAgent* m) { m->add_unput("f"); }}) {
    pb::ToAgent message;
    say(&message);
    Tell(message);
    EXPECT_EQ(of_files_, ++said);
  }
}

TEST_F(SessionTest, QuestionsForCheckpointsReachTheSlotsAndWhatWasInVainIsTold) {
  Join();
  pb::ToAgent message;
  wire::SetId({TaskId(3), 2}, message.add_checkpoint());
  Tell(message);
  EXPECT_THAT(host_.asked, ElementsAre(AttemptId{TaskId(3), 2}));
  Batch batch;
  batch.missed.push_back({{TaskId(3), 2}, "it is deaf"});
  session_.Deliver(std::move(batch));
  const auto said = Take();
  ASSERT_THAT(said, SizeIs(1));
  ASSERT_EQ(said[0].missed_size(), 1);
  EXPECT_EQ(wire::IdOf(said[0].missed(0).attempt()), (AttemptId{TaskId(3), 2}));
  EXPECT_EQ(said[0].missed(0).why(), "it is deaf");
}

TEST_F(SessionTest, TheHelloTellsWhatTheAgentHas) {
  host_.snapshot = {.running = {{.id = 3, .attempt = 2, .start = WallTime(Duration(9))}},
                    .queued = {{TaskId(4), 1}, {TaskId(5), 2}}};
  session_.Start();
  const auto said = Take();
  ASSERT_THAT(said, SizeIs(1));
  const pb::AgentHello& hello = said[0].hello();
  EXPECT_EQ(hello.version(), wire::kProtocolVersion);
  EXPECT_EQ(hello.run_id(), "run");
  EXPECT_EQ(hello.incarnation(), 77u);
  EXPECT_EQ(hello.output_file(), 5u);
  EXPECT_EQ(hello.node().name(), "n1");
  ASSERT_EQ(hello.running_size(), 1);
  EXPECT_EQ(hello.running(0).task(), 3u);
  EXPECT_EQ(hello.running(0).attempt(), 2u);
  EXPECT_EQ(hello.running(0).start_ns(), 9);
  ASSERT_EQ(hello.queued_size(), 2);
  EXPECT_EQ(wire::IdOf(hello.queued(0)), (AttemptId{TaskId(4), 1}));
  EXPECT_EQ(wire::IdOf(hello.queued(1)), (AttemptId{TaskId(5), 2}));
  EXPECT_FALSE(session_.joined());
}

TEST_F(SessionTest, TasksReachTheSlotsInOrderWithTheirProfile) {
  Join();
  pb::ToAgent message;
  pb::Profile* profile = message.add_profile();
  profile->set_id(8);
  profile->set_cores(2);
  profile->set_cwd("deep");
  for (uint32_t id : {5u, 3u}) {
    pb::Task* task = message.add_start();
    task->set_id(id);
    task->set_attempt(1);
    task->set_profile(8);
    task->set_command("true");
    task->add_outputs("o");
  }
  Tell(message);
  ASSERT_THAT(host_.pushed, SizeIs(2));
  EXPECT_EQ(host_.pushed[0].id, 5u);
  EXPECT_EQ(host_.pushed[1].id, 3u);
  EXPECT_EQ(host_.pushed[0].profile->spec().cores, 2u);
  EXPECT_EQ(host_.pushed[0].profile->directory(), "/sub/deep");
  EXPECT_THAT(host_.pushed[0].outputs, ElementsAre("o"));
}

TEST_F(SessionTest, ATaskOfAnUnknownProfileEndsTheConversation) {
  Join();
  pb::ToAgent message;
  message.add_start()->set_profile(9);
  Tell(message);
  EXPECT_TRUE(channel_->closed());
  EXPECT_THAT(host_.pushed, IsEmpty());
}

TEST_F(SessionTest, ResultsAreKeptUntilTheyAreCommitted) {
  Join();
  session_.Deliver(Ended({1, 2}));
  session_.Deliver(Ended({3}));
  auto said = Take();
  ASSERT_THAT(said, SizeIs(2));
  EXPECT_EQ(said[0].ended(0).sequence(), 1u);
  EXPECT_EQ(said[0].ended(0).attempt_size(), 2);
  EXPECT_EQ(said[0].ended(0).attempt(0).output().file(), 5u);
  EXPECT_FALSE(session_.AllSent());
  pb::ToAgent committed;
  committed.mutable_committed()->set_sequence(1);
  Tell(committed);

  Break();
  loop_.Advance(milliseconds(100));
  said = Take();
  ASSERT_THAT(said, SizeIs(1)) << "the hello carries them";
  EXPECT_TRUE(said[0].has_hello());
  ASSERT_EQ(said[0].ended_size(), 1);
  EXPECT_EQ(said[0].ended(0).sequence(), 2u);
  EXPECT_EQ(said[0].ended(0).attempt(0).task(), 3u);
  Welcome(2);
  committed.mutable_committed()->set_sequence(2);
  Tell(committed);
  EXPECT_TRUE(session_.AllSent());
}

TEST_F(SessionTest, ResultsWithoutAServerWaitForOne) {
  Join();
  server_up_ = false;
  Break();
  session_.Deliver(Ended({1}));
  loop_.Advance(seconds(1));
  EXPECT_GE(dials_, 9) << "it dials each 100 ms";
  server_up_ = true;
  loop_.Advance(milliseconds(100));
  const auto said = Take();
  ASSERT_THAT(said, SizeIs(1));
  EXPECT_EQ(said[0].ended_size(), 1);
}

TEST_F(SessionTest, ResultsBetweenGreetingAndWelcomeAreToldAfterIt) {
  session_.Start();
  session_.Deliver(Ended({1}));
  Welcome(1);
  const auto said = Take();
  int results = 0;
  for (const pb::FromAgent& message : said) results += message.ended_size();
  EXPECT_EQ(results, 1);
}

TEST_F(SessionTest, StartsAreToldButNotKept) {
  Join();
  Batch batch;
  batch.started.push_back({.id = 6, .attempt = 1, .start = WallTime(Duration(5))});
  session_.Deliver(std::move(batch));
  const auto said = Take();
  ASSERT_THAT(said, SizeIs(1));
  ASSERT_EQ(said[0].started().attempt_size(), 1);
  EXPECT_EQ(wire::IdOf(said[0].started().attempt(0)), (AttemptId{TaskId(6), 1}));
  EXPECT_THAT(said[0].started().start_ns(), ElementsAre(5));
  EXPECT_TRUE(session_.AllSent());
}

// The greeting may have said that it waits: the server would ask it back, and hear nothing until it ends.
TEST_F(SessionTest, StartsBetweenGreetingAndWelcomeAreToldAfterIt) {
  const auto start = [this] {
    Batch batch;
    batch.started.push_back({.id = 6, .attempt = 1, .start = WallTime(Duration(5))});
    session_.Deliver(std::move(batch));
    Take();
  };
  const auto told = [this] {
    int starts = 0;
    for (const pb::FromAgent& message : Take()) starts += message.started().attempt_size();
    return starts;
  };
  session_.Start();
  start();
  Welcome(1);
  EXPECT_EQ(told(), 1);
  Break();
  loop_.Advance(seconds(1));
  start();
  Break();
  loop_.Advance(seconds(1));
  Welcome(1);
  EXPECT_EQ(told(), 0) << "the second greeting told of it as running";
}

TEST_F(SessionTest, OnlyWhatHasNotStartedIsReturned) {
  host_.snapshot.queued = {{TaskId(4), 2}};
  Join();
  pb::ToAgent message;
  for (const AttemptId asked : {AttemptId{TaskId(3), 1}, AttemptId{TaskId(4), 1}, AttemptId{TaskId(4), 2}})
    wire::SetId(asked, message.add_take_back());
  Tell(message);
  const auto said = Take();
  ASSERT_THAT(said, SizeIs(1));
  ASSERT_EQ(said[0].returned().attempt_size(), 1);
  EXPECT_EQ(wire::IdOf(said[0].returned().attempt(0)), (AttemptId{TaskId(4), 2}));
  Tell(message);
  EXPECT_THAT(Take(), IsEmpty()) << "none left: the start or the end says it";
}

TEST_F(SessionTest, CancelSaysWhy) {
  Join();
  pb::ToAgent message;
  const AttemptId attempt{TaskId(4), 3};
  wire::SetId(attempt, message.mutable_cancel()->add_attempt());
  Tell(message);
  message.mutable_cancel()->set_interrupted(true);
  Tell(message);
  message.Clear();
  wire::SetId(attempt, message.mutable_cancel()->add_lost());
  Tell(message);
  EXPECT_THAT(host_.ended,
              ElementsAre(std::pair(attempt, End::kCancelled), std::pair(attempt, End::kInterrupted),
                          std::pair(attempt, End::kLost)));
}

TEST_F(SessionTest, AServerOfALowerEpochIsNotObeyed) {
  Join(3);
  Break();
  loop_.Advance(milliseconds(100));
  EXPECT_TRUE(Take()[0].has_hello());
  auto old = channel_;
  Welcome(2);
  EXPECT_TRUE(old->closed());
  EXPECT_FALSE(session_.joined());
  loop_.Advance(milliseconds(100));
  Welcome(4);
  EXPECT_TRUE(session_.joined());
  EXPECT_EQ(welcomed_, 2);
}

TEST_F(SessionTest, NothingIsObeyedBeforeTheWelcome) {
  session_.Start();
  pb::ToAgent message;
  const AttemptId attempt{TaskId(4), 3};
  wire::SetId(attempt, message.mutable_cancel()->add_attempt());
  Tell(message);
  EXPECT_THAT(host_.ended, IsEmpty());
}

TEST_F(SessionTest, TheRoundTripIsMeasuredAndTold) {
  session_.Start();
  Welcome(1);
  auto said = Take();
  ASSERT_THAT(said, SizeIs(2));
  ASSERT_TRUE(said[1].has_heartbeat()) << "at once: nothing is sent ahead before the round trip is known";
  EXPECT_EQ(said[1].heartbeat().round_trip_ns(), 0);
  loop_.Advance(milliseconds(3));
  pb::ToAgent answer;
  *answer.mutable_heartbeat() = said[1].heartbeat();
  Tell(answer);
  said = Take();
  ASSERT_THAT(said, SizeIs(1));
  EXPECT_EQ(Duration(said[0].heartbeat().round_trip_ns()), milliseconds(3) + BatchPolicy().gather);
}

TEST_F(SessionTest, WhatIsToldOfFilesWaitsForOthersAndGoesTogether) {
  Join();
  session_.TellFile({.file = FileId(1)});
  loop_.Advance(BatchPolicy().gather / 2);
  session_.TellFile({.file = FileId(2), .what = FileNews::What::kGone});
  EXPECT_THAT(Take(), IsEmpty());
  EXPECT_FALSE(session_.AllSent());
  loop_.Advance(BatchPolicy().gather / 2);
  auto said = Take();
  ASSERT_THAT(said, SizeIs(1));
  ASSERT_EQ(said[0].file_size(), 2);
  EXPECT_EQ(said[0].file(0).file(), 1u);
  EXPECT_EQ(said[0].file(1).file(), 2u);
  EXPECT_EQ(said[0].file(1).what(), pb::FileNote::GONE);
  EXPECT_TRUE(session_.AllSent());
  session_.TellFile({.file = FileId(3)});
  loop_.Advance(BatchPolicy().gather);
  said = Take();
  ASSERT_THAT(said, SizeIs(1));
  ASSERT_EQ(said[0].file_size(), 1) << "each once";
}

TEST_F(SessionTest, WhatIsToldOfFilesGoesWithResultsThatLeaveEarlierAndIsNotKeptWithThem) {
  Join();
  session_.TellFile({.file = FileId(1)});
  session_.Deliver(Ended({4}));
  loop_.Advance(BatchPolicy().gather);
  auto said = Take();
  ASSERT_THAT(said, SizeIs(1));
  EXPECT_EQ(said[0].file_size(), 1);
  ASSERT_EQ(said[0].ended_size(), 1);
  EXPECT_EQ(said[0].ended(0).attempt(0).task(), 4u);
  Break();
  loop_.Advance(milliseconds(100));
  said = Take();
  ASSERT_THAT(said, SizeIs(1));
  EXPECT_EQ(said[0].ended_size(), 1);
  EXPECT_EQ(said[0].file_size(), 0);
}

TEST_F(SessionTest, WhatIsToldOfFilesIsDroppedWithItsServer) {
  Join();
  session_.TellFile({.file = FileId(1)});
  Break();
  loop_.Advance(milliseconds(100));
  Welcome(2);
  session_.TellFile({.file = FileId(2)});
  loop_.Advance(BatchPolicy().gather);
  std::vector<uint32_t> told;
  for (const pb::FromAgent& message : Take()) {
    for (const pb::FileNote& note : message.file()) told.push_back(note.file());
  }
  EXPECT_THAT(told, ElementsAre(2u)) << "the greeting names what is here";
  session_.TellFile({.file = FileId(3)});
  EXPECT_GT(loop_.timer_count(), 0u);
  session_.Close();
  EXPECT_EQ(loop_.timer_count(), 0u);
  loop_.Advance(BatchPolicy().gather);
}

TEST_F(SessionTest, HeartbeatsComeEachSecondAndASilentServerIsLeft) {
  Join();
  loop_.Advance(milliseconds(3500));
  EXPECT_THAT(Take(), SizeIs(3));
  auto silent = channel_;
  loop_.Advance(seconds(8));
  EXPECT_TRUE(silent->closed());
  EXPECT_NE(channel_, silent) << "it dialed again";
}

TEST_F(SessionTest, AServerThatDoesNotGreetIsLeftAndDialledAgain) {
  session_.Start();
  auto silent = channel_;
  loop_.Advance(seconds(9));
  EXPECT_EQ(channel_, silent);
  loop_.Advance(seconds(2));
  EXPECT_TRUE(silent->closed());
  ASSERT_NE(channel_, silent);
  Take();
  Welcome(1);
  EXPECT_TRUE(session_.joined());
  auto joined = channel_;
  for (int i = 0; i < 20; ++i) {
    loop_.Advance(seconds(1));
    Answer();
  }
  EXPECT_EQ(channel_, joined);
}

TEST_F(SessionTest, TheLeaseIsNoneOfATimeInWhichTheAgentStood) {
  Join();
  loop_.Advance(seconds(5));
  loop_.Stand(seconds(3600));
  loop_.Advance(seconds(1));
  EXPECT_THAT(over_, IsEmpty());
  server_up_ = false;
  Break();
  loop_.Advance(seconds(298));
  EXPECT_THAT(over_, IsEmpty()) << "it has its whole time from then on";
  loop_.Advance(seconds(5));
  EXPECT_THAT(over_, ElementsAre(Session::Over::kLeaseOver));
}

TEST_F(SessionTest, WhoIsClosedWithoutAServerWaitsForNoLease) {
  Join();
  server_up_ = false;
  Break();
  const size_t timers = loop_.timer_count();
  session_.Close();
  loop_.Advance(milliseconds(200));  // when it would dial again
  EXPECT_GT(timers, 1u);
  EXPECT_EQ(loop_.timer_count(), 0u);
  EXPECT_EQ(dials_, 1);
}

TEST_F(SessionTest, WhyThereIsNoServerIsLoggedOnceForAllThatIsTried) {
  os::Fd log(memfd_create("log", MFD_CLOEXEC));
  const std::string path = "/proc/self/fd/" + std::to_string(log.get());
  ASSERT_TRUE(os::OpenLog(os::Fd(dup(log.get()))).ok());
  Join();
  server_up_ = false;
  Break();
  loop_.Advance(seconds(10));
  EXPECT_GT(dials_, 50);
  ASSERT_TRUE(os::OpenLog(os::Fd(dup(STDERR_FILENO)), os::LogLevel::kWarning).ok());
  std::ifstream file(path);
  size_t times = 0;
  for (std::string line; std::getline(file, line);) times += line.find("no server") != std::string::npos;
  EXPECT_EQ(times, 2u) << "that the connection broke, and that there is no other";
}

TEST_F(SessionTest, TheLeaseEndsWithoutAServer) {
  Join();
  server_up_ = false;
  Break();
  loop_.Advance(seconds(298));
  EXPECT_THAT(over_, IsEmpty());
  loop_.Advance(seconds(4));
  EXPECT_THAT(over_, ElementsAre(Session::Over::kLeaseOver));
  const int dials = dials_;
  loop_.Advance(seconds(10));
  EXPECT_EQ(dials_, dials);
}

TEST_F(SessionTest, TheServerMayEndOrRefuse) {
  Join();
  pb::ToAgent message;
  message.mutable_shutdown()->set_reason("all done");
  Tell(message);
  EXPECT_THAT(over_, ElementsAre(Session::Over::kShutDown));
  loop_.Advance(seconds(2));
  EXPECT_EQ(dials_, 1);
}

TEST_F(SessionTest, ARefusalComesBeforeAnyWelcome) {
  session_.Start();
  pb::ToAgent message;
  message.mutable_shutdown()->set_refused(true);
  Tell(message);
  EXPECT_THAT(over_, ElementsAre(Session::Over::kRefused));
}

TEST_F(SessionTest, AnotherRunInTheDirectoryIsNotServed) {
  Join();
  Break();
  run_id_ = "another";
  loop_.Advance(milliseconds(100));
  EXPECT_THAT(over_, ElementsAre(Session::Over::kRefused));
}

TEST_F(SessionTest, WhatIsToldOfTheJobsEndIsHandedOn) {
  Join();
  EXPECT_THAT(job_ends_, IsEmpty());
  pb::ToAgent message;
  message.set_end_time_ns(5'000'000'000);
  Tell(message);
  EXPECT_THAT(job_ends_, ElementsAre(WallTime(seconds(5))));
}

TEST_F(SessionTest, WhileItIsAnsweredTasksRun) {
  fence_ = seconds(30);
  session_.Start();
  loop_.Advance(seconds(2));
  Welcome(1);
  EXPECT_EQ(may_run_until_, Time(seconds(25))) << "from when the hello was sent";
  for (int i = 0; i < 100; ++i) {
    loop_.Advance(seconds(1));
    Answer();
    EXPECT_GE(*may_run_until_, loop_.Now() + seconds(24));
  }
}

TEST_F(SessionTest, UnansweredItsTasksStandAndALateAnswerToAnOldHeartbeatIsNone) {
  fence_ = seconds(8);
  Join();
  loop_.Advance(seconds(1));
  pb::ToAgent old;
  *old.mutable_heartbeat() = Take().at(0).heartbeat();
  loop_.Advance(seconds(4));
  EXPECT_FALSE(TasksRun());
  Tell(old);
  EXPECT_FALSE(TasksRun()) << "it was sent when tasks had four seconds";
  Answer();
  EXPECT_TRUE(TasksRun()) << "the last one was sent just now";
  EXPECT_EQ(dials_, 1);
}

TEST_F(SessionTest, AWelcomeAdoptsAfterWhatItCancels) {
  fence_ = seconds(30);
  Join();
  server_up_ = false;
  Break();
  loop_.Advance(seconds(26));
  EXPECT_FALSE(TasksRun());
  server_up_ = true;
  loop_.Advance(milliseconds(100));
  EXPECT_FALSE(TasksRun()) << "not by a hello";
  cancel_ = {{TaskId(4), 1}};
  refuse_ = 2;
  host_.ended_when_asked.clear();
  Welcome(1);
  EXPECT_THAT(host_.ended_when_asked, ElementsAre(1));
  EXPECT_FALSE(TasksRun()) << "what was cancelled still lives";
  loop_.Advance(milliseconds(20));
  EXPECT_TRUE(TasksRun());
}

TEST_F(SessionTest, AWelcomeThatTookTooLongDoesNotAdopt) {
  fence_ = seconds(8);
  session_.Start();
  loop_.Advance(seconds(4));
  Welcome(1);
  EXPECT_FALSE(TasksRun());
  Answer();
  EXPECT_TRUE(TasksRun());
}

TEST_F(SessionTest, WithoutAFenceTasksRunOn) {
  Join();
  EXPECT_EQ(may_run_until_, std::nullopt);
  loop_.Advance(seconds(200));
  EXPECT_TRUE(TasksRun());
}

TEST_F(SessionTest, HeartbeatsAreOftenEnoughForAShortFence) {
  fence_ = milliseconds(800);
  Join();
  loop_.Advance(milliseconds(400));
  EXPECT_GE(Take().size(), 3u);
}

TEST_F(SessionTest, WhoLeavesDialsNoMore) {
  Join();
  session_.Leave();
  session_.Deliver(Ended({1}));
  EXPECT_EQ(Take().at(0).ended_size(), 1) << "its results are told on the connection that it has";
  Break();
  loop_.Advance(seconds(10));
  EXPECT_EQ(dials_, 1);
}

TEST_F(SessionTest, WhoIsToldToEndStillTellsResultsAndWaitsForNoCommit) {
  Join();
  pb::ToAgent message;
  message.mutable_shutdown()->set_refused(true);
  Tell(message);
  EXPECT_THAT(over_, ElementsAre(Session::Over::kRefused));
  session_.Deliver(Ended({1}));
  EXPECT_EQ(Take().at(0).ended_size(), 1);
  EXPECT_TRUE(session_.AllSent());
  Tell(message);
  EXPECT_THAT(over_, SizeIs(1));
  Break();
  loop_.Advance(seconds(400));
  EXPECT_EQ(dials_, 1);
  EXPECT_THAT(over_, SizeIs(1)) << "the lease is over as well";
}

TEST_F(SessionTest, TasksComeWithTheirStreams) {
  Join();
  pb::ToAgent message;
  message.add_profile()->set_id(1);
  pb::Task* const task = message.add_start();
  task->set_id(5);
  task->set_attempt(1);
  task->set_profile(1);
  task->set_writes_streams(true);
  for (const uint32_t node : {0u, 3u}) {
    pb::StreamSource* const source = task->add_source();
    source->set_stream(7);
    source->set_node(node);
    source->set_split(node == 3);
    source->set_records(OfBytes(4));
    wire::SetId({TaskId(6), 2}, source->mutable_writer());
  }
  pb::SourceChanged* const changed = message.add_source();
  wire::SetId({TaskId(5), 1}, changed->mutable_reader());
  *changed->mutable_source() = task->source(0);
  pushed_before_streams_ = 1;
  Tell(message);
  ASSERT_THAT(of_streams_, SizeIs(1)) << "after the task that it is about";
  ASSERT_THAT(host_.pushed, SizeIs(1));
  const LocalTask& pushed = host_.pushed[0];
  EXPECT_TRUE(pushed.writes_streams);
  ASSERT_THAT(pushed.sources, SizeIs(2));
  EXPECT_FALSE(pushed.sources[0].node) << "it runs nowhere";
  EXPECT_EQ(pushed.sources[1].node, NodeId(2));
  EXPECT_FALSE(pushed.sources[0].split);
  EXPECT_TRUE(pushed.sources[1].split);
  EXPECT_EQ(pushed.sources[1].stream, StreamId(7));
  EXPECT_EQ(pushed.sources[1].writer, (AttemptId{TaskId(6), 2}));
  EXPECT_EQ(BytesOf(pushed.sources[1].records), 4u);
  pb::ToAgent others;
  wire::SetId({TaskId(6), 2}, others.add_unread());
  Tell(others);
  others.Clear();
  wire::SetId({TaskId(6), 2}, others.add_drop_written());
  Tell(others);
  EXPECT_THAT(of_streams_, SizeIs(3));
}

TEST_F(SessionTest, ResultsNameWhatWasRead) {
  session_.Start();
  const pb::FromAgent hello = Take().at(0);
  ASSERT_EQ(hello.hello().written_size(), 1);
  EXPECT_EQ(hello.hello().written(0).task(), 8u);
  Welcome(1);
  Take();
  Batch batch = Ended({1, 2});
  batch.ended[0].read.push_back({.stream = StreamId(7), .writer = {TaskId(6), 2}, .node = NodeId(1)});
  batch.ended[1].end = End::kRewound;
  session_.Deliver(std::move(batch));
  const pb::FromAgent told = Take().at(0);
  const pb::Attempt& read = told.ended(0).attempt(0);
  ASSERT_EQ(read.read_size(), 1);
  EXPECT_EQ(read.read(0).stream(), 7u);
  EXPECT_EQ(read.read(0).writer().task(), 6u);
  EXPECT_EQ(read.read(0).writer().number(), 2u);
  EXPECT_EQ(told.ended(0).attempt(1).end(), pb::Attempt::REWOUND);
}

TEST_F(SessionTest, GarbageEndsTheConnectionOnly) {
  Join();
  auto first = channel_;
  channel_->Deliver("\xff\xff\xff garbage");
  EXPECT_TRUE(first->closed());
  loop_.Advance(milliseconds(100));
  EXPECT_NE(channel_, first);
  EXPECT_THAT(over_, IsEmpty());
}

/// Until then the agent may die, and the task would have to begin anew.
TEST_F(SessionTest, CheckpointsGoWhenItIsOnRecordThatTheirTaskIsDone) {
  const test::OwnDirectory scratch;
  const std::string top = scratch.path() + "/checkpoints";
  auto checkpoints = std::make_shared<migrate::Checkpoints>(top + "/task", migrate::Checkpoints::Rules{});
  ASSERT_TRUE(checkpoints->Begin().ok());
  Join();
  Batch batch;
  batch.ended.emplace_back();
  batch.ended.back().end = End::kExited;
  batch.ended.back().over = checkpoints;
  session_.Deliver(std::move(batch));
  checkpoints.reset();
  Break();
  loop_.Advance(milliseconds(100));
  Welcome(2);
  EXPECT_TRUE(std::filesystem::exists(top + "/task/files"));
  pb::ToAgent message;
  message.mutable_committed()->set_sequence(1);
  Tell(message);
  EXPECT_TRUE(test::Eventually([&] { return !std::filesystem::exists(top); }));
}

}  // namespace
}  // namespace harrow::agent
