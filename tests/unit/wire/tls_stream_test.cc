// The stream of an open engine: pieces, ends, and what is done with it too early or too late.

#include <gtest/gtest.h>

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
