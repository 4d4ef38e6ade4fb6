#pragma once

#include <string>

#include "report/run_view.h"

namespace harrow::report {

/// An SVG picture of the cores in use over the run's time, a stacked area a kind (the twelve with most core
/// time, the rest as one), with the slots as a line: what figures 11 to 14 of the Pwrake paper show. A
/// resumed run shows its sessions in calendar time.
std::string PlotSvg(const RunView& run, const std::vector<size_t>& tasks, const std::string& title);

}  // namespace harrow::report
