#include "launcher/srun_form.h"

#include <charconv>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "batch/slurm.h"
#include "batch/slurm_query.h"
#include "launcher/command.h"
#include "launcher/inputs.h"

// What goes around: every rank says its node's name, rank 0 the run directory as well, and which CPUs were
// granted of the nodes. So rank 0 knows the nodes of the step, which need not be all of the job's, and says
// so to keeper and server by HARROW_STEP_NODES.

namespace harrow::launcher {
namespace {

constexpr Duration kRankZeroReads = std::chrono::minutes(30);  // and checks the flow, at most

std::vector<std::string> pmi;  // the step's variables, "NAME=value" each, until the exchange

bool IsPmi(std::string_view entry) {
  return entry.starts_with("PMIX_") || entry.starts_with("PMI_");
}

struct Said {
  std::vector<std::string> nodes;  // by rank
  std::string cpus, run_dir;
};

Result<Said> Exchange(const std::string& cpus, const std::string& run_dir) {
  const std::string program = batch::HelperProgram(ThisProgram(), "harrow-pmix-exchange");
  if (program.empty()) {
    return Status(
        Code::kUnavailable,
        "harrow-pmix-exchange is not installed; start `harrow run` from the batch script, without srun");
  }
  std::vector<std::string> command = {"/usr/bin/env"};
  command.insert(command.end(), pmi.begin(), pmi.end());
  command.insert(command.end(), {program, StrCat(Variable("SLURMD_NODENAME"), "\t", cpus, "\t", run_dir)});
  const Result<std::string> text = batch::RunCommand(command, kRankZeroReads);
  if (!text.ok()) return text.status();
  Said said;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line) && line != "end";) {
    const size_t first = line.find('\t'), second = line.find('\t', first + 1),
                 third = line.find('\t', second + 1);
    if (first == std::string::npos || second == first || third == first || third == std::string::npos)
      return Status(Code::kUnavailable, "harrow-pmix-exchange told nonsense");
    said.nodes.push_back(line.substr(first + 1, second - first - 1));
    if (said.nodes.size() > 1) continue;
    said.cpus = line.substr(second + 1, third - second - 1);
    said.run_dir = line.substr(third + 1);
  }
  return said;
}

}  // namespace

std::optional<int> BecomeAgentOfStep() {
  const std::string rank = Variable("PMIX_RANK");
  std::string tasks = Variable("SLURM_STEP_NUM_TASKS");
  if (tasks.empty()) tasks = Variable("SLURM_NTASKS");
  // Each would do all of it.
  if (const std::string process = Variable("SLURM_PROCID"); rank.empty() && tasks != "1" && !process.empty() && process != "0" &&
      !Variable("SLURM_STEP_ID").empty()) {
    return Fail(Status(Code::kInvalid, StrCat("this is process ", Printable(process, 20), " of ", tasks.empty() ? "several" : Printable(tasks, 20),
                                              " of a step, which know nothing of each other: only process 0 runs what it was "
                                              "given; write srun --mpi=pmix, or leave srun out")));
  }
  if (rank.empty() || Variable("SLURM_STEP_ID").empty() || Variable("SLURMD_NODENAME").empty() ||
      tasks == "1") {
    return std::nullopt;
  }
  for (const std::string& entry : Environment()) {
    if (IsPmi(entry)) pmi.push_back(entry);
  }
  for (const std::string& entry : pmi) unsetenv(entry.substr(0, entry.find('=')).c_str());
  if (rank == "0") return std::nullopt;
  const Result<Said> said = Exchange("", "");
  if (!said.ok()) return Fail(said.status());
  if (said->run_dir.empty()) return kExitDone;  // rank 0 has said why
  std::vector<std::string> words = {"agent", "--run-dir", said->run_dir};
  if (!said->cpus.empty()) words.insert(words.end(), {"--cpus", said->cpus});
  return Become(std::move(words));
}

bool TellStep(const std::string& run_dir) {
  if (pmi.empty()) return true;
  const Result<Said> said =
      Exchange(run_dir.empty() ? "" : batch::GrantedCpus(ThisProgram(), Environment()), run_dir);
  pmi.clear();
  if (!said.ok()) {
    std::cerr << "harrow: the other ranks of this step cannot be told: " << said.status().message() << "\n";
    return false;
  }
  std::string nodes;
  for (const std::string& node : said->nodes) nodes += StrCat(nodes.empty() ? "" : ",", node);
  setenv("HARROW_STEP_NODES", nodes.c_str(), 1);
  return true;
}

}  // namespace harrow::launcher
