#include "cost/load.h"

#include <algorithm>
#include <utility>

namespace harrow::cost {

Load MakeLoad(const Net& net, const Costs& costs, const std::vector<Unit>& units, size_t most_sources) {
  const auto unit_of = [&](const MetaTask& task) -> const Unit& {
    return units[std::min<size_t>(task.program, units.size() - 1)];
  };
  std::vector<uint32_t> first;
  uint32_t count = 0;
  for (const MetaTask& task : net.tasks) {
    first.push_back(count);
    count += task.count;
  }
  std::vector<std::vector<uint32_t>> from(net.tasks.size());
  size_t pairs = 0;
  for (uint32_t s = 0; s < net.streams.size(); ++s) {
    const MetaStream& stream = net.streams[s];
    uint64_t writers = 0, readers = 0;
    for (const uint32_t task : stream.writers)
      writers += TasksOf(net.tasks[task].count, stream.count, 0).count;
    for (const uint32_t task : stream.readers) {
      readers += TasksOf(net.tasks[task].count, stream.count, 0).count;
      from[task].push_back(s);
    }
    pairs += writers * readers * stream.count;
    if (pairs > most_sources) return {};
  }
  Load load;
  load.sources.reserve(pairs);
  for (uint32_t t = 0; t < net.tasks.size(); ++t) {
    const MetaTask& task = net.tasks[t];
    for (uint32_t n = 0; n < task.count; ++n) {
      Load::Task one;
      one.seconds = AmountOf(costs.compute[t], n) * unit_of(task).seconds;
      one.rank = costs.rank[t];
      one.first_source = static_cast<uint32_t>(load.sources.size());
      one.first_before = static_cast<uint32_t>(load.befores.size());
      for (const uint32_t s : from[t]) {
        const MetaStream& stream = net.streams[s];
        double readers = 0;
        for (const uint32_t reader : stream.readers)
          readers += static_cast<double>(TasksOf(net.tasks[reader].count, stream.count, 0).count);
        const Block streams = StreamsOf(task.count, stream.count, n);
        for (uint64_t i = streams.first; i < streams.first + streams.count; ++i) {
          double writers = 0;
          for (const uint32_t writer : stream.writers)
            writers += static_cast<double>(TasksOf(net.tasks[writer].count, stream.count, i).count);
          for (const uint32_t writer : stream.writers) {
            const Block block = TasksOf(net.tasks[writer].count, stream.count, i);
            for (uint64_t w = block.first; w < block.first + block.count; ++w) {
              Load::Source source;
              source.task = first[writer] + static_cast<uint32_t>(w);
              source.file = !stream.size.empty();
              source.bytes = source.file ? AmountOf(costs.stream[s], i) / writers
                                         : AmountOf(costs.out[writer], w) * unit_of(net.tasks[writer]).bytes /
                                               (stream.split ? readers : 1);
              load.sources.push_back(source);
            }
          }
        }
      }
      one.sources = static_cast<uint32_t>(load.sources.size()) - one.first_source;
      load.tasks.push_back(one);
    }
  }
  return load;
}

}  // namespace harrow::cost
