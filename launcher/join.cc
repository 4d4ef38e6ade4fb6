#include <iostream>
#include <memory>
#include <string>

#include "base/text.h"
#include "config/run_options.h"
#include "journal/snapshot.h"
#include "journal/whole_run.h"
#include "launcher/begin_run.h"
#include "launcher/command.h"
#include "launcher/inputs.h"
#include "launcher/live_parts.h"
#include "launcher/resume_place.h"
#include "os/clock.h"
#include "run/flow_store.h"
#include "run/standing.h"
#include "run_dir/find.h"
#include "run_dir/part.h"

// `harrow join`: one more allocation for a run. It makes a part of the run for it and becomes that part's keeper. The server of the
// part knows the others from the run directory, and gets tasks from them; where the others are over it takes what they have
// left. Of a run that was only stored (run --across) the first that comes gets the first part, with all tasks.

namespace harrow::launcher {
namespace {

struct JoinOptions {
  std::string run;
  std::vector<config::Setting> settings;  // as given on the command line
  bool json = false;
};

constexpr int kTries = 100;

/// A part that nobody has had; the first one where none has been begun.
Result<run_dir::Part> TakeNewPart(const std::shared_ptr<run_dir::RunDir>& run) {
  Status last;
  for (int i = 0; i < kTries; ++i) {
    const auto numbers = run_dir::PartNumbers(*run);
    if (!numbers.ok()) return numbers.status();
    const uint32_t next = numbers->empty() ? 0 : numbers->back() + 1;
    Result<run_dir::Part> part = run_dir::MakePart(run, StrCat(next));
    if (!part.ok()) return part;
    last = Own(*part);
    if (last.ok()) return part;
    // Another allocation that joins at the same moment was first.
    if (last.code() != Code::kExists) return last;
  }
  return last;
}

/// Nothing of the run is left to do.
bool IsOver(const run_dir::Part& first) {
  const auto history = journal::ReadRun(first, journal::ReadSnapshot);
  return history.ok() && run::StandingOf(*history).open == 0 && !history->tasks.empty();
}

/// The settings of a part; of the first one with the flow, which has been stored by who only submitted jobs.
Status WriteOwn(const run_dir::Part& part, const run::RunSettings& settings) {
  if (!part.is_first()) return run::WriteSettings(*part.dir, part.dir->path(), settings);
  const Result<run::StoredFlow> flow = run::ReadFlow(*part.run, part.run->path());
  if (!flow.ok()) return flow.status();
  return run::WriteFlow(*part.dir, part.dir->path(), settings, flow->graph, flow->unwanted);
}

Status MayJoin(const run::RunSettings& settings, const std::string& run) {
  if (settings.stage != run::Stage::kNo)
    return Status(Code::kInvalid, StrCat("the run in ", run, " only puts files on nodes; nothing can join it"));
  if (RealPath(settings.submit_dir) != settings.submit_dir) {
    return Status(Code::kInvalid, StrCat("the run's tasks work in ", Printable(settings.submit_dir),
                      ", which is not there on this machine; both allocations need the same shared file system"));
  }
  return {};
}

int Join(const JoinOptions& options) {
  const Result<std::string> found = run_dir::FindRun(os::RealFileSystem(), options.run, Variable("HARROW_RUN_DIR"));
  if (!found.ok()) return Fail(found.status());
  const auto run = run_dir::RunDir::Open(Absolute(*found));
  if (!run.ok()) return Fail(run.status());
  const std::string& path = (*run)->path();
  const auto first = run_dir::OpenPart(*run);
  if (!first.ok() && first.status().code() != Code::kNotFound) return Fail(first.status());
  Result<run::RunSettings> settings = first.ok() ? run::ReadSettings(*first) : run::ReadSettings(**run, path);
  if (!settings.ok()) return Fail(settings.status());
  if (const Status fits = MayJoin(*settings, path); !fits.ok()) return Fail(fits);
  if (first.ok() && OwnedParts(*run, settings->session_start()).empty() && IsOver(*first)) {
    std::cerr << "harrow: the run in " << Printable(path) << " is over: nothing of it is left to do\n";
    return kExitDone;
  }
  const Result<run_dir::Part> part = TakeNewPart(*run);
  if (!part.ok()) return Fail(CannotUse(path, part.status()));
  // Whoever resumes the run meanwhile sees this part, or is seen here.
  const Result<std::optional<WallTime>> joined = AwaitSession(*part);
  if (joined.ok() && first.ok()) settings = run::ReadSettings(*first);
  if (!joined.ok() || !settings.ok()) {
    Release(*part);
    return Fail(CannotUse(path, joined.ok() ? settings.status() : joined.status()));
  }
  const WallTime session = joined->value_or(settings->session_start());
  Plan plan;
  plan.settings = *settings;
  // What is this allocation's own is not the first one's.
  plan.settings.slots = 0;
  plan.settings.local_nodes = config::RunOptions().local_nodes;
  plan.settings.progress = config::RunOptions().progress;
  if (!part->is_first()) plan.settings.on_end.clear();
  Status ready = config::Apply(options.settings, &plan.settings);
  NoteJob(&plan.settings);
  plan.settings.env = SubmitEnvironment();
  LimitEnvironmentAs(*settings, &plan.settings);
  plan.settings.session = session;
  plan.settings.started = os::RealClock().Now();
  if (ready.ok()) ready = Prepare(*part);
  if (ready.ok()) ready = WriteOwn(*part, plan.settings);
  if (!ready.ok()) {
    Release(*part);
    return ready.code() == Code::kInvalid ? FailInput(ready) : Fail(CannotUse(path, ready));
  }
  if (plan.settings.progress != config::Progress::kNone)
    std::cerr << "harrow: this allocation is part " << part->number << " of the run in " << Printable(path) << "\n";
  return BecomeKeeper(plan, options.json, *part, !part->is_first());
}

const Registered kJoin(
    {.name = "join",
     .summary = "Give a run that goes on one more allocation",
     .example = "harrow join harrow-1234",
     .usage = "[options] [RUN]",
     .order = 14,
     .setup = [](CLI::App& app) -> std::function<int()> {
       auto options = std::make_shared<JoinOptions>();
       app.add_option("RUN", options->run, "The run (default: the newest here)");
       const auto setting = [&](const char* option, const char* type, const char* key, const char* help) {
         app.add_option_function<std::string>(
                option, [options, key, name = std::string(option)](const std::string& value) {
                  options->settings.push_back({key, value, name});
                }, help)
             ->type_name(type);
       };
       setting("-j,--slots", "N", "slots", "One-core tasks at once on a node (default: its cores)");
       setting("--local-nodes", "K", "local_nodes", "Divide this machine into K pretend nodes");
       setting("--progress", "MODE", "progress", "auto (default), plain or none");
       app.add_flag("--json", options->json, "At the end a JSON document on standard output");
       return [options] { return Join(*options); };
     }});

}  // namespace
}  // namespace harrow::launcher
