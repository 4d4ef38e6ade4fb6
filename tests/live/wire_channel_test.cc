// Channels over real sockets: order, volume, back-pressure, closing.
#include <algorithm>
#include <fcntl.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <random>
#include <set>

#include "live/wire_peers.h"

namespace harrow::test {
namespace {

TEST(WireChannel, CarriesMessagesOfEverySizeInOrder) {
  auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  EchoServer server(wire::Limits{});
  Peer peer(server.address());
  ASSERT_TRUE(peer.dialled().ok()) << peer.dialled().message();
  std::vector<std::string> sent;
  for (int round = 0; round < 30; ++round) {
    std::vector<std::string> turn;
    for (size_t n = random() % 40; n > 0; --n) {
      std::string message(random() % 10 == 0 ? random() % 300000 : random() % 300, '\0');
      for (char& c : message) c = static_cast<char>(random());
      turn.push_back(std::move(message));
    }
    peer.SendAll(turn);
    sent.insert(sent.end(), turn.begin(), turn.end());
  }
  ASSERT_TRUE(peer.WaitFor(sent.size()));
  EXPECT_TRUE(peer.got() == sent);
}

TEST(WireChannel, ListensOnAFreePortOfARange) {
  // Two neighbours that are free now.
  uint16_t first = 0;
  LoopThread thread;
  const auto listen = [&](wire::PortRange ports) {
    return thread.Call([&] { return wire::Listen(thread.loop(), {"127.0.0.1"}, ports, Key(), {}, {}); });
  };
  const auto port_of = [](const wire::Listener& listener) {
    const std::string address = listener.addresses().at(0);
    return static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  };
  std::vector<std::unique_ptr<wire::Listener>> held;
  for (int tries = 0; tries < 100 && held.size() < 2; ++tries) {
    thread.Call([&] { held.clear(); });
    auto any = listen(0);
    ASSERT_TRUE(any.ok());
    first = port_of(**any);
    thread.Call([&] { any->reset(); });
    for (int i = 0; i < 2; ++i) {
      auto one = listen({first, static_cast<uint16_t>(first + 1)});
      if (one.ok()) held.push_back(std::move(*one));
    }
  }
  ASSERT_EQ(held.size(), 2u);
  EXPECT_EQ((std::set<int>{port_of(*held[0]), port_of(*held[1])}), (std::set<int>{first, first + 1}));
  auto third = listen({first, static_cast<uint16_t>(first + 1)});
  ASSERT_FALSE(third.ok());
  EXPECT_NE(third.status().message().find("that the site allows are in use"), std::string::npos)
      << third.status().message();
  // Wherever in the range it begins.
  const uint16_t free = port_of(*held[1]);
  for (int i = 0; i < 10; ++i) {
    thread.Call([&] { held.resize(1); });
    auto one = listen({first, static_cast<uint16_t>(first + 1)});
    ASSERT_TRUE(one.ok()) << one.status().message();
    EXPECT_EQ(port_of(**one), free);
    held.push_back(std::move(*one));
  }
  thread.Call([&] { held.clear(); });
}

TEST(WireChannel, APortIsListenedOnAgainThoughItsLastConnectionsLinger) {
  uint16_t port;
  {
    EchoServer server(wire::Limits{});
    port = server.port();
    Peer peer(server.address());
    ASSERT_TRUE(peer.Echo("x"));
    server.thread().Call([&] {
      server.only_channel()->Close();  // whoever closes first has to wait
      return 0;
    });
    ASSERT_TRUE(peer.WaitClosed());
  }
  LoopThread thread;
  const Status again =
      thread.Call([&] { return wire::Listen(thread.loop(), {"127.0.0.1"}, port, Key(), {}, {}).status(); });
  EXPECT_TRUE(again.ok()) << again.message();
}

TEST(WireChannel, WhereItCannotListenItSaysWhy) {
  LoopThread thread;
  const auto listen = [&](const std::string& host, uint16_t port) {
    return thread.Call([&] {
      return wire::Listen(thread.loop(), {"127.0.0.1", host}, port, Key(), {}, {}).status();
    });
  };
  const auto open_files = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                         std::filesystem::directory_iterator());
  };
  const auto before = open_files();
  EXPECT_EQ(listen("node1", 0).code(), Code::kInvalid);
  EXPECT_NE(listen("node1", 0).message().find("cannot listen: "), std::string::npos);
  EXPECT_EQ(listen("203.0.113.1", 0).code(), Code::kUnavailable) << "not an address of ours";
  EXPECT_EQ(open_files(), before) << "descriptors are left";
  EchoServer taken(wire::Limits{});
  const Status in_use = thread.Call(
      [&] { return wire::Listen(thread.loop(), {"127.0.0.1"}, taken.port(), Key(), {}, {}).status(); });
  EXPECT_EQ(in_use.code(), Code::kUnavailable);
  EXPECT_NE(in_use.message().find(taken.address()), std::string::npos) << in_use.message();
  const Status short_key = thread.Call([&] {
    return wire::Listen(thread.loop(), {"127.0.0.1"}, 0, {"run", "short"}, {}, {}).status();
  });
  EXPECT_EQ(short_key.code(), Code::kInvalid);
  Peer without_key(taken.address(), {"run-1", "short"});
  EXPECT_EQ(without_key.dialled().code(), Code::kInvalid);
}

TEST(WireChannel, SocketsDoNotWaitToSendAndAskWhetherThePeerIsThere) {
  EchoServer server(wire::Limits{});
  Peer peer(server.address());
  ASSERT_TRUE(peer.Echo("x"));
  int connections = 0;
  for (int fd = 3; fd < 256; ++fd) {
    sockaddr_storage other{};
    socklen_t size = sizeof(other);
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&other), &size) != 0 || other.ss_family != AF_INET)
      continue;
    ++connections;
    const auto option = [fd](int level, int name) {
      int value = -1;
      socklen_t length = sizeof(value);
      getsockopt(fd, level, name, &value, &length);
      return value;
    };
    EXPECT_EQ(option(IPPROTO_TCP, TCP_NODELAY), 1);
    EXPECT_EQ(option(SOL_SOCKET, SO_KEEPALIVE), 1);
    EXPECT_EQ(option(IPPROTO_TCP, TCP_KEEPIDLE), 2);
    EXPECT_EQ(option(IPPROTO_TCP, TCP_KEEPINTVL), 1);
    EXPECT_EQ(option(IPPROTO_TCP, TCP_KEEPCNT), 10);
    EXPECT_NE(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
  }
  EXPECT_EQ(connections, 2) << "both ends are here";
}

TEST(WireChannel, KnowsWhoIsThere) {
  EchoServer server(wire::Limits{});
  Peer agent(server.address());
  ASSERT_TRUE(agent.Echo("x"));
  EXPECT_EQ(agent.thread().Call([&] { return agent.channel()->peer(); }), server.address());
  EXPECT_EQ(agent.thread().Call([&] { return agent.channel()->role(); }), wire::Role::kAgent);
  EXPECT_EQ(server.thread().Call([&] { return server.only_channel()->role(); }), wire::Role::kAgent);
  EXPECT_EQ(server.thread().Call([&] { return server.only_channel()->peer(); }).substr(0, 10), "127.0.0.1:");
  EchoServer other(wire::Limits{});
  Peer client(other.address(), Key(), wire::Role::kClient);
  ASSERT_TRUE(client.Echo("x"));
  EXPECT_EQ(other.thread().Call([&] { return other.only_channel()->role(); }), wire::Role::kClient);
}

TEST(WireChannel, AClosedOneIsUnheardForEverAndHasNothingToSend) {
  EchoServer server(wire::Limits{});
  Peer peer(server.address());
  ASSERT_TRUE(peer.Echo("x"));
  EXPECT_LT(peer.Unheard(), kPatience);
  EXPECT_EQ(peer.thread().Call([&] {
    peer.channel()->Send("12345");
    const size_t waiting = peer.channel()->unsent_bytes();
    peer.channel()->Send("678");
    return std::pair(waiting, peer.channel()->unsent_bytes());
  }),
            std::pair(size_t{9}, size_t{16}));
  server.thread().Call([&] {
    server.only_channel()->Close();
    return 0;
  });
  ASSERT_TRUE(peer.WaitClosed());
  EXPECT_EQ(peer.Unheard(), Duration::max());
  peer.Send("nobody is there");
  EXPECT_EQ(peer.thread().Call([&] { return peer.channel()->unsent_bytes(); }), 0u);
}

/// A peer that takes nothing more does not keep the connection of one that has said goodbye.
TEST(WireChannel, ALastWordThatIsNotTakenIsNotWaitedForForEver) {
  EchoServer server(wire::Limits{});
  server.on_message = [](wire::Channel& channel, std::string_view) {
    for (int i = 0; i < 300; ++i) channel.Send(std::string(100'000, 'w'));
    channel.Close();
  };
  Relay relay(server.port());
  Peer peer(relay.address());
  ASSERT_TRUE(peer.dialled().ok());
  relay.stall_down = true;
  peer.Send("go");
  while (server.received() == 0) std::this_thread::yield();  // before it there may be no channel
  const auto until = std::chrono::steady_clock::now() + kPatience;
  const auto closed = [&] {
    return server.thread().Call([&] {
      return server.only_channel()->unheard() == Duration::max();  // its socket is gone
    });
  };
  while (!closed() && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(20ms);
  EXPECT_TRUE(closed());
}

TEST(WireChannel, AMachineIsHeardOfWhileItsProcessIsSilent) {
  EchoServer server(wire::Limits{});
  Peer peer(server.address());
  ASSERT_TRUE(peer.Echo("x"));
  Duration longest(0), last(0);
  int answers = 0;  // of the other kernel
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (answers < 2 && std::chrono::steady_clock::now() < until) {
    const Duration unheard = peer.Unheard();
    answers += unheard < last ? 1 : 0;
    longest = std::max(longest, last = unheard);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(answers, 2);
  EXPECT_LT(longest, std::chrono::milliseconds(3500));
}

TEST(WireChannel, OneTurnLeavesInFewRecords) {
  EchoServer server(wire::Limits{});
  Relay relay(server.port());
  Peer peer(relay.address());
  ASSERT_TRUE(peer.dialled().ok());
  ASSERT_TRUE(peer.Echo("x"));
  size_t handshake = relay.up().size();
  peer.SendAll(std::vector<std::string>(1000, std::string(100, 'm')));
  ASSERT_TRUE(peer.WaitFor(1001));
  std::string traffic = relay.up().substr(handshake);
  size_t records = 0;
  for (size_t at = 0; at + 5 <= traffic.size(); ++records) {
    at += 5 + static_cast<size_t>(static_cast<unsigned char>(traffic[at + 3])) * 256 +
          static_cast<unsigned char>(traffic[at + 4]);
  }
  EXPECT_LE(records, 1000u * 104 / 16384 + 2);
}

TEST(WireChannel, SenderSeesWhatThePeerDoesNotTake) {
  EchoServer server(wire::Limits{});
  constexpr size_t kMessages = 400, kBytes = 100000;
  server.on_message = [](wire::Channel& channel, std::string_view) {
    for (size_t i = 0; i < kMessages; ++i) channel.Send(std::string(kBytes, static_cast<char>('a' + i % 26)));
  };
  Relay relay(server.port());
  Peer peer(relay.address());
  ASSERT_TRUE(peer.dialled().ok());
  relay.stall_down = true;
  peer.Send("go");
  auto unsent = [&] { return server.thread().Call([&] { return server.only_channel()->unsent_bytes(); }); };
  while (server.received() == 0) std::this_thread::yield();
  size_t stuck = unsent();
  EXPECT_GT(stuck, kMessages * kBytes / 2);
  EXPECT_LE(stuck, kMessages * (kBytes + 4)) << "the kernel has taken some";
  relay.stall_down = false;
  ASSERT_TRUE(peer.WaitFor(kMessages));
  auto got = peer.got();
  for (size_t i = 0; i < kMessages; ++i)
    ASSERT_TRUE(got[i] == std::string(kBytes, static_cast<char>('a' + i % 26)));
  EXPECT_EQ(unsent(), 0u);
}

TEST(WireChannel, CloseDeliversTheLastWords) {
  EchoServer server(wire::Limits{});
  std::string large(3'000'000, 'w');
  server.on_message = [&](wire::Channel& channel, std::string_view) {
    channel.Send(large);
    channel.Send("goodbye");
    channel.Close();
  };
  for (int i = 0; i < 10; ++i) {
    Peer peer(server.address());
    ASSERT_TRUE(peer.dialled().ok());
    // More than the server reads before it closes.
    peer.SendAll(std::vector<std::string>(50, std::string(10000, 'q')));
    ASSERT_TRUE(peer.WaitClosed());
    auto got = peer.got();
    ASSERT_EQ(got.size(), 2u);
    EXPECT_TRUE(got[0] == large);
    EXPECT_EQ(got[1], "goodbye");
    EXPECT_EQ(peer.end().code(), Code::kUnavailable);
    EXPECT_EQ(peer.end().message(), "the peer closed the connection")
        << "it was said, and is no cut by somebody between";
  }
}

TEST(WireChannel, ACutIsToldFromAGoodbye) {
  EchoServer server(wire::Limits{});
  auto relay = std::make_unique<Relay>(server.port());
  Peer peer(relay->address());
  ASSERT_TRUE(peer.Echo("x"));
  relay.reset();  // hangs up on both
  ASSERT_TRUE(peer.WaitClosed());
  EXPECT_EQ(peer.end().message(), "the connection was cut");
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (server.ends().empty() && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(5ms);
  EXPECT_EQ(server.ends(), std::vector<std::string>{"the connection was cut"});
}

TEST(WireChannel, EndOfAPeerIsHeardOnce) {
  EchoServer server(wire::Limits{});
  for (int i = 0; i < 5; ++i) {
    Peer peer(server.address());
    ASSERT_TRUE(peer.Echo("x"));
  }
  while (server.channels() > 0) std::this_thread::yield();
  EXPECT_EQ(server.ends().size(), 5u);
}

TEST(WireChannel, MayBeDestroyedInItsOwnCallbacks) {
  EchoServer server(wire::Limits{});
  LoopThread thread;
  std::shared_ptr<wire::Channel> mine;
  std::promise<void> closed;
  thread.Call([&] {
    wire::Dial(thread.loop(), server.address(), wire::Role::kAgent, Key(), {}, [&](auto channel) {
      mine = *channel;
      mine->Send("a");
      mine->Send("b");
      wire::ChannelHandler handler;
      handler.on_message = [&](std::string_view) {
        mine.reset();  // in the middle of a batch
        closed.set_value();
      };
      handler.on_closed = [&](const Status&) { ADD_FAILURE() << "heard of its own end"; };
      return handler;
    });
  });
  EXPECT_EQ(closed.get_future().wait_for(kPatience), std::future_status::ready);
  while (server.channels() > 0) std::this_thread::yield();
}

TEST(WireChannel, WhatItsHandlerHoldsIsLetGoWhenItIsClosed) {
  EchoServer server(wire::Limits{});
  LoopThread thread;
  auto held = std::make_shared<int>(0);
  std::shared_ptr<wire::Channel> mine;
  std::promise<void> echoed;
  thread.Call([&] {
    wire::Dial(thread.loop(), server.address(), wire::Role::kAgent, Key(), {}, [&](auto channel) {
      mine = *channel;
      mine->Send("x");
      return wire::ChannelHandler{.on_message = [&, held](std::string_view) { echoed.set_value(); },
                                  .on_closed = {}};
    });
  });
  ASSERT_EQ(echoed.get_future().wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(thread.Call([&] {
    mine->Close();
    return held.use_count();
  }),
            1);
  thread.Call([&] { mine.reset(); });
}

TEST(WireChannel, DiallingNobodyIsUnavailable) {
  uint16_t port;
  {
    EchoServer gone(wire::Limits{});
    port = gone.port();
  }
  Peer nobody("127.0.0.1:" + std::to_string(port));
  EXPECT_EQ(nobody.dialled().code(), Code::kUnavailable) << nobody.dialled().message();
  EXPECT_NE(nobody.dialled().message().find("Connection refused"), std::string::npos)
      << nobody.dialled().message();
  Peer nonsense("somewhere");
  EXPECT_EQ(nonsense.dialled().code(), Code::kInvalid);
}

TEST(WireChannel, DiallingSomebodySilentEnds) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(any);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&any), size), 0);
  ASSERT_EQ(listen(fd, 5), 0);
  getsockname(fd, reinterpret_cast<sockaddr*>(&any), &size);
  Peer peer("127.0.0.1:" + std::to_string(ntohs(any.sin_port)), Key(), wire::Role::kAgent,
            {.handshake_time = 100ms});
  EXPECT_EQ(peer.dialled().code(), Code::kUnavailable) << peer.dialled().message();
  close(fd);
}

TEST(WireChannel, NoSocketIsInheritedByTasks) {
  EchoServer server(wire::Limits{});
  Peer peer(server.address());
  ASSERT_TRUE(peer.Echo("x"));
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    int fd = atoi(entry.path().filename().c_str());
    std::error_code error;
    std::string target = std::filesystem::read_symlink(entry.path(), error).string();
    if (fd <= 2 || error ||
        (target.find("socket") == std::string::npos && target.find("anon_inode") == std::string::npos))
      continue;
    EXPECT_NE(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0) << fd << " " << target;
  }
}

}  // namespace
}  // namespace harrow::test
