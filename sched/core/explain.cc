// Why a task waits, and why it ran where it did.

#include <algorithm>

#include "base/text.h"
#include "core/impl.h"

namespace harrow::core {
namespace {

constexpr size_t kShown = 20;

std::string_view HowTaken(TakenFrom from) {
  switch (from) {
    case TakenFrom::kNodeQueue: return "it was taken from that node's own queue, as most of its input lies there";
    case TakenFrom::kRemoteQueue: return "it was taken from the remote queue, as no node holds its input";
    case TakenFrom::kSteal: return "an idle slot there stole it from the queue of a node that holds its input";
    case TakenFrom::kAdopted: return "the agent there was running it already";
    case TakenFrom::kGang: return "enough nodes were idle, or had been kept for it";
    case TakenFrom::kNothing: break;
  }
  return "it was assigned there before this server began";
}

std::string ShapeText(const order::Lane& lane) {
  std::string text;
  if (lane.nodes > 1) text += StrCat(lane.nodes, " whole nodes of ");
  if (lane.nodes == 1 && lane.whole_node) text += "a whole node of ";
  text += StrCat(lane.cores, lane.cores == 1 ? " core" : " cores");
  if (lane.gpus > 0) text += StrCat(", ", lane.gpus, lane.gpus == 1 ? " device" : " devices");
  if (lane.memory > 0) text += StrCat(", ", FormatBytes(lane.memory));
  return text;
}

}  // namespace

Explanation Scheduler::Impl::Explain(TaskId id) const {
  Explanation out;
  if (id.value >= tasks.size()) {
    out.text = "It is not known to the scheduler yet.";
    return out;
  }
  const Task& task = tasks[id.value];
  const order::Lane& lane = lanes[task.card.lane];
  out.state = task.state();
  out.node = task.node;
  out.taken_from = task.taken_from();
  size_t unfinished = 0;
  for (TaskId before : graph.predecessors(id)) {
    if (before.value < tasks.size() && tasks[before.value].state() == TaskState::kDone) continue;
    ++unfinished;
    if (out.waits_for.size() < kShown) out.waits_for.push_back(before);
  }
  const auto [candidate, count] = CandidatesOf(task);
  for (uint32_t i = 0; i < count; ++i) out.candidates.emplace_back(candidate[i]);

  switch (out.state) {
    case TaskState::kWaiting:
      out.text = StrCat("It waits for ", unfinished, unfinished == 1 ? " task" : " tasks", " that it needs.");
      break;
    case TaskState::kReady: {
      const order::ReadyQueue& queue = lane.nodes > 1 ? gangs : count > 0 ? nodes[candidate[0]].queue : remote;
      for (TaskId other : queue.Tasks(cards())) {
        const Task& o = tasks[other.value];
        if (other == id) continue;
        const bool same_level = !order->by_level() || o.card.level == task.card.level;
        const bool older = order::Older(o.card.ticket, task.card.ticket);
        const bool newest_first = order->NewcomerFirst(0, 0);
        const bool before = newest_first ? !older : same_level ? older : o.card.level > task.card.level;
        if (before) ++out.ahead_in_queue;
      }
      if (count > 0) {
        out.text = StrCat("It is ready, in the queues of ", count, count == 1 ? " node" : " nodes",
                          " with at least half of the largest share of its input; about ", out.ahead_in_queue,
                          " tasks come first there.");
      } else {
        out.text = StrCat("It is ready, in the remote queue (no node holds its input); about ", out.ahead_in_queue,
                          " tasks come first.");
      }
      bool possible = false;
      for (const Node& node : nodes) {
        possible |= node.access == Node::Access::kOpen && order::Room::FitsCapacity(lane, node.total);
      }
      if (open_nodes == 0) {
        out.text = "It is ready; no node is there to run it.";
      } else if (!possible) {
        out.text = StrCat("It is ready, but asks for ", ShapeText(lane), ", which no node here has.");
      } else if (lanes.closed(task.card.lane)) {
        out.text = "It is ready, but its time limit does not fit before the allocation ends.";
      } else if (gathering == id) {
        out.text += gang_held.empty() ? " It waits for idle nodes." : " Nodes are being kept free for it.";
      } else if (lane_states[task.card.lane].holders > 0) {
        out.text += " A node keeps what gets free for tasks of its shape.";
      }
      break;
    }
    case TaskState::kSent:
    case TaskState::kRecalled:
    case TaskState::kRunning:
    case TaskState::kDone:
    case TaskState::kFailed: {
      const bool there = out.state == TaskState::kRunning;
      if (!task.node) {
        out.text = out.state == TaskState::kDone ? "It was done before." : "It never began.";
        break;
      }
      const place::InputBytes bytes = replicas.BytesAt(id, task.node);
      out.text = StrCat(task.has(Task::kAhead) ? "It was sent ahead of a free slot to its node"
                        : there                ? "It runs"
                        : task.in_flight()     ? "It was sent to its node"
                                               : "It ran",
                        "; ", HowTaken(out.taken_from), ".");
      if (bytes.local + bytes.remote > 0 && task.in_flight()) {
        out.text += StrCat(" ", FormatBytes(static_cast<uint64_t>(bytes.local)), " of ",
                           FormatBytes(static_cast<uint64_t>(bytes.local + bytes.remote)), " of its input lie there.");
      }
      if (task.attempts > 1) out.text += StrCat(" This is attempt ", uint32_t{task.attempts}, ".");
      if (task.losses > 0) out.text += StrCat(" ", uint32_t{task.losses}, " were lost with their node.");
      if (out.state == TaskState::kRecalled) out.text += " It has been asked back.";
      break;
    }
    case TaskState::kSkipped:
      out.text = unfinished > 0 ? "It was skipped: something it needs is not done." : "It was skipped: the run starts nothing more.";
      break;
    case TaskState::kCancelled: out.text = "It was cancelled."; break;
  }
  return out;
}

}  // namespace harrow::core
