// How a command text is started.
//
// The rule above all: a command does what `/bin/sh -c` would make of it. It is executed directly only where
// that is the same.
//
//   kWords  no character that a shell would act on, and a first word that names a program: no shell keyword,
//   no
//           builtin, no assignment. Split at blanks and tabs, executed directly.
//   kArgv   the same, but with plain quoting: '...', "..." without $ ` and \ other than \" \\, and \x outside
//   quotes.
//           The arguments are taken apart here and executed directly.
//   kShell  everything else.
//
// Characters a shell acts on, anywhere: | & ; < > ( ) $ ` * ? [ { newline. At the start of a word: # ~ and,
// as a word, !.
// "~" also after = or : (assignments, PATH-like words).
//
// A builtin goes to the shell also where there is a program of that name. The two differ: of Debian's, echo
// (what \t and -e are), printf (\x, %b, numbers), test (==), kill (-l, what it says), pwd (links), true and
// false (--help); and a program of the user's that is called `test` is not what a shell runs. It costs
// nothing: the shell then starts no program. Which words these are is what dash, bash, BusyBox, ksh and mksh,
// one of which is /bin/sh, know.
#include "formats/command_form.h"

#include <algorithm>
#include <array>
#include <unordered_set>

#include "base/text.h"

namespace harrow::formats {
namespace {

using graph::CommandForm;

enum CharClass : uint8_t { kPlain, kBlank, kShellChar, kQuote, kWordStart, kEquals, kNulByte };

constexpr std::array<CharClass, 256> MakeClasses() {
  std::array<CharClass, 256> classes{};
  for (char c : {'|', '&', ';', '<', '>', '(', ')', '$', '`', '*', '?', '[', '{', '\n'})
    classes[static_cast<unsigned char>(c)] = kShellChar;
  for (char c : {'\'', '"', '\\'}) classes[static_cast<unsigned char>(c)] = kQuote;
  for (char c : {'#', '~', '!'}) classes[static_cast<unsigned char>(c)] = kWordStart;
  for (char c : {' ', '\t'}) classes[static_cast<unsigned char>(c)] = kBlank;
  classes['='] = kEquals;
  classes[0] = kNulByte;
  return classes;
}
constexpr std::array<CharClass, 256> kClasses = MakeClasses();
CharClass ClassOf(char c) {
  return kClasses[static_cast<unsigned char>(c)];
}

/// Builtins of which there are programs as well.
bool IsProgramToo(std::string_view word) {
  static const std::unordered_set<std::string_view> kWords = {"[",      "[[",  "echo", "false", "kill",
                                                              "printf", "pwd", "test", "true"};
  return word.size() <= 6 && kWords.contains(word);
}

/// Keywords and builtins that are in no directory of PATH.
bool IsShellWord(std::string_view word) {
  static const std::unordered_set<std::string_view> kWords = {
      ".",       ":",       "alias",   "bg",      "bind",     "break",     "builtin",  "caller",   "case",
      "cd",      "chdir",   "command", "compgen", "complete", "compopt",   "continue", "coproc",   "declare",
      "dirs",    "disown",  "do",      "done",    "elif",     "else",      "enable",   "esac",     "eval",
      "exec",    "exit",    "export",  "fc",      "fg",       "fi",        "for",      "function", "getopts",
      "hash",    "help",    "history", "if",      "in",       "jobs",      "let",      "local",    "logout",
      "mapfile", "popd",    "print",   "pushd",   "read",     "readarray", "readonly", "return",   "select",
      "set",     "shift",   "shopt",   "source",  "suspend",  "then",      "time",     "times",    "trap",
      "type",    "typeset", "ulimit",  "umask",   "unalias",  "unset",     "until",    "wait",     "whence",
      "while",   "}"};
  return word.size() <= 9 && kWords.contains(word);
}

/// Is `word`, the first of a command, for the shell? Of bash, %1 is a job.
bool NeedsShell(std::string_view word) {
  return IsShellWord(word) || IsProgramToo(word) || word.starts_with('%');
}

/// NAME=value, or NAME+=value.
bool IsAssignmentInShell(std::string_view word) {
  const size_t plus = word.find("+=");
  return IsAssignment(word) || (plus != std::string_view::npos && IsAssignment(StrCat(word.substr(0, plus), "=")));
}

/// The arguments from the program on.
std::string_view WithoutAssignments(std::string_view arguments) {
  while (IsAssignment(arguments.substr(0, arguments.find('\0')))) {
    const size_t end = arguments.find('\0');
    if (end == std::string_view::npos) return {};
    arguments.remove_prefix(end + 1);
  }
  return arguments;
}

/// Takes a text with plain quoting apart. False: a shell is needed.
bool SplitQuoted(std::string_view text, std::string* argv) {
  argv->clear();
  bool in_word = false, first = true;
  std::string word;
  auto end_word = [&] {
    if (!in_word) return true;
    if (first && (NeedsShell(word) || IsAssignmentInShell(word) || word.empty())) return false;
    if (!first) argv->push_back('\0');
    argv->append(word);
    word.clear();
    in_word = first = false;
    return true;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    switch (ClassOf(c)) {
      case kShellChar:
      case kNulByte:
        return false;
      case kBlank:
        if (!end_word()) return false;
        continue;
      case kWordStart:
        if (!in_word) return false;
        if (c == '~' && !word.empty() && (word.back() == '=' || word.back() == ':')) return false;
        break;
      case kQuote:
        in_word = true;
        if (c == '\\') {
          if (++i >= text.size() || text[i] == '\n' || text[i] == '\0') return false;
          word.push_back(text[i]);
          continue;
        }
        for (++i;; ++i) {
          if (i >= text.size() || text[i] == '\0') return false;
          if (text[i] == c) break;
          if (c == '"') {
            if (text[i] == '$' || text[i] == '`') return false;
            if (text[i] == '\\') {
              if (i + 1 >= text.size()) return false;
              if (text[i + 1] == '\n' || text[i + 1] == '$' || text[i + 1] == '`') return false;
              if (text[i + 1] == '"' || text[i + 1] == '\\') ++i;
            }
          }
          word.push_back(text[i]);
        }
        continue;
      case kPlain:
      case kEquals:
        break;
    }
    in_word = true;
    word.push_back(c);
  }
  return end_word() && !first;
}

std::string_view BaseName(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos || slash + 1 == path.size() ? path : path.substr(slash + 1);
}

std::string_view TakeWord(std::string_view* text) {
  const size_t begin = text->find_first_not_of(" \t\n");
  if (begin == std::string_view::npos) return {};
  text->remove_prefix(begin);
  const std::string_view word = text->substr(0, text->find_first_of(" \t\n"));
  text->remove_prefix(word.size());
  return word;
}

/// The kernel's limit of one argument (MAX_ARG_STRLEN), its NUL included, and a safe share of ARG_MAX for
/// all.
constexpr size_t kLongestArgument = 131071;
constexpr size_t kLongestCommand = 1'500'000;

}  // namespace

CommandForm Classify(std::string_view text, std::string* argv) {
  bool quoted = false, word_start = true, first_word = true;
  size_t first_begin = 0, first_end = text.size();
  char before = ' ';
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const CharClass k = ClassOf(c);
    if (k == kPlain) [[likely]] {
      if (word_start && first_word) first_begin = i;
      word_start = false;
    } else if (k == kBlank) {
      if (!word_start && first_word) {
        first_word = false;
        first_end = i;
      }
      word_start = true;
    } else if (k == kShellChar || k == kNulByte) {
      // Inside quotes it may be harmless; only then is a second look worth its time.
      if (!quoted) return CommandForm::kShell;
    } else if (k == kQuote) {
      quoted = true;
    } else {
      if (k == kWordStart && !quoted && (word_start || (c == '~' && (before == '=' || before == ':'))))
        return CommandForm::kShell;
      if (word_start && first_word) first_begin = i;
      word_start = false;
    }
    before = c;
  }
  if (quoted) return SplitQuoted(text, argv) ? CommandForm::kArgv : CommandForm::kShell;
  const std::string_view word = text.substr(first_begin, first_end - first_begin);
  return NeedsShell(word) || IsAssignmentInShell(word) ? CommandForm::kShell : CommandForm::kWords;
}

std::string ArgumentsOf(const std::vector<std::string>& words) {
  std::string argv;
  for (const std::string& word : words) {
    if (&word != &words.front()) argv.push_back('\0');
    argv += word;
  }
  return argv;
}

bool HasArguments(CommandForm form) {
  return form == CommandForm::kArgv || form == CommandForm::kAssigned;
}

std::string_view ProgramName(std::string_view command, CommandForm form) {
  if (form == CommandForm::kNone) return {};
  if (form == CommandForm::kAssigned) command = WithoutAssignments(command);
  if (form == CommandForm::kArgv || form == CommandForm::kAssigned)
    return BaseName(command.substr(0, command.find('\0')));
  std::string_view rest = command;
  std::string_view word = TakeWord(&rest);
  if (form == CommandForm::kWords) return BaseName(word);
  while (IsAssignmentInShell(word) && word.find_first_of("$`'\"\\") == std::string_view::npos)
    word = TakeWord(&rest);
  while (word == "cd" || word == "exec") {
    if (word == "cd") {
      const size_t next = rest.find_first_of("&;\n");
      if (next == std::string_view::npos) break;
      rest.remove_prefix(next);
      rest.remove_prefix(std::min(rest.size(), rest.find_first_not_of("&;\n")));
    }
    word = TakeWord(&rest);
  }
  word = word.substr(0, word.find_first_of(";|&<>"));
  for (char c : word) {
    const CharClass k = ClassOf(c);
    if (k == kShellChar || k == kQuote) return "sh";
  }
  return word.empty() || IsShellWord(word) ? "sh" : BaseName(word);
}

bool StartsRanks(std::string_view program) {
  for (const std::string_view name : {"mpirun", "mpiexec"}) {
    if (program == name || (program.starts_with(name) && program[name.size()] == '.')) return true;
  }
  static const std::unordered_set<std::string_view> kOthers = {
      "srun", "orterun", "prterun", "mpirun_rsh", "aprun", "jsrun", "ibrun"};
  return kOthers.contains(program);
}

std::string RanksTwiceText(std::string_view program, uint32_t ranks) {
  return StrCat("the command is ", program, ", and each of its ", ranks,
                " ranks would start it; Harrow starts ranks itself: write the program without ", program,
                ", or leave ranks out and write the cores that it takes");
}

std::string_view KindName(std::string_view command, CommandForm form) {
  const std::string_view program = ProgramName(command, form);
  static const std::unordered_set<std::string_view> kInterpreters = {
      "perl", "ruby",   "Rscript", "julia", "node", "java", "php", "lua",
      "sh",   "octave", "bash",    "dash",  "ksh",  "zsh",  "tclsh"};
  const bool is_python = program.starts_with("python");
  if (!is_python && kInterpreters.find(program) == kInterpreters.end()) return program;
  // "sh" may be a word of ours.
  if (program.data() < command.data() || program.data() >= command.data() + command.size()) return program;
  std::string_view rest = command.substr(static_cast<size_t>(program.data() - command.data()) + program.size());
  const std::string_view separators =
      HasArguments(form) ? std::string_view("\0", 1) : std::string_view(" \t\n");
  bool module = false;
  while (!rest.empty()) {
    rest.remove_prefix(std::min(rest.find_first_not_of(separators), rest.size()));
    const std::string_view word = rest.substr(0, rest.find_first_of(separators));
    rest.remove_prefix(word.size());
    if (word.empty() || word.find_first_of("$`'\"\\;|&<>(){}*?[ \n") != std::string_view::npos) break;
    if (module) return word;
    if (word.starts_with('-')) {
      module = is_python && word == "-m";
      // -c, -e: the next word is code.
      if (word.size() == 2 && (word[1] == 'c' || word[1] == 'e' || word[1] == 'E')) break;
      continue;
    }
    return word.find_first_of("./") == std::string_view::npos ? program : BaseName(word);
  }
  return program;
}

Status CheckCommandSize(std::string_view command, CommandForm form) {
  if (command.size() <= kLongestArgument) [[likely]]
    return Status();
  auto too_long = [&](std::string_view what, size_t size, size_t most) {
    return Status(Code::kInvalid,
                  StrCat("the command has ", what, " of ", size, " bytes; the system takes at most ", most,
                         ": put it into a script, or its arguments into a file"));
  };
  if (command.size() > kLongestCommand) return too_long("a length", command.size(), kLongestCommand);
  if (form == CommandForm::kShell) return too_long("a shell text", command.size(), kLongestArgument);
  const std::string_view separators =
      HasArguments(form) ? std::string_view("\0", 1) : std::string_view(" \t");
  while (!command.empty()) {
    const size_t length = std::min(command.find_first_of(separators), command.size());
    if (length > kLongestArgument) return too_long("an argument", length, kLongestArgument);
    command.remove_prefix(std::min(command.size(), length + 1));
  }
  return Status();
}

std::string CommandText(std::string_view command, CommandForm form) {
  if (!HasArguments(form)) return std::string(command);
  std::string text;
  for (bool assigning = form == CommandForm::kAssigned;;) {
    const size_t end = command.find('\0');
    const std::string_view word = command.substr(0, end);
    assigning = assigning && IsAssignment(word);
    const size_t name = assigning ? word.find('=') + 1 : 0;
    text += StrCat(word.substr(0, name), ShellQuote(word.substr(name)));
    if (end == std::string_view::npos) return text;
    text += ' ';
    command.remove_prefix(end + 1);
  }
}

}  // namespace harrow::formats
