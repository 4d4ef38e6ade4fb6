#include "keeper/keeper.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <iostream>
#include <memory>
#include <optional>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/steps/tmp_tree.h"
#include "base/text.h"
#include "batch/slurm.h"
#include "journal/journal.h"
#include "journal/snapshot.h"
#include "journal/whole_run.h"
#include "launcher/live_parts.h"
#include "launcher/command.h"
#include "launcher/exec.h"
#include "launcher/inputs.h"
#include "launcher/output_relay.h"
#include "launcher/run_access.h"
#include "launcher/stage.h"
#include "os/clock.h"
#include "os/event_loop.h"
#include "os/log.h"
#include "os/process.h"
#include "output/packed_output.h"
#include "report/progress.h"
#include "report/run_view.h"
#include "report/summary.h"
#include "run/flow_store.h"
#include "run_dir/owner.h"
#include "run_dir/part.h"
#include "wire/figures.h"

namespace harrow::launcher {
namespace {

/// Slurm sends its SIGTERM up to so long before or after the end that it told.
constexpr Duration kAtTheLimit = std::chrono::seconds(2);
constexpr size_t kMostCancelled = 10;                     // tasks that are named
constexpr Duration kDropping = std::chrono::minutes(10);  // many files are not removed at once
constexpr Duration kOnEndGrace = std::chrono::seconds(1);
constexpr Duration kLastOutput = std::chrono::seconds(1);  // of an interrupted program, for who reads it

struct KeepOptions {
  std::string part;     // run_dir::PartArgument
  std::string run_dir;  // of the run
  std::string progress = "auto";
  bool json = false;
  bool resumed = false;
  bool exec = false;
};

/// What a run says on standard error while it goes on.
class Screen {
 public:
  explicit Screen(const std::string& mode)
      : drawn_(mode == "auto" && DrawsOn(STDERR_FILENO)), plain_(mode != "none" && !drawn_) {}

  void Show(const pb::Progress& progress) {
    const Figures view = wire::FiguresOf(progress);
    if (progress.complete()) return;
    rate_.Add(view);
    if (drawn_) {
      const std::string line = progress.has_staged() ? StagingLine(progress.staged()).substr(0, Width())
                                                     : report::ProgressLine(view, rate_.rate(), Width());
      WriteTo(STDERR_FILENO, report::DrawOver(line));
      line_shown_ = true;
    } else if (plain_ && !progress.has_staged()) {
      if (const std::optional<std::string> line = lines_.Next(view, rate_.rate())) {
        WriteTo(STDERR_FILENO, *line + "\n");
      }
    }
  }
  void Say(const std::string& line) {
    Clear();
    WriteTo(STDERR_FILENO, StrCat("harrow: ", line, "\n"));
  }
  void Clear() {
    if (line_shown_) WriteTo(STDERR_FILENO, report::EraseLine());
    line_shown_ = false;
  }

 private:
  static size_t Width() {
    winsize size{};
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
  }

  bool drawn_, plain_, line_shown_ = false;
  report::RateMeter rate_;
  report::PlainProgress lines_;
};

int ExitOf(const keeper::KeeperEnd& end) {
  // A signal after the last task, while agents leave, has interrupted nothing.
  const bool settled = end.end == run::ServerEnd::kAllDone || end.end == run::ServerEnd::kSomeFailed;
  if (end.signal != 0 && !settled) return 128 + end.signal;
  switch (end.end) {
    case run::ServerEnd::kAllDone:
      return kExitDone;
    case run::ServerEnd::kSomeFailed:
      return kExitTaskFailed;
    case run::ServerEnd::kStopped:
      return kExitStopped;
    default:
      return kExitCannotGoOn;
  }
}

/// Why tasks are open, for people.
std::string WhyOpen(const keeper::KeeperEnd& end, const run::RunSettings& settings) {
  const WallTime limit{Duration(end.last.end_time_ns())};
  const bool limited = end.last.end_time_ns() > 0;
  if (end.signal != 0) {
    const char* name = sigabbrev_np(end.signal);
    std::string why = StrCat("harrow: interrupted by ", name == nullptr ? "a signal" : StrCat("SIG", name));
    if (limited && end.signal == SIGTERM && std::chrono::system_clock::now() + kAtTheLimit >= limit)
      why += " at the job's time limit";
    return why + ": ";
  }
  if (end.end == run::ServerEnd::kStopped && end.last.out_of_time()) {
    const Duration left = std::max<Duration>(limit - std::chrono::system_clock::now(), Duration(0));
    return StrCat("harrow: stopped before the job's time limit: ", FormatDuration(left),
                  " are left, of which ", FormatDuration(settings.end_margin),
                  " are kept free (end_margin), and what is open may take ",
                  FormatDuration(Duration(end.last.open_time_ns())),
                  " or more (time); it needs a longer job, or a smaller time or end_margin: ");
  }
  if (end.last.drained()) return "harrow: drained: ";
  if (end.end == run::ServerEnd::kStopped) return "harrow: stopped: ";
  return "harrow: ";
}

/// The tasks that somebody has cancelled, the first ones by name; empty: none.
std::string CancelledText(const report::RunView& run, const std::string& run_dir) {
  std::string names;
  size_t count = 0;
  for (size_t i = 0; i < run.task_count(); ++i) {
    if (run.fate(i) != journal::TaskFate::kCancelled) continue;
    if (++count <= kMostCancelled)
      names += StrCat(count == 1 ? "" : ", ", Printable(run.TaskName(TaskId(static_cast<uint32_t>(i))), 60));
  }
  if (count == 0) return {};
  if (count > kMostCancelled) names += StrCat(" and ", count - kMostCancelled, " more");
  return StrCat("cancelled: ", names, "; harrow run --resume --run-dir ", ShellQuote(run_dir), " runs ",
                count == 1 ? "it" : "them", "\n");
}

/// The end of a run for people or programs. The journal is read only where the last figures do not say all,
/// or more than was recorded.
void ShowEnd(const KeepOptions& options, const run_dir::Part& part, const run::RunSettings& settings,
             const keeper::KeeperEnd& end) {
  Figures view = wire::FiguresOf(end.last);
  report::StatusContext context;
  std::vector<report::Failure> failures;
  std::string cancelled;
  if (options.json || options.resumed || view.failed > 0 || !view.complete ||
      end.end != run::ServerEnd::kAllDone) {
    // The whole run's, of which other parts may go on.
    const auto first = part.is_first() ? Result<run_dir::Part>(part) : run_dir::OpenPart(part.run);
    const Result<journal::History> history =
        first.ok() ? journal::ReadRun(*first, journal::ReadSnapshot) : first.status();
    if (history.ok()) {
      const report::RunView run(*history);
      view = report::FiguresOf(run);
      context.run_id = history->run_id;
      context.epoch = history->epoch;
      const Result<std::unique_ptr<output::Reader>> reader =
          output::Reader::Open(*part.dir, part.dir->path());
      failures = report::FirstFailures(*history, reader.ok() ? reader->get() : nullptr);
      AddCommands(part, &failures);
      if (end.signal == 0) cancelled = CancelledText(run, options.run_dir);
    } else if (end.problem.empty() ||
               history.status().code() != Code::kNotFound) {  // no server came to make it
      std::cerr << "harrow: " << history.status().message() << "\n";
    }
  }
  if (end.signal == 0 || !failures.empty()) {
    std::cerr << report::FailuresText(failures, view.failed,
                                      StrCat("harrow logs --failed --run-dir ", options.run_dir));
  }
  if (settings.fail_fast && view.failed > 0) {
    std::cerr << "harrow: ended by the first failure (--fail-fast)\n";
  } else if (settings.max_failures > 0 && view.failed >= settings.max_failures && view.skipped > 0) {
    std::cerr << "harrow: nothing more was started after " << settings.max_failures
              << " failed tasks (--max-failures)\n";
  }
  std::cerr << cancelled;
  if (!end.problem.empty()) std::cerr << "harrow: " << end.problem << "\n";
  if (view.open() > 0) {
    std::cerr << WhyOpen(end, settings) << view.open() << " of " << view.total
              << (view.total == 1 ? " task" : " tasks") << " open; ";
    if (GoesOnElsewhere(part, settings.session_start())) {
      std::cerr << "the run goes on in another allocation; harrow status " << ShellQuote(options.run_dir) << " shows it\n";
    } else {
      std::cerr << "go on with: harrow run --resume --run-dir " << ShellQuote(options.run_dir) << "\n";
    }
  }
  if (options.json) {
    context.run_dir = options.run_dir;
    context.state =
        end.end == run::ServerEnd::kAllDone || end.end == run::ServerEnd::kSomeFailed ? "ended" : "stopped";
    context.source = "journal";
    context.note = end.problem;
    context.with_failures = true;
    context.failures = std::move(failures);
    std::cout << report::StatusJson(view, context);
  } else {
    std::cout << report::SummaryLine(view) << "\n";
  }
}

/// The same of one that only stages. Its directory is of use where something went wrong.
void ShowStagingEnd(const KeepOptions& options, const run_dir::Part& part, run::Stage stage,
                    const keeper::KeeperEnd& end) {
  if (!end.problem.empty()) std::cerr << "harrow: " << end.problem << "\n";
  if (end.end != run::ServerEnd::kAllDone && end.signal == 0)
    std::cerr << "harrow: what went on is told in " << Printable(run_dir::LogDirectory(part.dir->path()))
              << "\n";
  if (end.end == run::ServerEnd::kAllDone || end.last.staged().nodes() > 0)
    ShowStaged(end.last, stage, options.json);
}

/// The same of `harrow exec`; its exit status.
int ShowExecEnd(OutputRelay& relay, const run_dir::Part& part, const keeper::KeeperEnd& end) {
  const ExecEnd told = EndOfExec(part, end);
  const OutputRelay::End shown =
      relay.Finish(told.words, end.signal != 0 ? std::optional<Duration>(kLastOutput) : std::nullopt);
  if (!shown.damage.ok()) std::cerr << "harrow: " << shown.damage.message() << "\n";
  if (shown.error == EPIPE) return 128 + SIGPIPE;
  if (shown.error != 0)
    return Fail(Status(Code::kExhausted, StrCat("cannot write the output: ", strerrordesc_np(shown.error))));
  return shown.cut ? 128 + (shown.signal != 0 ? shown.signal : end.signal) : told.code;
}

/// The command that a run has for its end. Nothing of Harrow's waits for it but this process, and who ends
/// this process ends it, too.
void RunOnEnd(const KeepOptions& options, const run::RunSettings& settings, const keeper::KeeperEnd& end) {
  const Figures figures = wire::FiguresOf(end.last);
  const std::pair<const char*, std::string> told[] = {
      {"HARROW_EXIT_STATUS", StrCat(ExitOf(end))}, {"HARROW_RUN_DIR", options.run_dir},
      {"HARROW_SUBMIT_DIR", settings.submit_dir},  {"HARROW_TASKS", StrCat(figures.total)},
      {"HARROW_DONE", StrCat(figures.done)},       {"HARROW_FAILED", StrCat(figures.failed)},
      {"HARROW_SKIPPED", StrCat(figures.skipped)}, {"HARROW_CANCELLED", StrCat(figures.cancelled)},
      {"HARROW_PRUNED", StrCat(figures.pruned)},
      {"HARROW_OPEN", StrCat(figures.open())}};
  std::cout.flush();
  const pid_t pid = fork();
  if (pid == 0) {
    for (const auto& [name, value] : told) setenv(name, value.c_str(), 1);
    dup2(STDERR_FILENO, STDOUT_FILENO);  // the run's own output may be a document
    if (chdir(settings.submit_dir.c_str()) != 0) _exit(127);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    execlp(settings.shell.c_str(), settings.shell.c_str(), "-c", settings.on_end.c_str(), nullptr);
    _exit(127);
  }
  int status = 0;
  // Ctrl-C and a terminal that is closed reach the command itself, and may be what the starter had us ignore.
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGCHLD, SIGTERM}) sigaddset(&signals, signal);
  const Duration end_by = os::RealClock().Steady() + settings.on_end_limit;
  while (pid > 0 && waitpid(pid, &status, WNOHANG) == 0) {
    const Duration left = std::max<Duration>(end_by - os::RealClock().Steady(), Duration(0));
    const timespec wait = {.tv_sec = left / std::chrono::seconds(1),
                           .tv_nsec = (left % std::chrono::seconds(1)).count()};
    const int signal = sigtimedwait(&signals, nullptr, &wait);
    if (signal == SIGCHLD || (signal < 0 && left > Duration(0))) continue;
    (void)os::EndDescendants(kOnEndGrace);
    if (signal < 0) {
      std::cerr << "harrow: on_end took longer than on_end_limit, " << FormatDuration(settings.on_end_limit)
                << ", and was ended\n";
      return;
    }
    status = signal;  // as of a process that it ended
    break;
  }
  if (pid < 0 || status != 0) {
    std::cerr << "harrow: on_end "
              << (pid < 0 ? "could not be started" : StrCat("ended with ", os::DescribeWaitStatus(status)))
              << "\n";
  }
}

int Keep(KeepOptions options) {
  os::CloseOthersOnExec();
  const auto part = run_dir::OpenArgument(options.part);
  if (!part.ok()) return Fail(part.status());
  options.run_dir = part->run->path();
  run_dir::RunDir& dir = *part->dir;
  if (const Status logs = run_dir::LogTo(dir, run_dir::kKeeperLog); !logs.ok())
    os::LogWarning(logs.message());
  const Result<run::RunSettings> settings = run::ReadSettings(*part);
  if (!settings.ok()) return Fail(settings.status());
  const std::unique_ptr<batch::Batch> batch = batch::FindBatch({.program = ThisProgram(),
                                                                .nodes = settings->local_nodes,
                                                                .slots = settings->slots,
                                                                .pin = settings->pin},
                                                               Environment());
  const std::unique_ptr<os::EventLoop> loop = os::MakeEventLoop();
  Screen screen(options.progress);
  std::unique_ptr<OutputRelay> relay;
  if (options.exec) {
    auto started = OutputRelay::Start(*part, [] { kill(getpid(), SIGTERM); });
    if (!started.ok()) return Fail(started.status());
    relay = *std::move(started);
  }
  keeper::KeeperOptions keeper_options;
  keeper_options.program = ThisProgram();
  if (!settings->node_teardown.empty()) keeper_options.agents_leave += settings->node_limit;
  if (settings->stage == run::Stage::kDrop) keeper_options.agents_leave = kDropping;
  keeper_options.part = *part;
  keeper_options.progress = [&](const pb::Progress& progress) { screen.Show(progress); };
  keeper_options.say = [&](const std::string& line) { relay ? relay->Say(line) : screen.Say(line); };
  const keeper::KeeperEnd end = keeper::Keeper(loop.get(), batch.get(), std::move(keeper_options)).Run();
  agent::RemoveLeftTmpRoots(dir);
  screen.Clear();
  const bool stages = settings->stage != run::Stage::kNo;
  int code = ExitOf(end);
  if (relay) {
    code = ShowExecEnd(*relay, *part, end);
  } else if (stages) {
    ShowStagingEnd(options, *part, settings->stage, end);
  } else {
    ShowEnd(options, *part, *settings, end);
  }
  if (const Status released = run_dir::ReleaseOwnership(dir, dir.path()); !released.ok())
    os::LogError(released.message());
  const bool hidden = relay || stages;
  const bool ended_well = relay ? end.end != run::ServerEnd::kCannotGoOn : code == kExitDone;
  if (hidden && (ended_well || end.signal != 0)) {
    if (const Status removed = os::RealFileSystem().RemoveTree(options.run_dir); !removed.ok())
      std::cerr << "harrow: " << removed.message() << "\n";
  }
  if (!settings->on_end.empty()) RunOnEnd(options, *settings, end);
  return code;
}

const Registered kKeeper(
    {.name = "keeper",
     .summary = "The parent of a run's server and agents; what harrow run becomes",
     .example = "",
     .usage = "",
     .hidden = true,
     .setup = [](CLI::App& app) -> std::function<int()> {
       auto options = std::make_shared<KeepOptions>();
       app.add_option("--run-dir", options->part, "Run directory, or that of a part")->required()->type_name("D");
       app.add_option("--progress", options->progress, "auto, plain or none")->type_name("MODE");
       app.add_flag("--json", options->json, "The end as a JSON document");
       app.add_flag("--resumed", options->resumed, "The run had a beginning before");
       app.add_flag("--exec", options->exec, "Show what its task prints, and end as it does");
       return [options] { return Keep(*options); };
     }});

}  // namespace
}  // namespace harrow::launcher
