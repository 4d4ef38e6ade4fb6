#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "core/event.h"
#include "core/scheduler.h"
#include "cost/task_costs.h"
#include "graph/graph.h"
#include "order/urgency.h"

namespace harrow::core {

/// How urgent tasks are by the longest way that is left from each, in seconds (order::Policy::kCost): what is expected of each task
/// before it has run, corrected by those that have.
class PathOrder {
 public:
  PathOrder(const graph::Graph& graph, const Options& options);
  bool on() const { return costs_.has_value(); }

  // --- all below: only where it is on
  /// The graph has more tasks.
  void Grow() { stale_ = true; }
  void Learn(const TaskEnded& ended);
  /// What is known has changed: those that wait may be more or less urgent than they were.
  bool due() const { return due_; }
  /// Finds the ways anew.
  void Find();
  /// Within a priority the longest way first; tasks with a bound go by that.
  order::Urgency UrgencyOf(TaskId task);
  size_t memory() const { return (costs_ ? costs_->memory() : 0) + path_.capacity() * sizeof(double); }

 private:
  const graph::Graph& graph_;
  std::optional<cost::TaskCosts> costs_;
  std::vector<double> path_;  // seconds, by task
  bool stale_ = true, due_ = false;
  size_t learnt_ = 0;         // since they were found
};

/// How long the attempt has computed; below 0: nobody knows, as it waited for what it read.
Duration ComputedBy(const TaskEnded& ended, const graph::Graph& graph);

}  // namespace harrow::core
