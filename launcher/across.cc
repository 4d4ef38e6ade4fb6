#include "launcher/across.h"

#include <algorithm>
#include <csignal>
#include <deque>
#include <iostream>
#include <memory>
#include <optional>
#include <set>

#include "base/figures.h"
#include "base/text.h"
#include "batch/slurm_site.h"
#include "journal/snapshot.h"
#include "journal/whole_run.h"
#include "launcher/across_jobs.h"
#include "launcher/across_more.h"
#include "launcher/command.h"
#include "launcher/inputs.h"
#include "launcher/live_parts.h"
#include "launcher/part_servers.h"
#include "launcher/run_access.h"
#include "os/event_loop.h"
#include "report/progress.h"
#include "report/summary.h"
#include "run/flow_store.h"
#include "wire/figures.h"

// `harrow run --across`: a run whose allocations are jobs of their own. Each job becomes `harrow join`; the one that begins first
// gets the run's first part, with all of its tasks, and the others get tasks from there. So this command owns nothing of
// the run: it submits the jobs, looks now and then at them, and at the servers that answer. When the run has ended it takes back the
// jobs that have not begun. Whoever calls it again finds the jobs by their comments (across_jobs.cc), and goes on.

namespace harrow::launcher {
namespace {

constexpr Duration kLookEvery = std::chrono::seconds(1);
constexpr Duration kAskEvery = std::chrono::seconds(3);  // of slurmctld

volatile sig_atomic_t interrupted = 0;

/// What can be told of a run's history; none: nothing is recorded.
std::optional<Figures> FiguresOnDisk(const std::shared_ptr<run_dir::RunDir>& run) {
  const auto first = run_dir::OpenPart(run);
  const auto history = first.ok() ? journal::ReadRun(*first, journal::ReadSnapshot) : first.status();
  if (!history.ok() || history->tasks.empty()) return std::nullopt;
  return report::FiguresOf(report::RunView(*history));
}

class AcrossWatch {
 public:
  AcrossWatch(const AcrossAsked& asked, const run::RunSettings& settings, std::shared_ptr<run_dir::RunDir> run)
      : asked_(asked),
        settings_(settings),
        run_(std::move(run)),
        loop_(os::MakeEventLoop()),
        jobs_(asked, run_->path(), settings.run_id, settings.name),
        servers_(loop_.get(), run_, settings.session_start()) {}

  /// Until the run is over, nothing is left that could go on with it, or somebody interrupts. `again`: jobs may be there.
  Status Until(bool again) {
    seen_ = again;
    if (again) AwaitJobs();
    // Jobs would find nothing to do.
    if (again && servers_.Ask().empty() && RunIsOver()) return {};
    if (asked_.more && interrupted == 0) HARROW_RETURN_IF_ERROR(MakeMore());
    if (!asked_.more) Missing();
    Duration looked{0};
    for (bool first = true; interrupted == 0; first = false) {
      SubmitOpen();
      const Duration now = loop_->Now().time_since_epoch();
      const bool due = (first && !again) || now - looked >= kAskEvery;
      const bool fresh = due && Look();
      if (due) looked = loop_->Now().time_since_epoch();
      const std::vector<PartServers::Told> told = servers_.Ask();
      Tell(told);
      if (told.empty() && RunIsOver()) break;
      if (more_ && (fresh || jobs_.jobs().empty())) more_->GoOn(loop_->Now(), told);
      if (told.empty() && open_.empty() && jobs_.all_over() && (more_ == nullptr || more_->hopeless()) &&
          OwnedParts(run_, settings_.session_start()).empty()) {
        jobs_.TellChanges(true);
        break;
      }
      Wait();
    }
    return {};
  }
  /// Jobs that have not begun have nothing to do any more.
  void TakeBack() {
    for (const RunJob& job : std::vector<RunJob>(jobs_.jobs())) {
      if (job.pending()) jobs_.Cancel(job.id);
    }
  }
  const RunJobs& jobs() const { return jobs_; }

 private:
  bool Look() {
    const bool answers = jobs_.Look();
    if (!answers && !std::exchange(silent_, true))
      std::cerr << "harrow: slurmctld does not answer; it is asked again, and the run goes on\n";
    if (!answers && more_) more_->Unanswered(loop_->Now());
    if (!answers) return false;
    if (std::exchange(silent_, false)) std::cerr << "harrow: slurmctld answers again\n";
    jobs_.TellChanges();
    if (more_ == nullptr) jobs_.TakeBackHopeless();
    return true;
  }
  void AwaitJobs() {
    while (interrupted == 0 && !Look()) Wait();
    if (const std::string ids = jobs_.Ids(); !ids.empty()) std::cerr << "harrow: the run goes on, or waits, in jobs " << ids << "\n";
  }
  Status MakeMore() {
    const std::vector<std::string> allowed = batch::MovePartitionsHere();
    for (bool told = false; interrupted == 0; told = true) {
      auto made = AcrossMore::Make(asked_, allowed, settings_, run_, &jobs_);
      if (made.ok()) {
        more_ = *std::move(made);
        return {};
      }
      if (made.status().code() != Code::kUnavailable) return made.status();
      if (!told) std::cerr << "harrow: Slurm does not tell of its partitions (" << made.status().message() << "); it is asked again\n";
      Wait();
    }
    return {};
  }
  /// Of what is asked for, that for which there is no job.
  void Missing() {
    std::set<std::string> taken;
    for (const AcrossAsked::Allocation& each : asked_.allocations) {
      const auto& jobs = jobs_.jobs();
      const auto its = std::find_if(jobs.begin(), jobs.end(), [&](const RunJob& job) {
        return !job.over() && job.partition == each.partition && job.nodes == each.nodes && !taken.contains(job.id);
      });
      if (its == jobs.end()) {
        open_.push_back(each);
      } else {
        taken.insert(its->id);
      }
    }
  }
  /// While slurmctld does not answer the rest is kept.
  void SubmitOpen() {
    using What = batch::SbatchAnswer::What;
    while (!open_.empty() && interrupted == 0 && loop_->Now() >= again_) {
      if (silent_ && !jobs_.Look()) break;  // what was submitted without an answer is there, or is not
      const AcrossAsked::Allocation each = open_.front();
      if (Listed(each)) {
        open_.pop_front();
        continue;
      }
      const batch::SbatchAnswer answer = jobs_.Submit({.partition = each.partition, .nodes = each.nodes, .time = asked_.time});
      if (answer.what == What::kNoAnswer) {
        again_ = loop_->Now() + kAskEvery;
        unsure_ = true;
        if (!std::exchange(silent_, true))
          std::cerr << "harrow: slurmctld does not answer (" << answer.why << "); it is asked again, and what is there goes on\n";
        return;
      }
      unsure_ = false;
      if (std::exchange(silent_, false)) std::cerr << "harrow: slurmctld answers again\n";
      open_.pop_front();
      if (answer.what == What::kRefused)
        std::cerr << "harrow: no allocation of " << each.nodes << (each.nodes == 1 ? " node" : " nodes") << " in partition "
                  << Printable(each.partition) << ": " << answer.why << "; the run goes on without it\n";
    }
  }
  /// The first of open_ was submitted, though nobody answered.
  bool Listed(const AcrossAsked::Allocation& each) {
    if (!unsure_) return false;
    const auto& jobs = jobs_.jobs();
    const auto its = std::count_if(jobs.begin(), jobs.end(), [&](const RunJob& job) {
      return !job.over() && job.partition == each.partition && job.nodes == each.nodes;
    });
    const auto wanted = [&](const auto& list) {
      return std::count_if(list.begin(), list.end(), [&](const auto& one) { return one.partition == each.partition && one.nodes == each.nodes; });
    };
    return its > wanted(asked_.allocations) - wanted(open_);
  }
  void Tell(const std::vector<PartServers::Told>& told) {
    for (const PartServers::Told& server : told) {
      for (const pb::NodeStatus& node : server.progress.node()) {
        if ((node.state() == "lost" || node.state() == "absent") && lost_.insert({server.part, node.name()}).second)
          std::cerr << "harrow: node " << Printable(node.name()) << (server.job.empty() ? "" : StrCat(" of job ", server.job)) << " is "
                    << node.state() << "; the run goes on without it\n";
      }
    }
    if (told.empty()) return;
    seen_ = true;
    const Figures figures = wire::FiguresOf(told.front().progress);
    rate_.Add(figures);
    if (const auto line = lines_.Next(figures, rate_.rate())) std::cerr << *line << "\n";
  }
  bool RunIsOver() const {
    // It may have ended before anybody was asked.
    if (!seen_ && !OwnedParts(run_, settings_.session_start()).empty()) return false;
    const std::optional<Figures> figures = FiguresOnDisk(run_);
    return figures && figures->total > 0 && figures->open() == 0;
  }
  void Wait() {
    loop_->After(kLookEvery, [this] { loop_->Stop(); });
    loop_->Run();
  }

  const AcrossAsked asked_;
  const run::RunSettings settings_;
  std::shared_ptr<run_dir::RunDir> run_;
  std::unique_ptr<os::EventLoop> loop_;
  RunJobs jobs_;
  PartServers servers_;
  std::unique_ptr<AcrossMore> more_;                // of "auto"
  std::deque<AcrossAsked::Allocation> open_;        // to be submitted
  Time again_{};
  bool silent_ = false, unsure_ = false, seen_ = false;
  std::set<std::pair<uint32_t, std::string>> lost_;  // nodes, by part
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
  return figures.missed() > 0 ? kExitTaskFailed : kExitDone;
}

}  // namespace

int RunAcross(const AcrossAsked& asked, const std::string& run_dir, bool json, bool again) {
  const auto run = run_dir::RunDir::Open(run_dir);
  if (!run.ok()) return Fail(run.status());
  const auto begun = run_dir::OpenPart(*run);
  if (!begun.ok() && begun.status().code() != Code::kNotFound) return Fail(begun.status());
  const Result<run::RunSettings> settings = begun.ok() ? run::ReadSettings(*begun) : run::ReadSettings(**run, run_dir);
  if (!settings.ok()) return Fail(settings.status());
  struct sigaction action = {};
  action.sa_handler = [](int signal) { interrupted = signal; };
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
  AcrossWatch watch(asked, *settings, *run);
  const Status watched = watch.Until(again);
  if (!watched.ok()) return Fail(watched);
  if (interrupted != 0) {
    const std::string ids = watch.jobs().Ids();
    std::cerr << "harrow: the run goes on in its allocations; harrow status " << ShellQuote(run_dir) << " shows it"
              << (ids.empty() ? "" : StrCat(", scancel ", ids, " ends them")) << "\n";
    return 128 + interrupted;
  }
  watch.TakeBack();
  if (watch.jobs().jobs().empty() && !again && run_dir::OpenPart(*run).status().code() == Code::kNotFound) {
    (void)os::RealFileSystem().RemoveTree(run_dir);
    std::cerr << "harrow: no allocation was to be had, and nothing is run\n";
    return kExitUsage;
  }
  const auto first = run_dir::OpenPart(*run);
  if (first.status().code() == Code::kNotFound) {
    std::cerr << "harrow: no allocation has begun, and nothing was run; the run is in " << Printable(run_dir) << "\n";
    return kExitStopped;
  }
  return first.ok() ? ShowRun(*first, json) : Fail(first.status());
}

}  // namespace harrow::launcher
