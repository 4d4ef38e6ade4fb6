// Tasks joined by streams (paper 001; what a writer writes is kept by its node, agent/stream_port.cc).
//
// A reader may begin when all its writers have begun or ended. Writers never wait for readers, as what nobody
// reads yet is kept; readers wait for writers that run. When a writer's attempt ends without success, its
// readers at nodes are told: who has got some of it begins anew (Rewound), who has not waits for the next
// attempt. A reader that has succeeded is held (TaskState::kHeld) until all its writers are done, each by the
// attempt that it has read; it begins anew where another one was. Those that share a split stream are done
// together: were one done before the others, and what these have yet to read lost, its records would come once
// more, to others. What a writer that is done has written stays on its node as long as some reader is not
// settled; where it is lost and a reader is to begin, the writer runs again, as one whose files are lost
// (Fates::RemakeAll).
//
// No order of starts can lock up. A reader at a node all of whose writers run or are done ends when they do;
// a chain of such ends with a writer that reads nothing. One that waits for a writer which is at no node
// ("starved") holds its slot only as long as nobody wants it: FreeStarved lets all such begin anew as soon as
// some task is ready, or sent ahead, and has no slot.
//
// A stream that somebody holds open: open_streams.cc.
//
// What follows from a change of a task's state is found in one place, from the states, whatever has changed
// them (TaskTable::TakeChanged): the end of an attempt, a lost node, a cancel, what was restored.

#include "core/streaming.h"

#include <algorithm>

#include "base/text.h"
#include "core/movable.h"

namespace harrow::core {

void Streaming::AddStreamsOf(TaskId first, TaskId end) {
  if (graph.streams().empty()) return;
  for (uint32_t n = first.value; n < end.value; ++n) {
    const TaskId id(n);
    if (!graph.streams_held(id).empty()) tasks.Follow(id);
    if (!graph.has_streams(id)) continue;
    if (!graph.streams_written(id).empty()) streams.writers[id];
    if (!graph.streams_read(id).empty()) streams.readers[id];
    tasks.Follow(id);
  }
  LookAtStreams();
  for (uint32_t n = first.value; n < end.value; ++n) ConnectNew(TaskId(n));
}

std::set<TaskId> Streaming::CutFromStreams(const std::vector<TaskId>& leave) const {
  std::set<TaskId> cut, looked;
  if (!streams.any()) return cut;
  const std::set<TaskId> all(leave.begin(), leave.end());
  for (const TaskId first : leave) {
    if (!graph.has_streams(first) || !looked.insert(first).second) continue;
    std::vector<TaskId> together = {first};
    bool whole = true;
    for (size_t i = 0; i < together.size(); ++i) {
      whole &= all.contains(together[i]) && MayLeaveWithItsStreams(*this, together[i]);
      const auto add = [&](TaskId id, StreamId) {
        if (looked.insert(id).second) together.push_back(id);
      };
      EachReader(together[i], add);
      EachWriter(together[i], add);
      // Those who write, or read, the same.
      for (const auto& [_, stream] : graph.streams_written(together[i])) {
        for (const TaskId id : graph.streams()[stream.value].writers) add(id, stream);
      }
      for (const auto& [_, stream] : graph.streams_read(together[i])) {
        for (const TaskId id : graph.streams()[stream.value].readers) add(id, stream);
      }
    }
    if (!whole) cut.insert(together.begin(), together.end());
  }
  return cut;
}

void Streaming::NoteHeld(const StreamHeld& e) {
  const TaskId id = e.writer.task;
  if (!tasks.Has(id) || !WritesStreams(id) || !nodes.Joined(e.node)) return;
  Streams::Writer& writer = streams.writers[id];
  // Of one that is not done its end is told, if it has ended.
  if (tasks.state(id) != TaskState::kDone || (writer.held && writer.attempt >= e.writer.number)) return;
  NoteWritten(e.writer, e.node, true);
  DropIfRead(id);
}

void Streaming::NoteWritten(AttemptId attempt, NodeId node, bool whole) {
  Streams::Writer& writer = streams.writers[attempt.task];
  writer.attempt = attempt.number;
  writer.node = whole ? node : NodeId();
  writer.held = whole;
  if (!whole) actions->push_back(DropWritten{attempt, node});
}

void Streaming::LoseWrittenAt(NodeId node) {
  for (auto& [id, writer] : streams.writers) {
    if (!writer.held || writer.node != node) continue;
    writer.held = false;
    writer.node = NodeId();
    TellReaders(id, true);
    // Those that were to begin find out that it is lost.
    EachReader(id, [&](TaskId reader, StreamId) {
      if (tasks.state(reader) != TaskState::kReady) return;
      Unqueue(reader);
      NoteReady(reader, NodeId());
    });
  }
}

void Streaming::TellAgainAt(NodeId node) {
  if (!streams.any()) return;
  for (const TaskId id : nodes[node].in_flight()) {
    if (ReadsStreams(id) && streams.readers[id].told == tasks[id].attempts()) TellAll(id);
    if (!WritesStreams(id)) continue;
    const Streams::Writer& writer = streams.writers[id];
    if (writer.closed != 0 && writer.closed == writer.attempt) actions->push_back(CloseOutput{{id, writer.closed}, node});
  }
}

/// All its readers have ended well, or have ended for good. What nobody is to read would fill the node's disk.
bool Streaming::IsReadByNobody(TaskId writer) const {
  bool some = false, all = true;
  EachReader(writer, [&](TaskId reader, StreamId) {
    some = true;
    const TaskState state = tasks.state(reader);
    all &= state == TaskState::kHeld || IsSettled(state);
  });
  return some && all && !WritesOpen(writer);
}

Streaming::Piped Streaming::AfterSigpipe(AttemptId attempt) const {
  const TaskId id = attempt.task;
  // One that makes files is not ended before it has made them (CloseOutput), so it was its own doing.
  if (!WritesStreams(id) || !graph.outputs(id).empty()) return Piped::kFailed;
  if (IsReadByNobody(id)) return Piped::kDone;
  // A reader begins anew that had ended well when the writer was told so.
  return WasClosed(attempt) ? Piped::kVoid : Piped::kFailed;
}

void Streaming::EndRead(AttemptId attempt) {
  Streams::Reader& reader = streams.readers[attempt.task];
  reader.read.clear();
  for (const auto& [read_by, writer] : streams.told_read) {
    if (read_by == attempt) reader.read.push_back(writer);
  }
  reader.to_end = std::find(streams.told_to_end.begin(), streams.told_to_end.end(), attempt) != streams.told_to_end.end();
  tasks.Hold(attempt.task);
}

/// One that says so although nothing has changed could not get what it reads: that counts as a loss.
void Streaming::AfterRewind(TaskId id) {
  const auto reader = streams.readers.find(id);
  if (reader != streams.readers.end() && !reader->second.changed) {
    AfterLoss(id);
    return;
  }
  BeginAnew(id);
}

/// What it did is void, by no fault of its own.
void Streaming::BeginAnew(TaskId id) {
  tasks.ForgiveFailure(id);
  TryAgain(id);
}

/// Of one that is held. `failed`: which writer has, where that is so.
Streaming::Worth Streaming::WorthOf(TaskId id, TaskId* failed) const {
  const std::vector<AttemptId>& read = streams.readers.at(id).read;
  const bool to_end = streams.readers.at(id).to_end;
  bool all_done = !ReadsOpen(id), void_read = false;
  EachWriter(id, [&](TaskId writer, StreamId) {
    const TaskState state = tasks.state(writer);
    if (IsSettled(state) && state != TaskState::kDone) *failed = writer;
    all_done &= state == TaskState::kDone;
    const auto it = std::find_if(read.begin(), read.end(), [&](const AttemptId& a) { return a.task == writer; });
    if (it == read.end()) {
      void_read |= to_end;  // it was connected too late for that attempt
      return;
    }
    const uint32_t of = streams.writers.at(writer).attempt;
    const bool runs = state == TaskState::kRunning || state == TaskState::kHeld;
    // What is done was so by the attempt that is known, or by one of an earlier server.
    void_read |= state == TaskState::kDone ? of != 0 && of != it->number : !runs || of != it->number;
  });
  if (*failed) return Worth::kNothing;
  if (void_read) return Worth::kVoid;
  return all_done ? Worth::kAll : Worth::kOpen;
}

/// Who reads a split stream has what the others have not, so all that still run, or are to, are done at once, with those that share other
/// streams with them. None: somebody has yet to end.
std::vector<TaskId> Streaming::ThoseDoneWith(TaskId id) const {
  std::vector<TaskId> together = {id};
  std::set<TaskId> seen = {id};
  std::set<StreamId> looked;
  for (size_t i = 0; i < together.size(); ++i) {
    const TaskId at = together[i];
    for (const auto& [_, stream] : graph.streams_read(at)) {
      const graph::Stream& of = graph.streams()[stream.value];
      if (!of.split || !looked.insert(stream).second) continue;
      // Who was waited for the last time comes first, so that many that end one after the other are not all looked at each time.
      size_t& first = streams.waits_for[stream];
      for (size_t k = 0; k < of.readers.size(); ++k) {
        const size_t n = (first + k) % of.readers.size();
        const TaskId reader = of.readers[n];
        const TaskState state = tasks.state(reader);
        if (!tasks.Has(reader) || IsSettled(state) || state == TaskState::kElsewhere || !seen.insert(reader).second) continue;
        TaskId failed;
        if (state != TaskState::kHeld || WorthOf(reader, &failed) != Worth::kAll) {
          first = n;
          return {};
        }
        together.push_back(reader);
      }
    }
  }
  return together;
}

/// It is held: is it done, void, or to be waited for?
void Streaming::MayConclude(TaskId id) {
  if (tasks.state(id) != TaskState::kHeld) return;
  TaskId failed;
  switch (WorthOf(id, &failed)) {
    case Worth::kOpen:
      return;
    case Worth::kNothing:
      return GiveUp(id, TaskState::kSkipped, Reason::kDependency, failed);
    case Worth::kVoid:
      return BeginAnew(id);
    case Worth::kAll:
      break;
  }
  for (const TaskId each : ThoseDoneWith(id)) {
    const NodeId node = tasks[each].node();
    MarkDone(each, nodes.Joined(node) ? node : NodeId());
    actions->push_back(TaskSettled{each, FinalState::kDone, TaskId(), Reason::kNone});
  }
}

/// It has ended for good, and those that share streams with it wait for it no more.
void Streaming::ConcludeSharers(TaskId id) {
  for (const auto& [_, stream] : graph.streams_read(id)) {
    const graph::Stream& of = graph.streams()[stream.value];
    if (!of.split) continue;
    const auto held = std::find_if(of.readers.begin(), of.readers.end(),
                                   [&](TaskId reader) { return tasks.state(reader) == TaskState::kHeld; });
    // One speaks for all.
    if (held != of.readers.end()) MayConclude(*held);
  }
}

void Streaming::FollowStreams() {
  if (!streams.any() && !tasks.any_changed()) return;
  while (tasks.any_changed()) {
    std::vector<TaskId> changed = tasks.TakeChanged();
    std::sort(changed.begin(), changed.end());
    changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
    for (const TaskId id : changed) {
      for (const auto& [_, stream] : graph.streams_held(id)) LookAtStream(stream);
    }
    for (const TaskId id : changed) {
      if (WritesStreams(id)) LookAtWriter(id);
    }
    for (const TaskId id : changed) {
      if (ReadsStreams(id)) LookAtReader(id);
    }
  }
  streams.told_read.clear();
  streams.told_to_end.clear();
}

void Streaming::SettleAll() {
  do {
    FollowStreams();
    SettleDependents();
  } while (tasks.any_changed());
}

void Streaming::LookAtWriter(TaskId id) {
  Streams::Writer& writer = streams.writers[id];
  const TaskState state = tasks.state(id);
  const bool was_held = writer.held;
  if (state == TaskState::kRunning) {
    if (writer.attempt != tasks[id].attempts() || writer.node != tasks[id].node()) {
      writer.attempt = tasks[id].attempts();
      writer.node = tasks[id].node();
      writer.held = false;
    }
  } else if (state != TaskState::kHeld && state != TaskState::kDone) {
    writer.attempt = 0;
    writer.node = NodeId();
    writer.held = false;
  }
  const bool failed = IsSettled(state) && state != TaskState::kDone;
  if (failed || writer.node != writer.told_node || (writer.node && writer.attempt != writer.told))
    TellReaders(id, was_held || IsSettled(state));
  EachReader(id, [&](TaskId reader, StreamId) {
    if (tasks[reader].settled()) return;
    Recount(reader);
    MayConclude(reader);
  });
  CloseIfRead(id);
  DropIfRead(id);
}

/// Those at nodes. `gone`: as ReadFrom has it, where it is at no node.
void Streaming::TellReaders(TaskId id, bool gone) {
  Streams::Writer& writer = streams.writers[id];
  writer.told = writer.attempt;
  writer.told_node = writer.node;
  EachReader(id, [&](TaskId reader, StreamId stream) {
    if (!tasks[reader].in_flight() || streams.readers[reader].told != tasks[reader].attempts()) return;
    streams.readers[reader].changed = true;
    Tell(reader, stream, id, gone);
    // One that has not begun had better not hold a slot.
    if (!writer.node && tasks[reader].state() != TaskState::kRunning) RecallSent(reader);
  });
}

/// What it waits for may have begun, or may have to begin again.
void Streaming::Recount(TaskId id) {
  const TaskState state = tasks.state(id);
  if (state == TaskState::kElsewhere) return CountWaits(id);
  Streams::Reader& reader = streams.readers[id];
  if (reader.waits_for && state == TaskState::kWaiting && tasks[id].waits() > 0 && !IsSettled(tasks.state(reader.waits_for)) &&
      tasks.KeepsWaiting(graph, reader.waits_for, id))
    return;
  tasks.SetKeptWaiting(id, WaitsForStreams(id));
  CountWaits(id);
  // The last of them: it may well begin last.
  reader.waits_for = TaskId();
  const auto before = graph.predecessors(id);
  for (size_t i = before.size(); i-- > 0 && tasks[id].waits() > 0 && !reader.waits_for;) {
    if (graph.StartSuffices(before[i], id) && tasks.KeepsWaiting(graph, before[i], id)) reader.waits_for = before[i];
  }
  if (state > TaskState::kReady) return;
  if (tasks[id].waits() > 0) {
    Unqueue(id);
  } else if (tasks.state(id) == TaskState::kWaiting) {
    NoteReady(id, NodeId());
  }
}

void Streaming::LookAtReader(TaskId id) {
  Streams::Reader& reader = streams.readers[id];
  const Task& task = tasks[id];
  if (task.in_flight()) {
    if (reader.told == task.attempts()) return;
    reader = {.told = task.attempts(), .yielded = reader.yielded};
    TellAll(id);
    return;
  }
  reader.told = 0;
  reader.awaited.clear();
  streams.starved.erase(id);
  streams.open_readers.erase(id);
  if (!task.settled()) Recount(id);
  MayConclude(id);
  if (task.settled() && task.state() != TaskState::kDone) ConcludeSharers(id);
  EachWriter(id, [&](TaskId writer, StreamId) {
    CloseIfRead(writer);
    DropIfRead(writer);
  });
}

void Streaming::Tell(TaskId id, StreamId stream, TaskId of, bool gone) {
  Streams::Reader& reader = streams.readers[id];
  const Streams::Writer& writer = streams.writers[of];
  if (writer.node || gone) reader.to_come.erase(of);
  if (writer.node || reader.to_come.contains(of)) {
    reader.awaited.erase(of);
  } else {
    reader.awaited.insert(of);
  }
  if (reader.awaited.empty()) {
    streams.starved.erase(id);
  } else {
    streams.starved.insert(id);
  }
  actions->push_back(ReadFrom{tasks.latest(id), tasks[id].node(), stream,
                              AttemptId{of, writer.node ? writer.attempt : 0}, writer.node, !writer.node && gone});
}

void Streaming::TellAll(TaskId id) {
  const bool ending = streams.readers[id].ending;
  EachWriter(id, [&](TaskId writer, StreamId stream) {
    const TaskState state = tasks.state(writer);
    Tell(id, stream, writer, ending || IsSettled(state) || state == TaskState::kHeld);
  });
  for (const auto& [_, stream] : graph.streams_read(id)) TellOpen(id, stream, ending);
}

void Streaming::CloseIfRead(TaskId id) {
  Streams::Writer& writer = streams.writers[id];
  if (tasks.state(id) != TaskState::kRunning || writer.attempt == 0 || writer.closed == writer.attempt) return;
  if (!IsReadByNobody(id)) return;
  writer.closed = writer.attempt;
  actions->push_back(CloseOutput{{id, writer.attempt}, writer.node});
}

void Streaming::DropIfRead(TaskId id) {
  Streams::Writer& writer = streams.writers[id];
  if (tasks.state(id) != TaskState::kDone || !writer.held) return;
  bool wanted = false;
  EachReader(id, [&](TaskId reader, StreamId) {
    wanted |= !tasks[reader].settled() && tasks.state(reader) != TaskState::kElsewhere;
  });
  if (wanted || WritesOpen(id)) return;
  writer.held = false;
  if (nodes.Joined(writer.node)) actions->push_back(DropWritten{{id, writer.attempt}, writer.node});
  writer.node = NodeId();
}

void Streaming::RemakeWriters() {
  while (!streams.lost.empty()) {
    const TaskId writer = streams.lost.back();
    streams.lost.pop_back();
    if (streams.writers[writer].held || stopped()) continue;
    if (tasks.state(writer) == TaskState::kDone) {
      RemakeAll(writer);
    } else if (tasks.state(writer) == TaskState::kHeld) {
      BeginAnew(writer);
    }
  }
}

void Streaming::FreeStarved() {
  if (streams.starved.empty() || (tasks.counts().ready == 0 && !ahead.some())) return;
  for (const TaskId id : std::vector<TaskId>(streams.starved.begin(), streams.starved.end())) {
    Streams::Reader& reader = streams.readers[id];
    const auto at_no_node = [&](TaskId writer) {
      const TaskState state = tasks.state(writer);
      return state < TaskState::kRunning && state != TaskState::kSent;
    };
    if (reader.ending || std::none_of(reader.awaited.begin(), reader.awaited.end(), at_no_node)) continue;
    reader.ending = reader.changed = true;
    TellAll(id);
  }
}

std::string Streaming::FindBrokenStreams() const {
  for (const auto& [id, reader] : streams.readers) {
    const auto broken = [n = id.value](const auto&... what) { return StrCat("reader ", n, ": ", what...); };
    const Task& task = tasks[id];
    if (task.in_flight() && reader.told != task.attempts()) return broken("was not told what it reads");
    if (task.state() == TaskState::kHeld) {
      bool waits = false;
      EachWriter(id, [&](TaskId writer, StreamId) { waits |= !tasks[writer].settled(); });
      waits |= ReadsOpen(id);
      if (!waits && !ThoseDoneWith(id).empty()) return broken("is held, and waits for nobody");
    }
    if (task.in_flight() && !reader.ending) {
      bool starved = false;
      EachWriter(id, [&](TaskId writer, StreamId) {
        starved |= tasks.state(writer) < TaskState::kRunning && !reader.to_come.contains(writer);
      });
      if (starved && !streams.starved.contains(id)) return broken("waits for a writer, and nobody knows");
    }
  }
  return {};
}

}  // namespace harrow::core
