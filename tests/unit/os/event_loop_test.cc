#include "os/event_loop.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <string>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "support/fake_event_loop.h"

namespace harrow::os {
namespace {

using namespace std::chrono_literals;

class Pipe {
 public:
  Pipe() {
    if (pipe2(ends_, O_CLOEXEC) != 0) abort();
  }
  ~Pipe() {
    CloseWrite();
    close(ends_[0]);
  }
  int read_end() const { return ends_[0]; }
  void Write(std::string_view text) {
    if (write(ends_[1], text.data(), text.size()) != static_cast<ssize_t>(text.size())) abort();
  }
  std::string Read(size_t limit) {
    std::string out(limit, '\0');
    out.resize(static_cast<size_t>(std::max<ssize_t>(read(ends_[0], out.data(), limit), 0)));
    return out;
  }
  void CloseWrite() {
    if (ends_[1] >= 0) close(std::exchange(ends_[1], -1));
  }

 private:
  int ends_[2];
};

TEST(EventLoop, RunsPostedWorkInOrderAlsoFromOtherThreads) {
  auto loop = MakeEventLoop();
  std::vector<int> ran;
  int others = 0, ended = 0;
  auto end = [&] {
    if (++ended == 2) loop->Stop();
  };
  loop->Post([&] { ran.push_back(1); });
  loop->Post([&] {
    ran.push_back(2);
    loop->Post([&] {
      ran.push_back(4);
      end();
    });
  });
  loop->Post([&] { ran.push_back(3); });
  std::thread other([&] {
    for (int i = 0; i < 1000; ++i) loop->Post([&] { ++others; });
    loop->Post(end);
  });
  loop->Run();
  other.join();
  EXPECT_EQ(ran, (std::vector{1, 2, 3, 4}));
  EXPECT_EQ(others, 1000);
}

TEST(EventLoop, RunsAgainAfterStop) {
  auto loop = MakeEventLoop();
  for (int i = 0; i < 3; ++i) {
    bool ran = false;
    loop->Post([&] {
      ran = true;
      loop->Stop();
    });
    loop->Run();
    EXPECT_TRUE(ran);
  }
}

TEST(EventLoop, TimersRunInOrderOfTheirTimeAndNotWhenCancelled) {
  auto loop = MakeEventLoop();
  std::vector<int> ran;
  Time before = loop->Now();
  // Far apart: this thread may stand between two of these lines.
  loop->After(400ms, [&] { ran.push_back(3); });
  loop->After(1ms, [&] { ran.push_back(1); });
  EventLoop::TimerId never = loop->After(2ms, [&] { ran.push_back(2); });
  loop->CancelTimer(never);
  loop->After(500ms, [&] { loop->Stop(); });
  loop->Run();
  EXPECT_EQ(ran, (std::vector{1, 3}));
  EXPECT_GE(loop->Now() - before, 500ms);
}

TEST(EventLoop, TimerMayCancelOneThatIsDueWithIt) {
  auto loop = MakeEventLoop();
  EventLoop::TimerId second = 0;
  bool ran = false;
  loop->After(0ms, [&] { loop->CancelTimer(second); });
  second = loop->After(0ms, [&] { ran = true; });
  loop->After(2ms, [&] { loop->Stop(); });
  loop->Run();
  EXPECT_FALSE(ran);
}

TEST(EventLoop, WatchedDescriptorIsCalledUntilItIsEmptyOrUnwatched) {
  auto loop = MakeEventLoop();
  Pipe pipe;
  std::string got;
  pipe.Write("abc");
  loop->WatchFd(pipe.read_end(), [&] {
    got += pipe.Read(1);  // less than there is: it is called again
    if (got == "abc") pipe.Write("d");
    if (got == "abcd") {
      loop->UnwatchFd(pipe.read_end());
      pipe.Write("e");
      loop->After(2ms, [&] { loop->Stop(); });
    }
  });
  loop->Run();
  EXPECT_EQ(got, "abcd");
  EXPECT_EQ(fcntl(pipe.read_end(), F_GETFL) & O_NONBLOCK, 0) << "whoever shares the descriptor would notice";
}

TEST(EventLoop, EndOfAPipeIsReadable) {
  auto loop = MakeEventLoop();
  Pipe pipe;
  int calls = 0;
  loop->WatchFd(pipe.read_end(), [&] {
    ++calls;
    EXPECT_EQ(pipe.Read(10), "");
    loop->Stop();
  });
  pipe.CloseWrite();
  loop->Run();
  EXPECT_EQ(calls, 1);
}

TEST(EventLoop, OneReadyDescriptorMayUnwatchOrReplaceAnother) {
  auto loop = MakeEventLoop();
  Pipe a, b;
  std::string order;
  a.Write("x");
  b.Write("x");
  loop->WatchFd(a.read_end(), [&] {
    order += "a";
    loop->UnwatchFd(a.read_end());
    loop->UnwatchFd(b.read_end());
    loop->WatchFd(b.read_end(), [&] {
      order += "B";
      loop->UnwatchFd(b.read_end());
      loop->Stop();
    });
  });
  loop->WatchFd(b.read_end(), [&] {
    order += "b";
    loop->UnwatchFd(b.read_end());
    loop->UnwatchFd(a.read_end());
    loop->WatchFd(a.read_end(), [&] {
      order += "A";
      loop->UnwatchFd(a.read_end());
      loop->Stop();
    });
  });
  loop->Run();
  EXPECT_TRUE(order == "aB" || order == "bA") << order;
}

TEST(EventLoop, ReusedDescriptorNumberIsAnotherDescriptor) {
  auto loop = MakeEventLoop();
  auto first = std::make_unique<Pipe>();
  int fd = first->read_end();
  loop->WatchFd(fd, [] { ADD_FAILURE() << "of a closed descriptor"; });
  loop->UnwatchFd(fd);
  first.reset();
  Pipe second;
  second.Write("x");
  loop->WatchFd(second.read_end(), [&] { loop->Stop(); });
  loop->Run();
}

TEST(FakeEventLoop, PassesTimeOnlyWhenTold) {
  test::FakeEventLoop loop;
  std::string order;
  loop.After(10ms, [&] {
    order += "b";
    loop.After(5ms, [&] { order += "c"; });
  });
  loop.After(5ms, [&] { order += "a"; });
  loop.Post([&] { order += "0"; });
  loop.Advance(9ms);
  EXPECT_EQ(order, "0a");
  loop.Advance(1ms);
  EXPECT_EQ(order, "0ab");
  EXPECT_EQ(loop.Now(), Time(10ms));
  loop.Run();
  EXPECT_EQ(order, "0abc");
  EXPECT_EQ(loop.Now(), Time(15ms));
  EXPECT_EQ(loop.timer_count(), 0u);
}

}  // namespace
}  // namespace harrow::os
