#include <algorithm>

#include "graph/graph.h"

namespace harrow::graph {

CriticalPath FindCriticalPath(const Graph& graph) {
  const size_t count = graph.task_count();
  if (count == 0) return {};
  // Ascending levels are an order in which every task comes after all that need it.
  std::vector<uint32_t> by_level(count);
  Level highest = 0;
  for (uint32_t n = 0; n < count; ++n) highest = std::max(highest, graph.level(TaskId(n)));
  std::vector<uint32_t> next(static_cast<size_t>(highest) + 2, 0);
  for (uint32_t n = 0; n < count; ++n) ++next[graph.level(TaskId(n)) + 1];
  for (size_t level = 1; level < next.size(); ++level) next[level] += next[level - 1];
  for (uint32_t n = 0; n < count; ++n) by_level[next[graph.level(TaskId(n))]++] = n;

  std::vector<Duration> length(count, Duration(0));  // from a task's start to the end of all that needs it
  std::vector<TaskId> follows(count);
  TaskId start;
  for (uint32_t n : by_level) {
    const TaskId task(n);
    for (TaskId after : graph.successors(task)) {
      if (!follows[n] || length[after.value] > length[follows[n].value]) follows[n] = after;
    }
    length[n] = graph.recorded_run_time(task).value_or(Duration(0));
    if (follows[n]) length[n] += length[follows[n].value];
    if (!start || length[n] > length[start.value]) start = task;
  }
  CriticalPath path;
  path.length = length[start.value];
  for (TaskId task = start; task; task = follows[task.value]) path.tasks.push_back(task);
  return path;
}

std::vector<bool> NeededFor(const Graph& graph, std::span<const TaskId> targets) {
  std::vector<bool> needed(graph.task_count(), false);
  std::vector<TaskId> open(targets.begin(), targets.end());
  while (!open.empty()) {
    const TaskId task = open.back();
    open.pop_back();
    if (needed[task.value]) continue;
    needed[task.value] = true;
    for (TaskId before : graph.predecessors(task)) {
      if (!needed[before.value]) open.push_back(before);
    }
  }
  return needed;
}

}  // namespace harrow::graph
