#include "formats/brace_text.h"

#include <gtest/gtest.h>

namespace harrow::formats {
namespace {

using Use = BraceText::Use;

std::string Fill(std::string_view text, Use use, std::vector<std::string> values = {"7", "a b"}) {
  const Result<BraceText> parsed = BraceText::Parse(text, use, {"i", "word"});
  if (!parsed) return "error: " + parsed.status().message();
  std::string out;
  parsed->Expand(values, &out);
  return out;
}

TEST(BraceTextTest, FillsInKeysAndNothingElse) {
  EXPECT_EQ(Fill("p/{i}.fits", Use::kName), "p/7.fits");
  EXPECT_EQ(Fill("{i}{i}{word}", Use::kName), "77a b");
  EXPECT_EQ(Fill("{{i}", Use::kName), "{i}");
  EXPECT_EQ(Fill("{{{i}", Use::kName), "{7");
  EXPECT_EQ(Fill("{} {1} {i {a-b} }", Use::kName), "{} {1} {i {a-b} }");
  EXPECT_EQ(Fill("", Use::kName), "");
  EXPECT_EQ(Fill("{{print $1}", Use::kShell), "{print $1}");
  EXPECT_EQ(Fill("awk '{print $1}' ${HOME} {}", Use::kShell), "awk '{print $1}' ${HOME} {}");
}

TEST(BraceTextTest, TakesAnUnknownWordForASlip) {
  EXPECT_NE(Fill("{wrod}", Use::kName).find("did you mean word"), std::string::npos);
  EXPECT_NE(Fill("echo {j}", Use::kShell).find("is no key of each"), std::string::npos);
  EXPECT_NE(Fill("{wrod}", Use::kArgument).find("is no key of each"), std::string::npos);
  EXPECT_EQ(Fill("awk '{print}' ${j}", Use::kShell), "awk '{print}' ${j}");
  EXPECT_EQ(Fill("other-{j}", Use::kTask), "other-{j}");
  std::string out;
  BraceText::Parse("awk {print} {x}", Use::kShell, {})->Expand({}, &out);
  EXPECT_EQ(out, "awk {print} {x}");
  EXPECT_FALSE(BraceText::Parse("{x}", Use::kName, {}).ok());
}

TEST(BraceTextTest, AValueIsOneWordOfTheShellWhereverItStands) {
  const std::vector<std::string> values = {"7", "it's \"$HOME\" `x` \\ *"};
  for (const char* text :
       {"{word}", "'{word}'", "\"{word}\"", "'a'{word}\"b\"", "\\'{word}", "a\\\\{word}"}) {
    const std::string command = "printf %s " + Fill(text, Use::kShell, values);
    FILE* shell = popen(command.c_str(), "r");
    ASSERT_NE(shell, nullptr);
    std::string said;
    for (int c = fgetc(shell); c != EOF; c = fgetc(shell)) said.push_back(static_cast<char>(c));
    EXPECT_EQ(pclose(shell), 0) << command;
    EXPECT_NE(said.find(values[1]), std::string::npos) << command << " printed " << said;
  }
  EXPECT_EQ(Fill("echo {i}", Use::kShell), "echo 7");
  EXPECT_EQ(Fill("echo {word}", Use::kArgument), "echo a b");
}

TEST(BraceTextTest, KnowsWhichKeysItUses) {
  const Result<BraceText> text = BraceText::Parse("x-{word}", Use::kName, {"i", "word"});
  ASSERT_TRUE(text.ok());
  EXPECT_FALSE(text->Uses(0));
  EXPECT_TRUE(text->Uses(1));
  EXPECT_FALSE(text->constant());
  EXPECT_TRUE(BraceText::Parse("x", Use::kName, {"i"})->constant());
}

}  // namespace
}  // namespace harrow::formats
