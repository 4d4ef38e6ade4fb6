#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "cost/net.h"

namespace harrow::cost {

/// A net as it is run: one entry a task, times in seconds on a node of speed 1.
struct Load {
  /// What a task reads of another.
  struct Source {
    uint32_t task = 0;
    double bytes = 0;
    // From its end on, before it computes (a file); else while both run (a stream).
    bool file = false;
  };
  struct Task {
    double seconds = 0;
    uint32_t cores = 1;
    uint32_t rank = 0;
    // Of sources.
    uint32_t first_source = 0, sources = 0;
    // Of befores: tasks that have to have ended.
    uint32_t first_before = 0, befores = 0;
  };
  std::vector<Task> tasks;
  std::vector<Source> sources;
  std::vector<uint32_t> befores;
};

/// The nodes that it runs on.
struct Machine {
  struct Node {
    uint32_t slots = 1;
    double speed = 1;
    // Bytes a second to and from other nodes.
    double in = std::numeric_limits<double>::infinity();
    double out = std::numeric_limits<double>::infinity();
  };
  std::vector<Node> nodes;
};

/// How far a task has come.
struct Standing {
  enum class State : uint8_t { kWaiting, kRunning, kDone } state = State::kWaiting;
  // Of one that runs: seconds that it still computes.
  double left = 0;
};

struct Prediction {
  // From now on, in seconds.
  double makespan = 0;
  // Over the links between nodes.
  double bytes = 0;
  /// Sooner, and of what is as soon the one that sends less.
  bool BetterThan(const Prediction& other) const {
    const double margin = 1e-9 * (makespan + other.makespan);
    if (makespan < other.makespan - margin) return true;
    return makespan <= other.makespan + margin && bytes < other.bytes * (1 - 1e-9);
  }
};

/// Predicts how long a load takes where each task has its node. Each node begins what is first in order among
/// that which may begin: a task's writers have begun, and what it waits for has ended. A task holds its cores
/// until it has computed, its writers have ended, and what they wrote on other nodes has come: from one node
/// after the other, transfers sharing the nodes' links. Keeps room for the next call.
class Predictor {
 public:
  Predictor(const Load& load, const Machine& machine);
  /// `node`, `standing` (may be empty: all wait): by task. `order`: of each task its place among those of its
  /// node; the lower begins first.
  Prediction Predict(std::span<const uint32_t> node, std::span<const uint32_t> order,
                     std::span<const Standing> standing = {});

 private:
  struct Run {
    double ends = 0;  // its computing
    uint32_t open_writers = 0;
    bool computed = false, begun = false, done = false;
    uint32_t chain = 0;  // of from_: what is coming, or comes next
    uint32_t chain_end = 0;
    bool arriving = false;
  };
  struct Transfer {
    uint32_t task, from, to;
    double left, rate;
  };
  struct From {
    uint32_t node;
    double bytes;
  };

  void Begin(uint32_t task, double left, double now);
  void NextTransfer(uint32_t task);
  void MayEnd(uint32_t task);
  void Release(uint32_t task);
  void FindRates();

  const Load& load_;
  const Machine& machine_;
  // Of each task, those that read its streams and those that wait for its end.
  std::vector<uint32_t> readers_begin_, readers_, after_begin_, after_;
  std::span<const uint32_t> node_, order_;
  std::vector<uint32_t> waits_;  // for so many begins and ends
  std::vector<Run> runs_;
  std::vector<uint32_t> free_;                // cores, by node
  std::vector<std::vector<uint32_t>> ready_;  // by node, first last
  std::vector<uint32_t> running_, ended_;
  std::vector<Transfer> transfers_;
  std::vector<From> from_;
  std::vector<uint32_t> sending_, receiving_;
  std::vector<double> from_node_;
  Prediction found_;
};

}  // namespace harrow::cost
