#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/prefetch.h"
#include "base/records.h"
#include "base/resources.h"
#include "base/source_place.h"
#include "base/status.h"
#include "base/time.h"
#include "graph/checkpoint.h"
#include "graph/file_table.h"
#include "graph/text_arena.h"

namespace harrow::graph {

/// How a task's command is to be started.
enum class CommandForm : uint8_t {
  // Text without shell syntax: split at blanks, executed directly.
  kWords,
  // Arguments separated by NUL, executed directly.
  kArgv,
  // Handed to the profile's shell (default /bin/sh) with -c.
  kShell,
  // A recorded task without a command (WfFormat): can be simulated and replayed, not run.
  kNone,
  // As kArgv; arguments before the program, NAME=value each, are variables of its environment.
  kAssigned,
};

/// Who tells the ranks of an MPI task of each other.
enum class Mpi : uint8_t {
  kPmix,  // the nodes' agents, by PMIx
  kNone,  // they do: HARROW_RANK, HARROW_HOSTFILE
  kPmi1,  // the nodes' agents, by PMI-1
};

/// What tasks of one kind have in common. Equal profiles share one ProfileId.
struct Profile {
  Shape shape;
  // More than 0: it is an MPI task. The shape's cores and devices are those of all ranks of a node that has
  // most of them (RanksOn).
  uint32_t ranks = 0;
  Mpi mpi = Mpi::kPmix;
  // Relative to the submit directory; empty: that directory.
  std::string cwd;
  // "bash", "/bin/zsh"; empty: direct execution, or /bin/sh when the command needs one.
  std::string shell;
  std::vector<std::pair<std::string, std::string>> env;
  // 0: it has none.
  Duration time_limit{0};
  // -1: as the run says.
  int32_t retries = -1;
  // Before it is tried again after a failure; below 0: as the run says.
  Duration retry_delay{-1};
  // The exit codes (signals as 128 + n) after which it is tried again; empty: any.
  std::vector<int32_t> retry_on;
  // Patterns with %A %a %j %J %N %n %t %x; empty: /dev/null, packed, packed.
  std::string stdin_path, stdout_path, stderr_path;
  // Among ready tasks of equal order the larger goes first.
  int32_t priority = 0;
  // Its outputs are results, never dropped.
  bool keep = false;
  // So many nodes are to have its outputs, where files lie on their own disks.
  uint32_t replicas = 1;
  // Done without having written all of its outputs, too.
  bool missing_ok = false;
  // Each attempt empties the files of its stdout and stderr, instead of adding to them.
  bool empty_streams = false;
  // So long before its time limit an attempt is sent this signal; 0: none.
  int32_t warn_signal = 0;
  Duration warn_before{0};
  // To the task's own process alone; else to each srun that it has started, for its step.
  bool warn_alone = false;
  Checkpointing checkpoint;
  // An attempt that goes on from a checkpoint executes this instead of the task's command; empty: it does not.
  std::string restart_command;
  CommandForm restart_form = CommandForm::kWords;

  /// Nothing else runs on its nodes: it says so, or has several and no ranks that would tell what it needs of
  /// each.
  bool whole_nodes() const { return shape.whole_node || (shape.nodes > 1 && ranks == 0); }
  /// What of a task with ranks is on the `index`th of so many nodes; of one without: what it asks of each.
  Shape Part(uint32_t nodes, uint32_t index) const;
  /// With less time left before its allocation ends it is not started; 0: it is whatever is left.
  Duration least_time() const;
  /// On all of its nodes together; of whole nodes those that it names.
  uint64_t all_cores() const;
  bool operator==(const Profile&) const = default;
};

constexpr double kNoBound = -std::numeric_limits<double>::infinity();

/// One task as a format hands it in. The views need to live only during the call.
struct TaskSpec {
  // Empty: a line of a line file, called by its number.
  std::string_view name = {};
  std::string_view command = {};
  CommandForm form = CommandForm::kWords;
  // None: a profile with nothing in it.
  ProfileId profile = {};
  KindId kind = {};
  std::span<const FileId> in = {}, out = {};
  // Tasks that have to be done before, and tasks that only have to have ended.
  std::span<const TaskId> after = {}, after_any = {};
  SourcePlace place = {};
  // Nothing that comes of it can be a better value of the run than that (branch and bound); -infinity: it has none. No NaN.
  double bound = kNoBound;
  // The run time in a trace.
  std::optional<Duration> recorded_run_time = {};
};

/// What of a task another one waits for.
enum class WaitsFor : uint8_t {
  // That it is done: the other one needs it.
  kSuccess,
  // That it has ended, whatever became of it.
  kEnd,
  // That it has begun: the other one reads what it writes while both run, and needs its success in the end.
  kStart,
};

/// Keeps a stream from ending, so that more tasks can be connected.
struct StreamHold {
  // Whose it is, to be released by that; empty: the stream's own.
  std::string by;
  // The task with whose end it ends; none: it lasts until it is released.
  TaskId task;
  // A flow file says so, and nobody else.
  bool in_flow = false;
};

/// Lines that go from the standard output of its writers to the standard input of its readers.
struct Stream {
  std::string name;
  // Each record goes to one of the readers; else each reader gets all.
  bool split = false;
  Records records = kLines;
  // In the order in which they were connected.
  std::vector<TaskId> writers = {}, readers = {};
  std::vector<StreamHold> holds = {};
  // It has been held, if not now.
  bool was_held = false;
  // All holds that it had have been ended at once.
  bool closed = false;
};

/// A task, and a stream that it reads or writes.
using StreamEnd = std::pair<TaskId, StreamId>;

/// Tasks and files of a flow. Grows: tasks may be added after Seal(), which is then called again.
/// Owner: one thread. Names and commands are kept in an arena; views into it live as long as the graph. Spans
/// live until the next call that adds something.
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
  /// Notes the name of an input file of the flow, for messages; returns its number for SourcePlace::source.
  uint32_t AddSource(std::string_view file_name);
  TaskId AddTask(const TaskSpec& task);
  /// Two tasks that depend on each other in both ways do so by success.
  void AddDependency(TaskId before, TaskId after, WaitsFor what = WaitsFor::kSuccess);
  /// The stream of that name, made if new.
  StreamId AddStream(std::string_view name);
  void SetSplit(StreamId stream) { streams_[stream.value].split = true; }
  void SetRecords(StreamId stream, Records records) { streams_[stream.value].records = records; }
  /// Ends of a stream. Who reads waits for nothing by that: AddDependency(writer, reader, kStart) makes it.
  void AddWriter(StreamId stream, TaskId task) {
    streams_[stream.value].writers.push_back(task);
    written_.emplace_back(task, stream);
  }
  void AddReader(StreamId stream, TaskId task) {
    streams_[stream.value].readers.push_back(task);
    read_.emplace_back(task, stream);
  }
  /// Another hold of the same name and task is the same one.
  void HoldStream(StreamId stream, StreamHold hold);
  /// The task held it once.
  void NoteHolder(StreamId stream, TaskId task);
  void ReleaseStream(StreamId stream, std::string_view by);
  /// Releases all.
  void CloseStream(StreamId stream) {
    streams_[stream.value].holds.clear();
    streams_[stream.value].closed = true;
  }
  /// The meta-program of the tasks [first, first + count), which come after all that have one.
  void SetModel(TaskId first, uint32_t count, std::string_view model);
  /// Makes room for that many more tasks, so that adding them moves nothing.
  void Reserve(size_t more_tasks, size_t more_files = 0);

  /// Finds the producer of every file (an input below an output directory is produced by that directory's
  /// task), links tasks, computes levels. kInvalid with "FILE:LINE:COLUMN: ..." for duplicate names, two
  /// producers of one file, and cycles (with their path). All problems are found, up to `max_problems`, a
  /// line each. After an error the graph is of no more use. Called again after growth it costs what was
  /// added, not what was there (unless a new task comes before an old one).
  Status Seal(size_t max_problems = 20);
  /// Tasks sealed before the last Seal() whose level it raised.
  std::span<const TaskId> relevelled() const { return relevelled_; }
  /// How often Seal() changed something.
  uint64_t seal_count() const { return seal_count_; }

  // --- reading
  size_t task_count() const { return tasks_.size(); }
  size_t file_count() const { return files_.count(); }
  size_t profile_count() const { return profiles_.size(); }
  /// Tasks of some profile run on several nodes each.
  bool has_gangs() const { return has_gangs_; }
  size_t kind_count() const { return kinds_.size(); }
  /// Never empty: "#12" (number from 1) for a task without a name.
  std::string TaskName(TaskId task) const;
  std::string_view given_name(TaskId task) const { return {record(task).text, record(task).name_size}; }
  std::string_view command(TaskId task) const {
    return {record(task).text + record(task).name_size, record(task).command_size};
  }
  CommandForm form(TaskId task) const { return record(task).form; }
  ProfileId profile_id(TaskId task) const { return record(task).profile; }
  const Profile& profile(TaskId task) const { return profiles_[record(task).profile.value]; }
  const Profile& profile(ProfileId profile) const { return profiles_[profile.value]; }
  KindId kind(TaskId task) const { return record(task).kind; }
  std::string_view kind_name(KindId kind) const;
  SourcePlace place(TaskId task) const;
  /// "FILE:LINE:COLUMN" of a place.
  std::string PlaceText(SourcePlace place) const;
  std::optional<Duration> recorded_run_time(TaskId task) const;
  /// kNoBound: it has none.
  double bound(TaskId task) const { return task.value < bounds_.size() ? bounds_[task.value] : kNoBound; }
  Level level(TaskId task) const { return levels_[task.value]; }
  std::span<const FileId> inputs(TaskId task) const {
    const Links& links = links_[task.value];
    return {io_.data() + links.inputs, links.outputs - links.inputs};
  }
  std::span<const FileId> outputs(TaskId task) const {
    const Links* links = &links_[task.value];
    return {io_.data() + links[0].outputs, links[1].inputs - links[0].outputs};
  }
  /// Tasks that wait for this one / that it waits for; each once. Valid after Seal().
  std::span<const TaskId> successors(TaskId task) const {
    const Links& links = links_[task.value];
    return {successors_.data() + links.successors, links.successor_count};
  }
  std::span<const TaskId> predecessors(TaskId task) const {
    return {predecessors_.data() + predecessor_begin_[task.value],
            predecessor_begin_[task.value + 1] - predecessor_begin_[task.value]};
  }
  /// Whether `after` waits for nothing but the end of `before`, one of its predecessors.
  bool OnlyWaits(TaskId before, TaskId after) const;
  /// Whether `after` reads what `before` makes.
  bool Reads(TaskId after, TaskId before) const;
  /// Whether `after` may begin when `before`, one of its predecessors, has begun.
  bool StartSuffices(TaskId before, TaskId after) const {
    return !starts_.empty() && std::binary_search(starts_.begin(), starts_.end(), std::pair(before, after));
  }
  const std::vector<Stream>& streams() const { return streams_; }
  /// The streams that a task reads, and those that it writes. Valid after Seal().
  std::span<const StreamEnd> streams_read(TaskId task) const { return EndsOf(read_, task); }
  std::span<const StreamEnd> streams_written(TaskId task) const { return EndsOf(written_, task); }
  std::optional<StreamId> FindStream(std::string_view name) const;
  /// The streams that a task holds, or has held.
  std::span<const StreamEnd> streams_held(TaskId task) const { return EndsOf(held_, task); }
  /// The same, of all tasks.
  const std::vector<StreamEnd>& held() const { return held_; }
  bool has_streams(TaskId task) const {
    return !streams_.empty() && (!streams_read(task).empty() || !streams_written(task).empty());
  }
  /// Meta-programs, each once, and of a task the number of its own; none: UINT32_MAX.
  const std::vector<std::string>& models() const { return models_; }
  uint32_t model(TaskId task) const;
  /// Calls each(first task, count, model), as SetModel was called.
  template <class Each>
  void EachModelled(const Each& each) const {
    for (const Modelled& m : modelled_) each(TaskId(m.first), m.count, models_[m.model]);
  }
  std::string_view file_name(FileId file) const { return files_.name(file); }
  /// The size of a file in bytes; -1: it is unknown.
  int64_t file_size(FileId file) const { return files_.size(file); }
  /// The task that makes a file; none: it exists before the flow.
  TaskId producer(FileId file) const { return files_.producer(file); }
  /// Whether the file is nobody's declared output itself, but lies below an output directory of its producer.
  bool below_output(FileId file) const { return files_.below_output(file); }
  std::optional<FileId> FindFile(std::string_view name) const { return files_.Find(name); }
  /// The task of that name, or of that number for "#12"; for "12" as well where that task has no name,
  /// or one that ends so (9_12): else another one may be meant. Builds an index at the first call.
  std::optional<TaskId> FindTask(std::string_view name) const;
  /// The task of that name, which is no number; none: there is none. Builds the same index.
  TaskId FindNamed(std::string_view name) const;

  /// Bring what the accessors above read into the cache; for loops over many tasks.
  void PrefetchLinks(TaskId task) const { harrow::Prefetch(&links_[task.value]); }
  void PrefetchInputs(TaskId task) const { harrow::Prefetch(io_.data() + links_[task.value].inputs); }
  void PrefetchSuccessors(TaskId task) const {
    harrow::Prefetch(successors_.data() + links_[task.value].successors);
  }

  /// Bytes held, without the text of names and commands.
  size_t MemoryWithoutText() const;

 private:
  friend class Sealer;

  struct Record {
    // The name, and the command behind it.
    const char* text;
    uint32_t name_size;
    uint32_t command_size;
    ProfileId profile;
    KindId kind;
    uint32_t line, column;
    uint32_t source : 24;
    CommandForm form;
  };
  /// Where a task's files begin in io_ (inputs, then outputs, up to the next task's), and its successors.
  struct Links {
    uint32_t inputs = 0;
    uint32_t outputs = 0;
    uint32_t successors = 0;
    uint32_t successor_count = 0;
  };
  const Record& record(TaskId task) const { return tasks_[task.value]; }
  static std::span<const StreamEnd> EndsOf(const std::vector<StreamEnd>& ends, TaskId task) {
    if (ends.empty()) return {};
    const auto first = std::lower_bound(ends.begin(), ends.end(), StreamEnd(task, StreamId(0)));
    auto last = first;
    while (last != ends.end() && last->first == task) ++last;
    return {first, last};
  }

  TextArena text_;
  FileTable files_;
  std::vector<Record> tasks_;
  // One more than there are tasks.
  std::vector<Links> links_;
  std::vector<Level> levels_;
  std::vector<FileId> io_;
  std::vector<TaskId> successors_;
  std::vector<TaskId> predecessors_;
  // One more than there are sealed tasks.
  std::vector<uint32_t> predecessor_begin_;
  // Which of predecessors_ are only waited for; nothing behind its end is.
  std::vector<bool> only_waits_;
  // The room of successor lists that were moved, where it is more than they fill.
  std::unordered_map<uint32_t, uint32_t> room_;
  // Empty, or the recorded run time of each task (negative: none).
  std::vector<Duration> recorded_;
  // Of the tasks up to the last that has one.
  std::vector<double> bounds_;
  std::vector<Profile> profiles_;
  bool has_gangs_ = false;
  NameIndex profile_index_;
  std::vector<std::string> kinds_;
  NameIndex kind_index_;
  std::vector<std::string> sources_;

  struct Modelled {
    uint32_t first, count, model;
  };
  std::vector<Stream> streams_;
  NameIndex stream_index_;
  // Sorted by Seal().
  std::vector<StreamEnd> read_, written_;
  // Sorted.
  std::vector<StreamEnd> held_;
  std::vector<std::string> models_;
  // Ascending.
  std::vector<Modelled> modelled_;
  // Sorted: a task, and one that may begin when it has begun.
  std::vector<std::pair<TaskId, TaskId>> starts_;

  // Not linked yet.
  // Each is a task and one before it.
  std::vector<std::pair<TaskId, TaskId>> new_dependencies_, new_waits_, new_starts_;
  std::vector<std::pair<FileId, TaskId>> second_producers_;
  // Files that sealed tasks read before anybody was known to make them.
  std::vector<FileId> late_products_;
  // How many tasks are linked.
  size_t sealed_ = 0;
  uint64_t seal_count_ = 0;
  std::vector<TaskId> relevelled_;

  mutable NameIndex names_;
  // How many tasks are in names_.
  mutable size_t named_up_to_ = 0;
};

/// Longest path in recorded run times (critical path) and its tasks; needs recorded times.
struct CriticalPath {
  Duration length{0};
  std::vector<TaskId> tasks;
};
CriticalPath FindCriticalPath(const Graph& graph);

/// The tasks that the targets need, themselves included, as one flag a task.
std::vector<bool> NeededFor(const Graph& graph, std::span<const TaskId> targets);

/// All tasks, each after those that it waits for; else in the order of their ids. The graph is sealed.
std::vector<TaskId> PrerequisitesFirst(const Graph& graph);

}  // namespace harrow::graph
