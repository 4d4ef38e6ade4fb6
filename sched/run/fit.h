#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/resources.h"
#include "base/time.h"
#include "graph/graph.h"

namespace harrow::run {

/// Tasks that can never run in a job, however long they wait.
struct Misfits {
  uint64_t tasks = 0;
  uint64_t of = 0;       // that are to run
  TaskId first;          // none: there are none
  bool all() const { return tasks > 0 && tasks == of; }
  /// "all tasks", "3 of 53 tasks".
  std::string Text() const;
};

/// Those whose time, with `margin`, a job of length `time` does not have: it begins to run before they can.
/// `left_out`: a flag a task that is not to run; may be empty.
Misfits FindTooLong(const graph::Graph& graph, const std::vector<bool>& left_out, Duration time,
                    Duration margin);

/// The nodes of a job. What is 0 of a node is not known.
struct JobNodes {
  std::vector<NodeCapacity> nodes;
  bool counted = true;  // there are no more of them; else any number like the largest

  NodeCapacity largest() const;
};

/// Those that ask for more than any node has, or for more such nodes than there are. The ranks of a task that
/// says nothing of nodes may be spread over several.
Misfits FindTooLarge(const graph::Graph& graph, const std::vector<bool>& left_out, const JobNodes& job);

/// "64 cores, and no node of `where` has more than 4", of a task that FindTooLarge found.
std::string TooLargeText(const graph::Profile& profile, const JobNodes& job, const std::string& where);

/// The task that needs most nodes where each has that much, and how many these are. One that does not fit on
/// any number of them does not count.
struct Widest {
  uint32_t nodes = 1;
  TaskId task;  // none: no task needs more than one
};
Widest FindWidest(const graph::Graph& graph, const std::vector<bool>& left_out, const NodeCapacity& each);

}  // namespace harrow::run
