#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "batch/slurm_environment.h"

namespace harrow::batch {

/// "0-1,4" as 0 1 4, ascending. kInvalid for anything else.
Result<std::vector<uint32_t>> ParseCpus(std::string_view list);

/// Which CPUs were granted on the nodes that were granted in part, for `harrow agent --cpus`:
/// "0-1/8:node1,node2;2/8:node3", 8 being how many there are. Empty: none was, or it is not known, or it is
/// too long for a command line.
std::string CpusText(const SlurmAllocation& allocation);
/// What such a text tells of a node: its `name`, `which` and `of`. None: it does not name the node.
std::optional<GrantedNode> CpusOn(std::string_view text, std::string_view node);

}  // namespace harrow::batch
