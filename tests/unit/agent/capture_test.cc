// One stream of a task, from its pipe to where text is kept.
#include "agent/steps/capture.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>

#include "unit/agent/kept_output.h"
#include "unit/agent/steps_on_disk.h"

namespace harrow::agent {
namespace {

using output::Stream;
using testing::IsEmpty;
using testing::SizeIs;

class CaptureTest : public OnDisk {
 protected:
  void Say(const std::string& text) {
    ASSERT_EQ(write(stream_.write_fd(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
    stream_.TakeIn(POLLIN);
  }

  KeptOutput sink_;
  CapturedStream stream_{Stream::kStderr, sink_};
};

TEST_F(CaptureTest, WhatIsReadIsHandedOnAsItsAttempts) {
  ASSERT_TRUE(stream_.Open(7, 2, 0, 5));
  EXPECT_TRUE(stream_.open());
  for (const int fd : {stream_.read_fd(), stream_.write_fd()}) EXPECT_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
  stream_.TakeIn(0);
  EXPECT_TRUE(stream_.open()) << "nothing has come yet";
  Say("one ");
  Say("two");
  EXPECT_EQ(stream_.waiting_bytes(), 7u);
  EXPECT_THAT(sink_.pieces, IsEmpty()) << "in larger pieces";
  stream_.HandOn();
  ASSERT_THAT(sink_.pieces, SizeIs(1));
  EXPECT_EQ(sink_.pieces[0].task, 7u);
  EXPECT_EQ(sink_.pieces[0].attempt, 2u);
  EXPECT_EQ(sink_.pieces[0].stream, Stream::kStderr);
  EXPECT_EQ(sink_.pieces[0].text, "one two");
  EXPECT_EQ(sink_.pieces[0].rank, 5u);
  EXPECT_EQ(stream_.waiting_bytes(), 0u);
  stream_.HandOn();
  EXPECT_THAT(sink_.pieces, SizeIs(1)) << "nothing is nothing to hand on";
  Say("three");
  stream_.HandOn();
  EXPECT_EQ(sink_.Of(Stream::kStderr), "one twothree");
  EXPECT_EQ(stream_.first_offset(), 100u) << "of its first piece";
  EXPECT_EQ(stream_.kept_bytes(), 12u);
  EXPECT_FALSE(stream_.truncated());
}

TEST_F(CaptureTest, MuchIsHandedOnAtOnce) {
  ASSERT_TRUE(stream_.Open(7, 1, 0, std::nullopt));
  Say(std::string(40'000, 'a'));
  EXPECT_THAT(sink_.pieces, IsEmpty());
  Say(std::string(25'536, 'b'));
  ASSERT_THAT(sink_.pieces, SizeIs(1));
  EXPECT_EQ(sink_.pieces[0].text.size(), 65'536u);
  EXPECT_EQ(stream_.waiting_bytes(), 0u);
}

TEST_F(CaptureTest, WhatIsBeyondTheLimitIsReadAndDropped) {
  for (const auto& [limit, kept, truncated] :
       {std::tuple(10u, "0123456789", true), {12u, "0123456789ab", false}, {3u, "012", true}}) {
    sink_.pieces.clear();
    ASSERT_TRUE(stream_.Open(7, 1, limit, std::nullopt));
    Say("01234567");
    Say("89ab");
    stream_.HandOn();
    EXPECT_EQ(sink_.Of(Stream::kStderr), kept);
    EXPECT_EQ(stream_.kept_bytes(), limit);
    EXPECT_EQ(stream_.truncated(), truncated);
    EXPECT_TRUE(stream_.open());
  }
}

TEST_F(CaptureTest, ItEndsWhenNobodyCanWriteAnyMore) {
  ASSERT_TRUE(stream_.Open(7, 1, 0, std::nullopt));
  Say("last");
  stream_.CloseWriteEnd();
  EXPECT_EQ(stream_.write_fd(), -1);
  stream_.TakeIn(POLLIN | POLLHUP);
  EXPECT_FALSE(stream_.open());
  EXPECT_EQ(stream_.waiting_bytes(), 4u) << "what was read is still there";
  ASSERT_TRUE(stream_.Open(7, 1, 0, std::nullopt));
  stream_.CloseWriteEnd();
  stream_.TakeIn(POLLHUP);
  EXPECT_FALSE(stream_.open());
  ExpectNoDescriptorMore();
}

TEST_F(CaptureTest, TheNextAttemptBeginsWithNothing) {
  ASSERT_TRUE(stream_.Open(7, 1, 3, 1));
  Say("too much");
  stream_.HandOn();
  ASSERT_TRUE(stream_.Open(7, 2, 0, 1));
  Say("more");
  ASSERT_TRUE(stream_.Open(8, 1, 3, std::nullopt));
  EXPECT_EQ(stream_.waiting_bytes(), 0u);
  EXPECT_EQ(stream_.kept_bytes(), 0u);
  EXPECT_EQ(stream_.first_offset(), 0u);
  EXPECT_FALSE(stream_.truncated());
  Say("x");
  stream_.HandOn();
  EXPECT_EQ(sink_.pieces.back().task, 8u);
  EXPECT_EQ(sink_.pieces.back().rank, std::nullopt);
  stream_.Reset();
  EXPECT_FALSE(stream_.open());
  EXPECT_EQ(stream_.kept_bytes(), 0u);
  ExpectNoDescriptorMore();
}

TEST_F(CaptureTest, WithoutDescriptorsThereIsNone) {
  for (const int more : {0, 1}) {
    const FewDescriptors few(more);
    EXPECT_FALSE(stream_.Open(7, 1, 0, std::nullopt));
    EXPECT_EQ(errno, EMFILE);
  }
  EXPECT_FALSE(stream_.open());
  ExpectNoDescriptorMore();
}

}  // namespace
}  // namespace harrow::agent
