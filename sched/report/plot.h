#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "report/run_view.h"

namespace harrow::report {

/// Cores in use from one time to another (seconds since the start), for one of the series.
struct PlotInterval {
  double from = 0, to = 0, cores = 1;
  size_t series = 0;
};
/// A part of the time with so many slots, drawn as a line; 0: not. They follow one another from 0 on.
struct PlotSession {
  double length = 0;  // seconds
  double slots = 0;
};
struct Plot {
  std::string title;
  std::vector<std::string> series;  // kinds
  std::vector<PlotInterval> intervals;
  std::vector<PlotSession> sessions;  // where one ends and the next begins a line is drawn from top to bottom
};

/// An SVG picture of the cores in use over time, a stacked area a series (the twelve with most core time, the rest as
/// one), with the slots as a line: what figures 11 to 14 of the Pwrake paper show.
std::string PlotSvg(const Plot& plot);

/// What so many nodes would take.
struct PlotCount {
  uint32_t nodes = 1;
  double seconds = 0, core_hours = 0;
};
/// Time and core-hours over node counts (ascending, on a scale of doublings), each as a line on a scale of its own; a line from top to bottom
/// at the count `marked`.
std::string PlotCounts(const std::string& title, const std::vector<PlotCount>& counts, uint32_t marked);

/// The same of a run's attempts by kind, its sessions one after the other without the gaps between them.
std::string PlotSvg(const RunView& run, const std::vector<size_t>& tasks, const std::string& title);

}  // namespace harrow::report
