#include "stream/split.h"

#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <random>
#include <string>

#include "stream/record_ends.h"

namespace harrow::stream {
namespace {

class SplitTest : public testing::Test {
 protected:
  Range Next(uint32_t reader, int64_t at, bool over = false) {
    auto range = split_->Next(TaskId(reader), at, static_cast<int64_t>(log_.size()), over,
                              [this](int64_t offset, char* to, size_t size) -> Status {
                                if (static_cast<size_t>(offset) + size > log_.size())
                                  ADD_FAILURE() << "beyond its end";
                                log_.copy(to, size, static_cast<size_t>(offset));
                                return {};
                              });
    EXPECT_TRUE(range.ok());
    return range.ok() ? *range : Range{};
  }
  std::string log_;
  std::unique_ptr<Split> split_ = std::make_unique<Split>(kLines);
};

TEST_F(SplitTest, AFewLinesAreSpread) {
  for (int i = 0; i < 16; ++i) log_ += "line " + std::string(1, static_cast<char>('a' + i)) + "\n";
  for (int i = 0; i < 4; ++i) split_->Come();
  std::map<uint32_t, int64_t> got;
  for (uint32_t reader = 0; reader < 4; ++reader) {
    const Range range = Next(reader, 0, true);
    EXPECT_EQ(range.bytes, reader == 0 ? 14 : 7) << "half of its share, and at least one";
    got[reader] = range.bytes;
  }
}

TEST_F(SplitTest, ARecordIsGivenWhenItHasEnded) {
  split_->Come();
  log_ = "begun";
  EXPECT_EQ(Next(1, 0).bytes, 0);
  log_ += ", and more";
  EXPECT_EQ(Next(1, 0).bytes, 0);
  log_ += "\nx";
  EXPECT_EQ(Next(1, 0), (Range{0, 16}));
  EXPECT_EQ(Next(1, 16).bytes, 0);
  EXPECT_EQ(Next(1, 16, true), (Range{16, 1})) << "the last one lacks its end";
  EXPECT_EQ(Next(1, 17, true).bytes, 0);
}

TEST_F(SplitTest, AFurtherAttemptGetsTheSameFirst) {
  split_->Come();
  for (int i = 0; i < 100; ++i) log_ += "some line\n";
  const Range first = Next(1, 0), of_another = Next(2, 0);
  EXPECT_EQ(of_another.offset, first.offset + first.bytes);
  const Range second = Next(1, first.bytes);
  EXPECT_GT(second.offset, of_another.offset);
  EXPECT_EQ(Next(1, 0), first);
  EXPECT_EQ(Next(1, 3), (Range{first.offset + 3, first.bytes - 3})) << "from the middle of a range";
  EXPECT_EQ(Next(1, first.bytes), second);
  EXPECT_EQ(split_->given(TaskId(1)), first.bytes + second.bytes);
}

TEST_F(SplitTest, WhatWasNotGivenCannotBeAskedFor) {
  EXPECT_EQ(split_->Next(TaskId(1), 5, 0, false, {}).status().code(), Code::kInvalid);
}

TEST_F(SplitTest, AVeryLongRecordIsOneBlock) {
  log_ = std::string(1'000'000, 'x');
  EXPECT_EQ(Next(1, 0).bytes, 0);
  log_ += "\nshort\n";
  EXPECT_EQ(Next(1, 0).bytes, 1'000'001);
}

TEST_F(SplitTest, EachRecordGoesToOneReader) {
  const auto seed = static_cast<uint32_t>(std::random_device()());
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    const Records records = std::vector<Records>{
        kLines, kZeroEnded, OfBytes(static_cast<uint32_t>(1 + random() % 300))}[random() % 3];
    split_ = std::make_unique<Split>(records);
    log_.clear();
    const auto readers = static_cast<uint32_t>(1 + random() % 4);
    for (uint32_t i = 0; i < readers; ++i) split_->Come();
    std::map<uint32_t, std::string> got;
    std::string all;  // by whom each byte was got
    const size_t total = random() % 200'000;
    for (bool over = false; !over || all.find('.') != std::string::npos;) {
      if (!over) {
        const size_t more = std::min(total - log_.size(), size_t{random() % 9000});
        for (size_t i = 0; i < more; ++i)
          log_ +=
              random() % 50 == 0 ? (records == kLines ? '\n' : '\0') : static_cast<char>('a' + random() % 26);
        all.resize(log_.size(), '.');
        over = log_.size() == total;
      }
      const auto reader = static_cast<uint32_t>(random() % readers);
      const Range range = Next(reader, static_cast<int64_t>(got[reader].size()), over);
      const size_t take = range.bytes == 0 ? 0 : 1 + random() % static_cast<size_t>(range.bytes);
      got[reader] += log_.substr(static_cast<size_t>(range.offset), take);
      for (size_t i = 0; i < take; ++i) {
        ASSERT_EQ(all[static_cast<size_t>(range.offset) + i], '.');
        all[static_cast<size_t>(range.offset) + i] = static_cast<char>('0' + static_cast<int>(reader));
      }
    }
    for (size_t at = 0; at < log_.size();) {
      const size_t end = FirstEnd(records, 0, std::string_view(log_).substr(at));
      const size_t length = end == 0 ? log_.size() - at : end;
      ASSERT_EQ(all.substr(at, length), std::string(length, all[at])) << "a record is cut in round " << round;
      at += length;
    }
  }
}

}  // namespace
}  // namespace harrow::stream
