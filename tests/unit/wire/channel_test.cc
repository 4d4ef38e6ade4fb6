#include "wire/channel.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "support/fake_event_loop.h"
#include "wire/tls_engine.h"

namespace harrow::wire {
namespace {

TEST(Channel, ALoopWithoutSocketsIsSaidToHaveNone) {
  test::FakeEventLoop loop;
  const Credentials key = {"run-1", std::string(32, 'k')};
  EXPECT_EQ(Listen(&loop, {"127.0.0.1"}, 0, key, {}, {}).status().code(), Code::kInternal);
  int told = 0;
  Dial(&loop, "127.0.0.1:1", Role::kAgent, key, {}, [&](Result<std::shared_ptr<Channel>> channel) {
    EXPECT_EQ(channel.status().code(), Code::kInternal);
    ++told;
    return ChannelHandler();
  });
  EXPECT_EQ(told, 0) << "never in the call itself";
  loop.RunPosted();
  EXPECT_EQ(told, 1);
}

#ifndef __SANITIZE_ADDRESS__  // which looks at memory through descriptors of its own
TEST(Channel, WithoutADescriptorToBeHadItSaysSo) {
  const auto loop = os::MakeEventLoop();
  const Credentials key = {"run-1", std::string(32, 'k')};
  ASSERT_TRUE(MakeTlsServer(key).ok());  // has opened what it wants to
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  const int next = dup(0);
  ASSERT_GE(next, 0);
  close(next);
  none.rlim_cur = static_cast<rlim_t>(next);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const Status listened = Listen(loop.get(), {"127.0.0.1"}, 0, key, {}, {}).status();
  Status dialled;
  Dial(loop.get(), "127.0.0.1:1", Role::kAgent, key, {}, [&](Result<std::shared_ptr<Channel>> channel) {
    dialled = channel.status();
    loop->Stop();
    return ChannelHandler();
  });
  loop->Run();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(listened.message(), "cannot listen on 127.0.0.1:0: Too many open files");
  EXPECT_EQ(listened.code(), Code::kUnavailable);
  EXPECT_EQ(dialled.message(), "cannot make a socket: Too many open files");
  EXPECT_EQ(dialled.code(), Code::kExhausted);
}
#endif

TEST(Channel, LimitsUnlessSaidOtherwise) {
  EXPECT_EQ(Limits().max_message, 67'108'864u) << "64 MiB";
  EXPECT_EQ(Limits().handshake_time, std::chrono::seconds(5));
  EXPECT_EQ(Limits().max_handshakes, 64u);
}

}  // namespace
}  // namespace harrow::wire
