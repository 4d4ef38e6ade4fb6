// Streams that somebody holds open.
//
// A stream does not end as long as it is held (graph::StreamHold), by a task that has not ended for good or until it is released: its
// readers are told so in place of a writer, get no end of file, and are not done. So further tasks can be connected, and what was
// written stays on its node for those that may yet read it.
//
// A writer that is connected while readers run is told to them like any other. An agent may have told a reader that nothing more
// comes before it hears of that: when such a reader succeeds, the new writer is not among what it read, and it begins anew
// (WorthOf). What is being connected is kept from ending meanwhile (StreamKept), without a word to readers.
//
// No order of starts locks up. A reader of an open stream holds a slot that the tasks may need that are to be connected, or to end
// before the stream does. So where some task waits for a slot, and everything that runs waits for open streams, directly or by what
// it reads, or holds them open, these readers begin anew. They yield: from then on they are started only when no other task
// waits for a slot, and no one else has to give up a slot for them. So each such restart lets another task begin first.

#include <algorithm>

#include "core/streaming.h"

namespace harrow::core {

bool Streaming::IsHeld(StreamId stream) const {
  const std::vector<graph::StreamHold>& all = graph.streams()[stream.value].holds;
  return std::any_of(all.begin(), all.end(), [this](const graph::StreamHold& hold) {
    if (!hold.task) return !options.nobody_connects;
    const TaskState state = tasks.state(hold.task);
    return !IsSettled(state) && state != TaskState::kHeld;
  });
}

bool Streaming::HasEnded(StreamId id) const {
  const graph::Stream& stream = graph.streams()[id.value];
  // One that makes again what is lost has been done as well.
  const auto was_done = [this](TaskId task) { return tasks.state(task) == TaskState::kDone || tasks.remaking(task); };
  if (std::any_of(stream.readers.begin(), stream.readers.end(), was_done)) return true;
  // Streams do not go from one server to another.
  const auto elsewhere = [this](TaskId task) { return tasks.state(task) == TaskState::kElsewhere; };
  if (std::any_of(stream.readers.begin(), stream.readers.end(), elsewhere) || std::any_of(stream.writers.begin(), stream.writers.end(), elsewhere))
    return true;
  return !IsOpen(id) && std::all_of(stream.writers.begin(), stream.writers.end(),
                                    [this](TaskId writer) { return IsSettled(tasks.state(writer)); });
}

bool Streaming::ReadsOpen(TaskId reader) const {
  const auto read = graph.streams_read(reader);
  return std::any_of(read.begin(), read.end(), [this](const graph::StreamEnd& end) { return IsOpen(end.second); });
}

bool Streaming::WritesOpen(TaskId writer) const {
  const auto written = graph.streams_written(writer);
  return std::any_of(written.begin(), written.end(), [this](const graph::StreamEnd& end) { return IsOpen(end.second); });
}

/// Of one that is at no node.
bool Streaming::WaitsForStreams(TaskId id) const {
  const auto reader = streams.readers.find(id);
  if (reader == streams.readers.end()) return false;
  if (reader->second.yields) return true;
  const auto read = graph.streams_read(id);
  return std::any_of(read.begin(), read.end(), [this](const graph::StreamEnd& end) {
    return graph.streams()[end.second.value].writers.empty() && streams.open.contains(end.second);
  });
}

/// A task that is new: those that read what it writes are told of it.
void Streaming::ConnectNew(TaskId id) {
  EachReader(id, [&](TaskId reader, StreamId stream) {
    if (tasks[reader].in_flight() && streams.readers[reader].told == tasks[reader].attempts()) {
      streams.readers[reader].changed = true;
      // It may go on although it was to end, as it had all of what was lost; now it waits for one more.
      streams.readers[reader].ending = false;
      if (streams.open.contains(stream)) streams.readers[reader].to_come.insert(id);
      Tell(reader, stream, id, false);
    }
    tasks.NoteChanged(reader);
  });
  if (ReadsStreams(id)) tasks.SetKeptWaiting(id, WaitsForStreams(id));
}

void Streaming::NoteKept(const StreamKept& e) {
  if (e.stream.value >= graph.streams().size()) return;
  if (e.kept) {
    ++streams.kept[e.stream];
  } else if (const auto kept = streams.kept.find(e.stream); kept != streams.kept.end() && --kept->second == 0) {
    streams.kept.erase(kept);
    NoteEndsOf(e.stream);
  }
}

void Streaming::LookAtStreams() {
  for (uint32_t n = 0; n < graph.streams().size(); ++n) {
    for (const graph::StreamHold& hold : graph.streams()[n].holds) {
      if (tasks.Has(hold.task)) tasks.Follow(hold.task);
    }
    LookAtStream(StreamId(n));
  }
}

/// What has changed for them is found out with what else has (FollowStreams).
void Streaming::NoteEndsOf(StreamId id) {
  const graph::Stream& stream = graph.streams()[id.value];
  for (const auto* ends : {&stream.writers, &stream.readers}) {
    for (const TaskId end : *ends) {
      if (tasks.Has(end)) tasks.NoteChanged(end);
    }
  }
}

void Streaming::LookAtStream(StreamId id) {
  const bool held = IsHeld(id);
  if (held == streams.open.contains(id)) return;
  if (held) {
    streams.open.insert(id);
  } else {
    streams.open.erase(id);
  }
  for (const TaskId reader : graph.streams()[id.value].readers) {
    if (!tasks.Has(reader)) continue;
    Streams::Reader& known = streams.readers[reader];
    if (!tasks[reader].in_flight() || known.told != tasks[reader].attempts()) {
      if (!ReadsOpen(reader)) known.yields = known.yielded = false, streams.yielded.erase(reader);
      continue;
    }
    TellOpen(reader, id, false);
    if (!held) Starve(reader);
  }
  NoteEndsOf(id);
}

void Streaming::TellOpen(TaskId reader, StreamId stream, bool yield) {
  const bool open = streams.open.contains(stream);
  if (open) {
    streams.open_readers.insert(reader);
  } else if (const auto read = graph.streams_read(reader); std::none_of(
                 read.begin(), read.end(), [this](const auto& end) { return streams.open.contains(end.second); })) {
    streams.open_readers.erase(reader);
    streams.yielded.erase(reader);
    streams.readers[reader].yielded = streams.readers[reader].yields = false;
  }
  // An earlier server may have said that it is.
  if (open || graph.streams()[stream.value].was_held)
    actions->push_back(StreamOpen{tasks.latest(reader), tasks[reader].node(), stream, open, yield && open});
}

/// A stream that it reads is open no more: now it waits for writers that have not begun, as others do.
void Streaming::Starve(TaskId reader) {
  EachWriter(reader, [&](TaskId writer, StreamId stream) {
    if (streams.writers[writer].node || streams.open.contains(stream)) return;
    streams.readers[reader].to_come.erase(writer);
    streams.readers[reader].awaited.insert(writer);
    streams.starved.insert(reader);
  });
}

bool Streaming::OthersWantSlots() const {
  uint64_t ready = tasks.counts().ready, sent_ahead = ahead.total();
  for (const TaskId id : streams.yielded) {
    ready -= tasks.state(id) == TaskState::kReady;
    sent_ahead -= tasks[id].ahead();
  }
  return ready + sent_ahead > 0;
}

/// Those at nodes that wait for open streams or for writers that are at no node, directly or by others that they read, and those that
/// hold such streams open: none of them may ever end by itself.
std::set<TaskId> Streaming::StuckReaders() const {
  std::set<TaskId> stuck;
  std::vector<TaskId> to_look;
  const auto add = [&](TaskId id) {
    if (tasks.Has(id) && tasks[id].in_flight() && stuck.insert(id).second) to_look.push_back(id);
  };
  for (const TaskId id : streams.open_readers) add(id);
  for (const TaskId id : streams.starved) add(id);
  for (const StreamId id : streams.open) {
    for (const graph::StreamHold& hold : graph.streams()[id.value].holds) add(hold.task);
  }
  while (!to_look.empty()) {
    const TaskId id = to_look.back();
    to_look.pop_back();
    EachReader(id, [&](TaskId reader, StreamId) { add(reader); });
  }
  return stuck;
}

void Streaming::FreeOpenReaders() {
  if (streams.open_readers.empty() || stopped() || !OthersWantSlots()) return;
  const std::set<TaskId> stuck = StuckReaders();
  uint64_t stuck_ahead = 0;
  for (const TaskId id : stuck) stuck_ahead += tasks[id].ahead();
  if (tasks.in_flight() - ahead.total() > stuck.size() - stuck_ahead) return;
  for (const TaskId id : std::vector<TaskId>(streams.open_readers.begin(), streams.open_readers.end())) {
    Streams::Reader& reader = streams.readers[id];
    if (reader.ending || !tasks[id].in_flight()) continue;
    reader.ending = reader.changed = reader.yielded = reader.yields = true;
    streams.yielded.insert(id);
    tasks.SetKeptWaiting(id, true);
    CountWaits(id);
    TellAll(id);
    if (tasks.state(id) != TaskState::kRunning) RecallSent(id);
  }
}

bool Streaming::LetYieldedGoOn() {
  if (streams.yielded.empty() || OthersWantSlots()) return false;
  bool some = false;
  for (const TaskId id : streams.yielded) {
    Streams::Reader& reader = streams.readers[id];
    if (!reader.yields || tasks[id].in_flight()) continue;
    reader.yields = false;
    some = true;
    Recount(id);
  }
  return some;
}

}  // namespace harrow::core
