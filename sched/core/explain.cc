#include "core/explain.h"

#include <algorithm>
#include <map>

#include "base/text.h"

namespace harrow::core {
namespace {

constexpr size_t kShown = 20;

std::string_view HowTaken(TakenFrom from, bool reads_files, bool placed) {
  switch (from) {
    case TakenFrom::kNodeQueue:
      return placed ? "it was taken from that node's own queue, where it was placed by what it costs"
                    : "it was taken from that node's own queue, as most of its input lies there";
    case TakenFrom::kRemoteQueue:
      return reads_files ? "it was taken from the remote queue, as no node holds its input"
                         : "it was taken from the queue of all nodes, as it reads no files";
    case TakenFrom::kSteal:
      return "an idle slot there stole it from the queue of a node that holds its input";
    case TakenFrom::kAdopted:
      return "the agent there was running it already";
    case TakenFrom::kGang:
      return "enough nodes had room for it at once";
    case TakenFrom::kMoved:
      return "it was moved there (harrow move)";
    case TakenFrom::kNothing:
      break;
  }
  return "it was assigned there before this server began";
}

std::string ShapeText(const order::Lane& lane) {
  std::string text;
  if (lane.whole_node) text += lane.nodes > 1 ? StrCat(lane.nodes, " whole nodes of ") : "a whole node of ";
  text += StrCat(lane.cores, lane.cores == 1 ? " core" : " cores");
  if (lane.devices > 0) text += StrCat(", ", lane.devices, lane.devices == 1 ? " device" : " devices");
  if (lane.memory > 0) text += StrCat(", ", FormatBytes(lane.memory));
  if (lane.nodes > 1 && !lane.whole_node) text += StrCat(" on each of ", lane.nodes, " nodes");
  return text;
}

/// Of a gang that is ready: what it waits for, and which nodes keep room for it.
std::string GatheringText(const Parts& parts, TaskId id) {
  const order::Lane& lane = parts.lanes[parts.tasks[id].lane()];
  std::string text;
  if (parts.graph.profile(id).shape.nodes <= 1)
    text += StrCat(" No node is large enough for all of its ", parts.graph.profile(id).ranks, " ranks.");
  const Gangs::Gathered* const gang = parts.gangs.Find(id);
  if (gang == nullptr) {
    return StrCat(text, " It waits until ", lane.nodes,
                  lane.whole_node ? " nodes are idle" : " nodes have room for it", " at once.");
  }
  if (gang->nodes.empty()) return text + " Nodes that can keep room for it are sought.";
  const auto ready = std::count_if(gang->nodes.begin(), gang->nodes.end(), [&](NodeId node) {
    return order::Room::FitsFree(lane, parts.nodes[node].total(), parts.nodes[node].left());
  });
  text += StrCat(" Room is kept for it on its ", lane.nodes, " candidate nodes; ", ready,
                 ready == 1 ? " of them has it" : " of them have it");
  return text + (ready < static_cast<ptrdiff_t>(lane.nodes) ? ", the others when what runs there has ended."
                                                            : ", and others that wait for these come first.");
}

std::string Tried(const Task& task) {
  if (task.attempts() == 0) return {};
  return StrCat(" It has been tried ",
                task.attempts() == 1 ? std::string("once") : StrCat(task.attempts(), " times"), " already.");
}

/// Ready tasks that its order puts before it in its queue, or in the first of them.
uint32_t CountBefore(const Parts& parts, TaskId id) {
  const Task& task = parts.tasks[id];
  const order::Cards cards = parts.tasks.cards();
  const order::Order& order = parts.queues.order();
  if (parts.queues.IsApart(id)) return 0;
  uint32_t before = parts.IsGang(id) ? static_cast<uint32_t>(parts.queues.apart().size()) : 0;
  for (TaskId other : parts.queues.QueueOf(id).Tasks(cards)) {
    const order::Card& o = parts.tasks[other].card();
    if (other == id) continue;
    const bool older = order::Older(o.ticket, task.card().ticket);
    const bool newest_first = order.NewcomerFirst(0, 0);
    const bool same_level = !order.by_level() || o.level == task.level();
    const order::Urgency mine = cards.urgency(id), others = cards.urgency(other);
    before += same_level && mine != others ? others > mine
              : newest_first               ? !older
              : same_level                 ? older
                                           : o.level > task.level();
  }
  return before;
}

void ExplainReady(const Parts& parts, TaskId id, Explanation* out) {
  const Task& task = parts.tasks[id];
  const order::Lane& lane = parts.lanes[task.lane()];
  uint32_t fitting = 0;
  for (uint32_t n = 0; n < parts.nodes.size(); ++n)
    fitting += parts.lanes.FitsOpen(task.lane(), parts.nodes[NodeId(n)]) ? 1 : 0;
  if (parts.nodes.open_nodes() == 0) {
    out->text = "It is ready; no node is there to run it.";
  } else if (fitting == 0) {
    out->text = StrCat("It is ready, but asks for ", ShapeText(lane), ", which no node here has.");
  } else if (fitting < lane.nodes) {
    out->text = StrCat("It is ready, but asks for ", ShapeText(lane), "; ", fitting,
                       fitting == 1 ? " such node is" : " such nodes are", " here.");
  } else if (parts.lanes.barred(task.lane())) {
    out->text = parts.graph.profile(id).checkpoint.on()
                    ? "It is ready, but until the allocation ends it could not get far enough for a checkpoint (twice its checkpoint_time)."
                    : "It is ready, but its time limit does not fit before the allocation ends.";
  } else {
    if (parts.IsGang(id)) {
      out->text = "It is ready, in the queue of tasks of several nodes; ";
    } else if (!out->candidates.empty() && parts.placing.on()) {
      out->text = "It is ready, in the queue of the node where it is placed by what it costs; ";
    } else if (!out->candidates.empty()) {
      out->text = StrCat("It is ready, in the ",
                         out->candidates.size() == 1 ? "queue of the node" : "queues of the nodes",
                         " with at least half of the largest share of its input; ");
    } else {
      const bool reads_files = !parts.graph.inputs(id).empty();
      out->text = !parts.options.locality ? "It is ready, in the one queue of all nodes; "
                  : reads_files           ? "It is ready, in the remote queue (no node holds its input); "
                                          : "It is ready, in the queue of all nodes; ";
    }
    const uint32_t before = out->ahead_in_queue;
    out->text += before == 0
                     ? "none comes before it there."
                     : StrCat("about ", before, before == 1 ? " task comes" : " tasks come", " first there.");
    if (parts.full()) {
      const uint32_t most = parts.options.max_running;
      out->text += StrCat(" At most ", most, most == 1 ? " task runs" : " tasks run", " at once.");
    }
    if (!lane.plain()) out->text += StrCat(" It asks for ", ShapeText(lane), ".");
    if (parts.IsGang(id)) {
      out->text += GatheringText(parts, id);
    } else if (parts.holds.holders(task.lane()) > 0) {
      out->text += " A node keeps what gets free for tasks of its shape.";
    }
    if (!parts.IsGang(id) && parts.gangs.keeps())
      out->text += " Some nodes keep room for tasks of several nodes.";
    if (!parts.IsGang(id) && !parts.options.steal && !out->candidates.empty())
      out->text += " Stealing is off: no other node takes it.";
  }
  out->text += Tried(task);
}

/// `needed` tasks that have to be done, `begins` that have to begin, `ends` others that only have to end.
std::string WaitsText(size_t needed, size_t begins, size_t ends) {
  std::string text = "It waits for ";
  if (needed > 0) text += StrCat(needed, needed == 1 ? " task" : " tasks", " that it needs");
  if (begins > 0)
    text += StrCat(needed > 0 ? ", and for " : "", begins, begins == 1 ? " task" : " tasks", " whose streams it reads to begin");
  if (ends > 0) {
    text += StrCat(needed + begins > 0 ? ", and for the end of " : "the end of ", ends, ends == 1 ? " task" : " tasks",
                   ", whatever becomes of ", ends == 1 ? "it" : "them");
  }
  return text + ".";
}

/// Which of the streams that it reads is held open, and by whom; nothing: none is.
std::string OpenStreamText(const Parts& parts, TaskId id) {
  for (const auto& [_, stream] : parts.graph.streams_read(id)) {
    if (!parts.streams.open.contains(stream)) continue;
    std::string by;
    for (const graph::StreamHold& hold : parts.graph.streams()[stream.value].holds) {
      if (hold.task && !IsSettled(parts.tasks.state(hold.task))) by = StrCat(" by task ", Printable(parts.graph.TaskName(hold.task)));
    }
    return StrCat("Stream ", Printable(parts.graph.streams()[stream.value].name), " is held open", by, ".");
  }
  return {};
}

std::string WaitsForStreamText(const Parts& parts, TaskId id) {
  const auto reader = parts.streams.readers.find(id);
  const bool yields = reader != parts.streams.readers.end() && reader->second.yields;
  return StrCat(yields ? "It has left its slot to others, and begins when none of them wants it. "
                       : "It waits for a task that writes what it reads. ",
                OpenStreamText(parts, id));
}

/// The task for which one was skipped: up the graph, over others that were skipped.
std::string WhatWentWrong(const Parts& parts, TaskId id) {
  for (TaskId at = id; at;) {
    TaskId next;
    for (TaskId before : parts.graph.predecessors(at)) {
      if (parts.graph.OnlyWaits(before, at)) continue;
      const TaskState state = parts.tasks.state(before);
      if (state == TaskState::kFailed || state == TaskState::kCancelled) {
        return StrCat("it needs ", ShellQuote(Printable(parts.graph.TaskName(before), 60)),
                      state == TaskState::kFailed ? ", which failed" : ", which was cancelled");
      }
      if (state == TaskState::kSkipped && !next) next = before;
    }
    at = next;
  }
  return "something it needs is not done";
}

/// In flight, done or failed.
void ExplainPlace(const Parts& parts, TaskId id, Explanation* out) {
  const Task& task = parts.tasks[id];
  const bool failed = task.state() == TaskState::kFailed;
  if (!task.node()) {
    out->text =
        failed && parts.lanes.impossible(task.lane())
            ? StrCat("It failed: it asks for ", ShapeText(parts.lanes[task.lane()]),
                     parts.IsGang(id) ? ", which too few nodes can give." : ", which no node can give.")
        : failed ? "It failed in an earlier run."
                 : "It was done before.";
    return;
  }
  out->text = StrCat(task.ahead()                          ? "It was sent ahead of a free slot to its node"
                     : task.state() == TaskState::kRunning ? "It runs"
                     : task.in_flight()                    ? "It was sent to its node"
                     : failed                              ? "It failed"
                                                           : "It ran",
                     "; ", HowTaken(task.taken_from(), !parts.graph.inputs(id).empty(), parts.placing.on()), ".");
  const place::InputBytes bytes = parts.replicas.BytesAt(id, task.node());
  if (bytes.local + bytes.remote > 0 && task.in_flight()) {
    out->text +=
        StrCat(" ", FormatBytes(static_cast<uint64_t>(bytes.local)), " of ",
               FormatBytes(static_cast<uint64_t>(bytes.local + bytes.remote)), " of its input lie there.");
  }
  if (task.attempts() > 1) {
    out->text += StrCat(task.in_flight() ? " This is attempt " : " That was attempt ", task.attempts(), ".");
  }
  if (task.losses() > 0)
    out->text += StrCat(" ", task.losses(), task.losses() == 1 ? " was" : " were", " lost with the node.");
  if (task.recalled()) out->text += " It has been asked back.";
  if (parts.checkpoints.asked(id)) out->text += " It has been asked for a checkpoint, from which it goes on elsewhere.";
}

/// Whose bytes decided, or would decide, where it runs.
void ExplainInput(const Parts& parts, TaskId id, Explanation* out) {
  constexpr size_t kNodes = 10;
  std::map<NodeId, int64_t> at;
  for (FileId input : parts.graph.inputs(id)) {
    const int64_t bytes = parts.replicas.size(input);
    if (bytes <= 0) continue;
    for (NodeId node : parts.replicas.Holders(parts.replicas.Held(input))) at[node] += bytes;
  }
  out->input_at.assign(at.begin(), at.end());
  std::stable_sort(out->input_at.begin(), out->input_at.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  out->input_at.resize(std::min(kNodes, out->input_at.size()));
}

}  // namespace

Explanation Explain(const Parts& parts, TaskId id) {
  Explanation out;
  if (!parts.tasks.Has(id)) {
    out.text = "It is not known to the scheduler yet.";
    return out;
  }
  const Task& task = parts.tasks[id];
  out.state = task.state();
  out.node = task.node();
  out.taken_from = task.taken_from();
  size_t unfinished = 0, ends = 0, begins = 0;
  for (TaskId before : parts.graph.predecessors(id)) {
    if (!parts.tasks.KeepsWaiting(parts.graph, before, id)) continue;
    ++unfinished;
    ends += parts.graph.OnlyWaits(before, id) ? 1 : 0;
    begins += parts.graph.StartSuffices(before, id) ? 1 : 0;
    if (out.waits_for.size() < kShown) out.waits_for.push_back(before);
  }
  const std::span<const NodeId> candidates = parts.tasks.candidates(task);
  out.candidates.assign(candidates.begin(), candidates.end());
  if (const Gangs::Gathered* gang = parts.gangs.Find(id)) out.candidates = gang->nodes;

  if (!task.settled()) ExplainInput(parts, id, &out);
  switch (out.state) {
    case TaskState::kDelayed:
      out.text = StrCat(parts.verdicts.Has(id)
                            ? "It has failed, and what else runs on its node shows soon whether that is to blame."
                        : task.losses() > 0 && parts.tasks.failures(id) == 0
                            ? "It waits some seconds before it is tried again, as attempts were lost."
                            : "It waits before it is tried again (retry_delay).",
                        Tried(task));
      break;
    case TaskState::kWaiting:
      out.text = StrCat(parts.tasks.asking(id) ? "What it made is lost, and is looked for in other allocations before it is made again."
                        : parts.tasks.kept_waiting(id) && unfinished == 0 ? WaitsForStreamText(parts, id)
                                                                          : WaitsText(unfinished - ends - begins, begins, ends),
                        Tried(task));
      break;
    case TaskState::kReady:
      out.ahead_in_queue = CountBefore(parts, id);
      ExplainReady(parts, id, &out);
      break;
    case TaskState::kHeld:
      out.text = "It has succeeded, and is done when the tasks whose streams it read are.";
      if (const std::string open = OpenStreamText(parts, id); !open.empty()) out.text += StrCat(" ", open);
      if (std::any_of(parts.graph.streams_read(id).begin(), parts.graph.streams_read(id).end(),
                      [&](const auto& end) { return parts.graph.streams()[end.second.value].split; }))
        out.text += " Those that share a stream are done together.";
      break;
    case TaskState::kElsewhere:
      out.text = "The server of another allocation has it.";
      break;
    case TaskState::kAhead:
    case TaskState::kAheadRecalled:
    case TaskState::kSent:
    case TaskState::kRecalled:
    case TaskState::kRunning:
    case TaskState::kDone:
    case TaskState::kFailed:
      ExplainPlace(parts, id, &out);
      if (task.settled()) break;
      if (const std::string open = OpenStreamText(parts, id); !open.empty()) out.text += StrCat(" ", open);
      break;
    case TaskState::kSkipped:
      if (unfinished > 0) {
        out.text = StrCat("It was skipped: ", WhatWentWrong(parts, id), ".");
        out.waits_for.clear();
      } else if (parts.lanes.barred(task.lane())) {
        out.text = "It was skipped: its time limit does not fit before the allocation ends.";
      } else if (task.attempts() > 0) {
        out.text =
            "It was begun, and ended with the allocation or not tried again, as the run starts nothing more.";
      } else {
        out.text = "It was skipped: the run starts nothing more.";
      }
      break;
    case TaskState::kCancelled:
      out.text = "It was cancelled.";
      break;
    case TaskState::kPruned:
      out.text = parts.bounds.Pointless(parts.graph.bound(id))
                     ? StrCat("It was pruned: its bound is ", parts.graph.bound(id), ", and a value of ", *parts.bounds.best(),
                              " is known.")
                     : "It was pruned: what it needs was.";
      out.waits_for.clear();
      break;
  }
  return out;
}

}  // namespace harrow::core
