#pragma once

#include <cstdint>

#include "graph/graph.h"
#include "wire/harrow.pb.h"

namespace harrow::run {

/// A profile of tasks as it is stored in a flow, and sent to agents.
void ProfileToProto(const graph::Profile& profile, uint32_t id, pb::Profile* out);
graph::Profile ProfileFromProto(const pb::Profile& p);

}  // namespace harrow::run
