// What one agent says to others of streams, word by word.
#include "agent/stream_exchange.h"

#include <fcntl.h>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "agent/stream_feeds.h"
#include "support/fake_event_loop.h"
#include "support/fake_peers.h"
#include "support/own_directory.h"
#include "wire/attempt_id.h"
#include "wire/frame.h"

namespace harrow::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class StreamExchangeTest : public testing::Test {
 protected:
  struct Said {
    NodeId to;
    pb::PeerStreams message;
    std::string data;
  };
  StreamExchangeTest() {
    spool_ = *stream::Spool::Open(own_.path());
    exchange_.emplace(&loop_, spool_.get());
    feeds_.emplace(&loop_, spool_.get(), &*exchange_,
                   StreamFeeds::Hooks{.rewind = [this](AttemptId, const std::string& why) { rewound_.push_back(why); }});
    feeds_->SetSelf(NodeId(0));
    exchange_->SetFeeds(&*feeds_);
    EXPECT_EQ(pipe2(pipe_, O_CLOEXEC), 0);
  }
  ~StreamExchangeTest() override {
    feeds_.reset();
    exchange_.reset();
    spool_.reset();
    for (const int end : pipe_) close(end);
  }
  static AttemptId Writer(uint32_t task) { return {TaskId(100 + task), 1}; }
  std::vector<Said> Sent() {
    std::vector<Said> said;
    for (const auto& sent : std::exchange(peers_.sent, {})) {
      Said& one = said.emplace_back();
      one.to = sent.to;
      std::string_view data;
      const auto head = wire::TakeFrame(sent.bytes, &data);
      EXPECT_TRUE(head && one.message.ParseFromArray(head->data(), static_cast<int>(head->size())));
      one.data = data;
    }
    return said;
  }
  void Hear(uint32_t from, const pb::PeerStreams& message, std::string_view data = {}, bool sealed = true) {
    std::string bytes;
    wire::AppendFrame(message.SerializeAsString(), &bytes);
    exchange_->Take(NodeId(from), bytes + std::string(data), sealed);
  }
  /// Node 1 asks for what a writer of this node writes.
  void Asks(uint64_t request, AttemptId writer, int64_t room, int64_t offset = 0, bool split = false) {
    pb::PeerStreams message;
    pb::WrittenWanted* const wanted = message.add_wanted();
    wanted->set_request(request);
    wire::SetId(writer, wanted->mutable_writer());
    wire::SetId({TaskId(7), 1}, wanted->mutable_reader());
    wanted->set_stream(3);
    wanted->set_split(split);
    wanted->set_offset(offset);
    wanted->set_room(room);
    Hear(1, message);
  }
  void Gives(uint64_t request, int64_t room) {
    pb::PeerStreams message;
    message.add_room()->set_request(request);
    message.mutable_room(0)->set_room(room);
    Hear(1, message);
  }
  void Write(AttemptId writer, std::string_view text) {
    if (spool_->Find(writer) == nullptr) {
      ASSERT_TRUE(writers_[writer].Open(spool_->Make(writer).get()).ok());
    }
    while (!text.empty()) {
      const std::string_view piece = text.substr(0, 32 << 10);
      ASSERT_EQ(write(pipe_[1], piece.data(), piece.size()), static_cast<ssize_t>(piece.size()));
      for (size_t taken = 0; taken < piece.size();) taken += static_cast<size_t>(*writers_[writer].TakeFrom(pipe_[0]));
      text.remove_prefix(piece.size());
    }
    exchange_->Grown(writer);
  }
  void Ends(AttemptId writer) {
    spool_->Find(writer)->SetState(stream::Log::State::kWhole);
    exchange_->Grown(writer);
  }
  /// Sources of one reader here, which run on node 1.
  void Read(const std::vector<uint32_t>& writers) {
    std::vector<StreamSource> sources;
    for (const uint32_t writer : writers)
      sources.push_back({.stream = StreamId(3), .writer = Writer(writer), .node = NodeId(1)});
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    out_ = os::Fd(ends[0]);
    feeds_->Join({TaskId(1), 1}, std::move(sources));
    feeds_->Begin({TaskId(1), 1}, os::Fd(ends[1]));
  }
  std::string Got() {
    loop_.RunPosted();
    char text[100];
    const ssize_t n = read(out_.get(), text, sizeof text);
    return {text, static_cast<size_t>(std::max<ssize_t>(n, 0))};
  }

  test::FakeEventLoop loop_;
  test::FakePeers peers_{&loop_, NodeId(0)};
  test::OwnDirectory own_;
  std::unique_ptr<stream::Spool> spool_;
  std::optional<StreamExchange> exchange_;
  std::optional<StreamFeeds> feeds_;
  std::vector<std::string> rewound_;
  std::map<AttemptId, stream::LogWriter> writers_;
  os::Fd out_{};
  int pipe_[2] = {-1, -1};
};

// --- asking

TEST_F(StreamExchangeTest, AQuestionNamesAllThatIsNeeded) {
  exchange_->Connect(&peers_);
  const auto want = [&](uint32_t node) {
    return exchange_->Want({.source = {.stream = StreamId(3),
                                       .writer = Writer(1),
                                       .node = NodeId(node),
                                       .split = true,
                                       .records = OfBytes(4)},
                            .reader = {TaskId(7), 2},
                            .offset = 5,
                            .room = 9});
  };
  const uint64_t request = want(4), other = want(5);
  EXPECT_NE(request, other);
  const auto said = Sent();
  ASSERT_THAT(said, SizeIs(2));
  EXPECT_EQ(said[0].to, NodeId(4));
  EXPECT_EQ(said[1].to, NodeId(5));
  const pb::WrittenWanted& wanted = said[0].message.wanted(0);
  EXPECT_EQ(wanted.request(), request);
  EXPECT_EQ(wire::IdOf(wanted.writer()), Writer(1));
  EXPECT_EQ(wire::IdOf(wanted.reader()), (AttemptId{TaskId(7), 2}));
  EXPECT_EQ(wanted.stream(), 3u);
  EXPECT_TRUE(wanted.split());
  EXPECT_EQ(wanted.records(), OfBytes(4));
  EXPECT_EQ(wanted.offset(), 5);
  EXPECT_EQ(wanted.room(), 9);
  exchange_->GiveRoom(request, 20);
  exchange_->Unwant(request);
  exchange_->GiveRoom(request, 30);
  exchange_->Unwant(request);
  const auto then = Sent();
  ASSERT_THAT(then, SizeIs(2)) << "what is not wanted any more is not spoken of";
  EXPECT_EQ(then[0].to, NodeId(4));
  EXPECT_EQ(then[0].message.room(0).request(), request);
  EXPECT_EQ(then[0].message.room(0).room(), 20);
  EXPECT_THAT(then[1].message.unwanted(), ElementsAre(request));
}

TEST_F(StreamExchangeTest, WithoutAWayToOthersWhatTheyHaveCannotBeHad) {
  Read({1});
  exchange_->GiveRoom(1, 5);
  loop_.RunPosted();
  EXPECT_EQ(loop_.timer_count(), 1u) << "it is asked for again later";
  loop_.Advance(seconds(62));
  EXPECT_THAT(rewound_, ElementsAre(HasSubstr("cannot be had from node 1")));
  Read({1});
  exchange_->Unwant(2);  // nobody's
  feeds_->Leave({TaskId(1), 1});
  loop_.RunPosted();
  Read({1});
  feeds_.reset();
  exchange_.reset();
  loop_.RunPosted();
}

TEST_F(StreamExchangeTest, EachPieceGoesToWhoAskedForIt) {
  exchange_->Connect(&peers_);
  Read({1, 2});
  ASSERT_THAT(Sent(), SizeIs(2));
  pb::PeerStreams message;
  for (const auto& [request, length] : {std::pair(2, 4), {9, 6}, {1, 4}}) {
    message.add_written()->set_request(static_cast<uint64_t>(request));
    message.mutable_written(message.written_size() - 1)->set_length(static_cast<uint32_t>(length));
  }
  Hear(2, message, "two\nothersone\n");
  EXPECT_EQ(Got(), "") << "another node was asked";
  Hear(1, message, "two\nothersone\n");
  EXPECT_EQ(Got(), "two\none\n");
}

TEST_F(StreamExchangeTest, WhatANodeHadIsAskedForAnewWhenItIsGone) {
  exchange_->Connect(&peers_);
  Read({1});
  EXPECT_EQ(Sent().at(0).message.wanted_size(), 1);
  exchange_->Gone(NodeId(1));
  auto said = Sent();
  ASSERT_THAT(said, SizeIs(1));
  EXPECT_EQ(said[0].message.unwanted_size(), 1) << "it may have come to the next channel";
  pb::PeerStreams late;
  late.add_written()->set_request(1);
  late.mutable_written(0)->set_length(4);
  Hear(1, late, "late");
  EXPECT_EQ(Got(), "");
  loop_.Advance(seconds(1));
  said = Sent();
  ASSERT_THAT(said, SizeIs(1));
  EXPECT_EQ(said[0].message.wanted_size(), 1);
}

// --- answering

TEST_F(StreamExchangeTest, NoMoreIsGivenThanThereIsRoomFor) {
  exchange_->Connect(&peers_);
  std::string text;
  for (int i = 0; i < 700'000; ++i) text += static_cast<char>('a' + i % 23);
  Write(Writer(1), text);
  std::string got;
  const auto given = [&] {
    size_t bytes = 0;
    for (const Said& said : Sent()) {
      EXPECT_EQ(said.message.written(0).length(), said.data.size());
      EXPECT_LE(said.data.size(), size_t{256} << 10);
      EXPECT_FALSE(said.data.empty()) << "that it is here was told with it";
      bytes += said.data.size();
      got += said.data;
    }
    return bytes;
  };
  Asks(5, Writer(1), 300'000);
  EXPECT_EQ(given(), 300'000u);
  Gives(5, 200'000);
  EXPECT_EQ(given(), 0u) << "an earlier word";
  Gives(77, 400'000);
  EXPECT_EQ(given(), 0u) << "nobody has asked for that";
  Gives(5, 300'010);
  EXPECT_EQ(given(), 10u);
  Gives(5, 700'000);
  EXPECT_EQ(given(), 399'990u);
  EXPECT_EQ(got, text);
  Ends(Writer(1));
  const auto said = Sent();
  ASSERT_THAT(said, SizeIs(1)) << "which needs no room";
  EXPECT_TRUE(said[0].message.written(0).over());
  EXPECT_TRUE(said[0].message.written(0).whole());
  EXPECT_FALSE(said[0].message.written(0).absent());
  EXPECT_EQ(said[0].message.written(0).request(), 5u);
  EXPECT_EQ(exchange_->serving(), 0u);
}

TEST_F(StreamExchangeTest, ThatNothingIsWrittenYetIsToldOnce) {
  exchange_->Connect(&peers_);
  Write(Writer(1), "");
  Asks(5, Writer(1), 1000);
  auto said = Sent();
  ASSERT_THAT(said, SizeIs(1));
  EXPECT_FALSE(said[0].message.written(0).over());
  EXPECT_EQ(said[0].data, "");
  exchange_->Grown(Writer(1));
  EXPECT_THAT(Sent(), IsEmpty());
  Write(Writer(1), "text");
  said = Sent();
  ASSERT_THAT(said, SizeIs(1));
  EXPECT_EQ(said[0].data, "text");
  spool_->Drop(Writer(1));
  exchange_->Grown(Writer(1));
  said = Sent();
  ASSERT_THAT(said, SizeIs(1));
  EXPECT_TRUE(said[0].message.written(0).over());
  EXPECT_FALSE(said[0].message.written(0).whole());
  EXPECT_TRUE(said[0].message.written(0).absent()) << "it has failed";
}

TEST_F(StreamExchangeTest, WhatIsNotHereIsHopedForAWhile) {
  exchange_->Connect(&peers_);
  loop_.Stand(seconds(1000));
  for (const uint64_t request : {5, 6}) Asks(request, Writer(static_cast<uint32_t>(request)), 1000);
  loop_.Advance(milliseconds(1900));
  EXPECT_THAT(Sent(), IsEmpty());
  ASSERT_TRUE(writers_[Writer(6)].Open(spool_->Make(Writer(6)).get()).ok());
  loop_.Advance(milliseconds(200));
  const auto said = Sent();
  ASSERT_THAT(said, SizeIs(2));
  EXPECT_TRUE(said[0].message.written(0).over() && said[0].message.written(0).absent());
  EXPECT_EQ(said[1].message.written(0).request(), 6u);
  EXPECT_FALSE(said[1].message.written(0).over());
  EXPECT_EQ(exchange_->serving(), 1u);
  EXPECT_EQ(loop_.timer_count(), 0u);
}

TEST_F(StreamExchangeTest, WhatCannotBeReadIsNotThere) {
  exchange_->Connect(&peers_);
  Write(Writer(1), "text");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(own_.path())) {
    if (entry.is_regular_file()) std::filesystem::resize_file(entry.path(), 0);
  }
  Asks(5, Writer(1), 1000);
  Asks(6, Writer(1), 1000, 5);  // beyond what was written
  const auto said = Sent();
  ASSERT_THAT(said, SizeIs(2));
  for (const Said& each : said) {
    EXPECT_TRUE(each.message.written(0).over());
    EXPECT_FALSE(each.message.written(0).whole());
  }
  EXPECT_EQ(exchange_->serving(), 0u);
}

TEST_F(StreamExchangeTest, AllThatANodeHasAskedForIsForgottenWithIt) {
  exchange_->Connect(&peers_);
  Write(Writer(1), "");
  for (const uint64_t request : {1, 2, 3}) Asks(request, Writer(1), 1000);
  EXPECT_EQ(exchange_->serving(), 3u);
  pb::PeerStreams message;
  message.add_unwanted(1);
  Hear(1, message);
  EXPECT_EQ(exchange_->serving(), 2u);
  Sent();
  Write(Writer(1), "text");
  EXPECT_THAT(Sent(), SizeIs(2));
  exchange_->Gone(NodeId(2));
  EXPECT_EQ(exchange_->serving(), 2u);
  exchange_->Gone(NodeId(1));
  EXPECT_EQ(exchange_->serving(), 0u);
}

TEST_F(StreamExchangeTest, OneThatIsGoneHearsNothingAndHopesForNothing) {
  test::FakePeers other(&loop_, NodeId(1));
  test::FakePeers::Link(&peers_, &other);
  exchange_->Connect(&peers_);
  Asks(5, Writer(1), 1000);
  EXPECT_EQ(loop_.timer_count(), 1u);
  feeds_.reset();
  exchange_.reset();
  EXPECT_EQ(loop_.timer_count(), 0u);
  other.Send(NodeId(0), Service::kStreams, "nonsense");
  loop_.RunPosted();
  EXPECT_THAT(peers_.hung_up, IsEmpty());
}

}  // namespace
}  // namespace harrow::agent
