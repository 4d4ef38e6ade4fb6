#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <thread>

#include "base/text.h"
#include "batch/slurm_site.h"
#include "config/run_options.h"
#include "formats/batch_script.h"
#include "formats/load.h"
#include "formats/output_check.h"
#include "formats/selection.h"
#include "journal/journal.h"
#include "journal/whole_run.h"
#include "launcher/across.h"
#include "launcher/begin_run.h"
#include "launcher/command.h"
#include "launcher/inputs.h"
#include "launcher/known_costs.h"
#include "launcher/live_parts.h"
#include "launcher/resume_place.h"
#include "launcher/run_words.h"
#include "launcher/srun_form.h"
#include "os/clock.h"
#include "run/flow_store.h"
#include "run/resume.h"
#include "run_dir/find.h"
#include "run_dir/names.h"
#include "run_dir/part.h"

// `harrow run`: reads the flow or takes it from an earlier run, decides what is to be run, makes the run
// directory ready, and becomes the keeper by exec, so that the parsed flow's memory is free while the run
// goes on. The process stays the same: the part of the run that it owns is still its own.

namespace harrow::launcher {
namespace {

constexpr size_t kListed = 10;  // names of tasks shown in a line

struct RunArguments {
  FlowArguments flow;
  std::vector<config::Setting> settings;  // as given on the command line
  std::vector<std::string> targets;
  std::string across;
  bool resume = false, rerun_failed = false, stale = false, dry_run = false, json = false;
};

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
  load.need_commands = load.inputs_must_exist = load.check_outputs = true;
  formats::Flow flow;
  HARROW_RETURN_IF_ERROR(
      LoadFlow(fs, arguments.flow, arguments.settings, load, &plan->graph, &flow, &plan->settings));
  HARROW_RETURN_IF_ERROR(CheckLocalFiles(plan->graph, plan->settings));
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

using run_dir::Part;

bool OnlyRunDir(const std::vector<config::Setting>& settings) {
  return std::all_of(settings.begin(), settings.end(), [](const config::Setting& setting) { return setting.key == "run_dir"; });
}

/// What --across says, if the site allows it.
Result<AcrossAsked> AskedAcross(const RunArguments& arguments) {
  Result<AcrossAsked> asked = ParseAcross(arguments.across);
  if (asked.ok() && !asked->allocations.empty()) HARROW_RETURN_IF_ERROR(AllowedAcross(*asked, batch::MovePartitionsHere()));
  return asked;
}

/// Goes on with a run by allocations that are there, or are asked for: they take what is open. Nothing of the run is changed.
int ResumeAcross(const RunArguments& arguments, const std::string& run_dir) {
  const Result<AcrossAsked> asked = AskedAcross(arguments);
  if (!asked.ok()) return FailInput(asked.status());
  if (arguments.rerun_failed || arguments.stale || arguments.dry_run || !arguments.targets.empty() || !OnlyRunDir(arguments.settings))
    return FailInput(Status(Code::kInvalid, "harrow: --resume with --across goes on with a run as it is, and takes no other option but --run-dir and --json"));
  if (!arguments.flow.Inputs().empty()) std::cerr << "harrow: the run goes on as it is stored: its flow is not read again\n";
  return RunAcross(*asked, run_dir, arguments.json, true);
}

int StartNew(os::FileSystem& fs, const RunArguments& arguments) {
  Plan plan;
  if (arguments.flow.Inputs().empty()) {
    std::cerr << "harrow: no flow file; name one (harrow run tasks.txt), - for standard input, or --resume\n";
    return kExitUsage;
  }
  if (const Status loaded = LoadPlan(fs, arguments, &plan); !loaded.ok()) return FailInput(loaded);
  if (const Status selected = Select(fs, arguments, &plan); !selected.ok()) return Fail(selected);
  if (arguments.stale && !arguments.dry_run && !arguments.json &&
      std::find(plan.unwanted.begin(), plan.unwanted.end(), false) == plan.unwanted.end()) {
    Notice(plan);
    std::cerr << "harrow: nothing is to be run: all outputs are there, and none is older than what it is made from\n";
    return kExitDone;
  }
  Beginning beginning = {.dry_run = arguments.dry_run, .json = arguments.json};
  if (!arguments.across.empty()) {
    const Result<AcrossAsked> asked = AskedAcross(arguments);
    if (!asked.ok()) return FailInput(asked.status());
    beginning.instead = [asked = *asked, json = arguments.json](const std::string& run_dir) { return RunAcross(asked, run_dir, json, false); };
  }
  return BeginRun(fs, std::move(plan), beginning);
}

/// The earlier run as it stands on disk.
struct Earlier {
  run::StoredFlow flow;
  journal::History history;  // of the first part
  journal::History whole;    // with what other parts of its last session did
  made::Attempts made;       // what attempts of other parts left
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
  earlier.whole = earlier.history;
  if (part.run == part.dir) return earlier;
  std::vector<Status> trouble;
  for (journal::History& other :
       journal::ReadOthersOfSession(part, earlier.history,
                                    [](const auto& other) { return journal::ReadHistory(other); }, &trouble)) {
    for (journal::FateRecord& fate : other.fates) earlier.whole.fates.push_back(fate);
    for (journal::AttemptRecord& attempt : other.attempts) earlier.whole.attempts.push_back(std::move(attempt));
  }
  if (!trouble.empty()) return trouble.front();
  const auto numbers = run_dir::PartNumbers(*part.run);
  for (const uint32_t number : numbers.ok() ? *numbers : std::vector<uint32_t>()) {
    if (number == part.number) continue;
    const auto other = run_dir::OpenPart(part.run, StrCat(number));
    if (!other.ok()) continue;
    for (const auto& [task, attempt] : made::ReadAll(*other->dir, other->dir->path(), earlier.flow.settings.flow_id))
      made::Note(attempt, &earlier.made);
  }
  return earlier;
}

/// A run that goes on in other allocations is not resumed; where one of them died, what it left on its nodes is waited for.
Status OthersAreOver(const Part& part, bool wait) {
  const Result<run::RunSettings> settings = run::ReadSettings(part);
  if (!settings.ok()) return {};
  bool gone = false;
  for (const OwnedPart& other : OwnedParts(part.run, settings->session_start())) {
    if (other.part.number == part.number) continue;
    if (other.owner == run_dir::OwnerIs::kThere) {
      return Status(Code::kExists, StrCat("the run goes on in another allocation (part ", other.part.number,
                                          "), which takes over what is open; harrow join ",
                                          ShellQuote(part.run->path()), " gives it this one as well"));
    }
    gone = true;
  }
  if (gone && wait && settings->fence > Duration(0)) {
    std::cerr << "harrow: another allocation of the run was killed; its tasks are waited for, "
              << FormatDuration(settings->fence) << " (fence)\n";
    std::this_thread::sleep_for(settings->fence);
  }
  return {};
}

/// The plan of a resumed run: the flow named again, or the one of before, whose graph moves over then.
Status PlanAgain(os::FileSystem& fs, const RunArguments& arguments, Earlier* earlier, Plan* plan) {
  if (!arguments.flow.Inputs().empty()) {
    HARROW_RETURN_IF_ERROR(LoadPlan(fs, arguments, plan));
    plan->settings.submitted = earlier->flow.settings.submitted;
    HARROW_RETURN_IF_ERROR(run::TakeOverSubmitted(earlier->flow.graph, plan->settings.submitted, &plan->graph));
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
    const bool asked = std::any_of(arguments.settings.begin(), arguments.settings.end(), [](const auto& s) { return s.key == "costs_from"; });
    if (asked) HARROW_RETURN_IF_ERROR(FindKnownCosts(&plan->settings));
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
  const Result<std::string> found = run_dir::FindRun(fs, given, Variable("HARROW_RUN_DIR"));
  // So a job's script may be submitted again and again.
  if (found.status().code() == Code::kNotFound && !given.empty() && !arguments.flow.Inputs().empty()) {
    std::cerr << "harrow: there is no run in " << Printable(given)
              << (arguments.dry_run ? " yet\n" : " yet: it begins now\n");
    return StartNew(fs, arguments);
  }
  if (!found.ok()) return Fail(found.status());
  const auto dir = run_dir::RunDir::Open(Absolute(*found));
  if (!dir.ok()) return Fail(dir.status());
  const std::string& run_dir = (*dir)->path();
  if (!arguments.across.empty()) return ResumeAcross(arguments, run_dir);
  // A run whose part has been removed has nothing recorded, and begins anew.
  Result<Part> part = arguments.dry_run ? run_dir::OpenPart(*dir) : run_dir::MakePart(*dir);
  if (arguments.dry_run && part.status().code() == Code::kNotFound) part = run_dir::LookAtPart(*dir);
  if (!part.ok()) return Fail(part.status());
  // One that was killed stays on record where this command comes to nothing: what it left running is waited for.
  const Result<std::string> before = part->dir->Read(run_dir::OwnerPath(part->dir->path()));
  if (const Status alone = OthersAreOver(*part, false); !alone.ok()) return Fail(alone);
  if (!arguments.dry_run) {
    if (const Status owned = Own(*part); !owned.ok()) {
      return Fail(CannotUse(run_dir, owned));
    }
  }
  const auto give_up = [&](int exit_code) {
    if (arguments.dry_run) return exit_code;
    if (before.ok()) {
      (void)part->dir->WriteWhole(run_dir::OwnerPath(part->dir->path()), *before);
    } else {
      Release(*part);
    }
    return exit_code;
  };
  // Again, as one may have joined meanwhile.
  if (const Status alone = OthersAreOver(*part, !arguments.dry_run); !alone.ok()) return give_up(Fail(alone));
  Result<Earlier> earlier = ReadEarlier(*part, !arguments.dry_run);
  if (!earlier.ok()) return give_up(Fail(earlier.status()));
  Plan plan;
  const bool same_flow = arguments.flow.Inputs().empty();
  const Named named = !same_flow                              ? Named::kFlow
                      : formats::IsArray(earlier->flow.graph) ? Named::kArray
                                                              : Named::kNothing;
  const Result<ResumePlace> place = FindResumePlace(earlier->flow.settings, earlier->history, run_dir, named);
  if (!place.ok()) return give_up(Fail(place.status()));
  earlier->flow.settings.submit_dir = place->submit_dir;
  if (const Status planned = PlanAgain(fs, arguments, &*earlier, &plan); !planned.ok()) {
    return give_up(planned.code() == Code::kInvalid ? FailInput(planned) : Fail(planned));
  }
  if (earlier->flow.settings.files == config::Files::kLocal && plan.settings.files != config::Files::kLocal) {
    return give_up(FailInput(Status(
        Code::kInvalid, "harrow: the run's files lay on its nodes, and what its done tasks made is not in the submit directory; add --files local")));
  }
  // The script of an array lies in the run directory, which may have been moved, with what lay beside it.
  if (same_flow) {
    const Status moved = formats::ExecuteScript(run_dir::ScriptPath(run_dir), place->submit_dir, &plan.graph);
    if (!moved.ok()) return give_up(Fail(moved));
  }
  const Status apart = formats::CheckRunDirectory(fs, plan.graph, plan.settings.submit_dir, run_dir);
  if (!apart.ok()) return give_up(FailInput(apart));
  Notice(plan);
  if (!place->notice.empty()) std::cerr << "harrow: " << place->notice << "\n";
  const run::ResumePlan resume = run::PlanResume(same_flow ? plan.graph : earlier->flow.graph,
                                                       plan.graph, plan.unwanted, earlier->whole);
  TellResume(plan, resume);
  if (checked_run != nullptr) return HandOver(&plan, resume.done, run_dir);
  if (arguments.dry_run) return ShowPlan(plan, resume.done);
  plan.settings.run_id = earlier->flow.settings.run_id;
  plan.settings.flow_id = earlier->flow.settings.flow_id;
  NoteJob(&plan.settings);
  plan.settings.env = SubmitEnvironment();
  if (same_flow) LimitEnvironmentAs(earlier->flow.settings, &plan.settings);
  plan.settings.started = os::RealClock().Now();
  plan.settings.session = WallTime();
  Status ready = Prepare(*part);
  if (ready.ok()) {
    ready = run::ApplyResume(part->dir, resume, earlier->history, &plan.settings, plan.graph, plan.unwanted,
                             earlier->made);
  }
  if (!ready.ok()) return give_up(Fail(CannotUse(run_dir, ready)));
  return BecomeKeeper(plan, arguments.json, *part, true);
}

int Run(RunArguments arguments) {
  if (checked_run != nullptr) {
    arguments.dry_run = true;
    return arguments.resume || arguments.rerun_failed ? Resume(os::RealFileSystem(), arguments)
                                                      : StartNew(os::RealFileSystem(), arguments);
  }
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
  AddRunSettings(app, &arguments->settings);
  app.add_option("--target", arguments->targets, "")->type_name("NAME")->allow_extra_args(false);
  app.add_flag("--stale", arguments->stale, "Only what NAME needs; what is older than its inputs");
  app.add_option("--across", arguments->across, "Submit jobs that run it: fast:2,slow:4x3; auto,max=4")->type_name("P:N,...");
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

int CheckRun(std::vector<std::string> words, CheckedRun* checked) {
  checked_run = checked;
  const int code = RunWords(words);
  checked_run = nullptr;
  return code;
}

}  // namespace harrow::launcher
