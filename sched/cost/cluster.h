#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "cost/net.h"

namespace harrow::cost {

/// When clustering ends (paper 001, 6.2.1).
struct Limits {
  // TG_MAX: as long as there are so many groups and tasks without one, it goes on.
  double groups = 0;
  // CT_MAX: streams of so much, or more, are never between nodes.
  double stream = std::numeric_limits<double>::infinity();
};

/// Tasks that are to run on one node.
struct Group {
  // The sum of its tasks' C_c.
  double cost = 0;
  // The least of theirs.
  uint32_t rank = 0;
  // Of Clusters::members.
  uint32_t first = 0, count = 0;
};

struct Clusters {
  // In the order of their first tasks.
  std::vector<Group> groups;
  // Of each group by rank, then by number.
  std::vector<uint32_t> members;
  std::span<const uint32_t> of(const Group& group) const {
    return std::span(members).subspan(group.first, group.count);
  }
};

/// Streams by C_t, largest first (of equal ones the first): all tasks that one connects, and the groups that
/// these are in, become one group; until, before a stream, there are fewer groups and tasks without one than
/// Limits::groups and its C_t is below Limits::stream. (The paper states when that forms one group for each
/// S2 of its example, but its condition is not enough: also CT_MAX <= C_t(S2), or TG_MAX <= M + N + 1.) What
/// brings nothing, C_t = 0, puts nobody together.
/// `costs` has no unknown amounts.
Clusters FindClusters(const Net& net, const Costs& costs, const Limits& limits);

/// The limits where nobody has set any: four groups a node and slot, so that the least loaded gets what evens
/// it out; and of a stream as much as takes, at `seconds_a_byte`, as long as its tasks compute on average, at
/// `seconds_a_unit`; without a known rate no stream is too large.
Limits DefaultLimits(const Net& net, const Costs& costs, double slots, double seconds_a_unit,
                     double seconds_a_byte);

}  // namespace harrow::cost
