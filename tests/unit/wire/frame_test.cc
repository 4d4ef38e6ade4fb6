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
