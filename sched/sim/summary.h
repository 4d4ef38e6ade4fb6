#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/figures.h"
#include "graph/graph.h"
#include "sim/bounds.h"
#include "sim/simulation.h"

namespace harrow::sim {

/// What a simulation is called in reports.
struct Title {
  std::string flow;     // its name
  std::string cluster;  // its name, or NxC
};

/// What an outcome is in the words that runs are told in.
Figures FiguresOf(const Outcome& outcome, const formats::ClusterModel& cluster);

/// One document, version 1. Times in seconds, bytes as numbers.
std::string Json(const Title& title, const graph::Graph& graph, const Options& options, const Outcome& outcome,
                 const Bounds& bounds);
/// A few lines for people.
std::string Text(const Title& title, const graph::Graph& graph, const Options& options, const Outcome& outcome,
                 const Bounds& bounds);

struct Compared {
  Options options;
  Outcome outcome;
};
/// Policies side by side, against the lower bound; the shortest is marked.
std::string CompareText(const Title& title, const std::vector<Compared>& rows, const Bounds& bounds);
std::string CompareJson(const Title& title, const graph::Graph& graph, const std::vector<Compared>& rows,
                        const Bounds& bounds);

/// Cores in use over time by kind.
std::string PlotSvg(const Title& title, const graph::Graph& graph, const Options& options, const Outcome& outcome);

}  // namespace harrow::sim
