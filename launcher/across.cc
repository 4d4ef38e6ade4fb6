#include "launcher/across.h"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>

#include "base/figures.h"
#include "base/text.h"
#include "batch/sbatch.h"
#include "batch/slurm_query.h"
#include "client/client.h"
#include "journal/snapshot.h"
#include "journal/whole_run.h"
#include "launcher/command.h"
#include "launcher/inputs.h"
#include "launcher/live_parts.h"
#include "launcher/run_access.h"
#include "launcher/sbatch_call.h"
#include "os/event_loop.h"
#include "report/progress.h"
#include "report/summary.h"
#include "run/flow_store.h"
#include "wire/figures.h"

// `harrow run --across`: a run whose allocations are jobs of their own. Each job becomes `harrow join`; the one that begins first
// gets the run's first part, with all of its tasks, and the others get tasks from there. So this command owns nothing of
// the run: it submits the jobs, looks now and then at them, and at whichever server answers. When the run has ended it takes back the
// jobs that have not begun.

namespace harrow::launcher {
namespace {

constexpr Duration kLookEvery = std::chrono::seconds(1);
constexpr Duration kAskEvery = std::chrono::seconds(3);  // of slurmctld
constexpr Duration kAnswerWithin = std::chrono::seconds(10);
// Options that an entry KEY=VALUE may set.
constexpr std::string_view kSbatchKeys[] = {"time", "account", "qos", "reservation", "constraint", "comment"};

volatile sig_atomic_t interrupted = 0;

Status Wrong(std::string_view entry, std::string_view what) {
  return Status(Code::kInvalid,
                StrCat("--across: '", Printable(entry), "': ", what, "; expected PARTITION:NODES[xCOUNT],..., as fast:2,slow:4x3,time=1h"));
}

bool ParseCount(std::string_view text, uint32_t* count) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *count);
  return error == std::errc() && end == text.data() + text.size() && *count > 0;
}

struct Job {
  std::string id;
  AcrossAsked::Allocation asked;
  std::string state = "PENDING", said{};  // what was said of it last
  bool gone() const { return state.empty(); }
  bool over() const { return gone() || (state != "PENDING" && state != "RUNNING" && state != "CONFIGURING" && state != "COMPLETING" && state != "SUSPENDED"); }
};

std::string Described(const Job& job) {
  return StrCat("job ", job.id, " (", Printable(job.asked.partition), ", ", job.asked.nodes, job.asked.nodes == 1 ? " node)" : " nodes)");
}

std::vector<Job> Submit(const AcrossAsked& asked, const std::string& run_dir, const std::string& name) {
  std::vector<Job> jobs;
  for (const AcrossAsked::Allocation& each : asked.allocations) {
    std::vector<std::string> given = {StrCat("--partition=", each.partition), StrCat("--nodes=", each.nodes)};
    given.insert(given.end(), asked.sbatch.begin(), asked.sbatch.end());
    std::vector<std::string> words = batch::AddedToSbatch(batch::SbatchWords(given), batch::ParseEnvironment(Environment()),
                                                          {.job_name = Printable(name, 60), .nodes = 0});
    words.insert(words.end(), given.begin(), given.end());
    std::string heard;
    const std::string script =
        batch::SbatchScript({ThisProgram(), "join", run_dir, "--progress", "plain"}, StrCat("an allocation of ", run_dir));
    const int code = CallSbatch(words, script, [&](std::string_view said) { heard += said; });
    const std::optional<std::string> id = batch::SubmittedJob(heard);
    if (code != 0 || !id) {
      std::cerr << "harrow: no allocation in partition " << Printable(each.partition) << ": sbatch "
                << (code != 0 ? StrCat("refused it (exit status ", code, ")") : "did not tell a job's number") << "\n";
      continue;
    }
    jobs.push_back({.id = *id, .asked = each});
  }
  return jobs;
}

/// What slurmctld says of the jobs; those that it does not know any more are gone. False: it did not answer.
bool AskForJobs(std::vector<Job>* jobs, std::map<std::string, std::string>* reasons) {
  std::string ids;
  for (const Job& job : *jobs) ids += StrCat(ids.empty() ? "" : ",", job.id);
  const Result<std::string> told =
      batch::RunCommand({"squeue", "-h", "-t", "all", "-j", ids, "-o", "%i %T %R"}, kAnswerWithin);
  // All of them are unknown: that is an error of squeue's.
  if (!told.ok() && told.status().message().find("Invalid job id") == std::string::npos) return false;
  std::map<std::string, std::string> states;
  std::istringstream lines(told.ok() ? *told : "");
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string id, state, reason;
    fields >> id >> state;
    std::getline(fields, reason);
    states[id] = state;
    const size_t begin = reason.find_first_not_of(" ("), end = reason.find_last_not_of(')');
    (*reasons)[id] = begin == std::string::npos ? "" : reason.substr(begin, end + 1 - begin);
  }
  for (Job& job : *jobs) job.state = states.contains(job.id) ? states[job.id] : "";
  return true;
}

class Watch {
 public:
  Watch(std::shared_ptr<run_dir::RunDir> run, WallTime session, std::vector<Job> jobs)
      : run_(std::move(run)), session_(session), jobs_(std::move(jobs)), loop_(os::MakeEventLoop()) {}

  /// Until the run is over, no job is left that could go on with it, or somebody interrupts.
  void Until() {
    Duration asked{0};
    bool first = true;
    while (interrupted == 0) {
      const Duration now = loop_->Now().time_since_epoch();
      if (first || now - asked >= kAskEvery) {
        asked = now;
        first = false;
        if (AskForJobs(&jobs_, &reasons_)) TellJobs();
      }
      if (Progress()) return;
      // Somebody else may have given it an allocation.
      const bool own_over = std::all_of(jobs_.begin(), jobs_.end(), [](const Job& job) { return job.over(); });
      if (own_over && client_ == nullptr && OwnedParts(run_, session_).empty()) return;
      Wait();
    }
  }
  /// Jobs that have not begun have nothing to do any more.
  void TakeBack() {
    for (const Job& job : jobs_) {
      if (job.state == "PENDING") (void)batch::RunCommand({"scancel", job.id}, kAnswerWithin);
    }
  }
  std::string JobIds() const {
    std::string ids;
    for (const Job& job : jobs_) {
      if (!job.over()) ids += StrCat(ids.empty() ? "" : " ", job.id);
    }
    return ids;
  }

 private:
  void TellJobs() {
    for (Job& job : jobs_) {
      const std::string& reason = reasons_[job.id];
      std::string said = job.state == "PENDING"   ? StrCat("waits: ", Printable(reason))
                         : job.state == "RUNNING" ? StrCat("runs on ", Printable(reason))
                         : job.over()             ? "is over"
                                                  : job.said;
      if (said == job.said) continue;
      job.said = said;
      std::cerr << "harrow: " << Described(job) << " " << said << "\n";
    }
  }
  /// Of whichever server answers. True: the run has ended.
  bool Progress() {
    client::Options options;
    options.patience = Duration(0);
    if (client_ == nullptr) {
      for (const OwnedPart& owned : OwnedParts(run_, session_)) {
        auto client = client::Client::Connect(loop_.get(), *owned.part.dir, owned.part.dir->path(), options);
        if (!client.ok()) continue;
        client_ = *std::move(client);
        seen_ = true;
        break;
      }
    }
    if (client_ == nullptr) return seen_ && RunIsOver();
    const auto progress = client_->Progress(false);
    if (!progress.ok()) {
      client_.reset();
      return false;
    }
    const Figures figures = wire::FiguresOf(*progress);
    rate_.Add(figures);
    if (const auto line = lines_.Next(figures, rate_.rate())) std::cerr << *line << "\n";
    return false;
  }
  bool RunIsOver() const {
    const auto first = run_dir::OpenPart(run_);
    const auto history = first.ok() ? journal::ReadRun(*first, journal::ReadSnapshot) : first.status();
    return history.ok() && report::FiguresOf(report::RunView(*history)).open() == 0;
  }
  void Wait() {
    loop_->After(kLookEvery, [this] { loop_->Stop(); });
    loop_->Run();
  }

  std::shared_ptr<run_dir::RunDir> run_;
  WallTime session_;
  std::vector<Job> jobs_;
  std::map<std::string, std::string> reasons_;
  std::unique_ptr<os::EventLoop> loop_;
  std::unique_ptr<client::Client> client_;
  bool seen_ = false;
  report::RateMeter rate_;
  report::PlainProgress lines_;
};

int ShowRun(const run_dir::Part& first, bool json) {
  const auto history = journal::ReadRun(first, journal::ReadSnapshot);
  if (!history.ok()) return Fail(history.status());
  const report::RunView run(*history);
  const Figures figures = report::FiguresOf(run);
  const std::string& run_dir = first.run->path();
  if (figures.failed > 0) {
    std::cerr << report::FailuresText(report::FirstFailures(*history, nullptr), figures.failed,
                                      StrCat("harrow logs --failed --run-dir ", run_dir));
  }
  if (figures.open() > 0) {
    std::cerr << "harrow: no allocation is left, and " << figures.open() << " of " << figures.total
              << " tasks are open; go on with: harrow run --resume --run-dir " << ShellQuote(run_dir) << ", or give it others: harrow join "
              << ShellQuote(run_dir) << " in a job\n";
  }
  if (json) {
    report::StatusContext context;
    context.run_dir = run_dir;
    context.run_id = history->run_id;
    context.state = figures.open() > 0 ? "stopped" : "ended";
    context.source = "journal";
    std::cout << report::StatusJson(figures, context);
  } else {
    std::cout << report::SummaryLine(figures) << "\n";
  }
  if (figures.open() > 0) return kExitStopped;
  return figures.failed + figures.skipped + figures.cancelled > 0 ? kExitTaskFailed : kExitDone;
}

}  // namespace

Result<AcrossAsked> ParseAcross(std::string_view text) {
  AcrossAsked asked;
  for (std::string_view rest = text; !rest.empty() || asked.allocations.empty();) {
    const size_t comma = rest.find(',');
    const std::string_view entry = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    if (const size_t equals = entry.find('='); equals != std::string_view::npos) {
      const std::string_view key = entry.substr(0, equals);
      if (std::find(std::begin(kSbatchKeys), std::end(kSbatchKeys), key) == std::end(kSbatchKeys))
        return Wrong(entry, "no such option; time, account, qos, reservation, constraint and comment are sbatch's");
      if (equals + 1 == entry.size()) return Wrong(entry, "nothing stands behind the =");
      asked.sbatch.push_back(StrCat("--", entry));
      if (rest.empty() && asked.allocations.empty()) return Wrong(entry, "no partition is named");
      continue;
    }
    const size_t colon = entry.rfind(':');
    AcrossAsked::Allocation each{.partition = std::string(entry.substr(0, colon))};
    if (each.partition.empty()) return Wrong(entry, "no partition is named");
    uint32_t times = 1;
    if (colon != std::string_view::npos) {
      const std::string_view size = entry.substr(colon + 1);
      const size_t x = size.find('x');
      if (!ParseCount(size.substr(0, x), &each.nodes)) return Wrong(entry, "no number of nodes");
      if (x != std::string_view::npos && !ParseCount(size.substr(x + 1), &times))
        return Wrong(entry, "no number of allocations");
    }
    constexpr uint32_t kMost = 1000;
    if (asked.allocations.size() + times > kMost) return Wrong(entry, "more than 1000 allocations");
    asked.allocations.insert(asked.allocations.end(), times, each);
  }
  return asked;
}

int RunAcross(const AcrossAsked& asked, const std::string& run_dir, const std::string& name, bool json) {
  const auto run = run_dir::RunDir::Open(run_dir);
  if (!run.ok()) return Fail(run.status());
  const Result<run::RunSettings> settings = run::ReadSettings(**run, run_dir);
  if (!settings.ok()) return Fail(settings.status());
  struct sigaction action = {};
  action.sa_handler = [](int signal) { interrupted = signal; };
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
  std::vector<Job> jobs = Submit(asked, run_dir, name);
  if (jobs.empty()) {
    (void)os::RealFileSystem().RemoveTree(run_dir);
    std::cerr << "harrow: no allocation was to be had, and nothing is run\n";
    return kExitUsage;
  }
  Watch watch(*run, settings->session_start(), std::move(jobs));
  watch.Until();
  if (interrupted != 0) {
    const std::string ids = watch.JobIds();
    std::cerr << "harrow: the run goes on in its allocations; harrow status " << ShellQuote(run_dir) << " shows it"
              << (ids.empty() ? "" : StrCat(", scancel ", ids, " ends them")) << "\n";
    return 128 + interrupted;
  }
  watch.TakeBack();
  const auto first = run_dir::OpenPart(*run);
  if (first.status().code() == Code::kNotFound) {
    std::cerr << "harrow: no allocation has begun, and nothing was run; the run is in " << Printable(run_dir) << "\n";
    return kExitStopped;
  }
  return first.ok() ? ShowRun(*first, json) : Fail(first.status());
}

}  // namespace harrow::launcher
