// Braces in a flow file. Only {key} of the task's own `each` is filled in, and "{{" is a "{": all other
// braces, ${HOME},
// {} or {print $1}, stay as they are. A {word} that is no key is taken for a slip in names and paths, and in
// commands of tasks with `each` unless it stands after $ or between single quotes.
//
// In a shell command a value becomes one word whatever it holds. What that takes depends on the quotes it
// stands between, so these are followed: 'x' '...{i}...' "...{i}...". Quotes nested by $(...) inside "..."
// are not followed.
#include "formats/brace_text.h"

#include "base/text.h"
#include "formats/problems.h"

namespace harrow::formats {
namespace {

bool IsWordStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool IsWordChar(char c) {
  return IsWordStart(c) || (c >= '0' && c <= '9');
}

/// The word of "{word}" at the start of the text; empty: none is there.
std::string_view BracedWord(std::string_view text) {
  if (text.size() < 3 || !IsWordStart(text[1])) return {};
  size_t n = 2;
  while (n < text.size() && IsWordChar(text[n])) ++n;
  return n < text.size() && text[n] == '}' ? text.substr(1, n - 1) : std::string_view();
}

Status UnknownKey(std::string_view word, const std::vector<std::string_view>& keys) {
  const std::string shown = Printable(word, 40);
  if (keys.empty()) {
    return Status(Code::kInvalid, StrCat("{", shown, "} has no value; add each = { ", shown,
                                         " = ... }, or write {{", shown, "} for the text itself"));
  }
  return Status(Code::kInvalid, StrCat("{", shown, "} is no key of each", SuggestOneOf(word, keys), " ({{",
                                       shown, "} stands for the text itself)"));
}

}  // namespace

Result<BraceText> BraceText::Parse(std::string_view text, Use use,
                                   const std::vector<std::string_view>& keys) {
  BraceText parsed;
  Piece piece;
  Quoting quotes = use == Use::kShell ? Quoting::kWord : Quoting::kNone;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '{' && i + 1 < text.size() && text[i + 1] == '{') {
      piece.literal += '{';
      ++i;
      continue;
    }
    const std::string_view word = c == '{' ? BracedWord(text.substr(i)) : std::string_view();
    if (!word.empty()) {
      size_t key = 0;
      while (key < keys.size() && keys[key] != word) ++key;
      if (key < keys.size()) {
        piece.key = static_cast<int32_t>(key);
        piece.quoting = quotes;
        parsed.pieces_.push_back(std::move(piece));
        piece = Piece();
        i += word.size() + 1;
        continue;
      }
      const bool shell_own = (i > 0 && text[i - 1] == '$') || quotes == Quoting::kSingle;
      const bool command = use == Use::kShell || use == Use::kArgument;
      if (use == Use::kName || (command && !keys.empty() && !shell_own)) return UnknownKey(word, keys);
    }
    piece.literal += c;
    if (use != Use::kShell) continue;
    if (c == '\\' && quotes != Quoting::kSingle && i + 1 < text.size()) {
      piece.literal += text[++i];
    } else if (c == '\'' && quotes != Quoting::kDouble) {
      quotes = quotes == Quoting::kSingle ? Quoting::kWord : Quoting::kSingle;
    } else if (c == '"' && quotes != Quoting::kSingle) {
      quotes = quotes == Quoting::kDouble ? Quoting::kWord : Quoting::kDouble;
    }
  }
  if (!piece.literal.empty()) parsed.pieces_.push_back(std::move(piece));
  return parsed;
}

void BraceText::Expand(std::span<const std::string> values, std::string* out) const {
  for (const Piece& piece : pieces_) {
    out->append(piece.literal);
    if (piece.key < 0) continue;
    const std::string& value = values[static_cast<size_t>(piece.key)];
    switch (piece.quoting) {
      case Quoting::kNone:
        out->append(value);
        break;
      case Quoting::kWord:
        out->append(ShellQuote(value));
        break;
      case Quoting::kSingle:
        for (char c : value) {
          if (c == '\'') {
            out->append("'\\''");
          } else {
            out->push_back(c);
          }
        }
        break;
      case Quoting::kDouble:
        for (char c : value) {
          if (c == '"' || c == '\\' || c == '$' || c == '`') out->push_back('\\');
          out->push_back(c);
        }
        break;
    }
  }
}

bool BraceText::Uses(size_t key) const {
  for (const Piece& piece : pieces_) {
    if (piece.key == static_cast<int32_t>(key)) return true;
  }
  return false;
}

}  // namespace harrow::formats
