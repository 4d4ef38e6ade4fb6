// Which tasks go to another server. The order of a queue is decided when a task is taken, so which come last
// is known only roughly: the least urgent; under hrf those of the lowest level; the newest where
// the oldest go first (fifo, and hrf within a level), else the oldest. Tasks that no node has inputs of go
// before those that stand in a node's queue.
//
// Tasks with a bound are to be looked at best bound first by all servers together (branch and bound): of them every n-th in
// the order goes, so that no server is left with those that a better value will prune. With the last ones of RD05-03
// (contrib/examples/bmi) four allocations looked at half as many boxes again as one.

#include "core/movable.h"

#include <algorithm>
#include <tuple>

namespace harrow::core {
namespace {

Shape ShapeOf(const order::Lane& lane) {
  return {lane.cores, lane.devices, lane.nodes, lane.whole_node, lane.memory};
}

uint32_t WorkersOn(const order::Lane& lane, const NodeCapacity& has) {
  if (!order::Room::FitsCapacity(lane, has) || has.slots == 0) return 0;
  if (lane.whole_node) return 1;
  uint64_t workers = has.slots / std::max(1u, lane.cores);
  if (lane.devices > 0) workers = std::min<uint64_t>(workers, has.devices / lane.devices);
  if (lane.memory > 0 && has.memory > 0) workers = std::min(workers, has.memory / lane.memory);
  return static_cast<uint32_t>(workers);
}

}  // namespace

std::vector<ShapeQueue> QueuesByShape(const Parts& parts) {
  std::vector<ShapeQueue> queues;
  std::vector<size_t> of_lane(parts.lanes.size(), SIZE_MAX);
  for (order::LaneId id = 0; id < parts.lanes.size(); ++id) {
    const order::Lane& lane = parts.lanes[id];
    if (lane.nodes > 1) continue;
    const Shape shape = ShapeOf(lane);
    auto known = std::find_if(queues.begin(), queues.end(),
                              [&](const ShapeQueue& queue) { return queue.shape == shape; });
    if (known == queues.end()) {
      known = queues.insert(queues.end(), {shape, 0, 0, 0});
      for (uint32_t n = 0; n < parts.nodes.size(); ++n) {
        const Node& node = parts.nodes[NodeId(n)];
        if (node.open()) known->workers += WorkersOn(lane, node.total());
      }
    }
    known->ready += parts.queues.ready(id);
    of_lane[id] = static_cast<size_t>(known - queues.begin());
  }
  for (uint32_t n = 0; n < parts.nodes.size(); ++n) {
    for (const TaskId id : parts.nodes[NodeId(n)].in_flight()) {
      if (const size_t queue = of_lane[parts.tasks[id].lane()]; queue < queues.size())
        ++queues[queue].in_flight;
    }
  }
  return queues;
}

std::vector<Checkpointer> Checkpointers(const Parts& parts) {
  std::vector<Checkpointer> found;
  for (const TaskId id : parts.checkpoints.out()) {
    const order::Lane& lane = parts.lanes[parts.tasks[id].lane()];
    if (parts.tasks.state(id) != TaskState::kRunning || lane.nodes > 1 || parts.checkpoints.wanted(id) || parts.checkpoints.asked(id)) continue;
    found.push_back({id, ShapeOf(lane), parts.checkpoints.Takes(parts.graph.profile_id(id), parts.graph.profile(id).checkpoint.time)});
  }
  std::sort(found.begin(), found.end(), [](const Checkpointer& a, const Checkpointer& b) { return a.task < b.task; });
  return found;
}

std::vector<ReadyKind> ReadyKinds(const Parts& parts) {
  std::vector<ReadyKind> kinds;
  for (order::LaneId id = 0; id < parts.lanes.size(); ++id) {
    if (const uint64_t ready = parts.queues.ready(id); ready > 0)
      kinds.push_back({ShapeOf(parts.lanes[id]), parts.lanes[id].time_limit, ready});
  }
  return kinds;
}

std::vector<TaskId> LastInOrder(const Parts& parts, const Shape& shape, uint64_t count, uint64_t keep) {
  const order::Cards cards = parts.tasks.cards();
  std::vector<TaskId> ready;
  const auto add = [&](const order::ReadyQueue& queue) {
    for (const TaskId id : queue.Tasks(cards)) {
      const order::Lane& lane = parts.lanes[cards[id].lane];
      if (lane.nodes == 1 && ShapeOf(lane) == shape && !parts.graph.has_streams(id)) ready.push_back(id);
    }
  };
  add(parts.queues.remote());
  for (uint32_t n = 0; n < parts.nodes.size(); ++n) {
    if (parts.queues.of_node(NodeId(n)).live() > 0) add(parts.queues.of_node(NodeId(n)));
  }
  std::sort(ready.begin(), ready.end());
  ready.erase(std::unique(ready.begin(), ready.end()), ready.end());
  if (ready.size() <= keep || count == 0) return {};
  count = std::min<uint64_t>(count, ready.size() - keep);
  const order::Policy policy = parts.options.policy;
  const bool by_level = policy == order::Policy::kHrf;
  const bool oldest_first = by_level || policy == order::Policy::kFifo;
  // Whether a is taken before b.
  const auto before = [&](TaskId a, TaskId b) {
    const order::Card &of_a = cards[a], &of_b = cards[b];
    const auto first = [&](TaskId id, const order::Card& card) {
      return std::tuple(-cards.urgency(id), parts.tasks.candidates(id).empty(),
                        by_level ? -int64_t{card.level} : 0);
    };
    const auto key_a = first(a, of_a), key_b = first(b, of_b);
    if (key_a != key_b) return key_a < key_b;
    if (of_a.ticket == of_b.ticket) return a < b;
    return order::Older(of_a.ticket, of_b.ticket) == oldest_first;
  };
  if (std::any_of(ready.begin(), ready.end(), [&](TaskId id) { return parts.graph.bound(id) != graph::kNoBound; })) {
    std::sort(ready.begin(), ready.end(), before);
    std::vector<TaskId> some;
    const uint64_t of = ready.size() - keep;
    for (uint64_t i = 0; i < count; ++i) some.push_back(ready[keep + (2 * i + 1) * of / (2 * count)]);
    return some;
  }
  const auto last = ready.end() - static_cast<std::ptrdiff_t>(count);
  std::nth_element(ready.begin(), last, ready.end(), before);
  ready.erase(ready.begin(), last);
  std::sort(ready.begin(), ready.end(), before);
  return ready;
}

cost::Placer::Standing StandingOf(const Parts& parts, TaskId id) {
  using State = cost::Placer::State;
  const Task& task = parts.tasks[id];
  if (task.state() <= TaskState::kReady) return {};
  if (task.in_flight()) return {State::kRunning, task.node(), Seconds(parts.placing.since(id).time_since_epoch())};
  if (task.state() == TaskState::kDone || task.state() == TaskState::kHeld) return {State::kDone, task.node(), 0};
  return {task.state() == TaskState::kElsewhere ? State::kElsewhere : State::kGone, NodeId(), 0};
}

bool MayLeaveWithItsStreams(const Parts& parts, TaskId id) {
  if (!parts.tasks.Has(id) || parts.tasks.state(id) > TaskState::kReady) return false;
  if (!parts.graph.has_streams(id)) return true;
  if (parts.tasks[id].attempts() > 0) return false;
  const auto may = [&](const graph::StreamEnd& end) {
    return parts.graph.streams()[end.second.value].holds.empty() && !parts.streams.kept.contains(end.second);
  };
  const auto read = parts.graph.streams_read(id), written = parts.graph.streams_written(id);
  return std::all_of(read.begin(), read.end(), may) && std::all_of(written.begin(), written.end(), may);
}

std::vector<TaskId> ShareOf(Parts* parts, double part) {
  // Before the first instant, or where it is still to be told of tasks, nothing is known of them.
  if (!parts->placing.on() || parts->tasks.size() < parts->graph.task_count()) return {};
  return parts->placing.Share(
      part, [parts](TaskId id) { return StandingOf(*parts, id); },
      [parts](TaskId id) {
        return parts->lanes[parts->tasks[id].lane()].nodes == 1 && parts->graph.bound(id) == graph::kNoBound &&
               MayLeaveWithItsStreams(*parts, id);
      });
}

}  // namespace harrow::core
