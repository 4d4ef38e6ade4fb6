#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cost/cluster.h"
#include "cost/predict.h"

namespace harrow::cost {

/// How tasks come to their nodes.
enum class Place : uint8_t {
  kFiles,      // not by costs, but by where their files are
  kCostPaper,  // by clusters, as paper 001 has it
  kCost,       // the same, made better by moves against the model
};

/// The node of each task, and its place among those of that node.
struct Placement {
  std::vector<uint32_t> node, order;
};

/// Clusters are distributed over nodes of these weights. `waiting`: of each task whether it is to be placed;
/// others count for nothing, and keep what `placement` says.
void PlaceClusters(const Clusters& clusters, std::span<const double> task_costs,
                   std::span<const uint32_t> ranks, std::span<const double> weights,
                   const std::vector<bool>& waiting, Placement* placement);

/// Tries to make a placement better: each waiting task on each other node, two tasks in each other's place or
/// together on another node, until nothing helps or `budget` tasks have been predicted. The order stays.
/// `nodes`: only the first so many are given tasks.
Prediction Refine(const Load& load, const Machine& machine, std::span<const Standing> standing,
                  uint64_t budget, Placement* placement, size_t nodes = SIZE_MAX);

/// Places a whole net: from its clusters under these limits, under none, and as few as there are nodes, each
/// refined with a third of the budget; the best of them by the prediction.
Prediction PlaceByCosts(const Net& net, const Costs& costs, const Load& load, const Machine& machine,
                        const Limits& limits, uint64_t budget, Placement* placement);

/// Orders the tasks of every node by rank, then by number.
void OrderByRank(const Load& load, Placement* placement);

}  // namespace harrow::cost
