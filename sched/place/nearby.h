#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "graph/graph.h"

namespace harrow::place {

/// The tasks in an order in which those that stand near each other are related: tasks read what both of them
/// make, or they read the same files. Any stretch of it is a good choice for one node, and better one of which both
/// ends are multiples of `unit`, from 1 on. What nothing tells apart stays in the order that is given. None: no two
/// of them are related.
std::optional<std::vector<TaskId>> NearbyOrder(const graph::Graph& graph, std::span<const TaskId> tasks, uint32_t unit = 1);

}  // namespace harrow::place
