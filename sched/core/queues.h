#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/prefetch.h"
#include "core/lanes.h"
#include "core/scheduler.h"
#include "core/task_table.h"
#include "order/draws.h"
#include "order/level_times.h"
#include "order/order.h"
#include "order/ready_queue.h"
#include "place/victims.h"

namespace harrow::core {

/// Where ready tasks stand: in the queues of their candidate nodes, else in the remote queue; gangs in one of
/// their own, and those that nodes are sought for apart. They change three things of a task: that it is
/// ready, its ticket, and, while it stands here, its level.
class Queues {
 public:
  /// `draws`: of rank+hrf; null: a generator seeded by the options.
  Queues(const Options& options, const order::LevelTimes* level_times, order::Draws* draws, TaskTable* tasks,
         const Lanes* lanes);

  void Grow(size_t nodes);
  void SetSlots(NodeId node, uint32_t slots) { of_node_[node.value].set_slots(slots); }
  void SetOpenSlots(uint64_t slots);

  /// A task becomes ready, as the newest; `keep_place`: with the ticket that it has, to where that puts it.
  void Enter(TaskId id, bool keep_place);
  /// It is taken out of all its queues; `ahead`: as it is sent ahead, and counts there still.
  void Leave(TaskId id, bool ahead);
  /// It counts there no more.
  void LeaveAhead(TaskId id);
  /// What was taken is not wanted: back to its place in the queue of that node, or else in the remote queue
  /// or that of gangs, where it may have stood apart.
  void Return(TaskId id, NodeId node = NodeId());
  /// It stands at another level from now on, at its place there.
  void SetLevel(TaskId id, Level level);

  // --- the first task by the order that fits, still counted in its queues: Leave() or Return...() follows
  order::Pick TakeFromNode(NodeId node, const order::Room& room) {
    return of_node_[node.value].Take(*order_, tasks_.cards(), room);
  }
  order::Pick TakeFromRemote(const order::Room& room) { return remote_.Take(*order_, tasks_.cards(), room); }
  order::Pick TakeGang(const order::Room& room) { return gangs_.Take(*order_, tasks_.cards(), room); }
  /// `victim`: from whose queue.
  order::Pick Steal(NodeId thief, const order::Room& room, NodeId* victim = nullptr);

  /// A gang that was taken stands apart from now on; it is ready still.
  void SetApart(TaskId id);
  bool IsApart(TaskId id) const;
  const std::vector<TaskId>& apart() const { return apart_; }

  const order::Order& order() const { return *order_; }
  const order::ReadyQueue& of_node(NodeId id) const { return of_node_[id.value]; }
  const order::ReadyQueue& remote() const { return remote_; }
  /// The one it stands in, or the first of them.
  const order::ReadyQueue& QueueOf(TaskId id) const;
  std::vector<TaskId> TasksAt(NodeId id) const { return of_node_[id.value].Tasks(tasks_.cards()); }
  uint64_t ready(order::LaneId lane) const { return lane < kinds_.size() ? kinds_[lane].ready : 0; }
  /// Whether a node that asks may get a task of that lane: from the remote queue, by stealing, or from its
  /// own queue, where `node` says which that is.
  bool Reachable(order::LaneId lane, NodeId node = NodeId()) const;

  /// Lanes that tasks came into since they were last forgotten.
  const std::vector<order::LaneId>& pushed() const { return pushed_; }
  void ForgetPushed();
  /// As long as no node has got more room, none of those with free slots can take a task of the lane.
  bool stuck(order::LaneId lane, uint64_t room_version) const {
    return kinds_[lane].stuck_at == room_version;
  }
  void SetStuck(order::LaneId lane, uint64_t room_version) { kinds_[lane].stuck_at = room_version; }

  void Prefetch(NodeId node) const {
    if (node.value < of_node_.size()) harrow::Prefetch(&of_node_[node.value]);
  }
  size_t memory() const;
  /// What is broken, or nothing.
  std::string FindBroken() const;

 private:
  struct Kind {
    uint64_t ready = 0;
    uint64_t stuck_at = 0;
    bool pushed = false;
    place::Victims victims;
  };
  template <class Each>
  void ForEachQueue(TaskId id, const Each& each);
  NodeId DrawVictim(order::LaneId lane);

  const bool steal_;
  TaskTable& tasks_;
  const Lanes& lanes_;
  // Of rank+hrf, and of victims.
  order::SeededDraws draws_, victim_draws_;
  std::unique_ptr<order::Order> order_;
  std::vector<order::ReadyQueue> of_node_;
  order::ReadyQueue remote_, gangs_;
  // A few.
  std::vector<TaskId> apart_;
  std::vector<Kind> kinds_;
  std::vector<order::LaneId> pushed_;
  uint32_t next_ticket_ = 1;
};

}  // namespace harrow::core
