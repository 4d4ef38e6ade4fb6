#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace harrow::formats {

/// What makes a task the same task in another run: XXH3-128 over its name (a line of a line file has none:
/// its text and which occurrence of that text it is), command, form, shell, env, cwd, in and out.
struct Identity {
  uint64_t high = 0, low = 0;
  auto operator<=>(const Identity&) const = default;
};

/// Of all tasks, by TaskId. O(tasks + text).
std::vector<Identity> Identities(const graph::Graph& graph);

}  // namespace harrow::formats
