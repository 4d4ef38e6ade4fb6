#include "server/submissions.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "base/text.h"
#include "formats/command_form.h"
#include "graph/file_table.h"
#include "run/profile.h"
#include "server/connections.h"
#include "server/client_session.h"

// Who submits is told when its tasks are on disk, and only then are they in the graph: so no record can name a
// task that a crash could take away. Meanwhile more requests come; they wait, and make up the next group. What is
// about a task or file of the group itself waits for the next one, when these are in the graph: so each request
// is held against the graph alone.
//
// The chunk that is written is the chunk that is added to the graph, by what reads it after a crash. A graph that
// does not seal is of no more use, so nothing may come so far that could not be sealed: each request is sealed
// first as a graph of its own, and may not write what tasks that are there read or write. Then no task that is
// there waits for a new one, and there is no way round. But for streams (connections.cc): who reads one that is there waits for a new
// writer of it. A group has at most one request about streams, so that each is held against all that was connected before.

namespace harrow::server {
namespace {

constexpr uint32_t kMostInGroup = 65'536;     // tasks, of requests after the first
constexpr size_t kMostBytes = 64u << 20;  // of them
constexpr uint32_t kMostTasks = 10'000'000;
constexpr uint32_t kNoSource = UINT32_MAX;
constexpr uint32_t kMostCores = 65'536;
constexpr int kShown = 60;

Status Wrong(const std::string& what) {
  return Status(Code::kInvalid, what);
}

Status AnotherTask(const std::string& name) {
  return Wrong(StrCat("there is a task ", Printable(name, kShown),
                      " in the run already, and it is another one: its command, directory, resources, bound, files, or "
                      "what it waits for"));
}

Status Later() {
  return Status(Code::kUnavailable, "");
}

bool HasNul(std::string_view text) {
  return text.find('\0') != std::string_view::npos;
}

std::string Normal(const std::string& path) {
  std::string buffer;
  return std::string(graph::NormalFileName(path, &buffer));
}

/// What formats see to, said again for clients that are no command of ours.
Status CheckProfile(const graph::Profile& profile) {
  if (profile.shape.cores == 0 || profile.shape.cores > kMostCores || profile.shape.nodes == 0)
    return Wrong("a task takes at least one core, of at least one node");
  for (const std::string* text : {&profile.cwd, &profile.shell, &profile.stdin_path, &profile.stdout_path,
                                  &profile.stderr_path}) {
    if (HasNul(*text)) return Wrong("a path of a task holds a NUL");
  }
  for (const auto& [name, value] : profile.env) {
    if (name.empty() || name.find('=') != std::string::npos || HasNul(name) || HasNul(value))
      return Wrong(StrCat("'", Printable(name, kShown), "' is no name of an environment variable"));
  }
  if (profile.time_limit < Duration(0) || profile.warn_before < Duration(0))
    return Wrong("the time of a task is less than nothing");
  return {};
}

/// What formats find out of a task: how a line is started, and which kind it is.
void Complete(const pb::SubmitRequest& request, pb::SubmittedTask* task) {
  auto form = static_cast<graph::CommandForm>(task->form());
  if (task->line()) {
    const bool has_shell = static_cast<int>(task->profile()) < request.profile_size() &&
                           !request.profile(static_cast<int>(task->profile())).shell().empty();
    std::string arguments;
    form = has_shell ? graph::CommandForm::kShell : formats::Classify(task->command(), &arguments);
    if (form == graph::CommandForm::kArgv) task->set_command(std::move(arguments));
    task->set_form(static_cast<uint32_t>(form));
    task->set_line(false);
  }
  if (task->kind().empty()) task->set_kind(std::string(formats::KindName(task->command(), form)));
}

Status CheckTask(const pb::SubmitRequest& request, const pb::SubmittedTask& task) {
  if (task.form() > static_cast<uint32_t>(graph::CommandForm::kAssigned) ||
      task.form() == static_cast<uint32_t>(graph::CommandForm::kNone) || task.command().empty())
    return Wrong("a task has no command");
  const auto form = static_cast<graph::CommandForm>(task.form());
  if (!formats::HasArguments(form) && HasNul(task.command())) return Wrong("a command holds a NUL");
  HARROW_RETURN_IF_ERROR(formats::CheckCommandSize(task.command(), form));
  if (static_cast<int>(task.profile()) >= request.profile_size()) return Wrong("a task has no profile");
  if (task.has_bound() && std::isnan(task.bound())) return Wrong("the bound of a task is no number");
  if (HasNul(task.name()) || task.name().starts_with('#') || task.name().find('\n') != std::string::npos)
    return Wrong(StrCat("'", Printable(task.name(), kShown), "' cannot be the name of a task"));
  for (const auto* files : {&task.in(), &task.out()}) {
    for (const std::string& file : *files) {
      if (file.empty() || HasNul(file)) return Wrong("a file of a task has no name");
    }
  }
  return {};
}

/// The request as a graph of its own, sealed; what it waits for of the run's is not in it.
Status MakeGraph(const pb::SubmitRequest& request, graph::Graph* graph) {
  graph->AddSource("submitted");
  graph->Reserve(static_cast<size_t>(request.task_size()));
  std::vector<ProfileId> profiles;
  for (const pb::Profile& profile : request.profile()) {
    const graph::Profile read = run::ProfileFromProto(profile);
    HARROW_RETURN_IF_ERROR(CheckProfile(read));
    profiles.push_back(graph->AddProfile(read));
  }
  std::vector<FileId> in, out;
  for (const pb::SubmittedTask& task : request.task()) {
    HARROW_RETURN_IF_ERROR(CheckTask(request, task));
    in.clear();
    out.clear();
    for (const std::string& file : task.in()) in.push_back(graph->AddFile(file));
    for (const std::string& file : task.out()) out.push_back(graph->AddFile(file));
    graph::TaskSpec spec;
    spec.name = task.name();
    spec.command = task.command();
    spec.form = static_cast<graph::CommandForm>(task.form());
    spec.profile = profiles[task.profile()];
    spec.in = in;
    spec.out = out;
    graph->AddTask(spec);
  }
  const auto count = static_cast<uint32_t>(request.task_size());
  for (uint32_t n = 0; n < count; ++n) {
    const pb::SubmittedTask& task = request.task(static_cast<int>(n));
    for (const uint32_t before : task.after_new()) {
      if (before >= count) return Wrong("a task waits for one that is not there");
      graph->AddDependency(TaskId(before), TaskId(n));
    }
    for (const uint32_t before : task.after_any_new()) {
      if (before >= count) return Wrong("a task waits for one that is not there");
      graph->AddDependency(TaskId(before), TaskId(n), graph::WaitsFor::kEnd);
    }
  }
  return graph->Seal();
}

/// "a/b/c": "a/b", "a".
template <class Use>
bool AnyParent(std::string_view name, const Use& use) {
  for (size_t end = name.rfind('/'); end != std::string_view::npos && end > 0; end = name.rfind('/', end - 1)) {
    if (use(name.substr(0, end))) return true;
  }
  return false;
}

}  // namespace

Submissions::Submissions(const run::StoredFlow& flow, run::FlowBuilder* builder, uint32_t part,
                         const std::string& run_dir, std::vector<run::Submission> known, Hooks hooks)
    : flow_(flow),
      graph_(flow.graph),
      builder_(*builder),
      part_(part),
      run_path_(Normal(run_dir)),
      hooks_(std::move(hooks)) {
  for (run::Submission& submission : known) {
    if (!submission.id.empty()) known_[submission.id] = std::move(submission.tasks);
  }
}

void Submissions::Submit(pb::SubmitRequest request, uint32_t part, Told told) {
  if (!broken_.ok()) return told(broken_);
  for (pb::SubmittedTask& task : *request.mutable_task()) Complete(request, &task);
  if (Connections::Any(request)) part = part_;
  queue_.push_back({std::move(request), part, std::move(told)});
  if (!writing_) WriteNext();
}

void Submissions::WriteNext() {
  std::erase_if(queue_, [this](const Request& each) {
    return each.part != part_ && hooks_.connected && !hooks_.connected(each.part);
  });
  if (queue_.empty()) return;
  auto group = std::make_shared<Group>();
  const uint32_t part = queue_.front().part;
  group->message.set_part(part);
  std::deque<Request> of_others;  // which make up groups of their own
  std::vector<std::pair<Status, Told>> refused;
  while (!queue_.empty() && group->message.chunk().task_size() < static_cast<int>(kMostInGroup) &&
         group->bytes < kMostBytes) {
    Request& next = queue_.front();
    if (next.part != part) {
      of_others.push_back(std::move(next));
      queue_.pop_front();
      continue;
    }
    group->bytes += next.request.ByteSizeLong();
    const Result<pb::Submitted> taken = Take(next.request, group.get());
    if (taken.status().code() == Code::kUnavailable) break;
    if (!taken.ok()) {
      refused.emplace_back(taken.status(), std::move(next.told));
    } else {
      group->answers.push_back({*taken, std::move(next.told)});
    }
    queue_.pop_front();
  }
  for (; !of_others.empty(); of_others.pop_back()) queue_.push_front(std::move(of_others.back()));
  const bool writes = group->message.submission_size() > 0;
  if (writes) {
    writing_ = true;
    writing_for_ = part;
    hooks_.write(group->message, [this, group](const Status& status) { Written(*group, status); });
  }
  // Who is told may submit more at once.
  for (const auto& [why, told] : refused) told(why);
  if (writes) return;
  for (const Answer& answer : group->answers) answer.told(answer.submitted);
  if (!queue_.empty() && !writing_) WriteNext();
}

void Submissions::Written(Group& group, const Status& status) {
  writing_ = false;
  Status went = status;
  const TaskId first(static_cast<uint32_t>(graph_.task_count()));
  const auto first_file = static_cast<uint32_t>(graph_.file_count());
  if (went.ok()) went = builder_.AddGroup(group.message);
  if (went.ok()) went = builder_.Seal();
  if (!went.ok()) {
    broken_ = Status(went.code(), StrCat("no more tasks can be submitted to this run: ", went.message()));
    const Status unknown(went.code(), StrCat("it is not known whether the tasks were taken: ", went.message()));
    for (const Answer& answer : group.answers) answer.told(unknown);
    for (const Request& request : std::exchange(queue_, {})) request.told(broken_);
    return status.ok() ? hooks_.failed(went) : hooks_.closed(went);
  }
  for (const pb::AddedSubmission& submission : group.message.submission()) {
    if (submission.id().empty()) continue;
    std::vector<TaskId>& tasks = known_[submission.id()];
    for (const uint32_t task : submission.task()) tasks.push_back(TaskId(task));
  }
  const auto count = static_cast<uint32_t>(graph_.task_count()) - first.value;
  if (count > 0) {
    hooks_.added(first, count, first_file, group.message.part());
  } else if (group.message.chunk().stream_size() > 0) {
    hooks_.streams_changed();
  }
  for (const StreamId stream : group.kept) hooks_.let_end(stream);
  for (const Answer& answer : group.answers) answer.told(answer.submitted);
  if (!queue_.empty() && !writing_) WriteNext();
}

Result<pb::Submitted> Submissions::Take(const pb::SubmitRequest& request, Group* group) {
  pb::Submitted submitted;
  if (group->ids.contains(request.id())) return Later();
  if (const auto known = known_.find(request.id()); known != known_.end()) {
    for (const TaskId task : known->second) submitted.add_task(task.value);
    submitted.set_known(static_cast<uint32_t>(known->second.size()));
    return submitted;
  }
  if (request.task_size() == 0 && request.stream_size() == 0) return Wrong("there is no task in what was submitted");
  if (graph_.task_count() + static_cast<size_t>(request.task_size()) > kMostTasks)
    return Wrong(StrCat("a run holds at most ", kMostTasks, " tasks"));
  graph::Graph graph;
  HARROW_RETURN_IF_ERROR(MakeGraph(request, &graph));
  const bool streams = Connections::Any(request);
  if (streams) HARROW_RETURN_IF_ERROR(Connections::Check(request));
  if (streams && group->message.chunk().stream_size() > 0) return Later();
  const auto count = static_cast<uint32_t>(request.task_size());
  const uint32_t next = builder_.tasks() + static_cast<uint32_t>(group->message.chunk().task_size());
  std::vector<uint32_t> ids;     // of each task of the request
  std::vector<bool> there(count);
  std::vector<std::vector<uint32_t>> after(count), after_any(count);
  uint32_t fresh = 0;
  for (uint32_t n = 0; n < count; ++n) {
    const pb::SubmittedTask& task = request.task(static_cast<int>(n));
    if (!task.name().empty()) {
      if (group->names.contains(task.name())) return Later();
      if (const TaskId known = graph_.FindNamed(task.name())) {
        if (!SameTask(known, task, graph, TaskId(n))) return AnotherTask(task.name());
        there[n] = true;
        ids.push_back(known.value);
      }
    }
    if (!there[n]) {
      ids.push_back(next + fresh++);
      for (const FileId file : graph.outputs(TaskId(n)))
        HARROW_RETURN_IF_ERROR(CheckOutput(std::string(graph.file_name(file)), *group));
    }
    Result<std::vector<uint32_t>> before = FindAll(task.after(), *group);
    if (!before.ok()) return before.status();
    after[n] = *std::move(before);
    before = FindAll(task.after_any(), *group);
    if (!before.ok()) return before.status();
    after_any[n] = *std::move(before);
  }
  for (uint32_t n = 0; n < count; ++n) {
    const pb::SubmittedTask& task = request.task(static_cast<int>(n));
    for (const uint32_t before : task.after_new()) after[n].push_back(ids[before]);
    for (const uint32_t before : task.after_any_new()) after_any[n].push_back(ids[before]);
    if (there[n] && !WaitsForTheSame(TaskId(ids[n]), after[n], after_any[n])) return AnotherTask(task.name());
  }
  Connections connections(graph_, request, graph, ids, next);
  if (streams) {
    std::vector<std::vector<uint32_t>> before = after;
    for (uint32_t n = 0; n < count; ++n) before[n].insert(before[n].end(), after_any[n].begin(), after_any[n].end());
    HARROW_RETURN_IF_ERROR(connections.Plan(before));
    HARROW_RETURN_IF_ERROR(KeepFromEnding(connections.NeedOpen(), group));
    for (const StreamId stream : connections.HeldAgain()) {
      if (!KeepFromEnding({stream}, group).ok()) connections.LeaveEnded(stream);
    }
  }

  pb::FlowChunk& chunk = *group->message.mutable_chunk();
  const uint32_t first_profile = builder_.profiles() + static_cast<uint32_t>(chunk.profile_size());
  *submitted.mutable_task() = {ids.begin(), ids.end()};
  submitted.set_known(count - fresh);
  if (streams) connections.Write(&chunk);
  if (fresh == 0 && (!streams || request.stream_size() == 0)) return submitted;
  for (const pb::Profile& profile : request.profile()) *chunk.add_profile() = profile;
  for (uint32_t n = 0; n < count; ++n) {
    if (there[n]) continue;
    const pb::SubmittedTask& task = request.task(static_cast<int>(n));
    if (!task.name().empty()) group->names.insert(task.name());
    pb::StoredTask& stored = *chunk.add_task();
    stored.set_name(task.name());
    stored.set_command(task.command());
    stored.set_form(task.form());
    stored.set_profile(first_profile + task.profile());
    stored.set_kind(KindId::kNone);
    if (task.has_bound()) stored.set_bound(task.bound());
    if (!task.kind().empty()) {
      const auto [kind, added] = group->kinds.try_emplace(
          task.kind(), builder_.kinds() + static_cast<uint32_t>(chunk.kind_size()));
      if (added) chunk.add_kind(task.kind());
      stored.set_kind(kind->second);
    }
    for (const FileId file : graph.inputs(TaskId(n))) stored.add_in(FileNumber(graph.file_name(file), group));
    for (const FileId file : graph.outputs(TaskId(n))) {
      stored.add_out(FileNumber(graph.file_name(file), group));
    }
    for (const uint32_t before : after[n]) stored.add_after(before);
    for (const uint32_t before : after_any[n]) stored.add_after_any(before);
    stored.set_source(kNoSource);
  }
  pb::AddedSubmission& told = *group->message.add_submission();
  told.set_id(request.id());
  *told.mutable_task() = submitted.task();
  if (!request.id().empty()) group->ids.insert(request.id());
  return submitted;
}

/// All of them, or none.
Status Submissions::KeepFromEnding(const std::vector<StreamId>& streams, Group* group) {
  if (const std::optional<StreamId> ended = hooks_.keep_from_ending(streams)) {
    return Wrong(StrCat("stream ", Printable(graph_.streams()[ended->value].name, kShown),
                        " has ended: all that write it have, and nobody holds it open, or its tasks are another allocation's. Connect tasks to it before, or hold it open "
                        "(harrow submit --open-stream)"));
  }
  group->kept.insert(group->kept.end(), streams.begin(), streams.end());
  return {};
}

/// A file of the run gets a number of the group's as well (FlowBuilder): its name finds the same file.
uint32_t Submissions::FileNumber(std::string_view name, Group* group) const {
  pb::FlowChunk& chunk = *group->message.mutable_chunk();
  const auto [file, added] = group->files.try_emplace(
      std::string(name), builder_.files() + static_cast<uint32_t>(chunk.file_size()));
  if (added) {
    pb::StoredFile& stored = *chunk.add_file();
    stored.set_name(file->first);
    stored.set_size(-1);
    AnyParent(name, [&](std::string_view parent) { return !group->directories.emplace(parent).second; });
  }
  return file->second;
}

Result<std::vector<uint32_t>> Submissions::FindAll(
    const google::protobuf::RepeatedPtrField<std::string>& names, const Group& group) const {
  std::vector<uint32_t> tasks;
  for (const std::string& name : names) {
    if (group.names.contains(name)) return Later();
    const std::optional<TaskId> task = graph_.FindTask(name);
    if (!task) return Wrong(UnknownTask(graph_, name));
    tasks.push_back(task->value);
  }
  return tasks;
}

/// No task that is there may have to do with what a new one writes.
Status Submissions::CheckOutput(const std::string& name, const Group& group) {
  const auto in_group = [&](std::string_view path) { return group.files.contains(std::string(path)); };
  HARROW_RETURN_IF_ERROR(CheckPlace(name));
  if (in_group(name) || AnyParent(name, in_group) || group.directories.contains(name)) return Later();
  NoteDirectories();
  if (const std::optional<FileId> file = graph_.FindFile(name)) {
    const TaskId producer = graph_.producer(*file);
    return Wrong(producer ? StrCat(Printable(name, kShown), " is written by task ",
                                   Printable(graph_.TaskName(producer), kShown), " already")
                          : StrCat(Printable(name, kShown),
                                   " is read by a task of the run that takes it to be there already; it cannot "
                                   "be written by a new one"));
  }
  if (directories_.contains(name)) {
    return Wrong(StrCat("files below ", Printable(name, kShown),
                        " are read or written by tasks of the run; a new one cannot write all of it"));
  }
  std::string owner;
  AnyParent(name, [&](std::string_view parent) {
    const std::optional<FileId> file = graph_.FindFile(parent);
    const TaskId producer = file ? graph_.producer(*file) : TaskId();
    if (producer) owner = graph_.TaskName(producer);
    return static_cast<bool>(producer);
  });
  if (owner.empty()) return {};
  return Wrong(StrCat(Printable(name, kShown), " lies in what task ", Printable(owner, kShown), " writes"));
}

/// By the names alone, as links may change: what a task writes through one is its own doing.
Status Submissions::CheckPlace(const std::string& name) const {
  const std::string path = name.starts_with('/') ? name : Normal(StrCat(flow_.settings.submit_dir, "/", name));
  if (IsOrHolds(path, run_path_) || IsOrHolds(run_path_, path))
    return Wrong(StrCat(Printable(name, kShown), " is in the run directory, or holds it"));
  return {};
}

void Submissions::NoteDirectories() {
  for (; directories_up_to_ < graph_.file_count(); ++directories_up_to_) {
    AnyParent(graph_.file_name(FileId(directories_up_to_)), [&](std::string_view parent) {
      return !directories_.emplace(parent).second;  // then its own are known as well
    });
  }
}

/// `here`: the task in the request's graph.
bool Submissions::SameTask(TaskId there, const pb::SubmittedTask& task, const graph::Graph& graph,
                           TaskId here) const {
  const auto same_files = [&](std::span<const FileId> a, std::span<const FileId> b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](FileId x, FileId y) {
      return graph_.file_name(x) == graph.file_name(y);
    });
  };
  return graph_.command(there) == task.command() &&
         graph_.bound(there) == (task.has_bound() ? task.bound() : graph::kNoBound) &&
         static_cast<uint32_t>(graph_.form(there)) == task.form() && Connections::Same(graph_, there, task) &&
         graph_.profile(there) == graph.profile(here) &&
         same_files(graph_.inputs(there), graph.inputs(here)) &&
         same_files(graph_.outputs(there), graph.outputs(here));
}

/// Besides the tasks whose files it reads.
bool Submissions::WaitsForTheSame(TaskId there, std::vector<uint32_t> done, std::vector<uint32_t> ended) const {
  for (std::vector<uint32_t>* tasks : {&done, &ended}) {
    std::sort(tasks->begin(), tasks->end());
    tasks->erase(std::unique(tasks->begin(), tasks->end()), tasks->end());
  }
  for (const TaskId before : graph_.predecessors(there)) {
    const bool to_end = std::erase(ended, before.value) > 0;
    if (graph_.OnlyWaits(before, there)) {
      if (!to_end) return false;
    } else if (std::erase(done, before.value) == 0 && !graph_.Reads(there, before) && !graph_.StartSuffices(before, there)) {  // who is waited for both ways has to succeed
      return false;
    }
  }
  return done.empty() && ended.empty();
}

}  // namespace harrow::server
