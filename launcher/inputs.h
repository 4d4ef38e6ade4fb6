#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/status.h"
#include "config/run_options.h"
#include "formats/load.h"
#include "graph/graph.h"
#include "os/file_system.h"
#include "topology/slots.h"

namespace harrow::launcher {

/// The flow that a command is given: FILE... and --lines FILE, and what holds for its tasks that say nothing
/// else.
struct FlowArguments {
  std::vector<std::string> files, line_files;
  std::vector<config::Setting> defaults;  // keys of tasks (formats/task_keys.h)

  std::vector<formats::Input> Inputs() const;
};

/// `recorded`: also graphs without commands.
void AddFlowArguments(CLI::App& app, FlowArguments* arguments, bool recorded = false);
/// --cores, --memory and --time.
void AddTaskDefaults(CLI::App& app, FlowArguments* arguments);
/// What these options say of tasks that say nothing else; an error is for people.
Status SetDefaults(const std::vector<config::Setting>& given, formats::TaskAttributes* defaults);
/// With files = local: kInvalid for a file that a task with others in its sandbox reaches by "..", or that is the submit
/// directory itself, a line each.
Status CheckLocalFiles(const graph::Graph& graph, const config::RunOptions& options);
/// Says which tasks can never run in this job, as no node of it has what they ask for; nothing where there is
/// no job. `left_out`: a flag a task that is not to run; may be empty.
void WarnOfTooLarge(const graph::Graph& graph, const std::vector<bool>& left_out,
                    const config::RunOptions& options);
/// Reads the flow with all that holds for it, in rising precedence: settings of the site, the user and the
/// environment, the flow's own, and `given` (the command line's). `load.shell` and `load.check_setting` are
/// filled in here.
Status LoadFlow(os::FileSystem& fs, const FlowArguments& arguments, const std::vector<config::Setting>& given,
                formats::LoadOptions load, graph::Graph* graph, formats::Flow* flow,
                config::RunOptions* options);
/// Prints the lines "FILE:LINE:COLUMN: what; what would be right" of a load that failed; gives the exit
/// status.
int FailInput(const Status& status);
/// This process's environment, "NAME=value" each.
std::vector<std::string> Environment();
/// One variable of it; empty when it is not set.
std::string Variable(const char* name);
/// What Slurm says that it granted of this node; all of it outside of a job. `cpus`: batch::GrantedCpus.
topology::Grant NodeGrant(const std::string& node, const std::string& cpus);
/// The problem of a task that is to be timed and whose run time nobody knows.
Status UnknownRunTime(const graph::Graph& graph, TaskId task);

}  // namespace harrow::launcher
