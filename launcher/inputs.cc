#include "launcher/inputs.h"

#include <iostream>
#include <unistd.h>

#include "launcher/command.h"

namespace harrow::launcher {

std::vector<formats::Input> FlowArguments::Inputs() const {
  std::vector<formats::Input> inputs;
  for (const std::string& file : files) inputs.push_back({file, false, {}});
  for (const std::string& file : line_files) inputs.push_back({file, true, {}});
  return inputs;
}

void AddFlowArguments(CLI::App& app, FlowArguments* arguments) {
  app.add_option("FILE", arguments->files,
                 "Line file (.txt; - is stdin), flow file or WfFormat");
  app.add_option("--lines", arguments->line_files, "A line file, whatever it is called")
      ->type_name("FILE")
      ->allow_extra_args(false);
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

}  // namespace harrow::launcher
