// What agents do with channels of others that say something else than they should, and with what is left.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

#include "unit/agent/peers_fixture.h"

namespace harrow::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class PeersChannelsTest : public PeersTest {
 protected:
  ~PeersChannelsTest() override {
    for (const auto& by_hand : all_) by_hand->channel.reset();
  }
  /// Of node 1 to node 2, with the byte that goes before.
  static std::string Hello(char first = '\0') {
    pb::PeerHello hello;
    hello.set_version(wire::kProtocolVersion);
    hello.set_run_id("run");
    hello.set_node(1);
    hello.set_incarnation(101);
    hello.set_to(2);
    return std::string(1, first) + hello.SerializeAsString();
  }
  /// Somebody who speaks by hand with the agent at 2.
  struct ByHand {
    std::shared_ptr<wire::Channel> channel{};
    std::vector<std::string> heard{}, ends{};
  };
  std::shared_ptr<ByHand> Dial(const std::vector<std::string>& says) {
    auto by_hand = all_.emplace_back(std::make_shared<ByHand>());
    net_.Of("x").dial("at2", {}, [by_hand, says](Result<std::shared_ptr<wire::Channel>> channel) {
      by_hand->channel = *channel;
      for (const std::string& each : says) by_hand->channel->Send(each);
      return wire::ChannelHandler{
          .on_message = [by_hand](std::string_view bytes) { by_hand->heard.emplace_back(bytes); },
          .on_closed = [by_hand](const Status& why) { by_hand->ends.push_back(why.message()); }};
    });
    Run();
    return by_hand;
  }

 private:
  std::vector<std::shared_ptr<ByHand>> all_;  // each of their channels knows them
};

TEST_F(PeersChannelsTest, WhatIsSentHasAllItsBytes) {
  auto a = Make(1), b = Make(2);
  EXPECT_THAT(a->peers->addresses(), ElementsAre("at1"));
  EXPECT_EQ(a->peers->unsent_bytes(NodeId(2)), 0u) << "nobody knows it";
  Know(a, 2);
  Know(b, 1);
  const int file = memfd_create("piece", MFD_CLOEXEC);
  ASSERT_EQ(write(file, "0123456789", 10), 10);
  a->peers->SendBulk(NodeId(2), Service::kTransfers, "head ", {.owner = nullptr, .fd = file, .offset = 3, .length = 4});
  EXPECT_EQ(a->peers->unsent_bytes(NodeId(2)), 1u + 5 + 4);
  Run();
  EXPECT_THAT(b->heard, ElementsAre("1 head 3456"));
  close(file);
  EXPECT_EQ(a->peers->unsent_bytes(NodeId(2)), 0u);
  net_.dialled[0].dialler.lock()->stalled = true;
  Send(a, 2, "more");
  EXPECT_EQ(a->peers->unsent_bytes(NodeId(2)), net_.dialled[0].dialler.lock()->unsent_bytes());
  EXPECT_GT(a->peers->unsent_bytes(NodeId(2)), 4u);
}

TEST_F(PeersChannelsTest, WhatWaitsBesideCountsToo) {
  auto a = Make(1, false), b = Make(2, false);
  Know(a, 2);
  Know(b, 1);
  Send(a, 2, "one");
  Run();
  for (const auto& d : net_.dialled) d.dialler.lock()->stalled = true;
  Send(a, 2, "word");
  a->peers->SendBulk(NodeId(2), Service::kTransfers, "content", {});
  EXPECT_EQ(a->peers->unsent_bytes(NodeId(2)),
            net_.dialled[0].dialler.lock()->unsent_bytes() + net_.dialled[1].dialler.lock()->unsent_bytes());
  net_.dialled[0].listener.lock()->Break(Status(Code::kUnavailable, "cut"));
  Run();
  for (const auto& d : net_.dialled) EXPECT_TRUE(d.dialler.expired() && d.listener.expired()) << "both end together";
}

TEST_F(PeersChannelsTest, NewCredentialsAreUsedFromThenOn) {
  auto a = Make(1), b = Make(2);
  for (const auto* agent : {&a, &b}) EXPECT_TRUE((*agent)->peers->SetCredentials({.run_id = "next", .key = {}}).ok());
  EXPECT_EQ(net_.credentials, 2);
  const auto old = Dial({Hello()});
  EXPECT_THAT(old->ends, SizeIs(1)) << "of the run before";
  Know(a, 2);
  Know(b, 1);
  Send(a, 2, "one");
  Run();
  EXPECT_THAT(b->heard, ElementsAre("1 one"));
}

TEST_F(PeersChannelsTest, WhoHasNoAddressIsNotDialledAndOfThreeEachHasItsTurn) {
  auto a = Make(1);
  a->peers->Know(NodeId(2), {}, 102);
  Send(a, 2, "lost");
  Run();
  EXPECT_THAT(net_.dialled, IsEmpty());
  a->peers->Know(NodeId(2), {"x", "y", "z"}, 102);
  loop_.Advance(milliseconds(700));
  std::vector<std::string> tried;
  for (const auto& d : net_.dialled) tried.push_back(d.address);
  EXPECT_THAT(tried, ElementsAre("x", "y", "z", "x"));
}

TEST_F(PeersChannelsTest, WhileAChannelIsMadeNoOtherIs) {
  auto a = Make(1), b = Make(2);
  Know(a, 2);
  net_.deaf = true;
  for (int i = 0; i < 3; ++i) {
    Send(a, 2, "one");
    Run();
  }
  EXPECT_THAT(net_.dialled, SizeIs(1));
  auto owner = std::make_shared<int>();
  const std::weak_ptr<int> queued = owner;
  a->peers->SendBulk(NodeId(2), Service::kTransfers, "content", {.owner = std::exchange(owner, nullptr)});
  a->peers->HangUp(NodeId(2), Status(Code::kDamaged, "nonsense"));
  EXPECT_FALSE(queued.expired());
  EXPECT_EQ(loop_.timer_count(), 1u) << "it is dialled again";
  a->peers->Forget(NodeId(2));
  EXPECT_EQ(loop_.timer_count(), 0u);
  EXPECT_TRUE(queued.expired()) << "whoever dials holds no content";
  Send(a, 2, "two");
  loop_.Advance(seconds(10));
  EXPECT_THAT(net_.dialled, SizeIs(1)) << "nobody knows where it is";
}

TEST_F(PeersChannelsTest, OneThatEndsLeavesNoTimer) {
  auto a = Make(1), b = Make(2);
  Know(a, 2);
  Send(a, 2, "one");
  Run();
  EXPECT_EQ(loop_.timer_count(), 2u) << "one waits for a hello, the other to be told of its sender";
  a.reset();
  EXPECT_EQ(loop_.timer_count(), 1u);
  const auto silent = Dial({});
  b.reset();
  EXPECT_EQ(loop_.timer_count(), 0u);
}

TEST_F(PeersChannelsTest, WhoSaysHelloInAnotherWayIsHungUpOn) {
  auto b = Make(2);
  for (const std::string& first : {Hello('\1'), std::string(), std::string(1, '\0') + "nonsense"})
    EXPECT_THAT(Dial({first})->ends, SizeIs(1)) << first;
  EXPECT_THAT(Dial({Hello(), Hello()})->ends, SizeIs(1)) << "twice";
  const auto early = Dial({});
  loop_.Advance(seconds(10));
  const auto late = Dial({});
  Know(b, 1);  // neither has said who it is
  loop_.Advance(seconds(11));
  EXPECT_THAT(early->ends, SizeIs(1));
  EXPECT_THAT(late->ends, IsEmpty()) << "it has time yet";
}

TEST_F(PeersChannelsTest, TooManyThatNobodyHasToldOfAreNotKept) {
  auto b = Make(2);
  std::vector<std::shared_ptr<ByHand>> silent;
  size_t ended = 0;
  while (ended == 0 && silent.size() < 10'000) {
    silent.push_back(Dial({}));
    ended = silent.front()->ends.size();
  }
  EXPECT_EQ(ended, 1u) << "the one that has waited longest";
  for (size_t i = 1; i < silent.size(); ++i) EXPECT_THAT(silent[i]->ends, IsEmpty());
}

TEST_F(PeersChannelsTest, WhoAnswersInAnotherWayIsNotTheOtherAgent) {
  for (const std::string& answer : {Hello('\1'), std::string()}) {
    auto a = Make(1);
    std::vector<std::shared_ptr<wire::Channel>> accepted;
    auto listener = net_.Of("at2").listen([&](std::shared_ptr<wire::Channel> channel) {
      channel->Send(answer);
      accepted.push_back(channel);
      return wire::ChannelHandler{};
    });
    Know(a, 2);
    Send(a, 2, "lost");
    loop_.Advance(seconds(30));
    EXPECT_THAT(a->gone, ElementsAre("2 the agent of node 2 cannot be reached: at2 does not say hello"));
  }
}

TEST_F(PeersChannelsTest, OneThatWentBeforeItWasToldOfIsDialled) {
  auto a = Make(1), b = Make(2);
  Know(a, 2);
  Send(a, 2, "one");
  Run();
  a.reset();
  Run();
  a = Make(1);
  Know(b, 1);
  Know(a, 2);
  Send(b, 1, "two");
  Run();
  EXPECT_THAT(a->heard, ElementsAre("2 two"));
  EXPECT_THAT(b->heard, IsEmpty());
}

TEST_F(PeersChannelsTest, WhoConnectsAgainWasGone) {
  auto a = Make(1), b = Make(2);
  Know(a, 2);
  Know(b, 1);
  Send(a, 2, "one");
  Run();
  Know(b, 1);  // once more
  const auto first = net_.dialled[0].dialler.lock();  // its end is not told
  a->peers->HangUp(NodeId(2), Status(Code::kDamaged, "nonsense"));
  Send(a, 2, "two");
  Run();
  EXPECT_THAT(b->gone, ElementsAre("1 the agent of node 1 has connected again"));
  EXPECT_THAT(b->heard, ElementsAre("1 one", "1 two"));
  first->Send(std::string(1, static_cast<char>(Service::kTransfers)) + "late");
  first->Break(Status(Code::kUnavailable, "late"));
  Run();
  EXPECT_THAT(b->heard, SizeIs(2));
  EXPECT_THAT(b->gone, SizeIs(1));
  Send(b, 1, "three");
  Run();
  EXPECT_THAT(a->heard, ElementsAre("2 three"));
  EXPECT_EQ(loop_.timer_count(), 0u);
}

TEST_F(PeersChannelsTest, AServiceThatThereIsNotIsNonsense) {
  for (const std::string& message : {std::string(), std::string(1, static_cast<char>(kServices)), std::string(1, '\0')}) {
    auto a = Make(1), b = Make(2);
    Know(a, 2);
    Know(b, 1);
    Send(a, 2, "one");
    Run();
    net_.dialled.back().dialler.lock()->Send(message);
    Run();
    EXPECT_THAT(b->gone, ElementsAre(HasSubstr("a message of service")));
  }
}

TEST_F(PeersChannelsTest, AfterASuccessPausesAreShortAgainAndPatienceIsWhole) {
  auto a = Make(1);
  Know(a, 2);
  Send(a, 2, "one");
  loop_.Advance(seconds(9));
  auto b = Make(2);
  Know(b, 1);
  loop_.Advance(seconds(5));
  EXPECT_THAT(b->heard, ElementsAre("1 one"));
  b.reset();
  Run();
  EXPECT_THAT(a->gone, SizeIs(1));
  const size_t before = net_.dialled.size();
  const Time then = loop_.Now();
  Send(a, 2, "two");
  loop_.Advance(milliseconds(800));
  std::vector<Duration> at;
  for (size_t i = before; i < net_.dialled.size(); ++i) at.push_back(net_.dialled[i].at - then);
  EXPECT_THAT(at, ElementsAre(milliseconds(0), milliseconds(100), milliseconds(300), milliseconds(700)));
  EXPECT_THAT(a->gone, SizeIs(1)) << "it has just been there";
}

// --- without encryption

TEST_F(PeersChannelsTest, WhoseSecondChannelDoesNotComeIsLeft) {
  auto b = Make(2, false);
  Know(b, 1);
  const auto by_hand = Dial({Hello()});
  ASSERT_THAT(by_hand->heard, SizeIs(1));
  pb::PeerHello hello;
  ASSERT_TRUE(hello.ParseFromString(by_hand->heard[0].substr(1)));
  EXPECT_THAT(by_hand->ends, IsEmpty());
  loop_.Advance(seconds(21));
  EXPECT_THAT(by_hand->ends, SizeIs(1));
  int refused = 0;
  net_.Of("x").dial_plain("at2", hello.token(), [&](Result<std::shared_ptr<wire::Channel>> channel) {
    refused += channel.ok() ? 0 : 1;
    return wire::ChannelHandler();
  });
  Run();
  EXPECT_EQ(refused, 1) << "its word is not good any more";
}

TEST_F(PeersChannelsTest, WhoSpeaksBeforeItIsUpIsLeft) {
  auto b = Make(2, false);
  Know(b, 1);
  const auto by_hand = Dial({Hello(), std::string(1, static_cast<char>(Service::kTransfers)) + "too early"});
  EXPECT_THAT(by_hand->ends, SizeIs(1));
  EXPECT_THAT(b->heard, IsEmpty());
}

}  // namespace
}  // namespace harrow::agent
