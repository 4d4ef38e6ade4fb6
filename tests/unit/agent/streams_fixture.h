#pragma once

#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

#include "agent/stream_exchange.h"
#include "agent/stream_feeds.h"
#include "support/fake_event_loop.h"
#include "support/fake_peers.h"
#include "support/own_directory.h"

namespace harrow::agent {

inline constexpr StreamId kStream{3};

class StreamsBetweenTest : public testing::Test {
 protected:
  struct Agent {
    test::OwnDirectory own{};
    std::unique_ptr<stream::Spool> spool{};
    std::unique_ptr<test::FakePeers> peers{};
    std::optional<StreamExchange> exchange{};
    std::optional<StreamFeeds> feeds{};
    std::vector<std::pair<AttemptId, std::string>> rewound{};
  };
  struct Reader {
    uint32_t node = 0;
    os::Fd out{};
    std::string got{};
    bool ended = false;
  };

  StreamsBetweenTest() {
    signal(SIGPIPE, SIG_IGN);
    EXPECT_EQ(pipe2(pipe_, O_CLOEXEC), 0);
  }
  ~StreamsBetweenTest() override {
    readers_.clear();
    for (const auto& agent : agents_) {
      agent->feeds.reset();
      agent->exchange.reset();
      agent->spool.reset();
    }
    for (const int end : pipe_) close(end);
  }
  /// Agents of the nodes 0, 1, ...
  void Make(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      Agent& agent = *agents_.emplace_back(std::make_unique<Agent>());
      auto spool = stream::Spool::Open(agent.own.path());
      ASSERT_TRUE(spool.ok());
      agent.spool = *std::move(spool);
      agent.peers = std::make_unique<test::FakePeers>(&loop_, NodeId(i));
      agent.exchange.emplace(&loop_, agent.spool.get());
      agent.exchange->Connect(agent.peers.get());
      agent.feeds.emplace(&loop_, agent.spool.get(), &*agent.exchange,
                          StreamFeeds::Hooks{.rewind = [&agent](AttemptId reader, const std::string& why) {
                            agent.rewound.emplace_back(reader, why);
                          }});
      agent.feeds->SetSelf(NodeId(i));
      agent.exchange->SetFeeds(&*agent.feeds);
      for (uint32_t other = 0; other < i; ++other)
        test::FakePeers::Link(agent.peers.get(), agents_[other]->peers.get());
    }
  }
  void Break(uint32_t one, uint32_t other) {
    test::FakePeers::Break(agents_[one]->peers.get(), agents_[other]->peers.get());
  }

  // --- writers
  static AttemptId Writer(uint32_t task, uint32_t number = 1) { return {TaskId(100 + task), number}; }
  void Told(uint32_t node, AttemptId writer) {
    agents_[node]->feeds->Grown(writer);
    agents_[node]->exchange->Grown(writer);
  }
  void Begin(uint32_t node, AttemptId writer) {
    ASSERT_TRUE(writers_[writer].Open(agents_[node]->spool->Make(writer).get()).ok());
    Told(node, writer);
  }
  void Write(uint32_t node, AttemptId writer, std::string_view text) {
    while (!text.empty()) {
      const std::string_view piece = text.substr(0, 32 << 10);
      ASSERT_EQ(write(pipe_[1], piece.data(), piece.size()), static_cast<ssize_t>(piece.size()));
      for (size_t taken = 0; taken < piece.size();) {
        const auto n = writers_[writer].TakeFrom(pipe_[0]);
        ASSERT_TRUE(n.ok()) << n.status().message();
        taken += static_cast<size_t>(*n);
      }
      text.remove_prefix(piece.size());
    }
    if (agents_[node]->spool->Find(writer)->TakeWatch()) Told(node, writer);
  }
  void Succeed(uint32_t node, AttemptId writer) {
    agents_[node]->spool->Find(writer)->SetState(stream::Log::State::kWhole);
    Told(node, writer);
  }
  void Drop(uint32_t node, AttemptId writer) {
    agents_[node]->spool->Drop(writer);
    Told(node, writer);
    agents_[node]->spool->Tidy();
  }

  // --- readers
  static StreamSource Of(AttemptId writer, std::optional<uint32_t> node, bool split = false) {
    return {.stream = kStream, .writer = writer, .node = node ? NodeId(*node) : NodeId(), .split = split};
  }
  static StreamSource Gone(AttemptId writer) {
    StreamSource source = Of(writer, {});
    source.gone = true;
    return source;
  }
  static AttemptId ReaderId(uint32_t task, uint32_t number = 1) { return {TaskId(task), number}; }
  void Read(uint32_t node, AttemptId reader, const std::vector<StreamSource>& sources,
            int pipe_bytes = 64 << 10) {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    (void)fcntl(ends[0], F_SETPIPE_SZ, pipe_bytes);
    readers_[reader] = Reader{.node = node, .out = os::Fd(ends[0])};
    if (!sources.empty()) agents_[node]->feeds->Join(reader, sources);
    agents_[node]->feeds->Begin(reader, os::Fd(ends[1]));
  }
  void Change(AttemptId reader, const StreamSource& source) {
    agents_[readers_[reader].node]->feeds->Change(reader, source);
  }
  /// Takes what is there; false: nothing was.
  bool TakeFrom(Reader& reader, size_t most) {
    if (reader.ended || !reader.out.ok()) return false;
    std::string buffer(most, '\0');
    const ssize_t n = read(reader.out.get(), buffer.data(), buffer.size());
    if (n < 0) return false;
    reader.ended = n == 0;
    reader.got.append(buffer, 0, static_cast<size_t>(n));
    return true;
  }
  /// Until nothing happens any more.
  void Run() {
    for (bool any = true; any;) {
      any = loop_.RunPosted() > 0;
      loop_.FireWatched();
      any = loop_.RunPosted() > 0 || any;
      for (auto& [id, reader] : readers_) any = TakeFrom(reader, 1 << 16) || any;
    }
  }
  const std::string& Got(AttemptId reader) {
    Run();
    return readers_[reader].got;
  }
  bool Ended(AttemptId reader) {
    Run();
    return readers_[reader].ended;
  }
  size_t RewoundAt(uint32_t node) { return agents_[node]->rewound.size(); }
  StreamFeeds::Verdict Settle(AttemptId reader) {
    return agents_[readers_[reader].node]->feeds->Settle(reader);
  }

  test::FakeEventLoop loop_;
  std::vector<std::unique_ptr<Agent>> agents_;
  std::map<AttemptId, stream::LogWriter> writers_;
  std::map<AttemptId, Reader> readers_;
  int pipe_[2] = {-1, -1};
};

/// The same on one node, and from one to another.
class StreamsHereAndThere : public StreamsBetweenTest, public testing::WithParamInterface<uint32_t> {
 protected:
  StreamsHereAndThere() { Make(2); }
  const uint32_t there_ = GetParam();
};

inline StreamSource OpenStream(bool over = false, bool gone = false) {
  StreamSource source{.stream = kStream};
  source.open = true;
  source.over = over;
  source.gone = gone;
  return source;
}

}  // namespace harrow::agent
