#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/status.h"
#include "formats/load.h"
#include "graph/graph.h"
#include "topology/slots.h"

namespace harrow::launcher {

/// The flow that a command is given: FILE... and --lines FILE.
struct FlowArguments {
  std::vector<std::string> files, line_files;

  std::vector<formats::Input> Inputs() const;
};

void AddFlowArguments(CLI::App& app, FlowArguments* arguments);
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
