#include "wire/plain_engine.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace harrow::wire {
namespace {

using State = TlsEngine::State;

const Credentials kPlainKey = {"run-1", std::string(32, 'k')};
const std::string kToken(kTokenBytes, 't');

std::string Take(TlsEngine& engine) {
  std::string out(engine.output());
  engine.ConsumeOutput(out.size());
  return out;
}

class PlainEngineTest : public testing::Test {
 protected:
  std::unique_ptr<TlsEngine> Server() {
    return MakePlainOrTlsServer((*MakeTlsServer(kPlainKey))->NewEngine(), [this](std::string_view token) {
      asked_.emplace_back(token);
      return token == kToken;
    });
  }
  std::vector<std::string> asked_;
  std::string at_server_, at_client_;
};

TEST_F(PlainEngineTest, ATokenOpensItAndBytesPassAsTheyAre) {
  auto server = Server();
  auto client = MakePlainClient(kToken);
  EXPECT_EQ(client->Receive("", &at_client_), State::kHandshake);
  for (const char c : Take(*client)) server->Receive(std::string(1, c), &at_server_);
  EXPECT_EQ(server->Receive("", &at_server_), State::kOpen);
  server->Seal("down");
  EXPECT_EQ(client->Receive(Take(*server), &at_client_), State::kOpen);
  EXPECT_EQ(at_client_, "down");
  client->Seal("up");
  client->SealEnd();
  EXPECT_EQ(client->output(), "up");
  server->Receive(Take(*client), &at_server_);
  EXPECT_EQ(at_server_, "up");
  EXPECT_TRUE(server->plain());
  EXPECT_TRUE(client->plain());
  EXPECT_EQ(server->role(), Role::kBulk);
  EXPECT_EQ(client->role(), Role::kBulk);
  EXPECT_EQ(asked_, std::vector<std::string>{kToken});
}

TEST_F(PlainEngineTest, WhatComesRightAfterTheTokenIsTaken) {
  auto server = Server();
  auto client = MakePlainClient(kToken);
  EXPECT_EQ(server->Receive(Take(*client) + "at once", &at_server_), State::kOpen);
  EXPECT_EQ(at_server_, "at once");
}

TEST_F(PlainEngineTest, WhatIsTakenInPartsGoesOnBehindThem) {
  auto client = MakePlainClient(kToken);
  client->Seal("word");
  const std::string all = "harrow/p" + kToken + "word";
  for (size_t at = 0; at < all.size(); at += 11) {
    ASSERT_EQ(client->output(), all.substr(at));
    client->ConsumeOutput(std::min<size_t>(11, all.size() - at));
  }
  EXPECT_EQ(client->output(), "");
}

TEST_F(PlainEngineTest, WithoutTheTokenItIsRefusedAndHearsNothing) {
  for (const std::string& bytes : {"harrow/p" + std::string(kTokenBytes, 'x') + "word",
                                   "harrow/q" + kToken + "word", std::string(200, 'h')}) {
    auto server = Server();
    EXPECT_EQ(server->Receive(bytes, &at_server_), State::kFailed);
    EXPECT_EQ(server->failure().code(), Code::kRefused);
    EXPECT_EQ(server->output(), "");
    EXPECT_EQ(server->Receive("word", &at_server_), State::kFailed);
  }
  EXPECT_EQ(at_server_, "");
  auto client = MakePlainClient(kToken);
  EXPECT_EQ(client->Receive("HTTP/1.1 200 OK", &at_client_), State::kFailed);
  EXPECT_EQ(client->failure().code(), Code::kRefused);
  EXPECT_EQ(at_client_, "");
}

TEST_F(PlainEngineTest, WhatIsNoTokenIsTls) {
  auto server = Server();
  auto client = (*MakeTlsClient(kPlainKey, Role::kAgent))->NewEngine();
  State state = client->Receive("", &at_client_);
  for (int i = 0; i < 4; ++i) {
    server->Receive(Take(*client), &at_server_);
    state = client->Receive(Take(*server), &at_client_);
  }
  EXPECT_EQ(state, State::kOpen);
  client->Seal("secret");
  const std::string sealed = Take(*client);
  EXPECT_EQ(sealed.find("secret"), std::string::npos);
  EXPECT_EQ(server->Receive(sealed, &at_server_), State::kOpen);
  EXPECT_EQ(at_server_, "secret");
  EXPECT_EQ(server->role(), Role::kAgent);
  EXPECT_FALSE(server->plain());
  server->Seal("answer");
  client->Receive(Take(*server), &at_client_);
  EXPECT_EQ(at_client_, "answer");
  server->SealEnd();
  EXPECT_EQ(client->Receive(Take(*server), &at_client_), State::kClosedByPeer);
  auto other = Server();
  EXPECT_EQ(other->Receive("GET / HTTP/1.1\r\n\r\n", &at_server_), State::kFailed);
  EXPECT_NE(other->failure().message().find("http request"), std::string::npos);
  EXPECT_TRUE(asked_.empty());
}

}  // namespace
}  // namespace harrow::wire
