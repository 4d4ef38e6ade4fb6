#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/status.h"
#include "formats/load.h"

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

}  // namespace harrow::launcher
