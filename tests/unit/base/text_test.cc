#include "base/text.h"

#include <chrono>
#include <gtest/gtest.h>
#include <random>

namespace harrow {
namespace {

using namespace std::chrono_literals;

TEST(ParseDurationTest, ReadsWhatSlurmWrites) {
  const std::pair<const char*, Duration> cases[] = {
      {"10", 10min},    {"0", 0s},     {"10:30", 10min + 30s}, {"1:02:03", 1h + 2min + 3s},
      {"2-0", 48h},     {"2-3", 51h},  {"1-2:03", 26h + 3min}, {"1-02:03:04", 26h + 3min + 4s},
      {"90:00", 90min}, {" 5 ", 5min}, {"0:90", 90s},
  };
  for (const auto& [text, want] : cases) {
    const Result<Duration> got = ParseDuration(text);
    ASSERT_TRUE(got.ok()) << text << ": " << got.status().message();
    EXPECT_EQ(*got, want) << text;
  }
}

TEST(ParseDurationTest, ReadsNumbersWithUnits) {
  const std::pair<const char*, Duration> cases[] = {
      {"90s", 90s},
      {"5m", 5min},
      {"2h", 2h},
      {"1d", 24h},
      {"250ms", 250ms},
      {"1.5h", 90min},
      {"1h30m", 90min},
      {"1 h 30 m", 90min},
      {"10 min", 10min},
      {"3 Hours", 3h},
      {"0.1s", 100ms},
      {"7us", 7us},
      {"1d2h3m4s", 26h + 3min + 4s},
  };
  for (const auto& [text, want] : cases) {
    const Result<Duration> got = ParseDuration(text);
    ASSERT_TRUE(got.ok()) << text << ": " << got.status().message();
    EXPECT_EQ(*got, want) << text;
  }
}

TEST(ParseDurationTest, RefusesWhatIsNone) {
  for (const char* text : {"",
                           " ",
                           "x",
                           "s",
                           "-5",
                           "-5m",
                           "1.5",
                           "5x",
                           "1:2:3:4",
                           "1-2-3",
                           "1:",
                           ":1",
                           "1-",
                           "-",
                           "1-2:3:4:5",
                           "1e3s",
                           "..s",
                           "1..2s",
                           "99999999999999999999",
                           "99999999999999999999s",
                           "9999999-0",
                           "101 years",
                           "inf",
                           "nan s",
                           "5m-3",
                           "0x10s"}) {
    const Result<Duration> got = ParseDuration(text);
    EXPECT_FALSE(got.ok()) << text;
    EXPECT_EQ(got.status().code(), Code::kInvalid);
    EXPECT_NE(got.status().message().find("; write "), std::string::npos) << got.status().message();
  }
}

TEST(ParseBytesTest, ReadsPowersOf1024) {
  const std::pair<const char*, uint64_t> cases[] = {
      {"0", 0},
      {"100", 100},
      {"100B", 100},
      {"4G", uint64_t{4} << 30},
      {"4g", uint64_t{4} << 30},
      {"512M", uint64_t{512} << 20},
      {"4GiB", uint64_t{4} << 30},
      {"4GB", uint64_t{4} << 30},
      {"1.5T", uint64_t{3} << 39},
      {"2 k", 2048},
      {"1P", uint64_t{1} << 50},
      {"1E", uint64_t{1} << 60},
      {"9007199254740993", 9007199254740993u},
      {"7 bytes", 7},
  };
  for (const auto& [text, want] : cases) {
    const Result<uint64_t> got = ParseBytes(text);
    ASSERT_TRUE(got.ok()) << text << ": " << got.status().message();
    EXPECT_EQ(*got, want) << text;
  }
}

TEST(ParseBytesTest, RefusesWhatIsNone) {
  for (const char* text : {"", "G", "-1", "4X", "4GG", "4GiBs", "1e9", "5E", "18446744073709551616",
                           "99999999999999999999999999", "4 4", "0x10", "nan", "infG"}) {
    EXPECT_FALSE(ParseBytes(text).ok()) << text;
  }
}

TEST(FormatTest, TimesForPeople) {
  EXPECT_EQ(FormatDuration(0s), "0 s");
  EXPECT_EQ(FormatDuration(900ns), "900 ns");
  EXPECT_EQ(FormatDuration(12us), "12 us");
  EXPECT_EQ(FormatDuration(250ms), "250 ms");
  EXPECT_EQ(FormatDuration(1240ms), "1.24 s");
  EXPECT_EQ(FormatDuration(12340ms), "12.3 s");
  EXPECT_EQ(FormatDuration(59999ms), "1 min 00 s");
  EXPECT_EQ(FormatDuration(185s), "3 min 05 s");
  EXPECT_EQ(FormatDuration(1h + 4min + 9s), "1:04:09");
  EXPECT_EQ(FormatDuration(49h), "2-01:00:00");
  EXPECT_EQ(FormatDuration(-185s), "-3 min 05 s");
  EXPECT_NE(FormatDuration(Duration::min()), "");
  EXPECT_NE(FormatDuration(Duration::max()), "");
}

TEST(FormatTest, FormattedTimesReadBackWithinTheirPrecision) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 1000; ++i) {
    const Duration time(static_cast<int64_t>(random() % (uint64_t{1} << (10 + random() % 40))) + 1000);
    const std::string text = FormatDuration(time);
    if (text.find(':') != std::string::npos && text.find('-') == std::string::npos && time > 3600s) continue;
    const Result<Duration> back = ParseDuration(text);
    ASSERT_TRUE(back.ok()) << text;
    EXPECT_NEAR(Seconds(*back) / Seconds(time), 1, 0.01) << text << " " << time.count();
  }
}

TEST(FormatTest, BytesForPeople) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1024), "1.0 KiB");
  EXPECT_EQ(FormatBytes(uint64_t{32} << 27), "4.0 GiB");
  EXPECT_EQ(FormatBytes((uint64_t{1} << 20) - 1), "1.0 MiB");
  EXPECT_EQ(FormatBytes(UINT64_MAX), "16.0 EiB");
}

TEST(SuggestTest, FindsWhatIsNear) {
  const std::vector<std::string_view> keys = {"cores", "memory", "name", "command", "in", "out", "after"};
  EXPECT_EQ(Suggest("coers", keys), "cores");
  EXPECT_EQ(Suggest("core", keys), "cores");
  EXPECT_EQ(Suggest("mem", keys), "memory");
  EXPECT_EQ(Suggest("NAME", keys), "name");
  EXPECT_EQ(Suggest("17", {"17x", "9_7", "9_117", "9_17", "gen-17"}), "9_17");
  EXPECT_EQ(Suggest("17", {"gen-17"}), "gen-17");
  EXPECT_EQ(Suggest("17", {"9_117", "9_171", "x217"}), std::nullopt);
  EXPECT_EQ(Suggest("comand", keys), "command");
  EXPECT_EQ(Suggest("i", keys), "in");
  EXPECT_EQ(Suggest("zzz", keys), std::nullopt);
  EXPECT_EQ(Suggest("", keys), std::nullopt);
  EXPECT_EQ(Suggest(std::string(100000, 'c'), keys), std::nullopt);
  EXPECT_EQ(Suggest("cores", {}), std::nullopt);
}

TEST(ShellQuoteTest, OneWordWhateverItHolds) {
  EXPECT_EQ(ShellQuote("a/b-1.fits"), "a/b-1.fits");
  EXPECT_EQ(ShellQuote(""), "''");
  EXPECT_EQ(ShellQuote("a b"), "'a b'");
  EXPECT_EQ(ShellQuote("it's"), "'it'\\''s'");
  EXPECT_EQ(ShellQuote("$(rm)"), "'$(rm)'");
  EXPECT_EQ(ShellQuote("~"), "'~'");
  EXPECT_EQ(ShellQuote("a\nb"), "'a\nb'");
}

TEST(Utf8Test, FindsTheFirstWrongByte) {
  EXPECT_EQ(FindInvalidUtf8(""), std::string_view::npos);
  EXPECT_EQ(FindInvalidUtf8("plain text of more than eight bytes"), std::string_view::npos);
  EXPECT_EQ(FindInvalidUtf8("Stra\xC3\x9F"
                            "e, \xE2\x82\xAC, \xF0\x9F\x98\x80"),
            std::string_view::npos);
  EXPECT_EQ(FindInvalidUtf8("Stra\xDF"
                            "e"),
            4u);
  EXPECT_EQ(FindInvalidUtf8("\xC0\xAF"), 0u);          // overlong
  EXPECT_EQ(FindInvalidUtf8("\xE0\x80\xAF"), 0u);      // overlong
  EXPECT_EQ(FindInvalidUtf8("ab\xED\xA0\x80"), 2u);    // surrogate
  EXPECT_EQ(FindInvalidUtf8("\xF4\x90\x80\x80"), 0u);  // above U+10FFFF
  EXPECT_EQ(FindInvalidUtf8("12345678\xE2\x82"), 8u);  // cut
  EXPECT_EQ(FindInvalidUtf8("\x80"), 0u);
}

TEST(PrintableTest, FitForOneLineOfATerminal) {
  EXPECT_EQ(Printable("plain \xC3\x9F"), "plain \xC3\x9F");
  EXPECT_EQ(Printable(std::string_view("a\nb\tc\r\x1B[31m\0x", 12)), "a\\nb\\tc\\r\\x1b[31m\\x00");
  EXPECT_EQ(Printable("\xFF\xDF"), "\\xff\\xdf");
  EXPECT_EQ(Printable("\xC2\x9B"), "\\xc2\\x9b");           // C1 control
  EXPECT_EQ(Printable("\xE2\x80\xAE"), "\\xe2\\x80\\xae");  // right-to-left override
  EXPECT_EQ(Printable("0123456789", 4), "0123...");
  EXPECT_EQ(Printable("\xC3\x9F\xC3\x9F", 3), "\xC3\x9F...");
}

TEST(PrintableTest, RandomBytesGiveValidTextWithoutControls) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes(random() % 40, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    const std::string text = Printable(bytes, 60);
    EXPECT_EQ(FindInvalidUtf8(text), std::string_view::npos);
    EXPECT_LE(text.size(), 63u);
    for (unsigned char c : text) EXPECT_TRUE(c >= 0x20 && c != 0x7F);
  }
}

TEST(HexDigitsTest, OfNumbersAndBytes) {
  EXPECT_EQ(HexDigits(uint64_t{0xfe}), "00000000000000fe");
  EXPECT_EQ(HexDigits(std::string_view("\0\x7f\x80\xff", 4)), "007f80ff");
  EXPECT_EQ(HexDigits(""), "");
}

TEST(StrCatTest, JoinsTextAndNumbers) {
  EXPECT_EQ(
      StrCat("a", 1, ' ', uint64_t{18446744073709551615u}, int8_t{-3}, " ", 1.5, " ", 3e9, std::string("z")),
      "a1 18446744073709551615-3 1.5 3000000000z");
  EXPECT_EQ(StrCat(), "");
}

}  // namespace
}  // namespace harrow
