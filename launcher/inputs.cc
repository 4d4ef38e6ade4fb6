#include "launcher/inputs.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <iostream>
#include <unistd.h>

#include "base/text.h"
#include "batch/slurm_cpus.h"
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
