#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "formats/task_keys.h"
#include "graph/graph.h"
#include "os/file_system.h"

namespace harrow::formats {

enum class Format : uint8_t { kLines, kFlow, kWfFormat, kStg, kDax, kDagTsv, kJsonLines };
std::string_view FormatName(Format format);  // "line file", "flow file", "WfFormat", ...

/// One file a user named.
struct Input {
  std::string path;                 // "-": standard input
  bool lines = false;               // --lines: a line file, whatever it looks like
  std::optional<std::string> text;  // given: taken instead of what the file holds
};

struct LoadOptions {
  std::string directory;           // where relative paths and patterns start; empty: the current directory
  bool need_commands = false;      // a task without a command is a problem
  bool one_core = false;           // recorded tasks take one core each, whatever the record says
  bool inputs_must_exist = false;  // a file that a flow file's task reads and no task makes has to be there
  bool check_outputs = false;      // what tasks write must be theirs alone (formats/output_check.h)
  bool part_of_run = false;        // what no task here writes to streams, tasks of a run may
  std::string shell;               // of tasks and flows that name none; empty: /bin/sh
  TaskAttributes defaults;         // of tasks that say nothing else; not of traces without commands
  uint64_t max_tasks = 10'000'000;
  size_t max_problems = 20;  // then reading stops
  /// Is [flow] `key = value` known and well-formed? Not set: all are taken (config::CheckSetting knows them).
  std::function<Status(std::string_view key, std::string_view value)> check_setting;
};

/// `key = value` of a [flow] table, in the words of config/run_options.h; the value as text.
struct FlowSetting {
  std::string key;
  std::string value;
  std::string place;  // FILE:LINE:COLUMN
};

/// What inputs said besides their tasks.
struct Flow {
  std::string name;  // [flow] name, else the first file's name without its ending
  std::vector<FlowSetting> settings;
  std::vector<Format> formats;       // one an input
  std::vector<std::string> notices;  // "FILE:LINE:COLUMN: ...": what is taken but has no effect
};

/// What standard input holds, up to `limit` bytes. Not by its name: a socket, or what another user has opened for us, has
/// none that could be opened again.
Result<std::string> ReadStandardInput(uint64_t limit);

/// Reads `inputs` into an empty graph and seals it. Every problem found is a line "FILE:LINE:COLUMN: what is
/// wrong; what would be right" of the status, which is kInvalid for anything that a user wrote or named.
/// Formats are told by content (formats/detect.h), patterns in `in` are resolved here, once (flow_build.cc).
Status Load(os::FileSystem& fs, const std::vector<Input>& inputs, const LoadOptions& options,
            graph::Graph* graph, Flow* flow);

}  // namespace harrow::formats
