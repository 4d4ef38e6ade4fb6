// Sending ahead: a task is sent before a slot is free, so that the agent has it when one gets free, and no
// slot waits for a round trip. As deep as twice what a node ends in a round trip (half of it is usually on
// its way), not for tasks of levels whose mean run time is long or unknown.
//
// What is sent ahead must not change the order. Where newly ready tasks go first (all policies but fifo, and
// hrf only across levels), nothing is sent behind a task whose end may make another ready: its successor is
// to be asked for when the slot gets free. Should one become ready all the same that goes first, what is
// ahead there is asked back. An idle node that finds nothing else has the last task of a long row asked back.
// A task that comes back takes its old place.

#include <algorithm>
#include <cmath>

#include "core/impl.h"

namespace harrow::core {

uint32_t Scheduler::Impl::Depth(const Node& node) const {
  if (node.round_trip.count() <= 0 || node.mean_run <= 0 || node.mean_run > Seconds(options.ahead_limit))
    return 0;
  const double deep = std::ceil(2 * node.total.slots * Seconds(node.round_trip) / node.mean_run);
  return static_cast<uint32_t>(std::min(deep, static_cast<double>(options.max_ahead) * node.total.slots));
}

/// Whether its end may make a task ready that comes before others: one that waits for no more tasks than the
/// node runs.
bool Scheduler::Impl::WouldRelease(TaskId id, const Node& node) const {
  const Level level = tasks[id.value].card.level;
  for (TaskId after : graph.successors(id)) {
    if (after.value >= tasks.size()) continue;
    const Task& task = tasks[after.value];
    if (task.waits <= node.total.slots && order->NewcomerFirst(task.card.level, level)) return true;
  }
  return false;
}

bool Scheduler::Impl::MaySendAhead(const Task& task) const {
  return lanes[task.card.lane].plain() && level_times.measured(task.card.level) &&
         level_times.mean(task.card.level) <= Seconds(options.ahead_limit);
}

void Scheduler::Impl::SendAhead(NodeId id) {
  Node& node = nodes[id.value];
  if (node.round_trip.count() <= 0) return;
  if (node.access != Node::Access::kOpen || node.gang || node.hold != order::kNoLane || node.recalls > 0)
    return;
  const uint32_t depth = Depth(node);
  if (node.ahead.size() >= depth || node.free_slots() > 0) return;
  const order::Room room(lanes, node.total, {.slots = 1, .gpus = 0, .memory = 0, .idle = false});
  while (node.ahead.size() < depth && node.releasers == 0) {
    order::ReadyQueue* queue = &node.queue;
    order::Pick pick = node.queue.Take(*order, cards(), room);
    if (!pick.task && pick.overtaken == order::kNoLane) {
      // The last tasks of all are better shared out when slots are free.
      if (open_nodes > 1 && remote.live() <= open_slots) {
        if (!std::exchange(node.hungry, true)) hungry.push_back(id);
        return;
      }
      queue = &remote;
      pick = remote.Take(*order, cards(), room);
    }
    if (!pick.task) {
      if (remote.live() == 0 && !std::exchange(node.hungry, true)) hungry.push_back(id);
      return;
    }
    const Task& task = tasks[pick.task.value];
    if (pick.overtaken != order::kNoLane || !MaySendAhead(task)) {
      queue->Leave(task.card, false);
      queue->PutBack(pick.task, task.card, cards());
      return;
    }
    Start(pick.task, id, queue == &remote ? TakenFrom::kRemoteQueue : TakenFrom::kNodeQueue, true);
  }
}

/// Nodes that could have been sent more, when there is more in the remote queue.
void Scheduler::Impl::FeedHungry() {
  while (!hungry.empty() && remote.live() > (open_nodes > 1 ? open_slots : 0)) {
    const NodeId id = hungry.back();
    hungry.pop_back();
    nodes[id.value].hungry = false;
    SendAhead(id);
  }
}

void Scheduler::Impl::ListAhead(NodeId id) {
  if (std::find(ahead_nodes.begin(), ahead_nodes.end(), id) == ahead_nodes.end()) ahead_nodes.push_back(id);
}

void Scheduler::Impl::Recall(TaskId id) {
  Task& task = tasks[id.value];
  if (task.state() != TaskState::kSent) return;
  SetState(task, TaskState::kRecalled);
  ++nodes[task.node.value].recalls;
  ++recalled_total;
  actions->push_back(TakeBack{Latest(id), task.node});
}

void Scheduler::Impl::RecallAll(NodeId id) {
  for (TaskId ahead : nodes[id.value].ahead) Recall(ahead);
}

/// A task that became ready by an end at that node, and goes before what was sent ahead there.
void Scheduler::Impl::RecallForOrder(TaskId newcomer, NodeId at) {
  const Node& node = nodes[at.value];
  if (node.ahead.empty() || node.free_slots() > 0) return;
  const Task& task = tasks[newcomer.value];
  const auto [candidate, count] = CandidatesOf(task);
  if (count > 0 && std::find(candidate, candidate + count, at.value) == candidate + count) return;
  const Level waiting = tasks[node.ahead.front().value].card.level;
  if (order->NewcomerFirst(task.card.level, waiting)) RecallAll(at);
}

/// For slots that have nothing to do; as long as asking back takes less time than the task would wait.
void Scheduler::Impl::RecallForIdle() {
  if (ahead_total == 0 || open_nodes < 2) return;
  while (recalled_total < free_slots) {
    NodeId longest;
    double longest_wait = 0;
    for (size_t i = 0; i < ahead_nodes.size();) {
      const Node& node = nodes[ahead_nodes[i].value];
      if (node.ahead.empty()) {
        ahead_nodes[i] = ahead_nodes.back();
        ahead_nodes.pop_back();
        continue;
      }
      const auto waiting =
          static_cast<double>(node.ahead.size() - std::min<size_t>(node.recalls, node.ahead.size()));
      const double wait = waiting * node.mean_run / std::max(1u, node.total.slots);
      if (wait > longest_wait && wait > Seconds(node.round_trip)) {
        longest = ahead_nodes[i];
        longest_wait = wait;
      }
      ++i;
    }
    if (!longest) return;
    const std::vector<TaskId>& ahead = nodes[longest.value].ahead;
    const auto last = std::find_if(ahead.rbegin(), ahead.rend(),
                                   [&](TaskId id) { return tasks[id.value].state() == TaskState::kSent; });
    if (last == ahead.rend()) return;
    if (!options.steal && CandidatesOf(tasks[last->value]).second > 0) return;
    Recall(*last);
  }
}

}  // namespace harrow::core
