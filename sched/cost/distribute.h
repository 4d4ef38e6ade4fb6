#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cost/cluster.h"

namespace harrow::cost {

/// What one node is to do, in this order.
struct Queue {
  double cost = 0;
  // Numbers of groups.
  std::vector<uint32_t> groups;
};

/// Groups by cost, largest first (of equal ones the first), each to the queue of least cost (of equal ones
/// the first); then the groups of each queue by their ranks, of equal ones as they came (paper 001, 6.2.2).
/// `weights`: of each node, what it does at once: a queue's cost counts divided by it; all alike is the
/// paper.
std::vector<Queue> Distribute(std::span<const Group> groups, std::span<const double> weights);

}  // namespace harrow::cost
