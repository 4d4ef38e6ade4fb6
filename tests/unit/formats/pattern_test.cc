#include "formats/pattern.h"

#include <fnmatch.h>
#include <gtest/gtest.h>
#include <random>

#include "support/memory_file_system.h"

namespace harrow::formats {
namespace {

TEST(PatternTest, MatchesAsAShellDoes) {
  const std::tuple<const char*, const char*, bool> cases[] = {
      {"p/*.fits", "p/1.fits", true},
      {"p/*.fits", "p/q/1.fits", false},
      {"*/*.fits", "p/1.fits", true},
      {"*", "a", true},
      {"*", ".a", false},
      {".*", ".a", true},
      {"p/*", "p/.a", false},
      {"a?c", "abc", true},
      {"a?c", "a/c", false},
      {"[a-c]x", "bx", true},
      {"[!a-c]x", "bx", false},
      {"[!a-c]x", "dx", true},
      {"[]]x", "]x", true},
      {"[a", "[a", true},
      {"a*b*c", "aXbYbZc", true},
      {"a*b*c", "aXbYbZ", false},
      {"./p/*", "p/a", true},
      {"", "", true},
      {"*", "", true},
      {"?", "\xC3\x9F", true},
      {"a*", "a", true},
      {"*a*", "bab", true},
      {"p/*/", "p/x", false},
  };
  for (const auto& [pattern, name, want] : cases)
    EXPECT_EQ(MatchesPattern(pattern, name), want) << pattern << " " << name;
}

TEST(PatternTest, AgreesWithFnmatch) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const std::string_view pattern_chars = "aab*?./[", name_chars = "aab./";
  for (int i = 0; i < 100'000; ++i) {
    std::string pattern, name;
    for (size_t n = random() % 8; n > 0; --n) pattern += pattern_chars[random() % (pattern_chars.size() - 1)];
    if (random() % 4 == 0) pattern += "[ab]";
    for (size_t n = random() % 8; n > 0; --n) name += name_chars[random() % name_chars.size()];
    if (pattern.starts_with("./")) continue;  // taken off here
    EXPECT_EQ(MatchesPattern(pattern, name),
              fnmatch(pattern.c_str(), name.c_str(), FNM_PATHNAME | FNM_PERIOD | FNM_NOESCAPE) == 0)
        << pattern << " " << name;
  }
}

TEST(PatternTest, ManyStarsTakeNoTime) {
  std::string pattern;
  for (int i = 0; i < 40; ++i) pattern += "a*";
  EXPECT_FALSE(MatchesPattern(pattern + "b", std::string(20'000, 'a')));
}

TEST(PatternIndexTest, FindsWhatTryingEachNameFinds) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const std::vector<std::string> pieces = {"a", "b", "7", "17", "-", ".", "/", "x1", "_", "]"};
  const std::vector<std::string> wild = {"*", "?", "[a7]", "[!b]", "[", "**"};
  std::vector<std::string> texts;
  for (int i = 0; i < 1500; ++i) {
    std::string& text = texts.emplace_back("a");
    for (size_t n = random() % 6; n > 0; --n) text += pieces[random() % pieces.size()];
  }
  const PatternIndex index({texts.begin(), texts.end()});
  size_t matched = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string pattern;
    for (size_t n = 1 + random() % 6; n > 0; --n)
      pattern += random() % 3 == 0 ? wild[random() % wild.size()] : pieces[random() % pieces.size()];
    while (pattern.starts_with("./")) pattern.erase(0, 2);  // as FileMatcher does
    std::vector<std::string> want, got;
    for (const std::string& text : texts) {
      if (MatchesPattern(pattern, text)) want.push_back(text);
    }
    std::sort(want.begin(), want.end());
    want.erase(std::unique(want.begin(), want.end()), want.end());
    for (std::string_view name : index.Candidates(pattern)) {
      if (MatchesPattern(pattern, name)) got.emplace_back(name);
    }
    EXPECT_EQ(got, want) << pattern;
    matched += want.size();
  }
  EXPECT_GT(matched, 1000u);
}

TEST(PatternIndexTest, LooksUpWhatAPatternSays) {
  std::vector<std::string> texts;
  for (int i = 0; i < 10'000; ++i) texts.push_back("p/a" + std::to_string(i % 10) + "-" + std::to_string(i) + ".x");
  const PatternIndex index({texts.begin(), texts.end()});
  for (const char* pattern : {"p/*-1234.x", "p/*-1234.*", "p/a4-1234*", "*1234.x", "p/*-1234.[xy]", "p/*[0-9]-1234.?"})
    EXPECT_LE(index.Candidates(pattern).size(), 64u) << pattern;
  EXPECT_EQ(index.Candidates("p/*").size(), 10'000u);
}

TEST(FileMatcherTest, LooksAmongOutputsAndAmongFiles) {
  test::MemoryFileSystem fs;
  for (const char* path :
       {"/d/raw/1.fits", "/d/raw/2.fits", "/d/raw/x.hdr", "/d/run-1/out", "/d/run-2/out", "/d/top.fits"}) {
    ASSERT_TRUE(fs.WriteWhole(path, "x").ok());
  }
  FileMatcher matcher(fs, "/d");
  matcher.SetOutputs({"p/2.fits", "p/1.fits", "p/1.hdr", "q/1.fits"});
  EXPECT_EQ(matcher.MatchOutputs("p/*.fits"), (std::vector<std::string_view>{"p/1.fits", "p/2.fits"}));
  EXPECT_EQ(matcher.MatchOutputs("./*/1.*"),
            (std::vector<std::string_view>{"p/1.fits", "p/1.hdr", "q/1.fits"}));
  EXPECT_TRUE(matcher.MatchOutputs("raw/*").empty());
  EXPECT_EQ(matcher.MatchExisting("raw/*.fits"), (std::vector<std::string>{"raw/1.fits", "raw/2.fits"}));
  EXPECT_EQ(matcher.MatchExisting("run-?/out"), (std::vector<std::string>{"run-1/out", "run-2/out"}));
  EXPECT_EQ(matcher.MatchExisting("./*.fits"), (std::vector<std::string>{"top.fits"}));
  EXPECT_EQ(matcher.MatchExisting("/d/raw/*.hdr"), (std::vector<std::string>{"/d/raw/x.hdr"}));
  EXPECT_TRUE(matcher.MatchExisting("none/*").empty());
  EXPECT_TRUE(matcher.Exists("raw/1.fits"));
  EXPECT_TRUE(matcher.Exists("raw/"));
  EXPECT_FALSE(matcher.Exists("raw/3.fits"));
  EXPECT_FALSE(matcher.Exists("nowhere/3.fits"));
}

TEST(FileMatcherTest, DirectoriesMayBeNamedByTheirDots) {
  FileMatcher matcher(os::RealFileSystem(), "/");
  for (const char* there : {".", "/", "..", "proc/.", "/proc/self/.."}) EXPECT_TRUE(matcher.Exists(there)) << there;
  EXPECT_FALSE(matcher.Exists("nowhere/."));
}

}  // namespace
}  // namespace harrow::formats
