#include "core/path_order.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace harrow::core {
namespace {

// Where so many tasks or fewer are open, everything is looked through again whenever something was learnt; of more, when one in so
// many has ended since.
constexpr size_t kOfAll = 16;

/// Rises with a length of time, by seven digits; less than what a priority more is worth.
order::Urgency PlaceOf(double seconds) {
  return std::bit_cast<uint32_t>(static_cast<float>(std::max(0.0, seconds)));
}

}  // namespace

Duration ComputedBy(const TaskEnded& ended, const graph::Graph& graph) {
  if (ended.computed >= Duration(0)) return ended.computed;
  const TaskId task = ended.attempt.task;
  const auto waited = [&](TaskId before) { return graph.StartSuffices(before, task); };
  const auto before = graph.predecessors(task);
  return std::none_of(before.begin(), before.end(), waited) ? ended.run_time : ended.computed;
}

PathOrder::PathOrder(const graph::Graph& graph, const Options& options) : graph_(graph) {
  if (options.policy == order::Policy::kCost)
    costs_.emplace(graph, options.costs.seconds_a_unit, options.costs.bytes_a_unit, options.costs.known);
}

void PathOrder::Learn(const TaskEnded& ended) {
  const double computed = Seconds(ComputedBy(ended, graph_));
  const bool much = costs_->Learn(ended.attempt.task, ended.node, computed, static_cast<double>(ended.written));
  ++learnt_;
  if (much && learnt_ * kOfAll >= path_.size()) due_ = true;
}

void PathOrder::Find() {
  if (std::exchange(stale_, false) || costs_->size() != graph_.task_count()) {
    if (!costs_->Model()) {
      path_.assign(graph_.task_count(), 0);
      due_ = false;
      return;
    }
  }
  std::vector<double> seconds(graph_.task_count());
  for (uint32_t n = 0; n < seconds.size(); ++n) seconds[n] = costs_->seconds(TaskId(n));
  path_ = cost::RemainingPaths(graph_, seconds);
  costs_->NoteExpected();
  due_ = false;
  learnt_ = 0;
}

order::Urgency PathOrder::UrgencyOf(TaskId task) {
  const order::Urgency own = order::UrgencyOf(graph_.profile(task).priority, graph_.bound(task));
  if (graph_.bound(task) != graph::kNoBound) return own;
  if (stale_) Find();
  return own + PlaceOf(path_[task.value]);
}

}  // namespace harrow::core
