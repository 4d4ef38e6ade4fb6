// Lists that other launchers read, of which a line is a command as here:
//
//   disBatch  #DISBATCH PREFIX text, #DISBATCH SUFFIX text   before and behind each command below
//             #DISBATCH BARRIER                              what is below waits until all above has ended
//             #DISBATCH BARRIER CHECK                        and runs only if it was done
//   GREASY    [# 1, 3-5, -1 #] command                       waits for these lines of the file; -1: the one
//   before
//             [@ directory @] command                        runs there
//
// What else they know is refused with what to write instead: no line of theirs is run as something that it
// does not mean.
#include "formats/foreign_list.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/text.h"
#include "formats/text_rules.h"

namespace harrow::formats {
namespace {

constexpr std::string_view kDisBatch = "#DISBATCH";

Status Invalid(std::string text) {
  return Status(Code::kInvalid, std::move(text));
}

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && IsBlank(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsBlank(text.back())) text.remove_suffix(1);
  return text;
}

bool BeginsDisBatch(std::string_view line) {
  return line.starts_with(kDisBatch) && (line.size() == kDisBatch.size() || IsBlank(line[kDisBatch.size()]));
}

template <class Is>
bool SomeLine(std::string_view text, const Is& is) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (is(line)) return true;
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  return false;
}

/// The text between "[#" and "#]" (or @) at the beginning of *line, which it takes away.
std::optional<std::string_view> TakeMark(char sign, std::string_view* line) {
  const char open[] = {'[', sign, '\0'}, close[] = {sign, ']', '\0'};
  if (!line->starts_with(open)) return std::nullopt;
  const size_t end = line->find(close, 2);
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view text = line->substr(2, end - 2);
  line->remove_prefix(end + 2);
  while (!line->empty() && IsBlank(line->front())) line->remove_prefix(1);
  return Trimmed(text);
}

Status NoLine(std::string_view word) {
  return Invalid(
      StrCat("\"", Printable(word),
             "\" is no line to wait for; write numbers of lines above this one: [# 1, 3-5, -1 #]"));
}

Result<int64_t> Number(std::string_view word, std::string_view all) {
  word = Trimmed(word);
  int64_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || end != word.data() + word.size() || word.empty()) return NoLine(all);
  return number;
}

Status ReadAfter(std::string_view list, uint32_t line, std::vector<std::pair<uint32_t, uint32_t>>* after) {
  while (!list.empty()) {
    const std::string_view item = Trimmed(list.substr(0, list.find(',')));
    list.remove_prefix(
        std::min(list.size(), list.find(',') == std::string_view::npos ? list.size() : list.find(',') + 1));
    const size_t dash = item.find('-', 1);  // a first one is of a relative number
    const Result<int64_t> first = Number(item.substr(0, dash), item);
    if (!first.ok()) return first.status();
    const int64_t from = *first < 0 ? line + *first : *first;
    int64_t to = from;
    if (dash != std::string_view::npos) {
      const Result<int64_t> last = Number(item.substr(dash + 1), item);
      if (!last.ok()) return last.status();
      to = *last;
    }
    if (from < 1 || to < from || to >= line) return NoLine(item);
    after->emplace_back(static_cast<uint32_t>(from), static_cast<uint32_t>(to));
  }
  return Status();
}

}  // namespace

bool IsDisBatchList(std::string_view text) {
  for (size_t at = 0; (at = text.find(kDisBatch, at)) != std::string_view::npos; ++at) {
    if ((at == 0 || text[at - 1] == '\n') && BeginsDisBatch(text.substr(at))) return true;
  }
  return false;
}

bool IsForeignList(std::string_view text) {
  return SomeLine(text, [](std::string_view line) {
    line = Trimmed(line);
    return BeginsDisBatch(line) || TakeMark('#', &line) || TakeMark('@', &line);
  });
}

Result<DisBatchLine> ReadDisBatchLine(std::string_view line) {
  std::string_view rest = line.substr(kDisBatch.size());
  while (!rest.empty() && IsBlank(rest.front())) rest.remove_prefix(1);
  const std::string_view word = rest.substr(0, rest.find_first_of(" \t"));
  rest.remove_prefix(word.size());
  if (!rest.empty()) rest.remove_prefix(1);
  if (word == "PREFIX") return DisBatchLine{DisBatchLine::What::kPrefix, rest};
  if (word == "SUFFIX") return DisBatchLine{DisBatchLine::What::kSuffix, rest};
  if (word == "BARRIER") {
    rest = Trimmed(rest);
    if (rest.empty()) return DisBatchLine{DisBatchLine::What::kBarrier, {}};
    if (rest == "CHECK") return DisBatchLine{DisBatchLine::What::kCheckedBarrier, {}};
    return Invalid(StrCat("BARRIER ", Printable(rest, 40),
                          " is not read here; write BARRIER, or BARRIER CHECK where what is below is to run "
                          "only if all above was done"));
  }
  if (word == "REPEAT") {
    return Invalid(
        "REPEAT is not read here; write the lines out (seq 0 99 | sed 's/.*/prog &/'), or a flow file with "
        "each = { i = \"0-99\" } and command = \"prog {i}\"");
  }
  return Invalid(StrCat("disBatch's ", word.empty() ? "directive" : Printable(word, 40),
                        " has no counterpart here; of its directives PREFIX, SUFFIX and BARRIER are read"));
}

Result<GreasyMarks> ReadGreasyMarks(std::string_view line, uint32_t number) {
  GreasyMarks marks;
  std::string_view rest = line;
  for (;;) {
    if (const auto after = TakeMark('#', &rest)) {
      HARROW_RETURN_IF_ERROR(ReadAfter(*after, number, &marks.after));
    } else if (const auto directory = TakeMark('@', &rest)) {
      marks.directory = *directory;
    } else {
      break;
    }
  }
  marks.size = line.size() - rest.size();
  if (marks.size > 0 && rest.empty()) return Invalid("no command stands behind what it waits for; write one");
  return marks;
}

size_t FindHereDocument(std::string_view command) {
  char quote = 0;
  bool word_start = true;
  for (size_t i = 0; i < command.size(); ++i) {
    const char c = command[i];
    if (quote != 0) {
      if (c == '\\' && quote == '"') ++i;
      if (c == quote) quote = 0;
      continue;
    }
    if (c == '#' && word_start) break;
    word_start = IsBlank(c) || c == ';' || c == '(';
    if (c == '\\') {
      ++i;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (command.substr(i).starts_with("((")) {  // arithmetic, where << shifts
      const size_t end = command.find("))", i);
      if (end == std::string_view::npos) break;
      i = end + 1;
    } else if (command.substr(i).starts_with("<<<")) {
      i += 2;
    } else if (command.substr(i).starts_with("<<")) {
      return i;
    }
  }
  return std::string_view::npos;
}

}  // namespace harrow::formats
