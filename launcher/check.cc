#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/text.h"
#include "config/run_options.h"
#include "formats/load.h"
#include "formats/statistics.h"
#include "launcher/command.h"
#include "launcher/costs.h"
#include "launcher/end_output.h"
#include "launcher/inputs.h"
#include "os/file_system.h"
#include "report/json.h"

namespace harrow::launcher {
namespace {

struct CheckOptions {
  FlowArguments flow;
  bool json = false;
  bool no_files = false;
  bool costs = false;
};

constexpr size_t kShownKinds = 20;
constexpr size_t kShownPath = 12;

std::string Columns(std::string_view left, uint64_t number, std::string_view note) {
  std::string row(left);
  row.append(row.size() < 14 ? 14 - row.size() : 1, ' ');
  const std::string digits = StrCat(number);
  row.append(digits.size() < 10 ? 10 - digits.size() : 0, ' ');
  row += digits;
  if (!note.empty()) row += StrCat("   ", note);
  return row + "\n";
}

std::string KindTable(const formats::Statistics& s) {
  size_t width = 4;
  for (size_t i = 0; i < std::min(s.kinds.size(), kShownKinds); ++i)
    width = std::max(width, std::min<size_t>(s.kinds[i].name.size(), 40));
  const auto row = [&](std::string name, const std::string& tasks, const std::string& cores,
                       const std::string& mean) {
    if (name.size() > width) name.resize(width);
    name.append(width - name.size(), ' ');
    char rest[120];
    std::snprintf(rest, sizeof rest, "%10s %6s %12s", tasks.c_str(), cores.c_str(), mean.c_str());
    std::string line = StrCat(name, rest);
    while (line.ends_with(" ")) line.pop_back();
    return line + "\n";
  };
  std::string out = "\n" + row("kind", "tasks", "cores", s.timed > 0 ? "mean time" : "");
  for (size_t i = 0; i < std::min(s.kinds.size(), kShownKinds); ++i) {
    const formats::Statistics::Kind& kind = s.kinds[i];
    out += row(Printable(kind.name), StrCat(kind.tasks), StrCat(kind.most_cores),
               kind.timed > 0 ? FormatDuration(kind.run_time / static_cast<int64_t>(kind.timed)) : "");
  }
  if (s.kinds.size() > kShownKinds) out += StrCat("and ", s.kinds.size() - kShownKinds, " more kinds\n");
  return out;
}

std::string PathText(const graph::Graph& graph, const graph::CriticalPath& path) {
  std::string text;
  for (size_t i = 0; i < path.tasks.size(); ++i) {
    if (i == kShownPath - 1 && path.tasks.size() > kShownPath) {
      text += StrCat(" -> ... ", path.tasks.size() - kShownPath, " more");
      i = path.tasks.size() - 1;
    }
    text += StrCat(i > 0 ? " -> " : "", Printable(graph.TaskName(path.tasks[i]), 60));
  }
  return text;
}

/// "2 that are there before, 20 B; 5 that tasks make, 1.0 MiB; 1 of unknown size"
std::string FilesText(const formats::Statistics& s) {
  const bool known = s.unknown_sizes < s.files;
  const auto size = [&](uint64_t bytes) { return known ? StrCat(" (", FormatBytes(bytes), ")") : ""; };
  std::string text = StrCat(s.input_files, s.input_files == 1 ? " input" : " inputs", size(s.input_bytes), ", ",
                            s.files - s.input_files, " made by tasks", size(s.bytes - s.input_bytes));
  if (known && s.unknown_sizes > 0) text += StrCat("; ", s.unknown_sizes, " of unknown size");
  return text;
}

std::string Text(const CheckOptions& options, const graph::Graph& graph, const formats::Flow& flow,
                 const formats::Statistics& s) {
  std::string out;
  const std::vector<formats::Input> inputs = options.flow.Inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    out += StrCat(inputs[i].path == "-" ? "standard input" : Printable(inputs[i].path), ": ",
                  formats::FormatName(flow.formats[i]), ", no problem found\n");
  }
  if (s.without_command > 0) {
    out += StrCat("harrow run cannot run ", s.without_command == s.tasks ? "it, as there are no commands" : "all of it, as some tasks have no command",
                  "; harrow replay runs stand-ins for its tasks, harrow sim simulates it\n");
  }
  out += Columns(
      "tasks", s.tasks,
      s.without_command > 0 ? StrCat(s.without_command, " without a command: for replay and sim") : "");
  out += Columns("files", s.files, s.files > 0 ? FilesText(s) : "");
  out += Columns("edges", s.edges, "");
  out += Columns("levels", s.levels, s.levels > 1 ? "tasks on the longest chain" : "");
  out += Columns("width", s.width, "most tasks side by side");
  out += Columns("cores", s.cores, StrCat("asked for in all; ", s.most_cores, " by the largest task"));
  if (s.mpi_tasks > 0)
    out += Columns("ranks", s.ranks,
                   StrCat("of ", s.mpi_tasks, s.mpi_tasks == 1 ? " MPI task" : " MPI tasks; ",
                          s.mpi_tasks == 1 ? "" : StrCat(s.most_ranks, " of the largest")));
  if (!graph.streams().empty())
    out += Columns("streams", graph.streams().size(), "between tasks");
  if (s.most_nodes > 1) out += Columns("nodes", s.most_nodes, "of the task that spans most");
  if (!s.kinds.empty()) out += KindTable(s);
  if (s.critical_path) {
    out += StrCat("\ncritical path ", FormatDuration(s.critical_path->length), " of ",
                  FormatDuration(s.run_time), " in all:\n  ", PathText(graph, *s.critical_path), "\n");
  } else if (s.timed > 0) {
    out += StrCat("\n", s.timed, " of ", s.tasks, " tasks have a known run time, ",
                  FormatDuration(s.run_time), " in all: no critical path\n");
  }
  return out;
}

/// `costs`: null where they are not asked for.
std::string Json(const graph::Graph& graph, const formats::Flow& flow, const formats::Statistics& s,
                 const FlowCosts* costs) {
  std::string out;
  report::JsonWriter json(&out);
  json.BeginObject().MemberUint("version", 1).Member("name", flow.name).Key("formats").BeginArray();
  for (formats::Format format : flow.formats) json.String(formats::FormatName(format));
  json.EndArray();
  for (const auto& [key, value] : {std::pair<const char*, uint64_t>{"tasks", s.tasks},
                                   {"edges", s.edges},
                                   {"files", s.files},
                                   {"input_files", s.input_files},
                                   {"bytes", s.bytes},
                                   {"input_bytes", s.input_bytes},
                                   {"unknown_sizes", s.unknown_sizes},
                                   {"levels", s.levels},
                                   {"width", s.width},
                                   {"cores", s.cores},
                                   {"most_cores", s.most_cores},
                                   {"most_nodes", s.most_nodes},
                                   {"mpi_tasks", s.mpi_tasks},
                                   {"ranks", s.ranks},
                                   {"streams", graph.streams().size()},
                                   {"without_command", s.without_command},
                                   {"timed", s.timed}}) {
    json.MemberUint(key, value);
  }
  json.MemberFixed("run_time_s", Seconds(s.run_time), 6).Key("kinds").BeginArray();
  for (const formats::Statistics::Kind& kind : s.kinds) {
    json.BeginObject()
        .Member("name", kind.name)
        .MemberUint("tasks", kind.tasks)
        .MemberUint("most_cores", kind.most_cores);
    json.MemberUint("timed", kind.timed).MemberFixed("run_time_s", Seconds(kind.run_time), 6).EndObject();
  }
  json.EndArray();
  if (s.critical_path) {
    json.MemberFixed("critical_path_s", Seconds(s.critical_path->length), 6)
        .Key("critical_path")
        .BeginArray();
    for (TaskId task : s.critical_path->tasks) json.String(graph.TaskName(task));
    json.EndArray();
  }
  if (costs != nullptr) {
    json.Key("costs");
    CostsJson(graph, *costs, &json);
  }
  json.Key("problems").BeginArray().EndArray().Key("notices").BeginArray();
  for (const std::string& notice : flow.notices) json.String(notice);
  json.EndArray().EndObject();
  return out + "\n";
}

std::string ProblemsJson(const Status& status) {
  std::string out;
  report::JsonWriter json(&out);
  json.BeginObject().MemberUint("version", 1).Key("problems").BeginArray();
  for (std::string_view rest = status.message(); !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    json.String(line);
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
  }
  json.EndArray().EndObject();
  return out + "\n";
}

int RunCheck(const CheckOptions& options) {
  os::FileSystem& fs = os::RealFileSystem();
  formats::LoadOptions load;
  load.inputs_must_exist = !options.no_files;
  load.check_outputs = true;
  graph::Graph graph;
  formats::Flow flow;
  config::RunOptions settings;
  Status status = LoadFlow(fs, options.flow, {}, load, &graph, &flow, &settings);
  if (status.ok()) status = CheckLocalFiles(graph, settings);
  std::optional<FlowCosts> costs;
  if (status.ok() && (options.costs || !graph.models().empty())) {
    Result<FlowCosts> found = FindFlowCosts(graph);
    status = found.status();
    if (found.ok() && options.costs) costs = std::move(*found);
  }
  if (!status.ok()) {
    if (options.json) std::cout << ProblemsJson(status);
    return FailInput(status);
  }
  for (const std::string& notice : flow.notices) std::cerr << notice << "\n";
  const formats::Statistics statistics = formats::Summarise(graph);
  std::cout << (options.json ? Json(graph, flow, statistics, costs ? &*costs : nullptr)
                             : Text(options, graph, flow, statistics) + (costs ? CostsText(graph, *costs) : ""));
  const int code = EndOutput(kExitDone);
  // A graph of a million tasks need not be taken apart piece by piece.
  std::cerr << std::flush;
  _Exit(code);
}

const Registered kCheck({.name = "check",
                         .summary = "Read and validate a flow, print its counts; run nothing",
                         .example = "harrow check mosaic.toml",
                         .usage = "[options] FILE...",
                         .hidden = false,
                         .order = 20,
                         .setup = [](CLI::App& app) -> std::function<int()> {
                           auto options = std::make_shared<CheckOptions>();
                           AddFlowArguments(app, &options->flow, true);
                           app.add_flag("--no-files", options->no_files,
                                        "Do not look whether input files exist");
                           app.add_flag("--costs", options->costs,
                                        "Print what tasks will cost, as their models tell");
                           app.add_flag("--json", options->json, "Print one JSON document");
                           return [options] {
                             if (options->flow.Inputs().empty()) {
                               return Fail(
                                   Status(Code::kInvalid, "no FILE is named; try: harrow check tasks.txt"));
                             }
                             return RunCheck(*options);
                           };
                         }});

}  // namespace
}  // namespace harrow::launcher
