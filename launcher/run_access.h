#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/status.h"
#include "client/client.h"
#include "journal/journal.h"
#include "os/event_loop.h"
#include "output/packed_output.h"
#include "report/progress.h"
#include "report/run_view.h"
#include "report/summary.h"
#include "run_dir/part.h"

namespace harrow::launcher {

/// How wide a table on standard output may be: the terminal's width, or 80.
size_t TableWidth();
/// Adds --run-dir; with `named` also RUN, for commands that take no other words.
void AddRunDir(CLI::App& app, std::string* run_dir, bool named = false);
/// Adds TASK...: names, "#12", and elements of an array as the batch system writes them, "17_[3-5,9]", one by one in `tasks`.
void AddTaskNames(CLI::App& app, std::vector<std::string>* tasks, const std::string& help, bool required = false);
/// The run that a command is about, opened to look at (run_dir/find.h). A number alone is a job: its newest run here.
Result<run_dir::Part> OpenRun(const std::string& given);

/// A run as the commands that ask about it see it: its server while that answers, else its journal.
class RunAccess {
 public:
  /// Finds the run and tries its server. An error: there is no such run, or it must not be used (run_dir/find.h).
  /// Where no run is named, elements of an array ("17_4") name one: the newest of their job.
  static Result<std::unique_ptr<RunAccess>> Open(const std::string& run_dir, const std::vector<std::string>& elements = {});

  const std::string& dir() const { return part_.run->path(); }
  const run_dir::Part& part() const { return part_; }
  /// Do these words mean all of it, as it is an array and they are its job's number?
  bool IsWhole(const std::vector<std::string>& tasks) const;
  Result<std::unique_ptr<output::Reader>> OpenOutput() const;
  /// Null: none answers, server_status() says why.
  client::Client* server() { return client_.get(); }
  const Status& server_status() const { return server_status_; }
  /// An allocation of the run's session.
  struct OneAllocation {
    run_dir::Part part;
    std::string job, partition;            // empty: none, or not known yet
    bool over = false;
    std::optional<pb::Progress> progress;  // none: it is over, or its server does not answer
  };
  /// All of them, by part; what server() has just said is `asked`. Empty where the run has had one alone.
  std::vector<OneAllocation> Allocations(const pb::Progress& asked);
  /// Asks the server of that part.
  Result<pb::Answer> Drain(const run_dir::Part& part, const std::string& node = {});
  Result<pb::Answer> Move(const run_dir::Part& part, const pb::MoveTask& request);
  /// Tries again, for commands that follow a run.
  void Reconnect();
  /// Lets time pass.
  void Wait(Duration d);

  /// What is on disk: while a server runs it lags behind by some tenths of a second.
  Result<journal::History> ReadHistory();
  /// Said on standard error where the journal stands in for a server that should answer; empty: nothing to
  /// say.
  std::string Note() const;
  /// The allocation in which the run began is over, or not; another one of it is there.
  bool goes_on_elsewhere() const;
  /// starting, running, ended, stopped (over with tasks open), unreachable (a server may still run, elsewhere).
  std::string State(const Figures& view) const;

 private:
  explicit RunAccess(run_dir::Part part);
  std::optional<pb::Progress> AskOther(const run_dir::Part& part);
  Result<client::Client*> Connected(const run_dir::Part& part);

  run_dir::Part part_;
  mutable std::vector<run_dir::Part> others_;  // parts whose output has been opened
  std::unique_ptr<os::EventLoop> loop_;
  std::unique_ptr<client::Client> client_;
  std::map<uint32_t, std::unique_ptr<client::Client>> other_clients_;
  Status server_status_;
};

/// Whether what an allocation's server tells is about a node of that name, too.
bool HasNode(const pb::Progress& progress, const std::string& node);
/// The one that has a node of that name; null: none that answers.
const RunAccess::OneAllocation* AllocationWithNode(const std::vector<RunAccess::OneAllocation>& allocations, const std::string& node);
std::vector<report::NodeView> NodesOf(const pb::Progress& progress);
std::vector<report::NodeView> NodesOf(const report::RunView& run);

/// Positions of the tasks named: names, "#12" or "12". kInvalid, one line, with a suggestion for one that is
/// unknown.
Result<std::vector<size_t>> FindTasks(const report::RunView& run, const std::vector<std::string>& names);

/// Says what the failed tasks ran, where the run's flow can be read.
void AddCommands(const run_dir::Part& part, std::vector<report::Failure>* failures);

/// Writes all of it; false when nobody reads on or the disk is full (WriteFailure then says so).
bool WriteTo(int fd, std::string_view text);
/// The exit status of a command that has printed: kExitDone, or after a failed WriteTo 3 with a line of why.
int OutputDone();

/// Prints of each task why it waits, or where and how it ran (`harrow explain`); exit status.
int ExplainTasks(RunAccess& run, const std::vector<std::string>& names);

}  // namespace harrow::launcher
