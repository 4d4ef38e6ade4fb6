// Streams between tasks. The scheduler says which attempt a reader gets a writer's lines from; agents bring them from
// one to the other by themselves (agent/stream_port.cc). What was said while a node was away, the scheduler says again when it is
// back.

#include "server/driver.h"
#include "wire/attempt_id.h"

namespace harrow::server {

void RunDriver::Act(const core::ReadFrom& read) {
  Node* const node = nodes_.Find(read.at);
  if (node == nullptr) return;
  Node* const from = read.from ? nodes_.Find(read.from) : nullptr;
  if (from != nullptr && from != node) BringTogether(*from, *node);
  pb::StreamSource* source = nullptr;
  if (const auto sent = readers_sent_.find(read.reader); sent != readers_sent_.end()) {
    source = sent->second->add_source();
  } else {
    pb::SourceChanged* const changed = nodes_.Outbox(*node).add_source();
    wire::SetId(read.reader, changed->mutable_reader());
    source = changed->mutable_source();
  }
  const graph::Stream& stream = graph_.streams()[read.stream.value];
  source->set_stream(read.stream.value);
  wire::SetId(read.writer, source->mutable_writer());
  if (from != nullptr) source->set_node(read.from.value + 1);
  source->set_split(stream.split);
  source->set_records(stream.records);
  source->set_gone(read.gone);
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
}

}  // namespace harrow::server
