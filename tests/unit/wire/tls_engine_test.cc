#include "wire/tls_engine.h"

#include <gtest/gtest.h>
#include <random>

namespace harrow::wire {
namespace {

using State = TlsEngine::State;

Credentials KeyOf(std::string id = "run-1", char key = 'k') {
  return {std::move(id), std::string(32, key)};
}

std::unique_ptr<TlsEngine> Server(const Credentials& c) {
  return (*MakeTlsServer(c))->NewEngine();
}
std::unique_ptr<TlsEngine> Client(const Credentials& c, Role role) {
  return (*MakeTlsClient(c, role))->NewEngine();
}

std::string Sent(TlsEngine& engine) {
  std::string out(engine.output());
  engine.ConsumeOutput(out.size());
  return out;
}

/// Two ends whose bytes are carried to and fro until neither has any; keeps what went over the line.
struct Line {
  std::unique_ptr<TlsEngine> server, client;
  State server_state = State::kHandshake, client_state = State::kHandshake;
  std::string at_server, at_client;
  std::string to_server, to_client;

  Line(const Credentials& s, const Credentials& c, Role role = Role::kAgent)
      : server(Server(s)), client(Client(c, role)) {
    client_state = client->Receive("", &at_client);
    Carry();
  }
  void Carry() {
    while (!server->output().empty() || !client->output().empty()) {
      std::string up = Sent(*client), down = Sent(*server);
      to_server += up;
      to_client += down;
      if (!up.empty()) server_state = server->Receive(up, &at_server);
      if (!down.empty()) client_state = client->Receive(down, &at_client);
    }
  }
};

TEST(TlsEngine, SameKeyRunAndRoleOpens) {
  for (Role role : {Role::kAgent, Role::kClient}) {
    Line line(KeyOf(), KeyOf(), role);
    ASSERT_EQ(line.server_state, State::kOpen);
    ASSERT_EQ(line.client_state, State::kOpen);
    EXPECT_EQ(line.server->role(), role);
    EXPECT_EQ(line.client->role(), role);
    std::string large(100000, 'z');
    line.client->Seal("up");
    line.server->Seal(large);
    line.Carry();
    EXPECT_EQ(line.at_server, "up");
    EXPECT_EQ(line.at_client, large);
  }
}

TEST(TlsEngine, APeerIsServedWhereOnlyPeersAre) {
  const auto peers = *MakeTlsServer(KeyOf(), kBytesPerKey, {Role::kPeer});
  for (Role role : {Role::kAgent, Role::kClient, Role::kPeer}) {
    Line line(KeyOf(), KeyOf(), role);
    EXPECT_EQ(line.server_state == State::kOpen, role != Role::kPeer) << "a run's server";
    line.server = peers->NewEngine();
    line.client = Client(KeyOf(), role);
    line.client->Receive("", &line.at_client);
    line.Carry();
    EXPECT_EQ(line.server_state == State::kOpen, role == Role::kPeer) << "an agent";
    EXPECT_EQ(line.client_state == State::kOpen, role == Role::kPeer);
    if (role == Role::kPeer) {
      EXPECT_EQ(line.server->role(), Role::kPeer);
    }
    EXPECT_FALSE(line.server->plain());
  }
}

TEST(TlsEngine, WhatIsSentIsNotReadable) {
  Line line(KeyOf(), KeyOf());
  std::string secret = "mProject raw/17.fits p/17.fits region.hdr";
  line.client->Seal(secret);
  line.Carry();
  EXPECT_EQ(line.at_server, secret);
  EXPECT_EQ(line.to_server.find("mProject"), std::string::npos);
  EXPECT_EQ(line.to_server.find("fits"), std::string::npos);
}

TEST(TlsEngine, WrongKeyIsRefusedOnBothSides) {
  Line line(KeyOf(), KeyOf("run-1", 'x'));
  EXPECT_EQ(line.server_state, State::kFailed);
  EXPECT_EQ(line.server->failure().code(), Code::kRefused);
  EXPECT_NE(line.server->failure().message().find("wrong key"), std::string::npos);
  EXPECT_EQ(line.client_state, State::kFailed);
  EXPECT_EQ(line.client->failure().code(), Code::kRefused);
  EXPECT_NE(line.client->failure().message().find("does not accept the key"), std::string::npos)
      << line.client->failure().message();
}

TEST(TlsEngine, OtherRunIsRefusedAndNamed) {
  Line line(KeyOf("run-1"), KeyOf("run-2"));
  EXPECT_EQ(line.server_state, State::kFailed);
  EXPECT_NE(line.server->failure().message().find("run-2"), std::string::npos)
      << line.server->failure().message();
  EXPECT_EQ(line.client->failure().code(), Code::kRefused);
  EXPECT_EQ(line.client->failure().message().find("internal error"), std::string::npos)
      << "it is no fault of the server's: " << line.client->failure().message();
}

TEST(TlsEngine, WhatIsNoHandshakeIsToldWithTheReason) {
  auto server = Server(KeyOf());
  std::string plain;
  EXPECT_EQ(server->Receive("GET / HTTP/1.1\r\n\r\n", &plain), State::kFailed);
  EXPECT_NE(server->failure().message().find("http request"), std::string::npos)
      << server->failure().message();
}

TEST(TlsEngine, RunIdsThatLookLikeARoleDoNotMeetAnother) {
  for (auto [server, client] :
       {std::pair("a", "a "), std::pair("agent x", "x"), std::pair("x", "agent x"), std::pair("", " ")}) {
    Line line(KeyOf(server), KeyOf(client), Role::kClient);
    EXPECT_EQ(line.server_state, State::kFailed) << server << " | " << client;
  }
}

TEST(TlsEngine, ShortKeyIsInvalid) {
  EXPECT_EQ(MakeTlsServer({"run", "short"}).status().code(), Code::kInvalid);
  EXPECT_EQ(MakeTlsClient({"run", ""}, Role::kAgent).status().code(), Code::kInvalid);
}

TEST(TlsEngine, RecordedBytesOpenNothing) {
  Line recorded(KeyOf(), KeyOf());
  recorded.client->Seal("start everything again");
  recorded.Carry();
  ASSERT_EQ(recorded.at_server, "start everything again");

  auto server = Server(KeyOf());
  std::string plain;
  State state = server->Receive(recorded.to_server, &plain);
  EXPECT_NE(state, State::kOpen);
  EXPECT_EQ(plain, "");

  // Also when each piece is sent only after the server's answer to the one before.
  server = Server(KeyOf());
  size_t hello = 0;
  for (size_t n = 1; n <= recorded.to_server.size() && server->output().empty(); ++n) {
    ASSERT_EQ(server->Receive(recorded.to_server.substr(n - 1, 1), &plain), State::kHandshake);
    hello = n;
  }
  ASSERT_LT(hello, recorded.to_server.size());
  EXPECT_EQ(server->Receive(recorded.to_server.substr(hello), &plain), State::kFailed);
  EXPECT_EQ(plain, "");
}

TEST(TlsEngine, RecordedAnswersFoolNoClient) {
  Line recorded(KeyOf(), KeyOf());
  auto client = Client(KeyOf(), Role::kAgent);
  std::string plain;
  client->Receive("", &plain);
  EXPECT_EQ(client->Receive(recorded.to_client, &plain), State::kFailed);
}

TEST(TlsEngine, NoPrefixOfAHandshakeOpens) {
  Line recorded(KeyOf(), KeyOf());
  for (size_t n = 0; n < recorded.to_server.size(); n += 7) {
    auto server = Server(KeyOf());
    std::string plain;
    EXPECT_NE(server->Receive(recorded.to_server.substr(0, n), &plain), State::kOpen);
  }
}

TEST(TlsEngine, FlippedBitOfTheStreamIsAnErrorAndDeliversNothing) {
  auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 100; ++round) {
    Line line(KeyOf(), KeyOf());
    line.client->Seal("a message that must not change");
    std::string bytes = Sent(*line.client);
    size_t bit = random() % (bytes.size() * 8);
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    State state = line.server->Receive(bytes, &line.at_server);
    // A longer length only makes it wait for more.
    EXPECT_TRUE(state == State::kFailed || (state == State::kOpen && bit / 8 < 5)) << "bit " << bit;
    EXPECT_EQ(line.at_server, "");
    if (state == State::kFailed) {
      EXPECT_EQ(line.server->failure().code(), Code::kDamaged);
    }
  }
}

TEST(TlsEngine, GarbageAndPlainTextAreRefused) {
  for (std::string text : {std::string("GET / HTTP/1.1\r\nHost: node1\r\n\r\n"), std::string(5000, '\0'),
                           std::string("SSH-2.0-OpenSSH_9.2\r\n"), std::string(300, '\xff')}) {
    auto server = Server(KeyOf());
    std::string plain;
    EXPECT_EQ(server->Receive(text, &plain), State::kFailed);
    EXPECT_EQ(server->failure().code(), Code::kRefused);
    EXPECT_EQ(plain, "");
  }
}

/// Whether TLS protects this byte of a flight: all but the version in the header of a record that is not
/// encrypted.
bool IsProtected(std::string_view flight, size_t at) {
  constexpr size_t kHeader = 5;
  constexpr unsigned char kEncrypted = 23;
  for (size_t begin = 0; begin + kHeader <= flight.size();) {
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(flight[begin + i]); };
    if (at == begin + 1 || at == begin + 2) return byte(0) == kEncrypted;
    begin += kHeader + byte(3) * 256u + byte(4);
  }
  return true;
}

enum class Damaged { kNot, kVersionOnly, kYes };

/// Changes or cuts a flight at random.
Damaged Damage(std::mt19937& random, std::string* flight) {
  const std::string before = *flight;
  (*flight)[random() % flight->size()] = static_cast<char>(random());
  if (random() % 4 == 0) flight->resize(random() % flight->size());
  if (flight->size() != before.size()) return Damaged::kYes;
  for (size_t i = 0; i < before.size(); ++i) {
    if (before[i] != (*flight)[i] && IsProtected(before, i)) return Damaged::kYes;
  }
  return *flight == before ? Damaged::kNot : Damaged::kVersionOnly;
}

TEST(TlsEngine, RandomDamageOfTheHandshakeNeverOpens) {
  auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  int damaged = 0;
  for (int round = 0; round < 600; ++round) {
    SCOPED_TRACE(testing::Message() << "round " << round);
    const int which = round % 4;  // the hello, the answer, the finish; none: then it opens
    auto server = Server(KeyOf());
    auto client = Client(KeyOf(), Role::kAgent);
    std::string at_server, at_client;
    Damaged done = Damaged::kNot;
    const auto carry = [&](TlsEngine& from, TlsEngine& to, std::string* plain, bool damage) {
      std::string flight = Sent(from);
      if (damage) done = Damage(random, &flight);
      return to.Receive(flight, plain);
    };
    client->Receive("", &at_client);
    carry(*client, *server, &at_server, which == 0);
    State client_state = carry(*server, *client, &at_client, which == 1);
    State server_state = carry(*client, *server, &at_server, which == 2);
    const bool changed = done == Damaged::kYes;
    if (changed) {
      EXPECT_NE(server_state, State::kOpen);
      if (which < 2) {
        EXPECT_NE(client_state, State::kOpen);
      }
    }
    client->Seal("secret");
    server->Seal("answer");
    server_state = carry(*client, *server, &at_server, false);
    client_state = carry(*server, *client, &at_client, false);
    if (changed) {
      ++damaged;
      EXPECT_NE(server_state, State::kOpen);
      EXPECT_EQ(at_server, "");
      EXPECT_EQ(at_client, "");
    } else if (done == Damaged::kNot) {
      EXPECT_EQ(server_state, State::kOpen);
      EXPECT_EQ(client_state, State::kOpen);
      EXPECT_EQ(at_server, "secret");
      EXPECT_EQ(at_client, "answer");
    }
  }
  EXPECT_GT(damaged, 400);
}

TEST(TlsEngine, EveryByteOfTheKeyCounts) {
  for (size_t byte = 0; byte < 32; ++byte) {
    Credentials other = KeyOf();
    other.key[byte] = static_cast<char>(other.key[byte] ^ 1);
    Line line(KeyOf(), other);
    EXPECT_NE(line.server_state, State::kOpen) << byte;
    EXPECT_NE(line.client_state, State::kOpen) << byte;
    EXPECT_EQ(line.server->failure().message(), "it holds a wrong key") << byte;
  }
}

std::string Hex(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    text += kDigits[static_cast<unsigned char>(c) >> 4];
    text += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

// Reckoned by another program's HKDF.
TEST(TlsEngine, TheKeyIsBoundToTheRoleAndTheRun) {
  EXPECT_EQ(Hex(*RoleKey(KeyOf("run-1"), Role::kAgent)),
            "b6b794165c18cb784f6f3bb965009ff7e39e9ad4c1054795"
            "2c90b28247a787da7ed6afe08474d3ceb01d4d4d36a2ea09");
  EXPECT_EQ(Hex(*RoleKey(KeyOf("run-1"), Role::kClient)),
            "e584e26c3aa5a9e5e200663b1364122f70726882013c88a2"
            "78052ae6a2f1a52524df11fe034092f2983b9aa16164b7de");
  EXPECT_EQ(Hex(*RoleKey(KeyOf("run-1"), Role::kPeer)),
            "b41e6954a6f01b14a36d7149da6f875ca05cbc89e1d02fe8"
            "14dcf091f3812107f0daa033abb9aa559afe4b5c4c5313f3");
  EXPECT_NE(*RoleKey(KeyOf("run-2"), Role::kAgent), *RoleKey(KeyOf("run-1"), Role::kAgent));
  EXPECT_EQ(RoleKey({"run-1", std::string(31, 'k')}, Role::kAgent).status().code(), Code::kInvalid);
}

TEST(TlsEngine, EndOfThePeerIsSeen) {
  Line line(KeyOf(), KeyOf());
  line.client->Seal("last words");
  line.client->SealEnd();
  line.Carry();
  EXPECT_EQ(line.at_server, "last words");
  EXPECT_EQ(line.server_state, State::kClosedByPeer);
}

}  // namespace
}  // namespace harrow::wire
