#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/load.h"
#include "formats/problems.h"
#include "graph/graph.h"

// Recorded and generated graphs of tasks without commands: for harrow sim, check and replay. Times in seconds, sizes in
// bytes. Each reader adds the tasks of `text` to the graph, in the order of the file; in DAX and tables negative times and sizes
// are unknown, which `notices` tells.

namespace harrow::formats {

/// Standard Task Graph Set (Tobita, Kasahara: A standard task graph set for fair evaluation of multiprocessor scheduling
/// algorithms, 2002): the number of tasks, then "id time predecessors id..." a task; lines from # on end it. The dummy
/// first and last tasks are tasks of no time.
void ReadStg(uint32_t source, std::string_view text, const LoadOptions& options, graph::Graph* graph, Problems* problems);

/// Pegasus DAX 2 and 3 (XML): job with id, name, runtime (seconds); uses with file or name, link, size; child / parent.
void ReadDax(uint32_t source, std::string_view text, const LoadOptions& options, graph::Graph* graph, Problems* problems, std::vector<std::string>* notices);

/// A table of lines with tabs: "T id kind seconds [cores]", "F file bytes", "I task file", "O task file",
/// "E parent child"; blank lines and lines that begin with # are skipped. Tasks may be named before they are told.
void ReadDagTsv(uint32_t source, std::string_view text, const LoadOptions& options, graph::Graph* graph,
                Problems* problems, std::vector<std::string>* notices);

}  // namespace harrow::formats
