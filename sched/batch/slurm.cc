#include "batch/slurm.h"

#include <algorithm>
#include <set>
#include <sstream>
#include <unistd.h>

#include "base/text.h"
#include "batch/slurm_addresses.h"
#include "batch/slurm_cpus.h"
#include "batch/slurm_environment.h"
#include "batch/slurm_query.h"
#include "batch/slurm_srun.h"
#include "os/clock.h"
#include "os/log.h"

namespace harrow::batch {
namespace {

constexpr const char* kQuery = "harrow-slurm-query";
constexpr Duration kAnswerWithin = std::chrono::seconds(10);
constexpr Duration kAnswerHolds = std::chrono::seconds(2);     // for questions that come together
constexpr Duration kAskAgainAfter = std::chrono::seconds(60);  // when there was no answer
constexpr size_t kPeersAsked = 8;                              // names looked up to learn this node's address

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

  // Nobody can be told to where there is one node.
  std::optional<std::vector<std::string>> DrainedNodes() override {
    const Result<std::vector<GrantedNode>> nodes = Nodes();
    if (!nodes.ok() || nodes->size() < 2) return std::vector<std::string>();
    std::string names;
    for (const GrantedNode& node : *nodes) names += StrCat(names.empty() ? "" : ",", node.name);
    const Result<std::string> told = Run(&sinfo_, {"sinfo", "-h", "-N", "-t", "drain", "-n", names, "-o", "%N"});
    std::set<std::string> drained;  // sinfo has a line for each partition of a node
    std::istringstream lines(told.ok() ? *told : "");
    for (std::string name; lines >> name;) drained.insert(name);
    return std::vector<std::string>(drained.begin(), drained.end());
  }

  Result<std::vector<std::vector<std::string>>> AgentCommands(const std::string& run_dir) override {
    AskCpus();
    Result<SlurmAllocation> allocation = Allocation();
    if (!allocation.ok()) return allocation.status();
    return std::vector<std::vector<std::string>>{
        SrunCommand(*allocation, environment_, Agent(run_dir), options_.site_flags)};
  }

  // What slurmctld says now, as it may have noticed by now, too.
  std::optional<std::vector<std::string>> AgentCommandWithout(
      const std::string& run_dir, const std::vector<std::string>& nodes) override {
    Result<SlurmAllocation> allocation = Allocation();
    if (!allocation.ok()) return std::nullopt;
    SlurmAllocation left = *std::move(allocation);
    size_t count = 0;
    for (SlurmComponent& component : left.components) {
      std::erase_if(component.nodes, [&](const GrantedNode& node) {
        return std::find(nodes.begin(), nodes.end(), node.name) != nodes.end();
      });
      count += component.nodes.size();
    }
    if (count == 0) return std::nullopt;
    return SrunCommand(left, environment_, Agent(run_dir), options_.site_flags, nodes);
  }

  std::vector<std::string> UnreachableIn(std::string_view written) const override {
    return UnreachableNodes(written);
  }

  std::optional<std::vector<std::string>> AgentCommandOn(const std::string& run_dir,
                                                         const std::string& node) override {
    return SrunCommandOn(node, granted_.ok() ? *granted_ : SlurmAllocation(), environment_, Agent(run_dir),
                         options_.site_flags);
  }

  const std::string& AskCpus() {
    if (Result<SlurmAllocation> answer = AskNow(true); answer.ok()) {
      cpus_ = CpusText(*answer);
      Keep(*std::move(answer));
    }
    return cpus_;
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

 protected:
  std::vector<std::string> Agent(const std::string& run_dir) const {
    std::vector<std::string> agent = {options_.program, "agent", "--run-dir", run_dir};
    if (options_.slots > 0) agent.insert(agent.end(), {"--slots", StrCat(options_.slots)});
    if (!options_.pin) agent.push_back("--no-pin");
    if (!cpus_.empty()) agent.insert(agent.end(), {"--cpus", cpus_});
    return agent;
  }

 private:
  // Of slurmctld. The answer counts: a job may have lost nodes since it began.
  Result<SlurmAllocation> Ask() {
    if (!answer_ || os::RealClock().Steady() - answered_ > kAnswerHolds) {
      Result<SlurmAllocation> answer = AskNow(false);
      if (!answer.ok()) return answer;
      Keep(*std::move(answer));
    }
    return *answer_;
  }

  void Keep(SlurmAllocation answer) {
    answer_ = std::move(answer);
    answered_ = os::RealClock().Steady();
  }

  Result<SlurmAllocation> AskNow(bool with_cpus) {
    if (query_.empty()) query_ = HelperProgram(options_.program, kQuery);
    if (query_.empty()) return Status(Code::kUnavailable, "harrow-slurm-query is not installed");
    std::vector<std::string> command = {query_};
    if (with_cpus) command.push_back("--cpus");
    if (granted_.ok()) {
      for (const SlurmComponent& component : granted_->components) command.push_back(component.job_id);
    } else {
      command.push_back(job_id());
    }
    Result<std::string> text = Run(with_cpus ? &asking_cpus_ : &asking_, command);
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
  std::optional<SlurmAllocation> answer_;
  Duration answered_{0};  // steady
  Failure asking_, asking_cpus_, squeue_, sinfo_;
  std::string cpus_;  // of nodes granted in part
  std::optional<WallTime> last_end_;
  bool said_fallback_ = false;
};

/// A step whose other tasks are agents already.
class SlurmStep : public Slurm {
 public:
  SlurmStep(const SlurmOptions& options, const std::vector<std::string>& environment, std::string_view nodes)
      : Slurm(options, environment) {
    while (!nodes.empty()) {
      const size_t comma = std::min(nodes.find(','), nodes.size());
      nodes_.emplace(nodes.substr(0, comma));
      nodes.remove_prefix(std::min(comma + 1, nodes.size()));
    }
  }

  Result<std::vector<GrantedNode>> Nodes() override {
    Result<std::vector<GrantedNode>> nodes = Slurm::Nodes();
    if (nodes.ok())
      std::erase_if(*nodes, [&](const GrantedNode& node) { return !nodes_.contains(node.name); });
    return nodes;
  }

  Result<std::vector<std::vector<std::string>>> AgentCommands(const std::string& run_dir) override {
    AskCpus();
    return std::vector<std::vector<std::string>>{Agent(run_dir)};
  }
  std::optional<std::vector<std::string>> AgentCommandOn(const std::string&, const std::string&) override {
    return std::nullopt;
  }
  std::optional<std::vector<std::string>> AgentCommandWithout(const std::string&,
                                                              const std::vector<std::string>&) override {
    return std::nullopt;
  }

 private:
  std::set<std::string, std::less<>> nodes_;
};

}  // namespace

std::unique_ptr<Batch> MakeSlurm(const SlurmOptions& options, const std::vector<std::string>& environment) {
  return std::make_unique<Slurm>(options, environment);
}

std::string GrantedCpus(const std::string& program, const std::vector<std::string>& environment) {
  return Slurm({.program = program, .site_flags = {}}, environment).AskCpus();
}

std::string HelperProgram(const std::string& harrow, const std::string& name) {
  const std::string directory = harrow.substr(0, harrow.rfind('/') + 1);
  for (const char* place : {"", "../libexec/harrow/"}) {
    std::string path = StrCat(directory, place, name);
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

std::string JobWithRestarts(const std::vector<std::string>& environment) {
  const Environment variables = ParseEnvironment(environment);
  if (!InSlurmJob(variables)) return "";
  std::string job = variables.find("SLURM_JOB_ID")->second;
  if (auto it = variables.find("SLURM_RESTART_COUNT"); it != variables.end() && it->second != "0") {
    job += "." + it->second;
  }
  return job;
}

std::optional<bool> JobRuns(const std::string& program, const std::string& job, const std::string& own) {
  const std::string id = job.substr(0, job.find('.'));
  if (job != own && id == own.substr(0, own.find('.'))) return false;  // an earlier start of the same job
  const std::string query = HelperProgram(program, kQuery);
  if (query.empty()) return std::nullopt;
  const Result<std::string> text = RunCommand({query, id}, kAnswerWithin);
  if (!text.ok()) return std::nullopt;
  const Result<SlurmAllocation> allocation = ParseQuery(*text);
  if (allocation.ok()) return true;
  return allocation.status().code() == Code::kNotFound ? std::optional<bool>(false) : std::nullopt;
}

std::unique_ptr<Batch> FindBatch(const LocalOptions& options, const std::vector<std::string>& environment) {
  Environment variables = ParseEnvironment(environment);
  // A run within a task has that task's cores, not the job's.
  const bool within_task = variables.contains("HARROW_TASK_ID");
  if (!InSlurmJob(variables) || options.nodes > 1 || within_task) return MakeLocal(options);
  SlurmOptions slurm{
      .program = options.program, .slots = options.slots, .pin = options.pin, .site_flags = {}};
  if (auto it = variables.find("HARROW_SRUN_FLAGS"); it != variables.end()) {
    std::istringstream words(it->second);
    for (std::string word; words >> word;) slurm.site_flags.push_back(word);
  }
  if (auto it = variables.find("HARROW_STEP_NODES"); it != variables.end()) {
    return std::make_unique<SlurmStep>(slurm, environment, it->second);
  }
  return MakeSlurm(slurm, environment);
}

}  // namespace harrow::batch
