// harrow-pmix and ranks that speak PMIx with it: the test is the agent, and the helpers of other nodes.
#include "live/pmix_helper_fixture.h"

namespace harrow::agent {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::StartsWith;

class PmixHelperTest : public PmixHelperFixture {};

pb::PmixQuestion Asking(pb::PmixQuestion::What what, uint32_t rank,
                        const std::vector<std::string>& keys = {}) {
  pb::PmixQuestion question;
  question.set_what(what);
  question.set_rank(rank);
  for (const std::string& key : keys) question.add_key(key);
  if (what == pb::PmixQuestion::PUBLISH) {
    for (const std::string& key : keys) question.add_value("of " + key);
  }
  return question;
}

TEST_F(PmixHelperTest, EndsWithItsAgent) {
  EXPECT_TRUE(Lives());
  HangUp();
  EXPECT_EQ(helper_->Wait(), 0);
  Start();
  SayBytes(std::string(8, '\xff'));
  EXPECT_EQ(helper_->Wait(), 1) << "a message that is too long";
  Start();
  std::string unparsable;
  wire::AppendFrame("\xff\xff\xff", &unparsable);
  SayBytes(unparsable);
  EXPECT_EQ(helper_->Wait(), 1);
  EXPECT_FALSE(Hear());
  Start();
  shutdown(fd_, SHUT_RD);
  pb::ToPmix ping;
  ping.set_ping(1);
  Say(ping);
  EXPECT_EQ(helper_->Wait(), 0) << "an answer that cannot be given";
}

TEST_F(PmixHelperTest, WithoutItsArgumentsItSaysWhoStartsIt) {
  Program alone({HARROW_PMIX, root_}, Environment(), fd_, root_ + "/usage");
  EXPECT_EQ(alone.Wait(), 2);
  EXPECT_EQ(TextOf("usage"), "usage: harrow-pmix DIRECTORY NODE (started by harrow agent)\n");
}

TEST_F(PmixHelperTest, OutlivesWhatEndsAStep) {
  EXPECT_TRUE(Lives());
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGPIPE}) kill(helper_->pid(), signal);
  EXPECT_TRUE(Lives());
  std::string name;
  std::getline(std::ifstream("/proc/" + std::to_string(helper_->pid()) + "/comm"), name);
  EXPECT_EQ(name, "harrow-pmix");
}

TEST_F(PmixHelperTest, WherePmixDoesNotWorkItSaysWhy) {
  Start({"PMIX_MCA_psec=nothing"});
  const auto said = Hear();
  ASSERT_TRUE(said);
  EXPECT_THAT(said->unusable(), StartsWith("PMIx_server_init: "));
  EXPECT_EQ(helper_->Wait(), 1);
}

TEST_F(PmixHelperTest, IsNoRankOfWhatItWasStartedBy) {
  Start({"PMIX_NAMESPACE=strange", "PMIX_RANK=7", "PMIX_SERVER_URI4=strange.0;tcp4://127.0.0.1:1",
         "PMI_RANK=7", "PMIX_SECURITY_MODE=strange", "PMIX_HOSTNAME=strange", "PMIX_SERVER_TMPDIR=/strange"});
  Add(1, {1}, 0);
  EXPECT_EQ(ValueOf(variables_[0], "PMIX_RANK"), "0");
  EXPECT_THAT(variables_[0], testing::Not(Contains(HasSubstr("strange"))));
}

TEST_F(PmixHelperTest, ATeamThatIsNowhereIsRefused) {
  const std::vector<std::pair<std::vector<uint32_t>, uint32_t>> teams = {{{}, 0}, {{1}, 1}, {{0, 0}, 0}};
  for (const auto& [ranks, here] : teams) {
    const pb::FromPmix answer = Answer(Team(4, ranks, here));
    ASSERT_EQ(answer.added_size(), 1);
    EXPECT_EQ(answer.added(0).team(), 4u);
    EXPECT_EQ(answer.added(0).why(), "a team without a node");
    EXPECT_EQ(answer.added(0).rank_size(), 0);
  }
  EXPECT_TRUE(Lives());
}

TEST_F(PmixHelperTest, RanksFindWhereTheyAllAre) {
  Add(1, {2, 3, 1}, 1);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(ValueOf(variables_[i], "PMIX_RANK"), std::to_string(2 + i));
    EXPECT_EQ(ValueOf(variables_[i], "PMIX_NAMESPACE"), "space-1");
    EXPECT_EQ(ValueOf(variables_[i], "PMIX_HOSTNAME"), "node1");
    EXPECT_EQ(ValueOf(variables_[i], "PMIX_SERVER_TMPDIR"), root_);
    EXPECT_EQ(ValueOf(variables_[i], "PMIX_SYSTEM_TMPDIR"), root_);
    EXPECT_EQ(ValueOf(variables_[i], "PMIX_GDS_MODULE"), "hash");
  }
  EXPECT_THAT(ValueOf(variables_[0], "PMIX_SERVER_URI4"),
              StartsWith("harrow-pmix-" + std::to_string(helper_->pid()) + ".0;tcp4://127.0.0.1:"));
  EXPECT_THAT(Rank(0, {"attributes,3"}).Lines(),
              ElementsAre("all PMIX_JOBID: space-1", "all PMIX_UNIV_SIZE: 6", "all PMIX_JOB_SIZE: 6",
                          "all PMIX_MAX_PROCS: 6", "all PMIX_LOCAL_SIZE: 3", "all PMIX_NODE_SIZE: 3",
                          "all PMIX_NUM_NODES: 3", "all PMIX_JOB_NUM_APPS: 1", "all PMIX_LOCAL_PEERS: 2,3,4",
                          "all PMIX_LOCALLDR: 2", "all PMIX_TMPDIR: /of/team", "all PMIX_NSDIR: /of/team",
                          "all PMIX_TDIR_RMCLEAN: true", "rank PMIX_APPNUM: 0", "rank PMIX_APP_RANK: 3",
                          "rank PMIX_GLOBAL_RANK: 3", "rank PMIX_LOCAL_RANK: 1", "rank PMIX_NODE_RANK: 1",
                          "rank PMIX_NODEID: 1", "rank PMIX_HOSTNAME: node1", "rank PMIX_PROCDIR: /of/team/3",
                          "nodes: other0,node1,other2"));
  EXPECT_THAT(Rank(1, {"attributes,5"}).Lines(),
              IsSupersetOf({"rank PMIX_GLOBAL_RANK: 5", "rank PMIX_LOCAL_RANK: 0", "rank PMIX_NODE_RANK: 0",
                            "rank PMIX_HOSTNAME: other2", "rank PMIX_PROCDIR: NOT-FOUND"}));
  EXPECT_THAT(Rank(2, {"peers,other0", "peers,node1", "peers,other2"}).Lines(),
              ElementsAre("peers: 0 1", "peers: 2 3 4", "peers: 5"));
}

TEST_F(PmixHelperTest, HowARankHasGoneIsSeen) {
  Add(1, {5}, 0);
  Program& farewell = Rank(0, {});
  EXPECT_EQ(farewell.Wait(), 0);
  pb::RankSeen seen = Ended(1, 0);
  EXPECT_TRUE(seen.connected() && seen.finalized());
  EXPECT_FALSE(seen.aborted() || seen.others_speak());
  EXPECT_EQ(seen.turn(), 0u);
  Program& leaves = Rank(1, {"leave"});
  (void)leaves.Wait();
  seen = Ended(1, 1);
  EXPECT_TRUE(seen.connected());
  EXPECT_FALSE(seen.finalized() || seen.aborted());
  EXPECT_EQ(seen.turn(), 1u);
  Program& aborts = Rank(2, {"abort,7"});
  (void)aborts.Wait();
  seen = Ended(1, 2);
  EXPECT_TRUE(seen.connected() && seen.aborted());
  EXPECT_EQ(seen.abort_code(), 7);
  EXPECT_EQ(seen.turn(), 2u);
  seen = Ended(1, 3);
  EXPECT_FALSE(seen.connected() || seen.finalized() || seen.aborted() || seen.others_speak());
  EXPECT_EQ(seen.turn(), 0u);
  int pipes[2];
  ASSERT_EQ(pipe2(pipes, O_CLOEXEC), 0);
  Program& waits = Rank(4, {"put,k,v", "wait"}, pipes[0]);
  EXPECT_EQ(waits.Line(), "put: SUCCESS");
  EXPECT_TRUE(Ended(1, 3).others_speak());
  seen = Ended(1, 4);
  EXPECT_TRUE(seen.connected()) << "it is waited for no longer than this";
  EXPECT_FALSE(seen.others_speak());
  EXPECT_EQ(seen.turn(), 0u);
  close(pipes[0]);
  close(pipes[1]);
  EXPECT_EQ(waits.Wait(), 0);
  EXPECT_FALSE(Ended(1, 3).others_speak());
  EXPECT_FALSE(Ended(2, 0).connected()) << "nobody knows it";
}

TEST_F(PmixHelperTest, WhatARankPublishesTheOthersFind) {
  Add(1, {2}, 0);
  EXPECT_THAT(Rank(0, {"publish,a,one,b,two", "publish,c,three,a,again", "lookup,b,c,a",
                       "publish_once,d,four", "lookup,d", "lookup,d"})
                  .Lines(),
              ElementsAre("publish: SUCCESS", "publish: DUPLICATE KEY", "lookup: SUCCESS b=two@0 a=one@0",
                          "publish: SUCCESS", "lookup: SUCCESS d=four@0", "lookup: NOT-FOUND"));
  EXPECT_THAT(
      Rank(1, {"lookup,a", "publish,mine,1", "unpublish,a", "lookup,a,mine", "unpublish", "lookup,a,mine"})
          .Lines(),
      ElementsAre("lookup: SUCCESS a=one@0", "publish: SUCCESS", "unpublish: SUCCESS",
                  "lookup: SUCCESS a=one@0 mine=1@1", "unpublish: SUCCESS", "lookup: SUCCESS a=one@0"));
  Add(2, {1}, 0);
  EXPECT_THAT(Rank(0, {"lookup,a", "publish,a,other", "lookup,a"}).Lines(),
              ElementsAre("lookup: NOT-FOUND", "publish: SUCCESS", "lookup: SUCCESS a=other@0"))
      << "of another team";
}

TEST_F(PmixHelperTest, WhoLooksUpMayWait) {
  Add(1, {4}, 0);
  Program& all = Rank(0, {"await,0,a,b"});
  Program& any = Rank(1, {"await,1,a,b"});
  Program& more = Rank(2, {"await,7,a,b"});
  EXPECT_THAT(Rank(3, {"publish,b,two", "lookup,b", "publish,z,end"}).Lines(), testing::SizeIs(3));
  EXPECT_EQ(any.Line(), "lookup: SUCCESS b=two@3");
  EXPECT_EQ(Question(1, Asking(pb::PmixQuestion::PUBLISH, 3, {"x"})).refused(), false);
  EXPECT_EQ(Question(1, Asking(pb::PmixQuestion::PUBLISH, 3, {"a"})).refused(), false);
  EXPECT_THAT(all.Line(), StartsWith("lookup: SUCCESS"));
  EXPECT_THAT(more.Line(), StartsWith("lookup: SUCCESS"));
}

TEST_F(PmixHelperTest, OtherNodesPublishAndLookUpHere) {
  Add(1, {1, 1}, 0);
  EXPECT_FALSE(Question(1, Asking(pb::PmixQuestion::PUBLISH, 1, {"a"}), 7).refused());
  EXPECT_TRUE(Question(1, Asking(pb::PmixQuestion::PUBLISH, 0, {"a"})).refused());
  const pb::PmixAnswer found = Question(1, Asking(pb::PmixQuestion::LOOK_UP, 0, {"b", "a"}));
  ASSERT_EQ(found.found_size(), 1);
  EXPECT_EQ(found.found(0).key(), "a");
  EXPECT_EQ(found.found(0).value(), "of a");
  EXPECT_EQ(found.found(0).rank(), 1u);
  EXPECT_EQ(Question(2, Asking(pb::PmixQuestion::LOOK_UP, 0, {"a"})).found_size(), 0) << "no such team";
  Drop(1);
  Add(1, {1, 1}, 0);
  EXPECT_EQ(Question(1, Asking(pb::PmixQuestion::LOOK_UP, 0, {"a"})).found_size(), 0)
      << "it went with its team";
}

/// The lead node's helper keeps it.
TEST_F(PmixHelperTest, WhatARankPublishesIsSentToTheLeadNode) {
  Add(1, {1, 2}, 1);
  const auto asked = [&](pb::PmixQuestion* question) {
    const auto said = Hear();
    EXPECT_TRUE(said && said->question_size() == 1);
    if (!said || said->question_size() != 1) return pb::TeamQuestion();
    EXPECT_EQ(said->question(0).team(), 1u);
    EXPECT_EQ(said->question(0).node(), 0u);
    EXPECT_TRUE(question->ParseFromString(said->question(0).text()));
    return said->question(0);
  };
  const auto tell = [&](const pb::TeamQuestion& question, const pb::PmixAnswer& answer) {
    pb::ToPmix message;
    pb::TeamAnswer* const told = message.add_answer();
    told->set_team(1);
    told->set_number(question.number());
    told->set_data(answer.SerializeAsString());
    Say(message);
  };
  Program& rank = Rank(1, {"publish,a,one,b,two", "publish_once,c,three", "lookup,a,x", "await,1,a,x",
                           "await,0,a,x", "await,3,a,x", "unpublish,a,b"});
  pb::PmixQuestion published, question;
  tell(asked(&published), {});
  EXPECT_EQ(rank.Line(), "publish: SUCCESS");
  EXPECT_EQ(published.what(), pb::PmixQuestion::PUBLISH);
  EXPECT_EQ(published.rank(), 2u);
  EXPECT_THAT(published.key(), ElementsAre("a", "b"));
  ASSERT_EQ(published.value_size(), 2);
  EXPECT_THAT(published.value(0), HasSubstr("one"));
  EXPECT_FALSE(published.once());

  pb::PmixAnswer answer;
  answer.set_refused(true);
  tell(asked(&question), answer);
  EXPECT_EQ(rank.Line(), "publish: DUPLICATE KEY");
  EXPECT_TRUE(question.once());

  answer.Clear();
  pb::PublishedKey* const key = answer.add_found();
  key->set_key("a");
  key->set_value(published.value(0));
  key->set_rank(2);
  for (const uint32_t wait : {0u, 1u, 2u, 2u}) {
    tell(asked(&question), answer);
    EXPECT_EQ(question.what(), pb::PmixQuestion::LOOK_UP);
    EXPECT_EQ(question.rank(), 2u);
    EXPECT_THAT(question.key(), ElementsAre("a", "x"));
    EXPECT_EQ(question.wait(), wait);
    EXPECT_EQ(rank.Line(), "lookup: SUCCESS a=one@2");
  }
  tell(asked(&question), {});
  EXPECT_EQ(question.what(), pb::PmixQuestion::UNPUBLISH);
  EXPECT_THAT(question.key(), ElementsAre("a", "b"));
  EXPECT_EQ(rank.Line(), "unpublish: SUCCESS");
  EXPECT_EQ(rank.Wait(), 0);
}

TEST_F(PmixHelperTest, AnAnswerThatCannotBeIsAFailure) {
  Add(1, {1, 1}, 1);
  Program& rank = Rank(0, {"publish,a,one", "unpublish,a", "lookup,a"});
  for (const char* line : {"publish: ERROR", "unpublish: ERROR", "lookup: NOT-FOUND"}) {
    const auto said = Hear();
    ASSERT_TRUE(said && said->question_size() == 1);
    pb::ToPmix message;
    pb::TeamAnswer* const told = message.add_answer();
    told->set_team(1);
    told->set_number(said->question(0).number());
    told->set_data("\xff\xff");
    Say(message);
    EXPECT_EQ(rank.Line(), line);
  }
}

TEST_F(PmixHelperTest, RanksOfOneNodeMeetHere) {
  Add(1, {2}, 0);
  Program& one = Rank(0, {"put,k,zero", "fence", "get,1,k"});
  Program& other = Rank(1, {"put,k,one", "fence", "get,0,k"});
  EXPECT_THAT(one.Lines(), ElementsAre("put: SUCCESS", "fence: SUCCESS", "get k: one"));
  EXPECT_THAT(other.Lines(), ElementsAre("put: SUCCESS", "fence: SUCCESS", "get k: zero"));
}

TEST_F(PmixHelperTest, RanksOfSeveralNodesMeetThroughTheAgent) {
  Add(1, {2, 2}, 1);
  const std::vector<std::string> what = {"put,k,v", "fence", "fence,1,2,3", "fence", "get,3,k"};
  Program& one = Rank(0, what);
  Program& other = Rank(1, what);
  for (Program* const rank : {&one, &other}) EXPECT_EQ(rank->Line(), "put: SUCCESS");
  uint32_t round = 0;
  for (const char* line : {"fence: SUCCESS", "fence: SUCCESS", "fence: ERROR"}) {
    const auto said = Hear();
    ASSERT_TRUE(said && said->meeting_size() == 1);
    const pb::TeamMeeting& meeting = said->meeting(0);
    EXPECT_EQ(meeting.team(), 1u);
    if (round == 1) {
      EXPECT_THAT(meeting.rank(), ElementsAre(1, 2, 3));
    } else {
      EXPECT_THAT(meeting.rank(), IsEmpty());
    }
    pb::ToPmix message;
    pb::TeamAnswer* const met = message.add_met();
    met->set_team(1);
    met->set_number(meeting.number());
    if (++round == 3) {
      met->set_why("too much");
    } else {
      met->set_data(meeting.data());
    }
    Say(message);
    for (Program* const rank : {&one, &other}) EXPECT_EQ(rank->Line(), line);
  }
  for (Program* const rank : {&one, &other}) EXPECT_EQ(rank->Line(), "get k: v");
}

TEST_F(PmixHelperTest, WhatARankHasPutIsAskedForFromNodeToNode) {
  Add(1, {1, 2}, 1);
  int pipes[2];
  ASSERT_EQ(pipe2(pipes, O_CLOEXEC), 0);
  Program& owner = Rank(0, {"put,k,v", "wait"}, pipes[0]);
  EXPECT_EQ(owner.Line(), "put: SUCCESS");
  const pb::PmixAnswer data = Question(1, Asking(pb::PmixQuestion::DATA, 1));
  EXPECT_EQ(data.status(), 0);
  EXPECT_THAT(data.data(), HasSubstr("v"));
  EXPECT_NE(Question(7, Asking(pb::PmixQuestion::DATA, 1)).data(), data.data());

  // The same, of rank 0.
  for (const bool found : {false, true}) {
    Program& rank = Rank(1, {"get,0,k"});
    const auto said = Hear();
    ASSERT_TRUE(said && said->question_size() == 1);
    EXPECT_EQ(said->question(0).node(), 0u);
    pb::PmixQuestion question;
    EXPECT_TRUE(question.ParseFromString(said->question(0).text()));
    EXPECT_EQ(question.what(), pb::PmixQuestion::DATA);
    EXPECT_EQ(question.rank(), 0u);
    pb::ToPmix message;
    pb::TeamAnswer* const told = message.add_answer();
    told->set_team(1);
    told->set_number(said->question(0).number());
    if (found) told->set_data(data.SerializeAsString());
    Say(message);
    EXPECT_EQ(rank.Line(), found ? "get k: v" : "get k: NOT-FOUND");
    EXPECT_EQ(rank.Wait(), 0);
  }
  close(pipes[0]);
  close(pipes[1]);
}

TEST_F(PmixHelperTest, FurtherRanksAreNotStarted) {
  Add(1, {1}, 0);
  EXPECT_THAT(Rank(0, {"spawn"}).Lines(), ElementsAre("spawn: NOT-SUPPORTED"));
  EXPECT_EQ(
      TextOf("errors"),
      "harrow: a task cannot start further ranks (MPI_Comm_spawn): write ranks = N with all it needs\n");
}

TEST_F(PmixHelperTest, WhoIsDroppedIsNotLeftWaiting) {
  Add(1, {1, 1}, 1);
  Program& rank = Rank(0, {"fence"});
  const auto said = Hear();
  ASSERT_TRUE(said && said->meeting_size() == 1);
  Drop(1);
  EXPECT_EQ(rank.Line(), "fence: ERROR");
  EXPECT_FALSE(Ended(1, 1).connected()) << "nobody knows it any more";
  EXPECT_TRUE(Lives());
  Client late(AddressOf(variables_[0]));
  late.Say(Hello(0, "space-1", 1));
  EXPECT_NE(late.Hear(8).size(), 8u) << "nor is it let in";
  Add(2, {1}, 0);
  EXPECT_EQ(Rank(0, {"put,k,v"}).Line(), "put: SUCCESS");
}

}  // namespace
}  // namespace harrow::agent
