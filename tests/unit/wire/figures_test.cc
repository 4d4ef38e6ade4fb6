#include "wire/figures.h"

#include <gtest/gtest.h>

namespace harrow::wire {
namespace {

TEST(FiguresMessages, EachFigureComesBack) {
  Figures sent;
  sent.total = 1;
  sent.done = 2;
  sent.failed = 3;
  sent.skipped = 4;
  sent.cancelled = 5;
  sent.running = 6;
  sent.attempts = 7;
  sent.losses = 8;
  sent.local_bytes = 9;
  sent.remote_bytes = 10;
  sent.home_bytes = 11;
  sent.bytes_moved = 12;
  sent.shared_read_bytes = 13;
  sent.written_back_bytes = 14;
  sent.makespan = Duration(15);
  sent.core_seconds = 16.5;
  sent.slot_seconds = 17.5;
  sent.slots = 18;
  sent.sessions = 19;
  sent.complete = true;
  pb::Progress message;
  FiguresToProto(sent, &message);
  pb::Progress read;
  ASSERT_TRUE(read.ParseFromString(message.SerializeAsString()));
  const Figures got = FiguresOf(read);
  EXPECT_EQ(got.total, 1u);
  EXPECT_EQ(got.done, 2u);
  EXPECT_EQ(got.failed, 3u);
  EXPECT_EQ(got.skipped, 4u);
  EXPECT_EQ(got.cancelled, 5u);
  EXPECT_EQ(got.running, 6u);
  EXPECT_EQ(got.attempts, 7u);
  EXPECT_EQ(got.losses, 8u);
  EXPECT_EQ(got.local_bytes, 9u);
  EXPECT_EQ(got.remote_bytes, 10u);
  EXPECT_EQ(got.home_bytes, 11u);
  EXPECT_EQ(got.bytes_moved, 12u);
  EXPECT_EQ(got.shared_read_bytes, 13u);
  EXPECT_EQ(got.written_back_bytes, 14u);
  EXPECT_EQ(got.makespan, Duration(15));
  EXPECT_EQ(got.core_seconds, 16.5);
  EXPECT_EQ(got.slot_seconds, 17.5);
  EXPECT_EQ(got.slots, 18u);
  EXPECT_EQ(got.sessions, 19u);
  EXPECT_TRUE(got.complete);
}

}  // namespace
}  // namespace harrow::wire
