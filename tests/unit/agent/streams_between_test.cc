// Streams on one node and between nodes, over channels that may break; pipes and files are real.
#include <algorithm>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <unistd.h>

#include "unit/agent/streams_fixture.h"

namespace harrow::agent {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

INSTANTIATE_TEST_SUITE_P(Nodes, StreamsHereAndThere, testing::Values(0u, 1u));

TEST_P(StreamsHereAndThere, OneSourceComesAsItIs) {
  Begin(there_, Writer(1));
  Read(0, ReaderId(1), {Of(Writer(1), there_)});
  EXPECT_EQ(Got(ReaderId(1)), "");
  Write(there_, Writer(1), "no end");
  EXPECT_EQ(Got(ReaderId(1)), "no end") << "nobody waits for the end of a record";
  Write(there_, Writer(1), std::string("\0 of a line", 11));
  EXPECT_FALSE(Ended(ReaderId(1)));
  Succeed(there_, Writer(1));
  EXPECT_TRUE(Ended(ReaderId(1)));
  EXPECT_EQ(Got(ReaderId(1)), std::string("no end\0 of a line", 17));
  const auto verdict = Settle(ReaderId(1));
  EXPECT_FALSE(verdict.rewound);
  ASSERT_THAT(verdict.read, SizeIs(1));
  EXPECT_EQ(verdict.read[0].writer, Writer(1));
}

TEST_P(StreamsHereAndThere, WhoEndedBeforeIsReadAsWell) {
  Begin(there_, Writer(1));
  Write(there_, Writer(1), "all\n");
  Succeed(there_, Writer(1));
  Read(0, ReaderId(1), {Of(Writer(1), there_)});
  EXPECT_TRUE(Ended(ReaderId(1)));
  EXPECT_EQ(Got(ReaderId(1)), "all\n");
}

TEST_P(StreamsHereAndThere, AWriterThatWritesNothingIsWholeToo) {
  Begin(there_, Writer(1));
  Read(0, ReaderId(1), {Of(Writer(1), there_)});
  EXPECT_FALSE(Ended(ReaderId(1)));
  Succeed(there_, Writer(1));
  EXPECT_TRUE(Ended(ReaderId(1)));
  EXPECT_THAT(Settle(ReaderId(1)).read, SizeIs(1));
}

TEST_P(StreamsHereAndThere, SeveralSourcesAreMergedByRecord) {
  for (uint32_t w : {1, 3}) Begin(there_, Writer(w));
  Read(0, ReaderId(1), {Of(Writer(1), there_), Of(Writer(2), 0), Of(Writer(3), there_)});
  Begin(0, Writer(2));
  Write(there_, Writer(1), "one\ntw");
  EXPECT_EQ(Got(ReaderId(1)), "one\n");
  Write(0, Writer(2), "2\n");
  EXPECT_EQ(Got(ReaderId(1)), "one\n2\n");
  Write(there_, Writer(1), "o");
  Succeed(there_, Writer(1));
  EXPECT_EQ(Got(ReaderId(1)), "one\n2\ntwo");
  Succeed(0, Writer(2));
  EXPECT_FALSE(Ended(ReaderId(1)));
  Write(there_, Writer(3), "three");
  Succeed(there_, Writer(3));
  EXPECT_TRUE(Ended(ReaderId(1)));
  EXPECT_EQ(Got(ReaderId(1)), "one\n2\ntwo\nthree");
}

TEST_P(StreamsHereAndThere, WhoTakesNothingKeepsLittleWaiting) {
  Begin(there_, Writer(1));
  std::string text;
  for (int i = 0; i < 1'500'000; ++i) text += static_cast<char>('a' + i % 23);
  Read(0, ReaderId(1), {Of(Writer(1), there_)}, 4096);
  Write(there_, Writer(1), text);
  for (int i = 0; i < 10; ++i) {
    loop_.RunPosted();
    loop_.FireWatched();
  }
  EXPECT_LE(agents_[0]->feeds->buffered_bytes(), 1 << 20);
  Succeed(there_, Writer(1));
  EXPECT_TRUE(Ended(ReaderId(1)));
  EXPECT_EQ(Got(ReaderId(1)), text);
  EXPECT_EQ(agents_[0]->feeds->buffered_bytes(), 0);
}

TEST_P(StreamsHereAndThere, ARecordOfAnyLengthIsMerged) {
  for (uint32_t w : {1, 2}) Begin(there_, Writer(w));
  Read(0, ReaderId(1), {Of(Writer(1), there_), Of(Writer(2), there_)});
  const std::string half(700'000, 'x');
  Write(there_, Writer(1), half);
  Write(there_, Writer(2), "short\n");
  Run();
  Write(there_, Writer(1), half + "\nafter\n");
  Succeed(there_, Writer(1));
  Succeed(there_, Writer(2));
  EXPECT_TRUE(Ended(ReaderId(1)));
  const std::string& got = Got(ReaderId(1));
  EXPECT_EQ(got.size(), 1'400'000u + 1 + 6 + 6);
  EXPECT_NE(got.find(half + half + "\n"), std::string::npos);
}

TEST_P(StreamsHereAndThere, WhoReadsNoMoreIsNotFedAnyMore) {
  Begin(there_, Writer(1));
  Write(there_, Writer(1), std::string(1'000'000, 'x'));
  Read(0, ReaderId(1), {Of(Writer(1), there_)}, 4096);
  loop_.RunPosted();
  readers_[ReaderId(1)].out = os::Fd();
  Run();
  EXPECT_EQ(agents_[there_]->exchange->serving(), 0u);
  Write(there_, Writer(1), "more");
  Run();
  EXPECT_EQ(RewoundAt(0), 0u);
  const auto verdict = Settle(ReaderId(1));
  EXPECT_FALSE(verdict.rewound);
  EXPECT_THAT(verdict.read, SizeIs(1)) << "it has seen some of it";
}

TEST_P(StreamsHereAndThere, WhatWasNotSeenIsReadOfTheNextAttempt) {
  Read(0, ReaderId(1), {Of(Writer(1), {})});
  EXPECT_EQ(Got(ReaderId(1)), "");
  Begin(there_, Writer(1));
  Change(ReaderId(1), Of(Writer(1), there_));
  Change(ReaderId(1), Of(Writer(1), there_));
  Run();
  Drop(there_, Writer(1));
  Run();
  Change(ReaderId(1), Of(Writer(1), {}));
  Change(ReaderId(1), Of(Writer(1, 2), there_));
  Begin(there_, Writer(1, 2));
  Write(there_, Writer(1, 2), "second\n");
  Succeed(there_, Writer(1, 2));
  loop_.Advance(seconds(3));
  EXPECT_TRUE(Ended(ReaderId(1)));
  EXPECT_EQ(Got(ReaderId(1)), "second\n");
  EXPECT_EQ(Settle(ReaderId(1)).read.at(0).writer, Writer(1, 2));
  EXPECT_EQ(RewoundAt(0), 0u);
}

TEST_P(StreamsHereAndThere, WhatWasSeenOfAFailedAttemptIsVoid) {
  Begin(there_, Writer(1));
  Write(there_, Writer(1), "some\n");
  Read(0, ReaderId(1), {Of(Writer(1), there_)});
  EXPECT_EQ(Got(ReaderId(1)), "some\n");
  Drop(there_, Writer(1));
  loop_.Advance(seconds(5));
  EXPECT_EQ(RewoundAt(0), 0u) << "the server has to say so";
  EXPECT_FALSE(Ended(ReaderId(1)));
  Change(ReaderId(1), Of(Writer(1, 2), {}));
  Change(ReaderId(1), Of(Writer(1, 2), there_));
  ASSERT_EQ(RewoundAt(0), 1u);
  EXPECT_FALSE(Ended(ReaderId(1))) << "it does not take what it has for all";
  const auto verdict = Settle(ReaderId(1));
  EXPECT_TRUE(verdict.rewound);
  EXPECT_THAT(verdict.why, HasSubstr("task 101 did not succeed"));
}

TEST_P(StreamsHereAndThere, WhoHasAllDoesNotMindThatItIsLost) {
  Begin(there_, Writer(1));
  Write(there_, Writer(1), "some\n");
  Read(0, ReaderId(1), {Of(Writer(1), there_)});
  Read(0, ReaderId(2), {Of(Writer(1), there_)});
  Run();
  Change(ReaderId(2), Gone(Writer(1)));
  EXPECT_EQ(RewoundAt(0), 1u);
  Succeed(there_, Writer(1));
  EXPECT_TRUE(Ended(ReaderId(1)));
  Change(ReaderId(1), Gone(Writer(1)));
  Change(ReaderId(1), Of(Writer(1, 2), there_));
  EXPECT_EQ(RewoundAt(0), 1u);
  EXPECT_FALSE(Settle(ReaderId(1)).rewound);
  EXPECT_TRUE(Settle(ReaderId(2)).rewound);
}

TEST_P(StreamsHereAndThere, WhatSeemedWholeAndFailedAfterAllIsVoid) {
  Begin(there_, Writer(1));
  Read(0, ReaderId(1), {Of(Writer(1), there_)});
  Succeed(there_, Writer(1));
  EXPECT_TRUE(Ended(ReaderId(1)));
  Change(ReaderId(1), Of(Writer(1), {}));
  EXPECT_EQ(RewoundAt(0), 1u) << "it has seen the end";
}

TEST_P(StreamsHereAndThere, WhatCannotBeHadIsNotWaitedForForEver) {
  Read(0, ReaderId(1), {Of(Writer(1), there_)});
  loop_.Advance(seconds(55));
  EXPECT_EQ(RewoundAt(0), 0u);
  loop_.Advance(seconds(10));
  ASSERT_EQ(RewoundAt(0), 1u);
  EXPECT_THAT(agents_[0]->rewound[0].second, HasSubstr("cannot be had from node"));
  Read(0, ReaderId(2), {Of(Writer(2), there_)});
  loop_.Advance(seconds(65));
  EXPECT_EQ(RewoundAt(0), 2u);
}

TEST_P(StreamsHereAndThere, AWriterThatIsQuietIsWaitedFor) {
  Read(0, ReaderId(1), {Of(Writer(1), there_)});
  loop_.Advance(seconds(20));
  Begin(there_, Writer(1));
  loop_.Advance(seconds(600));
  EXPECT_EQ(RewoundAt(0), 0u);
  Write(there_, Writer(1), "late");
  EXPECT_EQ(Got(ReaderId(1)), "late");
}

TEST_P(StreamsHereAndThere, WhoBeginsAnewIsGivenAll) {
  Begin(there_, Writer(1));
  Write(there_, Writer(1), "text\n");
  Read(0, ReaderId(1), {Of(Writer(1), there_)});
  EXPECT_EQ(Got(ReaderId(1)), "text\n");
  Read(0, ReaderId(1), {});
  EXPECT_EQ(Got(ReaderId(1)), "text\n");
}

TEST_P(StreamsHereAndThere, EachRecordOfASplitStreamGoesToOne) {
  Begin(there_, Writer(1));
  for (uint32_t r : {1, 2, 3}) Read(0, ReaderId(r), {Of(Writer(1), there_, true)}, 4096);
  Run();
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "line " + std::to_string(i) + "\n";
  Write(there_, Writer(1), text);
  Succeed(there_, Writer(1));
  size_t all = 0;
  for (uint32_t r : {1, 2, 3}) {
    EXPECT_TRUE(Ended(ReaderId(r)));
    EXPECT_GT(Got(ReaderId(r)).size(), text.size() / 10) << r;
    all += Got(ReaderId(r)).size();
  }
  EXPECT_EQ(all, text.size());
  const std::string before = Got(ReaderId(2));
  Read(0, ReaderId(2, 2), {Of(Writer(1), there_, true)}, 4096);
  EXPECT_TRUE(Ended(ReaderId(2, 2)));
  EXPECT_EQ(Got(ReaderId(2, 2)), before) << "a further attempt";
}

TEST_F(StreamsBetweenTest, WhoIsSlowGetsLittleOfASplitStream) {
  Make(1);
  Begin(0, Writer(1));
  for (uint32_t r : {1, 2}) Read(0, ReaderId(r), {Of(Writer(1), 0, true)}, 4096);
  std::string text;
  for (int i = 0; i < 20000; ++i) text += "line " + std::to_string(i) + "\n";
  Write(0, Writer(1), text);
  Succeed(0, Writer(1));
  Reader& slow = readers_[ReaderId(1)];
  Reader& fast = readers_[ReaderId(2)];
  while (!fast.ended) {
    loop_.RunPosted();
    loop_.FireWatched();
    (void)TakeFrom(fast, 1 << 16);
  }
  EXPECT_GT(fast.got.size(), text.size() - 8192);
  while (TakeFrom(slow, 4096)) loop_.FireWatched();
  EXPECT_EQ(slow.got.size() + fast.got.size(), text.size());
}

TEST_F(StreamsBetweenTest, WhoseLogCannotBeReadBeginsAnew) {
  Make(1);
  for (uint32_t w : {1, 2}) Begin(0, Writer(w));
  Write(0, Writer(1), "lost\n");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(agents_[0]->own.path())) {
    if (entry.is_regular_file()) std::filesystem::resize_file(entry.path(), 0);
  }
  Read(0, ReaderId(1), {Of(Writer(1), 0), Of(Writer(2), 0)});
  EXPECT_EQ(Got(ReaderId(1)), "");
  EXPECT_EQ(RewoundAt(0), 1u);
}

TEST_F(StreamsBetweenTest, AConnectionThatBreaksIsTakenUpAgain) {
  Make(2);
  Begin(1, Writer(1));
  Read(0, ReaderId(1), {Of(Writer(1), 1)});
  std::string text;
  for (int i = 0; i < 20; ++i) {
    const std::string piece(3000, static_cast<char>('a' + i));
    text += piece;
    Write(1, Writer(1), piece);
    if (i % 3 == 0) loop_.RunPosted();
    if (i % 4 == 1) Break(0, 1);
    loop_.Advance(seconds(2));
  }
  Succeed(1, Writer(1));
  loop_.Advance(seconds(2));
  EXPECT_TRUE(Ended(ReaderId(1)));
  EXPECT_EQ(Got(ReaderId(1)), text);
}

TEST_F(StreamsBetweenTest, TenThousandSourcesCostFewDescriptorsAndLittleMemory) {
  Make(2);
  constexpr uint32_t kSources = 10'000;
  const auto open_files = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                         std::filesystem::directory_iterator());
  };
  const auto before = open_files();
  std::vector<StreamSource> sources;
  for (uint32_t i = 0; i < kSources; ++i) {
    Begin(i % 2, Writer(i));
    Write(i % 2, Writer(i), "line of " + std::to_string(i) + "\n" + std::string(12'000, 'x'));
    writers_.erase(Writer(i));
    sources.push_back(Of(Writer(i), i % 2));
  }
  Read(0, ReaderId(1), sources);
  int64_t most = 0;
  for (bool any = true; any;) {
    any = loop_.RunPosted() > 0;
    most = std::max(most, agents_[0]->feeds->buffered_bytes());
    loop_.FireWatched();
    any = loop_.RunPosted() > 0 || any;
    any = TakeFrom(readers_[ReaderId(1)], 1 << 16) || any;
  }
  EXPECT_LE(most, int64_t{160} << 20);
  EXPECT_LE(open_files() - before, 64 + 64 + 16);
  for (uint32_t i = 0; i < kSources; ++i) Succeed(i % 2, Writer(i));
  EXPECT_TRUE(Ended(ReaderId(1)));
  EXPECT_GT(Got(ReaderId(1)).size(), size_t{kSources} * 12'000);
}

TEST_F(StreamsBetweenTest, WhatMakesNoSenseEndsTheChannel) {
  Make(2);
  agents_[0]->exchange->Take(NodeId(1), "abc", true);
  EXPECT_THAT(agents_[0]->peers->hung_up, ElementsAre(HasSubstr("shorter than it says")));
  Begin(1, Writer(1));
  Write(1, Writer(1), "text");
  pb::PeerStreams message;
  pb::WrittenWanted* wanted = message.add_wanted();
  wanted->set_request(5);
  wanted->mutable_writer()->set_task(101);
  wanted->mutable_writer()->set_number(1);
  wanted->mutable_reader()->set_number(1);
  wanted->set_offset(100);
  wanted->set_room(200);
  std::string bytes;
  const auto frame = [&] {
    bytes.clear();
    const std::string text = message.SerializeAsString();
    bytes = {static_cast<char>(text.size()), 0, 0, 0};
    bytes += text;
  };
  frame();
  agents_[1]->exchange->Take(NodeId(0), bytes, false);
  EXPECT_EQ(agents_[1]->exchange->serving(), 0u) << "it did not come over TLS";
  agents_[1]->exchange->Take(NodeId(0), bytes, true);
  EXPECT_EQ(agents_[1]->exchange->serving(), 0u) << "beyond what was written";
  wanted->set_request(6);
  wanted->set_offset(0);
  frame();
  agents_[1]->exchange->Take(NodeId(0), bytes, true);
  EXPECT_EQ(agents_[1]->exchange->serving(), 1u);
  agents_[1]->exchange->Gone(NodeId(0));
  EXPECT_EQ(agents_[1]->exchange->serving(), 0u);
  Run();
}

TEST_F(StreamsBetweenTest, AnyOrderGivesAllRecordsOnce) {
  const auto seed = static_cast<uint32_t>(std::random_device()());
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto below = [&](size_t n) { return static_cast<uint32_t>(random() % n); };
  Make(3);
  uint32_t next_task = 0;
  for (int round = 0; round < 60; ++round) {
    const bool split = below(2) == 0;
    struct Wrote {
      uint32_t node = 0;
      AttemptId id;
      std::string text;
      std::vector<std::string> lines;
      size_t written = 0;
      bool begun = false, ended = false;
    };
    std::vector<Wrote> writers(1 + below(4));
    std::vector<StreamSource> sources;
    for (Wrote& writer : writers) {
      writer.node = below(3);
      writer.id = Writer(next_task++);
      const uint32_t lines = below(3) == 0 ? below(5) : below(2000);
      for (uint32_t i = 0; i < lines; ++i) {
        writer.lines.push_back(std::to_string(writer.id.task.value) + "," + std::to_string(i) + "," +
                               std::string(below(50) == 0 ? below(6000) : below(20), 'x') + "\n");
        writer.text += writer.lines.back();
      }
      sources.push_back(Of(writer.id, writer.node, split));
    }
    readers_.clear();
    std::vector<AttemptId> ids;
    const uint32_t count = 1 + below(3);
    uint32_t begun = 0, open = static_cast<uint32_t>(writers.size());
    for (int turn = 0;; ++turn) {
      Wrote& writer = writers[below(writers.size())];
      switch (below(8)) {
        case 0:
          if (begun < count) {
            ids.push_back(ReaderId(50000 + next_task++));
            Read(below(3), ids.back(), sources, split ? 4096 : 16384);
            ++begun;
          }
          break;
        case 1:
          if (!writer.begun) Begin(writer.node, writer.id);
          writer.begun = true;
          break;
        case 2:
        case 3: {
          if (!writer.begun || writer.written == writer.text.size()) break;
          const size_t n = std::min<size_t>(writer.text.size() - writer.written, 1 + below(9000));
          Write(writer.node, writer.id, writer.text.substr(writer.written, n));
          writer.written += n;
          break;
        }
        case 4:
          if (writer.ended || !writer.begun || writer.written < writer.text.size()) break;
          Succeed(writer.node, writer.id);
          writer.ended = true;
          --open;
          break;
        case 5:
          for (auto& [id, reader] : readers_) (void)TakeFrom(reader, 1 + below(20000));
          break;
        case 6:
          loop_.FireWatched();
          loop_.RunPosted();
          break;
        default:
          if (below(30) == 0) Break(below(2), 2);
          if (below(10) == 0) loop_.Advance(seconds(1));
      }
      if (open > 0 || begun < count) continue;
      Run();
      loop_.Advance(seconds(1));
      if (std::all_of(readers_.begin(), readers_.end(), [](const auto& r) { return r.second.ended; })) break;
      ASSERT_LT(turn, 2'000'000) << "round " << round;
    }
    std::map<std::string, std::vector<std::string>> all;  // lines by writer, of all readers of a split stream
    for (const AttemptId id : ids) {
      std::map<std::string, std::vector<std::string>> lines;
      const std::string& got = readers_[id].got;
      for (size_t at = 0; at < got.size();) {
        const size_t end = got.find('\n', at);
        ASSERT_NE(end, std::string::npos);
        const std::string line = got.substr(at, end + 1 - at);
        const std::string of = line.substr(0, line.find(','));
        lines[of].push_back(line);
        all[of].push_back(line);
        at = end + 1;
      }
      if (split) continue;
      for (const Wrote& writer : writers)
        ASSERT_EQ(lines[std::to_string(writer.id.task.value)], writer.lines) << "round " << round;
    }
    for (Wrote& writer : writers) {
      if (split) {
        auto& lines = all[std::to_string(writer.id.task.value)];
        std::sort(lines.begin(), lines.end());
        std::sort(writer.lines.begin(), writer.lines.end());
        ASSERT_EQ(lines, writer.lines) << "round " << round;
      }
      Drop(writer.node, writer.id);
    }
    for (uint32_t node = 0; node < 3; ++node) {
      ASSERT_EQ(RewoundAt(node), 0u);
      EXPECT_EQ(agents_[node]->feeds->buffered_bytes(), 0);
      for (const AttemptId id : ids) agents_[node]->feeds->Leave(id);
    }
    Run();
    for (uint32_t node = 0; node < 3; ++node) ASSERT_EQ(agents_[node]->exchange->serving(), 0u);
    writers_.clear();
  }
}

// --- what is held open, and what is connected later

TEST_P(StreamsHereAndThere, WhatIsOpenDoesNotEndAndTakesMoreWriters) {
  Begin(there_, Writer(1));
  Read(0, ReaderId(1), {Of(Writer(1), there_), OpenStream()});
  Write(there_, Writer(1), "one\n");
  Succeed(there_, Writer(1));
  EXPECT_EQ(Got(ReaderId(1)), "one\n");
  EXPECT_FALSE(Ended(ReaderId(1)));
  Change(ReaderId(1), Of(Writer(2), {}));  // it has not begun
  Begin(there_, Writer(2));
  Change(ReaderId(1), Of(Writer(2), there_));
  Write(there_, Writer(2), "two\nhalf");
  EXPECT_EQ(Got(ReaderId(1)), "one\ntwo\n");
  Change(ReaderId(1), OpenStream(true));
  EXPECT_FALSE(Ended(ReaderId(1))) << "one still writes";
  Succeed(there_, Writer(2));
  EXPECT_TRUE(Ended(ReaderId(1)));
  EXPECT_EQ(Got(ReaderId(1)), "one\ntwo\nhalf");
  const auto verdict = Settle(ReaderId(1));
  EXPECT_TRUE(verdict.to_end);
  EXPECT_THAT(verdict.read, SizeIs(2)) << "what is open is no writer";
  EXPECT_EQ(RewoundAt(0), 0u);
}

TEST_P(StreamsHereAndThere, OneThatIsConnectedInTheMiddleOfALineComesAfterIt) {
  Begin(there_, Writer(1));
  Read(0, ReaderId(1), {Of(Writer(1), there_), OpenStream()});
  const std::string half(70'000, 'x');  // longer than what is kept of a record
  Write(there_, Writer(1), half);
  EXPECT_EQ(Got(ReaderId(1)).find('\n'), std::string::npos);
  Begin(there_, Writer(2));
  Write(there_, Writer(2), "y\n");
  Change(ReaderId(1), Of(Writer(2), there_));
  EXPECT_EQ(Got(ReaderId(1)).find('y'), std::string::npos);
  Write(there_, Writer(1), "\n");
  EXPECT_EQ(Got(ReaderId(1)), half + "\ny\n");
}

TEST_P(StreamsHereAndThere, ASecondWriterOfASingleOneMakesItsReaderBeginAnew) {
  Begin(there_, Writer(1));
  Read(0, ReaderId(1), {Of(Writer(1), there_)});
  Change(ReaderId(1), Of(Writer(2), {}));
  EXPECT_EQ(RewoundAt(0), 0u) << "it has got nothing";
  Read(0, ReaderId(2), {Of(Writer(1), there_)});
  Write(there_, Writer(1), "hal");
  ASSERT_EQ(Got(ReaderId(2)), "hal");
  Change(ReaderId(2), Of(Writer(2), {}));
  ASSERT_EQ(RewoundAt(0), 1u) << "it may be in the middle of a record";
  EXPECT_EQ(agents_[0]->rewound[0].first, ReaderId(2));
}

TEST_P(StreamsHereAndThere, OneThatHasHadItsEndBeginsAnewForAnotherWriter) {
  Begin(there_, Writer(1));
  Begin(there_, Writer(2));
  Succeed(there_, Writer(1));
  Succeed(there_, Writer(2));
  Read(0, ReaderId(1), {Of(Writer(1), there_), Of(Writer(2), there_)});
  ASSERT_TRUE(Ended(ReaderId(1)));
  Change(ReaderId(1), OpenStream());
  EXPECT_EQ(RewoundAt(0), 0u) << "it may be that nothing more comes";
  Change(ReaderId(1), Of(Writer(3), {}));
  EXPECT_EQ(RewoundAt(0), 1u);
}

TEST_P(StreamsHereAndThere, OneOfAnOpenStreamGivesItsSlotToOthers) {
  Read(0, ReaderId(1), {OpenStream()});
  EXPECT_FALSE(Ended(ReaderId(1)));
  Change(ReaderId(1), OpenStream(false, true));
  EXPECT_EQ(RewoundAt(0), 1u);
  EXPECT_TRUE(Settle(ReaderId(1)).rewound);
}

TEST_P(StreamsHereAndThere, WhatWasClosedBeforeItBeganIsEmpty) {
  Read(0, ReaderId(1), {OpenStream(true)});
  EXPECT_TRUE(Ended(ReaderId(1)));
  EXPECT_TRUE(Settle(ReaderId(1)).to_end);
  // It does not begin when it is told: it is fed anew.
  Read(0, ReaderId(2), {OpenStream()});
  Change(ReaderId(2), OpenStream(true));
  EXPECT_TRUE(Ended(ReaderId(2)));
  EXPECT_EQ(Got(ReaderId(2)), "");
}

TEST_P(StreamsHereAndThere, OneThatClosesItsInputEarlyHasNotReadToTheEnd) {
  Begin(there_, Writer(1));
  Read(0, ReaderId(1), {Of(Writer(1), there_), OpenStream()});
  Write(there_, Writer(1), "one\n");
  ASSERT_EQ(Got(ReaderId(1)), "one\n");
  readers_[ReaderId(1)].out = os::Fd();
  Run();
  Change(ReaderId(1), Of(Writer(2), {}));
  Change(ReaderId(1), OpenStream(true));
  const auto verdict = Settle(ReaderId(1));
  EXPECT_FALSE(verdict.rewound);
  EXPECT_FALSE(verdict.to_end);
  EXPECT_THAT(verdict.read, SizeIs(1));
}

}  // namespace
}  // namespace harrow::agent
