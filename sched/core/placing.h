#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "core/event.h"
#include "core/scheduler.h"
#include "cost/placer.h"
#include "graph/graph.h"
#include "order/urgency.h"

namespace harrow::core {

/// Where tasks are to run that are placed by what they cost (cost/placer.h), and when what waits is to be
/// placed again: when nothing waits any more for one of the nodes, when there are other nodes or tasks, and
/// when tasks turn out to cost something else.
class Placing {
 public:
  Placing(const graph::Graph& graph, const Options& options);
  bool on() const { return placer_ != nullptr; }

  // --- all below: only where it is on
  /// The graph has so many tasks now.
  void Grow(size_t tasks);
  /// So many slots of the node may be given tasks.
  void SetSlots(NodeId node, uint32_t slots);
  /// It stands in a queue, or is to: it counts among those that wait.
  void Comes(TaskId task);
  /// It waits no more: it was sent, or is settled or elsewhere.
  void Leaves(TaskId task);
  /// It has a slot since now.
  void Begins(TaskId task, Time now) {
    since_[task.value] = now;
    placer_->Begins(task);
  }
  /// Tasks have come from another server, or gone to one.
  void Exchange(size_t tasks) {
    placer_->Exchange(tasks);
    due_ |= placer_->stale();
  }
  /// As Placer::work_by_kind(). None: nobody knows.
  std::optional<std::vector<cost::Work>> work_by_kind() const {
    return works_ && placed_ ? std::optional(placer_->work_by_kind()) : std::nullopt;
  }
  void Gone(TaskId task) { placer_->Gone(task); }
  bool models(TaskId task) const { return placer_->models(task); }
  std::vector<TaskId> Share(double part, const cost::Placer::Look& look,
                            const std::function<bool(TaskId)>& movable) {
    return placer_->Share(part, look, movable);
  }
  Time since(TaskId task) const { return since_[task.value]; }
  void Learn(const TaskEnded& ended);

  /// Slots are idle, and tasks are ready that wait elsewhere: they may be better off there. Not with the
  /// paper's placement, and only where some part of what waits has begun or ended since the last one: what is
  /// large is not placed again for each task.
  void NoteIdle() { due_ |= eager_ && changed_ > all_waiting_ / 32; }

  bool due() const { return due_ && nodes_ > 0; }
  void Place(Time now, const cost::Placer::Look& look);
  /// None: it is not placed, and goes by its files.
  NodeId node(TaskId task) const { return placer_->node(task); }
  order::Urgency UrgencyOf(TaskId task) const;
  size_t memory() const {
    return placer_ == nullptr ? 0
                              : placer_->memory() + since_.capacity() * sizeof(Time) +
                                    counted_at_.capacity() * sizeof(NodeId);
  }

 private:
  const graph::Graph& graph_;
  std::unique_ptr<cost::Placer> placer_;
  std::vector<Time> since_;           // by task
  std::vector<NodeId> counted_at_;    // by task: for which node it is known to wait
  std::vector<uint32_t> waiting_;     // by node
  std::vector<uint32_t> slots_;       // by node
  uint64_t all_waiting_ = 0;
  uint64_t changed_ = 0;              // tasks that have left their queues, or ended, since the last placement
  uint32_t nodes_ = 0;                // with slots
  bool due_ = false;
  bool eager_ = false;                // places again also for slots that are idle
  bool works_ = true;                 // the model has a value
  bool placed_ = false;               // at least once
};

}  // namespace harrow::core
