// Streams between tasks. The scheduler says which attempt a reader gets a writer's lines from; agents bring them from
// one to the other by themselves (agent/stream_port.cc). What was said while a node was away, the scheduler says again when it is
// back.

#include <algorithm>

#include "server/driver.h"
#include "wire/attempt_id.h"

namespace harrow::server {

/// What the reader is told of the stream, of that writer (none: that it is open): with its task, or later. What changes in the instant in which
/// its task is sent comes after it, as one that is told of a source twice would read it twice.
pb::StreamSource* RunDriver::SourceFor(AttemptId reader, Node& node, StreamId of, TaskId writer) {
  pb::StreamSource* source = nullptr;
  const auto sent = readers_sent_.find(reader);
  const auto told = [&](const pb::StreamSource& each) {
    return each.stream() == of.value && each.open() == !writer && (!writer || each.writer().task() == writer.value);
  };
  if (sent != readers_sent_.end() && std::none_of(sent->second->source().begin(), sent->second->source().end(), told)) {
    source = sent->second->add_source();
  } else {
    pb::SourceChanged* const changed = nodes_.Outbox(node).add_source();
    wire::SetId(reader, changed->mutable_reader());
    source = changed->mutable_source();
  }
  const graph::Stream& stream = graph_.streams()[of.value];
  source->set_stream(of.value);
  source->set_split(stream.split);
  source->set_records(stream.records);
  return source;
}

void RunDriver::Act(const core::ReadFrom& read) {
  Node* const node = nodes_.Find(read.at);
  if (node == nullptr) return;
  Node* const from = read.from ? nodes_.Find(read.from) : nullptr;
  if (from != nullptr && from != node) BringTogether(*from, *node);
  pb::StreamSource* const source = SourceFor(read.reader, *node, read.stream, read.writer.task);
  wire::SetId(read.writer, source->mutable_writer());
  if (from != nullptr) source->set_node(read.from.value + 1);
  source->set_gone(read.gone);
}

void RunDriver::Act(const core::StreamOpen& open) {
  Node* const node = nodes_.Find(open.at);
  if (node == nullptr) return;
  pb::StreamSource* const source = SourceFor(open.reader, *node, open.stream, TaskId());
  source->set_open(true);
  source->set_over(!open.open);
  source->set_gone(open.yield);
}

std::optional<StreamId> RunDriver::KeepStreams(const Moment& moment, const std::vector<StreamId>& streams) {
  Schedule(moment);  // what has happened is known
  for (const StreamId stream : streams) {
    if (phase_ == Phase::kRunning ? scheduler_.HasEnded(stream) : HadEnded(graph_.streams()[stream.value])) return stream;
  }
  for (const StreamId stream : streams) events_.push_back(core::StreamKept{stream, true});
  return std::nullopt;
}

/// As far as the scheduler, which knows nothing yet, will find (Scheduler::HasEnded).
bool RunDriver::HadEnded(const graph::Stream& stream) const {
  const auto settled = [this](TaskId task) { return fate_anywhere(task) != journal::TaskFate::kOpen; };
  const auto done = [this](TaskId task) { return fate_anywhere(task) == journal::TaskFate::kDone; };
  const auto holds = [&](const graph::StreamHold& hold) { return !hold.task || !settled(hold.task); };
  if (std::any_of(stream.readers.begin(), stream.readers.end(), done)) return true;
  return std::none_of(stream.holds.begin(), stream.holds.end(), holds) &&
         std::all_of(stream.writers.begin(), stream.writers.end(), settled);
}

void RunDriver::LetStreamEnd(StreamId stream) {
  events_.push_back(core::StreamKept{stream, false});
  Wake();
}

void RunDriver::Act(const core::CloseOutput& close) {
  if (Node* const node = nodes_.Find(close.node)) wire::SetId(close.writer, nodes_.Outbox(*node).add_unread());
}

void RunDriver::Act(const core::DropWritten& drop) {
  if (Node* const node = nodes_.Find(drop.node)) wire::SetId(drop.writer, nodes_.Outbox(*node).add_drop_written());
}

/// What the agent holds of attempts that have succeeded.
void RunDriver::TakeWritten(const Node& node, const pb::AgentHello& hello) {
  for (const pb::AttemptId& written : hello.written()) {
    const AttemptId id = wire::IdOf(written);
    if (id.task.value < graph_.task_count()) events_.push_back(core::StreamHeld{id, node.id});
  }
}

/// What an attempt that has ended was given of streams.
void RunDriver::TakeRead(const pb::Attempt& attempt) {
  const AttemptId reader = wire::IdOf(attempt);
  for (const pb::StreamSource& source : attempt.read()) {
    const AttemptId writer = wire::IdOf(source.writer());
    if (writer.task.value < graph_.task_count()) events_.push_back(core::StreamRead{reader, writer});
  }
  if (attempt.read_to_end()) events_.push_back(core::ReadToEnd{reader});
}

}  // namespace harrow::server
