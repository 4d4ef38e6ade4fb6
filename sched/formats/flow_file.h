#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "formats/load.h"
#include "formats/problems.h"
#include "formats/task_template.h"

namespace harrow::formats {

/// What a flow file says, checked key by key; names, braces and patterns are not yet resolved (flow_build.h).
struct FlowFile {
  std::vector<TaskTemplate> tasks;
  std::vector<FileTemplate> files;
  std::vector<StreamTemplate> streams;
  std::string name;
  std::vector<FlowSetting> settings;
  std::vector<std::string> notices;
};

/// Files that `each` names ("@file") are read with `fs`; `graph` names the sources. The first line's columns
/// are less by `shift`.
FlowFile ReadFlowFile(uint32_t source, std::string_view text, const LoadOptions& options, os::FileSystem& fs,
                      const graph::Graph& graph, Problems* problems, uint32_t shift = 0);

}  // namespace harrow::formats
