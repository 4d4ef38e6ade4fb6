// Tables for people: columns two blanks apart, numbers to the right, as wide as their widest cell. The table
// of tasks may have a million rows: it is laid out in two passes over a row function, nothing is kept.

#include "report/tables.h"

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "base/text.h"
#include "report/allocations.h"
#include "report/json.h"
#include "report/summary.h"

namespace harrow::report {
namespace {

using journal::AttemptRecord;
using journal::TaskFate;

constexpr size_t kWidestCell = 48;
constexpr size_t kReadableText = 24, kNarrowestText = 12;

/// Columns on the terminal: characters, not bytes (no double width: names of tasks rarely have any).
size_t Width(std::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

/// Its first characters and "...", `width` columns wide (at least 3).
std::string Cut(std::string_view text, size_t width) {
  size_t bytes = 0;
  for (size_t column = 0; bytes < text.size(); ++bytes) {
    if ((static_cast<unsigned char>(text[bytes]) & 0xC0) != 0x80 && ++column > width - 3) break;
  }
  return StrCat(text.substr(0, bytes), "...");
}

std::string Memory(int64_t kib) {
  if (kib == 0) return "-";
  return StrCat(kib < 0 ? "<" : "", FormatBytes(static_cast<uint64_t>(std::abs(kib)) * 1024));
}

std::string Cell(std::string_view text) {
  return Printable(text, kWidestCell);
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
  return "+" + FixedText(Seconds(run.TimeInRun(attempt.start_ns)), 3);
}

void WriteKinds(const RunView& run, const std::vector<size_t>& tasks, size_t width, const Sink& sink) {
  const std::vector<KindRow> rows = KindRows(run, tasks);
  WriteTable(
      {{"kind"},
       {"tasks", true},
       {"done", true},
       {"failed", true},
       {"skipped", true, 2},
       {"mean", true},
       {"median", true, 3},
       {"max", true},
       {"core time", true, 1},
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
      sink, width);
}

void WriteNodes(const RunView& run, const std::vector<size_t>& tasks, size_t width, const Sink& sink) {
  const std::vector<NodeRow> rows = NodeRows(run, tasks);
  std::vector<Column> columns = {{"node"},         {"slots", true},   {"attempts", true},   {"failed", true},
                                 {"lost", true},   {"busy", true, 1}, {"utilisation", true}};
  const bool inputs = std::any_of(rows.begin(), rows.end(),
                                  [](const NodeRow& row) { return row.local_bytes + row.remote_bytes > 0; });
  if (inputs) columns.insert(columns.end(), {{"local input", true, 3}, {"remote input", true, 2}});
  WriteTable(
      columns, rows.size(),
      [&](size_t r, std::vector<std::string>* cells) {
        const NodeRow& row = rows[r];
        *cells = {Cell(row.node),
                  StrCat(row.slots),
                  StrCat(row.attempts),
                  StrCat(row.failed),
                  StrCat(row.lost),
                  FormatDuration(row.busy),
                  PercentCell(row.utilisation)};
        if (inputs) cells->insert(cells->end(), {FormatBytes(row.local_bytes), FormatBytes(row.remote_bytes)});
      },
      sink, width);
}

}  // namespace

std::string PercentCell(double share) {
  return FixedText(share * 100, 1) + " %";
}

void WriteTable(const std::vector<Column>& columns, size_t rows,
                const std::function<void(size_t row, std::vector<std::string>* cells)>& fill, const Sink& sink,
                size_t width) {
  constexpr size_t kGap = 2;
  std::vector<size_t> widths;
  for (const Column& column : columns) widths.push_back(column.heading.size());
  std::vector<std::string> cells;
  for (size_t row = 0; row < rows; ++row) {
    cells.clear();
    fill(row, &cells);
    for (size_t c = 0; c < cells.size(); ++c) widths[c] = std::max(widths[c], Width(cells[c]));
  }
  std::vector<bool> shown(columns.size(), true);
  std::string left_out;
  const auto total = [&] {
    size_t sum = 0;
    for (size_t c = 0; c < columns.size(); ++c) sum += shown[c] ? widths[c] + kGap : 0;
    return sum < kGap ? 0 : sum - kGap;
  };
  // Long text first loses its end; then columns go; then text is cut as far as it can be.
  const auto narrow = [&](size_t least) {
    while (total() > width) {
      size_t widest = columns.size();
      for (size_t c = 0; c < columns.size(); ++c) {
        if (shown[c] && !columns[c].to_right && (widest == columns.size() || widths[c] > widths[widest])) widest = c;
      }
      if (widest == columns.size() || widths[widest] <= least) break;
      --widths[widest];
    }
  };
  narrow(kReadableText);
  while (total() > width) {
    size_t least = columns.size();
    for (size_t c = 0; c < columns.size(); ++c) {
      if (shown[c] && columns[c].spare > 0 && (least == columns.size() || columns[c].spare > columns[least].spare))
        least = c;
    }
    if (least == columns.size()) break;
    shown[least] = false;
    left_out += StrCat(left_out.empty() ? "" : ", ", columns[least].heading);
  }
  narrow(kNarrowestText);
  std::string out;
  const auto add_line = [&] {
    for (size_t c = 0; c < columns.size(); ++c) {
      if (shown[c] && Width(cells[c]) > widths[c]) cells[c] = Cut(cells[c], widths[c]);
    }
    size_t blanks = 0;  // before the next cell; none at the end of a line
    for (size_t c = 0; c < columns.size(); ++c) {
      if (!shown[c]) continue;
      const size_t pad = widths[c] > Width(cells[c]) ? widths[c] - Width(cells[c]) : 0;
      if (columns[c].to_right) blanks += pad;
      if (!cells[c].empty()) {
        out.append(blanks, ' ');
        out += cells[c];
        blanks = 0;
      }
      blanks += (columns[c].to_right ? 0 : pad) + kGap;
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
  if (!left_out.empty()) out += StrCat("(--wide also shows: ", left_out, ")\n");
  sink(out);
}

void WriteTaskTable(const RunView& run, const std::vector<size_t>& tasks, size_t width, const Sink& sink) {
  WriteTable(
      {{"task"},
       {"kind", false, 4},
       {"state"},
       {"attempts", true, 3},
       {"node", false, 1},
       {"start s", true, 2},
       {"run time", true},
       {"ended"},
       {"CPU", true, 5},
       {"max RSS", true},
       {"output", true, 6}},
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
        const std::string nodes = ListNodes(run.NodeNames(*last), ",");
        cells->push_back(nodes.empty() ? "-" : Cell(nodes));
        cells->push_back(SinceStart(run, *last));
        cells->push_back(last->start_ns == 0 ? "-" : FormatDuration(RunTime(*last)));
        cells->push_back(HowText(run, i, last));
        cells->push_back(FormatDuration(std::chrono::microseconds(last->user_us + last->system_us)));
        cells->push_back(Memory(last->max_rss_kib));
        cells->push_back(FormatBytes(last->stdout_bytes + last->stderr_bytes));
      },
      sink, width);
}

void WriteOverview(const RunView& run, const std::vector<size_t>& tasks, size_t slowest, size_t width,
                   const Sink& sink) {
  std::string head = SummaryLine(FiguresOf(run)) + "\n";
  if (tasks.size() != run.task_count())
    head += StrCat("below: ", tasks.size(), " of ", run.task_count(), " tasks\n");
  if (!sink(head + "\n")) return;
  WriteKinds(run, tasks, width, sink);
  sink("\n");
  if (run.history().allocations.size() > 1) {
    WriteAllocations(run, width, sink);
    sink("\n");
  }
  WriteNodes(run, tasks, width, sink);
  const std::vector<size_t> longest = Slowest(run, tasks, slowest);
  if (longest.empty()) return;
  sink("\nslowest tasks\n");
  WriteTaskTable(run, longest, width, sink);
}

}  // namespace harrow::report
