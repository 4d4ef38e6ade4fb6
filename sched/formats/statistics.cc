#include "formats/statistics.h"

#include <algorithm>

namespace harrow::formats {

Statistics Summarise(const graph::Graph& graph) {
  Statistics s;
  s.tasks = graph.task_count();
  s.kinds.resize(graph.kind_count());
  for (uint32_t n = 0; n < graph.kind_count(); ++n) s.kinds[n].name = graph.kind_name(KindId(n));

  std::vector<TaskId> order;  // predecessors first
  order.reserve(graph.task_count());
  Level highest = -1;
  for (uint32_t n = 0; n < graph.task_count(); ++n) {
    const TaskId task(n);
    order.push_back(task);
    highest = std::max(highest, graph.level(task));
    s.edges += graph.predecessors(task).size();
    const graph::Profile& profile = graph.profile(task);
    const uint64_t cores = profile.all_cores();
    s.cores += cores;
    s.most_cores = std::max(s.most_cores, cores);
    s.most_nodes = std::max<uint64_t>(s.most_nodes, profile.shape.nodes);
    s.mpi_tasks += profile.ranks > 0;
    s.ranks += profile.ranks;
    s.most_ranks = std::max<uint64_t>(s.most_ranks, profile.ranks);
    s.without_command += graph.form(task) == graph::CommandForm::kNone;
    const auto run_time = graph.recorded_run_time(task);
    if (run_time) {
      ++s.timed;
      s.run_time += *run_time;
    }
    if (const KindId kind = graph.kind(task); kind) {
      Statistics::Kind& k = s.kinds[kind.value];
      ++k.tasks;
      k.most_cores = std::max(k.most_cores, cores);
      if (run_time) {
        ++k.timed;
        k.run_time += *run_time;
      }
    }
  }
  s.levels = static_cast<uint64_t>(highest + 1);

  std::vector<uint32_t> depth(graph.task_count(), 0);
  if (highest > 0) {
    std::stable_sort(order.begin(), order.end(),
                     [&](TaskId a, TaskId b) { return graph.level(a) > graph.level(b); });
    for (TaskId task : order) {
      for (TaskId before : graph.predecessors(task))
        depth[task.value] = std::max(depth[task.value], depth[before.value] + 1);
    }
  }
  std::vector<uint64_t> at_depth(s.levels, 0);
  for (uint32_t d : depth) s.width = std::max(s.width, ++at_depth[d]);

  s.files = graph.file_count();
  for (uint32_t n = 0; n < graph.file_count(); ++n) {
    const FileId file(n);
    const int64_t size = graph.file_size(file);
    const bool input = !graph.producer(file);
    s.input_files += input;
    if (size < 0) {
      ++s.unknown_sizes;
    } else {
      s.bytes += static_cast<uint64_t>(size);
      if (input) s.input_bytes += static_cast<uint64_t>(size);
    }
  }
  std::erase_if(s.kinds, [](const Statistics::Kind& kind) { return kind.tasks == 0; });
  std::stable_sort(s.kinds.begin(), s.kinds.end(),
                   [](const auto& a, const auto& b) { return a.tasks > b.tasks; });
  if (s.tasks > 0 && s.timed == s.tasks) s.critical_path = graph::FindCriticalPath(graph);
  return s;
}

}  // namespace harrow::formats
