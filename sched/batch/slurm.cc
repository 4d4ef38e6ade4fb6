#include "batch/slurm.h"

#include <algorithm>
#include <sstream>
#include <unistd.h>

#include "base/text.h"
#include "batch/slurm_addresses.h"
#include "batch/slurm_environment.h"
#include "batch/slurm_query.h"
#include "batch/slurm_srun.h"
#include "os/clock.h"
#include "os/log.h"

namespace harrow::batch {
namespace {

constexpr Duration kAnswerWithin = std::chrono::seconds(10);
constexpr Duration kAskAgainAfter = std::chrono::seconds(60);  // when there was no answer
constexpr size_t kPeersAsked = 8;                              // names looked up to learn this node's address

std::string QueryProgram(const std::string& harrow) {
  std::string directory = harrow.substr(0, harrow.rfind('/') + 1);
  for (const char* place : {"harrow-slurm-query", "../libexec/harrow/harrow-slurm-query"}) {
    std::string path = directory + place;
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

class Slurm : public Batch {
 public:
  Slurm(const SlurmOptions& options, const std::vector<std::string>& environment)
      : options_(options),
        environment_(ParseEnvironment(environment)),
        granted_(AllocationFromEnvironment(environment_)) {}

  std::string name() const override { return "slurm"; }
  std::string job_id() const override { return environment_.find("SLURM_JOB_ID")->second; }
  std::string job_name() const override {
    auto it = environment_.find("SLURM_JOB_NAME");
    return it == environment_.end() ? "" : it->second;
  }

  Result<std::vector<GrantedNode>> Nodes() override {
    Result<SlurmAllocation> allocation = Allocation();
    if (!allocation.ok()) return allocation.status();
    std::vector<GrantedNode> nodes;
    for (const SlurmComponent& component : allocation->components) {
      nodes.insert(nodes.end(), component.nodes.begin(), component.nodes.end());
    }
    return nodes;
  }

  std::optional<WallTime> EndTime() override {
    if (Result<SlurmAllocation> allocation = Ask(); allocation.ok()) {
      last_end_ = allocation->end;
      return last_end_;
    }
    Result<std::string> left = Run(&squeue_, {"squeue", "-h", "-j", job_id(), "-o", "%L"});
    if (left.ok()) {
      last_end_ = ParseTimeLeft(left.value().substr(0, left.value().find('\n')), os::RealClock().Now());
    } else if (!last_end_ && granted_.ok()) {
      last_end_ = granted_->end;
    }
    return last_end_;
  }

  Result<std::vector<std::vector<std::string>>> AgentCommands(const std::string& run_dir) override {
    Result<SlurmAllocation> allocation = Allocation();
    if (!allocation.ok()) return allocation.status();
    std::vector<std::string> agent = {options_.program, "agent", "--run-dir", run_dir};
    if (options_.slots > 0) agent.insert(agent.end(), {"--slots", StrCat(options_.slots)});
    return std::vector<std::vector<std::string>>{
        SrunCommand(*allocation, environment_, agent, options_.site_flags)};
  }

  std::vector<std::string> ListenHosts() override {
    std::vector<std::string> peers;
    auto own = environment_.find("SLURMD_NODENAME");
    if (granted_.ok()) {
      for (const SlurmComponent& component : granted_->components) {
        size_t asked = 0;
        for (const GrantedNode& node : component.nodes) {
          if (own != environment_.end() && node.name == own->second) continue;
          if (asked++ == kPeersAsked) break;
          peers.push_back(node.name);
        }
      }
    }
    return AddressesTowards(peers);
  }

 private:
  // Of slurmctld. The answer counts: a job may have lost nodes since it began.
  Result<SlurmAllocation> Ask() {
    if (query_.empty()) query_ = QueryProgram(options_.program);
    if (query_.empty()) return Status(Code::kUnavailable, "harrow-slurm-query is not installed");
    std::vector<std::string> command = {query_};
    if (granted_.ok()) {
      for (const SlurmComponent& component : granted_->components) command.push_back(component.job_id);
    } else {
      command.push_back(job_id());
    }
    Result<std::string> text = Run(&asking_, command);
    if (!text.ok()) return text.status();
    return ParseQuery(*text);
  }

  struct Failure {
    Duration at{0};  // steady
    Status status;
  };
  // A slurmctld that is away is not asked again at once.
  Result<std::string> Run(Failure* last, const std::vector<std::string>& command) {
    const Duration now = os::RealClock().Steady();
    if (!last->status.ok() && now - last->at < kAskAgainAfter) return last->status;
    Result<std::string> text = RunCommand(command, kAnswerWithin);
    *last = {os::RealClock().Steady(), text.status()};
    return text;
  }

  Result<SlurmAllocation> Allocation() {
    Result<SlurmAllocation> allocation = Ask();
    if (allocation.ok()) return allocation;
    if (allocation.status().code() == Code::kNotFound) {
      return Status(Code::kNotFound, StrCat(allocation.status().message(),
                                            "; to run on this machine alone, unset SLURM_JOB_ID"));
    }
    if (!said_fallback_) {
      os::LogWarning(
          StrCat(allocation.status().message(), "; what was granted is read from SLURM_* instead"));
      said_fallback_ = true;
    }
    return granted_;
  }

  SlurmOptions options_;
  Environment environment_;
  Result<SlurmAllocation> granted_;  // as the environment tells
  std::string query_;
  Failure asking_, squeue_;
  std::optional<WallTime> last_end_;
  bool said_fallback_ = false;
};

}  // namespace

std::unique_ptr<Batch> MakeSlurm(const SlurmOptions& options, const std::vector<std::string>& environment) {
  return std::make_unique<Slurm>(options, environment);
}

std::unique_ptr<Batch> FindBatch(const LocalOptions& options, const std::vector<std::string>& environment) {
  Environment variables = ParseEnvironment(environment);
  if (!InSlurmJob(variables)) return MakeLocal(options);
  SlurmOptions slurm{.program = options.program, .slots = options.slots, .site_flags = {}};
  if (auto it = variables.find("HARROW_SRUN_FLAGS"); it != variables.end()) {
    std::istringstream words(it->second);
    for (std::string word; words >> word;) slurm.site_flags.push_back(word);
  }
  return MakeSlurm(slurm, environment);
}

}  // namespace harrow::batch
