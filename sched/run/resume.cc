#include "run/resume.h"

#include <algorithm>
#include <functional>
#include <unordered_map>
#include <utility>

#include "base/text.h"
#include "formats/identity.h"
#include "journal/parts.h"
#include "made/record.h"
#include "run_dir/names.h"

// Two ways to go on. With the same numbering of tasks the journal is only added to: fates become open again.
// With another one (lines were inserted, tasks removed) a new journal is written with the new numbers, beside
// the old one, together with the new flow in PART/resume.tmp. Its renaming to PART/resume.ready is the moment
// of decision: before it the old state holds, after it the new one, and whoever comes next moves the files
// into place (FinishReplacement).

namespace harrow::run {
namespace {

using formats::Identity;
using formats::IdentityHash;

/// A server that was killed may have recorded a task's success and not its fate, a moment later. Such a task is
/// done. One that was on record as done, and was opened again, is not: when it succeeded cannot be told; nor is one that
/// read streams, which counts only when those that wrote them have succeeded, too.
std::vector<journal::TaskFate> FatesOf(const journal::History& history, const graph::Graph& graph) {
  const size_t tasks = graph.task_count();
  std::vector<journal::TaskFate> fates = journal::LastFates(history, tasks);
  std::vector<bool> was_done(tasks);
  for (const journal::FateRecord& record : history.fates) {
    if (record.task.value < tasks && record.fate == journal::TaskFate::kDone) was_done[record.task.value] = true;
  }
  for (const journal::AttemptRecord& attempt : history.attempts) {
    const uint32_t task = attempt.task.value;
    if (task < tasks && fates[task] == journal::TaskFate::kOpen && !was_done[task] &&
        journal::Succeeded(attempt) && graph.streams_read(attempt.task).empty())
      fates[task] = journal::TaskFate::kDone;
  }
  return fates;
}

std::vector<journal::NodeRecord> PresentNodes(const journal::History& history) {
  std::unordered_map<uint32_t, journal::NodeRecord> last;
  for (const journal::NodeRecord& record : history.nodes) last[record.node.value] = record;
  std::vector<journal::NodeRecord> present;
  for (const auto& [id, record] : last) {
    if (record.left_ns == 0) present.push_back(record);
  }
  return present;
}

Status GoOnInPlace(const std::shared_ptr<run_dir::RunDir>& dir, const ResumePlan& plan, const journal::History& history,
                   const RunSettings& settings, size_t tasks) {
  std::vector<journal::FateRecord> changed;
  const std::vector<journal::TaskFate> fates = journal::LastFates(history, tasks);
  for (uint32_t i = 0; i < tasks; ++i) {
    const journal::TaskFate fate = plan.done[i] ? journal::TaskFate::kDone : journal::TaskFate::kOpen;
    if (fates[i] != fate) changed.push_back({.task = TaskId(i), .fate = fate, .because = {}});
  }
  std::vector<journal::NodeRecord> left = PresentNodes(history);
  if (changed.empty() && left.empty() && history.moves.empty()) return Status();
  journal::Journal::Options options;
  options.run_id = settings.run_id;
  options.epoch = history.epoch + 1;
  Result<std::unique_ptr<journal::Journal>> journal = journal::Journal::Open(dir, options);
  if (!journal.ok()) return journal.status();
  for (const journal::FateRecord& record : changed) (*journal)->Add(record);
  // Other servers had some of the tasks.
  if (!history.moves.empty())
    (*journal)->Add(journal::HasAllTasks(0, tasks, settings.started.time_since_epoch().count()));
  for (journal::NodeRecord& record : left) {
    record.left_ns = settings.started.time_since_epoch().count();
    (*journal)->Add(std::move(record));
  }
  return (*journal)->Close();
}

Status ForgetAdded(os::FileSystem& fs, const std::string& run_dir) {
  const Status gone = fs.Remove(run_dir::AddedPath(run_dir));
  return gone.code() == Code::kNotFound ? Status() : gone;
}

/// The journal under the new numbers: what is known of the tasks that are still there.
Status WriteRenumbered(const std::string& directory, const ResumePlan& plan, const journal::History& history,
                       const RunSettings& settings, const graph::Graph& graph) {
  std::unordered_map<uint32_t, TaskId> now;
  for (uint32_t i = 0; i < plan.earlier.size(); ++i) {
    if (plan.earlier[i]) now.emplace(plan.earlier[i].value, TaskId(i));
  }
  journal::Journal::Options options;
  options.run_id = settings.run_id;
  options.epoch = history.epoch + 1;
  Result<std::unique_ptr<journal::Journal>> opened = journal::Journal::Open(directory, options);
  if (!opened.ok()) return opened.status();
  journal::Journal& journal = **opened;
  journal.SetFact("flow_id", settings.flow_id);
  for (const journal::SessionRecord& session : history.sessions) {
    journal.SetFact("started_ns", StrCat(session.started_ns));
    journal.SetFact("ended_ns", session.ended_ns == 0 ? "" : StrCat(session.ended_ns));
  }
  const std::vector<Identity> identities = formats::Identities(graph);
  std::vector<journal::TaskRecord> tasks;
  for (uint32_t i = 0; i < graph.task_count(); ++i) {
    const TaskId task(i);
    tasks.push_back({.task = task,
                     .name = graph.TaskName(task),
                     .kind = graph.kind(task) ? std::string(graph.kind_name(graph.kind(task))) : "",
                     .identity_high = identities[i].high,
                     .identity_low = identities[i].low,
                     .level = graph.level(task),
                     .cores = graph.profile(task).all_cores()});
  }
  journal.Add(std::move(tasks));
  for (journal::NodeRecord record : history.nodes) {
    if (record.left_ns == 0) record.left_ns = settings.started.time_since_epoch().count();
    journal.Add(std::move(record));
  }
  for (journal::PartRecord record : history.parts) {
    const auto found = now.find(record.task.value);
    if (found == now.end()) continue;
    record.output_task = record.OutputTask();
    record.task = found->second;
    journal.Add(std::move(record));
  }
  for (journal::AttemptRecord record : history.attempts) {
    const auto found = now.find(record.task.value);
    if (found == now.end()) continue;
    record.output_task = record.OutputTask();
    record.task = found->second;
    journal.Add(std::move(record));
  }
  for (journal::CopyRecord record : history.copies) {
    const auto found = now.find(record.task.value);
    record.task = found == now.end() ? TaskId() : found->second;
    journal.Add(std::move(record));
  }
  for (const TaskId following : plan.following) {  // FatesOf: were done, and are open again
    for (const journal::TaskFate fate : {journal::TaskFate::kDone, journal::TaskFate::kOpen})
      journal.Add(journal::FateRecord{.task = following, .fate = fate, .because = {}});
  }
  for (uint32_t i = 0; i < graph.task_count(); ++i) {
    if (plan.done[i])
      journal.Add(journal::FateRecord{.task = TaskId(i), .fate = journal::TaskFate::kDone, .because = {}});
  }
  return journal.Close();
}

/// `again`: those that run again whatever their fate was.
void DecideWhatStays(const graph::Graph& now, const std::vector<bool>& unwanted, const std::vector<journal::TaskFate>& fates,
                     const std::vector<bool>& again, ResumePlan* plan) {
  plan->done_count = plan->failed_count = 0;
  plan->following.clear();
  for (const TaskId task : graph::PrerequisitesFirst(now)) {
    const TaskId earlier = plan->earlier[task.value];
    if (!earlier) continue;
    const journal::TaskFate fate = fates[earlier.value];
    if (fate != journal::TaskFate::kDone) {
      if (fate != journal::TaskFate::kOpen && fate != journal::TaskFate::kPruned) ++plan->failed_count;
      continue;
    }
    const auto needed = now.predecessors(task);
    const bool stays = !again[task.value] && std::all_of(needed.begin(), needed.end(), [&](TaskId first) {
      // Who waited for an end has waited, even if there will be another one.
      return plan->done[first.value] || now.OnlyWaits(first, task) ||
             (first.value < unwanted.size() && unwanted[first.value]);
    });
    plan->done[task.value] = stays;
    if (stays) {
      ++plan->done_count;
    } else {
      plan->following.push_back(task);
    }
  }
}

/// Where one that reads a split stream runs, all of it is written and split again: what others had read of it was another share. Were
/// there any that are done?
bool FindSharersOfOpen(const graph::Graph& now, const std::vector<bool>& unwanted, const ResumePlan& plan,
                       std::vector<bool>* again) {
  bool found = false;
  for (const graph::Stream& stream : now.streams()) {
    const auto runs = [&](TaskId reader) {
      return !plan.done[reader.value] && !(reader.value < unwanted.size() && unwanted[reader.value]);
    };
    if (!stream.split || std::none_of(stream.readers.begin(), stream.readers.end(), runs)) continue;
    for (const TaskId reader : stream.readers) {
      if (!plan.done[reader.value]) continue;
      (*again)[reader.value] = found = true;
    }
  }
  return found;
}

/// The ends that submitted tasks have of it, those from `first` on, and who holds it beside the flow; `now_of`: what tasks are called now.
/// What the flow says of its own tasks, and that it is open, holds, unless it has been closed.
Status TakeOverStream(const graph::Stream& stream, uint32_t first, const std::function<TaskId(TaskId)>& now_of, graph::Graph* now) {
  const StreamId id = now->AddStream(stream.name);
  const graph::Stream of_flow = now->streams()[id.value];
  const auto submitted = [&](TaskId task) { return task.value >= first; };
  const auto differs = [&](const char* what) {
    return Status(Code::kInvalid, StrCat("harrow: stream ", Printable(stream.name, 60), " has ", what,
                                         " in the flow now than for tasks that were submitted to the run. Write the same, or "
                                         "resume the run without naming the flow"));
  };
  const auto join = [&](TaskId writer, TaskId reader) { now->AddDependency(writer, reader, graph::WaitsFor::kStart); };
  for (const TaskId writer : stream.writers) {
    if (!submitted(writer)) continue;
    if (!of_flow.writers.empty() && of_flow.records != stream.records) return differs("other records");
    const TaskId there = now_of(writer);
    for (const TaskId reader : now->streams()[id.value].readers) join(there, reader);
    now->AddWriter(id, there);
    now->SetRecords(id, stream.records);
  }
  for (const TaskId reader : stream.readers) {
    if (!submitted(reader)) continue;
    if (!of_flow.readers.empty() && of_flow.split != stream.split) return differs("another share");
    const TaskId there = now_of(reader);
    for (const TaskId writer : now->streams()[id.value].writers) join(writer, there);
    now->AddReader(id, there);
    if (stream.split) now->SetSplit(id);
  }
  if (stream.closed) now->CloseStream(id);
  for (const graph::StreamHold& hold : stream.holds) {
    const TaskId holder = hold.task ? now_of(hold.task) : TaskId();
    if (!hold.in_flow && (holder || !hold.task)) now->HoldStream(id, {hold.by, holder});
  }
  return {};
}

}  // namespace

Status TakeOverSubmitted(const graph::Graph& before, uint32_t submitted, graph::Graph* now) {
  if (submitted == 0 && before.streams().empty()) return {};
  const auto first = static_cast<uint32_t>(before.task_count() - submitted);
  const std::vector<Identity> old_ids = formats::Identities(before), new_ids = formats::Identities(*now);
  std::unordered_map<Identity, TaskId, IdentityHash> by_identity;
  for (uint32_t i = 0; i < new_ids.size(); ++i) by_identity.emplace(new_ids[i], TaskId(i));
  std::unordered_map<uint32_t, TaskId> taken;
  for (uint32_t i = first; i < before.task_count(); ++i) taken[i] = TaskId(static_cast<uint32_t>(now->task_count()) + i - first);
  const auto now_of = [&](TaskId task) {
    if (task.value >= first) return taken[task.value];
    if (const auto same = by_identity.find(old_ids[task.value]); same != by_identity.end()) return same->second;
    const std::string_view name = before.given_name(task);
    return name.empty() ? TaskId() : now->FindNamed(name);
  };
  std::vector<std::pair<TaskId, TaskId>> waits, ends;
  for (uint32_t i = first; i < before.task_count(); ++i) {
    const TaskId task(i);
    if (const std::string_view name = before.given_name(task); !name.empty() && now->FindNamed(name)) {
      return Status(Code::kInvalid,
                    StrCat("harrow: the flow has a task ", Printable(name, 60),
                           " now; one of that name was submitted to the run. Resume the run without naming the flow"));
    }
    for (const TaskId earlier : before.predecessors(task)) {
      const bool only_waits = before.OnlyWaits(earlier, task);
      if (!only_waits && (before.Reads(task, earlier) || before.StartSuffices(earlier, task))) continue;
      const TaskId there = now_of(earlier);
      if (!there) {
        return Status(Code::kInvalid,
                      StrCat("harrow: task ", Printable(before.TaskName(task), 60),
                             ", which was submitted to the run, waits for ", Printable(before.TaskName(earlier), 60),
                             ", which the flow no longer has. Resume the run without naming the flow"));
      }
      (only_waits ? ends : waits).emplace_back(there, taken[i]);
    }
  }
  std::vector<FileId> in, out;
  for (uint32_t i = first; i < before.task_count(); ++i) {
    const TaskId task(i);
    in.clear();
    out.clear();
    for (const FileId file : before.inputs(task)) in.push_back(now->AddFile(before.file_name(file)));
    for (const FileId file : before.outputs(task)) out.push_back(now->AddFile(before.file_name(file)));
    graph::TaskSpec spec;
    spec.name = before.given_name(task);
    spec.command = before.command(task);
    spec.form = before.form(task);
    spec.profile = now->AddProfile(before.profile(task));
    if (before.kind(task)) spec.kind = now->AddKind(before.kind_name(before.kind(task)));
    spec.in = in;
    spec.out = out;
    spec.place = before.place(task);
    now->AddTask(spec);
  }
  for (const graph::Stream& stream : before.streams()) HARROW_RETURN_IF_ERROR(TakeOverStream(stream, first, now_of, now));
  for (const auto& [holder, stream] : before.held()) {
    const TaskId there = now_of(holder);
    if (there) now->NoteHolder(*now->FindStream(before.streams()[stream.value].name), there);
  }
  for (const auto& [earlier, task] : waits) now->AddDependency(earlier, task);
  for (const auto& [earlier, task] : ends) now->AddDependency(earlier, task, graph::WaitsFor::kEnd);
  if (const Status sealed = now->Seal(); !sealed.ok()) {
    return Status(Code::kInvalid, StrCat(sealed.message(), "\nharrow: tasks that were submitted to the run do not fit "
                                                           "the flow any more. Resume the run without naming it"));
  }
  return {};
}

ResumePlan PlanResume(const graph::Graph& before, const graph::Graph& now, const std::vector<bool>& unwanted,
                      const journal::History& history) {
  ResumePlan plan;
  std::vector<Identity> old_ids, new_ids;
  if (&before != &now) {
    old_ids = formats::Identities(before);
    new_ids = formats::Identities(now);
  }
  plan.same_numbering = old_ids == new_ids;
  plan.earlier.resize(now.task_count());
  plan.done.resize(now.task_count());
  if (plan.same_numbering) {
    for (uint32_t i = 0; i < now.task_count(); ++i) plan.earlier[i] = TaskId(i);
  } else {
    std::unordered_map<Identity, TaskId, IdentityHash> by_identity;
    by_identity.reserve(before.task_count());
    for (uint32_t i = 0; i < before.task_count(); ++i) by_identity.emplace(old_ids[i], TaskId(i));
    for (uint32_t i = 0; i < now.task_count(); ++i) {
      const auto found = by_identity.find(new_ids[i]);
      if (found != by_identity.end()) {
        plan.earlier[i] = found->second;
      } else if (const std::string_view name = now.given_name(TaskId(i));
                 !name.empty() && before.FindTask(name)) {
        plan.changed.push_back(TaskId(i));
      }
    }
  }
  const std::vector<journal::TaskFate> fates = FatesOf(history, before);
  std::vector<bool> again(now.task_count());
  do {
    DecideWhatStays(now, unwanted, fates, again, &plan);
  } while (FindSharersOfOpen(now, unwanted, plan, &again));
  return plan;
}

Status ApplyResume(const std::shared_ptr<run_dir::RunDir>& dir, const ResumePlan& plan,
                   const journal::History& history, RunSettings* settings, const graph::Graph& graph,
                   const std::vector<bool>& unwanted, const made::Attempts& made_elsewhere) {
  os::FileSystem& fs = *dir;
  const std::string& run_dir = dir->path();
  made::Attempts before;
  if (!plan.same_numbering || !made_elsewhere.empty()) before = made::ReadAll(fs, run_dir, settings->flow_id);
  for (const auto& [task, attempt] : made_elsewhere) made::Note(attempt, &before);
  if (plan.same_numbering) {
    if (!made_elsewhere.empty()) HARROW_RETURN_IF_ERROR(made::WriteAll(fs, run_dir, settings->flow_id, before));
    HARROW_RETURN_IF_ERROR(GoOnInPlace(dir, plan, history, *settings, graph.task_count()));
    HARROW_RETURN_IF_ERROR(WriteFlow(fs, run_dir, *settings, graph, unwanted));
    return ForgetAdded(fs, run_dir);  // it is in the flow now
  }
  settings->flow_id = StrCat(settings->run_id, "-", history.epoch + 1);
  const std::string temporary = run_dir::ResumeTemporaryPath(run_dir);
  (void)fs.RemoveTree(temporary);
  HARROW_RETURN_IF_ERROR(fs.MakeDirectories(temporary, 0700));
  HARROW_RETURN_IF_ERROR(WriteRenumbered(temporary, plan, history, *settings, graph));
  made::Attempts made;
  for (uint32_t i = 0; i < plan.earlier.size(); ++i) {
    const auto known = plan.earlier[i] ? before.find(plan.earlier[i].value) : before.end();
    if (known == before.end()) continue;
    made[i] = known->second;
    made[i].task = i;
  }
  HARROW_RETURN_IF_ERROR(made::WriteAll(fs, temporary, settings->flow_id, made));
  HARROW_RETURN_IF_ERROR(WriteFlow(fs, temporary, *settings, graph, unwanted));
  HARROW_RETURN_IF_ERROR(fs.Rename(temporary, run_dir::ResumeReadyPath(run_dir)));
  HARROW_RETURN_IF_ERROR(FinishReplacement(*dir));
  return ForgetAdded(fs, run_dir);
}

std::string HomeOf(os::FileSystem& fs, const std::string& run_dir, const std::string& name) {
  const std::string ready = run_dir::ResumeReadyPath(run_dir);
  return fs.Stat(StrCat(ready, "/", name)).ok() ? ready : run_dir;
}

Status FinishReplacement(run_dir::RunDir& fs) {
  const std::string& run_dir = fs.path();
  const std::string ready = run_dir::ResumeReadyPath(run_dir);
  if (const Status there = fs.Stat(ready).status(); !there.ok())
    return there.code() == Code::kNotFound ? Status() : there;
  Result<std::vector<std::string>> fresh = fs.List(ready), present = fs.List(run_dir);
  if (!fresh.ok()) return fresh.status();
  if (!present.ok()) return present.status();
  const auto has = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (has(*fresh, run_dir::kJournal)) {
    int number = 1;
    while (has(*present, run_dir::KeptName(run_dir::kJournal, number))) ++number;
    // The files beside the old journal go first, so that none is ever taken for one of the new.
    std::vector<std::string> old;
    for (const std::string& name : *present) {
      if (run_dir::IsOfJournal(name) && name != run_dir::kJournal) old.push_back(name);
    }
    if (has(*present, run_dir::kJournal)) old.push_back(run_dir::kJournal);
    for (const std::string& name : old) {
      const std::string kept = run_dir::KeptName(name, number);
      HARROW_RETURN_IF_ERROR(fs.Rename(StrCat(run_dir, "/", name), StrCat(run_dir, "/", kept)));
    }
  }
  // journal.db comes first of the journal.* files: once it is in place, none of those there is old.
  for (auto name = fresh->rbegin(); name != fresh->rend(); ++name) {
    HARROW_RETURN_IF_ERROR(fs.Rename(StrCat(ready, "/", *name), StrCat(run_dir, "/", *name)));
  }
  return fs.Remove(ready);
}

}  // namespace harrow::run
