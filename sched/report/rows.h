#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "report/run_view.h"
#include "report/summary.h"

namespace harrow::report {

/// Takes the next piece of a document; false: nobody reads on (a closed pipe), stop.
using Sink = std::function<bool(std::string_view)>;

inline constexpr int kReportVersion = 1;

/// RFC 4180 with a heading and "\n" line ends: one row a task with what its last attempt was, or one row an
/// attempt. Columns as in harrow-report(1); what does not apply is empty.
void WriteCsv(const RunView& run, const std::vector<size_t>& tasks, bool every_attempt, const Sink& sink);

/// One document: version, figures, kinds, nodes, and every task with its attempts.
void WriteJson(const RunView& run, const std::vector<size_t>& tasks, const StatusContext& context,
               const Sink& sink);

/// "2026-03-01T09:30:00.250000Z"; empty for 0. For tests and both writers.
void AppendUtc(std::string* out, int64_t calendar_ns);

}  // namespace harrow::report
