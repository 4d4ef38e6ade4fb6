#pragma once

#include <vector>

#include "report/aggregate.h"
#include "report/rows.h"
#include "report/run_view.h"

namespace harrow::report {

/// `report` for people: figures, kinds, nodes, the `slowest` slowest tasks.
void WriteOverview(const RunView& run, const std::vector<size_t>& tasks, size_t slowest, const Sink& sink);

/// One line a task: state, attempts, node, start since the run's start, times, how it ended, memory, output.
void WriteTaskTable(const RunView& run, const std::vector<size_t>& tasks, const Sink& sink);

}  // namespace harrow::report
