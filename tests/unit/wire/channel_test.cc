#include "wire/channel.h"

#include <gtest/gtest.h>

#include "support/fake_event_loop.h"

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

TEST(Channel, LimitsUnlessSaidOtherwise) {
  EXPECT_EQ(Limits().max_message, 67'108'864u) << "64 MiB";
  EXPECT_EQ(Limits().handshake_time, std::chrono::seconds(5));
  EXPECT_EQ(Limits().max_handshakes, 64u);
}

}  // namespace
}  // namespace harrow::wire
