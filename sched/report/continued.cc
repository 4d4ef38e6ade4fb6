#include "report/continued.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "report/rows.h"

namespace harrow::report {

std::vector<ContinuedRow> ContinuedRows(const RunView& run) {
  std::vector<ContinuedRow> rows;
  const std::vector<journal::AttemptRecord>& attempts = run.history().attempts;
  for (size_t i = 0; i < run.task_count(); ++i) {
    if (run.attempt_count(i) < 2) continue;
    const journal::AttemptRecord* left = nullptr;
    for (const size_t a : run.Attempts(i)) {
      const journal::AttemptRecord& attempt = attempts[a];
      if (attempt.start_ns == 0) continue;  // nothing of it ran
      if (left != nullptr) {
        rows.push_back({.task = i,
                        .at = run.TimeInRun(left->end_ns),
                        .from = run.NodeName(left->node),
                        .to = run.NodeName(attempt.node),
                        .stood = std::max(Duration(0), Duration(attempt.start_ns - left->end_ns)),
                        .said = left->message});
      }
      left = attempt.end == journal::End::kCheckpointed ? &attempt : nullptr;
    }
  }
  std::stable_sort(rows.begin(), rows.end(), [](const ContinuedRow& a, const ContinuedRow& b) { return a.at < b.at; });
  return rows;
}

namespace {

/// Without what the table's heading says.
std::string_view OfCheckpoint(std::string_view said) {
  for (const std::string_view begin : {"it left a checkpoint of ", "it goes on from its checkpoint of "}) {
    if (said.starts_with(begin)) return said.substr(begin.size());
  }
  return said;
}

}  // namespace

void WriteContinued(const RunView& run, size_t width, const Sink& sink) {
  const std::vector<ContinuedRow> rows = ContinuedRows(run);
  if (rows.empty()) return;
  sink("\ntasks that went on from a checkpoint\n");
  WriteTable({{"at s", true}, {"task"}, {"from"}, {"to"}, {"stood s", true}, {"checkpoint", false, 1}}, rows.size(),
             [&](size_t r, std::vector<std::string>* cells) {
               const ContinuedRow& row = rows[r];
               *cells = {FixedText(Seconds(row.at), 3), Printable(run.TaskName(run.task(row.task).task), 48), Printable(row.from),
                         Printable(row.to),       FixedText(Seconds(row.stood), 3),                           Printable(OfCheckpoint(row.said), 80)};
             },
             sink, width);
}

void AppendContinued(const RunView& run, JsonWriter* json) {
  const std::vector<ContinuedRow> rows = ContinuedRows(run);
  if (rows.empty()) return;
  json->Key("continued").BeginArray();
  for (const ContinuedRow& row : rows) {
    json->BeginObject().Member("task", run.TaskName(run.task(row.task).task)).MemberFixed("at_s", Seconds(row.at), 6);
    json->Member("from", row.from).Member("to", row.to).MemberFixed("stood_s", Seconds(row.stood), 6).Member("checkpoint", row.said).EndObject();
  }
  json->EndArray();
}

}  // namespace harrow::report
