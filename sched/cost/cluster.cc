#include "cost/cluster.h"

#include <algorithm>
#include <utility>

#include "cost/together.h"

namespace harrow::cost {
namespace {

struct Weighed {
  double amount;
  uint32_t meta, index;
};

}  // namespace

Clusters FindClusters(const Net& net, const Costs& costs, const Limits& limits) {
  const std::vector<uint32_t> first = FirstOf(net);
  std::vector<Weighed> streams;
  streams.reserve(net.stream_count());
  for (uint32_t s = 0; s < net.streams.size(); ++s) {
    for (uint32_t n = 0; n < net.streams[s].count; ++n) {
      const double amount = AmountOf(costs.stream[s], n);
      if (amount > 0) streams.push_back({amount, s, n});
    }
  }
  std::stable_sort(streams.begin(), streams.end(),
                   [](const Weighed& a, const Weighed& b) { return a.amount > b.amount; });

  const uint32_t tasks = first.back();
  Together together(tasks);
  int64_t apart = tasks;
  for (const Weighed& stream : streams) {
    if (static_cast<double>(apart) < limits.groups && stream.amount < limits.stream) break;
    const MetaStream& meta = net.streams[stream.meta];
    uint32_t one = UINT32_MAX;
    for (const auto* side : {&meta.writers, &meta.readers}) {
      for (const uint32_t task : *side) {
        const Block block = TasksOf(net.tasks[task].count, meta.count, stream.index);
        for (uint64_t t = 0; t < block.count; ++t) {
          const uint32_t member = first[task] + static_cast<uint32_t>(block.first + t);
          if (one != UINT32_MAX) apart += together.Join(one, member);
          one = member;
        }
      }
    }
  }

  Clusters clusters;
  std::vector<uint32_t> group_of(tasks), rank(tasks);
  for (size_t t = 0; t < net.tasks.size(); ++t) {
    for (uint32_t n = 0; n < net.tasks[t].count; ++n) {
      const uint32_t task = first[t] + n;
      rank[task] = costs.rank[t];
      const uint32_t least = together.Find(task);
      if (least == task) {
        group_of[task] = static_cast<uint32_t>(clusters.groups.size());
        clusters.groups.push_back({0, costs.rank[t], 0, 0});
      } else {
        group_of[task] = group_of[least];
      }
      Group& group = clusters.groups[group_of[task]];
      group.cost += AmountOf(costs.compute[t], n);
      group.rank = std::min(group.rank, costs.rank[t]);
      ++group.count;
    }
  }
  uint32_t place = 0;
  for (Group& group : clusters.groups) {
    group.first = place;
    place += std::exchange(group.count, 0);
  }
  clusters.members.resize(tasks);
  for (uint32_t task = 0; task < tasks; ++task) {
    Group& group = clusters.groups[group_of[task]];
    clusters.members[group.first + group.count++] = task;
  }
  for (const Group& group : clusters.groups) {
    if (group.count < 2) continue;
    std::stable_sort(clusters.members.begin() + group.first,
                     clusters.members.begin() + group.first + group.count,
                     [&](uint32_t a, uint32_t b) { return rank[a] < rank[b]; });
  }
  return clusters;
}

Limits DefaultLimits(const Net& net, const Costs& costs, double slots, double seconds_a_unit,
                     double seconds_a_byte) {
  constexpr double kGroupsPerSlot = 4;
  Limits limits;
  limits.groups = kGroupsPerSlot * slots + 1;
  double compute = 0, tasks = 0;
  for (size_t t = 0; t < net.tasks.size(); ++t) {
    for (uint32_t n = 0; n < net.tasks[t].count; ++n) compute += AmountOf(costs.compute[t], n);
    tasks += net.tasks[t].count;
  }
  if (seconds_a_byte > 0 && tasks > 0) limits.stream = compute / tasks * seconds_a_unit / seconds_a_byte;
  return limits;
}

}  // namespace harrow::cost
