// Output of tasks. Of what has ended, the journal knows the place in the packed output; what runs has none
// yet and is found by reading the packed output through. Following reads what is new a few times a second,
// straight from the files, and asks the server only whether the run goes on.

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <unistd.h>
#include <unordered_map>
#include <unordered_set>

#include "base/text.h"
#include "launcher/command.h"
#include "launcher/run_access.h"
#include "os/file_system.h"
#include "output/packed_output.h"
#include "report/summary.h"
#include "report/tables.h"
#include "run/flow_store.h"

namespace harrow::launcher {
namespace {

using output::Piece;
using output::Stream;

struct LogsOptions {
  std::string run_dir;
  std::vector<std::string> tasks;
  bool failed = false, follow = false, only_stdout = false, only_stderr = false, list = false;
  bool prefix = false, label = false, quiet = false;
  int64_t tail = -1;  // lines; -1: all

  bool Wants(Stream stream) const { return stream == Stream::kStdout ? !only_stderr : !only_stdout; }
};

int FdOf(Stream stream) {
  return stream == Stream::kStdout ? STDOUT_FILENO : STDERR_FILENO;
}

/// Prints pieces; with a prefix or a label, whole lines only, each after the name of its task, its rank, or
/// both.
class Printer {
 public:
  Printer(bool prefix, bool label) : prefix_(prefix), label_(label) {}
  ~Printer() { FlushPartLines(); }

  /// `name` is wanted for a line's beginning only.
  template <class Name>
  void Print(const Piece& piece, const Name& name) {
    if (!open_) return;
    if (!prefix_ && !label_) {
      open_ = WriteTo(FdOf(piece.stream), piece.data);
      return;
    }
    const Writer writer(piece.task.value, piece.attempt, piece.stream, piece.rank);
    PartLine& part = parts_[writer];
    if (part.text.empty()) {
      part.head = prefix_ ? StrCat(name(), ": ") : "";
      if (label_ && piece.rank) part.head += StrCat(*piece.rank, ": ");
    }
    part.text += piece.data;
    const size_t end = part.text.rfind('\n');
    if (end == std::string::npos && part.text.size() < (1 << 20)) return;
    const size_t whole = end == std::string::npos ? part.text.size() : end + 1;
    PrintLines(piece.stream, part.head, std::string_view(part.text).substr(0, whole));
    part.text.erase(0, whole);
    if (part.text.empty()) parts_.erase(writer);
  }
  void Text(std::string_view text) {
    if (open_) open_ = WriteTo(STDOUT_FILENO, text);
  }
  void FlushPartLines() {
    for (const auto& [writer, part] : parts_) PrintLines(std::get<2>(writer), part.head, part.text);
    parts_.clear();
  }
  bool open() const { return open_; }  // somebody reads

 private:
  using Writer = std::tuple<uint32_t, uint32_t, Stream, std::optional<uint32_t>>;
  struct PartLine {
    std::string head, text;
  };

  void PrintLines(Stream stream, const std::string& head, std::string_view lines) {
    std::string text;
    while (!lines.empty()) {
      const size_t end = std::min(lines.find('\n'), lines.size());
      text += StrCat(head, lines.substr(0, end), "\n");
      lines.remove_prefix(std::min(end + 1, lines.size()));
    }
    if (open_) open_ = WriteTo(FdOf(stream), text);
  }

  bool prefix_, label_;
  bool open_ = true;
  std::map<Writer, PartLine> parts_;  // lines that have not ended
};

/// The last `lines` lines of text.
std::string_view LastLines(std::string_view text, int64_t lines) {
  if (lines == 0) return {};
  size_t at = text.size();
  if (at > 0 && text[at - 1] == '\n') --at;
  for (int64_t found = 0; at > 0; --at) {
    if (text[at - 1] == '\n' && ++found == lines) break;
  }
  return text.substr(at);
}

/// Where a task's output is to be taken from.
struct Source {
  size_t task;                            // position in the journal
  const journal::AttemptRecord* attempt;  // null: none has ended
  std::vector<Piece> live;                // of the attempt that runs
};

/// Where the output of an attempt, or of its part on a node, lies.
struct Place {
  output::FileNumber file = 0;
  uint64_t offset = 0, stdout_bytes = 0, stderr_bytes = 0;
  uint64_t bytes(Stream stream) const { return stream == Stream::kStdout ? stdout_bytes : stderr_bytes; }
};

/// In the order of the nodes.
std::vector<Place> PlacesOf(const report::RunView& run, const journal::AttemptRecord& attempt) {
  std::vector<Place> places;
  const auto add = [&](const auto& record) {
    if (record.stdout_bytes + record.stderr_bytes > 0)
      places.push_back({record.output_file, record.output_offset, record.stdout_bytes, record.stderr_bytes});
  };
  const auto parts = run.Parts(attempt);
  for (const journal::PartRecord* part : parts) add(*part);
  if (parts.empty()) add(attempt);
  return places;
}

using Print = std::function<void(const Piece&)>;

Status PrintTail(output::Reader& reader, const journal::AttemptRecord& attempt, const Place& place,
                 Stream stream, int64_t lines, const Print& print) {
  const uint64_t all = place.bytes(stream);
  for (size_t bytes = 64 << 10; all > 0; bytes *= 8) {
    auto tail =
        reader.Tail(place.file, place.offset, attempt.OutputTask(), attempt.attempt, stream, bytes);
    if (!tail.ok()) return tail.status();
    const std::string_view last = LastLines(*tail, lines);
    if (last.size() == tail->size() && tail->size() < all && bytes < (size_t{1} << 31)) continue;
    if (!last.empty()) print({attempt.task, attempt.attempt, stream, 0, std::string(last)});
    break;
  }
  return {};
}

/// Takes pieces of an attempt, and has the last lines of each stream then; of each rank's, if `label`.
class Tails {
 public:
  Tails(int64_t lines, bool label) : lines_(lines), label_(label) {}
  void Add(const Piece& piece) {
    Piece& kept = kept_[{piece.stream, label_ ? piece.rank : std::nullopt}];
    kept.task = piece.task;
    kept.attempt = piece.attempt;
    kept.data += piece.data;
    const size_t last = LastLines(kept.data, lines_).size();
    kept.data.erase(0, kept.data.size() - last);
  }
  void PrintAll(const Print& print) {
    for (auto& [writer, kept] : kept_) {
      std::tie(kept.stream, kept.rank) = writer;
      if (!kept.data.empty()) print(kept);
    }
  }

 private:
  int64_t lines_;
  bool label_;
  std::map<std::pair<Stream, std::optional<uint32_t>>, Piece> kept_;
};

Status PrintPlace(output::Reader& reader, const journal::AttemptRecord& attempt, const Place& place,
                  const LogsOptions& options, const Print& print) {
  if (options.tail >= 0 && !options.label) {
    for (const Stream stream : {Stream::kStdout, Stream::kStderr}) {
      if (options.Wants(stream))
        HARROW_RETURN_IF_ERROR(PrintTail(reader, attempt, place, stream, options.tail, print));
    }
    return {};
  }
  Tails tails(options.tail, options.label);
  const Status read = reader.ReadAttempt(
      place.file, place.offset, attempt.OutputTask(), attempt.attempt, [&](const Piece& piece) {
        if (!options.Wants(piece.stream)) return;
        options.tail >= 0 ? tails.Add(piece) : print(piece);
      });
  tails.PrintAll(print);
  return read;
}

Status PrintSource(output::Reader& reader, const report::RunView& run, const Source& source,
                   const LogsOptions& options, const Print& print) {
  if (!source.live.empty()) {
    Tails tails(options.tail, options.label);
    for (const Piece& piece : source.live) {
      if (!options.Wants(piece.stream)) continue;
      options.tail >= 0 ? tails.Add(piece) : print(piece);
    }
    tails.PrintAll(print);
    return {};
  }
  if (source.attempt == nullptr) return {};
  Status damage;
  for (const Place& place : PlacesOf(run, *source.attempt)) {
    const Status read = PrintPlace(reader, *source.attempt, place, options, print);
    if (damage.ok()) damage = read;
  }
  return damage;
}

/// Output files of agents that are gone: nothing that runs now is in them, and tasks may have had other
/// numbers then.
std::unordered_set<output::FileNumber> PastFiles(const journal::History& history) {
  std::unordered_set<output::FileNumber> past;
  std::map<uint32_t, const journal::NodeRecord*> last;
  for (const journal::NodeRecord& node : history.nodes) {
    const journal::NodeRecord*& before = last[node.node.value];
    if (before != nullptr && before->incarnation != node.incarnation) past.insert(before->output_file);
    if (node.left_ns > 0) past.insert(node.output_file);
    before = &node;
  }
  return past;
}

/// What the attempts that have not ended have written so far.
Status ReadLive(output::Reader& reader, const report::RunView& run, std::vector<Source>* sources) {
  std::map<uint32_t, Source*> open;
  for (Source& source : *sources) {
    if (run.fate(source.task) == journal::TaskFate::kOpen) open[run.task(source.task).task.value] = &source;
  }
  if (open.empty()) return {};
  const std::unordered_set<output::FileNumber> past = PastFiles(run.history());
  return reader.ReadNew([&](output::FileNumber file, const Piece& piece) {
    const auto at = open.find(piece.task.value);
    if (at == open.end() || past.contains(file)) return;
    Source& source = *at->second;
    if (source.attempt != nullptr && piece.attempt <= source.attempt->attempt) return;
    if (!source.live.empty() && source.live[0].attempt < piece.attempt) source.live.clear();
    source.live.push_back(piece);
  });
}

void PrintList(const report::RunView& run, const std::vector<Source>& sources) {
  std::vector<const Source*> with_output;
  for (const Source& source : sources) {
    const bool ended =
        source.attempt != nullptr && source.attempt->stdout_bytes + source.attempt->stderr_bytes > 0;
    if (ended || !source.live.empty()) with_output.push_back(&source);
  }
  report::WriteTable(
      {{"task"}, {"attempt", true}, {"node"}, {"ended"}, {"stdout", true}, {"stderr", true}},
      with_output.size(),
      [&](size_t r, std::vector<std::string>* cells) {
        const Source& source = *with_output[r];
        uint64_t bytes[2] = {0, 0};
        for (const Piece& piece : source.live) bytes[piece.stream == Stream::kStderr] += piece.data.size();
        const bool live = !source.live.empty();
        if (!live) {
          bytes[0] = source.attempt->stdout_bytes;
          bytes[1] = source.attempt->stderr_bytes;
        }
        *cells = {Printable(run.task(source.task).name, 60),
                  StrCat(live ? source.live[0].attempt : source.attempt->attempt),
                  live ? "" : Printable(report::ListNodes(run.NodeNames(*source.attempt), ","), 60),
                  live ? "runs" : Printable(report::EndText(*source.attempt), 60),
                  StrCat(bytes[0]),
                  StrCat(bytes[1])};
      },
      [](std::string_view text) { return WriteTo(STDOUT_FILENO, text); });
}

/// The file that a pattern means for an element, "17_4"; what is known elsewhere only stays.
std::string FileOf(std::string pattern, const std::string& name) {
  const size_t bar = name.find('_');
  const bool element = bar != std::string::npos && bar > 0 && bar + 1 < name.size() &&
                       name.find_first_not_of("0123456789_") == std::string::npos;
  for (const auto& [field, value] :
       {std::pair("%A", name.substr(0, bar)), std::pair("%a", element ? name.substr(bar + 1) : "")}) {
    for (size_t at = 0; element && (at = pattern.find(field, at)) != std::string::npos; at += value.size())
      pattern.replace(at, 2, value);
  }
  return pattern;
}

/// Nothing was shown as all of it went to files.
void TellFiles(const RunAccess& access, const report::RunView& run, const std::vector<size_t>& tasks) {
  const auto flow = run::ReadFlow(access.part());
  if (!flow.ok()) return;
  for (const size_t i : tasks) {
    const TaskId task = run.task(i).task;
    if (task.value >= flow->graph.task_count()) continue;
    const graph::Profile& profile = flow->graph.profile(task);
    const std::string& path = profile.stdout_path.empty() ? profile.stderr_path : profile.stdout_path;
    if (path.empty()) continue;
    const std::string name = Printable(run.task(i).name);
    std::cerr << "harrow: nothing is kept here: tasks write to files, " << name << " to "
              << Printable(FileOf(path, run.task(i).name)) << "\n";
    return;
  }
}

/// Why nothing is shown of tasks that were asked for by name; what the flow sends to files is not in the packed output.
void TellSilent(const RunAccess& access, const report::RunView& run, const LogsOptions& options,
                const std::vector<size_t>& silent) {
  const auto flow = run::ReadFlow(access.part());
  if (!flow.ok()) return;
  for (const size_t i : silent) {
    const TaskId task = run.task(i).task;
    if (task.value >= flow->graph.task_count()) continue;
    const std::string name = Printable(run.task(i).name);
    const auto last = run.LastAttempt(i);
    if (!last) std::cerr << "harrow: " << name << " has not run\n";
    const graph::Profile& profile = flow->graph.profile(task);
    for (const auto& [stream, path] :
         {std::pair("stdout", profile.stdout_path), std::pair("stderr", profile.stderr_path)}) {
      if (path.empty()) continue;
      std::cerr << "harrow: " << name << " writes its " << stream << " to the file "
                << Printable(FileOf(path, run.task(i).name)) << "\n";
    }
    if (last && profile.stdout_path.empty() && profile.stderr_path.empty()) {
      std::cerr << "harrow: " << name << " wrote nothing" << (options.only_stdout ? " to stdout" : options.only_stderr ? " to stderr" : "") << "\n";
    }
  }
}

int PrintLogs(RunAccess& access, const LogsOptions& options) {
  auto history = access.ReadHistory();
  if (!history.ok()) return Fail(history.status());
  if (const std::string note = access.Note(); !note.empty()) std::cerr << "harrow: " << note << "\n";
  const report::RunView run(*history);
  std::vector<size_t> tasks;
  if (!options.tasks.empty()) {
    auto named = FindTasks(run, options.tasks);
    if (!named.ok()) return Fail(named.status());
    tasks = *std::move(named);
  } else {
    for (size_t i = 0; i < run.task_count(); ++i) tasks.push_back(i);
  }
  if (options.failed)
    std::erase_if(tasks, [&](size_t i) { return run.fate(i) != journal::TaskFate::kFailed; });
  auto reader = access.OpenOutput();
  if (!reader.ok()) return Fail(reader.status());

  std::vector<Source> sources;
  for (const size_t i : tasks) {
    const auto last = run.LastAttempt(i);
    sources.push_back({i, last ? &history->attempts[*last] : nullptr, {}});
  }
  Status damage = access.server() != nullptr ? ReadLive(**reader, run, &sources) : Status();
  if (options.list) {
    PrintList(run, sources);
    return damage.ok() ? OutputDone() : Fail(damage);
  }

  Printer printer(options.prefix, options.label);
  std::vector<size_t> silent;
  bool shown = false;
  const bool headings = (tasks.size() > 1 || options.failed) && !options.prefix && !options.quiet;
  bool line_open = false;
  // A task that failed without a word is told all the same, and what it was.
  std::unordered_map<uint32_t, run::TaskText> texts;
  if (options.failed && headings) {
    std::vector<TaskId> ids;
    for (const size_t i : tasks) ids.push_back(run.task(i).task);
    if (auto read = run::ReadTaskTexts(access.part(), ids); read.ok()) texts = *std::move(read);
  }
  const auto print_heading = [&](const Source& source) {
    const TaskId task = run.task(source.task).task;
    const std::string how = !source.live.empty() ? "runs" : Printable(report::EndText(*source.attempt), 200);
    printer.Text(StrCat(line_open ? "\n" : "", "==> ", Printable(run.task(source.task).name), " (", how, ") <==\n"));
    if (const auto text = texts.find(task.value); text != texts.end())
      printer.Text(StrCat("  $ ", Printable(text->second.command, 1000), "\n"));
    line_open = false;
  };
  for (const Source& source : sources) {
    const std::string name = Printable(run.task(source.task).name);
    bool begun = false;
    const Status read = PrintSource(**reader, run, source, options, [&](const Piece& piece) {
      if (headings && !begun) print_heading(source);
      begun = shown = true;
      printer.Print(piece, [&] { return name; });
      line_open = !piece.data.ends_with('\n');
    });
    if (!read.ok()) damage = read;
    if (!begun && headings && options.failed && source.attempt != nullptr) print_heading(source);
    if (!begun && !options.tasks.empty()) silent.push_back(source.task);
    if (source.attempt != nullptr && source.attempt->output_truncated && source.live.empty()) {
      std::cerr << "harrow: " << name << " wrote more than the output limit; the rest was dropped\n";
    }
    if (!printer.open()) break;
  }
  printer.FlushPartLines();
  if (!silent.empty()) TellSilent(access, run, options, silent);
  if (!shown && silent.empty()) TellFiles(access, run, tasks);
  if (!damage.ok()) return Fail(damage);
  return OutputDone();
}

/// Is the run still going on? Between a server's death and the next one's start it is.
bool GoesOn(RunAccess& access) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (access.server() != nullptr) {
      const auto progress = access.server()->Progress(false);
      if (progress.ok()) return !progress->complete();
    }
    if (attempt == 0) access.Reconnect();
  }
  return false;
}

int Follow(RunAccess& access, const LogsOptions& options) {
  auto flow = run::ReadFlow(access.part());
  if (!flow.ok()) return Fail(flow.status());
  std::unordered_set<uint32_t> wanted;
  for (const std::string& name : options.tasks) {
    const auto task = flow->graph.FindTask(name);
    if (!task) {
      return Fail(Status(Code::kInvalid, StrCat("no task '", Printable(name),
                                                "' in this run; harrow logs --list shows what has printed")));
    }
    wanted.insert(task->value);
  }
  auto reader = access.OpenOutput();
  if (!reader.ok()) return Fail(reader.status());
  Printer printer(options.prefix || (wanted.size() != 1 && !options.quiet), options.label);
  const auto history = access.ReadHistory();
  const std::unordered_set<output::FileNumber> past =
      history.ok() ? PastFiles(*history) : std::unordered_set<output::FileNumber>();
  const auto shows = [&](output::FileNumber file, const Piece& piece) {
    return options.Wants(piece.stream) && (wanted.empty() || wanted.contains(piece.task.value)) &&
           !past.contains(file);
  };
  const auto print = [&](const Piece& piece) {
    printer.Print(piece, [&] { return Printable(flow->graph.TaskName(piece.task)); });
  };
  Status damage;
  if (options.tail >= 0) {
    std::map<std::pair<TaskId, uint32_t>, Tails> so_far;
    damage = (*reader)->ReadNew([&](output::FileNumber file, const Piece& piece) {
      if (!shows(file, piece)) return;
      so_far.try_emplace({piece.task, piece.attempt}, options.tail, options.label).first->second.Add(piece);
    });
    for (auto& [attempt, tails] : so_far) tails.PrintAll(print);
  }
  constexpr int kLooksAQuestion = 5;
  for (int looks = 0;; ++looks) {
    // Asked first: what a run wrote before its end was known is then read.
    const bool goes_on = looks % kLooksAQuestion != 0 || GoesOn(access);
    const Status read = (*reader)->ReadNew([&](output::FileNumber file, const Piece& piece) {
      if (shows(file, piece)) print(piece);
    });
    if (!read.ok() && damage.ok()) damage = read;
    if (!goes_on || !printer.open()) break;
    access.Wait(std::chrono::milliseconds(100));
  }
  printer.FlushPartLines();
  if (!damage.ok()) return Fail(damage);
  return OutputDone();
}

int RunLogs(LogsOptions options) {
  if (options.only_stdout && options.only_stderr) {
    return Fail(
        Status(Code::kInvalid, "--stdout and --stderr exclude each other; both streams are the default"));
  }
  if (options.follow && (options.failed || options.list)) {
    return Fail(Status(Code::kInvalid, "-f follows tasks that run: it does not go with --failed or --list"));
  }
  auto access = RunAccess::Open(options.run_dir, options.tasks);
  if (!access.ok()) return Fail(access.status());
  if ((*access)->IsWhole(options.tasks)) options.tasks.clear();
  // Of a run that is over nothing comes: what there is is printed as ever.
  return options.follow && (*access)->server() != nullptr ? Follow(**access, options)
                                                          : PrintLogs(**access, options);
}

const Registered kLogs(
    {.name = "logs",
     .summary = "Print what tasks wrote to stdout and stderr",
     .example = "harrow logs --failed --stderr --tail 20\n         harrow logs -f project-17",
     .usage = "[options] [TASK...]",
     .order = 41,
     .setup = [](CLI::App& app) -> std::function<int()> {
       auto options = std::make_shared<LogsOptions>();
       AddRunDir(app, &options->run_dir);
       app.add_flag("--failed", options->failed, "Only of tasks that failed, each with its command and how it ended");
       app.add_flag("-f,--follow", options->follow, "Go on as it comes, until the run is over");
       app.add_flag("--stdout", options->only_stdout, "Only stdout");
       app.add_flag("--stderr", options->only_stderr, "Only stderr");
       app.add_option("--tail", options->tail, "Only the last N lines of each stream")
           ->type_name("N")
           ->check(CLI::Range(int64_t{0}, int64_t{1} << 31).description(""));
       app.add_flag("--list", options->list, "A table of who wrote how much, not the output");
       app.add_flag("--prefix", options->prefix, "Begin each line with its task's name");
       app.add_flag("--label", options->label, "Begin each line of an MPI task with the rank that wrote it");
       app.add_flag("-q,--quiet", options->quiet, "No headings between tasks, no prefixes");
       AddTaskNames(app, &options->tasks, "Tasks by name or #number (default: all)");
       return [options] { return RunLogs(*options); };
     }});

}  // namespace
}  // namespace harrow::launcher
