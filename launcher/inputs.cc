#include "launcher/inputs.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <iostream>
#include <unistd.h>

#include "base/text.h"
#include "batch/slurm_cpus.h"
#include "batch/slurm_environment.h"
#include "launcher/command.h"
#include "launcher/known_costs.h"
#include "run/fit.h"

namespace harrow::launcher {

std::vector<formats::Input> FlowArguments::Inputs() const {
  std::vector<formats::Input> inputs;
  for (const std::string& file : files) inputs.push_back({file, false, {}});
  for (const std::string& file : line_files) inputs.push_back({file, true, {}});
  return inputs;
}

void AddFlowArguments(CLI::App& app, FlowArguments* arguments, bool recorded) {
  app.add_option("FILE", arguments->files,
                 recorded ? "Line file, flow file, WfFormat, DAX, .stg or .dag.tsv"
                          : "Line file (.txt; - is stdin), flow file or WfFormat");
  app.add_option("--lines", arguments->line_files, "A line file, whatever it is called")
      ->type_name("FILE")
      ->allow_extra_args(false);
}

void AddTaskDefaults(CLI::App& app, FlowArguments* arguments) {
  static constexpr struct {
    const char *key, *type, *help;
  } kKeys[] = {{"cores", "N", ""}, {"memory", "BYTES", ""}, {"time", "T", "Of tasks that say nothing"}};
  app.add_flag_callback(
      "--missing-ok",
      [arguments] {
        arguments->defaults.push_back({"missing_ok", "true", "--missing-ok"});
      },
      "");
  for (const auto& info : kKeys) {
    app.add_option_function<std::string>(
           StrCat("--", info.key),
           [arguments, info](const std::string& value) {
             arguments->defaults.push_back({info.key, value, StrCat("--", info.key)});
           },
           info.help)
        ->type_name(info.type);
  }
}

Status SetDefaults(const std::vector<config::Setting>& given, formats::TaskAttributes* defaults) {
  for (const config::Setting& setting : given) {
    const Status set = formats::SetAttribute(setting.key, setting.value, defaults);
    if (!set.ok()) return Status(set.code(), StrCat("harrow: --", set.message()));
  }
  defaults->cores_given = false;  // by the task
  return Status();
}

Status LoadFlow(os::FileSystem& fs, const FlowArguments& arguments, const std::vector<config::Setting>& given,
                formats::LoadOptions load, graph::Graph* graph, formats::Flow* flow,
                config::RunOptions* options) {
  Result<std::vector<config::Setting>> settings = config::ReadSettings(fs, Environment());
  if (!settings.ok()) return settings.status();
  config::RunOptions before;
  HARROW_RETURN_IF_ERROR(config::Apply(*settings, &before));
  load.shell = before.shell;
  HARROW_RETURN_IF_ERROR(SetDefaults(arguments.defaults, &load.defaults));
  load.check_setting = config::CheckSetting;
  HARROW_RETURN_IF_ERROR(formats::Load(fs, arguments.Inputs(), load, graph, flow));
  std::vector<config::Setting> all = std::move(*settings);
  for (const std::vector<config::Setting>& more : {config::FromFlow(*flow), given})
    all.insert(all.end(), more.begin(), more.end());
  HARROW_RETURN_IF_ERROR(config::Apply(all, options));
  const Status known = FindKnownCosts(options);
  return known.ok() ? known : Status(known.code(), StrCat("harrow: ", known.message()));
}

Status CheckLocalFiles(const graph::Graph& graph, const config::RunOptions& options) {
  if (options.files != config::Files::kLocal) return {};
  constexpr size_t kTold = 20;
  std::string text;
  size_t found = 0;
  for (uint32_t n = 0; n < graph.task_count(); ++n) {
    const TaskId task(n);
    if (graph.profile(task).shape.nodes > 1 && ++found <= kTold)
      text += StrCat(text.empty() ? "" : "\n", graph.PlaceText(graph.place(task)), ": task ",
                     Printable(graph.TaskName(task), 80),
                     " runs on several nodes, which files = local cannot do; run it with --files shared");
    const bool sandbox = !graph.inputs(task).empty() || !graph.outputs(task).empty();
    if (sandbox && graph.profile(task).checkpoint.by_criu() && ++found <= kTold)
      text += StrCat(text.empty() ? "" : "\n", graph.PlaceText(graph.place(task)), ": task ", Printable(graph.TaskName(task), 80),
                     " would be in a sandbox of its node, which CRIU does not take to another; run it with --files shared");
    for (const auto& files : {graph.inputs(task), graph.outputs(task)}) {
      for (const FileId file : files) {
        const std::string_view name = graph.file_name(file);
        const bool up = name == ".." || name.starts_with("../");
        if ((!up && name != ".") || ++found > kTold) continue;
        text += StrCat(text.empty() ? "" : "\n", graph.PlaceText(graph.place(task)), ": ", Printable(name),
                       up ? " lies outside of the submit directory, where files = local brings nothing; "
                            "write it with its absolute path"
                          : " is the submit directory, which files = local does not copy; name the files of "
                            "it that the task reads");
      }
    }
  }
  if (found > kTold) text += StrCat("\n... and ", found - kTold, " more");
  return found == 0 ? Status() : Status(Code::kInvalid, text);
}

void WarnOfTooLarge(const graph::Graph& graph, const std::vector<bool>& left_out,
                    const config::RunOptions& options) {
  const batch::Environment environment = batch::ParseEnvironment(Environment());
  if (!batch::InSlurmJob(environment) || environment.contains("HARROW_TASK_ID") || options.local_nodes > 1)
    return;
  const Result<batch::SlurmAllocation> granted = batch::AllocationFromEnvironment(environment);
  if (!granted.ok()) return;
  run::JobNodes job;
  for (const batch::SlurmComponent& component : granted->components) {
    for (const batch::GrantedNode& node : component.nodes) {
      if (node.cpus == 0) return;  // not told
      job.nodes.push_back({.slots = options.slots > 0 ? options.slots : node.cpus});
    }
  }
  const run::Misfits large = run::FindTooLarge(graph, left_out, job);
  if (large.tasks == 0) return;
  std::cerr << "harrow: warning: " << graph.PlaceText(graph.place(large.first)) << ": " << large.Text()
            << " can never run here: " << Printable(graph.TaskName(large.first), 60) << " asks for "
            << run::TooLargeText(graph.profile(large.first), job, "this job")
            << "; ask for less, or for a job of larger or more nodes\n";
}

int FailInput(const Status& status) {
  std::cerr << status.message() << "\n";
  return kExitUsage;
}

std::vector<std::string> Environment() {
  std::vector<std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) variables.emplace_back(*entry);
  return variables;
}

std::string Variable(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

topology::Grant NodeGrant(const std::string& node, const std::string& cpus_of_nodes) {
  topology::Grant grant;
  const std::string cpus = Variable("SLURM_CPUS_ON_NODE");
  std::from_chars(cpus.data(), cpus.data() + cpus.size(), grant.cpus);
  grant.online = static_cast<uint32_t>(std::max(0L, sysconf(_SC_NPROCESSORS_CONF)));
  if (auto found = batch::CpusOn(cpus_of_nodes, node)) {
    grant.which = std::move(found->which);
    grant.of = found->of;
  }
  return grant;
}

Status UnknownRunTime(const graph::Graph& graph, TaskId task) {
  return Status(Code::kInvalid,
                StrCat(graph.PlaceText(graph.place(task)), ": the run time of task ",
                       Printable(graph.TaskName(task), 80),
                       " is not known; write run_time = \"10s\" in the flow, or give --run-time"));
}

}  // namespace harrow::launcher
