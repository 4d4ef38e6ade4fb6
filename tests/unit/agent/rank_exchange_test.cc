// What parts of attempts of several nodes say to each other, over channels that may break.
#include "agent/rank_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <optional>
#include <random>

#include "support/fake_event_loop.h"
#include "support/fake_peers.h"
#include "wire/attempt_id.h"
#include "wire/harrow.pb.h"

namespace harrow::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr AttemptId kOfRanks{TaskId(6), 1};

class RankExchangeTest : public testing::Test {
 protected:
  struct Agent {
    std::unique_ptr<test::FakePeers> peers;
    std::optional<RankExchange> exchange;
    std::vector<std::string> asked;  // "NODE text", which is answered by "TEXT!" unless it is "later"
    std::vector<std::string> problems;
  };

  /// Agents of nodes 100, 101, ..., of which each knows all.
  void Make(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      Agent& agent = *agents_.emplace_back(std::make_unique<Agent>());
      agent.peers = std::make_unique<test::FakePeers>(&loop_, NodeId(100 + i));
      agent.exchange.emplace(
          &loop_, agent.peers.get(),
          RankExchange::Hooks{
              .asked =
                  [this, &agent](AttemptId attempt, uint32_t node, uint64_t number, std::string question) {
                    agent.asked.push_back(std::to_string(node) + " " + question);
                    if (question != "later") agent.exchange->Answer(attempt, node, number, question + "!");
                  },
              .problem = [&agent](const std::string& text) { agent.problems.push_back(text); }});
      for (uint32_t other = 0; other < i; ++other)
        test::FakePeers::Link(agent.peers.get(), agents_[other]->peers.get());
    }
  }
  RankExchange& At(uint32_t node) { return *agents_[node]->exchange; }
  test::FakePeers* PeersAt(uint32_t node) { return agents_[node]->peers.get(); }
  void Break(uint32_t one, uint32_t other) { test::FakePeers::Break(PeersAt(one), PeersAt(other)); }

  /// Of the first nodes, with so many ranks each.
  static std::shared_ptr<Gang> GangOf(std::vector<uint32_t> ranks, uint32_t here) {
    auto gang = std::make_shared<Gang>();
    for (uint32_t i = 0; i < ranks.size(); ++i)
      gang->nodes.push_back({.id = NodeId(100 + i), .name = "n" + std::to_string(i), .ranks = ranks[i]});
    gang->here = here;
    gang->space = "space";
    return gang;
  }
  void Join(uint32_t node) { At(node).Join(kOfRanks, GangOf(ranks_, node)); }
  void JoinAll() {
    for (uint32_t node = 0; node < ranks_.size(); ++node) Join(node);
    loop_.RunPosted();
  }
  /// What came of it is in met_[node].
  void Meet(uint32_t node, Meeting meeting, std::vector<uint32_t> ranks = {}, std::string data = {}) {
    At(node).Meet(kOfRanks, meeting, std::move(ranks), std::move(data),
                  [this, node](const Result<std::string>& all) {
                    met_[node].push_back(all.ok() ? *all : all.status().message());
                  });
  }
  size_t HaveMet() const { return met_.size(); }
  void LeaveAll() {
    for (uint32_t node = 0; node < ranks_.size(); ++node) At(node).Leave(kOfRanks);
  }
  /// Nothing is kept when all have left, and heard so.
  void ExpectNothingLeft() {
    loop_.Advance(seconds(1));
    LeaveAll();
    loop_.Advance(seconds(40));
    for (const auto& agent : agents_) EXPECT_EQ(agent->exchange->part_count(), 0u);
    loop_.Advance(seconds(100));
    EXPECT_EQ(loop_.timer_count(), 0u);
  }

  test::FakeEventLoop loop_;
  std::vector<std::unique_ptr<Agent>> agents_;
  std::vector<uint32_t> ranks_;
  std::map<uint32_t, std::vector<std::string>> met_;
};

TEST_F(RankExchangeTest, NoneBeginsBeforeAllAreReady) {
  constexpr uint32_t kNodes = 100;  // three levels
  for (const uint32_t last : {0u, 1u, 99u}) {
    agents_.clear();
    met_.clear();
    Make(kNodes);
    ranks_.assign(kNodes, 2);
    JoinAll();
    for (uint32_t node = 0; node < kNodes; ++node) {
      if (node != last) Meet(node, Meeting::kReady);
    }
    loop_.Advance(seconds(10));
    EXPECT_EQ(HaveMet(), 0u);
    Meet(last, Meeting::kReady);
    loop_.RunPosted();
    EXPECT_EQ(HaveMet(), kNodes) << last;
    ExpectNothingLeft();
  }
}

TEST_F(RankExchangeTest, WhoLeavesAtOnceSaysBeforeWhatHasCome) {
  Make(12);
  ranks_.assign(12, 1);
  JoinAll();
  for (uint32_t node = 0; node < 12; ++node) Meet(node, Meeting::kReady);
  loop_.RunPosted();
  EXPECT_EQ(HaveMet(), 12u);
  LeaveAll();
  loop_.RunPosted();
  for (uint32_t node = 0; node < 12; ++node) EXPECT_EQ(At(node).part_count(), 0u) << node;
  ExpectNothingLeft();
}

TEST_F(RankExchangeTest, WhoIsNotHeardOfIsNotWaitedForForEver) {
  Make(3);
  ranks_.assign(3, 1);
  for (const uint32_t node : {0u, 1u}) {
    Join(node);
    Meet(node, Meeting::kReady);
  }
  loop_.Advance(seconds(290));
  EXPECT_EQ(HaveMet(), 0u);
  loop_.Advance(seconds(20));
  EXPECT_THAT(met_[0], ElementsAre(HasSubstr("its other nodes (n2)")));
  EXPECT_THAT(met_[1], ElementsAre(HasSubstr("its other nodes (n0)")));
  Join(2);
  Meet(2, Meeting::kReady);
  loop_.Advance(seconds(1));
  EXPECT_THAT(met_, SizeIs(2)) << "it is too late";
  ExpectNothingLeft();
}

TEST_F(RankExchangeTest, NobodySpeaksToMoreThanEightBelowAndOneAbove) {
  Make(100);
  ranks_.assign(100, 1);
  std::map<NodeId, std::set<NodeId>> spoken;
  JoinAll();
  for (uint32_t node = 1; node < 9; ++node) PeersAt(0)->stalled[NodeId(100 + node)] = true;
  for (uint32_t node = 0; node < 100; ++node) Meet(node, Meeting::kReady);
  loop_.RunPosted();
  EXPECT_THAT(met_, SizeIs(1)) << "the others hear of it from node 0 and those below it";
  EXPECT_THAT(PeersAt(0)->held, SizeIs(8));
}

TEST_F(RankExchangeTest, AllTakeAlongWhatAllHaveBrought) {
  Make(12);
  ranks_.assign(12, 1);
  JoinAll();
  std::string all;
  for (uint32_t node = 0; node < 12; ++node) {
    all += static_cast<char>('a' + node);
    Meet(node, Meeting::kRanks, {}, std::string(1, static_cast<char>('a' + node)));
  }
  loop_.RunPosted();
  ASSERT_EQ(HaveMet(), 12u);
  for (auto& [node, data] : met_) {
    ASSERT_THAT(data, SizeIs(1));
    EXPECT_EQ(data[0], met_[0][0]);
    std::string sorted = data[0];
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(sorted, all);
  }
  for (uint32_t round = 0; round < 3; ++round) {
    met_.clear();
    for (uint32_t node = 12; node-- > 0;) Meet(node, Meeting::kRanks);
    loop_.RunPosted();
    EXPECT_EQ(HaveMet(), 12u);
    EXPECT_THAT(met_[5], ElementsAre(""));
  }
  ExpectNothingLeft();
}

TEST_F(RankExchangeTest, WhoIsQuickIsAtTheNextMeetingBeforeOthersHaveLeftTheLast) {
  Make(2);
  ranks_ = {1, 1};
  JoinAll();
  At(1).Meet(kOfRanks, Meeting::kRanks, {}, "1", [this](const Result<std::string>& all) {
    EXPECT_EQ(*all, "01");
    Meet(1, Meeting::kRanks, {}, "3");
  });
  Meet(0, Meeting::kRanks, {}, "0");
  loop_.RunPosted();
  Meet(0, Meeting::kRanks, {}, "2");
  loop_.RunPosted();
  EXPECT_THAT(met_[0], ElementsAre("01", "23"));
  EXPECT_THAT(met_[1], ElementsAre("23"));
}

TEST_F(RankExchangeTest, SomeRanksMeetWithoutTheOthers) {
  Make(4);
  ranks_ = {2, 2, 2, 2};
  JoinAll();
  Meet(0, Meeting::kRanks, {1, 6, 7}, "a");
  Meet(0, Meeting::kRanks, {0, 2}, "b");
  Meet(1, Meeting::kRanks, {0, 2}, "c");
  loop_.RunPosted();
  EXPECT_THAT(met_[0], ElementsAre("bc"));
  Meet(3, Meeting::kRanks, {1, 6, 7}, "d");
  loop_.RunPosted();
  EXPECT_THAT(met_[0], ElementsAre("bc", "ad"));
  EXPECT_THAT(met_[3], ElementsAre("ad"));
  EXPECT_THAT(met_[2], IsEmpty());
  Meet(2, Meeting::kRanks, {1, 6, 7});
  EXPECT_THAT(met_[2], ElementsAre("ranks of other nodes meet"));
  Meet(1, Meeting::kRanks, {2, 3});
  EXPECT_THAT(met_[1], ElementsAre("bc", "")) << "alone";
  ExpectNothingLeft();
}

TEST_F(RankExchangeTest, WithoutRanksThoseWithProcessesAreTheLeadNodeAlone) {
  Make(3);
  ranks_ = {0, 0, 0};
  JoinAll();
  Meet(0, Meeting::kEnded);
  EXPECT_THAT(met_[0], ElementsAre(""));
  Meet(0, Meeting::kReady);
  Meet(1, Meeting::kReady);
  loop_.RunPosted();
  EXPECT_THAT(met_[0], SizeIs(1));
  Meet(2, Meeting::kReady);
  loop_.RunPosted();
  EXPECT_THAT(met_[0], SizeIs(2));
}

TEST_F(RankExchangeTest, WhoComesLateAsksForWhatWasSaid) {
  Make(10);
  ranks_.assign(10, 1);
  for (uint32_t node = 10; node-- > 0;) {
    Join(node);
    Meet(node, Meeting::kReady);
    loop_.RunPosted();
    EXPECT_EQ(HaveMet(), node == 0 ? 10u : 0u);
  }
  ExpectNothingLeft();
}

TEST_F(RankExchangeTest, WhoIsAskedAnswers) {
  Make(3);
  ranks_ = {1, 1, 1};
  JoinAll();
  std::vector<std::string> heard;
  const auto answered = [&heard](const std::string& text) { heard.push_back(text); };
  At(2).Ask(kOfRanks, 1, "x", answered);
  At(2).Ask(kOfRanks, 2, "own", answered);
  EXPECT_THAT(heard, ElementsAre("own!"));
  At(0).Ask(kOfRanks, 1, "later", answered);
  loop_.RunPosted();
  EXPECT_THAT(heard, ElementsAre("own!", "x!"));
  EXPECT_THAT(agents_[1]->asked, ElementsAre("2 x", "0 later"));
  At(1).Answer(kOfRanks, 0, 7, "to nothing");
  At(1).Answer(kOfRanks, 2, 1, "to another");
  loop_.RunPosted();
  EXPECT_THAT(heard, SizeIs(2));
  At(1).Answer(kOfRanks, 0, 1, "at last");
  loop_.RunPosted();
  EXPECT_THAT(heard, ElementsAre("own!", "x!", "at last"));
  At(1).Ask(kOfRanks, 3, "nobody", answered);
  At(1).Ask({TaskId(7), 1}, 0, "of another", answered);
  loop_.RunPosted();
  EXPECT_THAT(agents_[0]->asked, IsEmpty());
  ExpectNothingLeft();
}

TEST_F(RankExchangeTest, WhatIsLongIsSaidInPieces) {
  Make(2);
  ranks_ = {1, 1};
  JoinAll();
  std::string data(5'000'000, 'x');
  data[4'999'999] = 'y';
  Meet(0, Meeting::kRanks, {}, "0");
  PeersAt(1)->stalled[NodeId(100)] = true;
  Meet(1, Meeting::kRanks, {}, data);
  EXPECT_THAT(PeersAt(1)->held[NodeId(100)], SizeIs(5));
  for (const std::string& piece : PeersAt(1)->held[NodeId(100)]) EXPECT_LT(piece.size(), 4u << 20);
  PeersAt(1)->Release(NodeId(100));
  loop_.RunPosted();
  EXPECT_EQ(met_[0][0], "0" + data);
  EXPECT_EQ(met_[1][0], "0" + data);
}

TEST_F(RankExchangeTest, WhereAllIsTooMuchAllAreToldSo) {
  Make(3);
  ranks_ = {1, 1, 1};
  JoinAll();
  // One byte more than may be.
  constexpr size_t kThird = (61u << 20) / 3;
  for (uint32_t node = 0; node < 3; ++node) Meet(node, Meeting::kRanks, {}, std::string(kThird + (node == 0 ? 2 : 0), 'x'));
  loop_.RunPosted();
  for (uint32_t node = 0; node < 3; ++node)
    EXPECT_THAT(met_[node], ElementsAre("its ranks tell each other more than 61.0 MiB")) << node;
  ExpectNothingLeft();
}

TEST_F(RankExchangeTest, OneThatEndsLeavesNoTimerAndHearsNothing) {
  Make(2);
  ranks_ = {1, 1};
  JoinAll();
  Meet(0, Meeting::kReady);
  At(1).Ask(kOfRanks, 0, "later", [](const std::string&) {});
  PeersAt(0)->stalled[NodeId(101)] = true;
  At(0).Ask(kOfRanks, 1, "lost", [](const std::string&) {});
  loop_.RunPosted();
  Break(0, 1);
  loop_.RunPosted();
  EXPECT_GE(loop_.timer_count(), 3u) << "patience, what is owed, and what is to be said again";
  for (const auto& agent : agents_) agent->exchange.reset();
  EXPECT_EQ(loop_.timer_count(), 0u);
  PeersAt(1)->Send(NodeId(100), Service::kRanks, "nonsense");
  loop_.RunPosted();
  EXPECT_THAT(PeersAt(0)->hung_up, IsEmpty());
}

TEST_F(RankExchangeTest, WhoJoinsAnewHasLeft) {
  Make(2);
  ranks_ = {1, 1};
  Join(0);
  Meet(0, Meeting::kReady);
  EXPECT_EQ(loop_.timer_count(), 1u);
  Join(0);
  EXPECT_EQ(loop_.timer_count(), 0u);
  At(0).Leave(kOfRanks);
  Meet(0, Meeting::kRanks);
  At(0).Ask(kOfRanks, 0, "itself", [](const std::string&) {});
  At(0).Answer(kOfRanks, 1, 1, "nobody's");
  EXPECT_THAT(agents_[0]->asked, IsEmpty());
  EXPECT_EQ(HaveMet(), 0u);
}

TEST_F(RankExchangeTest, WhoIsMissedIsNamedBeforeWhoTellsOfAll) {
  Make(12);
  ranks_.assign(12, 1);
  Join(1);
  Meet(1, Meeting::kReady);
  Meet(1, Meeting::kRanks, {1}, "alone");
  EXPECT_THAT(met_[1], ElementsAre("alone")) << "which does not mean that all are ready";
  loop_.Advance(seconds(310));
  ASSERT_THAT(met_[1], SizeIs(2));
  EXPECT_THAT(met_[1][1], HasSubstr("its other nodes (n9, n10, n11)"));
}

TEST_F(RankExchangeTest, WhenAllAreReadyNobodyIsWaitedFor) {
  Make(2);
  ranks_ = {1, 1};
  JoinAll();
  for (const uint32_t node : {0, 1}) Meet(node, Meeting::kReady);
  loop_.Advance(seconds(1));
  EXPECT_EQ(HaveMet(), 2u);
  EXPECT_EQ(loop_.timer_count(), 0u);
  Break(0, 1);
  loop_.RunPosted();
  EXPECT_EQ(loop_.timer_count(), 0u) << "nothing is to be said again";
}

TEST_F(RankExchangeTest, ThatSomeHaveFailedAllAreTold) {
  Make(2);
  ranks_ = {1, 1};
  Join(0);
  pb::RankWord word;
  word.mutable_meeting()->set_kind(static_cast<uint32_t>(Meeting::kRanks));
  word.mutable_meeting()->set_why("it has failed below");
  pb::PeerRanks message;
  message.set_space("space");
  wire::SetId(kOfRanks, message.mutable_attempt());
  message.set_sequence(1);
  message.set_said(word.SerializeAsString());
  At(0).Take(NodeId(101), message.SerializeAsString(), true);
  Meet(0, Meeting::kRanks);
  EXPECT_THAT(met_[0], ElementsAre("it has failed below"));
  Join(1);
  Meet(1, Meeting::kRanks);
  Break(0, 1);  // so that what was said before it came is said again
  loop_.Advance(seconds(2));
  EXPECT_THAT(met_[1], ElementsAre("it has failed below"));
}

TEST_F(RankExchangeTest, AnAnswerIsAnAcknowledgementAndOthersComeSoon) {
  Make(2);
  ranks_ = {1, 1};
  JoinAll();
  PeersAt(1)->stalled[NodeId(100)] = true;
  At(0).Ask(kOfRanks, 1, "x", [](const std::string&) {});
  loop_.RunPosted();
  EXPECT_THAT(PeersAt(1)->held[NodeId(100)], SizeIs(1));
  loop_.Advance(seconds(1));
  EXPECT_THAT(PeersAt(1)->held[NodeId(100)], SizeIs(1));
  PeersAt(1)->Release(NodeId(100));
  for (int i = 0; i < 2; ++i) {
    At(0).Ask(kOfRanks, 1, "later", [](const std::string&) {});
    loop_.Advance(seconds(1));
  }
  At(0).Leave(kOfRanks);
  EXPECT_EQ(At(0).part_count(), 0u) << "all of it has come";
  At(1).Answer({TaskId(8), 1}, 0, 1, "of an attempt that is not here");
  At(1).Answer(kOfRanks, 2, 1, "to a node that there is not");
  loop_.RunPosted();
}

TEST_F(RankExchangeTest, WhatABrokenChannelHasLostIsSaidAgain) {
  Make(2);
  ranks_ = {1, 1};
  JoinAll();
  Meet(0, Meeting::kReady);
  PeersAt(1)->stalled[NodeId(100)] = true;
  Meet(1, Meeting::kReady);
  Break(0, 1);
  loop_.RunPosted();
  PeersAt(1)->stalled[NodeId(100)] = false;
  EXPECT_EQ(HaveMet(), 0u);
  EXPECT_THAT(agents_[1]->problems, ElementsAre("task 7 waits for node n0: broken"));
  EXPECT_THAT(agents_[0]->problems, IsEmpty()) << "it has nothing to say";
  loop_.Advance(seconds(1));
  EXPECT_EQ(HaveMet(), 2u);

  // One is told once, unless it has been heard of meanwhile.
  PeersAt(1)->stalled[NodeId(100)] = true;
  Meet(1, Meeting::kRanks);
  for (int i = 0; i < 3; ++i) {
    Break(0, 1);
    loop_.Advance(seconds(1));
  }
  EXPECT_THAT(agents_[1]->problems, SizeIs(2));
  PeersAt(1)->stalled[NodeId(100)] = false;
  Break(0, 1);
  Meet(0, Meeting::kRanks);
  loop_.Advance(seconds(1));
  EXPECT_THAT(met_[0], SizeIs(2));
  EXPECT_THAT(met_[1], SizeIs(2));
  ExpectNothingLeft();
}

TEST_F(RankExchangeTest, WhatWasSaidIsKeptForAWhileWhenThePartHasLeft) {
  Make(2);
  ranks_ = {1, 1};
  JoinAll();
  PeersAt(0)->stalled[NodeId(101)] = true;
  Meet(0, Meeting::kEnded);
  Meet(1, Meeting::kEnded);
  loop_.RunPosted();
  EXPECT_THAT(met_[0], SizeIs(1));
  At(0).Leave(kOfRanks);
  Break(0, 1);
  PeersAt(0)->stalled[NodeId(101)] = false;
  loop_.Advance(milliseconds(500));
  EXPECT_THAT(met_[1], SizeIs(1));
  EXPECT_EQ(At(0).part_count(), 0u) << "it has been heard";
  At(1).Leave(kOfRanks);

  // But not for ever.
  JoinAll();
  PeersAt(0)->stalled[NodeId(101)] = true;
  At(0).Ask(kOfRanks, 1, "x", [](const std::string&) { ADD_FAILURE() << "nobody is there any more"; });
  At(0).Leave(kOfRanks);
  EXPECT_EQ(At(0).part_count(), 1u);
  loop_.Advance(seconds(31));
  EXPECT_EQ(At(0).part_count(), 0u);
  PeersAt(0)->Release(NodeId(101));
  ExpectNothingLeft();
}

TEST_F(RankExchangeTest, WhoHasLeftHearsNothing) {
  Make(2);
  ranks_ = {1, 1};
  JoinAll();
  Meet(0, Meeting::kRanks, {}, "0");
  At(0).Ask(kOfRanks, 1, "later", [](const std::string&) { ADD_FAILURE(); });
  loop_.Advance(seconds(1));
  At(0).Leave(kOfRanks);
  At(1).Answer(kOfRanks, 0, 1, "too late");
  Meet(1, Meeting::kRanks, {}, "1");
  At(1).Ask(kOfRanks, 0, "x", [](const std::string&) { ADD_FAILURE(); });
  loop_.Advance(seconds(1));
  EXPECT_EQ(HaveMet(), 0u);
  EXPECT_THAT(agents_[0]->asked, IsEmpty());
  Meet(0, Meeting::kReady);
  EXPECT_EQ(HaveMet(), 0u);
  ExpectNothingLeft();
}

// --- who says what he may not

class HostileRanks : public RankExchangeTest {
 protected:
  HostileRanks() {
    Make(3);
    ranks_ = {1, 1, 1};
    JoinAll();
    Meet(0, Meeting::kReady);
    word_.mutable_meeting();
  }
  /// As if it came from that node.
  void Say(uint32_t from, const pb::PeerRanks& message, bool sealed = true) {
    At(0).Take(NodeId(100 + from), message.SerializeAsString(), sealed);
    loop_.RunPosted();
  }
  pb::PeerRanks Message(uint64_t sequence = 1) const {
    pb::PeerRanks message;
    message.set_space("space");
    message.mutable_attempt()->set_task(6);
    message.mutable_attempt()->set_number(1);
    message.set_sequence(sequence);
    message.set_said(word_.SerializeAsString());
    return message;
  }
  /// They would meet if both were believed.
  bool BothBelieved(const std::function<void(pb::PeerRanks*)>& change, bool sealed = true) {
    for (uint32_t from : {1u, 2u}) {
      pb::PeerRanks message = Message();
      change(&message);
      Say(from, message, sealed);
    }
    return HaveMet() > 0;
  }

  pb::RankWord word_;
};

TEST_F(HostileRanks, AreBelievedWhereAllIsRight) {
  EXPECT_TRUE(BothBelieved([](pb::PeerRanks*) {}));
}

TEST_F(HostileRanks, AreNotBelievedWithoutEncryption) {
  EXPECT_FALSE(BothBelieved([](pb::PeerRanks*) {}, false));
}

TEST_F(HostileRanks, HaveToKnowTheSpaceAndTheAttempt) {
  EXPECT_FALSE(BothBelieved([](pb::PeerRanks* m) { m->set_space("spice"); }));
  EXPECT_FALSE(BothBelieved([](pb::PeerRanks* m) { m->mutable_attempt()->set_number(2); }));
  EXPECT_FALSE(BothBelieved([](pb::PeerRanks* m) { m->mutable_attempt()->set_task(5); }));
  EXPECT_FALSE(BothBelieved([](pb::PeerRanks* m) { m->set_sequence(2); })) << "before its turn";
}

TEST_F(HostileRanks, HaveToBeOfTheAttempt) {
  Say(1, Message());
  Say(7, Message());
  EXPECT_EQ(HaveMet(), 0u);
}

TEST_F(HostileRanks, CannotSpeakForOthers) {
  Say(1, Message(1));
  Say(1, Message(2));
  EXPECT_EQ(HaveMet(), 0u) << "the same twice";
  word_.mutable_meeting()->set_over(true);
  Say(1, Message(3));
  EXPECT_EQ(HaveMet(), 0u) << "that is said from above";
  word_.mutable_meeting()->set_over(false);
  word_.mutable_meeting()->set_kind(9);
  Say(2, Message(1));
  word_.mutable_meeting()->set_kind(2);
  for (const uint32_t rank : {1u, 99u}) {
    word_.mutable_meeting()->clear_rank();
    word_.mutable_meeting()->add_rank(rank);
    Say(2, Message(rank == 1 ? 2 : 3));
  }
  EXPECT_EQ(HaveMet(), 0u);
}

TEST_F(HostileRanks, AreHungUpOnForNonsense) {
  At(0).Take(NodeId(101), "\xff", true);
  EXPECT_THAT(PeersAt(0)->hung_up, SizeIs(1));
  pb::PeerRanks message = Message();
  message.set_said("\xff");
  Say(1, message);
  EXPECT_THAT(PeersAt(0)->hung_up, SizeIs(2));
  for (uint64_t sequence = 2; sequence < 20; ++sequence) {
    message.set_sequence(sequence);
    message.set_said(std::string(4u << 20, 'x'));
    message.set_more(sequence < 19);
    Say(1, message);
  }
  EXPECT_THAT(PeersAt(0)->hung_up, SizeIs(3));
  EXPECT_THAT(PeersAt(0)->hung_up.back(), HasSubstr("without end"));
}

// --- at random

/// Parts come in any order, channels break at any time, and ranks meet and ask all the while: all that is
/// wanted comes, once.
class RandomRanks : public RankExchangeTest {
 protected:
  void Play(uint32_t seed) {
    std::mt19937 random(seed);
    const auto below = [&random](uint32_t n) {
      return std::uniform_int_distribution<uint32_t>(0, n - 1)(random);
    };
    const uint32_t nodes = 2 + below(20), rounds = 1 + below(6);
    agents_.clear();
    met_.clear();
    Make(nodes);
    ranks_.clear();
    for (uint32_t i = 0; i < nodes; ++i) ranks_.push_back(1 + below(3));
    std::vector<uint32_t> joined(nodes), asked(nodes), answers(nodes);
    const auto wants = [&](uint32_t node) {
      if (joined[node]++ == 0) {
        Join(node);
        return Meet(node, Meeting::kReady);
      }
      const size_t rounds_met = met_[node].size();
      if (rounds_met == 0 || rounds_met > rounds || rounds_met < began_[node]) return;
      began_[node] = rounds_met + 1;
      Meet(node, Meeting::kRanks, {}, std::to_string(node) + "," + std::to_string(rounds_met) + ";");
    };
    began_.assign(nodes, 0);
    for (int step = 0; step < 4000; ++step) {
      const uint32_t node = below(nodes);
      switch (below(10)) {
        case 0:
          if (below(4) == 0 && node != 0) Break(node, below(node));
          break;
        case 1: {
          const uint32_t other = below(nodes);
          if (met_[node].empty() || below(4) > 0) break;
          ++asked[node];
          // Some are of several pieces; each is said again whenever a channel breaks.
          At(node).Ask(kOfRanks, other, std::string(below(40) == 0 ? 2'200'000 : below(2000), 'q'),
                       [&answers, node](const std::string&) { ++answers[node]; });
          break;
        }
        case 2: {
          const NodeId other(100 + below(nodes));
          if (below(2) == 0) {
            PeersAt(node)->stalled[other] = true;
          } else {
            PeersAt(node)->Release(other);
          }
          break;
        }
        case 3:
          loop_.Advance(milliseconds(below(60)));
          break;
        default:
          wants(node);
      }
      if (below(3) == 0) loop_.RunPosted();
    }
    for (uint32_t turn = 0; turn < 50; ++turn) {
      for (uint32_t node = 0; node < nodes; ++node) {
        for (uint32_t other = 0; other < nodes; ++other) PeersAt(node)->Release(NodeId(100 + other));
        wants(node);
      }
      loop_.Advance(milliseconds(200));
    }
    for (uint32_t node = 0; node < nodes; ++node) {
      EXPECT_EQ(answers[node], asked[node]) << "node " << node;
      ASSERT_EQ(met_[node].size(), rounds + 1) << "node " << node;
      for (uint32_t round = 1; round <= rounds; ++round) {
        EXPECT_EQ(met_[node][round], met_[0][round]);
        for (uint32_t other = 0; other < nodes; ++other)
          EXPECT_THAT(met_[node][round],
                      HasSubstr(std::to_string(other) + "," + std::to_string(round) + ";"));
      }
    }
    ExpectNothingLeft();
  }

  std::vector<size_t> began_;
};

TEST_F(RandomRanks, AllThatIsSaidIsHeardOnce) {
  for (uint32_t seed = 1; seed <= 30 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Play(seed);
  }
}

}  // namespace
}  // namespace harrow::agent
