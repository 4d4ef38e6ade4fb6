// PMI-1, as ranks of MPICH speak it.
#include "agent/pmix/pmi1_port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace harrow::agent {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

constexpr AttemptId kTask{TaskId(4), 2};

/// Keeps what the part of this node brings.
class FakeGangs : public Gangs {
 public:
  void Join(AttemptId, std::shared_ptr<const Gang>) override {}
  void Leave(AttemptId) override {}
  void Meet(AttemptId attempt, Meeting meeting, std::vector<uint32_t> ranks, std::string data,
            Met met) override {
    EXPECT_EQ(attempt, kTask);
    EXPECT_EQ(meeting, Meeting::kRanks);
    EXPECT_THAT(ranks, IsEmpty());
    brought.push_back(std::move(data));
    waiting.push_back(std::move(met));
  }
  void Ask(AttemptId, uint32_t, std::string, std::function<void(std::string)>) override {}

  std::vector<std::string> brought;
  std::vector<Met> waiting;
};

class Pmi1PortTest : public testing::Test {
 protected:
  std::vector<RankServer::Variables> Add(uint32_t ranks) {
    return *port_.Add({.attempt = kTask, .count = ranks, .directory = "/x"}, never_);
  }
  /// On the second of two nodes.
  std::vector<RankServer::Variables> AddPart(uint32_t before, uint32_t here) {
    const auto gang = std::make_shared<Gang>(
        Gang{.nodes = {{NodeId(0), "a", before}, {NodeId(1), "b", here}}, .here = 1, .space = "a-space"});
    return *port_.Add({.attempt = kTask, .count = here, .directory = "/x", .gang = gang}, never_);
  }
  std::string Say(uint32_t rank, const std::string& text) {
    EXPECT_TRUE(port_.Hear(kTask, rank, text + "\n")) << text;
    return Answers(rank);
  }
  std::string Answers(uint32_t rank) { return port_.TakeAnswers(kTask, rank); }
  std::optional<RankServer::Seen> Ended(uint32_t rank) { return port_.Ended(kTask, rank, never_); }

  const RankServer::InVain never_ = [] { return false; };
  FakeGangs gangs_;
  int woken_ = 0;
  Pmi1Port port_{&gangs_, [this](AttemptId) { ++woken_; }};
};

TEST_F(Pmi1PortTest, ARankIsToldWhoItIs) {
  const auto variables = Add(2);
  ASSERT_THAT(variables, SizeIs(2));
  EXPECT_THAT(variables[1], ElementsAre("PMI_RANK=1", "PMI_SIZE=2", "PMI_SPAWNED=0", "MPI_LOCALRANKID=1",
                                        "MPI_LOCALNRANKS=2"));
  EXPECT_EQ(Say(0, "cmd=init pmi_version=1 pmi_subversion=1"),
            "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
  EXPECT_EQ(Say(0, "cmd=get_maxes"), "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n");
  EXPECT_EQ(Say(0, "cmd=get_appnum"), "cmd=appnum appnum=0\n");
  EXPECT_EQ(Say(0, "cmd=get_universe_size"), "cmd=universe_size size=2\n");
  const std::string name = Say(0, "cmd=get_my_kvsname");
  EXPECT_THAT(name, StartsWith("cmd=my_kvsname kvsname=harrow-"));
  EXPECT_EQ(Say(1, "cmd=get_my_kvsname"), name);
  EXPECT_EQ(Say(1, "cmd=get kvsname=x key=PMI_process_mapping"),
            "cmd=get_result rc=0 msg=success value=(vector,(0,1,2))\n");
  EXPECT_EQ(Say(1, "cmd=finalize"), "cmd=finalize_ack\n");
}

TEST_F(Pmi1PortTest, OfSeveralNodesRanksHaveTheNumbersOfAll) {
  EXPECT_THAT(AddPart(3, 2)[1], ElementsAre("PMI_RANK=4", "PMI_SIZE=5", "PMI_SPAWNED=0", "MPI_LOCALRANKID=1",
                                            "MPI_LOCALNRANKS=2"));
  EXPECT_EQ(Say(3, "cmd=get_my_kvsname"), "cmd=my_kvsname kvsname=a-space\n");
  EXPECT_EQ(Say(4, "cmd=get_universe_size"), "cmd=universe_size size=5\n");
  EXPECT_FALSE(port_.Hear(kTask, 2, "cmd=init\n")) << "it is on the other node";
  EXPECT_FALSE(port_.Hear(kTask, 5, "cmd=init\n"));
}

TEST_F(Pmi1PortTest, AMappingThatIsTooLongForMpichIsLeftOut) {
  for (const bool fits : {true, false}) {
    Gang gang{.space = "a-space"};
    for (uint32_t i = 0; i < (fits ? 100u : 120u); ++i) gang.nodes.push_back({NodeId(i), "n", 1 + i % 2});
    ASSERT_TRUE(
        port_
            .Add({.attempt = kTask, .count = 1, .directory = "/x", .gang = std::make_shared<Gang>(gang)},
                 never_)
            .ok());
    const std::string answer = Say(0, "cmd=get kvsname=k key=PMI_process_mapping");
    EXPECT_THAT(answer, HasSubstr(fits ? "rc=0" : "rc=-1"));
    EXPECT_LT(answer.size(), 1024u) << "its client reads no longer line";
    port_.Drop(kTask);
  }
}

TEST_F(Pmi1PortTest, AMappingMayTakeAllThatMpichReads) {
  size_t longest = 0;
  for (uint32_t more = 0; more <= 100; ++more) {
    Gang gang{.space = "a-space"};
    for (uint32_t i = 0; i < 100; ++i) gang.nodes.push_back({NodeId(i), "n", (i < more ? 10 : 1) + i % 2});
    ASSERT_TRUE(
        port_
            .Add({.attempt = kTask, .count = 1, .directory = "/x", .gang = std::make_shared<Gang>(gang)},
                 never_)
            .ok());
    const std::string answer = Say(0, "cmd=get kvsname=k key=PMI_process_mapping");
    if (answer.find("rc=0") != std::string::npos) longest = std::max(longest, answer.size());
    port_.Drop(kTask);
  }
  EXPECT_EQ(longest, 1023u);
}

TEST(ProcessMapping, NamesNodesWithAsManyRanksTogether) {
  const auto of = [](std::vector<uint32_t> ranks) {
    Gang gang;
    for (const uint32_t n : ranks) gang.nodes.push_back({.ranks = n});
    return ProcessMapping(gang);
  };
  EXPECT_EQ(of({4}), "(vector,(0,1,4))");
  EXPECT_EQ(of({4, 4, 4}), "(vector,(0,3,4))");
  EXPECT_EQ(of({4, 4, 3, 3, 3}), "(vector,(0,2,4),(2,3,3))");
}

TEST_F(Pmi1PortTest, WhatIsPutOthersGetAfterTheBarrier) {
  Add(3);
  EXPECT_EQ(Say(0, "cmd=put kvsname=k key=a value=x=y"), "cmd=put_result rc=0 msg=success\n");
  EXPECT_EQ(Say(1, "cmd=put kvsname=k key=a value=z"), "cmd=put_result rc=-1 msg=duplicate_key_a\n");
  EXPECT_EQ(Say(0, "cmd=barrier_in"), "");
  EXPECT_EQ(Say(1, "cmd=barrier_in"), "");
  EXPECT_EQ(Say(1, "cmd=barrier_in"), "") << "once is enough";
  EXPECT_EQ(woken_, 0);
  EXPECT_EQ(Say(2, "cmd=barrier_in"), "cmd=barrier_out\n");
  EXPECT_EQ(woken_, 1);
  EXPECT_EQ(Answers(0), "cmd=barrier_out\n");
  EXPECT_EQ(Answers(1), "cmd=barrier_out\n");
  EXPECT_EQ(Answers(1), "");
  for (const uint32_t rank : {2u, 0u}) EXPECT_EQ(Say(rank, "cmd=barrier_in"), "") << "the next one";
  EXPECT_EQ(Say(1, "cmd=barrier_in"), "cmd=barrier_out\n");
  EXPECT_EQ(woken_, 2);
  EXPECT_EQ(Answers(2), "cmd=barrier_out\n");
  EXPECT_EQ(Say(2, "cmd=get kvsname=k key=a"), "cmd=get_result rc=0 msg=success value=x=y\n");
  EXPECT_EQ(Say(2, "cmd=get kvsname=k key=b"), "cmd=get_result rc=-1 msg=key_b_not_found value=unknown\n");
  EXPECT_THAT(gangs_.brought, IsEmpty());
}

TEST_F(Pmi1PortTest, OverSeveralNodesTheBarrierCarriesWhatIsNew) {
  AddPart(1, 2);
  Say(1, "cmd=put kvsname=k key=one value=1");
  Say(2, "cmd=put kvsname=k key=two value=2");
  Say(1, "cmd=barrier_in");
  EXPECT_THAT(gangs_.brought, IsEmpty());
  EXPECT_EQ(Say(2, "cmd=barrier_in"), "");
  ASSERT_THAT(gangs_.brought, SizeIs(1));
  pb::PutKeys put;
  ASSERT_TRUE(put.ParseFromString(gangs_.brought[0]));
  std::vector<std::string> brought;
  for (const pb::EnvVar& entry : put.entry()) brought.push_back(entry.name() + "=" + entry.value());
  EXPECT_THAT(brought, ElementsAre("one=1", "two=2"));
  put.Clear();
  pb::EnvVar* const zero = put.add_entry();
  zero->set_name("zero");
  zero->set_value("0");
  gangs_.waiting[0](put.SerializeAsString() + gangs_.brought[0]);
  EXPECT_EQ(woken_, 1);
  EXPECT_EQ(Answers(1), "cmd=barrier_out\n");
  EXPECT_EQ(Answers(2), "cmd=barrier_out\n");
  EXPECT_THAT(Say(2, "cmd=get kvsname=k key=zero"), HasSubstr("value=0"));
  EXPECT_THAT(Say(2, "cmd=get kvsname=k key=one"), HasSubstr("value=1"));
  for (const uint32_t rank : {1u, 2u}) Say(rank, "cmd=barrier_in");
  EXPECT_THAT(gangs_.brought, Contains(""));
  gangs_.waiting[1](Status(Code::kExhausted, "too much"));
  EXPECT_EQ(Answers(1), "cmd=barrier_out\n") << "and finds what is missing";
  port_.Drop(kTask);
  AddPart(1, 2);
  gangs_.waiting[1](std::string());
  EXPECT_EQ(Answers(1), "") << "that was for the team before";
}

TEST_F(Pmi1PortTest, LinesComeInAnyPieces) {
  Add(1);
  const std::string text = "cmd=init pmi_version=1 pmi_subversion=1\ncmd=get_appnum\n\n";
  for (const char byte : text) EXPECT_TRUE(port_.Hear(kTask, 0, std::string(1, byte)));
  EXPECT_EQ(Answers(0), "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\ncmd=appnum appnum=0\n");
}

TEST_F(Pmi1PortTest, HowARankHasGoneIsSeen) {
  Add(6);
  for (uint32_t rank = 1; rank < 6; ++rank) Say(rank, "cmd=init pmi_version=1 pmi_subversion=1");
  Say(2, "cmd=finalize");
  EXPECT_FALSE(port_.Hear(kTask, 3, "cmd=abort exitcode=7\n")) << "it waits for its end";
  EXPECT_TRUE(port_.Hear(kTask, 4, ""));
  EXPECT_TRUE(port_.Hear(kTask, 2, ""));
  EXPECT_TRUE(port_.Hear(kTask, 0, ""));
  EXPECT_FALSE(Ended(0)->connected);
  EXPECT_EQ(Ended(0)->turn, 0u);
  EXPECT_TRUE(Ended(0)->others_speak) << "rank 1";
  EXPECT_TRUE(Ended(2)->finalized);
  EXPECT_EQ(Ended(2)->turn, 0u);
  EXPECT_EQ(Ended(3)->aborted, 7);
  EXPECT_EQ(Ended(3)->turn, 1u);
  EXPECT_EQ(Ended(4)->turn, 2u);
  EXPECT_FALSE(Ended(4)->finalized || Ended(4)->aborted);
  EXPECT_EQ(Ended(5)->turn, 3u) << "it has ended, and its socket is held by another";
  EXPECT_FALSE(Ended(5)->others_speak) << "nobody needs it that has itself begun";
  Say(1, "cmd=finalize");
  EXPECT_FALSE(Ended(0)->others_speak);
  port_.Drop({TaskId(5), 1});
  EXPECT_TRUE(Ended(5)) << "another was dropped";
  port_.Drop(kTask);
  EXPECT_FALSE(Ended(5));
  EXPECT_FALSE(port_.Hear(kTask, 0, "cmd=init\n"));
}

TEST_F(Pmi1PortTest, WhoHangsUpFirstWasTheFirstToFail) {
  Add(3);
  for (uint32_t rank = 0; rank < 3; ++rank) Say(rank, "cmd=init pmi_version=1 pmi_subversion=1");
  for (const uint32_t rank : {2u, 0u, 1u}) EXPECT_TRUE(port_.Hear(kTask, rank, ""));
  EXPECT_EQ(Ended(0)->turn, 2u);
  EXPECT_EQ(Ended(1)->turn, 3u);
  EXPECT_EQ(Ended(2)->turn, 1u);
}

TEST_F(Pmi1PortTest, WhoAbortsWithoutACodeAbortsWithNone) {
  Add(1);
  EXPECT_FALSE(port_.Hear(kTask, 0, "cmd=abort\n"));
  EXPECT_EQ(Ended(0)->aborted, 0);
}

TEST_F(Pmi1PortTest, WhatThereIsNotIsRefused) {
  Add(1);
  EXPECT_EQ(Say(0, "mcmd=spawn\nnprocs=1\nexecname=/bin/true\ncmd=init\nendcmd"),
            "cmd=spawn_result rc=-1 status=not_supported\n");
  EXPECT_EQ(Say(0, "cmd=publish_name service=s port=p"), "cmd=publish_name_result rc=-1 msg=not_supported\n");
  for (const char* nonsense : {"nonsense", "cmd", "cmd=", "command=init"})
    EXPECT_EQ(Say(0, nonsense), "") << nonsense;
  EXPECT_EQ(Say(0, "cmd=put kvsname=k key= value=1"), "cmd=put_result rc=-1 msg=invalid_key_or_value\n");
  EXPECT_EQ(Say(0, "cmd=put kvsname=k key=k value=" + std::string(1025, 'v')),
            "cmd=put_result rc=-1 msg=invalid_key_or_value\n");
  EXPECT_EQ(Say(0, "cmd=put kvsname=k key=" + std::string(65, 'k') + " value=v"),
            "cmd=put_result rc=-1 msg=invalid_key_or_value\n");
}

TEST_F(Pmi1PortTest, ABarrierIsOverAlsoWhereTheLastOfItIsHungUpOn) {
  Add(2);
  Say(0, "cmd=barrier_in");
  EXPECT_FALSE(port_.Hear(kTask, 1, "cmd=barrier_in\ncmd=abort exitcode=3\n"));
  EXPECT_EQ(woken_, 1);
  EXPECT_EQ(Answers(0), "cmd=barrier_out\n");
  port_.Drop(kTask);
  AddPart(1, 1);
  EXPECT_FALSE(port_.Hear(kTask, 1, "cmd=barrier_in\n" + std::string(20'000, 'x')));
  EXPECT_THAT(gangs_.brought, SizeIs(1)) << "the other node waits for it";
}

TEST_F(Pmi1PortTest, WhoSaysTooMuchIsHungUpOn) {
  Add(1);
  EXPECT_TRUE(port_.Hear(kTask, 0, std::string(16 * 1024, 'x')));
  EXPECT_FALSE(port_.Hear(kTask, 0, "x"));
  EXPECT_FALSE(port_.Hear({TaskId(4), 1}, 0, "cmd=init\n")) << "another attempt";
}

TEST_F(Pmi1PortTest, WhoTakesNoAnswersIsHungUpOn) {
  Add(1);
  const auto say = [&](const std::string& line, size_t times) {
    std::string lines;
    for (size_t i = 0; i < times; ++i) lines += line + "\n";
    return port_.Hear(kTask, 0, lines);
  };
  constexpr size_t kMost = 1u << 20;  // which 8 farewells of 17 bytes and appnums of 20 are just
  EXPECT_TRUE(say("cmd=get_appnum", (kMost - 8 * 17) / 20));
  EXPECT_TRUE(say("cmd=finalize", 8));
  EXPECT_FALSE(say("cmd=finalize", 1));
  EXPECT_EQ(Answers(0).size(), kMost + 17);
  EXPECT_TRUE(say("cmd=finalize", 1));
}

TEST_F(Pmi1PortTest, ATaskHasRoomForSoManyKeys) {
  Add(1);
  const auto put = [&](size_t number, size_t of_value) {
    std::string key = std::to_string(number);
    key.resize(64, 'k');
    return Say(0, "cmd=put kvsname=k key=" + key + " value=" + std::string(of_value, 'v'));
  };
  constexpr size_t kMost = 64u << 20, kEach = 64 + 1024;
  size_t number = 0;
  for (; number < kMost / kEach; ++number) ASSERT_EQ(put(number, 1024), "cmd=put_result rc=0 msg=success\n");
  EXPECT_EQ(put(number, kMost % kEach - 64 + 1), "cmd=put_result rc=-1 msg=too_many_keys\n");
  EXPECT_EQ(put(number, kMost % kEach - 64), "cmd=put_result rc=0 msg=success\n");
  EXPECT_EQ(Say(0, "cmd=put kvsname=k key=k value="), "cmd=put_result rc=-1 msg=too_many_keys\n");
}

}  // namespace
}  // namespace harrow::agent
