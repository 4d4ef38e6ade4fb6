// `harrow array`: a job array's script, unchanged, in this allocation or on this machine. What the script and the command
// line say of an element becomes a profile, the elements become tasks (formats/array_flow.cc), and the run begins as any
// other. The script is read once and copied into the run directory, as sbatch copies it: editing it afterwards changes
// nothing of what runs, nor of what a resumed run goes on with.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <optional>
#include <unistd.h>

#include "base/text.h"
#include "batch/sbatch.h"
#include "batch/slurm.h"
#include "formats/batch_script.h"
#include "formats/load.h"
#include "launcher/begin_run.h"
#include "launcher/command.h"
#include "launcher/inputs.h"
#include "launcher/known_costs.h"
#include "launcher/resume_place.h"
#include "launcher/run_access.h"
#include "launcher/srun_form.h"
#include "os/file_identity.h"
#include "run/flow_store.h"
#include "run_dir/names.h"

namespace harrow::launcher {
namespace {

constexpr uint64_t kMostScriptBytes = uint64_t{16} << 20;  // sbatch takes 4 MiB

struct ArrayArguments {
  std::vector<config::Setting> settings;
  std::vector<formats::GivenOption> options;  // of sbatch
  std::string called;                         // the script that comes by standard input; empty: that
  bool dry_run = false, json = false;
};

struct Script {
  std::string path;  // as it is called in messages
  std::string name;  // the job's, where nothing else is said
  std::string text;
};

Result<Script> ReadScript(os::FileSystem& fs, const std::string& given, const std::string& wrap,
                          const std::string& called) {
  if (!wrap.empty()) {
    return Script{"--wrap", "wrap", StrCat("#!/bin/sh\n# Made by harrow array --wrap.\n\n", wrap, "\n")};
  }
  if (given.empty() && isatty(STDIN_FILENO) == 1) {
    return Status(Code::kInvalid, "no script; name one (harrow array --array=1-10 job.sh), or give it on standard input");
  }
  const bool standard_input = given.empty() || given == "-";
  const std::string path = standard_input ? "standard input" : given;
  if (!standard_input && os::IsFifo(given))
    return Status(Code::kInvalid, StrCat(Printable(given, 1000),
                                         " is a FIFO; name a file, or give the script on standard input"));
  Result<std::string> text = standard_input ? formats::ReadStandardInput(kMostScriptBytes + 1) : fs.Read(path, kMostScriptBytes + 1);
  if (!text.ok()) return text.status();
  if (text->size() > kMostScriptBytes)
    return Status(Code::kInvalid, StrCat(Printable(path), " holds more than ", FormatBytes(kMostScriptBytes),
                                         "; name the array's script"));
  if (text->empty()) return Status(Code::kInvalid, StrCat(Printable(path), " is empty; name the array's script"));
  if (standard_input)
    return Script{called.empty() ? "standard input" : Printable(called, 1000), "sbatch", *std::move(text)};
  return Script{Printable(given, 1000), given.substr(given.rfind('/') + 1), *std::move(text)};
}

Status NoElements(const formats::BatchScript& script, const std::string& path) {
  if (!script.foreign_array.empty()) {
    return Status(Code::kInvalid,
                  StrCat(script.foreign_place, ": this is an array of PBS or Grid Engine; write harrow array --array=",
                         Printable(script.foreign_array, 60), " ", path,
                         ", and let it read SLURM_ARRAY_TASK_ID for its index"));
  }
  return Status(Code::kInvalid, StrCat("which elements? Write --array=1-10, or #SBATCH --array=1-10 into ", path));
}

/// The script that elements execute. What else lies in the directory stays.
Status CopyScript(run_dir::RunDir& run, const std::string& text) {
  const std::string copy = run_dir::ScriptPath(run.path());
  const Status created = run.CreateWhole(copy, text, 0700);
  if (created.code() == Code::kExists) {
    const Result<std::string> there = run.ReadPrivate(copy, kMostScriptBytes);
    if (!there.ok() || *there != text)
      return Status(Code::kExists, "a file script lies there already; name another directory with --run-dir");
  } else if (!created.ok()) {
    return created;
  }
  if (access(copy.c_str(), X_OK) == 0) return Status();
  (void)run.Remove(copy);
  return Status(Code::kInvalid,
                "nothing there may be executed (noexec); name another directory with --run-dir");
}

/// Has the job that is about to be submitted been given this option, "--partition"?
bool SaidToSbatch(std::string_view option) {
  const std::string_view name = option.substr(2, option.find('=') - 2);
  const auto options = formats::BatchOptions();
  const auto known = std::find_if(options.begin(), options.end(),
                                  [&](const formats::BatchOption& each) { return each.name == name; });
  return batch::SbatchWords(checked_run->for_sbatch).Has(name, known == options.end() ? '\0' : known->letter);
}

constexpr int kMostArrays = 1000;  // of one job

/// When Slurm began the job, this time; none: it does not say.
std::optional<WallTime> JobStart() {
  const char* text = getenv("SLURM_JOB_START_TIME");
  int64_t seconds = 0;
  if (text == nullptr || std::from_chars(text, text + strlen(text), seconds).ec != std::errc() || seconds <= 0)
    return std::nullopt;
  return WallTime(std::chrono::seconds(seconds));
}

/// Where this very array was begun, in this job before Slurm began it anew, by `asked` or by the job: each of
/// its elements would go on as a job of its own does, the done ones as done. Empty: nowhere.
std::string BegunBefore(formats::ArrayPlan array, const std::string& script, const std::string& asked) {
  for (int number = 1; IsRestarted() && number <= (asked.empty() ? kMostArrays : 1); ++number) {
    const std::string path = Absolute(!asked.empty() ? asked : run_dir::NameOfRun(JobId(), number));
    const auto part = OpenRun(path);
    if (!part.ok()) break;
    array.script = run_dir::ScriptPath(part->run->path());
    const Result<std::string> there = part->run->ReadPrivate(array.script, kMostScriptBytes);
    const Result<run::StoredFlow> flow = run::ReadFlow(*part);
    if (!there.ok() || *there != script || !flow.ok() || !formats::IsArray(flow->graph)) continue;
    // The same one twice in a script: this one has been gone on with since the job began anew.
    if (const auto began = JobStart(); began && flow->settings.started >= *began) continue;
    graph::Graph wanted;
    uint64_t limit = 0;
    std::vector<std::string> notices;
    if (!formats::AddArray(array, &wanted, &limit, &notices).ok() ||
        wanted.task_count() != flow->graph.task_count())
      continue;
    const auto same = [&](TaskId task) { return wanted.command(task) == flow->graph.command(task); };
    if (same(TaskId(0)) && same(TaskId(static_cast<uint32_t>(wanted.task_count() - 1)))) return path;
  }
  return {};
}

int Begin(const ArrayArguments& arguments, const std::vector<std::string>& words) {
  const bool checks_only = checked_run != nullptr;
  os::FileSystem& fs = os::RealFileSystem();
  formats::ArrayPlan array;
  formats::ElementRequest given;
  std::vector<std::string> others;
  Status status = formats::ApplyBatchOptions(arguments.options, &given, &others);
  if (!status.ok()) return FailInput(status);
  if (!given.wrap.empty() && !words.empty())
    return Fail(Status(Code::kInvalid, "--wrap is the script; leave out either it or SCRIPT"));
  const Result<Script> script =
      ReadScript(fs, words.empty() ? "" : words.front(), given.wrap, arguments.called);
  if (!script.ok()) return Fail(script.status());
  const Result<formats::BatchScript> read = formats::ReadBatchScript(script->path, script->text);
  if (!read.ok()) return FailInput(read.status());
  if (checks_only) {
    checked_run->script = script->text;
    checked_run->script_words = words.size();
    checked_run->script_called = script->path;
  }
  std::vector<formats::GivenOption> options = read->options;
  options.insert(options.end(), arguments.options.begin(), arguments.options.end());
  others.clear();
  status = formats::ApplyBatchOptions(options, &array.request, &others);
  if (!status.ok()) return FailInput(status);
  if (array.request.array.empty()) return FailInput(NoElements(*read, script->path));

  const std::string job = JobId();
  // Where there is no job, the array is called by this process's number, as a shell's $$.
  array.job_id = job.empty() ? StrCat(getpid()) : job;
  array.submit_dir = RealPath(".");
  array.job_name = array.request.job_name.empty() ? script->name : array.request.job_name;
  const bool named = given.wrap.empty() && !words.empty() && words.front() != "-";
  // As --dry-run shows it, to be pasted.
  array.script = !named ? script->path : StrCat(words.front().find('/') == std::string::npos ? "./" : "", words.front());
  if (words.size() > 1) array.arguments.assign(words.begin() + 1, words.end());

  Result<std::vector<config::Setting>> settings = config::ReadSettings(fs, Environment());
  if (!settings.ok()) return Fail(settings.status());
  settings->insert(settings->end(), arguments.settings.begin(), arguments.settings.end());
  Plan plan;
  status = config::Apply(*settings, &plan.settings);
  if (!status.ok()) return FailInput(status);
  if (const Status known = FindKnownCosts(&plan.settings); !known.ok()) return Fail(known);
  uint64_t limit = 0;
  status = formats::AddArray(array, &plan.graph, &limit, &plan.notices);
  if (!status.ok()) return FailInput(status);
  if (limit > 0 && (plan.settings.max_running == 0 || limit < plan.settings.max_running))
    plan.settings.max_running = static_cast<uint32_t>(std::min<uint64_t>(limit, UINT32_MAX));
  if (read->uses_job_id && plan.graph.task_count() > 1) {
    plan.notices.push_back("it uses SLURM_JOB_ID, here one number for all elements: directories and files called by it are "
                           "shared, and scancel or scontrol requeue with it concern all; SLURM_ARRAY_TASK_ID is each one's own");
  }
  if (checks_only) std::erase_if(others, SaidToSbatch);
  if (!others.empty()) {
    std::string names;
    for (const std::string& other : others) names += StrCat(names.empty() ? "" : ", ", Printable(other, 40));
    plan.notices.push_back(StrCat(names, others.size() == 1 ? " is a matter" : " are matters",
                                  " of the allocation, not of an element; ",
                                  checks_only   ? "where the job is to have it, write it before --"
                                  : job.empty() ? "here there is none"
                                                : "the job that this runs in has its own"));
  }
  if (const std::string before =
          checks_only || arguments.dry_run ? "" : BegunBefore(array, script->text, plan.settings.run_dir);
      !before.empty()) {
    std::cerr << "harrow: Slurm has begun this job again: the array goes on\n";
    constexpr const char* kModes[] = {"auto", "plain", "none"};
    std::vector<std::string> resume = {"run",        "--resume",
                                       "--run-dir",  before,
                                       "--progress", kModes[static_cast<int>(plan.settings.progress)]};
    if (arguments.json) resume.push_back("--json");
    return Become(std::move(resume));
  }
  for (std::string& notice : plan.notices) notice = StrCat("harrow: ", script->path, ": ", notice);
  if (plan.settings.name.empty()) plan.settings.name = array.job_name;
  plan.settings.sources.push_back(script->path);
  plan.settings.submit_dir = array.submit_dir;

  const auto complete = [&](run_dir::RunDir& run, Plan* made) -> Status {
    const std::string copy = run_dir::ScriptPath(run.path());
    HARROW_RETURN_IF_ERROR(CopyScript(run, script->text));
    array.script = copy;
    uint64_t ignored = 0;
    std::vector<std::string> told_before;
    made->graph = graph::Graph();
    HARROW_RETURN_IF_ERROR(formats::AddArray(array, &made->graph, &ignored, &told_before));
    if (!array.request.export_all) {
      std::string names = array.request.export_nothing ? kExportedNothing : "";
      for (const auto& [name, value] : array.request.exported)
        names += StrCat(names.empty() ? "" : ",", name);
      LimitEnvironment(names, &made->settings);
    }
    return Status();
  };
  return BeginRun(fs, std::move(plan),
                  {.dry_run = arguments.dry_run, .json = arguments.json, .complete = complete});
}

int RunArray(const ArrayArguments& arguments, const std::vector<std::string>& words) {
  if (checked_run != nullptr) return Begin(arguments, words);
  if (const std::optional<int> ended = BecomeAgentOfStep()) return *ended;
  const int code = Begin(arguments, words);
  (void)TellStep("");  // there is no run
  return code;
}

std::function<int()> SetupArray(CLI::App& app) {
  auto arguments = std::make_shared<ArrayArguments>();
  // Shown are those that concern an element most often; the others of sbatch are taken as well.
  static constexpr struct {
    const char *name, *type, *help;
  } kShown[] = {{"array", "SPEC", "Elements 1-100, 1-10:2, 1,5,7-9; %N: so many at once"},
                {"cpus-per-task", "N", "This and more of sbatch, for each element"},
                {"output", "FILE", "As %A_%a.txt; else kept for harrow logs"},
                {"time", "T", "Of each element"},
                {"wrap", "COMMAND", "Instead of SCRIPT"}};
  for (const formats::BatchOption& option : formats::BatchOptions()) {
    const std::string name = StrCat(option.letter != 0 ? StrCat("-", std::string(1, option.letter), ",") : "", "--",
                                    option.name);
    const std::string key(option.name);
    const auto add = [arguments, key](const std::string& value) {
      arguments->options.push_back({key, value, StrCat("--", key)});
    };
    const auto* const shown = std::find_if(std::begin(kShown), std::end(kShown),
                                           [&](const auto& one) { return option.name == one.name; });
    CLI::Option* added = nullptr;
    if (option.argument == formats::BatchOption::Argument::kRequired) {
      // As they come: of --mem and --mem-per-cpu the later one counts.
      added = app.add_option_function<std::string>(name, add, shown != std::end(kShown) ? shown->help : "")
                  ->trigger_on_parse();
    } else if (option.argument == formats::BatchOption::Argument::kOptional) {
      // "true": there is none.
      added =
          app.add_flag(name)->each([add](const std::string& value) { add(value == "true" ? "" : value); });
    } else {
      added = app.add_flag_callback(name, [add] { add(""); });
    }
    if (shown != std::end(kShown)) {
      added->type_name(shown->type);
    } else {
      added->group("");
    }
  }
  AddRunSettings(app, &arguments->settings);
  app.add_option("--called", arguments->called)->group("");  // by harrow sbatch
  app.add_flag("--dry-run", arguments->dry_run, "Show what would be run, and run nothing");
  app.add_flag("--json", arguments->json, "At the end a JSON document on standard output");
  return [arguments] { return RunArray(*arguments, ForeignWords()); };
}

const Registered kArray({.name = "array",
                         .summary = "Run a job array's script, unchanged, here",
                         .example = "harrow array --array=1-1000%64 job.sh",
                         .usage = "[options] SCRIPT [ARGS...]",
                         .order = 2,
                         .options_first = true,
                         .setup = SetupArray});

}  // namespace
}  // namespace harrow::launcher
