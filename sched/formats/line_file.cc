// A line file: one command a line. Blank lines and lines that begin with # are skipped; a line "#HARROW
// key=value ..." sets what the lines below it ask for, until another one sets it anew: what that one does not
// name is as if it had never been said. Values with blanks are quoted. Lines end with LF or CR LF. The keys
// are those of a flow file that make sense for a line (task_keys.h), and env.NAME=value.
//
// A line costs no allocation: text and command are views until the graph copies them.
#include "formats/line_file.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/text.h"
#include "formats/command_form.h"
#include "formats/kind_cache.h"
#include "formats/task_keys.h"

namespace harrow::formats {
namespace {

bool IsBlank(char c) {
  return c == ' ' || c == '\t';
}
bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

class LineReader {
 public:
  LineReader(uint32_t source, const LoadOptions& options, graph::Graph* graph, Problems* problems)
      : graph_(graph), problems_(problems), options_(options), attributes_(options.defaults), kinds_(graph) {
    place_.source = source;
    profile_ = graph->AddProfile(attributes_.Resolved());
  }

  void Read(std::string_view text) {
    const char* at = text.data();
    const char* const end = at + text.size();
    while (at < end && !problems_->full()) {
      ++place_.line;
      const char* newline = static_cast<const char*>(std::memchr(at, '\n', static_cast<size_t>(end - at)));
      const char* stop = newline != nullptr ? newline : end;
      const char* begin = at;
      at = newline != nullptr ? newline + 1 : end;
      while (stop > begin && (IsBlank(stop[-1]) || stop[-1] == '\r')) --stop;
      const char* const line = begin;
      while (begin < stop && IsBlank(*begin)) ++begin;
      if (begin == stop) continue;
      place_.column = static_cast<uint32_t>(begin - line + 1);
      const std::string_view command(begin, static_cast<size_t>(stop - begin));
      if (*begin == '#') {
        Comment(command);
      } else {
        Command(command);
      }
    }
  }

 private:
  void Command(std::string_view text) {
    if (graph_->task_count() >= options_.max_tasks) {
      problems_->AddLast(
          place_, StrCat("there are more than ", options_.max_tasks, " tasks; split them into several runs"));
      return;
    }
    const size_t last = text.find_last_not_of('\\');
    const size_t backslashes = text.size() - (last == std::string_view::npos ? 0 : last + 1);
    if (backslashes % 2 == 1) {
      SourcePlace place = place_;
      place.column += static_cast<uint32_t>(text.size() - 1);
      problems_->Add(place,
                     "the line ends with \\, and a command ends with its line; write all of it on one line");
      return;
    }
    graph::TaskSpec task;
    task.form = attributes_.profile.shell.empty() ? Classify(text, &argv_) : graph::CommandForm::kShell;
    task.command = task.form == graph::CommandForm::kArgv ? std::string_view(argv_) : text;
    if (Status size = CheckCommandSize(task.command, task.form); !size.ok()) {
      problems_->Add(place_, size.message());
      return;
    }
    task.profile = profile_;
    task.kind = attributes_.kind.empty() ? kinds_.Of(ProgramName(task.command, task.form)) : kind_;
    task.place = place_;
    task.recorded_run_time = attributes_.run_time;
    graph_->AddTask(task);
  }

  void Comment(std::string_view text) {
    std::string_view rest = text.substr(1);
    const size_t blanks = rest.find_first_not_of(" \t");
    if (blanks == std::string_view::npos) return;
    std::string_view word = rest.substr(blanks);
    word = word.substr(0, std::find_if_not(word.begin(), word.end(), IsLetter) - word.begin());
    const size_t after = blanks + word.size();
    if (blanks == 0 && word == "HARROW" && (after == rest.size() || IsBlank(rest[after]))) {
      Directive(text, 1 + word.size());
      return;
    }
    // A misspelt directive must not pass as a comment.
    std::string upper(word.substr(0, 12));
    for (char& c : upper) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
    const bool sets = rest.substr(after).find('=') != std::string_view::npos;
    if (sets && word.size() >= 4 && word.size() <= 8 && Suggest(upper, {"HARROW"})) {
      problems_->Add(place_, StrCat("\"", Printable(text.substr(0, 1 + after)),
                                    "\" is a comment; write #HARROW to set what follows"));
    }
  }

  /// `key=value` and `key="a value"`, separated by blanks, from `at` of the line on.
  void Directive(std::string_view text, size_t at) {
    const SourcePlace line = place_;
    std::vector<std::string_view> keys;
    attributes_ = options_.defaults;
    for (;;) {
      while (at < text.size() && IsBlank(text[at])) ++at;
      if (at == text.size()) break;
      SourcePlace place = line;
      place.column = line.column + static_cast<uint32_t>(at);
      const size_t key_begin = at;
      while (at < text.size() && text[at] != '=' && !IsBlank(text[at])) ++at;
      const std::string_view key = text.substr(key_begin, at - key_begin);
      if (at == text.size() || text[at] != '=') {
        problems_->Add(
            place, StrCat("\"", Printable(key), "\" has no value; write key=value without blanks around ="));
        return;
      }
      ++at;
      if (std::find(keys.begin(), keys.end(), key) != keys.end()) {
        problems_->Add(place, StrCat(Printable(key), " stands twice in this line; write it once"));
        return;
      }
      keys.push_back(key);
      std::string value;
      if (at < text.size() && (text[at] == '"' || text[at] == '\'')) {
        const size_t close = text.find(text[at], at + 1);
        if (close == std::string_view::npos) {
          problems_->Add(place,
                         StrCat("the value of ", Printable(key), " has no closing ", text[at], "; add it"));
          return;
        }
        value = text.substr(at + 1, close - at - 1);
        at = close + 1;
      } else {
        const size_t value_begin = at;
        while (at < text.size() && !IsBlank(text[at])) ++at;
        value = text.substr(value_begin, at - value_begin);
      }
      Status set = key.starts_with("env.") ? SetVariable(key.substr(4), value, &attributes_)
                                           : SetAttribute(key, value, &attributes_);
      if (set.ok() && options_.to_run) set = NotYet(key, attributes_);
      if (!set.ok()) problems_->Add(place, set.message());
    }
    profile_ = graph_->AddProfile(attributes_.Resolved());
    if (!attributes_.kind.empty()) kind_ = graph_->AddKind(attributes_.kind);
  }

  graph::Graph* graph_;
  Problems* problems_;
  const LoadOptions& options_;
  SourcePlace place_;
  TaskAttributes attributes_;
  ProfileId profile_;
  KindId kind_;
  std::string argv_;
  KindCache kinds_;
};

}  // namespace

void ReadLines(uint32_t source, std::string_view text, const LoadOptions& options, graph::Graph* graph,
               Problems* problems) {
  LineReader(source, options, graph, problems).Read(text);
}

}  // namespace harrow::formats
