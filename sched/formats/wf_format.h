#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "formats/load.h"
#include "formats/problems.h"
#include "graph/graph.h"

namespace harrow::formats {

/// Adds the tasks of a WfFormat instance (https://wfcommons.org/format), schema 1.0 to 1.5, to the graph.
/// What is taken of it: wf_format.cc. *name: the instance's name. Notices: what is taken
/// but hardly means what it says.
void ReadWfFormat(uint32_t source, std::string_view text, const LoadOptions& options, graph::Graph* graph,
                  Problems* problems, std::string* name, std::vector<std::string>* notices);

}  // namespace harrow::formats
