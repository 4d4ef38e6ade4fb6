#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "report/aggregate.h"
#include "report/rows.h"
#include "report/run_view.h"

namespace harrow::report {

struct Column {
  std::string_view heading;
  bool to_right = false;
};
/// A heading and `rows` lines, as wide as the widest cell. `fill` puts one string a column into `cells`; it is called
/// twice for each row, so that nothing needs to be kept. Cells are printed as they are.
void WriteTable(const std::vector<Column>& columns, size_t rows,
                const std::function<void(size_t row, std::vector<std::string>* cells)>& fill, const Sink& sink);

/// `report` for people: figures, kinds, nodes, the `slowest` slowest tasks.
void WriteOverview(const RunView& run, const std::vector<size_t>& tasks, size_t slowest, const Sink& sink);

/// One line a task: state, attempts, node, start since the run's start, times, how it ended, memory, output.
void WriteTaskTable(const RunView& run, const std::vector<size_t>& tasks, const Sink& sink);

}  // namespace harrow::report
