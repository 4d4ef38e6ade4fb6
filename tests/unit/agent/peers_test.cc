#include "agent/peers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/agent/peers_fixture.h"

namespace harrow::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

TEST_F(PeersTest, APairHasOneChannelMadeWhenItIsNeeded) {
  auto a = Make(1), b = Make(2);
  Know(a, 2);
  Know(b, 1);
  Run();
  EXPECT_THAT(net_.dialled, IsEmpty());
  Send(a, 2, "one");
  Send(a, 2, "two");
  EXPECT_EQ(a->peers->unsent_bytes(NodeId(2)), 8u);
  Run();
  Send(b, 1, "three");
  Run();
  EXPECT_THAT(b->heard, ElementsAre("1 one", "1 two"));
  EXPECT_THAT(a->heard, ElementsAre("2 three"));
  EXPECT_THAT(net_.dialled, SizeIs(1));
  EXPECT_GT(a->sent, 0);
  EXPECT_GT(b->sent, 0);
  EXPECT_EQ(a->peers->unsent_bytes(NodeId(2)), 0u);
  EXPECT_THAT(a->gone, IsEmpty());
  EXPECT_EQ(loop_.timer_count(), 0u);
}

TEST_F(PeersTest, WhereBothDialAtOnceOneChannelStays) {
  auto a = Make(1), b = Make(2);
  Know(a, 2);
  Know(b, 1);
  Send(a, 2, "down");
  Send(b, 1, "up");
  Run();
  EXPECT_THAT(a->heard, ElementsAre("2 up"));
  EXPECT_THAT(b->heard, ElementsAre("1 down"));
  ASSERT_THAT(net_.dialled, SizeIs(2));
  EXPECT_EQ(net_.dialled[0].address, "at2");
  EXPECT_FALSE(net_.dialled[0].dialler.expired()) << "that of the lower node";
  EXPECT_TRUE(net_.dialled[1].dialler.expired());
  EXPECT_TRUE(net_.dialled[1].listener.expired());
  EXPECT_THAT(a->gone, IsEmpty());
  EXPECT_THAT(b->gone, IsEmpty());
  EXPECT_EQ(loop_.timer_count(), 0u);
  loop_.Advance(seconds(100));
  EXPECT_THAT(net_.dialled, SizeIs(2));
}

TEST_F(PeersTest, AnAgentThatIsNotToldOfTheOtherYetLetsItWait) {
  auto a = Make(1), b = Make(2);
  Know(a, 2);
  Send(a, 2, "early");
  loop_.Advance(seconds(15));
  EXPECT_THAT(b->heard, IsEmpty());
  EXPECT_THAT(a->gone, IsEmpty());
  Know(b, 1);
  Run();
  EXPECT_THAT(b->heard, ElementsAre("1 early"));
  EXPECT_THAT(net_.dialled, SizeIs(1));
}

TEST_F(PeersTest, WhatIsSentToANodeThatIsNotKnownWaits) {
  auto a = Make(1), b = Make(2);
  Know(b, 1);
  Send(a, 2, "early");
  loop_.Advance(seconds(1000));
  EXPECT_THAT(net_.dialled, IsEmpty());
  Know(a, 2);
  Run();
  EXPECT_THAT(b->heard, ElementsAre("1 early"));
  a->peers->Send(NodeId(1), Service::kTransfers, "to itself: dropped");
  Run();
  EXPECT_THAT(a->heard, IsEmpty());
}

TEST_F(PeersTest, WhoCannotBeReachedIsTriedWithGrowingPausesAndThenGone) {
  auto a = Make(1);
  Know(a, 2);
  Send(a, 2, "lost");
  loop_.Advance(seconds(9));
  EXPECT_THAT(a->gone, IsEmpty());
  std::vector<int64_t> at;
  for (const auto& d : net_.dialled)
    at.push_back(std::chrono::duration_cast<milliseconds>(d.at.time_since_epoch()).count());
  EXPECT_THAT(at, ElementsAre(0, 100, 300, 700, 1500, 3100, 6300));
  loop_.Advance(seconds(10));
  EXPECT_THAT(a->gone, ElementsAre("2 the agent of node 2 cannot be reached: Connection refused"));
  EXPECT_EQ(a->peers->unsent_bytes(NodeId(2)), 0u);
  const size_t dials = net_.dialled.size();
  loop_.Advance(seconds(100));
  EXPECT_EQ(net_.dialled.size(), dials) << "nothing is to be said";
  EXPECT_EQ(loop_.timer_count(), 0u);

  Send(a, 2, "again");
  Run();
  Send(a, 2, "and again");
  loop_.Advance(milliseconds(4900));
  EXPECT_EQ(net_.dialled.size(), dials + 1) << "the pause has not become short again";
  auto b = Make(2);
  Know(b, 1);
  Know(a, 2);
  Run();
  EXPECT_THAT(b->heard, ElementsAre("1 again", "1 and again")) << "the server told of it";
}

TEST_F(PeersTest, OfSeveralAddressesOneAfterTheOtherIsTriedFromTheFirstOn) {
  auto a = Make(1);
  a->peers->Know(NodeId(2), {"here", "there"}, 102);
  Send(a, 2, "lost");
  loop_.Advance(milliseconds(300));
  std::vector<std::string> tried;
  for (const auto& d : net_.dialled) tried.push_back(d.address);
  EXPECT_THAT(tried, ElementsAre("here", "there", "here"));
}

TEST_F(PeersTest, WhoIsToldOfAgainIsTriedAtOnceAndWithShortPauses) {
  auto a = Make(1);
  Know(a, 2);
  Send(a, 2, "lost");
  loop_.Advance(seconds(2));
  const size_t before = net_.dialled.size();
  Know(a, 2);
  EXPECT_EQ(loop_.timer_count(), 0u) << "nothing is left of the long pause";
  const Time told = loop_.Now();
  loop_.Advance(milliseconds(800));
  std::vector<Duration> at;
  for (size_t i = before; i < net_.dialled.size(); ++i) at.push_back(net_.dialled[i].at - told);
  EXPECT_THAT(at, ElementsAre(milliseconds(0), milliseconds(100), milliseconds(300), milliseconds(700)));
  EXPECT_EQ(loop_.timer_count(), 1u);
}

TEST_F(PeersTest, AfterABreakTheNextWordDialsAgain) {
  auto a = Make(1), b = Make(2);
  Know(a, 2);
  Know(b, 1);
  Send(a, 2, "one");
  Run();
  net_.dialled[0].dialler.lock()->Break(Status(Code::kUnavailable, "the connection was cut"));
  Run();
  EXPECT_THAT(a->gone, ElementsAre("2 the connection was cut"));
  EXPECT_THAT(b->gone, ElementsAre("1 the connection was cut"));
  loop_.Advance(seconds(10));
  EXPECT_THAT(net_.dialled, SizeIs(1));
  Send(b, 1, "two");
  Run();
  EXPECT_THAT(a->heard, ElementsAre("2 two"));
  EXPECT_THAT(net_.dialled, SizeIs(2));
}

TEST_F(PeersTest, OneEndMayKnowBeforeTheOtherThatTheChannelIsLost) {
  auto a = Make(1), b = Make(2);
  Know(a, 2);
  Know(b, 1);
  Send(a, 2, "one");
  Run();
  a->peers->HangUp(NodeId(2), Status(Code::kDamaged, "nonsense"));
  Send(a, 2, "two");  // before the other end hears that the first channel is closed
  Run();
  EXPECT_THAT(a->gone, ElementsAre("2 nonsense"));
  EXPECT_THAT(b->gone, SizeIs(1));
  EXPECT_THAT(b->heard, ElementsAre("1 one", "1 two"));
  EXPECT_THAT(net_.dialled, SizeIs(2));
}

TEST_F(PeersTest, NobodyElsesTimersAreCancelled) {
  bool rang = false;
  loop_.After(seconds(1000), [&] { rang = true; });  // the loop's first
  auto a = Make(1), b = Make(2);
  Know(a, 2);
  Know(b, 1);
  for (int times = 0; times < 3; ++times) {
    Send(a, 2, "one");
    Run();
    a->peers->HangUp(NodeId(2), Status(Code::kDamaged, "nonsense"));
    Run();
  }
  EXPECT_EQ(loop_.timer_count(), 1u);
  loop_.Advance(seconds(1000));
  EXPECT_TRUE(rang);
}

TEST_F(PeersTest, AnAgentThatWasStartedAgainIsAnother) {
  auto a = Make(1), b = Make(2);
  Know(a, 2);
  Know(b, 1);
  Send(a, 2, "one");
  Run();
  Know(a, 2);
  Run();
  EXPECT_THAT(a->gone, IsEmpty()) << "the same as before";
  b.reset();
  Run();
  b = Make(2, true, 777);
  Know(b, 1);
  Send(a, 2, "for the old one");
  loop_.Advance(seconds(3));
  EXPECT_THAT(b->heard, IsEmpty()) << "another agent answers there";
  Know(a, 2, 777);
  Run();
  EXPECT_THAT(b->heard, ElementsAre("1 for the old one"));
  Know(a, 2, 778);
  Run();
  EXPECT_THAT(a->gone.back(), "2 the agent of node 2 was started again");
}

TEST_F(PeersTest, ADiallerOfAnIncarnationThatIsNotToldOfWaits) {
  auto a = Make(1, true, 555), b = Make(2);
  Know(a, 2);
  Know(b, 1);  // its former incarnation
  Send(a, 2, "one");
  loop_.Advance(seconds(5));
  EXPECT_THAT(b->heard, IsEmpty());
  Know(b, 1, 555);
  Run();
  EXPECT_THAT(b->heard, ElementsAre("1 one"));
  EXPECT_THAT(net_.dialled, SizeIs(1));
}

TEST_F(PeersTest, WhoDoesNotAnswerIsDialledAgain) {
  auto a = Make(1), b = Make(2);
  Know(a, 2);
  Know(b, 1);
  net_.deaf = true;
  Send(a, 2, "one");
  loop_.Advance(seconds(19));
  EXPECT_THAT(net_.dialled, SizeIs(1));
  net_.deaf = false;
  loop_.Advance(seconds(2));
  EXPECT_THAT(net_.dialled, SizeIs(2));
  EXPECT_THAT(b->heard, ElementsAre("1 one"));
}

TEST_F(PeersTest, WhoSaysNothingOrIsNotToldOfIsHungUpOn) {
  auto b = Make(2);
  std::vector<std::string> ends;
  const auto dial = [&](const std::string& first) {
    net_.Of("x").dial("at2", {}, [&, first](Result<std::shared_ptr<wire::Channel>> channel) {
      if (!first.empty()) (*channel)->Send(first);
      kept_.push_back(*channel);
      return wire::ChannelHandler{.on_message = {},
                                  .on_closed = [&](const Status& why) { ends.push_back(why.message()); }};
    });
    Run();
  };
  pb::PeerHello hello;
  hello.set_version(wire::kProtocolVersion);
  hello.set_run_id("run");
  hello.set_node(1);
  hello.set_to(2);
  const auto with = [&](auto change) {
    pb::PeerHello changed = hello;
    change(changed);
    return std::string(1, '\0') + changed.SerializeAsString();
  };
  dial(with([](auto&) {}));
  dial("");
  EXPECT_THAT(ends, IsEmpty());
  loop_.Advance(seconds(21));
  EXPECT_THAT(ends, SizeIs(2));
  dial("nonsense");
  dial(with([](auto& h) { h.set_version(1); }));
  dial(with([](auto& h) { h.set_run_id("other"); }));
  dial(with([](auto& h) { h.set_to(3); }));
  dial(with([](auto& h) { h.set_node(2); }));
  EXPECT_THAT(ends, SizeIs(7));
  EXPECT_EQ(loop_.timer_count(), 0u);
}

TEST_F(PeersTest, AServiceThatNobodyServesEndsTheChannel) {
  auto a = Make(1), b = Make(2);
  Know(a, 2);
  Know(b, 1);
  a->peers->Send(NodeId(2), static_cast<Service>(7), "what?");
  Run();
  EXPECT_THAT(b->gone, ElementsAre("1 a message of service 7"));
  EXPECT_THAT(a->gone, SizeIs(1));
}

TEST_F(PeersTest, AForgottenNodeIsGoneWithWhatWasForIt) {
  auto a = Make(1), b = Make(2);
  Know(a, 2);
  Know(b, 1);
  Send(a, 2, "one");
  Run();
  a->peers->Forget(NodeId(2));
  a->peers->Forget(NodeId(9));
  Run();
  EXPECT_THAT(a->gone, ElementsAre("2 node 2 has left the run"));
  EXPECT_THAT(b->gone, SizeIs(1));
  Send(a, 3, "never known");
  a->peers->Forget(NodeId(3));
  Run();
  EXPECT_THAT(a->gone, SizeIs(2));
}

TEST_F(PeersTest, WithoutEncryptionContentsGoBesideAndNothingElseDoes) {
  auto a = Make(1, false), b = Make(2, false);
  Know(a, 2);
  Know(b, 1);
  Send(a, 2, "word");
  a->peers->SendBulk(NodeId(2), Service::kTransfers, "content", {});
  Run();
  Send(b, 1, "word back");
  b->peers->SendBulk(NodeId(1), Service::kTransfers, "content back", {});
  Run();
  EXPECT_THAT(b->heard, testing::UnorderedElementsAre("1 word", "1 clear content"));
  EXPECT_THAT(a->heard, testing::UnorderedElementsAre("2 word back", "2 clear content back"));
  ASSERT_THAT(net_.dialled, SizeIs(2));
  EXPECT_TRUE(net_.dialled[1].plain);
  EXPECT_EQ(loop_.timer_count(), 0u);
  net_.dialled[1].listener.lock()->Break(Status(Code::kUnavailable, "cut"));
  Run();
  EXPECT_THAT(a->gone, SizeIs(1));
  EXPECT_THAT(b->gone, SizeIs(1));
  EXPECT_TRUE(net_.dialled[0].dialler.expired()) << "both end together";
}

TEST_F(PeersTest, TheListeningEndMaySpeakBeforeTheOtherKnowsThatThePlainChannelIsThere) {
  auto a = Make(1, false), b = Make(2, false);
  Know(a, 2);
  Know(b, 1);
  net_.late_plain = true;
  Send(a, 2, "one");
  Send(b, 1, "two");
  Send(b, 1, "three");
  Run();
  EXPECT_THAT(b->heard, ElementsAre("1 one"));
  EXPECT_THAT(a->heard, ElementsAre("2 two", "2 three"));
  EXPECT_THAT(a->gone, IsEmpty());
  EXPECT_THAT(b->gone, IsEmpty());
}

TEST_F(PeersTest, WithoutThePlainChannelThePairIsNotUp) {
  auto a = Make(1, false), b = Make(2, false);
  Know(a, 2);
  Know(b, 1);
  net_.no_plain = true;
  Send(a, 2, "word");
  loop_.Advance(seconds(1));
  EXPECT_THAT(b->heard, IsEmpty());
  EXPECT_GT(net_.dialled.size(), 3u);
  net_.no_plain = false;
  loop_.Advance(seconds(5));
  EXPECT_THAT(b->heard, ElementsAre("1 word"));
}

TEST_F(PeersTest, WhoWantsEncryptionDoesNotGoWithout) {
  auto a = Make(1, true), b = Make(2, false);
  Know(a, 2);
  Know(b, 1);
  a->peers->SendBulk(NodeId(2), Service::kTransfers, "secret", {});
  loop_.Advance(seconds(30));
  EXPECT_THAT(b->heard, IsEmpty());
  ASSERT_THAT(a->gone, testing::Not(IsEmpty()));
  EXPECT_THAT(a->gone[0], testing::HasSubstr("would not encrypt"));
  for (const auto& d : net_.dialled) EXPECT_FALSE(d.plain);
}

TEST_F(PeersTest, MayEndWhileOthersDial) {
  auto a = Make(1), b = Make(2);
  Know(a, 2);
  Know(b, 1);
  Send(a, 2, "one");
  a.reset();
  Run();
  Send(b, 1, "two");
  b.reset();
  Run();
  EXPECT_EQ(loop_.timer_count(), 0u);
  for (const auto& d : net_.dialled) EXPECT_TRUE(d.dialler.expired() && d.listener.expired());
}

}  // namespace
}  // namespace harrow::agent
