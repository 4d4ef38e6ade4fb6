#include "launcher/stage.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "batch/slurm_environment.h"
#include "batch/slurm_site.h"
#include "config/run_options.h"
#include "launcher/begin_run.h"
#include "launcher/command.h"
#include "launcher/inputs.h"
#include "launcher/resume_place.h"
#include "launcher/srun_form.h"
#include "os/file_system.h"
#include "report/json.h"
#include "wire/figures.h"

// `harrow stage`: a run of one task that is not run. Its inputs are the files that are to be on the nodes
// when the runs of this job begin; what brings them there, keeps them there, and takes them from there is the
// ordinary server with the ordinary agents (server/driver_staging.cc). Its run directory is hidden, so that
// no other command takes it for the newest run, and its keeper removes it at the end.

namespace harrow::launcher {
namespace {

constexpr int kJsonVersion = 1;

struct StageArguments {
  std::vector<std::string> files, flows;
  std::vector<config::Setting> settings;  // as given on the command line
  bool everywhere = false, round_robin = false, drop = false, json = false;
};

Status BadCall(const std::string& what) {
  return Status(Code::kInvalid, StrCat("harrow: ", what));
}

/// As tasks name it: relative to the submit directory.
Result<std::string> BelowHere(const std::string& here, const std::string& given) {
  namespace stdfs = std::filesystem;
  std::string path = stdfs::path(given).lexically_normal().string();
  const std::string above = here == "/" ? here : here + "/";
  if (path.starts_with(above)) path.erase(0, above.size());
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  if (path.empty() || path == "." || path == here)
    return BadCall(
        StrCat(Printable(given), " is the current directory; name the files of it that tasks read"));
  if (path.starts_with('/') || path == ".." || path.starts_with("../")) {
    return BadCall(StrCat(Printable(given),
                          " lies outside of the current directory: tasks are brought what lies below the one "
                          "they are run from"));
  }
  return path;
}

/// Adds the files, those below the directories, and those that the flows' tasks read and none of them makes.
/// The flows' settings hold.
Status Collect(os::FileSystem& fs, const StageArguments& arguments, Plan* plan, std::vector<FileId>* files) {
  const std::string& here = plan->settings.submit_dir;
  std::vector<bool> taken;
  const auto take = [&](const std::string& path) {
    const FileId file = plan->graph.AddFile(path);
    taken.resize(std::max<size_t>(taken.size(), file.value + 1));
    if (!taken[file.value]) files->push_back(file);
    taken[file.value] = true;
  };
  const auto add = [&](const std::string& path, const std::string& reader) -> Status {
    const Result<os::FileInfo> info = fs.Stat(path);
    if (!info.ok()) return BadCall(StrCat(info.status().message(), reader));
    if (!info->is_directory) {
      take(path);
      return {};
    }
    if (!reader.empty()) {
      plan->notices.push_back(StrCat("harrow: ", Printable(path), reader,
                                     ", is a directory: it is not staged, as a run reads one as a whole"));
      return {};
    }
    std::vector<std::string> below;
    std::error_code error;
    for (std::filesystem::recursive_directory_iterator it(path, error), end; !error && it != end;
         it.increment(error)) {
      std::error_code none;
      if (it->is_regular_file(none)) below.push_back(it->path().string());
    }
    if (error) return BadCall(StrCat(Printable(path), ": ", error.message()));
    std::sort(below.begin(), below.end());
    for (const std::string& file : below) take(file);
    return {};
  };
  for (const std::string& given : arguments.files) {
    const Result<std::string> path = BelowHere(here, given);
    if (!path.ok()) return path.status();
    HARROW_RETURN_IF_ERROR(add(*path, ""));
  }
  for (const std::string& name : arguments.flows) {
    FlowArguments named;
    named.files = {name};
    formats::LoadOptions load;
    load.inputs_must_exist = true;
    graph::Graph graph;
    formats::Flow flow;
    HARROW_RETURN_IF_ERROR(LoadFlow(fs, named, arguments.settings, load, &graph, &flow, &plan->settings));
    for (uint32_t n = 0; n < graph.task_count(); ++n) {
      for (const FileId input : graph.inputs(TaskId(n))) {
        const std::string path(graph.file_name(input));
        // What lies elsewhere is used where it is.
        if (graph.producer(input) || path.starts_with('/')) continue;
        const Result<std::string> below = BelowHere(here, path);
        if (!below.ok()) return below.status();
        HARROW_RETURN_IF_ERROR(add(*below, StrCat(", which ", Printable(graph.TaskName(TaskId(n)), 60),
                                                  " of ", Printable(name), " reads")));
      }
    }
  }
  return {};
}

Status PlanStage(os::FileSystem& fs, const StageArguments& arguments, Plan* plan) {
  if (arguments.everywhere && arguments.round_robin)
    return BadCall("--all and --round-robin: files go to each node, or each to one");
  if (arguments.drop && !(arguments.files.empty() && arguments.flows.empty()))
    return BadCall("--drop takes no files: it removes all that was put on the nodes");
  if (!arguments.drop && arguments.files.empty() && arguments.flows.empty())
    return BadCall("no files; name some (harrow stage data/*), or a flow whose inputs they are (--for FLOW)");
  Result<std::vector<config::Setting>> settings = config::ReadSettings(fs, Environment());
  if (!settings.ok()) return settings.status();
  settings->insert(settings->end(), arguments.settings.begin(), arguments.settings.end());
  HARROW_RETURN_IF_ERROR(config::Apply(*settings, &plan->settings));
  plan->settings.submit_dir = RealPath(".");
  plan->graph.AddSource("harrow stage");
  std::vector<FileId> files;
  HARROW_RETURN_IF_ERROR(Collect(fs, arguments, plan, &files));
  if (files.empty() && !arguments.drop)
    return BadCall("nothing to stage: there is no file in what was named");
  const bool lasts = !plan->settings.local_dir.empty() ||
                     !batch::ReadSitePolicy(batch::ParseEnvironment(Environment())).local.empty();
  if (!lasts) {
    return BadCall(
        "there is no directory on the nodes' disks that outlasts this command: HARROW_LOCAL is not "
        "set (see harrow-plugin(8)); name one with --local-dir DIR, here and with harrow run");
  }
  graph::TaskSpec task;
  task.name = "stage";
  task.command = "true";
  task.profile = plan->graph.AddProfile({});
  task.kind = plan->graph.AddKind("stage");
  task.in = files;
  plan->graph.AddTask(task);
  HARROW_RETURN_IF_ERROR(plan->graph.Seal());
  plan->unwanted = {true};
  plan->settings.files = config::Files::kLocal;
  plan->settings.stage = arguments.drop         ? run::Stage::kDrop
                         : arguments.everywhere ? run::Stage::kAll
                                                : run::Stage::kRoundRobin;
  plan->settings.name = "stage";
  plan->settings.pin = false;  // there are no tasks
  for (std::string* command :
       {&plan->settings.on_end, &plan->settings.node_setup, &plan->settings.node_teardown})
    command->clear();  // they are of runs
  return {};
}

int BeginStage(const StageArguments& arguments) {
  os::FileSystem& fs = os::RealFileSystem();
  Plan plan;
  if (const Status made = PlanStage(fs, arguments, &plan); !made.ok()) return FailInput(made);
  return BeginHiddenRun(fs, std::move(plan), ".harrow-stage-", {.json = arguments.json});
}

int RunStage(const StageArguments& arguments) {
  if (const std::optional<int> ended = BecomeAgentOfStep()) return *ended;
  const int code = BeginStage(arguments);
  (void)TellStep("");  // there is no run
  return code;
}

std::string FilesText(const pb::Staged& staged) {
  const std::string of = staged.files() == staged.of() ? "" : StrCat(" of ", staged.of());
  return StrCat(staged.files(), of, staged.of() == 1 ? " file" : " files", " (",
                FormatBytes(static_cast<uint64_t>(staged.bytes())), ")");
}

std::string NodesText(uint32_t nodes) {
  return StrCat(nodes, nodes == 1 ? " node" : " nodes");
}

std::function<int()> SetupStage(CLI::App& app) {
  auto arguments = std::make_shared<StageArguments>();
  app.add_option("FILE", arguments->files, "Files that tasks declare; of a directory all in it");
  app.add_option("--for", arguments->flows, "What the tasks of this flow read and none makes")
      ->type_name("FLOW")
      ->allow_extra_args(false);
  app.add_flag("--round-robin", arguments->round_robin, "Each file on one node, in turn (default)");
  app.add_flag("--all", arguments->everywhere, "Each file on every node");
  app.add_flag("--drop", arguments->drop, "Remove all that was put on the nodes");
  static constexpr struct {
    const char *option, *key, *type, *help;
  } kSettings[] = {
      {"--local-dir", "local_dir", "DIR", "On each node, where they go (default: HARROW_LOCAL)"},
      {"--local-nodes", "local_nodes", "K", "Divide this machine into K pretend nodes"},
      {"-j,--slots", "slots", "N", "As the run will have (default: a node's cores)"},
      {"--transfer-encryption", "transfer_encryption", "on|off", "Between nodes (default on)"},
      {"--progress", "progress", "MODE", "auto (default), plain or none"},
  };
  for (const auto& info : kSettings) {
    app.add_option_function<std::string>(
           info.option,
           [arguments, info](const std::string& value) {
             arguments->settings.push_back({info.key, value,
                                            std::strrchr(info.option, ',') == nullptr
                                                ? info.option
                                                : std::strrchr(info.option, ',') + 1});
           },
           info.help)
        ->type_name(info.type);
  }
  app.add_flag("--json", arguments->json, "At the end a JSON document on standard output");
  return [arguments] { return RunStage(*arguments); };
}

const Registered kStage({.name = "stage",
                         .summary = "Put files on the nodes before a run with --files local",
                         .example = "harrow stage --for flow.toml && harrow run --files local flow.toml",
                         .usage = "[options] FILE... | --for FLOW | --drop",
                         .order = 4,
                         .setup = SetupStage});

}  // namespace

std::string StagingLine(const pb::Staged& staged) {
  return StrCat("staged ", FilesText(staged));
}

void ShowStaged(const pb::Progress& last, run::Stage stage, bool json) {
  const Figures figures = wire::FiguresOf(last);
  const pb::Staged& staged = last.staged();
  const bool drop = stage == run::Stage::kDrop, everywhere = stage == run::Stage::kAll;
  if (json) {
    std::string out;
    report::JsonWriter writer(&out);
    writer.BeginObject().MemberUint("version", kJsonVersion);
    writer.Member("stage", drop ? "drop" : everywhere ? "all" : "round-robin");
    writer.MemberUint("nodes", staged.nodes());
    if (!drop) {
      writer.Key("files").BeginObject();
      writer.MemberUint("total", staged.of()).MemberUint("staged", staged.files()).EndObject();
      writer.MemberUint("bytes", static_cast<uint64_t>(staged.bytes()));
      writer.MemberUint("shared_read_bytes", figures.shared_read_bytes);
      writer.MemberUint("bytes_moved", figures.bytes_moved);
    }
    writer.MemberFixed("makespan_s", Seconds(figures.makespan), 6).EndObject();
    std::cout << out << "\n";
  } else if (drop) {
    std::cout << "dropped what was staged on " << NodesText(staged.nodes()) << "\n";
  } else {
    std::cout << "staged " << FilesText(staged) << " on " << (everywhere ? "each of " : "")
              << NodesText(staged.nodes()) << (everywhere ? "" : ", round robin,") << " in "
              << FormatDuration(figures.makespan) << ": read " << FormatBytes(figures.shared_read_bytes)
              << ", between nodes " << FormatBytes(figures.bytes_moved) << "\n";
  }
}

}  // namespace harrow::launcher
