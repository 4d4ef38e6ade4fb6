#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "journal/journal.h"
#include "output/packed_output.h"
#include "report/json.h"
#include "report/progress.h"

namespace harrow::report {

class RunView;

/// The figures of a run from its journal. A run without the fact `ended_ns` counts until its last record.
Figures FiguresOf(const journal::History& history);
Figures FiguresOf(const RunView& run);

/// How an attempt ended, for people: "exit 1", "signal 11 (SIGSEGV)", "timed out", "not started: x: command
/// not found".
std::string EndText(const journal::AttemptRecord& attempt);

/// Names of nodes, one after the other.
std::string ListNodes(const std::vector<std::string>& names, std::string_view between);

struct Failure {
  TaskId id;
  std::string task;
  uint32_t attempt = 0;
  std::string node;           // or nodes, "n1, n2"
  std::string how;            // EndText
  std::string stderr_tail{};  // last lines, as printed by the task; empty: it printed none
  bool cut = false;           // there was more before
  std::string command{};      // a line; empty: not known
};

/// The first `count` tasks that failed, in the order in which they ended for good, with the last `lines`
/// lines of their last attempt's stderr. `reader` null: without stderr. Unreadable output is said in the
/// tail, never an error.
std::vector<Failure> FirstFailures(const journal::History& history, output::Reader* reader, size_t count = 5,
                                   size_t lines = 10);

/// Those failures for people, control characters other than tab made visible; empty when there are none.
/// `total_failed` says how many there are in all; `logs_hint` is the command that shows the rest ("harrow
/// logs --failed").
std::string FailuresText(const std::vector<Failure>& failures, uint64_t total_failed,
                         const std::string& logs_hint);

/// "done 4998 of 5000, failed 1, skipped 1; 12.4 s, 97.1 % of 8 slots busy, 83 % of input bytes local". No
/// line end.
std::string SummaryLine(const Figures& view);

/// What is put around the figures in `status --json` and `run --json`.
struct NodeView {
  std::string name;
  uint32_t slots = 0;
  uint32_t running = 0;
  uint64_t ended = 0;         // attempts
  std::string state;          // joined, lost, closed, left
  uint32_t incarnations = 0;  // of its agent
};
/// Of a run that goes on in several allocations, one of them.
struct AllocationView {
  uint32_t part = 0;
  std::string partition, job;          // empty: none
  std::string state;                   // running, draining, silent (its server does not answer), over
  uint32_t nodes = 0, slots = 0;
  uint64_t running = 0, ready = 0, waiting = 0;  // tasks of its own
  uint64_t took = 0, gave = 0;                   // tasks, from and to others
};
struct StatusContext {
  std::string run_dir, run_id;
  std::string state;   // running, ended, stopped (over, with tasks open), unreachable
  std::string source;  // server, journal
  std::string note;    // a sentence when something is to be known about the source
  uint64_t epoch = 0;  // of the last server
  std::optional<double> best{}, bound{};  // the best value of the run, and the least bound of its open tasks
  std::vector<AllocationView> allocations{};  // of a run that goes on in several
  bool with_nodes = false;
  std::vector<NodeView> nodes;
  bool with_failures = false;
  std::vector<Failure> failures;
};

/// "best value 3.7, least bound 3.5 (5.4 % below)"; empty: none is known.
std::string BestText(const StatusContext& context);

/// The document of `status --json`, with a line end; keys as in harrow-status(1). Version: kStatusVersion.
inline constexpr int kStatusVersion = 1;
std::string StatusJson(const Figures& view, const StatusContext& context);
/// The members that it shares with `report --json`, into an object that is open.
void AppendFigures(const Figures& view, const StatusContext& context, JsonWriter* json);

}  // namespace harrow::report
