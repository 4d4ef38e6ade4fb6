// The stream of an open engine: pieces, ends, and what is done with it too early or too late.

#include <gtest/gtest.h>
#include <openssl/err.h>

#include "wire/tls_engine.h"

namespace harrow::wire {
namespace {

using State = TlsEngine::State;

class TlsStream : public ::testing::Test {
 protected:
  TlsStream() {
    const Credentials credentials = {"run-1", std::string(32, 'k')};
    server_ = (*MakeTlsServer(credentials))->NewEngine();
    client_ = (*MakeTlsClient(credentials, Role::kAgent))->NewEngine();
  }
  void Open() {
    std::string plain;
    EXPECT_EQ(client_->Receive("", &plain), State::kHandshake);
    EXPECT_EQ(server_->Receive(All(*client_), &plain), State::kHandshake);
    EXPECT_EQ(client_->Receive(All(*server_), &plain), State::kOpen);
    EXPECT_EQ(server_->Receive(All(*client_), &plain), State::kOpen) << "when the client's Finished is there";
    EXPECT_EQ(plain, "");
    EXPECT_EQ(server_->output(), "") << "no ticket";
  }
  static std::string All(TlsEngine& engine) {
    std::string out(engine.output());
    engine.ConsumeOutput(out.size());
    return out;
  }
  std::unique_ptr<TlsEngine> server_, client_;
};

TEST_F(TlsStream, BeforeItIsOpenNothingIsSent) {
  client_->Seal("too early");
  client_->SealEnd();
  EXPECT_EQ(client_->output(), "");
  EXPECT_EQ(server_->role(), Role::kClient) << "until it is known, the one that may do less";
  EXPECT_EQ(client_->role(), Role::kAgent);
  Open();
  EXPECT_EQ(server_->role(), Role::kAgent);
}

TEST_F(TlsStream, GoesOutInPiecesOfAnySize) {
  Open();
  const std::string text(100'000, 't');
  client_->Seal(text);
  client_->Seal("");
  const std::string whole(client_->output());
  EXPECT_GT(whole.size(), text.size());
  std::string plain;
  for (size_t at = 0, piece = 1; at < whole.size();
       at += piece, piece = std::min(piece * 3, whole.size() - at)) {
    ASSERT_EQ(client_->output(), std::string_view(whole).substr(at));
    EXPECT_EQ(server_->Receive(client_->output().substr(0, piece), &plain), State::kOpen);
    client_->ConsumeOutput(piece);
  }
  EXPECT_EQ(client_->output(), "");
  EXPECT_EQ(plain, text);
  client_->Seal("more");
  EXPECT_EQ(server_->Receive(All(*client_), &plain), State::kOpen);
  EXPECT_EQ(plain, text + "more");
}

TEST_F(TlsStream, AnErrorThatAnotherUserOfTheLibraryLeftBehindIsNotOurs) {
  std::string plain;
  const auto leave_one = [] { ERR_raise(ERR_LIB_USER, ERR_R_INTERNAL_ERROR); };
  client_->Receive("", &plain);
  leave_one();
  EXPECT_EQ(server_->Receive(All(*client_).substr(0, 20), &plain), State::kHandshake);
  server_ = (*MakeTlsServer({"run-1", std::string(32, 'k')}))->NewEngine();
  client_ = (*MakeTlsClient({"run-1", std::string(32, 'k')}, Role::kAgent))->NewEngine();
  Open();
  leave_one();
  client_->Seal("word");
  EXPECT_EQ(server_->Receive(All(*client_), &plain), State::kOpen);
  EXPECT_EQ(plain, "word");
  ERR_clear_error();
}

TEST(TlsKeys, AreChangedAfterSoManyBytes) {
  EXPECT_EQ(kBytesPerKey, 68'719'476'736u) << "64 GiB";
  const Credentials credentials = {"run-1", std::string(32, 'k')};
  for (const bool by_client : {false, true}) {
    const auto server = (*MakeTlsServer(credentials, 1000))->NewEngine();
    const auto client = (*MakeTlsClient(credentials, Role::kAgent, 1000))->NewEngine();
    std::string plain;
    const auto all = [](TlsEngine& engine) {
      std::string out(engine.output());
      engine.ConsumeOutput(out.size());
      return out;
    };
    client->Receive("", &plain);
    server->Receive(all(*client), &plain);
    client->Receive(all(*server), &plain);
    ASSERT_EQ(server->Receive(all(*client), &plain), State::kOpen);
    TlsEngine& from = by_client ? *client : *server;
    TlsEngine& to = by_client ? *server : *client;
    constexpr size_t kHead = 5, kTail = 17, kKeyUpdate = 5;  // of each record; the message that tells it
    std::string said;
    const auto records = [&](size_t bytes) {
      const std::string text(bytes, static_cast<char>('a' + said.size() % 26));
      from.Seal(text);
      said += text;
      const std::string out = all(from);
      EXPECT_EQ(to.Receive(out, &plain), State::kOpen);
      return out.size() == kHead + bytes + kTail                      ? 1
             : out.size() == 2 * (kHead + kTail) + bytes + kKeyUpdate ? 2
                                                                      : 0;
    };
    EXPECT_EQ(records(600), 1);
    EXPECT_EQ(records(400), 1) << "1000 with one key";
    EXPECT_EQ(records(700), 2) << "the next has another";
    EXPECT_EQ(records(300), 1);
    EXPECT_EQ(records(1), 2);
    EXPECT_EQ(records(1), 1);
    EXPECT_EQ(plain, said);
  }
}

TEST_F(TlsStream, OneVersionAndOneSuiteAreOffered) {
  std::string plain;
  client_->Receive("", &plain);
  const std::string hello = All(*client_);
  constexpr size_t kSession = 5 + 4 + 2 + 32;  // headers, version of old, random bytes
  const size_t suites = kSession + 1 + static_cast<unsigned char>(hello.at(kSession));
  EXPECT_EQ(hello.substr(suites, 6), std::string("\x00\x04\x13\x02\x00\xff", 6)) << "and no renegotiation";
  EXPECT_NE(hello.find(std::string("\x00\x2b\x00\x03\x02\x03\x04", 7)), std::string::npos) << "TLS 1.3 only";
}

TEST_F(TlsStream, ALongNameOfAnotherRunIsToldInPart) {
  client_ = (*MakeTlsClient({std::string(200, 'x'), std::string(32, 'k')}, Role::kAgent))->NewEngine();
  std::string plain;
  client_->Receive("", &plain);
  EXPECT_EQ(server_->Receive(All(*client_), &plain), State::kFailed);
  const std::string& said = server_->failure().message();
  EXPECT_EQ(server_->failure().code(), Code::kRefused);
  constexpr std::string_view kBefore = "harrow/1 agent ";
  EXPECT_EQ(std::count(said.begin(), said.end(), 'x'), 80 - kBefore.size()) << said;
}

TEST_F(TlsStream, NothingIsTakenInAfterTheEnd) {
  Open();
  client_->Seal("last words");
  client_->SealEnd();
  const std::string bytes = All(*client_);
  std::string plain;
  EXPECT_EQ(server_->Receive(bytes, &plain), State::kClosedByPeer);
  EXPECT_EQ(server_->Receive(bytes, &plain), State::kClosedByPeer);
  EXPECT_EQ(plain, "last words");
  server_->Seal("nobody hears it");
  server_->SealEnd();
  EXPECT_EQ(server_->output(), "");
}

TEST_F(TlsStream, AFailureStays) {
  Open();
  client_->Seal("changed on its way");
  std::string bytes = All(*client_);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  std::string plain;
  EXPECT_EQ(server_->Receive(bytes, &plain), State::kFailed);
  EXPECT_EQ(server_->failure().code(), Code::kDamaged);
  EXPECT_NE(server_->failure().message().find("does not verify ("), std::string::npos);
  client_->Seal("as it should be");
  EXPECT_EQ(server_->Receive(All(*client_), &plain), State::kFailed);
  EXPECT_EQ(plain, "");
}

TEST_F(TlsStream, WhoSpeaksSomethingElseIsToldApart) {
  std::string plain;
  EXPECT_EQ(server_->Receive("GET / HTTP/1.1\r\n\r\n", &plain), State::kFailed);
  EXPECT_NE(server_->failure().message().find("does not speak this protocol"), std::string::npos)
      << server_->failure().message();
  client_->Receive("", &plain);
  EXPECT_EQ(client_->Receive("HTTP/1.1 400 Bad Request\r\n\r\n", &plain), State::kFailed);
  EXPECT_NE(client_->failure().message().find("does not speak this protocol"), std::string::npos)
      << client_->failure().message();
}

}  // namespace
}  // namespace harrow::wire
