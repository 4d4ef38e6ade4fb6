#include "sim/node_count.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "sim/bounds.h"

namespace harrow::sim {
namespace {

constexpr double kTolerance = 1.05;
constexpr double kEver = std::numeric_limits<double>::infinity();

}  // namespace

NodeCounts SearchNodeCount(const CountBounds& bounds, const std::function<double(uint32_t)>& makespan) {
  std::map<uint32_t, double> known;
  double best = kEver;  // makespan squared x nodes: the cost but for a factor
  const auto try_count = [&](uint32_t nodes) {
    const double time = makespan(nodes);
    known[nodes] = time;
    best = std::min(best, time * time * nodes);
    return time;
  };
  const double path = bounds.critical_path * bounds.critical_path;
  for (uint64_t nodes = 1;; nodes *= 2) {
    const auto count = static_cast<uint32_t>(std::min<uint64_t>(nodes, bounds.most));
    // More do not help where a flow is as quick as can be, and cost more than the best where they are too
    // many for its path.
    if (try_count(count) <= bounds.critical_path || path * count > best || count == bounds.most) break;
  }
  while (true) {
    // The gap in which most may be gained.
    double least = best / kTolerance;
    uint32_t low = 0, high = 0;
    for (auto after = std::next(known.begin()); after != known.end(); ++after) {
      const auto before = std::prev(after);
      if (after->first - before->first < 2) continue;
      const double time = std::max(after->second, bounds.critical_path);
      const double spread = bounds.work / bounds.cores;  // seconds on one node
      const double cost = std::max(time * time * (before->first + 1), spread * spread / (after->first - 1));
      if (cost >= least) continue;
      least = cost;
      low = before->first;
      high = after->first;
    }
    if (high == 0) break;
    const auto middle = static_cast<uint32_t>(std::sqrt(static_cast<double>(low) * high));
    try_count(std::clamp(middle, low + 1, high - 1));
  }
  NodeCounts counts;
  for (const auto& [nodes, time] : known) {
    const double cores = static_cast<double>(nodes) * bounds.cores;
    NodeCount count{.nodes = nodes, .makespan = time, .core_hours = time * cores / 3600, .busy = 0};
    if (std::isfinite(time) && time > 0) count.busy = bounds.work / (time * cores);
    counts.tried.push_back(count);
    if (count.cost() < counts.tried[counts.best].cost()) counts.best = counts.tried.size() - 1;
  }
  return counts;
}

NodeCounts FindNodeCount(const graph::Graph& graph, const std::vector<Work>& work, Options options,
                         uint32_t most) {
  options.cluster.nodes.resize(1);
  options.cluster.nodes[0].count = 1;
  const Bounds flow = FindBounds(graph, work, options.cluster);
  const CountBounds bounds{.critical_path = flow.critical_path,
                           .work = flow.work,
                           .cores = std::max(1u, options.cluster.nodes[0].capacity.slots),
                           .most = std::max(1u, most)};
  return SearchNodeCount(bounds, [&](uint32_t nodes) {
    options.cluster.nodes[0].count = nodes;
    const Outcome outcome = Simulate(graph, work, options);
    return outcome.all_done() ? outcome.makespan : kEver;
  });
}

}  // namespace harrow::sim
