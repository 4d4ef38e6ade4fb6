#include "formats/array_spec.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>
#include <set>

#include "base/text.h"

namespace harrow::formats {
namespace {

using Numbers = std::vector<uint64_t>;

TEST(ArraySpecTest, ReadsWhatSbatchReads) {
  EXPECT_EQ(ParseArraySpec("7")->Numbers(), (Numbers{7}));
  EXPECT_EQ(ParseArraySpec("0-3")->Numbers(), (Numbers{0, 1, 2, 3}));
  EXPECT_EQ(ParseArraySpec("1-10:3")->Numbers(), (Numbers{1, 4, 7, 10}));
  EXPECT_EQ(ParseArraySpec("1-9:3")->Numbers(), (Numbers{1, 4, 7}));
  EXPECT_EQ(ParseArraySpec("1,3,5-7%64")->Numbers(), (Numbers{1, 3, 5, 6, 7}));
  EXPECT_EQ(ParseArraySpec("1,3,5-7%64")->limit, 64u);
  EXPECT_EQ(ParseArraySpec("0-420")->count, 421u);
  EXPECT_EQ(ParseArraySpec("0-420")->limit, 0u);
  EXPECT_EQ(ParseArraySpec("1-9:2,2-10:2")->count, 10u);
  EXPECT_EQ(ParseArraySpec("5-5:1000000000000")->Numbers(), (Numbers{5}));
}

TEST(ArraySpecTest, WhatSbatchLeavesOutAndWhereItTakesTheLimit) {
  for (const char* text : {"1-2,5", "1-2,,5", ",1-2,5", "1-2,5,,", "[1-2,5]", "[1-2,5,]"}) {
    const auto spec = ParseArraySpec(text, 100, true);
    ASSERT_TRUE(spec.ok()) << text << ": " << spec.status().message();
    EXPECT_EQ(spec->Numbers(), (Numbers{1, 2, 5})) << text;
    EXPECT_EQ(spec->limit, 0u) << text;
  }
  for (const char* text : {"1-2,5%3", "1-2%3,5", "[1-2,5%3]", "[1-2,5]%3"}) {
    const auto spec = ParseArraySpec(text, 100, true);
    ASSERT_TRUE(spec.ok()) << text << ": " << spec.status().message();
    EXPECT_EQ(spec->Numbers(), (Numbers{1, 2, 5})) << text;
    EXPECT_EQ(spec->limit, 3u) << text;
  }
  for (const char* text : {"", ",", "[]", "[,]", "1,%", "1%"}) EXPECT_FALSE(ParseArraySpec(text, 100, true).ok()) << text;
  EXPECT_FALSE(ParseArraySpec("1,,2", 100, false).ok()) << "a flow's each is not sbatch's";
}

TEST(ArraySpecTest, RefusesWhatIsNone) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "its end"},
      {"a", "\"a\""},
      {"1,", "its end"},
      {"1-", "its end"},
      {"-1", "\"-1\""},
      {"1-2-3", "is expected"},
      {"1-2:", "its end"},
      {"1-2:0", "step of 0"},
      {"1:2", "is expected"},
      {"1%", "its end"},
      {"1%0", "%1 or more"},
      {"1%2%3", "is expected"},
      {"3-1", "write 1-3"},
      {"1,1", "names 1 twice"},
      {"1-9:2,3", "names 3 twice"},
      {"0-9,20-29,5", "names 5 twice"},
      {"1 ", "is expected"},
      {" 1", "\" 1\""},
      {"99999999999999999999", "a number above"},
      {"18446744073709551615", "a number above"},
      {"0-99999999999", "100000000000 tasks"},
      {"1-2:99999999999999999999", "a number above"},
  };
  for (const auto& [text, why] : cases) {
    const Result<ArraySpec> spec = ParseArraySpec(text);
    ASSERT_FALSE(spec.ok()) << text;
    EXPECT_NE(spec.status().message().find(why), std::string::npos)
        << text << ": " << spec.status().message();
  }
}

TEST(ArraySpecTest, WhatIsSaidIsShort) {
  constexpr std::string_view kHint = "; write numbers and ranges as 0-420, 1-10:2 or 1,3,5-7";
  const auto said = [](const std::string& text) { return ParseArraySpec(text).status().message(); };
  EXPECT_EQ(said("abcdefghijklm"),
            StrCat("\"abcdefghijklm\" has \"abcdefghij\" where a number is expected", kHint));
  EXPECT_EQ(said("1abcdefghijklm"),
            StrCat("\"1abcdefghijklm\" has \"abcdefghij\" where , - : or % is expected", kHint));
  EXPECT_EQ(said(""), StrCat("\"\" has its end where a number is expected", kHint));
  const std::string long_one(150, 'x');
  EXPECT_EQ(said(long_one).find(" has "), said(std::string(200, 'x')).find(" has "));
  EXPECT_EQ(said("1000000000000001"),
            "\"1000000000000001\" has a number above 1000000000000000; array numbers are task numbers, "
            "mostly below 10000000");
  EXPECT_EQ(said("1-0000000000000002"), "");
  EXPECT_EQ(said("1-00000000000000002"),
            "\"1-00000000000000002\" has a number of 17 digits; at most 16 are taken");
}

TEST(ArraySpecTest, CountsBeforeItExpands) {
  EXPECT_TRUE(ParseArraySpec("1-100", 100).ok());
  EXPECT_FALSE(ParseArraySpec("0-100", 100).ok());
  EXPECT_FALSE(ParseArraySpec("0-999999999999999", 10'000'000).ok());
  std::string many = "0-999999999999999";
  for (int i = 0; i < 10000; ++i) many += ",0-999999999999999";
  EXPECT_FALSE(ParseArraySpec(many).ok());
}

TEST(ArraySpecTest, RandomSpecsMeanTheNumbersTheyName) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    Numbers want;
    const size_t ranges = 1 + random() % 5;
    for (size_t i = 0; i < ranges; ++i) {
      const uint64_t first = random() % 60, last = first + random() % 20, step = 1 + random() % 4;
      text += StrCat(i > 0 ? "," : "", first, "-", last, ":", step);
      for (uint64_t n = first; n <= last; n += step) want.push_back(n);
    }
    const bool unique = std::set<uint64_t>(want.begin(), want.end()).size() == want.size();
    const Result<ArraySpec> spec = ParseArraySpec(text);
    ASSERT_EQ(spec.ok(), unique) << text;
    if (!unique) continue;
    EXPECT_EQ(spec->Numbers(), want) << text;
    EXPECT_EQ(spec->count, want.size()) << text;
  }
}

}  // namespace
}  // namespace harrow::formats
