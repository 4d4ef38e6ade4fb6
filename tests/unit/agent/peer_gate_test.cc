// PeerGate: what one loop says to the agents of other nodes, and hears of them, by the Peers of another one.
#include "agent/peer_gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/fake_event_loop.h"
#include "support/fake_peers.h"

namespace harrow::agent {
namespace {

using test::FakeEventLoop;
using test::FakePeers;
using testing::ElementsAre;
using testing::IsEmpty;

class PeerGateTest : public testing::Test {
 protected:
  std::vector<std::string> Sent() {
    std::vector<std::string> sent;
    for (const FakePeers::Sent& each : std::exchange(peers_.sent, {})) sent.push_back(std::to_string(each.to.value) + (each.bulk ? " bulk " : " ") + each.bytes);
    return sent;
  }
  void Run() {
    while (near_.RunPosted() + far_.RunPosted() > 0) {}
  }
  Peers::Handler Telling() {
    return {.on_message = [this](NodeId from, std::string_view text,
                                 bool sealed) { heard_.push_back(std::to_string(from.value) + (sealed ? " " : " open ") + std::string(text)); },
            .on_gone = [this](NodeId node, const Status& why) { heard_.push_back(std::to_string(node.value) + " gone: " + why.message()); }};
  }

  FakeEventLoop near_, far_;
  FakePeers peers_{&far_, NodeId(1)}, other_{&far_, NodeId(2)};
  std::optional<PeerGate> gate_{&near_};
  std::vector<std::string> heard_;
};

TEST_F(PeerGateTest, WhatIsSentBeforeItIsOpenGoesWhenItIs) {
  gate_->Send(NodeId(5), Service::kStreams, "one");
  gate_->SendBulk(NodeId(6), Service::kStreams, "two", {});
  gate_->HangUp(NodeId(5), Status(Code::kDamaged, "nonsense"));
  Run();
  EXPECT_THAT(Sent(), IsEmpty());
  gate_->Open(&far_, &peers_);
  EXPECT_THAT(Sent(), ElementsAre("5 one", "6 bulk two"));
  EXPECT_THAT(peers_.hung_up, ElementsAre("nonsense"));
  gate_->Send(NodeId(7), Service::kStreams, "three");
  EXPECT_THAT(Sent(), IsEmpty()) << "on the far loop's thread";
  gate_->HangUp(NodeId(7), Status(Code::kDamaged, "again"));
  far_.RunPosted();
  EXPECT_THAT(Sent(), ElementsAre("7 three"));
  EXPECT_THAT(peers_.hung_up, ElementsAre("nonsense", "again"));
}

TEST_F(PeerGateTest, WhatComesIsHeardOnTheNearLoop) {
  FakePeers::Link(&peers_, &other_);
  gate_->Serve(Service::kStreams, Telling());
  gate_->Open(&far_, &peers_);
  other_.Send(NodeId(1), Service::kStreams, "hello");
  far_.RunPosted();
  EXPECT_THAT(heard_, IsEmpty());
  near_.RunPosted();
  EXPECT_THAT(heard_, ElementsAre("2 hello"));
  other_.sealed = false;
  other_.SendBulk(NodeId(1), Service::kStreams, "piece", {});
  FakePeers::Break(&peers_, &other_, "cut");
  Run();
  EXPECT_THAT(heard_, ElementsAre("2 hello", "2 gone: cut")) << "what was under way is lost";
  other_.SendBulk(NodeId(1), Service::kStreams, "piece", {});
  Run();
  EXPECT_THAT(heard_, ElementsAre("2 hello", "2 gone: cut", "2 open piece"));
  gate_->Serve(Service::kStreams, {});
  Run();
  other_.Send(NodeId(1), Service::kStreams, "too late");
  Run();
  EXPECT_EQ(heard_.size(), 3u);
}

TEST_F(PeerGateTest, NothingIsSaidOrHeardWhenAnEndIsClosed) {
  FakePeers::Link(&peers_, &other_);
  gate_->Serve(Service::kStreams, Telling());
  gate_->Open(&far_, &peers_);
  Run();
  gate_->Send(NodeId(9), Service::kStreams, "on its way");
  gate_->Close();
  gate_->Send(NodeId(9), Service::kStreams, "after");
  Run();
  EXPECT_THAT(Sent(), IsEmpty());
  other_.Send(NodeId(1), Service::kStreams, "to nobody");
  far_.RunPosted();
  gate_.reset();
  Run();
  EXPECT_THAT(heard_, IsEmpty());
}

TEST_F(PeerGateTest, AnEndThatIsClosedOrGoneIsLeftAlone) {
  EXPECT_EQ(gate_->unsent_bytes(NodeId(2)), 0u) << "which is not known";
  gate_->Close();  // it was never opened
  FakePeers::Link(&peers_, &other_);
  gate_->Serve(Service::kStreams, Telling());
  gate_->Open(&far_, &peers_);
  Run();
  gate_->Close();
  gate_->Send(NodeId(9), Service::kStreams, "after");
  EXPECT_EQ(far_.RunPosted(), 0u) << "nothing is posted to a loop that may be gone";
  gate_.reset();
  other_.Send(NodeId(1), Service::kStreams, "to nobody");
  far_.RunPosted();
  EXPECT_EQ(near_.RunPosted(), 0u) << "nor back";
  EXPECT_THAT(heard_, IsEmpty());
}

}  // namespace
}  // namespace harrow::agent
