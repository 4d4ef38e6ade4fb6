#include "stream/merge.h"

#include <gtest/gtest.h>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace harrow::stream {
namespace {

TEST(RecordEnds, LinesAndZeroEnded) {
  EXPECT_EQ(LastEnd(kLines, 0, "ab\nc\nde"), 5u);
  EXPECT_EQ(FirstEnd(kLines, 0, "ab\nc\nde"), 3u);
  EXPECT_EQ(LastEnd(kLines, 0, std::string_view("a\0b", 3)), 0u);
  EXPECT_EQ(LastEnd(kZeroEnded, 0, std::string_view("a\0b", 3)), 2u);
  EXPECT_EQ(FirstEnd(kZeroEnded, 0, "a\nb"), 0u);
  EXPECT_EQ(LastEnd(kLines, 0, ""), 0u);
  EXPECT_EQ(IntoAfter(kLines, 5, "abc"), 8u);
  EXPECT_EQ(IntoAfter(kLines, 5, "a\nbc"), 2u);
  EXPECT_EQ(IntoAfter(kLines, 5, "a\n"), 0u);
}

TEST(RecordEnds, OfBytes) {
  const Records four = OfBytes(4);
  EXPECT_EQ(LastEnd(four, 0, "abcdefghi"), 8u);
  EXPECT_EQ(FirstEnd(four, 0, "abcdefghi"), 4u);
  EXPECT_EQ(FirstEnd(four, 3, "abcdefghi"), 1u);
  EXPECT_EQ(LastEnd(four, 3, "abcdefghi"), 9u);
  EXPECT_EQ(LastEnd(four, 1, "ab"), 0u);
  EXPECT_EQ(FirstEnd(four, 1, "ab"), 0u);
  EXPECT_EQ(IntoAfter(four, 1, "ab"), 3u);
  EXPECT_EQ(IntoAfter(four, 1, "abc"), 0u);
}

TEST(RecordEnds, WhatEndsARecord) {
  EXPECT_EQ(EndOf(kLines, 0).count, 0u);
  EXPECT_EQ(EndOf(kLines, 3).byte, '\n');
  EXPECT_EQ(EndOf(kZeroEnded, 3).byte, '\0');
  EXPECT_EQ(EndOf(kZeroEnded, 3).count, 1u);
  EXPECT_EQ(EndOf(OfBytes(8), 3).count, 5u);
  EXPECT_EQ(EndOf(OfBytes(8), 3).byte, '\0');
}

TEST(Merge, OneSourceIsGivenAsItIs) {
  Merge merge(1, 10);
  EXPECT_EQ(merge.Next(0, kLines, "no end", false).bytes, 6u);
  EXPECT_EQ(merge.Next(0, kLines, "", true).bytes, 0u);
  EXPECT_FALSE(merge.held_by());
}

TEST(Merge, OfSeveralWholeRecordsAreGiven) {
  Merge merge(2, 10);
  EXPECT_EQ(merge.Next(0, kLines, "a\nb", false).bytes, 2u);
  EXPECT_EQ(merge.Next(0, kLines, "b", false).bytes, 0u) << "its end may come";
  EXPECT_EQ(merge.Next(1, kLines, "c\n", false).bytes, 2u);
  EXPECT_EQ(merge.Next(0, kLines, "bb\n", false).bytes, 3u);
}

TEST(Merge, ARecordThatIsTooLongToBeKeptHoldsTheReader) {
  Merge merge(2, 4);
  EXPECT_EQ(merge.Next(0, kLines, "long", false).bytes, 4u);
  EXPECT_EQ(merge.held_by(), 0u);
  EXPECT_EQ(merge.Next(1, kLines, "x\n", false).bytes, 0u);
  EXPECT_EQ(merge.Next(0, kLines, "er", false).bytes, 2u);
  EXPECT_EQ(merge.Next(0, kLines, "!\ny", false).bytes, 2u);
  EXPECT_FALSE(merge.held_by());
  EXPECT_EQ(merge.Next(1, kLines, "x\n", false).bytes, 2u);
}

TEST(Merge, ALastRecordGetsItsEndWhereAnotherFollows) {
  Merge merge(3, 8);
  EXPECT_EQ(merge.Next(0, kLines, "a\nb", true).bytes, 3u);
  EXPECT_EQ(merge.Next(0, kLines, "", true).bytes, 0u);
  EXPECT_EQ(merge.Next(2, kLines, "", true).bytes, 0u) << "of one that wrote nothing";
  const Merge::Part next = merge.Next(1, kLines, "c", true);
  EXPECT_EQ(next.bytes, 1u);
  EXPECT_EQ(next.before.count, 1u);
  EXPECT_EQ(next.before.byte, '\n');
}

TEST(Merge, WhoHoldsTheReaderMayEndInMidRecord) {
  Merge merge(2, 4);
  EXPECT_EQ(merge.Next(0, OfBytes(6), "long", false).bytes, 4u);
  EXPECT_EQ(merge.Next(0, OfBytes(6), "", true).bytes, 0u);
  EXPECT_FALSE(merge.held_by());
  const Merge::Part next = merge.Next(1, OfBytes(6), "abcdef", false);
  EXPECT_EQ(next.bytes, 6u);
  EXPECT_EQ(next.before.count, 2u);
  EXPECT_EQ(next.before.byte, '\0');
}

/// Records of some kind, the last of which may lack its end.
struct Written {
  std::string bytes;
  std::vector<std::string> records;  // each with its end
};

Written Write(std::mt19937& random, Records records, char mark) {
  Written out;
  const size_t count = random() % 12;
  const uint32_t size = BytesOf(records);
  const char end = records == kLines ? '\n' : '\0';
  for (size_t i = 0; i < count; ++i) {
    const size_t length = size > 0 ? size : random() % 3 == 0 ? random() % 40 : random() % 5;
    std::string record(length, mark);
    if (size == 0) record += end;
    out.bytes += record;
    out.records.push_back(record);
  }
  if (random() % 2 == 0) {  // a last one without its end
    const size_t length = size > 0 ? random() % size : random() % 30;
    if (length > 0) {
      std::string record(length, mark);
      out.bytes += record;
      record += size > 0 ? std::string(size - length, '\0') : std::string(1, end);
      out.records.push_back(record);
    }
  }
  return out;
}

TEST(Merge, AnyChunkingGivesWholeRecordsOnceAndInOrder) {
  const auto seed = static_cast<uint32_t>(std::random_device()());
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 3000; ++round) {
    const size_t sources = 2 + random() % 4, most = 1 + random() % 16;
    const Records records = std::vector<Records>{
        kLines, kZeroEnded, OfBytes(static_cast<uint32_t>(1 + random() % 20))}[random() % 3];
    std::vector<Written> written;
    for (size_t i = 0; i < sources; ++i)
      written.push_back(Write(random, records, static_cast<char>('a' + static_cast<int>(i))));
    std::vector<size_t> given(sources), here(sources);
    std::vector<bool> over(sources);
    Merge merge(sources, most);
    std::string out;
    size_t open = sources;
    for (int turns = 0; open > 0 && turns < 100000; ++turns) {
      const size_t i = merge.held_by() && random() % 2 == 0 ? *merge.held_by() : random() % sources;
      if (over[i]) continue;
      const std::string& bytes = written[i].bytes;
      here[i] = std::min({bytes.size(), given[i] + most, here[i] + random() % 6});
      const bool last = here[i] == bytes.size() && random() % 3 == 0;
      const auto part =
          merge.Next(i, records, std::string_view(bytes).substr(given[i], here[i] - given[i]), last);
      out.append(part.before.count, part.before.byte);
      out += bytes.substr(given[i], part.bytes);
      given[i] += part.bytes;
      if (last && given[i] == bytes.size() && (!merge.held_by() || *merge.held_by() != i)) {
        over[i] = true;
        --open;
      }
    }
    ASSERT_EQ(open, 0u);
    // What came out is cut into records again, the last with its end.
    std::map<char, std::vector<std::string>> got;
    for (size_t at = 0; at < out.size();) {
      size_t length = FirstEnd(records, 0, std::string_view(out).substr(at));
      std::string record = out.substr(at, length == 0 ? std::string::npos : length);
      at += record.size();
      if (length == 0) {
        const Filling end = EndOf(records, record.size());
        record.append(end.count, end.byte);
      }
      char mark = 0;
      for (const char c : record) {
        if (c == '\n' || c == '\0') continue;
        ASSERT_TRUE(mark == 0 || mark == c) << "records are mixed in round " << round;
        mark = c;
      }
      if (mark != 0) got[mark].push_back(record);
    }
    for (size_t i = 0; i < sources; ++i) {
      std::erase_if(written[i].records, [](const std::string& r) { return r.size() == 1 && r[0] < 'a'; });
      ASSERT_EQ(got[static_cast<char>('a' + static_cast<int>(i))], written[i].records) << "round " << round;
    }
  }
}

}  // namespace
}  // namespace harrow::stream
