#include "formats/brace_text.h"

#include <gtest/gtest.h>

#include "base/text.h"

namespace harrow::formats {
namespace {

using Use = BraceText::Use;

std::string Fill(std::string_view text, Use use, std::vector<std::string> values = {"7", "a b"}) {
  const Result<BraceText> parsed = BraceText::Parse(text, use, {"i", "word"});
  if (!parsed) return "error: " + parsed.status().message();
  std::string out;
  const Status filled = parsed->ExpandCommand(values, &out);
  return filled.ok() ? out : "error: " + filled.message();
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
  EXPECT_TRUE(BraceText::Parse("awk {print} {x}", Use::kShell, {})->Expand({}, &out).ok());
  EXPECT_EQ(out, "awk {print} {x}");
  EXPECT_FALSE(BraceText::Parse("{x}", Use::kName, {}).ok());
}

TEST(BraceTextTest, CalculatesInBraces) {
  EXPECT_EQ(Fill("s-{i/2}", Use::kName), "s-3");
  EXPECT_EQ(Fill("s-{i*2+1}-{i}", Use::kName), "s-15-7");
  EXPECT_EQ(Fill("{(i+1)*3-2%4}", Use::kName), "22");
  EXPECT_EQ(Fill("{i-1-2}", Use::kName), "4");
  EXPECT_EQ(Fill("{-i/2} {-i%4} {i%-4} {2--i}", Use::kName), "-4 1 -1 9");  // down, with the divisor's sign
  EXPECT_EQ(Fill("{i:3}.{i+93:3}.{i-9:2}", Use::kName), "007.100.-02");
  EXPECT_EQ(Fill("{i+1}", Use::kName, {"009", ""}), "10");
  EXPECT_EQ(Fill("{{i+1}", Use::kName), "{i+1}");
  EXPECT_EQ(Fill("other-{i/2}", Use::kTask), "other-3");
  EXPECT_EQ(Fill("prog -n {i*2} '{i+1}'", Use::kShell), "prog -n 14 '8'");
  EXPECT_EQ(Fill("x {i-9}>y", Use::kShell), "x -2>y");
  EXPECT_TRUE(Fill("x {i+1}>y", Use::kShell, {"1", ""}).starts_with("x '2'>y"));
  EXPECT_EQ(Fill("x {i*i}", Use::kArgument), "x 49");
  EXPECT_TRUE(BraceText::Parse("a-{i/2}", Use::kName, {"k", "i"})->Uses(1));
  EXPECT_FALSE(BraceText::Parse("a-{i/2}", Use::kName, {"k", "i"})->Uses(0));
  EXPECT_FALSE(BraceText::Parse("{i/2}", Use::kName, {"i"})->constant());
}

TEST(BraceTextTest, WhatHasNoKeyIsNoArithmetic) {
  EXPECT_EQ(Fill("{1-3} {a-b} {i,2} {i + 1} {i=1}", Use::kName), "{1-3} {a-b} {i,2} {i + 1} {i=1}");
  EXPECT_EQ(Fill("x ${i%.*} ${i/2} ${i:1}", Use::kShell), "x ${i%.*} ${i/2} ${i:1}");
  EXPECT_EQ(Fill("awk '{i-n}'", Use::kShell), "awk '{i-n}'");
  EXPECT_EQ(Fill("{i-n}", Use::kTask), "{i-n}");
}

TEST(BraceTextTest, SaysWhatIsWrongWithArithmetic) {
  const auto has = [](const std::string& text, std::string_view part) {
    EXPECT_TRUE(text.starts_with("error: ") && text.find(part) != std::string::npos) << text;
  };
  has(Fill("{i+wrod}", Use::kName), "wrod is no key of each; did you mean word");
  has(Fill("{i+}", Use::kName), "a key or a number is missing at character 4");
  has(Fill("{(i+1}", Use::kName), "a ) is missing at character 6");
  has(Fill("{i+1)}", Use::kName), "an operator is missing at character 5");
  has(Fill("{i+2x}", Use::kName), "\"2x\" is no number at character 4");
  has(Fill("{i:0}", Use::kName), "digits from 1 to 19");
  has(Fill("{i:20}", Use::kName), "digits from 1 to 19");
  has(Fill("{i+99999999999999999999}", Use::kName), "is no number");
  has(Fill("prog {i/}", Use::kShell), "a key or a number is missing");
  has(Fill("{i/0}", Use::kName), "{i/0} divides by 0");
  has(Fill("{i%(i-7)}", Use::kName), "divides by 0");
  has(Fill("{word+1}", Use::kName), "word is \"a b\", and no whole number");
  has(Fill("{i*9223372036854775807}", Use::kName), "too large");
  has(Fill("{-i-9223372036854775807}", Use::kName), "too large");
  has(Fill("{(-i-9223372036854775801)/-1}", Use::kName), "too large");
}

constexpr std::string_view kHostile = "it's \"$HOME\" `x` \\ *\n; $(x)";

TEST(BraceTextTest, PlainValuesGoAnywhereInACommand) {
  for (const char* value : {"7", "a/b_C.fits", "-rf", "a:b,c+d@e%f=g"}) {
    for (const char* text : {"x {i}", "x '{i}'", "x \"{i}\" y", "# don't\nx {i}", "x --name={i}", "echo \"$(x '{i}')\"",
                             "cat <<E\nx {i}\nE", "x \\\\{i}", "x `y {i}`"}) {
      const std::string filled = Fill(text, Use::kShell, {value, ""});
      EXPECT_NE(filled.find(value), std::string::npos) << filled;
      EXPECT_EQ(filled.find("error"), std::string::npos) << filled;
    }
  }
  EXPECT_EQ(Fill("echo {i}", Use::kShell), "echo 7");
}

TEST(BraceTextTest, AnyValueIsOneWordWhereItIsCertainToStandAlone) {
  const std::string quoted = ShellQuote(kHostile);
  for (const char* text : {"x @", "@", "x -a @ -b", "x <@ >@;y @", "cd d && x @ | y @ & z", "x @\ny @\n", "x $A ${B_2} *.c @",
                           "A=1 x @", "x 2>&1 >> @"}) {
    std::string written = text, want = text;
    for (size_t at; (at = written.find('@')) != std::string::npos;) written.replace(at, 1, "{word}");
    for (size_t at = 0; (at = want.find('@', at)) != std::string::npos; at += quoted.size()) want.replace(at, 1, quoted);
    EXPECT_EQ(Fill(written, Use::kShell, {"7", std::string(kHostile)}), want);
  }
  EXPECT_EQ(Fill("x {word} y", Use::kShell, {"7", ""}), "x '' y");
  EXPECT_EQ(Fill("x {word} y", Use::kShell, {"7", "~"}), "x '~' y");
  // The values before do not count: each is one word already.
  EXPECT_EQ(Fill("x {word} {word}", Use::kShell, {"7", "#"}), "x '#' '#'");
}

TEST(BraceTextTest, WhereAShellMightTakeAValueApartItIsRefused) {
  for (const char* text :
       {"'{word}'", "\"{word}\"", "x 'a'{word}", "x a{word}", "x {word}a", "x --name={word}", "# don't\nx {word}", "x 'a' {word}",
        "x \"a\" {word}", "echo \"$(x {word})\"", "x $(y) {word}", "x `y` {word}", "cat <<E\n{word}\nE", "cat <<{word}",
        "x \\' {word}", "x # {word}", "eval x {word}", "a; eval {word}", "unset {word}", "test -v {word}", "[ -n {word} ]",
        "[[ {word} -gt 1 ]]", "x $((1 + {word} ))", "( x {word} )", "{{ x {word}; }", "x ${A:-1} {word}", "x ${A {word}", "x $ {word}",
        "x {a,{word}}", "x ~ {word}", "! x {word}", "x ({word})", "x \x01 {word}", "f() {{ x; }; f {word}"}) {
    for (const std::string& value : {std::string(kHostile), std::string(), std::string("a b"), std::string("\xC3\xBC"), std::string("#")}) {
      const std::string filled = Fill(text, Use::kShell, {"7", value});
      EXPECT_EQ(filled.find("error: {word} cannot be \""), 0u) << text << " gave " << filled;
      EXPECT_NE(filled.find("env = { X = \"{word}\" }"), std::string::npos) << filled;
    }
  }
}

TEST(BraceTextTest, PlainValuesThatMeanSomethingToAShell) {
  // The number of a descriptor.
  EXPECT_EQ(Fill("x {i}>f", Use::kShell), "x '7'>f");
  EXPECT_EQ(Fill("x {i} >f", Use::kShell), "x 7 >f");
  EXPECT_EQ(Fill("x {i}>f", Use::kShell, {"a7", ""}), "x a7>f");
  EXPECT_EQ(Fill("x 'a' {i}<f", Use::kShell).find("error: {i} cannot be \"7\""), 0u);
  EXPECT_EQ(Fill("x 'a' 1{i}<f", Use::kShell).find("error"), 0u);
  EXPECT_EQ(Fill("x 'a' a{i}<f", Use::kShell), "x 'a' a7<f");
  EXPECT_EQ(Fill("x {i}{word}>f", Use::kShell, {"7", "8"}).find("error: {word} cannot be \"8\""), 0u);
  EXPECT_EQ(Fill("x {i}{word}>f", Use::kShell, {"7", "a8"}), "x 7a8>f");
  // An assignment.
  EXPECT_EQ(Fill("{i} x", Use::kShell, {"PATH=.", ""}), "'PATH=.' x");
  EXPECT_EQ(Fill("x; {i} y", Use::kShell, {"PATH=.", ""}), "x; 'PATH=.' y");
  EXPECT_EQ(Fill("{i}/x y", Use::kShell, {"PATH=.", ""}).find("error"), 0u);
  EXPECT_EQ(Fill("A=1 {i}/x y", Use::kShell, {"PATH=.", ""}).find("error"), 0u);
  EXPECT_EQ(Fill("x 'a'; P{i}/x y", Use::kShell, {"PATH=.", ""}).find("error"), 0u);
  for (const char* text : {"cd d\n{i}.sh y", "if {i}.sh y; then z; fi", "if x; then {i}.sh y; fi", "while {i}.sh; do z; done", "x `{i}.sh y`",
                           "! {i}.sh y", "time -p {i}.sh y", "{{ {i}.sh y; }", ">log {i}.sh y", "2> log {i}.sh y", "x; >&2 {i}.sh y", ">|log {i}.sh y",
                           "A='b c' {i}.sh y", "A=\"$B\" {i}.sh y", "case a in a) {i}.sh y;; esac", "# x \\\n{i}.sh y", "x \\\\\n{i}.sh y"}) {
    EXPECT_EQ(Fill(text, Use::kShell, {"PATH=.", ""}).find("error: {i} cannot be \"PATH=.\""), 0u) << text;
    EXPECT_EQ(Fill(text, Use::kShell).find("error"), std::string::npos) << text;
  }
  for (const char* text : {"x {i}/y", "x \\\n  {i}/y", "\"$X\" -o {i}/y", "A=1 x {i}/y", "x >{i}.y", "x > log {i}/y", "x; y 2>&1 {i}/y", "> {i}.y x"})
    EXPECT_EQ(Fill(text, Use::kShell, {"b=c", ""}).find("error"), std::string::npos) << text;
  EXPECT_EQ(Fill("A={i} x", Use::kShell, {"b=c", ""}), "A=b=c x");
  EXPECT_EQ(Fill("x {i}/y", Use::kShell, {"b=c", ""}), "x b=c/y");
  // A variable's name.
  EXPECT_EQ(Fill("x $A{i}", Use::kShell).find("error: {i} cannot be \"7\""), 0u);
  EXPECT_EQ(Fill("x $A{i}", Use::kShell, {"/7", ""}), "x $A/7");
  EXPECT_EQ(Fill("x ${A}{i}", Use::kShell), "x ${A}7");
  EXPECT_EQ(Fill("x ${i}", Use::kShell).find("error: ${i} is a variable of the shell"), 0u);
  EXPECT_EQ(Fill("x ${{i}", Use::kShell), "x ${i}");
}

TEST(BraceTextTest, OnlyShellsWhoseQuotesAreKnownGetThem) {
  const auto fill = [](std::string_view shell) {
    const Result<BraceText> parsed = BraceText::Parse("x {i}", Use::kShell, {"i"}, shell);
    std::string out;
    const Status status = parsed->ExpandCommand(std::vector<std::string>{"a b"}, &out);
    return status.ok() ? out : std::string("refused");
  };
  for (const char* shell : {"", "sh", "/bin/sh", "bash", "/usr/bin/zsh", "ksh", "dash"}) EXPECT_EQ(fill(shell), "x 'a b'") << shell;
  for (const char* shell : {"tcsh", "/bin/csh", "fish", "python3", "perl"}) EXPECT_EQ(fill(shell), "refused") << shell;
}

TEST(BraceTextTest, AnArgumentTakesAnyValue) {
  EXPECT_EQ(Fill("echo {word}", Use::kArgument), "echo a b");
  EXPECT_EQ(Fill("'{word}'$(", Use::kArgument, {"7", std::string(kHostile)}), "'" + std::string(kHostile) + "'$(");
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
