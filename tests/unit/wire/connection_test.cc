// A connection with its peer's end in the test's hand: what it reads in which pieces, when it takes no more,
// when it is gone.
#include "wire/connection.h"

#include <array>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <netinet/in.h>
#include <string>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include <asio/io_context.hpp>

#include "wire/frame.h"
#include "wire/plain_engine.h"

namespace harrow::wire {
namespace {

const Credentials kKey = {"run-1", std::string(32, 'k')};

class ConnectionTest : public testing::Test {
 protected:
  ConnectionTest() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) abort();
    peer_ = ends[1];
    const int small = 8192;
    setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
    client_ = (*MakeTlsClient(kKey, Role::kAgent))->NewEngine();
    Connection::Make(&context_, ends[0], false, "peer", (*MakeTlsServer(kKey))->NewEngine(), Limits(),
                     [this](std::shared_ptr<Connection> made, const Status& why) {
                       connection_ = std::move(made);
                       refused_ = why;
                       ChannelHandler handler;
                       handler.on_message = [this, held = held_](std::string_view message) {
                         heard_.emplace_back(message);
                         if (on_word_) on_word_();
                       };
                       handler.on_closed = [this](const Status& why_closed) {
                         closed_ = why_closed.message();
                       };
                       handler.on_sent = [this] {
                         if (on_sent_) on_sent_();
                       };
                       if (on_open_) on_open_();
                       return handler;
                     })
        ->StartServer();
  }
  ~ConnectionTest() override {
    Leave();
    connection_.reset();
    Turn();
  }
  void Turn() { context_.poll(); }
  void Leave() {
    if (peer_ >= 0) close(peer_);
    peer_ = -1;
  }
  /// Gives the connection what the client has to say, `piece` bytes in a read.
  void Speak(size_t piece = SIZE_MAX) {
    while (!client_->output().empty()) {
      const std::string bytes(client_->output().substr(0, piece));
      ASSERT_EQ(send(peer_, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
      client_->ConsumeOutput(bytes.size());
      Turn();
    }
  }
  /// What the connection has sent so far. False: it has ended its side.
  bool Listen() {
    std::array<char, 65536> buffer;
    while (true) {
      const ssize_t n = recv(peer_, buffer.data(), buffer.size(), 0);
      if (n == 0) return false;
      if (n < 0) return true;
      client_->Receive({buffer.data(), static_cast<size_t>(n)}, frames_.buffer());
    }
  }
  void Shake(size_t piece = SIZE_MAX) {
    client_->Receive("", frames_.buffer());
    Speak(piece);
    Listen();
    client_->Receive("", frames_.buffer());
    Speak(piece);
    ASSERT_NE(connection_, nullptr) << refused_.message();
  }
  std::vector<std::string> Messages() {
    std::vector<std::string> messages;
    std::string_view message;
    while (frames_.Next(&message)) messages.emplace_back(message);
    return messages;
  }

  asio::io_context context_;
  int peer_ = -1;
  std::unique_ptr<TlsEngine> client_;
  FrameReader frames_{64u << 20};
  std::shared_ptr<Connection> connection_;
  Status refused_;
  std::vector<std::string> heard_;
  std::string closed_;
  std::function<void()> on_open_, on_word_, on_sent_;
  std::shared_ptr<int> held_ = std::make_shared<int>(0);  // by the handler, too
};

TEST_F(ConnectionTest, TakesWhatComesByteByByte) {
  Shake(1);
  std::string frame;
  AppendFrame("a word", &frame);
  client_->Seal(frame);
  Speak(1);
  EXPECT_EQ(heard_, std::vector<std::string>{"a word"});
  EXPECT_EQ(closed_, "");
}

TEST_F(ConnectionTest, MessagesOfATurnAreOneThingToDo) {
  Shake();
  for (int i = 0; i < 100; ++i) connection_->Send("word");
  EXPECT_EQ(context_.poll(), 1u);
  EXPECT_TRUE(Listen());
  EXPECT_EQ(Messages().size(), 100u);
  EXPECT_EQ(connection_->unsent_bytes(), 0u);
}

TEST_F(ConnectionTest, APieceOfAFileIsReadWhenItCanBeSent) {
  Shake();
  std::string content(700'000, '\0');
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 31 >> 3);
  FILE* file = tmpfile();
  ASSERT_EQ(fwrite(content.data(), 1, content.size(), file), content.size());
  fflush(file);
  auto owner = std::shared_ptr<FILE>(file, fclose);
  connection_->Send("before");
  connection_->SendFile("head ", {owner, fileno(file), 100, 600'000});
  connection_->SendFile("all that is not there: ", {owner, fileno(file), 699'990, 20});
  connection_->Send("after");
  EXPECT_EQ(connection_->unsent_bytes(), 4 + 6 + 4 + 5 + 600'000 + 4 + 23 + 20 + 4 + 5u);
  for (int looks = 0; connection_->unsent_bytes() > 0 && looks < 10'000; ++looks) {
    Turn();
    ASSERT_TRUE(Listen());
  }
  EXPECT_TRUE(Listen());
  EXPECT_EQ(owner.use_count(), 1) << "it is held no longer than it is needed";
  const std::vector<std::string> messages = Messages();
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_EQ(messages[0], "before");
  EXPECT_TRUE(messages[1] == "head " + content.substr(100, 600'000));
  EXPECT_EQ(messages[2], "all that is not there: " + content.substr(699'990) + std::string(10, '\0'));
  EXPECT_EQ(messages[3], "after");
}

TEST(PlainConnection, PiecesOfFilesGoByThemselves) {
  const std::string token(kTokenBytes, 't');
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  const int small = 8192;
  setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
  asio::io_context context;
  std::shared_ptr<Connection> connection;
  Connection::Make(&context, ends[0], false, "peer",
                   MakePlainOrTlsServer((*MakeTlsServer(kKey))->NewEngine(),
                                        [&](std::string_view t) { return t == token; }),
                   Limits(),
                   [&](std::shared_ptr<Connection> made, const Status&) {
                     connection = std::move(made);
                     return ChannelHandler();
                   })
      ->StartServer();
  const std::string greeting = "harrow/p" + token;
  ASSERT_EQ(send(ends[1], greeting.data(), greeting.size(), 0), static_cast<ssize_t>(greeting.size()));
  context.poll();
  ASSERT_NE(connection, nullptr);

  std::string content(700'000, '\0');
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 31 >> 3);
  FILE* file = tmpfile();
  ASSERT_EQ(fwrite(content.data(), 1, content.size(), file), content.size());
  fflush(file);
  auto owner = std::shared_ptr<FILE>(file, fclose);
  connection->Send("before");
  connection->SendFile("head ", {owner, fileno(file), 100, 600'000});
  connection->SendFile("all that is not there: ", {owner, fileno(file), 699'990, 20});
  connection->Send("after");
  std::string expected = "harrow/p";
  AppendFrame("before", &expected);
  AppendFrame("head " + content.substr(100, 600'000), &expected);
  AppendFrame("all that is not there: " + content.substr(699'990) + std::string(10, '\0'), &expected);
  AppendFrame("after", &expected);
  std::string got;
  std::array<char, 50'000> buffer;
  for (int looks = 0; got.size() < expected.size() && looks < 10'000; ++looks) {
    context.poll();
    const ssize_t n = recv(ends[1], buffer.data(), buffer.size(), 0);
    if (n > 0) got.append(buffer.data(), static_cast<size_t>(n));
  }
  EXPECT_TRUE(got == expected) << got.size() << " of " << expected.size() << " bytes";
  context.poll();
  EXPECT_EQ(connection->unsent_bytes(), 0u);
  EXPECT_EQ(owner.use_count(), 1);
  close(ends[1]);
  connection.reset();
  context.poll();
}

TEST_F(ConnectionTest, ItTellsOnceThatAllHasBeenTaken) {
  int told = 0;
  on_sent_ = [&] {
    ++told;
    EXPECT_EQ(connection_->unsent_bytes(), 0u);
  };
  Shake();
  Turn();
  EXPECT_EQ(told, 0);
  connection_->Send("word");
  connection_->Send("word");
  EXPECT_EQ(told, 0) << "never in the call";
  Turn();
  EXPECT_EQ(told, 1);
  connection_->Send(std::string(600'000, 'z'));
  Turn();
  EXPECT_EQ(told, 1) << "the peer has not taken it";
  for (int looks = 0; connection_->unsent_bytes() > 0 && looks < 10'000; ++looks) {
    ASSERT_TRUE(Listen());
    Turn();
  }
  EXPECT_EQ(told, 2);
  on_sent_ = [&] { connection_->Close(); };
  connection_->Send("last word");
  Turn();
  EXPECT_FALSE(Listen()) << "it may be closed in it";
  EXPECT_EQ(held_.use_count(), 1);
}

TEST_F(ConnectionTest, EachTurnIsSent) {
  Shake();
  for (const char* word : {"first", "second", "third"}) {
    connection_->Send(word);
    Turn();
    EXPECT_TRUE(Listen());
    EXPECT_EQ(Messages(), std::vector<std::string>{word});
  }
}

TEST_F(ConnectionTest, WhileThePeerTakesNothingMoreThereIsNothingToDo) {
  Shake();
  connection_->Send(std::string(600'000, 'z'));
  Turn();
  connection_->Send("word");
  EXPECT_EQ(context_.poll(), 0u);
  for (int looks = 0; connection_->unsent_bytes() > 0 && looks < 10'000; ++looks) {
    ASSERT_TRUE(Listen());
    Turn();
  }
  EXPECT_TRUE(Listen());
  EXPECT_EQ(Messages().size(), 2u);
  connection_->Send("and another");
  Turn();
  EXPECT_TRUE(Listen());
  EXPECT_EQ(Messages(), std::vector<std::string>{"and another"});
}

TEST_F(ConnectionTest, AHandshakeAWordAndAGoodbyeMayComeAtOnce) {
  client_->Receive("", frames_.buffer());
  Speak();
  Listen();
  client_->Receive("", frames_.buffer());
  std::string frame;
  AppendFrame("a word", &frame);
  client_->Seal(frame);
  client_->SealEnd();
  Speak();
  EXPECT_EQ(heard_, std::vector<std::string>{"a word"});
  EXPECT_EQ(closed_, "the peer closed the connection");
}

TEST_F(ConnectionTest, AnEndInTheHandshakeIsTold) {
  client_->Receive("", frames_.buffer());
  Speak();
  Listen();
  Leave();
  Turn();
  EXPECT_EQ(connection_, nullptr);
  EXPECT_EQ(refused_.message(), "the connection was closed during the handshake");
  EXPECT_EQ(refused_.code(), Code::kUnavailable);
  EXPECT_EQ(context_.poll(), 0u);
}

TEST_F(ConnectionTest, WhoHasAnotherKeyIsToldSoAndRefused) {
  client_ = (*MakeTlsClient({"run-1", std::string(32, 'x')}, Role::kAgent))->NewEngine();
  client_->Receive("", frames_.buffer());
  Speak();
  EXPECT_EQ(refused_.code(), Code::kRefused) << refused_.message();
  std::array<char, 100> alert;
  EXPECT_EQ(recv(peer_, alert.data(), alert.size(), 0), 7) << "TLS's word for it";
  EXPECT_EQ(recv(peer_, alert.data(), alert.size(), 0), 0) << "and the end";
}

TEST_F(ConnectionTest, ClosedWhenItOpensItHearsNothing) {
  std::shared_ptr<Connection> made;
  on_open_ = [&] {
    connection_->Send("goodbye");
    connection_->Close();
    made = connection_;
  };
  client_->Receive("", frames_.buffer());
  Speak();
  Listen();
  std::string frame;
  AppendFrame("a word", &frame);
  client_->Seal(frame);
  Speak();
  EXPECT_EQ(held_.use_count(), 1) << "nobody's handler is kept";
  EXPECT_FALSE(Listen());
  EXPECT_EQ(Messages(), std::vector<std::string>{"goodbye"});
  Leave();
  Turn();
  EXPECT_EQ(heard_, std::vector<std::string>());
  EXPECT_EQ(closed_, "") << "its own end is no news";
}

TEST_F(ConnectionTest, ClosedByAMessageItHearsNoOther) {
  Shake();
  EXPECT_EQ(held_.use_count(), 2);
  on_word_ = [&] { connection_->Close(); };
  std::string frames;
  AppendFrame("one", &frames);
  AppendFrame("another", &frames);
  client_->Seal(frames);
  Speak();
  EXPECT_EQ(heard_, std::vector<std::string>{"one"});
  EXPECT_EQ(held_.use_count(), 1);
  client_->Seal(frames);
  Speak();
  Leave();
  Turn();
  EXPECT_EQ(heard_.size(), 1u);
  EXPECT_EQ(closed_, "");
  EXPECT_EQ(connection_->unheard(), Duration::max());
}

TEST_F(ConnectionTest, TheEndOfThePeerIsToldWithItsReasonAndLetsGoOfTheHandler) {
  Shake();
  EXPECT_EQ(connection_->role(), Role::kAgent);
  EXPECT_EQ(connection_->peer(), "peer");
  Leave();
  Turn();
  EXPECT_EQ(closed_, "the connection was cut");
  EXPECT_EQ(held_.use_count(), 1);
  connection_->Send("to nobody");
  EXPECT_EQ(connection_->unsent_bytes(), 0u);
  EXPECT_EQ(context_.poll(), 0u);
}

TEST_F(ConnectionTest, ABreakIsToldFromACut) {
  Shake();
  connection_->Send("what the peer will not read");
  Turn();
  Leave();
  Turn();
  EXPECT_EQ(closed_, "the connection broke: Connection reset by peer");
}

TEST_F(ConnectionTest, LastWordsThatThePeerHasNoRoomForGoOutBeforeTheEnd) {
  Shake();
  const std::string large(300'000, 'z');
  for (int i = 0; i < 3; ++i) connection_->Send(large);
  Turn();
  EXPECT_GT(connection_->unsent_bytes(), large.size()) << "its socket is full";
  connection_->Close();
  int looks = 0;
  for (; Listen() && looks < 10'000; ++looks) Turn();
  EXPECT_LT(looks, 10'000) << "the end of its side is seen";
  EXPECT_EQ(Messages(), std::vector<std::string>(3, large));
}

TEST_F(ConnectionTest, WhatAPeerThatIsGoneDoesNotTakeIsNotKept) {
  Shake();
  Leave();
  connection_->Send("word");
  EXPECT_GT(connection_->unsent_bytes(), 0u);
  context_.poll_one();  // the write; what was to be read comes after it
  connection_->Send("another");
  EXPECT_LT(connection_->unsent_bytes(), 200u) << "what was sealed, at most";
  Turn();
  EXPECT_NE(closed_, "");
}

TEST_F(ConnectionTest, WhatWasQueuedWhenAWriteBreaksIsForgotten) {
  Shake();
  const std::string large(300'000, 'z');
  for (int i = 0; i < 4; ++i) connection_->Send(large);
  Turn();
  const size_t waiting = connection_->unsent_bytes();
  ASSERT_GT(waiting, large.size());
  Leave();
  Turn();
  EXPECT_LE(connection_->unsent_bytes(), waiting);
  connection_->Send("nothing more is taken");
  EXPECT_LE(connection_->unsent_bytes(), waiting) << "a count below zero would be a very large one";
  EXPECT_NE(closed_, "");
}

/// A socket that has all the connections that it takes: who comes now is not answered.
class Crowded {
 public:
  Crowded() : listening_(New()) {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address_;
    if (bind(listening_, reinterpret_cast<sockaddr*>(&address_), size) != 0 || listen(listening_, 0) != 0 ||
        getsockname(listening_, reinterpret_cast<sockaddr*>(&address_), &size) != 0) {
      abort();
    }
    for (int& fd : crowd_) Connect(fd = New());
  }
  ~Crowded() {
    close(listening_);
    for (const int fd : crowd_) close(fd);
  }
  static int New() { return socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }
  const sockaddr* address() const { return reinterpret_cast<const sockaddr*>(&address_); }

 private:
  void Connect(int fd) const { (void)!connect(fd, address(), sizeof address_); }

  int listening_;
  sockaddr_in address_{};
  std::array<int, 4> crowd_{};
};

TEST(Connecting, ThatIsNotAnsweredEndsOnceAndForAll) {
  const Crowded crowded;
  asio::io_context context;
  int told = 0;
  std::string why_told;
  Limits limits;
  limits.handshake_time = std::chrono::milliseconds(50);
  Connection::Make(&context, Crowded::New(), false, "nobody",
                   (*MakeTlsClient(kKey, Role::kAgent))->NewEngine(), limits,
                   [&](std::shared_ptr<Connection> made, const Status& why) {
                     EXPECT_EQ(made, nullptr);
                     why_told = why.message();
                     ++told;
                     return ChannelHandler();
                   })
      ->StartClient(crowded.address(), sizeof(sockaddr_in));
  const auto began = std::chrono::steady_clock::now();
  context.run_for(std::chrono::seconds(20));
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(20))
      << "nothing is left to wait for";
  EXPECT_EQ(told, 1);
  EXPECT_EQ(why_told, "no answer from nobody");
}

TEST(Connecting, ThatFailsAtOnceIsToldButNotInTheCallItself) {
  asio::io_context context;
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  ASSERT_GE(fd, 0);
  std::string told;
  const auto connection =
      Connection::Make(&context, fd, false, "nobody", (*MakeTlsClient(kKey, Role::kAgent))->NewEngine(),
                       Limits(), [&](std::shared_ptr<Connection> made, const Status& why) {
                         EXPECT_EQ(made, nullptr);
                         told = why.message();
                         return ChannelHandler();
                       });
  sockaddr_storage nowhere{};
  nowhere.ss_family = AF_APPLETALK;
  connection->StartClient(reinterpret_cast<const sockaddr*>(&nowhere), sizeof nowhere);
  EXPECT_EQ(told, "");
  context.poll();
  EXPECT_EQ(told.substr(0, 26), "cannot connect to nobody: ") << told;
}

}  // namespace
}  // namespace harrow::wire
