#include "agent/serving.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <optional>
#include <set>

#include "agent/fetches.h"
#include "support/fake_event_loop.h"
#include "support/fake_peers.h"
#include "support/fake_store.h"
#include "wire/harrow.pb.h"

namespace harrow::agent {
namespace {

using std::chrono::seconds;
using test::FakeStore;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

/// Counts what is opened to be read.
class OpenedStore : public FakeStore {
 public:
  Result<std::unique_ptr<store::Reader>> Read(const store::ObjectId& id) override {
    ++opened;
    return FakeStore::Read(id);
  }
  int opened = 0;
};

class ServingTest : public testing::Test {
 protected:
  ServingTest() {
    peers_.Serve(Service::kTransfers,
                 {.on_message = {}, .on_gone = {}, .on_sent = [this](NodeId to) {
                    if (serving_) serving_->Sent(to);
                  }});
  }
  void Ask(uint32_t asker, const store::ObjectId& id, int64_t offset = 0, int64_t length = 0) {
    pb::PieceWanted wanted;
    wanted.set_request(++request_);
    wanted.set_object(id.Bytes());
    wanted.set_offset(offset);
    wanted.set_length(length);
    serving_->Wanted(NodeId(asker), wanted);
  }
  static bool IsError(const pb::Piece& piece, Code code) {
    return piece.error() == static_cast<uint32_t>(code);
  }

  test::FakeEventLoop loop_;
  test::FakePeers peers_{&loop_, NodeId(0)};
  OpenedStore store_;
  std::optional<Serving> serving_{std::in_place, &loop_, peers_, store_};
  uint64_t request_ = 0;
};

TEST_F(ServingTest, SmallObjectsLeaveInOneMessage) {
  for (int i = 0; i < 100; ++i) Ask(1, store_.Put("object " + std::to_string(i)).id);
  loop_.RunPosted();
  std::vector<std::string> data;
  const auto sent = peers_.Take(&data);
  ASSERT_THAT(sent, SizeIs(1));
  ASSERT_EQ(sent[0].piece_size(), 100);
  EXPECT_EQ(sent[0].piece(0).request(), 1u);
  EXPECT_EQ(sent[0].piece(99).length(), 9u);
  EXPECT_EQ(sent[0].piece(99).object_bytes(), 9);
  EXPECT_TRUE(data[0].starts_with("object 0object 1"));
  EXPECT_EQ(serving_->served_bytes(), static_cast<int64_t>(data[0].size()));
}

TEST_F(ServingTest, ALargeObjectLeavesInPieces) {
  const std::string content(1'000'000, 'c');
  Ask(1, store_.Put(content).id, 100, 700'000);
  loop_.RunPosted();
  int64_t next = 100;
  std::vector<std::string> data;
  for (const auto& message : peers_.Take(&data)) {
    ASSERT_EQ(message.piece_size(), 1);
    EXPECT_EQ(message.piece(0).offset(), next);
    EXPECT_EQ(message.piece(0).object_bytes(), 1'000'000);
    next += message.piece(0).length();
  }
  EXPECT_EQ(next, 700'100);
}

TEST_F(ServingTest, WhatIsNotHereIsNotFound) {
  Ask(1, FakeStore::IdOf("nothing"));
  Ask(1, store_.Put("short").id, 3, 10);
  loop_.RunPosted();
  EXPECT_TRUE(IsError(peers_.Take().at(0).piece(0), Code::kInvalid)) << "beyond its end";
  loop_.Advance(std::chrono::milliseconds(400));
  EXPECT_THAT(peers_.sent, IsEmpty()) << "it may come";
  loop_.Advance(seconds(1));
  const auto sent = peers_.Take();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_TRUE(IsError(sent[0].piece(0), Code::kNotFound));
  EXPECT_EQ(sent[0].piece(0).request(), 1u);
  pb::PieceWanted nonsense;
  nonsense.set_object("x");
  serving_->Wanted(NodeId(1), nonsense);
  EXPECT_TRUE(IsError(peers_.Take().at(0).piece(0), Code::kInvalid));
}

TEST_F(ServingTest, WhoTakesNothingCostsLittleAndKeepsNobodyWaiting) {
  const store::ObjectId id = store_.Put(std::string(16u << 20, 'c')).id;
  peers_.stalled[NodeId(1)] = true;
  for (int i = 0; i < 16; ++i) Ask(1, id, int64_t{i} << 20, 1 << 20);
  for (int i = 0; i < 4; ++i) Ask(2, id, int64_t{i} << 20, 1 << 20);
  loop_.RunPosted();
  EXPECT_LE(peers_.unsent_bytes(NodeId(1)), (1u << 20) + (256u << 10) + 100);
  EXPECT_EQ(peers_.Take().size(), 16u) << "the other has got all";
  peers_.Release(NodeId(1));
  loop_.RunPosted();
  EXPECT_EQ(peers_.Take().size(), 64u);
}

TEST_F(ServingTest, AskersTakeTurns) {
  const store::ObjectId id = store_.Put(std::string(4u << 20, 'c')).id;
  for (uint32_t asker : {1, 2, 3}) Ask(asker, id, 0, 1 << 20);
  loop_.RunPosted();
  std::vector<uint32_t> to;
  for (const auto& s : peers_.sent) to.push_back(s.to.value);
  EXPECT_THAT(to, ElementsAre(1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3));
  EXPECT_EQ(store_.opened, 1) << "once for all who read it at the same time";
}

TEST_F(ServingTest, WhatStillArrivesIsGivenAsItComes) {
  const std::string content(300'000, 'a');
  const store::Object object = FakeStore::ObjectOf(content);
  auto arrival = *store_.Begin(object, false);
  (void)arrival->Write(0, content.substr(0, 100'000));
  Ask(1, object.id);
  Ask(1, store_.Put("another").id);
  loop_.RunPosted();
  auto sent = peers_.Take();
  ASSERT_THAT(sent, SizeIs(2));
  EXPECT_EQ(sent[0].piece(0).length(), 100'000u);
  EXPECT_EQ(sent[1].piece(0).length(), 7u) << "others go on";
  loop_.Advance(seconds(3));
  sent = peers_.Take();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_TRUE(sent[0].piece(0).coming()) << "it has not been forgotten";
  EXPECT_EQ(sent[0].piece(0).error(), 0u);
  (void)arrival->Write(100'000, content.substr(100'000));
  loop_.RunPosted();
  sent = peers_.Take();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].piece(0).length(), 200'000u);
  EXPECT_EQ(sent[0].piece(0).request(), 1u);
  loop_.Advance(seconds(10));
  EXPECT_THAT(peers_.sent, IsEmpty());
  EXPECT_EQ(loop_.timer_count(), 0u);
}

TEST_F(ServingTest, WhatDoesNotArriveIsSaid) {
  const store::Object object = FakeStore::ObjectOf(std::string(300'000, 'a'));
  auto arrival = *store_.Begin(object, false);
  Ask(1, object.id);
  Ask(2, object.id);
  Ask(3, object.id);
  loop_.RunPosted();
  serving_->Unwanted(NodeId(2), 2);
  serving_->Unwanted(NodeId(9), 2);
  serving_->Gone(NodeId(3));
  store_.Drop(object.id);
  loop_.RunPosted();
  const auto sent = peers_.Take();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_TRUE(IsError(sent[0].piece(0), Code::kUnavailable));
  EXPECT_EQ(sent[0].piece(0).request(), 1u);
}

TEST_F(ServingTest, WhatIsOnItsWayHereIsWaitedFor) {
  bool comes = true;
  serving_->SetComes([&](const store::ObjectId&) { return comes; });
  Ask(1, FakeStore::IdOf("late"));
  Ask(2, FakeStore::IdOf("late"));
  Ask(3, FakeStore::IdOf("never"));
  Ask(4, FakeStore::IdOf("not wanted"));
  Ask(5, FakeStore::IdOf("gone"));
  loop_.Advance(seconds(10));
  for (const auto& message : peers_.Take()) {
    for (const auto& piece : message.piece()) EXPECT_EQ(piece.error(), 0u);
  }
  serving_->Unwanted(NodeId(4), 4);
  serving_->Gone(NodeId(5));
  store_.Put("late");
  serving_->Came(FakeStore::IdOf("late"));
  loop_.RunPosted();
  std::vector<std::string> data;
  peers_.Take(&data);
  EXPECT_THAT(data, ElementsAre("late", "late"));
  comes = false;
  loop_.Advance(seconds(1));
  const auto sent = peers_.Take();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_TRUE(IsError(sent[0].piece(0), Code::kNotFound));
  EXPECT_EQ(sent[0].piece(0).request(), 3u);
  loop_.Advance(seconds(5));
  EXPECT_EQ(loop_.timer_count(), 0u);
}

TEST_F(ServingTest, TooMuchAtOnceIsRefused) {
  peers_.stalled[NodeId(1)] = true;
  const store::ObjectId id = store_.Put("x").id;
  for (int i = 0; i < 4097; ++i) Ask(1, id);
  peers_.Release(NodeId(1));
  EXPECT_TRUE(IsError(peers_.Take().at(0).piece(0), Code::kExhausted));
}

TEST_F(ServingTest, WhatWaitsIsAskedForToo) {
  for (int i = 0; i < 2000; ++i) Ask(1, FakeStore::IdOf("not here " + std::to_string(i)));
  loop_.RunPosted();
  EXPECT_THAT(peers_.Take(), IsEmpty());
  const store::ObjectId id = store_.Put("x").id;
  for (int i = 0; i < 2096; ++i) Ask(1, id);
  EXPECT_THAT(peers_.Take(), IsEmpty());
  Ask(1, id);
  const auto sent = peers_.Take();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_TRUE(IsError(sent[0].piece(0), Code::kExhausted));
}

/// Contents alone may go in clear.
TEST_F(ServingTest, WhatIsNoContentGoesTheEncryptedWay) {
  const auto bulk = [this] {
    std::vector<bool> ways;
    for (const auto& sent : std::exchange(peers_.sent, {})) ways.push_back(sent.bulk);
    return ways;
  };
  for (const std::string& content : {std::string("x"), std::string(100'000, 'x')}) Ask(1, store_.Put(content).id);
  loop_.RunPosted();
  EXPECT_THAT(bulk(), ElementsAre(true, true));
  Ask(1, store_.Put("").id);
  loop_.RunPosted();
  EXPECT_EQ(test::FakePeers::HeadOf(peers_.sent.at(0).bytes).piece(0).error(), 0u);
  EXPECT_THAT(bulk(), ElementsAre(false)) << "whether something is there";
  const store::Object object = FakeStore::ObjectOf("late");
  auto arrival = *store_.Begin(object, false);
  Ask(1, object.id);
  loop_.Advance(std::chrono::milliseconds(2100));
  EXPECT_TRUE(test::FakePeers::HeadOf(peers_.sent.at(0).bytes).piece(0).coming());
  EXPECT_THAT(bulk(), ElementsAre(false));
  store_.Drop(object.id);
  loop_.RunPosted();
  EXPECT_EQ(test::FakePeers::HeadOf(peers_.sent.at(0).bytes).piece(0).why(), object.id.Text() + " did not arrive whole itself");
  EXPECT_THAT(bulk(), ElementsAre(false));
  pb::PieceWanted nonsense;
  serving_->Wanted(NodeId(1), nonsense);
  EXPECT_THAT(bulk(), ElementsAre(false));
  Ask(1, object.id, 5, 5);
  loop_.Advance(seconds(1));
  EXPECT_THAT(bulk(), ElementsAre(false));
}

TEST_F(ServingTest, WhatIsNotWantedAnyMoreIsNotSent) {
  const store::ObjectId id = store_.Put(std::string(4u << 20, 'c')).id;
  peers_.stalled[NodeId(1)] = true;
  for (int i = 0; i < 4; ++i) Ask(1, id, int64_t{i} << 20, 1 << 20);
  loop_.RunPosted();
  serving_->Unwanted(NodeId(1), 3);
  peers_.Release(NodeId(1));
  loop_.RunPosted();
  std::set<uint64_t> requests;
  for (const auto& message : peers_.Take()) requests.insert(message.piece(0).request());
  EXPECT_THAT(requests, ElementsAre(1u, 2u, 4u));
}

TEST_F(ServingTest, WhoHadTheLastTurnIsNotTheNext) {
  const store::ObjectId id = store_.Put("x").id;
  const auto turns = [&](const std::vector<uint32_t>& askers) {
    for (const uint32_t asker : askers) Ask(asker, id);
    loop_.RunPosted();
    std::vector<uint32_t> to;
    for (const auto& sent : std::exchange(peers_.sent, {})) to.push_back(sent.to.value);
    return to;
  };
  EXPECT_THAT(turns({2}), ElementsAre(2));
  EXPECT_THAT(turns({1, 2, 3}), ElementsAre(3, 1, 2));
  EXPECT_THAT(turns({1, 2, 3}), ElementsAre(3, 1, 2));
}

TEST_F(ServingTest, APieceMayBeOfNoBytesAtTheEnd) {
  Ask(1, store_.Put("short").id, 5, 0);
  loop_.RunPosted();
  const auto sent = peers_.Take();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].piece(0).error(), 0u);
  EXPECT_EQ(sent[0].piece(0).length(), 0u);
}

TEST_F(ServingTest, TheLastByteIsWaitedFor) {
  const store::Object object = FakeStore::ObjectOf("0123456789");
  auto arrival = *store_.Begin(object, false);
  (void)arrival->Write(0, "012345678");
  Ask(1, object.id);
  loop_.RunPosted();
  EXPECT_EQ(peers_.Take().at(0).piece(0).length(), 9u);
  (void)arrival->Write(9, "9");
  loop_.RunPosted();
  const auto sent = peers_.Take();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].piece(0).offset(), 9);
  EXPECT_EQ(sent[0].piece(0).length(), 1u);
}

TEST_F(ServingTest, WhoWaitsForWhatComesHereIsToldSoNowAndThen) {
  serving_->SetComes([](const store::ObjectId&) { return true; });
  Ask(1, FakeStore::IdOf("late"));
  Ask(2, FakeStore::IdOf("late"));
  peers_.stalled[NodeId(2)] = true;
  Ask(2, store_.Put(std::string(2u << 20, 'c')).id);
  loop_.RunPosted();
  const size_t unsent = peers_.unsent_bytes(NodeId(2));
  EXPECT_GT(unsent, 1u << 20);
  for (int i = 1; i <= 3; ++i) {
    loop_.Advance(seconds(2));
    const auto sent = peers_.Take();
    ASSERT_THAT(sent, SizeIs(1)) << i;
    EXPECT_TRUE(sent[0].piece(0).coming());
    EXPECT_EQ(sent[0].piece(0).request(), 1u);
  }
  EXPECT_EQ(peers_.unsent_bytes(NodeId(2)), unsent) << "who takes nothing is told nothing";
  serving_.reset();
  EXPECT_EQ(loop_.timer_count(), 0u);
}

TEST_F(ServingTest, WhatCameAndWentBeforeItWasLookedAtIsHopedForAsLong) {
  Ask(1, FakeStore::IdOf("late"));
  loop_.Advance(std::chrono::milliseconds(200));
  serving_->Came(FakeStore::IdOf("late"));
  loop_.Advance(std::chrono::milliseconds(200));
  EXPECT_THAT(peers_.sent, IsEmpty());
  loop_.Advance(std::chrono::milliseconds(300));
  const auto sent = peers_.Take();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_TRUE(IsError(sent[0].piece(0), Code::kNotFound));
}

TEST_F(ServingTest, OneThatIsGoneGivesNothing) {
  const store::Object object = FakeStore::ObjectOf("0123456789");
  auto arrival = *store_.Begin(object, false);
  Ask(1, object.id);
  loop_.RunPosted();
  serving_.reset();
  (void)arrival->Write(0, "0123456789");
  loop_.RunPosted();
  EXPECT_THAT(peers_.sent, IsEmpty());
}

/// Nodes in a row, each fetching from the one before, with nothing but the two classes between.
TEST(Chain, AFileGoesThroughNodesThatDoNotHaveItYet) {
  test::FakeEventLoop loop;
  struct Node {
    Node(test::FakeEventLoop* l, uint32_t id)
        : peers(l, NodeId(id)),
          serving(l, peers, store),
          fetches(l, peers, store,
                  [l](std::function<void()> work, std::function<void()> done) {
                    work();
                    l->Post(std::move(done));
                  },
                  {}) {
      peers.Serve(Service::kTransfers, {.on_message =
                                            [this](NodeId from, std::string_view bytes, bool sealed) {
                                              std::string data;
                                              const auto head =
                                                  test::FakePeers::HeadOf(std::string(bytes), &data);
                                              for (const auto& w : head.wanted()) serving.Wanted(from, w);
                                              fetches.Take(from, head, data, sealed);
                                            },
                                        .on_gone = {},
                                        .on_sent = [this](NodeId to) { serving.Sent(to); }});
    }
    test::FakePeers peers;
    FakeStore store;
    Serving serving;
    Fetches fetches;
  };
  std::vector<std::unique_ptr<Node>> nodes;
  for (uint32_t i = 0; i < 4; ++i) nodes.push_back(std::make_unique<Node>(&loop, i));
  for (size_t i = 0; i + 1 < 4; ++i) test::FakePeers::Link(&nodes[i]->peers, &nodes[i + 1]->peers);
  std::string content(5'000'000, '\0');
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 7919 >> 9);
  const store::Object object = nodes[0]->store.Put(content);
  int done = 0;
  // The last asks first; who has not even begun has it not, so all begin before pieces flow.
  for (uint32_t i = 1; i < 4; ++i) {
    nodes[i]->fetches.Want(object, NodeId(i - 1), [&](const Status& status, int64_t bytes) {
      EXPECT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(bytes, 5'000'000);
      ++done;
    });
  }
  loop.RunPosted();
  EXPECT_EQ(done, 3);
  for (auto& node : nodes) EXPECT_TRUE(node->store.Has(object.id));
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(nodes[i]->serving.served_bytes(), 5'000'000);
}

}  // namespace
}  // namespace harrow::agent
