#pragma once

#include <cstdint>
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
  int spare = 0;  // 0: always there; of the others the one with the highest number is left out first
};
inline constexpr size_t kAnyWidth = SIZE_MAX;

/// A heading and `rows` lines, as wide as the widest cell. `fill` puts one string a column into `cells`; it is called
/// twice for each row, so that nothing needs to be kept. Cells are printed as they are. What is wider than `width`
/// columns of the terminal loses spare columns, and says so below.
void WriteTable(const std::vector<Column>& columns, size_t rows,
                const std::function<void(size_t row, std::vector<std::string>* cells)>& fill, const Sink& sink,
                size_t width = kAnyWidth);

/// "12.3 %" of a share.
std::string PercentCell(double share);

/// `report` for people: figures, kinds, nodes, the `slowest` slowest tasks.
void WriteOverview(const RunView& run, const std::vector<size_t>& tasks, size_t slowest, size_t width,
                   const Sink& sink);

/// One line a task: state, attempts, node, start since the run's start, times, how it ended, memory, output.
void WriteTaskTable(const RunView& run, const std::vector<size_t>& tasks, size_t width, const Sink& sink);

}  // namespace harrow::report
