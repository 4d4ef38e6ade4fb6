#include "core/placing.h"

#include <utility>

#include "core/path_order.h"

namespace harrow::core {

Placing::Placing(const graph::Graph& graph, const Options& options) : graph_(graph) {
  if (options.make_placer) {
    placer_ = options.make_placer(graph);
  } else if (options.costs.how != cost::Place::kFiles) {
    placer_ = cost::MakePlacer(graph, options.costs);
    eager_ = options.costs.how == cost::Place::kCost;
  }
}

void Placing::Grow(size_t tasks) {
  since_.resize(tasks);
  counted_at_.resize(tasks);
  placer_->Grow();
  due_ = true;
}

void Placing::SetSlots(NodeId node, uint32_t slots) {
  if (node.value >= slots_.size()) {
    slots_.resize(node.value + 1, 0);
    waiting_.resize(node.value + 1, 0);
  }
  uint32_t& has = slots_[node.value];
  if (has == slots) return;
  nodes_ += (slots > 0 ? 1u : 0u) - (has > 0 ? 1u : 0u);
  has = slots;
  placer_->SetSlots(node, slots);
  due_ = true;
}

void Placing::Comes(TaskId task) {
  if (counted_at_[task.value]) return;
  placer_->Reopen(task);
  const NodeId at = node(task);
  if (!at) {
    due_ |= works_ && (placer_->stale() || placer_->models(task));
    return;
  }
  counted_at_[task.value] = at;
  ++waiting_[at.value];
  ++all_waiting_;
}

void Placing::Leaves(TaskId task) {
  const NodeId at = std::exchange(counted_at_[task.value], NodeId());
  if (!at) return;
  --all_waiting_;
  ++changed_;
  // The last one: what waits elsewhere may go there.
  if (--waiting_[at.value] == 0 && all_waiting_ > 0 && slots_[at.value] > 0) due_ = true;
}

void Placing::Learn(const TaskEnded& ended) {
  ++changed_;
  const TaskId task = ended.attempt.task;
  const Duration computed = ComputedBy(ended, graph_);
  if (placer_->Learn(task, ended.node, Seconds(computed), static_cast<double>(ended.written)) && all_waiting_ > 0) due_ = true;
}

void Placing::Place(Time now, const cost::Placer::Look& look) {
  due_ = false;
  changed_ = 0;
  std::vector<TaskId> waiting;
  placer_->Place(Seconds(now.time_since_epoch()), [&](TaskId task) {
    const cost::Placer::Standing standing = look(task);
    if (standing.state == cost::Placer::State::kWaiting) waiting.push_back(task);
    return standing;
  });
  works_ = placer_->works();
  placed_ = true;
  for (TaskId task : waiting) {
    NodeId& at = counted_at_[task.value];
    if (at) {
      --waiting_[at.value];
      --all_waiting_;
    }
    at = node(task);
    if (!at) continue;
    ++waiting_[at.value];
    ++all_waiting_;
  }
}

/// Within a priority what the placement has first; tasks with a bound go by that.
order::Urgency Placing::UrgencyOf(TaskId task) const {
  const order::Urgency own = order::UrgencyOf(graph_.profile(task).priority, graph_.bound(task));
  return graph_.bound(task) == graph::kNoBound ? own - placer_->order(task) : own;
}

}  // namespace harrow::core
