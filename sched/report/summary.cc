// The end of a run, from its journal. A task's fate is one record; its last attempt in order of commit tells
// how it came about, so failures are listed in the order in which they were recorded.

#include "report/summary.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <signal.h>
#include <string.h>
#include <unordered_map>

#include "base/text.h"
#include "journal/parts.h"
#include "report/allocations.h"
#include "report/json.h"
#include "report/run_view.h"

namespace harrow::report {
namespace {

constexpr size_t kTailBytes = 64 << 10;
constexpr size_t kCommandShown = 300;

/// The last `lines` lines of `text`; *cut when there is more before.
std::string LastLines(std::string text, size_t lines, bool* cut) {
  size_t end = text.size();
  while (end > 0 && text[end - 1] == '\n') --end;
  text.resize(end);
  size_t at = text.size();
  for (size_t found = 0; at > 0; --at) {
    if (text[at - 1] == '\n' && ++found == lines) break;
  }
  if (at > 0) *cut = true;
  return text.substr(at);
}

/// Control characters and bytes that are not UTF-8 made visible; tabs stay.
std::string VisibleLine(std::string_view line) {
  std::string out;
  for (size_t at = 0; at <= line.size();) {
    const size_t tab = std::min(line.find('\t', at), line.size());
    out += Printable(line.substr(at, tab - at), 2000);
    if (tab < line.size()) out.push_back('\t');
    at = tab + 1;
  }
  return out;
}

std::string Percent(double share) {
  const double percent = share * 100;
  return FixedText(percent, percent >= 99.95 || percent == 0 ? 0 : 1) + " %";
}

/// The last lines of stderr: of the rank that failed, where one did; else of the part of its node.
void ReadTail(const RunView& run, const journal::AttemptRecord& attempt, output::Reader& reader, size_t lines,
              Failure* failure) {
  output::FileNumber file = attempt.output_file;
  uint64_t offset = attempt.output_offset, bytes = attempt.stderr_bytes;
  std::vector<journal::PartRecord> parts;
  for (const journal::PartRecord* part : run.Parts(attempt)) parts.push_back(*part);
  if (!parts.empty()) {
    const journal::PartRecord& part = parts[journal::DecidingPart(parts)];
    file = part.output_file;
    offset = part.output_offset;
    bytes = part.stderr_bytes;
  }
  if (bytes == 0) return;
  const std::optional<uint32_t> rank = journal::RankIn(attempt.message);
  const auto tail_of = [&](std::optional<uint32_t> whose) {
    return reader.Tail(file, offset, attempt.OutputTask(), attempt.attempt, output::Stream::kStderr,
                       kTailBytes, whose);
  };
  auto tail = tail_of(rank);
  // It has said nothing, or its agent was of a version that did not tell whose output is whose.
  const bool of_rank = tail.ok() && rank && !tail->empty();
  if (tail.ok() && rank && tail->empty()) tail = tail_of({});
  if (!tail.ok()) {
    failure->stderr_tail = StrCat("(its output cannot be read: ", tail.status().message(), ")");
    return;
  }
  failure->cut = of_rank ? tail->size() >= kTailBytes : bytes > tail->size();
  failure->stderr_tail = LastLines(*std::move(tail), lines, &failure->cut);
}

void AppendFailures(JsonWriter* json, const std::vector<Failure>& failures) {
  json->Key("failed").BeginArray();
  for (const Failure& failure : failures) {
    json->BeginObject().Member("task", failure.task).MemberUint("attempt", failure.attempt);
    json->Member("node", failure.node).Member("how", failure.how).Member("stderr_tail", failure.stderr_tail);
    if (!failure.command.empty()) json->Member("command", failure.command);
    json->EndObject();
  }
  json->EndArray();
}

void AppendAllocations(JsonWriter* json, const std::vector<AllocationView>& allocations) {
  json->Key("allocations").BeginArray();
  for (const AllocationView& one : allocations) {
    json->BeginObject().MemberUint("part", one.part).Member("partition", one.partition).Member("job", one.job);
    json->Member("state", one.state).MemberUint("nodes", one.nodes).MemberUint("slots", one.slots);
    json->MemberUint("running", one.running).MemberUint("ready", one.ready).MemberUint("waiting", one.waiting);
    json->MemberUint("took", one.took).MemberUint("gave", one.gave).EndObject();
  }
  json->EndArray();
}

void AppendNodes(JsonWriter* json, const std::vector<NodeView>& nodes) {
  json->Key("nodes").BeginArray();
  for (const NodeView& node : nodes) {
    json->BeginObject().Member("name", node.name).MemberUint("slots", node.slots);
    json->MemberUint("running", node.running).MemberUint("ended", node.ended).Member("state", node.state);
    json->MemberUint("incarnations", node.incarnations).EndObject();
  }
  json->EndArray();
}

}  // namespace

std::string ListNodes(const std::vector<std::string>& names, std::string_view between) {
  std::string text;
  for (const std::string& name : names) text += StrCat(text.empty() ? "" : between, name);
  return text;
}

std::string EndText(const journal::AttemptRecord& attempt) {
  using journal::End;
  switch (attempt.end) {
    case End::kExited:
      return attempt.message.empty() ? StrCat("exit ", attempt.code)
                                     : StrCat("exit ", attempt.code, ": ", attempt.message);
    case End::kSignaled: {
      if (!attempt.message.empty()) return attempt.message;  // why its agent killed it
      const char* name = sigabbrev_np(attempt.code);
      return name ? StrCat("signal ", attempt.code, " (SIG", name, ")") : StrCat("signal ", attempt.code);
    }
    case End::kTimedOut:
      return "timed out";
    case End::kOutOfMemory:
      return "out of memory";
    case End::kCancelled:
      return "cancelled";
    case End::kInterrupted:
      return "interrupted";
    case End::kNotStarted:
      return attempt.message.empty() ? "not started" : StrCat("not started: ", attempt.message);
    case End::kLost:
      return attempt.message.find("checkpoint") == std::string::npos ? "lost with its node" : attempt.message;
    case End::kMissingOutput:
      return attempt.message.empty() ? "did not write its outputs" : attempt.message;
    case End::kRewound:
      return attempt.message.empty() ? "what it had read was void" : attempt.message;
    case End::kCheckpointed:
      return attempt.message.empty() ? "left a checkpoint" : attempt.message;
  }
  return StrCat("end ", static_cast<unsigned>(attempt.end));
}

Figures FiguresOf(const journal::History& history) {
  return FiguresOf(RunView(history));
}

Figures FiguresOf(const RunView& run) {
  const journal::History& history = run.history();
  Figures view;
  // The task table is written while the run goes on: when it ends early, parts of it are missing.
  view.total =
      std::max<uint64_t>(history.tasks.size(), static_cast<uint64_t>(run.NumberFact("tasks").value_or(0)));
  for (size_t i = 0; i < history.tasks.size(); ++i) {
    switch (run.fate(i)) {
      case journal::TaskFate::kOpen:
        break;
      case journal::TaskFate::kDone:
        ++view.done;
        break;
      case journal::TaskFate::kFailed:
        ++view.failed;
        break;
      case journal::TaskFate::kSkipped:
        ++view.skipped;
        break;
      case journal::TaskFate::kCancelled:
        ++view.cancelled;
        break;
      case journal::TaskFate::kPruned:
        ++view.pruned;
        break;
    }
  }
  // Open tasks that the last session did not want (run --target, --stale).
  view.total -=
      std::min<uint64_t>(view.open(), static_cast<uint64_t>(run.NumberFact("unwanted").value_or(0)));
  view.attempts = history.attempts.size();
  for (const journal::AttemptRecord& attempt : history.attempts) {
    if (attempt.end == journal::End::kLost) ++view.losses;
    view.local_bytes += static_cast<uint64_t>(std::max<int64_t>(attempt.local_bytes, 0));
    view.remote_bytes += static_cast<uint64_t>(std::max<int64_t>(attempt.remote_bytes, 0));
    view.home_bytes += static_cast<uint64_t>(std::max<int64_t>(attempt.home_bytes, 0));
    view.core_seconds += CoreSeconds(attempt.start_ns, attempt.end_ns, run.cores(attempt.task));
  }
  for (const journal::CopyRecord& copy : history.copies) {
    uint64_t& figure = !copy.to    ? view.written_back_bytes
                       : copy.from ? view.bytes_moved
                                   : view.shared_read_bytes;
    figure += static_cast<uint64_t>(std::max<int64_t>(0, copy.bytes));
  }
  view.makespan = run.makespan();
  for (const journal::Session& session : run.sessions()) {
    // Allocations come and go: each counts for as long as it was there.
    if (history.allocations.size() > 1 && &session == &run.sessions().back()) {
      for (const AllocationRow& row : AllocationRows(run)) view.slot_seconds += row.slot_seconds;
    } else {
      view.slot_seconds += Seconds(session.length()) * session.slots;
    }
    view.slots = session.slots;
  }
  view.sessions = static_cast<uint32_t>(std::max<size_t>(run.sessions().size(), 1));
  view.complete = !history.sessions.empty() && history.sessions.back().ended_ns != 0;
  return view;
}

std::vector<Failure> FirstFailures(const journal::History& history, output::Reader* reader, size_t count,
                                   size_t lines) {
  const RunView run(history);
  // Where each failed task's last attempt stands: the order in which they failed.
  std::vector<size_t> last;
  for (size_t i = 0; i < history.tasks.size(); ++i) {
    if (run.fate(i) != journal::TaskFate::kFailed) continue;
    if (const auto at = run.LastAttempt(i)) last.push_back(*at);
  }
  const size_t shown = std::min(count, last.size());
  std::partial_sort(last.begin(), last.begin() + static_cast<ptrdiff_t>(shown), last.end());

  std::vector<Failure> failures;
  for (size_t i = 0; i < shown; ++i) {
    const journal::AttemptRecord& attempt = history.attempts[last[i]];
    Failure failure{.id = attempt.task,
                    .task = run.TaskName(attempt.task),
                    .attempt = attempt.attempt,
                    .node = ListNodes(run.NodeNames(attempt), ", "),
                    .how = EndText(attempt)};
    if (reader != nullptr) ReadTail(run, attempt, *reader, lines, &failure);
    failures.push_back(std::move(failure));
  }
  return failures;
}

std::string FailuresText(const std::vector<Failure>& failures, uint64_t total_failed,
                         const std::string& logs_hint) {
  std::string text;
  for (const Failure& failure : failures) {
    text += StrCat("failed: ", Printable(failure.task), " (", Printable(failure.how, 300));
    if (failure.attempt > 1) text += StrCat(", attempt ", failure.attempt);
    if (!failure.node.empty()) text += StrCat(", on ", Printable(failure.node));
    text += ")\n";
    if (!failure.command.empty()) text += StrCat("  $ ", Printable(failure.command, kCommandShown), "\n");
    if (failure.stderr_tail.empty()) continue;
    if (failure.cut) text += "  | ...\n";
    for (size_t at = 0; at <= failure.stderr_tail.size();) {
      const size_t end = std::min(failure.stderr_tail.find('\n', at), failure.stderr_tail.size());
      text += StrCat("  | ", VisibleLine(std::string_view(failure.stderr_tail).substr(at, end - at)), "\n");
      at = end + 1;
    }
  }
  if (total_failed > failures.size()) {
    text += StrCat("... and ", total_failed - failures.size(), " more failed; ", logs_hint, " shows them\n");
  }
  return text;
}

std::string SummaryLine(const Figures& view) {
  std::string line =
      StrCat("done ", view.done, " of ", view.total, ", failed ", view.failed, ", skipped ", view.skipped);
  if (view.cancelled > 0) line += StrCat(", cancelled ", view.cancelled);
  if (view.pruned > 0) line += StrCat(", pruned ", view.pruned);
  if (view.open() > 0) line += StrCat(", not run ", view.open());
  line += StrCat("; ", FormatDuration(view.makespan));
  if (view.sessions > 1) line += StrCat(" in ", view.sessions, " sessions");
  if (view.slot_seconds > 0) {
    // Sessions may have had different ones.
    const bool same_slots =
        std::abs(view.slot_seconds - Seconds(view.makespan) * view.slots) < 1e-6 * view.slot_seconds;
    line += StrCat(", ", Percent(view.CoreUtilisation()), " of ", same_slots ? StrCat(view.slots) : "their",
                   view.slots == 1 && same_slots ? " slot" : " slots", " busy");
  }
  if (const auto share = view.LocalShare()) {
    line += StrCat(", ", Percent(*share), " of input bytes local");
    if (view.home_bytes != view.local_bytes) line += StrCat(" (", Percent(*view.HomeShare()), " home)");
  }
  if (view.bytes_moved > 0) line += StrCat(", ", FormatBytes(view.bytes_moved), " moved");
  if (view.shared_read_bytes > 0) line += StrCat(", ", FormatBytes(view.shared_read_bytes), " read");
  if (view.written_back_bytes > 0)
    line += StrCat(", ", FormatBytes(view.written_back_bytes), " written back");
  if (view.losses > 0)
    line += StrCat(", ", view.losses, view.losses == 1 ? " attempt lost" : " attempts lost");
  return line;
}

void AppendFigures(const Figures& view, const StatusContext& context, JsonWriter* json) {
  json->Member("run", context.run_id).Member("run_dir", context.run_dir);
  json->Member("state", context.state).Member("source", context.source);
  if (!context.note.empty()) json->Member("note", context.note);
  json->MemberUint("epoch", context.epoch);
  json->Key("tasks").BeginObject();
  json->MemberUint("total", view.total).MemberUint("done", view.done).MemberUint("failed", view.failed);
  json->MemberUint("skipped", view.skipped)
      .MemberUint("cancelled", view.cancelled)
      .MemberUint("pruned", view.pruned)
      .MemberUint("running", view.running);
  json->EndObject();
  json->MemberFixed("makespan_s", Seconds(view.makespan), 6);
  json->MemberFixed("core_utilisation", view.CoreUtilisation(), 4);
  json->MemberUint("sessions", view.sessions);
  json->MemberUint("slots", view.slots)
      .MemberUint("attempts", view.attempts)
      .MemberUint("losses", view.losses);
  json->Key("input_bytes").BeginObject();
  json->MemberUint("local", view.local_bytes).MemberUint("remote", view.remote_bytes);
  json->MemberUint("home", view.home_bytes).EndObject();
  json->MemberUint("bytes_moved", view.bytes_moved);
  json->MemberUint("shared_read_bytes", view.shared_read_bytes)
      .MemberUint("written_back_bytes", view.written_back_bytes);
}

std::string BestText(const StatusContext& context) {
  if (!context.best) return "";
  std::string text = StrCat("best value ", *context.best);
  if (!context.bound) return text;
  text += StrCat(", least bound ", *context.bound);
  const double gap = (*context.best - *context.bound) / std::abs(*context.best);
  if (std::isfinite(gap) && gap >= 0) {
    text += StrCat(" (", FixedText(100 * gap, 1), " % below)");
  }
  return text;
}

std::string StatusJson(const Figures& view, const StatusContext& context) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject().MemberUint("version", kStatusVersion);
  AppendFigures(view, context, &json);
  if (context.best) json.Key("best").Number(*context.best);
  if (context.bound) json.Key("bound").Number(*context.bound);
  if (!context.allocations.empty()) AppendAllocations(&json, context.allocations);
  if (context.with_nodes) AppendNodes(&json, context.nodes);
  if (context.with_failures) AppendFailures(&json, context.failures);
  json.EndObject();
  out.push_back('\n');
  return out;
}

}  // namespace harrow::report
