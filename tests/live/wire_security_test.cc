// What strangers and broken peers can do to a server: nothing but be refused, while it goes on serving
// others.
#include <algorithm>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <random>
#include <sys/resource.h>

#include "live/wire_peers.h"
#include "os/log.h"

namespace harrow::test {
namespace {

using wire::Role;

const std::string kTaskText = "mProject raw/2mass-atlas-990214n.fits p/out.fits region.hdr";

/// A server with a peer that must be served whatever happens.
class WireSecurity : public testing::Test {
 protected:
  static wire::Limits Quick() {
    wire::Limits limits;
    limits.handshake_time = 2s;  // the friend's own may take long on a machine that has much else to do
    limits.max_handshakes = 8;
    limits.max_message = 1u << 20;
    return limits;
  }
  void SetUp() override { ASSERT_TRUE(friend_.dialled().ok()) << friend_.dialled().message(); }
  void TearDown() override {
    EXPECT_TRUE(friend_.Echo("still served"));
    for (const std::string& message : server_.messages()) {
      EXPECT_TRUE(std::find(allowed_.begin(), allowed_.end(), message) != allowed_.end())
          << message.substr(0, 100);
    }
  }
  /// Waits until the server has refused so many.
  bool Refused(uint64_t count) {
    auto until = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < until) {
      auto r = server_.refusals();
      if (r.handshakes_failed + r.timed_out + r.turned_away >= count) return true;
      std::this_thread::yield();
    }
    return false;
  }

  EchoServer server_{Quick()};
  Peer friend_{server_.address()};
  std::vector<std::string> allowed_ = {"still served", "hello"};
};

TEST_F(WireSecurity, BothRolesAreServed) {
  for (Role role : {Role::kAgent, Role::kClient}) {
    Peer peer(server_.address(), Key(), role);
    ASSERT_TRUE(peer.dialled().ok()) << peer.dialled().message();
    EXPECT_TRUE(peer.Echo("hello"));
  }
  auto r = server_.refusals();
  EXPECT_EQ(r.handshakes_failed + r.timed_out + r.turned_away, 0u);
}

TEST_F(WireSecurity, WrongKeyOrRunIsRefusedAndSaidToTheDialler) {
  Peer wrong_key(server_.address(), Key("run-1", 'x'));
  EXPECT_EQ(wrong_key.dialled().code(), Code::kRefused) << wrong_key.dialled().message();
  Peer wrong_run(server_.address(), Key("run-2"));
  EXPECT_EQ(wrong_run.dialled().code(), Code::kRefused) << wrong_run.dialled().message();
  Peer wrong_both(server_.address(), Key("run-2", 'x'), Role::kClient);
  EXPECT_EQ(wrong_both.dialled().code(), Code::kRefused) << wrong_both.dialled().message();
  EXPECT_TRUE(Refused(3));
  EXPECT_EQ(server_.refusals().handshakes_failed, 3u);
}

TEST_F(WireSecurity, WithoutAKeyNothingIsHeard) {
  std::vector<std::string> openings = {"GET / HTTP/1.1\r\nHost: node1\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n",
                                       std::string(100000, '\0'), std::string(100000, '\xff')};
  auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 20; ++i) {
    std::string noise(1 + random() % 2000, '\0');
    for (char& c : noise) c = static_cast<char>(random());
    if (i % 2 == 0)
      noise.replace(0, std::min<size_t>(5, noise.size()), "\x16\x03\x01\x01\x00",
                    std::min<size_t>(5, noise.size()));
    openings.push_back(noise);
  }
  for (const std::string& opening : openings) {
    RawPeer raw(server_.port());
    raw.Send(opening);
    std::string answer;
    EXPECT_TRUE(raw.ReadToEnd(&answer));
    EXPECT_LE(answer.size(), 7u) << "no more than an alert";
  }
  EXPECT_TRUE(Refused(openings.size()));
}

TEST_F(WireSecurity, SilentOnesAreDroppedAfterTheHandshakeTime) {
  RawPeer silent(server_.port());
  RawPeer half(server_.port());
  half.Send(std::string("\x16\x03\x01\x02\x00\x01\x00", 7));
  EXPECT_TRUE(friend_.Echo("hello"));
  std::string answer;
  EXPECT_TRUE(silent.ReadToEnd(&answer));
  EXPECT_TRUE(half.ReadToEnd(&answer));
  EXPECT_EQ(answer, "");
  EXPECT_TRUE(Refused(2));
  EXPECT_EQ(server_.refusals().timed_out, 2u);
}

TEST_F(WireSecurity, OneTooManyTurnsAwayTheOldestAndNobodyElse) {
  wire::Limits limits;
  limits.max_handshakes = 3;
  limits.handshake_time = 10 * kPatience;
  EchoServer server(limits);
  const auto turned_away = [&](uint64_t count) {
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (server.refusals().turned_away < count && std::chrono::steady_clock::now() < until)
      std::this_thread::yield();
    return server.refusals().turned_away;
  };
  // Each has said something, so that the server is known to have taken it in the order in which they came.
  std::vector<std::unique_ptr<RawPeer>> silent;
  for (int i = 0; i < 3; ++i) silent.push_back(std::make_unique<RawPeer>(server.port()));
  Peer friendly(server.address());  // is the fourth for a moment
  ASSERT_TRUE(friendly.Echo("hello"));
  EXPECT_EQ(turned_away(1), 1u);
  std::string answer;
  EXPECT_TRUE(silent[0]->ReadToEnd(&answer)) << "the oldest";
  silent.push_back(
      std::make_unique<RawPeer>(server.port()));  // the third again, as the friendly one is through
  Peer another(server.address());
  ASSERT_TRUE(another.Echo("hello"));
  EXPECT_EQ(turned_away(2), 2u);
  EXPECT_TRUE(silent[1]->ReadToEnd(&answer));
  EXPECT_EQ(server.refusals().timed_out + server.refusals().handshakes_failed, 0u);
}

TEST_F(WireSecurity, AServerThatEndsHangsUpOnThoseWhoHaveNotSaidWhoTheyAre) {
  std::unique_ptr<RawPeer> silent;
  {
    wire::Limits limits;
    limits.handshake_time = 10 * kPatience;
    EchoServer server(limits);
    silent = std::make_unique<RawPeer>(server.port());
    Peer later(server.address());  // what came before it has been accepted
    ASSERT_TRUE(later.Echo("hello"));
  }
  std::string answer;
  EXPECT_TRUE(silent->ReadToEnd(&answer));
}

TEST_F(WireSecurity, OutOfDescriptorsPeersWaitAndAreServedAfterwards) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = dup(0);
  ASSERT_GE(next, 0);
  close(next);
  rlimit tight = before;
  tight.rlim_cur = static_cast<rlim_t>(next) + 1;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &tight), 0);
  {
    RawPeer waiting(server_.port());  // has the last one
    EXPECT_TRUE(friend_.Echo("hello")) << "others are served meanwhile";
    const std::clock_t began = std::clock();
    std::this_thread::sleep_for(300ms);
    EXPECT_LT(std::clock() - began, CLOCKS_PER_SEC / 10) << "it rests, and does not ask all the time";
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    waiting.Send("GET / HTTP/1.1\r\n\r\n");
    std::string answer;
    EXPECT_TRUE(waiting.ReadToEnd(&answer)) << "it was heard in the end";
  }
  Peer another(server_.address());
  EXPECT_TRUE(another.Echo("hello"));
}

TEST_F(WireSecurity, CrowdsOfSilentOnesKeepNobodyOut) {
  wire::Limits limits;
  limits.max_handshakes = 8;
  limits.handshake_time = 10 * kPatience;  // who is not turned away stays
  EchoServer server(limits);
  std::vector<std::unique_ptr<RawPeer>> crowd;
  for (int i = 0; i < 100; ++i) crowd.push_back(std::make_unique<RawPeer>(server.port()));
  Peer peer(server.address(), Key(), Role::kAgent, {.handshake_time = kPatience});
  ASSERT_TRUE(peer.dialled().ok()) << peer.dialled().message();
  EXPECT_TRUE(peer.Echo("hello"));
  const auto refusals = server.refusals();
  EXPECT_EQ(refusals.turned_away, 93u) << "all but seven, and the one that was through";
  EXPECT_EQ(refusals.timed_out + refusals.handshakes_failed, 0u);
}

TEST_F(WireSecurity, RecordedBytesOpenNothing) {
  std::string recorded;
  {
    Relay relay(server_.port());
    Peer peer(relay.address());
    ASSERT_TRUE(peer.dialled().ok()) << peer.dialled().message();
    ASSERT_TRUE(peer.Echo("hello"));
    recorded = relay.up();
  }
  size_t before = server_.received();
  size_t channels = server_.channels();
  {
    RawPeer all_at_once(server_.port());
    all_at_once.Send(recorded);
    std::string answer;
    EXPECT_TRUE(all_at_once.ReadToEnd(&answer));
  }
  {
    // The hello is fresh enough to be answered; what follows it is not.
    RawPeer in_turn(server_.port());
    size_t hello = 5 + static_cast<size_t>(static_cast<unsigned char>(recorded[3])) * 256 +
                   static_cast<unsigned char>(recorded[4]);
    in_turn.Send(recorded.substr(0, hello));
    EXPECT_NE(in_turn.ReadSome(), "");
    in_turn.Send(recorded.substr(hello));
    std::string answer;
    EXPECT_TRUE(in_turn.ReadToEnd(&answer));
  }
  EXPECT_TRUE(Refused(2));
  EXPECT_EQ(server_.received(), before);
  EXPECT_LE(server_.channels(), channels);
}

TEST_F(WireSecurity, TruncatedHandshakesAreRefused) {
  std::string recorded;
  {
    Relay relay(server_.port());
    Peer peer(relay.address());
    ASSERT_TRUE(peer.dialled().ok());
    recorded = relay.up();
  }
  uint64_t count = 0;
  for (size_t n = 0; n < recorded.size(); n += recorded.size() / 20 + 1, ++count) {
    RawPeer raw(server_.port());
    raw.Send(recorded.substr(0, n));
  }
  EXPECT_TRUE(Refused(count));
}

TEST_F(WireSecurity, TrafficDoesNotShowWhatTasksAre) {
  allowed_.push_back(kTaskText);
  Relay relay(server_.port());
  Peer peer(relay.address());
  ASSERT_TRUE(peer.dialled().ok()) << peer.dialled().message();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(peer.Echo(kTaskText));
  for (const std::string& traffic : {relay.up(), relay.down()}) {
    EXPECT_GT(traffic.size(), 20 * kTaskText.size());
    for (size_t at = 0; at + 8 <= kTaskText.size(); ++at) {
      EXPECT_EQ(traffic.find(kTaskText.substr(at, 8)), std::string::npos) << kTaskText.substr(at, 8);
    }
    EXPECT_EQ(traffic.find(std::string(32, 'k')), std::string::npos) << "the key";
  }
}

TEST_F(WireSecurity, ChangedBytesEndTheChannelAndDeliverNothing) {
  Relay relay(server_.port());
  std::atomic<bool> change{false};
  relay.change_up = [&](size_t, std::string* piece) {
    if (change) piece->back() = static_cast<char>(piece->back() ^ 1);
  };
  Peer peer(relay.address());
  ASSERT_TRUE(peer.dialled().ok()) << peer.dialled().message();
  ASSERT_TRUE(peer.Echo("hello"));
  size_t before = server_.received();
  change = true;
  peer.Send("drop the table");
  EXPECT_TRUE(peer.WaitClosed());
  EXPECT_EQ(server_.received(), before);
  auto ends = server_.ends();
  EXPECT_TRUE(std::any_of(ends.begin(), ends.end(), [](const std::string& e) {
    return e.find("does not verify") != std::string::npos;
  }));
}

TEST_F(WireSecurity, TooLongAMessageOfAKnownPeerEndsItsChannelOnly) {
  wire::Limits generous;
  Peer peer(server_.address(), Key(), Role::kClient, generous);
  ASSERT_TRUE(peer.dialled().ok());
  ASSERT_TRUE(peer.Echo("hello"));
  size_t before = server_.received();
  peer.Send(std::string((1u << 20) + 1, 'x'));
  EXPECT_TRUE(peer.WaitClosed());
  EXPECT_EQ(server_.received(), before);
  auto ends = server_.ends();
  EXPECT_TRUE(std::any_of(ends.begin(), ends.end(),
                          [](const std::string& e) { return e.find("was announced") != std::string::npos; }));
}

TEST_F(WireSecurity, ServerThatIsNoneIsRefusedByTheDialler) {
  // The other direction: whoever listens where a server was must not be taken for it.
  EchoServer impostor(Quick(), Key("run-1", 'y'));
  Peer peer(impostor.address());
  EXPECT_EQ(peer.dialled().code(), Code::kRefused) << peer.dialled().message();
}

/// A peer's listener, which gives out tokens for channels that are not encrypted.
class WirePlain : public testing::Test {
 protected:
  void SetUp() override {
    thread_.Call([&] {
      auto listener = wire::Listen(thread_.loop(), {"127.0.0.1"}, 0, Key(), {},
                                   [this](auto channel) { return Keep(channel, "tls"); }, {Role::kPeer});
      if (!listener.ok()) abort();
      listener_ = std::move(*listener);
    });
    address_ = listener_->addresses().at(0);
    port_ = static_cast<uint16_t>(std::stoi(address_.substr(address_.rfind(':') + 1)));
  }
  void TearDown() override {
    thread_.Call([&] {
      channels_.clear();
      listener_.reset();
    });
    thread_.Join();
  }
  std::string NewToken() {
    return thread_.Call(
        [&] { return listener_->ExpectPlain([this](auto channel) { return Keep(channel, "plain"); }); });
  }
  wire::ChannelHandler Keep(const std::shared_ptr<wire::Channel>& channel, const char* kind) {
    channels_.push_back(channel);
    return {.on_message =
                [channel = channel.get(), kind](std::string_view message) {
                  channel->Send(std::string(kind) + " " + std::string(message));
                },
            .on_closed = {}};
  }
  /// What is echoed, or how dialling failed.
  std::string DialPlain(const std::string& token, const std::string& address) {
    std::promise<std::string> answer;
    std::shared_ptr<wire::Channel> mine;
    LoopThread thread;
    thread.Call([&] {
      wire::DialPlain(thread.loop(), address, token, {}, [&](Result<std::shared_ptr<wire::Channel>> channel) {
        if (!channel.ok()) {
          answer.set_value(channel.status().message());
          return wire::ChannelHandler();
        }
        mine = *channel;
        mine->Send("word in clear");
        return wire::ChannelHandler{
            .on_message = [&](std::string_view message) { answer.set_value(std::string(message)); },
            .on_closed = {}};
      });
    });
    auto future = answer.get_future();
    const bool came = future.wait_for(kPatience) == std::future_status::ready;
    thread.Call([&] { mine.reset(); });
    return came ? future.get() : "nothing";
  }
  uint64_t refused() {
    return thread_.Call([&] { return listener_->refusals().handshakes_failed; });
  }

  std::vector<std::shared_ptr<wire::Channel>> channels_;
  std::unique_ptr<wire::Listener> listener_;
  std::string address_;
  uint16_t port_ = 0;
  LoopThread thread_;
};

TEST_F(WirePlain, ATokenOpensOneChannel) {
  const std::string token = NewToken(), other = NewToken(), taken_back = NewToken();
  EXPECT_EQ(token.size(), 32u);
  EXPECT_NE(token, other);
  Relay relay(port_);
  EXPECT_EQ(DialPlain(token, relay.address()), "plain word in clear");
  EXPECT_NE(relay.up().find("word in clear"), std::string::npos);
  EXPECT_EQ(DialPlain(token, address_), "the connection was closed during the handshake") << "it served";
  thread_.Call([&] { listener_->Withdraw(taken_back); });
  EXPECT_EQ(DialPlain(taken_back, address_), "the connection was closed during the handshake");
  EXPECT_EQ(DialPlain(std::string(32, 'x'), address_), "the connection was closed during the handshake");
  EXPECT_EQ(DialPlain("short", address_), "the token has not 32 bytes");
  EXPECT_EQ(refused(), 3u);
  Peer peer(address_, Key(), Role::kPeer);
  ASSERT_TRUE(peer.dialled().ok()) << peer.dialled().message();
  peer.Send("word");
  ASSERT_TRUE(peer.WaitFor(1));
  EXPECT_EQ(peer.got().at(0), "tls word");
  EXPECT_EQ(DialPlain(other, address_), "plain word in clear");
}

TEST_F(WirePlain, ANewKeyServesFromThenOn) {
  Peer before(address_, Key(), Role::kPeer);
  ASSERT_TRUE(before.dialled().ok());
  EXPECT_EQ(thread_.Call([&] {
    return listener_->SetCredentials({"run-1", "short"}).code();
  }),
            Code::kInvalid);
  ASSERT_TRUE(thread_.Call([&] { return listener_->SetCredentials(Key("run-1", 'n')).ok(); }));
  Peer old_key(address_, Key(), Role::kPeer), new_key(address_, Key("run-1", 'n'), Role::kPeer);
  EXPECT_EQ(old_key.dialled().code(), Code::kRefused);
  EXPECT_TRUE(new_key.dialled().ok());
  Peer agent(address_, Key("run-1", 'n'), Role::kAgent);
  EXPECT_EQ(agent.dialled().code(), Code::kRefused);
  before.Send("word");
  EXPECT_TRUE(before.WaitFor(1));
}

TEST_F(WirePlain, WhoIsNoPeerIsRefused) {
  for (Role role : {Role::kAgent, Role::kClient}) {
    Peer peer(address_, Key(), role);
    EXPECT_EQ(peer.dialled().code(), Code::kRefused) << peer.dialled().message();
  }
  EXPECT_EQ(refused(), 2u);
  EXPECT_EQ(DialPlain(std::string(32, 'x'), address_), "the connection was closed during the handshake")
      << "no token is out";
}

TEST_F(WireSecurity, APeersKeyOpensNoServer) {
  Peer peer(server_.address(), Key(), Role::kPeer);
  EXPECT_EQ(peer.dialled().code(), Code::kRefused) << peer.dialled().message();
}

TEST_F(WireSecurity, OneAfterTheOtherNobodyWaits) {
  std::chrono::nanoseconds fastest = kPatience;
  for (int i = 0; i < 40; ++i) {
    const auto began = std::chrono::steady_clock::now();
    Peer peer(server_.address());
    ASSERT_TRUE(peer.dialled().ok()) << peer.dialled().message();
    if (i > 0)
      fastest = std::min<std::chrono::nanoseconds>(fastest, std::chrono::steady_clock::now() - began);
  }
  EXPECT_LT(fastest, 100ms) << "after each there would be a rest";
}

TEST(WireLog, WhatIsNotLoggedIsCountedASecondLater) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("harrow-wire-count-" + std::to_string(getpid()))).string();
  ASSERT_TRUE(os::OpenLog(path).ok());
  const auto logged = [&] {
    int told = 0;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      if (line.find("refused a connection from") != std::string::npos) ++told;
      const size_t at = line.find("refused ");
      if (line.ends_with(" more connections")) told += std::stoi(line.substr(at + 8));
    }
    return told;
  };
  {
    EchoServer server(wire::Limits{});
    for (int refused = 50; refused <= 100; refused += 50) {
      for (int i = 0; i < 50; ++i) {
        RawPeer raw(server.port());
        raw.Send("GET / HTTP/1.1\r\n\r\n");
        std::string answer;
        ASSERT_TRUE(raw.ReadToEnd(&answer));
      }
      const auto until = std::chrono::steady_clock::now() + kPatience;
      while (logged() < refused && std::chrono::steady_clock::now() < until)
        std::this_thread::sleep_for(20ms);
      EXPECT_EQ(logged(), refused);
    }
  }
  std::filesystem::remove(path);
}

TEST(WireLog, RefusalsAreLoggedInFewLines) {
  std::string path =
      (std::filesystem::temp_directory_path() / ("harrow-wire-log-" + std::to_string(getpid()))).string();
  ASSERT_TRUE(os::OpenLog(path).ok());
  {
    EchoServer server(wire::Limits{});
    for (int i = 0; i < 200; ++i) {
      RawPeer raw(server.port());
      raw.Send("GET / HTTP/1.1\r\n\r\n");
      std::string answer;
      ASSERT_TRUE(raw.ReadToEnd(&answer));
    }
  }
  std::ifstream file(path);
  std::string line;
  int lines = 0, named = 0;
  while (std::getline(file, line)) {
    ++lines;
    if (line.find(" more connections") != std::string::npos) {
      EXPECT_EQ(named % 3, 0) << "three lines a second";
    }
    if (line.find("refused a connection from 127.0.0.1:") != std::string::npos) ++named;
  }
  EXPECT_GE(named, 1);
  EXPECT_LT(lines, 100) << "200 refusals in a moment";
  EXPECT_EQ(std::filesystem::status(path).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace harrow::test
