#include "agent/fetches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

#include "unit/agent/fetches_fixture.h"

namespace harrow::agent {
namespace {

using std::chrono::seconds;
using test::FakeStore;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST_F(FetchesTest, SmallFilesAreAskedForTogether) {
  std::map<std::string, std::string> content;
  for (int i = 0; i < 300; ++i) {
    const std::string bytes = "file " + std::to_string(i);
    Want(FakeStore::ObjectOf(bytes), 1);
    content[FakeStore::IdOf(bytes).Bytes()] = bytes;
  }
  auto asked = Asked();
  EXPECT_THAT(asked, SizeIs(128));
  while (!asked.empty()) {
    for (const auto& wanted : asked) Give(1, wanted, content.at(wanted.object()));
    asked = Asked();
  }
  for (size_t i = 0; i < 300; ++i) ASSERT_EQ(EndOf(i).code, Code::kOk);
  EXPECT_EQ(EndOf(299).bytes, 8);
  EXPECT_THAT(store_.All(), SizeIs(300));
  EXPECT_TRUE(fetches_.idle());
  EXPECT_EQ(aside_, 0);
}

TEST_F(FetchesTest, ALargeFileComesInStretchesWithinTheWindow) {
  const std::string content = Content((20u << 20) + 17);
  const store::Object object = FakeStore::ObjectOf(content);
  Want(object, 1);
  auto asked = Asked();
  EXPECT_THAT(asked, SizeIs(8));
  int64_t next = 0;
  while (!asked.empty()) {
    for (const auto& wanted : asked) {
      EXPECT_EQ(wanted.offset(), next);
      EXPECT_LE(wanted.length(), 1 << 20);
      next += wanted.length();
      Give(1, wanted, content);
    }
    asked = Asked();
  }
  EXPECT_EQ(EndOf(0).code, Code::kOk) << EndOf(0).why;
  EXPECT_EQ(EndOf(0).bytes, object.bytes);
  EXPECT_TRUE(store_.Bytes(object.id) == content);
  EXPECT_EQ(aside_, 1) << "its check takes time";
  loop_.Advance(seconds(5));
  EXPECT_EQ(loop_.timer_count(), 0u);
}

TEST_F(FetchesTest, AWholeFileInPiecesOfARequest) {
  const std::string content = Content(900'000);
  Want(FakeStore::ObjectOf(content), 1);
  auto asked = Asked();
  ASSERT_THAT(asked, SizeIs(1));
  for (int64_t at = 0; at < 900'000; at += 100'000) {
    pb::PieceWanted part = asked[0];
    part.set_offset(at);
    part.set_length(100'000);
    Give(1, part, content);
  }
  EXPECT_EQ(EndOf(0).code, Code::kOk);
}

TEST_F(FetchesTest, LargeFilesAreNotAllBegunAtOnceAndDoNotKeepSmallOnesWaiting) {
  for (unsigned i = 0; i < 50; ++i) Want(FakeStore::ObjectOf(Content(3u << 20, i)), 1);
  Want(FakeStore::ObjectOf("small"), 1);
  std::set<std::string> names;
  for (const auto& wanted : Asked()) names.insert(wanted.object());
  EXPECT_LE(names.size(), 9u);
  EXPECT_TRUE(names.contains(FakeStore::IdOf("small").Bytes()));
  EXPECT_LE(store_.room().objects, 8u);
}

TEST_F(FetchesTest, WhatIsHereIsNotAskedForAgainWhenThePeerDies) {
  const std::string content = Content(5u << 20);
  const store::Object object = FakeStore::ObjectOf(content);
  Want(object, 1);
  auto asked = Asked();
  ASSERT_THAT(asked, SizeIs(5));
  Give(1, asked[0], content);
  Give(1, asked[2], content);
  fetches_.Gone(NodeId(1), Status(Code::kDamaged, "the stream does not verify"));
  EXPECT_EQ(EndOf(0).code, Code::kUnavailable);
  EXPECT_EQ(EndOf(0).bytes, 2 << 20);
  EXPECT_THAT(EndOf(0).why, HasSubstr("does not verify"));
  Give(1, asked[1], content);  // late: of no meaning
  Want(object, 2);
  asked = Asked();
  int64_t missing = 0;
  for (const auto& wanted : asked) {
    EXPECT_NE(wanted.offset(), 0);
    missing += wanted.length();
    Give(2, wanted, content);
  }
  EXPECT_EQ(missing, 3 << 20);
  EXPECT_EQ(EndOf(1).code, Code::kOk);
  EXPECT_EQ(EndOf(1).bytes, 3 << 20);
}

TEST_F(FetchesTest, AnotherSourceMayBeNamedWhileItComes) {
  const std::string content = Content(3u << 20);
  const store::Object object = FakeStore::ObjectOf(content);
  Want(object, 1);
  auto first = Asked();
  Give(1, first[0], content);
  Want(object, 2);
  loop_.RunPosted();
  std::vector<uint64_t> told_off;
  std::vector<pb::PieceWanted> asked;
  for (const auto& s : std::exchange(peers_.sent, {})) {
    const auto head = test::FakePeers::HeadOf(s.bytes);
    if (s.to == NodeId(1)) told_off.assign(head.unwanted().begin(), head.unwanted().end());
    if (s.to == NodeId(2)) asked.assign(head.wanted().begin(), head.wanted().end());
  }
  EXPECT_THAT(told_off, testing::UnorderedElementsAre(first[1].request(), first[2].request()));
  EXPECT_THAT(asked, SizeIs(2));
  for (const auto& wanted : asked) Give(2, wanted, content);
  EXPECT_EQ(EndOf(0).code, Code::kOk);
  EXPECT_EQ(EndOf(1).code, Code::kOk);
  EXPECT_EQ(EndOf(0).bytes + EndOf(1).bytes, 3 << 20) << "counted once";
}

TEST_F(FetchesTest, ASourceMayBeNamedAgainBeforeItIsAsked) {
  for (uint32_t from : {1, 2, 1, 2, 1}) Want(FakeStore::ObjectOf("back and forth"), from);
  loop_.RunPosted();
  int asked = 0;
  for (const auto& s : std::exchange(peers_.sent, {})) {
    asked += test::FakePeers::HeadOf(s.bytes).wanted_size();
    EXPECT_EQ(s.to, NodeId(1));
  }
  EXPECT_EQ(asked, 1);
}

TEST_F(FetchesTest, ManyThatAreNotAskedForYetEndTogether) {
  for (int i = 0; i < 30'000; ++i) Want(FakeStore::ObjectOf("file " + std::to_string(i)), 1);
  EXPECT_THAT(Asked(), SizeIs(128));
  fetches_.Gone(NodeId(1), Status(Code::kUnavailable, "gone"));
  for (size_t i = 0; i < 30'000; ++i) ASSERT_EQ(EndOf(i).code, Code::kUnavailable);
  EXPECT_TRUE(fetches_.idle());
  Want(FakeStore::ObjectOf("file 1"), 1);
  EXPECT_THAT(Asked(), SizeIs(1));
}

/// It goes another way than pieces, where these are not encrypted.
TEST_F(FetchesTest, ThatItComesMayBeSaidBeforePiecesThatWereSentEarlier) {
  const std::string content = Content(500'000);
  Want(FakeStore::ObjectOf(content), 1);
  FakeStore there;
  const store::Object directory = there.PutDirectory({});
  Want(directory, 1);
  auto asked = Asked();
  ASSERT_THAT(asked, SizeIs(2));
  for (const auto& wanted : asked) {
    pb::PieceWanted first = wanted;
    if (wanted.length() > 0) first.set_length(100'000);
    if (wanted.length() > 0) Give(1, first, content);
    SayComing(1, wanted);
    EXPECT_THAT(peers_.hung_up, IsEmpty());
    if (wanted.length() > 0) {
      first.set_offset(100'000);
      first.set_length(400'000);
      Give(1, first, content);
    } else {
      EXPECT_EQ(EndOf(1).code, Code::kInternal) << "not an empty one";
      Give(1, wanted, "");
    }
  }
  EXPECT_EQ(EndOf(0).code, Code::kOk);
  EXPECT_EQ(EndOf(1).code, Code::kOk);
}

TEST_F(FetchesTest, WhatManyWantComesOnce) {
  for (int i = 0; i < 3; ++i) Want(FakeStore::ObjectOf("shared"), 1);
  auto asked = Asked();
  ASSERT_THAT(asked, SizeIs(1));
  Give(1, asked[0], "shared");
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(EndOf(i).code, Code::kOk);
  Want(FakeStore::ObjectOf("shared"), 2);
  EXPECT_THAT(Asked(), IsEmpty());
  EXPECT_EQ(EndOf(3).code, Code::kOk);
  EXPECT_EQ(EndOf(3).bytes, 0);
}

TEST_F(FetchesTest, AnotherContentIsDamagedAndNothingOfItIsKept) {
  for (const size_t size : {size_t{100}, size_t{2} << 20}) {
    const std::string content = Content(size), other = Content(size, 2);
    const store::Object object = FakeStore::ObjectOf(content);
    Want(object, 7);
    for (const auto& wanted : Asked()) Give(7, wanted, other);
    EXPECT_EQ(EndOf(ends_.size() - 1).code, Code::kDamaged);
    EXPECT_THAT(EndOf(ends_.size() - 1).why, HasSubstr("node 7"));
    EXPECT_EQ(store_.room().objects, 0u);
  }
  Want(FakeStore::ObjectOf("long"), 7);
  Give(7, Asked().at(0), "longer");
  EXPECT_EQ(EndOf(2).code, Code::kDamaged) << "another length";
}

TEST_F(FetchesTest, ErrorsAreToldAsTheyAre) {
  Want(FakeStore::ObjectOf("a"), 1);
  Refuse(1, Asked().at(0), Code::kNotFound);
  EXPECT_EQ(EndOf(0).code, Code::kNotFound);
  EXPECT_EQ(EndOf(0).why, "node 1: sorry");
  store_.room_left = 1000;
  Want(FakeStore::ObjectOf(Content(200'000)), 1);
  EXPECT_THAT(Asked(), IsEmpty()) << "there is no room for it";
  EXPECT_EQ(EndOf(1).code, Code::kExhausted);
  Want(FakeStore::ObjectOf(Content(20'000)), 1);
  Give(1, Asked().at(0), Content(20'000));
  EXPECT_EQ(EndOf(2).code, Code::kExhausted);
  EXPECT_TRUE(fetches_.idle());
}

TEST_F(FetchesTest, AWriteThatFailsIsNeitherToldAsStoredNorAsTheSendersFault) {
  const std::string content = Content(100);
  const store::Object object = FakeStore::ObjectOf(content);
  for (const Code said : {Code::kUnavailable, Code::kPermission, Code::kExhausted, Code::kNotFound}) {
    for (Status* const fails : {&store_.begin_fails, &store_.write_fails, &store_.finish_fails}) {
      *fails = Status(said, "the disk fails");
      Want(object, 1);
      for (const auto& wanted : Asked()) Give(1, wanted, content);
      *fails = {};
      // Dropped while it came: it may come again. And a disk that fails is not one that is full.
      const Code told = said == Code::kNotFound    ? Code::kUnavailable
                        : said == Code::kExhausted ? Code::kExhausted
                                                   : Code::kPermission;
      EXPECT_EQ(EndOf(ends_.size() - 1).code, told) << EndOf(ends_.size() - 1).why;
      EXPECT_FALSE(store_.Has(object.id));
      EXPECT_TRUE(fetches_.idle());
    }
  }
  Want(object, 1);
  for (const auto& wanted : Asked()) Give(1, wanted, content);
  EXPECT_EQ(EndOf(ends_.size() - 1).code, Code::kOk);
  EXPECT_EQ(store_.Bytes(object.id), content);
}

TEST_F(FetchesTest, OfAPeerSomethingHasToCome) {
  const std::string content = Content(3u << 20);
  Want(FakeStore::ObjectOf(content), 1);
  Want(FakeStore::ObjectOf(Content(100)), 2);
  auto asked = Asked();
  loop_.Advance(seconds(14));
  for (const auto& wanted : asked) {
    if (wanted.length() > 100) SayComing(1, wanted);
  }
  loop_.Advance(seconds(3));
  EXPECT_EQ(EndOf(0).code, Code::kInternal) << "it comes";
  EXPECT_EQ(EndOf(1).code, Code::kUnavailable);
  EXPECT_THAT(EndOf(1).why, HasSubstr("nothing came from node 2"));
  EXPECT_THAT(peers_.hung_up, ElementsAre(EndOf(1).why)) << "what its channel waits for may never come";
  for (int i = 0; i < 20; ++i) {
    loop_.Advance(seconds(3));
    if (!ends_[0]) SayComing(1, asked[0]);
  }
  EXPECT_EQ(EndOf(0).code, Code::kUnavailable);
  EXPECT_THAT(EndOf(0).why, HasSubstr("nothing of "));
  EXPECT_TRUE(fetches_.idle());
}

TEST_F(FetchesTest, WhatIsNotWantedAnyMoreIsDropped) {
  const std::string content = Content(3u << 20);
  const store::Object object = FakeStore::ObjectOf(content);
  const uint64_t one = Want(object, 1), other = Want(object, 1);
  auto asked = Asked();
  Give(1, asked[0], content);
  fetches_.Unwant(one);
  EXPECT_THAT(Asked(), IsEmpty());
  EXPECT_THAT(unwanted_, IsEmpty()) << "somebody wants it";
  fetches_.Unwant(other);
  Asked();
  EXPECT_THAT(unwanted_, SizeIs(2));
  EXPECT_EQ(store_.room().objects, 0u);
  Give(1, asked[1], content);
  EXPECT_TRUE(fetches_.idle());
  EXPECT_FALSE(ends_[0] || ends_[1]);
  fetches_.Unwant(12345);
}

TEST_F(FetchesTest, ADirectoryIsItsListingAndThenWhatIsMissing) {
  FakeStore there;
  std::vector<store::Object> files = {there.Put("one"), there.Put("two"), there.Put("three")};
  const store::Object directory = there.PutDirectory(files);
  const std::string listing = there.Bytes(directory.id);
  store_.Put("two");
  Want(directory, 1);
  auto asked = Asked();
  ASSERT_THAT(asked, SizeIs(1));
  EXPECT_EQ(asked[0].length(), 0) << "to its end";
  Give(1, asked[0], listing);
  asked = Asked();
  ASSERT_THAT(asked, SizeIs(2));
  EXPECT_FALSE(ends_[0]);
  for (const auto& wanted : asked) Give(1, wanted, there.Bytes(*store::ObjectId::FromBytes(wanted.object())));
  EXPECT_EQ(EndOf(0).code, Code::kOk) << EndOf(0).why;
  EXPECT_EQ(EndOf(0).bytes, static_cast<int64_t>(listing.size()) + 3 + 5);
  EXPECT_TRUE(store_.Has(directory.id));
  // Again, with its listing here and a file gone.
  store_.Drop(FakeStore::IdOf("one"));
  Want(directory, 2);
  asked = Asked();
  ASSERT_THAT(asked, SizeIs(1));
  EXPECT_EQ(asked[0].object(), FakeStore::IdOf("one").Bytes());
  Refuse(2, asked[0], Code::kNotFound);
  EXPECT_EQ(EndOf(1).code, Code::kNotFound);
  EXPECT_TRUE(fetches_.idle());
}

TEST_F(FetchesTest, AListingThatIsTooLongIsTheSendersWord) {
  FakeStore there;
  const store::Object directory = there.PutDirectory({there.Put("one")});
  Want(directory, 1);
  const auto asked = Asked();
  pb::PeerTransfer message;
  pb::Piece* piece = message.add_piece();
  piece->set_request(asked.at(0).request());
  piece->set_length(3);
  piece->set_object_bytes((int64_t{256} << 20) + 1);
  fetches_.Take(NodeId(1), message, "abc", true);
  EXPECT_EQ(EndOf(0).code, Code::kDamaged) << EndOf(0).why;
  EXPECT_TRUE(fetches_.idle());
}

TEST_F(FetchesTest, ADirectoryThatIsNotWantedAnyMoreAsksForNothing) {
  FakeStore there;
  const store::Object directory = there.PutDirectory({there.Put("one"), there.Put("two")});
  const uint64_t ticket = Want(directory, 1);
  Give(1, Asked().at(0), there.Bytes(directory.id));
  EXPECT_THAT(Asked(), SizeIs(2));
  fetches_.Unwant(ticket);
  Asked();
  EXPECT_THAT(unwanted_, SizeIs(2));
  EXPECT_TRUE(fetches_.idle());
}

TEST_F(FetchesTest, EmptyFilesAndEmptyDirectories) {
  Want(FakeStore::ObjectOf(""), 1);
  EXPECT_THAT(Asked(), IsEmpty());
  EXPECT_EQ(EndOf(0).code, Code::kOk);
  FakeStore there;
  const store::Object directory = there.PutDirectory({});
  Want(directory, 1);
  Give(1, Asked().at(0), "");
  EXPECT_EQ(EndOf(1).code, Code::kOk);
  EXPECT_TRUE(store_.Has(directory.id));
}

TEST_F(FetchesTest, OnlyContentsAreTakenInClear) {
  Want(FakeStore::ObjectOf("content"), 1);
  auto asked = Asked();
  SayComing(1, asked[0]);
  Refuse(1, asked[0], Code::kNotFound, false);
  EXPECT_FALSE(EndOf(0).code == Code::kNotFound);
  Give(2, asked[0], "content", false);
  EXPECT_EQ(EndOf(0).code, Code::kInternal) << "of another node";
  Give(1, asked[0], "content", false);
  EXPECT_EQ(EndOf(0).code, Code::kOk);
}

TEST_F(FetchesTest, APieceThatWasNotAskedForEndsTheChannel) {
  const std::string content = Content(3u << 20);
  Want(FakeStore::ObjectOf(content), 1);
  pb::PieceWanted wrong = Asked().at(1);
  wrong.set_offset(17);
  Give(1, wrong, content);
  EXPECT_THAT(peers_.hung_up, ElementsAre("it sent a piece that was not asked for"));
  wrong.set_offset(1 << 20);
  wrong.set_length((1 << 20) + 1);
  Give(1, wrong, content);
  EXPECT_THAT(peers_.hung_up, SizeIs(2));
}

}  // namespace
}  // namespace harrow::agent
