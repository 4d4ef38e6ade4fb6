#include "wire/frame.h"

#include <gtest/gtest.h>
#include <random>
#include <vector>

namespace harrow::wire {
namespace {

TEST(Frame, ComesBackWholeHoweverItIsCut) {
  auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> messages;
    std::string stream;
    for (size_t n = random() % 20; n > 0; --n) {
      messages.emplace_back(random() % 4 == 0 ? random() % 5000 : random() % 8, static_cast<char>('a' + n));
      AppendFrame(messages.back(), &stream);
    }
    FrameReader reader(5000);
    std::vector<std::string> got;
    std::string_view rest = stream, message;
    while (!rest.empty()) {
      size_t piece = std::min<size_t>(rest.size(), 1 + random() % 700);
      reader.buffer()->append(rest.substr(0, piece));
      rest.remove_prefix(piece);
      while (reader.Next(&message)) got.emplace_back(message);
    }
    EXPECT_TRUE(reader.status().ok());
    EXPECT_TRUE(reader.buffer()->empty());
    ASSERT_EQ(got, messages);
  }
}

TEST(Frame, LengthAboveTheLimitIsAnErrorBeforeAnyByteOfIt) {
  FrameReader reader(1000);
  std::string stream;
  AppendFrame("fits", &stream);
  AppendFrame(std::string(1001, 'x'), &stream);
  reader.buffer()->append(stream.substr(0, 4 + 4 + 4));  // the second one's length only
  std::string_view message;
  ASSERT_TRUE(reader.Next(&message));
  EXPECT_EQ(message, "fits");
  EXPECT_FALSE(reader.Next(&message));
  EXPECT_EQ(reader.status().code(), Code::kDamaged);
  EXPECT_LT(reader.buffer()->capacity(), 1000u);
  reader.buffer()->append(2000, 'x');
  EXPECT_FALSE(reader.Next(&message));
}

TEST(Frame, IsALengthInFourBytesLowestFirstThenTheMessage) {
  std::string stream = "before";
  AppendFrame(std::string(0x010203, 'm'), &stream);
  EXPECT_EQ(stream.substr(0, 10), std::string("before\x03\x02\x01\x00", 10));
  EXPECT_EQ(stream.size(), 10u + 0x010203);
  FrameReader reader(UINT32_MAX);
  reader.buffer()->append("\x01\x02\x03\x04x");
  std::string_view message;
  EXPECT_FALSE(reader.Next(&message)) << "64 MiB more are to come";
  EXPECT_TRUE(reader.status().ok());
}

TEST(Frame, AsLongAsAllowedIsTakenWhenItsLastByteIsThere) {
  FrameReader reader(1000);
  std::string stream;
  AppendFrame(std::string(1000, 'x'), &stream);
  reader.buffer()->append(stream.substr(0, 1003));
  std::string_view message;
  EXPECT_FALSE(reader.Next(&message));
  reader.buffer()->append(stream.substr(1003));
  ASSERT_TRUE(reader.Next(&message));
  EXPECT_EQ(message, std::string(1000, 'x'));
  EXPECT_FALSE(reader.Next(&message));
  EXPECT_TRUE(reader.status().ok());
}

TEST(Frame, ManyMessagesNeedTheRoomOfOne) {
  FrameReader reader(1u << 20);
  std::string frame;
  AppendFrame(std::string(999, 'x'), &frame);
  std::string_view message;
  for (int i = 0; i < 5000; ++i) {  // each time the beginning of the next one is there, too
    reader.buffer()->append(i == 0 ? frame + frame.substr(0, 7) : frame.substr(7) + frame.substr(0, 7));
    ASSERT_TRUE(reader.Next(&message));
    ASSERT_EQ(message.size(), 999u);
    ASSERT_FALSE(reader.Next(&message));
    ASSERT_EQ(reader.buffer()->size(), 7u);
  }
  EXPECT_LT(reader.buffer()->capacity(), 10'000u);
}

TEST(Frame, RoomOfALargeMessageIsGivenBackThatOfOthersKept) {
  constexpr size_t kMost = (1u << 20) - 4;
  for (const size_t size : {kMost, kMost + 1}) {
    FrameReader reader(UINT32_MAX);
    std::string frame;
    AppendFrame(std::string(size, 'x'), &frame);
    reader.buffer()->append(frame);
    std::string_view message;
    ASSERT_TRUE(reader.Next(&message));
    ASSERT_FALSE(reader.Next(&message));
    EXPECT_EQ(reader.buffer()->capacity() >= size, size == kMost) << size;
  }
}

TEST(Frame, LargestLengthNeedsNoMemory) {
  FrameReader reader(UINT32_MAX);
  reader.buffer()->append("\xff\xff\xff\xff");
  std::string_view message;
  EXPECT_FALSE(reader.Next(&message));
  EXPECT_TRUE(reader.status().ok());
  EXPECT_LT(reader.buffer()->capacity(), 1000u);
}

}  // namespace
}  // namespace harrow::wire
