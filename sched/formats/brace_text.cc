// Braces in a flow file. Only {key} of the task's own `each` is filled in, and arithmetic over such keys
// (brace_formula.h), and "{{" is a "{": all other braces,
// ${HOME}, {} or {print $1}, stay as they are. A {word} that is no key is taken for a slip in names and
// paths, and in commands of tasks with `each` unless it stands after $ or between apostrophes.
//
// In a command for a shell a value has to arrive as it is, whatever a file is called. Only a shell knows what
// its text means (comments, here-documents, "$(...)", quotes in quotes), so nothing here tries to:
//
//   - a value of letters, digits and _./:=@%+,- may stand anywhere;
//   - any other value may stand where it is certain to be a word of its own, and is quoted there: between
//   blanks or
//     ; | & < >, in a shell of the Bourne family, with nothing before it but what IsPlainBefore lets pass,
//     which no shell reads as the beginning of anything that goes on;
//   - everything else is refused. A variable of the environment always takes the value: env = { X = "{i}" },
//   "$X".
//
// Even plain values can mean something to a shell: {i}> with 2, a first word {i}x with A=1, $HOME{i} with a
// letter.
#include "formats/brace_text.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "formats/problems.h"

namespace harrow::formats {
namespace {

constexpr std::string_view kEndsWord = " \t\n;|&<>";
constexpr std::string_view kDigits = "0123456789";

bool IsWordStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool IsWordChar(char c) {
  return IsWordStart(c) || (c >= '0' && c <= '9');
}
bool IsPlain(char c) {
  return IsWordChar(c) || (c >= '+' && c <= '/') || c == ':' || c == '=' || c == '@' ||
         c == '%';  // + , - . /
}
bool IsPlainValue(std::string_view value) {
  return !value.empty() && std::all_of(value.begin(), value.end(), IsPlain);
}
bool IsNumber(std::string_view value) {
  return value.find_first_not_of(kDigits) == std::string_view::npos;
}
bool EndsWord(char c) {
  return kEndsWord.find(c) != std::string_view::npos;
}

/// The word of "{word}" at the start of the text; empty: none is there.
std::string_view BracedWord(std::string_view text) {
  if (text.size() < 3 || !IsWordStart(text[1])) return {};
  size_t n = 2;
  while (n < text.size() && IsWordChar(text[n])) ++n;
  return n < text.size() && text[n] == '}' ? text.substr(1, n - 1) : std::string_view();
}

/// Words after which a shell reads its arguments once more.
bool ReadsAgain(std::string_view word) {
  constexpr std::array<std::string_view, 14> kWords = {"eval",    "alias",   "trap",      "let",   "declare",
                                                       "typeset", "local",   "readonly",  "unset", "read",
                                                       "test",    "mapfile", "readarray", "export"};
  return std::find(kWords.begin(), kWords.end(), word) != kWords.end();
}

/// Can this text of a command have no effect on how a shell takes the next word? Plain characters, operators,
/// simple variables and the wildcards * and ? only. Values count as "_".
bool IsPlainBefore(std::string_view text) {
  size_t word = 0;  // where the current word begins
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (EndsWord(c)) {
      if (c == '<' && i + 1 < text.size() && text[i + 1] == '<') return false;  // a here-document
      if (ReadsAgain(text.substr(word, i - word))) return false;
      word = i + 1;
    } else if (c == '$') {
      const bool braced = i + 1 < text.size() && text[i + 1] == '{';
      size_t end = i + (braced ? 2 : 1);
      const size_t begin = end;
      while (end < text.size() && IsWordChar(text[end])) ++end;
      if (end == begin || (braced && (end == text.size() || text[end] != '}'))) return false;
      i = braced ? end : end - 1;
    } else if (c != '*' && c != '?' && !IsPlain(c)) {
      return false;
    }
  }
  return true;
}

bool IsBourne(std::string_view shell) {
  constexpr std::array<std::string_view, 7> kShells = {"sh", "bash", "dash", "ash", "ksh", "mksh", "zsh"};
  shell = shell.substr(shell.rfind('/') + 1);
  return shell.empty() || std::find(kShells.begin(), kShells.end(), shell) != kShells.end();
}

/// Does the text end in $NAME, so that more letters would make another name of it?
bool EndsInVariable(std::string_view text) {
  size_t begin = text.size();
  while (begin > 0 && IsWordChar(text[begin - 1])) --begin;
  return begin > 0 && begin < text.size() && text[begin - 1] == '$' && IsWordStart(text[begin]);
}

/// Where the simple command that the text ends in begins, or later. Joined lines are one, but not in comments
/// and here-documents.
size_t CommandBegin(std::string_view text) {
  const bool joins = text.find('#') == std::string_view::npos && text.find("<<") == std::string_view::npos;
  for (size_t at = text.size(); at > 0; --at) {
    const char c = text[at - 1], last = at > 1 ? text[at - 2] : ' ';
    const bool joined = joins && c == '\n' && last == '\\' && (at < 3 || text[at - 3] != '\\');
    const bool redirects = (c == '&' || c == '|') && (last == '>' || last == '<');
    if (!joined && !redirects && std::string_view("\n;|&()`").find(c) != std::string_view::npos) return at;
  }
  return 0;
}

/// Might "=" make an assignment of the word that the text ends in? Of the first words of a command it does,
/// whatever redirections stand among them.
bool BeginsAssignment(std::string_view text) {
  constexpr std::array<std::string_view, 11> kBefore = {"if",    "then", "else", "elif", "do",    "while",
                                                        "until", "!",    "{",    "time", "coproc"};
  text.remove_prefix(CommandBegin(text));
  for (bool file = false;;) {
    text.remove_prefix(std::min(text.size(), text.find_first_not_of(" \t\n\\")));
    const size_t blank = text.find_first_of(" \t\n");
    if (blank == std::string_view::npos) return !file && std::all_of(text.begin(), text.end(), IsWordChar);
    const std::string_view word = text.substr(0, blank);
    text.remove_prefix(blank);
    const bool assigns = word.find('=') != std::string_view::npos;
    if (assigns && word.find_first_of("'\"\\$") != std::string_view::npos)
      return true;  // it may go on after the blank
    const bool redirects = word.find_first_of("<>") != std::string_view::npos;
    const bool names = !file && !assigns && !redirects && !word.starts_with('-') &&
                       std::find(kBefore.begin(), kBefore.end(), word) == kBefore.end();
    if (names) return false;
    file = redirects && std::string_view("<>&|").find(word.back()) != std::string_view::npos;
  }
}

Status UnknownKey(std::string_view word, const std::vector<std::string_view>& keys) {
  const std::string shown = Printable(word);
  if (keys.empty()) {
    return Status(Code::kInvalid, StrCat("{", shown, "} has no value; add each = { ", shown,
                                         " = ... }, or write {{", shown, "} for the text itself"));
  }
  return Status(Code::kInvalid, StrCat("{", shown, "} is no key of each", SuggestOneOf(word, keys), " ({{",
                                       shown, "} stands for the text itself)"));
}

}  // namespace

Result<BraceText> BraceText::Parse(std::string_view text, Use use, const std::vector<std::string_view>& keys,
                                   std::string_view shell) {
  BraceText parsed;
  Piece piece;
  std::string before;  // what the shell will read up to here, values as "_"; only of a command with keys
  const bool in_shell = use == Use::kShell && !keys.empty();
  char quote = ' ';  // open here as far as a glance tells: good enough to tell slips, not to protect values
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '{' && i + 1 < text.size() && text[i + 1] == '{') {
      piece.literal += '{';
      if (in_shell) before += '{';
      ++i;
      continue;
    }
    const std::string_view word = c == '{' ? BracedWord(text.substr(i)) : std::string_view();
    // Something is filled in for the braces around `inner`.
    const auto fill = [&](std::string_view inner) {
      const std::string_view after = text.substr(i + inner.size() + 2);
      if (in_shell) {
        const bool alone =
            (before.empty() || EndsWord(before.back())) && (after.empty() || EndsWord(after.front()));
        const size_t digits = before.find_last_not_of("0123456789_");  // those before and values
        piece.place = alone && IsBourne(shell) && IsPlainBefore(before) ? Place::kWord : Place::kPart;
        piece.name = inner;
        piece.first_word = BeginsAssignment(before);
        piece.redirects = (after.starts_with('<') || after.starts_with('>')) &&
                          (digits == std::string::npos || EndsWord(before[digits]));
        piece.names_more = EndsInVariable(before);
        before += '_';
      }
      parsed.pieces_.push_back(std::move(piece));
      piece = Piece();
      i += inner.size() + 1;
    };
    const bool after_dollar = i > 0 && text[i - 1] == '$';
    const std::string_view inner = c == '{' && word.empty() ? BraceFormula::Find(text.substr(i)) : std::string_view();
    // ${i%.*} and the like are the shell's own.
    if (!inner.empty() && !(use == Use::kShell && after_dollar)) {
      std::optional<Result<BraceFormula>> formula = BraceFormula::Parse(inner, keys);
      if (formula && formula->ok()) {
        piece.formula = std::move(**formula);
        fill(inner);
        continue;
      }
      if (formula && use != Use::kTask && quote != '\'') return formula->status();
    }
    if (!word.empty()) {
      size_t key = 0;
      while (key < keys.size() && keys[key] != word) ++key;
      if (key < keys.size()) {
        if (in_shell && before.ends_with('$')) {
          return Status(Code::kInvalid, StrCat("${", word, "} is a variable of the shell, and ", word,
                                               " a key of each; write {", word, "} for the value, ${{",
                                               word, "} for the variable"));
        }
        piece.key = static_cast<int32_t>(key);
        fill(word);
        continue;
      }
      const bool shell_own = after_dollar || quote == '\'';
      const bool command = use == Use::kShell || use == Use::kArgument;
      if (use == Use::kName || (command && !keys.empty() && !shell_own)) return UnknownKey(word, keys);
    }
    piece.literal += c;
    if (in_shell) before += c;
    if (use != Use::kShell) continue;
    if (c == '\\' && quote != '\'' && i + 1 < text.size()) {
      piece.literal += text[++i];
      if (in_shell) before += text[i];
    } else if ((c == '\'' || c == '"') && (quote == ' ' || quote == c)) {
      quote = quote == c ? ' ' : c;
    }
  }
  if (!piece.literal.empty()) parsed.pieces_.push_back(std::move(piece));
  return parsed;
}

Status BraceText::CheckValue(const Piece& piece, std::string_view value) {
  const auto refuse = [&](std::string_view why, std::string_view first) {
    return Status(Code::kInvalid, StrCat("{", piece.name, "} cannot be \"", Printable(value), "\" here: ",
                                         why, "; ", first, "hand it over as a variable: env = { X = \"{",
                                         piece.name, "}\" }, and \"$X\" in the command"));
  };
  if (!IsPlainValue(value)) {
    return refuse("the shell might take it apart or run it",
                  StrCat("write {", piece.name,
                         "} as a word of its own, with no quotes, brackets or comments before it, or "));
  }
  if (piece.first_word && value.find('=') != std::string_view::npos)
    return refuse("the command would begin with an assignment", "");
  if (piece.redirects && IsNumber(value))
    return refuse("it would be the descriptor that < or > redirects", "write a blank after it, or ");
  if (piece.names_more && IsWordChar(value.front()))
    return refuse("it would go on with the name of the variable before it", "write that one as ${NAME}, or ");
  return Status();
}

Status BraceText::Piece::Append(std::span<const std::string> values, std::string* out) const {
  if (formula) return formula->Append(values, out);
  if (key >= 0) out->append(values[static_cast<size_t>(key)]);
  return Status();
}

Status BraceText::Expand(std::span<const std::string> values, std::string* out) const {
  for (const Piece& piece : pieces_) {
    out->append(piece.literal);
    HARROW_RETURN_IF_ERROR(piece.Append(values, out));
  }
  return Status();
}

Status BraceText::ExpandCommand(std::span<const std::string> values, std::string* out) const {
  std::string calculated;
  for (const Piece& piece : pieces_) {
    out->append(piece.literal);
    if (!piece.filled()) continue;
    if (piece.formula) {
      calculated.clear();
      HARROW_RETURN_IF_ERROR(piece.Append(values, &calculated));
    }
    const std::string& value = piece.formula ? calculated : values[static_cast<size_t>(piece.key)];
    if (piece.place == Place::kPart) HARROW_RETURN_IF_ERROR(CheckValue(piece, value));
    if (piece.place != Place::kWord) {
      out->append(value);
    } else if (!IsPlainValue(value)) {
      out->append(ShellQuote(value));
    } else if (value.find('=') != std::string::npos || (piece.redirects && IsNumber(value))) {
      out->append(1, '\'').append(value).append(1, '\'');
    } else {
      out->append(value);
    }
  }
  return Status();
}

bool BraceText::Uses(size_t key) const {
  for (const Piece& piece : pieces_) {
    if (piece.key == static_cast<int32_t>(key) || (piece.formula && piece.formula->Uses(key))) return true;
  }
  return false;
}

}  // namespace harrow::formats
