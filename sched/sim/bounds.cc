#include "sim/bounds.h"

#include <algorithm>
#include <cstdint>

namespace harrow::sim {

Bounds FindBounds(const graph::Graph& graph, const std::vector<Work>& work,
                  const formats::ClusterModel& cluster) {
  Bounds bounds;
  double speed = 0, power = 0;  // of the fastest node; cores times speed
  for (const formats::ClusterModel::Nodes& group : cluster.nodes) {
    speed = std::max(speed, group.speed);
    power += group.speed * group.capacity.slots * group.count;
  }
  std::vector<double> until(graph.task_count(), 0);
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
    until[id.value] += seconds;
    bounds.work += seconds * static_cast<double>(graph.profile(id).all_cores());
    bounds.critical_path = std::max(bounds.critical_path, until[id.value]);
    for (TaskId after : graph.successors(id)) {
      until[after.value] = std::max(until[after.value], until[id.value]);
      if (--waits[after.value] == 0) ready.push_back(after);
    }
  }
  const auto slots = static_cast<double>(cluster.slot_count());
  bounds.lower = std::max(bounds.critical_path / speed, bounds.work / power);
  bounds.graham = bounds.work / slots + (1 - 1 / slots) * bounds.critical_path;
  return bounds;
}

}  // namespace harrow::sim
