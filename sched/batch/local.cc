#include <unistd.h>

#include "base/text.h"
#include "batch/batch.h"

// This machine alone. Pretend nodes are agents of one machine: same framing, encryption and processes as on
// many.

namespace harrow::batch {
namespace {

std::string HostName() {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "localhost";
  return name;
}

class Local : public Batch {
 public:
  explicit Local(const LocalOptions& options) : options_(options) {}

  std::string name() const override { return "local"; }
  std::string job_id() const override { return ""; }

  Result<std::vector<GrantedNode>> Nodes() override {
    if (options_.nodes == 0) return Status(Code::kInvalid, "--local-nodes 0: at least 1 node is needed");
    std::vector<GrantedNode> nodes;
    for (uint32_t i = 0; i < options_.nodes; ++i) {
      nodes.push_back(
          {.name = options_.nodes == 1 ? HostName() : StrCat("local", i), .cpus = options_.slots});
    }
    return nodes;
  }

  std::optional<WallTime> EndTime() override { return std::nullopt; }

  Result<std::vector<std::vector<std::string>>> AgentCommands(const std::string& run_dir) override {
    Result<std::vector<GrantedNode>> nodes = Nodes();
    if (!nodes.ok()) return nodes.status();
    std::vector<std::vector<std::string>> commands;
    for (uint32_t i = 0; i < nodes->size(); ++i) {
      std::vector<std::string> command = {options_.program, "agent",       "--run-dir",
                                          run_dir,          "--node-name", (*nodes)[i].name};
      if (options_.slots > 0) command.insert(command.end(), {"--slots", StrCat(options_.slots)});
      if (!options_.pin) command.push_back("--no-pin");
      if (options_.nodes > 1) command.insert(command.end(), {"--share", StrCat(i, "/", options_.nodes)});
      commands.push_back(std::move(command));
    }
    return commands;
  }

  std::vector<std::string> ListenHosts() override { return {"127.0.0.1"}; }

 private:
  LocalOptions options_;
};

}  // namespace

std::unique_ptr<Batch> MakeLocal(const LocalOptions& options) {
  return std::make_unique<Local>(options);
}

}  // namespace harrow::batch
