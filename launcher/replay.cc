#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "formats/load.h"
#include "launcher/command.h"
#include "launcher/costs.h"
#include "launcher/inputs.h"
#include "os/file_system.h"
#include "report/json.h"

// `harrow replay`: a recorded flow, really run, with stand-ins for its tasks. It writes into a directory of its own
//
//   flow.json   the flow in WfFormat; every task's command is `harrow stand-in DIR/work OFFSET`
//   work        a line a task: what its stand-in does (launcher/stand_in.cc)
//               A task with ranks has so many stand-ins, which know nothing of each other (mpi = "none").
//   files/      what the tasks read and write; the flow's own inputs are made here, of the recorded sizes
//
// and becomes `harrow run DIR/flow.json`. Each file begins with its name, so that no two hold the same: what is the same is
// stored, and fetched, once by --files local. There files are named from the current directory, below which DIR has to lie.

namespace harrow::launcher {
namespace {

struct ReplayArguments {
  FlowArguments flow;
  double time_scale = 1;
  std::optional<double> size_scale;  // none: what fits a laptop
  bool burn = false, one_core = false, local_files = false;
  std::string directory = "harrow-replay", run_time;
  std::vector<std::string> run_words;  // handed on to harrow run
};

/// A file's name in files/: its number, and what can be recognised of its name.
std::string FileName(const graph::Graph& graph, FileId file) {
  std::string_view name = graph.file_name(file);
  name = name.substr(name.rfind('/') + 1);
  std::string out = StrCat("files/", file.value, "-");
  for (const char c : name.substr(0, 60)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
    out.push_back(plain ? c : '_');
  }
  return out;
}

class Replay {
 public:
  /// `named_from`: what the names of files are relative to; empty: they are absolute.
  Replay(const graph::Graph& graph, const ReplayArguments& arguments, std::string directory, const std::string& named_from,
         Duration missing)
      : graph_(graph), arguments_(arguments), directory_(std::move(directory)), missing_(missing) {
    names_ = named_from.empty() ? directory_ : std::filesystem::path(directory_).lexically_relative(named_from).string();
    for (uint32_t f = 0; f < graph.file_count(); ++f) {
      if (graph.producer(FileId(f))) recorded_bytes_ += static_cast<double>(std::max<int64_t>(0, graph.file_size(FileId(f))));
    }
    size_scale_ = arguments.size_scale.value_or(std::min(1.0, kLaptop / std::max(recorded_bytes_, 1.0)));
  }

  /// Says what the stand-ins will write. kInvalid: more than there is room for.
  Status CheckSpace() const {
    const double bytes = recorded_bytes_ * size_scale_;
    std::error_code error;
    const std::filesystem::space_info space = std::filesystem::space(Existing(directory_), error);
    const std::string will = StrCat("the stand-ins write ", FormatBytes(static_cast<uint64_t>(bytes)), " below ", directory_,
                                    size_scale_ < 1 ? StrCat(" (recorded: ", FormatBytes(static_cast<uint64_t>(recorded_bytes_)), ")") : "");
    if (!error && bytes > static_cast<double>(space.available)) {
      return Status(Code::kInvalid, StrCat(will, ", where ", FormatBytes(space.available), " are free; give a smaller --size-scale than ", size_scale_,
                                           ", or --dir on another disk"));
    }
    if (bytes > 0) std::cerr << "harrow: " << will << (arguments_.size_scale ? "" : "; --size-scale sets how much") << "\n";
    return Status();
  }

  Status Write(os::FileSystem& fs, const std::string& name) {
    HARROW_RETURN_IF_ERROR(fs.MakeDirectories(directory_ + "/files"));
    const std::vector<uint64_t> offsets = WriteWork();
    HARROW_RETURN_IF_ERROR(fs.WriteWhole(directory_ + "/work", work_));
    HARROW_RETURN_IF_ERROR(fs.WriteWhole(directory_ + "/flow.json", FlowText(name, offsets)));
    for (uint32_t f = 0; f < graph_.file_count(); ++f) {
      if (!graph_.producer(FileId(f))) HARROW_RETURN_IF_ERROR(MakeInput(FileId(f)));
    }
    return Status();
  }

 private:
  static constexpr double kLaptop = 1 << 30;

  /// The directory, or the first one above it that is there.
  static std::filesystem::path Existing(std::filesystem::path path) {
    std::error_code error;
    while (path.has_relative_path() && !std::filesystem::exists(path, error)) path = path.parent_path();
    return path;
  }

  int64_t BytesOf(FileId file) const {
    const auto bytes = static_cast<double>(std::max<int64_t>(0, graph_.file_size(file)));
    return static_cast<int64_t>(std::llround(bytes * size_scale_));
  }
  std::string PathOf(FileId file) const { return StrCat(directory_, "/", FileName(graph_, file)); }
  /// As the flow and the stand-ins call it.
  std::string NameOf(FileId file) const { return StrCat(names_, "/", FileName(graph_, file)); }
  double SecondsOf(TaskId task) const {
    return Seconds(graph_.recorded_run_time(task).value_or(missing_)) * arguments_.time_scale;
  }

  std::vector<uint64_t> WriteWork() {
    std::vector<uint64_t> offsets;
    for (uint32_t n = 0; n < graph_.task_count(); ++n) {
      offsets.push_back(work_.size());
      report::AppendFixed(&work_, SecondsOf(TaskId(n)), 9);
      work_ += arguments_.burn ? "\tburn" : "\tsleep";
      for (FileId file : graph_.inputs(TaskId(n))) work_ += StrCat("\tI\t", NameOf(file));
      for (FileId file : graph_.outputs(TaskId(n))) work_ += StrCat("\tO\t", NameOf(file), "\t", BytesOf(file));
      work_ += "\n";
    }
    return offsets;
  }

  std::string FlowText(const std::string& name, const std::vector<uint64_t>& offsets) const {
    std::string out;
    report::JsonWriter json(&out);
    const auto tasks = [&](std::string_view key, std::span<const TaskId> list) {
      json.Key(key).BeginArray();
      for (TaskId task : list) json.String(graph_.TaskName(task));
      json.EndArray();
    };
    const auto files = [&](std::string_view key, std::span<const FileId> list) {
      json.Key(key).BeginArray();
      for (FileId file : list) json.String(NameOf(file));
      json.EndArray();
    };
    json.BeginObject().Member("name", name).Member("schemaVersion", "1.5").Key("workflow").BeginObject();
    json.Key("specification").BeginObject().Key("tasks").BeginArray();
    for (uint32_t n = 0; n < graph_.task_count(); ++n) {
      const TaskId id(n);
      json.BeginObject().Member("id", graph_.TaskName(id)).Member("name", graph_.TaskName(id));
      if (graph_.kind(id)) json.Member("category", graph_.kind_name(graph_.kind(id)));
      tasks("parents", graph_.predecessors(id));
      json.Key("children").BeginArray().EndArray();
      files("inputFiles", graph_.inputs(id));
      files("outputFiles", graph_.outputs(id));
      json.EndObject();
    }
    json.EndArray().Key("files").BeginArray();
    for (uint32_t f = 0; f < graph_.file_count(); ++f) {
      json.BeginObject().Member("id", NameOf(FileId(f))).MemberUint("sizeInBytes", static_cast<uint64_t>(BytesOf(FileId(f)))).EndObject();
    }
    json.EndArray().EndObject().Key("execution").BeginObject().Key("tasks").BeginArray();
    for (uint32_t n = 0; n < graph_.task_count(); ++n) {
      const TaskId id(n);
      json.BeginObject().Member("id", graph_.TaskName(id)).MemberFixed("runtimeInSeconds", SecondsOf(id), 9);
      const graph::Profile& profile = graph_.profile(id);
      json.MemberUint("coreCount", std::max<uint64_t>(1, profile.all_cores()));
      if (profile.shape.nodes > 1) json.MemberUint("nodes", profile.shape.nodes);
      if (profile.ranks > 0) json.MemberUint("ranks", profile.ranks).Member("mpi", "none");
      json.Key("command").BeginObject();
      json.Member("program", ThisProgram()).Key("arguments").BeginArray();
      json.String("stand-in").String(directory_ + "/work").String(StrCat(offsets[n])).EndArray().EndObject().EndObject();
    }
    json.EndArray().EndObject().EndObject().EndObject();
    return out + "\n";
  }

  Status MakeInput(FileId file) const {
    const std::filesystem::path path = PathOf(file);
    std::error_code error;
    const Status made = os::RealFileSystem().WriteWhole(path.string(), path.filename().string());
    if (!made.ok()) return made;
    // The rest is a hole: reading it costs what reading from memory does.
    std::filesystem::resize_file(path, static_cast<uintmax_t>(BytesOf(file)), error);
    return error ? Status(Code::kUnavailable, StrCat(path.string(), ": ", error.message())) : Status();
  }

  const graph::Graph& graph_;
  const ReplayArguments& arguments_;
  std::string directory_, names_;
  Duration missing_;
  double recorded_bytes_ = 0;  // of what the tasks make
  double size_scale_ = 1;
  std::string work_;
};

/// Tasks whose time is not known are an error, unless a time for them is given.
Result<Duration> MissingTime(const graph::Graph& graph, const std::string& given) {
  if (!given.empty()) return ParseDuration(given);
  for (uint32_t n = 0; n < graph.task_count(); ++n) {
    if (!graph.recorded_run_time(TaskId(n))) return UnknownRunTime(graph, TaskId(n));
  }
  return Duration(0);
}

int RunReplay(const ReplayArguments& arguments) {
  if (arguments.flow.Inputs().empty()) return Fail(Status(Code::kInvalid, "no FILE is named; try: harrow replay --time-scale 0.01 flow.json"));
  for (const auto& [scale, name] : {std::pair{arguments.time_scale, "--time-scale"}, std::pair{arguments.size_scale.value_or(1), "--size-scale"}}) {
    if (!(scale >= 0 && scale <= 1e6)) return Fail(Status(Code::kInvalid, StrCat(name, " cannot be ", scale, "; give a number from 0 to 1e6")));
  }
  os::FileSystem& fs = os::RealFileSystem();
  formats::LoadOptions load;
  load.one_core = arguments.one_core;
  graph::Graph graph;
  formats::Flow flow;
  if (const Status loaded = formats::Load(fs, arguments.flow.Inputs(), load, &graph, &flow); !loaded.ok()) return FailInput(loaded);
  if (const Status refused = RefuseStreams(graph, "harrow replay"); !refused.ok()) return FailInput(refused);
  const Result<Duration> missing = MissingTime(graph, arguments.run_time);
  if (!missing.ok()) return FailInput(missing.status());
  std::error_code error;
  const std::string directory = std::filesystem::absolute(arguments.directory, error).lexically_normal().string();
  if (error) return Fail(Status(Code::kUnavailable, StrCat(arguments.directory, ": ", error.message())));
  for (const std::string& notice : flow.notices) std::cerr << notice << "\n";
  std::string here;
  if (arguments.local_files) {
    here = std::filesystem::current_path(error).string();
    const std::string within = here == "/" ? here : here + "/";
    if (error || !directory.starts_with(within)) {
      return Fail(Status(Code::kInvalid, StrCat("--files local brings files from below the current directory, and --dir ", Printable(arguments.directory),
                                                " does not lie there")));
    }
  }
  Replay replay(graph, arguments, directory, here, *missing);
  if (const Status fits = replay.CheckSpace(); !fits.ok()) return Fail(fits);
  if (const Status written = replay.Write(fs, flow.name); !written.ok()) return Fail(written);
  std::vector<std::string> words = {"run"};
  words.insert(words.end(), arguments.run_words.begin(), arguments.run_words.end());
  words.push_back(directory + "/flow.json");
  return Become(std::move(words));
}

const Registered kReplay(
    {.name = "replay",
     .summary = "Run a recorded flow with stand-ins for its tasks",
     .example = "harrow replay --time-scale 0.01 --size-scale 0 montage.json",
     .usage = "[options] FILE...",
     .order = 22,
     .setup = [](CLI::App& app) -> std::function<int()> {
       auto a = std::make_shared<ReplayArguments>();
       AddFlowArguments(app, &a->flow, true);
       app.add_option("--time-scale", a->time_scale, "Times the recorded run times (default 1)")->type_name("F");
       app.add_option("--size-scale", a->size_scale, "Times the recorded sizes (default: at most 1G in all)")->type_name("F");
       app.add_option("--run-time", a->run_time, "Of tasks whose run time is not known")->type_name("TIME");
       app.add_flag("--burn", a->burn, "Use the CPU for that time instead of sleeping");
       app.add_flag("--one-core", a->one_core, "Recorded tasks take one core each");
       app.add_option("--dir", a->directory, "For the files (default harrow-replay)")->type_name("D");
       const auto hand_on = [&](const char* option, const char* type, const char* help) {
         app.add_option_function<std::string>(
                option, [a, option](const std::string& value) { a->run_words.insert(a->run_words.end(), {option, value}); }, help)
             ->type_name(type);
       };
       const auto hand_on_flag = [&](const char* option, const char* help) {
         app.add_flag_callback(option, [a, option] { a->run_words.emplace_back(option); }, help);
       };
       hand_on("--order", "P", "auto, fifo, lifo, hrf, lifo+hrf, rank+hrf, cost");
       app.add_option_function<std::string>(
              "--files",
              [a](const std::string& value) {
                a->local_files = value == "local";
                a->run_words.insert(a->run_words.end(), {"--files", value});
              },
              "shared (default), or local: on the nodes' own disks")
           ->type_name("MODE");
       hand_on_flag("--no-steal", "Idle slots take nothing from other nodes' queues");
       hand_on_flag("--no-locality", "Do not place tasks where their files are");
       hand_on("--place", "HOW", "");
       hand_on("--tg-max", "N", "");
       hand_on("--ct-max", "N", "");
       hand_on("--costs-from", "RUN", "files, cost-paper, cost");
       hand_on("--run-dir", "RD", "Run directory (default harrow-<job or date>)");
       hand_on("--slots", "N", "Tasks at once on a node (default: its cores)");
       hand_on("--local-nodes", "K", "Divide this machine into K pretend nodes");
       hand_on("--progress", "MODE", "auto (default), plain or none");
       hand_on_flag("--json", "At the end a JSON document on standard output");
       return [a] { return RunReplay(*a); };
     }});

}  // namespace
}  // namespace harrow::launcher
