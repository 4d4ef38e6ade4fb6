// What the agent's end of harrow-pmix and a helper say to each other: the test is the helper, in whose place
// a process stands that does nothing.
#include <sys/mman.h>

#include "live/pmix_played_fixture.h"
#include "os/log.h"

namespace harrow::agent {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

class PmixMessagesTest : public PlayedHelpersFixture {};

TEST_F(PmixMessagesTest, ATeamIsDescribedAndItsVariablesAreHandedOn) {
  Open();
  Added added = Begin(1, 2);
  const auto helper = Next();
  const auto heard = helper->Hear();
  ASSERT_TRUE(heard && heard->add_size() == 1);
  const pb::RankTeam& wanted = heard->add(0);
  EXPECT_EQ(wanted.team(), 1u);
  EXPECT_THAT(wanted.space(), StartsWith("harrow-"));
  EXPECT_EQ(wanted.space().size(), std::string("harrow-").size() + 32);
  EXPECT_EQ(wanted.directory(), "/x");
  EXPECT_EQ(wanted.here(), 0u);
  ASSERT_EQ(wanted.node_size(), 1);
  EXPECT_EQ(wanted.node(0).name(), "node1");
  EXPECT_EQ(wanted.node(0).ranks(), 2u);
  EXPECT_EQ(Told(), root_ + "/pmix-1 node1");

  helper->Say(IsAdded(7));  // which is not here
  pb::FromPmix said = IsAdded(1);
  for (const char* rank : {"0", "1"}) {
    pb::RankVariables* const own = said.mutable_added(0)->add_rank();
    for (const char* name : {"A", "B"}) {
      pb::EnvVar* const variable = own->add_variable();
      variable->set_name(name);
      variable->set_value(std::string(name) + "=" + rank);
    }
  }
  helper->Say(said);
  const auto variables = added.get();
  ASSERT_TRUE(variables.ok());
  EXPECT_THAT(*variables, ElementsAre(ElementsAre("A=A=0", "B=B=0"), ElementsAre("A=A=1", "B=B=1")));
}

TEST_F(PmixMessagesTest, OfSeveralNodesAllAreNamed) {
  Open();
  const auto gang =
      std::make_shared<Gang>(Gang{.nodes = {{NodeId(4), "a", 3}, {NodeId(2), "b", 1}, {NodeId(9), "c", 2}},
                                  .here = 1,
                                  .space = "a-space"});
  Added added = Begin(1, 1, gang);
  const auto helper = Next();
  const auto heard = helper->Hear();
  ASSERT_TRUE(heard && heard->add_size() == 1);
  const pb::RankTeam& wanted = heard->add(0);
  EXPECT_EQ(wanted.space(), "a-space");
  EXPECT_EQ(wanted.here(), 1u);
  ASSERT_EQ(wanted.node_size(), 3);
  std::string nodes;
  for (const pb::RankNode& node : wanted.node()) nodes += node.name() + std::to_string(node.ranks());
  EXPECT_EQ(nodes, "a3b1c2");
  helper->Say(IsAdded(wanted.team()));
  EXPECT_TRUE(added.get().ok());
}

TEST_F(PmixMessagesTest, ATeamThatIsNotServedIsForgotten) {
  Open();
  Added added = Begin(1, 1);
  const auto helper = Next();
  const auto heard = helper->Hear();
  ASSERT_TRUE(heard && heard->add_size() == 1);
  pb::FromPmix said = IsAdded(heard->add(0).team());
  said.mutable_added(0)->set_why("no room");
  helper->Say(said);
  const auto why = added.get();
  EXPECT_EQ(why.status().code(), Code::kInvalid);
  EXPECT_EQ(why.status().message(), "PMIx does not serve it: no room");
  const auto dropped = helper->Hear();
  ASSERT_TRUE(dropped);
  EXPECT_THAT(dropped->drop(), ElementsAre(heard->add(0).team()));
  EXPECT_FALSE(Ended(1, 0));
  EXPECT_TRUE(helper->IsSilent());
  // The next one is called otherwise, and this helper serves it, too.
  Added next = Begin(2, 1);
  const auto wanted = helper->Hear();
  ASSERT_TRUE(wanted && wanted->add_size() == 1);
  EXPECT_EQ(wanted->add(0).team(), 2u);
  helper->Say(IsAdded(2));
  EXPECT_TRUE(next.get().ok());
}

TEST_F(PmixMessagesTest, WhatIsSeenOfARankIsToldAsItIsThen) {
  Open();
  const auto helper = Serve(1, 3);
  const auto ask = [&](const std::function<void(pb::FromPmix*)>& say) {
    auto seen = std::async(std::launch::async, [&] { return Ended(1, 2); });
    const auto heard = helper->Hear();
    EXPECT_TRUE(heard && heard->ended_size() == 1);
    if (heard && heard->ended_size() == 1) {
      EXPECT_EQ(heard->ended(0).team(), 1u);
      EXPECT_EQ(heard->ended(0).rank(), 2u);
    }
    pb::FromPmix said;
    for (const auto& [team, rank] : {std::pair{1u, 1u}, {7u, 2u}}) {  // others
      pb::RankSeen* const other = said.add_seen();
      other->set_team(team);
      other->set_rank(rank);
      other->set_turn(100);
    }
    say(&said);
    helper->Say(said);
    return seen.get();
  };
  const auto add = [](pb::FromPmix* said) {
    pb::RankSeen* const seen = said->add_seen();
    seen->set_team(1);
    seen->set_rank(2);
    return seen;
  };
  const auto first = ask([&](pb::FromPmix* said) {
    pb::RankSeen* const seen = add(said);
    seen->set_connected(true);
    seen->set_abort_code(3);
    seen->set_turn(2);
  });
  ASSERT_TRUE(first);
  EXPECT_TRUE(first->connected);
  EXPECT_FALSE(first->finalized || first->others_speak || first->aborted);
  EXPECT_EQ(first->turn, 2u);
  const auto second = ask([&](pb::FromPmix* said) {
    pb::RankSeen* const seen = add(said);
    seen->set_finalized(true);
    seen->set_aborted(true);
    seen->set_abort_code(-5);
    seen->set_others_speak(true);
  });
  ASSERT_TRUE(second);
  EXPECT_FALSE(second->connected);
  EXPECT_TRUE(second->finalized && second->others_speak);
  EXPECT_EQ(second->aborted, -5);
  EXPECT_EQ(second->turn, 0u);
}

TEST_F(PmixMessagesTest, WhoIsDroppedIsNotSpokenOfAnyMore) {
  ToldGangs gangs;
  Open(&gangs);
  const auto helper = Serve(1, 1);
  ServeBy(helper.get(), 2, 1);
  std::vector<std::string> answers;
  port_->Ask(Attempt(1), "x", [&](std::string text) { answers.push_back(std::move(text)); });
  EXPECT_TRUE(helper->Hear());
  pb::FromPmix said;
  said.add_meeting()->set_team(1);
  pb::TeamQuestion* const question = said.add_question();
  question->set_team(1);
  helper->Say(said);
  WaitUntil([&] {  // what it has said is heard in order
    Turn(helper.get(), 2);
    return !gangs.questions().empty();
  });
  port_->Drop(Attempt(1));
  const auto dropped = helper->Hear();
  ASSERT_TRUE(dropped);
  EXPECT_THAT(dropped->drop(), ElementsAre(1));
  port_->Drop(Attempt(1));
  port_->Drop(Attempt(7));
  ASSERT_THAT(gangs.meetings(), SizeIs(1));
  gangs.meetings()[0].met(std::string("all"));
  gangs.questions()[0].answered("an answer");
  EXPECT_FALSE(Ended(1, 0));
  said.Clear();
  pb::TeamAnswer* const late = said.add_answer();
  late->set_team(1);
  late->set_number(1);
  helper->Say(said);
  Turn(helper.get(), 2);
  EXPECT_THAT(answers, IsEmpty());
  port_->Ask(Attempt(1), "x", [&](std::string text) { answers.push_back("now: " + text); });
  EXPECT_THAT(answers, ElementsAre("now: "));
}

TEST_F(PmixMessagesTest, RanksMeetThoseOfOtherNodes) {
  ToldGangs gangs;
  Open(&gangs);
  const auto helper = Serve(1, 3);
  pb::FromPmix said;
  said.add_meeting()->set_team(7);  // which is not here
  for (const uint64_t number : {4u, 5u}) {
    pb::TeamMeeting* const meeting = said.add_meeting();
    meeting->set_team(1);
    meeting->set_number(number);
    meeting->set_data("brought to " + std::to_string(number));
  }
  said.mutable_meeting(1)->add_rank(0);
  said.mutable_meeting(1)->add_rank(2);
  said.set_pong(1);
  helper->Say(said);
  WaitUntil([&] {
    Turn(helper.get(), 1);
    return gangs.meetings().size() == 2;
  });
  EXPECT_EQ(gangs.meetings()[0].attempt, Attempt(1));
  EXPECT_THAT(gangs.meetings()[0].ranks, ElementsAre(0, 2));
  EXPECT_EQ(gangs.meetings()[0].data, "brought to 4");
  EXPECT_THAT(gangs.meetings()[1].ranks, IsEmpty());
  gangs.meetings()[1].met(std::string("all's"));
  gangs.meetings()[0].met(Status(Code::kExhausted, "too much"));
  const auto met = helper->Hear(), failed = helper->Hear();
  ASSERT_TRUE(met && met->met_size() == 1 && failed && failed->met_size() == 1);
  EXPECT_EQ(met->met(0).team(), 1u);
  EXPECT_EQ(met->met(0).number(), 5u);
  EXPECT_EQ(met->met(0).data(), "all's");
  EXPECT_EQ(met->met(0).why(), "");
  EXPECT_EQ(failed->met(0).number(), 4u);
  EXPECT_EQ(failed->met(0).data(), "");
  EXPECT_EQ(failed->met(0).why(), "too much");
}

TEST_F(PmixMessagesTest, AHelperAsksThoseOfOtherNodes) {
  ToldGangs gangs;
  Open(&gangs);
  const auto helper = Serve(1, 1);
  pb::FromPmix said;
  said.add_question()->set_team(7);
  pb::TeamQuestion* const question = said.add_question();
  question->set_team(1);
  question->set_number(6);
  question->set_node(2);
  question->set_text("what?");
  helper->Say(said);
  WaitUntil([&] {
    Turn(helper.get(), 1);
    return !gangs.questions().empty();
  });
  ASSERT_THAT(gangs.questions(), SizeIs(1));
  EXPECT_EQ(gangs.questions()[0].attempt, Attempt(1));
  EXPECT_EQ(gangs.questions()[0].node, 2u);
  EXPECT_EQ(gangs.questions()[0].text, "what?");
  gangs.questions()[0].answered("that");
  const auto answer = helper->Hear();
  ASSERT_TRUE(answer && answer->answer_size() == 1);
  EXPECT_EQ(answer->answer(0).team(), 1u);
  EXPECT_EQ(answer->answer(0).number(), 6u);
  EXPECT_EQ(answer->answer(0).data(), "that");
}

TEST_F(PmixMessagesTest, AHelperIsAskedAndEachAnswerGoesToItsQuestion) {
  Open();
  const auto helper = Serve(1, 1);
  ServeBy(helper.get(), 2, 1);
  std::mutex mutex;
  std::vector<std::string> answers;
  for (const char* text : {"one", "two"}) {
    port_->Ask(Attempt(1), text, [&, text](const std::string& answer) {
      std::lock_guard lock(mutex);
      answers.push_back(std::string(text) + ": " + answer);
    });
  }
  const auto one = helper->Hear(), two = helper->Hear();
  ASSERT_TRUE(one && one->question_size() == 1 && two && two->question_size() == 1);
  EXPECT_EQ(one->question(0).team(), 1u);
  EXPECT_EQ(one->question(0).text(), "one");
  EXPECT_EQ(two->question(0).text(), "two");
  const auto answer = [&](uint64_t team, uint64_t number, const std::string& text) {
    pb::FromPmix said;
    pb::TeamAnswer* const told = said.add_answer();
    told->set_team(team);
    told->set_number(number);
    told->set_data(text);
    helper->Say(said);
  };
  answer(2, one->question(0).number(), "another team's");
  answer(7, one->question(0).number(), "nobody's");
  answer(1, 99, "to nothing");
  answer(1, two->question(0).number(), "2");
  answer(1, two->question(0).number(), "again");
  answer(1, one->question(0).number(), "1");
  WaitUntil([&] {
    std::lock_guard lock(mutex);
    return answers.size() >= 2;
  });
  EXPECT_THAT(answers, ElementsAre("two: 2", "one: 1"));
}

TEST_F(PmixMessagesTest, WithoutOtherNodesNobodyIsMetOrAsked) {
  Open();
  const auto helper = Serve(1, 1);
  pb::FromPmix said;
  said.add_meeting()->set_team(1);
  said.add_question()->set_team(1);
  helper->Say(said);
  ServeBy(helper.get(), 2, 1);
}

TEST_F(PmixMessagesTest, WhoHasTeamsIsPingedOnceHeHasAnswered) {
  Open();
  const auto helper = Serve(1, 1);
  clock_.Advance(seconds(5) - Duration(1));
  Turn(helper.get(), 1);
  Turn(helper.get(), 1);
  clock_.Advance(Duration(1));
  std::vector<uint64_t> pings;
  const auto note = [&](const pb::ToPmix& heard) { pings.push_back(heard.ping()); };
  Turn(helper.get(), 1, note);
  clock_.Advance(std::chrono::milliseconds(500));
  Turn(helper.get(), 1, note);
  EXPECT_THAT(pings, ElementsAre(1));
  clock_.Advance(seconds(1));
  Turn(helper.get(), 1);
  pb::FromPmix pong;
  pong.set_pong(1);
  helper->Say(pong);
  for (int i = 0; i < 3; ++i) Turn(helper.get(), 1);  // the last one was not long ago
  clock_.Advance(seconds(4));
  WaitUntil([&] {
    Turn(helper.get(), 1, note);
    return pings.size() == 2;
  });
  EXPECT_THAT(pings, ElementsAre(1, 2));
  pong.set_pong(2);
  helper->Say(pong);
  pong.set_pong(1);  // it is not taken for an older one's
  helper->Say(pong);
  clock_.Advance(seconds(5));
  WaitUntil([&] {
    Turn(helper.get(), 1, note);
    return pings.size() == 3;
  });
  EXPECT_THAT(pings, ElementsAre(1, 2, 3));
}

TEST_F(PmixMessagesTest, WhoHasNoTeamIsNotPinged) {
  Open();
  const auto helper = Serve(1, 1);
  port_->Drop(Attempt(1));
  EXPECT_TRUE(helper->Hear());
  clock_.Advance(seconds(5));
  WaitUntil([&, turns = turns_.load()] {  // the second one has begun
    helper->Say({});
    return turns_ >= turns + 2;
  });
  EXPECT_TRUE(helper->IsSilent());
}

TEST_F(PmixMessagesTest, AnAnswerIsOwedAsLongAsTasksMayRun) {
  Open();
  const auto helper = Serve(1, 1);
  clock_.Advance(seconds(5));
  std::vector<uint64_t> pings;
  const auto note = [&](const pb::ToPmix& heard) { pings.push_back(heard.ping()); };
  Turn(helper.get(), 1, note);
  Turn(helper.get(), 1, note);
  ASSERT_THAT(pings, ElementsAre(1));
  clock_.Advance(std::chrono::hours(1));  // this process has stood
  Turn(helper.get(), 1);
  may_run_ = false;
  for (int i = 0; i < 10; ++i) {
    clock_.Advance(seconds(1));
    Turn(helper.get(), 1);
  }
  may_run_ = true;
  clock_.Advance(seconds(1));
  Turn(helper.get(), 1);
  clock_.Advance(seconds(1) - Duration(1));
  Turn(helper.get(), 1);
  Turn(helper.get(), 1);
  EXPECT_FALSE(port_->LossOf(Attempt(1)));
  clock_.Advance(Duration(1));
  port_->Ask(Attempt(1), "", [](const std::string&) {});
  WaitForLoss(1);
  EXPECT_EQ(why_, "harrow-pmix did not answer, and was ended");
  ASSERT_TRUE(port_->LossOf(Attempt(1)));
  EXPECT_EQ(port_->LossOf(Attempt(1))->when, clock_.Now());
}

TEST_F(PmixMessagesTest, AnAnswerThatComesClearsTheDebt) {
  Open();
  const auto helper = Serve(1, 1);
  std::vector<uint64_t> pings;
  const auto note = [&](const pb::ToPmix& heard) {
    pings.push_back(heard.ping());
    pb::FromPmix pong;
    pong.set_pong(heard.ping());
    helper->Say(pong);
  };
  for (int i = 0; i < 60; ++i) {
    clock_.Advance(seconds(1));
    Turn(helper.get(), 1, note);
  }
  EXPECT_GT(pings.size(), 6u);
  EXPECT_FALSE(port_->LossOf(Attempt(1)));
}

TEST_F(PmixMessagesTest, WhoHasServedEnoughIsToldToEndWithItsLastTeam) {
  const os::Fd log(memfd_create("log", MFD_CLOEXEC));
  ASSERT_TRUE(os::OpenLog(os::Fd(dup(log.get())), os::LogLevel::kWarning).ok());
  Open(nullptr, 4);
  const auto first = Serve(1, 1);
  ServeBy(first.get(), 2, 2);
  ServeBy(first.get(), 3, 1);
  const auto second = Serve(4, 1);
  EXPECT_EQ(Told(), root_ + "/pmix-2 node1");
  for (const uint32_t task : {1u, 2u, 3u}) {
    Turn(first.get(), 3);
    port_->Drop(Attempt(task));
    EXPECT_THAT(first->Hear().value_or(pb::ToPmix()).drop(), ElementsAre(task));
  }
  EXPECT_FALSE(first->Hear()) << "there is nothing more for it";
  EXPECT_TRUE(Helpers().contains(first->pid())) << "it is not hurried";
  first->HangUp();
  WaitUntil([&] { return !Helpers().contains(first->pid()); });
  ServeBy(second.get(), 5, 1);
  EXPECT_FALSE(std::filesystem::exists(root_ + "/pmix-1"));
  std::lock_guard lock(mutex_);
  EXPECT_EQ(why_, "");
  EXPECT_EQ(lseek(log.get(), 0, SEEK_END), 0) << "it was to end, and nobody is warned of it";
  EXPECT_TRUE(os::OpenLog(os::Fd(dup(STDERR_FILENO)), os::LogLevel::kWarning).ok());
}

TEST_F(PmixMessagesTest, WhoDoesNotEndWhenHeIsToldToIsEnded) {
  Open(nullptr, 1);
  const auto first = Serve(1, 1);
  port_->Drop(Attempt(1));
  EXPECT_TRUE(first->Hear());
  EXPECT_FALSE(first->Hear());
  const auto second = Serve(2, 1);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(Helpers().contains(first->pid()));
    clock_.Advance(seconds(1));
    Turn(second.get(), 2);
  }
  WaitUntil([&] { return !Helpers().contains(first->pid()); });
  std::lock_guard lock(mutex_);
  EXPECT_THAT(lost_, IsEmpty());
}

TEST_F(PmixMessagesTest, WherePmixDoesNotWorkIsSaidWhy) {
  Open();
  Added added = Begin(1, 1);
  const auto helper = Next();
  EXPECT_TRUE(helper->Hear());
  pb::FromPmix said;
  said.set_unusable("no library");
  helper->Say(said);
  helper->Say({});  // which says nothing of it
  helper->HangUp();
  EXPECT_EQ(added.get().status().message(), "PMIx does not serve it: no library");
  WaitUntil([&] { return Helpers().empty(); });
  const auto next = Serve(2, 1);
  next->Say(said);
  next->HangUp();
  WaitForLoss(2);
  EXPECT_EQ(why_, "PMIx does not work here: no library");
  EXPECT_THAT(lost_, ElementsAre(2)) << "the other was never served";
}

TEST_F(PmixMessagesTest, WhoEndsBeforeHeHasServedATeamHasLostIt) {
  Open();
  const auto helper = Serve(1, 1);
  Added added = Begin(2, 1);
  EXPECT_TRUE(helper->Hear());
  kill(helper->pid(), SIGKILL);
  helper->HangUp();
  const auto why = added.get();
  EXPECT_EQ(why.status().code(), Code::kUnavailable) << "another time";
  EXPECT_THAT(why.status().message(), HasSubstr("harrow-pmix died: signal 9"));
  WaitForLoss(1);
  EXPECT_THAT(lost_, ElementsAre(1, 2));
}

TEST_F(PmixMessagesTest, WhatNobodyWaitsForAnyMoreIsNotServed) {
  std::promise<void> go_on;
  when_lost_ = [&, on = go_on.get_future().share()] { on.wait(); };
  Open();
  Serve(1, 1)->HangUp();
  WaitForLoss(1);
  const auto why =
      port_->Add({.attempt = Attempt(2), .count = 1, .directory = "/x"}, [] { return true; }).status();
  EXPECT_EQ(why.code(), Code::kUnavailable);
  EXPECT_EQ(why.message(), "it was to end before PMIx served it");
  go_on.set_value();
  const auto helper = Serve(3, 1);
  Turn(helper.get(), 3);
}

TEST_F(PmixMessagesTest, WhoIsKilledBeforeHisFirstWordMayStillBeUsable) {
  Open();
  Added added = Begin(1, 1);
  const auto helper = Next();
  EXPECT_TRUE(helper->Hear());
  kill(helper->pid(), SIGKILL);
  helper->HangUp();
  const auto why = added.get();
  EXPECT_EQ(why.status().code(), Code::kUnavailable);
  EXPECT_EQ(why.status().message(), "harrow-pmix died: signal 9 (Killed)");
}

TEST_F(PmixMessagesTest, WhoEndsWithoutAWordIsNotUsable) {
  Open();
  Added added = Begin(1, 1);
  const auto helper = Next();
  EXPECT_TRUE(helper->Hear());
  EndHelpers();
  WaitUntil([&] { return IsOver(helper->pid()); });
  helper->HangUp();
  const auto why = added.get();
  EXPECT_EQ(why.status().code(), Code::kInvalid);
  EXPECT_EQ(why.status().message(),
            "PMIx does not serve it: harrow-pmix ended with exit code 0; is libpmix installed on node1?");
}

TEST_F(PmixMessagesTest, WhoEndsAfterHisFirstWordWasUsable) {
  Open();
  const auto helper = Serve(1, 1);
  EndHelpers();
  WaitUntil([&] { return IsOver(helper->pid()); });
  helper->HangUp();
  WaitForLoss(1);
  EXPECT_EQ(why_, "harrow-pmix died: exit code 0");
}

TEST_F(PmixMessagesTest, WhatAHelperHadIsLostAndNothingOfOthers) {
  Open(nullptr, 1);
  const auto first = Serve(1, 1), second = Serve(2, 1);
  std::ofstream(root_ + "/pmix-1/a-file") << "x";
  first->HangUp();
  WaitForLoss(1);
  EXPECT_THAT(lost_, ElementsAre(1));
  EXPECT_FALSE(port_->LossOf(Attempt(2)));
  EXPECT_FALSE(std::filesystem::exists(root_ + "/pmix-1"));
  EXPECT_TRUE(std::filesystem::exists(root_ + "/pmix-2"));
  Turn(second.get(), 2);
  EXPECT_EQ(kill(first->pid(), 0), -1) << "and waited for";
}

TEST_F(PmixMessagesTest, WhoSaysWhatCannotBeIsEnded) {
  Open(nullptr, 1);
  uint32_t task = 0;
  std::string unparsable;
  wire::AppendFrame("\xff\xff\xff", &unparsable);
  for (const std::string& bytes : {std::string(8, '\xff'), unparsable}) {
    const auto helper = Serve(++task, 1);
    helper->SayBytes(bytes);
    WaitForLoss(task);
    EXPECT_FALSE(Helpers().contains(helper->pid()));
  }
}

TEST_F(PmixMessagesTest, LongMessagesComeInPiecesBothWays) {
  Open();
  const auto helper = Serve(1, 1);
  std::string answer;
  std::atomic<bool> answered{false};
  const std::string text = std::string(5u << 20, 'x') + "end";
  port_->Ask(Attempt(1), text, [&](std::string told) {
    answer = std::move(told);
    answered = true;
  });
  const auto heard = helper->Hear();
  ASSERT_TRUE(heard && heard->question_size() == 1);
  EXPECT_EQ(heard->question(0).text(), text);
  pb::FromPmix said;
  pb::TeamAnswer* const told = said.add_answer();
  told->set_team(1);
  told->set_number(heard->question(0).number());
  told->set_data(text);
  helper->Say(said);
  WaitUntil([&] { return answered.load(); });
  EXPECT_EQ(answer, text);
}

TEST_F(PmixMessagesTest, WhereThereIsNoPlaceForItsFilesNoneIsStarted) {
  std::filesystem::create_directory(root_ + "/pmix-1");
  Open();
  const std::string taken = root_ + "/pmix-1";
  EXPECT_EQ(Add(1, 1).status().message(), "PMIx does not serve it: cannot make " + taken + ": File exists");
  EXPECT_TRUE(std::filesystem::exists(taken)) << "it is not ours";
  std::filesystem::remove(taken);
  const auto helper = Serve(2, 1);
  EXPECT_EQ(Told(), root_ + "/pmix-2 node1");
  struct stat about {};
  EXPECT_EQ(stat((root_ + "/pmix-2").c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777u, 0700u);
  port_.reset();
  Open();
  std::filesystem::rename(root_, scratch_.path() + "/moved");
  EXPECT_EQ(Add(3, 1).status().message(), "PMIx does not serve it: the directory " + root_ + " is gone");
  std::filesystem::rename(scratch_.path() + "/moved", root_);
  EXPECT_THAT(Helpers(), IsEmpty());
}

TEST_F(PmixMessagesTest, AtItsEndNoHelperIsLeft) {
  Open(nullptr, 1);
  const auto first = Serve(1, 1), second = Serve(2, 1);
  std::ofstream(root_ + "/pmix-2/a-file") << "x";
  port_->Stop();
  EXPECT_THAT(Helpers(), IsEmpty());
  EXPECT_TRUE(std::filesystem::is_empty(root_));
  ASSERT_TRUE(port_->LossOf(Attempt(2)));
  EXPECT_EQ(port_->LossOf(Attempt(2))->why, "the agent ends");
  EXPECT_EQ(Add(3, 1).status().message(), "the agent ends");
  std::string answer = "none";
  port_->Ask(Attempt(1), "x", [&](std::string text) { answer = std::move(text); });
  EXPECT_EQ(answer, "");
  EXPECT_THAT(lost_, IsEmpty());
}

}  // namespace
}  // namespace harrow::agent
