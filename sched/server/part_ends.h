#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/resources.h"
#include "graph/graph.h"
#include "journal/journal.h"

namespace harrow::server {

/// How many ranks of an attempt of so many nodes are on the `part`th; a task without ranks has none on any.
uint32_t RanksOfPart(const graph::Profile& profile, uint32_t nodes, uint32_t part);
/// How many processes of an attempt of so many nodes are on the `part`th: its ranks there; of a task without
/// ranks, its one process on the lead node.
uint32_t ProcessesOn(const graph::Profile& profile, uint32_t nodes, uint32_t part);

/// The one record of an attempt of several nodes, of those of all its parts, as journal_format.md tells.
/// Where a rank decides, the message names it and its node. `name`: of a node, empty for one that is not
/// known.
journal::AttemptRecord JoinParts(std::span<const journal::PartRecord> parts, const graph::Profile& profile,
                                 const std::function<std::string(NodeId)>& name);

}  // namespace harrow::server
