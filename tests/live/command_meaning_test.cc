// A command does what /bin/sh would make of it, whichever way it is started: commands drawn from a grammar
// are run as tasks both ways, as they are classified and by /bin/sh -c, and have to write the same bytes and
// end the same.
//
// HARROW_SEED=N draws others, HARROW_COMMANDS=N that many. What is drawn must not depend on when it runs, nor
// harm anybody.
#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <random>
#include <string>
#include <sys/stat.h>
#include <utility>
#include <vector>

#include "base/text.h"
#include "formats/command_form.h"
#include "live/agent_fixture.h"

namespace harrow::agent {
namespace {

using output::Stream;

uint64_t Setting(const char* name, uint64_t otherwise) {
  const char* text = getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

class Grammar {
 public:
  explicit Grammar(uint64_t seed) : random_(seed) {}

  std::string Command() {
    // Whole ones where a random argument could harm or would not be the same twice.
    if (Once(12)) {
      return Pick({"kill -l",
                   "kill -l 9",
                   "kill",
                   "kill -s NOSUCH 0",
                   "exit 3",
                   "exit 300",
                   "sh -c 'kill -9 $$'",
                   "sh -c 'exit 77'",
                   "pwd",
                   "pwd -P",
                   "true --version",
                   "true x",
                   "false --help",
                   ":",
                   "'' x",
                   "\"\"",
                   "ulimit -c 0",
                   "umask 077",
                   "type cat",
                   "command -v cat",
                   "cd sub",
                   "time",
                   "read x",
                   "wait",
                   "umask",
                   "-x",
                   "+x",
                   "#x",
                   "!",
                   "! true",
                   "}",
                   "if",
                   "cat missing",
                   "env -i env", "env A=1 show x", "env -u HOME show 'a b'",
                   "module load x"});
    }
    std::string text = Pick({"", "", "", " ", "\t"}) + FirstWord();
    for (size_t n = random_() % 5; n > 0; --n) text += Pick({" ", " ", "  ", "\t"}) + Word();
    return text + Pick({"", "", "", " ", "\t"});
  }

 private:
  bool Once(unsigned in) { return random_() % in == 0; }
  std::string Pick(const std::vector<std::string>& from) { return from[random_() % from.size()]; }

  std::string FirstWord() {
    const std::string word = Pick({"show",     "show",
                                   "show",     "show",
                                   "./show",   "echo",
                                   "echo",     "/bin/echo",
                                   "printf",   "/usr/bin/printf",
                                   "test",     "/usr/bin/test",
                                   "[",        "true",
                                   "false",    "cat",
                                   "basename", "dirname",
                                   "expr",     "seq",      "tr",
                                   "wc",       "head",
                                   "missing",  "./missing",
                                   "./closed", "./sub",
                                   "sub",      "./plain",
                                   "./lost",   "./show/x",
                                   "in",       "A=1",
                                   "A=1 show", "A=b=c show",
                                   "1a=2",     "~",
                                   "~/x",      "a/b",
                                   "=",        "a b",
                                   "chdir",    "export",
                                   "set",      "local",
                                   "print",    "source",
                                   ".",        "eval",
                                   "exec",     "shift",
                                   "unset",    "trap",
                                   "alias",    "cl",
                                   "dirtool"});
    switch (random_() % 12) {
      case 0:
        return "'" + word + "'";
      case 1:
        return "\"" + word + "\"";
      case 2:
        return word.substr(0, 1) + "\\" + word.substr(1);
      case 3:
        return word.substr(0, 1) + "''" + word.substr(1);
      default:
        return word;
    }
  }
  std::string Atom() {
    return Pick({"a",        "b",        "x1",          "-n",        "-e",        "-E",        "--",
                 "--help",   "-",        "+1",          "=",         "==",        "!=",        "1",
                 "007",      "-eq",      "a=b",         "%s",        "%d",        "%q",        "%b",
                 "\\n",      "\\t",      "\\0101",      "\\x41",     "\\c",       "\\\\",      "\\ ",
                 "\\'",      "\\\"",     "\\$x",        "a\\b",      "~",         "a~b",       "a:~",
                 "x=~",      "#",        "a#b",         "!",         "a!b",       "100%",      ",",
                 "@",        "^",        "]",           "}",         "a]b",       "in",        "sub",
                 "'a b'",    "''",       "\"\"",        "'\\'",      "'a\\tb'",   "\"a\\tb\"", "\"a\\\\b\"",
                 "\"\\\"\"", "\"it's\"", "'say \"x\"'", "'$HOME'",   "\"$HOME\"", "$HOME",     "$((1+2))",
                 "`echo x`", "*",        "s*",          "?",         "[a-z]*",    "{a,b}",     "{a",
                 "|",        "| cat",    "&&",          "|| echo y", ";",         "; echo z",  ">out",
                 "<in",      "2>&1",     "'a\nb'",      "\n",        "\\\n",      "\xc3\xa4",  "\xff",
                 "'\x85'",   "\r",       "\x01",        "'",         "\"",        "\\",        "<<x",
                 "("});
  }
  std::string Word() {
    std::string word = Atom();
    while (Once(4)) word += Atom();
    return word;
  }

  std::mt19937_64 random_;
};

struct Seen {
  int status = -1;  // as a shell tells it: 128+n for signal n
  bool told = true;  // what was wrong is all in `err`
  std::string out, err;
};

class CommandMeaning : public SlotPoolTest {
 protected:
  CommandMeaning() {
    Tool("show", "#!/bin/sh\nfor a; do printf '<%s>' \"$a\"; done\nprintf '%s' \"$A\"\n", 0755);
    mkdir((scratch_.path() + "/bin/dirtool").c_str(), 0755);
  }
  void Tool(const std::string& name, const std::string& text, mode_t mode) {
    mkdir((scratch_.path() + "/bin").c_str(), 0755);
    Write("bin/" + name, text, mode);
  }
  void Write(const std::string& name, const std::string& text, mode_t mode = 0644) {
    std::ofstream(scratch_.path() + "/" + name) << text;
    chmod((scratch_.path() + "/" + name).c_str(), mode);
  }
  /// The directory that a command runs in, the same each time.
  void MakeWork() {
    std::filesystem::remove_all(scratch_.path() + "/here");
    std::filesystem::create_directories(scratch_.path() + "/here/sub");
    Write("here/show", "#!/bin/sh\nprintf '[%s]' \"$0\" \"$@\"\n", 0755);
    Write("here/plain", "echo plain \"$@\"\n", 0755);
    Write("here/closed", "echo closed\n", 0644);
    Write("here/lost", "#!/no/such/interpreter\n", 0755);
    Write("here/in", "given\n");
  }
  Seen RunAs(CommandForm form, const std::string& command) {
    MakeWork();
    ProfileSpec spec{.cwd = "here", .env = {{"LC_ALL", "C"}}};
    spec.env.emplace_back("PATH", scratch_.path() + "/bin:/usr/local/bin:/usr/bin:/bin");
    spec.env.insert(spec.env.end(), more_env_.begin(), more_env_.end());
    LocalTask task = Words(command, std::move(spec));
    task.form = form;
    const TaskResult result = Run(std::move(task));
    return {.status = result.end == End::kSignaled ? 128 + result.code : result.code,
            .told = result.end == End::kExited,
            .out = Output(result),
            .err = Output(result, Stream::kStderr)};
  }
  /// False: both ways are by the shell.
  bool Compare(const std::string& text) {
    std::string argv;
    const graph::CommandForm form = formats::Classify(text, &argv);
    if (form == graph::CommandForm::kShell) return false;
    const Seen direct =
        RunAs(static_cast<CommandForm>(form), form == graph::CommandForm::kArgv ? argv : text);
    const Seen shell = RunAs(CommandForm::kShell, text);
    EXPECT_EQ(direct.status, shell.status) << Printable(text);
    EXPECT_EQ(direct.out, shell.out) << Printable(text);
    // Why it could not be started we say in our own words; that a signal ended it a shell says on its stderr.
    if (direct.told) {
      EXPECT_EQ(direct.err, shell.err) << Printable(text);
    }
    return true;
  }

  EnvList more_env_;
};

TEST_F(CommandMeaning, IsTheSameWithAndWithoutAShell) {
  const uint64_t seed = Setting("HARROW_SEED", 20240611), count = Setting("HARROW_COMMANDS", 3000);
  std::cout << "HARROW_SEED=" << seed << " HARROW_COMMANDS=" << count << "\n";
  Grammar grammar(seed);
  uint64_t compared = 0;
  for (uint64_t i = 0; i < count && !HasFailure(); ++i) compared += Compare(grammar.Command()) ? 1 : 0;
  std::cout << compared << " of " << count << " were executed directly\n";
  EXPECT_TRUE(HasFailure() || compared > count / 10) << "the grammar draws nothing that is executed directly";
}

TEST_F(CommandMeaning, EchoAloneAndInAPipeWritesTheSame) {
  for (const std::string text :
       {R"(echo "a\tb")", R"(echo 'a\nb')", "echo -e x", "echo -n x", "printf '%b' 'a\\tb'"}) {
    std::string argv;
    const auto form = static_cast<CommandForm>(formats::Classify(text, &argv));
    const Seen alone = RunAs(form, form == CommandForm::kArgv ? argv : text);
    EXPECT_EQ(alone.out, RunAs(CommandForm::kShell, text + " | cat").out) << text;
  }
}

// What a task's program is called is the user's business, but `test` is the shell's.
TEST_F(CommandMeaning, AProgramThatIsNamedLikeABuiltinIsNotWhatAShellRuns) {
  for (const char* name : {"test", "echo", "true", "kill", "pwd", "printf"}) {
    Tool(name, "#!/bin/sh\necho mine\n", 0755);
    const std::string text = StrCat(name, " 1");
    std::string argv;
    const auto form = static_cast<CommandForm>(formats::Classify(text, &argv));
    EXPECT_NE(RunAs(form, form == CommandForm::kArgv ? argv : text).out, "mine\n") << name;
  }
}

// As bash exports them; dash, where that is /bin/sh, knows none, and neither then do tasks.
TEST_F(CommandMeaning, ExportedFunctionsAreWhatTheShellMakesOfThem) {
  more_env_ = {{"BASH_FUNC_show%%", "() {  echo function \"$@\"; }"}};
  EXPECT_TRUE(Compare("show x"));
}

}  // namespace
}  // namespace harrow::agent
