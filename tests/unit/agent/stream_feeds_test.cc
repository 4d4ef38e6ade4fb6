// What a reader's streams ask of other nodes, and what they make of the answers.
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <unistd.h>

#include "agent/stream_feeds.h"
#include "support/fake_event_loop.h"
#include "support/own_directory.h"
#include "unit/agent/streams_fixture.h"

namespace harrow::agent {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;

constexpr int64_t kMost = 1 << 20, kBlock = 64 << 10;  // what may come at once, of a stream and of one that is split

/// Keeps what is asked for; requests are numbered from 1.
class HeldFetch : public StreamFetch {
 public:
  uint64_t Want(const Wanted& wanted) override {
    wants.push_back(wanted);
    return wants.size();
  }
  void GiveRoom(uint64_t request, int64_t room) override { rooms.emplace_back(request, room); }
  void Unwant(uint64_t request) override { unwanted.push_back(request); }
  std::vector<Wanted> wants;
  std::vector<std::pair<uint64_t, int64_t>> rooms;
  std::vector<uint64_t> unwanted;
};

/// One node that reads from others.
class FedFromAfarTest : public testing::Test {
 protected:
  static constexpr AttemptId kReader{TaskId(1), 1};
  FedFromAfarTest() {
    signal(SIGPIPE, SIG_IGN);
    spool_ = *stream::Spool::Open(own_.path());
    feeds_.emplace(&loop_, spool_.get(), &fetch_,
                   StreamFeeds::Hooks{.rewind = [this](AttemptId, const std::string& why) { rewound_.push_back(why); }});
    feeds_->SetSelf(NodeId(0));
  }
  ~FedFromAfarTest() override {
    feeds_.reset();
    spool_.reset();
  }
  static AttemptId Writer(uint32_t task, uint32_t number = 1) { return {TaskId(100 + task), number}; }
  static StreamSource Of(AttemptId writer, std::optional<uint32_t> node = 1, bool split = false) {
    return {.stream = kStream, .writer = writer, .node = node ? NodeId(*node) : NodeId(), .split = split};
  }
  static StreamSource Gone(AttemptId writer) {
    StreamSource source = Of(writer, {});
    source.gone = true;
    return source;
  }
  void Begin(int pipe_bytes = 64 << 10) {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    (void)fcntl(ends[0], F_SETPIPE_SZ, pipe_bytes);
    out_ = os::Fd(ends[0]);
    feeds_->Begin(kReader, os::Fd(ends[1]));
    loop_.RunPosted();
  }
  void Read(std::vector<StreamSource> sources, int pipe_bytes = 64 << 10) {
    feeds_->Join(kReader, std::move(sources));
    Begin(pipe_bytes);
  }
  /// What the reader finds now, at most so much at once.
  std::string Take(size_t most = 1 << 20) {
    std::string buffer(most, '\0');
    const ssize_t n = read(out_.get(), buffer.data(), buffer.size());
    ended_ = n == 0;
    buffer.resize(n > 0 ? static_cast<size_t>(n) : 0);
    return buffer;
  }
  /// Until nothing more comes.
  std::string TakeAll() {
    std::string all;
    for (std::string some = Take(); !some.empty(); some = Take()) {
      all += some;
      loop_.FireWatched();
      loop_.RunPosted();
    }
    return all;
  }
  bool Ended() {
    loop_.RunPosted();
    (void)Take();
    return ended_;
  }

  test::FakeEventLoop loop_;
  HeldFetch fetch_;
  test::OwnDirectory own_;
  std::unique_ptr<stream::Spool> spool_;
  std::optional<StreamFeeds> feeds_;
  std::vector<std::string> rewound_;
  os::Fd out_{};
  bool ended_ = false;
};

TEST_F(FedFromAfarTest, AsMuchMayComeAsThereIsRoomForAndMoreWhenHalfOfItIsTaken) {
  Read({Of(Writer(1))});
  ASSERT_THAT(fetch_.wants, SizeIs(1));
  EXPECT_EQ(fetch_.wants[0].offset, 0);
  EXPECT_EQ(fetch_.wants[0].room, kMost);
  EXPECT_EQ(fetch_.wants[0].reader, kReader);
  constexpr int64_t kSome = 400'000;
  feeds_->Came(1, std::string(kSome, 'x'));
  EXPECT_EQ(TakeAll().size(), static_cast<size_t>(kSome));
  EXPECT_THAT(fetch_.rooms, IsEmpty());
  feeds_->Came(1, std::string(kSome, 'x'));
  EXPECT_EQ(TakeAll().size(), static_cast<size_t>(kSome));
  EXPECT_THAT(fetch_.rooms, ElementsAre(Pair(1, 2 * kSome + kMost)));
  fetch_.rooms.clear();
  // What waits for the reader takes room.
  feeds_->Came(1, std::string(kSome, 'x'));
  feeds_->Came(1, std::string(kSome, 'x'));
  EXPECT_THAT(fetch_.rooms, IsEmpty());
  TakeAll();
  EXPECT_THAT(fetch_.rooms, ElementsAre(Pair(1, 4 * kSome + kMost)));
  EXPECT_EQ(feeds_->buffered_bytes(), 0);
}

TEST_F(FedFromAfarTest, RoomIsMadeAsSoonAsHalfIsTakenThoughMoreWaits) {
  Read({Of(Writer(1))});
  for (int i = 0; i < 4; ++i) feeds_->Came(1, std::string(250'000, 'x'));
  EXPECT_EQ(TakeAll().size(), 1'000'000u);
  EXPECT_THAT(fetch_.rooms, ElementsAre(Pair(1, 750'000 + kMost)));
}

/// Of so many as little is kept as may come at once.
TEST_F(FedFromAfarTest, WhoIsInMidRecordGetsRoomForTheRestOfIt) {
  std::vector<StreamSource> sources;
  for (uint32_t i = 0; i < 1100; ++i) sources.push_back(Of(Writer(i)));
  Read(sources);
  ASSERT_THAT(fetch_.wants, SizeIs(1100));
  const int64_t room = fetch_.wants[1099].room;
  feeds_->Came(1100, std::string(static_cast<size_t>(room) - 1, 'x'));
  EXPECT_THAT(fetch_.rooms, IsEmpty());
  feeds_->Came(1100, "x");
  ASSERT_THAT(fetch_.rooms, SizeIs(1));
  EXPECT_EQ(fetch_.rooms[0].first, 1100u);
  EXPECT_GT(fetch_.rooms[0].second, room);
}

TEST_F(FedFromAfarTest, ManySourcesHaveLessRoomEach) {
  std::vector<StreamSource> sources;
  for (uint32_t i = 0; i < 255; ++i) sources.push_back(Of(Writer(i)));
  Read(sources);
  ASSERT_THAT(fetch_.wants, SizeIs(255));
  EXPECT_EQ(fetch_.wants[0].room, kMost);
  EXPECT_EQ(fetch_.wants[127].room, kMost / 2) << "of 64 MiB for all";
  EXPECT_EQ(fetch_.wants[254].room, (int64_t{64} << 20) / 255);
}

TEST_F(FedFromAfarTest, OfASplitStreamABlockIsAskedForWhenTheReaderHasTakenTheOneBefore) {
  Read({Of(Writer(1), 1, true)}, 4096);
  ASSERT_THAT(fetch_.wants, SizeIs(1));
  EXPECT_EQ(fetch_.wants[0].room, kBlock);
  loop_.FireWatched();
  EXPECT_THAT(fetch_.rooms, IsEmpty()) << "it was asked for";
  feeds_->Came(1, std::string(2999, 'x') + "\n");
  for (int i = 0; i < 3; ++i) {
    loop_.FireWatched();
    loop_.RunPosted();
  }
  EXPECT_THAT(fetch_.rooms, IsEmpty()) << "it is not taken";
  EXPECT_EQ(Take().size(), 3000u);
  for (int i = 0; i < 3; ++i) {
    loop_.FireWatched();
    loop_.RunPosted();
  }
  EXPECT_THAT(fetch_.rooms, ElementsAre(Pair(1, 3000 + kBlock))) << "once";
  feeds_->Came(1, "more\n");
  EXPECT_EQ(TakeAll(), "more\n");
  EXPECT_THAT(fetch_.rooms, ElementsAre(Pair(1, 3000 + kBlock), Pair(1, 3005 + kBlock)));
}

TEST_F(FedFromAfarTest, WhatWasLostIsAskedForAgainFromWhatIsHere) {
  Read({Of(Writer(1))});
  feeds_->Came(1, "some");
  EXPECT_EQ(TakeAll(), "some");
  feeds_->Lost(1);
  feeds_->Came(1, "of an old request");
  EXPECT_EQ(TakeAll(), "");
  loop_.Advance(seconds(5));
  ASSERT_THAT(fetch_.wants, SizeIs(2)) << "once: no answer has come";
  EXPECT_EQ(fetch_.wants[1].offset, 4);
  EXPECT_EQ(fetch_.wants[1].room, 4 + kMost);
  feeds_->Came(2, " more");
  feeds_->Over(2, true);
  EXPECT_EQ(TakeAll(), " more");
  EXPECT_TRUE(Ended());
  EXPECT_THAT(fetch_.unwanted, IsEmpty());
}

TEST_F(FedFromAfarTest, WhoDoesNotAnswerIsNotWaitedForForEver) {
  Read({Of(Writer(1))});
  feeds_->Lost(1);
  loop_.Advance(seconds(50));
  feeds_->Came(2, "");
  feeds_->Lost(2);
  loop_.Advance(seconds(50));
  EXPECT_THAT(rewound_, IsEmpty()) << "it was there";
  loop_.Advance(seconds(12));
  ASSERT_THAT(rewound_, SizeIs(1));
  EXPECT_THAT(rewound_[0], HasSubstr("cannot be had from node 1"));
  const size_t asked = fetch_.wants.size();
  loop_.Advance(seconds(5));
  EXPECT_THAT(fetch_.wants, SizeIs(asked)) << "nor asked any more";
  EXPECT_EQ(loop_.timer_count(), 0u);
}

TEST_F(FedFromAfarTest, WhoTakesItsTimeMissesNothingOfWhatHasAllCome) {
  Read({Of(Writer(1))}, 4096);
  feeds_->Came(1, std::string(100'000, 'x'));
  feeds_->Lost(1);
  loop_.Advance(seconds(2));
  feeds_->Over(2, true);
  loop_.Advance(seconds(100));
  EXPECT_THAT(rewound_, IsEmpty());
  EXPECT_EQ(TakeAll().size(), 100'000u);
  EXPECT_TRUE(Ended());
}

TEST_F(FedFromAfarTest, NothingIsKeptOrAskedForOfOneThatLeaves) {
  Read({Of(Writer(1))}, 4096);
  for (int n = 0; n < 2; ++n) feeds_->Came(1, std::string(100'000, 'x'));
  EXPECT_GT(feeds_->buffered_bytes(), 0);
  feeds_->Leave(kReader);
  EXPECT_EQ(feeds_->buffered_bytes(), 0);
  EXPECT_THAT(fetch_.unwanted, ElementsAre(1u));
  feeds_->Came(1, "late");
  TakeAll();
  EXPECT_TRUE(Ended());
  Begin();
  EXPECT_THAT(fetch_.wants, SizeIs(1)) << "it is not known any more";
  EXPECT_FALSE(feeds_->Settle(kReader).to_end);
}

TEST_F(FedFromAfarTest, WhoJoinsAnewIsAsIfItHadNotBeenThere) {
  Read({Of(Writer(1))});
  feeds_->Came(1, "text");
  feeds_->Join(kReader, {Of(Writer(2))});
  EXPECT_THAT(fetch_.unwanted, ElementsAre(1u));
  Begin();
  ASSERT_THAT(fetch_.wants, SizeIs(2));
  EXPECT_EQ(fetch_.wants[1].source.writer, Writer(2));
  Begin();  // its process is another one
  EXPECT_THAT(fetch_.unwanted, ElementsAre(1u, 2u));
  ASSERT_THAT(fetch_.wants, SizeIs(3));
  EXPECT_EQ(fetch_.wants[2].source.writer, Writer(2));
}

TEST_F(FedFromAfarTest, WhatIsVoidIsToldOnceAndFedNoMore) {
  Read({Of(Writer(1))}, 4096);
  for (int n = 0; n < 2; ++n) feeds_->Came(1, std::string(100'000, 'x'));
  EXPECT_EQ(feeds_->buffered_bytes(), 100'000);
  for (int i = 0; i < 2; ++i) feeds_->Change(kReader, Gone(Writer(1)));
  EXPECT_THAT(rewound_, SizeIs(1));
  EXPECT_THAT(fetch_.unwanted, ElementsAre(1u));
  EXPECT_EQ(feeds_->buffered_bytes(), 0);
  feeds_->Change(kReader, Of(Writer(1, 2)));
  const auto verdict = feeds_->Settle(kReader);
  EXPECT_TRUE(verdict.rewound);
  EXPECT_THAT(verdict.why, HasSubstr("was lost"));
  EXPECT_EQ(feeds_->buffered_bytes(), 0);
  EXPECT_THAT(fetch_.unwanted, ElementsAre(1u)) << "once";
  EXPECT_THAT(fetch_.wants, SizeIs(1));
  Begin();
  EXPECT_THAT(fetch_.wants, SizeIs(1)) << "another attempt will";
}

TEST_F(FedFromAfarTest, WhoseEndIsSettledIsToldNothingMore) {
  Read({Of(Writer(1))});
  feeds_->Came(1, "x");
  const auto verdict = feeds_->Settle(kReader);
  EXPECT_THAT(verdict.read, SizeIs(1)) << "of a single byte, too";
  EXPECT_FALSE(verdict.to_end);
  EXPECT_THAT(fetch_.unwanted, ElementsAre(1u));
  EXPECT_EQ(TakeAll(), "x");
  EXPECT_TRUE(Ended());
  feeds_->Change(kReader, Gone(Writer(1)));
  feeds_->Change(kReader, Of(Writer(1, 2)));
  EXPECT_THAT(rewound_, IsEmpty());
  EXPECT_THAT(fetch_.wants, SizeIs(1));
}

TEST_F(FedFromAfarTest, AByteOfAFailedAttemptIsSeen) {
  Read({Of(Writer(1))});
  feeds_->Came(1, "x");
  feeds_->Change(kReader, Of(Writer(1, 2)));
  EXPECT_THAT(rewound_, ElementsAre(HasSubstr("task 101 did not succeed")));
}

TEST_F(FedFromAfarTest, WhoIsConnectedAfterAByteMayComeInMidRecord) {
  Read({Of(Writer(1))});
  feeds_->Came(1, "x");
  feeds_->Change(kReader, Of(Writer(2)));
  EXPECT_THAT(rewound_, ElementsAre(HasSubstr("task 102 was connected")));
}

TEST_F(FedFromAfarTest, WhatWasHeldBackOfAFailedAttemptIsNotGiven) {
  Read({Of(Writer(1)), Of(Writer(2))});
  feeds_->Came(1, "half");
  EXPECT_EQ(TakeAll(), "");
  feeds_->Change(kReader, Of(Writer(1, 2)));
  EXPECT_THAT(rewound_, IsEmpty());
  EXPECT_THAT(fetch_.unwanted, ElementsAre(1u));
  ASSERT_THAT(fetch_.wants, SizeIs(3));
  EXPECT_EQ(fetch_.wants[2].offset, 0);
  feeds_->Came(1, " of it\n");
  feeds_->Came(3, "whole\n");
  EXPECT_EQ(TakeAll(), "whole\n");
  EXPECT_EQ(feeds_->buffered_bytes(), 0);
}

TEST_F(FedFromAfarTest, OneThatSeemedWholeAndOfWhichNothingWasSeenIsReadOfTheNextAttempt) {
  Read({Of(Writer(1)), Of(Writer(2))});
  feeds_->Over(1, true);
  loop_.RunPosted();
  feeds_->Change(kReader, Of(Writer(1, 2)));
  EXPECT_THAT(rewound_, IsEmpty());
  feeds_->Over(2, true);
  EXPECT_FALSE(Ended());
  feeds_->Came(3, "text\n");
  EXPECT_EQ(TakeAll(), "text\n");
  feeds_->Over(3, true);
  EXPECT_TRUE(Ended());
  EXPECT_TRUE(feeds_->Settle(kReader).to_end);
}

TEST_F(FedFromAfarTest, WhoHasClosedItsInputIsFedNothingMore) {
  for (const bool found_by_writing : {true, false}) {
    fetch_ = {};
    Read({Of(Writer(1)), Of(Writer(2))}, 4096);
    feeds_->Came(1, found_by_writing ? "x\n" : std::string(100'000, 'x') + "\n");
    out_ = os::Fd();
    if (found_by_writing) feeds_->Came(1, "y\n");
    if (!found_by_writing) loop_.FireWatched();
    EXPECT_THAT(fetch_.unwanted, ElementsAre(1u, 2u)) << found_by_writing;
    EXPECT_EQ(feeds_->buffered_bytes(), 0);
    feeds_->Change(kReader, Of(Writer(3)));
    loop_.RunPosted();
    EXPECT_THAT(fetch_.wants, SizeIs(2));
    EXPECT_FALSE(feeds_->Settle(kReader).to_end);
    feeds_->Leave(kReader);
  }
  EXPECT_THAT(rewound_, IsEmpty());
}

TEST_F(FedFromAfarTest, OneThatIsGoneWatchesNothing) {
  Read({Of(Writer(1), 0)});  // it is not there: it is looked for again
  EXPECT_EQ(loop_.timer_count(), 1u);
  feeds_.reset();
  EXPECT_EQ(loop_.timer_count(), 0u);
  loop_.FireWatched();
}

// --- streams that are held open

TEST_F(FedFromAfarTest, ThatAStreamIsClosedDoesNotEndItsWriters) {
  Read({Of(Writer(1)), OpenStream()});
  feeds_->Change(kReader, OpenStream());
  feeds_->Change(kReader, OpenStream(true));
  feeds_->Came(1, "text\n");
  EXPECT_EQ(TakeAll(), "text\n");
  EXPECT_FALSE(Ended());
  feeds_->Over(1, true);
  EXPECT_TRUE(Ended());
}

TEST_F(FedFromAfarTest, WhatIsToldToBeOpenOnceMoreStaysOpen) {
  Read({OpenStream()});
  feeds_->Change(kReader, OpenStream());
  EXPECT_FALSE(Ended());
  feeds_->Change(kReader, OpenStream(true));
  EXPECT_TRUE(Ended());
  Begin();
  EXPECT_TRUE(Ended()) << "who begins anew finds it closed";
}

TEST_F(FedFromAfarTest, OneThatIsOpenedLaterHoldsTheEndBack) {
  Read({Of(Writer(1)), Of(Writer(2))});
  feeds_->Change(kReader, OpenStream());
  feeds_->Change(kReader, OpenStream());  // it is one
  for (const uint64_t request : {1, 2}) feeds_->Over(request, true);
  EXPECT_FALSE(Ended());
  feeds_->Change(kReader, OpenStream(true));
  EXPECT_TRUE(Ended());
  feeds_->Change(kReader, OpenStream(true));
  EXPECT_THAT(rewound_, IsEmpty());
}

// --- what is on this node, and is not told of

class FedFromHereTest : public FedFromAfarTest {
 protected:
  FedFromHereTest() { EXPECT_EQ(pipe2(ends_, O_CLOEXEC), 0); }
  ~FedFromHereTest() override {
    for (const int end : ends_) close(end);
  }
  void Written(AttemptId writer, std::string_view text) {
    if (spool_->Find(writer) == nullptr) {
      ASSERT_TRUE(logs_[writer].Open(spool_->Make(writer).get()).ok());
    }
    ASSERT_EQ(write(ends_[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
    ASSERT_EQ(*logs_[writer].TakeFrom(ends_[0]), static_cast<int64_t>(text.size()));
  }
  std::map<AttemptId, stream::LogWriter> logs_;
  int ends_[2] = {-1, -1};
};

TEST_F(FedFromHereTest, WhatIsHereIsGivenAsSoonAsItIsNamed) {
  Written(Writer(1), "one\n");
  Written(Writer(2), "two\n");
  Read({Of(Writer(1), {}), OpenStream()});
  feeds_->Change(kReader, Of(Writer(1), 0));
  loop_.RunPosted();
  EXPECT_EQ(TakeAll(), "one\n");
  feeds_->Change(kReader, Of(Writer(2), 0));
  loop_.RunPosted();
  EXPECT_EQ(TakeAll(), "two\n");
  feeds_->Change(kReader, Of(Writer(3), 0));
  loop_.RunPosted();
  Written(Writer(3), "three\n");
  loop_.Advance(seconds(1));
  EXPECT_EQ(TakeAll(), "three\n") << "it is looked for";
}

TEST_F(FedFromHereTest, WhoHasClosedItsInputIsGivenNothing) {
  Written(Writer(1), "x");
  Read({Of(Writer(1), 0)});
  EXPECT_EQ(Take(), "x");
  out_ = os::Fd();
  Written(Writer(1), "y");
  feeds_->Grown(Writer(1));
  EXPECT_THAT(rewound_, IsEmpty()) << "which is its own affair";
  const auto verdict = feeds_->Settle(kReader);
  EXPECT_FALSE(verdict.to_end || verdict.rewound);
  EXPECT_THAT(verdict.read, SizeIs(1));
}

TEST_F(FedFromHereTest, WhoseOnlyLogHasBecomeShorterBeginsAnew) {
  Written(Writer(1), "lost");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(own_.path())) {
    if (entry.is_regular_file()) std::filesystem::resize_file(entry.path(), 0);
  }
  Read({Of(Writer(1), 0)});
  EXPECT_THAT(rewound_, ElementsAre(HasSubstr("cannot be read again: the file has become shorter")));
  EXPECT_EQ(Take(), "");
}

}  // namespace
}  // namespace harrow::agent
