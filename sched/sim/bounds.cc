#include "sim/bounds.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

namespace harrow::sim {

namespace {

/// The least T in which allocations that are there from begin to end could do the work: the sum of slots x
/// speed x (min(T, end) - begin) is the work. No less than the critical path after the first begins, at the
/// largest speed. Infinity: they end before.
double LowerOf(const formats::ClusterModel& cluster, const Bounds& bounds) {
  std::vector<std::pair<double, double>> changes;  // of the power, by time
  double speed = 0, first = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < cluster.allocations.size(); ++i) {
    const formats::ClusterModel own = cluster.OfAllocation(i);
    const formats::ClusterModel::Allocation& allocation = cluster.allocations[i];
    for (const formats::ClusterModel::Nodes& group : own.nodes) speed = std::max(speed, group.speed);
    first = std::min(first, allocation.begin);
    changes.emplace_back(allocation.begin, own.power());
    if (allocation.end > 0) changes.emplace_back(allocation.end, -own.power());
  }
  std::sort(changes.begin(), changes.end());
  double left = bounds.work, power = 0, now = first;
  for (const auto& [time, change] : changes) {
    if (power > 0 && left <= power * (time - now)) break;
    left -= power * (time - now);
    now = time;
    power += change;
  }
  const double by_work = left <= 0      ? now
                         : power > 1e-9 ? now + left / power
                                        : std::numeric_limits<double>::infinity();
  return std::max(by_work, first + bounds.critical_path / speed);
}

}  // namespace

Bounds FindBounds(const graph::Graph& graph, const std::vector<Work>& work,
                  const formats::ClusterModel& cluster) {
  Bounds bounds;
  double speed = 0;  // of the fastest node
  for (const formats::ClusterModel::Nodes& group : cluster.nodes) speed = std::max(speed, group.speed);
  // Before which no task can begin, and end: one that reads streams begins with its writers, and ends with
  // the last of them at the soonest.
  std::vector<double> from(graph.task_count(), 0), until(graph.task_count(), 0);
  std::vector<uint32_t> waits(graph.task_count());
  std::vector<TaskId> ready;
  for (uint32_t n = 0; n < graph.task_count(); ++n) {
    waits[n] = static_cast<uint32_t>(graph.predecessors(TaskId(n)).size());
    if (waits[n] == 0) ready.push_back(TaskId(n));
  }
  while (!ready.empty()) {
    const TaskId id = ready.back();
    ready.pop_back();
    const Work& w = work[id.value];
    const double seconds = w.left_out ? 0 : w.seconds;
    until[id.value] = std::max(until[id.value], from[id.value] + seconds);
    bounds.work += seconds * static_cast<double>(graph.profile(id).all_cores());
    bounds.critical_path = std::max(bounds.critical_path, until[id.value]);
    for (TaskId after : graph.successors(id)) {
      const bool beside = graph.StartSuffices(id, after);
      from[after.value] = std::max(from[after.value], beside ? from[id.value] : until[id.value]);
      if (beside) until[after.value] = std::max(until[after.value], until[id.value]);
      if (--waits[after.value] == 0) ready.push_back(after);
    }
  }
  const auto slots = static_cast<double>(cluster.slot_count());
  bounds.lower = std::max(bounds.critical_path / speed, bounds.work / cluster.power());
  if (!cluster.allocations.empty()) bounds.lower = LowerOf(cluster, bounds);
  bounds.graham = bounds.work / slots + (1 - 1 / slots) * bounds.critical_path;
  return bounds;
}

}  // namespace harrow::sim
