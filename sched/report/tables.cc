// Tables for people: columns two blanks apart, numbers to the right, as wide as their widest cell. The table
// of tasks may have a million rows: it is laid out in two passes over a row function, nothing is kept.

#include "report/tables.h"

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "base/text.h"
#include "report/json.h"
#include "report/summary.h"

namespace harrow::report {
namespace {

using journal::AttemptRecord;
using journal::TaskFate;

constexpr size_t kWidestCell = 48;

/// Columns on the terminal: characters, not bytes (no double width: names of tasks rarely have any).
size_t Width(std::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string Memory(int64_t kib) {
  if (kib == 0) return "-";
  return StrCat(kib < 0 ? "<" : "", FormatBytes(static_cast<uint64_t>(std::abs(kib)) * 1024));
}

std::string Cell(std::string_view text) {
  return Printable(text, kWidestCell);
}

std::string Percent(double share) {
  std::string text;
  AppendFixed(&text, share * 100, 1);
  return text + " %";
}

std::string HowText(const RunView& run, size_t i, const AttemptRecord* last) {
  if (run.fate(i) == TaskFate::kSkipped) {
    const std::string because = run.Because(i);
    return because.empty() ? "-" : StrCat("needs ", Cell(because));
  }
  return last == nullptr ? "-" : Printable(EndText(*last), kWidestCell);
}

std::string SinceStart(const RunView& run, const AttemptRecord& attempt) {
  if (attempt.start_ns == 0) return "-";
  std::string text = attempt.start_ns < run.start_ns() ? "-" : "+";
  AppendFixed(&text, Seconds(Duration(std::abs(attempt.start_ns - run.start_ns()))), 3);
  return text;
}

void WriteKinds(const RunView& run, const std::vector<size_t>& tasks, const Sink& sink) {
  const std::vector<KindRow> rows = KindRows(run, tasks);
  WriteTable(
      {{"kind"},
       {"tasks", true},
       {"done", true},
       {"failed", true},
       {"skipped", true},
       {"mean", true},
       {"median", true},
       {"max", true},
       {"core time", true},
       {"max RSS", true}},
      rows.size(),
      [&](size_t r, std::vector<std::string>* cells) {
        const KindRow& row = rows[r];
        *cells = {Cell(row.kind), StrCat(row.tasks), StrCat(row.done), StrCat(row.failed),
                  StrCat(row.skipped)};
        const bool timed = row.done > 0;
        for (const Duration d : {row.mean, row.median, row.max})
          cells->push_back(timed ? FormatDuration(d) : "-");
        cells->push_back(FormatDuration(row.core_time));
        cells->push_back(Memory(row.max_rss_kib));
      },
      sink);
}

void WriteNodes(const RunView& run, const std::vector<size_t>& tasks, const Sink& sink) {
  const std::vector<NodeRow> rows = NodeRows(run, tasks);
  WriteTable(
      {{"node"},
       {"slots", true},
       {"attempts", true},
       {"failed", true},
       {"lost", true},
       {"busy", true},
       {"utilisation", true},
       {"local input", true},
       {"remote input", true}},
      rows.size(),
      [&](size_t r, std::vector<std::string>* cells) {
        const NodeRow& row = rows[r];
        *cells = {Cell(row.node),
                  StrCat(row.slots),
                  StrCat(row.attempts),
                  StrCat(row.failed),
                  StrCat(row.lost),
                  FormatDuration(row.busy),
                  Percent(row.utilisation),
                  FormatBytes(row.local_bytes),
                  FormatBytes(row.remote_bytes)};
      },
      sink);
}

}  // namespace

void WriteTable(const std::vector<Column>& columns, size_t rows,
                const std::function<void(size_t row, std::vector<std::string>* cells)>& fill,
                const Sink& sink) {
  std::vector<size_t> widths;
  for (const Column& column : columns) widths.push_back(column.heading.size());
  std::vector<std::string> cells;
  for (size_t row = 0; row < rows; ++row) {
    cells.clear();
    fill(row, &cells);
    for (size_t c = 0; c < cells.size(); ++c) widths[c] = std::max(widths[c], Width(cells[c]));
  }
  std::string out;
  const auto add_line = [&] {
    size_t blanks = 0;  // before the next cell; none at the end of a line
    for (size_t c = 0; c < columns.size(); ++c) {
      const size_t pad = widths[c] > Width(cells[c]) ? widths[c] - Width(cells[c]) : 0;
      if (columns[c].to_right) blanks += pad;
      if (!cells[c].empty()) {
        out.append(blanks, ' ');
        out += cells[c];
        blanks = 0;
      }
      blanks += (columns[c].to_right ? 0 : pad) + 2;
    }
    out.push_back('\n');
  };
  cells.assign(columns.size(), "");
  for (size_t c = 0; c < columns.size(); ++c) cells[c] = columns[c].heading;
  add_line();
  for (size_t row = 0; row < rows; ++row) {
    cells.clear();
    fill(row, &cells);
    add_line();
    if (out.size() < (64 << 10)) continue;
    if (!sink(out)) return;
    out.clear();
  }
  sink(out);
}

void WriteTaskTable(const RunView& run, const std::vector<size_t>& tasks, const Sink& sink) {
  WriteTable(
      {{"task"},
       {"kind"},
       {"state"},
       {"attempts", true},
       {"node"},
       {"start s", true},
       {"run time", true},
       {"ended"},
       {"CPU", true},
       {"max RSS", true},
       {"output", true}},
      tasks.size(),
      [&](size_t r, std::vector<std::string>* cells) {
        const size_t i = tasks[r];
        const auto at = run.LastAttempt(i);
        const AttemptRecord* last = at ? &run.history().attempts[*at] : nullptr;
        *cells = {Cell(run.task(i).name), Cell(run.task(i).kind), std::string(FateName(run.fate(i))),
                  StrCat(run.attempt_count(i))};
        if (last == nullptr) {
          for (const std::string& cell :
               {std::string("-"), std::string("-"), std::string("-"), HowText(run, i, last), std::string("-"),
                std::string("-"), std::string("-")}) {
            cells->push_back(cell);
          }
          return;
        }
        const std::string node = run.NodeName(last->node);
        cells->push_back(node.empty() ? "-" : Cell(node));
        cells->push_back(SinceStart(run, *last));
        cells->push_back(last->start_ns == 0 ? "-" : FormatDuration(RunTime(*last)));
        cells->push_back(HowText(run, i, last));
        cells->push_back(FormatDuration(std::chrono::microseconds(last->user_us + last->system_us)));
        cells->push_back(Memory(last->max_rss_kib));
        cells->push_back(FormatBytes(last->stdout_bytes + last->stderr_bytes));
      },
      sink);
}

void WriteOverview(const RunView& run, const std::vector<size_t>& tasks, size_t slowest, const Sink& sink) {
  std::string head = SummaryLine(FiguresOf(run)) + "\n";
  if (tasks.size() != run.task_count())
    head += StrCat("below: ", tasks.size(), " of ", run.task_count(), " tasks\n");
  if (!sink(head + "\n")) return;
  WriteKinds(run, tasks, sink);
  sink("\n");
  WriteNodes(run, tasks, sink);
  const std::vector<size_t> longest = Slowest(run, tasks, slowest);
  if (longest.empty()) return;
  sink("\nslowest tasks\n");
  WriteTaskTable(run, longest, sink);
}

}  // namespace harrow::report
