#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/resources.h"
#include "base/source_place.h"
#include "base/status.h"
#include "base/time.h"

namespace harrow::graph {

/// How a task's command is to be started.
enum class CommandForm : uint8_t {
  kWords,  // text without shell syntax: split at blanks, executed directly
  kArgv,   // arguments separated by NUL, executed directly
  kShell,  // handed to the profile's shell (default /bin/sh) with -c
  kNone,   // a recorded task without a command (WfFormat): can be simulated and replayed, not run
};

/// What tasks of one kind have in common. Equal profiles share one ProfileId.
struct Profile {
  Shape shape;
  uint32_t ranks = 0;             // > 0: an MPI task
  std::string cwd;                // relative to the submit directory; empty: that directory
  std::string shell;              // "bash", "/bin/zsh"; empty: direct execution, or /bin/sh when the command needs one
  std::vector<std::pair<std::string, std::string>> env;
  Duration time_limit{0};         // 0: none
  int32_t retries = -1;           // -1: the run's default
  std::vector<int32_t> retry_on;  // exit codes (signals as 128 + n); empty: any
  std::string stdin_path, stdout_path, stderr_path;  // patterns with %A %a %j %J %N %n %t %x; empty: /dev/null, packed, packed
  int32_t priority = 0;           // larger first among ready tasks of equal order
  bool keep = false;              // its outputs are results, never dropped
  bool operator==(const Profile&) const = default;
};

/// One task as a format hands it in. The views need to live only during the call.
struct TaskSpec {
  std::string_view name;     // empty: a line of a line file, called by its number
  std::string_view command;
  CommandForm form = CommandForm::kWords;
  ProfileId profile;
  KindId kind;
  std::span<const FileId> in, out;
  std::span<const TaskId> after;
  SourcePlace place;
  std::optional<Duration> recorded_run_time;  // of a trace
};

/// Tasks and files of a flow. Grows: tasks may be added after Seal(), which is then called again.
/// Owner: one thread. Names and commands are kept in an arena; views into it live as long as the graph.
class Graph {
 public:
  Graph();
  ~Graph();
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;

  // --- building
  ProfileId AddProfile(const Profile& profile);
  KindId AddKind(std::string_view name);
  /// The file of that name, made if new. Names are compared after lexical normalisation ("./a//b" is "a/b").
  FileId AddFile(std::string_view name);
  void SetFileSize(FileId file, int64_t bytes);
  /// Name of an input file of the flow, for messages; its number is SourcePlace::source.
  uint32_t AddSource(std::string_view file_name);
  TaskId AddTask(const TaskSpec& task);
  void AddDependency(TaskId before, TaskId after);

  /// Finds the producer of every file (an input below an output directory is produced by that directory's task),
  /// links tasks, computes levels. kInvalid with "FILE:LINE:COLUMN: ..." for duplicate names, two producers of one
  /// file, and cycles (with their path). All problems are found, up to `max_problems`, a line each.
  Status Seal(size_t max_problems = 20);

  // --- reading
  size_t task_count() const;
  size_t file_count() const;
  size_t profile_count() const;
  size_t kind_count() const;
  /// Never empty: "#12" (number from 1) for a task without a name.
  std::string TaskName(TaskId task) const;
  std::string_view given_name(TaskId task) const;
  std::string_view command(TaskId task) const;
  CommandForm form(TaskId task) const;
  ProfileId profile_id(TaskId task) const;
  const Profile& profile(TaskId task) const;
  const Profile& profile(ProfileId profile) const;
  KindId kind(TaskId task) const;
  std::string_view kind_name(KindId kind) const;
  SourcePlace place(TaskId task) const;
  /// "FILE:LINE:COLUMN" of a place.
  std::string PlaceText(SourcePlace place) const;
  std::optional<Duration> recorded_run_time(TaskId task) const;
  Level level(TaskId task) const;
  std::span<const FileId> inputs(TaskId task) const;
  std::span<const FileId> outputs(TaskId task) const;
  /// Tasks that wait for this one / that it waits for; each once. Valid after Seal().
  std::span<const TaskId> successors(TaskId task) const;
  std::span<const TaskId> predecessors(TaskId task) const;
  std::string_view file_name(FileId file) const;
  int64_t file_size(FileId file) const;            // -1: unknown
  TaskId producer(FileId file) const;              // none: it exists before the flow
  std::optional<FileId> FindFile(std::string_view name) const;
  /// By name, or "#12" / "12" for the task of that number. Builds an index at the first call.
  std::optional<TaskId> FindTask(std::string_view name) const;

  /// Bytes held, without the text of names and commands.
  size_t MemoryWithoutText() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Longest path in recorded run times (critical path) and its tasks; needs recorded times.
struct CriticalPath {
  Duration length{0};
  std::vector<TaskId> tasks;
};
CriticalPath FindCriticalPath(const Graph& graph);

/// The tasks that the targets need, themselves included, as one flag a task.
std::vector<bool> NeededFor(const Graph& graph, std::span<const TaskId> targets);

}  // namespace harrow::graph
