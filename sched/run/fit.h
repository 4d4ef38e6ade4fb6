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
  Duration shortest{0};  // of their times; 0: it is not their time
  bool all() const { return tasks > 0 && tasks == of; }
  /// "all tasks", "3 of 53 tasks".
  std::string Text() const;
};

/// Those whose time, with `margin`, a job of length `time` does not have: it begins to run before they can.
/// `left_out`: a flag a task that is not to run; may be empty.
Misfits FindTooLong(const graph::Graph& graph, const std::vector<bool>& left_out, Duration time,
                    Duration margin);

/// Those that ask for more than `most`, the most that any node has of each; what is 0 in it is not known.
Misfits FindTooLarge(const graph::Graph& graph, const std::vector<bool>& left_out, const NodeCapacity& most);

/// "64 cores, and no node of `where` has more than 4", of a task that FindTooLarge found.
std::string TooLargeText(const Shape& shape, const NodeCapacity& most, const std::string& where);

}  // namespace harrow::run
