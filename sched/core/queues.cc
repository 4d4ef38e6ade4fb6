// A ready task stands in the queues of its candidate nodes, else in the remote queue; tasks of several nodes
// have a queue of their own, and those that nodes are sought or kept for stand apart, so that what comes
// later does not go before them. Without locality all stand in the remote queue: then there is one queue, as
// in the paper.

#include "core/queues.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace harrow::core {

Queues::Queues(const Options& options, const order::LevelTimes* level_times, order::Draws* draws,
               TaskTable* tasks, const Lanes* lanes)
    : steal_(options.steal),
      tasks_(*tasks),
      lanes_(*lanes),
      draws_(options.seed),
      victim_draws_(options.seed ^ 0x5DEECE66Dull),
      order_(order::MakeOrder(options.policy, draws != nullptr ? draws : &draws_, level_times)),
      remote_(order_->by_level()),
      gangs_(order_->by_level()) {}

void Queues::Grow(size_t nodes) {
  while (of_node_.size() < nodes) of_node_.emplace_back(order_->by_level());
}

void Queues::SetOpenSlots(uint64_t slots) {
  remote_.set_slots(static_cast<uint32_t>(std::min<uint64_t>(slots, UINT32_MAX)));
  gangs_.set_slots(remote_.slots());
}

template <class Each>
void Queues::ForEachQueue(TaskId id, const Each& each) {
  const Task& task = tasks_[id];
  if (lanes_.gang(task.lane())) {
    if (!IsApart(id)) each(gangs_);
    return;
  }
  const std::span<const NodeId> candidates = tasks_.candidates(task);
  if (candidates.empty()) each(remote_);
  for (NodeId node : candidates) each(of_node_[node.value]);
}

void Queues::Enter(TaskId id, bool keep_place) {
  tasks_.MakeReady(id, keep_place ? tasks_[id].card().ticket : next_ticket_++);
  const Task& task = tasks_[id];
  if (task.lane() >= kinds_.size()) kinds_.resize(lanes_.size());
  Kind& kind = kinds_[task.lane()];
  ++kind.ready;
  if (!std::exchange(kind.pushed, true)) pushed_.push_back(task.lane());
  ForEachQueue(id, [&](order::ReadyQueue& queue) {
    if (keep_place) {
      queue.PutBack(id, task.card(), tasks_.cards());
    } else {
      queue.Push(id, task.card(), tasks_.cards());
    }
  });
  if (!steal_ || lanes_.gang(task.lane())) return;
  for (NodeId node : tasks_.candidates(task)) kind.victims.Note(node);
}

void Queues::Leave(TaskId id, bool ahead) {
  --kinds_[tasks_[id].lane()].ready;
  ForEachQueue(id, [&](order::ReadyQueue& queue) { queue.Leave(tasks_[id].card(), ahead); });
  if (!apart_.empty()) std::erase(apart_, id);
}

void Queues::LeaveAhead(TaskId id) {
  ForEachQueue(id, [&](order::ReadyQueue& queue) { queue.LeaveAhead(tasks_[id].card()); });
}

void Queues::Return(TaskId id, NodeId node) {
  const order::Card& card = tasks_[id].card();
  order::ReadyQueue& queue = node ? of_node_[node.value] : lanes_.gang(card.lane) ? gangs_ : remote_;
  if (apart_.empty() || std::erase(apart_, id) == 0) queue.Leave(card, false);
  queue.PutBack(id, card, tasks_.cards());
}

void Queues::SetApart(TaskId id) {
  gangs_.Leave(tasks_[id].card(), false);
  apart_.push_back(id);
}

bool Queues::IsApart(TaskId id) const {
  return std::find(apart_.begin(), apart_.end(), id) != apart_.end();
}

void Queues::SetLevel(TaskId id, Level level) {
  order::Card moved = tasks_[id].card();
  moved.level = level;
  // Without levels its place stays the same, and so does its entry there.
  if (order_->by_level())
    ForEachQueue(id, [&](order::ReadyQueue& queue) {
      queue.Leave(tasks_[id].card(), false);
      queue.PutBack(id, moved, tasks_.cards());
    });
  tasks_.SetLevel(id, level);
}

/// Of two that are drawn among those that may hold tasks of that lane, the one with the longer queue.
NodeId Queues::DrawVictim(order::LaneId lane) {
  place::Victims& victims = kinds_[lane].victims;
  NodeId found;
  for (int tries = 0; tries < 2 && victims.size() > 0;) {
    const size_t at = victims.size() == 1 ? 0 : victim_draws_.Below(static_cast<uint32_t>(victims.size()));
    const NodeId node = victims[at];
    if (!of_node(node).HasLive(lane)) {
      victims.Drop(at);
      continue;
    }
    ++tries;
    if (!found || of_node(node).live() > of_node(found).live()) found = node;
    if (victims.size() == 1) break;
  }
  return found;
}

/// From the victim drawn for the first lane that fits; where some are more urgent, for the lane whose victim
/// has the most urgent one.
order::Pick Queues::Steal(NodeId thief, const order::Room& room, NodeId* from) {
  NodeId victim;
  order::Urgency urgency = 0;
  for (size_t i = 0; i < kinds_.size(); ++i) {
    const auto lane = static_cast<order::LaneId>(i);
    if (kinds_[i].ready == 0 || kinds_[i].victims.size() == 0 || !room.Possible(lane) || !room.Fits(lane))
      continue;
    if (victim && !tasks_.has_urgencies()) break;
    const NodeId drawn = DrawVictim(lane);
    if (!drawn || drawn == thief) continue;
    const order::Urgency most = of_node(drawn).MostUrgent(lane);
    if (victim && most <= urgency) continue;
    victim = drawn;
    urgency = most;
  }
  if (!victim) return {};
  if (from != nullptr) *from = victim;
  return {TakeFromNode(victim, room).task, order::kNoLane};
}

const order::ReadyQueue& Queues::QueueOf(TaskId id) const {
  const Task& task = tasks_[id];
  const std::span<const NodeId> candidates = tasks_.candidates(task);
  return lanes_.gang(task.lane()) ? gangs_ : candidates.empty() ? remote_ : of_node(candidates.front());
}

bool Queues::Reachable(order::LaneId lane, NodeId node) const {
  if (lanes_.barred(lane) || ready(lane) == 0) return false;
  return steal_ || remote_.HasLive(lane) || (node && of_node(node).HasLive(lane));
}

void Queues::ForgetPushed() {
  for (order::LaneId lane : pushed_) kinds_[lane].pushed = false;
  pushed_.clear();
}

size_t Queues::memory() const {
  size_t bytes = remote_.memory() + gangs_.memory() + of_node_.capacity() * sizeof(order::ReadyQueue);
  for (const order::ReadyQueue& queue : of_node_) bytes += queue.memory();
  for (const Kind& kind : kinds_) bytes += sizeof(kind) + kind.victims.memory();
  return bytes;
}

std::string Queues::FindBroken() const {
  std::vector<uint64_t> ready(kinds_.size()), at_node(of_node_.size());
  uint64_t remote = 0, gangs = 0, apart = 0;
  for (uint32_t n = 0; n < tasks_.size(); ++n) {
    const Task& task = tasks_[TaskId(n)];
    if (task.state() != TaskState::kReady) continue;
    ++ready[task.lane()];
    const std::span<const NodeId> candidates = tasks_.candidates(task);
    for (NodeId node : candidates) ++at_node[node.value];
    const bool gang = lanes_.gang(task.lane());
    (!gang ? remote : IsApart(TaskId(n)) ? apart : gangs) += candidates.empty() ? 1 : 0;
  }
  if (apart != apart_.size())
    return StrCat(apart_.size(), " gangs stand apart, ", apart, " of them are ready");
  for (size_t lane = 0; lane < kinds_.size(); ++lane) {
    if (ready[lane] != kinds_[lane].ready) return StrCat("lane ", lane, ": ready tasks");
  }
  const auto broken = [this](const order::ReadyQueue& queue, uint64_t live) {
    return queue.live() != live ? StrCat(live, " queued, said ", queue.live())
                                : queue.FindBroken(tasks_.cards());
  };
  for (size_t n = 0; n < of_node_.size(); ++n) {
    if (const std::string what = broken(of_node_[n], at_node[n]); !what.empty())
      return StrCat("queue of node ", n, ": ", what);
  }
  if (const std::string what = broken(remote_, remote); !what.empty()) return "remote queue: " + what;
  const std::string what = broken(gangs_, gangs);
  return what.empty() ? "" : "queue of gangs: " + what;
}

}  // namespace harrow::core
