#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/event.h"
#include "graph/graph.h"
#include "journal/journal.h"
#include "server/node_table.h"
#include "wire/harrow.pb.h"

// Between the messages of wire/harrow.proto and the values of graph and journal.

namespace harrow::server {

/// What the scheduler is told of a task with that fate.
core::TaskRestored::As RestoredAs(journal::TaskFate fate);

/// What a task left in its sandbox beside its outputs, and what became of it, with names of 10 at most. Empty: it left nothing.
std::string DroppedText(const pb::Attempt& attempt);
journal::AttemptRecord AttemptFromProto(const pb::Attempt& attempt, NodeId node);
/// The part that a node tells of an attempt of several.
/// `as`: which of them it is.
journal::PartRecord PartFromProto(const pb::Attempt& attempt, const journal::PartRecord& as);
/// `left_ns`: calendar time; 0: it is here.
journal::NodeRecord NodeToRecord(const Node& node, int64_t left_ns);

}  // namespace harrow::server
