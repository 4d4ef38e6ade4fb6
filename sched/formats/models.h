#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/source_place.h"
#include "formats/problems.h"
#include "formats/task_template.h"
#include "graph/graph.h"
#include "os/file_system.h"

namespace harrow::formats {

/// A task's meta-program, read and found to be one.
struct Model {
  std::string text;
  SourcePlace place;        // of the key
  std::vector<bool> needs;  // which arguments it needs
};

/// Where the text of `model` begins in its flow file: behind the quotes, and behind a line end that follows
/// three of them. `content`: the file's.
SourcePlace ModelBegin(std::string_view content, SourcePlace quotes);

/// What `model` says: a meta-program, or "@file" with one. Problems have the line and column of where they
/// stand. False: there is one.
bool ReadModel(const TaskTemplate& task, const std::string& directory, os::FileSystem& fs,
               graph::Graph* graph, Problems* problems, Model* model);

/// The arguments that a model needs are there, and are numbers; of a command that a shell reads nobody knows.
/// False: a problem was told.
bool CheckModelArguments(const Model& model, TaskId task, const graph::Graph& graph, Problems* problems);

}  // namespace harrow::formats
