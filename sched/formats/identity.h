#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/packed_bytes.h"
#include "graph/graph.h"

namespace harrow::formats {

/// What makes a task the same task in another run: XXH3-128 over its name (a line of a line file has none:
/// its text and which occurrence of that text it is), command, form, shell, env, cwd, in, out and streams.
struct Identity {
  uint64_t high = 0, low = 0;
  auto operator<=>(const Identity&) const = default;
};

struct IdentityHash {
  size_t operator()(const Identity& id) const { return id.low; }
};

/// Of a graph's tasks, one after the other. The graph may grow meanwhile.
class Identifier {
 public:
  explicit Identifier(const graph::Graph& graph) : graph_(graph) {}
  /// Of the first task, the second, ... There has to be one left.
  Identity Next();
  size_t done() const { return next_; }

 private:
  const graph::Graph& graph_;
  uint32_t next_ = 0;
  PackedBytes packed_;              // what is hashed
  std::vector<Identity> profiles_;  // of shell, cwd and env
  std::unordered_map<Identity, uint64_t, IdentityHash> occurrences_;  // of unnamed tasks that are otherwise alike
};

/// Of all tasks, by TaskId. O(tasks + text).
std::vector<Identity> Identities(const graph::Graph& graph);

}  // namespace harrow::formats
