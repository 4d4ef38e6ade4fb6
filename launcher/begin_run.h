#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/status.h"
#include "config/run_options.h"
#include "graph/graph.h"
#include "launcher/run_words.h"
#include "os/file_system.h"
#include "run/flow_store.h"
#include "run_dir/part.h"

namespace harrow::launcher {

/// Not null: CheckRun wants to know what would be run.
extern CheckedRun* checked_run;

/// What is about to be run.
struct Plan {
  graph::Graph graph;
  std::vector<bool> unwanted;
  run::RunSettings settings;
  std::vector<std::string> notices;
  bool exec = false;  // its keeper shows what its task prints, and ends as that does (exec.h)
};

/// Adds the options that set how a run goes; what is given is appended to `settings`.
void AddRunSettings(CLI::App& app, std::vector<config::Setting>* settings);

/// The key of a run's option: "tg_max" of "tg-max".
std::string SettingKey(std::string_view option);

/// How a run is begun.
struct Beginning {
  bool dry_run = false;
  bool json = false;
  /// Called when the flow is stored, instead of becoming its keeper; may be empty. Nobody owns the run then, and it has no part.
  std::function<int(const std::string& run_dir)> instead = {};
  /// Called when the run directory is there and the environment is taken, before the flow is stored; may be empty.
  std::function<Status(run_dir::RunDir& run, Plan* plan)> complete = {};
};

/// Begins a run: makes its directory ready and becomes its keeper, or shows what would be run. Comes back with the exit
/// status of what could not be.
int BeginRun(os::FileSystem& fs, Plan plan, const Beginning& beginning);
/// The same in a new directory of the submit directory, whose name begins like this: hidden, by a dot, so that no other
/// command takes it for the newest run. Its keeper removes it.
int BeginHiddenRun(os::FileSystem& fs, Plan plan, std::string_view prefix, const Beginning& beginning);

// What a run that goes on shares with it:

/// This job's, without restarts; empty: there is none.
std::string JobId();
/// Whose allocation a run's settings are of: this job's.
void NoteJob(run::RunSettings* settings);
/// Was this process' job requeued, so that it had begun before?
bool IsRestarted();
std::string Absolute(const std::string& path);
std::vector<std::pair<std::string, std::string>> SubmitEnvironment();
/// The names, where not even what a login finds is to go along.
inline constexpr const char* kExportedNothing = "NIL";
/// Of the submit environment only what says which job this is, and `names`, with commas between them, goes along with the run,
/// now and where it is resumed; else there is what a login finds.
void LimitEnvironment(const std::string& names, run::RunSettings* settings);
/// As `before` was limited.
void LimitEnvironmentAs(const run::RunSettings& before, run::RunSettings* settings);
/// What is wrong with a directory that cannot become a run directory, in one line.
Status CannotUse(const std::string& run_dir, const Status& why);
/// The part of the run is this process's from now on.
Status Own(const run_dir::Part& part);
void Release(const run_dir::Part& part);
/// Makes the directories of a part.
Status Prepare(const run_dir::Part& part);
/// Prints the plan's notices.
void Notice(const Plan& plan);
/// `--dry-run`: the tasks that would be run, prerequisites first, a line each; `done`: they are not.
int ShowPlan(const Plan& plan, const std::vector<bool>& done);
/// For CheckRun. `resumed`: the directory of the run that would be gone on with; empty: a run would begin.
int HandOver(Plan* plan, std::vector<bool> done, const std::string& resumed);
int BecomeKeeper(const Plan& plan, bool json, const run_dir::Part& part, bool resumed);

}  // namespace harrow::launcher
