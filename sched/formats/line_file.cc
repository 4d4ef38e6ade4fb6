// A line file: one command a line. Blank lines and lines that begin with # are skipped; a line "#HARROW
// key=value ..." sets what the lines below it ask for, until another one sets it anew: what that one does not
// name is as if it had never been said. Values with blanks are quoted. Lines end with LF or CR LF. The keys
// are those of a flow file that make sense for a line (task_keys.h), and env.NAME=value. What lists for
// disBatch and GREASY say beside their commands is understood or refused (foreign_list.cc), and so are
// here-documents, whose lines are no commands.
//
// A line costs no allocation: text and command are views until the graph copies them.
#include "formats/line_file.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "formats/command_form.h"
#include "formats/foreign_list.h"
#include "formats/kind_cache.h"
#include "formats/streams.h"
#include "formats/task_keys.h"
#include "formats/text_rules.h"

namespace harrow::formats {
namespace {

bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

class LineReader {
 public:
  LineReader(uint32_t source, const LoadOptions& options, graph::Graph* graph, StreamEnds* streams, Problems* problems)
      : graph_(graph),
        streams_(streams),
        problems_(problems),
        options_(options),
        defaults_(options.defaults),
        attributes_(options.defaults),
        kinds_(graph),
        first_task_(static_cast<uint32_t>(graph->task_count())),
        phase_begin_(first_task_),
        phase_end_(first_task_) {
    place_.source = source;
    profile_ = graph->AddProfile(attributes_.Resolved());
  }

  void Read(std::string_view text) {
    if (IsDisBatchList(text)) {
      disbatch_ = true;
      if (defaults_.profile.shell.empty()) defaults_.profile.shell = "bash";
      attributes_ = defaults_;
      profile_ = graph_->AddProfile(attributes_.Resolved());
    }
    const char* at = text.data();
    const char* const end = at + text.size();
    while (at < end && !problems_->full()) {
      ++place_.line;
      const char* newline = static_cast<const char*>(std::memchr(at, '\n', static_cast<size_t>(end - at)));
      const char* stop = newline != nullptr ? newline : end;
      const char* const line_end = stop > at && stop[-1] == '\r' ? stop - 1 : stop;
      const char* begin = at;
      at = newline != nullptr ? newline + 1 : end;
      while (stop > begin && (IsBlank(stop[-1]) || stop[-1] == '\r')) --stop;
      const char* const line = begin;
      while (begin < stop && IsBlank(*begin)) ++begin;
      if (begin == stop) continue;
      place_.column = static_cast<uint32_t>(begin - line + 1);
      const std::string_view command(begin, static_cast<size_t>(stop - begin));
      if (disbatch_ && command.starts_with("#DISBATCH")) {
        DisBatch(std::string_view(begin, static_cast<size_t>(line_end - begin)));
      } else if (*begin == '#') {
        Comment(command);
      } else if (*begin == '[' && command.size() > 1 && (command[1] == '#' || command[1] == '@')) {
        Greasy(command);
      } else if (!prefix_.empty() || !suffix_.empty()) {
        Command(StrCat(prefix_, command, suffix_));
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
    task.kind = attributes_.kind.empty() ? kinds_.Of(KindName(task.command, task.form)) : kind_;
    task.place = place_;
    task.recorded_run_time = attributes_.run_time;
    task.bound = attributes_.bound;
    if (task.form == graph::CommandForm::kShell && IsPartOfSeveralLines(text)) return;
    const TaskId added = graph_->AddTask(task);
    for (const std::string& name : joins_.to) streams_->AddWriter(added, name, joins_.place, joins_.records);
    for (const std::string& name : joins_.from) streams_->AddReader(added, name, joins_.place, joins_.split);
    for (const std::string& name : joins_.open) streams_->AddHolder(added, name, joins_.place);
    if (phase_end_ > phase_begin_) WaitForPhase(added);
  }

  bool IsPartOfSeveralLines(std::string_view text) {
    if (text.find("<<") == std::string_view::npos) return false;
    const size_t at = FindHereDocument(text);
    if (at == std::string_view::npos) return false;
    SourcePlace place = place_;
    place.column += static_cast<uint32_t>(at);
    problems_->AddLast(
        place,
        "a here-document goes over several lines, and a command ends with its line; put it into "
        "a script, or write printf 'one\\ntwo\\n' | command");
    return true;
  }

  bool LinksAreFew(uint64_t more, std::string_view what, std::string_view right) {
    links_ += more;
    if (links_ <= kMostLinks) return true;
    problems_->AddLast(place_, StrCat(what, " make more than ", kMostLinks, " pairs of tasks; ", right));
    return false;
  }

  /// What is below a barrier waits for all between it and the barrier before, and so for all above; after a
  /// barrier that checks, it needs all between that one and the one before, too, and so what other checks
  /// want.
  void WaitForPhase(TaskId task) {
    const bool checked_before = checked_end_ != phase_end_;
    const uint64_t checked = checked_before ? checked_end_ - checked_begin_ : 0;
    if (!LinksAreFew(phase_end_ - phase_begin_ + checked, "barriers",
                     "put a line `true` between two barriers"))
      return;
    for (uint32_t before = phase_begin_; before < phase_end_; ++before) {
      graph_->AddDependency(TaskId(before), task,
                            checked_before ? graph::WaitsFor::kEnd : graph::WaitsFor::kSuccess);
    }
    for (uint32_t before = checked_begin_; checked_before && before < checked_end_; ++before)
      graph_->AddDependency(TaskId(before), task);
  }

  void DisBatch(std::string_view line) {
    const Result<DisBatchLine> read = ReadDisBatchLine(line);
    if (!read.ok()) {
      problems_->Add(place_, read.status().message());
      return;
    }
    const bool checks = read->what == DisBatchLine::What::kCheckedBarrier;
    if (checks || read->what == DisBatchLine::What::kBarrier) {
      const auto tasks = static_cast<uint32_t>(graph_->task_count());
      if (tasks == phase_end_) return;  // nothing since the last one
      phase_begin_ = phase_end_;
      phase_end_ = tasks;
      if (checks) {
        checked_begin_ = phase_begin_;
        checked_end_ = phase_end_;
      }
      return;
    }
    if (read->text.find("DISBATCH_") != std::string_view::npos)
      problems_->Add(place_, "disBatch's variables are not set here; $HARROW_TASK_ID is a task's number");
    (read->what == DisBatchLine::What::kPrefix ? prefix_ : suffix_) = read->text;
  }

  void Greasy(std::string_view line) {
    const Result<GreasyMarks> marks = ReadGreasyMarks(line, place_.line);
    if (!marks.ok()) {
      problems_->Add(place_, marks.status().message());
      return;
    }
    const ProfileId profile = profile_;
    if (!marks->directory.empty()) {
      graph::Profile there = attributes_.Resolved();
      there.cwd = marks->directory;
      profile_ = graph_->AddProfile(there);
    }
    const TaskId task(static_cast<uint32_t>(graph_->task_count()));
    Command(line.substr(marks->size));
    profile_ = profile;
    std::vector<std::pair<uint32_t, uint32_t>> before;
    uint64_t pairs = 0;
    for (const auto& [first, last] : marks->after) {
      const auto& [begin, end] =
          before.emplace_back(FirstTaskFrom(first, task.value), FirstTaskFrom(last + 1, task.value));
      pairs += end - begin;
      if (begin < end) continue;
      problems_->Add(place_,
                     StrCat("no command stands in line ", first,
                            "; the numbers are those of the file's lines, comments and blank ones included"));
    }
    if (graph_->task_count() == task.value) return;
    if (!LinksAreFew(pairs, "dependencies", "let one command wait for the others, and the rest for that one"))
      return;
    for (const auto& [begin, end] : before) {
      for (uint32_t n = begin; n < end; ++n) graph_->AddDependency(TaskId(n), task);
    }
  }

  /// The first task of this file that stands in line `line` or below it; `end`: none does.
  uint32_t FirstTaskFrom(uint32_t line, uint32_t end) const {
    uint32_t low = first_task_;
    for (uint32_t high = end; low < high;) {
      const uint32_t middle = low + (high - low) / 2;
      if (graph_->place(TaskId(middle)).line < line) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
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
    const std::string upper = UpperCase(word.substr(0, 12));
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
    std::vector<SourcePlace> places;
    attributes_ = defaults_;
    joins_ = {};
    joins_.place = line;
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
      places.push_back(place);
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
      const Status set = key.starts_with("env.") ? SetVariable(key.substr(4), value, &attributes_)
                         : IsOfStreams(key)      ? SetStreams(key, value)
                                                 : SetAttribute(key, value, &attributes_);
      if (!set.ok()) problems_->Add(place, set.message());
    }
    for (size_t i = 0; i < keys.size(); ++i) {
      const Status agrees = Contradiction(keys[i], attributes_);
      if (!agrees.ok()) problems_->Add(places[i], agrees.message());
      const graph::Profile& profile = attributes_.profile;
      if ((keys[i] == "from" && !profile.stdin_path.empty()) || (keys[i] == "to" && !profile.stdout_path.empty()))
        problems_->Add(places[i], StrCat(keys[i], " and ", keys[i] == "from" ? "stdin" : "stdout",
                                         " exclude each other; leave one of them out"));
      if (keys[i] != "from" && keys[i] != "to") continue;
      if (const std::string_view why = WhyNoStreams(profile); !why.empty()) problems_->Add(places[i], std::string(why));
    }
    profile_ = graph_->AddProfile(attributes_.Resolved());
    if (!attributes_.kind.empty()) kind_ = graph_->AddKind(attributes_.kind);
  }

  static bool IsOfStreams(std::string_view key) {
    return key == "from" || key == "to" || key == "open" || key == "share" || key == "records";
  }
  /// Names are separated by commas.
  Status SetStreams(std::string_view key, std::string_view value) {
    if (key == "share") {
      const Result<bool> split = ParseShare(value);
      joins_.split = split.ok() && *split;
      return split.status();
    }
    if (key == "records") {
      const Result<Records> records = ParseRecords(value);
      if (records.ok()) joins_.records = *records;
      return records.status();
    }
    std::vector<std::string>& names = key == "from" ? joins_.from : key == "to" ? joins_.to : joins_.open;
    for (size_t at = 0; at <= value.size();) {
      const size_t comma = std::min(value.find(',', at), value.size());
      names.emplace_back(value.substr(at, comma - at));
      at = comma + 1;
    }
    return {};
  }

  /// The streams of the lines that follow.
  struct Joins {
    std::vector<std::string> from{}, to{}, open{};
    bool split = false;
    Records records = kLines;
    SourcePlace place{};
  };
  Joins joins_{};
  graph::Graph* graph_;
  StreamEnds* streams_;
  Problems* problems_;
  const LoadOptions& options_;
  SourcePlace place_;
  TaskAttributes defaults_;
  TaskAttributes attributes_;
  ProfileId profile_;
  KindId kind_;
  std::string argv_;
  KindCache kinds_;
  const uint32_t first_task_;  // of this file
  // Of lists for disBatch: what stands around each command, and the tasks between the last two barriers, and
  // above the last one that checks.
  bool disbatch_ = false;
  std::string prefix_, suffix_;
  uint32_t phase_begin_, phase_end_, checked_begin_ = 0, checked_end_ = 0;
  uint64_t links_ = 0;
};

}  // namespace

void ReadLines(uint32_t source, std::string_view text, const LoadOptions& options, graph::Graph* graph, StreamEnds* streams,
               Problems* problems) {
  LineReader(source, options, graph, streams, problems).Read(text);
}

}  // namespace harrow::formats
