// Refine looks at moves in a fixed order and takes each that helps at once. Pairs are tried where single
// moves help no more: all of them in small nets, else those that a stream connects. In a net that is too
// large for the budget a round ends where that is used up.

#include "cost/placement.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "cost/distribute.h"

namespace harrow::cost {

void PlaceClusters(const Clusters& clusters, std::span<const double> task_costs,
                   std::span<const uint32_t> ranks, std::span<const double> weights,
                   const std::vector<bool>& waiting, Placement* placement) {
  placement->node.resize(waiting.size(), 0);
  placement->order.resize(waiting.size(), 0);
  std::vector<Group> groups;
  std::vector<const Group*> of;
  for (const Group& group : clusters.groups) {
    Group left{0, UINT32_MAX, 0, 0};
    for (const uint32_t task : clusters.of(group)) {
      if (!waiting[task]) continue;
      left.cost += task_costs[task];
      left.rank = std::min(left.rank, ranks[task]);
      ++left.count;
    }
    if (left.count == 0) continue;
    groups.push_back(left);
    of.push_back(&group);
  }
  const std::vector<Queue> queues = Distribute(groups, weights);
  for (uint32_t q = 0; q < queues.size(); ++q) {
    uint32_t place = 0;
    for (const uint32_t group : queues[q].groups) {
      for (const uint32_t task : clusters.of(*of[group])) {
        if (!waiting[task]) continue;
        placement->node[task] = q;
        placement->order[task] = place++;
      }
    }
  }
}

void OrderByRank(const Load& load, Placement* placement) {
  std::vector<uint32_t> tasks(load.tasks.size());
  std::iota(tasks.begin(), tasks.end(), 0u);
  std::stable_sort(tasks.begin(), tasks.end(),
                   [&](uint32_t a, uint32_t b) { return load.tasks[a].rank < load.tasks[b].rank; });
  placement->order.resize(tasks.size());
  for (uint32_t i = 0; i < tasks.size(); ++i) placement->order[tasks[i]] = i;
}

namespace {

class Refiner {
 public:
  Refiner(const Load& load, const Machine& machine, std::span<const Standing> standing, uint64_t budget,
          Placement* placement)
      : load_(load),
        machine_(machine),
        standing_(standing),
        left_(budget / std::max<size_t>(1, load.tasks.size())),
        predictor_(load, machine),
        placement_(placement) {
    for (uint32_t t = 0; t < load.tasks.size(); ++t) {
      if (standing.empty() || standing[t].state == Standing::State::kWaiting) movable_.push_back(t);
    }
  }

  Prediction Run(size_t most_nodes) {
    best_ = predictor_.Predict(placement_->node, placement_->order, standing_);
    const auto nodes = static_cast<uint32_t>(std::min(most_nodes, machine_.nodes.size()));
    constexpr size_t kSmall = 12;
    bool better = nodes > 1;
    while (better && left_ > 0) {
      better = Singles(nodes);
      if (!better) better = movable_.size() <= kSmall ? AllPairs(nodes) : Swaps() || Together(nodes);
    }
    return best_;
  }

 private:
  uint32_t& node(uint32_t task) { return placement_->node[task]; }
  bool Fits(uint32_t task, uint32_t on) const { return load_.tasks[task].cores <= machine_.nodes[on].slots; }
  /// Keeps what was changed where it is better.
  bool Try() {
    if (left_ == 0) return false;
    --left_;
    const Prediction found = predictor_.Predict(placement_->node, placement_->order, standing_);
    if (!found.BetterThan(best_)) return false;
    best_ = found;
    return true;
  }
  bool Move(uint32_t task, uint32_t to) {
    const uint32_t from = node(task);
    if (from == to || !Fits(task, to)) return false;
    node(task) = to;
    if (Try()) return true;
    node(task) = from;
    return false;
  }
  bool MoveTwo(uint32_t a, uint32_t to_a, uint32_t b, uint32_t to_b) {
    const uint32_t from_a = node(a), from_b = node(b);
    if ((from_a == to_a && from_b == to_b) || !Fits(a, to_a) || !Fits(b, to_b)) return false;
    node(a) = to_a;
    node(b) = to_b;
    if (Try()) return true;
    node(a) = from_a;
    node(b) = from_b;
    return false;
  }
  bool Singles(uint32_t nodes) {
    bool better = false;
    for (const uint32_t task : movable_) {
      for (uint32_t n = 0; n < nodes; ++n) better |= Move(task, n);
    }
    return better;
  }
  bool AllPairs(uint32_t nodes) {
    bool better = false;
    for (size_t i = 0; i < movable_.size(); ++i) {
      for (size_t k = i + 1; k < movable_.size(); ++k) {
        for (uint32_t a = 0; a < nodes; ++a) {
          for (uint32_t b = 0; b < nodes; ++b) better |= MoveTwo(movable_[i], a, movable_[k], b);
        }
      }
    }
    return better;
  }
  bool Swaps() {
    bool better = false;
    for (size_t i = 0; i < movable_.size() && left_ > 0; ++i) {
      for (size_t k = i + 1; k < movable_.size() && left_ > 0; ++k) {
        const uint32_t a = movable_[i], b = movable_[k];
        if (node(a) != node(b)) better |= MoveTwo(a, node(b), b, node(a));
      }
    }
    return better;
  }
  bool Together(uint32_t nodes) {
    bool better = false;
    for (const uint32_t task : movable_) {
      const Load::Task& what = load_.tasks[task];
      for (uint32_t s = 0; s < what.sources && left_ > 0; ++s) {
        const uint32_t writer = load_.sources[what.first_source + s].task;
        if (!std::binary_search(movable_.begin(), movable_.end(), writer)) continue;
        for (uint32_t n = 0; n < nodes; ++n) better |= MoveTwo(writer, n, task, n);
      }
    }
    return better;
  }

  const Load& load_;
  const Machine& machine_;
  std::span<const Standing> standing_;
  uint64_t left_;
  Predictor predictor_;
  Placement* placement_;
  std::vector<uint32_t> movable_;
  Prediction best_;
};

}  // namespace

Prediction Refine(const Load& load, const Machine& machine, std::span<const Standing> standing,
                  uint64_t budget, Placement* placement, size_t nodes) {
  return Refiner(load, machine, standing, budget, placement).Run(nodes);
}

Prediction PlaceByCosts(const Net& net, const Costs& costs, const Load& load, const Machine& machine,
                        const Limits& limits, uint64_t budget, Placement* placement) {
  std::vector<double> task_costs, weights;
  std::vector<uint32_t> ranks;
  for (size_t t = 0; t < net.tasks.size(); ++t) {
    for (uint32_t n = 0; n < net.tasks[t].count; ++n) task_costs.push_back(AmountOf(costs.compute[t], n));
    ranks.insert(ranks.end(), net.tasks[t].count, costs.rank[t]);
  }
  for (const Machine::Node& node : machine.nodes) weights.push_back(node.slots * node.speed);
  const std::vector<bool> waiting(task_costs.size(), true);
  const double all = static_cast<double>(task_costs.size()) + 1;
  Prediction best;
  bool any = false;
  for (const Limits& start : {limits, Limits{all}, Limits{static_cast<double>(weights.size()) + 1}}) {
    Placement tried;
    PlaceClusters(FindClusters(net, costs, start), task_costs, ranks, weights, waiting, &tried);
    OrderByRank(load, &tried);
    const Prediction found = Refine(load, machine, {}, budget / 3, &tried);
    if (std::exchange(any, true) && !found.BetterThan(best)) continue;
    best = found;
    *placement = std::move(tried);
  }
  return best;
}

}  // namespace harrow::cost
