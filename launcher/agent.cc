#include "agent/agent.h"

#include <charconv>
#include <climits>
#include <cstdlib>
#include <memory>
#include <unistd.h>

#include "base/text.h"
#include "batch/slurm.h"
#include "batch/slurm_site.h"
#include "launcher/command.h"
#include "launcher/inputs.h"
#include "run/flow_store.h"
#include "run_dir/part.h"

namespace harrow::launcher {
namespace {

struct Options {
  agent::AgentOptions agent;
  std::string run_dir;
  std::string share;
  std::string cpus;
};

/// "I/K": the I-th, from 0, of K pretend nodes.
bool ParseShare(const std::string& text, topology::Share* share) {
  const char* end = text.data() + text.size();
  const auto index = std::from_chars(text.data(), end, share->index);
  if (index.ec != std::errc() || index.ptr == end || *index.ptr != '/') return false;
  const auto of = std::from_chars(index.ptr + 1, end, share->of);
  return of.ec == std::errc() && of.ptr == end && share->of > 0 && share->index < share->of;
}

agent::AgentOptions::Files FilesOf(const run::RunSettings& settings) {
  using Files = agent::AgentOptions::Files;
  if (settings.stage == run::Stage::kDrop) return Files::kDrop;
  if (settings.stage != run::Stage::kNo) return Files::kStage;
  return settings.files == config::Files::kLocal ? Files::kLocal : Files::kShared;
}

int Run(Options options) {
  if (!options.share.empty() && !ParseShare(options.share, &options.agent.share)) {
    return Fail(Status(Code::kInvalid, StrCat("--share ", Printable(options.share),
                                              ": expected I/K, the I-th (from 0) of K nodes")));
  }
  if (const char* node = getenv("SLURMD_NODENAME"); node != nullptr && options.agent.node_name.empty()) {
    options.agent.node_name = node;
    options.agent.alone = true;
    options.agent.grant = NodeGrant(node, options.cpus);
  }
  if (options.agent.node_name.empty()) {
    char name[HOST_NAME_MAX + 1] = {};
    gethostname(name, sizeof name - 1);
    options.agent.node_name = name;
  }
  const batch::SitePolicy site = batch::ReadSitePolicy(batch::ParseEnvironment(Environment()));
  options.agent.local = site.local;
  options.agent.local_limit = site.local_limit;
  options.agent.most_tasks = site.tasks_per_node;
  options.agent.ports = {site.port_first, site.port_last};
  const auto given = run_dir::OpenArgument(options.run_dir);
  if (!given.ok()) return Fail(given.status());
  // By the name that all agents of a node know it by.
  char path[PATH_MAX];
  if (realpath(options.run_dir.c_str(), path) == nullptr) {
    return Fail(Status(Code::kNotFound, StrCat("no run directory ", Printable(options.run_dir))));
  }
  auto part = run_dir::OpenArgument(path);
  if (!part.ok()) return Fail(part.status());
  const std::string& run_dir = part->run->path();
  // An agent needs no flow; where there is one, it may have commands for the node.
  Result<run::RunSettings> settings = run::ReadSettings(*part);
  if (!settings.ok() && settings.status().code() != Code::kNotFound) return Fail(settings.status());
  if (settings.ok()) {
    options.agent.local_dir = settings->local_dir;
    options.agent.session = StrCat(settings->run_id, ".", settings->started.time_since_epoch().count());
    options.agent.files = FilesOf(*settings);
    options.agent.criu = settings->criu;
    options.agent.no_fabric = settings->mpi_profile == config::MpiProfile::kNoFabric;
    options.agent.commands = {.setup = settings->node_setup,
                              .teardown = settings->node_teardown,
                              .shell = settings->shell,
                              .directory = settings->submit_dir,
                              .env = {{"HARROW_SUBMIT_DIR", settings->submit_dir}, {"HARROW_RUN_DIR", run_dir}},
                              .limit = settings->node_limit};
  }
  if (!site.local.empty()) options.agent.commands.env.emplace_back("HARROW_LOCAL", site.local);
  options.agent.harrow = ThisProgram();
  options.agent.mpi_helper = batch::HelperProgram(ThisProgram(), "harrow-pmix");
  options.agent.run_dir = run_dir;
  options.agent.part = part->number;
  options.agent.dir = std::move(part->dir);
  return agent::RunWarden(std::move(options.agent));
}

const Registered kAgent(
    {.name = "agent",
     .summary = "Run the tasks of one node (started by harrow run)",
     .example = "harrow agent --run-dir harrow-1234 --node-name $(hostname)",
     .usage = "",
     .hidden = true,
     .setup = [](CLI::App& app) -> std::function<int()> {
       auto options = std::make_shared<Options>();
       app.add_option("--run-dir", options->run_dir, "Run directory")->type_name("D")->required();
       app.add_option("--node-name", options->agent.node_name,
                      "Default: as the batch system names it, or the host's name")
           ->type_name("N");
       app.add_option("--slots", options->agent.slots, "Default: one a core")->type_name("K");
       app.add_flag("!--no-pin", options->agent.pin, "Let tasks run on any core");
       app.add_option("--cpus", options->cpus, "Which were granted of nodes granted in part")
           ->type_name("LIST/ALL:NODE,...;...");
       app.add_option("--share", options->share, "The I-th of K nodes of one machine")->type_name("I/K");
       return [options] { return Run(*options); };
     }});

}  // namespace
}  // namespace harrow::launcher
