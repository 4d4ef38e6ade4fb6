#include "launcher/begin_run.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "batch/slurm.h"
#include "config/run_options.h"
#include "formats/command_form.h"
#include "formats/output_check.h"
#include "launcher/command.h"
#include "launcher/inputs.h"
#include "launcher/login_environment.h"
#include "launcher/other_runs.h"
#include "launcher/srun_form.h"
#include "os/clock.h"
#include "run_dir/find.h"
#include "run_dir/names.h"
#include "run_dir/owner.h"
#include "run_dir/rendezvous.h"

namespace harrow::launcher {

CheckedRun* checked_run = nullptr;

namespace {

using run_dir::Part;

constexpr int kMostSameName = 1000;
// Of a run's stored environment: the names that it was limited to, for those who resume it. Tasks do not see
// it.
constexpr std::string_view kExported = "HARROW_EXPORT";

struct OptionInfo {
  const char* key;
  const char* type;  // nullptr: a flag, with `value`
  const char* value;
  const char* help;
};
constexpr OptionInfo kSettings[] = {
    {"order", "P", nullptr, "auto, fifo, lifo, hrf, lifo+hrf, rank+hrf, cost"},
    {"no-steal", nullptr, "steal", ""},
    {"no-locality", nullptr, "locality", "Tasks of other queues stay there; files place none"},
    {"place", "HOW", nullptr, ""},
    {"tg-max", "N", nullptr, ""},
    {"ct-max", "N", nullptr, ""},
    {"costs-from", "RUN", nullptr, "files, cost-paper, cost"},
    {"files", "MODE", nullptr, ""},
    {"transfer-encryption", "on|off", nullptr, "Files shared (default) or local"},
    {"local-dir", "DIR", nullptr, ""},
    {"save", nullptr, "save", "On nodes, for TMPDIRs and stores; save what is open"},
    {"criu", "PATH", nullptr, ""},
    {"mpi-profile", "NAME", nullptr, "CRIU; of Open MPI's ranks: none, no-fabric"},
    {"run-dir", "D", nullptr, ""},
    {"retries", "N", nullptr, "Record (harrow-<job or date>); more attempts (0)"},
    {"fail-fast", nullptr, "fail-fast", ""},
    {"max-failures", "N", nullptr, "End at the first failure; start no more after N"},
    {"stop-gap", "SHARE", nullptr, ""},
    {"max-running", "N", nullptr, "Tasks at once on all nodes together"},
    {"slots", "N", nullptr, ""},
    {"local-nodes", "K", nullptr, "Tasks at once on a node; pretend nodes here"},
    {"output-limit", "BYTES", nullptr, "Keep so much of a task's stdout and stderr each"},
    {"progress", "MODE", nullptr, ""},
    {"moves", "HOW", nullptr, "auto, plain, none; direct, via-supervisor"},
};

std::string DateName() {
  const time_t now = time(nullptr);
  tm parts{};
  localtime_r(&now, &parts);
  char text[32];
  strftime(text, sizeof text, "%Y%m%d-%H%M%S", &parts);
  return text;
}

std::string RandomId() {
  return HexDigits(run_dir::NewKey().substr(0, 8));
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
  const bool arguments = formats::HasArguments(form);
  if (form != graph::CommandForm::kShell && (arguments || QuoteInLine(text).starts_with("$'"))) {
    const std::string_view separators = arguments ? std::string_view("\0", 1) : " \t";
    std::string words;
    bool assigning = form == graph::CommandForm::kAssigned;
    for (std::string_view rest = text;;) {
      const size_t end = rest.find_first_of(separators);
      const std::string_view word = rest.substr(0, end);
      // Several blanks in a text are one; an argument of a list may be empty.
      if (!word.empty() || arguments) {
        assigning = assigning && IsAssignment(word);
        const size_t name = assigning ? word.find('=') + 1 : 0;
        words += StrCat(words.empty() ? "" : " ", word.substr(0, name), QuoteInLine(word.substr(name)));
      }
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

/// A run, or a part of one, lies there.
bool IsUsed(run_dir::RunDir& dir) {
  const std::string& path = dir.path();
  for (const std::string& used : {run_dir::FlowPath(path), run_dir::JournalPath(path), run_dir::OwnerPath(path),
                                  run_dir::ResumeReadyPath(path)}) {
    if (dir.Stat(used).status().code() != Code::kNotFound) return true;
  }
  return false;
}

}  // namespace

std::string SettingKey(std::string_view option) {
  std::string key(option);
  std::replace(key.begin(), key.end(), '-', '_');
  return key;
}

void AddRunSettings(CLI::App& app, std::vector<config::Setting>* settings) {
  for (const OptionInfo& info : kSettings) {
    const std::string option = StrCat("--", info.key);
    const std::string names = option == "--slots" ? "-j," + option : option;
    if (info.type != nullptr) {
      app.add_option_function<std::string>(
             names,
             [settings, info, option](const std::string& value) {
               settings->push_back({SettingKey(info.key), value, option});
             },
             info.help)
          ->type_name(info.type);
    } else {
      const bool negative = std::string_view(info.key).starts_with("no-");
      app.add_flag_callback(
          option,
          [settings, info, option, negative] {
            settings->push_back({SettingKey(info.value), negative ? "false" : "true", option});
          },
          info.help);
    }
  }
}

std::vector<std::pair<std::string, std::string>> SubmitEnvironment() {
  std::vector<std::pair<std::string, std::string>> variables;
  for (const std::string& entry : Environment()) {
    const size_t equals = entry.find('=');
    if (equals != std::string::npos && equals > 0 && entry.substr(0, equals) != kExported)
      variables.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return variables;
}

void LimitEnvironment(const std::string& names, run::RunSettings* settings) {
  // Who somebody is and where programs are, where a login does not tell.
  constexpr std::string_view kLogin[] = {"HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TMPDIR", "USER"};
  const std::string list = StrCat(",", names, ",");
  const auto named = [&list](const std::string& name) { return list.find(StrCat(",", name, ",")) != std::string::npos; };
  std::erase_if(settings->env, [&](const auto& variable) {
    const std::string& name = variable.first;
    if (name.starts_with("SLURM_") || name.starts_with("SPANK_") || name.starts_with("HARROW_")) return false;
    if (std::find(std::begin(kLogin), std::end(kLogin), name) != std::end(kLogin)) return false;
    return !named(name);
  });
  // Functions such as module are among it.
  if (names != kExportedNothing) {
    const auto login = LoginEnvironment();
    if (!login.ok())
      std::cerr << "harrow: --export: elements go without what a login finds: " << login.status().message() << "\n";
    for (const auto& [name, value] : login.ok() ? *login : decltype(settings->env)()) {
      if (named(name)) continue;
      std::erase_if(settings->env, [&name = name](const auto& variable) { return variable.first == name; });
      settings->env.emplace_back(name, value);
    }
  }
  settings->env.emplace_back(kExported, names);
}

void LimitEnvironmentAs(const run::RunSettings& before, run::RunSettings* settings) {
  for (const auto& [name, value] : before.env) {
    if (name == kExported) LimitEnvironment(value, settings);
  }
}

std::string JobId() {
  const std::string job = batch::JobWithRestarts(Environment());
  return job.substr(0, job.find('.'));
}

void NoteJob(run::RunSettings* settings) {
  settings->job_id = JobId();
  settings->partition = settings->job_id.empty() ? "" : Variable("SLURM_JOB_PARTITION");
}

bool IsRestarted() {
  const std::string count = Variable("SLURM_RESTART_COUNT");
  return !JobId().empty() && !count.empty() && count != "0";
}

std::string Absolute(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  return error ? path : absolute.lexically_normal().string();
}

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

namespace {

Status Used(const std::string& run_dir) {
  return Status(Code::kExists, StrCat("run directory ", run_dir,
                                      " is used already; go on with --resume, or name another with --run-dir"));
}

Result<Part> TakeUnused(const std::string& run_dir) {
  const Status used = Used(run_dir);
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
  return Absolute(run_dir::NameOfRun(job.empty() ? DateName() : job));
}

/// A job that Slurm has begun again finds what it did before, and begins anew all the same: only who wrote
/// the script knows whether its tasks may go on with what is there.
void NoticeRestart(const std::string& run_dir) {
  const std::string first = UnaskedRunDirectory();
  if (!IsRestarted() || run_dir == first) return;
  std::cerr << "harrow: Slurm has begun this job again; what a run did in it before is in "
            << Printable(first.substr(first.rfind('/') + 1))
            << ": harrow run --resume --run-dir NAME FILE, in the script, begins a run or goes on with it\n";
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
  if (plan.settings.slots > 0 || plan.settings.stage != run::Stage::kNo || plan.exec) return;
  const std::string other =
      OtherRunOfJob(os::RealFileSystem(), run_dir, batch::JobWithRestarts(Environment()));
  if (other.empty()) return;
  std::cerr << "harrow: warning: " << Printable(other)
            << " runs in this job as well, and each takes all cores; give each its share with --slots N, or run "
               "both as one: harrow run FILE FILE\n";
}

}  // namespace

int BecomeKeeper(const Plan& plan, bool json, const Part& part, bool resumed) {
  const std::string& run_dir = part.run->path();
  WarnOfOtherRuns(plan, run_dir);
  if (!TellStep(run_dir)) {
    Release(part);
    return kExitCannotGoOn;
  }
  constexpr const char* kModes[] = {"auto", "plain", "none"};
  std::vector<std::string> words = {"keeper", "--run-dir", run_dir::PartArgument(part), "--progress",
                                    kModes[static_cast<int>(plan.settings.progress)]};
  if (json) words.push_back("--json");
  if (resumed) words.push_back("--resumed");
  if (plan.exec) words.push_back("--exec");
  return Become(std::move(words));
}

void Notice(const Plan& plan) {
  for (const std::string& notice : plan.notices) std::cerr << notice << "\n";
}

Status Prepare(const Part& part) {
  HARROW_RETURN_IF_ERROR(part.dir->MakeDirectories(run_dir::LogDirectory(part.dir->path())));
  return part.dir->MakeDirectories(run_dir::OutputDirectory(part.dir->path()));
}

int HandOver(Plan* plan, std::vector<bool> done, const std::string& resumed) {
  const std::string& asked = plan->settings.run_dir;
  if (resumed.empty() && !asked.empty()) {
    const auto dir = run_dir::RunDir::Open(Absolute(asked));
    if (dir.ok() && IsUsed(**dir)) return Fail(Used(Absolute(asked)));
  }
  checked_run->options = plan->settings;
  checked_run->name = plan->settings.name;
  checked_run->resumed = !resumed.empty();
  checked_run->run_dir = !resumed.empty() ? resumed : asked.empty() ? "" : Absolute(asked);
  checked_run->done = std::move(done);
  checked_run->done.resize(plan->graph.task_count(), false);
  for (size_t i = 0; i < plan->unwanted.size() && i < checked_run->done.size(); ++i) {
    if (plan->unwanted[i]) checked_run->done[i] = true;
  }
  checked_run->graph = std::move(plan->graph);
  return kExitDone;
}

int BeginRun(os::FileSystem& fs, Plan plan, const Beginning& beginning) {
  Notice(plan);
  if (checked_run != nullptr) return HandOver(&plan, {}, "");
  WarnOfTooLarge(plan.graph, plan.unwanted, plan.settings);
  if (beginning.dry_run) return ShowPlan(plan, {});
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
  NoteJob(&plan.settings);
  plan.settings.env = SubmitEnvironment();
  plan.settings.started = os::RealClock().Now();
  Status ready = Prepare(*taken);
  if (ready.ok() && beginning.complete) ready = beginning.complete(run, &plan);
  if (ready.ok()) ready = run::WriteFlow(run, run_dir, plan.settings, plan.graph, plan.unwanted);
  if (!ready.ok()) {
    Release(*taken);
    return Fail(CannotUse(run_dir, ready));
  }
  if (beginning.instead) {
    Release(*taken);
    if (const Status gone = fs.RemoveTree(taken->dir->path()); !gone.ok()) return Fail(gone);
  }
  if (plan.settings.run_dir.empty() && plan.settings.progress != config::Progress::kNone) {
    std::cerr << "harrow: run directory " << Printable(run_dir.substr(run_dir.rfind('/') + 1)) << "\n";
  }
  if (beginning.instead) return beginning.instead(run_dir);
  if (plan.settings.run_dir.empty()) NoticeRestart(run_dir);
  return BecomeKeeper(plan, beginning.json, *taken, false);
}

int BeginHiddenRun(os::FileSystem& fs, Plan plan, std::string_view prefix, const Beginning& beginning) {
  // A signal that would end this process waits until there is a keeper to take it, or no directory any more.
  sigset_t ending, before;
  sigemptyset(&ending);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&ending, signal);
  sigprocmask(SIG_BLOCK, &ending, &before);
  const std::string& above = plan.settings.submit_dir;
  std::string run_dir = StrCat(above == "/" ? "" : above, "/", prefix, "XXXXXX");
  int code = kExitCannotGoOn;
  if (mkdtemp(run_dir.data()) == nullptr) {
    code = Fail(Status(Code::kUnavailable, StrCat("no directory can be made in ", Printable(above), ": ",
                                                  strerrordesc_np(errno))));
  } else {
    plan.settings.run_dir = run_dir;
    code = BeginRun(fs, std::move(plan), beginning);
    (void)fs.RemoveTree(run_dir);
  }
  sigprocmask(SIG_SETMASK, &before, nullptr);
  return code;
}

}  // namespace harrow::launcher
