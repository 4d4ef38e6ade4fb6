#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/source_place.h"
#include "formats/load.h"
#include "formats/problems.h"
#include "graph/graph.h"
#include "os/file_system.h"

namespace harrow::formats {

/// Where flow files tell what their tasks write, for messages.
struct OutputPlaces {
  struct Family {  // the tasks of one [[task]]
    TaskId first;
    uint64_t count = 0;
    std::vector<SourcePlace> out;
    SourcePlace stdout_place, stderr_place;  // line 0: not given
  };
  std::vector<Family> families;  // first rises
  std::vector<std::pair<FileId, SourcePlace>> found;  // existing files that patterns of `in` mean
};

/// Refuses outputs that cannot be told apart from what is somebody else's: that are or hold the submit
/// directory, the task's own working directory or inputs, one of the flow's files, existing files that the
/// flow reads, or another task's output; and stdout and stderr files that several tasks write, or that are
/// another task's output or an input. `graph` is sealed. Costs what the flow's files and directories count.
void CheckOutputs(os::FileSystem& fs, const std::vector<Input>& inputs, const LoadOptions& options,
                  const OutputPlaces& places, const graph::Graph& graph, Problems* problems);

/// kInvalid with lines as Load gives them: outputs that are or hold the run directory, an absolute path.
Status CheckRunDirectory(os::FileSystem& fs, const graph::Graph& graph, const std::string& submit_dir,
                         const std::string& run_dir);

}  // namespace harrow::formats
