#include "cost/distribute.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

namespace harrow::cost {

std::vector<Queue> Distribute(std::span<const Group> groups, std::span<const double> weights) {
  std::vector<Queue> queues(weights.size());
  if (queues.empty()) return queues;
  std::vector<uint32_t> order(groups.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return groups[a].cost > groups[b].cost; });
  using Load = std::pair<double, uint32_t>;
  std::priority_queue<Load, std::vector<Load>, std::greater<>> loads;
  for (uint32_t q = 0; q < queues.size(); ++q) loads.emplace(0.0, q);
  for (const uint32_t group : order) {
    const uint32_t q = loads.top().second;
    loads.pop();
    queues[q].groups.push_back(group);
    queues[q].cost += groups[group].cost;
    loads.emplace(queues[q].cost / weights[q], q);
  }
  for (Queue& queue : queues) {
    std::stable_sort(queue.groups.begin(), queue.groups.end(),
                     [&](uint32_t a, uint32_t b) { return groups[a].rank < groups[b].rank; });
  }
  return queues;
}

}  // namespace harrow::cost
