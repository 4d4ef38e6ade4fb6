#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "config/run_options.h"
#include "graph/graph.h"
#include "os/file_system.h"
#include "run/first_owners.h"
#include "run_dir/part.h"

namespace harrow::run {

inline constexpr uint32_t kFlowVersion = 4;  // of RUN/flow; flow_format.md

class FlowBuilder;
struct Submission;

/// What a run is that only puts the inputs of its flow on the nodes (`harrow stage`): its tasks are not run.
enum class Stage : uint8_t {
  kNo = 0,
  kRoundRobin = 1,  // each file on one node, in turn
  kAll = 2,         // each file on every node
  kDrop = 3,        // nothing: what such runs left on the nodes is removed
};

/// How a run is to go: what every server of the run, the first and those after a crash, must know alike. The settings
/// proper (but for progress and run_dir, which are a command's), and which run it is, of whom, begun where.
struct RunSettings : config::RunOptions {
  std::string run_id;   // who may talk to whom; new for every run directory
  std::string flow_id;  // which numbering of tasks; the journal's fact `flow_id` must be equal
  std::string job_id;   // of the batch system; empty: none
  std::string partition{};  // of that job; empty: none
  std::string submit_dir;
  std::vector<std::pair<std::string, std::string>> env;  // of the submit environment
  std::vector<std::string> sources;                      // the flow's files as given
  WallTime started;
  bool sync_journal = true;
  Stage stage = Stage::kNo;
  uint32_t submitted = 0;  // so many of its tasks, the last ones, were submitted while it went on
  WallTime session;        // of a part that has joined a run: when the session of the run began that it joined

  /// Of all parts that take part in it.
  WallTime session_start() const { return session == WallTime() ? started : session; }
};

/// A flow as it is stored: tasks have the ids they had when it was written.
struct StoredFlow {
  RunSettings settings;
  graph::Graph graph;          // sealed
  std::vector<bool> unwanted;  // a flag a task: not needed for the targets, never run; empty: none is
  FirstOwners first_owners{};  // of what was read
};

/// Writes the flow file of a directory (0600: it holds the submit environment) in one step. A run's own is never replaced:
/// what a resume makes of it goes into the part that is resumed.
Status WriteFlow(os::FileSystem& fs, const std::string& dir, const RunSettings& settings,
                 const graph::Graph& graph, const std::vector<bool>& unwanted);
/// The settings of a part that joins a run: its tasks are those of the run's first part.
Status WriteSettings(os::FileSystem& fs, const std::string& dir, const RunSettings& settings);
/// The flow that a part goes by: its own, since it was resumed, else that of its run, and what was submitted to it since
/// then. Of a part that has joined: that of the first part, with settings of its own. kNotFound: no run there. kDamaged: cut, changed or of another version; never a piece of the flow.
Result<StoredFlow> ReadFlow(const run_dir::Part& part);
/// The same for who adds to it. `builder`: of `flow`; `submissions`: may be null. Returns how many of the tasks are in the
/// flow file, not beside it (AddedFile).
Result<uint32_t> ReadFlow(const run_dir::Part& part, StoredFlow* flow, FlowBuilder* builder,
                          std::vector<Submission>* submissions);
/// Adds what was submitted to the run since `builder`'s flow was read, from `*at` on (ReadAddedOn); `flow_tasks`: as ReadFlow has told.
/// What is before something that cannot be read is added: `*unread` says why that cannot.
Status ReadMore(const run_dir::Part& part, uint32_t flow_tasks, const std::string& flow_id, uint64_t* at, FlowBuilder* builder,
                Status* unread);
/// The flow file of a directory.
Result<StoredFlow> ReadFlow(os::FileSystem& fs, const std::string& dir);
/// A task for people.
struct TaskText {
  std::string command;  // a line
  std::string place;    // where its flow tells it: "tasks.txt:17"
};
/// Of the tasks asked for; those that are not in the flow are left out.
Result<std::unordered_map<uint32_t, TaskText>> ReadTaskTexts(const run_dir::Part& part,
                                                             const std::vector<TaskId>& tasks);
/// The settings alone: the first chunk only.
Result<RunSettings> ReadSettings(const run_dir::Part& part);
Result<RunSettings> ReadSettings(os::FileSystem& fs, const std::string& dir);

}  // namespace harrow::run
