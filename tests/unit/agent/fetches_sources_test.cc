// Which of its sources a file comes from, what is asked of them at once, and who is told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/listing.h"
#include "unit/agent/fetches_fixture.h"

namespace harrow::agent {
namespace {

using std::chrono::seconds;
using test::FakeStore;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;

class FetchesFromTest : public FetchesTest {
 protected:
  void GiveAll(uint32_t from, const std::string& content) {
    for (auto asked = AskedOf(from); !asked.empty(); asked = AskedOf(from)) {
      for (const auto& wanted : asked) Give(from, wanted, content);
    }
  }
};

TEST_F(FetchesFromTest, AFileThatIsMovedToAnotherSourceIsNoMoreOfTheFirst) {
  const std::string content = Content(20u << 20), other = Content(9u << 20, 2);
  Want(FakeStore::ObjectOf(content), 1);
  ASSERT_THAT(AskedOf(1), SizeIs(8));
  Want(FakeStore::ObjectOf(content), 2);
  Want(FakeStore::ObjectOf(other), 1);
  loop_.RunPosted();
  std::vector<pb::PieceWanted> of_first, of_second;
  for (const auto& sent : std::exchange(peers_.sent, {})) {
    const auto head = test::FakePeers::HeadOf(sent.bytes);
    auto& asked = sent.to == NodeId(1) ? of_first : of_second;
    asked.insert(asked.end(), head.wanted().begin(), head.wanted().end());
  }
  ASSERT_THAT(of_first, SizeIs(8)) << "its window is free again";
  for (const auto& wanted : of_first) EXPECT_EQ(wanted.object(), FakeStore::IdOf(other).Bytes());
  fetches_.Gone(NodeId(1), Status(Code::kUnavailable, "gone"));
  EXPECT_EQ(EndOf(2).code, Code::kUnavailable);
  EXPECT_EQ(EndOf(0).code, Code::kInternal) << "it comes from the second";
  int64_t next = 0;
  while (!of_second.empty()) {
    for (const auto& wanted : of_second) {
      EXPECT_EQ(wanted.offset(), next) << "each once";
      next += wanted.length();
      Give(2, wanted, content);
    }
    of_second = AskedOf(2);
  }
  EXPECT_EQ(EndOf(0).code, Code::kOk) << EndOf(0).why;
  EXPECT_EQ(EndOf(1).code, Code::kOk);
}

TEST_F(FetchesFromTest, WhatIsGivenUpMakesPlaceForOtherLargeFiles) {
  for (const bool moved : {true, false}) {
    std::vector<uint64_t> tickets;
    for (unsigned i = 0; i < 8; ++i) tickets.push_back(Want(FakeStore::ObjectOf(Content(100'000, i)), 1));
    ASSERT_THAT(AskedOf(1), SizeIs(8));
    Want(FakeStore::ObjectOf(Content(100'000, 20)), 1);
    EXPECT_THAT(AskedOf(1), IsEmpty()) << "no more at once";
    for (unsigned i = 0; i < 8; ++i) {
      if (moved) tickets.push_back(Want(FakeStore::ObjectOf(Content(100'000, i)), 2));
      if (!moved) fetches_.Unwant(tickets[i]);
    }
    EXPECT_THAT(AskedOf(1), SizeIs(1));
    for (const uint32_t node : {1, 2}) fetches_.Gone(NodeId(node), Status(Code::kUnavailable, "gone"));
    loop_.RunPosted();
    EXPECT_TRUE(fetches_.idle());
  }
}

TEST_F(FetchesFromTest, LargeFilesComeWhileThereAreManySmallOnes) {
  for (int i = 0; i < 300; ++i) Want(FakeStore::ObjectOf("file " + std::to_string(i)), 1);
  const std::string large = Content(200'000);
  Want(FakeStore::ObjectOf(large), 1);
  std::vector<std::string> names;
  for (const auto& wanted : AskedOf(1)) names.push_back(wanted.object());
  EXPECT_THAT(names, Contains(FakeStore::IdOf(large).Bytes()));
}

TEST_F(FetchesFromTest, SmallFilesAreNotBegunBeforeTheyAreHere) {
  Want(FakeStore::ObjectOf(Content(64 << 10)), 1);
  const auto asked = AskedOf(1);
  ASSERT_THAT(asked, SizeIs(1));
  EXPECT_THAT(store_.begun, IsEmpty());
  Want(FakeStore::ObjectOf(Content((64 << 10) + 1)), 1);
  AskedOf(1);
  EXPECT_THAT(store_.begun, SizeIs(1));
  Want(FakeStore::ObjectOf(Content(256 << 10)), 2);
  GiveAll(2, Content(256 << 10));
  EXPECT_EQ(EndOf(2).code, Code::kOk);
  EXPECT_EQ(aside_, 0) << "its check is short";
}

/// The window is of bytes that are on their way, also where a stretch comes in pieces.
TEST_F(FetchesFromTest, PiecesOfAStretchMakeAsMuchRoomAsTheyAreLong) {
  const std::string content = Content(20u << 20);
  Want(FakeStore::ObjectOf(content), 1);
  const auto asked = AskedOf(1);
  ASSERT_THAT(asked, SizeIs(8));
  const auto piece = [&](size_t request, int64_t from, int64_t to) {
    pb::PieceWanted part = asked[request];
    part.set_offset(asked[request].offset() + from);
    part.set_length(to - from);
    Give(1, part, content);
    return AskedOf(1).size();
  };
  constexpr int64_t kPart = 100'000;
  EXPECT_EQ(piece(0, 0, kPart), 1u);
  EXPECT_EQ(piece(1, 0, kPart), 0u) << "what has come makes no room for a whole stretch";
  EXPECT_EQ(piece(0, kPart, 1 << 20), 1u);
  EXPECT_EQ(piece(1, kPart, 1 << 20), 0u);
  EXPECT_EQ(piece(2, 0, 1 << 20), 1u);
  EXPECT_EQ(piece(3, 0, 1 << 20), 1u);
}

TEST_F(FetchesFromTest, WhatIsAskedForOfTheSameSourceIsNotAskedForAgain) {
  const std::string content = Content(3u << 20);
  Want(FakeStore::ObjectOf(content), 1);
  const auto asked = AskedOf(1);
  ASSERT_THAT(asked, SizeIs(3));
  Want(FakeStore::ObjectOf(content), 1);
  EXPECT_THAT(AskedOf(1), IsEmpty());
  EXPECT_THAT(unwanted_, IsEmpty());
  Give(1, asked[0], content);
  Give(1, asked[0], content);
  EXPECT_THAT(peers_.hung_up, IsEmpty()) << "what comes twice is of no meaning";
}

TEST_F(FetchesFromTest, WhatIsBeingCheckedComesFromNobodyAnyMore) {
  const std::string content = Content(3u << 20);
  const uint64_t ticket = Want(FakeStore::ObjectOf(content), 1);
  for (const auto& wanted : AskedOf(1)) Give(1, wanted, content);
  EXPECT_EQ(aside_, 1);
  Want(FakeStore::ObjectOf(content), 2);
  fetches_.Gone(NodeId(1), Status(Code::kUnavailable, "gone"));
  fetches_.Unwant(ticket);
  EXPECT_THAT(AskedOf(2), IsEmpty());
  EXPECT_EQ(EndOf(1).code, Code::kOk);
  EXPECT_FALSE(ends_[0]) << "nobody waits for it";
  const std::string other = Content(3u << 20, 2);
  const uint64_t alone = Want(FakeStore::ObjectOf(other), 1);
  for (const auto& wanted : AskedOf(1)) Give(1, wanted, other);
  fetches_.Unwant(alone);
  loop_.RunPosted();
  EXPECT_TRUE(store_.Has(FakeStore::IdOf(other))) << "all of it was here";
  EXPECT_TRUE(fetches_.idle());
}

TEST_F(FetchesFromTest, WhoHasGivenUpIsNotToldOfTheEnd) {
  const std::string content = Content(3u << 20);
  const uint64_t ticket = Want(FakeStore::ObjectOf(content), 1);
  AskedOf(1);
  fetches_.Gone(NodeId(1), Status(Code::kUnavailable, "gone"));
  fetches_.Unwant(ticket);
  loop_.RunPosted();
  EXPECT_FALSE(ends_[0]);
  for (unsigned i = 0; i < 8; ++i) Want(FakeStore::ObjectOf(Content(100'000, i)), 1);
  EXPECT_THAT(AskedOf(1), SizeIs(8));
}

TEST_F(FetchesFromTest, AnOldTicketIsOfNoMeaning) {
  const store::Object object = FakeStore::ObjectOf("content");
  const uint64_t ticket = Want(object, 1);
  EXPECT_TRUE(fetches_.Comes(object.id));
  EXPECT_FALSE(fetches_.idle());
  fetches_.Unwant(ticket);
  EXPECT_FALSE(fetches_.Comes(object.id));
  Want(object, 1);
  fetches_.Unwant(ticket);
  EXPECT_TRUE(fetches_.Comes(object.id));
  GiveAll(1, "content");
  EXPECT_EQ(EndOf(1).code, Code::kOk);
  EXPECT_FALSE(ends_[0]);
}

TEST_F(FetchesFromTest, ALargeFileThatIsHereIsNotAskedFor) {
  const std::string content = Content(200'000);
  store_.Put(content);
  Want(FakeStore::ObjectOf(content), 1);
  EXPECT_THAT(AskedOf(1), IsEmpty());
  EXPECT_EQ(EndOf(0).code, Code::kOk);
  EXPECT_EQ(EndOf(0).bytes, 0);
}

// --- directories

TEST_F(FetchesFromTest, WhatOnlyDirectoriesHoldIsBegunAsAPartUntilSomebodyWantsItForItself) {
  FakeStore there;
  const std::string large = Content(200'000), small = "small";
  const store::Object directory = there.PutDirectory({there.Put(large), there.Put(small)});
  Want(directory, 1);
  Give(1, AskedOf(1).at(0), there.Bytes(directory.id));
  EXPECT_THAT(store_.begun, ElementsAre(Pair(directory.id, false)));
  store_.begun.clear();
  const auto asked = AskedOf(1);
  ASSERT_THAT(asked, SizeIs(2));
  EXPECT_THAT(store_.begun, ElementsAre(Pair(FakeStore::IdOf(large), true)));
  store_.begun.clear();
  for (int i = 0; i < 2; ++i) Want(FakeStore::ObjectOf(large), 1);
  EXPECT_THAT(store_.begun, ElementsAre(Pair(FakeStore::IdOf(large), false))) << "told once";
  store_.begun.clear();
  Want(FakeStore::ObjectOf(small), 1);
  EXPECT_THAT(store_.begun, IsEmpty()) << "nothing of it is here";
  for (const auto& wanted : asked)
    Give(1, wanted, there.Bytes(*store::ObjectId::FromBytes(wanted.object())));
  EXPECT_THAT(store_.begun, ElementsAre(Pair(FakeStore::IdOf(small), false)));
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(EndOf(i).code, Code::kOk) << i;
  store_.begun.clear();
  const std::string alone = Content(100'000, 3);
  Want(FakeStore::ObjectOf(alone), 1);
  AskedOf(1);
  EXPECT_THAT(store_.begun, ElementsAre(Pair(FakeStore::IdOf(alone), false)));
}

TEST_F(FetchesFromTest, OthersOfTheirNumbersAreNotConfusedWithPartsOfADirectory) {
  FakeStore there;
  Want(FakeStore::ObjectOf("first"), 1);
  const auto first = AskedOf(1);
  const store::Object directory = there.PutDirectory({there.Put("one"), there.Put("two")});
  Want(directory, 1);
  Give(1, AskedOf(1).at(0), there.Bytes(directory.id));
  for (const auto& wanted : AskedOf(1))
    Give(1, wanted, there.Bytes(*store::ObjectId::FromBytes(wanted.object())));
  EXPECT_EQ(EndOf(1).code, Code::kOk);
  EXPECT_FALSE(ends_[0]);
  Give(1, first.at(0), "first");
  EXPECT_EQ(EndOf(0).code, Code::kOk);
}

TEST_F(FetchesFromTest, ADirectoryIsGivenUpWithItsListingAndItsParts) {
  FakeStore there;
  const store::Object directory = there.PutDirectory({there.Put("one"), there.Put("two")});
  const uint64_t ticket = Want(directory, 1);
  AskedOf(1);
  fetches_.Unwant(ticket);
  AskedOf(1);
  EXPECT_THAT(unwanted_, SizeIs(1)) << "its listing";
  EXPECT_TRUE(fetches_.idle());
  Want(directory, 1);
  Give(1, AskedOf(1).at(0), there.Bytes(directory.id));
  const auto asked = AskedOf(1);
  ASSERT_THAT(asked, SizeIs(2));
  Refuse(1, asked[0], Code::kNotFound);
  EXPECT_EQ(EndOf(1).code, Code::kNotFound);
  AskedOf(1);
  EXPECT_THAT(unwanted_, Contains(asked[1].request())) << "the other part is of no use";
  EXPECT_TRUE(fetches_.idle());
}

TEST_F(FetchesFromTest, AListingMayBeAsLongAsItMay) {
  FakeStore there;
  Want(there.PutDirectory({there.Put("one")}), 1);
  const auto asked = AskedOf(1);
  pb::PeerTransfer message;
  pb::Piece* const piece = message.add_piece();
  piece->set_request(asked.at(0).request());
  piece->set_length(3);
  piece->set_object_bytes(static_cast<int64_t>(store::kLargestListing));
  fetches_.Take(NodeId(1), message, "abc", true);
  EXPECT_EQ(EndOf(0).code, Code::kInternal);
}

// --- what is said in a message

TEST_F(FetchesFromTest, EachPieceOfAMessageHasItsBytes) {
  for (const char* content : {"one", "eleven"}) Want(FakeStore::ObjectOf(content), 1);
  const auto asked = AskedOf(1);
  ASSERT_THAT(asked, SizeIs(2));
  pb::PeerTransfer message;
  std::string data;
  for (const auto& wanted : asked) {
    const std::string content = wanted.length() == 3 ? "one" : "eleven";
    pb::Piece* const piece = message.add_piece();
    piece->set_request(wanted.request());
    piece->set_length(static_cast<uint32_t>(content.size()));
    piece->set_object_bytes(static_cast<int64_t>(content.size()));
    data += content;
  }
  fetches_.Take(NodeId(1), message, data, true);
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(EndOf(i).code, Code::kOk) << EndOf(i).why;
}

TEST_F(FetchesFromTest, ARefusalIsOfOneFileAndOnlyWhatIsMeantForAllIsTakenAtItsWord) {
  for (const auto& [said, told] : {std::pair(Code::kDamaged, Code::kDamaged),
                                   {Code::kNotFound, Code::kNotFound},
                                   {Code::kExhausted, Code::kUnavailable},
                                   {Code::kInvalid, Code::kUnavailable}}) {
    const std::string content = Content(2u << 20);
    Want(FakeStore::ObjectOf(content), 1);
    Want(FakeStore::ObjectOf("small"), 1);
    const auto asked = AskedOf(1);
    ASSERT_THAT(asked, SizeIs(3));
    pb::PeerTransfer message;
    for (const auto& wanted : asked) {
      pb::Piece* const piece = message.add_piece();
      piece->set_request(wanted.request());
      if (wanted.offset() > 0) piece->set_error(static_cast<uint32_t>(said));
      piece->set_why("sorry");
      if (wanted.length() == 5) piece->set_length(5), piece->set_object_bytes(5);
      if (wanted.length() != 5 && wanted.offset() == 0) piece->set_coming(true);
    }
    fetches_.Take(NodeId(1), message, "small", true);
    EXPECT_EQ(EndOf(ends_.size() - 2).code, told);
    EXPECT_EQ(EndOf(ends_.size() - 1).code, Code::kOk);
    EXPECT_THAT(peers_.hung_up, IsEmpty());
    store_.Drop(FakeStore::IdOf("small"));
  }
}

TEST_F(FetchesFromTest, WhoServesWhatComesIsToldWhenItBeginsAndWhenItIsOver) {
  std::vector<std::pair<store::ObjectId, bool>> came;  // and whether it is still on its way
  fetches_.SetCame([&](const store::ObjectId& id) { came.emplace_back(id, fetches_.Comes(id)); });
  const std::string large = Content(200'000);
  for (const std::string& content : {large, std::string("small")}) {
    const store::ObjectId id = FakeStore::IdOf(content);
    Want(FakeStore::ObjectOf(content), 1);
    const auto asked = AskedOf(1);
    EXPECT_THAT(came, SizeIs(content == large ? 1 : 0));
    Give(1, asked.at(0), content);
    loop_.RunPosted();
    EXPECT_THAT(came, ElementsAre(Pair(id, true), Pair(id, false)));
    came.clear();
  }
}

// --- in time

TEST_F(FetchesFromTest, TimeIsCountedFromWhenItIsAskedFor) {
  for (int i = 0; i < 2; ++i) {  // the second time of a source that is known
    loop_.Advance(seconds(100));
    Want(FakeStore::ObjectOf(Content(300'000, static_cast<unsigned>(i))), 1);
    if (i == 1) Want(FakeStore::ObjectOf("another"), 1);
    loop_.Advance(seconds(10));
    EXPECT_FALSE(ends_.back());
    loop_.Advance(seconds(10));
    EXPECT_EQ(EndOf(ends_.size() - 1).code, Code::kUnavailable);
    EXPECT_THAT(peers_.hung_up, SizeIs(i + 1));
  }
}

TEST_F(FetchesFromTest, AFileOfWhichSomethingComesNowAndThenComes) {
  const std::string content = Content(200'000);
  Want(FakeStore::ObjectOf(content), 1);
  pb::PieceWanted piece = AskedOf(1).at(0);
  piece.set_length(1);
  for (int i = 0; i < 300; ++i) {
    loop_.Advance(seconds(1));
    if (i % 10 == 0) SayComing(1, piece);
    if (i % 50 != 0) continue;
    Give(1, piece, content);
    piece.set_offset(piece.offset() + 1);
  }
  EXPECT_EQ(EndOf(0).code, Code::kInternal);
  pb::PeerTransfer nothing;
  pb::Piece* const empty = nothing.add_piece();
  empty->set_request(piece.request());
  empty->set_offset(piece.offset());
  empty->set_object_bytes(200'000);
  for (int i = 0; i < 70; ++i) {
    loop_.Advance(seconds(1));
    if (i % 10 == 0) fetches_.Take(NodeId(1), nothing, "", true);
  }
  EXPECT_EQ(EndOf(0).code, Code::kUnavailable) << "pieces without bytes are nothing";
  EXPECT_THAT(EndOf(0).why, HasSubstr("nothing of "));
}

TEST_F(FetchesFromTest, OneThatIsGoneTellsNobodyAndLeavesNoTimer) {
  int told = 0;
  std::optional<Fetches> fetches;
  fetches.emplace(&loop_, peers_, store_, [](std::function<void()>, std::function<void()>) {}, Fetches::Limits{});
  fetches->Want(FakeStore::ObjectOf("content"), NodeId(1), [&](const Status&, int64_t) { ++told; });
  loop_.RunPosted();
  fetches->Gone(NodeId(1), Status(Code::kUnavailable, "gone"));
  EXPECT_EQ(loop_.timer_count(), 1u);
  fetches.reset();
  EXPECT_EQ(loop_.timer_count(), 0u);
  loop_.RunPosted();
  EXPECT_EQ(told, 0);
}

}  // namespace
}  // namespace harrow::agent
