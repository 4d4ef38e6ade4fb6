#include <algorithm>
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
#include "client/find_run.h"
#include "config/run_options.h"
#include "formats/load.h"
#include "formats/selection.h"
#include "journal/journal.h"
#include "journal/owner.h"
#include "launcher/command.h"
#include "launcher/inputs.h"
#include "launcher/srun_form.h"
#include "os/clock.h"
#include "server/flow_store.h"
#include "server/resume.h"
#include "wire/rendezvous.h"

// `harrow run`: reads the flow or takes it from an earlier run, decides what is to be run, makes the run
// directory ready, and becomes the keeper by exec, so that the parsed flow's memory is free while the run
// goes on. The process stays the same: what it owns in RUN/owner is still its own.

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
  config::RunOptions options;
  server::RunSettings settings;
  std::vector<std::string> notices;
};

struct OptionInfo {
  const char* key;
  const char* type;  // nullptr: a flag, with `value`
  const char* value;
  const char* help;
};
constexpr OptionInfo kSettings[] = {
    {"order", "P", nullptr, "fifo, lifo, hrf, lifo+hrf (default) or rank+hrf"},
    {"no-steal", nullptr, "steal", "Idle slots take nothing from other nodes' queues"},
    {"no-locality", nullptr, "locality", "Do not place tasks where their files are"},
    {"files", "MODE", nullptr, "shared (default) or local: where tasks' files are"},
    {"run-dir", "D", nullptr, "Run directory (default harrow-<job or date>)"},
    {"retries", "N", nullptr, "More attempts for a task that fails (default 0)"},
    {"fail-fast", nullptr, "fail-fast", "End the run at the first task that fails"},
    {"max-failures", "N", nullptr, "Start nothing more after N failed tasks"},
    {"slots", "N", nullptr, "Tasks at once on a node (default: its cores)"},
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
  for (const char c : wire::NewKey().substr(0, 8)) {
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

void FillSettings(const config::RunOptions& from, server::RunSettings* to) {
  to->order = from.order;
  to->locality = from.locality;
  to->steal = from.steal;
  to->seed = from.seed;
  to->retries = from.retries;
  to->max_losses = from.max_losses;
  to->max_failures = from.max_failures;
  to->bad_node_failures = from.bad_node_failures;
  to->fail_fast = from.fail_fast;
  to->slots = from.slots;
  to->local_nodes = from.local_nodes;
  to->pin = from.pin;
  to->shell = from.shell;
  to->output_limit = from.output_limit;
  to->lease = from.lease;
  to->end_margin = from.end_margin;
}

/// The options of an earlier run, for one that goes on without naming its flow again.
config::RunOptions OptionsOf(const server::RunSettings& from) {
  config::RunOptions options;
  options.name = from.name;
  options.order = from.order;
  options.locality = from.locality;
  options.steal = from.steal;
  options.seed = from.seed;
  options.retries = from.retries;
  options.max_losses = from.max_losses;
  options.max_failures = from.max_failures;
  options.bad_node_failures = from.bad_node_failures;
  options.fail_fast = from.fail_fast;
  options.slots = from.slots;
  options.local_nodes = from.local_nodes;
  options.pin = from.pin;
  options.shell = from.shell;
  options.output_limit = from.output_limit;
  options.lease = from.lease;
  options.end_margin = from.end_margin;
  return options;
}

/// Reads the flow that the command names and all settings. kInvalid: problems in the input.
Status LoadPlan(os::FileSystem& fs, const RunArguments& arguments, Plan* plan) {
  Result<std::vector<config::Setting>> settings = config::ReadSettings(fs, Environment());
  if (!settings.ok()) return settings.status();
  formats::LoadOptions load;
  load.need_commands = true;
  load.inputs_must_exist = true;
  load.check_setting = config::CheckSetting;
  formats::Flow flow;
  HARROW_RETURN_IF_ERROR(formats::Load(fs, arguments.flow.Inputs(), load, &plan->graph, &flow));
  std::vector<config::Setting> all = std::move(*settings);
  for (const std::vector<config::Setting>& more : {config::FromFlow(flow), arguments.settings}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  HARROW_RETURN_IF_ERROR(config::Apply(all, &plan->options));
  plan->notices = std::move(flow.notices);
  plan->settings.name = plan->options.name.empty() ? flow.name : plan->options.name;
  for (const formats::Input& input : arguments.flow.Inputs()) plan->settings.sources.push_back(input.path);
  plan->settings.submit_dir = Absolute(".");
  return Status();
}

Status Select(os::FileSystem& fs, const RunArguments& arguments, Plan* plan) {
  if (plan->options.files == config::Files::kLocal) {
    return Status(Code::kInvalid, "files = local is not there yet; use --files shared");
  }
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
    std::string command(plan.graph.command(task));
    if (plan.graph.form(task) == graph::CommandForm::kArgv)
      std::replace(command.begin(), command.end(), '\0', ' ');
    std::cout << plan.graph.TaskName(task) << "\t" << Printable(command, 4096) << "\n";
  }
  std::cerr << "harrow: " << tasks.size() << " of " << plan.graph.task_count() << " tasks would be run\n";
  return kExitDone;
}

bool IsUsed(os::FileSystem& fs, const std::string& run_dir) {
  for (const char* name : {"flow", "journal.db", "owner", "resume.ready"}) {
    if (fs.Stat(StrCat(run_dir, "/", name)).ok()) return true;
  }
  return false;
}

/// What is wrong with a directory that cannot become a run directory, in one line.
Status CannotUse(const std::string& run_dir, const Status& why) {
  return Status(why.code() == Code::kExists ? Code::kExists : Code::kUnavailable,
                StrCat("run directory ", run_dir, ": ", why.message()));
}

Status Own(os::FileSystem& fs, const std::string& run_dir) {
  const std::string job = batch::JobWithRestarts(Environment());
  return journal::TakeOwnership(fs, run_dir, journal::ThisProcess(job), [&](const std::string& other) {
    return batch::JobRuns(ThisProgram(), other, job);
  });
}

Status TakeUnused(os::FileSystem& fs, const std::string& run_dir) {
  if (IsUsed(fs, run_dir)) {
    return Status(Code::kExists, StrCat("run directory ", run_dir,
                                        " is used already; go on with --resume, or name "
                                        "another with --run-dir"));
  }
  if (const Status made = fs.MakeDirectories(run_dir); !made.ok()) return CannotUse(run_dir, made);
  const Status owned = Own(fs, run_dir);
  return owned.ok() ? owned : CannotUse(run_dir, owned);
}

/// The directory that was asked for, or one named after job or date: of several runs that begin in the same
/// second each gets its own.
Result<std::string> TakeRunDirectory(os::FileSystem& fs, const std::string& asked) {
  if (!asked.empty()) {
    const std::string run_dir = Absolute(asked);
    HARROW_RETURN_IF_ERROR(TakeUnused(fs, run_dir));
    return run_dir;
  }
  const std::string job = JobId();
  const std::string first = Absolute(StrCat("harrow-", job.empty() ? DateName() : job));
  Status taken;
  for (int number = 1; number <= kMostSameName; ++number) {
    const std::string run_dir = number == 1 ? first : StrCat(first, "-", number);
    taken = TakeUnused(fs, run_dir);
    if (taken.ok()) return run_dir;
    if (taken.code() != Code::kExists) break;
  }
  return taken;
}

int BecomeKeeper(const Plan& plan, const RunArguments& arguments, const std::string& run_dir, bool resumed) {
  if (!TellStep(run_dir)) {
    (void)journal::ReleaseOwnership(os::RealFileSystem(), run_dir);
    return kExitCannotGoOn;
  }
  constexpr const char* kModes[] = {"auto", "plain", "none"};
  std::vector<std::string> words = {"keeper", "--run-dir", run_dir, "--progress",
                                    kModes[static_cast<int>(plan.options.progress)]};
  if (arguments.json) words.push_back("--json");
  if (resumed) words.push_back("--resumed");
  return Become(std::move(words));
}

void Notice(const Plan& plan) {
  for (const std::string& notice : plan.notices) std::cerr << notice << "\n";
}

Status Prepare(os::FileSystem& fs, const std::string& run_dir) {
  HARROW_RETURN_IF_ERROR(fs.MakeDirectories(run_dir + "/log"));
  return fs.MakeDirectories(run_dir + "/output");
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
  const Result<std::string> taken = TakeRunDirectory(fs, plan.options.run_dir);
  if (!taken.ok()) return Fail(taken.status());
  const std::string& run_dir = *taken;
  FillSettings(plan.options, &plan.settings);
  plan.settings.run_id = RandomId();
  plan.settings.flow_id = plan.settings.run_id;
  plan.settings.job_id = JobId();
  plan.settings.env = SubmitEnvironment();
  plan.settings.started = os::RealClock().Now();
  Status ready = Prepare(fs, run_dir);
  if (ready.ok()) ready = server::WriteFlow(fs, run_dir, plan.settings, plan.graph, plan.unwanted);
  if (!ready.ok()) {
    (void)journal::ReleaseOwnership(fs, run_dir);
    return Fail(CannotUse(run_dir, ready));
  }
  if (plan.options.run_dir.empty() && plan.options.progress != config::Progress::kNone) {
    std::cerr << "harrow: run directory " << Printable(run_dir.substr(run_dir.rfind('/') + 1)) << "\n";
  }
  return BecomeKeeper(plan, arguments, run_dir, false);
}

/// The earlier run as it stands on disk.
struct Earlier {
  server::StoredFlow flow;
  journal::History history;
};

Result<Earlier> ReadEarlier(os::FileSystem& fs, const std::string& run_dir) {
  HARROW_RETURN_IF_ERROR(server::FinishReplacement(fs, run_dir));
  Earlier earlier;
  Result<server::StoredFlow> flow = server::ReadFlow(fs, run_dir);
  if (!flow.ok()) return flow.status();
  earlier.flow = std::move(*flow);
  Result<journal::History> history = journal::ReadHistory(run_dir);
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
    plan->graph = std::move(earlier->flow.graph);
    plan->settings = earlier->flow.settings;
    plan->options = OptionsOf(earlier->flow.settings);
    plan->unwanted = earlier->flow.unwanted;
    HARROW_RETURN_IF_ERROR(config::Apply(arguments.settings, &plan->options));
  }
  if (!arguments.targets.empty() || arguments.stale) plan->unwanted.clear();
  return Select(fs, arguments, plan);
}

void TellResume(const Plan& plan, const server::ResumePlan& resume) {
  std::cerr << "harrow: " << resume.done_count << " of " << plan.graph.task_count()
            << " tasks are done and stay so";
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
      client::FindRun(fs, given, from_environment == nullptr ? "" : from_environment);
  if (!found.ok()) return Fail(found.status());
  const std::string run_dir = Absolute(*found);
  if (!arguments.dry_run) {
    if (const Status owned = Own(fs, run_dir); !owned.ok()) {
      return Fail(CannotUse(run_dir, owned));
    }
  }
  const auto give_up = [&](int exit_code) {
    if (!arguments.dry_run) (void)journal::ReleaseOwnership(fs, run_dir);
    return exit_code;
  };
  Result<Earlier> earlier = ReadEarlier(fs, run_dir);
  if (!earlier.ok()) return give_up(Fail(earlier.status()));
  Plan plan;
  if (const Status planned = PlanAgain(fs, arguments, &*earlier, &plan); !planned.ok()) {
    return give_up(planned.code() == Code::kInvalid ? FailInput(planned) : Fail(planned));
  }
  Notice(plan);
  const bool same_flow = arguments.flow.Inputs().empty();
  const server::ResumePlan resume = server::PlanResume(same_flow ? plan.graph : earlier->flow.graph,
                                                       plan.graph, plan.unwanted, earlier->history);
  TellResume(plan, resume);
  if (arguments.dry_run) return ShowPlan(plan, resume.done);
  FillSettings(plan.options, &plan.settings);
  plan.settings.run_id = earlier->flow.settings.run_id;
  plan.settings.flow_id = earlier->flow.settings.flow_id;
  plan.settings.job_id = JobId();
  plan.settings.env = SubmitEnvironment();
  plan.settings.started = os::RealClock().Now();
  Status ready = Prepare(fs, run_dir);
  if (ready.ok()) {
    ready =
        server::ApplyResume(fs, run_dir, resume, earlier->history, &plan.settings, plan.graph, plan.unwanted);
  }
  if (!ready.ok()) return give_up(Fail(CannotUse(run_dir, ready)));
  return BecomeKeeper(plan, arguments, run_dir, true);
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
  for (const OptionInfo& info : kSettings) {
    const std::string option = StrCat("--", info.key);
    if (info.type != nullptr) {
      app.add_option_function<std::string>(
             option,
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
