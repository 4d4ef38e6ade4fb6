#pragma once

#include <string>
#include <vector>

#include "base/time.h"
#include "report/json.h"
#include "report/run_view.h"
#include "report/tables.h"

namespace harrow::report {

/// A task that left a checkpoint and went on from it.
struct ContinuedRow {
  size_t task = 0;             // its position in the run
  Duration at{0};              // in the run: when it had left the checkpoint, and its processes were gone
  std::string from, to;        // nodes, the lead one of several; empty: not known
  Duration stood{0};           // until its next attempt began
  std::string said;            // of the checkpoint, as its agent told
};
/// In the order of time. What left a checkpoint and has not begun again yet is not among them.
std::vector<ContinuedRow> ContinuedRows(const RunView& run);

/// A table of them, with its heading; nothing where there are none.
void WriteContinued(const RunView& run, size_t width, const Sink& sink);
/// A member "continued" of them; nothing where there are none.
void AppendContinued(const RunView& run, JsonWriter* json);

}  // namespace harrow::report
