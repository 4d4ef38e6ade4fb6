#pragma once

#include <cstdint>
#include <string_view>

#include "formats/load.h"
#include "formats/problems.h"
#include "formats/streams.h"
#include "graph/graph.h"

namespace harrow::formats {

/// Adds a task a line to the graph. What a line file may hold: line_file.cc.
void ReadLines(uint32_t source, std::string_view text, const LoadOptions& options, graph::Graph* graph, StreamEnds* streams,
               Problems* problems);

}  // namespace harrow::formats
