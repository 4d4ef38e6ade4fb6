// What harrow-pmix has for read(), writev() and epoll_wait(), which this program has, too: a thread that
// loops hears of each loss alone.
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <string>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <thread>
#include <unistd.h>
#include <utility>

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which have a read() of their own

namespace harrow::agent::pmix {
namespace {

/// Two ends of which the other may say something, or go.
class Ends {
 public:
  Ends() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends_), 0); }
  ~Ends() {
    Go();
    close(ends_[0]);
  }
  Ends(const Ends&) = delete;
  Ends& operator=(const Ends&) = delete;
  void Say(const std::string& text) const {
    EXPECT_EQ(send(ends_[1], text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  }
  void Go() {
    if (ends_[1] >= 0) close(std::exchange(ends_[1], -1));
  }
  int here() const { return ends_[0]; }

 private:
  int ends_[2] = {-1, -1};
};

/// What was read, "gone", or the error's name.
std::string Read(int fd) {
  char buffer[100];
  errno = 0;
  const ssize_t n = read(fd, buffer, sizeof buffer);
  if (n > 0) return {buffer, static_cast<size_t>(n)};
  return n == 0 ? "gone" : strerrorname_np(errno);
}
std::string Write(int fd) {
  char one[] = "a", other[] = "bc";
  const iovec pieces[] = {{one, 1}, {other, 2}};
  errno = 0;
  const ssize_t n = writev(fd, pieces, 2);
  return n < 0 ? strerrorname_np(errno) : std::to_string(n);
}

/// On a thread of its own, which looks for what is ready where it is told to.
class PmixLossesTest : public testing::Test {
 protected:
  PmixLossesTest() { std::signal(SIGPIPE, SIG_IGN); }
  ~PmixLossesTest() override { close(epoll_); }
  /// The next pass; how much is ready.
  int Look() {
    epoll_event events[8];
    return epoll_wait(epoll_, events, 8, 0);
  }
  static void OnThread(const std::function<void()>& work) { std::thread(work).join(); }

  const int epoll_ = epoll_create1(EPOLL_CLOEXEC);
};

TEST_F(PmixLossesTest, WhoNeverLoopsReadsWhatThereIs) {
  OnThread([] {
    Ends one, other;
    other.Go();
    one.Say("x");
    EXPECT_EQ(Read(other.here()), "gone");
    EXPECT_EQ(Read(one.here()), "x");
    EXPECT_EQ(Read(one.here()), "EAGAIN");
    EXPECT_EQ(Write(one.here()), "3");
    EXPECT_EQ(Write(other.here()), "EPIPE");
  });
}

TEST_F(PmixLossesTest, ALossComesAloneInTheNextPass) {
  OnThread([this] {
    Ends one, other, third;
    for (const Ends* const ends : {&one, &other, &third}) {
      epoll_event wanted{.events = EPOLLIN, .data = {.fd = ends->here()}};
      EXPECT_EQ(epoll_ctl(epoll_, EPOLL_CTL_ADD, ends->here(), &wanted), 0);
    }
    one.Say("x");
    other.Say("y");
    third.Go();
    EXPECT_EQ(Look(), 3);
    EXPECT_EQ(Read(one.here()), "x");
    EXPECT_EQ(Read(third.here()), "EAGAIN") << "it is found beside something";
    EXPECT_EQ(Read(other.here()), "y");
    one.Say("z");
    EXPECT_EQ(Look(), 2);
    EXPECT_EQ(Read(one.here()), "EAGAIN") << "a loss is owed";
    EXPECT_EQ(Read(third.here()), "gone");
    EXPECT_EQ(Read(one.here()), "EAGAIN");
    EXPECT_EQ(Read(third.here()), "EAGAIN") << "a second one";
    EXPECT_EQ(Look(), 2);
    EXPECT_EQ(Read(third.here()), "gone");
    EXPECT_EQ(Look(), 2);
    EXPECT_EQ(Read(one.here()), "z");
    EXPECT_EQ(Read(one.here()), "EAGAIN");
  });
}

TEST_F(PmixLossesTest, WhatIsNoSocketHasItsTurnAlways) {
  OnThread([this] {
    Ends lost;
    lost.Go();
    int pipes[2];
    EXPECT_EQ(pipe2(pipes, O_CLOEXEC | O_NONBLOCK), 0);
    Look();
    EXPECT_EQ(Read(lost.here()), "gone");
    EXPECT_EQ(write(pipes[1], "xy", 2), 2);
    EXPECT_EQ(Read(pipes[0]), "xy");
    close(pipes[1]);
    EXPECT_EQ(Read(pipes[0]), "gone");
    close(pipes[0]);
    EXPECT_EQ(Read(-1), "EBADF");
    EXPECT_EQ(Read(lost.here()), "EAGAIN") << "one in a pass";
  });
}

/// Reset, and not closed.
TEST_F(PmixLossesTest, AConnectionThatHasFailedIsALoss) {
  OnThread([this] {
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(listener, reinterpret_cast<const sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener, 1), 0);
    EXPECT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
    const int there = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(connect(there, reinterpret_cast<const sockaddr*>(&address), size), 0);
    const int here = accept(listener, nullptr, nullptr);
    const linger reset = {1, 0};
    setsockopt(there, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    close(there);
    Ends one;
    one.Say("x");
    Look();
    EXPECT_EQ(Read(one.here()), "x");
    EXPECT_EQ(Read(here), "EAGAIN");
    Look();
    EXPECT_EQ(Read(one.here()), "EAGAIN");
    EXPECT_EQ(Read(here), "gone");
    close(here);
    close(listener);
  });
}

TEST_F(PmixLossesTest, OfAWriteToWhoIsGoneNothingIsSaid) {
  OnThread([this] {
    Ends lost, there;
    lost.Go();
    Look();
    EXPECT_EQ(Write(there.here()), "3");
    EXPECT_EQ(Write(lost.here()), "EAGAIN");
    EXPECT_EQ(Write(-1), "EBADF");
    EXPECT_EQ(Read(lost.here()), "gone");
  });
}

}  // namespace
}  // namespace harrow::agent::pmix

#endif
