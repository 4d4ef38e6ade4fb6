// What a session tells the server, what it takes from a welcome, and what is left when it ends.
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/steps/gang.h"
#include "os/log.h"
#include "os/posix_files.h"
#include "unit/agent/session_fixture.h"

namespace harrow::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class SessionWordsTest : public SessionTest {
 protected:
  /// What is logged while `run` goes on.
  static std::vector<std::string> LoggedIn(const std::function<void()>& run) {
    os::Fd log(memfd_create("log", MFD_CLOEXEC));
    const std::string path = "/proc/self/fd/" + std::to_string(log.get());
    EXPECT_TRUE(os::OpenLog(os::Fd(dup(log.get()))).ok());
    run();
    EXPECT_TRUE(os::OpenLog(os::Fd(dup(STDERR_FILENO)), os::LogLevel::kWarning).ok());
    std::vector<std::string> lines;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }
  static void Cancel(pb::ToAgent* message) { wire::SetId({TaskId(4), 3}, message->mutable_cancel()->add_attempt()); }
  static pb::Task* AddTask(pb::ToAgent* message, uint32_t profile) {
    pb::Task* const task = message->add_start();
    task->set_id(5);
    task->set_attempt(1);
    task->set_profile(profile);
    return task;
  }
};

TEST_F(SessionWordsTest, TheHelloDescribesTheNode) {
  host_.snapshot.running.push_back({.id = 3, .gang = std::make_shared<Gang>(Gang{.nodes = {{.id = NodeId(6)}}})});
  host_.snapshot.running.push_back({.id = 4});
  session_.Start();
  const auto said = Take();
  ASSERT_THAT(said, SizeIs(1));
  const pb::AgentHello& hello = said[0].hello();
  EXPECT_EQ(hello.node().slots(), 2u);
  EXPECT_EQ(hello.node().gpus(), 1u);
  EXPECT_EQ(hello.node().memory(), 4096u);
  EXPECT_EQ(hello.node().topology(), "2 sockets");
  EXPECT_EQ(hello.unfit(), "");
  ASSERT_EQ(hello.running_size(), 2);
  EXPECT_EQ(hello.running(0).gang().node(0).node(), 6u);
  EXPECT_FALSE(hello.running(1).has_gang());
}

TEST_F(SessionWordsTest, ANodeThatIsUnfitSaysSoAtOnceAndMayHaveNoneOfTheOtherHooks) {
  Session plain(loop_, host_, {.name = "n2", .unfit = "no disk"}, Dialing(), {.over = {}, .welcomed = [](const auto&) {}});
  plain.Start();
  EXPECT_EQ(Take().at(0).hello().unfit(), "no disk");
  fence_ = seconds(30);
  Welcome(1);
  EXPECT_TRUE(plain.joined());
  EXPECT_EQ(loop_.timer_count(), 2u) << "the next heartbeat and the lease: nobody has to be asked again";
  pb::ToAgent message;
  message.add_profile()->set_id(8);
  AddTask(&message, 8);
  message.set_end_time_ns(1);
  message.add_unput("f");
  wire::SetId({TaskId(6), 2}, message.add_unread());
  Tell(message);
  ASSERT_THAT(host_.pushed, SizeIs(1));
  EXPECT_FALSE(host_.pushed[0].profile->base().common().has_devices);
}

TEST_F(SessionWordsTest, WhatTheHelloHeldIsNotToldOnceMore) {
  Join();
  session_.Deliver(Ended({1, 2}));
  Break();
  loop_.Advance(milliseconds(100));
  EXPECT_EQ(Take().at(0).ended_size(), 1);
  session_.Deliver(Ended({3}));
  Welcome(2);
  std::vector<uint64_t> told;
  for (const pb::FromAgent& message : Take()) {
    for (const pb::TasksEnded& ended : message.ended()) told.push_back(ended.sequence());
  }
  EXPECT_THAT(told, ElementsAre(2u));
}

TEST_F(SessionWordsTest, EachKindOfWordIsSaidOnce) {
  Join();
  session_.Deliver(Ended({1}));
  Take();
  Batch batch = Ended({2});
  batch.started.push_back({.id = 6, .attempt = 1});
  batch.missed.push_back({{TaskId(3), 2}, "it is deaf"});
  session_.Deliver(std::move(batch));
  const auto said = Take();
  ASSERT_THAT(said, SizeIs(3));
  EXPECT_TRUE(said[0].has_started() && said[0].missed_size() == 0 && said[0].ended_size() == 0);
  EXPECT_TRUE(!said[1].has_started() && said[1].missed_size() == 1 && said[1].ended_size() == 0);
  EXPECT_TRUE(!said[2].has_started() && said[2].missed_size() == 0 && said[2].ended_size() == 1);
}

TEST_F(SessionWordsTest, AMessageThatSaysNothingOfTasksReachesNoSlot) {
  Join();
  pb::ToAgent message;
  message.add_drop(1);
  Tell(message);
  EXPECT_EQ(host_.calls, 0);
  host_.snapshot.queued = {{TaskId(4), 1}};
  message.Clear();
  wire::SetId({TaskId(4), 1}, message.add_take_back());
  Tell(message);
  EXPECT_EQ(host_.calls, 1);
  EXPECT_EQ(Take().at(0).returned().attempt_size(), 1);
}

TEST_F(SessionWordsTest, ATaskOfAProfileThatWasNeverSentIsToldToTheServer) {
  Join();
  pb::ToAgent message;
  AddTask(&message, 9);
  Tell(message);
  const auto said = Take();
  ASSERT_THAT(said, SizeIs(1));
  EXPECT_EQ(said[0].problem().text(), "task 5 names profile 9, which was never sent");
  EXPECT_TRUE(said[0].problem().fatal());
  EXPECT_TRUE(channel_->closed());
  EXPECT_FALSE(session_.joined());
  EXPECT_THAT(host_.pushed, IsEmpty());
}

TEST_F(SessionWordsTest, ProfilesAreOfTheServerThatSentThem) {
  Join();
  pb::ToAgent message;
  message.add_profile()->set_id(8);
  Tell(message);
  Break();
  loop_.Advance(milliseconds(100));
  Welcome(2);
  message.Clear();
  AddTask(&message, 8);
  Tell(message);
  EXPECT_THAT(host_.pushed, IsEmpty());
  EXPECT_TRUE(channel_->closed());
}

TEST_F(SessionWordsTest, TasksHaveTheEnvironmentOfTheWelcome) {
  session_.Start();
  pb::ToAgent message;
  message.mutable_welcome()->set_epoch(1);
  pb::EnvVar* const variable = message.mutable_welcome()->add_env();
  variable->set_name("COLOUR");
  variable->set_value("blue");
  message.add_profile()->set_id(8);
  AddTask(&message, 8);
  Tell(message);
  ASSERT_THAT(host_.pushed, SizeIs(1));
  EXPECT_EQ(host_.pushed[0].profile->Variable("COLOUR"), "blue");
  EXPECT_TRUE(host_.pushed[0].profile->base().common().has_devices);
  EXPECT_THAT(over_, IsEmpty());
  loop_.Advance(seconds(5));
  EXPECT_THAT(over_, IsEmpty()) << "a welcome that names no lease and no heartbeat changes none";
  EXPECT_TRUE(session_.joined());
}

TEST_F(SessionWordsTest, LeaseAndHeartbeatsAreAsTheWelcomeSays) {
  lease_ = seconds(20);
  heartbeat_ = seconds(2);
  Join();
  loop_.Advance(seconds(7));
  EXPECT_THAT(Take(), SizeIs(3));
  server_up_ = false;
  Break();
  loop_.Advance(seconds(12));
  EXPECT_THAT(over_, IsEmpty());
  loop_.Advance(seconds(2));
  EXPECT_THAT(over_, ElementsAre(Session::Over::kLeaseOver));
}

TEST_F(SessionWordsTest, TheLeaseBeginsWithTheAgent) {
  server_up_ = false;
  loop_.Stand(seconds(1000));
  session_.Start();
  loop_.Advance(seconds(299));
  EXPECT_THAT(over_, IsEmpty());
  loop_.Advance(seconds(2));
  EXPECT_THAT(over_, ElementsAre(Session::Over::kLeaseOver));
}

TEST_F(SessionWordsTest, HeartbeatsAreNumberedAndOneSeriesOfThemGoesOn) {
  session_.Start();
  Welcome(1);
  const auto numbers = [this] {
    std::vector<uint64_t> all;
    for (const pb::FromAgent& message : Take()) {
      if (message.has_heartbeat()) all.push_back(message.heartbeat().sequence());
    }
    return all;
  };
  loop_.Advance(milliseconds(3));
  Answer();  // the first one: another follows at once
  loop_.Advance(milliseconds(3500));
  EXPECT_THAT(numbers(), ElementsAre(2u, 3u, 4u, 5u));
}

TEST_F(SessionWordsTest, ARoundTripThatTookNoTimeIsNotKnown) {
  session_.Start();
  Welcome(1);
  Answer();
  EXPECT_EQ(Take().at(0).heartbeat().round_trip_ns(), 0);
}

TEST_F(SessionWordsTest, WhoIsRefusedAsksAgainOnceEachTime) {
  fence_ = seconds(30);
  session_.Start();
  refuse_ = 100;
  Welcome(1);
  Answer();
  host_.ended_when_asked.clear();
  loop_.Advance(milliseconds(20));
  EXPECT_THAT(host_.ended_when_asked, SizeIs(4));
  session_.Close();
  EXPECT_EQ(loop_.timer_count(), 0u);
}

TEST_F(SessionWordsTest, ThatTasksStandAndGoOnIsLoggedOnce) {
  fence_ = seconds(8);
  const auto lines = LoggedIn([this] {
    Join();
    loop_.Advance(seconds(6));
    Answer();
  });
  std::vector<std::string> of_tasks;
  for (const std::string& line : lines) {
    if (line.find("tasks ") != std::string::npos) of_tasks.push_back(line);
  }
  ASSERT_THAT(of_tasks, SizeIs(2));
  EXPECT_THAT(of_tasks[0], HasSubstr("no server has answered for 4.00 s: tasks stand still until one does"));
  EXPECT_THAT(of_tasks[1], HasSubstr("tasks go on after 2.00 s"));
}

TEST_F(SessionWordsTest, OneThatHungFindsAfterwardsThatItsTasksStood) {
  fence_ = seconds(8);
  Join();
  loop_.Advance(seconds(1));
  size_t times = 0;
  for (const std::string& line : LoggedIn([this] {
         loop_.Stand(seconds(4));
         Answer();
         pb::ToAgent again;
         again.add_drop(1);
         Tell(again);
       }))
    times += line.find("tasks stand still") != std::string::npos;
  EXPECT_EQ(times, 1u);
}

TEST_F(SessionWordsTest, WhatBecameOfAFileIsToldWithAllThatIsKnown) {
  Join();
  const store::Object object{.id = {.high = 1, .low = 2}, .bytes = 3};
  session_.TellFile({.file = FileId(4),
                     .what = FileNews::What::kPut,
                     .object = object,
                     .from = NodeId(5),
                     .moved = 6,
                     .text = "why",
                     .source = "source",
                     .put = 7,
                     .took = Duration(8)});
  session_.TellFile({.file = FileId(9)});
  loop_.Advance(BatchPolicy().gather);
  const auto said = Take();
  ASSERT_THAT(said, SizeIs(1));
  ASSERT_EQ(said[0].file_size(), 2);
  const pb::FileNote& note = said[0].file(0);
  EXPECT_EQ(note.what(), pb::FileNote::PUT);
  EXPECT_EQ(note.object(), object.id.Bytes());
  EXPECT_EQ(note.bytes(), 3);
  EXPECT_EQ(note.source(), "source");
  EXPECT_EQ(note.from(), 6u) << "one more than it: 0 is the submit directory";
  EXPECT_EQ(note.moved(), 6);
  EXPECT_EQ(note.why(), "why");
  EXPECT_EQ(note.put(), 7u);
  EXPECT_EQ(note.took_ns(), 8);
  EXPECT_EQ(said[0].file(1).from(), 0u);
  EXPECT_EQ(said[0].file(1).object(), "");
}

TEST_F(SessionWordsTest, ProblemsAddressesAndWhatIsUnfitAreToldToAServerThatIsThere) {
  const auto say_all = [this] {
    session_.Report("a line");
    session_.TellPeerAddresses({"a:1", "b:2"});
    session_.TellUnfit("its disk is full");
  };
  session_.Start();
  Take();
  say_all();
  EXPECT_THAT(Take(), IsEmpty());
  Welcome(1);
  Take();
  say_all();
  const auto said = Take();
  ASSERT_THAT(said, SizeIs(3));
  EXPECT_EQ(said[0].problem().text(), "a line");
  EXPECT_FALSE(said[0].problem().fatal());
  EXPECT_THAT(said[1].peer_address(), ElementsAre("a:1", "b:2"));
  EXPECT_EQ(said[2].unfit(), "its disk is full");
}

TEST_F(SessionWordsTest, AllIsSentWhenTheChannelHasTakenIt) {
  EXPECT_TRUE(session_.AllSent()) << "there is nothing";
  Join();
  channel_->stalled = true;
  session_.Report("a line");
  EXPECT_FALSE(session_.AllSent());
  channel_->Release();
  EXPECT_TRUE(session_.AllSent());
}

TEST_F(SessionWordsTest, WhatComesOfAnEarlierConnectionIsIgnored) {
  Join();
  Break();
  loop_.Advance(milliseconds(100));
  Welcome(2);
  ASSERT_THAT(handlers_, SizeIs(2));
  pb::ToAgent late;
  Cancel(&late);
  handlers_[0].on_message(late.SerializeAsString());
  EXPECT_THAT(host_.ended, IsEmpty());
  handlers_[0].on_closed(Status(Code::kUnavailable, "late"));
  EXPECT_TRUE(session_.joined());
  session_.Close();
  handlers_[1].on_message(late.SerializeAsString());
  EXPECT_THAT(host_.ended, IsEmpty());
}

/// The call may be the channel's own.
TEST_F(SessionWordsTest, AChannelIsDestroyedAfterTheCallThatEndsIt) {
  for (const bool closes : {false, true}) {
    if (!closes) session_.Start();
    Welcome(1);
    const std::weak_ptr<test::FakeChannel> weak = std::exchange(channel_, nullptr);
    if (closes) {
      session_.Close();
      ASSERT_FALSE(weak.expired());
      EXPECT_TRUE(weak.lock()->closed());
    } else {
      weak.lock()->Break(Status(Code::kUnavailable, "connection reset"));
      EXPECT_FALSE(weak.expired());
    }
    handlers_.clear();
    loop_.RunPosted();
    EXPECT_TRUE(weak.expired());
    loop_.Advance(milliseconds(100));
  }
}

TEST_F(SessionWordsTest, WhoLeavesTakesNoConnectionThatComesLateAndWaitsForNoLease) {
  hold_ = true;
  session_.Start();
  session_.Leave();
  Connects(held_);
  EXPECT_THAT(channel_->TakeSent(), IsEmpty());
  EXPECT_FALSE(handlers_[0].on_message);
  loop_.Advance(seconds(2));
  EXPECT_EQ(loop_.timer_count(), 0u);
}

TEST_F(SessionWordsTest, OneThatIsGoneIsNotConnectedAndLeavesNoTimers) {
  std::optional<Session> session;
  session.emplace(loop_, host_, Node(), Dialing(), Hooks());
  hold_ = true;
  session->Start();
  session.reset();
  EXPECT_EQ(loop_.timer_count(), 0u);
  Connects(held_);
  EXPECT_THAT(channel_->TakeSent(), IsEmpty());
  EXPECT_FALSE(handlers_[0].on_message);
  hold_ = false;
  session.emplace(loop_, host_, Node(), Dialing(), Hooks());
  session->Start();
  refuse_ = 100;
  Welcome(1);
  session->TellFile({.file = FileId(1)});
  EXPECT_EQ(loop_.timer_count(), 4u) << "lease, heartbeat, fence, notes";
  session.reset();
  EXPECT_EQ(loop_.timer_count(), 0u);
}

}  // namespace
}  // namespace harrow::agent
