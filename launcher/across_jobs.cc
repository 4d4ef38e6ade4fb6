#include "launcher/across_jobs.h"

#include <algorithm>
#include <array>
#include <iostream>

#include "base/number.h"
#include "base/text.h"
#include "batch/slurm_environment.h"
#include "batch/slurm_query.h"
#include "launcher/command.h"
#include "launcher/inputs.h"

namespace harrow::launcher {
namespace {

constexpr Duration kSqueueWithin = std::chrono::seconds(20);
constexpr Duration kSbatchWithin = std::chrono::seconds(60);  // it tries several times, and what it has submitted is there
constexpr const char* kSecondsFormat = "SLURM_TIME_FORMAT=%s";
// The comment comes last, as it may hold anything.
constexpr const char* kJobFormat = "%i|%T|%P|%D|%S|%e|%l|%r|%N|%k";

std::optional<WallTime> TimeAt(std::string_view seconds) {
  uint64_t value = 0;
  if (!ReadNumber(seconds, &value)) return std::nullopt;
  return WallTime(std::chrono::seconds(value));
}

}  // namespace

std::string Described(const RunJob& job) {
  return StrCat("job ", job.id, " (", Printable(job.partition), ", ", job.nodes, job.nodes == 1 ? " node)" : " nodes)");
}

RunJobs::RunJobs(const AcrossAsked& asked, std::string run_dir, std::string run_id, std::string name)
    : asked_(asked), run_dir_(std::move(run_dir)), name_(std::move(name)), mark_(StrCat("harrow run ", run_id)) {}

bool RunJobs::Look() {
  const Result<std::string> told =
      batch::RunCommand({"env", kSecondsFormat, "squeue", "--me", "-h", "-t", "all", "-o", kJobFormat}, kSqueueWithin);
  if (!told.ok()) return false;
  std::vector<RunJob> now;
  for (std::string_view rest = *told; !rest.empty();) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    std::array<std::string_view, 9> field;
    for (std::string_view& each : field) {
      each = line.substr(0, line.find('|'));
      line.remove_prefix(std::min(each.size() + 1, line.size()));
    }
    const auto known = std::find_if(jobs_.begin(), jobs_.end(), [&](const RunJob& job) { return job.id == field[0]; });
    if (known == jobs_.end() && line.find(mark_) == std::string_view::npos) continue;
    RunJob job = {.id = std::string(field[0]), .partition = std::string(field[2]), .state = std::string(field[1]), .reason = Printable(field[7], 60),
                  .node_list = Printable(field[8], 200), .said = known == jobs_.end() ? "" : known->said, .begins = TimeAt(field[4]), .ends = TimeAt(field[5]),
                  .limit = {}, .cancelled = known != jobs_.end() && known->cancelled};
    ReadNumber(field[3], &job.nodes);
    if (const Result<Duration> limit = ParseDuration(field[6]); limit.ok()) job.limit = *limit;
    now.push_back(std::move(job));
  }
  // Those that were there before this command looked are nobody's concern.
  std::erase_if(now, [&](const RunJob& job) {
    return job.over() && std::none_of(jobs_.begin(), jobs_.end(), [&](const RunJob& known) { return known.id == job.id; });
  });
  for (RunJob& job : jobs_) {
    if (std::any_of(now.begin(), now.end(), [&](const RunJob& seen) { return seen.id == job.id; })) continue;
    if (!job.over()) job.state.clear();
    now.push_back(std::move(job));
  }
  jobs_ = std::move(now);
  return true;
}

batch::SbatchAnswer RunJobs::Ask(const supervisor::Request& request, bool test_only) const {
  std::vector<std::string> given = {StrCat("--partition=", request.partition), StrCat("--nodes=", request.nodes)};
  if (request.time > Duration(0)) given.push_back(StrCat("--time=", batch::SlurmTime(request.time)));
  std::string comment = mark_;
  for (const std::string& word : asked_.sbatch) {
    constexpr std::string_view kComment = "--comment=";
    if (word.starts_with(kComment)) {
      comment = StrCat(word.substr(kComment.size()), " (", mark_, ")");
    } else {
      given.push_back(word);
    }
  }
  given.push_back(StrCat("--comment=", comment));
  std::vector<std::string> words = {"env", kSecondsFormat, "sbatch"};
  if (test_only) words.push_back("--test-only");
  for (std::string& word : batch::AddedToSbatch(batch::SbatchWords(given), batch::ParseEnvironment(Environment()),
                                                {.job_name = Printable(name_, 60), .nodes = 0}))
    words.push_back(std::move(word));
  words.insert(words.end(), given.begin(), given.end());
  if (request.least.slots > 1) words.push_back(StrCat("--mincpus=", request.least.slots));
  if (request.least.devices > 0) words.push_back(StrCat("--gres=gpu:", request.least.devices));
  const std::string script =
      batch::SbatchScript({ThisProgram(), "join", run_dir_, "--progress", "plain"}, StrCat("an allocation of ", run_dir_));
  const Result<batch::CommandEnd> end = batch::RunToEnd(words, kSbatchWithin, script);
  if (!end.ok()) return {.what = batch::SbatchAnswer::What::kNoAnswer, .why = end.status().message()};
  return batch::ReadSbatchAnswer(end->status, end->out, end->err);
}

batch::SbatchAnswer RunJobs::Estimate(const supervisor::Request& request) const {
  return Ask(request, true);
}

batch::SbatchAnswer RunJobs::Submit(const supervisor::Request& request) {
  batch::SbatchAnswer answer = Ask(request, false);
  if (answer.what == batch::SbatchAnswer::What::kTaken) {
    jobs_.push_back({.id = answer.job, .partition = request.partition, .nodes = request.nodes, .reason = {}, .node_list = {}, .said = {}, .begins = {},
                     .ends = {}, .limit = {}});
    std::cerr << "harrow: submitted " << Described(jobs_.back()) << "\n";
  }
  return answer;
}

void RunJobs::Cancel(const std::string& job) {
  for (RunJob& each : jobs_) each.cancelled |= each.id == job;
  (void)batch::RunCommand({"scancel", job}, kSqueueWithin);
}

void RunJobs::TakeBackHopeless() {
  for (const RunJob& job : jobs_) {
    const std::string never = job.pending() ? batch::NeverBegins(job.reason) : "";
    if (never.empty()) continue;
    if (!job.cancelled) {
      std::cerr << "harrow: " << Described(job) << " would never begin: " << never << "; it is taken back, and the run goes on without it\n";
    }
    Cancel(job.id);
  }
}

void RunJobs::TellChanges(bool last) {
  for (RunJob& job : jobs_) {
    if (job.cancelled || (job.pending() && !batch::NeverBegins(job.reason).empty())) continue;
    std::string said = job.said;
    if (job.pending() && job.reason != "None" && !job.reason.empty()) said = StrCat("waits: ", job.reason);
    if (job.running() && !job.node_list.empty()) said = StrCat("runs on ", job.node_list);
    if (job.over() && (last || job.state != "COMPLETING")) {
      // Slurm calls it so where the time limit has ended it, or a node was lost.
      const bool told = job.state == "TIMEOUT" || job.state == "NODE_FAIL" || job.state == "PREEMPTED" || job.state == "FAILED" ||
                        job.state == "OUT_OF_MEMORY" || job.state == "BOOT_FAIL" || job.state == "DEADLINE" || job.state == "CANCELLED";
      if (!job.said.starts_with("is over")) said = told ? StrCat("is over: ", job.state) : "is over";
    }
    if (said == job.said) continue;
    job.said = said;
    std::cerr << "harrow: " << Described(job) << " " << said << "\n";
  }
}

bool RunJobs::all_over() const {
  return std::all_of(jobs_.begin(), jobs_.end(), [](const RunJob& job) { return job.over(); });
}

std::string RunJobs::Ids() const {
  std::string ids;
  for (const RunJob& job : jobs_) {
    if (!job.over()) ids += StrCat(ids.empty() ? "" : " ", job.id);
  }
  return ids;
}

}  // namespace harrow::launcher
