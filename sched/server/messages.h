#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "graph/graph.h"
#include "journal/journal.h"
#include "wire/harrow.pb.h"

// Between the messages of wire/harrow.proto and the values of graph and journal.

namespace harrow::server {

void ProfileToProto(const graph::Profile& profile, uint32_t id, pb::Profile* out);
journal::AttemptRecord AttemptFromProto(const pb::Attempt& attempt, NodeId node);
void AttemptToProto(const journal::AttemptRecord& record, pb::Attempt* out);
/// "0-3,8" of ascending numbers.
std::string NumberList(std::span<const uint32_t> numbers);

}  // namespace harrow::server
