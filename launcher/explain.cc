#include <algorithm>
#include <iostream>
#include <memory>
#include <unistd.h>
#include <utility>

#include "base/text.h"
#include "journal/parts.h"
#include "launcher/command.h"
#include "launcher/run_access.h"
#include "os/file_system.h"
#include "report/movement.h"
#include "report/summary.h"
#include "run/flow_store.h"

namespace harrow::launcher {
namespace {

constexpr size_t kWidestNodes = 2000;

struct ExplainOptions {
  std::string run_dir;
  std::vector<std::string> tasks;
};

/// What one was allowed that wanted more.
std::string LimitText(const run_dir::Part& part, const journal::AttemptRecord& attempt) {
  const bool memory = attempt.end == journal::End::kOutOfMemory;
  if (!memory && attempt.end != journal::End::kTimedOut) return "";
  const Result<run::StoredFlow> flow = run::ReadFlow(part);
  if (!flow.ok() || attempt.task.value >= flow->graph.task_count()) return "";
  const graph::Profile& profile = flow->graph.profile(attempt.task);
  if (!memory) return StrCat(" (its time is ", FormatDuration(profile.time_limit), ")");
  std::string text = StrCat(" (its memory is ", FormatBytes(profile.shape.memory));
  if (attempt.max_rss_kib > 0)
    text +=
        StrCat("; its largest process had ", FormatBytes(static_cast<uint64_t>(attempt.max_rss_kib) * 1024));
  return text + ")";
}

/// ", rank 3", ", ranks 4 to 7".
std::string RanksText(uint32_t first, uint32_t count) {
  return count == 1 ? StrCat(", rank ", first) : StrCat(", ranks ", first, " to ", first + count - 1);
}

/// What a node had of an attempt of several. `ranks`: which of it, for people.
std::string PartText(const report::RunView& run, const journal::PartRecord& part, const std::string& ranks) {
  const std::string node = run.NodeName(part.node);
  std::string text = StrCat("    ", node.empty() ? "a node" : Printable(node), ranks);
  if (!part.cores.empty()) text += StrCat(" (PU ", part.cores, ")");
  if (journal::WasAsked(part)) return text + ": ended, as it was told to\n";
  journal::AttemptRecord as_attempt;
  as_attempt.end = part.end;
  as_attempt.code = part.code;
  as_attempt.message = part.message;
  return StrCat(text, ": ", Printable(report::EndText(as_attempt), 300), "\n");
}

std::string AttemptText(const run_dir::Part& part, const report::RunView& run,
                        const journal::AttemptRecord& attempt) {
  const std::string nodes = report::ListNodes(run.NodeNames(attempt), ", ");
  std::string text = StrCat("  attempt ", attempt.attempt);
  if (!nodes.empty()) text += StrCat(" on ", Printable(nodes, kWidestNodes));
  if (!attempt.cores.empty()) text += StrCat(" (PU ", attempt.cores, ")");
  text += StrCat(": ", Printable(report::EndText(attempt), 300), LimitText(part, attempt));
  if (attempt.start_ns > 0) {
    text += StrCat(", started at ", FormatDuration(run.TimeInRun(attempt.start_ns)), " of the run");
    text += StrCat(", ran ", FormatDuration(report::RunTime(attempt)));
  }
  const int64_t input = attempt.local_bytes + attempt.remote_bytes;
  if (input > 0) {
    text += StrCat(", ", FormatBytes(static_cast<uint64_t>(attempt.local_bytes)), " of ",
                   FormatBytes(static_cast<uint64_t>(input)), " of input were on the node");
    if (attempt.home_bytes != attempt.local_bytes)
      text += StrCat(" (", FormatBytes(static_cast<uint64_t>(attempt.home_bytes)), " made or placed there)");
  }
  text += "\n";
  const std::vector<const journal::PartRecord*> parts = run.Parts(attempt);
  uint32_t all = 0, rank = 0;
  for (const journal::PartRecord* each : parts) all += each->ranks;
  for (const journal::PartRecord* each : parts) {
    // The one process of a task without ranks is none.
    text += PartText(run, *each, all > 1 && each->ranks > 0 ? RanksText(rank, each->ranks) : "");
    rank += each->ranks;
  }
  return text;
}

std::string AttemptTexts(const run_dir::Part& part, const report::RunView& run, size_t task) {
  std::string text;
  for (const size_t a : run.Attempts(task)) text += AttemptText(part, run, run.history().attempts[a]);
  const std::string copied = report::CopiedFor(run, run.task(task).task);
  return copied.empty() ? text : StrCat(text, "  copied for it: ", copied, "\n");
}

/// What it runs, and where the flow says so; empty: the run's flow cannot be read.
std::string CommandText(const run_dir::Part& part, TaskId task) {
  const auto texts = run::ReadTaskTexts(part, {task});
  if (!texts.ok() || texts->empty()) return "";
  const run::TaskText& text = texts->begin()->second;
  return StrCat("  command (", text.place.empty() ? "submitted" : Printable(text.place), "): ", Printable(text.command, 4096), "\n");
}

/// Of the task for which another was skipped.
std::string_view HowEnded(const report::RunView& run, size_t skipped) {
  const std::string because = run.Because(skipped);
  const auto tasks = FindTasks(run, {because});
  const bool cancelled = tasks.ok() && run.fate(tasks->front()) == journal::TaskFate::kCancelled;
  return cancelled ? "was cancelled" : "failed";
}

/// What the journal knows about a task, when no server can tell more.
std::string FromJournal(const run_dir::Part& part, const report::RunView& run, size_t task) {
  using journal::TaskFate;
  std::string text = StrCat(Printable(run.task(task).name), " (kind ", Printable(run.task(task).kind),
                            ", level ", run.task(task).level, "): ");
  const std::string because = Printable(run.Because(task));
  switch (run.fate(task)) {
    case TaskFate::kOpen:
      text += "open: the run stopped before its fate was decided; harrow run --resume goes on";
      break;
    case TaskFate::kDone:
      text += "done";
      break;
    case TaskFate::kFailed:
      text += "failed";
      break;
    case TaskFate::kSkipped:
      text += because.empty()
                  ? "skipped: the run stopped starting tasks"
                  : StrCat("skipped: it needs ", ShellQuote(because), ", which ", HowEnded(run, task));
      break;
    case TaskFate::kCancelled:
      text += "cancelled";
      break;
    case TaskFate::kPruned:
      text += "pruned: nothing better than a value that was known (harrow best) could come of it";
      break;
  }
  text += "\n" + CommandText(part, run.task(task).task);
  return text + AttemptTexts(part, run, task);
}

}  // namespace

int ExplainTasks(RunAccess& run, const std::vector<std::string>& names) {
  std::vector<std::string> texts;
  for (const std::string& name : names) {
    texts.emplace_back();
    if (run.server() == nullptr) continue;
    auto answer = run.server()->Explain(name);
    if (answer.ok() && !answer->ok()) {
      std::cerr << "harrow: " << answer->text() << "\n";
      return answer->code();
    }
    if (answer.ok()) texts.back() = answer->text();
    if (!texts.back().empty() && texts.back().back() != '\n') texts.back() += "\n";
  }
  const bool answered = std::none_of(texts.begin(), texts.end(), [](const std::string& text) { return text.empty(); });
  auto history = run.ReadHistory();
  if (!history.ok() && !answered) return Fail(history.status());
  if (history.ok()) {
    const report::RunView view(*history);
    bool noted = false;
    for (size_t i = 0; i < names.size(); ++i) {
      std::string& text = texts[i];
      auto task = FindTasks(view, {names[i]});
      if (!task.ok() && text.empty()) return Fail(task.status());
      if (task.ok() && text.empty()) {
        if (const std::string note = run.Note(); !note.empty() && !std::exchange(noted, true)) std::cerr << "harrow: " << note << "\n";
        text = FromJournal(run.part(), view, task->front());
      } else if (task.ok()) {
        text += CommandText(run.part(), view.task(task->front()).task);
        text += AttemptTexts(run.part(), view, task->front());
      }
    }
  }
  for (const std::string& text : texts) WriteTo(STDOUT_FILENO, text);
  return OutputDone();
}

namespace {

int RunExplain(const ExplainOptions& options) {
  auto run = RunAccess::Open(options.run_dir, options.tasks);
  return run.ok() ? ExplainTasks(**run, options.tasks) : Fail(run.status());
}

const Registered kExplain({.name = "explain",
                           .summary = "Tell why a task waits, or where and how it ran",
                           .example = "harrow explain project-17\n         harrow explain '#17' 17_4",
                           .usage = "[options] TASK...",
                           .order = 43,
                           .setup = [](CLI::App& app) -> std::function<int()> {
                             auto options = std::make_shared<ExplainOptions>();
                             AddRunDir(app, &options->run_dir);
                             AddTaskNames(app, &options->tasks, "Tasks by name or #number", true);
                             return [options] { return RunExplain(*options); };
                           }});

}  // namespace
}  // namespace harrow::launcher
