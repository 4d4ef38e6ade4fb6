#include "launcher/exec.h"

#include <cstring>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/text.h"
#include "config/run_options.h"
#include "formats/command_form.h"
#include "formats/task_keys.h"
#include "journal/journal.h"
#include "launcher/begin_run.h"
#include "launcher/command.h"
#include "launcher/inputs.h"
#include "launcher/resume_place.h"
#include "launcher/srun_form.h"
#include "os/file_system.h"
#include "report/run_view.h"
#include "report/summary.h"
#include "run_dir/names.h"

// `harrow exec`: a run of one task, the ranks of one program. It has a server and agents of its own, so that
// it can run beside another run of the same job, and what it may ask for is what a task of a flow may. Its
// run directory is hidden. Its keeper shows what the ranks print (output_relay.cc), ends with the exit status
// of the task, and removes the directory. What is for flows is not for it: it is tried once, and a site's
// commands for nodes and ends of runs are left out.

namespace harrow::launcher {
namespace {

constexpr int kTimedOut = 124;  // as timeout(1)
constexpr int kKilled = 128 + 9;
constexpr int kTaskName = 60;  // characters

struct ExecArguments {
  std::vector<config::Setting> keys;      // of its task
  std::vector<config::Setting> settings;  // of its run
};

Status BadExec(const std::string& what) {
  return Status(Code::kInvalid, StrCat("harrow: ", what));
}

/// What the options say of the task.
Result<graph::Profile> ReadProfile(const std::vector<config::Setting>& keys) {
  formats::TaskAttributes attributes;
  attributes.profile.ranks = 1;
  for (const config::Setting& key : keys) {
    const Status set = formats::SetAttribute(key.key, key.value, &attributes);
    if (!set.ok()) return BadExec(StrCat("--", set.message()));
  }
  for (const std::string_view key : formats::AttributeKeys()) {
    if (formats::IsCheckpointKey(key)) continue;  // what runs now, for people to see, goes on nowhere else
    if (const Status possible = formats::Contradiction(key, attributes); !possible.ok())
      return BadExec(possible.message());
  }
  return attributes.Resolved();
}

Status PlanExec(os::FileSystem& fs, const ExecArguments& arguments, const std::vector<std::string>& words,
                Plan* plan) {
  if (words.empty()) return BadExec("no command; name one (harrow exec -n 4 ./program input)");
  Result<graph::Profile> profile = ReadProfile(arguments.keys);
  if (!profile.ok()) return profile.status();
  // A task's is its cores; who calls this has his own way to say something else. In a task it is Harrow's.
  if (const std::string threads = Variable("OMP_NUM_THREADS"); !threads.empty() && Variable("HARROW_TASK_ID").empty())
    profile->env.emplace_back("OMP_NUM_THREADS", threads);
  Result<std::vector<config::Setting>> settings = config::ReadSettings(fs, Environment());
  if (!settings.ok()) return settings.status();
  settings->insert(settings->end(), arguments.settings.begin(), arguments.settings.end());
  HARROW_RETURN_IF_ERROR(config::Apply(*settings, &plan->settings));

  constexpr auto kForm = graph::CommandForm::kArgv;
  const std::string command = formats::ArgumentsOf(words);
  if (const Status size = formats::CheckCommandSize(command, kForm); !size.ok())
    return BadExec(size.message());
  std::string name = Printable(formats::ProgramName(command, kForm), kTaskName);
  if (name.empty()) name = "exec";
  if (const std::string_view program = formats::ProgramName(command, kForm);
      profile->ranks > 1 && formats::StartsRanks(program))
    plan->notices.push_back(StrCat("harrow: ", formats::RanksTwiceText(program, profile->ranks)));
  plan->graph.AddSource("harrow exec");
  graph::TaskSpec task;
  task.name = name;
  task.command = command;
  task.form = kForm;
  task.profile = plan->graph.AddProfile(*profile);
  task.kind = plan->graph.AddKind(name);
  plan->graph.AddTask(task);
  HARROW_RETURN_IF_ERROR(plan->graph.Seal());

  run::RunSettings& run = plan->settings;
  run.submit_dir = RealPath(".");
  run.name = name;
  run.files = config::Files::kShared;
  run.retries = 0;
  run.max_losses = 1;
  run.output_limit = 0;
  run.progress = config::Progress::kNone;
  for (std::string* site_command : {&run.on_end, &run.node_setup, &run.node_teardown}) site_command->clear();
  plan->exec = true;
  return {};
}

int RunExec(const ExecArguments& arguments, const std::vector<std::string>& words) {
  if (const std::optional<int> ended = BecomeAgentOfStep()) return *ended;
  os::FileSystem& fs = os::RealFileSystem();
  Plan plan;
  const Status made = PlanExec(fs, arguments, words, &plan);
  const int code = made.ok() ? BeginHiddenRun(fs, std::move(plan), kExecDirectories, {}) : FailInput(made);
  (void)TellStep("");  // there is no run
  return code;
}

/// As a shell has it, where it has a word for it.
int CodeOf(const journal::AttemptRecord& attempt) {
  using journal::End;
  switch (attempt.end) {
    case End::kExited:
      return attempt.code != 0 ? attempt.code : kExitTaskFailed;
    case End::kSignaled:
      return 128 + attempt.code;
    case End::kTimedOut:
      return kTimedOut;
    case End::kOutOfMemory:
      return kKilled;
    case End::kNotStarted:  // with a code: there is no such program, or it may not be executed
      return attempt.code != 0 ? attempt.code : kExitCannotGoOn;
    default:
      return kExitCannotGoOn;
  }
}

/// How it ended and where, in the words of this command's options.
std::string HowText(const journal::AttemptRecord& attempt, const std::string& node) {
  std::string how = report::EndText(attempt);
  for (const char* kind : {"none", "pmix", "pmi1"}) {
    const std::string key = StrCat("mpi = \"", kind, "\"");
    if (const size_t at = how.find(key); at != std::string::npos) how.replace(at, key.size(), StrCat("--mpi ", kind));
  }
  const std::string where = StrCat("on ", node);
  const bool told = node.empty() || how.find(where) != std::string::npos;
  return StrCat("harrow: ", Printable(how, 300), told ? "" : StrCat(", ", Printable(where)), "\n");
}

std::function<int()> SetupExec(CLI::App& app) {
  auto arguments = std::make_shared<ExecArguments>();
  static constexpr struct {
    const char *option, *key, *type, *help;
    bool of_task;
  } kOptions[] = {
      {"-n,--ranks", "ranks", "N", "Its processes (default 1)", true},
      {"-c,--cores", "cores", "N", "Cores of each (default 1)", true},
      {"--gpus", "gpus", "N", "GPUs of each", true},
      {"-N,--nodes", "nodes", "N", "Nodes that they are spread over (default 1)", true},
      {"--mpi", "mpi", "KIND", "pmix (default); pmi1: of MPICH; none: not of MPI", true},
      {"--memory", "memory", "BYTES", "Of all processes of a node together", true},
      {"-t,--time", "time", "T", "End it after so long", true},
      {"-j,--slots", "slots", "N", "Take a node for one of N cores", false},
      {"--local-nodes", "local_nodes", "K", "Divide this machine into K pretend nodes", false},
  };
  for (const auto& info : kOptions) {
    const char* const comma = std::strrchr(info.option, ',');
    const std::string place = comma == nullptr ? info.option : comma + 1;
    std::vector<config::Setting>* const given = info.of_task ? &arguments->keys : &arguments->settings;
    app.add_option_function<std::string>(
           info.option,
           [arguments, given, info, place](const std::string& value) {
             given->push_back({info.key, value, place});
           },
           info.help)
        ->type_name(info.type);
  }
  return [arguments] { return RunExec(*arguments, ForeignWords()); };
}

const Registered kExec({.name = "exec",
                        .summary = "Run one MPI program here, now, and show what it prints",
                        .example = "harrow exec -n 4 ./solver case.nml",
                        .usage = "[options] COMMAND [ARGS...]",
                        .order = 5,
                        .options_first = true,
                        .setup = SetupExec});

}  // namespace

ExecEnd EndOfExec(const run_dir::Part& part, const keeper::KeeperEnd& end) {
  ExecEnd told{.code = end.signal != 0 ? 128 + end.signal : kExitCannotGoOn};
  if (!end.problem.empty()) told.words = StrCat("harrow: ", end.problem, "\n");
  const Result<journal::History> history = journal::ReadHistory(part.dir);
  if (history.ok() && !history->tasks.empty()) {
    const report::RunView run(*history);
    if (run.fate(0) == journal::TaskFate::kDone) return {};
    const std::optional<size_t> last = run.LastAttempt(0);
    if (last && run.fate(0) != journal::TaskFate::kOpen) {
      const journal::AttemptRecord& attempt = history->attempts[*last];
      told.code = CodeOf(attempt);
      told.words += HowText(attempt, run.NodeName(attempt.node));
      return told;
    }
  }
  if (end.signal != 0) return told;
  if (end.end == run::ServerEnd::kCannotGoOn) {
    told.words +=
        StrCat("harrow: what went on is told in ", Printable(run_dir::LogDirectory(part.dir->path())), "\n");
  } else if (!history.ok()) {
    told.words += StrCat("harrow: ", history.status().message(), "\n");
  } else if (end.last.out_of_time()) {
    told.words +=
        "harrow: stopped before the job's time limit: it might not end in what is left of it (--time), less "
        "what is kept free (end_margin)\n";
  } else {
    told.words += "harrow: it was stopped before it had ended\n";
  }
  return told;
}

}  // namespace harrow::launcher
