#include <algorithm>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <iostream>
#include <memory>
#include <numeric>
#include <optional>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "batch/slurm.h"
#include "config/run_options.h"
#include "formats/command_form.h"
#include "formats/load.h"
#include "formats/output_check.h"
#include "formats/selection.h"
#include "journal/journal.h"
#include "launcher/command.h"
#include "launcher/inputs.h"
#include "launcher/other_runs.h"
#include "launcher/resume_place.h"
#include "launcher/srun_form.h"
#include "os/clock.h"
#include "run/flow_store.h"
#include "run/resume.h"
#include "run_dir/find.h"
#include "run_dir/names.h"
#include "run_dir/owner.h"
#include "run_dir/part.h"
#include "run_dir/rendezvous.h"

// `harrow run`: reads the flow or takes it from an earlier run, decides what is to be run, makes the run
// directory ready, and becomes the keeper by exec, so that the parsed flow's memory is free while the run
// goes on. The process stays the same: the part of the run that it owns is still its own.

namespace harrow::launcher {
namespace {

constexpr int kMostSameName = 1000;
constexpr size_t kListed = 10;  // names of tasks shown in a line

struct RunArguments {
  FlowArguments flow;
  std::vector<config::Setting> settings;  // as given on the command line
  std::vector<std::string> targets;
  bool resume = false, rerun_failed = false, stale = false, dry_run = false, json = false;
};

/// What is about to be run.
struct Plan {
  graph::Graph graph;
  std::vector<bool> unwanted;
  run::RunSettings settings;
  std::vector<std::string> notices;
};

struct OptionInfo {
  const char* key;
  const char* type;  // nullptr: a flag, with `value`
  const char* value;
  const char* help;
};
constexpr OptionInfo kSettings[] = {
    {"order", "P", nullptr, "auto (default), fifo, lifo, hrf, lifo+hrf, rank+hrf"},
    {"no-steal", nullptr, "steal", "Idle slots take nothing from other nodes' queues"},
    {"no-locality", nullptr, "locality", "Do not place tasks where their files are"},
    {"files", "MODE", nullptr, "shared (default) or local: where tasks' files are"},
    {"run-dir", "D", nullptr, "Run directory (default harrow-<job or date>)"},
    {"retries", "N", nullptr, "More attempts for a task that fails (default 0)"},
    {"fail-fast", nullptr, "fail-fast", "End the run at the first task that fails"},
    {"max-failures", "N", nullptr, "Start nothing more after N failed tasks"},
    {"slots", "N", nullptr, "One-core tasks at once on a node (default: its cores)"},
    {"local-nodes", "K", nullptr, "Divide this machine into K pretend nodes"},
    {"output-limit", "BYTES", nullptr, "Keep so much of a task's stdout and stderr each"},
    {"progress", "MODE", nullptr, "auto (default), plain or none"},
};

std::string SettingKey(std::string_view option) {
  std::string key(option);
  std::replace(key.begin(), key.end(), '-', '_');
  return key;
}

std::vector<std::pair<std::string, std::string>> SubmitEnvironment() {
  std::vector<std::pair<std::string, std::string>> variables;
  for (const std::string& entry : Environment()) {
    const size_t equals = entry.find('=');
    if (equals != std::string::npos && equals > 0)
      variables.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return variables;
}

std::string JobId() {
  const std::string job = batch::JobWithRestarts(Environment());
  return job.substr(0, job.find('.'));
}

std::string DateName() {
  const time_t now = time(nullptr);
  tm parts{};
  localtime_r(&now, &parts);
  char text[32];
  strftime(text, sizeof text, "%Y%m%d-%H%M%S", &parts);
  return text;
}

std::string RandomId() {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string id;
  for (const char c : run_dir::NewKey().substr(0, 8)) {
    id += kDigits[static_cast<uint8_t>(c) >> 4];
    id += kDigits[static_cast<uint8_t>(c) & 15];
  }
  return id;
}

std::string Absolute(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  return error ? path : absolute.lexically_normal().string();
}

std::string Names(const graph::Graph& graph, const std::vector<TaskId>& tasks) {
  std::string text;
  for (size_t i = 0; i < tasks.size() && i < kListed; ++i) {
    text += StrCat(i > 0 ? ", " : "", Printable(graph.TaskName(tasks[i]), 60));
  }
  if (tasks.size() > kListed) text += StrCat(" and ", tasks.size() - kListed, " more");
  return text;
}

/// Reads the flow that the command names and all settings. kInvalid: problems in the input.
Status LoadPlan(os::FileSystem& fs, const RunArguments& arguments, Plan* plan) {
  formats::LoadOptions load;
  load.need_commands = load.to_run = load.inputs_must_exist = load.check_outputs = true;
  formats::Flow flow;
  HARROW_RETURN_IF_ERROR(
      LoadFlow(fs, arguments.flow, arguments.settings, load, &plan->graph, &flow, &plan->settings));
  plan->notices = std::move(flow.notices);
  if (plan->settings.name.empty()) plan->settings.name = flow.name;
  for (const formats::Input& input : arguments.flow.Inputs()) plan->settings.sources.push_back(input.path);
  plan->settings.submit_dir = RealPath(".");
  return Status();
}

Status Select(os::FileSystem& fs, const RunArguments& arguments, Plan* plan) {
  if (arguments.targets.empty() && !arguments.stale) return Status();
  std::vector<bool> wanted(plan->graph.task_count(), true);
  if (!arguments.targets.empty()) {
    Result<std::vector<bool>> needed = formats::SelectTargets(plan->graph, arguments.targets);
    if (!needed.ok()) return needed.status();
    wanted = std::move(*needed);
  }
  if (arguments.stale) {
    const Result<std::vector<bool>> stale = formats::SelectStale(plan->graph, fs, plan->settings.submit_dir);
    if (!stale.ok()) return stale.status();
    for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = wanted[i] && (*stale)[i];
  }
  plan->unwanted = std::move(wanted);
  plan->unwanted.flip();
  return Status();
}

/// One word of a shell (bash) in one line, whatever it holds, without a byte that a terminal would obey.
std::string QuoteInLine(std::string_view text) {
  if (Printable(text, text.size() + 1) == text) return ShellQuote(text);
  std::string quoted = "$'";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      quoted += "\\n";
    } else if (byte < 32 || byte >= 127) {
      char octal[8];
      std::snprintf(octal, sizeof octal, "\\%03o", byte);
      quoted += octal;
    } else {
      if (c == '\\' || c == '\'') quoted += '\\';
      quoted += c;
    }
  }
  return quoted + "'";
}

/// What a task runs, as it can be pasted into a shell in the submit directory: with its directory, variables and shell.
std::string ToPaste(const Plan& plan, TaskId task) {
  const graph::Profile& profile = plan.graph.profile(task);
  const graph::CommandForm form = plan.graph.form(task);
  std::string text(plan.graph.command(task));
  if (form != graph::CommandForm::kShell && (form == graph::CommandForm::kArgv || QuoteInLine(text).starts_with("$'"))) {
    const std::string_view separators = form == graph::CommandForm::kArgv ? std::string_view("\0", 1) : " \t";
    std::string words;
    for (std::string_view rest = text;;) {
      const size_t end = rest.find_first_of(separators);
      const std::string_view word = rest.substr(0, end);
      // Several blanks in a text are one; an argument of a list may be empty.
      if (!word.empty() || form == graph::CommandForm::kArgv)
        words += StrCat(words.empty() ? "" : " ", QuoteInLine(word));
      if (end == std::string_view::npos) break;
      rest.remove_prefix(end + 1);
    }
    text = std::move(words);
  }
  const std::string& shell = profile.shell.empty() ? plan.settings.shell : profile.shell;
  const bool lines = QuoteInLine(text).starts_with("$'");
  if (form == graph::CommandForm::kShell && (lines || !profile.env.empty() || shell != "/bin/sh"))
    text = StrCat(ShellQuote(shell), " -c ", QuoteInLine(text));
  if (!profile.env.empty()) {
    std::string variables = "env";
    for (const auto& [name, value] : profile.env) variables += StrCat(" ", QuoteInLine(StrCat(name, "=", value)));
    text = StrCat(variables, " ", text);
  }
  return profile.cwd.empty() ? text : StrCat("(cd ", QuoteInLine(profile.cwd), " && ", text, ")");
}

/// `--dry-run`: the tasks that would be run, prerequisites first, a line each.
int ShowPlan(const Plan& plan, const std::vector<bool>& done) {
  std::vector<TaskId> tasks;
  for (uint32_t i = 0; i < plan.graph.task_count(); ++i) {
    const bool skip = (i < plan.unwanted.size() && plan.unwanted[i]) || (i < done.size() && done[i]);
    if (!skip) tasks.push_back(TaskId(i));
  }
  std::stable_sort(tasks.begin(), tasks.end(),
                   [&](TaskId a, TaskId b) { return plan.graph.level(a) > plan.graph.level(b); });
  for (const TaskId task : tasks) {
    std::cout << Printable(plan.graph.TaskName(task), 1024) << "\t" << ToPaste(plan, task) << "\n";
  }
  std::cerr << "harrow: " << tasks.size() << " of " << plan.graph.task_count() << " tasks would be run\n";
  return kExitDone;
}

using run_dir::Part;

/// A run, or a part of one, lies there.
bool IsUsed(run_dir::RunDir& dir) {
  const std::string& path = dir.path();
  for (const std::string& used : {run_dir::FlowPath(path), run_dir::JournalPath(path), run_dir::OwnerPath(path),
                                  run_dir::ResumeReadyPath(path)}) {
    if (dir.Stat(used).status().code() != Code::kNotFound) return true;
  }
  return false;
}

/// What is wrong with a directory that cannot become a run directory, in one line.
Status CannotUse(const std::string& run_dir, const Status& why) {
  const bool refused = why.code() == Code::kExists || why.code() == Code::kInvalid;
  return Status(refused ? why.code() : Code::kUnavailable,
                StrCat("run directory ", run_dir, ": ", why.message()));
}

Status Own(const Part& part) {
  const std::string job = batch::JobWithRestarts(Environment());
  return run_dir::TakeOwnership(*part.dir, part.dir->path(), run_dir::ThisProcess(job), [&](const std::string& other) {
    return batch::JobRuns(ThisProgram(), other, job);
  });
}

void Release(const Part& part) {
  (void)run_dir::ReleaseOwnership(*part.dir, part.dir->path());
}

Result<Part> TakeUnused(const std::string& run_dir) {
  const Status used(Code::kExists, StrCat("run directory ", run_dir,
                                          " is used already; go on with --resume, or name "
                                          "another with --run-dir"));
  const auto dir = run_dir::RunDir::Make(run_dir);
  if (!dir.ok()) return CannotUse(run_dir, dir.status());
  if (IsUsed(**dir)) return used;
  Result<Part> part = run_dir::MakePart(*dir);
  if (!part.ok()) return CannotUse(run_dir, part.status());
  if (IsUsed(*part->dir)) return used;
  if (const Status owned = Own(*part); !owned.ok()) return CannotUse(run_dir, owned);
  return part;
}

std::string UnaskedRunDirectory() {
  const std::string job = JobId();
  return Absolute(StrCat("harrow-", job.empty() ? DateName() : job));
}

/// The directory that was asked for, or one named after job or date: of several runs that begin in the same
/// second each gets its own, and where another user was first the next name is taken.
Result<Part> TakeRunDirectory(const std::string& asked) {
  if (!asked.empty()) return TakeUnused(Absolute(asked));
  const std::string first = UnaskedRunDirectory();
  Result<Part> taken = Status();
  for (int number = 1; number <= kMostSameName; ++number) {
    taken = TakeUnused(number == 1 ? first : StrCat(first, "-", number));
    if (taken.ok() || taken.status().code() != Code::kExists) break;
  }
  return taken;
}

/// Two runs of one job know nothing of each other.
void WarnOfOtherRuns(const Plan& plan, const std::string& run_dir) {
  if (plan.settings.slots > 0) return;
  const std::string other =
      OtherRunOfJob(os::RealFileSystem(), run_dir, batch::JobWithRestarts(Environment()));
  if (other.empty()) return;
  std::cerr << "harrow: warning: " << Printable(other)
            << " runs in this job as well, and each takes all cores; give each its share with --slots N, or run "
               "both as one: harrow run FILE FILE\n";
}

int BecomeKeeper(const Plan& plan, const RunArguments& arguments, const Part& part, bool resumed) {
  const std::string& run_dir = part.run->path();
  WarnOfOtherRuns(plan, run_dir);
  if (!TellStep(run_dir)) {
    Release(part);
    return kExitCannotGoOn;
  }
  constexpr const char* kModes[] = {"auto", "plain", "none"};
  std::vector<std::string> words = {"keeper", "--run-dir", run_dir, "--progress",
                                    kModes[static_cast<int>(plan.settings.progress)]};
  if (arguments.json) words.push_back("--json");
  if (resumed) words.push_back("--resumed");
  return Become(std::move(words));
}

void Notice(const Plan& plan) {
  for (const std::string& notice : plan.notices) std::cerr << notice << "\n";
}

Status Prepare(const Part& part) {
  HARROW_RETURN_IF_ERROR(part.dir->MakeDirectories(run_dir::LogDirectory(part.dir->path())));
  return part.dir->MakeDirectories(run_dir::OutputDirectory(part.dir->path()));
}

int StartNew(os::FileSystem& fs, const RunArguments& arguments) {
  Plan plan;
  if (arguments.flow.Inputs().empty()) {
    std::cerr << "harrow: no flow file; name one (harrow run tasks.txt), - for standard input, or --resume\n";
    return kExitUsage;
  }
  if (const Status loaded = LoadPlan(fs, arguments, &plan); !loaded.ok()) return FailInput(loaded);
  if (const Status selected = Select(fs, arguments, &plan); !selected.ok()) return Fail(selected);
  Notice(plan);
  if (arguments.dry_run) return ShowPlan(plan, {});
  if (arguments.stale && !arguments.json &&
      std::find(plan.unwanted.begin(), plan.unwanted.end(), false) == plan.unwanted.end()) {
    std::cerr << "harrow: nothing is to be run: all outputs are there, and none is older than what it is made from\n";
    return kExitDone;
  }
  const std::string wanted =
      plan.settings.run_dir.empty() ? UnaskedRunDirectory() : Absolute(plan.settings.run_dir);
  const Status apart = formats::CheckRunDirectory(fs, plan.graph, plan.settings.submit_dir, wanted);
  if (!apart.ok()) return FailInput(apart);
  const Result<Part> taken = TakeRunDirectory(plan.settings.run_dir);
  if (!taken.ok()) return Fail(taken.status());
  run_dir::RunDir& run = *taken->run;
  const std::string& run_dir = run.path();
  plan.settings.run_id = RandomId();
  plan.settings.flow_id = plan.settings.run_id;
  plan.settings.job_id = JobId();
  plan.settings.env = SubmitEnvironment();
  plan.settings.started = os::RealClock().Now();
  Status ready = Prepare(*taken);
  if (ready.ok()) ready = run::WriteFlow(run, run_dir, plan.settings, plan.graph, plan.unwanted);
  if (!ready.ok()) {
    Release(*taken);
    return Fail(CannotUse(run_dir, ready));
  }
  if (plan.settings.run_dir.empty() && plan.settings.progress != config::Progress::kNone) {
    std::cerr << "harrow: run directory " << Printable(run_dir.substr(run_dir.rfind('/') + 1)) << "\n";
  }
  return BecomeKeeper(plan, arguments, *taken, false);
}

/// The earlier run as it stands on disk.
struct Earlier {
  run::StoredFlow flow;
  journal::History history;
};

/// `owned`: what an interrupted resume left is finished; else it is read where it lies, and nothing is moved.
Result<Earlier> ReadEarlier(const Part& part, bool owned) {
  const auto& dir = part.dir;
  if (owned) HARROW_RETURN_IF_ERROR(run::FinishReplacement(*dir));
  Earlier earlier;
  const std::string ready = run::HomeOf(*dir, dir->path(), run_dir::kFlow);
  Result<run::StoredFlow> flow =
      ready == dir->path() ? run::ReadFlow(part) : run::ReadFlow(*dir, ready);
  if (!flow.ok()) return flow.status();
  earlier.flow = std::move(*flow);
  const std::string home = run::HomeOf(*dir, dir->path(), run_dir::kJournal);
  Result<journal::History> history =
      home == dir->path() ? journal::ReadHistory(dir) : journal::ReadHistory(home);
  if (history.ok()) {
    earlier.history = std::move(*history);
  } else if (history.status().code() != Code::kNotFound) {
    return history.status();
  }
  return earlier;
}

/// The plan of a resumed run: the flow named again, or the one of before, whose graph moves over then.
Status PlanAgain(os::FileSystem& fs, const RunArguments& arguments, Earlier* earlier, Plan* plan) {
  if (!arguments.flow.Inputs().empty()) {
    HARROW_RETURN_IF_ERROR(LoadPlan(fs, arguments, plan));
  } else {
    if (!arguments.flow.defaults.empty()) {
      return Status(Code::kInvalid,
                    StrCat("harrow: ", arguments.flow.defaults.front().place,
                           " sets what tasks of a FILE ask for; name the FILE as well, or leave it out"));
    }
    plan->graph = std::move(earlier->flow.graph);
    plan->settings = earlier->flow.settings;
    plan->unwanted = earlier->flow.unwanted;
    HARROW_RETURN_IF_ERROR(config::Apply(arguments.settings, &plan->settings));
  }
  if (!arguments.targets.empty() || arguments.stale) plan->unwanted.clear();
  return Select(fs, arguments, plan);
}

void TellResume(const Plan& plan, const run::ResumePlan& resume) {
  if (resume.done_count == 0) {
    std::cerr << "harrow: nothing of the run is done yet";
  } else {
    std::cerr << "harrow: " << resume.done_count << " of " << plan.graph.task_count() << " tasks are done and stay so";
  }
  if (resume.failed_count > 0)
    std::cerr << "; " << resume.failed_count << " failed, skipped or cancelled run again";
  std::cerr << "\n";
  if (!resume.changed.empty())
    std::cerr << "harrow: changed, run again: " << Names(plan.graph, resume.changed) << "\n";
  if (!resume.following.empty()) {
    std::cerr << "harrow: follow from these, run again: " << Names(plan.graph, resume.following) << "\n";
  }
}

int Resume(os::FileSystem& fs, const RunArguments& arguments) {
  std::string given;
  for (const config::Setting& setting : arguments.settings) {
    if (setting.key == "run_dir") given = setting.value;
  }
  const char* from_environment = getenv("HARROW_RUN_DIR");
  const Result<std::string> found =
      run_dir::FindRun(fs, given, from_environment == nullptr ? "" : from_environment);
  if (!found.ok()) return Fail(found.status());
  const auto dir = run_dir::RunDir::Open(Absolute(*found));
  if (!dir.ok()) return Fail(dir.status());
  const std::string& run_dir = (*dir)->path();
  // A run whose part has been removed has nothing recorded, and begins anew.
  Result<Part> part = arguments.dry_run ? run_dir::OpenPart(*dir) : run_dir::MakePart(*dir);
  if (arguments.dry_run && part.status().code() == Code::kNotFound) part = run_dir::LookAtPart(*dir);
  if (!part.ok()) return Fail(part.status());
  if (!arguments.dry_run) {
    if (const Status owned = Own(*part); !owned.ok()) {
      return Fail(CannotUse(run_dir, owned));
    }
  }
  const auto give_up = [&](int exit_code) {
    if (!arguments.dry_run) Release(*part);
    return exit_code;
  };
  Result<Earlier> earlier = ReadEarlier(*part, !arguments.dry_run);
  if (!earlier.ok()) return give_up(Fail(earlier.status()));
  Plan plan;
  const bool same_flow = arguments.flow.Inputs().empty();
  const Result<ResumePlace> place = FindResumePlace(earlier->flow.settings, earlier->history, run_dir, !same_flow);
  if (!place.ok()) return give_up(Fail(place.status()));
  earlier->flow.settings.submit_dir = place->submit_dir;
  if (const Status planned = PlanAgain(fs, arguments, &*earlier, &plan); !planned.ok()) {
    return give_up(planned.code() == Code::kInvalid ? FailInput(planned) : Fail(planned));
  }
  const Status apart = formats::CheckRunDirectory(fs, plan.graph, plan.settings.submit_dir, run_dir);
  if (!apart.ok()) return give_up(FailInput(apart));
  Notice(plan);
  if (!place->notice.empty()) std::cerr << "harrow: " << place->notice << "\n";
  const run::ResumePlan resume = run::PlanResume(same_flow ? plan.graph : earlier->flow.graph,
                                                       plan.graph, plan.unwanted, earlier->history);
  TellResume(plan, resume);
  if (arguments.dry_run) return ShowPlan(plan, resume.done);
  plan.settings.run_id = earlier->flow.settings.run_id;
  plan.settings.flow_id = earlier->flow.settings.flow_id;
  plan.settings.job_id = JobId();
  plan.settings.env = SubmitEnvironment();
  plan.settings.started = os::RealClock().Now();
  Status ready = Prepare(*part);
  if (ready.ok()) {
    ready = run::ApplyResume(part->dir, resume, earlier->history, &plan.settings, plan.graph, plan.unwanted);
  }
  if (!ready.ok()) return give_up(Fail(CannotUse(run_dir, ready)));
  return BecomeKeeper(plan, arguments, *part, true);
}

int Run(RunArguments arguments) {
  if (const std::optional<int> ended = BecomeAgentOfStep()) return *ended;
  if (arguments.rerun_failed) arguments.resume = true;
  const int code =
      arguments.resume ? Resume(os::RealFileSystem(), arguments) : StartNew(os::RealFileSystem(), arguments);
  (void)TellStep("");  // there is no run
  return code;
}

std::function<int()> Setup(CLI::App& app) {
  auto arguments = std::make_shared<RunArguments>();
  AddFlowArguments(app, &arguments->flow);
  AddTaskDefaults(app, &arguments->flow);
  for (const OptionInfo& info : kSettings) {
    const std::string option = StrCat("--", info.key);
    const std::string names = option == "--slots" ? "-j," + option : option;
    if (info.type != nullptr) {
      app.add_option_function<std::string>(
             names,
             [arguments, info, option](const std::string& value) {
               arguments->settings.push_back({SettingKey(info.key), value, option});
             },
             info.help)
          ->type_name(info.type);
    } else {
      const bool negative = std::string_view(info.key).starts_with("no-");
      app.add_flag_callback(
          option,
          [arguments, info, option, negative] {
            arguments->settings.push_back({SettingKey(info.value), negative ? "false" : "true", option});
          },
          info.help);
    }
  }
  app.add_option("--target", arguments->targets, "Run only what this task or file needs")
      ->type_name("NAME")
      ->allow_extra_args(false);
  app.add_flag("--stale", arguments->stale, "Run only what is missing or older than its inputs");
  app.add_flag("--resume", arguments->resume, "Go on with a run; its done tasks stay done");
  app.add_flag("--rerun-failed", arguments->rerun_failed, "The same, of a run that has ended");
  app.add_flag("--dry-run", arguments->dry_run, "Show what would be run, and run nothing");
  app.add_flag("--json", arguments->json, "At the end a JSON document on standard output");
  return [arguments] { return Run(std::move(*arguments)); };
}

const Registered kRun({.name = "run",
                       .summary = "Run a flow of tasks in this allocation, or on this machine",
                       .example = "harrow run --order fifo --retries 1 tasks.txt",
                       .usage = "[options] FILE...",
                       .order = 1,
                       .setup = Setup});

}  // namespace
}  // namespace harrow::launcher
