#include "formats/command_form.h"

#include <cstdio>
#include <gtest/gtest.h>

#include "base/text.h"

namespace harrow::formats {
namespace {

using graph::CommandForm;

CommandForm FormOf(std::string_view text) {
  std::string argv;
  return Classify(text, &argv);
}

std::string Arguments(std::string_view text) {
  std::string argv;
  if (Classify(text, &argv) != CommandForm::kArgv) return "no argv";
  for (char& c : argv) {
    if (c == '\0') c = '|';
  }
  return argv;
}

TEST(ClassifyTest, PlainWordsAreExecutedDirectly) {
  for (const char* text : {"/bin/true", "mProject raw/1.fits p/1.fits region.hdr", "a\tb",
                           "./run.sh --n=4 -x", "cat a#b x~y 50% a!b", "9A=1 prog", "a-b=1 x", "=x y",
                           "env A=1 ls", "python3 -m x.y @args +1 a,b:c ]", "time2", "doing x"}) {
    EXPECT_EQ(FormOf(text), CommandForm::kWords) << text;
  }
}

TEST(ClassifyTest, ShellSyntaxNeedsAShell) {
  for (const char* text :
       {"a | b",       "a && b",      "a; b",    "a > f",          "a < f",          "echo $HOME",
        "echo `date`", "(a)",         "ls *.c",  "ls a?b",         "ls [ab]",        "echo {1..3}",
        "a &",         "ls ~",        "ls ~/x",  "PATH=~/bin:~ x", "a b:~",          "dd if=~/x",
        "# comment",   "a # comment", "! true",  "a\nb",           "echo \"$HOME\"", "echo \"`x`\"",
        "echo 'open",  "echo \"open", "echo \\", "echo \"a\\\nb\""}) {
    EXPECT_EQ(FormOf(text), CommandForm::kShell) << text;
  }
}

// Nothing but the quoting would need a shell: each of these would be taken apart if it were not for one place
// in it.
TEST(ClassifyTest, ShellSyntaxBesideQuotesNeedsAShell) {
  for (const char* text :
       {"cat 'a' | b", "cat 'a' # b", "cat 'a' ~", "cat 'a' b=~", "cat 'a' b:~", "cat 'a' !b", "cat 'a' 'b",
        "cat \"a", "cat \\", "cat \\\n", "cat \"$a\"", "cat \"`a`\"", "cat \"a\\", "cat \"\\\n\"",
        "cat \"\\$a\"", "cat \"\\`a\"", "'' a", "'cat", "A='b' cat"}) {
    EXPECT_EQ(FormOf(text), CommandForm::kShell) << text;
  }
}

TEST(ClassifyTest, KeywordsBuiltinsAndAssignmentsNeedAShell) {
  for (const char* text :
       {"cd x", "exit 3", "export A", "A=1 prog", "A=1", "_x9=2 y", "source x", ". x", ": ", "if",
        "ulimit -c", "exec x", "eval x", "wait", "set -e", "'cd' x", "A='b c' x"}) {
    EXPECT_EQ(FormOf(text), CommandForm::kShell) << text;
  }
}

// "echo 'a\tb'" printed another text alone than in a pipe.
TEST(ClassifyTest, ABuiltinIsTheShellsAlsoWhereThereIsAProgramOfItsName) {
  for (const char* text :
       {"echo a", "echo -e a", "echo 'a\\tb'", "printf x", "test a == a", "kill -l", "pwd", "true",
        "true --help", "false", "'echo' x", "'[' a ]", "%1", "chdir x", "print x"}) {
    EXPECT_EQ(FormOf(text), CommandForm::kShell) << text;
  }
  for (const char* text : {"/bin/echo a", "echoes", "tests x", "./test", "env echo a"}) {
    EXPECT_EQ(FormOf(text), CommandForm::kWords) << text;
  }
}

TEST(ClassifyTest, PlainQuotingIsTakenApart) {
  EXPECT_EQ(Arguments("cat 'a b' c"), "cat|a b|c");
  EXPECT_EQ(Arguments("cat \"a b\""), "cat|a b");
  EXPECT_EQ(Arguments("awk '{print $1; x|y}' f"), "awk|{print $1; x|y}|f");
  EXPECT_EQ(Arguments("cat a'b'\"c\"d"), "cat|abcd");
  EXPECT_EQ(Arguments("cat ''"), "cat|");
  EXPECT_EQ(Arguments("cat '' x"), "cat||x");
  EXPECT_EQ(Arguments("cat a\\ b \\$x \\'"), "cat|a b|$x|'");
  EXPECT_EQ(Arguments("cat \"a\\\"b\\\\c\\d\""), "cat|a\"b\\c\\d");
  EXPECT_EQ(Arguments("'my prog' x"), "my prog|x");
  EXPECT_EQ(Arguments("cat 'it'\\''s'"), "cat|it's");
  EXPECT_EQ(Arguments("  cat  'x'  "), "cat|x");
}

// What is executed directly has to be what the shell would have executed.
TEST(ClassifyTest, AgreesWithTheShell) {
  for (const char* rest : {"a  b\tc",
                           "'a b' c",
                           "\"x\\\"y\" 'z'",
                           "a\\ b",
                           "a'b'c",
                           "''",
                           "'' ''",
                           "a=b c=d",
                           "x#y",
                           "a~b",
                           "\"a\\b\"",
                           "'\\'",
                           "a!b",
                           "100%",
                           "a]b",
                           "\\a\\b",
                           "\"it's\" 'say \"x\"'",
                           "\"a;b|c\" '&'",
                           "\"#\" '~'",
                           "a,b:c@d+e"}) {
    const std::string plain = StrCat("/usr/bin/printf x%sx ", rest);
    std::string argv;
    const CommandForm form = Classify(plain, &argv);
    ASSERT_NE(form, CommandForm::kShell) << plain;
    std::string direct;
    for (std::string_view left = form == CommandForm::kArgv ? std::string_view(argv)
                                                            : std::string_view(plain);
         !left.empty();) {
      const std::string_view separators =
          form == CommandForm::kArgv ? std::string_view("\0", 1) : std::string_view(" \t");
      const size_t end = left.find_first_of(separators);
      const std::string_view word = left.substr(0, end);
      if (form == CommandForm::kArgv || !word.empty()) direct += StrCat("<", word, ">");
      if (end == std::string_view::npos) break;
      left.remove_prefix(end + 1);
      if (left.empty() && form == CommandForm::kArgv) direct += "<>";
    }
    const std::string script =
        StrCat("show() { for a in \"$@\"; do printf '<%s>' \"$a\"; done; }; show ", plain);
    FILE* shell = popen(StrCat("/bin/sh -c ", ShellQuote(script)).c_str(), "r");
    ASSERT_NE(shell, nullptr);
    std::string said;
    for (int c = fgetc(shell); c != EOF; c = fgetc(shell)) said.push_back(static_cast<char>(c));
    ASSERT_EQ(pclose(shell), 0);
    EXPECT_EQ(direct, said) << plain;
  }
}

TEST(ProgramNameTest, WhatTasksAreGroupedBy) {
  const std::pair<const char*, const char*> cases[] = {
      {"mProject a b", "mProject"},
      {"/usr/bin/mAdd x", "mAdd"},
      {"./run.sh", "run.sh"},
      {"A=1 B=2 prog x | y", "prog"},
      {"cd x && ./prog > f", "prog"},
      {"cd x; prog", "prog"},
      {"exec prog > f", "prog"},
      {"$PROG x", "sh"},
      {"for i in 1 2; do x; done", "sh"},
      {"prog>f", "prog"},
      {"'my prog' x", "my prog"},
      {"(a; b)", "sh"},
      {"cd x", "sh"},
      {"echo a; b", "echo"},
  };
  for (const auto& [text, want] : cases) {
    std::string argv;
    const CommandForm form = Classify(text, &argv);
    EXPECT_EQ(ProgramName(form == CommandForm::kArgv ? argv : text, form), want) << text;
  }
  EXPECT_EQ(ProgramName("", CommandForm::kNone), "");
}

TEST(StartsRanksTest, KnowsTheLaunchers) {
  for (const char* launcher : {"mpirun", "mpiexec", "mpiexec.hydra", "mpirun.openmpi", "srun", "orterun"})
    EXPECT_TRUE(StartsRanks(launcher)) << launcher;
  for (const char* other : {"", "sh", "mpirun2", "mpi", "solver", "mpicc"}) EXPECT_FALSE(StartsRanks(other)) << other;
}

TEST(CheckCommandSizeTest, KnowsTheKernelsLimits) {
  const std::string word(131071, 'x'), longer(131072, 'x');
  EXPECT_TRUE(CheckCommandSize(word, CommandForm::kShell).ok());
  EXPECT_FALSE(CheckCommandSize(longer, CommandForm::kShell).ok());
  EXPECT_TRUE(CheckCommandSize(StrCat("cat ", word, " ", word), CommandForm::kWords).ok());
  EXPECT_FALSE(CheckCommandSize(StrCat("cat ", longer), CommandForm::kWords).ok());
  EXPECT_FALSE(CheckCommandSize(std::string("cat\0", 4) + longer, CommandForm::kArgv).ok());
  EXPECT_FALSE(CheckCommandSize(std::string(2'000'000, ' '), CommandForm::kWords).ok());
}

}  // namespace
}  // namespace harrow::formats
